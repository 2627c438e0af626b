"""Dense rows taken out of a table, in any order: their scores, inner products and sums as matrix products.

Weights are vectors of classes here, (features + 1, blocks, width) as kernels have them; the bias is the last feature.
"""

from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm, sgemm

from ..jit import kernel, vectors
from .rows import Dense, Indexed

# A vector of classes that is added by itself takes as long as so many of a matrix product. Made rows of 512 columns and 1,000
# classes, float32 and float64, Neoverse N1, 2026-11-16.
LISTED = 6.0


def has_dense_rows(X: Any) -> bool:
    """Whether rows, as kernels take them, are those of a dense matrix."""
    return isinstance(X, Dense | Indexed)


@kernel
def gather_rows(values, which, out):
    """The rows `which`, in the dtype of `out`, which has a column more."""
    for k in range(which.size):
        i = which[k]
        for j in range(values.shape[1]):
            out[k, j] = values[i, j]


@kernel
def list_vectors(table, count, places):
    """Write where the vectors of the first `count` rows are that are not zero: (row, block); -1 if there is no room for all."""
    found = 0
    for k in range(count):
        for b in range(table.shape[1]):
            if vectors.magnitude(vectors.load(table, k, b)) > 0:
                if found == places.shape[0]:
                    return -1
                places[found, 0], places[found, 1] = k, b
                found += 1
    return found


@kernel
def add_listed(X, table, places, found, W):
    """W[j, b] += X[k, j] table[k, b] for the places (k, b), four features at a time: a row of W stays in the cache."""
    for j in range(0, W.shape[0] - 3, 4):
        for p in range(found):
            k, b = places[p, 0], places[p, 1]
            step = vectors.load(table, k, b)
            vectors.store(W, j, b, vectors.fma(vectors.load(W, j, b), X[k, j], step))
            vectors.store(W, j + 1, b, vectors.fma(vectors.load(W, j + 1, b), X[k, j + 1], step))
            vectors.store(W, j + 2, b, vectors.fma(vectors.load(W, j + 2, b), X[k, j + 2], step))
            vectors.store(W, j + 3, b, vectors.fma(vectors.load(W, j + 3, b), X[k, j + 3], step))
    for j in range(W.shape[0] // 4 * 4, W.shape[0]):
        for p in range(found):
            k, b = places[p, 0], places[p, 1]
            vectors.store(W, j, b, vectors.fma(vectors.load(W, j, b), X[k, j], vectors.load(table, k, b)))


class Gathered:
    """Room for up to `size` rows, in the dtype of a computation. `variance`, of each feature, is the metric of inner products."""

    def __init__(self, X: Dense | Indexed, size: int, dtype: Any, variance: np.ndarray | None = None):
        self.values, self.count = X.values, 0
        self.room = np.full((size, X.values.shape[1] + 1), X.bias, dtype)
        self.variance = None if variance is None else variance.astype(dtype)
        self.scaled = self.room  # times the variance
        self.squares = np.empty(size * size, dtype)
        self.places = np.empty((0, 2), np.uint32)

    @property
    def rows(self) -> np.ndarray:
        """Those taken last, the bias in the last column."""
        return self.room[: self.count]

    def take(self, which: np.ndarray) -> None:
        self.count = which.size
        gather_rows(self.values, which, self.room)
        if self.variance is not None:
            self.scaled = self.room * self.variance

    def keep(self, which: np.ndarray) -> None:
        """Leave out all but these of the rows taken."""
        if which.size < self.count:
            self.room[: which.size] = self.room[which]
            if self.variance is not None:
                self.scaled = self.scaled[which]
            self.count = which.size

    def scores(self, W: np.ndarray, out: vectors.VectorTable) -> None:
        """Of each row and class, to the first rows of `out`."""
        np.dot(self.rows, W.reshape(W.shape[0], -1), out=out.flat[: self.count])

    def products(self) -> np.ndarray:
        """(rows, rows): inner products."""
        result = self.squares[: self.count**2].reshape(self.count, self.count)
        return np.dot(self.rows, self.scaled[: self.count].T, out=result)

    def add(self, table: vectors.VectorTable, W: np.ndarray) -> None:
        """W += sum_k x_k table_k over the rows taken, times the variance; by a list of vectors where few are not zero."""
        if self.count == 0:
            return
        few = int(self.count * table.vectors.shape[1] / LISTED)
        if len(self.places) < few:
            self.places = np.empty((few, 2), np.uint32)
        found = list_vectors(table.vectors, self.count, self.places[:few])
        if found >= 0:
            add_listed(self.scaled, table.vectors, self.places, found, W)
        else:
            gemm, flat = sgemm if W.dtype == np.float32 else dgemm, W.reshape(W.shape[0], -1)
            gemm(1.0, table.flat[: self.count].T, self.scaled[: self.count].T, 1.0, flat.T, trans_b=True, overwrite_c=True)
