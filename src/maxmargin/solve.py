"""Without an estimator: `solve` for the generalised SVM with listed constraints, `minimize` for a convex risk of one's own."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any

import numpy as np
from sklearn.utils._param_validation import validate_parameter_constraints

from .data.tensors import host_values
from .problems.base import Problem
from .problems.explicit import ExplicitProblem
from .problems.risk import Cut, Layout, Risk, risk_of
from .result import History, Result
from .solvers import Bundle, resolve, solution_of
from .solvers.base import NOWHERE, Start
from .solvers.loop import Budget
from .solvers.planes.coordinates import Coordinates, coordinates_of
from .utils.parameters import POSITIVE, at_least
from .utils.threads import thread_count

NUMBERS = {
    "C": [POSITIVE],
    "tol": [POSITIVE],
    "max_iter": [at_least(1)],
    "max_time": [POSITIVE, None],
    "random_state": [at_least(0)],
    "dim": [at_least(1)],
}


def solve(
    problem: ExplicitProblem | Problem,
    C: float = 1.0,
    solver="auto",
    tol: float = 1e-3,
    *,
    max_iter: int = 10_000,
    max_time: float | None = None,
    random_state: int = 0,
    duals: np.ndarray | None = None,
    n_jobs: int | None = None,
) -> Result:
    """Solve a problem to a certified relative gap.

    Parameters
    ----------
    problem : ExplicitProblem, or a problem of another kind
        Those of estimators and of your own are described in `maxmargin.extend`.
    C : float
        Weight of the losses against the regulariser.
    solver : str or solver object
    tol : float
        The relative duality gap to certify.
    max_iter, max_time
        Passes and seconds at the most; the result says in its certificate whether `tol` was reached.
    random_state : int
        Seed of the order of visits.
    duals : array of shape (rows,), optional
        A hot start: the `duals` of an earlier result on the same rows. They are made feasible for this C.
    n_jobs : int, optional
        Threads for the passes that evaluate the objective.

    Returns
    -------
    Result
        `w` (one weight a feature), `certificate`, `history`, `message`, `n_iter` and `duals` (one a row; None of `Bundle`,
        which has planes in their place).
    """
    given = {"C": C, "tol": tol, "max_iter": max_iter, "max_time": max_time, "random_state": random_state}
    validate_parameter_constraints(NUMBERS, given, "solve")
    chosen, (posed, back) = resolve(solver), _posed(problem)
    posed = posed.at(C)
    start = NOWHERE if duals is None else Start(_checked_duals(duals, posed))
    budget = Budget(tol, max_iter, max_time, thread_count(n_jobs))
    result = solution_of(chosen, posed, budget, History(), start=start, seed=random_state)
    found = result.duals if chosen.keeps_duals else None  # planes may be large, and start no other run
    return replace(result, w=back(result.w), duals=found)


@singledispatch
def _posed(problem) -> tuple[Problem, Callable[[Any], np.ndarray]]:
    """What solvers see of it, and the way from their weights to the user's."""
    raise TypeError(f"problem must be an ExplicitProblem or another Problem, got {type(problem).__name__}.")


@_posed.register
def _(problem: Problem):
    return problem, problem.coefficients


@_posed.register
def _(problem: ExplicitProblem):
    return problem.posed, problem.weights_of


def _checked_duals(duals, problem: Problem) -> np.ndarray:
    """A user's start, made feasible."""
    given = np.asarray(duals, dtype=np.float64)
    fits = given.shape == problem.dual_shape and bool(np.all(np.isfinite(given)))
    found = problem.resumed(given, np.zeros(problem.weight_shape), None, "")[0] if fits else None
    if found is None:
        shape = " x ".join(map(str, problem.dual_shape)) or "no"
        raise ValueError(f"duals must be {shape} finite numbers: those of an earlier result on the same samples.")
    return found


# ---- a risk of one's own -----------------------------------------------------------------------------------

DEFAULT = Bundle()


@dataclass(frozen=True)
class RiskProblem(Problem):
    """1/2 ||w||^2 + C R(w) over a box."""

    risk: Callable[[np.ndarray], tuple[Any, Any]]
    dim: int
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    weight: np.ndarray = field(default_factory=lambda: np.ones(1))
    C: float = 1.0

    n_parts = None  # the risk says of how many parts it is the sum

    @property
    def n_examples(self) -> int:
        return 1

    def primal(self, w: np.ndarray, n_jobs: int = 1) -> float:
        value, _ = self.risk(w)
        return 0.5 * float(w @ w) + float(self.cap[0] * np.sum(value))

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (self.dim,)


class OwnRisk(Risk):
    """A user's function, checked at each call; `models` is how many parts it must have, 0 for any number."""

    def __init__(self, problem: RiskProblem, models: int):
        self.problem, self.models, self.calls = problem, models, 0
        self.dim, self.n_groups = problem.dim, models or 1
        own = problem.risk
        self.nonnegative, self.ours = (own.nonnegative, own.ours) if isinstance(own, Risk) else (False, False)

    def cut(self, w):
        self.calls += 1
        if isinstance(self.problem.risk, Risk):
            values, slopes, offsets = self.problem.risk.cut(w)
        else:
            values, slopes = self.checked(self.problem.risk(w.copy()))
            offsets = values - slopes @ w
        if self.models == 1 and len(values) > 1:
            values, slopes, offsets = (array.sum(axis=0, keepdims=True) for array in (values, slopes, offsets))
        if self.models == 0:
            self.models = self.n_groups = len(values)
        if len(values) != self.models:
            raise ValueError(f"The risk returned {len(values)} values at call {self.calls}; {self.models} are expected.")
        factor = self.problem.cap[0]
        return Cut(factor * values, factor * slopes, factor * offsets)

    def checked(self, answer) -> tuple[np.ndarray, np.ndarray]:
        """values (P,) and subgradients (P, dim), finite"""
        where = f"at call {self.calls}"
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise ValueError(f"The risk must return (value, subgradient); {where} it returned {type(answer).__name__}.")
        try:
            values, slopes = (np.asarray(host_values(part, name="what the risk returns"), dtype=np.float64) for part in answer)
        except (TypeError, ValueError) as error:
            raise ValueError(f"The risk must return numbers; {where} they could not be read: {error}.") from None
        wanted = (self.dim,) if values.ndim == 0 else (*values.shape, self.dim)
        if values.ndim > 1 or values.size == 0 or slopes.shape != wanted:
            raise ValueError(
                f"The risk returned a value of shape {values.shape} and a subgradient of shape {slopes.shape} {where}; they must "
                f"be () and ({self.dim},), or (P,) and (P, {self.dim}) for a sum of P parts."
            )
        for name, array in (("value", values), ("subgradient", slopes)):
            if not np.all(np.isfinite(array)):
                raise ValueError(f"The risk returned NaN or infinity in its {name} {where}.")
        return np.atleast_1d(values), np.atleast_2d(slopes)


@risk_of.register
def _(problem: RiskProblem, n_groups=1, n_jobs=1, layout: Layout | None = None):
    return OwnRisk(problem, n_groups)


@coordinates_of.register
def _(problem: RiskProblem, layout: Layout) -> Coordinates:
    return Coordinates(None, None, problem.lower, problem.upper)


def minimize(
    risk: Callable[[np.ndarray], tuple[Any, Any]],
    dim: int,
    *,
    C: float = 1.0,
    solver: Any = DEFAULT,
    bounds: tuple[Any, Any] | None = None,
    tol: float = 1e-3,
    max_iter: int = 10_000,
    max_time: float | None = None,
) -> Result:
    """Minimise 1/2 ||w||^2 + C R(w) for a convex R of your own, to a certified relative gap.

    Parameters
    ----------
    risk : callable
        risk(w) -> (value, subgradient), with w and subgradient of `dim` numbers. For a sum of P parts it may return the
        values (P,) and subgradients (P, dim) of each: P models are finer than one, and fewer calls are needed. Values and
        subgradients must be exact up to rounding; the result is as true as they are. They may be tensors on a GPU.
    dim : int
        The number of weights.
    C : float
        Weight of the risk against the regulariser.
    solver : Bundle
        `Bundle(init=w)` begins at w, `Bundle(n_models=1)` adds the parts of the risk up.
    bounds : (lower, upper), optional
        The weights stay between them: numbers, arrays of `dim` numbers, or None; infinite ones are none. (0, None) is w >= 0.
    tol : float
        The relative gap to certify.
    max_iter, max_time
        Calls of the risk and seconds at the most; the certificate says whether `tol` was reached.

    Returns
    -------
    Result
        `w`, `certificate`, `history`, `message`, `n_iter` (calls of the risk) and `statistics` (see `Bundle`).

    Examples
    --------
    >>> import numpy as np
    >>> import maxmargin as mm
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([1.0, 2.0, 4.0])
    >>> def absolute(w):
    ...     residual = X @ w - y
    ...     return np.abs(residual), np.sign(residual)[:, None] * X
    >>> result = mm.minimize(absolute, 2, C=10.0)
    >>> result.certificate.converged
    True
    """
    if not callable(risk):
        raise TypeError(f"risk must be a function risk(w) -> (value, subgradient), got {type(risk).__name__}.")
    given = {"dim": dim, "C": C, "tol": tol, "max_iter": max_iter, "max_time": max_time}
    validate_parameter_constraints(NUMBERS, given, "minimize")
    if isinstance(risk, Risk) and risk.dim != dim:
        raise ValueError(f"dim is {dim}, but this risk has {risk.dim} weights.")
    lower, upper = _checked_bounds(bounds, int(dim))
    result = _minimised(RiskProblem(risk, int(dim), lower, upper).at(C), solver, Budget(float(tol), int(max_iter), max_time))
    return replace(result, duals=None)  # planes may be large


def _minimised(problem: RiskProblem, solver, budget: Budget) -> Result:
    chosen = resolve(solver)
    if chosen.serves(problem) is not None:
        raise TypeError(f"{type(chosen).__name__} cannot minimise a risk that is a function of yours; use solver=Bundle().")
    return solution_of(chosen, problem, budget, History())


def _checked_bounds(bounds, dim: int) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Arrays of `dim` numbers; None where nothing is bounded."""
    if bounds is None:
        return None, None
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise ValueError("bounds must be a pair (lower, upper).")
    found = []
    for name, given, none in (("lower", bounds[0], -np.inf), ("upper", bounds[1], np.inf)):
        try:
            array = np.asarray(none if given is None else given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"The {name} bounds must be numbers: {error}.") from None
        if array.shape not in ((), (dim,)):
            raise ValueError(f"The {name} bounds have shape {array.shape}; one number or {dim} of them are needed.")
        if np.any(np.isnan(array)) or np.any(array == -none):
            raise ValueError(f"The {name} bounds hold {'NaN' if np.any(np.isnan(array)) else f'{-none:g}'}.")
        found.append(np.broadcast_to(array, (dim,)).copy())
    crossed = np.flatnonzero(found[0] > found[1])
    if crossed.size:
        j = crossed[0]
        raise ValueError(f"The bounds of weight {j} cross: lower {found[0][j]:g}, upper {found[1][j]:g}.")
    lower, upper = found
    return None if np.all(lower == -np.inf) else lower, None if np.all(upper == np.inf) else upper
