"""A multi-label problem, group by group: values add up, so each group is certified alone and the sum is the certificate.

One group after the other needs the memory of one; with `n_jobs` threads as many groups are under way. Whatever stops a run,
every label ends with a model and the certificate covers all of them: labels not begun have weights of zero, whose values are
known without work.
"""

import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..jit import clock
from ..problems.multilabel import MultilabelProblem
from ..result import Certificate, History, Record, Result, relative
from ..utils.threads import in_threads
from .loop import Budget, Interrupt


@dataclass(frozen=True)
class Left:
    """What a solver without duals leaves of each group for a run at another C."""

    parts: list[Any]

    def rescaled(self, factor: float) -> "Left":
        return Left([None if part is None else part.rescaled(factor) for part in self.parts])


class GroupTotals:
    """The values of all groups as they stand, and the record of their sums."""

    def __init__(self, primal: np.ndarray, history: History, budget: Budget):
        self.primal, self.dual = primal, np.zeros(len(primal))
        self.history, self.passes, self.budget = history, 0, budget
        self.lock = threading.Lock()

    def note(self, group: int, record: Record) -> None:
        with self.lock:
            self.primal[group], self.dual[group] = record.primal, record.dual
            self.passes = max(self.passes, record.iteration)
            primal, dual = float(self.primal.sum()), float(self.dual.sum())
            self.history.append(Record(self.passes, self.budget.seconds(), primal, dual, primal - dual))


class GroupHistory(History):
    """The history of one group, copied to the totals."""

    def __init__(self, totals: GroupTotals, group: int):
        super().__init__()
        self.totals, self.group = totals, group

    def append(self, record: Record) -> None:
        super().append(record)
        self.totals.note(self.group, record)


def solve_groups(
    solver, problem: MultilabelProblem, budget: Budget, history: History, *, seed, duals, weights, average
) -> Result:
    """Solve each group to the relative gap of the budget; `duals` and `weights` are a hot start."""
    groups, at_zero = problem.groups, problem.primal_at_zero()
    totals = GroupTotals(np.array([at_zero[columns].sum() for columns in groups]), history, budget)
    known = weights is not None and len(weights) == len(groups)
    found: list[Result | None] = [None] * len(groups)
    problem.curvature  # noqa: B018 - computed before threads ask for it
    reason = ""

    def halted() -> bool:
        nonlocal reason
        if interrupt.pressed or budget.halt():
            reason = "Stopped by Ctrl-C."
        return bool(reason)

    def work(k: int) -> None:
        left = None if budget.max_time is None else budget.max_time - budget.seconds()
        if halted() or (left is not None and left <= 0.0):
            return

        def watch(iteration: int) -> bool:
            nonlocal reason
            with totals.lock:
                if budget.watch(iteration):
                    reason = reason or "Stopped by a callback."
            return halted()

        group = problem.group(groups[k])
        start: dict[str, Any] = {"duals": None, "weights": weights[k] if known else None}
        if isinstance(duals, Left):
            start["duals"] = duals.parts[k] if len(duals.parts) == len(groups) else None
        elif duals is not None:
            start["duals"] = group.clipped(duals[:, groups[k]].toarray())
        share = None if left is None else left * min(budget.n_jobs, len(groups) - k) / (len(groups) - k)
        jobs = 1 if len(groups) > 1 else budget.n_jobs
        own = replace(budget, max_time=share, n_jobs=jobs, watch=watch, halt=halted, begin=clock())
        result = solver.solve(group, own, GroupHistory(totals, k), seed=seed + k, average=average, **start)
        if isinstance(result.duals, np.ndarray):  # at once: a group's table is the largest there is
            result = replace(result, duals=sp.csc_array(result.duals))
        found[k] = result

    with Interrupt() as interrupt:
        in_threads(work, range(len(groups)), budget.n_jobs)
    primal, dual = float(totals.primal.sum()), float(totals.dual.sum())
    gap, part = primal - dual, relative(primal, dual)
    converged = bool(part <= budget.tol)
    if converged:
        message = f"Reached relative gap {part:.3g} <= tol={budget.tol:g} in {totals.passes} passes."
    elif reason:
        message = reason
    elif budget.max_time is not None and totals.passes < budget.max_iter:
        message = f"Stopped after max_time={budget.max_time:g} seconds."
    else:
        message = f"Stopped after max_iter={budget.max_iter} passes."
    begun = sum(len(columns) for columns, result in zip(groups, found, strict=True) if result is not None)
    if begun < problem.labels.shape[1]:
        message += f" Of {problem.labels.shape[1]} labels {begun} were begun; the weights of the others are zero."
    certificate = Certificate(primal, dual, gap, part, converged, True, message)
    kept = [None if result is None else result.w for result in found]
    return Result(kept, certificate, history, message, totals.passes, assembled(problem, found), statistics=summed(found))


def summed(found: list[Result | None]) -> dict[str, float]:
    """The statistics of all groups together."""
    tables = [result.statistics for result in found if result is not None]
    return {name: sum(table[name] for table in tables) for name in (tables[0] if tables else {})}


def assembled(problem: MultilabelProblem, found: list[Result | None]) -> "sp.csc_array | Left":
    """The duals of all groups as one CSC matrix; those that are zero take no room. Where a solver has something else in their
    place, that of each group."""
    if any(hasattr(result.duals, "rescaled") for result in found if result is not None):
        return Left([None if result is None else result.duals for result in found])
    n, groups = problem.n_examples, problem.groups
    parts = [sp.csc_array((n, len(which))) if got is None else got.duals for which, got in zip(groups, found, strict=True)]
    return sp.csc_array(sp.hstack(parts, format="csc")[:, np.argsort(np.concatenate(groups))])
