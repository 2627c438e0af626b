"""Rounds over sets of outputs within compiled code: the same as `rounds`, where threads stand by between two orders.

Each thread visits its part of the samples of a round with a copy of the weights, and then all go together as far as is best
(`ascent.copies`). Rewards are expected losses here, which are linear in the masses: a part that goes t of its way has t of its
gain, and mixes the masses that it had with those that it found. A round costs a fraction of a millisecond, so that it may be
short, and what is short loses few passes. Threads also share out the extrapolation between two passes.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from ...jit import jitable, jitable_call, kernel, vectors
from ...jit.standby import LEAVE, ORDER_KIND
from ...regularizers.spaces import Free
from ...structures.encoded.contract import new_scratch
from ..ascent.copies import Copies, begin_together, go_all_the_way, go_together
from ..ascent.crew import (
    FOUND_COUNT,
    FOUND_GAIN,
    FOUND_SPREAD,
    ORDER_EACH,
    ORDER_LEVEL,
    ORDER_PASS,
    ORDER_PUSH,
    ORDER_SPREAD,
    ORDER_START,
    ORDER_STOP,
    REACH,
    VISIT,
    Post,
    StandingCrew,
    at_home,
    hears,
    portion,
    reports,
)
from ..ascent.parted import meeting_seconds
from .run import Aim
from .set_visits import commit_sets, reach_sets, visit_sets
from .sets import CAPACITY, LOSS, MASS, SIZE, SLOT
from .tuning import RoundTuning

COMMIT = REACH + 1  # a kind of order, after those of `crew`
ORDER_TRUST, ORDER_PATIENCE = 3, 4  # among the numbers of an order, behind those of `crew`


@jitable
def keep_masses(sets, i, kept):
    """The masses of sample i as they are, zero where there is no output yet."""
    slot, size = sets.sample[i, SLOT], sets.sample[i, SIZE]
    for j in range(sets.sample[i, CAPACITY]):
        kept[slot + j] = sets.slots[slot + j, MASS] if j < size else 0.0


@jitable
def change_of_loss(sets, i, kept):
    """By how much the expected loss of sample i has grown."""
    total = 0.0
    for s in range(sets.sample[i, SLOT], sets.sample[i, SLOT] + sets.sample[i, SIZE]):
        total += (sets.slots[s, MASS] - kept[s]) * sets.slots[s, LOSS]
    return total


@jitable
def mix_masses(sets, i, kept, t):
    """Masses that went only t of their way."""
    for s in range(sets.sample[i, SLOT], sets.sample[i, SLOT] + sets.sample[i, SIZE]):
        sets.slots[s, MASS] = (1.0 - t) * kept[s] + t * sets.slots[s, MASS]


@jitable_call
def set_rounds(sets, data, plan, tables, workspace, method, space, post):
    """What one thread does in rounds; `space` is its copy of the weights."""
    (cap, wide, shares, asked, kept, _), (scratch, h, before), meeting = tables, workspace, at_home(post)
    now, start, stop, each = post.desk[ORDER_PASS], post.desk[ORDER_START], post.desk[ORDER_STOP], post.desk[ORDER_EACH]
    level, spread, trust = post.numbers[ORDER_LEVEL], post.numbers[ORDER_SPREAD], post.numbers[ORDER_TRUST]
    patience, gain, calls = np.int64(post.numbers[ORDER_PATIENCE]), 0.0, 0
    together = begin_together(space, meeting)
    while together and start < stop:
        end = min(start + each * post.crew, stop)
        first, last = portion(start, end, post.me, post.crew)
        for k in range(first, last):
            i = np.int64(plan.order[k])
            wide[i], shares[i] = spread * cap[i], spread * shares[i]
            keep_masses(sets, i, kept)
        mine = scratch, shares, asked, h, before, level * spread, trust, patience, 0.0
        more = visit_sets(sets, data, space.w, wide, plan, (now, first, last), mine, method)[1]
        reward = 0.0
        for k in range(first, last):
            i = np.int64(plan.order[k])
            shares[i] /= spread
            reward += cap[i] * change_of_loss(sets, i, kept)
        t, spread = go_together(space, meeting, reward, spread)
        together = t >= 0.0
        if 0.0 <= t < 1.0:
            for k in range(first, last):
                mix_masses(sets, np.int64(plan.order[k]), kept, t)
        gain, calls, start = gain + max(t, 0.0) * reward, calls + more, end
    found = post.found[post.me]
    found[FOUND_GAIN], found[FOUND_SPREAD], found[FOUND_COUNT] = gain, spread, calls


@jitable_call
def reach_part(sets, data, tables, scratch, space, post):
    """What one thread extrapolates: its part of the samples, what they cannot go taken back from its copy of the weights."""
    (cap, _, _, _, _, reached), gain, meeting = tables, 0.0, at_home(post)
    if begin_together(space, meeting):
        span = portion(0, cap.size, post.me, post.crew)
        gain = reach_sets(sets, data, space.w, cap, scratch, reached, post.numbers[ORDER_PUSH], span)
        go_all_the_way(space, meeting)
    post.found[post.me, FOUND_GAIN] = gain


@kernel
def serve_sets(sets, data, plan, tables, workspace, method, space, post):
    """Carry out orders; the first of the crew, one. `space`: this thread's copy of the weights."""
    seen, staying, reached = 0, True, tables[5]
    while staying:
        seen = hears(post, seen)
        kind = post.desk[ORDER_KIND]
        if kind == LEAVE:
            return
        if kind == VISIT:
            set_rounds(sets, data, plan, tables, workspace, method, space, post)
        elif kind == REACH:
            reach_part(sets, data, tables, workspace[0], space, post)
        else:
            commit_sets(sets, reached, post.desk[ORDER_START] == 1, portion(0, reached.size, post.me, post.crew))
        staying = reports(post)


def samples_of_part(count: int, threads: int, visit: float, width: int, tuning: RoundTuning) -> int:
    """How many samples each of so many threads visits in a round of a pass over `count`, by the seconds of a visit; 0 where
    meetings would take too much of the time."""
    meeting = meeting_seconds(width, threads, tuning.prices)
    least, most = (max(1, int(meeting / (part * visit))) for part in (tuning.most_meeting, tuning.least_meeting))
    each = min(max(count // (tuning.crew_rounds * threads), least), max(most, 1))
    return each if count >= tuning.fewest * threads * each or count >= tuning.fewest * threads * least else 0


@lru_cache(maxsize=64)
def crew_of_sets(count: int, n_jobs: int, work: float, width: int, tuning: RoundTuning) -> int:
    """How many threads visit `count` samples soonest; `work`: the multiplications of a visit."""
    visit, best, found = tuning.multiplication * max(work, 1.0), np.inf, 1
    for threads in range(min(n_jobs, count), 1, -1):
        each = samples_of_part(count, threads, visit, width, tuning)
        if each:
            took = count / threads * (visit + meeting_seconds(width, threads, tuning.prices) / each)
            if took < best:
                best, found = took, threads
    return found if best + tuning.prices.gain * tuning.prices.order < count * visit else 1


class SetCrew:
    """A crew that works on `sets` until these are others, as where they have grown out of their memory: that of the crew `before`
    is used again. Weights are lent to it for an order."""

    crew: StandingCrew

    def __init__(self, size: int, run: Any, before: "SetCrew | None" = None):
        self.known, n = self.works_on(run), run.problem.n_examples
        if before is None or before.crew.size != size:
            self.lent = [vectors.aligned(run.problem.weight_shape, np.float64) for _ in range(2)]
            copies = Copies(Free(self.lent[0]), size)
            self.scratches = [run.scratch, *(new_scratch(run.problem.data) for _ in range(size - 1))]
        else:
            self.lent, copies, self.scratches = before.lent, before.crew.copies, before.scratches
        tables = run.problem.cap, np.empty(n), run.shares, run.asked, np.zeros(len(run.points.slots)), run.reached
        spaces = [Free(space.w) for space in copies.spaces]
        workspaces = [(scratch, np.empty_like(run.h), np.empty_like(run.before)) for scratch in self.scratches]

        def seats(posts: list[Post]) -> tuple:
            each = zip(workspaces, spaces, posts, strict=True)
            fixed = run.points, run.problem.data, run.plan, tables
            return serve_sets, [(*fixed, workspace, run.method, space, post) for workspace, space, post in each]

        self.crew = StandingCrew(size, copies, [(w, w) for w in self.lent], run.plan, seats)

    @staticmethod
    def works_on(run: Any) -> tuple:
        return run.points, run.plan, run.shares, run.asked, run.reached, run.h

    def serves(self, run: Any) -> bool:
        return all(a is b for a, b in zip(self.known, self.works_on(run), strict=True))

    def visit(self, W: np.ndarray, aim: Aim, says: tuple[int, ...], spread: float, patience: int) -> tuple[float, int, float]:
        """Rounds over the samples of the order that `says` names, which move W. Within a round these are sorted, so that threads
        seldom write to one cache line. Returns the change of the expected losses, calls of the oracle and the next spread."""
        _, start, stop, each = says
        for first in range(start, stop, each * self.crew.size):
            aim.plan.order[first : min(first + each * self.crew.size, stop)].sort()
        np.copyto(self.lent[0], W)
        found = self.crew.carry_out(VISIT, 0, says, (aim.level, spread, 0.0, aim.trust, float(patience)))
        np.copyto(W, self.lent[0])
        return float(found[:, FOUND_GAIN].sum()), int(found[:, FOUND_COUNT].sum()), float(found[0, FOUND_SPREAD])

    def reach(self, ahead: np.ndarray, t: float) -> float:
        """As `set_visits.reach`."""
        np.copyto(self.lent[1], ahead)
        found = self.crew.carry_out(REACH, 1, (0,), (0.0, 0.0, t))
        np.copyto(ahead, self.lent[1])
        return float(found[:, FOUND_GAIN].sum())

    def commit(self, accept: bool) -> None:
        """As `set_visits.commit`."""
        self.crew.carry_out(COMMIT, 0, (0, int(accept)), ())

    def close(self) -> None:
        self.crew.close()
