"""The planes a bundle method has collected, with their inner products, and the reduced problem over them.

Plane t belongs to model p(t) and says: part p of the risk is at least b_t + <a_t, u> for every u. With masses beta on the planes
that sum to one in each model, and v = -sum_t beta_t a_t,

    lower bound     sum_t beta_t b_t + min_u [1/2 ||u||^2 - <v, u>]                       at any feasible beta
    next point      u = nearest((v + 2 alpha c) / (1 + 2 alpha))                          with a prox-term alpha ||u - c||^2

The bound is computed from v itself, never from the value of a model at an inexact solution, so that it holds whatever the
quadratic program left undone (Uřičář and Franc 2012, whose lower bound is the model's value).
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..pace import never
from . import simplex_qp
from .coordinates import Coordinates
from .tuning import BUNDLE, BundleTuning

NUMBER = 8  # bytes
NEWTON = 60  # steps at the most where there is a box
BISECTIONS = 60
BOUND_ROUNDING = 4.0 * float(np.finfo(float).eps)  # part of the terms of a bound by which it is lowered
OF_EACH = ("offsets", "here", "model", "born", "idle", "masses", "bound", "slopes")  # what there is of each plane
AGGREGATE = -1  # stands for the iteration that a plane stems from


def most_planes(dim: int, memory: float, tuning: BundleTuning = BUNDLE) -> int:
    """How many planes, with their Gram matrix, fit into this many bytes: n dim + n^2 numbers."""
    numbers = memory / NUMBER
    return min(tuning.planes, int(0.5 * (np.sqrt(dim * dim + 4.0 * numbers) - dim)))


class Planes:
    """Room for `limit` planes; what was never written never takes up memory."""

    def __init__(self, dim: int, n_models: int, limit: int, tuning: BundleTuning = BUNDLE):
        self.n_models, self.limit, self.size, self.tuning = n_models, limit, 0, tuning
        self.slopes, self.gram = np.empty((limit, dim)), np.empty((limit, limit))
        self.offsets, self.here = np.empty(limit), np.empty(limit)  # `here`: <a_t, u> at the last point
        self.model, self.born, self.idle = (np.zeros(limit, np.int64) for _ in range(3))
        self.masses, self.bound = np.zeros(limit), np.zeros(limit)  # of the next point, and of the best lower bound
        self.most = self.dropped = 0

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        return self.offsets, self.here, self.model, self.born, self.idle, self.masses, self.bound

    def snapshot(self) -> dict[str, Any]:
        """All planes as named arrays and numbers."""
        n, arrays = self.size, (*self.columns, self.slopes)
        found: dict[str, Any] = {f"planes.{name}": array[:n].copy() for name, array in zip(OF_EACH, arrays, strict=True)}
        return found | {"planes.gram": self.gram[:n, :n].copy(), "planes.most": self.most, "planes.dropped": self.dropped}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Take up planes in the place of none."""
        self.size = n = len(state["planes.slopes"])
        for name, array in zip(OF_EACH, (*self.columns, self.slopes), strict=True):
            array[:n] = state[f"planes.{name}"]
        self.gram[:n, :n] = state["planes.gram"]
        self.most, self.dropped = state["planes.most"], state["planes.dropped"]

    @property
    def megabytes(self) -> float:
        """Memory that planes and Gram matrix took up at the most."""
        return NUMBER * self.most * (self.slopes.shape[1] + self.most) / 2**20

    def add(self, slopes: np.ndarray, offsets: np.ndarray, born: int) -> None:
        """One plane for each model."""
        count = len(slopes)
        if self.size + count > self.limit:
            self.make_room(count)
        first, fresh = self.size == 0, slice(self.size, self.size + count)
        self.slopes[fresh], self.offsets[fresh], self.model[fresh], self.born[fresh] = slopes, offsets, np.arange(count), born
        self.masses[fresh] = self.bound[fresh] = float(first)
        self.idle[fresh], self.here[fresh] = 0, 0.0
        self.size += count
        products = slopes @ self.slopes[: self.size].T
        self.gram[fresh, : self.size], self.gram[: self.size, fresh] = products, products.T
        self.most = max(self.most, self.size)

    def combined(self, masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each model the plane that is this combination of its planes."""
        spread = np.zeros((self.n_models, self.size))
        spread[self.model[: self.size], np.arange(self.size)] = masses[: self.size]
        return spread @ self.slopes[: self.size], spread @ self.offsets[: self.size]

    def age(self, patience: int) -> None:
        """Count for how long planes have had no mass, and drop those for which it is longer than `patience`."""
        used = (self.masses[: self.size] > 0.0) | (self.bound[: self.size] > 0.0)
        self.idle[: self.size] = np.where(used, 0, self.idle[: self.size] + 1)
        self.drop(np.flatnonzero(self.idle[: self.size] > patience))

    def drop(self, gone: np.ndarray) -> None:
        """Fill the places of these planes with the last ones."""
        left = self.size - gone.size
        stay = np.ones(self.size, bool)
        stay[gone] = False
        to, origin = gone[gone < left], left + np.flatnonzero(stay[left:])
        for array in (*self.columns, self.slopes):
            array[to] = array[origin]
        self.gram[to, : self.size] = self.gram[origin, : self.size]
        self.gram[:left, to] = self.gram[:left, origin]
        self.size, self.dropped = left, self.dropped + gone.size

    def make_room(self, count: int) -> None:
        """Drop the planes that were idle for longest; where too many have mass, keep their combinations instead of them."""
        used = (self.masses[: self.size] > 0.0) | (self.bound[: self.size] > 0.0)
        idle = np.flatnonzero(~used)
        enough = max(count, self.limit // 4)
        self.drop(np.sort(idle[np.argsort(-self.idle[idle], kind="stable")][:enough]))
        if self.size + count > self.limit:
            parts = [self.combined(self.masses), self.combined(self.bound)]
            self.dropped += self.size
            self.size = 0
            for slopes, offsets in parts:
                self.add(slopes, offsets, AGGREGATE)
            half = slice(0, self.n_models), slice(self.n_models, self.size)
            self.masses[half[0]], self.masses[half[1]], self.bound[half[0]], self.bound[half[1]] = 1.0, 0.0, 0.0, 1.0

    def rescale(self, factor: float) -> None:
        """The planes of `factor` times the risk."""
        self.slopes[: self.size] *= factor
        self.offsets[: self.size] *= factor
        self.here[: self.size] *= factor
        self.gram[: self.size, : self.size] *= factor * factor

    def highest(self) -> np.ndarray:
        """The value of each model at the last point."""
        result = np.full(self.n_models, -np.inf)
        np.maximum.at(result, self.model[: self.size], self.offsets[: self.size] + self.here[: self.size])
        return result

    # ---- the reduced problem ------------------------------------------------------------------------------

    def pull(self, masses: np.ndarray) -> np.ndarray:
        """v = -sum_t masses_t a_t"""
        support = np.flatnonzero(masses[: self.size])
        if support.size > self.size // 4:  # cheaper than a copy of these planes
            return -(masses[: self.size] @ self.slopes[: self.size])
        return -(masses[support] @ self.slopes[support])

    def lower_bound(self, masses: np.ndarray, v: np.ndarray, space: Coordinates) -> float:
        """Less what rounding may have added to it: offsets and the quadratic term may be large and nearly cancel."""
        terms, least = masses[: self.size] * self.offsets[: self.size], space.least(v)
        return float(terms.sum()) + least - BOUND_ROUNDING * (float(np.abs(terms).sum()) + abs(least))

    def reduce(
        self,
        masses: np.ndarray,
        alpha: float,
        centre: np.ndarray,
        space: Coordinates,
        precision: float,
        stop: Callable[[], bool] = never,
    ) -> None:
        """Solve the reduced problem from these masses, which are replaced. `here` is <a_t, centre>."""
        n, stiff = self.size, 1.0 + 2.0 * alpha
        if space.boxed:
            self.reduce_boxed(masses, alpha, centre, space, precision, stop)
        else:
            linear = stiff * self.offsets[:n] + (2.0 * alpha) * self.here[:n]
            program = self.gram, linear, self.model[:n]
            masses[:n] = simplex_qp.solve_program(*program, masses[:n], stiff * precision, stop, self.tuning.simplex)

    def point(self, masses: np.ndarray, alpha: float, centre: np.ndarray, space: Coordinates) -> tuple[np.ndarray, np.ndarray]:
        """v, and the point that these masses stand for."""
        v = self.pull(masses)
        return v, space.nearest((v + (2.0 * alpha) * centre) / (1.0 + 2.0 * alpha)) if alpha > 0.0 else space.nearest(v)

    def distance(self, masses: np.ndarray, alpha: float, centre: np.ndarray, space: Coordinates) -> float:
        """How far that point is from the centre; without a box, from inner products alone."""
        if space.boxed:
            return float(np.linalg.norm(self.point(masses, alpha, centre, space)[1] - centre))
        beta, pull = masses[: self.size], np.zeros(self.size)
        simplex_qp.restricted(self.gram, np.flatnonzero(beta), beta, pull)
        square = beta @ pull + 2.0 * (beta @ self.here[: self.size]) + centre @ centre
        return float(np.sqrt(max(square, 0.0))) / (1.0 + 2.0 * alpha)

    def reduce_boxed(
        self, masses: np.ndarray, alpha: float, centre: np.ndarray, space: Coordinates, precision: float, stop
    ) -> None:
        """Newton's method: a quadratic program on the coordinates that are free at the point at hand, then the best step towards
        its solution. The objective is concave and made of quadratic pieces, so that a few steps suffice."""
        n, stiff = self.size, 1.0 + 2.0 * alpha
        A, b, model = self.slopes[:n], self.offsets[:n], self.model[:n]
        beta = simplex_qp.normalised(masses[:n], model)
        parts = simplex_qp.blocks_of(model, self.n_models)
        v = self.pull(beta)
        for _ in range(NEWTON):
            free_point = (v + 2.0 * alpha * centre) / stiff
            u = space.nearest(free_point)
            if simplex_qp.gain_left(parts, beta, b + A @ u) <= precision or stop():
                break
            free = u == free_point
            fixed = ~free
            if fixed.sum() < free.sum():
                gram = self.gram[:n, :n] - A[:, fixed] @ A[:, fixed].T
            else:
                gram = A[:, free] @ A[:, free].T
            linear = stiff * (b + A[:, fixed] @ u[fixed]) + 2.0 * alpha * (A[:, free] @ centre[free])
            program = np.ascontiguousarray(gram), linear, model
            target = simplex_qp.solve_program(*program, beta, 0.5 * stiff * precision, stop, self.tuning.simplex)
            change = target - beta
            ahead = self.pull(change)
            t = self.step(v, ahead, float(b @ change), alpha, centre, space)
            if t == 0.0:
                break
            beta = simplex_qp.normalised(np.maximum(beta + t * change, 0.0), model)
            v = self.pull(beta)
        masses[:n] = beta

    def step(self, v: np.ndarray, ahead: np.ndarray, gain: float, alpha: float, centre: np.ndarray, space: Coordinates) -> float:
        """How far to go from v along `ahead`, at the most 1: where the derivative of the concave objective is zero."""

        def derivative(t: float) -> float:
            return gain - float(ahead @ space.nearest((v + t * ahead + 2.0 * alpha * centre) / (1.0 + 2.0 * alpha)))

        if derivative(1.0) >= 0.0:
            return 1.0
        if derivative(0.0) <= 0.0:
            return 0.0
        low, high = 0.0, 1.0
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if derivative(middle) > 0.0 else (low, middle)
        return 0.5 * (low + high)


def unscaled(found: dict[str, Any], C: float) -> dict[str, Any]:
    """A snapshot of the planes of C times a risk as those of the risk itself."""
    for name in ("slopes", "offsets", "here"):
        found[f"planes.{name}"] /= C
    found["planes.gram"] /= C * C
    return found
