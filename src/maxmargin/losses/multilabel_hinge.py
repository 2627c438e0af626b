"""The hinge loss of each label: cap_il max(0, slope), the dual a in [0, cap_il] without cost."""

from typing import NamedTuple

from ..jit import vectors
from .base import MultilabelLoss
from .hinge import HingeLoss
from .multilabel_steps import NO_CURVATURE, Labels, lane_best, lane_clip, lane_cost, lane_slope, lane_value, serve


class MultilabelHinge(NamedTuple):
    labels: Labels


class MultilabelHingeLoss(MultilabelLoss):
    """max(0, slope) of each label"""

    single = HingeLoss()

    def of(self, labels):
        return MultilabelHinge(labels)

    def at(self, margin):
        return margin


@lane_value.register(MultilabelHinge)
def _(loss, slope, cap):
    return vectors.multiply(cap, vectors.maximum(slope, vectors.zeros_like(loss.labels.signs.vectors)))


@lane_cost.register(MultilabelHinge)
def _(loss, a, cap):
    return vectors.zeros_like(loss.labels.signs.vectors)


@lane_slope.register(MultilabelHinge)
def _(loss, slope, cap):
    return vectors.where_negative(vectors.subtract(vectors.zeros_like(loss.labels.signs.vectors), slope), cap)


@lane_clip.register(MultilabelHinge)
def _(loss, a, cap):
    return vectors.minimum(vectors.maximum(a, vectors.zeros_like(loss.labels.signs.vectors)), cap)


@lane_best.register(MultilabelHinge)
def _(loss, a, slope, curvature, cap):
    zero = vectors.zeros_like(loss.labels.signs.vectors)
    step = vectors.divide(slope, vectors.maximum(curvature, vectors.shift(zero, NO_CURVATURE)))
    return vectors.minimum(vectors.maximum(vectors.add(a, step), zero), cap)


serve(MultilabelHinge)
