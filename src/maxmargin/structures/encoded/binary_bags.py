"""Bags of two classes: one weight vector, and outputs that are a candidate or nothing. `bags.py` says what bags are."""

from typing import NamedTuple

import numpy as np

from ...data import rows
from ...jit import vectors
from . import contract
from .bags import BAGS, hold, imputed, largest_bag, written
from .listed import (
    LISTED,
    ListedMarginals,
    add_output,
    allowed,
    around_true_outputs,
    first_output,
    loss_at,
    n_outputs,
    score_at,
    true_output,
)
from .statistics import WIDTH, starts, vectors_for


class BinaryBags(NamedTuple):
    """Samples that show something or nothing."""

    X: rows.Dense | rows.Indexed | rows.CSR
    start: np.ndarray
    label: np.ndarray  # (samples,) 1 for a positive sample
    choice: np.ndarray  # (samples,) the candidate of the true output, where that is not nothing
    margin: np.ndarray  # (samples,) the loss of a wrong output


class BinaryBagScratch(NamedTuple):
    scores: np.ndarray  # (candidates,)
    difference: np.ndarray  # (vectors, 1, width)
    change: np.ndarray  # its memory: nothing, then the candidates
    mixed: np.ndarray  # like the weights; zero between calls
    other: np.ndarray
    held: np.ndarray  # (1,)
    target: np.ndarray
    code: np.ndarray


@n_outputs.register(BinaryBags)
def _(data, i):
    return data.start[i + 1] - data.start[i] + 1


@first_output.register(BinaryBags)
def _(data, i):
    return data.start[i] + i


@allowed.register(BinaryBags)
def _(data, i, output):
    return data.label[i] == 0 or output == 0 or output == 1 + data.choice[i]


@true_output.register(BinaryBags)
def _(data, i):
    return 1 + data.choice[i] if data.label[i] == 1 else 0


@score_at.register(BinaryBags)
def _(data, i, scratch, output):
    return scratch.scores[output - 1] if output > 0 else 0.0


@loss_at.register(BinaryBags)
def _(data, i, output):
    return data.margin[i] if (output > 0) != (data.label[i] == 1) else 0.0


@add_output.register(BinaryBags)
def _(data, i, t, output, scratch):
    scratch.change[output] += t


@contract.prepare.register(BinaryBags)
def _(data, i, W, scratch):
    first = data.choice[i] if data.label[i] == 1 else 0  # of a positive sample the fixed candidate only
    last = first + 1 if data.label[i] == 1 else data.start[i + 1] - data.start[i]
    for c in range(first, last):
        scratch.scores[c] = rows.dot(data.X, data.start[i] + c, W)


@contract.worst.register(BinaryBags)
def _(data, i, scratch, code):
    best, highest = 0, -np.inf
    for output in range(n_outputs(data, i)):
        if allowed(data, i, output):
            value = score_at(data, i, scratch, output) + loss_at(data, i, output)
            if value > highest:
                best, highest = output, value
    code[0] = best
    return highest


@imputed.register(BinaryBags)
def _(data, i, W, scratch):
    best, highest = 0, -np.inf
    for c in range(data.start[i + 1] - data.start[i]):
        score = rows.dot(data.X, data.start[i] + c, W)
        if score > highest:
            best, highest = c, score
    return best


@contract.against.register(BinaryBags)
def _(data, i, scratch, code):
    hold(data, scratch, data.start[i] + code[0] - 1 if code[0] > 0 else -1)


@contract.inner.register(BinaryBags)
def _(data, i, scratch, code):
    return rows.dot(data.X, data.start[i] + code[0] - 1, scratch.other) if code[0] > 0 else 0.0


@contract.push.register(BinaryBags)
def _(data, i, t, scratch, W):
    for c in range(data.start[i + 1] - data.start[i]):
        if scratch.change[1 + c] != 0.0:
            rows.add(data.X, data.start[i] + c, t * scratch.change[1 + c], W)


@contract.measure.register(BinaryBags)
def _(data, i, scratch):
    size = data.start[i + 1] - data.start[i]
    gain, square = scratch.change[0] * loss_at(data, i, 0), 0.0
    for c in range(size):
        if scratch.change[1 + c] != 0.0:
            gain += scratch.change[1 + c] * (scratch.scores[c] + loss_at(data, i, 1 + c))
            rows.add(data.X, data.start[i] + c, scratch.change[1 + c], scratch.mixed)
    for j in range(scratch.mixed.size):
        square += scratch.mixed[j] * scratch.mixed[j]
        scratch.mixed[j] = 0.0
    return gain, square


@written.register(BinaryBags)
def _(data, i, t, scratch, result):
    for c in range(data.start[i + 1] - data.start[i]):
        result[data.start[i] + c, 0] = t * scratch.change[1 + c]


@contract.n_vectors.register(BinaryBags)
def _(data, i):
    return (data.start[i + 1] - data.start[i] + WIDTH) // WIDTH


@contract.loss_of_statistics.register(BinaryBags)
def _(data, i, row, at):
    total = 0.0
    for output in range(n_outputs(data, i)):
        total += row[at + output] * loss_at(data, i, output)
    return total


@contract.shown_statistics.register(BinaryBags)
def _(data, i, row):
    return row[: n_outputs(data, i)]


@contract.places_of_truths.register(BinaryBags)
def _(data):
    return starts(vectors_for(np.diff(data.start) + 1))[:-1] * WIDTH + contract.truths(data)[0]


@contract.truths.register(BinaryBags)
def _(data):
    return np.where(data.label == 1, 1 + data.choice, 0).astype(np.int32), np.ones(data.label.size, np.int64)


@contract.weight_shape.register(BinaryBags)
def _(data):
    return (rows.shape(data.X)[1] + 1,)


@contract.output_of.register(BinaryBags)
def _(data, structure, i, code):
    return int(code[0]) - 1 if code[0] > 0 else None


@contract.new_scratch.register(BinaryBags)
def _(data) -> BinaryBagScratch:
    most, (dim,) = largest_bag(data), contract.weight_shape(data)
    difference = vectors.zeros_vectors(vectors_for(most + 1), 1, np.float64)
    spare = np.zeros(most), difference, difference.reshape(-1), np.zeros(dim), np.zeros(dim)
    return BinaryBagScratch(*spare, np.full(1, -1), np.zeros(most + 1), np.zeros(1, np.int32))


@contract.interior.register(BinaryBags)
def _(data, spread) -> ListedMarginals:
    return around_true_outputs(data, spread, 2)


LISTED.admit(BinaryBags)
BAGS.admit(BinaryBags)
