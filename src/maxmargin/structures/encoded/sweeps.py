"""Loops over encoded samples that evaluate: what a problem, a structure and its check need."""

from ...jit import kernel
from . import contract


@kernel
def worst_all(data, W, scratch, codes, start, stop):
    """The best outputs of the samples start ... stop - 1, loss included where true outputs are known; codes one after another."""
    at = 0
    for i in range(start, stop):
        size = contract.length(data, i)
        contract.prepare(data, i, W, scratch)
        contract.worst(data, i, scratch, codes[at : at + size])
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
def combine(points, data, weight, scratch, W):
    """W += sum_i weight_i (phi(x_i, y_i) - phi(x_i, point)); returns the points' loss, weighted"""
    total = 0.0
    for i in range(weight.size):
        if weight[i] > 0.0:
            contract.truth(data, i, scratch.code)
            contract.clear(data, i, scratch)
            contract.tally(data, i, 1.0, scratch.code, scratch)
            contract.withdraw(points, data, i, scratch)
            contract.push(data, i, weight[i], scratch, W)
            total += weight[i] * contract.expected_loss(points, data, i)
    return total


@kernel
def one_direction(points, data, W, scratch, temperature):
    """The point of sample 0 becomes its target."""
    contract.prepare(data, 0, W, scratch)
    contract.direct(points, data, 0, scratch, temperature)
    contract.step_towards(points, data, 0, 1.0, scratch)
