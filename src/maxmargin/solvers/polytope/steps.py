"""Steps over the set of one sample, all other samples fixed: how far a visit goes.

With h_j = Delta_j + w . phi_j, moving mass d from output k to output j raises the dual by cap (d (h_j - h_k) - d^2 cap
||phi_j - phi_k||^2 / 2).
"""

from typing import NamedTuple

from ...jit import generic_call, jitable, jitable_call
from .sets import CAPACITY, DUST, MASS, PRODUCTS, SIZE, SLOT


class Pairwise(NamedTuple):
    """Mass moves from the least deserving output straight to the offender."""

    marker: int = 0


class Away(NamedTuple):
    """A step towards the offender or away from the least deserving output, whichever promises more."""

    marker: int = 0


class Corrective(NamedTuple):
    """Pairs until the gap over the set is `part` of the gap before, or `most` steps for each output."""

    part: float
    most: int


@jitable
def distance(gram, at, wide, j, k):
    """||phi_j - phi_k||^2"""
    return gram[at + j * wide + j] + gram[at + k * wide + k] - 2.0 * gram[at + j * wide + k]


@jitable_call
def move_mass(sets, i, h, cap, j, k):
    """The best move of mass from output k to output j; returns the rise of the dual."""
    slot, at, wide = sets.sample[i, SLOT], sets.sample[i, PRODUCTS], sets.sample[i, CAPACITY]
    slope, bend = h[j] - h[k], cap * distance(sets.gram, at, wide, j, k)
    most = sets.slots[slot + k, MASS]
    step = most if slope >= bend * most else slope / bend
    sets.slots[slot + j, MASS] += step
    sets.slots[slot + k, MASS] = 0.0 if step >= most else most - step
    for t in range(sets.sample[i, SIZE]):
        h[t] -= cap * step * (sets.gram[at + t * wide + j] - sets.gram[at + t * wide + k])
    return cap * step * (slope - 0.5 * step * bend)


@jitable
def least_deserving(sets, i, h):
    """The output with mass whose h is smallest."""
    slot, k = sets.sample[i, SLOT], -1
    for j in range(sets.sample[i, SIZE]):
        if sets.slots[slot + j, MASS] > 0.0 and (k < 0 or h[j] < h[k]):
            k = j
    return k


@generic_call
def improve(method, sets, i, h, cap, found):
    """Raise the dual by moving mass within the set of sample i; `found` is the place of the worst offender. Returns the
    rise; h is kept in step."""


@improve.register(Pairwise)
def _(method, sets, i, h, cap, found):
    k = least_deserving(sets, i, h)
    return move_mass(sets, i, h, cap, found, k) if h[k] < h[found] else 0.0


@improve.register(Away)
def _(method, sets, i, h, cap, found):
    slot, at, wide, size = sets.sample[i, SLOT], sets.sample[i, PRODUCTS], sets.sample[i, CAPACITY], sets.sample[i, SIZE]
    k, mean = least_deserving(sets, i, h), 0.0
    for j in range(size):
        mean += sets.slots[slot + j, MASS] * h[j]
    forward, backward = h[found] - mean, mean - h[k]
    if sets.slots[slot + k, MASS] >= 1.0 - DUST or forward >= backward:
        to, slope, most, sign = found, forward, 1.0, 1.0
    else:
        to, slope, most, sign = k, backward, sets.slots[slot + k, MASS] / (1.0 - sets.slots[slot + k, MASS]), -1.0
    if slope <= 0.0:
        return 0.0
    bend = 0.0  # ||phi_to - mean phi||^2
    for j in range(size):
        left = sets.slots[slot + j, MASS] - (1.0 if j == to else 0.0)
        for t in range(size):
            bend += left * (sets.slots[slot + t, MASS] - (1.0 if t == to else 0.0)) * sets.gram[at + j * wide + t]
    bend *= cap
    step = most if slope >= bend * most else slope / bend
    for t in range(size):
        change = 0.0
        for j in range(size):
            change += ((1.0 if j == to else 0.0) - sets.slots[slot + j, MASS]) * sets.gram[at + t * wide + j]
        h[t] -= cap * sign * step * change
    for j in range(size):
        sets.slots[slot + j, MASS] += sign * step * ((1.0 if j == to else 0.0) - sets.slots[slot + j, MASS])
    if sign < 0.0 and step >= most:
        sets.slots[slot + k, MASS] = 0.0
    return cap * step * (slope - 0.5 * step * bend)


@improve.register(Corrective)
def _(method, sets, i, h, cap, found):
    slot, at, wide, size = sets.sample[i, SLOT], sets.sample[i, PRODUCTS], sets.sample[i, CAPACITY], sets.sample[i, SIZE]
    rise, first = 0.0, -1.0
    for _ in range(method.most * size):
        top, mean = 0, 0.0
        for j in range(size):
            mean += sets.slots[slot + j, MASS] * h[j]
            if h[j] > h[top]:
                top = j
        gap = h[top] - mean
        if first < 0.0:
            first = gap
        if gap <= method.part * first:
            break
        k, best = -1, 0.0  # from where the move raises the dual most, were there no bounds
        for j in range(size):
            if sets.slots[slot + j, MASS] > 0.0 and h[j] < h[top]:
                slope, bend = h[top] - h[j], cap * distance(sets.gram, at, wide, top, j)
                most = sets.slots[slot + j, MASS]
                step = most if slope >= bend * most else slope / bend
                gain = step * (slope - 0.5 * step * bend)
                if gain > best:
                    k, best = j, gain
        if k < 0:
            break
        rise += move_mass(sets, i, h, cap, top, k)
    return rise
