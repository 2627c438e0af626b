"""What every estimator does around a solver: callbacks, progress, budget, and a warning when the target was missed."""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from numbers import Integral, Real
from pathlib import Path
from types import MethodType
from typing import Any, NamedTuple

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from ..callbacks import UNHEARD, CallbackSupportMixin, Keeping, Progress, is_heard
from ..data.matrices import numbers
from ..data.mistakes import check_opened
from ..jit import COMPILING
from ..problems.base import Problem
from ..result import History, Result
from ..solvers import NAMES, solution_of
from ..solvers.base import Solver, WarmStart
from ..solvers.loop import Budget, unwatched
from ..structures.base import check_object
from ..utils.threads import thread_count
from .advice import SCALERS, Spread, limit_of, resumes, spread_of, unfinished

OURS = str(Path(__file__).parents[1]), str(Path(sklearn.__file__).parent)
PLAIN_VALUES = (str, int, float, bool, type(None))  # of parameters, which `clone` leaves as they are
VALID: set[tuple[Any, ...]] = set()  # plain values that were found valid: to check them again takes as long as a small fit
MOST_VALID = 1000
READ = "read the samples first, and give them as a list"


def users_level() -> int:
    """How many calls up from the caller the user's own line is, for warnings: beyond this package and scikit-learn."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OURS):
        frame, level = frame.f_back, level + 1
    return level


class Step(NamedTuple):
    """A step of a path: the fitted model, its problem and what its run has left; and how the problem was posed, where samples
    have to be turned into its coordinates."""

    model: Any
    problem: Problem
    left: WarmStart
    posed: Any = None

    @property
    def outgrown(self) -> bool:
        """Whether larger C have the same optimum, as far as this run has come."""
        return not self.left.planes and self.problem.outgrown(self.left.duals)


class OnlyIf:
    """A method that models have where `check(model)` raises nothing: scikit-learn's `available_if`, but a call meets the
    AttributeError of `check`, which says why."""

    def __init__(self, method: Callable[..., Any], check: Callable[[Any], None]):
        self.method, self.check = method, check
        self.__doc__, self.__name__ = method.__doc__, method.__name__

    def __get__(self, model: Any, owner: type | None = None) -> Callable[..., Any]:
        if model is None:
            return self.method
        self.check(model)
        return MethodType(self.method, model)


def only_if(check: Callable[[Any], None]) -> Callable[[Callable[..., Any]], Any]:
    """A decorator for methods that not every model has."""
    return lambda method: OnlyIf(method, check)


Fitter = Callable[[dict[str, Any], WarmStart | None], Step]  # a copy with other parameters, from what an earlier fit has left


def along(fitter: Fitter, settings: Iterable[dict[str, Any]]) -> Iterator[Step]:
    """The path over settings, one model at a time, each started from the one before it."""
    last = None
    for setting in settings:
        step = fitter(setting, last)
        last = step.left
        yield step


class Certified(CallbackSupportMixin, BaseEstimator):
    """An estimator whose model carries a certificate."""

    _parameter_constraints: dict[str, Any] = {
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": [Interval(Real, 0.0, None, closed="neither"), None],
        "solver": [StrOptions(set(NAMES)), BaseEstimator],
        "warm_start": ["boolean"],
        "keep_duals": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "dtype": "no_validation",
    }
    _silent = False  # whether somebody else tells of a target that was missed: a search does, once for all its fits
    _state_bytes = 0  # that the state of a run may take, for another one to go on from: a search does so

    def _validate_params(self) -> None:
        values = tuple(self.get_params(deep=False).values())
        kinds = tuple(map(type, values))
        plain = set(PLAIN_VALUES).issuperset(kinds)
        if plain and (type(self), kinds, values) in VALID:
            return
        check_object(getattr(self, "structure", None))
        super()._validate_params()
        if plain:
            if len(VALID) >= MOST_VALID:
                VALID.clear()
            VALID.add((type(self), kinds, values))

    @property
    def _learns_on_folds(self) -> bool:
        """Whether a fit goes on with models of folds, for probabilities and the like."""
        return False

    @classmethod
    @cache
    def _get_param_names(cls):
        """As scikit-learn has it, which reads the signature at every call."""
        return super()._get_param_names()

    def _copied(self, **setting):
        """An unfitted copy with other parameters, for a step of a path: it tells the same callbacks."""
        own = self.get_params(deep=False)
        if "_metadata_request" not in vars(self) and all(isinstance(value, PLAIN_VALUES) for value in own.values()):
            estimator = type(self)(**own | setting)  # what `clone` does, with fewer looks at each parameter
        else:
            estimator = clone(self).set_params(**setting)
        if self._silent:
            estimator._silent, estimator._state_bytes = True, self._state_bytes
        if hasattr(self, "_skl_callbacks"):
            estimator.set_callbacks(*self._skl_callbacks)
        self._check_one_fit()
        return estimator

    def _keeping(self) -> list[Keeping]:
        """The callbacks that keep the state of a fit."""
        return [callback for callback in vars(self).get("_skl_callbacks", ()) if isinstance(callback, Keeping)]

    def _finish(self) -> None:
        """Nothing of this fit is left to do: what was kept of it is not needed any more, if it has reached its target."""
        if (last := self.__dict__.pop("_under_way", None)) is not None:
            last[0].finish(last[1])

    def _check_one_fit(self) -> None:
        """Refuse a checkpoint where there are many fits."""
        if self._keeping():
            raise ValueError(
                "A Checkpoint keeps one fit; a path or search has many, and would take one for another. "
                "Leave it out, or fit one setting after another, each with a path of its own."
            )

    def _drive(
        self,
        solver: Solver,
        problem: Problem,
        keep: Callable[[Result], None],
        resumable: bool = True,
        way: Callable[..., Result] = solution_of,
        **start,
    ) -> Result:
        """Solve `problem`, telling callbacks and the user; `keep` sets the fitted attributes, `start` goes on to the `way`, by
        which a solver is used. `resumable`: a `fit` after this one may be of the same problem."""
        if self.keep_duals and not solver.keeps_duals:
            raise ValueError(
                f"keep_duals=True does not go with {type(solver).__name__}, which holds planes and no duals of samples. "
                "Use solver='dual_coordinate'."
            )
        self.history_ = History()
        heard = self.verbose or is_heard(self)
        context = self._init_callback_context(max_subtasks=self._most_passes(problem)) if heard else UNHEARD
        context.call_on_fit_task_begin(estimator=self)
        line = Progress() if self.verbose else None
        if line is not None:
            line.setup(self, context)
        jobs, seed, watch = thread_count(self.n_jobs), seed_of(self.random_state), self._watch(context, line)
        if len(self._keeping()) > 1:
            raise ValueError("One Checkpoint keeps the whole fit: give one.")
        keepers = [callback.keeper(self, solver, problem, seed, jobs) for callback in self._keeping()]
        budget = Budget(self.tol, self.max_iter, self.max_time, jobs, watch, state_bytes=self._state_bytes)
        if keepers:
            budget, seed = replace(budget, keeper=keepers[0]), keepers[0].seed
        with COMPILING.aloud(self.verbose):
            result = way(solver, problem, budget, self.history_, seed=seed, average=not self.keep_duals, **start)
        self.__dict__.pop("_under_way", None)
        if keepers:
            self._under_way = keepers[0], result.certificate.converged
            if not self._learns_on_folds:
                self._finish()
        self.certificate_, self.history_, self.n_iter_ = result.certificate, result.history, result.n_iter
        self.__dict__.pop("statistics_", None)
        if result.statistics:
            self.statistics_ = result.statistics
        keep(result)
        context.call_on_fit_task_end(estimator=self)
        if line is not None:
            line.teardown(self, context)
        if not (result.certificate.converged or self._silent):
            again = resumable and resumes(solver, problem)
            ways = "standardize=True" if vars(self).get("standardize") is False else SCALERS
            spread = self._spread(problem) if limit_of(result.certificate.message) is not None else None
            text = unfinished(result.certificate, self.tol, spread, again, ways)
            warnings.warn(text, ConvergenceWarning, stacklevel=users_level())
        return result

    def _most_passes(self, problem: Problem) -> int:
        return self.max_iter

    def _watch(self, context, line: Progress | None):
        """What the loop calls after each pass: tells the callbacks, and whether one of them wants to stop."""
        if line is None and len(vars(self).get("_skl_callbacks", ())) == len(self._keeping()):
            return unwatched  # a context for each pass would take longer than short passes do

        def watch(iteration: int) -> bool:
            task = context.subcontext(task_name="pass")
            task.call_on_fit_task_begin(estimator=self)
            if line is not None:
                line.on_fit_task_end(self, task)
            return bool(task.call_on_fit_task_end(estimator=self))

        return watch

    def _spread(self, problem: Problem) -> Spread | None:
        """By how much the columns of X differ in size, where that is known and nothing makes up for it."""
        made_up = (getattr(self, name, None) is not None for name in ("prior_scale", "prior_covariance"))
        return None if any(made_up) else spread_of(problem, getattr(self, "feature_names_in_", None))


@lru_cache
def seed_of_number(random_state: int) -> int:
    """The seed of a run; the generator that it is drawn from takes longer to make than a short run."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def seed_of(random_state) -> int:
    """The seed of a run, drawn from what a user gives."""
    if isinstance(random_state, Integral):
        return seed_of_number(int(random_state))
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def checked_Cs(Cs) -> list[float]:  # noqa: N802 - as users call them
    """The values of C of a path."""
    try:
        values = np.asarray(Cs, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.zeros(())
    if values.ndim != 1:
        raise ValueError(f"Cs must be a list of finite numbers > 0; got {Cs!r}.")
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if bad.size:
        raise ValueError(f"Cs must be a list of finite numbers > 0; number {bad[0]} of it is {values[bad[0]]:g}.")
    return [float(C) for C in values]


def settings_of(Cs) -> list[dict[str, Any]]:
    """These values as settings of a path."""
    return [{"C": C} for C in checked_Cs(Cs)]


# ---- checks of samples that are not the rows of a matrix -------------------------------------------------


def sample_count(name: str, given) -> int:
    """How many samples there are."""
    if name == "X":
        check_opened(given, READ)
    if hasattr(given, "shape"):
        return int(given.shape[0]) if len(given.shape) else 0
    if not hasattr(given, "__len__") or isinstance(given, str | dict):
        raise ValueError(f"{name} must be a sequence of samples; got {type(given).__name__}.")
    return len(given)


def same_count(X, y) -> int:
    """How many samples there are, in both."""
    if sample_count("X", X) != sample_count("y", y):
        raise ValueError(f"X has {sample_count('X', X)} samples, y has {sample_count('y', y)}.")
    if sample_count("X", X) == 0:
        raise ValueError("There are no samples: X is empty.")
    return sample_count("X", X)


def checked_weight(sample_weight, samples: int) -> np.ndarray:
    """The weight of each sample, as an array of its own; one where none is given."""
    if sample_weight is None:
        return np.ones(samples)
    weight = numbers("sample_weight", sample_weight).copy()
    if weight.shape != (samples,):
        raise ValueError(f"sample_weight has shape {weight.shape}; {samples} numbers are needed, one for each sample.")
    if np.any(weight < 0) or not np.any(weight > 0):
        raise ValueError("sample_weight must be finite and not negative, and not all zero.")
    return weight


def checked_dtype(dtype) -> np.dtype | None:
    if dtype is not None and np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype must be None, float32 or float64; got {dtype!r}.")
    return None if dtype is None else np.dtype(dtype)
