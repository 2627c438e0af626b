"""Solvers. A new solver is one new file and one line in `NAMES`; `loop` is the one outer loop."""

from ..problems import tensor_risk  # noqa: F401 - lets Bundle serve tensors
from ..problems.base import Problem
from ..result import History, Result
from .ascent import kernel_blocks  # noqa: F401 - lets DualCoordinate serve kernels
from .automatic import Automatic
from .base import NOWHERE, Solver, Start
from .bundle import Bundle
from .device import ascent  # noqa: F401 - lets DualCoordinate serve tensors
from .dual_coordinate import DualCoordinate
from .exponentiated_gradient import ExponentiatedGradient
from .frank_wolfe import FrankWolfe
from .label_groups import solve_groups
from .loop import Budget, carry_out
from .newton import Newton
from .online import OnlineDual
from .partial_linearization import PartialLinearization
from .polytope import working_set  # noqa: F401 - lets it serve structures

NAMES: dict[str, type[Solver]] = {
    "auto": Automatic,
    "dual_coordinate": DualCoordinate,
    "partial_linearization": PartialLinearization,
    "frank_wolfe": FrankWolfe,
    "exponentiated_gradient": ExponentiatedGradient,
    "bundle": Bundle,
    "newton": Newton,
    "online": OnlineDual,
}
ALL = (DualCoordinate, PartialLinearization, FrankWolfe, ExponentiatedGradient, Bundle, Newton, OnlineDual)


def resolve(given: str | Solver) -> Solver:
    """A solver object from a short name, or the object itself."""
    if isinstance(given, str):
        if given not in NAMES:
            raise ValueError(f"Unknown solver {given!r}; known names are {', '.join(sorted(NAMES))}.")
        return NAMES[given]()
    if not isinstance(given, Solver):
        raise TypeError(f"solver must be one of {', '.join(sorted(NAMES))} or a solver object, got {given!r}.")
    return given


def solution_of(
    solver: Solver,
    problem: Problem,
    budget: Budget,
    history: History,
    *,
    start: Start = NOWHERE,
    seed: int = 0,
    average: bool = True,
) -> Result:
    """The way from a problem to a result: groups that have nothing in common one by one, everything else as it is."""
    way = solve_groups if problem.made_of is not None and solver.by_groups else carry_out
    return way(solver, problem, budget, history, start=start, seed=seed, average=average)
