"""An interior point in one call: what it finds is nearly optimal, by the values of the problem itself, or it is not used."""

import numpy as np
import pytest
import scipy.sparse as sp

import maxmargin as mm
from maxmargin.solvers.second_order.tuning import WHOLE_PATH
from maxmargin.solvers.second_order.whole import whole_path

TOL = 1e-5
CS = np.logspace(-4, 4, 9)


def samples(rows: int = 120, columns: int = 6, seed: int = 0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, columns)) * np.logspace(-1, 1, columns)
    score = X @ random.normal(size=columns) + random.normal(size=rows) + 0.5
    return X, score


def problem_of(model, X, y, weight=None):
    return model._fitter((X, y, weight))({"C": 1.0, "tol": 0.1}, None).problem


def relative_gap(problem, start):
    primal = problem.primal(start.weights)
    return (primal - problem.reevaluated(start.duals).dual) / primal


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["classes", "targets"])
def test_starts_are_as_fine_as_asked_for(kind, intercept, dtype):
    X, score = samples()
    weight = np.random.default_rng(1).uniform(0.1, 3.0, len(score))
    model = mm.SVMClassifier(fit_intercept=intercept) if kind == "classes" else mm.SVMRegressor(fit_intercept=intercept)
    problem = problem_of(model, X.astype(dtype), score > 0 if kind == "classes" else score, weight)
    path = whole_path(problem)
    near = np.zeros(problem.weight_shape)
    for C in CS:
        start = path.start(C, TOL, near)
        there = problem.at(C)
        assert np.array_equal(there.clipped(start.duals), start.duals)
        assert -1e-9 <= relative_gap(there, start) <= TOL
        near = start.weights


def test_a_start_that_meets_the_target_is_the_result():
    X, score = samples()
    fitter = mm.SVMRegressor(tol=TOL)._fitter((X, score, None))
    path = whole_path(fitter({"C": 1.0, "tol": 0.1}, None).problem)
    start = path.start(2.0, TOL, np.zeros(X.shape[1] + 1))
    model = fitter({"C": 2.0}, start).model
    assert model.n_iter_ == start.steps and len(model.history_) == 1
    assert model.certificate_.relative_gap == pytest.approx(relative_gap(fitter({"C": 2.0}, start).problem, start), abs=1e-12)
    finer = fitter({"C": 2.0, "tol": 1e-9}, start).model  # not good enough: a run goes on from there
    assert len(finer.history_) > 1 and finer.certificate_.relative_gap <= 1e-9


def test_what_is_known_to_be_too_coarse_is_not_evaluated_again():
    X, score = samples(200, 4)
    fitter = mm.SVMClassifier(solver="dual_coordinate", loss="squared_hinge", random_state=0)._fitter((X, score > 0, None))
    coarse = fitter({"C": 1.0, "tol": 0.1}, None)
    assert coarse.left.gap == coarse.model.certificate_.relative_gap > 1e-6
    finer = fitter({"C": 1.0, "tol": 1e-6}, coarse.left).model
    assert finer.history_[0].iteration > 0 and finer.certificate_.relative_gap <= 1e-6
    assert fitter({"C": 1.0, "tol": 0.2}, coarse.left).model.n_iter_ == 0
    assert fitter({"C": 2.0, "tol": 1e-6}, coarse.left).model.history_[0].iteration == 0  # another C: not known


def test_a_separable_set_and_one_of_equal_columns():
    X, score = samples(60, 2)
    X = np.column_stack([X, X, np.zeros(60)])
    for y in (X[:, 0] > 0, score > 0):
        problem = problem_of(mm.SVMClassifier(), X, y)
        for C in CS:
            start = whole_path(problem).start(C, TOL, np.zeros(problem.weight_shape))
            assert relative_gap(problem.at(C), start) <= TOL


def test_numbers_that_are_too_large_leave_the_weights_as_they_were():
    X, score = samples()
    problem = problem_of(mm.SVMRegressor(), X, score)
    near = np.full(problem.weight_shape, 1e200)
    start = whole_path(problem).start(1.0, TOL, near)
    assert np.array_equal(start.weights, near)
    assert not np.any(start.duals)


def test_what_is_not_small_and_plain_is_left_to_others():
    X, score = samples()
    y = score > 0
    weight = np.ones(len(y))
    weight[3] = 0.0
    others = [
        problem_of(mm.SVMClassifier(loss="squared_hinge"), X, y),
        problem_of(mm.SVMClassifier(loss="log_loss"), X, y),
        problem_of(mm.SVMClassifier(), sp.csr_array(X), y),
        problem_of(mm.SVMClassifier(positive=True), X, y),
        problem_of(mm.SVMClassifier(prior_mean=1.0), X, y),
        problem_of(mm.SVMClassifier(), X, y, weight),
        problem_of(mm.SVMClassifier(), X, np.arange(len(y)) % 3),
    ]
    assert [whole_path(problem) for problem in others] == [None] * len(others)
    small = problem_of(mm.SVMClassifier(), X, y)
    assert whole_path(small, WHOLE_PATH._replace(work=100.0)) is None
    assert whole_path(small) is not None


def test_a_search_on_a_small_set_has_the_scores_of_optima():
    X, score = samples(150)
    for search, y in ((mm.SVMClassifierCV, score > 0), (mm.SVMRegressorCV, score)):
        found = search(CS, random_state=0).fit(X, y)
        exact = search(CS, random_state=0, tol=1e-7, search_tol=1e-7, refit=False).fit(X, y)
        assert np.abs(found.scores_.mean(axis=0) - exact.scores_.mean(axis=0)).max() <= 0.01
        mean = exact.scores_.mean(axis=0)
        assert mean[found.Cs_ == found.C_] >= mean.max() - 0.01
        bounds = found.score_bounds_[:, 1:]
        assert np.all(bounds[..., 0] <= exact.scores_[:, 1:] + 1e-9)
        assert np.all(exact.scores_[:, 1:] <= bounds[..., 1] + 1e-9)
