"""Labels by name: lists, frames, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import MultiLabelBinarizer

import maxmargin as mm
from maxmargin.data.indicators import checked_labels
from maxmargin.data.label_lists import given_labels, lists_of

LISTS = [["b", "a"], [], ["c"], ["a"]]
MATRIX = np.array([[1, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize(
    "given",
    [
        LISTS,
        [set(row) for row in LISTS],
        tuple(tuple(row) for row in LISTS),
        [np.array(row, dtype=object) for row in LISTS],
        [np.array(row, dtype=str) for row in LISTS],
        pd.Series(LISTS),
        pl.Series([*LISTS]),
        np.array([*LISTS, None], dtype=object)[:-1],
        [["b", "a", "a"], *LISTS[1:]],
    ],
    ids=["lists", "sets", "tuples", "objects", "texts", "pandas", "polars", "array of lists", "twice"],
)
def test_lists_are_what_the_binarizer_makes_of_them(given):
    theirs = MultiLabelBinarizer()
    np.testing.assert_array_equal(theirs.fit_transform(LISTS), MATRIX)
    found = checked_labels(given)
    assert found.names.tolist() == theirs.classes_.tolist() and found.names.dtype == theirs.classes_.dtype
    assert not found.sparse and found.dtype == int
    np.testing.assert_array_equal(found.columns.present.toarray(), MATRIX)
    assert lists_of(sp.csr_array(MATRIX), found.names) == theirs.inverse_transform(MATRIX)


def test_numbers_and_tuples_are_names_too():
    numbers = checked_labels([[30, 7], [7], []])
    assert numbers.names.tolist() == [7, 30] and numbers.names.dtype == np.int64
    of_one_length = checked_labels([{30, 7}, {7, 9}])
    assert of_one_length.names.tolist() == [7, 9, 30]
    pairs = checked_labels([[("a", 1)], [("a", 0), ("a", 1)]])
    assert pairs.names.tolist() == [("a", 0), ("a", 1)]
    known = checked_labels([[30], [7]], names=[30, 9, 7])  # rows of one length, but not of that of the names
    np.testing.assert_array_equal(known.columns.present.toarray(), [[1, 0, 0], [0, 0, 1]])


def test_rows_of_indicators_stay_a_matrix():
    for given in (MATRIX.tolist(), MATRIX.astype(float).tolist(), [[1, None, 0], [0, 0, 1]]):
        assert checked_labels(given).names is None
    assert checked_labels([[1, None, 0], [0, 0, 1]]).columns.missing.nnz == 1
    assert checked_labels(MATRIX.tolist(), names=["x", "y", "z"]).names.tolist() == ["x", "y", "z"]


@pytest.mark.parametrize("kind", ["pandas", "polars", "nullable", "sparse"])
def test_frames_have_names(kind):
    names = ["z", "x", "y"]
    if kind == "polars":
        frame = pl.DataFrame(MATRIX, schema=names)
    else:
        frame = pd.DataFrame(MATRIX, columns=names)
    if kind == "nullable":
        frame = frame.astype("Int64")
        frame.loc[1, "x"] = pd.NA
    if kind == "sparse":
        frame = pd.DataFrame.sparse.from_spmatrix(sp.csr_matrix(MATRIX), columns=names)
    found = checked_labels(frame)
    assert found.names.tolist() == names and found.sparse == (kind == "sparse")
    np.testing.assert_array_equal(found.columns.present.toarray(), MATRIX)
    assert (found.columns.missing is not None) == (kind == "nullable")
    assert checked_labels(pd.DataFrame(MATRIX)).names is None
    if kind != "nullable":
        np.testing.assert_array_equal(mm.label_correlation(frame), mm.label_correlation(MATRIX))


def test_correlation_of_lists_is_that_of_their_matrix():
    np.testing.assert_array_equal(mm.label_correlation(LISTS), mm.label_correlation(MATRIX))


@pytest.mark.parametrize(
    ("given", "names", "message"),
    [
        ([["a", "x"], ["b"]], ["a", "b"], "Sample 0 has the label 'x', which is not among the labels 'a', 'b'"),
        (LISTS, ["a", "b", "a"], "classes has the label 'a' twice, for columns 0 and 2"),
        (MATRIX, ["a", "b"], "classes has 2 names; there are 3 labels"),
        (MATRIX, "abc", "must be a list of the names"),
        (pd.DataFrame(MATRIX, columns=["a", "a", "b"]), None, "Y has the label 'a' twice"),
        (pd.DataFrame(MATRIX, columns=["a", "b", "c"]), ["b", "a", "c"], "The columns of Y are 'a', 'b', 'c'; they must be 'b'"),
        ([[], []], None, "all of its lists are empty"),
        ([["a"], None], None, "Y has None for sample 1, which is no list of labels"),
        ([["a"], "ab"], None, "Y has 'ab' for sample 1"),
        ([["a"], {"b": 1}], None, "Y has {'b': 1} for sample 1"),
        ([["a"], [None, "b"]], None, "None or NaN, for sample 1"),
        ([["a"], [np.nan, "b"]], None, "None or NaN, for sample 1"),
        ([["a"], [3, "b"]], None, "labels of several kinds, int and str"),
        ([["a"], [["b"], "c"]], None, "a list within the list of sample 1"),
        ([[0, 1, 1], [1, 0]], None, "lists of 0 and 1 only"),
        ([["0", "1"], ["1", "0"]], None, "lists of 0 and 1 only"),
        ([[3, 5], [3, 8]], None, r"holds 3 in row 0, column 0.*give sets"),
        (["a", "b"], None, r"its shape is \(2,\). Lists of labels are taken"),
    ],
)
def test_what_is_refused(given, names, message):
    with pytest.raises(ValueError, match=message):
        checked_labels(given, names=names)


def test_a_binarizer_names_columns():
    theirs = MultiLabelBinarizer().fit(LISTS)
    assert given_labels(MATRIX, theirs).names.tolist() == ["a", "b", "c"]
