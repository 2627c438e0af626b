"""The primal objectives in plain NumPy. They share no code with maxmargin, so a solver's own account is never taken on trust.

    P(w) = 1/2 ||w||^2 + C sum_i loss_i(w)

Squared losses carry no factor 1/2 (C max(0, .)^2), as in LinearSVC and LinearSVR.
"""

from typing import Any

import numpy as np

EPSILON = 0.1  # half-width of the insensitive tube in both regression losses

BINARY = ("hinge", "squared_hinge")
REGRESSION = ("epsilon_insensitive", "squared_epsilon_insensitive")
MULTICLASS = ("crammer_singer",)
LOSSES = MULTICLASS + BINARY + REGRESSION


def losses(loss: str, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The loss of each example. `scores` is (n, 1), or (n, K) for `crammer_singer`; `y` is -1/+1, a number, or 0..K-1."""
    if loss == "crammer_singer":
        rows = np.arange(y.size)
        margins = 1.0 + scores - scores[rows, y][:, None]
        margins[rows, y] = 0.0
        return margins.max(axis=1)
    score = scores[:, 0]
    if loss in BINARY:
        excess = np.maximum(0.0, 1.0 - y * score)
    elif loss in REGRESSION:
        excess = np.maximum(0.0, np.abs(y - score) - EPSILON)
    else:
        raise ValueError(f"unknown loss {loss!r}")
    return excess**2 if loss.startswith("squared") else excess


def primal(loss: str, X: Any, y: np.ndarray, coef: np.ndarray, C: float) -> float:
    """P at the weights `coef`, of shape (1, d) or (K, d), in float64."""
    coef = np.asarray(coef, dtype=np.float64)
    scores = np.asarray(X @ coef.T)
    return float(0.5 * np.sum(coef**2) + C * np.sum(losses(loss, scores, y)))


def chain_parts(w: np.ndarray, features: int, labels: int) -> tuple[np.ndarray, ...]:
    """Unary (K, d), bias (K), first (K), last (K) and pair weights (K, K) of a chain's weight vector."""
    K, d = labels, features
    ends = np.cumsum([K * d, K, K, K])
    unary, bias, first, last, pairs = np.split(np.asarray(w, dtype=np.float64), ends)
    return unary.reshape(K, d), bias, first, last, pairs.reshape(K, K)


def chain_loss(x: np.ndarray, y: np.ndarray, parts: tuple[np.ndarray, ...]) -> float:
    """max over labellings of [Hamming loss + score] - the score of the true one, by a Viterbi pass."""
    unary, bias, first, last, pairs = parts
    scores = x @ unary.T + bias
    scores[0] += first
    scores[-1] += last
    true = scores[np.arange(y.size), y].sum() + pairs[y[:-1], y[1:]].sum()
    scores += 1.0
    scores[np.arange(y.size), y] -= 1.0
    best = scores[0]
    for t in range(1, y.size):
        best = scores[t] + (best[:, None] + pairs).max(axis=0)
    return float(best.max() - true)


def chain_primal(X: list[np.ndarray], y: list[np.ndarray], w: np.ndarray, C: float, labels: int) -> float:
    """1/2 ||w||^2 + C sum_i loss_i of chains with Hamming loss, biases and first/last biases."""
    parts = chain_parts(w, X[0].shape[1], labels)
    return 0.5 * float(w @ w) + C * sum(chain_loss(np.asarray(x, np.float64), t, parts) for x, t in zip(X, y, strict=True))


def chain_feature(x: np.ndarray, y: np.ndarray, labels: int) -> np.ndarray:
    """phi(x, y) in the order of `chain_parts`."""
    nodes, pairs = np.eye(labels)[y], np.zeros((labels, labels))
    np.add.at(pairs, (y[:-1], y[1:]), 1.0)
    return np.concatenate([(nodes.T @ x).ravel(), nodes.sum(axis=0), nodes[0], nodes[-1], pairs.ravel()])


def chain_dual(X: list[np.ndarray], y: list[np.ndarray], duals: list, C: float, labels: int) -> tuple[float, float]:
    """The dual value of (output, coefficient) pairs for each sample, and by how much the coefficients are infeasible."""
    w: Any = 0.0
    reward, wrong = 0.0, 0.0
    for x, true, found in zip(X, y, duals, strict=True):
        total = 0.0
        for output, coefficient in found:
            guess = np.asarray(output)
            w = w + coefficient * (chain_feature(x, true, labels) - chain_feature(x, guess, labels))
            reward += coefficient * float(np.sum(guess != true))
            total += coefficient
            wrong = max(wrong, -coefficient)
        wrong = max(wrong, total - C)
    return reward - 0.5 * float(np.sum(np.square(w))), wrong
