"""Which examples a pass visits. An example whose share of the gap is small is left alone for 1, 2, 4, ... passes.

Shares add up to the duality gap, so a share is small when it is well below what the target leaves to an example on
average. Nothing is ever dropped for good, and only a full pass certifies, so a wrong guess costs time, never
correctness.
"""

from typing import NamedTuple

import numpy as np

from ...jit import jitable, jitable_call, kernel, vectors
from ..tuning import VISITS, VisitTuning

ROWS_LISTED = (
    512  # examples side by side that one thread lists: a multiple of a run, a few lines of what it reads. By guess, 2026-11-17
)


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
    return gather_due(plan, now)


@jitable_call
def gather_due(plan, now):
    """Put the examples due now into plan.order, in random order; returns how many there are."""
    count = list_due(plan, now, 0, plan.due.size, plan.order)
    shuffle(plan, plan.order, count, plan.due.size, plan.random)
    return count


@jitable
def list_due(plan, now, first, last, order):
    """Those of a range of examples that are due, in `order`; returns how many there are."""
    count = 0
    for i in range(first, last):
        if plan.due[i] <= now:
            order[count] = i
            count += 1
    return count


@jitable
def shuffle(plan, order, count, total, random):
    """A random order of the first `count`, short runs of them together where most of `total` examples are due."""
    run = plan.run if 2 * count > total else 1
    for k in range(count // run - 1, 0, -1):
        other = draw(random, k + 1)
        for j in range(run):
            here, there = run * k + j, run * other + j
            order[here], order[there] = order[there], order[here]


@jitable_call
def gather_strips(plan, now, me, crew, start, random):
    """What `gather` does, by one of `crew` threads: of the strips of examples every crew-th, into plan.order from `start` on."""
    count, total, order = 0, 0, plan.order[start:]
    for first in range(me * ROWS_LISTED, plan.due.size, crew * ROWS_LISTED):
        last = min(first + ROWS_LISTED, plan.due.size)
        total += last - first
        count += list_due(plan, now, first, last, order[count:])
    shuffle(plan, order, count, total, random)
    return count


def strip_starts(n: int, crew: int) -> list[int]:
    """Where in the order each of `crew` threads has room for its strips."""
    strips, rest = divmod(n, ROWS_LISTED)
    sizes = [len(range(k, strips, crew)) * ROWS_LISTED + (rest if strips % crew == k else 0) for k in range(crew)]
    return [sum(sizes[:k]) for k in range(crew)]


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
