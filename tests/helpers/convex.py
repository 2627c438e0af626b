"""cvxpy, imported when something of it is first asked for: tests on a GPU do without. `solved`: the one way to its optimum."""

import warnings
from importlib import import_module

# One run in fifty with exponential cones ends short of its precision, another one on each processor: other paths lead there.
PATHS: tuple[dict[str, object], ...] = (
    {},
    {"equilibrate_enable": False},
    {"max_step_fraction": 0.9},
    {"static_regularization_constant": 1e-10},
)


def __getattr__(name: str):
    return getattr(import_module("cvxpy"), name)


def solved(problem, precision: float = 1e-8) -> float:
    """The optimal value, by Clarabel; nothing short of the precision asked for is accepted."""
    cp, tried = import_module("cvxpy"), []
    for path in PATHS:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)  # the status says so too
            try:
                problem.solve(solver=cp.CLARABEL, tol_gap_abs=precision, tol_gap_rel=precision, tol_feas=precision, **path)
            except cp.SolverError as failure:
                tried.append(str(failure))
                continue
        if problem.status == cp.OPTIMAL:
            return float(problem.value)
        tried.append(problem.status)
    raise AssertionError(f"Clarabel found no optimum to {precision:g}: {', '.join(tried)}")
