"""The hinge loss: cap_i max(0, margin_i - sign_i z), the dual sign_i b_i in [0, cap_i] with reward margin_i |b_i|."""

from typing import NamedTuple

import numpy as np

from .base import BinaryLoss, clip, piece, reward, slope, step, value


class Hinge(NamedTuple):
    sign: np.ndarray
    margin: np.ndarray
    cap: np.ndarray


class HingeLoss(BinaryLoss):
    """max(0, margin - y z)"""

    quadratic = True

    def of(self, sign, margin, cap):
        return Hinge(sign, margin, cap)


@value.register(Hinge)
def _(loss, i, score):
    return loss.cap[i] * max(loss.margin[i] - loss.sign[i] * score, 0.0)


@reward.register(Hinge)
def _(loss, i, dual):
    return loss.margin[i] * loss.sign[i] * dual


@slope.register(Hinge)
def _(loss, i, score):
    return loss.sign[i] * loss.cap[i] if loss.margin[i] - loss.sign[i] * score > 0.0 else 0.0


@clip.register(Hinge)
def _(loss, i, dual):
    return loss.sign[i] * min(max(loss.sign[i] * dual, 0.0), loss.cap[i])


@piece.register(Hinge)
def _(loss, i, score, dual):
    bound = loss.sign[i] * loss.cap[i]
    return min(bound, 0.0), max(bound, 0.0), loss.sign[i] * loss.margin[i], 0.0


@step.register(Hinge)
def _(loss, i, score, dual, curvature):
    slope = loss.margin[i] - loss.sign[i] * score
    if curvature > 0.0:
        a = loss.sign[i] * dual + slope / curvature
    else:  # a row of zeros moves nothing: its dual sits at the bound that the slope points to
        a = loss.cap[i] if slope > 0.0 else 0.0
    return loss.sign[i] * min(max(a, 0.0), loss.cap[i])
