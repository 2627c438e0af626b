"""Logistic and squared losses, and each class against the rest: their objectives in plain NumPy, and tasks with them."""

from dataclasses import dataclass

import numpy as np
from scipy.special import entr, logsumexp, xlogy
from sklearn.base import clone

import maxmargin as mm

from .draws import Draw, labels, matrix, size, weights
from .linear import Task, class_weight, classifier, common, prior_of, solvers_for
from .objectives import Linear, Regression, quarter

LOSSES = ("hinge", "squared_hinge", "log_loss", "squared_error")


@dataclass(frozen=True)
class AgainstRest:
    """sum_k factor_ik loss(y_ik z_k), y = +-1; of two classes there is one k."""

    y: np.ndarray
    factor: np.ndarray
    margin: np.ndarray
    name: str

    @property
    def squared(self) -> bool:
        return self.name.startswith("squared")

    def slack(self, Z):
        found = self.margin - self.y * Z
        return found if self.name == "squared_error" else np.maximum(found, 0.0)

    def at(self, Z, size):
        if self.name == "log_loss":
            each = np.logaddexp(0.0, -self.y * Z), 1.0 + size
        else:
            slack, error = self.slack(Z), self.margin + size
            each = (slack**2, 2.0 * np.abs(slack) * error) if self.squared else (slack, error)
        return tuple(np.sum(self.factor * part, axis=1) for part in each)

    def slopes(self, Z):
        return self.factor * (2.0 * np.abs(self.slack(Z)) if self.squared else np.ones_like(Z))

    def reward(self, duals, cap):
        a, caps = self.y * duals, cap[:, None] * self.factor
        if self.name == "log_loss":
            some = caps > 0.0
            p = np.clip(a[some] / caps[some], 0.0, 1.0)
            return -float(np.sum(caps[some] * (xlogy(p, p) + xlogy(1.0 - p, 1.0 - p)))), float(np.sum(caps))
        square = quarter(a.ravel(), caps.ravel()) if self.squared else 0.0
        return float(np.sum(self.margin * a)) - square, float(np.sum(self.margin * np.abs(a))) + square

    def outside(self, duals, cap):
        a, most = self.y * duals, cap[:, None] * self.factor
        if self.name == "squared_error":
            return np.max(np.where(most == 0.0, np.abs(a), 0.0))
        return max(np.max(-a), np.max(np.where(most == 0.0, a, 0.0)) if self.squared else np.max(a - most))


@dataclass(frozen=True)
class Multinomial:
    """log sum_j exp(z_j) - z_y."""

    label: np.ndarray
    squared = False

    def at(self, Z, size):
        return logsumexp(Z, axis=1) - Z[np.arange(len(Z)), self.label], 1.0 + 2.0 * size.max(axis=1)

    def slopes(self, Z):
        return np.ones_like(Z)

    def reward(self, duals, cap):
        some = cap > 0.0
        p = -duals[some] / cap[some, None]
        p[np.arange(len(p)), self.label[some]] += 1.0
        return float(cap[some] @ entr(np.maximum(p, 0.0)).sum(axis=1)), float(np.sum(cap) * np.log(duals.shape[1]))

    def outside(self, duals, cap):
        others = duals.copy()
        others[np.arange(len(duals)), self.label] = 0.0
        return max(np.max(others), np.max(-others.sum(axis=1) - cap), np.max(np.abs(duals.sum(axis=1)) - 1e-12 * cap))


def task(draw: Draw) -> Task:
    kind = draw.one("two", "rest", "rest", "multinomial", "regression")
    return regression(draw) if kind == "regression" else classes(draw, kind)


def classes(draw: Draw, kind: str) -> Task:
    K = 2 if kind == "two" else int(draw.rng.integers(3, 12))
    n, d = max(K, size(draw)), int(draw.rng.integers(1, 13))
    X, label, weight = matrix(draw, n, d), labels(draw, n, K), weights(draw, n)
    names = draw.one(np.arange(K), np.arange(K) - 1, np.array([f"c{k:02}" for k in range(K)]))
    loss = {"two": draw.one("log_loss", "squared_error"), "multinomial": "log_loss"}.get(kind, draw.one(*LOSSES))
    own = {"loss": loss, "multi_class": "ovr" if kind == "rest" else draw.one("ovr", "crammer_singer")}
    if kind == "multinomial":
        own["multi_class"] = "crammer_singer"
    margin = np.ones((n, 1))
    if kind == "two" and loss == "squared_error" and draw.chance(0.3):
        own["cost"] = draw.rng.random((2, 2)) * 3.0 * (1.0 - np.eye(2))
        margin = own["cost"][label, 1 - label][:, None]
    factors, own = class_weight(draw, own, names, label, weight)
    params = common(draw, d, None if K == 2 else K, own)
    cap = params["C"] * (np.ones(n) if weight is None else weight)
    signs = 2.0 * (label[:, None] == np.arange(K)) - 1.0
    if kind == "two":
        found, cap = AgainstRest(signs[:, 1:], np.ones((n, 1)), margin, loss), cap * factors[label]
    elif kind == "multinomial":
        found, cap = Multinomial(label), cap * factors[label]
    else:
        found = AgainstRest(signs, np.where(signs > 0.0, factors, 1.0), margin, loss)
    objective = Linear(X, cap, found, prior_of(params, 1 if K == 2 else K, d))
    return classifier(draw, mm.SVMClassifier, X, names, label, weight, params, objective, solvers_for(params))


def regression(draw: Draw) -> Task:
    """Squares are what is left of the squared epsilon-insensitive loss at an epsilon of zero."""
    n, d = size(draw), int(draw.rng.integers(1, 13))
    X, weight = matrix(draw, n, d), weights(draw, n)
    y = draw.one(draw.rng.normal(size=n), draw.rng.integers(-2, 3, n).astype(float), 1e3 * draw.rng.normal(size=n), np.zeros(n))
    params = common(draw, d, None, {"epsilon": draw.one(0.1, 10.0), "loss": "squared_error"})
    cap = params["C"] * (np.ones(n) if weight is None else weight)
    objective = Linear(X, cap, Regression(y, 0.0, True), prior_of(params, 1, d))
    return Task(mm.SVMRegressor(**params), X, y, weight, objective, y, clone, solvers_for(params))
