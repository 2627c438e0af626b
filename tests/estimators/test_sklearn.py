"""The estimators are scikit-learn's: its own checks, and the tools that users put around an estimator."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxmargin as mm

ESTIMATORS = [mm.SVMClassifier, mm.SVMRegressor]


def few(cls=mm.SVMClassifier, classes=2):
    """A small problem for this estimator."""
    if cls is mm.SVMRegressor:
        X, y = make_regression(60, 4, noise=5.0, random_state=0)
        return X, y / 50.0
    return make_classification(60, 4, n_informative=3, n_redundant=0, n_classes=classes, n_clusters_per_class=1, random_state=1)


# No check is expected to fail. As in scikit-learn's own run of them, a ConvergenceWarning is no failure.
@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        mm.SVMClassifier(max_iter=50, random_state=0),
        mm.SVMClassifier(loss="log_loss", max_iter=50, random_state=0),
        mm.SVMClassifier(loss="squared_hinge", multi_class="ovr", max_iter=50, random_state=0),
        mm.SVMClassifier(loss="squared_error", max_iter=50, random_state=0),
        mm.SVMRegressor(max_iter=50, random_state=0),
        mm.SVMRegressor(loss="squared_error", max_iter=50, random_state=0),
        mm.SVMClassifierCV([0.01, 1.0], cv=3, max_iter=50, random_state=0),
        mm.SVMRegressorCV([0.01, 1.0], cv=3, max_iter=50, random_state=0),
    ]
)
def test_scikit_learns_checks(estimator, check):
    if "check_sample_weight_equivalence" in check.func.__name__:  # compares predictions to 1e-7, whatever tol is
        estimator = clone(estimator).set_params(max_iter=10_000, tol=1e-13)  # other checks get the same object
        if estimator.loss not in ("hinge", "epsilon_insensitive"):  # a gap is then a square of distances, and rounding ends it
            estimator.set_params(tol=1e-17, C=1e-4, solver=mm.DualCoordinate(average=False))
    check(estimator)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_clone_has_the_parameters_and_not_the_fit(cls):
    X, y = few(cls)
    model = cls(C=0.3, tol=1e-2, positive=[True, False, True, False], solver=mm.DualCoordinate(momentum=False)).fit(X, y)
    copy = clone(model)
    assert not hasattr(copy, "coef_") and not hasattr(copy, "certificate_")
    assert copy.C == 0.3 and copy.positive == [True, False, True, False]
    assert copy.solver is not model.solver and copy.solver.momentum is False


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_fit_changes_no_parameter(cls):
    X, y = few(cls)
    model = cls(solver=mm.DualCoordinate(), random_state=3)
    before = {name: (id(value), repr(value)) for name, value in model.get_params().items()}
    model.fit(X, y)
    assert {name: (id(value), repr(value)) for name, value in model.get_params().items()} == before


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_common_parameters_and_their_defaults(cls):
    expected = {
        "C": 1.0, "tol": 1e-3, "max_iter": 10_000, "max_time": None, "fit_intercept": True, "intercept_scaling": 1.0,
        "solver": "auto", "warm_start": False, "keep_duals": False, "random_state": None, "n_jobs": None, "verbose": 0,
        "dtype": None,
    }  # fmt: skip
    parameters = cls().get_params()
    assert {name: parameters[name] for name in expected} == expected


def test_parameters_of_the_solver_are_reached_by_name():
    model = mm.SVMClassifier(solver=mm.DualCoordinate())
    assert model.get_params()["solver__momentum"] is True
    assert model.set_params(solver__momentum=False, solver__double=True).solver.get_params() == {
        "average": True,
        "double": True,
        "momentum": False,
    }
    with pytest.raises(ValueError, match="temperature"):
        model.set_params(solver__temperature=1.0)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_pipeline(cls):
    X, y = few(cls)
    piped = make_pipeline(StandardScaler(), cls(random_state=0)).fit(X, y)
    alone = cls(random_state=0).fit(StandardScaler().fit_transform(X), y)
    assert piped[-1].certificate_ == alone.certificate_
    np.testing.assert_array_equal(piped.predict(X), alone.predict(StandardScaler().fit_transform(X)))
    assert piped.score(X, y) > 0.8


def test_sample_weight_goes_through_a_pipeline():
    X, y = few()
    weight = np.arange(len(y)) % 3
    piped = make_pipeline(mm.SVMClassifier(random_state=0)).fit(X, y, svmclassifier__sample_weight=weight)
    alone = mm.SVMClassifier(random_state=0).fit(X, y, sample_weight=weight)
    plain = mm.SVMClassifier(random_state=0).fit(X, y)
    assert piped[-1].certificate_ == alone.certificate_ != plain.certificate_


def test_grid_over_c():
    X, y = few()
    search = GridSearchCV(mm.SVMClassifier(random_state=0), {"C": [1e-6, 1.0]}, cv=3).fit(X, y)
    by_hand = [cross_val_score(mm.SVMClassifier(C=C, random_state=0), X, y, cv=3).mean() for C in (1e-6, 1.0)]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], by_hand)
    assert search.best_params_ == {"C": 1.0} and search.best_estimator_.certificate_.converged


def test_grid_over_a_parameter_of_the_solver():
    X, y = few()
    estimator = mm.SVMClassifier(solver=mm.DualCoordinate(), tol=1e-6, random_state=0)
    search = GridSearchCV(estimator, {"solver__momentum": [True, False], "C": [0.1, 1.0]}, cv=3, error_score="raise").fit(X, y)
    assert [p["solver__momentum"] for p in search.cv_results_["params"]] == [True, False] * 2
    scores = search.cv_results_["mean_test_score"].reshape(2, 2)
    np.testing.assert_array_equal(scores[:, 0], scores[:, 1])  # the same optimum, found in two ways
    assert estimator.solver.momentum is True


def test_momentum_changes_the_way_and_not_the_optimum():
    X, y = few()
    solvers = mm.DualCoordinate(momentum=True), mm.DualCoordinate(momentum=False)
    fits = [mm.SVMClassifier(C=100.0, tol=1e-6, random_state=0, solver=solver).fit(X, y) for solver in solvers]
    one, other = ([record.dual for record in model.history_] for model in fits)
    assert one != other
    assert fits[0].certificate_.primal == pytest.approx(fits[1].certificate_.primal, rel=2e-6)


@pytest.mark.parametrize(("cls", "classes"), [(mm.SVMClassifier, 2), (mm.SVMClassifier, 3), (mm.SVMRegressor, 0)])
def test_pickle(cls, classes):
    X, y = few(cls, classes)
    model = cls(random_state=0, keep_duals=True, warm_start=True, solver=mm.DualCoordinate()).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    assert copy.certificate_ == model.certificate_ and list(copy.history_) == list(model.history_)
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    np.testing.assert_array_equal(copy.dual_coef_, model.dual_coef_)
    assert copy.fit(X, y).n_iter_ == 0  # the warm start travels too


@pytest.mark.parametrize(("cls", "classes"), [(mm.SVMClassifier, 2), (mm.SVMClassifier, 3), (mm.SVMRegressor, 0)])
def test_score_and_cross_validation(cls, classes):
    X, y = few(cls, classes)
    model = cls(random_state=0).fit(X, y)
    metric = r2_score if cls is mm.SVMRegressor else accuracy_score
    assert model.score(X, y) == metric(y, model.predict(X)) > 0.8
    weight = np.where(np.arange(len(y)) < 10, 5.0, 0.1)
    assert model.score(X, y, sample_weight=weight) == metric(y, model.predict(X), sample_weight=weight)
    scores = cross_val_score(cls(random_state=0), X, y, cv=3)
    assert scores.shape == (3,) and scores.min() > 0.6


@pytest.mark.parametrize(("loss", "C"), [("hinge", 0.1), ("squared_hinge", 1.0)])
def test_same_solution_as_linear_svc(loss, C):
    """The meaning of C, of the intercept and of its scaling is LinearSVC's."""
    X, y = few()
    model = mm.SVMClassifier(C=C, loss=loss, tol=1e-9, intercept_scaling=3.0, random_state=0).fit(X, y)
    other = LinearSVC(C=C, loss=loss, tol=1e-9, intercept_scaling=3.0, dual=True, max_iter=1_000_000, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, other.intercept_, atol=1e-4)
    assert model.coef_.shape == other.coef_.shape and model.intercept_.shape == other.intercept_.shape


@pytest.mark.parametrize("classes", [2, 3])
def test_predictions_follow_the_scores(classes):
    X, y = few(classes=classes)
    names = np.array(["cat", "dog", "eel"])[y]
    model = mm.SVMClassifier(random_state=0).fit(X, names)
    scores = model.decision_function(X)
    assert model.classes_.tolist() == ["cat", "dog", "eel"][:classes]
    if classes == 2:
        assert scores.shape == (60,) and model.coef_.shape == (1, 4) and model.intercept_.shape == (1,)
        expected = np.where(scores > 0, "dog", "cat")
    else:
        assert scores.shape == (60, 3) and model.coef_.shape == (3, 4) and model.intercept_.shape == (3,)
        expected = model.classes_[scores.argmax(axis=1)]
    np.testing.assert_array_equal(model.predict(X), expected)
    np.testing.assert_allclose(scores, np.squeeze(X @ model.coef_.T + model.intercept_), rtol=1e-12)


def test_regressor_predicts_numbers():
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:80], y[:80] / 100.0
    model = mm.SVMRegressor(C=10.0, random_state=0).fit(X, y)
    assert model.coef_.shape == (10,) and model.intercept_.shape == (1,)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_, rtol=1e-12)


def test_warning_names_the_line_of_the_user():
    X, y = few()
    with pytest.warns(ConvergenceWarning) as caught:
        mm.SVMClassifier(max_iter=1, tol=1e-9).fit(X, y)
    assert caught[0].filename == __file__
