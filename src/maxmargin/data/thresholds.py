"""Samples that are asked one question for each threshold: whether their score lies above it (Li and Lin 2006).

Row i K + k is x_i with one more entry, `scale` in the column of threshold k. X itself is neither copied nor repeated.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .matrices import checked_matrix
from .rows import CSR, Dense, Indexed, column, first, last, last_column, prefetch, prefetch_index, value
from .table import BLOCK_SIZE, RowBlock, Table


class Thresholded(NamedTuple):
    """`columns` are those of the thresholds and `one` is 1, in the types that the rows of `base` have for columns and places."""

    base: Dense | Indexed | CSR
    values: np.ndarray
    columns: np.ndarray
    one: Any
    scale: float
    bias: float


def thresholded(base: Dense | Indexed | CSR, features: int, count: int, scale: float) -> Thresholded:
    kinds: tuple[Any, Any] = (np.int64, np.int64)
    if isinstance(base, CSR):
        kinds = base.indices.dtype.type, base.indptr.dtype.type
    elif isinstance(base, Indexed):
        kinds = np.uint32, base.indptr.dtype.type
    columns = np.arange(features, features + count).astype(kinds[0])
    return Thresholded(base, base.values, columns, kinds[1](1), np.float64(scale), np.float64(0.0))


@first.register(Thresholded)
def _(X, i):
    return first(X.base, i // X.columns.size)


@last.register(Thresholded)
def _(X, i):
    return last(X.base, i // X.columns.size) + X.one


@column.register(Thresholded)
def _(X, i, k):
    r = i // X.columns.size
    return X.columns[i - r * X.columns.size] if k == last(X.base, r) else column(X.base, r, k)


@value.register(Thresholded)
def _(X, i, k):
    r = i // X.columns.size
    return X.scale if k == last(X.base, r) else np.float64(value(X.base, r, k))


@last_column.register(Thresholded)
def _(X):
    return last_column(X.base) + X.columns.size


@prefetch.register(Thresholded)
def _(X, i):
    prefetch(X.base, i // X.columns.size)


@prefetch_index.register(Thresholded)
def _(X, i):
    prefetch_index(X.base, i // X.columns.size)


class ThresholdTable(Table):
    """A table with `count` rows for each of its samples."""

    def __init__(self, table: Table, count: int, scale: float):
        super().__init__()
        self.table, self.count, self.scale = table, count, float(scale)
        self._rows = thresholded(table.rows, table.shape[1], count, scale)

    @property
    def rows(self) -> Any:
        return self._rows

    @property
    def shape(self) -> tuple[int, int]:
        samples, features = self.table.shape
        return samples * self.count, features + self.count

    @property
    def dtype(self) -> np.dtype:
        return self.table.dtype

    @property
    def matrix(self) -> Any:
        return self._repeated(self.table.matrix)

    def column_sizes(self) -> np.ndarray | None:
        return self.table.column_sizes()

    def samples(self, which: np.ndarray) -> np.ndarray:
        return np.unique(which // self.count)

    def like(self, X: Any) -> Table:
        """Rows that were taken out of `matrix` are a matrix as any other."""
        return self.table.like(X)

    def blocks(self, size: int = BLOCK_SIZE) -> Iterator[RowBlock]:
        for block in self.table.blocks(max(1, size // self.count)):
            yield RowBlock(self._repeated(block.X), 0.0, block.start * self.count, block.stop * self.count)

    def _repeated(self, X: Any) -> Any:
        samples = np.repeat(np.arange(X.shape[0]), self.count)
        own = np.tile(self.scale * np.eye(self.count, dtype=X.dtype), (X.shape[0], 1))
        if sp.issparse(X):
            return checked_matrix(sp.hstack([X[samples], sp.csr_matrix(own)], format="csr"))
        return np.hstack([X[samples], own])
