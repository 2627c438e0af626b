"""Dual ascent over collected outputs: each sample keeps the outputs that its distribution gives mass to.

A visit asks the max-oracle for the worst offender, adds it to the sample's set, and improves the distribution over the
set with all other samples fixed (Ramanan 2013, Algorithm 1, on the constraints collected so far). How far it goes is the
*method*: one pair (pairwise Frank-Wolfe), a step to the offender or away from the least deserving output (away-step
Frank-Wolfe), or pairs until the set's own gap is a small part of what the oracle found. `steps.py` has them, `sets.py` the sets.
"""

import numpy as np

from ...problems.structured import StructuredProblem
from ...structures.encoded import contract
from ..dual_coordinate import begin as begin_run
from .finishing import SetFinishing
from .resting import ZEROS, at_rest, go_beyond, roused
from .run import StructuredOptions, StructuredRun
from .set_rounds import SetCrew, crew_of_sets, samples_of_part
from .set_visits import commit, reach, set_pass
from .sets import BEFORE, CAPACITY, CROWDED, MASS, SIZE, at_truth, grown, normalise, refresh
from .signed import given_up, space_of, unclipped_at_rest
from .steps import Corrective


class WorkingSets(StructuredRun, SetFinishing):
    """Ascent over collected outputs by one of the methods above."""

    stands_by = True  # whether the order of visits and the shares stay where they are: threads may stand by (`set_rounds`)
    crew: SetCrew | None = None
    held = (*StructuredRun.held, *SetFinishing.looked, "memory", "floor", "asked", "before_pass")

    def __init__(self, problem, points, options: StructuredOptions, method, *, trust: float = 0.0, momentum=False, finish=False):
        self.method, self.trust, self.momentum, self.finish = method, trust, momentum, finish
        self.memory, self.floor = 0, 0.0
        self.h = self.before = np.empty(0)
        self.before_pass = ZEROS  # the weights
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
        """Room for the largest set, which may grow once."""
        most = int(self.points.sample[:, CAPACITY].max(initial=1))
        if most > self.h.size:
            self.h, self.before = np.empty(2 * most), np.empty(2 * most)

    def workspace(self):
        return self.scratch, self.h, self.before

    def new_workspace(self):
        return contract.new_scratch(self.problem.data), np.empty_like(self.h), np.empty_like(self.before)

    def patience(self, trust: float) -> int:
        """Passes after which the oracle is asked in any case."""
        return self.options.tuning.patience if trust > 0.0 else 0

    @property
    def size(self) -> int:
        """Threads that stand by."""
        jobs = self.problem.visitors(self.n_jobs)
        if jobs < 2 or not self.stands_by or self.problem.bound.size:
            return 1
        return crew_of_sets(self.problem.n_examples, jobs, self.work, self.W.size, self.options.tuning.rounds)

    def rounds(self, count):
        tuning, size = self.options.tuning.rounds, self.size
        if size == 1:
            return super().rounds(count)
        each = samples_of_part(count, size, tuning.multiplication * max(self.work, 1.0), self.W.size, tuning)
        coarse = float(np.sum(self.shares)) > tuning.fine * abs(self.dual)
        return (size, each) if each and coarse else (1, count)

    def call_together(self, size: int) -> SetCrew:
        """The crew, for the sets as they are now."""
        if self.crew is None or not self.crew.serves(self):
            before = self.crew
            self.close()
            self.crew = SetCrew(size, self, before)
        return self.crew

    def walk_together(self, aim, layers, shape, stop):
        if self.size == 1:
            return super().walk_together(aim, layers, shape, stop)
        (size, each), end, begun = shape, 0, self.dual
        pace = self.options.tuning.pace
        stretch = size * each * max(1, int(pace.work / max(each * self.work, 1.0)))  # whole rounds between two looks at the clock
        for _, last in layers:
            while end < last and not stop():
                start, end = end, min(end + stretch, last)
                reward = self.dual + 0.5 * float(np.vdot(self.W, self.W))
                order = (self.passes, start, end, each)
                gain, calls, self.spread = self.call_together(size).visit(
                    self.W, aim, order, self.spread, self.patience(aim.trust)
                )
                self.dual = reward + gain - 0.5 * float(np.vdot(self.W, self.W))
                self.calls += calls
        return self.dual - begun, end

    def close(self):
        if self.crew is not None:
            self.crew.close()
        self.crew = None

    def visit(self, seat, aim, span, rise):
        patience = self.patience(aim.trust)
        (scratch, h, before), now = seat.workspace, (self.passes, *span)
        workspace = scratch, aim.shares, self.asked, h, before, aim.level, aim.trust, patience, rise
        return set_pass(self.points, self.problem.data, seat.space, seat.cap, aim.plan, now, workspace, self.method)

    def advance(self, stop):
        self.floor = self.dual
        estimate = super().advance(stop)
        self.grow_crowded()
        self.note(estimate)
        return estimate

    def begin_again(self) -> None:
        """Masses have moved, not by a pass."""
        self.points.slots[:, BEFORE] = self.points.slots[:, MASS]
        self.before_pass, self.memory = unclipped_at_rest(self.space), 0

    def make_place(self) -> None:
        sample = self.points.sample
        full = (sample[:, SIZE] == sample[:, CAPACITY]) & (sample[:, CAPACITY] < self.together_tuning.places)
        sample[full, CROWDED] = 1
        self.grow_crowded()

    def grow_crowded(self) -> None:
        """Twice the places for those that have none left."""
        if self.points.sample[:, CROWDED].any():
            self.points = grown(self.points, self.sizes, self.options.tuning.spare)
            self.make_scratch()

    def accelerate(self) -> None:
        """Let all masses go on as they went in the last pass (Nesterov's momentum, restarted when the dual would fall), or go to
        the optimum of those that are free."""
        tuning = self.options.tuning
        if self.finish and (self.polished() or self.went_together()):
            return
        if not self.momentum or self.passes < tuning.visits.start:
            return
        if self.passes == tuning.visits.start:
            self.before_pass = unclipped_at_rest(self.space)
            self.points.slots[:, BEFORE] = self.points.slots[:, MASS]
            return
        self.memory += 1
        t = min(self.memory / (self.memory + 3.0), tuning.farthest)
        reward = self.dual + 0.5 * float(np.vdot(self.W, self.W))
        ahead, before = given_up(self.space), self.before_pass
        self.before_pass = at_rest(ahead)
        go_beyond(ahead, before, t)
        crew = self.call_together(self.size) if self.crew is not None else None
        if crew is not None:
            reward += crew.reach(ahead, t)
        else:
            reward += reach(self.points, self.problem.data, ahead, self.problem.cap, self.scratch, self.reached, t)
        self.space = space_of(ahead, self.problem.bound)
        dual = reward - 0.5 * float(np.vdot(self.W, self.W))
        accept = bool(dual >= self.floor)  # as in `ascent`
        if crew is not None:
            crew.commit(accept)
        else:
            commit(self.points, self.reached, accept)
        if accept:
            self.dual = dual
        else:
            self.space, self.memory = space_of(roused(self.before_pass, ahead), self.problem.bound), 0


@begin_run.register
def _(problem: StructuredProblem, duals, tol, seed, dtype, momentum, average, n_jobs):
    options = StructuredOptions(tol, seed, "rest", average)
    method = Corrective(options.tuning.part, options.tuning.steps)
    return WorkingSets(problem, duals, options, method, trust=options.tuning.trust, momentum=momentum, finish=True)
