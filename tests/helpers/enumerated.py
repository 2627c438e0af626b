"""Structured problems on samples so small that all outputs can be listed: their tables, objective and optimum."""

import numpy as np
from sklearn.base import clone

from . import convex as cp


def tables(structure, X, y):
    """For each sample phi(x, y_i) - phi(x, y) and Delta(y_i, y) for all y, and the list of them."""
    structure = clone(structure)
    structure.size(X, y)
    found = []
    for x, true in zip(X, y, strict=True):
        every = structure.every_output(x, true, 2000)
        assert every is not None
        here = structure.joint_feature(x, true)
        psi = np.array([here - structure.joint_feature(x, other) for other in every])
        found.append((psi, np.array([structure.loss(true, other) for other in every]), every))
    return found


def primal(found, w, cap):
    return 0.5 * w @ w + sum(c * np.max(loss - psi @ w) for c, (psi, loss, _) in zip(cap, found, strict=True))


def optimum(found, cap, nonnegative=()):
    """The optimal value by an interior-point solver; weights numbered in `nonnegative` must not be negative."""
    w = cp.Variable(found[0][0].shape[1])
    risk = sum(c * cp.max(loss - psi @ w) for c, (psi, loss, _) in zip(cap, found, strict=True) if c > 0)
    signs = [w[np.asarray(nonnegative)] >= 0] if len(nonnegative) else []
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + risk), signs)
    return cp.solved(problem)
