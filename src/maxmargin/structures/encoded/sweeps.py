"""Loops over encoded samples that evaluate: what a problem, a structure and its check need."""

from ...jit import kernel
from . import contract


@kernel
def worst_all(data, W, scratch, codes, values, start, stop):
    """The best outputs of the samples start ... stop - 1, loss included where true outputs are known: their codes one after
    another, and the value of each."""
    at = 0
    for i in range(start, stop):
        size = contract.length(data, i)
        contract.prepare(data, i, W, scratch)
        values[i - start] = contract.worst(data, i, scratch, codes[at : at + size])
        at += size


@kernel
def risk(data, weight, W, scratch, start, stop):
    """sum_i weight_i loss_i(w)"""
    total = 0.0
    for i in range(start, stop):
        if weight[i] > 0.0:
            contract.prepare(data, i, W, scratch)
            value = contract.worst(data, i, scratch, scratch.code)
            contract.truth(data, i, scratch.code)
            total += weight[i] * (value - contract.score_of(data, i, scratch, scratch.code))
    return total


@kernel
def combine(points, data, weight, scratch, W, start, stop):
    """W += sum_i weight_i (phi(x_i, y_i) - phi(x_i, point)), i from start to stop - 1; returns the points' loss, weighted"""
    total = 0.0
    for i in range(start, stop):
        if weight[i] > 0.0:
            contract.truth(data, i, scratch.code)
            contract.depart(points, data, i, scratch)
            contract.push(data, i, weight[i], scratch, W)
            total += weight[i] * contract.expected_loss(points, data, i)
    return total


@kernel
def reach_targets(points, data, W, scratch, temperature, start, stop):
    """The points of the samples start ... stop - 1 become their targets."""
    for i in range(start, stop):
        contract.prepare(data, i, W, scratch)
        contract.direct(points, data, i, scratch, temperature)
        contract.step_towards(points, data, i, 1.0, scratch)
