"""Structures whose edges are given: once for all samples, or with each sample."""

from abc import abstractmethod

import numpy as np
import scipy.sparse as sp

from ..jit import vectors
from .best import best_labellings
from .encoded.forest import PARENT
from .encoded.graphs import GraphLayout, Graphs
from .encoded.rooted import forest
from .labelling import SURELY_SMALL, Labelling
from .reading import check_finite, numeric


class Edged(Labelling):
    """What `Tree` and `Graph` share: how edges are read and checked."""

    def __init__(self, n_labels=None, edges=None, *, edge_types=None, bias=True, cost=None, normalize_loss=False):
        self.n_labels = n_labels
        self.edges = edges
        self.edge_types = edge_types
        self.bias = bias
        self.cost = cost
        self.normalize_loss = normalize_loss

    def size(self, X, y):
        if self.edges is None and self.edge_types is not None:
            raise ValueError("edge_types are given without edges; with edges=None each sample is (features, edges, edge_types).")
        self._shared = None if self.edges is None else edge_arrays(self.edges, self.edge_types, "The structure")
        return super().size(X, y)

    def _parts(self, x, which):
        if self._shared is not None:
            if isinstance(x, tuple):
                raise ValueError(f"{which} is a tuple; with edges given to the structure it must be its node features alone.")
            return x, *self._shared
        if not isinstance(x, tuple | list) or len(x) not in (2, 3):
            raise ValueError(f"{which} must be (features, edges) or (features, edges, edge_types), for edges=None.")
        return x[0], *edge_arrays(x[1], x[2] if len(x) == 3 else None, which)

    def _count_kinds(self, kinds):
        return count_columns(kinds) if self.edge_features else count_types(kinds)

    def _layout(self, size, edges, kinds, which):
        check_edges(size, edges, which)
        return self._arrange(size, edges, kinds, which)

    def n_best(self, W, X, count):
        table, found, seen = vectors.unpack(W, len(self.labels_)), [], {}
        for i, x in enumerate(X):
            unary, joint, edges = self._sample_scores(table, x, i)
            key = len(unary), edges.tobytes()
            if key not in seen:
                seen[key] = self._layout(len(unary), edges, np.zeros(len(edges), np.int32), f"Sample {i} of X")
            layout = seen[key]
            ends = layout.source, layout.target
            codes, scores = best_labellings(unary[layout.order], joint, *ends, self._separators(layout), count)
            labels = np.empty_like(codes)
            labels[:, layout.order] = codes
            outputs = self._outputs(self.labels_[labels.ravel()], len(unary) * np.arange(len(codes) + 1))
            found.append(list(zip(outputs, scores.tolist(), strict=True)))
        return found

    def _separators(self, layout: GraphLayout) -> list[list[int]]:
        """Of each node of a layout the smaller ones that it depends on: in a forest its parent."""
        return [[above] if above >= 0 else [] for above in layout.plan[0][:, PARENT].tolist()]

    @abstractmethod
    def _arrange(self, size: int, edges: np.ndarray, kinds: np.ndarray, which: str) -> GraphLayout:
        """The layout of a graph whose edges are in order."""

    def _assemble(self, graphs: Graphs, layouts: list[GraphLayout]):
        return forest(graphs, layouts)


def count_types(kinds: list[np.ndarray]) -> int:
    """How many types of edges there are, from those of each sample."""
    return max((int(each.max()) + 1 for each in kinds if each.size), default=1)


def edge_arrays(edges, kinds, which: str) -> tuple[np.ndarray, np.ndarray]:
    """Edges (m, 2) and their types (m,)."""
    pairs = _integers(edges, f"{which} has edges that are not pairs of node numbers")
    if pairs.size == 0:
        pairs = pairs.reshape(0, 2)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"{which} has edges of shape {pairs.shape}; (number of edges, 2) is expected.")
    if kinds is None:
        return pairs, np.zeros(len(pairs), np.int32)
    types = _integers(kinds, f"{which} has edge_types that are not integers")
    if types.shape != (len(pairs),):
        raise ValueError(f"{which} has {len(pairs)} edges but edge_types of shape {types.shape}; one for each edge is expected.")
    if types.size and types.min() < 0:
        raise ValueError(f"{which} has a negative edge type, {types.min()}; types count from 0.")
    return pairs, types.astype(np.int32)


def count_columns(values: list[np.ndarray]) -> int:
    """How many features edges have, from those of each sample."""
    return next((each.shape[1] for each in values if len(each)), max((each.shape[1] for each in values), default=0) or 1)


def edge_values(given, count: int, which: str) -> np.ndarray:
    """The features of `count` edges, (count, features), in float64."""
    if sp.issparse(given):
        raise ValueError(f"{which} has a sparse matrix of edge features; give a dense one, by its toarray().")
    values = numeric(given, f"The edge features of {which[0].lower() + which[1:]}")
    if values.size == 0 and count == 0:
        return np.zeros((0, values.shape[1] if values.ndim == 2 else 0))
    if values.ndim != 2 or len(values) != count or values.shape[1] == 0:
        raise ValueError(
            f"{which} has {count} edges but edge features of shape {values.shape}; a row for each edge is expected, "
            f"({count}, number of edge features)."
        )
    values = values.astype(np.float64, copy=False)
    check_finite(values, lambda e: f"{which} holds, in the features of edge {e},")
    if np.abs(values).max() > SURELY_SMALL:
        raise ValueError(f"{which} is too large: edge features may be at most {SURELY_SMALL:g}; scale them down.")
    return values


def _integers(given, complaint: str) -> np.ndarray:
    try:
        array = np.asarray(given)
    except ValueError:
        raise ValueError(f"{complaint}.") from None
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{complaint}: they must be integers, and are {array.dtype}.")
    return array.astype(np.int64, copy=False)


def check_edges(size: int, edges: np.ndarray, which: str) -> None:
    """Refuse edges that name no node, join a node to itself or come twice."""
    outside = np.flatnonzero((edges < 0).any(axis=1) | (edges >= size).any(axis=1))
    if outside.size:
        u, v = edges[outside[0]]
        raise ValueError(f"{which} has the edge ({u}, {v}), but its {size} nodes are numbered from 0 to {size - 1}.")
    loops = np.flatnonzero(edges[:, 0] == edges[:, 1])
    if loops.size:
        raise ValueError(f"{which} has an edge from node {edges[loops[0], 0]} to itself (edge {loops[0]}).")
    seen: dict[tuple[int, int], int] = {}
    for e, (u, v) in enumerate(edges.tolist()):
        first = seen.setdefault((min(u, v), max(u, v)), e)
        if first != e:
            raise ValueError(f"{which} joins the nodes {u} and {v} twice (edges {first} and {e}).")
