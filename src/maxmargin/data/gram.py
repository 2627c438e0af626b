"""Kernel matrices: their rows are computed in blocks, always in float64; `kernel_rows` keeps them as long as memory allows.

Inner products of dense rows are matrix products of small tiles, which are converted to float64 one by one: a float32 X is neither
copied as a whole nor trusted with sums. From there to its place in the table a tile stays in the cache of a core. Inner products
of sparse rows go through the columns, so that only pairs of non-zeros cost anything.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..jit import jitable_call, kernel, vectors
from ..jit.products import outer_products
from ..utils.threads import spans
from .gathered import take_rows
from .kernel_functions import RBF, apply, called, check_kernel_size, finish, squared_lengths
from .matrices import SYMMETRIC, check_norms

# Chosen for speed, sets not recorded, 2026-11-15:
TILE = 512  # columns of a tile: it stays in the cache of a core from the product to the last operation on it
BLOCK = 128  # rows computed at a time, where they are put somewhere else first
LISTED_BELOW = 0.15  # dense data with fewer non-zeros than this are cheaper through their columns
# Of rows that are computed where they belong: a strip of them is a thread's; so many blocks or values, but no more
# multiplications than that, are computed at once, each pair of samples once, which saves a sixth of the time (5,000 rows, 16 and
# 100 columns, Neoverse N1, 2026-11-18); entries of the rows of X of a tile at the most: by reasoning, only tried together.
STRIP_OF_THREAD = 64
BLOCKS_AT_ONCE = 8
VALUES_AT_ONCE = 1 << 25
WORK_AT_ONCE = 1 << 32
ENTRIES_OF_TILE = 1 << 20
# And not:
NUMBERS_OF_LINE = 8  # in a line of the cache
AT_ONCE = 16  # samples that a user's function is asked for where only the diagonal is wanted


@kernel
def spread_columns(found, table, others, places):
    """table[places, others] = found"""
    for k in range(places.size):
        place = places[k]
        for c in range(others.size):
            table[place, others[c]] = found[k, c]


@kernel
def sparse_products(rows, wanted, columns, out):
    """out[k, j] = <row wanted[k], x_j> for CSR rows and all x by their columns"""
    data, indices, indptr = rows
    values, samples, starts = columns
    for k in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[k, j] = 0.0
        for p in range(indptr[wanted[k]], indptr[wanted[k] + 1]):
            x, c = np.float64(data[p]), indices[p]
            for r in range(starts[c], starts[c + 1]):
                out[k, samples[r]] += x * np.float64(values[r])


class TileRoom(NamedTuple):
    """Scratch of one thread: rows of X as float64, for a strip of rows and for the columns of a tile; their norms; the tile."""

    left: np.ndarray
    right: np.ndarray
    left_norms: np.ndarray
    right_norms: vectors.VectorTable
    values: vectors.VectorTable


@kernel
def write_rows(function, samples, columns, table, block, places, later, room):
    """table[places, columns] = K[block, columns], tile by tile; `samples`: the rows of X and their norms. The last columns are
    those of samples whose rows are at the places `later`, and get there what they have of the block: K is symmetric."""
    (X, norms), rows, wide = samples, block.size, room.right.shape[0]
    left, values = room.left[:rows], room.values.flat[:rows]
    take_rows(X, block, left)
    for k in range(rows):
        room.left_norms[k] = norms[block[k]]
    for start in range(0, columns.size, wide):
        count = min(wide, columns.size - start)
        tile = columns[start : start + count]
        take_rows(X, tile, room.right)
        for c in range(count):
            room.right_norms.flat[0, c] = norms[tile[c]]
        outer_products(left, room.right[:count], values)
        for k in range(rows):
            for c in range(count, values.shape[1]):
                values[k, c] = 0.0
        apply(function, room.values.vectors[:rows], room.left_norms, room.right_norms.vectors)
        for k in range(rows):
            place = places[k]
            for c in range(count):
                table[place, tile[c]] = values[k, c]
        first = start + later.size - columns.size  # which of the later rows is that of the first column
        skipped = max(0, -first)
        if skipped < count:
            write_columns(values[:, skipped:count], table, block, later[first + skipped :])


@jitable_call
def write_columns(values, table, block, places):
    """table[places, block] = values', a line of the cache at a time."""
    for first in range(0, values.shape[1], NUMBERS_OF_LINE):
        last = min(first + NUMBERS_OF_LINE, values.shape[1])
        for k in range(block.size):
            column = block[k]
            for c in range(first, last):
                table[places[c], column] = values[k, c]


def unsigned(matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data, indices and pointers as kernels read them: numba leaves out its test for negative indices."""
    kind = np.dtype(f"u{matrix.indices.dtype.itemsize}")
    return matrix.data, matrix.indices.view(kind), matrix.indptr.view(kind)


def listed(X: np.ndarray):
    """Dense data by their non-zeros, if these are few; else as they are."""
    there = (X != 0).reshape(-1)
    if np.count_nonzero(there) >= LISTED_BELOW * X.size:
        return X
    places = np.flatnonzero(there)
    starts = np.searchsorted(places, np.arange(X.shape[0] + 1) * X.shape[1])
    return sp.csr_matrix((X[there.reshape(X.shape)], places % X.shape[1], starts), X.shape)


class Gram(ABC):
    """A kernel matrix whose parts can be asked for. `definite`: known to be positive semidefinite by its formula."""

    n: int
    definite: bool

    @abstractmethod
    def block(self, wanted: np.ndarray, others: np.ndarray) -> np.ndarray:
        """K[wanted, others], in float64; a few wanted rows at a time, `others` in rising order."""

    @abstractmethod
    def diagonal(self) -> np.ndarray:
        """K_ii for every sample."""

    def rows(self, wanted: np.ndarray) -> np.ndarray:
        """K[wanted]"""
        return self.block(wanted, np.arange(self.n))

    def at_once(self, step: int) -> int:
        """How many rows to ask for at a time, where there is room for `step` of them twice beside their table."""
        return step

    def parts(self, count: int, n_jobs: int) -> list[tuple[int, int]]:
        """So many rows cut into those that a thread computes."""
        return spans(count, n_jobs)

    def room(self) -> Any:
        """Scratch of one thread, for `write`."""
        return None

    def write(self, table: np.ndarray, outside: np.ndarray, rows: "NewRows", part: tuple[int, int], room: Any) -> None:
        """Part of the new rows, at the columns `outside` and at those of all new rows: when all parts are written, all of the new
        rows are. The same on any number of threads."""
        wanted, places = rows.part(part)
        others = np.sort(np.concatenate([outside, rows.samples]))
        found = self.block(wanted, others)
        spread_columns(found, table, *(index.view(np.uint64) for index in (others, places)))


class NewRows(NamedTuple):
    """Rows that are computed: of these samples, at these places of a table."""

    samples: np.ndarray
    places: np.ndarray

    def part(self, part: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        return self.samples[part[0] : part[1]], self.places[part[0] : part[1]]


class FunctionGram(Gram):
    """The matrix of a built-in kernel on the rows of X. Dense data that are mostly zeros are listed by their non-zeros."""

    def __init__(self, function, X):
        if not sp.issparse(X):
            X = listed(X)
        self.function, self.X, self.n, self.definite = function, X, X.shape[0], function.definite
        self.norms = check_norms(squared_lengths(X))

    @cached_property
    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return unsigned(self.X.tocsc())

    def diagonal(self):
        if isinstance(self.function, RBF):
            return np.ones(self.n)
        products = vectors.pack(self.norms[None], np.float64)  # <x, x>, and no other kernel asks for norms
        finish(self.function, products, np.zeros(1), products)
        return products.reshape(-1)[: self.n].copy()

    def block(self, wanted, others):
        width = vectors.width(np.float64)
        values = vectors.aligned((wanted.size, -(-others.size // width) * width), np.float64)
        right = vectors.pack(self.norms[None, others], np.float64)
        if sp.issparse(self.X):
            products = np.empty((wanted.size, self.n))
            sparse_products(unsigned(self.X), wanted, self.columns, products)
            np.take(products, others, axis=1, out=values[:, : others.size], mode="clip")
        else:
            left = self.X[wanted].astype(np.float64, copy=False)
            for start in range(0, others.size, TILE):
                tile = others[start : start + TILE]
                np.matmul(left, self.X[tile].astype(np.float64, copy=False).T, out=values[:, start : start + tile.size])
        finish(self.function, values.reshape(wanted.size, -1, width), self.norms[wanted], right)
        if isinstance(self.function, RBF):  # the distance of a sample to itself is not left to rounding
            at = np.searchsorted(others, wanted)
            both = np.flatnonzero(others[np.minimum(at, others.size - 1)] == wanted)
            values[both, at[both]] = 1.0
        return values[:, : others.size]

    def at_once(self, step):
        if sp.issparse(self.X):
            _ = self.columns  # once, before any thread asks for it
            return step
        # Where memory is short, blocks are small, and so is what is computed between two looks at the clock.
        many = max(BLOCKS_AT_ONCE, VALUES_AT_ONCE // (self.n * step)) if step >= BLOCK else BLOCKS_AT_ONCE
        most = WORK_AT_ONCE // (max(self.X.size, 1) * step)
        return step * max(1, min(many, most))

    def parts(self, count, n_jobs):
        return spans(count, n_jobs) if sp.issparse(self.X) else list(pairwise([*range(0, count, STRIP_OF_THREAD), count]))

    def room(self):
        if sp.issparse(self.X):
            return None
        features, width = max(self.X.shape[1], 1), vectors.width(np.float32)
        wide = max(width, min(TILE, ENTRIES_OF_TILE // features) // width * width)
        left, right = (vectors.aligned((rows, self.X.shape[1]), np.float64) for rows in (STRIP_OF_THREAD, wide))
        tables = (vectors.zeros_table(rows, wide, np.float64) for rows in (1, STRIP_OF_THREAD))
        return TileRoom(left, right, np.zeros(STRIP_OF_THREAD), *tables)

    def write(self, table, outside, rows, part, room):
        if sp.issparse(self.X):
            super().write(table, outside, rows, part, room)
            return
        wanted, places = rows.part(part)
        columns, later = np.concatenate([outside, rows.samples[part[0] :]]), rows.places[part[1] :]
        where, block, at, mirrored = (index.view(np.uint64) for index in (columns, wanted, places, later))
        write_rows(self.function, (self.X, self.norms), where, table, block, at, mirrored, room)
        if isinstance(self.function, RBF):  # as above: no row is asked for that is there
            table[places, wanted] = 1.0


class PrecomputedGram(Gram):
    """A matrix that the user computed. It is read where it lies."""

    definite = False

    def __init__(self, matrix: np.ndarray):
        self.matrix, self.n = matrix, matrix.shape[0]

    def diagonal(self):
        return self.matrix.diagonal().astype(np.float64)

    def block(self, wanted, others):
        return self.matrix[np.ix_(wanted, others)].astype(np.float64, copy=False)


class CallableGram(Gram):
    """A user's function of two sets of samples."""

    definite = False

    def __init__(self, function: Callable, X):
        self.function, self.X, self.n = function, X, X.shape[0]

    def diagonal(self):
        result = np.empty(self.n)
        for start in range(0, self.n, AT_ONCE):
            part = self.X[start : start + AT_ONCE]
            result[start : start + AT_ONCE] = called(self.function, part, part).diagonal()
        return result

    def parts(self, count, n_jobs):
        return [(0, count)]  # a function of the user's is called by one thread

    def block(self, wanted, others):
        right = self.X if others.size == self.n else self.X[others]
        return called(self.function, self.X[wanted], right)


def gram_of(function, X) -> Gram:
    """The kernel matrix of the samples X, or the matrix X itself where it is precomputed."""
    if isinstance(function, str):
        gram: Gram = PrecomputedGram(checked_square(X))
    elif isinstance(function, tuple):
        gram = FunctionGram(function, X)
    else:
        gram = CallableGram(function, X)
    diagonal = gram.diagonal()
    if np.any(bad := ~(diagonal >= 0.0)):
        i = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"The kernel of sample {i} with itself is {diagonal[i]:g}; it must be >= 0, or there is no such feature space."
        )
    if isinstance(gram, FunctionGram):
        check_kernel_size(f"the {type(function).__name__.lower()} kernel", diagonal)
    return gram


def checked_square(K) -> np.ndarray:
    """A precomputed kernel matrix: dense, square and symmetric."""
    if sp.issparse(K):
        raise ValueError("A precomputed kernel matrix must be dense.")
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"A precomputed kernel matrix must be square, one row and one column a sample; its shape is {K.shape}.")
    check_kernel_size("the precomputed kernel matrix", K)
    allowed = SYMMETRIC * (float(np.abs(K).max()) if K.size else 0.0) * (1.0 if K.dtype == np.float64 else 1e4)
    for start in range(0, K.shape[0], TILE):
        rows, columns = K[start : start + TILE], K[:, start : start + TILE].T
        apart = np.abs(rows - columns)
        if apart.max() > allowed:
            i, j = np.unravel_index(int(apart.argmax()), apart.shape)
            i += start
            raise ValueError(
                f"A precomputed kernel matrix must be symmetric; entry ({i}, {j}) is {K[i, j]:g}, ({j}, {i}) is {K[j, i]:g}."
            )
    return K
