"""Bags of candidates: encoded samples for models that choose one row of a sample, of which the data do not say which.

Two kinds. `Bags` have a weight vector for each class; an output is a class and a candidate, with the features of that
candidate in the place of that class, and the cost of that class. `BinaryBags` (`binary_bags.py`) have one weight vector; an
output is a candidate, or *nothing*, whose features are zero. For a negative sample nothing is true.

`choice` holds the candidate that is fixed for the true class: with it fixed, learning is a convex structured problem. Other
candidates of the true class are no outputs of it (as in Ramanan 2013, A.4), so that the losses are

    a class k      max(0, max_{j != k, c} cost_kj + w_j . x_c - w_k . x_choice)
    positive       max(0, margin - w . x_choice)          negative   max(0, max_c margin + w . x_c)

Yu and Joachims (2009) have the other candidates of the true class too, with cost zero. Both are the latent loss where the choice
is the best one, and nowhere below it; the one here is the smaller, so a procedure that rests here would rest there, not
the other way round.

The code of an output is one number: class + candidate * classes, or 0 for nothing and 1 + candidate. The statistics are the
masses of all outputs. Verbs that would follow from these are written here for speed: classes lie along vectors, and most
statistics are zero.
"""

import math
from typing import NamedTuple

import numpy as np

from ...data import rows
from ...data.row_updates import update
from ...jit import generic_call, jitable, jitable_call, kernel, vectors
from . import contract
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
from .statistics import WIDTH

LANES = vectors.width(np.float32)  # classes fill vectors of float32 whole
BAGS = contract.Family()


class Bags(NamedTuple):
    """Samples of several classes, their candidates one after another."""

    X: rows.Dense | rows.Indexed | rows.CSR
    start: np.ndarray  # (samples + 1,)
    label: np.ndarray  # (samples,)
    choice: np.ndarray  # (samples,) the candidate of the true output
    cost: np.ndarray  # (K, K)


class BagScratch(NamedTuple):
    """Scratch for one bag at a time, as large as the largest needs."""

    scores: vectors.VectorTable  # (candidates + 1, K); the last row is for `measure`
    difference: np.ndarray  # (vectors, 1, width) classes of each candidate, as they fill vectors
    change: vectors.VectorTable  # (candidates, K) its memory
    mixed: np.ndarray  # like the weights; zero between calls
    other: np.ndarray  # the row given to `against`
    held: np.ndarray  # (2,) the number of that row, -1 for none, and its class
    target: np.ndarray
    code: np.ndarray


# ---- outputs by their numbers ----------------------------------------------------------------------------


@generic_call
def imputed(data, i, W, scratch):
    """The candidate with the highest score for the true class; of a negative sample, the one most like a positive."""


@generic_call
def written(data, i, t, scratch, result):
    """result[row] = t * the coefficients of the difference on each candidate, row by row"""


@n_outputs.register(Bags)
def _(data, i):
    return (data.start[i + 1] - data.start[i]) * data.cost.shape[0]


@first_output.register(Bags)
def _(data, i):
    return data.start[i] * data.cost.shape[0]


@allowed.register(Bags)
def _(data, i, output):
    return output % data.cost.shape[0] != data.label[i] or output == true_output(data, i)


@true_output.register(Bags)
def _(data, i):
    return data.choice[i] * data.cost.shape[0] + data.label[i]


@score_at.register(Bags)
def _(data, i, scratch, output):
    K = data.cost.shape[0]
    return scratch.scores.flat[output // K, output % K]


@loss_at.register(Bags)
def _(data, i, output):
    return data.cost[data.label[i], output % data.cost.shape[0]]


@add_output.register(Bags)
def _(data, i, t, output, scratch):
    K = data.cost.shape[0]
    scratch.change.flat[output // K, output % K] += t


# ---- scores ----------------------------------------------------------------------------------------------


@jitable
def score_all(data, i, W, scratch):
    for c in range(data.start[i + 1] - data.start[i]):
        rows.scores(data.X, data.start[i] + c, W, scratch.scores.vectors[c : c + 1])


@contract.prepare.register(Bags)
def _(data, i, W, scratch):
    score_all(data, i, W, scratch)


@contract.worst.register(Bags)
def _(data, i, scratch, code):
    K, label, best = data.cost.shape[0], data.label[i], true_output(data, i)
    highest = scratch.scores.flat[data.choice[i], label]
    for c in range(data.start[i + 1] - data.start[i]):  # candidates and classes one by one: a division for each output is dear
        for k in range(K):
            value = scratch.scores.flat[c, k] + data.cost[label, k]
            if value > highest and k != label:
                best, highest = c * K + k, value
    code[0] = best
    return highest


@imputed.register(Bags)
def _(data, i, W, scratch):
    score_all(data, i, W, scratch)
    best = 0
    for c in range(1, data.start[i + 1] - data.start[i]):
        if scratch.scores.flat[c, data.label[i]] > scratch.scores.flat[best, data.label[i]]:
            best = c
    return best


@kernel
def impute_all(data, W, scratch, choice, start, stop):
    for i in range(start, stop):
        choice[i] = imputed(data, i, W, scratch)


# ---- inner products of two outputs -----------------------------------------------------------------------


@jitable
def hold(data, scratch, row):
    """other = the row; -1 stands for zero"""
    before = scratch.held[0]
    if before >= 0:
        for k in range(rows.first(data.X, before), rows.last(data.X, before)):
            scratch.other[rows.column(data.X, before, k)] = 0.0
        scratch.other[rows.last_column(data.X)] = 0.0
    if row >= 0:
        rows.add(data.X, row, 1.0, scratch.other)
    scratch.held[0] = row


@contract.against.register(Bags)
def _(data, i, scratch, code):
    K = data.cost.shape[0]
    hold(data, scratch, data.start[i] + code[0] // K)
    scratch.held[1] = code[0] % K


@contract.inner.register(Bags)
def _(data, i, scratch, code):
    K = data.cost.shape[0]
    return rows.dot(data.X, data.start[i] + code[0] // K, scratch.other) if code[0] % K == scratch.held[1] else 0.0


@BAGS.does(contract.diameter)
def bag_diameter(data, i):
    largest = 0.0
    for r in range(data.start[i], data.start[i + 1]):
        square = np.float64(data.X.bias) ** 2
        for k in range(rows.first(data.X, r), rows.last(data.X, r)):
            square += np.float64(rows.value(data.X, r, k)) ** 2
        largest = max(largest, square)
    return 4.0 * largest  # two candidates of one class may point in opposite directions


# ---- differences -----------------------------------------------------------------------------------------


@contract.push.register(Bags)
def _(data, i, t, scratch, W):
    table = scratch.change.vectors
    for c in range(data.start[i + 1] - data.start[i]):
        if vectors.row_filled(table, c):
            for b in range(table.shape[1]):
                vectors.store(table, c, b, vectors.fma(vectors.zeros_like(table), t, vectors.load(table, c, b)))
            update(data.X, data.start[i] + c, table, c, W)


@contract.measure.register(Bags)
def _(data, i, scratch):
    size, K, spare = data.start[i + 1] - data.start[i], data.cost.shape[0], scratch.scores.flat.shape[0] - 1
    table = scratch.change.vectors
    gain, square = 0.0, 0.0
    for c in range(size):
        if vectors.row_filled(table, c):
            for k in range(K):
                gain += scratch.change.flat[c, k] * (scratch.scores.flat[c, k] + data.cost[data.label[i], k])
            update(data.X, data.start[i] + c, table, c, scratch.mixed)
    for c in range(size):  # ||sum_c x_c d_c'||^2 = sum_c <x_c' sum, d_c>
        if vectors.row_filled(table, c):
            rows.scores(data.X, data.start[i] + c, scratch.mixed, scratch.scores.vectors[spare : spare + 1])
            for k in range(K):
                square += scratch.change.flat[c, k] * scratch.scores.flat[spare, k]
    for c in range(size):
        if vectors.row_filled(table, c):
            wipe_row(data.X, data.start[i] + c, scratch.mixed)
    return gain, max(square, 0.0)


@jitable_call
def wipe_row(X, row, table):
    """Zero in all columns of the row."""
    zero = vectors.zeros_like(table)
    for b in range(table.shape[1]):
        for k in range(rows.first(X, row), rows.last(X, row)):
            vectors.store(table, rows.column(X, row, k), b, zero)
        vectors.store(table, rows.last_column(X), b, zero)


@written.register(Bags)
def _(data, i, t, scratch, result):
    for c in range(data.start[i + 1] - data.start[i]):
        for k in range(data.cost.shape[0]):
            result[data.start[i] + c, k] = t * scratch.change.flat[c, k]


@kernel
def coefficients(points, data, cap, scratch, result):
    """What the points stand for on each candidate: weights = sum over rows of result[row] x_row."""
    for i in range(cap.size):
        contract.truth(data, i, scratch.code)
        contract.depart(points, data, i, scratch)
        written(data, i, cap[i], scratch, result)


# ---- statistics: the mass of each output -----------------------------------------------------------------


@jitable
def class_vectors(data):
    """How many vectors the classes of a candidate fill."""
    return (data.cost.shape[0] + LANES - 1) // LANES * LANES // WIDTH


@contract.n_vectors.register(Bags)
def _(data, i):
    return (data.start[i + 1] - data.start[i]) * class_vectors(data)


@contract.loss_of_statistics.register(Bags)
def _(data, i, row, at):
    total, wide = 0.0, class_vectors(data) * WIDTH
    for c in range(data.start[i + 1] - data.start[i]):
        for k in range(data.cost.shape[0]):
            total += row[at + c * wide + k] * data.cost[data.label[i], k]
    return total


@contract.shown_statistics.register(Bags)
def _(data, i, row):
    return row.reshape(-1, class_vectors(data) * WIDTH)[:, : data.cost.shape[0]].reshape(-1)


@contract.places_of_truths.register(Bags)
def _(data):
    return (data.start[:-1] + data.choice) * class_vectors(data) * WIDTH + data.label


# ---- encoded samples as a whole; plain Python ------------------------------------------------------------


@BAGS.does(contract.n_samples)
def n_bags(data):
    return data.label.size


@contract.truths.register(Bags)
def _(data):
    return (data.choice * data.cost.shape[0] + data.label).astype(np.int32), np.ones(data.label.size, np.int64)


@contract.weight_shape.register(Bags)
def _(data):
    return rows.shape(data.X)[1] + 1, vectors.blocks(data.cost.shape[0], np.float64), vectors.width(np.float64)


@BAGS.does(contract.visit_work)
def bag_work(data):
    return rows.shape(data.X)[0] * rows.mean_length(data.X) * math.prod(contract.weight_shape(data)[1:]) / max(n_bags(data), 1)


@BAGS.does(contract.same_shapes)
def bags_alike(data, other):
    return np.array_equal(data.start, other.start) and np.array_equal(data.label, other.label)


@contract.output_of.register(Bags)
def _(data, structure, i, code):
    return int(code[0]) % data.cost.shape[0], int(code[0]) // data.cost.shape[0]


def largest_bag(data) -> int:
    """The most candidates that a bag has."""
    return int(np.diff(data.start).max(initial=1))


@contract.new_scratch.register(Bags)
def _(data) -> BagScratch:
    most, K, shape = largest_bag(data), data.cost.shape[0], contract.weight_shape(data)
    scores, change = vectors.zeros_table(most + 1, K, np.float64), vectors.zeros_table(most, K, np.float64)
    mixed, other, held = vectors.aligned(shape, np.float64), np.zeros(shape[0]), np.full(2, -1)
    difference = change.vectors.reshape(-1, 1, WIDTH)
    return BagScratch(scores, difference, change, mixed, other, held, np.zeros(most * K), np.zeros(1, np.int32))


@contract.interior.register(Bags)
def _(data, spread) -> ListedMarginals:
    return around_true_outputs(data, spread, data.cost.shape[0])


LISTED.admit(Bags)
BAGS.admit(Bags)
