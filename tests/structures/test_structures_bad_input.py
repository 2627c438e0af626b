"""Samples that cannot be read: each is refused in one sentence that says which sample, and what is wrong with it."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.structures import Chain, Graph, Multiclass, Tree, graph

RNG = np.random.default_rng(0)
X = [RNG.normal(size=(L, 3)) for L in (2, 4, 3)]
Y = [[0, 1], [1, 2, 0, 0], [2, 2, 1]]
EDGES = [[(0, 1)], [(0, 1), (1, 2), (3, 1)], [(2, 1), (1, 0)]]
CYCLE = [(0, 1), (1, 2), (2, 0)]


def replaced(sequence, i, new):
    return [new if j == i else each for j, each in enumerate(sequence)]


def spoiled(array, value=np.nan):
    array = np.array(array)
    array[-1, 1] = value
    return array


def encoded(structure, X, y):
    structure.size(X, y)
    return structure.encode(X, y)


def graphs(edges=EDGES, types=None):
    return [(x, e) if types is None else (x, e, t) for x, e, t in zip(X, edges, types or edges, strict=True)]


def refuse(message, structure, X, y):
    with pytest.raises(ValueError, match=message) as caught:
        encoded(structure, X, y)
    assert "\n" not in str(caught.value)


def test_the_samples_are_fine_otherwise():
    encoded(Chain(), X, Y)
    encoded(Tree(), graphs(), Y)
    encoded(Tree(), graphs(types=[[0], [0, 1, 0], [1, 0]]), Y)
    encoded(Graph(3), graphs(replaced(EDGES, 2, CYCLE)), Y)
    encoded(Multiclass(), X[1], Y[1])


# ---- lengths and dimensions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("structure", [Chain(), Multiclass()])
def test_x_and_y_of_different_length(structure):
    refuse("X has 3 samples, y has 2", structure, X if isinstance(structure, Chain) else X[2], Y[:2])


def test_as_many_labels_as_nodes():
    refuse("Sample 1 has 4 nodes in X and 3 labels in y", Chain(), X, replaced(Y, 1, [1, 2, 0]))
    refuse("Sample 2 has 3 nodes in X and 0 labels in y", Chain(3), X, replaced(Y, 2, []))


def test_empty_graphs():
    empty = np.zeros((0, 3)), np.zeros((0, 2), int)
    refuse("Sample 1 of X is empty: it has no nodes", Tree(), [(np.eye(3), [(0, 1), (1, 2)]), empty], [[0, 1, 0], []])
    refuse("Sample 0 has 0 nodes in X and 2 labels in y", Chain(), replaced(X, 0, []), Y)


@pytest.mark.parametrize("structure", [Chain(), Tree(), Multiclass()])
def test_no_samples(structure):
    refuse("There are no samples: X is empty", structure, [], [])


def test_nothing_to_decode():
    s = Chain()
    dim = s.size(X, Y)
    assert s.decode_all(np.zeros(dim), []) == []


def test_dimensions():
    refuse("Sample 2 of X must have two dimensions, nodes and features; got 1", Chain(), replaced(X, 2, X[2][0]), Y)
    refuse("Sample 2 of X must have two dimensions, nodes and features; got 3", Chain(), replaced(X, 2, X[2][None]), Y)
    refuse("Sample 0 of X must have two dimensions, nodes and features; got 0", Chain(), replaced(X, 0, 3.0), Y)
    refuse("X must have two dimensions, samples and features; got 3", Multiclass(), np.zeros((3, 2, 2)), [0, 1, 0])
    refuse(r"Sample 1 of X must be a vector of features; its shape is \(2, 3\)", Multiclass(), [X[0][0], X[0]], [0, 1])
    refuse(r"y must have one dimension, a label for each sample; its shape is \(2, 1\)", Multiclass(), X[0], np.array([[0], [1]]))


def test_ragged_rows():
    refuse(
        "Sample 1 of X is not an array of numbers with rows of one length", Chain(), replaced(X, 1, [[1.0, 2.0, 3.0], [1.0]]), Y
    )


def test_one_matrix_for_all_sequences():
    refuse("X must be a list with an entry for each sample; got csr_array", Chain(), sp.csr_array(X[0]), Y)
    refuse("X must be a list with an entry for each sample; got float", Chain(), 3.0, Y)
    refuse("X must be a matrix or a list with an entry for each sample; got int", Multiclass(), 3, [0])
    refuse("y must be a list with an entry for each sample; got str", Chain(), X, "abc")


def test_y_is_needed_in_training():
    for structure, given in ((Chain(), X), (Multiclass(), X[0])):
        with pytest.raises(ValueError, match="y is needed"):
            structure.size(given, None)


# ---- features -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_width_of_one_sample(kind):
    wide = np.ones((4, 5))
    refuse("Sample 1 of X has 5 features; 3 are expected", Chain(), [kind(x) for x in replaced(X, 1, wide)], Y)
    s = Chain()
    s.size(X, Y)
    with pytest.raises(ValueError, match="Sample 0 of X has 5 features; 3 are expected"):
        s.decode_all(np.zeros(s.size(X, Y)), [kind(wide)])
    with pytest.raises(ValueError, match="Sample 0 of X has 5 features; 3 are expected"):
        s.joint_feature(kind(wide), [0, 0, 0, 0])


def test_width_in_multiclass():
    refuse("Sample 1 of X has 2 features; 3 are expected", Multiclass(), [[1, 2, 3], [1, 2]], [0, 1])
    s = Multiclass()
    s.size(X[0], [0, 1])
    with pytest.raises(ValueError, match="X has 2 features; 3 are expected"):
        s.encode(np.ones((4, 2)), None)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, np.float32])
def test_not_a_number(value, kind):
    bad = [x.astype(kind) if kind is np.float32 else kind(x) for x in replaced(X, 1, spoiled(X[1], value))]
    refuse("Sample 1 of X holds, in the features of node 3, NaN or infinity", Chain(), bad, Y)
    if kind is not np.float32:
        refuse("Sample 3 of X holds NaN or infinity", Multiclass(), kind(spoiled(X[1], value)), Y[1])


def test_numbers_whose_squares_overflow():
    message = "Sample 1 of X is too large: the squared norm of its features overflows float64; scale them down"
    refuse(message, Chain(), replaced(X, 1, np.full((4, 3), 1e200)), Y)
    refuse(message, Multiclass(), replaced(list(X[2]), 1, [1e308, 1e308, 1e308]), Y[2])


def test_not_real_numbers():
    refuse("Sample 1 of X must hold real numbers; its dtype is <U1", Chain(), replaced(X, 1, np.array([["a", "b", "c"]] * 4)), Y)
    refuse("Sample 1 of X must hold real numbers; its dtype is complex128", Chain(), replaced(X, 1, X[1] + 1j), Y)
    refuse("Sample 1 of X is not an array of numbers", Chain(), replaced(X, 1, np.array([[None, "b", 1]] * 4, object)), Y)


def test_broken_sparse_samples():
    broken = sp.csr_matrix(X[1])
    broken.indices[2] = 17
    refuse("X is not a valid CSR matrix", Chain(), [sp.csr_matrix(x) for x in X[:1]] + [broken] + [sp.csr_matrix(X[2])], Y)


# ---- labels -------------------------------------------------------------------------------------------------------------


def test_a_string_is_not_a_sequence_of_labels():
    refuse("Sample 1 of y must be a sequence of labels, one for each node; got 'abca'", Chain(), X, replaced(Y, 1, "abca"))
    refuse("Sample 1 of y must be a sequence of labels, one for each node; got 3", Chain(), X, replaced(Y, 1, 3))
    refuse("y must be a sequence with a label for each sample; got 'ab'", Multiclass(), X[0], "ab")


def test_what_cannot_be_a_label():
    refuse(r"Sample 1 of y holds \[3\], which cannot be a label: it is not hashable", Chain(), X, replaced(Y, 1, [1, 2, [3], 0]))
    refuse("Sample 0 of y holds nan, which cannot be a label", Chain(), X, replaced(Y, 0, [1, float("nan")]))
    refuse("Sample 0 of y holds None, which cannot be a label", Chain(), X, replaced(Y, 0, [1, None]))
    refuse("y holds nan, which cannot be a label", Multiclass(), X[0], [1.0, np.nan])


def test_one_label_only():
    refuse("At least two labels are needed; y holds only 'a'", Chain(), X, [["a"] * len(x) for x in X])
    refuse("At least two labels are needed; y holds only 4", Multiclass(), X[0], [4, 4])


@pytest.mark.parametrize("label", [3, -1, "a", 0.5, (1, 2)])
def test_labels_out_of_range(label):
    known = "known are 0, 1, 2"
    refuse(f"Sample 1 of y holds the unknown label .*; {known}", Chain(3), X, replaced(Y, 1, [0, 1, label, 0]))
    refuse(f"Sample 1 of y holds the unknown label .*; {known}", Multiclass(3), X[0], [0, label])


def test_unknown_labels_at_test_time():
    s = Chain()
    dim = s.size(X, Y)
    with pytest.raises(ValueError, match="Sample 0 of y holds the unknown label 7; known are 0, 1, 2"):
        s.loss_augmented_decode(np.zeros(dim), X[0], [0, 7])
    with pytest.raises(ValueError, match="The output holds the unknown label 7"):
        s.loss([0, 1], [0, 7])
    with pytest.raises(ValueError, match="The true output holds the unknown label 7"):
        s.loss([7, 1], [0, 1])
    with pytest.raises(ValueError, match="The outputs have 2 and 3 labels"):
        s.loss([0, 1], [0, 1, 1])


@pytest.mark.parametrize("count", [1, 0, -2, 2.5, "3", True])
def test_number_of_labels(count):
    refuse(r"'n_labels' parameter of Chain must be an int in the range \[2, inf\) or None. Got", Chain(count), X, Y)
    refuse(
        r"'n_classes' parameter of Multiclass must be an int in the range \[2, inf\) or None. Got",
        Multiclass(count),
        X[0],
        [0, 1],
    )


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (np.ones((2, 2)) - np.eye(2), r"cost must have shape \(3, 3\), a row and a column for each label; got \(2, 2\)"),
        (np.ones(3), r"cost must have shape \(3, 3\)"),
        (np.ones((3, 3)), "cost must be finite and not negative, with a zero diagonal"),
        (np.eye(3) - 1.0, "cost must be finite and not negative"),
        (np.where(np.eye(3) == 1, 0.0, np.nan), "cost must be finite"),
        ([["a"] * 3] * 3, "cost must be a matrix of numbers"),
        ([[0, 1], [1]], "cost must be a matrix of numbers"),
    ],
)
def test_costs(cost, message):
    refuse(message, Chain(cost=cost), X, Y)
    refuse(message, Multiclass(cost=cost), X[2], [0, 1, 2])


def test_weights_of_the_wrong_size():
    s = Chain()
    dim = s.size(X, Y)
    with pytest.raises(ValueError, match=rf"w must be a vector of {dim} weights; got an array of shape \(5,\)"):
        s.decode(np.zeros(5), X[0])


# ---- edges --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("structure", [Tree(), Graph()])
@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 1), (2, 2)], r"Sample 1 of X has an edge from node 2 to itself \(edge 1\)"),
        ([(0, 1), (1, 2), (0, 1)], r"Sample 1 of X joins the nodes 0 and 1 twice \(edges 0 and 2\)"),
        ([(0, 1), (1, 0)], r"Sample 1 of X joins the nodes 1 and 0 twice \(edges 0 and 1\)"),
        ([(0, 4)], r"Sample 1 of X has the edge \(0, 4\), but its 4 nodes are numbered from 0 to 3"),
        ([(0, 1), (-1, 2)], r"Sample 1 of X has the edge \(-1, 2\), but its 4 nodes"),
        ([0, 1], r"Sample 1 of X has edges of shape \(2,\); \(number of edges, 2\) is expected"),
        ([(0, 1, 2)], r"Sample 1 of X has edges of shape \(1, 3\)"),
        ([(0.0, 1.0)], "Sample 1 of X has edges that are not pairs of node numbers: they must be integers, and are float64"),
        ([(0, 1), (2,)], "Sample 1 of X has edges that are not pairs of node numbers"),
        ([(True, False)], "Sample 1 of X has edges that are not pairs of node numbers: .* bool"),
    ],
)
def test_edges(structure, edges, message):
    refuse(message, structure, graphs(replaced(EDGES, 1, edges)), Y)


def test_edges_given_once():
    refuse(r"Sample 0 of X has the edge \(1, 2\), but its 2 nodes", Tree(edges=[(0, 1), (1, 2)]), X, Y)
    refuse("Sample 0 of X is a tuple; with edges given to the structure", Tree(edges=[(0, 1)]), graphs(), Y)
    refuse("The structure has 1 edges but edge_types of shape", Tree(edges=[(0, 1)], edge_types=[0, 1]), X, Y)
    refuse("edge_types are given without edges", Graph(edge_types=[0, 1]), graphs(), Y)


@pytest.mark.parametrize("structure", [Tree(), Graph()])
@pytest.mark.parametrize("x", [X[1], (X[1],), (X[1], [], [], []), "text"])
def test_samples_without_edges(structure, x):
    refuse(
        r"Sample 1 of X must be \(features, edges\) or \(features, edges, edge_types\)", structure, replaced(graphs(), 1, x), Y
    )


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ([0, 1], r"Sample 1 of X has 3 edges but edge_types of shape \(2,\); one for each edge is expected"),
        ([0, -1, 0], "Sample 1 of X has a negative edge type, -1"),
        ([0.0, 1.0, 2.0], "Sample 1 of X has edge_types that are not integers: they must be integers, and are float64"),
        ([[0, 1, 0]], r"Sample 1 of X has 3 edges but edge_types of shape \(1, 3\)"),
    ],
)
def test_edge_types(types, message):
    refuse(message, Tree(), graphs(types=[[0], types, [1, 0]]), Y)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones((2, 1)), r"Sample 1 of X has 3 edges but edge features of shape \(2, 1\); a row for each edge is expected"),
        ([[0.0], [np.inf], [1.0]], "Sample 1 of X holds, in the features of edge 1, NaN or infinity"),
        (np.ones((3, 4)), "Sample 1 of X has 4 edge features; 1 are expected"),
    ],
)
def test_edge_features(values, message):
    structure = Tree(edge_features=True)
    refuse(message, structure, graphs(types=[[[0.5]], values, [[1.0], [0.0]]]), Y)
    refuse(r"Sample 0 of X must be \(features, edges, edge features\)", structure, graphs(), Y)
    refuse(r"Sample 0 of X must be \(features, edge features\)", Tree(edges=[(0, 1)], edge_features=True), X, Y)
    refuse("edge_types and edge_features are both set", Tree(edges=[(0, 1)], edge_types=[0], edge_features=True), X, Y)


def test_an_unknown_type_of_edge_at_test_time():
    s = Tree()
    dim = s.size(graphs(), Y)
    with pytest.raises(ValueError, match="Sample 0 of X has an edge of type 1; the training samples have types 0 to 0 only"):
        s.decode(np.zeros(dim), (X[0], [(0, 1)], [1]))


def test_a_cycle_is_not_a_tree():
    refuse(
        r"Sample 2 of X has a cycle through node \d: it is not a tree. Use structures.Graph",
        Tree(),
        graphs(replaced(EDGES, 2, CYCLE)),
        Y,
    )


def test_a_cycle_needs_networkx(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    graph._elimination.cache_clear()
    s = Graph()
    given = graphs(replaced(EDGES, 2, CYCLE))
    s.size(given, Y)
    with pytest.raises(ImportError, match=r"Sample 2 of X has a cycle, .* pip install 'maxmargin\[graph\]'"):
        s.encode(given, Y)


def test_tree_width_over_the_limit():
    complete = [(u, v) for u in range(4) for v in range(u)]
    given = graphs(replaced(EDGES, 1, complete))
    message = (
        r"Sample 1 of X has too large a tree-width for exact inference: 3 was found, which with 3 labels needs tables "
        r"of 3\^4 = 81 entries; max_table allows 80"
    )
    refuse(message, Graph(max_table=80), given, Y)
    encoded(Graph(max_table=81), given, Y)


def test_a_large_grid_is_refused_by_default():
    side = 12
    number = np.arange(side * side).reshape(side, side)
    edges = np.concatenate(
        [np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], 1), np.stack([number[:-1].ravel(), number[1:].ravel()], 1)]
    )
    x, y = RNG.normal(size=(side * side, 1)), np.arange(side * side) % 3
    refuse("Sample 0 of X has too large a tree-width .* with 3 labels .* max_table allows 100000", Graph(edges=edges), [x], [y])
