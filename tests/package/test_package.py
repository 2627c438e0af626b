"""The package as installed: what an import costs, the public names, and the cache of compiled kernels."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from functools import partial
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from helpers.source_tree import PACKAGE, imports, modules
from numba.core.caching import IndexDataCacheFile

import maxmargin as mm
from maxmargin import jit
from maxmargin.data.rows import rows
from maxmargin.losses.base import value
from maxmargin.losses.hinge import Hinge
from maxmargin.problems.linear import scalar_risk

# `report` prints which kernels of the package were used, and how often the cache was hit and missed for each.
KERNELS = """
import importlib, json, pkgutil, warnings
import numpy as np

# Compiled by another library, which is imported on top.
TRITON = "losses.entry_kernels", "losses.tensor_kernels", "losses.topk_kernels", "solvers.device.kernels"

def kernels():
    import maxmargin
    found = {}
    for module in pkgutil.walk_packages(maxmargin.__path__, "maxmargin."):
        if not module.name.endswith(("__main__", *TRITON)):
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
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("NUMBA_")}
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
        thing = getattr(mm, name)
        home = thing.__name__ if isinstance(thing, ModuleType) else thing.__module__
        assert home.startswith("maxmargin.") and thing.__doc__
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


def test_only_one_folder_names_numba():
    naming = [path for path in PACKAGE.rglob("*.py") if re.search(r"^\s*(import|from) numba", path.read_text(), re.MULTILINE)]
    assert {path.parent.relative_to(PACKAGE).as_posix() for path in naming} == {"jit"}


# ---- import --------------------------------------------------------------------------------------------------


@pytest.mark.compiled
def test_import_compiles_nothing():
    program = """
        import numba
        from numba.core import event
        with event.install_recorder("numba:compile") as recorder:
            import maxmargin
            kernels()
            seen = len(recorder.buffer)
            numba.njit(lambda x: x + 1)(1)
            report(seen=seen, after=len(recorder.buffer))
    """
    out = measured(KERNELS + textwrap.dedent(program))
    assert out["seen"] == 0 < out["after"] and len(out["kernels"]) > 10
    assert out["used"] == out["fresh"] == [] and out["hits"] == out["misses"] == {}


@pytest.mark.compiled
def test_import_is_quick():
    """Processor time, best of three, beyond what the parts of scikit-learn and SciPy take that every estimator needs. The first
    of them may have to make the bytecode that an installation has."""
    program = """
        import time
        import joblib, scipy.linalg, scipy.sparse
        import sklearn.base, sklearn.utils._param_validation, sklearn.utils.class_weight, sklearn.utils.extmath
        import sklearn.utils.multiclass, sklearn.utils.validation
        before = time.process_time()
        import maxmargin
        print(time.process_time() - before)
    """
    assert min(float(run(program, PYTHONDONTWRITEBYTECODE="")) for _ in range(3)) < 2.0


def test_import_leaves_the_process_alone():
    """No output, no warnings filter, no signal handler, no thread, no random state is touched."""
    program = """
        import signal, threading, warnings
        import numba, numpy, scipy.linalg, sklearn.base, sklearn.utils.validation
        def state():
            random = numpy.random.get_state()[1].tolist()
            return warnings.filters[:], signal.getsignal(signal.SIGINT), threading.active_count(), random
        before = state()
        import maxmargin
        assert state() == before
    """
    assert run(program) == ""


# ---- the cache -----------------------------------------------------------------------------------------------


@pytest.mark.compiled
def test_cache_is_filled_then_used_and_missed_after_an_edit(tmp_path):
    """On a copy of the package. The edit is in a file where no kernel stands: numba itself would not see it."""
    copy = tmp_path / "copy"
    shutil.copytree(PACKAGE, copy / "maxmargin", ignore=shutil.ignore_patterns("__pycache__"))
    place = {"PYTHONPATH": str(copy), "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}

    def fit():
        return measured(KERNELS + f"import maxmargin\nassert maxmargin.__file__.startswith({str(copy)!r})" + FIT, **place)

    first = fit()
    assert first["converged"] and first["primal"] == pytest.approx(8.0)
    assert "maxmargin.solvers.ascent.linear.scalar_pass" in first["misses"] and first["hits"] == {} and first["fresh"] == []
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


def test_stamp_covers_what_compiles(tmp_path, monkeypatch):
    """Its contents and its name; an edit elsewhere recompiles nothing."""
    first, copy = tmp_path / "first" / "maxmargin", tmp_path / "second" / "maxmargin"
    shutil.copytree(PACKAGE, first, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(first, copy)
    monkeypatch.setattr(jit, "PACKAGE", first)
    elsewhere = jit.source_stamp()
    monkeypatch.setattr(jit, "PACKAGE", copy)
    stamps, plain = [jit.source_stamp()], 0
    assert stamps[0] == elsewhere  # the place of the package does not matter
    for path in sorted(copy.rglob("*.py")):
        path.write_text(path.read_text() + "\n# changed\n")
        if path.relative_to(copy).parts[0] in jit.PLAIN:
            plain += 1
            assert jit.source_stamp() == stamps[-1], path
        else:
            stamps.append(jit.source_stamp())
    (copy / "losses" / "extra.py").write_text("")
    stamps.append(jit.source_stamp())
    (copy / "losses" / "extra.py").rename(copy / "losses" / "other.py")
    stamps.append(jit.source_stamp())
    assert plain > 15 and len(stamps) > 20 and len(set(stamps)) == len(stamps)


def test_what_is_not_stamped_is_not_compiled():
    """No kernel can see a constant or a function of a plain file: none stands there, and nothing stamped imports it."""
    known = modules()
    plain = {module for module, path in known.items() if path.relative_to(PACKAGE).parts[0] in jit.PLAIN}
    for module in plain:
        assert not re.search(r"@(kernel|jitable|generic)|\.register\(", known[module].read_text()), module
    for module, targets in imports(known).items():
        assert module in plain or not targets & plain, module


@pytest.mark.compiled
def test_processes_that_compile_at_once(tmp_path):
    """Two kernels of one text, saved by two processes that do not see each other's: neither is ever taken for the other."""
    files = [IndexDataCacheFile(str(tmp_path), "kernel-1.py311", jit.STAMP) for _ in range(2)]
    for file in files:
        file.save = partial(jit.save_apart, file)
    one, two = files
    write = one._save_index

    def meanwhile(overloads):
        write(overloads)
        two._load_index = dict  # it looked before the other wrote
        two.save("second", "code of the second")
        del two._load_index

    one._save_index = meanwhile
    one.save("first", "code of the first")
    assert one.load("first") in (None, "code of the first")
    assert one.load("second") in (None, "code of the second")
    again = IndexDataCacheFile(str(tmp_path), "kernel-1.py311", "another version")
    jit.save_apart(again, "third", "its code")
    assert again.load("third") == "its code" and len(list(tmp_path.glob("*.nbc"))) == 1  # what is out of date is gone


@pytest.mark.compiled
def test_a_full_disk_for_the_cache(tmp_path):
    """What cannot be kept serves one process, and nothing names it."""
    file = IndexDataCacheFile(str(tmp_path), "kernel-1.py311", jit.STAMP)
    file.save = partial(jit.save_apart, file)
    file.save("first", "code of the first")

    def without_room(name, data):
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file, "_save_data", without_room)
        file.save("second", "code of the second")
    assert file.load("second") is None and file.load("first") == "code of the first"


@pytest.mark.compiled
def test_no_folder_for_the_cache(tmp_path):
    """Where nothing can be written kernels are compiled anew and everything else works."""
    nowhere = "from numba.core import caching\ncaching.CacheImpl._locator_classes = []\n"
    out = measured(nowhere + KERNELS + FIT, NUMBA_CACHE_DIR=str(tmp_path))
    assert out["converged"] and out["primal"] == pytest.approx(8.0)
    assert "maxmargin.solvers.ascent.linear.scalar_pass" in out["used"] and out["hits"] == {}
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
    risk = scalar_risk(rows(X, 1.0), Mine(target), w, 0, 3, np.zeros(1))
    assert risk == pytest.approx(np.abs(X @ w[:2] + 0.5 - target).sum())


@pytest.mark.compiled
def test_kernels_never_cache_classes_of_the_user():
    X, w, ones = rows(np.eye(2), 1.0), np.zeros(3), np.ones(2)
    scalar_risk(X, Hinge(ones, ones, ones), w, 0, 2, np.zeros(1))
    assert any("Hinge" in str(signature) for signature in scalar_risk.cached.signatures)
    scalar_risk(X, Mine(ones), w, 0, 2, np.zeros(1))
    assert any("Mine" in str(signature) for signature in scalar_risk.fresh.signatures)
    assert not any("Mine" in str(signature) for signature in scalar_risk.cached.signatures)
    ours = [
        str(signature) for signature in scalar_risk.fresh.signatures if "Dense" in str(signature)
    ]  # rows of a user's are fresh
    assert not any("Hinge" in text for text in ours)


@pytest.mark.compiled
def test_kernels_never_cache_classes_of_the_user_inside_a_tuple():
    @jit.kernel
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
    found = [risk(X, loss, w, 0, 2, np.zeros(1)) for risk in (scalar_risk.plain, scalar_risk)]
    assert found[0] == pytest.approx(found[1], rel=1e-15)


@pytest.mark.compiled
def test_uncompiled_kernels_give_the_same_answer():
    program = """
        import numpy as np
        import maxmargin as mm
        X = np.random.default_rng(0).standard_normal((20, 3))
        classify, regress = mm.SVMClassifier(tol=1e-5, random_state=0), mm.SVMRegressor(tol=1e-5, random_state=0)
        tasks = (classify, X[:, 0] > 0), (classify, np.arange(20) % 3), (regress, X[:, 0])
        values = [model.fit(X, y).certificate_.primal for model, y in tasks]
    """
    here = {}
    exec(textwrap.dedent(program), here)
    plain = json.loads(run(textwrap.dedent(program) + "print(values)", NUMBA_DISABLE_JIT="1"))
    np.testing.assert_allclose(plain, here["values"], rtol=2e-5)
