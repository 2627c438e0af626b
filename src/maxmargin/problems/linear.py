"""What is minimised. A problem is immutable, knows no solver, and computes primal and dual values from scratch, in float64.

    P(w) = 1/2 ||w||^2 + C sum_i s_i loss_i(w)         the quadratic term in general: see `regularizer`
    D(b) = sum_i reward_i(b_i) - 1/2 ||v(b)||^2        D(b) <= min P <= P(w) for every feasible b and every w

`C s_i` is folded into the losses, so a problem carries no further factor.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..data import rows
from ..data.matrices import check_norms
from ..data.rows import dot
from ..jit import kernel, vectors
from ..losses.base import clip, reward, row_repair, row_value, value
from ..losses.crammer_singer import crammer_singer
from ..losses.nonnegative import NonNegative
from ..regularizers.gaussian import Free, Regularizer, move, move_row
from ..regularizers.half_spaces import HalfSpaces
from ..utils.threads import in_threads

# Examples a piece: sums are formed piece by piece, so they do not depend on the number of threads. Set not recorded, 2026-11-15.
CHUNK = 4096


def piecewise(function: Callable[[int, int], float], n: int, n_jobs: int) -> float:
    """sum of function(start, stop) over fixed pieces of range(n), on `n_jobs` threads"""
    pieces = [(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK)]
    return float(sum(in_threads(lambda piece: function(*piece), pieces, n_jobs)))


@kernel
def scalar_risk(X, loss, w, start, stop):
    total = 0.0
    for i in range(start, stop):
        total += value(loss, i, dot(X, i, w))
    return total


@kernel
def scalar_combine(X, loss, duals, space):
    """v += sum_i duals_i x_i; returns the reward"""
    total = 0.0
    for i in range(duals.size):
        if duals[i] != 0.0:
            move(space, X, i, duals[i])
            total += reward(loss, i, duals[i])
    return total


@kernel
def scalar_clip(loss, duals):
    for i in range(duals.size):
        duals[i] = clip(loss, i, duals[i])


@kernel
def row_risk(X, loss, W, out, start, stop):
    total = 0.0
    for i in range(start, stop):
        rows.scores(X, i, W, out.lanes)
        total += row_value(loss, i, out)
    return total


@kernel
def row_combine(X, loss, duals, space, out):
    """V += sum_i x_i duals_i with the duals made exactly feasible; returns the reward"""
    total = 0.0
    for i in range(duals.lanes.shape[0]):
        if vectors.magnitude_row(duals.lanes, i) > 0:
            total += row_repair(loss, i, duals, out)
            move_row(space, X, i, out.lanes)
    return total


def norms(X, variance: np.ndarray) -> np.ndarray:
    """sum_j variance_j x_ij^2 of every row; an empty variance stands for ones"""
    result = np.empty(rows.shape(X)[0])
    rows.squared_norms(X, variance, result)
    return check_norms(result)


@kernel
def wall_combine(X, duals, space, out):
    """V += sum_k x_k duals_k"""
    for k in range(duals.lanes.shape[0]):
        for j in range(out.flat.shape[1]):
            out.flat[0, j] = duals.flat[k, j]
        move_row(space, X, k, out.lanes)


@kernel
def row_repairs(loss, duals, out, result):
    """The exactly feasible float64 duals, class by class"""
    for i in range(result.shape[0]):
        row_repair(loss, i, duals, out)
        for j in range(result.shape[1]):
            result[i, j] = out.flat[0, j]


class Evaluated(NamedTuple):
    """The dual side of a certificate: the value at the stored duals and the unclipped weights they stand for."""

    dual: float
    v: np.ndarray


@dataclass(frozen=True)
class ScalarProblem:
    """One score and one dual per example: binary classification and regression."""

    X: Any
    loss: Any
    regularizer: Regularizer = field(default_factory=Regularizer)
    half_spaces: HalfSpaces | None = None

    @property
    def n_examples(self) -> int:
        return rows.shape(self.X)[0]

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (rows.shape(self.X)[1] + 1,)

    @cached_property
    def curvature(self) -> np.ndarray:
        """||x_i||^2 in the metric of the prior: how fast an example's score moves with its dual."""
        variance = self.regularizer.variance
        return norms(self.X, np.empty(0) if variance is None else variance)

    def risk(self, w: np.ndarray, n_jobs: int = 1) -> float:
        return piecewise(lambda a, b: scalar_risk(self.X, self.loss, w, a, b), self.n_examples, n_jobs)

    def primal(self, w: np.ndarray, n_jobs: int = 1) -> float:
        """P(w) by a full pass; w must satisfy the sign constraints."""
        return self.regularizer.penalty(w) + self.risk(w, n_jobs)

    @property
    def dual_shape(self) -> tuple[int, ...]:
        return (self.n_examples,)

    def clipped(self, duals: np.ndarray) -> np.ndarray:
        """The nearest feasible duals: for a start from another problem's."""
        result = np.array(duals, dtype=np.float64)
        scalar_clip(self.loss, result)
        return result

    def table(self, w: np.ndarray) -> np.ndarray:
        """The weights as (features + 1,)."""
        return w

    def feasible(self, w: np.ndarray) -> np.ndarray:
        return w if self.half_spaces is None else self.half_spaces.feasible(w)

    def evaluate(self, duals: np.ndarray, side_duals: np.ndarray | None = None) -> Evaluated:
        """The exact dual value; `side_duals` are the duals of the half_spaces."""
        space = Free(vectors.aligned(self.weight_shape, np.float64))
        total = scalar_combine(self.X, self.loss, duals, space)
        if self.half_spaces is not None and side_duals is not None:
            scalar_combine(self.half_spaces.rows, NonNegative(0), side_duals, space)
        v = self.regularizer.unclipped(space.w)
        return Evaluated(total + self.regularizer.dual(space.w, v), v)


class SameRows:
    """Hands on what a problem found out about its rows, their norms, to further problems of the same rows and regulariser."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def __call__(self, problem):
        if self.known.get("curvature") is not None:
            vars(problem)["curvature"] = self.known["curvature"]  # where `cached_property` looks first
        self.known = vars(problem)
        return problem


class RowProblem(ABC):
    """A row of class scores and a row of duals per example. Weights and duals are lane arrays.

    What the kinds of it differ in is the loss; all of them have X, cap, regularizer (or what stands in for it) and half_spaces.
    """

    X: Any
    cap: np.ndarray
    regularizer: Any
    half_spaces: HalfSpaces | None

    @property
    @abstractmethod
    def n_classes(self) -> int: ...

    @abstractmethod
    def loss(self, dtype):
        """The loss for iterations in this dtype."""

    @property
    def n_examples(self) -> int:
        return rows.shape(self.X)[0]

    @property
    def table_shape(self) -> tuple[int, ...]:
        return (rows.shape(self.X)[1] + 1, vectors.blocks(self.n_classes, np.float64), vectors.width(np.float64))

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return self.regularizer.shape(self.table_shape)

    @cached_property
    def exact_loss(self):
        """The loss of certificates. Threads may share it: values need no scratch."""
        return self.loss(np.float64)

    @cached_property
    def curvature(self) -> np.ndarray:
        """||x_i||^2 in the metric of the prior; where classes have priors of their own, the largest."""
        variance = self.regularizer.variance
        if variance is None:
            return norms(self.X, np.empty(0))
        tables = np.unique(vectors.to_classes(variance, self.n_classes), axis=0)
        return np.max([norms(self.X, table) for table in tables], axis=0)

    def risk(self, W: np.ndarray, n_jobs: int = 1) -> float:
        Z = self.regularizer.scoring(W)

        def piece(start: int, stop: int) -> float:
            return row_risk(self.X, self.exact_loss, Z, vectors.zeros_table(1, self.n_classes, np.float64), start, stop)

        return piecewise(piece, self.n_examples, n_jobs)

    def primal(self, W: np.ndarray, n_jobs: int = 1) -> float:
        """P(W) by a full pass; W must satisfy the sign constraints."""
        return self.regularizer.penalty(W) + self.risk(W, n_jobs)

    @property
    def dual_shape(self) -> tuple[int, ...]:
        return (self.n_examples, self.n_classes)

    def clipped(self, duals: np.ndarray) -> np.ndarray:
        """The nearest feasible duals: for a start from another problem's."""
        table = vectors.table(vectors.pack(duals, np.float64))
        return self.repaired(table)

    def table(self, W: np.ndarray) -> np.ndarray:
        """The weights as (classes, features + 1)."""
        return vectors.to_classes(self.regularizer.scoring(W), self.n_classes)

    def feasible(self, W: np.ndarray) -> np.ndarray:
        if self.half_spaces is None:
            return W
        return vectors.from_classes(self.half_spaces.feasible(vectors.to_classes(W, self.n_classes)), np.float64)

    def evaluate(self, duals: vectors.Table, side_duals: vectors.Table | None = None) -> Evaluated:
        """The exact dual value; `side_duals` are the duals of the half_spaces."""
        space = Free(vectors.aligned(self.table_shape, np.float64))
        out = vectors.zeros_table(1, self.n_classes, np.float64)
        total = row_combine(self.X, self.exact_loss, duals, space, out)
        if self.half_spaces is not None and side_duals is not None:
            wall_combine(self.half_spaces.rows, side_duals, space, out)
        v = self.regularizer.unclipped(space.w)
        return Evaluated(total + self.regularizer.dual(space.w, v), v)

    def repaired(self, duals: vectors.Table) -> np.ndarray:
        """The duals that `evaluate` speaks of: (examples, classes) in float64, every row feasible and summing to zero."""
        result = np.empty((self.n_examples, self.n_classes))
        row_repairs(self.exact_loss, duals, vectors.zeros_table(1, self.n_classes, np.float64), result)
        return result


@dataclass(frozen=True)
class BlockProblem(RowProblem):
    """Multiclass after Crammer and Singer, with a cost for each pair of classes."""

    X: Any
    label: np.ndarray
    cap: np.ndarray
    cost: np.ndarray
    regularizer: Regularizer = field(default_factory=Regularizer)
    half_spaces: HalfSpaces | None = None

    @property
    def n_classes(self) -> int:
        return self.cost.shape[0]

    def loss(self, dtype):
        return crammer_singer(self.label, self.cap, self.cost, dtype)


@dataclass(frozen=True)
class TopKProblem(RowProblem):
    """Multiclass with a top-k loss; `form` makes it, as `topk_alpha` and `topk_beta` do."""

    X: Any
    label: np.ndarray
    cap: np.ndarray
    classes: int
    k: int
    form: Callable[..., Any]
    smoothing: float = 0.0
    regularizer: Regularizer = field(default_factory=Regularizer)
    half_spaces: HalfSpaces | None = None

    @property
    def n_classes(self) -> int:
        return self.classes

    def loss(self, dtype):
        return self.form(self.label, self.cap, self.classes, self.k, self.smoothing, dtype)
