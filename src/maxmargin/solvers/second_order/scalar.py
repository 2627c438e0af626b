"""Which run serves a loss of one score, or one for each of several scores."""

from collections.abc import Mapping
from typing import Any

from ...utils.state import RunState, beneath
from ..base import Setting, Start
from .interior_point import ScalarInterior, has_sides
from .run import EntryShape, SecondOrderRun
from .smooth import ScalarNewton

SHORT_PART, SHORT_STEPS = 0.3, 4  # part of a Newton step that is short, and how many of them end the method


class NewtonFirst(ScalarInterior):
    """Squared losses: Newton's method on the primal, which needs few and cheap steps; where many of them are short, as rows that
    count change with each (separable data at a large C), the interior point from the duals it has found."""

    held = (*ScalarInterior.held, "first", "short")
    inside = against = ()

    def __init__(self, shape: EntryShape, start: Start, setting: Setting):
        self.first, self.short = True, 0
        super().__init__(shape, start, setting)
        self.newton = ScalarNewton(shape, start, setting)

    def settle(self):
        if not self.first:
            super().settle()

    def share(self, system):
        super().share(system)
        self.newton.share(system)

    def step(self):
        if not self.first:
            return super().step()
        newton = self.newton
        newton.highest = self.highest
        went = newton.step()
        self.W, self.wall_duals = newton.W, newton.wall_duals
        self.lowest, self.dual, self.estimate, self.idle = newton.lowest, newton.dual, newton.estimate, newton.idle
        self.short += newton.far < SHORT_PART
        if not went or self.short >= SHORT_STEPS or newton.idle > SHORT_STEPS:
            self.first, self.idle = False, 0
            self.settle()
        return True

    def proposed(self):
        for duals in self.newton.proposed() if self.first else super().proposed():
            yield duals
            self.newton.highest = self.highest

    def snapshot(self) -> RunState:
        return super().snapshot() | {f"newton.{name}": value for name, value in self.newton.snapshot().items()}

    def resume(self, state: Mapping[str, Any]) -> None:
        self.first = bool(state["first"])
        self.settle()  # makes room
        super().resume(state)
        self.newton.resume(beneath(state, "newton"))


def scalar_run(shape: EntryShape, start: Start, setting: Setting) -> SecondOrderRun:
    """A run on a problem whose loss is differentiable or has sides."""
    if shape.loss.smooth:
        kind = NewtonFirst if has_sides(shape.losses) else ScalarNewton
        return kind(shape, start, setting)
    return ScalarInterior(shape, start, setting)
