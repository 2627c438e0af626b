"""The squared hinge loss of each label: cap_il max(0, slope)^2, the dual a >= 0 with cost a^2 / (4 cap_il)."""

from typing import NamedTuple

from ..jit import vectors
from .base import MultilabelLoss
from .multilabel_steps import Labels, lane_best, lane_clip, lane_cost, lane_slope, lane_value, serve, squared_cost
from .squared_hinge import SquaredHingeLoss


class MultilabelSquaredHinge(NamedTuple):
    labels: Labels


class MultilabelSquaredHingeLoss(MultilabelLoss):
    """max(0, slope)^2 of each label"""

    single = SquaredHingeLoss()
    steep = True

    def of(self, labels):
        return MultilabelSquaredHinge(labels)

    def at(self, margin):
        return margin * margin


@lane_value.register(MultilabelSquaredHinge)
def _(loss, slope, cap):
    violation = vectors.maximum(slope, vectors.zeros_like(loss.labels.signs.vectors))
    return vectors.multiply(cap, vectors.multiply(violation, violation))


@lane_cost.register(MultilabelSquaredHinge)
def _(loss, a, cap):
    return squared_cost(loss, a, cap)


@lane_slope.register(MultilabelSquaredHinge)
def _(loss, slope, cap):
    zero = vectors.zeros_like(loss.labels.signs.vectors)
    return vectors.multiply(vectors.fma(zero, 2.0, cap), vectors.maximum(slope, zero))


@lane_clip.register(MultilabelSquaredHinge)
def _(loss, a, cap):
    zero = vectors.zeros_like(loss.labels.signs.vectors)
    none = vectors.subtract(zero, cap)  # negative where the label takes part
    return vectors.where_negative(none, vectors.maximum(a, zero))


@lane_best.register(MultilabelSquaredHinge)
def _(loss, a, slope, curvature, cap):
    # (slope + q a) / (q + 1 / (2 cap)), written so that a cap of zero gives zero
    zero = vectors.zeros_like(loss.labels.signs.vectors)
    twice = vectors.fma(zero, 2.0, cap)
    target = vectors.maximum(vectors.add(slope, vectors.multiply(curvature, a)), zero)
    return vectors.divide(vectors.multiply(twice, target), vectors.shift(vectors.multiply(twice, curvature), 1.0))


serve(MultilabelSquaredHinge)
