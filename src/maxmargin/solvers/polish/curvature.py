"""How the dual bends along steps on a face, and the solutions of Newton's equations there.

A matrix of steps x steps is brought to a unit diagonal and factored, with a ridge: steps may outnumber the features, and samples
may be there twice. The ridge is that of a proximal step: what it leaves undone is done by the next one. Where steps outnumber the
columns of Z, which H = diag(soft) + Z Z' is made of, a matrix of columns x columns does (Woodbury).
"""

from abc import ABC, abstractmethod

import numpy as np
import scipy.sparse as sp

from ..second_order.systems import Factor, unit_scale

PROXIMAL = (1e-12, 1e-10, 1e-8, 1e-6)  # ridges on a unit diagonal, the next where one does not make the matrix definite
THIN_PROXIMAL = 1e-10  # the same where it is divided by


class Curvature(ABC):
    """H, positive semidefinite, of so many steps; `scale` is what brings its diagonal to one."""

    size: int
    scale: np.ndarray

    @abstractmethod
    def product(self, u: np.ndarray) -> np.ndarray:
        """H u"""

    @abstractmethod
    def solve(self, g: np.ndarray) -> np.ndarray:
        """About H^-1 g; steps that move nothing stay at zero."""


class DenseCurvature(Curvature):
    """By a matrix of steps x steps; `sound` says whether it could be factored."""

    def __init__(self, H: np.ndarray):
        self.H, self.size = H, len(H)
        self.factor = Factor(H.copy(), PROXIMAL)
        self.sound = self.factor.factor is not None and bool(np.all(np.isfinite(self.factor.factor.diagonal())))
        self.scale = self.factor.scale if self.sound else np.zeros(self.size)

    def product(self, u):
        return self.H @ u

    def solve(self, g):
        return self.factor.solve(g)


class ThinCurvature(Curvature):
    """diag(soft) + Z Z' with fewer columns than rows."""

    def __init__(self, soft: np.ndarray, Z: np.ndarray):
        self.soft, self.Z, self.size = soft, Z, len(Z)
        self.scale = unit_scale(soft + np.einsum("ij,ij->i", Z, Z))
        self.scaled = Z * self.scale[:, None]
        self.flat = np.maximum(soft * self.scale**2, THIN_PROXIMAL)
        M = (self.scaled.T / self.flat) @ self.scaled
        M[np.diag_indices_from(M)] += 1.0
        self.inner = DenseCurvature(M)
        self.sound = self.inner.sound

    def product(self, u):
        return self.soft * u + self.Z @ (self.Z.T @ u)

    def solve(self, g):
        near = self.scale * g / self.flat
        return self.scale * (near - self.scaled @ self.inner.solve(self.scaled.T @ near) / self.flat)


class Between(ABC):
    """What free duals do to each other's slopes."""

    @abstractmethod
    def along(self, basis: sp.csr_array) -> DenseCurvature | ThinCurvature:
        """The curvature along the columns of (duals, steps)."""

    @abstractmethod
    def product(self, change: np.ndarray) -> np.ndarray:
        """By how much the slopes fall after a change of the duals."""


class DenseBetween(Between):
    """A matrix, to which `soft` is added on the diagonal."""

    def __init__(self, G: np.ndarray, soft: np.ndarray):
        G[np.diag_indices_from(G)] += soft
        self.G = G

    def along(self, basis):
        some = np.diff(basis.indptr) > 0
        part = basis[some]
        inner = self.G if some.all() else self.G[np.ix_(some, some)]
        if np.array_equal(part.indices, np.arange(part.shape[0])):  # each dual alone
            return DenseCurvature(inner)
        return DenseCurvature(np.asarray(part.T @ np.asarray(part.T @ inner).T))

    def product(self, change):
        return self.G @ change


class ThinBetween(Between):
    """Each dual alone, by its vector: a row of Z."""

    def __init__(self, Z: np.ndarray, soft: np.ndarray):
        self.Z, self.soft = Z, soft

    def along(self, basis):
        some = np.diff(basis.indptr) > 0
        return ThinCurvature(self.soft[some], self.Z[some])

    def product(self, change):
        return self.Z @ (self.Z.T @ change) + self.soft * change
