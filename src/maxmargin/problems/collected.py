"""Groups of listed rows, each group with one budget that is used up: outputs of structured samples that have been collected.

    P(w) = quadratic term(w) + sum_i cap_i max_j [ margin_ij - <w, x_ij> ]
    D(p) = rewards + dual(r, v),    r = sum p_ij x_ij,    p_ij >= 0,  sum_j p_ij = cap_i

Rows of a group stand one after another. An `ExplicitProblem` is this with a row of zeros, of margin zero, in each group.
"""

from dataclasses import dataclass

import numpy as np

from ..data.table import Table
from ..regularizers.base import Regularizer
from .base import PLAIN_TERM, Evaluated
from .explicit import ListedRows


@dataclass(frozen=True)
class CollectedProblem(ListedRows):
    """Rows as a dense table without a constant feature; `first` is where each group begins, no group is empty."""

    table: Table
    margin: np.ndarray
    first: np.ndarray
    weight: np.ndarray
    regularizer: Regularizer = PLAIN_TERM
    C: float = 1.0

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Of each group."""
        return np.add.reduceat(values, self.first)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """The number of each group, for each of its rows."""
        return np.repeat(values, np.diff(self.first, append=self.margin.size))

    def feasible(self, w: np.ndarray) -> np.ndarray:
        return w if self.regularizer.lower is None else np.maximum(w, self.regularizer.lower)

    def primal(self, w: np.ndarray, n_jobs: int = 1) -> float:
        excess = self.margin - self.table.matrix @ w[:-1]
        return self.regularizer.penalty(w) + float(self.cap @ np.maximum.reduceat(excess, self.first))

    def clipped(self, duals: np.ndarray) -> np.ndarray:
        """Feasible duals: negative ones at zero, and scaled to the budget; even ones where a group has none."""
        duals = np.maximum(duals, 0.0)
        duals = duals + self.spread(self.sums(duals) == 0.0)
        found: np.ndarray = duals * self.spread(self.cap / self.sums(duals))
        return found

    def evaluate(self, duals: np.ndarray) -> Evaluated:
        r = np.append(duals @ self.table.matrix, 0.0)
        v = self.regularizer.unclipped(r)
        return Evaluated(float(self.margin @ duals) + self.regularizer.dual(r, v), v)
