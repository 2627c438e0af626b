"""Exact inference on graphs with cycles: max-product and sum-product on a junction tree.

Nodes are eliminated one by one; the clique of a node is itself and those of its neighbours, by edges or fill, that are
eliminated after it: its *separator*. Nodes are numbered against that order, so that a separator holds smaller numbers only;
the largest of them is the parent, whose clique holds the whole separator. A clique's table has a row for each labelling of
the separator and the labels of its own node along the lanes. A message is a row of lanes too, for the parent is the last in
the separator: `maps` says which row of a message belongs to each row of the parent's table.

A distribution that factors over the cliques is the product of p(node | separator), so that its logarithm needs only the
tables themselves: log mu_clique - log mu_separator, the latter being the sums of the rows.
"""

from typing import NamedTuple

import numpy as np

from ...jit import jitable, jitable_call, vectors
from . import contract
from .graph_marginals import NODES, load_beliefs, mix_into, node_numbers, node_points, step_nodes, withdraw_rows
from .graphs import (
    FLOOR,
    GRAPHS,
    KIND,
    SOURCE,
    TARGET,
    Graphs,
    GraphScratch,
    extent_of,
    graph_work,
    graphs,
    in_users_order,
    new_tables,
    turn,
    wipe,
)
from .statistics import within


class Junction(NamedTuple):
    """Plans one after another; samples of one shape share theirs."""

    graphs: Graphs
    shape: np.ndarray  # (samples,) the first node of the sample's plan in the arrays below
    tables: np.ndarray  # (samples + 1,) where the rows of its tables start in the points
    parent: np.ndarray
    height: np.ndarray
    at: np.ndarray
    member_at: np.ndarray
    member: np.ndarray
    stride: np.ndarray
    link_at: np.ndarray
    link: np.ndarray
    link_stride: np.ndarray
    turned: np.ndarray
    map_at: np.ndarray
    maps: np.ndarray
    used: vectors.VectorTable  # (1, K) one where there is a label, zero in the other lanes


GRAPHS.admit(Junction)


@contract.new_scratch.register(Junction)
def _(data) -> GraphScratch:
    largest = int(data.height.max()) // data.graphs.labels
    return new_tables(data, int(np.diff(data.tables).max()), max(largest, 1))


@jitable_call
def fill_tables(data, i, scratch, inverse):
    """joint = (pair weights) * inverse + belief, table by table"""
    g, joint = graphs(data), scratch.joint
    _, size, first, _ = extent_of(data, i)
    blocks, K = scratch.rows.vectors.shape[1], g.labels
    turn(data, scratch)
    for p in range(size):
        node = data.shape[i] + p
        at, count = data.at[node], data.height[node]
        for r in range(count):
            for b in range(blocks):
                vectors.store(scratch.rows.vectors, joint + at + r, b, vectors.load(scratch.rows.vectors, scratch.belief + p, b))
        for k in range(data.link_at[node], data.link_at[node + 1]):
            table = scratch.turned if data.turned[k] else scratch.pair  # by [label in the separator, own label]
            top, stride = g.edge[first + data.link[k], KIND] * K, data.link_stride[k]
            r = at
            while r < at + count:  # the label of the other end changes every `stride` rows
                for label in range(K):
                    for _ in range(stride):
                        for b in range(blocks):
                            weight = vectors.load(scratch.rows.vectors, table + top + label, b)
                            total = vectors.fma(vectors.load(scratch.rows.vectors, joint + r, b), inverse, weight)
                            vectors.store(scratch.rows.vectors, joint + r, b, total)
                        r += 1


@jitable_call
def send_message(data, node, at_plan, scratch):
    """Add the message of a node to its parent's table."""
    parent = at_plan + data.parent[node]
    at, maps = data.at[parent], data.map_at[node]
    for r in range(data.height[parent]):
        row = data.maps[maps + r]
        for b in range(scratch.rows.vectors.shape[1]):
            vectors.increase(
                scratch.rows.vectors, scratch.joint + at + r, b, vectors.load(scratch.rows.vectors, scratch.message + row, b)
            )


@contract.worst.register(Junction)
def _(data, i, scratch, code):
    g, joint, message = graphs(data), scratch.joint, scratch.message
    _, size, _, _ = extent_of(data, i)
    K, plan, value = g.labels, data.shape[i], 0.0
    load_beliefs(data, i, scratch, 1.0)
    fill_tables(data, i, scratch, 1.0)
    for p in range(size - 1, -1, -1):
        node = plan + p
        if data.parent[node] >= 0:
            r = data.at[node]
            for row in range(data.height[node] // K):
                for k in range(K):
                    scratch.rows.flat[message + row, k] = top_of(scratch.rows, joint + r)
                    r += 1
            send_message(data, node, plan, scratch)
    for p in range(size):
        node = plan + p
        row = data.at[node]
        for k in range(data.member_at[node], data.member_at[node + 1]):
            row += data.stride[k] * code[data.member[k]]
        best = 0
        for k in range(1, K):
            if scratch.rows.flat[joint + row, k] > scratch.rows.flat[joint + row, best]:
                best = k
        code[p] = best
        if data.parent[node] < 0:
            value += scratch.rows.flat[joint + row, best]
    return value


@jitable
def top_of(table, row):
    """The largest number of a row."""
    highest = vectors.load(table.vectors, row, 0)
    for b in range(1, table.vectors.shape[1]):
        highest = vectors.maximum(highest, vectors.load(table.vectors, row, b))
    return vectors.largest(highest)


# ---- sum-product -----------------------------------------------------------------------------------------


class CliqueMarginals(NamedTuple):
    """A point of the marginal polytope of each sample: clique marginals, at least FLOOR, and what follows from them."""

    node: vectors.VectorTable  # (nodes, K)
    pair: vectors.VectorTable  # (samples * kinds * K, K) summed by kind
    clique: vectors.VectorTable  # (rows, K)


NODES.admit(CliqueMarginals)


@contract.direct.register(CliqueMarginals)
def _(points, data, i, scratch, temperature):
    # The Gibbs distribution of (scores + loss) / temperature times the current point. A sweep up in log space leaves
    # p(node | separator) behind, a sweep down multiplies by the marginals of the separator.
    g = graphs(data)
    _, size, _, _ = extent_of(data, i)
    inverse = 1.0 / temperature
    load_beliefs(data, i, scratch, inverse)
    fill_tables(data, i, scratch, inverse)
    add_logs(points, data, i, scratch)
    for p in range(size - 1, -1, -1):
        condition(data, i, scratch, p)
    wipe(scratch.rows, scratch.sums, g.kinds * g.labels)
    for p in range(size):  # beliefs become the target's node marginals
        multiply_out(data, i, scratch, p)
    for p in range(size):
        for b in range(scratch.rows.vectors.shape[1]):
            vectors.store(scratch.rows.vectors, scratch.node + p, b, vectors.load(scratch.rows.vectors, scratch.belief + p, b))
    for r in range(g.kinds * g.labels):
        for b in range(scratch.rows.vectors.shape[1]):
            vectors.store(scratch.rows.vectors, scratch.pairs + r, b, vectors.load(scratch.rows.vectors, scratch.sums + r, b))
    contract.withdraw(points, data, i, scratch)


@jitable_call
def add_logs(points, data, i, scratch):
    """joint += log p(node | separator) of the point"""
    start, blocks = data.tables[i], scratch.rows.vectors.shape[1]
    for r in range(data.tables[i + 1] - start):
        mass = 0.0
        for b in range(blocks):
            held = vectors.load(points.clique.vectors, start + r, b)
            mass += vectors.total(vectors.multiply(held, vectors.load(data.used.vectors, 0, b)))
        less = -np.log(mass)
        for b in range(blocks):
            mark = vectors.shift(vectors.log(vectors.load(points.clique.vectors, start + r, b)), less)
            vectors.increase(scratch.rows.vectors, scratch.joint + r, b, mark)


@jitable_call
def condition(data, i, scratch, p):
    """The table of node p becomes p(node | separator), and the logarithms of its sums go to the parent."""
    K, node = graphs(data).labels, data.shape[i] + p
    r = data.at[node]
    if data.parent[node] < 0:
        share_out(data, scratch, r)
        return
    for row in range(data.height[node] // K):
        for k in range(K):
            scratch.rows.flat[scratch.message + row, k] = share_out(data, scratch, r)
            r += 1
    send_message(data, node, data.shape[i], scratch)


@jitable
def share_out(data, scratch, r):
    """Row r of the tables becomes probabilities; returns the logarithm of what it summed to."""
    joint, highest, mass = scratch.joint, top_of(scratch.rows, scratch.joint + r), 0.0
    for b in range(scratch.rows.vectors.shape[1]):
        mark = vectors.exp(vectors.shift(vectors.load(scratch.rows.vectors, joint + r, b), -highest))
        mark = vectors.multiply(mark, vectors.load(data.used.vectors, 0, b))
        vectors.store(scratch.rows.vectors, joint + r, b, mark)
        mass += vectors.total(mark)
    for b in range(scratch.rows.vectors.shape[1]):
        mark = vectors.fma(vectors.zeros_like(scratch.rows.vectors), 1.0 / mass, vectors.load(scratch.rows.vectors, joint + r, b))
        vectors.store(scratch.rows.vectors, joint + r, b, mark)
    return highest + np.log(mass)


@jitable_call
def multiply_out(data, i, scratch, p):
    """The table of node p becomes its clique's marginals; sums of them are added to the belief and to the kinds of edges."""
    g, joint, message = graphs(data), scratch.joint, scratch.message
    _, _, first, _ = extent_of(data, i)
    K, plan, blocks = g.labels, data.shape[i], scratch.rows.vectors.shape[1]
    node, zero = plan + p, vectors.zeros_like(scratch.rows.vectors)
    at, count = data.at[node], data.height[node]
    if data.parent[node] >= 0:
        above, maps = plan + data.parent[node], data.map_at[node]
        wipe(scratch.rows, message, count // K)
        for r in range(data.height[above]):
            row = data.maps[maps + r]
            for b in range(blocks):
                seen = vectors.load(scratch.rows.vectors, joint + data.at[above] + r, b)
                vectors.increase(scratch.rows.vectors, message + row, b, seen)
        r = at
        for row in range(count // K):
            for k in range(K):
                for b in range(blocks):
                    total = vectors.fma(
                        zero, scratch.rows.flat[message + row, k], vectors.load(scratch.rows.vectors, joint + r, b)
                    )
                    vectors.store(scratch.rows.vectors, joint + r, b, total)
                r += 1
    for b in range(blocks):
        total = zero
        for r in range(at, at + count):
            total = vectors.add(total, vectors.load(scratch.rows.vectors, joint + r, b))
        vectors.store(scratch.rows.vectors, scratch.belief + p, b, total)
    for k in range(data.link_at[node], data.link_at[node + 1]):
        sum_edge(scratch, joint + at, count, data.link_stride[k], K)
        top = g.edge[first + data.link[k], KIND] * K
        for other in range(K):
            for own in range(K):
                source, target = (own, other) if data.turned[k] else (other, own)
                scratch.rows.flat[scratch.sums + top + source, target] += scratch.rows.flat[scratch.square + other, own]


@jitable
def sum_edge(scratch, at, count, stride, K):
    """square[other, own] = pair marginals of a node and the member of its separator with this stride"""
    rows, square = scratch.rows.vectors, scratch.square
    wipe(scratch.rows, square, K)
    r = at
    while r < at + count:
        for k in range(K):
            for _ in range(stride):
                for b in range(rows.shape[1]):
                    vectors.increase(rows, square + k, b, vectors.load(rows, r, b))
                r += 1


@contract.withdraw.register(CliqueMarginals)
def _(points, data, i, scratch):
    start, size, _, count = extent_of(data, i)
    withdraw_rows(points.node, start, size, scratch.rows, scratch.node)
    if count > 0:
        size = graphs(data).kinds * graphs(data).labels
        withdraw_rows(points.pair, i * size, size, scratch.rows, scratch.pairs)


@contract.step_towards.register(CliqueMarginals)
def _(points, data, i, gamma, scratch):
    _, _, _, count = extent_of(data, i)
    blocks, zero = points.node.vectors.shape[1], vectors.zeros_like(points.node.vectors)
    least = vectors.shift(zero, FLOOR)
    step_nodes(points, data, i, gamma, scratch, least)
    if count > 0:
        rows = graphs(data).kinds * graphs(data).labels
        for r in range(rows):
            for b in range(blocks):
                mix_into(
                    points.pair.vectors, i * rows + r, b, gamma, vectors.load(scratch.rows.vectors, scratch.sums + r, b), zero
                )
    at = data.tables[i]
    for r in range(data.tables[i + 1] - at):
        for b in range(blocks):
            mix_into(points.clique.vectors, at + r, b, gamma, vectors.load(scratch.rows.vectors, scratch.joint + r, b), least)


@contract.numbers_of.register(CliqueMarginals)
def _(points, data, samples):
    rows, tables = data.graphs.kinds * data.graphs.labels, data.tables
    pairs = points.pair.vectors, within(samples * rows, np.full(samples.size, rows))
    cliques = points.clique.vectors, within(tables[samples], tables[samples + 1] - tables[samples])
    return [node_numbers(points, data, samples), *([pairs] if data.graphs.kind.size else []), cliques]


@contract.visit_work.register(Junction)
def _(data):
    return graph_work(data) + int(data.tables[-1]) * data.graphs.labels / max(samples(data), 1)


@contract.interior.register(Junction)
def _(data, spread):
    g, K = data.graphs, data.graphs.labels
    node = node_points(data, spread)
    clique = vectors.zeros_table(int(data.tables[-1]), K, np.float64)
    clique.flat[:] = FLOOR
    pair = vectors.zeros_table(samples(data) * max(g.kinds * K, 1), K, np.float64)
    for i in range(samples(data)):
        mine = node.flat[g.start[i] : g.start[i + 1], :K]
        for p in range(len(mine)):
            table, at = mine[p][None], data.shape[i] + p
            for k in range(data.member_at[at + 1] - 1, data.member_at[at] - 1, -1):
                table = (mine[data.member[k]][:, None, None] * table).reshape(-1, K)
            first = data.tables[i] + data.at[at]
            clique.flat[first : first + len(table), :K] = np.maximum(table, FLOOR)
        for e in range(g.edges[i], g.edges[i + 1]):
            row = (i * g.kinds + g.edge[e, KIND]) * K
            pair.flat[row : row + K, :K] += np.outer(mine[g.edge[e, SOURCE]], mine[g.edge[e, TARGET]])
    return CliqueMarginals(node, pair, clique)


@contract.marginals_of.register(Junction)
def _(data, points):
    g, K = data.graphs, data.graphs.labels
    cliques = [points.clique.flat[at : at + height, :K].copy() for at, height in zip(data.at, data.height)]
    edge = np.empty((g.kind.size, K, K))
    home = np.maximum(g.source, g.target)
    for k, e in enumerate(data.link):
        square = cliques[home[e]].reshape(-1, K, data.link_stride[k], K).sum(axis=(0, 2))
        edge[e] = square.T if data.turned[k] else square
    return {"node": in_users_order(data, 0, points.node.flat[:, :K]), "edge": edge, "clique": cliques}


@contract.points_of.register(Junction)
def _(data, marginals):
    g, K = data.graphs, data.graphs.labels
    points = contract.interior(data, 1.0)
    points.node.flat[:, :K] = np.maximum(marginals["node"][g.order], FLOOR)
    points.clique.flat[:, :K] = np.maximum(np.concatenate(marginals["clique"]), FLOOR)
    points.pair.flat[:] = 0.0
    for e in range(g.kind.size):
        row = g.edge[e, KIND] * K
        points.pair.flat[row : row + K, :K] += marginals["edge"][e]
    return points


def samples(data: Junction) -> int:
    return data.graphs.start.size - 1
