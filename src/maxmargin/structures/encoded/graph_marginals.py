"""Marginals of graphs: what those of forests and those of graphs with cycles share. Both have a table `node`, (nodes, K)."""

import numpy as np

from ...jit import jitable, vectors
from . import contract
from .graphs import FLOOR, LABEL, extent_of, graphs, in_users_order
from .statistics import within

# A marginal up to here is FLOOR, or what little is left where rules forbid a label: no loss is counted for it, so that a dual
# value is none too large even where the rules leave a single output, whose loss is zero.
UNREACHED = 1e-200
NODES = contract.Family()  # marginals that have a table `node`


@jitable
def load_beliefs(data, i, scratch, scale):
    """belief = scale * (scores + loss)"""
    g = graphs(data)
    start, size, _, _ = extent_of(data, i)
    zero = vectors.zeros_like(scratch.rows.vectors)
    for p in range(size):
        y = g.node[start + p, LABEL]
        for b in range(scratch.rows.vectors.shape[1]):
            at = vectors.fma(
                vectors.load(scratch.rows.vectors, scratch.scores + p, b), g.scale[i], vectors.load(g.cost.vectors, y, b)
            )
            vectors.store(scratch.rows.vectors, scratch.belief + p, b, vectors.fma(zero, scale, at))


@jitable
def mix_into(array, row, b, gamma, target, least):
    """Not as a sum with a difference: that would lose a marginal far below the one before it."""
    kept = vectors.fma(vectors.zeros_like(array), 1.0 - gamma, vectors.load(array, row, b))
    vectors.store(array, row, b, vectors.maximum(vectors.fma(kept, gamma, target), least))


@jitable
def withdraw_rows(table, start, count, difference, at):
    for r in range(count):
        for b in range(table.vectors.shape[1]):
            left = vectors.subtract(vectors.load(difference.vectors, at + r, b), vectors.load(table.vectors, start + r, b))
            vectors.store(difference.vectors, at + r, b, left)


@jitable
def step_nodes(points, data, i, gamma, scratch, least):
    """The part of `step_towards` that is about nodes; their targets are the beliefs."""
    start, size, _, _ = extent_of(data, i)
    for p in range(size):
        for b in range(points.node.vectors.shape[1]):
            mix_into(points.node.vectors, start + p, b, gamma, vectors.load(scratch.rows.vectors, scratch.belief + p, b), least)


@NODES.does(contract.expected_loss)
def loss_of_nodes(points, data, i):
    g = graphs(data)
    start, size, _, _ = extent_of(data, i)
    total = 0.0
    for p in range(start, start + size):
        for k in range(g.labels):
            if points.node.flat[p, k] > UNREACHED:
                total += points.node.flat[p, k] * g.cost.flat[g.node[p, LABEL], k]
    return total * g.scale[i]


@NODES.does(contract.statistics_of)
def shown_nodes(points, data, i: int, weight: float) -> dict[str, np.ndarray]:
    """Node marginals, in the user's order, times `weight`."""
    g = data.graphs
    return {"node": weight * in_users_order(data, i, points.node.flat[g.start[i] : g.start[i + 1], : g.labels])}


def node_numbers(points, data, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The part of `numbers_of` that is about nodes."""
    start = data.graphs.start
    return points.node.vectors, within(start[samples], start[samples + 1] - start[samples])


def node_points(data, spread: float) -> vectors.VectorTable:
    """Node marginals around the true labels, where these are known."""
    g = data.graphs
    spread = min(spread, 1.0 / g.labels)
    node = vectors.zeros_table(g.label.size, g.labels, np.float64)
    node.flat[:] = FLOOR
    node.flat[:, : g.labels] = spread
    known = np.flatnonzero(g.label < g.labels)
    node.flat[known, g.label[known]] = 1.0 - (g.labels - 1) * spread
    return node
