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
fit with 100 classes was no faster. 2026-11-18.

After a pass the few classes that have duals are swept over (`sweeps`), where the loss leaves most without: that saves passes.

Several threads share out the work on each block and take the same steps (`together`; many of them, `ahead`), also in sweeps
(`turns`).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...data.gathered import by_class, by_feature, has_dense_rows
from ...data.rows import mean_length
from ...jit import vectors
from ...jit.meeting import at_one_board
from ...losses.base import own_scratch
from ...problems.linear import RowProblem
from ...regularizers.spaces import follow_unclipped, unclipped
from ...utils.blas import blas_threads
from ...utils.threads import Team, spans
from .ahead import visit_ahead
from .block_visits import block_room, hand, reach_block, visit_block
from .linear import AscentOptions, BlockAscent
from .sweeps import sweep_held, sweep_room
from .together import UNDER_WAY, reach_together, visit_together
from .tuning import BlockTuning
from .turns import MOST, new_queues, sums_of, sweep_in_turn

PIECES_OF_EACH = 2  # runs of classes for each thread that looks ahead: who is done early takes another. By guess, 2026-11-17
ASKED = 256  # examples whose duals are counted to know what a sweep costs


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


class TeamPlan(NamedTuple):
    """How many threads share out blocks of how many rows, and whether they look ahead (`ahead`) or not (`together`)."""

    threads: int
    rows: int
    ahead: bool


class BlockPrices:
    """What a visit to a row of a problem costs, in seconds, by the prices of `tuning`."""

    def __init__(self, problem: RowProblem, dtype: Any, tuning: BlockTuning):
        self.tuning, self.moves = tuning, problem.regularizer.moves
        self.features, self.length = problem.table.shape[1] + 1.0, mean_length(problem.X)
        self.vectors = vectors.blocks(problem.n_classes, dtype)
        self.classes = float(self.vectors * vectors.width(dtype))
        self.single = np.dtype(dtype).itemsize / 4.0

    def by_row(self) -> float:
        """Row by row, but for the step."""
        tuning, weights = self.tuning, self.features * self.classes * self.single
        near = weights * 4.0 * self.moves <= tuning.cached
        return (tuning.near if near else tuning.far) * self.moves * self.length * self.classes * self.single

    def parts(self, rows: int) -> tuple[float, float, float]:
        """In a block, but for the step: products with the weights; products of rows and their copies; the rest."""
        tuning, d = self.tuning, self.features
        products = tuning.product * (1.0 + tuning.packed / rows) * (self.moves + tuning.update) * d * self.classes
        before = rows * tuning.square * d + tuning.copied * d
        rest = rows * tuning.follow * self.classes * self.single + tuning.visit
        return products * self.single, before * self.single, rest

    def in_block(self, rows: int) -> float:
        """The same of one thread, all together."""
        return sum(self.parts(rows)) + self.tuning.call / rows

    def step(self) -> float:
        return self.tuning.step * self.classes * self.single

    def on_threads(self, team: TeamPlan, count: int) -> float:
        """In blocks on threads, with the step, where `count` examples are visited in a call."""
        threads, rows, ahead = team
        if threads == 1:
            return self.in_block(rows) + self.step()
        tuning, (products, before, rest) = self.tuning, self.parts(rows)
        rest += self.step()
        meetings = 2.0 * (tuning.meeting[0] + threads * tuning.meeting[1]) / rows
        meetings += (tuning.muster[0] + threads * tuning.muster[1]) / max(count, 1)
        if not ahead:
            return max(rest, (rest + before) / threads) + products / min(threads, self.vectors) + meetings
        cross = 2.0 * rows * tuning.square * (self.features + self.classes) * self.single
        return max(rest, (rest + before + cross + tuning.narrow * products) / threads) + meetings

    def in_sweep(self, held: float, threads: int = 1) -> float:
        """In a sweep, where an example has duals of so many classes. Visits with a class in common are not made at once, so that
        there are as many after each other as a class has."""
        alone = self.tuning.visit + self.step() + self.tuning.near * self.length * held * self.single
        if threads == 1:
            return alone
        return (alone + self.tuning.turn * (held + 1.0)) * (1.0 / threads + held / self.classes)

    def best_team(self, most: int, rows: int, count: int) -> TeamPlan:
        """What to do with so many threads at the most. Half of the rows a block may be better, as the steps within a block are
        those that threads do not share."""
        plans = [TeamPlan(1, rows, False)]
        plans += [TeamPlan(k, size, ahead) for k in range(2, most + 1) for size in (rows, rows // 2) for ahead in (False, True)]
        found = [(self.on_threads(plan, count), plan) for plan in plans if plan.threads <= plan.rows]
        least = min(price for price, _ in found)
        return next(plan for price, plan in found if price <= (1.0 + self.tuning.spare) * least)


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
    """A run over dense rows, `options.block` of them at a time, on `n_jobs` threads."""

    team = Team(1)

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
        self.threads, self.shared = 0, TeamPlan(0, 0, False)

    def muster(self) -> None:
        """Get threads to work, and room for them."""
        problem = self.problem
        self.prices = BlockPrices(problem, self.dtype, self.options.tuning.blocks)
        count, whole = min(problem.n_examples, self.n_jobs * self.alone), min(self.options.block, max(problem.n_examples, 1))
        shared = self.prices.best_team(self.n_jobs, whole, count)
        if shared == self.shared:
            return
        self.shared, self.size, self.between = shared, shared.rows, shared.threads * self.alone
        threads = self.threads = shared.threads
        if self.team.size != threads:
            self.team = Team(threads)
        moves, bias, classes = problem.regularizer.moves, problem.X.bias, problem.n_classes
        shape = problem.table.shape[1] + 1, classes, moves
        self.room = block_room(UNDER_WAY if threads > 1 else 1, self.size, shape, bias, self.variance, self.dtype)
        width = vectors.width(self.dtype)
        runs = [(width * first, width * last) for first, last in spans(self.lanes // width, threads)]
        self.runs = runs + [(0, 0)] * (threads - len(runs))  # of classes, one a thread
        self.pieces = width * np.array([0] + [last for _, last in spans(self.lanes // width, PIECES_OF_EACH * threads)])
        longest = max(last - first for first, last in self.runs)
        self.hands = [hand(self.size, (longest, classes), moves, self.dtype) for _ in range(threads)]
        self.hand = hand(self.size, (self.lanes, classes), moves, self.dtype)  # for all classes
        self.losses = [self.loss, *(own_scratch(self.loss) for _ in range(threads - 1))]
        self.sweep_rooms = [sweep_room(classes, self.dtype) for _ in range(threads)]
        times = self.options.tuning.blocks.longer * max(1.0, self.prices.in_block(self.size) / self.prices.in_sweep(1.0))
        visits = min(problem.n_examples, MOST, int(times * threads * self.alone)) if threads > 1 else 0
        self.queues = new_queues(visits, self.lanes)

    def with_others(self, count: int) -> bool:
        """Whether so many visits are worth to get all threads for."""
        price = self.prices.on_threads
        return self.threads > 1 and price(self.shared, count) < price(self.shared._replace(threads=1), count)

    def side_by_side(self, work: Callable[[int, np.ndarray], Any]) -> list:
        """As `at_one_board`, on each thread."""
        with blas_threads(1):
            return at_one_board(self.team, self.threads, work)

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
        X, weights, orders = self.problem.X, tuple(self.turned), (level, self.variance)
        state = self.duals, self.curvature, self.plan, self.room

        def together(p: int, board: np.ndarray) -> tuple[float, float]:
            place, mine = (p, self.threads, self.runs[p], board), (self.hands[p], (visit, *orders))
            if self.shared.ahead:
                return visit_ahead(X.values, self.losses[p], weights, *state, *mine, (place, self.pieces))
            return visit_together(X.values, self.losses[p], weights, *state, *mine, place)

        if self.with_others(visit[2] - visit[1]):
            found = np.array(self.side_by_side(together)[0])
        else:
            found, (now, start, stop) = np.zeros(2), visit
            with blas_threads(1):
                for first in range(start, stop, self.size):
                    block = (now, first, min(first + self.size, stop)), *orders
                    found += visit_block(X.values, self.loss, weights, *state, self.hand, block)
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
            threads = self.sweep_team(awake, count)
            if threads == 0:
                break
            found, done = np.zeros(2), 0
            while done < awake.size:
                if self.stop():
                    return total + float(found[1])
                more, visits = self.sweep(done, awake.size, level, threads)
                found, done = found + more, done + visits
            total += float(found[1])
            if found[0] <= tuning.worth * self.met:
                break
        return total

    def sweep(self, start: int, stop: int, level: float, threads: int) -> tuple[np.ndarray, int]:
        """Visit the next places of the order. Returns the sum of the shares of the gap and the change of the reward, and how many
        visits were made."""
        X, w, state = self.problem.X, self.turned[0], (self.duals, self.curvature, self.plan)
        if threads == 1:
            visit = start, min(start + self.alone, stop), level, self.variance
            return np.array(sweep_held(X, self.loss, w, *state, self.sweep_rooms[0], visit)), visit[1] - start
        visit = start, min(start + self.queues.order.size, stop), level, self.variance

        def in_turn(p: int, board: np.ndarray) -> None:
            sweep_in_turn(X, self.losses[p], w, *state, self.sweep_rooms[p], self.queues, visit, (p, threads, board))

        self.side_by_side(in_turn)
        return sums_of(self.queues), int(self.queues.fitting[0])

    def sweep_team(self, awake: np.ndarray, count: int) -> int:
        """How many threads make a sweep. None where a visit of it is not so much cheaper than one of a pass that it brings more:
        by the classes that some examples have duals of."""
        some, price = awake[:ASKED], self.prices.on_threads
        held = np.count_nonzero(self.duals.flat[some]) / max(some.size, 1)
        alone, shared = (self.prices.in_sweep(held, threads) for threads in (1, self.threads))
        of_pass = price(self.shared if self.with_others(count) else self.shared._replace(threads=1), count)
        if min(alone, shared) > self.options.tuning.blocks.cheaper * of_pass:
            return 0
        return self.threads if shared < alone else 1

    def reach_rows(self, space, t):
        self.muster()
        X, w, now, n = self.problem.X, by_class(unclipped(space)), self.passes - 1, self.problem.n_examples
        state, orders = (self.duals, self.before, self.plan, self.room), (t, self.variance)
        parts, busy = spans(n, self.threads), np.zeros(self.threads, np.bool_)
        parts += [(n, n)] * (self.threads - len(parts))

        def together(p: int, board: np.ndarray) -> float:
            place = p, self.threads, self.runs[p], board, busy
            return reach_together(X.values, self.losses[p], w, *state, self.hands[p], ((now, *parts[p]), *orders), place)

        gains, first = 0.0, 0
        if self.threads > 1:
            gains = float(sum(self.side_by_side(together)))
        with blas_threads(1):
            while self.threads == 1 and first < n:
                first, gain = reach_block(X.values, self.loss, w, *state, self.hand, ((now, first, n), *orders))
                gains += gain
        by_feature(w, unclipped(space))
        follow_unclipped(space)
        return gains


def row_ascent(problem: RowProblem, duals: np.ndarray | None, options: AscentOptions) -> BlockAscent:
    """A run in blocks where these are exact and faster, else over one row after another."""
    block = block_size(problem, options.dtype, options.tuning.blocks)
    return BlockedAscent(problem, duals, replace(options, block=block)) if block else BlockAscent(problem, duals, options)
