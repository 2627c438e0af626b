"""A multiclass loss: the squared hinge of each class against the rest, sum_j max(0, 1 - s_j z_j)^2, s_j = +1 for the own class.

Each class has a dual of its own, a_j = s_j b_j >= 0 with the reward a_j - a_j^2 / (4 cap).
"""

from typing import NamedTuple

import numpy as np

from maxmargin.extend import MulticlassLoss, jitable, row_extrapolate, row_repair, row_slope, row_step, row_value


class Encoded(NamedTuple):
    label: np.ndarray
    cap: np.ndarray
    classes: int


class EachAgainstTheRest(MulticlassLoss):
    steep = True

    def of(self, label, cost, cap, dtype):
        return Encoded(label, cap, len(cost))


@jitable
def sign(loss, i, j):
    return 1.0 if loss.label[i] == j else -1.0


@jitable
def gain(loss, i, a):
    return a - (0.25 * a * a / loss.cap[i] if a > 0.0 else 0.0)


@row_value.register(Encoded)
def _(loss, i, scores):
    total = 0.0
    for j in range(loss.classes):
        t = max(1.0 - sign(loss, i, j) * scores.flat[0, j], 0.0)
        total += t * t
    return loss.cap[i] * total


@row_slope.register(Encoded)
def _(loss, i, scores, duals):
    total, rewards = 0.0, 0.0
    for j in range(duals.flat.shape[1]):
        duals.flat[0, j] = 0.0
    for j in range(loss.classes):
        t = max(1.0 - sign(loss, i, j) * scores.flat[0, j], 0.0)
        a = 2.0 * loss.cap[i] * t
        duals.flat[0, j] = sign(loss, i, j) * a
        total += loss.cap[i] * t * t
        rewards += gain(loss, i, a)
    return total, rewards


@row_step.register(Encoded)
def _(loss, i, curvature, scores, duals, change, calm):
    share, rise, cap = 0.0, 0.0, loss.cap[i]
    for j in range(loss.classes):
        s = sign(loss, i, j)
        a, t = s * np.float64(duals.flat[i, j]), 1.0 - s * np.float64(scores.flat[0, j])
        share += cap * max(t, 0.0) ** 2 - a * t + (0.25 * a * a / cap if a > 0.0 else 0.0)
    if share <= calm or cap == 0.0:
        return share, False, 0.0
    for j in range(loss.classes):
        s = sign(loss, i, j)
        a, t = s * np.float64(duals.flat[i, j]), 1.0 - s * np.float64(scores.flat[0, j])
        best = max((t + curvature * a) / (curvature + 0.5 / cap), 0.0)
        duals.flat[i, j] = s * best
        change.flat[0, j] = s * (best - a)
        rise += gain(loss, i, best) - gain(loss, i, a)
    return share, True, rise


@row_extrapolate.register(Encoded)
def _(loss, i, duals, before, t, change):
    lacks, rise = False, 0.0
    for j in range(loss.classes):
        s = sign(loss, i, j)
        now, old = np.float64(duals.flat[i, j]), np.float64(before.flat[i, j])
        wanted = now + t * (now - old)
        new = s * max(s * wanted, 0.0)
        lacks = lacks or new != wanted
        change.flat[0, j] = new - wanted
        rise += gain(loss, i, s * new) - gain(loss, i, s * now)
        before.flat[i, j] = now
        duals.flat[i, j] = new
    return lacks, rise


@row_repair.register(Encoded)
def _(loss, i, duals, out):
    total = 0.0
    for j in range(loss.classes):
        s = sign(loss, i, j)
        a = max(s * np.float64(duals.flat[i, j]), 0.0) if loss.cap[i] > 0.0 else 0.0
        out.flat[0, j] = s * a
        total += gain(loss, i, a)
    return total
