"""Probabilities: held against scikit-learn's calibration around the same models, on the same folds."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, softmax
from sklearn import calibration
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC

import maxmargin as mm
from maxmargin.data.indicators import checked_labels
from maxmargin.estimators.probability import Columns, best_factor, fitted_curve, fitted_sigmoid, folds_of_labels
from maxmargin.losses import CrammerSingerLoss

METHODS = ["sigmoid", "isotonic", "temperature"]
THEIRS = METHODS[: 3 if hasattr(calibration, "_TemperatureScaling") else 2]  # scikit-learn has temperatures from 1.8 on
FINE = {"tol": 1e-11, "random_state": 0}


def few(classes=3, n=120):
    return make_classification(
        n, 5, n_informative=4, n_redundant=0, n_classes=classes, n_clusters_per_class=1, flip_y=0.1, random_state=1
    )


def labelled(n=100):
    return make_multilabel_classification(n, 6, n_classes=4, n_labels=2, random_state=0)


def calibration_error(truth, found, bins=10):
    """The mean distance of what was said from what came, over ten groups by what was said of the likeliest class."""
    said, came = found.max(axis=1), found.argmax(axis=1) == truth
    place = np.minimum((said * bins).astype(int), bins - 1)
    return sum(abs(said[place == b].sum() - came[place == b].sum()) for b in range(bins)) / len(said)


# ---- classes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", THEIRS)
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_those_of_scikit_learn_on_the_same_folds(classes, method, weighted):
    X, y = few(classes)
    weight = np.arange(len(y)) % 3 + 0.5 if weighted else None
    model = mm.SVMClassifier(C=0.5, probability=method, **FINE).fit(X, y, weight)
    theirs = CalibratedClassifierCV(mm.SVMClassifier(C=0.5, **FINE), method=method, cv=5, ensemble=False).fit(X, y, weight)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-6)


def test_against_the_rest_as_linear_svc():
    X, y = few(3)
    model = mm.SVMClassifier(loss="squared_hinge", multi_class="ovr", probability="sigmoid", **FINE).fit(X, y)
    svc = LinearSVC(tol=1e-10, max_iter=1_000_000, random_state=0)
    theirs = CalibratedClassifierCV(svc, method="sigmoid", cv=5, ensemble=False).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("method", THEIRS)
def test_a_usual_tolerance_is_no_worse_than_scikit_learn(method):
    X, y = few(3, 600)
    fit, seen = np.arange(600) < 400, np.arange(600) >= 400
    model = mm.SVMClassifier(probability=method, random_state=0).fit(X[fit], y[fit])
    theirs = CalibratedClassifierCV(mm.SVMClassifier(random_state=0), method=method, cv=5, ensemble=False).fit(X[fit], y[fit])
    ours, others = model.predict_proba(X[seen]), theirs.predict_proba(X[seen])
    assert log_loss(y[seen], ours) <= log_loss(y[seen], others) + 1e-2  # 200 samples: both are noisier than that
    assert calibration_error(y[seen], ours) <= calibration_error(y[seen], others) + 1e-2


@pytest.mark.parametrize("method", THEIRS)
def test_top_k(method):
    X, y = few(4)
    names = np.array(list("dabc"))[y]
    plain = mm.TopKSVMClassifier(k=2, **FINE)
    found = clone(plain).set_params(probability=method).fit(X, names).predict_proba(X)
    theirs = CalibratedClassifierCV(plain, method=method, cv=5, ensemble=False).fit(X, names)
    np.testing.assert_allclose(found, theirs.predict_proba(X), atol=1e-5)
    assert found.shape == (len(y), 4) and theirs.classes_.tolist() == ["a", "b", "c", "d"]


def test_the_model_itself_is_the_same():
    X, y = few()
    plain = mm.SVMClassifier(random_state=0).fit(X, y)
    model = mm.SVMClassifier(probability="isotonic", random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert model.certificate_ == plain.certificate_ and model.n_iter_ == plain.n_iter_
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


def test_logarithms():
    X, y = few(2)
    model = mm.SVMClassifier(probability="isotonic", random_state=0).fit(X, y)
    found = model.predict_proba(X)
    assert found.min() == 0.0
    logs = model.predict_log_proba(X)
    np.testing.assert_allclose(np.exp(logs), found)
    assert logs.min() == -np.inf


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("method", METHODS)
def test_a_class_that_is_absent_from_folds_does_no_harm(method, count):
    X, y = few(3)
    y[y == 2] = 1
    y[:count] = 2
    found = mm.SVMClassifier(probability=method, random_state=0).fit(X, y).predict_proba(X)
    assert found.shape == (len(y), 3) and np.all(np.isfinite(found))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    mm.TopKSVMClassifier(k=2, probability=method, random_state=0).fit(X, y)  # two classes would leave no room for two guesses


def test_one_sample_of_two_classes():
    X, y = few(2)
    y[:] = 0
    y[7] = 1
    found = mm.SVMClassifier(probability="sigmoid", random_state=0).fit(X, y).predict_proba(X)
    assert np.all(found[:, 1] < 0.2) and np.all(np.isfinite(found))


def test_samples_without_weight_do_not_count_in_the_calibration():
    X, y = few(2)
    weight = np.where(np.arange(len(y)) < 100, 1.0, 0.0)
    turned = np.where(weight > 0, y, 1 - y)
    found = [mm.SVMClassifier(probability="sigmoid", **FINE).fit(X, labels, weight) for labels in (y, turned)]
    straight, other = (model.predict_proba(X) for model in found)
    np.testing.assert_allclose(straight, other, atol=0.05)  # but for folds, which are dealt by class
    assert log_loss(y[:100], straight[:100]) < 0.5


def test_a_temperature_keeps_the_order_and_minimises_the_log_loss():
    rng = np.random.default_rng(0)
    scores = 50.0 * rng.normal(size=400)
    sign = np.where(rng.random(400) < expit(0.1 * scores), 1.0, -1.0)

    def loss(factor):
        return float(np.logaddexp(0.0, -factor * sign * scores).sum())

    best = best_factor(loss, scores)
    assert loss(best) <= min(loss(factor) for factor in np.linspace(0.5, 2.0, 301) * best) + 1e-9
    assert 0.05 < best < 0.2
    X, y = few(4)
    model = mm.SVMClassifier(probability="temperature", random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X))


# ---- curves ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("far", [0.0, 1e3])
def test_a_sigmoid_is_at_the_optimum_of_platts_loss(far, size):
    """Whose slopes are sums of weight (probability - target); one score may be far away, and on the wrong side."""
    rng = np.random.default_rng(0)
    scores, weight = rng.normal(size=80), rng.uniform(0.1, 2.0, 80)
    present = scores + rng.normal(size=80) > 0.3
    scores[np.argmin(present)] += far
    mass, others = weight[present].sum(), weight[~present].sum()
    target = np.where(present, (mass + 1) / (mass + 2), 1 / (others + 2))
    error = weight * (fitted_sigmoid(size * scores, present, weight).of(size * scores) - target)
    assert error.sum() == pytest.approx(0.0, abs=1e-5) and error @ scores == pytest.approx(0.0, abs=1e-5 * (1.0 + far))


def test_a_sigmoid_of_one_sample_far_from_all_others():
    """Where whole steps of Newton's method go too far."""
    scores = np.r_[np.random.default_rng(0).normal(size=59) - 1.0, 1e3]
    present = scores > 9.0
    target = np.where(present, 2 / 3, 1 / 61)
    error = fitted_sigmoid(scores, present, np.ones(60)).of(scores) - target
    assert error.sum() == pytest.approx(0.0, abs=1e-6) and error @ scores == pytest.approx(0.0, abs=1e-6)


def test_curves_of_small_data():
    scores, present = np.array([3.0, 1.0, 2.0, 4.0, 9.0]), np.array([False, False, True, True, False])
    weight = np.array([3.0, 1.0, 1.0, 1.0, 0.0])  # the last one does not count
    at = np.array([-5.0, 1.0, 1.5, 2.5, 3.5, 4.0, 9.0])
    steps = fitted_curve("isotonic", scores, present, weight).of(at)  # 2 and 3 are out of order: their mean is 1 / 4
    np.testing.assert_allclose(steps, [0.0, 0.0, 0.125, 0.25, 0.625, 1.0, 1.0])
    soft = fitted_curve("isotonic", scores, present, weight, soft=True).of(at)  # between 1 / 6 and 3 / 4
    np.testing.assert_allclose(soft, 1 / 6 + (3 / 4 - 1 / 6) * steps)
    balanced, flat = np.array([1.0, -1.0, -1.0, 1.0]), np.array([True, True, False, False])
    odds = np.array([5.0, 1.0, 5.0, 1.0])  # right five times of six at a distance of 1
    found = fitted_curve("temperature", balanced, flat, odds).of(np.array([1.0, 0.0]))
    np.testing.assert_allclose(found, [5 / 6, 0.5], atol=1e-6)
    for method in METHODS:  # one kind of samples, of weight 3: a constant
        curve = fitted_curve(method, scores[:2], present[2:4], np.array([2.0, 1.0]))
        np.testing.assert_allclose(curve.of(at), 4 / 5)
        other = fitted_curve(method, scores, present, np.where(present, 0.0, 1.0))
        np.testing.assert_allclose(other.of(at), 1 / 5)


def test_where_every_curve_is_zero_all_classes_are_as_likely():
    scores, present = np.arange(6.0), np.arange(6) > 2
    curve = fitted_curve("isotonic", scores, present, np.ones(6))
    found = Columns([curve] * 4, shared=True).of(np.array([[0.0, 0.0, 1.0, -9.0], [0.0, 5.0, 5.0, 0.0]]))
    np.testing.assert_allclose(found, [[0.25] * 4, [0.0, 0.5, 0.5, 0.0]])


# ---- logistic models ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
def test_logistic_models_have_probabilities_themselves(classes):
    X, y = few(classes)
    model = mm.SVMClassifier(loss="log_loss", fit_intercept=False, tol=1e-9, random_state=0).fit(X, y)
    theirs = LogisticRegression(fit_intercept=False, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(model.predict_proba(X)))


def test_each_logistic_model_against_the_rest():
    X, y = few(3)
    model = mm.SVMClassifier(loss="log_loss", multi_class="ovr", random_state=0).fit(X, y)
    each = expit(model.decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X), each / each.sum(axis=1, keepdims=True))
    X, Y = labelled()
    labels = mm.MultilabelSVMClassifier(loss="log_loss", random_state=0).fit(X, Y)
    np.testing.assert_allclose(labels.predict_proba(X), expit(labels.decision_function(X)))


def test_logistic_models_are_calibrated_on_request():
    X, y = few(3)
    model = mm.SVMClassifier(C=100.0, loss="log_loss", probability="temperature", random_state=0).fit(X, y)
    assert not np.allclose(model.predict_proba(X), softmax(model.decision_function(X), axis=1), atol=1e-3)


# ---- labels ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", THEIRS)
def test_labels_are_calibrated_one_by_one(method):
    X, Y = labelled()
    weight = np.arange(len(Y)) % 2 + 1.0
    model = mm.MultilabelSVMClassifier(C=0.1, probability=method, **FINE).fit(X, Y, weight)
    fold = folds_of_labels("probability", method, checked_labels(Y).columns)
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
    one = mm.SVMClassifier(C=0.1, loss="squared_hinge", **FINE)
    found = model.predict_proba(X)
    near = 1e-6 if method == "sigmoid" else 1e-4  # the gap of a squared loss is a square of distances, and steps are steep
    for label in range(4):
        theirs = CalibratedClassifierCV(one, method=method, cv=splits, ensemble=False).fit(X, Y[:, label], weight)
        expected, mass = theirs.predict_proba(X)[:, 1], weight @ Y[:, label]
        if method == "isotonic":  # never sure: of Platt's targets, which squeezes the curve between them
            low, high = 1.0 / (weight.sum() - mass + 2.0), (mass + 1.0) / (mass + 2.0)
            expected = low + (high - low) * expected
            assert low - 1e-12 <= found[:, label].min() and found[:, label].max() <= high + 1e-12
        np.testing.assert_allclose(found[:, label], expected, atol=near)


@pytest.mark.parametrize("method", METHODS)
def test_rare_labels(method):
    X, Y = labelled()
    Y = np.column_stack([Y, np.zeros((100, 3)), np.ones(100)])
    Y[3, 5] = Y[[10, 60], 6] = 1.0  # columns 4 to 7: no sample, one, two, all of them
    model = mm.MultilabelSVMClassifier(C=0.1, probability=method, random_state=0).fit(X, Y)
    found = model.predict_proba(X)
    assert found.shape == Y.shape and np.all((found >= 0) & (found <= 1))
    np.testing.assert_allclose(found[:, 4], 1 / 102)
    np.testing.assert_allclose(found[:, 7], 101 / 102)
    if method != "temperature":  # which has no offset
        assert found[:, 5].mean() < 0.05 and found[:, 6].mean() < 0.06
    sparse = mm.MultilabelSVMClassifier(C=0.1, probability=method, random_state=0).fit(sp.csr_array(X), sp.csr_array(Y))
    np.testing.assert_allclose(sparse.predict_proba(sp.csr_array(X)), found, atol=1e-6)


def test_labels_that_are_not_known_take_no_part():
    X, Y = labelled()
    Y = Y.astype(float)
    known = mm.MultilabelSVMClassifier(C=0.1, probability="sigmoid", **FINE).fit(X, np.column_stack([Y, np.ones(100)]))
    hidden = np.where(np.arange(100) < 20, np.nan, 1.0)
    hidden[20:25] = 0.0
    found = mm.MultilabelSVMClassifier(C=0.1, probability="sigmoid", **FINE).fit(X, np.column_stack([Y, hidden]))
    assert 0.9 < found.predict_proba(X)[:, 4].mean() < known.predict_proba(X)[:, 4].mean()
    none = np.column_stack([Y, np.full(100, np.nan)])
    alone = mm.MultilabelSVMClassifier(C=0.1, probability="sigmoid", random_state=0).fit(X, none)
    np.testing.assert_allclose(alone.predict_proba(X)[:, 4], 0.5)


def test_kernels_of_labels():
    X, Y = labelled(60)
    X = X / X.std()
    rbf = mm.MultilabelSVMClassifier(kernel="rbf", gamma=0.2, probability="sigmoid", **FINE).fit(X, Y)
    gram = np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    given = mm.MultilabelSVMClassifier(kernel="precomputed", probability="sigmoid", **FINE).fit(gram, Y)
    np.testing.assert_allclose(rbf.predict_proba(X), given.predict_proba(gram), atol=1e-5)
    assert log_loss(Y[:, 0], rbf.predict_proba(X)[:, 0]) < log_loss(Y[:, 0], np.full(60, Y[:, 0].mean()))


def test_every_label_is_spread_over_the_folds():
    rng = np.random.default_rng(0)
    Y = rng.random((203, 12)) < np.array([0.5, 0.3, *np.full(10, 0.02)])
    fold = folds_of_labels("probability", "sigmoid", checked_labels(Y.astype(int)).columns)
    sizes = np.bincount(fold, minlength=5)
    assert sizes.sum() == 203 and np.ptp(sizes) <= 10
    for column in Y.T:
        held = np.bincount(fold[column], minlength=5)
        assert held.max() <= -(-column.sum() // 5) + 2
    rarest = Y[:, Y.sum(axis=0).argmin()]
    assert np.ptp(np.bincount(fold[rarest], minlength=5)) <= 1


def test_rare_labels_fill_all_folds():
    one_each = np.repeat(np.eye(20, dtype=int), 3, axis=0)
    assert np.bincount(folds_of_labels("probability", "sigmoid", checked_labels(one_each).columns)).tolist() == [12] * 5


# ---- as an estimator ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [mm.SVMClassifier, mm.TopKSVMClassifier, mm.MultilabelSVMClassifier])
def test_there_are_probabilities_only_where_they_were_asked_for(kind):
    plain = kind()
    assert not hasattr(plain, "predict_proba") and not hasattr(plain, "predict_log_proba")
    with pytest.raises(AttributeError, match=f"^{kind.__name__} has no predict_proba with probability=None: set probability="):
        plain.predict_proba([[0.0]])
    with pytest.raises(AttributeError, match=f"^{kind.__name__} has no predict_log_proba with"):
        plain.predict_log_proba([[0.0]])
    asked = kind(probability="sigmoid")
    assert hasattr(asked, "predict_proba") and clone(asked).probability == "sigmoid"
    with pytest.raises(NotFittedError):
        asked.predict_proba([[0.0]])


def test_probabilities_that_were_asked_for_after_the_fit():
    X, y = few(2)
    model = mm.SVMClassifier(random_state=0).fit(X, y).set_params(probability="sigmoid")
    with pytest.raises(NotFittedError, match="fit it again"):
        model.predict_proba(X)
    assert model.fit(X, y).predict_proba(X).shape == (len(y), 2)


@pytest.mark.parametrize(("asked", "what"), [({"probability": "sigmoid"}, "probabilities"), ({"thresholds": "f1"}, "thresholds")])
def test_folds_that_did_not_converge_are_told_of(asked, what):
    X, Y = labelled()
    plain = mm.MultilabelSVMClassifier(C=100.0, loss="hinge", solver="dual_coordinate", random_state=0).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match=rf"^The {what} rest on models of 5 folds, of which \d did not reach tol=0.001"):
        clone(plain).set_params(max_iter=plain.n_iter_, **asked).fit(X, Y)


def test_probabilities_of_an_earlier_fit_are_forgotten():
    X, y = few(2)
    model = mm.SVMClassifier(probability="sigmoid", random_state=0).fit(X, y)
    model.set_params(probability=None).fit(-X, y).set_params(probability="sigmoid")
    with pytest.raises(NotFittedError, match="fit it again"):
        model.predict_proba(X)


def test_columns_come_in_the_order_of_classes():
    X, y = few(2)
    names = np.array(["yes", "no"])[y]
    plain = mm.SVMClassifier(probability="sigmoid", random_state=0).fit(X, y)
    named = mm.SVMClassifier(probability="sigmoid", random_state=0).fit(X, names)
    assert named.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(named.predict_proba(X), plain.predict_proba(X)[:, ::-1], atol=5e-3)
    rows = mm.SVMClassifier(loss=CrammerSingerLoss(), probability="sigmoid", tol=1e-6, random_state=0).fit(X, names)
    rising = np.argsort(rows.decision_function(X))
    assert np.all(np.diff(rows.predict_proba(X)[rising, 1]) >= 0.0)
    assert log_loss(names, rows.predict_proba(X)) < 0.5


def test_pickles_paths_threads_and_other_forms_of_x():
    X, y = few(3)
    model = mm.SVMClassifier(probability="isotonic", **FINE).fit(X, y)
    found = model.predict_proba(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), found)
    path = model.regularization_path(X, y, [0.1, 1.0])
    np.testing.assert_allclose(path[1].predict_proba(X), found, atol=1e-6)
    assert not np.allclose(path[0].predict_proba(X), found, atol=1e-2)
    threads = mm.SVMClassifier(probability="isotonic", n_jobs=2, **FINE).fit(X, y)
    np.testing.assert_allclose(threads.predict_proba(X), found, atol=1e-9)
    sparse = mm.SVMClassifier(probability="isotonic", **FINE).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.predict_proba(sp.csr_array(X)), found, atol=1e-6)


def test_one_warning_speaks_for_all_folds():
    X, y = few(3)
    with pytest.warns(ConvergenceWarning) as caught:
        mm.SVMClassifier(C=100.0, probability="sigmoid", tol=1e-9, max_iter=2, random_state=0).fit(X, y)
    assert len(caught) == 1 and caught[0].filename == __file__


# ---- what is refused ---------------------------------------------------------------------------------------------------


def test_too_few_samples():
    X = few(3)[0]
    with pytest.raises(ValueError, match=r"holds out 5 folds .* no class in y has 5 samples; give more"):
        mm.SVMClassifier(probability="sigmoid").fit(X[:8], np.arange(8) % 4)
    with pytest.raises(ValueError, match=r"holds out 5 folds of the samples, and there are 4; give more"):
        mm.MultilabelSVMClassifier(probability="sigmoid").fit(X[:4], np.eye(4))
    assert mm.SVMClassifier(probability="sigmoid").fit(X[:8], np.arange(8) > 4).predict_proba(X).shape == (len(X), 2)
    assert mm.MultilabelSVMClassifier(probability="sigmoid").fit(X[:5], np.eye(5)).predict_proba(X).shape == (len(X), 5)


def test_pieces_sources_and_other_words():
    X, y = few(2)
    Y = np.column_stack([y, 1 - y])
    with pytest.raises(ValueError, match="probability='sigmoid' needs all samples at once"):
        mm.SVMClassifier(probability="sigmoid").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="probability='isotonic' needs all samples at once"):
        mm.MultilabelSVMClassifier(probability="isotonic").partial_fit(X, Y)
    source = mm.open_source([(X, y)])
    with pytest.raises(ValueError, match="probability='sigmoid' needs the samples in memory"):
        mm.SVMClassifier(probability="sigmoid").fit(source)
    for kind, target in ((mm.SVMClassifier, y), (mm.MultilabelSVMClassifier, Y)):
        with pytest.raises(ValueError, match="The 'probability' parameter of"):
            kind(probability="platt").fit(X, target)


def test_a_source_is_predicted_in_blocks():
    X, y = few(2)
    model = mm.SVMClassifier(probability="sigmoid", random_state=0).fit(X, y)
    source = mm.open_source([(X[:50], y[:50]), (X[50:], y[50:])])
    np.testing.assert_allclose(model.predict_proba(source), model.predict_proba(X))
