"""The convex-concave procedure: a sequence of convex problems, each of which touches the objective from above.

    fix the best hidden choices at w;  minimise the convex problem with them;  repeat                 (latent.py has the formulas)

The convex problem is F(w) at w and nowhere below F, so its minimum does not raise F. Since it is solved to a gap only, F is
computed after every step, and a step that did not lower it keeps the old weights. These are then as near to the minimum of that
convex problem as the new ones: F(old) <= F(new) <= P(new), and P(old) = F(old). So the procedure ends with a certificate: the
weights minimise, to `tol`, the convex problem that was solved last.

A step is solved to a part of what the step before gained, from the duals of the step before; the last ones to `tol`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..problems.latent import LatentProblem
from ..problems.structured import StructuredProblem
from ..result import Certificate, History, Record, Result, relative
from ..structures.encoded.contract import with_new_truths
from .base import NOWHERE, Solver, Start, WarmStart
from .loop import Budget, Interrupt, carry_out
from .tuning import CONVEX_CONCAVE


@dataclass(frozen=True)
class LatentResult(Result):
    """The outcome of the procedure.

    choice : the best hidden choices at w
    outer : F after each step
    at_rest : whether the procedure ended by itself
    problem : the last convex problem, which the certificate and the duals belong to
    values : the F that each start led to
    stopped : why it did not end by itself, in a sentence; nothing where the number of convex problems was the limit
    """

    choice: Any = None
    outer: tuple[float, ...] = ()
    at_rest: bool = False
    problem: StructuredProblem | None = None
    values: tuple[float, ...] = ()
    stopped: str = ""


class StageHistory(History):
    """The history of one convex problem, which also goes on to that of all, passes counted through."""

    def __init__(self, whole: History, passes: int):
        super().__init__()
        self.whole, self.passes = whole, passes

    def append(self, record: Record) -> None:
        super().append(record)
        self.whole.append(record._replace(iteration=record.iteration + self.passes))


class Inner:
    """Solves the convex problems, one after another, within one budget."""

    tuning = CONVEX_CONCAVE

    def __init__(self, solver: Solver, budget: Budget, history: History, seed: int, average: bool, interrupt: Interrupt):
        self.solver, self.budget, self.history, self.seed, self.average = solver, budget, history, seed, average
        self.passes, self.calls, self.begun = 0, 0, 0
        self.interrupt = interrupt
        self.stopped = ""  # the reason, in a sentence

    @property
    def left(self) -> int:
        """Passes left. Somebody who has stopped the run before its first convex problem gets one pass of that."""
        return 1 if self.stopped else self.budget.max_iter - self.passes

    def solve(self, problem: StructuredProblem, tol: float, start: Start = NOWHERE, most: int | None = None) -> Result:
        """Minimise to the relative gap `tol`, in `most` passes (all that are left)."""
        before = self.passes
        budget = replace(
            self.budget,
            tol=tol,
            max_iter=self.left if most is None else most,
            watch=lambda iteration: self.budget.watch(before + iteration),
            halt=lambda: self.interrupt.pressed or self.budget.halt(),
            keeper=self.budget.keeper.part(f"problem {self.begun}", True),
        )
        self.begun += 1
        history = StageHistory(self.history, before)
        result = carry_out(self.solver, problem, budget, history, start=start, seed=self.seed, average=self.average)
        self.passes += result.n_iter
        self.calls += result.oracle_calls or 0
        if why := self.budget.why(self.interrupt.pressed):
            self.stopped = why
        elif self.passes >= self.budget.max_iter:
            self.stopped = self.budget.after_passes()
        elif not result.certificate.converged:
            self.stopped = self.stopped or result.message  # what came first is the reason
        return result

    def roughly(self, problem: StructuredProblem) -> np.ndarray:
        """Weights to start from, for at the most half of the passes left."""
        most = self.left // 2
        if most == 0:
            return np.zeros(problem.weight_shape)
        result = self.solve(problem, max(self.budget.tol, self.tuning.loose), most=most)
        if result.n_iter >= most and not self.interrupt.pressed:  # only its own limit has stopped it
            self.stopped = ""
        return result.w


class ConvexConcave:
    """The procedure from one or several starts.

    Parameters
    ----------
    steps : int
        Convex problems at the most, for each start.
    init : what `LatentProblem.initial` takes
    restarts : int
        How many random starts follow; the best result counts.
    """

    def __init__(self, steps: int, init: Any, restarts: int = 0):
        self.steps, self.init, self.restarts = steps, init, restarts

    def solve(
        self,
        solver: Solver,
        problem: LatentProblem,
        budget: Budget,
        history: History,
        *,
        seed: int = 0,
        average: bool = True,
        last: WarmStart | None = None,
    ) -> LatentResult:
        """Lower F until a step gains less than the relative `tol`, and certify the last convex problem to `tol`. `solver` serves
        the convex problems."""
        random = np.random.default_rng(seed)
        found: list[LatentResult] = []
        with Interrupt() as interrupt:  # between the convex problems, too
            inner = Inner(solver, budget, history, seed, average, interrupt)
            while len(found) <= self.restarts and not (found and inner.stopped):
                if not found and last is not None:
                    descent = self._resumed(problem, inner, last)
                else:
                    choice = problem.initial("random" if found else self.init, random, inner.roughly)
                    descent = Descent(problem, inner, problem.completed(choice))
                found.append(descent.run(self.steps))
        best = min(found, key=lambda result: result.outer[-1])
        values = tuple(result.outer[-1] for result in found)
        best = replace(best, history=history, values=values, stopped=inner.stopped)
        return replace(best, n_iter=inner.passes, oracle_calls=inner.calls)

    def _resumed(self, problem: LatentProblem, inner: Inner, last: WarmStart) -> "Descent":
        start = problem.completed(problem.impute(last.weights, inner.budget.n_jobs))
        points = last.fits(start, inner.solver).duals
        if points is not None:
            points = with_new_truths(points, last.data, start.data)
        return Descent(problem, inner, start, last.weights, points)


class Descent:
    """The way down from one start. `problem` touches F at the weights W (any choices do where W is zero: there all are best)."""

    def __init__(self, latent: LatentProblem, inner: Inner, problem: StructuredProblem, W: np.ndarray | None = None, points=None):
        self.latent, self.inner, self.problem, self.points = latent, inner, problem, points
        self.W = np.zeros(latent.weight_shape) if W is None else W
        self.value = problem.primal(self.W, inner.budget.n_jobs)
        self.tol = inner.budget.tol
        self.gap = (
            max(self.tol, inner.tuning.loose) if inner.average else self.tol
        )  # weights that belong to duals cannot be mended later
        self.kept: Result | None = None
        self.kept_problem = problem
        self.choice: Any = None
        self.outer: list[float] = []
        self.at_rest = False

    def run(self, steps: int) -> LatentResult:
        for step in range(steps):
            if step == steps - 1:
                self.gap = self.tol  # what comes last is certified
            self.at_rest = self.step() and not self.inner.stopped
            if self.at_rest or self.inner.stopped:
                break
        assert self.kept is not None
        kept = self.kept
        if self.choice is None:  # no step has lowered F
            self.choice = self.latent.impute(self.W, self.inner.budget.n_jobs)
        certificate = kept.certificate
        if certificate.relative_gap > self.tol:
            certificate = replace(certificate, converged=False, message=self.inner.stopped)
        return LatentResult(
            kept.w,
            certificate,
            kept.history,
            certificate.message,
            kept.n_iter,
            kept.duals,
            kept.oracle_calls,
            kept.statistics,
            choice=self.choice,
            outer=tuple(self.outer),
            at_rest=self.at_rest,
            problem=self.kept_problem,
        )

    def step(self) -> bool:
        """One convex problem; returns whether F cannot be lowered any more."""
        inner, first = self.inner, self.kept is None
        final = self.gap <= self.tol
        result = inner.solve(self.problem, self.gap, Start(self.points, self.W))
        choice, tight = self.latent.tight(result.w, self.problem, inner.budget.n_jobs)
        value = tight.primal(result.w, inner.budget.n_jobs)
        if value < self.value or (first and not inner.average):
            gain = relative(self.value, value)
            done = final and (gain <= self.tol or self.latent.same(self.problem, tight))
            # The convex problem lies nowhere below F: of two sums that may be the same number, the larger one.
            certificate = _bounded(max(value, result.certificate.primal), result.certificate, self.gap)
            self.kept, self.kept_problem, self.choice = replace(result, certificate=certificate), self.problem, choice
            self.W, self.value = result.w, value
            self.points = with_new_truths(result.duals, self.problem.data, tight.data)
            self.problem = tight
            self.gap = self.tol if gain <= self.tol else max(self.tol, min(self.gap, inner.tuning.part * gain))
        else:
            done = final
            self.points, self.gap = result.duals, self.tol
            if inner.average:  # the old weights, with the new bound
                self.kept = replace(result, w=self.W, certificate=_bounded(self.value, result.certificate, self.tol))
                self.kept_problem = self.problem
        self.outer.append(self.value)
        return done


def _bounded(primal: float, certificate: Certificate, tol: float) -> Certificate:
    """The certificate of other weights of the same convex problem."""
    gap = relative(primal, certificate.dual)
    return replace(certificate, primal=primal, gap=primal - certificate.dual, relative_gap=gap, converged=gap <= tol)
