"""Limits of time: whatever an example costs, a run stops within its pass, and compilation does not count."""

import time
from fractions import Fraction

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin import jit
from maxmargin.data.gram import gram_of
from maxmargin.data.kernel_functions import function_of
from maxmargin.data.kernel_rows import KernelRows
from maxmargin.data.sources.memory import Arrays
from maxmargin.data.table import table_of
from maxmargin.losses import HingeLoss
from maxmargin.problems.linear import ScalarProblem
from maxmargin.result import History
from maxmargin.solvers import loop, pace
from maxmargin.solvers.ascent.linear import AscentOptions, ScalarAscent
from maxmargin.solvers.ascent.tuning import ASCENT
from maxmargin.solvers.base import Run
from maxmargin.solvers.planes import simplex_qp
from maxmargin.solvers.tuning import PACE
from maxmargin.structures import Structure


class Clock:
    """A clock that goes only when it is told to."""

    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(time, "perf_counter", found)
    return found


def after(count):
    """A `stop` that is true from the given call on."""
    left = iter(range(count))
    return lambda: next(left, None) is None


# ---- the clock -----------------------------------------------------------------------------------------------


def test_the_clock_stands_still_during_compilation(clock):
    begin = jit.clock()
    clock.now += 1.0
    jit.COMPILING.start()
    clock.now += 100.0
    assert jit.clock() - begin == pytest.approx(1.0)  # as another thread sees it
    jit.COMPILING.start()  # one kernel compiles another
    jit.COMPILING.end()
    clock.now += 100.0
    jit.COMPILING.end()
    clock.now += 1.0
    assert jit.clock() - begin == pytest.approx(2.0)


@pytest.mark.compiled
def test_compiling_is_counted():
    before, begin, worked = jit.COMPILING.total, time.perf_counter(), jit.clock()
    jit.compiled(lambda x: x + 1.0, cache=False)(1.0)
    took = time.perf_counter() - begin
    assert jit.COMPILING.total - before > 0.5 * took and jit.clock() - worked < 0.5 * took


class Slow(Run):
    """A run whose first pass compiles for a hundred seconds; passes take one, evaluations as long as they are told to."""

    warm, dual, average = False, 0.0, True

    class problem:  # noqa: N801
        n_examples = 1

        @staticmethod
        def overlarge(primal):
            return ""

        @staticmethod
        def lost_in_sums(left, most):
            return 0.0

        @staticmethod
        def lost_in_scores(w, primal):
            return 0.0

    def __init__(self, clock, evaluation=0.0):
        self.clock, self.evaluation = clock, evaluation
        self.passes = self.visits = self.evaluations = 0

    def advance(self, stop):
        if self.passes == 0:
            jit.COMPILING.start()
            self.clock.now += 100.0
            jit.COMPILING.end()
        self.clock.now += 1.0
        self.passes += 1
        self.visits += 1
        return 1.0

    def synchronise(self):
        return 0.0

    def candidates(self):
        return [np.zeros(1), np.ones(1), np.ones(1)]

    def primal(self, w, n_jobs):
        self.evaluations += 1
        self.clock.now += self.evaluation
        return 1.0 + self.evaluations

    def left(self):
        return None


def test_a_limit_of_time_is_one_on_work(clock):
    history = History()
    result = loop.drive(Slow(clock), loop.Budget(max_time=4.5), history)
    assert result.n_iter == 5 and history[-1].seconds == pytest.approx(5.0)
    assert result.message == "Stopped after max_time=4.5 seconds."


def test_no_evaluation_follows_one_that_took_up_the_time(clock):
    run = Slow(clock, evaluation=50.0)
    result = loop.drive(run, loop.Budget(max_time=30.0), History())  # the first evaluation is due after twenty passes
    assert run.evaluations == 1 and result.n_iter == 20 and result.certificate.primal == 2.0
    run = Slow(clock, evaluation=50.0)
    loop.drive(run, loop.Budget(max_time=3.5), History())  # here the last one is the first
    assert run.evaluations == 1 and run.passes == 4


class Promising(Slow):
    """A run whose estimate says that it is there, at a gap of a thousandth; it gives way to one that is."""

    value = 1.001

    def advance(self, stop):
        super().advance(stop)
        return 0.0

    def synchronise(self):
        return 1.0

    def candidates(self):
        return [np.zeros(1)]

    def primal(self, w, n_jobs):
        return self.value

    def give_way(self):
        self.value = 1.0
        return True


def test_a_gap_that_stays_though_the_estimate_is_zero_is_given_to_others(clock):
    result = loop.drive(Promising(clock), loop.Budget(tol=1e-6, max_iter=2000), History())
    assert result.certificate.converged and result.n_iter <= 1000


# ---- within a pass -------------------------------------------------------------------------------------------


def test_long_rows_are_visited_few_at_a_time():
    assert pace.examples_between(10.0, 1 << 16) == 1 << 16 and pace.examples_between(2.0e9, 1 << 16) == 1
    rng = np.random.default_rng(0)
    X, sign = rng.normal(size=(40, 7)), rng.choice([-1.0, 1.0], 40)
    problem = ScalarProblem(table_of(X, 1.0), HingeLoss(), (sign, np.ones(40)), np.ones(40))
    tuning = ASCENT._replace(pace=PACE._replace(work=5 * 2 * 8))
    run = ScalarAscent(problem, None, AscentOptions(1e-9, 0, np.float64, tuning=tuning))
    run.advance(after(3))
    assert run.visits == 15


class Dear(Structure):
    """A structure whose decoder takes a second, by the clock. (Estimators copy structures, so it is that of the class.)"""

    clock, calls = Clock(), 0

    def size(self, X, y):
        return 2

    def joint_feature(self, x, y):
        return np.array([y * x[0], y * x[1]])

    def loss(self, y_true, y):
        return float(y_true != y)

    def loss_augmented_decode(self, w, x, y_true):
        Dear.clock.now += 1.0
        Dear.calls += 1
        return max((0, 1), key=lambda y: w @ self.joint_feature(x, y) + self.loss(y_true, y))

    def decode(self, w, x):
        return int(w @ x > 0)


@pytest.mark.parametrize("solver", ["dual_coordinate", "frank_wolfe", "online", "bundle", mm.FrankWolfe(steps="plain")])
def test_dear_oracles_are_asked_one_at_a_time(clock, solver):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    Dear.clock, Dear.calls = clock, 0
    model = mm.StructuredSVM(Dear(), max_time=6.0, tol=1e-9, solver=solver, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_time=6"):
        model.fit(list(X), (X[:, 0] > 0).astype(int))
    found = model.certificate_
    assert found.verified and found.dual <= found.primal < np.inf
    assert Dear.calls <= 6 + 60  # what there was time for, and one full evaluation (the first plane of bundle methods)


def test_quadratic_programs_can_be_stopped():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, 20))
    block = np.arange(60) % 3
    start = simplex_qp.normalised(rng.random(60), block)
    found = simplex_qp.solve_program(A @ A.T, rng.normal(size=60), block, start, 1e-12, after(1))
    assert np.all(found >= 0.0) and np.allclose(np.bincount(block, found), 1.0, atol=1e-14)
    exact = simplex_qp.solve_program(A @ A.T, rng.normal(size=60), block, start, 1e-12)
    assert not np.allclose(found, exact, atol=1e-3)


def test_rows_of_a_kernel_matrix_can_be_left_out():
    X = np.random.default_rng(0).normal(size=(300, 3))
    held = KernelRows(gram_of(function_of("rbf", 0.5, 3, 0.0), X), 8 * 300 * 200)
    places = held.need(np.arange(100), after(1))
    assert np.count_nonzero(places >= 0) == held.at_once < 100 and np.array_equal(places, held.slot[:100])
    full = held.need(np.arange(100))
    assert np.all(full >= 0)
    np.testing.assert_allclose(held.table[full], np.exp(-0.5 * ((X[:100, None] - X[None]) ** 2).sum(-1)), atol=1e-12)


# ---- sources -------------------------------------------------------------------------------------------------


class Tape(Arrays):
    """A source whose blocks take a second each, by the clock."""

    def __init__(self, clock, *arrays, block):
        super().__init__(*arrays, block=block)
        self.clock = clock

    def blocks(self, *args, **options):
        for block in super().blocks(*args, **options):
            self.clock.now += 1.0
            yield block


def test_what_a_certificate_of_a_source_says_when_time_is_out(clock):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
    best = mm.SVMClassifier(C=10.0, tol=1e-6).fit(X, y).certificate_.primal
    for seconds, passes in ((3, 1), (20, 3)):  # of eight blocks
        model = mm.SVMClassifier(C=10.0, tol=1e-13, max_time=seconds, random_state=0)
        with pytest.warns(ConvergenceWarning, match=f"max_time={seconds}"):
            model.fit(Tape(clock, X, y, block=50))
        found = model.certificate_
        assert model.n_iter_ == passes and found.dual <= best * (1 + 1e-9) and not found.converged
        assert f"max_time={seconds} seconds" in found.message and ("was not computed" in found.message) == (passes == 1)
        if passes == 1:
            assert not found.verified and found.primal == found.gap == found.relative_gap == np.inf and len(model.history_) == 0
        else:  # the second pass has proved the weights that it began with
            value = 0.5 * float(np.sum(model.coef_**2) + np.sum(model.intercept_**2))
            value += 10.0 * np.maximum(0.0, 1.0 - (2 * y - 1) * model.decision_function(X)).sum()
            assert found.verified and found.primal == pytest.approx(value, rel=1e-12) and found.gap == found.primal - found.dual


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("C", [2e3, 2e5])
def test_weights_that_are_those_of_the_duals(C):
    """The two sides of a dual are both half of the cap where epsilon is zero, and columns are large: what rounding leaves between
    W and X' b is taken out, or scores would be those of neither. With the larger C half a digit of the score is 1e-5 of the
    value: then that is said."""
    X, y = np.array([[-1119.0, 327.0, -27.0, 1.9, 2e-4]]), np.array([2.0])
    model = mm.SVMRegressor(C=C, epsilon=0.0, solver="newton", keep_duals=True, fit_intercept=False, tol=1e-6).fit(X, y)
    score = sum(Fraction(w) * Fraction(x) for w, x in zip(model.coef_.ravel().tolist(), X[0].tolist(), strict=True))
    primal = 0.5 * float(model.coef_.ravel() @ model.coef_.ravel()) + float(Fraction(C) * abs(score - 2))
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-12) and model.certificate_.relative_gap < 2e-5
    assert model.certificate_.converged or ("for rounding" in model.certificate_.message and C == 2e5)
    rounding = 20 * np.finfo(float).eps * np.abs(model.dual_coef_) @ np.abs(X)
    assert np.all(np.abs(model.dual_coef_ @ X - model.coef_) <= rounding)
