"""The epsilon-insensitive loss: cap_i max(0, |target_i - z| - epsilon), the dual b_i in [-cap_i, cap_i].

The two one-sided constraints of a sample are never active together, so that one signed dual with the reward
target_i b - epsilon |b| stands for both.
"""

from typing import NamedTuple

import numpy as np

from .base import RegressionLoss, clip, piece, reward, slope, step, value


class EpsilonInsensitive(NamedTuple):
    target: np.ndarray
    epsilon: float
    cap: np.ndarray


class EpsilonInsensitiveLoss(RegressionLoss):
    """max(0, |target - z| - epsilon)"""

    quadratic = True

    def __init__(self, epsilon: float = 0.1):
        self.epsilon = epsilon

    def of(self, target, cap):
        return EpsilonInsensitive(target, float(self.epsilon), cap)


@value.register(EpsilonInsensitive)
def _(loss, i, score):
    return loss.cap[i] * max(abs(loss.target[i] - score) - loss.epsilon, 0.0)


@reward.register(EpsilonInsensitive)
def _(loss, i, dual):
    return loss.target[i] * dual - loss.epsilon * abs(dual)


@slope.register(EpsilonInsensitive)
def _(loss, i, score):
    residual = loss.target[i] - score
    if abs(residual) <= loss.epsilon:
        return 0.0
    return loss.cap[i] if residual > 0.0 else -loss.cap[i]


@clip.register(EpsilonInsensitive)
def _(loss, i, dual):
    return min(max(dual, -loss.cap[i]), loss.cap[i])


@piece.register(EpsilonInsensitive)
def _(loss, i, score, dual):
    if dual > 0.0 or (dual == 0.0 and loss.target[i] > score):
        return 0.0, loss.cap[i], loss.target[i] - loss.epsilon, 0.0
    return -loss.cap[i], 0.0, loss.target[i] + loss.epsilon, 0.0


@step.register(EpsilonInsensitive)
def _(loss, i, score, dual, curvature):
    residual = loss.target[i] - score
    if curvature > 0.0:
        u = residual + curvature * dual  # the best dual is the soft threshold of u, divided by the curvature
        b = (max(u - loss.epsilon, 0.0) + min(u + loss.epsilon, 0.0)) / curvature
    elif residual > loss.epsilon:
        b = loss.cap[i]
    elif residual < -loss.epsilon:
        b = -loss.cap[i]
    else:
        b = 0.0
    return min(max(b, -loss.cap[i]), loss.cap[i])
