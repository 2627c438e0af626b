"""Copies of the weights, one for each thread: how far threads have come from where all began, and a way that all of them take.

Copy p has moved by spread * u_p in what the duals sum up to, variances counted in. `compare_copies` sums slopes <w, u_p> and
bends <u_p, u_q> in the metric of the prior, in float64; `join_copies` moves the weights by sum t_p u_p, and lets all copies begin
there again. Both go through a span of the entries, so that threads may share these out.
"""

from typing import Any, NamedTuple

import numpy as np

from ...jit import kernel, vectors
from ...regularizers.spaces import Free, Paired, Shaped, Space, unclipped

AT_A_TIME = 256  # entries that are compared at a time: those of a few dozen copies stay in a core's own cache


class Compared(NamedTuple):
    """Sums over entries, and room for what the copies have moved."""

    slopes: np.ndarray  # (copies,)
    bends: np.ndarray  # (copies, copies)
    moved: np.ndarray  # (2, copies, AT_A_TIME)


def room_to_meet(count: int) -> Compared:
    return Compared(np.zeros(count), np.zeros((count, count)), np.zeros((2, count, AT_A_TIME)))


@kernel
def compare_copies(start, copies, w, variance, span, found):
    """Sums over a span of entries, into `found`. start[0] and copies[0] are what duals sum up to, start[1] and copies[1] what
    that moves scores by; the first is divided by variances, where there are any."""
    (v, z), (V, Z) = start, copies
    first, last = span
    slopes, bends, moved = found
    slopes[:] = 0.0
    bends[:] = 0.0
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
                if q < p:
                    bends[q, p] += bend


@kernel
def join_copies(v, copies, shares, span, total):
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
    """As many copies of the weights as there are threads; of these, `count` are at work on a space."""

    def __init__(self, space: Space, most: int):
        self.size, self.most = space.w.size, most
        self.V = stack(unclipped(space), most)
        self.W = self.V if isinstance(space, Free) else stack(space.w, most)
        self.spaces: list[Any] = [self.view(space, p) for p in range(most)]
        self.found = [room_to_meet(most) for _ in range(most)]
        self.nothing = np.zeros(0, space.w.dtype)

    def view(self, space: Space, p: int) -> Space:
        v, w = (rows[p, : self.size].reshape(space.w.shape) for rows in (self.V, self.W))
        return Free(w) if isinstance(space, Free) else space._replace(v=v, w=w)

    def set_out(self, space: Space, count: int) -> None:
        """`space` is where so many copies start from, and what they move."""
        self.space, self.at_work = space, (self.V[:count], self.W[:count])
        self.flat = unclipped(space).reshape(-1), space.w.reshape(-1)
        self.variance = space.variance.reshape(-1) if isinstance(space, Shaped) else self.nothing
        if self.found[0].slopes.size != count:
            self.found = [room_to_meet(count) for _ in range(self.most)]

    def begin(self, span: tuple[int, int]) -> None:
        """All copies are where they start from; of weights that are loose, only what duals sum up to."""
        part = slice(*span)
        self.at_work[0][:, part] = self.flat[0][part]
        if not isinstance(self.space, Free):
            self.at_work[1][:, part] = self.flat[1][part]

    def meet(self, k: int, span: tuple[int, int]) -> Compared:
        """The sums over span k."""
        (v, w), (V, W), found = self.flat, self.at_work, self.found[k]
        start, copies = ((v, w), (V, W)) if isinstance(self.space, Paired) else ((v, v), (V, V))
        compare_copies(start, copies, w, self.variance, span, found)
        return found

    def join(self, shares: np.ndarray, span: tuple[int, int]) -> None:
        """Of how far each copy has moved, `shares`."""
        (v, w), (V, W), scratch = self.flat, self.at_work, np.empty(AT_A_TIME)
        join_copies(v, V, shares, span, scratch)
        if isinstance(self.space, Paired):
            join_copies(w, W, shares, span, scratch)
        elif isinstance(self.space, Shaped):
            part = slice(*span)
            np.maximum(v[part], self.space.lower.reshape(-1)[part], out=w[part])
            W[:, part] = w[part]
