"""The kernel side of `MultilabelSVMClassifier`: its problem, and the model that is kept for predictions."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data.gram import MEGABYTE, Gram, cross, function_of, gamma_of, squared_norms
from ..data.indicators import LabelColumns
from ..losses.hinge import Hinge
from ..losses.squared_hinge import SquaredHinge
from ..problems.kernel import KernelMultilabelProblem
from ..result import Result
from ..solvers.tuning import PREDICTION
from .linear import Last

KERNELS = {"linear", "rbf", "poly", "sigmoid", "precomputed"}
LOSSES = {"hinge": Hinge, "squared_hinge": SquaredHinge}


def kernel_problem(
    estimator, gram: Gram, columns: LabelColumns, cap: np.ndarray, pairs, R: np.ndarray | None
) -> KernelMultilabelProblem:
    """What is minimised; `pairs` are the weights and the margins of labels that are absent and present, (labels, 2) each."""
    count = columns.shape[1]
    weight, margin = pairs
    present = pattern(columns.present).astype(np.intp)
    caps = np.take_along_axis(weight, present, axis=1) * cap
    if columns.missing is not None:
        caps[pattern(columns.missing)] = 0.0
    margins = np.take_along_axis(margin, present, axis=1)
    loss = LOSSES[estimator.loss](np.where(present, 1.0, -1.0).ravel(), margins.ravel(), caps.ravel())
    bias = float(estimator.intercept_scaling) if estimator.fit_intercept else 0.0
    room = int(estimator.cache_size * MEGABYTE)
    return KernelMultilabelProblem(gram, loss, np.eye(count) if R is None else R, bias, room)


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


def started(last: Last | None, problem, C: float | None) -> tuple[Any, Any]:
    """Duals and weights of an earlier run that this problem can start from; None where it was of another kind or size.

    `C` where the losses are those of the earlier run but for it: then planes hold as well.
    """
    if last is None:
        return None, None
    if isinstance(last.w, list) and not sp.issparse(last.duals):
        if isinstance(problem, KernelMultilabelProblem):
            return None, None
        return last.duals.rescaled(C / last.C) if C is not None and last.duals is not None else None, last.w
    if last.duals is None or last.duals.shape != problem.dual_shape:
        return None, None
    if isinstance(problem, KernelMultilabelProblem) == sp.issparse(last.duals):
        return None, None
    return (problem.clipped(last.duals), None) if isinstance(problem, KernelMultilabelProblem) else (last.duals, last.w)


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
        return squared_norms(self.support)

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
    """Fitted attributes of a kernel model."""
    duals = result.duals
    mixed = duals @ problem.correlation
    estimator.support_ = np.flatnonzero(np.any(duals != 0.0, axis=1))
    estimator.dual_coef_ = duals
    estimator.intercept_ = problem.bias**2 * mixed.sum(axis=0)
    estimator.__dict__.pop("coef_", None)
    function = kernel_function(estimator, X)
    support = None if isinstance(function, str) else X[estimator.support_]
    estimator._kernel_model = KernelModel(function, support, estimator.support_, mixed[estimator.support_], estimator.intercept_)
    if estimator.warm_start:
        estimator._last = Last(duals, None, estimator.C)
    else:
        estimator.__dict__.pop("_last", None)
