"""Projections onto simplices, boxes and the top-k cone, reduced to one number: the level t of z_j = clip(a_j - t, 0, cap).

Every set here has projections of that form, and t is the root of a piecewise linear function of one unknown. Semismooth Newton
solves the linear piece at hand and looks again, until it meets the same piece twice: that is the exact answer. A bracket makes it
safe, as not all of these functions are convex; a step that leaves it is replaced by its middle. Rounding may keep Newton from
meeting a piece twice, so there is an end to its steps: PATIENCE of them, then the bracket is halved until nothing lies between
its ends, at most ROUNDS in all.

    Knapsack     sum z = radius, 0 <= z_j <= cap                            (cap >= radius: the simplex)
    Cone         bias/2 s^2 added, 0 <= z_j <= s / k, s = sum z             (Chu et al. 2018; Lapin et al. 2015)
    TopK         the same with s <= radius                                  (alpha form)
    Box          bias/2 s^2 added, 0 <= z_j <= radius / k, s <= radius      (beta form)

Nothing is sorted and nothing allocated. Entries that cannot be in the support may be left out of `values` by the caller, who
can check afterwards: what was left out must not exceed t.

Throughout S(v) = sum_j (a_j - v)_+ and m(v) = #{j: a_j > v}, so that S' = -m.
"""

from typing import NamedTuple

import numpy as np

from ..jit import generic_call, jitable, jitable_call
from ..result import TINY

LEAST_EXCESS = 4.0 * float(np.finfo(np.float64).eps)
OFTEN = 16  # after every so many steps the bracket is halved, whatever Newton says: there may be many pieces
PATIENCE = 64  # steps after which it is only halved
HALVINGS = 80  # close any bracket: 1 finds its sign, 12 its size (of 2,100 powers of two), 54 its digits
ROUNDS = PATIENCE + HALVINGS
HUGE = float(np.finfo(np.float64).max)


class Knapsack(NamedTuple):
    cap: float
    radius: float


class Cone(NamedTuple):
    k: int
    bias: float


class TopK(NamedTuple):
    k: int
    radius: float
    bias: float


class Box(NamedTuple):
    k: int
    radius: float
    bias: float


class Level(NamedTuple):
    """z_j = clip((a_j - shift) - t, 0, cap), as `projected` has it; `shift` is 0 or the largest entry, near which differences are
    exact."""

    t: float
    cap: float
    shift: float
    steps: int  # Newton steps taken
    tight: bool  # whether the radius is what bounds z


UNKNOWN = Level(np.nan, np.nan, 0.0, 0, False)


def least(shape: Knapsack | Cone | TopK | Box) -> float:
    """How many entries a projection has at least, if it is not zero."""
    if isinstance(shape, Knapsack):
        return shape.radius / shape.cap
    return 1 if isinstance(shape, Box) else shape.k


@generic_call
def level(shape, values, count, last):
    """The level of the projection of values[:count] onto `shape`; `last` is that of something similar, or UNKNOWN."""


@jitable
def projected(value, found):
    """z_j of one entry. Not max(a_j - shift - t, 0): sums may be reordered, and shift + t is rounded to nothing."""
    return min(max(np.float64(value) - found.shift, found.t) - found.t, found.cap)


@jitable
def finite(x):
    """What `np.isfinite` means. That subtracts x from itself, and where sums may be reordered a sum minus itself is zero, NaN or
    not."""
    return abs(x) < np.inf


@jitable
def extent(values, count):
    """The smallest and the largest of values[:count]."""
    low = high = np.float64(values[0])
    for j in range(1, count):
        x = np.float64(values[j])
        low, high = x if x < low else low, x if x > high else high
    return low, high


@jitable
def above(values, count, shift, level):
    """m and S of values - shift at one level. In this form (whole counts, a maximum) the loop becomes vector instructions."""
    many, total = 0, 0.0
    for j in range(count):
        x = np.float64(values[j]) - shift
        many += x > level
        total += max(x - level, 0.0)
    return np.float64(many), total


@jitable
def sum_above(values, count, level):
    """How many values exceed a level, and their sum."""
    many, total = 0, 0.0
    for j in range(count):
        x = np.float64(values[j])
        many += x > level
        total += x if x > level else 0.0
    return np.float64(many), total


@jitable
def clipped(values, count, shift, t, cap):
    """sum_j clip(a_j - shift - t, 0, cap), how many a_j - shift exceed t, and how many t + cap.

    Not as a difference S(t) - S(t + cap): where entries are far above t nothing would be left of it. See `projected` for the max.
    """
    many, beyond, total = 0, 0, 0.0
    for j in range(count):
        x = np.float64(values[j]) - shift
        many += x > t
        beyond += x > t + cap
        total += min(max(x, t) - t, cap)
    return total, np.float64(many), np.float64(beyond)


@jitable_call
def top_sum(values, count, k):
    """The sum of the k <= count largest of values[:count], and about the k-th largest.

    The sum is min_v k v + S(v). Two pieces of this convex function, left and right of the minimum, meet at the mean of the
    values between them: that is the next v, and it leaves fewer of them. Where it does not, they are the same up to rounding.
    """
    low, total = np.float64(values[0]), 0.0
    for j in range(count):
        x = np.float64(values[j])
        low, total = x if x < low else low, total + x
    if count == k:
        return total, low
    many_left, total_left, many_right, total_right, right = np.float64(count), total, 0.0, 0.0, np.inf
    v = total / count
    for _ in range(count):
        many, total = sum_above(values, count, v)
        if many == k:
            return total, v
        if not many_right < many < many_left:
            break
        if many > k:
            many_left, total_left = many, total
        else:
            many_right, total_right, right = many, total, v
        v = (total_left - total_right) / (many_left - many_right)
    return add_largest(values, count, k, (many_right, total_right, right))


@jitable_call
def add_largest(values, count, k, known):
    """`top_sum`, one entry after the other, from how many there are above some value, their sum, and that value."""
    many, total, right = known
    bound = lifted(values, count, 0.0, right)
    for _ in range(k):
        bound, times = next_below(values, count, bound)
        if not many + times < k:
            return total + (k - many) * bound, bound
        many, total = many + times, total + times * bound
    return np.nan, np.nan


@jitable
def next_below(values, count, bound):
    """The largest value below the bound, and how often it is there; what is infinite or NaN counts for infinitely many."""
    highest, times = -np.inf, 0.0
    for j in range(count):
        x = np.float64(values[j])
        if not x < np.inf:
            return x, np.inf
        if highest < x < bound:
            highest, times = x, 0.0
        times += x == highest
    return highest, times


@jitable
def inside(new, low, high, steps):
    """Whether Newton's point is taken."""
    return low < new < high and steps % OFTEN != 0 and steps < PATIENCE


@jitable
def middle(low, high, steps):
    """The middle of the bracket. Once patience is over HALVINGS are to close any bracket: then it is the geometric mean where the
    ends are of different size."""
    small, large = min(abs(low), abs(high)), max(abs(low), abs(high))
    if steps < PATIENCE or large <= 4.0 * max(small, TINY):
        return 0.5 * low + 0.5 * high
    if low < 0.0 < high:
        return 0.0
    size = np.sqrt(max(small, TINY)) * np.sqrt(large)
    return size if high > 0.0 else -size


@jitable
def lifted(values, count, shift, u):
    """The smallest of values - shift above u. Where no entry lies between t and u, both may be raised by as much, and z stays."""
    least = np.inf
    for j in range(count):
        x = np.float64(values[j]) - shift
        least = x if u < x < least else least
    return least


@jitable_call
def filled(values, count, cap, radius, last):
    """The level at which sum_j clip(a_j - shift - t, 0, cap) is the radius, with the largest entry as shift."""
    smallest, top = extent(values, count)
    low, high = -radius if cap >= radius else max(smallest - top - cap, -HUGE), 0.0
    t, newton = last.shift + last.t - top, False
    if not low < t < high:
        t = low if cap >= radius else 0.5 * low
    lately, lately_beyond = -1.0, -1.0
    for steps in range(1, ROUNDS + 1):
        total, many, beyond = clipped(values, count, top, t, cap)
        excess, slope = total - radius, many - beyond
        new = t + excess / slope if slope > 0.0 else np.inf
        if (newton and many == lately and beyond == lately_beyond) or abs(excess) <= LEAST_EXCESS * radius:
            return Level(new if slope > 0.0 else lifted(values, count, top, t + cap) - cap, cap, top, steps, True)
        if excess >= 0.0:
            low = t
        else:
            high = t
        newton, lately, lately_beyond = inside(new, low, high, steps), many, beyond
        if not newton:
            new = middle(low, high, steps)
            if not low < new < high:
                return Level(t, cap, top, steps, True)
        t = new
    return Level(t, cap, top, ROUNDS, True)


@jitable
def apex(t, u, top, steps):
    """The level between t and u, or z = 0 where they crossed."""
    return Level(t, u - t, 0.0, steps, False) if u > t else Level(top, 0.0, 0.0, steps, False)


@jitable_call
def cone(values, count, k, bias, last):
    """The level on the cone 0 <= z_j <= s / k; its cap is s / k.

    The unknown is u = t + s / k, with t(u) = (bias k u - S(u) / k) / (1 + bias k). S(t) - S(u) is above k (u - t) for small u and
    below it for large ones. z = 0 where the k largest sum to nothing positive: then no root has u > t, so a guess needs no such
    test beforehand.
    """
    smallest, top = extent(values, count)
    u = last.shift + last.t + last.cap
    if count < k or top <= 0.0:
        return Level(top, 0.0, 0.0, 0, False)
    if not finite(u):
        largest, u = top_sum(values, count, k)
        if largest <= 0.0:
            return Level(top, 0.0, 0.0, 0, False)
    factor, newton = 1.0 + bias * k, False
    _, positive = above(values, count, 0.0, 0.0)
    high = max(top, positive * factor / k)
    if bias > 0.0:  # t never exceeds the largest entry
        high = min(high, max(top * factor / (bias * k), top))
    low, high = smallest - top, high * (1.0 + LEAST_EXCESS)
    if not low < u < high:
        u = top
    lately, lately_beyond, t = -1.0, -1.0, u
    for steps in range(1, ROUNDS + 1):
        beyond, rest = above(values, count, 0.0, u)
        t, rate = (bias * k * u - rest / k) / factor, (bias * k + beyond / k) / factor
        many, total = above(values, count, 0.0, t)
        excess, slope = total - rest - k * (u - t), k - beyond + rate * (many - k)
        new = u + excess / slope if slope > 0.0 else np.inf
        if (newton and many == lately and beyond == lately_beyond) or abs(excess) <= LEAST_EXCESS * total:
            new = new if slope > 0.0 else u
            t += rate * (new - u)
            if many == beyond:
                t, new = t + (lifted(values, count, 0.0, new) - new), lifted(values, count, 0.0, new)
            return apex(t, new, top, steps)
        if excess > 0.0:
            low = u
        else:
            high = u
        newton, lately, lately_beyond = inside(new, low, high, steps), many, beyond
        if not newton:
            new = middle(low, high, steps)
            if not low < new < high:
                return apex(t, u, top, steps)
        u = new
    return apex(t, u, top, ROUNDS)


@jitable_call
def boxed(values, count, cap, radius, bias, last):
    """The level at which t = bias sum_j clip(a_j - t, 0, cap), where that sum is below the radius."""
    _, top = extent(values, count)
    most = bias * radius
    total, many, beyond = clipped(values, count, 0.0, most, cap)
    if total >= radius:
        return Level(np.nan, cap, 0.0, 1, True)
    if most == 0.0 or top <= 0.0:
        return Level(0.0, cap, 0.0, 1, False)
    low, high, t, newton = 0.0, min(most, top), last.shift + last.t, False
    if not low < t < high:
        t = high
    lately, lately_beyond = -1.0, -1.0
    for steps in range(1, ROUNDS + 1):
        if t != most:
            total, many, beyond = clipped(values, count, 0.0, t, cap)
        excess = bias * total - t
        new = t + excess / (1.0 + bias * (many - beyond))
        if (newton and many == lately and beyond == lately_beyond) or abs(excess) <= LEAST_EXCESS * t:
            return Level(new, cap, 0.0, steps, False)
        if excess >= 0.0:
            low = t
        else:
            high = t
        newton, lately, lately_beyond = inside(new, low, high, steps), many, beyond
        if not newton:
            new = middle(low, high, steps)
            if not low < new < high:
                return Level(t, cap, 0.0, steps, False)
        t = new
    return Level(t, cap, 0.0, ROUNDS, False)


@level.register(Knapsack)
def _(shape, values, count, last):
    return filled(values, count, shape.cap, shape.radius, last)


@level.register(Cone)
def _(shape, values, count, last):
    return cone(values, count, shape.k, shape.bias, last)


@level.register(TopK)
def _(shape, values, count, last):
    k, radius, steps = shape.k, shape.radius, 0
    if last.tight and count >= k:  # the radius bounds z: so it was last time, and so it is if its multiplier is not negative
        found = filled(values, count, radius / k, radius, last)
        steps = found.steps
        _, rest = above(values, count, found.shift, found.t + found.cap)
        if found.shift + found.t - shape.bias * radius + rest / k >= 0.0:
            return found
    loose = cone(values, count, k, shape.bias, last)
    steps += loose.steps
    if k * loose.cap <= radius:
        return Level(loose.t, loose.cap, 0.0, steps, False)
    found = filled(values, count, radius / k, radius, loose)
    return Level(found.t, found.cap, found.shift, steps + found.steps, True)


@level.register(Box)
def _(shape, values, count, last):
    cap = shape.radius / shape.k
    found = boxed(values, count, cap, shape.radius, shape.bias, last)
    if not found.tight:
        return found
    tight = filled(values, count, cap, shape.radius, last)
    return Level(tight.t, cap, tight.shift, tight.steps + 1, True)
