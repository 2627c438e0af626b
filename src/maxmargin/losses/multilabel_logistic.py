"""The logistic loss of each label: cap_il log(1 + exp(slope)), slope = -y z, the dual a in [0, cap_il] with the cost

    a log(a / cap_il) + (cap_il - a) log(1 - a / cap_il).

Steps are those of `logistic`, a vector of labels at a time. There are no margins. Duals are float64: near to its cap a float32
could not tell how near.
"""

from typing import NamedTuple

import numpy as np

from ..jit import jitable, vectors
from .base import MultilabelLoss
from .logistic import FARTHEST_SCORE, LEAST_RHO, NEWTON_ROUNDS, LogisticLoss
from .multilabel_steps import Labels, lane_best, lane_clip, lane_cost, lane_slope, lane_value, serve

LEAST_PART = 1e-300  # stands for zero where its logarithm is multiplied by it


class MultilabelLogistic(NamedTuple):
    labels: Labels


class MultilabelLogisticLoss(MultilabelLoss):
    """log(1 + exp(-y z)) of each label"""

    single = LogisticLoss()
    precise = True
    margins = False

    def of(self, labels):
        none = vectors.aligned(labels.margin.vectors.shape, labels.margin.vectors.dtype)
        return MultilabelLogistic(labels._replace(margin=vectors.table(none)))

    def at(self, margin):
        return np.full_like(margin, np.log(2.0))


@jitable
def lane_log1p(u):
    """log(1 + u) of each lane, u >= -1/2: what rounding took off 1 + u is put back."""
    one = vectors.shift(vectors.subtract(u, u), 1.0)
    w = vectors.add(one, u)
    lost = vectors.subtract(u, vectors.subtract(w, one))
    return vectors.add(vectors.log(w), vectors.divide(lost, w))


@jitable
def lane_either(condition, negative, otherwise):
    """`negative` in the lanes where the condition is, else the other."""
    return vectors.add(
        vectors.where_negative(condition, negative), vectors.subtract(otherwise, vectors.where_negative(condition, otherwise))
    )


@jitable
def lane_tail(x):
    """exp(-|x|)"""
    return vectors.exp(vectors.minimum(x, vectors.subtract(vectors.subtract(x, x), x)))


@lane_value.register(MultilabelLogistic)
def _(loss, slope, cap):
    zero = vectors.zeros_like(loss.labels.signs.vectors)
    return vectors.multiply(cap, vectors.add(vectors.maximum(slope, zero), lane_log1p(lane_tail(slope))))


@lane_cost.register(MultilabelLogistic)
def _(loss, a, cap):
    zero = vectors.zeros_like(loss.labels.signs.vectors)
    least = vectors.shift(zero, LEAST_PART)
    small = vectors.maximum(vectors.minimum(a, vectors.subtract(cap, a)), zero)
    p = vectors.divide(small, vectors.maximum(cap, least))
    rest = vectors.multiply(vectors.subtract(cap, small), lane_log1p(vectors.subtract(zero, p)))
    return vectors.add(vectors.multiply(small, vectors.log(vectors.maximum(p, least))), rest)


@lane_slope.register(MultilabelLogistic)
def _(loss, slope, cap):
    one = vectors.shift(vectors.zeros_like(loss.labels.signs.vectors), 1.0)
    tail = lane_tail(slope)
    both = vectors.add(one, tail)
    return vectors.multiply(cap, lane_either(slope, vectors.divide(tail, both), vectors.divide(one, both)))


@lane_clip.register(MultilabelLogistic)
def _(loss, a, cap):
    return vectors.clamp(a, vectors.zeros_like(loss.labels.signs.vectors), cap)


@lane_best.register(MultilabelLogistic)
def _(loss, a, slope, curvature, cap):
    zero = vectors.zeros_like(loss.labels.signs.vectors)
    rho = vectors.maximum(vectors.multiply(curvature, cap), vectors.shift(zero, LEAST_RHO))
    c = vectors.add(vectors.multiply(curvature, a), slope)
    other = vectors.subtract(rho, c)
    p = lane_smaller_part(rho, vectors.minimum(c, other))
    swapped = vectors.subtract(other, c)  # negative where 1 - p is the smaller part
    return vectors.multiply(cap, lane_either(swapped, vectors.shift(vectors.subtract(zero, p), 1.0), p))


@jitable
def lane_smaller_part(rho, c):
    """`logistic.smaller_part` of each lane."""
    zero = vectors.subtract(c, c)
    one, half = vectors.shift(zero, 1.0), vectors.shift(zero, 0.5)
    halved = vectors.multiply(half, rho)
    x = vectors.maximum(vectors.add(c, vectors.log(halved)), vectors.shift(zero, -FARTHEST_SCORE))
    large = vectors.maximum(x, one)
    sigmoid = vectors.divide(one, vectors.shift(vectors.exp(vectors.subtract(zero, x)), 1.0))
    bound = lane_either(vectors.subtract(one, x), vectors.subtract(large, vectors.log(large)), sigmoid)
    p = vectors.divide(one, vectors.shift(vectors.exp(vectors.subtract(halved, c)), 1.0))
    p = vectors.minimum(vectors.maximum(p, vectors.divide(bound, rho)), half)
    for _ in range(NEWTON_ROUNDS):
        rest = vectors.subtract(one, p)
        excess = vectors.subtract(vectors.add(c, lane_log1p(vectors.subtract(zero, p))), vectors.log(p))
        excess = vectors.subtract(excess, vectors.multiply(rho, p))
        rise = vectors.add(vectors.add(vectors.divide(one, p), vectors.divide(one, rest)), rho)
        move = vectors.divide(excess, rise)
        p = vectors.minimum(vectors.add(p, vectors.maximum(move, zero)), half)
        if vectors.largest(vectors.fma(move, -1e-15, p)) <= 0.0:
            break
    return p


serve(MultilabelLogistic)
