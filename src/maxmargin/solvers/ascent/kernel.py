"""Ascent on the dual of a kernel problem: SMO on the samples that matter, label by label, with delayed gradients.

It serves losses that are quadratic in pieces, of labels, two classes or real targets; `kernel_blocks` says who serves others.
A round (after Hariharan et al. 2012) takes the labels in batches that the prior does not couple; with R = I that is all of them
at once. For each label the samples that can gain or that lie inside their box are collected, what the kernel matrix has
between them is copied row by row as needed, and sequential minimal optimisation runs on the copy (`smo.py`). Then the scores of
all samples and labels are brought up to date with the duals in one matrix product.

The copy is float32: a round only proposes new duals. Duals, scores and certificates are float64, so rounding in one round is put
right by the next. Rows of the kernel matrix are computed when a sample first matters in any label, and are shared by all labels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from queue import SimpleQueue

import numpy as np

from ...data.gram import BLOCK
from ...data.kernel_rows import KernelRows, indefinite
from ...problems.kernel import KernelProblem, KernelScalarProblem, Point
from ...result import TINY
from ...utils.threads import in_threads
from ..base import Run
from ..polish.tables import KernelFinishing
from .smo import AWAY, NEAR, SOON, Pieces, RowsSource, ScaledSource, State, View, Workspace, climb, look_at, put_at_bounds
from .tuning import KERNEL, KernelTuning

LAST_DIGITS = 1e-9  # part of a value that rounding may be
NO_STEPS = 0, 0
MARGIN = 32  # entries by which a row of a copy may be longer than asked for


@dataclass(frozen=True)
class KernelOptions:
    """How a run goes about it. Weights are those of the duals, there is no average of them."""

    tol: float
    seed: int
    average: bool = False
    tuning: KernelTuning = KERNEL


def batches(correlation: np.ndarray) -> list[np.ndarray]:
    """The labels in groups within which none is coupled to another: each in the first group that takes it."""
    groups: list[list[int]] = []
    for label in range(correlation.shape[0]):
        for group in groups:
            if not np.any(correlation[label, group]):
                group.append(label)
                break
        else:
            groups.append([label])
    return [np.array(group) for group in groups]


class KernelRun(Run):
    """A run on a kernel problem: what it has in memory of the kernel matrix."""

    held = (*Run.held, "kept_rows")
    problem: KernelProblem
    rows: KernelRows

    @property
    def n_jobs(self) -> int:
        """Threads for rows of the matrix, and for labels where a run takes several at once."""
        return self.rows.n_jobs

    @n_jobs.setter
    def n_jobs(self, count: int) -> None:
        self.rows.n_jobs = count

    @property
    def kept_rows(self) -> np.ndarray:
        """Which rows are in memory, place by place."""
        return self.rows.owner

    @kept_rows.setter
    def kept_rows(self, owner: np.ndarray) -> None:
        self.rows.restore(owner)

    def doubt(self) -> str | None:
        """Why the dual value may be no lower bound: the kernel is not positive semidefinite, or its values are too large."""
        proves = "so the dual value is no lower bound and the gap proves nothing."
        if not self.problem.gram.definite and indefinite(self.rows):
            return f"The kernel matrix is not positive semidefinite, {proves}"
        if self.dual > (1.0 + LAST_DIGITS) * self.problem.primal_at_zero():
            return f"The dual value is above what zero weights cost: the kernel matrix is too large for float64, {proves}"
        return None

    def primal(self, point: Point, n_jobs: int) -> float:
        return self.problem.primal(point, n_jobs)

    def scored(self, duals: np.ndarray) -> np.ndarray:
        """R B (K + bias^2), from scratch: the scores of duals (labels, samples)."""
        found = self.rows.product(duals, np.flatnonzero(duals.any(axis=0)))
        found += self.problem.bias**2 * duals.sum(axis=1)[:, None]
        result: np.ndarray = self.problem.correlation @ found
        return result

    def fresh(self, duals: np.ndarray) -> Point:
        """The feasible duals nearest to these, (labels, samples), and their scores."""
        duals = np.ascontiguousarray(self.problem.clipped(duals.T).T)
        return Point(duals, self.scored(duals))


class KernelAscent(KernelRun, KernelFinishing):
    """A run on one kernel problem: its duals, its scores and the rows in memory."""

    held = (*KernelRun.held, *KernelFinishing.looked, "steps", "stepped", "state", "view", "allowed")
    problem: KernelScalarProblem

    def __init__(self, problem: KernelScalarProblem, duals: np.ndarray | None, options: KernelOptions):
        self.problem, self.options, self.average = problem, options, options.average
        self.warm = duals is not None
        self.passes = self.visits = self.steps = 0
        n, labels = problem.n_examples, problem.n_labels
        # The scale of a dual that its loss curves too is not that of the kernel: no rows are kept scaled.
        shift = None if problem.loss.steep else problem.bias**2
        self.rows = KernelRows(problem.gram, int((1.0 - options.tuning.copy) * problem.memory), shift)
        self.batches = batches(problem.correlation)
        diagonal = problem.gram.diagonal() + problem.bias**2
        curvature = np.maximum(np.diag(problem.correlation)[:, None] * diagonal, 0.0)
        self.flat = np.any(curvature <= 0.0, axis=1)
        self.order = np.random.default_rng(options.seed).permutation(n)  # who comes first among equals
        self.duals = np.zeros((labels, n)) if duals is None else np.array(duals.T, order="C")
        self.scores = np.zeros((labels, n))
        self.state = State(self.duals, self.scores, curvature, np.zeros((labels, n)))
        self.view = View(np.zeros((labels, n), np.uint8), np.zeros((labels, n)), np.zeros(labels))
        self.dual = 0.0
        self.allowed = max(4 * BLOCK, int(options.tuning.first * n))
        if duals is not None:
            self.add(np.arange(labels), self.duals)
        self.look(np.arange(labels))

    @cached_property
    def workspaces(self) -> "SimpleQueue[Workspace]":
        """One for each thread."""
        found: SimpleQueue[Workspace] = SimpleQueue()
        for _ in range(self.n_jobs):
            found.put(Workspace(self.most))
        return found

    @cached_property
    def most(self) -> int:
        """The number of samples that a copy can hold."""
        entries = self.options.tuning.copy * self.problem.memory / 4 / self.n_jobs
        return max(1, min(self.problem.n_examples, int(np.sqrt(entries)) - MARGIN))

    @property
    def rest(self) -> np.ndarray:
        """What a round should leave of the gap of each label, as a part of it; one where the label is done."""
        tuning = self.options.tuning
        goal = tuning.goal * self.options.tol * abs(self.dual) / self.problem.n_labels
        wanted = goal / np.maximum(self.view.gaps, max(goal, TINY))  # at most one: a gap may be zero
        return np.where(wanted >= 1.0, 1.0, np.clip(wanted, tuning.rest if self.passes < 2 else tuning.later, tuning.most))

    def look(self, labels: np.ndarray) -> None:
        """Gaps and gains of these labels."""
        look_at(self.problem.exact_loss, labels, self.state, self.view, self.options.tuning.slack if self.passes else 0.0)

    def advance(self, stop: Callable[[], bool]) -> float:
        """One round; returns the gap."""
        for k, batch in enumerate(self.batches):
            if stop():
                break
            if k:  # the batches before have changed its scores
                self.look(batch)
            self.improve(batch, stop)
        self.allowed *= self.options.tuning.growth
        self.passes += 1
        self.visits += self.problem.n_examples
        self.look(np.arange(self.problem.n_labels))
        self.dual = self.problem.dual(Point(self.duals, self.scores))
        gap = float(self.view.gaps.sum())
        self.note(gap)
        return gap

    def improve(self, batch: np.ndarray, stop: Callable[[], bool]) -> None:
        """Better duals for these labels, as many of them as there is time for, then scores to match."""
        rest = self.rest[batch]
        chosen = self.choose(batch[rest < 1.0])
        at = np.full(chosen.size, -1)
        at[chosen] = self.rows.need(np.flatnonzero(chosen), stop)
        chosen = at >= 0
        self.state.change[batch] = 0.0

        def work(k: int) -> tuple[int, int]:
            return NO_STEPS if stop() else self.climb(batch[k], chosen, at, rest[k])

        made = in_threads(work, range(batch.size), self.n_jobs)
        self.steps += sum(steps for steps, _ in made)
        self.stepped += float(sum(steps * size for steps, size in made))
        self.add(batch, self.state.change[batch])

    def choose(self, batch: np.ndarray) -> np.ndarray:
        """Whose rows to work on: all that are near in some label, as far as memory and the round allow.

        Where not all can be, half of them are new: those that gain most; the rest answer them."""
        held = self.rows.held()
        kinds = self.view.near[batch]
        near = np.any(kinds == NEAR, axis=0) | (np.any(kinds == SOON, axis=0) & held)
        limit = min(self.rows.capacity, self.allowed)
        if np.count_nonzero(near) <= limit:
            return near
        gain = self.view.gains[batch].sum(axis=0)
        chosen = np.zeros(near.size, bool)
        ranked = self.order[np.argsort(-gain[self.order], kind="stable")]
        ranked = ranked[near[ranked]]
        held = held[ranked]
        fresh = ranked[~held][: limit if not held.any() else max(1, limit // 2)]
        chosen[fresh] = True
        chosen[ranked[held][: limit - fresh.size]] = True
        return chosen

    def climb(self, label: int, chosen: np.ndarray, at: np.ndarray, rest: float) -> tuple[int, int]:
        """SMO for one label on its samples among the chosen; returns the number of steps, and of these samples."""
        problem = self.problem
        if self.flat[label]:
            put_at_bounds(problem.exact_loss, label, self.state)
        if rest >= 1.0:
            return NO_STEPS
        near = np.flatnonzero((self.view.near[label] != AWAY) & chosen)
        if near.size > self.most:
            near = np.sort(near[np.argsort(-self.view.gains[label, near], kind="stable")[: self.most]])
        if near.size == 0:
            return NO_STEPS
        workspace = self.workspaces.get()
        pieces = workspace.pieces(near.size, problem.exact_loss, label * problem.n_examples)
        source = self.source(label, at[near], near, pieces)
        steps = climb(problem.exact_loss, label, self.state, workspace.part(near.size), source, rest, self.options.tuning)
        self.workspaces.put(workspace)
        return steps, near.size

    def source(self, label: int, places: np.ndarray, near: np.ndarray, pieces: Pieces) -> RowsSource | ScaledSource:
        """Where the copy of a label comes from."""
        scaled_rows = self.rows.scaled_rows
        if scaled_rows is not None:
            return ScaledSource(scaled_rows.table, places, near.view(np.uint64), pieces)
        factor = float(self.problem.correlation[label, label])
        return RowsSource(self.rows.table, places, near.view(np.uint64), pieces, factor, self.problem.bias**2)

    def add(self, batch: np.ndarray, change: np.ndarray) -> None:
        """Scores of all labels after the duals of a batch have changed."""
        R = self.problem.correlation[:, batch]
        change = change * np.any(R, axis=0)[:, None]
        moved = np.flatnonzero(change.any(axis=0))
        total = self.rows.product(change, moved)
        if self.problem.bias:
            total += self.problem.bias**2 * change.sum(axis=1)[:, None]
        own = R[batch].diagonal()
        if np.count_nonzero(R) == np.count_nonzero(own):  # these labels move no scores but their own
            self.scores[batch] += own[:, None] * total
        else:
            self.scores += R @ total

    def accelerate(self) -> None:
        self.polished()

    def settle(self, point: Point) -> None:
        self.duals[:], self.scores[:] = point
        self.look(np.arange(self.problem.n_labels))
        self.synchronise()

    def wake(self) -> None:
        """Nobody rests."""

    def refine(self) -> None:
        """Scores are float64 as it is."""

    def synchronise(self) -> float:
        self.dual = self.problem.dual(Point(self.duals, self.scores))
        return self.dual

    def candidates(self) -> list[Point]:
        return [Point(self.duals.copy(), self.scores.copy())]

    def left(self) -> np.ndarray:
        return self.duals.T.copy()
