"""Exact steps of dense rows in blocks: what goes through memory row by row are matrix products here.

    S = X_b W,   G = X_b Sigma X_b'       of the examples b of a block, as the pass would visit them
    for j in the block, in order          S_j += sum_k G_jk change_k over k before j;  change_j, the exact step of example j
    W += Sigma X_b' changes               where few classes change, by a list of these

The iterates are those of row by row, to rounding: the same order, momentum, averages and rests. Row by row all weights go through
the processor for each example, and with many classes they leave its caches in between. Coupled labels move the scores of all
labels, S_j += sum_k G_jk (change_k R). Where weights are clipped (signs) scores do not move by G, and where a variance differs
from class to class there is a G for each: there rows are visited one after another.

After a pass the few classes that have duals are swept over (`sweeps`), where the loss leaves most without: that saves passes.

Several threads take a block each, all from the same weights, with steps for examples that weigh more (`joint`):

    U = sum over the blocks of Sigma X_b' changes      by slices of classes, one a thread
    W += t U                                           duals of all blocks go back where t < 1

Results depend on the number of threads, not on which of them was faster.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...data.gathered import by_class, by_feature, has_dense_rows
from ...data.rows import mean_length
from ...jit import vectors
from ...losses.base import own_scratch
from ...problems.linear import RowProblem
from ...regularizers.spaces import follow_unclipped, unclipped
from ...utils.blas import blas_threads
from ...utils.threads import Team, spans
from ..tuning import BlockTuning
from .block_visits import BlockRooms, add_blocks, bend_of, draw_back, reach_block, visit_block
from .joint import along_the_mean
from .linear import AscentOptions, BlockAscent
from .sweeps import Crew, Sweeps, follow_spread, go_along, going, steps_for

SWEPT = 4  # blocks' worth of examples that a thread sweeps over before it meets the others. By guess, 2026-11-16


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
    """A run over dense rows, `options.block` of them at a time, on `n_jobs` threads."""

    held = (*BlockAscent.held, "spread")
    team = Team(1)
    rooms: BlockRooms

    def __init__(self, problem: RowProblem, duals: np.ndarray | None, options: AscentOptions):
        self.n_jobs = options.threads
        super().__init__(problem, duals, options)
        self.alone = max(1, self.between // self.size) * self.size  # examples between two looks at the clock, of one thread

    def take(self, duals):
        super().take(duals)
        problem = self.problem
        self.size = min(self.options.block, max(problem.n_examples, 1))
        variance = shared_variance(problem)
        self.variance = np.ones(0, self.dtype) if variance is None else vectors.pack(variance[None], self.dtype).ravel()
        self.spread = np.ones((2, 2))  # of passes, and of sweeps: everywhere, and along the mean
        self.threads = 0

    def muster(self) -> None:
        """Get threads to work, and room for them."""
        problem, tuning = self.problem, self.options.tuning.blocks
        threads = max(1, min(self.n_jobs, problem.n_examples // tuning.least))
        if self.size * self.visit_work() < tuning.meeting:
            threads = 1
        if threads == self.threads:
            return
        self.threads, self.between = threads, threads * self.alone
        shape = problem.table.shape[1] + 1, problem.n_classes, problem.regularizer.moves
        self.rooms = BlockRooms(threads, self.size, shape, problem.X.bias, self.variance, self.dtype)
        if self.team.size != threads:
            self.team = Team(threads)
        losses = self.loss, problem.exact_loss
        first, second = ([loss, *(own_scratch(loss) for _ in range(threads - 1))] for loss in losses)
        self.crew = Crew(self.team, first, second)
        self.ways: list[vectors.VectorTable] = []
        self.metric = self.variance, np.zeros((0, 0), self.dtype)
        if threads > 1:
            mean = np.append(problem.X.values.mean(axis=0, dtype=np.float64), problem.X.bias)
            along = along_the_mean(mean, shared_variance(problem))
            self.metric = self.variance, vectors.table(vectors.pack(along[None], self.dtype)).flat
            self.ways = [vectors.zeros_table(self.lanes, shape[0], self.dtype) for _ in range(shape[2])]
        self.sweeps = Sweeps(problem, self.crew, SWEPT * self.size, self.metric, self.dtype, self.options.tuning.blocks)

    @property
    def lanes(self) -> int:
        """Classes, padded."""
        return self.duals.flat.shape[1]

    def advance(self, stop):
        self.muster()
        self.stop, self.visited, self.met = stop, (0, 0.0), 0.0
        return super().advance(stop)

    def before_visits(self):
        """Weights are turned for the pass: those that duals move, then those that scores use."""
        self.turned = [by_class(unclipped(self.space))]
        if self.problem.regularizer.moves > 1:
            self.turned.append(by_class(self.space.w))

    def after_visits(self):
        self.reward += self.visit_again(*self.visited)
        by_feature(self.turned[0], unclipped(self.space))
        if self.problem.regularizer.moves > 1:
            by_feature(self.turned[1], self.space.w)
        follow_unclipped(self.space)
        self.turned = []

    def visit(self, visit, level):
        now, start, stop = visit
        found = np.zeros(2)
        with blas_threads(1):
            for blocks in self.rounds(start, stop):
                found += self.visit_blocks(blocks, now, level)
        self.visited, self.met = (stop, level), self.met + found[0]
        return found

    def visit_again(self, count: int, level: float) -> float:
        """Sweeps over the classes that have duals, of the examples of a pass. Returns the change of the reward."""
        tuning, classes, total = self.options.tuning.blocks, self.problem.n_classes, 0.0
        if not self.problem.loss.selective:
            return total
        order = self.plan.order[:count]
        awake = order[self.plan.wait[order] == 0]
        order[: awake.size] = awake
        state = self.turned[0], self.duals, self.curvature, self.plan
        for _ in range(tuning.again):
            found = np.zeros(3)
            for start in range(0, awake.size, self.between):
                if self.stop():
                    return total + float(found[1])
                span = start, min(start + self.between, awake.size)
                found += self.sweeps.sweep(state, span, self.spread[1], level)
            total += float(found[1])
            if found[0] <= tuning.worth * self.met or found[2] > tuning.filled * classes * awake.size:
                break
        return total

    def rounds(self, start: int, stop: int) -> Iterator[list[tuple[int, int]]]:
        """Blocks that are visited side by side."""
        if self.threads == 1:
            yield from ([(first, min(first + self.size, stop))] for first in range(start, stop, self.size))
            return
        least, most = self.options.tuning.blocks.least, self.threads * self.size
        for first, last in spans(stop - start, -(-(stop - start) // most)):
            many = max(-(-(last - first) // self.size), min(self.threads, (last - first) // least))
            yield [(start + first + a, start + first + b) for a, b in spans(last - first, many)]

    def visit_blocks(self, blocks: list[tuple[int, int]], now: int, level: float) -> np.ndarray:
        """One block a thread, then the weights; returns the sum of the shares of the gap and the change of the reward."""
        rooms, X, w = self.rooms, self.problem.X, self.turned[-1]
        steps = (1.0, 0.0) if len(blocks) == 1 else steps_for(self.spread[0])

        def visit(p: int) -> tuple[float, float, float]:
            orders = (now, *blocks[p]), (*steps, level), self.metric
            gap, gain, slope, rooms.counts[p], rooms.few[p] = visit_block(
                X.values, self.crew.losses[p], w, self.duals, self.curvature, self.plan, rooms.each[p], orders
            )
            return gap, gain, slope

        rooms.counts[:], rooms.few[:] = 0, False
        gap, gain, slope = np.sum(self.team.work(visit, range(len(blocks))), axis=0)
        if len(blocks) == 1:
            self.add_to(self.turned, False)
        else:
            gain += self.go(blocks, float(gain), float(slope))
        return np.array([gap, gain])

    def add_to(self, weights: list[vectors.VectorTable], fresh: bool) -> float:
        """Add what the blocks have left to these turned weights, or put it there; returns its square in the metric of the prior
        where fresh."""
        rooms, moved = self.rooms, self.rooms.all.moved

        def add(span: tuple[int, int]) -> float:
            add_blocks(rooms.all, moved.changes, rooms.counts, rooms.few, weights[0], span, fresh)
            if len(weights) > 1:  # what coupled labels' scores follow has few zeros
                add_blocks(rooms.all, moved.follows, rooms.counts, np.zeros_like(rooms.few), weights[1], span, fresh)
            return bend_of(weights[0], weights[-1], self.variance, span) if fresh else 0.0

        return float(sum(self.team.work(add, spans(self.lanes, self.threads))))

    def go(self, blocks: list[tuple[int, int]], gain: float, slope: float) -> float:
        """Move the weights along the steps of all blocks, as far as these are good for together; returns by how much the reward
        changes where that is not all the way."""
        rooms, bend = self.rooms, self.add_to(self.ways, True)
        t = going(gain, slope, bend, self.options.tuning.blocks)
        follow_spread(self.spread[0], (gain, slope, bend), rooms.all.common.flat[: len(blocks)])
        slices = spans(self.lanes, self.threads)

        def finish(p: int) -> float:
            if p < len(slices):
                for weights, way in zip(self.turned, self.ways, strict=True):
                    go_along(weights, way, t, slices[p])
            if t == 1.0 or p >= len(blocks):
                return 0.0
            each, out = rooms.each[p], rooms.out[p]
            return draw_back(self.crew.exact[p], self.duals, self.plan, each, out, blocks[p], int(rooms.counts[p]), t)

        return float(sum(self.team.work(finish, range(self.threads))))

    def reach_rows(self, space, t):
        self.muster()
        rooms, X, gains = self.rooms, self.problem.X, 0.0
        self.turned = [by_class(unclipped(space))]
        parts = spans(self.problem.n_examples, self.threads)
        firsts = [first for first, _ in parts]

        def reach(p: int) -> float:
            orders = (self.passes - 1, firsts[p], parts[p][1]), t, self.variance
            firsts[p], gain, rooms.counts[p], rooms.few[p] = reach_block(
                X.values, self.crew.losses[p], self.duals, self.before, self.plan, rooms.each[p], orders
            )
            return gain

        with blas_threads(1):
            while any(first < last for first, (_, last) in zip(firsts, parts, strict=True)):
                rooms.counts[:], rooms.few[:] = 0, False
                gains += sum(self.team.work(reach, range(len(parts))))
                self.add_to(self.turned, False)
        by_feature(self.turned.pop(), unclipped(space))
        follow_unclipped(space)
        return gains


def row_ascent(problem: RowProblem, duals: np.ndarray | None, options: AscentOptions) -> BlockAscent:
    """A run in blocks where these are exact and faster, else over one row after another."""
    block = block_size(problem, options.dtype, options.tuning.blocks)
    return BlockedAscent(problem, duals, replace(options, block=block)) if block else BlockAscent(problem, duals, options)
