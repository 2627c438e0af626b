"""The labels of a multi-label problem, column by column: which samples have a label, and of which it is not known.

Only the samples that have a label are listed, so that a sparse matrix of labels is never made dense.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .label_lists import LISTS, given_labels, names_of_count
from .mistakes import uneven

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
        """(labels, 2): the summed weight of the samples without and with each label, where it is known."""
        have, total = _sums(self.present, weight), weight.sum()
        unknown = np.zeros_like(have) if self.missing is None else _sums(self.missing, weight)
        without = total - unknown - have
        for column in np.flatnonzero(without < 0.5 * total).tolist():  # the rest may be rounding: add it up itself
            others = np.ones(self.shape[0], bool)
            for matrix in (self.present, self.missing):
                if matrix is not None:
                    others[rows_listed(matrix, column)] = False
            without[column] = weight[others].sum()
        return np.column_stack([without, have])

    def packed(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bytes (samples, eight labels each) of the labels that are present, and of those that are known."""
        present = np.zeros((self.shape[0], -(-len(columns) // BYTE)), np.uint8)
        known = np.tile(all_bits(len(columns)), (self.shape[0], 1))
        for k, column in enumerate(columns):
            bit = np.uint8(1 << k % BYTE)
            present[rows_listed(self.present, column), k // BYTE] |= bit
            if self.missing is not None:
                known[rows_listed(self.missing, column), k // BYTE] &= ~bit
        return present, known


def class_bits(code: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """As `LabelColumns.packed`, of samples that have one label each, by its number."""
    present = np.zeros((len(code), -(-classes // BYTE)), np.uint8)
    present[np.arange(len(code)), code // BYTE] = np.left_shift(1, code % BYTE)
    return present, np.tile(all_bits(classes), (len(code), 1))


def all_bits(many: int) -> np.ndarray:
    """Bytes of so many labels, all of them set."""
    return np.packbits(np.ones(many, np.uint8), bitorder="little")


def rows_listed(matrix: sp.csc_array, column: int) -> np.ndarray:
    return matrix.indices[matrix.indptr[column] : matrix.indptr[column + 1]]


def _sums(matrix: sp.csc_array, weight: np.ndarray) -> np.ndarray:
    """The summed weight of the rows listed in each column."""
    columns = np.repeat(np.arange(matrix.shape[1]), np.diff(matrix.indptr))
    return np.bincount(columns, weight[matrix.indices], matrix.shape[1])


class Checked(NamedTuple):
    """The user's labels (`LabelColumns`, or what stands for them on a device), their names where they have any, and the form that
    predictions take after them."""

    columns: Any
    dtype: np.dtype
    sparse: bool
    names: np.ndarray | None = None

    @property
    def classes(self) -> np.ndarray:
        """The names of the labels, or their numbers."""
        return names_of_count(self.names, self.columns.shape[1])


def checked_labels(Y, mask=None, names=None) -> Checked:
    """Indicators 0 and 1 of shape (samples, labels), dense (NaN: not known) or sparse, a frame of them, or lists of labels;
    `mask` says which are not known, `names` are those of all labels."""
    read = given_labels(Y, names)
    found = _checked_matrix(read.matrix, mask)
    names_of_count(read.names, found.columns.shape[1])
    return found._replace(names=read.names, sparse=found.sparse and not read.listed)


def _checked_matrix(Y, mask) -> Checked:
    if isinstance(Y, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(Y)
        mask, Y = (hidden if mask is None else hidden | np.asarray(mask, bool)), Y.filled(0)
    sparse = sp.issparse(Y)
    if not sparse:
        try:
            Y = np.asarray(Y)
        except ValueError:
            raise ValueError(f"Y must be a matrix of indicators 0 and 1: {uneven(Y)}. {LISTS}") from None
    if Y.ndim != 2:
        raise ValueError(
            f"Y must be a matrix of shape (n_samples, n_labels) of indicators 0 and 1; its shape is {Y.shape}. {LISTS}"
        )
    if 0 in Y.shape:
        raise ValueError(f"Y is empty: its shape is {Y.shape}.")
    if Y.dtype.kind not in "buif":
        try:
            Y = Y.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"Y must hold indicators 0 and 1; its dtype is {Y.dtype}. {LISTS}") from None
    missing = _checked_mask(mask, Y.shape)
    if sparse:
        present, missing = _sparse_indicators(sp.csc_array(Y), missing)
    else:
        present, missing = _dense_indicators(Y, missing)
    return Checked(LabelColumns(present, missing), Y.dtype, sparse)


def _checked_mask(mask, shape) -> sp.csc_array | None:
    if mask is None:
        return None
    if (found := uneven(mask)) is not None:
        raise ValueError(f"mask must be a matrix of the shape of Y, {shape}: {found}.")
    if mask.shape != shape if sp.issparse(mask) else np.shape(mask) != shape:
        raise ValueError(
            f"mask must have the shape of Y, {shape}; it has {np.shape(mask) if not sp.issparse(mask) else mask.shape}."
        )
    missing = sp.csc_array(mask if sp.issparse(mask) else np.asarray(mask, dtype=bool))
    missing.eliminate_zeros()
    return missing


def _sparse_indicators(Y: sp.csc_array, missing: sp.csc_array | None) -> tuple[sp.csc_array, sp.csc_array | None]:
    Y = Y.copy()
    Y.sum_duplicates()
    Y.eliminate_zeros()
    if missing is not None:  # what is not known is not looked at
        Y = sp.csc_array(Y - Y.multiply(missing))
        Y.eliminate_zeros()
    if np.any(wrong := Y.data != 1):
        at = int(np.flatnonzero(wrong)[0])
        column = int(np.searchsorted(Y.indptr, at, side="right")) - 1
        raise not_an_indicator(Y.data[at], Y.indices[at], column)
    return Y, missing


def _dense_indicators(Y: np.ndarray, missing: sp.csc_array | None) -> tuple[sp.csc_array, sp.csc_array | None]:
    if Y.dtype == bool and missing is None:
        return places_set(Y), None
    unknown = np.isnan(Y) if Y.dtype.kind == "f" else np.zeros(Y.shape, bool)
    if missing is not None:
        unknown |= missing.toarray().astype(bool)
    if np.any(wrong := ~(unknown | (Y == 0) | (Y == 1))):
        row, column = np.argwhere(wrong)[0]
        raise not_an_indicator(Y[row, column], row, column)
    return places_set((Y == 1) & ~unknown), places_set(unknown) if unknown.any() else None


def places_set(Y: np.ndarray) -> sp.csc_array:
    """The places of the Trues, found as places in one long row: a search in two dimensions takes several times as long."""
    places = np.flatnonzero(Y)
    rows, columns = np.divmod(places, Y.shape[1])
    return sp.csc_array((np.ones(len(places), bool), (rows, columns)), shape=Y.shape)


def not_an_indicator(value, row, column) -> ValueError:
    return ValueError(f"Y holds {value} in row {row}, column {column}; labels are 0 or 1 (NaN, in a dense Y, where not known).")
