"""Blocks of dense rows of several threads side by side: each walks through its part of the examples in blocks (`blocked`), on a
copy of the weights, and all meet as in `parted`.

The steps within a block follow each other, so that threads which share out its products wait for the one that steps: with 100
classes sixteen were no faster than four. Here nobody waits but at meetings. Weights are turned for a pass, and copies are those
of turned weights.

Sweeps go the same way, by a few threads, as many that meet seldom undo what they do: their examples have few classes, and share
these. With many classes they are made in turn (`turns`), by all.
"""

from typing import NamedTuple

import numpy as np

from ...data.gathered import by_feature, turn_into
from ...jit import vectors
from ...jit.meeting import at_one_board
from ...losses.base import own_scratch
from ...regularizers.spaces import Free, Paired, follow_unclipped, unclipped
from ...utils.blas import blas_threads
from ...utils.threads import Team
from .block_visits import BlockRoom, reach_run, visit_run
from .blocked import BlockedAscent
from .copies import Copies
from .crew import AGAIN, FOUND_GAIN, FOUND_GAP, FOUND_SPREAD
from .linear import ALONE
from .parted import PartedRows, crews, meeting_seconds
from .parts import again, reach_share, visit_share
from .sweeps import SweepRoom, sweep_some
from .turns import MOST, Queues, new_queues, sums_of, sweep_in_turn


class SweepHand(NamedTuple):
    """To sweep over the classes that have duals."""

    w: vectors.VectorTable
    room: SweepRoom
    variance: np.ndarray
    change: vectors.VectorTable


class BlockHand(NamedTuple):
    """To visit rows in blocks."""

    weights: tuple[vectors.VectorTable, ...]  # of the thread's copy: those that duals move, those that scores use
    room: BlockRoom
    variance: np.ndarray
    change: vectors.VectorTable
    sweep: SweepHand


@visit_share.register(SweepHand)
def _(hand, X, loss, space, tables, plan, visit, level):
    (duals, curvature), (_, first, last, spread) = tables, visit
    return sweep_some(X, loss, hand.w, duals, curvature, plan, hand.room, (first, last, (level, hand.variance, spread)))


@again.register(BlockHand)
def _(hand):
    return hand.sweep


@visit_share.register(BlockHand)
def _(hand, X, loss, space, tables, plan, visit, level):
    return visit_run(X.values, loss, hand.weights, *tables, plan, hand.room, (visit, level, hand.variance))


@reach_share.register(BlockHand)
def _(hand, X, loss, space, tables, plan, visit, t):
    return reach_run(X.values, loss, hand.weights[0], *tables, plan, hand.room, (visit, t, hand.variance))


class TurnTeam(NamedTuple):
    """Threads that sweep in turn, with what each of them writes to."""

    team: Team
    losses: list
    rooms: list[SweepRoom]
    queues: Queues


def table_of_copy(flat: np.ndarray, like: vectors.VectorTable) -> vectors.VectorTable:
    """A copy of turned weights as a table."""
    return vectors.VectorTable(flat.reshape(like.vectors.shape), flat.reshape(like.flat.shape))


class PartedBlocks(PartedRows, BlockedAscent):
    """A run over dense rows in blocks, on `n_jobs` threads."""

    held = (*PartedRows.held, "spread_again")
    visit_alone = BlockedAscent.visit
    visit_seconds = BlockedAscent.visit_seconds
    spread_again = ALONE  # the spread of sweeps
    sweepers, each_again = 1, 1  # threads of a sweep side by side, examples of a round of it
    taking_turns: TurnTeam | None = None

    def take(self, duals):
        super().take(duals)
        self.taking_turns = None

    @property
    def works_on(self):
        return self.duals, self.before, self.plan, self.turned

    def copies(self):
        flats = [table.flat for table in self.turned]
        space = Free(flats[0]) if len(flats) == 1 else Paired(*flats)
        variance = None
        if self.variance.size:
            variance = np.ones_like(flats[0])
            variance[:, : self.variance.size] = np.where(self.variance > 0.0, self.variance, 1.0)
            variance = variance.reshape(-1)
        copies = Copies(space, self.size, variance)
        homes = [(flats[0], flats[-1]), (flats[0], flats[0])]
        return copies, homes, [(copy, Free(unclipped(copy))) for copy in copies.spaces]

    def home(self, space, loose):
        return int(loose)

    def hand_of_one(self, pair):
        flats, room, sweeping = (unclipped(pair[0]), pair[0].w), self.room_for_block(), self.room_for_sweep()
        weights = tuple(table_of_copy(flat, like) for flat, like in zip(flats, self.turned, strict=False))
        sweep = SweepHand(weights[0], sweeping, self.variance, sweeping.change)
        return BlockHand(weights, room, self.variance, room.change, sweep)

    def round_of(self, count, times, threads):
        """As many whole blocks of each thread as that is. Threads have an example more or less than others."""
        block, each = self.options.block, super().round_of(count, times, threads) // threads
        return threads * max(each // block * block - 1, min(each, block - 1), 1)

    def visit(self, visit, level):
        if self.at_work == 1:
            return self.visit_alone(visit, level)
        with blas_threads(1):
            found = super().visit(visit, level)
        self.visited, self.met = (visit[2], level), self.met + found[0]
        return found

    def after_visits(self):
        if self.at_work > 1:  # sweeps go through what was visited, which stands where each thread listed it
            order, parts = self.plan.order, self.call_together().up_to(self.visited[0], self.at_work)
            some = np.concatenate([order[first:last] for first, last in parts])
            order[: some.size] = some
            self.visited = some.size, self.visited[1]
        super().after_visits()

    # ---- sweeps ------------------------------------------------------------------------------------------

    def way_to_sweep(self, count, held):
        """The fastest: alone, side by side or in turn."""
        tuning, weights, alone = self.options.tuning.parts, self.turned[0].flat.size, self.prices.in_sweep(held)
        best, sweepers, by_one = count * alone, 1, super().way_to_sweep(count, held)
        if self.at_work == 1:
            return by_one
        for threads in crews(min(self.at_work, tuning.sweepers), weights, tuning):
            took = count * alone / threads + tuning.sweeps * meeting_seconds(weights, threads, tuning) + tuning.order
            if took < best - tuning.gain * tuning.order:
                best, sweepers = took, threads
        if count * self.prices.in_turn(held, self.at_work) < best - tuning.gain * tuning.order:
            return self.sweep_by_turns
        if sweepers == 1:
            return by_one
        self.sweepers, self.each_again = sweepers, -(-count // tuning.sweeps)
        self.call_together().hand_out(count, sweepers)
        return self.sweep_side_by_side

    def sweep_side_by_side(self, start: int, stop: int, level: float) -> tuple[np.ndarray, int]:
        """As `sweep_alone`, a few rounds."""
        each, threads = self.each_again, self.sweepers
        end = min(start + max(1, threads * self.between_again // each) * each, stop)
        says, numbers = (self.passes, start, end, each), (level, self.spread_again)
        found = self.call_together().carry_out(AGAIN, 0, says, numbers, threads)
        self.spread_again = float(found[0, FOUND_SPREAD])
        return found[:, [FOUND_GAP, FOUND_GAIN]].sum(axis=0), end - start

    def sweep_by_turns(self, start: int, stop: int, level: float) -> tuple[np.ndarray, int]:
        """As `sweep_alone`, with all threads."""
        X, w, state, size = self.problem.X, self.turned[0], (self.duals, self.curvature, self.plan), self.at_work
        turns = self.take_turns(size)
        visit = start, min(start + turns.queues.order.size, start + size * self.between_again, stop), level, self.variance

        def in_turn(p: int, board: np.ndarray) -> None:
            sweep_in_turn(X, turns.losses[p], w, *state, turns.rooms[p], turns.queues, visit, (p, size, board))

        at_one_board(turns.team, size, in_turn)
        return sums_of(turns.queues), int(turns.queues.fitting[0])

    def take_turns(self, size: int) -> TurnTeam:
        """The team that sweeps in turn."""
        if self.taking_turns is None or self.taking_turns.team.size < size:
            losses = [self.loss, *(own_scratch(self.loss) for _ in range(size - 1))]
            queues = new_queues(min(self.problem.n_examples, MOST), self.duals.flat.shape[1])
            self.taking_turns = TurnTeam(Team(size), losses, [self.room_for_sweep() for _ in range(size)], queues)
        return self.taking_turns

    # ---- extrapolation -----------------------------------------------------------------------------------

    def reach_with(self, crew, t):
        w = self.turned[0]
        turn_into(unclipped(self.other), w)
        with blas_threads(1):
            gain = super().reach_with(crew, t)
        by_feature(w, unclipped(self.other))
        follow_unclipped(self.problem.regularizer.loose(self.other))
        return gain
