"""Newton's method on the primal first, and the interior point from the duals it has found where that does not get there."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from ...utils.state import RunState, beneath
from .interior_point import InteriorPoint
from .smooth import SmoothRun


class SmoothFirst(InteriorPoint):
    """What such runs share; to be named before the kind of interior point. It calls `begin_first` at the end of its __init__."""

    held = (*InteriorPoint.held, "first")
    first = True
    inside = against = ()
    newton: SmoothRun

    def begin_first(self, newton: SmoothRun) -> None:
        self.newton = newton

    @abstractmethod
    def gives_up(self, went: bool) -> bool:
        """Whether the step that Newton's method has tried, and could make or not, was its last."""

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
        if self.gives_up(went):
            self.first, self.idle, self.system.rest = False, 0, 0.0  # its solutions need not have been exact
            self.settle()
        return True

    def proposed(self):
        for found in self.newton.proposed() if self.first else super().proposed():
            yield found
            self.newton.highest, self.newton.nearest = self.highest, self.nearest

    def snapshot(self) -> RunState:
        return super().snapshot() | {f"newton.{name}": value for name, value in self.newton.snapshot().items()}

    def resume(self, state: Mapping[str, Any]) -> None:
        self.first = bool(state["first"])
        self.settle()  # makes room
        super().resume(state)
        self.newton.resume(beneath(state, "newton"))
