"""Rows of a kernel matrix that are kept as long as memory allows, and what is asked of them: products, a negative eigenvalue."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from ..jit import kernel, vectors
from ..jit.products import add_products
from ..utils.blas import blas_threads
from ..utils.threads import in_threads, spans, with_scratch
from .gram import BLOCK, Gram, NewRows, PrecomputedGram
from .sources.options import MEGABYTE

# Rows that are written at a time where columns are copied into them: each lies in a page of memory of its own. Chosen for speed,
# sets not recorded, 2026-11-15.
STRIP = 32
# Entries of a block that are worth a thread: with more of them each waits for memory that the system has yet to hand out. 6,000
# made rows of 50 columns, 16 cores of x86 (2 threads took 0.16 s, 16 took 0.37), 2026-11-17.
WORTH = 1 << 18
# Columns of a product's tile: 12,000 made rows, 10 classes, one thread took 0.083 s with 256 and 0.075 s with 512, which leaves
# 16 threads too few of them. 2 cores of x86 with other work beside, 2026-11-18.
COLUMNS_OF_PRODUCT = 256
# Factors of which this part is not zero at the most, or one a row, are taken one by one, among so many rows at a time: these stay
# in the cache of a core from label to label. 5,000 made rows, 26 labels, one core of a Neoverse N1: 0.028 s with a twentieth of
# them, 0.072 s with a fifth, all of them 0.096 s; 128 and 512 rows took a tenth more, 2026-11-18.
FEW_FACTORS = 0.2
ROWS_OF_FEW = 256
# And not chosen for speed:
LANCZOS = 20  # steps: vectors that are orthogonal to each other
DEFINITE = 1e-10  # part of the largest eigenvalue by which rounding may push one below zero


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
        except ArpackError as short:  # as where the smallest is zero; whatever else stops it shows nothing
            values = getattr(short, "eigenvalues", np.zeros(0))
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
        self.step = max(1, min(BLOCK, fitting // 16))  # rows at a time: while they are computed they may take up room twice more
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
        self.at_once = 1 if self.whole else gram.at_once(self.step)
        self.rooms: list[Any] = []
        self.tiles: list[np.ndarray] = []
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
        for start in range(0, missing.size, self.at_once):
            if stop():
                self.used[places[start:]] = 0
                break
            self._compute(missing[start : start + self.at_once], places[start : start + self.at_once])
        return self.slot[wanted]

    def _compute(self, block: np.ndarray, places: np.ndarray) -> None:
        """Columns of samples whose rows are here are copied: the matrix is symmetric."""
        others, held = self.slot < 0, np.flatnonzero(self.owner >= 0)
        others[block] = False
        outside, rows = np.flatnonzero(others), NewRows(block, places)
        here = tuple(index.view(np.uint64) for index in (held, self.owner[held]))

        def write(part: tuple[int, int], room: Any) -> None:
            self.gram.write(self.table, outside, rows, part, room)

        def complete(part: tuple[int, int]) -> None:
            mine, at = (index.view(np.uint64) for index in rows.part(part))
            copy_columns(self.table, *here, mine, at, STRIP)
            if self.scaled_rows is not None:
                shorten(self.table, self.scaled_rows, mine, at)

        jobs = self._jobs(block.size)
        with blas_threads(1):
            in_threads(with_scratch(self.gram.room, write, self.rooms), self.gram.parts(block.size, jobs), jobs)
            in_threads(complete, spans(block.size, jobs), jobs)
        self.owner[places], self.slot[block] = block, places
        self.computed += block.size * (outside.size + block.size)

    def _jobs(self, count: int) -> int:
        """Threads that so many rows are worth."""
        return max(1, min(self.n_jobs, count * self.gram.n // WORTH))

    def product(self, factors: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """factors[:, samples] @ K[samples], in float64"""
        result, held = np.zeros((factors.shape[0], self.gram.n)), self.owner >= 0
        here = bool(np.all(self.slot[samples] >= 0))
        if here and np.count_nonzero(factors[:, samples]) <= max(FEW_FACTORS * factors.shape[0], 1.0) * samples.size:
            few = few_factors(factors[:, samples], self.slot[samples])
            self._in_tiles(lambda tile, _: add_few_rows(few, self.table, result, tile), samples.size)
            return result
        if here and self.table.dtype == np.float64 and 2 * samples.size > np.count_nonzero(held):
            last = int(np.flatnonzero(held)[-1]) + 1
            spread = np.zeros((factors.shape[0], last))
            spread[:, self.slot[samples]] = factors[:, samples]
            self._in_tiles(lambda tile, _: np.matmul(spread, self.table[:last, tile], out=result[:, tile]), last)
            return result
        size = max(1, samples.size if here else min(self.at_once, self.capacity))
        for start in range(0, samples.size, size):
            block = samples[start : start + size]
            left, places = np.ascontiguousarray(factors[:, block].T, np.float64), self.need(block).view(np.uint64)
            self._in_tiles(partial(add_rows_of_table, left, self.table, places, result), block.size)
        return result

    def _in_tiles(self, work: Callable[[slice, np.ndarray], Any], count: int) -> None:
        """work(columns, scratch) for all columns, of so many rows: by slices that are the same whatever the number of threads."""

        def one(start: int, tile: np.ndarray) -> None:
            work(slice(start, min(start + COLUMNS_OF_PRODUCT, self.gram.n)), tile)

        with_tiles = with_scratch(lambda: vectors.aligned((BLOCK, COLUMNS_OF_PRODUCT), np.float64), one, self.tiles)
        with blas_threads(1):
            in_threads(with_tiles, range(0, self.gram.n, COLUMNS_OF_PRODUCT), self._jobs(count))

    def held(self) -> np.ndarray:
        """Whether each row is here."""
        return self.slot >= 0

    def restore(self, owner: np.ndarray) -> None:
        """Hold these rows, each at its place: products add them up in that order, and are the same to the last digit then."""
        if not self.whole:
            self.slot[:], self.owner[:] = -1, -1
            places = np.flatnonzero(owner >= 0)
            for start in range(0, places.size, self.at_once):
                part = places[start : start + self.at_once]
                self._compute(owner[part], part)


@kernel
def copy_columns(table, held, owners, block, places, strip):
    """The columns `owners` of the rows of `block`, from the rows `held`, so many (`strip`) at a time."""
    for first in range(0, block.size, strip):
        for h in range(held.size):
            for k in range(first, min(first + strip, block.size)):
                table[places[k], owners[h]] = table[held[h], block[k]]


@kernel
def add_rows_of_table(left, table, places, out, columns, room):
    """out += left.T @ table[places] at these columns; `room`: for some rows of the table there."""
    first, last = columns.start, columns.stop
    for start in range(0, places.size, room.shape[0]):
        rows = min(room.shape[0], places.size - start)
        for k in range(rows):
            place = places[start + k]
            for c in range(last - first):
                room[k, c] = table[place, first + c]
        add_products(left[start : start + rows], room[:rows, : last - first], out[:, first:last])


class FewFactors(NamedTuple):
    """Factors that are not zero, and the rows of a table that they are of: a block of rows at a time, in it label by label. Those
    of label l in block k begin at starts[k * labels + l]."""

    starts: np.ndarray
    places: np.ndarray
    values: np.ndarray


def few_factors(factors: np.ndarray, places: np.ndarray) -> FewFactors:
    """Factors (labels, rows), of rows at these places."""
    label, row = np.nonzero(factors)
    group = places[row] // ROWS_OF_FEW * factors.shape[0] + label
    order = np.lexsort((places[row], group))
    label, row = label[order], row[order]
    groups = (int(places.max(initial=-1)) // ROWS_OF_FEW + 1) * factors.shape[0]
    starts = np.searchsorted(group[order], np.arange(groups + 1))
    return FewFactors(starts, places[row].astype(np.uint64), factors[label, row].astype(np.float64, copy=False))


@kernel
def add_few_rows(few, table, out, columns):
    """out += F table at these columns, F by its entries; four of them at a time, so that sums are read and written less often."""
    first, last, labels, values = columns.start, columns.stop, np.uint64(out.shape[0]), few.values
    for group in range(np.uint64(few.starts.size - 1)):
        begin, end, total = few.starts[group], few.starts[group + np.uint64(1)], out[group % labels, first:last]
        whole = begin + (end - begin) // 4 * 4
        for k in range(begin, whole, 4):
            a, b = table[few.places[k], first:last], table[few.places[k + 1], first:last]
            c, d = table[few.places[k + 2], first:last], table[few.places[k + 3], first:last]
            for j in range(total.size):
                total[j] += values[k] * a[j] + values[k + 1] * b[j] + values[k + 2] * c[j] + values[k + 3] * d[j]
        for k in range(whole, end):
            a = table[few.places[k], first:last]
            for j in range(total.size):
                total[j] += values[k] * a[j]


@kernel
def shorten(table, scaled_rows, block, places):
    """Rows of `block`, just written to table[places], once more as `ScaledRows` says."""
    for k in range(block.size):
        left, row, out = scaled_rows.scale[block[k]], table[places[k]], scaled_rows.table[places[k]]
        for c in range(row.size):
            out[c] = (row[c] + scaled_rows.shift) * left * scaled_rows.scale[c]
