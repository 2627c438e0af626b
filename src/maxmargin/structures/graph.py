"""Any graph of small tree-width: every node has a label, nodes joined by an edge depend on each other."""

from functools import lru_cache

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from ..utils.parameters import at_least
from .edges import Edged
from .encoded.elimination import Plan, eliminated, junction, plan_of, separators
from .encoded.forest import PARENT
from .encoded.graphs import GraphLayout
from .encoded.rooted import rooted

FILL_UP_TO = 600  # nodes; beyond, the ordering by fill is not tried: it takes seconds


class Graph(Edged):
    """Labels of the nodes of any graph, with exact inference on a junction tree.

    Time and memory grow with K^(tree-width + 1): a cycle has tree-width 2, a grid that of its shorter side. Solvers that work
    with marginals keep a table of that size for each node of each sample, the others only one for each node of the largest.
    Samples that are all forests are handled as by `Tree`; cycles need the package networkx, `maxmargin[graph]`.

    Weights: one for each label and feature, a bias for each label, and a table of pairs of labels for each type of edge,
    read by [label of u, label of v] for an edge (u, v): K (features + 1 + types K) in all.

    Parameters
    ----------
    n_labels : int, optional
        Labels are then 0, ..., n_labels - 1. By default they are found in y, and may be any hashable objects.
    edges : array of shape (m, 2), optional
        The edges of every sample; x is then the features of its nodes, (nodes, features). With None each x is a tuple
        (features, edges) or (features, edges, edge_types), and samples may differ in size and shape.
    edge_types : array of shape (m,), optional
        The type of each edge, counted from 0. By default all edges are of one type.
    max_table : int, default=100_000
        The largest table, K^(tree-width + 1), that may be built: tree-width 15 with 2 labels, 7 with 4, 4 with 10, 2 with 26.
    bias : bool, default=True
    cost : array of shape (K, K) or dict of dicts, optional
        cost[a, b]: what it costs to say b where a is true, in the order of the labels; or by name,
        cost[a][b]. 1 for every wrong one by default, and for every pair that a dict leaves out.
    normalize_loss : bool, default=False
        Divide the loss by the number of nodes. By default it is the number of wrong nodes.
    """

    _parameter_constraints = {**Edged._parameter_constraints, "max_table": [at_least(1)]}

    def __init__(
        self, n_labels=None, edges=None, *, edge_types=None, max_table=100_000, bias=True, cost=None, normalize_loss=False
    ):
        super().__init__(n_labels, edges, edge_types=edge_types, bias=bias, cost=cost, normalize_loss=normalize_loss)
        self.max_table = max_table

    def _arrange(self, size, edges, kinds, which):
        if is_forest(size, edges):
            return rooted(size, edges, kinds, which)
        order, members = separators(size, edges, elimination_order(size, edges, which))
        width, K = max(map(len, members)), len(self.labels_)
        if K ** (width + 1) > self.max_table:
            raise ValueError(
                f"{which} has too large a tree-width for exact inference: {width} was found, which with {K} labels needs tables "
                f"of {K}^{width + 1} = {K ** (width + 1)} entries; max_table allows {self.max_table}."
            )
        number = np.argsort(order)
        source, target = number[edges[:, 0]], number[edges[:, 1]]
        return GraphLayout(order, source, target, kinds, np.zeros(size, np.uint8), plan_of(members, source, target, K))

    def _separators(self, layout):
        plan = layout.plan
        if not isinstance(plan, Plan):
            return super()._separators(layout)
        return [part.tolist() for part in np.split(plan.member, np.cumsum(plan.member_count)[:-1])]

    def _assemble(self, graphs, layouts):
        if not any(isinstance(layout.plan, Plan) for layout in layouts):
            return super()._assemble(graphs, layouts)
        plans: dict[int, Plan] = {}
        for layout in layouts:
            if id(layout) not in plans:
                plans[id(layout)] = layout.plan if isinstance(layout.plan, Plan) else _plan_of_forest(layout, graphs.labels)
        return junction(graphs, [plans[id(layout)] for layout in layouts])


def is_forest(size: int, edges: np.ndarray) -> bool:
    return len(edges) == size - connected_components(_adjacency(size, edges), directed=False, return_labels=False)


def _plan_of_forest(layout: GraphLayout, K: int) -> Plan:
    """A forest among graphs with cycles: the separator of a node is its parent."""
    parent = layout.plan[0][:, PARENT].tolist()
    return plan_of([[above] if above >= 0 else [] for above in parent], layout.source, layout.target, K)


def elimination_order(size: int, edges: np.ndarray, which: str) -> list[int]:
    """The nodes in an order of elimination with small cliques: the best of smallest degree, smallest fill and, which is the
    one for grids, smallest bandwidth."""
    try:
        return list(_elimination(size, edges.tobytes()))
    except ModuleNotFoundError:
        raise ImportError(f"{which} has a cycle, for which networkx is needed: pip install 'maxmargin[graph]'.") from None


@lru_cache(maxsize=256)  # samples that are decoded one by one mostly share their shape
def _elimination(size: int, edges: bytes) -> tuple[int, ...]:
    import networkx as nx
    from networkx.algorithms.approximation import treewidth_min_degree, treewidth_min_fill_in

    pairs = np.frombuffer(edges, np.int64).reshape(-1, 2)
    graph = nx.Graph(pairs.tolist())
    graph.add_nodes_from(range(size))
    tries = [treewidth_min_degree(graph)]
    if size <= FILL_UP_TO:
        tries.append(treewidth_min_fill_in(graph))
    width, bags = min(tries, key=lambda found: found[0])
    band = reverse_cuthill_mckee(_adjacency(size, pairs), symmetric_mode=True).tolist()
    if all(len(left) < width for _, left in eliminated(size, pairs, band)):
        return tuple(band)
    root = next(iter(bags))
    above = nx.dfs_predecessors(bags, root)
    order: list[int] = []
    for bag in nx.dfs_postorder_nodes(bags, root):  # a node goes with the last of its bags on the way to the root
        order += sorted(bag - above.get(bag, frozenset()))
    return tuple(order)


def _adjacency(size: int, edges: np.ndarray) -> sp.csr_array:
    ends = np.concatenate([edges, edges[:, ::-1]])
    return sp.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(size, size))
