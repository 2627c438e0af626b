"""The Python face of structures whose samples are graphs: reading samples, mapping labels, laying out weights."""

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, product
from typing import Any

import numpy as np

from ..data.mistakes import quoted, shown
from ..data.rows import SPARSE_BELOW, Indicators, rows, shape, squared_norms
from ..jit import uncollected, vectors
from ..utils.parameters import at_least
from ..utils.threads import in_threads, spans
from .compiled import Compiled, no_samples
from .encoded import contract
from .encoded.edge_features import featured
from .encoded.graphs import GraphLayout, Graphs, node_grams
from .encoded.statistics import starts
from .encoded.sweeps import reach_targets
from .reading import (
    check_finite,
    check_lists,
    checked_cost,
    distinct_labels,
    indicator_rows,
    label_array,
    label_factors,
    numeric,
    ordered_labels,
    stacked_nodes,
)

LARGEST_COUNT = np.iinfo(np.uint16).max
SURELY_SMALL = 1e100  # no sum of squares of such features overflows


class Labelling(Compiled):
    """A structure that gives a label to each node of a graph."""

    _parameter_constraints: dict[str, Any] = {
        "n_labels": [at_least(2), None],
        "bias": ["boolean"],
        "first_last_bias": ["boolean"],
        "normalize_loss": ["boolean"],
    }

    bias = True
    first_last_bias = False
    edge_features = False  # whether edges have features, each with a table of pair weights, in the place of kinds
    normalize_loss = False
    count_name = "n_labels"  # the parameter that gives the number of labels
    _declared: list | None = None  # all labels, where somebody has said so
    may_be_empty = False  # whether a sample may have no nodes
    rules_: np.ndarray | None = None  # as of `transitions.py`
    _lists = False  # whether outputs are lists, as those that were learned from, and not arrays
    _read: dict[int, tuple[Any, Any]] | None = None  # samples and what was read of them, as long as these stay the same
    dtype_: np.dtype | None = None  # of the features as they are stored; None keeps float32 and float64

    # ---- what a subclass says -----------------------------------------------------------------------------

    @abstractmethod
    def _parts(self, x, which: str) -> tuple[Any, np.ndarray, np.ndarray]:
        """Node features, edges (m, 2) and their kinds (m,), or features (m, kinds), of a sample; `which` names it in messages."""

    def _count_kinds(self, kinds: list[np.ndarray]) -> int:
        """How many kinds of edges there are, from those of each training sample."""
        return 0

    @abstractmethod
    def _layout(self, size: int, edges: np.ndarray, kinds: np.ndarray, which: str) -> GraphLayout:
        """Called once for samples of one shape."""

    @abstractmethod
    def _assemble(self, graphs: Graphs, layouts: list[GraphLayout]):
        """The encoded samples."""

    # ---- what is learned before the weights ---------------------------------------------------------------

    def size(self, X, y) -> int:
        self._validate_params()
        self.check(X, y)
        if y is None:
            raise ValueError("y is needed: the true labels of each sample.")
        self._learn_inputs(X)
        self._learn_labels(y)
        self.cost_ = checked_cost(getattr(self, "cost", None), self.labels_)
        return self._feature_count(X, y)

    def _feature_count(self, X, y):
        K = len(self.labels_)
        return K * (self.n_features_ + int(self.bias) + 2 * int(self.first_last_bias)) + self.n_kinds_ * K * K

    def _learn_inputs(self, X) -> None:
        features, _, kinds = zip(*(self._checked_parts(x, i) for i, x in enumerate(X)))
        self.n_features_ = next((part.shape[1] for part in features if part.shape[0]), features[0].shape[1])
        for i, part in enumerate(features):
            self._check_width(part, i)
        self.n_kinds_ = self._count_kinds(list(kinds))

    def declare_labels(self, labels):
        self._declared = ordered_labels(list(distinct_labels(labels, "classes")))
        given = getattr(self, self.count_name)
        if given is not None and self._declared != list(range(int(given))):
            raise ValueError(
                f"classes={quoted(labels)} are not the labels 0 to {int(given) - 1} that {self.count_name}={given} stands for."
            )

    def _learn_labels(self, y) -> None:
        self._lists = all(isinstance(labels, list | tuple) for labels in y)
        given = getattr(self, self.count_name)
        if given is not None:
            self.labels_ = np.arange(int(given))
        else:
            self.labels_ = label_array(self._declared or ordered_labels(self._distinct_labels(y)))
        if len(self.labels_) < 2:
            only = f"only {quoted(self.labels_[0])}" if len(self.labels_) else "none"
            raise ValueError(f"At least two labels are needed; y holds {only}.")
        self._number_labels()

    def __getstate__(self):
        """Without the numbers of labels, which `labels_` says: some files hold no dictionary whose keys are tuples."""
        return {name: value for name, value in super().__getstate__().items() if name != "_index"}

    def __setstate__(self, state):
        super().__setstate__(state)
        if "labels_" in state:
            self._number_labels()

    def _number_labels(self) -> None:
        self._index = {label: k for k, label in enumerate(self.labels_.tolist())}

    def _distinct_labels(self, y) -> list:
        found: dict[Hashable, None] = {}
        for i, labels in enumerate(y):
            found.update(distinct_labels(self._labels_of(labels, i), f"Sample {i} of y"))
        return list(found)

    def _labels_of(self, y, i: int) -> Sequence:
        """The labels of a sample's nodes."""
        if isinstance(y, str) or not hasattr(y, "__len__"):
            raise ValueError(f"Sample {i} of y must be a sequence of labels, one for each node; got {quoted(y)}.")
        return y.tolist() if isinstance(y, np.ndarray) else list(y)

    # ---- reading samples ----------------------------------------------------------------------------------

    def check(self, X, y) -> None:
        check_lists(X, y)

    @contextmanager
    def _reading_once(self):
        self._read = {}
        try:
            yield
        finally:
            del self._read

    def _checked_parts(self, x, i: int):
        """Features, edges and their kinds of sample i."""
        if self._read is None:
            return self._read_parts(x, i)
        known, parts = self._read.get(i, (None, None))
        if known is not x:
            parts = self._read_parts(x, i)
            self._read[i] = x, parts
        return parts

    def _read_parts(self, x, i: int):
        features, edges, kinds = self._parts(x, f"Sample {i} of X")
        features = numeric(features, f"Sample {i} of X", sequence=True)
        if features.ndim != 2:
            raise ValueError(f"Sample {i} of X must have two dimensions, nodes and features; got {features.ndim}.")
        if features.shape[0] == 0 and not self.may_be_empty:
            raise ValueError(f"Sample {i} of X is empty: it has no nodes.")
        return features, edges, kinds

    def _check_width(self, features, i: int) -> None:
        if features.shape[1] != self.n_features_ and features.shape != (0, 0):
            raise ValueError(f"Sample {i} of X has {features.shape[1]} features; {self.n_features_} are expected.")

    def _check_kinds(self, kinds: np.ndarray, i: int) -> None:
        if self.edge_features:
            if len(kinds) and kinds.shape[1] != self.n_kinds_:
                raise ValueError(f"Sample {i} of X has {kinds.shape[1]} edge features; {self.n_kinds_} are expected.")
        elif kinds.size and kinds.max() >= self.n_kinds_:
            raise ValueError(
                f"Sample {i} of X has an edge of type {kinds.max()}; "
                f"the training samples have types 0 to {self.n_kinds_ - 1} only."
            )

    # ---- encoding -----------------------------------------------------------------------------------------

    def encode(self, X, y):
        """All samples as arrays; y=None leaves the true labels open."""
        with uncollected():  # thousands of short lists live for a moment
            return self._encoded(X, y, products=True)

    def _encoded(self, X, y, products: bool):
        """`products`: whether inner products of nodes are wanted, as solvers do and decoders do not: L^2 numbers for L nodes."""
        self.check(X, y)
        features, layouts, values, seen = [], [], [np.zeros((0, self.n_kinds_))], {}
        for i, x in enumerate(X):
            part, edges, kinds = self._checked_parts(x, i)
            self._check_width(part, i)
            if self.edge_features:  # these are no part of a shape
                self._check_kinds(kinds, i)
                values += [kinds] if len(kinds) else []
                kinds = np.zeros(len(kinds), np.int32)
            key = (part.shape[0], edges.tobytes(), kinds.tobytes())
            if key not in seen:
                if not self.edge_features:
                    self._check_kinds(kinds, i)
                seen[key] = self._layout(part.shape[0], edges, kinds, f"Sample {i} of X")
            features.append(part)
            layouts.append(seen[key])
        start = starts([layout.order.size for layout in layouts])
        label = self._coded(y, start)
        order = np.concatenate([layout.order for layout in layouts])
        taken = order + np.repeat(start[:-1], np.diff(start))  # node p of the layouts is row taken[p] of the user's
        matrix = indicator_rows(features, taken, merged=products)
        if matrix is None:
            matrix = stacked_nodes(features, taken, start, merged=products)
            check_finite(matrix, lambda row: _node_spot(start, order, row))
        found = self._assemble(self._graphs(matrix, start, order, layouts, label[taken], products), layouts)
        return featured(found, np.concatenate(values)) if self.edge_features else found

    def _coded(self, y, start: np.ndarray) -> np.ndarray:
        """The labels of all samples as numbers."""
        if y is None:
            return np.full(int(start[-1]), len(self.labels_), np.int32)
        labels = [self._labels_of(given, i) for i, given in enumerate(y)]
        for i, (size, given) in enumerate(zip(np.diff(start).tolist(), labels)):
            if len(given) != size:
                raise ValueError(f"Sample {i} has {size} nodes in X and {len(given)} labels in y.")
        try:
            return self._numbers(chain.from_iterable(labels))
        except (KeyError, TypeError):
            for i, given in enumerate(labels):
                self._check_known(given, f"Sample {i} of y")
            raise

    def _numbers(self, labels: Iterable) -> np.ndarray:
        index = self._index
        return np.array([index[label] for label in labels], np.int32)

    def _check_known(self, labels: Iterable, which: str) -> None:
        for label in labels:
            if not isinstance(label, Hashable) or label not in self._index:
                raise ValueError(f"{which} holds the unknown label {quoted(label)}; known are {shown(self.labels_)}.")

    def _graphs(self, matrix, start, order, layouts: list[GraphLayout], label: np.ndarray, products: bool) -> Graphs:
        """`matrix` and `label` in the order of the layouts."""
        source, target, kind, place = (
            np.concatenate([getattr(layout, name) for layout in layouts]) for name in ("source", "target", "kind", "place")
        )
        edges = starts([layout.kind.size for layout in layouts])
        return self._tabled(matrix, start, edges, source, target, kind, place, order, label, products)

    def _tabled(self, matrix, start, edges, source, target, kind, place, order, label, products: bool) -> Graphs:
        K, sizes = len(self.labels_), np.diff(start)
        if self.dtype_ is not None and not isinstance(matrix, Indicators):
            matrix = matrix.astype(self.dtype_, copy=False)
        table = rows(matrix, float(self.bias), SPARSE_BELOW["row"])
        gram, gram_start = inner_products(table, start, place) if products else no_products(table, start)
        cost = cost_table(self.cost_.tobytes(), None if self.rules_ is None else self.rules_.tobytes(), K)
        scale = 1.0 / np.maximum(sizes, 1) if self.normalize_loss else np.ones(sizes.size)
        counts = (K, self.n_kinds_, self.n_features_ + 1 + 2 * int(self.first_last_bias))
        sample = np.stack([start, edges, gram_start], axis=1)
        edge, node = (np.stack(columns, axis=1).astype(np.int32) for columns in ((source, target, kind), (label, place, order)))
        return Graphs(table, sample, edge, node, cost, scale, gram, *counts)

    # ---- weights ------------------------------------------------------------------------------------------

    def flatten(self, W: np.ndarray) -> np.ndarray:
        """`w_`: unary (K, features), then bias (K), first (K) and last (K) where there are, then pairs (kinds, K, K)."""
        K, d = len(self.labels_), self.n_features_
        table = vectors.unpack(W, K)
        rest = table[d if self.bias else d + 1 :]
        w = np.empty(K * d + rest.size)  # filled in place: it may be as large as the samples
        w[: K * d].reshape(K, d)[...] = table[:d].T
        w[K * d :].reshape(rest.shape)[...] = rest
        return w

    def unflatten(self, w: np.ndarray) -> np.ndarray:
        """The lane array of `w_`."""
        K, d = len(self.labels_), self.n_features_
        count = K * (d + int(self.bias) + 2 * int(self.first_last_bias) + self.n_kinds_ * K)
        w = np.asarray(w, dtype=np.float64)
        if w.shape != (count,):
            raise ValueError(f"w must be a vector of {count} weights; got an array of shape {w.shape}.")
        rest = w[K * d :].reshape(-1, K)
        if not self.bias:
            rest = np.vstack([np.zeros((1, K)), rest])
        return vectors.pack(np.vstack([w[: K * d].reshape(K, d).T, rest]), np.float64)

    def named_weights(self, w):
        K, d = len(self.labels_), self.n_features_
        found = {"coef_": w[: K * d].reshape(K, d)}
        if self.bias:
            found["intercept_"] = w[K * d : K * (d + 1)]
        if self.n_kinds_:
            found["transitions_"] = w[w.size - self.n_kinds_ * K * K :].reshape(self.n_kinds_, K, K)
        return found

    def weigh_labels(self, class_weight, y, sample_weight):
        given = [self._labels_of(labels, i) for i, labels in enumerate(y)]
        codes = self._numbers(chain.from_iterable(given))
        mass = np.bincount(codes, np.repeat(sample_weight, [len(labels) for labels in given]), minlength=len(self.labels_))
        self.cost_ = label_factors(class_weight, self.labels_.tolist(), mass)[:, None] * self.cost_

    # ---- one sample at a time -----------------------------------------------------------------------------

    def joint_feature(self, x, y) -> np.ndarray:
        features, edges, kinds = self._one(x)
        codes, K = self._coded([y], np.array([0, features.shape[0]])), len(self.labels_)
        node, edge = np.eye(K)[codes], np.zeros((len(edges), K, K))
        edge[np.arange(len(edges)), codes[edges[:, 0]], codes[edges[:, 1]]] = 1.0
        return self._expected(features, kinds, node, edge)

    def _one(self, x):
        """Features, edges and kinds of edges of a single sample."""
        features, edges, kinds = self._checked_parts(x, 0)
        self._check_width(features, 0)
        self._check_kinds(kinds, 0)
        return features, edges, kinds

    def _expected(self, features, kinds: np.ndarray, node: np.ndarray, edge: np.ndarray) -> np.ndarray:
        """phi of node marginals (nodes, K) and edge marginals (edges, K, K), in the order of `flatten`."""
        K = len(self.labels_)
        parts = [np.asarray(features.T @ node).T]
        if self.bias:
            parts.append(node.sum(axis=0))
        if self.first_last_bias:
            parts += [node[:1].sum(axis=0), node[-1:].sum(axis=0)]
        pairs = np.zeros((self.n_kinds_, K, K))
        if not self.edge_features:
            np.add.at(pairs, kinds, edge)
        else:
            pairs += np.tensordot(kinds.reshape(-1, self.n_kinds_).T, edge, 1)
        result, at = np.empty(sum(part.size for part in parts) + pairs.size), 0
        for part in (*parts, pairs):
            result[at : at + part.size].reshape(part.shape)[...] = part
            at += part.size
        return result

    def loss(self, y_true, y) -> float:
        both = [list(self._labels_of(labels, 0)) for labels in (y_true, y)]
        if len(both[0]) != len(both[1]):
            raise ValueError(f"The outputs have {len(both[0])} and {len(both[1])} labels.")
        for labels, which in zip(both, ("The true output", "The output")):
            self._check_known(labels, which)
        total = float(self.cost_[self._numbers(both[0]), self._numbers(both[1])].sum())
        return total / max(len(both[0]), 1) if self.normalize_loss else total

    def _decodable(self, X, y):
        return self._encoded(X, y, products=False)

    def node_marginals(self, W, X, n_jobs: int = 1):
        if no_samples(X):
            return self._shown_marginals(np.zeros((0, len(self.labels_))), np.zeros(1, np.int64))
        data = self._decodable(X, None)  # without true labels there is no loss
        points, g = contract.interior(data, 1.0), data.graphs

        def work(part: tuple[int, int]) -> None:
            reach_targets(points, data, W, contract.new_scratch(data), 1.0, *part)

        in_threads(work, spans(g.start.size - 1, n_jobs), n_jobs)
        node = np.empty((g.label.size, g.labels))
        node[g.order + np.repeat(g.start[:-1], np.diff(g.start))] = points.node.flat[: g.label.size, : g.labels]
        return self._shown_marginals(node, g.start)

    def _sample_scores(self, table: np.ndarray, x, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the labels of the nodes of sample i score, (nodes, K), and pairs of labels of its edges, (edges, K, K); and its
        edges. In the user's order, in plain NumPy; `table` are the weights, unpacked."""
        features, edges, kinds = self._checked_parts(x, i)
        self._check_width(features, i)
        self._check_kinds(kinds, i)
        check_finite(features, lambda node: f"Sample {i} of X holds, in the features of node {node},")
        K = len(self.labels_)
        pair = table[len(table) - self.n_kinds_ * K :].reshape(-1, K, K)
        unary = np.asarray(features @ table[: features.shape[1]]) + table[self.n_features_]  # no nodes, no columns
        joint = np.tensordot(kinds.reshape(-1, len(pair)), pair, 1) if self.edge_features else pair[kinds]
        return unary, joint, edges

    def _shown_marginals(self, node: np.ndarray, start: np.ndarray):
        """The marginals of all nodes as a user gets them."""
        return np.split(node, start[1:-1]) if start.size > 1 else []

    def _decoded(self, data, codes, start) -> list:
        found = np.empty(codes.size, np.int64)
        found[data.graphs.order + np.repeat(start[:-1], np.diff(start))] = codes
        return self._outputs(self.labels_[found], start)

    def _outputs(self, labels: np.ndarray, start: np.ndarray) -> list:
        """The labels of all nodes as an output for each sample."""
        parts = np.split(labels, start[1:-1]) if start.size > 2 else [labels]
        return [part.tolist() for part in parts] if self._lists else parts

    def score_outputs(self, y_true, y_pred, sample_weight=None) -> float:
        """The share of right labels."""
        right, count = [], []
        for i, (true, guess) in enumerate(zip(y_true, y_pred, strict=True)):
            labels, guesses = self._labels_of(true, i), self._labels_of(guess, i)
            if len(labels) != len(guesses):
                raise ValueError(f"Sample {i} has {len(guesses)} nodes in X and {len(labels)} labels in y.")
            right.append(sum(a == b for a, b in zip(labels, guesses, strict=True)))
            count.append(len(labels))
        weight = np.ones(len(right)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return float(weight @ right) / float(weight @ count)

    def every_output(self, x, y, most):
        size = len(self._labels_of(y, 0))
        if len(self.labels_) ** size > most:
            return None
        return [list(labels) for labels in product(self.labels_.tolist(), repeat=size)]

    def expect(self, x, y_true, m):
        features, _, kinds = self._one(x)
        codes = self._coded([y_true], np.array([0, features.shape[0]]))
        loss = float((self.cost_[codes] * m["node"]).sum())
        return self._expected(features, kinds, m["node"], m["edge"]), loss / max(len(codes), 1) if self.normalize_loss else loss


@lru_cache(maxsize=64)
def cost_table(cost: bytes, rules: bytes | None, K: int) -> vectors.VectorTable:
    """Losses and rules as kernels read them, from the memory of the arrays: a structure that decodes one sample after another has
    the same ones each time."""
    table = vectors.pack(np.vstack([np.frombuffer(cost).reshape(K, K), np.zeros((1, K))]), np.float64, fill=vectors.NEVER)
    if rules is None:
        return vectors.table(table)
    whole = vectors.zeros_vectors(2 * K + 3, table.shape[1], np.float64)
    whole[: K + 1], whole[K + 1 :] = table, vectors.pack(np.frombuffer(rules).reshape(K + 2, K), np.float64)
    return vectors.table(whole)


def inner_products(table, start: np.ndarray, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Those of all pairs of nodes within each sample, and where each sample's begin."""
    sizes = np.diff(start)
    gram_start = starts(sizes * (sizes + 1) // 2)
    gram: np.ndarray = np.empty(int(gram_start[-1]), kind_of_products(table))
    with np.errstate(over="ignore", invalid="ignore"):
        node_grams(table, start, place, gram, gram_start, np.zeros(shape(table)[1]))
        fine = np.isfinite(gram.sum())
    if not fine:
        check_products(gram, gram_start)
    return gram, gram_start


def kind_of_products(table) -> type:
    """Of numbers that inner products fit into. Those of rows of ones count columns; bias and ends add three at the most."""
    if not isinstance(table, Indicators):
        return np.float64
    longest = table.indices.size
    if longest + 3 > LARGEST_COUNT:
        longest = int(np.max(table.ends[:, 1] - table.ends[:, 0], initial=0))
    return np.uint16 if longest + 3 <= LARGEST_COUNT else np.float64


def no_products(table, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """None, and features are refused just where `inner_products` would refuse them: none is larger than the norms."""
    none: np.ndarray = np.empty(0, kind_of_products(table))
    if isinstance(table, Indicators):
        return none, np.zeros_like(start)
    values = table.values
    if float(max(values.max(initial=0.0), -values.min(initial=0.0))) < SURELY_SMALL:
        return none, np.zeros_like(start)
    norms = np.empty(int(start[-1]))
    with np.errstate(over="ignore"):
        squared_norms(table, np.empty(0), norms)
    check_products(norms, start)
    return none, np.zeros_like(start)


def check_products(values: np.ndarray, value_start: np.ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        i = int(np.searchsorted(value_start, bad[0], side="right") - 1)
        raise ValueError(f"Sample {i} of X is too large: the squared norm of its features overflows float64; scale them down.")


def _node_spot(start: np.ndarray, order: np.ndarray, row: int) -> str:
    i = int(np.searchsorted(start, row, side="right") - 1)
    return f"Sample {i} of X holds, in the features of node {order[row]},"
