"""Checks of the user's matrix that scikit-learn's validation leaves to us: kernels trust their indices."""

from copy import copy

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import safe_sparse_dot

from ..jit import kernel
from ..utils.threads import in_threads, spans
from .mistakes import uneven

ENTRIES_LOOKED_AT = 1 << 20  # of a CSR matrix, that a thread looks at: some hundred microseconds. By guess, 2026-11-18
SYMMETRIC = 1e-8  # part of the largest entry by which a matrix may differ from its transpose: that passes for rounding


def checked_matrix(X, n_jobs: int = 1):
    """X as kernels may read it. CSR input is copied only if it holds an entry twice; the order of the indices does not
    matter."""
    if not sp.issparse(X):
        return X
    try:
        shallow = copy(X)  # the check may cut arrays that are longer than needed
        shallow.check_format(full_check=False)
        if all_in_order(X, n_jobs):
            return X
        shallow.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"X is not a valid CSR matrix: {error}.") from None
    seen = np.full(X.shape[1], -1, np.int64)
    if repeats(X.indptr, X.indices, seen):
        X = X.copy()
        X.sum_duplicates()
    return X


def reals(name: str, given) -> np.ndarray:
    """A parameter as an array of float64 numbers, or a sentence that names it."""
    try:
        array = np.asarray(given)
        if array.dtype.kind in "cmM":  # of which NumPy would take the real part, or the days since 1970
            raise TypeError(f"it holds {'complex numbers' if array.dtype.kind == 'c' else 'dates or times'}")
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of numbers: {uneven(given) or error}.") from None


def numbers(name: str, given) -> np.ndarray:
    """As `reals`, and finite."""
    array = reals(name, given)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite; it holds NaN or infinity.")
    return array


def all_in_order(X, n_jobs: int) -> bool:
    """Whether the columns of each row rise, within the matrix: then nothing is wrong with them. Its arrays are known to fit."""
    parts = spans(X.shape[0], max(1, min(n_jobs, X.indices.size // ENTRIES_LOOKED_AT)))
    return all(in_threads(lambda span: in_order(X.indptr, X.indices, X.shape[1], *span), parts, n_jobs))


@kernel
def in_order(indptr, indices, columns, start, stop):
    """The same of a run of rows."""
    for i in range(start, stop):
        if not 0 <= indptr[i] <= indptr[i + 1] <= indices.size:
            return False
        row = indices[indptr[i] : indptr[i + 1]]
        falls = 0
        for k in range(row.size - 1):
            falls += row[k + 1] <= row[k]
        if falls or (row.size > 0 and (row[0] < 0 or row[row.size - 1] >= columns)):
            return False
    return True


@kernel
def repeats(indptr, indices, seen):
    """Whether a row names a column twice; `seen` holds the last row that named each column, of rows out of order."""
    for i in range(indptr.size - 1):
        row = indices[indptr[i] : indptr[i + 1]]
        falls = 0
        for k in range(row.size - 1):
            falls += row[k + 1] <= row[k]
        if falls:
            for column in row:
                if seen[column] == i:
                    return True
                seen[column] = i
    return False


def row_products(X, W: np.ndarray, n_jobs: int) -> np.ndarray:
    """X W as an array; the rows of a sparse X on so many threads, those of an array as matrix products are set to."""
    if n_jobs == 1 or not sp.issparse(X):
        return safe_sparse_dot(X, W, dense_output=True)
    result = np.empty((X.shape[0], *W.shape[1:]), np.result_type(X, W))

    def work(part: tuple[int, int]) -> None:
        start, stop = part
        own = slice(X.indptr[start], X.indptr[stop])  # where they lie: to slice the matrix would copy them
        rows = X.data[own], X.indices[own], X.indptr[start : stop + 1] - X.indptr[start]
        result[start:stop] = sp.csr_array(rows, shape=(stop - start, X.shape[1])) @ W

    in_threads(work, spans(X.shape[0], n_jobs), n_jobs)
    return result


def check_norms(norms: np.ndarray) -> np.ndarray:
    """Refuse rows so large that their squared norm is not a number any more."""
    with np.errstate(over="ignore"):
        if np.isfinite(norms.sum()):
            return norms
    bad = np.flatnonzero(~np.isfinite(norms))
    if bad.size:
        raise ValueError(
            f"Row {bad[0]} of X is too large: its squared norm overflows float64. "
            "Scale the features down, for example with MaxAbsScaler."
        )
    return norms
