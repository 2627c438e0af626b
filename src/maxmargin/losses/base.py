"""The Loss seam: what a loss must be able to do.

A loss has two forms. As users name it, it is a `Loss`: numbers of its own and no data, so that `clone` copies it. At fit its
method `of` makes the named tuple that kernels see, with the targets and caps of all examples in it; for the class of that tuple
the functions below are registered. Weights and C are part of the caps, so that sums need no further factors.

Two families share one shape. A *scalar* loss sees one score z = <w, x_i> and has one dual b_i, with v = sum_i b_i x_i.
A *block* loss sees a row of class scores and has a row of duals, held as lane arrays. In both, by Fenchel and Young,

    gap_i = value(z) - reward(b) + b z  >= 0,        P - D = sum_i gap_i   at  w = w(b),

so that each example knows its own share of the duality gap.
"""

from abc import ABC, abstractmethod
from copy import deepcopy
from functools import singledispatch
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..jit import generic

BOUNDLESS = 1e30  # stands for infinity where a product with zero must be zero, and squares must be finite


class Loss(BaseEstimator, ABC):
    """A loss as users name it."""

    smooth = False  # whether it is differentiable; what `of` makes then has `slope` and `bend`, or `row_bend` and `row_within`
    parabolic = False  # whether its second derivative is the same everywhere
    steep = False  # whether slopes grow with the scores: steps of stochastic gradient descent may then lead away
    precise = False  # whether rows of its duals need float64: float32 holds none that is very near to its bound
    margins = True  # whether it has margins, which `cost` is about
    exchanges = False  # whether the duals of a row are parts of its cap, whose reward is the cost of their class
    # Whether few classes of a row have duals, and one whose score is very low gets none; what `of` makes then has `row_label`,
    # `for_few` and `take_few`.
    selective = False
    quadratic = False  # whether the reward of its one dual consists of quadratic pieces, and `piece` is registered


class BinaryLoss(Loss):
    """A loss of one score, for two classes. What `of` makes needs `value`, `reward`, `step`, `clip`; `slope` for planes."""

    @abstractmethod
    def of(self, sign: np.ndarray, margin: np.ndarray, cap: np.ndarray) -> Any:
        """What kernels see: of each example its class as +1 or -1, the margin it must keep, and C s_i."""


class RegressionLoss(Loss):
    """A loss of one score, for real targets; as `BinaryLoss`."""

    @abstractmethod
    def of(self, target: np.ndarray, cap: np.ndarray) -> Any:
        """What kernels see: of each example its target, and C s_i."""


class MulticlassLoss(Loss):
    """A loss of a row of class scores. What `of` makes needs `row_value`, `row_step`, `row_extrapolate` and `row_repair`;
    `row_slope` for planes."""

    @abstractmethod
    def of(self, label: np.ndarray, cost: np.ndarray, cap: np.ndarray, dtype: Any) -> Any:
        """What kernels see, for iterations or certificates in this dtype: of each example the number of its class and C s_i;
        cost[y, j] is the margin that class y must keep from class j."""


class MultilabelLoss(Loss):
    """A loss of each label of an example, taken a vector at a time; `multilabel_steps` says what `of` needs to make."""

    single: BinaryLoss | None = None  # the same loss of one label, which models with a kernel take

    @abstractmethod
    def of(self, labels: Any) -> Any:
        """What kernels see, from `multilabel_steps.Labels`."""

    @abstractmethod
    def at(self, margin: np.ndarray) -> np.ndarray:
        """The loss of unit weight at a score of zero."""


@generic
def value(loss: Any, i: int, score: float) -> Any:
    """The loss of example i, weighted, at this score."""


@generic
def reward(loss: Any, i: int, dual: float) -> Any:
    """What example i adds to the dual value: min_z value(z) + dual z, for feasible duals; 0 for the dual 0."""


@generic
def slope(loss: Any, i: int, score: float) -> Any:
    """The dual b at which the loss is attained: value(score) = reward(b) - b score, so that -b is its derivative."""


@generic
def bend(loss: Any, i: int, score: float) -> Any:
    """The second derivative of the loss at this score; where it jumps, that of either side."""


@generic
def step(loss: Any, i: int, score: float, dual: float, curvature: float) -> Any:
    """The dual of example i that is best with all others fixed: new, with the largest reward(new) - (new - dual) score -
    curvature (new - dual)^2 / 2; curvature = ||x_i||^2, which may be 0. For a cap of 0 it is 0."""


@generic
def clip(loss: Any, i: int, dual: float) -> Any:
    """The nearest feasible dual: one for which the minimum in `reward` is finite."""


@generic
def piece(loss: Any, i: int, score: float, dual: float) -> Any:
    """The quadratic piece of the reward that the dual lies on, linear b - soft b^2 / 2 for b in [low, high]: low, high, linear
    and soft. Where two pieces meet it is the one that the score points to. A side without a bound has `BOUNDLESS`."""


@generic
def row_value(loss: Any, i: int, scores: Any) -> Any:
    """The loss of example i, weighted, at a row of scores. May overwrite them."""


@generic
def row_slope(loss: Any, i: int, scores: Any, duals: Any) -> Any:
    """Write the row of duals at which the loss is attained to duals[0], as `slope`; returns the loss and their reward.

    May overwrite `scores`, needs no other room.
    """


@generic
def row_bend(loss: Any, i: int, slopes: Any, along: Any) -> Any:
    """Multiply the row along[0] by the second derivatives of the loss of example i where the slopes are those of slopes[0]. May
    overwrite these."""


@generic
def row_within(loss: Any, i: int, slopes: Any, duals: Any) -> Any:
    """Draw any row of duals[0] so near to the slopes[0] that it is feasible, and of each class no nearer to a bound than half of
    these. May overwrite the slopes."""


@generic
def row_step(loss: Any, i: int, curvature: float, scores: Any, duals: Any, change: Any, calm: float) -> Any:
    """Put the best row of duals of example i in place and the difference into `change`. Overwrites `scores`.

    Leaves everything as it is where the example's share of the gap is at most `calm`. Returns that share (before the
    step), whether a step was made and the change of the reward.
    """


@generic
def row_prefetch(loss: Any, i: int) -> Any:
    """Ask for what `row_step` reads of example i, ahead of the visit."""


@row_prefetch.register(object)
def _(loss: Any, i: int) -> None:
    pass


@generic
def row_extrapolate(loss: Any, i: int, duals: Any, before: Any, t: float, change: Any) -> Any:
    """Put a feasible row near duals + t (duals - before) in place of the duals, and the duals in place of `before`.

    What the row lacks of that point goes into `change`. Returns whether it lacks anything and the change of the reward.
    """


@generic
def row_label(loss: Any, i: int) -> Any:
    """The class of example i, which has a dual where any other has; of losses that are selective."""


@row_label.register(object)
def _(loss: Any, i: int) -> int:
    return -1


@singledispatch
def for_few(loss: Any, most: int) -> Any:
    """A selective loss as kernels see it, of one example with so many classes at the most, which `take_few` makes."""
    return loss


@generic
def take_few(loss: Any, i: int, place: int, which: Any, few: Any) -> Any:
    """Make `few` (`for_few`) the loss of example i alone where only these classes are, its own at this place."""


@take_few.register(object)
def _(loss: Any, i: int, place: int, which: Any, few: Any) -> None:
    pass


@generic
def row_repair(loss: Any, i: int, duals: Any, out: Any) -> Any:
    """Write the feasible float64 duals nearest to the stored ones to out[0]; returns their reward."""


@singledispatch
def own_scratch(loss: Any) -> Any:
    """A loss as kernels see it, once more, for another thread: with scratch of its own. Losses without any are shared."""
    return deepcopy(loss)
