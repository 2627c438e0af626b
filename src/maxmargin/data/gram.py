"""The rows of a kernel matrix: computed in blocks, kept as long as memory allows, always in float64.

Inner products of dense rows are matrix products of small tiles, which are converted to float64 one by one: a float32 X is neither
copied as a whole nor trusted with sums. Inner products of sparse rows go through the columns, so that only pairs of non-zeros
cost anything.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ..jit import kernel, vectors
from ..utils.blas import blas_threads
from ..utils.threads import in_threads, spans
from .kernel_functions import RBF, called, finish, squared_lengths
from .matrices import SYMMETRIC, check_norms
from .sources.options import MEGABYTE

# Chosen for speed, sets not recorded, 2026-11-15:
TILE = 512  # columns of a tile: it stays in the cache of a core from the product to the last operation on it
STRIP = 32  # rows that are written at a time where columns are copied into them: each lies in a page of memory of its own
BLOCK = 128  # rows computed at a time
# Entries of a block that are worth a thread: with more of them each waits for memory that the system has yet to hand out. 6,000
# made rows of 50 columns, 16 cores of x86 (2 threads took 0.16 s, 16 took 0.37), 2026-11-17.
WORTH = 1 << 18
LISTED_BELOW = 0.15  # dense data with fewer non-zeros than this are cheaper through their columns
# And not:
AT_ONCE = 16  # samples that a user's function is asked for where only the diagonal is wanted
LANCZOS = 20  # steps: vectors that are orthogonal to each other
DEFINITE = 1e-10  # part of the largest eigenvalue by which rounding may push one below zero


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
    def block(self, wanted: np.ndarray, others: np.ndarray, n_jobs: int = 1) -> np.ndarray:
        """K[wanted, others], in float64; a few wanted rows at a time, `others` in rising order. The same on any number of
        threads."""

    @abstractmethod
    def diagonal(self) -> np.ndarray:
        """K_ii for every sample."""

    def rows(self, wanted: np.ndarray) -> np.ndarray:
        """K[wanted]"""
        return self.block(wanted, np.arange(self.n))


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

    def block(self, wanted, others, n_jobs=1):
        width = vectors.width(np.float64)
        values = vectors.aligned((wanted.size, -(-others.size // width) * width), np.float64)
        right = vectors.pack(self.norms[None, others], np.float64)
        if not sp.issparse(self.X):
            left = self.X[wanted].astype(np.float64, copy=False)

            def multiply(start: int) -> None:
                tile = others[start : start + TILE]
                np.matmul(left, self.X[tile].astype(np.float64, copy=False).T, out=values[:, start : start + tile.size])

            with blas_threads(1):
                in_threads(multiply, range(0, others.size, TILE), n_jobs)

        def work(part: tuple[int, int]) -> None:
            own, mine = values[part[0] : part[1]], wanted[part[0] : part[1]]
            if sp.issparse(self.X):
                products = np.empty((mine.size, self.n))
                sparse_products(unsigned(self.X), mine, self.columns, products)
                np.take(products, others, axis=1, out=own[:, : others.size], mode="clip")
            finish(self.function, own.reshape(mine.size, -1, width), self.norms[mine], right)

        if sp.issparse(self.X):
            _ = self.columns  # once, before any thread asks for it
        in_threads(work, spans(wanted.size, n_jobs), n_jobs)
        if isinstance(self.function, RBF):  # the distance of a sample to itself is not left to rounding
            at = np.searchsorted(others, wanted)
            both = np.flatnonzero(others[np.minimum(at, others.size - 1)] == wanted)
            values[both, at[both]] = 1.0
        return values[:, : others.size]


class PrecomputedGram(Gram):
    """A matrix that the user computed. It is read where it lies."""

    definite = False

    def __init__(self, matrix: np.ndarray):
        self.matrix, self.n = matrix, matrix.shape[0]

    def diagonal(self):
        return self.matrix.diagonal().astype(np.float64)

    def block(self, wanted, others, n_jobs=1):
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

    def block(self, wanted, others, n_jobs=1):
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
    return gram


def checked_square(K) -> np.ndarray:
    """A precomputed kernel matrix: dense, square and symmetric."""
    if sp.issparse(K):
        raise ValueError("A precomputed kernel matrix must be dense.")
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"A precomputed kernel matrix must be square, one row and one column a sample; its shape is {K.shape}.")
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


def indefinite(rows: "KernelRows") -> bool:
    """Whether the kernel matrix between the rows in memory is shown to have a negative eigenvalue.

    A few steps of Lanczos' method: its values lie between the extreme eigenvalues, so a negative one proves that there is a
    negative eigenvalue, and how exact it is does not matter.
    """
    here, factors = np.flatnonzero(rows.held()), np.zeros((1, rows.gram.n))

    def multiply(v: np.ndarray) -> np.ndarray:
        factors[0, here] = v.ravel()
        return rows.product(factors, here)[0, here]

    if here.size <= LANCZOS:
        whole = np.array([multiply(unit) for unit in np.eye(here.size)]).reshape(here.size, here.size)
        values = np.linalg.eigvalsh(0.5 * (whole + whole.T))
    else:
        start = multiply(np.random.default_rng(0).standard_normal(here.size))
        if not start.any():  # a matrix of zeros, which ARPACK refuses
            return False
        matrix = LinearOperator((here.size, here.size), multiply, dtype=np.float64)
        try:
            values = eigsh(matrix, 2, which="BE", v0=start, ncv=LANCZOS, maxiter=1, tol=0.5, return_eigenvectors=False)
        except ArpackNoConvergence as short:  # as where the smallest is zero
            values = short.eigenvalues
    size = max(np.max(values, initial=0.0), np.max(rows.gram.diagonal()[here], initial=0.0))
    return bool(np.min(values, initial=0.0) < -DEFINITE * size)


class ScaledRows(NamedTuple):
    """The rows again in float32, scaled to a unit diagonal: (K_ij + shift) scale_i scale_j"""

    table: np.ndarray
    scale: np.ndarray
    shift: float


class KernelRows:
    """Rows of a kernel matrix within a number of bytes; to make room, those that were asked for longest ago go first."""

    def __init__(self, gram: Gram, memory: int, shift: float | None = 0.0):
        """At most `memory` bytes. A precomputed matrix takes none: its rows are read where they lie.

        Where all rows fit once and a half, `scaled_rows` holds them a second time, unless `shift` is None."""
        self.gram, self.n_jobs = gram, 1
        self.computed = 0  # entries of the matrix, for those who want to know
        self.whole = isinstance(gram, PrecomputedGram)
        fitting = memory // (8 * gram.n)
        self.step = max(1, min(BLOCK, fitting // 16))  # rows at a time: while they are computed they take up room twice more
        self.capacity = gram.n if self.whole else min(gram.n, fitting - 2 * self.step)
        if self.capacity < 1:
            raise ValueError(
                f"cache_size is too small: a row of the kernel matrix for {gram.n} samples takes {8 * gram.n / MEGABYTE:.3g} MB, "
                "and at least four must fit."
            )
        self.slot = np.arange(gram.n) if self.whole else np.full(gram.n, -1)
        self.owner = self.slot.copy() if self.whole else np.full(self.capacity, -1)
        # An empty table takes up memory only as it is written.
        self.table = gram.matrix if isinstance(gram, PrecomputedGram) else np.empty((self.capacity, gram.n))
        self.used, self.now = np.zeros(self.capacity, np.int64), 0
        self.scaled_rows: ScaledRows | None = None
        fits = not self.whole and self.capacity == gram.n and 12 * gram.n * (gram.n + 2 * self.step) <= memory
        if fits and shift is not None:
            size = gram.diagonal() + shift
            scale = np.divide(1.0, np.sqrt(size), out=np.zeros(gram.n), where=size > 0.0)
            self.scaled_rows = ScaledRows(np.empty((gram.n, gram.n), np.float32), scale, shift)

    def need(self, wanted: np.ndarray, stop: Callable[[], bool] = lambda: False) -> np.ndarray:
        """The places in `table` of these rows, at most `capacity` of them; missing ones are computed. -1 for those that there was
        no time for."""
        self.now += 1
        here = self.slot[wanted]
        self.used[here[here >= 0]] = self.now
        missing = wanted[here < 0]
        if missing.size == 0:
            return here
        places = np.sort(np.argsort(self.used, kind="stable")[: missing.size])
        gone = self.owner[places]
        self.slot[gone[gone >= 0]] = -1
        self.owner[places], self.used[places] = -1, self.now
        for start in range(0, missing.size, self.step):
            if stop():
                self.used[places[start:]] = 0
                break
            self._compute(missing[start : start + self.step], places[start : start + self.step])
        return self.slot[wanted]

    def _compute(self, block: np.ndarray, places: np.ndarray) -> None:
        """Columns of samples whose rows are here are copied: the matrix is symmetric."""
        others = np.flatnonzero(self.slot < 0)
        held = np.flatnonzero(self.owner >= 0)
        jobs = max(1, min(self.n_jobs, block.size * self.gram.n // WORTH))
        found = self.gram.block(block, others, jobs)
        known = tuple(index.view(np.uint64) for index in (others, held, self.owner[held]))

        def work(part: tuple[int, int]) -> None:
            own, mine, at = (array[part[0] : part[1]] for array in (found, block, places))
            fill_rows(own, self.table, *known, mine.view(np.uint64), at.view(np.uint64), STRIP)
            if self.scaled_rows is not None:
                shorten(self.table, self.scaled_rows, mine, at)

        in_threads(work, spans(block.size, jobs), jobs)
        self.owner[places], self.slot[block] = block, places
        self.computed += found.size

    def product(self, factors: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """factors[:, samples] @ K[samples], in float64"""
        held = self.owner >= 0
        if self.table.dtype == np.float64 and np.all(self.slot[samples] >= 0) and 2 * samples.size > np.count_nonzero(held):
            last = int(np.flatnonzero(held)[-1]) + 1
            spread = np.where(held[:last], factors[:, self.owner[:last]], 0.0)
            spread[:, np.setdiff1d(np.arange(last), self.slot[samples])] = 0.0
            result = np.empty((factors.shape[0], self.gram.n))
            self._multiply(spread, self.table[:last], result)
            return result
        result = np.zeros((factors.shape[0], self.gram.n))
        size = min(self.step, self.capacity)
        for start in range(0, samples.size, size):
            block = samples[start : start + size]
            part = np.empty_like(result)
            self._multiply(factors[:, block], self.table[self.need(block)].astype(np.float64, copy=False), part)
            result += part
        return result

    def _multiply(self, left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
        """left @ right, by slices of columns that are the same whatever the number of threads."""

        def multiply(start: int) -> None:
            np.matmul(left, right[:, start : start + TILE], out=out[:, start : start + TILE])

        with blas_threads(1):
            in_threads(multiply, range(0, right.shape[1], TILE), self.n_jobs)

    def held(self) -> np.ndarray:
        """Whether each row is here."""
        return self.slot >= 0

    def restore(self, owner: np.ndarray) -> None:
        """Hold these rows, each at its place: products add them up in that order, and are the same to the last digit then."""
        if not self.whole:
            self.slot[:], self.owner[:] = -1, -1
            places = np.flatnonzero(owner >= 0)
            for start in range(0, places.size, self.step):
                part = places[start : start + self.step]
                self._compute(owner[part], part)


@kernel
def fill_rows(found, table, others, held, owners, block, places, strip):
    """table[places] = rows of `block`: `found` at the columns `others`, and the columns `owners` from the rows `held`, so
    many (`strip`) at a time."""
    for k in range(block.size):
        place = places[k]
        for c in range(others.size):
            table[place, others[c]] = found[k, c]
    for first in range(0, block.size, strip):
        for h in range(held.size):
            for k in range(first, min(first + strip, block.size)):
                table[places[k], owners[h]] = table[held[h], block[k]]


@kernel
def shorten(table, scaled_rows, block, places):
    """Rows of `block`, just written to table[places], once more as `ScaledRows` says."""
    for k in range(block.size):
        left, row, out = scaled_rows.scale[block[k]], table[places[k]], scaled_rows.table[places[k]]
        for c in range(row.size):
            out[c] = (row[c] + scaled_rows.shift) * left * scaled_rows.scale[c]
