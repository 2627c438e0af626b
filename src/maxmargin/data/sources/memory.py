"""Sources that need no file: arrays in memory, and structured samples from the user's own reader.

What solvers and estimators ask of any source: `n_rows` (None where only a scan can tell), `n_features`, `dtype`, `scan() ->
(n_rows, n_features, label values)`, `blocks(seed=None, shuffle_rows=True)` (a full pass; with a seed in a random order) and
`check_unchanged()`.
"""

from collections.abc import Generator

import numpy as np

from .blocks import Block, no_array

BLOCK_ROWS = 8192  # of a block of arrays in memory. Set not recorded, 2026-11-15


def is_source(X) -> bool:
    """Whether X is read in blocks."""
    return hasattr(X, "blocks") and hasattr(X, "scan")


class Arrays:
    """A source of arrays in memory: its blocks are views of them, the rows of a block stay together."""

    multilabel = False

    def __init__(self, X, y: np.ndarray | None = None, weight: np.ndarray | None = None, block: int = BLOCK_ROWS):
        self.X, self.y, self.weight, self.block = X, y, weight, block
        self.n_rows, self.n_features = X.shape
        self.dtype = X.dtype

    def scan(self):
        return self.n_rows, self.n_features, None if self.y is None else np.unique(self.y)

    def check_unchanged(self) -> None:
        """Arrays in memory are the caller's own."""

    def blocks(self, seed: int | None = None, *, shuffle_rows: bool = False) -> Generator[Block]:
        starts = np.arange(0, self.n_rows, self.block)
        if seed is not None:
            starts = np.random.default_rng(seed).permutation(starts)
        for start in starts.tolist():
            part = slice(start, min(start + self.block, self.n_rows))
            y, weight = (None if array is None else array[part] for array in (self.y, self.weight))
            yield Block(np.arange(part.start, part.stop), self.X[part], y, weight)


class Samples:
    """A source of structured samples: blocks `(X, y)` or `(X, y, weight)` of lists, from an object that starts anew at each
    `iter(...)` and always gives the same.

    Parameters
    ----------
    blocks : re-iterable
        For example a list of file readers, or an object whose `__iter__` is a generator function. A generator itself ends after
        one pass and is refused.
    """

    multilabel = False

    def __init__(self, blocks):
        if not hasattr(blocks, "__iter__") or iter(blocks) is blocks:
            raise ValueError("blocks must start anew at each iter(...); a generator or an iterator ends after one pass.")
        self._given = blocks
        self.n_rows: int | None = None

    def __array__(self, dtype=None, copy=None):
        raise no_array("A Samples object")

    def scan(self):
        """The number of samples, by a pass; features and labels are the structure's to know."""
        self.n_rows = sum(block.rows.size for block in self.blocks())
        return self.n_rows, None, None

    def check_unchanged(self) -> None:
        """Every pass checks that it found as many samples as the first."""

    def blocks(self, seed: int | None = None) -> Generator[Block]:
        first = 0
        for k, given in enumerate(self._given):
            if not isinstance(given, tuple) or len(given) not in (2, 3):
                size = f" of {len(given)}" if isinstance(given, tuple | list) else ""
                raise ValueError(f"Block {k} must be a tuple (X, y) or (X, y, weight); got a {type(given).__name__}{size}.")
            X, y, weight = (*given, None)[:3]
            count = len(X)
            if y is not None and len(y) != count:
                raise ValueError(f"Block {k} has {count} samples in X and {len(y)} in y.")
            if weight is not None:
                weight = np.asarray(weight)
                real = weight.dtype.kind in "biuf" and weight.shape == (count,)
                if not real or not np.all(np.isfinite(weight)) or np.any(weight < 0):
                    raise ValueError(f"The weights of block {k} must be {count} finite numbers >= 0.")
                weight = weight.astype(np.float64, copy=False)
            if count:
                yield Block(np.arange(first, first + count), X, y, weight)
            first += count
        if self.n_rows is not None and first != self.n_rows:
            raise ValueError(f"The source had {self.n_rows} samples in its first pass and {first} in this one.")
