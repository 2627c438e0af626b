"""Newton's method on the primal, for differentiable losses.

    gradient  Sigma^-1 (w - mean) - X' b,      b_i = slope_i(z_i),  z = X w
    Hessian   Sigma^-1 + sum_i N_i (x) x_i x_i',     N_i the second derivative of loss i at z_i

Slopes of differentiable losses are feasible duals, and each example's share of the gap is zero at them: P(w) - D(b) is half
the square of the gradient's length in the metric of the prior, a certificate from one gradient. The number of steps does not
depend on how the columns are scaled, unlike that of coordinate methods. Along a step P is convex, and its slope costs one pass
over scores, no product: the step ends where a tenth of the slope is left, so that squared losses, whose second derivative jumps,
converge from everywhere. Where the second derivative is the same everywhere, the first step ends at the optimum, and what it has
led to is left to the certificate.

Where columns are large, slopes lose the gradient in the rounding of scores: X' b is then off by X' of it. The duals that follow
the step, b - N X dw, have a gradient of zero but for the rounding of dw, and are tried where slopes take long.

Signs: P(w) - mu sum log(height above each wall) is minimised for a falling mu, its matrix with the duals of the walls as in an
interior point.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ...jit import kernel
from ...losses.base import bend, slope
from ...losses.multinomial import Multinomial
from ...problems.kernel import total_value
from ...problems.linear import BlockProblem
from ..base import Setting, Start
from .interior_point import LEAST_MU, MENDINGS, NEARLY, TO_THE_BORDER, to_border
from .run import EntryShape, RowShape, SecondOrderRun, Shape
from .systems import RowColumns, System, combination, scores_of

FLATTER = 0.1  # part of the slope at the beginning of a step that may be left at its end
SEARCH_ROUNDS = 40  # of the search along a step, each of which halves what is unknown at least
FEW_STEPS = 3  # in which slopes mostly do
EXACTER, LEAST_REST, MOST_REST = 0.1, 1e-6, 0.03  # part of the target that a step aims at, and of the gradient that it may leave
LESS_MU = 0.1  # part of mu that stays after a long step; after a short one the square root of it
# Times mu of all walls that a step may have had to gain, for mu to fall: far from the centre less of it leads into corners. 36
# made problems, signs and full covariances, all smooth losses: 335 steps in all; 332 whatever a step gains, 373 with 10.
# 2026-11-18.
OFF_CENTRE = 100.0
NEAR_PATH = 1e8  # factor by which a product of height and dual may differ from mu


@kernel
def derivatives(loss, scores, duals, bends):
    """The slopes and second derivatives at these scores."""
    for i in range(scores.size):
        duals[i] = slope(loss, i, scores[i])
        bends[i] = bend(loss, i, scores[i])


class SmoothRun(SecondOrderRun):
    """One point, its scores, and the duals that its slopes are."""

    held = (*SecondOrderRun.held, "scores", "followed", "mu", "steps")

    def __init__(self, shape: Shape, start: Start, setting: Setting, system: System):
        super().__init__(shape, start, setting)
        self.system = system
        self.scores, self.mu = scores_of(self.table, self.W) if np.any(self.W) else np.zeros_like(self.duals), 0.0
        self.followed, self.far, self.descent, self.steps = self.duals, 0.0, 0.0, 0
        self.looked = self.pulled = False
        self.direct = False  # whether the scores are one product of the point, and no sum of such
        self.parabolic = False  # whether the first step is the solution

    def settle(self) -> None:
        """Begin at zero where that is better than the mean of the prior, or than what another run has left; above the walls."""
        first, scores = self.W, self.scores
        if np.any(first):
            primal = self.primal_here()
            self.W, self.scores = np.zeros_like(first), np.zeros_like(scores)
            if not self.primal_here() < primal:
                self.W, self.scores = first, scores
        if self.walls is not None:
            primal = self.primal_here()
            self.mu = max(primal / self.walls.low.size, LEAST_MU)
            self.build_walls(self.mu, float(np.mean(np.abs(self.scores))) + 1.0)
            self.scores = scores_of(self.table, self.W)

    @abstractmethod
    def losses(self, scores: np.ndarray) -> float:
        """The sum of the losses at scores (examples, classes)."""

    @abstractmethod
    def slopes(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The duals, and theta of the second derivatives, at these scores."""

    def primal_here(self) -> float:
        return self.problem.regularizer.penalty(self.shape.packed(self.W)) + self.losses(self.scores)

    def primal(self, w, n_jobs):
        """Of the point, where its scores are exactly X w, without another product."""
        if self.direct and np.array_equal(w, self.shape.packed(self.W)):
            return self.primal_here()
        return super().primal(w, n_jobs)

    def proposed(self):
        self.see()
        yield self.slope_duals, self.sides
        late = self.idle > 0 or self.steps > FEW_STEPS
        missing = self.lowest - self.highest if self.average else self.nearest
        if late and missing > self.tol * abs(self.lowest):
            yield self.followed, self.sides
            if not self.average and (self.stuck or self.estimate <= NEARLY * self.tol * abs(self.lowest)):
                yield from self.mended()

    def mended(self) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Duals that are the slopes at their own weights, where these have to be taken: what they differ by there is followed
        through the system of the point. The rounding of W is nothing to them, which slopes at W make any number of times as
        large."""
        self.system.rest = 0.0
        if not self.prepared():
            return
        duals = self.shape.repaired(self.followed)
        for _ in range(MENDINGS):
            if self.nearest <= self.tol * abs(self.lowest):
                return
            v = self.shape.evaluated(duals, self.supporting(duals)).v
            off = self.slopes(scores_of(self.table, self.shape.opened(self.weights_of(v))))[0] - duals
            duals = self.shape.repaired(duals + off + self.system.solve(combination(self.table, off), None)[1])
            yield duals, self.supporting(duals)

    def supporting(self, duals: np.ndarray) -> np.ndarray | None:
        """The duals of half-spaces that are best beside these, where those that the point stands on are known."""
        if self.sides is None or self.walls is None or self.walls.matrix is None:
            return None
        against = self.sides * np.square(self.walls.matrix).sum(axis=1) > self.heights
        w = self.shape.opened(self.shape.evaluated(duals, None).v).ravel()
        return self.walls.supporting(w, against)

    def prepared(self) -> bool:
        """Whether the system of the point as it stands can be solved."""
        B, matrix = self.B, None
        if self.walls is not None:
            B, matrix = self.walls.added(self.B, self.wall_duals / self.heights)
        return self.system.prepare(self.bends, B, matrix)

    def see(self) -> None:
        """The slopes of the point as it stands."""
        if not self.looked:
            self.slope_duals, self.bends = self.slopes(self.scores)
            self.looked, self.pulled = True, False

    def pull(self) -> None:
        """Its gradient."""
        self.see()
        if not self.pulled:
            self.slack, self.pulled = self.gradient(self.slope_duals), True

    def arrive(self) -> None:
        """Look at the point, and note it."""
        self.pull()
        left = float(self.heights @ self.wall_duals)
        self.note(self.primal_here(), self.pushed(self.slack), left, left)

    def resume(self, state: Mapping[str, Any]) -> None:
        super().resume(state)
        self.looked = self.direct = False

    def step(self):
        self.steps += 1
        self.pull()
        if self.lowest == np.inf:
            self.arrive()
        duals, slack, off = self.slope_duals, self.slack, None
        if self.walls is not None:
            self.mu = max(self.mu, self.least_mu())
            off = self.walls.across(self.W.ravel()) - self.walls.low - self.heights
            slack = slack + self.walls.combined((self.mu - self.wall_duals * off) / self.heights, self.size).reshape(slack.shape)
        self.system.rest = self.rest()
        if not self.prepared():
            return False
        dW, change = self.system.solve(slack, None)
        self.followed = duals + change
        if not np.all(np.isfinite(dW)):
            return False
        along = scores_of(self.table, dW) if self.system.along is None else self.system.along
        rise = np.empty(0) if self.walls is None else self.walls.across(dW.ravel()) + off
        most = TO_THE_BORDER * to_border((self.heights,), (rise,)) if rise.size else np.inf
        far = self.how_far(dW, along, rise, most)
        self.far = far
        if far <= 0.0:
            return self.lower_still(rise)
        at_once = self.system.along is None or self.system.factor.sound  # else `along` is a sum of several products
        self.direct = far == 1.0 and at_once and not np.any(self.W)
        self.W = self.shape.tied(self.W + far * dW)
        if self.direct:
            self.scores = along
        else:
            self.scores = self.scores + far * along if self.system.rest > 0.0 else scores_of(self.table, self.W)
        if rise.size:
            self.climb(far, rise)
        self.looked = False
        if self.parabolic and self.steps == 1:
            self.estimate = np.inf  # the exact values, which cost less than another look, say the rest
        else:
            self.arrive()
        return True

    def rest(self) -> float:
        """The part of the gradient that a step may leave; zero where steps take long, which may be for want of exactness."""
        if self.idle > 0 or self.steps > FEW_STEPS or not self.estimate > 0.0:
            return 0.0
        return min(max(math.sqrt(EXACTER * self.tol * abs(self.lowest) / self.estimate), LEAST_REST), MOST_REST)

    def how_far(self, dW: np.ndarray, along: np.ndarray, rise: np.ndarray, most: float) -> float:
        """The part of a step that leaves a tenth of the slope, by Newton's method in a bracket; 0 where there is no way down."""
        if self.parabolic:
            return 1.0 if np.vdot(self.slack, dW) > 0.0 else 0.0
        first = float(np.vdot(self.shape.pulled(self.W - self.mean), dW))
        second = float(np.vdot(self.shape.pulled(dW), dW))

        def slope_at(t: float) -> tuple[float, float]:
            duals, theta = self.slopes(self.scores + t * along)
            heights = self.heights + t * rise
            return (
                first + t * second - float(np.vdot(duals, along)) - self.mu * float(np.sum(rise / heights)),
                second + self.system.bent(theta, along) + self.mu * float(np.sum(np.square(rise / heights))),
            )

        begin = slope_at(0.0)[0]
        self.descent = -begin
        if not begin < 0.0:
            return 0.0
        low, high, t = 0.0, np.inf, min(1.0, most)
        for _ in range(SEARCH_ROUNDS):
            found, bent = slope_at(t)
            if abs(found) <= -FLATTER * begin or (t == most and found < 0.0):
                return t
            low, high = (t, high) if found < 0.0 else (low, t)
            t = min(t - found / bent, most)
            if not low < t < high and t != most:
                t = 0.5 * (low + high) if high < np.inf else 2.0 * low
        return low

    def lower_still(self, rise: np.ndarray) -> bool:
        """At the centre for this mu there is no way down, and there may be for less; whether less is asked for."""
        if not rise.size or not self.mu > self.least_mu():
            return False
        self.climb(0.0, rise)
        self.arrive()
        return True

    def least_mu(self) -> float:
        """What mu need not fall below."""
        return self.enough() * self.tol * abs(self.lowest) / self.heights.size

    def climb(self, far: float, rise: np.ndarray) -> None:
        """Move the walls' heights and duals along, and lower mu, after a long step by more."""
        heights, dual = self.heights, self.wall_duals
        ahead = (self.mu - dual * heights - dual * rise) / heights
        dual = dual + min(1.0, TO_THE_BORDER * to_border((dual,), (ahead,))) * ahead
        self.heights = heights + far * rise
        self.wall_duals = np.clip(dual, self.mu / self.heights / NEAR_PATH, self.mu / self.heights * NEAR_PATH)
        if self.descent <= OFF_CENTRE * self.mu * heights.size:
            self.mu *= LESS_MU if far > 0.5 else np.sqrt(LESS_MU)


class ScalarNewton(SmoothRun):
    """Losses of one score that have slopes and second derivatives."""

    shape: EntryShape

    def __init__(self, shape: EntryShape, start: Start, setting: Setting):
        super().__init__(shape, start, setting, shape.system(shape.loss.quadratic))
        self.parabolic = shape.loss.parabolic and self.walls is None
        self.settle()

    def losses(self, scores):
        return float(total_value(self.shape.losses, scores.ravel()))

    def slopes(self, scores):
        duals, bends = np.empty(scores.size), np.empty(scores.size)
        derivatives(self.shape.losses, scores.ravel(), duals, bends)
        return duals.reshape(scores.shape), bends.reshape(scores.shape)


class MultinomialNewton(SmoothRun):
    """The multinomial logistic loss: slopes are cap (e_y - p), theta = cap p."""

    problem: BlockProblem

    def __init__(self, problem: BlockProblem, start: Start, setting: Setting):
        super().__init__(RowShape(problem), start, setting, RowColumns(problem.table))
        loss: Multinomial = problem.exact_loss
        self.cap, self.own = loss.cap, (np.arange(len(loss.label)), loss.label)
        self.settle()

    def losses(self, scores):
        return float(self.cap @ self.surprises(self.above(scores)))

    def above(self, scores: np.ndarray) -> np.ndarray:
        """z_k - z_y: beside large scores the losses may be less than their rounding."""
        return scores - scores[self.own][:, None]

    def surprises(self, above: np.ndarray) -> np.ndarray:
        """log sum_k exp(z_k - z_y), the others summed up alone."""
        others = above.copy()
        others[self.own] = -np.inf
        rest = logsumexp(others, axis=1)
        return np.maximum(rest, 0.0) + np.log1p(np.exp(-np.abs(rest)))

    def slopes(self, scores):
        above = self.above(scores)
        theta = self.cap[:, None] * np.exp(above - self.surprises(above)[:, None])
        duals = -theta
        duals[self.own] = 0.0
        duals[self.own] = -duals.sum(axis=1)
        return duals, theta
