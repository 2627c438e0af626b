"""Rows whose values are all 1, as those of names of features are: how kernels read them."""

import numpy as np

from .rows import Indicators, column, first, last, last_column, shape, unlocked, value


def rows_of_ones(indices: np.ndarray, ends: np.ndarray, columns: int, bias: float = 0.0) -> Indicators:
    """Row i has the columns indices[ends[i, 0] : ends[i, 1]]; both are arrays of the same kind of integers."""
    unsigned = f"u{indices.dtype.itemsize}"
    return Indicators(unlocked(indices).view(unsigned), ends.view(unsigned), np.float64(bias), columns)


@shape.register
def _(X: Indicators) -> tuple[int, int]:
    return X.ends.shape[0], X.columns


@first.register(Indicators)
def _(X, i):
    return X.ends[i, 0]


@last.register(Indicators)
def _(X, i):
    return X.ends[i, 1]


@column.register(Indicators)
def _(X, i, k):
    return X.indices[k]


@value.register(Indicators)
def _(X, i, k):
    return 1.0


@last_column.register(Indicators)
def _(X):
    return X.columns
