"""When the loop has something to do between two passes of a run. Kernels know it too, so that several short passes are one call:
Python takes longer over a pass of a small problem than its visits do, and threads wait for each other in it.
"""

import math
from typing import NamedTuple

from ..jit import jitable
from .tuning import LoopTuning

NOT_ASKED = 0.0, 0.0, math.inf


class Due(NamedTuple):
    """An evaluation finds about `ratio` times the gap that a pass estimates. `looked`: visits at the last one. `passes`: after
    which the loop ends. `relay`: what a visit costs, what a pass does besides, and the sum of which whoever may relieve the run
    thinks of it; `polish`: the same of the run's own looks for a better way, from pass `polish_from` on."""

    ratio: float
    tol: float
    examples: float
    looked: float
    apart: float
    near: float
    near_seldom: tuple[float, float]
    seldom: tuple[float, float]
    passes: float = math.inf
    relay: tuple[float, float, float] = NOT_ASKED
    polish: tuple[float, float, float] = NOT_ASKED
    polish_from: float = math.inf


def due_of(ratio: float, tol: float, examples: int, looked: int, tuning: LoopTuning) -> Due:
    near, seldom = ((float(least), float(part)) for least, part in (tuning.near_seldom, tuning.seldom))
    return Due(float(ratio), float(tol), float(max(examples, 1)), float(looked), tuning.apart, tuning.near, near, seldom)


@jitable
def promising(due, gap, dual, visits):
    """Whether the target may have been reached."""
    return gap * due.ratio <= due.tol * abs(dual) and (visits - due.looked) / due.examples >= due.apart


@jitable
def long_since(due, gap, dual, visits):
    """Whether there was no evaluation for long."""
    least, part = due.near_seldom if gap * due.ratio <= due.near * (due.tol * abs(dual)) else due.seldom
    return (visits - due.looked) / due.examples >= max(least, part * (visits / due.examples))


@jitable
def is_spent(prices, visits, passes):
    return visits * prices[0] + passes * prices[1] >= prices[2]


@jitable
def is_asked(due, gap, dual, visits, passes):
    """Whether a run comes back to the loop after this pass."""
    if passes >= due.passes or is_spent(due.relay, visits, passes):
        return True
    if passes >= due.polish_from and is_spent(due.polish, visits, passes):
        return True
    return promising(due, gap, dual, visits) or long_since(due, gap, dual, visits)
