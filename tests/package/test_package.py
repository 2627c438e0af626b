"""The package as installed: what an import costs, the public names, and the cache of compiled kernels."""

import inspect
import io
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import textwrap
import time
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from helpers.source_tree import PACKAGE, imports, modules

import maxmargin as mm
from maxmargin import jit
from maxmargin.data.rows import rows
from maxmargin.jit import cache, compiling
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
            assert re.search(rf"^[\w, \\]*\b{name}\b", inspect.getdoc(cls), re.MULTILINE), name


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
    files = list((tmp_path / "cache" / "maxmargin").glob("*-numba*/*.nbc"))
    assert len(files) == sum(first["misses"].values()) + 1  # the first kernel, by which numba is tried
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
    monkeypatch.setattr(cache, "PACKAGE", first)
    elsewhere = cache.source_stamp()
    monkeypatch.setattr(cache, "PACKAGE", copy)
    stamps, plain = [cache.source_stamp()], 0
    assert stamps[0] == elsewhere  # the place of the package does not matter
    for path in sorted(copy.rglob("*.py")):
        path.write_text(path.read_text() + "\n# changed\n")
        if path.relative_to(copy).parts[0] in jit.PLAIN:
            plain += 1
            assert cache.source_stamp() == stamps[-1], path
        else:
            stamps.append(cache.source_stamp())
    (copy / "losses" / "extra.py").write_text("")
    stamps.append(cache.source_stamp())
    (copy / "losses" / "extra.py").rename(copy / "losses" / "other.py")
    stamps.append(cache.source_stamp())
    assert plain > 15 and len(stamps) > 20 and len(set(stamps)) == len(stamps)


def test_what_is_not_stamped_is_not_compiled():
    """No kernel can see a constant or a function of a plain file: none stands there, and nothing stamped imports it."""
    known = modules()
    plain = {module for module, path in known.items() if path.relative_to(PACKAGE).parts[0] in jit.PLAIN}
    for module in plain:
        assert not re.search(r"@(kernel|jitable|generic)|\.register\(", known[module].read_text()), module
    for module, targets in imports(known).items():
        assert module in plain or not targets & plain, module


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """Of a function, in a folder of its own."""
    monkeypatch.setattr(cache.numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    for found in (cache.folder, cache.warn_not_kept):
        found.cache_clear()
    yield cache.Shelf(test_version, pickle.dumps)
    for found in (cache.folder, cache.warn_not_kept):
        found.cache_clear()


class Alike(NamedTuple):
    """Two of these look the same and are not."""

    hidden: str

    def __repr__(self):
        return "alike"


def test_one_form_of_a_kernel_is_never_taken_for_another(shelf):
    other = cache.Shelf(test_version, pickle.dumps)  # another process
    for k in "ab":
        shelf.save(k, f"code of {k}")
        other.save(Alike(k), f"code of {k}")
    assert [shelf.load("a"), other.load("b"), other.load("c")] == ["code of a", "code of b", None]
    assert shelf.load(Alike("a")) is None and shelf.load(Alike("b")) == "code of b"


@pytest.mark.parametrize("left", [b"", b"\0" * 9, b"half"])
def test_a_damaged_file_of_a_kernel_is_compiled_anew(shelf, left):
    shelf.save("a", "code")
    shelf.path("a").write_bytes(left)
    assert shelf.load("a") is None
    shelf.save("a", "code")
    assert shelf.load("a") == "code"


def test_a_full_disk_for_the_cache(shelf, monkeypatch):
    """What cannot be kept serves one process, and one warning says so."""
    shelf.save("first", "code of the first")

    def without_room(path, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(type(shelf.path("a")), "write_bytes", without_room)
        with pytest.warns(RuntimeWarning, match="cannot be kept in .*No space left.*Set NUMBA_CACHE_DIR"):
            shelf.save("second", "code of the second")
        shelf.save("third", "nothing is said any more")
    assert shelf.load("second") is None and shelf.load("first") == "code of the first"
    assert [path.suffix for path in cache.folder().iterdir()] == [".nbc"] and cache.keeps_kernels()


def test_folders_of_other_versions_are_removed_when_nobody_uses_them(shelf):
    """None that may be in use: used within 30 days, unless many others are newer."""
    root, now = cache.folder().parent, time.time()
    ages = {"a" * 16: 29.0, "b" * 16: 31.0, "c" * 16: 0.0}
    for name, days in ages.items():
        (root / f"{name}-numba0.61.0-cpu").mkdir(parents=True)
        os.utime(root / f"{name}-numba0.61.0-cpu", (now - days * cache.DAY,) * 2)
    (root / "notes").mkdir()
    os.utime(root / "notes", (0.0, 0.0))
    shelf.save("a", "code")
    assert {path.name[:3] for path in root.iterdir()} == {"aaa", "ccc", "not", cache.STAMP[:3]}
    for k in range(cache.MOST):
        (root / f"{k:016}-numba0.61.0-cpu").mkdir()
    cache.sweep(root, now)
    assert {path.name[:3] for path in root.iterdir()} == {"000", "ccc", "not", cache.STAMP[:3]}


def test_the_folder_is_marked_as_used(shelf):
    shelf.save("a", "code")
    os.utime(cache.folder(), (0.0, 0.0))
    cache.folder.cache_clear()
    assert time.time() - cache.folder().stat().st_mtime < cache.DAY


@pytest.mark.parametrize(
    ("system", "environment", "expected"),
    [
        ("linux", {"HOME": "/home/me"}, "/home/me/.cache"),
        ("linux", {"HOME": "/home/me", "XDG_CACHE_HOME": "/fast"}, "/fast"),
        ("darwin", {"HOME": "/Users/me"}, "/Users/me/Library/Caches"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local"),
    ],
)
def test_the_folder_of_the_user(system, environment, expected, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(cache.sys, "platform", system)
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    assert cache.user_folder().as_posix() == expected


def test_a_folder_beside_the_program_and_no_home(shelf, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cache.numba.config, "CACHE_DIR", "beside")
    assert cache.keeps_kernels() and cache.folder().parent == tmp_path / "beside" / "maxmargin"
    cache.folder.cache_clear()
    monkeypatch.setattr(cache.numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(cache, "user_folder", lambda: cache.Path("~/.cache"))
    assert not cache.keeps_kernels() and list(tmp_path.iterdir()) == [tmp_path / "beside"]


@pytest.mark.compiled
def test_no_folder_for_the_cache(tmp_path):
    """Where nothing can be written kernels are compiled anew, one warning says so, and everything else works."""
    (tmp_path / "a file").write_text("")
    fit = FIT.replace('warnings.simplefilter("ignore")', 'warnings.simplefilter("ignore"); seen = []; '
                      "warnings.showwarning = lambda message, *rest: seen.append(str(message)); "
                      'warnings.simplefilter("always", RuntimeWarning)')
    out = measured(KERNELS + fit.replace("report(", "report(seen=seen, "), NUMBA_CACHE_DIR=str(tmp_path / "a file"))
    assert out["converged"] and out["primal"] == pytest.approx(8.0)
    assert "maxmargin.solvers.ascent.linear.scalar_pass" in out["used"] and out["hits"] == {}
    assert len(out["seen"]) == 1 and "each process compiles them anew" in out["seen"][0]
    assert [path.name for path in tmp_path.iterdir()] == ["a file"]


# ---- what is said of compiling ---------------------------------------------------------------------------------

WAITING = """
    from maxmargin.jit import COMPILING
    COMPILING.patience = 0.0
    for name in ("one", "two"):
        with COMPILING:
            COMPILING.tell(name)
            if COMPILING.timer is not None:
                COMPILING.timer.join()
"""


@pytest.mark.parametrize("quiet", ["", "1"])
def test_a_terminal_is_told_once_of_compiling(quiet):
    pty = pytest.importorskip("pty")
    here, there = pty.openpty()
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WAITING)], env=os.environ | {"MAXMARGIN_QUIET": quiet}, stderr=there, check=True
    )
    os.write(there, b"end")
    said = os.read(here, 10_000).decode()
    os.close(here), os.close(there)
    assert said.count("compiles for this machine, once (python -m maxmargin.warm does it ahead;") == (not quiet)


def test_a_notebook_is_told_of_compiling(monkeypatch):
    monkeypatch.delenv("MAXMARGIN_QUIET", raising=False)
    for home, watched in {"ipykernel.iostream": True, "io": False}.items():
        monkeypatch.setattr(sys, "stderr", type("Stream", (io.StringIO,), {"__module__": home})())
        assert compiling.is_watched() == watched
    monkeypatch.setattr(sys, "stderr", None)
    assert not compiling.is_watched()


def test_a_pipe_is_not_told_of_compiling():
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(WAITING)], capture_output=True, text=True, check=True)
    assert done.stderr == done.stdout == ""


@pytest.mark.compiled
def test_verbose_says_what_is_compiled(capsys):
    @jit.kernel
    def doubled(x):
        return 2.0 * x

    with jit.COMPILING.aloud(1):
        doubled(1.0)
        doubled(2.0)
    said = capsys.readouterr().err.split()
    assert said[:3] == ["maxmargin", "compiles", "doubled"] and said.count("doubled") == 1
    doubled(1)
    assert capsys.readouterr().err == ""


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
