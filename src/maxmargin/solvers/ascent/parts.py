"""What a thread of a crew does with its part of the rows, on its copy of the weights: chosen by what it has at hand."""

from typing import NamedTuple

from ...jit import generic, jitable_call, vectors
from ...losses.base import row_extrapolate
from .momentum import Lacking, move_some, reach_some
from .visits import visit_rows


@generic
def visit_share(hand, X, loss, space, tables, plan, visit, level):
    """Visit plan.order[start:stop] and move these weights; returns the sum of the shares of the gap and the change of the reward.
    `visit`: the pass, start, stop and the spread; `tables`: duals, room for those of before the visits, and curvatures."""


@generic
def retreat_share(hand, loss, tables, plan, span, t):
    """Take the duals of the examples visited, plan.order[span[0]:span[1]], to old + t (dual - old); returns the change of the
    reward. What lies between two feasible rows is feasible: that a row lacks something can only be rounding."""


@jitable_call
def keep_row(duals, old, i):
    """Let `old` have the duals of example i."""
    for b in range(duals.vectors.shape[1]):
        vectors.store(old.vectors, i, b, vectors.load(duals.vectors, i, b))


@jitable_call
def go_back(loss, i, duals, old, t, change):
    """Take the duals of example i to old + t (dual - old); returns the change of the reward."""
    return row_extrapolate(loss, i, duals, old, t - 1.0, change)[1]


class RowHand(NamedTuple):
    """To visit one row after another."""

    scores: vectors.VectorTable
    change: vectors.VectorTable
    lacking: Lacking


@visit_share.register(RowHand)
def _(hand, X, loss, space, tables, plan, visit, level):
    (duals, old, curvature), (_, first, last, _) = tables, visit
    for k in range(first, last):
        keep_row(duals, old, plan.order[k])
    return visit_rows(X, loss, space, duals, curvature, plan, visit, (hand.scores, hand.change, level))


@retreat_share.register(RowHand)
def _(hand, loss, tables, plan, span, t):
    (duals, old, _), gain = tables, 0.0
    for k in range(span[0], span[1]):
        gain += go_back(loss, plan.order[k], duals, old, t, hand.change)
    return gain


@jitable_call
def reach_share(hand, X, loss, space, tables, plan, visit, t):
    """Extrapolate the duals of the examples start ... stop - 1 and take from the weights what they lack; returns the change of
    the reward. `visit`: the pass, start and stop; `tables`: duals, and those before."""
    (duals, before), (now, first, last), gain = tables, visit, 0.0
    while first < last:
        first, count, more = reach_some(loss, duals, before, plan, (now, first, last), hand.lacking, (hand.change, t))
        move_some(space, X, hand.lacking, count, hand.change)
        gain += more
    return gain
