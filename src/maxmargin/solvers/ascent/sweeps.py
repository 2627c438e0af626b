"""Sweeps over the classes that have duals: between two passes over all classes, these few are brought nearer to their optimum.

With many classes an example has duals of a handful of them. A pass has to score all classes, for new ones to be found; to settle
those found takes the scores of these alone, a small part of the work. A class without a dual gets a score so low that the exact
step leaves it without one: the steps are those of a smaller problem, and never lower the dual value.

Rows are those of any kind; weights are turned, (classes, features + 1).
"""

from typing import Any, NamedTuple

import numpy as np

from ...data import rows
from ...data.rows import add, add_scaled, dot
from ...jit import jitable_call, kernel, vectors
from ...losses.base import row_step


class SweepRoom(NamedTuple):
    """Scratch."""

    row: vectors.VectorTable
    change: vectors.VectorTable
    which: np.ndarray


def sweep_room(classes: int, dtype: Any) -> SweepRoom:
    row, change = (vectors.zeros_table(1, classes, dtype) for _ in range(2))
    return SweepRoom(row, change, np.zeros(row.flat.size, np.int64))


@jitable_call
def score_held(X, i, w, duals, room):
    """The scores of the classes of example i that have a dual, and which classes they are; returns how many."""
    row, which = room.row, room.which
    never, width, many = vectors.shift(vectors.zeros_like(row.vectors), vectors.NEVER), row.vectors.shape[2], 0
    for b in range(row.vectors.shape[1]):
        vectors.store(row.vectors, 0, b, never)
        if vectors.magnitude(vectors.load(duals.vectors, i, b)) > 0:
            for c in range(b * width, (b + 1) * width):
                if duals.flat[i, c] != 0:
                    row.flat[0, c] = dot(X, i, w.flat[c])
                    which[many] = c
                    many += 1
    return many


@jitable_call
def settle_held(X, loss, i, w, duals, curvature, room, which, terms):
    """The exact step of example i from the scores of these classes, and their weights, which it moves `spread` times (`parted`).
    Returns its share of the gap and the change of the reward."""
    change, (level, variance, spread) = room.change, terms
    share, stepped, reward_change = row_step(loss, i, spread * curvature[i], room.row, duals, change, level)
    if not stepped:
        return share, 0.0
    for a in range(which.size):
        c = which[a]
        t = w.flat.dtype.type(spread) * change.flat[0, c]
        if t != 0:
            if variance.size > 0:
                add_scaled(X, i, t, variance, w.flat[c])
            else:
                add(X, i, t, w.flat[c])
    return share, reward_change


@jitable_call
def sweep_some(X, loss, w, duals, curvature, plan, room, visit):
    """Visit plan.order[start:stop]. Returns the sum of the shares of the gap and the change of the reward."""
    start, stop, terms = visit
    gap, gain = 0.0, 0.0
    for k in range(start, stop):
        i = plan.order[k]
        if k + plan.ahead < stop:
            rows.prefetch(X, plan.order[k + plan.ahead])
            rows.prefetch_row(duals.vectors, plan.order[k + plan.ahead])
        many = score_held(X, i, w, duals, room)
        if many > 0:
            share, more = settle_held(X, loss, i, w, duals, curvature, room, room.which[:many], terms)
            gap, gain = gap + share, gain + more
    return gap, gain


@kernel
def sweep_held(X, loss, w, duals, curvature, plan, room, visit):
    return sweep_some(X, loss, w, duals, curvature, plan, room, visit)
