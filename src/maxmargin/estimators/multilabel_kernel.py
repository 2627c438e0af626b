"""The kernel side of `MultilabelSVMClassifier`: its problem, and the model that is kept for predictions."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data.gram import Gram
from ..data.indicators import LabelColumns
from ..data.kernel_functions import cross, function_of, gamma_of, squared_lengths
from ..data.sources.options import MEGABYTE
from ..problems.kernel import KernelMultilabelProblem
from ..result import Result
from ..solvers.tuning import PREDICTION
from .posing import AllLabels

KERNELS = {"linear", "rbf", "poly", "sigmoid", "precomputed"}


def kernel_problem(
    estimator, gram: Gram, columns: LabelColumns, weight: np.ndarray, posing: AllLabels
) -> KernelMultilabelProblem:
    """What is minimised, at C = 1."""
    if posing.loss.single is None:
        raise ValueError(
            f"kernel={estimator.kernel!r} has no steps for loss={estimator.loss!r}; use 'hinge' or 'squared_hinge', "
            "or kernel='linear'."
        )
    present = pattern(columns.present).astype(np.intp)
    weights = np.take_along_axis(posing.label_weight, present, axis=1) * weight
    if columns.missing is not None:
        weights[pattern(columns.missing)] = 0.0
    margins = np.take_along_axis(posing.margin, present, axis=1)
    sign = np.where(present, 1.0, -1.0).ravel()
    R = np.eye(columns.shape[1]) if posing.R is None else posing.R
    bias = float(estimator.intercept_scaling) if estimator.fit_intercept else 0.0
    memory = int(estimator.cache_size * MEGABYTE)
    return KernelMultilabelProblem(gram, posing.loss.single, sign, margins.ravel(), weights.ravel(), R, bias, memory)


def kernel_function(estimator, X):
    """The kernel that the parameters say; gamma may depend on X."""
    named = isinstance(estimator.kernel, str) and estimator.kernel not in ("linear", "precomputed")
    gamma = gamma_of(estimator.gamma, X) if named else 1.0
    return function_of(estimator.kernel, gamma, estimator.degree, estimator.coef0)


def pattern(matrix: sp.csc_array) -> np.ndarray:
    """Where the matrix (samples, labels) has entries, label by label; their values are not looked at."""
    result = np.zeros(matrix.shape[::-1], bool)
    result[np.repeat(np.arange(matrix.shape[1]), np.diff(matrix.indptr)), matrix.indices] = True
    return result


@dataclass(frozen=True)
class KernelModel:
    """Scores of new samples from the support samples. `support` is empty where the kernel is precomputed: then X has a column
    for each training sample, and `columns` are those of the support."""

    function: Any
    support: Any
    columns: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray

    @cached_property
    def norms(self) -> np.ndarray:
        return squared_lengths(self.support)

    def scores(self, X) -> np.ndarray:
        """(samples, labels), in float64; a piece of the samples at a time."""
        result = np.empty((X.shape[0], self.intercept.size))
        for start in range(0, X.shape[0], PREDICTION.kernel):
            part = X[start : start + PREDICTION.kernel]
            if isinstance(self.function, str):
                values = part[:, self.columns]
            elif self.columns.size:
                values = cross(self.function, part, self.support, self.norms)
            else:  # no sample supports anything
                values = np.zeros((part.shape[0], 0))
            result[start : start + PREDICTION.kernel] = values @ self.coef + self.intercept
        return result


def keep_kernel(estimator, problem: KernelMultilabelProblem, result: Result, X) -> None:
    """Fitted attributes of a kernel model; X are the samples that the support is taken from."""
    duals = result.duals
    mixed = duals @ problem.correlation
    estimator.support_ = np.flatnonzero(np.any(duals != 0.0, axis=1))
    estimator.dual_coef_ = duals
    estimator.intercept_ = problem.bias**2 * mixed.sum(axis=0)
    estimator.__dict__.pop("coef_", None)
    function = kernel_function(estimator, X)
    support = None if isinstance(function, str) else X[estimator.support_]
    estimator._kernel_model = KernelModel(function, support, estimator.support_, mixed[estimator.support_], estimator.intercept_)
