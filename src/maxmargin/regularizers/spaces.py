"""Weights as solvers move them under a quadratic term, and what kernels do with them.

v is what the duals of examples sum up to, w what scores use.
"""

from typing import NamedTuple

import numpy as np

from ..data.rows import add, add_clipped, add_scaled, update, update_all, update_clipped
from ..jit import generic, vectors


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


def follow_unclipped(space: Space) -> None:
    """Let w be v, after moves of v alone, where there are no bounds; coupled weights have to be tied."""
    if isinstance(space, Shaped):
        space.w[...] = space.v


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
