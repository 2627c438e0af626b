"""Learning with a kernel (for several labels: Hariharan, Vishwanathan and Varma 2012): what is minimised, and its dual.

    min over Z   1/2 sum_lk (R^+)_lk <z_l, z_k> + sum_il loss_il(<z_l, phi(x_i)>)
    duals B (labels x samples), signed:    scores S = R B (K + bias^2),    D = sum reward(B) - 1/2 <B, S>

with R the prior correlation of labels and K the kernel matrix; `bias` is a constant feature beside phi and carries the intercept,
which is regularised like everything else: there is no free bias. At Z = Z(B) the quadratic term of P is 1/2 <B, S> too, so both
values follow from B and S alone, and neither an inverse of R nor the vectors phi are needed.

Two classes, and regression, have one label. Where a loss is one of all classes of a sample, B holds a row of duals for each and R
is the identity.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..data.gram import BLOCK, Gram
from ..jit import kernel, vectors
from ..losses.base import BinaryLoss, Loss, MulticlassLoss, RegressionLoss, value
from ..losses.blocks import row_block_value
from .base import Problem
from .linear import rewards_of, row_repairs, scalar_clip
from .sizes import overlarge_kernel, worth_of_duals


@kernel
def total_value(loss, scores):
    total = 0.0
    for k in range(scores.size):
        total += value(loss, k, scores[k])
    return total


class Point(NamedTuple):
    """Weights in the space of the kernel: the duals they are a sum by, and the scores they give; both (labels, samples), and
    labels are classes where those have one loss."""

    duals: np.ndarray
    scores: np.ndarray


class KernelProblem(Problem):
    """What problems with a kernel have in common. `memory`: bytes for rows of the kernel matrix."""

    gram: Gram
    loss: Loss
    bias: float
    memory: int

    @property
    def n_examples(self) -> int:
        return self.gram.n

    @property
    @abstractmethod
    def n_labels(self) -> int: ...

    @property
    def correlation(self) -> np.ndarray:
        """R"""
        return np.eye(self.n_labels)

    @property
    @abstractmethod
    def exact_loss(self) -> Any:
        """The loss as kernels see it."""

    @property
    def dual_shape(self) -> tuple[int, ...]:
        return (self.n_examples, self.n_labels)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (self.n_examples, self.n_labels)

    @abstractmethod
    def clipped(self, duals: np.ndarray) -> np.ndarray:
        """The nearest feasible duals, (samples, labels): for a start from another problem's."""

    def resumed(self, duals, weights, data, kind):
        fits = isinstance(duals, np.ndarray) and duals.shape == self.dual_shape
        return (self.clipped(duals), None) if fits else (None, None)

    def fitting(self, weights):
        return None  # weights are those of their duals

    def scores(self, duals: np.ndarray) -> np.ndarray:
        """S from scratch: rows of the kernel matrix are computed in blocks and forgotten."""
        mixed = self.correlation @ duals
        result = self.bias**2 * np.repeat(mixed.sum(axis=1)[:, None], self.n_examples, axis=1)
        support = np.flatnonzero(np.any(duals != 0.0, axis=0))
        for start in range(0, support.size, BLOCK):
            block = support[start : start + BLOCK]
            result += mixed[:, block] @ self.gram.rows(block)
        return result

    @abstractmethod
    def losses(self, scores: np.ndarray) -> float:
        """The sum of the losses, weighted, at these scores of labels and samples."""

    @abstractmethod
    def rewards(self, duals: np.ndarray) -> float:
        """What feasible duals of labels and samples add to the dual value."""

    def primal(self, point: Point, n_jobs: int = 1) -> float:
        """P at the point."""
        return 0.5 * float(np.vdot(point.duals, point.scores)) + self.losses(point.scores)

    def dual(self, point: Point) -> float:
        """D at the point."""
        return self.rewards(point.duals) - 0.5 * float(np.vdot(point.duals, point.scores))

    def primal_at_zero(self) -> float:
        """P where all weights are zero: no lower bound is above it."""
        return self.losses(np.zeros((self.n_labels, self.n_examples)))

    def overlarge(self, primal):
        worth = worth_of_duals(min(primal, self.primal_at_zero()), self.cap, self.loss.smooth)
        return overlarge_kernel(self.gram.diagonal(), self.cap.reshape(-1, self.n_examples).max(axis=0), worth)


@dataclass(frozen=True)
class KernelScalarProblem(KernelProblem):
    """One score and one dual for each label of each sample. `target`, what the loss takes of each, and `weight` are over labels
    and samples, label by label; `prior` is R (None: the identity)."""

    gram: Gram
    loss: BinaryLoss | RegressionLoss
    target: tuple[np.ndarray, ...]
    weight: np.ndarray
    prior: np.ndarray | None = None
    bias: float = 0.0
    memory: int = 1 << 30
    C: float = 1.0

    @cached_property
    def exact_loss(self) -> Any:
        of: Callable[..., Any] = self.loss.of  # the two kinds of loss take different targets
        return of(*self.target, self.cap)

    @property
    def n_labels(self) -> int:
        return self.weight.size // self.n_examples

    @cached_property
    def correlation(self) -> np.ndarray:
        return np.eye(self.n_labels) if self.prior is None else self.prior

    def clipped(self, duals: np.ndarray) -> np.ndarray:
        result = np.array(duals.T, dtype=np.float64, order="C")
        scalar_clip(self.exact_loss, result.reshape(-1))
        return result.T

    def losses(self, scores):
        return total_value(self.exact_loss, scores.reshape(-1))

    def rewards(self, duals):
        return rewards_of(self.exact_loss, duals.reshape(-1))


@dataclass(frozen=True)
class KernelRowProblem(KernelProblem):
    """One loss of all classes of a sample, and a row of duals; cost[y, j] is the margin that class y must keep from class j."""

    gram: Gram
    loss: MulticlassLoss
    label: np.ndarray
    weight: np.ndarray
    cost: np.ndarray
    bias: float = 0.0
    memory: int = 1 << 30
    C: float = 1.0

    @cached_property
    def exact_loss(self) -> Any:
        return self.loss.of(self.label, self.cost, self.cap, np.float64)

    @property
    def n_labels(self) -> int:
        return self.cost.shape[0]

    def repaired(self, duals: np.ndarray) -> tuple[np.ndarray, float]:
        """The feasible duals nearest to these, (samples, classes), and their reward."""
        result, row = np.empty(self.dual_shape), vectors.zeros_table(1, self.n_labels, np.float64)
        return result, row_repairs(self.exact_loss, vectors.table(vectors.pack(duals, np.float64)), 0, row, result)

    def clipped(self, duals: np.ndarray) -> np.ndarray:
        return self.repaired(duals)[0]

    def losses(self, scores):
        table = vectors.table(vectors.pack(scores.T, np.float64))
        row = vectors.zeros_table(1, self.n_labels, np.float64)
        return row_block_value(self.exact_loss, np.arange(self.n_examples), table, row)

    def rewards(self, duals):
        return self.repaired(duals.T)[1]
