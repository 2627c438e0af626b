"""Exact inference on forests (chains, trees, single nodes): max-product and sum-product by one sweep up, one down.

Nodes are ordered so that a parent comes before its children; node 0 is a root. The message of a child to its parent is
formed with the parent's labels along the lanes, so tables are read by [child, parent]: where an edge runs from parent to
child, its pair weights are turned first. A chain is rooted at its end and needs no turning.
"""

from typing import NamedTuple

import numpy as np

from .. import lanes
from ..jit import jitable
from .base import direct, expected_loss, interior, marginals_of, points_of, step_towards, withdraw, worst
from .graphs import FLOOR, Graphs, graphs, node_loss, node_points, register, spread_of, turn, wipe, withdraw_rows


class Forest(NamedTuple):
    graphs: Graphs
    up: np.ndarray  # (nodes,) the edge to the parent, counted within the sample; -1 at a root
    parent: np.ndarray  # (nodes,) the parent, counted within the sample
    turned: np.ndarray  # (edges,) 1 where the edge runs from parent to child
    degree: np.ndarray  # (nodes,) edges of a node
    any_turned: bool


register(Forest)


@jitable
def load_beliefs(data, i, room, scale):
    """belief = scale * (scores + loss)"""
    g = graphs(data)
    start, size, _, _ = spread_of(data, i)
    zero = lanes.zeros_like(room.scores.lanes)
    for p in range(size):
        y = g.label[start + p]
        for b in range(room.scores.lanes.shape[1]):
            at = lanes.fma(lanes.load(room.scores.lanes, p, b), g.scale[i], lanes.load(g.cost.lanes, y, b))
            lanes.store(room.belief.lanes, p, b, lanes.fma(zero, scale, at))


@jitable
def table_of(data, room, e):
    """Pair weights of edge e by [child, parent]: a table and its first row."""
    g = graphs(data)
    return room.turned if data.turned[e] else room.pair, g.kind[e] * g.labels


@worst.register(Forest)
def _(data, i, room, code):
    g, belief = graphs(data), room.belief
    start, size, first, _ = spread_of(data, i)
    blocks, K = belief.lanes.shape[1], g.labels
    load_beliefs(data, i, room, 1.0)
    if data.any_turned:
        turn(data, room)
    for p in range(size - 1, 0, -1):
        e = data.up[start + p]
        if e >= 0:
            table, at = table_of(data, room, first + e)
            parent = data.parent[start + p]
            for b in range(blocks):
                message = lanes.shift(lanes.load(table.lanes, at, b), belief.flat[p, 0])
                for k in range(1, K):
                    message = lanes.maximum(message, lanes.shift(lanes.load(table.lanes, at + k, b), belief.flat[p, k]))
                lanes.store(belief.lanes, parent, b, lanes.add(lanes.load(belief.lanes, parent, b), message))
    value = 0.0
    for p in range(size):
        e = data.up[start + p]
        best = 0
        if e >= 0:
            table, at = table_of(data, room, first + e)
            other = code[data.parent[start + p]]
            highest = belief.flat[p, 0] + table.flat[at, other]
            for k in range(1, K):
                found = belief.flat[p, k] + table.flat[at + k, other]
                if found > highest:
                    best, highest = k, found
        else:
            for k in range(1, K):
                if belief.flat[p, k] > belief.flat[p, best]:
                    best = k
            value += belief.flat[p, best]
        code[p] = best
    return value


# ---- sum-product -----------------------------------------------------------------------------------------


class TreeMarginals(NamedTuple):
    """A point of the marginal polytope of each sample: node and edge marginals, at least FLOOR where there is a label."""

    node: lanes.Table  # (nodes, K)
    edge: lanes.Table  # (edges * K, K) by [child, parent]


@direct.register(TreeMarginals)
def _(points, data, i, room, temperature):
    # The Gibbs distribution of (scores + loss) / temperature times the current point, which factors over the tree as
    # edges / nodes^(degree - 1): a sweep up in log space leaves p(child | parent) behind, a sweep down multiplies.
    g, belief = graphs(data), room.belief
    start, size, _, _ = spread_of(data, i)
    inverse = 1.0 / temperature
    load_beliefs(data, i, room, inverse)
    if data.any_turned:
        turn(data, room)
    for p in range(size):
        power = 1.0 - data.degree[start + p]
        if power != 0.0:
            for b in range(belief.lanes.shape[1]):
                mark = lanes.log(lanes.load(points.node.lanes, start + p, b))
                lanes.store(belief.lanes, p, b, lanes.fma(lanes.load(belief.lanes, p, b), power, mark))
    for p in range(size - 1, 0, -1):
        if data.up[start + p] >= 0:
            send_up(points, data, i, room, p, inverse)
    wipe(room.pairs, room.pairs.lanes.shape[0])
    for p in range(size):  # beliefs become the target's node marginals
        if data.up[start + p] < 0:
            normalise(belief, p, g.labels)
        else:
            send_down(data, i, room, p)
        for b in range(belief.lanes.shape[1]):
            lanes.store(room.node.lanes, p, b, lanes.load(belief.lanes, p, b))
    withdraw(points, data, i, room)


@jitable
def send_up(points, data, i, room, p, inverse):
    """joint[e] = p(child | parent); the message is added to the parent's belief."""
    g, belief, joint = graphs(data), room.belief, room.joint
    start, _, first, _ = spread_of(data, i)
    K, e, parent = g.labels, data.up[start + p], data.parent[start + p]
    table, at = table_of(data, room, first + e)
    mine, out, zero = (first + e) * K, e * K, lanes.zeros_like(belief.lanes)
    one = lanes.shift(zero, 1.0)
    for b in range(belief.lanes.shape[1]):
        highest = lanes.shift(zero, -np.inf)
        for k in range(K):
            mark = lanes.log(lanes.load(points.edge.lanes, mine + k, b))
            mark = lanes.shift(lanes.fma(mark, inverse, lanes.load(table.lanes, at + k, b)), belief.flat[p, k])
            lanes.store(joint.lanes, out + k, b, mark)
            highest = lanes.maximum(highest, mark)
        mass = zero
        for k in range(K):
            mark = lanes.exp(lanes.subtract(lanes.load(joint.lanes, out + k, b), highest))
            lanes.store(joint.lanes, out + k, b, mark)
            mass = lanes.add(mass, mark)
        share = lanes.divide(one, mass)
        for k in range(K):
            lanes.store(joint.lanes, out + k, b, lanes.multiply(lanes.load(joint.lanes, out + k, b), share))
        message = lanes.add(highest, lanes.log(mass))
        lanes.store(belief.lanes, parent, b, lanes.add(lanes.load(belief.lanes, parent, b), message))


@jitable
def normalise(belief, p, K):
    """belief[p] becomes exp(belief[p]), summing to one; unused lanes are zero"""
    highest = lanes.load(belief.lanes, p, 0)
    for b in range(1, belief.lanes.shape[1]):
        highest = lanes.maximum(highest, lanes.load(belief.lanes, p, b))
    top, mass = lanes.largest(highest), 0.0
    for b in range(belief.lanes.shape[1]):
        lanes.store(belief.lanes, p, b, lanes.exp(lanes.shift(lanes.load(belief.lanes, p, b), -top)))
    for k in range(belief.flat.shape[1]):
        if k < K:
            mass += belief.flat[p, k]
        else:
            belief.flat[p, k] = 0.0
    for k in range(K):
        belief.flat[p, k] /= mass


@jitable
def send_down(data, i, room, p):
    """joint[e] = p(child | parent) p(parent); its sums are the child's marginals and it is counted with its kind of edge."""
    g, joint, belief = graphs(data), room.joint, room.belief
    start, _, first, _ = spread_of(data, i)
    e, parent = data.up[start + p], data.parent[start + p]
    out, blocks = e * g.labels, joint.lanes.shape[1]
    for k in range(belief.flat.shape[1]):
        belief.flat[p, k] = 0.0
    for k in range(g.labels):
        mass = lanes.zeros_like(joint.lanes)
        for b in range(blocks):
            mark = lanes.multiply(lanes.load(joint.lanes, out + k, b), lanes.load(belief.lanes, parent, b))
            lanes.store(joint.lanes, out + k, b, mark)
            mass = lanes.add(mass, mark)
        belief.flat[p, k] = lanes.total(mass)
    count_pairs(data, first + e, joint, out, 1.0, room)


@jitable
def count_pairs(data, e, joint, at, t, room):
    """Add t times the marginals of edge e, which start at row `at` of `joint`, to its kind's."""
    g = graphs(data)
    to, K = g.kind[e] * g.labels, g.labels
    if data.turned[e]:
        for k in range(K):
            for other in range(K):
                room.pairs.flat[to + other, k] += t * joint.flat[at + k, other]
    else:
        for k in range(K):
            for b in range(joint.lanes.shape[1]):
                total = lanes.fma(lanes.load(room.pairs.lanes, to + k, b), t, lanes.load(joint.lanes, at + k, b))
                lanes.store(room.pairs.lanes, to + k, b, total)


@withdraw.register(TreeMarginals)
def _(points, data, i, room):
    start, size, first, count = spread_of(data, i)
    withdraw_rows(points.node, start, size, room.node)
    for e in range(first, first + count):
        count_pairs(data, e, points.edge, e * graphs(data).labels, -1.0, room)


@jitable
def mix_into(array, row, b, gamma, target, least):
    """Not as a sum with a difference: that would lose a marginal far below the one before it."""
    kept = lanes.fma(lanes.zeros_like(array), 1.0 - gamma, lanes.load(array, row, b))
    lanes.store(array, row, b, lanes.maximum(lanes.fma(kept, gamma, target), least))


@step_towards.register(TreeMarginals)
def _(points, data, i, gamma, room):
    g = graphs(data)
    start, size, first, count = spread_of(data, i)
    blocks, least = points.node.lanes.shape[1], lanes.shift(lanes.zeros_like(points.node.lanes), FLOOR)
    for p in range(size):
        for b in range(blocks):
            mix_into(points.node.lanes, start + p, b, gamma, lanes.load(room.belief.lanes, p, b), least)
    mine = first * g.labels
    for r in range(count * g.labels):
        for b in range(blocks):
            mix_into(points.edge.lanes, mine + r, b, gamma, lanes.load(room.joint.lanes, r, b), least)


@expected_loss.register(TreeMarginals)
def _(points, data, i):
    return node_loss(points.node, data, i)


@interior.register(Forest)
def _(data, spread):
    g = data.graphs
    node = node_points(data, spread)
    edge = lanes.zeros_table(max(g.kind.size * g.labels, 1), g.labels, np.float64)
    if g.kind.size:
        sample = np.repeat(np.arange(g.start.size - 1), np.diff(g.edges))
        ends = np.where(data.turned[:, None], np.stack([g.target, g.source], 1), np.stack([g.source, g.target], 1))
        child, parent = (node.flat[g.start[sample] + ends[:, side]] for side in range(2))
        joint = child[:, : g.labels, None] * parent[:, None, :]
        edge.flat[:] = joint.reshape(-1, node.flat.shape[1])
        edge.flat[:, g.labels :] = FLOOR
    return TreeMarginals(node, edge)


@marginals_of.register(Forest)
def _(data, points):
    g = data.graphs
    K, order = g.labels, g.order
    node = np.empty((order.size, K))
    node[order] = points.node.flat[:, :K]
    edge = points.edge.flat[: g.kind.size * K, :K].reshape(-1, K, K)
    edge = np.where(data.turned[:, None, None] == 1, edge.transpose(0, 2, 1), edge)
    return {"node": node, "edge": edge}


@points_of.register(Forest)
def _(data, marginals):
    g, points = data.graphs, interior(data, 1.0)
    K = g.labels
    edge = np.where(data.turned[:, None, None] == 1, marginals["edge"].transpose(0, 2, 1), marginals["edge"])
    points.node.flat[:, :K] = np.maximum(marginals["node"][g.order], FLOOR)
    points.edge.flat[: g.kind.size * K, :K] = np.maximum(edge.reshape(-1, K), FLOOR)
    return points
