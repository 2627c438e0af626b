"""How the nodes of a forest are ordered: parents before children."""

import numpy as np

from .forest import DEGREE, Forest
from .graphs import GraphLayout, Graphs


def rooted(size: int, edges: np.ndarray, kinds: np.ndarray, which: str) -> GraphLayout:
    """The last node of each connected part is its root: a chain then needs no table turned."""
    near: list[list[tuple[int, int]]] = [[] for _ in range(size)]
    for e, (u, v) in enumerate(edges.tolist()):
        near[u].append((v, e))
        near[v].append((u, e))
    number = np.full(size, -1)
    order: list[int] = []
    up: list[int] = []
    parent: list[int] = []
    for root in range(size - 1, -1, -1):
        if number[root] >= 0:
            continue
        waiting = [(root, -1, -1)]
        while waiting:
            node, edge, above = waiting.pop()
            if number[node] >= 0:
                raise ValueError(f"{which} has a cycle through node {node}: it is not a tree. Use structures.Graph.")
            number[node] = len(order)
            order.append(node)
            up.append(edge)
            parent.append(above)
            waiting += [(other, e, int(number[node])) for other, e in near[node] if e != edge]
    source, target = number[edges[:, 0]], number[edges[:, 1]]
    degree = np.bincount(np.concatenate([source, target]), minlength=size)
    plan = np.stack([up, parent, degree], axis=1).astype(np.int32), (source < target).astype(np.int8)
    return GraphLayout(np.array(order), source, target, kinds, np.zeros(size, np.uint8), plan)


def chained(size: int, kinds: np.ndarray) -> GraphLayout:
    """What `rooted` says of a sequence, without a walk from node to node."""
    place = np.arange(size)
    order, source = place[::-1].copy(), place[:0:-1]
    up = np.where(place > 0, order, -1)
    degree = np.minimum(place, 1) + np.minimum(order, 1)
    plan = np.stack([up, place - 1, degree], axis=1).astype(np.int32), np.zeros(max(size - 1, 0), np.int8)
    return GraphLayout(order, source, source - 1, kinds, np.zeros(size, np.uint8), plan)


def forest(graphs: Graphs, layouts: list[GraphLayout]) -> Forest:
    tree, turned = (np.concatenate(arrays) for arrays in zip(*(layout.plan for layout in layouts), strict=True))
    return Forest(graphs, tree, turned, bool(turned.any()))


def alone(graphs: Graphs) -> Forest:
    """Every sample a single node."""
    tree = np.full((graphs.node.shape[0], 3), -1, np.int32)
    tree[:, DEGREE] = 0
    return Forest(graphs, tree, np.zeros(0, np.int8), False)
