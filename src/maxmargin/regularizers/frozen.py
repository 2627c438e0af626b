"""Duals that stay as they are: what `partial_fit` remembers of examples that memory has no room for, and of those of a `fit`.

With r = sum_i b_i x_i over them they are to the others a prior mean, moved by variance * r, and a constant: whatever the weights,

    sum_i cap_i loss_i(w)  >=  sum_i reward_i(b_i) - w . r
"""

from dataclasses import dataclass

import numpy as np

from .base import Regularizer
from .gaussian import Gaussian


@dataclass(frozen=True)
class Frozen(Gaussian):
    """A quadratic term whose values count frozen duals, so that solvers, records and certificates speak of the whole.

    Duals are feasible at one C: the term belongs to that.
    """

    constant: float = 0.0
    belongs_to: float | None = None

    def penalty(self, w: np.ndarray) -> float:
        return super().penalty(w) + self.constant

    def dual(self, r: np.ndarray, v: np.ndarray) -> float:
        return super().dual(r, v) + self.constant


def sums_of(regularizer: Regularizer, dual: float, v: np.ndarray) -> tuple[np.ndarray, float]:
    """r and the reward of duals, from the value that they have under this term and the unclipped weights that they stand for."""
    r = regularizer.summed(v)
    return r, dual - regularizer.dual(r, v)


def frozen(regularizer: Regularizer, r: np.ndarray, reward: float, C: float) -> Frozen:
    """The term with duals that sum up to r and have this reward, at this C."""
    mean = regularizer.unclipped(r)
    moved = mean if regularizer.mean is None else mean - regularizer.mean
    start = 0.0 if regularizer.mean is None else float(np.vdot(regularizer.mean, r))
    constant = reward - 0.5 * float(np.vdot(moved, r)) - start
    return Frozen(mean, regularizer.variance, regularizer.lower, constant, C)
