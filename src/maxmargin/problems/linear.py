"""Linear problems in memory: one score an example, or a row of class scores.

    P(w) = 1/2 ||w||^2 + C sum_i s_i loss_i(w)         the quadratic term in general: see regularizers
    D(b) = sum_i reward_i(b_i) - 1/2 ||v(b)||^2

`C s_i` is folded into what kernels see of the losses, so that sums need no further factor.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from ..data import rows
from ..data.gathered import has_dense_rows
from ..data.row_sums import add_some_rows, sum_rows
from ..data.rows import dot
from ..data.table import Table
from ..jit import kernel, vectors
from ..losses.base import (
    BinaryLoss,
    Loss,
    MulticlassLoss,
    RegressionLoss,
    clip,
    own_scratch,
    reward,
    row_repair,
    row_value,
    value,
)
from ..losses.crammer_singer import CrammerSingerLoss
from ..regularizers.base import Regularizer
from ..regularizers.half_spaces import HalfSpaces
from ..regularizers.spaces import Free, move_row
from ..utils.blas import inner_product
from ..utils.threads import in_threads, spans
from .base import PLAIN_TERM, Evaluated, Problem
from .products import TAKEN, combined_by_products, risk_by_products
from .sizes import EPSILON, overlarge, worth_of_duals
from .twofold import most_lost, risk_in_twofold

# Examples a part: sums are formed part by part, so they do not depend on the number of threads. Set not recorded, 2026-11-15.
CHUNK = 4096
# Runs of rows whose weighted sums are formed apart, so that threads can: how many at the most, what part of the numbers of a run
# its sum may have, and numbers of all sums together. By guess, 2026-11-17.
SUM_RUNS = 64
RUN_OF_SUM = 4
NUMBERS_OF_SUMS = 1 << 22
# Multiplications of a run, by a number or a vector of classes, at the least: below it what surrounds a run takes as long. 1,600
# made rows of 20 columns, 0.9 ms in 64 runs, 0.1 in one; a Xeon core, 2026-11-18.
WORK_OF_RUN = 1 << 18
# Weights from which on scores and sums are matrix products, if at least this part of the rows is not zero: those that leave the
# first cache. 3,000 made rows of 64 and 256 columns, 8 to 100 classes, Neoverse N1, 2026-11-16.
BY_PRODUCTS = 8192
MOSTLY = 0.5


def piecewise(function: Callable[[int, int], float], n: int, n_jobs: int, size: int = CHUNK) -> float:
    """sum of function(start, stop) over parts of range(n) of this size, on `n_jobs` threads"""
    parts = [(start, min(start + size, n)) for start in range(0, n, size)]
    return float(sum(in_threads(lambda part: function(*part), parts, n_jobs)))


def in_pieces(function: Callable[[int, int, np.ndarray], Any], n: int, n_jobs: int) -> float:
    """The same where function(start, stop, sums) puts the sum of each part into its place: one call of each thread, or these
    would wait for each other between calls."""
    sums = np.zeros(-(-n // CHUNK))

    def work(span: tuple[int, int]) -> None:
        function(span[0] * CHUNK, min(span[1] * CHUNK, n), sums)

    in_threads(work, spans(sums.size, n_jobs), n_jobs)
    return float(sum(sums.tolist()))


def sum_of_runs(function: Callable[[tuple[int, int], np.ndarray], Any], runs: list, W: np.ndarray, n_jobs: int) -> None:
    """What function(run, W) adds to W for the first run of rows, and to zeros like W for the others, one after another, all in W;
    on `n_jobs` threads."""
    sums = [W, *(vectors.aligned(W.shape, W.dtype) for _ in runs[1:])]
    in_threads(lambda k: function(runs[k], sums[k]), range(len(runs)), n_jobs)
    for one in sums[1:]:
        W += one


@kernel
def scalar_risk(X, loss, w, start, stop, sums):
    """The loss of a range of examples, part by part into `sums`; returns it"""
    total = 0.0
    for begin in range(start, stop, CHUNK):
        part = 0.0
        for i in range(begin, min(begin + CHUNK, stop)):
            part += value(loss, i, dot(X, i, w))
        sums[begin // CHUNK] = part
        total += part
    return total


@kernel
def scalar_rewards(loss, duals, start, stop, sums):
    """The rewards of a range of examples, part by part into `sums`."""
    for begin in range(start, stop, CHUNK):
        part = 0.0
        for i in range(begin, min(begin + CHUNK, stop)):
            if duals[i] != 0.0:
                part += reward(loss, i, duals[i])
        sums[begin // CHUNK] = part


def rewards_of(loss: Any, duals: np.ndarray, n_jobs: int = 1) -> float:
    """The sum of the rewards, the same on any number of threads."""
    return in_pieces(lambda *part: scalar_rewards(loss, duals, *part), duals.size, n_jobs)


@kernel
def scalar_clip(loss, duals):
    for i in range(duals.size):
        duals[i] = clip(loss, i, duals[i])


@kernel
def row_risk(X, loss, W, out, start, stop, sums):
    """As `scalar_risk`, for rows; `out` is scratch"""
    total = 0.0
    for begin in range(start, stop, CHUNK):
        part = 0.0
        for i in range(begin, min(begin + CHUNK, stop)):
            rows.scores(X, i, W, out.vectors)
            part += row_value(loss, i, out)
        sums[begin // CHUNK] = part
        total += part
    return total


@kernel
def row_combine(X, loss, duals, space, out, start, stop):
    """V += sum_i x_i duals_i over a range of examples, with the duals made exactly feasible; returns the reward"""
    total = 0.0
    for i in range(start, stop):
        if vectors.row_filled(duals.vectors, i):
            total += row_repair(loss, i, duals, out)
            move_row(space, X, i, out.vectors)
    return total


@kernel
def wall_combine(X, duals, space, out):
    """V += sum_k x_k duals_k"""
    for k in range(duals.vectors.shape[0]):
        for j in range(out.flat.shape[1]):
            out.flat[0, j] = duals.flat[k, j]
        move_row(space, X, k, out.vectors)


@kernel
def row_repairs(loss, duals, start, out, result):
    """The exactly feasible float64 duals of the examples from `start` on, class by class; returns their reward"""
    total = 0.0
    for i in range(result.shape[0]):
        total += row_repair(loss, start + i, duals, out)
        for j in range(result.shape[1]):
            result[i, j] = out.flat[0, j]
    return total


CRAMMER_SINGER = CrammerSingerLoss()
ROUNDED_WEIGHTS = 4  # ways to round weights, up and down, of which the mean is taken
SAME_VALUE = 1e-3  # dual values that differ by less, relatively, are the same where a larger C is asked about


class LinearProblem(Problem):
    """What linear problems in memory have in common: a table of samples, and duals that are arrays."""

    table: Table
    loss: Loss

    @property
    def X(self) -> Any:  # noqa: N802 - a matrix, as everywhere
        """The rows as kernels take them."""
        return self.table.rows

    @property
    def n_examples(self) -> int:
        return self.table.shape[0]

    @property
    @abstractmethod
    def curvature(self) -> np.ndarray:
        """||x_i||^2 in the metric of the prior: how fast an example's score moves with its dual."""

    @property
    @abstractmethod
    def exact_loss(self) -> Any:
        """The loss as kernels see it, for certificates. Threads may share it: values need no scratch."""

    def runs_of_rows(self, weights: int) -> list[tuple[int, int]]:
        """Which rows have sums of their own, where such a sum has so many numbers: by the shape of the data alone."""
        n, columns = self.n_examples, self.table.shape[1] + 1
        if 0 < n * max(columns, weights) < 2 * WORK_OF_RUN:
            return [(0, n)]
        entries = n * rows.mean_length(self.X)
        work = entries * max(1.0, weights / columns / vectors.width(np.float64))
        most = min(SUM_RUNS, entries / columns // RUN_OF_SUM, NUMBERS_OF_SUMS // max(weights, 1), work // WORK_OF_RUN)
        return spans(n, int(max(1, most)))

    @property
    def steep(self) -> bool:
        """As that of the loss."""
        return self.loss.steep

    @abstractmethod
    def risk(self, w: np.ndarray, n_jobs: int = 1) -> float:
        """The sum of the losses."""

    def primal(self, w: np.ndarray, n_jobs: int = 1) -> float:
        return self.regularizer.penalty(w) + self.risk(w, n_jobs)

    def values(self, w, duals):
        return self.primal(w), self.reevaluated(duals).dual

    @abstractmethod
    def clipped(self, duals: np.ndarray) -> np.ndarray:
        """The nearest feasible duals, (examples, classes) or (examples,): for a start from another problem's."""

    def resumed(self, duals, weights, data, kind):
        weights = self.fitting(weights)
        fits = weights is not None and duals is not None and duals.shape == self.dual_shape
        return (self.clipped(duals), weights) if fits else (None, None)

    def outgrown(self, duals):
        half = self.at(0.5 * self.C)
        if duals is None or not np.allclose(half.clipped(duals), duals):
            return False
        return bool(np.isclose(half.reevaluated(duals).dual, self.reevaluated(duals).dual, rtol=SAME_VALUE))

    def column_sizes(self):
        return self.table.column_sizes()

    def overlarge(self, primal):
        return overlarge(self.table, self.cap, self.curvature, worth_of_duals(primal, self.cap, self.loss.smooth))

    @property
    def total_curvature(self) -> float:
        """What the curvature of all examples adds up to, without that of each where it is not needed."""
        return self.table.sum_of_squares() if self.regularizer.variance is None else float(self.curvature.sum())

    def lost_in_sums(self, left, most):
        duals = left()
        if not isinstance(duals, np.ndarray):
            return 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            duals = duals.reshape(self.n_examples, -1)
            # By Cauchy and Schwarz, |b_i|_1 being at most sqrt(classes) |b_i|_2.
            bound = 0.5 * EPSILON**2 * duals.shape[1] * float(inner_product(duals, duals)) * self.total_curvature
            if bound <= most:
                return bound
            sizes = np.abs(duals).sum(axis=1)
            return 0.5 * (EPSILON * float(sizes @ np.sqrt(self.curvature))) ** 2

    def lost_in_scores(self, w, primal):
        return most_lost(self, w, primal) if np.isfinite(primal) else 0.0

    def primal_in_twofold(self, w, stop):
        found = risk_in_twofold(self, w, stop)
        return None if found is None else self.regularizer.penalty(w) + found

    def swayed(self, duals):
        if not isinstance(duals, np.ndarray):
            return 0.0
        sizes = np.abs(duals).reshape(self.n_examples, -1)
        slopes = sizes.sum(axis=1) if self.loss.smooth else self.cap
        with np.errstate(over="ignore"):
            moved, coupling = self.table.sizes_of_sums(sizes), self.regularizer.coupling
            moved = moved if coupling is None else np.abs(coupling) @ moved
            return EPSILON * float(np.sum(self._variances * moved * self.table.sizes_of_sums(slopes[:, None])))

    def unsettled(self, w):
        rng, here, found = np.random.default_rng(0), self.risk(w), 0.0
        for _ in range(ROUNDED_WEIGHTS):
            off = EPSILON * rng.choice([-1.0, 1.0], w.shape)
            found += self.risk(w * (1.0 + off)) + self.risk(w * (1.0 - off)) - 2.0 * here
        return max(found, 0.0) / ROUNDED_WEIGHTS

    @property
    def _variances(self) -> Any:
        """Of all weights, (classes, features + 1), or of each."""
        variance = self.regularizer.variance
        return 1.0 if variance is None else self.coefficients(variance)

    @abstractmethod
    def reevaluated(self, duals: np.ndarray) -> Evaluated:
        """The exact dual value of duals as they are kept between runs, (examples, classes) or (examples,)."""

    @abstractmethod
    def taken(self, table: Table, which: np.ndarray, weight: np.ndarray) -> Self:
        """The problem of some of the examples, by their numbers; `table` and `weight` are theirs."""


@dataclass(frozen=True)
class ScalarProblem(LinearProblem):
    """One score and one dual per example: binary classification and regression. `target` is what the loss takes of examples."""

    table: Table
    loss: BinaryLoss | RegressionLoss
    target: tuple[np.ndarray, ...]
    weight: np.ndarray
    regularizer: Regularizer = PLAIN_TERM
    half_spaces: HalfSpaces | None = None
    C: float = 1.0

    @cached_property
    def exact_loss(self) -> Any:
        """The loss as kernels see it."""
        of: Callable[..., Any] = self.loss.of  # the two kinds of loss take different targets
        return of(*self.target, self.cap)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (self.table.shape[1] + 1,)

    @property
    def curvature(self) -> np.ndarray:
        """||x_i||^2 in the metric of the prior: how fast an example's score moves with its dual."""
        return self.table.norms(self.regularizer.variance)

    def measure(self, n_jobs):
        self.table.norms(self.regularizer.variance, n_jobs)

    def risk(self, w: np.ndarray, n_jobs: int = 1) -> float:
        return in_pieces(lambda *part: scalar_risk(self.X, self.exact_loss, w, *part), self.n_examples, n_jobs)

    @property
    def dual_shape(self) -> tuple[int, ...]:
        return (self.n_examples,)

    def clipped(self, duals: np.ndarray) -> np.ndarray:
        result = np.array(duals, dtype=np.float64)
        scalar_clip(self.exact_loss, result)
        return result

    def feasible(self, w: np.ndarray) -> np.ndarray:
        return w if self.half_spaces is None else self.half_spaces.feasible(w)

    def taken(self, table, which, weight):
        return replace(self, table=table, target=tuple(array[which] for array in self.target), weight=weight)

    def evaluate(self, duals: np.ndarray, side_duals: np.ndarray | None = None, n_jobs: int = 1) -> Evaluated:
        """The exact dual value; `side_duals` are the duals of the half_spaces. The same on any number of threads."""
        r = np.zeros(self.weight_shape)
        sum_of_runs(lambda span, w: add_some_rows(self.X, duals, w, *span), self.runs_of_rows(r.size), r, n_jobs)
        if self.half_spaces is not None and side_duals is not None:
            sum_rows(self.half_spaces.rows, side_duals, r, 0, side_duals.size)
        v = self.regularizer.unclipped(r)
        return Evaluated(rewards_of(self.exact_loss, duals, n_jobs) + self.regularizer.dual(r, v), v)

    def reevaluated(self, duals: np.ndarray) -> Evaluated:
        return self.evaluate(duals)


class RowProblem(LinearProblem):
    """A row of class scores and a row of duals per example. Inside, weights and duals are lane arrays.

    What the kinds of it differ in is the loss.
    """

    @property
    @abstractmethod
    def n_classes(self) -> int: ...

    @abstractmethod
    def loss_in(self, dtype: Any) -> Any:
        """The loss as kernels see it, for iterations in this dtype."""

    @property
    def table_shape(self) -> tuple[int, ...]:
        return (self.table.shape[1] + 1, vectors.blocks(self.n_classes, np.float64), vectors.width(np.float64))

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return self.regularizer.shape(self.table_shape)

    @cached_property
    def exact_loss(self) -> Any:
        return self.loss_in(np.float64)

    @cached_property
    def curvature(self) -> np.ndarray:
        """||x_i||^2 in the metric of the prior; where classes have priors of their own, the largest."""
        variance = self.regularizer.variance
        if variance is None:
            return self.table.norms()
        tables = np.unique(vectors.to_classes(variance, self.n_classes), axis=0)
        return np.max([self.table.norms(table) for table in tables], axis=0)

    def measure(self, n_jobs):
        if self.regularizer.variance is None:
            self.table.norms(None, n_jobs)

    def risk(self, W: np.ndarray, n_jobs: int = 1) -> float:
        Z = self.regularizer.scoring(W)

        def part(start: int, stop: int, sums: np.ndarray) -> None:
            row_risk(self.X, self.exact_loss, Z, vectors.zeros_table(1, self.n_classes, np.float64), start, stop, sums)

        if not self.by_products:
            return in_pieces(part, self.n_examples, n_jobs)
        return risk_by_products(self, Z, n_jobs)

    @cached_property
    def by_products(self) -> bool:
        """Whether exact values are computed by matrix products, a block of rows at a time."""
        if not has_dense_rows(self.X):
            return False
        features = self.table.shape[1] + 1
        return self.n_classes * features > BY_PRODUCTS and rows.mean_length(self.X) > MOSTLY * features

    def _combined(self, duals: vectors.VectorTable, W: np.ndarray, n_jobs: int) -> float:
        """W += sum_i x_i duals_i with the duals made exactly feasible; returns their reward."""
        if self.by_products:
            return combined_by_products(self, duals, W, n_jobs)
        runs, rewards = self.runs_of_rows(W.size), []

        def combine(span: tuple[int, int], V: np.ndarray) -> None:
            loss = self.exact_loss if span[0] == 0 else own_scratch(self.exact_loss)
            out = vectors.zeros_table(1, self.n_classes, np.float64)
            rewards.append((span, row_combine(self.X, loss, duals, Free(V), out, *span)))

        sum_of_runs(combine, runs, W, n_jobs)
        return float(sum(reward for _, reward in sorted(rewards)))

    @property
    def dual_shape(self) -> tuple[int, ...]:
        return (self.n_examples, self.n_classes)

    def clipped(self, duals: np.ndarray) -> np.ndarray:
        table = vectors.table(vectors.pack(duals, np.float64))
        return self.repaired(table)

    def coefficients(self, W: np.ndarray) -> np.ndarray:
        return vectors.to_classes(self.regularizer.scoring(W), self.n_classes)

    def feasible(self, W: np.ndarray) -> np.ndarray:
        if self.half_spaces is None:
            return W
        return vectors.from_classes(self.half_spaces.feasible(vectors.to_classes(W, self.n_classes)), np.float64)

    def evaluate(self, duals: vectors.VectorTable, side_duals: vectors.VectorTable | None = None, n_jobs: int = 1) -> Evaluated:
        """The exact dual value; `side_duals` are the duals of the half_spaces."""
        space = Free(vectors.aligned(self.table_shape, np.float64))
        total = self._combined(duals, space.w, n_jobs)
        if self.half_spaces is not None and side_duals is not None:
            wall_combine(self.half_spaces.rows, side_duals, space, vectors.zeros_table(1, self.n_classes, np.float64))
        v = self.regularizer.unclipped(space.w)
        return Evaluated(total + self.regularizer.dual(space.w, v), v)

    def repaired(self, duals: vectors.VectorTable, n_jobs: int = 1) -> np.ndarray:
        """The duals that `evaluate` speaks of: (examples, classes) in float64, every row feasible and summing to zero."""
        result = np.empty((self.n_examples, self.n_classes))

        def repair(span: tuple[int, int]) -> None:
            (first, last), out = span, vectors.zeros_table(1, self.n_classes, np.float64)
            loss = self.exact_loss if first == 0 else own_scratch(self.exact_loss)
            row_repairs(loss, duals, first, out, result[first:last])

        in_threads(repair, spans(self.n_examples, max(1, min(n_jobs, self.n_examples // TAKEN))), n_jobs)
        return result

    def reevaluated(self, duals: np.ndarray) -> Evaluated:
        return self.evaluate(vectors.table(vectors.pack(duals, np.float64)))


@dataclass(frozen=True)
class BlockProblem(RowProblem):
    """Multiclass: each example has one class, and cost[y, j] is the margin that class y must keep from class j."""

    table: Table
    label: np.ndarray
    weight: np.ndarray
    cost: np.ndarray
    loss: MulticlassLoss = CRAMMER_SINGER
    regularizer: Regularizer = PLAIN_TERM
    half_spaces: HalfSpaces | None = None
    C: float = 1.0

    @property
    def n_classes(self) -> int:
        return self.cost.shape[0]

    def taken(self, table, which, weight):
        return replace(self, table=table, label=self.label[which], weight=weight)

    def loss_in(self, dtype):
        return self.loss.of(self.label, self.cost, self.cap, dtype)
