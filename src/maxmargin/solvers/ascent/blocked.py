"""Exact steps of dense rows in blocks: what goes through memory row by row are matrix products here.

    S = X_b W,   G = X_b Sigma X_b'       of the examples b of a block, as the pass would visit them
    for j in the block, in order          S_j += sum_k G_jk change_k over k before j;  change_j, the exact step of example j
    W += Sigma X_b' changes               where few classes change, by a list of these

The iterates are those of row by row, to rounding: the same order, momentum, averages and rests. Row by row all weights go through
the processor for each example, and with many classes they leave its caches in between. Coupled labels move the scores of all
labels, S_j += sum_k G_jk (change_k R). Where weights are clipped (signs) scores do not move by G, and where a variance differs
from class to class there is a G for each: there rows are visited one after another.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ...data.gathered import Gathered, by_class, by_feature, has_dense_rows
from ...data.rows import mean_length
from ...jit import kernel, vectors
from ...losses.blocks import row_block_step, row_moves
from ...problems.linear import RowProblem
from ...regularizers.spaces import follow_unclipped, unclipped
from ...utils.blas import blas_threads
from ..tuning import BlockTuning
from .linear import AscentOptions, BlockAscent
from .schedule import reschedule


@kernel
def reschedule_block(plan, examples, shares, now, level):
    for j in range(examples.size):
        reschedule(plan, examples[j], now, shares[j] <= level)


def shared_variance(problem: RowProblem) -> np.ndarray | None:
    """The variance of each feature, (features + 1,), which all classes must have in common; None for ones."""
    variance = problem.regularizer.variance
    return None if variance is None else np.ascontiguousarray(vectors.unpack(variance, problem.n_classes)[:, 0])


def exact_in_blocks(problem: RowProblem) -> bool:
    """Whether scores move by inner products of rows."""
    regularizer = problem.regularizer
    if not has_dense_rows(problem.X) or problem.half_spaces is not None or regularizer.lower is not None:
        return False
    if regularizer.variance is None:
        return True
    variances = vectors.unpack(regularizer.variance, problem.n_classes)
    return bool(np.all(variances == variances[:, :1]))


def block_size(problem: RowProblem, dtype: Any, tuning: BlockTuning) -> int:
    """How many examples to step together, by what a visit costs either way; 0 where one after another is faster."""
    if not exact_in_blocks(problem):
        return 0
    moves, d = problem.regularizer.moves, problem.table.shape[1] + 1.0
    classes = float(vectors.blocks(problem.n_classes, dtype) * vectors.width(dtype))
    single = np.dtype(dtype).itemsize / 4.0
    near = d * classes * single * 4.0 * moves <= tuning.cached
    walk = (tuning.near if near else tuning.far) * moves * mean_length(problem.X) * classes * single

    def block(rows: int) -> float:
        products = tuning.product * (1.0 + tuning.packed / rows) * (moves + tuning.update) * d * classes
        within = rows * (tuning.square * d + tuning.follow * classes) + tuning.copied * d
        return (products + within) * single + tuning.visit + tuning.call / rows

    sizes = [rows for rows in tuning.sizes if rows * d * classes * moves <= tuning.most] or [tuning.sizes[0]]
    best = min(sizes, key=block)
    return best if block(best) < tuning.sure * walk else 0


class BlockedAscent(BlockAscent):
    """A run over dense rows, `options.block` of them at a time."""

    def __init__(self, problem: RowProblem, duals: np.ndarray | None, options: AscentOptions):
        super().__init__(problem, duals, options)
        self.between = max(1, self.between // self.size) * self.size

    def take(self, duals):
        super().take(duals)
        problem, dtype = self.problem, self.dtype
        self.size = min(self.options.block, max(problem.n_examples, 1))
        self.gathered = Gathered(problem.X, self.size, dtype, shared_variance(problem))
        self.block_scores = vectors.zeros_table(self.size, problem.n_classes, dtype)
        self.moved = row_moves(self.size, problem.n_classes, problem.regularizer.moves, dtype)

    def before_visits(self):
        """Weights are turned for the pass: those that duals move, then those that scores use."""
        self.turned = [by_class(unclipped(self.space))]
        self.turned.append(self.turned[0] if self.problem.regularizer.moves == 1 else by_class(self.space.w))

    def after_visits(self):
        by_feature(self.turned[0], unclipped(self.space))
        if self.problem.regularizer.moves > 1:
            by_feature(self.turned[1], self.space.w)
        follow_unclipped(self.space)
        self.turned = []

    def visit(self, visit, level):
        now, start, stop = visit
        found = np.zeros(2)
        with blas_threads(1):
            for first in range(start, stop, self.size):
                found += self.visit_block(self.plan.order[first : min(first + self.size, stop)], now, level)
        return found

    def visit_block(self, examples: np.ndarray, now: int, level: float) -> tuple[float, float]:
        """The sum of the shares of the gap and the change of the reward, as of `row_pass`."""
        gathered, moved = self.gathered, self.moved
        v, w = self.turned
        gathered.take(examples)
        gathered.scores(w, self.block_scores)
        curvature, scratch = self.curvature[examples], (self.scores, self.change, level)
        gap, gain, count = row_block_step(
            self.loss, examples, curvature, gathered.products(), self.block_scores, self.duals, moved, scratch
        )
        reschedule_block(self.plan, examples, moved.shares, now, level)
        gathered.keep(moved.stepped[:count])
        gathered.add(moved.changes, v)
        if w is not v:
            gathered.add(moved.follows, w)
        return gap, gain

    def reach_rows(self, space, t):
        self.turned = [by_class(unclipped(space))]
        gain = super().reach_rows(space, t)
        by_feature(self.turned.pop(), unclipped(space))
        follow_unclipped(space)
        return gain

    def give_back(self, space, count):
        with blas_threads(1):
            self.gathered.take(self.lacking.which[:count])
            self.gathered.add(self.lacking.rows, self.turned[0])


def row_ascent(problem: RowProblem, duals: np.ndarray | None, options: AscentOptions) -> BlockAscent:
    """A run in blocks where these are exact and faster, else over one row after another."""
    block = block_size(problem, options.dtype, options.tuning.blocks)
    return BlockedAscent(problem, duals, replace(options, block=block)) if block else BlockAscent(problem, duals, options)
