"""Rows of scores and duals for the losses of several classes, and kernels that go through them."""

import numpy as np

from maxmargin.jit import kernel
from maxmargin.losses.base import row_extrapolate, row_repair, row_step, row_value


@kernel
def visit_rows(loss, curvature, given, duals, scratch, answers, changes):
    """One step on every row: answers get the value, the share of the gap, whether there was a step, the change of the reward."""
    scores, change, calm = scratch
    for i in range(given.shape[0]):
        for j in range(given.shape[1]):
            scores.flat[0, j] = given[i, j]
        answers[i, 0] = row_value(loss, i, scores)
        for j in range(given.shape[1]):
            scores.flat[0, j] = given[i, j]  # again: the value may overwrite them
        share, stepped, gain = row_step(loss, i, curvature[i], scores, duals, change, calm)
        answers[i, 1], answers[i, 2], answers[i, 3] = share, 1.0 if stepped else 0.0, gain
        for j in range(given.shape[1]):
            changes[i, j] = change.flat[0, j]


@kernel
def extrapolate_rows(loss, duals, before, t, change, lacking, answers):
    for i in range(answers.shape[0]):
        answers[i, 0], answers[i, 1] = row_extrapolate(loss, i, duals, before, t, change)
        for j in range(lacking.shape[1]):
            lacking[i, j] = change.flat[0, j] if answers[i, 0] else 0.0


@kernel
def repair_rows(loss, duals, out, result, rewards):
    for i in range(result.shape[0]):
        rewards[i] = row_repair(loss, i, duals, out)
        for j in range(result.shape[1]):
            result[i, j] = out.flat[0, j]


def masses(duals: np.ndarray, y: np.ndarray) -> np.ndarray:
    """a_j = -b_j of the other classes, 0 at y."""
    a = -duals.copy()
    a[np.arange(len(y)), y] = 0.0
    return a


def random_rows(rng: np.random.Generator, K: int, dtype, n: int = 240):
    """Rows with ties, with caps and curvatures from tiny to huge and zero, from no duals, inner ones and full ones."""
    label, cost = rng.integers(0, K, n), rng.choice([0.0, 0.5, 1.0, 2.0], (K, K)) * (1.0 - np.eye(K))
    cap, q = 10.0 ** rng.uniform(-6, 6, n), 10.0 ** rng.uniform(-4, 4, n)
    q[: n // 8], cap[n // 8 : n // 6] = 0.0, 0.0
    cap[n // 2 :] = 10.0 ** rng.uniform(-1, 1, n - n // 2) / q[n // 2 :]  # neither cap nor curvature decides alone
    z = rng.normal(size=(n, K)) * 10.0 ** rng.uniform(-1, 1, (n, 1))
    z[::3] = rng.integers(-2, 3, (len(z[::3]), K))
    part = rng.dirichlet(np.full(K, 0.3), n) * rng.choice([0.0, 0.5, 1.0], (n, 1))
    part[np.arange(n), label] = 0.0
    part[part < 1e-3] = 0.0
    a = (part * np.minimum(cap, 4.0 / np.maximum(q, 1e-3))[:, None]).astype(dtype).astype(np.float64)
    duals = -a
    duals[np.arange(n), label] = a.sum(axis=1)
    return label, cost, cap, q, z.astype(dtype).astype(np.float64), duals
