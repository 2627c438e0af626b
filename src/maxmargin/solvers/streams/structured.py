"""Algorithm 2 of Ramanan (2013) on structured problems: explore with the max-oracle, optimise over the outputs met so far.

A pass goes through the samples in random order. The oracle is asked for the worst offender of each of a few fresh samples, which
joins the sample's set; then samples met before are visited without the oracle, their masses moved within their sets, while that
raises the dual value as much as the target asks for. Outputs without mass give way to new ones.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import numpy as np

from ...problems.base import Evaluated
from ...problems.structured import SampleStream, StructuredProblem
from ...structures.encoded.contract import meet
from ...structures.encoded.python import Custom, outputs_met
from ...utils.state import RunState, beneath, put_together, taken_apart
from ..pace import Pace
from ..polytope.run import Aim, StructuredOptions
from ..polytope.sets import CROWDED, at_truth, grown
from ..polytope.signed import space_of, unclipped_copy, weights_of
from ..polytope.steps import Corrective
from ..polytope.working_set import WorkingSets
from .late import LateRun
from .tuning import STREAM, StreamTuning


class OnlineSets(WorkingSets):
    """A run on samples in memory. `whole`: how many samples the full problem has, where these are a block of it."""

    stands_by = False

    def __init__(
        self,
        problem: StructuredProblem,
        points,
        options: StructuredOptions,
        effort: float,
        whole: int | None = None,
        tuning: StreamTuning = STREAM,
    ):
        self.effort, self.whole, self.tuning, self.quick = effort, whole or problem.n_examples, tuning, Pace(tuning=tuning.pace)
        self.unasked = np.full(problem.n_examples, -np.inf)  # shares that no set falls short of: the oracle is left alone
        super().__init__(problem, points, options, Corrective(options.tuning.part, options.tuning.steps))

    def advance(self, stop):
        order = self.random.permutation(self.problem.n_examples)
        for start in range(0, order.size, self.tuning.fresh):
            if stop():
                break
            fresh = order[start : start + self.tuning.fresh]
            self.visits += self.go(fresh, self.shares, 0.0, stop)[1]
            self.optimise(order[: start + fresh.size], fresh.size, stop)
        self.passes += 1
        self.add_to_average()
        return float(np.sum(self.shares))

    def optimise(self, seen: np.ndarray, fresh: int, stop: Callable[[], bool]) -> None:
        """Visit samples met before, without the oracle: at most `effort` visits for each fresh one."""
        left = self.effort * fresh
        while left > 0 and not stop():
            some = self.random.permutation(seen)[: max(fresh, seen.size // self.tuning.again)]
            rise, _ = self.go(some, self.unasked, 1.0, stop)
            left -= some.size
            if rise <= self.tuning.rise * self.options.tol * abs(self.dual) * some.size / self.whole:
                return

    def go(self, samples: np.ndarray, shares: np.ndarray, trust: float, stop: Callable[[], bool]) -> tuple[float, int]:
        """Visit these samples; returns by how much the dual value rose, and how many visits there was time for."""
        level = self.options.tuning.visits.calm * self.options.tol * abs(self.dual) / self.whole
        aim = Aim(self.plan._replace(order=samples), shares, level, trust)
        pace = self.pace if trust == 0.0 else self.quick  # with the oracle or without
        rise, count = self.walk(aim, samples.size, pace, stop)
        if self.points.sample[:, CROWDED].any():
            self.points = grown(self.points, self.sizes)
            self.make_scratch()
        return rise, count


class Proof:
    """The exact values of a state, summed along a pass: the primal values of fixed weights and the dual value."""

    def __init__(self, problem: SampleStream, weights: list[np.ndarray], n_jobs: int):
        self.problem, self.weights, self.n_jobs = problem, weights, n_jobs
        self.risks = np.zeros(len(weights))
        self.v, self.reward = np.zeros_like(weights[0]), 0.0

    def add(self, part: OnlineSets) -> None:
        """A block with its sets as they were read."""
        self.risks += [part.problem.primal(w, self.n_jobs) - 0.5 * float(np.vdot(w, w)) for w in self.weights]
        self.v += unclipped_copy(part.space)
        self.reward += part.dual + 0.5 * float(np.vdot(part.W, part.W))

    @property
    def dual(self) -> float:
        w = weights_of(space_of(self.v.copy(), self.problem.bound))  # which clips in place
        return self.reward - 0.5 * float(np.vdot(w, w))

    @property
    def primals(self) -> list[float]:
        return [float(risk) + 0.5 * float(np.vdot(w, w)) for risk, w in zip(self.risks, self.weights, strict=True)]


class SampleRun(LateRun):
    """A run on a source of samples: weights and the outputs that matter in memory, one block of samples at a time."""

    held = (*LateRun.held, "seed", "calls", "space", "mean", "mean_count", "reward")
    problem: SampleStream
    calls: int

    def __init__(
        self, problem: SampleStream, options: StructuredOptions, effort: float, verify: bool, tuning: StreamTuning = STREAM
    ):
        super().__init__(problem, options, verify)
        self.effort, self.tuning, self.seed = effort, tuning, options.seed
        self.sets: dict[int, tuple] = {}  # of each block, by its first row
        self.earlier: dict[int, RunState] = {}  # the same as named arrays, where another run has left them
        self.space, self.mean = space_of(np.zeros(problem.weight_shape), problem.bound), np.zeros(problem.weight_shape)
        self.mean_count = self.calls = 0
        self.reward = self.dual = 0.0

    def offers(self):
        found = [weights_of(self.space).copy()]
        if self.options.average and self.mean_count > 1:
            found.append(self.mean / self.mean_count)
        return found

    def at_duals(self):
        if self.proof is None:  # as they stand
            return Evaluated(self.dual, unclipped_copy(self.space))
        return Evaluated(self.proof.dual, self.proof.v)

    def read(self, stop, *, train, verify):
        self.proof, begun = None, Proof(self.problem, self.offers(), self.options.n_jobs) if verify else None
        v, dual = unclipped_copy(self.space).copy(), self.dual
        self.mean[...], self.mean_count = 0.0, 0
        self.reads += 1
        with closing(self.problem.parts()) as parts:
            for first, part in parts:
                if stop():
                    return
                block = self.taken_up(first, part)
                if begun is not None:
                    begun.add(block)
                if train:
                    self.learn(first, block, stop)
        if begun is not None:
            self.space = space_of(
                unclipped_copy(self.space) + (begun.v - v), self.problem.bound
            )  # without what rounding had added
            self.dual += begun.dual - dual
            self.proof = begun

    def taken_up(self, first: int, part: StructuredProblem) -> OnlineSets:
        """A block with its sets as they were left."""
        points, met = self.sets.get(first, (None, None))
        if met is not None:
            part.data.known, part.data.next = met
        own = replace(self.options, seed=self.seed + self.reads, sampling="rest", average=True)
        if (state := self.earlier.pop(first, None)) is not None:
            meet(part.data, state)
            points = put_together(at_truth(part.data, self.options.tuning.outputs), "points", state)
        return OnlineSets(part, points, own, self.effort, self.problem.n_examples, self.tuning)

    def snapshot(self):
        found = super().snapshot()
        left = {
            first: taken_apart(points, "points") | ({} if met is None else outputs_met(*met))
            for first, (points, met) in self.sets.items()
        }
        for first, state in (left | self.earlier).items():
            found |= {f"sets.{first}.{name}": value for name, value in state.items()}
        return found

    def resume(self, state):
        super().resume(state)
        self.sets, self.earlier = {}, {}
        for name, value in beneath(state, "sets").items():
            first, own = name.split(".", 1)
            self.earlier.setdefault(int(first), {})[own] = value

    def learn(self, first: int, block: OnlineSets, stop) -> None:
        block.space, block.dual = self.space, self.dual
        block.advance(stop)
        self.space, self.dual = block.space, block.dual
        self.calls += block.calls
        self.visits += block.visits
        met = (block.problem.data.known, block.problem.data.next) if isinstance(block.problem.data, Custom) else None
        self.sets[first] = block.points, met
        self.mean += weights_of(self.space)
        self.mean_count += 1
