"""Coordinate steps of several threads side by side (CoCoA+: Ma et al. 2015), over rows of one score or of many.

A pass goes in rounds. In a round the next examples are cut into as many parts as there are threads, and each thread walks through
its part as if it were alone, on a copy of the weights; its own changes count `spread` times, for the others will move the same
way. Then all go together, part p a share t_p of its way, which `copies` and `joint` find from what the copies say; a part that
goes less than all its way takes its duals back to that point. The dual value is that of the duals kept, whatever was found, and
never falls but for rounding. Results depend on the number of threads, not on how fast each of them was.

Rounds follow each other within one compiled call of each thread. A meeting costs microseconds and weights that every thread has a
copy of; a call costs more. Where examples are few or short beside that, and late in a run when most rest, fewer threads are at
work, or one: as many as are expected to take least time. It is one also where the gap is so small that rounding says how far to
go.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ...data.rows import mean_length
from ...jit import jitable, jitable_call, kernel, vectors
from ...jit.meeting import give_up
from ...losses.base import clip, reward, row_extrapolate
from ...problems.linear import RowProblem
from ...utils.threads import Team
from ..tuning import PartTuning
from .copies import Copies, Meeting, begin_together, go_all_the_way, go_together
from .linear import ALONE, Accelerated, BlockAscent, ScalarAscent, reach_scalars, visit_rows, visit_scalars
from .momentum import move_some, reach_some, room_to_lack


@jitable
def portion(first, last, k, count):
    """The k-th of `count` runs of nearly the same length that a range has."""
    return first + (last - first) * k // count, first + (last - first) * (k + 1) // count


@jitable_call
def retreat_scalars(loss, duals, old, plan, span, t):
    """Take the duals of plan.order[start:stop] to old + t (dual - old); returns the change of the reward."""
    gain = 0.0
    for k in range(span[0], span[1]):
        i = plan.order[k]
        dual, past = duals[i], old[i]
        if dual != past:
            duals[i] = clip(loss, i, past + t * (dual - past))
            gain += reward(loss, i, duals[i]) - reward(loss, i, dual)
    return gain


@jitable_call
def retreat_rows(loss, duals, old, plan, span, t, change):
    """The same for rows; `change` is scratch. What lies between two feasible rows is feasible: that a row lacks something can
    only be rounding."""
    gain = 0.0
    for k in range(span[0], span[1]):
        _, more = row_extrapolate(loss, plan.order[k], duals, old, t - 1.0, change)
        gain += more
    return gain


@kernel
def scalar_rounds(X, loss, space, tables, plan, visit, level, meeting):
    """What one thread does in rounds over plan.order[start:stop], `each` examples a round; `space` is its copy of the weights.
    Returns the sum of the shares of the gap, the change of the reward, and the spread."""
    (now, start, stop, each, spread), (duals, old, curvature), (gap, gain) = visit, tables, (0.0, 0.0)
    together = begin_together(space, meeting)
    while together and start < stop:
        end = min(start + each, stop)
        first, last = portion(start, end, meeting.me, meeting.crew)
        for k in range(first, last):
            old[plan.order[k]] = duals[plan.order[k]]
        share, more = visit_scalars(X, loss, space, duals, curvature, plan, (now, first, last, spread), level)
        gap, gain, start = gap + share, gain + more, end
        t, spread = go_together(space, meeting, more, spread)
        together = t >= 0.0
        if 0.0 <= t < 1.0:
            gain += retreat_scalars(loss, duals, old, plan, (first, last), t)
    return gap, gain, spread


@kernel
def row_rounds(X, loss, space, tables, plan, visit, scratch, meeting):
    """As `scalar_rounds`, for rows; scratch holds scores, change and the level of calm."""
    (now, start, stop, each, spread), (duals, old, curvature), (gap, gain) = visit, tables, (0.0, 0.0)
    together = begin_together(space, meeting)
    while together and start < stop:
        end = min(start + each, stop)
        first, last = portion(start, end, meeting.me, meeting.crew)
        for k in range(first, last):
            i = plan.order[k]
            for b in range(duals.vectors.shape[1]):
                vectors.store(old.vectors, i, b, vectors.load(duals.vectors, i, b))
        share, more = visit_rows(X, loss, space, duals, curvature, plan, (now, first, last, spread), scratch)
        gap, gain, start = gap + share, gain + more, end
        t, spread = go_together(space, meeting, more, spread)
        together = t >= 0.0
        if 0.0 <= t < 1.0:
            gain += retreat_rows(loss, duals, old, plan, (first, last), t, scratch[1])
    return gap, gain, spread


@kernel
def scalar_reach_together(X, loss, space, tables, plan, visit, t, meeting):
    """What one thread extrapolates: its part of the examples, what they lack taken back from its copy of the weights."""
    (now, n), (duals, before), gain = visit, tables, 0.0
    if begin_together(space, meeting):
        first, last = portion(0, n, meeting.me, meeting.crew)
        gain = reach_scalars(X, loss, space, duals, before, plan, (now, first, last), t)
        go_all_the_way(space, meeting)
    return gain


@kernel
def row_reach_together(X, loss, space, tables, plan, visit, scratch, meeting):
    """The same for rows; scratch holds a row, the step and room for what rows lack."""
    (now, n), (duals, before), (change, t, lacking), gain = visit, tables, scratch, 0.0
    if begin_together(space, meeting):
        first, last = portion(0, n, meeting.me, meeting.crew)
        while first < last:
            first, count, more = reach_some(loss, duals, before, plan, (now, first, last), lacking, (change, t))
            move_some(space, X, lacking, count, change)
            gain += more
        go_all_the_way(space, meeting)
    return gain


def crews(n_jobs: int) -> list[int]:
    """Numbers of threads to choose from: all, half of them and so on, down to two."""
    return [n_jobs >> k for k in range(n_jobs.bit_length()) if n_jobs >> k > 1]


def call_seconds(threads: int, tuning: PartTuning) -> float:
    """Seconds that it takes to call so many threads to work."""
    return tuning.call + tuning.caller * threads


def meeting_seconds(weights: int, threads: int, tuning: PartTuning) -> float:
    """Seconds that threads take to meet. Each of them compares its share of the weights."""
    return tuning.meeting + tuning.thread * threads + weights * (tuning.weight + tuning.pair * threads)


def rounds(work: float, weights: int, threads: int, tuning: PartTuning) -> int:
    """How often threads may meet in a pass that takes one of them `work` seconds."""
    return int(min(tuning.most, tuning.part * work / threads / meeting_seconds(weights, threads, tuning)))


def crew_and_rounds(work: float, weights: int, n_jobs: int, tuning: PartTuning) -> tuple[int, int]:
    """How many threads, and how often they meet in such a pass, for the least time; one thread where that is none."""
    best, found = work, (1, 1)
    for threads in crews(n_jobs):
        times = rounds(work, weights, threads, tuning)
        took = work / threads + times * meeting_seconds(weights, threads, tuning) + tuning.gain * call_seconds(threads, tuning)
        if times >= tuning.fewest and took < best:
            best, found = took, (threads, times)
    return found


def crew_to_reach(work: float, weights: int, n_jobs: int, tuning: PartTuning) -> int:
    """How many threads share out so many seconds of work, and meet once."""

    def took(threads: int) -> float:
        return work / threads + tuning.gain * call_seconds(threads, tuning) + meeting_seconds(weights, threads, tuning)

    best = min(crews(n_jobs), key=took, default=1)
    return best if best > 1 and took(best) < work else 1


class Parted(Accelerated):
    """A run on `n_jobs` threads."""

    held = (*Accelerated.held, "spread", "last_gap")
    n_jobs = 1
    spread = ALONE
    last_gap = np.inf  # as the last pass estimated it
    crew = 1  # threads at work in this pass
    each = 1  # examples of a round
    prepared = 0  # threads that there is room for
    team = Team(1)
    copies: Copies

    def settle_in(self, dtype, duals):
        super().settle_in(dtype, duals)
        self.crew, self.prepared = 1, 0

    def advance(self, stop):
        self.last_gap = super().advance(stop)
        return self.last_gap

    def together(self, count):
        self.crew, tuning = 1, self.options.tuning.parts
        if self.n_jobs > 1 and self.problem.half_spaces is None and self.last_gap > tuning.fine * abs(self.dual):
            self.crew, times = crew_and_rounds(count * self.visit_seconds, self.space.w.size, self.n_jobs, tuning)
            if self.crew > 1:
                most = self.crew * self.between
                self.spread, self.each = min(self.spread, float(self.crew)), min(-(-count // times), most)
                return most // self.each * self.each  # whole rounds
        return super().together(count)

    def call_together(self, work: Callable[[int, Meeting], Any], space: Any, threads: int) -> list:
        """work(p, meeting) of so many threads, on copies of these weights; if it goes wrong in one, none waits for it."""
        if self.prepared < self.n_jobs:
            if self.team.size < self.n_jobs:
                self.team = Team(self.n_jobs)
            self.copies, self.prepared = Copies(self.space, self.n_jobs), self.n_jobs
            self.prepare(self.n_jobs)
        meetings = self.copies.meetings(space, threads)

        def attend(p: int) -> Any:
            try:
                return work(p, meetings[p])
            except BaseException:
                give_up(self.copies.board)
                raise

        return self.team.work(attend, range(threads), lambda: give_up(self.copies.board))

    def visit(self, visit, level):
        if self.crew == 1:
            return self.visit_alone(visit, level)
        span = *visit, self.each, self.spread
        found = self.call_together(lambda p, meeting: self.walk(p, span, level, meeting), self.space, self.crew)
        gaps, gains, spreads = zip(*found, strict=True)
        self.spread = spreads[0]
        return float(sum(gaps)), float(sum(gains))

    def reach(self, t):
        tuning = self.options.tuning.parts
        work, size = tuning.reach * self.problem.n_examples * self.visit_seconds, self.space.w.size
        threads = crew_to_reach(work, size, self.n_jobs, tuning)
        return self.reach_together(t, threads) if threads > 1 else self.reach_alone(t)

    def reach_together(self, t: float, threads: int) -> float:
        """As `reach`: what duals lack is taken back from copies of the weights, which then add up."""
        term = self.problem.regularizer
        gains = self.call_together(lambda p, meeting: self.reach_part(p, t, meeting), term.loose(self.other), threads)
        term.tie(self.other)
        return float(sum(gains))

    def loose(self, p: int) -> Any:
        """The copy of thread p, as it is moved when scores are asked for later."""
        return self.problem.regularizer.loose(self.copies.spaces[p])

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
    def walk(self, p: int, visit: tuple, level: float, meeting: Meeting) -> tuple[float, float, float]:
        """What thread p does in `visit`, on its copy of the weights; returns the spread too."""

    @abstractmethod
    def reach_alone(self, t: float) -> float:
        """As `reach`, of one thread."""

    @abstractmethod
    def reach_part(self, p: int, t: float, meeting: Meeting) -> float:
        """What thread p does in `reach`, on its copy of the weights."""


class PartedScalars(Parted, ScalarAscent):
    visit_alone, reach_alone = ScalarAscent.visit, ScalarAscent.reach

    @property
    def visit_seconds(self):
        tuning = self.options.tuning.parts
        return tuning.visit + tuning.entry * mean_length(self.problem.X)

    def prepare(self, threads):
        self.old = np.empty_like(self.duals)

    def walk(self, p, visit, level, meeting):
        X, loss, tables = self.problem.X, self.problem.exact_loss, (self.duals, self.old, self.curvature)
        return scalar_rounds(X, loss, self.copies.spaces[p], tables, self.plan, visit, level, meeting)

    def reach_part(self, p, t, meeting):
        X, loss, visit = self.problem.X, self.problem.exact_loss, (self.passes - 1, self.problem.n_examples)
        return scalar_reach_together(X, loss, self.loose(p), (self.duals, self.before), self.plan, visit, t, meeting)


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

    def walk(self, p, visit, level, meeting):
        (loss, scores, change), tables = self.scratch[p], (self.duals, self.old, self.curvature)
        scratch = scores, change, level
        return row_rounds(self.problem.X, loss, self.copies.spaces[p], tables, self.plan, visit, scratch, meeting)

    def reach_part(self, p, t, meeting):
        (loss, _, change), visit = self.scratch[p], (self.passes - 1, self.problem.n_examples)
        tables, scratch = (self.duals, self.before), (change, t, self.lacks[p])
        return row_reach_together(self.problem.X, loss, self.loose(p), tables, self.plan, visit, scratch, meeting)
