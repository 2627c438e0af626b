"""Structured predictions pack the weights once, and compute no inner products."""

import pickle
import tracemalloc

import numpy as np
import pytest

import maxmargin as mm
from maxmargin.structures import Chain, Multiclass, labelling
from maxmargin.structures.chain import _path
from maxmargin.structures.encoded.rooted import chained, rooted

rng = np.random.default_rng(0)
X = [rng.normal(size=(n, 3)) for n in (4, 5, 1, 7, 6, 4)]
TAGS = [x.argmax(axis=1) for x in X]


def fitted():
    return mm.StructuredSVM(Chain(), tol=1e-2, random_state=0).fit(X, TAGS)


def same(found, expected):
    return all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_weights_are_packed_once(monkeypatch):
    model, calls, unflatten = fitted(), [], Chain.unflatten
    monkeypatch.setattr(Chain, "unflatten", lambda self, w: calls.append(w) or unflatten(self, w))
    before = len(pickle.dumps(model))
    first = model.predict(X)
    assert all(same(model.predict([x]), [output]) for x, output in zip(X, first, strict=True))
    assert len(calls) == 1
    assert len(pickle.dumps(model)) == before  # what is packed is made again elsewhere
    again = pickle.loads(pickle.dumps(model))
    assert same(again.predict(X), first) and same(again.predict(X), first)
    assert len(calls) == 2


def test_weights_that_were_changed_are_not_answered_with_the_old_ones():
    model = fitted()
    first = model.predict(X)
    with pytest.raises(ValueError, match="read-only"):
        model.w_[:] = 0.0
    model.w_ = -model.w_
    turned = model.predict(X)
    assert not same(turned, first)
    assert same(turned, model.structure_.decode_all(model.w_, X))
    model.w_ *= -1.0  # the user's own array, in place
    assert same(model.predict(X), first)
    model.w_.flags.writeable = False
    model.predict(X)
    model.structure_ = Chain(n_labels=3, first_last_bias=False, bias=False)
    assert model.structure_.size([np.zeros((2, 6))], [[0, 1]]) == model.w_.size  # as many weights in another order
    given = [rng.normal(size=(4, 6))]
    assert same(model.predict(given), model.structure_.decode_all(model.w_, given))


@pytest.mark.parametrize("structure", [Chain(), Multiclass()])
def test_no_inner_products_for_predictions(structure, monkeypatch):
    given, y = (X, TAGS) if isinstance(structure, Chain) else (np.concatenate(X), np.concatenate(TAGS))
    model = mm.StructuredSVM(structure, tol=1e-2, random_state=0).fit(given, y)
    expected = model.predict(given)
    monkeypatch.setattr(labelling, "node_grams", None)
    assert same(model.predict(given), expected)
    huge = [1e200 * x for x in X] if isinstance(structure, Chain) else 1e200 * given
    with pytest.raises(ValueError, match="Sample 0 of X is too large"):  # as in fit
        model.predict(huge)


@pytest.mark.compiled
def test_memory_of_a_long_chain():
    model, length = fitted(), 10_000
    given = [np.tile(X[0], (length // 4, 1))]
    model.predict(X)
    tracemalloc.start()
    try:
        assert len(model.predict(given)[0]) == length
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 400 * 8 * length  # inner products alone would be length^2 numbers


@pytest.mark.parametrize("size", [1, 2, 6])
def test_chains_are_laid_out_as_trees_are(size):
    edges, kinds = _path(size)
    plain, found = rooted(size, edges, kinds, "x"), chained(size, kinds)
    for name in ("order", "source", "target", "kind", "place"):
        np.testing.assert_array_equal(getattr(found, name), getattr(plain, name))
    for left, right in zip(found.plan, plain.plan, strict=True):
        np.testing.assert_array_equal(left, right)
        assert left.dtype == right.dtype
