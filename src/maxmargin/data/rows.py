"""How a kernel reads one example: a few accessors per kind of storage, and everything else written once on top of them.

A row is a run of positions k in [first, last), each with a column and a value, then one more: the constant `bias` in the last
column, which carries the intercept (0 where there is none). Weights therefore always have one entry more than X has columns.
"""

from functools import singledispatch
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..jit import generic, jitable, kernel, vectors

# Dense rows with a smaller part of non-zeros than this are read by an index of them: where a row has one score, and where it has
# one for each of several classes or labels, so that a non-zero costs more than its index. Set not recorded, 2026-11-15.
SPARSE_BELOW = {"scalar": 0.2, "row": 0.6}
SPARE = 1 << 16  # non-zeros too many that the first rows may have in any case. Set not recorded, 2026-11-15


class Dense(NamedTuple):
    """Rows of a C-ordered matrix."""

    values: np.ndarray
    bias: float


class Indexed(NamedTuple):
    """Rows of a C-ordered matrix that is mostly zeros: the values stay where they are, `columns` says where to look."""

    values: np.ndarray
    columns: np.ndarray
    indptr: np.ndarray
    bias: float


class CSR(NamedTuple):
    """Rows of a CSR matrix. Indices are viewed as unsigned: numba then leaves out its test for negative ones."""

    values: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    bias: float
    columns: int


class Indicators(NamedTuple):
    """Rows of ones (`ones.py`): their columns, and where those of each row begin and end. Values there are none."""

    indices: np.ndarray
    ends: np.ndarray  # (rows, 2)
    bias: float
    columns: int


class Unlocked:
    """The memory of a read-only array as that of one that is not: to numba these are two types, and everything would be compiled
    once more for the other. Kernels do not write to rows."""

    def __init__(self, array: np.ndarray):
        interface = array.__array_interface__
        self.__array_interface__ = interface | {"data": (interface["data"][0], False)}
        self.array = array  # so that its memory stays


def unlocked(array: np.ndarray) -> np.ndarray:
    return array if array.flags.writeable else np.asarray(Unlocked(array))


def rows(X, bias: float = 0.0, sparse_below: float = 0.0):
    """The rows of a validated float32 or float64 matrix: views of the user's memory, never a copy of C-ordered or CSR input.

    A dense matrix with a smaller part of non-zeros than `sparse_below` gets an index of them: two bytes each (four from 65,536
    columns on), so that zeros cost nothing. Indicators stay what they are, with this bias.
    """
    constant = np.float64(bias)  # whatever X is: the intercept is the bias times a weight, and not its float32 neighbour
    if isinstance(X, Indicators):
        return X._replace(bias=constant)
    if sp.issparse(X):
        unsigned = np.dtype(f"u{X.indices.dtype.itemsize}")
        data, indices, indptr = unlocked(X.data), unlocked(X.indices), unlocked(X.indptr)
        return CSR(data, indices.view(unsigned), indptr.view(unsigned), constant, X.shape[1])
    X = unlocked(np.ascontiguousarray(X))
    if X.size and sparse_below > 0.0:
        spare = max(SPARE, X.size // 32)  # how many non-zeros too many the first rows may have before the rest is given up
        if clearly_dense(X, sparse_below, spare):
            return Dense(X, constant)
        indptr = np.zeros(X.shape[0] + 1, np.uint64)
        capacity = int(sparse_below * X.size) + spare + X.shape[1]
        columns = np.empty(capacity, np.uint16 if X.shape[1] <= 65_536 else np.uint32)
        if list_nonzeros(X, columns, indptr, sparse_below * X.shape[1], spare) < sparse_below * X.size:
            columns.resize(int(indptr[-1]), refcheck=False)  # what was never written never took up memory
            return Indexed(X, columns, indptr, constant)
    return Dense(X, constant)


def clearly_dense(X: np.ndarray, part: float, spare: int) -> bool:
    """Whether the first rows have so many non-zeros that `list_nonzeros` gives up there, or all of few rows too many: counting is
    faster than listing, and not compiled."""
    first = int(spare / (max(1.0 - part, part) * X.shape[1])) + 1
    if first > X.shape[0]:
        return bool(np.count_nonzero(X) >= part * X.size)
    return bool(np.count_nonzero(X[:first]) > part * X.shape[1] * first + spare)


@kernel
def list_nonzeros(X, columns, indptr, share, spare):
    """Write the columns of the non-zeros of each row; returns how many there are, infinity if more than `share` a row."""
    k = np.uint64(0)
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            columns[k] = j  # a zero's column is overwritten by the next: cheaper than a branch
            k += np.uint64(X[i, j] != 0)
        indptr[i + 1] = k
        if k > share * (i + 1) + spare:
            return np.inf
    return float(k)


@singledispatch
def shape(X) -> tuple[int, int]:
    """(examples, columns), without the bias."""
    return X.values.shape


@shape.register
def _(X: CSR) -> tuple[int, int]:
    return X.indptr.size - 1, X.columns


def dtype(X) -> np.dtype:
    return X.values.dtype


def mean_length(X) -> float:
    """How many positions a row has on average, the bias counted in."""
    listed = {Indexed: "columns", Indicators: "indices"}.get(type(X), "values")
    entries = getattr(X, listed).size
    return entries / max(shape(X)[0], 1) + 1.0


def column_sizes(X) -> np.ndarray | None:
    """The largest absolute value of each column; None of rows that are not of a kind of ours, or have no values."""
    if isinstance(X, Indicators) and X.indices.size:
        size = np.zeros(X.columns)
        size[X.indices] = 1.0
        return size
    if not isinstance(X, Dense | Indexed | CSR) or not X.values.size:
        return None
    if isinstance(X, CSR):
        size = np.zeros(X.columns, X.values.dtype)
        np.maximum.at(size, X.indices, np.abs(X.values))
        return size
    return np.maximum(X.values.max(axis=0), -X.values.min(axis=0))


# ---- the accessors ---------------------------------------------------------------------------------------


@generic
def first(X, i):
    """The first position of row i."""


@generic
def last(X, i):
    """One beyond the last position of row i."""


@generic
def column(X, i, k):
    """The column at position k of row i."""


@generic
def value(X, i, k):
    """The value at position k of row i."""


@generic
def prefetch(X, i):
    """Ask for row i ahead of its use, where the processor would not guess it."""


@generic
def prefetch_index(X, i):
    """Ask for the index of row i, some time before `prefetch` reads it."""


@generic
def last_column(X):
    """The column of the bias."""


@first.register(Dense)
def _(X, i):
    return 0


@last.register(Dense)
def _(X, i):
    return X.values.shape[1]


@column.register(Dense)
def _(X, i, k):
    return k


@value.register(Dense)
def _(X, i, k):
    return X.values[i, k]


@last_column.register(Dense)
def _(X):
    return X.values.shape[1]


@prefetch.register(Dense)
def _(X, i):
    width = X.values.shape[1]
    for k in range(i * width, (i + 1) * width, vectors.LINE // 8):
        vectors.prefetch(X.values, k)


@prefetch.register(object)
def _(X, i):
    pass


@prefetch_index.register(object)
def _(X, i):
    pass


@first.register(Indexed)
def _(X, i):
    return X.indptr[i]


@last.register(Indexed)
def _(X, i):
    return X.indptr[i + 1]


@column.register(Indexed)
def _(X, i, k):
    return X.columns[k]


@value.register(Indexed)
def _(X, i, k):
    return X.values[i, X.columns[k]]


@last_column.register(Indexed)
def _(X):
    return X.values.shape[1]


@prefetch_index.register(Indexed)
def _(X, i):
    for k in range(np.int64(X.indptr[i]), np.int64(X.indptr[i + 1]), 16):
        vectors.prefetch(X.columns, k)


@prefetch.register(Indexed)
def _(X, i):
    row = i * X.values.shape[1]
    for k in range(X.indptr[i], X.indptr[i + 1]):
        vectors.prefetch(X.values, row + np.int64(X.columns[k]))


@first.register(CSR)
def _(X, i):
    return X.indptr[i]


@last.register(CSR)
def _(X, i):
    return X.indptr[i + 1]


@column.register(CSR)
def _(X, i, k):
    return X.indices[k]


@value.register(CSR)
def _(X, i, k):
    return X.values[k]


@last_column.register(CSR)
def _(X):
    return X.columns


@prefetch.register(CSR)
def _(X, i):
    for k in range(np.int64(X.indptr[i]), np.int64(X.indptr[i + 1]), vectors.LINE // 8):
        vectors.prefetch(X.values, k)


@prefetch_index.register(CSR)
def _(X, i):
    for k in range(np.int64(X.indptr[i]), np.int64(X.indptr[i + 1]), 8):
        vectors.prefetch(X.indices, k)


# ---- one example against a weight vector -----------------------------------------------------------------


@jitable
def dot(X, i, w):
    """<x_i, w>, summed in the dtype of w"""
    result = w.dtype.type(0)
    for k in range(first(X, i), last(X, i)):
        result += value(X, i, k) * w[column(X, i, k)]
    return result + X.bias * w[last_column(X)]


@jitable
def add(X, i, t, w):
    """w += t x_i"""
    for k in range(first(X, i), last(X, i)):
        w[column(X, i, k)] += t * value(X, i, k)
    w[last_column(X)] += t * X.bias


@jitable
def add_scaled(X, i, t, variance, w):
    """w += t variance * x_i, lane by lane"""
    for k in range(first(X, i), last(X, i)):
        w[column(X, i, k)] += t * variance[column(X, i, k)] * value(X, i, k)
    w[last_column(X)] += t * variance[last_column(X)] * X.bias


@jitable
def add_clipped(X, i, t, variance, lower, v, w):
    """v += t variance * x_i and w = max(v, lower) on the columns of x_i"""
    for k in range(first(X, i), last(X, i)):
        j = column(X, i, k)
        v[j] += t * variance[j] * value(X, i, k)
        w[j] = max(v[j], lower[j])
    j = last_column(X)
    v[j] += t * variance[j] * X.bias
    w[j] = max(v[j], lower[j])


def squared_norms(X, variance: np.ndarray, result: np.ndarray, span: tuple[int, int] | None = None) -> None:
    """result[i] = sum_j variance_j x_ij^2 of a run of rows, or of all, in float64; an empty `variance` stands for ones. Of a
    dense matrix not compiled: NumPy is as fast, and it is done once."""
    start, stop = (0, result.size) if span is None else span
    out = result[start:stop]
    if not isinstance(X, Dense | Indexed):
        listed_norms(X, variance, out, start)
        return
    values = X.values[start:stop]
    factors = (values, values, variance[: values.shape[1]]) if variance.size else (values, values)
    np.einsum("ij,ij,j->i" if variance.size else "ij,ij->i", *factors, dtype=np.float64, out=out)
    out += X.bias * X.bias * (variance[values.shape[1]] if variance.size else 1.0)


@kernel
def listed_norms(X, variance, result, start):
    """`squared_norms` of rows that are lists of entries, from one on."""
    for k in range(result.size):
        i, total, b = start + k, 0.0, np.float64(X.bias)
        for e in range(first(X, i), last(X, i)):
            x = np.float64(value(X, i, e))
            total += x * x * (variance[column(X, i, e)] if variance.size > 0 else 1.0)
        result[k] = total + b * b * (variance[last_column(X)] if variance.size > 0 else 1.0)


# ---- one example against a row of classes ----------------------------------------------------------------


@jitable
def scores(X, i, W, out):
    """out[0, b, :] = sum_j x_ij W[j, b, :], six, three or two blocks of classes at a time: a row is read once for all of them,
    and no sum waits for itself"""
    b, blocks = 0, W.shape[1]
    while blocks - b >= 6:
        one, two, three = vectors.zeros_like(W), vectors.zeros_like(W), vectors.zeros_like(W)
        four, five, six = vectors.zeros_like(W), vectors.zeros_like(W), vectors.zeros_like(W)
        for k in range(first(X, i), last(X, i)):
            x, j = value(X, i, k), column(X, i, k)
            one = vectors.fma(one, x, vectors.load(W, j, b))
            two = vectors.fma(two, x, vectors.load(W, j, b + 1))
            three = vectors.fma(three, x, vectors.load(W, j, b + 2))
            four = vectors.fma(four, x, vectors.load(W, j, b + 3))
            five = vectors.fma(five, x, vectors.load(W, j, b + 4))
            six = vectors.fma(six, x, vectors.load(W, j, b + 5))
        x, j = X.bias, last_column(X)
        vectors.store(out, 0, b, vectors.fma(one, x, vectors.load(W, j, b)))
        vectors.store(out, 0, b + 1, vectors.fma(two, x, vectors.load(W, j, b + 1)))
        vectors.store(out, 0, b + 2, vectors.fma(three, x, vectors.load(W, j, b + 2)))
        vectors.store(out, 0, b + 3, vectors.fma(four, x, vectors.load(W, j, b + 3)))
        vectors.store(out, 0, b + 4, vectors.fma(five, x, vectors.load(W, j, b + 4)))
        vectors.store(out, 0, b + 5, vectors.fma(six, x, vectors.load(W, j, b + 5)))
        b += 6
    while blocks - b > 4 or blocks - b == 3:
        one, two, three = vectors.zeros_like(W), vectors.zeros_like(W), vectors.zeros_like(W)
        for k in range(first(X, i), last(X, i)):
            x, j = value(X, i, k), column(X, i, k)
            one = vectors.fma(one, x, vectors.load(W, j, b))
            two = vectors.fma(two, x, vectors.load(W, j, b + 1))
            three = vectors.fma(three, x, vectors.load(W, j, b + 2))
        x, j = X.bias, last_column(X)
        vectors.store(out, 0, b, vectors.fma(one, x, vectors.load(W, j, b)))
        vectors.store(out, 0, b + 1, vectors.fma(two, x, vectors.load(W, j, b + 1)))
        vectors.store(out, 0, b + 2, vectors.fma(three, x, vectors.load(W, j, b + 2)))
        b += 3
    while b < blocks:
        c = min(b + 1, blocks - 1)  # the same block twice where only one is left
        one, two = vectors.zeros_like(W), vectors.zeros_like(W)
        for k in range(first(X, i), last(X, i)):
            x, j = value(X, i, k), column(X, i, k)
            one = vectors.fma(one, x, vectors.load(W, j, b))
            two = vectors.fma(two, x, vectors.load(W, j, c))
        x, j = X.bias, last_column(X)
        vectors.store(out, 0, b, vectors.fma(one, x, vectors.load(W, j, b)))
        vectors.store(out, 0, c, vectors.fma(two, x, vectors.load(W, j, c)))
        b += 2


@jitable
def prefetch_weights(X, i, W):
    """Ask for the weights that example i will need: a visit waits for them where they do not fit into the cache."""
    for k in range(first(X, i), last(X, i)):
        prefetch_row(W, np.int64(column(X, i, k)))


@jitable
def prefetch_row(table, i):
    """Ask for row i of a lane array, two blocks to a line. Steps are literals here: otherwise the compiler has to divide."""
    width = table.shape[2]
    for b in range(0, table.shape[1], 2):
        vectors.prefetch(table, (i * table.shape[1] + b) * width)
