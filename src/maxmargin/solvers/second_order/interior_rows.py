"""The interior point for the multiclass hinge loss with costs (Crammer and Singer).

The duals of example i are b = cap e_y - p with p on the simplex of size cap, all classes counted: the room that the others leave
is the share of class y. Then  cost_y + z - nu + s = 0,  p s = mu,  and with theta = p / s the step of a row is

    dp = N (dz + h + mu/p),    N = diag(theta) - theta theta' / sum theta,   h = cost_y + z

nu is gone, since N takes what all classes have in common to zero. N is that of the multinomial loss, with theta for cap p. The
matrix of all weights, (classes x features)^2, is formed with one product of n rows.
"""

from typing import Any

import numpy as np

from ...losses.crammer_singer import CrammerSinger
from ...losses.topk_alpha import TopKAlpha
from ...losses.topk_beta import TopKBeta
from ...problems.linear import BlockProblem
from ..base import Setting, Start
from .interior_point import NO_CAP, InteriorPoint
from .run import RowShape
from .systems import RowColumns, scores_of


class RowInterior(InteriorPoint):
    """Multiclass hinge. `inside` is p, (examples that count, classes)."""

    problem: BlockProblem
    kind_of_system: type[RowColumns] = RowColumns

    def __init__(self, problem: BlockProblem, start: Start, setting: Setting):
        super().__init__(RowShape(problem), start, setting, self.system_for(problem))
        loss: CrammerSinger | TopKAlpha | TopKBeta = problem.exact_loss
        self.counted = np.flatnonzero(loss.cap > NO_CAP * loss.cap.max(initial=0.0))
        self.label, self.cap = loss.label[self.counted], loss.cap[self.counted, None]
        self.cost = self.margins()[self.label]
        self.own = np.arange(len(self.label)), self.label
        self.settle()

    def system_for(self, problem: BlockProblem) -> RowColumns:
        return self.kind_of_system(problem.table)

    def margins(self) -> np.ndarray:
        """(classes, classes)"""
        return self.problem.cost

    def settle(self) -> None:
        """From half of the cap on the class itself and the rest on the others, or from duals on the border, pulled inside."""
        classes, size = self.shape.classes, float(np.mean(self.cost.max(axis=1))) if self.cost.size else 1.0
        p = np.repeat(0.5 * self.cap / max(classes - 1, 1), classes, axis=1)
        p[self.own] = 0.5 * self.cap[:, 0]
        mu = float(np.mean(self.cap)) * size / classes if self.cap.size else size
        if self.takes_up():
            found = -self.duals[self.counted]
            found[self.own] += self.cap[:, 0]
            worth = self.worth()
            pull = self.pull(self.risk(worth))
            p = (1.0 - pull) * np.maximum(found, 0.0) + pull * p
            mu = min(mu, self.share_of_gap(worth, p) / max(sum(x.size for x in self.bounded(p)), 1))
        self.begin_at(self.bounded(p), mu, size)

    def bounded(self, p: np.ndarray) -> tuple[np.ndarray, ...]:
        """p, and what is left to further bounds of it."""
        return (p,)

    def risk(self, worth: np.ndarray) -> float:
        """The sum of the losses at W."""
        return float(self.cap[:, 0] @ (worth.max(axis=1) - worth[self.own]))

    def share_of_gap(self, worth: np.ndarray, p: np.ndarray) -> float:
        """What the losses leave of the gap of W and p."""
        return float(np.vdot(p, worth.max(axis=1, keepdims=True) - worth))

    def worth(self) -> np.ndarray:
        """cost_y + z."""
        return self.cost + scores_of(self.table, self.W)[self.counted]

    def look(self):
        self.height = self.worth()
        self.slack = self.gradient(self.stored())
        return self.problem.regularizer.penalty(self.shape.packed(self.W)) + self.risk(self.height)

    def left_by_losses(self):
        return self.share_of_gap(self.height, self.inside[0])

    def theta(self):
        return self.spread(self.inside[0] / self.against[0])

    def direction(self, targets):
        wanted = self.spread(self.rewards(targets))
        dW, change, heights = self.solved(self.slack, -self.system.applied(wanted), targets)
        return dW, [*self.moves(wanted, change), *heights]

    def rewards(self, targets: list[Any]) -> np.ndarray:
        """What each p would gain, with these products of pairs."""
        found: np.ndarray = self.height + targets[0] / self.inside[0]
        return found

    def moves(self, wanted: np.ndarray, change: np.ndarray) -> tuple[np.ndarray, ...]:
        """The steps of what is inside; `change` is that of the duals."""
        return (-change[self.counted],)

    def followed(self, change):
        return self.moves(np.zeros_like(change), change)

    def stored(self):
        duals = -self.inside[0]
        duals[self.own] = 0.0
        duals[self.own] = -duals.sum(axis=1)  # the difference cap - p_y would cancel
        return self.spread(duals)
