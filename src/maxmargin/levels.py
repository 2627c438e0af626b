"""Projections onto simplices, boxes and the top-k cone, reduced to one number: the level t of z_j = clip(a_j - t, 0, cap).

Every set here has projections of that form, and t is the root of a piecewise linear function of one unknown. Semismooth Newton
solves the linear piece at hand and looks again, until it meets the same piece twice: that is the exact answer. A bracket makes it
safe, as not all of these functions are convex; a step that leaves it is replaced by its middle.

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

from .jit import generic_call, jitable, jitable_call

ROUNDING = 4.0 * float(np.finfo(np.float64).eps)
OFTEN = 16  # after every so many steps the bracket is halved, whatever Newton says: there may be many pieces


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
    """z_j = clip((a_j - shift) - t, 0, cap); `shift` is 0 or the largest entry, near which differences are exact."""

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
def above_both(values, count, shift, low, high):
    """m and S at two levels."""
    many, total, beyond, rest = 0, 0.0, 0, 0.0
    for j in range(count):
        x = np.float64(values[j]) - shift
        many += x > low
        total += max(x - low, 0.0)
        beyond += x > high
        rest += max(x - high, 0.0)
    return np.float64(many), total, np.float64(beyond), rest


@jitable_call
def top_sum(values, count, k):
    """The sum of the k <= count largest of values[:count], and about the k-th largest.

    The sum is min_v k v + S(v). Two pieces of this convex function, left and right of the minimum, meet at the mean of the
    values between them: that is the next v, and the piece there is the answer when it is one of the two.
    """
    total = 0.0
    for j in range(count):
        total += np.float64(values[j])
    many_left, total_left, many_right, total_right = np.float64(count), total, 0.0, 0.0
    v = total / count
    while True:
        many, excess = above(values, count, 0.0, v)
        total = excess + many * v  # the sum of the values above v
        if many == k or many == many_left or many == many_right:  # noqa: SIM109 - a tuple of both kinds of numbers is slow here
            return excess + k * v, v
        if many > k:
            many_left, total_left = many, total
        else:
            many_right, total_right = many, total
        v = (total_left - total_right) / (many_left - many_right)


@jitable
def inside(new, low, high, steps):
    """Whether Newton's point is taken."""
    return low < new < high and steps % OFTEN != 0


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
    low, high = -radius if cap >= radius else smallest - top - cap, 0.0
    t, steps, newton = last.shift + last.t - top, 0, False
    if not low < t < high:
        t = low if cap >= radius else 0.5 * low
    lately, lately_beyond = -1.0, -1.0
    while True:
        many, total, beyond, rest = above_both(values, count, top, t, t + cap)
        steps += 1
        excess, slope = total - rest - radius, many - beyond
        new = t + excess / slope if slope > 0.0 else np.inf
        if (newton and many == lately and beyond == lately_beyond) or abs(excess) <= ROUNDING * radius:
            return Level(new if slope > 0.0 else lifted(values, count, top, t + cap) - cap, cap, top, steps, True)
        if excess >= 0.0:
            low = t
        else:
            high = t
        newton, lately, lately_beyond = inside(new, low, high, steps), many, beyond
        if not newton:
            new = 0.5 * low + 0.5 * high
            if not low < new < high:
                return Level(t, cap, top, steps, True)
        t = new


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
    if not np.isfinite(u):
        largest, u = top_sum(values, count, k)
        if largest <= 0.0:
            return Level(top, 0.0, 0.0, 0, False)
    factor, steps, newton = 1.0 + bias * k, 0, False
    _, positive = above(values, count, 0.0, 0.0)
    high = max(top, positive * factor / k)
    if bias > 0.0:  # t never exceeds the largest entry
        high = min(high, max(top * factor / (bias * k), top))
    low, high = smallest - top, high * (1.0 + ROUNDING)
    if not low < u < high:
        u = top
    lately, lately_beyond = -1.0, -1.0
    while True:
        beyond, rest = above(values, count, 0.0, u)
        t, rate = (bias * k * u - rest / k) / factor, (bias * k + beyond / k) / factor
        many, total = above(values, count, 0.0, t)
        steps += 1
        excess, slope = total - rest - k * (u - t), k - beyond + rate * (many - k)
        new = u + excess / slope if slope > 0.0 else np.inf
        if (newton and many == lately and beyond == lately_beyond) or abs(excess) <= ROUNDING * total:
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
            new = 0.5 * low + 0.5 * high
            if not low < new < high:
                return apex(t, u, top, steps)
        u = new


@jitable_call
def boxed(values, count, cap, radius, bias, last):
    """The level at which t = bias sum_j clip(a_j - t, 0, cap), where that sum is below the radius."""
    _, top = extent(values, count)
    low, high = 0.0, bias * radius
    many, total, beyond, rest = above_both(values, count, 0.0, high, high + cap)
    if total - rest >= radius:
        return Level(np.nan, cap, 0.0, 1, True)
    if high == 0.0 or top <= 0.0:
        return Level(0.0, cap, 0.0, 1, False)
    t, steps, newton = last.shift + last.t, 1, False
    if not low < t < high:
        t = high
    lately, lately_beyond = -1.0, -1.0
    while True:
        if steps > 1 or t != high:
            many, total, beyond, rest = above_both(values, count, 0.0, t, t + cap)
            steps += 1
        excess = bias * (total - rest) - t
        new = t + excess / (1.0 + bias * (many - beyond))
        if (newton and many == lately and beyond == lately_beyond) or abs(excess) <= ROUNDING * t:
            return Level(new, cap, 0.0, steps, False)
        if excess >= 0.0:
            low = t
        else:
            high = t
        newton, lately, lately_beyond = inside(new, low, high, steps), many, beyond
        if not newton:
            new = 0.5 * low + 0.5 * high
            if not low < new < high:
                return Level(t, cap, 0.0, steps, False)
        t = new


@level.register(Knapsack)
def _(shape, values, count, last):
    return filled(values, count, shape.cap, shape.radius, last)


@level.register(Cone)
def _(shape, values, count, last):
    return cone(values, count, shape.k, shape.bias, last)


@level.register(TopK)
def _(shape, values, count, last):
    k, radius, steps = shape.k, shape.radius, 0
    tight, certain = last.tight and count >= k, False
    while True:
        if tight:  # the radius bounds z: so it was last time, or so the cone says
            found = filled(values, count, radius / k, radius, last)
            steps += found.steps
            _, rest = above(values, count, found.shift, found.t + found.cap)
            if certain or found.shift + found.t - shape.bias * radius + rest / k >= 0.0:  # its multiplier is not negative
                return Level(found.t, found.cap, found.shift, steps, True)
            tight = False
        else:
            last = cone(values, count, k, shape.bias, last)
            steps += last.steps
            if k * last.cap <= radius:
                return Level(last.t, last.cap, 0.0, steps, False)
            tight = certain = True


@level.register(Box)
def _(shape, values, count, last):
    cap = shape.radius / shape.k
    found = boxed(values, count, cap, shape.radius, shape.bias, last)
    if not found.tight:
        return found
    tight = filled(values, count, cap, shape.radius, last)
    return Level(tight.t, cap, tight.shift, tight.steps + 1, True)
