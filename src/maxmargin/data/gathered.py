"""Dense rows taken out of a table, in any order: their scores and sums as matrix products.

Weights are turned for it, (classes, features + 1) with both padded to whole vectors, the bias the last feature: a sum over few
examples and classes then reads and writes whole runs of memory.
"""

from typing import Any, NamedTuple

import numpy as np

from ..jit import jitable_call, kernel, vectors
from .rows import Dense, Indexed

# A number that is added class by class takes as long as so many of a matrix product, and a weight that is read and written too.
# Made rows of 512 columns and 1,000 classes, float32, Neoverse N1, 2026-11-16.
ENTRY = 3.0
WEIGHT_MOVED = 4.0
TILE_SIDE = 32  # of the squares in which a table is turned: what fits into the first cache, 2026-11-16


def has_dense_rows(X: Any) -> bool:
    """Whether rows, as kernels take them, are those of a dense matrix."""
    return isinstance(X, Dense | Indexed)


@jitable_call
def take_rows(values, which, out):
    """The rows `which`, in the dtype of `out`, which has a column more."""
    for k in range(which.size):
        i = which[k]
        for j in range(values.shape[1]):
            out[k, j] = values[i, j]


@jitable_call
def some_rows(table, first, last):
    """These rows of a table."""
    return vectors.VectorTable(table.vectors[first:last], table.flat[first:last])


@kernel
def transpose(table, out):
    """out[j, i] = table[i, j], where both have it."""
    rows, columns = min(table.shape[0], out.shape[1]), min(table.shape[1], out.shape[0])
    for first in range(0, rows, TILE_SIDE):
        for second in range(0, columns, TILE_SIDE):
            for j in range(second, min(second + TILE_SIDE, columns)):
                for i in range(first, min(first + TILE_SIDE, rows)):
                    out[j, i] = table[i, j]


def turn_into(W: np.ndarray, turned: vectors.VectorTable) -> None:
    """Weights (features + 1, blocks, width) in their place as (classes, features + 1), both padded."""
    transpose(W.reshape(W.shape[0], -1), turned.flat)


def by_class(W: np.ndarray) -> vectors.VectorTable:
    """Weights turned."""
    result = room_by_class(W)
    turn_into(W, result)
    return result


def room_by_class(W: np.ndarray) -> vectors.VectorTable:
    """Room for weights that are turned."""
    flat = W.reshape(W.shape[0], -1)
    return vectors.zeros_table(flat.shape[1], flat.shape[0], W.dtype)


def by_feature(turned: vectors.VectorTable, W: np.ndarray) -> None:
    """Turned weights back in their place."""
    transpose(turned.flat, W.reshape(W.shape[0], -1))


class Entries(NamedTuple):
    """Entries of a table that are not zero, as found, and class by class: those of class c from starts[c] to starts[c + 1]."""

    row: np.ndarray
    column: np.ndarray
    starts: np.ndarray
    which: np.ndarray  # row
    value: np.ndarray


@jitable_call
def list_few(table, which, entries):
    """List what is not zero in the first rows of a table, those of the rows `which` of X, if so few are not that a sum class by
    class is faster than a product; returns whether they are."""
    starts, width, found = entries.starts, table.vectors.shape[2], 0
    classes = starts.size - 1
    most = min(entries.row.size, int((which.size - WEIGHT_MOVED) * classes / ENTRY))
    for c in range(starts.size):
        starts[c] = 0
    for k in range(which.size):
        for b in range(classes // width):
            if vectors.any_filled(vectors.load(table.vectors, k, b)):
                if found + width > most:
                    return False
                for c in range(b * width, (b + 1) * width):
                    if table.flat[k, c] != 0:
                        entries.row[found], entries.column[found] = k, c
                        starts[c] += 1
                        found += 1
    for c in range(1, starts.size):
        starts[c] += starts[c - 1]
    for p in range(found - 1, -1, -1):  # from behind, so that rows stay in order and starts end where they belong
        k, c = entries.row[p], entries.column[p]
        starts[c] -= 1
        entries.which[starts[c]], entries.value[starts[c]] = which[k], table.flat[k, c]
    return True


def most_entries(rows: int, classes: int) -> int:
    """That `list_few` lists of a table with so many rows."""
    return max(0, int((rows - WEIGHT_MOVED) * classes / ENTRY))


@jitable_call
def add_class(rows, entries, W, c):
    """W[c] += sum of x over the entries of the class; four vectors of features at a time."""
    first, last, b = entries.starts[c], entries.starts[c + 1], 0
    while rows.shape[1] - b >= 4:
        one, two = vectors.load(W, c, b), vectors.load(W, c, b + 1)
        three, four = vectors.load(W, c, b + 2), vectors.load(W, c, b + 3)
        for e in range(first, last):
            i, t = entries.which[e], entries.value[e]
            one = vectors.fma(one, t, vectors.load(rows, i, b))
            two = vectors.fma(two, t, vectors.load(rows, i, b + 1))
            three = vectors.fma(three, t, vectors.load(rows, i, b + 2))
            four = vectors.fma(four, t, vectors.load(rows, i, b + 3))
        vectors.store(W, c, b, one)
        vectors.store(W, c, b + 1, two)
        vectors.store(W, c, b + 2, three)
        vectors.store(W, c, b + 3, four)
        b += 4
    while b < rows.shape[1]:
        one = vectors.load(W, c, b)
        for e in range(first, last):
            one = vectors.fma(one, entries.value[e], vectors.load(rows, entries.which[e], b))
        vectors.store(W, c, b, one)
        b += 1


@jitable_call
def add_listed(rows, entries, W):
    """W[c] += sum_k table[k, c] x_k over the entries of each class."""
    for c in range(entries.starts.size - 1):
        if entries.starts[c] < entries.starts[c + 1]:
            add_class(rows, entries, W, c)
