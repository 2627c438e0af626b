"""What a run that missed its target says: how it ended, how far it came, and the one thing that helps most."""

import numpy as np

from ..problems.base import Problem
from ..result import Certificate
from ..solvers.base import Solver

UNEVEN = 1e3  # columns that differ in size by this factor are what slows a solver down
FAR = 0.5  # a relative gap from which on the model may be hardly better than none
LIMITS = ("max_iter", "max_time")


def by_hand(message: str) -> bool:
    """Whether somebody stopped the run, who needs no advice: Ctrl-C or a callback."""
    return message.startswith("Stopped by ")


def unfinished(certificate: Certificate, tol: float, spread: float | None, resumable: bool) -> str:
    """The text of the warning. `spread`: see below; `resumable`: whether warm_start=True goes on from here."""
    gap, message = certificate.relative_gap, certificate.message
    reached = f"The relative duality gap is {gap:.3g}, the target was" if gap < np.inf else "The target was"
    said = [message, f"{reached} tol={tol:g}."]
    if by_hand(message):
        return " ".join(said)
    if FAR <= gap < np.inf:
        said.append("The model is far from the optimum, and may be hardly better than none.")
    limit = limit_of(message)
    if limit is not None and spread is not None and spread >= UNEVEN:
        said.append(
            f"The columns of X differ in size by a factor of {spread:.0e}: scale them (StandardScaler, MaxAbsScaler), or lower C."
        )
    elif limit is not None:
        said.append(raise_it(limit, resumable))
    return " ".join(said)


def still_falling(stopped: str, max_cccp_iter: int) -> str:
    """The text where the procedure of latent models was stopped at a convex problem that is certified."""
    stopped = stopped or f"Stopped after max_cccp_iter={max_cccp_iter} convex problems."
    said = f"{stopped} The objective still fell; the last convex problem is certified."
    return said if by_hand(stopped) else f"{said} {raise_it(limit_of(stopped) or 'max_cccp_iter', resumable=True)}"


def limit_of(message: str) -> str | None:
    """The limit that ended the run."""
    return next((name for name in LIMITS if f"after {name}=" in message), None)


def raise_it(limit: str, resumable: bool) -> str:
    return f"Raise {limit}{' (warm_start=True goes on from here)' if resumable else ''}."


def spread_of(problem: Problem) -> float | None:
    """The largest column of the data over the smallest that is not zero, by their largest entries; None where the problem has
    no columns of numbers in memory."""
    size = problem.column_sizes()
    if size is None:
        return None
    size = size[size > 0].astype(np.float64)
    with np.errstate(over="ignore"):  # beside a denormal number anything is infinitely large
        return float(size.max() / size.min()) if size.size else None


def resumes(solver: Solver, problem: Problem) -> bool:
    """Whether a warm start of this solver goes on from what a run on such a problem has left."""
    return problem.in_memory and (problem.keeps_points or not solver.keeps_duals)
