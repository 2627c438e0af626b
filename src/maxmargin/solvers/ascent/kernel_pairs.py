"""Ascent on the dual of a kernel problem with Crammer and Singer's loss, by pairs of classes.

A round takes the samples that have a share of the gap or whose mass lies in several classes, copies what the kernel matrix has
between them, and exchanges masses within pairs of classes, those with a larger part of the gap first where that leaves several
to go side by side, over and over (`class_pairs`). The first two rounds have all classes, and end early; later ones for each
sample only the few that are worth most, so that what an exchange moves is short. Then the scores of all samples and classes
follow in one matrix product with rows of the kernel matrix.

The copy is float32: a round only proposes new duals. Duals, scores and certificates are float64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...data.gram import BLOCK
from ...data.kernel_rows import KernelRows
from ...jit import vectors
from ...jit.meeting import at_one_board
from ...problems.kernel import KernelProblem, KernelRowProblem, Point
from ...utils.blas import blas_threads
from ...utils.threads import TEAMS
from ..polish.tables import KernelFinishing
from .class_pairs import (
    Copy,
    Exchange,
    Mark,
    Turns,
    climb_in_turn,
    climb_pairs,
    deal_out,
    enter,
    find_nearest,
    go_on,
    leave,
    pair_gaps,
    row_gaps,
)
from .kernel import MARGIN, KernelRun
from .smo import ABREAST
from .tuning import KERNEL_PAIRS, KernelPairTuning
from .turns import APART

TABLES = 2  # of samples x samples that a round may need at the most: the copy, and what one pair of classes takes of it


@dataclass(frozen=True)
class KernelPairOptions:
    """How a run goes about it."""

    tol: float
    seed: int
    tuning: KernelPairTuning = KERNEL_PAIRS


def round_size(problem: KernelProblem, tuning: KernelPairTuning = KERNEL_PAIRS) -> int:
    """The number of samples that a round can copy."""
    entries = tuning.copy * problem.memory / 4 / TABLES
    return max(1, min(problem.n_examples, int(np.sqrt(entries)) - MARGIN))


def has_room(problem: KernelProblem, tuning: KernelPairTuning = KERNEL_PAIRS) -> bool:
    """Whether rounds have enough samples: where they have far fewer than there are, they undo each other, and blocks of samples
    (`kernel_blocks`) are faster."""
    return round_size(problem, tuning) >= tuning.enough * problem.n_examples


def side_by_side(pairs: np.ndarray) -> np.ndarray:
    """Pairs of classes in another order: they are dealt out to rounds, each to the first one in which neither of its classes is,
    and rounds follow each other. What is near in this order may then go side by side."""
    classes = int(pairs.max(initial=-1)) + 1
    turns = np.zeros(len(pairs), np.int64)
    deal_out(pairs, np.zeros((classes, 2 * classes), bool), turns)  # a pair has at most 2 (classes - 2) others in its way
    return pairs[np.argsort(turns, kind="stable")]


def earlier(pairs: np.ndarray) -> np.ndarray:
    """Of each class of each pair, how many pairs before have it."""
    seen: dict[int, int] = {}
    found = []
    for pair in pairs.tolist():
        found.append([seen.get(j, 0) for j in pair])
        seen.update((j, seen.get(j, 0) + 1) for j in pair)
    return np.array(found)


class KernelPairs(KernelRun, KernelFinishing):
    """A run on one kernel problem; masses and scores are (classes, samples)."""

    held = (*KernelRun.held, *KernelFinishing.looked, "masses", "scores", "shares", "spread", "lead", "allowed", "sweeps")
    problem: KernelRowProblem
    average = False

    def __init__(self, problem: KernelRowProblem, duals: np.ndarray | None, options: KernelPairOptions):
        self.problem, self.options, self.warm = problem, options, duals is not None
        self.passes = self.visits = self.steps = 0
        n, classes, tuning = problem.n_examples, problem.n_labels, options.tuning
        self.rows = KernelRows(problem.gram, int((1.0 - tuning.copy) * problem.memory), None)
        self.most = round_size(problem, tuning)
        size = problem.gram.diagonal() + problem.bias**2
        self.scale = np.divide(1.0, np.sqrt(size), out=np.zeros(n), where=size > 0.0)
        self.order = np.random.default_rng(options.seed).permutation(n)  # who comes first among equals
        self.allowed = max(4 * BLOCK, int(tuning.first * n))
        self.masses, self.scores = self.own.copy(), np.zeros((classes, n))
        self.shares, self.spread, self.lead = np.zeros(n), np.zeros(n, np.int64), np.zeros(n)
        self.dual = 0.0
        if duals is not None:
            self.place(self.fresh(duals.T))
        self.look()

    @cached_property
    def own(self) -> np.ndarray:
        """All mass in the class of the sample: duals of zero."""
        found = np.zeros((self.problem.n_labels, self.problem.n_examples))
        found[self.problem.label, np.arange(self.problem.n_examples)] = self.problem.cap
        return found

    @property
    def point(self) -> Point:
        return Point(self.own - self.masses, self.scores)

    def place(self, point: Point) -> None:
        self.masses, self.scores = np.maximum(self.own - point.duals, 0.0), point.scores

    @cached_property
    def matrix(self) -> np.ndarray:
        return vectors.aligned((self.most * self.padded(self.most),), np.float32)

    @cached_property
    def exchange(self) -> Exchange:
        return self.scratch(self.most)._replace(matrix=vectors.aligned((self.most * self.padded(self.most),), np.float32))

    def scratch(self, size: int) -> Exchange:
        """Room for one pair of so many samples, but for its matrix."""
        padded = self.padded(size)
        room = vectors.aligned((0,), np.float32), vectors.aligned((6, padded), np.float32), np.zeros((3, size))
        return Exchange(np.zeros((2, size), np.uint64), *room, np.zeros(size), np.zeros(size, bool))

    def padded(self, size: int) -> int:
        width = ABREAST * vectors.width(np.float32)
        return -(-size // width) * width

    def look(self) -> None:
        problem = self.problem
        row_gaps(self.scores, self.masses, (problem.label, problem.cap, problem.cost), self.shares, self.spread, self.lead)
        self.dual = problem.dual(self.point)

    def advance(self, stop: Callable[[], bool]) -> float:
        """One round; returns the gap. Threads of BLAS would stay on the cores of our own for a while after every sum."""
        with blas_threads(1):
            return self.go_round(stop)

    def go_round(self, stop: Callable[[], bool]) -> float:
        before, scores, dual, gap = self.masses.copy(), self.scores, self.dual, float(self.shares.sum())
        self.scores = scores.copy()
        self.settle_flat()
        chosen = self.choose()
        chosen = chosen[self.rows.need(chosen, stop) >= 0]
        if chosen.size:
            self.improve(chosen, stop)
        self.add(before - self.masses)
        self.allowed *= self.options.tuning.growth
        self.passes += 1
        self.visits += self.problem.n_examples
        self.look()
        if self.dual < dual and float(self.shares.sum()) > gap:  # float32 knows no better
            self.masses, self.scores = before, scores
            self.look()
        self.note(float(self.shares.sum()))
        return float(self.shares.sum())

    def accelerate(self) -> None:
        self.polished()

    def settle(self, point: Point) -> None:
        self.place(point)
        self.look()

    def settle_flat(self) -> None:
        """Samples that move no score of their own have all their mass where it is worth most."""
        flat = np.flatnonzero(self.scale == 0.0)
        worth = self.scores[:, flat] + self.problem.cost[self.problem.label[flat]].T
        self.masses[:, flat] = 0.0
        self.masses[worth.argmax(axis=0), flat] = self.problem.cap[flat]

    def choose(self) -> np.ndarray:
        """Whose rows to work on, as far as memory and the round allow: half of them those with the largest share of the gap, then
        those whose mass is spread, which answer them."""
        tuning = self.options.tuning
        calm = tuning.calm * self.options.tol * abs(self.dual) / self.problem.n_examples
        soon = self.lead < (tuning.slack if self.passes else 0.0)
        near = ((self.shares > calm) | (self.spread > 1) | soon) & (self.scale > 0.0)
        ranked = self.order[np.argsort(-self.shares[self.order], kind="stable")]
        ranked = ranked[near[ranked]]
        limit = min(self.rows.capacity, self.most, self.allowed)
        if ranked.size > limit:
            first, later = np.split(ranked, [-(-limit // 2)])
            answering = np.argsort(self.spread[later] <= 1, kind="stable")
            ranked = np.concatenate([first, later[answering][: limit - first.size]])
        return np.sort(ranked)

    def improve(self, chosen: np.ndarray, stop: Callable[[], bool]) -> None:
        """Better masses for these samples."""
        tuning, classes, target = self.options.tuning, self.problem.n_labels, 0.0
        copy, before, now = self.copied(chosen)
        best, gaps = np.zeros(chosen.size, np.int64), np.zeros((classes, classes))
        for sweep in range(tuning.sweeps):
            pair_gaps(copy, best, gaps)
            gap = gaps.sum()
            if sweep == 0:
                goal = tuning.goal * self.options.tol * abs(self.dual)
                target = min(max(goal, (tuning.rest if self.passes < 2 else tuning.later) * gap), tuning.most * gap)
            if gap <= target or stop():
                break
            self.sweeps += 1
            self.sweep(copy, np.triu(gaps + gaps.T), gap, stop)
            if self.passes >= tuning.wide and sweep % tuning.every == tuning.every - 1:
                go_on(copy, before, now)
                before, now = now, before
        leave(copy, chosen, self.masses)

    def sweep(self, copy: Copy, gaps: np.ndarray, gap: float, stop: Callable[[], bool]) -> None:
        """Each pair of classes once that has a part of the gap."""
        tuning, classes = self.options.tuning, self.problem.n_labels
        least = tuning.least * gap / (classes * (classes - 1) // 2)
        wanted = np.flatnonzero(gaps > least)
        wanted = wanted[np.argsort(-gaps.reshape(-1)[wanted], kind="stable")]
        pairs = side_by_side(np.column_stack(np.divmod(wanted, classes)))
        size = len(self.seats)
        for start in range(0, len(pairs), size * tuning.together):
            if stop():
                break
            part = pairs[start : start + size * tuning.together]
            if size > 1:
                self.meet(copy, part, least)
            else:
                self.steps += climb_pairs(copy, part, self.exchange, least, tuning.pair_rest, tuning)

    def meet(self, copy: Copy, pairs: np.ndarray, least: float) -> None:
        """The same with threads, each with its piece of the room for matrices; a pair that has no room there has all of it."""
        while len(pairs):
            pairs = pairs[~self.climb_together(copy, pairs, least)]
            alone, pairs = pairs[:1], pairs[1:]
            self.steps += climb_pairs(copy, alone, self.exchange, least, self.options.tuning.pair_rest, self.options.tuning)

    def climb_together(self, copy: Copy, pairs: np.ndarray, least: float) -> np.ndarray:
        """Pairs in turn; returns which of them were done: those before one that has no room."""
        tuning, size = self.options.tuning, len(self.seats)
        before, done = earlier(pairs), np.zeros(len(pairs), bool)
        ended = np.zeros(APART * self.problem.n_labels, np.int64)

        def climb(p: int, board: np.ndarray) -> int:
            turns = Turns(before, ended, done, board)
            return climb_in_turn(copy, pairs, turns, self.seats[p], least, tuning.pair_rest, tuning)

        with TEAMS.at_work(size) as team:
            self.steps += sum(at_one_board(team, size, climb))
        return done

    @cached_property
    def seats(self) -> list[Exchange]:
        """Room for as many pairs as there may be at a time."""
        count = max(1, min(self.n_jobs, self.problem.n_labels // 2))
        size = self.exchange.matrix.size // count // MARGIN * MARGIN
        return [self.scratch(self.most)._replace(matrix=self.exchange.matrix[p * size : (p + 1) * size]) for p in range(count)]

    def copied(self, chosen: np.ndarray) -> tuple[Copy, Mark, Mark]:
        """What a round has of these samples, with nothing of the matrix in it yet, a mark of it and room for another."""
        size, classes, width = chosen.size, self.problem.n_labels, vectors.width(np.float32)
        worth, masses = self.scores[:, chosen] + self.problem.cost[self.problem.label[chosen]].T, self.masses[:, chosen]
        inside = self.within_reach(worth, masses)
        count, one = inside.sum(axis=1), bool(inside.all())
        first = np.r_[0, np.cumsum([self.padded(k) for k in count.tolist()])]
        entries, samples = int(first[-1]), (chosen, self.rows.slot[chosen], self.scale[chosen])
        drift = [vectors.zeros_vectors(1, entries // width, np.float32) for _ in range(3)]
        copy = Copy(
            first=first,
            sizes=count,
            who=np.zeros(entries, np.uint64),
            at=np.empty((classes, size), np.int64),
            table=self.rows.table,
            place=np.zeros(entries, np.uint64),
            column=np.zeros(entries, np.uint64),
            constant=self.problem.bias**2,
            scale=np.empty(entries),
            worth=np.zeros(entries),
            drift=drift[0],
            masses=np.zeros(entries),
            holders=np.zeros(entries, np.uint64),
            holding=np.zeros(classes, np.int64),
            listed=np.zeros(entries, bool),
            matrix=self.matrix.reshape(1, -1, width),
            row=np.zeros(entries, np.uint64),
            flag=np.zeros(entries, np.uint64),
            ready=np.zeros(size if one else int(count.sum()), np.int64),
            sums=np.zeros((2, size)),
        )
        enter(copy, inside, (worth, masses), samples, one)
        return copy, Mark(copy.masses.copy(), drift[1]), Mark(np.zeros(entries), drift[2])

    def within_reach(self, worth: np.ndarray, masses: np.ndarray) -> np.ndarray:
        """Which classes (classes, samples) may have mass of a sample in this round: all in the first ones; from then on those
        that have, and those that are worth most, if there is room for what the kernel matrix has between them."""
        found = np.ones(worth.shape, bool)
        if self.passes >= self.options.tuning.wide and self.options.tuning.nearest < worth.shape[0]:
            find_nearest(worth, masses, np.empty((self.options.tuning.nearest, worth.shape[1])), found)
            if sum(k * self.padded(k) for k in found.sum(axis=1).tolist()) > self.matrix.size:
                found[:] = True
        return found

    def add(self, change: np.ndarray) -> None:
        """Scores after the duals have changed."""
        moved = np.flatnonzero(change.any(axis=0))
        self.scores += self.rows.product(change, moved) + self.problem.bias**2 * change.sum(axis=1)[:, None]

    def synchronise(self) -> float:
        """From scratch: feasible duals, and their scores."""
        self.place(self.fresh(self.point.duals))
        self.look()
        return self.dual

    def candidates(self) -> list[Point]:
        return [Point(self.point.duals, self.scores.copy())]

    def left(self) -> np.ndarray:
        return self.point.duals.T.copy()
