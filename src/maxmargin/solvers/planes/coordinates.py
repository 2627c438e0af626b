"""Coordinates in which the quadratic term is 1/2 ||u||^2, for solvers that see planes only: w = mean + scale u, u in a box."""

from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from ...problems.base import Problem
from ...problems.risk import Layout
from ...problems.structured import StructuredProblem
from ...regularizers.base import Regularizer


@dataclass(frozen=True)
class Coordinates:
    """Flat arrays, or None: mean 0, scale 1, no bounds. The bounds are those of u."""

    mean: np.ndarray | None = None
    scale: np.ndarray | None = None
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    floor: np.ndarray | None = None  # the lower bounds of w, which rounding must not pass on the way back

    @property
    def boxed(self) -> bool:
        return self.lower is not None or self.upper is not None

    def outside(self, u: np.ndarray) -> np.ndarray:
        """The weights w of u."""
        w = u if self.scale is None else self.scale * u
        w = w if self.mean is None else self.mean + w
        return w if self.floor is None else np.maximum(w, self.floor)

    def inside(self, w: np.ndarray) -> np.ndarray:
        u = w if self.mean is None else w - self.mean
        return u if self.scale is None else u / self.scale

    def planes(self, slopes: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Planes over w as planes over u."""
        offsets = offsets if self.mean is None else offsets + slopes @ self.mean
        return slopes if self.scale is None else slopes * self.scale, offsets

    def nearest(self, u: np.ndarray) -> np.ndarray:
        """The point of the box that is nearest to u."""
        if self.lower is not None:
            u = np.maximum(u, self.lower)
        return u if self.upper is None else np.minimum(u, self.upper)

    def least(self, v: np.ndarray) -> float:
        """min over u in the box of 1/2 ||u||^2 - <v, u>: -1/2 ||v||^2 and what the box takes away of it."""
        if not self.boxed:
            return -0.5 * float(v @ v)
        u = self.nearest(v)
        return float(0.5 * (u @ u) - v @ u)


@singledispatch
def coordinates_of(problem: Problem, layout: Layout) -> Coordinates:
    """The coordinates of a problem with a Gaussian prior, or with a plain 1/2 ||w||^2."""
    prior: Regularizer = problem.regularizer
    mean, variance, lower = (None if array is None else layout.flat(array) for array in (prior.mean, prior.variance, prior.lower))
    scale = None if variance is None else np.sqrt(variance)
    plain = Coordinates(mean, scale)
    return plain if lower is None else Coordinates(mean, scale, plain.inside(lower), floor=lower)


@coordinates_of.register
def _(problem: StructuredProblem, layout: Layout) -> Coordinates:
    """A structure may bind weights to be non-negative."""
    if problem.bound.size == 0:
        return Coordinates()
    lower = np.full(problem.weight_shape, -np.inf)
    lower.reshape(-1)[problem.bound] = 0.0
    return Coordinates(lower=layout.flat(lower))
