"""Searches for a level where they are hard: ties, entries that differ by one rounding, sizes far apart. All end, exactly."""

import ast
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import maxmargin as mm
from maxmargin import projections
from maxmargin.jit import kernel
from maxmargin.levels import ROUNDS, UNKNOWN, Box, Cone, Knapsack, TopK, top_sum
from maxmargin.losses.crammer_singer import threshold
from maxmargin.losses.topk import ceiling
from maxmargin.losses.topk_alpha import topk_alpha
from maxmargin.projections import find

KINDS = ["simplex", "capped", "cone", "topk", "box"]
EPS = float(np.finfo(np.float64).eps)


# ---- vectors on which rounding decides -------------------------------------------------------------------


def nearly(rng, x, d):
    """d numbers within a few roundings of x."""
    return x * (1.0 + EPS * rng.integers(-2, 3, d))


def hard_vector(rng, d: int) -> np.ndarray:
    """Ties, near ties, signed zeros, denormals and sizes far apart, in any mixture."""
    parts = [
        rng.integers(-2, 3, d) * 0.1,
        nearly(rng, 0.1, d),
        nearly(rng, rng.normal(), d),
        nearly(rng, 2.0 / 3.0, d) * rng.choice([-1.0, 1.0, 1.0, 1e-16], d),
        rng.choice([0.0, -0.0, 5e-324, -5e-324, 1e-310], d),
        rng.normal(size=d) * 10.0 ** rng.uniform(-300, 300, d),
        rng.choice([1e300, -1e300, 1e-300, -1e-300, 1.0, 0.0], d),
        1e16 + nearly(rng, 1.0, d),
        2.0 ** -np.arange(d) * rng.choice([-1.0, 1.0]),
        np.full(d, rng.normal()),
        rng.normal(size=d),
    ]
    chosen = parts[int(rng.integers(len(parts)))]
    if rng.random() < 0.25:
        other = parts[int(rng.integers(len(parts)))]
        chosen = np.where(rng.random(d) < 0.5, chosen, other)
    return chosen


@kernel
def largest(values, k):
    return top_sum(values, values.size, k)


def test_sum_of_the_largest_is_exact_to_rounding():
    """Of ties, near ties and all sizes: no further from the exact sum than adding up the sorted numbers may be."""
    rng = np.random.default_rng(0)
    for _ in range(3000):
        d = int(rng.integers(1, 40))
        a, k = hard_vector(rng, d), int(rng.integers(1, d + 1))
        if rng.random() < 0.2:
            a = a.clip(-1e37, 1e37).astype(np.float32)
        top = np.sort(a.astype(np.float64))[::-1][:k]
        found, kth = largest(a, k)
        assert abs(Fraction(found) - sum(map(Fraction, top))) <= Fraction(2 * EPS * k) * Fraction(float(np.abs(top).sum())), (a, k)
        assert np.isfinite(kth)


def test_sum_of_the_largest_of_what_cannot_be_added_up():
    """Sums beyond the largest number and broken numbers end too, and nothing finite is made of them."""
    big = np.array([1.7e308, -1.7e308, 1.7e308, 1.0, 1.7e308, -1.7e308])
    assert largest(big, 1)[0] == 1.7e308
    assert largest(big, 3)[0] == np.inf
    for k in (1, 2, 4):
        assert np.isnan(largest(np.array([1.0, np.nan, 0.5, 2.0, 2.0]), k)[0])
        assert np.isnan(largest(np.full(5, np.nan), k)[0])
        assert largest(np.array([1.0, np.inf, 0.5, 2.0, 2.0]), k)[0] == np.inf


# ---- projections, against fractions ----------------------------------------------------------------------


def exact_knapsack(a, cap, radius):
    """sum z = radius, 0 <= z <= cap, by the values of the sum at the points where it bends."""

    def total(t):
        return sum(min(max(x - t, 0), cap) for x in a)

    points = sorted({x for x in a} | {x - cap for x in a}, reverse=True)  # the sum rises from 0 to d cap
    low = next((t for t in points if total(t) >= radius), points[-1])
    high = points[max(points.index(low) - 1, 0)]
    rise = total(low) - total(high)
    t = high + (low - high) * (radius - total(high)) / rise if rise else low
    return [min(max(x - t, 0), cap) for x in a]


def exact_cone(a, k, bias):
    """0 <= z_j <= s / k: every split of the sorted entries into those above u, between t and u, below t, until one is right."""
    b = sorted(a, reverse=True)
    if sum(b[:k]) <= 0:
        return [Fraction(0)] * len(a)
    for p in range(k + 1):
        for q in range(len(b) - p + 1):
            above, between = sum(b[:p]), sum(b[p : p + q])
            if p == k and q == 0:  # all at the cap: any u down to where t meets the next entry will do
                u = b[k - 1]
                t = u - above / (k * (1 + bias * k))
                if len(b) == k or t >= b[k]:
                    return [min(max(x - t, 0), u - t) for x in a]
                continue
            # t = (bias k u - (above - p u) / k) / (1 + bias k)  and  between - q t = (k - p) (u - t)
            at, rate = -above / (k * (1 + bias * k)), (bias * k + Fraction(p, k)) / (1 + bias * k)
            slope = (k - p) + (q + p - k) * rate
            u = (between - (q + p - k) * at) / slope
            t = at + rate * u
            inside = all(x >= u for x in b[:p]) and all(t <= x <= u for x in b[p : p + q]) and all(x <= t for x in b[p + q :])
            if inside and u >= t:
                return [min(max(x - t, 0), u - t) for x in a]
    raise AssertionError("no split is right")


def exact_box(a, cap, radius, bias):
    """0 <= z_j <= cap, s <= radius: the sum at t = bias s falls in s, and is s where it is below the radius."""

    def z(s):
        return [min(max(x - bias * s, 0), cap) for x in a]

    if sum(z(radius)) >= radius:
        return exact_knapsack(a, cap, radius)
    if bias == 0:
        return z(0)
    bends = {x / bias for x in a} | {(x - cap) / bias for x in a}
    points = sorted({Fraction(0), radius} | {s for s in bends if 0 <= s <= radius})
    right = next(s for s in points if sum(z(s)) <= s)
    if right == 0:
        return z(0)
    left = points[points.index(right) - 1]
    above, below = sum(z(left)) - left, right - sum(z(right))
    return z(left + (right - left) * above / (above + below))


def exactly(kind: str, a, k: int, radius: float, bias: float) -> np.ndarray:
    """The projection in fractions, rounded once."""
    a, radius, bias = [Fraction(float(x)) for x in a], Fraction(radius), Fraction(bias)
    if kind in ("simplex", "capped"):
        z = exact_knapsack(a, radius if kind == "simplex" else radius / k, radius)
    elif kind == "box":
        z = exact_box(a, radius / k, radius, bias)
    else:
        z = exact_cone(a, k, bias)
        if kind == "topk" and sum(z) > radius:
            z = exact_knapsack(a, radius / k, radius)
    return np.array([float(x) for x in z])


def projected(kind: str, a, k: int, radius: float, bias: float):
    if kind == "simplex":
        return projections.simplex(a, radius)
    if kind == "capped":
        return projections.capped_simplex(a, radius / k, radius)
    if kind == "cone":
        return projections.topk_cone(a, k, bias)
    return (projections.topk_simplex if kind == "topk" else projections.topk_box)(a, k, radius, bias)


def shape(kind: str, k: int, radius: float, bias: float):
    if kind in ("simplex", "capped"):
        return Knapsack(radius if kind == "simplex" else radius / k, radius)
    return Cone(k, bias) if kind == "cone" else (TopK if kind == "topk" else Box)(k, radius, bias)


@pytest.mark.parametrize("kind", KINDS)
def test_projections_of_hard_vectors(kind):
    """To rounding of the largest entry; that onto the simplex to rounding of its radius. The steps stay few."""
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(150):
        d = int(rng.integers(1, 11))
        a, k, bias = hard_vector(rng, d), int(rng.integers(1, d + 1)), float(rng.choice([0.0, 1e-3, 1.0, 50.0]))
        radius = float(rng.choice([1e-300, 1e-6, 1.0, 30.0, 1e300, max(float(np.abs(a).max()), 1e-300)]))
        dtype = np.float32 if rng.random() < 0.25 and np.abs(a).max() < 1e30 and 1e-30 < radius < 1e30 else np.float64
        a = a.astype(dtype)
        z, exact = projected(kind, a, k, radius, bias), exactly(kind, a, k, radius, bias)
        size = radius if kind == "simplex" else max(float(np.abs(a).max()), radius if kind != "cone" else 0.0)
        rounding = 16 * EPS * d * size + (float(np.finfo(np.float32).eps) * exact.max() if dtype == np.float32 else 0.0)
        assert np.abs(z - exact).max() <= max(rounding, 5e-323), (a, k, radius, bias, z, exact)
        assert find(shape(kind, k, radius, bias), a.astype(np.float64), d, UNKNOWN)[3] <= 3 * ROUNDS


