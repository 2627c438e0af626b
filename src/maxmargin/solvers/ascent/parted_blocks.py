"""Blocks of dense rows of several threads side by side, on one set of weights: see `shared_blocks`.

Weights are turned for a pass. Sweeps go side by side too, by a few threads on copies of the turned weights (`parted`), as many
that meet seldom undo what they do: their examples have few classes, and share these. With many classes they are made in turn
(`turns`), by all.
"""

from typing import NamedTuple

import numpy as np

from ...data.gathered import by_feature, turn_into
from ...jit import vectors
from ...jit.meeting import at_one_board
from ...losses.base import own_scratch
from ...regularizers.spaces import Free, follow_unclipped, unclipped
from ...utils.blas import blas_threads
from ...utils.threads import Team
from .blocked import BlockedAscent
from .copies import Copies
from .crew import AGAIN, FOUND_GAIN, FOUND_GAP, FOUND_SPREAD
from .linear import ALONE
from .parted import PartedRows, crew_sizes, crews, meeting_seconds
from .parts import retreat_share, visit_share
from .shared_blocks import SharedHand, as_table, new_stacks, room_in_stacks, serve_blocks
from .sweeps import SweepRoom, retreat_held, sweep_room, sweep_some
from .turns import MOST, Queues, new_queues, sums_of, sweep_in_turn


class SweepHand(NamedTuple):
    """To sweep over the classes that have duals."""

    w: vectors.VectorTable  # of the thread's copy
    room: SweepRoom
    variance: np.ndarray


@visit_share.register(SweepHand)
def _(hand, X, loss, space, tables, plan, visit, level):
    _, first, last, spread = visit
    return sweep_some(X, loss, hand.w, tables, plan, hand.room, (first, last, (level, hand.variance, spread)))


@retreat_share.register(SweepHand)
def _(hand, loss, tables, plan, span, t):
    return retreat_held(loss, tables[0], tables[1], plan, hand.room, span, t)


class TurnTeam(NamedTuple):
    """Threads that sweep in turn, with what each of them writes to."""

    team: Team
    losses: list
    rooms: list[SweepRoom]
    queues: Queues


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
        """Copies for sweeps."""
        flat, variance = self.turned[0].flat, None
        if self.variance.size:
            variance = np.ones_like(flat)
            variance[:, : self.variance.size] = np.where(self.variance > 0.0, self.variance, 1.0)
            variance = variance.reshape(-1)
        sweepers = max(crews(self.most_sweepers(self.size), flat.size, self.options.tuning.parts), default=1)
        copies = Copies(Free(flat), sweepers, variance)
        return copies, [(flat, flat)], [(copy, copy) for copy in copies.spaces]

    def home(self, space, loose):
        return 0

    def seats(self, posts, spaces):
        X, n, classes, moves = self.problem.X, self.problem.n_examples, self.problem.n_classes, self.problem.regularizer.moves
        tables = self.duals, self.before, vectors.zeros_table(n, classes, self.dtype), self.curvature
        few, visits = self.options.tuning.parts.features, self.of_a_round(n)
        stacks = new_stacks(len(posts), self.room_for_block(), moves, self.variance, few)
        seats = []
        for p, post in enumerate(posts):
            room, space = room_in_stacks(stacks, p, self.room_for_block()), spaces[min(p, len(spaces) - 1)][0]
            loss = own_scratch(self.loss) if p else self.loss
            sweep = SweepHand(as_table(space.w, self.turned[0]), sweep_room(loss, classes, self.dtype, visits), self.variance)
            hand = SharedHand(room, as_table(stacks.follows[p], room.wide), self.variance, stacks, space, sweep)
            seats.append((X, loss, tuple(self.turned), tables, self.plan, hand, post))
        return serve_blocks, seats

    # ---- how many threads, and how often they meet -------------------------------------------------------

    def pass_of(self, count: int, threads: int) -> tuple[float, int]:
        """Seconds that so many threads take for a pass over `count` examples, and what it loses beside a pass of one; and the
        examples of a block for which that is least."""
        tuning, sizes = self.options.tuning, self.options.tuning.blocks.sizes
        meeting = tuning.parts.thread * threads + tuning.parts.squared * self.turned[0].flat.size / threads

        def seconds(rows: int) -> float:
            times = max(count, 1) / (threads * rows)
            took = count / threads * (self.prices.in_block(rows) + self.prices.step()) + times * meeting + tuning.parts.order
            return took * (1.0 + tuning.parts.lost * threads / times)

        best = min([rows for rows in sizes if rows < self.options.block] + [self.options.block], key=seconds)
        return seconds(best), best

    def threads_for(self, count, most):
        tuning, alone = self.options.tuning.parts, count * self.visit_seconds
        best, found = alone, 1
        for threads in crew_sizes(most):
            took, _ = self.pass_of(count, threads)
            if count >= tuning.fewest * threads and took < best and alone - took >= tuning.gain * tuning.order:
                best, found = took, threads
        return found

    def round_of(self, count, threads):
        """So many that the longest list has a block of them: lists that threads made themselves differ."""
        _, rows = self.pass_of(count, threads)
        longest = max(length for _, length in self.call_together().lists()[:threads])
        return max(1, count * min(rows, self.problem.n_examples) // max(longest, 1))

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

    def most_sweepers(self, threads: int) -> int:
        """How many of so many threads may sweep side by side: none where nobody sweeps."""
        return min(threads, self.options.tuning.parts.sweepers) if self.problem.loss.selective else 1

    def of_a_round(self, count: int) -> int:
        """Of so many examples that are swept over side by side."""
        return -(-count // self.options.tuning.parts.sweeps)

    def way_to_sweep(self, count, held):
        """The fastest: alone, side by side or in turn."""
        tuning, weights, alone = self.options.tuning.parts, self.turned[0].flat.size, self.prices.in_sweep(held)
        best, sweepers, by_one = count * alone, 1, super().way_to_sweep(count, held)
        if self.at_work == 1:
            return by_one
        for threads in crews(self.most_sweepers(self.at_work), weights, tuning):
            took = count * alone / threads + tuning.sweeps * meeting_seconds(weights, threads, tuning) + tuning.order
            if took < best - tuning.gain * tuning.order:
                best, sweepers = took, threads
        if count * self.prices.in_turn(held, self.at_work) < best - tuning.gain * tuning.order:
            return self.sweep_by_turns
        if sweepers == 1:
            return by_one
        self.sweepers, self.each_again = sweepers, self.of_a_round(count)
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
