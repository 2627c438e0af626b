"""The quadratic term that couples labels which go together (Hariharan et al. 2012)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from ..jit import vectors
from .base import Regularizer
from .spaces import Free, Paired, set_to

# Part of a label's variance, for each label, that is nothing but rounding: LAPACK's own, eps, takes rounding for rank at
# times (fuzz 301:425, 2026-11-18), and V is then any number of times what it need be.
RANK_TOLERANCE = 10.0 * float(np.finfo(np.float64).eps)


def independent(R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels of whose own variance the ones before leave more than rounding, and F (labels, of them) with R = F F': a factor with
    pivots, F of these labels lower triangular in their order."""
    size = np.sqrt(R.diagonal())
    scale = np.divide(1.0, size, out=np.zeros(len(R)), where=size > 0.0)
    found, order, rank, _ = dpstrf(scale[:, None] * R * scale, tol=RANK_TOLERANCE * len(R), lower=1)
    F = np.zeros((len(R), rank))
    F[order - 1] = np.tril(found)[:, :rank]
    return order[:rank] - 1, F * size[:, None]


@dataclass(frozen=True)
class Coupling(Regularizer):
    """The prior that couples labels: 1/2 tr(V R V'), where the weights are Z = V R (Hariharan et al. 2012).

    Weights are V and Z one behind the other, (2, features + 1, blocks, width): no inverse of R is needed, and a semidefinite R
    is as good as any. There V may be large and Z small, so that values come from U = V F, R = F F': of a square nothing cancels.
    With `frozen` the term is 1/2 ||U - U0||^2 for the U0 of that V: a prior mean of V R.
    """

    R: np.ndarray  # (labels, labels)
    frozen: np.ndarray | None = None  # V that duals sum up to which stay as they are (regularizers/frozen.py)

    moves = 2  # the change of the duals, and that times R: whoever makes a step has computed both

    @property
    def coupling(self) -> np.ndarray:
        return self.R

    def start(self, shape) -> np.ndarray:
        return np.zeros(shape) if self.frozen is None else self.mended(self.frozen)

    def unclipped(self, r: np.ndarray) -> np.ndarray:
        return self.mended(r if self.frozen is None else self.frozen + r)

    def summed(self, both: np.ndarray) -> np.ndarray:
        return both[0] if self.frozen is None else both[0] - self.frozen

    def mended(self, V: np.ndarray) -> np.ndarray:
        """V and Z = V R."""
        both = vectors.aligned((2, *V.shape), np.float64)
        both[0] = V
        vectors.unpack(both[1], len(self.R))[...] = self.root(V) @ self.factor[0].T
        return both

    def root(self, V: np.ndarray) -> np.ndarray:
        """U = V F, (features + 1, rank)."""
        found: np.ndarray = vectors.unpack(V, len(self.R)) @ self.factor[0]
        return found

    def weights(self, both: np.ndarray) -> np.ndarray:
        return both

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (2, *shape)

    def scoring(self, both: np.ndarray) -> np.ndarray:
        return both[1]

    def moved(self, both: np.ndarray) -> np.ndarray:
        return both[0]

    @cached_property
    def factor(self) -> tuple[np.ndarray, np.ndarray]:
        """F (labels, rank) with R = F F', and an inverse of it from the left. The term is 1/2 ||U||^2, and Z = U F'."""
        own, F = independent(self.R)
        inverse = np.zeros(F.shape[::-1])
        if len(own):  # older SciPy refuses an empty system
            inverse[:, own] = solve_triangular(F[own], np.eye(len(own)), lower=True)
        return F, inverse

    def penalty(self, both: np.ndarray) -> float:
        U = self.root(self.summed(both))
        return 0.5 * float(np.vdot(U, U))

    def dual(self, r: np.ndarray, both: np.ndarray) -> float:
        U = self.root(r)
        apart = 0.0 if self.frozen is None else float(np.vdot(U, self.root(self.frozen)))
        return -0.5 * float(np.vdot(U, U)) - apart

    def space(self, both: np.ndarray, dtype) -> Paired:
        return Paired(vectors.convert(both[0], dtype), vectors.convert(both[1], dtype))

    def put(self, both: np.ndarray, space: Paired) -> None:
        set_to(space, both[0], both[1])

    def loose(self, space: Paired) -> Free:
        return Free(space.v)

    def tie(self, space: Paired) -> None:
        count = len(self.R)
        vectors.unpack(space.w, count)[...] = vectors.unpack(space.v, count) @ self.R.astype(space.v.dtype)
