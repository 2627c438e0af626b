"""What problems are drawn from: numbers, matrices with everything that is awkward about them, and the forms they come in."""

import importlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass
class Draw:
    """A seeded generator that keeps what it has drawn, so that a finding can be told and repeated.

    `quick` asks for few types and few passes: what the ordinary tests can afford to compile and run; `dense` then
    stands for dense data and no priors, where kernels compile for longer. `tame`: matrices have entries of the order of 1.
    """

    rng: np.random.Generator
    quick: bool = False
    dense: bool = True
    tame: bool = False
    notes: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def one(self, *options):
        """One of these; options of a type with a cost of its own to compile come after None when the draw is quick."""
        return options[self.rng.integers(len(options))]

    def typed(self, first: tuple, more: tuple):
        """One of the first or, unless the draw is quick, of all."""
        return self.one(*first) if self.quick else self.one(*first, *more)

    def chance(self, part: float) -> bool:
        return bool(self.rng.random() < part)

    def power(self, low: float, high: float) -> float:
        """10^x for x between the two."""
        return float(10.0 ** self.rng.uniform(low, high))

    def note(self, **named) -> None:
        self.notes.update(named)

    def installed(self, name: str) -> Any:
        """The module, or None, counted, where it is not installed."""
        try:
            return importlib.import_module(name)
        except ImportError:
            self.left_out.append(name)
            return None


# ---- numbers --------------------------------------------------------------------------------------------------------------


def size(draw: Draw, most: int = 60) -> int:
    """Mostly small; a few that cross the 4,096 rows of a chunk."""
    if draw.chance(0.01) and most >= 60 and not draw.quick:
        return int(draw.rng.integers(4090, 6001))
    return int(draw.one(1, 2, 3, draw.rng.integers(2, 12), draw.rng.integers(5, most + 1), draw.rng.integers(5, most + 1)))


def matrix(draw: Draw, n: int, d: int, tame: bool = False) -> np.ndarray:
    """(n, d) in float64; `tame` ones have entries of the order of 1."""
    rng, tame = draw.rng, tame or draw.tame
    kinds = "normal", "integers", "sparse", "scaled", "wide", "offset"
    kind = draw.one(*kinds[: 3 if tame else 6])
    X = rng.normal(size=(n, d))
    if kind == "integers":  # ties, and zeros of both signs
        X = rng.integers(-2, 3, size=(n, d)).astype(float) * rng.choice([-1.0, 1.0], (n, d))
    elif kind == "sparse":
        X *= rng.random((n, d)) < draw.one(0.05, 0.15, 0.4)
    elif kind == "scaled":
        X *= 10.0 ** rng.uniform(-4, 4, d)
    elif kind == "wide":
        X *= 10.0 ** rng.uniform(-6, 6, (n, d))
        X = np.clip(X, -1e6, 1e6)
    elif kind == "offset":
        X += 10.0 ** rng.uniform(-1, 3, d)
    for part, change in ((0.2, _zero_rows), (0.2, _zero_columns), (0.15, _constant_columns), (0.25, _twins), (0.05, _denormals)):
        if draw.chance(part) and not (tame and change is _denormals):
            change(X, rng)
    if draw.quick and draw.dense:
        _fewer_zeros(X, rng)
    draw.note(values=kind)
    return X


def _zero_rows(X, rng):
    X[rng.random(len(X)) < 0.3] = 0.0


def _zero_columns(X, rng):
    X[:, rng.random(X.shape[1]) < 0.3] = 0.0


def _constant_columns(X, rng):
    X[:, rng.integers(X.shape[1])] = rng.choice([-3.0, 0.5, 1.0])


def _twins(X, rng):
    X[:] = X[rng.integers(0, max(1, len(X) // 2), len(X))]


def _denormals(X, rng):
    X[rng.random(X.shape) < 0.2] = 5e-324 * rng.integers(1, 1000)


def _fewer_zeros(X, rng):
    """A third at the most: dense data with more of them are read through an index, a type to compile for."""
    zeros = rng.permutation(np.flatnonzero(X == 0.0))[X.size // 3 :]
    X.flat[zeros] = rng.choice([-1.0, 1.0], zeros.size)


def labels(draw: Draw, n: int, classes: int) -> np.ndarray:
    """Numbers 0, 1, ... of which all occur."""
    return draw.rng.permutation(np.concatenate([np.arange(classes), draw.rng.integers(0, classes, n - classes)]))


def weights(draw: Draw, n: int) -> np.ndarray | None:
    rng = draw.rng
    kind = draw.one("none", "none", "integers", "numbers", "zeros", "wide")
    draw.note(weight=kind)
    if kind == "none":
        return None
    found = {
        "integers": rng.integers(0, 4, n).astype(float),
        "numbers": rng.random(n) + 0.01,
        "zeros": rng.random(n) * (rng.random(n) < 0.6),
        "wide": 10.0 ** rng.uniform(-4, 3, n),
    }[kind]
    if not found.any():
        found[rng.integers(n)] = 1.0
    return found


# ---- forms of X -----------------------------------------------------------------------------------------------------------


def _fortran(X, draw):
    return np.asfortranarray(X)


def _strided(X, draw):
    wide = np.zeros((X.shape[0], 2 * X.shape[1]))
    wide[:, ::2] = X
    return wide[:, ::2]


def _read_only(X, draw):
    X = X.copy()
    X.flags.writeable = False
    return X


def _memmap(X, draw):
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file.name, X)
        return np.load(file.name, mmap_mode="r")  # on Linux what is mapped outlives its name


def _csr(X, draw):
    return draw.one(sp.csr_array, sp.csr_matrix)(X)


def _wide_indices(X, draw):
    found = sp.csr_array(X)
    found.indices, found.indptr = found.indices.astype(np.int64), found.indptr.astype(np.int64)
    return found


def _unsorted(X, draw):
    found = sp.csr_array(X)
    order = np.concatenate([start + draw.rng.permutation(stop - start) for start, stop in zip(found.indptr, found.indptr[1:])])
    order = order.astype(int)
    return sp.csr_array((found.data[order], found.indices[order], found.indptr), shape=X.shape)


def _repeated(X, draw):
    """Each entry twice: in halves where that is exact, else with a zero."""
    found = sp.csr_array(X)
    half = 0.5 * found.data
    exact = half + half == found.data
    data = np.stack([np.where(exact, half, found.data), np.where(exact, half, 0.0)], axis=1).ravel()
    return sp.csr_array((data, np.repeat(found.indices, 2), 2 * found.indptr), shape=X.shape)


def _stored_zeros(X, draw):
    found = sp.csr_array(np.where(X == 0.0, 1.0, X))
    found.data[X.ravel() == 0.0] = 0.0
    return found


def _pandas(X, draw):
    pandas = draw.installed("pandas")
    return X if pandas is None else pandas.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])


def _polars(X, draw):
    polars = draw.installed("polars")
    return X if polars is None else polars.DataFrame(X, schema=[f"x{j}" for j in range(X.shape[1])])


PLAIN: dict[str, Callable] = {
    "C": lambda X, draw: X.copy(),
    "F": _fortran,
    "strided": _strided,
    "read-only": _read_only,
    "memmap": _memmap,
    "list": lambda X, draw: X.tolist(),
    "pandas": _pandas,
    "polars": _polars,
    "csr": _csr,
    "csr unsorted": _unsorted,
    "csr repeated": _repeated,
    "csr with zeros": _stored_zeros,
    "csc": lambda X, draw: sp.csc_array(X),
    "coo": lambda X, draw: sp.coo_array(X),
}
TYPED: dict[str, Callable] = {  # each of these is compiled for
    "csr of int64": _wide_indices,
    "float32": lambda X, draw: X.astype(np.float32),
    "float32 csr": lambda X, draw: sp.csr_array(X.astype(np.float32)),
}
FORMS = PLAIN | TYPED
DENSE = ("C", "F", "strided", "read-only", "memmap", "list", "pandas", "polars")


def form(draw: Draw, X: np.ndarray, names: tuple = ()) -> str:
    """The name of a form that X can be given in without changing a number."""
    if draw.quick and draw.dense:
        return draw.one(*DENSE)
    exact32 = bool(np.all(X.astype(np.float32) == X))
    more = tuple(name for name in TYPED if exact32 or "float32" not in name)
    return draw.one(*names) if names else draw.typed(tuple(PLAIN), more * 2)


def formed(draw: Draw, X: np.ndarray, name: str):
    return FORMS[name](X, draw)


# ---- sources --------------------------------------------------------------------------------------------------------------


def source(draw: Draw, X: np.ndarray, y: np.ndarray, weight, folder: Path, open_source: Callable):
    """The same samples on disk or as an iterable; y is a vector of numbers, or an indicator matrix."""
    kind = draw.one(*(("npy", "blocks") if draw.quick and draw.dense else ("npy", "npz", "svm", "blocks", "sparse blocks")))
    many = y.ndim == 2
    if many and np.any(~X.any(axis=1) & ~y.any(axis=1)) and kind == "svm":
        kind = "npy"  # such a line of text is blank
    draw.note(source=kind)
    beside = {}
    if "blocks" not in kind:
        np.save(folder / "y.npy", y)
        if weight is not None:
            np.save(folder / "w.npy", weight)
            beside = {"weight": str(folder / "w.npy")}
    if kind == "npy":
        np.save(folder / "X.npy", X)
        return open_source(str(folder / "X.npy"), label=str(folder / "y.npy"), **beside)
    if kind == "npz":
        sp.save_npz(folder / "X.npz", sp.csr_matrix(X))
        return open_source(str(folder / "X.npz"), label=str(folder / "y.npy"), **beside)
    if kind == "svm":
        lines = (f"{_label_text(label)} {_row_text(row)}" for label, row in zip(y, X))
        (folder / "X.svm").write_text("\n".join(lines) + "\n")
        more = {"multilabel": True, "n_labels": y.shape[1]} if many else {}
        return open_source(str(folder / "X.svm"), n_features=X.shape[1], **beside, **more)
    cuts = np.unique(draw.rng.integers(0, len(X) + 1, 3))
    parts = [part for part in np.split(np.arange(len(X)), cuts) if part.size]
    columns = (sp.csr_array(X) if kind == "sparse blocks" else X), y, *(() if weight is None else (weight,))
    return open_source([tuple(column[part] for column in columns) for part in parts])


def _label_text(label) -> str:
    return ",".join(map(str, np.flatnonzero(label))) if np.ndim(label) else repr(label.item())


def _row_text(row) -> str:
    return " ".join(f"{j + 1}:{float(row[j])!r}" for j in np.flatnonzero(row))
