"""Loops over encoded samples that evaluate: what a problem, a structure and its check need."""

from ...jit import kernel
from .contract import clear, direct, expected_loss, length, prepare, push, score_of, step_towards, tally, truth, withdraw, worst


@kernel
def worst_all(data, W, room, codes, start, stop):
    """The best outputs of the samples start ... stop - 1, loss included where true outputs are known; codes one after another."""
    at = 0
    for i in range(start, stop):
        size = length(data, i)
        prepare(data, i, W, room)
        worst(data, i, room, codes[at : at + size])
        at += size


@kernel
def risk(data, weight, W, room, start, stop):
    """sum_i weight_i loss_i(w)"""
    total = 0.0
    for i in range(start, stop):
        if weight[i] > 0.0:
            prepare(data, i, W, room)
            value = worst(data, i, room, room.code)
            truth(data, i, room.code)
            total += weight[i] * (value - score_of(data, i, room, room.code))
    return total


@kernel
def combine(points, data, weight, room, W):
    """W += sum_i weight_i (phi(x_i, y_i) - phi(x_i, point)); returns the points' loss, weighted"""
    total = 0.0
    for i in range(weight.size):
        if weight[i] > 0.0:
            truth(data, i, room.code)
            clear(data, i, room)
            tally(data, i, 1.0, room.code, room)
            withdraw(points, data, i, room)
            push(data, i, weight[i], room, W)
            total += weight[i] * expected_loss(points, data, i)
    return total


@kernel
def one_direction(points, data, W, room, temperature):
    """The point of sample 0 becomes its target."""
    prepare(data, 0, W, room)
    direct(points, data, 0, room, temperature)
    step_towards(points, data, 0, 1.0, room)
