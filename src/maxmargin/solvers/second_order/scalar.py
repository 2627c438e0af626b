"""Which run serves a loss of one score, or one for each of several scores."""

from ..base import Setting, Start
from .interior_point import ScalarInterior, has_sides
from .run import EntryShape, SecondOrderRun
from .smooth import ScalarNewton
from .smooth_first import SmoothFirst

SHORT_PART, SHORT_STEPS = 0.3, 4  # part of a Newton step that is short, and how many of them end the method


class NewtonFirst(SmoothFirst, ScalarInterior):
    """Squared losses: Newton's method on the primal, which needs few and cheap steps; where many of them are short, as rows that
    count change with each (separable data at a large C), the interior point."""

    held = (*SmoothFirst.held, "short")

    def __init__(self, shape: EntryShape, start: Start, setting: Setting):
        self.short = 0
        super().__init__(shape, start, setting)
        self.begin_first(ScalarNewton(shape, start, setting))

    def settle(self):
        if not self.first:
            ScalarInterior.settle(self)

    def gives_up(self, went):
        self.short += self.newton.far < SHORT_PART
        return not went or self.short >= SHORT_STEPS or self.newton.idle > SHORT_STEPS


def scalar_run(shape: EntryShape, start: Start, setting: Setting) -> SecondOrderRun:
    """A run on a problem whose loss is differentiable or has sides."""
    if shape.loss.smooth:
        kind = NewtonFirst if has_sides(shape.losses) else ScalarNewton
        return kind(shape, start, setting)
    return ScalarInterior(shape, start, setting)
