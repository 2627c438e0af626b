"""The problem of examples that come in blocks: the sum over all rows of a source, never in memory at once.

A block's examples make a problem of their own (`ScalarProblem` or a `RowProblem`) with the weights of the whole; values of the
whole are sums over blocks.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..jit import vectors
from ..regularizers.gaussian import Regularizer
from ..regularizers.half_spaces import HalfSpaces


class Examples(NamedTuple):
    """Rows of a source as a problem takes them: their numbers, X, encoded targets, weights."""

    rows: np.ndarray
    X: Any
    target: np.ndarray
    weight: np.ndarray

    def chosen(self, which: np.ndarray) -> "Examples":
        """A copy of some of them, by mask."""
        return Examples(*(array[which] for array in self))

    @property
    def nbytes(self) -> int:
        X = self.X
        held = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) if sp.issparse(X) else X.nbytes
        return held + self.rows.nbytes + self.target.nbytes + self.weight.nbytes


def stacked(parts: Sequence[Any]) -> Any:
    """Matrices on top of each other; sparse if any of them is."""
    if not any(map(sp.issparse, parts)):
        return np.concatenate(parts)
    return sp.vstack([part if sp.issparse(part) else sp.csr_array(part) for part in parts], format="csr")


def joined(parts: list[Examples]) -> Examples:
    rows, X, target, weight = zip(*parts, strict=True)
    return Examples(np.concatenate(rows), stacked(X), np.concatenate(target), np.concatenate(weight))


@dataclass(frozen=True)
class StreamProblem:
    """`read` turns a block of the source into examples, checked; `build` makes the problem of some of them.

    `n_classes` is None where an example has one score.
    """

    source: Any
    read: Callable[[Any], Examples]
    build: Callable[[Any, np.ndarray, np.ndarray], Any]
    n_examples: int
    n_features: int
    n_classes: int | None = None
    regularizer: Any = field(default_factory=Regularizer)
    half_spaces: HalfSpaces | None = None

    @property
    def table_shape(self) -> tuple[int, ...]:
        """The shape of sum_i b_i x_i."""
        if self.n_classes is None:
            return (self.n_features + 1,)
        return (self.n_features + 1, vectors.blocks(self.n_classes, np.float64), vectors.width(np.float64))

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return self.regularizer.shape(self.table_shape)

    @property
    def dual_shape(self) -> tuple[int, ...]:
        return (self.n_examples,) if self.n_classes is None else (self.n_examples, self.n_classes)

    def examples(self, seed: int | None) -> Generator[Examples]:
        """A full pass; the rows of a block come as they are, since solvers visit them in a random order of their own."""
        with closing(self.source.blocks(seed, shuffle_rows=False)) as blocks:
            for block in blocks:
                yield self.read(block)

    def table(self, w: np.ndarray) -> np.ndarray:
        """The weights as (features + 1,) or (classes, features + 1)."""
        return w if self.n_classes is None else vectors.to_classes(self.regularizer.scoring(w), self.n_classes)

    def feasible(self, w: np.ndarray) -> np.ndarray:
        if self.half_spaces is None:
            return w
        if self.n_classes is None:
            return self.half_spaces.feasible(w)
        return vectors.from_classes(self.half_spaces.feasible(vectors.to_classes(w, self.n_classes)), np.float64)
