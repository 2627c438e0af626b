"""Coordinate steps of several threads side by side (CoCoA+: Ma et al. 2015), over rows of one score or of many.

A pass goes in rounds. In a round the next examples are cut into as many parts as there are threads, and each thread walks through
its part as if it were alone, on a copy of the weights; its own changes count `spread` times, for the others will move the same
way. Then all go together, part p a share t_p of its way, which `joint` finds from what the copies say; a part that goes less than
all its way takes its duals back to that point. The dual value is that of the duals kept, whatever was found, and never falls but
for rounding. Results depend on the number of threads, not on how fast each of them was.

A round costs a meeting, and weights that every thread has a copy of: where examples are few or short beside that, and late in a
run when most rest, fewer threads are at work, or one. It is one also where the gap is so small that rounding says how far to go.
"""

from abc import abstractmethod
from itertools import pairwise
from typing import Any

import numpy as np

from ...data.rows import mean_length
from ...jit import kernel, vectors
from ...losses.base import clip, reward, row_extrapolate
from ...problems.linear import RowProblem
from ...utils.threads import Team
from ..tuning import PartTuning
from .copies import Copies
from .joint import followed, settled
from .linear import ALONE, Accelerated, BlockAscent, ScalarAscent, row_pass, scalar_pass, scalar_reach
from .momentum import move_listed, room_to_lack, row_reach

FOR_ONE_THREAD = 1 << 15  # weights below which it takes one thread to compare and to copy them. By what a call costs, 2026-11-16
ALL_THE_WAY = (0, 0), 1.0


@kernel
def scalar_retreat(loss, duals, old, plan, span, t):
    """Take the duals of plan.order[start:stop] to old + t (dual - old); returns the change of the reward."""
    gain = 0.0
    for k in range(span[0], span[1]):
        i = plan.order[k]
        dual, past = duals[i], old[i]
        if dual != past:
            duals[i] = clip(loss, i, past + t * (dual - past))
            gain += reward(loss, i, duals[i]) - reward(loss, i, dual)
    return gain


@kernel
def row_retreat(loss, duals, old, plan, span, scratch):
    """As `scalar_retreat`, for rows; scratch holds a row and t. What lies between two feasible rows is feasible: that a row lacks
    something can only be rounding."""
    change, t = scratch
    gain = 0.0
    for k in range(span[0], span[1]):
        _, more = row_extrapolate(loss, plan.order[k], duals, old, t - 1.0, change)
        gain += more
    return gain


def portions(start: int, stop: int, count: int) -> list[tuple[int, int]]:
    """A range in so many runs of nearly the same length, some of them empty where there are not enough."""
    bounds = [start + (stop - start) * k // count for k in range(count + 1)]
    return list(pairwise(bounds))


def crews(n_jobs: int) -> list[int]:
    """Numbers of threads to choose from: all, half of them and so on."""
    return [n_jobs >> k for k in range(n_jobs.bit_length()) if n_jobs >> k > 1]


def meeting_seconds(weights: int, threads: int, tuning: PartTuning) -> float:
    """Seconds that threads take to meet."""
    compared = weights * threads * (tuning.weight + tuning.pair * threads)
    return tuning.meeting + tuning.thread * threads + (compared if weights <= FOR_ONE_THREAD else compared / threads)


def rounds(work: float, weights: int, threads: int, tuning: PartTuning) -> int:
    """How often threads may meet in a pass that takes one of them `work` seconds."""
    return int(min(tuning.most, tuning.part * work / threads / meeting_seconds(weights, threads, tuning)))


class Parted(Accelerated):
    """A run on `n_jobs` threads."""

    held = (*Accelerated.held, "spread", "last_gap")
    n_jobs = 1
    spread = ALONE
    last_gap = np.inf  # as the last pass estimated it
    crew = 1  # threads at work in this pass
    prepared = 0  # threads that there is room for
    team = Team(1)
    copies: Copies
    entries: list[tuple[int, tuple[int, int]]]  # of the weights, in spans that threads share out
    to_go: list[tuple[tuple[int, int], float]]  # what each thread has walked through last, and the part of the way to keep

    def settle_in(self, dtype, duals):
        super().settle_in(dtype, duals)
        self.crew, self.prepared = 1, 0

    def advance(self, stop):
        self.last_gap = super().advance(stop)
        return self.last_gap

    def together(self, count):
        self.crew, tuning = 1, self.options.tuning.parts
        if self.n_jobs > 1 and self.problem.half_spaces is None and self.last_gap > tuning.fine * abs(self.dual):
            work, size = count * self.visit_seconds, self.space.w.size
            for threads in crews(self.n_jobs):
                times = rounds(work, size, threads, tuning)
                if times >= tuning.fewest:
                    self.crew, self.spread = threads, min(self.spread, float(threads))
                    self.to_go = [ALL_THE_WAY] * threads
                    self.muster(self.space, threads)
                    self.keep()
                    return min(-(-count // times), threads * self.between)
        return super().together(count)

    def muster(self, space: Any, threads: int) -> None:
        """Get so many threads to work, each with a copy of these weights."""
        if self.prepared < self.n_jobs:
            if self.team.size < self.n_jobs:
                self.team = Team(self.n_jobs)
            self.copies, self.prepared = Copies(self.space, self.n_jobs), self.n_jobs
            self.prepare(self.n_jobs)
        size = self.space.w.size
        self.entries = list(enumerate(portions(0, size, threads if size > FOR_ONE_THREAD else 1)))
        self.copies.set_out(space, threads)
        self.team.work(lambda part: self.copies.begin(part[1]), self.entries)

    def visit(self, visit, level):
        if self.crew == 1:
            return self.visit_alone(visit, level)
        now, start, stop = visit
        parts = portions(start, stop, self.crew)

        def walk(p: int) -> tuple[float, ...]:
            back = self.retreat(p, *self.to_go[p])
            return *self.walk(p, (now, *parts[p], self.spread), level), back

        gaps, gains, back = np.array(self.team.work(walk, range(self.crew))).T
        self.to_go = list(zip(parts, self.meet(gains).tolist(), strict=True))
        return float(gaps.sum()), float(gains.sum() + back.sum())

    def meet(self, gains: np.ndarray) -> np.ndarray:
        """Move the weights along all ways; returns how far each part goes."""
        found = self.team.work(lambda part: self.copies.meet(*part), self.entries)
        slopes, bends, spread = found[0].slopes, found[0].bends, self.spread
        for part in found[1:]:
            slopes += part.slopes
            bends += part.bends
        going, best = settled(gains, slopes / spread, bends / spread**2)
        self.spread = followed(spread, best, float(self.crew))
        self.team.work(lambda part: self.copies.join(going / spread, part[1]), self.entries)
        return going

    def after_visits(self):
        if self.crew > 1:
            self.reward += sum(self.team.work(lambda p: self.retreat(p, *self.to_go[p]), range(self.crew)))
        super().after_visits()

    def reach(self, t):
        tuning, size = self.options.tuning.parts, self.space.w.size
        work = tuning.reach * self.problem.n_examples * self.visit_seconds
        for threads in crews(self.n_jobs):
            if work / threads >= tuning.gain * meeting_seconds(size, threads, tuning):
                return self.reach_together(t, threads)
        return self.reach_alone(t)

    def reach_together(self, t: float, threads: int) -> float:
        """As `reach`: what duals lack is taken back from copies of the weights, which then add up."""
        term = self.problem.regularizer
        space = term.loose(self.other)
        self.muster(space, threads)
        parts = portions(0, self.problem.n_examples, threads)
        loose = [term.loose(copy) for copy in self.copies.spaces]
        gains = self.team.work(lambda p: self.reach_part(p, loose[p], parts[p], t), range(threads))
        self.team.work(lambda part: self.copies.join(np.ones(threads), part[1]), self.entries)
        term.tie(self.other)
        return sum(gains)

    def close(self):
        self.team.close()

    @property
    @abstractmethod
    def visit_seconds(self) -> float:
        """Of one core, about."""

    @abstractmethod
    def visit_alone(self, visit, level) -> tuple[float, float]:
        """As `visit`, of one thread."""

    @abstractmethod
    def prepare(self, threads: int) -> None:
        """Scratch for so many threads."""

    @abstractmethod
    def keep(self) -> None:
        """A pass begins: its duals are those to go back to."""

    @abstractmethod
    def walk(self, p: int, visit: tuple, level: float) -> tuple[float, float]:
        """As `visit`, of thread p on its copy of the weights."""

    @abstractmethod
    def reach_alone(self, t: float) -> float:
        """As `reach`, of one thread."""

    @abstractmethod
    def reach_part(self, p: int, space: Any, span: tuple[int, int], t: float) -> float:
        """As `reach`, of thread p for a range of the examples, on its copy of the weights."""

    @abstractmethod
    def retreat(self, p: int, span: tuple[int, int], t: float) -> float:
        """Let duals go only a part of their way; returns the change of the reward."""


class PartedScalars(Parted, ScalarAscent):
    visit_alone, reach_alone = ScalarAscent.visit, ScalarAscent.reach

    @property
    def visit_seconds(self):
        tuning = self.options.tuning.parts
        return tuning.visit + tuning.entry * mean_length(self.problem.X)

    def prepare(self, threads):
        self.old = np.empty_like(self.duals)

    def keep(self):
        self.old[:] = self.duals

    def walk(self, p, visit, level):
        X, loss, space = self.problem.X, self.problem.exact_loss, self.copies.spaces[p]
        return scalar_pass(X, loss, space, self.duals, self.curvature, self.plan, visit, level)

    def reach_part(self, p, space, span, t):
        X, loss, visit = self.problem.X, self.problem.exact_loss, (self.passes - 1, *span)
        return scalar_reach(X, loss, space, self.duals, self.before, self.plan, visit, t)

    def retreat(self, p, span, t):
        return scalar_retreat(self.problem.exact_loss, self.duals, self.old, self.plan, span, t) if t < 1.0 else 0.0


class PartedRows(Parted, BlockAscent):
    problem: RowProblem
    visit_alone, reach_alone = BlockAscent.visit, BlockAscent.reach

    @property
    def visit_seconds(self):
        tuning, single = self.options.tuning.parts, self.dtype.itemsize / 4.0
        near = self.space.w.nbytes * self.problem.regularizer.moves <= tuning.cached
        return tuning.visit + 0.5 * (tuning.near if near else tuning.far) * single * self.visit_work()

    def prepare(self, threads):
        n, classes, moves = self.problem.n_examples, self.problem.n_classes, self.problem.regularizer.moves
        self.old = vectors.zeros_table(n, classes, self.dtype)
        tables = [[vectors.zeros_table(count, classes, self.dtype) for count in (1, moves)] for _ in range(threads)]
        self.scratch = [(self.problem.loss_in(self.dtype), *pair) for pair in tables]
        self.lacks = [room_to_lack(self.lacking.which.size, classes, self.dtype) for _ in range(threads)]

    def keep(self):
        """In threads: it is as much as there are duals."""
        table, old = self.duals.vectors, self.old.vectors
        self.team.work(lambda span: np.copyto(old[slice(*span)], table[slice(*span)]), portions(0, len(table), self.crew))

    def walk(self, p, visit, level):
        loss, scores, change = self.scratch[p]
        X, space = self.problem.X, self.copies.spaces[p]
        return row_pass(X, loss, space, self.duals, self.curvature, self.plan, visit, (scores, change, level))

    def reach_part(self, p, space, span, t):
        (loss, _, change), lacking = self.scratch[p], self.lacks[p]
        (first, stop), gain = span, 0.0
        while first < stop:
            visit = self.passes - 1, first, stop
            first, count, more = row_reach(loss, self.duals, self.before, self.plan, visit, lacking, (change, t))
            move_listed(space, self.problem.X, lacking, count, change)
            gain += more
        return gain

    def retreat(self, p, span, t):
        loss, _, change = self.scratch[p]
        return row_retreat(loss, self.duals, self.old, self.plan, span, (change, t)) if t < 1.0 else 0.0
