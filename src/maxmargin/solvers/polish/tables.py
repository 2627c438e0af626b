"""Runs on linear problems and on kernels, as `finish` wants them: whose duals are free, and what they do to each other."""

import math
from abc import abstractmethod
from functools import cached_property, singledispatch
from typing import Any

import numpy as np

from ...data.kernel_rows import KernelRows
from ...data.rows import mean_length
from ...data.table import RowBlock, Table
from ...jit import vectors
from ...problems.base import Problem
from ...problems.explicit import GroupedProblem
from ...problems.kernel import KernelProblem, KernelRowProblem, KernelScalarProblem, Point
from ...problems.linear import BlockProblem, ScalarProblem
from ...problems.multilabel import LabelGroup, label_problem
from .face import Face
from .finish import TableFinishing
from .free import Scores, box_faces, group_face, row_face


@singledispatch
def faces_of(problem: Problem, duals: np.ndarray, scores: Scores) -> list[Face]:
    """The faces that duals (examples, labels) stand on; none where the problem is not of the kind."""
    return []


@faces_of.register
def _(problem: ScalarProblem, duals, scores):
    return box_faces(problem.exact_loss, duals, scores, False) if problem.loss.quadratic else []


@faces_of.register
def _(problem: BlockProblem | KernelRowProblem, duals, scores):
    face = row_face(problem.exact_loss, duals, scores)
    return [] if face is None else [face]


@faces_of.register
def _(problem: LabelGroup, duals, scores):
    single = problem.loss.single
    if single is None or not single.quadratic:
        return []
    parts = [label_problem(problem, k) for k in range(problem.n_classes)]
    target = [np.concatenate(arrays) for arrays in zip(*(part.target for part in parts), strict=True)]
    sign, margin = target
    loss = single.of(sign, margin, np.concatenate([part.cap for part in parts]))
    return box_faces(loss, duals, scores, problem.R is not None)


@faces_of.register
def _(problem: GroupedProblem, duals, scores):
    return [group_face(duals[:, 0], problem.margin, problem.group, problem.cap, scores)]


@faces_of.register
def _(problem: KernelScalarProblem, duals, scores):
    coupled = problem.prior is not None and not np.array_equal(problem.prior, np.diag(problem.prior.diagonal()))
    return box_faces(problem.exact_loss, duals, scores, coupled) if problem.loss.quadratic else []


def rows_of(table: Table, examples: np.ndarray, variance: np.ndarray | None) -> RowBlock:
    """Some rows as float64, in coordinates in which the prior is the same everywhere."""
    bias = next(iter(table.blocks())).bias
    X = table.matrix[examples].astype(np.float64)
    if variance is not None:
        root = np.sqrt(variance)
        X = X * root[:-1] if isinstance(X, np.ndarray) else X.multiply(root[:-1]).tocsr()
        bias *= float(root[-1])
    return RowBlock(X, bias, 0, examples.size)


class LinearFinishing(TableFinishing):
    """A run on examples that are rows of numbers."""

    problem: Any
    options: Any
    dtype: np.dtype
    exact_v: np.ndarray
    mean_sum: np.ndarray
    mean_count: int

    @abstractmethod
    def take(self, duals: np.ndarray | None) -> None:
        """Set the duals, in the layout of the problem."""

    def begin_again(self) -> None:
        """Duals have moved, not by a pass: whoever extrapolates forgets what the last one changed."""

    @property
    def polish_tol(self):
        return self.options.tol

    @property
    def spent(self):
        return self.visits * self.visit_price + self.passes * self.polish_tuning.sweep

    @cached_property
    def visit_price(self) -> float:
        """What a visit costs, in seconds of one core: it is asked for after every pass, which may be as short as this."""
        tuning, labels = self.polish_tuning, math.prod(self.problem.dual_shape[1:])
        return labels * mean_length(self.problem.X) * tuning.entry + tuning.visit

    @property
    def width(self):
        return self.problem.table.shape[1] + 1.0

    @property
    def coupling(self):
        return self.problem.regularizer.coupling

    def polished(self):
        return self.dtype == np.float64 and super().polished()

    def faces(self):
        problem, term = self.problem, self.problem.regularizer
        large = math.prod(problem.dual_shape) > self.polish_tuning.table
        if large or term.lower is not None or problem.half_spaces is not None or not self.alike():
            return []
        self.synchronise()
        W = np.atleast_2d(problem.coefficients(term.weights(self.exact_v)))
        bias = next(iter(problem.table.blocks())).bias

        def scores(examples: np.ndarray) -> np.ndarray:
            return RowBlock(problem.table.matrix[examples], bias, 0, examples.size).scores(W)

        return faces_of(problem, self.table(), scores)

    def alike(self) -> bool:
        """Whether classes have the same prior variance."""
        variance = self.problem.regularizer.variance
        if variance is None or variance.ndim == 1:
            return True
        tables = vectors.to_classes(variance, self.problem.dual_shape[1])
        return bool(np.all(tables == tables[0]))

    def rows(self, examples: np.ndarray) -> RowBlock:
        variance = self.problem.regularizer.variance
        if variance is not None and variance.ndim > 1:
            variance = vectors.to_classes(variance, self.problem.dual_shape[1])[0]
        return rows_of(self.problem.table, examples, variance)

    def row_products(self, examples):
        return self.rows(examples).products()

    def row_vectors(self, examples):
        found = self.rows(examples)
        X = found.X if isinstance(found.X, np.ndarray) else found.X.toarray()
        return np.column_stack([X, np.full(examples.size, found.bias)])

    def table(self):
        return self.left().reshape(self.problem.n_examples, -1)

    def put_table(self, duals):
        self.take(self.problem.clipped(duals.reshape(self.problem.dual_shape)))
        self.mean_sum[...], self.mean_count = 0, 0
        self.synchronise()
        self.begin_again()


class KernelFinishing(TableFinishing):
    """A run on a kernel matrix."""

    problem: KernelProblem
    options: Any
    rows: KernelRows
    width = math.inf
    stepped = 0.0  # numbers of copies that steps within rounds have gone over, so far

    @abstractmethod
    def fresh(self, duals: np.ndarray) -> Point:
        """The feasible duals nearest to these, (labels, samples), and their scores."""

    @abstractmethod
    def settle(self, point: Point) -> None:
        """Go on from here."""

    @property
    def polish_tol(self):
        return self.options.tol

    @property
    def spent(self):
        tuning, n = self.polish_tuning, float(self.problem.n_examples)
        return self.passes * (tuning.round + tuning.product * n * n * self.problem.n_labels) + tuning.stepped * self.stepped

    @property
    def soon(self):
        return min(super().soon, self.polish_tuning.rounds)

    @property
    def coupling(self):
        return self.problem.correlation

    def faces(self):
        self.synchronise()
        point = self.candidates()[0]
        return faces_of(self.problem, point.duals.T, lambda examples: point.scores[:, examples].T)

    def row_products(self, examples):
        if examples.size > self.rows.capacity:
            return self.problem.gram.block(examples, examples) + self.problem.bias**2
        return self.rows.table[self.rows.need(examples)][:, examples].astype(np.float64) + self.problem.bias**2

    def table(self):
        return self.left()

    def put_table(self, duals):
        self.settle(self.fresh(duals.T))
