"""Newton's method on the primal, for losses of one score that are differentiable.

    gradient  Sigma^-1 (w - mean) - X' b,      b_i = slope_i(z_i),  z = X w
    Hessian   Sigma^-1 + X' diag(h) X,         h_i the second derivative of loss i at z_i

Slopes of differentiable losses are feasible duals, and each example's share of the gap is zero at them: P(w) - D(b) is half
the square of the gradient's length in the metric of the prior, a certificate from one gradient. The number of steps does not
depend on how the columns are scaled, unlike that of coordinate methods; a step costs n d^2 + d^3 / 3. Steps are halved until P
falls by at least a tenth of what its slope promises, so that squared losses, whose second derivative jumps, converge from
everywhere.
"""

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..jit import kernel
from ..losses.base import bend, slope, value
from ..problems.base import Problem
from ..problems.linear import ScalarProblem
from ..utils.parameters import at_least
from .base import Run, Setting, Solver, Start

ENOUGH = 0.1  # part of the promised decrease that a step must reach
RIDGES = (0.0, 1e-14, 1e-12, 1e-10, 1e-8)  # added to a unit diagonal where rounding has made the matrix indefinite
SHORTEST = 2.0**-40  # part of a step below which there is no progress


class Newton(Solver):
    """Newton's method on the primal, certified: few steps, however the columns of X are scaled.

    Serves differentiable losses of one score ("squared_hinge" and "log_loss" of two classes, "squared_error",
    "squared_epsilon_insensitive") with Gaussian priors, on dense and CSR data with a moderate number of features: each step forms
    and factors a matrix of features x features.

    Parameters
    ----------
    max_features : int, default=3000
        With more features than this a problem is refused: the matrix would take more than 8 max_features^2 bytes.
    """

    _parameter_constraints = {"max_features": [at_least(1)]}

    def __init__(self, max_features: int = 3000):
        self.max_features = max_features

    def serves(self, problem):
        return refusal(problem, self)

    def begin(self, problem, start, setting):
        return NewtonRun(problem, start, setting)


@singledispatch
def refusal(problem: Problem, solver: Newton) -> str | None:
    """None, or why Newton's method does not serve the problem."""
    return (
        f"Newton serves differentiable losses of one score in memory, which a {type(problem).__name__} has not; "
        "use solver='dual_coordinate' ('online' for a source)."
    )


@refusal.register
def _(problem: ScalarProblem, solver: Newton) -> str | None:
    if not problem.loss.smooth:
        return f"Newton needs a differentiable loss, which {type(problem.loss).__name__} is not; use solver='dual_coordinate'."
    if problem.regularizer.lower is not None or problem.half_spaces is not None:
        return "Newton does not serve sign constraints; use solver='dual_coordinate'."
    if problem.table.shape[1] > solver.max_features:
        return (
            f"Newton factors a matrix of features x features, and there are {problem.table.shape[1]}: more than "
            f"max_features={solver.max_features}. Use solver='dual_coordinate'."
        )
    return None


@kernel
def derivatives(loss, scores, duals, bends):
    """The slopes and second derivatives at these scores."""
    for i in range(scores.size):
        duals[i] = slope(loss, i, scores[i])
        bends[i] = bend(loss, i, scores[i])


@kernel
def total_loss(loss, scores):
    total = 0.0
    for i in range(scores.size):
        total += value(loss, i, scores[i])
    return total


class NewtonRun(Run):
    """One point, its scores, and the duals that its slopes are."""

    held = (*Run.held, "w", "scores", "duals")
    problem: ScalarProblem
    exact = True

    def __init__(self, problem: ScalarProblem, start: Start, setting: Setting):
        self.problem, self.average = problem, setting.average
        self.passes = self.visits = 0
        self.warm = start.duals is not None or start.weights is not None
        begin = start.weights
        if begin is None and start.duals is not None:
            begin = problem.evaluate(start.duals)[1]
        self.w: np.ndarray = problem.regularizer.start(problem.weight_shape) if begin is None else np.array(begin, np.float64)
        self.scores = self.scored(self.w)
        self.duals, self.bends = np.empty(problem.n_examples), np.empty(problem.n_examples)
        self.dual = -np.inf
        self.v = self.w

    def scored(self, w: np.ndarray) -> np.ndarray:
        return np.concatenate([block.scores(w[None]).ravel() for block in self.problem.table.blocks()])

    def advance(self, stop: Callable[[], bool]) -> float:
        """One step; returns the gap at its end, as the slopes there give it."""
        problem, prior = self.problem, self.problem.regularizer
        derivatives(problem.exact_loss, self.scores, self.duals, self.bends)
        gradient = self.precise(self.w if prior.mean is None else self.w - prior.mean) - self.combined()
        ahead = self.direction(gradient)
        along = self.scored(ahead)
        before, fall = self.objective(0.0, ahead, along), float(gradient @ ahead)
        step = 1.0
        while not self.objective(step, ahead, along) <= before + ENOUGH * step * fall and step > SHORTEST and not stop():
            step *= 0.5
        if step > SHORTEST:
            self.w, self.scores = self.w + step * ahead, self.scores + step * along
        self.passes += 1
        self.visits += problem.n_examples
        return 0.0  # exact values follow

    def precise(self, w: np.ndarray) -> np.ndarray:
        variance = self.problem.regularizer.variance
        return w if variance is None else w / variance

    def combined(self) -> np.ndarray:
        """X' b."""
        blocks = self.problem.table.blocks()
        return np.sum([block.combined(self.duals[block.start : block.stop, None])[0] for block in blocks], axis=0)

    def direction(self, gradient: np.ndarray) -> np.ndarray:
        """Where the quadratic model has its minimum. Columns are brought to unit length first: they may differ by any factor."""
        H = np.zeros((gradient.size, gradient.size))
        for block in self.problem.table.blocks():
            H += block.weighted_products(self.bends[block.start : block.stop])
        H[np.diag_indices_from(H)] += self.precise(np.ones(gradient.size))
        scale = 1.0 / np.sqrt(H.diagonal())
        H *= scale
        H *= scale[:, None]
        for ridge in RIDGES:
            try:
                H[np.diag_indices_from(H)] = 1.0 + ridge
                return -scale * cho_solve(cho_factor(H, lower=True), scale * gradient)
            except LinAlgError:
                continue
        return -scale * scale * gradient

    def objective(self, step: float, ahead: np.ndarray, along: np.ndarray) -> float:
        """P after this part of a step."""
        with np.errstate(over="ignore"):
            risk = total_loss(self.problem.exact_loss, self.scores + step * along)
        return self.problem.regularizer.penalty(self.w + step * ahead) + float(risk)

    def synchronise(self) -> float:
        """The exact dual value of the slopes."""
        derivatives(self.problem.exact_loss, self.scores, self.duals, self.bends)
        self.duals = self.problem.clipped(self.duals)
        self.dual, self.v = self.problem.evaluate(self.duals)
        return self.dual

    def candidates(self) -> list[np.ndarray]:
        found = [self.v, self.w] if self.average else [self.v]
        if self.average and self.hint is not None:
            found.append(self.hint)
        self.hint = None
        return found

    def left(self) -> Any:
        return self.duals


def work(problem):
    n, d = problem.table.shape
    return n * d * d / 2 + d**3 / 3


def one_step(problem):
    return problem.loss.parabolic
