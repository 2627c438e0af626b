"""The problem of examples that come in blocks: the sum over all rows of a source, never in memory at once.

A block's examples make a problem of their own (`ScalarProblem` or a `RowProblem`) with the weights of the whole; values of the
whole are sums over blocks.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..data.rows import column_sizes, rows
from ..data.sources.memory import Arrays
from ..jit import vectors
from ..regularizers.base import Regularizer
from ..regularizers.half_spaces import HalfSpaces
from .base import PLAIN_TERM, Problem
from .linear import LinearProblem
from .sizes import overlarge_columns, worth_of_duals

LOOKED_AT = 1 << 16  # rows of a source whose columns are looked at for advice, at least. By guess, 2026-11-17


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


class Reader(ABC):
    """How blocks of a source become examples, and examples a problem. Holds no data, and pickles."""

    @property
    def suspect(self) -> str:
        """As `Problem.suspect`."""
        return ""

    @abstractmethod
    def read(self, block: Any) -> Examples:
        """The rows of a block, checked."""

    @abstractmethod
    def build(self, X: Any, target: np.ndarray, weight: np.ndarray) -> LinearProblem:
        """The problem of some examples, at C = 1."""


class FirstRows(NamedTuple):
    """The largest absolute value of each column, the weights, and whether losses are smooth."""

    sizes: np.ndarray
    weight: np.ndarray
    smooth: bool


@dataclass(frozen=True)
class StreamProblem(Problem):
    """Examples that come in blocks. `n_classes` is None where an example has one score."""

    source: Any
    reader: Reader
    count: int
    n_features: int
    n_classes: int | None = None
    regularizer: Regularizer = PLAIN_TERM
    half_spaces: HalfSpaces | None = None
    C: float = 1.0

    in_memory = False

    @property
    def suspect(self):
        return self.reader.suspect

    @property
    def n_examples(self) -> int:
        return self.count

    def build(self, X: Any, target: np.ndarray, weight: np.ndarray) -> LinearProblem:
        """The problem of some examples, with the weights of the whole."""
        return self.reader.build(X, target, weight).at(self.C)

    def primal(self, w: np.ndarray, n_jobs: int = 1) -> float:
        """P(w) by a pass over the source."""
        risks = (self.build(part.X, part.target, part.weight).risk(w, n_jobs) for part in self.examples(None))
        return self.regularizer.penalty(w) + sum(risks)

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
                yield self.reader.read(block)

    @cached_property
    def first_rows(self) -> "FirstRows":
        """What the first rows of the source say of all."""
        sizes, weights, smooth, count = np.zeros(self.n_features), [], False, 0
        for part in self.examples(None):
            found = column_sizes(rows(part.X))
            sizes, count = sizes if found is None else np.maximum(sizes, found), count + len(part.weight)
            weights.append(part.weight)
            smooth = self.build(part.X, part.target, part.weight).loss.smooth
            if count >= LOOKED_AT:
                break
        return FirstRows(sizes, np.concatenate(weights) if weights else np.zeros(0), smooth)

    def sizes_seen(self):
        count = self.first_rows.weight.size
        return self.first_rows.sizes, "" if count >= self.count else f" in the first {count} rows"

    def overlarge(self, primal):
        first = self.first_rows
        if not np.any(first.weight):
            return ""
        caps = self.C * first.weight
        value = primal * caps.size / self.count  # about that of these rows
        return overlarge_columns(first.sizes, float(np.median(caps)), worth_of_duals(value, caps, first.smooth))

    def coefficients(self, w: np.ndarray) -> np.ndarray:
        return w if self.n_classes is None else vectors.to_classes(self.regularizer.scoring(w), self.n_classes)

    def feasible(self, w: np.ndarray) -> np.ndarray:
        if self.half_spaces is None:
            return w
        if self.n_classes is None:
            return self.half_spaces.feasible(w)
        return vectors.from_classes(self.half_spaces.feasible(vectors.to_classes(w, self.n_classes)), np.float64)


@dataclass(frozen=True)
class MemoryReader(Reader):
    """Blocks of the examples of a problem in memory; what targets they have, their numbers say."""

    problem: LinearProblem

    def read(self, block):
        return Examples(block.rows, block.X, block.rows, block.weight)

    def build(self, X, target, weight):
        return self.problem.taken(self.problem.table.like(X), target, weight)


def streamed(problem: LinearProblem) -> StreamProblem:
    """A problem in memory as one whose examples come in blocks."""
    source = Arrays(problem.table.matrix, np.arange(problem.n_examples), problem.weight)
    shape, classes = problem.table.shape, problem.dual_shape[1:]
    regularizer, half_spaces = problem.regularizer, problem.half_spaces
    return StreamProblem(
        source, MemoryReader(problem), *shape, classes[0] if classes else None, regularizer, half_spaces, problem.C
    )
