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
    # Rows that a thread has at least in the descent before the first iteration. 250,000 x 50 made rows of two classes: it ends at
    # 3,097 on one thread, 3,120 in two parts, 3,139 in four, 3,809 in sixteen; the optimum is 2,941. 2026-11-17.
    least: int = 1 << 16


BUNDLE = BundleTuning()
