"""Dual coordinate ascent on listed constraints: single steps, and pair steps where an example's budget is used up.

Ramanan (2013), Algorithm 1, with its errata mended: with g = margin - <w, x>,

    single   a_r += clip(g_r / ||x_r||^2,  -a_r,  cap_i - mass_i)
    pair     move clip((g_r - g_s) / ||x_r - x_s||^2,  -a_r,  a_s) from s to r     when g_r > 0 and mass_i = cap_i, a_s > 0

A row of zeros (or a pair of equal rows) goes to the bound that the slope points to.
"""

import numpy as np

from ...data.rows import dot
from ...jit import jitable, kernel
from ...losses.nonnegative import NonNegative
from ...problems.explicit import GroupedProblem
from ...regularizers.spaces import move, spread
from .linear import Ascent, scalar_pass
from .schedule import draw, reschedule


@jitable
def bounded_step(slope, curvature, lowest, highest):
    """The best step along a direction with this slope and curvature, within bounds."""
    if curvature > 0.0:
        return min(max(slope / curvature, lowest), highest)
    return highest if slope > 0.0 else lowest if slope < 0.0 else 0.0


@jitable
def partner(layout, duals, i, r, random):
    """A random row of example i with a positive dual, other than r; -1 if there is none."""
    members, starts = layout
    count = starts[i + 1] - starts[i]
    first = draw(random, count)
    for k in range(count):
        s = members[starts[i] + (first + k) % count]
        if s != r and duals[s] > 0.0:
            return s
    return -1


@kernel
def grouped_pass(X, constraints, space, duals, curvature, plan, visit, scratch):
    """Visit rows; returns the linear part of the gap and the change of the reward. `peak` collects each example's worst
    violation."""
    margin, group, layout, cap = constraints
    mass, peak, work, level = scratch
    now, start, stop = visit
    linear, gain = 0.0, 0.0
    for k in range(start, stop):
        r = plan.order[k]
        i = group[r]
        g = margin[r] - np.float64(dot(X, r, space.w))
        peak[i] = max(peak[i], g)
        linear += duals[r] * g
        change, slope = 0.0, g
        room = cap[i] - mass[i]
        s = partner(layout, duals, i, r, plan.random) if g > 0.0 and room <= 1e-12 * cap[i] else -1
        if s >= 0:
            slope = g - (margin[s] - np.float64(dot(X, s, space.w)))
            spread(space, X, r, 1.0, work)
            across = np.float64(dot(X, s, work))
            spread(space, X, r, -1.0, work)
            change = bounded_step(slope, curvature[r] + curvature[s] - 2.0 * across, -duals[r], duals[s])
            if change != 0.0:
                move(space, X, r, change)
                move(space, X, s, -change)
                gain += change * (margin[r] - margin[s])
                duals[r] = max(duals[r] + change, 0.0)
                duals[s] = max(duals[s] - change, 0.0)
        else:
            change = bounded_step(g, curvature[r], -duals[r], max(room, 0.0))
            if change != 0.0:
                move(space, X, r, change)
                gain += change * margin[r]
                duals[r] = max(duals[r] + change, 0.0)
                mass[i] += change
        reschedule(plan, r, now, change * slope <= level)
    return linear, gain


class ExplicitAscent(Ascent):
    """A run on listed constraints. Duals of a pair move together, so they are not extrapolated."""

    problem: GroupedProblem

    @property
    def stretch(self):
        return self.options.tuning.pace.constraints

    def take(self, duals):
        self.duals = np.zeros(self.problem.n_examples) if duals is None else self.problem.repaired(duals)
        self.mass = np.bincount(self.problem.group, self.duals, minlength=self.problem.cap.size)
        self.peak, self.in_step = np.zeros(self.problem.cap.size), False
        self.work = np.zeros(self.problem.weight_shape, self.dtype)

    def visit_work(self):
        """A partner is looked for among all rows of an example."""
        sizes = np.diff(self.problem.layout[1]).astype(float)
        return super().visit_work() + float(sizes @ sizes) / max(self.problem.n_examples, 1)

    def left(self):
        return self.problem.repaired(self.duals)

    def visit(self, visit, level):
        problem = self.problem
        constraints = problem.margin, problem.group, problem.layout, problem.cap
        scratch = self.mass, self.peak, self.work, level
        before = float(self.problem.cap @ self.peak)
        linear, gain = grouped_pass(problem.X, constraints, self.space, self.duals, self.curvature, self.plan, visit, scratch)
        return float(self.problem.cap @ self.peak) - before - linear, gain

    def advance(self, stop):
        self.peak[:] = 0.0
        self.mass = np.bincount(self.problem.group, self.duals, minlength=self.problem.cap.size)
        return super().advance(stop)

    def accelerate(self):
        self.polished()

    def put_walls(self, count):
        return np.zeros(count)

    def visit_walls(self, X, curvature, plan, visit):
        return scalar_pass(X, NonNegative(0), self.space, self.side_duals, curvature, plan, visit, -np.inf)[0]
