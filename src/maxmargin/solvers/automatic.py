"""What `solver="auto"` is: coordinate passes, and Newton's method where they crawl.

Coordinate passes are cheap, and on most problems few are needed; where columns differ in size or C is large they may need any
number, and Newton's method needs the same few steps as ever. What a pass and a step cost is known beforehand. So a run begins
with passes; when they have cost a part of what Newton's method would, and their rate says that those to come cost more (many
times as much, where that part is small), it goes on from their duals. Passes go on only where rounding stops it short of the
target, which they may still reach. Costs are counted, not timed: the same data and seed give the same model.
"""

import math
from collections.abc import Callable, Mapping
from functools import singledispatch
from statistics import median
from typing import Any

import numpy as np

from ..data.rows import mean_length
from ..losses.crammer_singer import CrammerSingerLoss
from ..problems.base import Evaluated, Problem
from ..problems.linear import BlockProblem, ScalarProblem
from ..problems.multilabel import LabelGroup
from ..problems.ranking import RankingProblem
from ..result import TINY
from ..utils.blas import inner_product
from .base import Run, Setting, Solver, Start
from .dual_coordinate import DualCoordinate
from .newton import Newton, work
from .second_order.softened import is_wide_and_large
from .second_order.tuning import BEGINNING, BeginningTuning
from .tuning import RELAY, RelayTuning

LARGEST_GAP = 1.0 / TINY
ENTRY_BYTES = 8
STAGES = DualCoordinate.__name__, Newton.__name__, DualCoordinate.__name__  # who is at work, one after the other


class Automatic(Solver):
    """`DualCoordinate`, then `Newton` where that is faster; from the start, where one step of it is the solution, or few are and
    coordinates would take many passes."""

    def newton_first(self, problem: Problem, prices: "Prices", tol: float) -> bool:
        """Whether Newton's method, where it needs few steps, is faster from the start."""
        return begins_with_newton(problem, prices, expected_passes(problem, tol))

    def serves(self, problem):
        return None if second_order_only(problem) else DualCoordinate().serves(problem)

    def begin(self, problem, start, setting):
        newton = Newton()
        if second_order_only(problem):
            run = newton.begin(problem, start, setting)
            run.solver_name = STAGES[1]
            return run
        cost = work(problem) if newton.serves(problem) is None else None
        if cost is not None and one_step(problem) and cost <= RELAY.small:
            run = newton.begin(problem, start, setting)
            run.solver_name = STAGES[1]
            return run
        problem.measure(setting.n_jobs)
        prices = None if cost is None else Prices(problem, cost, hard_on_coordinates(problem))
        again = start.method == STAGES[1] and start.duals is not None and start.rise >= 1.0  # passes would crawl again
        if prices is not None and (again or self.newton_first(problem, prices, setting.tol)):
            return Relay(newton.begin(problem, start, setting), setting, prices, stage=1)
        run = DualCoordinate().begin(problem, start, setting)
        run.solver_name, run.way_out = STAGES[0], ""
        return run if prices is None else Relay(run, setting, prices)


class PassesFirst(Automatic):
    """The same of single labels on threads: products of Newton's method, from Python, wait for each other there. Sixteen threads,
    20 labels of 20,000 x 128: 0.8 s where passes took 0.16 s, 2026-11-18."""

    def newton_first(self, problem, prices, tol):
        return False


def begins_with_newton(problem: Problem, prices: "Prices", passes: float) -> bool:
    """Whether so many passes cost more than the steps of Newton's method, where these do not need them."""
    return few_steps(problem) and prices.for_steps() < passes


@singledispatch
def second_order_only(problem: Problem) -> bool:
    """Whether there are no coordinates to step along."""
    return False


@second_order_only.register
def _(problem: RankingProblem) -> bool:
    return True


@singledispatch
def one_step(problem: Problem) -> bool:
    """Whether the first step of Newton's method is the solution."""
    return False


@one_step.register
def _(problem: ScalarProblem) -> bool:
    return problem.loss.parabolic and problem.regularizer.lower is None and problem.half_spaces is None


@one_step.register
def _(problem: LabelGroup) -> bool:
    single = problem.loss.single
    return single is not None and single.parabolic and problem.regularizer.lower is None and problem.half_spaces is None


@singledispatch
def few_steps(problem: Problem) -> bool:
    """Whether Newton's method minimises the primal itself, which takes it some three steps."""
    return False


@few_steps.register
def _(problem: ScalarProblem) -> bool:
    return problem.loss.smooth and problem.regularizer.lower is None and problem.half_spaces is None


@singledispatch
def hard_on_coordinates(problem: Problem) -> bool:
    """Whether many columns and large rows make coordinates crawl unless classes are far apart, and Newton's method does not need
    what they have found."""
    return False


@hard_on_coordinates.register
def _(problem: BlockProblem) -> bool:
    return type(problem.loss) is CrammerSingerLoss and is_wide_and_large(problem)


def expected_passes(problem: Any, tol: float, tuning: BeginningTuning = BEGINNING) -> float:
    """Of coordinate ascent, by the size of the rows."""
    size = float(inner_product(problem.cap, problem.curvature)) / problem.n_examples if problem.n_examples else 0.0
    slope = tuning.slope_searched if searched(problem) else tuning.slope
    return (tuning.least + slope * math.sqrt(size)) * -math.log(min(max(tol, TINY), 1.0)) / math.log(1e3)


@singledispatch
def searched(problem: Problem) -> bool:
    """Whether the best step of a dual has no closed form."""
    return False


@searched.register
def _(problem: ScalarProblem) -> bool:
    return not problem.loss.quadratic


@searched.register
def _(problem: BlockProblem) -> bool:
    return problem.loss.smooth


@searched.register
def _(problem: LabelGroup) -> bool:
    return problem.loss.single is not None and not problem.loss.single.quadratic


class Prices:
    """What is known of costs before a run, in seconds of one core."""

    def __init__(self, problem: Any, cost: float, hard: bool = False, tuning: RelayTuning = RELAY):
        self.step, self.hard = cost * tuning.product + tuning.step, hard
        self.newton = tuning.steps * self.step * (tuning.wide if hard else 1.0)
        self.examples, self.sweep = problem.n_examples, tuning.sweep + problem.n_examples * tuning.glance
        entries = mean_length(problem.X)
        far = entries * problem.n_examples * ENTRY_BYTES > tuning.cached
        scores, search, moves = math.prod(problem.dual_shape[1:]), searched(problem) * tuning.search, problem.regularizer.moves
        coupled = (moves - 1) * scores  # entries of R, which a step multiplies by
        self.visit = scores * ((entries * moves + coupled) * tuning.entry + search) + tuning.visit + far * tuning.fetch

    def for_steps(self, tuning: BeginningTuning = BEGINNING) -> float:
        """What few steps of Newton's method cost, in passes over all examples."""
        return tuning.passes + tuning.steps * self.step / (self.examples * self.visit + self.sweep)

    def of(self, passes: int, visits: int) -> float:
        """What so many passes and visits have cost."""
        return visits * self.visit + passes * self.sweep


class Relay(Run):
    """A coordinate run that Newton's method relieves when it crawls."""

    def __init__(self, run: Run, setting: Setting, prices: Prices, tuning: RelayTuning = RELAY, stage: int = 0):
        self.run, self.setting, self.prices, self.tuning = run, setting, prices, tuning
        self.problem, self.warm = run.problem, run.warm
        self.stage = stage
        self.trail: list[tuple[float, float]] = []  # what was spent when a pass had ended, and the gap as it estimated it
        self.next_look = (tuning.early_hard if prices.hard else tuning.early) * prices.newton
        self.times = 1.0  # the exact gap over the estimate, where weights have to be those of the duals: it may be far larger
        self.risen, self.risen_at = -math.inf, 0  # the exact dual value after Newton's method, and when it last rose by something
        self.mirror()

    def mirror(self) -> None:
        """Show what the run at work shows."""
        run = self.run
        self.passes, self.visits, self.dual, self.exact = run.passes, run.visits, run.dual, run.exact
        self.average, self.solver_name, self.continues = run.average, STAGES[self.stage], run.continues
        # Duals of half-spaces are not handed on: without them passes would begin far below where Newton's method has ended.
        self.stuck = self.stage == 1 and run.stuck and (run.hidden or run.problem.half_spaces is not None)

    def advance(self, stop: Callable[[], bool]) -> float:
        prices, asked = self.prices, self.loop_due
        if asked is not None and self.stage == 0:
            asked = asked._replace(relay=(prices.visit, prices.sweep, float(self.next_look)))
        self.run.loop_due = asked
        estimate = self.run.advance(stop)
        self.mirror()
        if self.stage == 0:
            met = self.run.passes_in_row or ((self.passes, self.visits, estimate),)
            self.trail += [(prices.of(passes, visits), gap * self.times) for passes, visits, gap in met]
        return estimate

    def accelerate(self) -> None:
        if self.stage == 0 and self.crawls():
            self.give_way()
        elif self.stage == 1 and self.run.stuck:
            self.relieve(Start(self.run.left()))  # the best duals it has met, those of its start counted in
        else:
            self.run.accelerate()
        self.mirror()

    def give_way(self):
        if self.stage > 0:
            return False
        self.run.synchronise()
        self.relieve(Start(self.run.left(), self.run.candidates()[0]))
        self.mirror()
        return True

    def crawls(self) -> bool:
        """Whether the passes so far say that those to come cost more than Newton's method, many times as much if few and the
        problem is not hard; or, when half of those allowed are made, that the others will not do."""
        spent = self.trail[-1][0]
        if spent < self.next_look:
            return False
        self.next_look = spent * self.tuning.seldom
        near = self.tuning.around
        around = [[gap for seconds, gap in self.trail if abs(seconds / spent - at) <= near] for at in (0.5, 1.0)]
        if min(len(part) for part in around) == 0:
            return False
        middle, end = (min(max(median(part), TINY), LARGEST_GAP) for part in around)
        middle, end = math.log(middle), math.log(end)  # a quotient of both may be zero
        ahead, fallen = end - math.log(max(self.setting.tol * abs(self.dual), TINY)), middle - end
        early = 0.0 if self.prices.hard else self.tuning.patience * self.prices.newton / spent
        price, left = self.prices.newton * max(1.0, early), self.setting.max_iter - self.passes
        if early > 2.0 or left > self.passes or left < self.tuning.steps:
            left = math.inf
        return ahead > 0.0 and 0.5 * ahead > max(fallen, 0.0) * min(price / spent, left / self.passes)

    def relieve(self, start: Start) -> None:
        """The next one goes on from here."""
        solver = Newton() if self.stage == 0 else DualCoordinate()
        before, self.run = self.run, solver.begin(self.problem, start, self.setting)
        before.close()
        self.run.passes, self.run.visits = before.passes, before.visits
        self.stage, self.trail = self.stage + 1, []

    def synchronise(self) -> float:
        found = self.run.synchronise()
        self.mirror()
        if self.stage == len(STAGES) - 1:
            if found > self.risen + self.tuning.little * self.setting.tol * abs(found):
                self.risen, self.risen_at = found, self.passes
            self.stuck = self.passes - self.risen_at >= self.tuning.hopeless
        return found

    def candidates(self) -> list[Any]:
        return self.run.candidates()

    def left(self) -> Any:
        return self.run.left()

    def at_duals(self) -> Evaluated | None:
        return self.run.at_duals()

    def primal(self, w: Any, n_jobs: int) -> float:
        found = self.run.primal(w, n_jobs)
        if not self.average and self.trail:
            self.times = float(np.clip((found - self.run.dual) / max(self.trail[-1][1] / self.times, TINY), 1.0, LARGEST_GAP))
        return found

    def rise(self, most: float) -> None:
        self.run.rise(most)
        self.mirror()

    def wake(self) -> None:
        self.run.wake()

    def refine(self) -> None:
        self.run.refine()
        self.mirror()

    def conclude(self, stop: Callable[[], bool]) -> None:
        self.run.conclude(stop)
        self.mirror()

    def close(self) -> None:
        self.run.close()

    def doubt(self) -> str | None:
        return self.run.doubt()

    def statistics(self) -> dict[str, float]:
        return self.run.statistics()

    def snapshot(self):
        trail = np.array(self.trail).reshape(-1, 2)
        own = {"stage": self.stage, "trail": trail, "next_look": self.next_look, "times": self.times}
        return self.run.snapshot() | own | {"risen": self.risen, "risen_at": self.risen_at}

    def resume(self, state: Mapping[str, Any]) -> None:
        if state["stage"] < self.stage:  # another target was begun with
            self.run.close()
            self.run, self.stage = DualCoordinate().begin(self.problem, Start(), self.setting), 0
        while self.stage < state["stage"]:
            self.relieve(Start())
        self.run.resume(state)
        self.trail, self.next_look = [(float(spent), float(gap)) for spent, gap in state["trail"]], state["next_look"]
        self.times = float(state["times"])
        self.risen, self.risen_at = state["risen"], state["risen_at"]
        self.mirror()
