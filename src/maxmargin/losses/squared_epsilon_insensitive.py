"""The squared epsilon-insensitive loss: cap_i max(0, |target_i - z| - epsilon)^2, the dual b_i free.

Its reward is target_i b - epsilon |b| - b^2 / (4 cap_i).
"""

from typing import NamedTuple

import numpy as np

from .base import BOUNDLESS, RegressionLoss, bend, clip, piece, reward, slope, step, value


class SquaredEpsilonInsensitive(NamedTuple):
    target: np.ndarray
    epsilon: float
    cap: np.ndarray


class SquaredEpsilonInsensitiveLoss(RegressionLoss):
    """max(0, |target - z| - epsilon)^2"""

    steep = True
    quadratic = True

    def __init__(self, epsilon: float = 0.1):
        self.epsilon = epsilon

    smooth = True

    def of(self, target, cap):
        return SquaredEpsilonInsensitive(target, float(self.epsilon), cap)


@value.register(SquaredEpsilonInsensitive)
def _(loss, i, score):
    excess = max(abs(loss.target[i] - score) - loss.epsilon, 0.0)
    return loss.cap[i] * excess * excess


@reward.register(SquaredEpsilonInsensitive)
def _(loss, i, dual):
    if dual == 0.0:
        return 0.0
    return dual * (loss.target[i] - dual / (4.0 * loss.cap[i])) - loss.epsilon * abs(dual)


@slope.register(SquaredEpsilonInsensitive)
def _(loss, i, score):
    residual = loss.target[i] - score
    return 2.0 * loss.cap[i] * (max(residual - loss.epsilon, 0.0) + min(residual + loss.epsilon, 0.0))


@bend.register(SquaredEpsilonInsensitive)
def _(loss, i, score):
    return 2.0 * loss.cap[i] if abs(loss.target[i] - score) > loss.epsilon else 0.0


@clip.register(SquaredEpsilonInsensitive)
def _(loss, i, dual):
    return dual if loss.cap[i] > 0.0 else 0.0


@piece.register(SquaredEpsilonInsensitive)
def _(loss, i, score, dual):
    if loss.cap[i] <= 0.0:
        return 0.0, 0.0, 0.0, 0.0
    if dual > 0.0 or (dual == 0.0 and loss.target[i] > score):
        return 0.0, BOUNDLESS, loss.target[i] - loss.epsilon, 0.5 / loss.cap[i]
    return -BOUNDLESS, 0.0, loss.target[i] + loss.epsilon, 0.5 / loss.cap[i]


@step.register(SquaredEpsilonInsensitive)
def _(loss, i, score, dual, curvature):
    if loss.cap[i] <= 0.0:
        return 0.0
    u = loss.target[i] - score + curvature * dual
    return (max(u - loss.epsilon, 0.0) + min(u + loss.epsilon, 0.0)) / (curvature + 0.5 / loss.cap[i])
