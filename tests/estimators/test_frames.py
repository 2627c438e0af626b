"""Column names where scikit-learn alone would lose them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import maxmargin as mm
from maxmargin.data import matrices
from maxmargin.data.table import table_of
from maxmargin.estimators import frames
from maxmargin.estimators.classifier import counted
from maxmargin.estimators.posing import SeveralClasses, TwoClasses
from maxmargin.losses import CrammerSingerLoss, HingeLoss
from maxmargin.problems.base import PLAIN_TERM

COLUMNS = {"b": [1.0, 2.0, -1.0, -2.0], "a": [1.0, -1.0, 1.0, -1.0]}


class Bare(pl.DataFrame):
    """A frame as polars 2 has it, whichever polars this is."""

    __module__ = "polars.dataframe.frame"

    @property
    def __dataframe__(self):
        raise AttributeError("__dataframe__")


def test_names_of_polars_reach_a_scikit_learn_that_asks_the_old_way(monkeypatch):
    monkeypatch.setattr(frames, "BLIND", True)
    seen = frames.named(Bare(COLUMNS))
    assert list(seen.__dataframe__().column_names()) == ["b", "a"] and seen.shape == (4, 2) and len(seen) == 4
    np.testing.assert_array_equal(np.asarray(seen), np.column_stack(list(COLUMNS.values())))
    np.testing.assert_array_equal(np.asarray(seen, dtype=np.float32), np.column_stack(list(COLUMNS.values())).astype(np.float32))


@pytest.mark.parametrize("blind", [False, True])
def test_others_are_left_alone(monkeypatch, blind):
    monkeypatch.setattr(frames, "BLIND", blind)
    for X in (np.eye(2), [[1.0]], pd.DataFrame(COLUMNS), pl.DataFrame(COLUMNS).lazy(), pl.Series([1.0]), "train.svm"):
        assert frames.named(X) is X
    assert (type(frames.named(Bare(COLUMNS))) is frames.Named) == blind


@pytest.mark.parametrize("model", [mm.SVMClassifier(), mm.MultilabelSVMClassifier()])
def test_names_of_polars_are_kept_and_asked_for(model):
    X, y = pl.DataFrame(COLUMNS), np.array([1, 1, 0, 0])
    model.fit(X, y if isinstance(model, mm.SVMClassifier) else np.column_stack([y, 1 - y]))
    assert model.feature_names_in_.tolist() == ["b", "a"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.select("a", "b"))


def test_plain_arrays_are_taken_as_they_are_and_others_are_not(monkeypatch):
    X, y = np.column_stack(list(COLUMNS.values())), np.array([1, 1, 0, 0])
    asked = []
    whole = frames.validation.validate_data
    monkeypatch.setattr(frames.validation, "validate_data", lambda *given, **options: asked.append(1) or whole(*given, **options))
    model = mm.SVMClassifier(random_state=0).fit(X, y)
    assert model.n_features_in_ == 2 and model.predict(X).shape == (4,) and not asked
    for bad, text in ((X[:, :1], "2 features"), (np.where(X > 1, np.nan, X), "NaN"), (X[:0], "0 sample"), (X[0], "2D array")):
        with pytest.raises(ValueError, match=text):
            model.predict(np.ascontiguousarray(bad))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:3])
    model.fit(pd.DataFrame(X, columns=["b", "a"]), y)
    assert list(model.feature_names_in_) == ["b", "a"] and model.fit(X, y) is model and not hasattr(model, "feature_names_in_")


def test_parameters_that_were_valid_are_told_from_others_of_the_same_value():
    X, y = np.column_stack(list(COLUMNS.values())), np.array([1, 1, 0, 0])
    model = mm.SVMClassifier(max_iter=1000, random_state=0).fit(X, y).fit(X, y)
    with pytest.raises(ValueError, match="max_iter"):
        model.set_params(max_iter=1000.0).fit(X, y)
    with pytest.raises(ValueError, match="'C'"):
        model.set_params(max_iter=1000, C=-1.0).fit(X, y)


# ---- large input: looked at in pieces, by threads ---------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_whatever_is_not_finite_is_found_in_any_piece(n_jobs, dtype, bad, monkeypatch):
    monkeypatch.setattr(frames, "NUMBERS_LOOKED_AT", 7)
    array = np.ones((5, 6), dtype)
    assert frames.surely_finite(array, n_jobs) and frames.surely_finite(array[:0], n_jobs)
    for place in (0, 6, 7, 13, 29):
        broken = array.copy()
        broken.flat[place] = bad
        assert not frames.surely_finite(broken, n_jobs) and not frames.surely_finite(broken.T, n_jobs)


def sparse_samples(dtype=np.float64, index=np.int32):
    rng = np.random.default_rng(0)
    X = sp.random(40, 9, 0.3, format="csr", dtype=dtype, random_state=1)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X, rng.integers(0, 2, 40)


OPTIONS = {"accept_sparse": "csr", "accept_large_sparse": True, "dtype": [np.float64, np.float32], "reset": True}


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_a_plain_csr_matrix_is_given_back_without_scikit_learn(form, index, monkeypatch):
    monkeypatch.setattr(frames.validation, "validate_data", None)
    X, y = sparse_samples(index=index)
    X, model = form(X), mm.SVMClassifier(n_jobs=2)
    found = frames.validate_data(model, X, y, **OPTIONS)
    assert found[0] is X and found[1] is y and model.n_features_in_ == 9


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_what_is_wrong_with_a_csr_matrix_is_said_as_ever(n_jobs, monkeypatch):
    monkeypatch.setattr(frames, "NUMBERS_LOOKED_AT", 16)
    monkeypatch.setattr(matrices, "ENTRIES_LOOKED_AT", 16)
    model = mm.SVMClassifier(n_jobs=n_jobs)
    X, y = sparse_samples()
    X.data[-1] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(X, y)
    for place, column in ((0, -1), (-1, 9)):
        X, y = sparse_samples()
        X.indices[place] = column
        with pytest.raises(ValueError, match="not a valid CSR matrix"):
            model.fit(X, y)
    X, y = sparse_samples()
    X.indptr[3] = X.indptr[-1] + 5  # a row that would end beyond all entries
    with pytest.raises(ValueError, match="not a valid CSR matrix"):
        model.fit(X, y)
    X, y = sparse_samples()
    with pytest.raises(TypeError, match="Sparse data was passed"):
        frames.validate_data(model, X, y, **{**OPTIONS, "accept_sparse": False})


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_rows_in_order_and_out_of_it(n_jobs, monkeypatch):
    monkeypatch.setattr(matrices, "ENTRIES_LOOKED_AT", 8)
    X, _ = sparse_samples()
    assert matrices.all_in_order(X, n_jobs) and matrices.checked_matrix(X, n_jobs) is X
    row = int(np.argmax(np.diff(X.indptr) > 1))
    first = X.indptr[row]
    swapped, twice = X.copy(), X.copy()
    for values in (swapped.data, swapped.indices):
        values[[first, first + 1]] = values[[first + 1, first]]
    assert not matrices.all_in_order(swapped, n_jobs) and matrices.checked_matrix(swapped, n_jobs) is swapped
    twice.indices[first + 1] = twice.indices[first]
    checked = matrices.checked_matrix(twice, n_jobs)
    assert checked is not twice and checked.nnz == X.nnz - 1
    np.testing.assert_array_equal(checked.toarray(), twice.toarray())


@pytest.mark.parametrize("values", [[0, 1], [-1, 1], [3, 4, 5], [7, 9, 12], [5], [-3, 200]])
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16])
def test_labels_are_counted_as_by_unique(values, dtype):
    if np.iinfo(dtype).min > min(values) or np.iinfo(dtype).max < max(values):
        return
    y = np.random.default_rng(0).choice(np.array(values, dtype), 100)
    found, expected = counted(y), np.unique(y, return_inverse=True)
    assert found[0].dtype == dtype
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("factors", [[1.0, 1.0], [0.5, 3.0]])
def test_what_two_classes_become(factors):
    cost, code, weight = np.array([[0.0, 2.0], [5.0, 0.0]]), np.array([0, 1, 1, 0]), np.array([1.0, 2.0, 3.0, 4.0])
    posing = TwoClasses(HingeLoss(), cost, np.array(factors))
    problem = posing.problem(table_of(np.eye(4)), code, weight, PLAIN_TERM, None)
    np.testing.assert_array_equal(problem.target[0], [-1.0, 1.0, 1.0, -1.0])
    np.testing.assert_array_equal(problem.target[1], [2.0, 5.0, 5.0, 2.0])
    np.testing.assert_array_equal(problem.weight, weight * np.array(factors)[code])
    several = SeveralClasses(CrammerSingerLoss(), cost, np.array(factors))
    found = several.problem(table_of(np.eye(4)), code, weight, PLAIN_TERM, None)
    np.testing.assert_array_equal(found.weight, problem.weight)
