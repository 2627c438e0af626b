"""The top-k hinge loss, beta form: cap_i times the mean of the k largest max(0, h_j), h_j = 1 + z_j - z_y, j != y (Lapin et al.).

Duals: 0 <= a_j <= cap_i / k, sum_j a_j <= cap_i. With k = 1 it is the loss of Crammer and Singer.
"""

from typing import NamedTuple

import numpy as np

from .. import lanes
from ..levels import UNKNOWN, Box, above, level, top_sum
from .base import row_extrapolate, row_prefetch, row_repair, row_slope, row_step, row_value
from .topk import (
    Aside,
    best_row,
    ceiling,
    excess,
    extrapolated,
    floor_of,
    parts,
    repaired,
    shape_of,
    slope_of,
    smoothed,
    value_of,
)


class TopKBeta(NamedTuple):
    label: np.ndarray
    cap: np.ndarray
    k: int
    smoothing: float
    classes: int
    joint: bool
    loose: float
    margin: lanes.Table
    aside: Aside


def topk_beta(label, cap, classes: int, k: int, smoothing: float, dtype) -> TopKBeta:
    """The loss for iterations (or a certificate) in this dtype."""
    return TopKBeta(*parts(label, cap, classes, k, smoothing, False, dtype))


@shape_of.register(TopKBeta)
def _(loss, radius, bias):
    return Box(loss.k, radius, bias)


@floor_of.register(TopKBeta)
def _(loss, many, total):
    return 0.0


@excess.register(TopKBeta)
def _(loss, values, count, floor):
    if floor > 0.0 and above(values, count, 0.0, floor)[0] < loss.k:
        return np.nan
    if count == 0:
        return 0.0
    if loss.smoothing > 0.0:
        found = level(Box(loss.k, loss.smoothing, 0.0), values, count, UNKNOWN)
        return smoothed(loss, values, count, found) if found.shift + found.t >= floor else np.nan
    for j in range(count):
        values[j] = max(values[j], 0.0)
    return top_sum(values, count, min(loss.k, count))[0] / loss.k


@ceiling.register(TopKBeta)
def _(loss, values, count, cap):
    return cap / loss.k


@row_value.register(TopKBeta)
def _(loss, i, scores):
    return value_of(loss, i, scores)


@row_slope.register(TopKBeta)
def _(loss, i, scores, duals):
    return slope_of(loss, i, scores, duals)


@row_step.register(TopKBeta)
def _(loss, i, curvature, scores, duals, change, calm):
    return best_row(loss, i, curvature, scores, duals, change, calm)


@row_prefetch.register(TopKBeta)
def _(loss, i):
    lanes.prefetch(loss.label, i)
    lanes.prefetch(loss.cap, i)


@row_extrapolate.register(TopKBeta)
def _(loss, i, duals, before, t, change):
    return extrapolated(loss, i, duals, before, t, change)


@row_repair.register(TopKBeta)
def _(loss, i, duals, out):
    return repaired(loss, i, duals, out)
