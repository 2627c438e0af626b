"""Which duals of a loss are free: the face that they stand on.

A loss of one score has a box for each dual, and in it pieces on which its reward is quadratic (`losses.base.piece`). Rows of
classes are masses p >= 0 whose sum is the cap, the room that others leave being that of the class itself: b = cap e_y - p. Top-k
losses bound the masses of others from above, by cap / k (beta) or by their own sum over k (alpha): those rooms are entries of the
face too, tied to the masses by equations.
"""

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np

from ...jit import kernel
from ...losses.base import BOUNDLESS, piece
from ...losses.crammer_singer import CrammerSinger
from ...losses.topk_alpha import TopKAlpha
from ...losses.topk_beta import TopKBeta
from .face import Face, Ties

ROUNDED_MASS = 1e-12  # part of a cap that is nothing
Scores = Callable[[np.ndarray], np.ndarray]  # of some examples: (examples, classes)


@kernel
def pieces(loss, duals, low, high, linear, soft):
    """The quadratic piece of each dual. Of those at zero, where two may meet, it is any: they are not free."""
    for k in range(duals.size):
        low[k], high[k], linear[k], soft[k] = piece(loss, k, 0.0, duals[k])


def box_faces(loss: Any, duals: np.ndarray, scores: Scores, coupled: bool) -> list[Face]:
    """Duals (examples, labels), which the loss counts label by label; one face for each label where labels are not coupled."""
    flat = np.ascontiguousarray(duals.T).reshape(-1)
    low, high, linear, soft = (np.empty(flat.size) for _ in range(4))
    pieces(loss, flat, low, high, linear, soft)
    free = np.flatnonzero((low < flat) & (flat < high))
    label, example = np.divmod(free, len(duals))
    rows, at = np.unique(example, return_inverse=True)
    value = flat[free]
    slope = linear[free] - soft[free] * value - scores(rows)[at, label]
    zeros, alone = np.zeros(free.size), np.full(free.size, -1)
    face = Face(example, label, zeros, zeros + 1.0, value, low[free], high[free], slope, soft[free], alone)
    if coupled:
        return [face]
    return [face.taken(np.flatnonzero(label == k)) for k in np.unique(label)]


def group_face(duals: np.ndarray, margin: np.ndarray, group: np.ndarray, cap: np.ndarray, scores: Scores) -> Face:
    """Listed constraints: duals of a group have a cap together, and what they leave of it is an entry of its own."""
    rest = cap - np.bincount(group, duals, minlength=cap.size)
    rest[rest <= ROUNDED_MASS * cap] = 0.0
    count = np.bincount(group, duals > 0.0, minlength=cap.size) + (rest > 0.0)
    rows, groups = np.flatnonzero((duals > 0.0) & (count[group] > 1)), np.flatnonzero((rest > 0.0) & (count > 1))
    zeros = np.zeros(rows.size + groups.size)
    slope = np.concatenate([margin[rows] - scores(rows)[:, 0], np.zeros(groups.size)])
    example = np.concatenate([rows, np.zeros(groups.size, rows.dtype)])
    sign = np.concatenate([np.ones(rows.size), np.zeros(groups.size)])
    owner, value = np.concatenate([group[rows], groups]), np.concatenate([duals[rows], rest[groups]])
    return Face(example, np.zeros_like(example), zeros, sign, value, zeros, zeros + BOUNDLESS, slope, zeros, owner)


@singledispatch
def row_face(loss: Any, duals: np.ndarray, scores: Scores) -> Face | None:
    """The face of duals (examples, classes) of a loss as kernels see it; None where the loss is not of the kind."""
    return None


def masses_of(loss: Any, duals: np.ndarray) -> np.ndarray:
    """p, with what is rounding at zero."""
    own, masses = np.arange(len(duals)), -duals
    masses[own, loss.label] += loss.cap
    masses[masses <= ROUNDED_MASS * loss.cap[:, None]] = 0.0
    return masses


def simplex_face(loss: Any, masses: np.ndarray, high: np.ndarray, cost: np.ndarray, scores: Scores, smoothing: float) -> Face:
    """Masses of rows that keep their sums, each strictly between zero and its bound."""
    inside = (masses > 0.0) & (masses < high)
    rows = np.flatnonzero(np.count_nonzero(inside, axis=1) > 1)
    which, label = np.nonzero(inside[rows])
    example = rows[which]
    own, cap, value = loss.label[example] == label, loss.cap[example], masses[example, label]
    soft = np.where(own, 0.0, smoothing / cap)
    slope = cost[example, label] + scores(rows)[which, label] - soft * value
    zeros = np.zeros(value.size)
    base = np.where(own, cap, 0.0)
    return Face(example, label, base, zeros - 1.0, value, zeros, high[example, label], slope, soft, example)


@row_face.register
def _(loss: CrammerSinger, duals, scores):
    cost = loss.cost.flat[:, : loss.classes][loss.label]
    return simplex_face(loss, masses_of(loss, duals), np.full(duals.shape, BOUNDLESS), cost, scores, 0.0)


def ones_but_own(loss: Any) -> np.ndarray:
    """(examples, classes): the margins of top-k losses."""
    result = np.ones((loss.label.size, loss.classes))
    result[np.arange(loss.label.size), loss.label] = 0.0
    return result


@row_face.register
def _(loss: TopKBeta, duals, scores):
    masses, own = masses_of(loss, duals), np.arange(len(duals))
    high = np.repeat(loss.cap[:, None] / loss.k, loss.classes, axis=1)
    high[own, loss.label] = BOUNDLESS
    masses = np.where(masses >= (1.0 - ROUNDED_MASS) * high, high, masses)
    return simplex_face(loss, masses, high, ones_but_own(loss), scores, loss.smoothing)


@row_face.register
def _(loss: TopKAlpha, duals, scores):
    masses, own = masses_of(loss, duals), np.arange(len(duals))
    rest = masses[own, loss.label]
    masses[own, loss.label] = 0.0
    most = masses.sum(axis=1) / loss.k
    room = most[:, None] - masses
    room[room <= ROUNDED_MASS * loss.cap[:, None]] = 0.0
    between = np.count_nonzero((masses > 0.0) & (room > 0.0), axis=1)
    rows = np.flatnonzero((between > (rest <= 0.0)) | ((rest > 0.0) & (most > 0.0)))
    which, label = np.nonzero(masses[rows] > 0.0)
    count = np.bincount(which, minlength=rows.size)
    starts = np.concatenate([[0], np.cumsum(2 * count + 1)])
    place = starts[which] + np.arange(which.size) - (np.cumsum(count) - count)[which]
    left, above = starts[:-1] + count, place + count[which] + 1
    found, i, size = scores(rows), rows[which], int(starts[-1])
    face = Face(
        example=np.repeat(rows, 2 * count + 1),
        label=np.repeat(loss.label[rows].astype(np.int64), 2 * count + 1),
        base=np.zeros(size),
        sign=np.zeros(size),
        value=np.zeros(size),
        low=np.zeros(size),
        high=np.full(size, BOUNDLESS),
        slope=np.zeros(size),
        soft=np.zeros(size),
        group=np.full(size, -2),
        ties=Ties(starts, loss.k),
    )
    face.label[place], face.base[left] = label, loss.cap[rows]
    face.sign[place] = face.sign[left] = -1.0
    face.value[place], face.value[left], face.value[above] = masses[i, label], rest[rows], room[i, label]
    face.soft[place] = loss.smoothing / loss.cap[i]
    face.slope[place] = 1.0 + found[which, label] - face.soft[place] * masses[i, label]
    face.slope[left] = found[np.arange(rows.size), loss.label[rows]]
    return face
