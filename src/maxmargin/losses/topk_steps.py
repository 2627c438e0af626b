"""What the two top-k losses share. With h_j = 1 + z_j - z_y for the other classes j != y the loss of an example is

    cap_i max_p  <p, h> - smoothing/2 ||p||^2     over p in the unit top-k simplex (alpha) or the unit top-k box (beta)

and a = cap_i p are its duals, kept as the row b_j = -a_j, b_y = sum_j a_j. Reward: sum_j a_j - smoothing / (2 cap_i) ||a||^2.
With q = ||x_i||^2, Q = q + smoothing / cap_i and B_j = h_j + q (a_j + b_y) the best row is the projection Z = Q a of B, with
radius Q cap_i and bias q / Q (Chu et al. 2018, where smoothing is 0; Lapin et al. 2015).

A visit puts the few classes aside that matter: those of the last visit, and those above the level that these alone would
have. Newton's steps run over them, in float64. Whether any other class would have mattered is then known; if so, more are
put aside.
"""

from typing import NamedTuple

import numpy as np

from ..jit import generic_call, jitable, jitable_call, vectors
from ..projections.newton import UNKNOWN, Level, above, finite, level, projected, top_sum
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

SHORT = 1e-11  # a radius below this part of the largest entry is lost in rounding
SAFER = 1.0 + 1e-9  # keeps a bound on the safe side of rounding
FULL = 1.0 - 1e-6  # part of the cap from which on a row counts as full


class Shortlist(NamedTuple):
    """Which classes are put aside. Chosen for speed, sets not recorded, 2026-11-15 (`few` with `python -m benchmarks topk`)."""

    few: int = 64  # up to so many classes all are
    lower: int = 3  # times that more classes are before all of them are
    slack: float = 0.25  # part of the cap by which classes may be below the level of the last visit's and still are


SHORTLIST = Shortlist()


class Aside(NamedTuple):
    """Room for the classes that matter: which they are, their B and their h."""

    which: np.ndarray
    entry: np.ndarray
    plain: np.ndarray


class TopKFields(NamedTuple):
    """What both losses are made of."""

    label: np.ndarray
    cap: np.ndarray
    k: int
    smoothing: float
    classes: int
    joint: bool  # whether classes get duals k at a time (alpha)
    loose: float  # what rounding does to a row that is just feasible
    margin: vectors.VectorTable  # (1, classes), ones
    aside: Aside
    shortlist: Shortlist


class TopKLoss(MulticlassLoss):
    """What the two have in common as users name them: how many guesses, and how round the corners are. Margins are all one."""

    selective = True

    def __init__(self, k: int = 5, smoothing: float = 0.0):
        self.k = k
        self.smoothing = smoothing


def parts(
    label: np.ndarray,
    cap: np.ndarray,
    classes: int,
    k: int,
    smoothing: float,
    joint: bool,
    dtype,
    shortlist: Shortlist = SHORTLIST,
) -> TopKFields:
    margin = vectors.table(vectors.pack(np.ones((1, classes)), dtype, fill=vectors.NEVER))
    aside = Aside(np.zeros(classes, np.int64), np.zeros(classes), np.zeros(classes))
    loose = 8.0 * float(np.finfo(dtype).eps)
    return TopKFields(label.astype(np.int32), cap, k, float(smoothing), classes, joint, loose, margin, aside, shortlist)


@generic_call
def shape_of(loss, radius, bias):
    """The set of Z, for `projections.newton`."""


@generic_call
def excess(loss, values, count, floor):
    """The loss of unit weight from the h in values[:count], where no other exceeds the floor; NaN if others might matter.

    May overwrite the values.
    """


@generic_call
def floor_of(loss, many, total):
    """No h below this matters where `many` are positive and sum to `total`."""


@generic_call
def ceiling(loss, values, count, cap):
    """The largest c such that values[:count], not negative, are feasible up to a factor once cut off at c."""


@jitable
def smoothed(loss, values, count, found):
    """The smoothed loss of unit weight: Z at this level is smoothing * p."""
    total = 0.0
    for j in range(count):
        Z = projected(values[j], found)
        total += Z * (values[j] - 0.5 * Z)
    return 0.0 if total < 0.0 else total / loss.smoothing  # below zero it is rounding: p = 0 is worth that


@jitable_call
def value_of_topk(loss, i, scores):
    """The loss of example i, weighted. Overwrites the scores: the h that matter are put first, and no other room is needed."""
    row, y = scores.flat[0], np.int64(loss.label[i])
    offset = 1.0 - np.float64(row[y])
    many, total, row[y] = 0, 0.0, vectors.NEVER
    for j in range(loss.classes):
        h = np.float64(row.dtype.type(np.float64(row[j]) + offset))  # as it will be stored
        many += 1 if h > 0.0 else 0
        total += max(h, 0.0)
    if many == 0:
        return 0.0
    floor, count = floor_of(loss, many, total), 0
    for j in range(loss.classes):
        h = np.float64(row.dtype.type(np.float64(row[j]) + offset))  # as it will be stored
        row[count] = h
        count += 1 if h > floor else 0
    return loss.cap[i] * excess(loss, row, count, floor)


@jitable_call
def slope_of_topk(loss, i, scores, duals):
    """`row_slope` of both losses."""
    row, out, y, cap = scores.flat[0], duals.flat[0], np.int64(loss.label[i]), loss.cap[i]
    for j in range(out.size):
        out[j] = 0.0
    if cap == 0.0:
        return 0.0, 0.0
    offset = 1.0 - np.float64(row[y])
    if loss.smoothing > 0.0:
        return smoothed_slope_of(loss, y, cap, offset, row, out)
    total, share, taken, row[y] = 0.0, cap / loss.k, 0, vectors.NEVER
    for _ in range(loss.k):
        best = 0
        for j in range(1, loss.classes):
            best = j if row[j] > row[best] else best
        h = np.float64(row[best]) + offset
        if h <= 0.0 and not loss.joint:
            break
        total += h
        out[best], row[best] = -share, vectors.NEVER
        taken += 1
    if total <= 0.0:
        for j in range(loss.classes):
            out[j] = 0.0
        return 0.0, 0.0
    out[y] = share * taken
    return share * total, share * taken


@jitable_call
def smoothed_slope_of(loss, y, cap, offset, row, out):
    """The same where the loss is smoothed: cap times the projection of h / smoothing."""
    count, highest = 0, 0.0
    for j in range(loss.classes):
        if j != y:
            out[count] = np.float64(row[j]) + offset
            highest = max(highest, out[count])
            count += 1
    if highest <= 0.0:
        for j in range(count):
            out[j] = 0.0
        return 0.0, 0.0
    found = level(shape_of(loss, loss.smoothing, 0.0), out, count, UNKNOWN)
    total, mass, square = cap * smoothed(loss, out, count, found), 0.0, 0.0
    for j in range(loss.classes - 1, -1, -1):  # from behind: h_j stands at j, or before it
        if j == y:
            out[j] = 0.0
        else:
            count -= 1
            p = projected(out[count], found) / loss.smoothing
            out[j] = -cap * p
            mass += p
            square += p * p
    out[y] = cap * mass
    return total, cap * (mass - 0.5 * loss.smoothing * square)


# ---- the step ----------------------------------------------------------------------------------------------


@jitable_call
def put_support_aside(loss, i, curvature, scores, duals):
    """Scores become h + z_y; the classes with duals are put aside. Returns their number, sum_j h_j a_j and ||a||^2."""
    index, entry, plain = loss.aside
    y = np.int64(loss.label[i])
    truth, held = np.float64(scores.flat[0, y]), np.float64(duals.flat[i, y])
    count, linear, square = 0, 0.0, 0.0
    blocks, width, zero = scores.vectors.shape[1], scores.vectors.shape[2], vectors.zeros_like(scores.vectors)
    for b in range(0, blocks, 2):
        c = min(b + 1, blocks - 1)  # two at a time, the last one perhaps twice
        one = vectors.add(vectors.load(scores.vectors, 0, b), vectors.load(loss.margin.vectors, 0, b))
        two = vectors.add(vectors.load(scores.vectors, 0, c), vectors.load(loss.margin.vectors, 0, c))
        vectors.store(scores.vectors, 0, b, one)
        vectors.store(scores.vectors, 0, c, two)
        one = vectors.subtract(zero, vectors.load(duals.vectors, i, b))
        two = vectors.subtract(zero, vectors.load(duals.vectors, i, c))
        if vectors.any_filled(vectors.maximum(one, two)):
            for j in range(b * width, (c + 1) * width):
                a = -np.float64(duals.flat[i, j])
                if a > 0.0:
                    h = np.float64(scores.flat[0, j]) - truth
                    index[count], entry[count], plain[count] = j, h + curvature * (a + held), h
                    linear += h * a
                    square += a * a
                    count += 1
    scores.flat[0, y] = vectors.NEVER
    return count, linear, square


@jitable_call
def put_more_aside(loss, i, scores, duals, visit):
    """Behind the first `count`, put those classes without a dual aside that have h > floor; returns how many there are then."""
    count, floor, truth, push = visit
    index, entry, plain = loss.aside
    bound, blocks, width = scores.flat.dtype.type(truth + floor), scores.vectors.shape[1], scores.vectors.shape[2]
    for b in range(0, blocks, 2):
        c = min(b + 1, blocks - 1)
        if vectors.any_reaches(vectors.maximum(vectors.load(scores.vectors, 0, b), vectors.load(scores.vectors, 0, c)), bound):
            for j in range(b * width, min((c + 1) * width, loss.classes)):
                if scores.flat[0, j] >= bound and duals.flat[i, j] >= 0:
                    h = np.float64(scores.flat[0, j]) - truth
                    index[count], entry[count], plain[count] = j, h + push, h
                    count += 1
    return count


@jitable
def first_level(loss, shape, count, full):
    """The level of the classes that had duals; where there were none, where the loss begins; unknown where classes are few."""
    if loss.classes <= loss.shortlist.few:
        return Level(np.nan, np.nan, 0.0, 0, full)
    if count == 0:
        return Level(0.0, np.nan, 0.0, 0, False)
    return level(shape, loss.aside.entry, count, Level(np.nan, np.nan, 0.0, 0, full))


@jitable_call
def corner(loss, count, cap):
    """Where the radius is lost in rounding: all mass on the k largest, if they are worth it, in place of their entries."""
    _, entry, mass = loss.aside
    worth = top_sum(entry, count, loss.k)[0] if count >= loss.k else 0.0
    for r in range(count):
        mass[r] = 0.0
    for _ in range(min(loss.k, count)):
        best = 0
        for r in range(1, count):
            if entry[r] > entry[best]:
                best = r
        if (worth if loss.joint else entry[best]) <= 0.0:
            break
        mass[best], entry[best] = cap / loss.k, vectors.NEVER
    for r in range(count):
        entry[r] = mass[r]


@jitable_call
def best_row(loss, i, curvature, scores, duals, change, calm):
    """`row_step` of both losses."""
    _, entry, plain = loss.aside
    y, cap = np.int64(loss.label[i]), loss.cap[i]
    if cap == 0.0:
        return 0.0, False, 0.0
    truth, held = np.float64(scores.flat[0, y]), np.float64(duals.flat[i, y])
    soft = loss.smoothing / cap
    whole = curvature + soft
    radius, push = whole * cap, curvature * held
    first, linear, square = put_support_aside(loss, i, curvature, scores, duals)
    start = soft * square

    # More and more classes are put aside, until it is certain that the others have no part in the loss and in the best row.
    shape = shape_of(loss, radius, curvature / whole if whole > 0.0 else 0.0)
    found = first_level(loss, shape, first, held >= FULL * cap)
    short, floor = False, found.shift + found.t - push
    if first > 0:
        floor -= loss.shortlist.slack * found.cap
    for attempt in range(loss.shortlist.lower + 2):
        if attempt > loss.shortlist.lower or not finite(floor):  # all classes
            floor = -np.inf
        count = put_more_aside(loss, i, scores, duals, (first, max(floor, 0.5 * vectors.NEVER - truth), truth, push))
        total, top = 0.0, 0.0
        for r in range(count):
            total += max(plain[r], 0.0)
            top = max(top, entry[r])
        lower = -SAFER * total if attempt == 0 and first == 0 else floor - 2.0 * max(top - push - floor, 1e-3 * top)
        share = cap * excess(loss, plain, count, floor) - linear + 0.5 * start
        if np.isnan(share):
            floor = min(lower, floor)
            continue
        if share <= calm:
            return share, False, 0.0
        short = radius <= SHORT * top
        if short:
            break
        found = level(shape, entry, count, found)
        if certain(loss, entry, count, floor + push, found):
            break
        floor = min(lower, floor)

    if short:
        corner(loss, count, cap)
    else:
        scale = 1.0 / whole
        for r in range(count):
            entry[r] = scale * projected(entry[r], found)
    mass, end = put_row(loss, i, count, duals, change)
    return share, True, mass - held - 0.5 * (soft * end - start)


@jitable_call
def put_row(loss, i, count, duals, change):
    """Put what is aside in place of the duals and the difference into `change`; returns the sum and ||a||^2."""
    which, entry, _ = loss.aside
    y, zero = np.int64(loss.label[i]), vectors.zeros_like(change.vectors)
    for b in range(change.vectors.shape[1]):
        vectors.store(change.vectors, 0, b, zero)
    mass, square = 0.0, 0.0
    for r in range(count):
        a, j = entry[r], which[r]
        old = duals.flat[i, j]
        duals.flat[i, j] = -a
        change.flat[0, j] = duals.flat[i, j] - old
        mass += a
        square += a * a
    held = duals.flat[i, y]
    duals.flat[i, y] = mass
    change.flat[0, y] = duals.flat[i, y] - held
    return mass, square


@jitable
def certain(loss, entry, count, floor, found):
    """Whether no class at or below the floor can have a part in the best row."""
    if found.cap > 0.0:
        return found.shift + found.t >= floor
    many, total = above(entry, count, 0.0, floor)  # all duals are zero; k classes at the floor must not make the sum positive
    return many >= loss.k or loss.k * floor + total <= 0.0


# ---- extrapolation and repair --------------------------------------------------------------------------------


@jitable_call
def extrapolated(loss, i, duals, before, t, change):
    """`row_extrapolate` of both losses: duals that would change their sign stop at zero, those too large at the ceiling, and the
    row is scaled down to its cap."""
    index, entry, _ = loss.aside
    y, cap = np.int64(loss.label[i]), loss.cap[i]
    held, past = np.float64(duals.flat[i, y]), np.float64(before.flat[i, y])
    wanted, soft = held + t * (held - past), loss.smoothing / cap if cap > 0.0 else 0.0
    blocks, width, zero = duals.vectors.shape[1], duals.vectors.shape[2], vectors.zeros_like(change.vectors)

    count, feasible, start, most = 0, wanted <= cap * (1.0 + loss.loose), 0.0, 0.0
    for b in range(blocks):
        dual, old = vectors.load(duals.vectors, i, b), vectors.load(before.vectors, i, b)
        target = vectors.fma(dual, t, vectors.subtract(dual, old))
        vectors.store(before.vectors, i, b, dual)
        vectors.store(duals.vectors, i, b, target)
        vectors.store(change.vectors, 0, b, zero)
        if vectors.any_filled(target) or vectors.any_filled(dual):
            for j in range(b * width, (b + 1) * width):
                if j != y:
                    a, was = -np.float64(duals.flat[i, j]), np.float64(before.flat[i, j])
                    start += was * was
                    if a != 0.0:
                        index[count], entry[count] = j, max(a, 0.0)
                        count += 1
                        feasible = feasible and a >= 0.0
                        most = max(most, a)
    top = ceiling(loss, entry, count, cap)
    feasible = feasible and most <= top * (1.0 + loss.loose)
    total = 0.0
    for r in range(count):
        total += min(entry[r], top)
    shrink, end = cap / total if total > cap else 1.0, 0.0
    for r in range(count):
        a = entry[r] if feasible else shrink * min(entry[r], top)
        end += a * a
        if not feasible:
            target = duals.flat[i, index[r]]
            duals.flat[i, index[r]] = -a
            change.flat[0, index[r]] = duals.flat[i, index[r]] - target
    now = wanted if feasible else total * shrink
    duals.flat[i, y] = now
    change.flat[0, y] = now - wanted
    return not feasible, now - held - 0.5 * soft * (end - start)


@jitable_call
def repaired(loss, i, duals, out):
    """`row_repair` of both losses, by the same rule."""
    index, entry, _ = loss.aside
    y, cap = np.int64(loss.label[i]), loss.cap[i]
    count, width = 0, duals.vectors.shape[2]
    for j in range(out.flat.shape[1]):
        out.flat[0, j] = 0.0
    for b in range(duals.vectors.shape[1]):
        if vectors.any_filled(vectors.load(duals.vectors, i, b)):
            for j in range(b * width, min((b + 1) * width, loss.classes)):
                if j != y and duals.flat[i, j] < 0:
                    index[count], entry[count] = j, -np.float64(duals.flat[i, j])
                    count += 1
    top, total, square = ceiling(loss, entry, count, cap), 0.0, 0.0
    for r in range(count):
        entry[r] = min(entry[r], top)
        total += entry[r]
    shrink = cap / total if total > cap else 1.0
    for r in range(count):
        a = shrink * entry[r]
        out.flat[0, index[r]] = -a
        p = a / cap if a > 0.0 else 0.0  # the square of a alone may be too small for a float
        square += p * p
    out.flat[0, y] = total * shrink
    return total * shrink - 0.5 * loss.smoothing * cap * square


# ---- as losses of rows -----------------------------------------------------------------------------------


def ask_for(loss, i):
    """`row_prefetch` of both losses."""
    vectors.prefetch(loss.label, i)
    vectors.prefetch(loss.cap, i)


def with_room(loss):
    """`own_scratch` of both losses."""
    return loss._replace(aside=Aside(*(np.zeros_like(array) for array in loss.aside)))


def with_few(loss, most):
    """`for_few` of both losses."""
    aside, margin = Aside(*(np.zeros(most, array.dtype) for array in loss.aside)), loss.margin.flat
    ones = vectors.table(vectors.pack(np.ones((1, most)), margin.dtype))
    return loss._replace(label=np.zeros(1, np.int32), cap=np.zeros(1), classes=most, margin=ones, aside=aside)


def take_label(loss, i, place, which, few):
    """`take_few` of both losses."""
    few.label[0], few.cap[0] = place, loss.cap[i]


def label_of(loss, i):
    """`row_label` of both losses."""
    return np.int64(loss.label[i])


def register_rows(kind: type) -> None:
    """Make a class with the fields of `TopKFields` a loss of rows; what is its own are the four generic functions above."""
    own_scratch.register(kind)(with_room)
    row_label.register(kind)(label_of)
    for_few.register(kind)(with_few)
    take_few.register(kind)(take_label)
    row_value.register(kind)(value_of_topk)
    row_slope.register(kind)(slope_of_topk)
    row_step.register(kind)(best_row)
    row_prefetch.register(kind)(ask_for)
    row_extrapolate.register(kind)(extrapolated)
    row_repair.register(kind)(repaired)
