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
