"""Labels of multi-label models: names, thresholds, the best k, and forms of predictions."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from helpers.multilabel import data
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer, StandardScaler

import maxmargin as mm
from maxmargin.data.indicators import checked_labels
from maxmargin.estimators.label_thresholds import best_threshold
from maxmargin.estimators.probability import folds_of_labels

NAMES = ["round", "blue", "red"]
X, Y = data(60)
LISTS = [[NAMES[k] for k in np.flatnonzero(row)] for row in Y]
SORTED = Y[:, [1, 2, 0]]  # blue, red, round


def model(**given):
    return mm.MultilabelSVMClassifier(random_state=0, **given)


# ---- names -------------------------------------------------------------------------------------------------


def test_names_of_every_form():
    plain = model().fit(X, Y)
    assert plain.classes_.tolist() == [0, 1, 2]
    binarizer = MultiLabelBinarizer(classes=NAMES)
    forms = {
        "pandas": model().fit(X, pd.DataFrame(Y, columns=NAMES)),
        "polars": model().fit(X, pl.DataFrame(Y, schema=NAMES)),
        "binarizer": model().fit(X, binarizer.fit_transform(LISTS), classes=binarizer),
        "sparse": model().fit(X, sp.csr_array(Y), classes=NAMES),
        "lists": model().fit(X, LISTS, classes=NAMES),
        "source": model(tol=1e-7).fit(mm.open_source([(X, sp.csr_array(Y))], multilabel=True), classes=NAMES),
    }
    for name, found in forms.items():
        assert found.classes_.tolist() == NAMES, name
        np.testing.assert_allclose(found.coef_, plain.coef_, atol=0.05 if name == "source" else 0)
        if name != "source":
            assert found.score(X, LISTS) == found.score(X, Y) == plain.score(X, Y) == accuracy_score(Y, plain.predict(X))
            assert found.score(X, pd.DataFrame(Y, columns=NAMES)) == plain.score(X, Y)
    by_lists = model().fit(X, LISTS)
    assert by_lists.classes_.tolist() == sorted(NAMES)
    np.testing.assert_array_equal(by_lists.predict(X), plain.predict(X)[:, [1, 2, 0]])
    assert by_lists.predict(X).dtype == int
    assert by_lists.predict_labels(X) == MultiLabelBinarizer().fit(LISTS).inverse_transform(by_lists.predict(X))
    assert plain.score(X, pd.DataFrame(Y, columns=NAMES)) == plain.score(X, Y)  # names are new to it


def test_fitted_again_without_names():
    found = model().fit(X, LISTS).fit(X, Y)
    assert found.classes_.tolist() == [0, 1, 2]


def test_lists_in_pipelines_searches_and_folds():
    pipeline = make_pipeline(StandardScaler(), model())
    assert pipeline.fit(X, LISTS)[-1].classes_.tolist() == sorted(NAMES)
    scores = cross_val_score(pipeline, X, LISTS, cv=KFold(3))  # a splitter: scikit-learn itself does not look into lists
    np.testing.assert_array_equal(scores, cross_val_score(pipeline, X, SORTED, cv=KFold(3)))
    search = mm.MultilabelSVMClassifierCV([0.01, 1.0], cv=3, random_state=0).fit(X, LISTS)
    matrix = mm.MultilabelSVMClassifierCV([0.01, 1.0], cv=3, random_state=0).fit(X, SORTED, classes=sorted(NAMES))
    np.testing.assert_array_equal(search.scores_, matrix.scores_)
    assert search.classes_.tolist() == matrix.classes_.tolist() == sorted(NAMES)
    assert search.score(X, LISTS) == matrix.score(X, SORTED)
    grid = GridSearchCV(model(), {"thresholds": [-0.5, 0.0, 0.5]}, scoring="f1_macro", cv=3).fit(X, Y)
    assert grid.best_params_["thresholds"] in (-0.5, 0.0)


def test_pieces_have_the_labels_of_the_first():
    whole = model(tol=1e-6).fit(X, Y)
    found = model(tol=1e-6).partial_fit(X[:30], LISTS[:30], classes=NAMES)
    found.partial_fit(X[30:50], LISTS[30:50]).partial_fit(X[50:], pd.DataFrame(Y[50:], columns=NAMES), classes=NAMES)
    assert found.classes_.tolist() == NAMES
    assert found.certificate_.dual <= whole.certificate_.primal
    np.testing.assert_allclose(found.coef_, whole.coef_, atol=0.05)
    with pytest.raises(ValueError, match="Sample 0 has the label 'green'"):
        found.partial_fit(X[:1], [["green"]])
    with pytest.raises(ValueError, match="classes must be those of the first call of partial_fit, "):
        found.partial_fit(X[:1], Y[:1], classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="classes must be given in the first call of partial_fit with lists"):
        model().partial_fit(X, LISTS)
    again = model().fit(X, LISTS)
    assert again.partial_fit(X[:20], LISTS[:20]).classes_.tolist() == sorted(NAMES)
    assert model().partial_fit(X, Y, classes=[0, 1]).classes_.tolist() == [0, 1, 2]  # what y holds


def test_attributes_of_classes_come_in_order():
    signatures = np.array([[1, 0, 1], [0, 1, 1]])
    named = mm.ZeroShotClassifier(model(), signatures).fit(X, pd.DataFrame(Y, columns=NAMES))
    np.testing.assert_array_equal(named.predict(X), mm.ZeroShotClassifier(model(), signatures).fit(X, Y).predict(X))
    assert named.estimator_.classes_.tolist() == NAMES
    with pytest.raises(ValueError, match="in the order of the signatures: lists have none"):
        mm.ZeroShotClassifier(model(), signatures).fit(X[:2], [["a", "b", "c"], ["b", "c", "d"]])


# ---- forms of predictions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [Y, sp.csr_array(Y)], ids=["dense", "sparse"])
def test_forms_of_predictions(labels):
    expected = model().fit(X, Y).predict(X)
    rows = pd.Index([f"row {k}" for k in range(len(X))])
    frame = pd.DataFrame(X, columns=list("abcd"), index=rows)
    for output in ("dense", "sparse", "pandas", "polars"):
        found = model(output=output).fit(frame, labels, classes=NAMES)
        predicted = found.predict(frame)
        if output == "sparse":
            assert predicted.format == "csr"
            predicted = predicted.toarray()
        elif output != "dense":
            assert list(predicted.columns) == NAMES
            assert output == "polars" or predicted.index.equals(rows)
        np.testing.assert_array_equal(np.asarray(predicted), expected)
        assert found.score(frame, Y) == accuracy_score(Y, expected)
        source = mm.open_source([(X[:25], sp.csr_array(Y[:25])), (X[25:], sp.csr_array(Y[25:]))], multilabel=True)
        unnamed = model(output=output).fit(X, labels)
        blocks = unnamed.predict(source)
        np.testing.assert_array_equal(blocks.toarray() if sp.issparse(blocks) else np.asarray(blocks), expected)
        assert unnamed.score(source) == found.score(frame, Y)
        assert unnamed.predict_labels(source) == unnamed.predict_labels(X)


# ---- thresholds --------------------------------------------------------------------------------------------


def f1_above(scores, present, weight, threshold):
    said = scores > threshold
    hits = weight[said & present].sum()
    total = weight[said].sum() + weight[present].sum()
    return 2 * hits / total if total else 0.0


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 12), st.integers(0, 10**6))
def test_no_threshold_has_a_better_f1(n, seed):
    rng = np.random.default_rng(seed)
    scores = np.round(rng.normal(size=n) * 2) / 2 if seed % 2 else rng.normal(size=n)  # with ties, and without
    present, weight = rng.random(n) < rng.random(), rng.integers(0, 3, n).astype(float)
    found = best_threshold(scores, present, weight)
    ends = np.sort(scores)
    tried = [ends[0] - 1.0, *ends, *(0.5 * (ends[:-1] + ends[1:])), 0.0]
    best = max(f1_above(scores, present, weight, threshold) for threshold in tried)
    assert f1_above(scores, present, weight, found) == pytest.approx(best, abs=1e-9)
    if f1_above(scores, present, weight, 0.0) >= best - 1e-12:
        assert found == 0.0
    repeated = np.repeat(np.arange(n), weight.astype(int))
    assert best_threshold(scores[repeated], present[repeated], np.ones(len(repeated))) == found


@pytest.mark.parametrize(
    ("scores", "has", "threshold"),
    [
        ([5, 3, 2, 1], [1, 1, 0, 0], 2.5),  # the middle of the gap
        ([-1, -3, -5], [1, 1, 0], -4.0),
        ([9, 7, 6, 4, 1], [1, 0, 0, 1, 0], 2.5),  # F1 is 2 / 3 in two gaps: the one next to zero
        ([-1, -4, -6, -7, -9], [1, 0, 0, 1, 0], -2.5),
        ([3, 2, -1, -2], [1, 1, 0, 0], 0.0),
        ([2, 2, 1], [1, 0, 0], 1.5),  # equal scores are not told apart
        ([-1, -2, -3], [0, 0, 1], np.nextafter(-3.0, -np.inf)),  # all of them
        ([4, 5, 6], [0, 0, 0], 0.0),  # no sample has it
        ([1.0 + 2.0**-51, 1.0 + 2.0**-52], [1, 0], 1.0 + 2.0**-52),  # nothing lies between them
    ],
)
def test_thresholds_of_small_data(scores, has, threshold):
    order = np.random.default_rng(0).permutation(len(scores))
    scores, present = np.array(scores, float)[order], np.array(has, bool)[order]
    assert best_threshold(scores, present, np.ones(len(scores))) == threshold


def test_a_score_on_the_threshold_is_not_above_it():
    on = model().fit(X, Y).decision_function(X)[0]
    assert model(thresholds=on).fit(X, Y).predict(X)[0].tolist() == [0, 0, 0]
    assert model(thresholds=np.nextafter(on, -np.inf)).fit(X, Y).predict(X)[0].tolist() == [1, 1, 1]


def test_thresholds_are_those_of_held_out_scores():
    weight = np.arange(len(X)) % 2 + 1.0
    labels = Y.astype(float)
    labels[:10, 2] = np.nan
    found = model(thresholds="f1", tol=1e-9).fit(X, labels, weight)
    fold = folds_of_labels("thresholds", "f1", checked_labels(labels).columns)
    scores = np.empty(Y.shape)
    for k in range(5):
        held = fold == k
        scores[held] = model(tol=1e-9).fit(X[~held], labels[~held], weight[~held]).decision_function(X[held])
    expected = [best_threshold(scores[:, k], labels[:, k] == 1, weight * ~np.isnan(labels[:, k])) for k in range(3)]
    np.testing.assert_allclose(found.thresholds_, expected, atol=1e-4)
    np.testing.assert_array_equal(found.predict(X), found.decision_function(X) > found.thresholds_)
    np.testing.assert_array_equal(found.coef_, model(tol=1e-9).fit(X, labels, weight).coef_)
    both = model(thresholds="f1", probability="sigmoid", tol=1e-9).fit(X, labels, weight)
    np.testing.assert_allclose(both.thresholds_, found.thresholds_, atol=1e-6)
    threads = model(thresholds="f1", n_jobs=2, tol=1e-9).fit(X, labels, weight)
    np.testing.assert_allclose(threads.thresholds_, found.thresholds_, atol=1e-6)


def test_rare_labels_are_found_by_their_thresholds():
    rng = np.random.default_rng(1)
    samples = rng.standard_normal((400, 6))
    rare = (samples @ rng.standard_normal((6, 4)) + rng.standard_normal((400, 4)) > 4.0).astype(int)
    assert 0 < rare.mean() < 0.15
    half = np.arange(400) < 200
    zero, tuned = (model(C=0.01, thresholds=each).fit(samples[half], rare[half]) for each in (0.0, "f1"))
    f1 = [f1_score(rare[~half], each.predict(samples[~half]), average="macro", zero_division=0.0) for each in (zero, tuned)]
    assert f1[1] > f1[0] + 0.1
    never = np.column_stack([rare, np.zeros(400, int), np.ones(400, int)])
    found = model(thresholds="f1").fit(samples, never)
    assert found.thresholds_[4] == 0.0 and np.all(found.predict(samples)[:, 5] == 1)


@pytest.mark.parametrize("thresholds", [None, 0.3, [0.1, -0.2, 0.0]])
def test_fixed_thresholds(thresholds):
    cuts = np.zeros(3) + (0.0 if thresholds is None else np.array(thresholds))
    source = mm.open_source([(X, sp.csr_array(Y))], multilabel=True)
    for found in (model(thresholds=thresholds).fit(X, Y), model(thresholds=thresholds).partial_fit(X, Y)):
        np.testing.assert_array_equal(found.thresholds_, cuts)
        np.testing.assert_array_equal(found.predict(X), found.decision_function(X) > cuts)
    assert model(thresholds=thresholds, tol=1e-2).fit(source).thresholds_.tolist() == cuts.tolist()
    kernel = model(thresholds=thresholds, kernel="rbf").fit(X, Y)
    np.testing.assert_array_equal(kernel.predict(X), kernel.decision_function(X) > cuts)


def test_thresholds_of_kernels_paths_and_searches():
    kernel = model(kernel="rbf", thresholds="f1").fit(X, Y)
    assert np.any(kernel.thresholds_ != 0.0)
    path = model(thresholds="f1", tol=1e-8).regularization_path(X, Y, [0.1, 1.0])
    np.testing.assert_allclose(path[1].thresholds_, model(thresholds="f1", tol=1e-8).fit(X, Y).thresholds_, atol=1e-4)
    assert not np.allclose(path[0].thresholds_, path[1].thresholds_)
    for scoring in ("f1_macro", None, "roc_auc"):
        search = mm.MultilabelSVMClassifierCV([0.1, 1.0], cv=2, thresholds="f1", scoring=scoring, random_state=0).fit(X, Y)
        again = model(C=search.C_, thresholds="f1").fit(X, Y)
        np.testing.assert_allclose(search.thresholds_, again.thresholds_, atol=0.05)
        assert np.all(np.isnan(search.score_bounds_))
    fixed = mm.MultilabelSVMClassifierCV([0.1, 1.0], cv=2, thresholds=0.4, search_tol=1e-4, random_state=0).fit(X, Y)
    assert not np.all(np.isnan(fixed.score_bounds_))
    assert np.all(fixed.score_bounds_[..., 0] <= fixed.scores_ + 1e-12)
    assert np.all(fixed.score_bounds_[..., 1] >= fixed.scores_ - 1e-12)
    part = slice(len(X) // 2)
    expected = model(C=0.1, thresholds=0.4).fit(X[30:], Y[30:]).score(X[part], Y[part])
    assert fixed.scores_[0, 0] == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0.1, 0.2], r"thresholds has shape \(2,\); it must be one number, or one for each of the 3 labels"),
        ([0.1, np.nan, 0.2], "thresholds must hold finite numbers|thresholds .*finite"),
        (np.nan, "thresholds .*finite"),
        ("f2", "The 'thresholds' parameter"),
        ({"a": 1.0}, "thresholds"),
    ],
)
def test_bad_thresholds(given, message):
    for fit in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=message):
            getattr(model(thresholds=given), fit)(X, Y)
    with pytest.raises(ValueError, match=message):
        model(thresholds=given).fit(mm.open_source([(X, sp.csr_array(Y))], multilabel=True))


def test_thresholds_that_cannot_be_tuned():
    with pytest.raises(ValueError, match=r"thresholds='f1' needs all samples at once.*for partial_fit give numbers"):
        model(thresholds="f1").partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"thresholds='f1' needs all samples at once.*for a source give numbers"):
        model(thresholds="f1").fit(mm.open_source([(X, sp.csr_array(Y))], multilabel=True))
    with pytest.raises(ValueError, match="thresholds='f1' holds out 5 folds of the samples, and there are 4"):
        model(thresholds="f1").fit(X[:4], Y[:4])
    with pytest.warns(ConvergenceWarning) as caught:
        model(thresholds="f1", C=100.0, tol=1e-12, max_iter=2).fit(X, Y)
    assert len(caught) == 1


# ---- the best k ----------------------------------------------------------------------------------------------


def test_top_k():
    found = model().fit(X, LISTS)
    scores = found.decision_function(X)
    best = found.predict_topk(X, 2)
    assert best.shape == (60, 2)
    np.testing.assert_array_equal(best, found.classes_[np.argsort(-scores, axis=1)[:, :2]])
    precision = np.mean([len(set(row) & set(true)) / 2 for row, true in zip(best.tolist(), LISTS)])
    assert found.score_topk(X, LISTS, k=2) == pytest.approx(precision)
    assert found.score_topk(X, SORTED, k=2) == pytest.approx(precision)
    assert found.score_topk(X, LISTS, k=3) == pytest.approx(Y.mean())
    times = np.arange(60) % 3
    repeated = np.repeat(np.arange(60), times)
    expected = found.score_topk(X[repeated], [LISTS[k] for k in repeated], k=2)
    assert found.score_topk(X, LISTS, k=2, sample_weight=times) == pytest.approx(expected)
    source = mm.open_source([(X[:25], sp.csr_array(SORTED[:25])), (X[25:], sp.csr_array(SORTED[25:]))], multilabel=True)
    np.testing.assert_array_equal(found.predict_topk(source, 2), best)
    assert found.score_topk(source, k=2) == pytest.approx(precision)


def test_what_scores_refuse():
    found = model().fit(X, LISTS)
    for k in (0, 4):
        with pytest.raises(ValueError, match=f"k must be between 1 and the 3 labels of the model, got {k}"):
            found.predict_topk(X, k)
    with pytest.raises(ValueError, match="k must be an integer"):
        found.score_topk(X, LISTS, k=1.5)
    for score in (found.score, found.score_topk):
        with pytest.raises(ValueError, match="Sample 1 has the label 'green'"):
            score(X[:2], [["red"], ["green", "blue"]])
        with pytest.raises(ValueError, match="labels that are not known"):
            score(X[:2], [[0, 1, np.nan], [1, 0, 0]])
        with pytest.raises(ValueError, match="The columns of Y are"):
            score(X, pd.DataFrame(Y, columns=NAMES))
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            score(X, LISTS[:-1])


# ---- kept ----------------------------------------------------------------------------------------------------


def test_names_and_thresholds_are_kept(tmp_path):
    found = model(thresholds="f1", output="pandas").fit(X, LISTS)
    mm.save(found, tmp_path / "model")
    for other in (pickle.loads(pickle.dumps(found)), mm.load(tmp_path / "model")):
        assert other.classes_.tolist() == found.classes_.tolist() and other.predict(X).equals(found.predict(X))
        np.testing.assert_array_equal(other.thresholds_, found.thresholds_)
        assert other.predict_labels(X) == found.predict_labels(X)
    assert clone(found).get_params() == found.get_params()
    del found.thresholds_  # a model of an earlier version has none
    np.testing.assert_array_equal(np.asarray(found.predict(X)), found.decision_function(X) > 0)
