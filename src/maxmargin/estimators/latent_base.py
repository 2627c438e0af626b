"""What the latent estimators share: parameters, the convex-concave procedure, warm starts and paths."""

import warnings
from abc import abstractmethod
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from ..callbacks import with_callbacks
from ..data.mistakes import check_opened
from ..problems.latent import LatentProblem
from ..result import Result
from ..solvers import resolve
from ..solvers.base import WarmStart
from ..solvers.convex_concave import ConvexConcave, LatentResult
from .advice import still_falling
from .base import READ, Certified, checked_Cs, users_level

NOTHING = 1e-6  # a quadratic term below this part of the objective is that of no weights, and rounding


class LatentModel(Certified):
    """A model with a hidden choice for each sample."""

    _parameter_constraints: dict[str, Any] = {
        **Certified._parameter_constraints,
        "max_cccp_iter": [Interval(Integral, 1, None, closed="left")],
        "n_restarts": [Interval(Integral, 0, None, closed="left")],
        "init": "no_validation",
    }

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Lower the objective from convex problem to convex problem; certify the last one to the relative duality gap `tol`.

        Parameters
        ----------
        X : sequence of samples
            Whatever the structure reads.
        y : sequence of outputs
        sample_weight : array of shape (n_samples,), optional
            Weights s_i >= 0; an integer weight equals that many repetitions of the sample.

        Returns
        -------
        self
        """
        return self._fitted_to(X, y, sample_weight)

    def regularization_path(self, X, y, Cs, sample_weight=None) -> list:
        """Fitted copies of this estimator for each C in `Cs`, each started from the one before it and certified.

        Go from small to large C.
        """
        return self._rising(Cs, X, y, sample_weight)

    def _fitted_to(self, X, *samples):
        """`fit`, for what `_prepared` takes."""
        self._validate_params()
        check_opened(X, READ)
        problem, learned = self._prepared(X, *samples)
        self._fit(problem, learned, self.__dict__.get("_last") if self.warm_start else None)
        return self

    def _rising(self, Cs, *samples) -> list:
        """`regularization_path`, for what `_prepared` takes."""
        values = checked_Cs(Cs)
        self._validate_params()
        problem, learned = self._prepared(*samples)
        fitted: list[LatentModel] = []
        last = None
        for C in values:
            estimator = self._copied(C=C)
            last = with_callbacks(type(estimator)._fit)(estimator, problem, learned, last)
            fitted.append(estimator)
        return fitted

    def _fit(self, posed: LatentProblem, learned: dict[str, Any], last: WarmStart | None) -> WarmStart:
        for name, value in learned.items():
            setattr(self, name, value)
        problem, solver = posed.at(self.C), resolve(self.solver)
        procedure = ConvexConcave(self.max_cccp_iter, self._checked_init(problem), self.n_restarts)
        if last is not None and problem.fitting(last.weights) is None:
            last = None
        result = self._drive(solver, problem, self._keep_latent, way=procedure.solve, last=last)
        assert isinstance(result, LatentResult) and result.problem is not None
        if not result.at_rest and result.certificate.converged:
            warnings.warn(still_falling(result.stopped, self.max_cccp_iter), ConvergenceWarning, stacklevel=users_level())
        if result.at_rest and 0.5 * float(np.vdot(result.w, result.w)) <= NOTHING * result.outer[-1]:
            warnings.warn(
                "The weights are zero: the hidden choices that were fixed first say nothing of the outputs, and the "
                "procedure rests there. Try n_restarts, init='random', choices of your own as init, or a larger C.",
                ConvergenceWarning,
                stacklevel=users_level(),
            )
        found = WarmStart.of(result.problem, solver, result)
        self.__dict__.pop("_last", None)
        if self.warm_start:
            self._last = found.for_other_data()
        return found

    def _keep_latent(self, result: Result) -> None:
        assert isinstance(result, LatentResult)
        self.outer_history_ = np.array(result.outer)
        self.n_cccp_iter_ = len(result.outer)
        self.restart_objectives_ = np.array(result.values)
        self.latent_ = result.choice
        self.__dict__.pop("dual_coef_", None)
        self._keep(result)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags

    # ---- what a subclass says -----------------------------------------------------------------------------

    @abstractmethod
    def _prepared(self, X, y, sample_weight) -> tuple[LatentProblem, dict[str, Any]]:
        """Checked samples: their problem at C = 1, and the fitted attributes that are known already."""

    @abstractmethod
    def _checked_init(self, problem) -> Any:
        """`init`, checked against the samples."""

    @abstractmethod
    def _keep(self, result: LatentResult) -> None:
        """Fitted attributes from the weights."""
