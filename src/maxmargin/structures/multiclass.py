"""A single label for each sample."""

import numpy as np
import scipy.sparse as sp

from ..data.matrices import checked_matrix
from ..data.mistakes import quoted
from ..jit import vectors
from ..utils.parameters import at_least
from .compiled import no_samples
from .encoded.rooted import alone
from .labelling import Labelling
from .reading import check_finite, distinct_labels, floating, label_array, numeric


class Multiclass(Labelling):
    """One label. A sample x is a vector of features (or a sparse row), y its label; X may be a matrix with a row for each.

    Weights: one for each class and feature, and a bias for each class.

    Parameters
    ----------
    n_classes : int, optional
        Labels are then 0, ..., n_classes - 1. By default they are found in y, and may be any hashable objects.
    bias : bool, default=True
    cost : array of shape (K, K) or dict of dicts, optional
        cost[a, b]: what it costs to say b where a is true, in the order of the labels; or by name,
        cost[a][b]. 1 for every wrong one by default, and for every pair that a dict leaves out.
    """

    _parameter_constraints = {**Labelling._parameter_constraints, "n_classes": [at_least(2), None]}

    count_name = "n_classes"

    def __init__(self, n_classes=None, *, bias=True, cost=None):
        self.n_classes = n_classes
        self.bias = bias
        self.cost = cost

    # ---- reading samples: all at once, for there may be many ----------------------------------------------

    def check(self, X, y) -> None:
        if isinstance(X, str) or not (sp.issparse(X) or hasattr(X, "__len__")):
            raise ValueError(f"X must be a matrix or a list with an entry for each sample; got {type(X).__name__}.")
        if y is not None and (isinstance(y, str) or not hasattr(y, "__len__")):
            raise ValueError(f"y must be a sequence with a label for each sample; got {quoted(y)}.")
        count = X.shape[0] if sp.issparse(X) else len(X)
        if y is not None and count != len(y):
            raise ValueError(f"X has {count} samples, y has {len(y)}.")
        if count == 0:
            raise ValueError("There are no samples: X is empty.")

    def _matrix(self, X):
        """A row for each sample."""
        framed = not isinstance(X, np.ndarray) and len(getattr(X, "shape", ())) == 2  # pandas, polars
        if sp.issparse(X) or (isinstance(X, np.ndarray) and X.dtype != object) or framed:
            matrix = numeric(X, "X")
            if matrix.ndim != 2:
                raise ValueError(f"X must have two dimensions, samples and features; got {matrix.ndim}.")
            return matrix
        rows = [self._parts(x, f"Sample {i} of X")[0] for i, x in enumerate(X)]
        expected = getattr(self, "n_features_", rows[0].shape[1])
        for i, row in enumerate(rows):
            if row.shape[1] != expected:
                raise ValueError(f"Sample {i} of X has {row.shape[1]} features; {expected} are expected.")
        if any(sp.issparse(row) for row in rows):
            return sp.vstack([row if sp.issparse(row) else sp.csr_array(row) for row in rows], format="csr")
        return np.concatenate(rows)

    def _parts(self, x, which):
        vector = numeric(x, which)
        if vector.ndim != 1 and not (vector.ndim == 2 and vector.shape[0] == 1):
            raise ValueError(f"{which} must be a vector of features; its shape is {vector.shape}.")
        return vector.reshape(1, -1), np.zeros((0, 2), np.int64), np.zeros(0, np.int32)

    def _learn_inputs(self, X) -> None:
        self.__dict__.pop("n_features_", None)
        self.n_features_ = self._matrix(X).shape[1]
        self.n_kinds_ = 0

    def _distinct_labels(self, y) -> list:
        return list(distinct_labels(_label_list(y), "y"))

    def _encoded(self, X, y, products):
        matrix = self._features(X, y)
        n = matrix.shape[0]
        one, none, empty = np.arange(n + 1), np.zeros(n + 1, np.int64), np.zeros(0, np.int32)
        label = self._coded(y, one)
        place, order = np.zeros(n, np.uint8), np.zeros(n, np.int64)
        return alone(self._tabled(matrix, one, none, empty, empty, empty, place, order, label, products))

    def _features(self, X, y=None):
        """The matrix of samples to encode, checked."""
        self.check(X, y)
        matrix = self._matrix(X)
        if matrix.shape[1] != self.n_features_:
            raise ValueError(f"X has {matrix.shape[1]} features; {self.n_features_} are expected.")
        matrix = checked_matrix(matrix.astype(floating(matrix.dtype), copy=False))
        check_finite(matrix, lambda row: f"Sample {row} of X holds")
        return matrix

    def _coded(self, y, start):
        if y is None:
            return np.full(start.size - 1, len(self.labels_), np.int32)
        labels = _label_list(y)
        try:
            return self._numbers(labels)
        except (KeyError, TypeError):
            for i, label in enumerate(labels):
                self._check_known([label], f"Sample {i} of y")
            raise

    def _labels_of(self, y, i):
        return [y]

    def _outputs(self, labels, start):
        return labels.tolist()

    def _shown_marginals(self, node, start):
        return node

    def n_best(self, W, X, count):
        if no_samples(X):
            return []
        table = vectors.unpack(W, len(self.labels_))
        scores = np.asarray(self._features(X) @ table[: self.n_features_]) + table[self.n_features_]
        best, labels = np.argsort(-scores, axis=1, kind="stable")[:, :count], self.labels_.tolist()
        return [[(labels[k], float(row[k])) for k in order] for row, order in zip(scores, best.tolist(), strict=True)]

    def as_predictions(self, found):
        return label_array(found) if found else np.zeros(0, self.labels_.dtype)

    def every_output(self, x, y, most):
        return self.labels_.tolist() if len(self.labels_) <= most else None


def _label_list(y) -> list:
    if isinstance(y, np.ndarray) and y.ndim != 1:
        raise ValueError(f"y must have one dimension, a label for each sample; its shape is {y.shape}.")
    return y.tolist() if isinstance(y, np.ndarray) else list(y)
