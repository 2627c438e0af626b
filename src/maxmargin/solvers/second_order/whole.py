"""An interior point in one call, for problems so small that what surrounds a step takes longer than the step.

The method is that of `interior_point`: predictor and corrector along the central path, for losses with kinks and one score an
example. Here X has few columns and lies in memory column by column, so that each sum runs over all examples. Nothing is
certified: what it finds is where another run begins, which then has its certificate at once, or goes on.

It begins on the central path for weights that are given, those of a smaller C: with r = margin - sign z the dual with
mu/a - mu/(cap - a) + r = 0 is

    cap - a = 2 mu cap / (q + 2 mu + r cap)  for r >= 0,    a = 2 mu cap / (q + 2 mu - r cap)  else,    q^2 = (r cap)^2 + 4 mu^2
"""

from dataclasses import replace
from functools import singledispatch
from typing import NamedTuple

import numpy as np

from ...data.rows import Dense
from ...jit import jitable_call, kernel
from ...problems.base import Problem
from ...problems.linear import ScalarProblem
from ..base import WarmStart
from .interior_point import sides
from .tuning import WHOLE_PATH, WholeTuning


class SideLosses(NamedTuple):
    """Of each side of each example (sides, examples): the sign of its score and the margin it must keep; and caps of examples."""

    sign: np.ndarray
    margin: np.ndarray
    cap: np.ndarray


class BoxPairs(NamedTuple):
    """Duals and what is left to their caps, with the multipliers of both: (sides, examples)."""

    a: np.ndarray
    s: np.ndarray
    room: np.ndarray
    t: np.ndarray


class PathWeights(NamedTuple):
    """The weights, the weights of the duals, the step and its right side."""

    w: np.ndarray
    v: np.ndarray
    step: np.ndarray
    side: np.ndarray


class PathRoom(NamedTuple):
    """Scratch: of examples scores, their change and two arrays of sums; the matrix of the step and its factor."""

    z: np.ndarray
    dz: np.ndarray
    theta: np.ndarray
    force: np.ndarray
    gives: np.ndarray  # (sides, examples)
    matrix: np.ndarray


class PathAims(NamedTuple):
    """When to stop, and how far to go."""

    tol: float
    border: float
    floor: float  # part of the gap asked for that the products of pairs may add up to
    times: float  # as many times the primal value they add up to at first
    most: int


@jitable_call
def scores_by_columns(columns, w, z):
    """z = X w"""
    for i in range(z.size):
        z[i] = 0.0
    for j in range(w.size):
        for i in range(z.size):
            z[i] += w[j] * columns[j, i]


@jitable_call
def combine_by_columns(columns, force, v):
    """v = X' force"""
    for j in range(v.size):
        total = 0.0
        for i in range(force.size):
            total += columns[j, i] * force[i]
        v[j] = total


@jitable_call
def form_and_factor(columns, theta, scaled, matrix):
    """The lower factor of I + X' diag(theta) X; `scaled` is scratch. Returns whether it is positive definite."""
    size, count = matrix.shape[0], theta.size
    for j in range(size):
        for i in range(count):
            scaled[i] = theta[i] * columns[j, i]
        for k in range(j + 1):
            total = 0.0
            for i in range(count):
                total += scaled[i] * columns[k, i]
            matrix[j, k] = total
        matrix[j, j] += 1.0
    for j in range(size):
        for k in range(j + 1):
            total = matrix[j, k]
            for m in range(k):
                total -= matrix[j, m] * matrix[k, m]
            if k < j:
                matrix[j, k] = total / matrix[k, k]
            elif total > 0.0:
                matrix[j, j] = np.sqrt(total)
            else:
                return False
    return True


@jitable_call
def solve_factored(matrix, x):
    """x becomes the solution for the right side x."""
    size = x.size
    for j in range(size):
        total = x[j]
        for k in range(j):
            total -= matrix[j, k] * x[k]
        x[j] = total / matrix[j, j]
    for j in range(size - 1, -1, -1):
        total = x[j]
        for k in range(j + 1, size):
            total -= matrix[k, j] * x[k]
        x[j] = total / matrix[j, j]


@jitable_call
def sum_sides(losses, a, force):
    """force_i = sum of sign a over the sides of an example"""
    for i in range(force.size):
        force[i] = 0.0
    for k in range(a.shape[0]):
        for i in range(force.size):
            force[i] += losses.sign[k, i] * a[k, i]


@jitable_call
def values_of_pairs(losses, pairs, weights, z):
    """The primal value at w and the dual value of a, but for rounding."""
    primal, dual = 0.0, 0.0
    for j in range(weights.w.size):
        primal += 0.5 * weights.w[j] ** 2
        dual -= 0.5 * weights.v[j] ** 2
    for k in range(pairs.a.shape[0]):
        for i in range(z.size):
            primal += losses.cap[i] * max(losses.margin[k, i] - losses.sign[k, i] * z[i], 0.0)
            dual += losses.margin[k, i] * pairs.a[k, i]
    return primal, dual


@jitable_call
def begin_on_path(losses, pairs, z, mu):
    """The duals of the central path for these scores."""
    for k in range(pairs.a.shape[0]):
        for i in range(z.size):
            cap, pull = losses.cap[i], (losses.margin[k, i] - losses.sign[k, i] * z[i]) * losses.cap[i]
            small = 2.0 * mu * cap / (np.sqrt(pull * pull + 4.0 * mu * mu) + 2.0 * mu + abs(pull))
            pairs.a[k, i], pairs.room[k, i] = (cap - small, small) if pull >= 0.0 else (small, cap - small)
            pairs.s[k, i], pairs.t[k, i] = mu / pairs.a[k, i], mu / pairs.room[k, i]


@jitable_call
def invert_pairs(pairs, inverse, room):
    """One over all pairs, and how much each dual gives way to its score: divisions take longest here, and all others are made of
    these."""
    for k in range(pairs.a.shape[0]):
        for i in range(pairs.a.shape[1]):
            inverse.a[k, i], inverse.s[k, i] = 1.0 / pairs.a[k, i], 1.0 / pairs.s[k, i]
            inverse.room[k, i], inverse.t[k, i] = 1.0 / pairs.room[k, i], 1.0 / pairs.t[k, i]
            room.gives[k, i] = 1.0 / (pairs.s[k, i] * inverse.a[k, i] + pairs.t[k, i] * inverse.room[k, i])


@jitable_call
def find_direction(columns, losses, pairs, inverse, last, weights, room, mu):
    """The step towards mu: `weights.step`, `room.dz`, and `last` becomes that of the pairs; what it was corrects the products.
    The matrix is factored already."""
    for i in range(room.z.size):
        room.force[i] = 0.0
    for k in range(pairs.a.shape[0]):
        for i in range(room.z.size):
            near, far = mu - last.a[k, i] * last.s[k, i], mu - last.room[k, i] * last.t[k, i]
            rho = losses.margin[k, i] - losses.sign[k, i] * room.z[i] + near * inverse.a[k, i] - far * inverse.room[k, i]
            last.room[k, i] = rho * room.gives[k, i]
            room.force[i] += losses.sign[k, i] * last.room[k, i]
            last.s[k, i], last.t[k, i] = near, far
    combine_by_columns(columns, room.force, weights.step)
    for j in range(weights.w.size):
        weights.step[j] += weights.v[j] - weights.w[j]
    solve_factored(room.matrix, weights.step)
    scores_by_columns(columns, weights.step, room.dz)
    for k in range(pairs.a.shape[0]):
        for i in range(room.z.size):
            a, gap, s, t = pairs.a[k, i], pairs.room[k, i], pairs.s[k, i], pairs.t[k, i]
            da = last.room[k, i] - losses.sign[k, i] * room.dz[i] * room.gives[k, i]
            last.a[k, i], last.room[k, i] = da, -da
            last.s[k, i] = (last.s[k, i] - s * a - s * da) * inverse.a[k, i]
            last.t[k, i] = (last.t[k, i] - t * gap + t * da) * inverse.room[k, i]


@jitable_call
def longest_part(inverse, last):
    """How much of a step the pairs allow."""
    least = -1.0
    for k in range(inverse.a.shape[0]):
        for i in range(inverse.a.shape[1]):
            least = min(least, min(last.a[k, i] * inverse.a[k, i], last.s[k, i] * inverse.s[k, i]))
            least = min(least, min(last.room[k, i] * inverse.room[k, i], last.t[k, i] * inverse.t[k, i]))
    return -1.0 / least


@jitable_call
def mean_product(pairs, last, part):
    """The mean product of a pair after a part of the step."""
    total = 0.0
    for k in range(pairs.a.shape[0]):
        for i in range(pairs.a.shape[1]):
            total += (pairs.a[k, i] + part * last.a[k, i]) * (pairs.s[k, i] + part * last.s[k, i])
            total += (pairs.room[k, i] + part * last.room[k, i]) * (pairs.t[k, i] + part * last.t[k, i])
    return total / (2 * pairs.a.size)


@jitable_call
def clear_pairs(pairs):
    for k in range(pairs.a.shape[0]):
        for i in range(pairs.a.shape[1]):
            pairs.a[k, i] = pairs.s[k, i] = pairs.room[k, i] = pairs.t[k, i] = 0.0


@kernel
def follow_path(columns, losses, pairs, inverse, last, weights, room, aims):
    """From `weights.w` to the optimum; returns how many steps that took. Ends where rounding leaves no step, too."""
    scores_by_columns(columns, weights.w, room.z)
    for j in range(weights.w.size):
        weights.v[j] = 0.0
    clear_pairs(pairs)
    primal, _ = values_of_pairs(losses, pairs, weights, room.z)
    begin_on_path(losses, pairs, room.z, aims.times * primal / (2 * pairs.a.size))
    for step in range(aims.most):
        sum_sides(losses, pairs.a, room.force)
        combine_by_columns(columns, room.force, weights.v)
        primal, dual = values_of_pairs(losses, pairs, weights, room.z)
        if primal - dual <= aims.tol * abs(primal):
            return step
        invert_pairs(pairs, inverse, room)
        for i in range(room.z.size):
            room.theta[i] = 0.0
        for k in range(pairs.a.shape[0]):
            for i in range(room.z.size):
                room.theta[i] += room.gives[k, i]
        if not form_and_factor(columns, room.theta, room.dz, room.matrix):
            return step
        clear_pairs(last)
        mu = mean_product(pairs, last, 0.0)
        find_direction(columns, losses, pairs, inverse, last, weights, room, 0.0)
        ahead = mean_product(pairs, last, longest_part(inverse, last))
        least = aims.floor * aims.tol * abs(primal) / (2 * pairs.a.size)
        find_direction(columns, losses, pairs, inverse, last, weights, room, max(mu * (ahead / mu) ** 3, min(least, mu)))
        part = min(aims.border * longest_part(inverse, last), 1.0)
        if not part > 0.0:
            return step
        for j in range(weights.w.size):
            weights.w[j] += part * weights.step[j]
        for i in range(room.z.size):
            room.z[i] += part * room.dz[i]
        for k in range(pairs.a.shape[0]):
            for i in range(room.z.size):
                pairs.a[k, i] += part * last.a[k, i]
                pairs.s[k, i] += part * last.s[k, i]
                pairs.room[k, i] += part * last.room[k, i]
                pairs.t[k, i] += part * last.t[k, i]
    return aims.most


class WholePath:
    """The room that fits at several C share."""

    def __init__(self, problem: ScalarProblem, tuning: WholeTuning):
        self.problem, self.tuning = problem, tuning
        n, p = problem.n_examples, problem.weight_shape[0]
        self.columns = np.empty((p, n))
        self.columns[:-1], self.columns[-1] = problem.X.values.T, problem.X.bias
        found = sides(problem.exact_loss)
        assert found is not None
        self.sign, self.margin = (np.ascontiguousarray(part, np.float64) for part in (found.sign, found.margin))
        shape = self.sign.shape
        self.pairs, self.inverse, self.last = (BoxPairs(*np.zeros((4, *shape))) for _ in range(3))
        self.weights = PathWeights(*np.zeros((4, p)))
        self.room = PathRoom(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(shape), np.zeros((p, p)))

    def start(self, C: float, tol: float, near: np.ndarray) -> WarmStart:
        """Duals and weights of about this relative gap, begun at the weights of a nearby C."""
        problem, tuning = self.problem.at(C), self.tuning
        self.weights.w[:] = near
        losses = SideLosses(self.sign, self.margin, problem.cap)
        aims = PathAims(tuning.part * tol, tuning.border, tuning.floor, tuning.times, tuning.most)
        steps = follow_path(self.columns, losses, self.pairs, self.inverse, self.last, self.weights, self.room, aims)
        duals, weights = (self.sign * self.pairs.a).sum(axis=0), self.weights.w.copy()
        if not (np.all(np.isfinite(duals)) and np.all(np.isfinite(weights))):  # numbers too large for it, if not for other runs
            duals, weights = np.zeros_like(duals), near
        found = WarmStart(problem.clipped(duals), weights, False, problem.origin, problem.remembered, problem.C)
        return replace(found, steps=max(steps, 1))


@singledispatch
def whole_path(problem: Problem, tuning: WholeTuning = WHOLE_PATH) -> WholePath | None:
    """What finds starts for this problem at any C; None where it is not so small, or not of that kind."""
    return None


@whole_path.register
def _(problem: ScalarProblem, tuning: WholeTuning = WHOLE_PATH) -> WholePath | None:
    found, X = sides(problem.exact_loss), problem.X
    size = problem.n_examples * problem.weight_shape[0] ** 2
    plain = problem.regularizer.plain and problem.half_spaces is None and isinstance(X, Dense)
    if found is None or found.squared or not plain or size > tuning.work or not np.all(problem.weight > 0.0):
        return None
    return WholePath(problem, tuning)
