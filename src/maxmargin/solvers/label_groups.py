"""A multi-label problem, group by group: values add up, so each group is certified alone and the sum is the certificate.

One group after the other needs the memory of one; with `n_jobs` threads as many groups are under way. Where there are fewer, or
the last of them would go on alone for long, groups are divided into smaller ones, down to single labels where rows are dense and
threads are many: these are problems of one score. Threads that are left over share the rows of a group. Whatever stops a run,
every label ends with a model and the certificate covers all of them: labels not begun have weights of zero, whose values are
known without work.
"""

import heapq
import math
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data.rows import Dense
from ..jit import clock, vectors
from ..problems.base import Evaluated
from ..problems.linear import ScalarProblem
from ..problems.multilabel import LabelGroup, MultilabelProblem, label_problem
from ..result import History, Record, Result
from ..utils.threads import in_threads, with_scratch
from .automatic import Automatic, PassesFirst
from .base import NOWHERE, Solver, Start, admit
from .keeping import is_result, result_of, state_of_result
from .loop import BY_CALLBACK, BY_HAND, Budget, Interrupt, carry_out, unwatched
from .tuning import GROUPS, GroupTuning


class GroupTotals:
    """The values of all groups as they stand, and the record of their sums."""

    def __init__(self, primal: np.ndarray, constant: float, history: History, budget: Budget):
        self.primal, self.dual, self.constant = primal, np.zeros(len(primal)), constant
        self.history, self.passes, self.budget = history, 0, budget
        self.lock = threading.Lock()

    def note(self, group: int, record: Record) -> None:
        with self.lock:
            self.primal[group], self.dual[group] = record.primal, record.dual
            self.passes = max(self.passes, record.iteration)
            primal, dual = self.values()
            self.history.append(Record(self.passes, self.budget.seconds(), primal, dual, primal - dual))

    def values(self) -> tuple[float, float]:
        """The primal and the dual value of all groups."""
        return float(self.primal.sum()) + self.constant, float(self.dual.sum()) + self.constant

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


def vector_sizes(problem: MultilabelProblem) -> list[int]:
    """Sizes of what groups may be divided into, whole vectors of labels: at first that which leaves them as they are."""
    step = vectors.width(np.float32)  # rows in float64 are padded as those in float32
    longest = max((len(columns) for columns in problem.groups), default=1)
    return [step * k for k in range(-(-longest // step), 0, -1)] if problem.R is None else [longest]


def longest_load(problem: MultilabelProblem, size: int, threads: int, tuning: GroupTuning = GROUPS) -> float:
    """What the busiest of so many threads has to do where each takes the next group when it is free."""
    step, loads = vectors.width(np.float32), [0.0] * threads
    for columns in flattened(problem.divided(size)):
        heapq.heapreplace(loads, loads[0] + tuning.own + step * -(-len(columns) // step))
    return max(loads)


def single_load(problem: MultilabelProblem, threads: int, tuning: GroupTuning = GROUPS) -> float:
    """The same where each label is a problem of its own; infinite where labels are not, where rows are sparse, as there a
    vector of labels costs little more than one of them, or where rows are few."""
    dense, shape = isinstance(problem.table.rows, Dense), problem.table.shape
    if problem.R is not None or problem.loss.single is None or not dense or shape[0] * shape[1] < tuning.entries:
        return math.inf
    return tuning.alone * -(-problem.labels.shape[1] // threads)


def flattened(divided: list[list[np.ndarray]]) -> list[np.ndarray]:
    return [columns for group in divided for columns in group]


def part_name(k: int, size: int | None) -> str:
    """By which the state of group k is kept, where groups were divided: into parts of this size."""
    return f"group {k}" if size is None else f"group {k} of {size} labels each"


class Groups:
    """A multi-label problem under way: which groups there are, what came of them, and why the run ends."""

    tuning = GROUPS

    def __init__(self, solver: Solver, problem: MultilabelProblem, budget: Budget, history: History, interrupt: Interrupt):
        self.solver, self.problem, self.budget, self.interrupt = solver, problem, budget, interrupt
        sizes = vector_sizes(problem) if solver.keeps_duals else []  # planes are those of the problem's own groups
        self.size = self.chosen_size(sizes)
        self.divided = problem.divided(self.size) if self.size else [[columns] for columns in problem.groups]
        self.places = [(of, k) for of, group in enumerate(self.divided) for k in range(len(group))]
        self.columns = flattened(self.divided)
        self.totals = GroupTotals(np.array(self.begun_at()), problem.constant, history, budget)
        self.found: list[Result | None] = [None] * len(self.columns)
        self.reason = ""
        self.endings: list[str] = []  # why groups ended short of their targets, where that was neither time nor passes
        self.spent = False  # whether one did for want of these

    def chosen_size(self, sizes: list[int]) -> int | None:
        """Labels of what groups are divided into, None where they stay as they are: as in an earlier process whose state is taken
        up, else as threads are done soonest."""
        keeper, threads = self.budget.keeper, self.budget.n_jobs
        for size in (None, *sizes[1:], *([1] if sizes else [])):
            count = len(self.problem.groups) if size is None else len(flattened(self.problem.divided(size)))
            names = (part_name(k, size) for k in range(count))
            if any(keeper.part(name, False).found() is not None for name in names):
                return size
        if threads == 1 or not sizes:
            return None
        loads = {size: longest_load(self.problem, size, threads, self.tuning) for size in sizes}
        best = min(sizes, key=loads.__getitem__)
        if self.serves_single() and single_load(self.problem, threads, self.tuning) < loads[best]:
            return 1
        return None if best == sizes[0] else best

    def serves_single(self) -> bool:
        """Whether the solver takes a label as a problem of one score."""
        first = self.problem.groups[0][:1]
        return self.problem.loss.single is not None and self.solver.serves(label_problem(self.problem.group(first), 0)) is None

    def begun_at(self) -> list[float]:
        """The primal values of groups at the weights that they begin with: zeros, or those of frozen duals."""
        if self.problem.frozen is None:
            at_zero = self.problem.primal_at_zero()
            return [at_zero[columns].sum() for columns in self.columns]
        return [group.primal(group.regularizer.start(group.table_shape)) for group in map(self.problem.group, self.columns)]

    def jobs(self, k: int) -> int:
        """The threads of group k: where there are fewer groups, the rest is shared out."""
        each, more = divmod(self.budget.n_jobs, len(self.columns))
        return max(1, each + (k < more))

    def halted(self) -> bool:
        if self.interrupt.pressed or self.budget.halt():
            self.reason = BY_HAND
        return bool(self.reason)

    def watch(self, iteration: int) -> bool:
        with self.totals.lock:
            if self.budget.watch(iteration):
                self.reason = self.reason or BY_CALLBACK
        return self.halted()

    def work(self, k: int, start: Start, seed: int, average: bool, pages: vectors.KeptPages) -> None:
        """Solve group k, in its part of the time that is left, with arrays in the pages of an earlier one."""
        with pages.in_use():
            self.solve(k, start, seed, average)

    def solve(self, k: int, start: Start, seed: int, average: bool) -> None:
        budget, count = self.budget, len(self.columns)
        left = None if budget.max_time is None else budget.max_time - budget.seconds()
        if self.halted() or (left is not None and left <= 0.0):
            return
        share = None if left is None else left * min(budget.n_jobs, count - k) / (count - k)
        jobs, history = self.jobs(k), GroupHistory(self.totals, k)
        keeper = budget.keeper.part(part_name(k, self.size), not self.solver.keeps_duals)
        watch = self.watch if budget.watch is not unwatched else unwatched
        own = replace(budget, max_time=share, n_jobs=jobs, watch=watch, halt=self.halted, begin=clock(), state_bytes=0)
        own, earlier = replace(own, keeper=keeper, in_a_row=self.size == 1), keeper.found()
        if earlier is not None and is_result(earlier):
            with keeper.taking_up():
                result = result_of(earlier, history)
            result = replace(result, at_duals=self.problem.group(self.columns[k]).reevaluated(result.duals.toarray()))
        else:
            group = self.problem.group(self.columns[k])
            part = label_problem(group, 0) if self.size == 1 else group
            own_start = self.start(part, k, start)
            solver = PassesFirst() if self.size == 1 and isinstance(self.solver, Automatic) else self.solver
            result = carry_out(solver, part, own, history, start=own_start, seed=seed + k, average=average)
            if self.size == 1:
                result = one_label(result)
        self.note_ending(result, own)
        if isinstance(result.duals, np.ndarray):  # at once: a group's table is the largest there is
            result = replace(result, duals=without_zeros(result.duals))
        if self.solver.keeps_duals:
            keeper.offer(lambda: state_of_result(result, history), ended=True)
        self.found[k] = result

    def note_ending(self, result: Result, own: Budget) -> None:
        if not result.certificate.converged:
            if result.message in (own.after_passes(), "" if own.max_time is None else own.after_time()):
                self.spent = True
            else:
                self.endings.append(result.message)

    def start(self, group: LabelGroup | ScalarProblem, k: int, start: Start) -> Start:
        """The part of group k in what a run of all labels begins from."""
        weights = None if start.weights is None else self.part_of(start.weights, k)
        if isinstance(start.duals, list):  # planes
            return Start(start.duals[k], weights)
        duals = None
        if start.duals is not None:
            duals = group.clipped(start.duals[:, self.columns[k]].toarray().reshape(group.dual_shape))
        return Start(duals, weights, start.rise, fresh=start.fresh)

    def part_of(self, weights: list, k: int) -> np.ndarray | None:
        """The weights of group k in those of the problem's groups."""
        of, k = self.places[k]
        group, whole = self.divided[of], weights[of]
        if whole is None or (len(group) == 1 and self.size != 1):
            return whole
        first = sum(len(columns) for columns in group[:k])
        own = whole.reshape(whole.shape[0], -1)[:, first : first + len(group[k])]
        return own[:, 0].copy() if self.size == 1 else vectors.pack(own, np.float64)

    def weights(self) -> list[np.ndarray | None]:
        """Those found, of the problem's groups; None, for zeros, of one that was not begun."""
        found = iter([self.unbegun(k) if result is None else result.w for k, result in enumerate(self.found)])
        features = self.problem.table.shape[1] + 1
        return [joined_lanes([next(found) for _ in group], group, features) for group in self.divided]

    def unbegun(self, k: int) -> np.ndarray | None:
        """The weights of a group that was not begun."""
        if self.problem.frozen is None:
            return None
        group = self.problem.group(self.columns[k])
        return group.regularizer.start(group.table_shape)

    def result(self) -> Result:
        """All groups together."""
        totals, budget, labels = self.totals, self.budget, self.problem.labels.shape[1]
        primal, dual = totals.values()
        message = self.reason
        if self.endings and not self.spent:
            some = "Some labels ended short of their target: " if len(self.columns) > 1 else ""
            message = message or some + self.endings[0]
        if not message:
            timed = budget.max_time is not None and totals.passes < budget.max_iter
            message = budget.after_time() if timed else budget.after_passes()
        certificate = budget.certificate(self.problem, primal, dual, totals.passes, message)
        begun = sum(len(columns) for columns, result in zip(self.columns, self.found, strict=True) if result is not None)
        if begun < labels:
            theirs = "zero" if self.problem.frozen is None else "as before"
            said = f"{certificate.message} Of {labels} labels {begun} were begun; the weights of the others are {theirs}."
            certificate = replace(certificate, message=said)
        kept = self.weights()
        duals = self.duals() if self.solver.keeps_duals else [None if got is None else got.duals for got in self.found]
        told = certificate, totals.history, certificate.message, totals.passes, duals
        return Result(kept, *told, statistics=summed(self.found), at_duals=self.at_duals() if self.solver.keeps_duals else None)

    def at_duals(self) -> list[tuple[np.ndarray, Any]] | None:
        """The labels of each group that was begun, and what its duals stand for."""
        found = [(columns, got.at_duals) for columns, got in zip(self.columns, self.found, strict=True) if got is not None]
        return None if any(known is None for _, known in found) else found

    def duals(self) -> sp.csc_array:
        """The duals of all groups as one CSC matrix; those that are zero take no room."""
        shape = self.problem.n_examples, self.problem.labels.shape[1]
        rows, values = [np.empty(0, np.int32)] * shape[1], [np.empty(0)] * shape[1]
        for columns, got in zip(self.columns, self.found, strict=True):
            if got is not None:
                for k, column in enumerate(columns.tolist()):
                    first, last = got.duals.indptr[k], got.duals.indptr[k + 1]
                    rows[column], values[column] = got.duals.indices[first:last], got.duals.data[first:last]
        ends = np.cumsum([0, *map(len, rows)])
        return sp.csc_array((np.concatenate(values), np.concatenate(rows), ends), shape=shape)


def one_label(result: Result) -> Result:
    """The result of a problem of one score as that of a group of one label."""
    found = result.at_duals
    if found is not None:
        found = Evaluated(found.dual, vectors.from_classes(found.v[None], np.float64))
    return replace(result, w=vectors.from_classes(result.w[None], np.float64), duals=result.duals[:, None], at_duals=found)


def without_zeros(duals: np.ndarray) -> sp.csc_array:
    """A (samples, labels) table as CSC. SciPy's own way is by a list of places that it then sorts."""
    turned = np.ascontiguousarray(duals.T)
    where = np.flatnonzero(turned)
    ends = np.concatenate([[0], np.cumsum(np.count_nonzero(turned, axis=1))])
    return sp.csc_array((turned.reshape(-1)[where], (where % len(duals)).astype(np.int32), ends), shape=duals.shape)


def joined_lanes(parts: list[np.ndarray | None], labels: list[np.ndarray], features: int) -> np.ndarray | None:
    """Weights of labels side by side as one lane array, zeros for those not begun; None where none was."""
    if len(parts) == 1 or all(part is None for part in parts):
        return parts[0]
    result = vectors.zeros_table(features, sum(map(len, labels)), np.float64)
    first = 0
    for part, columns in zip(parts, labels, strict=True):
        if part is not None:  # with what fills its last vector, where the next one is put then
            room = result.flat[:, first:]
            own = part.reshape(features, -1)[:, : room.shape[1]]
            room[:, : own.shape[1]] = own
        first += len(columns)
    return result.vectors


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
        work = with_scratch(vectors.KeptPages, lambda k, pages: groups.work(k, start, seed, average, pages))
        in_threads(work, range(len(groups.columns)), budget.n_jobs)
    return groups.result()


def summed(found: list[Result | None]) -> dict[str, float]:
    """The statistics of all groups together."""
    tables = [result.statistics for result in found if result is not None]
    return {name: sum(table[name] for table in tables) for name in (tables[0] if tables else {})}
