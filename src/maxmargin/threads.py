"""Independent pieces of work on several threads; kernels let go of the interpreter lock."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np


def pieces(n: int, count: int) -> list[tuple[int, int]]:
    """range(n) cut into at most `count` runs of nearly the same length."""
    bounds = np.linspace(0, n, min(n, count) + 1).astype(int).tolist()
    return list(pairwise(bounds))


def in_threads(work: Callable[[Any], Any], parts: Sequence, n_jobs: int) -> list:
    """work(part) for each part, in order."""
    if n_jobs <= 1 or len(parts) <= 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(n_jobs) as pool:
        return list(pool.map(work, parts))
