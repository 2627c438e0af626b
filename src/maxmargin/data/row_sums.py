"""Products with all rows, several of them at a time: weighted sums X' b, which dual values and gradients are made of, and the
scores X w of dense rows. Rows of weight zero are not read."""

import numpy as np

from ..jit import generic, jitable, kernel
from .rows import Dense, add, dot, last_column, prefetch

# Numbers of dense rows up to which products are NumPy's: that it may take longer than a kernel is less than the microseconds of
# its call, or than what compiling it takes in hundreds of fits. By guess, 2026-11-18.
FEW_NUMBERS = 1 << 14
AHEAD = 8  # rows by which one is asked for before its turn: those that count are not evenly spaced. By guess, 2026-11-17.


@jitable
def add_one(X, factors, i, stop, w):
    """w += factors_i x_i, where that is anything"""
    if i + AHEAD < stop and factors[i + AHEAD] != 0.0:
        prefetch(X, i + AHEAD)
    if factors[i] != 0.0:
        add(X, i, factors[i], w)


@generic
def add_span(X, factors, w, start, stop):
    """w += sum_i factors_i x_i over a run of rows"""


@add_span.register(object)
def _(X, factors, w, start, stop):
    for i in range(start, stop):
        add_one(X, factors, i, stop, w)


@add_span.register(Dense)
def _(X, factors, w, start, stop):
    """Four rows at a time where all of them count: w, which each addition waits for, is read and written once for them."""
    i = max(start, 0)  # it is; but the compiler does not know, and would ask of each index whether it is negative
    while i < stop:
        if i + 4 <= stop and factors[i] != 0.0 and factors[i + 1] != 0.0 and factors[i + 2] != 0.0 and factors[i + 3] != 0.0:
            a, b, c, d = factors[i], factors[i + 1], factors[i + 2], factors[i + 3]
            for j in range(X.values.shape[1]):
                w[j] += (a * X.values[i, j] + b * X.values[i + 1, j]) + (c * X.values[i + 2, j] + d * X.values[i + 3, j])
            w[last_column(X)] += X.bias * ((a + b) + (c + d))
            i += 4
        else:
            add_one(X, factors, i, stop, w)
            i += 1


@kernel
def sum_rows(X, factors, w, start, stop):
    """w += sum_i factors_i x_i over a run of rows"""
    add_span(X, factors, w, start, stop)


def add_some_rows(X, factors: np.ndarray, w: np.ndarray, start: int, stop: int) -> None:
    """The same; where dense rows are few, as a product of NumPy's: nothing has to be compiled for it."""
    if type(X) is not Dense or (stop - start) * X.values.shape[1] > FEW_NUMBERS:
        sum_rows(X, factors, w, start, stop)
        return
    some = factors[start:stop]
    with np.errstate(all="ignore"):  # as kernels do: what overflows is told of elsewhere
        w[:-1] += some @ X.values[start:stop]
        w[-1] += X.bias * some.sum()


@kernel
def score_rows(X, w, out):
    """out = X w of dense rows, four of them at a time"""
    n, constant = X.values.shape[0], X.bias * w[last_column(X)]
    whole = n - n % 4
    for i in range(0, whole, 4):
        a = b = c = d = 0.0
        for j in range(X.values.shape[1]):
            a += X.values[i, j] * w[j]
            b += X.values[i + 1, j] * w[j]
            c += X.values[i + 2, j] * w[j]
            d += X.values[i + 3, j] * w[j]
        out[i], out[i + 1], out[i + 2], out[i + 3] = a + constant, b + constant, c + constant, d + constant
    for i in range(whole, n):
        out[i] = dot(X, i, w)
