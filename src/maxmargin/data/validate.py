"""Checks of the user's matrix that scikit-learn's validation leaves to us: kernels trust their indices."""

import numpy as np
import scipy.sparse as sp


def checked_matrix(X):
    """X as kernels may read it. CSR input is copied only if it holds an entry twice or out of order; everything else as it is."""
    if not sp.issparse(X):
        return X
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"X is not a valid CSR matrix: {error}.") from None
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def check_norms(norms: np.ndarray) -> np.ndarray:
    """Refuse rows so large that their squared norm is not a number any more."""
    bad = np.flatnonzero(~np.isfinite(norms))
    if bad.size:
        raise ValueError(
            f"Row {bad[0]} of X is too large: its squared norm overflows float64. Scale the features down (StandardScaler or MaxAbsScaler)."
        )
    return norms
