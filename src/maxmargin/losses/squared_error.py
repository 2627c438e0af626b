"""The squared loss: cap_i (target_i - z)^2, the dual b_i free with the reward target_i b - b^2 / (4 cap_i).

Of two classes the target is sign_i margin_i: (margin - sign z)^2 is the same. As a regression it is ridge regression with
alpha = 1 / (2 C).
"""

from typing import NamedTuple

import numpy as np

from .base import BOUNDLESS, BinaryLoss, RegressionLoss, bend, clip, piece, reward, slope, step, value


class SquaredError(NamedTuple):
    target: np.ndarray
    cap: np.ndarray


class SquaredErrorLoss(RegressionLoss):
    """(target - z)^2"""

    steep = True
    smooth = parabolic = True
    quadratic = True

    def of(self, target, cap):
        return SquaredError(target, cap)


class BinarySquaredErrorLoss(BinaryLoss):
    """(margin - y z)^2"""

    steep = True
    smooth = parabolic = True
    quadratic = True

    def of(self, sign, margin, cap):
        return SquaredError(sign * margin, cap)


@value.register(SquaredError)
def _(loss, i, score):
    residual = loss.target[i] - score
    return loss.cap[i] * residual * residual


@reward.register(SquaredError)
def _(loss, i, dual):
    # not their difference: the square of a small dual is zero
    return dual * (loss.target[i] - dual / (4.0 * loss.cap[i])) if dual != 0.0 else 0.0


@slope.register(SquaredError)
def _(loss, i, score):
    return 2.0 * loss.cap[i] * (loss.target[i] - score)


@bend.register(SquaredError)
def _(loss, i, score):
    return 2.0 * loss.cap[i]


@clip.register(SquaredError)
def _(loss, i, dual):
    return dual if loss.cap[i] > 0.0 else 0.0


@piece.register(SquaredError)
def _(loss, i, score, dual):
    if loss.cap[i] <= 0.0:
        return 0.0, 0.0, 0.0, 0.0
    return -BOUNDLESS, BOUNDLESS, loss.target[i], 0.5 / loss.cap[i]


@step.register(SquaredError)
def _(loss, i, score, dual, curvature):
    if loss.cap[i] <= 0.0:  # an example of weight zero
        return 0.0
    return (loss.target[i] - score + curvature * dual) / (curvature + 0.5 / loss.cap[i])
