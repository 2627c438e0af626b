"""The squared hinge loss: cap_i max(0, margin_i - sign_i z)^2, the dual sign_i b_i >= 0 with reward margin_i |b_i| -
b_i^2 / (4 cap_i)."""

from typing import NamedTuple

import numpy as np

from .base import BOUNDLESS, BinaryLoss, bend, clip, piece, reward, slope, step, value


class SquaredHinge(NamedTuple):
    sign: np.ndarray
    margin: np.ndarray
    cap: np.ndarray


class SquaredHingeLoss(BinaryLoss):
    """max(0, margin - y z)^2"""

    steep = True
    smooth = True
    quadratic = True

    def of(self, sign, margin, cap):
        return SquaredHinge(sign, margin, cap)


@value.register(SquaredHinge)
def _(loss, i, score):
    violation = max(loss.margin[i] - loss.sign[i] * score, 0.0)
    return loss.cap[i] * violation * violation


@reward.register(SquaredHinge)
def _(loss, i, dual):
    return dual * (loss.margin[i] * loss.sign[i] - dual / (4.0 * loss.cap[i])) if dual != 0.0 else 0.0


@slope.register(SquaredHinge)
def _(loss, i, score):
    return 2.0 * loss.cap[i] * loss.sign[i] * max(loss.margin[i] - loss.sign[i] * score, 0.0)


@bend.register(SquaredHinge)
def _(loss, i, score):
    return 2.0 * loss.cap[i] if loss.sign[i] * score < loss.margin[i] else 0.0


@clip.register(SquaredHinge)
def _(loss, i, dual):
    return loss.sign[i] * max(loss.sign[i] * dual, 0.0) if loss.cap[i] > 0.0 else 0.0


@piece.register(SquaredHinge)
def _(loss, i, score, dual):
    if loss.cap[i] <= 0.0:
        return 0.0, 0.0, 0.0, 0.0
    bound = loss.sign[i] * BOUNDLESS
    return min(bound, 0.0), max(bound, 0.0), loss.sign[i] * loss.margin[i], 0.5 / loss.cap[i]


@step.register(SquaredHinge)
def _(loss, i, score, dual, curvature):
    if loss.cap[i] <= 0.0:  # an example of weight zero
        return 0.0
    ridge = 0.5 / loss.cap[i]
    a = loss.sign[i] * dual
    slope = loss.margin[i] - loss.sign[i] * score - ridge * a
    return loss.sign[i] * max(a + slope / (curvature + ridge), 0.0)
