"""The squared loss of each label: cap_il slope^2, the dual a of either sign with the cost a^2 / (4 cap_il)."""

from typing import NamedTuple

from ..jit import vectors
from .base import MultilabelLoss
from .multilabel_steps import Labels, lane_best, lane_clip, lane_cost, lane_slope, lane_value, serve, squared_cost
from .squared_error import BinarySquaredErrorLoss


class MultilabelSquaredError(NamedTuple):
    labels: Labels


class MultilabelSquaredErrorLoss(MultilabelLoss):
    """(margin - y z)^2 of each label"""

    single = BinarySquaredErrorLoss()
    steep = True

    def of(self, labels):
        return MultilabelSquaredError(labels)

    def at(self, margin):
        return margin * margin


@lane_value.register(MultilabelSquaredError)
def _(loss, slope, cap):
    return vectors.multiply(cap, vectors.multiply(slope, slope))


@lane_cost.register(MultilabelSquaredError)
def _(loss, a, cap):
    return squared_cost(loss, a, cap)


@lane_slope.register(MultilabelSquaredError)
def _(loss, slope, cap):
    return vectors.multiply(vectors.fma(vectors.zeros_like(loss.labels.signs.vectors), 2.0, cap), slope)


@lane_clip.register(MultilabelSquaredError)
def _(loss, a, cap):
    none = vectors.subtract(vectors.zeros_like(loss.labels.signs.vectors), cap)  # negative where the label takes part
    return vectors.where_negative(none, a)


@lane_best.register(MultilabelSquaredError)
def _(loss, a, slope, curvature, cap):
    # (slope + q a) / (q + 1 / (2 cap)), written so that a cap of zero gives zero
    twice = vectors.fma(vectors.zeros_like(loss.labels.signs.vectors), 2.0, cap)
    target = vectors.add(slope, vectors.multiply(curvature, a))
    return vectors.divide(vectors.multiply(twice, target), vectors.shift(vectors.multiply(twice, curvature), 1.0))


serve(MultilabelSquaredError)
