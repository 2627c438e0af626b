"""`solve`: the low-level generalised SVM, without an estimator."""

from dataclasses import replace
from numbers import Integral, Real

import numpy as np

from .explicit import ExplicitProblem
from .result import History, Result
from .solvers import resolve
from .solvers.loop import Budget
from .threads import thread_count


def solve(
    problem: ExplicitProblem,
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
    """Solve an `ExplicitProblem` to a certified relative gap.

    Parameters
    ----------
    problem : ExplicitProblem
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
    if not isinstance(problem, ExplicitProblem):
        raise TypeError(f"problem must be an ExplicitProblem, got {type(problem).__name__}.")
    for name, value in (("C", C), ("tol", tol), ("max_time", max_time), ("max_iter", max_iter)):
        if name == "max_time" and value is None:
            continue
        if not isinstance(value, Real) or not np.isfinite(value) or value <= 0:
            raise ValueError(f"{name} must be a finite number > 0, got {value!r}.")
    if not isinstance(random_state, Integral) or random_state < 0:
        raise ValueError(f"random_state must be an integer >= 0, got {random_state!r}.")
    chosen = resolve(solver)
    bound = problem.bind(C)
    if duals is not None:
        duals = np.asarray(duals, dtype=np.float64)
        if duals.shape != bound.margin.shape or not np.all(np.isfinite(duals)):
            raise ValueError(f"duals must be {bound.margin.size} finite numbers, one for each row of X.")
    budget = Budget(tol, max_iter, max_time, thread_count(n_jobs))
    result = chosen.solve(bound, budget, History(), seed=random_state, duals=duals)
    w = problem.weights_of(result.w)
    found = result.duals if isinstance(result.duals, np.ndarray) else None  # planes may be large, and start no other run
    return replace(result, w=w, duals=found)
