"""Models with a kernel: their problems, what is kept of them for predictions, and how they differ from linear ones."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions

from ..data.gram import Gram, gram_of
from ..data.indicators import LabelColumns
from ..data.kernel_functions import cross, function_of, gamma_of, squared_lengths
from ..data.sources.memory import is_source
from ..data.sources.options import MEGABYTE
from ..data.table import of_own_kind
from ..losses.base import BinaryLoss, MultilabelLoss
from ..problems.kernel import KernelProblem, KernelRowProblem, KernelScalarProblem
from ..result import Result
from ..solvers import resolve
from ..solvers.base import NOWHERE, WarmStart
from ..solvers.tuning import PREDICTION
from ..utils.blas import blas_threads
from ..utils.threads import in_threads, thread_count
from .linear import LinearModel, LinearSVM, Posed, Prepared
from .posing import AllLabels, EachAgainstRest, Posing, RealTargets, SeveralClasses, TwoClasses

KERNELS = {"linear", "rbf", "poly", "sigmoid", "precomputed"}
NEEDS_WEIGHTS = "is for kernel='linear', whose weights are those of features"


class KernelData(NamedTuple):
    """What a problem with a kernel is made of besides its targets: the matrix, the constant feature and bytes for rows."""

    gram: Gram
    bias: float
    memory: int


@singledispatch
def posed_with_kernel(posing: Posing, data: KernelData, code: np.ndarray, weight: np.ndarray) -> KernelProblem:
    """What is minimised with a kernel, at C = 1; as `Posing.problem`."""
    raise TypeError(f"There is no kernel for {type(posing).__name__}.")


@posed_with_kernel.register
def _(posing: TwoClasses, data, code, weight):
    target = np.where(code == 1, 1.0, -1.0), posing.cost[code, 1 - code]
    gram, bias, memory = data
    return KernelScalarProblem(gram, posing.loss, target, weight * posing.factors[code], None, bias, memory)


@posed_with_kernel.register
def _(posing: RealTargets, data, code, weight):
    gram, bias, memory = data
    return KernelScalarProblem(gram, posing.loss, (code,), weight, None, bias, memory)


@posed_with_kernel.register
def _(posing: EachAgainstRest, data, code, weight):
    own = code == np.arange(posing.classes)[:, None]
    weights = np.where(own, posing.factors[:, None], 1.0) * weight
    target = np.where(own, 1.0, -1.0).ravel(), np.ones(own.size)
    gram, bias, memory = data
    return KernelScalarProblem(gram, of_one_label(posing.loss), target, weights.ravel(), None, bias, memory)


@posed_with_kernel.register
def _(posing: SeveralClasses, data, code, weight):
    return KernelRowProblem(data.gram, posing.loss, code, weight * posing.factors[code], posing.cost, data.bias, data.memory)


def labels_problem(data: KernelData, columns: LabelColumns, weight: np.ndarray, posing: AllLabels) -> KernelScalarProblem:
    """What is minimised with a kernel and several labels a sample, at C = 1."""
    present = pattern(columns.present).astype(np.intp)
    weights = np.take_along_axis(posing.label_weight, present, axis=1) * weight
    if columns.missing is not None:
        weights[pattern(columns.missing)] = 0.0
    margins = np.take_along_axis(posing.margin, present, axis=1)
    target = np.where(present, 1.0, -1.0).ravel(), margins.ravel()
    gram, bias, memory = data
    return KernelScalarProblem(gram, of_one_label(posing.loss), target, weights.ravel(), posing.R, bias, memory)


def of_one_label(loss: MultilabelLoss) -> BinaryLoss:
    if loss.single is None:
        raise ValueError(f"{type(loss).__name__} does not say what it is of one label (`single`), as a kernel needs.")
    return loss.single


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

    def scores(self, X, n_jobs: int = 1) -> np.ndarray:
        """(samples, labels), in float64; a piece of the samples at a time, or one for each thread."""
        result = np.empty((X.shape[0], self.intercept.size))

        def work(start: int) -> None:
            part = X[start : start + PREDICTION.kernel]
            if isinstance(self.function, str):
                values = part[:, self.columns]
            elif self.columns.size:
                values = cross(self.function, part, self.support, self.norms)
            else:  # no sample supports anything
                values = np.zeros((part.shape[0], 0))
            result[start : start + PREDICTION.kernel] = values @ self.coef + self.intercept

        with blas_threads(1) if n_jobs > 1 else nullcontext():
            in_threads(work, range(0, X.shape[0], PREDICTION.kernel), n_jobs)
        return result


class Kernelised(LinearModel):
    """A linear model, or one with a kernel in the place of the inner product: that keeps support samples and no weights."""

    _parameter_constraints = {
        **LinearModel._parameter_constraints,
        "kernel": [StrOptions(KERNELS), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "cache_size": [Interval(Real, 0.0, None, closed="neither")],
    }

    def _kernel_function(self, X):
        """The kernel that the parameters say; gamma may depend on X."""
        named = isinstance(self.kernel, str) and self.kernel not in ("linear", "precomputed")
        gamma = gamma_of(self.gamma, X) if named else 1.0
        return function_of(self.kernel, gamma, self.degree, self.coef0)

    def _kernel_data(self, X) -> KernelData:
        if of_own_kind(X):
            raise ValueError(f"kernel={self.kernel!r} takes arrays and CSR matrices; a {type(X).__name__} {NEEDS_WEIGHTS}.")
        return KernelData(gram_of(self._kernel_function(X), X), self._bias(), int(self.cache_size * MEGABYTE))

    def _fit(self, posed, solver, last):
        if self.kernel == "linear":
            return super()._fit(posed, solver, last)
        problem = posed.problem.at(self.C)
        start = NOWHERE if last is None else last.fits(problem, solver)
        result = self._drive(solver, problem, lambda found: self._keep_kernel(problem, found, posed.samples), start=start)
        found = WarmStart.of(problem, solver, replace(result, w=None))
        self._remember_start(found)
        return found

    def _keep_kernel(self, problem: KernelProblem, result: Result, X) -> None:
        """Fitted attributes; X are the samples that the support is taken from."""
        duals = result.duals
        mixed = duals @ problem.correlation
        self.support_ = np.flatnonzero(np.any(duals != 0.0, axis=1))
        self.dual_coef_ = self._shaped_duals(duals)
        self.intercept_ = problem.bias**2 * mixed.sum(axis=0)
        self.__dict__.pop("coef_", None)
        function = self._kernel_function(X)
        support = None if isinstance(function, str) else X[self.support_]
        self._kernel_model = KernelModel(function, support, self.support_, mixed[self.support_], self.intercept_)

    def _shaped_duals(self, duals: np.ndarray) -> np.ndarray:
        """dual_coef_ in its public shape."""
        return duals

    def _keep(self, result, weights, constant):
        """What a fit with a kernel has left is forgotten."""
        self.__dict__.pop("_kernel_model", None)
        self.__dict__.pop("support_", None)
        super()._keep(result, weights, constant)

    def _scored(self, X):
        return self._kernel_model.scores(X, thread_count(self.n_jobs)) if "_kernel_model" in vars(self) else super()._scored(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


class KernelSVM(Kernelised, LinearSVM):
    """A model with one target a sample: a Gaussian prior on its weights and signs where it is linear, or a kernel."""

    _parameter_constraints = {**LinearSVM._parameter_constraints, **Kernelised._parameter_constraints}

    def _check_linear(self, name: str) -> None:
        if self.kernel != "linear":
            raise ValueError(f"{name} {NEEDS_WEIGHTS}; with kernel={self.kernel!r} leave it out.")

    def _prepared_with_kernel(self, X, y, sample_weight) -> Prepared:
        if is_source(X):
            raise ValueError("A kernel needs all samples in memory; sources are for kernel='linear'.")
        for name in ("prior_mean", "prior_scale", "prior_covariance"):
            if getattr(self, name) is not None:
                self._check_linear(name)
        if np.any(self.positive):
            self._check_linear("positive")
        solver = resolve(self.solver)
        X, (code, factors), weight = self._validated(X, y, sample_weight)
        X, scaling = self._scaled(X, weight)
        data = self._kernel_data(X)

        def pose(model, share=1.0) -> Posed:
            return Posed(posed_with_kernel(model._posing(factors), data, code, weight * share), None, scaling, X)

        return Prepared(pose, self._learned(), solver, X, code, weight, self._folds(code))

    def _shaped_duals(self, duals):
        return duals.ravel() if duals.shape[1] == 1 else duals
