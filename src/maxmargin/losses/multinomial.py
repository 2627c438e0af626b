"""The multinomial logistic loss: cap_i (log sum_k exp(z_k) - z_y).

The dual of example i is a distribution p over all classes, kept as the row b = cap_i (e_y - p) with the reward
-cap_i sum_k p_k log p_k; a row of zeros is p = e_y. With q = ||x_i||^2, rho = q cap_i and u = z + rho p_old the best row solves

    log p_k + rho p_k = u_k - nu,  sum_k p_k = 1:      p_k = omega(u_k - nu + log rho) / rho,    omega(x) + log omega(x) = x.

The sum falls and is convex in nu: Newton's method is monotone from the left of the root, and from its right it goes to the left
first. If p_old were the answer, nu would be z_k - log p_old_k for every k; their mean under p_old is where it starts, but not
below max_k u_k - rho, which is on the left.

No p_k is zero but for rounding: duals are dense, and float64, as a float32 near to cap_i could not tell how near.
"""

from typing import NamedTuple

import numpy as np

from ..jit import jitable, vectors
from .base import (
    MulticlassLoss,
    own_scratch,
    row_bend,
    row_extrapolate,
    row_prefetch,
    row_repair,
    row_slope,
    row_step,
    row_value,
    row_within,
)
from .logistic import FARTHEST_SCORE
from .multilabel_logistic import LEAST_PART, lane_either

OUTSIDE = -1e30  # the score of an unused lane: no class is there
SHORTEST_RHO = 1e-30  # stands for zero: the step is then softmax
SUM_ROUNDS = 30  # 8 do; the end is where the sum is one
SUM_ROUNDING = 1e-7  # of their sum; a linear step goes the rest of the way
NEAR_LEVEL = 0.5  # moved by no more, omega follows by one step from where it was


class Multinomial(NamedTuple):
    label: np.ndarray
    cap: np.ndarray
    outside: vectors.VectorTable  # (1, classes): zero, and OUTSIDE in unused lanes
    classes: int


class MultinomialLoss(MulticlassLoss):
    """log sum_k exp(z_k) - z_y"""

    smooth = True
    precise = True
    margins = False

    def of(self, label, cost, cap, dtype):
        outside = vectors.pack(np.zeros((1, len(cost))), dtype, fill=OUTSIDE)
        return Multinomial(label.astype(np.int32), cap, vectors.table(outside), len(cost))


@jitable
def softened(loss, i, scores):
    """The logarithm of sum_k exp(z_k - z_y), which may be far less than the rounding of either z: those of the other classes are
    summed up alone. z_y is taken off the scores, and unused lanes are put out of the way."""
    zero, y = vectors.zeros_like(scores.vectors), loss.label[i]
    top, total, truth = zero, zero, scores.flat[0, y]
    scores.flat[0, y] = OUTSIDE
    for b in range(scores.vectors.shape[1]):
        z = vectors.add(vectors.load(scores.vectors, 0, b), vectors.load(loss.outside.vectors, 0, b))
        z = vectors.shift(z, -truth)
        top = vectors.maximum(top, z)
        vectors.store(scores.vectors, 0, b, z)
    highest = vectors.largest(top)
    for b in range(scores.vectors.shape[1]):
        total = vectors.add(total, vectors.exp(vectors.shift(vectors.load(scores.vectors, 0, b), -highest)))
    scores.flat[0, y] = 0.0
    others = vectors.total(total)
    return np.log1p(others) if highest <= 0.0 else highest + np.log(others + np.exp(-highest))


@own_scratch.register
def _(loss: Multinomial):
    return loss


@row_value.register(Multinomial)
def _(loss, i, scores):
    return loss.cap[i] * softened(loss, i, scores)


@row_slope.register(Multinomial)
def _(loss, i, scores, duals):
    y, cap, zero = loss.label[i], loss.cap[i], vectors.zeros_like(scores.vectors)
    level, mass, entropy = softened(loss, i, scores), zero, zero
    for b in range(scores.vectors.shape[1]):
        log = vectors.shift(vectors.load(scores.vectors, 0, b), -level)
        p = lane_used(loss, b, vectors.exp(log))
        entropy = vectors.subtract(entropy, vectors.multiply(p, log))
        vectors.store(duals.vectors, 0, b, vectors.fma(zero, -cap, p))
    duals.flat[0, y] = 0.0
    for b in range(scores.vectors.shape[1]):
        mass = vectors.add(mass, vectors.load(duals.vectors, 0, b))
    duals.flat[0, y] = -vectors.total(mass)
    return cap * level, cap * vectors.total(entropy)


@jitable
def make_distribution(loss, i, duals):
    """p in the place of the row duals[0]: e_y - b / cap"""
    zero = vectors.zeros_like(duals.vectors)
    for b in range(duals.vectors.shape[1]):
        vectors.store(duals.vectors, 0, b, vectors.fma(zero, -1.0 / loss.cap[i], vectors.load(duals.vectors, 0, b)))
    duals.flat[0, loss.label[i]] += 1.0


@row_bend.register(Multinomial)
def _(loss, i, slopes, along):
    cap, zero = loss.cap[i], vectors.zeros_like(along.vectors)
    if cap <= 0.0:
        for b in range(along.vectors.shape[1]):
            vectors.store(along.vectors, 0, b, zero)
        return
    make_distribution(loss, i, slopes)
    mean = zero
    for b in range(along.vectors.shape[1]):
        mean = vectors.add(mean, vectors.multiply(vectors.load(slopes.vectors, 0, b), vectors.load(along.vectors, 0, b)))
    mean = vectors.total(mean)
    for b in range(along.vectors.shape[1]):
        apart = vectors.shift(vectors.load(along.vectors, 0, b), -mean)
        vectors.store(along.vectors, 0, b, vectors.fma(zero, cap, vectors.multiply(apart, vectors.load(slopes.vectors, 0, b))))


@row_within.register(Multinomial)
def _(loss, i, slopes, duals):
    y, cap, total, zero = loss.label[i], loss.cap[i], 0.0, vectors.zeros_like(duals.vectors)
    if cap <= 0.0:
        for b in range(duals.vectors.shape[1]):
            vectors.store(duals.vectors, 0, b, zero)
        return
    make_distribution(loss, i, slopes)
    make_distribution(loss, i, duals)
    for k in range(loss.classes):
        duals.flat[0, k] = max(duals.flat[0, k], 0.5 * slopes.flat[0, k])
        total += duals.flat[0, k]
    others = 0.0
    for k in range(loss.classes):
        if k != y:
            duals.flat[0, k] *= -cap / total
            others -= duals.flat[0, k]
    duals.flat[0, y] = others


@row_prefetch.register(Multinomial)
def _(loss, i):
    vectors.prefetch(loss.label, i)
    vectors.prefetch(loss.cap, i)


@jitable
def lane_used(loss, b, p):
    """p, and zero in unused lanes."""
    return vectors.subtract(p, vectors.where_negative(vectors.load(loss.outside.vectors, 0, b), p))


@jitable
def lane_entropy(p):
    """-p log p"""
    zero = vectors.subtract(p, p)
    return vectors.multiply(vectors.subtract(zero, p), vectors.log(vectors.maximum(p, vectors.shift(zero, LEAST_PART))))


@row_step.register(Multinomial)
def _(loss, i, curvature, scores, duals, change, calm):
    y, cap, zero = loss.label[i], loss.cap[i], vectors.zeros_like(scores.vectors)
    blocks = scores.vectors.shape[1]
    if cap <= 0.0:
        return 0.0, False, 0.0
    level, taken = softened(loss, i, scores), duals.flat[i, y] / cap

    # The old distribution, in the place of the change, and its entropy and mean score, which is zero for class y.
    for b in range(blocks):
        vectors.store(
            change.vectors, 0, b, vectors.maximum(vectors.fma(zero, -1.0 / cap, vectors.load(duals.vectors, i, b)), zero)
        )
    change.flat[0, y], entropy, mean = 0.0, zero, zero
    for b in range(blocks):
        p = vectors.load(change.vectors, 0, b)
        entropy = vectors.add(entropy, lane_entropy(p))
        mean = vectors.add(mean, vectors.multiply(p, vectors.load(scores.vectors, 0, b)))
    old = vectors.total(entropy) + surprise_of_rest(taken)
    nu, change.flat[0, y] = vectors.total(mean) + old, max(1.0 - taken, 0.0)
    share = cap * (level - nu)
    if share <= calm:
        return share, False, 0.0

    rho, top = max(curvature * cap, SHORTEST_RHO), vectors.shift(zero, OUTSIDE)
    for b in range(blocks):
        u = vectors.fma(vectors.load(scores.vectors, 0, b), rho, vectors.load(change.vectors, 0, b))
        top = vectors.maximum(top, u)
        vectors.store(scores.vectors, 0, b, u)
    total = distribute(loss, rho, nu, vectors.largest(top) - rho, scores, change)

    # Normalised; the dual of y is the sum of the others.
    change.flat[0, y], mass, entropy = 0.0, zero, zero
    for b in range(blocks):
        p = vectors.fma(zero, 1.0 / total, vectors.load(change.vectors, 0, b))
        mass, entropy = vectors.add(mass, p), vectors.add(entropy, lane_entropy(p))
        vectors.store(change.vectors, 0, b, vectors.fma(zero, -cap, p))
    others = min(vectors.total(mass), 1.0)
    change.flat[0, y] = cap * others
    for b in range(blocks):
        new = vectors.load(change.vectors, 0, b)
        vectors.store(change.vectors, 0, b, vectors.subtract(new, vectors.load(duals.vectors, i, b)))
        vectors.store(duals.vectors, i, b, new)
    return share, True, cap * (vectors.total(entropy) + surprise_of_rest(others) - old)


@jitable
def distribute(loss, rho, nu, lowest, scores, out):
    """p_k = omega(u_k - nu + log rho) / rho with nu such that they sum to one, in out[0]; returns their sum, as it is."""
    zero, total, slope, ahead = vectors.zeros_like(scores.vectors), 1.0, 0.0, 0.0
    one, nu, moved = vectors.shift(zero, 1.0), max(nu, lowest), 2.0 * NEAR_LEVEL
    for _ in range(SUM_ROUNDS):
        mass, fall = zero, zero
        for b in range(scores.vectors.shape[1]):
            x = lane_within(vectors.shift(vectors.load(scores.vectors, 0, b), np.log(rho) - nu))
            if moved > NEAR_LEVEL:
                w = lane_omega(x)
            else:
                w = lane_nearer(x, vectors.load(out.vectors, 0, b))
            vectors.store(out.vectors, 0, b, w)
            p = lane_used(loss, b, w)
            mass = vectors.add(mass, p)
            fall = vectors.add(fall, vectors.divide(p, vectors.add(one, w)))
        total, slope = vectors.total(mass) / rho, vectors.total(fall) / rho
        ahead = (total - 1.0) / slope
        if abs(total - 1.0) <= SUM_ROUNDING:
            break
        nu, moved = max(nu + ahead, lowest), abs(ahead)
        ahead = 0.0
    # What is left of the way is too short to be more than linear.
    for b in range(scores.vectors.shape[1]):
        w = vectors.load(out.vectors, 0, b)
        p = vectors.fma(vectors.fma(zero, 1.0 / rho, w), -ahead / rho, vectors.divide(w, vectors.shift(w, 1.0)))
        vectors.store(out.vectors, 0, b, lane_used(loss, b, p))
    return total - ahead * slope


# ---- Wright's function: omega + log omega = x ----------------------------------------------------------------


@jitable
def lane_omega(x):
    x = lane_within(x)
    return lane_nearer(x, lane_nearer(x, lane_below(x)))


@jitable
def lane_within(x):
    """x, where its omega would be too small for a number, the least that is not."""
    return vectors.maximum(x, vectors.shift(vectors.subtract(x, x), -FARTHEST_SCORE))


@jitable
def lane_below(x):
    """e^x / (1 + e^x) or x - log x, both below omega and near."""
    zero = vectors.subtract(x, x)
    one = vectors.shift(zero, 1.0)
    large = vectors.maximum(x, one)
    sigmoid = vectors.divide(one, vectors.shift(vectors.exp(vectors.subtract(zero, x)), 1.0))
    return lane_either(vectors.subtract(one, x), vectors.subtract(large, vectors.log(large)), sigmoid)


@jitable
def lane_nearer(x, w):
    """A step of the fourth order from w to omega(x) (Fritsch, Shafer and Crowley 1973)."""
    r = vectors.subtract(vectors.subtract(x, w), vectors.log(w))
    v = vectors.shift(w, 1.0)
    s = vectors.multiply(v, vectors.fma(v, 2.0 / 3.0, r))
    part = vectors.divide(vectors.fma(s, -0.5, r), vectors.subtract(s, r))
    return vectors.add(w, vectors.multiply(w, vectors.multiply(vectors.divide(r, v), part)))


@row_extrapolate.register(Multinomial)
def _(loss, i, duals, before, t, change):
    y, cap, zero = loss.label[i], loss.cap[i], vectors.zeros_like(duals.vectors)
    blocks, held = duals.vectors.shape[1], duals.flat[i, y]
    wanted, mass = held + t * (held - before.flat[i, y]), zero
    if cap <= 0.0:
        return False, 0.0
    duals.flat[i, y] = before.flat[i, y] = 0.0
    for b in range(blocks):
        dual = vectors.load(duals.vectors, i, b)
        target = vectors.fma(dual, t, vectors.subtract(dual, vectors.load(before.vectors, i, b)))
        mass = vectors.add(mass, vectors.minimum(target, zero))
        vectors.store(change.vectors, 0, b, target)
    # Where a dual would change its sign it stops at zero, then the row is scaled down to its cap.
    total = -vectors.total(mass)
    shrink, gain, lack = (cap / total if total > cap else 1.0), zero, zero
    for b in range(blocks):
        dual, target = vectors.load(duals.vectors, i, b), vectors.load(change.vectors, 0, b)
        new = vectors.fma(zero, shrink, vectors.minimum(target, zero))
        gain = vectors.add(gain, lane_entropy(vectors.fma(zero, -1.0 / cap, new)))
        gain = vectors.subtract(gain, lane_entropy(vectors.fma(zero, -1.0 / cap, dual)))
        missing = vectors.subtract(new, target)
        lack = vectors.add(lack, vectors.multiply(missing, missing))
        vectors.store(before.vectors, i, b, dual)
        vectors.store(duals.vectors, i, b, new)
        vectors.store(change.vectors, 0, b, missing)
    short = vectors.largest(lack) > 0.0 or not 0.0 <= wanted <= cap
    now = min(total * shrink, cap) if short else wanted
    duals.flat[i, y], before.flat[i, y], change.flat[0, y] = now, held, now - wanted
    own = surprise_of_rest(now / cap) - surprise_of_rest(held / cap)
    return short, cap * (vectors.total(gain) + own)


@jitable
def surprise(p):
    """-p log p"""
    return -p * np.log(p) if p > 0.0 else 0.0


@jitable
def surprise_of_rest(taken):
    """The same of p = 1 - taken, which may be one but for rounding."""
    return -(1.0 - taken) * np.log1p(-taken) if taken < 1.0 else 0.0


@row_repair.register(Multinomial)
def _(loss, i, duals, out):
    y, cap, mass, gain = loss.label[i], loss.cap[i], 0.0, 0.0
    for j in range(loss.classes):
        a = 0.0 if j == y else max(-np.float64(duals.flat[i, j]), 0.0)
        out.flat[0, j] = -a
        mass += a
    shrink = min(1.0, cap / mass) if mass > 0.0 else 0.0
    for j in range(loss.classes):
        out.flat[0, j] *= shrink
        gain += surprise(-out.flat[0, j] / cap) if j != y and cap > 0.0 else 0.0
    out.flat[0, y] = min(mass * shrink, cap)
    return cap * (gain + surprise_of_rest(out.flat[0, y] / cap)) if cap > 0.0 else 0.0
