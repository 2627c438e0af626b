"""Copies of the weights, one for each thread: how far threads have come from where all began, and a way that all of them take.

Copy p has moved by spread * u_p in what the duals sum up to, variances counted in. Each thread compares all copies in a span of
the entries: slopes <w, u_p> and bends <u_p, u_q> in the metric of the prior, in float64. Then everybody knows how far each part
goes (`joint`), the weights move by sum t_p u_p, and all copies begin there again. All of that happens in compiled code: a meeting
takes a few microseconds, where leaving it would take hundreds.
"""

from typing import Any, NamedTuple

import numpy as np

from ...jit import generic_call, jitable_call, vectors
from ...jit.meeting import meet_all, new_board
from ...regularizers.spaces import Free, Paired, Shaped, Space, unclipped
from .joint import ROUNDING_OF_SUMS, SETTLED_BELOW, SWEEPS_TO_SETTLE, followed, settle_ways

AT_A_TIME = 256  # entries that are compared at a time: those of a few dozen copies stay in a core's own cache


class Meeting(NamedTuple):
    """What one thread brings to a meeting: who it is and how many come, the entries that it compares, what all copies started
    from and the copies, what all have found, a sheet and room of its own."""

    me: int
    crew: int
    first: int
    last: int
    board: np.ndarray  # to wait for each other
    v: np.ndarray
    w: np.ndarray
    V: np.ndarray
    W: np.ndarray
    variance: np.ndarray
    found: np.ndarray  # (threads, 2 + copies, copies): slopes, its gain, and the bends, over its entries
    sheet: np.ndarray  # sums of what all have found, and how far each part goes in the place of the gain
    moved: np.ndarray  # (3, copies, AT_A_TIME)


@jitable_call
def way_from(copy, start, result):
    """result = copy - start, in float64. Views: numba asks of every index that may be negative whether it is."""
    for j in range(start.size):
        result[j] = np.float64(copy[j]) - np.float64(start[j])


@jitable_call
def over_variances(moved, variance):
    for j in range(variance.size):
        moved[j] /= variance[j]


@jitable_call
def dot_of_ways(a, b):
    total = 0.0
    for j in range(b.size):
        total += a[j] * np.float64(b[j])
    return total


@jitable_call
def compare_copies(meeting, v, z, V, Z, tied):
    """Sums over the thread's entries, into its part of `found`. v and V are what duals sum up to, z and Z what that moves
    scores by, which is the same unless these are `tied`; the first is divided by variances, where there are any."""
    found, moved, w, variance = meeting.found[meeting.me], meeting.moved, meeting.w, meeting.variance
    crew, apart = meeting.crew, tied or variance.size > 0
    found[0, :crew] = 0.0
    found[2:, :crew] = 0.0
    for begin in range(meeting.first, meeting.last, moved.shape[2]):
        end = min(begin + moved.shape[2], meeting.last)
        size = end - begin
        for p in range(crew):
            mine = moved[0, p, :size]
            way_from(V[p, begin:end], v[begin:end], mine)
            if apart:
                way_from(Z[p, begin:end], z[begin:end], moved[1, p, :size])
            if variance.size > 0:
                over_variances(mine, variance[begin:end])
            found[0, p] += dot_of_ways(mine, w[begin:end])
        other = 1 if apart else 0
        for p in range(crew):
            mine = moved[0, p, :size]
            for q in range(p + 1):
                found[2 + p, q] += dot_of_ways(mine, moved[other, q, :size])


@jitable_call
def decide(meeting, spread):
    """Add up what all have found, and find how far to go; returns the best common step."""
    found, sheet, crew = meeting.found, meeting.sheet, meeting.crew
    for p in range(crew):
        slope = 0.0
        for k in range(crew):
            slope += found[k, 0, p]
        sheet[0, p], sheet[1, p] = slope / spread, found[p, 1, 0]
        for q in range(p + 1):
            bend = 0.0
            for k in range(crew):
                bend += found[k, 2 + p, q]
            sheet[2 + p, q] = sheet[2 + q, p] = bend / spread**2
    gains, slopes, bends, far = sheet[1, :crew], sheet[0, :crew], sheet[2 : 2 + crew], sheet[2 + crew, :crew]
    return settle_ways(gains, slopes, bends, far, SWEEPS_TO_SETTLE, SETTLED_BELOW, ROUNDING_OF_SUMS)


@jitable_call
def add_way(copy, start, far, total):
    """total += far (copy - start)"""
    for j in range(start.size):
        total[j] += far * (np.float64(copy[j]) - np.float64(start[j]))


@jitable_call
def add_total(total, v):
    for j in range(v.size):
        v[j] += v.dtype.type(total[j])


@jitable_call
def copy_span(v, copy):
    for j in range(v.size):
        copy[j] = v[j]


@jitable_call
def join_copies(meeting, v, V, spread):
    """v += sum_p far_p (copies_p - v) / spread over the thread's entries, and all copies are v there."""
    room, far = meeting.moved[2, 0], meeting.sheet[2 + meeting.crew]
    for begin in range(meeting.first, meeting.last, room.size):
        end = min(begin + room.size, meeting.last)
        total, mine = room[: end - begin], v[begin:end]
        total[:] = 0.0
        for p in range(meeting.crew):
            add_way(V[p, begin:end], mine, far[p] / spread, total)
        add_total(total, mine)
        for p in range(meeting.crew):
            copy_span(mine, V[p, begin:end])


@jitable_call
def copy_to_all(v, V, crew, first, last):
    for p in range(crew):
        copy_span(v[first:last], V[p, first:last])


@generic_call
def compare_ways(space, meeting):
    """What the copies of such weights have moved by."""


@generic_call
def join_ways(space, meeting, spread):
    """Move such weights as the sheet says, where the copies have moved `spread` times as far."""


@generic_call
def set_out(space, meeting):
    """All copies are where they start from, in the thread's entries."""


@compare_ways.register(Free)
def _(space, meeting):
    compare_copies(meeting, meeting.v, meeting.v, meeting.V, meeting.V, False)


@compare_ways.register(Shaped)
def _(space, meeting):
    compare_copies(meeting, meeting.v, meeting.v, meeting.V, meeting.V, False)


@compare_ways.register(Paired)
def _(space, meeting):
    compare_copies(meeting, meeting.v, meeting.w, meeting.V, meeting.W, True)


@join_ways.register(Free)
def _(space, meeting, spread):
    join_copies(meeting, meeting.v, meeting.V, spread)


@join_ways.register(Shaped)
def _(space, meeting, spread):
    join_copies(meeting, meeting.v, meeting.V, spread)
    lower = space.lower.reshape(-1)
    for j in range(meeting.first, meeting.last):
        meeting.w[j] = max(meeting.v[j], lower[j])
    copy_to_all(meeting.w, meeting.W, meeting.crew, meeting.first, meeting.last)


@join_ways.register(Paired)
def _(space, meeting, spread):
    join_copies(meeting, meeting.v, meeting.V, spread)
    join_copies(meeting, meeting.w, meeting.W, spread)


@set_out.register(Free)
def _(space, meeting):
    copy_to_all(meeting.v, meeting.V, meeting.crew, meeting.first, meeting.last)


@set_out.register(Shaped)
def _(space, meeting):
    copy_to_all(meeting.v, meeting.V, meeting.crew, meeting.first, meeting.last)
    copy_to_all(meeting.w, meeting.W, meeting.crew, meeting.first, meeting.last)


@set_out.register(Paired)
def _(space, meeting):
    copy_to_all(meeting.v, meeting.V, meeting.crew, meeting.first, meeting.last)
    copy_to_all(meeting.w, meeting.W, meeting.crew, meeting.first, meeting.last)


@jitable_call
def begin_together(space, meeting):
    """All copies where they start from; returns whether all threads are here."""
    set_out(space, meeting)
    return meet_all(meeting.board, meeting.crew)


@jitable_call
def go_together(space, meeting, gain, spread):
    """Go along the ways of all parts, this one's changed the rewards by `gain`; returns how far this one goes (below zero where
    somebody has given up) and the spread for the next steps."""
    meeting.found[meeting.me, 1, 0] = gain
    if not meet_all(meeting.board, meeting.crew):
        return -1.0, spread
    compare_ways(space, meeting)
    if not meet_all(meeting.board, meeting.crew):
        return -1.0, spread
    best = decide(meeting, spread)
    join_ways(space, meeting, spread)
    if not meet_all(meeting.board, meeting.crew):
        return -1.0, spread
    return meeting.sheet[2 + meeting.crew, meeting.me], followed(spread, best, np.float64(meeting.crew))


@jitable_call
def go_all_the_way(space, meeting):
    """The same where every part goes as far as it came; returns whether nobody has given up."""
    if not meet_all(meeting.board, meeting.crew):
        return False
    far = meeting.sheet[2 + meeting.crew]
    for p in range(meeting.crew):
        far[p] = 1.0
    join_ways(space, meeting, 1.0)
    return True


def stack(array: np.ndarray, count: int) -> np.ndarray:
    """So many copies of an array as rows, each of which begins on a cache line."""
    line = vectors.LINE // array.itemsize
    rows = vectors.aligned((count, -(-array.size // line) * line), array.dtype)
    rows[:, : array.size] = array.reshape(-1)
    return rows


class Copies:
    """As many copies of the weights as there are threads; `variance`, one for each weight, where these do not say it."""

    def __init__(self, space: Space, count: int, variance: np.ndarray | None = None):
        self.size, self.count = space.w.size, count
        self.V = stack(unclipped(space), count)
        self.W = self.V if isinstance(space, Free) else stack(space.w, count)
        self.spaces: list[Any] = [self.view(space, p) for p in range(count)]
        self.board, self.found = new_board(), np.zeros((count, count + 2, count))
        if variance is None:
            variance = space.variance.reshape(-1) if isinstance(space, Shaped) else np.zeros(0, space.w.dtype)
        self.variance = variance
        self.rooms = [(np.zeros((count + 3, count)), np.zeros((3, count, AT_A_TIME))) for _ in range(count)]

    def view(self, space: Space, p: int) -> Space:
        v, w = (rows[p, : self.size].reshape(space.w.shape) for rows in (self.V, self.W))
        return Free(w) if isinstance(space, Free) else space._replace(v=v, w=w)

    def meeting(self, p: int) -> Meeting:
        """What thread p brings; which weights all start from and move, who comes and what each compares, orders say. One without
        a copy waits at the board."""
        own = min(p, self.count - 1)
        weights = self.V[own], self.W[own], self.V, self.W
        return Meeting(p, self.count, 0, 0, self.board, *weights, self.variance, self.found, *self.rooms[own])
