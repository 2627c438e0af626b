"""Block-coordinate ascent on the dual, accelerated: the part that scalar and multiclass problems share.

A pass visits the examples that are due in random order, solves each one's block of duals exactly with the others fixed,
and keeps the weights in step (Ramanan 2013, Algorithm 1, for blocks with a closed-form solution). After a pass the
duals are extrapolated along their last change (Nesterov's momentum, restarted when the dual value would fall):

    y = x + t (x - x_before),   t = m / (m + 3),   m = passes since the last restart

each example brought back to its own constraints; the weights follow as v + t (v - v_before), corrected for the examples
that had to be. The dual value is known exactly before the step is taken: a pass and the step after it together never lower
it. On ill-conditioned problems this halves the number of visits and more.

The primal value at w(x) fluctuates long after the dual has settled, therefore an average of the weights after each pass
is offered as a second candidate for the certificate.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data import rows
from ...jit import kernel, vectors
from ...losses.nonnegative import NonNegative, NonNegativeRow
from ...problems.base import Evaluated
from ...problems.explicit import GroupedProblem
from ...problems.linear import RowProblem, ScalarProblem
from ...regularizers.spaces import (
    NO_SUMS,
    Free,
    averaged,
    extrapolate,
    quadratic,
    quadratic_adding,
    room_for,
    unclipped,
)
from ...utils.threads import in_threads, spans
from ..due import Due
from ..pace import examples_between
from ..polish.tables import LinearFinishing
from .in_a_row import InARow, scalar_passes
from .momentum import move_listed, room_to_lack, row_reach
from .schedule import gather, schedule, visited
from .tuning import ASCENT, AscentTuning
from .visits import reach_scalars, visit_rows, visit_scalars

ALONE = 1.0  # the spread of changes that nobody else makes at the same time


# ---- one score per example -------------------------------------------------------------------------------


@kernel
def scalar_pass(X, loss, space, duals, curvature, plan, visit, level):
    return visit_scalars(X, loss, space, duals, curvature, plan, visit, level)


@kernel
def scalar_reach(X, loss, space, duals, before, plan, visit, t):
    return reach_scalars(X, loss, space, duals, before, plan, visit, t)


# ---- a row of classes per example ------------------------------------------------------------------------


@kernel
def row_pass(X, loss, space, duals, curvature, plan, visit, scratch):
    return visit_rows(X, loss, space, duals, curvature, plan, visit, scratch)


# ---- the run ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AscentOptions:
    """How a run goes about it. `dtype`: of the iterations; they go on in float64 when float32 makes no progress any more.
    `block`: examples that are stepped together, by `blocked`; 0 for one after another. `threads`: that step side by side."""

    tol: float
    seed: int
    dtype: Any
    momentum: bool = True
    average: bool = True
    tuning: AscentTuning = ASCENT
    block: int = 0
    threads: int = 1


class Ascent(LinearFinishing, ABC):
    """A run of dual coordinate ascent on one problem: its duals, its weights and the order of visits."""

    held = (
        *LinearFinishing.held,
        "duals",
        "side_duals",
        "plan",
        "space",
        "mean_sum",
        "mean_count",
        "mean_next",
        "floor",
        "reward",
        "exact_v",
    )
    problem: ScalarProblem | RowProblem | GroupedProblem
    options: AscentOptions
    duals: Any
    side_duals: Any = None
    in_step = False  # whether the weights and the dual value are those of the duals, from scratch
    n_jobs = 1

    def __init__(self, problem, duals: np.ndarray | None, options: AscentOptions):
        self.problem, self.options, self.average = problem, options, options.average
        self.warm = duals is not None
        self.plan = schedule(problem.n_examples, options.seed, self.row_bytes(), options.tuning.visits)
        self.curvature = problem.curvature
        self.between = examples_between(self.visit_work(), self.stretch, options.tuning.pace)
        self.settle_in(np.dtype(options.dtype), duals)

    def row_bytes(self) -> float:
        """Of the data of an example, on average; infinity where examples are not read one by one."""
        return np.inf

    def visit_work(self) -> float:
        """Multiplications and additions of a visit, on average."""
        return 2.0 * rows.mean_length(self.problem.X)

    def settle_in(self, dtype: np.dtype, duals: np.ndarray | None) -> None:
        """Take up these duals (float64, the problem's layout; None: zero) and iterate in this dtype from here on."""
        self.dtype = dtype
        self.take(duals)
        if self.problem.half_spaces is not None:
            self.side_duals = self.put_walls(self.problem.half_spaces.count)
        self.dual, self.exact_v = self.evaluated()
        self.space = self.problem.regularizer.space(self.exact_v, dtype)
        self.floor, self.reward, self.in_step = 0.0, self.dual - quadratic(self.space), True
        self.mean_sum = vectors.aligned(averaged(self.space).shape, dtype)
        self.mean_count, self.mean_next = 0, max(2, 2 * self.passes)

    def synchronise(self) -> float:
        """Rebuild the weights from the duals, exactly; returns the exact dual value."""
        if self.in_step:
            return self.dual
        self.dual, self.exact_v = self.evaluated()
        self.problem.regularizer.put(self.exact_v, self.space)
        self.reward, self.in_step = self.dual - quadratic(self.space), True
        return self.dual

    def evaluated(self) -> Evaluated:
        """The exact dual value, and what the duals sum up to."""
        return self.problem.evaluate(self.duals, self.side_duals)

    def advance(self, stop: Callable[[], bool]) -> float:
        """One pass; returns the sum of the shares of the gap that it met (an estimate: the weights moved meanwhile)."""
        self.floor, self.in_step, self.passes_in_row = self.dual, False, ()
        count, tuning = self.gathered(), self.options.tuning
        level = tuning.visits.calm * self.options.tol * abs(self.dual) / max(self.problem.n_examples, 1)
        gap, stretch = 0.0, self.together(count)
        if self.problem.half_spaces is not None:  # side_duals answer to examples at once, or the two sides zigzag
            stretch = min(stretch, max(self.problem.half_spaces.count, count // tuning.walks))
        self.before_visits()
        for start in range(0, count, stretch):
            if stop():
                break
            end = min(start + stretch, count)
            share, gain = self.visit((self.passes, start, end), level)
            gap += share
            self.reward += gain
            self.visits += end - start
            if self.problem.half_spaces is not None:
                gap += self.climb_fence(start)
        self.after_visits()
        self.dual = self.reward + self.averaged_quadratic()
        self.passes += 1
        self.note(gap)
        return gap

    def snapshot(self):
        return super().snapshot() | {"dtype": self.dtype.name}

    def resume(self, state):
        if state["dtype"] != self.dtype.name:
            self.settle_in(np.dtype(state["dtype"]), None)
        super().resume(state)
        self.in_step = False

    def refine(self) -> None:
        """Go on in float64: float32 makes no progress any more."""
        if self.dtype == np.float32:
            self.settle_in(np.dtype(np.float64), self.left())

    def climb_fence(self, start: int) -> float:
        """A pass over all half-spaces of the half_spaces; returns their part of the gap."""
        half_spaces = self.problem.half_spaces
        assert half_spaces is not None
        plan = schedule(half_spaces.count, self.options.seed + self.passes + start, tuning=self.options.tuning.visits)
        return self.visit_walls(half_spaces.rows, half_spaces.curvature, plan, (0, 0, gather(plan, 0), ALONE))

    def averaged_quadratic(self) -> float:
        """What the quadratic term contributes to the dual value after a pass. On the way weights are averaged, starting anew at
        passes 2, 4, 8, ..."""
        if not self.options.average:
            return quadratic(self.space)
        if self.passes >= self.mean_next:
            self.mean_next *= 2
            self.mean_count = 0
            self.mean_sum[...] = 0
        self.mean_count += 1
        return quadratic_adding(self.space, self.mean_sum)

    def candidates(self) -> list[np.ndarray]:
        """Weights to take the primal value at, in float64: those of the duals, then the average."""
        found = [self.problem.feasible(self.problem.regularizer.weights(self.exact_v))]
        if self.hint is not None and self.options.average:
            found.append(self.problem.feasible(self.problem.regularizer.weights(self.hint)))
            self.hint = None
        if self.options.average and self.mean_count > 1:
            mean = vectors.convert(self.mean_sum, np.float64)
            mean /= self.mean_count
            found.append(self.problem.feasible(self.problem.regularizer.mended(mean)))
        return found

    def at_duals(self) -> Evaluated:
        if self.problem.half_spaces is not None:
            return self.problem.evaluate(self.duals)
        return Evaluated(self.synchronise(), self.exact_v)

    def wake(self) -> None:
        """Visit every example in the next pass. Who was visited in the last one stays known, for the extrapolation."""

        def wake_some(some: slice) -> None:
            due, wait = self.plan.due[some], self.plan.wait[some]
            visited_now = due - wait == self.passes
            np.minimum(due, self.passes, out=due)
            wait[:] = np.where(visited_now, 0, np.maximum(wait, 1))

        self.by_runs(wake_some)

    def by_runs(self, work: Callable[[slice], Any], numbers: int = 1) -> None:
        """work(some) for runs of the examples, with so many numbers each, side by side where there are many."""
        n = self.problem.n_examples
        runs = spans(n, max(1, min(self.n_jobs, n, n * numbers // self.options.tuning.parts.copied)))
        in_threads(lambda run: work(slice(*run)), runs, self.n_jobs)

    @property
    @abstractmethod
    def stretch(self) -> int:
        """Examples between two looks at the clock, at the most."""

    @abstractmethod
    def left(self) -> np.ndarray:
        """The duals in float64, exactly feasible, in the layout of the problem."""

    def gathered(self) -> int:
        """Put the examples that a pass visits into plan.order; returns how many there are."""
        return gather(self.plan, self.passes)

    def together(self, count: int) -> int:
        """Examples between two looks at the clock, in a pass over `count`."""
        return self.between

    def before_visits(self) -> None:
        """A pass begins."""

    def after_visits(self) -> None:
        """A pass has ended, and the weights are asked for."""

    @abstractmethod
    def visit(self, visit, level) -> tuple[float, float]: ...

    @abstractmethod
    def put_walls(self, count: int) -> Any:
        """Duals at zero for the half-spaces of a half_spaces."""

    @abstractmethod
    def visit_walls(self, X, curvature, plan, visit) -> float: ...


class Accelerated(Ascent):
    """A run that extrapolates between passes."""

    held = (*Ascent.held, "before", "other", "before_v", "memory", "begin_at")
    problem: ScalarProblem | RowProblem

    def row_bytes(self):
        return self.problem.X.values.nbytes / max(self.problem.n_examples, 1)

    def settle_in(self, dtype, duals):
        super().settle_in(dtype, duals)
        self.other = room_for(self.space)
        self.before_v = vectors.aligned(unclipped(self.space).shape, dtype)
        self.memory, self.begin_at = 0, self.passes + self.options.tuning.visits.start

    def rise(self, most: float) -> None:
        """At a larger C the duals at their bounds grow with it, the others hardly: D(k b) = k reward - k^2 quadratic is best at
        some k in between. Where rewards are not linear or the prior has a mean, that is a guess, and the better value counts."""
        quadratic_part = -quadratic(self.space)
        if most <= 1.0 or quadratic_part <= 0.0 or self.reward <= 2.0 * quadratic_part:
            return
        duals, dual = self.left(), self.dual
        self.take(self.problem.clipped(min(most, self.reward / (2.0 * quadratic_part)) * duals))
        if not self.synchronise() > dual:
            self.take(duals)
            self.synchronise()

    def begin_again(self):
        self.before_v[...], self.memory = unclipped(self.space), 0

    def accelerate(self) -> None:
        """Extrapolate from the state after the last pass, or go to the optimum of its free duals."""
        if self.polished():
            return
        # The duals of a half_spaces are not extrapolated, so with one nothing is.
        if not self.options.momentum or self.problem.half_spaces is not None or self.passes < self.begin_at:
            return
        if self.passes == self.begin_at:
            self.remember()
            self.before_v[...] = unclipped(self.space)
            return
        self.memory, self.in_step = self.memory + 1, False
        t = min(self.memory / (self.memory + 3.0), self.options.tuning.farthest)
        extrapolate(self.space, self.before_v, t, self.other)
        gain = self.reach(t)
        dual = self.reward + gain + quadratic(self.other)
        if dual >= self.floor:  # it may cost what the pass gained, never more: else many small losses add up
            self.reward, self.dual = self.reward + gain, dual
            self.space, self.other = self.other, self.space
        else:
            self.take_back()
            self.memory = 0

    @abstractmethod
    def remember(self) -> None:
        """Keep the duals as those before the next pass."""

    @abstractmethod
    def reach(self, t) -> float:
        """Extrapolate the duals of each visited example as far as it can go, keep those of this pass as the ones before the
        next, correct the pushed weights; returns the change of the reward."""

    @abstractmethod
    def take_back(self) -> None:
        """Return to the duals before the extrapolation."""


class ScalarAscent(Accelerated):
    problem: ScalarProblem

    @property
    def stretch(self):
        return self.options.tuning.pace.scalars

    def take(self, duals):
        self.duals = np.zeros(self.problem.n_examples) if duals is None else duals.copy()
        self.before, self.in_step = self.duals.copy(), False

    def advance(self, stop):
        if self.loop_due is None or not self.in_a_row() or stop():
            return super().advance(stop)
        first, tuning = self.passes, self.options.tuning
        counts = first, self.visits, self.memory, self.mean_count, self.mean_next, 0
        row = InARow(
            np.array([self.dual, self.reward, self.floor]),
            np.array(counts, np.int64),
            np.empty((tuning.in_a_row, 2)),
            tuning.visits.calm * self.options.tol / self.problem.n_examples,
            tuning.farthest,
            self.between,
        )
        sums = self.before_v, self.mean_sum if self.options.average else NO_SUMS[self.dtype]
        tables = self.duals, self.before, self.curvature
        spaces, loss, due = (self.space, self.other), self.problem.exact_loss, self.own_due(self.loop_due)
        done = scalar_passes(self.problem.X, loss, spaces, tables, self.plan, sums, row, due)
        self.dual, self.reward, self.floor = row.values.tolist()
        _, _, self.memory, self.mean_count, self.mean_next, swapped = row.counts.tolist()
        self.space, self.other = spaces[::-1] if swapped else spaces
        self.in_step = False
        met = [(first + k + 1, int(visits), gap) for k, (visits, gap) in enumerate(row.log[:done].tolist())]
        for passes, visits, gap in met:
            self.passes, self.visits = passes, visits
            self.note(gap)
        self.passes_in_row = met
        return met[-1][2]

    def in_a_row(self) -> bool:
        """Whether several passes may be one call: all are extrapolated, none takes long, and one thread makes them."""
        free = isinstance(self.space, Free) and self.problem.half_spaces is None and self.problem.n_examples > 0
        return free and self.options.momentum and self.passes > self.begin_at and self.problem.n_examples <= self.between

    def own_due(self, due: Due) -> Due:
        """With what the run has to do itself: look for free duals."""
        if self.dtype != np.float64:
            return due
        prices = float(self.visit_price), self.polish_tuning.sweep, float(self.next_polish)
        return due._replace(polish=prices, polish_from=float(self.soon))

    def put_walls(self, count):
        return np.zeros(count)

    def visit_walls(self, X, curvature, plan, visit):
        return scalar_pass(X, NonNegative(0), self.space, self.side_duals, curvature, plan, visit, -np.inf)[0]

    def left(self):
        return self.duals.copy()

    def visit(self, visit, level):
        X, loss = self.problem.X, self.problem.exact_loss
        return scalar_pass(X, loss, self.space, self.duals, self.curvature, self.plan, (*visit, ALONE), level)

    def remember(self):
        self.by_runs(lambda some: np.copyto(self.before[some], self.duals[some]))

    def reach(self, t):
        X, loss, visit = self.problem.X, self.problem.exact_loss, (self.passes - 1, 0, self.problem.n_examples)
        return scalar_reach(X, loss, self.other, self.duals, self.before, self.plan, visit, t)

    def take_back(self):
        def take_some(some: slice) -> None:
            np.copyto(self.duals[some], self.before[some], where=visited(self.plan, some, self.passes - 1))

        self.by_runs(take_some)


class BlockAscent(Accelerated):
    problem: RowProblem
    known_left: np.ndarray | None = None  # what is left, of the last time that it was asked for in step

    @property
    def stretch(self):
        return self.options.tuning.pace.rows

    def take(self, duals):
        n, classes, self.in_step = self.problem.n_examples, self.problem.n_classes, False
        self.loss = self.problem.loss_in(self.dtype)
        self.duals, self.before = (vectors.zeros_table(n, classes, self.dtype) for _ in range(2))
        if duals is not None:
            self.duals.flat[:, :classes] = duals
            self.remember()
        self.scores = vectors.zeros_table(1, classes, self.dtype)
        self.change = vectors.zeros_table(self.problem.regularizer.moves, classes, self.dtype)
        most = self.options.tuning.lacking * self.options.threads  # rows are handed to threads as seldom as to one
        self.lacking = room_to_lack(self.options.block or min(n, most), classes, self.dtype)

    def visit_work(self):
        classes, moves = self.problem.n_classes, self.problem.regularizer.moves
        return moves * classes * (super().visit_work() + (moves - 1) * classes)

    def put_walls(self, count):
        return vectors.zeros_table(count, self.problem.n_classes, self.dtype)

    def visit_walls(self, X, curvature, plan, visit):
        scratch = self.scores, self.change, 0.0
        return row_pass(X, NonNegativeRow(0), self.space, self.side_duals, curvature, plan, visit, scratch)[0]

    def left(self):
        if not self.in_step:
            return self.problem.repaired(self.duals, self.n_jobs)
        if self.known_left is None:
            self.known_left = self.problem.repaired(self.duals, self.n_jobs)
        return self.known_left

    def evaluated(self):
        self.known_left = None
        return self.problem.evaluate(self.duals, self.side_duals, self.n_jobs)

    def visit(self, visit, level):
        scratch, visit = (self.scores, self.change, level), (*visit, ALONE)
        return row_pass(self.problem.X, self.loss, self.space, self.duals, self.curvature, self.plan, visit, scratch)

    def remember(self):
        lanes = self.duals.flat.shape[1]
        self.by_runs(lambda some: np.copyto(self.before.vectors[some], self.duals.vectors[some]), lanes)

    def reach(self, t):
        regularizer = self.problem.regularizer
        gain = self.reach_rows(regularizer.loose(self.other), t)
        regularizer.tie(self.other)
        return gain

    def reach_rows(self, space, t) -> float:
        """Extrapolate the duals and correct these weights; returns the change of the reward."""
        first, stop, gain, scratch = 0, self.problem.n_examples, 0.0, (self.change, t)
        while first < stop:
            visit = self.passes - 1, first, stop
            first, count, more = row_reach(self.loss, self.duals, self.before, self.plan, visit, self.lacking, scratch)
            self.give_back(space, count)
            gain += more
        return gain

    def give_back(self, space, count: int) -> None:
        """Move the weights by what the first `count` rows of `lacking` say."""
        move_listed(space, self.problem.X, self.lacking, count, self.change)

    def take_back(self):
        def take_some(some: slice) -> None:
            which = visited(self.plan, some, self.passes - 1)
            np.copyto(self.duals.flat[some], self.before.flat[some], where=which[:, None])

        self.by_runs(take_some, self.duals.flat.shape[1])
