"""C by cross-validation on sources: folds by a hash of the rows, and the same result as with these folds in memory."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import f1_score, make_scorer

import maxmargin as mm
from maxmargin.data.sources.base import Dealt
from maxmargin.data.sources.dealt import DealtSamples, folds_of_rows

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
SCORE = X @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.7 * rng.normal(size=60)
TWO, FOUR = np.where(SCORE > 0, "yes", "no"), np.digitize(SCORE, [-1, 0, 1])
MANY = (X @ rng.normal(size=(4, 3)) + 0.5 * rng.normal(size=(60, 3)) > 0).astype(float)
WEIGHT = np.arange(60) % 3 + 0.5
CS = [0.01, 0.3, 10.0]
TIGHT = {"tol": 1e-6, "search_tol": 1e-6, "random_state": 3}


def blocks(y, weight=None):
    parts = [slice(0, 25), slice(25, 26), slice(26, 60)]
    return [(X[part], y[part]) if weight is None else (X[part], y[part], weight[part]) for part in parts]


def hashed(folds, seed):
    part = folds_of_rows(60, folds, seed)
    return [(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(folds)]


def test_chosen_samples_keep_their_outputs_and_weights():
    rows = [np.full((k + 1, 2), float(k)) for k in range(5)]
    given = [(rows[:2], ["a", "b"], [0.5, 2.0]), (rows[2:], ["c", "d", "e"])]
    found = list(mm.Samples(DealtSamples(mm.Samples(given), np.array([False, True, True, False, True]))).blocks())
    assert [len(x) for block in found for x in block.X] == [2, 3, 5]
    assert [y for block in found for y in block.y] == ["b", "c", "e"]
    assert [w for block in found for w in block.weight] == [2.0, 1.0, 1.0]


CASES = {
    "two": (mm.SVMClassifierCV(CS, **TIGHT), TWO, None),
    "four, standardised": (mm.SVMClassifierCV(CS, standardize=True, class_weight={0: 1.3, 1: 1.1}, **TIGHT), FOUR, None),
    "top-k": (mm.TopKSVMClassifierCV(CS, k=2, **TIGHT), FOUR, "f1_macro"),
    "regression": (mm.SVMRegressorCV(CS, **TIGHT), SCORE, None),
    "scores of one's own": (mm.SVMClassifierCV(CS, **TIGHT), TWO, make_scorer(f1_score, pos_label="yes")),
    "decisions": (mm.SVMClassifierCV(CS, **TIGHT), TWO, "roc_auc"),
    "labels": (mm.MultilabelSVMClassifierCV(CS, **TIGHT), MANY, "f1_micro"),
    "labels, default": (mm.MultilabelSVMClassifierCV(CS, **TIGHT), MANY, None),
}


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_as_in_memory(case, weight):
    model, y, scoring = CASES[case]
    if weight is not None and case not in ("two", "regression"):
        return
    streamed = mm.open_source(blocks(sp.csr_array(y) if y.ndim == 2 else y, weight), multilabel=True if y.ndim == 2 else None)
    source = type(model)(**model.get_params(deep=False)).set_params(cv=3, scoring=scoring).fit(streamed)
    memory = type(model)(**model.get_params(deep=False)).set_params(cv=hashed(3, 3), scoring=scoring)
    memory.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(source.scores_, memory.scores_, rtol=1e-3 if case == "regression" else 1e-9)
    assert source.C_ == memory.C_ and np.ptp(memory.scores_.mean(axis=0)) > 0.01
    assert source.certificate_.primal == pytest.approx(memory.certificate_.primal, rel=1e-5)
    assert np.all(np.isnan(source.score_bounds_)) and source.score_bounds_.shape == (3, 3, 2)


def test_folds_are_the_same_every_time_and_about_equal():
    found = folds_of_rows(10_000, 5, 1)
    np.testing.assert_array_equal(found, folds_of_rows(10_000, 5, 1))
    np.testing.assert_array_equal(found[:70], folds_of_rows(70, 5, 1))  # a row's fold does not depend on how many there are
    assert np.all(np.abs(np.bincount(found, minlength=5) - 2000) < 200)
    assert 0.7 < np.mean(found != folds_of_rows(10_000, 5, 2)) < 0.9


def test_a_source_without_some_of_its_rows():
    source = mm.open_source(blocks(TWO, WEIGHT))
    rows = np.flatnonzero(folds_of_rows(60, 3) == 1)
    part = Dealt(source, rows, np.unique(TWO[rows]))
    for seed in (None, 4):
        read = list(part.blocks(seed))
        order = np.argsort(np.concatenate([block.rows for block in read]))
        np.testing.assert_array_equal(np.concatenate([block.rows for block in read])[order], np.arange(rows.size))
        np.testing.assert_array_equal(np.concatenate([block.X for block in read])[order], X[rows])
        np.testing.assert_array_equal(np.concatenate([block.y for block in read])[order], TWO[rows])
        np.testing.assert_array_equal(np.concatenate([block.weight for block in read])[order], WEIGHT[rows])
    assert part.n_rows == rows.size and part.n_features == 4 and part.dtype == np.float64 and not part.multilabel
    assert "rows of" in str(part) and "Dealt" in repr(part) and part.feature_names is None and part.n_labels is None


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (mm.SVMClassifierCV(CS, cv=hashed(3, 0)), TWO, "cv must be a number"),
        (mm.SVMClassifierCV(CS, probability="sigmoid"), TWO, "needs the samples in memory"),
        (mm.SVMClassifierCV(CS, kernel="rbf"), TWO, "kernel"),
        (mm.SVMClassifierCV(CS, cv=61), TWO, "has 60 rows, too few for 61 folds"),
        (mm.SVMClassifierCV(CS, cv=2), np.where(np.arange(60) == 7, "rare", TWO), "All rows of class 'rare' are in fold"),
        (mm.SVMClassifierCV(CS, solver="dual_coordinate"), TWO, "read by OnlineDual"),
        (mm.MultilabelSVMClassifierCV(CS), TWO, "an indicator matrix"),
    ],
)
def test_bad_input(model, y, message):
    with pytest.raises(ValueError, match=message):
        model.fit(mm.open_source(blocks(y)))


def test_labels_come_with_the_source():
    with pytest.raises(ValueError, match="leave y out"):
        mm.SVMClassifierCV(CS).fit(mm.open_source(blocks(TWO)), TWO)


# ---- structured samples -------------------------------------------------------------------------------------------------------

TAGS = [np.array([0, 2]), np.array([1, 1]), *(rng.integers(0, 3, size=2 + k % 4) for k in range(28))]
SENTENCES = [np.eye(3)[tags] + 0.6 * rng.normal(size=(tags.size, 3)) for tags in TAGS]
WEIGHED = np.arange(30) % 2 + 1.0


def some(first, last):
    return SENTENCES[first:last], TAGS[first:last], WEIGHED[first:last]


def right(model, X, y):
    return float(np.mean([np.mean(found == tags) for found, tags in zip(model.predict(X), y, strict=True)]))


@pytest.mark.parametrize("scoring", [None, right], ids=["default", "own"])
def test_structured_samples_as_in_memory(scoring):
    """Of the first block one sample is held out, and its labels with it: the whole source tells the labels."""
    part = folds_of_rows(30, 3, 2)
    assert part[0] != part[1]
    pairs = [(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(3)]
    source = mm.Samples([some(0, 2), some(2, 3), some(3, 30)])
    Cs, options = [0.02, 0.1], {"tol": 1e-3, "search_tol": 1e-3, "random_state": 2, "scoring": scoring}
    found = mm.StructuredSVMCV(mm.structures.Chain(), Cs, cv=3, **options).fit(source)
    memory = mm.StructuredSVMCV(mm.structures.Chain(), Cs, cv=pairs, **options).fit(SENTENCES, TAGS, WEIGHED)
    np.testing.assert_allclose(found.scores_, memory.scores_, atol=0.05)  # two labels of a fold
    assert found.C_ == memory.C_ and found.certificate_.primal == pytest.approx(memory.certificate_.primal, rel=2e-3)
    assert np.all(np.isnan(found.score_bounds_)) and len(found.predict(source)) == 30


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cv": 31}, "has 30 samples, too few for 31 folds"),
        ({"cv": [([0], [1])]}, "cv must be a number"),
        ({"solver": "bundle"}, "read by OnlineDual"),
        ({"class_weight": "balanced"}, "needs all samples at once"),
    ],
)
def test_structured_samples_refused(options, message):
    with pytest.raises(ValueError, match=message):
        mm.StructuredSVMCV(mm.structures.Chain(), CS, **options).fit(mm.Samples([some(0, 30)]))
