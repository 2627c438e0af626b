"""The one outer loop: budget, certificate, history, callbacks, interrupt.

What a run offers stands in `base`. An exact evaluation mostly costs two passes, so it is made only when the estimate says that
the target is reached (Ramanan 2013, section 2), and now and then for the history. How far the estimate is off is learned from
each evaluation. A run whose passes end with exact values says so (`exact`) and is evaluated after each of them. A `late` run has
exact values only when it says so.
"""

import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..jit import clock
from ..problems.base import Problem
from ..result import Certificate, History, Record, Result, relative
from ..utils.blas import blas_threads
from .base import NOWHERE, Run, Setting, Solver, Start, admit
from .tuning import LOOP, LoopTuning

BY_HAND, BY_CALLBACK = "Stopped by Ctrl-C.", "Stopped by a callback."
SMALLER = "Scale the features, or lower C."
OF_DUALS = "Weights that need not be exactly those of the duals (keep_duals=False) may have a smaller one."


@dataclass(frozen=True)
class Budget:
    """When to stop, and who is told after each pass. `watch` returns True to stop the run, `halt` to stop it within a pass.

    The clock of `max_time` began when the budget was made, and stands still while kernels are compiled.
    """

    tol: float = 1e-3
    max_iter: int = 10_000
    max_time: float | None = None
    n_jobs: int = 1
    watch: Callable[[int], bool] = lambda iteration: False
    halt: Callable[[], bool] = lambda: False
    begin: float = field(default_factory=clock)
    tuning: LoopTuning = LOOP

    def seconds(self) -> float:
        return clock() - self.begin

    def spent(self) -> bool:
        return self.max_time is not None and self.seconds() >= self.max_time

    def why(self, interrupted: bool) -> str:
        """Why a run has to end within its pass, in a sentence; empty where it may go on."""
        if interrupted or self.halt():
            return BY_HAND
        return self.after_time() if self.spent() else ""

    def after_time(self) -> str:
        return f"Stopped after max_time={self.max_time:g} seconds."

    def after_passes(self) -> str:
        return f"Stopped after max_iter={self.max_iter} passes."

    def certificate(self, primal: float, dual: float, passes: int, message: str, verified: bool = True) -> Certificate:
        """The certificate of these values; `message` is how the run ended where the target was not met."""
        part = relative(primal, dual)
        converged = bool(part <= self.tol)
        if converged:
            message = f"Reached relative gap {part:.3g} <= tol={self.tol:g} in {passes} passes."
        return Certificate(primal, dual, primal - dual, part, converged, verified, message)


class Interrupt:
    """Ctrl-C ends the run with a usable model; a second Ctrl-C raises KeyboardInterrupt at once."""

    def __enter__(self) -> "Interrupt":
        self.pressed = False
        self.previous: Any = None
        if threading.current_thread() is threading.main_thread():
            self.previous = signal.getsignal(signal.SIGINT)
            if self.previous is signal.default_int_handler:  # a handler of the user's own stays in charge
                signal.signal(signal.SIGINT, self._handle)
        return self

    def _handle(self, number, frame) -> None:
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True

    def __exit__(self, *error) -> None:
        if self.previous is signal.default_int_handler:
            signal.signal(signal.SIGINT, self.previous)


class Best:
    """The best primal value seen, and the exact dual value of the duals as they stand.

    A run that offers no average wants the weights of its duals: then it is the last value, not the best.
    """

    def __init__(self, history: History):
        self.history = history
        self.primal, self.dual = np.inf, -np.inf
        self.w: np.ndarray | None = None
        self.prefer = 1  # which candidate was better last time; at first the average is

    def evaluate(self, run: Run, budget: Budget, stop: Callable[[], bool], last: bool = False) -> None:
        """Exact dual value, then the candidates' primal values, the likelier one first, until one meets the target.

        If that one is far from it, the others are tried only where this is the last evaluation and there is time.
        """
        self.dual = run.synchronise()
        if np.isnan(self.dual):
            raise ValueError(f"The dual value overflows: the numbers are too large for float64. {SMALLER}")
        candidates = run.candidates()
        if not run.average:
            self.primal = np.inf
        order = sorted(range(len(candidates)), key=lambda k: k != self.prefer)
        found = {}
        for k in order:
            found[k] = run.primal(candidates[k], budget.n_jobs)
            if found[k] < self.primal:
                self.primal, self.w = found[k], candidates[k]
            found_gap = relative(found[k], self.dual)
            far = found_gap > budget.tuning.far * budget.tol and not last
            if found_gap <= budget.tol or (np.isfinite(found[k]) and (far or stop())):
                break
        self.prefer = min(found, key=found.__getitem__)
        self.history.append(Record(run.passes, budget.seconds(), self.primal, self.dual, self.primal - self.dual))


class Still:
    """Whether rounding hides what is left of a gap: a small one, that no evaluation has made smaller for long."""

    def __init__(self) -> None:
        self.gap, self.passes, self.looks = np.inf, 0, 0

    def message(self, run: Run, best: Best, tuning: LoopTuning) -> str:
        """How a run ends that can do no better, in a sentence; empty where it may."""
        gap, part = best.primal - best.dual, relative(best.primal, best.dual)
        if run.stuck:
            tried = "" if run.average else f" {OF_DUALS}"
            return f"No step makes progress any more, for rounding, at a relative gap of {part:.3g}.{tried} {SMALLER}"
        self.looks += 1
        if not gap >= tuning.settled * self.gap:
            self.gap, self.passes, self.looks = gap, run.passes, 0
        since = run.passes - self.passes
        if part > tuning.fine or min(self.looks, since) < tuning.still:
            return ""
        if since >= max(tuning.long, 0.5 * run.passes):
            return f"No pass has made the gap smaller for long: {part:.3g} of the primal is what is left."
        rounding = run.problem.rounding(best.w, run.left())
        small = rounding is not None and gap <= rounding
        return f"Reached the limit of float64 at a relative gap of {part:.3g}." if small else ""


def drive(run: Run, budget: Budget, history: History) -> Result:
    """Drive `run` until the relative gap is certified, the budget is spent or somebody stops it."""
    best, still = Best(history), Still()
    history.taken_up(run.passes, run.solver_name)
    ratio, visits_then, message, tuning = budget.tuning.promise, 0.0, "", budget.tuning
    with Interrupt() as interrupt:

        def out_of_time() -> bool:
            return bool(budget.why(interrupt.pressed))

        if run.warm:  # a hot start may already be good enough
            best.evaluate(run, budget, out_of_time)
            message = budget.why(interrupt.pressed)
        while not (message or relative(best.primal, best.dual) <= budget.tol):
            estimate = run.advance(out_of_time)
            history.taken_up(run.passes, run.solver_name)
            stopped = budget.watch(run.passes)
            message = budget.why(interrupt.pressed)
            if not message and stopped:
                message = BY_CALLBACK
            elif not message and run.passes >= budget.max_iter:
                message = budget.after_passes()
            since, total = (visits / max(run.problem.n_examples, 1) for visits in (run.visits - visits_then, run.visits))
            hoped, target = estimate * ratio, budget.tol * abs(run.dual)
            promising = hoped <= target and since >= tuning.apart
            rule = tuning.near_seldom if hoped <= tuning.near * target else tuning.seldom
            if message and not out_of_time():
                run.conclude(out_of_time)
            wanted = message or promising or since >= max(rule[0], rule[1] * total)
            if run.exact or (wanted and not run.late):
                best.evaluate(run, budget, out_of_time, last=bool(message))
                message = message or budget.why(interrupt.pressed)  # no second evaluation after one that took up the time
                if relative(best.primal, best.dual) > budget.tol:
                    message = message or still.message(run, best, tuning)
                if message or relative(best.primal, best.dual) <= budget.tol:
                    break  # the duals stay those of the certificate
                gap = history[-1].gap
                if len(history) > 1 and gap > tuning.stalled * history[-2].gap:
                    run.refine()
                if 0 < estimate < np.inf:
                    ratio = float(np.clip(gap / estimate, *tuning.learned))
                if promising and gap > tuning.hidden * estimate:  # what rests, hides a part of the gap
                    run.wake()
                visits_then = run.visits
            if message:  # a late run that was stopped
                break
            run.accelerate()
    return ended(run, best, budget, message)


def ended(run: Run, best: Best, budget: Budget, message: str) -> Result:
    """What a run has come to."""
    verified = best.w is not None
    if best.w is None:
        best.w, best.dual = run.candidates()[0], run.dual
        tried = f"overflows at these weights. {SMALLER}", "was not computed: that takes a further pass over the data."
        message += f" The primal value {tried[len(best.history) == 0]}"
    certificate = budget.certificate(best.primal, best.dual, run.passes, message, verified)
    if (doubt := run.doubt()) is not None:
        certificate = replace(certificate, message=f"{certificate.message} {doubt}", converged=False, verified=False)
    duals, statistics = run.left(), run.statistics()
    result = Result(best.w, certificate, best.history, certificate.message, run.passes, duals, run.calls, statistics)
    return run.translated(result)


def carry_out(
    solver: Solver,
    problem: Problem,
    budget: Budget,
    history: History,
    *,
    start: Start = NOWHERE,
    seed: int = 0,
    average: bool = True,
) -> Result:
    """Check, begin a run and drive it. Ctrl-C counts from the beginning; matrix products have `n_jobs` threads too."""
    admit(solver, problem)
    with Interrupt() as interrupt, blas_threads(budget.n_jobs):
        held = replace(budget, halt=lambda: interrupt.pressed or budget.halt())
        run = solver.begin(problem, start, Setting(budget.tol, seed, budget.n_jobs, average, lambda: bool(held.why(False))))
        try:
            return drive(run, held, history)
        finally:
            run.close()
