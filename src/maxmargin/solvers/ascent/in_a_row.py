"""Short passes over examples of one score in a row, extrapolated in between, as one call. The iterates are those of `linear`."""

from typing import NamedTuple

import numpy as np

from ...jit import kernel
from ...regularizers.spaces import adding_product, pushed
from ..due import is_asked
from .schedule import gather_due, visited
from .visits import reach_scalars, visit_scalars


class InARow(NamedTuple):
    """Passes in a row: the dual value, its reward and what an extrapolation may not fall below; passes, visits, those since the
    last restart, the mean's count and next restart, and whether the two sets of weights have changed places; after each pass the
    visits and the estimate of the gap. Then what does not change: level over dual value, the longest extrapolation, and visits
    after which it ends."""

    values: np.ndarray
    counts: np.ndarray
    log: np.ndarray
    level: float
    farthest: float
    most: int


@kernel
def scalar_passes(X, loss, spaces, tables, plan, sums, row, due):
    """What `advance` and `accelerate` do, pass after pass until the loop is asked for; returns how many. The last one is not
    extrapolated. `spaces`: the weights and room for others; `sums`: the weights before, and sums of them for a mean, if any."""
    (space, other), (duals, before, curvature), (before_v, mean_sum) = spaces, tables, sums
    dual, value, floor = row.values[0], row.values[1], row.values[2]
    passes, visits, memory = row.counts[0], row.counts[1], row.counts[2]
    count, restart, swapped = row.counts[3], row.counts[4], row.counts[5]
    done, going, stop = 0, True, visits + row.most
    while going:  # as long as there is room in the log
        floor = dual
        due_now = gather_due(plan, passes)
        gap, gain = visit_scalars(X, loss, space, duals, curvature, plan, (passes, 0, due_now, 1.0), row.level * abs(dual))
        value, visits = value + gain, visits + due_now
        if mean_sum.size > 0:
            if passes >= restart:
                restart, count = 2 * restart, 0
                mean_sum[:] = 0
            count += 1
        dual = value - 0.5 * adding_product(space.w, space.w, mean_sum, space.w)
        passes += 1
        row.log[done, 0], row.log[done, 1] = visits, gap
        done += 1
        going = done < row.log.shape[0] and visits < stop and not is_asked(due, gap, dual, visits, passes)
        if going:
            memory += 1
            t = min(memory / (memory + 3.0), row.farthest)
            pushed(space.w, before_v, t, other.w)
            more = reach_scalars(X, loss, other, duals, before, plan, (passes - 1, 0, plan.due.size), t)
            reached = value + more - 0.5 * adding_product(other.w, other.w, mean_sum[:0], other.w)
            if reached >= floor:
                dual, value = reached, value + more
                space, other, swapped = other, space, 1 - swapped
            else:
                memory = 0
                for i in range(plan.due.size):
                    if visited(plan, i, passes - 1):
                        duals[i] = before[i]
    row.values[0], row.values[1], row.values[2] = dual, value, floor
    row.counts[0], row.counts[1], row.counts[2] = passes, visits, memory
    row.counts[3], row.counts[4], row.counts[5] = count, restart, swapped
    return done
