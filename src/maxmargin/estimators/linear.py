"""What the linear estimators share: parameters, validation, the call of the solver, warm starts and paths."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_sample_weight, assert_all_finite, check_is_fitted, column_or_1d

from ..callbacks import with_callbacks
from ..data.matrices import checked_matrix, numbers, row_products
from ..data.mistakes import check_table, check_target
from ..data.rows import SPARSE_BELOW
from ..data.sources.memory import is_source
from ..data.table import Table, of_own_kind, table_of, table_scores
from ..data.tensor_targets import is_finite, target_beside
from ..data.tensors import DeviceMatrix, as_array, host_values, is_tensor, on_device, place_of, read_as_array, tensor_scores
from ..problems.base import PLAIN_TERM, Problem, split_off_constant
from ..problems.risk import Risk, risk_of
from ..regularizers.prior import Prior
from ..result import Result
from ..solvers import resolve
from ..solvers.base import NOWHERE, Solver, WarmStart
from ..utils.threads import thread_count
from .base import Certified, Fitter, Step, along, only_if, settings_of
from .by_block import Streaming, check_in_memory, check_source, has_weights, keep_names, reading_solver
from .frames import threads_of, validate_data, with_categories
from .on_device import check_linear, moved_to, ones_beside, posed_anywhere, read_tensor
from .posing import Posing
from .scaling import Scaling, scaling_of
from .source_on_device import samples_on_device

FLOATS = [np.float64, np.float32]  # what X may be, the first one otherwise
LEARNED = (
    "n_features_in_",
    "feature_names_in_",
    "encoding_",
    "classes_",
    "_form",
)  # what checked samples say of a model before any fit


class Posed(NamedTuple):
    """The problem of checked samples at C = 1, the prior and the scaling of columns that its weights have to be turned back by
    (None: as they are), and the samples themselves where a model keeps some."""

    problem: Problem
    prior: Prior | None = None
    scaling: Scaling | None = None
    samples: Any = None

    def back(self, weights: np.ndarray) -> np.ndarray:
        """The user's weights (..., features + 1) from those of the problem."""
        weights = weights if self.prior is None else self.prior.back(weights)
        return weights if self.scaling is None else self.scaling.back(weights)

    def coefficients(self, problem: Problem, w: Any, n_jobs: int) -> tuple[np.ndarray, np.ndarray]:
        """The user's weights of features and of the constant feature, from those of a solver."""
        if self.scaling is None and (self.prior is None or self.prior.factor is None):
            return problem.split_coefficients(w, n_jobs)
        return split_off_constant(self.back(problem.coefficients(w)))

    def turned(self, X: Any) -> Any:
        """The user's samples in the coordinates of the problem."""
        X = X if self.scaling is None else self.scaling.applied(X)
        return X if self.prior is None else self.prior.turned(X)


class Prepared(NamedTuple):
    """Samples, checked: they serve every setting of a path. `pose(estimator)` is the problem that its parameters make of them,
    `pose(estimator, share)` the same with weights times `share`; `learned` are the fitted attributes that are known already.
    X is in the user's coordinates; `target` is what its scores are calibrated by: classes by number, or columns of labels."""

    pose: Callable[..., Posed]
    learned: dict[str, Any]
    solver: Solver
    X: Any = None
    target: Any = None
    weight: np.ndarray | None = None
    folds: np.ndarray | None = None  # in which each sample is held out, for probabilities


class LinearModel(Certified):
    """A linear max-margin model with a certificate. Subclasses say how the problem is made and solved."""

    _parameter_constraints: dict[str, Any] = {
        **Certified._parameter_constraints,
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0.0, None, closed="neither")],
        "standardize": ["boolean"],
    }

    probability: str | None = None  # a parameter of classifiers
    kernel: str | Callable[..., Any] = "linear"  # a parameter of models that may have another one
    device: Any = None  # a parameter of models that run on a GPU

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Find the optimum to the relative duality gap `tol`.

        Parameters
        ----------
        X : array, data frame, CSR matrix or tensor of shape (n_samples, n_features), or a source
            float32 and float64 in C order, CSR and tensors are used as they are; other input is copied once. A source is read in
            blocks by `OnlineDual`, or with `device` sent there, and brings its own labels and weights.
        y : array of shape (n_samples,)
            Classes, or real targets.
        sample_weight : array of shape (n_samples,), optional
            Weights s_i >= 0; an integer weight equals that many repetitions of the sample.

        Returns
        -------
        self
        """
        self._validate_params()
        return self._fitted(self._prepared(X, y, sample_weight))

    def _fitted(self, prepared: "Prepared"):
        """Fit to checked samples."""
        self.__dict__.pop("_kept", None)
        self._adopt(prepared.learned)
        last = self.__dict__.get("_last") if self.warm_start else None
        self._calibrate(prepared, self._fit(prepared.pose(self), prepared.solver, last))
        return self

    def _folds(self, target) -> np.ndarray | None:
        """Folds of checked samples, where a model with probabilities wants some."""
        return None

    def _calibrate(self, prepared: "Prepared", found: WarmStart) -> None:
        """What a model with probabilities learns besides; `found` is what the run on all samples has left."""

    def regularization_path(self, X, y, Cs, sample_weight=None) -> list:
        """Fitted copies of this estimator for each C in `Cs`, each started from the one before it and certified.

        Go from small to large C: there the old duals stay feasible and near. The samples are checked once.
        """
        return [step.model for step in self._rising((X, y, sample_weight), settings_of(Cs))]

    def _rising(self, samples: tuple, settings: Iterable[dict[str, Any]]) -> Iterator[Step]:
        """The path over settings of C (and `tol`), one model at a time."""
        return along(self._fitter(samples), settings)

    def _fitter(self, samples: tuple, same_losses: bool = True) -> Fitter:
        """What fits copies with other parameters to these samples, which are what `_prepared` takes and are checked once: they
        must not mean anything else under another setting. `same_losses`: settings differ in C (and `tol`) only."""
        prepared: Prepared | None = None
        posed: Posed | None = None
        learned: dict[str, Any] = {}

        def fitted(setting: dict[str, Any], last: WarmStart | None) -> Step:
            nonlocal prepared, posed, learned
            estimator = self._copied(**setting)
            if prepared is None or not same_losses:
                estimator._validate_params()
            if prepared is None:
                prepared = estimator._prepared(*samples)
            estimator._adopt(learned or prepared.learned)
            if posed is None or not same_losses:
                posed = prepared.pose(estimator)
                learned = estimator._learned()
            left = with_callbacks(type(estimator)._fit)(estimator, posed, prepared.solver, last)
            estimator._calibrate(prepared, left)
            return Step(estimator, posed.problem.at(estimator.C), left, posed)

        return fitted

    def _fit(self, posed: Posed, solver: Solver, last: WarmStart | None) -> WarmStart:
        """Solve the problem at this C, from what an earlier run has left; returns what this one leaves."""
        problem = posed.problem.at(self.C)

        def keep(result: Result) -> None:
            told = replace(result, duals=problem.told(result.duals)) if self.keep_duals else result
            self._keep(told, *posed.coefficients(problem, result.w, thread_count(self.n_jobs)))

        start = NOWHERE if last is None else last.fits(problem, solver)
        with on_device(problem.device):
            result = self._drive(solver, problem, keep, start=start)
        found = WarmStart.of(problem, solver, result)
        self._remember_start(found if problem.in_memory else None)
        self._freeze(posed, problem, result)
        return found

    def _freeze(self, posed: Posed, problem: Problem, result: Result) -> None:
        """Keep what `partial_fit` goes on from, in models that have it."""

    def _remember_start(self, start: WarmStart | None) -> None:
        """What the next `fit` begins from, if that is asked for and possible."""
        self.__dict__.pop("_last", None)
        if self.warm_start and start is not None:
            self._last = start.for_other_data()

    # ---- data ---------------------------------------------------------------------------------------------

    def _named_dtype(self) -> np.dtype | None:
        """The parameter, checked."""
        dtype = None if self.dtype is None else np.dtype(self.dtype)
        if dtype not in (None, np.dtype(np.float32), np.dtype(np.float64)):
            raise ValueError(f"dtype must be None, float32 or float64; got {self.dtype!r}.")
        return dtype

    def _dtypes(self):
        """What X may be, the first one otherwise."""
        return self._named_dtype() or FLOATS

    def _read(self, X, *y, reset: bool = False, **checks):
        """X as kernels may read it, and y beside it where that is given. `fit` and all predictions read their data here, so that
        the same numbers in another form are the same samples to both."""
        if read_as_array(X, self.device):
            X = as_array(X)
        if is_tensor(X):
            X = read_tensor(X, self.device, self.dtype)
        if of_own_kind(X):
            return self._taken(X, *y, reset=reset)
        if reset:
            self.__dict__.pop("encoding_", None)
        model, X = with_categories(self, X)
        check_table(X)
        options = {"accept_sparse": "csr", "accept_large_sparse": True, "dtype": FLOATS, **checks}
        found = validate_data(model, X, *y, reset=reset, **options)
        checked = checked_matrix(found[0] if y else found, threads_of(self))
        if self.device is not None and reset:
            check_linear(self)
            checked = moved_to(self.device, checked)
            if y and (beside := target_beside(checked, found[1])) is not None:
                return checked, beside
        return (checked, found[1]) if y else checked

    def _taken(self, X, *y, reset: bool):
        """An X of somebody's own kind as it is, and y checked beside it."""
        features = int(X.shape[1])
        if reset:
            self.n_features_in_ = features
            self.__dict__.pop("feature_names_in_", None)
            if isinstance(X, DeviceMatrix):
                check_linear(self)
        elif features != self.n_features_in_:
            raise ValueError(f"X has {features} features, but {type(self).__name__} is expecting {self.n_features_in_} features.")
        if not y:
            return X
        target = target_beside(X, y[0]) if isinstance(X, DeviceMatrix) else None
        if target is None or not is_finite(target):
            target = column_or_1d(host_values(y[0], place_of(X)), warn=True)
            assert_all_finite(target, input_name="y")
        if len(target) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} samples, y has {len(target)}.")
        return X, target

    def _bias(self) -> float:
        """The constant feature that carries the intercept; 0 for none."""
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    def _scaled(self, X, weight: np.ndarray) -> tuple[Any, Scaling | None]:
        """X with columns of unit variance, where that is asked for, and how they were scaled."""
        if not self.standardize:
            return X, None
        if self.kernel != "linear":
            raise ValueError(
                f"standardize=True is for linear models; with kernel={self.kernel!r} put a StandardScaler into a pipeline."
            )
        scaling = scaling_of(X, weight, self._bias())
        return scaling.applied(X), scaling

    def _learned(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in LEARNED if name in vars(self)}

    def _adopt(self, learned: dict[str, Any]) -> None:
        for name, value in learned.items():
            setattr(self, name, value)

    def _checked_weight(self, sample_weight, X) -> np.ndarray:
        sample_weight = host_values(sample_weight, place_of(X), "sample_weight")
        if not isinstance(sample_weight, Real):  # one number stands for all
            sample_weight = numbers("sample_weight", sample_weight)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not np.any(weight > 0):
            raise ValueError("sample_weight is zero for every sample; at least one must be positive.")
        return weight

    # ---- result -------------------------------------------------------------------------------------------

    def _keep(self, result: Result, weights: np.ndarray, constant: np.ndarray) -> None:
        """Fitted attributes from the weights (..., features) in the user's coordinates and those of the constant feature."""
        self.coef_, self.intercept_ = self._shaped(weights, constant * self._bias())
        self.__dict__.pop("dual_coef_", None)
        if self.keep_duals:
            self.dual_coef_ = result.duals

    def _scores(self, X) -> np.ndarray:
        """The scores of samples as a user gives them."""
        check_is_fitted(self)
        return self._scored(self._read(X))

    def _scored(self, X) -> np.ndarray:
        """X coef' + intercept, in the dtype of X, which was read before: a float32 X is not copied to float64."""
        if of_own_kind(X):
            scores_of = tensor_scores if isinstance(X, DeviceMatrix) else table_scores
            found = scores_of(X, np.column_stack([np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)]))
            return found if self.coef_.ndim == 2 else found.ravel()
        scores = row_products(X, self.coef_.T.astype(X.dtype), thread_count(self.n_jobs))
        return scores + np.asarray(self.intercept_, X.dtype)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ---- what a subclass says -----------------------------------------------------------------------------

    @abstractmethod
    def _prepared(self, X, y, sample_weight) -> Prepared:
        """The samples, checked."""

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

    @only_if(has_weights("risk", "use kernel='linear'"))
    def risk(self, X, y, sample_weight=None, n_groups: int = 1) -> Risk:
        """The losses alone, sum_i s_i loss_i(w), as a convex function for `maxmargin.minimize` or for a solver of your own.

        risk(w) -> (value, subgradient), or values (P,) and subgradients (P, dim) for P = `n_groups` groups of samples. It has
        `risk.dim` weights: one a feature and last the intercept's (unused without one), for several classes a row of them for
        each, flattened. C, priors, signs and `standardize` are not part of it.
        """
        model = clone(self)
        model._validate_params()
        X, (code, factors), weight = model._validated(X, y, sample_weight)
        if not isinstance(n_groups, Integral) or not 1 <= n_groups <= X.shape[0]:
            raise ValueError(f"n_groups must be an integer between 1 and the {X.shape[0]} samples; got {n_groups!r}.")
        posing = model._posing(factors)
        problem = posed_anywhere(posing, model._rows(X, posing.classes), code, weight, PLAIN_TERM, None)
        found = risk_of(problem, int(n_groups), thread_count(self.n_jobs))
        assert found is not None
        return found

    def _prepared(self, X, y, sample_weight) -> Prepared:
        if self.kernel != "linear":
            return self._prepared_with_kernel(X, y, sample_weight)
        if is_source(X):
            check_source(self, X, y, sample_weight)
            check_in_memory(self.probability)
            if self.device is None:
                return Prepared(lambda model: Posed(*model._source_problem(X)), {}, reading_solver(self.solver))
        solver = resolve(self.solver)
        source = X if is_source(X) else None
        if source is not None:
            X, y, sample_weight = samples_on_device(source, self.device, self._named_dtype())
        X, (code, factors), weight = self._validated(X, y, sample_weight)
        if source is not None:
            keep_names(self, source)
        samples = X  # in the user's coordinates, as predictions read them
        X, scaling = self._scaled(X, weight)
        posing = self._posing(factors)
        classes = posing.classes
        prior = self._prior(X.shape[1], classes)
        data, regularizer, half_spaces = prior.applied(X, classes)
        table = self._rows(data, classes)

        def pose(model, share=None) -> Posed:
            own, left = posing if model is self else model._posing(factors), weight if share is None else weight * share
            return Posed(posed_anywhere(own, table, code, left, regularizer, half_spaces), prior, scaling)

        return Prepared(pose, self._learned(), solver, samples, code, weight, self._folds(code))

    def _prior(self, features: int, classes: int | None) -> Prior:
        return Prior(self.positive, self.prior_mean, self.prior_scale, self.prior_covariance).checked(features, classes)

    def _validated(self, X, y, sample_weight):
        """X, the target and the weights as the problem takes them."""
        X, y = self._checked_data(X, y)
        if sample_weight is not None:
            sample_weight = self._checked_weight(sample_weight, X)
        target = self._checked_target(y, sample_weight)
        return X, target, ones_beside(X) if sample_weight is None else sample_weight

    def _rows(self, X, classes: int | None) -> Table:
        return table_of(X, self._bias(), SPARSE_BELOW["scalar" if classes is None else "row"])

    def _checked_data(self, X, y, reset: bool = True):
        if read_as_array(X, self.device):
            X = as_array(X)
        if not (is_tensor(y) and place_of(X) is not None):
            y = host_values(y)
            check_target(y, self._classifies)
        return self._read(X, y, reset=reset, dtype=self._dtypes(), order="C", **self._target_checks())

    # ---- what a subclass says -----------------------------------------------------------------------------

    @abstractmethod
    def _prepared_with_kernel(self, X, y, sample_weight) -> Prepared:
        """The samples, checked, for a model with a kernel."""

    @abstractmethod
    def _target_checks(self) -> dict[str, Any]:
        """Options of scikit-learn's validation for y."""

    @abstractmethod
    def _checked_target(self, y, sample_weight) -> tuple[np.ndarray, np.ndarray | None]:
        """y as codes, and the factors of the classes on the weights, where there are classes."""

    @abstractmethod
    def _codes(self, y, rows: np.ndarray) -> np.ndarray:
        """y of some samples as codes; `rows` are their numbers, for messages."""

    @abstractmethod
    def _posing(self, factors: np.ndarray | None) -> Posing:
        """What makes a problem of samples and codes, by the parameters as they are."""
