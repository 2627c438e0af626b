"""Multi-label problems: one weight vector for each label, coupled by R (Hariharan et al. 2012, M3L).

    P(V) = 1/2 tr(V R V') + sum_il loss_il(y_il z_l.x_i),  Z = V R        D(a) = sum_il reward(a_il) - 1/2 tr(V R V')

Labels that R does not connect are problems of their own, and values add up. They are therefore solved in groups: a component
of R, or several small ones together, as many as make good use of vectors and caches.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..data import rows
from ..data.indicators import BYTE, LabelColumns
from ..data.table import Table
from ..jit import vectors
from ..losses.base import MultilabelLoss
from ..losses.multilabel_steps import Coupled, labels
from ..regularizers.base import Regularizer
from ..regularizers.coupled import Coupling
from ..regularizers.gaussian import Gaussian
from ..regularizers.half_spaces import HalfSpaces
from ..utils.threads import in_threads
from .base import PLAIN_TERM, Problem
from .linear import RowProblem, ScalarProblem

TOGETHER = 16  # labels of a group, where R leaves the choice. Set not recorded, 2026-11-15
# The same where rows are dense, which are stepped in blocks: at the most, and as a part of all labels, so that threads have
# groups. 4,000 x 512 with 512 labels, as frequent as each other or not: half of the time with 256 in the place of 16, 2026-11-16.
TOGETHER_DENSE = 256
PARTS_DENSE = 4


def group_starts(count: int, size: int, width: int) -> list[int]:
    """Where groups of up to `size` labels begin, of so many in all. The last one fills the vectors that it has, of `width`
    labels, with some of the one before it, up to half of both. That takes no vector more, and two threads end about together."""
    starts = list(range(0, count, size))
    if len(starts) > 1:
        both, filled = count - starts[-2], -(-(count - starts[-1]) // width) * width
        starts[-1] = count - max(min(filled, both // 2), count - starts[-1])
    return starts


@dataclass(frozen=True)
class FrozenLabels:
    """What duals that stay as they are sum up to, (labels, features + 1), and their dual value under this R at this C
    (regularizers/frozen.py)."""

    sums: np.ndarray
    value: float


@dataclass(frozen=True)
class LabelGroup(RowProblem):
    """Some labels of a problem, all those that R connects them with among them. `prior` is that of labels that are not coupled,
    `frozen` what duals of other examples sum up to where labels are."""

    table: Table
    weight: np.ndarray
    columns: np.ndarray
    packed: tuple[np.ndarray, np.ndarray]
    label_weight: np.ndarray
    margin: np.ndarray
    loss: MultilabelLoss
    R: np.ndarray | None = None  # None: the identity
    C: float = 1.0
    prior: Regularizer = PLAIN_TERM
    half_spaces: HalfSpaces | None = None
    frozen: np.ndarray | None = None

    @property
    def n_classes(self) -> int:
        return len(self.columns)

    @cached_property
    def coupling(self) -> Coupling:
        assert self.R is not None
        return Coupling(self.R, self.frozen)

    @property
    def regularizer(self) -> Regularizer:
        return self.prior if self.R is None else self.coupling

    def taken(self, table, which, weight):
        present, known = self.packed
        return replace(self, table=table, packed=(present[which], known[which]), weight=weight)

    def loss_in(self, dtype):
        scale = np.ones(self.n_classes) if self.R is None else np.diag(self.R)
        part = self.loss.of(labels(*self.packed, self.cap, self.label_weight, self.margin, scale, dtype))
        if self.R is None:
            return part
        return Coupled(part, vectors.table(vectors.pack(self.R, dtype)), vectors.zeros_table(1, 1, dtype))


def label_target(group: LabelGroup, k: int) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """The signs and margins of a label, and its weights: zero where it is not known."""
    present, known = ((bits[:, k // BYTE] >> np.uint8(k % BYTE)) & 1 for bits in group.packed)
    return (np.where(present, 1.0, -1.0), group.margin[k][present]), group.weight * group.label_weight[k][present] * known


def label_problem(group: LabelGroup, k: int) -> ScalarProblem:
    """The problem of one label alone."""
    target, weight = label_target(group, k)
    term = group.regularizer
    parts = (None if a is None else vectors.to_classes(a, group.n_classes)[k] for a in (term.mean, term.variance, term.lower))
    loss = group.loss.single
    assert loss is not None
    return ScalarProblem(group.table, loss, target, weight, Gaussian(*parts), group.half_spaces, group.C)


@dataclass(frozen=True)
class MultilabelProblem(Problem):
    """All labels. `label_weight` and `margin` are (labels, 2), for a label that is absent and one that is present.

    Weights are a list of arrays, one for each group; duals are a CSC matrix (samples, labels) of the signed duals a_il y_il.
    With `frozen` the values of groups leave out what frozen duals are worth alone, which is `constant`: targets of groups are
    relative to what the samples at hand add.
    """

    table: Table
    labels: LabelColumns
    weight: np.ndarray
    label_weight: np.ndarray
    margin: np.ndarray
    loss: MultilabelLoss
    R: np.ndarray | None = None
    C: float = 1.0
    frozen: FrozenLabels | None = None

    made_of = LabelGroup

    @cached_property
    def constant(self) -> float:
        return 0.0 if self.frozen is None else self.frozen.value

    @property
    def n_examples(self) -> int:
        return self.table.shape[0]

    @property
    def weight_shape(self) -> tuple[int, int]:
        """Of the table of all labels; solvers see those of groups."""
        return self.labels.shape[1], self.table.shape[1] + 1

    @property
    def dual_shape(self) -> tuple[int, int]:
        return self.labels.shape

    @cached_property
    def groups(self) -> list[np.ndarray]:
        """The labels of each group, frequent ones first: labels of a group are then alike, and rest together."""
        order = np.argsort(-self.labels.counts, kind="stable")
        if not self.couples(order):
            size = TOGETHER
            if isinstance(self.table.rows, rows.Dense):  # the two tables of duals not larger than X
                size = max(size, min(TOGETHER_DENSE, len(order) // PARTS_DENSE, self.table.shape[1] // 2))
            return np.split(order, group_starts(len(order), size, vectors.width(np.float32))[1:])
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

    def divided(self, size: int) -> list[list[np.ndarray]]:
        """The labels of each group, so many at a time: whole vectors of them. Those that R connects stay together."""
        if self.R is not None:
            return [[columns] for columns in self.groups]
        return [[columns[k : k + size] for k in range(0, len(columns), size)] for columns in self.groups]

    @property
    def n_groups(self) -> int:
        """Labels alone, where threads are many."""
        return self.labels.shape[1] if self.R is None else len(self.groups)

    def coupling(self, columns: np.ndarray) -> np.ndarray | None:
        """R of the labels of a group; None where it does nothing to them."""
        R = None if self.R is None else self.R[np.ix_(columns, columns)]
        return None if R is None or np.array_equal(R, np.eye(len(columns))) else R

    def couples(self, columns: np.ndarray) -> bool:
        return self.coupling(columns) is not None

    def group(self, columns: np.ndarray) -> LabelGroup:
        return self._grouped(columns, self.coupling(columns))

    def whole(self) -> LabelGroup:
        """All labels as one group."""
        return self._grouped(np.arange(self.labels.shape[1]), self.R)

    def _grouped(self, columns: np.ndarray, R: np.ndarray | None) -> LabelGroup:
        pairs, packed = (self.label_weight[columns], self.margin[columns]), self.labels.packed(columns)
        held = None if self.frozen is None else vectors.from_classes(self.frozen.sums[columns], np.float64)
        prior, frozen = (PLAIN_TERM if held is None else Gaussian(held), None) if R is None else (PLAIN_TERM, held)
        return LabelGroup(self.table, self.weight, columns, packed, *pairs, self.loss, R, self.C, prior, frozen=frozen)

    def primal(self, w: list, n_jobs: int = 1) -> float:
        """The sum over all groups; a group of zeros may be None."""
        total = self.constant
        for columns, part in zip(self.groups, w, strict=True):
            group = self.group(columns)
            total += group.primal(np.zeros(group.weight_shape) if part is None else part, n_jobs)
        return total

    def primal_at_zero(self) -> np.ndarray:
        """The loss of each label without any weights."""
        return (self.labels.masses(self.cap) * self.label_weight * self.loss.at(self.margin)).sum(axis=1)

    def fitting(self, weights):
        """Group by group, None for one of another shape. R may have changed: where it couples labels, Z is V R anew."""
        if not isinstance(weights, list) or len(weights) != len(self.groups):
            return None
        return [self.fitting_group(columns, part) for columns, part in zip(self.groups, weights, strict=True)]

    def fitting_group(self, columns: np.ndarray, part: np.ndarray | None) -> np.ndarray | None:
        shape = self.table.shape[1] + 1, vectors.blocks(len(columns), np.float64), vectors.width(np.float64)
        R = self.coupling(columns)
        if part is None or part.shape != (shape if R is None else (2, *shape)):
            return None
        return part if R is None else Coupling(R).mended(part[0])

    def resumed(self, duals, weights, data, kind):
        fits = sp.issparse(duals) and duals.shape == self.dual_shape
        return (duals, self.fitting(weights)) if fits else (None, None)

    def column_sizes(self):
        return rows.column_sizes(self.table.rows)

    def coefficients(self, w: list | np.ndarray) -> np.ndarray:
        """The weights as (labels, features + 1), of groups or of all labels as one; None stands for a group of zeros."""
        if isinstance(w, np.ndarray):
            return vectors.to_classes(w if self.R is None else w[1], self.labels.shape[1])
        result = np.zeros(self.weight_shape)
        for columns, part in zip(self.groups, w, strict=True):
            if part is not None:
                vectors.put_classes(part if part.ndim == 3 else part[1], result, columns)
        return result

    def split_coefficients(self, w, n_jobs=1):
        if isinstance(w, np.ndarray):
            return super().split_coefficients(w, n_jobs)
        labels, features = self.labels.shape[1], self.table.shape[1]
        result, constant = np.zeros((labels, features)), np.zeros(labels)

        def put(group: tuple[np.ndarray, np.ndarray | None]) -> None:
            columns, part = group
            if part is not None:
                part = part if part.ndim == 3 else part[1]
                vectors.put_classes(part[:features], result, columns)
                constant[columns] = vectors.unpack(part[features:], len(columns))[0]

        in_threads(put, list(zip(self.groups, w, strict=True)), n_jobs)
        return result, constant
