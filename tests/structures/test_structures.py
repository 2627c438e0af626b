"""Structures: every oracle against the list of all outputs, features and losses against their formulas, and the check of
structures against structures that are wrong on purpose.

Decoders and marginals run compiled here; the functions that solvers are made of are called one by one, in plain Python.
"""

import sys
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from maxmargin.data import rows
from maxmargin.jit import kernel, vectors
from maxmargin.structures import Chain, Graph, Multiclass, Structure, StructureError, Tree, check_structure, compiled
from maxmargin.structures.encoded import contract
from maxmargin.structures.encoded import sweeps as passes
from maxmargin.structures.encoded.elimination import separators
from maxmargin.structures.encoded.forest import Forest
from maxmargin.structures.encoded.junction import Junction
from maxmargin.structures.graph import elimination_order

TRIANGLE_WITH_TAIL = [(0, 1), (2, 1), (0, 2), (3, 2), (3, 4)]
SQUARE = [(0, 1), (1, 2), (3, 2), (3, 0)]
GRID = [(0, 1), (2, 1), (4, 3), (4, 5), (0, 3), (1, 4), (5, 2)]
APART = [(1, 0), (1, 2), (0, 2), (3, 4)]


class Case(NamedTuple):
    structure: Structure
    X: list
    y: list
    w: np.ndarray
    dim: int


def case(structure, X, y, seed=0) -> Case:
    structure = clone(structure)
    dim = structure.size(X, y)
    return Case(structure, X, y, np.random.default_rng(seed).normal(size=dim), dim)


def labels(rng, size, K):
    """Labels of which all K occur where there is room for them."""
    return rng.permutation(np.concatenate([np.arange(min(K, size)), rng.integers(0, K, max(size - K, 0))]))


def sequences(structure, lengths=(4, 1, 3, 2), K=3, d=3):
    rng = np.random.default_rng(1)
    return case(structure, [rng.normal(size=(L, d)) for L in lengths], [labels(rng, L, K) for L in lengths])


def drawn(structure, shapes, K, types=1, d=2):
    """Graphs as (nodes, edges), with edges of `types` types in turn."""
    rng = np.random.default_rng(2)
    X = [(rng.normal(size=(n, d)), edges, np.arange(len(edges)) % types) for n, edges in shapes]
    return case(structure, [x[:2] if types == 1 else x for x in X], [labels(rng, n, K) for n, _ in shapes])


def multiclass(structure, n=5, K=4, d=3):
    rng = np.random.default_rng(3)
    return case(structure, rng.normal(size=(n, d)), labels(rng, n, K))


COST = np.array([[0.0, 1.0, 2.5], [0.5, 0.0, 3.0], [1.0, 0.25, 0.0]])
FOREST = [(5, [(1, 0), (1, 2), (4, 2)]), (1, []), (4, [(3, 0), (1, 3), (3, 2)]), (2, [(0, 1)])]
CASES = {
    "multiclass": lambda: multiclass(Multiclass()),
    "multiclass of 12 classes, no bias": lambda: multiclass(Multiclass(12, bias=False), n=3, K=12),
    "multiclass with costs": lambda: multiclass(Multiclass(cost=COST), K=3),
    "chain": lambda: sequences(Chain()),
    "chain without biases": lambda: sequences(Chain(3, first_last_bias=False, bias=False), (4, 3)),
    "chain with costs, by length": lambda: sequences(Chain(cost=COST, normalize_loss=True)),
    "chain of 10 labels": lambda: sequences(Chain(10), (3,), K=10),
    "forests": lambda: drawn(Tree(), FOREST, 3),
    "tree with types of edges": lambda: drawn(Tree(cost=COST, normalize_loss=True), FOREST[::2], 3, types=2),
    "square, 4 labels": lambda: drawn(Graph(), [(4, SQUARE)], 4),
    "grid of tree-width 2": lambda: drawn(Graph(bias=False), [(6, GRID)], 3),
    "graphs of several shapes and types": lambda: drawn(
        Graph(normalize_loss=True),
        [(5, TRIANGLE_WITH_TAIL), (5, APART), (4, [(3, 0), (1, 3), (3, 2)]), (4, SQUARE), (1, [])],
        2,
        types=2,
    ),
    "triangle, 9 labels": lambda: drawn(Graph(), [(3, [(0, 1), (2, 1), (2, 0)])], 9),
    "complete graph": lambda: drawn(Graph(cost=COST), [(4, [(0, 1), (2, 0), (0, 3), (1, 2), (3, 1), (2, 3)])], 3),
    "graph that is a tree": lambda: drawn(Graph(), [(4, [(0, 1), (2, 1), (1, 3)])], 3),
}


@pytest.fixture(scope="module", params=CASES)
def found(request):
    """A case, and for each sample its outputs with their features and losses."""
    given = CASES[request.param]()
    lists = []
    for x, y in zip(given.X, given.y, strict=True):
        outputs = given.structure.every_output(x, y, 10_000)
        features = np.array([given.structure.joint_feature(x, output) for output in outputs])
        lists.append((outputs, features, np.array([given.structure.loss(y, output) for output in outputs])))
    return given, lists


def parts_of(structure, x):
    """Features, edges and types of edges, from what the user gave."""
    if isinstance(structure, Multiclass):
        return x[None], [], []
    if isinstance(structure, Chain):
        return x, [(t, t + 1) for t in range(len(x) - 1)], [0] * (len(x) - 1)
    return x[0], x[1], x[2] if len(x) == 3 else [0] * len(x[1])


def test_features_and_losses_are_those_of_the_formula(found):
    given, lists = found
    structure, K = given.structure, len(given.structure.labels_)
    for x, y, (outputs, features, losses) in zip(given.X, given.y, lists, strict=True):
        X, edges, types = parts_of(structure, x)
        truth = np.atleast_1d(y)
        for output, feature, loss in list(zip(outputs, features, losses, strict=True))[:: max(len(outputs) // 50, 1)]:
            code = np.atleast_1d(output)
            unary, bias, ends = np.zeros((K, X.shape[1])), np.zeros(K), np.zeros((2, K))
            pairs = np.zeros((structure.n_kinds_, K, K))
            for p, k in enumerate(code):
                unary[k] += X[p]
                bias[k] += 1
            ends[0, code[0]] += 1
            ends[1, code[-1]] += 1
            for (u, v), kind in zip(edges, types, strict=True):
                pairs[kind, code[u], code[v]] += 1
            parts = [unary] + [bias] * structure.bias + [ends] * structure.first_last_bias + [pairs]
            np.testing.assert_allclose(feature, np.concatenate([part.ravel() for part in parts]), atol=1e-12)
            cost = structure.cost if structure.cost is not None else 1.0 - np.eye(K)
            total = sum(cost[a][b] for a, b in zip(truth, code, strict=True))
            assert loss == pytest.approx(total / len(truth) if structure.normalize_loss else total)


def test_decode(found):
    given, lists = found
    together = given.structure.decode_all(given.w, given.X)
    for x, output, (outputs, features, _) in zip(given.X, together, lists, strict=True):
        np.testing.assert_array_equal(output, outputs[(features @ given.w).argmax()])
        np.testing.assert_array_equal(given.structure.decode(given.w, x), output)


def test_loss_augmented_decode(found):
    given, lists = found
    for scale in (0.1, 1.0):
        for x, y, (outputs, features, losses) in zip(given.X, given.y, lists, strict=True):
            output = given.structure.loss_augmented_decode(scale * given.w, x, y)
            np.testing.assert_array_equal(output, outputs[(scale * features @ given.w + losses).argmax()])


def gibbs(values):
    p = np.exp(values - values.max())
    return p / p.sum()


@pytest.mark.parametrize("temperature", [0.02, 1.0, 50.0, np.inf])
def test_marginals_are_those_of_the_gibbs_distribution(found, temperature):
    given, lists = found
    structure = given.structure
    other = np.random.default_rng(5).normal(size=given.dim)
    for x, y, (outputs, features, losses) in zip(given.X, given.y, lists, strict=True):
        p = gibbs((features @ given.w + losses) / temperature)
        m = structure.marginals(given.w, x, y, temperature)
        codes = np.array([np.atleast_1d(output) for output in outputs])
        for k in range(len(structure.labels_)):
            np.testing.assert_allclose(m["node"][:, k], p @ (codes == k), atol=1e-10)
        for e, (u, v) in enumerate(parts_of(structure, x)[1]):
            for a, b in product(range(len(structure.labels_)), repeat=2):
                assert m["edge"][e][a, b] == pytest.approx(p @ ((codes[:, u] == a) & (codes[:, v] == b)), abs=1e-10)
        feature, loss = structure.expect(x, y, m)
        np.testing.assert_allclose(feature, p @ features, atol=1e-9)
        assert loss == pytest.approx(p @ losses, abs=1e-9)

        start = structure.marginals(other, x, y, 1.0)
        feature, loss = structure.expect(x, y, structure.marginals(given.w, x, y, temperature, base=start))
        p = gibbs((features @ given.w + losses) / temperature + features @ other + losses)
        np.testing.assert_allclose(feature, p @ features, atol=1e-9)
        assert loss == pytest.approx(p @ losses, abs=1e-9)


def test_a_marginal_of_nearly_nothing_returns():
    # At this temperature the marginals of all outputs but one are far below the smallest number that is kept.
    given = sequences(Chain(), (4,))
    x, y = given.X[0], given.y[0]
    cold = given.structure.marginals(given.w, x, y, 1e-4)
    assert np.sort(cold["node"].max(axis=1))[0] > 1 - 1e-12
    assert cold["node"].min() > 0
    back = given.structure.marginals(-given.w, x, y, 1e-4, base=cold)
    assert all(np.all(np.isfinite(array)) for array in back.values())
    np.testing.assert_allclose(back["node"].sum(axis=1), 1.0)


def test_expect_is_linear(found):
    given, _ = found
    x, y, s = given.X[0], given.y[0], given.structure
    one, other = s.marginals(given.w, x, y, 1.0), s.marginals(-given.w, x, y, 2.0)
    (f, a), (g, b), (mixed, c) = (s.expect(x, y, m) for m in (one, other, s.mix(one, other, 0.3)))
    np.testing.assert_allclose(mixed, 0.7 * f + 0.3 * g, atol=1e-12)
    assert c == pytest.approx(0.7 * a + 0.3 * b)


def test_weights_survive_the_layout(found):
    given, _ = found
    packed = given.structure.unflatten(given.w)
    assert packed.shape == contract.weight_shape(given.structure.encode(given.X, given.y))
    np.testing.assert_array_equal(given.structure.flatten(packed), given.w)


# ---- the functions that solvers are made of -----------------------------------------------------------------------------


STEPS = ["multiclass with costs", "chain", "tree with types of edges", "graphs of several shapes and types"]


@pytest.mark.parametrize("name", STEPS)
def test_codes(name):
    s, X, Y, w, _ = CASES[name]()
    data = s.encode(X, Y)
    scratch, W = contract.new_scratch(data), s.unflatten(w)
    rng = np.random.default_rng(0)
    assert contract.n_samples(data) == len(X)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        size = contract.length(data, i)
        truth = np.empty(size, np.int32)
        contract.truth(data, i, truth)
        order = data.graphs.order[data.graphs.start[i] : data.graphs.start[i + 1]]
        np.testing.assert_array_equal(truth, np.atleast_1d(y)[order])
        codes = rng.integers(0, len(s.labels_), (2, size))
        outputs = np.empty_like(codes)
        outputs[:, order] = codes
        f, g = (s.joint_feature(x, output[0] if isinstance(s, Multiclass) else output) for output in outputs)
        contract.prepare(data, i, W, scratch)
        assert contract.score_of(data, i, scratch, codes[0]) == pytest.approx(w @ f)
        assert contract.loss_of(data, i, codes[0]) == pytest.approx(
            s.loss(y, outputs[0][0] if isinstance(s, Multiclass) else outputs[0])
        )
        contract.against(data, i, scratch, codes[1])
        assert contract.inner(data, i, scratch, codes[0]) == pytest.approx(f @ g)
        contract.clear(data, i, scratch)
        contract.tally(data, i, 2.0, codes[0], scratch)
        contract.tally(data, i, -0.5, codes[1], scratch)
        assert contract.measure(data, i, scratch)[1] == pytest.approx(np.sum((2 * f - 0.5 * g) ** 2))
        gain = 2 * (w @ f + contract.loss_of(data, i, codes[0])) - 0.5 * (w @ g + contract.loss_of(data, i, codes[1]))
        assert contract.measure(data, i, scratch)[0] == pytest.approx(gain)
        change = np.zeros_like(W)
        contract.push(data, i, 3.0, scratch, change)
        np.testing.assert_allclose(s.flatten(change), 3 * (2 * f - 0.5 * g), atol=1e-12)


def expectation(s, data, points, i):
    """phi and loss of the point of sample i, through the difference."""
    scratch, W = contract.new_scratch(data), np.zeros(contract.weight_shape(data))
    contract.clear(data, i, scratch)
    contract.withdraw(points, data, i, scratch)
    contract.push(data, i, -1.0, scratch, W)
    return s.flatten(W), contract.expected_loss(points, data, i)


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_partial_linearization(name):
    s, X, Y, w, _ = CASES[name]()
    data, spread, temperature, gamma = s.encode(X, Y), 0.1, 0.7, 0.3
    points, scratch, W = contract.interior(data, spread), contract.new_scratch(data), s.unflatten(w)
    K = len(s.labels_)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        node = np.full((np.size(y), K), spread)
        node[np.arange(np.size(y)), np.atleast_1d(y)] = 1 - (K - 1) * spread
        edge = np.array([np.outer(node[u], node[v]) for u, v in parts_of(s, x)[1]]).reshape(-1, K, K)
        begin = expectation(s, data, points, i)
        for ours, meant in zip(begin, s.expect(x, y, {"node": node, "edge": edge}), strict=True):
            np.testing.assert_allclose(ours, meant, atol=1e-12)
        contract.prepare(data, i, W, scratch)
        contract.direct(points, data, i, scratch, temperature)
        single = s.encode([x], [y])
        start = contract.marginals_of(single, contract.interior(single, spread))
        target = s.expect(x, y, s.marginals(w, x, y, temperature, base=start))
        moved = target[0] - begin[0]
        assert contract.measure(data, i, scratch)[0] == pytest.approx(w @ moved + target[1] - begin[1])
        assert contract.measure(data, i, scratch)[1] == pytest.approx(moved @ moved)
        contract.step_towards(points, data, i, gamma, scratch)
        after = expectation(s, data, points, i)
        np.testing.assert_allclose(after[0], begin[0] + gamma * moved, atol=1e-12)
        assert after[1] == pytest.approx((1 - gamma) * begin[1] + gamma * target[1])
        change = np.zeros_like(W)
        contract.push(data, i, 2.0, scratch, change)
        np.testing.assert_allclose(s.flatten(change), 2 * moved, atol=1e-12)


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_frank_wolfe(name):
    s, X, Y, w, _ = CASES[name]()
    data = s.encode(X, Y)
    points, scratch, W = contract.vertices(data), contract.new_scratch(data), s.unflatten(w)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        feature, loss = expectation(s, data, points, i)
        np.testing.assert_allclose(feature, s.joint_feature(x, y), atol=1e-12)
        assert loss == 0.0
        contract.prepare(data, i, W, scratch)
        contract.direct(points, data, i, scratch, 0.0)
        worst = s.loss_augmented_decode(w, x, y)
        value = w @ (s.joint_feature(x, worst) - feature) + s.loss(y, worst)
        assert contract.measure(data, i, scratch)[0] == pytest.approx(value)
        contract.step_towards(points, data, i, 0.25, scratch)
        after = expectation(s, data, points, i)
        np.testing.assert_allclose(after[0], 0.75 * feature + 0.25 * s.joint_feature(x, worst), atol=1e-12)
        assert after[1] == pytest.approx(0.25 * s.loss(y, worst))


# ---- what may be given --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_array, np.float32, "mostly zeros", "integers", "lists", "Fortran"])
def test_kinds_of_features(kind, monkeypatch):
    if kind in (np.float32, "mostly zeros"):  # compiled for CSR rows only: another five seconds for each would show nothing new
        monkeypatch.setattr(compiled, "worst_all", passes.worst_all.plain)
    rng = np.random.default_rng(0)
    lengths, K = (3, 1, 4), 3
    X = [np.round(rng.normal(size=(L, 4)), 1) for L in lengths]
    if kind == "mostly zeros":
        for x in X:
            x[:, 1:] = 0.0
    elif kind == "integers":
        X = [(10 * x).astype(np.int16) for x in X]
    y = [labels(rng, L, K) for L in lengths]
    plain = case(Chain(), [np.asarray(x, np.float64) for x in X], y)
    change = {"mostly zeros": lambda x: x, "integers": lambda x: x, "lists": np.ndarray.tolist, "Fortran": np.asfortranarray}
    given = [change.get(kind, lambda x: x.astype(kind) if kind is np.float32 else kind(x))(x) for x in X]
    other = case(Chain(), given, y)
    assert other.dim == plain.dim
    near = {"atol": 1e-6} if kind is np.float32 else {"atol": 1e-12}
    for i, (x, z) in enumerate(zip(plain.X, given, strict=True)):
        np.testing.assert_allclose(other.structure.joint_feature(z, y[i]), plain.structure.joint_feature(x, y[i]), **near)
    for left, right in zip(other.structure.decode_all(plain.w, given), plain.structure.decode_all(plain.w, X), strict=True):
        np.testing.assert_array_equal(left, right)
    if kind is np.float32:
        assert other.structure.encode(given, y).graphs.X.values.dtype == np.float32
    if kind == "mostly zeros":
        assert isinstance(other.structure.encode(given, y).graphs.X, rows.Indexed)
    for x, z in zip(X, given, strict=True):  # nothing of the user's is changed
        np.testing.assert_array_equal(z.toarray() if sp.issparse(z) else z, x.astype(np.float32) if kind is np.float32 else x)


def test_sparse_features_that_name_a_column_twice():
    twice = sp.csr_matrix((np.array([1.0, 2.0, 3.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 3))
    s, y = Chain(), [[0, 1]]
    s.size([twice], y)
    plain, data = s.encode([twice.toarray()], y), s.encode([twice], y)
    np.testing.assert_allclose(data.graphs.gram, plain.graphs.gram)
    assert twice.nnz == 3


@pytest.mark.parametrize(
    "names", [["b", "a", "c"], [("x", 1), ("x", 0), ("y", 0)], [3, -1, 7], [0.5, 2, -1], ["a", 1, None.__class__]]
)
def test_labels_are_any_hashable_objects(names):
    plain = sequences(Chain(), (4, 3))
    y = [[names[k] for k in code] for code in plain.y]
    s = Chain()
    assert s.size(plain.X, y) == plain.dim
    assert set(s.labels_.tolist()) == set(names)
    if names[0] != "a":
        assert s.labels_.tolist() == sorted(names)
    w = np.random.default_rng(0).normal(size=plain.dim)
    for x, truth, output in zip(plain.X, y, s.decode_all(w, plain.X), strict=True):
        scores = {each: w @ s.joint_feature(x, list(each)) for each in product(names, repeat=len(x))}
        assert tuple(output) == max(scores, key=scores.get)
        assert s.loss(truth, output) == sum(a != b for a, b in zip(truth, output, strict=True))


def test_multiclass_outputs_are_labels():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 3)), np.array(["b", "a", "c", "a", "b", "c"])
    s = Multiclass()
    assert s.size(X, y) == 3 * 4
    w = rng.normal(size=12)
    scores = X @ w[:9].reshape(3, 3).T + w[9:]
    expected = [["a", "b", "c"][k] for k in scores.argmax(axis=1)]
    sparse = sp.csr_array(X)
    frames = [pd.DataFrame(X), pl.DataFrame(X), pd.Series(list(X))]
    for same in (X, list(X), X.tolist(), sparse, [sparse[[i]] for i in range(6)], np.asfortranarray(X), *frames):
        assert s.decode_all(w, same) == expected
    assert s.decode(w, X[0]) == expected[0]
    assert s.loss("a", "b") == 1.0


def test_multiclass_reads_a_matrix_without_a_copy():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    s = Multiclass()
    s.size(X, y)
    assert np.shares_memory(s.encode(X, y).graphs.X.values, X)


def test_the_letters_of_the_paper_have_4082_weights():
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(L, 128)) for L in (3, 9)], [rng.integers(0, 26, L) for L in (3, 9)]
    assert Chain(26).size(X, y) == 4082


def test_edges_given_once_equal_edges_given_with_each_sample():
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(5, 2)) for _ in range(3)], [labels(rng, 5, 3) for _ in range(3)]
    for kind, edges in ((Tree, [(1, 0), (1, 2), (4, 3)]), (Graph, TRIANGLE_WITH_TAIL)):
        types = np.arange(len(edges)) % 2
        once = case(kind(edges=edges, edge_types=types), X, y)
        each = case(kind(), [(x, np.array(edges), types) for x in X], y)
        assert once.dim == each.dim
        together = zip(once.structure.decode_all(once.w, X), each.structure.decode_all(each.w, each.X), strict=True)
        assert all(np.array_equal(left, right) for left, right in together)


def test_samples_of_one_shape_share_their_plan():
    given = drawn(Graph(), [(4, SQUARE), (4, SQUARE), (2, []), (4, SQUARE)], 2)
    data = given.structure.encode(given.X, given.y)
    assert isinstance(data, Junction)
    assert data.shape.tolist() == [0, 0, 4, 0]
    assert data.parent.size == 4 + 2


def test_forests_need_no_junction_tree(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    given = drawn(Graph(), FOREST, 3)
    assert isinstance(given.structure.encode(given.X, given.y), Forest)


@given(st.integers(3, 9), st.data())
def test_separators_hold_every_edge_and_follow_the_running_intersection(size, data):
    pairs = [(u, v) for u in range(size) for v in range(u)]
    edges = np.array(data.draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1)))
    order, members = separators(size, edges, elimination_order(size, edges, "It"))
    assert sorted(order.tolist()) == list(range(size))
    number = np.argsort(order)
    for u, v in number[edges].tolist():
        assert min(u, v) in members[max(u, v)]
    for p, own in enumerate(members):
        assert own == sorted(set(own)) and all(q < p for q in own)
        if own:
            assert set(own[:-1]) <= set(members[own[-1]])


@pytest.mark.parametrize(("rows_", "columns", "width"), [(2, 7, 2), (5, 5, 5), (10, 10, 10), (30, 6, 7)])
def test_tree_width_found_on_grids(rows_, columns, width):
    number = np.arange(rows_ * columns).reshape(rows_, columns)
    pairs = (number[:, :-1], number[:, 1:]), (number[:-1], number[1:])
    edges = np.concatenate([np.stack([u.ravel(), v.ravel()], axis=1) for u, v in pairs])
    _, members = separators(number.size, edges, elimination_order(number.size, edges, "It"))
    assert max(map(len, members)) <= width


@given(st.integers(2, 3), st.integers(2, 5), st.data())
def test_any_small_graph(K, size, data):
    pairs = [(u, v) for u in range(size) for v in range(size) if u != v]
    edges = data.draw(st.lists(st.sampled_from(pairs), unique_by=lambda pair: tuple(sorted(pair)), max_size=7))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    x, y = (rng.normal(size=(size, 1)), edges, rng.integers(0, 2, len(edges))), rng.integers(0, K, size)
    s = Graph(K)
    w = rng.normal(size=s.size([x], [y]))
    outputs = s.every_output(None, y, 1000)
    features = np.array([s.joint_feature(x, output) for output in outputs])
    values = features @ w + np.array([s.loss(y, output) for output in outputs])
    assert outputs[(features @ w).argmax()] == s.decode(w, x).tolist()
    assert outputs[values.argmax()] == s.loss_augmented_decode(w, x, y).tolist()
    feature, _ = s.expect(x, y, s.marginals(w, x, y, 0.5))
    np.testing.assert_allclose(feature, gibbs(values / 0.5) @ features, atol=1e-9)


# ---- the check of structures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_our_structures_pass_the_check(name):
    given = CASES[name]()
    assert check_structure(given.structure, given.X, given.y) is None
    assert check_structure(given.structure, given.X, given.y, max_outputs=1, w=given.w) is None


class Ranking(Structure):
    """A user's structure: the order of three items, with a feature for each item and place."""

    def size(self, X, y):
        return 3

    def every(self, x):
        return [(a, b, c) for a, b, c in product(range(3), repeat=3) if len({a, b, c}) == 3]

    def joint_feature(self, x, y):
        return np.array([x[item] * place for place, item in enumerate(y)])

    def loss(self, y_true, y):
        return float(sum(a != b for a, b in zip(y_true, y, strict=True)))

    def decode(self, w, x):
        return max(self.every(x), key=lambda y: w @ self.joint_feature(x, y))

    def loss_augmented_decode(self, w, x, y_true):
        return max(self.every(x), key=lambda y: w @ self.joint_feature(x, y) + self.loss(y_true, y))

    def marginals(self, w, x, y_true, temperature, base=None):
        values = [w @ self.joint_feature(x, y) + self.loss(y_true, y) for y in self.every(x)]
        return gibbs(np.array(values) / temperature + (0.0 if base is None else np.log(base)))

    def expect(self, x, y_true, m):
        features = np.array([self.joint_feature(x, y) for y in self.every(x)])
        return m @ features, m @ np.array([self.loss(y_true, y) for y in self.every(x)])


RANKED = [np.array([1.0, 2.0, -1.0]), np.array([0.5, -3.0, 1.0])], [(1, 0, 2), (2, 0, 1)]


class WrongDecode(Ranking):
    def decode(self, w, x):
        return min(self.every(x), key=lambda y: w @ self.joint_feature(x, y)) if x[0] == 0.5 else super().decode(w, x)


class ForgetsTheLoss(Ranking):
    def loss_augmented_decode(self, w, x, y_true):
        return self.decode(w, x) if x[0] == 0.5 else super().loss_augmented_decode(w, x, y_true)


class ForgetsTheTemperature(Ranking):
    def marginals(self, w, x, y_true, temperature, base=None):
        return super().marginals(w, x, y_true, 1.0, base)


class ForgetsTheBase(Ranking):
    def marginals(self, w, x, y_true, temperature, base=None):
        return super().marginals(w, x, y_true, temperature)


class WrongExpectedLoss(Ranking):
    def expect(self, x, y_true, m):
        feature, loss = super().expect(x, y_true, m)
        return feature, 2.0 * loss


class WrongSize(Ranking):
    def size(self, X, y):
        return 4


class SizeOfText(Ranking):
    def size(self, X, y):
        return "three"


class Restless(Ranking):
    count = 0

    def joint_feature(self, x, y):
        self.count += 1
        return super().joint_feature(x, y) + self.count


class LossAtTheTruth(Ranking):
    def loss(self, y_true, y):
        return super().loss(y_true, y) + 1.0


class NegativeLoss(Ranking):
    def loss(self, y_true, y):
        return -super().loss(y_true, y)


class NaNFeature(Ranking):
    def joint_feature(self, x, y):
        return super().joint_feature(x, y) * (np.nan if x[0] == 0.5 else 1.0)


class SquaresTheMixture(Ranking):
    def mix(self, m, other, gamma):
        return (1 - gamma) * m**2 + gamma * other**2


class NotAnOutput(Ranking):
    def decode(self, w, x):
        return tuple(np.argmax(w[:, None] * np.arange(3)[:, None] * x, axis=1).tolist())


BROKEN = {
    WrongDecode: r"^decode\(w, x\) of WrongDecode is wrong for sample 1: .* has w \. phi = .*, but .* has ",
    ForgetsTheLoss: r"^loss_augmented_decode\(w, x, y_true\) of ForgetsTheLoss is wrong for sample 1: .*w \. phi \+ loss = ",
    ForgetsTheTemperature: r"^marginals\(.*of ForgetsTheTemperature is wrong for sample 0: at temperature \S+, without base",
    ForgetsTheBase: r"^marginals\(.*of ForgetsTheBase is wrong for sample 0: at temperature \S+, with base",
    WrongExpectedLoss: r"expect\(x, y_true, m\), of WrongExpectedLoss is wrong for sample 0: .* the expected loss is",
    WrongSize: r"^joint_feature\(x, y\) of WrongSize is wrong for sample 0: it has shape \(3,\), where size\(X, y\) = 4",
    SizeOfText: r"^size\(X, y\) must return a positive integer.*'three'",
    Restless: r"^joint_feature\(x, y\) of Restless is wrong for sample 0: two calls",
    LossAtTheTruth: r"^loss\(y_true, y\) of LossAtTheTruth is wrong for sample 0: it is 1 for the true output itself",
    NegativeLoss: r"^loss\(y_true, y\) of NegativeLoss is wrong for sample 0: it is -",
    NaNFeature: r"^joint_feature\(x, y\) of NaNFeature is wrong for sample 1: .* not a finite number",
    SquaresTheMixture: r"^mix\(m, other, gamma\).* of SquaresTheMixture is wrong for sample 0: the expectation of a mixture",
    NotAnOutput: r"^decode\(w, x\) of NotAnOutput is wrong for sample \d: .* more than any listed output",
}


@pytest.mark.parametrize("listed", [True, False])
def test_a_right_structure_of_the_user_passes(listed):
    s = Ranking()
    check_structure(s, *RANKED, outputs=s.every if listed else None)
    check_structure(s, *RANKED, outputs=s.every(None))


@pytest.mark.parametrize("kind", BROKEN)
def test_a_wrong_structure_is_named(kind):
    with pytest.raises(StructureError, match=BROKEN[kind]):
        check_structure(kind(), *RANKED, outputs=Ranking().every)


@pytest.mark.parametrize("kind", [WrongDecode, ForgetsTheLoss, WrongSize, LossAtTheTruth, NegativeLoss, SquaresTheMixture])
def test_a_wrong_structure_is_named_where_outputs_are_not_known(kind):
    with pytest.raises(StructureError, match=BROKEN[kind]):
        check_structure(kind(), *RANKED)


def test_outputs_of_other_samples_are_not_asked_for():
    """Samples are lists of candidates of several lengths, an output is the place of one."""

    class Choice(Structure):
        def size(self, X, y):
            return X[0].shape[1]

        def joint_feature(self, x, y):
            return x[y]

        def loss(self, y_true, y):
            return float(y != y_true)

        def decode(self, w, x):
            return int(np.argmax(x @ w))

        def loss_augmented_decode(self, w, x, y_true):
            return int(np.argmax(x @ w + (np.arange(len(x)) != y_true)))

    candidates = [np.random.default_rng(n).normal(size=(n, 2)) for n in (2, 5)]
    check_structure(Choice(), candidates, [1, 4])


def test_marginals_that_ignore_the_weights_are_found_where_outputs_are_not_known():
    class Upside(Ranking):
        def marginals(self, w, x, y_true, temperature, base=None):
            return super().marginals(-w, x, y_true, temperature, base)

    with pytest.raises(StructureError, match=r"falls from .* with the temperature"):
        check_structure(Upside(), *RANKED)


def test_a_wrong_decode_of_ours_is_found():
    class Reversed(Chain):
        def loss_augmented_decode(self, w, x, y_true):
            return super().loss_augmented_decode(w, x, y_true)[::-1]

    given = sequences(Chain())
    with pytest.raises(StructureError, match=r"loss_augmented_decode\(w, x, y_true\) of Reversed is wrong for sample 0"):
        check_structure(Reversed(), given.X, given.y)


def test_the_check_leaves_the_structure_alone():
    given, s = sequences(Chain()), Chain()
    check_structure(s, given.X, given.y)
    assert not hasattr(s, "labels_")


def test_the_check_takes_matrices(monkeypatch):
    monkeypatch.setattr(compiled, "reach_targets", passes.reach_targets.plain)  # not compiled for CSR rows elsewhere
    X, y = np.random.default_rng(0).normal(size=(4, 2)), ["a", "b", "c", "a"]
    for same in (X, sp.csr_array(X), list(X)):
        check_structure(Multiclass(), same, y)


def test_an_error_of_the_user_keeps_its_kind_and_says_the_sample():
    class Fails(Ranking):
        def decode(self, w, x):
            return 1 / 0 if x[0] == 0.5 else super().decode(w, x)

    with pytest.raises(ZeroDivisionError) as caught:
        check_structure(Fails(), *RANKED, outputs=Ranking().every)
    assert caught.value.__notes__ == ["This was raised while sample 1 was checked."]


def test_the_check_of_bad_arguments():
    given = sequences(Chain())
    with pytest.raises(ValueError, match="X has 3 samples, y has 4"):
        check_structure(Chain(), given.X[:3], given.y)
    with pytest.raises(ValueError, match="X is empty"):
        check_structure(Chain(), [], [])
    with pytest.raises(ValueError, match=f"w must have {given.dim} entries"):
        check_structure(Chain(), given.X, given.y, w=np.zeros(3))
    with pytest.raises(ValueError, match="at least one output"):
        check_structure(Ranking(), *RANKED, outputs=[])


# ---- vectors ------------------------------------------------------------------------------------------------------------


def test_unused_lanes_of_the_weights_stay_next_to_zero():
    s, X, Y, w, _ = CASES["graphs of several shapes and types"]()
    data = s.encode(X, Y)
    points, scratch, W = contract.interior(data, 0.1), contract.new_scratch(data), s.unflatten(w)
    for i in range(len(X)):
        contract.prepare(data, i, W, scratch)
        contract.direct(points, data, i, scratch, 0.1)
        contract.push(data, i, 1.0, scratch, W)
    table = W.reshape(W.shape[0], -1)
    assert np.abs(table[:, len(s.labels_) :]).max() < 1e-290
    assert vectors.unpack(W, len(s.labels_)).any()


@kernel
def exponentials(a, out):
    for j in range(a.shape[1]):
        vectors.store(out, 0, j, vectors.exp(vectors.load(a, 0, j)))


@kernel
def logarithms(a, out):
    for j in range(a.shape[1]):
        vectors.store(out, 0, j, vectors.log(vectors.load(a, 0, j)))


@kernel
def quotients(a, b, out):
    for j in range(a.shape[1]):
        vectors.store(out, 0, j, vectors.divide(vectors.load(a, 0, j), vectors.load(b, 0, j)))


WAYS = [pytest.param("fresh", marks=pytest.mark.compiled), "plain"]


def through(function, *arrays):
    """The function on vectors of these numbers."""
    packed = [vectors.pack(np.asarray(array, np.float64)[None], np.float64, fill=1.0) for array in arrays]
    out = np.zeros_like(packed[0])
    function(*packed, out)
    return vectors.unpack(out, len(arrays[0]))[0]


@pytest.mark.parametrize("way", WAYS)
def test_exponential(way):
    x = np.concatenate([np.linspace(-708, 708, 4001), np.linspace(-1, 1, 999), [0.0, -0.0, 1e-300, -1e-17]])
    np.testing.assert_allclose(through(getattr(exponentials, way), x), np.exp(x), rtol=1e-14)
    far = through(getattr(exponentials, way), np.array([-1e300, -709.0, 709.0, 1e300, -np.inf, np.inf]))
    assert np.all(far[[0, 1, 4]] == far[0]) and 0 < far[0] < 1e-307
    assert np.all(far[[2, 3, 5]] == far[2]) and 1e307 < far[2] < np.inf


@pytest.mark.parametrize("way", WAYS)
def test_logarithm(way):
    x = np.concatenate([np.logspace(-307, 307, 4001), np.linspace(0.5, 2, 1001), [np.finfo(float).tiny, 1.0, np.nextafter(1, 2)]])
    np.testing.assert_allclose(through(getattr(logarithms, way), x), np.log(x), rtol=1e-14, atol=1e-18)
    assert through(getattr(logarithms, way), np.ones(3)).tolist() == [0.0] * 3


@pytest.mark.parametrize("way", WAYS)
def test_quotient(way):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 50))
    np.testing.assert_allclose(through(getattr(quotients, way), a, b), a / b, rtol=1e-15)
    with np.errstate(divide="ignore"):
        assert through(getattr(quotients, way), [1.0, -1.0], [0.0, 0.0]).tolist() == [np.inf, -np.inf]
