"""Forests whose edges have features: real numbers, each with a table of pair weights of its own.

    w . phi(x, y) = (nodes, as in `graphs.py`) + sum_edges e = (u, v)  sum_f E[e, f] T[f][y_u, y_v]

What types of edges are to plain forests, features are here: `Graphs.kinds` counts them, and the pairs of an output are counted
once for each, times its value. Types are the columns of one and zero. Edges have a table of scores of their own, so that a visit
of a sample with m edges takes m F K^2 multiplications more than one of a plain forest, which is why this is another kind.
"""

from typing import NamedTuple

import numpy as np

from ...data import rows
from ...jit import jitable, vectors
from . import contract
from .forest import FORESTS, add_table, count_pairs, counts_as_it_lies, edge_table
from .graphs import (
    GRAPHS,
    SOURCE,
    TARGET,
    Graphs,
    GraphScratch,
    add_pair,
    count_graphs,
    extent_of,
    graph_vertices,
    graphs,
    graphs_alike,
    new_tables,
    on_pair,
    prepare_nodes,
    spread_of_nodes,
)


class FeaturedForest(NamedTuple):
    graphs: Graphs  # all edges of kind 0, and as many kinds as edges have features
    tree: np.ndarray  # as in `Forest`
    turned: np.ndarray
    any_turned: bool  # never: the tables of edges are written by [child, parent] at once
    values: np.ndarray  # (edges, features)


GRAPHS.admit(FeaturedForest)
FORESTS.admit(FeaturedForest)


def featured(forest, values: np.ndarray) -> FeaturedForest:
    """A forest with these features of its edges, which are in the user's order within each sample."""
    return FeaturedForest(forest.graphs, forest.tree, forest.turned, False, values)


@contract.new_scratch.register(FeaturedForest)
def _(data) -> GraphScratch:
    tables = int(np.max(np.diff(data.graphs.edges), initial=0)) * data.graphs.labels
    return new_tables(data, tables, 0, tables)


@contract.prepare.register(FeaturedForest)
def _(data, i, W, scratch):
    g, table = graphs(data), scratch.rows.vectors
    prepare_nodes(data, i, W, scratch)
    for r in range(W.shape[0] - g.pairs):  # without rules: these are added once to an edge and not to each of its tables
        for b in range(W.shape[1]):
            vectors.store(table, scratch.pair + r, b, vectors.load(W, g.pairs + r, b))
    _, _, first, count = extent_of(data, i)
    for e in range(count):
        write_table(data, first + e, scratch, scratch.edges + e * g.labels)


@jitable
def write_table(data, e, scratch, at):
    """The pair scores of edge e by [child, parent], from row `at` on."""
    g, table, K = graphs(data), scratch.rows.vectors, graphs(data).labels
    rules = K + 3  # the first row of those of pairs
    ruled = g.cost.vectors.shape[0] > rules
    for k in range(K):
        for b in range(table.shape[1]):
            held = vectors.zeros_like(table)
            if ruled:
                held = vectors.load(g.cost.vectors, rules + k, b)
            for f in range(g.kinds):
                held = vectors.fma(held, data.values[e, f], vectors.load(table, scratch.pair + f * K + k, b))
            vectors.store(table, at + k, b, held)
    if data.turned[e]:
        for k in range(K):
            for other in range(k):
                held_here = scratch.rows.flat[at + k, other]
                scratch.rows.flat[at + k, other] = scratch.rows.flat[at + other, k]
                scratch.rows.flat[at + other, k] = held_here


@edge_table.register(FeaturedForest)
def _(data, scratch, first, e):
    return scratch.edges + e * graphs(data).labels


@counts_as_it_lies.register(FeaturedForest)
def _(data, e):
    return False


@count_pairs.register(FeaturedForest)
def _(data, e, table, at, t, scratch):
    for f in range(graphs(data).kinds):
        add_table(data, e, table, at, t * data.values[e, f], scratch, f)


@add_pair.register(FeaturedForest)
def _(data, e, t, code, table, at):
    g = graphs(data)
    row, column = at + code[g.edge[e, SOURCE]], code[g.edge[e, TARGET]]
    for f in range(g.kinds):
        table.flat[row + f * g.labels, column] += t * data.values[e, f]


@on_pair.register(FeaturedForest)
def _(data, e, code, table, at):
    g = graphs(data)
    row, column, total = at + code[g.edge[e, SOURCE]], code[g.edge[e, TARGET]], 0.0
    for f in range(g.kinds):
        total += data.values[e, f] * table.flat[row + f * g.labels, column]
    return total


@contract.diameter.register(FeaturedForest)
def _(data, i):
    # As for graphs, with |E_e . E_e'| in the place of 1 for two edges: at most the sum of the products of their absolute values.
    _, _, first, count = extent_of(data, i)
    total = spread_of_nodes(data, i)
    for f in range(graphs(data).kinds):
        column = 0.0
        for e in range(first, first + count):
            column += abs(data.values[e, f])
        total += column * column
    return 2.0 * total


# ---- samples as a whole; plain Python --------------------------------------------------------------------


@contract.visit_work.register(FeaturedForest)
def _(data) -> float:
    g, n = data.graphs, max(count_graphs(data), 1)
    return (g.label.size * rows.mean_length(g.X) * g.labels + g.kind.size * g.labels**2 * (1 + g.kinds)) / n


@contract.same_shapes.register(FeaturedForest)
def _(data, other) -> bool:
    return graphs_alike(data, other) and np.array_equal(data.values, other.values)


@contract.vertices.register(FeaturedForest)
def _(data):
    g, K = data.graphs, data.graphs.labels
    points = graph_vertices(data)  # of edges that are all of kind 0 and count once
    table = points.rows.reshape(-1, g.cost.flat.shape[1])
    sample = np.repeat(np.arange(count_graphs(data)), np.diff(g.edges))
    source, target = (g.label[g.start[sample] + end] for end in (g.source, g.target))
    first = g.start[sample] + sample * g.kinds * K + source
    table[first, target] = 0.0
    for f in range(g.kinds):
        np.add.at(table, (first + f * K, target), data.values[:, f])
    return points
