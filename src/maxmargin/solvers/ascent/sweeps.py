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
from ...losses.base import for_few, row_label, row_step, take_few
from .parts import go_back, keep_row

CLASSES_KEPT = 16  # of a visit, that there is room for, on average: others are kept whole. By guess, 2026-11-19
ROW_KEPT = -1
FEW_CLASSES, TIMES_FEW = 32, 2  # of a table of few; more than so many times as many must be all. By guess, 2026-11-19


class Few(NamedTuple):
    """Room for a step of one example on a few of its classes."""

    loss: Any  # `for_few`
    scores: vectors.VectorTable
    duals: vectors.VectorTable
    old: vectors.VectorTable
    change: vectors.VectorTable
    places: np.ndarray  # where its classes are in these: one after another
    most: int  # of so many


def room_for_few(loss: Any, classes: int, dtype: Any) -> Few:
    scores, duals, old, change = (vectors.zeros_table(1, FEW_CLASSES, dtype) for _ in range(4))
    places = np.arange(FEW_CLASSES, dtype=np.int32)
    return Few(for_few(loss, FEW_CLASSES), scores, duals, old, change, places, steps_few(classes))


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
    many: np.ndarray  # classes that an example had duals of, 0 where it was not visited, or ROW_KEPT; empty where nothing is kept
    classes: np.ndarray  # those classes, of one visit after another
    kept: np.ndarray  # their duals


def sweep_room(loss: Any, classes: int, dtype: Any, visits: int = 0) -> SweepRoom:
    """Room to sweep, and to go back by up to so many visits."""
    row, change = (vectors.zeros_table(1, classes, dtype) for _ in range(2))
    which, moves, few = np.zeros(row.flat.size, np.int32), np.zeros(row.flat.size, dtype), room_for_few(loss, classes, dtype)
    held, kept = np.zeros(CLASSES_KEPT * visits, np.int32), np.zeros(CLASSES_KEPT * visits, dtype)
    return SweepRoom(row, change, which, moves, few, np.zeros(visits, np.int32), held, kept)


@jitable
def own_place(loss, i, which):
    """Where the class of example i stands among those that it has duals of; -1 where it has none, or rounding has left it others:
    there is nothing to sweep over then."""
    label, place = row_label(loss, i), which.size - 1
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


@jitable
def fill_one(table, number):
    """Put this number into every lane of the first row."""
    same = vectors.shift(vectors.zeros_like(table.vectors), number)
    for b in range(table.vectors.shape[1]):
        vectors.store(table.vectors, 0, b, same)


@jitable
def take_duals(duals, i, few, which):
    """The duals of these classes, and no others, in the table of few."""
    fill_one(few.duals, 0.0)
    for a in range(which.size):
        few.duals.flat[0, a] = duals.flat[i, which[a]]


@jitable
def put_duals(duals, i, few, which):
    """Back in their place."""
    for a in range(which.size):
        duals.flat[i, which[a]] = few.duals.flat[0, a]


@jitable_call
def step_among(X, i, w, moves, which, table, terms):
    """The exact step of example i from the scores of these classes alone; what their duals moved by goes to `moves`. `table`: the
    loss, which of its examples this is, room for scores, its duals, room for their change, and where the classes are in these."""
    (loss, number, scores, duals, change, places), (curvature, level) = table, terms
    fill_one(scores, vectors.NEVER)
    for a in range(which.size):
        scores.flat[0, places[a]] = dot(X, i, w.flat[which[a]])
    share, stepped, gain = row_step(loss, number, curvature, scores, duals, change, level)
    if stepped:
        for a in range(which.size):
            moves[a] = change.flat[0, places[a]]
    return share, stepped, gain


@jitable_call
def visit_held(X, loss, i, w, duals, curvature, room, held, terms):
    """The exact step of example i from the scores of the classes that it has duals of, its own at a place among them, and their
    weights, which it moves `spread` times (`parted`). Returns its share of the gap and the change of the reward."""
    (which, place), (level, variance, spread) = held, terms
    few, terms = room.few, (spread * curvature[i], level)
    if which.size <= few.most:
        take_few(loss, i, place, which, few.loss)
        take_duals(duals, i, few, which)
        table = few.loss, 0, few.scores, few.duals, few.change, few.places
        share, stepped, gain = step_among(X, i, w, room.moves, which, table, terms)
        put_duals(duals, i, few, which)
    else:
        table = loss, i, room.row, duals, room.change, which
        share, stepped, gain = step_among(X, i, w, room.moves, which, table, terms)
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
    """Keep the duals that example i has of `many` classes, before visit q of a round; its whole row in `old` where they are not
    few or there is no room. Returns where the next ones are kept."""
    q, many, place = visit
    if many > room.few.most or place + many > room.kept.size:
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
    few, place, gain = room.few, 0, 0.0
    for k in range(span[0], span[1]):
        i, many = plan.order[k], room.many[k - span[0]]
        if many == ROW_KEPT:
            gain += go_back(loss, i, duals, old, t, room.change)
            continue
        if many == 0:
            continue
        which = room.classes[place : place + many]
        take_few(loss, i, own_place(loss, i, which), which, few.loss)
        take_duals(duals, i, few, which)
        fill_one(few.old, 0.0)
        for a in range(many):
            few.old.flat[0, a] = room.kept[place + a]
        gain += go_back(few.loss, 0, few.duals, few.old, t, few.change)
        put_duals(duals, i, few, which)
        place += many
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
        which = room.which[: list_held(duals, i, room.which, 0)]
        own = own_place(loss, i, which)
        if room.many.size > 0:
            place = keep_held(duals, old, i, room, (k - start, which.size if own >= 0 else 0, place))
        if own >= 0:
            share, more = visit_held(X, loss, i, w, duals, curvature, room, (which, own), terms)
            gap, gain = gap + share, gain + more
    return gap, gain


@kernel
def sweep_held(X, loss, w, duals, curvature, plan, room, visit):
    return sweep_some(X, loss, w, (duals, duals, curvature), plan, room, visit)
