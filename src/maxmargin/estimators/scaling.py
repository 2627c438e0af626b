"""`standardize=True`: columns of unit variance while a model is fitted, weights for the columns as they are when it is done.

With means m and standard deviations s the model is fitted to (x - m) / s and its weights u become w = u / s, the intercept
b = u_0 - sum_j w_j m_j. Sparse columns are not centred, nor any without an intercept: m = 0.
"""

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

from ..data.matrices import checked_matrix
from ..data.sources.base import Mapped
from ..data.table import of_own_kind


@dataclass(frozen=True)
class Scaling:
    """How columns were scaled, and the constant feature that carries the intercept."""

    scaler: StandardScaler
    bias: float

    def back(self, weights: np.ndarray) -> np.ndarray:
        """The weights (..., features + 1) for the columns as they are."""
        result = np.array(weights, dtype=np.float64)
        result[..., :-1] /= self.scaler.scale_
        if self.scaler.with_mean:
            result[..., -1] -= result[..., :-1] @ self.scaler.mean_ / self.bias
        return result

    def applied(self, X: Any) -> Any:
        return checked_matrix(self.scaler.transform(X))


def scaling_of(X: Any, weight: np.ndarray, bias: float) -> Scaling:
    """That of rows in memory; an integer weight counts as so many rows."""
    if of_own_kind(X):
        raise ValueError(f"standardize=True needs an array or a CSR matrix, not {type(X).__name__}: scale its columns yourself.")
    scaler = StandardScaler(with_mean=bias != 0.0 and not sp.issparse(X))
    with np.errstate(over="ignore", invalid="ignore"):  # told below
        return checked(Scaling(scaler.fit(X, sample_weight=weight), bias))


def scaling_of_source(source: Any, bias: float) -> tuple[Scaling, Mapped]:
    """That of a source, by a pass of its own, and the source with its columns scaled."""
    scaler: StandardScaler | None = None
    with closing(source.blocks()) as blocks:
        for block in blocks:
            if scaler is None:
                scaler = StandardScaler(with_mean=bias != 0.0 and not sp.issparse(block.X))
            with np.errstate(over="ignore", invalid="ignore"):
                scaler.partial_fit(block.X, sample_weight=block.weight)
    assert scaler is not None  # a source without rows was refused
    return checked(Scaling(scaler, bias)), Mapped(source, scaler)


def checked(scaling: Scaling) -> Scaling:
    """Refuse columns whose squares overflow."""
    found = np.isfinite(scaling.scaler.scale_) & np.isfinite(0.0 if scaling.scaler.mean_ is None else scaling.scaler.mean_)
    if not found.all():
        raise ValueError(f"standardize=True: the variance of column {int(np.argmin(found))} of X overflows; scale it down first.")
    return scaling
