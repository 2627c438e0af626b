"""`solver="auto"`: coordinate passes, and Newton's method where they crawl; runs that rounding ends."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.losses.hinge import HingeLoss
from maxmargin.losses.logistic import LogisticLoss
from maxmargin.losses.squared_hinge import SquaredHingeLoss
from maxmargin.problems.linear import ScalarProblem
from maxmargin.result import History
from maxmargin.solvers.automatic import Automatic, Relay
from maxmargin.solvers.base import NOWHERE, Setting, Start, WarmStart
from maxmargin.solvers.loop import Best, Budget, carry_out
from maxmargin.solvers.newton import work
from maxmargin.solvers.pace import never
from maxmargin.solvers.polish.tuning import POLISH
from maxmargin.solvers.second_order.systems import rows_drawn
from maxmargin.solvers.tuning import RELAY

X, Y = load_breast_cancer(return_X_y=True)  # columns of sizes 0.01 to 1,000
SCALED = (X - X.mean(axis=0)) / X.std(axis=0)


def raw_problem():
    return ScalarProblem(table_of(X, 1.0), HingeLoss(), (np.where(Y, 1.0, -1.0), np.ones(len(Y))), np.ones(len(Y)))


@pytest.mark.parametrize("C", [0.01, 100.0])
def test_raw_columns_converge(C):
    model = mm.SVMClassifier(C=C, tol=1e-8, random_state=0).fit(X, Y)
    assert model.certificate_.converged and model.n_iter_ < 300
    assert [name for _, name in model.history_.methods] == ["DualCoordinate", "Newton"]
    begun = [iteration for iteration, _ in model.history_.methods]
    assert begun[0] == 0 < begun[1] <= model.n_iter_


@pytest.mark.parametrize("C", [0.01, 100.0])
def test_differentiable_losses_of_large_rows_begin_with_newton(C):
    """Passes of raw columns would be thousands."""
    model = mm.SVMClassifier(loss="squared_hinge", C=C, tol=1e-8, random_state=0).fit(X, Y)
    assert model.certificate_.converged and model.n_iter_ < 100
    assert model.history_.methods == [(0, "Newton")]


@pytest.mark.parametrize("loss", [SquaredHingeLoss(), LogisticLoss()])
@pytest.mark.parametrize(("cap", "tol", "stage"), [(0.05, 1e-3, 1), (0.002, 1e-2, 0)])
def test_with_few_columns_a_handful_of_passes_is_worth_a_few_steps(loss, cap, tol, stage):
    """8 columns: a step costs as much as a pass, and some ten passes more than all steps."""
    data = np.random.default_rng(0).normal(size=(20_000, 8))
    sign = np.where(data[:, 0] > 0.0, 1.0, -1.0)
    task = ScalarProblem(table_of(data, 0.0), loss, (sign, np.ones(20_000)), np.full(20_000, cap))
    run = Automatic().begin(task, NOWHERE, Setting(tol=tol))
    assert isinstance(run, Relay) and run.stage == stage
    run.close()


def test_the_matrix_of_some_rows_is_what_a_step_is_thought_to_cost():
    data, sign = np.ones((20_000, 40)), np.ones(20_000)
    kinds = SquaredHingeLoss(), HingeLoss()
    smooth, kinked = (work(ScalarProblem(table_of(data, 0.0), loss, (sign, sign), sign)) for loss in kinds)
    left_out = 20_000 - rows_drawn(20_000, 40)
    assert left_out > 0
    assert round(kinked - smooth) == left_out * 40**2


def test_a_state_of_passes_is_taken_up_where_newton_would_begin():
    """What begins depends on the target, and a state says who was at work."""
    task = ScalarProblem(table_of(SCALED, 1.0), SquaredHingeLoss(), (np.where(Y, 1.0, -1.0), np.ones(len(Y))), np.ones(len(Y)))
    coarse, fine = (Automatic().begin(task, NOWHERE, Setting(tol=tol)) for tol in (0.5, 1e-9))
    assert (coarse.stage, fine.stage) == (0, 1)
    coarse.advance(lambda: False)
    fine.resume(coarse.snapshot())
    assert fine.stage == 0
    np.testing.assert_array_equal(fine.left(), coarse.left())


def test_passes_that_do_well_are_left_alone():
    setting = dict(loss="squared_hinge", C=0.01, random_state=0)
    auto = mm.SVMClassifier(**setting).fit(SCALED, Y)
    passes = mm.SVMClassifier(solver="dual_coordinate", **setting).fit(SCALED, Y)
    assert auto.history_.methods == [(0, "DualCoordinate")]
    assert auto.n_iter_ == passes.n_iter_
    np.testing.assert_array_equal(auto.coef_, passes.coef_)


def test_few_passes_are_enough_where_they_crawl_badly():
    """At a large C the rate of the first passes predicts many times the cost of Newton's method."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(3000, 10))
    sign = np.where(data @ rng.normal(size=10) + 3.0 * rng.normal(size=3000) > 0, 1.0, -1.0)
    task = ScalarProblem(table_of(data, 1.0), HingeLoss(), (sign, np.ones(3000)), np.full(3000, 300.0))
    run = Automatic().begin(task, NOWHERE, Setting(tol=1e-6))
    assert isinstance(run, Relay)
    spent = 0.0
    while run.stage == 0:
        run.advance(lambda: False)
        spent = run.trail[-1][0]
        run.accelerate()
    assert RELAY.early * run.prices.newton <= spent < RELAY.patience * run.prices.newton


@pytest.mark.parametrize(("max_iter", "relieved"), [(np.inf, False), (1_000, True), (3_000, False), (505, False)])
def test_passes_that_will_not_do_are_relieved(max_iter, relieved):
    """500 passes have brought the gap from 1 to 0.1 at 0.4 of the cost of Newton's method. The thousand more that 1e-3 takes are
    cheaper than that, where so many are allowed. Where not, that is told neither before half of them are made, nor with too few
    left for Newton's steps."""
    run = Automatic().begin(raw_problem(), NOWHERE, Setting(tol=1e-3, max_iter=max_iter))
    assert isinstance(run, Relay)
    run.passes, run.dual, run.next_look, cost = 500, 1.0, 0.0, 0.4 * run.prices.newton
    run.trail = [(cost * k / 500, 10.0 ** (-k / 500)) for k in range(1, 501)]
    assert run.crawls() == relieved


def test_the_same_model_every_time():
    """What passes cost is counted, not timed."""
    first, second = (mm.SVMClassifier(loss="squared_hinge", random_state=3).fit(X, Y) for _ in range(2))
    assert first.history_.methods == second.history_.methods
    np.testing.assert_array_equal(first.coef_, second.coef_)


@pytest.mark.parametrize("passes", [3, 120])  # before it hands over, and after
def test_a_snapshot_goes_on_in_the_same_way(passes):
    setting, never = Setting(tol=1e-12), lambda: False
    runs = [Automatic().begin(raw_problem(), NOWHERE, setting) for _ in range(2)]
    for run in runs:
        run.run.polish_tuning = POLISH._replace(first=10**9)  # passes that crawl
    for _ in range(passes):
        runs[0].advance(never)
        runs[0].accelerate()
    assert isinstance(runs[0], Relay) and (runs[0].stage > 0) == (passes > 3)
    runs[1].resume(runs[0].snapshot())
    for run in runs:
        for _ in range(120):
            run.advance(never)
            run.accelerate()
    assert runs[0].stage >= 1 and runs[0].synchronise() == runs[1].synchronise()
    np.testing.assert_array_equal(runs[0].left(), runs[1].left())


def test_who_takes_over_has_candidates_of_its_own():
    """That the second one was the worse of the run before says nothing of the point of this one."""
    run = SimpleNamespace(solver_name="DualCoordinate", average=True, passes=1, values=[5.0, 9.0])
    run.synchronise, run.candidates, run.primal = lambda: 1.0, lambda: [0, 1], lambda w, n_jobs: run.values[w]
    best = Best(History())
    best.evaluate(run, Budget(), never, last=True)
    assert (best.primal, best.prefer) == (5.0, 0)
    run.solver_name, run.values = "Newton", [1e5, 2.0]
    best.evaluate(run, Budget(), never)
    assert (best.primal, best.w) == (2.0, 1)


def test_a_candidate_that_is_no_better_gives_others_a_turn():
    """An average that early passes have spoiled stays far: then the weights of the duals are looked at, which are close."""
    run = SimpleNamespace(solver_name="DualCoordinate", average=True, passes=1, values=[3.0, 2.0])
    asked = []

    def primal(w, n_jobs):
        asked.append(w)
        return run.values[w]

    run.synchronise, run.candidates, run.primal = lambda: 1.0, lambda: [0, 1], primal
    best = Best(History())
    best.evaluate(run, Budget(), never)
    assert asked == [1]  # far from the target, and better than nothing
    run.values = [1.5, 2.0]
    best.evaluate(run, Budget(), never)
    assert asked == [1, 1, 0] and (best.primal, best.w, best.prefer) == (1.5, 0, 0)


@pytest.mark.compiled
def test_what_newton_has_found_is_kept_where_rounding_stops_it():
    """Duals of columns of all sizes have weights that are far from the optimum, which the point of Newton's method is not."""
    X, y = load_digits(return_X_y=True)
    X *= 10.0 ** np.random.default_rng(0).uniform(-4.0, 4.0, X.shape[1])
    model = mm.SVMClassifier(C=100.0, tol=1e-8, random_state=0).fit(X, y)
    assert model.certificate_.converged
    assert [name for _, name in model.history_.methods][:2] == ["DualCoordinate", "Newton"]


@pytest.mark.parametrize("solver", ["dual_coordinate", "auto"])
def test_the_limit_of_float64_is_said(solver):
    """A gap of zero can be met by chance; otherwise the run ends, and says why."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(60, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mm.SVMRegressor(loss="squared_epsilon_insensitive", tol=1e-19, solver=solver, max_iter=5000, random_state=0)
        model.fit(data, data[:, 0] + rng.normal(size=60))
    found = model.certificate_
    assert found.converged or "limit of float64" in found.message or "for rounding" in found.message, found
    assert abs(found.relative_gap) < 1e-9


def carried(tol, start=NOWHERE, C=100.0, state_bytes=1 << 22, solver=None):
    problem, solver = raw_problem().at(C), solver or Automatic()
    result = carry_out(solver, problem, Budget(tol, state_bytes=state_bytes), History(), start=start)
    return result, WarmStart.of(problem, solver, result)


def test_a_coarse_run_goes_on_to_a_finer_gap():
    coarse, left = carried(1e-1)
    assert left.method == "Newton" and left.state is not None
    finer, _ = carried(1e-8, Start(state=left.state))
    anew, _ = carried(1e-8)
    assert finer.certificate.converged and finer.history.methods[0] == (coarse.n_iter, "Newton")
    assert coarse.n_iter < finer.n_iter <= anew.n_iter + 5
    np.testing.assert_allclose(finer.certificate.primal, anew.certificate.primal, rtol=1e-7)


def test_a_state_is_for_the_same_problem_and_solver():
    solver, problem = Automatic(), raw_problem().at(100.0)
    result = carry_out(solver, problem, Budget(1e-1, state_bytes=1 << 22), History())
    left = WarmStart.of(problem, solver, result)
    assert left.fits(problem, solver).state is not None
    for other, whose in ((problem.at(200.0), solver), (raw_problem().at(100.0), solver), (problem, Automatic())):
        assert left.fits(other, whose).state is None and left.fits(other, whose).duals is not None


def test_no_state_where_none_was_asked_for():
    assert carried(1e-1, state_bytes=0)[0].state is None
    assert carried(1e-1, state_bytes=1)[0].state is None  # it takes more


def test_a_path_of_rising_C_begins_with_who_was_needed():  # noqa: N802 - a number of the problem
    model = mm.SVMClassifier(tol=1e-6, random_state=0)
    first, second, third = model.regularization_path(X, Y, [10.0, 100.0, 1.0])
    assert [name for _, name in first.history_.methods] == ["DualCoordinate", "Newton"]
    assert [name for _, name in second.history_.methods] == ["Newton"]
    assert third.history_.methods[0] == (0, "DualCoordinate")
    assert all(step.certificate_.converged for step in (first, second, third))
