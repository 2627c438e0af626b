"""Searches for a level where they are hard: ties, entries that differ by one rounding, sizes far apart. All end, exactly."""

import ast
from fractions import Fraction
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from helpers import sorting

import maxmargin as mm
from maxmargin import projections
from maxmargin.jit import PLAIN, kernel, vectors
from maxmargin.losses.base import row_slope
from maxmargin.losses.crammer_singer import crammer_singer, threshold
from maxmargin.losses.topk_alpha import topk_alpha
from maxmargin.losses.topk_steps import ceiling
from maxmargin.projections import find
from maxmargin.projections.newton import ROUNDS, UNKNOWN, Box, Cone, Knapsack, Level, TopK, finite, top_sum

KINDS = ["simplex", "capped", "cone", "topk", "box"]
EPS = float(np.finfo(np.float64).eps)


def ended(function, seconds: float = 300.0):
    """What the function returns; a loop without an end fails the test in place of stopping all of them. (Kernels let go of the
    GIL, so a thread in one can be left behind.)"""
    result: list = []

    def work():
        try:
            result.append((True, function()))
        except BaseException as error:  # raised below
            result.append((False, error))

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    assert result, f"no end after {seconds:g} seconds"
    fine, value = result[0]
    if not fine:
        raise value
    return value


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
    rng, cases = np.random.default_rng(0), []
    for _ in range(1000):
        d = int(rng.integers(1, 40))
        a, k = hard_vector(rng, d), int(rng.integers(1, d + 1))
        cases.append((a.clip(-1e37, 1e37).astype(np.float32) if rng.random() < 0.2 else a, k))
    for (a, k), (found, kth) in zip(cases, ended(lambda: [largest(*case) for case in cases])):
        top = np.sort(a.astype(np.float64))[::-1][:k]
        allowed = Fraction(2 * EPS * k) * Fraction(float(np.abs(top).sum()))
        assert abs(Fraction(found) - sum(map(Fraction, top))) <= allowed, (a, k)
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


def by_halving(kind: str, a, k: int, radius: float, bias: float) -> np.ndarray:
    """Long vectors: the level of each set by halving a bracket, in plain NumPy; the cone by sorting."""
    cap, top = radius / k if kind != "simplex" else radius, a.max()

    def z(t, shift):
        return np.clip((a - shift) - t, 0.0, cap)

    if kind in ("cone", "topk"):
        found = sorting.cone(a, k, bias)
        if kind == "cone" or found.sum() <= radius:
            return found
    tight = kind != "box" or z(bias * radius, 0.0).sum() >= radius
    low, high, shift = (min(a.min() - top, 0.0) - radius, 0.0, top) if tight else (0.0, bias * radius, 0.0)
    for _ in range(1200):
        middle = 0.5 * low + 0.5 * high
        more = z(middle, shift).sum() > radius if tight else bias * z(middle, shift).sum() > middle
        low, high = (middle, high) if more else (low, middle)
        if high - low <= EPS * max(abs(low), 1e-300):
            break
    return z(low, shift)


@pytest.mark.compiled
@pytest.mark.parametrize("kind", KINDS)
def test_projections_of_long_hard_vectors(kind):
    """Where a sample is taken first: ties, near ties, sizes far apart, in float32 and float64."""
    rng, d = np.random.default_rng(10 + KINDS.index(kind)), 8211
    vectors = {
        "ties": rng.integers(-2, 3, d) * 0.1,
        "near ties": nearly(rng, 0.1, d),
        "near ties far away": 1e8 * nearly(rng, 1.0, d),
        "a few near ties on top": np.where(rng.random(d) < 1e-2, nearly(rng, 5.0, d), rng.normal(size=d)),
        "signed zeros": rng.choice([0.0, -0.0], d),
        "sizes far apart": rng.normal(size=d) * 10.0 ** rng.uniform(-30, 20, d),
    }
    for name, given_a in vectors.items():
        for dtype in (np.float64, np.float32):
            a = given_a.astype(dtype)
            for k, radius in ((1, 1.0), (3, 1e-6), (7, 30.0)):
                z = projected(kind, a, k, radius, 0.5)
                expected = by_halving(kind, a.astype(np.float64), k, radius, 0.5)
                size = max(float(np.abs(a).max()), radius)
                rounding = 1e-12 * size + (1e-7 * expected.max() if dtype == np.float32 else 0.0)
                assert np.abs(z - expected).max() <= rounding, (name, dtype, k, radius)


@pytest.mark.parametrize("kind", ["cone", "topk"])
def test_a_sample_that_misleads_is_found_out(kind):
    """One large entry, outside the sample, changes the level of all: what the sample's level left out is looked at again."""
    a = np.random.default_rng(0).normal(size=16_384)
    sampled = np.arange(a.size).reshape(-1, projections.GROUP)[:: projections.PART].ravel()
    place = 20
    assert place not in sampled
    a[place] = 1000.0
    assert np.allclose(projected(kind, a, 3, 50.0, 1.0), by_halving(kind, a, 3, 50.0, 1.0), rtol=0.0, atol=1e-10)


# ---- the searches of losses ------------------------------------------------------------------------------


@kernel
def highest(loss, values):
    return ceiling(loss, values, values.size, 1.0)


def test_ceiling():
    """The largest c at which sum_j min(a_j, c) is not below k c, where entries are near ties too."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        d = int(rng.integers(1, 12))
        k = int(rng.integers(1, d + 1))
        a = np.abs(hard_vector(rng, d))
        loss = topk_alpha(np.zeros(1, np.int64), np.ones(1), d + 1, k, 0.0, np.float64)
        c = ended(lambda loss=loss, a=a: highest(loss, a))
        exact = [Fraction(float(x)) for x in a]

        def room(c, exact=exact, k=k):
            return sum(min(x, c) for x in exact) - k * c

        nearly_c = Fraction(c) * (1 - Fraction(1e-13 * d))
        assert 0.0 <= c <= a.max() and room(nearly_c) >= -Fraction(5e-324) * d
        beyond = Fraction(c) * (1 + Fraction(1e-13 * d)) + Fraction(5e-324)
        assert c == a.max() or room(beyond) <= 0


@kernel
def root(scores, room, t):
    return threshold(scores, room, t)


@kernel
def sloped(loss, scores, duals):
    return row_slope(loss, 0, scores, duals)


def test_broken_scores_end_too():
    """NaN in the scores of the multiclass loss: whatever comes of it, it comes."""
    for broken in ([3], [0, 4], range(5)):
        row = np.arange(5.0)[None]
        row[0, list(broken)] = np.nan
        scores = vectors.table(vectors.pack(row, np.float64, fill=-1e30))
        ended(lambda scores=scores: root(scores, 1.0, 0.5))
        ended(lambda scores=scores: root(scores, np.nan, np.nan))
        loss = crammer_singer(np.zeros(1, np.int64), np.ones(1), 1.0 - np.eye(5), np.float64)
        ended(lambda loss=loss, scores=scores: sloped(loss, scores, vectors.zeros_table(1, 5, np.float64)))


# ---- fits ------------------------------------------------------------------------------------------------

TIED = [[-0.0], [1.0], [0.0], [-0.0], [0.0], [-1.0], [-0.0], [0.0], [1.0]], [0, 1, 2, 3, 2, 1, 0, 0, 3]
CLOSE = [[-0.3], [-2.2], [2.1], [-1.3], [1.4], [0.3], [-0.2], [-0.2]], [0, 1, 2, 3, 4, 5, 6, 0]


@pytest.mark.parametrize(
    ("data", "params"),
    [
        (TIED, {"C": 0.1, "loss": "topk_beta", "tol": 1e-5}),
        (TIED, {"C": 0.1, "loss": "topk_alpha", "tol": 1e-5}),
        (CLOSE, {"C": 10.0, "loss": "topk_alpha", "tol": 1e-7}),
        (CLOSE, {"C": 10.0, "loss": "topk_beta", "tol": 1e-7}),
    ],
)
def test_fits_on_tied_rows_end(data, params):
    """Rows that are equal give scores that differ by one rounding."""
    for seed in range(3):
        model = mm.TopKSVMClassifier(k=3, random_state=seed, **params)
        certificate = ended(lambda model=model: model.fit(*map(np.array, data))).certificate_
        assert certificate.converged
        assert certificate.dual <= certificate.primal + 1e-12 * abs(certificate.primal)


# ---- the source ------------------------------------------------------------------------------------------

COMPILED = {"kernel", "jitable", "jitable_call", "generic", "generic_call", "register"}


def names(node: ast.AST) -> set[str]:
    parts = list(ast.walk(node))
    return {n.id for n in parts if isinstance(n, ast.Name)} | {n.attr for n in parts if isinstance(n, ast.Attribute)}


def compiled_functions():
    """Every function that kernels are made of: its file, and its text."""
    root = Path(mm.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in PLAIN:
            for function in ast.walk(ast.parse(path.read_text())):
                if isinstance(function, ast.FunctionDef) and any(names(mark) & COMPILED for mark in function.decorator_list):
                    yield path.relative_to(root), function


def compiled_loops():
    """Every `while` in one of them: the file and line, and the loop."""
    for path, function in compiled_functions():
        for loop in ast.walk(function):
            if isinstance(loop, ast.While):
                yield f"{path}:{loop.lineno}", loop


def test_no_compiled_loop_waits_for_luck():
    """Nothing can interrupt compiled code. A search has a number of rounds (`for`); a `while` walks: it counts an index on."""
    loops = dict(compiled_loops())
    assert len(loops) > 10  # those that walk
    for place, loop in loops.items():
        if ast.unparse(loop.test) == "staying":  # a thread of a crew waits for orders, and leaves when it is told to
            continue
        assert not isinstance(loop.test, ast.Constant), f"{place}: a loop without a condition"
        counted = [n for n in ast.walk(loop) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)]
        assert counted, f"{place}: nothing is counted on"


def test_no_kernel_asks_numpy_whether_a_number_is_finite():
    """np.isfinite(a + b) is true of NaN in a kernel, where sums may be reordered; `levels.finite` is not."""
    found = [f"{path}: {function.name}" for path, function in compiled_functions() if "isfinite" in names(function)]
    assert not found


@kernel
def known(last):
    return finite(last.shift + last.t + last.cap)


def test_unknown_levels_are_not_finite():
    assert not known(UNKNOWN) and known(Level(1.0, 2.0, 3.0, 0, False)) and not known(Level(1.0, np.inf, 3.0, 0, False))


@pytest.mark.parametrize("kind", [projections.topk_cone, projections.topk_simplex])
def test_what_sums_to_less_than_nothing_is_projected_to_zero(kind):
    """Found by random problems: with as many entries as k and a sum far below their size some mass was left."""
    a = np.array([-1791.25, -92299.5625, 82581.96875, -1791.25, 10063.5, -1791.25, 4999.0])
    assert a.sum() < 0
    assert not kind(a, 7).any()
