"""The multiclass hinge loss, its maximum softened: Newton's method on the primal, where a target is not fine.

    T log sum_k exp((cost_yk + z_k) / T) - z_y       instead of the largest of cost_yk + z_k - z_y

Its slopes are duals cap (e_y - q) of the hinge loss itself, with q = softmax((cost_y + z) / T). What they leave of its gap is

    sum_i cap_i sum_k q_ik (highest_i - cost_yk - z_k)   +   half the square of the gradient

The first falls as the square of T, as only classes within about T of the highest count: an interior point, whose pairs all leave
the same, has to go much further down to the same gap. The second ends with Newton's method at that T. So T falls while the first
is above a part of the target, each time that a step has gone well. Where a tiny T would be needed, as almost no row loses
anything, steps become short; there the interior point is better, and where pairs of rows and classes are few.
"""

import numpy as np

from ...losses.crammer_singer import CrammerSinger
from ...problems.linear import BlockProblem
from ..base import Setting, Start
from .interior_rows import RowInterior
from .run import RowShape, SecondOrderRun
from .smooth import SmoothRun
from .smooth_first import SmoothFirst
from .systems import RowColumns
from .wide_rows import OF_WIDE, PairColumns, WideInterior, has_many_columns, mean_size

# T at first, of the size of costs, and what is left of it where it falls; the least part of a step after which it does; the part
# of the target that the losses may leave at the last T; and the finest target. Letter, raw, C = 0.01 to 1e4, 2026-11-16.
FIRST_T, LESS_T, WELL, LEFT, FINEST_TARGET = 0.1, 0.3, 0.3, 0.7, 1e-5
LEAST_T = 1e-8  # of the size of costs
# Steps after which the interior point is tried, and pairs of rows and classes from which on it is not tried first: it needs 26
# steps for 26,000 of letter's, 32 for 78,000 and 57 for all 390,000, of which this needs 12. C = 100, 2026-11-16.
MOST_STEPS, MANY_PAIRS = 30, 50_000

SHORT_IN_A_ROW = 3  # in a row that say that all will be short. Digits in 14 x 14 pixels and 6,000 x 130, normal, 2026-11-17
# Mean of cap ||x||^2 above which these steps end short of the target wherever they were tried, with many columns: digits of
# 0..255 under a random map to 130 columns, with noise (3.5 did not, 350 to 3.5e6 did), and made pixels, 6,000 x 150 (1 to 1e6
# did). 2026-11-17.
LARGE_ROWS = 30.0


class SoftenedRows(SmoothRun):
    """Newton's method with T, which falls."""

    held = (*SmoothRun.held, "T", "far", "descent", "lost", "estimate")
    problem: BlockProblem
    lost = 0.0  # what the losses leave of the gap

    def __init__(self, problem: BlockProblem, start: Start, setting: Setting):
        super().__init__(RowShape(problem), start, setting, RowColumns(problem.table))
        loss: CrammerSinger = problem.exact_loss
        self.cap, self.own, self.cost = loss.cap, (np.arange(len(loss.label)), loss.label), problem.cost[loss.label]
        self.size_of_costs = float(np.mean(self.cost.max(axis=1))) or 1.0
        self.T = FIRST_T * self.size_of_costs
        self.settle()
        gap = self.primal_here() - self.highest
        while np.any(self.W) and not self.tiny and self.left_by_losses() > gap:
            self.T *= LESS_T  # a start that is good is not given away

    @property
    def tiny(self) -> bool:
        """Whether T is so small that scores which differ by it are rounding."""
        return bool(self.T / self.size_of_costs < LEAST_T)

    def losses(self, scores):
        return float(self.cap @ ((self.cost + scores).max(axis=1) - scores[self.own]))

    def softmax(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """q, and by how much cost + z is below the highest."""
        below = self.cost + scores
        below = below.max(axis=1, keepdims=True) - below
        q = np.exp(below / -self.T)
        q /= q.sum(axis=1, keepdims=True)
        return q, below

    def slopes(self, scores):
        duals = self.softmax(scores)[0]
        duals *= -self.cap[:, None]
        theta = duals / -self.T
        duals[self.own] = 0.0
        duals[self.own] = -duals.sum(axis=1)
        return duals, theta

    def left_by_losses(self) -> float:
        """What the losses leave of the gap at the point as it stands."""
        q, below = self.softmax(self.scores)
        q *= below
        return float(self.cap @ q.sum(axis=1))

    def arrive(self):
        self.see()
        self.lost = self.left_by_losses()
        self.note(self.primal_here(), self.slack, self.lost, self.lost)
        self.idle = 0  # its gap rises now and then, and its steps are counted

    def step(self):
        if self.far >= WELL and self.descent < self.lost and self.more_to_do():
            self.T *= LESS_T
            self.looked = False
        return super().step()

    def more_to_do(self) -> bool:
        """Whether the losses leave too much, or more than this gap is asked for: weights that are those of the duals."""
        target = self.tol * abs(self.lowest)
        return self.lost > LEFT * target or self.estimate <= target


class SoftFirst(SmoothFirst, RowInterior):
    """That, and the interior point where it is not enough."""

    newton: SoftenedRows

    def __init__(self, problem: BlockProblem, start: Start, setting: Setting):
        super().__init__(problem, start, setting)
        newton = SoftenedRows(problem, start, setting)
        newton.share(self.system)
        self.begin_first(newton)

    def settle(self):
        if not self.first:
            super().settle()

    def gives_up(self, went):
        return not went or self.newton.steps >= MOST_STEPS or self.newton.tiny


class WideFirst(SoftFirst, WideInterior):
    """The same with many columns: the interior point is tried as soon as steps are short, as they stay so then."""

    held = (*SoftFirst.held, "stalled", "gone", *OF_WIDE)
    stalled = 0  # steps in a row after which T could not fall

    def system_for(self, problem):
        return PairColumns(problem.table, problem.exact_loss.label, problem.n_classes)

    def gives_up(self, went):
        self.stalled = 0 if self.newton.far >= WELL else self.stalled + 1
        return super().gives_up(went) or self.stalled >= SHORT_IN_A_ROW


def row_run(problem: BlockProblem, start: Start, setting: Setting) -> SecondOrderRun:
    """A run on the multiclass hinge loss."""
    free = problem.regularizer.lower is None and problem.half_spaces is None
    many = problem.n_examples * problem.n_classes >= MANY_PAIRS
    if not (free and many and setting.tol >= FINEST_TARGET):
        return RowInterior(problem, start, setting)
    if not has_many_columns(problem):
        return SoftFirst(problem, start, setting)
    return (WideInterior if has_large_rows(problem) else WideFirst)(problem, start, setting)


def is_wide_and_large(problem: BlockProblem) -> bool:
    """Whether the interior point for many columns is all there is: coordinates would crawl as well."""
    return has_many_columns(problem) and has_large_rows(problem)


def has_large_rows(problem: BlockProblem) -> bool:
    """Whether a step with a softened maximum would change scores by much more than costs."""
    return mean_size(problem) > LARGE_ROWS
