"""The hinge loss of each label: cap_il max(0, slope), the dual a in [0, cap_il] without cost."""

from typing import NamedTuple

from .. import lanes
from .multilabel import FLAT, Labels, lane_best, lane_clip, lane_cost, lane_value, serve


class MultilabelHinge(NamedTuple):
    labels: Labels

    @staticmethod
    def at(slope):
        """The loss of unit weight where the slope is not negative."""
        return slope


@lane_value.register(MultilabelHinge)
def _(loss, slope, cap):
    return lanes.multiply(cap, lanes.maximum(slope, lanes.zeros_like(loss.labels.signs.lanes)))


@lane_cost.register(MultilabelHinge)
def _(loss, a, cap):
    return lanes.zeros_like(loss.labels.signs.lanes)


@lane_clip.register(MultilabelHinge)
def _(loss, a, cap):
    return lanes.minimum(lanes.maximum(a, lanes.zeros_like(loss.labels.signs.lanes)), cap)


@lane_best.register(MultilabelHinge)
def _(loss, a, slope, curvature, cap):
    zero = lanes.zeros_like(loss.labels.signs.lanes)
    step = lanes.divide(slope, lanes.maximum(curvature, lanes.shift(zero, FLAT)))
    return lanes.minimum(lanes.maximum(lanes.add(a, step), zero), cap)


serve(MultilabelHinge)
