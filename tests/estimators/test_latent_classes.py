"""Two classes of bags are not alike: which of them the best candidate speaks for. And the objective with costs and intercepts."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import maxmargin as mm


def bags(n=60, seed=0):
    """A positive bag has one candidate with a large first feature; nobody says which."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 6, 4)), np.arange(n) % 2
    X[y == 1, rng.integers(6, size=n)[y == 1], 0] += 5.0
    return X, y


X, Y = bags()
NEW, TRUTH = bags(200, seed=1)
SETTING = {"tol": 1e-3, "random_state": 0}
MODEL = mm.LatentSVMClassifier(**SETTING)
NAMES = {"first": ("has3", "no3"), "last": ("yes", "no"), "numbers": (1, 2), "zero": (0, 1)}  # the positive class, the other


@pytest.mark.parametrize("name", NAMES)
def test_the_named_class_is_the_one_that_the_best_candidate_speaks_for(name):
    positive, other = NAMES[name]
    plain = clone(MODEL).fit(X, Y)
    model = clone(MODEL).set_params(positive_class=positive).fit(X, np.where(Y == 1, positive, other))
    assert model.score(NEW, np.where(TRUTH == 1, positive, other)) == plain.score(NEW, TRUTH) > 0.95
    assert model.positive_class_ == positive
    assert model.classes_.tolist() == sorted([positive, other])
    np.testing.assert_array_equal(model.coef_, plain.coef_)  # always those of the positive class
    scores = model.decision_function(NEW)
    np.testing.assert_array_equal(scores, plain.decision_function(NEW) * (1 if model.classes_[1] == positive else -1))
    np.testing.assert_array_equal(model.predict(NEW), model.classes_[(scores > 0).astype(int)])
    np.testing.assert_array_equal(model.predict_latent(NEW), plain.predict_latent(NEW))
    np.testing.assert_array_equal(model.latent_, plain.latent_)


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), (False, True), (0.0, 1.0), (-1.0, 1.0)])
def test_labels_that_speak_for_themselves(labels):
    model = clone(MODEL).fit(X, np.array(labels)[Y])
    assert model.positive_class_ == labels[1]
    np.testing.assert_array_equal(model.coef_, clone(MODEL).fit(X, Y).coef_)


@pytest.mark.parametrize("labels", [("has3", "no3"), (1, 2), ("0", "1"), (0, 2)])
def test_other_labels_need_a_positive_class(labels):
    y = np.array(labels)[Y]
    named = f"labels {labels[0]!r} and {labels[1]!r}.*positive_class={labels[0]!r} or positive_class={labels[1]!r}"
    with pytest.raises(ValueError, match=named):
        clone(MODEL).fit(X, y)
    with pytest.raises(ValueError, match=named):
        clone(MODEL).regularization_path(X, y, [1.0])


@pytest.mark.parametrize("given", ["no", 7, ["has3"], np.array(["has3"]), True])
def test_positive_classes_that_are_none(given):
    with pytest.raises(ValueError, match="is not among the labels of y, 'has3' and 'no3'"):
        clone(MODEL).set_params(positive_class=given).fit(X, np.where(Y == 1, "has3", "no3"))


def test_three_classes_have_no_positive_one():
    y = np.arange(60) % 3
    with pytest.raises(ValueError, match="positive_class=1 is for two classes; y has 3"):
        clone(MODEL).set_params(positive_class=1).fit(X, y)


def test_positive_classes_in_scikit_learn():
    y, truth = (np.where(labels == 1, "has3", "no3") for labels in (Y, TRUTH))
    model = clone(MODEL).set_params(positive_class="has3")
    assert clone(model).get_params()["positive_class"] == "has3"
    grid = GridSearchCV(model, {"C": [0.1, 1.0]}, cv=2, scoring="roc_auc").fit(X, y)  # asks decision_function for classes_[1]
    assert grid.best_score_ > 0.95 and grid.score(NEW, truth) > 0.95
    assert make_pipeline(FunctionTransformer(), clone(model)).fit(X, y).score(NEW, truth) > 0.95
    for step in model.regularization_path(X, y, [0.1, 1.0]):
        assert step.positive_class_ == "has3" and step.score(NEW, truth) > 0.95
    fitted = clone(model).fit(X, y).set_params(positive_class="no3")  # of the next fit
    again = pickle.loads(pickle.dumps(fitted))
    assert again.score(NEW, truth) == fitted.score(NEW, truth) > 0.95


# ---- the objective ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", [0.2, 7.0])
def test_objective_with_two_costs_and_a_scaled_intercept(scaling):
    cost, y = {"has3": {"no3": 3.0}, "no3": {"has3": 0.5}}, np.where(Y == 1, "has3", "no3")
    setting = {"cost": cost, "intercept_scaling": scaling, "positive_class": "has3", "C": 0.05, "tol": 1e-4}
    model = clone(MODEL).set_params(**setting).fit(X, y)
    score = np.max(X @ model.coef_[0] + model.intercept_[0], axis=1)
    losses = np.where(Y == 1, np.maximum(0.0, 3.0 - score), np.maximum(0.0, 0.5 + score))
    penalty = 0.5 * np.sum(model.coef_**2) + 0.5 * np.sum((model.intercept_ / scaling) ** 2)
    assert penalty + 0.05 * losses.sum() == pytest.approx(model.outer_history_[-1], rel=1e-9)


def test_objective_of_three_classes_with_unequal_costs_and_a_scaled_intercept():
    X, y, _ = mm.datasets.make_gestures(30, n_classes=3, n_features=5, strength=2.0, random_state=0)
    cost = np.array([[0.0, 1.0, 4.0], [0.5, 0.0, 2.0], [3.0, 0.2, 0.0]])
    model = mm.LatentSVMClassifier(C=0.1, cost=cost, intercept_scaling=5.0, tol=1e-4, random_state=0).fit(X, y)
    assert model.positive_class_ is None
    total = 0.5 * np.sum(model.coef_**2) + 0.5 * np.sum((model.intercept_ / 5.0) ** 2)
    for bag, label in zip(X, y):
        best = np.max(bag @ model.coef_.T + model.intercept_, axis=0)
        total += 0.1 * (np.max(cost[label] + best) - best[label])
    assert total == pytest.approx(model.outer_history_[-1], rel=1e-9)
    np.testing.assert_allclose(model.decision_function(X[:1])[0], np.max(X[0] @ model.coef_.T + model.intercept_, axis=0))
