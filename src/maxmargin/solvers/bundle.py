"""Bundle methods for any convex risk (Teo et al. 2010; Uřičář and Franc 2012, Algorithms 1 and 2).

    F(w) = 1/2 ||w||^2 + R(w),     R = sum_p R_p convex, each part under-estimated by the planes met so far

Each iteration asks the risk once, at the minimiser of the model 1/2 ||w||^2 + sum_p max_t (b_t + <a_t, w>) + alpha ||w - w_t||^2.
Without the prox-term (alpha = 0) that is BMRM, with one plane an iteration or with P of them. With it, alpha stays as long as F
falls by at least gamma, such that T steps like it would reach the target; otherwise alpha becomes the smallest number of a grid
0, a, 2 a, 4 a, ... for which the point moves by K at the most.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from numbers import Integral, Real

import numpy as np

from ..jit import clock
from ..problems.base import Problem
from ..problems.blocked import StreamProblem
from ..problems.kernel import KernelMultilabelProblem
from ..problems.multilabel import MultilabelProblem
from ..problems.risk import Cut, Layout, Risk, layout_of, risk_of
from ..problems.structured import SampleStream
from .base import Run, Setting, Solver
from .loop import SMALLER
from .pace import never
from .planes.collected import AGGREGATE, Planes, most_planes
from .planes.coordinates import Coordinates, coordinates_of
from .planes.descent import descended, serves
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
    """What a run leaves for one at another C: its planes, its best point with the values of the risk there, and its C."""

    planes: Planes
    w: np.ndarray
    values: np.ndarray
    C: float

    def at(self, C: float) -> "PlaneStart":
        """The same at another C; the planes are changed in place."""
        factor = C / self.C
        self.planes.rescale(factor)
        return PlaneStart(self.planes, self.w, factor * self.values, C)


class Bundle(Solver):
    """Bundle methods: BMRM, Prox-BMRM, P-BMRM and Prox-P-BMRM (Uřičář and Franc 2012), for every problem with a risk.

    An iteration is one pass over the data for the risk and its subgradient, on `n_jobs` threads, and a small quadratic program.
    Serves all estimators, explicit problems and `maxmargin.minimize`; priors and signs, but neither kernels nor signs under a
    full covariance.

    Parameters
    ----------
    prox : bool, default=True
        Keep consecutive points near each other by a prox-term. Without it iterations zigzag where C is large.
    n_models : int or "auto", default="auto"
        The examples are split into so many groups, each with planes of its own. "auto" is 16 (fewer where there are fewer
        examples, or where `memory` is short).
    init : {"auto", "sgd", "zero"} or array, default="auto"
        Where to begin: after `passes` passes of stochastic gradient descent, at zero, or at these weights (one a feature and the
        intercept's last; a row of them for each class; of a `StructuredSVM` in the order of `w_`; not for multi-label models).
        "auto" is the previous point with `warm_start`, else "sgd" with a prox-term and "zero" without, with priors or their
        signs, and for a risk of your own. On a path the planes are kept; it goes on from the previous point where "sgd" is not
        asked for or not possible.
    max_step : float, default=0.01
        K, as a part of the length of the first point: how far consecutive points may be apart when alpha is adjusted.
    patience : int, default=100
        T: alpha is adjusted again unless that many steps like the last one would reach the target.
    idle : int, default=10
        Planes without mass for more iterations than this are dropped.
    memory : float, default=1024
        Megabytes for planes and their inner products. When they are full, idle planes go first; if all have mass, they are
        replaced by two combinations of them for each model, so that no bound is lost.
    passes : int, default=10
        Passes of stochastic gradient descent.
    """

    keeps_duals = False

    def __init__(
        self,
        prox=True,
        n_models="auto",
        init="auto",
        *,
        max_step=0.01,
        patience=100,
        idle=10,
        memory=1024.0,
        passes=10,
    ):
        self.prox = prox
        self.n_models = n_models
        self.init = init
        self.max_step = max_step
        self.patience = patience
        self.idle = idle
        self.memory = memory
        self.passes = passes

    def serves(self, problem):
        if problem.half_spaces is not None:
            return "Bundle does not serve sign constraints under a full prior covariance; use solver='dual_coordinate'."
        if problem.made_of is not None and not isinstance(self.init, str):
            raise ValueError("init must be 'auto', 'sgd' or 'zero' for multi-label problems; use warm_start for weights.")
        return knows(problem)

    def begin(self, problem, start, setting):
        layout = layout_of(problem)
        dim = layout.flat(np.zeros(problem.weight_shape)).size
        groups = self._groups(problem, dim)
        risk = risk_of(problem, groups, setting.n_jobs)
        assert risk is not None  # or it would not have been served
        left = start.duals if isinstance(start.duals, PlaneStart) and start.duals.planes.n_models == groups else None
        memory = float(self.memory) * 2**20
        options = BundleOptions(setting.tol, bool(self.prox), float(self.max_step), int(self.patience), int(self.idle), memory)
        if left is None:
            point = self._start(problem, layout, dim, start.weights, setting)
            return BundleRun(problem, risk, layout, point, None, options, setting.stop)
        warm = self._descended(problem, layout, setting)
        return BundleRun(problem, risk, layout, warm, left.at(problem.C), options, setting.stop)

    def check(self) -> None:
        for name, least in (("patience", 1), ("idle", 1), ("passes", 0)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name} must be an integer >= {least}; got {value!r}.")
        for name in ("max_step", "memory"):
            value = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool) or not 0.0 < float(value) < np.inf:
                raise ValueError(f"{name} must be a finite number > 0; got {value!r}.")
        if not isinstance(self.prox, bool | np.bool_):
            raise ValueError(f"prox must be True or False; got {self.prox!r}.")
        if isinstance(self.init, str) and self.init not in ("auto", "sgd", "zero"):
            raise ValueError(f"init must be 'auto', 'sgd', 'zero' or an array of weights; got {self.init!r}.")
        if self.n_models != "auto" and (
            not isinstance(self.n_models, Integral) or isinstance(self.n_models, bool) or self.n_models < 1
        ):
            raise ValueError(f"n_models must be 'auto' or an integer >= 1; got {self.n_models!r}.")

    def _groups(self, problem: Problem, dim: int) -> int:
        """How many models there are; 0 where the risk itself decides."""
        count = problem.n_parts
        if count is None:
            return 0 if self.n_models == "auto" else int(self.n_models)
        if self.n_models == "auto":
            room = most_planes(dim, float(self.memory) * 2**20) // 64
            return max(1, min(BUNDLE.models, count, room))
        if self.n_models > count:
            raise ValueError(f"n_models={self.n_models} exceeds the {count} examples: a model needs one at least.")
        return int(self.n_models)

    def _start(self, problem: Problem, layout: Layout, dim: int, weights, setting: Setting) -> np.ndarray:
        if not isinstance(self.init, str):
            try:
                start = np.array(self.init, dtype=np.float64).ravel()
            except (TypeError, ValueError):
                raise ValueError(f"init must be 'auto', 'sgd', 'zero' or an array of weights; got {self.init!r}.") from None
            if start.size != dim or not np.all(np.isfinite(start)):
                raise ValueError(f"init must hold {dim} finite weights for this problem; it has {start.size}.")
            return start
        if self.init == "auto" and problem.fitting(weights) is not None:
            return layout.flat(weights)
        found = self._descended(problem, layout, setting)
        if found is None and self.init == "sgd" and not serves(problem):
            raise ValueError("init='sgd' serves neither priors, signs nor a risk of your own; use 'zero' or give weights.")
        return np.zeros(dim) if found is None else found

    def _descended(self, problem: Problem, layout: Layout, setting: Setting) -> np.ndarray | None:
        """Where stochastic gradient descent leads, if it is asked for and possible."""
        if not isinstance(self.init, str) or not (self.init == "sgd" or (self.init == "auto" and self.prox)):
            return None
        found = descended(problem, int(self.passes), setting.seed, setting.stop)
        return None if found is None else layout.flat(found)


@singledispatch
def knows(problem: Problem) -> str | None:
    """None, or the reason why there are no planes of this problem."""
    return None if risk_of(problem) is not None else f"Bundle knows no subgradient of a {type(problem).__name__}."


@knows.register
def _(problem: MultilabelProblem) -> str | None:
    return None  # its groups have planes


@knows.register
def _(problem: KernelMultilabelProblem) -> str | None:
    return "Bundle serves no kernels: its planes are vectors of weights. Use solver='dual_coordinate'."


@knows.register
def _(problem: StreamProblem | SampleStream) -> str | None:
    return "Bundle needs the data in memory; a source is read by OnlineDual."


def above(offsets: np.ndarray, products: np.ndarray, values: np.ndarray, objective: float, terms: np.ndarray) -> int | None:
    """The plane that lies farthest above the function, beyond what rounding explains; None if there is none.

    `terms`: how large those are that add up to products, here and where offsets were computed; they may cancel.
    """
    size = np.abs(offsets) + np.abs(products) + np.abs(values) + abs(objective)
    over = offsets + products - values - WRONG * size - ROUNDING * terms
    return int(np.argmax(over)) if np.any(over > 0.0) else None


def finite(u: np.ndarray, values: np.ndarray, slopes: np.ndarray, offsets: np.ndarray) -> bool:
    """Whether the objective and the inner products of planes can be computed at u."""
    squares = np.einsum("pj,pj->p", slopes, slopes)
    return bool(np.isfinite(u @ u + values.sum() + np.abs(offsets).sum() + squares.sum()))


def broken(point: str, origin: str, offset: float, product: float, value: float) -> str:
    return (
        f"The risk is not convex, or its subgradient is wrong: its value at {point} is {value:.9g}, but the plane from {origin} "
        f"says that it is at least {offset + product:.9g} there."
    )


class BundleRun(Run):
    """A run of a bundle method on one problem, in coordinates where the quadratic term is 1/2 ||u||^2."""

    exact = True

    held = (
        *(*Run.held, "qp_seconds", "oracle_seconds", "best", "best_w", "best_values", "best_call", "value", "alpha", "gamma"),
        *("adjust", "reach", "shortest", "widest", "bound_due", "next", "point"),
    )
    average = True

    @property
    def calls(self) -> int:  # type: ignore[override]  # calls of the max-oracle, one an example
        return self.visits

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
        self.passes = self.visits = 0
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
            self.next = self.point = self.settled(self.coordinates.nearest(self.coordinates.inside(start)))
            self.value, self.reach = np.inf, 0.0

    def take_up(self, left: PlaneStart, stop: Callable[[], bool]) -> None:
        """Go on with the planes of a run at another C: the risk at its best point is known, and where the model wants to go from
        there it may, as the optimum is elsewhere now."""
        planes = self.planes = left.planes
        planes.idle[: planes.size] = 0
        self.arrive(self.settled(self.coordinates.inside(left.w)), left.values)
        planes.here[: planes.size] = planes.slopes[: planes.size] @ self.point
        self.improve_bound(stop)
        planes.masses[: planes.size] = planes.bound[: planes.size]
        self.reach = max(self.reach, planes.distance(planes.masses, 0.0, self.point, self.coordinates))
        self.choose(stop)

    # ---- one iteration ------------------------------------------------------------------------------------

    def advance(self, stop: Callable[[], bool]) -> float:
        """Ask the risk at the next point, add its planes, solve the reduced problem; returns the gap."""
        u = self.next
        began = clock()
        with np.errstate(over="ignore", invalid="ignore"):
            cut = self.risk.cut(self.coordinates.outside(u))
            slopes, offsets = self.coordinates.planes(cut.slopes, cut.offsets)
        asked = clock()
        self.oracle_seconds += asked - began
        self.passes += 1
        self.visits += self.problem.n_examples
        if not finite(u, cut.values, slopes, offsets):
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
        if np.array_equal(self.settled(ahead), self.settled(u)):
            raise ValueError(f"The risk overflows: its value or its subgradient is too large for float64. {SMALLER}")
        return self.settled(ahead)

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
            if not self.risk.ours and (t := above(*known, size, terms)) is not None:
                origin = "an earlier call" if planes.born[t] == AGGREGATE else f"call {planes.born[t]}"
                raise ValueError(broken(f"call {self.passes}", origin, *(float(array[t]) for array in known)))
            over = np.maximum(known[0] + known[1] - known[2], 0.0)
            planes.offsets[:n] -= over
            self.dual -= float(planes.bound[:n] @ over)
        if not self.best_call:
            return offsets
        known = offsets, slopes @ self.coordinates.inside(self.best_w), self.best_values
        terms = np.linalg.norm(slopes, axis=1) * self.widest
        if not self.risk.ours and (t := above(*known, size, terms)) is not None:
            raise ValueError(broken(f"call {self.best_call}", f"call {self.passes}", *(float(array[t]) for array in known)))
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
        self.next = self.settled(u)

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

    def settled(self, u: np.ndarray) -> np.ndarray:
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
        return PlaneStart(self.planes, self.best_w, self.best_values, self.problem.C) if self.planes is not None else None

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
