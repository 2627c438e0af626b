"""Trees and forests: every node has a label, nodes joined by an edge depend on each other."""

from .edges import Edged, edge_arrays, edge_values
from .encoded.rooted import rooted


class Tree(Edged):
    """Labels of the nodes of a tree, or of a forest.

    Weights: one for each label and feature, a bias for each label, and a table of pairs of labels for each type of edge,
    or for each feature of edges, read by [label of u, label of v] for an edge (u, v): K (features + 1 + types K) in all.

    Parameters
    ----------
    n_labels : int, optional
        Labels are then 0, ..., n_labels - 1. By default they are found in y, and may be any hashable objects.
    edges : array of shape (m, 2), optional
        The edges of every sample; x is then the features of its nodes, (nodes, features). With None each x is a tuple
        (features, edges) or (features, edges, edge_types), and samples may differ in size and shape.
    edge_types : array of shape (m,), optional
        The type of each edge, counted from 0. By default all edges are of one type.
    edge_features : bool, default=False
        Whether the edges have features, real numbers, in the place of types. A sample x is then (features, edge features), and
        with edges=None (features, edges, edge features); they are a dense array (m, edge features), in the order of the edges.
        Each has a table of pair weights, and the scores of an edge are the sum of the tables times its features.
    bias : bool, default=True
    cost : array of shape (K, K) or dict of dicts, optional
        cost[a, b]: what it costs to say b where a is true, in the order of the labels; or by name,
        cost[a][b]. 1 for every wrong one by default, and for every pair that a dict leaves out.
    normalize_loss : bool, default=False
        Divide the loss by the number of nodes. By default it is the number of wrong nodes.
    """

    _parameter_constraints = {**Edged._parameter_constraints, "edge_features": ["boolean"]}

    def __init__(
        self, n_labels=None, edges=None, *, edge_types=None, edge_features=False, bias=True, cost=None, normalize_loss=False
    ):
        super().__init__(n_labels, edges, edge_types=edge_types, bias=bias, cost=cost, normalize_loss=normalize_loss)
        self.edge_features = edge_features

    def size(self, X, y):
        if self.edge_types is not None and self.edge_features:
            raise ValueError("edge_types and edge_features are both set: types are columns of ones and zeros in edge_features.")
        return super().size(X, y)

    def _parts(self, x, which):
        if not self.edge_features:
            return super()._parts(x, which)
        parts = "(features, edges, edge features)" if self._shared is None else "(features, edge features)"
        if not isinstance(x, tuple | list) or len(x) != (3 if self._shared is None else 2):
            raise ValueError(f"{which} must be {parts}, for edge_features=True.")
        edges = edge_arrays(x[1], None, which)[0] if self._shared is None else self._shared[0]
        return x[0], edges, edge_values(x[-1], len(edges), which)

    def _arrange(self, size, edges, kinds, which):
        return rooted(size, edges, kinds, which)
