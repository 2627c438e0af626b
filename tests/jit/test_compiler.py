"""Functions without machine code of their own: what kernels make of them; and versions of numba that lack what this takes."""

import ast
import gc
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import njit
from numba.core.compiler import CompilerBase

from maxmargin.jit import compiling, jitable, jitable_call, kernel, products
from maxmargin.jit.compiler import LinkedLibrary

pytestmark = pytest.mark.compiled


@jitable
def checked(x):
    if x[0] > 1.0:
        raise ValueError("more than one")
    if x[0] < -1.0:
        print("less than", -1)
    return x[0]


@jitable_call
def twice(x):
    return 2.0 * checked(x)


@kernel
def four_times(x):
    return twice(x) + 2.0 * checked(x)


def test_what_is_linked_in_prints_and_raises(capsys):
    assert four_times(np.ones(1)) == 4.0
    assert four_times(np.full(1, -2.0)) == -8.0
    assert capsys.readouterr().out == "less than -1\n" * 2
    with pytest.raises(ValueError, match="more than one"):
        four_times(np.full(1, 2.0))


@kernel
def thrice(x):
    return 3.0 * checked(x)


def test_only_the_kernel_gets_machine_code(monkeypatch):
    libraries = []
    compile_core = CompilerBase._compile_core

    def seen(compiler):
        result = compile_core(compiler)
        libraries.append(compiler.state["library"])
        return result

    monkeypatch.setattr(CompilerBase, "_compile_core", seen)
    assert thrice.fresh(np.ones(1, np.float32)) == 3.0  # not one from the cache
    *inner, outer = libraries
    assert inner and all(type(one) is LinkedLibrary for one in inner)
    assert type(outer) is not LinkedLibrary
    assert gc.isenabled()


@njit
def elsewhere(x):
    return twice(x)


def test_functions_compiled_by_numba_itself_may_call_them():
    assert elsewhere(np.ones(1)) == 2.0


@jitable
def halved(x):
    def half(a):
        return 0.5 * a

    return half(x[0])


@kernel
def quarter(x):
    return 0.5 * halved(x)


def test_a_function_within_a_function():
    assert quarter(np.ones(1)) == 0.25


@jitable_call
def inner_sum(x):
    return x[0] + checked(x)


@jitable_call
def outer_sum(x):
    return inner_sum(x) + checked(x)


@kernel
def sums(x):
    return checked(x) + outer_sum(x) + inner_sum(x)


def test_what_is_called_on_several_ways_is_linked_once():
    assert sums(np.ones(1)) == 6.0


@kernel
def extremes(a, b):
    return max(a, b), min(a, b), max(a, b, 3), min((a, b))


@pytest.mark.parametrize("a", [1.0, -2.5, np.nan, np.inf, 7, -3, np.float32(0.1), True])
@pytest.mark.parametrize("b", [0.5, np.nan, 2])
def test_the_larger_and_the_smaller_of_two_are_as_in_python(a, b):
    np.testing.assert_array_equal(extremes.fresh(a, b), extremes.plain(a, b))


# ---- another version of numba ----------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
NUMBA = Path(find_spec("numba").origin).parent
JIT = Path(find_spec("maxmargin.jit").origin).parent
PUBLIC = {"numba", "numba.types", "numba.extending"}


def private_names():
    """What the package names of numba's private parts: imports, and attributes and methods that numba itself defines."""
    parts = [path.read_text() for path in (NUMBA / "core").glob("*.py")]
    own = {name for text in parts for name in re.findall(r"(?:def |self\.)(_[a-z]\w*)", text)}
    passes = {name for file in ("codegen", "compiler", "compiler_machinery") for name in
              re.findall(r"def ([a-z]+_\w+)", (NUMBA / "core" / f"{file}.py").read_text())}
    imported, attributes = set(), set()
    for path in JIT.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numba" and node.module not in PUBLIC:
                imported |= {f"{node.module}:{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                assert not any(alias.name.startswith("numba.") for alias in node.names), path
            elif path.name == "compiler.py":
                name = getattr(node, "attr", None) or (node.name if isinstance(node, ast.FunctionDef) else "")
                attributes |= {name} & (own | passes)
    return sorted(imported), sorted(attributes)


IMPORTED, ATTRIBUTES = private_names()

# A process for each name, which it takes away before maxmargin is imported. What they have in common is imported once.
WITHOUT = """
import builtins, importlib.machinery, json, os, re, sys, traceback, warnings
import numpy, scipy.sparse, scipy.linalg, sklearn.base, sklearn.utils.validation, joblib

names, cache = json.loads(sys.argv[1]), sys.argv[2]
if ":" in names[0]:
    import numba

def take_away(name):
    module, _, imported = name.rpartition(":")
    if module:
        plain = builtins.__import__
        def without(wanted, scope=None, local=None, names=(), level=0):
            if wanted == module and imported in (names or ()) and (scope or {}).get("__name__", "").startswith("maxmargin"):
                raise ImportError(f"cannot import name {imported!r} from {module!r}")
            return plain(wanted, scope, local, names, level)
        builtins.__import__ = without
        return
    loader = importlib.machinery.SourceFileLoader  # another name for it in all of numba
    plain, word = loader.get_code, re.compile(rf"\\b{name}\\b".encode())
    def get_code(self, fullname):
        if fullname.split(".")[0] == "numba":
            text = self.get_data(self.path)
            if word.search(text):
                return compile(word.sub(f"{name}_as_it_is_called_now".encode(), text), self.path, "exec", dont_inherit=True)
        return plain(self, fullname)
    loader.get_code = get_code

def tried(name):
    take_away(name)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", RuntimeWarning)
        import maxmargin
        from maxmargin.data.rows import listed_norms, rows
        found = numpy.empty(3)
        listed_norms(rows(numpy.ones((3, 2)), 0.0), numpy.empty(0), found, 0)
        assert found.tolist() == [2.0] * 3
    said = [str(one.message) for one in seen if issubclass(one.category, RuntimeWarning)]
    assert not said or (len(said) == 1 and "is tested with numba" in said[0]), said
    return len(said)

def in_a_child(name):
    os.environ["NUMBA_CACHE_DIR"] = os.path.join(cache, name.replace(":", "-"))
    child = os.fork()
    if not child:
        try:
            os._exit(tried(name))
        except BaseException:
            traceback.print_exc()
            os._exit(2)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, 1):
        print("without", name, code, file=sys.stderr)
    return code

told = [name for name in names if in_a_child(name) or in_a_child(name)]  # the second time, kernels are loaded
print(json.dumps(told))
"""


def test_what_is_private_of_numba_stands_in_one_file():
    assert len(IMPORTED) > 10 and len(ATTRIBUTES) > 8
    for path in JIT.parent.rglob("*.py"):
        assert path.name == "compiler.py" or not re.search(r"numba\.core|numba import core", path.read_text()), path


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("names", [IMPORTED, ATTRIBUTES], ids=["imports", "attributes"])
def test_numba_without_a_private_name(names, tmp_path):
    """A kernel gives the same, and one warning is said where more than a little time is lost."""
    done = subprocess.run([sys.executable, "-c", WITHOUT, json.dumps(names), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    told = json.loads(done.stdout)
    assert told == names if names is IMPORTED else len(told) > len(names) / 2


def test_a_fit_by_plain_numba_has_the_same_certificate(tmp_path):
    fit = """
import numpy as np, maxmargin as mm
X = np.random.default_rng(0).standard_normal((20, 3))
found = mm.SVMClassifier(max_iter=10_000, tol=1e-9, random_state=0).fit(X, X[:, 0] > 0).certificate_
"""
    lacks = "import numba.core.untyped_passes as passes; del passes.WithLifting; import warnings; warnings.simplefilter('ignore')"
    program = lacks + fit + "from maxmargin import jit; assert jit.compiler is None\nprint(repr([found.primal, found.dual]))"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    here: dict = {}
    exec(fit, here)
    found = here["found"]
    np.testing.assert_allclose(ast.literal_eval(done.stdout), [found.primal, found.dual], rtol=1e-12)
    assert list(tmp_path.iterdir()) == []


def test_products_without_the_blas_of_numba(monkeypatch):
    monkeypatch.setattr(products, "GEMM", "not_there")

    @kernel
    def both(A, B, out, more):
        products.outer_products(A, B, out)
        products.add_products(A, B, more)

    A, B = np.random.default_rng(0).standard_normal((2, 3, 3))
    found, more = np.full((3, 3), 7.0), np.ones((3, 3))
    both.fresh(A, B, found, more)
    np.testing.assert_allclose(found, A @ B.T)
    np.testing.assert_allclose(more, 1.0 + A.T @ B)


def test_the_versions_that_are_tested_stand_in_one_place():
    from packaging.version import Version

    oldest, newest = map(Version, compiling.TESTED)
    installed = Version(Version(numba.__version__).base_version)
    assert installed.release[:2] <= newest.release, f"numba {installed} is newer than {newest}: raise TESTED in jit/compiling.py"
    [floor] = [one for one in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"] if "numba>" in one]
    assert floor == f"numba>={oldest}"
