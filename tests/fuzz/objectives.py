"""What is minimised, once more: in plain NumPy and float64, from the formulas of the guide, sharing no code with the package.

Every value comes with its rounding: a bound, to first order, on what float64 may be off by, in whatever order numbers are summed.
Weights are (K, d) and intercepts (K,) throughout, K = 1 for one score.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

EPS = float(np.finfo(np.float64).eps)


class Value(NamedTuple):
    value: float
    rounding: float


# ---- the quadratic term --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prior:
    """1/2 sum_k (w_k - mean_k)' inv(Sigma_k) (w_k - mean_k) + 1/2 ||b / scaling||^2; scaling 0: no intercept.

    `scale` (K, d) are standard deviations; with a `covariance` (d, d), shared by all k, they are ones.
    """

    mean: np.ndarray
    scale: np.ndarray
    covariance: np.ndarray | None
    positive: np.ndarray
    scaling: float

    @property
    def condition(self) -> float:
        return 1.0 if self.covariance is None else float(np.linalg.cond(self.covariance))

    def at(self, W, b) -> Value:
        if np.any(W[:, self.positive] < 0.0) or (self.scaling == 0.0 and np.any(b)):
            return Value(np.inf, 0.0)
        off = W - self.mean
        if self.covariance is None:
            inside = np.sum((off / self.scale) ** 2)
            size = np.sum(((np.abs(W) + np.abs(self.mean)) / self.scale) ** 2)
        else:
            inside = np.sum(off * np.linalg.solve(self.covariance, off.T).T)
            size = np.sum((np.abs(W) + np.abs(self.mean)) ** 2) * np.linalg.norm(np.linalg.inv(self.covariance))
        bias = np.sum((b / self.scaling) ** 2) if self.scaling > 0.0 else 0.0
        return Value(0.5 * float(inside + bias), EPS * (W.size + 8) * float(size + bias))

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean, or where the signs put it."""
        return np.where(self.positive, np.maximum(self.mean, 0.0), self.mean), np.zeros(len(self.mean))

    def conjugate(self, G, g) -> tuple[float, np.ndarray, np.ndarray] | None:
        """max over W, b of <G, W> + <g, b> - value, and where; None for signs under a covariance, which have no closed form."""
        if self.covariance is not None and self.positive.any():
            return None
        W = self.mean + (G * self.scale**2 if self.covariance is None else G @ self.covariance)
        W = np.where(self.positive, np.maximum(W, 0.0), W)
        b = self.scaling**2 * g
        return float(np.sum(G * W) + g @ b) - self.at(W, b).value, W, b

    def moved(self, W, b, rng, size) -> tuple[np.ndarray, np.ndarray]:
        W = W + size * rng.normal(size=W.shape) * (np.abs(W).max() + np.abs(self.mean).max() + 1e-3)
        W = np.where(self.positive, np.maximum(W, 0.0), W)
        return W, b + size * rng.normal(size=b.shape) * (np.abs(b).max() + 1e-3) * (self.scaling > 0.0)


@dataclass(frozen=True)
class Coupled:
    """1/2 tr(Z R^+ Z') of multi-label models, the intercepts counted in. `root` is a matrix B with R = B B'."""

    root: np.ndarray
    features: int
    scaling: float

    @property
    def matrix(self) -> np.ndarray:
        return self.root @ self.root.T

    @property
    def condition(self) -> float:
        found = np.linalg.svd(self.root, compute_uv=False)
        return float((found[0] / found[found > 1e-9 * found[0]][-1]) ** 2) if found[0] > 0.0 else 1.0

    def at(self, W, b) -> Value:
        table = np.column_stack([W, b / self.scaling]) if self.scaling > 0.0 else W
        inside = np.linalg.pinv(self.root, rcond=1e-9) @ table  # Z = B U: the smallest U
        value = 0.5 * float(np.sum(inside**2))
        return Value(value, EPS * (table.size + 8) * self.condition * value)

    def start(self):
        return np.zeros((len(self.root), self.features)), np.zeros(len(self.root))

    def conjugate(self, G, g):
        W, b = self.matrix @ G, self.scaling**2 * (self.matrix @ g)
        return 0.5 * float(np.sum(G * W) + g @ b), W, b

    def moved(self, W, b, rng, size):
        noise = self.root @ rng.normal(size=(self.root.shape[1], W.shape[1] + 1)) * (np.abs(W).max() + 1e-3) * size
        return W + noise[:, :-1], b + self.scaling * noise[:, -1]


# ---- losses: each gives, for scores (n, K) whose terms sum up to `size` in absolute value, the losses and their rounding ----


@dataclass(frozen=True)
class Binary:
    """max(0, margin - y z), perhaps squared."""

    y: np.ndarray
    margin: np.ndarray
    squared: bool

    def at(self, Z, size):
        slack = np.maximum(self.margin - self.y * Z[:, 0], 0.0)
        error = self.margin + size[:, 0]
        return (slack**2, 2.0 * slack * error) if self.squared else (slack, error)

    def slopes(self, Z):
        return 2.0 * np.maximum(self.margin - self.y * Z[:, :1].T[0], 0.0)[:, None] if self.squared else np.ones((len(Z), 1))

    def reward(self, duals, cap):
        a = self.y * duals[:, 0]
        return self.margin @ a - (quarter(a, cap) if self.squared else 0.0), float(self.margin @ np.abs(a))

    def outside(self, duals, cap):
        a = self.y * duals[:, 0]
        return max(np.max(-a), np.max(np.where(cap == 0.0, a, 0.0)) if self.squared else np.max(a - cap))


@dataclass(frozen=True)
class Regression:
    """max(0, |y - z| - epsilon), perhaps squared."""

    y: np.ndarray
    epsilon: float
    squared: bool

    def at(self, Z, size):
        slack = np.maximum(np.abs(self.y - Z[:, 0]) - self.epsilon, 0.0)
        error = np.abs(self.y) + self.epsilon + size[:, 0]
        return (slack**2, 2.0 * slack * error) if self.squared else (slack, error)

    def slopes(self, Z):
        slack = np.maximum(np.abs(self.y - Z[:, 0]) - self.epsilon, 0.0)
        return 2.0 * slack[:, None] if self.squared else np.ones((len(Z), 1))

    def reward(self, duals, cap):
        b = duals[:, 0]
        linear = float(self.y @ b - self.epsilon * np.abs(b).sum())
        return linear - (quarter(b, cap) if self.squared else 0.0), float((np.abs(self.y) + self.epsilon) @ np.abs(b))

    def outside(self, duals, cap):
        a = np.abs(duals[:, 0])
        return max(0.0, np.max(np.where(cap == 0.0, a, 0.0)) if self.squared else np.max(a - cap))


@dataclass(frozen=True)
class CrammerSinger:
    """max_j cost[y, j] + z_j - z_y."""

    label: np.ndarray
    cost: np.ndarray
    squared = False

    def at(self, Z, size):
        own = Z[np.arange(len(Z)), self.label]
        return np.max(self.cost[self.label] + Z, axis=1) - own, self.cost[self.label].max(axis=1) + 2.0 * size.max(axis=1)

    def slopes(self, Z):
        return np.ones_like(Z)

    def reward(self, duals, cap):
        terms = self.cost[self.label] * duals
        return -float(terms.sum()), float(np.abs(terms).sum())

    def outside(self, duals, cap):
        others = duals.copy()
        others[np.arange(len(duals)), self.label] = 0.0
        return max(np.max(others), np.max(-others.sum(axis=1) - cap), np.max(np.abs(duals.sum(axis=1)) - 1e-12 * cap))


@dataclass(frozen=True)
class TopK:
    """With h_j = 1 + z_j - z_y, j != y: max(0, mean of the k largest h), or (beta) the mean of the k largest max(0, h).

    Both are max_p <p, h>; smoothing subtracts smoothing/2 ||p||^2 there.
    """

    label: np.ndarray
    k: int
    beta: bool
    smoothing: float
    squared = False

    def others(self, table):
        keep = np.ones(table.shape, bool)
        keep[np.arange(len(table)), self.label] = False
        return table[keep].reshape(len(table), -1)

    def at(self, Z, size):
        h = 1.0 + self.others(Z) - Z[np.arange(len(Z)), self.label][:, None]
        error = 1.0 + 2.0 * size.max(axis=1)
        if self.smoothing > 0.0:
            # Levels of h / smoothing are exact to the rounding of the largest entry, and what they are off by is multiplied by h.
            return smoothed(h, self.k, self.beta, self.smoothing), error + 4.0 * np.max(h * h, axis=1) / self.smoothing
        falling = np.sort(np.maximum(h, 0.0) if self.beta else h, axis=1)[:, ::-1]
        return np.maximum(falling[:, : self.k].mean(axis=1), 0.0), error

    def slopes(self, Z):
        return np.ones_like(Z)

    def reward(self, duals, cap):
        a = -self.others(duals)
        square = np.divide(np.sum(a * a, axis=1), cap, out=np.zeros(len(a)), where=cap > 0.0)
        return float(a.sum() - 0.5 * self.smoothing * square.sum()), float(np.abs(a).sum())

    def outside(self, duals, cap):
        a = -self.others(duals)
        mass = a.sum(axis=1)
        most = (cap if self.beta else mass) / self.k
        errors = np.max(-a), np.max(a - most[:, None] - 1e-12 * cap[:, None]), np.max(mass - cap)
        return max(*errors, np.max(np.abs(duals.sum(axis=1)) - 1e-12 * cap))


def smoothed(h, k: int, beta: bool, smoothing: float) -> np.ndarray:
    """max <p, h> - smoothing/2 ||p||^2 over p >= 0, sum p <= 1, p_j <= 1/k (beta) or p_j <= sum(p) / k: levels by bisection.

    With a = h / smoothing, p = clip(a - t, 0, u - t). Where the sum is not at its bound: t = 0 (beta), or, the multipliers of
    p_j <= sum(p) / k being (a_j - u)_+ and t minus their sum over k, the u at which the clipped entries sum up to k (u - t).
    """
    a = h / smoothing

    def value(p):
        return np.sum(p * h, axis=1) - 0.5 * smoothing * np.sum(p * p, axis=1)

    def clipped(t, most):
        return np.clip(a - t[:, None], 0.0, np.maximum(most, 0.0)[:, None])

    most = np.full(len(h), 1.0 / k)
    full = _bisected(lambda t: clipped(t, most).sum(axis=1) > 1.0, a.min(axis=1) - 1.0, a.max(axis=1))
    p = clipped(full, most)
    between = (p > 0.0) & (p < 1.0 / k)  # these share what bisection leaves of the sum
    p += between * ((1.0 - p.sum(axis=1)) / np.maximum(between.sum(axis=1), 1))[:, None]
    bound = value(p)
    if beta:
        free = clipped(np.zeros(len(h)), most)
        return np.where(free.sum(axis=1) <= 1.0, value(free), bound)

    def t_of(u):
        return -np.maximum(a - u[:, None], 0.0).sum(axis=1) / k

    top = np.maximum(a.max(axis=1), 0.0) + 1.0
    ordered = np.sort(a, axis=1)  # any u between the two entries around the k-th will do where k are clipped: the larger
    u = _bisected(lambda u: clipped(t_of(u), u - t_of(u)).sum(axis=1) > k * (u - t_of(u)), ordered[:, -k], top)
    free, capped = clipped(t_of(u), u - t_of(u)), a > u[:, None]
    rest, count = np.sum(free * ~capped, axis=1), capped.sum(axis=1)
    level = np.divide(rest, k - count, out=np.max(free, axis=1), where=count < k)  # sum / k, of what bisection has found
    free = np.where(capped, level[:, None], free)
    some = ordered[:, -k:].sum(axis=1) > 0.0
    inside = free.sum(axis=1) < 1.0 - 1e-7  # so near to the bound both are the same but for the rounding of levels
    return np.where(some, np.where(inside, value(free), bound), 0.0)


def _bisected(rises, low, high) -> np.ndarray:
    """Where `rises` turns from true to false, for each row."""
    for _ in range(100):
        middle = 0.5 * (low + high)
        more = rises(middle)
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return 0.5 * (low + high)


@dataclass(frozen=True)
class Labels:
    """sum_l factor_il max(0, margin_il - y_il z_l), perhaps squared; a factor of zero where a label is not known."""

    y: np.ndarray
    factor: np.ndarray
    margin: np.ndarray
    squared: bool

    def at(self, Z, size):
        slack = np.maximum(self.margin - self.y * Z, 0.0)
        error = self.margin + size
        each = (slack**2, 2.0 * slack * error) if self.squared else (slack, error)
        return tuple(np.sum(self.factor * part, axis=1) for part in each)

    def slopes(self, Z):
        return self.factor * (2.0 * np.maximum(self.margin - self.y * Z, 0.0) if self.squared else 1.0)

    def reward(self, duals, cap):
        a = self.y * duals
        square = quarter(a.ravel(), (cap[:, None] * self.factor).ravel()) if self.squared else 0.0
        return float(np.sum(self.margin * a)) - square, float(np.sum(self.margin * np.abs(a)))

    def outside(self, duals, cap):
        a, most = self.y * duals, cap[:, None] * self.factor
        return max(np.max(-a), np.max(np.where(most == 0.0, a, 0.0)) if self.squared else np.max(a - most))


@dataclass(frozen=True)
class Grouped:
    """max(0, max_j margin_j - z_j) over the rows of an example; `group` names the example of each row."""

    group: np.ndarray
    margin: np.ndarray
    count: int
    squared = False

    def at(self, Z, size):
        worst, error = np.zeros(self.count), np.zeros(self.count)
        np.maximum.at(worst, self.group, self.margin - Z[:, 0])
        np.maximum.at(error, self.group, np.abs(self.margin) + size[:, 0])
        return worst, error

    def slopes(self, Z):
        return np.ones((len(Z), 1))

    def reward(self, duals, cap):
        return float(self.margin @ duals[:, 0]), float(np.abs(self.margin) @ np.abs(duals[:, 0]))

    def outside(self, duals, cap):
        mass = np.bincount(self.group, duals[:, 0], minlength=self.count)
        return max(np.max(-duals), np.max(mass - cap))


def quarter(a, cap) -> float:
    """sum a^2 / (4 cap) where there is a dual."""
    at = (a != 0.0) & (cap > 0.0)
    return float(np.sum(a[at] ** 2 / (4.0 * cap[at])))


# ---- problems -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Linear:
    """quadratic + sum_i cap_i loss_i. A point is (W, b)."""

    X: np.ndarray
    cap: np.ndarray
    loss: Any
    quadratic: Any

    def scaled(self, factor: float) -> "Linear":
        """The same at another C."""
        return replace(self, cap=factor * self.cap)

    def at(self, point) -> Value:
        W, b = point
        losses, errors = self.loss.at(self.X @ W.T + b, self.size(W, b))
        quadratic = self.quadratic.at(W, b)
        error = EPS * (self.X.shape[1] + 8) * np.sqrt(self.quadratic.condition) * float(self.cap @ errors)
        return Value(quadratic.value + float(self.cap @ losses), quadratic.rounding + error)

    def size(self, W, b):
        return np.abs(self.X) @ np.abs(W).T + np.abs(b)

    def start(self):
        return self.quadratic.start()

    def others(self, point, rng):
        """Points that a lower bound must lie below: the start, and some near this one."""
        W, b = point
        yield self.start()
        for factor in (0.5, 0.9, 0.999, 1.001, 2.0):
            yield factor * W, factor * b
        for size in (1e-1, 1e-2, 1e-3, 1e-4):
            yield self.quadratic.moved(W, b, rng, size)

    def slack(self, point) -> float:
        """What a lower bound, whose duals are not known, may be off by: they are bounded by the slopes here and at the start."""
        W, b = point
        first, masses = self.start(), self.masses(point)
        terms = np.sum(masses * np.maximum(self.size(W, b), self.size(*first)))
        both = max(float(self.cap @ self.loss.at(self.X @ at.T + c, self.size(at, c))[0]) for at, c in (point, first))
        sizes = float(terms) + both + float(masses.sum())
        return EPS * (len(self.X) + 8) * np.sqrt(self.quadratic.condition) * sizes + self.lost(point)

    def masses(self, point) -> np.ndarray:
        """Bounds on the duals: the slopes at this point and at the start."""
        slopes = np.maximum(*(self.loss.slopes(self.X @ at.T + c) for at, c in (point, self.start())))
        return (self.cap[self.loss.group] if isinstance(self.loss, Grouped) else self.cap)[:, None] * slopes

    def lost(self, point) -> float:
        """Where R = B B' is singular: what its rounding makes of sums of duals that R would take to zero, however large."""
        if not isinstance(self.quadratic, Coupled) or self.quadratic.root.shape[0] == self.quadratic.root.shape[1]:
            return 0.0
        masses = self.masses(point)
        square = np.sum((masses.T @ np.abs(self.X)) ** 2) + self.quadratic.scaling**2 * np.sum(masses.sum(axis=0) ** 2)
        return EPS * float(np.linalg.norm(self.quadratic.matrix) * square)

    def dual(self, duals):
        """The dual value at these duals and its rounding, and the weights they stand for; None where there is no closed form."""
        G, g = duals.T @ self.X, duals.sum(axis=0) * (self.quadratic.scaling > 0.0)
        found = self.quadratic.conjugate(G, g)
        if found is None:
            return None
        value, W, b = found
        reward, size = self.loss.reward(duals, self.cap)
        terms = float(np.sum((np.abs(duals).T @ np.abs(self.X)) * np.abs(W)) + np.abs(duals).sum(axis=0) @ np.abs(b))
        error = EPS * (len(self.X) + 8) * np.sqrt(self.quadratic.condition) * (size + terms)
        return Value(reward - value, error), (W, b)

    def swayed(self, point, duals) -> float:
        """What the losses may change by where W and b have to be those of duals, which are rounded as they stand."""
        W, b = point
        return EPS * float(self.cap @ self.loss.at(self.X @ W.T + b, self.size(*self.spread(duals)))[1])

    def spread(self, duals) -> tuple[np.ndarray, np.ndarray]:
        """What W and b, summed from these duals, may be off by relative to one rounding: the sizes of their terms."""
        room = self.cap[self.loss.group] if isinstance(self.loss, Grouped) else self.cap
        mass = np.abs(duals) + 1e-6 * room[:, None]  # some solvers hold them as parts of their caps
        if isinstance(self.loss, TopK | CrammerSinger):  # found as (1 + z - level) / ||x||^2: a rounding of 1 grows
            square = np.sum(self.X**2, axis=1) + self.quadratic.scaling**2
            mass = mass + 1e-6 * np.divide(1.0, square, out=np.zeros_like(square), where=square > 0.0)[:, None]
        W, _ = self.quadratic.start()
        inside = mass.T @ np.abs(self.X), mass.sum(axis=0)
        if isinstance(self.quadratic, Coupled):
            mixed = np.abs(self.quadratic.matrix)
            return mixed @ inside[0], self.quadratic.scaling**2 * mixed @ inside[1]
        if self.quadratic.covariance is not None:
            return np.abs(W) + inside[0] @ np.abs(self.quadratic.covariance), self.quadratic.scaling**2 * inside[1]
        return np.abs(W) + inside[0] * self.quadratic.scale**2, self.quadratic.scaling**2 * inside[1]


@dataclass(frozen=True)
class Listed:
    """1/2 ||w||^2 + sum_i cap_i max_j (loss_ij - psi_ij . w): structured samples with all outputs listed. A point is w."""

    psi: list
    delta: list
    cap: np.ndarray
    nonnegative: np.ndarray

    def scaled(self, factor: float) -> "Listed":
        return replace(self, cap=factor * self.cap)

    def at(self, w) -> Value:
        if np.any(w[self.nonnegative] < 0.0):
            return Value(np.inf, 0.0)
        worst = np.array([np.max(delta - psi @ w) for psi, delta in zip(self.psi, self.delta)])
        error = np.array([np.max(delta + np.abs(psi) @ np.abs(w)) for psi, delta in zip(self.psi, self.delta)])
        half = 0.5 * float(w @ w)
        return Value(half + float(self.cap @ worst), EPS * (w.size + 8) * (half + float(self.cap @ error)))

    def others(self, w, rng):
        yield np.zeros_like(w)
        for factor in (0.5, 0.9, 0.999, 1.001, 2.0):
            yield factor * w
        for size in (1e-1, 1e-2, 1e-3, 1e-4):
            near = w + size * rng.normal(size=w.size) * (np.abs(w).max() + 1e-3)
            near[self.nonnegative] = np.maximum(near[self.nonnegative], 0.0)
            yield near

    def slack(self, w) -> float:
        terms = [np.max(delta + np.abs(psi) @ np.abs(w)) for psi, delta in zip(self.psi, self.delta)]
        return EPS * (len(self.cap) + w.size + 8) * float(self.cap @ np.array(terms) + w @ w)


@dataclass(frozen=True)
class MaxAffine:
    """1/2 ||w||^2 + C sum_p max_j (offset_pj + slope_pj . w) between bounds. A point is w."""

    slopes: np.ndarray
    offsets: np.ndarray
    C: float
    lower: np.ndarray
    upper: np.ndarray

    def parts(self, w):
        values = self.offsets + self.slopes @ w
        best = values.argmax(axis=1)
        rows = np.arange(len(values))
        return values[rows, best], self.slopes[rows, best]

    def at(self, w) -> Value:
        if np.any(w < self.lower) or np.any(w > self.upper):
            return Value(np.inf, 0.0)
        size = np.max(np.abs(self.offsets) + np.abs(self.slopes) @ np.abs(w), axis=1).sum()
        half = 0.5 * float(w @ w)
        return Value(half + self.C * float(self.parts(w)[0].sum()), EPS * (w.size + 8) * (half + self.C * float(size)))

    def others(self, w, rng):
        for near in (0.0 * w, 0.5 * w, 0.99 * w, 1.01 * w, *(w + s * rng.normal(size=w.size) for s in (1.0, 1e-1, 1e-2, 1e-3))):
            yield np.clip(near, self.lower, self.upper)

    def slack(self, w) -> float:
        size = np.max(np.abs(self.offsets) + np.abs(self.slopes) @ np.abs(w), axis=1).sum()
        # Planes are written as value - slope . w at the point where they were found, by subtraction.
        return EPS * (w.size + 64) * (float(w @ w) + 8.0 * self.C * float(size))
