"""Scores of decoded outputs, marginals of nodes and the best outputs beside the first, against lists of all outputs."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.structured import Brackets, bits, images, lines, words
from scipy.special import softmax

import maxmargin as mm
from maxmargin.structures import Chain, Graph, Multiclass, Segmentation, Tree
from maxmargin.structures.chain import best_paths

CYCLE = [(0, 1), (1, 2), (2, 3), (3, 0)]


def fitted(structure, X, y):
    model = mm.StructuredSVM(structure, C=0.5, tol=1e-2, random_state=0).fit(X, y)
    rng = np.random.default_rng(1)
    model.w_ = model.w_ + rng.normal(size=model.w_.size)  # all weights matter, and no two outputs tie
    return model


def drawn(sizes, K=3, seed=0):
    rng = np.random.default_rng(seed)
    y = [rng.integers(0, K, size) for size in sizes]
    y[0][: min(K, sizes[0])] = np.arange(K)[: sizes[0]]
    return [rng.normal(size=(size, 3)) for size in sizes], y


def chain():
    return fitted(Chain(), *words()), words()[0], words()[1]


def short_chain():
    X, y = drawn((4, 1, 5, 2))
    names = [np.array(["c", "a", "b"])[labels] for labels in y]
    X = [sp.csr_array(x) for x in X]
    return fitted(Chain(first_last_bias=False, bias=False), X, names), X, names


def tree():
    X, y = drawn((4, 1, 5, 3))
    edges = ([(0, 1), (2, 1), (1, 3)], [], [(4, 0), (1, 2)], [(0, 2)])
    given = [(x, np.array(e, int).reshape(-1, 2), np.arange(len(e)) % 2) for x, e in zip(X, edges, strict=True)]
    return fitted(Tree(), given, y), given, y


def graph():
    X, y = drawn((4, 4, 4), K=9)
    y = [labels % 2 for labels in y]
    return fitted(Graph(edges=CYCLE), X, y), X, y


def eight():
    """As many labels as fit into vectors."""
    X, y = drawn((2, 3, 1), K=8)
    y[1][:] = [2, 3, 4]
    return fitted(Chain(n_labels=8), X, y), X, y


def several():
    X, y = drawn((3, 4, 2))
    X, y = np.concatenate(X), np.concatenate(y)
    return fitted(Multiclass(), X, y), X, y


CASES = {"chain": chain, "names": short_chain, "tree": tree, "graph": graph, "eight labels": eight, "classes": several}


def listed(model, x, y):
    """All outputs of a sample, the best first, and their scores."""
    every = model.structure_.every_output(x, y, 10_000)
    scores = np.array([model.w_ @ model.structure_.joint_feature(x, output) for output in every])
    order = np.argsort(-scores)
    return [every[k] for k in order], scores[order]


@pytest.mark.parametrize("name", CASES)
def test_marginals_are_sums_over_all_outputs(name):
    model, X, y = CASES[name]()
    found = model.predict_marginals(X)
    labels = model.structure_.labels_.tolist()
    if name == "classes":
        assert found.shape == (len(y), len(labels))
    for x, truth, marginals in zip(X, y, found, strict=True):
        every, scores = listed(model, x, truth)
        expected = np.zeros((np.size(truth), len(labels)))
        for output, mass in zip(every, softmax(scores), strict=True):
            places = [labels.index(label) for label in np.atleast_1d(np.array(output)).tolist()]
            expected[np.arange(len(places)), places] += mass
        np.testing.assert_allclose(marginals.reshape(expected.shape), expected, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_scores_are_those_of_the_outputs(name):
    model, X, y = CASES[name]()
    outputs, scores = model.predict(X, return_score=True)
    assert all(np.array_equal(a, b) for a, b in zip(outputs, model.predict(X), strict=True))
    best = [listed(model, x, truth)[1][0] for x, truth in zip(X, y, strict=True)]
    np.testing.assert_allclose(scores, best)
    np.testing.assert_array_equal(model.decision_function(X), scores)


@pytest.mark.parametrize("name", ["segments", "parts", "plain Python"])
def test_scores_of_other_structures(name):
    structure = Segmentation({"a": 2, "b": (1, 3)}, transitions=True)
    X, y = {"segments": lambda: lines(structure), "parts": lambda: images("two parts")[1:], "plain Python": bits}[name]()
    structure = {"segments": structure, "parts": images("two parts")[0], "plain Python": Brackets()}[name]
    model = mm.StructuredSVM(structure, tol=1e-2, random_state=0).fit(X, y)
    outputs, scores = model.predict(X, return_score=True)
    expected = [model.w_ @ model.structure_.joint_feature(x, output) for x, output in zip(X, outputs, strict=True)]
    np.testing.assert_allclose(scores, expected, atol=1e-12)
    assert np.any(scores != 0.0)
    with pytest.raises(TypeError, match=f"Multiclass, Chain, Tree and Graph; {type(structure).__name__} gives no labels"):
        model.predict_marginals(X)
    with pytest.raises(TypeError, match=f"not for {type(structure).__name__}"):
        model.predict_n_best(X, 2)


@pytest.mark.parametrize("count", [1, 4, 200])
@pytest.mark.parametrize("name", CASES)
def test_the_best_outputs_are_those_of_the_list(name, count):
    model, X, y = CASES[name]()
    for x, truth, found in zip(X, y, model.predict_n_best(X, count), strict=True):
        every, scores = listed(model, x, truth)
        assert len(found) == min(count, len(every))
        np.testing.assert_allclose([score for _, score in found], scores[:count], atol=1e-9)
        assert all(np.array_equal(output, expected) for (output, _), expected in zip(found, every, strict=False))


@pytest.mark.parametrize("kind", ["forest", "cycles"])
@pytest.mark.parametrize("ties", [False, True])
def test_the_best_labellings_of_drawn_graphs(kind, ties):
    rng = np.random.default_rng([kind == "forest", ties])
    for _ in range(20):
        size, K = int(rng.integers(1, 7)), int(rng.integers(2, 4))
        drawn_pairs = [(u, v) for v in range(size) for u in range(v)]
        chosen = [pair[:: rng.choice([1, -1])] for pair in drawn_pairs if rng.random() < 0.6]
        if kind == "forest":
            chosen = [pair[:: rng.choice([1, -1])] for pair in {max(p): p for p in chosen}.values()]
        structure = Graph(n_labels=K, edges=np.array(chosen, int).reshape(-1, 2))
        X = [np.eye(size)]
        w = rng.normal(size=structure.size(X, [np.zeros(size, int)]))
        w = np.round(w) if ties else w
        every = [list(labels) for labels in product(range(K), repeat=size)]
        scores = sorted((w @ structure.joint_feature(X[0], labels) for labels in every), reverse=True)
        before = []
        for count in (1, 3, 8, 1000):
            (found,) = structure.n_best(structure.unflatten(w), X, count)
            outputs = [tuple(labels) for labels, _ in found]
            direct = [w @ structure.joint_feature(X[0], labels) for labels, _ in found]
            np.testing.assert_allclose([score for _, score in found], scores[:count], atol=1e-9)
            np.testing.assert_allclose(direct, scores[:count], atol=1e-9)
            assert len(set(outputs)) == min(count, len(every))
            assert outputs[: len(before)] == before  # in a fixed order, also where scores are equal
            before = outputs


def test_features_that_are_no_numbers_are_refused_before_the_best_outputs():
    for (model, _, _), rest in ((chain(), ()), (tree(), tree()[1][0][1:])):
        features = np.zeros((4, 3))
        features[1, 2] = np.nan
        with pytest.raises(ValueError, match="Sample 0 of X holds, in the features of node 1, NaN or infinity"):
            model.predict_n_best([(features, *rest) if rest else features], 2)


def test_many_best_sequences_of_a_long_chain():
    rng = np.random.default_rng(0)
    unary, pair = rng.normal(size=(40, 5)), rng.normal(size=(39, 5, 5))
    codes, scores = best_paths(unary, pair, 50)
    direct = unary[np.arange(40), codes].sum(axis=1) + pair[np.arange(39), codes[:, :-1], codes[:, 1:]].sum(axis=1)
    np.testing.assert_allclose(scores, direct)
    assert np.all(np.diff(scores) <= 0) and len(np.unique(codes, axis=0)) == 50


def test_sources_empty_samples_threads_and_what_is_refused():
    model, X, y = chain()
    source = mm.Samples([(X[:5], y[:5]), (X[5:], y[5:])])
    threads = mm.StructuredSVM(Chain(), n_jobs=2)
    threads.__dict__.update(structure_=model.structure_, w_=model.w_)
    for other in (model.predict_marginals(source), threads.predict_marginals(X)):
        assert all(np.array_equal(a, b) for a, b in zip(other, model.predict_marginals(X), strict=True))
    np.testing.assert_allclose(model.decision_function(source), model.decision_function(X))
    outputs, scores = model.predict(source, return_score=True)
    assert len(outputs) == len(scores) == len(X)
    assert len(model.predict_n_best(source, 2)) == len(X)
    assert model.predict_marginals([]) == [] and model.predict_n_best([], 3) == [] and model.decision_function([]).shape == (0,)
    for n in (0, 1.5, True):
        with pytest.raises(ValueError, match="n must be an integer >= 1"):
            model.predict_n_best(X, n)
    with pytest.raises(ValueError, match="Sample 0 of X has 2 features; 3 are expected"):
        model.predict_marginals([np.zeros((3, 2))])
    with pytest.raises(ValueError, match="Sample 0 of X has 2 features; 3 are expected"):
        model.predict_n_best([np.zeros((3, 2))], 2)
