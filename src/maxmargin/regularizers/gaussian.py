"""The quadratic term: a Gaussian prior on the weights and sign constraints, in the user's own coordinates.

    1/2 sum_j (w_j - mean_j)^2 / variance_j     subject to  w_j >= lower_j   (lower_j = 0 or -inf)

For duals a of examples x, let v = mean + variance * sum_i a_i x_i, unclipped. The best weights are w = max(v, lower)
and the dual loses (MATH: Ramanan 2013, section 5, corrected)

    sum_j [ (w_j - mean_j)^2 / 2 - w_j (v_j - mean_j) ] / variance_j

which is -1/2 ||v||^2 without prior and constraints. Clipping v itself, as the paper's two-line recipe reads, converges
elsewhere.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..data.rows import add, add_clipped, add_scaled, update, update_all, update_clipped
from ..jit import generic, vectors


@dataclass(frozen=True)
class Regularizer:
    """Prior and constraints. Arrays have the shape of the weights of the problem they belong to; None is the plain case."""

    mean: np.ndarray | None = None
    variance: np.ndarray | None = None
    lower: np.ndarray | None = None

    moves = 1  # rows that `move_row` needs: the change of the duals

    def start(self, shape) -> np.ndarray:
        """v with all duals at zero."""
        return np.zeros(shape) if self.mean is None else self.mean.copy()

    def unclipped(self, r: np.ndarray) -> np.ndarray:
        """v = mean + variance * r for r = sum_i a_i x_i."""
        v = r if self.variance is None else self.variance * r
        return v if self.mean is None else self.mean + v

    def weights(self, v: np.ndarray) -> np.ndarray:
        """The minimiser w of the Lagrangian at v."""
        return v if self.lower is None else np.maximum(v, self.lower)

    def penalty(self, w: np.ndarray) -> float:
        """The quadratic term at w."""
        return 0.5 * self._inner(self._centred(w), self._centred(w))

    def mended(self, w: np.ndarray) -> np.ndarray:
        """Weights from an average of what `averaged` gives."""
        return w

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the weights of a problem, from that of its table of scores' weights."""
        return shape

    def scoring(self, w: np.ndarray) -> np.ndarray:
        """The weights that scores use."""
        return w

    def moved(self, w: np.ndarray) -> np.ndarray:
        """What the duals of examples add up to, in an array of the shape of the weights."""
        return w

    def dual(self, r: np.ndarray, v: np.ndarray) -> float:
        """What the quadratic term contributes to the dual value. From r: under a narrow prior v - mean is lost in rounding."""
        w = self.weights(v)
        centred = r if self.variance is None else self.variance * r
        if self.lower is not None:
            centred = np.where(w > v, self._centred(w), centred)
        return 0.5 * self._inner(centred, centred) - float(np.vdot(w, r))

    def loose(self, space: "Space") -> "Space":
        """The weights to move when scores are asked for only after `tie`."""
        return space

    def tie(self, space: "Space") -> None:
        """Make the weights agree after moves of what `loose` gave."""

    def _centred(self, w):
        return w if self.mean is None else w - self.mean

    def _inner(self, a, b) -> float:
        a = a if self.variance is None else a / self.variance
        return float(np.vdot(a, b))

    def space(self, v: np.ndarray, dtype) -> "Space":
        """The weights as a solver moves them, in the dtype of the iterations."""
        if self.mean is None and self.variance is None and self.lower is None:
            return Free(vectors.convert(v, dtype))
        mean = np.zeros(v.shape) if self.mean is None else self.mean
        variance = np.ones(v.shape) if self.variance is None else self.variance
        lower = np.full(v.shape, -np.inf) if self.lower is None else self.lower
        arrays = v, np.maximum(v, lower), mean, variance, lower
        return Shaped(*(vectors.convert(array, dtype) for array in arrays))


@dataclass(frozen=True)
class Coupling:
    """The prior that couples labels: 1/2 tr(V R V'), where the weights are Z = V R (Hariharan et al. 2012).

    Weights are V and Z one behind the other, (2, features + 1, blocks, width): no inverse of R is needed, and a semidefinite R
    is as good as any.
    """

    R: np.ndarray  # (labels, labels)

    mean = variance = lower = None  # there is no other prior beside it
    moves = 2  # the change of the duals, and that times R: whoever makes a step has computed both

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

    def space(self, both: np.ndarray, dtype) -> "Paired":
        return Paired(vectors.convert(both[0], dtype), vectors.convert(both[1], dtype))

    def loose(self, space: "Paired") -> "Free":
        return Free(space.v)

    def tie(self, space: "Paired") -> None:
        count = len(self.R)
        vectors.unpack(space.w, count)[...] = vectors.unpack(space.v, count) @ self.R.astype(space.v.dtype)


class Free(NamedTuple):
    """Weights without a prior or signs: w is v."""

    w: np.ndarray


class Shaped(NamedTuple):
    """Weights with prior means, variances and lower bounds: v is moved, w = max(v, lower) is what scores use."""

    v: np.ndarray
    w: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    lower: np.ndarray


class Paired(NamedTuple):
    """Weights of coupled labels: v is what duals sum up to, w = v R is what scores use."""

    v: np.ndarray
    w: np.ndarray


Space = Free | Shaped | Paired


def unclipped(space: Space) -> np.ndarray:
    """v of any kind."""
    return space.w if isinstance(space, Free) else space.v


def averaged(space: Space) -> np.ndarray:
    """What is averaged: see `mended`."""
    return space.v if isinstance(space, Paired) else space.w


def like(space: Space) -> Space:
    """A second set of weights beside `space`, under the same prior."""
    if isinstance(space, Free):
        return Free(vectors.convert(space.w, space.w.dtype))
    return space._replace(v=vectors.convert(space.v, space.v.dtype), w=vectors.convert(space.w, space.w.dtype))


@generic
def move(space, X, i, t):
    """Add t x_i to the weights (a scalar problem)."""


@generic
def move_row(space, X, i, change):
    """Add x_i times a row of classes to the weights (a block problem). Coupled weights take a second row: the first times R."""


@generic
def spread(space, X, i, t, out):
    """out += t variance * x_i: after it <out, x_k> is the inner product that the dual's curvature has."""


@generic
def quadratic(space):
    """What the quadratic term contributes to the dual value, summed in float64."""


@generic
def extrapolate(space, before, t, result):
    """result = v + t (v - before), clipped where there are bounds; coupled weights have to be tied after it."""


@move.register(Free)
def _(space, X, i, t):
    add(X, i, space.w.dtype.type(t), space.w)


@move.register(Shaped)
def _(space, X, i, t):
    add_clipped(X, i, space.w.dtype.type(t), space.variance, space.lower, space.v, space.w)


@move_row.register(Free)
def _(space, X, i, change):
    update(X, i, change, 0, space.w)


@move_row.register(Shaped)
def _(space, X, i, change):
    update_clipped(X, i, change, space.variance, space.lower, space.v, space.w)


@move_row.register(Paired)
def _(space, X, i, change):
    update(X, i, change, 0, space.v)
    update_all(X, i, change, 1, space.w)


@spread.register(Free)
def _(space, X, i, t, out):
    add(X, i, out.dtype.type(t), out)


@spread.register(Shaped)
def _(space, X, i, t, out):
    add_scaled(X, i, out.dtype.type(t), space.variance, out)


@quadratic.register(Free)
def _(space):
    w, total = space.w.reshape(-1), 0.0
    for j in range(w.size):
        total += np.float64(w[j]) * w[j]
    return -0.5 * total


@quadratic.register(Shaped)
def _(space):
    v, w, mean = space.v.reshape(-1), space.w.reshape(-1), space.mean.reshape(-1)
    variance, total = space.variance.reshape(-1), 0.0
    for j in range(w.size):
        centred = np.float64(w[j]) - mean[j]
        total += (0.5 * centred * centred - w[j] * (np.float64(v[j]) - mean[j])) / variance[j]
    return total


@quadratic.register(Paired)
def _(space):
    v, w, total = space.v.reshape(-1), space.w.reshape(-1), 0.0
    for j in range(w.size):
        total += np.float64(v[j]) * w[j]
    return -0.5 * total


@extrapolate.register(Free)
def _(space, before, t, result):
    old, now, new = before.reshape(-1), space.w.reshape(-1), result.w.reshape(-1)
    for j in range(now.size):
        new[j] = now[j] + now.dtype.type(t) * (now[j] - old[j])


@extrapolate.register(Shaped)
def _(space, before, t, result):
    old, now, new = before.reshape(-1), space.v.reshape(-1), result.v.reshape(-1)
    w, lower = result.w.reshape(-1), space.lower.reshape(-1)
    for j in range(now.size):
        new[j] = now[j] + now.dtype.type(t) * (now[j] - old[j])
        w[j] = max(new[j], lower[j])


@extrapolate.register(Paired)
def _(space, before, t, result):
    old, now, new = before.reshape(-1), space.v.reshape(-1), result.v.reshape(-1)
    for j in range(now.size):
        new[j] = now[j] + now.dtype.type(t) * (now[j] - old[j])
