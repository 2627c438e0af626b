"""How often a run looks at the clock: whatever an example costs, about ten times a second."""

from collections.abc import Callable

from ..jit import clock
from .tuning import PACE, PaceTuning


def never() -> bool:
    """For whoever need not stop."""
    return False


def examples_between(work: float, most: int, tuning: PaceTuning = PACE) -> int:
    """How many examples of this much work to visit between two looks. It depends on the data only, as do all sums then."""
    return max(1, min(most, int(tuning.work / max(work, 1.0))))


class Pace:
    """How many samples to visit between two looks, learned on the way: the cost of an oracle is not known beforehand.

    It must not show in the result, so sums are carried on from stretch to stretch. Where that is not all, the count is `fixed`.
    """

    def __init__(self, fixed: int | None = None, tuning: PaceTuning = PACE) -> None:
        self.count, self.learns, self.look = fixed or 1, fixed is None, tuning.look

    def visit(
        self, start: int, end: int, visit: Callable[[int, int, float], float], stop: Callable[[], bool]
    ) -> tuple[float, int]:
        """visit(first, last, sum so far) over stretches of start ... end - 1; returns the sum, and where it was stopped."""
        total = 0.0
        while start < end and not stop():
            last, began = min(start + self.count, end), clock()
            total = visit(start, last, total)
            took, start = clock() - began, last
            if self.learns and took > 2.0 * self.look:
                self.count = max(1, self.count // 2)
            elif self.learns and took < 0.5 * self.look:
                self.count *= 2
        return total, start
