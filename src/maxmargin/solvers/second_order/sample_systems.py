"""Systems of one score an example by a matrix of samples x samples, for more columns than rows; and which system is used."""

import numpy as np
import scipy.sparse as sp

from ...data.table import Table
from .systems import LEAST_THETA, Factor, ScalarColumns, System, combination, scores_of

COARSE_SOLUTION = 1e-6  # part of a change that may be wrong, where another matrix could do better
MOST_COLUMNS = 3000  # of that one


class ScalarRows(System):
    """One score an example, rows x rows: for more columns than rows."""

    def __init__(self, table: Table):
        super().__init__(table)
        self.known: tuple[np.ndarray, np.ndarray] | None = None

    def prepare(self, theta, B, walls=None):
        self.theta, self.B = theta, B
        self.active = np.flatnonzero(theta[:, 0] > LEAST_THETA)
        if self.known is None or not np.array_equal(self.known[0], B):
            self.known = B, self.inner_products(B)
        with np.errstate(over="ignore", invalid="ignore"):
            K = self.known[1][np.ix_(self.active, self.active)]
            K[np.diag_indices_from(K)] += 1.0 / theta[self.active, 0]
            self.factor = Factor(K)
        return self.factor.factor is not None

    def product(self, duals: np.ndarray, wanted: bool) -> tuple[np.ndarray, np.ndarray]:
        """The matrix times duals of the active rows, where it is wanted."""
        if not wanted:
            return duals, duals
        whole = np.zeros((self.table.shape[0], 1))
        whole[self.active, 0] = duals
        found = scores_of(self.table, combination(self.table, whole) / self.B)[self.active, 0]
        return duals / self.theta[self.active, 0] + found, found

    def inner_products(self, B: np.ndarray) -> np.ndarray:
        """X B^-1 X'."""
        X, block = self.table.matrix, next(self.table.blocks(1))
        root = 1.0 / np.sqrt(B[0])
        scaled = sp.csr_array(X).multiply(root[:-1]).tocsr() if sp.issparse(X) else X * root[:-1]
        found = scaled @ scaled.T
        return np.asarray(found.toarray() if sp.issparse(found) else found, np.float64) + (block.bias * root[-1]) ** 2

    def applied(self, u):
        return self.theta * u

    def bent(self, theta, u):
        return float(np.vdot(theta, u * u))

    def solve(self, g, h, push=None):
        change, active = np.zeros_like(self.theta), self.active
        wanted = -scores_of(self.table, g / self.B)[active, 0]
        if h is not None:
            wanted += (h[active] / self.theta[active])[:, 0]
        change[active, 0] = self.factor.refined(self.product, wanted)[0]
        return (g + combination(self.table, change)) / self.B, change


class RowsFirst(System):
    """Rows x rows; features x features where that matrix knows too little: columns of very different sizes are one sum in it."""

    def __init__(self, table: Table):
        super().__init__(table)
        self.rows, self.columns = ScalarRows(table), ScalarColumns(table)

    def prepare(self, theta, B, walls=None):
        self.given, self.theta = (theta, B), theta
        self.current: System = self.rows
        return (self.rows.prepare(theta, B) and self.rows.factor.ridge == 0.0) or self.turn()

    def turn(self) -> bool:
        """To features x features, until the next matrix."""
        self.current = self.columns
        return self.columns.prepare(*self.given)

    def applied(self, u):
        return self.theta * u

    def bent(self, theta, u):
        return self.rows.bent(theta, u)

    def solve(self, g, h, push=None):
        dW, change = self.current.solve(g, h)
        if self.current is self.rows and not self.agree(dW, change if h is None else change - h) and self.turn():
            return self.columns.solve(g, h)
        return dW, change

    def agree(self, dW: np.ndarray, pushed: np.ndarray) -> bool:
        """Whether the weights move the scores as the duals say."""
        some = self.theta > LEAST_THETA
        root = np.sqrt(self.theta[some])
        wrong = pushed[some] / root + root * scores_of(self.table, dW)[some]
        return bool(np.linalg.norm(wrong) <= COARSE_SOLUTION * np.linalg.norm(pushed[some] / root))


def system_of(table: Table, rows: bool = True, steady: bool = False) -> System:
    """That of one score an example with the smaller matrix; `rows`: whether it may be one of rows x rows."""
    if not rows or table.shape[0] >= table.shape[1]:
        return ScalarColumns(table, steady)
    return RowsFirst(table) if table.shape[1] <= MOST_COLUMNS else ScalarRows(table)
