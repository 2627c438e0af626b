# Every target sets up what it needs in .venv, once: the stamps say what has been installed there.
#   make demo | test | test-long | fuzz | lint | coverage | bench | clean | distclean        PYTHON=python3.12 make ... chooses an interpreter

PYTHON ?= python3
# Kernels are compiled in the process that first needs them: a file of tests stays with one.
PYTEST_ARGS ?= -n 2 --dist loadfile
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip -qq --disable-pip-version-check

unexport PYTHONPATH PYTHONHOME PIP_USER PIP_TARGET PIP_PREFIX
.PHONY: demo test test-long fuzz lint coverage bench clean distclean
.NOTPARALLEL:
.DELETE_ON_ERROR:

demo: $(VENV)/.demo
	$(PY) -m maxmargin.demo

test: $(VENV)/.test
	$(PY) -m pytest $(PYTEST_ARGS) -m "not long"

# The few tests that would take `make test` beyond ten minutes on two cores.
test-long: $(VENV)/.test
	$(PY) -m pytest $(PYTEST_ARGS) -m long

# Random problems, any number: make fuzz FUZZ_ARGS="--count 10000 --seed 1 --jobs 8". What is done is kept in .fuzz.
fuzz: $(VENV)/.test
	$(PY) -m tests.fuzz $(FUZZ_ARGS)

lint: $(VENV)/.test
	$(PY) -m ruff check .
	$(PY) -m mypy

# Uncompiled, so that the lines of the kernels count.
coverage: $(VENV)/.test
	NUMBA_DISABLE_JIT=1 $(PY) -m coverage run -m pytest -m "not compiled"
	$(PY) -m coverage report

bench: $(VENV)/.bench
	$(PY) -m benchmarks all

$(VENV)/.demo: EXTRA := plot
$(VENV)/.test: EXTRA := dev
$(VENV)/.bench: EXTRA := bench
$(VENV)/.demo $(VENV)/.test $(VENV)/.bench: pyproject.toml | $(VENV)/.made
	@echo "installing maxmargin[$(EXTRA)] into $(VENV)"
	@$(PIP) install --editable ".[$(EXTRA)]"
	@touch $@

# Some systems ship Python without ensurepip: there the interpreter's own pip puts one into the environment.
$(VENV)/.made:
	@command -v "$(PYTHON)" >/dev/null || { echo "maxmargin needs Python 3.11 or later: $(PYTHON) was not found; try make PYTHON=/path/to/python" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "maxmargin needs Python 3.11 or later: $(PYTHON) is %s; try make PYTHON=/path/to/python" % sys.version.split()[0])'
	@if "$(PYTHON)" -c 'import ensurepip' 2>/dev/null; then "$(PYTHON)" -m venv $(VENV); \
	else "$(PYTHON)" -m venv --without-pip $(VENV) && "$(PYTHON)" -m pip -qq --python $(PY) install pip; fi
	@touch $@

clean:
	rm -rf build dist .fuzz .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
