"""Sweeps over the classes that have duals: between two passes over all classes, these few are brought nearer to their optimum.

With many classes an example has duals of a handful of them. A pass has to score all classes, for new ones to be found; to settle
those found takes the scores of these alone, a small part of the work. A class without a dual gets a score so low that the exact
step leaves it without one: the steps are those of a smaller problem, and never lower the dual value.

Several threads walk through parts of the examples, each on a copy of the weights, where its own changes count `spread` times.
Then all go together as far as `joint` says. Rows are those of any kind; weights are turned, (classes, features + 1).
"""

from typing import Any, NamedTuple

import numpy as np

from ...data import rows
from ...data.rows import add, add_scaled, dot
from ...jit import jitable_call, kernel, vectors
from ...losses.base import row_repair, row_step
from ...problems.linear import RowProblem
from ...utils.threads import Team, spans
from ..tuning import BlockTuning
from .joint import common_after, followed, settled_as_one

ROOM = 32  # changes of an example that a list has room for, on average; a list that is full ends a round. By guess, 2026-11-16


class Changes(NamedTuple):
    """Changes of duals, example by example."""

    example: np.ndarray
    column: np.ndarray
    change: np.ndarray


class SweepRoom(NamedTuple):
    """Scratch of one thread."""

    row: vectors.VectorTable
    change: vectors.VectorTable
    which: np.ndarray
    common: vectors.VectorTable  # (1, classes): by how much all examples have moved along the mean
    listed: Changes  # of no length where they are not asked for


class Crew(NamedTuple):
    """Threads, and losses with scratch of their own for each: for steps and for exact values."""

    team: Team
    losses: list
    exact: list


@jitable_call
def score_held(X, i, w, duals, room, push):
    """The scores of the classes of example i that have a dual, `push` times more along the mean than the weights say, and which
    classes they are; returns how many."""
    row, which = room.row, room.which
    never, width, many = vectors.shift(vectors.zeros_like(row.vectors), vectors.NEVER), row.vectors.shape[2], 0
    for b in range(row.vectors.shape[1]):
        vectors.store(row.vectors, 0, b, never)
        if vectors.magnitude(vectors.load(duals.vectors, i, b)) > 0:
            for c in range(b * width, (b + 1) * width):
                if duals.flat[i, c] != 0:
                    row.flat[0, c] = dot(X, i, w.flat[c]) + push * room.common.flat[0, c]
                    which[many] = c
                    many += 1
    return many


@kernel
def sweep_held(X, loss, w, duals, curvature, plan, room, visit):
    """Visit plan.order[start:stop] until the list of changes is full; every change moves the weights `spread` times,
    and scores `extra` times more along the mean. Returns where to go on, the sum of the shares of the gap, the change of the
    reward, and how many changes and scores there were."""
    (start, stop), (spread, extra, level), (variance, along) = visit
    row, change, which, common, listed = room
    gap, gain, count, scored, push = 0.0, 0.0, 0, 0, 0.0
    for c in range(common.flat.shape[1]):
        common.flat[0, c] = 0
    for k in range(start, stop):
        i = plan.order[k]
        if k + plan.ahead < stop:
            rows.prefetch(X, plan.order[k + plan.ahead])
            rows.prefetch_row(duals.vectors, plan.order[k + plan.ahead])
        if listed.column.size > 0 and count + which.size > listed.column.size:
            return k, gap, gain, count, scored
        if along.size > 0:
            push = np.float64(dot(X, i, along[0]))
        many = score_held(X, i, w, duals, room, extra * push)
        scored += many
        if many == 0:
            continue
        share, stepped, reward_change = row_step(loss, i, spread * curvature[i] + extra * push * push, row, duals, change, level)
        gap += share
        if stepped:
            gain += reward_change
            for a in range(many):
                c = which[a]
                t = change.flat[0, c]
                if t != 0:
                    if variance.size > 0:
                        add_scaled(X, i, w.flat.dtype.type(spread * t), variance, w.flat[c])
                    else:
                        add(X, i, w.flat.dtype.type(spread * t), w.flat[c])
                    common.flat[0, c] += push * t
                    if listed.column.size > 0:
                        listed.example[count], listed.column[count], listed.change[count] = i, c, t
                        count += 1
    return stop, gap, gain, count, scored


@kernel
def join(W, copies, U, variance, spread, parts, span):
    """U = sum_p (copy_p - W) / spread, of these classes; returns <w, u> and <u, u> in the metric of the prior, U = Sigma u."""
    slope, bend, size = 0.0, 0.0, W.flat.shape[0]
    for c in range(span[0], span[1]):
        for j in range(W.flat.shape[1]):
            U.flat[c, j] = copies.flat[c, j] - W.flat[c, j]
        for p in range(1, parts):
            for j in range(W.flat.shape[1]):
                U.flat[c, j] += copies.flat[p * size + c, j] - W.flat[c, j]
        for j in range(W.flat.shape[1]):
            u = np.float64(U.flat[c, j]) / spread
            U.flat[c, j] = u
            if variance.size == 0:
                slope, bend = slope + u * W.flat[c, j], bend + u * u
            elif variance[j] > 0:
                slope, bend = slope + u * W.flat[c, j] / variance[j], bend + u * u / variance[j]
    return slope, bend


@kernel
def go_along(W, U, t, span):
    """W += t U, of these classes."""
    for c in range(span[0], span[1]):
        for b in range(W.vectors.shape[1]):
            vectors.store(W.vectors, c, b, vectors.fma(vectors.load(W.vectors, c, b), t, vectors.load(U.vectors, c, b)))


@kernel
def take_back(loss, duals, listed, count, out, t):
    """Let duals go only a part t of their way; returns the change of the reward. `out` is scratch."""
    gain, k = 0.0, 0
    while k < count:
        i = listed.example[k]
        gain -= row_repair(loss, i, duals, out)
        while k < count and listed.example[k] == i:
            duals.flat[i, listed.column[k]] += duals.flat.dtype.type(t - 1.0) * listed.change[k]
            k += 1
        gain += row_repair(loss, i, duals, out)
    return gain


class Sweeps:
    """Sweeps of a run on the threads of a crew; `size`: examples that are worth a meeting of these."""

    def __init__(self, problem: RowProblem, crew: Crew, size: int, metric: tuple, dtype: Any, tuning: BlockTuning):
        self.problem, self.crew, self.metric, self.tuning = problem, crew, metric, tuning
        self.threads = threads = min(crew.team.size, tuning.sweepers)
        classes, features = problem.n_classes, problem.table.shape[1] + 1
        self.lanes = vectors.blocks(classes, dtype) * vectors.width(dtype)
        self.size, most = size, (size * ROOM + self.lanes if threads > 1 else 0)
        self.rooms, self.out = [], [vectors.zeros_table(1, classes, np.float64) for _ in range(threads)]
        for _ in range(threads):
            number = np.zeros(most, np.int64)
            listed = Changes(number, number.copy(), np.zeros(most, dtype))
            row, change, common = (vectors.zeros_table(1, classes, dtype) for _ in range(3))
            self.rooms.append(SweepRoom(row, change, np.zeros(self.lanes, np.int64), common, listed))
        if threads > 1:
            self.copies = vectors.zeros_table(threads * self.lanes, features, dtype)
            self.way = vectors.zeros_table(self.lanes, features, dtype)

    def sweep(self, state: tuple, span: tuple[int, int], spread: np.ndarray, level: float) -> np.ndarray:
        """Visit these places of the order; `state`: turned weights, duals, curvatures and the plan. Returns the sum of the shares
        of the gap, the change of the reward and how many scores there were. Spreads are those for the next time then."""
        many = max(1, min(self.threads, (span[1] - span[0]) // self.tuning.least))
        if many == 1:
            place, found = span[0], np.zeros(3)
            while place < span[1]:
                place, gap, gain, _, scored = self.walk(0, state, state[0], (place, span[1]), (1.0, 0.0, level))
                found += gap, gain, scored
            return found
        ends = [span[0] + last for _, last in spans(span[1] - span[0], many)]
        places, found = [span[0], *ends[:-1]], np.zeros(3)
        while places != ends:
            found += self.round(state, places, ends, spread, level)
        return found

    def walk(self, p: int, state: tuple, w: vectors.VectorTable, span: tuple[int, int], how: tuple[float, float, float]) -> tuple:
        _, duals, curvature, plan = state
        visit = span, how, self.metric
        return sweep_held(self.problem.X, self.crew.losses[p], w, duals, curvature, plan, self.rooms[p], visit)

    def round(self, state: tuple, places: list[int], ends: list[int], spread: np.ndarray, level: float) -> np.ndarray:
        """Each thread goes on from its place, on a copy of the weights, then all meet."""
        W, duals, _, _ = state
        work, many = self.crew.team.work, len(places)
        counts, how = [0] * many, (*steps_for(spread), level)

        def walk(p: int) -> tuple[float, float, float]:
            mine = slice(p * self.lanes, (p + 1) * self.lanes)
            copy = vectors.VectorTable(self.copies.vectors[mine], self.copies.flat[mine])
            np.copyto(copy.flat, W.flat)
            span = places[p], min(ends[p], places[p] + self.size)
            places[p], gap, gain, counts[p], scored = self.walk(p, state, copy, span, how)
            return gap, gain, scored

        gap, gain, scored = np.sum(work(walk, range(many)), axis=0)
        slices = spans(self.lanes, many)
        joined = work(lambda span: join(W, self.copies, self.way, self.metric[0], how[0], many, span), slices)
        slope, bend = np.sum(joined, axis=0)
        found = float(gain), float(slope), float(bend)
        t = going(*found, self.tuning)
        follow_spread(spread, found, np.concatenate([room.common.flat for room in self.rooms[:many]]))

        def finish(p: int) -> float:
            if p < len(slices):
                go_along(W, self.way, t, slices[p])
            return 0.0 if t == 1.0 else take_back(self.crew.exact[p], duals, self.rooms[p].listed, counts[p], self.out[p], t)

        gain += sum(work(finish, range(many)))
        return np.array([gap, gain, scored])


def going(gain: float, slope: float, bend: float, tuning: BlockTuning) -> float:
    """The part of their way that steps side by side go. That is all of it also where a little less were best: up to twice the
    best part the dual value does not fall."""
    t, _ = settled_as_one(gain, slope, bend)
    return 1.0 if t >= tuning.enough else t


def steps_for(spread: np.ndarray) -> tuple[float, float]:
    """How many times examples weigh for steps with these spreads, in all directions and along the mean: the latter more."""
    return float(spread[0]), max(float(spread[1] - spread[0]), 0.0)


def follow_spread(spread: np.ndarray, found: tuple[float, float, float], ways: np.ndarray) -> None:
    """Let spreads follow what the parts have gained, the slope and the bend of that, and how each went along the mean."""
    most = float(len(ways))
    spread[0] = followed(float(spread[0]), settled_as_one(*found)[1], most)
    spread[1] = common_after(float(spread[1]), ways, most)
