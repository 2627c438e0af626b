"""Weights as solvers move them under a quadratic term, and what kernels do with them.

v is what the duals of examples sum up to, w what scores use.
"""

from functools import singledispatch
from typing import NamedTuple

import numpy as np

from ..data.row_updates import update, update_all, update_clipped
from ..data.rows import add, add_clipped, add_scaled
from ..jit import generic, jitable_call, kernel, vectors

NO_SUMS = {np.dtype(kind): np.zeros(0, kind) for kind in (np.float32, np.float64)}


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


@jitable_call
def adding_product(v, w, sums, added):
    """sums += added, or nothing where there are no sums; returns <v, w>, summed in float64."""
    total = 0.0
    if sums.size == 0:
        for i in range(v.size):
            total += np.float64(v[i]) * np.float64(w[i])
        return total
    for i in range(v.size):
        sums[i] += added[i]
        total += np.float64(v[i]) * np.float64(w[i])
    return total


@kernel
def add_and_multiply(v, w, sums, added):
    return adding_product(v, w, sums, added)


@jitable_call
def pushed(v, before, t, result):
    """result = v + t (v - before), and v is what was before from now on."""
    step = v.dtype.type(t)
    for i in range(v.size):
        here = v[i]
        result[i] = here + step * (here - before[i])
        before[i] = here


@kernel
def push_on(v, before, t, result):
    pushed(v, before, t, result)


def summed_product(v: np.ndarray, w: np.ndarray) -> float:
    """<v, w>, summed in float64."""
    none = NO_SUMS[v.dtype]
    return add_and_multiply(v.reshape(-1), w.reshape(-1), none, none)


def room_for(space: Space) -> Space:
    """Room for a second set of weights beside `space`, under the same prior: zeros."""
    w = vectors.aligned(space.w.shape, space.w.dtype)
    return Free(w) if isinstance(space, Free) else space._replace(v=vectors.aligned(w.shape, w.dtype), w=w)


def set_to(space: Space, v: np.ndarray, w: np.ndarray) -> None:
    """Let the weights be these, in their own dtype."""
    if not isinstance(space, Free):
        space.v[...] = v.reshape(space.v.shape)
    space.w[...] = w.reshape(space.w.shape)


@generic
def move(space, X, i, t):
    """Add t x_i to the weights (a scalar problem)."""


@generic
def move_row(space, X, i, change):
    """Add x_i times a row of classes to the weights (a block problem). Coupled weights take a second row: the first times R."""


@generic
def spread(space, X, i, t, out):
    """out += t variance * x_i: after it <out, x_k> is the inner product that the dual's curvature has."""


@singledispatch
def quadratic(space: Space) -> float:
    """What the quadratic term contributes to the dual value, summed in float64."""
    raise TypeError(f"{type(space).__name__} is no kind of weights.")


@singledispatch
def quadratic_adding(space: Space, sums: np.ndarray) -> float:
    """As `quadratic`, while what is averaged is added to `sums`: weights go through the processor once."""
    sums += averaged(space)
    return quadratic(space)


@singledispatch
def extrapolate(space: Space, before: np.ndarray, t: float, result: Space) -> None:
    """result = v + t (v - before), clipped where there are bounds; coupled weights have to be tied after it. Then v is what was
    before."""
    push_on(unclipped(space).reshape(-1), before.reshape(-1), t, unclipped(result).reshape(-1))


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


@quadratic.register
def _(space: Free) -> float:
    return -0.5 * summed_product(space.w, space.w)


@quadratic.register
def _(space: Shaped) -> float:
    w, mean = space.w.astype(np.float64), space.mean
    centred = w - mean
    return float(np.sum((0.5 * centred * centred - w * (space.v.astype(np.float64) - mean)) / space.variance))


@quadratic.register
def _(space: Paired) -> float:
    return -0.5 * summed_product(space.v, space.w)


@quadratic_adding.register
def _(space: Free, sums: np.ndarray) -> float:
    w = space.w.reshape(-1)
    return -0.5 * add_and_multiply(w, w, sums.reshape(-1), w)


@quadratic_adding.register
def _(space: Paired, sums: np.ndarray) -> float:
    v = space.v.reshape(-1)
    return -0.5 * add_and_multiply(v, space.w.reshape(-1), sums.reshape(-1), v)


@extrapolate.register
def _(space: Shaped, before: np.ndarray, t: float, result: Shaped) -> None:
    extrapolate.dispatch(object)(space, before, t, result)
    np.maximum(result.v, space.lower, out=result.w)
