"""The interior point for classes and many columns: pairs of classes that count, conjugate gradients for the rest."""

import numpy as np
import pytest
import scipy.sparse as sp

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.problems.linear import BlockProblem
from maxmargin.solvers.base import NOWHERE, Setting, Start
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.newton import Newton, work
from maxmargin.solvers.second_order import softened, wide_rows
from maxmargin.solvers.second_order.interior_rows import RowInterior
from maxmargin.solvers.second_order.single_rows import SingleRows
from maxmargin.solvers.second_order.softened import WideFirst
from maxmargin.solvers.second_order.systems import RowColumns
from maxmargin.solvers.second_order.tuning import FIRM, SPLIT, WORKING
from maxmargin.solvers.second_order.wide_rows import PairColumns, WideInterior, heaviest, on_path

RNG = np.random.default_rng(4)
X = np.maximum(RNG.normal(size=(150, 6)) + RNG.normal(size=(150, 1)), 0.0) * 200.0
Y = (X @ RNG.normal(size=(6, 4)) + 100.0 * RNG.normal(size=(150, 4))).argmax(axis=1)
COST = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))


@pytest.fixture
def wide(monkeypatch):
    """A small problem counts as one of many columns, its rows as small, and few of its pairs are kept."""
    monkeypatch.setattr(softened, "LARGE_ROWS", np.inf)
    monkeypatch.setattr(softened, "MANY_PAIRS", 0)
    monkeypatch.setattr(wide_rows, "FEW_PAIRS", 0)
    monkeypatch.setattr(wide_rows, "KEPT", 2)


def problem(C: float = 1.0) -> BlockProblem:
    return BlockProblem(table_of(X, 1.0), Y, np.full(len(Y), C), 1.0 - np.eye(4))


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("C", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("large", [0.0, np.inf])
@pytest.mark.parametrize("options", [{}, {"cost": COST}, {"keep_duals": True}])
def test_the_optimum(C, large, options, monkeypatch):
    monkeypatch.setattr(softened, "LARGE_ROWS", large)
    weight = RNG.uniform(0.1, 3.0, len(Y))
    fine = mm.SVMClassifier(C=C, solver="newton", tol=1e-8, cost=options.get("cost")).fit(X, Y, sample_weight=weight)
    model = mm.SVMClassifier(C=C, solver="newton", tol=1e-3, max_iter=100, **options).fit(X, Y, sample_weight=weight)
    found, best = model.certificate_, fine.certificate_
    assert found.converged and best.converged
    assert found.dual <= best.primal * (1 + 1e-12) and best.dual <= found.primal * (1 + 1e-12)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("steps", [0, 1, 12])
def test_the_interior_point_alone_and_from_a_snapshot(steps, monkeypatch):
    monkeypatch.setattr(softened, "MOST_STEPS", 1)
    runs = [Newton().begin(problem(), NOWHERE, Setting(tol=1e-4)) for _ in range(2)]
    for _ in range(steps):
        runs[0].advance(lambda: False)
    assert runs[0].first == (steps == 0)
    runs[1].resume(runs[0].snapshot())
    for run in runs:
        for _ in range(50):
            run.advance(lambda: False)
        run.synchronise()
    primal = min(problem().primal(w) for w in runs[0].candidates())
    assert runs[0].dual == runs[1].dual and primal - runs[0].dual <= 1e-4 * primal


@pytest.mark.usefixtures("wide")
def test_where_it_serves():
    kinds = [type(Newton().begin(problem(), NOWHERE, Setting(tol=tol))) for tol in (1e-3, 1e-8)]
    assert kinds == [WideFirst, RowInterior]


@pytest.mark.usefixtures("wide")
def test_large_rows_go_to_the_interior_point_at_once(monkeypatch):
    monkeypatch.setattr(softened, "LARGE_ROWS", float(np.mean(problem().curvature)))
    kinds = [type(Newton().begin(problem(C), NOWHERE, Setting(tol=1e-3))) for C in (0.9, 1.1)]
    assert kinds == [WideFirst, WideInterior]


@pytest.mark.parametrize("kept", [0, 1, 1000])
def test_systems_are_solved_whatever_is_kept(kept, monkeypatch):
    """The matrix of all pairs where all are kept, in float32 where X is dense; else only what conjugate gradients begin with."""
    monkeypatch.setattr(wide_rows, "KEPT", kept)
    monkeypatch.setattr(wide_rows, "LEFT_OVER", 1e-12)
    theta, B = RNG.random((len(X), 4)) ** 4, RNG.random((4, 7)) + 0.1
    g, h = RNG.normal(size=(4, 7)), RNG.normal(size=(len(X), 4))
    for data in (X, sp.csr_array(X)):
        table = table_of(data, 1.0)
        pairs, whole = PairColumns(table, Y, 4), RowColumns(table)
        assert pairs.prepare(theta, B) and whole.prepare(theta, B)
        if kept == 1000:
            exact, part = whole.matrix(), 1e-9 if sp.issparse(data) else 1e-6
            sizes = np.sqrt(exact.diagonal())
            assert np.max(np.triu(np.abs(pairs.matrix() - exact)) / sizes / sizes[:, None]) <= part
        for found, wanted in zip(pairs.solve(g, h), whole.solve(g, h), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("empty", [[], [0, 3]])
def test_what_classes_have_in_common_and_columns_of_zeros_are_not_factored(empty, monkeypatch):
    """The same solution from a smaller matrix, where B is that of all classes; right sides have parts of all kinds."""
    monkeypatch.setattr(wide_rows, "KEPT", 1000)
    monkeypatch.setattr(wide_rows, "LEFT_OVER", 1e-12)
    data = X.copy()
    data[:, empty] = 0.0
    theta, B = RNG.random((len(X), 4)) ** 4, np.tile(RNG.random(7) + 0.1, (4, 1))
    g, h = RNG.normal(size=(4, 7)), RNG.normal(size=(len(X), 4))
    for kind in (np.asarray, sp.csr_array):
        table = table_of(kind(data), 1.0)
        pairs, whole = PairColumns(table, Y, 4), RowColumns(table)
        assert pairs.prepare(theta, B) and whole.prepare(theta, B)
        assert pairs.factor.factor.shape == (3 * (7 - len(empty)),) * 2
        H = whole.matrix() + np.diag(B.ravel())
        H = np.triu(H) + np.triu(H, 1).T
        exact = np.linalg.solve(H, g.ravel())
        np.testing.assert_allclose(pairs.factor.solve(g.ravel()), exact, rtol=1e-3, atol=1e-3 * np.abs(exact).max())
        for found, wanted in zip(pairs.solve(g, h), whole.solve(g, h), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


def test_no_row_weighs_anything():
    g, pairs = RNG.normal(size=(4, 7)), PairColumns(table_of(X, 1.0), Y, 4)
    assert pairs.prepare(np.zeros((len(X), 4)), np.full((4, 7), 2.0))
    np.testing.assert_allclose(pairs.factor.solve(g.ravel()), g.ravel() / 2.0, rtol=1e-12)


def test_products_are_exact_where_float32_makes_them_indefinite(monkeypatch):
    """A column that others add up to, and rows that weigh far more than B."""
    monkeypatch.setattr(wide_rows, "KEPT", 1000)
    data = np.column_stack([0.3 * X[:, 0] + 0.7 * X[:, 1] + 0.1 * X[:, 2], X])
    theta, B, g = np.full((len(X), 4), 1e3), np.ones((4, 8)), RNG.normal(size=(4, 8))
    pairs, whole = PairColumns(table_of(data, 1.0), Y, 4), RowColumns(table_of(data, 1.0))
    assert pairs.single is not None
    assert pairs.prepare(theta, B) and whole.prepare(theta, B)
    assert pairs.single is None and pairs.factor.ridge == 0.0
    found, wanted = (system.solve(g, None)[0] for system in (pairs, whole))
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("C", [1e-2, 1.0])
def test_a_quadratic_term_that_is_larger_at_first(C, monkeypatch):
    """Estimates are those of the problem all along; it ends at what it is; and a snapshot goes on as it was."""
    monkeypatch.setattr(wide_rows, "FIRM", FIRM._replace(size=wide_rows.mean_size(problem(C)) / 50.0, power=0.5))
    best = mm.SVMClassifier(C=C, solver="newton", tol=1e-9).fit(X, Y).certificate_
    run, other = (WideInterior(problem(C), NOWHERE, Setting(tol=1e-5)) for _ in range(2))
    assert run.firm == pytest.approx(50.0)
    times = [run.firm]
    for k in range(60):
        run.advance(lambda: False)
        times.append(run.firm)
        run.see()
        exact = problem(C).primal(run.shape.packed(run.W)) - run.shape.evaluated(run.shape.repaired(run.stored()), None).dual
        gap = run.left_by_losses() + 0.5 * run.shape.square(run.slack + (run.firm - 1.0) * run.shape.pulled(run.W - run.mean))
        assert exact == pytest.approx(gap, rel=1e-6, abs=1e-8 * best.primal)
        if k == 2:
            assert 1.0 < run.firm < 50.0
            other.resume(run.snapshot())
        elif k > 2:
            other.advance(lambda: False)
    assert times == sorted(times, reverse=True) and times[-1] == 1.0
    assert run.synchronise() == other.synchronise()
    primal = min(problem(C).primal(w) for w in run.candidates())
    assert best.dual * (1 - 1e-9) <= primal <= best.primal * (1 + 1e-4)
    assert best.dual * (1 - 1e-4) <= run.dual <= best.primal * (1 + 1e-9)


@pytest.mark.usefixtures("wide")
def test_alternating_directions_begin_with_what_another_run_has_left(monkeypatch):
    """No rounds with all examples then; where that leads nowhere it begins without."""
    starts: list[bool] = []
    alternated = WideInterior.alternated

    def counted(run, some, tuning, start):
        starts.append(start is None)
        return alternated(run, some, tuning, start)

    monkeypatch.setattr(WideInterior, "alternated", counted)
    before = DualCoordinate().begin(problem(0.01), NOWHERE, Setting(tol=1e-3))
    for _ in range(5):
        before.advance(lambda: False)
    before.synchronise()
    best = mm.SVMClassifier(C=0.01, solver="newton", tol=1e-9).fit(X, Y).certificate_
    for afresh in (False, True):
        starts.clear()
        run = WideInterior(problem(0.01), Start(before.left(), before.candidates()[0]), Setting(tol=1e-4))
        assert starts == [False] and run.took_up
        if afresh:
            assert run.begin_afresh() and starts == [False, True, False] and not run.took_up
        for _ in range(40):
            run.advance(lambda: False)
        primal = problem(0.01).primal(run.shape.packed(run.W))
        assert best.dual * (1 - 1e-9) <= primal <= best.primal * (1 + 1e-3)
        assert best.dual * (1 - 1e-3) <= run.synchronise() <= best.primal * (1 + 1e-9)


def test_what_is_kept():
    weight = RNG.random((20, 3))
    for count in (0, 1, 7, 59):
        assert np.count_nonzero(weight > heaviest(weight, count)) == count
    assert np.count_nonzero(weight > heaviest(weight, 60)) == 60


@pytest.mark.parametrize("mu", [1e-12, 1.0, 1e9])
def test_a_point_of_the_path(mu):
    worth, cap = RNG.normal(size=(50, 5)) * 10.0 ** RNG.uniform(-3, 3, (50, 1)), 10.0 ** RNG.uniform(-4, 4, (50, 1))
    s = on_path(worth, cap, mu)
    np.testing.assert_allclose(np.sum(mu / s, axis=1), cap[:, 0], rtol=1e-9)
    assert np.all(s > 0.0) and np.ptp(s + worth, axis=1).max() <= 1e-9 * np.abs(s + worth).max()


def test_many_columns_cost_less(monkeypatch):
    before = work(problem())
    monkeypatch.setattr(wide_rows, "FEW_PAIRS", 0)
    assert 0.0 < work(problem()) != before


def test_products_in_float32_bear_columns_and_weights_of_any_size():
    sizes = 10.0 ** np.linspace(-30.0, 30.0, 5)
    rows, weight = RNG.normal(size=(40, 5)) * sizes, 10.0 ** RNG.uniform(-60.0, 60.0, 40)
    rows[:, 2] = 0.0
    some = np.array([0, 3, 4, 17, 39])
    found = SingleRows(rows, 2.0).weighted_products(some, weight[some])
    beside = np.column_stack([rows, np.full(40, 2.0)])[some]
    exact = beside.T @ (weight[some, None] * beside)
    scale = np.sqrt(np.maximum(exact.diagonal(), 1e-300))
    np.testing.assert_allclose(found / scale / scale[:, None], exact / scale / scale[:, None], atol=1e-5)
    assert found.dtype == np.float64 and not found[2].any()


def test_pairs_that_are_left_out_are_taken_up(monkeypatch):
    """From almost no pairs, whose optimum is another one, to that of all; what is left of the gap counts those left out."""
    monkeypatch.setattr(wide_rows, "WORKING", WORKING._replace(near=0.01, grown=0.05))
    monkeypatch.setattr(wide_rows, "SPLIT_FIRST", SPLIT._replace(rounds=1, weight=1.0))
    monkeypatch.setattr(wide_rows, "SPLIT", SPLIT._replace(rounds=30, weight=1.0))
    best = mm.SVMClassifier(C=0.01, solver="newton", tol=1e-9).fit(X, Y).certificate_
    run = WideInterior(problem(0.01), NOWHERE, Setting(tol=1e-6))
    counts = [np.count_nonzero(run.chosen)]
    for _ in range(60):
        run.advance(lambda: False)
        counts.append(np.count_nonzero(run.chosen))
        run.see()
        exact = problem(0.01).primal(run.shape.packed(run.W)) - run.shape.evaluated(run.shape.repaired(run.stored()), None).dual
        left = run.left_by_losses() + 0.5 * run.shape.square(run.slack)
        assert exact == pytest.approx(left, rel=1e-6, abs=1e-8 * best.primal)
    run.synchronise()
    primal = min(problem(0.01).primal(w) for w in run.candidates())
    assert counts == sorted(counts) and counts[0] < counts[-1] < run.chosen.size
    assert best.dual * (1 - 1e-9) <= primal <= best.primal * (1 + 1e-5)
    assert best.dual * (1 - 1e-5) <= run.dual <= best.primal * (1 + 1e-9)


def test_no_step_goes_beyond_pairs_that_are_left_out(monkeypatch):
    monkeypatch.setattr(wide_rows, "WORKING", WORKING._replace(near=0.3))
    run = WideInterior(problem(0.01), NOWHERE, Setting(tol=1e-6))
    for _ in range(10):
        run.advance(lambda: False)
        run.see()
        at_work = run.chosen.any(axis=1)
        chosen, others = (np.where(some, run.worths, -np.inf).max(axis=1)[at_work] for some in (run.chosen, ~run.chosen))
        assert np.all(others <= chosen + 1e-9) and at_work.any()


def test_duals_go_on_where_weights_have_to_stop(monkeypatch):
    """Steps of weights that pairs left out make short: what the duals leave of the gradient falls by more than that."""
    monkeypatch.setattr(wide_rows, "WORKING", WORKING._replace(near=0.3, grown=0.1))
    run, found, gone, cut = WideInterior(problem(0.01), NOWHERE, Setting(tol=1e-6)), [], [], 0
    lengthened, go = run.lengthened, run.go
    monkeypatch.setattr(run, "lengthened", lambda *given: found.append(lengthened(*given)) or found[-1])
    monkeypatch.setattr(run, "go", lambda *given: gone.append((run.slack, *given)) or go(*given))
    for _ in range(6):
        run.advance(lambda: False)
        run.see()
        (before, dW, ahead, _, far), (whole, wanted, _, furthest) = gone[-1], found[-1]
        part = far * np.linalg.norm(dW) / np.linalg.norm(whole)
        assert (ahead is wanted and far == furthest) or far == pytest.approx(part)
        if part < 0.99 * far:
            cut += 1
            assert run.shape.square(run.slack) < (1.0 - part) ** 2 * run.shape.square(before)
    assert cut and len(gone) == 6
