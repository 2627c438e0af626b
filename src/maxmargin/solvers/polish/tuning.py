"""Numbers of polishing, as those of `solvers/tuning.py`."""

from typing import NamedTuple


class PolishTuning(NamedTuple):
    """When coordinate ascent is finished by Newton steps on its free duals, and how far these go; costs in seconds of one core.
    Made problems of each family, 60 to 2,000 rows, 2026-11-16."""

    # Gaps below this are tight: steps are thought of after so many passes, and after more of them where the target is larger.
    tight: float = 1e-4
    first: int = 8
    later: int = 100
    # How much more is spent from one mark of the gap to the next, and how many marks make a rate.
    mark: float = 1.05
    marks: int = 4
    # Of a look at the free duals, with a dual value from scratch, and how much more is spent at the next look.
    look: float = 1e-3
    seldom: float = 1.5
    # How many times as much as was spent the passes to come may cost at the most.
    horizon: float = 10.0
    # Duals of a table that is looked at, free ones of a face, and numbers of their vectors where a matrix of features x features
    # does; at the most.
    table: int = 1 << 25
    most: int = 3000
    entries: int = 1 << 24
    # Bounds that one factor serves, and factors at the most, if duals are few.
    walls: int = 64
    factors: int = 8
    # Bounds that are met: so many in any case, and so many for each dual that the last pass freed or brought to a bound.
    few_hits: int = 4
    again: float = 10.0
    # Prices after which there is another look where the dual value did not rise.
    patience: float = 4.0
    # Of a multiplication and addition of matrix products; of an entry of a row that is visited, for each of its scores; of the
    # rest of a visit, and of that of a pass; of the rest of a visit to a structured sample.
    product: float = 2e-10
    entry: float = 1e-9
    visit: float = 5e-8
    sweep: float = 1e-4
    sample: float = 2e-6
    # Of an entry of the matrix that a bound is met with, and of the rest of it; of the rest of a round on a kernel problem; of a
    # number of a copy that a step within a round goes over, and rounds after which steps are thought of, however large the gap
    # that is asked for. The last two: made sets for regression, 300 and 1,500 rows, C = 1 to 1e4, 2026-11-18.
    held: float = 3e-9
    hit: float = 2e-4
    round: float = 1e-3
    stepped: float = 1e-9
    rounds: int = 6


POLISH = PolishTuning()
