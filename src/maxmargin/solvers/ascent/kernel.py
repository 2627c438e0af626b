"""Ascent on the dual of a kernel multi-label problem: SMO on the samples that matter, label by label, with delayed gradients.

A round (after Hariharan et al. 2012) takes the labels in batches that the prior does not couple; with R = I that is all of them
at once. For each label the samples that can gain or that lie inside their box are collected, what the kernel matrix has
between them is copied row by row as needed, scaled to a unit diagonal, and sequential minimal optimisation runs on the copy:

    i, j = the samples whose own steps gain most, by second order and within their boxes, one from each half of the samples
    both go to the best point of their plane within their boxes

Then the scores of all samples and labels are brought up to date with the duals in one matrix product. The copy and the gradient
in it are float32: a round only proposes new duals. Duals, scores and certificates are float64, so rounding in one round is put
right by the next. Rows of the kernel matrix are computed when a sample first matters in any label, and are shared by all labels.
"""

from collections.abc import Callable
from functools import cached_property
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np

from ...data.gram import BLOCK, Rows, indefinite
from ...jit import generic, jitable, jitable_call, kernel, vectors
from ...losses.base import reward, value
from ...losses.hinge import Hinge
from ...losses.squared_hinge import SquaredHinge
from ...problems.kernel import KernelMultilabelProblem, Point
from ...result import TINY
from ...utils.threads import in_threads
from ..base import Run
from ..dual_coordinate import begin
from .linear import AscentOptions

COPY = 0.125  # part of the memory that copies may take
FIRST, GROWTH = 0.25, 4  # part of the samples in the first round, and how much more of them each time
REST, LATER = 0.05, 0.001  # the least that a round should leave of the gap of a copy; the second one from the third round on
# (the first lacks samples, the second starts from scores that are far off: exactness would be wasted on them)
MOST = 0.5  # and the most
SLACK = 0.08  # slopes so small may change their sign within a round: these samples take part, if their rows are here
FAR, SOON, NEAR = 0, 1, 2
GOAL = 0.6  # a label is done when its gap is below this part of its share of the target
PATIENCE = 30  # steps a sample of a copy at the most
LOOK = 64  # steps between two looks at the gap of a copy
HUGE = 1e30  # stands for infinity where a product with zero must be zero
FLAT = 1e-3  # the smallest curvature of a pair
ROUNDING = 1e-12  # part of the first gain in a copy that float32 cannot tell from nothing
MARGIN = 16  # entries by which a row of a copy may be longer than asked for
HALVES = 2  # of the samples of a copy, vectors in turn: of each the best sample moves


@generic
def bounds(loss, k):
    """The lowest and the highest signed dual."""


@generic
def softness(loss, k):
    """What the loss itself adds to the curvature."""


@bounds.register(Hinge)
def _(loss, k):
    return min(loss.sign[k] * loss.cap[k], 0.0), max(loss.sign[k] * loss.cap[k], 0.0)


@softness.register(Hinge)
def _(loss, k):
    return 0.0


@bounds.register(SquaredHinge)
def _(loss, k):
    far = HUGE if loss.cap[k] > 0.0 else 0.0
    return min(loss.sign[k] * far, 0.0), max(loss.sign[k] * far, 0.0)


@softness.register(SquaredHinge)
def _(loss, k):
    return 0.5 / loss.cap[k] if loss.cap[k] > 0.0 else 0.0


class State(NamedTuple):
    """Where the duals stand; all (labels, samples). curvature: of each dual alone; change: what a round has added to them."""

    duals: np.ndarray
    scores: np.ndarray
    curvature: np.ndarray
    change: np.ndarray


class View(NamedTuple):
    """What a survey finds; (labels, samples), and gaps by label.

    gains: of a step of each dual alone; near: NEAR where it can gain or go along inside its box, SOON where it may before long
    """

    near: np.ndarray
    gains: np.ndarray
    gaps: np.ndarray


@kernel
def survey(loss, labels, state, view, slack):
    for label in labels:
        view.gaps[label] = survey_label(loss, label, state, view, slack)


@jitable_call
def survey_label(loss, label, state, view, slack):
    """Returns the gap of the label."""
    n = state.duals.shape[1]
    near, gains = view.near[label], view.gains[label]
    gap = 0.0
    for i in range(n):
        k = label * n + i
        b, s = state.duals[label, i], state.scores[label, i]
        low, high = bounds(loss, k)
        soft = softness(loss, k)
        slope = loss.sign[k] * loss.margin[k] - s - soft * b
        h = state.curvature[label, i] + soft
        if h > 0.0:
            d = min(max(slope / h, low - b), high - b)
        else:
            d = high - b if slope > 0.0 else low - b if slope < 0.0 else 0.0
        gains[i] = d * (slope - 0.5 * d * h)
        gap += value(loss, k, s) - reward(loss, k, b) + b * s
        near[i] = FAR
        if h > 0.0 and (gains[i] > 0.0 or low < b < high):
            near[i] = NEAR
        elif h > 0.0 and low < high and abs(slope) < slack:
            near[i] = SOON
    return gap


@kernel
def settle(loss, label, state):
    """Duals that move no score of their own sit at the bound that their slope points to."""
    n = state.duals.shape[1]
    for i in range(n):
        k = label * n + i
        if state.curvature[label, i] + softness(loss, k) <= 0.0:
            low, high = bounds(loss, k)
            slope, old = loss.sign[k] * loss.margin[k] - state.scores[label, i], state.duals[label, i]
            new = high if slope > 0.0 else low if slope < 0.0 else old
            state.change[label, i], state.duals[label, i] = new - old, new


class Part(NamedTuple):
    """A label's problem on some samples in float32, scaled so that every curvature is one. Lane arrays but for the last two.

    slope: of the dual value; low, high: how far each dual may go yet; weight: of slope^2 in the gap of a squared loss;
    scale: of each dual; gathered: a row on its way into the matrix; moved: by how much each dual has moved; ready: whether
    its row of the matrix is there
    """

    matrix: np.ndarray
    slope: np.ndarray
    low: np.ndarray
    high: np.ndarray
    weight: np.ndarray
    scale: np.ndarray
    gathered: np.ndarray
    moved: np.ndarray
    ready: np.ndarray


@jitable_call
def copy_part(loss, label, state, near, part):
    """Fill all of the part but its matrix, for the samples `near`."""
    n = state.duals.shape[1]
    slope, low, high, weight, scale, gathered = (
        part.slope[0].reshape(-1),
        part.low[0].reshape(-1),
        part.high[0].reshape(-1),
        part.weight[0].reshape(-1),
        part.scale[0].reshape(-1),
        part.gathered[0].reshape(-1),
    )
    for p in range(slope.size):
        slope[p], low[p], high[p], weight[p], scale[p], gathered[p] = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for p in range(near.size):
        i = np.int64(near[p])
        k = label * n + i
        lowest, highest = bounds(loss, k)
        soft = softness(loss, k)
        root = np.sqrt(state.curvature[label, i] + soft)
        b = state.duals[label, i]
        scale[p] = 1.0 / root
        slope[p] = (loss.sign[k] * loss.margin[k] - state.scores[label, i] - soft * b) / root
        low[p] = max((lowest - b) * root, -HUGE)
        high[p] = min((highest - b) * root, HUGE)
        weight[p] = loss.cap[k] * root * root if soft > 0.0 else HUGE


class Source(NamedTuple):
    """Where the matrix of a part comes from: factor (table[places] + constant) between `near`, scaled on both sides."""

    table: np.ndarray
    places: np.ndarray
    near: np.ndarray
    factor: float
    constant: float


class ScaledSource(NamedTuple):
    """table[places] between `near`, scaled as it should be."""

    table: np.ndarray
    places: np.ndarray
    near: np.ndarray


@generic
def copy_row(source, p, part):
    """Row p of the matrix of a part: copied when the sample first moves, as many never do."""


@copy_row.register(ScaledSource)
def _(source, p, part):
    row, out = np.uint64(source.places[p]), part.matrix.reshape(part.matrix.shape[0], -1)[p]
    for q in range(source.near.size):
        out[q] = source.table[row, source.near[q]]
    out[p] = 1.0


@copy_row.register(Source)
def _(source, p, part):
    # First what is wanted of a row, then its scale: only the second step is one for vectors.
    row, out = np.uint64(source.places[p]), np.uint64(p)
    gathered = part.gathered.reshape(-1)
    for q in range(source.near.size):
        gathered[q] = source.table[row, source.near[q]]
    zero, left = vectors.zeros_like(part.scale), source.factor * part.scale.reshape(-1)[p]
    for b in range(np.uint64(part.scale.shape[1])):
        value = vectors.fma(zero, left, vectors.shift(vectors.load(part.gathered, 0, b), source.constant))
        vectors.store(part.matrix, out, b, vectors.multiply(value, vectors.load(part.scale, 0, b)))
    part.matrix.reshape(part.matrix.shape[0], -1)[p, p] = 1.0


@jitable
def part_gap(slope, low, high, weight):
    total = 0.0
    for p in range(slope.size):
        g = slope[p]
        total += max(g * low[p], min(g * high[p], weight[p] * g * g))
    return total


@jitable
def sweep_vector(part, i, s, j, t, b):
    """slope -= s K_i + t K_j in one vector; returns the gains that steps alone would bring."""
    g = vectors.fma(vectors.load(part.slope, 0, b), -t, vectors.load(part.matrix, j, b))
    g = vectors.fma(g, -s, vectors.load(part.matrix, i, b))
    vectors.store(part.slope, 0, b, g)
    d = vectors.clamp(g, vectors.load(part.low, 0, b), vectors.load(part.high, 0, b))
    return vectors.multiply(d, vectors.fma(g, -0.5, d))


@jitable
def sweep(part, i, s, j, t):
    """slope -= s K_i + t K_j; returns the best gain in each half of the vectors, even and odd, and the vector it was found in."""
    i, j, two, one = np.uint64(i), np.uint64(j), np.uint64(HALVES), np.uint64(1)
    s, t = part.slope.dtype.type(s), part.slope.dtype.type(t)
    first = second = part.slope.dtype.type(0)
    even, odd = np.uint64(0), np.uint64(1)
    for half in range(np.uint64(part.slope.shape[1]) // two):
        b = half * two
        gain = vectors.largest(sweep_vector(part, i, s, j, t, b))
        if gain > first:
            first, even = gain, b
        gain = vectors.largest(sweep_vector(part, i, s, j, t, b + one))
        if gain > second:
            second, odd = gain, b + one
    return first, even, second, odd


@jitable
def best_of(slope, low, high, start, stop):
    """The entry whose step alone gains most; the last one where there are none."""
    top, best = -1.0, stop - 1
    for p in range(start, stop):
        d = min(max(slope[p], low[p]), high[p])
        gain = d * (slope[p] - 0.5 * d)
        if gain > top:
            top, best = gain, p
    return best


@kernel
def climb(loss, label, state, part, source, rest):
    """SMO for one label on some samples until their gap is this part of what it was; returns the number of steps."""
    copy_part(loss, label, state, source.near, part)
    steps = optimise(part, source, rest)
    put_back(loss, label, state, source.near, part)
    return steps


@jitable_call
def optimise(part, source, rest):
    """Moves of the duals of a part."""
    count = source.near.size
    steps = PATIENCE * count
    for p in range(count):
        part.moved[p], part.ready[p] = 0.0, False
    copy_row(source, 0, part)
    part.ready[0] = True
    slope, low, high, weight = (
        part.slope[0].reshape(-1),
        part.low[0].reshape(-1),
        part.high[0].reshape(-1),
        part.weight[0].reshape(-1),
    )
    matrix = part.matrix.reshape(part.matrix.shape[0], -1)
    width = part.slope.shape[2]
    i, j, s, t = 0, 0, 0.0, 0.0
    most, target = -1.0, rest * part_gap(slope, low, high, weight)
    for step in range(steps):
        first, even, second, odd = sweep(part, i, s, j, t)
        if step % LOOK == LOOK - 1 and part_gap(slope, low, high, weight) <= target:
            return step
        if most < 0.0:
            most = max(first, second)
        if max(first, second) <= ROUNDING * most:
            return step
        if first > second:  # j is the one that gains more
            even, odd = odd, even
        start, other = np.int64(even) * width, np.int64(odd) * width
        i = best_of(slope, low, high, start, min(start + width, count))
        j = best_of(slope, low, high, other, min(other + width, count))
        for p in (i, j):
            if not part.ready[p]:
                copy_row(source, p, part)
                part.ready[p] = True
        s, t = pair(slope[i], slope[j], matrix[i, j], (low[i], high[i]), (low[j], high[j]), i != j)
        part.moved[i] += s
        part.moved[j] += t
        low[i], high[i] = low[i] - s, high[i] - s
        low[j], high[j] = low[j] - t, high[j] - t
    return steps


@jitable
def pair(gi, gj, k, box_i, box_j, both):
    """The best moves of two duals with unit curvatures and the off-diagonal k; of the second alone unless `both`."""
    alone = min(max(gj, box_j[0]), box_j[1])
    if both:
        t = min(max((gj - k * gi) / max(1.0 - k * k, FLAT), box_j[0]), box_j[1])
        s = min(max(gi - k * t, box_i[0]), box_i[1])
        t = min(max(gj - k * s, box_j[0]), box_j[1])
        if s * gi + t * gj - 0.5 * (s * s + t * t) - k * s * t >= alone * (gj - 0.5 * alone):
            return s, t
    return 0.0, alone


@jitable_call
def put_back(loss, label, state, near, part):
    """Move the duals, exactly onto their bounds where the copy is there."""
    n = state.duals.shape[1]
    low, high, scale = part.low[0].reshape(-1), part.high[0].reshape(-1), part.scale[0].reshape(-1)
    for p in range(near.size):
        i = np.int64(near[p])
        lowest, highest = bounds(loss, label * n + i)
        b = state.duals[label, i]
        if part.moved[p] == 0.0:
            continue
        if low[p] == 0.0:
            new = lowest
        elif high[p] == 0.0:
            new = highest
        else:
            new = min(max(b + part.moved[p] * scale[p], lowest), highest)
        state.change[label, i], state.duals[label, i] = new - b, new


class Workspace:
    """Where the copy of one label lies; used again and again."""

    def __init__(self, most: int):
        self.width = HALVES * vectors.width(np.float32)
        padded = -(-most // self.width) * self.width
        self.matrix = vectors.aligned((most * padded,), np.float32)
        self.vectors = vectors.aligned((6, padded), np.float32)
        self.moved, self.ready = np.zeros(most), np.zeros(most, bool)

    def part(self, size: int) -> Part:
        """Room for this many samples."""
        padded = -(-size // self.width) * self.width
        shape = -1, padded // vectors.width(np.float32), vectors.width(np.float32)
        views = [row[:padded].reshape(shape) for row in self.vectors]
        matrix = self.matrix[: size * padded].reshape(shape)
        slope, low, high, weight, scale, gathered = views
        return Part(matrix, slope, low, high, weight, scale, gathered, self.moved[:size], self.ready[:size])


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


class KernelAscent(Run):
    """A run on one kernel problem: its duals, its scores and the rows in memory."""

    problem: KernelMultilabelProblem
    n_jobs = 1

    def __init__(self, problem: KernelMultilabelProblem, duals: np.ndarray | None, options: AscentOptions):
        self.problem, self.options, self.average = problem, options, options.average
        self.warm = duals is not None
        self.passes = self.visits = self.steps = 0
        n, labels = problem.n_examples, problem.n_labels
        self.rows = Rows(problem.gram, int((1.0 - COPY) * problem.memory), problem.bias**2)
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
        self.allowed = max(4 * BLOCK, int(FIRST * n))
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
        return max(1, min(self.problem.n_examples, int(np.sqrt(COPY * self.problem.memory / 4 / self.n_jobs)) - MARGIN))

    @property
    def rest(self) -> np.ndarray:
        """What a round should leave of the gap of each label, as a part of it; one where the label is done."""
        goal = GOAL * self.options.tol * abs(self.dual) / self.problem.n_labels
        wanted = goal / np.maximum(self.view.gaps, TINY)
        return np.where(wanted >= 1.0, 1.0, np.clip(wanted, REST if self.passes < 2 else LATER, MOST))

    def look(self, labels: np.ndarray) -> None:
        """Gaps and gains of these labels."""
        survey(self.problem.exact_loss, labels, self.state, self.view, SLACK if self.passes else 0.0)

    def advance(self, stop: Callable[[], bool]) -> float:
        """One round; returns the gap."""
        for k, batch in enumerate(self.batches):
            if stop():
                break
            if k:  # the batches before have changed its scores
                self.look(batch)
            self.improve(batch, stop)
        self.allowed *= GROWTH
        self.passes += 1
        self.visits += self.problem.n_examples
        self.look(np.arange(self.problem.n_labels))
        self.dual = self.problem.dual(Point(self.duals, self.scores))
        return float(self.view.gaps.sum())

    def improve(self, batch: np.ndarray, stop: Callable[[], bool]) -> None:
        """Better duals for these labels, as many of them as there is time for, then scores to match."""
        rest = self.rest[batch]
        chosen = self.choose(batch[rest < 1.0])
        at = np.full(chosen.size, -1)
        at[chosen] = self.rows.need(np.flatnonzero(chosen), stop)
        chosen = at >= 0
        self.state.change[batch] = 0.0

        def work(k: int) -> int:
            return 0 if stop() else self.climb(batch[k], chosen, at, rest[k])

        self.steps += sum(in_threads(work, range(batch.size), self.n_jobs))
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

    def climb(self, label: int, chosen: np.ndarray, at: np.ndarray, rest: float) -> int:
        """SMO for one label on its samples among the chosen."""
        problem = self.problem
        if self.flat[label]:
            settle(problem.exact_loss, label, self.state)
        if rest >= 1.0:
            return 0
        near = np.flatnonzero((self.view.near[label] != FAR) & chosen)
        if near.size > self.most:
            near = np.sort(near[np.argsort(-self.view.gains[label, near], kind="stable")[: self.most]])
        if near.size == 0:
            return 0
        workspace = self.workspaces.get()
        steps = climb(problem.exact_loss, label, self.state, workspace.part(near.size), self.source(label, at[near], near), rest)
        self.workspaces.put(workspace)
        return steps

    def source(self, label: int, places: np.ndarray, near: np.ndarray) -> Source | ScaledSource:
        """Where the copy of a label comes from. The scale of a dual that its loss curves too is not that of the kernel."""
        scaled_rows = self.rows.scaled_rows
        if scaled_rows is not None and isinstance(self.problem.exact_loss, Hinge):
            return ScaledSource(scaled_rows.table, places, near.view(np.uint64))
        factor = float(self.problem.correlation[label, label])
        return Source(self.rows.table, places, near.view(np.uint64), factor, self.problem.bias**2)

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

    def doubt(self) -> str | None:
        """Why the dual value may be no lower bound: the kernel is not positive semidefinite."""
        if self.problem.gram.definite or indefinite(self.rows) == 0.0:
            return None
        return "The kernel matrix is not positive semidefinite, so the dual value is no lower bound and the gap proves nothing."

    def accelerate(self) -> None:
        """Nothing to do between rounds."""

    def wake(self) -> None:
        """Nobody rests."""

    def refine(self) -> None:
        """Scores are float64 as it is."""

    def synchronise(self) -> float:
        self.dual = self.problem.dual(Point(self.duals, self.scores))
        return self.dual

    def candidates(self) -> list[Point]:
        return [Point(self.duals.copy(), self.scores.copy())]

    def primal(self, point: Point, n_jobs: int) -> float:
        return self.problem.primal(point, n_jobs)

    def left(self) -> np.ndarray:
        return self.duals.T.copy()


@begin.register
def _(problem: KernelMultilabelProblem, duals, tol, seed, dtype, momentum, average):
    return KernelAscent(problem, duals, AscentOptions(tol, seed, np.float64, False, False))
