"""What runs of second-order steps share: a point W of its own, the best duals met, and when there is no progress any more.

The gap of a point and its duals is what the losses leave and half the square of what the gradient leaves: a step ends with both
at hand. So the exact values, which cost as much as a step where columns are few, are asked for when that says that the target
is near, or that something is wrong.

Inside, weights are (classes, features + 1) and duals (examples, classes), with one class where an example has one score.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ...data.rows import column_sizes
from ...jit import vectors
from ...losses.base import Loss
from ...problems.base import Evaluated
from ...problems.collected import CollectedProblem
from ...problems.linear import RowProblem, ScalarProblem
from ...utils.state import RunState, beneath, taken_apart
from ..base import Run, Setting, Start
from ..tuning import SWAYS
from .sample_systems import system_of
from .systems import System, combination
from .walls import Walls, walls_of

IDLE_STEPS = 10  # steps without progress after which there will be none
ROUNDED_GAP = 1e-15  # part of the value below which a gap is nothing but rounding
PROGRESS = 0.9  # part of the smallest gap so far that is progress
ENOUGH_MU = 0.1  # part of the gap asked for that mu may stand for
EXACTLY, CLOSER_STILL = 1e-3, 0.1  # of that, where the weights have to be those of the duals; and what each step leaves of it
# Looks in a row at the duals whose gap is no less than half of the least, after which rounding may be what hides the rest. By
# guess, on fuzz 302:407 and 301:3273, 2026-11-18.
BLURRED_LOOKS, HALF_OF_GAP = 4, 0.5
LEAST_SIZE = 1e-100  # stands for zero where it is divided by


class Shape(ABC):
    """Weights and duals of a problem in the layout used here, and back; and the matrix of its quadratic term."""

    problem: ScalarProblem | RowProblem | CollectedProblem
    classes: int

    @cached_property
    def B(self) -> np.ndarray:  # noqa: N802 - a matrix, as in the formulas
        """The diagonal of that matrix."""
        variance = self.problem.regularizer.variance
        if variance is None:
            return np.ones((self.classes, self.problem.table.shape[1] + 1))
        return 1.0 / self.opened(variance)

    def pulled(self, W: np.ndarray) -> np.ndarray:
        """The matrix times W."""
        return self.B * W

    def square(self, slack: np.ndarray) -> float:
        """slack' (its inverse) slack."""
        return float(np.sum(slack * slack / self.B))

    def tied(self, W: np.ndarray) -> np.ndarray:
        """W, which steps have moved, with what rounding has brought between weights that depend on each other taken out."""
        return W

    @abstractmethod
    def opened(self, w: np.ndarray) -> np.ndarray:
        """(classes, features + 1)."""

    @abstractmethod
    def packed(self, W: np.ndarray) -> np.ndarray:
        """As the problem has it."""

    @abstractmethod
    def evaluated(self, duals: np.ndarray, side_duals: np.ndarray | None) -> Evaluated:
        """The exact dual value; `side_duals` are those of half-spaces, class by class."""

    def at_rest(self, zeros: np.ndarray) -> Evaluated:
        """The same of duals that are all zero."""
        return self.evaluated(zeros, None)

    @abstractmethod
    def repaired(self, duals: np.ndarray) -> np.ndarray:
        """Exactly feasible."""

    @abstractmethod
    def left(self, duals: np.ndarray) -> np.ndarray:
        """As they are kept between runs."""


class EntryShape(Shape):
    """Problems with a loss of its own for each score. `losses` are all of them as kernels see them, example by example."""

    loss: Loss
    losses: Any

    @abstractmethod
    def system(self, steady: bool) -> System:
        """Whose N_i are diagonal; `steady` as for `system_of`."""


class ScalarShape(EntryShape):
    problem: ScalarProblem

    def __init__(self, problem: ScalarProblem):
        self.problem, self.classes = problem, 1
        self.loss, self.losses = problem.loss, problem.exact_loss

    def system(self, steady):
        return system_of(self.problem.table, self.problem.half_spaces is None, steady)

    def opened(self, w):
        return np.array(w, np.float64)[None]

    def packed(self, W):
        return W[0].copy()

    def evaluated(self, duals, side_duals):
        return self.problem.evaluate(np.ascontiguousarray(duals[:, 0]), side_duals)

    def at_rest(self, zeros):
        w = np.zeros(self.problem.weight_shape)  # no loss has a reward for a dual of zero
        v = self.problem.regularizer.unclipped(w)
        return Evaluated(self.problem.regularizer.dual(w, v), v)

    def repaired(self, duals):
        return self.problem.clipped(duals[:, 0])[:, None]

    def left(self, duals):
        return duals[:, 0].copy()


class RowShape(Shape):
    problem: RowProblem

    def __init__(self, problem: RowProblem):
        self.problem, self.classes = problem, problem.n_classes

    def opened(self, w):
        return vectors.to_classes(w, self.classes)

    def packed(self, W):
        return vectors.from_classes(W, np.float64)

    def evaluated(self, duals, side_duals):
        sides = None if side_duals is None else vectors.table(vectors.pack(side_duals.reshape(self.classes, -1).T, np.float64))
        return self.problem.evaluate(vectors.table(vectors.pack(duals, np.float64)), sides)

    def repaired(self, duals):
        return self.problem.clipped(duals)

    def left(self, duals):
        return duals.copy()


class SecondOrderRun(Run, ABC):
    """A run of steps; each leaves a point and duals, both certified by the loop. The best duals are kept. `dual` is about that of
    the point where it is better than `highest`, the best value met: `kept` is that of the duals kept."""

    point = ("W", "duals", "side_duals", "v", "heights", "wall_duals")  # of the fields that make up the state
    held = (*Run.held, *point, "lowest", "highest", "kept", "nearest", "least", "idle", "stuck", "exactly", "blurred", "hidden")
    exactly, blurred = EXACTLY, 0
    system: System
    continues = True

    def __init__(self, shape: Shape, start: Start, setting: Setting):
        self.shape, self.tol, self.average, self.to_end = shape, setting.tol, setting.average, setting.stop
        problem = self.problem = shape.problem
        problem.table.sum_of_squares()  # refuses rows whose squares overflow
        term = problem.regularizer
        self.table, self.passes, self.visits = problem.table, 0, 0
        self.size = shape.classes * (problem.table.shape[1] + 1)
        W = self.outset = shape.opened(term.start(problem.weight_shape))
        self.mean = W if term.mean is None else shape.opened(term.mean)
        self.B = shape.B
        lower = None if term.lower is None else shape.opened(term.lower)
        self.walls: Walls | None = walls_of(lower, problem.half_spaces, shape.classes)

        self.warm = start.duals is not None or start.weights is not None
        zeros = np.zeros((problem.n_examples, shape.classes))
        self.duals = zeros if start.duals is None else np.array(start.duals, np.float64).reshape(zeros.shape)
        self.side_duals: np.ndarray | None = None
        self.dual, self.v = shape.at_rest(zeros) if start.duals is None else shape.evaluated(self.duals, None)
        self.highest, self.kept, self.estimate = self.dual, self.dual, np.inf
        # The gap of the duals kept and of their weights, where these are asked for.
        self.nearest = np.inf if self.average else problem.primal(self.weights_of(self.v)) - self.dual
        if start.weights is not None:
            W = shape.opened(start.weights)
        elif start.duals is not None:
            W = shape.opened(term.weights(self.v))
        if lower is not None:
            W, self.outset = np.maximum(W, lower), np.maximum(self.outset, lower)
        self.W = W
        self.lowest, self.idle = np.inf, 0
        self.least: tuple[float, ...] = (np.inf, np.inf)
        self.heights = self.wall_duals = np.empty(0)

    def build_walls(self, mu: float, size: float) -> None:
        """Begin at a distance from the walls that moves scores by about `size`, but within the reach of the prior."""
        if self.walls is None:
            return
        columns = np.append(np.asarray(column_sizes(self.table.rows)), 1.0)
        reach = size / np.maximum(columns, LEAST_SIZE)
        usual = np.minimum(np.sqrt(mu / self.B), reach).ravel()
        steps = usual[self.walls.index] if self.walls.matrix is None else np.abs(self.walls.matrix) @ usual
        self.heights = np.maximum(self.walls.across(self.W.ravel()) - self.walls.low, np.maximum(steps, LEAST_SIZE))
        self.wall_duals = mu / self.heights
        self.W = self.W + self.walls.lifted(self.heights - self.walls.across(self.W.ravel()) + self.walls.low, self.size).reshape(
            self.W.shape
        )

    def share(self, system: System) -> None:
        """Use a system that others use as well, between their steps."""
        self.system = system

    @abstractmethod
    def step(self) -> bool:
        """One step, and a look at where it has led (`note`); whether it could be made."""

    def begin_afresh(self) -> bool:
        """Begin again without the duals of another run, where these were begun with; whether they were."""
        return False

    @property
    def sides(self) -> np.ndarray | None:
        """The duals of half-spaces as they stand; None where there are none."""
        return self.wall_duals if self.problem.half_spaces is not None and self.wall_duals.size else None

    @abstractmethod
    def proposed(self) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Duals of the point as it stands, feasible but for rounding, and those of half-spaces; the next ones are asked for where
        these are not enough."""

    def advance(self, stop: Callable[[], bool]) -> float:
        self.passes += 1
        if not self.stuck:
            self.visits += self.problem.n_examples
            with np.errstate(all="ignore"):
                self.stuck = (not self.step() or self.idle > IDLE_STEPS) and not self.begin_afresh()
        near = not self.estimate > self.tol * abs(
            self.lowest
        )  # the loop may have learned of another run what estimates are worth
        self.exact = self.stuck or self.idle > 0 or not np.isfinite(self.estimate) or near
        return self.estimate

    def note(self, primal: float, slack: np.ndarray, left: float, products: float, unmet: float | None = None) -> None:
        """The point as it stands: its gap, and is there progress? `left` is what the losses leave of the gap; the sum of the
        products of all pairs falls as that should, and the best dual met may be that of another point for long. `unmet` is what
        the slack leaves of the gap of another problem, where steps lead to the solution of that one first."""
        missed = 0.5 * self.shape.square(slack)
        self.lowest = min(self.lowest, primal)
        self.dual = max(self.highest, primal - left - missed)
        self.estimate = primal - self.dual
        floor = ROUNDED_GAP * abs(self.lowest)
        gaps = self.lowest - self.dual, products + (missed if unmet is None else unmet)
        better = [floor <= least and gap < PROGRESS * least for gap, least in zip(gaps, self.least, strict=True)]
        self.least = tuple(gap if new else old for new, gap, old in zip(better, gaps, self.least, strict=True))
        self.idle = 0 if any(better) else self.idle + 1

    def enough(self) -> float:
        """The part of the gap asked for that mu need not fall below, where mu is followed to zero: less with each step that
        brings nothing; or, where weights are those of the duals, with each while that gap is there, but not with them."""
        if self.average:
            return ENOUGH_MU * CLOSER_STILL**self.idle
        if self.estimate <= self.tol * abs(self.lowest):
            self.exactly *= CLOSER_STILL
        return ENOUGH_MU * self.exactly

    def pushed(self, slack: np.ndarray) -> np.ndarray:
        """What the gradient leaves, with what the walls push."""
        if self.walls is None:
            return slack
        return slack + self.walls.combined(self.wall_duals, self.size).reshape(slack.shape)

    def gradient(self, duals: np.ndarray) -> np.ndarray:
        """X' b - B (W - mean): what the quadratic term and these duals leave."""
        return combination(self.table, duals) - self.shape.pulled(self.W - self.mean)

    def mind_duals(self, before: float) -> None:
        """Whether rounding of the duals hides what is left of the gap, where weights have to be theirs: the target is met without
        them, and what looks find in a row is no less than half of what was found before. `before` is that of the last look."""
        met = self.estimate <= self.tol * abs(self.lowest)
        self.blurred = self.blurred + 1 if met and not self.nearest < HALF_OF_GAP * before else 0
        if self.stuck or self.blurred >= BLURRED_LOOKS:
            self.hidden = self.nearest <= SWAYS * self.problem.swayed(self.left())
            self.stuck = self.stuck or self.hidden

    def synchronise(self) -> float:
        before = self.nearest
        for proposed, sides in self.proposed():
            duals = self.shape.repaired(proposed)
            found = self.shape.evaluated(duals, sides)
            gap = np.inf if self.average else self.problem.primal(self.weights_of(found.v)) - found.dual
            if found.dual > self.highest if self.average else gap < self.nearest:
                (self.kept, self.v), self.nearest = found, gap
                self.duals, self.side_duals = duals, sides
            self.highest = max(self.highest, found.dual)
        if not self.average:
            self.mind_duals(before)
        self.dual = self.kept
        return self.dual

    def candidates(self) -> list[np.ndarray]:
        found = [self.v, self.shape.packed(self.W)] if self.average else [self.v]
        return [self.weights_of(w) for w in found]

    def at_duals(self) -> Evaluated:
        return Evaluated(self.kept, self.v) if self.problem.half_spaces is None else self.shape.evaluated(self.duals, None)

    def weights_of(self, v: np.ndarray) -> np.ndarray:
        return self.problem.feasible(self.problem.regularizer.weights(v))

    def left(self) -> Any:
        return self.shape.left(self.duals)

    def snapshot(self) -> RunState:
        return super().snapshot() | taken_apart(self.system.memory, "memory")

    def resume(self, state: Mapping[str, Any]) -> None:
        super().resume(state)
        kept = beneath(state, "memory")
        self.system.memory = tuple(kept[str(k)].copy() for k in range(len(kept)))
