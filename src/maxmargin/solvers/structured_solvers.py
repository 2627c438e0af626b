"""Partial linearization and its two ends, Frank-Wolfe and exponentiated gradient, as users name them."""

import sys
from abc import abstractmethod
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator

from ..data.options import truth
from ..jit import kernel
from ..problem import BlockProblem
from ..result import History, Result
from ..structured import StructuredProblem
from ..structures.base import diameter, lacks_marginals
from . import loop, rows_as_structures
from .linearization import OPTIMAL, Batch, Linearization
from .structured_run import SAMPLING, Options
from .working_set import Away, Pairwise, WorkingSets

INTERIOR = 1.0 - 1e-10  # the longest step of partial linearization: no marginal becomes zero
COLDEST = 1e-100  # of samples whose features are all zero: a loss divided by it is still a number
METHODS = {"pairwise": Pairwise(), "away": Away()}


def number_in(value, above: float, most: float) -> bool:
    """Whether value is a number with above < value <= most."""
    return isinstance(value, Real) and not isinstance(value, bool) and above < float(value) <= most


@kernel
def diameters(data, result):
    for i in range(result.size):
        result[i] = diameter(data, i)


class StructuredSolver(BaseEstimator):
    """What the solvers of this file share: the problems they serve and how they are driven."""

    def accepts(self, problem) -> str | None:
        """None, or the reason why this solver cannot serve the problem."""
        name = type(self).__name__
        if isinstance(problem, BlockProblem):
            plain = problem.regularizer.mean is problem.regularizer.variance is problem.regularizer.lower is None
            if not plain or problem.fence is not None:
                return f"{name} serves neither priors nor sign constraints; use solver='dual_coordinate'."
            return None
        if not isinstance(problem, StructuredProblem):
            return f"{name} serves multiclass and structured problems; for this one use solver='dual_coordinate'."
        return lacks_marginals(problem.data) if self.kind_of_points() == "marginals" else None

    def solve(self, problem, budget: loop.Budget, history: History, *, seed=0, duals=None, weights=None, average=True) -> Result:
        """Maximise the dual of `problem` until the budget's relative gap is certified."""
        self._check()
        if (reason := self.accepts(problem)) is not None:
            raise TypeError(reason)
        options = Options(budget.tol, seed, self.sampling, self.average and average, budget.n_jobs)
        if isinstance(problem, BlockProblem):
            structured = rows_as_structures.structured(problem)
            points = None if duals is None else rows_as_structures.points(problem, duals, self.kind_of_points())
            result = loop.solve(self._run(structured, points, options), budget, history)
            return rows_as_structures.with_rows(result, problem)
        run = self._run(problem, duals, options)
        run.hint = weights
        return loop.solve(run, budget, history)

    def _check(self) -> None:
        truth("block", self.block)
        truth("average", self.average)
        if self.sampling not in SAMPLING:
            raise ValueError(f"sampling must be one of {', '.join(SAMPLING)}; got {self.sampling!r}.")
        if self.step != "optimal" and not number_in(self.step, 0.0, 1.0):
            raise ValueError(f"step must be 'optimal' or a number in (0, 1]; got {self.step!r}.")

    def _step(self) -> float:
        return OPTIMAL if self.step == "optimal" else float(self.step)

    def kind_of_points(self) -> str:
        """What a run of this solver ends with and can start from: "marginals", "mixtures" or "sets"."""
        return "marginals"

    @abstractmethod
    def _run(self, problem: StructuredProblem, points, options: Options):
        """A run on this problem from these points; None: from the solver's own start."""


class PartialLinearization(StructuredSolver):
    """Steps towards Gibbs distributions around the current point (Mohapatra et al. 2016).

    Serves multiclass problems and structures with marginals.

    Parameters
    ----------
    temperature : float, default=0.01
        Weight of the entropy. Towards 0 the directions become those of Frank-Wolfe; larger ones are more cautious.
    block : bool, default=True
        One sample after another; False takes one common step for all samples, with oracle calls on `n_jobs` threads.
    step : "optimal" or float in (0, 1], default="optimal"
        The best step on the line, or a fixed one; 1 is exponentiated gradient.
    cooling : float in (0, 1], default=1.0
        Factor on the temperature after each pass, down to a thousandth of where it began. 1 keeps it.
    sampling : {"rest", "permutation", "uniform", "gap"}, default="rest"
        Which samples a block pass visits: those whose share of the gap was small rest for 1, 2, 4, ... passes; all in random
        order; n drawn with replacement; n drawn in proportion to their share of the gap.
    average : bool, default=True
        Offer an average of the weights for the certificate.
    """

    def __init__(self, temperature=0.01, block=True, step="optimal", *, cooling=1.0, sampling="rest", average=True):
        self.temperature = temperature
        self.block = block
        self.step = step
        self.cooling = cooling
        self.sampling = sampling
        self.average = average

    def _check(self):
        super()._check()
        if not number_in(self.temperature, 0.0, sys.float_info.max):
            raise ValueError(f"temperature must be a finite number > 0 (FrankWolfe is the limit at 0); got {self.temperature!r}.")
        if not number_in(self.cooling, 0.0, 1.0):
            raise ValueError(f"cooling must be a number in (0, 1]; got {self.cooling!r}.")

    def _run(self, problem, points, options):
        kind = Linearization if self.block else Batch
        temperature = np.full(problem.n_examples, float(self.temperature))
        longest = 1.0 if self.step == 1 else INTERIOR
        setting = {"step": self._step(), "longest": longest, "cooling": float(self.cooling)}
        return kind(problem, points, options, temperature=temperature, smooth=True, **setting)


class FrankWolfe(StructuredSolver):
    """Steps towards the answers of the max-oracle, sample by sample (Lacoste-Julien et al. 2013) or all at once.

    Serves multiclass and structured problems; needs no marginals.

    Parameters
    ----------
    block : bool, default=True
        One sample after another; False takes one common step for all samples, with oracle calls on `n_jobs` threads.
    steps : {"pairwise", "away", "plain"}, default="pairwise"
        Move mass from the least deserving output met so far to the oracle's answer; step towards the answer or away from the
        least deserving one; or only towards the answer, which keeps no outputs but needs several times the calls. A batch
        takes plain steps.
    step : "optimal" or float in (0, 1], default="optimal"
        The best step on the line, or a fixed one (plain steps only).
    cache : float in [0, 1], default=0.5
        An output met before is used instead of a call of the oracle if it promises this part of what the last call did; 0
        always calls. Not for plain steps.
    sampling : {"rest", "permutation", "uniform", "gap"}, default="gap"
        See PartialLinearization.
    average : bool, default=True
        Offer an average of the weights for the certificate.
    """

    def __init__(self, block=True, steps="pairwise", step="optimal", *, cache=0.5, sampling="gap", average=True):
        self.block = block
        self.steps = steps
        self.step = step
        self.cache = cache
        self.sampling = sampling
        self.average = average

    def _check(self):
        super()._check()
        if self.steps not in ("plain", *METHODS):
            raise ValueError(f"steps must be 'pairwise', 'away' or 'plain'; got {self.steps!r}.")
        if self.cache != 0 and not number_in(self.cache, 0.0, 1.0):
            raise ValueError(f"cache must be a number in [0, 1]; got {self.cache!r}.")
        if self.step != "optimal" and self.block and self.steps != "plain":
            raise ValueError("A fixed step goes with steps='plain'; pairwise and away steps are always the best on their line.")

    def kind_of_points(self):
        return "sets" if self.block and self.steps != "plain" else "mixtures"

    def _run(self, problem, points, options):
        if self.block and self.steps != "plain":
            return WorkingSets(problem, points, options, METHODS[self.steps], trust=float(self.cache))
        kind = Linearization if self.block else Batch
        none = np.zeros(problem.n_examples)
        setting = {"step": self._step(), "longest": 1.0, "cooling": 1.0}
        return kind(problem, points, options, temperature=none, smooth=False, **setting)


class ExponentiatedGradient(StructuredSolver):
    """Partial linearization with step 1 (Collins et al. 2008).

    Serves multiclass problems and structures with marginals.

    Parameters
    ----------
    temperature : "auto" or float, default="auto"
        "auto" takes C s_i D_i / 8 for sample i, with D_i a bound on the squared distance between joint features of its outputs:
        large enough for every block step to raise the dual. Smaller ones are often faster and may fail to converge.
    block : bool, default=True
        One sample after another, or one common step for all samples (then "auto" is n times as large).
    sampling, average
        See PartialLinearization.
    """

    step = 1.0

    def __init__(self, temperature="auto", block=True, *, sampling="permutation", average=True):
        self.temperature = temperature
        self.block = block
        self.sampling = sampling
        self.average = average

    def _check(self):
        super()._check()
        if self.temperature != "auto" and not number_in(self.temperature, 0.0, sys.float_info.max):
            raise ValueError(f"temperature must be 'auto' or a finite number > 0; got {self.temperature!r}.")

    def _run(self, problem, points, options):
        if self.temperature == "auto":
            temperature = np.empty(problem.n_examples)
            diameters(problem.data, temperature)
            temperature *= problem.cap / 8.0
            temperature = np.maximum(temperature, COLDEST)
            if not self.block:  # all samples move at once
                temperature *= problem.n_examples
        else:
            temperature = np.full(problem.n_examples, float(self.temperature))
        kind = Linearization if self.block else Batch
        return kind(problem, points, options, temperature=temperature, step=1.0, longest=1.0, cooling=1.0, smooth=True)
