"""scikit-learn's `validate_data`, which sees the column names of every data frame; and data frames with columns of categories,
for models that know these from a source."""

import math
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.utils import validation

from ..data.sources.column_names import check_same_names
from ..data.sources.tables import coded_frame
from ..utils.blas import inner_product
from ..utils.threads import in_threads, spans, thread_count

KNOWN_OPTIONS = frozenset({"accept_sparse", "accept_large_sparse", "dtype", "order", "y_numeric", "reset"})
INDEX_DTYPES = np.dtype(np.int32), np.dtype(np.int64)
NUMBERS_LOOKED_AT = 1 << 20  # numbers that a thread looks at: some hundred microseconds. By guess, 2026-11-18
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


def surely_finite(array: np.ndarray, n_jobs: int = 1) -> bool:
    """Whether all numbers are finite for sure; sums of their squares may overflow where they are."""
    if array.dtype.kind in "iub":
        return True
    flat = array.reshape(-1)

    def piece(span: tuple[int, int]) -> bool:
        some = flat[span[0] : span[1]]
        return math.isfinite(inner_product(some, some))

    return all(in_threads(piece, spans(flat.size, -(-flat.size // NUMBERS_LOOKED_AT)), n_jobs))


def plain_matrix(X, options: dict[str, Any], n_jobs: int) -> bool:
    """Whether X is an array, or a CSR matrix, that validation leaves as it is."""
    dtypes = options["dtype"] if isinstance(options["dtype"], list) else [options["dtype"]]
    if type(X) is np.ndarray:
        plain, values = X.ndim == 2 and X.size > 0 and X.flags.c_contiguous, X
    elif type(X) in (sp.csr_matrix, sp.csr_array):
        known = X.indices.dtype == X.indptr.dtype and X.indices.dtype in INDEX_DTYPES
        welcome = options.get("accept_sparse") == "csr" and options.get("accept_large_sparse", True)
        plain, values = known and welcome and X.ndim == 2 and min(X.shape) > 0, X.data
    else:
        return False
    return plain and values.dtype in dtypes and surely_finite(values, n_jobs)


def plain_target(y, rows: int, n_jobs: int) -> bool:
    """The same of a target."""
    return type(y) is np.ndarray and y.shape == (rows,) and y.dtype.kind in "fiub" and surely_finite(y, n_jobs)


def threads_of(estimator) -> int:
    return thread_count(getattr(estimator, "n_jobs", None))


def expected(estimator, X, reset: bool) -> bool:
    """Whether the columns are those of the model, or become so; they have no names."""
    if "feature_names_in_" in vars(estimator):
        return False
    if reset:
        estimator.n_features_in_ = X.shape[1]
    return vars(estimator).get("n_features_in_") == X.shape[1]


def validate_data(estimator, X="no_validation", y="no_validation", **options):
    """As `sklearn.utils.validation.validate_data`, which takes longer than a small fit: what it would leave as it is, is given
    back at once."""
    known, n_jobs = KNOWN_OPTIONS.issuperset(options) and options.keys() >= {"dtype", "reset"}, threads_of(estimator)
    if known and plain_matrix(X, options, n_jobs):
        alone = isinstance(y, str) and y == "no_validation"
        if (alone or plain_target(y, X.shape[0], n_jobs)) and expected(estimator, X, options["reset"]):
            return X if alone else (X, y)
    return validation.validate_data(estimator, named(X), y, **options)


def without_names(model: Any) -> Any:
    """A model for samples that have lost the names of their columns on the way, after these were compared."""
    result = copy(model)
    del result.feature_names_in_
    return result


def with_categories(model: Any, X: Any) -> tuple[Any, Any]:
    """A frame with the columns of the table that a model was fitted to, as features, and the model for it; others as they are."""
    encoding = vars(model).get("encoding_")
    if encoding is None or not hasattr(X, "columns") or not hasattr(X, "shape"):
        return model, X
    names, known = list(X.columns), list(model.feature_names_in_)
    if names == known or known != encoding.feature_names:  # features already; or a transformer came behind the encoding
        return model, X
    check_same_names("X", names, "the model was fitted with", encoding.names)
    return without_names(model), coded_frame(encoding, X)
