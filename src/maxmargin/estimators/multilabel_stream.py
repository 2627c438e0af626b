"""Multi-label problems of samples that come in blocks: all labels at once, a row of duals for each sample."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data.indicators import LabelColumns
from ..data.rows import rows
from ..data.sources.blocks import Block
from ..data.sources.memory import Arrays
from ..problems.blocked import Examples, StreamProblem
from ..problems.linear import norms
from ..problems.multilabel import LabelGroup
from ..regularizers.gaussian import Coupling, Regularizer
from .by_block import check_finite


def packed(columns: LabelColumns) -> np.ndarray:
    """Labels as bytes: those that are present, and beside them those that are known."""
    return np.hstack(columns.packed(np.arange(columns.shape[1])))


def stream(
    source, read, n_rows: int, features: int, parts: tuple[Any, ...], setting: tuple[float, float, float]
) -> StreamProblem:
    """The problem of all samples. `parts`: factors, margins, kind of the loss and R; `setting`: C, the bias and SPARSE_BELOW."""
    factors, margin, kind, R = parts
    C, bias, sparse_below = setting
    labels = np.arange(len(factors))

    def build(X, target: np.ndarray, weight: np.ndarray) -> LabelGroup:
        data, half = rows(X, bias, sparse_below), target.shape[1] // 2
        pair = np.ascontiguousarray(target[:, :half]), np.ascontiguousarray(target[:, half:])
        return LabelGroup(data, C * weight, labels, pair, factors, margin, kind, norms(data, np.empty(0)), R)

    regularizer = Regularizer() if R is None else Coupling(R)
    return StreamProblem(source, read, build, n_rows, features, len(factors), regularizer)


def reader(dtype):
    """What makes samples of the blocks of a source with an indicator matrix."""

    def read(block: Block) -> Examples:
        X = block.X if dtype is None else block.X.astype(dtype, copy=False)
        check_finite(X, block.rows)
        weight = np.ones(block.rows.size) if block.weight is None else np.asarray(block.weight, np.float64)
        return Examples(block.rows, X, packed(LabelColumns(sp.csc_array(block.y))), weight)

    return read


def arrays(X, columns: LabelColumns, weight: np.ndarray) -> tuple[Arrays, Any]:
    """Validated arrays as a source, and what reads its blocks."""
    return Arrays(X, packed(columns), weight), lambda block: Examples(*block)


def masses(source) -> np.ndarray:
    """(labels, 2): the summed weight of the samples without and with each label, by a pass of its own."""
    total = np.zeros((source.n_labels, 2))
    for block in source.blocks():
        weight = np.ones(block.rows.size) if block.weight is None else np.asarray(block.weight, np.float64)
        total += LabelColumns(sp.csc_array(block.y)).masses(weight)
    return total
