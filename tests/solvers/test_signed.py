"""Weights some of which must not be negative, and weights at rest."""

import numpy as np
import pytest
import scipy.sparse as sp

import maxmargin as mm
from maxmargin.solvers.polytope import resting
from maxmargin.solvers.polytope.resting import ZEROS, at_rest, go_beyond, is_whole, roused, share_at_rest, with_added
from maxmargin.solvers.polytope.signed import given_up, space_of, unclipped_at_rest, unclipped_copy


@pytest.mark.parametrize("bound", [[], [0, 5, 7]])
def test_what_was_clipped_comes_back(bound):
    v = np.random.default_rng(0).normal(size=(3, 4))
    space = space_of(v.copy(), np.array(bound, np.int64))
    np.testing.assert_array_equal(unclipped_copy(space), v)
    np.testing.assert_array_equal(roused(unclipped_at_rest(space), np.empty(v.shape)), v)
    np.testing.assert_array_equal(given_up(space), v)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("size", [1, 16, 17, 100, 128])
def test_numbers_at_rest(size, share, monkeypatch):
    monkeypatch.setattr(resting, "NUMBERS_OF_A_PART", 16)
    rng = np.random.default_rng(size)
    a, b = np.where(rng.random((2, size)) < share, rng.normal(size=(2, size)), 0.0)
    out, rests = np.empty(size), at_rest(a)
    assert is_whole(rests) == (size <= 16 or 2 * np.count_nonzero(a) + 2 > size)
    np.testing.assert_array_equal(roused(rests, out), a)
    np.testing.assert_array_equal(roused(with_added(rests, b), out), a + b)
    np.testing.assert_array_equal(roused(with_added(ZEROS, b), out), b)
    np.testing.assert_array_equal(roused(share_at_rest(rests, 3.0), out), a / 3.0)


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_going_on_from_what_rests(share, monkeypatch):
    monkeypatch.setattr(resting, "NUMBERS_OF_A_PART", 16)
    rng = np.random.default_rng(3)
    now, before = np.where(rng.random((2, 5, 20)) < share, rng.normal(size=(2, 5, 20)), 0.0)
    wanted = (now - before) * 0.7 + now
    go_beyond(now, at_rest(before), 0.7)
    np.testing.assert_array_equal(now, wanted)


def test_zeros_take_no_memory_at_rest():
    array = np.zeros((1000, 10, 12))
    array[::100] = 1.0
    places, values = at_rest(array)
    assert places.size == values.size == 1200
    np.testing.assert_array_equal(roused(at_rest(array), np.ones(array.shape)), array)


def test_weights_that_rest_make_no_difference(monkeypatch):
    """Large arrays of weights rest without their zeros, small ones as they are: the same passes, bit by bit."""
    rng = np.random.default_rng(0)
    X = [sp.csr_array((rng.random((n, 60)) < 0.05).astype(float)) for n in rng.integers(2, 6, size=30)]
    y = [rng.integers(3, size=x.shape[0]) for x in X]
    found = []
    for part in (1 << 16, 16):
        monkeypatch.setattr(resting, "NUMBERS_OF_A_PART", part)
        model = mm.StructuredSVM("chain", 0.5, tol=1e-3, random_state=0).fit(X, y)
        assert model.certificate_.converged
        found.append(model)
    np.testing.assert_array_equal(found[0].w_, found[1].w_)
    assert [one.primal for one in found[0].history_] == [one.primal for one in found[1].history_]
