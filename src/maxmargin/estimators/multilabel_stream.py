"""Multi-label problems of samples that come in blocks: all labels at once, a row of duals for each sample."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data.indicators import LabelColumns
from ..data.sources.blocks import Block
from ..data.table import table_of
from ..problems.base import PLAIN_TERM
from ..problems.blocked import Examples, Reader, StreamProblem
from ..regularizers.coupled import Coupling
from .by_block import check_finite_rows
from .posing import AllLabels


def packed(columns: LabelColumns) -> np.ndarray:
    """Labels as bytes: those that are present, and beside them those that are known."""
    return np.hstack(columns.packed(np.arange(columns.shape[1])))


@dataclass(frozen=True)
class LabelReader(Reader):
    """Blocks of a source with an indicator matrix; `setting` as that of `SourceReader`."""

    posing: AllLabels
    setting: tuple[float, float]
    dtype: Any = None

    def read(self, block: Block) -> Examples:
        X = block.X if self.dtype is None else block.X.astype(self.dtype, copy=False)
        check_finite_rows(X, block.rows)
        weight = np.ones(block.rows.size) if block.weight is None else np.asarray(block.weight, np.float64)
        return Examples(block.rows, X, packed(LabelColumns(sp.csc_array(block.y))), weight)

    def build(self, X, target, weight):
        return self.posing.problem(table_of(X, *self.setting), target, weight, PLAIN_TERM, None)


def stream(source, reader: LabelReader, n_rows: int, features: int) -> StreamProblem:
    """The problem of all samples."""
    R = reader.posing.R
    return StreamProblem(source, reader, n_rows, features, reader.posing.classes, PLAIN_TERM if R is None else Coupling(R))


def masses(source) -> np.ndarray:
    """(labels, 2): the summed weight of the samples without and with each label, by a pass of its own."""
    total = np.zeros((source.n_labels, 2))
    for block in source.blocks():
        weight = np.ones(block.rows.size) if block.weight is None else np.asarray(block.weight, np.float64)
        total += LabelColumns(sp.csc_array(block.y)).masses(weight)
    return total
