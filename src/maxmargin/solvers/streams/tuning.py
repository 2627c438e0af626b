"""Numbers of online runs, as those of `solvers/tuning.py`."""

from typing import NamedTuple

from ..tuning import PACE, VISITS, PaceTuning, VisitTuning


class StreamTuning(NamedTuple):
    """Online runs. Sets not recorded, all 2026-11-15; `python -m benchmarks online` came with `fresh` and `rise`."""

    visits: VisitTuning = VISITS
    pace: PaceTuning = PACE
    # Examples: parts of the cache below are merged with their like, so that there are few.
    large: int = 1 << 15
    # Part of the limit that is left used where something had to leave.
    filled: float = 0.8
    # Share of a part that must be prunable before it is copied without.
    stale: float = 0.2
    # Passes an example rests after it was calm twice in a row: then it may be pruned.
    patient: int = 3
    # The cached problem is solved to this part of the target.
    fine: float = 0.3
    # Structured: samples between two rounds of optimisation, which goes on while it raises the dual value by this part of what
    # the target allows the samples visited.
    fresh: int = 64
    rise: float = 0.3
    # Such a round visits one in so many of the samples met before, and as many as are fresh at least.
    again: int = 4


STREAM = StreamTuning()
