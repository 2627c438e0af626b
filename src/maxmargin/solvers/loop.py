"""The one outer loop: budget, certificate, history, callbacks, interrupt.

What a run offers stands in `base`. An exact evaluation mostly costs two passes, so it is made only when the estimate says that
the target is reached (Ramanan 2013, section 2), and now and then for the history. How far the estimate is off is learned from
each evaluation. A run whose passes end with exact values says so (`exact`) and is evaluated after each of them. A `late` run has
exact values only when it says so.
"""

import math
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..jit import clock
from ..problems.base import Problem
from ..result import ALL_SMALLER, DUAL_OVERFLOWS, Certificate, History, Record, Result, relative
from ..utils.blas import blas_threads
from ..utils.state import RunState
from .base import NOWHERE, Run, Setting, Solver, Start, admit
from .due import Due, due_of, long_since, promising
from .keeping import NOBODY, Keeper, from_duals, state_of, take_up
from .pace import never
from .tuning import LOOP, SWAYS, LoopTuning

BY_HAND, BY_CALLBACK = "Stopped by Ctrl-C.", "Stopped by a callback."
SMALLER = "Scale the features, or lower C."
ABOVE_PRIMAL = 1e-9  # part of the primal value by which a dual value above it proves nothing, or the target where that is more
# How many times the rounding of the certificate's sums a gap is at the most that is said to be rounding: steps are sums of many
# such ones. By guess, 2026-11-17.
ROUNDINGS = 1e4
OF_DUALS = "Weights that need not be exactly those of the duals (keep_duals=False) may have a smaller one."


def unwatched(iteration: int) -> bool:
    """What is called after a pass where nobody wants to know of it."""
    return False


@dataclass(frozen=True)
class Budget:
    """When to stop, and who is told after each pass. `watch` returns True to stop the run, `halt` to stop it within a pass.
    `keeper` keeps the state of the run between passes.

    The clock of `max_time` began when the budget was made, and stands still while kernels are compiled. `state_bytes`: what the
    state of a run that continues well may take to be left with its result; none is, where it would take more. `in_a_row`: short
    passes may be one call, where nobody is told of each: for runs side by side, which wait for the interpreter between two calls.
    One that is alone hardly gains what it takes to compile that.
    """

    tol: float = 1e-3
    max_iter: int = 10_000
    max_time: float | None = None
    n_jobs: int = 1
    watch: Callable[[int], bool] = unwatched
    halt: Callable[[], bool] = lambda: False
    begin: float = field(default_factory=clock)
    tuning: LoopTuning = LOOP
    state_bytes: int = 0
    keeper: Keeper = NOBODY
    in_a_row: bool = False

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

    def certificate(
        self, problem: Problem, primal: float, dual: float, passes: int, message: str, verified: bool = True
    ) -> Certificate:
        """The certificate of these values; `message` is how the run ended where the target was not met."""
        part = relative(primal, dual)
        converged = bool(part <= self.tol)
        if converged:
            took = "1 pass" if passes == 1 else f"{passes} passes"
            message = f"Reached relative gap {part:.3g} <= tol={self.tol:g} in {took}."
        found = Certificate(primal, dual, primal - dual, part, converged, verified, message)
        if part < -max(self.tol, ABOVE_PRIMAL):
            why = problem.suspect or "numbers are too small or large for float64. Scale the features, or take another C"
            wrong = f"The dual value lies above the primal one by {-100 * part:.3g} %: {why}."
            return replace(found, converged=False, verified=False, message=wrong)
        return found


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


def not_below(
    problem: Problem, w: Any, primal: float, small: float, stop: Callable[[], bool], coarse: float = 0.0
) -> float:
    """The primal value of w, as it was computed; or, where the rounding of scores may have taken more than what is `small` from
    it, a value that is not below it: what may be lost is added where that is at most what is `coarse`, or `stop` says that there
    is no time for better."""
    lost = problem.lost_in_scores(w, primal)
    if lost <= small:
        return primal
    found = None if lost <= coarse else problem.primal_in_twofold(w, stop)
    if found is None:
        return primal + lost
    return max(primal, found) if np.isfinite(found) else primal


class Best:
    """The best primal value seen, and the exact dual value of the duals as they stand.

    A run that offers no average wants the weights of its duals: then it is the last value, not the best.
    """

    kept = "primal", "dual", "prefer", "of", "w"

    def __init__(self, history: History):
        self.history = history
        self.primal, self.dual = np.inf, -np.inf
        self.w: np.ndarray | None = None
        self.prefer = 1  # which candidate was better last time; at first the average is, or the point of a run that has one
        self.of = ""  # whose candidates these are

    def evaluate(self, run: Run, budget: Budget, stop: Callable[[], bool], last: bool = False) -> None:
        """Exact dual value, then the candidates' primal values, the likelier one first, until one meets the target.

        If that one is far from it, the others are tried only where this is the `last` evaluation, or as good as it, and there is
        time; or where it is no better than what was seen before; or where the dual value is zero, which makes every gap the whole
        of the primal, unless that is zero as well.
        """
        self.dual = run.synchronise()
        if not self.dual < np.inf:  # NaN too
            raise ValueError(f"The dual value is not a number: {run.problem.suspect}." if run.problem.suspect else DUAL_OVERFLOWS)
        candidates = run.candidates()
        if run.solver_name != self.of:
            self.prefer, self.of = 1, run.solver_name
        if not run.average:
            self.primal = np.inf
        order = sorted(range(len(candidates)), key=lambda k: k != self.prefer)
        found, seen = {}, self.primal
        for k in order:
            found[k] = run.primal(candidates[k], budget.n_jobs)
            if found[k] < self.primal:
                self.primal, self.w = found[k], candidates[k]
            found_gap = relative(found[k], self.dual)
            far = found_gap > budget.tuning.far * budget.tol and found[k] < seen and not last and self.dual != 0.0
            if found_gap <= budget.tol or (np.isfinite(found[k]) and (far or stop())):
                break
        self.prefer = min(found, key=found.__getitem__)
        if relative(self.primal, self.dual) <= budget.tol:
            small = budget.tol * abs(self.primal)
            lost = run.problem.lost_in_sums(run.left, small)
            self.dual -= lost if lost > small else 0.0
            self.primal = not_below(run.problem, self.w, self.primal, small, stop)
        self.history.append(Record(run.passes, budget.seconds(), self.primal, self.dual, self.primal - self.dual))


def roundings_of(run: Run, w: Any) -> tuple[float | None, float, float]:
    """What the sums of a certificate lose to rounding, None if unknown; what kinks make of it; and what duals do where weights
    must be theirs."""
    duals, problem = run.left(), run.problem
    return problem.rounding(w, duals), problem.unsettled(w), 0.0 if run.average else problem.swayed(duals)


class Still:
    """Whether rounding hides what is left of a gap: a small one, that no evaluation has made smaller for long."""

    kept = "gap", "passes", "looks"

    def __init__(self) -> None:
        self.gap, self.passes, self.looks = np.inf, 0, 0

    def message(self, run: Run, best: Best, tuning: LoopTuning) -> str:
        """How a run ends that can do no better, in a sentence; empty where it may."""
        gap, part = best.primal - best.dual, relative(best.primal, best.dual)
        if best.w is None:  # told where the run ends
            return "No step makes progress any more." if run.stuck else ""
        if run.stuck and (large := run.problem.overlarge(best.primal)):
            return f"Reached the limit of float64 at a relative gap of {part:.3g}: {large}"
        if run.stuck:
            rounding, kinks, swayed = roundings_of(run, best.w)
            why = ", for rounding," if rounding is None or gap <= ROUNDINGS * rounding + kinks + SWAYS * swayed else ""
            tried = "" if run.average else f" {OF_DUALS}"
            return f"No step makes progress any more{why} at a relative gap of {part:.3g}.{tried} {SMALLER}"
        self.looks += 1
        if not gap >= tuning.settled * self.gap:
            self.gap, self.passes, self.looks = gap, run.passes, 0
        took_up = best.history.methods[-1][0] if best.history.methods else 0
        since = run.passes - max(self.passes, took_up)  # whoever has just begun, has a while of its own
        passes = max(run.passes, run.sweeps, run.visits / max(run.problem.n_examples, 1))  # one pass may be as good as many
        if part > tuning.lost and passes >= tuning.lost_passes and (large := run.problem.overlarge(best.primal)):
            return f"Reached the limit of float64 at a relative gap of {part:.3g}: {large}"
        if min(self.looks, since) < tuning.still:
            return ""
        long = since >= max(tuning.long, 0.5 * run.passes)
        if (long and run.give_way()) or part > tuning.fine:
            return ""
        if long:
            return f"No pass has made the gap smaller for long: {part:.3g} of the primal is what is left."
        rounding, kinks, swayed = roundings_of(run, best.w)
        small = rounding is not None and gap <= rounding + kinks + swayed
        return f"Reached the limit of float64 at a relative gap of {part:.3g}." if small else ""


@dataclass
class Course:
    """What the loop has learned of a run: how far estimates of the gap are off, the visits at the last evaluation, and how it
    ended, in a sentence."""

    ratio: float
    visits: int = 0
    message: str = ""

    kept = "ratio", "visits", "message"

    def due(self, run: Run, budget: Budget) -> Due:
        """When the loop has to hear of the run again."""
        found = due_of(self.ratio, budget.tol, run.problem.n_examples, self.visits, budget.tuning)
        return found._replace(passes=float(budget.max_iter))


def drive(
    run: Run, budget: Budget, history: History, earlier: RunState | None = None, pressed: Callable[[], bool] = never
) -> Result:
    """Drive `run` until the relative gap is certified, the budget is spent or somebody stops it; on from an `earlier` state.
    `pressed`: whether there was a Ctrl-C."""
    best, still, tuning = Best(history), Still(), budget.tuning
    course = Course(tuning.promise)
    own = {"best": best, "still": still, "course": course}
    if earlier is not None:
        with budget.keeper.taking_up():
            take_up(earlier, run, own, history)
    history.taken_up(run.passes, run.solver_name)

    def why() -> str:
        return budget.why(pressed())

    def out_of_time() -> bool:
        return bool(why())

    in_a_row = budget.in_a_row and budget.watch is unwatched and budget.keeper is NOBODY
    if run.warm and earlier is None:  # a hot start may already be good enough
        best.evaluate(run, budget, out_of_time)
        course.message = why()
    while not (course.message or relative(best.primal, best.dual) <= budget.tol):
        run.loop_due = course.due(run, budget) if in_a_row else None
        estimate = run.advance(out_of_time)
        history.taken_up(run.passes, run.solver_name)
        stopped = budget.watch(run.passes)
        course.message = why()
        if not course.message and stopped:
            course.message = BY_CALLBACK
        elif not course.message and run.passes >= budget.max_iter:
            course.message = budget.after_passes()
        if judged(run, best, still, course, budget, estimate, why):
            break
        run.accelerate()
        budget.keeper.offer(lambda: state_of(run, own, history, budget.seconds()))
    if budget.keeper.to_the_end:
        budget.keeper.offer(lambda: state_of(run, own, history, budget.seconds()), ended=True)
    return ended(run, best, budget, course.message, out_of_time)


def judged(
    run: Run,
    best: Best,
    still: Still,
    course: Course,
    budget: Budget,
    estimate: float,
    why: Callable[[], str],
) -> bool:
    """After a pass: an exact evaluation, where one is due; whether the run is over. `why` says why it has to end at once."""

    def out_of_time() -> bool:
        return bool(why())

    tuning, history = budget.tuning, best.history
    due = course.due(run, budget)
    hopeful = promising(due, estimate, run.dual, run.visits)
    if course.message and not out_of_time():
        run.conclude(out_of_time)
    wanted = course.message or hopeful or long_since(due, estimate, run.dual, run.visits)
    if run.exact or (wanted and not run.late):
        best.evaluate(run, budget, out_of_time, last=bool(course.message) or (run.exact and hopeful))
        course.message = course.message or why()  # no second evaluation after one that took up the time
        if relative(best.primal, best.dual) > budget.tol:
            course.message = course.message or still.message(run, best, tuning)
        if course.message or relative(best.primal, best.dual) <= budget.tol:
            return True  # the duals stay those of the certificate
        gap = history[-1].gap
        if len(history) > 1 and gap > tuning.stalled * history[-2].gap:
            run.refine()
        if 0 < estimate < np.inf:
            course.ratio = float(np.clip(gap / estimate, *tuning.learned))
        if hopeful and gap > tuning.hidden * estimate:  # what rests, hides a part of the gap
            run.wake()
        course.visits = run.visits
    return bool(course.message)  # a late run that was stopped


def ended(run: Run, best: Best, budget: Budget, message: str, stop: Callable[[], bool]) -> Result:
    """What a run has come to. `stop` says whether it has to end at once."""
    verified = best.w is not None
    if best.w is None:
        best.w, best.dual = run.candidates()[0], run.dual
        tried = f"overflows at these weights. {ALL_SMALLER}", "was not computed: that takes a further pass over the data."
        message += f" The primal value {tried[len(best.history) == 0]}"
    elif relative(best.primal, best.dual) > budget.tuning.lost and (large := run.problem.overlarge(best.primal)):
        message = message if large in message else f"{message.removesuffix('.')}: {large}"
    if verified and relative(best.primal, best.dual) > budget.tol:  # else that is known
        gap = best.primal - best.dual
        best.primal = not_below(run.problem, best.w, best.primal, budget.tol * abs(best.primal), stop, budget.tuning.coarse * gap)
    if message == budget.after_passes() and relative(best.primal, best.dual) > budget.tuning.lost and run.way_out:
        message += f" {run.way_out}"
    certificate = budget.certificate(run.problem, best.primal, best.dual, run.passes, message, verified)
    if (doubt := run.doubt()) is not None:
        certificate = replace(certificate, message=f"{certificate.message} {doubt}", converged=False, verified=False)
    duals, statistics, at_duals = run.left(), run.statistics(), run.at_duals()
    weights = run.final(best.w)
    told = certificate, best.history, certificate.message, run.passes, duals, run.calls, statistics
    return run.translated(Result(weights, *told, at_duals=at_duals))


def product_threads(problem: Problem, budget: Budget) -> int:
    """How many threads matrix products have, by the size of those with all rows."""
    return budget.n_jobs if problem.n_examples * math.prod(problem.weight_shape) >= budget.tuning.products else 1


def at_once(problem: Problem, start: Start, budget: Budget, history: History) -> Result | None:
    """The result of a start that meets the target as it is: where samples are few, all that a run has about it takes longer."""
    found = problem.values(start.weights, start.duals)
    if found is None:
        return None
    primal, dual = found[0], found[1] - problem.lost_in_sums(lambda: start.duals, 0.0)
    primal = not_below(problem, start.weights, primal, budget.tol * abs(primal), never)
    certificate = budget.certificate(problem, primal, dual, start.steps, "")
    if not certificate.converged:
        return None
    history.append(Record(start.steps, budget.seconds(), primal, dual, primal - dual))
    return Result(start.weights, certificate, history, certificate.message, start.steps, start.duals)


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
    """Check, begin a run and drive it. Ctrl-C counts from the beginning; matrix products have `n_jobs` threads too, if they are
    worth it."""
    admit(solver, problem)
    keeper = budget.keeper
    if start.steps and average and (found := at_once(problem, start, budget, history)) is not None:
        return found
    with Interrupt() as interrupt, blas_threads(product_threads(problem, budget)):
        earlier = keeper.found()
        if earlier is not None:
            budget = replace(budget, begin=budget.begin - earlier["seconds"])
        setting = Setting(budget.tol, seed, budget.n_jobs, average, lambda: bool(budget.why(interrupt.pressed)), budget.max_iter)
        if earlier is not None:
            start = replace(start, method="", state=None)  # the state says who is at work
        if earlier is not None and keeper.elsewhere:
            with keeper.taking_up():
                start = from_duals(solver, problem, replace(setting, n_jobs=keeper.n_jobs or 1), earlier)
            earlier = None
        run = solver.begin(problem, start, setting)
        run.solver_name = run.solver_name or type(solver).__name__
        if start.state is not None:
            run.resume(start.state)
            run.warm = False  # it was not good enough when it stopped
        run.warm = run.warm and not start.fresh
        try:
            result = drive(run, budget, history, earlier, lambda: interrupt.pressed)
            state = run.snapshot() if budget.state_bytes and run.continues else {}
            small = 0 < sum(part.nbytes for part in state.values() if isinstance(part, np.ndarray)) <= budget.state_bytes
            return replace(result, state=state) if small else result
        finally:
            run.close()
