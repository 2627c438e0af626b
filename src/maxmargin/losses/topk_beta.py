"""The top-k hinge loss, beta form: cap_i times the mean of the k largest max(0, h_j), h_j = 1 + z_j - z_y, j != y (Lapin et al.).

Duals: 0 <= a_j <= cap_i / k, sum_j a_j <= cap_i. With k = 1 it is the loss of Crammer and Singer.
"""

from typing import NamedTuple

import numpy as np

from ..jit import vectors
from ..projections.newton import UNKNOWN, Box, above, level, top_sum
from .topk_steps import SHORTLIST, Aside, Shortlist, TopKLoss, ceiling, excess, floor_of, parts, register_rows, shape_of, smoothed


class TopKBeta(NamedTuple):
    label: np.ndarray
    cap: np.ndarray
    k: int
    smoothing: float
    classes: int
    joint: bool
    loose: float
    margin: vectors.VectorTable
    aside: Aside
    shortlist: Shortlist


def topk_beta(label, cap, classes: int, k: int, smoothing: float, dtype, shortlist: Shortlist = SHORTLIST) -> TopKBeta:
    """The loss for iterations (or a certificate) in this dtype."""
    return TopKBeta(*parts(label, cap, classes, k, smoothing, False, dtype, shortlist))


class TopKBetaLoss(TopKLoss):
    """The top-k hinge loss, beta form."""

    def of(self, label, cost, cap, dtype):
        return topk_beta(label, cap, cost.shape[0], self.k, self.smoothing, dtype)


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


register_rows(TopKBeta)
