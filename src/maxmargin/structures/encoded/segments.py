"""Lines cut into labelled segments: encoded samples, the best cut and the marginals of all cuts, exactly.

A *piece* is a label with one of its widths. A segment is a piece at a position; its score is the sum over its columns of <x_t,
template column>, plus the piece's bias; neighbouring segments add a transition weight. A cut is a path through states
that alternate: a segment of label a has just ended at t (*end*), one of label b starts at t (*begin*),

    end (t, a) -- transition a, b --> begin (t, b) -- piece of b, width u --> end (t + u, b)

so the best cut takes one sweep back and one walk forth, in time positions x (pieces + labels^2); without transitions all
ends at t are one state. Every combination of widths is allowed, so whether a segment can be part of a cut depends on the
lengths left and right of it only: both must be sums of widths (*composable*).

The weights are one lane array, template columns along its lanes: a row for each feature, an empty one, then, row by row,
the biases of the pieces and the transitions. A code has a number for each position: the piece that starts there, or -1.
"""

from typing import NamedTuple

import numpy as np

from ...data import rows
from ...jit import jitable, jitable_call, kernel, vectors
from .contract import (
    against,
    blend,
    clear,
    copied,
    diameter,
    direct,
    expected_loss,
    forget,
    inner,
    interior,
    kind_of,
    length,
    loss_of,
    marginals_of,
    measure,
    n_samples,
    new_room,
    output_of,
    points_of,
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

CODE, LABEL = range(2)  # the columns of Segments.place
NAME, WIDTH, COLUMNS = range(3)  # the columns of Segments.piece
WEIGHTS, CHANGE, OTHER, TARGET = range(4)  # rows of Room.pair; one for each position from TARGET on


class Segments(NamedTuple):
    """All samples, their positions one after another."""

    X: rows.Dense | rows.Indexed | rows.CSR
    start: np.ndarray  # (samples + 1,)
    place: np.ndarray  # (positions, 2) the code and the label of the true cut; -1 and K where it is not known
    piece: np.ndarray  # (pieces, 3) label, width, and where its list of template columns starts; sorted by label
    first: np.ndarray  # (K + 1,) the first piece of each label
    column: np.ndarray  # the template column of each column of each piece
    cost: np.ndarray  # (K + 1, K) loss of a position by true label and guess; the last row, for unknown labels, is zero
    scale: np.ndarray  # (samples,) factor on the loss
    composable: np.ndarray  # (longest + 1,) whether so many positions can be cut into segments
    templates: int  # template columns of all labels
    contexts: int  # K, or 1 without transitions
    tail: int  # the first row of the weights of pieces and transitions
    bias: int  # 1 where pieces have biases


class Room(NamedTuple):
    """Scratch for one sample at a time; T is the longest."""

    rows: vectors.Table  # (2 T, columns) scores of template columns by position, then the coefficients of a difference on them
    dense: vectors.Table  # twice the weights: features of a difference, zero between calls; those of the output of `against`
    segment: np.ndarray  # (3 T + 1, pieces) by first position: scores, difference, target; how often the output has the piece
    pair: np.ndarray  # (TARGET + T, contexts * K) transitions: see the names of the rows
    belief: np.ndarray  # (2 T + 2, K) by position: begins, summed losses
    ends: vectors.Table  # (T + 1 + K, contexts) by position; then the transitions by [next label, context]
    tail: np.ndarray  # the weights of pieces and transitions, or how a difference changes them
    code: np.ndarray
    other: np.ndarray  # (T + 1,) the code given to `against`; the last number is its sample, -1 for none


@n_samples.register(Segments)
def _(data):
    return data.start.size - 1


@truths.register(Segments)
def _(data):
    return data.place[:, CODE], np.diff(data.start)


@weight_shape.register(Segments)
def _(data):
    template = vectors.blocks(data.templates, np.float64)
    wide = template * vectors.width(np.float64)
    return data.tail - (-n_tail(data) // wide), template, vectors.width(np.float64)


@new_room.register(Segments)
def _(data) -> Room:
    shape, Q, T = weight_shape(data), data.piece.shape[0], int(np.max(np.diff(data.start), initial=1))
    table, dense = (vectors.table(vectors.aligned((count, *shape[1:]), np.float64)) for count in (2 * T, 2 * shape[0]))
    K = n_labels(data)
    ends = vectors.zeros_table(T + 1 + K, data.contexts, np.float64)
    arrays = np.zeros((3 * T + 1, Q)), np.zeros((TARGET + T, data.contexts * K)), np.zeros((2 * T + 2, K))
    return Room(table, dense, *arrays, ends, np.zeros(n_tail(data)), np.zeros(T, np.int32), np.full(T + 1, -1, np.int32))


@jitable
def n_labels(data):
    return data.first.size - 1


@jitable
def n_tail(data):
    """How many weights follow the templates."""
    return data.bias * data.piece.shape[0] + (data.contexts * n_labels(data) if data.contexts > 1 else 0)


@jitable
def longest(room):
    return room.code.size


@jitable
def context(data, label):
    """Which end a segment of this label comes to."""
    return label if data.contexts > 1 else 0


@jitable
def possible(data, size, t, q):
    """Whether a cut of `size` positions can have piece q at t."""
    rest = size - t - data.piece[q, WIDTH]
    return rest >= 0 and data.composable[t] == 1 and data.composable[rest] == 1


@jitable
def read_tail(data, W, tail):
    """tail = the weights that follow the templates, which fill row by row"""
    k = 0
    for r in range(data.tail, W.shape[0]):
        for b in range(W.shape[1]):
            for lane in range(min(W.shape[2], tail.size - k)):
                tail[k + lane] = W[r, b, lane]
            k = min(k + W.shape[2], tail.size)


@jitable
def increase_tail(data, W, t, tail):
    """Add t * tail to the weights that follow the templates."""
    k = 0
    for r in range(data.tail, W.shape[0]):
        for b in range(W.shape[1]):
            for lane in range(min(W.shape[2], tail.size - k)):
                W[r, b, lane] += t * tail[k + lane]
            k = min(k + W.shape[2], tail.size)


# ---- scores ----------------------------------------------------------------------------------------------


@length.register(Segments)
def _(data, i):
    return data.start[i + 1] - data.start[i]


@truth.register(Segments)
def _(data, i, code):
    for t in range(length(data, i)):
        code[t] = data.place[data.start[i] + t, CODE]


@prepare.register(Segments)
def _(data, i, W, room):
    size, K = length(data, i), n_labels(data)
    for t in range(size):
        rows.scores(data.X, data.start[i] + t, W, room.rows.lanes[t : t + 1])
    read_tail(data, W, room.tail)
    for t in range(size):  # position by position: the columns of all pieces lie in the same few rows
        for q in range(data.piece.shape[0]):
            if possible(data, size, t, q):
                total, at = room.tail[q] if data.bias == 1 else 0.0, data.piece[q, COLUMNS]
                for j in range(data.piece[q, WIDTH]):
                    total += room.rows.flat[t + j, data.column[at + j]]
                room.segment[t, q] = total
    if data.contexts > 1:
        first = data.bias * data.piece.shape[0]
        for c in range(K):
            for k in range(K):
                room.pair[WEIGHTS, c * K + k] = room.tail[first + c * K + k]
                room.ends.flat[longest(room) + 1 + k, c] = room.tail[first + c * K + k]
    losses = longest(room) + 1
    for k in range(K):
        room.belief[losses, k] = 0.0
    for t in range(size):
        true = data.place[data.start[i] + t, LABEL]
        for k in range(K):
            room.belief[losses + t + 1, k] = room.belief[losses + t, k] + data.scale[i] * data.cost[true, k]


@jitable
def worth(data, room, t, q):
    """Score and loss of piece q at t."""
    losses, label = longest(room) + 1 + t, data.piece[q, NAME]
    return room.segment[t, q] + (room.belief[losses + data.piece[q, WIDTH], label] - room.belief[losses, label])


@worst.register(Segments)
def _(data, i, room, code):
    size, K, table = length(data, i), n_labels(data), room.ends.lanes
    for b in range(table.shape[1]):
        vectors.store(table, size, b, vectors.zeros_like(table))
    for t in range(size - 1, -1, -1):
        if data.composable[t] == 1 and data.composable[size - t] == 1:
            for k in range(K):
                room.belief[t, k] = best_piece(data, room, size, t, k)[1]
            for b in range(table.shape[1]):  # all contexts at once
                found = vectors.shift(vectors.zeros_like(table), -np.inf)
                for k in range(K):
                    joined = vectors.shift(vectors.load(table, longest(room) + 1 + k, b), room.belief[t, k])
                    found = vectors.maximum(found, joined)
                vectors.store(table, t, b, found)
    t, before, value = 0, -1, 0.0
    while t < size:
        chosen, highest = 0, -np.inf
        for k in range(K):
            found = room.belief[t, k] + (room.pair[WEIGHTS, before * K + k] if before >= 0 else 0.0)
            if found > highest:
                chosen, highest = k, found
        if t == 0:
            value = highest
        q = best_piece(data, room, size, t, chosen)[0]
        code[t] = q
        for j in range(1, data.piece[q, WIDTH]):
            code[t + j] = -1
        t += data.piece[q, WIDTH]
        before = context(data, chosen)
    return value


@jitable
def best_piece(data, room, size, t, k):
    """The piece of label k that a best cut from t on begins with, and what that cut is worth; -1 if there is none."""
    chosen, highest = -1, -np.inf
    for q in range(data.first[k], data.first[k + 1]):
        if possible(data, size, t, q):
            found = worth(data, room, t, q) + room.ends.flat[t + data.piece[q, WIDTH], context(data, k)]
            if found > highest:
                chosen, highest = q, found
    return chosen, highest


@score_of.register(Segments)
def _(data, i, room, code):
    total, t, before, K = 0.0, 0, -1, n_labels(data)
    while t < length(data, i):
        q = code[t]
        total += room.segment[t, q] + (room.pair[WEIGHTS, before * K + data.piece[q, NAME]] if before >= 0 else 0.0)
        before = context(data, data.piece[q, NAME])
        t += data.piece[q, WIDTH]
    return total


@loss_of.register(Segments)
def _(data, i, code):
    total, label = 0.0, 0
    for t in range(length(data, i)):
        if code[t] >= 0:
            label = data.piece[code[t], NAME]
        total += data.cost[data.place[data.start[i] + t, LABEL], label]
    return total * data.scale[i]


@forget.register(Segments)
def _(data, i, code):
    return None


@diameter.register(Segments)
def _(data, i):
    # Every position may change between two template columns, every segment between two pieces and two transitions.
    norms, shortest = 0.0, length(data, i)
    for p in range(data.start[i], data.start[i + 1]):
        square = 0.0
        for k in range(rows.first(data.X, p), rows.last(data.X, p)):
            square += np.float64(rows.value(data.X, p, k)) ** 2
        norms += np.sqrt(square)
    for q in range(data.piece.shape[0]):
        shortest = min(shortest, data.piece[q, WIDTH])
    most = length(data, i) // shortest
    return 2.0 * (norms * norms + (data.bias + (1 if data.contexts > 1 else 0)) * most * most)


# ---- inner products of two outputs -----------------------------------------------------------------------


@jitable
def put_output(data, i, code, room, t):
    """Features of an output into the second half of `dense`, times t; t = 0 wipes them."""
    half, p, at = room.dense.flat.shape[0] // 2, data.start[i], 0
    for s in range(length(data, i)):
        if code[s] >= 0:
            at = data.piece[code[s], COLUMNS] - s
        column = data.column[at + s]
        for k in range(rows.first(data.X, p + s), rows.last(data.X, p + s)):
            row = half + np.int64(rows.column(data.X, p + s, k))
            if t == 0.0:
                room.dense.flat[row, column] = 0.0
            else:
                room.dense.flat[row, column] += t * rows.value(data.X, p + s, k)


@jitable
def count_output(data, i, code, segment, pair, t):
    """Add t for each piece and each transition of an output."""
    s, before, K = 0, -1, n_labels(data)
    while s < length(data, i):
        q = code[s]
        segment[q] += t
        if before >= 0:
            pair[before * K + data.piece[q, NAME]] += t
        before = context(data, data.piece[q, NAME])
        s += data.piece[q, WIDTH]


@against.register(Segments)
def _(data, i, room, code):
    counts = room.segment.shape[0] - 1
    last = room.other[longest(room)]
    if last >= 0:
        put_output(data, last, room.other, room, 0.0)
    for q in range(room.segment.shape[1]):
        room.segment[counts, q] = 0.0
    for k in range(room.pair.shape[1]):
        room.pair[OTHER, k] = 0.0
    put_output(data, i, code, room, 1.0)
    count_output(data, i, code, room.segment[counts], room.pair[OTHER], 1.0)
    for t in range(length(data, i)):
        room.other[t] = code[t]
    room.other[longest(room)] = i


@inner.register(Segments)
def _(data, i, room, code):
    half, p, at, total, before, K = room.dense.flat.shape[0] // 2, data.start[i], 0, 0.0, -1, n_labels(data)
    for s in range(length(data, i)):
        q = code[s]
        if q >= 0:
            at = data.piece[q, COLUMNS] - s
            total += data.bias * room.segment[room.segment.shape[0] - 1, q]
            if before >= 0 and data.contexts > 1:
                total += room.pair[OTHER, before * K + data.piece[q, NAME]]
            before = context(data, data.piece[q, NAME])
        column = data.column[at + s]
        for k in range(rows.first(data.X, p + s), rows.last(data.X, p + s)):
            row = half + np.int64(rows.column(data.X, p + s, k))
            total += rows.value(data.X, p + s, k) * room.dense.flat[row, column]
    return total


# ---- differences -----------------------------------------------------------------------------------------


@clear.register(Segments)
def _(data, i, room):
    T = longest(room)
    for t in range(length(data, i)):
        for q in range(room.segment.shape[1]):
            room.segment[T + t, q] = 0.0
    for k in range(room.pair.shape[1]):
        room.pair[CHANGE, k] = 0.0


@tally.register(Segments)
def _(data, i, t, code, room):
    s, before, T, K = 0, -1, longest(room), n_labels(data)
    while s < length(data, i):
        q = code[s]
        room.segment[T + s, q] += t
        if before >= 0:
            room.pair[CHANGE, before * K + data.piece[q, NAME]] += t
        before = context(data, data.piece[q, NAME])
        s += data.piece[q, WIDTH]


@jitable_call
def by_columns(data, i, room, factor):
    """The difference as coefficients of template columns by position, times `factor`."""
    T, zero = longest(room), vectors.zeros_like(room.rows.lanes)
    for t in range(length(data, i)):
        for b in range(room.rows.lanes.shape[1]):
            vectors.store(room.rows.lanes, T + t, b, zero)
    for t in range(length(data, i)):
        for q in range(room.segment.shape[1]):
            change = factor * room.segment[T + t, q]
            if change != 0.0:
                for j in range(data.piece[q, WIDTH]):
                    room.rows.flat[T + t + j, data.column[data.piece[q, COLUMNS] + j]] += change


@jitable
def piece_total(data, i, room, q):
    """By how much the difference changes how often a piece occurs."""
    total, T = 0.0, longest(room)
    for t in range(length(data, i)):
        total += room.segment[T + t, q]
    return total


@push.register(Segments)
def _(data, i, t, room, W):
    T, Q = longest(room), room.segment.shape[1]
    by_columns(data, i, room, t)
    for s in range(length(data, i)):
        rows.update(data.X, data.start[i] + s, room.rows.lanes, T + s, W)
    if data.bias == 1:
        for q in range(Q):
            room.tail[q] = piece_total(data, i, room, q)
    if data.contexts > 1:
        for k in range(room.pair.shape[1]):
            room.tail[data.bias * Q + k] = room.pair[CHANGE, k]
    increase_tail(data, W, t, room.tail)


@measure.register(Segments)
def _(data, i, room):
    size, T, gain, square = length(data, i), longest(room), 0.0, 0.0
    for q in range(room.segment.shape[1]):
        for t in range(size):
            if room.segment[T + t, q] != 0.0:
                gain += room.segment[T + t, q] * worth(data, room, t, q)
        if data.bias == 1:
            square += piece_total(data, i, room, q) ** 2
    if data.contexts > 1:
        for k in range(room.pair.shape[1]):
            gain += room.pair[CHANGE, k] * room.pair[WEIGHTS, k]
            square += room.pair[CHANGE, k] ** 2
    by_columns(data, i, room, 1.0)
    for s in range(size):
        rows.update(data.X, data.start[i] + s, room.rows.lanes, T + s, room.dense.lanes)
    return gain, square + drained(data, i, room)


@jitable_call
def drained(data, i, room):
    """The squared norm of the features in the first half of `dense`, which become zero. A row that many positions share is
    counted once: it is zero when it is met again."""
    entries, d, total = np.int64(0), rows.last_column(data.X), 0.0
    for p in range(data.start[i], data.start[i + 1]):
        entries += np.int64(rows.last(data.X, p)) - np.int64(rows.first(data.X, p))
    if entries >= d:
        for r in range(d):
            total += drained_row(room.dense.lanes, r)
    else:
        for p in range(data.start[i], data.start[i + 1]):
            for k in range(rows.first(data.X, p), rows.last(data.X, p)):
                total += drained_row(room.dense.lanes, np.int64(rows.column(data.X, p, k)))
    return total


@jitable
def drained_row(table, r):
    zero = vectors.zeros_like(table)
    total = zero
    for b in range(table.shape[1]):
        mine = vectors.load(table, r, b)
        total = vectors.add(total, vectors.multiply(mine, mine))
        vectors.store(table, r, b, zero)
    return vectors.total(total)


# ---- mixtures of cuts: the points of Frank-Wolfe ---------------------------------------------------------


class SegmentMixtures(NamedTuple):
    """A mixture of cuts for each sample: the mass of each segment, and that of transitions, summed over positions."""

    segment: np.ndarray  # (positions, pieces)
    pair: np.ndarray  # (samples, contexts * K)


@direct.register(SegmentMixtures)
def _(points, data, i, room, temperature):
    worst(data, i, room, room.code)
    clear(data, i, room)
    tally(data, i, 1.0, room.code, room)
    withdraw(points, data, i, room)


@withdraw.register(SegmentMixtures)
def _(points, data, i, room):
    withdraw_segments(points, data, i, room)
    for k in range(room.pair.shape[1]):
        room.pair[CHANGE, k] -= points.pair[i, k]


@jitable
def withdraw_segments(points, data, i, room):
    T = longest(room)
    for t in range(length(data, i)):
        for q in range(room.segment.shape[1]):
            room.segment[T + t, q] -= points.segment[data.start[i] + t, q]


@step_towards.register(SegmentMixtures)
def _(points, data, i, gamma, room):
    T = longest(room)
    for t in range(length(data, i)):
        for q in range(room.segment.shape[1]):
            points.segment[data.start[i] + t, q] += gamma * room.segment[T + t, q]
    for k in range(room.pair.shape[1]):
        points.pair[i, k] += gamma * room.pair[CHANGE, k]


@expected_loss.register(SegmentMixtures)
def _(points, data, i):
    return segment_loss(points.segment, data, i)


@jitable
def segment_loss(segment, data, i):
    total = 0.0
    for t in range(data.start[i], data.start[i + 1]):
        for q in range(segment.shape[1]):
            if segment[t, q] != 0.0:
                loss = 0.0
                for p in range(t, t + data.piece[q, WIDTH]):
                    loss += data.cost[data.place[p, LABEL], data.piece[q, NAME]]
                total += segment[t, q] * loss
    return total * data.scale[i]


@kind_of.register(SegmentMixtures)
def _(points):
    return "mixtures"


@statistics_of.register(SegmentMixtures)
def _(points, data, i, weight):
    found = {"segment": weight * points.segment[data.start[i] : data.start[i + 1]]}
    return found | ({"pair": weight * points.pair[i].reshape(data.contexts, -1)} if data.contexts > 1 else {})


@vertices.register(Segments)
def _(data) -> SegmentMixtures:
    points = SegmentMixtures(
        np.zeros((data.place.shape[0], data.piece.shape[0])), np.zeros((data.start.size - 1, data.contexts * n_labels(data)))
    )
    at_truths(points, data, new_room(data))
    return points


@kernel
def at_truths(points, data, room):
    for i in range(data.start.size - 1):
        clear(data, i, room)
        truth(data, i, room.code)
        tally(data, i, 1.0, room.code, room)
        step_towards(points, data, i, 1.0, room)


# ---- sum-product -----------------------------------------------------------------------------------------


class SegmentMarginals(NamedTuple):
    """A distribution over cuts that is Markov between the states, by the mass of every segment and every transition; at least
    FLOOR where a segment is possible."""

    segment: np.ndarray  # (positions, pieces)
    pair: np.ndarray  # (positions, contexts * K) the transitions at a position; none at the first of a sample


@jitable_call
def sweep_back(points, data, i, room, inverse, based):
    """Conditional probabilities of the Gibbs distribution of inverse * (score + loss), times the point if `based`: pieces given
    begins, transitions given ends, as targets. In log space; beliefs are the logarithms of what follows a state."""
    size, K, T, start = length(data, i), n_labels(data), longest(room), data.start[i]
    for c in range(data.contexts):
        room.ends.flat[size, c] = 0.0
    for t in range(size - 1, -1, -1):
        if data.composable[t] == 1 and data.composable[size - t] == 1:
            for k in range(K):
                mass = 0.0
                for q in range(data.first[k], data.first[k + 1]):
                    if possible(data, size, t, q):
                        mass += points.segment[start + t, q]
                shared = np.log(max(mass, FLOOR))
                highest = -np.inf
                for q in range(data.first[k], data.first[k + 1]):
                    room.segment[2 * T + t, q] = -np.inf
                    if possible(data, size, t, q):
                        mark = room.ends.flat[t + data.piece[q, WIDTH], context(data, k)]
                        if inverse > 0.0:
                            mark += inverse * worth(data, room, t, q)
                        if based:
                            mark += np.log(points.segment[start + t, q]) - shared
                        room.segment[2 * T + t, q] = mark
                        highest = max(highest, mark)
                room.belief[t, k] = normalised(room.segment, 2 * T + t, data.first[k], data.first[k + 1], highest)
                if based and t == 0:
                    room.belief[t, k] += shared
            for c in range(data.contexts):
                mass = 0.0
                for k in range(K):
                    mass += points.pair[start + t, c * K + k]
                shared = np.log(max(mass, FLOOR))
                highest = -np.inf
                for k in range(K):
                    mark = room.belief[t, k]
                    if inverse > 0.0:
                        mark += inverse * room.pair[WEIGHTS, c * K + k]
                    if based:
                        mark += np.log(max(points.pair[start + t, c * K + k], FLOOR)) - shared
                    room.pair[TARGET + t, c * K + k] = mark
                    highest = max(highest, mark)
                room.ends.flat[t, c] = normalised(room.pair, TARGET + t, c * K, c * K + K, highest)


@jitable
def normalised(table, row, first, last, highest):
    """The entries become exp(entry), summing to one; returns the logarithm of the sum before."""
    if highest == -np.inf:
        for k in range(first, last):
            table[row, k] = 0.0
        return -np.inf
    mass = 0.0
    for k in range(first, last):
        table[row, k] = np.exp(table[row, k] - highest)
        mass += table[row, k]
    for k in range(first, last):
        table[row, k] /= mass
    return highest + np.log(mass)


@jitable_call
def sweep_forth(data, i, room):
    """Conditional targets become probabilities."""
    size, K, T = length(data, i), n_labels(data), longest(room)
    for t in range(1, size + 1):
        for c in range(data.contexts):
            room.ends.flat[t, c] = 0.0
    highest = room.belief[0, 0]
    for k in range(1, K):
        highest = max(highest, room.belief[0, k])
    normalised(room.belief, 0, 0, K, highest)
    for t in range(size):
        fine = data.composable[t] == 1 and data.composable[size - t] == 1
        if t > 0:
            for k in range(K):
                room.belief[t, k] = 0.0
            for k in range(data.contexts * K):
                mass = room.pair[TARGET + t, k] * room.ends.flat[t, k // K] if fine else 0.0
                room.pair[TARGET + t, k] = mass
                room.belief[t, k % K] += mass
        else:
            for k in range(data.contexts * K):
                room.pair[TARGET, k] = 0.0
        for q in range(data.piece.shape[0]):
            if fine:
                room.segment[2 * T + t, q] *= room.belief[t, data.piece[q, NAME]]
                if possible(data, size, t, q):
                    to = context(data, data.piece[q, NAME])
                    room.ends.flat[t + data.piece[q, WIDTH], to] += room.segment[2 * T + t, q]
            else:
                room.segment[2 * T + t, q] = 0.0


@jitable
def differ(points, data, i, room):
    """difference = target - point"""
    T = longest(room)
    for t in range(length(data, i)):
        for q in range(room.segment.shape[1]):
            room.segment[T + t, q] = room.segment[2 * T + t, q]
    for k in range(room.pair.shape[1]):
        room.pair[CHANGE, k] = 0.0
        for t in range(length(data, i)):
            room.pair[CHANGE, k] += room.pair[TARGET + t, k]
    withdraw(points, data, i, room)


@direct.register(SegmentMarginals)
def _(points, data, i, room, temperature):
    sweep_back(points, data, i, room, 1.0 / temperature, True)
    sweep_forth(data, i, room)
    differ(points, data, i, room)


@withdraw.register(SegmentMarginals)
def _(points, data, i, room):
    withdraw_segments(points, data, i, room)
    for t in range(data.start[i], data.start[i + 1]):
        for k in range(room.pair.shape[1]):
            room.pair[CHANGE, k] -= points.pair[t, k]


@step_towards.register(SegmentMarginals)
def _(points, data, i, gamma, room):
    # Not as a sum with a difference: that would lose a marginal far below the one before it.
    size, T, start = length(data, i), longest(room), data.start[i]
    for t in range(size):
        for q in range(room.segment.shape[1]):
            if possible(data, size, t, q):
                mass = (1.0 - gamma) * points.segment[start + t, q] + gamma * room.segment[2 * T + t, q]
                points.segment[start + t, q] = max(mass, FLOOR)
        for k in range(room.pair.shape[1]):
            points.pair[start + t, k] = (1.0 - gamma) * points.pair[start + t, k] + gamma * room.pair[TARGET + t, k]


@expected_loss.register(SegmentMarginals)
def _(points, data, i):
    return segment_loss(points.segment, data, i)


@statistics_of.register(SegmentMarginals)
def _(points, data, i, weight):
    here = slice(data.start[i], data.start[i + 1])
    return {name: weight * table for name, table in _tables(data, points.segment[here], points.pair[here]).items()}


@interior.register(Segments)
def _(data, spread) -> SegmentMarginals:
    points = SegmentMarginals(
        np.zeros((data.place.shape[0], data.piece.shape[0])), np.zeros((data.place.shape[0], data.contexts * n_labels(data)))
    )
    share = min(1.0, spread * n_labels(data))
    around_truths(points, data, new_room(data), share)
    return points


@kernel
def around_truths(points, data, room, share):
    """The uniform distribution over all cuts, and mass 1 - share on the true one."""
    for i in range(data.start.size - 1):
        sweep_back(points, data, i, room, 0.0, False)
        sweep_forth(data, i, room)
        step_towards(points, data, i, 1.0, room)
        if share < 1.0:
            mix_truth(points, data, i, 1.0 - share)


@jitable
def mix_truth(points, data, i, mass):
    start, size, before, K, kept = data.start[i], length(data, i), -1, n_labels(data), 1.0 - mass
    for t in range(start, start + size):
        for q in range(points.segment.shape[1]):
            points.segment[t, q] *= kept
        for k in range(points.pair.shape[1]):
            points.pair[t, k] *= kept
    for t in range(start, start + size):
        q = data.place[t, CODE]
        if q >= 0:
            points.segment[t, q] += mass
            if before >= 0:
                points.pair[t, before * K + data.piece[q, NAME]] += mass
            before = context(data, data.piece[q, NAME])


def _tables(data, segment: np.ndarray, pair: np.ndarray) -> dict[str, np.ndarray]:
    return {"segment": segment, "pair": pair.reshape(len(pair), data.contexts, -1)}


@marginals_of.register(Segments)
def _(data, points):
    return _tables(data, points.segment, points.pair)


@points_of.register(Segments)
def _(data, marginals):
    points = interior(data, 1.0)
    free = points.segment > 0.0
    points.segment[free] = np.maximum(np.asarray(marginals["segment"])[free], FLOOR)
    points.pair[:] = np.asarray(marginals["pair"]).reshape(points.pair.shape)
    return points


@copied.register(SegmentMixtures)
@copied.register(SegmentMarginals)
def _(points):
    return type(points)(*(table.copy() for table in points))


@blend.register(SegmentMixtures)
@blend.register(SegmentMarginals)
def _(points, others, gamma):
    for table, other in zip(points, others, strict=True):
        table[...] = (1.0 - gamma) * table + gamma * other


@same_shapes.register(Segments)
def _(data, other):
    return all(np.array_equal(getattr(data, name), getattr(other, name)) for name in ("start", "piece", "column"))


@output_of.register(Segments)
def _(data, structure, i, code):
    return structure._cut(code)
