"""What the multi-label losses share: every label of an example is a binary problem of its own, taken a vector at a time.

The loss of example i is a sum over its labels l of a loss of slope_l = margin_l - y_l z_l, y_l = +-1, weighted by cap_il. Duals
are a_l (>= 0, but for the squared loss), kept as the row b_l = y_l a_l; by Fenchel and Young label l has the share

    loss(slope_l) - a_l slope_l + cost(a_l)      of the duality gap, where its reward is margin_l a_l - cost(a_l).

Eight labels are a byte of signs and a byte that says which of them are known; a table turns bytes into vectors. A label that
is not known has cap 0: its dual stays at zero and it takes no part.

Labels are coupled where the weights are Z = V R (Hariharan et al. 2012): a dual then moves the scores of all labels. `Coupled`
makes one exact step for each label in turn, every one of them with the scores as the others left them.
"""

from typing import Any, NamedTuple

import numpy as np

from ..jit import generic, jitable, vectors
from .base import own_scratch, row_extrapolate, row_prefetch, row_repair, row_slope, row_step, row_value

NO_CURVATURE = 1e-30  # stands for a curvature of zero: the step then ends at a bound


class Labels(NamedTuple):
    """The labels of all examples and their weights. `weight` and `margin`, none of them negative, have a row for a label that
    is present and the negative of that for one that is absent: the larger of the two, each times the sign, is the one meant."""

    present: np.ndarray  # (examples, bytes)
    known: np.ndarray
    cap: np.ndarray  # (examples,)
    signs: vectors.VectorTable  # (256, 8): +1 for a bit that is set, -1 for one that is not
    weight: vectors.VectorTable
    margin: vectors.VectorTable
    scale: vectors.VectorTable  # (1, labels): how much a label's own score moves, in units of ||x_i||^2


def labels(
    present: np.ndarray, known: np.ndarray, cap: np.ndarray, weight: np.ndarray, margin: np.ndarray, scale, dtype
) -> Labels:
    """Labels for iterations in this dtype; `weight` and `margin` are (labels, 2), absent and present; `scale` is (labels,)."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")

    def rows(table: np.ndarray) -> vectors.VectorTable:
        return vectors.table(vectors.pack(table, dtype))

    def either(pair: np.ndarray) -> vectors.VectorTable:
        return rows(np.array([pair[:, 1], -pair[:, 0]]))

    return Labels(present, known, cap, rows(2.0 * bits - 1.0), either(weight), either(margin), rows(scale[None]))


@generic
def lane_value(loss, slope, cap):
    """The losses of a vector of labels."""


@generic
def lane_cost(loss, a, cap):
    """What is taken off margin * a in the reward."""


@generic
def lane_slope(loss, slope, cap):
    """The duals at which the losses are attained: their derivatives in the slope."""


@generic
def lane_clip(loss, a, cap):
    """The nearest feasible duals."""


@generic
def lane_best(loss, a, slope, curvature, cap):
    """The duals that are best, each with all others fixed."""


@jitable
def squared_cost(loss, a, cap):
    """a^2 / (4 cap), zero where the cap and so a is zero. The square alone may be too small for a float where this is not."""
    zero = vectors.zeros_like(loss.labels.signs.vectors)
    one = vectors.shift(zero, 1.0)
    one_at_zero = vectors.subtract(one, vectors.where_negative(vectors.subtract(zero, cap), one))
    return vectors.multiply(a, vectors.divide(a, vectors.fma(one_at_zero, 4.0, cap)))


@jitable
def meant(table, b, sign):
    """Of the two rows the one that the signs ask for, as it was given: nothing is rounded."""
    present, absent = vectors.load(table.vectors, 0, b), vectors.load(table.vectors, 1, b)
    return vectors.maximum(vectors.multiply(sign, present), vectors.multiply(sign, absent))


@jitable
def asked(part, i, byte, p):
    """Signs, caps and margins of the labels in block p of a byte."""
    b = byte * part.signs.vectors.shape[1] + p
    sign = vectors.load(part.signs.vectors, part.present[i, byte], p)
    known = vectors.load(part.signs.vectors, part.known[i, byte], p)
    weight = meant(part.weight, b, sign)
    margin = meant(part.margin, b, sign)
    zero = vectors.zeros_like(part.signs.vectors)
    half = vectors.fma(zero, 0.5 * part.cap[i], weight)
    return sign, vectors.add(half, vectors.multiply(half, known)), margin


@jitable
def curve(part, curvature, b):
    """How much each label's score moves with its own dual."""
    return vectors.fma(vectors.zeros_like(part.scale.vectors), curvature, vectors.load(part.scale.vectors, 0, b))


@jitable
def value_of_labels(loss, i, scores):
    part, total = loss.labels, vectors.zeros_like(scores.vectors)
    blocks = part.signs.vectors.shape[1]
    for byte in range(part.present.shape[1]):
        for p in range(blocks):
            sign, cap, margin = asked(part, i, byte, p)
            slope = vectors.subtract(margin, vectors.multiply(sign, vectors.load(scores.vectors, 0, byte * blocks + p)))
            total = vectors.add(total, lane_value(loss, slope, cap))
    return np.float64(vectors.total(total))


@jitable
def slope_of_labels(loss, i, scores, duals):
    """`row_slope`: the duals of each label, the loss and their reward"""
    part, zero = loss.labels, vectors.zeros_like(scores.vectors)
    total, gain, blocks = zero, zero, part.signs.vectors.shape[1]
    for byte in range(part.present.shape[1]):
        for p in range(blocks):
            b = byte * blocks + p
            sign, cap, margin = asked(part, i, byte, p)
            slope = vectors.subtract(margin, vectors.multiply(sign, vectors.load(scores.vectors, 0, b)))
            a = lane_slope(loss, slope, cap)
            total = vectors.add(total, lane_value(loss, slope, cap))
            gain = vectors.add(gain, vectors.subtract(vectors.multiply(margin, a), lane_cost(loss, a, cap)))
            vectors.store(duals.vectors, 0, b, vectors.multiply(sign, a))
    return np.float64(vectors.total(total)), np.float64(vectors.total(gain))


@jitable
def prefetch_of(loss, i):
    vectors.prefetch(loss.labels.present, i * loss.labels.present.shape[1])
    vectors.prefetch(loss.labels.known, i * loss.labels.known.shape[1])
    vectors.prefetch(loss.labels.cap, i)


@jitable
def share_of(loss, i, scores, duals):
    """The example's share of the duality gap."""
    part, total = loss.labels, vectors.zeros_like(scores.vectors)
    blocks = part.signs.vectors.shape[1]
    for byte in range(part.present.shape[1]):
        for p in range(blocks):
            b = byte * blocks + p
            sign, cap, margin = asked(part, i, byte, p)
            a = vectors.multiply(sign, vectors.load(duals.vectors, i, b))
            slope = vectors.subtract(margin, vectors.multiply(sign, vectors.load(scores.vectors, 0, b)))
            total = vectors.add(total, vectors.add(lane_value(loss, slope, cap), lane_cost(loss, a, cap)))
            total = vectors.subtract(total, vectors.multiply(a, slope))
    return np.float64(vectors.total(total))


@jitable
def step_of(loss, i, curvature, scores, duals, change, calm):
    share = share_of(loss, i, scores, duals)
    if share <= calm:
        return share, False, 0.0
    part, gain = loss.labels, vectors.zeros_like(scores.vectors)
    blocks = part.signs.vectors.shape[1]
    for byte in range(part.present.shape[1]):
        for p in range(blocks):
            b = byte * blocks + p
            sign, cap, margin = asked(part, i, byte, p)
            held = vectors.load(duals.vectors, i, b)
            a = vectors.multiply(sign, held)
            slope = vectors.subtract(margin, vectors.multiply(sign, vectors.load(scores.vectors, 0, b)))
            new = lane_best(loss, a, slope, curve(part, curvature, b), cap)
            gain = vectors.add(gain, vectors.multiply(margin, vectors.subtract(new, a)))
            gain = vectors.subtract(gain, vectors.subtract(lane_cost(loss, new, cap), lane_cost(loss, a, cap)))
            signed = vectors.multiply(sign, new)
            vectors.store(duals.vectors, i, b, signed)
            vectors.store(change.vectors, 0, b, vectors.subtract(signed, held))
    return share, True, np.float64(vectors.total(gain))


@jitable
def extrapolate_of(loss, i, duals, before, t, change):
    part, zero = loss.labels, vectors.zeros_like(duals.vectors)
    gain, lack, blocks = zero, zero, part.signs.vectors.shape[1]
    for byte in range(part.present.shape[1]):
        for p in range(blocks):
            b = byte * blocks + p
            sign, cap, margin = asked(part, i, byte, p)
            held = vectors.load(duals.vectors, i, b)
            wanted = vectors.fma(held, t, vectors.subtract(held, vectors.load(before.vectors, i, b)))
            a, new = vectors.multiply(sign, held), lane_clip(loss, vectors.multiply(sign, wanted), cap)
            gain = vectors.add(gain, vectors.multiply(margin, vectors.subtract(new, a)))
            gain = vectors.subtract(gain, vectors.subtract(lane_cost(loss, new, cap), lane_cost(loss, a, cap)))
            signed = vectors.multiply(sign, new)
            short = vectors.subtract(signed, wanted)
            lack = vectors.add(lack, vectors.multiply(short, short))
            vectors.store(before.vectors, i, b, held)
            vectors.store(duals.vectors, i, b, signed)
            vectors.store(change.vectors, 0, b, short)
    return vectors.largest(lack) > 0, np.float64(vectors.total(gain))


@jitable
def repair_of(loss, i, duals, out):
    part, total = loss.labels, vectors.zeros_like(out.vectors)
    blocks = part.signs.vectors.shape[1]
    for j in range(out.flat.shape[1]):
        out.flat[0, j] = duals.flat[i, j]
    for byte in range(part.present.shape[1]):
        for p in range(blocks):
            b = byte * blocks + p
            sign, cap, margin = asked(part, i, byte, p)
            a = lane_clip(loss, vectors.multiply(sign, vectors.load(out.vectors, 0, b)), cap)
            total = vectors.add(total, vectors.subtract(vectors.multiply(margin, a), lane_cost(loss, a, cap)))
            vectors.store(out.vectors, 0, b, vectors.multiply(sign, a))
    return np.float64(vectors.total(total))


def serve(kind) -> None:
    """Let a loss that has the five lane functions be used as a loss of rows."""
    row_value.register(kind)(value_of_labels)
    row_slope.register(kind)(slope_of_labels)
    row_prefetch.register(kind)(prefetch_of)
    row_step.register(kind)(step_of)
    row_extrapolate.register(kind)(extrapolate_of)
    row_repair.register(kind)(repair_of)
    own_scratch.register(kind)(lambda loss: loss)


# ---- coupled labels --------------------------------------------------------------------------------------


class Coupled(NamedTuple):
    """A loss whose labels move each other's scores. A step leaves in the second row of `change` the first times R."""

    each: Any  # the loss of a label
    R: vectors.VectorTable  # (labels, labels)
    step: vectors.VectorTable  # room for a vector
    sweeps: int = 2  # in a visit: one more than needed saves passes where labels pull hard. Set not recorded, 2026-11-15


@own_scratch.register
def _(loss: Coupled):
    return loss._replace(step=vectors.table(np.zeros_like(loss.step.vectors)))


@row_value.register(Coupled)
def _(loss, i, scores):
    return value_of_labels(loss.each, i, scores)


@row_slope.register(Coupled)
def _(loss, i, scores, duals):
    return slope_of_labels(loss.each, i, scores, duals)


@row_prefetch.register(Coupled)
def _(loss, i):
    prefetch_of(loss.each, i)


@row_extrapolate.register(Coupled)
def _(loss, i, duals, before, t, change):
    return extrapolate_of(loss.each, i, duals, before, t, change)


@row_repair.register(Coupled)
def _(loss, i, duals, out):
    return repair_of(loss.each, i, duals, out)


@row_step.register(Coupled)
def _(loss, i, curvature, scores, duals, change, calm):
    each = loss.each
    share = share_of(each, i, scores, duals)
    if share <= calm:
        return share, False, 0.0
    part, gain = each.labels, vectors.zeros_like(scores.vectors)
    for b in range(change.vectors.shape[1]):
        vectors.store(change.vectors, 0, b, vectors.load(duals.vectors, i, b))
        vectors.store(change.vectors, 1, b, gain)
    sweeps = 0
    while sweeps < loss.sweeps and label_sweep(loss, i, curvature, scores, duals, change):
        sweeps += 1
    blocks = part.signs.vectors.shape[1]
    for byte in range(part.present.shape[1]):
        for p in range(blocks):
            b = byte * blocks + p
            sign, cap, margin = asked(part, i, byte, p)
            new, before = vectors.load(duals.vectors, i, b), vectors.load(change.vectors, 0, b)
            vectors.store(change.vectors, 0, b, vectors.subtract(new, before))
            a, was = vectors.multiply(sign, new), vectors.multiply(sign, before)
            gain = vectors.add(gain, vectors.multiply(margin, vectors.subtract(a, was)))
            gain = vectors.subtract(gain, vectors.subtract(lane_cost(each, a, cap), lane_cost(each, was, cap)))
    return share, True, np.float64(vectors.total(gain))


@jitable
def label_sweep(loss, i, curvature, scores, duals, change):
    """One exact step for each label in turn; returns whether any of them moved."""
    each, R, step, _ = loss
    part, moved = each.labels, False
    blocks, width = part.signs.vectors.shape[1], part.signs.vectors.shape[2]
    for byte in range(part.present.shape[1]):
        for p in range(blocks):
            b, k = byte * blocks + p, 0
            sign, cap, margin = asked(part, i, byte, p)
            curvatures = curve(part, curvature, b)
            while k < width:
                held = vectors.load(duals.vectors, i, b)
                score = vectors.fma(vectors.load(scores.vectors, 0, b), curvature, vectors.load(change.vectors, 1, b))
                slope = vectors.subtract(margin, vectors.multiply(sign, score))
                new = lane_best(each, vectors.multiply(sign, held), slope, curvatures, cap)
                move = vectors.subtract(vectors.multiply(sign, new), held)
                if not vectors.any_filled(move):
                    break
                vectors.store(step.vectors, 0, 0, move)
                while k < width and step.flat[0, k] == 0:  # a vector is good until one of its labels moves
                    k += 1
                if k < width:
                    t, j, moved = step.flat[0, k], b * width + k, True
                    duals.flat[i, j] += t
                    for c in range(change.vectors.shape[1]):
                        held = vectors.load(change.vectors, 1, c)
                        vectors.store(change.vectors, 1, c, vectors.fma(held, t, vectors.load(R.vectors, j, c)))
                    k += 1
    return moved
