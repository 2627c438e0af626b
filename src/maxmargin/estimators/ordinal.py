"""`OrdinalSVM`: classes in an order, told apart by thresholds on one score."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from ..data.mistakes import check_target, quoted
from ..data.rows import SPARSE_BELOW
from ..data.sources.memory import is_source
from ..data.table import of_own_kind, table_of
from ..data.thresholds import ThresholdTable
from ..losses.hinge import HingeLoss
from ..problems.linear import ScalarProblem
from ..solvers import resolve
from .classifier import class_factors
from .linear import LinearModel, Posed, Prepared
from .scaling import Scaling


def stated_order(y: Any) -> list | None:
    """The order that the type of a column states, an ordered Categorical of pandas or an Enum of polars; None: it states none."""
    if len(getattr(y, "columns", ())) == 1:  # a data frame
        y = y.iloc[:, 0] if hasattr(y, "iloc") else y[y.columns[0]]
    dtype: Any = getattr(y, "dtype", None)
    if getattr(dtype, "ordered", False):
        return np.asarray(dtype.categories).tolist()
    if type(dtype).__name__ == "Enum" and type(dtype).__module__.startswith("polars."):
        return dtype.categories.to_list()
    return None


class ThresholdScaling(Scaling):
    """How columns were scaled, where there are thresholds in the place of one intercept."""

    def back(self, weights: np.ndarray) -> np.ndarray:
        result, features = np.array(weights, dtype=np.float64), self.scaler.scale_.size
        result[:features] /= self.scaler.scale_
        if self.scaler.with_mean:
            result[features:-1] -= result[:features] @ self.scaler.mean_ / self.bias
        return result


class OrdinalSVM(ClassifierMixin, LinearModel):
    """A linear model of classes in an order, with a certificate: one score, and a threshold between each class and the next.

    Minimises 1/2 ||w||^2 + 1/2 ||t||^2 + C sum_i s_i sum_k max(0, 1 - z_ik (<w, x_i> - t_k)), z_ik = 1 where the class of i lies
    above threshold k and -1 elsewhere (t divided by `intercept_scaling`). A sample is asked about all thresholds, not about the
    two next to its class only: a mistake costs the more the more classes it is off (Rennie and Srebro 2005; Chu and Keerthi
    2007), and thresholds are in order at the optimum of themselves (Li and Lin 2006). Two classes are `SVMClassifier`'s problem.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the regulariser.
    order : list, optional
        The classes from the lowest to the highest. None: as the type of y states it (an ordered Categorical of pandas, an Enum of
        polars), else as they sort, which is right for numbers and seldom for texts.
    class_weight : dict or "balanced", optional
        As in `SVMClassifier`.
    intercept_scaling : float, default=1.0
        The larger, the less thresholds are drawn to zero.
    tol, max_iter, max_time, standardize, solver, warm_start, keep_duals, random_state, n_jobs, verbose, dtype
        As in `SVMClassifier`.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    thresholds_ : array of shape (n_classes - 1,)
        In rising order. A sample is of the class whose number is that of the thresholds below its score.
    classes_ : array of shape (n_classes,)
        From the lowest to the highest.
    dual_coef_ : array of shape (n_samples, n_classes - 1), with keep_duals=True
        coef_ = sum_ik dual_coef_[i, k] x_i.
    certificate_, history_, n_iter_, n_features_in_, feature_names_in_
        As in `SVMClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> import maxmargin as mm
    >>> X = np.arange(9.0)[:, None]
    >>> model = mm.OrdinalSVM(C=10.0, order=["low", "middle", "high"], random_state=0)
    >>> model.fit(X, ["low"] * 3 + ["middle"] * 3 + ["high"] * 3).predict([[0.5], [4.0], [8.5]]).tolist()
    ['low', 'middle', 'high']
    """

    _parameter_constraints = {
        **{name: rule for name, rule in LinearModel._parameter_constraints.items() if name != "fit_intercept"},
        "order": ["array-like", None],
        "class_weight": [dict, str, None],
    }

    fit_intercept = True  # thresholds are intercepts

    def __init__(
        self,
        C=1.0,
        *,
        order=None,
        class_weight=None,
        tol=1e-3,
        max_iter=10_000,
        max_time=None,
        intercept_scaling=1.0,
        standardize=False,
        solver="auto",
        warm_start=False,
        keep_duals=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        dtype=None,
    ):
        self.C = C
        self.order = order
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.intercept_scaling = intercept_scaling
        self.standardize = standardize
        self.solver = solver
        self.warm_start = warm_start
        self.keep_duals = keep_duals
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.dtype = dtype

    def score_samples(self, X) -> np.ndarray:
        """The score of each sample, (n_samples,): the larger, the higher the class. `thresholds_` are on it."""
        return self._scores(X)

    def decision_function(self, X) -> np.ndarray:
        """How well each class agrees with the score, as scikit-learn has it: with two classes the score less the threshold, else
        (n_samples, n_classes), the distances to the thresholds added up, those on the wrong side negative."""
        scores = self.score_samples(X)
        beyond = scores[:, None] - self.thresholds_
        if beyond.shape[1] == 1:
            return beyond.ravel()
        side = np.where(np.arange(len(self.classes_))[:, None] > np.arange(beyond.shape[1]), 1.0, -1.0)
        return beyond @ side.T

    def predict(self, X) -> np.ndarray:
        """The class of each sample; it never falls while the score rises."""
        scores = self.score_samples(X)
        return self.classes_[np.searchsorted(self.thresholds_, scores)]

    def mean_absolute_error(self, X, y, sample_weight=None) -> float:
        """By how many classes predictions are off, in the mean."""
        found = self._numbered(self.predict(X))
        truth = self._numbered(column_or_1d(y))
        check_consistent_length(found, truth, sample_weight)
        return float(np.average(np.abs(found - truth), weights=sample_weight))

    def _numbered(self, y: np.ndarray) -> np.ndarray:
        """The numbers of these classes."""
        place = np.argsort(self.classes_, kind="stable")
        found = place[np.minimum(np.searchsorted(self.classes_, y, sorter=place), len(place) - 1)]
        if not np.all(wrong := self.classes_[found] == y):
            raise ValueError(
                f"y holds {quoted(y[np.argmin(wrong)])}, for sample {int(np.argmin(wrong))}, which is not one of the classes."
            )
        return found

    def _ordered(self, y: np.ndarray, stated: list | None) -> np.ndarray:
        """The number of each sample's class; sets the classes. `stated`: the order that the type of y states, with or without
        classes that y has no sample of."""
        present = np.unique(y)
        if len(present) < 2:
            raise ValueError(
                "This solver needs samples of at least 2 classes in the data, but the data contains only one class: "
                f"{quoted(present[0])}"
            )
        if self.order is not None:
            present = self._given_order(present)
        elif stated is not None:
            present = present[np.argsort([stated.index(label) for label in present.tolist()])]
        self.classes_ = present
        return self._numbered(y)

    def _given_order(self, present: np.ndarray) -> np.ndarray:
        order = np.asarray(self.order)
        if order.ndim != 1 or len(np.unique(order)) != order.size:
            raise ValueError("order must be a list of the classes, from the lowest to the highest, each once.")
        missing, unseen = present[~np.isin(present, order)], order[~np.isin(order, present)]
        if missing.size:
            raise ValueError(f"order has no place for class {quoted(missing[0])} of y.")
        if unseen.size:
            raise ValueError(f"order names class {quoted(unseen[0])}, of which y has no sample: it has no threshold.")
        return order

    def _prepared(self, X, y, sample_weight) -> Prepared:
        if is_source(X):
            raise ValueError("OrdinalSVM needs its samples in memory; read the source first, or give arrays.")
        solver, stated = resolve(self.solver), stated_order(y)
        check_target(y, True)
        X, y = self._read(X, y, reset=True, dtype=self._dtypes(), order="C")
        if of_own_kind(X):
            raise ValueError(f"OrdinalSVM takes arrays, data frames and CSR matrices, not {type(X).__name__}.")
        check_classification_targets(y)
        code = self._ordered(column_or_1d(y, warn=True), stated)
        given = None if sample_weight is None else self._checked_weight(sample_weight, X)
        weight = np.ones(X.shape[0]) if given is None else given
        scaled, scaling = self._scaled(X, weight)
        table = ThresholdTable(table_of(scaled, 0.0, SPARSE_BELOW["scalar"]), len(self.classes_) - 1, self._bias())
        sign = np.where(code[:, None] > np.arange(table.count), 1.0, -1.0).ravel()

        def pose(model, share=1.0) -> Posed:
            factors = class_factors(model.class_weight, model.classes_, y, code, given)
            each = np.repeat(weight * factors[code] * share, table.count)
            problem = ScalarProblem(table, HingeLoss(), (sign, np.ones(sign.size)), each)
            return Posed(problem, None, None if scaling is None else ThresholdScaling(scaling.scaler, scaling.bias))

        return Prepared(pose, self._learned(), solver, X, code, weight)

    def _keep(self, result, weights, constant) -> None:
        features = self.n_features_in_
        self.coef_ = np.ascontiguousarray(weights[:features])
        self.intercept_ = 0.0
        # In order, where the optimum was not quite reached: two that are exchanged never make the objective larger.
        self.thresholds_ = np.sort(-weights[features:] * self._bias())
        self.__dict__.pop("dual_coef_", None)
        if self.keep_duals:
            self.dual_coef_ = result.duals.reshape(-1, self.thresholds_.size)

    def _shaped(self, coef, intercept) -> tuple[np.ndarray, Any]:
        return coef, intercept

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # of classes that are in no order
        return tags
