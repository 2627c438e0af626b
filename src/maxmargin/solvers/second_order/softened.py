"""The multiclass hinge loss, its maximum softened: Newton's method on the primal, where a target is not fine.

    T log sum_k exp((cost_yk + z_k) / T) - z_y       instead of the largest of cost_yk + z_k - z_y

Its slopes are duals cap (e_y - q) of the hinge loss itself, with q = softmax((cost_y + z) / T). What they leave of its gap is

    sum_i cap_i sum_k q_ik (highest_i - cost_yk - z_k)   +   half the square of the gradient

The first falls as the square of T, as only classes within about T of the highest count: an interior point, whose pairs all leave
the same, has to go much further down to the same gap. The second ends with Newton's method at that T. So T falls while the first
is above a part of the target, each time that a step has gone well. Where a tiny T would be needed, steps become short; there the
interior point is better.
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

# T at first, of the size of costs, and what is left of it where it falls; the least part of a step after which it does; the part
# of the target that the losses may leave at the last T; and the finest target. Letter, raw, C = 0.01 to 1e4, 2026-11-16.
FIRST_T, LESS_T, WELL, LEFT, FINEST = 0.1, 0.3, 0.3, 0.7, 1e-5
LEAST_T = 1e-8  # of the size of costs: scores that differ by less are rounding
MOST_STEPS = 60  # after which the interior point is tried


class SoftenedRows(SmoothRun):
    """Newton's method with T, which falls."""

    held = (*SmoothRun.held, "T")
    problem: BlockProblem

    def __init__(self, problem: BlockProblem, start: Start, setting: Setting):
        super().__init__(RowShape(problem), start, setting, RowColumns(problem.table))
        loss: CrammerSinger = problem.exact_loss
        self.cap, self.own, self.cost = loss.cap, (np.arange(len(loss.label)), loss.label), problem.cost[loss.label]
        self.size_of_costs = float(np.mean(self.cost.max(axis=1))) if self.cost.size else 1.0
        self.T = FIRST_T * self.size_of_costs
        self.settle()
        gap = self.primal_here() - self.highest
        while np.any(self.W) and self.T > LEAST_T * self.size_of_costs and self.left_by_losses() > gap:
            self.T *= LESS_T  # a start that is good is not given away

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
        self.left = self.left_by_losses()
        self.note(self.primal_here(), self.slack, self.left, self.left)
        self.idle = 0  # its gap rises now and then, and its steps are counted

    def step(self):
        went = super().step()
        target = self.tol * abs(self.lowest)
        more = self.left > LEFT * target or self.estimate <= target  # the latter where weights have to be those of the duals
        if went and self.far >= WELL and self.descent < self.left and more:
            self.T *= LESS_T
            self.looked = False
        return went


class SoftFirst(SmoothFirst, RowInterior):
    """That, and the interior point where it is not enough."""

    def __init__(self, problem: BlockProblem, start: Start, setting: Setting):
        super().__init__(problem, start, setting)
        newton = SoftenedRows(problem, start, setting)
        newton.share(self.system)
        self.begin_first(newton)

    def settle(self):
        if not self.first:
            RowInterior.settle(self)

    def gives_up(self, went):
        least = LEAST_T * self.newton.size_of_costs
        return not went or self.newton.steps >= MOST_STEPS or self.newton.T < least


def row_run(problem: BlockProblem, start: Start, setting: Setting) -> SecondOrderRun:
    """A run on the multiclass hinge loss."""
    free = problem.regularizer.lower is None and problem.half_spaces is None
    return (SoftFirst if free and setting.tol >= FINEST else RowInterior)(problem, start, setting)
