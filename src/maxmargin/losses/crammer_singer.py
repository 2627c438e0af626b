"""The multiclass hinge loss of Crammer and Singer with costs: cap_i max_j (cost[y, j] + z_j - z_y), cost[y, y] = 0.

Duals of example i: a_j >= 0 for j != y with sum_j a_j <= cap_i, kept as the row b_j = -a_j, b_y = sum_j a_j, so that V
= sum_i x_i b_i and every row sums to zero. With q = ||x_i||^2, h_j = cost_j + z_j and B_j = h_j - z_y + q (a_j + b_y)
the best row is

    a_j = max(0, B_j - t) / q,      sum_j max(0, B_j - t) = min(t, q cap_i),      a = 0 if no B_j is positive.

The left side falls and the right side rises in t: Newton's method from the left ends exactly. Any subset of the classes
gives a point on the left, and the support of the last visit is mostly the answer.
"""

from typing import NamedTuple

import numpy as np

from ..jit import jitable, vectors
from .base import (
    MulticlassLoss,
    for_few,
    own_scratch,
    row_extrapolate,
    row_label,
    row_prefetch,
    row_repair,
    row_slope,
    row_step,
    row_value,
    take_few,
)


class CrammerSinger(NamedTuple):
    label: np.ndarray
    cap: np.ndarray
    cost: vectors.VectorTable  # (classes, classes), in the dtype of the scores it is added to
    classes: int
    shortest: float  # room below this part of the violation is lost in rounding


def crammer_singer(label: np.ndarray, cap: np.ndarray, cost: np.ndarray, dtype) -> CrammerSinger:
    """The loss for iterations (or a certificate) in this dtype; `cost` is (classes, classes)."""
    packed = vectors.table(vectors.pack(cost, dtype, fill=vectors.NEVER))
    return CrammerSinger(label.astype(np.int32), cap, packed, cost.shape[0], 1e4 * float(np.finfo(dtype).eps))


class CrammerSingerLoss(MulticlassLoss):
    """max_j (cost[y, j] + z_j - z_y)"""

    exchanges = True
    selective = True

    def of(self, label, cost, cap, dtype):
        return crammer_singer(label, cap, cost, dtype)


@own_scratch.register
def _(loss: CrammerSinger):
    return loss


@row_label.register(CrammerSinger)
def _(loss, i):
    return np.int64(loss.label[i])


@for_few.register
def _(loss: CrammerSinger, most):
    cost, cap = vectors.zeros_table(most, most, loss.cost.flat.dtype), np.zeros(1)
    return loss._replace(label=np.zeros(1, np.int32), cap=cap, cost=cost, classes=most)


@take_few.register(CrammerSinger)
def _(loss, i, place, which, few):
    few.label[0], few.cap[0] = place, loss.cap[i]
    for a in range(which.size):
        few.cost.flat[place, a] = loss.cost.flat[loss.label[i], which[a]]


@row_value.register(CrammerSinger)
def _(loss, i, scores):
    y = loss.label[i]
    top = vectors.add(vectors.load(scores.vectors, 0, 0), vectors.load(loss.cost.vectors, y, 0))
    for b in range(1, scores.vectors.shape[1]):
        top = vectors.maximum(top, vectors.add(vectors.load(scores.vectors, 0, b), vectors.load(loss.cost.vectors, y, b)))
    return loss.cap[i] * np.float64(vectors.largest(top) - scores.flat[0, y])


@row_slope.register(CrammerSinger)
def _(loss, i, scores, duals):
    y, cap, zero = loss.label[i], loss.cap[i], vectors.zeros_like(duals.vectors)
    top = vectors.shift(zero, scores.flat[0, y])
    for b in range(scores.vectors.shape[1]):
        h = vectors.add(vectors.load(scores.vectors, 0, b), vectors.load(loss.cost.vectors, y, b))
        top = vectors.maximum(top, h)
        vectors.store(scores.vectors, 0, b, h)
        vectors.store(duals.vectors, 0, b, zero)
    best, truth = vectors.largest(top), scores.flat[0, y]
    if not best > truth or cap == 0.0:
        return 0.0, 0.0
    j = 0
    while j + 1 < loss.classes and scores.flat[0, j] != best:
        j += 1
    duals.flat[0, j], duals.flat[0, y] = -cap, cap
    return cap * np.float64(best - truth), cap * loss.cost.flat[y, j]


@row_prefetch.register(CrammerSinger)
def _(loss, i):
    vectors.prefetch(loss.label, i)
    vectors.prefetch(loss.cap, i)


@row_step.register(CrammerSinger)
def _(loss, i, curvature, scores, duals, change, calm):
    y, cap, cost = loss.label[i], loss.cap[i], loss.cost.vectors
    blocks, zero = scores.vectors.shape[1], vectors.zeros_like(scores.vectors)
    truth, held = scores.flat[0, y], duals.flat[i, y]
    constant = curvature * held - truth

    # h, B, the two sums that give the share of the gap, and B summed over the old support: one pass over the lanes.
    top, linear, highest = vectors.shift(zero, truth), zero, zero
    one, support, mass = vectors.shift(zero, 1.0), zero, zero
    for b in range(blocks):
        dual = vectors.load(duals.vectors, i, b)
        h = vectors.add(vectors.load(scores.vectors, 0, b), vectors.load(cost, y, b))
        top = vectors.maximum(top, h)
        linear = vectors.add(linear, vectors.multiply(h, dual))
        h = vectors.fma(vectors.shift(h, constant), -curvature, dual)
        highest = vectors.maximum(highest, h)
        support = vectors.add(support, vectors.where_negative(dual, one))
        mass = vectors.add(mass, vectors.where_negative(dual, h))
        vectors.store(scores.vectors, 0, b, h)
    share = cap * np.float64(vectors.largest(top) - truth) + np.float64(vectors.total(linear))
    if share <= calm:
        return share, False, 0.0

    scores.flat[0, y] = vectors.NEVER
    best, room = np.float64(vectors.largest(highest)), curvature * cap
    short = room <= loss.shortest * best  # moving this example moves its scores by less than rounding does
    t = max(best, 0.0)
    if best > 0.0 and not short:
        start = level_of(np.float64(vectors.total(support)), np.float64(vectors.total(mass)), room)
        t = threshold(scores, room, max(level_of(1.0, best, room), start))

    mass, reward, scale = zero, zero, -1.0 / curvature if curvature > 0.0 else 0.0
    for b in range(blocks):
        dual, B = vectors.load(duals.vectors, i, b), vectors.load(scores.vectors, 0, b)
        new = vectors.fma(zero, scale, vectors.maximum(vectors.shift(B, -t), zero))
        difference = vectors.subtract(new, dual)
        mass = vectors.add(mass, new)
        reward = vectors.add(reward, vectors.multiply(difference, vectors.load(cost, y, b)))
        vectors.store(duals.vectors, i, b, new)
        vectors.store(change.vectors, 0, b, difference)
    now, gain = -np.float64(vectors.total(mass)), -np.float64(vectors.total(reward))
    if short:  # all mass to a class of the largest violation
        for j in range(loss.classes):
            if scores.flat[0, j] == best and j != y:
                now, duals.flat[i, j] = cap, -cap
                change.flat[0, j] -= cap
                gain += loss.cost.flat[y, j] * cap
                break
    duals.flat[i, y] = now
    change.flat[0, y] = now - held
    return share, True, gain


@jitable
def level_of(count, total, room):
    """t for a given set of `count` classes whose B sum to `total`."""
    return total / (count + 1.0) if total <= room * (count + 1.0) else (total - room) / count


@jitable
def threshold(scores, room, t):
    """The root t by Newton's method, from a point on its left."""
    zero = vectors.zeros_like(scores.vectors)
    one = vectors.shift(zero, 1.0)
    for _ in range(scores.flat.shape[1]):  # each leaves out a class at least, or is the last
        at, total, count = vectors.shift(zero, t), zero, zero
        for b in range(scores.vectors.shape[1]):
            B = vectors.load(scores.vectors, 0, b)
            below = vectors.subtract(at, B)
            total = vectors.add(total, vectors.where_negative(below, B))
            count = vectors.add(count, vectors.where_negative(below, one))
        new = level_of(np.float64(vectors.total(count)), np.float64(vectors.total(total)), room)
        if not new > t:
            break
        t = new
    return t


@row_extrapolate.register(CrammerSinger)
def _(loss, i, duals, before, t, change):
    y, cap, cost = loss.label[i], loss.cap[i], loss.cost.vectors
    blocks, zero = duals.vectors.shape[1], vectors.zeros_like(cost)
    held = duals.flat[i, y]
    wanted = held + t * (held - before.flat[i, y])

    beyond, mass, slope = zero, zero, zero
    for b in range(blocks):
        dual, old = vectors.load(duals.vectors, i, b), vectors.load(before.vectors, i, b)
        difference = vectors.subtract(dual, old)
        target = vectors.fma(dual, t, difference)
        beyond = vectors.maximum(beyond, vectors.where_negative(old, target))  # only what was negative can become positive
        mass = vectors.add(mass, vectors.where_negative(target, target))
        slope = vectors.add(slope, vectors.multiply(difference, vectors.load(cost, y, b)))
        vectors.store(change.vectors, 0, b, target)
    if vectors.largest(beyond) <= 0 and wanted <= cap:
        for b in range(blocks):
            vectors.store(before.vectors, i, b, vectors.load(duals.vectors, i, b))
            vectors.store(duals.vectors, i, b, vectors.load(change.vectors, 0, b))
        return False, -t * np.float64(vectors.total(slope))

    # Duals that would change their sign stop at zero, then the row is scaled down to its cap.
    total = min(wanted, 0.0) - np.float64(vectors.total(mass))
    shrink, reward = cap / total if total > cap else 1.0, zero
    for b in range(blocks):
        dual, target = vectors.load(duals.vectors, i, b), vectors.load(change.vectors, 0, b)
        new = vectors.fma(zero, shrink, vectors.where_negative(target, target))
        reward = vectors.add(reward, vectors.multiply(vectors.subtract(new, dual), vectors.load(cost, y, b)))
        vectors.store(before.vectors, i, b, dual)
        vectors.store(duals.vectors, i, b, new)
        vectors.store(change.vectors, 0, b, vectors.subtract(new, target))
    duals.flat[i, y] = total * shrink
    change.flat[0, y] = total * shrink - wanted
    return True, -np.float64(vectors.total(reward))


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
