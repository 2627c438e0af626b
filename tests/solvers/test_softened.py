"""Newton's method on the multiclass hinge loss with a softened maximum: few steps to targets that are not fine."""

import numpy as np
import pytest

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.losses import HingeLoss
from maxmargin.problems.linear import BlockProblem, ScalarProblem
from maxmargin.solvers.base import NOWHERE, Setting, Start
from maxmargin.solvers.newton import Newton
from maxmargin.solvers.second_order import softened
from maxmargin.solvers.second_order.interior_rows import RowInterior
from maxmargin.solvers.second_order.softened import SoftFirst

RNG = np.random.default_rng(3)
X = RNG.normal(size=(150, 4)) * [1.0, 100.0, 0.01, 10.0] + [0.0, 300.0, 0.0, 0.0]
Y = RNG.integers(0, 5, len(X))  # most rows lose something
COST = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))


def problem():
    return BlockProblem(table_of(X, 1.0), Y, np.full(len(Y), 10.0), 1.0 - np.eye(5))


def never():
    return False


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    monkeypatch.setattr(softened, "MANY_PAIRS", len(X) * 5)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("options", [{}, {"cost": COST}, {"keep_duals": True}])
def test_few_steps_to_the_optimum(C, options):
    weight = RNG.uniform(0.1, 3.0, len(Y))
    fine = mm.SVMClassifier(C=C, solver="newton", tol=1e-9, cost=options.get("cost")).fit(X, Y, sample_weight=weight)
    model = mm.SVMClassifier(C=C, solver="newton", tol=1e-3, max_iter=40, **options).fit(X, Y, sample_weight=weight)
    found, best = model.certificate_, fine.certificate_
    assert found.converged and fine.certificate_.converged
    assert found.dual <= best.primal * (1 + 1e-12) and best.dual <= found.primal * (1 + 1e-12)


def test_only_where_the_target_is_not_fine_and_pairs_are_many_and_weights_are_free(monkeypatch):
    kinds = [type(Newton().begin(problem(), NOWHERE, Setting(tol=tol))) for tol in (1e-3, 1e-8)]
    assert kinds == [SoftFirst, RowInterior]
    model = mm.SVMClassifier(C=10.0, solver="newton", positive=True, max_iter=60).fit(X, Y)
    assert model.certificate_.converged and np.all(model.coef_ >= 0.0)
    monkeypatch.setattr(softened, "MANY_PAIRS", len(X) * 5 + 1)
    assert type(Newton().begin(problem(), NOWHERE, Setting(tol=1e-3))) is RowInterior


def test_the_interior_point_goes_on(monkeypatch):
    monkeypatch.setattr(softened, "MOST_STEPS", 2)
    model = mm.SVMClassifier(C=10.0, solver="newton", max_iter=60).fit(X, Y)
    assert model.certificate_.converged and model.n_iter_ > 2


@pytest.mark.parametrize("steps", [3, 9])
def test_a_snapshot_goes_on_in_the_same_way(steps, monkeypatch):
    monkeypatch.setattr(softened, "MOST_STEPS", 7)
    runs = [Newton().begin(problem(), NOWHERE, Setting(tol=1e-4)) for _ in range(2)]
    for _ in range(steps):
        runs[0].advance(never)
    assert runs[0].first == (steps < 7)
    runs[1].resume(runs[0].snapshot())
    for run in runs:
        for _ in range(4):
            run.advance(never)
    assert runs[0].synchronise() == runs[1].synchronise()
    np.testing.assert_array_equal(runs[0].left(), runs[1].left())


def test_a_start_that_leads_nowhere_is_given_up_once(monkeypatch):
    """Duals of another run lie at the border, where steps may be short for ever; from the centre they are not."""
    signs = np.where(Y > 2, 1.0, -1.0)
    two = ScalarProblem(table_of(X, 1.0), HingeLoss(), (signs, np.ones(len(Y))), np.ones(len(Y)))
    given = two.clipped(0.5 * signs)
    run, cold = (Newton().begin(two, start, Setting(tol=1e-8)) for start in (Start(given), NOWHERE))
    assert run.took_up and not cold.took_up
    with monkeypatch.context() as short:
        short.setattr(run, "step", never)
        run.advance(never)
        assert not run.stuck and run.afresh
        np.testing.assert_array_equal(run.inside, cold.inside)
        np.testing.assert_array_equal(run.W, cold.W)
        run.advance(never)
        assert run.stuck
    run.stuck = False
    for _ in range(30):
        run.advance(never)
    gap = run.problem.primal(run.candidates()[1]) - run.synchronise()
    assert gap <= 1e-7 * run.lowest
