"""What the linear estimators share: parameters, validation, the call of the solver, warm starts and paths."""

from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from ..callbacks import with_callbacks
from ..data.matrices import checked_matrix, numbers
from ..data.mistakes import check_table, check_target
from ..data.rows import SPARSE_BELOW, rows
from ..data.sources.memory import is_source
from ..problems.blocked import StreamProblem
from ..problems.linear import SameRows
from ..problems.risk import Risk, risk_of
from ..regularizers.gaussian import Regularizer
from ..regularizers.prior import Prior
from ..result import Result
from ..solvers import NAMES, OnlineDual, resolve
from ..utils.threads import thread_count
from .base import Certified
from .by_block import Streaming, check_source, reading_solver
from .frames import validate_data

FLOATS = [np.float64, np.float32]  # what X may be, the first one otherwise
LEARNED = ("n_features_in_", "feature_names_in_", "classes_", "_form")  # what checked samples say of a model before any fit


class Last(NamedTuple):
    """What a run leaves for the next: duals (or what the solver has in their place), weights, and its C."""

    duals: Any
    w: Any
    C: float


class Prepared(NamedTuple):
    """Samples, checked: they serve every C of a path. `pose(estimator)` is the problem that its parameters make of them, and what
    else its `_fit` needs; `learned` are the fitted attributes that are known already."""

    pose: Callable[[Any], Any]
    learned: dict[str, Any]


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
        X : array, data frame or CSR matrix of shape (n_samples, n_features), or a source
            float32 and float64 in C order and CSR are used as they are; other input is copied once. A source is read in blocks by
            `OnlineDual`, and brings its own labels and weights.
        y : array of shape (n_samples,)
            Classes, or real targets.
        sample_weight : array of shape (n_samples,), optional
            Weights s_i >= 0; an integer weight equals that many repetitions of the sample.

        Returns
        -------
        self
        """
        self._validate_params()
        self.__dict__.pop("_kept", None)
        self._fit(self._prepared(X, y, sample_weight), getattr(self, "_last", None) if self.warm_start else None)
        return self

    def regularization_path(self, X, y, Cs, sample_weight=None) -> list:
        """Fitted copies of this estimator for each C in `Cs`, each started from the one before it and certified.

        Go from small to large C: there the old duals stay feasible and near. The samples are checked once.
        """
        return self._path((X, y, sample_weight), self._settings(Cs), same_losses=True)

    def _settings(self, Cs) -> list[dict[str, Any]]:
        Cs = np.asarray(Cs, dtype=np.float64)
        if Cs.ndim != 1 or not np.all(np.isfinite(Cs)) or np.any(Cs <= 0):
            raise ValueError("Cs must be a list of finite numbers > 0.")
        return [{"C": float(C)} for C in Cs]

    def _path(self, samples: tuple, settings: list[dict[str, Any]], same_losses: bool = False) -> list:
        """Fitted copies, one for each setting of parameters, each started from the one before it. The samples, what `_prepared`
        takes, must not mean anything else under another setting: they are checked once."""
        fitted: list[LinearModel] = []
        prepared, last = None, None
        for setting in settings:
            estimator = clone(self).set_params(**setting)
            estimator._validate_params()
            if prepared is None:
                prepared = estimator._prepared(*samples)
            if hasattr(self, "_skl_callbacks"):
                estimator.set_callbacks(*self._skl_callbacks)
            last = with_callbacks(type(estimator)._fit)(estimator, prepared, last, same_losses)
            fitted.append(estimator)
        return fitted

    # ---- data ---------------------------------------------------------------------------------------------

    def _dtypes(self):
        """What X may be, the first one otherwise."""
        dtype = FLOATS if self.dtype is None else np.dtype(self.dtype)
        if self.dtype is not None and dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ValueError(f"dtype must be None, float32 or float64; got {self.dtype!r}.")
        return dtype

    def _read(self, X, *y, reset: bool = False, **checks):
        """X as kernels may read it, and y beside it where that is given. `fit` and all predictions read their data here, so that
        the same numbers in another form are the same samples to both."""
        check_table(X)
        options = {"accept_sparse": "csr", "accept_large_sparse": True, "dtype": FLOATS, **checks}
        found = validate_data(self, X, *y, reset=reset, **options)
        return (checked_matrix(found[0]), found[1]) if y else checked_matrix(found)

    def _learned(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in LEARNED if name in vars(self)}

    def _adopt(self, learned: dict[str, Any]) -> None:
        for name, value in learned.items():
            setattr(self, name, value)

    def _checked_weight(self, sample_weight, X) -> np.ndarray:
        if not isinstance(sample_weight, Real):  # one number stands for all
            sample_weight = numbers("sample_weight", sample_weight)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not np.any(weight > 0):
            raise ValueError("sample_weight is zero for every sample; at least one must be positive.")
        return weight

    # ---- result -------------------------------------------------------------------------------------------

    def _keep(self, result: Result, weights: np.ndarray) -> None:
        """Fitted attributes from the weights (..., features + 1) in the user's coordinates."""
        scaling = float(self.intercept_scaling) if self.fit_intercept else 0.0
        self.coef_, self.intercept_ = self._shaped(np.ascontiguousarray(weights[..., :-1]), weights[..., -1] * scaling)
        duals = None if hasattr(result.duals, "rescaled") else result.duals  # planes are of no use to other data
        for name, wanted, kept in (
            ("dual_coef_", self.keep_duals, duals),
            ("_last", self.warm_start, Last(duals, result.w, self.C)),
        ):
            if wanted:
                setattr(self, name, kept)
            else:
                self.__dict__.pop(name, None)

    def _scores(self, X) -> np.ndarray:
        """The scores of samples as a user gives them."""
        check_is_fitted(self)
        return self._scored(self._read(X))

    def _scored(self, X) -> np.ndarray:
        """X coef' + intercept, in the dtype of X, which was read before: a float32 X is not copied to float64."""
        return safe_sparse_dot(X, self.coef_.T.astype(X.dtype), dense_output=True) + np.asarray(self.intercept_, X.dtype)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ---- what a subclass says -----------------------------------------------------------------------------

    @abstractmethod
    def _prepared(self, X, y, sample_weight) -> Prepared:
        """The samples, checked."""

    @abstractmethod
    def _fit(self, prepared: Prepared, last: Last | None, same_losses: bool = False) -> Last:
        """Pose the problem, solve it, keep the result; `last` and what is returned are what runs leave. `same_losses`: the `last`
        problem had this one's but for C."""

    @abstractmethod
    def _shaped(self, coef, intercept) -> tuple[np.ndarray, Any]:
        """coef_ and intercept_ in their public shapes."""


class LinearSVM(Streaming, LinearModel):
    """A model with a Gaussian prior on its weights, and signs."""

    _parameter_constraints = {
        **LinearModel._parameter_constraints,
        "positive": ["boolean", "array-like"],
        "prior_mean": ["array-like", Real, None],
        "prior_scale": ["array-like", Real, None],
        "prior_covariance": ["array-like", None],
    }

    def risk(self, X, y, sample_weight=None, n_groups: int = 1) -> Risk:
        """The losses alone, sum_i s_i loss_i(w), as a convex function for `maxmargin.minimize` or for a solver of your own.

        risk(w) -> (value, subgradient), or values (P,) and subgradients (P, dim) for P = `n_groups` groups of samples. It has
        `risk.dim` weights: one a feature and last the intercept's (unused without one), for several classes a row of them for
        each, flattened. C, priors and signs are not part of it.
        """
        model = clone(self).set_params(C=1.0)
        model._validate_params()
        X, target, weight = model._validated(X, y, sample_weight)
        if not isinstance(n_groups, Integral) or not 1 <= n_groups <= X.shape[0]:
            raise ValueError(f"n_groups must be an integer between 1 and the {X.shape[0]} samples; got {n_groups!r}.")
        problem = model._problem(model._rows(X, model._block_classes(target)), target, weight, Regularizer(), None)
        found = risk_of(problem, int(n_groups), thread_count(self.n_jobs))
        assert found is not None
        return found

    def _fit(self, prepared: Prepared, last: Last | None, same_losses: bool = False) -> Last:
        self._adopt(prepared.learned)
        problem, prior, solver = prepared.pose(self)

        def keep(result: Result) -> None:
            self._keep(result, prior.back(self._table(problem, result.w)))

        result = self._drive(solver, problem, keep, **self._start(problem, last, same_losses))
        return Last(result.duals, result.w, self.C)

    def _prepared(self, X, y, sample_weight) -> Prepared:
        """What is posed is a problem, the prior that it was made with and the solver for it."""
        if is_source(X):
            check_source(self, X, y, sample_weight)
            return Prepared(lambda model: (*model._source_problem(X), reading_solver(model.solver)), {})
        solver = resolve(self.solver)
        X, target, weight = self._validated(X, y, sample_weight)
        classes = self._block_classes(target)
        prior = self._prior(X.shape[1], classes)
        if isinstance(solver, OnlineDual):
            return Prepared(lambda model: (model._array_problem(X, target, weight, prior), prior, solver), self._learned())
        data, regularizer, half_spaces = prior.applied(X, classes)
        table, same = self._rows(data, classes), SameRows()

        def pose(model):
            return same(model._problem(table, target, weight, regularizer, half_spaces)), prior, solver

        return Prepared(pose, self._learned())

    def _prior(self, features: int, classes: int | None) -> Prior:
        return Prior(self.positive, self.prior_mean, self.prior_scale, self.prior_covariance).checked(features, classes)

    def _start(self, problem, last: Last | None, same_losses: bool) -> dict[str, Any]:
        """Where the solver may begin: the duals of an earlier run made feasible, or planes, which hold for their own data."""
        if last is None or isinstance(problem, StreamProblem) or last.w.shape != problem.weight_shape:
            return {}  # duals belong to rows, which a stream may have changed: `OnlineDual` starts from zero
        if isinstance(last.duals, np.ndarray):
            fits = last.duals.shape == problem.dual_shape
            return {"duals": problem.clipped(last.duals), "weights": last.w} if fits else {}
        duals = last.duals.rescaled(self.C / last.C) if same_losses and last.duals is not None else None
        return {"duals": duals, "weights": last.w}

    def _validated(self, X, y, sample_weight):
        """X, the target and the weights as the problem takes them."""
        X, y = self._checked_data(X, y)
        if sample_weight is not None:
            sample_weight = self._checked_weight(sample_weight, X)
        target = self._checked_target(y, sample_weight)
        return X, target, np.ones(X.shape[0]) if sample_weight is None else sample_weight

    def _rows(self, X, classes: int | None):
        bias = float(self.intercept_scaling) if self.fit_intercept else 0.0
        return rows(X, bias, SPARSE_BELOW["scalar" if classes is None else "row"])

    def _checked_data(self, X, y, reset: bool = True):
        check_target(y, self._classifies)
        return self._read(X, y, reset=reset, dtype=self._dtypes(), order="C", **self._target_checks())

    # ---- what a subclass says -----------------------------------------------------------------------------

    @abstractmethod
    def _target_checks(self) -> dict[str, Any]:
        """Options of scikit-learn's validation for y."""

    @abstractmethod
    def _checked_target(self, y, sample_weight) -> Any:
        """y as the problem needs it."""

    @abstractmethod
    def _codes(self, y, rows: np.ndarray) -> np.ndarray:
        """y of some samples as the problem needs it; `rows` are their numbers, for messages."""

    @abstractmethod
    def _block_classes(self, target) -> int | None:
        """The number of classes of a block problem; None for one score per sample."""

    @abstractmethod
    def _problem(self, data, target, weight, regularizer, half_spaces) -> Any: ...

    def _table(self, problem, w: np.ndarray) -> np.ndarray:
        """The weights as (features + 1,) or (classes, features + 1)."""
        return problem.table(w)
