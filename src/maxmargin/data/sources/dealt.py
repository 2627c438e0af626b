"""Rows of a source dealt to folds, and the source without some of them: what a search by cross-validation reads.

The fold of a row is a hash of its number, so that it is the same in every pass and needs no labels. Rows that are left are
numbered anew, from 0, as solvers need them; that takes eight bytes for each.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .base import Derived
from .blocks import Block, Scan

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the constants of splitmix64 (Steele, Lea and Flood 2014)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def folds_of_rows(count: int, folds: int, seed: int = 0) -> np.ndarray:
    """The fold of each row, between 0 and `folds` - 1."""
    with np.errstate(over="ignore"):  # modulo 2^64
        mixed = (np.arange(count, dtype=np.uint64) + np.uint64(seed) * np.uint64(2**32) + np.uint64(1)) * GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * SECOND
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(folds)).astype(np.int64)


class DealtSamples:
    """Blocks of some structured samples of a source, for `Samples`: `kept` says of each sample whether it is one of them."""

    def __init__(self, source: Any, kept: np.ndarray):
        self.source, self.kept = source, kept

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for block in self.source.blocks():
            places = np.flatnonzero(self.kept[block.rows]).tolist()
            y, weight = block.y, np.ones(block.rows.size) if block.weight is None else block.weight
            yield [block.X[k] for k in places], None if y is None else [y[k] for k in places], weight[places]


class Dealt(Derived):
    """Some rows of a source, in their order. `labels` are the different ones among them, as a scan finds them."""

    def __init__(self, source: Any, rows: np.ndarray, labels: np.ndarray | None):
        super().__init__(source)
        self.rows, self.labels = rows, labels

    def __str__(self) -> str:
        return f"{self.rows.size} rows of {self.source}"

    @property
    def dtype(self) -> np.dtype:
        found: np.dtype = self.source.dtype
        return found

    @property
    def feature_names(self) -> list[str] | None:
        found: list[str] | None = self.source.feature_names
        return found

    def _said_rows(self) -> int:
        return self.rows.size

    def _scan(self) -> Scan:
        return Scan(self.rows.size, self.source.scan().n_features, self.labels)

    def _run(self, run: Callable[[], Iterator[Block]]) -> Iterator[Block]:
        for block in run():
            place = np.minimum(np.searchsorted(self.rows, block.rows), self.rows.size - 1)
            kept = np.flatnonzero(self.rows[place] == block.rows)
            if kept.size:
                y, weight = (None if part is None else part[kept] for part in (block.y, block.weight))
                yield Block(place[kept], block.X[kept], y, weight)
