"""The labels of a multi-label problem, column by column: which samples have a label, and of which it is not known.

Only the samples that have a label are listed, so that a sparse matrix of labels is never made dense.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

BYTE = 8  # labels


@dataclass(frozen=True)
class LabelColumns:
    """Labels as two CSC patterns of shape (samples, labels); their data are not looked at."""

    present: sp.csc_array
    missing: sp.csc_array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.present.shape

    @cached_property
    def counts(self) -> np.ndarray:
        """How many samples have each label."""
        return np.diff(self.present.indptr)

    def masses(self, weight: np.ndarray) -> np.ndarray:
        """(labels, 2): the summed weight of the samples without and with each label; those of which it is missing count nowhere."""
        have = _sums(self.present, weight)
        unknown = 0.0 if self.missing is None else _sums(self.missing, weight)
        return np.column_stack([np.maximum(weight.sum() - unknown - have, 0.0), have])

    def packed(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bytes (samples, eight labels each) of the labels that are present, and of those that are known."""
        present, known = (np.zeros((self.shape[0], -(-len(columns) // BYTE)), np.uint8) for _ in range(2))
        for k, column in enumerate(columns):
            bit = np.uint8(1 << k % BYTE)
            present[_rows(self.present, column), k // BYTE] |= bit
            known[:, k // BYTE] |= bit
            if self.missing is not None:
                known[_rows(self.missing, column), k // BYTE] &= ~bit
        return present, known


def _rows(matrix: sp.csc_array, column: int) -> np.ndarray:
    return matrix.indices[matrix.indptr[column] : matrix.indptr[column + 1]]


def _sums(matrix: sp.csc_array, weight: np.ndarray) -> np.ndarray:
    """The summed weight of the rows listed in each column."""
    sums = np.concatenate([[0.0], np.cumsum(weight[matrix.indices])])
    return np.diff(sums[matrix.indptr])
