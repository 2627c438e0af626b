"""Not a loss but a wall: <w, x> >= 0 for every row, or for every class of a row. The dual b >= 0 has no reward and no
upper bound.

Used for sign constraints under a full prior covariance, where they are half-spaces in the coordinates of the solver.
"""

from typing import NamedTuple

import numpy as np

from ..jit import vectors
from .base import clip, reward, row_step, step, value


class NonNegative(NamedTuple):
    rows: int


class NonNegativeRow(NamedTuple):
    rows: int


@value.register(NonNegative)
def _(loss, i, score):
    return 0.0


@reward.register(NonNegative)
def _(loss, i, dual):
    return 0.0


@clip.register(NonNegative)
def _(loss, i, dual):
    return max(dual, 0.0)


@step.register(NonNegative)
def _(loss, i, score, dual, curvature):
    return max(dual - score / curvature, 0.0)


@row_step.register(NonNegativeRow)
def _(loss, i, curvature, scores, duals, change, calm):
    zero, linear = vectors.zeros_like(scores.vectors), vectors.zeros_like(scores.vectors)
    for b in range(scores.vectors.shape[1]):
        held, score = vectors.load(duals.vectors, i, b), vectors.load(scores.vectors, 0, b)
        linear = vectors.add(linear, vectors.multiply(held, score))
        new = vectors.maximum(vectors.fma(held, -1.0 / curvature, score), zero)
        difference = vectors.subtract(new, held)
        vectors.store(duals.vectors, i, b, new)
        vectors.store(change.vectors, 0, b, difference)
    return np.float64(vectors.total(linear)), True, 0.0
