"""Passes in a row within one call: the loop hears of them when it has something to do, and nothing else changes."""

import warnings
from functools import partial

import numpy as np
import pytest

import maxmargin as mm
from maxmargin.solvers.ascent import linear
from maxmargin.solvers.ascent.parted import PartedScalars
from maxmargin.solvers.due import due_of, is_asked, long_since, promising
from maxmargin.solvers.loop import Budget
from maxmargin.solvers.tuning import LOOP

RNG = np.random.default_rng(3)
X = RNG.standard_normal((300, 12)) * np.geomspace(0.2, 3.0, 12)
SCORES = X @ RNG.standard_normal(12) + 2.0 * RNG.standard_normal(300)
Y = np.where(SCORES > 0.0, 1, -1)


class Deaf:
    """Hears of every pass, so that each is made alone."""

    def setup(self, estimator, context): ...
    def teardown(self, estimator, context): ...
    def on_fit_task_begin(self, estimator, context): ...
    def on_fit_task_end(self, estimator, context, **ignored):
        return False


@pytest.fixture(autouse=True)
def in_a_row(monkeypatch):
    """As single labels have it."""
    monkeypatch.setattr("maxmargin.estimators.base.Budget", partial(Budget, in_a_row=True))


@pytest.fixture
def calls(monkeypatch):
    """How many passes each call has made."""
    made, advance = [], PartedScalars.advance

    def advanced(run, stop):
        before = run.passes
        found = advance(run, stop)
        made.append(run.passes - before)
        return found

    monkeypatch.setattr(PartedScalars, "advance", advanced)
    return made


def fitted(model, y, heard, data=X):
    if heard:
        model.set_callbacks(Deaf())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(data, y)


MODELS = {
    "hinge": lambda **rest: (mm.SVMClassifier(C=2.0, loss="hinge", **rest), Y),
    "squared hinge": lambda **rest: (mm.SVMClassifier(C=2.0, loss="squared_hinge", **rest), Y),
    "log loss": lambda **rest: (mm.SVMClassifier(C=2.0, loss="log_loss", **rest), Y),
    "regression": lambda **rest: (mm.SVMRegressor(C=0.5, **rest), SCORES),
}
ALL = [*((name, X) for name in MODELS), ("hinge", X.astype(np.float32))]


@pytest.mark.parametrize("solver", ["auto", "dual_coordinate"])
@pytest.mark.parametrize(
    "rest", [{"tol": 1e-3}, {"tol": 1e-8}, {"tol": 1e-5, "keep_duals": True}, {"tol": 1e-12, "max_iter": 37}]
)
@pytest.mark.parametrize(("name", "data"), ALL)
def test_nothing_changes(name, data, rest, solver, calls):
    one, many = (fitted(*MODELS[name](random_state=0, solver=solver, **rest), heard, data) for heard in (True, False))
    assert one.n_iter_ == many.n_iter_
    np.testing.assert_allclose(many.coef_, one.coef_, rtol=1e-9, atol=1e-12)
    assert many.certificate_.primal == pytest.approx(one.certificate_.primal, rel=1e-12)
    assert many.certificate_.dual == pytest.approx(one.certificate_.dual, rel=1e-12)
    assert [record.iteration for record in many.history_] == [record.iteration for record in one.history_]
    if solver == "dual_coordinate" and one.n_iter_ > 20:
        assert max(calls) > 1  # or nothing was tested


def test_a_callback_hears_of_every_pass(calls):
    fitted(mm.SVMClassifier(C=2.0, loss="hinge", tol=1e-6, solver="dual_coordinate"), Y, True)
    assert set(calls) == {1}


def test_a_run_that_is_alone_makes_one_pass_at_a_time(monkeypatch):
    """What makes several would have to be compiled first."""
    monkeypatch.undo()
    monkeypatch.setattr(linear, "scalar_passes", None)
    fitted(mm.SVMClassifier(C=2.0, loss="hinge", tol=1e-6, solver="dual_coordinate"), Y, False)


def test_a_clock_is_looked_at():
    """Not more visits in a row than between two looks, and a limit of time ends the run."""
    model = mm.SVMClassifier(C=1e3, loss="hinge", tol=1e-14, max_time=0.005, max_iter=10**9, solver="dual_coordinate")
    found = fitted(model, Y, False)
    assert not found.certificate_.converged and "max_time" in found.certificate_.message


@pytest.mark.parametrize("seed", range(20))
def test_when_the_loop_is_asked(seed):
    """By the rules as they are written: see `LoopTuning`."""
    rng = np.random.default_rng(seed)
    ratio, tol, n, looked = rng.uniform(0.1, 2.0), 1e-3, int(rng.integers(1, 50)), int(rng.integers(0, 500))
    visits, dual, gap = looked + int(rng.integers(0, 60 * n)), rng.normal(), 10.0 ** rng.uniform(-4, 0)
    due = due_of(ratio, tol, n, looked, LOOP)
    since, hoped, target = (visits - looked) / n, gap * ratio, tol * abs(dual)
    hopeful = hoped <= target and since >= LOOP.apart
    least, part = LOOP.near_seldom if hoped <= LOOP.near * target else LOOP.seldom
    late = since >= max(least, part * visits / n)
    assert promising(due, gap, dual, visits) == hopeful and long_since(due, gap, dual, visits) == late
    assert is_asked(due, gap, dual, visits, 5) == (hopeful or late)
    assert is_asked(due._replace(passes=5.0), gap, dual, visits, 5)
    calm = due._replace(looked=float(visits), passes=9.0, apart=1.0)
    assert not is_asked(calm, gap, dual, visits, 5)
    assert is_asked(calm._replace(relay=(2.0, 3.0, 2.0 * visits + 15.0)), gap, dual, visits, 5)
    assert not is_asked(calm._replace(relay=(2.0, 3.0, 2.0 * visits + 16.0)), gap, dual, visits, 5)
    assert is_asked(calm._replace(polish=(0.0, 1.0, 5.0), polish_from=5.0), gap, dual, visits, 5)
    assert not is_asked(calm._replace(polish=(0.0, 1.0, 5.0), polish_from=6.0), gap, dual, visits, 5)
