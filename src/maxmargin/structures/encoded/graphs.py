"""Samples that are graphs: nodes with features and labels, edges between them. Chains, trees and single nodes are such.

    w . phi(x, y) = sum_nodes p  W[y_p] . x_p + bias[y_p] (+ first[y_p], last[y_p] at the ends of a chain)
                  + sum_edges (u, v)  T[kind][y_u, y_v]

The weights are one lane array, labels along its lanes: a row for each feature, the bias, first, last, then K rows for each
kind of edge. A code is the label of each node. The statistics of a point are its node marginals and, for each kind of
edge, its summed pair marginals: all that w . phi and the loss depend on.
"""

from typing import Any, NamedTuple

import numpy as np

from ...data import rows
from ...jit import generic, jitable, kernel, vectors
from . import contract
from .contract import direct, expected_loss, kind_of, statistics_of, step_towards, tally, withdraw, worst

NEVER = -1e30  # the score of an unused lane: no label is there
FLOOR = 1e-300  # the smallest marginal kept, so that its logarithm is finite and it can return


START, EDGES, GRAM = range(3)  # the columns of Graphs.sample
SOURCE, TARGET, KIND = range(3)  # the columns of Graphs.edge
LABEL, PLACE, ORDER = range(3)  # the columns of Graphs.node


class Graphs(NamedTuple):
    """All samples, their nodes and edges one after another; node numbers in edges count within a sample.

    Few arrays with several columns: the time to compile a kernel grows with the number of arrays that its functions hand on.
    """

    X: rows.Dense | rows.Indexed | rows.CSR
    sample: np.ndarray  # (samples + 1, 3) where the nodes of a sample start, its edges, and its inner products
    edge: np.ndarray  # (edges, 3) its two nodes, and which table of pair weights it uses
    # (nodes, 3) the true label, K where it is not known; bit 0: the first of a chain, bit 1: the last; the user's number
    node: np.ndarray
    cost: vectors.Table  # (K + 1, K) loss of a node by true label and guess; the last row, for unknown labels, is zero
    scale: np.ndarray  # (samples,) factor on the loss
    gram: np.ndarray  # inner products of the features of the nodes of each sample, L x L each
    labels: int  # K
    kinds: int  # kinds of edges
    pairs: int  # the first row of pair weights

    # For plain Python; kernels name the columns.

    @property
    def start(self) -> np.ndarray:
        return self.sample[:, START]

    @property
    def edges(self) -> np.ndarray:
        return self.sample[:, EDGES]

    @property
    def source(self) -> np.ndarray:
        return self.edge[:, SOURCE]

    @property
    def target(self) -> np.ndarray:
        return self.edge[:, TARGET]

    @property
    def kind(self) -> np.ndarray:
        return self.edge[:, KIND]

    @property
    def label(self) -> np.ndarray:
        return self.node[:, LABEL]

    @property
    def order(self) -> np.ndarray:
        return self.node[:, ORDER]


class Room(NamedTuple):
    """Scratch for one sample at a time: tables with labels along the lanes, all in one. A number says where a table starts."""

    rows: vectors.Table
    code: np.ndarray
    scores: int  # (L, K) node scores
    belief: int  # (L, K)
    node: int  # (L, K) the difference: coefficients on nodes
    other: int  # (L, K) an output to take inner products with
    pair: int  # (kinds * K, K) pair weights, by [source, target]
    turned: int  # the same by [target, source]
    pairs: int  # (kinds * K, K) the difference: coefficients on pairs
    other_pairs: int
    joint: int  # (edges * K, K) pair marginals of the target; or the tables of cliques
    message: int  # the next three: for cliques
    square: int  # (K, K) one edge
    sums: int  # (kinds * K, K) pair marginals of the target, by kind


def new_tables(data, joint: int, message: int) -> Room:
    """Room for the longest sample, with this many rows for `joint` and `message`."""
    g = data.graphs
    longest, pairs = int(np.max(np.diff(g.start), initial=1)), g.kinds * g.labels
    sizes = [longest] * 4 + [pairs] * 4 + [joint, message, g.labels if message else 0, pairs if message else 0]
    ends = np.cumsum(sizes)
    table = vectors.zeros_table(int(ends[-1]), g.labels, np.float64)
    return Room(table, np.zeros(longest, np.int32), *(ends - sizes).tolist())


@generic
def graphs(data):
    """The graphs of a kind of encoded samples that is made of graphs."""


@jitable
def spread_of(data, i):
    """Where the nodes of sample i start, how many there are; the same of its edges."""
    g = graphs(data)
    start, first = g.sample[i, START], g.sample[i, EDGES]
    return start, g.sample[i + 1, START] - start, first, g.sample[i + 1, EDGES] - first


@kernel
def node_grams(X, start, place, gram, gram_start, workspace):
    """Inner products of all nodes within each sample; `workspace` has a number for each feature, all zero."""
    for i in range(start.size - 1):
        size = start[i + 1] - start[i]
        for p in range(size):
            row = start[i] + p
            for k in range(rows.first(X, row), rows.last(X, row)):
                workspace[rows.column(X, row, k)] = rows.value(X, row, k)
            for q in range(p + 1):
                other, total = start[i] + q, 0.0
                for k in range(rows.first(X, other), rows.last(X, other)):
                    total += rows.value(X, other, k) * workspace[rows.column(X, other, k)]
                both = place[row] & place[other]
                total += X.bias * X.bias + (both & 1) + (both >> 1)
                gram[gram_start[i] + p * size + q] = total
                gram[gram_start[i] + q * size + p] = total
            for k in range(rows.first(X, row), rows.last(X, row)):
                workspace[rows.column(X, row, k)] = 0.0


# ---- what all samples made of graphs share ---------------------------------------------------------------


def graph_length(data, i):
    g = graphs(data)
    return g.sample[i + 1, START] - g.sample[i, START]


def graph_truth(data, i, code):
    start, size, _, _ = spread_of(data, i)
    for p in range(size):
        code[p] = graphs(data).node[start + p, LABEL]


def graph_prepare(data, i, W, room):
    g = graphs(data)
    start, size, _, _ = spread_of(data, i)
    blocks = W.shape[1]
    for p in range(size):
        rows.scores(g.X, start + p, W, room.rows.lanes[room.scores + p : room.scores + p + 1])
        for bit in range(2):
            if g.node[start + p, PLACE] >> bit & 1:
                row = rows.last_column(g.X) + 1 + bit
                for b in range(blocks):
                    vectors.increase(room.rows.lanes, room.scores + p, b, vectors.load(W, row, b))
    for r in range(W.shape[0] - g.pairs):
        for b in range(blocks):
            vectors.store(room.rows.lanes, room.pair + r, b, vectors.load(W, g.pairs + r, b))


@jitable
def turn(data, room):
    """Pair weights by [target, source]."""
    K = graphs(data).labels
    for r in range(graphs(data).kinds):
        for a in range(K):
            for b in range(K):
                room.rows.flat[room.turned + r * K + b, a] = room.rows.flat[room.pair + r * K + a, b]


@jitable
def pair_row(g, e, code):
    """The row of its pair in the table of all kinds."""
    return g.edge[e, KIND] * g.labels + code[g.edge[e, SOURCE]]


def graph_score_of(data, i, room, code):
    g = graphs(data)
    _, size, first, count = spread_of(data, i)
    total = 0.0
    for p in range(size):
        total += room.rows.flat[room.scores + p, code[p]]
    for e in range(first, first + count):
        total += room.rows.flat[room.pair + pair_row(g, e, code), code[g.edge[e, TARGET]]]
    return total


def graph_loss_of(data, i, code):
    g = graphs(data)
    start, size, _, _ = spread_of(data, i)
    total = 0.0
    for p in range(size):
        total += g.cost.flat[g.node[start + p, LABEL], code[p]]
    return total * g.scale[i]


def graph_forget(data, i, code):
    return None


def graph_diameter(data, i):
    # All nodes may change between the same two labels, and all edges between the same two pairs.
    g = graphs(data)
    _, _, _, count = spread_of(data, i)
    total = 0.0
    for k in range(g.sample[i, GRAM], g.sample[i + 1, GRAM]):
        total += abs(g.gram[k])
    return 2.0 * (total + count * count)


@jitable
def wipe(table, start, count):
    zero = vectors.zeros_like(table.lanes)
    for r in range(start, start + count):
        for b in range(table.lanes.shape[1]):
            vectors.store(table.lanes, r, b, zero)


def graph_against(data, i, room, code):
    # other[p, k] = sum of <x_p, x_q> over the nodes q that the code labels k
    g = graphs(data)
    _, size, first, count = spread_of(data, i)
    wipe(room.rows, room.other, size)
    for p in range(size):
        at = g.sample[i, GRAM] + p * size
        for q in range(size):
            room.rows.flat[room.other + p, code[q]] += g.gram[at + q]
    if count > 0:
        wipe(room.rows, room.other_pairs, g.kinds * g.labels)
        for e in range(first, first + count):
            room.rows.flat[room.other_pairs + pair_row(g, e, code), code[g.edge[e, TARGET]]] += 1.0


def graph_inner(data, i, room, code):
    g = graphs(data)
    _, size, first, count = spread_of(data, i)
    total = 0.0
    for p in range(size):
        total += room.rows.flat[room.other + p, code[p]]
    for e in range(first, first + count):
        total += room.rows.flat[room.other_pairs + pair_row(g, e, code), code[g.edge[e, TARGET]]]
    return total


def graph_clear(data, i, room):
    g = graphs(data)
    _, size, _, count = spread_of(data, i)
    wipe(room.rows, room.node, size)
    if count > 0:
        wipe(room.rows, room.pairs, g.kinds * g.labels)


def graph_tally(data, i, t, code, room):
    g = graphs(data)
    _, size, first, count = spread_of(data, i)
    for p in range(size):
        room.rows.flat[room.node + p, code[p]] += t
    for e in range(first, first + count):
        room.rows.flat[room.pairs + pair_row(g, e, code), code[g.edge[e, TARGET]]] += t


def graph_push(data, i, t, room, W):
    g = graphs(data)
    start, size, _, count = spread_of(data, i)
    blocks, zero = W.shape[1], vectors.zeros_like(W)
    for p in range(size):
        if vectors.magnitude_row(room.rows.lanes, room.node + p) == 0:  # most nodes, once their labels have settled
            continue
        for b in range(blocks):
            held = vectors.load(room.rows.lanes, room.node + p, b)
            vectors.store(room.rows.lanes, room.node + p, b, vectors.fma(zero, t, held))
        rows.update(g.X, start + p, room.rows.lanes, room.node + p, W)
        for bit in range(2):
            if g.node[start + p, PLACE] >> bit & 1:
                row = rows.last_column(g.X) + 1 + bit
                for b in range(blocks):
                    vectors.increase(W, row, b, vectors.load(room.rows.lanes, room.node + p, b))
    if count > 0:
        for r in range(W.shape[0] - g.pairs):
            for b in range(blocks):
                moved = vectors.fma(vectors.load(W, g.pairs + r, b), t, vectors.load(room.rows.lanes, room.pairs + r, b))
                vectors.store(W, g.pairs + r, b, moved)


def graph_measure(data, i, room):
    g, table = graphs(data), room.rows.lanes
    start, size, _, count = spread_of(data, i)
    blocks, gain, square = table.shape[1], vectors.zeros_like(table), vectors.zeros_like(table)
    for p in range(size):
        y, at = g.node[start + p, LABEL], g.sample[i, GRAM] + p * size
        if vectors.magnitude_row(table, room.node + p) > 0:
            for b in range(blocks):
                mine, seen = vectors.load(table, room.node + p, b), vectors.zeros_like(table)
                worth = vectors.fma(vectors.load(table, room.scores + p, b), g.scale[i], vectors.load(g.cost.lanes, y, b))
                gain = vectors.add(gain, vectors.multiply(mine, worth))
                for q in range(p):
                    seen = vectors.fma(seen, 2.0 * g.gram[at + q], vectors.load(table, room.node + q, b))
                square = vectors.add(square, vectors.multiply(mine, vectors.fma(seen, g.gram[at + p], mine)))
    if count > 0:
        for r in range(g.kinds * g.labels):
            for b in range(blocks):
                mine = vectors.load(table, room.pairs + r, b)
                gain = vectors.add(gain, vectors.multiply(mine, vectors.load(table, room.pair + r, b)))
                square = vectors.add(square, vectors.multiply(mine, mine))
    return vectors.total(gain), vectors.total(square)


# ---- vertices and their mixtures: the points of Frank-Wolfe ----------------------------------------------


class Mixtures(NamedTuple):
    """A mixture of outputs for each sample, as its statistics: node marginals, and pair marginals summed by kind."""

    node: vectors.Table  # (nodes, K)
    pair: vectors.Table  # (samples * kinds * K, K)


@direct.register(Mixtures)
def _(points, data, i, room, temperature):
    worst(data, i, room, room.code)
    start, size, _, count = spread_of(data, i)
    negate_rows(points.node, start, size, room.rows, room.node)
    if count > 0:
        size = graphs(data).kinds * graphs(data).labels
        negate_rows(points.pair, i * size, size, room.rows, room.pairs)
    tally(data, i, 1.0, room.code, room)


@step_towards.register(Mixtures)
def _(points, data, i, gamma, room):
    start, size, _, count = spread_of(data, i)
    move_rows(points.node, start, size, gamma, room.rows, room.node)
    if count > 0:
        size = graphs(data).kinds * graphs(data).labels
        move_rows(points.pair, i * size, size, gamma, room.rows, room.pairs)


@jitable
def move_rows(table, start, count, t, change, at):
    for r in range(count):
        for b in range(table.lanes.shape[1]):
            moved = vectors.fma(vectors.load(table.lanes, start + r, b), t, vectors.load(change.lanes, at + r, b))
            vectors.store(table.lanes, start + r, b, moved)


@jitable
def negate_rows(table, start, count, difference, at):
    """difference = -table: what clearing and withdrawing would give, in half the traffic"""
    zero = vectors.zeros_like(table.lanes)
    for r in range(count):
        for b in range(table.lanes.shape[1]):
            vectors.store(difference.lanes, at + r, b, vectors.subtract(zero, vectors.load(table.lanes, start + r, b)))


@withdraw.register(Mixtures)
def _(points, data, i, room):
    withdraw_statistics(points, data, i, room)


@jitable
def withdraw_statistics(points, data, i, room):
    """For points that keep node marginals and pair marginals summed by kind."""
    start, size, _, count = spread_of(data, i)
    withdraw_rows(points.node, start, size, room.rows, room.node)
    if count > 0:
        size = graphs(data).kinds * graphs(data).labels
        withdraw_rows(points.pair, i * size, size, room.rows, room.pairs)


@jitable
def withdraw_rows(table, start, count, difference, at):
    for r in range(count):
        for b in range(table.lanes.shape[1]):
            left = vectors.subtract(vectors.load(difference.lanes, at + r, b), vectors.load(table.lanes, start + r, b))
            vectors.store(difference.lanes, at + r, b, left)


@expected_loss.register(Mixtures)
def _(points, data, i):
    return node_loss(points.node, data, i)


@jitable
def node_loss(node, data, i):
    g = graphs(data)
    start, size, _, _ = spread_of(data, i)
    total = 0.0
    for p in range(start, start + size):
        for k in range(g.labels):
            total += node.flat[p, k] * g.cost.flat[g.node[p, LABEL], k]
    return total * g.scale[i]


def register(kind: type) -> None:
    """Let a kind of encoded samples be graphs: it has a field `graphs` and brings `new_room` and `worst` of its own."""
    graphs.register(kind)(_graphs_of)
    shared: tuple[tuple[Any, Any], ...] = (
        (contract.length, graph_length),
        (contract.truth, graph_truth),
        (contract.prepare, graph_prepare),
        (contract.score_of, graph_score_of),
        (contract.loss_of, graph_loss_of),
        (contract.forget, graph_forget),
        (contract.diameter, graph_diameter),
        (contract.against, graph_against),
        (contract.inner, graph_inner),
        (contract.clear, graph_clear),
        (contract.tally, graph_tally),
        (contract.push, graph_push),
        (contract.measure, graph_measure),
        (contract.n_samples, samples_of),
        (contract.truths, truths_of),
        (contract.weight_shape, shape_of),
        (contract.vertices, mixtures_of),
        (contract.same_shapes, graphs_alike),
        (contract.output_of, labels_of),
    )
    for function, implementation in shared:
        function.register(kind)(implementation)


def _graphs_of(data):
    return data.graphs


def samples_of(data) -> int:
    return data.graphs.start.size - 1


def truths_of(data) -> tuple[np.ndarray, np.ndarray]:
    return data.graphs.label, np.diff(data.graphs.start)


def shape_of(data) -> tuple[int, ...]:
    g = data.graphs
    return (g.pairs + g.kinds * g.labels, g.cost.lanes.shape[1], g.cost.lanes.shape[2])


def graphs_alike(data, other) -> bool:
    new, old = data.graphs, other.graphs
    same = ("start", "edges", "source", "target", "kind")
    return old.labels == new.labels and all(np.array_equal(getattr(old, name), getattr(new, name)) for name in same)


def labels_of(data, structure, i: int, code: np.ndarray):
    labels = np.empty(code.size, np.int64)
    labels[data.graphs.order[data.graphs.start[i] : data.graphs.start[i + 1]]] = code
    return structure._outputs(structure.labels_[labels], np.array([0, code.size]))[0]


def node_statistics(points, data, i: int, weight: float) -> dict[str, np.ndarray]:
    """Node marginals, in the user's order, times `weight`."""
    g = data.graphs
    nodes = slice(g.start[i], g.start[i + 1])
    marginals = np.empty((nodes.stop - nodes.start, g.labels))
    marginals[g.order[nodes]] = points.node.flat[nodes, : g.labels]
    return {"node": weight * marginals}


@statistics_of.register(Mixtures)
def _(points, data, i, weight):
    K, kinds = data.graphs.labels, data.graphs.kinds
    pair = points.pair.flat[i * max(kinds * K, 1) :][: kinds * K, :K].reshape(kinds, K, K)
    return node_statistics(points, data, i, weight) | {"pair": weight * pair}


@kind_of.register(Mixtures)
def _(points):
    return "mixtures"


def mixtures_of(data) -> Mixtures:
    g = data.graphs
    size = max(g.kinds * g.labels, 1)
    n = samples_of(data)
    points = Mixtures(*(vectors.zeros_table(count, g.labels, np.float64) for count in (g.label.size, n * size)))
    points.node.flat[np.arange(g.label.size), g.label] = 1.0
    if g.kind.size:
        sample = np.repeat(np.arange(n), np.diff(g.edges))
        source, target = (g.label[g.start[sample] + end] for end in (g.source, g.target))
        np.add.at(points.pair.flat, (sample * size + g.kind * g.labels + source, target), 1.0)
    return points


def node_points(data, spread: float) -> vectors.Table:
    """Node marginals around the true labels."""
    g = data.graphs
    spread = min(spread, 1.0 / g.labels)
    node = vectors.zeros_table(g.label.size, g.labels, np.float64)
    node.flat[:] = FLOOR
    node.flat[:, : g.labels] = spread
    node.flat[np.arange(g.label.size), g.label] = 1.0 - (g.labels - 1) * spread
    return node
