"""A multi-label problem, group by group: values add up, so each group is certified alone and the sum is the certificate.

One group after the other needs the memory of one; with `n_jobs` threads as many groups are under way. Whatever stops a run,
every label ends with a model and the certificate covers all of them: labels not begun have weights of zero, whose values are
known without work.
"""

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..jit import clock
from ..problems.multilabel import LabelGroup, MultilabelProblem
from ..result import History, Record, Result
from ..utils.threads import in_threads
from .base import NOWHERE, Solver, Start, admit
from .keeping import is_result, result_of, state_of_result
from .loop import BY_CALLBACK, BY_HAND, Budget, Interrupt, carry_out


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

    def taken_up(self, iteration: int, method: str) -> None:
        """Note who is at work, once: groups do not go in step."""
        with self.lock:
            if method not in (name for _, name in self.history.methods):
                self.history.taken_up(iteration, method)


class GroupHistory(History):
    """The history of one group, copied to the totals."""

    def __init__(self, totals: GroupTotals, group: int):
        super().__init__()
        self.totals, self.group = totals, group

    def taken_up(self, iteration: int, method: str) -> None:
        super().taken_up(iteration, method)
        self.totals.taken_up(iteration, method)

    def append(self, record: Record) -> None:
        super().append(record)
        self.totals.note(self.group, record)


class Groups:
    """A multi-label problem under way: which groups there are, what came of them, and why the run ends."""

    def __init__(self, solver: Solver, problem: MultilabelProblem, budget: Budget, history: History, interrupt: Interrupt):
        self.solver, self.problem, self.budget, self.interrupt = solver, problem, budget, interrupt
        self.columns, at_zero = problem.groups, problem.primal_at_zero()
        self.totals = GroupTotals(np.array([at_zero[columns].sum() for columns in self.columns]), history, budget)
        self.found: list[Result | None] = [None] * len(self.columns)
        self.reason = ""
        self.endings: list[str] = []  # why groups ended short of their targets, where that was neither time nor passes
        self.spent = False  # whether one did for want of these

    def halted(self) -> bool:
        if self.interrupt.pressed or self.budget.halt():
            self.reason = BY_HAND
        return bool(self.reason)

    def watch(self, iteration: int) -> bool:
        with self.totals.lock:
            if self.budget.watch(iteration):
                self.reason = self.reason or BY_CALLBACK
        return self.halted()

    def work(self, k: int, start: Start, seed: int, average: bool) -> None:
        """Solve group k, in its part of the time that is left."""
        budget, count = self.budget, len(self.columns)
        left = None if budget.max_time is None else budget.max_time - budget.seconds()
        if self.halted() or (left is not None and left <= 0.0):
            return
        share = None if left is None else left * min(budget.n_jobs, count - k) / (count - k)
        jobs = 1 if count > 1 else budget.n_jobs
        keeper, history = budget.keeper.part(f"group {k}", not self.solver.keeps_duals), GroupHistory(self.totals, k)
        own = replace(budget, max_time=share, n_jobs=jobs, watch=self.watch, halt=self.halted, begin=clock(), state_bytes=0)
        own, earlier = replace(own, keeper=keeper), keeper.found()
        if earlier is not None and is_result(earlier):
            with keeper.taking_up():
                result = result_of(earlier, history)
        else:
            group = self.problem.group(self.columns[k])
            own_start = self.start(group, k, start)
            result = carry_out(self.solver, group, own, history, start=own_start, seed=seed + k, average=average)
        self.note_ending(result, own)
        if isinstance(result.duals, np.ndarray):  # at once: a group's table is the largest there is
            result = replace(result, duals=sp.csc_array(result.duals))
        if self.solver.keeps_duals:
            keeper.offer(lambda: state_of_result(result, history), ended=True)
        self.found[k] = result

    def note_ending(self, result: Result, own: Budget) -> None:
        if not result.certificate.converged:
            if result.message in (own.after_passes(), "" if own.max_time is None else own.after_time()):
                self.spent = True
            else:
                self.endings.append(result.message)

    def start(self, group: LabelGroup, k: int, start: Start) -> Start:
        """The part of group k in what a run of all labels begins from."""
        weights = None if start.weights is None else start.weights[k]
        if isinstance(start.duals, list):  # planes
            return Start(start.duals[k], weights)
        duals = None if start.duals is None else group.clipped(start.duals[:, self.columns[k]].toarray())
        return Start(duals, weights, start.rise)

    def result(self) -> Result:
        """All groups together."""
        totals, budget, labels = self.totals, self.budget, self.problem.labels.shape[1]
        primal, dual = float(totals.primal.sum()), float(totals.dual.sum())
        message = self.reason
        if self.endings and not self.spent:
            some = "Some labels ended short of their target: " if len(self.columns) > 1 else ""
            message = message or some + self.endings[0]
        if not message:
            timed = budget.max_time is not None and totals.passes < budget.max_iter
            message = budget.after_time() if timed else budget.after_passes()
        certificate = budget.certificate(primal, dual, totals.passes, message)
        begun = sum(len(columns) for columns, result in zip(self.columns, self.found, strict=True) if result is not None)
        if begun < labels:
            said = f"{certificate.message} Of {labels} labels {begun} were begun; the weights of the others are zero."
            certificate = replace(certificate, message=said)
        kept = [None if result is None else result.w for result in self.found]
        duals = self.duals() if self.solver.keeps_duals else [None if got is None else got.duals for got in self.found]
        message, statistics = certificate.message, summed(self.found)
        return Result(kept, certificate, totals.history, message, totals.passes, duals, statistics=statistics)

    def duals(self) -> sp.csc_array:
        """The duals of all groups as one CSC matrix; those that are zero take no room."""
        n = self.problem.n_examples
        both = zip(self.columns, self.found, strict=True)
        parts = [sp.csc_array((n, len(columns))) if got is None else got.duals for columns, got in both]
        return sp.csc_array(sp.hstack(parts, format="csc")[:, np.argsort(np.concatenate(self.columns))])


def solve_groups(
    solver: Solver,
    problem: Any,
    budget: Budget,
    history: History,
    *,
    start: Start = NOWHERE,
    seed: int = 0,
    average: bool = True,
) -> Result:
    """Solve each group to the relative gap of the budget, from its part of the start."""
    admit(solver, problem)
    problem.table.norms()  # computed before threads ask for it
    with Interrupt() as interrupt:
        groups = Groups(solver, problem, budget, history, interrupt)
        in_threads(lambda k: groups.work(k, start, seed, average), range(len(groups.columns)), budget.n_jobs)
    return groups.result()


def summed(found: list[Result | None]) -> dict[str, float]:
    """The statistics of all groups together."""
    tables = [result.statistics for result in found if result is not None]
    return {name: sum(table[name] for table in tables) for name in (tables[0] if tables else {})}
