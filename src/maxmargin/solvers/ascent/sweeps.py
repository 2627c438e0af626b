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
from ...losses.base import row_extrapolate, row_step
from .parts import keep_row

CLASSES_KEPT = 16  # of a visit, that there is room for, on average: rows of more are kept whole. By guess, 2026-11-19
ROW_KEPT = -1


class SweepRoom(NamedTuple):
    """Scratch; and what duals were before each visit, where somebody may have to go back."""

    row: vectors.VectorTable
    change: vectors.VectorTable
    which: np.ndarray
    many: np.ndarray  # classes that an example had duals of, or ROW_KEPT; empty where nothing is kept
    classes: np.ndarray  # those classes, of one visit after another
    kept: np.ndarray  # their duals


def sweep_room(classes: int, dtype: Any, visits: int = 0) -> SweepRoom:
    """Room to sweep, and to go back by up to so many visits."""
    row, change = (vectors.zeros_table(1, classes, dtype) for _ in range(2))
    held, kept = np.zeros(CLASSES_KEPT * visits, np.int32), np.zeros(CLASSES_KEPT * visits, dtype)
    return SweepRoom(row, change, np.zeros(row.flat.size, np.int64), np.zeros(visits, np.int32), held, kept)


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
def keep_held(duals, old, i, room, visit):
    """Keep the duals that example i has of `many` classes, before visit q of a round; its whole row in `old` where there is no
    room. Returns where the next ones are kept."""
    q, many, place = visit
    if place + many > room.kept.size:
        keep_row(duals, old, i)
        room.many[q] = ROW_KEPT
        return place
    room.many[q] = many
    for a in range(many):
        room.classes[place + a] = room.which[a]
        room.kept[place + a] = duals.flat[i, room.which[a]]
    return place + many


@jitable_call
def retreat_held(loss, duals, old, plan, room, span, t):
    """Take the duals of the examples swept over, plan.order[span[0]:span[1]], to old + t (dual - old); returns the change of the
    reward."""
    place, gain = 0, 0.0
    for k in range(span[0], span[1]):
        i, many = plan.order[k], room.many[k - span[0]]
        if many == 0:
            continue
        if many != ROW_KEPT:
            keep_row(duals, old, i)
            for a in range(place, place + many):
                old.flat[i, room.classes[a]] = room.kept[a]
            place += many
        _, more = row_extrapolate(loss, i, duals, old, t - 1.0, room.change)
        gain += more
    return gain


@jitable_call
def sweep_some(X, loss, w, tables, plan, room, visit):
    """Visit plan.order[start:stop]. Returns the sum of the shares of the gap and the change of the reward."""
    (duals, old, curvature), (start, stop, terms) = tables, visit
    gap, gain, place = 0.0, 0.0, 0
    for k in range(start, stop):
        i = plan.order[k]
        if k + plan.ahead < stop:
            rows.prefetch(X, plan.order[k + plan.ahead])
            rows.prefetch_row(duals.vectors, plan.order[k + plan.ahead])
        many = score_held(X, i, w, duals, room)
        if room.many.size > 0:
            place = keep_held(duals, old, i, room, (k - start, many, place))
        if many > 0:
            share, more = settle_held(X, loss, i, w, duals, curvature, room, room.which[:many], terms)
            gap, gain = gap + share, gain + more
    return gap, gain


@kernel
def sweep_held(X, loss, w, duals, curvature, plan, room, visit):
    return sweep_some(X, loss, w, (duals, duals, curvature), plan, room, visit)
