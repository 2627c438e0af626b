"""What runs on structured problems share: the order of visits, averages of the weights, the exact dual value."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...problems.structured import StructuredProblem
from ...result import Result
from ...structures.encoded.contract import copied, meet, met, new_scratch
from ..ascent.schedule import gather, schedule
from ..base import Run
from ..pace import Pace
from ..tuning import POLYTOPE, PolytopeTuning
from .signed import Signed, space_of, weights_of

UNSEEN = 1e300  # the share of the gap of a sample that was not visited yet
SAMPLING = ("rest", "permutation", "uniform", "gap")


@dataclass(frozen=True)
class StructuredOptions:
    """How a run goes about it; see the solvers for what the fields mean."""

    tol: float
    seed: int
    sampling: str = "rest"
    average: bool = True
    n_jobs: int = 1
    tuning: PolytopeTuning = POLYTOPE


class StructuredRun(Run, ABC):
    """A run on a structured problem: its points, its weights and the order of visits."""

    held = (*Run.held, "calls", "points", "space", "plan", "random", "shares", "mean", "mean_count", "mean_next")
    problem: StructuredProblem
    calls: int
    translate: Callable[[Result], Result] | None = None  # where the problem that was asked for has another shape

    def __init__(self, problem: StructuredProblem, points: Any, options: StructuredOptions):
        self.problem, self.options, self.average = problem, options, options.average
        self.warm = points is not None
        self.points = self.start() if points is None else copied(points)
        self.plan = schedule(problem.n_examples, options.seed, tuning=options.tuning.visits)
        self.random = np.random.default_rng(options.seed)
        self.scratch, self.pace = new_scratch(problem.data), Pace(tuning=options.tuning.pace)
        self.shares = np.full(problem.n_examples, UNSEEN)  # of the gap, as last seen
        self.passes = self.visits = self.calls = 0
        self.mean = np.zeros(problem.weight_shape)
        self.mean_count, self.mean_next = 0, 2
        self.dual = 0.0
        self.space: np.ndarray | Signed
        self.synchronise()

    @property
    def W(self) -> np.ndarray:  # noqa: N802 - a matrix, as everywhere
        """The weights as oracles see them."""
        return weights_of(self.space)

    @abstractmethod
    def start(self) -> Any:
        """Points to begin with."""

    @abstractmethod
    def visit(self, visit: tuple[int, int, int], level: float, rise: float) -> float:
        """Visit plan.order[start:stop]; returns `rise` and by how much the dual value rose, in one sum."""

    def advance(self, stop: Callable[[], bool]) -> float:
        """One pass; returns the sum of the shares of the gap as each was last seen."""
        count = self.choose()
        level, stretch = -np.inf, self.options.tuning.stretch
        if self.options.sampling == "rest":
            level = self.options.tuning.visits.calm * self.options.tol * abs(self.dual) / self.problem.n_examples

        def visit(first: int, last: int, rise: float) -> float:
            return self.visit((self.passes, first, last), level, rise)

        for start in range(0, count, stretch):
            if stop():
                break
            rise, end = self.pace.visit(start, min(start + stretch, count), visit, stop)
            self.dual += rise
            self.visits += end - start
        self.passes += 1
        self.add_to_average()
        return float(np.sum(self.shares))

    def choose(self) -> int:
        """Fill plan.order; returns how many visits the pass has."""
        n, sampling = self.problem.n_examples, self.options.sampling
        if sampling == "rest":
            return gather(self.plan, self.passes)
        if sampling == "permutation" or (sampling == "gap" and np.any(self.shares >= UNSEEN)):
            self.plan.order[:] = self.random.permutation(n)
        elif sampling == "uniform":
            self.plan.order[:] = self.random.integers(n, size=n)
        else:
            share = np.maximum(self.shares, 0.0) + np.finfo(float).tiny
            chance = (anyway := self.options.tuning.anyway) / n + (1.0 - anyway) * share / share.sum()
            self.plan.order[:] = self.random.choice(n, size=n, p=chance / chance.sum())
        return n

    def synchronise(self) -> float:
        """Rebuild the weights from the points, exactly; returns the exact dual value."""
        self.dual, v = self.problem.evaluate(self.points)
        self.space = space_of(v, self.problem.bound)
        return self.dual

    def candidates(self) -> list[np.ndarray]:
        """Weights to take the primal value at: those of the points, then the average."""
        found = [self.W.copy()]
        if self.options.average:
            if self.hint is not None:
                found.append(self.problem.feasible(self.hint))
            if self.mean_count > 1:
                found.append(self.mean / self.mean_count)
        self.hint = None
        return found

    def add_to_average(self) -> None:
        """Average the weights after each pass, starting anew at passes 2, 4, 8, ..."""
        if self.passes >= self.mean_next:
            self.mean_next *= 2
            self.mean_count = 0
            self.mean[...] = 0.0
        self.mean += self.W
        self.mean_count += 1

    def wake(self) -> None:
        """Visit every sample in the next pass."""
        np.minimum(self.plan.due, self.passes, out=self.plan.due)

    def left(self) -> Any:
        return self.points

    def snapshot(self):
        return super().snapshot() | met(self.problem.data)

    def resume(self, state):
        meet(self.problem.data, state)
        super().resume(state)

    def translated(self, result: Result) -> Result:
        return result if self.translate is None else self.translate(result)
