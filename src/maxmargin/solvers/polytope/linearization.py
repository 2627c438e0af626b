"""Partial linearization of the dual (Mohapatra et al. 2016), block by block or all samples at once.

The dual is linearised at w and the entropy of each sample's distribution is kept with weight `temperature`: the direction
is a Gibbs distribution around the current one, q ~ p exp((Delta + w . phi) / temperature). The step towards it is

    gamma = <q - p, Delta + w . phi> / (cap ||phi(q) - phi(p)||^2), cut off at 1,

the best one on the line, or fixed. Temperature zero is Frank-Wolfe (its direction is the max-oracle's answer) and step 1
is exponentiated gradient; which oracle is asked depends on the kind of points (`contract.direct`).
"""

from typing import Any

import numpy as np

from ...jit import kernel
from ...structures.encoded import contract
from ...utils.threads import in_threads, with_scratch
from ..ascent.schedule import reschedule
from .run import StructuredRun
from .signed import move_weights, prepare_with, space_of, unclipped_copy

OPTIMAL = -1.0
COOLEST = 1000.0  # the part of the first temperature that cooling ends at


@kernel
def block_pass(points, data, space, cap, plan, visit, workspace, setting):
    """Visit plan.order[start:stop]; returns the last of `setting` and by how much the dual value rose, in one sum."""
    now, start, stop = visit
    scratch, shares, temperature = workspace
    step, longest, level, rise = setting
    for k in range(start, stop):
        i = np.int64(plan.order[k])
        if cap[i] > 0.0:
            prepare_with(space, data, i, scratch)
            contract.direct(points, data, i, scratch, temperature[i])
            gain, square = contract.measure(data, i, scratch)
            square *= cap[i]
            gamma = step
            if step < 0.0:
                gamma = longest if gain > longest * square else max(gain, 0.0) / square if square > 0.0 else 0.0
            contract.step_towards(points, data, i, gamma, scratch)
            move_weights(space, data, i, -cap[i] * gamma, scratch)
            rise += cap[i] * gamma * (gain - 0.5 * gamma * square)
            shares[i] = cap[i] * gain
        else:
            shares[i] = 0.0
        reschedule(plan, i, now, shares[i] <= level)
    return rise


@kernel
def batch_pass(points, others, data, W, cap, temperature, workspace):
    """Targets of the samples start ... stop - 1 into `others`, their common direction into `change`; returns the gain."""
    scratch, shares, change, start, stop = workspace
    total = 0.0
    for i in range(start, stop):
        shares[i] = 0.0
        if cap[i] > 0.0:
            contract.prepare(data, i, W, scratch)
            contract.direct(points, data, i, scratch, temperature[i])
            shares[i] = cap[i] * contract.measure(data, i, scratch)[0]
            contract.step_towards(others, data, i, 1.0, scratch)
            contract.push(data, i, -cap[i], scratch, change)
            total += shares[i]
    return total


class Linearization(StructuredRun):
    """Block-coordinate steps. Subclasses of solvers say which points, which temperature and which step."""

    held = (*StructuredRun.held, "temperature")

    def __init__(self, problem, points, options, *, temperature: np.ndarray, step, longest, cooling, smooth: bool):
        self.temperature, self.cooling, self.coolest = temperature, cooling, temperature / COOLEST
        self.step, self.longest, self.smooth = step, longest, smooth
        super().__init__(problem, points, options)

    def accelerate(self):
        if self.cooling < 1.0:
            self.temperature = np.maximum(self.temperature * self.cooling, self.coolest)

    def start(self):
        data = self.problem.data
        return contract.interior(data, self.options.tuning.spread) if self.smooth else contract.vertices(data)

    def visit(self, seat, aim, span, rise):
        start, stop = span
        workspace = seat.workspace, aim.shares, self.temperature
        setting, now = (self.step, self.longest, aim.level, rise), (self.passes, start, stop)
        rise = block_pass(self.points, self.problem.data, seat.space, seat.cap, aim.plan, now, workspace, setting)
        return rise, stop - start


class Batch(Linearization):
    """All samples at once: one common step. Keeps a second set of points; oracle calls may use several threads."""

    def choose(self):
        return self.problem.n_examples

    def advance(self, stop):
        problem, jobs = self.problem, self.problem.jobs(self.n_jobs)
        others = contract.copied(self.points)
        parts = problem.sums
        changes = [np.zeros_like(self.W) for _ in parts]

        def work(k: int, scratch: Any) -> float:
            workspace = scratch, self.shares, changes[k], *parts[k]
            return batch_pass(self.points, others, problem.data, self.W, problem.cap, self.temperature, workspace)

        lent = with_scratch(lambda: contract.new_scratch(problem.data), work)
        with problem.foreseeing(self.W, self.n_jobs, self.points, self.temperature):
            gain = sum(in_threads(lent, range(len(parts)), jobs))
        change = sum(changes[1:], start=changes[0])
        square = float(np.vdot(change, change))
        gamma = self.step if self.step >= 0.0 else min(self.longest, max(gain, 0.0) / square) if square > 0.0 else 0.0
        contract.blend(self.points, others, gamma)
        self.space = space_of(unclipped_copy(self.space) + gamma * change, problem.bound)
        self.dual += gamma * (gain - 0.5 * gamma * square)
        self.visits += problem.n_examples
        self.calls += problem.n_examples
        self.passes += 1
        self.add_to_average()
        return float(gain)

    def visit(self, seat, aim, span, rise):
        raise AssertionError("a batch has no single visits")
