"""Sequences: every node has a label, neighbours depend on each other."""

import warnings
from functools import lru_cache
from operator import ne
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import StrOptions

from ..data.ones import rows_of_ones
from ..data.rows import CSR, SPARSE_BELOW, Indicators, rows
from ..jit import vectors
from .edges import count_columns, count_types, edge_arrays, edge_values
from .encoded import contract
from .encoded.forest import Forest
from .encoded.graphs import FORBIDDEN, RULED, GraphLayout, GraphScratch
from .encoded.rooted import chained, forest
from .encoded.sweeps import worst_all
from .labelling import SURELY_SMALL, Labelling, kind_of_products
from .reading import floating, gathered_rows, rows_in_order
from .transitions import (
    FIRST_LABEL,
    LAST_LABEL,
    PAIRS,
    any_length,
    breach,
    check_ruled_features,
    check_rules,
    has_output,
    repaired_iob,
    rules_of,
)


class Chain(Labelling):
    """A sequence of labels. A sample x is an array or CSR matrix (length, features), y a sequence of as many labels. They may be
    empty. Where the outputs that are learned from are lists, so are those that are predicted; else they are arrays.

    Weights: one for each label and feature, a bias for each label, one more at the first and at the last position, and one
    for each pair of neighbouring labels, of each type of edge, or of each feature of edges. K (features + 3 + types K) in all.

    Parameters
    ----------
    n_labels : int, optional
        Labels are then 0, ..., n_labels - 1. By default they are found in y, and may be any hashable objects.
    first_last_bias : bool, default=True
        Whether the ends of a sequence have biases of their own.
    bias : bool, default=True
    cost : array of shape (K, K) or dict of dicts, optional
        cost[a, b]: what it costs to say b where a is true, in the order of the labels; or by name,
        cost[a][b]. 1 for every wrong one by default, and for every pair that a dict leaves out.
    normalize_loss : bool, default=False
        Divide the loss by the length of the sequence. By default it is the number of wrong positions.
    forbidden : "iob", "io", "bioes" or list of pairs, optional
        Pairs (a, b): b never follows a. (None, b) says that no sequence begins with b, (a, None) that none ends with a. A name
        stands for the pairs that a tagging scheme does not know: "iob" has B-X at the beginning of a chunk and I-X inside,
        "bioes" E-X at its end and S-X for one of a single position besides; O is outside of all. With "io" I-X may begin a chunk
        too, so that no pair is forbidden. Outputs with such pairs are no outputs: neither learning nor `predict` meets them, and
        training labels that have one are refused.
    required : dict, optional
        required[a]: the labels that may follow a, and no others; None among them is the end, and the key None the beginning.
    on_error : {"raise", "repair"}, default="raise"
        What to do with labels in y that break forbidden="iob". "repair" reads an I-X that follows neither B-X nor I-X as B-X, as
        conlleval does, in `fit` with a UserWarning that counts them, and in `score`; y itself is not changed.
    edge_types : bool, default=False
        Whether the edges between neighbouring positions are of several types, each with pair weights of its own. A sample x is
        then a pair (features, types), types a sequence of length - 1 integers that count from 0.
    edge_features : bool, default=False
        Whether the edges have features, real numbers. A sample x is then a pair (features, edge features), the latter a dense
        array (length - 1, edge features). Each has a table of pair weights, and labels a, b on edge e have the score
        sum_f E[e, f] T_f[a, b]. There is no table besides: a column of ones is what a chain without edge features has, and
        columns of ones and zeros are types.
    """

    _parameter_constraints = {
        **Labelling._parameter_constraints,
        "edge_types": ["boolean"],
        "edge_features": ["boolean"],
        "on_error": [StrOptions({"raise", "repair"})],
    }

    may_be_empty = True

    def __init__(
        self,
        n_labels=None,
        first_last_bias=True,
        *,
        bias=True,
        cost=None,
        normalize_loss=False,
        forbidden=None,
        required=None,
        edge_types=False,
        edge_features=False,
        on_error="raise",
    ):
        self.n_labels = n_labels
        self.first_last_bias = first_last_bias
        self.bias = bias
        self.cost = cost
        self.normalize_loss = normalize_loss
        self.forbidden = forbidden
        self.required = required
        self.edge_types = edge_types
        self.edge_features = edge_features
        self.on_error = on_error

    def _learn_labels(self, y):
        if self.on_error == "repair" and not self._is_iob:
            raise ValueError(f"on_error='repair' is for forbidden='iob'; got forbidden={self.forbidden!r}.")
        super()._learn_labels(y)
        self.rules_ = rules_of(self.forbidden, self.required, self.labels_.tolist())

    def _parts(self, x, which):
        of_edges = None
        if self._in_pairs:
            if not isinstance(x, tuple | list) or len(x) != 2:
                needed = "types of edges), for edge_types=True" if self.edge_types else "edge features), for edge_features=True"
                raise ValueError(f"{which} must be a pair (features, {needed}.")
            x, of_edges = x
        elif isinstance(x, tuple) and len(x) == 2 and getattr(x[0], "ndim", 1) > 1:
            raise ValueError(
                f"{which} is a pair; a sequence with types of edges needs Chain(edge_types=True), "
                "one with features of edges Chain(edge_features=True)."
            )
        shape = getattr(x, "shape", None)
        if shape is None:
            shape = (len(x),) if hasattr(x, "__len__") else ()
        size = shape[0] if shape else 0
        if shape == (0,):
            x = np.zeros((0, vars(self).get("n_features_", 0)))  # an empty list does not say how many features it has not
        edges, kinds = _path(size)
        if self.edge_features:
            return x, edges, edge_values(of_edges, len(edges), which)
        return x, edges, edge_arrays(edges, of_edges, which)[1] if self.edge_types else kinds

    @property
    def _in_pairs(self) -> bool:
        """Whether a sample is a pair, of its features and what there is to know of its edges."""
        return self.edge_types or self.edge_features

    def _count_kinds(self, kinds):
        return count_columns(kinds) if self.edge_features else count_types(kinds)

    def _check_kinds(self, kinds, i):
        super()._check_kinds(kinds, i)
        if self.edge_features and self.rules_ is not None:
            check_ruled_features(kinds)

    def _layout(self, size, edges, kinds, which):
        if self.rules_ is not None and not any_length(self.rules_) and not has_output(self.rules_, size):
            raise ValueError(f"{which} has {size} positions; the structure's rules allow no sequence of labels of that length.")
        layout = _laid_out(size, self.first_last_bias, self.rules_ is not None)
        return layout._replace(kind=kinds) if self.edge_types else layout

    def _coded(self, y, start):
        codes = super()._coded(y, start)
        if y is not None and self.rules_ is not None:
            way = "mend the labels, or allow it"
            if self._is_iob:
                way = "mend the labels, take on_error='repair', which reads this I-X as B-X, or forbidden='io', which allows it"
            check_rules(self.rules_, codes, start, self.labels_.tolist(), way)
        return codes

    @property
    def _is_iob(self) -> bool:
        return isinstance(self.forbidden, str) and self.forbidden.lower() == "iob"

    def _labels_of(self, y, i):
        labels = super()._labels_of(y, i)
        return repaired_iob(list(labels)) if self.on_error == "repair" else labels

    def encode(self, X, y):
        if self.on_error == "repair" and y is not None:
            changed = [sum(map(ne, Labelling._labels_of(self, of, i), self._labels_of(of, i))) for i, of in enumerate(y)]
            if any(changed):
                samples = f"{sum(map(bool, changed))} of {len(changed)} samples"
                warnings.warn(f"I-X that follows neither B-X nor I-X is read as B-X: {sum(changed)} in {samples}.", stacklevel=2)
        return super().encode(X, y)

    def _tabled(self, matrix, *rest):
        if self.rules_ is not None and not isinstance(matrix, Indicators):
            check_ruled_features(matrix)
        return super()._tabled(matrix, *rest)

    def named_weights(self, w):
        found = super().named_weights(w)
        if self.first_last_bias:
            K, pairs = len(self.labels_), found["transitions_"].size
            ends = w[w.size - pairs - 2 * K : w.size - pairs].reshape(2, K)
            found |= {"first_": ends[0], "last_": ends[1]}
        return found if self._in_pairs else found | {"transitions_": found["transitions_"][0]}

    def every_output(self, x, y, most):
        found = super().every_output(x, y, most)
        if found is None or self.rules_ is None:
            return found
        return [labels for labels in found if breach(self.rules_, self._numbers(labels)) is None]

    def n_best(self, W, X, count):
        table, found = vectors.unpack(W, len(self.labels_)), []
        ruled = 0.0 if self.rules_ is None else self.rules_[PAIRS:]
        for i, x in enumerate(X):
            unary, joint, _ = self._sample_scores(table, x, i)
            size = len(unary)
            if size == 0:
                found.append([(self._outputs(self.labels_[:0], np.zeros(2, np.int64))[0], 0.0)])
                continue
            if self.first_last_bias:
                unary[0] += table[self.n_features_ + 1]
                unary[-1] += table[self.n_features_ + 2]
            if self.rules_ is not None:
                unary[0] += self.rules_[FIRST_LABEL]
                unary[-1] += self.rules_[LAST_LABEL]
            codes, scores = best_paths(unary, joint + ruled, count)
            outputs = self._outputs(self.labels_[codes.ravel()], size * np.arange(len(codes) + 1))
            found.append([(o, float(score)) for o, score in zip(outputs, scores, strict=True) if score > 0.5 * FORBIDDEN])
        return found

    def _assemble(self, graphs, layouts: list[GraphLayout]) -> Forest:
        return forest(graphs, layouts)

    # ---- one sequence at a time: all but its features is kept from call to call ------------------------------

    def size(self, X, y):
        if self.edge_types and self.edge_features:
            raise ValueError("edge_types and edge_features are both set: types are columns of ones and zeros in edge_features.")
        KEPT_LAYOUTS.pop(self, None)
        self.__dict__.pop("n_features_", None)
        return super().size(X, y)

    def _worst_all(self, W, X, y, n_jobs=1):
        alone = y is None and isinstance(X, list | tuple) and len(X) == 1 and not self._in_pairs
        return (self._decoded_alone(W, X[0]) if alone else None) or super()._worst_all(W, X, y, n_jobs)

    def _decoded_alone(self, W, x) -> tuple[list, np.ndarray] | None:
        """As `_worst_all` of one sequence; None where that must read it."""
        features, _, _ = self._checked_parts(x, 0)
        size = features.shape[0]
        if not 0 < size <= LONGEST_KEPT or features.shape[1] != self.n_features_:
            return None
        kept = KEPT_LAYOUTS.setdefault(self, KeptAlone({}, []))
        if size not in kept.forests:
            kept.forests[size] = self._decodable([sp.csr_array((size, self.n_features_))], None)
        like = kept.forests[size]
        table = self._read_alone(features, like.graphs.order)
        if table is None:
            return None
        try:
            scratch = kept.scratch.pop()
        except IndexError:
            scratch = contract.new_scratch(self._decodable([sp.csr_array((LONGEST_KEPT, self.n_features_))], None))
        codes, value = np.empty(size, np.int32), np.empty(1)
        graphs = like.graphs._replace(X=table, gram=np.empty(0, kind_of_products(table)))
        worst_all(like._replace(graphs=graphs), W, scratch, codes, value, 0, 1)
        kept.scratch.append(scratch)
        return self._outputs(self.labels_[codes[::-1]], np.array([0, size])), value

    def _read_alone(self, features, taken: np.ndarray):
        """The rows of one sequence as kernels read them; None where something about them is to be told."""
        dtype, sparse = floating(features.dtype), sp.issparse(features)
        if sparse and (features.data == 1.0).all():
            if rows_in_order([features], merged=False) is None:
                return None
            ends = np.empty((taken.size, 2), np.int32)
            ends[:, 0], ends[:, 1] = features.indptr[taken], features.indptr[taken + 1]
            return rows_of_ones(np.ascontiguousarray(features.indices, np.int32), ends, features.shape[1], self.bias)
        found = gathered_rows([features], taken, dtype, merged=False) if sparse else (features[taken].astype(dtype, copy=False),)
        if found is None:
            return None
        values = found[0]
        if values.size and not -SURELY_SMALL < float(values.min()) <= float(values.max()) < SURELY_SMALL:  # NaN neither
            return None
        if self.rules_ is not None:
            check_ruled_features(values)
        values = values if self.dtype_ is None else values.astype(self.dtype_, copy=False)
        if not sparse:
            return rows(values, float(self.bias), SPARSE_BELOW["row"])
        indices, indptr = (part.view(f"u{part.itemsize}") for part in found[1:])
        return CSR(values, indices, indptr, np.float64(self.bias), features.shape[1])


class KeptAlone(NamedTuple):
    """What decoding one sequence after another keeps: an encoded sequence of each length, and scratch that nobody works with."""

    forests: dict[int, Forest]
    scratch: list[GraphScratch]


KEPT_LAYOUTS: WeakKeyDictionary[Chain, KeptAlone] = WeakKeyDictionary()  # not in the structures: neither copies nor files have it
LONGEST_KEPT = 128  # positions; longer sequences take so long that nothing need be kept


@lru_cache(maxsize=1024)
def _laid_out(size: int, weighted: bool, ruled: bool) -> GraphLayout:
    """The layout of a sequence; its ends are marked where they have weights or rules of their own."""
    layout = chained(size, _path(size)[1])
    ends = np.zeros(size, np.uint8)
    mark = int(weighted) | int(ruled) << RULED
    ends[:1] |= mark
    ends[-1:] |= mark << 1
    return layout._replace(place=ends[layout.order])


def best_paths(unary: np.ndarray, pair: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The `count` best sequences of labels, or as many as there are, and their scores, the best first.

    Viterbi's recursion with several sequences for each label that they may end with. unary is (length, K), pair
    (length - 1, K, K) by [position, label, next label].
    """
    K = unary.shape[1]
    scores = unary[0][:, None]  # (label at the end, rank)
    steps: list[np.ndarray] = []  # for each label and rank, which label and rank it came from, as one number
    ranks: list[int] = []
    for here, joint in zip(unary[1:], pair, strict=True):
        kept = scores.shape[1]
        reached = (scores[:, :, None] + joint[:, None, :]).reshape(K * kept, K)
        order = np.argsort(-reached, axis=0, kind="stable")[:count]
        scores = np.take_along_axis(reached, order, axis=0).T + here[:, None]
        steps.append(order.T)
        ranks.append(kept)
    last = np.argsort(-scores.ravel(), kind="stable")[:count]
    codes = np.empty((last.size, len(unary)), np.int64)
    label, rank = last // scores.shape[1], last % scores.shape[1]
    codes[:, -1] = label
    for p in range(len(steps) - 1, -1, -1):
        before = steps[p][label, rank]
        label, rank = before // ranks[p], before % ranks[p]
        codes[:, p] = label
    return codes, scores.ravel()[last]


@lru_cache(maxsize=1024)
def _path(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The edges of a sequence and their kinds, read-only: sequences of one length share them."""
    first = np.arange(max(size - 1, 0))
    edges, kinds = np.stack([first, first + 1], axis=1), np.zeros(first.size, np.int32)
    edges.flags.writeable = kinds.flags.writeable = False
    return edges, kinds
