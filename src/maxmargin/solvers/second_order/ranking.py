"""Rankings by quasi-Newton steps on softened hinges, whose slopes are duals.

The hinge of a pair is softened over a width u (Nesterov 2005): max over 0 <= a <= 1 of a z - u a^2 / 2, z = 1 - <w, x_i - x_j>,
attained at a = clip(z / u, 0, 1). These a are feasible duals at every w, so that with v = sum of s_i s_j a (x_i - x_j)

    P(w) - D(a) = sum of s_i s_j (max(0, z) - a z)  +  1/2 ||w - v||^2

The second term falls with the gradient of the softened problem, the first with the square of the width. Of millions of pairs few
are within the width, and many enough to make the sum smooth: L-BFGS (Nocedal 1980), told how columns spread within groups,
needs some ten steps. The width shrinks as
soon as the first term is in the way. Sums over pairs are taken by sorting, as in `problems/ranking.py`; along a line no data are
read, as scores are linear in w.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...data.rows import add, dot
from ...jit import jitable, jitable_call, kernel, vectors
from ...problems.ranking import PARTS, Ranked, RankingProblem, RankScratch, merge, rank_scratch, sort_run
from ...utils.threads import in_threads, spans, with_scratch
from ..base import Run, Setting, Start
from .tuning import RANKING, RankingTuning

LEAST_FACTOR = 1e-12
LINE_POINTS = 30  # points of a line at the most


# ---- kernels ---------------------------------------------------------------------------------------------


@kernel
def place_scores(X, layout, w, out, start, stop):
    """The scores of the samples at these places"""
    for k in range(start, stop):
        out[k] = dot(X, layout.rows[k], w)


@kernel
def place_sum(X, layout, net, out, start, stop):
    """out += sum of net_k x_k"""
    for k in range(start, stop):
        if net[k] != 0.0:
            add(X, layout.rows[k], net[k], out)


@jitable
def soften_upper(scratch, weight, width, begin, start, middle, stop):
    """What the samples of a sorted run get from those of one with lower targets; returns the sums of a, of hinges and of a^2"""
    key, place, net = scratch.key, scratch.place, scratch.net
    mass, hinge, square = 0.0, 0.0, 0.0
    full, full_f, zone, zone_f, zone_ff = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(start, middle):
        s = weight[begin + place[k]]
        full += s
        full_f += s * key[k]
    low = high = start  # the zone is low ... high - 1; beyond it a = 1
    for b in range(middle, stop):
        c = 1.0 - key[b]
        while high < middle and key[high] + c < width:
            s, f = weight[begin + place[high]], key[high]
            full, full_f = full - s, full_f - s * f
            zone, zone_f, zone_ff = zone + s, zone_f + s * f, zone_ff + s * f * f
            high += 1
        while low < high and key[low] + c <= 0.0:
            s, f = weight[begin + place[low]], key[low]
            zone, zone_f, zone_ff = zone - s, zone_f - s * f, zone_ff - s * f * f
            low += 1
        if low == high:
            zone, zone_f, zone_ff = 0.0, 0.0, 0.0
        if high == middle:
            full, full_f = 0.0, 0.0
            if low == middle:
                break
        s = weight[begin + place[b]]
        some = s * (full + (c * zone + zone_f) / width)
        net[place[b]] += some
        mass += some
        hinge += s * (c * (full + zone) + full_f + zone_f)
        square += s * (full + (c * c * zone + 2.0 * c * zone_f + zone_ff) / (width * width))
    return mass, hinge, square


@jitable
def soften_lower(scratch, weight, width, begin, start, middle, stop):
    """What the samples of a sorted run lose to those of one with higher targets"""
    key, place, net = scratch.key, scratch.place, scratch.net
    full, zone, zone_f = 0.0, 0.0, 0.0
    low = high = middle  # the zone is low ... high - 1; before it a = 1
    for k in range(start, middle):
        c = 1.0 + key[k]
        while high < stop and c - key[high] > 0.0:
            s = weight[begin + place[high]]
            zone, zone_f = zone + s, zone_f + s * key[high]
            high += 1
        while low < high and c - key[low] >= width:
            s = weight[begin + place[low]]
            full, zone, zone_f = full + s, zone - s, zone_f - s * key[low]
            low += 1
        if low == high:
            zone, zone_f = 0.0, 0.0
        net[place[k]] -= weight[begin + place[k]] * (full + (c * zone - zone_f) / width)


@jitable_call
def soften_group(layout, g, width, scratch):
    """`net` of group g from its scores, with pairs counted by a; returns the sums of a, of hinges and of a^2"""
    starts, low, high = layout.starts, layout.first[g], layout.first[g + 1]
    begin = starts[low]
    for k in range(starts[high] - begin):
        scratch.key[k], scratch.place[k], scratch.net[k] = scratch.score[k], k, 0.0
    for r in range(low, high):
        sort_run(scratch, starts[r] - begin, starts[r + 1] - begin)
    mass, hinge, square, runs = 0.0, 0.0, 0.0, 1
    while runs < high - low:
        for r in range(low, high - runs, 2 * runs):
            start, middle = starts[r] - begin, starts[r + runs] - begin
            stop = starts[min(r + 2 * runs, high)] - begin
            found = soften_upper(scratch, layout.weight, width, begin, start, middle, stop)
            soften_lower(scratch, layout.weight, width, begin, start, middle, stop)
            mass, hinge, square = mass + found[0], hinge + found[1], square + found[2]
            merge(scratch, start, middle, stop)
        runs *= 2
    return mass, hinge, square


@kernel
def soften(layout, cap, score, width, net, scratch, span):
    """`net` of some groups by place, weights of the groups counted in; returns the sums of a, of hinges and of a^2"""
    mass, hinge, square = 0.0, 0.0, 0.0
    for g in range(span[0], span[1]):
        begin, end = layout.starts[layout.first[g]], layout.starts[layout.first[g + 1]]
        for k in range(begin, end):
            scratch.score[k - begin] = score[k]
        found = soften_group(layout, g, width, scratch)
        for k in range(begin, end):
            net[k] = cap[g] * scratch.net[k - begin]
        mass, hinge, square = mass + cap[g] * found[0], hinge + cap[g] * found[1], square + cap[g] * found[2]
    return mass, hinge, square


# ---- the run ---------------------------------------------------------------------------------------------


class Softened(NamedTuple):
    """Sums at one point, C and the weights counted in: of a (what the duals earn), of hinges, and the softened loss; `net` by
    place, minus the slope of the loss with respect to each score."""

    mass: float
    hinge: float
    loss: float
    net: np.ndarray


class PairSums:
    """All that is asked of the data, on several threads; sums do not depend on their number."""

    def __init__(self, problem: RankingProblem, n_jobs: int):
        self.problem, self.n_jobs = problem, n_jobs
        layout: Ranked = problem.layout
        self.groups = spans(problem.n_examples, PARTS)
        self.places = spans(layout.rows.size, PARTS)

    def scores(self, w: np.ndarray) -> np.ndarray:
        p, out = self.problem, np.empty(self.problem.layout.rows.size)
        in_threads(lambda part: place_scores(p.X, p.layout, w, out, *part), self.places, self.n_jobs)
        return out

    def combined(self, net: np.ndarray) -> np.ndarray:
        p = self.problem

        def part(span: tuple[int, int]) -> np.ndarray:
            out = vectors.aligned(p.weight_shape, np.float64)
            place_sum(p.X, p.layout, net, out, *span)
            return out

        return np.sum(in_threads(part, self.places, self.n_jobs), axis=0)

    def softened(self, score: np.ndarray, width: float) -> Softened:
        p, net = self.problem, np.empty(score.size)

        def part(span: tuple[int, int], scratch: RankScratch) -> tuple[float, float, float]:
            found: tuple[float, float, float] = soften(p.layout, p.cap, score, width, net, scratch, span)
            return found

        found = in_threads(with_scratch(lambda: rank_scratch(p.layout), part), self.groups, self.n_jobs)
        mass, hinge, square = (float(total) for total in np.sum(found, axis=0))
        return Softened(mass, hinge, mass - float(net @ score) - 0.5 * width * square, net)


class GroupSpread(NamedTuple):
    """How far samples of a group spread: along the columns of `axes`, or along the features where that is None."""

    axes: np.ndarray | None
    sizes: np.ndarray

    def divided(self, vector: np.ndarray, factor: float) -> np.ndarray:
        """(I + factor * spread)^-1 vector"""
        if self.axes is None:
            return vector / (1.0 + factor * self.sizes)
        return self.axes @ ((self.axes.T @ vector) / (1.0 + factor * self.sizes))

    def factor(self, step: np.ndarray, turn: np.ndarray) -> float:
        """With which I + factor * spread turns like the last step: turn' divided(turn) = turn' step."""
        parts = (turn if self.axes is None else self.axes.T @ turn) ** 2
        wanted, low, high = float(step @ turn), LEAST_FACTOR, 1.0 / LEAST_FACTOR
        while high > 1.1 * low:
            middle = np.sqrt(low * high)
            low, high = (middle, high) if float(np.sum(parts / (1.0 + middle * self.sizes))) > wanted else (low, middle)
        return low


def spread_within(problem: RankingProblem, tuning: RankingTuning) -> GroupSpread:
    """Of some groups, evenly spaced, and scaled up: it only says where steps may be long."""
    layout, features = problem.layout, problem.table.shape[1]
    ends = layout.starts[layout.first]
    stride = -(-layout.rows.size // tuning.sampled)
    some = np.arange(0, problem.n_examples, stride)
    places = np.concatenate([np.arange(ends[g], ends[g + 1]) for g in some])[: 4 * tuning.sampled]
    group = np.searchsorted(ends, places, side="right") - 1
    X, weight = problem.table.matrix[layout.rows[places]], layout.weight[places]
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    mass = np.add.reduceat(weight, starts)
    factor = np.repeat(stride * problem.cap[group[starts]] * mass, np.diff(np.r_[starts, places.size])) * weight
    sizes = np.zeros(features + 1)
    if features > tuning.factored:  # about zero: the columns may be sparse
        squares = X.multiply(X) if sp.issparse(X) else X * X
        sizes[:features] = squares.T @ factor
        return GroupSpread(None, sizes)
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    means = np.add.reduceat(X * weight[:, None], starts) / mass[:, None]
    X = X - np.repeat(means, np.diff(np.r_[starts, places.size]), axis=0)
    axes = np.eye(features + 1)
    found = np.linalg.eigh((X * factor[:, None]).T @ X)
    sizes[:features], axes[:features, :features] = np.maximum(found[0], 0.0), found[1]
    return GroupSpread(axes, sizes)


def by_sample(problem: RankingProblem, net: np.ndarray) -> np.ndarray:
    """The weight of each sample in v, from that of each place."""
    result = np.zeros(problem.table.shape[0])
    result[problem.layout.rows] = net
    return result


class RankingNewton(Run):
    """L-BFGS on the softened problem."""

    problem: RankingProblem
    held = (*Run.held, "w", "score", "width", "best_v", "best_net", "steps", "turns")

    def __init__(self, problem: RankingProblem, start: Start, setting: Setting, tuning: RankingTuning = RANKING):
        self.problem, self.tuning, self.tol = problem, tuning, setting.tol
        problem.table.sum_of_squares()  # refuses rows whose squares overflow
        self.sums, self.average, self.warm = PairSums(problem, setting.n_jobs), setting.average, False
        w = problem.fitting(start.weights)
        self.w = vectors.aligned(problem.weight_shape, np.float64) if w is None else np.array(w, dtype=np.float64)
        self.score, self.width = self.sums.scores(self.w), tuning.widest
        self.dual, self.best_v, self.best_net = 0.0, np.zeros_like(self.w), np.zeros_like(self.score)  # those of no pair
        self.steps = self.turns = np.zeros((0, self.w.size))
        self.spread = spread_within(problem, tuning)
        self.look()

    def look(self, found: Softened | None = None) -> None:
        """All about the point w: the softened loss and its gradient, the duals, both parts of the gap. `found`: what is known."""
        self.here = self.sums.softened(self.score, self.width) if found is None else found
        self.v = self.sums.combined(self.here.net)
        self.gradient = self.w - self.v
        earned = self.here.mass - 0.5 * float(self.v @ self.v)
        if earned > self.dual:
            self.dual, self.best_v, self.best_net = earned, self.v, self.here.net
        self.value = 0.5 * float(self.w @ self.w) + self.here.hinge
        self.of_width = self.here.hinge - self.here.mass + float(self.here.net @ self.score)
        self.of_slope = 0.5 * float(self.gradient @ self.gradient)

    def advance(self, stop: Callable[[], bool]) -> float:
        wanted = self.tol * abs(self.value)
        if self.of_width > self.tuning.share * wanted and self.of_slope <= self.tuning.even * max(self.of_width, wanted):
            self.width *= max(self.tuning.shrink, min(0.5, np.sqrt(0.5 * self.tuning.share * wanted / self.of_width)))
            self.look()
        direction = -self.turned(self.gradient)
        if not float(direction @ self.gradient) < 0.0:
            direction, self.steps, self.turns = -self.gradient, self.steps[:0], self.turns[:0]
        along = self.sums.scores(direction)
        length, found = self.line(direction, along)
        before, moved = self.gradient, length * direction
        self.w = self.w + moved
        self.score = self.score + length * along
        self.look(found)
        self.remember(moved, self.gradient - before)
        self.passes += 1
        self.visits += self.problem.n_examples
        self.stuck = length == 0.0
        return max(self.value - self.dual, 0.0)

    def line(self, direction: np.ndarray, along: np.ndarray) -> tuple[float, Softened | None]:
        """How far to go: to where the slope is a part of what it was, by secants within a bracket; and what was found there."""
        first = float(self.gradient @ direction)
        squared, linear = float(direction @ direction), float(self.w @ direction)
        moved = float(np.sqrt(np.mean(along * along)))
        t = 1.0 if len(self.steps) or moved == 0.0 else 1.0 / moved
        low, high, slope_low, slope_high = 0.0, np.inf, first, np.inf
        for _ in range(LINE_POINTS):
            found = self.sums.softened(self.score + t * along, self.width)
            slope = linear + t * squared - float(found.net @ along)
            if abs(slope) <= self.tuning.flat * abs(first):
                return t, found
            if slope < 0.0:
                low, slope_low = t, slope
            else:
                high, slope_high = t, slope
            if np.isfinite(high):
                part = slope_low / (slope_low - slope_high)
                t = low + min(max(part, 0.1), 0.9) * (high - low)
            else:
                t *= 4.0
        return low, None

    def turned(self, gradient: np.ndarray) -> np.ndarray:
        """The gradient times the inverse of the second derivatives, as the last steps tell them (Nocedal 1980)."""
        result, parts = gradient.copy(), []
        for s, y in zip(self.steps[::-1], self.turns[::-1], strict=True):
            part = float(s @ result) / float(s @ y)
            result -= part * y
            parts.append(part)
        last = self.spread.factor(self.steps[-1], self.turns[-1]) if parts else 1.0
        result = self.spread.divided(result, last)
        for s, y, part in zip(self.steps, self.turns, parts[::-1], strict=True):
            result += (part - float(y @ result) / float(s @ y)) * s
        return result

    def remember(self, step: np.ndarray, turn: np.ndarray) -> None:
        if float(step @ turn) > np.finfo(float).eps * float(turn @ turn):
            kept = self.tuning.remembered - 1
            self.steps = np.vstack([self.steps[-kept:], step])
            self.turns = np.vstack([self.turns[-kept:], turn])

    def synchronise(self) -> float:
        return self.dual

    def candidates(self) -> list[np.ndarray]:
        return [self.best_v, self.w] if self.average else [self.best_v]

    def left(self) -> np.ndarray:
        return by_sample(self.problem, self.best_net)

    def statistics(self) -> dict[str, float]:
        return {"width": self.width}

    def resume(self, state: Any) -> None:
        super().resume(state)
        dual, v, net = self.dual, self.best_v, self.best_net
        self.look()
        self.dual, self.best_v, self.best_net = dual, v, net
