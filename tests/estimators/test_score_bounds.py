"""What a gap proves about scores: those of the optimum lie within."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import maxmargin as mm
from maxmargin.estimators.base import Step
from maxmargin.estimators.bounds import HeldOut, accuracy, accuracy_bounds, label_bounds, r2, r2_bounds, residual_bounds

TIGHT = 1e-10


def drawn(seed: int):
    """Samples to fit, samples to judge, the scores behind their targets, and weights of those to judge."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)) * rng.choice([0.3, 1.0, 3.0], 4)
    scores = X @ rng.normal(size=(4, 4)) + rng.normal(size=(60, 4))
    return X[:35], X[35:], scores[:35], scores[35:], rng.random(25) + 0.1


def classes(scores, count):
    return np.resize(scores[:, :count].argmax(axis=1), len(scores))


PRIOR = {"prior_mean": 0.1, "prior_scale": [0.5, 1.0, 2.0, 1.0]}
COVARIANCE = {"prior_covariance": np.diag([0.5, 1.0, 2.0, 1.0]) + 0.1}
CASES = {
    "two": (mm.SVMClassifier(), 2),
    "two, squared hinge": (mm.SVMClassifier(loss="squared_hinge", **PRIOR), 2),
    "two, signs": (mm.SVMClassifier(positive=True), 2),
    "two, full covariance": (mm.SVMClassifier(**COVARIANCE), 2),
    "two, signs under a covariance": (mm.SVMClassifier(positive=[True, False, True, False], **COVARIANCE), 2),
    "two, standardised": (mm.SVMClassifier(standardize=True), 2),
    "two, bundle": (mm.SVMClassifier(solver="bundle"), 2),
    "three": (mm.SVMClassifier(), 3),
    "three, prior": (mm.SVMClassifier(**PRIOR), 3),
    "three, rest": (mm.SVMClassifier(multi_class="ovr", loss="squared_hinge"), 3),
    "top-k": (mm.TopKSVMClassifier(k=2), 3),
    "regression": (mm.SVMRegressor(), 0),
    "regression, squares": (mm.SVMRegressor(loss="squared_error", **PRIOR), 0),
    "labels": (mm.MultilabelSVMClassifier(), -1),
    "coupled labels": (mm.MultilabelSVMClassifier(loss="hinge", label_prior=np.full((4, 4), 0.3) + 0.9 * np.eye(4)), -1),
}


def two_fits(case, seed, C, gap):
    """A coarse fit and one to 1e-10, the bounds that belong to them, and what was held out."""
    estimator, count = CASES[case]
    X, new, known, wanted, weight = drawn(seed)
    if count > 0:
        y, y_new, bounds = classes(known, count), classes(wanted, count), accuracy_bounds
        y[:count] = np.arange(count)
    elif count == 0:
        y, y_new, bounds = known[:, 0], wanted[:, 0], r2_bounds
    else:
        y, y_new, bounds = (known > 0.5).astype(int), (wanted > 0.5).astype(int), label_bounds
    fitter = type(estimator)(**{**estimator.get_params(), "random_state": 0, "max_iter": 100_000})._fitter((X, y, None))
    rough = fitter({"C": C, "tol": gap}, None)
    fine = fitter({"C": C, "tol": TIGHT}, None)
    assert rough.model.certificate_.converged and fine.model.certificate_.relative_gap < 1e-9
    return rough, fine, bounds, HeldOut(new, y_new, weight)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("case", CASES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), C=st.sampled_from([0.01, 0.3, 5.0]), gap=st.sampled_from([0.3, 1e-2, 1e-4]))
def test_the_score_of_the_optimum_lies_within(case, seed, C, gap):
    rough, fine, bounds, held = two_fits(case, seed, C, gap)
    low, high = bounds(held, rough)
    truth = fine.model.score(held.X, held.y, sample_weight=held.weight)
    assert low - 1e-9 <= truth <= high + 1e-9
    assert low - 1e-9 <= rough.model.score(held.X, held.y, sample_weight=held.weight) <= high + 1e-9


@pytest.mark.parametrize("case", ["two", "three", "labels", "coupled labels"])
def test_bounds_close_with_the_gap(case):
    """Not only true but of use: they decide nearly all samples at last, and not all at first."""
    rough, fine, bounds, held = two_fits(case, 1, 0.3, 0.3)
    wide, narrow = np.diff(bounds(held, rough))[0], np.diff(bounds(held, fine))[0]
    assert wide > 0.3 and narrow < 0.05


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), gap=st.sampled_from([0.1, 1e-3]))
def test_residuals_of_the_optimum_lie_within(seed, gap):
    rough, fine, _, held = two_fits("regression", seed, 0.3, gap)
    low, high = residual_bounds(held, rough)
    truth = np.abs(held.y - fine.model.predict(held.X))
    assert np.all(low <= truth + 1e-6) and np.all(truth <= high + 1e-6)
    assert np.all(high - low <= 2.0 * held.lengths * np.sqrt(2.0 * rough.model.certificate_.gap) + 1e-6)


def test_sparse_and_single_precision_samples():
    _, fine, bounds, held = two_fits("three", 3, 0.3, 0.1)
    rough = two_fits("three", 3, 0.3, 0.1)[0]
    same = bounds(HeldOut(sp.csr_array(held.X), held.y, held.weight), rough)
    np.testing.assert_allclose(same, bounds(held, rough))
    single = HeldOut(held.X.astype(np.float32), held.y, held.weight)
    low, high = bounds(single, fine)
    assert low <= fine.model.score(single.X, single.y, sample_weight=held.weight) <= high


def test_a_class_that_a_fold_had_not_is_never_right():
    _, fine, bounds, held = two_fits("three", 3, 0.3, 0.1)
    new = HeldOut(held.X, np.full(len(held.y), 7), None)
    assert bounds(new, fine) == (0.0, 0.0)


def test_there_are_none_with_a_kernel_and_a_constant_has_the_widest():
    X, new, known, wanted, _ = drawn(0)
    step = mm.SVMClassifier(kernel="rbf", gamma=0.3)._fitter((X, classes(known, 2), None))({"C": 1.0}, None)
    assert np.all(np.isnan(accuracy_bounds(HeldOut(new, classes(wanted, 2), None), step)))
    step = mm.SVMRegressor()._fitter((X, known[:, 0], None))({"C": 1.0}, None)
    assert r2_bounds(HeldOut(new, np.ones(25), None), step) == (0.0, 1.0)


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_of_searches_are_those_of_scikit_learn(weighted):
    X, X_test, scores, scores_test, weight = drawn(3)
    weight = weight if weighted else None
    for count in (2, 3):
        model = mm.SVMClassifier(random_state=0).fit(X, classes(scores, count))
        names = classes(scores_test, count)
        assert accuracy(HeldOut(X_test, names, weight), Step(model, None, None)) == model.score(X_test, names, weight)
    model = mm.SVMRegressor(random_state=0).fit(X, scores[:, 0])
    for y in (scores_test[:, 0], np.full(25, 2.0)):
        found = r2(HeldOut(X_test, y, weight), Step(model, None, None))
        assert found == pytest.approx(model.score(X_test, y, weight), rel=1e-12)
