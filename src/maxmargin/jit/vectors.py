"""Rows of classes held in vector registers.

Scores and duals of a multiclass example are rows over the classes. numba does not turn the short loop over classes into
vector instructions (it cannot prove that two arrays do not overlap), so a *vector* is a value of its own here: 32
bytes, half a cache line, 8 float32 or 4 float64 classes. A lane array is three-dimensional and C-ordered with one vector
along its last axis:

    weights  (features + 1, blocks, width)     duals  (examples, blocks, width)     scratch  (1, blocks, width)

Uncompiled, a vector is a small NumPy array; compiled, an operation on it is one or a few instructions (`instructions`).
"""

import math
import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple
from weakref import finalize

import numpy as np

from . import jitable
from .instructions import (  # noqa: F401 - handed on: kernels write `vectors.load`
    BYTES,
    absolute,
    add,
    any_filled,
    any_reaches,
    clamp,
    divide,
    exp,
    fma,
    largest,
    load,
    log,
    maximum,
    minimum,
    multiply,
    prefetch,
    shift,
    store,
    subtract,
    total,
    where_negative,
    zeros_like,
)

LINE = 64  # bytes of a cache line
OWN_PAGES = 1 << 20  # bytes from which on an array has pages of its own
LARGE_PAGES = 1 << 22  # bytes from which on these are large ones, as NumPy's own arrays have it: fewer of them to find
RUN_TURNED = 1024  # features. 20,000 x 1,000 weights in groups of 16 classes: 0.10 s, all at once 0.34 s; a Xeon core, 2026-11-17
NEVER = -1e30  # what fills an unused lane of scores, costs or margins: no class or label is there


def width(dtype) -> int:
    """How many classes one vector of this dtype holds."""
    return BYTES // np.dtype(dtype).itemsize


def aligned(shape: tuple[int, ...], dtype) -> np.ndarray:
    """An array of zeros that starts on a cache line, so that a vector never straddles two."""
    return new_aligned(shape, dtype, blank=True)


def new_aligned(shape: tuple[int, ...], dtype, blank: bool) -> np.ndarray:
    """As `aligned`; only a `blank` one has to be zeros, another is written to at once."""
    size, item = math.prod(shape), np.dtype(dtype).itemsize  # NumPy's own product takes a hundred times as long
    if size * item >= OWN_PAGES:
        return apart(size, dtype, blank).reshape(shape)
    raw = np.zeros(size + LINE // item, dtype)
    skip = (-raw.ctypes.data % LINE) // item
    return raw[skip : skip + size].reshape(shape)


def zeros_apart(size: int, dtype) -> np.ndarray:
    """Zeros in pages of their own, which are taken when they are written to and go back to the system with the array. What is
    freed to `malloc` often stays with the process, in holes between arrays that live longer."""
    return apart(size, dtype, blank=True)


def apart(size: int, dtype, blank: bool) -> np.ndarray:
    """The same from those that are kept, where some are."""
    count, kept = max(size * np.dtype(dtype).itemsize, 1), getattr(OF_THREAD, "pages", None)
    if kept is None:
        return np.frombuffer(new_pages(count), dtype, size)
    return kept.array(count, blank)[: size * np.dtype(dtype).itemsize].view(dtype)


def new_pages(count: int) -> mmap.mmap:
    flags = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    pages = mmap.mmap(-1, count, **flags)
    if count >= LARGE_PAGES and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a system without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


class KeptPages:
    """Pages of arrays that are gone, for others of the same size. The system takes longer to find new ones than a thread to write
    to them, and serves one thread at a time: sixteen threads that work on group after group of 16 labels, 20,000 columns each,
    were a third of their time with the system, 2026-11-18. They serve one thread; arrays may end in any."""

    def __init__(self) -> None:
        self.free: dict[int, list[mmap.mmap]] = {}

    def array(self, count: int, blank: bool) -> np.ndarray:
        """So many bytes; zeros, where it has to be `blank`."""
        free = self.free.setdefault(count, [])
        used = bool(free)
        pages = free.pop() if used else new_pages(count)
        found = np.frombuffer(pages, np.uint8, count)
        finalize(found, free.append, pages).atexit = False
        if used and blank:
            found[...] = 0
        return found

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Arrays that this thread makes meanwhile are made of them."""
        before, OF_THREAD.pages = getattr(OF_THREAD, "pages", None), self
        try:
            yield
        finally:
            OF_THREAD.pages = before


OF_THREAD = threading.local()


def zeros_vectors(first: int, second: int, dtype) -> np.ndarray:
    """A lane array of zeros."""
    return aligned((first, second, width(dtype)), dtype)


class VectorTable(NamedTuple):
    """A (rows, blocks, width) lane array and the same memory as (rows, blocks * width), for access class by class.

    Both views are made once, in Python: inside a kernel a reshape costs as much as a dozen classes.
    """

    vectors: np.ndarray
    flat: np.ndarray


def table(array: np.ndarray) -> VectorTable:
    return VectorTable(array, array.reshape(array.shape[0], array.shape[1] * array.shape[2]))


def zeros_table(rows: int, classes: int, dtype) -> VectorTable:
    return table(zeros_vectors(rows, blocks(classes, dtype), dtype))


def blocks(classes: int, dtype) -> int:
    """How many vectors a row of classes takes. Rows of both dtypes have the same number of lanes, a multiple of float32's."""
    return -(-classes // width(np.float32)) * width(np.float32) // width(dtype)


def convert(array: np.ndarray, dtype) -> np.ndarray:
    """An aligned copy in another dtype; a lane array gets the other dtype's width."""
    shape = array.shape if array.ndim < 3 else (*array.shape[:-2], -1, width(dtype))
    result = new_aligned(array.shape, dtype, blank=False)
    result[...] = array
    return result.reshape(shape)


def from_classes(weights: np.ndarray, dtype, fill: float = 0.0) -> np.ndarray:
    """(classes, features) weights as a (features, blocks, width) lane array, unused lanes set to `fill`."""
    return pack(weights.T, dtype, fill)


def to_classes(weights: np.ndarray, classes: int) -> np.ndarray:
    """The (classes, features) weights of a (features, blocks, width) lane array, as a C-ordered copy."""
    result = np.empty((classes, weights.shape[0]), weights.dtype)
    put_classes(weights, result, slice(classes))
    return result


def put_classes(weights: np.ndarray, table: np.ndarray, which: np.ndarray | slice) -> None:
    """The same into these rows of a (classes, features) table; by runs of features, which stay in the cache meanwhile."""
    flat = unpack(weights, which.stop if isinstance(which, slice) else which.size)
    for first in range(0, flat.shape[0], RUN_TURNED):
        table[which, first : first + RUN_TURNED] = flat[first : first + RUN_TURNED].T


def pack(table: np.ndarray, dtype, fill: float = 0.0) -> np.ndarray:
    """A (rows, classes) table as a (rows, blocks, width) lane array, unused lanes set to `fill`."""
    rows, classes = table.shape
    result = zeros_vectors(rows, blocks(classes, dtype), dtype)
    flat = result.reshape(rows, -1)
    flat[:, :classes] = table
    flat[:, classes:] = fill
    return result


def unpack(packed: np.ndarray, classes: int) -> np.ndarray:
    """The (rows, classes) table of a (rows, blocks, width) lane array: a view."""
    return packed.reshape(packed.shape[0], -1)[:, :classes]


@jitable
def increase(array, i, j, vector):
    """array[i, j, :] += vector"""
    store(array, i, j, add(load(array, i, j), vector))


@jitable
def scale(array, factor):
    """array *= factor"""
    zero = zeros_like(array)
    for i in range(array.shape[0]):
        for j in range(array.shape[1]):
            store(array, i, j, fma(zero, factor, load(array, i, j)))


@jitable
def row_filled(array, i):
    """whether any number of array[i] is not zero; NaN counts as zero"""
    b = 0
    while b < array.shape[1] and not any_filled(load(array, i, b)):
        b += 1
    return b < array.shape[1]
