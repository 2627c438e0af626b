"""Rows dealt by a hash of their numbers, so that a row goes to the same fold, or side, in every pass."""

from collections.abc import Iterator
from typing import Any

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the constants of splitmix64 (Steele, Lea and Flood 2014)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def hashed_rows(count: int, seed: int) -> np.ndarray:
    """A number of 64 bits for each row."""
    with np.errstate(over="ignore"):  # modulo 2^64
        mixed = (np.arange(count, dtype=np.uint64) + np.uint64(seed) * np.uint64(2**32) + np.uint64(1)) * GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * SECOND
    return mixed ^ (mixed >> np.uint64(31))


def folds_of_rows(count: int, folds: int, seed: int = 0) -> np.ndarray:
    """The fold of each row, between 0 and `folds` - 1."""
    return (hashed_rows(count, seed) % np.uint64(folds)).astype(np.int64)


class DealtSamples:
    """Blocks of some structured samples of a source, for `Samples`: `kept` says of each sample whether it is one of them."""

    def __init__(self, source: Any, kept: np.ndarray):
        self.source, self.kept = source, kept

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for block in self.source.blocks():
            places = np.flatnonzero(self.kept[block.rows]).tolist()
            y, weight = block.y, np.ones(block.rows.size) if block.weight is None else block.weight
            yield [block.X[k] for k in places], None if y is None else [y[k] for k in places], weight[places]


def shares_of_rows(count: int, seed: int) -> np.ndarray:
    """A number from 0 to 1 for each row. The hash is that of another seed than of folds, so that these cut across a split."""
    return hashed_rows(count, 2**32 - 1 - seed).astype(np.float64) / 2.0**64
