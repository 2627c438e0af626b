"""Distributions over outputs that can be listed by their numbers: the marginals of structures with few outputs, as bags.

The code of an output is its number.
"""

from typing import NamedTuple

import numpy as np

from ...jit import generic, jitable, kernel
from . import contract
from .graphs import FLOOR
from .points import swap_masses
from .statistics import within


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
def score_at(data, i, scratch, output):
    """w . phi(x_i, output), after `prepare`"""


@generic
def loss_at(data, i, output):
    """Delta(y_i, output)"""


@generic
def add_output(data, i, t, output, scratch):
    """difference += t * output"""


LISTED = contract.Family()


@LISTED.does(contract.length)
def length_listed(data, i):
    return 1


@LISTED.does(contract.truth)
def truth_listed(data, i, code):
    code[0] = true_output(data, i)


@LISTED.does(contract.score_of)
def score_of_listed(data, i, scratch, code):
    return score_at(data, i, scratch, np.int64(code[0]))


@LISTED.does(contract.loss_of)
def loss_of_listed(data, i, code):
    return loss_at(data, i, np.int64(code[0]))


@LISTED.does(contract.tally)
def tally_listed(data, i, t, code, scratch):
    add_output(data, i, t, np.int64(code[0]), scratch)


# ---- marginals -------------------------------------------------------------------------------------------


class ListedMarginals(NamedTuple):
    """A distribution over the outputs of each sample, one after another, at least FLOOR for every output that is allowed."""

    mass: np.ndarray


@jitable
def put_difference(points, data, i, scratch):
    """difference = target - point"""
    contract.clear(data, i, scratch)
    for output in range(n_outputs(data, i)):
        add_output(data, i, scratch.target[output] - points.mass[first_output(data, i) + output], output, scratch)


@contract.direct.register(ListedMarginals)
def _(points, data, i, scratch, temperature):
    first, count, highest, total = first_output(data, i), n_outputs(data, i), -np.inf, 0.0
    for output in range(count):
        scratch.target[output] = -np.inf
        if allowed(data, i, output):
            value = score_at(data, i, scratch, output) + loss_at(data, i, output)
            scratch.target[output] = np.log(points.mass[first + output]) + value / temperature
            highest = max(highest, scratch.target[output])
    for output in range(count):
        scratch.target[output] = np.exp(scratch.target[output] - highest)
        total += scratch.target[output]
    for output in range(count):
        scratch.target[output] /= total
    put_difference(points, data, i, scratch)


@contract.withdraw.register(ListedMarginals)
def _(points, data, i, scratch):
    for output in range(n_outputs(data, i)):
        add_output(data, i, -points.mass[first_output(data, i) + output], output, scratch)


@contract.step_towards.register(ListedMarginals)
def _(points, data, i, gamma, scratch):
    for output in range(n_outputs(data, i)):
        if allowed(data, i, output):
            at = first_output(data, i) + output
            points.mass[at] = max((1.0 - gamma) * points.mass[at] + gamma * scratch.target[output], FLOOR)


@contract.numbers_of.register(ListedMarginals)
def _(points, data, samples):
    first, count = (np.array([verb(data, i) for i in samples.tolist()]) for verb in (first_output, n_outputs))
    return [(points.mass, within(first, count))]


@contract.expected_loss.register(ListedMarginals)
def _(points, data, i):
    total = 0.0
    for output in range(n_outputs(data, i)):
        total += points.mass[first_output(data, i) + output] * loss_at(data, i, output)
    return total


@kernel
def spread_out(data, mass, spread, classes):
    """The true output, and for every other one that is allowed `spread` divided by the candidates."""
    for i in range(data.start.size - 1):
        first, rest = first_output(data, i), 1.0
        share = min(spread, 1.0 / classes) / (data.start[i + 1] - data.start[i])
        for output in range(n_outputs(data, i)):
            mass[first + output] = 0.0
            if allowed(data, i, output):
                mass[first + output] = share
                rest -= share
        mass[first + true_output(data, i)] += rest


@contract.statistics_of.register(ListedMarginals)
def _(points, data, i, weight):
    return weight * points.mass[first_output(data, i) : first_output(data, i) + n_outputs(data, i)]


@contract.with_new_truths.register(ListedMarginals)
def _(points, before, after):
    result = contract.copied(points)
    places = (first_output(data, np.arange(data.start.size - 1)) + contract.truths(data)[0] for data in (before, after))
    swap_masses(result.mass, *places)
    return result


def around_true_outputs(data, spread: float, classes: int) -> ListedMarginals:
    """Mass on the true outputs, and `spread` on the wrong ones."""
    last = data.start.size - 2
    mass = np.empty(int(first_output(data, last) + n_outputs(data, last)))
    spread_out(data, mass, spread, classes)
    return ListedMarginals(mass)
