"""Sign constraints under a full prior covariance Sigma = L L'.

The solver works with u, w = L u, where the prior is spherical. There w_k >= 0 reads <L[k], u> >= 0: a half-space, not a
clip. Each gets a dual coordinate b_k >= 0 without reward or bound, ascended beside the examples; the primal value is
taken at the nearest weights (in w) that satisfy all of them, so that it is an upper bound for the constrained problem.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from ..data.rows import Dense


@dataclass(frozen=True)
class HalfSpaces:
    """`factor` is L (features x features, lower triangular), `mask` the constrained features; u carries the bias as
    last entry."""

    factor: np.ndarray
    mask: np.ndarray

    @cached_property
    def rows(self) -> Dense:
        return Dense(np.ascontiguousarray(self.factor[self.mask]), np.float64(0.0))

    @cached_property
    def curvature(self) -> np.ndarray:
        return np.square(self.rows.values).sum(axis=1)

    @property
    def count(self) -> int:
        return int(self.mask.sum())

    def feasible(self, u: np.ndarray) -> np.ndarray:
        """The u of the weights clipped at zero where they must not be negative; u is (features + 1,) or (classes,
        features + 1)."""
        w = u[..., :-1] @ self.factor.T
        if np.all(w[..., self.mask] >= 0.0):
            return u
        w[..., self.mask] = np.maximum(w[..., self.mask], 0.0)
        inside = solve_triangular(self.factor, np.atleast_2d(w).T, lower=True).T.reshape(w.shape)
        return np.concatenate([inside, u[..., -1:]], axis=-1)
