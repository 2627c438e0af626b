"""Losses by their formulas, and steps of all sizes against other ways to them. `tests/contracts/test_check_loss.py` holds the
functions of each loss against each other."""

import numpy as np
import pytest
from helpers import convex as cp
from helpers.loss_rows import extrapolate_rows, masses, random_rows, repair_rows, visit_rows
from helpers.reference import Multiclass, quadratic
from scipy.optimize import minimize_scalar

from maxmargin.jit import kernel, vectors
from maxmargin.losses.base import clip, reward, row_step, step, value
from maxmargin.losses.crammer_singer import crammer_singer
from maxmargin.losses.epsilon_insensitive import EpsilonInsensitive
from maxmargin.losses.hinge import Hinge
from maxmargin.losses.logistic import Logistic
from maxmargin.losses.nonnegative import NonNegative, NonNegativeRow
from maxmargin.losses.squared_epsilon_insensitive import SquaredEpsilonInsensitive
from maxmargin.losses.squared_error import BinarySquaredErrorLoss, SquaredError
from maxmargin.losses.squared_hinge import SquaredHinge

# ---- one score -----------------------------------------------------------------------------------------------------------------

SCALAR = ["hinge", "squared_hinge", "epsilon_insensitive", "squared_epsilon_insensitive", "logistic", "squared_error"]
N = 60


def scalar(name: str, rng: np.random.Generator):
    """A loss over N random examples, and the range [low, high] of each dual (wide where there is no bound)."""
    cap, target = 10.0 ** rng.uniform(-2, 2, N), rng.normal(size=N)
    sign, margin = rng.choice([-1.0, 1.0], N), rng.choice([0.0, 0.5, 1.0, 2.0], N)
    cap[0] = 0.0
    bound = np.where(cap > 0.0, 1e3, 0.0) if name.startswith("squared") else cap
    if name == "squared_error":
        return SquaredError(target, cap), -bound, bound
    if name == "logistic":
        return Logistic(sign, cap), np.where(sign > 0, 0.0, -cap), np.where(sign > 0, cap, 0.0)
    if "hinge" in name:
        low, high = np.where(sign > 0, 0.0, -bound), np.where(sign > 0, bound, 0.0)
        return (SquaredHinge if name.startswith("squared") else Hinge)(sign, margin, cap), low, high
    cls = SquaredEpsilonInsensitive if name.startswith("squared") else EpsilonInsensitive
    return cls(target, float(rng.choice([0.0, 0.3])), cap), -bound, bound


def test_logistic_and_squared_error_by_their_formulas():
    cap, z, a = 3.0, np.linspace(-3.0, 3.0, 25), np.linspace(0.1, 2.9, 7)
    logistic, square = Logistic(np.array([-1.0]), np.array([cap])), SquaredError(np.array([0.4]), np.array([cap]))
    assert np.allclose([value(logistic, 0, score) for score in z], cap * np.log(1.0 + np.exp(z)), rtol=1e-14)
    entropy = -a * np.log(a / cap) - (cap - a) * np.log(1.0 - a / cap)
    assert np.allclose([reward(logistic, 0, -dual) for dual in a], entropy, rtol=1e-13)
    assert reward(logistic, 0, 0.0) == reward(logistic, 0, -cap) == 0.0
    assert value(logistic, 0, 1e4) == pytest.approx(cap * 1e4) and 0.0 < value(logistic, 0, -700.0) < 1e-300
    assert np.allclose([value(square, 0, score) for score in z], cap * (0.4 - z) ** 2, rtol=1e-14)
    assert np.allclose([reward(square, 0, dual) for dual in z], 0.4 * z - z**2 / (4.0 * cap), rtol=1e-14)
    two = BinarySquaredErrorLoss().of(np.array([1.0, -1.0]), np.array([0.5, 2.0]), np.array([cap, cap]))
    assert value(two, 0, 0.2) == pytest.approx(cap * (0.5 - 0.2) ** 2) and value(two, 1, 0.2) == pytest.approx(cap * 2.2**2)


@pytest.mark.parametrize("rho", [0.0, 1e-12, 1e-3, 1.0, 30.0, 1e4, 1e10])
def test_logistic_step_solves_its_equation(rho):
    """log p - log(1 - p) + rho p = c for scores and old duals of all sizes: the score after the step answers the dual."""
    rng = np.random.default_rng(7)
    for cap in (1e-3, 1.0, 1e5):
        for _ in range(40):
            z, old, sign = rng.normal() * 10.0 ** rng.uniform(-2, 2), rng.uniform(0.0, 1.0) ** 4, rng.choice([-1.0, 1.0])
            loss, q = Logistic(np.array([sign]), np.array([cap])), rho / cap
            b = sign * cap * (old if rng.integers(2) else 1.0 - old)
            found = step(loss, 0, z, b, q)
            p = sign * found / cap
            assert 0.0 <= p <= 1.0
            m = sign * (z + q * (found - b))  # of the score after the step, a difference of numbers of this size
            size = abs(z) + rho + 1.0
            assert p == pytest.approx(1.0 / (1.0 + np.exp(m)), rel=1e-14 * size, abs=1e-15)


@pytest.mark.parametrize("name", SCALAR[:4])
def test_value_and_reward_by_their_formulas(name):
    """Against the losses written out here for one example of weight cap = 3."""
    cap, z = 3.0, np.linspace(-3.0, 3.0, 25)
    if "hinge" in name:
        loss = (SquaredHinge if name.startswith("squared") else Hinge)(np.array([-1.0]), np.array([0.8]), np.array([cap]))
        excess, b, linear = np.maximum(0.8 + z, 0.0), -np.linspace(0.0, cap, 7), lambda b: 0.8 * abs(b)
    else:
        cls = SquaredEpsilonInsensitive if name.startswith("squared") else EpsilonInsensitive
        loss = cls(np.array([0.4]), 0.25, np.array([cap]))
        excess, b, linear = np.maximum(abs(0.4 - z) - 0.25, 0.0), np.linspace(-cap, cap, 7), lambda b: 0.4 * b - 0.25 * abs(b)
    power, quarter = (2, 1.0 / (4.0 * cap)) if name.startswith("squared") else (1, 0.0)
    assert np.allclose([value(loss, 0, score) for score in z], cap * excess**power, rtol=1e-14)
    assert np.allclose([reward(loss, 0, dual) for dual in b], [linear(dual) - quarter * dual**2 for dual in b], rtol=1e-14)


@pytest.mark.parametrize("name", SCALAR)
def test_step_is_the_best_dual(name):
    """The argmax over b' of reward(b') - (b' - b) z - q/2 (b' - b)^2: against a fine grid and a numeric search."""
    rng = np.random.default_rng(1)
    loss, low, high = scalar(name, rng)
    for i in range(N):
        z, q, b = 3.0 * rng.normal(), 10.0 ** rng.uniform(-2, 2), rng.uniform(low[i], high[i])

        def dual(new, i=i, z=z, q=q, b=b):
            return reward(loss, i, new) - (new - b) * z - 0.5 * q * (new - b) ** 2

        found = step(loss, i, z, b, q)
        assert low[i] <= found <= high[i]
        size = abs(dual(found)) + abs(dual(b)) + 1e-9
        assert all(dual(other) <= dual(found) + 1e-12 * size for other in np.linspace(low[i], high[i], 400))
        assert all(dual(np.clip(found + d, low[i], high[i])) <= dual(found) + 1e-12 * size for d in (-1e-4, -1e-7, 1e-7, 1e-4))
        if high[i] > low[i]:
            search = minimize_scalar(lambda new: -dual(new), bounds=(low[i], high[i]), method="bounded", options={"xatol": 1e-10})
            assert abs(search.x - found) <= 1e-4 * max(abs(found), 1.0) or dual(found) > dual(search.x)
        moved = z + q * (found - b)  # the score after the step: there b answers z, so the example's share of the gap is zero
        share = value(loss, i, moved) - reward(loss, i, found) + found * moved
        rounding = 1e-15 * (abs(z) + q * abs(found) + q * abs(b) + 1.0)  # of that score, and of what the loss makes of it
        assert abs(share) <= 10.0 * rounding * max(loss.cap[i], abs(found))


def test_wall():
    """The dual of a half-space <w, x> >= 0: no loss, no reward, and steps that bring the score to zero or the dual."""
    wall = NonNegative(1)
    assert step(wall, 0, -3.0, 0.5, 2.0) == 2.0 and step(wall, 0, 3.0, 0.5, 2.0) == 0.0 and step(wall, 0, 0.5, 0.5, 2.0) == 0.25
    assert value(wall, 0, -1.0) == 0.0 and reward(wall, 0, 3.0) == 0.0
    assert clip(wall, 0, -1.0) == 0.0 and clip(wall, 0, 2.0) == 2.0


# ---- a row of scores -----------------------------------------------------------------------------------------------------------


@kernel
def visit_walls(side_duals, curvature, given, duals, scratch, shares, changes):
    scores, change = scratch
    for i in range(given.shape[0]):
        for j in range(given.shape[1]):
            scores.flat[0, j] = given[i, j]
        shares[i] = row_step(side_duals, i, curvature[i], scores, duals, change, 0.0)[0]
        for j in range(given.shape[1]):
            changes[i, j] = change.flat[0, j]


def best_block(h: np.ndarray, q: float, cap: float, old: np.ndarray) -> np.ndarray:
    """The best masses a_j >= 0, sum a <= cap, of one example by sorting: those that maximise `block_dual`."""
    if q == 0.0:
        return np.where(np.arange(h.size) == np.argmax(h), cap if h.max() > 0.0 else 0.0, 0.0)
    c = h / q + old + old.sum()
    falling = np.sort(c)[::-1]
    sums, counts = np.cumsum(falling), np.arange(1, h.size + 1)
    free = sums / (counts + 1)
    t = free[max(np.flatnonzero(falling > free), default=0)]
    if t > cap:
        tight = (sums - cap) / counts
        t = tight[max(np.flatnonzero(falling > tight), default=0)]
    return np.maximum(c - max(t, 0.0), 0.0)


def block_dual(h: np.ndarray, q: float, old: np.ndarray, a: np.ndarray) -> float:
    """What a step from `old` to `a` adds to the dual: h.d - q/2 (||d||^2 + (sum d)^2), d = a - old."""
    d = a - old
    return float(h @ d - 0.5 * q * (d @ d + d.sum() ** 2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [2, 3, 4, 5, 8, 9, 16, 17, 33, 40])
def test_row_step_is_the_best_row(K, dtype):
    """Against sorting: the dual value always, the masses too in float64, but for rows so short that rounding decides on them."""
    rng = np.random.default_rng(K)
    label, cost, cap, q, z, old = random_rows(rng, K, dtype)
    n, eps = len(label), float(np.finfo(dtype).eps)
    loss, table = crammer_singer(label, cap, cost, dtype), vectors.table(vectors.pack(old, dtype))
    scratch = vectors.zeros_table(1, K, dtype), vectors.zeros_table(1, K, dtype), -np.inf
    answers, changes = np.empty((n, 4)), np.empty((n, K))
    visit_rows.fresh(loss, q, z.astype(dtype), table, scratch, answers, changes)
    new, before = masses(table.flat[:, :K].astype(float), label), masses(table.flat[:, :K].astype(float) - changes, label)
    assert not np.any(table.flat[:, K:])  # no class is there
    for i in range(n):
        y, others = label[i], np.arange(K) != label[i]
        h, a, start = (cost[y] + z[i] - z[i, y])[others], new[i][others], masses(old, label)[i][others]
        size = np.abs(h).max() + q[i] * start.sum() + np.abs(z[i]).max()
        over = 20.0 * eps * (K * cap[i] + (size / q[i] if q[i] > 0.0 else 0.0))  # masses are differences of numbers of this size
        assert np.all(a >= 0.0) and a.sum() <= cap[i] + over
        assert table.flat[i, y] == pytest.approx(a.sum(), rel=20.0 * K * eps)
        best = best_block(h, q[i], cap[i], start)
        mass = max(a.sum(), best.sum(), start.sum())
        short = q[i] * cap[i] <= 2e4 * eps * max(np.max(h + q[i] * (start + start.sum())), 0.0)
        lost = block_dual(h, q[i], start, best) - block_dual(h, q[i], start, a)
        assert abs(lost) <= 100.0 * eps * size * mass + size * min(over, mass) + (2.0 * q[i] * cap[i] ** 2 if short else 0.0)
        if dtype == np.float64 and not short:
            assert np.allclose(a, best, rtol=0.0, atol=1e-13 * K * (size / q[i] + mass) if q[i] > 0.0 else 0.0)
        worst = max(h.max(), 0.0)
        assert answers[i, 0] == pytest.approx(cap[i] * worst, rel=100 * eps, abs=10 * eps * cap[i] * size)
        assert answers[i, 1] == pytest.approx(cap[i] * worst - h @ start, abs=100.0 * eps * size * (cap[i] + mass) * K)
        assert answers[i, 2] == 1.0
        assert answers[i, 3] == pytest.approx(cost[y][others] @ (a - start), abs=100.0 * eps * mass * K)
        assert np.allclose(before[i][others], start, rtol=0.0, atol=4.0 * eps * mass)


def test_sorting_agrees_with_the_convex_solver():
    """The yardstick of the test above, held against Clarabel."""
    rng = np.random.default_rng(0)
    for K in (2, 3, 7):
        for cap in (0.05, 0.6, 50.0):
            h, q, old = 2.0 * rng.normal(size=K), rng.uniform(0.5, 2.0), rng.dirichlet(np.ones(K)) * cap * rng.choice([0.0, 1.0])
            a = cp.Variable(K, nonneg=True)
            gain = h @ (a - old) - 0.5 * q * (cp.sum_squares(a - old) + cp.square(cp.sum(a) - old.sum()))
            cp.solved(cp.Problem(cp.Maximize(gain), [cp.sum(a) <= cap]))
            assert np.allclose(best_block(h, q, cap, old), a.value, atol=1e-5)


def test_row_step_leaves_calm_rows_alone():
    """A share of the gap up to `calm`: nothing moves, and the share is still reported."""
    rng = np.random.default_rng(5)
    label, cost, cap, q, z, old = random_rows(rng, 5, np.float64, 48)
    loss, table = crammer_singer(label, cap, cost, np.float64), vectors.table(vectors.pack(old, np.float64))
    scratch = vectors.zeros_table(1, 5, np.float64), vectors.zeros_table(1, 5, np.float64), np.inf
    answers, changes = np.empty((48, 4)), np.empty((48, 5))
    visit_rows.fresh(loss, q, z, table, scratch, answers, changes)
    assert np.array_equal(table.flat[:, :5], old) and not np.any(answers[:, 2:])
    assert np.all(answers[:, 1] >= -1e-12 * (1.0 + np.abs(answers[:, 0])))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [3, 17])
def test_row_extrapolate_stays_feasible(K, dtype):
    """Rows that can go the whole way do; the others stop at zero class by class and are scaled down to their cap."""
    rng = np.random.default_rng(K)
    label, cost, cap, _, _, now = random_rows(rng, K, dtype, 200)
    before = now * rng.choice([0.0, 0.5, 1.0, 1.5], (200, 1)) + np.roll(now, 7, axis=0) * (np.roll(label, 7) == label)[:, None]
    duals, old = (vectors.table(vectors.pack(rows, dtype)) for rows in (now, before))
    now, before = (table.flat[:, :K].astype(float) for table in (duals, old))
    answers, lacking, t = np.empty((200, 2)), np.empty((200, K)), 0.9
    loss = crammer_singer(label, cap, cost, dtype)
    extrapolate_rows.fresh(loss, duals, old, t, vectors.zeros_table(1, K, dtype), lacking, answers)
    new, eps, short = duals.flat[:, :K].astype(float), float(np.finfo(dtype).eps), answers[:, 0] == 1.0
    assert np.array_equal(old.flat[:, :K], now)
    assert 10 < short.sum() < 190
    for i in range(200):
        y, target = label[i], now[i] + t * (now[i] - before[i])
        others = np.maximum(-np.delete(target, y), 0.0)
        expected = others * min(1.0, cap[i] / max(others.sum(), 1e-300))
        close = 50.0 * K * eps * (np.abs(now[i]).max() + np.abs(before[i]).max())
        assert np.allclose(-np.delete(new[i], y), expected, rtol=0.0, atol=close)
        assert new[i, y] == pytest.approx(expected.sum(), abs=close) and new[i, y] <= cap[i] + close
        assert np.delete(new[i], y).max() <= 0.0
        assert np.allclose(lacking[i], new[i] - target, rtol=0.0, atol=close)
        assert answers[i, 1] == pytest.approx(-cost[y] @ (new[i] - now[i]), abs=close * max(1.0, cost.max()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [3, 30])
def test_row_repair_is_feasible(K, dtype):
    """Rows out of every bound come back feasible, in float64; feasible rows come back as they are."""
    rng = np.random.default_rng(K)
    label, cost, cap, _, _, good = random_rows(rng, K, dtype)
    n = len(label)
    problem = Multiclass(np.zeros((n, 1)), label, cap, quadratic(K, 1), cost)
    loss = crammer_singer(label, cap, cost, np.float64)
    for duals in (good, good * (1.0 + 1e-6), rng.normal(size=(n, K)) * cap[:, None]):
        table, result, rewards = vectors.table(vectors.pack(duals, dtype)), np.empty((n, K)), np.empty(n)
        repair_rows.fresh(loss, table, vectors.zeros_table(1, K, np.float64), result, rewards)
        assert problem.infeasibility(result) <= 0.0
        assert np.allclose(rewards, -np.sum(cost[label] * result, axis=1), rtol=1e-12, atol=0.0)
        stored = masses(table.flat[:, :K].astype(float), label)
        inside = np.all(stored >= 0.0, axis=1) & (stored.sum(axis=1) <= cap * (1.0 - 1e-12))
        assert np.array_equal(masses(result, label)[inside], stored[inside])
        assert inside.any() or duals is not good


def test_row_of_walls():
    rng = np.random.default_rng(6)
    n, K, dtype = 30, 6, np.float64
    z, old, q = rng.normal(size=(n, K)), rng.uniform(0.0, 1.0, (n, K)) * rng.integers(0, 2, (n, K)), rng.uniform(0.5, 2.0, n)
    table, scratch = vectors.table(vectors.pack(old, dtype)), (vectors.zeros_table(1, K, dtype), vectors.zeros_table(1, K, dtype))
    shares, changes = np.empty(n), np.empty((n, K))
    visit_walls.fresh(NonNegativeRow(n), q, z, table, scratch, shares, changes)
    assert np.allclose(table.flat[:, :K], np.maximum(old - z / q[:, None], 0.0), rtol=1e-14, atol=1e-15)
    assert np.allclose(changes, table.flat[:, :K] - old, rtol=0.0, atol=1e-15)
    assert np.allclose(shares, np.sum(old * z, axis=1), rtol=0.0, atol=1e-13)
