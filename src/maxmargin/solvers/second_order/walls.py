"""Where weights may not go, G w >= low: signs, and half-spaces under a full covariance. Weights are one long array here."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from ...regularizers.half_spaces import HalfSpaces
from .systems import WallRows


@dataclass(frozen=True)
class Walls:
    """`index`: the weights that have a bound, where G only selects; else the matrix."""

    low: np.ndarray
    index: np.ndarray
    matrix: np.ndarray | None = None

    def across(self, w: np.ndarray) -> np.ndarray:
        """G w."""
        found: np.ndarray = w[self.index] if self.matrix is None else self.matrix @ w
        return found

    def combined(self, duals: np.ndarray, size: int) -> np.ndarray:
        """G' duals."""
        if self.matrix is not None:
            found: np.ndarray = self.matrix.T @ duals
            return found
        result = np.zeros(size)
        result[self.index] = duals
        return result

    def lifted(self, heights: np.ndarray, size: int) -> np.ndarray:
        """The shortest w with G w = heights."""
        if self.matrix is not None:
            found: np.ndarray = np.linalg.lstsq(self.matrix, heights, rcond=None)[0]
            return found
        return self.combined(heights, size)

    def supporting(self, w: np.ndarray, against: np.ndarray) -> np.ndarray:
        """The duals of the walls that w leans `against`, and zeros: those with which w + G' duals stands on them, low being
        zero, but for one that would pull."""
        assert self.matrix is not None
        found, G = np.zeros(len(self.matrix)), self.matrix[against].T
        Q, R = np.linalg.qr(G)
        for _ in range(2):  # once more for what rounding has left
            found[against] -= solve_triangular(R, Q.T @ (w + G @ found[against]))
        return np.maximum(found, 0.0)

    def added(self, B: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, WallRows | None]:
        """B + G' diag(weight) G: its diagonal part, and the rest where it has another."""
        if self.matrix is not None:
            return B, WallRows(self.matrix, weight)
        B = B.copy()
        B.ravel()[self.index] += weight
        return B, None


def walls_of(lower: np.ndarray | None, half_spaces: HalfSpaces | None, classes: int) -> Walls | None:
    """The walls of weights (classes, features + 1); None where there are none."""
    if half_spaces is not None:
        matrix = np.kron(np.eye(classes), np.pad(half_spaces.rows.values, ((0, 0), (0, 1))))
        return Walls(np.zeros(len(matrix)), np.arange(0), matrix)
    if lower is None:
        return None
    index = np.flatnonzero(np.isfinite(lower.ravel()))
    return Walls(lower.ravel()[index], index) if index.size else None
