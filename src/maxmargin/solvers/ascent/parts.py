"""What a thread of a crew does with its part of the rows, on its copy of the weights: chosen by what it has at hand."""

from typing import NamedTuple

from ...jit import generic, jitable_call, vectors
from .momentum import Lacking, move_some, reach_some
from .visits import visit_rows


@generic
def visit_share(hand, X, loss, space, tables, plan, visit, level):
    """Visit plan.order[start:stop] and move these weights; returns the sum of the shares of the gap and the change of the reward.
    `visit`: the pass, start, stop and the spread; `tables`: duals and curvatures."""


class RowHand(NamedTuple):
    """To visit one row after another."""

    scores: vectors.VectorTable
    change: vectors.VectorTable
    lacking: Lacking


@visit_share.register(RowHand)
def _(hand, X, loss, space, tables, plan, visit, level):
    duals, curvature = tables
    return visit_rows(X, loss, space, duals, curvature, plan, visit, (hand.scores, hand.change, level))


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
