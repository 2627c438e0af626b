"""Examples that come in blocks. A *source* is read in passes, each a run of blocks; it never has to lie in memory.

What solvers and estimators ask of a source: `n_rows` (None where only a scan can tell), `n_features`, `dtype`, `scan() ->
(n_rows, n_features, label values)`, `blocks(seed=None)` (a full pass; with a seed in a random order) and `check_unchanged()`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

BLOCK = 8192  # rows


class Block(NamedTuple):
    """Some rows: their numbers, which are the same in every pass, X (C-ordered or CSR), labels and weights if there are any."""

    rows: np.ndarray
    X: Any
    y: np.ndarray | None = None
    weight: np.ndarray | None = None


def is_source(X) -> bool:
    """Whether X is read in blocks."""
    return hasattr(X, "blocks") and hasattr(X, "scan")


class Arrays:
    """A source of arrays in memory: its blocks are views of them, the rows of a block stay together."""

    multilabel = False

    def __init__(self, X, y: np.ndarray | None = None, weight: np.ndarray | None = None, block: int = BLOCK):
        self.X, self.y, self.weight, self.block = X, y, weight, block
        self.n_rows, self.n_features = X.shape
        self.dtype = X.dtype

    def scan(self):
        return self.n_rows, self.n_features, None if self.y is None else np.unique(self.y)

    def check_unchanged(self) -> None:
        """Arrays in memory are the caller's own."""

    def blocks(self, seed: int | None = None) -> Iterator[Block]:
        starts = np.arange(0, self.n_rows, self.block)
        if seed is not None:
            starts = np.random.default_rng(seed).permutation(starts)
        for start in starts.tolist():
            part = slice(start, min(start + self.block, self.n_rows))
            y, weight = (None if array is None else array[part] for array in (self.y, self.weight))
            yield Block(np.arange(part.start, part.stop), self.X[part], y, weight)
