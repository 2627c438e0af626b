"""Samples as solvers see them: an output is a short array of integers (its *code*), and the generic functions below say what
can be done with one.

The structures of this package register compiled implementations of them; `python.py` registers one that calls the methods of
any other `Structure`. Kernels written on these functions serve both.
"""

from functools import singledispatch
from typing import Any

import numpy as np

from ...jit import generic_call, vectors

# ---- encoded samples -------------------------------------------------------------------------------------
# `data` are all samples, `i` one of them, `W` the weights as the data want them, `room` scratch memory from `new_room`.
# `room` also holds a *difference*: coefficients on outputs, in the statistics that joint features are linear in.


@generic_call
def length(data, i):
    """How many integers the code of an output of sample i has."""


@generic_call
def truth(data, i, code):
    """Write the code of the true output."""


@generic_call
def prepare(data, i, W, room):
    """Compute what the functions below need of the weights."""


@generic_call
def worst(data, i, room, code):
    """Write the code of an output with the largest w . phi + loss; returns that value. Without true outputs: decode."""


@generic_call
def score_of(data, i, room, code):
    """w . phi(x_i, code)"""


@generic_call
def loss_of(data, i, code):
    """Delta(y_i, code)"""


@generic_call
def forget(data, i, code):
    """The output will not be asked for again by this code."""


@generic_call
def diameter(data, i):
    """A bound on ||phi(x_i, y) - phi(x_i, y')||^2 over all pairs of outputs."""


@generic_call
def against(data, i, room, code):
    """Get ready for inner products with phi(x_i, code)."""


@generic_call
def inner(data, i, room, code):
    """phi(x_i, code) . phi(x_i, the output given to `against`)"""


@generic_call
def clear(data, i, room):
    """difference = 0"""


@generic_call
def tally(data, i, t, code, room):
    """difference += t * output"""


@generic_call
def push(data, i, t, room, W):
    """W += t * phi(x_i, difference), which is not defined any more after this"""


@generic_call
def measure(data, i, room):
    """(w . phi + loss) of the difference, and ||phi(x_i, difference)||^2"""


# ---- points of the polytope of outputs -------------------------------------------------------------------
# `points` hold one point for each sample: the statistics of a distribution over its outputs.


@generic_call
def direct(points, data, i, room, temperature):
    """Find the target of sample i and put target - point into the difference."""


@generic_call
def step_towards(points, data, i, gamma, room):
    """point += gamma * (target - point), of the target found last"""


@generic_call
def withdraw(points, data, i, room):
    """difference -= point"""


@generic_call
def expected_loss(points, data, i):
    """The loss of the point."""


# ---- encoded samples as a whole; plain Python ------------------------------------------------------------


@singledispatch
def n_samples(data) -> int:
    """How many samples there are."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def truths(data) -> tuple[np.ndarray, np.ndarray]:
    """The codes of all true outputs, one after another, and the length of each."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def weight_shape(data) -> tuple[int, ...]:
    """The shape of the weights."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def nonnegative(data) -> np.ndarray:
    """Which weights, counted along their array, must not be negative."""
    return np.zeros(0, np.int64)


@singledispatch
def lacks_marginals(data) -> str | None:
    """None, or why there are no marginals of these samples."""
    return None


@singledispatch
def same_shapes(data, other) -> bool:
    """Whether points found on `other`, of the same kind, are points of `data` too."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def output_of(data, structure: Any, i: int, code: np.ndarray) -> Any:
    """The output of sample i with this code, as a user sees it."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def new_room(data) -> Any:
    """Scratch memory; a thread needs its own."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def vertices(data) -> Any:
    """Points for the max-oracle, each at the true output."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def interior(data, spread: float) -> Any:
    """Points for the sum-oracle: every wrong label of a node has marginal `spread`, at the most 1 / labels."""
    raise TypeError(f"{type(data).__name__} have no marginals.")


@singledispatch
def copied(points) -> Any:
    """Points of their own with the same values."""
    return type(points)(*(vectors.table(vectors.convert(table.lanes, table.lanes.dtype)) for table in points))


@singledispatch
def follow(points, before, after) -> Any:
    """These points of `before` as points of `after`, the same samples with other true outputs: mass on an old true output goes to
    the new one. None where nobody knows how."""
    return None


@singledispatch
def blend(points, others, gamma: float) -> None:
    """points += gamma (others - points), for all samples at once"""
    for table, other in zip(points, others, strict=True):
        table.flat[...] = (1.0 - gamma) * table.flat + gamma * other.flat


@singledispatch
def kind_of(points) -> str:
    """ "sets" of outputs, "mixtures" of outputs by their statistics, or "marginals" """
    return "marginals"


@singledispatch
def statistics_of(points, data, i: int, weight: float) -> Any:
    """The statistics of the point of sample i as a user sees them, times `weight` where they are this package's."""
    raise TypeError(f"{type(points).__name__} are not points.")


@singledispatch
def points_of(data, marginals) -> Any:
    """The points of a single encoded sample, from marginals as `marginals_of` gives them."""
    raise TypeError(f"{type(data).__name__} have no marginals.")


@singledispatch
def marginals_of(data, points) -> Any:
    """The marginals of a single encoded sample, as a user sees them."""
    raise TypeError(f"{type(data).__name__} have no marginals.")
