"""Dense rows in float32: half of the time of their products, where six digits will do."""

from functools import cached_property

import numpy as np


class SingleRows:
    """Dense rows in float32, the bias beside them, each column divided by its largest number."""

    def __init__(self, X: np.ndarray, bias: float):
        sizes = np.append(np.maximum(X.max(axis=0, initial=0.0), -X.min(axis=0, initial=0.0)), abs(bias)).astype(np.float64)
        sizes[sizes == 0.0] = 1.0
        self.sizes = sizes
        self.rows = np.empty((len(X), sizes.size), np.float32)
        np.divide(X, sizes[:-1], out=self.rows[:, :-1], casting="same_kind")
        self.rows[:, -1] = bias / sizes[-1]

    @cached_property
    def scaled(self) -> np.ndarray:
        """The same memory for all weighted products."""
        return np.empty_like(self.rows)

    def scores(self, W: np.ndarray) -> np.ndarray:
        """(rows, classes), in float32: X W'."""
        found: np.ndarray = self.rows @ (W * self.sizes).T.astype(np.float32)
        return found

    def combined(self, duals: np.ndarray) -> np.ndarray:
        """(classes, features + 1): sum_i b_i x_i; duals are (rows, classes), in float32."""
        return (duals.T @ self.rows) * self.sizes

    def weighted_products(self, rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """sum of weight x x' over these rows, weights > 0; exact to float32."""
        most = float(weight.max(initial=0.0)) or 1.0
        scaled = np.take(self.rows, rows, axis=0, out=self.scaled[: rows.size], mode="clip")  # no copy, as with "raise"
        scaled *= np.sqrt(weight / most).astype(np.float32)[:, None]
        found = (scaled.T @ scaled).astype(np.float64)
        found *= most * self.sizes
        found *= self.sizes[:, None]
        return found
