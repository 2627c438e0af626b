"""The logistic loss: cap_i log(1 + exp(-m)), m = sign_i z, the dual a = sign_i b_i in [0, cap_i] with the reward

    -a log(a / cap_i) - (cap_i - a) log(1 - a / cap_i)          (0 log 0 = 0)

With p = a / cap_i, rho = ||x_i||^2 cap_i and c = rho p_old - m the best dual solves

    log p - log(1 - p) + rho p = c.

Where rho / 2 < c, p and 1 - p change places, c becomes rho - c, and the root is at most 1/2. There the left side rises and is
concave, so that Newton's method from the left is monotone (Yu, Huang and Lin 2011 work on the same equation). Two points on
the left: p <= 1/2 makes the root at least 1 / (1 + exp(rho / 2 - c)); and at least omega(x) / rho, x = c + log(rho / 2), where
omega + log omega = x, for which x - log x and exp(x) / (1 + exp(x)) are lower bounds.

Duals are never at a bound but for rounding: no example is without one. They lie within a float64 of the cap, which is near enough
(an example there has a loss of |m| cap_i, and what it lacks is exp(-37) cap_i), so that scalar runs need nothing else: theirs are
float64 whatever the weights are.
"""

from typing import NamedTuple

import numpy as np

from ..jit import jitable
from .base import BinaryLoss, bend, clip, reward, slope, step, value

NEWTON_ROUNDS = 20  # 6 do; the end is where p rises no more
LEAST_RHO = 1e-200  # stands for zero: exp(c) / 2 is then the start
FARTHEST_SCORE = 700.0  # exp of its negative is a normal number


class Logistic(NamedTuple):
    sign: np.ndarray
    cap: np.ndarray


class LogisticLoss(BinaryLoss):
    """log(1 + exp(-y z))"""

    margins = False

    smooth = True

    def of(self, sign, margin, cap):
        return Logistic(sign, cap)


@value.register(Logistic)
def _(loss, i, score):
    m = loss.sign[i] * score
    return loss.cap[i] * (max(-m, 0.0) + np.log1p(np.exp(-abs(m))))


@reward.register(Logistic)
def _(loss, i, dual):
    a, cap = loss.sign[i] * dual, loss.cap[i]
    if not 0.0 < a < cap:
        return 0.0
    small = min(a, cap - a)
    return -small * np.log(small / cap) - (cap - small) * np.log1p(-small / cap)


@slope.register(Logistic)
def _(loss, i, score):
    m = loss.sign[i] * score
    tail = np.exp(-abs(m)) / (1.0 + np.exp(-abs(m)))
    return loss.sign[i] * loss.cap[i] * (tail if m > 0.0 else 1.0 - tail)


@bend.register(Logistic)
def _(loss, i, score):
    p = 1.0 / (1.0 + np.exp(min(abs(score), FARTHEST_SCORE)))
    return loss.cap[i] * p * (1.0 - p)


@clip.register(Logistic)
def _(loss, i, dual):
    return loss.sign[i] * min(max(loss.sign[i] * dual, 0.0), loss.cap[i])


@step.register(Logistic)
def _(loss, i, score, dual, curvature):
    cap = loss.cap[i]
    if cap <= 0.0:  # an example of weight zero
        return 0.0
    rho = max(curvature * cap, LEAST_RHO)
    c = curvature * (loss.sign[i] * dual) - loss.sign[i] * score
    swapped = c > 0.5 * rho
    p = smaller_part(rho, rho - c if swapped else c)
    return loss.sign[i] * cap * (1.0 - p if swapped else p)


@jitable
def smaller_part(rho, c):
    """The root p <= 1/2 of log p - log(1 - p) + rho p = c, where c <= rho / 2."""
    x = max(c + np.log(0.5 * rho), -FARTHEST_SCORE)
    bound = x - np.log(x) if x > 1.0 else 1.0 / (1.0 + np.exp(-x))
    p = min(max(1.0 / (1.0 + np.exp(min(0.5 * rho - c, FARTHEST_SCORE))), bound / rho), 0.5)
    for _ in range(NEWTON_ROUNDS):
        new = p + (c - np.log(p) + np.log1p(-p) - rho * p) / (1.0 / p + 1.0 / (1.0 - p) + rho)
        if not new > p * (1.0 + 1e-15):
            break
        p = min(new, 0.5)
    return p
