"""Exact inference on graphs with cycles: max-product and sum-product on a junction tree.

Nodes are eliminated one by one; the clique of a node is itself and those of its neighbours, by edges or fill, that are
eliminated after it: its *separator*. Nodes are numbered against that order, so that a separator holds smaller numbers only;
the largest of them is the parent, whose clique holds the whole separator. A clique's table has a row for each labelling of
the separator and the labels of its own node along the lanes. A message is a row of lanes too, for the parent is the last in
the separator: `maps` says which row of a message belongs to each row of the parent's table.

A distribution that factors over the cliques is the product of p(node | separator), so that its logarithm needs only the
tables themselves: log mu_clique - log mu_separator, the latter being the sums of the rows.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...jit import jitable, jitable_call, vectors
from ..labelling import starts
from .contract import (
    direct,
    expected_loss,
    interior,
    marginals_of,
    new_room,
    points_of,
    statistics_of,
    step_towards,
    withdraw,
    worst,
)
from .forest import load_beliefs, mix_into
from .graphs import (
    FLOOR,
    KIND,
    SOURCE,
    TARGET,
    Graphs,
    Room,
    graphs,
    new_tables,
    node_loss,
    node_points,
    node_statistics,
    register,
    spread_of,
    turn,
    wipe,
    withdraw_statistics,
)


class Plan(NamedTuple):
    """The cliques of one shape of graph. Counts say how many of the following arrays' entries belong to each node."""

    parent: np.ndarray  # (nodes,) -1 where the separator is empty
    height: np.ndarray  # (nodes,) rows of the table: labellings of the separator
    at: np.ndarray  # (nodes,) the first row of the table
    member_count: np.ndarray  # (nodes,) the separator:
    member: np.ndarray  # its nodes, ascending
    stride: np.ndarray  # row = sum of stride * label over them
    link_count: np.ndarray  # (nodes,) the edges into the separator:
    link: np.ndarray  # their numbers
    link_stride: np.ndarray  # the stride of the other end
    turned: np.ndarray  # 1 where it runs from this node to the separator
    map_count: np.ndarray  # (nodes,)
    maps: np.ndarray  # the row of the message for each row of the parent's table


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
    used: vectors.Table  # (1, K) one where there is a label, zero in the other lanes


register(Junction)


@new_room.register(Junction)
def _(data) -> Room:
    largest = int(data.height.max()) // data.graphs.labels
    return new_tables(data, int(np.diff(data.tables).max()), max(largest, 1))


@jitable_call
def fill_tables(data, i, room, inverse):
    """joint = (pair weights) * inverse + belief, table by table"""
    g, joint = graphs(data), room.joint
    _, size, first, _ = spread_of(data, i)
    blocks, K = room.rows.lanes.shape[1], g.labels
    turn(data, room)
    for p in range(size):
        node = data.shape[i] + p
        at, count = data.at[node], data.height[node]
        for r in range(count):
            for b in range(blocks):
                vectors.store(room.rows.lanes, joint + at + r, b, vectors.load(room.rows.lanes, room.belief + p, b))
        for k in range(data.link_at[node], data.link_at[node + 1]):
            table = room.turned if data.turned[k] else room.pair  # by [label in the separator, own label]
            top, stride = g.edge[first + data.link[k], KIND] * K, data.link_stride[k]
            r = at
            while r < at + count:  # the label of the other end changes every `stride` rows
                for label in range(K):
                    for _ in range(stride):
                        for b in range(blocks):
                            weight = vectors.load(room.rows.lanes, table + top + label, b)
                            total = vectors.fma(vectors.load(room.rows.lanes, joint + r, b), inverse, weight)
                            vectors.store(room.rows.lanes, joint + r, b, total)
                        r += 1


@jitable_call
def send_message(data, node, at_plan, room):
    """Add the message of a node to its parent's table."""
    parent = at_plan + data.parent[node]
    at, maps = data.at[parent], data.map_at[node]
    for r in range(data.height[parent]):
        row = data.maps[maps + r]
        for b in range(room.rows.lanes.shape[1]):
            vectors.increase(room.rows.lanes, room.joint + at + r, b, vectors.load(room.rows.lanes, room.message + row, b))


@worst.register(Junction)
def _(data, i, room, code):
    g, joint, message = graphs(data), room.joint, room.message
    _, size, _, _ = spread_of(data, i)
    K, plan, value = g.labels, data.shape[i], 0.0
    load_beliefs(data, i, room, 1.0)
    fill_tables(data, i, room, 1.0)
    for p in range(size - 1, -1, -1):
        node = plan + p
        if data.parent[node] >= 0:
            r = data.at[node]
            for row in range(data.height[node] // K):
                for k in range(K):
                    room.rows.flat[message + row, k] = top_of(room.rows, joint + r)
                    r += 1
            send_message(data, node, plan, room)
    for p in range(size):
        node = plan + p
        row = data.at[node]
        for k in range(data.member_at[node], data.member_at[node + 1]):
            row += data.stride[k] * code[data.member[k]]
        best = 0
        for k in range(1, K):
            if room.rows.flat[joint + row, k] > room.rows.flat[joint + row, best]:
                best = k
        code[p] = best
        if data.parent[node] < 0:
            value += room.rows.flat[joint + row, best]
    return value


@jitable
def top_of(table, row):
    """The largest number of a row."""
    highest = vectors.load(table.lanes, row, 0)
    for b in range(1, table.lanes.shape[1]):
        highest = vectors.maximum(highest, vectors.load(table.lanes, row, b))
    return vectors.largest(highest)


# ---- sum-product -----------------------------------------------------------------------------------------


class CliqueMarginals(NamedTuple):
    """A point of the marginal polytope of each sample: clique marginals, at least FLOOR, and what follows from them."""

    node: vectors.Table  # (nodes, K)
    pair: vectors.Table  # (samples * kinds * K, K) summed by kind
    clique: vectors.Table  # (rows, K)


@direct.register(CliqueMarginals)
def _(points, data, i, room, temperature):
    # The Gibbs distribution of (scores + loss) / temperature times the current point. A sweep up in log space leaves
    # p(node | separator) behind, a sweep down multiplies by the marginals of the separator.
    g = graphs(data)
    _, size, _, _ = spread_of(data, i)
    inverse = 1.0 / temperature
    load_beliefs(data, i, room, inverse)
    fill_tables(data, i, room, inverse)
    add_logs(points, data, i, room)
    for p in range(size - 1, -1, -1):
        condition(data, i, room, p)
    wipe(room.rows, room.sums, g.kinds * g.labels)
    for p in range(size):  # beliefs become the target's node marginals
        multiply_out(data, i, room, p)
    for p in range(size):
        for b in range(room.rows.lanes.shape[1]):
            vectors.store(room.rows.lanes, room.node + p, b, vectors.load(room.rows.lanes, room.belief + p, b))
    for r in range(g.kinds * g.labels):
        for b in range(room.rows.lanes.shape[1]):
            vectors.store(room.rows.lanes, room.pairs + r, b, vectors.load(room.rows.lanes, room.sums + r, b))
    withdraw(points, data, i, room)


@jitable_call
def add_logs(points, data, i, room):
    """joint += log p(node | separator) of the point"""
    start, blocks = data.tables[i], room.rows.lanes.shape[1]
    for r in range(data.tables[i + 1] - start):
        mass = 0.0
        for b in range(blocks):
            held = vectors.load(points.clique.lanes, start + r, b)
            mass += vectors.total(vectors.multiply(held, vectors.load(data.used.lanes, 0, b)))
        less = -np.log(mass)
        for b in range(blocks):
            mark = vectors.shift(vectors.log(vectors.load(points.clique.lanes, start + r, b)), less)
            vectors.increase(room.rows.lanes, room.joint + r, b, mark)


@jitable_call
def condition(data, i, room, p):
    """The table of node p becomes p(node | separator), and the logarithms of its sums go to the parent."""
    K, node = graphs(data).labels, data.shape[i] + p
    r = data.at[node]
    if data.parent[node] < 0:
        share_out(data, room, r)
        return
    for row in range(data.height[node] // K):
        for k in range(K):
            room.rows.flat[room.message + row, k] = share_out(data, room, r)
            r += 1
    send_message(data, node, data.shape[i], room)


@jitable
def share_out(data, room, r):
    """Row r of the tables becomes probabilities; returns the logarithm of what it summed to."""
    joint, highest, mass = room.joint, top_of(room.rows, room.joint + r), 0.0
    for b in range(room.rows.lanes.shape[1]):
        mark = vectors.exp(vectors.shift(vectors.load(room.rows.lanes, joint + r, b), -highest))
        mark = vectors.multiply(mark, vectors.load(data.used.lanes, 0, b))
        vectors.store(room.rows.lanes, joint + r, b, mark)
        mass += vectors.total(mark)
    for b in range(room.rows.lanes.shape[1]):
        mark = vectors.fma(vectors.zeros_like(room.rows.lanes), 1.0 / mass, vectors.load(room.rows.lanes, joint + r, b))
        vectors.store(room.rows.lanes, joint + r, b, mark)
    return highest + np.log(mass)


@jitable_call
def multiply_out(data, i, room, p):
    """The table of node p becomes its clique's marginals; sums of them are added to the belief and to the kinds of edges."""
    g, joint, message = graphs(data), room.joint, room.message
    _, _, first, _ = spread_of(data, i)
    K, plan, blocks = g.labels, data.shape[i], room.rows.lanes.shape[1]
    node, zero = plan + p, vectors.zeros_like(room.rows.lanes)
    at, count = data.at[node], data.height[node]
    if data.parent[node] >= 0:
        above, maps = plan + data.parent[node], data.map_at[node]
        wipe(room.rows, message, count // K)
        for r in range(data.height[above]):
            row = data.maps[maps + r]
            for b in range(blocks):
                seen = vectors.load(room.rows.lanes, joint + data.at[above] + r, b)
                vectors.increase(room.rows.lanes, message + row, b, seen)
        r = at
        for row in range(count // K):
            for k in range(K):
                for b in range(blocks):
                    total = vectors.fma(zero, room.rows.flat[message + row, k], vectors.load(room.rows.lanes, joint + r, b))
                    vectors.store(room.rows.lanes, joint + r, b, total)
                r += 1
    for b in range(blocks):
        total = zero
        for r in range(at, at + count):
            total = vectors.add(total, vectors.load(room.rows.lanes, joint + r, b))
        vectors.store(room.rows.lanes, room.belief + p, b, total)
    for k in range(data.link_at[node], data.link_at[node + 1]):
        sum_edge(room, joint + at, count, data.link_stride[k], K)
        top = g.edge[first + data.link[k], KIND] * K
        for other in range(K):
            for own in range(K):
                source, target = (own, other) if data.turned[k] else (other, own)
                room.rows.flat[room.sums + top + source, target] += room.rows.flat[room.square + other, own]


@jitable
def sum_edge(room, at, count, stride, K):
    """square[other, own] = pair marginals of a node and the member of its separator with this stride"""
    rows, square = room.rows.lanes, room.square
    wipe(room.rows, square, K)
    r = at
    while r < at + count:
        for k in range(K):
            for _ in range(stride):
                for b in range(rows.shape[1]):
                    vectors.increase(rows, square + k, b, vectors.load(rows, r, b))
                r += 1


@withdraw.register(CliqueMarginals)
def _(points, data, i, room):
    withdraw_statistics(points, data, i, room)


@step_towards.register(CliqueMarginals)
def _(points, data, i, gamma, room):
    start, size, _, count = spread_of(data, i)
    blocks, zero = points.node.lanes.shape[1], vectors.zeros_like(points.node.lanes)
    least = vectors.shift(zero, FLOOR)
    for p in range(size):
        for b in range(blocks):
            mix_into(points.node.lanes, start + p, b, gamma, vectors.load(room.rows.lanes, room.belief + p, b), least)
    if count > 0:
        rows = graphs(data).kinds * graphs(data).labels
        for r in range(rows):
            for b in range(blocks):
                mix_into(points.pair.lanes, i * rows + r, b, gamma, vectors.load(room.rows.lanes, room.sums + r, b), zero)
    at = data.tables[i]
    for r in range(data.tables[i + 1] - at):
        for b in range(blocks):
            mix_into(points.clique.lanes, at + r, b, gamma, vectors.load(room.rows.lanes, room.joint + r, b), least)


@expected_loss.register(CliqueMarginals)
def _(points, data, i):
    return node_loss(points.node, data, i)


@statistics_of.register(CliqueMarginals)
def _(points, data, i, weight):
    return node_statistics(points, data, i, weight)


@interior.register(Junction)
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


@marginals_of.register(Junction)
def _(data, points):
    g, K = data.graphs, data.graphs.labels
    node = np.empty((g.order.size, K))
    node[g.order] = points.node.flat[:, :K]
    cliques = [points.clique.flat[at : at + height, :K].copy() for at, height in zip(data.at, data.height)]
    edge = np.empty((g.kind.size, K, K))
    home = np.maximum(g.source, g.target)
    for k, e in enumerate(data.link):
        square = cliques[home[e]].reshape(-1, K, data.link_stride[k], K).sum(axis=(0, 2))
        edge[e] = square.T if data.turned[k] else square
    return {"node": node, "edge": edge, "clique": cliques}


@points_of.register(Junction)
def _(data, marginals):
    g, K = data.graphs, data.graphs.labels
    points = interior(data, 1.0)
    points.node.flat[:, :K] = np.maximum(marginals["node"][g.order], FLOOR)
    points.clique.flat[:, :K] = np.maximum(np.concatenate(marginals["clique"]), FLOOR)
    points.pair.flat[:] = 0.0
    for e in range(g.kind.size):
        row = g.edge[e, KIND] * K
        points.pair.flat[row : row + K, :K] += marginals["edge"][e]
    return points


def samples(data: Junction) -> int:
    return data.graphs.start.size - 1


# ---- building --------------------------------------------------------------------------------------------


def eliminated(size: int, edges: np.ndarray, elimination: list[int]) -> Iterator[tuple[int, set[int]]]:
    """Each node with the neighbours, by edges or fill, that are left when it is eliminated."""
    near: list[set[int]] = [set() for _ in range(size)]
    for u, v in edges.tolist():
        near[u].add(v)
        near[v].add(u)
    for node in elimination:
        left = near[node]
        yield node, left
        for other in left:
            near[other] |= left
            near[other] -= {node, other}


def separators(size: int, edges: np.ndarray, elimination: list[int]) -> tuple[np.ndarray, list[list[int]]]:
    """The order of nodes, and the separator of each by its place in that order, ascending."""
    number = np.empty(size, np.int64)
    number[elimination] = np.arange(size - 1, -1, -1)
    found: list[list[int]] = [[] for _ in range(size)]
    for node, left in eliminated(size, edges, elimination):
        found[number[node]] = sorted(int(number[other]) for other in left)
    return np.array(elimination[::-1]), found


def plan_of(members: list[list[int]], source: np.ndarray, target: np.ndarray, K: int) -> Plan:
    """Tables, messages and the home of each edge; `source` and `target` by place in the order."""
    links: list[list[int]] = [[] for _ in members]
    for e, child in enumerate(np.maximum(source, target).tolist()):
        links[child].append(e)
    strides = [[K ** (len(own) - 1 - k) for k in range(len(own))] for own in members]
    maps = [_message_rows(own, members[own[-1]], K) if own else np.zeros(0, np.int64) for own in members]
    link = _flat(links)
    child, other = np.maximum(source, target)[link], np.minimum(source, target)[link]
    link_stride = [strides[c][members[c].index(o)] for c, o in zip(child.tolist(), other.tolist())]
    height = np.array([K ** len(own) for own in members])
    return Plan(
        parent=np.array([own[-1] if own else -1 for own in members]),
        height=height,
        at=np.cumsum(height) - height,
        member_count=np.array([len(own) for own in members]),
        member=_flat(members),
        stride=_flat(strides),
        link_count=np.array([len(own) for own in links]),
        link=link,
        link_stride=np.array(link_stride, np.int64),
        turned=(source[link] == child).astype(np.int64),
        map_count=np.array([own.size for own in maps]),
        maps=np.concatenate(maps),
    )


def _flat(lists: list[list[int]]) -> np.ndarray:
    return np.array([number for numbers in lists for number in numbers], np.int64)


def _message_rows(own: list[int], above: list[int], K: int) -> np.ndarray:
    """For each labelling of the parent's separator, the row of the message: `above` holds all of `own` but the parent."""
    row = np.zeros((K,) * len(above), np.int64)
    for k, node in enumerate(own[:-1]):
        shape = [1] * len(above)
        shape[above.index(node)] = K
        row = row + (np.arange(K) * K ** (len(own) - 2 - k)).reshape(shape)
    return row.ravel()


def junction(graphs: Graphs, plans: list[Plan]) -> Junction:
    """`plans` has an entry for each sample, the same object for samples of one shape."""
    distinct = list({id(plan): plan for plan in plans}.values())
    nodes = starts([plan.parent.size for plan in distinct])
    first = {id(plan): at for plan, at in zip(distinct, nodes.tolist())}
    joined = {name: np.concatenate([getattr(plan, name) for plan in distinct]) for name in Plan._fields}
    for name in ("member", "link", "map"):
        joined[name + "_at"] = starts(joined.pop(name + "_count"))
    return Junction(
        graphs,
        shape=np.array([first[id(plan)] for plan in plans], np.int64),
        tables=starts([int(plan.height.sum()) for plan in plans]),
        used=vectors.table(vectors.pack(np.ones((1, graphs.labels)), np.float64)),
        **joined,
    )
