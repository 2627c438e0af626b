"""Which examples a pass visits. An example whose share of the gap is small is left alone for 1, 2, 4, ... passes.

Shares add up to the duality gap, so a share is small when it is well below what the target leaves to an example on
average. Nothing is ever dropped for good, and only a full pass certifies, so a wrong guess costs time, never
correctness.
"""

from typing import NamedTuple

import numpy as np

from ...jit import jitable, kernel, vectors
from ..tuning import VISITS, VisitTuning

EVERY = slice(None)  # in the place of an example, outside of kernels


class Schedule(NamedTuple):
    due: np.ndarray  # the pass at which the example is next visited
    wait: np.ndarray  # how many passes it was left alone last
    order: np.ndarray  # room for the list of this pass
    random: np.ndarray  # the state of the generator, one word
    run: int  # examples side by side that stay together while most are due
    longest: int  # passes that an example is left alone at the most
    ahead: int  # visits by which an example is asked for before its turn
    cached: int  # weights up to this many are not asked for


def schedule(n: int, seed: int, row_bytes: float = np.inf, tuning: VisitTuning = VISITS) -> Schedule:
    """All examples due. Half of a visit to a short row is waiting for memory, so of many such rows short runs are drawn. Longer
    runs, or runs among few, cost passes where similar examples lie side by side."""
    state = np.random.SeedSequence(seed).generate_state(1, np.uint64) | np.uint64(1)
    run = tuning.run if n > tuning.many and row_bytes <= tuning.short else 1
    due, wait, order = np.zeros(n, np.int32), np.zeros(n, np.int8), np.empty(n, np.int64)
    return Schedule(due, wait, order, state, run, tuning.longest, tuning.ahead, tuning.cached)


@jitable
def draw(random, below):
    """A number in [0, below), by xorshift."""
    x = random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    random[0] = x
    return np.int64(((x >> np.uint64(11)) * 2.0**-53) * below)


@kernel
def gather(plan, now):
    """Put the examples due now into plan.order, in random order; returns how many there are."""
    count = 0
    for i in range(plan.due.size):
        if plan.due[i] <= now:
            plan.order[count] = i
            count += 1
    run = plan.run if 2 * count > plan.due.size else 1
    for k in range(count // run - 1, 0, -1):
        other = draw(plan.random, k + 1)
        for j in range(run):
            here, there = run * k + j, run * other + j
            plan.order[here], plan.order[there] = plan.order[there], plan.order[here]
    return count


@jitable
def prefetch_plan(plan, i):
    """Ask for what `reschedule` reads and writes of example i, ahead of the visit."""
    vectors.prefetch(plan.due, i)
    vectors.prefetch(plan.wait, i)


@jitable
def reschedule(plan, i, now, calm):
    """Set when example i is visited next; `calm` says that this visit found little to do."""
    wait = min(2 * int(plan.wait[i]) + 1, plan.longest) if calm else 0
    plan.wait[i] = wait
    plan.due[i] = now + 1 + wait


@jitable
def visited(plan, i, now):
    """Whether pass `now` was the last to visit example i."""
    return plan.due[i] - plan.wait[i] == now + 1


@jitable
def resting(plan, i):
    """Whether the last visit found example i calm."""
    return plan.wait[i] > 0
