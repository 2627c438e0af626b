"""The rival inside the same solver: the alpha form's step by sorting all classes; and what projections take of a run."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxmargin.jit import jitable, kernel, vectors
from maxmargin.losses.base import row_step
from maxmargin.losses.topk_alpha import TopKAlpha, TopKAlphaLoss
from maxmargin.losses.topk_steps import (
    TopKLoss,
    ceiling,
    excess,
    floor_of,
    parts,
    put_more_aside,
    put_row,
    put_support_aside,
    register_rows,
    shape_of,
)
from maxmargin.projections.newton import UNKNOWN, Level, TopK, level
from maxmargin.solvers.ascent.linear import AscentOptions, BlockAscent

FEW = 16  # pieces of so many entries are sorted by insertion


class SortedCone(NamedTuple):
    """The cone (and its cut at a radius), with room for a sorted copy and its running sums"""

    k: int
    radius: float
    bias: float
    falling: np.ndarray
    sums: np.ndarray
    stack: np.ndarray


def sorted_cone(k: int, bias: float, size: int) -> SortedCone:
    return SortedCone(k, np.inf, bias, np.zeros(size), np.zeros(size + 1), np.zeros(128, np.int64))


@jitable
def sort_falling(x, count, stack):
    """Quicksort with an explicit stack, short pieces by insertion"""
    stack[0], stack[1], top = 0, count - 1, 2
    while top > 0:
        top -= 2
        low, high = stack[top], stack[top + 1]
        while high - low >= FEW:
            a, b, c = x[low], x[(low + high) // 2], x[high]
            pivot = max(min(a, b), min(max(a, b), c))
            i, j = low, high
            while i <= j:
                while x[i] > pivot:
                    i += 1
                while x[j] < pivot:
                    j -= 1
                if i <= j:
                    x[i], x[j] = x[j], x[i]
                    i, j = i + 1, j - 1
            if j - low < high - i:
                stack[top], stack[top + 1] = i, high
                high = j
            else:
                stack[top], stack[top + 1] = low, j
                low = i
            top += 2
        for i in range(low + 1, high + 1):
            value, j = x[i], i
            while j > low and x[j - 1] < value:
                x[j] = x[j - 1]
                j -= 1
            x[j] = value


@jitable
def excess_above(falling, sums, count, v):
    """m and S at a level, by halving"""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if falling[middle] > v:
            low = middle + 1
        else:
            high = middle
    return np.float64(low), sums[low] - low * v


@level.register(SortedCone)
def _(shape, values, count, last):
    falling, sums, k, bias = shape.falling, shape.sums, shape.k, shape.bias
    for j in range(count):
        falling[j] = values[j]
    sort_falling(falling, count, shape.stack)
    for j in range(count):
        sums[j + 1] = sums[j] + falling[j]
    if sums[k] <= 0.0:
        return Level(falling[0], 0.0, 0.0, 0, False)
    low, high = falling[count - 1] - falling[0], max(falling[0], 0.0) * (1.0 + bias * k) / (bias * k)
    t = u = high
    for _ in range(100):
        u = 0.5 * (low + high)
        _, rest = excess_above(falling, sums, count, u)
        t = (bias * k * u - rest / k) / (1.0 + bias * k)
        _, total = excess_above(falling, sums, count, t)
        if not low < u < high:
            break
        if total - rest > k * (u - t):
            low = u
        else:
            high = u
    if k * (u - t) <= shape.radius:
        return Level(t, u - t, 0.0, 1, False)
    cap = shape.radius / k
    low, high = falling[count - 1] - cap, falling[0]
    for _ in range(100):
        t = 0.5 * (low + high)
        _, total = excess_above(falling, sums, count, t)
        _, rest = excess_above(falling, sums, count, t + cap)
        if not low < t < high:
            break
        if total - rest > shape.radius:
            low = t
        else:
            high = t
    return Level(t, cap, 0.0, 1, True)


class SortedAlpha(NamedTuple):
    label: np.ndarray
    cap: np.ndarray
    k: int
    smoothing: float
    classes: int
    joint: bool
    loose: float
    margin: vectors.VectorTable
    aside: Any
    shortlist: Any
    cone: SortedCone


def topk_by_sort(label, cap, classes: int, k: int, smoothing: float, dtype) -> SortedAlpha:
    return SortedAlpha(*parts(label, cap, classes, k, smoothing, True, dtype), sorted_cone(k, 1.0, classes))


class TopKBySort(TopKLoss):
    def of(self, label, cost, cap, dtype):
        return topk_by_sort(label, cap, cost.shape[0], self.k, self.smoothing, dtype)


register_rows(SortedAlpha)
for generic in (floor_of, excess, ceiling):
    generic.register(SortedAlpha)(generic.dispatch(TopKAlpha))


@row_step.register(SortedAlpha)
def _(loss, i, curvature, scores, duals, change, calm):
    _, entry, plain = loss.aside
    y, cap = np.int64(loss.label[i]), loss.cap[i]
    truth, held = np.float64(scores.flat[0, y]), np.float64(duals.flat[i, y])
    first, linear, _ = put_support_aside(loss, i, curvature, scores, duals)
    count = put_more_aside(loss, i, scores, duals, (first, -5e29, truth, curvature * held))
    share = cap * excess(loss, plain, count, -np.inf) - linear
    if share <= calm:
        return share, False, 0.0
    room = loss.cone
    shape = SortedCone(loss.k, curvature * cap, 1.0, room.falling, room.sums, room.stack)
    found = level(shape, entry, count, UNKNOWN)
    for r in range(count):
        entry[r] = max(0.0, min(entry[r] - found.shift - found.t, found.cap)) / curvature
    mass, _ = put_row(loss, i, count, duals, change)
    return share, True, mass - held


@kernel
def all_newton(table, shape, steps):
    for i in range(table.shape[0]):
        steps[i] = level(shape, table[i], table.shape[1], UNKNOWN).steps


@kernel
def all_sorted(table, shape):
    for i in range(table.shape[0]):
        level(shape, table[i], table.shape[1], UNKNOWN)


# ---- what the projection takes of a run --------------------------------------------------------------------


class Twice(NamedTuple):
    """A set whose projection is computed twice, to see what it costs."""

    once: TopK


class TwiceAlpha(NamedTuple):
    label: np.ndarray
    cap: np.ndarray
    k: int
    smoothing: float
    classes: int
    joint: bool
    loose: float
    margin: vectors.VectorTable
    aside: Any
    shortlist: Any


def topk_twice(label, cap, classes: int, k: int, smoothing: float, dtype) -> TwiceAlpha:
    return TwiceAlpha(*parts(label, cap, classes, k, smoothing, True, dtype))


class TopKTwice(TopKLoss):
    def of(self, label, cost, cap, dtype):
        return topk_twice(label, cap, cost.shape[0], self.k, self.smoothing, dtype)


register_rows(TwiceAlpha)
for generic in (floor_of, excess, ceiling):
    generic.register(TwiceAlpha)(generic.dispatch(TopKAlpha))


@shape_of.register(TwiceAlpha)
def _(loss, radius, bias):
    return Twice(TopK(loss.k, radius, bias))


@level.register(Twice)
def _(shape, values, count, last):
    first = level(shape.once, values, count, last)
    # The same again: what is not finite is no guess, so `last` is handed on in a way that a compiler cannot see through.
    return level(shape.once, values, count, Level(last.t, last.cap, last.shift, first.steps, last.tight))


def projection_part(problem: Callable[[Any], Any], passes: int, repeat: int = 3) -> float:
    """The part of a run's first passes that Newton's projections take: as much longer it is with each of them computed twice."""

    def run(form) -> float:
        ascent = BlockAscent(problem(form), None, AscentOptions(1e-3, 0, np.float32))
        begin = time.process_time()
        for _ in range(passes):
            ascent.advance(lambda: False)
            ascent.accelerate()
        return time.process_time() - begin

    for form in (TopKAlphaLoss, TopKTwice):  # compiles
        run(form)
    plain, twice = (min(run(form) for _ in range(repeat)) for form in (TopKAlphaLoss, TopKTwice))
    return (twice - plain) / plain
