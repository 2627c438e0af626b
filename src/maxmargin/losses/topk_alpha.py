"""The top-k hinge loss, alpha form: cap_i max(0, mean of the k largest h_j), h_j = 1 + z_j - z_y, j != y (Lapin et al. 2015).

Duals: a_j >= 0, a_j <= s / k, s = sum_j a_j <= cap_i. With k = 1 it is the loss of Crammer and Singer.
"""

from typing import NamedTuple

import numpy as np

from ..jit import vectors
from ..projections.newton import UNKNOWN, TopK, above, finite, level, top_sum
from .topk_steps import (
    SAFER,
    SHORTLIST,
    Aside,
    Shortlist,
    TopKLoss,
    ceiling,
    excess,
    floor_of,
    parts,
    register_rows,
    shape_of,
    smoothed,
)


class TopKAlpha(NamedTuple):
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


def topk_alpha(label, cap, classes: int, k: int, smoothing: float, dtype, shortlist: Shortlist = SHORTLIST) -> TopKAlpha:
    """The loss for iterations (or a certificate) in this dtype."""
    return TopKAlpha(*parts(label, cap, classes, k, smoothing, True, dtype, shortlist))


class TopKAlphaLoss(TopKLoss):
    """The top-k hinge loss, alpha form."""

    def of(self, label, cost, cap, dtype):
        return topk_alpha(label, cap, cost.shape[0], self.k, self.smoothing, dtype)


@shape_of.register(TopKAlpha)
def _(loss, radius, bias):
    return TopK(loss.k, radius, bias)


@floor_of.register(TopKAlpha)
def _(loss, many, total):
    return 0.0 if many >= loss.k and loss.smoothing == 0.0 else -SAFER * total


@excess.register(TopKAlpha)
def _(loss, values, count, floor):
    many, over = above(values, count, 0.0, floor) if finite(floor) else (np.float64(count), 0.0)
    if many < loss.k:
        return 0.0 if loss.k * floor + over <= 0.0 else np.nan
    if loss.smoothing == 0.0:
        return max(top_sum(values, count, loss.k)[0], 0.0) / loss.k
    found = level(TopK(loss.k, loss.smoothing, 0.0), values, count, UNKNOWN)
    return smoothed(loss, values, count, found) if found.cap == 0.0 or found.shift + found.t >= floor else np.nan


@ceiling.register(TopKAlpha)
def _(loss, values, count, cap):
    """sum_j min(a_j, c) - k c is concave in c and zero at c = 0: Newton from the right finds its other root."""
    if count < loss.k:
        return 0.0
    c = 0.0
    for j in range(count):
        c = max(c, values[j])
    for _ in range(loss.k):  # c falls only where more values exceed it, and k are too many
        over, rest, total = 0, 0.0, 0.0
        for j in range(count):
            over += values[j] > c
            total += min(values[j], c)
            rest += values[j] if values[j] <= c else 0.0
        if total >= loss.k * c or over >= loss.k:
            break
        new = rest / (loss.k - over)
        if new >= c:  # the root, up to rounding
            break
        c = new
    return c


register_rows(TopKAlpha)
