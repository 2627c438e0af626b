"""A run of a bundle method: its planes, the point it is at, and how far it dares to go. `bundle` has the method."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...jit import clock
from ...problems.risk import Cut, Layout, Risk
from ...utils.blas import blas_threads
from ..base import Run
from ..loop import SMALLER
from ..pace import never
from .collected import AGGREGATE, Planes, most_planes, unscaled
from .coordinates import Coordinates, coordinates_of
from .tuning import BUNDLE, BundleTuning

LARGEST = 2.0**60
WRONG = 1e-6  # by this part of the numbers involved a plane may lie above the function: rounding of a user's oracle
ROUNDING = 2.0**-40  # by this part of the terms of a sum it may be off
BACK = 2.0**-10  # part of the way to a point where the risk overflows that is gone instead


@dataclass(frozen=True)
class BundleOptions:
    """How a run goes about it; see `Bundle`."""

    tol: float
    prox: bool
    max_step: float
    patience: int
    idle: int
    memory: float
    average: bool = True
    tuning: BundleTuning = BUNDLE


@dataclass(frozen=True)
class PlaneStart:
    """What a run leaves for others: its planes as named arrays, its best point, and the values of the risk there. All at C = 1,
    and nothing that a run works on, so that it serves any C any number of times."""

    planes: dict[str, Any]
    n_models: int
    w: np.ndarray
    values: np.ndarray

    def fits(self, n_models: int, limit: int) -> bool:
        """Whether a run with so many models, and no more planes than this, can begin with them."""
        return n_models == self.n_models and len(self.planes["planes.slopes"]) <= limit


def farthest_above(
    offsets: np.ndarray, products: np.ndarray, values: np.ndarray, objective: float, terms: np.ndarray
) -> int | None:
    """The plane that lies farthest above the function, beyond what rounding explains; None if there is none.

    `terms`: how large those are that add up to products, here and where offsets were computed; they may cancel.
    """
    size = np.abs(offsets) + np.abs(products) + np.abs(values) + abs(objective)
    over = offsets + products - values - WRONG * size - ROUNDING * terms
    return int(np.argmax(over)) if np.any(over > 0.0) else None


def computable(u: np.ndarray, values: np.ndarray, slopes: np.ndarray, offsets: np.ndarray) -> bool:
    """Whether the objective and the inner products of planes can be computed at u."""
    squares = np.einsum("pj,pj->p", slopes, slopes)
    return bool(np.isfinite(u @ u + values.sum() + np.abs(offsets).sum() + squares.sum()))


def broken(suspect: str, point: str, origin: str, offset: float, product: float, value: float) -> str:
    return (
        f"The risk is not convex, or its subgradient is wrong: its value at {point} is {value:.9g}, but the plane from {origin} "
        f"says that it is at least {offset + product:.9g} there{f': {suspect}' if suspect else ''}."
    )


class BundleRun(Run):
    """A run of a bundle method on one problem, in coordinates where the quadratic term is 1/2 ||u||^2."""

    exact = True

    held = (
        *(*Run.held, "calls", "qp_seconds", "oracle_seconds", "best", "best_w", "best_values", "best_call"),
        *("value", "alpha", "gamma", "adjust", "reach", "shortest", "widest", "bound_due", "next", "point"),
    )
    average = True

    def __init__(
        self,
        problem,
        risk: Risk,
        layout: Layout,
        start: np.ndarray | None,
        left: PlaneStart | None,
        options: BundleOptions,
        stop: Callable[[], bool] = never,
    ):
        """`start` may be None where an earlier run left something."""
        self.problem, self.risk, self.layout, self.options = problem, risk, layout, options
        self.coordinates: Coordinates = coordinates_of(problem, layout)
        self.planes: Planes | None = None
        self.passes = self.visits = self.calls = 0
        self.qp_seconds = self.oracle_seconds = 0.0
        self.best, self.best_w, self.best_values, self.best_call = np.inf, np.zeros(0), np.zeros(0), 0
        self.dual = -np.inf
        self.value = np.inf  # F at the last point
        self.alpha, self.gamma, self.adjust = 0.0, np.inf, True
        self.reach = self.shortest = self.widest = 0.0
        self.bound_due = 0  # the iteration from which on the lower bound is brought up to date
        self.warm = left is not None
        if left is not None:
            self.take_up(left, stop)
        if start is not None:
            self.next = self.point = self.rounded(self.coordinates.nearest(self.coordinates.inside(start)))
            self.value, self.reach = np.inf, 0.0

    def take_up(self, left: PlaneStart, stop: Callable[[], bool]) -> None:
        """Go on with the planes of a run at another C: the risk at its best point is known, and where the model wants to go from
        there it may, as the optimum is elsewhere now."""
        C, slopes = self.problem.C, left.planes["planes.slopes"]
        planes = self.planes = self.new_planes((left.n_models, slopes.shape[1]))
        planes.resume(left.planes)
        planes.rescale(C)
        planes.idle[: planes.size] = 0
        self.arrive(self.rounded(self.coordinates.inside(left.w)), C * left.values)
        planes.here[: planes.size] = planes.slopes[: planes.size] @ self.point
        self.improve_bound(stop)
        planes.masses[: planes.size] = planes.bound[: planes.size]
        self.reach = max(self.reach, planes.distance(planes.masses, 0.0, self.point, self.coordinates))
        self.choose(stop)

    # ---- one iteration ------------------------------------------------------------------------------------

    def advance(self, stop: Callable[[], bool]) -> float:
        """Ask the risk at the next point, add its planes, solve the reduced problem; returns the gap.

        The risk has threads of its own. Products with planes are so short that threads cost more than they bring there, and their
        rounding would depend on the number of them.
        """
        with blas_threads(1):
            return self.iterate(stop)

    def iterate(self, stop: Callable[[], bool]) -> float:
        """The same, whatever the threads of matrix products are."""
        u = self.next
        began = clock()
        with np.errstate(over="ignore", invalid="ignore"):
            cut = self.risk.cut(self.coordinates.outside(u))
            slopes, offsets = self.coordinates.planes(cut.slopes, cut.offsets)
        asked = clock()
        self.oracle_seconds += asked - began
        self.passes += 1
        self.visits += self.problem.n_examples
        self.calls = self.visits  # of the max-oracle, one an example
        if not computable(u, cut.values, slopes, offsets):
            self.next = self.retreat(u)
            return np.inf
        if self.planes is None:
            self.planes = self.new_planes(slopes.shape)
            if self.risk.nonnegative:  # the plane zero is one
                self.planes.add(np.zeros_like(slopes), np.zeros_like(offsets), AGGREGATE)
        planes = self.planes
        planes.here[: planes.size] = planes.slopes[: planes.size] @ u
        promised = self.value - 0.5 * float(u @ u) - float(planes.highest().sum()) if np.isfinite(self.value) else np.inf
        offsets = self.reconciled(cut, slopes, offsets)
        planes.add(slopes, offsets, self.passes)
        planes.here[planes.size - len(slopes) : planes.size] = slopes @ u
        self.arrive(u, cut.values, promised)
        if not stop():
            self.choose(stop)
        elif not np.isfinite(self.dual):  # a certificate needs a bound
            self.improve_bound(never)
        planes.age(self.options.idle)
        self.qp_seconds += clock() - asked
        return self.best - self.dual

    def retreat(self, u: np.ndarray) -> np.ndarray:
        """Where to ask instead of u, where the risk overflows: nearer to the best point, or at the start of all coordinates."""
        near = self.coordinates.inside(self.best_w) if self.best_call else self.coordinates.nearest(np.zeros_like(u))
        ahead = near + BACK * (u - near) if self.best_call else near
        if np.array_equal(self.rounded(ahead), self.rounded(u)):
            raise ValueError(f"The risk overflows: its value or its subgradient is too large for float64. {SMALLER}")
        return self.rounded(ahead)

    def new_planes(self, shape: tuple[int, int]) -> Planes:
        groups, dim = shape
        limit = most_planes(dim, self.options.memory, self.options.tuning)
        if limit < 4 * groups:
            least = 8 * 4 * groups * (dim + 4 * groups) / 2**20
            raise ValueError(
                f"memory={self.options.memory / 2**20:g} MB is too little for {groups} models of {dim} weights: "
                f"{least:.3g} MB are needed at least. Raise it or lower n_models."
            )
        return Planes(dim, groups, limit, self.options.tuning)

    def reconciled(self, cut: Cut, slopes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """The offsets of the new planes, after these and the old ones were lowered to the values that are known: no bound may lie
        above them, not even by rounding. By more than that the function is not convex, or a subgradient or maximum was wrong."""
        planes = self.planes
        assert planes is not None
        u, n = self.next, planes.size
        self.widest = max(self.widest, float(np.linalg.norm(u)))
        size = min(self.best, 0.5 * float(u @ u) + float(np.abs(cut.values).sum()))
        if n > 0:
            known = planes.offsets[:n], planes.here[:n], cut.values[planes.model[:n]]
            terms = np.sqrt(planes.gram.diagonal()[:n]) * self.widest
            if not self.risk.ours and (t := farthest_above(*known, size, terms)) is not None:
                origin = "an earlier call" if planes.born[t] == AGGREGATE else f"call {planes.born[t]}"
                given = (float(array[t]) for array in known)
                raise ValueError(broken(self.problem.suspect, f"call {self.passes}", origin, *given))
            over = np.maximum(known[0] + known[1] - known[2], 0.0)
            planes.offsets[:n] -= over
            self.dual -= float(planes.bound[:n] @ over)
        if not self.best_call:
            return offsets
        known = offsets, slopes @ self.coordinates.inside(self.best_w), self.best_values
        terms = np.linalg.norm(slopes, axis=1) * self.widest
        if not self.risk.ours and (t := farthest_above(*known, size, terms)) is not None:
            given = (float(array[t]) for array in known)
            raise ValueError(broken(self.problem.suspect, f"call {self.best_call}", f"call {self.passes}", *given))
        return offsets - np.maximum(known[0] + known[1] - known[2], 0.0)

    def arrive(self, u: np.ndarray, values: np.ndarray, promised: float = np.inf) -> None:
        """The values of the risk at u are known: the objective, the best point, and whether alpha is to be adjusted.

        `promised` is how far the model said that the objective would fall. Where it did, the model may be trusted farther: the
        first point may have been far from the optimum, and `reach` is measured by it.
        """
        value, last = 0.5 * float(u @ u) + float(values.sum()), self.value
        if value < self.best:
            self.best, self.best_w, self.best_values, self.best_call = value, self.coordinates.outside(u), values, self.passes
        if self.reach == 0.0:
            length = float(np.linalg.norm(u))
            self.reach = self.options.max_step * (length if length > 0.0 else float(np.sqrt(2.0 * max(value, 0.0))) or 1.0)
            self.shortest = self.reach
        if self.adjust and np.isfinite(self.dual):
            self.gamma = max(value - self.dual - self.options.tol * abs(value), 0.0) / self.options.patience
        self.adjust = not last - value >= self.gamma or not np.isfinite(last)
        if last - value >= self.options.tuning.trust * promised:
            self.reach, self.adjust = 2.0 * self.reach, True
        elif value > last:
            self.reach = max(0.5 * self.reach, self.shortest)
        self.value, self.point = value, u

    def choose(self, stop: Callable[[], bool]) -> None:
        """The next point, and a lower bound."""
        planes = self.planes
        assert planes is not None
        if self.options.prox and self.adjust:
            self.alpha = self.adjusted(stop)
        else:
            self.reduce(planes.masses, self.alpha, stop)
        v, u = planes.point(planes.masses, self.alpha, self.point, self.coordinates)
        self.keep_bound(planes.masses, v)
        self.next = self.rounded(u)

    def adjusted(self, stop: Callable[[], bool]) -> float:
        """The smallest alpha of the grid that moves the point by `reach` at the most, searched from the last one; the masses
        are left at its solution. The lower bound is brought up to date by the solution without a prox-term: by the way where the
        search begins there, else first, if that is some time ago."""
        planes = self.planes
        assert planes is not None
        alpha, masses = self.alpha, planes.masses
        if alpha > 0.0 and self.passes >= self.bound_due:
            self.improve_bound(stop)
        self.reduce(masses, alpha, stop)
        if not self.near(alpha):
            if alpha == 0.0:
                self.keep_bound(masses, planes.pull(masses))
            while not self.near(alpha) and alpha < LARGEST and not stop():
                alpha = max(2.0 * alpha, self.options.tuning.first)
                self.reduce(masses, alpha, stop)
            return alpha
        while alpha > 0.0 and not stop():
            smaller, before = 0.5 * alpha if alpha > self.options.tuning.first else 0.0, masses.copy()
            self.reduce(masses, smaller, stop)
            if not self.near(smaller):
                masses[:] = before
                break
            alpha = smaller
        return alpha

    def near(self, alpha: float) -> bool:
        planes = self.planes
        assert planes is not None
        return planes.distance(planes.masses, alpha, self.point, self.coordinates) <= self.reach

    def reduce(self, masses: np.ndarray, alpha: float, stop: Callable[[], bool]) -> None:
        """The solution of the reduced problem at this alpha in place of these masses, as exact as the gap at hand needs it."""
        assert self.planes is not None
        gap = self.best - self.dual if np.isfinite(self.dual) else np.inf
        size = max(abs(self.best), np.finfo(float).tiny)
        precision = self.options.tuning.share * min(max(gap, self.options.tol * abs(self.best)), size)
        self.planes.reduce(masses, alpha, self.point, self.coordinates, precision, stop)

    def improve_bound(self, stop: Callable[[], bool]) -> None:
        planes = self.planes
        assert planes is not None
        masses, self.bound_due = planes.bound.copy(), self.passes + self.options.tuning.seldom
        self.reduce(masses, 0.0, stop)
        self.keep_bound(masses, planes.pull(masses))

    def keep_bound(self, masses: np.ndarray, v: np.ndarray) -> None:
        """Keep the lower bound that these masses prove, if it is the best."""
        planes = self.planes
        assert planes is not None
        bound = planes.lower_bound(masses, v, self.coordinates)
        if bound > self.dual:
            self.dual = bound
            planes.bound[: planes.size] = masses[: planes.size]

    def rounded(self, u: np.ndarray) -> np.ndarray:
        """u as its weights have it: under a narrow prior some of it is lost in rounding."""
        if self.coordinates.mean is None and self.coordinates.scale is None:
            return u
        return self.coordinates.inside(self.coordinates.outside(u))

    def snapshot(self):
        return super().snapshot() | ({} if self.planes is None else self.planes.snapshot())

    def resume(self, state):
        super().resume(state)
        self.planes = None
        if "planes.slopes" in state:
            shape = len(np.unique(state["planes.model"])), state["planes.slopes"].shape[1]
            self.planes = self.new_planes(shape)
            self.planes.resume(state)

    # ---- what the loop asks for ---------------------------------------------------------------------------

    def synchronise(self) -> float:
        return self.dual

    def candidates(self) -> list[np.ndarray]:
        """The best point; before there is one, where the run would have gone next."""
        return [self.layout.shaped(self.best_w if self.best_w.size else self.coordinates.outside(self.next))]

    def primal(self, w: np.ndarray, n_jobs: int) -> float:
        """Known: the risk was asked there."""
        return self.best

    def left(self) -> PlaneStart | None:
        if self.planes is None:
            return None
        C = self.problem.C
        return PlaneStart(unscaled(self.planes.snapshot(), C), self.planes.n_models, self.best_w, self.best_values / C)

    def statistics(self) -> dict[str, float]:
        planes = self.planes
        if planes is None:
            return {}
        return {
            "models": planes.n_models,
            "planes": planes.size,
            "most_planes": planes.most,
            "dropped_planes": planes.dropped,
            "plane_megabytes": planes.megabytes,
            "oracle_seconds": self.oracle_seconds,
            "qp_seconds": self.qp_seconds,
        }
