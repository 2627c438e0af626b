"""C by cross-validation: what the estimators that choose it themselves share.

Samples are read once. Along each fold the models of all C follow each other from small to large, each started from the one
before it and certified to a coarse gap; folds run side by side. A fold ends early where no dual is near its bound any more: at
the optimum larger C would have the same one, and all get its score. Only the winner is fitted to `tol`, on all samples.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from inspect import Parameter, signature
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import _safe_split

from ..data.sources.memory import is_source
from ..data.table import of_own_kind
from ..utils.parameters import POSITIVE, at_least
from ..utils.threads import in_threads, thread_count
from .advice import by_hand
from .base import Certified, checked_Cs, users_level

POWERS = -4, 4  # of ten, between which a number of Cs is spread, as in LogisticRegressionCV
EQUAL = 1e-12  # mean scores that differ by less are ties: rounding may tell them apart
DEFAULTS = {"Cs": 10, "cv": None, "scoring": None, "refit": True, "search_tol": 1e-2}
CONSTRAINTS: dict[str, list[Any]] = {
    "Cs": [at_least(1), "array-like"],
    "cv": ["cv_object"],
    "scoring": [StrOptions(set(get_scorer_names())), callable, None],
    "refit": ["boolean"],
    "search_tol": [POSITIVE],
}


class ReadSamples(NamedTuple):
    """Samples as they were read, once for all folds; `weight` is None where the user gave none."""

    X: Any
    y: Any
    weight: np.ndarray | None


class Targets:
    """How far each fit along a fold goes.

    The gap is relative to the objective, and at a small C nearly every w has that of w = 0: a hundredth of it says nothing there.
    So what counts is `search_tol` times the objective or, where that is less, times what the model gains over w = 0, as the C
    before has shown it; and never less than `tol`. Where little is gained fits are short, so that this costs hardly any time.
    """

    def __init__(self, tol: float, search_tol: float):
        self.tol, self.search_tol = tol, search_tol
        self.loss_at_zero: float | None = None  # the objective over C at the smallest C, which is that of w = 0 or a little less
        self.gain = 0.0  # over w = 0, relative to the objective

    def settings(self, Cs: np.ndarray) -> Iterator[dict[str, float]]:
        """The parameters of each fit, made when its turn comes."""
        for C in Cs:
            yield {"C": float(C), "tol": max(self.tol, self.search_tol * min(self.gain, 1.0))}

    def note(self, fitted: Any) -> None:
        """What a fit has reached."""
        loss = fitted.certificate_.primal / fitted.C
        self.loss_at_zero = loss if self.loss_at_zero is None else self.loss_at_zero
        self.gain = self.loss_at_zero / loss - 1.0 if loss > 0.0 else 1.0


def init_of_search(estimator: type) -> Callable[..., None]:
    """The `__init__` of a search around an estimator: its parameters, with those of the search in the place of C. scikit-learn
    reads the names of parameters off the signature."""
    parameters = [Parameter("self", Parameter.POSITIONAL_ONLY)]
    for parameter in signature(estimator).parameters.values():
        if parameter.name != "C":
            parameters.append(parameter)
            continue
        for name, default in DEFAULTS.items():
            kind = Parameter.POSITIONAL_OR_KEYWORD if name == "Cs" else Parameter.KEYWORD_ONLY
            parameters.append(Parameter(name, kind, default=default))
    known = signature(estimator).replace(parameters=parameters)

    def __init__(*given: Any, **named: Any) -> None:  # noqa: N807 - that is what it is
        found = known.bind(*given, **named)
        found.apply_defaults()
        self = found.arguments.pop("self")
        for name, value in found.arguments.items():
            setattr(self, name, value)

    __init__.__dict__["__signature__"] = known
    return __init__


def constraints_of_search(estimator: type[Certified]) -> dict[str, Any]:
    """What its parameters may be."""
    return {**{name: told for name, told in estimator._parameter_constraints.items() if name != "C"}, **CONSTRAINTS}


def without(name: str) -> property:
    """A method of the estimator that its search has not: there is no C before `fit`."""

    def missing(self: Any) -> Any:
        kind = self._estimator.__name__
        raise AttributeError(f"{type(self).__name__} has no {name}, which is for one C at a time: use {kind}(C=model.C_).{name}.")

    return property(missing)


class Search(Certified):
    """An estimator that chooses its C. A subclass is also one of the estimator `_estimator`, which it fits at every C."""

    _estimator: Any
    Cs: Any
    cv: Any
    scoring: Any
    refit: bool
    search_tol: float

    regularization_path = without("regularization_path")
    partial_fit = without("partial_fit")

    @property
    def C(self) -> float:  # noqa: N802 - the parameter of the estimator
        """The C that was chosen: what the estimator is fitted with."""
        if "C_" not in vars(self):
            raise NotFittedError(f"{type(self).__name__} chooses C in fit: call that first.")
        return self.C_

    def fit(self, X, y=None, sample_weight=None):
        """Choose C by cross-validation, and find its optimum over all samples to the relative duality gap `tol`.

        Parameters
        ----------
        X, y
            As for the estimator without CV, in memory.
        sample_weight : array of shape (n_samples,), optional
            Weights s_i >= 0; they go with their samples into folds and, where the scorer takes weights, into the scores.

        Returns
        -------
        self
        """
        self._validate_params()
        values = values_of(self.Cs)
        if is_source(X) or of_own_kind(X):
            raise ValueError(
                f"{type(self).__name__} deals samples to folds, which have to be in memory; {type(X).__name__} can be fitted by "
                f"{self._estimator.__name__} at one C."
            )
        self._forget()
        scores, unfinished = self._scores_of_folds(self._checked(X, y, sample_weight), values)
        self.Cs_, self.scores_ = values, scores
        self.C_ = chosen(values, scores)
        if unfinished:
            warnings.warn(self._missed(unfinished, scores.size), ConvergenceWarning, stacklevel=users_level())
        if self.refit:
            self._estimator.fit(self, X, y, sample_weight)  # at self.C, which is the winner now
        return self

    def _forget(self) -> None:
        """What an earlier `fit` has left, but for what a warm start begins from."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def __sklearn_is_fitted__(self) -> bool:
        return "certificate_" in vars(self)

    # ---- the search ---------------------------------------------------------------------------------------

    def _scores_of_folds(self, samples: ReadSamples, values: np.ndarray) -> tuple[np.ndarray, list[float]]:
        """(folds, Cs); and the relative gaps of the fits that missed their target."""
        model = self._plain()
        folds = list(check_cv(self.cv, samples.y, classifier=self._stratified).split(samples.X, samples.y))
        if not folds:
            raise ValueError("cv has no folds: it must give at least one pair of training and test samples.")
        scorer = check_scoring(model, scoring=self.scoring)
        weighted = samples.weight is not None and takes_weights(scorer, self.scoring)
        order = np.argsort(values, kind="stable")

        def along(fold: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, list[float]]:
            """The scores of one fold."""
            train, test = fold
            X, y = _safe_split(model, samples.X, samples.y, train)
            held_out = _safe_split(model, samples.X, samples.y, test, train)
            weight = None if samples.weight is None else _safe_indexing(samples.weight, train)
            counted = {"sample_weight": _safe_indexing(samples.weight, test)} if weighted else {}
            targets = Targets(self.tol, self.search_tol)
            scores, gaps = np.empty(values.size), []
            for done, step in enumerate(model._rising((X, y, weight), targets.settings(values[order]))):
                certificate = step.model.certificate_
                if by_hand(certificate.message):
                    raise KeyboardInterrupt
                targets.note(step.model)
                scores[order[done:]] = scorer(step.model, *held_out, **counted)
                if not certificate.converged:
                    gaps.append(certificate.relative_gap)
                elif done + 1 < values.size and step.outgrown:
                    break
            return scores, gaps

        found = in_threads(along, folds, thread_count(self.n_jobs))
        return np.array([scores for scores, _ in found]), [gap for _, gaps in found for gap in gaps]

    def _own(self) -> dict[str, Any]:
        """The parameters of the estimator, but for C."""
        return {name: value for name, value in self.get_params(deep=False).items() if name not in DEFAULTS}

    def _unfitted(self) -> Any:
        """The estimator at the C that was chosen."""
        return clone(self._estimator(C=self.C, **self._own()))

    def _plain(self) -> Any:
        """The estimator that is fitted along the folds."""
        own = self._own()
        if self.scoring is None and "probability" in own:  # `score` asks for none
            own["probability"] = None
        if not isinstance(self.random_state, Integral):  # folds share no state
            own["random_state"] = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        own |= {"n_jobs": None, "keep_duals": False, "warm_start": False, "verbose": 0}
        model = self._estimator(**own)
        model._silent = True
        return model

    def _missed(self, gaps: list[float], fits: int) -> str:
        return (
            f"{len(gaps)} of the {fits} fits of the search missed their relative gap of {self.search_tol:g} or less (the largest "
            f"is {max(gaps):.3g}): their scores may not be those of the optimum. Raise max_iter or max_time, scale X, or leave "
            "large Cs out."
        )

    @property
    def _stratified(self) -> bool:
        """Whether each fold gets its part of every class."""
        return False

    @abstractmethod
    def _checked(self, X, y, sample_weight) -> ReadSamples:
        """The samples, read and checked: folds take rows of them."""


class LinearSearch(Search):
    """The search of a model of matrices with a column of targets."""

    @property
    def _stratified(self) -> bool:
        return is_classifier(self)

    def _checked(self, X, y, sample_weight):
        X, y = self._checked_data(X, y)
        weight = None if sample_weight is None else self._checked_weight(sample_weight, X)
        self._checked_target(y, weight)
        return ReadSamples(X, y, weight)

    _checked_data: Callable[..., tuple[Any, np.ndarray]]
    _checked_target: Callable[..., Any]
    _checked_weight: Callable[..., np.ndarray]


def values_of(given: Any) -> np.ndarray:
    """The values of C that are tried."""
    if isinstance(given, Integral):
        return np.logspace(*POWERS, int(given))
    values = np.array(checked_Cs(given))
    if not values.size:
        raise ValueError("Cs is empty: give at least one value of C, or how many there are to be.")
    return values


def chosen(values: np.ndarray, scores: np.ndarray) -> float:
    """The C with the best mean score over the folds, of several the smallest."""
    mean = scores.mean(axis=0)
    if np.all(np.isnan(mean)):
        raise ValueError("The scoring gave NaN for every C: there is nothing to choose by.")
    best = np.nanmax(mean)
    return float(values[mean >= best - EQUAL * abs(best)].min())


def takes_weights(scorer: Any, scoring: Any) -> bool:
    """Whether weights of samples can be given to a scorer; `score` of the estimators takes them."""
    return scoring is None or "sample_weight" in signature(getattr(scorer, "_score_func", scorer)).parameters
