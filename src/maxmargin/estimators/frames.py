"""scikit-learn's `validate_data`, which sees the column names of every data frame."""

import numpy as np
import sklearn
from sklearn.utils import validation

BLIND = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) < (1, 9)


class Named:
    """A polars frame as scikit-learn before 1.9 can read it: that asks `__dataframe__` for names, which polars 2 has no more."""

    def __init__(self, frame):
        self.frame, self.shape = frame, frame.shape

    def __len__(self):
        return self.shape[0]

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.frame, dtype=dtype)

    def __dataframe__(self):
        return self

    def column_names(self):
        return self.frame.columns


def named(X):
    """X, wrapped where its names would be lost."""
    polars = type(X).__module__.startswith("polars.") and hasattr(X, "__array__") and hasattr(X, "columns")
    return Named(X) if BLIND and polars and not hasattr(X, "__dataframe__") else X


def validate_data(estimator, X="no_validation", y="no_validation", **options):
    """As `sklearn.utils.validation.validate_data`."""
    return validation.validate_data(estimator, named(X), y, **options)
