"""Seconds to a given suboptimality, maxmargin beside its peers, and what becomes of the targets."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from .measure import COMPILATION, Request, Run, Worker, WorkerError
from .objectives import MULTICLASS, primal
from .report import Report, cores, figure, megabytes, table, without
from .solvers import CERTIFIED, SOLVERS, MaxMargin, Solver, maxmargin, peers
from .workloads import MissingDataError, Workload

TARGETS = (1e-2, 1e-3, 1e-4)
REFERENCE_GAP = 1e-7
REFERENCE_TIME = 60.0  # seconds the reference fit may take at least, however short the limit of the others
TRUST = 1e-5  # a certificate may differ from the independent values by so much: float32 rounds the data
# What must hold and what is aimed at, as a ratio to the peer. Multiclass: a certified fit against the peer's time to the
# suboptimality of the same size. The others: the worst ratio over all values of TARGETS.
MUST = {"crammer_singer": (0.5, 0.2), "hinge": (1.0, 0.5), "squared_hinge": (1.0, 0.5), "epsilon_insensitive": (1.0, 0.5)}
RANKS = ("aim met", "holds", "open", "FAILS")


@dataclass(frozen=True)
class Options:
    """How much to measure: runs a setting, and the seconds after which a single fit is killed. `plain`: ours on one thread in
    float64 only."""

    repeat: int
    limit: float
    plain: bool = False


@dataclass(frozen=True)
class Reached:
    """The fastest setting that got there: median seconds and passes"""

    seconds: float
    epochs: int
    setting: float


@dataclass
class Series:
    """All runs of one solver on one case. `killed`: a fit exceeded the limit; what was not reached takes longer than that."""

    solver: Solver
    runs: dict[float, list[Run]] = field(default_factory=dict)
    values: dict[float, list[float]] = field(default_factory=dict)
    killed: bool = False
    failed: bool = False
    repeated: float = 0.0
    extra_bytes: int | None = None

    @property
    def label(self) -> str:
        return f"{self.solver.name} {self.solver.dtype}" if isinstance(self.solver, MaxMargin) else self.solver.name

    @property
    def threads(self) -> str:
        return "1" if self.solver.threads == 1 else "all"

    def median(self, setting: float) -> float:
        return median(run.seconds for run in self.runs[setting])

    def reaching(self, value: float) -> list[float]:
        """The settings whose objective is at most `value`, by the median where runs differ"""
        return [setting for setting in self.runs if median(self.values[setting]) <= value]

    def to(self, value: float) -> Reached | None:
        """The fastest way to an objective of at most `value`"""
        there = self.reaching(value)
        if not there:
            return None
        best = min(there, key=self.median)
        return Reached(self.median(best), self.runs[best][0].answer.epochs, best)

    def certified(self) -> Reached | None:
        """The whole fit that certifies the gap of the multiclass target"""
        runs = self.runs.get(CERTIFIED)
        if not isinstance(self.solver, MaxMargin) or not runs or not all(run.answer.finished for run in runs):
            return None
        return Reached(self.median(CERTIFIED), runs[0].answer.epochs, CERTIFIED)


@dataclass(frozen=True)
class Ratio:
    """own / peer. `bound`: '<' if the peer was killed at the limit, '>' if this solver was, '' if both times are known.

    `mark` is '*' where another solver stands in for the peer.
    """

    value: float
    bound: str = ""
    mark: str = ""

    def __str__(self) -> str:
        return self.bound + figure(self.value, 2) + self.mark


@dataclass(frozen=True)
class Comparison:
    """One solver's time beside the peer's, to the same value"""

    own: Reached | None
    other: Reached | None
    ratio: Ratio | None


def compare(own: Reached | None, series: Series, rivals: Sequence[Series], value: float, limit: float) -> Comparison:
    """`own` beside the first rival that reaches `value` or was killed on the way. Without one of them there is no ratio."""
    for rival in rivals:
        other = rival.to(value)
        if other or rival.killed:
            break
    else:
        return Comparison(own, None, None)
    mark = "" if rival is rivals[0] else "*"
    if own and other:
        return Comparison(own, other, Ratio(own.seconds / other.seconds, "", mark))
    if own:
        return Comparison(own, None, Ratio(own.seconds / limit, "<", mark))
    if other and series.killed:
        return Comparison(None, other, Ratio(limit / other.seconds, ">", mark))
    return Comparison(None, other, None)


def judge(compared: Comparison, must: float, aim: float) -> tuple[int, float, str]:
    """Rank (of RANKS), ratio and text of a verdict. 'open': the limit was too short to tell."""
    found = compared.ratio
    if found is None:
        if compared.own is None:
            return (2, np.inf, "open (neither)") if compared.other is None else (3, np.inf, "FAILS (never)")
        return 1, 0.0, "holds (peer never)"
    if found.bound == ">":
        rank = 3 if found.value > must else 2
    elif found.value <= aim:
        rank = 0
    elif found.value <= must:
        rank = 1
    else:
        rank = 2 if found.bound else 3
    return rank, found.value, f"{RANKS[rank]} ({found})"


class Case:
    """One workload, loss and lam: all solvers side by side"""

    def __init__(self, workload: Workload, X: Any, y: np.ndarray, loss: str, lam: float, options: Options) -> None:
        self.workload, self.X, self.y, self.loss, self.lam, self.options = workload, X, y, loss, lam, options
        self.C = 1.0 / (lam * y.size)
        self.best, self.lower = np.inf, -np.inf
        self.bounds: list[tuple[float, str]] = []
        self.notes: list[str] = []

    def run(self, worker: Worker, series: Series, setting: float) -> Run | None:
        """One measured fit, entered in `series`; None if it was killed or raised an error"""
        try:
            run = worker.fit(Request(self.loss, self.C, setting), self.options.limit)
        except WorkerError as failure:
            series.failed = True
            self.notes.append(f"FAILED: {failure}")
            return None
        if run is None:
            series.killed = True
            return None
        series.values.setdefault(setting, []).append(self.value(series, run))
        series.runs.setdefault(setting, []).append(run)
        return run

    def value(self, series: Series, run: Run) -> float:
        """P by independent code, held against the solver's own certificate if it has one"""
        value = primal(self.loss, self.X, self.y, run.answer.coef, self.C)
        self.best = min(self.best, value)
        claimed, bound = run.answer.primal, run.answer.dual
        if claimed is not None and abs(claimed - value) > TRUST * value:
            self.notes.append(f"WRONG: {series.label} states P = {claimed:.8g}, it is {value:.8g}.")
        if bound is not None:
            self.bounds.append((bound, series.label))
        return value

    def refer(self, workers: dict[Solver, Worker]) -> None:
        """A fit to a tiny gap: a lower bound that tells when the grids can end, and most likely P*."""
        solver = maxmargin()
        if solver not in workers:
            self.notes.append("No reference: maxmargin was left out; P* is the lowest value among the peers.")
            return
        limit = max(self.options.limit, REFERENCE_TIME)
        request = Request(self.loss, self.C, REFERENCE_GAP, max_time=limit)
        try:
            run = workers[solver].fit(request, limit + COMPILATION)
        except WorkerError as failure:
            run = None
            self.notes.append(f"FAILED: {failure}")
        if run is None:
            self.notes.append("The reference fit failed; P* is the lowest value of the runs above.")
            return
        self.value(Series(solver), run)
        if run.answer.dual is not None:
            self.lower = max(self.lower, run.answer.dual)

    def explore(self, workers: dict[Solver, Worker]) -> list[Series]:
        """First run of each setting, coarse to fine, solvers in turns; a grid ends once the finest target is surely reached."""
        every = [Series(solver) for solver in workers]
        active = list(every)
        for step in range(max(len(series.solver.grid) for series in every)):
            for series in list(active):
                setting = series.solver.grid[step]
                run = self.run(workers[series.solver], series, setting)
                done = run is not None and series.values[setting][0] <= self.lower * (1.0 + TARGETS[-1])
                if isinstance(series.solver, MaxMargin):
                    done = done and setting <= CERTIFIED
                if run is None or done or not run.answer.finished or step + 1 == len(series.solver.grid):
                    active.remove(series)
        return every

    def contenders(self, series: Series) -> list[float]:
        """Settings worth repeating: for each target the coarsest that reaches it and those within a factor 1.5 of the fastest;
        and the certified fit"""
        chosen = {CERTIFIED} if isinstance(series.solver, MaxMargin) and CERTIFIED in series.runs else set()
        for target in TARGETS:
            there = {setting: series.median(setting) for setting in series.reaching(self.best * (1.0 + target))}
            if there:
                chosen.add(max(there))
                chosen.update(setting for setting in there if there[setting] <= 1.5 * min(there.values()))
        return sorted(chosen, reverse=True)

    def repeat(self, workers: dict[Solver, Worker], every: Sequence[Series]) -> None:
        """Further runs, solvers in turns. A solver whose repetitions have taken the limit in total is not repeated again."""
        plans = [(series, self.contenders(series)) for series in every]
        for _ in range(self.options.repeat - 1):
            for step in range(max(len(plan) for _, plan in plans)):
                for series, plan in plans:
                    if step < len(plan) and series.repeated < self.options.limit:
                        run = self.run(workers[series.solver], series, plan[step])
                        series.repeated += self.options.limit if run is None else run.seconds

    def weigh(self, series: Series) -> None:
        """Peak memory in a fresh process. The peers allocate the same whatever the setting, so their coarsest one serves."""
        setting = CERTIFIED if isinstance(series.solver, MaxMargin) else series.solver.grid[0]
        worker = Worker(self.workload, series.solver)
        try:
            run = worker.fit(Request(self.loss, self.C, setting, trim=True), self.options.limit)
        except WorkerError:  # noted when it was timed
            run = None
        worker.close()
        series.extra_bytes = None if run is None else run.extra_bytes

    def measure(self, workers: dict[Solver, Worker]) -> tuple[str, list[list[str]]]:
        """The text of the section, and a row for the summary for each verdict"""
        self.refer(workers)
        every = self.explore(workers)
        self.repeat(workers, every)
        for series in every:
            self.weigh(series)
        return self.described(every)

    def described(self, every: Sequence[Series]) -> tuple[str, list[list[str]]]:
        head = ["solver", "threads"]
        for target in TARGETS:
            head += [f"{target:.0e} s".replace("e-0", "e-"), "ratio", "ep"]
        head += ["certified s", "ratio", "ep", "extra MB", "verdict"]
        rivals = [series for solver in peers(self.loss) for series in every if series.solver == solver and not series.failed]
        rows, verdicts = [], []
        for series in every:
            cells, judged = [series.label, series.threads], []
            for target in TARGETS:
                value = self.best * (1.0 + target)
                judged.append(compare(series.to(value), series, rivals, value, self.options.limit))
                cells += self.cells(series, judged[-1])
            if isinstance(series.solver, MaxMargin):
                value = self.best * (1.0 + CERTIFIED)
                whole = compare(series.certified(), series, rivals, value, self.options.limit)
                cells += self.cells(series, whole)
                judged = [whole] if self.loss in MULTICLASS else judged
            else:
                cells += ["", "", ""]
            verdict = ""
            if rivals and self.loss in MUST and isinstance(series.solver, MaxMargin) and series.solver.threads == 1:
                must, aim = MUST[self.loss]
                verdict = max(judge(compared, must, aim) for compared in judged)[2]
                verdicts.append([self.workload.name, self.loss, f"{self.lam:g}", series.label, f"<= {must:g} ({aim:g})", verdict])
            rows.append([*cells, megabytes(series.extra_bytes), verdict])
        return "\n\n".join([self.preface(every), table(head, rows), *self.notes]), verdicts

    def cells(self, series: Series, compared: Comparison) -> list[str]:
        """Seconds, ratio and passes"""
        own = compared.own
        found = "-" if compared.ratio is None else str(compared.ratio)
        if own is None:
            seconds = f"> {self.options.limit:g}" if series.killed else "failed" if series.failed else "never"
            return [seconds, found, "-"]
        return [figure(own.seconds), found, str(own.epochs) if own.epochs else "-"]

    def preface(self, every: Sequence[Series]) -> str:
        """The size of the problem, how well P* is known, and whether the machine was busy with something else"""
        n, d = self.X.shape
        classes = f", {np.unique(self.y).size} classes" if self.loss in MULTICLASS else ""
        text = f"{n} x {d}{classes}, C = 1/({self.lam:g} n), no intercept; ratios to {peers(self.loss)[0].name}; "
        text += f"P* = {self.best:.8g}"
        if np.isfinite(self.lower):
            unsure = (self.best - self.lower) / self.best
            text += f", certified within {max(unsure, 0.0):.1e}"
            if unsure > 0.1 * TARGETS[-1]:
                self.notes.append("The reference fit did not get far enough to vouch for the last target.")
        for bound, label in self.bounds:
            if bound > self.best * (1.0 + TRUST):
                self.notes.append(f"WRONG: {label} certifies the lower bound {bound:.8g}, above P*.")
        runs = [run for series in every if series.solver.threads == 1 for group in series.runs.values() for run in group]
        if not runs:
            return f"{text}."
        share = sum(run.cpu_seconds for run in runs) / sum(run.seconds for run in runs)
        return f"{text}. One-thread fits had the processor {min(share, 1.0):.0%} of the time."


def run(
    report: Report,
    workloads: Sequence[Workload],
    losses: Sequence[str],
    lams: Sequence[float],
    names: Sequence[str],
    options: Options,
    summarise: bool,
) -> None:
    """Measure every case; a set that is absent and a solver that is not installed are named and left out."""
    asked = [solver for solver in SOLVERS if solver.name in names and (solver.threads == 1 or cores() > 1)]
    asked = [solver for solver in asked if not options.plain or (solver.threads, solver.dtype) == (1, "float64")]
    for solver in asked:
        if not solver.installed:
            print(f"\nskipped {solver.name} {solver.dtype}: {without(solver.module)}", flush=True)
    verdicts: list[list[str]] = []
    for workload in workloads:
        chosen = [loss for loss in workload.losses if loss in losses]
        if not chosen:
            continue
        try:
            X, y = workload.load()
        except MissingDataError as missing:
            print(f"\nskipped {missing}", flush=True)
            continue
        workers = {solver: Worker(workload, solver) for solver in asked if solver.installed}
        for loss in chosen:
            able = {solver: worker for solver, worker in workers.items() if loss in solver.losses}
            if not able:
                print(f"\nskipped {workload.name}, {loss}: none of the solvers can do it", flush=True)
                continue
            for lam in lams:
                body, rows = Case(workload, X, y, loss, lam, options).measure(able)
                report.section(f"fit: {workload.name}, {loss}, lam = {lam:g}", body)
                verdicts += rows
        for worker in workers.values():
            worker.close()
    if verdicts and summarise:
        head = ["workload", "loss", "lam", "solver", "target (aim)", "verdict"]
        report.section("fit: summary of verdicts", table(head, verdicts))
