"""Sweeps over the classes that have duals: between two passes over all classes, these few are brought nearer to their optimum.

With many classes an example has duals of a handful of them. A pass has to score all classes, for new ones to be found; to settle
those found takes the scores of these alone, a small part of the work. A class without a dual gets a score so low that the exact
step leaves it without one: the steps are those of a smaller problem, and never lower the dual value.

To look through a row of all classes for a step on a few of them would take most of the time, so it is made in a table of these
few: the loss of one example, with its own class among them, `take_few` makes.

Rows are those of any kind; weights are turned, (classes, features + 1).
"""

from typing import Any, NamedTuple

import numpy as np

from ...data import rows
from ...data.rows import add, add_scaled, dot
from ...jit import jitable, jitable_call, kernel, vectors
from ...losses.base import for_few, row_extrapolate, row_label, row_step, take_few
from .parts import keep_row

CLASSES_KEPT = 16  # of a visit, that there is room for, on average: rows of more are kept whole. By guess, 2026-11-19
ROW_KEPT = -1
FEW_CLASSES, TIMES_FEW = 32, 2  # of a table of few; more than so many times as many must be all. By guess, 2026-11-19


class Few(NamedTuple):
    """Room for a step of one example on a few of its classes."""

    loss: Any  # `for_few`
    scores: vectors.VectorTable
    duals: vectors.VectorTable
    old: vectors.VectorTable
    change: vectors.VectorTable
    most: int  # of so many


def room_for_few(loss: Any, classes: int, dtype: Any) -> Few:
    scores, duals, old, change = (vectors.zeros_table(1, FEW_CLASSES, dtype) for _ in range(4))
    return Few(for_few(loss, FEW_CLASSES), scores, duals, old, change, steps_few(classes))


def steps_few(classes: float) -> int:
    """Of how many classes that an example has duals of it is stepped in a table of its own; 0 where all are not many more."""
    return FEW_CLASSES if classes > TIMES_FEW * FEW_CLASSES else 0


class SweepRoom(NamedTuple):
    """Scratch; and what duals were before each visit, where somebody may have to go back."""

    row: vectors.VectorTable
    change: vectors.VectorTable
    which: np.ndarray
    moves: np.ndarray  # of the duals of these classes
    few: Few
    many: np.ndarray  # classes that an example had duals of, or ROW_KEPT; empty where nothing is kept
    classes: np.ndarray  # those classes, of one visit after another
    kept: np.ndarray  # their duals


def sweep_room(loss: Any, classes: int, dtype: Any, visits: int = 0) -> SweepRoom:
    """Room to sweep, and to go back by up to so many visits."""
    row, change = (vectors.zeros_table(1, classes, dtype) for _ in range(2))
    which, moves, few = np.zeros(row.flat.size, np.int32), np.zeros(row.flat.size, dtype), room_for_few(loss, classes, dtype)
    held, kept = np.zeros(CLASSES_KEPT * visits, np.int32), np.zeros(CLASSES_KEPT * visits, dtype)
    return SweepRoom(row, change, which, moves, few, np.zeros(visits, np.int32), held, kept)


@jitable
def place_among(which, label):
    """Where this class stands among these; -1 where it does not."""
    place = which.size - 1
    while place >= 0 and which[place] != label:
        place -= 1
    return place


@jitable_call
def list_held(duals, i, held, begin):
    """Write down the classes that example i has duals of, from this place on; returns the place behind them."""
    width, place = duals.vectors.shape[2], begin
    for b in range(duals.vectors.shape[1]):
        if vectors.any_filled(vectors.load(duals.vectors, i, b)):
            for c in range(b * width, (b + 1) * width):
                if duals.flat[i, c] != 0:
                    held[place] = c
                    place += 1
    return place


@jitable_call
def make_step(loss, i, curvature, scores, duals, change, level):
    """`row_step`, compiled once."""
    return row_step(loss, i, curvature, scores, duals, change, level)


@jitable_call
def step_few(X, i, w, duals, room, which, curvature, level):
    """The exact step of example i in tables of these classes alone; what their duals moved by goes to room.moves."""
    few = room.few
    never, zero = vectors.shift(vectors.zeros_like(few.scores.vectors), vectors.NEVER), vectors.zeros_like(few.scores.vectors)
    for b in range(few.scores.vectors.shape[1]):
        vectors.store(few.scores.vectors, 0, b, never)
        vectors.store(few.duals.vectors, 0, b, zero)
    for a in range(which.size):
        few.scores.flat[0, a] = dot(X, i, w.flat[which[a]])
        few.duals.flat[0, a] = duals.flat[i, which[a]]
    share, stepped, gain = make_step(few.loss, 0, curvature, few.scores, few.duals, few.change, level)
    if stepped:
        for a in range(which.size):
            duals.flat[i, which[a]] = few.duals.flat[0, a]
            room.moves[a] = few.change.flat[0, a]
    return share, stepped, gain


@jitable_call
def step_row(X, loss, i, w, duals, room, which, curvature, level):
    """The same in a row of all classes."""
    row = room.row
    never = vectors.shift(vectors.zeros_like(row.vectors), vectors.NEVER)
    for b in range(row.vectors.shape[1]):
        vectors.store(row.vectors, 0, b, never)
    for a in range(which.size):
        row.flat[0, which[a]] = dot(X, i, w.flat[which[a]])
    share, stepped, gain = make_step(loss, i, curvature, row, duals, room.change, level)
    if stepped:
        for a in range(which.size):
            room.moves[a] = room.change.flat[0, which[a]]
    return share, stepped, gain


@jitable_call
def visit_held(X, loss, i, w, duals, curvature, room, which, terms):
    """The exact step of example i from the scores of these classes, and their weights, which it moves `spread` times (`parted`).
    Returns its share of the gap and the change of the reward."""
    (level, variance, spread), place = terms, place_among(which, row_label(loss, i))
    if place < 0:  # rounding has left it others: that is left to a pass over all classes
        return 0.0, 0.0
    if which.size <= room.few.most:
        take_few(loss, i, place, which, room.few.loss)
        share, stepped, gain = step_few(X, i, w, duals, room, which, spread * curvature[i], level)
    else:
        share, stepped, gain = step_row(X, loss, i, w, duals, room, which, spread * curvature[i], level)
    if not stepped:
        return share, 0.0
    for a in range(which.size):
        t = w.flat.dtype.type(spread) * room.moves[a]
        if t != 0:
            if variance.size > 0:
                add_scaled(X, i, t, variance, w.flat[which[a]])
            else:
                add(X, i, t, w.flat[which[a]])
    return share, gain


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
def go_back(loss, i, duals, old, t, change):
    """`row_extrapolate`, compiled once; returns the change of the reward."""
    return row_extrapolate(loss, i, duals, old, t, change)[1]


@jitable_call
def retreat_few(i, duals, room, which, kept, t):
    """Retreat in tables of these classes alone."""
    few = room.few
    zero = vectors.zeros_like(few.duals.vectors)
    for b in range(few.duals.vectors.shape[1]):
        vectors.store(few.duals.vectors, 0, b, zero)
        vectors.store(few.old.vectors, 0, b, zero)
    for a in range(which.size):
        few.duals.flat[0, a], few.old.flat[0, a] = duals.flat[i, which[a]], kept[a]
    gain = go_back(few.loss, 0, few.duals, few.old, t - 1.0, few.change)
    for a in range(which.size):
        duals.flat[i, which[a]] = few.duals.flat[0, a]
    return gain


@jitable_call
def retreat_held(loss, duals, old, plan, room, span, t):
    """Take the duals of the examples swept over, plan.order[span[0]:span[1]], to old + t (dual - old); returns the change of the
    reward."""
    place, gain = 0, 0.0
    for k in range(span[0], span[1]):
        i, many = plan.order[k], room.many[k - span[0]]
        which, kept = room.classes[place : place + max(many, 0)], room.kept[place : place + max(many, 0)]
        label, place = place_among(which, row_label(loss, i)), place + which.size
        if many == ROW_KEPT:
            gain += go_back(loss, i, duals, old, t - 1.0, room.change)
        elif label >= 0 and many <= room.few.most:
            take_few(loss, i, label, which, room.few.loss)
            gain += retreat_few(i, duals, room, which, kept, t)
        elif label >= 0:
            keep_row(duals, old, i)
            for a in range(many):
                old.flat[i, which[a]] = kept[a]
            gain += go_back(loss, i, duals, old, t - 1.0, room.change)
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
        many = list_held(duals, i, room.which, 0)
        if room.many.size > 0:
            place = keep_held(duals, old, i, room, (k - start, many, place))
        if many > 0:
            share, more = visit_held(X, loss, i, w, duals, curvature, room, room.which[:many], terms)
            gap, gain = gap + share, gain + more
    return gap, gain


@kernel
def sweep_held(X, loss, w, duals, curvature, plan, room, visit):
    return sweep_some(X, loss, w, (duals, duals, curvature), plan, room, visit)
