"""Exact steps of dense rows in blocks: what goes through memory row by row are matrix products here.

    S = X_b W,   G = X_b Sigma X_b'       of the examples b of a block, as the pass would visit them
    for j in the block, in order          S_j += sum_k G_jk change_k over k before j;  change_j, the exact step of example j
    W += Sigma X_b' changes               where few classes change, by a list of these

The iterates are those of row by row, to rounding: the same order, momentum, averages and rests. Row by row all weights go through
the processor for each example, and with many classes they leave its caches in between. Coupled labels move the scores of all
labels, S_j += sum_k G_jk (change_k R). Where weights are clipped (signs) scores do not move by G, and where a variance differs
from class to class there is a G for each: there rows are visited one after another.

Sparse rows go one after another: their inner products are cheap, by lists of the entries of each column, but the weights of a
block have left the nearest cache when its changes are added. 52 entries a row, 100 and 600 classes, a Xeon: blocks of 8 took one
thread 1.4 times as long as row by row, and two threads, each with half of the classes, 0.85 and 0.75 times at the best; a whole
fit with 100 classes was no faster. 2026-11-18. Steps of several rows from the same weights, as far together as the dual value
rises (what `shared_blocks` does), lose too much there: 20,000 rows of 52 entries and an intercept, which all rows share, 100
classes, take 21 passes where 16 rows go together, 39 where 32 do, 91 where 256 do, beside 16 passes one by one. 2026-11-19.

After a pass the few classes that have duals are swept over (`sweeps`), where the loss leaves most without: that saves passes.
Several threads: `parted_blocks`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...data.gathered import by_feature, has_dense_rows, room_by_class, turn_into
from ...data.rows import mean_length
from ...jit import vectors
from ...problems.linear import RowProblem
from ...regularizers.spaces import follow_unclipped, unclipped
from ...utils.blas import blas_threads
from .block_visits import BlockRoom, block_room, reach_blocks, visit_blocks
from .linear import ALONE, AscentOptions, BlockAscent
from .sweeps import SweepRoom, steps_few, sweep_held, sweep_room
from .tuning import BlockTuning

ASKED = 256  # examples whose duals are counted to know what a sweep costs
Sweep = Callable[[int, int, float], tuple[np.ndarray, int]]  # as `BlockedAscent.sweep_alone`


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


class BlockPrices:
    """What a visit to a row of a problem costs, in seconds, by the prices of `tuning`."""

    def __init__(self, problem: RowProblem, dtype: Any, tuning: BlockTuning):
        self.tuning, self.moves = tuning, problem.regularizer.moves
        self.features, self.length = problem.table.shape[1] + 1.0, mean_length(problem.X)
        self.classes = float(vectors.blocks(problem.n_classes, dtype) * vectors.width(dtype))
        self.single = np.dtype(dtype).itemsize / 4.0
        near = self.features * self.classes * self.single * 4.0 * self.moves <= tuning.cached
        self.weight, self.packed = (tuning.near, tuning.packed) if near else (tuning.far, tuning.packed_far)

    def by_row(self) -> float:
        """Row by row, but for the step."""
        return self.weight * self.moves * self.length * self.classes * self.single

    def in_block(self, rows: int) -> float:
        """In a block of so many, but for the step."""
        tuning, d = self.tuning, self.features
        products = tuning.product * (1.0 + self.packed / rows) * (self.moves + tuning.update) * d * self.classes
        before = rows * tuning.square * d + tuning.copied * d
        return (products + before + rows * tuning.follow * self.classes) * self.single + tuning.visit + tuning.call / rows

    def step(self) -> float:
        return self.tuning.step * self.classes * self.single

    def in_sweep(self, held: float) -> float:
        """In a sweep, where an example has duals of so many classes."""
        tuning, few = self.tuning, steps_few(self.classes) >= held
        listing = (tuning.listed * self.classes + (tuning.near * self.length + tuning.found) * held) * self.single
        return tuning.visit + listing + (0.0 if few else self.step())

    def in_turn(self, held: float, threads: int) -> float:
        """In a sweep of several threads in turn (`turns`): one of them orders the visits, and those with a class in common are
        not made at once."""
        return self.in_sweep(held) * (1.0 / threads + held / self.classes) + self.tuning.ordered + self.tuning.turn * held


def block_size(problem: RowProblem, dtype: Any, tuning: BlockTuning) -> int:
    """How many examples to step together, by what a visit costs either way; 0 where one after another is faster."""
    if not exact_in_blocks(problem):
        return 0
    prices = BlockPrices(problem, dtype, tuning)
    work = prices.features * prices.classes * prices.moves
    sizes = [rows for rows in tuning.sizes if rows * work <= tuning.most] or [tuning.sizes[0]]
    best = min(sizes, key=prices.in_block)
    return best if prices.in_block(best) < tuning.sure * prices.by_row() else 0


class BlockedAscent(BlockAscent):
    """A run over dense rows, `options.block` of them at a time."""

    def __init__(self, problem: RowProblem, duals: np.ndarray | None, options: AscentOptions):
        super().__init__(problem, duals, options)
        self.between = max(1, self.between // options.block) * options.block

    def take(self, duals):
        super().take(duals)
        problem = self.problem
        self.prices = BlockPrices(problem, self.dtype, self.options.tuning.blocks)
        variance = shared_variance(problem)
        self.variance = np.ones(0, self.dtype) if variance is None else vectors.pack(variance[None], self.dtype).ravel()
        self.room: BlockRoom | None = None
        self.sweep_room: SweepRoom | None = None

    def settle_in(self, dtype, duals):
        super().settle_in(dtype, duals)
        self.turned = [room_by_class(self.space.w) for _ in range(self.problem.regularizer.moves)]

    def room_for_block(self) -> BlockRoom:
        problem = self.problem
        shape = problem.table.shape[1] + 1, problem.n_classes, problem.regularizer.moves
        size = max(1, min(self.options.block, problem.n_examples))
        return block_room(size, shape, problem.X.bias, self.variance, self.dtype)

    def room_for_sweep(self) -> SweepRoom:
        return sweep_room(self.loss, self.problem.n_classes, self.dtype)

    def room_alone(self) -> BlockRoom:
        self.room = self.room or self.room_for_block()
        return self.room

    @property
    def visit_seconds(self) -> float:
        """Of a visit in a pass, of one core, about."""
        return self.prices.in_block(self.options.block) + self.prices.step()

    def advance(self, stop):
        self.stop, self.visited, self.met = stop, (0, 0.0), 0.0
        return super().advance(stop)

    def before_visits(self):
        """Weights are turned for the pass: those that duals move, then those that scores use."""
        turn_into(unclipped(self.space), self.turned[0])
        if len(self.turned) > 1:
            turn_into(self.space.w, self.turned[1])

    def after_visits(self):
        self.reward += self.visit_again(*self.visited)
        by_feature(self.turned[0], unclipped(self.space))
        if len(self.turned) > 1:
            by_feature(self.turned[1], self.space.w)
        follow_unclipped(self.space)

    def visit(self, visit, level):
        state, orders = (self.duals, self.curvature, self.plan), ((*visit, ALONE), level, self.variance)
        with blas_threads(1):
            found = visit_blocks(self.problem.X.values, self.loss, tuple(self.turned), *state, self.room_alone(), orders)
        self.visited, self.met = (visit[2], level), self.met + found[0]
        return found

    def visit_again(self, count: int, level: float) -> float:
        """Sweeps over the classes that have duals, of the examples of a pass. Returns the change of the reward."""
        tuning, total = self.options.tuning.blocks, 0.0
        if not self.problem.loss.selective:
            return total
        order = self.plan.order[:count]
        awake = order[self.plan.wait[order] == 0]
        order[: awake.size] = awake
        for _ in range(tuning.again):
            each = self.held_by(awake)
            if self.prices.in_sweep(each) > tuning.cheaper * self.visit_seconds:
                break  # it costs more than it brings
            sweep, found, done = self.way_to_sweep(awake.size, each), np.zeros(2), 0
            while done < awake.size:
                if self.stop():
                    return total + float(found[1])
                more, visits = sweep(done, awake.size, level)
                found, done = found + more, done + visits
            total += float(found[1])
            if found[0] <= tuning.worth * self.met:
                break
        return total

    def way_to_sweep(self, count: int, held: float) -> Sweep:
        """How to sweep over so many examples with duals of so many classes each."""
        self.between_again = int(self.between * max(1.0, self.visit_seconds / self.prices.in_sweep(held)))
        return self.sweep_alone

    def sweep_alone(self, start: int, stop: int, level: float) -> tuple[np.ndarray, int]:
        """Visit the next places of the order. Returns the sum of the shares of the gap and the change of the reward, and how many
        visits were made."""
        self.sweep_room = self.sweep_room or self.room_for_sweep()
        X, w, state = self.problem.X, self.turned[0], (self.duals, self.curvature, self.plan)
        visit = start, min(start + self.between_again, stop), (level, self.variance, ALONE)
        return np.array(sweep_held(X, self.loss, w, *state, self.sweep_room, visit)), visit[1] - start

    def held_by(self, awake: np.ndarray) -> float:
        """How many classes some examples have duals of, on average."""
        some = awake[:ASKED]
        return np.count_nonzero(self.duals.flat[some]) / max(some.size, 1)

    def reach_rows(self, space, t):
        w, visit = self.turned[0], ((self.passes - 1, 0, self.problem.n_examples), t, self.variance)
        turn_into(unclipped(space), w)
        state = self.duals, self.before, self.plan, self.room_alone()
        with blas_threads(1):
            gain = reach_blocks(self.problem.X.values, self.loss, w, *state, visit)
        by_feature(w, unclipped(space))
        follow_unclipped(space)
        return gain
