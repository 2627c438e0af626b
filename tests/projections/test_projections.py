"""Projections: against a convex solver, against sorting, and by their optimality conditions where neither can follow."""

import numpy as np
import pytest
from helpers import convex as cp
from helpers import sorting
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin import projections
from maxmargin.jit import kernel
from maxmargin.projections import find
from maxmargin.projections.newton import UNKNOWN, Box, Cone, Knapsack, Level, TopK, top_sum

KINDS = ["simplex", "capped", "cone", "topk", "box"]


def projected(kind: str, a, k: int, radius: float, bias: float, **out):
    """The library's answer; a capped simplex has the cap radius / k."""
    if kind == "simplex":
        return projections.simplex(a, radius, **out)
    if kind == "capped":
        return projections.capped_simplex(a, radius / k, radius, **out)
    if kind == "cone":
        return projections.topk_cone(a, k, bias, **out)
    return (projections.topk_simplex if kind == "topk" else projections.topk_box)(a, k, radius, bias, **out)


def by_sorting(kind: str, a, k: int, radius: float, bias: float):
    if kind in ("simplex", "capped"):
        return sorting.knapsack(a, radius if kind == "simplex" else radius / k, radius)
    if kind == "cone":
        return sorting.cone(a, k, bias)
    return (sorting.topk if kind == "topk" else sorting.box)(a, k, radius, bias)


def by_convex_solver(kind: str, a, k: int, radius: float, bias: float):
    z = cp.Variable(a.size, nonneg=True)
    s = cp.sum(z)
    bounds = {
        "simplex": [s == radius],
        "capped": [s == radius, z <= radius / k],
        "cone": [z <= s / k],
        "topk": [z <= s / k, s <= radius],
        "box": [z <= radius / k, s <= radius],
    }
    weight = bias if kind in ("cone", "topk", "box") else 0.0
    cp.solved(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(z - a) + 0.5 * weight * cp.square(s)), bounds[kind]))
    return z.value


def objective(a, z, bias: float) -> float:
    return float(0.5 * np.sum((z - a) ** 2) + 0.5 * bias * z.sum() ** 2)


def violation(kind: str, a, z, k: int, radius: float, bias: float, near: float = 1e-12) -> float:
    """The largest violation of the optimality conditions, in units of the entries. z must have an entry inside of its bounds."""
    s = z.sum()
    cap = {"simplex": np.inf, "capped": radius / k, "cone": s / k, "topk": s / k, "box": radius / k}[kind]
    inner = (z > 1e-9 * z.max()) & (z < cap * (1.0 - 1e-9))
    assert inner.any()
    t = np.median((a - z)[inner])
    errors = [np.abs((a - z - t)[inner]).max(), -z.min(), (z - cap).max(), (a - t)[z == 0].max(initial=-np.inf)]
    errors += [(t + cap - a)[z >= cap * (1.0 - 1e-9)].max(initial=-np.inf)]
    if kind in ("simplex", "capped"):
        return max(*errors, abs(s - radius))
    multiplier = t - bias * s  # of s <= radius, and for z <= s / k of what they give back
    if kind in ("cone", "topk"):
        multiplier += np.maximum(a - t - cap, 0.0).sum() / k
    if kind != "cone":
        errors.append(s - radius)
    errors.append(-multiplier if kind != "cone" and s >= radius * (1.0 - near) else abs(multiplier))
    return max(errors)


@pytest.mark.parametrize("kind", KINDS)
def test_convex_solver(kind):
    """Small instances of every shape: the same point as Clarabel's, and not a worse one."""
    rng = np.random.default_rng(KINDS.index(kind))
    for trial in range(60):
        d = int(rng.integers(1, 13))
        k, radius, bias = int(rng.integers(1, d + 1)), float(rng.choice([0.2, 1.0, 5.0])), float(rng.choice([0.0, 0.3, 1.0, 4.0]))
        a = rng.normal(size=d) * rng.choice([0.3, 1.0, 4.0]) + rng.choice([-1.0, 0.0, 2.0])
        if trial % 3 == 0:
            a = np.round(a)  # ties
        z, other = projected(kind, a, k, radius, bias), by_convex_solver(kind, a, k, radius, bias)
        weight = bias if kind in ("cone", "topk", "box") else 0.0
        assert np.allclose(z, other, atol=3e-4 * (1.0 + np.abs(a).max()))
        assert objective(a, z, weight) <= objective(a, other, weight) + 1e-6 * (1.0 + np.square(a).sum())


@st.composite
def instances(draw):
    d = draw(st.integers(1, 60))
    seed, kind = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from(["normal", "ties", "equal", "negative", "spread", "far"]))
    rng = np.random.default_rng(seed)
    a = rng.normal(size=d)
    if kind == "ties":
        a = rng.integers(-3, 4, d).astype(float)
    elif kind == "equal":
        a[:] = rng.normal()
    elif kind == "negative":
        a = -np.abs(a)
    elif kind == "spread":
        a *= 10.0 ** rng.uniform(-8, 8, d)
    elif kind == "far":
        a += 1e6
    a *= draw(st.sampled_from([1e-9, 1.0, 1e9]))
    k = draw(st.sampled_from([1, 2, d // 2 + 1, d]))
    radius = draw(st.sampled_from([1e-6, 1.0, 30.0])) * draw(st.sampled_from([1.0, max(float(np.abs(a).max()), 1e-12)]))
    return a, min(k, d), radius, draw(st.sampled_from([0.0, 1e-3, 1.0, 50.0])), draw(st.sampled_from([np.float32, np.float64]))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=400)
@given(instance=instances())
def test_sorting(kind, instance):
    """Thousands of instances, with ties, of every scale: the same numbers to rounding, in the dtype of the input."""
    a, k, radius, bias, dtype = instance
    given_a = a.astype(dtype)
    z = projected(kind, given_a, k, radius, bias)
    a = given_a.astype(np.float64)
    expected = by_sorting(kind, a, k, radius, bias)
    size = max(np.abs(a).max(), radius)
    assert z.dtype == dtype and np.all(z >= 0.0)
    rounding = float(np.finfo(dtype).eps) * np.abs(expected).max() + 1e-14 * a.size * size * (1.0 + k)
    assert np.allclose(z, expected, rtol=0.0, atol=4.0 * rounding)
    if dtype == np.float64 and kind in ("simplex", "capped"):  # the sum is that of the radius, however far away the entries are
        assert z.sum() == pytest.approx(radius, rel=1e-13 * a.size, abs=1e-15 * a.size * size)


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["U(15,25)", "N(0,1)", "U(-1,1)"])
def test_long_vectors_satisfy_the_optimality_conditions(name):
    """Two million entries, of which a pass keeps few."""
    rng, d = np.random.default_rng(5), 2_000_000
    a = {"U(15,25)": rng.uniform(15.0, 25.0, d), "N(0,1)": rng.normal(size=d), "U(-1,1)": rng.uniform(-1.0, 1.0, d)}[name]
    for kind in KINDS:
        for k in (1, 10):
            assert violation(kind, a, projected(kind, a, k, 3.0, 1.0), k, 3.0, 1.0) <= 1e-12 * max(np.abs(a).max(), 3.0)
    a = a.astype(np.float32)
    z, a = projected("topk", a, 5, 3.0, 1.0).astype(float), a.astype(float)
    assert violation("topk", a, z, 5, 3.0, 1.0, near=1e-6) <= 2e-6 * max(np.abs(a).max(), 3.0)


@pytest.mark.compiled
@pytest.mark.parametrize("order", ["sorted", "falling", "spike", "equal", "dense", "large k", "negative"])
@pytest.mark.parametrize("kind", KINDS)
def test_long_vectors_of_every_order(kind, order):
    """Where a sample misleads, where nearly everything stays and where all is equal: the answer is that of the short way."""
    rng = np.random.default_rng(3)
    d = 100_003  # not a multiple of anything
    a, k, radius, bias = rng.normal(size=d), 3, 2.0, 0.5
    if order in ("sorted", "falling"):
        a = np.sort(a)[:: 1 if order == "sorted" else -1].copy()
    elif order == "spike":  # what counts stands at one place, which a sample will miss
        a[7:13] += 100.0
    elif order == "equal":
        a[:] = 0.25
    elif order == "dense":
        radius, bias = 1e5, 0.0
    elif order == "large k":
        k = d // 3
    elif order == "negative":
        a = -np.abs(a) - 1.0
    z = projected(kind, a, k, radius, bias)
    shape = {
        "simplex": Knapsack(radius, radius), "capped": Knapsack(radius / k, radius), "cone": Cone(k, bias),
        "topk": TopK(k, radius, bias), "box": Box(k, radius, bias),
    }[kind]  # fmt: skip
    whole = Level(*find(shape, a, a.size, UNKNOWN))
    assert np.allclose(z, np.clip(a - whole.shift - whole.t, 0.0, whole.cap), rtol=0.0, atol=1e-11 * max(np.abs(a).max(), radius))
    if (z > 0).any() and order != "equal" and (z.max() - z[z > 0].min() > 1e-6):
        assert violation(kind, a, z, k, radius, bias, near=1e-9) <= 1e-9 * max(np.abs(a).max(), radius)


@kernel
def largest(values, k):
    return top_sum(values, values.size, k)[0]


@pytest.mark.parametrize("kind", [Knapsack(0.3, 1.0), Knapsack(1.0, 1.0), Cone(4, 1.0), TopK(4, 0.7, 1.0), Box(4, 0.7, 1.0)])
def test_any_start_gives_the_same_level(kind):
    """A start may save steps; it never changes the answer."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        a = rng.normal(size=30) * rng.choice([0.1, 1.0, 3.0])
        plain = Level(*find(kind, a, a.size, UNKNOWN))
        z = np.clip(a - plain.shift - plain.t, 0.0, plain.cap)
        for guess in (-10.0, 0.0, 0.5, 10.0, plain.shift + plain.t):
            for tight in (False, True):
                again = Level(*find(kind, a, a.size, Level(guess, 0.1, 0.0, 0, tight)))
                assert np.allclose(np.clip(a - again.shift - again.t, 0.0, again.cap), z, rtol=0.0, atol=1e-13)


def test_newton_steps_are_few():
    """Three to five at the sizes of training, as the paper has it."""
    rng = np.random.default_rng(1)
    for d in (10, 100, 1000):
        steps = [find(Cone(min(5, d // 2), 1.0), rng.normal(size=d), d, UNKNOWN)[3] for _ in range(101)]
        assert 1 <= np.median(steps) <= 6 and max(steps) <= 15


def test_sum_of_the_largest():
    rng = np.random.default_rng(2)
    for trial in range(300):
        d = int(rng.integers(1, 50))
        a = rng.normal(size=d) if trial % 2 else rng.integers(-2, 3, d) * 0.1
        k = int(rng.integers(1, d + 1))
        assert largest(a, k) == pytest.approx(np.sort(a)[::-1][:k].sum(), abs=1e-13 * d)


@pytest.mark.parametrize("d", [50, 100_000])
def test_out_is_filled_and_may_be_the_input(d):
    a = np.random.default_rng(4).normal(size=d)
    z, out = projections.topk_cone(a, 3, 1.0), np.full(d, 7.0)
    assert projections.topk_cone(a, 3, 1.0, out=out) is out and np.array_equal(out, z)
    assert projections.topk_cone(a, 3, 1.0, out=a) is a and np.array_equal(a, z)
    out = np.full(2 * d, 7.0)
    projections.simplex(a, out=out[::2])
    assert np.array_equal(out[::2], projections.simplex(a)) and np.all(out[1::2] == 7.0)


def test_other_input_is_converted():
    expected = projections.simplex(np.array([1.0, 2.0, 3.0]))
    for given_a in ([1, 2, 3], np.array([1, 2, 3]), np.array([1.0, 9.0, 2.0, 9.0, 3.0])[::2], np.array([1, 2, 3], np.float16)):
        result = projections.simplex(given_a)
        assert result.dtype == np.float64 and np.array_equal(result, expected)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: projections.simplex([]), "empty"),
        (lambda: projections.simplex([[1.0]]), r"one-dimensional; got shape \(1, 1\)"),
        (lambda: projections.simplex(["a"]), "real numbers"),
        (lambda: projections.simplex([1j]), "real numbers"),
        (lambda: projections.simplex([1.0, np.nan]), "finite"),
        (lambda: projections.topk_cone(np.r_[np.zeros(100_000), np.inf], 2), "finite"),
        (lambda: projections.topk_cone(np.r_[np.nan, np.zeros(100_000)], 2), "finite"),
        (lambda: projections.simplex([1.0], 0.0), "radius must be a finite number > 0, got 0.0"),
        (lambda: projections.simplex([1.0], np.inf), "radius"),
        (lambda: projections.capped_simplex([1.0, 2.0], 0.4), "2 entries of at most cap=0.4 cannot sum to radius=1"),
        (lambda: projections.capped_simplex([1.0, 2.0], -1.0), "cap must be a finite number > 0"),
        (lambda: projections.topk_cone([1.0, 2.0], 3), "between 1 and the length 2 of a, got 3"),
        (lambda: projections.topk_cone([1.0, 2.0], 0), "got 0"),
        (lambda: projections.topk_cone([1.0, 2.0], 1.0), "k must be an integer, got 1.0"),
        (lambda: projections.topk_simplex([1.0, 2.0], 1, bias=-1.0), "bias must be a finite number >= 0, got -1.0"),
        (lambda: projections.topk_box([1.0, 2.0], 1, radius="1"), "radius"),
        (lambda: projections.simplex([1.0, 2.0], out=np.zeros(3)), r"out must be an array of float64 of shape \(2,\)"),
        (lambda: projections.simplex([1.0, 2.0], out=np.zeros(2, np.float32)), "got float32"),
        (lambda: projections.simplex([1.0, 2.0], out=[0.0, 0.0]), "got list"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()
