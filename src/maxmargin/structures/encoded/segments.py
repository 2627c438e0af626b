"""Lines cut into labelled segments: encoded samples, the best cut and the marginals of all cuts, exactly.

A *piece* is a label with one of its widths. A segment is a piece at a position; its score is the sum over its columns of <x_t,
template column>, plus the piece's bias; neighbouring segments add a transition weight. A cut is a path through states
that alternate: a segment of label a has just ended at t (*end*), one of label b starts at t (*begin*),

    end (t, a) -- transition a, b --> begin (t, b) -- piece of b, width u --> end (t + u, b)

so the best cut takes one sweep back and one walk forth, in time positions x (pieces + labels^2); without transitions all ends at
t are one state. Every combination of widths is allowed, so whether a segment can be part of a cut depends on the lengths left and
right of it only: both must be sums of widths (*composable*).

The weights are one array of vectors, template columns along them: a row for each feature, an empty one, then the biases of pieces
and the transitions. A code has for each position the piece that starts there, or -1. The statistics of an output are how often it
has each transition, then which pieces start at each position. Verbs that would follow from these are written here for speed.
"""

from typing import NamedTuple

import numpy as np

from ...data import rows
from ...data.row_updates import update
from ...jit import jitable, jitable_call, vectors
from . import contract
from .statistics import WIDTH, vectors_for

CODE, TRUE_LABEL = range(2)  # the columns of Segments.place
NAME, WIDE, TEMPLATE = range(3)  # the columns of Segments.piece
WEIGHTS, OTHER, TARGETS = range(3)  # rows of SegmentScratch.pair; one for each position from TARGETS on


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


class SegmentScratch(NamedTuple):
    """Scratch for one sample at a time; T is the longest."""

    # (2 T, columns) scores of template columns by position, then the coefficients of a difference on them
    rows: vectors.VectorTable
    # Twice the weights: features of a difference, zero between calls; those of the output of `against`
    dense: vectors.VectorTable
    difference: np.ndarray  # (vectors, 1, width) transitions, then segments by first position:
    pair_change: np.ndarray  # (contexts * K,) its memory
    change: np.ndarray  # (T, pieces) its memory
    # (2 T + 1, pieces) by first position: scores, target; how often the output given to `against` has the piece
    segment: np.ndarray
    pair: np.ndarray  # (TARGETS + T, contexts * K) transitions: see the names of the rows
    belief: np.ndarray  # (2 T + 2, K) by position: begins, summed losses
    ends: vectors.VectorTable  # (T + 1 + K, contexts) by position; then the transitions by [next label, context]
    tail: np.ndarray  # the weights of pieces and transitions, or how a difference changes them
    code: np.ndarray
    other: np.ndarray  # (T + 1,) the code given to `against`; the last number is its sample, -1 for none


@contract.n_samples.register(Segments)
def _(data):
    return data.start.size - 1


@contract.truths.register(Segments)
def _(data):
    return data.place[:, CODE], np.diff(data.start)


@contract.weight_shape.register(Segments)
def _(data):
    template = vectors.blocks(data.templates, np.float64)
    wide = template * vectors.width(np.float64)
    return data.tail - (-n_tail(data) // wide), template, vectors.width(np.float64)


@contract.same_shapes.register(Segments)
def _(data, other):
    return all(np.array_equal(getattr(data, name), getattr(other, name)) for name in ("start", "piece", "column"))


@contract.output_of.register(Segments)
def _(data, structure, i, code):
    return structure._cut(code)


@contract.shown_statistics.register(Segments)
def _(data, i, row):
    count, Q = n_pairs(data), data.piece.shape[0]
    found = {"segment": row[count : count + (data.start[i + 1] - data.start[i]) * Q].reshape(-1, Q)}
    return found | ({"pair": row[:count].reshape(data.contexts, -1)} if data.contexts > 1 else {})


@contract.new_scratch.register(Segments)
def _(data) -> SegmentScratch:
    shape, Q, T = contract.weight_shape(data), data.piece.shape[0], int(np.max(np.diff(data.start), initial=1))
    table, dense = (vectors.table(vectors.aligned((count, *shape[1:]), np.float64)) for count in (2 * T, 2 * shape[0]))
    K, P = n_labels(data), n_pairs(data)
    difference = vectors.zeros_vectors(vectors_for(P + T * Q), 1, np.float64)
    change = difference.reshape(-1)
    ends = vectors.zeros_table(T + 1 + K, data.contexts, np.float64)
    views = difference, change[:P], change[P : P + T * Q].reshape(T, Q)
    arrays = np.zeros((2 * T + 1, Q)), np.zeros((TARGETS + T, P)), np.zeros((2 * T + 2, K))
    codes = np.zeros(T, np.int32), np.full(T + 1, -1, np.int32)
    return SegmentScratch(table, dense, *views, *arrays, ends, np.zeros(n_tail(data)), *codes)


@jitable
def n_labels(data):
    return data.first.size - 1


@jitable
def n_pairs(data):
    """Transitions, by the label before and the next one."""
    return data.contexts * n_labels(data)


@contract.n_vectors.register(Segments)
def _(data, i):
    return (n_pairs(data) + (data.start[i + 1] - data.start[i]) * data.piece.shape[0] + WIDTH - 1) // WIDTH


@jitable
def n_tail(data):
    """How many weights follow the templates."""
    return data.bias * data.piece.shape[0] + (data.contexts * n_labels(data) if data.contexts > 1 else 0)


@jitable
def longest(scratch):
    return scratch.code.size


@jitable
def context(data, label):
    """Which end a segment of this label comes to."""
    return label if data.contexts > 1 else 0


@jitable
def possible(data, size, t, q):
    """Whether a cut of `size` positions can have piece q at t."""
    rest = size - t - data.piece[q, WIDE]
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


@contract.length.register(Segments)
def _(data, i):
    return data.start[i + 1] - data.start[i]


@contract.truth.register(Segments)
def _(data, i, code):
    for t in range(contract.length(data, i)):
        code[t] = data.place[data.start[i] + t, CODE]


@contract.prepare.register(Segments)
def _(data, i, W, scratch):
    size, K = contract.length(data, i), n_labels(data)
    for t in range(size):
        rows.scores(data.X, data.start[i] + t, W, scratch.rows.vectors[t : t + 1])
    read_tail(data, W, scratch.tail)
    for t in range(size):  # position by position: the columns of all pieces lie in the same few rows
        for q in range(data.piece.shape[0]):
            if possible(data, size, t, q):
                total, at = scratch.tail[q] if data.bias == 1 else 0.0, data.piece[q, TEMPLATE]
                for j in range(data.piece[q, WIDE]):
                    total += scratch.rows.flat[t + j, data.column[at + j]]
                scratch.segment[t, q] = total
    if data.contexts > 1:
        first = data.bias * data.piece.shape[0]
        for c in range(K):
            for k in range(K):
                scratch.pair[WEIGHTS, c * K + k] = scratch.tail[first + c * K + k]
                scratch.ends.flat[longest(scratch) + 1 + k, c] = scratch.tail[first + c * K + k]
    losses = longest(scratch) + 1
    for k in range(K):
        scratch.belief[losses, k] = 0.0
    for t in range(size):
        true = data.place[data.start[i] + t, TRUE_LABEL]
        for k in range(K):
            scratch.belief[losses + t + 1, k] = scratch.belief[losses + t, k] + data.scale[i] * data.cost[true, k]


@jitable
def worth(data, scratch, t, q):
    """Score and loss of piece q at t."""
    losses, label = longest(scratch) + 1 + t, data.piece[q, NAME]
    return scratch.segment[t, q] + (scratch.belief[losses + data.piece[q, WIDE], label] - scratch.belief[losses, label])


@contract.worst.register(Segments)
def _(data, i, scratch, code):
    size, K, table = contract.length(data, i), n_labels(data), scratch.ends.vectors
    for b in range(table.shape[1]):
        vectors.store(table, size, b, vectors.zeros_like(table))
    for t in range(size - 1, -1, -1):
        if data.composable[t] == 1 and data.composable[size - t] == 1:
            for k in range(K):
                scratch.belief[t, k] = best_piece(data, scratch, size, t, k)[1]
            for b in range(table.shape[1]):  # all contexts at once
                found = vectors.shift(vectors.zeros_like(table), -np.inf)
                for k in range(K):
                    joined = vectors.shift(vectors.load(table, longest(scratch) + 1 + k, b), scratch.belief[t, k])
                    found = vectors.maximum(found, joined)
                vectors.store(table, t, b, found)
    t, before, value = 0, -1, 0.0
    while t < size:
        chosen, highest = 0, -np.inf
        for k in range(K):
            found = scratch.belief[t, k] + (scratch.pair[WEIGHTS, before * K + k] if before >= 0 else 0.0)
            if found > highest:
                chosen, highest = k, found
        if t == 0:
            value = highest
        q = best_piece(data, scratch, size, t, chosen)[0]
        for k in range(K):  # where the scores are no numbers: the first label that has a piece here
            if q < 0:
                chosen, q = k, best_piece(data, scratch, size, t, k)[0]
        code[t] = q
        for j in range(1, data.piece[q, WIDE]):
            code[t + j] = -1
        t += data.piece[q, WIDE]
        before = context(data, chosen)
    return value


@jitable
def best_piece(data, scratch, size, t, k):
    """The piece of label k that a best cut from t on begins with, and what that cut is worth; -1 if there is none."""
    chosen, highest = -1, -np.inf
    for q in range(data.first[k], data.first[k + 1]):
        if possible(data, size, t, q):
            found = worth(data, scratch, t, q) + scratch.ends.flat[t + data.piece[q, WIDE], context(data, k)]
            if chosen < 0:  # also where the scores are no numbers
                chosen = q
            if found > highest:
                chosen, highest = q, found
    return chosen, highest


@contract.score_of.register(Segments)
def _(data, i, scratch, code):
    total, t, before, K = 0.0, 0, -1, n_labels(data)
    while t < contract.length(data, i):
        q = code[t]
        total += scratch.segment[t, q] + (scratch.pair[WEIGHTS, before * K + data.piece[q, NAME]] if before >= 0 else 0.0)
        before = context(data, data.piece[q, NAME])
        t += data.piece[q, WIDE]
    return total


@contract.loss_of.register(Segments)
def _(data, i, code):
    total, label = 0.0, 0
    for t in range(contract.length(data, i)):
        if code[t] >= 0:
            label = data.piece[code[t], NAME]
        total += data.cost[data.place[data.start[i] + t, TRUE_LABEL], label]
    return total * data.scale[i]


@contract.loss_of_statistics.register(Segments)
def _(data, i, row, at):
    return loss_of_segments(data, i, row, at + n_pairs(data))


@jitable
def loss_of_segments(data, i, mass, at):
    """The loss of segments, by first position and piece, whose masses start at place `at`."""
    total, first, Q = 0.0, data.start[i], data.piece.shape[0]
    for t in range(data.start[i + 1] - first):
        for q in range(Q):
            if mass[at + t * Q + q] != 0.0:
                loss = 0.0
                for p in range(first + t, first + t + data.piece[q, WIDE]):
                    loss += data.cost[data.place[p, TRUE_LABEL], data.piece[q, NAME]]
                total += mass[at + t * Q + q] * loss
    return total * data.scale[i]


@contract.diameter.register(Segments)
def _(data, i):
    # Every position may change between two template columns, every segment between two pieces and two transitions.
    norms, shortest = 0.0, contract.length(data, i)
    for p in range(data.start[i], data.start[i + 1]):
        square = 0.0
        for k in range(rows.first(data.X, p), rows.last(data.X, p)):
            square += np.float64(rows.value(data.X, p, k)) ** 2
        norms += np.sqrt(square)
    for q in range(data.piece.shape[0]):
        shortest = min(shortest, data.piece[q, WIDE])
    most = contract.length(data, i) // shortest
    return 2.0 * (norms * norms + (data.bias + (1 if data.contexts > 1 else 0)) * most * most)


# ---- inner products of two outputs -----------------------------------------------------------------------


@jitable
def put_output(data, i, code, scratch, t):
    """Features of an output into the second half of `dense`, times t; t = 0 wipes them."""
    half, p, at = scratch.dense.flat.shape[0] // 2, data.start[i], 0
    for s in range(contract.length(data, i)):
        if code[s] >= 0:
            at = data.piece[code[s], TEMPLATE] - s
        column = data.column[at + s]
        for k in range(rows.first(data.X, p + s), rows.last(data.X, p + s)):
            row = half + np.int64(rows.column(data.X, p + s, k))
            if t == 0.0:
                scratch.dense.flat[row, column] = 0.0
            else:
                scratch.dense.flat[row, column] += t * rows.value(data.X, p + s, k)


@jitable
def count_output(data, i, code, segment, pair, t):
    """Add t for each piece and each transition of an output."""
    s, before, K = 0, -1, n_labels(data)
    while s < contract.length(data, i):
        q = code[s]
        segment[q] += t
        if before >= 0:
            pair[before * K + data.piece[q, NAME]] += t
        before = context(data, data.piece[q, NAME])
        s += data.piece[q, WIDE]


@contract.against.register(Segments)
def _(data, i, scratch, code):
    counts = scratch.segment.shape[0] - 1
    last = scratch.other[longest(scratch)]
    if last >= 0:
        put_output(data, last, scratch.other, scratch, 0.0)
    for q in range(scratch.segment.shape[1]):
        scratch.segment[counts, q] = 0.0
    for k in range(scratch.pair.shape[1]):
        scratch.pair[OTHER, k] = 0.0
    put_output(data, i, code, scratch, 1.0)
    count_output(data, i, code, scratch.segment[counts], scratch.pair[OTHER], 1.0)
    for t in range(contract.length(data, i)):
        scratch.other[t] = code[t]
    scratch.other[longest(scratch)] = i


@contract.inner.register(Segments)
def _(data, i, scratch, code):
    half, p, at, total, before, K = scratch.dense.flat.shape[0] // 2, data.start[i], 0, 0.0, -1, n_labels(data)
    for s in range(contract.length(data, i)):
        q = code[s]
        if q >= 0:
            at = data.piece[q, TEMPLATE] - s
            total += data.bias * scratch.segment[scratch.segment.shape[0] - 1, q]
            if before >= 0 and data.contexts > 1:
                total += scratch.pair[OTHER, before * K + data.piece[q, NAME]]
            before = context(data, data.piece[q, NAME])
        column = data.column[at + s]
        for k in range(rows.first(data.X, p + s), rows.last(data.X, p + s)):
            row = half + np.int64(rows.column(data.X, p + s, k))
            total += rows.value(data.X, p + s, k) * scratch.dense.flat[row, column]
    return total


# ---- differences -----------------------------------------------------------------------------------------


@contract.tally.register(Segments)
def _(data, i, t, code, scratch):
    s, before, K = 0, -1, n_labels(data)
    while s < contract.length(data, i):
        q = code[s]
        scratch.change[s, q] += t
        if before >= 0:
            scratch.pair_change[before * K + data.piece[q, NAME]] += t
        before = context(data, data.piece[q, NAME])
        s += data.piece[q, WIDE]


@jitable_call
def by_columns(data, i, scratch, factor):
    """The difference as coefficients of template columns by position, times `factor`."""
    T, zero = longest(scratch), vectors.zeros_like(scratch.rows.vectors)
    for t in range(contract.length(data, i)):
        for b in range(scratch.rows.vectors.shape[1]):
            vectors.store(scratch.rows.vectors, T + t, b, zero)
    for t in range(contract.length(data, i)):
        for q in range(scratch.segment.shape[1]):
            change = factor * scratch.change[t, q]
            if change != 0.0:
                for j in range(data.piece[q, WIDE]):
                    scratch.rows.flat[T + t + j, data.column[data.piece[q, TEMPLATE] + j]] += change


@jitable
def piece_total(data, i, scratch, q):
    """By how much the difference changes how often a piece occurs."""
    total = 0.0
    for t in range(contract.length(data, i)):
        total += scratch.change[t, q]
    return total


@contract.push.register(Segments)
def _(data, i, t, scratch, W):
    T, Q = longest(scratch), scratch.segment.shape[1]
    by_columns(data, i, scratch, t)
    for s in range(contract.length(data, i)):
        update(data.X, data.start[i] + s, scratch.rows.vectors, T + s, W)
    if data.bias == 1:
        for q in range(Q):
            scratch.tail[q] = piece_total(data, i, scratch, q)
    if data.contexts > 1:
        for k in range(scratch.pair.shape[1]):
            scratch.tail[data.bias * Q + k] = scratch.pair_change[k]
    increase_tail(data, W, t, scratch.tail)


@contract.measure.register(Segments)
def _(data, i, scratch):
    size, T, gain, square = contract.length(data, i), longest(scratch), 0.0, 0.0
    for q in range(scratch.segment.shape[1]):
        for t in range(size):
            if scratch.change[t, q] != 0.0:
                gain += scratch.change[t, q] * worth(data, scratch, t, q)
        if data.bias == 1:
            square += piece_total(data, i, scratch, q) ** 2
    if data.contexts > 1:
        for k in range(scratch.pair.shape[1]):
            gain += scratch.pair_change[k] * scratch.pair[WEIGHTS, k]
            square += scratch.pair_change[k] ** 2
    by_columns(data, i, scratch, 1.0)
    for s in range(size):
        update(data.X, data.start[i] + s, scratch.rows.vectors, T + s, scratch.dense.vectors)
    return gain, square + drained(data, i, scratch)


@jitable_call
def drained(data, i, scratch):
    """The squared norm of the features in the first half of `dense`, which become zero. A row that many positions share is
    counted once: it is zero when it is met again."""
    entries, d, total = np.int64(0), rows.last_column(data.X), 0.0
    for p in range(data.start[i], data.start[i + 1]):
        entries += np.int64(rows.last(data.X, p)) - np.int64(rows.first(data.X, p))
    if entries >= d:
        for r in range(d):
            total += drained_row(scratch.dense.vectors, r)
    else:
        for p in range(data.start[i], data.start[i + 1]):
            for k in range(rows.first(data.X, p), rows.last(data.X, p)):
                total += drained_row(scratch.dense.vectors, np.int64(rows.column(data.X, p, k)))
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
