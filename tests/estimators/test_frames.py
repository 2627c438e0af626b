"""Column names where scikit-learn alone would lose them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import maxmargin as mm
from maxmargin.estimators import frames

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
