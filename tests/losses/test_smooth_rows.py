"""Losses of rows: the multinomial loss against its equation, and the losses of labels against those of one score."""

import numpy as np
import pytest
from helpers.loss_rows import extrapolate_rows, repair_rows, visit_rows
from scipy.optimize import brentq
from scipy.special import entr, logsumexp, softmax, wrightomega

from maxmargin.data.indicators import class_bits
from maxmargin.jit import kernel, vectors
from maxmargin.losses import BINARY, MULTILABEL
from maxmargin.losses.base import reward, row_bend, row_slope, row_within, slope, step, value
from maxmargin.losses.multilabel_steps import labels
from maxmargin.losses.multinomial import MultinomialLoss, lane_omega

WAYS = [pytest.param("fresh", marks=pytest.mark.compiled), "plain"]


@kernel
def slope_rows(loss, given, scratch, duals, answers):
    scores, row = scratch
    for i in range(given.shape[0]):
        for j in range(given.shape[1]):
            scores.flat[0, j] = given[i, j]
        answers[i, 0], answers[i, 1] = row_slope(loss, i, scores, row)
        for j in range(given.shape[1]):
            duals[i, j] = row.flat[0, j]


@kernel
def omegas(x, out):
    for b in range(x.shape[1]):
        vectors.store(out, 0, b, lane_omega(vectors.load(x, 0, b)))


def stepped(loss, q, z, old, way, calm=-np.inf):
    """The rows of duals after a step on each, all their lanes, and what `visit_rows` says."""
    n, K = z.shape
    table = vectors.table(vectors.pack(old, np.float64))
    scratch = vectors.zeros_table(1, K, np.float64), vectors.zeros_table(1, K, np.float64), calm
    answers, changes = np.empty((n, 4)), np.empty((n, K))
    getattr(visit_rows, way)(loss, q, z, table, scratch, answers, changes)
    return table.flat, answers, changes


# ---- multinomial ---------------------------------------------------------------------------------------------------------------


def multinomial(rng, K, n=60):
    """Rows with caps and curvatures from tiny to huge and zero; old distributions at a corner, near one and inside."""
    label, cap, q = rng.integers(0, K, n), 10.0 ** rng.uniform(-4, 4, n), 10.0 ** rng.uniform(-4, 4, n)
    q[:5], cap[5:8] = 0.0, 0.0
    z = rng.normal(size=(n, K)) * 10.0 ** rng.uniform(-1, 1.5, (n, 1))
    p = rng.dirichlet(np.full(K, 0.5), n)
    p[: n // 3] = np.eye(K)[label[: n // 3]]
    near = rng.uniform(size=(n, 1)) ** 8
    p = (1.0 - near) * p + near * np.eye(K)[label]
    loss = MultinomialLoss().of(label, 1.0 - np.eye(K), cap, np.float64)
    return loss, label, cap, q, z, p, cap[:, None] * (np.eye(K)[label] - p)


def best(rho, u):
    """The distribution with log p + rho p = u - nu, by a bracket."""
    if rho == 0.0:
        return softmax(u)

    def part(nu):
        return wrightomega(u - nu + np.log(rho)).real / rho

    low, high = u.max() - rho - 1.0, logsumexp(u) + 1.0
    found = part(brentq(lambda nu: part(nu).sum() - 1.0, low, high, xtol=1e-300, rtol=1e-15))
    return found / found.sum()


@pytest.mark.parametrize("way", WAYS)
def test_wrights_function(way):
    x = np.concatenate([np.linspace(-650, 50, 901), np.linspace(-3, 3, 301), [1e3, 1e6, 1e12]])
    packed = vectors.pack(x[None], np.float64)
    out = np.zeros_like(packed)
    getattr(omegas, way)(packed, out)
    np.testing.assert_allclose(vectors.unpack(out, len(x))[0], wrightomega(x).real, rtol=1e-13)
    packed[0, 0] = -1e30
    getattr(omegas, way)(packed, out)
    assert np.all((out[0, 0] > 0.0) & (out[0, 0] < 1e-300))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("K", [2, 3, 8, 9, 21])
def test_multinomial_step_is_the_best_row(K, way):
    loss, label, cap, q, z, p, old = multinomial(np.random.default_rng(K), K)
    rows, answers, changes = stepped(loss, q, z, old, way)
    assert not np.any(rows[:, K:])  # no class is there
    for i in range(len(label)):
        y = label[i]
        if cap[i] == 0.0:
            assert not np.any(rows[i]) and np.array_equal(answers[i], [0.0] * 4)
            continue
        new = np.eye(K)[y] - rows[i, :K] / cap[i]
        wanted = best(q[i] * cap[i], z[i] + q[i] * cap[i] * p[i])
        np.testing.assert_allclose(new, wanted, rtol=0.0, atol=1e-11)
        assert np.delete(rows[i, :K], y).max() <= 0.0 and 0.0 <= rows[i, y] <= cap[i]
        assert rows[i, :K].sum() == pytest.approx(0.0, abs=1e-14 * cap[i])
        level, size = logsumexp(z[i]), np.abs(z[i]).max() + 1.0
        assert answers[i, 0] == pytest.approx(cap[i] * (level - z[i, y]), rel=1e-12, abs=1e-14 * cap[i] * size)
        share = cap[i] * (level - z[i] @ p[i] - entr(p[i]).sum())
        assert answers[i, 1] == pytest.approx(share, rel=1e-9, abs=1e-13 * cap[i] * size)
        assert answers[i, 2] == 1.0
        assert answers[i, 3] == pytest.approx(cap[i] * (entr(wanted).sum() - entr(p[i]).sum()), rel=1e-9, abs=1e-10 * cap[i])
        np.testing.assert_allclose(changes[i], rows[i, :K] - old[i], rtol=0.0, atol=1e-14 * cap[i])


def test_multinomial_step_leaves_calm_rows_alone():
    loss, _, _, q, z, _, old = multinomial(np.random.default_rng(0), 5)
    rows, answers, _ = stepped(loss, q, z, old, "plain", calm=np.inf)
    assert np.array_equal(rows[:, :5], old) and not np.any(answers[:, 2:]) and np.all(answers[:, 1] >= -1e-12 * answers[:, 0])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("K", [2, 9])
def test_multinomial_slope_is_softmax(K, way):
    loss, label, cap, _, z, _, _ = multinomial(np.random.default_rng(K), K)
    scratch = vectors.zeros_table(1, K, np.float64), vectors.zeros_table(1, K, np.float64)
    duals, answers = np.empty(z.shape), np.empty((len(z), 2))
    getattr(slope_rows, way)(loss, z, scratch, duals, answers)
    p = softmax(z, axis=1)
    np.testing.assert_allclose(duals, cap[:, None] * (np.eye(K)[label] - p), rtol=1e-11, atol=1e-15 * cap.max())
    rounding = 1e-14 * cap * (1.0 + np.abs(z).max(axis=1))
    assert np.all(np.abs(answers[:, 1] - cap * entr(p).sum(axis=1)) <= rounding)
    assert np.all(np.abs(answers[:, 0] - (answers[:, 1] - np.sum(duals * z, axis=1))) <= rounding)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("K", [2, 9])
def test_multinomial_rows_that_are_sure(K, way):
    """A loss of exp(-20) beside scores of 1e6, whose rounding is more than that: value, slope, reward and share are as exact."""
    rng, n = np.random.default_rng(K), 40
    label, cap, lead = rng.integers(0, K, n), 10.0 ** rng.uniform(-2, 2, n), rng.integers(15, 40, (n, K)) + 0.5
    own = np.arange(n), label
    lead[own] = 0.0
    z = 2.0 ** rng.integers(4, 21, (n, 1)) - lead  # exactly
    loss = MultinomialLoss().of(label, 1.0 - np.eye(K), cap, np.float64)
    others = np.exp(-lead)
    others[own] = 0.0
    level = np.log1p(others.sum(axis=1))
    p = np.exp(-lead - level[:, None])
    wanted = cap * level, cap * np.sum(p * (lead + level[:, None]), axis=1)

    scratch = vectors.zeros_table(1, K, np.float64), vectors.zeros_table(1, K, np.float64)
    duals, answers = np.empty(z.shape), np.empty((n, 2))
    getattr(slope_rows, way)(loss, z, scratch, duals, answers)
    np.testing.assert_allclose(answers.T, wanted, rtol=1e-12)
    table, rewards = vectors.table(vectors.pack(duals, np.float64)), np.empty(n)
    getattr(repair_rows, way)(loss, table, vectors.zeros_table(1, K, np.float64), np.empty(z.shape), rewards)
    np.testing.assert_allclose(rewards, wanted[1], rtol=1e-12)
    _, values, _ = stepped(loss, np.ones(n), z, np.zeros(z.shape), way)
    np.testing.assert_allclose(values[:, 0], wanted[0], rtol=1e-12)
    np.testing.assert_allclose(values[:, 1], wanted[0], rtol=1e-12)  # from a corner all of the loss is the row's share


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("K", [3, 17])
def test_multinomial_rows_are_extrapolated_within_the_simplex(K, way):
    rng = np.random.default_rng(K)
    loss, label, cap, _, _, p, now = multinomial(rng, K, 120)
    before = cap[:, None] * (np.eye(K)[label] - (0.8 * p + 0.2 * rng.dirichlet(np.ones(K), 120)))
    before[::2] = 0.9 * now[::2]  # these have room to go on
    duals, old = (vectors.table(vectors.pack(rows, np.float64)) for rows in (now, before))
    answers, lacking, t = np.empty((120, 2)), np.empty((120, K)), 0.5
    getattr(extrapolate_rows, way)(loss, duals, old, t, vectors.zeros_table(1, K, np.float64), lacking, answers)
    new, short = duals.flat[:, :K], answers[:, 0] == 1.0
    assert 10 < short.sum() < 110 and not np.any(duals.flat[:, K:])
    np.testing.assert_allclose(old.flat[:, :K], now, rtol=0.0, atol=0.0)
    for i in range(120):
        if cap[i] == 0.0:
            continue
        y, target = label[i], now[i] + t * (now[i] - before[i])
        others = np.maximum(-np.delete(target, y), 0.0)
        others *= min(1.0, cap[i] / max(others.sum(), 1e-300))
        np.testing.assert_allclose(-np.delete(new[i], y), others, rtol=0.0, atol=1e-13 * cap[i])
        assert new[i, y] == pytest.approx(others.sum(), abs=1e-13 * cap[i]) and 0.0 <= new[i, y] <= cap[i]
        np.testing.assert_allclose(lacking[i], (new[i] - target) * short[i], rtol=0.0, atol=1e-13 * cap[i])
        after, held = (np.maximum(np.eye(K)[y] - row / cap[i], 0.0) for row in (new[i], now[i]))
        assert answers[i, 1] == pytest.approx(cap[i] * (entr(after).sum() - entr(held).sum()), abs=1e-12 * cap[i])


@pytest.mark.parametrize("way", WAYS)
def test_multinomial_repair(way):
    """Rows out of every bound come back as distributions with their entropy; feasible rows as they are."""
    rng, K = np.random.default_rng(1), 6
    loss, label, cap, _, _, _, good = multinomial(rng, K)
    for duals in (good, good * (1.0 + 1e-6), rng.normal(size=good.shape) * cap[:, None]):
        table, result, rewards = vectors.table(vectors.pack(duals, np.float64)), np.empty(good.shape), np.empty(len(cap))
        getattr(repair_rows, way)(loss, table, vectors.zeros_table(1, K, np.float64), result, rewards)
        found = cap[:, None] * np.eye(K)[label] - result
        assert np.all(found >= 0.0)
        np.testing.assert_allclose(found.sum(axis=1), cap, rtol=1e-14)
        inside = cap > 0.0
        entropies = entr(found[inside] / cap[inside, None]).sum(axis=1)
        np.testing.assert_allclose(rewards[inside], cap[inside] * entropies, rtol=1e-10, atol=1e-13 * cap.max())
        assert not np.any(rewards[~inside])
    table, result = vectors.table(vectors.pack(good, np.float64)), np.empty(good.shape)
    getattr(repair_rows, way)(loss, table, vectors.zeros_table(1, K, np.float64), result, np.empty(len(cap)))
    np.testing.assert_allclose(result, good, rtol=0.0, atol=1e-15 * cap.max())


@kernel
def bend_rows(loss, slopes, along, rows):
    """`along` times the second derivatives, and how near to the slopes it is drawn where it stands for duals."""
    row, found = rows
    for i in range(slopes.shape[0]):
        for within in (0, 1):
            for j in range(slopes.shape[1]):
                row.flat[0, j], found.flat[0, j] = slopes[i, j], along[within, i, j]
            if within:
                row_within(loss, i, row, found)
            else:
                row_bend(loss, i, row, found)
            for j in range(slopes.shape[1]):
                along[within, i, j] = found.flat[0, j]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("K", [3, 9])
def test_multinomial_second_derivatives_and_duals_near_the_slopes(K, way):
    rng = np.random.default_rng(K)
    loss, label, cap, _, _, _, duals = multinomial(rng, K)
    z = rng.normal(size=(60, K))
    p, direction = softmax(z, axis=1), rng.normal(size=(60, K))
    slopes = cap[:, None] * (np.eye(K)[label] - p)
    rows = vectors.zeros_table(1, K, np.float64), vectors.zeros_table(1, K, np.float64)
    along = np.stack([direction, duals + rng.normal(size=duals.shape)])
    wild = np.eye(K)[label] - np.divide(along[1], cap[:, None], out=np.zeros_like(p), where=cap[:, None] > 0.0)
    getattr(bend_rows, way)(loss, slopes, along, rows)
    width = 1e-6
    ahead, behind = softmax(z + width * direction, axis=1), softmax(z - width * direction, axis=1)
    np.testing.assert_allclose(along[0], cap[:, None] * (ahead - behind) / (2 * width), rtol=1e-6, atol=1e-8 * cap.max())
    wanted = np.maximum(wild, 0.5 * p)
    wanted = cap[:, None] * (np.eye(K)[label] - wanted / wanted.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(along[1], wanted, rtol=1e-9, atol=1e-10 * cap.max())
    assert np.all(along[:, cap == 0.0] == 0.0)


# ---- labels --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MULTILABEL)
def test_a_row_of_labels_is_what_its_labels_are(name, way):
    """Values, slopes, steps, shares and rewards, label by label, against the same loss of one score."""
    rng, n, K = np.random.default_rng(3), 40, 11
    code, cap, q = rng.integers(0, K, n), 10.0 ** rng.uniform(-3, 3, n), 10.0 ** rng.uniform(-3, 3, n)
    q[:4], cap[4:7] = 0.0, 0.0
    weight, margin = rng.uniform(0.2, 3.0, (K, 2)), rng.choice([0.5, 1.0, 2.0], (K, 2))
    weight[2, 0] = 0.0
    present = (code[:, None] == np.arange(K)).astype(int)
    sign, caps = 2.0 * present - 1.0, cap[:, None] * weight[np.arange(K), present]
    loss = MULTILABEL[name]().of(labels(*class_bits(code, K), cap, weight, margin, np.ones(K), np.float64))
    one = BINARY[name]().of(sign.ravel(), margin[np.arange(K), present].ravel(), caps.ravel())
    z = rng.normal(size=(n, K)) * 10.0 ** rng.uniform(-1, 1, (n, 1))
    cells = [(i, k, i * K + k) for i in range(n) for k in range(K)]
    old = sign * caps * rng.choice([0.0, 0.3, 1.0], (n, K)) * rng.uniform(size=(n, K))
    rows, answers, _ = stepped(loss, q, z, old, way)
    assert not np.any(rows[:, K:])
    wanted = np.array([step(one, j, z[i, k], old[i, k], q[i]) for i, k, j in cells]).reshape(n, K)
    exact = q > 0.0 if "hinge" in name else np.ones(n, bool)  # a slope of zero without curvature: any dual will do
    np.testing.assert_allclose(rows[exact, :K], wanted[exact], rtol=1e-11, atol=1e-13 * cap.max())
    values = np.array([value(one, j, z[i, k]) for i, k, j in cells]).reshape(n, K)
    held, gained = (np.array([reward(one, j, b[i, k]) for i, k, j in cells]).reshape(n, K) for b in (old, rows[:, :K]))
    size = np.abs(values).sum(axis=1) + np.abs(held).sum(axis=1) + np.abs(old * z).sum(axis=1) + np.abs(gained).sum(axis=1)
    assert np.all(np.abs(answers[:, 0] - values.sum(axis=1)) <= 1e-12 * size)
    assert np.all(np.abs(answers[:, 1] - (values - held + old * z).sum(axis=1)) <= 1e-12 * size)
    assert np.all(np.abs(answers[:, 3] - (gained - held).sum(axis=1)) <= 1e-12 * size)
    scratch = vectors.zeros_table(1, K, np.float64), vectors.zeros_table(1, K, np.float64)
    duals, found = np.empty((n, K)), np.empty((n, 2))
    getattr(slope_rows, way)(loss, z, scratch, duals, found)
    np.testing.assert_allclose(
        duals, np.array([slope(one, j, z[i, k]) for i, k, j in cells]).reshape(n, K), rtol=1e-12, atol=1e-300
    )
    np.testing.assert_allclose(found[:, 0], values.sum(axis=1), rtol=1e-12)
