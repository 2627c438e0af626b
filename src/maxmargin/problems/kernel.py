"""Multi-label learning with a kernel (Hariharan, Vishwanathan and Varma 2012): what is minimised, and its dual.

    min over Z   1/2 sum_lk (R^+)_lk <z_l, z_k> + sum_il loss_il(<z_l, phi(x_i)>)
    duals B (labels x samples), signed:    scores S = R B (K + bias^2),    D = sum reward(B) - 1/2 <B, S>

with R the prior correlation of labels and K the kernel matrix; `bias` is a constant feature beside phi and carries the intercept,
which is regularised like everything else: there is no free bias. At Z = Z(B) the quadratic term of P is 1/2 <B, S> too, so both
values follow from B and S alone, and neither an inverse of R nor the vectors phi are needed.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..data.gram import BLOCK, Gram
from ..jit import kernel
from ..losses.base import BinaryLoss, clip, reward, value
from .base import Problem


@kernel
def total_value(loss, scores):
    total = 0.0
    for k in range(scores.size):
        total += value(loss, k, scores[k])
    return total


@kernel
def total_reward(loss, duals):
    total = 0.0
    for k in range(duals.size):
        if duals[k] != 0.0:
            total += reward(loss, k, duals[k])
    return total


@kernel
def clip_all(loss, duals):
    for k in range(duals.size):
        duals[k] = clip(loss, k, duals[k])


class Point(NamedTuple):
    """Weights in the space of the kernel: the duals they are a sum by, and the scores they give; both (labels, samples)."""

    duals: np.ndarray
    scores: np.ndarray


@dataclass(frozen=True)
class KernelMultilabelProblem(Problem):
    """`sign`, `margin` and `weight` are over labels and samples, label by label; `memory`: bytes for rows of the kernel."""

    gram: Gram
    loss: BinaryLoss
    sign: np.ndarray
    margin: np.ndarray
    weight: np.ndarray
    correlation: np.ndarray
    bias: float = 0.0
    memory: int = 1 << 30
    C: float = 1.0

    @cached_property
    def exact_loss(self) -> Any:
        """The loss as kernels see it: one score for each label of each sample."""
        return self.loss.of(self.sign, self.margin, self.cap)

    @property
    def n_examples(self) -> int:
        return self.gram.n

    @property
    def n_labels(self) -> int:
        return self.correlation.shape[0]

    @property
    def dual_shape(self) -> tuple[int, ...]:
        return (self.n_examples, self.n_labels)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (self.n_examples, self.n_labels)

    def clipped(self, duals: np.ndarray) -> np.ndarray:
        """The nearest feasible duals: for a start from another problem's."""
        result = np.array(duals.T, dtype=np.float64, order="C")
        clip_all(self.exact_loss, result.reshape(-1))
        return result.T

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

    def primal(self, point: Point, n_jobs: int = 1) -> float:
        """P at the point."""
        return 0.5 * float(np.vdot(point.duals, point.scores)) + total_value(self.exact_loss, point.scores.reshape(-1))

    def dual(self, point: Point) -> float:
        """D at the point."""
        return total_reward(self.exact_loss, point.duals.reshape(-1)) - 0.5 * float(np.vdot(point.duals, point.scores))
