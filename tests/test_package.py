"""The package as installed: what an import costs, the public names, and the cache of compiled kernels."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import maxmargin as mm
from maxmargin.data.rows import rows
from maxmargin.jit import kernel
from maxmargin.losses.base import value
from maxmargin.losses.hinge import Hinge
from maxmargin.problem import scalar_risk

PACKAGE = Path(mm.__file__).parent

# Prints, for all kernels of the package together: signatures compiled or loaded, and how often the cache was hit and missed.
KERNELS = """
import importlib, json, pkgutil, warnings
import numpy as np

def kernels():
    import maxmargin
    found = {}
    for module in pkgutil.walk_packages(maxmargin.__path__, "maxmargin."):
        if not module.name.endswith("__main__"):
            for item in vars(importlib.import_module(module.name)).values():
                if hasattr(item, "plain") and hasattr(item, "cached") and hasattr(item, "fresh"):
                    found[item.plain.__module__ + "." + item.plain.__qualname__] = item
    return found

def report(**more):
    every = kernels()
    hits, misses = ({name: sum(getattr(k.cached.stats, what).values()) for name, k in every.items()} for what in
                    ("cache_hits", "cache_misses"))
    print(json.dumps({
        "kernels": sorted(every),
        "used": sorted(name for name, k in every.items() if k.cached.signatures),
        "fresh": sorted(name for name, k in every.items() if k.fresh.signatures),
        "hits": {name: n for name, n in hits.items() if n},
        "misses": {name: n for name, n in misses.items() if n},
        **more,
    }))
"""

# Two classes on zero data without an intercept: the optimum is C n = 8.
FIT = """
import maxmargin as mm
warnings.simplefilter("ignore")
model = mm.SVMClassifier(C=2.0, fit_intercept=False, max_iter=2, random_state=0).fit(np.zeros((4, 2)), [0, 1, 0, 1])
report(primal=model.certificate_.primal, converged=model.certificate_.converged)
"""


def run(program: str, **environment) -> str:
    """The standard output of a Python program in a process of its own, compiled kernels switched on."""
    inherited = {name: text for name, text in os.environ.items() if name not in ("NUMBA_DISABLE_JIT", "NUMBA_CACHE_DIR")}
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    done = subprocess.run(command, env=inherited | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def measured(program: str, **environment) -> dict:
    return json.loads(run(program, **environment).splitlines()[-1])


# ---- names ---------------------------------------------------------------------------------------------------


def test_public_names():
    assert sorted(mm.__all__) == list(mm.__all__) and len(set(mm.__all__)) == len(mm.__all__)
    for name in mm.__all__:
        assert getattr(mm, name).__module__.startswith("maxmargin.") and getattr(mm, name).__doc__
    assert {"SVMClassifier", "SVMRegressor", "DualCoordinate", "ExplicitProblem", "solve", "Progress"} <= set(mm.__all__)
    assert {"Certificate", "History", "Record", "Result"} <= set(mm.__all__)


def test_public_methods_are_documented():
    for cls in (mm.SVMClassifier, mm.SVMRegressor):
        for name in ("fit", "predict", "regularization_path"):
            assert getattr(cls, name).__doc__
        for name in cls().get_params(deep=False):
            assert re.search(rf"^    [\w, \\]*\b{name}\b", cls.__doc__, re.MULTILINE), name


def test_version():
    from importlib.metadata import version

    assert mm.__version__ == version("maxmargin")


def test_types_are_announced():
    assert (PACKAGE / "py.typed").is_file()


def test_only_two_files_name_numba():
    naming = [p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*.py") if re.search(r"^\s*(import|from) numba", p.read_text(), re.M)]
    assert sorted(naming) == ["jit.py", "lanes.py"]


# ---- import --------------------------------------------------------------------------------------------------


@pytest.mark.compiled
def test_import_compiles_nothing():
    program = """
        from numba.core import event
        with event.install_recorder("numba:compile") as recorder:
            import maxmargin
            assert len(recorder.buffer) == 0
            found = kernels()
            assert len(recorder.buffer) == 0
            import numpy
            maxmargin.SVMClassifier(max_iter=1).fit(numpy.eye(2), [0, 1])
            assert len(recorder.buffer) > 0, "the recorder does not work"
    """
    out = measured(KERNELS + "import maxmargin\nreport()")
    assert len(out["kernels"]) > 10
    assert out["used"] == out["fresh"] == [] and out["hits"] == out["misses"] == {}
    run(KERNELS + "warnings.simplefilter('ignore')\n" + textwrap.dedent(program))


@pytest.mark.compiled
def test_import_is_quick():
    """Processor time, best of three, beyond what scikit-learn and SciPy take that every estimator needs."""
    clock = "\nimport time; print(time.process_time())"
    base = (
        "import scipy.sparse, scipy.linalg, joblib, sklearn.base, sklearn.utils.validation, sklearn.utils.multiclass, "
        "sklearn.utils.class_weight, sklearn.utils._param_validation, sklearn.utils.extmath"
    )
    alone, ours = (min(float(run(program + clock)) for _ in range(3)) for program in (base, base + "\nimport maxmargin"))
    assert ours - alone < 1.0


def test_import_leaves_the_process_alone():
    """No output, no warnings filter, no signal handler, no thread, no random state is touched."""
    program = """
        import signal, threading, warnings
        import numba, numpy, scipy.linalg, sklearn.base, sklearn.utils.validation, sklearn.callback
        state = warnings.filters[:], signal.getsignal(signal.SIGINT), threading.active_count(), numpy.random.get_state()[1].tolist()
        import maxmargin
        assert (warnings.filters[:], signal.getsignal(signal.SIGINT), threading.active_count(),
                numpy.random.get_state()[1].tolist()) == state
    """
    assert run(program) == ""


# ---- the cache -----------------------------------------------------------------------------------------------


@pytest.mark.compiled
def test_cache_is_filled_then_used_and_missed_after_an_edit(tmp_path):
    """On a copy of the package. An edit in a file in which no kernel stands must be seen too: numba itself watches only theirs."""
    copy = tmp_path / "copy"
    shutil.copytree(PACKAGE, copy / "maxmargin", ignore=shutil.ignore_patterns("__pycache__"))
    place = {"PYTHONPATH": str(copy), "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}

    def fit():
        return measured(KERNELS + "import maxmargin\nassert maxmargin.__file__.startswith(" + repr(str(copy)) + ")" + FIT, **place)

    first = fit()
    assert first["converged"] and first["primal"] == pytest.approx(8.0)
    assert "maxmargin.solvers.ascent.scalar_pass" in first["misses"] and first["hits"] == {} and first["fresh"] == []
    files = list((tmp_path / "cache").rglob("*.nbc"))
    assert len(files) == sum(first["misses"].values())
    assert not list(copy.rglob("*.nb?"))

    second = fit()
    assert second["primal"] == first["primal"] and second["misses"] == {}
    assert second["hits"] == first["misses"] and sorted(second["used"]) == sorted(second["hits"])
    assert sorted((tmp_path / "cache").rglob("*.nbc")) == sorted(files)

    loss = copy / "maxmargin" / "losses" / "hinge.py"
    text = loss.read_text()
    changed = text.replace("return loss.cap[i] * max(", "return 2.0 * loss.cap[i] * max(")
    assert changed != text
    loss.write_text(changed)
    third = fit()
    assert third["primal"] == pytest.approx(16.0)
    assert third["hits"] == {} and third["misses"] == first["misses"]


@pytest.mark.compiled
def test_cache_is_missed_after_a_comment_in_any_file(tmp_path):
    """The stamp covers every file: names, and contents."""
    copy = tmp_path / "maxmargin"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))

    def stamp():
        program = "import maxmargin.jit as jit; print(jit.STAMP, jit.source_stamp() == jit.STAMP)"
        return run(program, PYTHONPATH=str(tmp_path), PYTHONDONTWRITEBYTECODE="1").split()

    stamps = [stamp(), stamp()]
    assert stamps[0] == stamps[1] and stamps[0][1] == "True"
    for edit in ("losses/hinge.py", "data/rows.py", "prior.py"):
        path = copy / edit
        path.write_text(path.read_text() + "\n# changed\n")
        stamps.append(stamp())
    (copy / "losses" / "extra.py").write_text("")
    stamps.append(stamp())
    (copy / "losses" / "extra.py").rename(copy / "losses" / "other.py")
    stamps.append(stamp())
    assert len({text for text, _ in stamps}) == len(stamps) - 1


@pytest.mark.compiled
def test_no_folder_for_the_cache(tmp_path):
    """Where nothing can be written kernels are compiled anew and everything else works."""
    program = """
        from numba.core import caching
        caching.CacheImpl._locator_classes = []
    """
    locators = textwrap.dedent(program)
    if "NUMBA_CACHE_LOCATOR_CLASSES" in os.environ:
        pytest.fail("unset NUMBA_CACHE_LOCATOR_CLASSES for this test")
    out = measured(locators + KERNELS + FIT, NUMBA_CACHE_DIR=str(tmp_path))
    assert out["converged"] and out["primal"] == pytest.approx(8.0)
    assert "maxmargin.solvers.ascent.scalar_pass" in out["used"] and out["hits"] == {}
    assert list(tmp_path.iterdir()) == []


class Mine(NamedTuple):
    """A user's own loss: |score - target|."""

    target: np.ndarray


@value.register(Mine)
def _(loss, i, score):
    return abs(score - loss.target[i])


def test_kernels_take_a_loss_of_the_user():
    X = np.arange(6.0).reshape(3, 2)
    w, target = np.array([1.0, -2.0, 0.5]), np.array([0.0, 1.0, 7.0])
    risk = scalar_risk(rows(X, 1.0), Mine(target), w, 0, 3)
    assert risk == pytest.approx(np.abs(X @ w[:2] + 0.5 - target).sum())


@pytest.mark.compiled
def test_kernels_never_cache_classes_of_the_user():
    X, w, ones = rows(np.eye(2), 1.0), np.zeros(3), np.ones(2)
    scalar_risk(X, Hinge(ones, ones, ones), w, 0, 2)
    assert any("Hinge" in str(signature) for signature in scalar_risk.cached.signatures)
    scalar_risk(X, Mine(ones), w, 0, 2)
    assert any("Mine" in str(signature) for signature in scalar_risk.fresh.signatures)
    assert not any("Mine" in str(signature) for signature in scalar_risk.cached.signatures)
    assert not any("Hinge" in str(signature) for signature in scalar_risk.fresh.signatures)


@pytest.mark.compiled
def test_kernels_never_cache_classes_of_the_user_inside_a_tuple():
    @kernel
    def total(pair):
        loss, w = pair
        return value(loss, 0, w[0])

    assert total((Mine(np.ones(1)), np.zeros(1))) == 1.0
    assert len(total.fresh.signatures) == 1 and len(total.cached.signatures) == 0


@pytest.mark.compiled
def test_kernel_keeps_its_name_and_its_plain_text():
    assert scalar_risk.__name__ == "scalar_risk"
    X, w, ones = rows(np.eye(2), 1.0), np.array([0.5, -0.25, 1.0]), np.ones(2)
    loss = Hinge(ones, ones, ones)
    assert scalar_risk.plain(X, loss, w, 0, 2) == pytest.approx(scalar_risk(X, loss, w, 0, 2), rel=1e-15)


def test_uncompiled_kernels_give_the_same_answer():
    program = """
        import numpy as np
        import maxmargin as mm
        rng = np.random.default_rng(0)
        X = rng.standard_normal((20, 3))
        for y in (X[:, 0] > 0, np.arange(20) % 3):
            print(mm.SVMClassifier(tol=1e-5, random_state=0).fit(X, y).certificate_.primal)
        print(mm.SVMRegressor(tol=1e-5, random_state=0).fit(X, X[:, 0]).certificate_.primal)
    """
    plain, compiled = (np.array(run(program, NUMBA_DISABLE_JIT=flag).split(), float) for flag in ("1", "0"))
    np.testing.assert_allclose(plain, compiled, rtol=2e-5)
