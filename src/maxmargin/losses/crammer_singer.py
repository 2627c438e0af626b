"""The multiclass hinge loss of Crammer and Singer with costs: cap_i max_j (cost[y, j] + z_j - z_y), cost[y, y] = 0.

Duals of example i: a_j >= 0 for j != y with sum_j a_j <= cap_i, kept as the row b_j = -a_j, b_y = sum_j a_j, so that V
= sum_i x_i b_i and every row sums to zero. With q = ||x_i||^2, h_j = cost_j + z_j and B_j = h_j - z_y + q (a_j + b_y)
the best row is

    a_j = max(0, B_j - t) / q,      sum_j max(0, B_j - t) = min(t, q cap_i),      a = 0 if no B_j is positive.

The left side falls and the right side rises in t: Newton's method from the left, on the few B_j that can matter, ends
exactly; any subset of the classes gives a point on the left, and the support of the last visit is mostly the answer.
"""

from typing import NamedTuple

import numpy as np

from .. import lanes
from ..jit import jitable
from .base import row_reach, row_repair, row_step, row_value

NEVER = -1e30  # the cost of an unused lane: no class is there


class CrammerSinger(NamedTuple):
    label: np.ndarray
    cap: np.ndarray
    cost: lanes.Table  # (classes, classes), in the dtype of the scores it is added to
    picked: np.ndarray  # scratch: the classes that can matter
    classes: int


def crammer_singer(label: np.ndarray, cap: np.ndarray, cost: np.ndarray, dtype) -> CrammerSinger:
    """The loss for iterations (or a certificate) in this dtype; `cost` is (classes, classes)."""
    packed = lanes.table(lanes.pack(cost, dtype, fill=NEVER))
    return CrammerSinger(label, cap, packed, np.zeros(packed.flat.shape[1] + 1, np.int64), cost.shape[0])


@row_value.register(CrammerSinger)
def _(loss, i, scores):
    y = loss.label[i]
    top = lanes.add(lanes.load(scores.lanes, 0, 0), lanes.load(loss.cost.lanes, y, 0))
    for b in range(1, scores.lanes.shape[1]):
        top = lanes.maximum(top, lanes.add(lanes.load(scores.lanes, 0, b), lanes.load(loss.cost.lanes, y, b)))
    return loss.cap[i] * np.float64(lanes.largest(top) - scores.flat[0, y])


@row_step.register(CrammerSinger)
def _(loss, i, curvature, scores, duals, change, calm):
    y, cap, cost = loss.label[i], loss.cap[i], loss.cost.lanes
    blocks, zero = scores.lanes.shape[1], lanes.zeros_like(scores.lanes)
    truth, held = scores.flat[0, y], duals.flat[i, y]
    constant = curvature * held - truth

    # h, B and the two sums that give the share of the gap, in one pass over the lanes
    top, linear, highest = lanes.shift(zero, truth), zero, zero
    one, support, mass = lanes.shift(zero, 1.0), zero, zero
    for b in range(blocks):
        dual = lanes.load(duals.lanes, i, b)
        h = lanes.add(lanes.load(scores.lanes, 0, b), lanes.load(cost, y, b))
        top = lanes.maximum(top, h)
        linear = lanes.add(linear, lanes.multiply(h, dual))
        h = lanes.fma(lanes.shift(h, constant), -curvature, dual)
        highest = lanes.maximum(highest, h)
        support = lanes.add(support, lanes.where_negative(dual, one))
        mass = lanes.add(mass, lanes.where_negative(dual, h))
        lanes.store(scores.lanes, 0, b, h)
    share = cap * np.float64(lanes.largest(top) - truth) + np.float64(lanes.total(linear))
    if share <= calm:
        return share, False, 0.0
    best = np.float64(lanes.largest(highest))

    room, count, t = curvature * cap, 0, best
    short = room <= 1e-12 * best
    if short:
        count = pick_best(loss, y, best, scores)
    elif best > 0.0:
        # Any subset of the classes gives a t that is not too large: start from the better of the best class and the old support.
        start = max(level(1.0, best, room), level(np.float64(lanes.total(support)), np.float64(lanes.total(mass)), room))
        count, t = pick(loss, y, room, start, scores)
    reward = zero
    for b in range(blocks):
        dual = lanes.load(duals.lanes, i, b)
        reward = lanes.add(reward, lanes.multiply(dual, lanes.load(cost, y, b)))
        lanes.store(change.lanes, 0, b, lanes.subtract(zero, dual))
        lanes.store(duals.lanes, i, b, zero)
    gain, held_now = np.float64(lanes.total(reward)), 0.0
    for k in range(count):
        j = loss.picked[k]
        a = cap if short else min((scores.flat[0, j] - t) / curvature, cap)
        duals.flat[i, j] = -a
        change.flat[0, j] -= a
        gain += loss.cost.flat[y, j] * a
        held_now += a
    duals.flat[i, y] = held_now
    change.flat[0, y] += held_now
    return share, True, gain


@jitable
def level(count, total, room):
    """t for a given set of `count` classes whose B sum to `total`."""
    return total / (count + 1.0) if total <= room * (count + 1.0) else (total - room) / count


@jitable
def pick(loss, y, room, t, scores):
    """The classes whose dual will be positive, in loss.picked, how many, and t; `t` comes in as a point on the left."""
    width = scores.lanes.shape[2]
    count, total = 0, 0.0
    scores.flat[0, y] = NEVER
    for b in range(scores.lanes.shape[1]):
        if lanes.largest(lanes.load(scores.lanes, 0, b)) >= t:
            for j in range(b * width, (b + 1) * width):
                # Without branches, here and below: which classes stay is hard to guess.
                above = scores.flat[0, j] >= t
                loss.picked[count] = j
                count += 1 if above else 0
                total += scores.flat[0, j] if above else 0.0
    kept = -1
    while kept != count:
        kept = count
        t = level(count, total, room)
        count, total = 0, 0.0
        for k in range(kept):
            j = loss.picked[k]
            above = scores.flat[0, j] > t
            loss.picked[count] = j
            count += 1 if above else 0
            total += scores.flat[0, j] if above else 0.0
    return count, t


@jitable
def pick_best(loss, y, best, scores):
    """A class of the largest violation, for a row so short that rounding would decide how its mass is shared."""
    for j in range(scores.flat.shape[1]):
        if scores.flat[0, j] == best and j != y:
            loss.picked[0] = j
            return 1
    return 0


@row_reach.register(CrammerSinger)
def _(loss, i, duals, before, reach):
    y, cost = loss.label[i], loss.cost.lanes
    slope = lanes.zeros_like(cost)
    for b in range(duals.lanes.shape[1]):
        dual = lanes.load(duals.lanes, i, b)
        change = lanes.subtract(dual, lanes.load(before.lanes, i, b))
        slope = lanes.add(slope, lanes.multiply(change, lanes.load(cost, y, b)))
        if lanes.largest(lanes.fma(dual, reach, change)) > 0:  # a dual of another class would change its sign
            width = duals.lanes.shape[2]
            for j in range(b * width, (b + 1) * width):
                p = duals.flat[i, j] - before.flat[i, j]
                if j != y and p > 0.0 and duals.flat[i, j] + reach * p > 0.0:
                    reach = -duals.flat[i, j] / p
    p = duals.flat[i, y] - before.flat[i, y]
    if p > 0.0 and duals.flat[i, y] + reach * p > loss.cap[i]:
        reach = (loss.cap[i] - duals.flat[i, y]) / p
    return max(reach, 0.0), -np.float64(lanes.total(slope))


@row_repair.register(CrammerSinger)
def _(loss, i, duals, out):
    y, mass, reward = loss.label[i], 0.0, 0.0
    for j in range(loss.classes):
        a = 0.0 if j == y else max(-np.float64(duals.flat[i, j]), 0.0)
        out.flat[0, j] = -a
        mass += a
        reward += loss.cost.flat[y, j] * a
    shrink = min(1.0, loss.cap[i] / mass) if mass > 0.0 else 0.0
    for j in range(loss.classes):
        out.flat[0, j] *= shrink
    out.flat[0, y] = mass * shrink
    return reward * shrink
