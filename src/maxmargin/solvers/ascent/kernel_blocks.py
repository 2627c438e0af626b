"""Block-coordinate ascent on the dual of a kernel problem, by the exact steps of its loss: any of one score, and those of all
classes of a sample. It serves losses of one's own, and Crammer and Singer's where memory is short; at the end stands who serves
what.

A pass finds each sample's share of the gap from the scores that are kept, and takes the samples that have one, the largest first,
in blocks. Within a block duals are stepped exactly, one sample after another and a few times over, with the kernel matrix between
them (`losses.blocks`); then the scores of all samples follow in one matrix product with the block's rows of the kernel matrix:

    S_k += (K_kj + bias^2) change_j       for j in the block: its own samples k at once, all others at its end

Between passes the duals go on in the direction in which they have come, as far as it is worth while: kernel matrices are
ill-conditioned, and passes alone take many times as long.

Rows of the kernel matrix are computed when a sample is first visited, and kept as memory allows. All is float64, and values
for certificates are taken from scores that are computed anew. Losses that are quadratic in pieces are better served by `kernel`,
differentiable ones by `kernel_newton`, and Crammer and Singer's by `kernel_pairs`.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...data.kernel_rows import KernelRows
from ...jit import kernel, vectors
from ...losses.base import reward, row_step, value
from ...losses.blocks import block_step, row_block_step, row_moves, take_row
from ...problems.kernel import KernelProblem, KernelRowProblem, KernelScalarProblem, Point
from ..dual_coordinate import begin
from ..polish.tables import KernelFinishing
from ..polish.tuning import POLISH
from .kernel import KernelAscent, KernelOptions, KernelRun
from .kernel_newton import KernelNewtonOptions, KernelRowNewton, KernelScalarNewton
from .kernel_pairs import KernelPairOptions, KernelPairs, has_room
from .tuning import KERNEL_BLOCKS, KernelBlockTuning

SINGLE = 1e-7  # the smallest tol for which float32 does


@kernel
def scalar_shares(loss, scores, duals, shares):
    """The share of the gap of each label of each sample."""
    for k in range(shares.size):
        shares[k] = value(loss, k, scores[k]) - reward(loss, k, duals[k]) + duals[k] * scores[k]


@kernel
def row_shares(loss, curvature, scores, duals, scratch, shares):
    """The share of the gap of each sample; `scratch`: a row of scores and one of changes."""
    row, change = scratch
    for i in range(shares.size):
        take_row(scores, i, row)
        shares[i], _, _ = row_step(loss, i, curvature[i], row, duals, change, np.inf)


@dataclass(frozen=True)
class KernelBlockOptions:
    """How a run goes about it."""

    tol: float
    tuning: KernelBlockTuning = KERNEL_BLOCKS


class KernelBlocks(KernelRun, KernelFinishing):
    """A run on one kernel problem, a block of samples at a time."""

    held = (*KernelRun.held, *KernelFinishing.looked, "shares", "before", "reach")
    average = False
    shares: np.ndarray  # of each sample

    def __init__(self, problem: KernelProblem, options: KernelBlockOptions, warm: bool):
        self.problem, self.options, self.warm = problem, options, warm
        self.passes = self.visits = 0
        self.before: np.ndarray | None = None  # the duals when the last pass had ended
        self.reach = options.tuning.reach
        copies = int(options.tuning.copy * problem.memory)
        self.rows = KernelRows(problem.gram, problem.memory - copies, None)
        self.size = max(1, min(options.tuning.block, self.rows.capacity, copies // (8 * problem.n_examples)))
        if warm:
            self.place(self.fresh(self.point().duals))
        self.look()

    @abstractmethod
    def point(self) -> Point:
        """Duals and scores as they stand, (labels, samples)."""

    @abstractmethod
    def place(self, point: Point) -> None:
        """Put these duals and scores in place."""

    @abstractmethod
    def find_shares(self) -> None:
        """Shares, from the scores as they are kept."""

    @abstractmethod
    def sweep(self, block: np.ndarray, products: np.ndarray, total: np.ndarray, before: np.ndarray, calm: float) -> float:
        """Step each sample of the block once, whose duals were `before`; brings `total` up to date, by how much they have moved,
        and returns the gap."""

    @abstractmethod
    def update_scores(self, rows: np.ndarray, total: np.ndarray) -> None:
        """Scores of all samples after the duals of a block, whose rows of the kernel matrix these are, have moved."""

    @abstractmethod
    def duals_of(self, block: np.ndarray) -> np.ndarray:
        """Copies of the duals of a block."""

    def look(self) -> None:
        self.find_shares()
        self.dual = self.problem.dual(self.point())

    def advance(self, stop: Callable[[], bool]) -> float:
        """One pass over the samples that have a share of the gap; returns the gap."""
        tuning, n = self.options.tuning, self.problem.n_examples
        calm = tuning.calm * self.options.tol * abs(self.dual) / n
        wanted = np.flatnonzero(self.shares > calm)
        wanted = wanted[np.argsort(-self.shares[wanted], kind="stable")]
        for start in range(0, wanted.size, self.size):
            if stop():
                break
            self.improve(np.sort(wanted[start : start + self.size]), calm / self.problem.n_labels)
        self.passes += 1
        self.visits += n
        self.look()
        self.note(float(self.shares.sum()))
        return float(self.shares.sum())

    def improve(self, block: np.ndarray, calm: float) -> None:
        """Better duals for these samples, then scores of all to match."""
        tuning = self.options.tuning
        rows = self.rows.table[self.rows.need(block)].astype(np.float64, copy=False)
        rows += self.problem.bias**2
        products = rows[:, block]
        before = self.duals_of(block)
        total, first = np.zeros_like(before), 0.0
        for sweep in range(tuning.sweeps):
            gap = self.sweep(block, products, total, before, calm)
            first = gap if sweep == 0 else first
            if gap <= tuning.rest * first:
                break
        self.update_scores(rows, total)

    def accelerate(self) -> None:
        """Go to the optimum of the free duals, or on in the direction of the last pass, where that is better."""
        if self.polished():
            return
        tuning, duals = self.options.tuning, self.point().duals
        if self.before is not None:
            found = self.fresh(duals + self.reach * (duals - self.before))
            if self.problem.dual(found) > self.dual:
                self.place(found)
                self.look()
                self.reach = min(self.reach * tuning.longer, tuning.farthest)
            else:
                self.reach = max(self.reach * tuning.shorter, tuning.nearest)
        self.before = duals

    def settle(self, point: Point) -> None:
        self.place(point)
        self.before = None
        self.look()

    def synchronise(self) -> float:
        self.place(self.fresh(self.point().duals))
        self.look()
        return self.dual

    def candidates(self) -> list[Point]:
        return [self.point()]

    def left(self) -> np.ndarray:
        return self.point().duals.T.copy()


class KernelScalarBlocks(KernelBlocks):
    """One dual for each label of each sample; duals and scores are (labels, samples)."""

    held = (*KernelBlocks.held, "duals", "scores")
    problem: KernelScalarProblem

    def __init__(self, problem: KernelScalarProblem, duals: np.ndarray | None, options: KernelBlockOptions):
        shape = problem.dual_shape[::-1]
        self.duals = np.zeros(shape) if duals is None else np.array(duals.T, order="C")
        self.scores, self.shares = np.zeros(shape), np.zeros(shape[1])
        super().__init__(problem, options, duals is not None)

    def point(self):
        return Point(self.duals.copy(), self.scores.copy())

    def place(self, point):
        self.duals[:], self.scores[:] = point

    def find_shares(self):
        found = np.empty_like(self.duals)
        scalar_shares(self.problem.exact_loss, self.scores.reshape(-1), self.duals.reshape(-1), found.reshape(-1))
        self.shares = found.sum(axis=0)

    def duals_of(self, block):
        return self.duals[:, block]

    def sweep(self, block, products, total, before, calm):
        R, gap, changes = self.problem.correlation, 0.0, np.empty(block.size)
        for label in range(len(R)):
            scores = self.scores[label, block] + (R[label] @ total) @ products
            examples = label * self.problem.n_examples + block
            share, _ = block_step(
                self.problem.exact_loss, examples, R[label, label] * products, scores, self.duals.reshape(-1), changes, calm
            )
            total[label] = self.duals[label, block] - before[label]
            gap += share
        return gap

    def update_scores(self, rows, total):
        self.scores += self.problem.correlation @ (total @ rows)


class KernelRowBlocks(KernelBlocks):
    """A row of duals for each sample."""

    held = (*KernelBlocks.held, "duals", "scores")
    problem: KernelRowProblem

    def __init__(self, problem: KernelRowProblem, duals: np.ndarray | None, options: KernelBlockOptions):
        n, classes = problem.dual_shape
        self.curvature = problem.gram.diagonal() + problem.bias**2
        self.duals = vectors.table(vectors.pack(np.zeros((n, classes)) if duals is None else duals, np.float64))
        self.scores, self.shares = vectors.zeros_table(n, classes, np.float64), np.zeros(n)
        self.scratch = vectors.zeros_table(1, classes, np.float64), vectors.zeros_table(1, classes, np.float64)
        super().__init__(problem, options, duals is not None)

    def point(self):
        classes = self.problem.n_labels
        return Point(*(np.ascontiguousarray(table.flat[:, :classes].T) for table in (self.duals, self.scores)))

    def place(self, point):
        for table, array in zip((self.duals, self.scores), point, strict=True):
            table.flat[:, : self.problem.n_labels] = array.T

    def find_shares(self):
        row_shares(self.problem.exact_loss, self.curvature, self.scores, self.duals, self.scratch, self.shares)

    def duals_of(self, block):
        return self.duals.flat[block]

    def sweep(self, block, products, total, before, calm):
        scores = vectors.zeros_table(block.size, self.problem.n_labels, np.float64)
        moved = row_moves(block.size, self.problem.n_labels, 1, np.float64)
        scores.flat[:] = self.scores.flat[block] + products @ total
        scratch = (*self.scratch, calm)
        curvature = np.ascontiguousarray(products.diagonal())
        gap, *_ = row_block_step(self.problem.exact_loss, block, curvature, products, scores, self.duals, moved, scratch)
        total[:] = self.duals.flat[block] - before
        return gap

    def update_scores(self, rows, total):
        self.scores.flat[:] += rows.T @ total


@begin.register
def _(problem: KernelScalarProblem, duals, tol, seed, dtype, momentum, average, n_jobs):
    if problem.loss.quadratic:
        return KernelAscent(problem, duals, KernelOptions(tol, seed))
    if problem.loss.smooth:
        return KernelScalarNewton(problem, duals, KernelNewtonOptions(seed))
    return KernelScalarBlocks(problem, duals, KernelBlockOptions(tol))


def too_fine(problem: KernelProblem, tol: float) -> bool:
    """Rounds of pairs propose in float32; where free duals may be too many, polishing does not go on from there."""
    return tol < SINGLE and problem.n_examples > POLISH.most


@begin.register
def _(problem: KernelRowProblem, duals, tol, seed, dtype, momentum, average, n_jobs):
    if problem.loss.exchanges and not too_fine(problem, tol) and has_room(problem):
        return KernelPairs(problem, duals, KernelPairOptions(tol, seed))
    if problem.loss.smooth:
        return KernelRowNewton(problem, duals, KernelNewtonOptions(seed))
    return KernelRowBlocks(problem, duals, KernelBlockOptions(tol))
