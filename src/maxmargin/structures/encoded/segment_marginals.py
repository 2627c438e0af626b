"""Marginals of all cuts of a line into segments, exactly: a sweep back and a sweep forth over the states of `segments.py`."""

from typing import NamedTuple

import numpy as np

from ...data.rows import mean_length
from ...jit import jitable, jitable_call, kernel
from . import contract
from .graphs import FLOOR
from .segments import (
    CODE,
    NAME,
    TARGETS,
    WEIGHTS,
    WIDE,
    Segments,
    context,
    longest,
    loss_of_segments,
    n_labels,
    possible,
    worth,
)
from .statistics import within


class SegmentMarginals(NamedTuple):
    """A distribution over cuts that is Markov between the states, by the mass of every segment and every transition; at least
    FLOOR where a segment is possible."""

    segment: np.ndarray  # (positions, pieces)
    pair: np.ndarray  # (positions, contexts * K) the transitions at a position; none at the first of a sample


@jitable_call
def sweep_back(points, data, i, scratch, inverse, based):
    """Conditional probabilities of the Gibbs distribution of inverse * (score + loss), times the point if `based`: pieces given
    begins, transitions given ends, as targets. In log space; beliefs are the logarithms of what follows a state."""
    size, K, T, start = contract.length(data, i), n_labels(data), longest(scratch), data.start[i]
    for c in range(data.contexts):
        scratch.ends.flat[size, c] = 0.0
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
                    scratch.segment[T + t, q] = -np.inf
                    if possible(data, size, t, q):
                        mark = scratch.ends.flat[t + data.piece[q, WIDE], context(data, k)]
                        if inverse > 0.0:
                            mark += inverse * worth(data, scratch, t, q)
                        if based:
                            mark += np.log(points.segment[start + t, q]) - shared
                        scratch.segment[T + t, q] = mark
                        highest = max(highest, mark)
                scratch.belief[t, k] = to_probabilities(scratch.segment, T + t, data.first[k], data.first[k + 1], highest)
                if based and t == 0:
                    scratch.belief[t, k] += shared
            for c in range(data.contexts):
                mass = 0.0
                for k in range(K):
                    mass += points.pair[start + t, c * K + k]
                shared = np.log(max(mass, FLOOR))
                highest = -np.inf
                for k in range(K):
                    mark = scratch.belief[t, k]
                    if inverse > 0.0:
                        mark += inverse * scratch.pair[WEIGHTS, c * K + k]
                    if based:
                        mark += np.log(max(points.pair[start + t, c * K + k], FLOOR)) - shared
                    scratch.pair[TARGETS + t, c * K + k] = mark
                    highest = max(highest, mark)
                scratch.ends.flat[t, c] = to_probabilities(scratch.pair, TARGETS + t, c * K, c * K + K, highest)


@jitable
def to_probabilities(table, row, first, last, highest):
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
def sweep_forth(data, i, scratch):
    """Conditional targets become probabilities."""
    size, K, T = contract.length(data, i), n_labels(data), longest(scratch)
    for t in range(1, size + 1):
        for c in range(data.contexts):
            scratch.ends.flat[t, c] = 0.0
    highest = scratch.belief[0, 0]
    for k in range(1, K):
        highest = max(highest, scratch.belief[0, k])
    to_probabilities(scratch.belief, 0, 0, K, highest)
    for t in range(size):
        fine = data.composable[t] == 1 and data.composable[size - t] == 1
        if t > 0:
            for k in range(K):
                scratch.belief[t, k] = 0.0
            for k in range(data.contexts * K):
                mass = scratch.pair[TARGETS + t, k] * scratch.ends.flat[t, k // K] if fine else 0.0
                scratch.pair[TARGETS + t, k] = mass
                scratch.belief[t, k % K] += mass
        else:
            for k in range(data.contexts * K):
                scratch.pair[TARGETS, k] = 0.0
        for q in range(data.piece.shape[0]):
            if fine:
                scratch.segment[T + t, q] *= scratch.belief[t, data.piece[q, NAME]]
                if possible(data, size, t, q):
                    to = context(data, data.piece[q, NAME])
                    scratch.ends.flat[t + data.piece[q, WIDE], to] += scratch.segment[T + t, q]
            else:
                scratch.segment[T + t, q] = 0.0


@jitable
def differ(points, data, i, scratch):
    """difference = target - point"""
    T = longest(scratch)
    for t in range(contract.length(data, i)):
        for q in range(scratch.segment.shape[1]):
            scratch.change[t, q] = scratch.segment[T + t, q]
    for k in range(scratch.pair.shape[1]):
        scratch.pair_change[k] = 0.0
        for t in range(contract.length(data, i)):
            scratch.pair_change[k] += scratch.pair[TARGETS + t, k]
    contract.withdraw(points, data, i, scratch)


@contract.direct.register(SegmentMarginals)
def _(points, data, i, scratch, temperature):
    sweep_back(points, data, i, scratch, 1.0 / temperature, True)
    sweep_forth(data, i, scratch)
    differ(points, data, i, scratch)


@contract.withdraw.register(SegmentMarginals)
def _(points, data, i, scratch):
    for t in range(contract.length(data, i)):
        for q in range(scratch.change.shape[1]):
            scratch.change[t, q] -= points.segment[data.start[i] + t, q]
    for t in range(data.start[i], data.start[i + 1]):
        for k in range(scratch.pair.shape[1]):
            scratch.pair_change[k] -= points.pair[t, k]


@contract.step_towards.register(SegmentMarginals)
def _(points, data, i, gamma, scratch):
    # Not as a sum with a difference: that would lose a marginal far below the one before it.
    size, T, start = contract.length(data, i), longest(scratch), data.start[i]
    for t in range(size):
        for q in range(scratch.segment.shape[1]):
            if possible(data, size, t, q):
                mass = (1.0 - gamma) * points.segment[start + t, q] + gamma * scratch.segment[T + t, q]
                points.segment[start + t, q] = max(mass, FLOOR)
        for k in range(scratch.pair.shape[1]):
            points.pair[start + t, k] = (1.0 - gamma) * points.pair[start + t, k] + gamma * scratch.pair[TARGETS + t, k]


@contract.visit_work.register(Segments)
def _(data):
    each = mean_length(data.X) * data.templates + data.piece.shape[0] * data.contexts
    return each * data.place.shape[0] / max(data.scale.size, 1)


@contract.numbers_of.register(SegmentMarginals)
def _(points, data, samples):
    at = within(data.start[samples], data.start[samples + 1] - data.start[samples])
    return [(points.segment, at), (points.pair, at)]


@contract.expected_loss.register(SegmentMarginals)
def _(points, data, i):
    return loss_of_segments(data, i, points.segment.reshape(-1), data.start[i] * points.segment.shape[1])


@contract.statistics_of.register(SegmentMarginals)
def _(points, data, i, weight):
    here = slice(data.start[i], data.start[i + 1])
    return {name: weight * table for name, table in _tables(data, points.segment[here], points.pair[here]).items()}


@contract.interior.register(Segments)
def _(data, spread) -> SegmentMarginals:
    points = SegmentMarginals(
        np.zeros((data.place.shape[0], data.piece.shape[0])), np.zeros((data.place.shape[0], data.contexts * n_labels(data)))
    )
    share = min(1.0, spread * n_labels(data))
    around_truths(points, data, contract.new_scratch(data), share)
    return points


@kernel
def around_truths(points, data, scratch, share):
    """The uniform distribution over all cuts, and mass 1 - share on the true one."""
    for i in range(data.start.size - 1):
        sweep_back(points, data, i, scratch, 0.0, False)
        sweep_forth(data, i, scratch)
        contract.step_towards(points, data, i, 1.0, scratch)
        if share < 1.0:
            mix_truth(points, data, i, 1.0 - share)


@jitable
def mix_truth(points, data, i, mass):
    start, size, before, K, kept = data.start[i], contract.length(data, i), -1, n_labels(data), 1.0 - mass
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


@contract.marginals_of.register(Segments)
def _(data, points):
    return _tables(data, points.segment, points.pair)


@contract.points_of.register(Segments)
def _(data, marginals):
    points = contract.interior(data, 1.0)
    free = points.segment > 0.0
    points.segment[free] = np.maximum(np.asarray(marginals["segment"])[free], FLOOR)
    points.pair[:] = np.asarray(marginals["pair"]).reshape(points.pair.shape)
    return points
