"""Bags of candidates: encoded samples for models that choose one row of a sample, of which the data do not say which.

Two kinds. `Bags` have a weight vector for each class; an output is a class and a candidate, with the features of that
candidate in the place of that class, and the cost of that class. `BinaryBags` have one weight vector; an output is a candidate,
or *nothing*, whose features are zero. For a negative sample nothing is true.

`choice` holds the candidate that is fixed for the true class: with it fixed, learning is a convex structured problem. Other
candidates of the true class are no outputs of it (as in Ramanan 2013, A.4), so that the losses are

    a class k      max(0, max_{j != k, c} cost_kj + w_j . x_c - w_k . x_choice)
    positive       max(0, margin - w . x_choice)          negative   max(0, max_c margin + w . x_c)

Yu and Joachims (2009) have the other candidates of the true class too, with cost zero. Both are the latent loss where the choice
is the best one, and nowhere below it; the one here is the smaller, so a procedure that rests here would rest there, not
the other way round.

The code of an output is one number: class + candidate * classes, or 0 for nothing and 1 + candidate.
"""

from typing import Any, NamedTuple

import numpy as np

from ...data import rows
from ...jit import generic, generic_call, jitable, jitable_call, kernel, vectors
from .contract import (
    against,
    blend,
    clear,
    copied,
    diameter,
    direct,
    expected_loss,
    follow,
    forget,
    inner,
    interior,
    kind_of,
    length,
    loss_of,
    measure,
    n_samples,
    new_room,
    output_of,
    prepare,
    push,
    same_shapes,
    score_of,
    statistics_of,
    step_towards,
    tally,
    truth,
    truths,
    vertices,
    weight_shape,
    withdraw,
    worst,
)
from .graphs import FLOOR


class Bags(NamedTuple):
    """Samples of several classes, their candidates one after another."""

    X: rows.Dense | rows.Indexed | rows.CSR
    start: np.ndarray  # (samples + 1,)
    label: np.ndarray  # (samples,)
    choice: np.ndarray  # (samples,) the candidate of the true output
    cost: np.ndarray  # (K, K)


class BinaryBags(NamedTuple):
    """Samples that show something or nothing."""

    X: rows.Dense | rows.Indexed | rows.CSR
    start: np.ndarray
    label: np.ndarray  # (samples,) 1 for a positive sample
    choice: np.ndarray  # (samples,) the candidate of the true output, where that is not nothing
    margin: np.ndarray  # (samples,) the loss of a wrong output


class BagRoom(NamedTuple):
    """Scratch for one bag at a time; all of it has room for the largest."""

    scores: vectors.Table  # (candidates + 1, K); the last row is for `measure`
    change: vectors.Table  # (candidates, K) the difference
    mixed: np.ndarray  # like the weights; zero between calls
    other: np.ndarray  # the row given to `against`
    held: np.ndarray  # (2,) the number of that row, -1 for none, and its class
    target: np.ndarray
    code: np.ndarray


class BinaryBagRoom(NamedTuple):
    scores: np.ndarray  # (candidates,)
    change: np.ndarray  # (candidates,) the difference
    nothing: np.ndarray  # (1,) its coefficient on nothing
    mixed: np.ndarray  # like the weights; zero between calls
    other: np.ndarray
    held: np.ndarray  # (1,)
    target: np.ndarray
    code: np.ndarray


# ---- outputs by their numbers ----------------------------------------------------------------------------


@generic
def n_outputs(data, i):
    """How many outputs sample i has."""


@generic
def first_output(data, i):
    """Where they begin in a list of the outputs of all samples."""


@generic
def allowed(data, i, output):
    """Whether the convex problem has this output."""


@generic
def true_output(data, i):
    """The number of the true output."""


@generic
def score_at(data, i, room, output):
    """w . phi(x_i, output), after `prepare`"""


@generic
def loss_at(data, i, output):
    """Delta(y_i, output)"""


@generic
def add_output(data, i, t, output, room):
    """difference += t * output"""


@generic_call
def imputed(data, i, W, room):
    """The candidate with the highest score for the true class; of a negative sample, the one most like a positive."""


@generic_call
def written(data, i, t, room, result):
    """result[row] = t * the coefficients of the difference on each candidate, row by row"""


@n_outputs.register(Bags)
def _(data, i):
    return (data.start[i + 1] - data.start[i]) * data.cost.shape[0]


@n_outputs.register(BinaryBags)
def _(data, i):
    return data.start[i + 1] - data.start[i] + 1


@first_output.register(Bags)
def _(data, i):
    return data.start[i] * data.cost.shape[0]


@first_output.register(BinaryBags)
def _(data, i):
    return data.start[i] + i


@allowed.register(Bags)
def _(data, i, output):
    return output % data.cost.shape[0] != data.label[i] or output == true_output(data, i)


@allowed.register(BinaryBags)
def _(data, i, output):
    return data.label[i] == 0 or output == 0 or output == 1 + data.choice[i]


@true_output.register(Bags)
def _(data, i):
    return data.choice[i] * data.cost.shape[0] + data.label[i]


@true_output.register(BinaryBags)
def _(data, i):
    return 1 + data.choice[i] if data.label[i] == 1 else 0


@score_at.register(Bags)
def _(data, i, room, output):
    K = data.cost.shape[0]
    return room.scores.flat[output // K, output % K]


@score_at.register(BinaryBags)
def _(data, i, room, output):
    return room.scores[output - 1] if output > 0 else 0.0


@loss_at.register(Bags)
def _(data, i, output):
    return data.cost[data.label[i], output % data.cost.shape[0]]


@loss_at.register(BinaryBags)
def _(data, i, output):
    return data.margin[i] if (output > 0) != (data.label[i] == 1) else 0.0


@add_output.register(Bags)
def _(data, i, t, output, room):
    K = data.cost.shape[0]
    room.change.flat[output // K, output % K] += t


@add_output.register(BinaryBags)
def _(data, i, t, output, room):
    if output > 0:
        room.change[output - 1] += t
    else:
        room.nothing[0] += t


# ---- scores ----------------------------------------------------------------------------------------------


@length.register(Bags)
@length.register(BinaryBags)
def _(data, i):
    return 1


@truth.register(Bags)
@truth.register(BinaryBags)
def _(data, i, code):
    code[0] = true_output(data, i)


@jitable
def score_all(data, i, W, room):
    for c in range(data.start[i + 1] - data.start[i]):
        rows.scores(data.X, data.start[i] + c, W, room.scores.lanes[c : c + 1])


@prepare.register(Bags)
def _(data, i, W, room):
    score_all(data, i, W, room)


@prepare.register(BinaryBags)
def _(data, i, W, room):
    first = data.choice[i] if data.label[i] == 1 else 0  # of a positive sample the fixed candidate only
    last = first + 1 if data.label[i] == 1 else data.start[i + 1] - data.start[i]
    for c in range(first, last):
        room.scores[c] = rows.dot(data.X, data.start[i] + c, W)


@worst.register(Bags)
def _(data, i, room, code):
    K, label, best = data.cost.shape[0], data.label[i], true_output(data, i)
    highest = room.scores.flat[data.choice[i], label]
    for c in range(data.start[i + 1] - data.start[i]):  # candidates and classes one by one: a division for each output is dear
        for k in range(K):
            value = room.scores.flat[c, k] + data.cost[label, k]
            if value > highest and k != label:
                best, highest = c * K + k, value
    code[0] = best
    return highest


@worst.register(BinaryBags)
def _(data, i, room, code):
    best, highest = 0, -np.inf
    for output in range(n_outputs(data, i)):
        if allowed(data, i, output):
            value = score_at(data, i, room, output) + loss_at(data, i, output)
            if value > highest:
                best, highest = output, value
    code[0] = best
    return highest


@score_of.register(Bags)
@score_of.register(BinaryBags)
def _(data, i, room, code):
    return score_at(data, i, room, np.int64(code[0]))


@loss_of.register(Bags)
@loss_of.register(BinaryBags)
def _(data, i, code):
    return loss_at(data, i, np.int64(code[0]))


@forget.register(Bags)
@forget.register(BinaryBags)
def _(data, i, code):
    return None


@imputed.register(Bags)
def _(data, i, W, room):
    score_all(data, i, W, room)
    best = 0
    for c in range(1, data.start[i + 1] - data.start[i]):
        if room.scores.flat[c, data.label[i]] > room.scores.flat[best, data.label[i]]:
            best = c
    return best


@imputed.register(BinaryBags)
def _(data, i, W, room):
    best, highest = 0, -np.inf
    for c in range(data.start[i + 1] - data.start[i]):
        score = rows.dot(data.X, data.start[i] + c, W)
        if score > highest:
            best, highest = c, score
    return best


@kernel
def impute_all(data, W, room, choice, start, stop):
    for i in range(start, stop):
        choice[i] = imputed(data, i, W, room)


# ---- inner products of two outputs -----------------------------------------------------------------------


@jitable
def hold(data, room, row):
    """other = the row; -1 stands for zero"""
    before = room.held[0]
    if before >= 0:
        for k in range(rows.first(data.X, before), rows.last(data.X, before)):
            room.other[rows.column(data.X, before, k)] = 0.0
        room.other[rows.last_column(data.X)] = 0.0
    if row >= 0:
        rows.add(data.X, row, 1.0, room.other)
    room.held[0] = row


@against.register(Bags)
def _(data, i, room, code):
    K = data.cost.shape[0]
    hold(data, room, data.start[i] + code[0] // K)
    room.held[1] = code[0] % K


@against.register(BinaryBags)
def _(data, i, room, code):
    hold(data, room, data.start[i] + code[0] - 1 if code[0] > 0 else -1)


@inner.register(Bags)
def _(data, i, room, code):
    K = data.cost.shape[0]
    return rows.dot(data.X, data.start[i] + code[0] // K, room.other) if code[0] % K == room.held[1] else 0.0


@inner.register(BinaryBags)
def _(data, i, room, code):
    return rows.dot(data.X, data.start[i] + code[0] - 1, room.other) if code[0] > 0 else 0.0


@diameter.register(Bags)
@diameter.register(BinaryBags)
def _(data, i):
    largest = 0.0
    for r in range(data.start[i], data.start[i + 1]):
        square = np.float64(data.X.bias) ** 2
        for k in range(rows.first(data.X, r), rows.last(data.X, r)):
            square += np.float64(rows.value(data.X, r, k)) ** 2
        largest = max(largest, square)
    return 4.0 * largest  # two candidates of one class may point in opposite directions


# ---- differences -----------------------------------------------------------------------------------------


@clear.register(Bags)
def _(data, i, room):
    zero = vectors.zeros_like(room.change.lanes)
    for c in range(data.start[i + 1] - data.start[i]):
        for b in range(room.change.lanes.shape[1]):
            vectors.store(room.change.lanes, c, b, zero)


@clear.register(BinaryBags)
def _(data, i, room):
    room.nothing[0] = 0.0
    for c in range(data.start[i + 1] - data.start[i]):
        room.change[c] = 0.0


@tally.register(Bags)
@tally.register(BinaryBags)
def _(data, i, t, code, room):
    add_output(data, i, t, np.int64(code[0]), room)


@push.register(Bags)
def _(data, i, t, room, W):
    table = room.change.lanes
    for c in range(data.start[i + 1] - data.start[i]):
        if vectors.magnitude_row(table, c) > 0:
            for b in range(table.shape[1]):
                vectors.store(table, c, b, vectors.fma(vectors.zeros_like(table), t, vectors.load(table, c, b)))
            rows.update(data.X, data.start[i] + c, table, c, W)


@push.register(BinaryBags)
def _(data, i, t, room, W):
    for c in range(data.start[i + 1] - data.start[i]):
        if room.change[c] != 0.0:
            rows.add(data.X, data.start[i] + c, t * room.change[c], W)


@measure.register(Bags)
def _(data, i, room):
    size, K, table, spare = (
        data.start[i + 1] - data.start[i],
        data.cost.shape[0],
        room.change.lanes,
        room.scores.flat.shape[0] - 1,
    )
    gain, square = 0.0, 0.0
    for c in range(size):
        if vectors.magnitude_row(table, c) > 0:
            for k in range(K):
                gain += room.change.flat[c, k] * (room.scores.flat[c, k] + data.cost[data.label[i], k])
            rows.update(data.X, data.start[i] + c, table, c, room.mixed)
    for c in range(size):  # ||sum_c x_c d_c'||^2 = sum_c <x_c' sum, d_c>
        if vectors.magnitude_row(table, c) > 0:
            rows.scores(data.X, data.start[i] + c, room.mixed, room.scores.lanes[spare : spare + 1])
            for k in range(K):
                square += room.change.flat[c, k] * room.scores.flat[spare, k]
    for c in range(size):
        if vectors.magnitude_row(table, c) > 0:
            wipe(data.X, data.start[i] + c, room.mixed)
    return gain, max(square, 0.0)


@jitable_call
def wipe(X, row, table):
    """Zero in all columns of the row."""
    zero = vectors.zeros_like(table)
    for b in range(table.shape[1]):
        for k in range(rows.first(X, row), rows.last(X, row)):
            vectors.store(table, rows.column(X, row, k), b, zero)
        vectors.store(table, rows.last_column(X), b, zero)


@measure.register(BinaryBags)
def _(data, i, room):
    size = data.start[i + 1] - data.start[i]
    gain, square = room.nothing[0] * loss_at(data, i, 0), 0.0
    for c in range(size):
        if room.change[c] != 0.0:
            gain += room.change[c] * (room.scores[c] + loss_at(data, i, 1 + c))
            rows.add(data.X, data.start[i] + c, room.change[c], room.mixed)
    for j in range(room.mixed.size):
        square += room.mixed[j] * room.mixed[j]
        room.mixed[j] = 0.0
    return gain, square


@written.register(Bags)
def _(data, i, t, room, result):
    for c in range(data.start[i + 1] - data.start[i]):
        for k in range(data.cost.shape[0]):
            result[data.start[i] + c, k] = t * room.change.flat[c, k]


@written.register(BinaryBags)
def _(data, i, t, room, result):
    for c in range(data.start[i + 1] - data.start[i]):
        result[data.start[i] + c, 0] = t * room.change[c]


@kernel
def coefficients(points, data, cap, room, result):
    """What the points stand for on each candidate: weights = sum over rows of result[row] x_row."""
    for i in range(cap.size):
        truth(data, i, room.code)
        clear(data, i, room)
        tally(data, i, 1.0, room.code, room)
        withdraw(points, data, i, room)
        written(data, i, cap[i], room, result)


# ---- points ----------------------------------------------------------------------------------------------


class BagMixtures(NamedTuple):
    """A distribution over the outputs of each sample, one after another."""

    mass: np.ndarray


class BagMarginals(NamedTuple):
    """The same, at least FLOOR for every output that is allowed."""

    mass: np.ndarray


@kind_of.register(BagMixtures)
def _(points):
    return "mixtures"


@jitable
def differ(points, data, i, room):
    """difference = target - point"""
    clear(data, i, room)
    for output in range(n_outputs(data, i)):
        add_output(data, i, room.target[output] - points.mass[first_output(data, i) + output], output, room)


@direct.register(BagMixtures)
def _(points, data, i, room, temperature):
    worst(data, i, room, room.code)
    for output in range(n_outputs(data, i)):
        room.target[output] = 0.0
    room.target[room.code[0]] = 1.0
    differ(points, data, i, room)


@direct.register(BagMarginals)
def _(points, data, i, room, temperature):
    first, count, highest, total = first_output(data, i), n_outputs(data, i), -np.inf, 0.0
    for output in range(count):
        room.target[output] = -np.inf
        if allowed(data, i, output):
            value = score_at(data, i, room, output) + loss_at(data, i, output)
            room.target[output] = np.log(points.mass[first + output]) + value / temperature
            highest = max(highest, room.target[output])
    for output in range(count):
        room.target[output] = np.exp(room.target[output] - highest)
        total += room.target[output]
    for output in range(count):
        room.target[output] /= total
    differ(points, data, i, room)


@withdraw.register(BagMixtures)
@withdraw.register(BagMarginals)
def _(points, data, i, room):
    for output in range(n_outputs(data, i)):
        add_output(data, i, -points.mass[first_output(data, i) + output], output, room)


@step_towards.register(BagMixtures)
def _(points, data, i, gamma, room):
    for output in range(n_outputs(data, i)):
        at = first_output(data, i) + output
        points.mass[at] = (1.0 - gamma) * points.mass[at] + gamma * room.target[output]


@step_towards.register(BagMarginals)
def _(points, data, i, gamma, room):
    for output in range(n_outputs(data, i)):
        if allowed(data, i, output):
            at = first_output(data, i) + output
            points.mass[at] = max((1.0 - gamma) * points.mass[at] + gamma * room.target[output], FLOOR)


@expected_loss.register(BagMixtures)
@expected_loss.register(BagMarginals)
def _(points, data, i):
    total = 0.0
    for output in range(n_outputs(data, i)):
        total += points.mass[first_output(data, i) + output] * loss_at(data, i, output)
    return total


@copied.register(BagMixtures)
@copied.register(BagMarginals)
def _(points):
    return type(points)(points.mass.copy())


@blend.register(BagMixtures)
@blend.register(BagMarginals)
def _(points, others, gamma):
    points.mass[:] = (1.0 - gamma) * points.mass + gamma * others.mass


@kernel
def spread_out(data, mass, spread, classes):
    """The true output, and for every other one that is allowed `spread` divided by the candidates."""
    for i in range(data.label.size):
        first, rest = first_output(data, i), 1.0
        share = min(spread, 1.0 / classes) / (data.start[i + 1] - data.start[i])
        for output in range(n_outputs(data, i)):
            mass[first + output] = 0.0
            if allowed(data, i, output):
                mass[first + output] = share
                rest -= share
        mass[first + true_output(data, i)] += rest


@kernel
def swap_truths(mass, before, after):
    """Mass on a true output that is not true any more goes to the new one, and the other way round."""
    for i in range(before.label.size):
        old, new = first_output(before, i) + true_output(before, i), first_output(after, i) + true_output(after, i)
        mass[old], mass[new] = mass[new], mass[old]


@follow.register(BagMixtures)
@follow.register(BagMarginals)
def _(points, before, after):
    result = copied(points)
    swap_truths(result.mass, before, after)
    return result


@statistics_of.register(BagMixtures)
@statistics_of.register(BagMarginals)
def _(points, data, i, weight):
    return weight * points.mass[first_output(data, i) : first_output(data, i) + n_outputs(data, i)]


# ---- encoded samples as a whole; plain Python ------------------------------------------------------------


@n_samples.register(Bags)
@n_samples.register(BinaryBags)
def _(data):
    return data.label.size


@truths.register(Bags)
def _(data):
    return (data.choice * data.cost.shape[0] + data.label).astype(np.int32), np.ones(data.label.size, np.int64)


@truths.register(BinaryBags)
def _(data):
    return np.where(data.label == 1, 1 + data.choice, 0).astype(np.int32), np.ones(data.label.size, np.int64)


@weight_shape.register(Bags)
def _(data):
    return rows.shape(data.X)[1] + 1, vectors.blocks(data.cost.shape[0], np.float64), vectors.width(np.float64)


@weight_shape.register(BinaryBags)
def _(data):
    return (rows.shape(data.X)[1] + 1,)


@same_shapes.register(Bags)
@same_shapes.register(BinaryBags)
def _(data, other):
    return np.array_equal(data.start, other.start) and np.array_equal(data.label, other.label)


@output_of.register(Bags)
def _(data, structure, i, code):
    return int(code[0]) % data.cost.shape[0], int(code[0]) // data.cost.shape[0]


@output_of.register(BinaryBags)
def _(data, structure, i, code):
    return int(code[0]) - 1 if code[0] > 0 else None


def largest(data) -> int:
    """The most candidates that a bag has."""
    return int(np.diff(data.start).max(initial=1))


@new_room.register(Bags)
def _(data) -> BagRoom:
    most, K, shape = largest(data), data.cost.shape[0], weight_shape(data)
    scores, change = vectors.zeros_table(most + 1, K, np.float64), vectors.zeros_table(most, K, np.float64)
    mixed, other, held = vectors.aligned(shape, np.float64), np.zeros(shape[0]), np.full(2, -1)
    return BagRoom(scores, change, mixed, other, held, np.zeros(most * K), np.zeros(1, np.int32))


@new_room.register(BinaryBags)
def _(data) -> BinaryBagRoom:
    most, (dim,) = largest(data), weight_shape(data)
    spare = np.zeros(most), np.zeros(most), np.zeros(1), np.zeros(dim), np.zeros(dim)
    return BinaryBagRoom(*spare, np.full(1, -1), np.zeros(most + 1), np.zeros(1, np.int32))


def distributions(data, spread: float) -> np.ndarray:
    """Mass on the true outputs, and `spread` on the wrong ones."""
    last = data.label.size - 1
    mass, classes = np.empty(int(first_output(data, last) + n_outputs(data, last))), classes_of(data)
    spread_out(data, mass, spread, classes)
    return mass


def classes_of(data: Any) -> int:
    return data.cost.shape[0] if isinstance(data, Bags) else 2


@vertices.register(Bags)
@vertices.register(BinaryBags)
def _(data):
    return BagMixtures(distributions(data, 0.0))


@interior.register(Bags)
@interior.register(BinaryBags)
def _(data, spread):
    return BagMarginals(distributions(data, spread))
