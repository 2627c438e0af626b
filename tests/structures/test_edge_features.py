"""Edges with features: real numbers, each with a table of pair weights."""

from itertools import pairwise

import numpy as np
import pytest
from helpers.certificates import consistent
from helpers.enumerated import optimum, tables

import maxmargin as mm
from maxmargin.structures import Chain, Tree

SOLVERS = ["dual_coordinate", "frank_wolfe", "partial_linearization", "exponentiated_gradient", "bundle", "online"]
CHAINS = {
    "plain": Chain(3, edge_features=True),
    "costs": Chain(3, first_last_bias=False, bias=False, cost=[[0, 2, 1], [1, 0, 1], [3, 1, 0]], edge_features=True),
    "rules": Chain(3, forbidden=[(0, 2), (None, 1)], required={1: [0, 1, None]}, normalize_loss=True, edge_features=True),
}


def words(seed=0, n=10, columns=2):
    """Labels change where the first feature of an edge is positive; all outputs of the rules above."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for i in range(n):
        size = [0, 1, 3, 4, 5][i % 5]
        values = rng.normal(size=(max(size - 1, 0), columns))
        labels = [2] if size else []
        for value in values[:, 0]:
            labels.append((labels[-1] + 2) % 3 if value > 0 and labels[-1] > 0 else labels[-1])
        X.append((rng.normal(size=(size, 2)) + 0.5 * np.eye(3)[labels][:, :2].reshape(size, 2), values))
        y.append(labels)
    return X, y


def trees(seed=0, n=8, columns=2):
    """Random trees, of which no edge need run towards the root."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for i in range(n):
        size = [1, 3, 4][i % 3]
        edges = [(v, int(rng.integers(v))) if rng.random() < 0.5 else (int(rng.integers(v)), v) for v in range(1, size)]
        X.append((rng.normal(size=(size, 2)), np.reshape(edges, (-1, 2)).astype(int), rng.normal(size=(size - 1, columns))))
        y.append(rng.integers(0, 3, size).tolist())
    return X, y


@pytest.mark.parametrize("name", CHAINS)
def test_outputs_marginals_and_objective_by_brute_force(name):
    X, y = words(1)
    mm.check_structure(CHAINS[name], X, y)
    model = mm.StructuredSVM(CHAINS[name], C=2.0, tol=1e-2, random_state=0).fit(X, y)
    structure = model.structure_
    model.w_ = w = model.w_ + 0.3 * np.random.default_rng(3).normal(size=model.w_.size)
    found, scores = model.predict(X, return_score=True)
    marginals = model.predict_marginals(X)
    for x, labels, score, best, node in zip(X, found, scores, model.predict_n_best(X, 4), marginals, strict=True):
        every = structure.every_output(x, labels, 1000)
        worth = np.array([w @ structure.joint_feature(x, output) for output in every])
        order = np.argsort(-worth, kind="stable")
        assert labels == best[0][0] == model.predict([x])[0]
        assert score == pytest.approx(worth.max(), abs=1e-9)
        np.testing.assert_allclose([value for _, value in best], worth[order[:4]], atol=1e-9)
        mass = np.exp(worth - worth.max())
        for p in range(len(x[0])):
            wanted = np.bincount([output[p] for output in every], mass, minlength=3) / mass.sum()
            np.testing.assert_allclose(node[p], wanted, atol=1e-9)
    x, labels = X[4], y[4]
    own = sum(model.coef_[a] @ row for a, row in zip(labels, x[0], strict=True))  # by the formula, without the structure
    own += sum(model.intercept_[labels]) if structure.bias else 0.0
    own += model.first_[labels[0]] + model.last_[labels[-1]] if structure.first_last_bias else 0.0
    own += sum(row @ model.transitions_[:, a, b] for row, (a, b) in zip(x[1], pairwise(labels), strict=True))
    assert w @ structure.joint_feature(x, labels) == pytest.approx(own, rel=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", ["plain", "rules"])
def test_optimum_is_that_of_a_convex_solver(name, solver):
    X, y = words(4)
    C, weight = 1.5, np.array([1.0, 2.0, 0.0, 1.0, 0.5] * 2)
    best = optimum(tables(CHAINS[name], X, y), C * weight)
    model = mm.StructuredSVM(CHAINS[name], C=C, solver=solver, tol=1e-3, random_state=0).fit(X, y, sample_weight=weight)
    consistent(model)
    assert model.certificate_.converged
    assert model.certificate_.dual <= best * (1 + 1e-7) and best <= model.certificate_.primal * (1 + 1e-7)


def test_a_column_of_ones_is_the_plain_chain():
    X, y = words(5)
    params = {"tol": 1e-6, "random_state": 0}
    plain = mm.StructuredSVM(Chain(3), **params).fit([x for x, _ in X], y)
    ones = mm.StructuredSVM(CHAINS["plain"], **params).fit([(x, np.ones((len(E), 1))) for x, E in X], y)
    assert ones.transitions_.shape == (1, 3, 3) and plain.transitions_.shape == (3, 3)
    assert ones.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(ones.w_, plain.w_, atol=1e-2)


def test_columns_of_ones_and_zeros_are_types():
    X, y = words(6)
    kinds = [np.random.default_rng(i).integers(0, 3, len(E)) for i, (_, E) in enumerate(X)]
    params = {"C": 0.7, "tol": 1e-6, "random_state": 0}
    typed = mm.StructuredSVM(Chain(3, edge_types=True), **params).fit([(x, t) for (x, _), t in zip(X, kinds, strict=True)], y)
    given = [(x, np.eye(3)[t]) for (x, _), t in zip(X, kinds, strict=True)]
    columns = mm.StructuredSVM(CHAINS["plain"], **params).fit(given, y)
    assert columns.transitions_.shape == typed.transitions_.shape == (3, 3, 3)
    assert columns.certificate_.primal == pytest.approx(typed.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(columns.w_, typed.w_, atol=1e-2)


@pytest.mark.parametrize("shared", [False, True])
def test_trees(shared):
    X, y = trees()
    structure = Tree(3, edge_features=True)
    if shared:
        edges = np.array([[2, 0], [1, 2], [0, 3]])
        rng = np.random.default_rng(0)
        X = [(rng.normal(size=(4, 2)), rng.normal(size=(3, 2))) for _ in range(6)]
        structure, y = Tree(3, edges, edge_features=True), [rng.integers(0, 3, 4) for _ in X]
    mm.check_structure(structure, X, y)
    best = optimum(tables(structure, X, y), np.full(len(X), 2.0))
    for solver in ("frank_wolfe", "partial_linearization"):
        model = mm.StructuredSVM(structure, C=2.0, solver=solver, tol=1e-3, random_state=0).fit(X, y)
        assert model.certificate_.converged and model.transitions_.shape == (2, 3, 3)
        assert model.certificate_.dual <= best * (1 + 1e-7) and best <= model.certificate_.primal * (1 + 1e-7)


def test_warm_starts_need_the_same_edge_features():
    X, y = words(7)
    model = mm.StructuredSVM(CHAINS["plain"], solver="frank_wolfe", warm_start=True, tol=1e-3, random_state=0).fit(X, y)
    again = model.fit(X, y).n_iter_
    assert again <= 2
    model.fit([(x, -2.0 * E) for x, E in X], y)
    assert model.certificate_.converged  # mixtures of other features would have other weights, and a gap that never closes


def test_pieces_sources_folds_and_files(tmp_path):
    X, y = words(8, 15)
    params = {"C": 0.5, "tol": 1e-4, "random_state": 0}
    whole = mm.StructuredSVM(CHAINS["plain"], **params).fit(X, y)
    pieces = mm.StructuredSVM(CHAINS["plain"], **params)
    for part in (slice(0, 8), slice(8, 15)):
        pieces.partial_fit(X[part], y[part])
    assert pieces.certificate_.dual <= whole.certificate_.primal and pieces.transitions_.shape == (2, 3, 3)
    source = mm.StructuredSVM(CHAINS["plain"], **params).fit(mm.Samples([(X[:8], y[:8]), (X[8:], y[8:])]))
    assert source.certificate_.dual <= whole.certificate_.primal * (1 + 1e-9)
    assert whole.certificate_.dual <= source.certificate_.primal * (1 + 1e-9)
    found = mm.StructuredSVMCV(CHAINS["plain"], Cs=[0.1, 1.0], cv=2, tol=1e-2, random_state=0).fit(X, y)
    assert found.C_ in (0.1, 1.0) and found.transitions_.shape == (2, 3, 3)
    mm.save(whole, tmp_path / "model.safetensors")
    again = mm.load(tmp_path / "model.safetensors")
    assert again.structure_.edge_features is True and again.predict(X) == whole.predict(X)
    np.testing.assert_array_equal(again.transitions_, whole.transitions_)
    with pytest.raises(ValueError, match="has 3 edge features; 2 are expected"):
        pieces.partial_fit([(np.zeros((2, 2)), np.ones((1, 3)))], [[0, 1]])
    pytest.importorskip("onnx")
    with pytest.raises(TypeError, match="features of edges besides"):
        mm.to_onnx(whole)


def test_features_of_other_numbers_are_refused_in_predictions():
    X, y = words(9)
    model = mm.StructuredSVM(CHAINS["plain"], tol=0.1, random_state=0).fit(X, y)
    for predict in (model.predict, model.predict_marginals, lambda X: model.predict_n_best(X, 2)):
        with pytest.raises(ValueError, match="Sample 1 of X has 1 edge features; 2 are expected"):
            predict([X[2], (np.zeros((2, 2)), [[7.0]])])
    ruled = mm.StructuredSVM(CHAINS["rules"], tol=0.1, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="features may be at most 1e\\+25; scale X down"):
        ruled.predict([(np.zeros((2, 2)), [[1e30, 0.0]])])
