"""Numbers of dual ascent on a device, as those of `solvers/tuning.py`."""

from typing import NamedTuple


class DeviceTuning(NamedTuple):
    """Blocks of rows that step together, and the line search along their steps."""

    # Rows of a block at the most, and into how many blocks a pass is parted at the least. 1,281,167 x 2,048 with 1,000 classes,
    # H200, 2,048, 4,096 and 8,192 rows: where rows have much in common 9 passes in the place of 14 to 1e-3, else about as fast,
    # 2026-11-17. Small sets: nothing was measured.
    rows: int = 4096
    parts: int = 64
    least: int = 8
    # Numbers of a block of X and its scores that are worth a command to the device: where rows are short there are more of them.
    # 10,000,000 x 256 with two classes, H200, 2^20 to 2^25: to 1e-3 in 1.57 s, 0.55 s (2^22), 0.49 s, 0.38 s, and 1.15 s by many
    # more passes, 2026-11-17.
    busy: int = 1 << 23
    # Numbers of a block of X and its scores at the most, which bounds memory. Nothing was measured, 2026-11-17.
    entries: int = 1 << 28
    # sigma at the start, at the most, and how fast it follows the line search. As in the sketch, 2026-11-17.
    sigma: float = 2.0
    most: float = 1e4
    follow: float = 0.3
    # Extrapolation: from which pass on, how far at first in units of the last change, and at the most. Digits, 2026-11-17.
    later: int = 10
    ahead: float = 1.0
    farthest: float = 30.0
    # Part of the room left on a device that duals may take, with those of the pass before: blocks need the rest. By guess,
    # 2026-11-17.
    duals: float = 0.7
    # Part of the sums below which a gain is rounding. By float64, 2026-11-17.
    noise: float = 1e-14


DEVICE = DeviceTuning()
