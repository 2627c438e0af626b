"""Probabilities from scores: what `probability=` learns on folds, and `predict_proba`.

Scores of samples that a model was fitted to are too good, so the way from scores to probabilities is learned from held-out ones:
each fold of the samples is scored by a model of the others, and one calibration is fitted to all of these scores. This is
scikit-learn's CalibratedClassifierCV with ensemble=False, with the same three kinds: Platt's sigmoid (1999), isotonic regression
(Zadrozny and Elkan 2002), which is scikit-learn's, and a temperature (Guo et al. 2017), one factor on all scores.

A fold is held out by weights of zero: the problems of the folds share the samples as they were checked, and all begin at the
duals of the model of all samples, which are next to theirs.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import StratifiedKFold

from ..data.indicators import LabelColumns, rows_listed
from ..data.table import of_own_kind
from ..losses.logistic import LogisticLoss
from ..losses.multilabel_logistic import MultilabelLogisticLoss
from ..losses.multinomial import MultinomialLoss
from ..solvers.base import WarmStart
from ..utils.threads import in_threads, thread_count
from .base import only_if, users_level
from .by_block import blockwise
from .label_thresholds import known_of
from .linear import LinearModel, Prepared

CALIBRATIONS = {"sigmoid", "isotonic", "temperature"}
FOLDS = 5
LOGISTIC = LogisticLoss, MultinomialLoss, MultilabelLogisticLoss
SIGMOID_ROUNDS = 100  # 10 do
LEAST_STEP = 1e-12  # of Newton's method; as a part of the weights it keeps steps finite
LARGEST_POWER = 10.0  # the logarithm of a temperature is sought within this, in units of typical scores


# ---- from scores to probabilities --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogisticCurve:
    """1 / (1 + exp(slope * score + offset))"""

    slope: float
    offset: float

    def of(self, scores: np.ndarray) -> np.ndarray:
        return expit(-(self.slope * scores + self.offset))


@dataclass(frozen=True)
class Interpolated:
    """Probabilities at some scores, straight lines between them, and nothing new beyond the first and the last."""

    scores: np.ndarray
    values: np.ndarray

    def of(self, scores: np.ndarray) -> np.ndarray:
        return np.asarray(np.interp(scores, self.scores, self.values))


Curve = LogisticCurve | Interpolated
AS_IT_IS = LogisticCurve(-1.0, 0.0)  # of a logistic model


@dataclass(frozen=True)
class TwoOutcomes:
    """Of two classes: the curve is that of the second."""

    curve: Curve

    def of(self, scores: np.ndarray) -> np.ndarray:
        second = self.curve.of(scores)
        return np.column_stack([1.0 - second, second])


@dataclass(frozen=True)
class Columns:
    """Each column by its own curve; `shared`: they are made to sum to one."""

    curves: list[Curve]
    shared: bool

    def of(self, scores: np.ndarray) -> np.ndarray:
        found = np.column_stack([curve.of(column) for curve, column in zip(self.curves, scores.T, strict=True)])
        if not self.shared:
            return found
        total = found.sum(axis=1, keepdims=True)
        return np.divide(found, total, out=np.full_like(found, 1.0 / found.shape[1]), where=total > 0.0)


@dataclass(frozen=True)
class Softmax:
    """All classes at once; `factor` is one over the temperature."""

    factor: float

    def of(self, scores: np.ndarray) -> np.ndarray:
        return softmax(self.factor * scores, axis=1)


# ---- learned from held-out scores --------------------------------------------------------------------------------------


def fitted_curve(method: str, scores: np.ndarray, present: np.ndarray, weight: np.ndarray, soft: bool = False) -> Curve:
    """The probability that `present` is true as a function of the score. Where all or none are, it is a constant: Laplace's rule
    of succession, which is what Platt's sigmoid comes to. `soft`: isotonic curves are of Platt's targets, as sigmoids are."""
    seen = weight > 0.0
    scores, present, weight = scores[seen], present[seen], weight[seen]
    mass = float(weight[present].sum())
    if present.all() or not present.any():
        share = (mass + 1.0) / (float(weight.sum()) + 2.0)
        return LogisticCurve(0.0, float(np.log1p(-share) - np.log(share)))
    if method == "sigmoid":
        return fitted_sigmoid(scores, present, weight)
    if method == "isotonic":
        target = platts_targets(present, weight) if soft else present.astype(np.float64)
        steps = IsotonicRegression(out_of_bounds="clip").fit(scores, target, weight)
        return Interpolated(steps.X_thresholds_, steps.y_thresholds_)
    margins = np.where(present, scores, -scores)
    return LogisticCurve(-best_factor(lambda factor: float((weight * np.logaddexp(0.0, -factor * margins)).sum()), scores), 0.0)


def platts_targets(present: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Probabilities in the place of one and zero: as if one more sample of either kind had been seen, which nobody is sure of."""
    mass, others = float(weight[present].sum()), float(weight[~present].sum())
    return np.where(present, (mass + 1.0) / (mass + 2.0), 1.0 / (others + 2.0))


def fitted_sigmoid(scores: np.ndarray, present: np.ndarray, weight: np.ndarray) -> LogisticCurve:
    """Platt's sigmoid, by Newton's method with halved steps (Lin, Lin and Weng 2007). scikit-learn's comes to the same, but asks
    many threads for little work: with few samples of many classes that takes longer than all fits."""
    mass, others = float(weight[present].sum()), float(weight[~present].sum())
    target = platts_targets(present, weight)
    typical = float(np.sqrt(np.mean(scores**2))) or 1.0
    scores = scores / typical
    found = np.array([0.0, np.log((others + 1.0) / (mass + 1.0))])

    def loss(point: np.ndarray) -> float:
        exponent = point[0] * scores + point[1]
        return float((weight * (target * exponent + np.logaddexp(0.0, -exponent))).sum())

    value = loss(found)
    for _ in range(SIGMOID_ROUNDS):
        said = expit(-(found[0] * scores + found[1]))
        slope, bend = weight * (target - said), weight * said * (1.0 - said)
        gradient = np.array([(slope * scores).sum(), slope.sum()])
        across = (bend * scores).sum()
        curvature = np.array([[(bend * scores * scores).sum(), across], [across, bend.sum()]])
        step = np.linalg.solve(curvature + LEAST_STEP * weight.sum() * np.eye(2), gradient)
        while (after := loss(found - step)) > value and np.abs(step).max() > LEAST_STEP:
            step = 0.5 * step
        if not after < value:
            break
        found, value = found - step, after
    return LogisticCurve(float(found[0] / typical), float(found[1]))


def fitted_softmax(scores: np.ndarray, code: np.ndarray, weight: np.ndarray) -> Softmax:
    behind = scores - np.take_along_axis(scores, code[:, None], axis=1)
    top = behind.max(axis=1)
    behind -= top[:, None]

    def log_loss(factor: float) -> float:
        return float((weight * (factor * top + np.log(np.exp(factor * behind).sum(axis=1)))).sum())

    return Softmax(best_factor(log_loss, scores))


def best_factor(log_loss: Callable[[float], float], scores: np.ndarray) -> float:
    """The factor on scores with the least log loss, which is convex in it, and has one valley in its logarithm."""
    typical = float(np.sqrt(np.mean(scores**2))) or 1.0
    found = minimize_scalar(
        lambda power: log_loss(np.exp(power) / typical),
        bounds=(-LARGEST_POWER, LARGEST_POWER),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return float(np.exp(found.x) / typical)


# ---- folds -------------------------------------------------------------------------------------------------------------


def folds_of_classes(method: str, code: np.ndarray) -> np.ndarray:
    """The fold of each sample: those of StratifiedKFold. A class with fewer samples than folds is absent from some, which does no
    harm: all models have all classes."""
    if np.bincount(code).max() < FOLDS:
        raise ValueError(
            f"probability={method!r} holds out {FOLDS} folds of the samples, and no class in y has {FOLDS} samples; "
            "give more of them, or leave probability out."
        )
    result = np.empty(len(code), np.int64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        for k, (_, held) in enumerate(StratifiedKFold(FOLDS).split(np.zeros((len(code), 1)), code)):
            result[held] = k
    return result


def folds_of_labels(parameter: str, value: str, columns: LabelColumns) -> np.ndarray:
    """The fold of each sample, dealt label by label, rare ones first, so that each label is spread over all folds."""
    count = columns.shape[0]
    if count < FOLDS:
        raise ValueError(
            f"{parameter}={value!r} holds out {FOLDS} folds of the samples, and there are {count}; "
            f"give more of them, or leave {parameter} out."
        )
    result = np.full(count, -1)
    for label in np.argsort(columns.counts, kind="stable").tolist():
        deal(result, rows_listed(columns.present, label))
    deal(result, np.arange(count))
    return result


def deal(fold: np.ndarray, members: np.ndarray) -> None:
    """Give those of the members that have no fold yet to the folds with the fewest members, of these to the smallest."""
    waiting = members[fold[members] < 0]
    if not waiting.size:
        return
    sizes = np.bincount(fold[fold >= 0], minlength=FOLDS)
    held = np.bincount(fold[members[fold[members] >= 0]], minlength=FOLDS)
    turns = held[:, None] + np.arange(waiting.size)  # how many members a fold has before it gets another one
    order = np.lexsort([np.repeat(sizes, waiting.size), turns.ravel()])
    fold[waiting] = order[: waiting.size] // waiting.size


# ---- estimators --------------------------------------------------------------------------------------------------------


def has_probabilities(name: str) -> Callable[[Any], None]:
    """What refuses a method of probabilities where `probability` is not set and the loss is not logistic."""

    def check(model: Any) -> None:
        if model.probability is None and not logistic(model.loss):
            raise AttributeError(
                f"{type(model).__name__} has no {name} with probability=None: set probability='sigmoid', 'isotonic' or "
                "'temperature', and fit."
            )

    return check


def logistic(loss: Any) -> bool:
    return isinstance(loss, LOGISTIC) or (isinstance(loss, str) and loss == "log_loss")


class Probabilities(LinearModel):
    """What classifiers know about probabilities."""

    loss: Any
    probability: Any
    decision_function: Callable[..., np.ndarray]

    @only_if(has_probabilities("predict_proba"))
    @blockwise
    def predict_proba(self, X) -> np.ndarray:
        """Probabilities, (n_samples, n_classes) in the order of `classes_`; of labels, (n_samples, n_labels).

        There where `probability` is set or the loss is "log_loss". `predict` goes by the scores, with which probabilities of
        classes that were calibrated one by one need not agree.
        """
        scores = np.asarray(self.decision_function(X), np.float64)
        return self._way_to_probabilities().of(scores)

    @only_if(has_probabilities("predict_log_proba"))
    def predict_log_proba(self, X) -> np.ndarray:
        """The logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _way_to_probabilities(self) -> Any:
        """What makes probabilities of scores."""
        if self.probability is None:
            return self._uncalibrated()
        calibration = self.__dict__.get("_calibration")
        if calibration is None:
            raise NotFittedError("probability was set after the last fit of this model: fit it again, for probabilities.")
        return calibration

    def _calibrate(self, prepared: Prepared, found: WarmStart) -> None:
        self.__dict__.pop("_calibration", None)
        if prepared.folds is not None:
            self._learn_from(self._held_out_scores(prepared, found), prepared.target, prepared.weight)
        self._finish()

    @property
    def _learns_on_folds(self) -> bool:
        return self.probability is not None

    def _learn_from(self, scores: np.ndarray, target: Any, weight: np.ndarray | None) -> None:
        """What held-out scores are good for."""
        if self.probability is not None:
            self._calibration = self._calibrated(scores, target, weight)

    def _held_out_scores(self, prepared: Prepared, found: WarmStart) -> np.ndarray:
        """The score of each sample by a model that was not fitted to it."""
        assert prepared.folds is not None
        fold, X, jobs = prepared.folds, prepared.X, thread_count(self.n_jobs)
        own = {"probability": None, "keep_duals": False, "warm_start": False, "verbose": 0, "n_jobs": 1 if jobs > 1 else None}

        def held_out(k: int) -> tuple[np.ndarray, np.ndarray, bool]:
            model, held = self._unfitted().set_params(**own), np.equal(fold, k)
            if model._keeping():  # that of the fit to all samples is done
                model.set_callbacks(*(each for each in model._skl_callbacks if each not in model._keeping()))
            model._adopt(self._learned())
            model._fit(prepared.pose(model, np.where(held, 0.0, 1.0)), prepared.solver, found)
            scores = model._scored(X)[held] if of_own_kind(X) else model._scored(X[held])
            return held, model._decided(scores), model.certificate_.converged

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # one warning speaks for all folds
            parts = in_threads(held_out, range(FOLDS), jobs)
        if self.certificate_.converged and not (self._silent or all(converged for _, _, converged in parts)):
            missed = sum(not converged for _, _, converged in parts)
            what = "thresholds" if self.probability is None else "probabilities"
            text = f"The {what} rest on models of {FOLDS} folds, of which {missed} did not reach tol={self.tol:g}."
            warnings.warn(f"{text} Raise max_iter or tol.", ConvergenceWarning, stacklevel=users_level())
        result = np.empty((len(fold), *parts[0][1].shape[1:]))
        for held, scores, _ in parts:
            result[held] = scores
        return result

    def _unfitted(self) -> Any:
        """A copy that can be fitted at this C."""
        return clone(self)

    def _decided(self, scores: np.ndarray) -> np.ndarray:
        """What `decision_function` gives, from the scores of all weight vectors."""
        return scores

    @abstractmethod
    def _calibrated(self, scores: np.ndarray, target: Any, weight: np.ndarray | None) -> Any:
        """The calibration learned from held-out scores."""

    @abstractmethod
    def _uncalibrated(self) -> Any:
        """What the scores of a logistic model say themselves."""


class OneOfClasses(Probabilities):
    """Probabilities of classes, of which each sample has one."""

    classes_: np.ndarray
    multi_class: str

    def _folds(self, target):
        return None if self.probability is None else folds_of_classes(self.probability, target)

    def _decided(self, scores):
        if scores.shape[1] == 2:  # a loss of rows, for two classes
            return scores[:, 1] - scores[:, 0]
        return scores.ravel() if scores.shape[1] == 1 else scores

    def _calibrated(self, scores, target, weight):
        if scores.ndim == 1:
            return TwoOutcomes(fitted_curve(self.probability, scores, target == 1, weight))
        if self.probability == "temperature":
            return fitted_softmax(scores, target, weight)
        curves = [fitted_curve(self.probability, column, target == k, weight) for k, column in enumerate(scores.T)]
        return Columns(curves, shared=True)

    def _uncalibrated(self):
        count = len(self.classes_)
        if count == 2:
            return TwoOutcomes(AS_IT_IS)
        return Columns([AS_IT_IS] * count, shared=True) if self.multi_class == "ovr" else Softmax(1.0)


class EachLabel(Probabilities):
    """Probabilities of labels, of which a sample has any number."""

    classes_: np.ndarray

    def _folds(self, target):
        return None if self.probability is None else folds_of_labels("probability", self.probability, target)

    def _calibrated(self, scores, target, weight):
        method = self.probability
        # Soft: most of a plain isotonic curve of a rare label is zero, and some samples there will have the label all the same.
        known = (known_of(target, label, weight) for label in range(scores.shape[1]))
        curves = [fitted_curve(method, column, *each, soft=True) for column, each in zip(scores.T, known, strict=True)]
        return Columns(curves, shared=False)

    def _uncalibrated(self):
        return Columns([AS_IT_IS] * len(self.classes_), shared=False)
