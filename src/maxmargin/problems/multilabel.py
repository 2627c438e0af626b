"""Multi-label problems: one weight vector for each label, coupled by R (Hariharan et al. 2012, M3L).

    P(V) = 1/2 tr(V R V') + sum_il loss_il(y_il z_l.x_i),  Z = V R        D(a) = sum_il reward(a_il) - 1/2 tr(V R V')

Labels that R does not connect are problems of their own, and values add up. They are therefore solved in groups: a component
of R, or several small ones together, as many as make good use of vectors and caches.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..data import rows
from ..data.indicators import LabelColumns
from ..jit import vectors
from ..losses.multilabel_steps import Coupled, labels
from ..regularizers.gaussian import Coupling, Regularizer
from .linear import RowProblem, norms

TOGETHER = 16  # labels of a group, where R leaves the choice. Set not recorded, 2026-11-15


@dataclass(frozen=True)
class LabelGroup(RowProblem):
    """Some labels of a problem, all those that R connects them with among them."""

    X: Any
    cap: np.ndarray
    columns: np.ndarray
    packed: tuple[np.ndarray, np.ndarray]
    weight: np.ndarray
    margin: np.ndarray
    kind: Any  # the class of the loss of a label
    squared_norms: np.ndarray
    R: np.ndarray | None = None  # None: the identity
    half_spaces: None = None

    @property
    def n_classes(self) -> int:
        return len(self.columns)

    @cached_property
    def curvature(self) -> np.ndarray:
        return self.squared_norms

    @cached_property
    def regularizer(self):
        return Regularizer() if self.R is None else Coupling(self.R)

    def loss(self, dtype):
        scale = np.ones(self.n_classes) if self.R is None else np.diag(self.R)
        part = self.kind(labels(*self.packed, self.cap, self.weight, self.margin, scale, dtype))
        if self.R is None:
            return part
        return Coupled(part, vectors.table(vectors.pack(self.R, dtype)), vectors.zeros_table(1, 1, dtype))


@dataclass(frozen=True)
class MultilabelProblem:
    """All labels. `weight` and `margin` are (labels, 2), for a label that is absent and one that is present; `cap` is C s_i.

    Weights are a list of arrays, one for each group; duals are a CSC matrix (samples, labels) of the signed duals a_il y_il.
    """

    X: Any
    labels: LabelColumns
    cap: np.ndarray
    weight: np.ndarray
    margin: np.ndarray
    kind: Any
    R: np.ndarray | None = None

    @property
    def n_examples(self) -> int:
        return rows.shape(self.X)[0]

    @property
    def dual_shape(self) -> tuple[int, int]:
        return self.labels.shape

    @cached_property
    def curvature(self) -> np.ndarray:
        return norms(self.X, np.empty(0))

    @cached_property
    def groups(self) -> list[np.ndarray]:
        """The labels of each group, frequent ones first: labels of a group are then alike, and rest together."""
        order = np.argsort(-self.labels.counts, kind="stable")
        if self.R is None:
            return [order[k : k + TOGETHER] for k in range(0, len(order), TOGETHER)]
        _, component = connected_components(sp.csr_array(self.R), directed=False)
        found: list[np.ndarray] = []
        first = {c: k for k, c in reversed(list(enumerate(component[order])))}
        for c in sorted(first, key=first.__getitem__):
            members = order[component[order] == c]
            if found and len(found[-1]) + len(members) <= TOGETHER:
                found[-1] = np.concatenate([found[-1], members])
            else:
                found.append(members)
        return found

    def group(self, columns: np.ndarray) -> LabelGroup:
        R = None if self.R is None else self.R[np.ix_(columns, columns)]
        if R is not None and np.array_equal(R, np.eye(len(columns))):
            R = None
        weight, margin = self.weight[columns], self.margin[columns]
        return LabelGroup(self.X, self.cap, columns, self.labels.packed(columns), weight, margin, self.kind, self.curvature, R)

    def primal_at_zero(self) -> np.ndarray:
        """The loss of each label without any weights."""
        slope = self.kind.at(self.margin)
        return (self.labels.masses(self.cap) * self.weight * slope).sum(axis=1)

    def table(self, weights: list) -> np.ndarray:
        """The weights as (labels, features + 1); None stands for a group of zeros."""
        result = np.zeros((self.labels.shape[1], rows.shape(self.X)[1] + 1))
        for columns, part in zip(self.groups, weights, strict=True):
            if part is not None:
                Z = part if part.ndim == 3 else part[1]
                result[columns] = vectors.to_classes(Z, len(columns))
        return result
