"""A multi-label problem, group by group: values add up, so each group is certified alone and the sum is the certificate.

One group after the other needs the memory of one; with `n_jobs` threads as many groups are under way. Whatever stops a run,
every label ends with a model and the certificate covers all of them: labels not begun have weights of zero, whose values are
known without work.
"""

import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..multilabel_problem import MultilabelProblem
from ..result import Certificate, History, Record, Result, relative
from ..threads import in_threads
from .loop import Budget, Interrupt


class Ledger:
    """The values of all groups as they stand, and the record of their sums."""

    def __init__(self, primal: np.ndarray, history: History):
        self.primal, self.dual = primal, np.zeros(len(primal))
        self.history, self.passes = history, 0
        self.begin, self.lock = time.perf_counter(), threading.Lock()

    def seconds(self) -> float:
        return time.perf_counter() - self.begin

    def note(self, group: int, record: Record) -> None:
        with self.lock:
            self.primal[group], self.dual[group] = record.primal, record.dual
            self.passes = max(self.passes, record.iteration)
            primal, dual = float(self.primal.sum()), float(self.dual.sum())
            self.history.append(Record(self.passes, self.seconds(), primal, dual, primal - dual))


class Page(History):
    """The history of one group, copied to the ledger."""

    def __init__(self, ledger: Ledger, group: int):
        super().__init__()
        self.ledger, self.group = ledger, group

    def append(self, record: Record) -> None:
        super().append(record)
        self.ledger.note(self.group, record)


def solve_groups(
    solver, problem: MultilabelProblem, budget: Budget, history: History, *, seed, duals, weights, average
) -> Result:
    """Solve each group to the relative gap of the budget; `duals` and `weights` are a hot start."""
    groups, at_zero = problem.groups, problem.primal_at_zero()
    ledger = Ledger(np.array([at_zero[columns].sum() for columns in groups]), history)
    known = weights is not None and len(weights) == len(groups)
    found: list[Result | None] = [None] * len(groups)
    problem.curvature  # noqa: B018 - computed before threads ask for it
    reason = ""

    def work(k: int) -> None:
        nonlocal reason
        left = None if budget.max_time is None else budget.max_time - ledger.seconds()
        if reason or (left is not None and left <= 0.0):
            return

        def watch(iteration: int) -> bool:
            nonlocal reason
            with ledger.lock:
                if budget.watch(iteration):
                    reason = reason or "Stopped by a callback."
            if interrupt.pressed:
                reason = "Stopped by Ctrl-C."
            return bool(reason)

        group = problem.group(groups[k])
        start: dict[str, Any] = {"duals": None, "weights": weights[k] if known else None}
        if duals is not None:
            start["duals"] = group.clipped(duals[:, groups[k]].toarray())
        share = None if left is None else left * min(budget.n_jobs, len(groups) - k) / (len(groups) - k)
        own = replace(budget, max_time=share, n_jobs=1 if len(groups) > 1 else budget.n_jobs, watch=watch)
        found[k] = solver.solve(group, own, Page(ledger, k), seed=seed + k, average=average, **start)

    with Interrupt() as interrupt:
        in_threads(work, range(len(groups)), budget.n_jobs)
    primal, dual = float(ledger.primal.sum()), float(ledger.dual.sum())
    gap, part = primal - dual, relative(primal, dual)
    converged = bool(part <= budget.tol)
    if converged:
        message = f"Reached relative gap {part:.3g} <= tol={budget.tol:g} in {ledger.passes} passes."
    elif reason:
        message = reason
    elif budget.max_time is not None and ledger.passes < budget.max_iter:
        message = f"Stopped after max_time={budget.max_time:g} seconds."
    else:
        message = f"Stopped after max_iter={budget.max_iter} passes."
    begun = sum(len(columns) for columns, result in zip(groups, found, strict=True) if result is not None)
    if begun < problem.labels.shape[1]:
        message += f" Of {problem.labels.shape[1]} labels {begun} were begun; the weights of the others are zero."
    certificate = Certificate(primal, dual, gap, part, converged, True, message)
    kept = [None if result is None else result.w for result in found]
    return Result(kept, certificate, history, message, ledger.passes, assembled(problem, found))


def assembled(problem: MultilabelProblem, found: list[Result | None]) -> sp.csc_array:
    """The duals of all groups as one CSC matrix; those that are zero take no room."""
    n, count = problem.labels.shape
    columns: list[np.ndarray] = [np.empty(0, np.int32)] * count
    values: list[np.ndarray] = [np.empty(0)] * count
    for which, result in zip(problem.groups, found, strict=True):
        if result is not None:
            for k, column in enumerate(which):
                columns[column] = np.flatnonzero(result.duals[:, k]).astype(np.int32)
                values[column] = result.duals[columns[column], k]
    indptr = np.cumsum([0, *(len(rows) for rows in columns)])  # scipy widens the indices where this needs it
    return sp.csc_array((np.concatenate(values), np.concatenate(columns), indptr), shape=(n, count))
