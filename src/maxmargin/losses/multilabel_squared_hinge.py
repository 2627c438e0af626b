"""The squared hinge loss of each label: cap_il max(0, slope)^2, the dual a >= 0 with cost a^2 / (4 cap_il)."""

from typing import NamedTuple

from .. import lanes
from .multilabel import FLAT, Labels, lane_best, lane_clip, lane_cost, lane_value, serve


class MultilabelSquaredHinge(NamedTuple):
    labels: Labels

    @staticmethod
    def at(slope):
        """The loss of unit weight where the slope is not negative."""
        return slope * slope


@lane_value.register(MultilabelSquaredHinge)
def _(loss, slope, cap):
    violation = lanes.maximum(slope, lanes.zeros_like(loss.labels.signs.lanes))
    return lanes.multiply(cap, lanes.multiply(violation, violation))


@lane_cost.register(MultilabelSquaredHinge)
def _(loss, a, cap):
    zero = lanes.zeros_like(loss.labels.signs.lanes)
    quarter = lanes.fma(zero, 4.0, cap)
    return lanes.divide(lanes.multiply(a, a), lanes.maximum(quarter, lanes.shift(zero, FLAT)))


@lane_clip.register(MultilabelSquaredHinge)
def _(loss, a, cap):
    zero = lanes.zeros_like(loss.labels.signs.lanes)
    none = lanes.subtract(zero, cap)  # negative where the label takes part
    return lanes.where_negative(none, lanes.maximum(a, zero))


@lane_best.register(MultilabelSquaredHinge)
def _(loss, a, slope, curvature, cap):
    # (slope + q a) / (q + 1 / (2 cap)), written so that a cap of zero gives zero
    zero = lanes.zeros_like(loss.labels.signs.lanes)
    twice = lanes.fma(zero, 2.0, cap)
    target = lanes.maximum(lanes.add(slope, lanes.multiply(curvature, a)), zero)
    return lanes.divide(lanes.multiply(twice, target), lanes.shift(lanes.multiply(twice, curvature), 1.0))


serve(MultilabelSquaredHinge)
