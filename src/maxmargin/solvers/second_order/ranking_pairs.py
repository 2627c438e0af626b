"""Rankings whose pairs are few: an interior point on all of them, where quasi-Newton steps crawl.

At a large C on separable groups (more columns than samples, say) the softened hinges are all but walls, and L-BFGS needs any
number of steps. There the differences of all pairs are written out as rows, and the problem is that of the hinge loss with the
weights s_i s_j: the interior point takes its ten to thirty steps. Its duals are those of the pairs, so that the certificate is
that of the ranking.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...data.table import table_of
from ...losses.hinge import HingeLoss
from ...problems.linear import ScalarProblem
from ...problems.ranking import PAIR_MARGIN, Ranked, RankingProblem
from ...result import TINY
from ...utils.state import RunState, beneath
from ..base import Run, Setting, Start
from .interior_point import ScalarInterior
from .ranking import PairSums, RankingNewton, by_sample
from .run import ScalarShape
from .tuning import WRITTEN_OUT, PairsTuning


def count_of_pairs(layout: Ranked) -> int:
    sizes, total = np.diff(layout.starts), 0
    for low, high in zip(layout.first[:-1], layout.first[1:], strict=True):
        group = sizes[low:high]
        total += (int(group.sum()) ** 2 - int(group @ group)) // 2
    return total


def places_of_pairs(layout: Ranked) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The places that should win and lose each pair, and its group."""
    wins, loses, groups = [], [], []
    for g, (low, high) in enumerate(zip(layout.first[:-1], layout.first[1:], strict=True)):
        for r in range(low + 1, high):
            below, own = np.arange(layout.starts[low], layout.starts[r]), np.arange(layout.starts[r], layout.starts[r + 1])
            wins.append(np.repeat(own, below.size))
            loses.append(np.tile(below, own.size))
            groups.append(np.full(own.size * below.size, g))
    return np.concatenate(wins), np.concatenate(loses), np.concatenate(groups)


def affordable(problem: RankingProblem, tuning: PairsTuning = WRITTEN_OUT) -> bool:
    """Whether all pairs may be written out, and a step on them is cheap."""
    pairs, columns = count_of_pairs(problem.layout), problem.table.shape[1]
    return pairs * columns <= tuning.numbers and pairs * columns * min(pairs, columns) <= tuning.work


def problem_of_pairs(problem: RankingProblem, pairs: tuple[np.ndarray, np.ndarray, np.ndarray]) -> ScalarProblem:
    (wins, loses, groups), layout, matrix = pairs, problem.layout, problem.table.matrix
    rows = matrix[layout.rows[wins]], matrix[layout.rows[loses]]
    X, Y = (np.asarray(part.toarray() if sp.issparse(part) else part, dtype=np.float64) for part in rows)
    weight = problem.weight[groups] * layout.weight[wins] * layout.weight[loses]
    target = np.ones(wins.size), np.full(wins.size, PAIR_MARGIN)
    return ScalarProblem(table_of(X - Y), HingeLoss(), target, weight).at(problem.C)


class PairsInterior(Run):
    """The interior point on all pairs."""

    problem: RankingProblem
    held = (*Run.held, "best_v", "best_net")

    def __init__(self, problem: RankingProblem, setting: Setting):
        self.problem, self.average, self.warm = problem, setting.average, False
        self.wins, self.loses, groups = places_of_pairs(problem.layout)
        pairs = problem_of_pairs(problem, (self.wins, self.loses, groups))
        self.inner = ScalarInterior(ScalarShape(pairs), Start(), setting)
        self.sums = PairSums(problem, setting.n_jobs)
        self.best_v: np.ndarray = np.zeros(problem.weight_shape)  # those of no pair
        self.dual = 0.0
        self.best_net: np.ndarray = np.zeros(problem.layout.rows.size)

    def advance(self, stop: Callable[[], bool]) -> float:
        estimate = self.inner.advance(stop)
        self.passes += 1
        self.visits += self.problem.n_examples
        self.exact, self.stuck = self.inner.exact, self.inner.stuck
        return estimate

    def synchronise(self) -> float:
        """The duals of the pairs added up for each sample, and their value by the samples themselves."""
        self.inner.synchronise()
        duals, count = self.inner.left(), self.best_net.size
        net: np.ndarray = np.bincount(self.wins, duals, count) - np.bincount(self.loses, duals, count)
        v = self.sums.combined(net)
        found = PAIR_MARGIN * float(duals.sum()) - 0.5 * float(v @ v)
        if found > self.dual:
            self.dual, self.best_v, self.best_net = found, v, net
        return self.dual

    def candidates(self) -> list[np.ndarray]:
        return [self.best_v, self.inner.shape.packed(self.inner.W)] if self.average else [self.best_v]

    def left(self) -> np.ndarray:
        return by_sample(self.problem, self.best_net)

    def snapshot(self) -> RunState:
        return super().snapshot() | {f"inner.{name}": value for name, value in self.inner.snapshot().items()}

    def resume(self, state: Mapping[str, Any]) -> None:
        super().resume(state)
        self.inner.resume(beneath(state, "inner"))


class RankingRun(Run):
    """Quasi-Newton steps, and the interior point on all pairs where it can be afforded and they crawl."""

    problem: RankingProblem

    def __init__(self, problem: RankingProblem, start: Start, setting: Setting, tuning: PairsTuning = WRITTEN_OUT):
        self.problem, self.setting, self.tuning = problem, setting, tuning
        self.run: RankingNewton | PairsInterior = RankingNewton(problem, start, setting)
        self.on_pairs, self.next_look, self.trail = False, tuning.first, [math.inf]
        self.warm, self.average = self.run.warm, self.run.average
        self.affordable = affordable(problem, tuning)
        self.mirror()

    def mirror(self) -> None:
        """Show what the run at work shows."""
        run = self.run
        self.passes, self.visits, self.dual, self.exact, self.stuck = run.passes, run.visits, run.dual, run.exact, run.stuck

    def advance(self, stop: Callable[[], bool]) -> float:
        if self.crawls():
            self.write_out()
        with np.errstate(all="ignore"):
            estimate = self.run.advance(stop)
        if not self.on_pairs:
            self.trail.append(estimate)
            self.run.stuck = self.run.stuck and not self.affordable
        self.mirror()
        return estimate

    def crawls(self) -> bool:
        """Whether at the rate of the last half of the steps as many again will not do."""
        made = len(self.trail) - 1
        if self.on_pairs or not self.affordable or made < self.next_look:
            return False
        self.next_look = 2 * made
        half, now = (min(self.trail[: count + 1]) for count in (made // 2, made))
        ahead, fallen = math.log(max(now, TINY) / max(self.setting.tol * abs(self.dual), TINY)), math.log(half / max(now, TINY))
        return ahead > 2.0 * fallen

    def write_out(self) -> None:
        before, self.run, self.on_pairs = self.run, PairsInterior(self.problem, self.setting), True
        self.run.passes, self.run.visits = before.passes, before.visits

    def synchronise(self) -> float:
        found = self.run.synchronise()
        self.mirror()
        return found

    def candidates(self) -> list[np.ndarray]:
        return self.run.candidates()

    def left(self) -> np.ndarray:
        return self.run.left()

    def statistics(self) -> dict[str, float]:
        return self.run.statistics()

    def snapshot(self) -> RunState:
        own = {"on_pairs": self.on_pairs, "next_look": self.next_look, "trail": np.array(self.trail)}
        return own | {f"run.{name}": value for name, value in self.run.snapshot().items()}

    def resume(self, state: Mapping[str, Any]) -> None:
        if state["on_pairs"]:
            self.write_out()
        self.run.resume(beneath(state, "run"))
        self.next_look, self.trail = int(state["next_look"]), [float(gap) for gap in state["trail"]]
        self.mirror()
