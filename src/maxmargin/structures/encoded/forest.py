"""Exact inference on forests (chains, trees, single nodes): max-product and sum-product by one sweep up, one down.

Nodes are ordered so that a parent comes before its children; node 0 is a root. The message of a child to its parent is
formed with the parent's labels along the lanes, so tables are read by [child, parent]: where an edge runs from parent to
child, its pair weights are turned first. A chain is rooted at its end and needs no turning.
"""

from typing import NamedTuple

import numpy as np

from ...jit import generic, jitable, vectors
from . import contract
from .graph_marginals import NODES, load_beliefs, mix_into, node_numbers, node_points, step_nodes, withdraw_rows
from .graphs import FLOOR, GRAPHS, KIND, Graphs, GraphScratch, extent_of, graphs, in_users_order, new_tables, turn, wipe
from .statistics import within
from .sweeps import reach_targets

HOT = 1e50  # between the largest loss and -FORBIDDEN
UP, PARENT, DEGREE = range(3)  # the columns of Forest.tree


class Forest(NamedTuple):
    graphs: Graphs
    tree: np.ndarray  # (nodes, 3) edge to the parent and the parent, counted within the sample, -1 at a root; edges of a node
    turned: np.ndarray  # (edges,) 1 where the edge runs from parent to child
    any_turned: bool


GRAPHS.admit(Forest)
FORESTS = contract.Family()  # a kind has the fields above, and brings `new_scratch` and the generic functions below


@contract.new_scratch.register(Forest)
def _(data) -> GraphScratch:
    return new_tables(data, int(np.max(np.diff(data.graphs.edges), initial=0)) * data.graphs.labels, 0)


@generic
def edge_table(data, scratch, first, e):
    """The first row of the pair scores, by [child, parent], of edge e of a sample whose edges begin at `first`."""


@edge_table.register(Forest)
def _(data, scratch, first, e):
    g = graphs(data)
    return (scratch.turned if data.turned[first + e] else scratch.pair) + g.edge[first + e, KIND] * g.labels


@generic
def counts_as_it_lies(data, e):
    """Whether the pair marginals of edge e are added to those of its kind as they are, neither turned nor scaled."""


@counts_as_it_lies.register(Forest)
def _(data, e):
    return not data.turned[e]


@generic
def count_pairs(data, e, table, at, t, scratch):
    """Add t times the marginals of edge e, which start at row `at` of `table`, to the difference."""


@count_pairs.register(Forest)
def _(data, e, table, at, t, scratch):
    add_table(data, e, table, at, t, scratch, graphs(data).edge[e, KIND])


@FORESTS.does(contract.worst)
def forest_worst(data, i, scratch, code):
    g, belief = graphs(data), scratch.belief
    start, size, first, _ = extent_of(data, i)
    blocks, K = scratch.rows.vectors.shape[1], g.labels
    load_beliefs(data, i, scratch, 1.0)
    if data.any_turned:
        turn(data, scratch)
    for p in range(size - 1, 0, -1):
        e = data.tree[start + p, UP]
        if e >= 0:
            at = edge_table(data, scratch, first, e)
            parent = data.tree[start + p, PARENT]
            for b in range(blocks):
                message = vectors.shift(vectors.load(scratch.rows.vectors, at, b), scratch.rows.flat[belief + p, 0])
                for k in range(1, K):
                    shifted = vectors.shift(vectors.load(scratch.rows.vectors, at + k, b), scratch.rows.flat[belief + p, k])
                    message = vectors.maximum(message, shifted)
                vectors.increase(scratch.rows.vectors, belief + parent, b, message)
    value = 0.0
    for p in range(size):
        e = data.tree[start + p, UP]
        best = 0
        if e >= 0:
            at = edge_table(data, scratch, first, e)
            other = code[data.tree[start + p, PARENT]]
            highest = scratch.rows.flat[belief + p, 0] + scratch.rows.flat[at, other]
            for k in range(1, K):
                found = scratch.rows.flat[belief + p, k] + scratch.rows.flat[at + k, other]
                if found > highest:
                    best, highest = k, found
        else:
            for k in range(1, K):
                if scratch.rows.flat[belief + p, k] > scratch.rows.flat[belief + p, best]:
                    best = k
            value += scratch.rows.flat[belief + p, best]
        code[p] = best
    return value


# ---- sum-product -----------------------------------------------------------------------------------------


class TreeMarginals(NamedTuple):
    """A point of the marginal polytope of each sample: node and edge marginals, at least FLOOR where there is a label."""

    node: vectors.VectorTable  # (nodes, K)
    edge: vectors.VectorTable  # (edges * K, K) by [child, parent]


NODES.admit(TreeMarginals)


@contract.direct.register(TreeMarginals)
def _(points, data, i, scratch, temperature):
    # The Gibbs distribution of (scores + loss) / temperature times the current point, which factors over the tree as
    # edges / nodes^(degree - 1): a sweep up in log space leaves p(child | parent) behind, a sweep down multiplies.
    g, belief = graphs(data), scratch.belief
    start, size, _, _ = extent_of(data, i)
    inverse = 1.0 / temperature
    load_beliefs(data, i, scratch, inverse)
    if data.any_turned:
        turn(data, scratch)
    for p in range(size):
        power = 1.0 - data.tree[start + p, DEGREE]
        if power != 0.0:
            for b in range(scratch.rows.vectors.shape[1]):
                mark = vectors.log(vectors.load(points.node.vectors, start + p, b))
                held = vectors.load(scratch.rows.vectors, belief + p, b)
                vectors.store(scratch.rows.vectors, belief + p, b, vectors.fma(held, power, mark))
    for p in range(size - 1, 0, -1):
        if data.tree[start + p, UP] >= 0:
            send_up(points, data, i, scratch, p, inverse)
    wipe(scratch.rows, scratch.pairs, g.kinds * g.labels)
    for p in range(size):  # beliefs become the target's node marginals
        if data.tree[start + p, UP] < 0:
            normalise_belief(scratch, p, g.labels)
        else:
            send_down(points, data, i, scratch, p)
        for b in range(scratch.rows.vectors.shape[1]):
            vectors.store(scratch.rows.vectors, scratch.node + p, b, vectors.load(scratch.rows.vectors, belief + p, b))
    withdraw_rows(points.node, start, size, scratch.rows, scratch.node)


@jitable
def send_up(points, data, i, scratch, p, inverse):
    """joint[e] is proportional to p(child | parent), with the factor in `other`; the message is added to the parent's belief."""
    g, belief, joint = graphs(data), scratch.belief, scratch.joint
    start, _, first, _ = extent_of(data, i)
    K, e, parent = g.labels, data.tree[start + p, UP], data.tree[start + p, PARENT]
    at = edge_table(data, scratch, first, e)
    mine, out, zero = (first + e) * K, e * K, vectors.zeros_like(scratch.rows.vectors)
    one = vectors.shift(zero, 1.0)
    for b in range(scratch.rows.vectors.shape[1]):
        highest = vectors.shift(zero, -np.inf)
        for k in range(K):
            mark = vectors.log(vectors.load(points.edge.vectors, mine + k, b))
            mark = vectors.fma(mark, inverse, vectors.load(scratch.rows.vectors, at + k, b))
            mark = vectors.shift(mark, scratch.rows.flat[belief + p, k])
            vectors.store(scratch.rows.vectors, joint + out + k, b, mark)
            highest = vectors.maximum(highest, mark)
        mass = zero
        for k in range(K):
            mark = vectors.exp(vectors.subtract(vectors.load(scratch.rows.vectors, joint + out + k, b), highest))
            vectors.store(scratch.rows.vectors, joint + out + k, b, mark)
            mass = vectors.add(mass, mark)
        vectors.store(scratch.rows.vectors, scratch.other + p, b, vectors.divide(one, mass))
        message = vectors.add(highest, vectors.log(mass))
        vectors.increase(scratch.rows.vectors, belief + parent, b, message)


@jitable
def normalise_belief(scratch, p, K):
    """belief[p] becomes exp(belief[p]), summing to one; unused lanes are zero"""
    belief = scratch.belief
    highest = vectors.load(scratch.rows.vectors, belief + p, 0)
    for b in range(1, scratch.rows.vectors.shape[1]):
        highest = vectors.maximum(highest, vectors.load(scratch.rows.vectors, belief + p, b))
    top, mass = vectors.largest(highest), 0.0
    for b in range(scratch.rows.vectors.shape[1]):
        shifted = vectors.shift(vectors.load(scratch.rows.vectors, belief + p, b), -top)
        vectors.store(scratch.rows.vectors, belief + p, b, vectors.exp(shifted))
    for k in range(scratch.rows.flat.shape[1]):
        if k < K:
            mass += scratch.rows.flat[belief + p, k]
        else:
            scratch.rows.flat[belief + p, k] = 0.0
    for k in range(K):
        scratch.rows.flat[belief + p, k] /= mass


@jitable
def send_down(points, data, i, scratch, p):
    """joint[e] = p(child | parent) p(parent); its sums are the child's marginals, and what it differs from the current point by
    is counted with its kind of edge, in the same go: the tables are what takes the time."""
    g, table, joint, belief, above = graphs(data), scratch.rows.vectors, scratch.joint, scratch.belief, scratch.other + p
    start, _, first, _ = extent_of(data, i)
    e, parent = data.tree[start + p, UP], data.tree[start + p, PARENT]
    out, blocks, to = e * g.labels, table.shape[1], scratch.pairs + g.edge[first + e, KIND] * g.labels
    straight, mine = counts_as_it_lies(data, first + e), (first + e) * g.labels
    for b in range(blocks):
        vectors.store(table, above, b, vectors.multiply(vectors.load(table, belief + parent, b), vectors.load(table, above, b)))
    for k in range(scratch.rows.flat.shape[1]):
        scratch.rows.flat[belief + p, k] = 0.0
    for k in range(g.labels):
        mass = vectors.zeros_like(table)
        for b in range(blocks):
            mark = vectors.multiply(vectors.load(table, joint + out + k, b), vectors.load(table, above, b))
            vectors.store(table, joint + out + k, b, mark)
            mass = vectors.add(mass, mark)
            if straight:
                vectors.increase(table, to + k, b, vectors.subtract(mark, vectors.load(points.edge.vectors, mine + k, b)))
        scratch.rows.flat[belief + p, k] = vectors.total(mass)
    if not straight:
        count_pairs(data, first + e, scratch.rows, joint + out, 1.0, scratch)
        count_pairs(data, first + e, points.edge, mine, -1.0, scratch)


@jitable
def add_table(data, e, table, at, t, scratch, kind):
    """Add t times the marginals of edge e, which start at row `at` of `table`, to those of a kind."""
    K = graphs(data).labels
    to = scratch.pairs + kind * K
    if data.turned[e]:
        for k in range(K):
            for other in range(K):
                scratch.rows.flat[to + other, k] += t * table.flat[at + k, other]
    else:
        for k in range(K):
            for b in range(table.vectors.shape[1]):
                total = vectors.fma(vectors.load(scratch.rows.vectors, to + k, b), t, vectors.load(table.vectors, at + k, b))
                vectors.store(scratch.rows.vectors, to + k, b, total)


@contract.withdraw.register(TreeMarginals)
def _(points, data, i, scratch):
    start, size, first, count = extent_of(data, i)
    withdraw_rows(points.node, start, size, scratch.rows, scratch.node)
    for e in range(first, first + count):
        count_pairs(data, e, points.edge, e * graphs(data).labels, -1.0, scratch)


@contract.step_towards.register(TreeMarginals)
def _(points, data, i, gamma, scratch):
    g = graphs(data)
    _, _, first, count = extent_of(data, i)
    blocks, least = points.node.vectors.shape[1], vectors.shift(vectors.zeros_like(points.node.vectors), FLOOR)
    step_nodes(points, data, i, gamma, scratch, least)
    mine = first * g.labels
    for r in range(count * g.labels):
        for b in range(blocks):
            mix_into(points.edge.vectors, mine + r, b, gamma, vectors.load(scratch.rows.vectors, scratch.joint + r, b), least)


@contract.numbers_of.register(TreeMarginals)
def _(points, data, samples):
    edges, K = data.graphs.edges, data.graphs.labels
    count = edges[samples + 1] - edges[samples]
    return [node_numbers(points, data, samples), (points.edge.vectors, within(edges[samples] * K, count * K))]


@FORESTS.does(contract.interior)
def forest_interior(data, spread: float) -> TreeMarginals:
    g = data.graphs
    node = node_points(data, spread)
    edge = vectors.zeros_table(max(g.kind.size * g.labels, 1), g.labels, np.float64)
    if g.kind.size:
        sample = np.repeat(np.arange(g.start.size - 1), np.diff(g.edges))
        ends = np.where(data.turned[:, None], np.stack([g.target, g.source], 1), np.stack([g.source, g.target], 1))
        child, parent = (node.flat[g.start[sample] + ends[:, side]] for side in range(2))
        joint = child[:, : g.labels, None] * parent[:, None, :]
        edge.flat[:] = joint.reshape(-1, node.flat.shape[1])
        edge.flat[:, g.labels :] = FLOOR
    points = TreeMarginals(node, edge)
    if g.cost.vectors.shape[0] > g.labels + 1:
        keep_rules(points, data)
    return points


def keep_rules(points: TreeMarginals, data) -> None:
    """The same distributions over the outputs that the rules allow: their targets with no weights, so hot that losses are nothing
    and rules still are."""
    W = vectors.aligned(contract.weight_shape(data), np.float64)
    reach_targets(points, data, W, contract.new_scratch(data), HOT, 0, contract.n_samples(data))


@FORESTS.does(contract.marginals_of)
def forest_marginals(data, points) -> dict[str, np.ndarray]:
    g = data.graphs
    K = g.labels
    edge = points.edge.flat[: g.kind.size * K, :K].reshape(-1, K, K)
    edge = np.where(data.turned[:, None, None] == 1, edge.transpose(0, 2, 1), edge)
    return {"node": in_users_order(data, 0, points.node.flat[:, :K]), "edge": edge}


@FORESTS.does(contract.points_of)
def forest_points(data, marginals) -> TreeMarginals:
    g, points = data.graphs, contract.interior(data, 1.0)
    K = g.labels
    edge = np.where(data.turned[:, None, None] == 1, marginals["edge"].transpose(0, 2, 1), marginals["edge"])
    points.node.flat[:, :K] = np.maximum(marginals["node"][g.order], FLOOR)
    points.edge.flat[: g.kind.size * K, :K] = np.maximum(edge.reshape(-1, K), FLOOR)
    return points


FORESTS.admit(Forest)
