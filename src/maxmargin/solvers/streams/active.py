"""Some examples in memory with their duals: a block of a source as it is read, or a part of the cache of `OnlineDual`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...data.row_sums import sum_rows
from ...data.rows import mean_length
from ...jit import vectors
from ...problems.blocked import Examples, StreamProblem, joined
from ...problems.linear import rewards_of, row_combine
from ...regularizers.spaces import Free
from ..ascent.linear import ALONE, row_pass, scalar_pass
from ..ascent.schedule import Schedule, gather, schedule
from ..pace import examples_between
from .tuning import STREAM, StreamTuning

BESIDES = 80  # bytes an example takes besides its row: order of visits, curvature, numbers of the loss


class ActiveExamples(ABC):
    """Examples, their duals, the problem they make and the order of visits."""

    problem: Any

    def __init__(self, whole: StreamProblem, examples: Examples, duals: np.ndarray, seed: int, tuning: StreamTuning = STREAM):
        self.whole, self.examples, self.tuning = whole, examples, tuning
        self.problem = whole.build(examples.X, examples.target, examples.weight)
        self.curvature = self.problem.curvature
        self.work = 2.0 * mean_length(self.problem.X) * (whole.n_classes or 1)  # of a visit, on average
        self.plan: Schedule = schedule(examples.rows.size, seed, tuning=tuning.visits)
        self.gap = 0.0  # the shares of the gap that the last visit met
        self.put(duals)

    @property
    def rows(self) -> np.ndarray:
        return self.examples.rows

    @property
    def nbytes(self) -> int:
        return self.examples.nbytes + self.rows.size * (BESIDES + 8 * (self.whole.n_classes or 1))

    def visit(self, space, now: int, level: float, stop: Callable[[], bool]) -> tuple[float, int]:
        """Visit the examples that are due in random order; returns the change of the reward and the number of visits."""
        count, done, total = gather(self.plan, now), 0, 0.0
        stretch = examples_between(self.work, max(count, 1), self.tuning.pace)
        self.gap = 0.0
        while done < count and not stop():
            end = min(done + stretch, count)
            gap, gain = self.step(space, (now, done, end), level)
            self.gap, total, done = self.gap + gap, total + gain, end
        return total, done

    def chosen(self, which: np.ndarray) -> "ActiveExamples":
        """A copy of some of the examples, as they stand."""
        seed = int(self.plan.random[0] >> np.uint64(1))
        part = type(self)(self.whole, self.examples.chosen(which), self.duals()[which], seed, self.tuning)
        part.plan.due[:], part.plan.wait[:] = self.plan.due[which], self.plan.wait[which]
        part.gap = self.gap
        return part

    def zero(self) -> np.ndarray:
        """Whose duals are zero."""
        return np.asarray(~self.duals().any(axis=1))

    @abstractmethod
    def put(self, duals: np.ndarray) -> None:
        """Take up duals, (examples, width)."""

    @abstractmethod
    def duals(self) -> np.ndarray:
        """The duals, (examples, width)."""

    def feasible_duals(self) -> np.ndarray:
        """The same as certificates take them: exactly feasible."""
        return self.duals()

    @abstractmethod
    def step(self, space, visit, level) -> tuple[float, float]:
        """The shares of the gap met, and the change of the reward."""

    @abstractmethod
    def combine(self, space: Free, which: np.ndarray | None = None) -> float:
        """Add sum_i b_i x_i over all examples, or some, to the weights; returns the reward. In float64, from scratch."""


class ScalarExamples(ActiveExamples):
    def put(self, duals):
        self.held = np.ascontiguousarray(duals[:, 0])

    def duals(self):
        return self.held[:, None]

    def step(self, space, visit, level):
        problem, visit = self.problem, (*visit, ALONE)
        return scalar_pass(problem.X, problem.exact_loss, space, self.held, self.curvature, self.plan, visit, level)

    def combine(self, space, which=None):
        duals = self.held if which is None else np.where(which, self.held, 0.0)
        sum_rows(self.problem.X, duals, space.w, 0, duals.size)
        return rewards_of(self.problem.exact_loss, duals)


class RowExamples(ActiveExamples):
    def put(self, duals):
        self.held = vectors.table(vectors.pack(duals, np.float64))
        self.scores = vectors.zeros_table(1, self.problem.n_classes, np.float64)
        self.change = vectors.zeros_table(self.problem.regularizer.moves, self.problem.n_classes, np.float64)

    def duals(self):
        return self.held.flat[:, : self.whole.n_classes]

    def feasible_duals(self):
        return self.problem.repaired(self.held)

    def step(self, space, visit, level):
        scratch, visit = (self.scores, self.change, level), (*visit, ALONE)
        problem = self.problem
        return row_pass(problem.X, problem.exact_loss, space, self.held, self.curvature, self.plan, visit, scratch)

    def combine(self, space, which=None):
        held = self.held
        if which is not None:
            held = vectors.table(vectors.pack(np.where(which[:, None], self.duals(), 0.0), np.float64))
        out = vectors.zeros_table(1, self.problem.n_classes, np.float64)
        return row_combine(self.problem.X, self.problem.exact_loss, held, space, out, 0, held.flat.shape[0])


def active(
    whole: StreamProblem, examples: Examples, duals: np.ndarray, seed: int, tuning: StreamTuning = STREAM
) -> ActiveExamples:
    kind = ScalarExamples if whole.n_classes is None else RowExamples
    return kind(whole, examples, duals, seed, tuning)


def merged(parts: Sequence[ActiveExamples], seed: int) -> ActiveExamples:
    """Several as one."""
    examples, duals = joined([part.examples for part in parts]), np.concatenate([part.duals() for part in parts])
    result = active(parts[0].whole, examples, duals, seed, parts[0].tuning)
    result.plan.due[:] = np.concatenate([part.plan.due for part in parts])
    result.plan.wait[:] = np.concatenate([part.plan.wait for part in parts])
    result.gap = sum(part.gap for part in parts)
    return result
