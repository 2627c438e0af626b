"""C by cross-validation: what the estimators that choose it themselves share.

Samples are read once. Along each fold the models of all C follow each other from small to large, each started from the one
before it and certified to a coarse gap; then those that may win are refined (`contest`). Folds run side by side. The winner is
fitted to all samples, to `tol`.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
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

from ..data.sources.base import Source
from ..data.sources.memory import is_source
from ..data.table import of_own_kind
from ..data.tensors import as_array, is_tensor, read_as_array
from ..utils.blas import blas_threads
from ..utils.parameters import POSITIVE, at_least
from ..utils.threads import thread_count
from .base import Certified, checked_Cs, users_level
from .bounds import NO_BOUNDS, DefaultScore, HeldOut
from .by_block import check_in_memory, check_source
from .contest import Contest, Fold, Gaps, where_best
from .label_thresholds import is_tuned
from .source_folds import count_of_folds, folds_of_source

POWERS = -4, 4  # of ten, between which a number of Cs is spread, as in LogisticRegressionCV
FEWEST_SCORED = 2  # samples: fewer have no coefficient of determination, of which scikit-learn warns
DEFAULTS = {"Cs": 10, "cv": None, "scoring": None, "refit": True, "search_tol": 1e-1}
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
        try:
            found = known.bind(*given, **named)
        except TypeError as wrong:
            instead = "; the values of C to choose from are Cs" if "C" in named else ""
            raise TypeError(f"{type(given[0]).__name__}() {wrong}{instead}.") from None
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

    _default_score: DefaultScore | None = None  # of linear models
    _multilabel = False  # whether a source has an indicator matrix
    _largest_state = 0  # bytes of a fit that is kept whole, so that its refinement goes on with it

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
            As for the estimator without CV. The rows of a source are dealt to folds by a hash of their numbers.
        sample_weight : array of shape (n_samples,), optional
            Weights s_i >= 0; they go with their samples into folds and, where the scorer takes weights, into the scores.

        Returns
        -------
        self
        """
        self._validate_params()
        if read_as_array(X, vars(self).get("device")):
            X = as_array(X)
        values = values_of(self.Cs)
        gaps = Gaps.of(self.search_tol, self.tol, self.max_iter)
        if is_source(X):
            folds = self._folds_of_source(X, y, sample_weight, np.sort(values), gaps)
        elif of_own_kind(X) or is_tensor(X) or vars(self).get("device") is not None:
            raise ValueError(self._not_dealt(X))
        else:
            folds = self._folds_in_memory(self._checked(X, y, sample_weight), np.sort(values), gaps)
        self._forget()
        self.Cs_ = values
        self._decide(folds, gaps.rungs() if not is_source(X) else gaps.rungs()[-1:])
        if self.refit:
            self._estimator.fit(self, X, y, sample_weight)  # at self.C, which is the winner now
        return self

    def _forget(self) -> None:
        """What an earlier `fit` has left, but for what a warm start begins from."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def __sklearn_is_fitted__(self) -> bool:
        if "C_" in vars(self) and not self.refit and "certificate_" not in vars(self):
            raise NotFittedError(
                f"There is no model: this {type(self).__name__} was fitted with refit=False, which leaves C_ and scores_. Fit it "
                f"with refit=True, or {self._estimator.__name__}(C=model.C_)."
            )
        return "certificate_" in vars(self)

    # ---- the search ---------------------------------------------------------------------------------------

    def _decide(self, folds: list[Fold], rungs: list[float]) -> None:
        """`scores_`, `score_bounds_` and `C_`; and a warning where fits missed their targets."""
        contest = Contest(folds, thread_count(self.n_jobs))
        with blas_threads(1):  # what every fit asks for: then it need not be set for each of them
            contest.run(rungs)
        place = np.argsort(np.argsort(self.Cs_, kind="stable"))  # of each value among the rising ones
        self.scores_, self.score_bounds_ = contest.scores[:, place], contest.bounds[:, place]
        self.C_ = chosen(self.Cs_, self.scores_)
        missed = [fit.gap for fold in folds for fit in fold.kept.values() if not fit.converged]
        if missed:
            warnings.warn(self._missed(missed, self.scores_.size), ConvergenceWarning, stacklevel=users_level())

    def _folds_in_memory(self, samples: ReadSamples, values: np.ndarray, gaps: Gaps) -> list[Fold]:
        model, scorer = self._plain()
        pairs = list(check_cv(self.cv, samples.y, classifier=self._stratified).split(samples.X, samples.y))
        if not pairs:
            raise ValueError("cv has no folds: it must give at least one pair of training and test samples.")
        weighted = samples.weight is not None and takes_weights(scorer, self.scoring)
        known = self._default_score
        judged = None if known is None or self.scoring not in (None, known.name) else known

        def fold(train: np.ndarray, test: np.ndarray) -> Fold:
            X, y = _safe_split(model, samples.X, samples.y, train)
            X_test, y_test = _safe_split(model, samples.X, samples.y, test, train)
            weight = None if samples.weight is None else _safe_indexing(samples.weight, train)
            counted = {"sample_weight": _safe_indexing(samples.weight, test)} if weighted else {}
            fitter = model._fitter((X, y, weight))
            if judged is None:
                return Fold(values, gaps, fitter, lambda step: scorer(step.model, X_test, y_test, **counted), lambda _: NO_BOUNDS)
            held = HeldOut(X_test, y_test, counted.get("sample_weight"))
            score = partial(judged.score, held) if judged.score and held.weight.size >= FEWEST_SCORED else None
            return Fold(
                values,
                gaps,
                fitter,
                score or (lambda step: scorer(step.model, X_test, y_test, **counted)),
                partial(judged.bounds, held),
            )

        return [fold(train, test) for train, test in pairs]

    def _folds_of_source(self, source: Any, y: Any, sample_weight: Any, values: np.ndarray, gaps: Gaps) -> list[Fold]:
        if not isinstance(source, Source):
            raise ValueError(self._not_dealt(source))
        check_source(self, source, y, sample_weight, multilabel=self._multilabel)
        check_in_memory(vars(self).get("probability"))
        model, scorer = self._plain()
        judged = None if self.scoring is None else (scorer, takes_weights(scorer, self.scoring))
        return folds_of_source(model, source, values, gaps, self._dealing(), judged)

    def _dealing(self) -> tuple[int, int]:
        """How many folds a source is dealt to, and the seed of the hash."""
        return count_of_folds(self.cv), int(self.random_state) if isinstance(self.random_state, Integral) else 0

    def _not_dealt(self, X: Any) -> str:
        if vars(self).get("device") is not None:
            return f"{type(self).__name__} works on the processor: leave device out, or fit {self._estimator.__name__} at one C."
        return (
            f"{type(self).__name__} deals samples to folds, which have to be in memory or a source of rows; {type(X).__name__} "
            f"can be fitted by {self._estimator.__name__} at one C."
        )

    def _own(self) -> dict[str, Any]:
        """The parameters of the estimator, but for C."""
        return {name: value for name, value in self.get_params(deep=False).items() if name not in DEFAULTS}

    def _unfitted(self) -> Any:
        """The estimator at the C that was chosen."""
        return clone(self._estimator(C=self.C, **self._own()))

    def _plain(self) -> tuple[Any, Any]:
        """The estimator that is fitted along the folds, and what scores it. It is calibrated only where the scorer needs that."""
        own = self._own()
        if not isinstance(self.random_state, Integral):  # folds share no state
            own["random_state"] = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        own |= {"n_jobs": 1, "keep_duals": False, "warm_start": False, "verbose": 0}
        if "output" in own:  # scorers want arrays
            own["output"] = None
        model = self._estimator(**own)
        model._silent, model._state_bytes = True, self._largest_state
        scorer = check_scoring(model, scoring=self.scoring)
        if not needs_probabilities(scorer, self.scoring):
            if "probability" in own:
                model.set_params(probability=None)
        elif isinstance(self.scoring, str) and not hasattr(model, "predict_proba"):
            ways = "set probability='sigmoid', 'isotonic' or 'temperature', take loss='log_loss', or another scoring"
            raise ValueError(
                f"scoring={self.scoring!r} judges probabilities, which this {self._estimator.__name__} has none of: "
                f"{ways if 'probability' in own else 'take another scoring'}."
            )
        if is_tuned(own.get("thresholds")) and not needs_predictions(scorer, self.scoring):
            model.set_params(thresholds=None)
        return model, scorer

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

    _largest_state = 1 << 22  # there are as many as folds times values of C

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
    return float(values[where_best(mean)].min())


def takes_weights(scorer: Any, scoring: Any) -> bool:
    """Whether weights of samples can be given to a scorer; `score` of the estimators takes them."""
    return scoring is None or "sample_weight" in signature(getattr(scorer, "_score_func", scorer)).parameters


def needs_predictions(scorer: Any, scoring: Any) -> bool:
    """Whether a scorer asks for `predict`: `score` does, a function may."""
    asked = "predict" if scoring is None else getattr(scorer, "_response_method", "predict")
    return asked == "predict" or (not isinstance(asked, str) and "predict" in asked)


def needs_probabilities(scorer: Any, scoring: Any) -> bool:
    """Whether a scorer asks for `predict_proba`: `score` does not, a function may."""
    if scoring is None:
        return False
    asked = getattr(scorer, "_response_method", "predict_proba")
    return (asked if isinstance(asked, str) else asked[0]) == "predict_proba"
