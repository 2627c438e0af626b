"""A table of one's own: samples in chunks of equal size, (chunks, samples of a chunk, features), never put together."""

from typing import NamedTuple

import numpy as np

from maxmargin.extend import RowBlock, Table, rows, table_of


class Chunks:
    """What a user hands to `fit` and `predict`."""

    def __init__(self, values):
        self.values = np.ascontiguousarray(values, dtype=np.float64)
        self.shape = (self.values.shape[0] * self.values.shape[1], self.values.shape[2])


class ChunkRows(NamedTuple):
    """The same as kernels see it."""

    values: np.ndarray
    bias: float


class ChunkTable(Table):
    def __init__(self, chunks, bias):
        super().__init__()
        self.chunks = chunks
        self._rows = ChunkRows(chunks.values, np.float64(bias))

    @property
    def rows(self):
        return self._rows

    @property
    def shape(self):
        return self.chunks.shape

    @property
    def dtype(self):
        return self.chunks.values.dtype

    @property
    def matrix(self):
        return self.chunks.values.reshape(self.shape)

    def like(self, X):
        return table_of(X, self._rows.bias)

    def blocks(self, size=None):
        start = 0
        for part in self.chunks.values:
            yield RowBlock(part, self._rows.bias, start, start + len(part))
            start += len(part)


@table_of.register(Chunks)
def _(X, bias=0.0, sparse_below=0.0):
    return ChunkTable(X, bias)


@rows.shape.register(ChunkRows)
def _(X):
    return X.values.shape[0] * X.values.shape[1], X.values.shape[2]


@rows.first.register(ChunkRows)
def _(X, i):
    return 0


@rows.last.register(ChunkRows)
def _(X, i):
    return X.values.shape[2]


@rows.last_column.register(ChunkRows)
def _(X):
    return X.values.shape[2]


@rows.column.register(ChunkRows)
def _(X, i, k):
    return k


@rows.value.register(ChunkRows)
def _(X, i, k):
    size = X.values.shape[1]
    return X.values[i // size, i % size, k]
