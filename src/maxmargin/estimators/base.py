"""What the linear estimators share: parameters, validation, the call of the solver, warm starts and paths."""

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..callbacks import with_callbacks
from ..data.rows import rows
from ..data.validate import checked_matrix
from ..prior import Prior
from ..result import Result
from ..solvers import NAMES, resolve
from .common import Certified

SPARSE_BELOW = {"scalar": 0.2, "row": 0.6}  # dense rows with fewer non-zeros than this are read by an index of them


class LinearModel(Certified):
    """A linear max-margin model with a certificate. Subclasses say how the problem is made and solved."""

    _parameter_constraints: dict[str, Any] = {
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": [Interval(Real, 0.0, None, closed="neither"), None],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0.0, None, closed="neither")],
        "solver": [StrOptions(set(NAMES)), BaseEstimator],
        "warm_start": ["boolean"],
        "keep_duals": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "dtype": "no_validation",
    }

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Find the optimum to the relative duality gap `tol`.

        Parameters
        ----------
        X : array, data frame or CSR matrix of shape (n_samples, n_features)
            float32 and float64 in C order and CSR are used as they are; other input is copied once.
        y : array of shape (n_samples,)
            Classes, or real targets.
        sample_weight : array of shape (n_samples,), optional
            Weights s_i >= 0; an integer weight equals that many repetitions of the sample.

        Returns
        -------
        self
        """
        self._fit(X, y, sample_weight, getattr(self, "_last", None) if self.warm_start else None)
        return self

    def regularization_path(self, X, y, Cs, sample_weight=None) -> list:
        """Fitted copies of this estimator for each C in `Cs`, each started from the one before it and certified.

        Go from small to large C: there the old duals stay feasible and near.
        """
        return self._path(X, y, sample_weight, self._settings(Cs))

    def _settings(self, Cs) -> list[dict[str, Any]]:
        Cs = np.asarray(Cs, dtype=np.float64)
        if Cs.ndim != 1 or not np.all(np.isfinite(Cs)) or np.any(Cs <= 0):
            raise ValueError("Cs must be a list of finite numbers > 0.")
        return [{"C": float(C)} for C in Cs]

    def _path(self, X, y, sample_weight, settings: list[dict[str, Any]], **more) -> list:
        """Fitted copies, one for each setting of parameters, each started from the one before it."""
        fitted: list[LinearModel] = []
        last = None
        for setting in settings:
            estimator = clone(self).set_params(**setting)
            if hasattr(self, "_skl_callbacks"):
                estimator.set_callbacks(*self._skl_callbacks)
            last = with_callbacks(type(estimator)._fit)(estimator, X, y, sample_weight, last, **more)
            fitted.append(estimator)
        return fitted

    # ---- data ---------------------------------------------------------------------------------------------

    def _dtypes(self):
        """What X may be, the first one otherwise."""
        dtype = [np.float64, np.float32] if self.dtype is None else np.dtype(self.dtype)
        if self.dtype is not None and dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ValueError(f"dtype must be None, float32 or float64; got {self.dtype!r}.")
        return dtype

    def _checked_weight(self, sample_weight, X) -> np.ndarray:
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not np.any(weight > 0):
            raise ValueError("sample_weight is zero for every sample; at least one must be positive.")
        return weight

    # ---- result -------------------------------------------------------------------------------------------

    def _keep(self, result: Result, weights: np.ndarray) -> None:
        """Fitted attributes from the weights (..., features + 1) in the user's coordinates."""
        scaling = float(self.intercept_scaling) if self.fit_intercept else 0.0
        self.coef_, self.intercept_ = self._shaped(np.ascontiguousarray(weights[..., :-1]), weights[..., -1] * scaling)
        for name, wanted, kept in (
            ("dual_coef_", self.keep_duals, result.duals),
            ("_last", self.warm_start, (result.duals, result.w)),
        ):
            if wanted:
                setattr(self, name, kept)
            else:
                self.__dict__.pop(name, None)

    def _scores(self, X) -> np.ndarray:
        """X coef' + intercept, in the dtype of X: a float32 X is not copied to float64."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return safe_sparse_dot(X, self.coef_.T.astype(X.dtype), dense_output=True) + np.asarray(self.intercept_, X.dtype)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ---- what a subclass says -----------------------------------------------------------------------------

    @abstractmethod
    def _fit(self, X, y, sample_weight, last) -> tuple[Any, Any]:
        """Validate, build the problem, solve, keep the result; `last` and what is returned: duals and weights of a run."""

    @abstractmethod
    def _shaped(self, coef, intercept) -> tuple[np.ndarray, Any]:
        """coef_ and intercept_ in their public shapes."""


class LinearSVM(LinearModel):
    """A model with a Gaussian prior on its weights, and signs."""

    _parameter_constraints = {
        **LinearModel._parameter_constraints,
        "positive": ["boolean", "array-like"],
        "prior_mean": ["array-like", Real, None],
        "prior_scale": ["array-like", Real, None],
        "prior_covariance": ["array-like", None],
    }

    def _fit(self, X, y, sample_weight, last) -> tuple[np.ndarray, np.ndarray]:
        self._validate_params()
        solver = resolve(self.solver)
        X, y = self._checked_data(X, y)
        if sample_weight is not None:
            sample_weight = self._checked_weight(sample_weight, X)
        target = self._checked_target(y, sample_weight)
        weight = np.ones(X.shape[0]) if sample_weight is None else sample_weight
        classes = self._block_classes(target)
        prior = Prior(self.positive, self.prior_mean, self.prior_scale, self.prior_covariance).checked(X.shape[1], classes)
        data, regularizer, fence = prior.applied(X, classes)
        bias = float(self.intercept_scaling) if self.fit_intercept else 0.0
        table = rows(data, bias, SPARSE_BELOW["scalar" if classes is None else "row"])
        problem = self._problem(table, target, weight, regularizer, fence)
        duals, weights = (None, None) if last is None or last[0].shape != problem.dual_shape else last
        if duals is not None:
            duals = problem.clipped(duals)

        def keep(result: Result) -> None:
            self._keep(result, prior.back(self._table(problem, result.w)))

        result = self._drive(solver, problem, keep, duals=duals, weights=weights)
        return result.duals, result.w

    def _checked_data(self, X, y):
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=self._dtypes(), order="C", accept_large_sparse=True, **self._target_checks()
        )
        return checked_matrix(X), y

    # ---- what a subclass says -----------------------------------------------------------------------------

    @abstractmethod
    def _target_checks(self) -> dict[str, Any]:
        """Options of scikit-learn's validation for y."""

    @abstractmethod
    def _checked_target(self, y, sample_weight) -> Any:
        """y as the problem needs it."""

    @abstractmethod
    def _block_classes(self, target) -> int | None:
        """The number of classes of a block problem; None for one score per sample."""

    @abstractmethod
    def _problem(self, data, target, weight, regularizer, fence) -> Any: ...

    def _table(self, problem, w: np.ndarray) -> np.ndarray:
        """The weights as (features + 1,) or (classes, features + 1)."""
        return problem.table(w)
