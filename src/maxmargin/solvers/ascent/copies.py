"""Copies of the weights, one for each thread: how far threads have come from where all began, and a way that all of them take.

Copy p has moved by spread * u_p in what the duals sum up to, variances counted in. `meet` sums slopes <w, u_p> and bends
<u_p, u_q> in the metric of the prior, in float64; `join` moves the weights by sum t_p u_p, and lets all copies begin there again.
Both go through a span of the entries, so that threads may share these out.
"""

from typing import Any, NamedTuple

import numpy as np

from ...jit import kernel, vectors
from ...regularizers.spaces import Free, Paired, Shaped, Space, unclipped

TILE = 256  # entries that are compared at a time: those of a few dozen copies stay in a core's own cache


class Found(NamedTuple):
    """Sums over entries, and room for what the copies have moved."""

    slopes: np.ndarray  # (copies,)
    bends: np.ndarray  # (copies, copies)
    moved: np.ndarray  # (2, copies, TILE)


def room_to_meet(count: int) -> Found:
    return Found(np.zeros(count), np.zeros((count, count)), np.zeros((2, count, TILE)))


@kernel
def meet(start, copies, w, variance, span, found):
    """Add up over a span of entries. start[0] and copies[0] are what duals sum up to, start[1] and copies[1] what that moves
    scores by; the first is divided by variances, where there are any."""
    (v, z), (V, Z) = start, copies
    first, last = span
    slopes, bends, moved = found
    for begin in range(first, last, moved.shape[2]):
        size = min(moved.shape[2], last - begin)
        for p in range(V.shape[0]):
            for j in range(size):
                moved[0, p, j] = np.float64(V[p, begin + j]) - v[begin + j]
            for j in range(size):
                moved[1, p, j] = np.float64(Z[p, begin + j]) - z[begin + j]
            if variance.size > 0:
                for j in range(size):
                    moved[0, p, j] /= variance[begin + j]
            slope = 0.0
            for j in range(size):
                slope += moved[0, p, j] * w[begin + j]
            slopes[p] += slope
        for p in range(V.shape[0]):
            for q in range(p + 1):
                bend = 0.0
                for j in range(size):
                    bend += moved[0, p, j] * moved[1, q, j]
                bends[p, q] += bend


@kernel
def join(v, copies, shares, span, total):
    """v += sum_p shares_p (copies_p - v) over a span of entries, and all copies are v; `total` is scratch."""
    first, last = span
    for begin in range(first, last, total.size):
        size = min(total.size, last - begin)
        for j in range(size):
            total[j] = 0.0
        for p in range(copies.shape[0]):
            for j in range(size):
                total[j] += shares[p] * (np.float64(copies[p, begin + j]) - v[begin + j])
        for j in range(size):
            v[begin + j] += v.dtype.type(total[j])
        for p in range(copies.shape[0]):
            for j in range(size):
                copies[p, begin + j] = v[begin + j]


def stack(array: np.ndarray, count: int) -> np.ndarray:
    """So many copies of an array as rows, each of which begins on a cache line."""
    line = vectors.LINE // array.itemsize
    rows = vectors.aligned((count, -(-array.size // line) * line), array.dtype)
    rows[:, : array.size] = array.reshape(-1)
    return rows


class Copies:
    """Copies of `space`, and what they have to do with each other."""

    def __init__(self, space: Space, count: int):
        self.count, self.size = count, space.w.size
        self.V = stack(unclipped(space), count)
        self.W = self.V if isinstance(space, Free) else stack(space.w, count)
        self.nothing = np.zeros(0, space.w.dtype)
        self.spaces: list[Any] = [self.view(space, p) for p in range(count)]

    def view(self, space: Space, p: int) -> Space:
        v, w = (rows[p, : self.size].reshape(space.w.shape) for rows in (self.V, self.W))
        return Free(w) if isinstance(space, Free) else space._replace(v=v, w=w)

    def begin(self, space: Space, span: tuple[int, int]) -> None:
        """All copies are `space`; of weights that are loose, only what duals sum up to."""
        part = slice(*span)
        self.V[:, part] = unclipped(space).reshape(-1)[part]
        if not isinstance(space, Free):
            self.W[:, part] = space.w.reshape(-1)[part]

    def meet(self, space: Space, span: tuple[int, int]) -> Found:
        v, w, found = unclipped(space).reshape(-1), space.w.reshape(-1), room_to_meet(self.count)
        variance = space.variance.reshape(-1) if isinstance(space, Shaped) else self.nothing
        scores = (w, self.W) if isinstance(space, Paired) else (v, self.V)
        meet((v, scores[0]), (self.V, scores[1]), w, variance, span, found)
        return found

    def join(self, space: Space, shares: np.ndarray, span: tuple[int, int]) -> None:
        """Of how far each copy has moved, `shares`."""
        v, w, part = unclipped(space).reshape(-1), space.w.reshape(-1), slice(*span)
        scratch = np.empty(TILE)
        join(v, self.V, shares, span, scratch)
        if isinstance(space, Paired):
            join(w, self.W, shares, span, scratch)
        elif isinstance(space, Shaped):
            np.maximum(v[part], space.lower.reshape(-1)[part], out=w[part])
            self.W[:, part] = w[part]
