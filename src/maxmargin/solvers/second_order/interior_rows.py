"""The interior point for the multiclass hinge loss with costs (Crammer and Singer).

The duals of example i are b = cap e_y - p with p on the simplex of size cap, all classes counted: the room that the others leave
is the share of class y. Then  cost_y + z - nu + s = 0,  p s = mu,  and with theta = p / s the step of a row is

    dp = N (dz + h + mu/p),    N = diag(theta) - theta theta' / sum theta,   h = cost_y + z

nu is gone, since N takes what all classes have in common to zero. N is that of the multinomial loss, with theta for cap p. The
matrix of all weights, (classes x features)^2, is formed with one product of n rows.
"""

import numpy as np

from ...losses.crammer_singer import CrammerSinger
from ...problems.linear import BlockProblem
from ..base import Setting, Start
from .interior_point import NO_CAP, InteriorPoint
from .run import RowShape
from .systems import RowColumns, scores_of


class RowInterior(InteriorPoint):
    """Multiclass hinge. `inside` is p, (examples that count, classes)."""

    problem: BlockProblem

    def __init__(self, problem: BlockProblem, start: Start, setting: Setting):
        super().__init__(RowShape(problem), start, setting, RowColumns(problem.table))
        loss: CrammerSinger = problem.exact_loss
        self.counted = np.flatnonzero(loss.cap > NO_CAP * loss.cap.max(initial=0.0))
        self.label, self.cap = loss.label[self.counted], loss.cap[self.counted, None]
        self.cost = problem.cost[self.label]
        self.own = np.arange(len(self.label)), self.label
        self.settle()

    def settle(self) -> None:
        """From half of the cap on the class itself and the rest on the others, or from duals on the border, pulled inside."""
        classes, size = self.shape.classes, float(np.mean(self.cost.max(axis=1))) if self.cost.size else 1.0
        p = np.repeat(0.5 * self.cap / max(classes - 1, 1), classes, axis=1)
        p[self.own] = 0.5 * self.cap[:, 0]
        mu = float(np.mean(self.cap)) * size / classes if self.cap.size else size
        if np.any(self.duals):
            found = -self.duals[self.counted]
            found[self.own] += self.cap[:, 0]
            worth = self.worth()
            pull = self.pull(float(self.cap[:, 0] @ (worth.max(axis=1) - worth[self.own])))
            p = (1.0 - pull) * np.maximum(found, 0.0) + pull * p
            mu = min(mu, float(np.mean((worth.max(axis=1, keepdims=True) - worth) * p)))
        self.begin_at((p,), mu, size)

    def worth(self) -> np.ndarray:
        """cost_y + z."""
        return self.cost + scores_of(self.table, self.W)[self.counted]

    def look(self):
        self.height = self.worth()
        self.slack = self.gradient(self.stored())
        violation = self.height.max(axis=1) - self.height[self.own] + self.cost[self.own]
        return self.problem.regularizer.penalty(self.shape.packed(self.W)) + float(self.cap[:, 0] @ violation)

    def left_by_losses(self):
        return float(np.vdot(self.inside[0], self.height.max(axis=1, keepdims=True) - self.height))

    def theta(self):
        return self.spread(self.inside[0] / self.against[0])

    def direction(self, targets):
        p = self.inside[0]
        wanted = -self.system.applied(self.spread(self.height + targets[0] / p))
        dW, change, heights = self.solved(self.slack, wanted, targets)
        return dW, [-change[self.counted], *heights]

    def stored(self):
        duals = -self.inside[0]
        duals[self.own] = 0.0
        duals[self.own] = -duals.sum(axis=1)  # the difference cap - p_y would cancel
        return self.spread(duals)
