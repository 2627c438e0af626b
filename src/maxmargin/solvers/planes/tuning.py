"""Numbers of bundle methods, as those of `solvers/tuning.py`."""

from typing import NamedTuple


class SimplexTuning(NamedTuple):
    """The quadratic program of bundle methods."""

    # Pair steps in one visit of a block. Set not recorded, 2026-11-15.
    pairs: int = 64
    # Sweeps over all blocks before the first Newton step, at least. Set not recorded, 2026-11-15.
    sweeps: int = 5
    # A Newton step over s entries takes about as long as s^2 / 5,000 sweeps: 200 ms and 0.8 ms where s = 1,100. Set not recorded,
    # 2026-11-15.
    as_long: int = 5_000
    # Sweeps times entries times blocks between two looks at the clock: four sweeps of 16,384 planes in 16 blocks, a tenth of a
    # second or so. Not tuned; 2026-11-17.
    work: int = 1 << 20


class BundleTuning(NamedTuple):
    """Bundle methods."""

    simplex: SimplexTuning = SimplexTuning()
    # The smallest alpha but zero; the quadratic term itself has 1/2. Set not recorded, 2026-11-15.
    first: float = 2.0**-6
    # Part of what the model promised from which on it may be trusted farther, as serious steps are told from null steps; 0.8
    # before. Starts of paths, set not recorded, 2026-11-15.
    trust: float = 0.1
    # Part of the gap that the quadratic program may leave undone: less costs more time than it saves steps. With 0.05 it took
    # four times as long for 75 steps; set not recorded, 2026-11-15.
    share: float = 0.2
    # Iterations between two lower bounds without the prox-term: their quadratic program is the larger one. `python -m benchmarks
    # bundle`, workload not recorded, 2026-11-15.
    seldom: int = 3
    # Models by default: what Uřičář and Franc (2012) found best, on their sets.
    models: int = 16
    # Planes, whatever the memory: the quadratic program would take too long. Set not recorded, 2026-11-15.
    planes: int = 16_384
    # Parts of the rows that descend by themselves before the first iteration, at the most, and how many rows each has at least.
    # Made rows of two classes, 50 columns, n C = 100, 1,000, 10,000; iterations to 1e-3, the mean of four seeds: 40,000 rows in
    # 16 parts 2, 16 and 138, in one 4, 53 and 141; 5,000 rows in four parts 8, 51 and 115, in one 16, 58 and 106. 2026-11-17.
    parts: int = 16
    least: int = 1 << 11
    # How much shorter the steps in parts are than they need be not to overshoot. The same, 125,000 rows in 7 parts, n C = 1,000:
    # 37 iterations with 1, 7 with 2, 6 with 4; in one part 28. 2026-11-17.
    shorter: float = 2.0


BUNDLE = BundleTuning()
