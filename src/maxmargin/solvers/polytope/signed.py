"""The weights as a structured solver moves them: an array, or one some of whose entries must not be negative.

Where weights are bound to be non-negative, the best ones for given duals are w = max(v, 0) with v the unclipped sum of the
duals' features (`regularizer` has the formulas). v differs from w in the bound entries only, so these alone are kept
twice: a push puts them back, moves all, and clips again. Steps that are exact without bounds stay ascent steps, as the dual
bends no more than it would without them.
"""

from typing import NamedTuple

import numpy as np

from ...jit import generic_call, vectors
from ...structures.encoded import contract
from .resting import Resting, at_rest


class Signed(NamedTuple):
    w: np.ndarray  # what scores use
    flat: np.ndarray  # the same memory, as a vector
    bound: np.ndarray  # which entries of it must not be negative
    v: np.ndarray  # their values before the clip


@generic_call
def prepare_with(space, data, i, scratch):
    """Compute what the oracles of sample i need of the weights. (Compiled code that counts no references cannot return an array
    out of a tuple.)"""


@generic_call
def move_weights(space, data, i, t, scratch):
    """weights += t * phi(x_i, difference)"""


@prepare_with.register(np.ndarray)
def _(space, data, i, scratch):
    contract.prepare(data, i, space, scratch)


@prepare_with.register(Signed)
def _(space, data, i, scratch):
    contract.prepare(data, i, space.w, scratch)


@move_weights.register(np.ndarray)
def _(space, data, i, t, scratch):
    contract.push(data, i, t, scratch, space)


@move_weights.register(Signed)
def _(space, data, i, t, scratch):
    for k in range(space.bound.size):
        space.flat[space.bound[k]] = space.v[k]
    contract.push(data, i, t, scratch, space.w)
    for k in range(space.bound.size):
        space.v[k] = space.flat[space.bound[k]]
        space.flat[space.bound[k]] = max(space.v[k], 0.0)


def space_of(v: np.ndarray, bound: np.ndarray) -> np.ndarray | Signed:
    """The weights of v, whose memory they take over; `bound` lists the entries that must not be negative."""
    if bound.size == 0:
        return v
    flat = v.reshape(-1)
    before = flat[bound]
    flat[bound] = np.maximum(before, 0.0)
    return Signed(v, flat, bound, before)


def weights_of(space: np.ndarray | Signed) -> np.ndarray:
    """The weights that scores use."""
    return space.w if isinstance(space, Signed) else space


def unclipped_copy(space: np.ndarray | Signed) -> np.ndarray:
    """v, in memory of its own."""
    w = weights_of(space)
    out = vectors.aligned(w.shape, w.dtype)
    out[...] = w
    if isinstance(space, Signed):
        out.reshape(-1)[space.bound] = space.v
    return out


def unclipped_at_rest(space: np.ndarray | Signed) -> Resting:
    return at_rest(unclipped_copy(space) if isinstance(space, Signed) else space)


def given_up(space: np.ndarray | Signed) -> np.ndarray:
    """v, in the memory of the weights, which are weights no more."""
    if isinstance(space, Signed):
        space.flat[space.bound] = space.v
    return weights_of(space)
