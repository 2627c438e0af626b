"""A primal-dual interior point for losses with kinks, whose duals have bounds (Mehrotra 1992).

Every inequality of the dual, x >= 0, has a multiplier s > 0, and x s = mu is followed to mu = 0. For one score an example and
duals 0 <= a <= cap of constraints  sign z >= margin  these are (a, s) and (room = cap - a, t), and a Newton step solves

    E = s/a + t/room + soft,   Theta = 1/E,   rho = margin - sign X w - soft a + mu/a - mu/room
    (Sigma^-1 + X' Theta X) dw = Sigma^-1 (v(a) - w) + X' sign Theta rho,    da = Theta (rho - sign X dw)
    ds = (mu - s a - s da)/a,    dt = (mu - t room + t da)/room

soft = 1 / (2 cap) for squared losses, which have no room, and zero for the others. w is a variable of its own, with the residual
v(a) - w; room is kept and moved beside a, as their difference cancels. A step with mu = 0 predicts how much of mu can go, another
with the same factor corrects it, and goes 0.995 of the way to the border; further ones make short steps longer. Duals are
strictly feasible all along, so that each step has a certificate. Signs of weights are further pairs (height, dual).

mu does not fall below what `tol` needs: further down only the residual v(a) - w would grow, which is divided by what is left.
"""

from abc import abstractmethod
from collections.abc import Mapping
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from ...losses.epsilon_insensitive import EpsilonInsensitive
from ...losses.hinge import Hinge
from ...losses.squared_epsilon_insensitive import SquaredEpsilonInsensitive
from ...losses.squared_hinge import SquaredHinge
from ..base import Setting, Start
from .run import EntryShape, SecondOrderRun, Shape
from .systems import System, scores_of

TO_THE_BORDER = 0.995
# Further directions with the same factor, while steps are short and become longer: fewer where weights are few, as each costs as
# much as a factor there. 100,000 x 50, 2026-11-16.
CORRECTIONS, LONG_PART, LONGER = (1, 3), 0.9, 1.05
FEW_WEIGHTS = 60
SPREAD = 10.0  # factor by which products of pairs may differ
# Solutions that take out what rounding has left between W and the weights of the duals; how many times the target the gap is
# where that begins; and the part of its square that each must leave less of.
MENDINGS, NEARLY, MENDED = 5, 100.0, 0.25
# Part of the products that a step must leave less of, after one that was none, not to be replaced by one to the centre; and the
# part of mu that such a step aims at. By guess, on fuzz 303:802, 2026-11-18.
FALLEN, CENTRE = 0.9, 0.3
LEAST_MU = 1e-250  # where all targets are met from the start
LEAST_PART_OF_STEP = 1e-12  # a step to less than this part is none
# Part of the way to the centre at which duals of another run are taken up, of rows and squared losses. Raw iris, wine, cancer,
# 2026-11-16.
PULLED = 0.005, 0.3
# How many times the gap of another run's point the products add up to where it is taken up, the duals being those on the central
# path for its weights; and the part of the value from which on a gap says that the point is worth nothing. 20,000 x 50 at C n =
# 1e6, cancer, 2026-11-16.
TIMES_GAP, WORTHLESS = 10.0, 0.5
# Part of the value that a gap may be where rounding, and not the beginning, stops steps: another beginning would lead no further.
# Digits with columns of all sizes, C = 100, 2026-11-18.
NEAR_ENOUGH = 1e-6
NO_CAP = 1e-100  # part of the largest cap below which an example is left out: its loss is as good as nothing

# The change of W, of what is inside and of the multipliers, and the part of them that can be gone.
Direction = tuple[np.ndarray, list[np.ndarray], list[np.ndarray], float]


class InteriorPoint(SecondOrderRun):
    """The predictor and corrector. `inside` are the numbers that stay positive, `against` their multipliers; walls come last."""

    held = (*SecondOrderRun.held, "inside", "against", "took_up", "afresh")
    may_idle = 0  # steps in a row without progress that are no sign of rounding
    took_up = afresh = False  # whether duals of another run were begun with, and are not again
    counted: np.ndarray  # the examples (scores, where each has its loss) whose caps are not as good as nothing
    slack: np.ndarray  # X' b - B (W - mean)
    looked = False  # whether that, and what else `look` finds, is that of the point as it stands
    here: float  # its primal value
    wall_weight: np.ndarray  # of the walls, in the system at hand
    inside: tuple[np.ndarray, ...]
    against: tuple[np.ndarray, ...]

    def __init__(self, shape: Shape, start: Start, setting: Setting, system: System):
        super().__init__(shape, start, setting)
        self.system = system

    def begin_at(self, inside: tuple[np.ndarray, ...], mu: float, size: float) -> None:
        """On the central path, but for the weights; `size` is that of scores which matter."""
        mu = max(mu, LEAST_MU)
        self.build_walls(mu, size)
        walls = () if self.walls is None else (self.heights,)
        self.inside = (*inside, *walls)
        self.against = tuple(mu / x for x in self.inside)
        self.looked = False

    @abstractmethod
    def settle(self) -> None:
        """Begin in the centre, or from duals of another run."""

    def takes_up(self) -> bool:
        """Whether there are duals of another run to begin with, which have not led nowhere before."""
        self.took_up = not self.afresh and bool(np.any(self.duals))
        return self.took_up

    def begin_afresh(self):
        """Duals near the border may be far from those of the centre with the same gap, and steps then short for long."""
        if not self.took_up or self.estimate < NEAR_ENOUGH * abs(self.lowest):
            return False
        self.afresh, self.W, self.idle, self.least = True, self.outset.copy(), 0, (np.inf, np.inf)
        self.settle()
        return True

    def relative_gap(self, risk: float) -> float:
        """That of W, whose risk is given, and the duals of the start. At the target, if below: rounding says so there."""
        primal = self.problem.regularizer.penalty(self.shape.packed(self.W)) + risk
        return max((primal - self.dual) / abs(primal), self.tol) if primal else 0.0

    def pull(self, risk: float) -> float:
        """How far duals of another run are pulled to the centre: further where they are not good. `risk` is that of W."""
        return float(np.clip(PULLED[1] * np.sqrt(self.relative_gap(risk)), *PULLED))

    @abstractmethod
    def look(self) -> float:
        """What the point leaves of the conditions, for `direction`; returns its primal value."""

    def left_by_losses(self) -> float:
        """What the losses leave of the gap of the point, after `look`; about the sum of the products, or less."""
        own = len(self.inside) - (self.walls is not None)
        return products(self.inside[:own], self.against[:own])

    def see(self) -> None:
        """Look, where that has not been done."""
        if not self.looked:
            self.here, self.looked = self.look(), True

    def arrive(self) -> None:
        """See, and note it."""
        self.see()
        left = self.left_by_losses() + float(self.heights @ self.wall_duals)
        self.note(self.here, self.pushed(self.slack), left, products(self.inside, self.against))

    def resume(self, state: Mapping[str, Any]) -> None:
        super().resume(state)
        self.looked = False

    @abstractmethod
    def stored(self) -> np.ndarray:
        """The duals, (examples, classes)."""

    def proposed(self):
        yield self.stored(), self.sides

    @abstractmethod
    def theta(self) -> np.ndarray:
        """(examples, classes): how much the duals give way to scores."""

    @abstractmethod
    def direction(self, targets: list[Any]) -> tuple[np.ndarray, list[np.ndarray]]:
        """The step of W and of what is inside, to these products of each pair."""

    def step(self):
        self.see()
        if self.lowest == np.inf:
            self.arrive()
        inside, against = self.inside, self.against
        count = sum(x.size for x in inside)
        if not self.prepared():
            return False

        mu = max(products(inside, against) / max(count, 1), LEAST_MU)
        dW, ahead = self.direction([0.0] * len(inside))
        back = self.multipliers(ahead, [0.0] * len(inside))
        far = to_border((*inside, *against), (*ahead, *back))
        then = products(moved(inside, ahead, far), moved(against, back, far)) / max(count, 1)
        floor = min(mu, self.enough() * self.tol * abs(self.lowest) / max(count, 1))
        goal = max(min(then / mu, 1.0) ** 3 * mu, floor)

        dW, ahead, back, far = self.falling(self.lengthened((dW, ahead, back, far), mu, goal), max(CENTRE * mu, floor))
        if not (far > LEAST_PART_OF_STEP and all(np.all(np.isfinite(change)) for change in (dW, *ahead, *back))):
            return False
        self.go(dW, ahead, back, far)
        self.arrive()
        if not self.average or self.idle > self.may_idle:
            self.mend()
        return True

    def mend(self) -> None:
        """Where the weights have to be those of the duals, or a step was none: take out what rounding has left between them and
        W. That is the more, the nearer mu is to zero, and losses may change with it by any factor. What a solution leaves is
        small; W stays in place but for what the duals lack, and the products of all pairs about as they are. Any system takes it
        out: that of the step is at hand, and shares it out well enough unless the step was none."""
        near = self.estimate <= NEARLY * self.tol * abs(self.lowest)
        if not near or (self.idle > 0 and not self.prepared()):
            return
        for _ in range(MENDINGS):
            before, left = self.place(), self.pushed(self.slack)
            dW, change = self.system.solve(left, None)
            ahead = [*self.followed(change), *([] if self.walls is None else [self.away(dW)])]
            far = TO_THE_BORDER * to_border(self.inside, tuple(ahead))
            back = [np.zeros_like(s) for s in self.against]
            if self.walls is not None:
                back[-1] = -self.wall_weight * ahead[-1]
                far = min(far, TO_THE_BORDER * to_border(self.against, tuple(back)))
            self.go(dW, ahead, back, far)
            self.see()
            if not self.shape.square(self.pushed(self.slack)) < MENDED * self.shape.square(left):
                self.return_to(before)
                self.see()
                return

    def go(self, dW: np.ndarray, ahead: list[np.ndarray], back: list[np.ndarray], far: float) -> None:
        """A part of a step."""
        self.return_to((self.W + far * dW, moved(self.inside, ahead, far), moved(self.against, back, far)))

    def place(self) -> tuple[Any, ...]:
        """All that a step moves."""
        return self.W, self.inside, self.against

    def return_to(self, place: tuple[Any, ...]) -> None:
        W, self.inside, self.against = place
        self.W = self.shape.tied(W)
        if self.walls is not None:
            self.heights, self.wall_duals = self.inside[-1], self.against[-1]
        self.looked = False

    def prepared(self) -> bool:
        """Whether the system of the point as it stands can be solved."""
        B, matrix = self.B, None
        if self.walls is not None:
            self.wall_weight = self.against[-1] / self.inside[-1]
            B, matrix = self.walls.added(self.B, self.wall_weight)
        return self.system.prepare(self.theta(), B, matrix)

    @abstractmethod
    def followed(self, change: np.ndarray) -> tuple[np.ndarray, ...]:
        """The steps of what is inside, where scores alone have moved the duals by `change`."""

    def lengthened(self, predicted: Direction, mu: float, goal: float) -> Direction:
        """The direction to products of `goal`, corrected by what the predicted one tells of them, and again while that makes it
        longer. What a step beyond the border would change products by says little: it is kept to the size of the products there
        are, and where the last step was none it counts as far as the prediction could be followed."""
        inside, against = self.inside, self.against
        part = predicted[-1] ** 2 if self.idle else 1.0
        changes = zip(*predicted[1:3], strict=True)
        targets = [goal - np.clip(part * dx * ds, -SPREAD * mu, SPREAD * mu) for dx, ds in changes]
        best = self.corrected(targets)
        for _ in range(CORRECTIONS[self.shape.classes > 1 or self.size > FEW_WEIGHTS]):
            if best[-1] >= LONG_PART:
                break
            pairs = zip(targets, inside, against, *best[1:3], strict=True)
            targets = [t + recentred(moved_product(x, s, dx, ds, best[-1]), goal) for t, x, s, dx, ds in pairs]
            found = self.corrected(targets)
            if not found[-1] > best[-1] * LONGER:
                break
            best = found
        return best

    def falling(self, found: Direction, goal: float) -> Direction:
        """The direction found; after a step that was none, and where this one would not make products smaller, the one to equal
        products of `goal`: corrections may lead round in circles (Cartis 2009)."""
        if self.idle == 0 or self.products_after(found) < FALLEN * products(self.inside, self.against):
            return found
        centred = self.corrected([goal] * len(self.inside))
        return centred if self.products_after(centred) < self.products_after(found) else found

    def products_after(self, found: Direction) -> float:
        _, ahead, back, far = found
        return products(moved(self.inside, ahead, far), moved(self.against, back, far))

    def corrected(self, targets: list[Any]) -> Direction:
        """A direction, and how far it may be followed."""
        dW, ahead = self.direction(targets)
        back = self.multipliers(ahead, targets)
        return dW, ahead, back, min(1.0, TO_THE_BORDER * to_border((*self.inside, *self.against), (*ahead, *back)))

    def multipliers(self, ahead: list[np.ndarray], targets: list[Any]) -> list[np.ndarray]:
        """The steps of the multipliers that belong to these."""
        return [(t - s * (x + dx)) / x for t, x, s, dx in zip(targets, self.inside, self.against, ahead, strict=True)]

    def spread(self, values: np.ndarray) -> np.ndarray:
        """(examples, classes), zero for those that do not count."""
        result = np.zeros((self.problem.n_examples, self.shape.classes))
        result[self.counted] = values.reshape(-1, self.shape.classes)
        return result

    def solved(self, g: np.ndarray, h: np.ndarray, targets: list[Any]) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """The step of W and of the duals, and that of the heights above the walls where there are any."""
        if self.walls is None:
            return *self.system.solve(g, h), []
        height, dual = self.inside[-1], self.against[-1]
        off = self.walls.across(self.W.ravel()) - self.walls.low - height
        push = (targets[-1] - dual * off) / height
        if self.walls.matrix is None:
            dW, change = self.system.solve(g + self.walls.combined(push, self.size).reshape(g.shape), h)
        else:
            dW, change = self.system.solve(g, h, push)
        return dW, change, [self.away(dW) + off]

    def away(self, dW: np.ndarray) -> np.ndarray:
        """How far the system's last solution leads away from the walls."""
        assert self.walls is not None
        return self.walls.across(dW.ravel()) if self.walls.matrix is None else self.system.rise


def products(inside: tuple[np.ndarray, ...], against: tuple[np.ndarray, ...]) -> float:
    return float(sum(np.vdot(x, s) for x, s in zip(inside, against, strict=True)))


def moved_product(x: np.ndarray, s: np.ndarray, dx: np.ndarray, ds: np.ndarray, far: float, beyond: float = 0.1) -> np.ndarray:
    """The products of pairs after a step that is somewhat longer than it can be."""
    aim = min(1.0, 1.1 * far + beyond)
    return (x + aim * dx) * (s + aim * ds)


def recentred(product: np.ndarray, goal: float) -> np.ndarray:
    """What brings products that are far from the goal nearer to it (Gondzio 1996)."""
    return np.maximum(np.clip(product, goal / SPREAD, goal * SPREAD) - product, -goal * SPREAD)


def moved(arrays: tuple[np.ndarray, ...], steps: list[np.ndarray], far: float) -> tuple[np.ndarray, ...]:
    return tuple(x + far * dx for x, dx in zip(arrays, steps, strict=True))


def to_border(arrays: tuple[np.ndarray, ...], steps: tuple[np.ndarray, ...]) -> float:
    """The part of the steps at which the first number would be zero; at most 1."""
    return 1.0 / max(1.0, -min(float(np.min(dx / x, initial=0.0)) for x, dx in zip(arrays, steps, strict=True)))


# ---- a loss of its own for each score ------------------------------------------------------------------------


class Sides(NamedTuple):
    """A loss as the largest of cap (margin - sign z) over its sides, and zero, or of its square; (sides, examples)."""

    sign: np.ndarray
    margin: np.ndarray
    cap: np.ndarray
    squared: bool = False


@singledispatch
def sides(loss: Any) -> Sides | None:
    """The sides of a loss as kernels see it; None where it has none."""
    return None


def has_sides(loss: Any) -> bool:
    """Whether a loss as kernels see it has sides, which are not made for that."""
    return sides.dispatch(type(loss)) is not sides.dispatch(object)


@sides.register
def _(loss: Hinge) -> Sides:
    return Sides(loss.sign[None], loss.margin[None], loss.cap)


@sides.register
def _(loss: SquaredHinge) -> Sides:
    return Sides(loss.sign[None], loss.margin[None], loss.cap, True)


@sides.register
def _(loss: EpsilonInsensitive) -> Sides:
    sign = np.repeat([[1.0], [-1.0]], loss.target.size, axis=1)
    return Sides(sign, sign * loss.target - loss.epsilon, loss.cap)


@sides.register
def _(loss: SquaredEpsilonInsensitive) -> Sides:
    sign = np.repeat([[1.0], [-1.0]], loss.target.size, axis=1)
    return Sides(sign, sign * loss.target - loss.epsilon, loss.cap, True)


class ScalarInterior(InteriorPoint):
    """A loss for each score. `inside` are a and its room, (sides, scores that count); squared losses leave all the room, and
    their rewards bend: `soft`. `net` is what the sides add up to, moved beside them: they may be large, and nearly equal."""

    held = (*InteriorPoint.held, "net")
    net: np.ndarray

    def __init__(self, shape: EntryShape, start: Start, setting: Setting):
        super().__init__(shape, start, setting, shape.system(False))
        self.shape: EntryShape = shape
        self.settle()

    def lay_out(self) -> None:
        """The sides of the losses, of scores that count."""
        found = sides(self.shape.losses)
        assert found is not None
        self.counted = np.flatnonzero(found.cap > NO_CAP * found.cap.max(initial=0.0))
        self.sign, self.margin = found.sign[:, self.counted], found.margin[:, self.counted]
        self.cap, self.squared = found.cap[self.counted], found.squared
        self.soft: Any = 0.5 / self.cap if found.squared else 0.0

    def settle(self) -> None:
        """From the centre, or from duals on the border, pulled inside."""
        self.lay_out()
        excess = self.excess()
        self.warm = self.warm or self.risk(excess) == 0.0  # may be the optimum, whose value has no relative part
        size = float(np.mean(np.abs(excess))) if excess.size else 1.0
        cap = np.broadcast_to(2.0 * size * self.cap if self.squared else self.cap, excess.shape)
        a, mu = 0.5 * cap, 0.5 * float(np.mean(np.abs(excess) * cap)) if excess.size else size
        if (taken := self.takes_up()) and self.squared:
            pull = self.pull(self.risk(excess))
            a = (1.0 - pull) * np.maximum(self.sign * self.duals.ravel()[self.counted], 0.0) + pull * a
            mu = min(mu, float(np.mean(np.abs(excess) * np.where(excess > 0.0, 0.5 * cap, a))))
        elif taken and (gap := self.relative_gap(risk := self.risk(excess))) < WORTHLESS:
            value = self.problem.regularizer.penalty(self.shape.packed(self.W)) + risk
            return self.begin_on_path(excess, cap, TIMES_GAP * gap * value / (2 * excess.size), size)
        self.begin_at((a,) if self.squared else (a, cap - a), mu, size)

    def spread(self, values):
        result = np.zeros((self.problem.n_examples, self.shape.classes))
        result.ravel()[self.counted] = values
        return result

    def begin_on_path(self, excess: np.ndarray, cap: np.ndarray, mu: float, size: float) -> None:
        """At the multipliers with t - s = excess, mu/s + mu/t = cap: the larger one is a root, and the other their difference or,
        where that cancels, the product over it."""
        mu = max(mu, LEAST_MU)
        far, near = np.abs(excess), mu / cap
        larger = 0.5 * far + near + np.hypot(0.5 * far, near)
        smaller = near * (larger / (larger - near))  # from 1/s + 1/t = 1/near
        against = np.where(excess > 0.0, smaller, larger), np.where(excess > 0.0, larger, smaller)
        self.begin_at(tuple(mu / s for s in against), mu, size)

    def excess(self) -> np.ndarray:
        """margin - sign z."""
        return self.margin - self.sign * scores_of(self.table, self.W).ravel()[self.counted]

    def risk(self, excess: np.ndarray) -> float:
        most = np.maximum(excess, 0.0).max(axis=0)
        return float(self.cap @ (most * most if self.squared else most))

    def look(self):
        excess, a = self.excess(), self.inside[0]
        self.residual = excess - self.soft * a
        self.slack = self.gradient(self.stored())
        risk = self.risk(excess)
        self.lost = risk - float(np.vdot(a, excess)) + 0.5 * float(np.sum(self.soft * a * a))
        return self.problem.regularizer.penalty(self.shape.packed(self.W)) + risk

    def left_by_losses(self):
        return self.lost

    def theta(self):
        bent = self.against[0] / self.inside[0] + self.soft
        self.give = 1.0 / (bent if self.squared else bent + self.against[1] / self.inside[1])
        return self.spread(self.give.sum(axis=0))

    def direction(self, targets):
        rho = self.residual + targets[0] / self.inside[0]
        if not self.squared:
            rho -= targets[1] / self.inside[1]
        whole = self.give.sum(axis=0)
        dW, change, heights = self.solved(self.slack, self.spread((self.sign * self.give * rho).sum(axis=0)), targets)
        # The change of a sum of two sides, and what they lose both: da = Theta (rho - sign X dw), without its cancellation.
        da = self.followed(change)[0]
        if len(rho) == 2:
            da = da + self.give[0] * self.give[1] / whole * (rho[0] + rho[1])
        return dW, [da, *([] if self.squared else [-da]), *heights]

    def followed(self, change):
        da = self.sign * self.give / self.give.sum(axis=0) * change.ravel()[self.counted]
        return (da,) if self.squared else (da, -da)

    def begin_at(self, inside, mu, size):
        super().begin_at(inside, mu, size)
        self.net = (self.sign * self.inside[0]).sum(axis=0)

    def place(self):
        return *super().place(), self.net

    def return_to(self, place):
        super().return_to(place[:3])
        self.net = place[3]

    def go(self, dW, ahead, back, far):
        net = self.net + far * (self.sign * ahead[0]).sum(axis=0)
        self.return_to((self.W + far * dW, moved(self.inside, ahead, far), moved(self.against, back, far), net))

    def stored(self):
        return self.spread(self.net)
