"""Sequences whose features are all 1: rows without values, in the memory of the vectorizer."""

import numpy as np
import pytest

import maxmargin as mm
from maxmargin.data import rows
from maxmargin.structures import Chain
from maxmargin.structures.labelling import kind_of_products


def indicators(names):
    """Sentences of three positions and fewer as the vectorizer makes them, and the same as dense matrices"""
    X = mm.SequenceVectorizer().fit_transform(names)
    return X, [x.toarray() for x in X]


def test_rows_of_ones_have_no_values():
    names = [[["a", "b"], ["c"], []], [], [["b", "c", "d"]], [["a"], ["a", "d"]]]
    y = [["x", "y", "x"], [], ["y"], ["x", "x"]]
    X, dense = indicators(names)
    structure = Chain(forbidden=[("y", "y")])
    structure.size(X, y)
    for samples, shared in ((X, True), ([x.copy() for x in X], False), ([x.astype(np.int64) for x in X], False)):
        found, wanted = structure.encode(samples, y).graphs, structure.encode(dense, y).graphs
        assert isinstance(found.X, rows.Indicators)
        assert rows.shape(found.X) == rows.shape(wanted.X) == (6, 4)
        assert np.shares_memory(found.X.indices, X[0].indices) is shared
        np.testing.assert_array_equal(found.gram, wanted.gram)
        assert found.gram.dtype == np.uint16
        np.testing.assert_array_equal(rows.column_sizes(found.X), np.ones(4))
        assert rows.mean_length(found.X) == 1 + 9 / 6
    model = mm.StructuredSVM(structure, tol=1e-6, random_state=0).fit(X, y)
    plain = mm.StructuredSVM(structure, tol=1e-6, random_state=0).fit(dense, y)
    np.testing.assert_array_equal(model.w_, plain.w_)
    assert model.predict(X) == plain.predict(dense) == [model.predict([x])[0] for x in X]
    twice = [2.0 * x for x in X]
    assert not isinstance(structure.encode(twice, y).graphs.X, rows.Indicators)
    assert model.predict(twice) == [model.predict([x])[0] for x in twice]


def test_inner_products_that_short_integers_do_not_hold():
    most = np.iinfo(np.uint16).max - 3
    for length, kind in ((most, np.uint16), (most + 1, np.float64)):
        row = rows.Indicators(np.arange(length, dtype=np.int32), np.array([[0, length]]), 1.0, length)
        assert kind_of_products(row) is kind


def test_rows_of_ones_are_checked_as_others_are():
    x, dense = indicators([[["a", "b"], ["b"]]])[0][0], np.array([[1.0, 1.0], [0.0, 1.0]])
    model = mm.StructuredSVM("chain", random_state=0).fit([x], [[0, 1]])
    turned, wrong = x.copy(), x.copy()
    turned.indices[:2] = 1, 0
    assert model.predict([turned])[0] == model.predict([turned, turned])[0] == model.predict([dense])[0]
    wrong.indices[0] = 7
    for samples in ([wrong], [wrong, x]):
        with pytest.raises(ValueError, match="not a valid CSR matrix"):
            model.predict(samples)
