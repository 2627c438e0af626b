"""Dual ascent over collected outputs: each sample keeps the outputs that its distribution gives mass to.

A visit asks the max-oracle for the worst offender, adds it to the sample's set, and improves the distribution over the
set with all other samples fixed (Ramanan 2013, Algorithm 1, on the constraints collected so far). How far it goes is the
*method*: one pair (pairwise Frank-Wolfe), a step to the offender or away from the least deserving output (away-step
Frank-Wolfe), or pairs until the set's own gap is a small part of what the oracle found. `steps.py` has them, `sets.py` the sets.
"""

import numpy as np

from ...jit import jitable, jitable_call, kernel
from ...problems.structured import StructuredProblem
from ...structures.encoded import contract
from ..ascent.schedule import reschedule
from ..dual_coordinate import begin as begin_run
from .finishing import SetFinishing
from .run import StructuredOptions, StructuredRun
from .sets import (
    BEFORE,
    CAPACITY,
    CROWDED,
    DUST,
    LOSS,
    MASS,
    SIZE,
    SLOT,
    USED,
    at_truth,
    code_at,
    grown,
    insert,
    normalise,
    refresh,
)
from .signed import given_up, gone_on, move_weights, prepare_with, space_of, unclipped_copy, unclipped_into
from .steps import Corrective, improve


@kernel
def set_pass(sets, data, space, cap, plan, visit, workspace, method):
    """Visit plan.order[start:stop]; returns the last of `workspace` and by how much the dual value rose, in one sum, and how
    often the oracle was asked."""
    now, start, stop = visit
    scratch, shares, asked, h, before, level, trust, patience, rise = workspace
    calls = 0
    for k in range(start, stop):
        i = np.int64(plan.order[k])
        if cap[i] > 0.0:
            prepare_with(space, data, i, scratch)
            top, mean = survey_set(sets, data, i, scratch, h)
            share, place = cap[i] * (h[top] - mean), top
            if share <= trust * shares[i] or now >= asked[i] + patience:  # the outputs met so far do not promise enough
                asked[i] = now
                value = contract.worst(data, i, scratch, scratch.code)
                calls += 1
                share, place = cap[i] * (value - mean), -1
                shares[i] = share
            if share > level:
                if place < 0:
                    place = insert(data, sets, i, scratch, now)
                if place >= 0:
                    rise += work_on(sets, data, i, space, cap[i], (scratch, h, before, place, now), method)
            reschedule(plan, i, now, share <= level)
        else:
            shares[i] = 0.0
            reschedule(plan, i, now, True)
    return rise, calls


@jitable
def survey_set(sets, data, i, scratch, h):
    """h of each output in the set; returns the place of the largest and their mean."""
    slot, top, mean = sets.sample[i, SLOT], 0, 0.0
    for j in range(sets.sample[i, SIZE]):
        code = sets.codes[code_at(data, sets, i, j) : code_at(data, sets, i, j + 1)]
        h[j] = sets.slots[slot + j, LOSS] + contract.score_of(data, i, scratch, code)
        mean += sets.slots[slot + j, MASS] * h[j]
        if h[j] > h[top]:
            top = j
    return top, mean


@jitable_call
def work_on(sets, data, i, space, cap, workspace, method):
    """Improve the distribution of sample i, given the place of its worst offender; the weights follow."""
    scratch, h, before, place, now = workspace
    slot, size = sets.sample[i, SLOT], sets.sample[i, SIZE]
    if size < 2:  # nothing but the true output
        return 0.0
    h[place] = sets.slots[slot + place, LOSS] + contract.score_of(
        data, i, scratch, sets.codes[code_at(data, sets, i, place) : code_at(data, sets, i, place + 1)]
    )
    for j in range(size):
        before[j] = sets.slots[slot + j, MASS]
    rise = improve(method, sets, i, h, cap, place)
    contract.clear(data, i, scratch)
    for j in range(size):
        change = sets.slots[slot + j, MASS] - before[j]
        if change != 0.0:
            contract.tally(data, i, -change, sets.codes[code_at(data, sets, i, j) : code_at(data, sets, i, j + 1)], scratch)
        if sets.slots[slot + j, MASS] > 0.0:
            sets.slots[slot + j, USED] = now
    move_weights(space, data, i, cap, scratch)
    return rise


# ---- extrapolation ---------------------------------------------------------------------------------------


@kernel
def reach(sets, data, W, cap, scratch, reached, t):
    """How far each sample's masses can go on as they went in the last pass: into `reached`, t at the most. `W` has gone t
    for all and is corrected for those that cannot. Returns the change of the expected losses."""
    gain = 0.0
    for i in range(cap.size):
        far, slope, moved = t, 0.0, False
        slot, size = sets.sample[i, SLOT], sets.sample[i, SIZE]
        for s in range(slot, slot + size):
            change = sets.slots[s, MASS] - sets.slots[s, BEFORE]
            slope += change * sets.slots[s, LOSS]
            moved = moved or change != 0.0
            if sets.slots[s, MASS] + far * change < 0.0:
                far = -sets.slots[s, MASS] / change
        if moved and far != t:
            contract.clear(data, i, scratch)
            for j in range(size):
                change = sets.slots[slot + j, MASS] - sets.slots[slot + j, BEFORE]
                if change != 0.0:
                    code = sets.codes[code_at(data, sets, i, j) : code_at(data, sets, i, j + 1)]
                    contract.tally(data, i, (t - far) * change, code, scratch)
            contract.push(data, i, cap[i], scratch, W)
        reached[i] = far
        gain += cap[i] * far * slope
    return gain


@kernel
def commit(sets, reached, accept):
    """Take the extrapolated masses, or not, and remember those of this pass."""
    for i in range(reached.size):
        for s in range(sets.sample[i, SLOT], sets.sample[i, SLOT] + sets.sample[i, SIZE]):
            mass = sets.slots[s, MASS]
            if accept:
                new = mass + reached[i] * (mass - sets.slots[s, BEFORE])
                sets.slots[s, MASS] = new if new > DUST else 0.0
            sets.slots[s, BEFORE] = mass


class WorkingSets(StructuredRun, SetFinishing):
    """Ascent over collected outputs by one of the methods above."""

    held = (*StructuredRun.held, *SetFinishing.looked, "memory", "floor", "asked", "before_pass")

    def __init__(self, problem, points, options: StructuredOptions, method, *, trust: float = 0.0, momentum=False, finish=False):
        self.method, self.trust, self.momentum, self.finish = method, trust, momentum, finish
        self.memory, self.floor = 0, 0.0
        self.before_pass: np.ndarray | None = None
        self.reached, self.asked = np.empty(problem.n_examples), np.zeros(problem.n_examples, np.int64)
        self.sizes = contract.truths(problem.data)[1]
        super().__init__(problem, None if points is None else refresh(contract.copied(points), problem.data), options)
        self.make_scratch()

    def resume(self, state):
        super().resume(state)
        self.make_scratch()

    def start(self):
        return at_truth(self.problem.data, self.options.tuning.outputs)

    def synchronise(self) -> float:
        normalise(self.points)
        return super().synchronise()

    def make_scratch(self) -> None:
        most = int(self.points.sample[:, CAPACITY].max(initial=1))
        self.h, self.before = np.empty(most), np.empty(most)

    def workspace(self):
        return self.scratch, self.h, self.before

    def new_workspace(self):
        return contract.new_scratch(self.problem.data), np.empty_like(self.h), np.empty_like(self.before)

    def visit(self, seat, aim, span, rise):
        patience = self.options.tuning.patience if aim.trust > 0.0 else 0  # passes after which the oracle is asked in any case
        (scratch, h, before), now = seat.workspace, (self.passes, *span)
        workspace = scratch, aim.shares, self.asked, h, before, aim.level, aim.trust, patience, rise
        return set_pass(self.points, self.problem.data, seat.space, seat.cap, aim.plan, now, workspace, self.method)

    def advance(self, stop):
        self.floor = self.dual
        estimate = super().advance(stop)
        if self.points.sample[:, CROWDED].any():
            self.points = grown(self.points, self.sizes)
            self.make_scratch()
        self.note(estimate)
        return estimate

    def begin_again(self) -> None:
        """Masses have moved, not by a pass."""
        self.points.slots[:, BEFORE] = self.points.slots[:, MASS]
        self.before_pass, self.memory = unclipped_copy(self.space), 0

    def accelerate(self) -> None:
        """Let all masses go on as they went in the last pass (Nesterov's momentum, restarted when the dual would fall), or go to
        the optimum of those that are free."""
        tuning = self.options.tuning
        if self.finish and self.polished():
            return
        if not self.momentum or self.passes < tuning.visits.start:
            return
        if self.passes == tuning.visits.start:
            self.before_pass = unclipped_copy(self.space)
            self.points.slots[:, BEFORE] = self.points.slots[:, MASS]
            return
        self.memory += 1
        t = min(self.memory / (self.memory + 3.0), tuning.farthest)
        assert self.before_pass is not None
        ahead = gone_on(self.space, self.before_pass, t)
        reward = self.dual + 0.5 * float(np.vdot(self.W, self.W))
        reward += reach(self.points, self.problem.data, ahead, self.problem.cap, self.scratch, self.reached, t)
        clipped = self.problem.feasible(ahead)
        dual = reward - 0.5 * float(np.vdot(clipped, clipped))
        accept = bool(dual >= self.floor)  # as in `ascent`
        commit(self.points, self.reached, accept)
        if accept:
            self.own_weights()
            self.before_pass = given_up(self.space)
            self.space, self.dual = space_of(ahead, self.problem.bound), dual
        else:
            self.before_pass, self.memory = unclipped_into(self.space, ahead), 0


@begin_run.register
def _(problem: StructuredProblem, duals, tol, seed, dtype, momentum, average):
    options = StructuredOptions(tol, seed, "rest", average)
    method = Corrective(options.tuning.part, options.tuning.steps)
    return WorkingSets(problem, duals, options, method, trust=options.tuning.trust, momentum=momentum, finish=True)
