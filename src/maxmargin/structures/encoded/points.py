"""Points of the polytope of outputs: the mixtures of all compiled structures, and what all points made of arrays share.

A mixture of outputs is the row of its mean statistics: features and loss are linear in them, so no more need be kept. Rows are
lane arrays of one vector a row, as the difference in scratch memory is: adding two is the same short loop for every structure.
"""

from typing import NamedTuple

import numpy as np

from ...jit import Interpreted, jitable_call, kernel, vectors
from . import contract
from .statistics import WIDTH, starts, within


class Mixtures(NamedTuple):
    """A mixture of outputs for each sample: the points of Frank-Wolfe."""

    rows: np.ndarray  # (vectors, 1, width) the statistics of all samples, one after another
    start: np.ndarray  # (samples + 1,) the first vector of each


@contract.direct.register(Mixtures)
def _(points, data, i, scratch, temperature):
    contract.worst(data, i, scratch, scratch.code)
    subtract_rows(points.rows, points.start[i], points.start[i + 1], scratch.difference)
    contract.tally(data, i, 1.0, scratch.code, scratch)


@jitable_call
def subtract_rows(rows, first, last, difference):
    """difference = -rows: what clearing and withdrawing would give, in half the traffic"""
    zero = vectors.zeros_like(rows)
    for k in range(last - first):
        vectors.store(difference, k, 0, vectors.subtract(zero, vectors.load(rows, first + k, 0)))


@contract.withdraw.register(Mixtures)
def _(points, data, i, scratch):
    first = points.start[i]
    for k in range(points.start[i + 1] - first):
        left = vectors.subtract(vectors.load(scratch.difference, k, 0), vectors.load(points.rows, first + k, 0))
        vectors.store(scratch.difference, k, 0, left)


@contract.step_towards.register(Mixtures)
def _(points, data, i, gamma, scratch):
    first = points.start[i]
    for k in range(points.start[i + 1] - first):
        moved = vectors.fma(vectors.load(points.rows, first + k, 0), gamma, vectors.load(scratch.difference, k, 0))
        vectors.store(points.rows, first + k, 0, moved)


@contract.expected_loss.register(Mixtures)
def _(points, data, i):
    return contract.loss_of_statistics(data, i, points.rows.reshape(-1), points.start[i] * WIDTH)


@contract.numbers_of.register(Mixtures)
def _(points, data, samples):
    return [(points.rows, within(points.start[samples], points.start[samples + 1] - points.start[samples]))]


@contract.kind_of.register(Mixtures)
def _(points):
    return "mixtures"


@contract.statistics_of.register(Mixtures)
def _(points, data, i, weight):
    return contract.shown_statistics(data, i, weight * points.rows[points.start[i] : points.start[i + 1]].reshape(-1))


@contract.with_new_truths.register(Mixtures)
def _(points, before, after):
    old, new = contract.places_of_truths(before), contract.places_of_truths(after)
    if old is None or new is None:
        return None
    result = contract.copied(points)
    swap_masses(result.rows.reshape(-1), old, new)
    return result


def swap_masses(mass: np.ndarray, old: np.ndarray, new: np.ndarray) -> None:
    """Mass on a true output that is not true any more goes to the new one, and the other way round."""
    mass[old], mass[new] = mass[new], mass[old]


@contract.vertices.register(tuple)
def _(data) -> Mixtures:
    points = empty_mixtures(starts(np.array([contract.n_vectors(data, i) for i in range(contract.n_samples(data))])))
    at_truths(points, data, contract.new_scratch(data))
    return points


def empty_mixtures(start: np.ndarray) -> Mixtures:
    return Mixtures(vectors.zeros_vectors(int(start[-1]), 1, np.float64), start)


@kernel
def at_truths(points, data, scratch):
    for i in range(points.start.size - 1):
        contract.clear(data, i, scratch)
        contract.truth(data, i, scratch.code)
        contract.tally(data, i, 1.0, scratch.code, scratch)
        contract.step_towards(points, data, i, 1.0, scratch)


# ---- all points that are made of arrays ------------------------------------------------------------------


def numbers_held(points) -> list[np.ndarray]:
    """The masses and marginals that points hold; not where they begin."""
    found = [field.vectors if isinstance(field, vectors.VectorTable) else field for field in points]
    return [array for array in found if array.dtype.kind == "f"]


def depart_from_truth(points, data, i, scratch):
    contract.clear(data, i, scratch)
    contract.tally(data, i, 1.0, scratch.code, scratch)
    contract.withdraw(points, data, i, scratch)


contract.depart.register(tuple)(depart_from_truth)
contract.depart.register(Interpreted)(depart_from_truth)


@contract.copied.register(tuple)
def _(points):
    return type(points)(*(copied_field(field) for field in points))


def copied_field(field):
    if isinstance(field, vectors.VectorTable):
        return vectors.table(vectors.convert(field.vectors, field.vectors.dtype))
    return vectors.convert(field, field.dtype)


@contract.blend.register(tuple)
def _(points, others, gamma):
    for array, other in zip(numbers_held(points), numbers_held(others), strict=True):
        array[...] = (1.0 - gamma) * array + gamma * other


@contract.kind_of.register(tuple)
def _(points):
    return "marginals"
