"""Values that a fingerprint must tell apart, and values that are the same to it, also in another process."""

import json
from collections import defaultdict, namedtuple
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property, partial, wraps
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp
from numba import njit
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import maxmargin as mm
from maxmargin.data.gram import PrecomputedGram
from maxmargin.data.table import table_of
from maxmargin.extend import BinaryLoss, value
from maxmargin.persistence.fingerprint import fingerprint
from maxmargin.structures import Structure
from maxmargin.structures.encoded.python import Custom

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
TWO = (X[:, 0] > 0).astype(int)


# ---- functions ---------------------------------------------------------------------------------------------------------


def by_closure(gamma):
    return lambda A, B: rbf_kernel(A, B, gamma=gamma)


def by_default(gamma):
    return lambda A, B, gamma=gamma: rbf_kernel(A, B, gamma=gamma)


def by_keyword(gamma):
    def kernel(A, B, *, gamma=gamma):
        return rbf_kernel(A, B, gamma=gamma)

    return kernel


def by_attribute(gamma):
    def kernel(A, B):
        return rbf_kernel(A, B, gamma=kernel.gamma)

    kernel.gamma = gamma
    return kernel


def by_text(text, name="kernel", **names):
    """As a script or a notebook defines it, with these globals."""
    names |= {"__name__": "__main__", "rbf_kernel": rbf_kernel, "np": np}
    exec(text, names)
    return names[name]


def by_global(gamma):
    return by_text("def kernel(A, B): return rbf_kernel(A, B, gamma=GAMMA)", GAMMA=gamma)


def by_function(gamma):
    return by_text(f"def scaled(A): return {gamma} * A\ndef kernel(A, B): return scaled(A) @ B.T")


def by_inner_function(gamma):
    return by_text("def kernel(A, B):\n def scaled(A): return GAMMA * A\n return scaled(A) @ B.T", GAMMA=gamma)


def by_module(gamma):
    settings = ModuleType("settings")
    settings.kernels = ModuleType("settings.kernels")
    settings.kernels.GAMMA = gamma
    return by_text("def kernel(A, B): return rbf_kernel(A, B, gamma=settings.kernels.GAMMA)", settings=settings)


def by_decorator(gamma):
    def decorated(function):
        @wraps(function)
        def kernel(A, B):
            return function(gamma * A, B)

        return kernel

    return decorated(rbf_kernel)


def by_cache(gamma):
    return cache(lambda a, b: gamma * a * b)


def by_numba(gamma):
    @njit
    def kernel(a, b):
        return gamma * a * b

    return kernel


def by_recursion(gamma):
    def even(k):
        return k == 0 or odd(k - 1)

    def odd(k):
        return k != 0 and even(k - 1) and gamma > 0

    return even


# ---- objects -----------------------------------------------------------------------------------------------------------


class Kernel:
    def __init__(self, gamma):
        self.gamma = gamma

    def __call__(self, A, B):
        return rbf_kernel(A, B, gamma=self.gamma)

    def scaled(self, A, B):
        return self(A, B)


class Slotted:
    __slots__ = ("_gamma",)

    def __init__(self, gamma):
        self._gamma = gamma

    def __call__(self, A, B):
        return rbf_kernel(A, B, gamma=self._gamma)


@dataclass
class Extended:
    degree: int = 2

    def __call__(self, A, B):
        return rbf_kernel(A, B, gamma=self.gamma)


def extended(gamma):
    found = Extended()
    found.gamma = gamma
    return found


class Named(NamedTuple):
    gamma: float

    def __call__(self, A, B):
        return rbf_kernel(A, B, gamma=self.gamma)


class Family(Kernel):
    """A tree of objects that know each other."""

    def __init__(self, gamma):
        super().__init__(gamma)
        self.parent, self.children = self, [self]


class Lazy(Kernel):
    @cached_property
    def scale(self):
        return 2.0 * self.gamma


class Remembering(Kernel):
    """A memo, which is no part of what pickle takes."""

    def __init__(self, gamma):
        super().__init__(gamma)
        self.memo = {}

    def __call__(self, A, B):
        return self.memo.setdefault((A, B), self.gamma * A * B)

    def __getstate__(self):
        return {"gamma": self.gamma}


def by_class(gamma):
    class Local:
        scale = gamma

        def __call__(self, A, B):
            return rbf_kernel(A, B, gamma=self.scale)

    return Local()


def by_class_code(gamma):
    return by_text(f"class Local:\n def __call__(self, A, B): return rbf_kernel(A, B, gamma={gamma})", "Local")()


def by_base(gamma):
    class Base:
        @property
        def scale(self):
            return gamma

    class Derived(Base):
        def __call__(self, A, B):
            return rbf_kernel(A, B, gamma=super().scale)

    return Derived()


def in_container(kind):
    def made(gamma):
        found = kind([gamma, 2.0]) if kind is not dict else {"gamma": gamma}
        return lambda A, B: rbf_kernel(A, B, gamma=found)

    return made


class Counted(list):
    pass


def counted(gamma):
    found = Counted([1, 2])
    found.gamma = gamma
    return found


# ---- what plugs in -----------------------------------------------------------------------------------------------------


class Corner(BinaryLoss):
    def __init__(self, width=0.5):
        self.width = width

    def of(self, sign, margin, cap):
        return None


def by_registration(gamma):
    """A loss whose functions are registered, as `maxmargin.extend` has it."""
    made = namedtuple("Made", "sign cap")

    class Own(BinaryLoss):
        def of(self, sign, margin, cap):
            return made(sign, cap)

    @value.register(made)
    def _(loss, i, score):
        return gamma * loss.cap[i]

    return Own()


class Tagged(Structure):
    def size(self, X, y):
        return 1

    def joint_feature(self, x, y):
        return np.array([y * x.sum()])

    def loss(self, y_true, y):
        return float(y_true != y)


def by_state(gamma):
    found = Tagged()
    found.costs = {"a": gamma}
    return found


BY_GAMMA = {
    **{make.__name__: make for make in (by_closure, by_default, by_keyword, by_attribute, by_global, by_function)},
    **{make.__name__: make for make in (by_inner_function, by_module, by_decorator, by_cache, by_numba, by_recursion)},
    **{make.__name__: make for make in (Kernel, Slotted, extended, Named, Family, Lazy, by_class, by_class_code, by_base)},
    **{f"a {kind.__name__}": in_container(kind) for kind in (list, tuple, set, frozenset, dict, np.array)},
    "a partial": lambda gamma: partial(rbf_kernel, gamma=gamma),
    "a partial of a partial": lambda gamma: partial(partial(rbf_kernel, gamma=gamma), np.eye(2)),
    "another argument of a partial": lambda gamma: partial(rbf_kernel, np.full((2, 2), gamma)),
    "a method": lambda gamma: Kernel(gamma).scaled,
    "a subclass of list": counted,
    "a default": lambda gamma: defaultdict(lambda: gamma),
    "a namespace": lambda gamma: SimpleNamespace(gamma=gamma),
    "a kernel of a package": RBF,
    "vectorised": lambda gamma: np.vectorize(lambda a: gamma * a),
    "a loss": Corner,
    "a registered loss": by_registration,
    "a loss of the package": lambda gamma: mm.losses.EpsilonInsensitiveLoss(epsilon=gamma),
    "a structure": by_state,
    "samples of a structure in Python": lambda gamma: Custom(Tagged(), [gamma * X], [1.0]),
    "outputs of a structure in Python": lambda gamma: Custom(Tagged(), [X], [gamma]),
    "a kernel matrix": lambda gamma: PrecomputedGram(gamma * np.eye(3)),
    "a table": lambda gamma: table_of(gamma * X, 1.0),
    "a table of sparse rows": lambda gamma: table_of(sp.csr_array(gamma * X), 1.0),
    "the intercept's column": lambda gamma: table_of(X, gamma),
    "a structure of the package": lambda gamma: mm.structures.Chain(n_labels=3, cost=gamma * np.ones((3, 3))),
    "a solver": lambda gamma: mm.OnlineDual(effort=gamma),
    "a scaler": lambda gamma: StandardScaler().fit(gamma * X),
    "a function as a scaler": lambda gamma: FunctionTransformer(lambda X: gamma * X),
    "an iterable": lambda gamma: mm.open_source([(gamma * X, TWO)]),
    "an iterable, weights": lambda gamma: mm.open_source([(X, TWO, np.full(20, gamma))]),
    "an iterable, targets": lambda gamma: mm.open_source([(X, gamma * X[:, 0])]),
    "an iterable, scaled": lambda gamma: mm.open_source([(X, TWO)]).map(StandardScaler().fit(gamma * X)),
    "a side": lambda gamma: mm.open_source([(X, TWO)] * 10).train_test_split(seed=int(10 * gamma))[0],
    "samples": lambda gamma: mm.Samples([([gamma * X], [TWO])]),
    "samples, outputs": lambda gamma: mm.Samples([([X], [[gamma]])]),
    "samples, weights": lambda gamma: mm.Samples([([X], [TWO], [gamma])]),
    "a frame": lambda gamma: pd.DataFrame({"a": [gamma, 1.0], "b": ["x", "y"]}),
    "a polars frame": lambda gamma: pl.DataFrame({"a": [gamma, 1.0], "b": ["x", "y"]}),
    "a column": lambda gamma: pd.Series([gamma, 1.0]),
    "rows of fields": lambda gamma: np.array([(1, gamma)], dtype=np.dtype([("k", "i1"), ("g", "f8")], align=True)),
    "objects": lambda gamma: np.array([gamma, "a", None], object),
    "sparse": lambda gamma: sp.coo_array(gamma * np.eye(3)),
}
# Each list holds values that are all different.
APART: dict[str, list[Any]] = {
    "functions of a package": [rbf_kernel, laplacian_kernel, np.add, np.multiply, np.dot],
    "what is called": [lambda A, B: A.max(B), lambda A, B: A.min(B)],
    "byte orders": [np.array([1, 256], "<i2"), np.array([1, 256], ">i2"), np.array([256, 1], "<i2")],
    "operators": [lambda A, B: A + B, lambda A, B: A - B, lambda A, B: B - A],
    "what a partial is of": [partial(rbf_kernel, gamma=1.0), partial(laplacian_kernel, gamma=1.0)],
    "handlers": [by_text("def kernel(A):\n try: return A()\n except E: return 1", E=kind) for kind in (ValueError, TypeError)],
    "numbers": [0, 0.0, -0.0, False, None, "0", b"0", np.float32(0), np.float64(0), np.int64(0), np.zeros(1), np.zeros((1, 1))],
    "dictionaries": [{"a": 1, "b": 2}, {"a": 2, "b": 1}, {"b": 2, "a": 1}, defaultdict(int, a=1, b=2)],
    "columns": [pd.Series([1, 2]), pd.Series([1.0, 2.0]), pd.Series([1, 2], dtype="Int64"), pl.Series([1, 2])],
    "categories": [
        pd.Series(["a", "b"], dtype=kind)
        for kind in (object, "category", pd.CategoricalDtype(["b", "a"]), pd.CategoricalDtype(["a", "b"], ordered=True))
    ]
    + [pl.Series(["a", "b"], dtype=pl.Enum(names)) for names in (["a", "b"], ["b", "a"])],
    "frames": [pd.DataFrame({"a": [1], "b": [2]}), pd.DataFrame({"b": [1], "a": [2]}), pd.DataFrame({"a": [1.0], "b": [2]})],
    "blocks of an iterable": [mm.open_source([(X[:k], TWO[:k]), (X[k:], TWO[k:])]) for k in (5, 6)],
    "kinds of labels": [mm.open_source([(X, y)]) for y in (TWO, TWO.astype(float), TWO.astype(str), None, sp.eye_array(20))],
    "samples": [mm.Samples([([X, X], [1, 2])]), mm.Samples([([X], [1]), ([X], [2])]), mm.Samples([([X, X], None)])],
    "tables": [by_text("class K(tuple): x = 1", "K")(), by_text("class K(tuple): x = 2", "K")()],
}


# ---- the same ----------------------------------------------------------------------------------------------------------


class Blocks:
    """The blocks of a list, from an object that is no list."""

    def __init__(self, given):
        self.given = given

    def __iter__(self):
        return iter(self.given)


def used(kernel):
    """After some calls."""
    kernel.scale  # noqa: B018 - computed and kept
    return kernel


def called(function):
    function(1.0, 2.0)
    return function


def assigned_otherwise(gamma):
    found = object.__new__(Family)
    found.children, found.parent = [found], found
    found.gamma = gamma
    return found


def renamed(gamma):
    """Another name, another line, other comments."""

    def other(A, B):
        # as it was
        return rbf_kernel(A, B, gamma=gamma)

    return other


def original(gamma):
    def kernel(A, B):
        return rbf_kernel(A, B, gamma=gamma)

    return kernel


TEXTS = [f"name {k}" for k in range(50)]
# Each list holds values that are the same.
TOGETHER: dict[str, list[Any]] = {
    "names": [original(0.5), renamed(0.5)],
    "arguments of a partial": [partial(rbf_kernel, gamma=0.5, Y=None), partial(rbf_kernel, Y=None, gamma=0.5)],
    "order of attributes": [Family(0.5), assigned_otherwise(0.5)],
    "what was computed": [Lazy(0.5), used(Lazy(0.5))],
    "what was kept": [by_cache(0.5), called(by_cache(0.5))],
    "a memo": [Remembering(0.5), called(Remembering(0.5))],
    "what was compiled": [by_numba(0.5), called(by_numba(0.5))],
    "sets": [set(TEXTS), set(TEXTS[::-1]), {*TEXTS[25:], *TEXTS}],
    "sets within": [Kernel({"of": set(TEXTS)}), Kernel({"of": set(TEXTS[::-1])})],
    "texts": [Kernel(["ab", "ab"]), Kernel(["ab", "".join("ab")])],
    "orders": [np.asfortranarray(X), X, np.repeat(X, 2, axis=1)[:, ::2], X.view(np.memmap)],
    "closures over arrays": [by_closure(X), by_closure(np.asfortranarray(X))],
    "sparse": [sp.csr_matrix(X), sp.csr_array(X), sp.coo_array(X)],
    "index": [pd.Series(TWO), pd.Series(TWO, index=np.arange(20)[::-1]), pd.Series(TWO, name="y")],
    "frames": [pd.DataFrame(X, columns=list("abc")), pd.DataFrame(np.asfortranarray(X), columns=list("abc"), index=TEXTS[:20])],
    "iterables": [mm.open_source(kind([(X, TWO), (X, TWO)])) for kind in (list, tuple, Blocks)],
    "samples": [mm.Samples([([X], [TWO])]), mm.Samples(Blocks([([X.copy()], [TWO])]))],
    "objects": [np.array(["a", 1], object), np.array(["".join("a"), 1], object)],
}
for _name, _make in BY_GAMMA.items():
    TOGETHER[_name] = [_make(0.5), _make(0.5), deepcopy(_make(0.5))]


def digests() -> dict[str, str]:
    """As each process finds them."""
    return {name: fingerprint(values[0]) for name, values in TOGETHER.items()}


def told() -> None:
    print(json.dumps(digests()))
