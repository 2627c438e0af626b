"""The duals of a half_spaces (sign constraints under a full prior covariance), beside the examples of a stream."""

import numpy as np

from ...data.row_sums import sum_rows
from ...jit import vectors
from ...losses.nonnegative import NonNegative, NonNegativeRow
from ...problems.linear import wall_combine
from ...regularizers.half_spaces import HalfSpaces
from ...regularizers.spaces import Free
from ..ascent.linear import ALONE, row_pass, scalar_pass
from ..ascent.schedule import gather, schedule
from ..tuning import VISITS, VisitTuning


class SideDuals:
    """One dual for each half-space, or a row of them for the classes."""

    def __init__(self, half_spaces: HalfSpaces, classes: int | None, tuning: VisitTuning = VISITS):
        self.half_spaces, self.classes, self.tuning = half_spaces, classes, tuning
        if classes is None:
            self.duals = np.zeros(half_spaces.count)
        else:
            sizes = half_spaces.count, 1, 1
            self.table, self.scores, self.change = (vectors.zeros_table(n, classes, np.float64) for n in sizes)

    @property
    def numbers(self) -> np.ndarray:
        return self.duals if self.classes is None else self.table.flat

    def climb(self, space, seed: int) -> None:
        """Visit all of them."""
        rows, curvature = self.half_spaces.rows, self.half_spaces.curvature
        plan = schedule(self.half_spaces.count, seed, tuning=self.tuning)
        visit = 0, 0, gather(plan, 0), ALONE
        if self.classes is None:
            scalar_pass(rows, NonNegative(0), space, self.duals, curvature, plan, visit, -np.inf)
        else:
            row_pass(rows, NonNegativeRow(0), space, self.table, curvature, plan, visit, (self.scores, self.change, 0.0))

    def combine(self, space: Free) -> None:
        """Add what they contribute to the weights, from scratch; they have no reward."""
        if self.classes is None:
            sum_rows(self.half_spaces.rows, self.duals, space.w, 0, self.duals.size)
        else:
            wall_combine(self.half_spaces.rows, self.table, space, self.scores)
