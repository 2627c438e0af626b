# Every target sets up what it needs in .venv, once: the stamps say what has been installed there.
#   make demo | test | test-long | test-exhaustive | test-tensors | test-gpu | fuzz | lint | coverage | coverage-kernels
#        package | pythons | oldest | newest | bench-quick | bench | clean | distclean
#   PYTHON=python3.12 make ... chooses an interpreter

PYTHON ?= python3
QUICK := not long and not exhaustive
# Kernels are compiled in the process that first needs them: a file of tests stays with one.
PYTEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder
# Interpreters that the wheel is tried with, and those that run a part of the suite; those not found are left out, and named.
PYTHONS ?= 3.11 3.12 3.13 3.14
SUITE_PYTHONS ?= 3.12 3.13 3.14
OLDEST_PYTHON ?= 3.11
NEWEST_PYTHON ?= 3.13
# What speaks of the newest versions only: names of compiled functions, signatures of scikit-learn's own methods.
NEW_ONLY := $(addprefix tests/,jit/ package/test_public_names.py)
# Where Python, numba, scikit-learn, SciPy, data frames, files, drawing and graphs meet the library: what another version of them may break.
SEAM_TESTS ?= $(addprefix tests/,contracts/test_contracts.py contracts/test_plugins.py data/ estimators/test_bad_input.py estimators/test_sklearn.py \
	jit/ $(addprefix package/test_,ci.py docs.py house.py package.py plots.py public_names.py results.py warm.py) persistence/ regularizers/ \
	solvers/test_behaviour.py structures/test_structures_bad_input.py utils/)
VENV := .venv
DIST := build/dist
PY := $(VENV)/bin/python
INSTALL := bin/python -m pip -qq --disable-pip-version-check install

# $(call environment,python,folder): a new one. Some systems ship Python without ensurepip: its own pip puts one there.
environment = if "$(1)" -c 'import ensurepip' 2>/dev/null; then "$(1)" -m venv --clear $(2); \
	else "$(1)" -m venv --clear --without-pip $(2) && "$(1)" -m pip -qq --python $(2)/bin/python install pip; fi

unexport PYTHONPATH PYTHONHOME PIP_USER PIP_TARGET PIP_PREFIX
.PHONY: demo test test-long test-exhaustive test-tensors test-gpu fuzz lint coverage coverage-kernels package dist pythons oldest newest bench-quick bench clean distclean always
.NOTPARALLEL:
.DELETE_ON_ERROR:

demo: $(VENV)/.demo
	$(PY) -m maxmargin.demo

test: $(VENV)/.test
	$(PY) -m pytest $(PYTEST_ARGS) -m "$(QUICK)"

# The tests that would take `make test` beyond nine minutes on two cores.
test-long: $(VENV)/.test
	$(PY) -m pytest $(PYTEST_ARGS) -m long

# Fits killed 52 times and 10,000 damaged files: a quarter of an hour.
test-exhaustive: $(VENV)/.test
	$(PY) -m pytest $(PYTEST_ARGS) -rP -m exhaustive

# Those that need torch: tensors in host memory, and the same on a GPU.
TENSOR_TESTS := $(addprefix tests/,data/test_tensors.py data/test_tensor_targets.py data/test_streamed.py data/test_device_sources.py \
	losses/test_tensor_losses.py solvers/test_device.py solvers/test_device_bundle.py estimators/test_host_tensors.py)
test-tensors: $(VENV)/.gpu
	$(PY) -m pytest $(PYTEST_ARGS) $(TENSOR_TESTS) "tests/package/test_docs.py::test_code_runs_as_printed[gpu.md]"

test-gpu: $(VENV)/.gpu
	MAXMARGIN_TEST_DEVICE=cuda $(PY) -m pytest -q $(TENSOR_TESTS)

# Random problems, any number: make fuzz FUZZ_ARGS="--count 10000 --seed 1 --jobs 8". What is done is kept in .fuzz.
fuzz: $(VENV)/.test
	$(PY) -m tests.fuzz $(FUZZ_ARGS)

lint: $(VENV)/.test
	$(PY) -m ruff check .
	$(PY) -m mypy

# The lines of Python that the suite runs, as a figure: compiled code is left out, since nobody sees which of its lines ran.
coverage: $(VENV)/.test
	@mkdir -p build && $(PY) .ci/counted.py >build/coverage.ini
	$(PY) -m pytest $(PYTEST_ARGS) -q -m "$(QUICK)" --cov --cov-config=build/coverage.ini --cov-report=term:skip-covered
	@$(MAKE) coverage-kernels

# The contracts uncompiled, so that the lines of the kernels count.
coverage-kernels: $(VENV)/.test
	@mkdir -p build
	NUMBA_DISABLE_JIT=1 COVERAGE_FILE=build/.coverage $(PY) -m coverage run -m pytest -q -m "not compiled" tests/contracts
	COVERAGE_FILE=build/.coverage $(PY) -m coverage json -q -o build/kernels.json
	$(PY) .ci/kernels.py build/kernels.json

# The wheel, made from the sdist, in a clean environment without extras for each interpreter.
package: dist $(addprefix bare-,$(PYTHONS))

dist: $(VENV)/.test
	rm -rf $(DIST)
	@$(PY) -m build --outdir $(DIST) . >build.log 2>&1 && rm build.log || { cat build.log; exit 1; }
	$(PY) .ci/contents.py $(DIST)

bare-%: always
	@python=$$(.ci/interpreter $*) || { test $$? -eq 1; exit; }; $(call environment,$$python,build/bare-$*) && \
	build/bare-$*/$(INSTALL) $(DIST)/*.whl && build/bare-$*/bin/python -W error .ci/smoke.py

# $(call seams,folder,more for pip,tests): the part of the suite that is about seams, with the wheel, in this environment.
seams = build/$(1)/$(INSTALL) $(2) "$$(echo $(DIST)/*.whl)[test]" && build/$(1)/bin/python -m pytest $(PYTEST_ARGS) -m "$(QUICK)" $(3)

# On each interpreter: without extras, then that part.
pythons: package $(addprefix seams-,$(SUITE_PYTHONS))

seams-%: always
	@! .ci/interpreter $* >/dev/null 2>&1 || { $(call seams,bare-$*,,$(SEAM_TESTS)); }

# That part with the oldest versions that pyproject.toml allows, of everything.
oldest: dist
	@python=$$(.ci/interpreter $(OLDEST_PYTHON)) || { test $$? -eq 1; exit; }; \
	$(call environment,$$python,build/oldest) && $(PY) .ci/floors.py >build/oldest.txt && \
	$(call seams,oldest,--constraint build/oldest.txt,$(filter-out $(NEW_ONLY),$(SEAM_TESTS)))

# That part with the newest numba, released or not yet: for a job of each night.
newest: dist
	@python=$$(.ci/interpreter $(NEWEST_PYTHON)) || { test $$? -eq 1; exit; }; \
	$(call environment,$$python,build/newest) && $(call seams,newest,"numba>=0.dev0",$(SEAM_TESTS))

# Every benchmark in a form of seconds, on generated data, in an environment with that extra only.
bench-quick: always
	@$(call environment,$(PYTHON),build/bench) && build/bench/$(INSTALL) ".[bench]" && build/bench/bin/python -m benchmarks all --quick

bench: $(VENV)/.bench
	$(PY) -m benchmarks all

$(VENV)/.demo: EXTRA := plot
$(VENV)/.test: EXTRA := dev
$(VENV)/.bench: EXTRA := bench
$(VENV)/.gpu: EXTRA := dev,gpu
$(VENV)/.demo $(VENV)/.test $(VENV)/.gpu $(VENV)/.bench: pyproject.toml | $(VENV)/.made
	@echo "installing maxmargin[$(EXTRA)] into $(VENV)"
	@$(VENV)/$(INSTALL) --editable ".[$(EXTRA)]"
	@touch $@

$(VENV)/.made:
	@command -v "$(PYTHON)" >/dev/null || { echo "maxmargin needs Python 3.11 or later: $(PYTHON) was not found; try make PYTHON=/path/to/python" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "maxmargin needs Python 3.11 or later: $(PYTHON) is %s; try make PYTHON=/path/to/python" % sys.version.split()[0])'
	@$(call environment,$(PYTHON),$(VENV))
	@touch $@

clean:
	rm -rf build build.log dist .fuzz .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
