"""The duals of a fence (sign constraints under a full prior covariance), beside the examples of a stream."""

import numpy as np

from .. import lanes
from ..fence import Fence
from ..losses.nonnegative import NonNegative, NonNegativeRow
from ..problem import scalar_combine, wall_combine
from ..regularizer import Free
from .ascent import row_pass, scalar_pass
from .schedule import gather, schedule


class Walls:
    """One dual for each half-space, or a row of them for the classes."""

    def __init__(self, fence: Fence, classes: int | None):
        self.fence, self.classes = fence, classes
        if classes is None:
            self.duals = np.zeros(fence.count)
        else:
            self.table, self.scores, self.change = (lanes.zeros_table(n, classes, np.float64) for n in (fence.count, 1, 1))

    def climb(self, space, seed: int) -> None:
        """Visit all of them."""
        rows, curvature, plan = self.fence.rows, self.fence.curvature, schedule(self.fence.count, seed)
        visit = 0, 0, gather(plan, 0)
        if self.classes is None:
            scalar_pass(rows, NonNegative(0), space, self.duals, curvature, plan, visit, -np.inf)
        else:
            row_pass(rows, NonNegativeRow(0), space, self.table, curvature, plan, visit, (self.scores, self.change, 0.0))

    def combine(self, space: Free) -> None:
        """Add what they contribute to the weights, from scratch; they have no reward."""
        if self.classes is None:
            scalar_combine(self.fence.rows, NonNegative(0), self.duals, space)
        else:
            wall_combine(self.fence.rows, self.table, space, self.scores)
