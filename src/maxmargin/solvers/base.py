"""The Solver seam: who can solve what, and a run that one loop drives.

A solver is its parameters. `begin` makes a *run*: the state of one solution of one problem. `loop` drives runs, and says when
they end; what a run leaves may start another one (`WarmStart`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..problems.base import Evaluated, Problem
from ..result import Result
from ..utils.parameters import Parameters
from ..utils.state import RunState, put_together, taken_apart
from .due import Due
from .pace import never


@dataclass(frozen=True)
class Start:
    """Where a run begins: duals (points of structured problems, planes) of an earlier run, feasible here, or None; and weights
    that may already be good, or None. `rise`: C over that of the earlier run, by which duals at their bounds have to grow;
    `method`: who was at work when that ended. `state`: all of a run of the same solver on this very problem, which goes on.
    `gap`: the relative one that both have here, where that is known: a finer target need not look whether they meet it.
    `steps`: of what has made them to meet the target, so that it is worth a look before a run is begun; zero if nothing has.
    `fresh`: no run has visited some of the examples, so that at least one pass is made, however good the start is."""

    duals: Any = None
    weights: Any = None
    rise: float = 1.0
    method: str = ""
    state: RunState | None = None
    gap: float = 0.0
    steps: int = 0
    fresh: bool = False


NOWHERE = Start()


@dataclass(frozen=True)
class Setting:
    """What a run is told besides its problem. `average`: averages of weights may be returned; else exactly those of the duals.
    `stop` says whether to end before the first pass; `max_iter` after how many passes the loop will."""

    tol: float = 1e-3
    seed: int = 0
    n_jobs: int = 1
    average: bool = True
    stop: Callable[[], bool] = never
    max_iter: float = math.inf


class Run(ABC):
    """One solution under way. The loop reads the fields and calls the methods below, and nothing else.

    Ensures: `dual` is a lower bound on the optimum but for rounding, exact after `synchronise`; the values of `candidates`, which
    satisfy the signs, are upper bounds.
    """

    problem: Problem
    average: bool  # whether candidates beside the weights of the duals may be returned
    warm: bool  # whether the start may be good enough already
    dual: float  # the dual value as the run keeps track of it
    passes: int = 0
    visits: int = 0  # of examples
    sweeps: int = 0  # over examples within passes, where there are several to one
    calls: int | None = None  # of the oracle; None where there is none
    exact: bool = False  # whether a pass ends with exact values
    stuck: bool = False  # whether rounding keeps every further step from progress
    hidden: bool = False  # whether it is known that the rounding of duals hides what is left, whoever goes on
    late: bool = False  # whether there are exact values only when `exact` says so
    solver_name: str = ""  # who is at work
    continues: bool = False  # whether its state is a far better start towards a finer gap than its duals are
    way_out: str = ""  # what helps where passes have come to next to nothing, in a sentence
    hint: Any = None  # weights of an earlier run: a candidate for the first certificate
    loop_due: Due | None = None  # when the loop has to hear of it: short passes may be made in a row until then. None: each time
    passes_in_row: Sequence[tuple[int, int, float]] = ()  # of the last call: passes, visits and the estimate after each
    held: tuple[str, ...] = ("passes", "visits", "dual", "hint")  # the fields that make up the state

    @abstractmethod
    def advance(self, stop: Callable[[], bool]) -> float:
        """One pass, cut short where `stop` says so, or several where `loop_due` allows for it; returns an estimate of the gap,
        infinite where there is none."""

    @abstractmethod
    def synchronise(self) -> float:
        """The exact dual value of the duals as they stand."""

    @abstractmethod
    def candidates(self) -> list[Any]:
        """Weights to take the primal value at, those of the duals first."""

    @abstractmethod
    def left(self) -> Any:
        """The duals that the certificate speaks of, in the layout of the problem; or what the solver has in their place."""

    def at_duals(self) -> Evaluated | None:
        """The dual value of the duals of the examples that the certificate speaks of, without those of half-spaces, and the
        unclipped weights they stand for, in memory that the run does not use again; None where it has no duals. Asked for once,
        when the run is over."""
        return None

    def primal(self, w: Any, n_jobs: int) -> float:
        """The exact primal value of a candidate."""
        return self.problem.primal(w, n_jobs)

    def final(self, candidate: Any) -> Any:
        """A candidate as the weights of the result: the run is over, and its memory may be used."""
        return candidate

    def rise(self, most: float) -> None:  # noqa: B027 - most runs do nothing here, and in the following
        """Before the first pass: multiply the duals by a number up to `most`, where that is better."""

    def accelerate(self) -> None:  # noqa: B027
        """Between passes."""

    def wake(self) -> None:  # noqa: B027
        """Visit every example in the next pass."""

    def refine(self) -> None:  # noqa: B027
        """Iterate in higher precision: there is no progress any more."""

    def give_way(self) -> bool:
        """Let another method go on, where there is one: passes make no progress any more. Returns whether there is."""
        return False

    def conclude(self, stop: Callable[[], bool]) -> None:  # noqa: B027
        """No pass will follow; a late run may still make its values exact."""

    def close(self) -> None:  # noqa: B027
        """Give back what is not memory."""

    def doubt(self) -> str | None:
        """A sentence, where the values of this run prove nothing."""
        return None

    def statistics(self) -> dict[str, float]:
        return {}

    def snapshot(self) -> RunState:
        """The whole state as named arrays and numbers: a run on the same problem that resumes it goes on in the same way."""
        found: RunState = {}
        for name in self.held:
            found |= taken_apart(getattr(self, name), name)
        return found

    def resume(self, state: Mapping[str, Any]) -> None:
        """Take up the state of another run on the same problem, with the same setting."""
        for name in self.held:
            setattr(self, name, put_together(getattr(self, name), name, state))

    def translated(self, result: Result) -> Result:
        """The result in terms of the problem that was asked for, where the run solved it in the shape of another."""
        return result


class Solver(Parameters, ABC):
    """Parameters of a method. A new solver is one file with a subclass, and a line in `NAMES` if it gets a short name.

    What each of its parameters may be stands in `_parameter_constraints`.
    """

    keeps_duals = True  # whether runs leave duals of examples; else planes, which are good for the same losses only
    by_groups = True  # whether a problem that is a sum of others is solved one of them at a time
    reads = False  # whether data on disk are served

    def check(self) -> None:
        """Refuse parameters that make no sense, in a sentence. A solver adds to it what concerns several of them at once."""
        self._validate_params()

    @abstractmethod
    def serves(self, problem: Problem) -> str | None:
        """None, or the reason why this solver cannot serve the problem."""

    @abstractmethod
    def begin(self, problem: Problem, start: Start, setting: Setting) -> Run:
        """A run on a problem that is served."""

    def kind_of_points(self) -> str:
        """What a run on a structured problem ends with and can start from: "marginals", "mixtures", "sets"; "planes" for none."""
        return "sets" if self.keeps_duals else "planes"


def admit(solver: Solver, problem: Problem) -> None:
    """Refuse parameters that make no sense, and a problem that the solver cannot serve."""
    solver.check()
    if (reason := solver.serves(problem)) is not None:
        raise TypeError(reason)


@dataclass(frozen=True)
class WarmStart:
    """What a run left for the next: its duals (or planes) and weights, and whose they are; its whole state where that was kept,
    for the same solver at the same C; the relative gap that it was certified to have, zero where there was none; and the steps
    of what has made it for this C without a run."""

    duals: Any
    weights: Any
    planes: bool
    origin: object
    data: Any = None
    C: float = 1.0
    solver: Solver | None = None
    method: str = ""
    state: RunState | None = None
    gap: float = 0.0
    steps: int = 0

    @classmethod
    def of(cls, problem: Problem, solver: Solver, result: Result) -> "WarmStart":
        methods, gap = result.history.methods, result.certificate.relative_gap if result.certificate.verified else 0.0
        method, planes = methods[-1][1] if methods else "", not solver.keeps_duals
        left = result.duals, result.w, planes, problem.origin, problem.remembered, problem.C
        return cls(*left, solver=solver, method=method, state=result.state, gap=gap)

    def fits(self, problem: Problem, solver: Solver) -> Start:
        """As much of it as this solver can start from on this problem, made feasible."""
        if not problem.in_memory:
            return NOWHERE  # duals belong to rows, which a stream may have changed
        if self.state is not None and self.solver is solver and self.origin is problem.origin and self.C == problem.C:
            return Start(state=self.state)
        if self.planes or not solver.keeps_duals:
            weights = problem.fitting(self.weights)
            same = self.planes and not solver.keeps_duals and self.origin is problem.origin and weights is not None
            return Start(self.duals if same else None, weights)
        duals, weights = problem.resumed(self.duals, self.weights, self.data, solver.kind_of_points())
        same = self.origin is problem.origin and self.C == problem.C
        return Start(duals, weights, problem.C / self.C, self.method, gap=same * self.gap, steps=same * self.steps)

    def for_other_data(self) -> "WarmStart":
        """The same without planes, which are large and of no use to other data."""
        return WarmStart(None, self.weights, True, None, self.data) if self.planes else self
