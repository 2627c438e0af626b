"""The quadratic term that couples labels which go together (Hariharan et al. 2012)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..jit import vectors
from .base import Regularizer
from .spaces import Free, Paired


@dataclass(frozen=True)
class Coupling(Regularizer):
    """The prior that couples labels: 1/2 tr(V R V'), where the weights are Z = V R (Hariharan et al. 2012).

    Weights are V and Z one behind the other, (2, features + 1, blocks, width): no inverse of R is needed, and a semidefinite R
    is as good as any.
    """

    R: np.ndarray  # (labels, labels)

    moves = 2  # the change of the duals, and that times R: whoever makes a step has computed both

    @property
    def coupling(self) -> np.ndarray:
        return self.R

    def start(self, shape) -> np.ndarray:
        return np.zeros(shape)

    def unclipped(self, V: np.ndarray) -> np.ndarray:
        both = vectors.aligned((2, *V.shape), np.float64)
        both[0] = V
        count = len(self.R)
        vectors.unpack(both[1], count)[...] = vectors.unpack(V, count) @ self.R
        return both

    def weights(self, both: np.ndarray) -> np.ndarray:
        return both

    def mended(self, V: np.ndarray) -> np.ndarray:
        return self.unclipped(V)

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (2, *shape)

    def scoring(self, both: np.ndarray) -> np.ndarray:
        return both[1]

    def moved(self, both: np.ndarray) -> np.ndarray:
        return both[0]

    @cached_property
    def factor(self) -> tuple[np.ndarray, np.ndarray]:
        """F (labels, rank) with R = F F', and its pseudo-inverse. With U = V F the term is 1/2 ||U||^2, and Z = U F'."""
        values, basis = np.linalg.eigh(self.R)
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        root = np.sqrt(values[kept])
        return basis[:, kept] * root, (basis[:, kept] / root).T

    def penalty(self, both: np.ndarray) -> float:
        return 0.5 * float(np.vdot(both[0], both[1]))

    def dual(self, V: np.ndarray, both: np.ndarray) -> float:
        return -self.penalty(both)

    def space(self, both: np.ndarray, dtype) -> Paired:
        return Paired(vectors.convert(both[0], dtype), vectors.convert(both[1], dtype))

    def loose(self, space: Paired) -> Free:
        return Free(space.v)

    def tie(self, space: Paired) -> None:
        count = len(self.R)
        vectors.unpack(space.w, count)[...] = vectors.unpack(space.v, count) @ self.R.astype(space.v.dtype)
