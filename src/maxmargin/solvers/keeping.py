"""The state of a fit under way, for another process to go on from. The loop tells a keeper; who writes files is above it.

A state is what the run holds, the loop's own numbers and the history, as named arrays and numbers. A fit that is made of several
runs (groups of labels, convex problems one after another) keeps a part for each. Those that have ended are kept as they ended: a
fit that goes on begins them anew, finds their end and comes to the same results.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import asdict
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..problems.base import Problem
from ..result import Certificate, History, Record, Result
from ..utils.state import RunState, beneath, put_together, taken_apart
from .base import Run, Setting, Solver, Start

BEST_WEIGHTS, RESULT = "best.w", "result"


class Keeper(ABC):
    """Who keeps the state of one run."""

    to_the_end = False  # whether the state at the end is wanted: there are other runs after it
    elsewhere = False  # whether the earlier state comes from another machine, version or number of threads
    n_jobs: int | None = None  # those threads

    @abstractmethod
    def found(self) -> RunState | None:
        """What an earlier process has left of this run."""

    @abstractmethod
    def offer(self, state: Callable[[], RunState], ended: bool = False) -> None:
        """Between passes: take the state, if that is due. `ended`: no pass follows; take it."""

    @abstractmethod
    def part(self, name: str, to_the_end: bool) -> "Keeper":
        """The keeper of one of several runs."""

    def taking_up(self) -> AbstractContextManager[None]:
        """Around what reads an earlier state: says what is wrong with it."""
        return nullcontext()


class Nobody(Keeper):
    """Keeps nothing."""

    def found(self) -> RunState | None:
        return None

    def offer(self, state: Callable[[], RunState], ended: bool = False) -> None:
        pass

    def part(self, name: str, to_the_end: bool) -> "Keeper":
        return self


NOBODY = Nobody()


def state_of(run: Run, own: Mapping[str, Any], history: History, seconds: float) -> RunState:
    """All of it. `own`: the objects of the loop, whose `kept` names their fields."""
    found: RunState = {f"run.{name}": value for name, value in run.snapshot().items()}
    for name, holder in own.items():
        for field in holder.kept:
            found |= taken_apart(getattr(holder, field), f"{name}.{field}")
    return found | state_of_history(history) | {"seconds": seconds}


def take_up(state: Mapping[str, Any], run: Run, own: Mapping[str, Any], history: History) -> None:
    """Go on from a state: the run has just begun, on the same problem and with the same setting."""
    run.resume(beneath(state, "run"))
    for name, holder in own.items():
        for field in holder.kept:
            at = f"{name}.{field}"
            like = deepcopy(run.candidates()[0]) if at == BEST_WEIGHTS and beneath(state, at) else None
            setattr(holder, field, put_together(like, at, state))
    note_history(state, history)


def state_of_history(history: History) -> RunState:
    table = np.array(list(history), np.float64).reshape(-1, len(Record._fields))
    first, names = [at for at, _ in history.methods], [name for _, name in history.methods]
    return {"history.records": table, "history.first": np.array(first, np.int64), "history.methods": "\n".join(names)}


def note_history(state: Mapping[str, Any], history: History) -> None:
    names = state["history.methods"].split("\n") if state["history.first"].size else []
    for at, name in zip(state["history.first"].tolist(), names, strict=True):
        history.taken_up(at, name)
    for iteration, *values in state["history.records"].tolist():
        history.append(Record(int(iteration), *values))


def from_duals(solver: Solver, problem: Problem, setting: Setting, state: Mapping[str, Any]) -> Start:
    """Where a run on another machine, or with other threads, begins that goes on from a state; `setting` is that of the state."""
    run = solver.begin(problem, Start(), setting)
    try:
        run.resume(beneath(state, "run"))
        run.synchronise()
        return Start(run.left(), run.final(run.candidates()[0]))
    finally:
        run.close()


# ---- results, where they are smaller than the state of their run -------------------------------------------------------


def state_of_result(result: Result, history: History) -> RunState:
    """A result whose weights are an array and whose duals a CSC matrix."""
    duals = result.duals
    told = {"w": result.w, "data": duals.data, "indices": duals.indices, "indptr": duals.indptr, "n_iter": result.n_iter}
    told |= {"shape": np.array(duals.shape), "calls": -1 if result.oracle_calls is None else result.oracle_calls}
    told |= {f"certificate.{name}": value for name, value in asdict(result.certificate).items()}
    told |= {f"statistics.{name}": value for name, value in result.statistics.items()}
    return {f"{RESULT}.{name}": value for name, value in told.items()} | state_of_history(history)


def result_of(state: Mapping[str, Any], history: History) -> Result:
    told = beneath(state, RESULT)
    duals = sp.csc_array((told["data"], told["indices"], told["indptr"]), shape=tuple(told["shape"].tolist()))
    certificate = Certificate(**beneath(told, "certificate"))
    note_history(state, history)
    calls = None if told["calls"] < 0 else told["calls"]
    return Result(told["w"], certificate, history, certificate.message, told["n_iter"], duals, calls, beneath(told, "statistics"))


def is_result(state: Mapping[str, Any] | None) -> bool:
    return state is not None and f"{RESULT}.n_iter" in state
