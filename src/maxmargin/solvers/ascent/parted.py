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
from collections.abc import Callable
from typing import Any

import numpy as np

from ...data.rows import mean_length
from ...jit import kernel, vectors
from ...losses.base import clip, reward, row_extrapolate
from ...problems.linear import RowProblem
from ...utils.threads import Team, spans
from ..tuning import PartTuning
from .copies import Copies
from .joint import followed, ratio, shares
from .linear import ALONE, Accelerated, BlockAscent, ScalarAscent, row_pass, scalar_pass, scalar_reach
from .momentum import move_listed, room_to_lack, row_reach

SHORT = 1 << 15  # weights below which it takes one thread to compare and to copy them. By what a call costs, 2026-11-16
NOWHERE = (0, 0), 1.0


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


def crews(n_jobs: int) -> list[int]:
    """Numbers of threads to choose from: all, half of them and so on."""
    return [n_jobs >> k for k in range(n_jobs.bit_length()) if n_jobs >> k > 1]


def rounds(count: int, visit: float, weights: int, threads: int, tuning: PartTuning) -> int:
    """How often threads may meet in a pass over `count` examples, by what visits and meetings cost."""
    share = 1.0 if weights <= SHORT else 1.0 / threads
    compared = weights * threads * (tuning.weight + tuning.pair * threads) * share
    meeting = tuning.meeting + tuning.thread * threads + compared
    return int(min(tuning.most, tuning.part * count * visit / threads / meeting))


class Parted(Accelerated):
    """A run on `n_jobs` threads."""

    held = (*Accelerated.held, "spread", "crew", "last_gap")
    n_jobs = 1
    spread = ALONE
    last_gap = np.inf  # as the last pass estimated it
    crew = 1  # threads at work in this pass
    prepared = 0  # threads that there is room for
    team = Team(1)
    copies: Copies
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
            size = self.space.w.size
            for threads in crews(self.n_jobs):
                times = rounds(count, self.visit_seconds, size, threads, tuning)
                if times >= tuning.fewest:
                    self.crew, self.spread = threads, min(self.spread, float(threads))
                    self.to_go = [NOWHERE] * threads
                    self.muster(self.space)
                    self.keep()
                    return min(-(-count // times), threads * self.between)
        return super().together(count)

    def muster(self, space: Any) -> None:
        """Get the threads to work, each with a copy of these weights."""
        if self.team.size < self.crew:
            self.team = Team(self.n_jobs)
        if self.prepared != self.crew:
            self.copies, self.prepared = Copies(self.space, self.crew), self.crew
            self.prepare(self.crew)
        self.shared(lambda span: self.copies.begin(space, span))

    def shared(self, work: Callable[[tuple[int, int]], Any]) -> list:
        """work(span) over the entries of the weights."""
        size = self.space.w.size
        return self.team.work(work, spans(size, self.crew if size > SHORT else 1))

    def visit(self, visit, level):
        if self.crew == 1:
            return self.visit_alone(visit, level)
        now, start, stop = visit
        parts = [(start + a, start + b) for a, b in spans(stop - start, self.crew)]
        parts += [(stop, stop)] * (self.crew - len(parts))

        def walk(p: int) -> tuple[float, ...]:
            back = self.retreat(p, *self.to_go[p])
            return *self.walk(p, (now, *parts[p], self.spread), level), back

        gaps, gains, back = np.array(self.team.work(walk, range(self.crew))).T
        self.to_go = list(zip(parts, self.meet(gains).tolist(), strict=True))
        return float(gaps.sum()), float(gains.sum() + back.sum())

    def meet(self, gains: np.ndarray) -> np.ndarray:
        """Move the weights along all ways; returns how far each part goes."""
        found = self.shared(lambda span: self.copies.meet(self.space, span))
        slopes = sum(part.slopes for part in found) / self.spread
        bends = sum(part.bends for part in found) / self.spread**2
        bends = np.tril(bends) + np.tril(bends, -1).T
        going, spread = shares(gains, slopes, bends), self.spread
        self.spread = followed(spread, ratio(gains, slopes, bends), float(self.crew))
        self.shared(lambda span: self.copies.join(self.space, going / spread, span))
        return going

    def after_visits(self):
        if self.crew > 1:
            self.reward += sum(self.team.work(lambda p: self.retreat(p, *self.to_go[p]), range(self.crew)))
        super().after_visits()

    def reach(self, t):
        if self.crew == 1:
            return self.reach_alone(t)
        term = self.problem.regularizer
        space = term.loose(self.other)
        self.muster(space)
        parts = spans(self.problem.n_examples, self.crew)
        loose = [term.loose(copy) for copy in self.copies.spaces]
        gain = sum(self.team.work(lambda p: self.reach_part(p, loose[p], parts[p], t), range(len(parts))))
        self.shared(lambda span: self.copies.join(space, np.ones(self.crew), span))
        term.tie(self.other)
        return gain

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
        return tuning.visit + 0.5 * tuning.entry_of_many * single * self.visit_work()

    def prepare(self, threads):
        n, classes, moves = self.problem.n_examples, self.problem.n_classes, self.problem.regularizer.moves
        self.old = vectors.zeros_table(n, classes, self.dtype)
        tables = [[vectors.zeros_table(count, classes, self.dtype) for count in (1, moves)] for _ in range(threads)]
        self.scratch = [(self.problem.loss_in(self.dtype), *pair) for pair in tables]
        self.lacks = [room_to_lack(self.lacking.which.size, classes, self.dtype) for _ in range(threads)]

    def keep(self):
        """In threads: it is as much as there are duals."""
        table, old = self.duals.vectors, self.old.vectors
        self.team.work(lambda span: np.copyto(old[slice(*span)], table[slice(*span)]), spans(len(table), self.crew))

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
