"""Newton's method for differentiable losses with a kernel: the logistic one, of labels or two classes, and the multinomial one.

    S = R B (K + bias^2),      P(B) = 1/2 <B, S> + sum of losses at S           any B, feasible or not
    (1 + H R K) ahead = slopes(S) - B                                           H: the second derivatives at S

The system is symmetric in the inner product of R K, and solved there by conjugate gradients, to a part of the residual: wherever
they end, P falls in the direction that is found. There K is replaced by what a few samples m know of it (the approximation of
Williams and Seeger 2001) and a multiple of the identity, as large as what that lacks of the diagonal on average, so that a step
of theirs costs little:

    K ~ G' G + lack,      G = L^-1 K_m,  L L' = K_mm

A little of the identity is there in any case: K may be singular, and B tends to the slopes where it moves no scores, too.

The scores that go with the direction are exact, in float64. The step is halved until P falls enough.

At the optimum B is the slopes at S, which are feasible duals. On the way the duals on offer are B, but of each sample (and class)
no farther from the slopes than half of the way to a bound. The slopes themselves would not do: K makes their errors far larger.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from ...data.kernel_rows import KernelRows
from ...jit import jitable, kernel, vectors
from ...losses.base import BOUNDLESS, clip, row_bend, row_slope, row_within
from ...problems.kernel import KernelProblem, KernelRowProblem, KernelScalarProblem, Point
from ..second_order.smooth import derivatives
from .kernel import KernelRun
from .tuning import KERNEL_NEWTON, KernelNewtonTuning


@kernel
def scalar_within(loss, slopes, duals):
    """Duals no farther from the slopes than half of the way to a bound."""
    for k in range(duals.size):
        low, high = clip(loss, k, -BOUNDLESS), clip(loss, k, BOUNDLESS)
        duals[k] = min(max(duals[k], 0.5 * (low + slopes[k])), 0.5 * (high + slopes[k]))


@jitable
def take_sample(array, i, row):
    """Copy what sample i has of (classes, samples) into row[0]."""
    for j in range(array.shape[0]):
        row.flat[0, j] = array[j, i]


@jitable
def put_sample(row, array, i):
    """And back."""
    for j in range(array.shape[0]):
        array[j, i] = row.flat[0, j]


@kernel
def row_slopes(loss, scores, rows, slopes):
    """Slopes at these scores, both (classes, samples); `rows` is scratch for two rows of classes."""
    row, found = rows
    for i in range(scores.shape[1]):
        take_sample(scores, i, row)
        row_slope(loss, i, row, found)
        put_sample(found, slopes, i)


@kernel
def row_bends(loss, slopes, rows, along):
    """`along` becomes its product with the second derivatives where these are the slopes."""
    row, found = rows
    for i in range(slopes.shape[1]):
        take_sample(slopes, i, row)
        take_sample(along, i, found)
        row_bend(loss, i, row, found)
        put_sample(found, along, i)


@kernel
def rows_within(loss, slopes, rows, duals):
    """As `scalar_within`, for rows of classes."""
    row, found = rows
    for i in range(slopes.shape[1]):
        take_sample(slopes, i, row)
        take_sample(duals, i, found)
        row_within(loss, i, row, found)
        put_sample(found, duals, i)


FACTOR_BYTES = 20  # bytes for each entry of G, while it is made
LEAST_LACK = 1e-3  # part of the mean of the diagonal that is added to it at least
ENOUGH = 0.1  # part of the promised decrease that a step must reach
SHORTEST = 2.0**-40  # part of a step below which there is no progress
SEEMING_RISE = 1e-12  # part of P by which it may seem to rise
FACTOR_RIDGE = 1e-10  # part of the trace of K_mm that is added to its diagonal


@dataclass(frozen=True)
class KernelNewtonOptions:
    """How a run goes about it."""

    seed: int
    tuning: KernelNewtonTuning = KERNEL_NEWTON


class KernelNewton(KernelRun):
    """A run on one kernel problem: B, its scores, the slopes there, and the point on offer; all (labels, samples)."""

    held = (*KernelRun.held, "factors", "scores", "slopes")
    average = False

    def __init__(self, problem: KernelProblem, duals: np.ndarray | None, options: KernelNewtonOptions):
        self.problem, self.options, self.warm = problem, options, duals is not None
        self.passes = self.visits = 0
        self.few = self.affordable()
        self.rows = KernelRows(problem.gram, problem.memory - FACTOR_BYTES * self.few * problem.n_examples, None)
        shape = problem.dual_shape[::-1]
        self.offered = Point(np.zeros(shape), np.zeros(shape)) if duals is None else self.fresh(duals.T)
        self.factors, self.scores = self.offered
        self.slopes = np.zeros(shape)
        self.find_slopes()
        self.dual = problem.dual(self.offered)

    @abstractmethod
    def find_slopes(self) -> None:
        """Slopes, and what `bent` needs, at the scores."""

    @abstractmethod
    def bent(self, along: np.ndarray) -> np.ndarray:
        """H along."""

    @abstractmethod
    def within(self, duals: np.ndarray) -> np.ndarray:
        """The duals on offer."""

    def advance(self, stop: Callable[[], bool]) -> float:
        """One step; returns an estimate of the gap of the duals on offer."""
        if self.rows.capacity == self.problem.n_examples:  # else products compute rows as they go
            self.rows.need(np.arange(self.problem.n_examples), stop)
        if not stop():
            ahead = self.direction(self.slopes - self.factors, stop)
            if not stop():
                self.move(ahead)
        self.passes += 1
        self.visits += self.problem.n_examples
        duals = self.within(self.factors.copy())
        value = self.problem.losses(self.scores)
        gap = value - self.problem.rewards(duals) + float(np.vdot(duals, self.scores))
        self.dual = value + 0.5 * float(np.vdot(self.factors, self.scores)) - gap
        return gap

    def direction(self, residual: np.ndarray, stop: Callable[[], bool]) -> np.ndarray:
        """Conjugate gradients for (1 + H R K) ahead = residual, in the inner product of R K."""
        found, ahead, along = np.zeros_like(residual), residual.copy(), self.product(residual)
        size = first = float(np.vdot(residual, along))
        if not first > 0.0:  # at the optimum, or the kernel is not positive semidefinite
            return residual
        residual = residual.copy()
        for _ in range(self.options.tuning.steps):
            if not size > self.options.tuning.rest**2 * first or stop():
                break
            moved = ahead + self.bent(along)
            part = size / float(np.vdot(along, moved))
            found += part * ahead
            residual -= part * moved
            scores = self.product(residual)
            before, size = size, float(np.vdot(residual, scores))
            ahead, along = residual + size / before * ahead, scores + size / before * along
        return found

    def move(self, ahead: np.ndarray) -> None:
        """Go in this direction as far as P falls by enough."""
        along = self.scored(ahead)
        before = self.value(0.0, ahead, along)
        fall = float(np.vdot(ahead, self.scores) - np.vdot(self.slopes, along))
        step = 1.0
        allowed = before + SEEMING_RISE * abs(before)
        while not self.value(step, ahead, along) <= allowed + ENOUGH * step * fall and step > SHORTEST:
            step *= 0.5
        if step > SHORTEST:
            self.factors, self.scores = self.factors + step * ahead, self.scores + step * along
            self.find_slopes()

    def value(self, step: float, ahead: np.ndarray, along: np.ndarray) -> float:
        """P after this part of a step."""
        with np.errstate(over="ignore"):
            return self.problem.primal(Point(self.factors + step * ahead, self.scores + step * along))

    def affordable(self) -> int:
        """How many samples the kernel matrix is approximated by; none where all will do, or memory is short."""
        n, tuning = self.problem.n_examples, self.options.tuning
        few = min(tuning.few(n), self.problem.memory // (4 * FACTOR_BYTES * n))
        return few if tuning.fewest <= few < tuning.whole * n else 0

    @cached_property
    def approximation(self) -> tuple[np.ndarray | None, float]:
        """G, or None where K is taken as it is, and what is added to it."""
        n, few, constant = self.problem.n_examples, self.few, self.problem.bias**2
        size = self.problem.gram.diagonal() + constant
        least = LEAST_LACK * float(size.mean())
        if few == 0:
            return None, least
        chosen = np.sort(np.random.default_rng(self.options.seed).permutation(n)[:few])
        rows = self.rows.table[self.rows.need(chosen)] + constant
        try:
            left = cholesky(rows[:, chosen] + FACTOR_RIDGE * few * size.mean() * np.eye(few), lower=True)
        except LinAlgError:  # the kernel is not positive semidefinite
            return None, least
        factor = solve_triangular(left, rows, lower=True)
        lack = float(np.maximum(size - np.einsum("mi,mi->i", factor, factor), 0.0).mean())
        return factor.astype(np.float32), max(lack, least)

    def product(self, factors: np.ndarray) -> np.ndarray:
        """`scored`, approximately."""
        factor, lack = self.approximation
        if factor is None:
            return self.scored(factors) + lack * (self.problem.correlation @ factors)
        found = (factors.astype(np.float32) @ factor.T) @ factor + lack * factors
        return self.problem.correlation @ found

    def synchronise(self) -> float:
        if not np.array_equal(self.factors, self.offered.duals):  # else nothing has moved since the start
            self.offered = self.fresh(self.within(self.factors.copy()))
        self.dual = self.problem.dual(self.offered)
        return self.dual

    def candidates(self) -> list[Point]:
        return [self.offered]

    def left(self) -> np.ndarray:
        return self.offered.duals.T.copy()


class KernelScalarNewton(KernelNewton):
    """One dual for each label of each sample."""

    held = (*KernelNewton.held, "bends")
    problem: KernelScalarProblem

    def find_slopes(self):
        self.bends = np.empty_like(self.slopes)
        derivatives(self.problem.exact_loss, self.scores.reshape(-1), self.slopes.reshape(-1), self.bends.reshape(-1))

    def bent(self, along):
        return self.bends * along

    def within(self, duals):
        scalar_within(self.problem.exact_loss, self.slopes.reshape(-1), duals.reshape(-1))
        return duals


class KernelRowNewton(KernelNewton):
    """A row of duals for each sample."""

    problem: KernelRowProblem

    def __init__(self, problem: KernelRowProblem, duals: np.ndarray | None, options: KernelNewtonOptions):
        found = [vectors.zeros_table(1, problem.n_labels, np.float64) for _ in range(3)]
        self.for_scores, self.for_duals = (found[0], found[1]), (found[1], found[2])  # unused lanes of scores are not zero
        super().__init__(problem, duals, options)

    def find_slopes(self):
        row_slopes(self.problem.exact_loss, self.scores, self.for_scores, self.slopes)

    def bent(self, along):
        found = along.copy()
        row_bends(self.problem.exact_loss, self.slopes, self.for_duals, found)
        return found

    def within(self, duals):
        rows_within(self.problem.exact_loss, self.slopes, self.for_duals, duals)
        return duals
