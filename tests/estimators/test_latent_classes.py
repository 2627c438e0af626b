"""Two classes of bags are not alike: which of them the best candidate speaks for. Bags in one table. And the objective with costs
and intercepts."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold
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


# ---- bags in one table -----------------------------------------------------------------------------------

SIZES = np.random.default_rng(2).integers(1, 7, len(X))  # of one candidate to six
BAGS = [bag[:size] for bag, size in zip(X, SIZES)]
TABLE, OWNER = np.concatenate(BAGS), np.repeat([f"bag {i * 7 % 60}" for i in range(60)], SIZES)  # names that sort otherwise
LABEL = np.repeat(np.where(Y == 1, "has3", "no3"), SIZES)
NAMED = clone(MODEL).set_params(positive_class="has3", tol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_table_is_its_bags(weighted):
    weight = 1.0 + np.arange(60) % 3 if weighted else None
    y = np.where(Y == 1, "has3", "no3")
    plain = clone(NAMED).fit(BAGS, y, weight)
    of_rows = clone(NAMED).fit(TABLE, LABEL, None if weight is None else np.repeat(weight, SIZES), OWNER)
    of_bags = clone(NAMED).fit(TABLE, y, weight, groups=OWNER)
    for model in (of_rows, of_bags):
        np.testing.assert_array_equal(model.coef_, plain.coef_)
        np.testing.assert_array_equal(model.latent_, plain.latent_)
        assert model.classes_.tolist() == ["has3", "no3"] and model.positive_class_ == "has3"
    np.testing.assert_array_equal(of_rows.decision_function(TABLE, OWNER), plain.decision_function(BAGS))
    np.testing.assert_array_equal(of_rows.predict(TABLE, OWNER), plain.predict(BAGS))
    np.testing.assert_array_equal(of_rows.predict_latent(TABLE, groups=OWNER), plain.predict_latent(BAGS))
    np.testing.assert_array_equal(of_rows.predict_latent(TABLE, LABEL, OWNER), plain.predict_latent(BAGS, y))
    for labels, weights in ((LABEL, None if weight is None else np.repeat(weight, SIZES)), (y, weight)):
        assert of_rows.score(TABLE, labels, weights, OWNER) == plain.score(BAGS, y, weight) > 0.7
    for one, other in zip(
        NAMED.regularization_path(TABLE, LABEL, [0.1, 1.0], groups=OWNER), NAMED.regularization_path(BAGS, y, [0.1, 1.0])
    ):
        np.testing.assert_array_equal(one.coef_, other.coef_)


def test_rows_of_a_bag_may_lie_anywhere():
    mixed = np.random.default_rng(3).permutation(len(TABLE))
    came = list(dict.fromkeys(OWNER[mixed].tolist()))
    plain = clone(NAMED).fit(BAGS, np.where(Y == 1, "has3", "no3"))
    model = clone(NAMED).fit(TABLE[mixed], LABEL[mixed], groups=OWNER[mixed])
    assert model.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=3e-5)
    own = dict(zip(dict.fromkeys(OWNER.tolist()), plain.decision_function(BAGS)))
    np.testing.assert_allclose(plain.decision_function(TABLE[mixed], OWNER[mixed]), [own[name] for name in came], atol=1e-12)
    best = [
        np.flatnonzero(OWNER[mixed] == name)[z] for name, z in zip(came, model.predict_latent(TABLE[mixed], groups=OWNER[mixed]))
    ]
    score = (TABLE @ model.coef_[0])[mixed]
    assert all(score[row] == score[OWNER[mixed] == name].max() for row, name in zip(best, came))
    sparse = sp.csr_array(TABLE[mixed])
    np.testing.assert_allclose(model.decision_function(sparse, OWNER[mixed]), model.decision_function(TABLE[mixed], OWNER[mixed]))


def test_frames_of_candidates_and_files(tmp_path):
    frame = pd.DataFrame(TABLE, columns=list("abcd"))
    model = clone(NAMED).fit(frame, pd.Series(LABEL), groups=pd.Series(OWNER))
    assert model.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("dcba")], OWNER)
    mm.save(model, tmp_path / "bags.safetensors")
    again = mm.load(tmp_path / "bags.safetensors")
    assert again.positive_class_ == "has3"
    np.testing.assert_array_equal(again.decision_function(frame, OWNER), model.decision_function(frame, OWNER))
    np.testing.assert_array_equal(again.predict(frame, OWNER), model.predict(frame, OWNER))
    step = model.regularization_path(frame, LABEL, [1.0], groups=OWNER)[0]
    assert step.feature_names_in_.tolist() == list("abcd")
    assert not hasattr(model.fit(BAGS, np.where(Y == 1, "has3", "no3")), "feature_names_in_")


def test_searches_of_tables_keep_bags_whole():
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(NAMED).set_params(tol=1e-2).set_fit_request(groups=True).set_score_request(groups=True)
        search = GridSearchCV(model, {"C": [0.1, 1.0]}, cv=GroupKFold(3)).fit(TABLE, LABEL, groups=OWNER)
        assert search.best_score_ > 0.7


@pytest.mark.parametrize(
    ("X", "y", "weight", "groups", "words"),
    [
        (
            TABLE,
            LABEL[:-1],
            None,
            OWNER,
            r"y has shape \(\d+,\); a table of \d+ rows in 60 groups takes one entry for each row, or one",
        ),
        (TABLE, LABEL, np.ones(59), OWNER, "sample_weight has shape"),
        (
            TABLE,
            np.r_[["no3", "has3"], LABEL[2:]],
            None,
            np.r_[["one"] * 3, OWNER[3:]],
            "group 'one' has 'no3' in row 0 and 'has3' in row 1",
        ),
        (TABLE, LABEL, np.arange(len(LABEL)), OWNER, "sample_weight must have one entry for all rows of a group; group 'bag "),
        (TABLE, LABEL, None, OWNER[:-1], "groups has shape"),
        (TABLE, LABEL, None, np.where(OWNER == "bag 1", None, OWNER), "it holds None or NaN"),
        (TABLE, LABEL, None, np.where(OWNER == "bag 1", pd.NA, OWNER), "it holds None or NaN"),
        (TABLE, LABEL, None, np.where(OWNER == "bag 1", 1, OWNER.astype(object)), "groups must be of one kind"),
        (BAGS, LABEL, None, OWNER, "With groups X is one table"),
        (X, LABEL, None, OWNER, "With groups X is one table"),
        (np.where(np.isin(TABLE, TABLE[4, 2]), np.nan, TABLE), LABEL, None, OWNER, "contains NaN"),
        (TABLE, np.where(LABEL == "no3", "none", LABEL), None, None, "groups= names the bag of each"),
        (TABLE, np.full(len(LABEL), "no3"), None, OWNER, "at least 2 classes"),
    ],
)
def test_bad_tables_are_named(X, y, weight, groups, words):
    with pytest.raises(ValueError, match=words):
        clone(NAMED).fit(X, y, weight, groups)


def test_bad_tables_to_predict():
    model = clone(NAMED).fit(TABLE, LABEL, groups=OWNER)
    with pytest.raises(ValueError, match="expecting 4 features"):
        model.predict(TABLE[:, :2], OWNER)
    with pytest.raises(ValueError, match="groups has shape"):
        model.predict(TABLE, OWNER[:-1])
    with pytest.raises(ValueError, match="y has shape"):
        model.score(TABLE, LABEL[:-1], groups=OWNER)
    with pytest.raises(ValueError, match="groups= names the bag"):
        model.predict(TABLE)


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
