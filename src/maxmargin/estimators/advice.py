"""What a run that missed its target says: how it ended, how far it came, and the one thing that helps most."""

from typing import NamedTuple

import numpy as np

from ..problems.base import Problem
from ..problems.sizes import MULTIPLIED
from ..result import Certificate
from ..solvers.base import Solver

UNEVEN = 1e3  # columns that differ in size by this factor are what slows a solver down
LIMITS = ("max_iter", "max_time")
SCALERS = "StandardScaler, MaxAbsScaler"


def by_hand(message: str) -> bool:
    """Whether somebody stopped the run, who needs no advice: Ctrl-C or a callback."""
    return message.startswith("Stopped by ")


class Spread(NamedTuple):
    """By how much the columns of X differ in size: which is the largest, which the smallest that is not zero, and the ratio of
    their largest entries; `where`: in which rows, "" for all."""

    factor: float
    largest: str
    smallest: str
    where: str = ""


def unfinished(certificate: Certificate, tol: float, spread: Spread | None, resumable: bool, ways: str = SCALERS) -> str:
    """The text of the warning. `resumable`: whether warm_start=True goes on from here; `ways`: to scale columns."""
    gap, message = certificate.relative_gap, certificate.message
    reached = f"The duality gap is {100 * gap:.3g} % of the primal value, the target was" if gap < np.inf else "The target was"
    said = [message, f"{reached} {100 * tol:.3g} % (tol={tol:g})."]
    if by_hand(message):
        return " ".join(said)
    limit = None if MULTIPLIED in message else limit_of(message)  # it says what to do
    if limit is not None and spread is not None and spread.factor >= UNEVEN:
        said.append(
            f"The columns of X differ in size by a factor of {spread.factor:.0e}{spread.where} ({spread.largest} is the largest, "
            f"{spread.smallest} the smallest): scale them ({ways}), or lower C."
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


def spread_of(problem: Problem, names: np.ndarray | None = None) -> Spread | None:
    """By their largest entries; None where the problem has no columns of numbers."""
    size, where = problem.sizes_seen()
    if size is None or not np.any(size > 0):
        return None
    size = size.astype(np.float64)
    largest, smallest = int(size.argmax()), int(np.where(size > 0, size, np.inf).argmin())
    called = [f"column {j}" if names is None or j >= len(names) else repr(str(names[j])) for j in (largest, smallest)]
    with np.errstate(over="ignore"):  # beside a denormal number anything is infinitely large
        return Spread(float(size[largest] / size[smallest]), called[0], called[1], where)


def resumes(solver: Solver, problem: Problem) -> bool:
    """Whether a warm start of this solver goes on from what a run on such a problem has left."""
    return problem.in_memory and (problem.keeps_points or not solver.keeps_duals)
