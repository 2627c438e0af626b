"""Runs of structured solvers, watched pass by pass: the dual value and the gap against time and against oracle calls.

A trace notes the running dual value and the oracle calls after every pass, which costs nothing, and now and then the primal
value, for which the clock stops. The solver's own evaluations, those it needs for its certificate, are on the clock. The clock
is the processor time of the process, in which one thread runs: other work on the machine hardly shows.
"""

import time
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any

import numpy as np

import maxmargin as mm
from maxmargin.problems.structured import StructuredProblem
from maxmargin.solvers import loop, resolve
from maxmargin.solvers.base import NOWHERE, Setting
from maxmargin.solvers.polytope.resting import roused, share_at_rest

TOL = 1e-3  # the relative gap to certify
APART = 1.1  # growth of the number of visits between two primal values
REPEATED = 3.0  # seconds: shorter runs are repeated and the one of median time counts
PILOT = 0.1  # part of the limit given to each temperature of exponentiated gradient before one is chosen

BCFW, DEFAULT, PAPER, OEG = "BCFW", "auto", "BCPL-0.01", "OEG"
TEMPERATURES: tuple[float | str, ...] = ("auto", 100.0, 10.0, 1.0, 0.1, 0.01, 0.001, 1e-5, 1e-10)
EACH: dict[str, Any] = {"sampling": "permutation"}  # every sample once a pass, in random order
SOLVERS: dict[str, Any] = {
    BCFW: mm.FrankWolfe(steps="plain", **EACH),
    "BCFW-gap": mm.FrankWolfe(steps="plain", sampling="gap"),
    "BCPL-1": mm.PartialLinearization(1.0, **EACH),
    "BCPL-0.1": mm.PartialLinearization(0.1, **EACH),
    PAPER: mm.PartialLinearization(0.01, **EACH),
    "BCPL-0.001": mm.PartialLinearization(0.001, **EACH),
    "BCPL-cooled": mm.PartialLinearization(1.0, cooling=0.9, **EACH),
    OEG: mm.ExponentiatedGradient(),
    "pairwise": mm.FrankWolfe(steps="pairwise", cache=0.0, **EACH),
    "pairwise-cache": mm.FrankWolfe(steps="pairwise", cache=0.5, **EACH),
    "pairwise-cache-gap": mm.FrankWolfe(steps="pairwise", cache=0.5, sampling="gap"),
    "pairwise-cache-rest": mm.FrankWolfe(steps="pairwise", cache=0.5, sampling="rest"),
    "away": mm.FrankWolfe(steps="away", cache=0.0, **EACH),
    "away-cache": mm.FrankWolfe(steps="away", cache=0.5, **EACH),
    "no-momentum": mm.DualCoordinate(momentum=False),
    DEFAULT: resolve("auto"),
}
MEANING = """Seconds are processor time of one thread, passes are oracle calls over samples; the calls that an evaluation of the
objective takes are on the clock but not among the calls. *Dual 1e-2*: when the dual value came within 1e-2 of the best known one;
*gap 1e-2*: when a primal value first proved that relative gap (evaluated by us with the clock stopped, about every tenth more
visits); *certified 1e-3*: when the solver itself stopped at `tol=1e-3`. `> x`: not within the time given. All start at zero
weights but BCPL and OEG, which start with a marginal of 0.01 for each wrong label.

- `BCFW`: plain block-coordinate Frank-Wolfe, every sample once a pass; `BCFW-gap`: samples drawn by their share of the gap.
- `BCPL-t`: block-coordinate partial linearization at temperature t; `cooled`: from 1, times 0.9 a pass, down to 0.001.
- `OEG t`: online exponentiated gradient at the best of nine temperatures, chosen by short runs.
- `pairwise`, `away`: Frank-Wolfe with such steps; `cache`: outputs met before may stand in for the oracle; `gap`, `rest`: samples
  drawn by their share of the gap, calm samples rest.
- `auto`: the default, which is `DualCoordinate`; `no-momentum`: the same without extrapolation."""


@dataclass(frozen=True)
class Point:
    """After a pass: seconds on the clock, oracle calls, the dual value; the best primal value so far, inf before the first"""

    seconds: float
    calls: int
    dual: float
    primal: float


@dataclass
class Trace:
    """A run. `certified` is when the solver itself certified TOL (seconds, calls), None if it did not; `evaluations` how many
    primal values it took for that, each as many oracle calls as there are samples, which `calls` leaves out; `exact` is
    the best dual value that was computed from scratch; `drift` how far the running one was off it at most, relative to it."""

    name: str
    points: list[Point] = field(default_factory=list)
    certified: tuple[float, int] | None = None
    evaluations: int = 0
    exact: float = -np.inf
    drift: float = 0.0

    @property
    def best_primal(self) -> float:
        return min((point.primal for point in self.points if np.isfinite(point.primal)), default=np.inf)

    def to_dual(self, value: float) -> tuple[float, int] | None:
        """When the dual first reached `value`"""
        return next(((point.seconds, point.calls) for point in self.points if point.dual >= value), None)

    def to_optimum(self, primal: float, dual: float) -> tuple[float, int] | None:
        """When both the primal and the dual value were within these bounds"""
        return next(((p.seconds, p.calls) for p in self.points if p.primal <= primal and p.dual >= dual), None)

    def to_gap(self, gap: float) -> tuple[float, int] | None:
        """When a primal value first proved this relative gap"""
        return next(((p.seconds, p.calls) for p in self.points if p.primal - p.dual <= gap * abs(p.primal)), None)


@dataclass(frozen=True)
class Counting(StructuredProblem):
    """A problem that counts how often its primal value is taken"""

    count: list[int] = field(default_factory=lambda: [0])

    def primal(self, W: np.ndarray, n_jobs: int = 1) -> float:
        self.count[0] += 1
        return super().primal(W, n_jobs)


def encoded(structure: Any, X: Any, y: Any) -> Any:
    """The samples as solvers see them; `structure` learns its labels"""
    structure.size(X, y)
    return structure.encode(X, y)


def begin(solver: Any, problem: StructuredProblem, tol: float) -> Any:
    """A run of this solver on the problem, not yet advanced"""
    return solver.begin(problem, NOWHERE, Setting(tol))


def trace(name: str, solver: Any, problem: StructuredProblem, limit: float, tol: float = TOL) -> Trace:
    """Run until the gap `tol` is certified or `limit` seconds are on the clock."""
    found = Trace(name)
    paused, due, primal, passes = 0.0, 0.0, np.inf, {}
    counting = Counting(problem.data, problem.weight, problem.C)
    start = time.process_time()
    run = begin(solver, counting, tol)

    def watch(iteration: int) -> bool:
        nonlocal paused, due, primal
        stopped = time.process_time()
        seconds = stopped - start - paused
        passes[run.passes] = run.dual
        if run.visits >= due:
            due = max(APART * run.visits, run.visits + 1)
            primal = min(primal, problem.primal(run.W))
            if run.mean_count > 1:
                average = roused(share_at_rest(run.mean, run.mean_count), np.empty_like(run.W))
                primal = min(primal, problem.primal(average))
        found.points.append(Point(seconds, run.calls, run.dual, primal))
        paused += time.process_time() - stopped
        return seconds >= limit

    history = mm.History()
    wall = 10.0 * limit + 60.0  # the clock that the solver sees runs on during our evaluations and other people's work
    result = loop.drive(run, loop.Budget(tol, 10**9, wall, 1, watch), history)
    seconds = time.process_time() - start - paused
    certificate = result.certificate
    found.points.append(Point(seconds, run.calls, certificate.dual, min(primal, certificate.primal)))
    if certificate.converged:
        found.certified = seconds, run.calls
    exact = [record for record in history if record.iteration in passes and record.dual]
    drifts = [abs(passes[record.iteration] / record.dual - 1.0) for record in exact]
    found.exact = max((record.dual for record in history if np.isfinite(record.dual)), default=-np.inf)
    found.drift, found.evaluations = max(drifts, default=0.0), counting.count[0]
    return found


def warm_up(solver: Any, problem: StructuredProblem, limit: float) -> None:
    """Compile all that a run needs; the data decide nothing, so a second of it will do."""
    trace("", solver, problem, min(limit, 1.0), 0.5)


def measured(name: str, problem: StructuredProblem, limit: float, repeat: int) -> Trace:
    """The trace of a solver of SOLVERS; of exponentiated gradient, that of its best temperature"""
    solver = SOLVERS[name]
    warm_up(solver, problem, limit)
    if name == OEG:
        solvers = {str(t): mm.ExponentiatedGradient(t) for t in TEMPERATURES}
        pilots = {key: trace(key, one, problem, PILOT * limit) for key, one in solvers.items()}
        best = max(pilots, key=lambda key: pilots[key].exact)
        name, solver = f"{OEG} {best}", solvers[best]
    traces = [trace(name, solver, problem, limit)]
    while len(traces) < repeat and traces[0].points[-1].seconds <= REPEATED:
        traces.append(trace(name, solver, problem, limit))
    middle = median_low(one.points[-1].seconds for one in traces)
    return next(one for one in traces if one.points[-1].seconds == middle)
