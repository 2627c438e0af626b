"""The independent side of the tests: every problem again, in plain NumPy and for a convex solver (cvxpy with Clarabel).

Written from the formulas, sharing no code with the package. Always in the user's own coordinates and in float64:

    1/2 sum_k (w_k - mean_k)' inv(Sigma_k) (w_k - mean_k) + 1/2 ||u||^2 + sum_i cap_i loss_i,    w_j >= 0 where asked for,

with cap_i = C s_i, scores x_i.w_k + intercept_k and intercept = scaling * u. Weights are (K, d) everywhere, K = 1 for one score.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import fsum
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from . import convex as cp
from . import sorting

PRECISION = 1e-9  # what the convex solver is asked for


class Point(NamedTuple):
    """Weights, intercepts, and the objective there."""

    value: float
    W: np.ndarray
    b: np.ndarray


@dataclass(frozen=True)
class Quadratic:
    """The quadratic term and the signs. `mean` is (K, d), `covariance` (K, d, d), `positive` (d,); scaling 0: no intercept."""

    mean: np.ndarray
    covariance: np.ndarray
    positive: np.ndarray
    scaling: float

    def value(self, W: np.ndarray, b: np.ndarray) -> float:
        """The quadratic term at weights that satisfy the signs."""
        assert np.all(W[:, self.positive] >= 0.0)
        return self.half_square(W - self.mean, b)

    def half_square(self, W: np.ndarray, b: np.ndarray) -> float:
        """1/2 ||(W, b)||^2 in the metric of the prior."""
        inside = sum(row @ np.linalg.solve(sigma, row) for row, sigma in zip(W, self.covariance))
        assert self.scaling > 0.0 or not np.any(b)
        return float(0.5 * inside + (0.5 * np.sum((b / self.scaling) ** 2) if self.scaling > 0.0 else 0.0))

    def conjugate(self, G: np.ndarray, g: np.ndarray) -> Point:
        """max over w, b of <G, w> + <g, b> - value(w, b), and where: a closed form, so not for signs under a full covariance."""
        diagonal = np.array([np.diag(sigma) for sigma in self.covariance])
        full = any(np.any(sigma != np.diag(np.diag(sigma))) for sigma in self.covariance)
        if full:
            assert not self.positive.any()
            W = self.mean + np.einsum("kij,kj->ki", self.covariance, G)
        else:
            W = self.mean + diagonal * G
            W[:, self.positive] = np.maximum(W[:, self.positive], 0.0)
        b = self.scaling**2 * g
        return Point(float(np.sum(G * W) + np.sum(g * b)) - self.value(W, b), W, b)

    def conjugate_by_solver(self, G: np.ndarray, g: np.ndarray) -> float:
        """The same maximum by the convex solver: for signs under a full covariance."""
        W, u = cp.Variable(G.shape), cp.Variable(G.shape[0])
        signs = [W[:, np.flatnonzero(self.positive)] >= 0.0] if self.positive.any() else []
        gain = cp.sum(cp.multiply(G, W)) + self.scaling * (g @ u)
        return _solved(cp.Problem(cp.Maximize(gain - self.expression(W, u)), signs))

    def expression(self, W, u):
        """The quadratic term for the convex solver."""
        total = 0.5 * cp.sum_squares(u)
        for k, sigma in enumerate(self.covariance):
            root = np.linalg.inv(np.linalg.cholesky(sigma))
            total += 0.5 * cp.sum_squares(root @ (W[k] - self.mean[k]))
        return total


def quadratic(
    K: int,
    d: int,
    *,
    positive=False,
    prior_mean=None,
    prior_scale=None,
    prior_covariance=None,
    fit_intercept=True,
    intercept_scaling=1.0,
    **ignored,
) -> Quadratic:
    """The quadratic term that the estimators' parameters describe, for K rows of d weights."""
    mean = np.broadcast_to(0.0 if prior_mean is None else np.asarray(prior_mean, float), (K, d))
    scale = np.broadcast_to(1.0 if prior_scale is None else np.asarray(prior_scale, float), (K, d))
    covariance = np.array([np.diag(row**2) for row in scale])
    if prior_covariance is not None:
        covariance = np.array([prior_covariance] * K, float)
    mask = np.full(d, positive) if isinstance(positive, bool) else np.asarray(positive)
    return Quadratic(mean, covariance, mask, float(intercept_scaling) if fit_intercept else 0.0)


@dataclass(frozen=True)
class Reference(ABC):
    """A problem. `cap` is C s_i, one an example; what `y` holds depends on the loss."""

    X: np.ndarray
    y: np.ndarray
    cap: np.ndarray
    quadratic: Quadratic

    def scores(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.X @ W.T + b

    def primal(self, W: np.ndarray, b: np.ndarray) -> float:
        """The objective."""
        return self.quadratic.value(W, b) + float(self.cap @ self.losses(self.scores(W, b)))

    def images(self, duals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """sum_i x_i duals_i as (K, d), and the sum of the duals (K,)."""
        rows = duals.reshape(len(duals), -1)
        return rows.T @ self.X, rows.sum(axis=0)

    def dual(self, duals: np.ndarray) -> Point:
        """The dual objective at these duals, and the weights they stand for."""
        found = self.quadratic.conjugate(*self.images(duals))
        return found._replace(value=self.reward(duals) - found.value)

    def first(self) -> float:
        """The objective at the prior mean, or where the signs put it."""
        mean = np.where(self.quadratic.positive, np.maximum(self.quadratic.mean, 0.0), self.quadratic.mean)
        return self.primal(mean, np.zeros(len(mean)))

    def optimum(self) -> Point:
        """The best weights that the convex solver found. Their value is computed here, so it is never below the optimum."""
        K, d = self.quadratic.mean.shape
        W, u = cp.Variable((K, d)), cp.Variable(K)
        scores = self.X @ W.T + self.quadratic.scaling * np.ones((len(self.X), 1)) @ cp.reshape(u, (1, K), order="C")
        signs = [W[:, np.flatnonzero(self.quadratic.positive)] >= 0.0] if self.quadratic.positive.any() else []
        objective = self.quadratic.expression(W, u) + self.cap @ self.loss_expressions(scores)
        _solved(cp.Problem(cp.Minimize(objective / self.first()), signs))  # of the order of 1: tolerances there are absolute
        found = np.where(self.quadratic.positive, np.maximum(W.value, 0.0), W.value)
        b = self.quadratic.scaling * u.value
        return Point(self.primal(found, b), found, b)

    @abstractmethod
    def losses(self, scores: np.ndarray) -> np.ndarray:
        """The loss of each example, unweighted."""

    @abstractmethod
    def loss_expressions(self, scores: Any) -> Any:
        """The same for the convex solver."""

    @abstractmethod
    def reward(self, duals: np.ndarray) -> float:
        """The linear (and for squared losses quadratic) part of the dual."""

    @abstractmethod
    def infeasibility(self, duals: np.ndarray) -> float:
        """How far the duals are outside of their constraints; 0 when all hold."""


@dataclass(frozen=True)
class Binary(Reference):
    """max(0, margin - y z), perhaps squared; y = +-1. Duals b_i carry the sign of y."""

    margin: np.ndarray
    squared: bool

    def losses(self, scores):
        return np.maximum(self.margin - self.y * scores[:, 0], 0.0) ** (2 if self.squared else 1)

    def loss_expressions(self, scores):
        excess = cp.pos(self.margin - cp.multiply(self.y, scores[:, 0]))
        return cp.square(excess) if self.squared else excess

    def reward(self, duals):
        return float(self.margin @ np.abs(duals)) - (_quarter(duals, self.cap) if self.squared else 0.0)

    def infeasibility(self, duals):
        a = self.y * duals
        return float(max(np.max(-a), 0.0 if self.squared else np.max(a - self.cap), np.max(np.abs(a) * (self.cap == 0.0))))


@dataclass(frozen=True)
class Regression(Reference):
    """max(0, |y - z| - epsilon), perhaps squared. Duals are signed."""

    epsilon: float
    squared: bool

    def losses(self, scores):
        return np.maximum(np.abs(self.y - scores[:, 0]) - self.epsilon, 0.0) ** (2 if self.squared else 1)

    def loss_expressions(self, scores):
        excess = cp.pos(cp.abs(self.y - scores[:, 0]) - self.epsilon)
        return cp.square(excess) if self.squared else excess

    def reward(self, duals):
        linear = float(self.y @ duals - self.epsilon * np.abs(duals).sum())
        return linear - (_quarter(duals, self.cap) if self.squared else 0.0)

    def infeasibility(self, duals):
        a = np.abs(duals)
        return float(max(0.0 if self.squared else np.max(a - self.cap), np.max(a * (self.cap == 0.0))))


@dataclass(frozen=True)
class Multiclass(Reference):
    """max_j cost[y, j] + z_j - z_y; y = 0..K-1. Duals are rows that sum to zero, positive only at y."""

    cost: np.ndarray

    def losses(self, scores):
        own = scores[np.arange(len(self.y)), self.y]
        return np.max(self.cost[self.y] + scores, axis=1) - own

    def loss_expressions(self, scores):
        own = cp.sum(cp.multiply(np.eye(len(self.cost))[self.y], scores), axis=1)
        return cp.max(self.cost[self.y] + scores, axis=1) - own

    def reward(self, duals):
        return -float(np.sum(self.cost[self.y] * duals))

    def infeasibility(self, duals):
        others = duals.copy()
        others[np.arange(len(self.y)), self.y] = 0.0
        mass = np.array([-fsum(row) for row in others])  # exact sums: the test must not add rounding of its own
        total = np.array([abs(fsum(row)) for row in duals])
        return float(max(np.max(others), np.max(mass - self.cap * (1.0 + 1e-15)), np.max(total - 1e-15 * mass)))


@dataclass(frozen=True)
class TopK(Reference):
    """h_j = 1 + z_j - z_y for j != y: max(0, mean of the k largest h), or the mean of the k largest max(0, h); y = 0..K-1.

    Smoothed, it is the infimal convolution with ||.||^2 / (2 smoothing). Duals are rows that sum to zero, positive only at y.
    """

    k: int
    beta: bool
    smoothing: float

    @property
    def others(self) -> np.ndarray:
        K = len(self.quadratic.mean)
        return np.array([[j for j in range(K) if j != y] for y in self.y])

    def losses(self, scores):
        own = scores[np.arange(len(self.y)), self.y]
        h = 1.0 + np.take_along_axis(scores, self.others, axis=1) - own[:, None]
        if self.smoothing > 0.0:
            project = sorting.box if self.beta else sorting.topk
            p = np.array([project(row / self.smoothing, self.k, 1.0, 0.0) for row in h])
            return np.sum(p * h, axis=1) - 0.5 * self.smoothing * np.sum(p * p, axis=1)
        falling = np.sort(np.maximum(h, 0.0) if self.beta else h, axis=1)[:, ::-1]
        return np.maximum(falling[:, : self.k].mean(axis=1), 0.0)

    def loss_expressions(self, scores):
        found = []
        for i, others in enumerate(self.others):
            h, penalty = 1.0 + scores[i, others] - scores[i, self.y[i]], 0.0
            if self.smoothing > 0.0:
                near = cp.Variable(len(others))
                h, penalty = near, cp.sum_squares(h - near) / (2.0 * self.smoothing)
            mean = cp.sum_largest(cp.pos(h) if self.beta else h, self.k) / self.k
            found.append(cp.pos(mean) + penalty)
        return cp.hstack(found)

    def masses(self, duals: np.ndarray) -> np.ndarray:
        return -np.take_along_axis(duals, self.others, axis=1)

    def reward(self, duals):
        a = self.masses(duals)
        square = np.divide(np.sum(a * a, axis=1), self.cap, out=np.zeros(len(a)), where=self.cap > 0.0)
        return float(a.sum() - 0.5 * self.smoothing * square.sum())

    def infeasibility(self, duals):
        a = self.masses(duals)
        mass = np.array([fsum(row) for row in a])
        most = (self.cap if self.beta else mass) / self.k
        total = np.array([abs(fsum(row)) for row in duals])
        errors = [np.max(-a), np.max(a - most[:, None] * (1.0 + 1e-14)), np.max(mass - self.cap * (1.0 + 1e-15))]
        return float(max(*errors, np.max(total - 1e-14 * mass)))


@dataclass(frozen=True)
class Grouped(Reference):
    """max(0, max_j margin_j - z_j) over the rows of an example; y names the example of each row, 0..len(cap)-1."""

    margin: np.ndarray

    def losses(self, scores):
        worst = np.zeros(len(self.cap))
        np.maximum.at(worst, self.y, self.margin - scores[:, 0])
        return worst

    def loss_expressions(self, scores):
        excess = self.margin - scores[:, 0]
        return cp.hstack([cp.pos(cp.max(excess[np.flatnonzero(self.y == i)])) for i in range(len(self.cap))])

    def reward(self, duals):
        return float(self.margin @ duals)

    def infeasibility(self, duals):
        mass = np.bincount(self.y, duals, minlength=len(self.cap))
        return float(max(np.max(-duals), np.max(mass - self.cap * (1.0 + 1e-15))))


def reference(estimator, X, y, sample_weight=None) -> Reference:
    """The problem that an estimator's parameters and the arguments of `fit` describe."""
    params = estimator.get_params(deep=False)
    X = X.toarray() if sp.issparse(X) else np.asarray(X)
    X, (n, d) = X.astype(np.float64), X.shape
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, np.float64)
    squared = params["loss"].startswith("squared")
    if "epsilon" in params:
        return Regression(X, np.asarray(y, float), params["C"] * weight, quadratic(1, d, **params), params["epsilon"], squared)
    names, label = np.unique(y, return_inverse=True)
    K, class_weight = len(names), params["class_weight"]
    if isinstance(class_weight, dict):
        weight = weight * np.array([class_weight.get(name, 1.0) for name in names.tolist()])[label]
    elif class_weight == "balanced":  # counted with the weights: a weight of two is the sample twice
        weight = weight * (weight.sum() / (K * np.bincount(label, weight)))[label]
    if "k" in params:
        beta, k = params["loss"] == "topk_beta", params["k"]
        return TopK(X, label, params["C"] * weight, quadratic(K, d, **params), k, beta, params["smoothing"])
    cost = params["cost"]
    if isinstance(cost, dict):
        cost = [[0.0 if a == b else cost[a][b] for b in names.tolist()] for a in names.tolist()]
    cost = 1.0 - np.eye(K) if cost is None else np.asarray(cost, float)
    if K == 2:
        sign = 2.0 * label - 1.0
        return Binary(X, sign, params["C"] * weight, quadratic(1, d, **params), cost[label, 1 - label], squared)
    return Multiclass(X, label, params["C"] * weight, quadratic(K, d, **params), cost)


def grouped(X, margins, groups=None, weights=None, C=1.0, **prior) -> Reference:
    """The problem of an `ExplicitProblem` at this C."""
    X = (X.toarray() if sp.issparse(X) else np.asarray(X)).astype(np.float64)
    names, group = np.unique(np.arange(len(X)) if groups is None else groups, return_inverse=True)
    cap = C * (np.ones(len(names)) if weights is None else np.asarray(weights, float))
    return Grouped(X, group, cap, quadratic(1, X.shape[1], fit_intercept=False, **prior), np.asarray(margins, float))


def _quarter(duals: np.ndarray, cap: np.ndarray) -> float:
    """sum_i b_i^2 / (4 cap_i) over the examples with a dual."""
    at = duals != 0.0
    return float(np.sum(duals[at] ** 2 / (4.0 * cap[at])))


def _solved(problem) -> float:
    return cp.solved(problem, PRECISION)
