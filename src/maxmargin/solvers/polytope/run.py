"""What runs on structured problems share: the order of visits, averages of the weights, the exact dual value."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...jit import vectors
from ...problems.base import Evaluated
from ...problems.structured import StructuredProblem
from ...result import Result
from ...structures.encoded.contract import copied, meet, met, new_scratch, numbers_of, visit_work
from ...utils.blas import blas_threads
from ...utils.threads import TEAMS, spans
from ..ascent.schedule import Schedule, gather, schedule
from ..base import Run
from ..pace import Pace
from .resting import ZEROS, Resting, at_rest, roused, share_at_rest, with_added
from .rounds import (
    Found,
    Seat,
    Together,
    change_of,
    drawn_back,
    expected_losses,
    gone_together,
    in_layers,
    kept_points,
    shape_of_rounds,
    taken_space,
)
from .signed import Signed, space_of, unclipped_copy, weights_of
from .tuning import POLYTOPE, PolytopeTuning

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


class Aim(NamedTuple):
    """What visits are about: the order of samples, their shares of the gap as last seen, the share that is not worth a step, and
    which part of a share outputs met before must promise to be used in the place of the oracle's."""

    plan: Schedule
    shares: np.ndarray
    level: float
    trust: float = 0.0


class StructuredRun(Run, ABC):
    """A run on a structured problem: its points, its weights and the order of visits."""

    held = (*Run.held, "calls", "points", "space", "plan", "random", "shares", "mean", "mean_count", "mean_next", "spread")
    problem: StructuredProblem
    calls: int
    trust: float = 0.0  # see `Aim`
    translate: Callable[[Result], Result] | None = None  # where the problem that was asked for has another shape

    def __init__(self, problem: StructuredProblem, points: Any, options: StructuredOptions):
        self.problem, self.options, self.average, self.n_jobs = problem, options, options.average, options.n_jobs
        self.spread = 1.0  # of steps that are taken side by side: see `rounds`
        self.warm = points is not None
        self.points = self.start() if points is None else copied(points)
        self.plan = schedule(problem.n_examples, options.seed, tuning=options.tuning.visits)
        self.random = np.random.default_rng(options.seed)
        self.scratch, self.pace = new_scratch(problem.data), Pace(tuning=options.tuning.pace)
        self.shares = np.full(problem.n_examples, UNSEEN)  # of the gap, as last seen
        self.passes = self.visits = self.calls = 0
        self.mean = ZEROS
        self.mean_count, self.mean_next = 0, 2
        self.dual = 0.0
        self.space: np.ndarray | Signed
        self.shown = ZEROS  # the weights of the points when candidates were asked for
        self.synchronise()

    @property
    def W(self) -> np.ndarray:  # noqa: N802 - a matrix, as everywhere
        """The weights as oracles see them."""
        return weights_of(self.space)

    @abstractmethod
    def start(self) -> Any:
        """Points to begin with."""

    @abstractmethod
    def visit(self, seat: Seat, aim: Aim, span: tuple[int, int], rise: float) -> tuple[float, int]:
        """Visit aim.plan.order[start:stop]; returns `rise` and by how much the dual value rose, in one sum, and how often the
        oracle was asked."""

    def advance(self, stop: Callable[[], bool]) -> float:
        """One pass; returns the sum of the shares of the gap as each was last seen."""
        count = self.choose()
        level = -np.inf
        if self.options.sampling == "rest":
            level = self.options.tuning.visits.calm * self.options.tol * abs(self.dual) / self.problem.n_examples
        self.visits += self.walk(Aim(self.plan, self.shares, level, self.trust), count, self.pace, stop)[1]
        self.passes += 1
        self.add_to_average()
        return float(np.sum(self.shares))

    def walk(self, aim: Aim, count: int, pace: Pace, stop: Callable[[], bool]) -> tuple[float, int]:
        """Visit the first `count` samples of the order; returns the rise of the dual value, and how many there was time for."""
        parts, each = self.rounds(count)
        if parts == 1:
            return self.walk_alone(aim, (0, count), pace, stop)
        repeated = self.options.sampling in ("uniform", "gap")
        layers = in_layers(aim.plan.order[:count]) if repeated else [(0, count)]
        alone = next((first for first, last in layers if last - first < parts), count)
        rise, end = self.walk_together(aim, [layer for layer in layers if layer[0] < alone], (parts, each), stop)
        more, end = self.walk_alone(aim, (end, count), pace, stop) if end == alone else (0.0, end)
        return rise + more, end

    def walk_alone(self, aim: Aim, span: tuple[int, int], pace: Pace, stop: Callable[[], bool]) -> tuple[float, int]:
        """The same for order[start:stop], by this thread; returns the rise, and where it was stopped."""
        total, (end, count) = 0.0, span
        seat = Seat(self.space, self.workspace(), self.problem.cap)

        def visit(first: int, last: int, rise: float) -> float:
            rise, calls = self.visit(seat, aim, (first, last), rise)
            self.calls += calls
            return rise

        for start in range(end, count, self.options.tuning.stretch):
            if stop():
                break
            rise, end = pace.visit(start, min(start + self.options.tuning.stretch, count), visit, stop)
            self.dual += rise
            total += rise
        return total, end

    def walk_together(
        self, aim: Aim, layers: list[tuple[int, int]], shape: tuple[int, int], stop: Callable[[], bool]
    ) -> tuple[float, int]:
        """The same in rounds of so many parts of so many samples, a thread for each part. A layer has no sample twice."""
        (parts, each), end, total = shape, 0, 0.0
        workspaces = [self.workspace(), *(self.new_workspace() for _ in range(parts - 1))]
        changes = vectors.aligned((parts, *self.problem.weight_shape), np.float64)
        with TEAMS.at_work(parts) as team, blas_threads(1):
            for _, last in layers:
                while end < last and not stop():
                    start, end = end, min(end + parts * each, last)
                    total += self.round(aim, (start, end), workspaces, changes, team.work)
        return total, end

    def round(self, aim: Aim, span: tuple[int, int], workspaces: list, changes: np.ndarray, together: Together) -> float:
        """Visit order[start:stop], each part from the same weights, and go as far as is best; returns the rise of the dual."""
        problem, spread = self.problem, self.spread
        start, order = unclipped_copy(self.space), aim.plan.order[span[0] : span[1]]
        parts = spans(order.size, len(workspaces))
        wider = aim._replace(level=aim.level * spread)
        cap = problem.cap if spread == 1.0 else problem.cap * spread

        def work(p: int) -> Found:
            (first, last), seat = parts[p], Seat(taken_space(self.space, changes[p]), workspaces[p], cap)
            samples = order[first:last]
            before, losses = kept_points(self.points, problem.data, samples), self.losses(samples)
            aim.shares[samples] *= spread
            rise, calls = self.visit(seat, wider, (span[0] + first, span[0] + last), 0.0)
            aim.shares[samples] /= spread
            change = change_of(seat.space, start, spread)
            ascent = rise / spread + 0.5 * spread * float(
                change @ change
            )  # the rise is along spread * change, less its curvature
            if problem.bound.size:  # which is smaller where weights are held at zero: expected losses have to say it
                ascent = self.losses(samples) - losses - float(self.W.reshape(-1) @ change)
            return Found(ascent, before, calls)

        found = together(work, range(len(parts)))
        joint = gone_together(found, changes[: len(found)].reshape(len(found), -1), spread)
        if back := [(one, far) for one, far in zip(found, joint.far.tolist(), strict=True) if far < 1.0]:
            together(drawn_back, back)
        start += joint.change.reshape(start.shape)
        self.space, self.spread = space_of(start, problem.bound), joint.spread
        self.dual += joint.rise
        self.calls += sum(one.calls for one in found)
        return joint.rise

    def losses(self, samples: np.ndarray) -> float:
        """The expected losses of these samples, where weights must not be negative; else zero, as nobody asks."""
        if not self.problem.bound.size:
            return 0.0
        return float(expected_losses(self.points, self.problem.data, self.problem.cap, samples))

    def rounds(self, count: int) -> tuple[int, int]:
        """Parts of a round of a pass over so many samples, and samples of a part; one part where nobody helps."""
        n_jobs = self.problem.visitors(self.n_jobs)
        if n_jobs < 2 or numbers_of(self.points, self.problem.data, np.zeros(0, np.int64)) is None:
            return 1, count
        return shape_of_rounds(count, n_jobs, self.work, self.W.size, self.options.tuning.rounds)

    @cached_property
    def work(self) -> float:
        return visit_work(self.problem.data)

    def workspace(self) -> Any:
        """The memory that visits of this thread take."""
        return self.scratch

    def new_workspace(self) -> Any:
        """The same for another thread."""
        return new_scratch(self.problem.data)

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
        self.__dict__.pop("space", None)  # its memory is needed
        self.dual, v = self.problem.evaluate(self.points, self.n_jobs)
        self.space = space_of(v, self.problem.bound)
        return self.dual

    def candidates(self) -> list[Resting]:
        """Weights to take the primal value at: those of the points, then the average. All of them rest."""
        self.shown = at_rest(self.W)
        found = [self.shown]
        if self.options.average:
            if self.hint is not None:
                found.append(at_rest(self.problem.feasible(self.hint)))
            if self.mean_count > 1:
                found.append(share_at_rest(self.mean, self.mean_count))
        self.hint = None
        return found

    def primal(self, w: Resting, n_jobs: int) -> float:
        """The weights of the points make room for others, and come back: arrays of weights are the largest things that a run
        has."""
        if w is self.shown:
            return self.problem.primal(self.W, n_jobs)
        try:
            return self.problem.primal(roused(w, self.W), n_jobs)
        finally:
            roused(self.shown, self.W)

    def final(self, candidate: Resting) -> np.ndarray:
        return roused(candidate, self.W)

    def at_duals(self) -> Evaluated:
        return Evaluated(self.dual, unclipped_copy(self.space))

    def add_to_average(self) -> None:
        """Average the weights after each pass, starting anew at passes 2, 4, 8, ..."""
        if self.passes >= self.mean_next:
            self.mean_next *= 2
            self.mean, self.mean_count = ZEROS, 0
        self.mean = with_added(self.mean, self.W)
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
