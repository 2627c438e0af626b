"""The defaults of a compiled structure: what follows from the statistics of its outputs. See `contract.py`.

Such a structure is a NamedTuple with, among its fields,

    codes       the codes of the true outputs, one after another
    code_start  (samples + 1,) where each begins
    row_start   (samples + 1,) where the statistics of each sample would begin, if they were one after another

Joint features are A_i s for the statistics s of an output, so that inner products and norms need nothing but A_i and its
transpose: `add_features` and `scores_of_statistics`.
"""

from typing import NamedTuple

import numpy as np

from ...jit import vectors
from . import contract

WIDTH = vectors.width(np.float64)  # statistics in a vector


def starts(sizes) -> np.ndarray:
    """Where each of so many things of these sizes begins, one after another, and where the last ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def within(start: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The numbers start_i, ..., start_i + count_i - 1 for all i, one after another."""
    return np.arange(int(count.sum())) + np.repeat(start - starts(count)[:-1], count)


def vectors_for(count):
    """How many vectors hold so many numbers."""
    return -(-count // WIDTH)


class RowScratch(NamedTuple):
    """Scratch for one sample at a time; rows have an entry for each statistic."""

    difference: np.ndarray  # (vectors, 1, width)
    change: np.ndarray  # the same memory, as a row
    scores: np.ndarray  # what one of each statistic adds to w . phi
    other: np.ndarray  # the same for the features of the output given to `against`
    one: np.ndarray  # the statistics of one output, zero between calls
    dense: np.ndarray  # like the weights, zero between calls
    code: np.ndarray


@contract.new_scratch.register(tuple)
def _(data) -> RowScratch:
    most, longest = (int(np.diff(start).max(initial=1)) for start in (data.row_start, data.code_start))
    difference = vectors.zeros_vectors(vectors_for(most), 1, np.float64)
    scores, other, one = (np.zeros(difference.size) for _ in range(3))
    dense = vectors.aligned(contract.weight_shape(data), np.float64)
    return RowScratch(difference, difference.reshape(-1), scores, other, one, dense, np.zeros(longest, np.int32))


@contract.n_samples.register(tuple)
def _(data):
    return data.code_start.size - 1


@contract.truths.register(tuple)
def _(data):
    return data.codes, np.diff(data.code_start)


@contract.same_shapes.register(tuple)
def _(data, other):
    return all(np.array_equal(getattr(data, name), getattr(other, name)) for name in ("code_start", "row_start"))


@contract.visit_work.register(tuple)
def _(data):
    return float(np.mean(np.diff(data.row_start))) if data.row_start.size > 1 else 1.0


@contract.shown_statistics.register(tuple)
def _(data, i, row):
    return row[: data.row_start[i + 1] - data.row_start[i]]


@contract.lacks_marginals.register(tuple)
def _(data):
    if contract.interior.dispatch(type(data)) is not contract.interior.dispatch(object):
        return None
    return (
        f"{type(data).__name__} have no marginals, which partial linearization and exponentiated gradient need; "
        "FrankWolfe and DualCoordinate do without."
    )


@contract.length.register(tuple)
def _(data, i):
    return data.code_start[i + 1] - data.code_start[i]


@contract.truth.register(tuple)
def _(data, i, code):
    for p in range(data.code_start[i + 1] - data.code_start[i]):
        code[p] = data.codes[data.code_start[i] + p]


@contract.n_vectors.register(tuple)
def _(data, i):
    return (data.row_start[i + 1] - data.row_start[i] + WIDTH - 1) // WIDTH


@contract.prepare.register(tuple)
def _(data, i, W, scratch):
    contract.scores_of_statistics(data, i, W, scratch.scores)


@contract.score_of.register(tuple)
def _(data, i, scratch, code):
    total = 0.0
    contract.add_statistics(data, i, 1.0, code, scratch.one)
    for k in range(data.row_start[i + 1] - data.row_start[i]):
        total += scratch.one[k] * scratch.scores[k]
        scratch.one[k] = 0.0
    return total


@contract.forget.register(tuple)
def _(data, i, code):
    return None


@contract.diameter.register(tuple)
def _(data, i):
    raise ValueError("temperature='auto' needs a structure that says how far its outputs lie apart: `diameter`.")


@contract.against.register(tuple)
def _(data, i, scratch, code):
    contract.add_statistics(data, i, 1.0, code, scratch.one)
    contract.add_features(data, i, 1.0, scratch.one, scratch.dense)
    contract.scores_of_statistics(data, i, scratch.dense, scratch.other)
    for k in range(data.row_start[i + 1] - data.row_start[i]):
        scratch.one[k] = 0.0
    scratch.dense[...] = 0.0


@contract.inner.register(tuple)
def _(data, i, scratch, code):
    total = 0.0
    contract.add_statistics(data, i, 1.0, code, scratch.one)
    for k in range(data.row_start[i + 1] - data.row_start[i]):
        total += scratch.one[k] * scratch.other[k]
        scratch.one[k] = 0.0
    return total


@contract.clear.register(tuple)
def _(data, i, scratch):
    zero = vectors.zeros_like(scratch.difference)
    for k in range(contract.n_vectors(data, i)):
        vectors.store(scratch.difference, k, 0, zero)


@contract.tally.register(tuple)
def _(data, i, t, code, scratch):
    contract.add_statistics(data, i, t, code, scratch.change)


@contract.push.register(tuple)
def _(data, i, t, scratch, W):
    contract.add_features(data, i, t, scratch.change, W)


@contract.measure.register(tuple)
def _(data, i, scratch):
    gain, square = contract.loss_of_statistics(data, i, scratch.change, 0), 0.0
    for k in range(data.row_start[i + 1] - data.row_start[i]):
        gain += scratch.change[k] * scratch.scores[k]
    contract.add_features(data, i, 1.0, scratch.change, scratch.dense)
    flat = scratch.dense.reshape(-1)
    for k in range(flat.size):
        square += flat[k] * flat[k]
        flat[k] = 0.0
    return gain, square
