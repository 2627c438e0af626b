"""The quadratic term: a Gaussian prior on the weights and sign constraints, in the user's own coordinates.

    1/2 sum_j (w_j - mean_j)^2 / variance_j     subject to  w_j >= lower_j   (lower_j = 0 or -inf)

For duals a of examples x, let v = mean + variance * sum_i a_i x_i, unclipped. The best weights are w = max(v, lower)
and the dual loses (MATH: Ramanan 2013, section 5, corrected)

    sum_j [ (w_j - mean_j)^2 / 2 - w_j (v_j - mean_j) ] / variance_j

which is -1/2 ||v||^2 without prior and constraints. Clipping v itself, as the paper's two-line recipe reads, converges
elsewhere.
"""

from dataclasses import dataclass

import numpy as np

from ..jit import vectors
from ..utils.blas import inner_product
from .base import Regularizer
from .spaces import Free, Shaped, Space, set_to


@dataclass(frozen=True)
class Gaussian(Regularizer):
    """Prior and signs. Arrays have the shape of the weights of the problem they belong to; None is the plain case."""

    mean: np.ndarray | None = None
    variance: np.ndarray | None = None
    lower: np.ndarray | None = None

    def start(self, shape) -> np.ndarray:
        """v with all duals at zero."""
        return np.zeros(shape) if self.mean is None else self.mean.copy()

    def unclipped(self, r: np.ndarray) -> np.ndarray:
        """v = mean + variance * r for r = sum_i a_i x_i."""
        v = r if self.variance is None else self.variance * r
        return v if self.mean is None else self.mean + v

    def summed(self, v: np.ndarray) -> np.ndarray:
        """r for v = mean + variance * r; under a narrow prior some of it is lost in rounding."""
        centred = self._centred(v)
        return centred if self.variance is None else centred / self.variance

    def weights(self, v: np.ndarray) -> np.ndarray:
        """The minimiser w of the Lagrangian at v."""
        return v if self.lower is None else np.maximum(v, self.lower)

    def penalty(self, w: np.ndarray) -> float:
        """The quadratic term at w."""
        return 0.5 * self._inner(self._centred(w), self._centred(w))

    def dual(self, r: np.ndarray, v: np.ndarray) -> float:
        """What the quadratic term contributes to the dual value. From r: under a narrow prior v - mean is lost in rounding."""
        if self.plain:
            return -0.5 * float(inner_product(r, r))
        w = self.weights(v)
        centred = r if self.variance is None else self.variance * r
        if self.lower is not None:
            centred = np.where(w > v, self._centred(w), centred)
        return 0.5 * self._inner(centred, centred) - float(inner_product(w, r))

    def _centred(self, w):
        return w if self.mean is None else w - self.mean

    def _inner(self, a, b) -> float:
        a = a if self.variance is None else a / self.variance
        return float(inner_product(a, b))

    def space(self, v: np.ndarray, dtype) -> Space:
        """The weights as a solver moves them, in the dtype of the iterations."""
        if self.mean is None and self.variance is None and self.lower is None:
            return Free(vectors.convert(v, dtype))
        mean = np.zeros(v.shape) if self.mean is None else self.mean
        variance = np.ones(v.shape) if self.variance is None else self.variance
        lower = np.full(v.shape, -np.inf) if self.lower is None else self.lower
        arrays = v, np.maximum(v, lower), mean, variance, lower
        return Shaped(*(vectors.convert(array, dtype) for array in arrays))

    def put(self, v: np.ndarray, space: Space) -> None:
        set_to(space, v, self.weights(v))
