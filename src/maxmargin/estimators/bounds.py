"""What a gap proves about the optimum's scores on samples it has not seen.

    ||w* - (w + w(b))/2||^2 <= gap - 1/4 ||w - w(b)||^2 = radius^2        for every feasible w and b, in the metric of the prior

The objective is strongly convex, and so is the dual in its weights w(b). A score moves by at most ||x|| radius, the difference
of two classes' scores by sqrt(2) times that, the score of a coupled label by sqrt(R_ll) times that. A sample whose margin at the
centre is larger is predicted by the optimum as by the centre. Shibagaki et al. (2015) bound validation errors in this way.
"""

from collections.abc import Callable
from functools import cached_property, singledispatch
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from ..problems.base import Problem
from ..problems.linear import LinearProblem
from ..problems.multilabel import LabelGroup, MultilabelProblem
from ..solvers.base import WarmStart
from .base import Step
from .label_thresholds import is_tuned

VALUES = 1e-12  # part of the primal and dual values that their rounding may be
NO_BOUNDS = np.nan, np.nan


class Ball(NamedTuple):
    """Where the optimum is: around `centre`, weights in the layout of the problem, within `radius`."""

    centre: Any
    radius: float


def midpoint(problem: LinearProblem, w: np.ndarray, duals: np.ndarray) -> tuple[np.ndarray, float]:
    """Half the way from w to the weights of the duals, and 1/4 of their squared distance."""
    term = problem.regularizer
    other = term.weights(problem.reevaluated(duals).v)
    centre = 0.5 * (w + other)
    return centre, term.penalty(w) + term.penalty(other) - 2.0 * term.penalty(centre)


@singledispatch
def ball(problem: Problem, left: WarmStart, gap: float) -> Ball | None:
    """Where the optimum of a problem is, of which a run has left this. None where there are no weights of features."""
    return None


@ball.register
def _(problem: LinearProblem, left: WarmStart, gap: float) -> Ball:
    if left.planes or left.duals is None or problem.half_spaces is not None:  # then w alone: 1/2 ||w - w*||^2 <= gap
        return Ball(left.weights, float(np.sqrt(2.0 * gap)))
    centre, apart = midpoint(problem, left.weights, left.duals)
    return Ball(centre, float(np.sqrt(max(gap - apart, 0.0))))


@ball.register
def _(problem: MultilabelProblem, left: WarmStart, gap: float) -> Ball:
    if not isinstance(left.weights, list) or any(part is None for part in left.weights) or not sp.issparse(left.duals):
        return Ball(left.weights, float(np.sqrt(2.0 * gap)))
    parts = [
        midpoint(problem.group(columns), part, left.duals[:, columns].toarray())
        for columns, part in zip(problem.groups, left.weights, strict=True)
    ]
    return Ball([centre for centre, _ in parts], float(np.sqrt(max(gap - sum(apart for _, apart in parts), 0.0))))


@singledispatch
def squared_lengths_in(problem: Problem, X: Any) -> np.ndarray:
    """||x||^2 of other samples, in the metric of the prior and with the constant feature; of several priors the largest."""
    raise TypeError(f"There are no weights of features in a {type(problem).__name__}.")


@squared_lengths_in.register
def _(problem: LinearProblem, X: Any) -> np.ndarray:
    count = X.shape[0]  # targets do not matter here: those of the first example do for all
    return problem.taken(problem.table.like(X), np.zeros(count, np.intp), np.ones(count)).curvature


@squared_lengths_in.register
def _(problem: MultilabelProblem, X: Any) -> np.ndarray:
    return problem.table.like(X).norms()


@singledispatch
def coupling(problem: Problem) -> np.ndarray | float:
    """By how much the scores of each label may move, as a part of ||x|| radius."""
    return 1.0


@coupling.register
def _(problem: LabelGroup | MultilabelProblem) -> np.ndarray | float:
    return 1.0 if problem.R is None else np.sqrt(np.diag(problem.R))


class HeldOut:
    """Samples that a fold has left out, as they were read; `weight` counts in scores."""

    def __init__(self, X: Any, y: Any, weight: np.ndarray | None):
        self.X, self.y = X, y
        self.weight = np.ones(X.shape[0]) if weight is None else weight
        self.lengths: np.ndarray | None = None
        terms = int(np.diff(X.indptr).max(initial=0)) if sp.issparse(X) else X.shape[1]
        self.rounding = (terms + 2) * float(np.finfo(X.dtype).eps)  # of a score, as a part of ||x|| ||w||

    @cached_property
    def spread(self) -> float:
        """Of real targets: their squared distances from their mean."""
        return float(self.weight @ (self.y - np.average(self.y, weights=self.weight)) ** 2)

    @cached_property
    def sizes(self) -> np.ndarray:
        """||x|| of the samples as they were read."""
        return row_norms(self.X)

    def scores(self, step: Step) -> tuple[np.ndarray, np.ndarray] | None:
        """Scores (samples, classes) at the centre of the ball, and how far those of the optimum may be from them."""
        values = step.model.certificate_
        found = ball(step.problem, step.left, max(values.gap, 0.0) + VALUES * (abs(values.primal) + abs(values.dual)))
        if found is None:
            return None
        if self.lengths is None:
            self.lengths = np.sqrt(squared_lengths_in(step.problem, step.posed.turned(self.X)))
        weights = np.atleast_2d(step.posed.back(step.problem.coefficients(found.centre)))
        coef, intercept = weights[:, :-1], weights[:, -1] * step.model._bias()
        scores = safe_sparse_dot(self.X, coef.T, dense_output=True) + intercept
        size = np.outer(self.sizes, np.linalg.norm(coef, axis=1)) + np.abs(intercept)
        reach = np.outer(self.lengths, found.radius * np.broadcast_to(coupling(step.problem), len(coef)))
        return scores, reach + self.rounding * size


class DefaultScore(NamedTuple):
    """The score of an estimator by its name in scikit-learn, what a gap proves about it, and the score itself, for samples that
    need no further look: scikit-learn's takes longer than a short fit. None where there is only that."""

    name: str
    bounds: Callable[[HeldOut, Step], tuple[float, float]]
    score: Callable[[HeldOut, Step], float] | None = None


def accuracy(held: HeldOut, step: Step) -> float:
    """The share of right classes."""
    model = step.model
    return float(np.average(model._predicted(model._scored(held.X)) == held.y, weights=held.weight))


def r2(held: HeldOut, step: Step) -> float:
    """The coefficient of determination; of a constant target, as in scikit-learn, 1 or 0."""
    residual = held.y - step.model._scored(held.X).ravel()
    left = float(held.weight @ residual**2)
    return 1.0 - left / held.spread if held.spread > 0.0 else float(left == 0.0)


def accuracy_bounds(held: HeldOut, step: Step) -> tuple[float, float]:
    """The least and the largest accuracy that the optimum may have, where the class of the largest score is predicted."""
    found = held.scores(step)
    if found is None:
        return NO_BOUNDS
    scores, reach = found
    classes = step.model.classes_
    place = np.minimum(np.searchsorted(classes, held.y), len(classes) - 1)
    known = classes[place] == held.y  # a class that was not there when the model was fitted is never predicted
    if scores.shape[1] == 1:
        ahead, reach = np.where(place == 1, scores[:, 0], -scores[:, 0]), reach[:, 0]
    else:
        own = np.arange(len(place)), place
        others = scores.copy()
        others[own] = -np.inf
        ahead, reach = scores[own] - others.max(axis=1), np.sqrt(2.0) * reach.max(axis=1)
    return shares((ahead > reach) & known, (ahead < -reach) | ~known, held.weight)


def label_bounds(held: HeldOut, step: Step) -> tuple[float, float]:
    """The same for labels, where a sample is right when all of its labels are."""
    found = held.scores(step)
    if found is None:
        return NO_BOUNDS
    scores, reach = found
    if is_tuned(step.model.thresholds):  # those of the optimum are not known
        return NO_BOUNDS
    y = held.y.toarray() if sp.issparse(held.y) else np.asarray(held.y)
    scores = scores - step.model.thresholds_
    ahead = np.where(y != 0, scores, -scores)
    return shares(np.all(ahead > reach, axis=1), np.any(ahead < -reach, axis=1), held.weight)


def shares(right: np.ndarray, wrong: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Bounds of an accuracy, from the samples that are surely right and surely wrong."""
    total = float(weight.sum())
    return (float(weight[right].sum()) / total, 1.0 - float(weight[wrong].sum()) / total) if total > 0.0 else NO_BOUNDS


def residual_bounds(held: HeldOut, step: Step) -> tuple[np.ndarray, np.ndarray] | None:
    """The least and the largest absolute residual that the optimum may have, of each sample."""
    found = held.scores(step)
    if found is None:
        return None
    residual, reach = np.abs(held.y - found[0][:, 0]), found[1][:, 0]
    return np.maximum(residual - reach, 0.0), residual + reach


def r2_bounds(held: HeldOut, step: Step) -> tuple[float, float]:
    """The least and the largest R squared that the optimum may have."""
    found = residual_bounds(held, step)
    total = float(held.weight.sum())
    if found is None or total <= 0.0 or held.weight.size < 2:
        return NO_BOUNDS
    if held.spread <= 0.0:  # scikit-learn's score of a constant is 1 or 0
        return 0.0, 1.0
    least, largest = (1.0 - float(held.weight @ residual**2) / held.spread for residual in found)
    return largest, least
