"""Least squares in place of a matrix that was summed up. The solution of a step's system is also that of

    min |A dW - b|,      A = (sqrt B; F_i (x) x_i; sqrt(weight) G),      N_i = F_i' F_i,  G the walls

and its residual tells how the duals move: db_i = F_i' (b - A dW)_i. Where few rows have a theta beyond all others, the matrix A'A
has lost B in its rounding, and theta times the rounding of X dW is more than db. Householder's reflections, with the largest
rows first and a pivot for each column, keep the rows apart (Cox and Higham 1998), and find a residual from what is left of b
beyond the columns, not as a difference.
"""

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dgeqp3, dormqr

WORKSPACE = 32  # columns that LAPACK takes at a time
TURNED_AT_ONCE = 512


def columns_first(A: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Rows of A as LAPACK wants them, a few at a time, which stay in the cache while they are turned."""
    turned = np.empty((A.shape[1], order.size))
    for begin in range(0, order.size, TURNED_AT_ONCE):
        some = slice(begin, begin + TURNED_AT_ONCE)
        turned[:, some] = A[order[some]].T
    return turned.T


class LeastSquares:
    """Such an A, which is destroyed. `sizes` are those of the columns of X, one for each weight: columns are divided by them, and
    not by their lengths in A, which would hide the rows that are beyond all others."""

    def __init__(self, A: np.ndarray, sizes: np.ndarray):
        self.scale = np.divide(1.0, sizes, out=np.ones_like(sizes), where=sizes > 0.0)
        A *= self.scale
        largest = np.maximum(A.max(axis=1, initial=0.0), -A.min(axis=1, initial=0.0))
        self.order = np.argsort(-largest, kind="stable")[: np.count_nonzero(largest)]
        self.rows, self.size = A.shape
        work = 3 * self.size + WORKSPACE * (self.size + 1)
        found, pivot, self.tau, _, _ = dgeqp3(columns_first(A, self.order), lwork=work, overwrite_a=True)
        self.reflections, self.pivot = found, pivot - 1
        corner = np.diagonal(found)[: self.size]
        self.found = bool(np.all(np.isfinite(found)) and np.all(corner != 0.0))

    def turned(self, b: np.ndarray, back: bool) -> np.ndarray:
        """Q' b, or Q b."""
        found = dormqr("L", "N" if back else "T", self.reflections, self.tau, b[:, None], lwork=WORKSPACE)
        result: np.ndarray = found[0][:, 0]
        return result

    def solve(self, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """dW, and b - A dW."""
        first = self.turned(b[self.order], False)
        x = np.empty(self.size)
        x[self.pivot] = solve_triangular(self.reflections[: self.size], first[: self.size], check_finite=False)
        first[: self.size] = 0.0
        left = b.copy()
        left[self.order] = self.turned(first, True)
        return self.scale * x, left
