"""Alternating directions, where the interior point for many columns begins."""

import numpy as np
import pytest
import scipy.sparse as sp

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.problems.linear import BlockProblem
from maxmargin.solvers.automatic import Automatic
from maxmargin.solvers.base import NOWHERE, Setting
from maxmargin.solvers.second_order import softened, wide_rows
from maxmargin.solvers.second_order.alternating import QuadraticTerm, SplitPoint, Splits, alternated, next_splits
from maxmargin.solvers.second_order.tuning import SPLIT
from maxmargin.solvers.tuning import RELAY

RNG = np.random.default_rng(6)
X = RNG.normal(size=(120, 5)) * np.logspace(-1, 3, 5)
Y = (X / np.logspace(-1, 3, 5) @ RNG.normal(size=(5, 4)) + 0.5 * RNG.normal(size=(120, 4))).argmax(axis=1)
COST = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
WEIGHT = RNG.uniform(0.1, 3.0, 120)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [0, 40])
def test_a_round(rows, dtype):
    """The points of the simplex are those of the public projection."""
    u, c, scores = RNG.normal(size=(3, rows, 6)) * 10.0 ** RNG.uniform(-3, 3, (rows, 1))
    cost, label, cap, r, relax = RNG.random((rows, 6)), RNG.integers(0, 6, rows), RNG.random(rows), 0.3, 1.7
    splits, scores = Splits(u.copy(), c.copy(), np.empty((rows, 6), dtype)), scores.astype(dtype)
    next_splits(scores, cost, label, cap, splits, np.empty(6), r, relax)
    a, own = relax * scores.astype(np.float64) + (1.0 - relax) * u - c / r, np.eye(6)[label]
    q = np.array([mm.projections.simplex(row) for row in r * (cost + a) + own]).reshape(rows, 6)
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype is np.float32 else {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(own - splits.c, q, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(splits.u, a + (own - q) / r, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(splits.pull, cap[:, None] * (r * splits.u + splits.c), **close)


@pytest.mark.parametrize("data", [X, sp.csr_array(X)])
def test_many_rounds_are_the_optimum(data):
    best = mm.SVMClassifier(C=0.1, cost=COST, solver="newton", tol=1e-8).fit(X, Y, sample_weight=WEIGHT).certificate_
    cap, prior = 0.1 * WEIGHT, QuadraticTerm(np.zeros((4, 6)), np.ones((4, 6)))
    W, q = alternated(table_of(data, 1.0), COST[Y], Y, cap, prior, SPLIT._replace(rounds=20_000, weight=0.1))
    full = np.column_stack([X, np.ones(len(X))])
    z = full @ W.T
    primal = 0.5 * np.sum(W**2) + cap @ ((COST[Y] + z).max(axis=1) - z[np.arange(120), Y])
    b = cap[:, None] * (np.eye(4)[Y] - q)
    dual = -np.sum(COST[Y] * b) - 0.5 * np.sum((b.T @ full) ** 2)
    assert np.all(q >= 0.0)
    np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-12)
    assert best.dual * (1 - 1e-9) <= primal <= best.primal * (1 + 1e-4)
    assert best.primal * (1 + 1e-9) >= dual >= best.dual * (1 - 1e-3)


def test_weights_stay_near_their_mean_where_that_is_strict():
    mean = RNG.normal(size=(4, 6))
    W, _ = alternated(table_of(X, 1.0), COST[Y], Y, WEIGHT, QuadraticTerm(mean, np.full((4, 6), 1e12)))
    np.testing.assert_allclose(W, mean, atol=1e-5)


def test_rounds_end_when_time_is_up():
    term, asked = QuadraticTerm(np.zeros((4, 6)), np.ones((4, 6))), []

    def stop():
        asked.append(True)
        return len(asked) > 3

    few = alternated(table_of(X, 1.0), COST[Y], Y, WEIGHT, term, stop=stop)
    for found, wanted in zip(few, alternated(table_of(X, 1.0), COST[Y], Y, WEIGHT, term, SPLIT._replace(rounds=3)), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_rounds_go_on_where_others_have_ended():
    term, table = QuadraticTerm(np.zeros((4, 6)), np.ones((4, 6))), table_of(X, 1.0)
    best = alternated(table, COST[Y], Y, WEIGHT, term, SPLIT._replace(rounds=20_000, weight=0.1))
    few = alternated(table, COST[Y], Y, WEIGHT, term, SPLIT._replace(rounds=20, weight=0.1))
    near = alternated(table, COST[Y], Y, WEIGHT, term, SPLIT._replace(rounds=20, weight=0.1), start=SplitPoint(*best))
    assert np.linalg.norm(near.W - best.W) < 0.1 * np.linalg.norm(few.W - best.W)


@pytest.mark.parametrize(("large", "hard"), [(0.0, True), (np.inf, False)])
def test_coordinates_have_a_trial_on_large_rows_of_many_columns(large, hard, monkeypatch):
    """Newton's method then takes over as soon as it is the cheaper one; elsewhere it must be so by far, if passes are few."""
    monkeypatch.setattr(softened, "LARGE_ROWS", large)
    monkeypatch.setattr(wide_rows, "FEW_PAIRS", 0)
    problem = BlockProblem(table_of(X, 1.0), Y, WEIGHT, COST)
    run = Automatic().begin(problem, NOWHERE, Setting(tol=1e-3))
    assert run.solver_name == "DualCoordinate" and run.prices.hard == hard
    assert run.next_look == (RELAY.early_hard if hard else RELAY.early) * run.prices.newton
    run.passes, run.dual, run.trail = 10, 1.0, [(0.15 * run.prices.newton, 1.0), (0.3 * run.prices.newton, 0.5)]
    assert run.crawls() == hard
