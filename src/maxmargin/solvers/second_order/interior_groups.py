"""The interior point for groups of listed rows, each group with one budget that is used up (`problems/collected`).

As for rows of classes (`interior_rows`), but that each row has a vector of its own, and groups are of any sizes:

    margin - x w - nu + s = 0,   p s = mu,   theta = p / s,   dp = N (margin - x w + mu/p - x dw)
    N = diag(theta) - theta theta' / sum theta,     X' N X = sum theta (x - mean)(x - mean)',   mean = sum theta x / sum theta

Near the solution one theta of a group may be beyond all others, and the mean all but its row: differences are taken to that row.
"""

import numpy as np

from ...problems.collected import CollectedProblem
from ..base import Setting, Start
from .interior_point import InteriorPoint
from .run import Shape
from .systems import FEW_SQUARES, LEAST_THETA, ColumnSystem, divided, scores_of


class GroupShape(Shape):
    problem: CollectedProblem

    def __init__(self, problem: CollectedProblem):
        self.problem, self.classes = problem, 1

    def opened(self, w):
        return np.array(w, np.float64)[None]

    def packed(self, W):
        return W[0].copy()

    def evaluated(self, duals, side_duals):
        return self.problem.evaluate(duals[:, 0])

    def at_rest(self, zeros):
        return self.evaluated(self.repaired(zeros), None)  # no row at all would not use up a budget

    def repaired(self, duals):
        return self.problem.clipped(duals[:, 0])[:, None]

    def left(self, duals):
        return self.repaired(duals)[:, 0]


class GroupColumns(ColumnSystem):
    """Features x features, of the differences to the mean of a group."""

    def __init__(self, problem: CollectedProblem):
        super().__init__(problem.table)
        self.problem, self.X = problem, np.pad(problem.table.matrix, ((0, 0), (0, 1)))

    def prepare(self, theta, B, walls=None):
        problem, flat = self.problem, theta[:, 0]
        self.total = np.maximum(problem.sums(flat), LEAST_THETA)
        highest = np.flatnonzero(flat == problem.spread(np.maximum.reduceat(flat, problem.first)))
        group = problem.spread(np.arange(problem.first.size))[highest]
        self.highest = highest[np.unique(group, return_index=True)[1]]  # the first, where several are
        apart = self.X - self.X[problem.spread(self.highest)]
        mean = np.add.reduceat(flat[:, None] * apart, problem.first) / self.total[:, None]
        self.root = np.sqrt(theta)
        self.centred = self.root * (apart - mean[problem.spread(np.arange(problem.first.size))])
        return super().prepare(theta, B, walls)

    def matrix(self):
        return self.centred.T @ self.centred

    def applied(self, u):
        u = u - u[self.problem.spread(self.highest)]
        mean = self.problem.sums((self.theta * u)[:, 0]) / self.total
        return self.balanced(self.theta * (u - self.problem.spread(mean)[:, None]))

    def balanced(self, found: np.ndarray) -> np.ndarray:
        """With each group summing to zero."""
        found[self.highest] = 0.0
        found[self.highest, 0] = -self.problem.sums(found[:, 0])
        return found

    def roots_of_losses(self):
        rows, size = self.centred.shape
        return None if (rows + size) * size**2 > FEW_SQUARES else self.centred

    def beside(self, change):
        return divided(change, self.root)

    def together(self, left):
        pushed = self.root * left
        mean = self.problem.sums(pushed[:, 0]) / self.total
        return self.balanced(pushed - self.theta * self.problem.spread(mean)[:, None])

    def bent(self, theta, u):
        total = np.maximum(self.problem.sums(theta[:, 0]), LEAST_THETA)
        mean = self.problem.sums((theta * u)[:, 0]) / total
        return float(np.vdot(theta, (u - self.problem.spread(mean)[:, None]) ** 2))


class GroupInterior(InteriorPoint):
    """`inside` is p, (rows, 1). Begins with budgets that are shared out evenly."""

    problem: CollectedProblem

    def __init__(self, problem: CollectedProblem, start: Start, setting: Setting):
        super().__init__(GroupShape(problem), start, setting, GroupColumns(problem))
        self.settle()

    def settle(self):
        even = self.problem.clipped(np.zeros(self.problem.n_examples))[:, None]
        size = float(np.mean(np.abs(self.problem.margin))) or 1.0
        self.begin_at((even,), size * float(np.mean(even)), size)

    def look(self):
        problem = self.problem
        self.height = problem.margin[:, None] - scores_of(self.table, self.W)
        self.slack = self.gradient(self.stored())
        self.worst = np.maximum.reduceat(self.height[:, 0], problem.first)
        return problem.regularizer.penalty(self.shape.packed(self.W)) + float(problem.cap @ self.worst)

    def left_by_losses(self):
        return float(np.vdot(self.inside[0][:, 0], self.problem.spread(self.worst) - self.height[:, 0]))

    def theta(self):
        return self.inside[0] / self.against[0]

    def direction(self, targets):
        wanted = self.system.applied(self.height + targets[0] / self.inside[0])
        dW, change, heights = self.solved(self.slack, wanted, targets)
        return dW, [change, *heights]

    def followed(self, change):
        return (change,)

    def stored(self):
        return self.inside[0]
