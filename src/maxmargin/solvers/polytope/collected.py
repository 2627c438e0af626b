"""The problem of all outputs that samples have collected, solved at once: see `finishing`."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr

from ...data.table import table_of
from ...problems.collected import CollectedProblem
from ...problems.structured import StructuredProblem
from ...regularizers.gaussian import Gaussian
from ...result import TINY
from ..base import NOWHERE, Setting
from ..second_order.interior_groups import GroupInterior
from .tuning import TogetherTuning


class CollectedOutputs(NamedTuple):
    """The problem, and the weights (coordinates, all weights) that its coordinates stand for; None: all of them, in their order.
    They are counted from `mean` on."""

    posed: CollectedProblem
    basis: np.ndarray | None
    mean: np.ndarray

    def weights(self, u: np.ndarray) -> np.ndarray:
        """Those of all."""
        found: np.ndarray = self.mean + (u if self.basis is None else u @ self.basis)
        return found


class SolvedOutputs(NamedTuple):
    """The masses of all outputs, which sum to one for each sample, and weights as good."""

    mass: np.ndarray
    weights: np.ndarray


def collected(problem: StructuredProblem, rows: np.ndarray, loss: np.ndarray, owner: np.ndarray) -> CollectedOutputs:
    """The problem of these outputs, sorted by sample: with their differences of joint features, losses and samples. Weights are
    counted from those of frozen samples on; in as many coordinates as there are outputs, where these are fewer and weights have
    no signs."""
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    mean = np.zeros(rows.shape[1])
    if problem.frozen is not None and problem.frozen.mean is not None:
        mean = problem.frozen.mean.reshape(-1)
    margin, lower, basis = loss - rows @ mean, None, None
    if problem.bound.size:
        lower = np.full(mean.size + 1, -np.inf)
        lower[problem.bound] = -mean[problem.bound]
    elif len(rows) < rows.shape[1]:
        Q, R = qr(rows.T, mode="economic", check_finite=False)
        rows, basis = np.ascontiguousarray(R.T), Q.T
    elif not np.all(used := np.any(rows, axis=0)):  # labels that nobody has, and places that fill up vectors
        rows, basis = np.ascontiguousarray(rows[:, used]), np.eye(mean.size)[used]
    posed = CollectedProblem(table_of(rows), margin, first, problem.cap[owner[first]], Gaussian(lower=lower))
    return CollectedOutputs(posed, basis, mean)


def solved_together(found: CollectedOutputs, setting: Setting, tuning: TogetherTuning, stop: Callable[[], bool]) -> SolvedOutputs:
    """The optimum. What is small beside its multiplier is zero there but for the interior point, and is left out where the dual
    value allows it."""
    posed, tol = found.posed, setting.tol
    run = GroupInterior(posed, NOWHERE, setting)
    for _ in range(tuning.most):
        estimate = run.advance(stop)
        if run.exact:
            run.synchronise()
        if run.stuck or stop() or (estimate if run.average else run.nearest) <= tol * abs(run.lowest):
            break
    p, s = run.inside[0][:, 0], run.against[0][:, 0] / max(float(np.mean(np.abs(posed.margin))), TINY)
    budget = posed.spread(posed.cap)
    whole = posed.clipped(p)
    least, mass = posed.evaluate(whole).dual - tol * abs(run.lowest), whole
    for dust in tuning.dust:
        fewer = posed.clipped(np.where((p < dust * budget) & (p < s * budget), 0.0, p))
        if posed.evaluate(fewer).dual >= least:
            mass = fewer
            break
    return SolvedOutputs(mass / budget, found.weights(posed.feasible(run.W[0])[:-1]))
