"""Numbers of structured problems, as those of `solvers/tuning.py`."""

from typing import NamedTuple

from ..ascent.tuning import PartTuning
from ..tuning import PACE, VISITS, PaceTuning, VisitTuning


class RoundTuning(NamedTuple):
    """Rounds of visits to structured samples, side by side."""

    # Multiplications that a part of a round must have to do to be worth it, for each part there is, and how many each weight adds
    # to that: what is not compiled takes about a millisecond a round. 6,877 handwritten words (`python -m benchmarks structured`,
    # ocr_all), by processor time, 2026-11-16: too little for threads.
    part: float = 1.2e6
    weight: float = 20.0
    # Rounds that a pass has at least, and how many times as long as worth it the longest is. On the same words, 2026-11-16: four
    # parts took 1.7 times the passes of one with 8 rounds, 1.4 times with 16.
    rounds: int = 16
    longest: float = 4.0
    # Where threads stand by in compiled code (`set_rounds`): seconds of a multiplication of a visit, on one core of x86, made
    # chains as long as words with 26 labels (`python -m benchmarks cores`), 2026-11-17; what a meeting costs.
    multiplication: float = 3.3e-10
    prices: PartTuning = PartTuning()
    # Rounds of a pass, as long as meetings take so much of the time of visits at the least and at the most; and how many of the
    # shortest there must be. The same chains: of 119 passes of one thread, 16 threads made 129 with rounds of 128 samples, 136
    # with 256 and 145 with 512, 2026-11-17.
    crew_rounds: int = 8
    least_meeting: float = 0.05
    most_meeting: float = 0.5
    fewest: int = 3
    # Relative gap below which one thread goes on alone: as in `PartTuning`, not measured here, 2026-11-17.
    fine: float = 1e-6


SIDE_BY_SIDE = RoundTuning()


class PolytopeTuning(NamedTuple):
    """Structured problems: working sets and linearization."""

    visits: VisitTuning = VISITS
    pace: PaceTuning = PACE
    rounds: RoundTuning = SIDE_BY_SIDE
    # Outputs a sample has room for at first. Set not recorded, 2026-11-15.
    outputs: int = 4
    # Part of the memory of sets that is there besides, for those that grow: until it is used up they stay where they are, and
    # with them the threads that stand by. Made chains (`python -m benchmarks cores`), 2 threads: of 73 times that sets grew they
    # moved 3 times, 73 times without; 2 times with 1.0, 2026-11-18.
    spare: float = 0.5
    # Samples whose rises are added up before they are added to the dual value. Set not recorded, 2026-11-15.
    stretch: int = 256
    # Part of the visits of a gap-driven pass that go to samples regardless of their gap. Set not recorded, 2026-11-15.
    anyway: float = 0.05
    # The marginal of a wrong label at the start. Set not recorded, 2026-11-15.
    spread: float = 0.01
    # Part of the last oracle's promise that an output met before must hold to be used instead, and for how many passes it may be.
    # 626 handwritten words (`python -m benchmarks structured`, ocr), 2026-11-15.
    trust: float = 0.5
    patience: int = 10
    # A corrective visit moves pairs until the gap over the set is `part` of the gap before, or `steps` for each output. Set not
    # recorded, 2026-11-15.
    part: float = 0.1
    steps: int = 10
    # The longest extrapolation, in units of the last change: see `AscentTuning`. Set not recorded, 2026-11-15. Nine problems of
    # made chains (80 chains of 3 to 8 nodes, 4 labels, three seeds, C from 0.1 to 10, to a gap of 1e-4) took between 10 % less
    # and 12 % more passes with 0.95, 1 % more in the mean, so that both values stay, 2026-11-16.
    farthest: float = 0.9


class TogetherTuning(NamedTuple):
    """When all collected outputs are one problem, which an interior point solves. By guess, 2026-11-18."""

    # Steps of it, about and at the most, and what one costs besides its matrix, in seconds.
    steps: float = 15.0
    most: int = 60
    step: float = 3e-4
    # Turns that must cost less than the passes to come, and passes between two turns at the least.
    turns: float = 3.0
    passes: float = 2.0
    # Part of the least gap that is progress, and turns without it after which passes go on alone.
    progress: float = 0.7
    idle: int = 8
    # Where on the way from the best weights to the new ones a primal value is computed; passes that an output without mass
    # counts; and places that sets are given though they are not full of mass.
    way: tuple[float, ...] = (0.5, 0.25, 0.1, 0.03)
    remembered: int = 60
    places: int = 64
    # Part of the target, and of the gap there is, that the solution may leave.
    part: float = 0.1
    coarse: float = 1e-3
    # Masses below which what is smaller than its multiplier is tried as nothing, one after another.
    dust: tuple[float, ...] = (1e-5, 1e-7, 1e-9, 1e-11)


POLYTOPE, IN_TURNS = PolytopeTuning(), TogetherTuning()
