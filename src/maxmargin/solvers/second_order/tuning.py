"""Numbers of second-order methods, as those of `solvers/tuning.py`."""

from typing import NamedTuple


class RankingTuning(NamedTuple):
    """Rankings by softened hinges. By reasoning, 2026-11-17: made sets of 40 to 100,000 rows converge with them, and no other
    values were tried."""

    widest: float = 1.0  # the width at first
    share: float = 0.5  # part of the target that the width may take up
    even: float = 1.0  # the width shrinks when the slope's part of the gap is no more than this many times its own, or the target
    shrink: float = 0.1  # by this at the most
    flat: float = 0.3  # part of the first slope that the end of a line may have
    remembered: int = 10  # steps that tell of the second derivatives


RANKING = RankingTuning()
