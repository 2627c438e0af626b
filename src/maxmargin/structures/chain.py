"""Sequences: every node has a label, neighbours depend on each other."""

from functools import lru_cache

import numpy as np

from ..jit import vectors
from .encoded.forest import Forest
from .encoded.graphs import GraphLayout
from .encoded.rooted import chained, forest
from .labelling import Labelling


class Chain(Labelling):
    """A sequence of labels. A sample x is an array or CSR matrix (length, features), y a sequence of as many labels.

    Weights: one for each label and feature, a bias for each label, one more at the first and at the last position, and one
    for each pair of neighbouring labels. K (features + 3 + K) in all.

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
    """

    def __init__(self, n_labels=None, first_last_bias=True, *, bias=True, cost=None, normalize_loss=False):
        self.n_labels = n_labels
        self.first_last_bias = first_last_bias
        self.bias = bias
        self.cost = cost
        self.normalize_loss = normalize_loss

    def _parts(self, x, which):
        size = x.shape[0] if hasattr(x, "shape") and len(x.shape) else len(x) if hasattr(x, "__len__") else 0
        return x, *_path(size)

    def _count_kinds(self, kinds):
        return 1

    def _layout(self, size, edges, kinds, which):
        layout = chained(size, kinds)
        ends = np.zeros(size, np.uint8)
        if self.first_last_bias:
            ends[0] |= 1
            ends[-1] |= 2
        return layout._replace(place=ends[layout.order])

    def n_best(self, W, X, count):
        K, d = len(self.labels_), self.n_features_
        table, found = vectors.unpack(W, K), []
        for i, x in enumerate(X):
            features, _, _ = self._checked_parts(x, i)
            self._check_width(features, i)
            unary = np.asarray(features @ table[:d]) + table[d]
            if self.first_last_bias:
                unary[0] += table[d + 1]
                unary[-1] += table[d + 2]
            codes, scores = best_paths(unary, table[-K:], count)
            found.append([(self.labels_[code], float(score)) for code, score in zip(codes, scores, strict=True)])
        return found

    def _assemble(self, graphs, layouts: list[GraphLayout]) -> Forest:
        return forest(graphs, layouts)


def best_paths(unary: np.ndarray, pair: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The `count` best sequences of labels, or as many as there are, and their scores, the best first.

    Viterbi's recursion with several sequences for each label that they may end with. unary is (length, K), pair (K, K) by
    [label, next label].
    """
    K = unary.shape[1]
    scores = unary[0][:, None]  # (label at the end, rank)
    steps: list[np.ndarray] = []  # for each label and rank, which label and rank it came from, as one number
    ranks: list[int] = []
    for here in unary[1:]:
        kept = scores.shape[1]
        reached = (scores[:, :, None] + pair[:, None, :]).reshape(K * kept, K)
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
