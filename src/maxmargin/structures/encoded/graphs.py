"""Samples that are graphs: nodes with features and labels, edges between them. Chains, trees and single nodes are such.

    w . phi(x, y) = sum_nodes p  W[y_p] . x_p + bias[y_p] (+ first[y_p], last[y_p] at the ends of a chain)
                  + sum_edges (u, v)  T[kind][y_u, y_v]

The weights are one lane array, labels along its lanes: a row for each feature, the bias, first, last, then K rows for each
kind of edge. A code is the label of each node. The statistics of an output are, for each kind of edge, how often it has each pair
of labels, and then the labels of the nodes: all that w . phi and the loss depend on.

Verbs that would follow from these are written here for speed: labels lie along vectors, and inner products of nodes are
computed once.
"""

from typing import Any, NamedTuple

import numpy as np

from ...data import rows
from ...data.row_updates import update
from ...jit import generic, jitable, kernel, vectors
from . import contract
from .points import Mixtures, empty_mixtures

FLOOR = 1e-300  # the smallest marginal kept, so that its logarithm is finite and it can return
# What a pair of labels that is not allowed, or such a label at an end, adds to a score. Finite, so that zero times it is zero; an
# output that is not allowed is never the best while scores stay far below it, and `structures/transitions.py` sees to that.
# Times FLOOR it is nothing: marginals of such a pair take no part in any sum.
FORBIDDEN = -1e100
RULED = 2  # bits of Graphs.node that say where the rules of the ends hold, after those of the weights of the ends


NODE_START, EDGE_START, GRAM_START = range(3)  # the columns of Graphs.sample
SOURCE, TARGET, KIND = range(3)  # the columns of Graphs.edge
LABEL, PLACE, ORDER = range(3)  # the columns of Graphs.node


class Graphs(NamedTuple):
    """All samples, their nodes and edges one after another; node numbers in edges count within a sample.

    Few arrays with several columns: the time to compile a kernel grows with the number of arrays that its functions hand on.
    """

    X: rows.Dense | rows.Indexed | rows.CSR | rows.Indicators
    sample: np.ndarray  # (samples + 1, 3) where the nodes of a sample start, its edges, and its inner products
    edge: np.ndarray  # (edges, 3) its two nodes, and which table of pair weights it uses
    # (nodes, 3) the true label, K where it is not known; bit 0: the first of a chain, bit 1: the last, bits 2 and 3: the same
    # where labels at the ends are ruled; the user's number
    node: np.ndarray
    # (K + 1, K) loss of a node by true label and guess; the last row, for unknown labels, is zero. Where outputs are ruled K + 2
    # rows more, zero or FORBIDDEN: labels at the first node, at the last, and pairs of neighbours
    cost: vectors.VectorTable
    scale: np.ndarray  # (samples,) factor on the loss
    # inner products of the features of the nodes of each sample, q <= p at p (p + 1) / 2 + q: short integers where these count
    gram: np.ndarray
    labels: int  # K
    kinds: int  # kinds of edges
    pairs: int  # the first row of pair weights

    # For plain Python; kernels name the columns.

    @property
    def start(self) -> np.ndarray:
        return self.sample[:, NODE_START]

    @property
    def edges(self) -> np.ndarray:
        return self.sample[:, EDGE_START]

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


class GraphLayout(NamedTuple):
    """The nodes and edges of a sample as its inference wants them; node p here is the user's node order[p]."""

    order: np.ndarray
    source: np.ndarray
    target: np.ndarray
    kind: np.ndarray
    place: np.ndarray
    plan: Any  # what the kind of inference needs besides


class GraphScratch(NamedTuple):
    """Scratch for one sample at a time: tables with labels along the lanes, all in one. A number says where a table starts."""

    rows: vectors.VectorTable
    difference: np.ndarray  # (vectors, 1, width) the rows of `pairs` and `node`
    code: np.ndarray
    scores: int  # (L, K) node scores
    belief: int  # (L, K)
    other: int  # (L, K) an output to take inner products with
    pair: int  # (kinds * K, K) pair weights, by [source, target]
    turned: int  # the same by [target, source]
    other_pairs: int
    pairs: int  # (kinds * K, K) the difference: coefficients on pairs
    node: int  # (L, K) the difference: coefficients on nodes
    joint: int  # (edges * K, K) pair marginals of the target; or the tables of cliques
    message: int  # the next three: for cliques
    square: int  # (K, K) one edge
    sums: int  # (kinds * K, K) pair marginals of the target, by kind
    edges: int  # (edges * K, K) pair scores of each edge by [child, parent], where edges have features


def new_tables(data, joint: int, message: int, edges: int = 0) -> GraphScratch:
    """Scratch for the longest sample, with this many rows for `joint`, `message` and `edges`."""
    g = data.graphs
    longest, pairs = int(np.max(np.diff(g.start), initial=1)), g.kinds * g.labels
    sizes = [longest] * 3 + [pairs] * 4 + [longest, joint, message, g.labels if message else 0, pairs if message else 0]
    sizes.append(edges)
    ends = np.cumsum(sizes)
    table = vectors.zeros_table(int(ends[-1]), g.labels, np.float64)
    tables = (ends - sizes).tolist()
    difference = table.vectors[tables[6] : tables[8]].reshape(-1, 1, table.vectors.shape[2])
    return GraphScratch(table, difference, np.zeros(longest, np.int32), *tables)


@generic
def graphs(data):
    """The graphs of a kind of encoded samples that is made of graphs."""


@jitable
def extent_of(data, i):
    """Where the nodes of sample i start, how many there are; the same of its edges."""
    g = graphs(data)
    start, first = g.sample[i, NODE_START], g.sample[i, EDGE_START]
    return start, g.sample[i + 1, NODE_START] - start, first, g.sample[i + 1, EDGE_START] - first


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
                total += X.bias * X.bias + (both & 1) + (both >> 1 & 1)
                gram[gram_start[i] + p * (p + 1) // 2 + q] = total
            for k in range(rows.first(X, row), rows.last(X, row)):
                workspace[rows.column(X, row, k)] = 0.0


# ---- what all samples made of graphs share ---------------------------------------------------------------


GRAPHS = contract.Family()  # a kind has a field `graphs` and brings `new_scratch` and `worst` of its own


@GRAPHS.does(graphs)
def graphs_of(data):
    return data.graphs


@GRAPHS.does(contract.length)
def graph_length(data, i):
    g = graphs(data)
    return g.sample[i + 1, NODE_START] - g.sample[i, NODE_START]


@GRAPHS.does(contract.truth)
def graph_truth(data, i, code):
    start, size, _, _ = extent_of(data, i)
    for p in range(size):
        code[p] = graphs(data).node[start + p, LABEL]


@jitable
def prepare_nodes(data, i, W, scratch):
    """The part of `prepare` that is about nodes."""
    g = graphs(data)
    start, size, _, _ = extent_of(data, i)
    blocks, rules = W.shape[1], g.labels + 1
    for p in range(size):
        rows.scores(g.X, start + p, W, scratch.rows.vectors[scratch.scores + p : scratch.scores + p + 1])
        for bit in range(2):
            if g.node[start + p, PLACE] >> bit & 1:
                row = rows.last_column(g.X) + 1 + bit
                for b in range(blocks):
                    vectors.increase(scratch.rows.vectors, scratch.scores + p, b, vectors.load(W, row, b))
            if g.node[start + p, PLACE] >> (RULED + bit) & 1:
                for b in range(blocks):
                    vectors.increase(scratch.rows.vectors, scratch.scores + p, b, vectors.load(g.cost.vectors, rules + bit, b))


@GRAPHS.does(contract.prepare)
def graph_prepare(data, i, W, scratch):
    g = graphs(data)
    prepare_nodes(data, i, W, scratch)
    blocks, rules = W.shape[1], g.labels + 1
    ruled = g.cost.vectors.shape[0] > rules
    for r in range(W.shape[0] - g.pairs):
        for b in range(blocks):
            held = vectors.load(W, g.pairs + r, b)
            if ruled:
                held = vectors.add(held, vectors.load(g.cost.vectors, rules + 2 + r % g.labels, b))
            vectors.store(scratch.rows.vectors, scratch.pair + r, b, held)


@jitable
def turn(data, scratch):
    """Pair weights by [target, source]."""
    K = graphs(data).labels
    for r in range(graphs(data).kinds):
        for a in range(K):
            for b in range(K):
                scratch.rows.flat[scratch.turned + r * K + b, a] = scratch.rows.flat[scratch.pair + r * K + a, b]


@jitable
def pair_row(g, e, code):
    """The row of its pair in the table of all kinds."""
    return g.edge[e, KIND] * g.labels + code[g.edge[e, SOURCE]]


@generic
def add_pair(data, e, t, code, table, at):
    """The rows of `table` from `at` on, as many as pair weights, += t * the pair of edge e in an output."""


@GRAPHS.does(add_pair)
def add_plain_pair(data, e, t, code, table, at):
    g = graphs(data)
    table.flat[at + pair_row(g, e, code), code[g.edge[e, TARGET]]] += t


@generic
def on_pair(data, e, code, table, at):
    """The inner product of these rows and the pair of edge e in an output."""


@GRAPHS.does(on_pair)
def on_plain_pair(data, e, code, table, at):
    g = graphs(data)
    return table.flat[at + pair_row(g, e, code), code[g.edge[e, TARGET]]]


@GRAPHS.does(contract.score_of)
def graph_score_of(data, i, scratch, code):
    _, size, first, count = extent_of(data, i)
    total = 0.0
    for p in range(size):
        total += scratch.rows.flat[scratch.scores + p, code[p]]
    for e in range(first, first + count):
        total += on_pair(data, e, code, scratch.rows, scratch.pair)
    return total


@GRAPHS.does(contract.loss_of)
def graph_loss_of(data, i, code):
    g = graphs(data)
    start, size, _, _ = extent_of(data, i)
    total = 0.0
    for p in range(size):
        total += g.cost.flat[g.node[start + p, LABEL], code[p]]
    return total * g.scale[i]


@GRAPHS.does(contract.n_vectors)
def graph_vectors(data, i):
    g = graphs(data)
    return (g.kinds * g.labels + g.sample[i + 1, NODE_START] - g.sample[i, NODE_START]) * g.cost.vectors.shape[1]


@GRAPHS.does(contract.loss_of_statistics)
def graph_statistics_loss(data, i, row, at):
    g = graphs(data)
    start, size, _, _ = extent_of(data, i)
    wide, total = g.cost.flat.shape[1], 0.0
    first = at + g.kinds * g.labels * wide
    for p in range(size):
        for k in range(g.labels):
            total += row[first + p * wide + k] * g.cost.flat[g.node[start + p, LABEL], k]
    return total * g.scale[i]


@jitable
def spread_of_nodes(data, i):
    """The sum of |x_p . x_q| over all pairs of nodes."""
    g = graphs(data)
    _, size, _, _ = extent_of(data, i)
    total, at = 0.0, g.sample[i, GRAM_START]
    for p in range(size):
        for q in range(p):
            total += 2.0 * abs(g.gram[at + q])
        total += abs(g.gram[at + p])
        at += p + 1
    return total


@GRAPHS.does(contract.diameter)
def graph_diameter(data, i):
    # All nodes may change between the same two labels, and all edges between the same two pairs.
    _, _, _, count = extent_of(data, i)
    return 2.0 * (spread_of_nodes(data, i) + count * count)


@jitable
def wipe(table, start, count):
    zero = vectors.zeros_like(table.vectors)
    for r in range(start, start + count):
        for b in range(table.vectors.shape[1]):
            vectors.store(table.vectors, r, b, zero)


@GRAPHS.does(contract.against)
def graph_against(data, i, scratch, code):
    # other[p, k] = sum of <x_p, x_q> over the nodes q that the code labels k
    g = graphs(data)
    _, size, first, count = extent_of(data, i)
    wipe(scratch.rows, scratch.other, size)
    for p in range(size):
        at = g.sample[i, GRAM_START] + p * (p + 1) // 2
        for q in range(p):
            scratch.rows.flat[scratch.other + p, code[q]] += g.gram[at + q]
        at += p
        for q in range(p, size):  # the column below the diagonal
            scratch.rows.flat[scratch.other + p, code[q]] += g.gram[at]
            at += q + 1
    if count > 0:
        wipe(scratch.rows, scratch.other_pairs, g.kinds * g.labels)
        for e in range(first, first + count):
            add_pair(data, e, 1.0, code, scratch.rows, scratch.other_pairs)


@GRAPHS.does(contract.inner)
def graph_inner(data, i, scratch, code):
    _, size, first, count = extent_of(data, i)
    total = 0.0
    for p in range(size):
        total += scratch.rows.flat[scratch.other + p, code[p]]
    for e in range(first, first + count):
        total += on_pair(data, e, code, scratch.rows, scratch.other_pairs)
    return total


@GRAPHS.does(contract.tally)
def graph_tally(data, i, t, code, scratch):
    _, size, first, count = extent_of(data, i)
    for p in range(size):
        scratch.rows.flat[scratch.node + p, code[p]] += t
    for e in range(first, first + count):
        add_pair(data, e, t, code, scratch.rows, scratch.pairs)


@GRAPHS.does(contract.push)
def graph_push(data, i, t, scratch, W):
    g = graphs(data)
    start, size, _, count = extent_of(data, i)
    blocks, zero = W.shape[1], vectors.zeros_like(W)
    for p in range(size):
        if not vectors.row_filled(scratch.rows.vectors, scratch.node + p):  # most nodes, once their labels have settled
            continue
        for b in range(blocks):
            held = vectors.load(scratch.rows.vectors, scratch.node + p, b)
            vectors.store(scratch.rows.vectors, scratch.node + p, b, vectors.fma(zero, t, held))
        update(g.X, start + p, scratch.rows.vectors, scratch.node + p, W)
        for bit in range(2):
            if g.node[start + p, PLACE] >> bit & 1:
                row = rows.last_column(g.X) + 1 + bit
                for b in range(blocks):
                    vectors.increase(W, row, b, vectors.load(scratch.rows.vectors, scratch.node + p, b))
    if count > 0:
        for r in range(W.shape[0] - g.pairs):
            for b in range(blocks):
                moved = vectors.fma(vectors.load(W, g.pairs + r, b), t, vectors.load(scratch.rows.vectors, scratch.pairs + r, b))
                vectors.store(W, g.pairs + r, b, moved)


@GRAPHS.does(contract.measure)
def graph_measure(data, i, scratch):
    g, table = graphs(data), scratch.rows.vectors
    start, size, _, count = extent_of(data, i)
    blocks, gain, square = table.shape[1], vectors.zeros_like(table), vectors.zeros_like(table)
    for p in range(size):
        y, at = g.node[start + p, LABEL], g.sample[i, GRAM_START] + p * (p + 1) // 2
        if vectors.row_filled(table, scratch.node + p):
            for b in range(blocks):
                mine, seen = vectors.load(table, scratch.node + p, b), vectors.zeros_like(table)
                worth = vectors.fma(vectors.load(table, scratch.scores + p, b), g.scale[i], vectors.load(g.cost.vectors, y, b))
                gain = vectors.add(gain, vectors.multiply(mine, worth))
                for q in range(p):
                    seen = vectors.fma(seen, 2.0 * g.gram[at + q], vectors.load(table, scratch.node + q, b))
                square = vectors.add(square, vectors.multiply(mine, vectors.fma(seen, 1.0 * g.gram[at + p], mine)))
    if count > 0:
        for r in range(g.kinds * g.labels):
            for b in range(blocks):
                mine = vectors.load(table, scratch.pairs + r, b)
                gain = vectors.add(gain, vectors.multiply(mine, vectors.load(table, scratch.pair + r, b)))
                square = vectors.add(square, vectors.multiply(mine, mine))
    return vectors.total(gain), vectors.total(square)


# ---- samples as a whole; plain Python --------------------------------------------------------------------


@GRAPHS.does(contract.n_samples)
def count_graphs(data) -> int:
    return data.graphs.start.size - 1


@GRAPHS.does(contract.truths)
def true_labels(data) -> tuple[np.ndarray, np.ndarray]:
    return data.graphs.label, np.diff(data.graphs.start)


@GRAPHS.does(contract.visit_work)
def graph_work(data) -> float:
    g, n = data.graphs, max(count_graphs(data), 1)
    return (g.label.size * rows.mean_length(g.X) * g.labels + g.kind.size * g.labels**2) / n


@GRAPHS.does(contract.weight_shape)
def graph_weights(data) -> tuple[int, ...]:
    g = data.graphs
    return (g.pairs + g.kinds * g.labels, g.cost.vectors.shape[1], g.cost.vectors.shape[2])


@GRAPHS.does(contract.same_shapes)
def graphs_alike(data, other) -> bool:
    new, old = data.graphs, other.graphs
    same = ("start", "edges", "source", "target", "kind")
    return old.labels == new.labels and all(np.array_equal(getattr(old, name), getattr(new, name)) for name in same)


@GRAPHS.does(contract.output_of)
def graph_output(data, structure, i: int, code: np.ndarray):
    labels = np.empty(code.size, np.int64)
    labels[data.graphs.order[data.graphs.start[i] : data.graphs.start[i + 1]]] = code
    return structure._outputs(structure.labels_[labels], np.array([0, code.size]))[0]


@GRAPHS.does(contract.shown_statistics)
def shown_graph(data, i: int, row: np.ndarray) -> dict[str, np.ndarray]:
    """Node marginals in the user's order, and pair marginals summed by kind."""
    K, kinds = data.graphs.labels, data.graphs.kinds
    table = row.reshape(-1, data.graphs.cost.flat.shape[1])[:, :K]
    return {"node": in_users_order(data, i, table[kinds * K :]), "pair": table[: kinds * K].reshape(kinds, K, K)}


def in_users_order(data, i: int, node: np.ndarray) -> np.ndarray:
    """Rows of the nodes of sample i as its user numbers them."""
    result = np.empty(node.shape)
    result[data.graphs.order[data.graphs.start[i] : data.graphs.start[i + 1]]] = node
    return result


@GRAPHS.does(contract.vertices)
def graph_vertices(data) -> Mixtures:
    # Without a kernel: nothing to compile, and multiclass problems have many samples.
    g, n = data.graphs, count_graphs(data)
    sizes, blocks = g.kinds * g.labels, g.cost.vectors.shape[1]
    start = g.start + np.arange(n + 1) * sizes
    points = empty_mixtures(start * blocks)
    table = points.rows.reshape(int(start[-1]), -1)
    sample = np.repeat(np.arange(n), np.diff(g.start))
    table[np.arange(g.label.size) + (sample + 1) * sizes, g.label] = 1.0
    if g.kind.size:
        sample = np.repeat(np.arange(n), np.diff(g.edges))
        source, target = (g.label[g.start[sample] + end] for end in (g.source, g.target))
        np.add.at(table, (start[sample] + g.kind * g.labels + source, target), 1.0)
    return points
