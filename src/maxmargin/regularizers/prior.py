"""What the user says about the weights beforehand: a Gaussian prior and signs. Turned here into what a problem needs.

A mean and standard deviations stay in the user's coordinates (`Gaussian`). A full covariance Sigma = L L' does not:
there the data are replaced by X L, once, as a dense float64 matrix, and the weights are w = L u (Ramanan 2013, section
6). Classes share Sigma. The intercept has prior mean 0 and standard deviation `intercept_scaling`, and is never
sign-constrained.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from ..data.matrices import numbers
from ..jit import vectors
from .gaussian import Gaussian
from .half_spaces import HalfSpaces


@dataclass(frozen=True)
class Prior:
    """As given by the user; `checked` returns one with arrays of the right shapes or says what is wrong."""

    positive: Any = False
    mean: Any = None
    scale: Any = None
    covariance: Any = None
    factor: np.ndarray | None = None

    def checked(self, features: int, classes: int | None) -> "Prior":
        if self.scale is not None and self.covariance is not None:
            raise ValueError("prior_scale and prior_covariance exclude each other: give one of them.")
        mean = _table("prior_mean", self.mean, features, classes)
        scale = _table("prior_scale", self.scale, features, classes)
        if scale is not None and np.any(scale <= 0):
            raise ValueError(f"prior_scale must be positive everywhere; its smallest entry is {scale.min():g}.")
        if scale is not None and (scale.max() > 1e150 or scale.min() < 1e-150):
            raise ValueError("prior_scale is too large or small: its square overflows beyond 1e-150 and 1e150.")
        return Prior(_mask(self.positive, features), mean, scale, self.covariance, _factor(self.covariance, features))

    def applied(self, X, classes: int | None):
        """(X, regularizer, half_spaces) of the problem that the solver sees."""
        features, mask, mean = X.shape[1], self.positive, self.mean
        half_spaces = None
        if self.factor is not None:
            if mean is not None:
                mean = solve_triangular(self.factor, np.atleast_2d(mean).T, lower=True).T.reshape(mean.shape)
            half_spaces = HalfSpaces(self.factor, mask) if mask is not None else None
            mask = None
        variance = None if self.scale is None else np.square(self.scale)
        lower = None if mask is None else np.where(mask, 0.0, -np.inf)
        layout = [_weights(array, fill, features, classes) for array, fill in ((mean, 0.0), (variance, 1.0), (lower, -np.inf))]
        return self.turned(X), Gaussian(*layout), half_spaces

    def turned(self, X):
        """X in the coordinates of the solver."""
        return X if self.factor is None else np.ascontiguousarray(X.astype(np.float64, copy=False) @ self.factor)

    def back(self, w: np.ndarray) -> np.ndarray:
        """The user's weights (..., features + 1) from the solver's."""
        if self.factor is None:
            return w
        result = np.concatenate([w[..., :-1] @ self.factor.T, w[..., -1:]], axis=-1)
        if self.positive is not None:  # on a wall up to rounding is on the wall
            result[..., :-1] = np.where(self.positive, np.maximum(result[..., :-1], 0.0), result[..., :-1])
        return result


def _table(name: str, given, features: int, classes: int | None) -> np.ndarray | None:
    """A finite array of shape (features,), or (classes, features) where there are classes."""
    if given is None:
        return None
    array = numbers(name, given)
    if classes is None and array.shape == (1, features):
        array = array[0]
    allowed = [(features,)] + ([] if classes is None else [(classes, features)])
    if array.ndim == 0:
        array = np.full(features, array)
    if array.shape not in allowed:
        raise ValueError(f"{name} has shape {array.shape}; it must be one of {', '.join(map(str, allowed))} for this X.")
    return array


def _mask(positive, features: int) -> np.ndarray | None:
    """The features whose weights must not be negative; None if there are none."""
    if isinstance(positive, bool | np.bool_):
        return np.ones(features, bool) if positive else None
    mask = np.asarray(positive)
    if mask.dtype != bool or mask.shape != (features,):
        raise ValueError(
            f"positive must be True, False or a boolean mask of shape ({features},); "
            f"got dtype {mask.dtype} and shape {mask.shape}."
        )
    return mask if mask.any() else None


def _factor(covariance, features: int) -> np.ndarray | None:
    """The lower triangular L of a covariance, which must be symmetric and positive definite."""
    if covariance is None:
        return None
    matrix = numbers("prior_covariance", covariance)
    if matrix.shape != (features, features):
        raise ValueError(f"prior_covariance has shape {matrix.shape}; it must be ({features}, {features}) for this X.")
    size = np.abs(matrix).max(initial=0.0)
    if not np.allclose(matrix, matrix.T, rtol=0.0, atol=1e-10 * size):
        raise ValueError("prior_covariance must be symmetric.")
    try:
        factor = cholesky(matrix, lower=True)
    except LinAlgError:
        factor = np.zeros((features, features))
    diagonal = np.diag(factor)
    if features and diagonal.min() <= 1e-7 * diagonal.max():
        smallest = np.linalg.eigvalsh(matrix).min()
        raise ValueError(
            f"prior_covariance must be positive definite; its smallest eigenvalue is {smallest:g}. "
            f"Adding {max(1e-6 * size, -2 * smallest):.3g} to its diagonal would mend it."
        )
    return factor


def _weights(array: np.ndarray | None, fill: float, features: int, classes: int | None) -> np.ndarray | None:
    """An array in the layout of the problem's weights, the intercept's entry (and unused lanes) set to `fill`."""
    if array is None:
        return None
    shape = (features,) if classes is None else (classes, features)
    full = np.full((*shape[:-1], features + 1), fill)
    full[..., :-1] = np.broadcast_to(array, shape)
    return full if classes is None else vectors.from_classes(full, np.float64, fill=fill)
