"""The generalised SVM with its constraints listed one by one (Ramanan 2013, equation 1).

    1/2 ||w||^2 + C sum_i s_i max(0, max_j margin_ij - <w, x_ij>)

Row r of X is x_ij, `groups[r]` names its example i: the rows of one example share one slack, so their duals share one budget,
sum_j a_ij <= C s_i.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.utils import check_array

from ..data.matrices import checked_matrix, numbers
from ..data.mistakes import check_table
from ..data.row_sums import sum_rows
from ..data.rows import column_sizes, dot
from ..data.table import Table, table_of
from ..jit import kernel
from ..regularizers.base import Regularizer
from ..regularizers.half_spaces import HalfSpaces
from ..regularizers.prior import Prior
from ..regularizers.spaces import Free, move
from .base import PLAIN_TERM, Evaluated, Problem
from .linear import piecewise


class ExplicitProblem:
    """Constraints given as a list.

    Parameters
    ----------
    X : array or CSR matrix of shape (rows, features)
        One row a constraint: the vector x_ij.
    margins : array of shape (rows,)
        The margins l_ij.
    groups : array of shape (rows,), optional
        The example each row belongs to, any labels; rows of one example share a slack. None: every row is an example.
    weights : array of shape (examples,), optional
        Weights s_i of the examples, in the sorted order of their labels.
    positive, prior_mean, prior_scale, prior_covariance
        As in `SVMClassifier`.
    """

    def __init__(
        self,
        X,
        margins,
        groups=None,
        *,
        weights=None,
        positive=False,
        prior_mean=None,
        prior_scale=None,
        prior_covariance=None,
    ):
        check_table(X)
        self.X = checked_matrix(check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", input_name="X"))
        n, features = self.X.shape
        self.margins = numbers("margins", margins).ravel()
        if self.margins.size != n:
            raise ValueError(f"margins has {self.margins.size} entries but X has {n} rows; each row needs its margin.")
        names = np.arange(n) if groups is None else np.asarray(groups)
        if names.shape != (n,):
            raise ValueError(f"groups has shape {names.shape} but must name the example of each of the {n} rows of X.")
        if names.dtype.kind == "f" and np.any(np.isnan(names)):
            raise ValueError("groups must name an example for each row; it holds NaN.")
        self.groups, self.group = np.unique(names, return_inverse=True)
        count = len(self.groups)
        self.weights = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64)
        if self.weights.shape != (count,) or not np.all(np.isfinite(self.weights)) or np.any(self.weights < 0):
            raise ValueError(f"weights must be {count} finite numbers >= 0, one for each example in groups.")
        self.prior = Prior(positive, prior_mean, prior_scale, prior_covariance).checked(features, None)

    @cached_property
    def posed(self) -> "GroupedProblem":
        """The problem as a solver takes it, at C = 1."""
        X, regularizer, half_spaces = self.prior.applied(self.X, None)
        members = np.argsort(self.group, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.group, minlength=len(self.groups)))])
        layout = members, starts
        return GroupedProblem(table_of(X), self.margins, self.group, layout, self.weights, regularizer, half_spaces)

    def bind(self, C: float) -> "GroupedProblem":
        """The problem at this C, as a solver takes it."""
        return self.posed.at(C)

    def weights_of(self, w: np.ndarray) -> np.ndarray:
        """The user's weights from the solver's."""
        return self.prior.back(w)[:-1]


@kernel
def grouped_risk(X, margin, layout, cap, w, start, stop):
    members, starts = layout
    total = 0.0
    for i in range(start, stop):
        worst = 0.0
        for k in range(starts[i], starts[i + 1]):
            r = members[k]
            worst = max(worst, margin[r] - dot(X, r, w))
        total += cap[i] * worst
    return total


@kernel
def grouped_combine(X, margin, duals, space):
    total = 0.0
    for r in range(duals.size):
        if duals[r] != 0.0:
            move(space, X, r, duals[r])
            total += margin[r] * duals[r]
    return total


class ListedRows(Problem):
    """What problems of listed rows have in common: a margin and a dual for each row, a weight for each group of them."""

    table: Table
    margin: np.ndarray

    @property
    def n_examples(self) -> int:
        """The number of rows: what a pass visits."""
        return self.margin.size

    @property
    def n_parts(self) -> int:
        return self.weight.size

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (self.table.shape[1] + 1,)

    @property
    def dual_shape(self) -> tuple[int, ...]:
        return self.margin.shape

    def column_sizes(self):
        return column_sizes(self.table.rows)


@dataclass(frozen=True)
class GroupedProblem(ListedRows):
    """An `ExplicitProblem` as solvers see it. `layout`: the rows sorted by example, and where each example begins."""

    table: Table
    margin: np.ndarray
    group: np.ndarray
    layout: tuple[np.ndarray, np.ndarray]
    weight: np.ndarray
    regularizer: Regularizer = PLAIN_TERM
    half_spaces: HalfSpaces | None = None
    C: float = 1.0

    @property
    def X(self):  # noqa: N802 - a matrix, as everywhere
        """The rows as kernels take them."""
        return self.table.rows

    @property
    def curvature(self) -> np.ndarray:
        return self.table.norms(self.regularizer.variance)

    def resumed(self, duals, weights, data, kind):
        fits = isinstance(duals, np.ndarray) and duals.shape == self.dual_shape
        return (self.repaired(duals), self.fitting(weights)) if fits else (None, None)

    def feasible(self, w: np.ndarray) -> np.ndarray:
        return w if self.half_spaces is None else self.half_spaces.feasible(w)

    def primal(self, w: np.ndarray, n_jobs: int = 1) -> float:
        def part(start: int, stop: int) -> float:
            return grouped_risk(self.X, self.margin, self.layout, self.cap, w, start, stop)

        return self.regularizer.penalty(w) + piecewise(part, self.cap.size, n_jobs)

    def repaired(self, duals: np.ndarray) -> np.ndarray:
        """Feasible duals: negative ones at zero, and scaled down where an example is over its budget."""
        duals = np.maximum(duals, 0.0)
        mass = np.bincount(self.group, duals, minlength=self.cap.size)
        shrink = np.divide(self.cap, mass, out=np.ones_like(mass), where=mass > self.cap)
        return duals * shrink[self.group]

    def clipped(self, duals: np.ndarray) -> np.ndarray:
        return self.repaired(duals)

    def evaluate(self, duals: np.ndarray, side_duals: np.ndarray | None = None) -> Evaluated:
        space = Free(np.zeros(self.weight_shape))
        total = grouped_combine(self.X, self.margin, self.repaired(duals), space)
        if self.half_spaces is not None and side_duals is not None:
            sum_rows(self.half_spaces.rows, side_duals, space.w, 0, side_duals.size)
        v = self.regularizer.unclipped(space.w)
        return Evaluated(total + self.regularizer.dual(space.w, v), v)
