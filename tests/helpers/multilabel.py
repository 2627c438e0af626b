"""Multi-label problems: samples, priors, and the objective written down again."""

import numpy as np
import scipy.sparse as sp

from . import convex as cp


def data(n=30, d=4, labels=3, seed=0, sparse=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if sparse:
        X *= rng.random((n, d)) < 0.5
    Y = (X @ rng.standard_normal((d, labels)) + rng.standard_normal((n, labels)) > 0.3).astype(np.int64)
    return X, Y


def correlated(labels, seed=0, ridge=0.1):
    """A prior with negative entries."""
    A = np.random.default_rng(seed).standard_normal((labels, labels))
    R = A @ A.T / labels
    assert R.min() < 0
    return R + ridge * np.eye(labels)


def root(R):
    values, vectors = np.linalg.eigh(R)
    keep = values > 1e-9
    return vectors[:, keep] * np.sqrt(values[keep])


class Formula:
    """The problem written down again: c_il, margins and signs as full matrices."""

    def __init__(self, X, Y, C=1.0, R=None, weight=1.0, label_weight=1.0, margin=1.0, squared=False, scaling=1.0):
        X = X.toarray() if sp.issparse(X) else np.asarray(X, float)
        self.X = np.hstack([X, np.full((len(X), 1), scaling)])
        self.scaling, self.power = scaling, 2 if squared else 1
        Y = np.asarray(Y, float)
        self.y = np.where(Y == 1, 1.0, -1.0)
        self.R = np.eye(Y.shape[1]) if R is None else R
        self.c = np.broadcast_to(np.atleast_1d(weight)[:, None], Y.shape) * label_weight * C * ~np.isnan(Y)
        self.margin = np.broadcast_to(margin, Y.shape)

    def optimum(self):
        F = root(self.R)
        U = cp.Variable((self.X.shape[1], F.shape[1]))
        violation = cp.pos(self.margin - cp.multiply(self.y, self.X @ U @ F.T))
        loss = cp.square(violation) if self.power == 2 else violation
        problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(U) + cp.sum(cp.multiply(self.c, loss))))
        return cp.solved(problem, 1e-9)

    def weights(self, model):
        bias = model.intercept_ / self.scaling if self.scaling else np.zeros(len(model.coef_))
        return np.vstack([model.coef_.T, bias])

    def primal(self, model):
        Z = self.weights(model)
        inverse = np.linalg.pinv(self.R, rcond=1e-12)
        loss = np.maximum(0.0, self.margin - self.y * (self.X @ Z)) ** self.power
        return 0.5 * np.sum((Z @ inverse) * Z) + np.sum(self.c * loss)

    def dual(self, model, frozen=0.0, owed=0.0):
        """`frozen`: what duals of other samples sum up to, and `owed` their reward."""
        reward, V = self.sums(model)
        V = V + frozen
        np.testing.assert_allclose(self.weights(model), V @ self.R, rtol=1e-8, atol=1e-9 * np.abs(V).max())
        return owed + reward - 0.5 * np.sum((V @ self.R) * V)

    def sums(self, model):
        """The reward of the duals, which are feasible, and what they sum up to."""
        b = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_
        a, V = b * self.y, self.X.T @ b
        assert a.min() >= 0.0 and np.all(a[self.c == 0.0] == 0.0)
        if self.power == 1:
            assert np.all(a <= self.c * (1 + 1e-12))
            cost = 0.0
        else:
            cost = np.sum(a[self.c > 0] ** 2 / (4.0 * self.c[self.c > 0]))
        return np.sum(self.margin * a) - cost, V


def some_missing(Y, seed=3):
    Y = Y.astype(float)
    Y[np.random.default_rng(seed).random(Y.shape) < 0.2] = np.nan
    return Y
