"""Extrapolation of rows of duals: each as far as it can go, and what rows then lack is taken back from the weights.

What they lack is written down for some rows at a time, so that whoever moves the weights may do it by matrix products.
"""

from typing import Any, NamedTuple

import numpy as np

from ...data.row_updates import update
from ...jit import jitable, jitable_call, kernel, vectors
from ...losses.base import row_extrapolate
from ...regularizers.spaces import move_row
from .schedule import resting, visited


class Lacking(NamedTuple):
    """Examples, and what their rows lack."""

    which: np.ndarray
    rows: vectors.VectorTable


def room_to_lack(size: int, classes: int, dtype: Any) -> Lacking:
    return Lacking(np.empty(size, np.int64), vectors.zeros_table(size, classes, dtype))


@jitable
def turn_back(duals, before, i, t, change):
    """The row of an example that rests stays as it is: it lacks the whole extrapolation; returns whether that is anything."""
    zero = vectors.zeros_like(change.vectors)
    most = zero
    for b in range(duals.vectors.shape[1]):
        dual = vectors.load(duals.vectors, i, b)
        difference = vectors.subtract(dual, vectors.load(before.vectors, i, b))
        most = vectors.maximum(vectors.absolute(difference), most)
        vectors.store(before.vectors, i, b, dual)
        vectors.store(change.vectors, 0, b, vectors.fma(zero, -t, difference))
    return vectors.any_filled(most)


@kernel
def row_reach(loss, duals, before, plan, visit, lacking, scratch):
    return reach_some(loss, duals, before, plan, visit, lacking, scratch)


@jitable_call
def reach_some(loss, duals, before, plan, visit, lacking, scratch):
    """Extrapolate the rows of the examples that pass visit[0] was the last to visit, from example visit[1] on until visit[2] or
    until there is no room for what they lack; scratch holds a row and the step. Returns where to go on, how many lack something,
    and the change of the reward."""
    (now, start, stop), (change, t) = visit, scratch
    gain, count = 0.0, 0
    for i in range(start, stop):
        if count == lacking.which.size:
            return i, count, gain
        if visited(plan, i, now):
            if resting(plan, i):
                short = turn_back(duals, before, i, t, change)
            else:
                short, reward_change = row_extrapolate(loss, i, duals, before, t, change)
                gain += reward_change
            if short:
                lacking.which[count] = i
                for b in range(change.vectors.shape[1]):
                    vectors.store(lacking.rows.vectors, count, b, vectors.load(change.vectors, 0, b))
                count += 1
    return stop, count, gain


@kernel
def move_listed(space, X, lacking, count, change):
    move_some(space, X, lacking, count, change)


@jitable_call
def move_some(space, X, lacking, count, change):
    """Move the weights by the first `count` rows; `change` is scratch."""
    for k in range(count):
        for b in range(change.vectors.shape[1]):
            vectors.store(change.vectors, 0, b, vectors.load(lacking.rows.vectors, k, b))
        move_row(space, X, lacking.which[k], change.vectors)


@kernel
def move_run(W, X, lacking, count, run):
    """As `move_listed`, of weights without a prior, and of some vectors of classes: threads share these out, and nothing else
    changes."""
    first, last = run
    mine, rows = W[:, first:last], lacking.rows.vectors[:, first:last]
    for k in range(count):
        update(X, lacking.which[k], rows, k, mine)
