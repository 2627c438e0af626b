"""A hinge loss with a round corner: t^2 / (2 width) up to t = width, then t - width / 2, for t = margin - y z."""

from typing import NamedTuple

import numpy as np

from maxmargin.extend import BinaryLoss, clip, reward, slope, step, value


class Encoded(NamedTuple):
    sign: np.ndarray
    margin: np.ndarray
    cap: np.ndarray
    width: float


class SmoothedHinge(BinaryLoss):
    def __init__(self, width=0.5):
        self.width = width

    def of(self, sign, margin, cap):
        return Encoded(sign, margin, cap, float(self.width))


@value.register(Encoded)
def _(loss, i, score):
    t = max(loss.margin[i] - loss.sign[i] * score, 0.0)
    return loss.cap[i] * (t * t / (2.0 * loss.width) if t < loss.width else t - 0.5 * loss.width)


@reward.register(Encoded)
def _(loss, i, dual):
    a = loss.sign[i] * dual
    return loss.margin[i] * a - (0.5 * loss.width * a * a / loss.cap[i] if a > 0.0 else 0.0)


@slope.register(Encoded)
def _(loss, i, score):
    t = loss.margin[i] - loss.sign[i] * score
    return loss.sign[i] * loss.cap[i] * min(max(t / loss.width, 0.0), 1.0)


@clip.register(Encoded)
def _(loss, i, dual):
    return loss.sign[i] * min(max(loss.sign[i] * dual, 0.0), loss.cap[i])


@step.register(Encoded)
def _(loss, i, score, dual, curvature):
    if loss.cap[i] == 0.0:
        return 0.0
    t = loss.margin[i] - loss.sign[i] * score
    a = (t + curvature * loss.sign[i] * dual) / (curvature + loss.width / loss.cap[i])
    return loss.sign[i] * min(max(a, 0.0), loss.cap[i])
