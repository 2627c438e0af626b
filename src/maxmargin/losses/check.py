"""`check_loss`: holds the functions of a loss against its value, by numbers.

Everything follows from the value. With z a score and b a dual (or rows of them, with b z their inner product),

    reward(b) = min_z value(z) + b z,     so that     share(z, b) = value(z) - reward(b) + b z >= 0

by Fenchel and Young. A dual is feasible where this minimum is finite; the share is zero where -b is a slope of the value at z.
The best dual b' from b at z with curvature q is the one with share(z + q (b' - b), b') = 0.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.utils import check_random_state

from ..jit import vectors
from .base import (
    BinaryLoss,
    Loss,
    MulticlassLoss,
    MultilabelLoss,
    RegressionLoss,
    bend,
    clip,
    piece,
    reward,
    row_bend,
    row_extrapolate,
    row_repair,
    row_slope,
    row_step,
    row_value,
    row_within,
    slope,
    step,
    value,
)
from .multilabel_steps import labels

SAMPLES, POINTS = 6, 4
CLASSES = 7
FAR = 30.0, 1e3  # scores that show which duals are feasible
ROUNDING = 1e-9  # allowed, relative to the largest number compared
NUMERIC = 1e-6  # the same where numeric derivatives are compared, or what a method of several steps leaves
WIDTH = 1e-5  # of a numeric derivative
WIDEST = 1e3  # duals in which the best one is sought


class LossError(ValueError):
    """A function of a loss does not do what its contract says."""


def check_loss(loss: Loss, *, random_state=0) -> None:
    """Test the functions of a loss on random samples, scores and duals; a `LossError` names the first that is wrong.

    The value must be convex, finite and proportional to the cap. `clip` (`row_repair`) must make duals feasible and leave those
    that are. The reward must be min_z value(z) + b z, and zero for b = 0. A step must find the best dual, also at a curvature of
    zero. `slope`, second derivatives and quadratic pieces are tested where they are registered. Nothing is compiled.

    Parameters
    ----------
    loss : BinaryLoss, RegressionLoss, MulticlassLoss or MultilabelLoss
        The description, as estimators take it. Stays as it is: a clone is tested.
    random_state : int, RandomState instance or None, default=0
    """
    if not isinstance(loss, BinaryLoss | RegressionLoss | MulticlassLoss | MultilabelLoss):
        raise TypeError(
            "loss must be an object of a subclass of BinaryLoss, RegressionLoss, MulticlassLoss or MultilabelLoss "
            f"(maxmargin.extend); got {loss!r}."
        )
    loss, random = clone(loss), check_random_state(random_state)
    family = OneScore if isinstance(loss, BinaryLoss | RegressionLoss) else RowOfScores
    with np.errstate(all="ignore"):
        drawn = family(loss, random)
        for i in range(SAMPLES):
            _check_sample(drawn, i, random)


def registered(function: Any, encoded: Any) -> bool:
    return function.dispatch(type(encoded)) is not function.dispatch(object)


def text(numbers: np.ndarray) -> str:
    """A number, or a row of them."""
    given = [f"{number:.6g}" for number in np.atleast_1d(numbers).tolist()]
    return given[0] if len(given) == 1 else f"[{', '.join(given)}]"


# ---- losses as functions of arrays ---------------------------------------------------------------------------


class Drawn(ABC):
    """A loss of random samples. Scores and duals are arrays of `size` numbers, one for a loss of one score.

    `names` are those of functions in messages, where they are others; `truth` are scores that are right for each sample, where
    samples have classes.
    """

    names: dict[str, str] = {}
    required: tuple
    size: int
    truth: np.ndarray = np.zeros((SAMPLES, 0))

    def __init__(self, loss: Loss, random: np.random.RandomState):
        self.loss, self.name = loss, type(loss).__name__
        self.cap = 10.0 ** random.uniform(-1, 1, SAMPLES)
        self.cap[-1] = 0.0  # the last sample has no weight
        self.encoded, self.doubled = self.of(random)
        for function in self.required:
            if not registered(function, self.encoded):
                kind, name = type(self.encoded).__qualname__, function.__name__
                missing = f"{name} is missing for the class {kind} that {self.name}.of makes"
                raise LossError(f"{missing}: write @{name}.register({kind}).")

    def called(self, function: str) -> str:
        return self.names.get(function, function)

    def wrong(self, function: str, i: int, why: str) -> None:
        raise LossError(f"{self.called(function)} of {self.name} is wrong for a sample with {self.sample(i)}: {why}.")

    def finite(self, function: str, i: int, where: str, numbers: Any) -> Any:
        if not np.all(np.isfinite(numbers)):
            self.wrong(function, i, f"it returns {text(numbers)} {where}, where a finite number is needed")
        return numbers

    @abstractmethod
    def of(self, random: np.random.RandomState) -> tuple[Any, Any]:
        """What kernels see of the samples, and the same with their caps doubled."""

    @abstractmethod
    def sample(self, i: int) -> str:
        """Sample i for messages."""

    @abstractmethod
    def value(self, i: int, z: np.ndarray, encoded: Any = None) -> float: ...

    @abstractmethod
    def feasible(self, i: int, b: np.ndarray) -> tuple[np.ndarray, float]:
        """The nearest feasible dual and its reward."""

    @abstractmethod
    def stepped(self, i: int, z: np.ndarray, b: np.ndarray, q: float) -> np.ndarray:
        """The best dual by the loss itself; b is feasible."""

    @abstractmethod
    def check_optional(self, i: int, z: np.ndarray, b: np.ndarray) -> None:
        """Test what only some losses have; b is feasible."""

    def share(self, i: int, z: np.ndarray, b: np.ndarray, reward: float) -> tuple[float, float]:
        """The share of the gap, and the size of the numbers that it is a difference of."""
        found = self.value(i, z)
        return found - reward + float(b @ z), self.cap[i] + abs(found) + abs(reward) + float(np.abs(b) @ np.abs(z))

    def gradient(self, i: int, z: np.ndarray) -> np.ndarray:
        """The derivatives of the value, numerically."""
        found, h = np.zeros(self.size), WIDTH * (1.0 + np.abs(z).max())
        for j in range(self.size):
            move = np.zeros(self.size)
            move[j] = h
            found[j] = (self.value(i, z + move) - self.value(i, z - move)) / (2.0 * h)
        return found


class OneScore(Drawn):
    """`value`, `reward`, `clip` and `step`; `slope`, `bend` and `piece` where they are registered."""

    required = value, reward, clip, step
    size = 1

    def of(self, random):
        if isinstance(self.loss, RegressionLoss):
            self.target = random.normal(size=SAMPLES)
            return tuple(self.loss.of(self.target, cap) for cap in (self.cap, 2.0 * self.cap))
        self.sign, self.margin = random.choice([-1.0, 1.0], SAMPLES), random.choice([0.0, 0.5, 1.0, 2.0], SAMPLES)
        self.truth = self.sign[:, None]
        return tuple(self.loss.of(self.sign, self.margin, cap) for cap in (self.cap, 2.0 * self.cap))

    def sample(self, i):
        if isinstance(self.loss, RegressionLoss):
            return f"target={self.target[i]:.6g} and cap={self.cap[i]:.6g}"
        return f"sign={self.sign[i]:+.0f}, margin={self.margin[i]:g} and cap={self.cap[i]:.6g}"

    def value(self, i, z, encoded=None):
        try:
            return float(value(self.encoded if encoded is None else encoded, i, z[0]))
        except OverflowError:  # of Python's own mathematics; compiled code has infinity
            return np.inf

    def feasible(self, i, b):
        found = np.array([self.finite("clip", i, f"for the dual {text(b)}", float(clip(self.encoded, i, b[0])))])
        return found, self.finite("reward", i, f"for the dual {text(found)}", float(reward(self.encoded, i, found[0])))

    def stepped(self, i, z, b, q):
        where = f"at score {text(z)}, dual {text(b)} and curvature {q:.6g}"
        return np.array([self.finite("step", i, where, float(step(self.encoded, i, z[0], b[0], q)))])

    def best(self, i: int, z: np.ndarray, b: np.ndarray, q: float) -> float:
        """The best dual, by a numeric search."""
        low, high = (self.feasible(i, np.array([bound]))[0][0] for bound in (-WIDEST, WIDEST))

        def lost(new: float) -> float:
            return (new - b[0]) * z[0] + 0.5 * q * (new - b[0]) ** 2 - self.feasible(i, np.array([new]))[1]

        found = minimize_scalar(lost, bounds=(low, high), method="bounded", options={"xatol": 1e-9}).x if low < high else low
        return float(min((low, high, found), key=lost))

    def check_optional(self, i, z, b):
        encoded, at = self.encoded, f"at score {text(z)}"
        if registered(slope, encoded):
            _check_slope(self, "slope", i, z, np.array([self.finite("slope", i, at, float(slope(encoded, i, z[0])))]))
        if registered(bend, encoded):
            says, h, here = float(bend(encoded, i, z[0])), 1e3 * WIDTH, self.gradient(i, z)[0]
            sides = [(self.gradient(i, z + d)[0] - here) / d for d in (-h, h)]
            slack = 10.0 * h * (self.cap[i] + abs(says))
            if not min(sides) - slack <= says <= max(sides) + slack:
                self.wrong("bend", i, f"{at} it is {says:.6g}, where the second derivative of the value is {sides[1]:.6g}")
        if registered(piece, encoded):
            low, high, linear, soft = (float(part) for part in piece(encoded, i, z[0], b[0]))
            slack = ROUNDING * (self.cap[i] + abs(b[0]))
            if not low - slack <= b[0] <= high + slack:
                self.wrong("piece", i, f"{at} and dual {text(b)} it says [{low:.6g}, {high:.6g}], where this dual is not")
            for part in (0.0, 0.3, 1.0):
                dual = np.array([b[0] + part * (min(max(b[0] + 1.0, low), high) - b[0])])
                says, gain = linear * dual[0] - 0.5 * soft * dual[0] ** 2, self.feasible(i, dual)[1]
                if abs(says - gain) > NUMERIC * (self.cap[i] + abs(says) + abs(gain)):
                    self.wrong("piece", i, f"{at} it says a reward of {says:.6g} for the dual {text(dual)}; reward is {gain:.6g}")


class RowOfScores(Drawn):
    """`row_value`, `row_step`, `row_extrapolate` and `row_repair`; `row_slope`, `row_bend` and `row_within` where they are
    registered."""

    names = {"value": "row_value", "clip": "row_repair", "reward": "row_repair (the reward it returns)", "step": "row_step"}
    required = row_value, row_repair, row_step, row_extrapolate
    size = CLASSES

    def of(self, random):
        if isinstance(self.loss, MultilabelLoss):
            return self.of_labels(random)
        self.label = random.randint(0, CLASSES, SAMPLES)
        cost = random.choice([0.5, 1.0, 2.0], (CLASSES, CLASSES)) * (1.0 - np.eye(CLASSES))
        self.truth = np.eye(CLASSES)[self.label]
        return tuple(self.loss.of(self.label, cost, cap, np.float64) for cap in (self.cap, 2.0 * self.cap))

    def of_labels(self, random):
        """Each label by itself; some are not known."""
        self.present, self.known = random.rand(SAMPLES, CLASSES) < 0.5, random.rand(SAMPLES, CLASSES) < 0.8
        weight, margin = 10.0 ** random.uniform(-0.5, 0.5, (CLASSES, 2)), random.choice([0.5, 1.0, 2.0], (CLASSES, 2))
        self.truth = np.where(self.present, 1.0, -1.0)
        bits = [np.packbits(each, axis=1, bitorder="little") for each in (self.present, self.known)]
        which = np.arange(CLASSES), self.present.astype(np.intp)
        self.weights, self.margins = self.known * weight[which], margin[which]
        made = (labels(bits[0], bits[1], cap, weight, margin, np.ones(CLASSES), np.float64) for cap in (self.cap, 2.0 * self.cap))
        return tuple(self.loss.of(each) for each in made)

    def sample(self, i):
        if isinstance(self.loss, MultilabelLoss):
            return f"labels {np.flatnonzero(self.present[i]).tolist()} of {CLASSES} and cap={self.cap[i]:.6g}"
        return f"class {self.label[i]} of {CLASSES} and cap={self.cap[i]:.6g}"

    def row(self, numbers: np.ndarray | None = None) -> vectors.VectorTable:
        return vectors.table(vectors.pack(np.zeros((1, CLASSES)) if numbers is None else numbers[None], np.float64))

    def stored(self, i: int, b: np.ndarray) -> vectors.VectorTable:
        """A table of duals with this row for sample i."""
        rows = np.zeros((SAMPLES, CLASSES))
        rows[i] = b
        return vectors.table(vectors.pack(rows, np.float64))

    def value(self, i, z, encoded=None):
        try:
            return float(row_value(self.encoded if encoded is None else encoded, i, self.row(z)))
        except OverflowError:
            return np.inf

    def feasible(self, i, b):
        out = self.row()
        gain = float(row_repair(self.encoded, i, self.stored(i, b), out))
        found = self.finite("row_repair", i, f"for the duals {text(b)}", out.flat[0, :CLASSES].copy())
        return found, self.finite("row_repair", i, f"as the reward of {text(found)}", gain)

    def stepped(self, i, z, b, q):
        where = f"at scores {text(z)}, duals {text(b)} and curvature {q:.6g}"
        before = self.feasible(i, b)[1]
        duals, change = self.stored(i, b), self.row()
        _, moved, gain = row_step(self.encoded, i, q, self.row(z), duals, change, np.inf)
        if moved or gain != 0.0 or not np.array_equal(duals.flat[i, :CLASSES], b):
            self.wrong("row_step", i, f"{where} it makes a step although the share of the gap is not above calm=inf")
        share, moved, gain = row_step(self.encoded, i, q, self.row(z), duals, change, -np.inf)
        new, (expected, size) = duals.flat[i, :CLASSES].copy(), self.share(i, z, b, before)
        self.finite("row_step", i, where, np.array([*new, share, gain]))
        if abs(share - expected) > NUMERIC * size:
            self.wrong("row_step", i, f"{where} it returns the share {share:.6g}, where value - reward + b z is {expected:.6g}")
        if moved:
            self.check_change("row_step", i, where, change.flat[0, :CLASSES], new - b, gain, self.feasible(i, new)[1] - before)
        return new

    def check_change(self, function: str, i: int, where: str, change, expected, gain: float, rise: float) -> None:
        if np.abs(change - expected).max() > NUMERIC * (self.cap[i] + np.abs(expected).max()):
            self.wrong(function, i, f"{where} it writes {text(change)} into change, where {text(expected)} is expected")
        if abs(gain - rise) > NUMERIC * (self.cap[i] + abs(rise)):
            self.wrong(function, i, f"{where} it returns {gain:.6g} for the change of the reward, which is {rise:.6g}")

    def check_optional(self, i, z, b):
        encoded = self.encoded
        self.check_extrapolation(i, b)
        if isinstance(self.loss, MultilabelLoss):
            self.check_labels(self.loss, i, z)
        if registered(row_slope, encoded):
            out = self.row()
            loss, gain = row_slope(encoded, i, self.row(z), out)
            found, at = out.flat[0, :CLASSES].copy(), f"at scores {text(z)}"
            self.finite("row_slope", i, at, np.array([*found, loss, gain]))
            _check_slope(self, "row_slope", i, z, found)
            for what, number, expected in (("loss", loss, self.value(i, z)), ("reward", gain, self.feasible(i, found)[1])):
                if abs(number - expected) > NUMERIC * (self.cap[i] + abs(expected)):
                    self.wrong("row_slope", i, f"{at} it returns {number:.6g} for the {what}, which is {expected:.6g}")
            if registered(row_bend, encoded):
                self.check_bend(i, z, found)
            if registered(row_within, encoded):
                near = self.row(b)
                row_within(encoded, i, self.row(found), near)
                _check_feasible(self, "row_within", i, f"for the slopes {text(found)}", near.flat[0, :CLASSES].copy())

    def check_bend(self, i: int, z: np.ndarray, slopes: np.ndarray) -> None:
        along = np.cos(np.arange(CLASSES))
        h, out = WIDTH * (1.0 + np.abs(z).max()), self.row(along)
        row_bend(self.encoded, i, self.row(slopes), out)
        sides = [self.gradient(i, z + d * along) for d in (-10 * h, 10 * h)]
        found, expected = out.flat[0, :CLASSES], (sides[1] - sides[0]) / (20 * h)
        if np.abs(found - expected).max() > 1e-3 * (self.cap[i] + np.abs(expected).max()):
            why = f"at scores {text(z)} it makes {text(found)} of {text(along)}, where {text(expected)} is expected"
            self.wrong("row_bend", i, why)

    def check_extrapolation(self, i: int, b: np.ndarray, t: float = 0.7) -> None:
        start = self.feasible(i, 0.5 * np.roll(b, 1))[0]
        duals, before, change = self.stored(i, b), self.stored(i, start), self.row()
        lacks, gain = row_extrapolate(self.encoded, i, duals, before, t, change)
        new, wanted = duals.flat[i, :CLASSES].copy(), b + t * (b - start)
        where = f"from the duals {text(start)} and {text(b)} with t={t}"
        if not np.allclose(before.flat[i, :CLASSES], b, rtol=ROUNDING, atol=0.0):
            self.wrong("row_extrapolate", i, f"{where} it does not put the duals in place of those before")
        _check_feasible(self, "row_extrapolate", i, where, new)
        lacking = change.flat[0, :CLASSES] if lacks else np.zeros(CLASSES)
        rise = self.feasible(i, new)[1] - self.feasible(i, b)[1]
        self.check_change("row_extrapolate", i, where, lacking, new - wanted, gain, rise)

    def check_labels(self, loss: MultilabelLoss, i: int, z: np.ndarray) -> None:
        zero, expected = np.zeros(CLASSES), self.cap[i] * float(self.weights[i] @ np.asarray(loss.at(self.margins[i])))
        if abs(self.value(i, zero) - expected) > NUMERIC * (self.cap[i] + expected):
            self.wrong("at", i, f"it says a loss of {expected:.6g} at scores of zero; row_value is {self.value(i, zero):.6g}")
        if loss.single is not None:
            single = loss.single.of(self.truth[i], self.margins[i], self.cap[i] * self.weights[i])
            total = float(sum(value(single, j, z[j]) for j in np.flatnonzero(self.weights[i]).tolist()))
            if abs(total - self.value(i, z)) > NUMERIC * (self.cap[i] + abs(total)):
                self.wrong("single", i, f"its losses are {total:.6g} at scores {text(z)}; row_value is {self.value(i, z):.6g}")


# ---- what must hold ------------------------------------------------------------------------------------------


def _check_sample(drawn: Drawn, i: int, random: np.random.RandomState) -> None:
    scores = 2.0 * random.normal(size=(POINTS, drawn.size))
    for z, other in zip(scores, np.roll(scores, 1, axis=0)):
        _check_value(drawn, i, z, other)
    zero, gain = drawn.feasible(i, np.zeros(drawn.size))
    if np.any(zero):
        drawn.wrong("clip", i, f"it makes {text(zero)} of the dual 0, which is always feasible")
    if gain != 0.0:
        drawn.wrong("reward", i, f"it is {gain:.6g} for the dual 0, where it must be 0: the least value of a loss is 0")
    needed = [_check_needed(drawn, i, z) for z in scores]
    size = 10.0 ** random.uniform(-2, 2, (POINTS, 1)) * max(drawn.cap[i], 0.1)
    duals = [_check_dual(drawn, i, b, random) for b in size * random.normal(size=(POINTS, drawn.size))]
    if drawn.size == 1:
        for b in [*size * random.normal(size=(POINTS, 1)), np.array([-WIDEST]), np.array([WIDEST])]:
            _check_nearest(drawn, i, b, [zero, *needed, *duals])
    for z, b, other in zip(scores, [zero, *duals], needed):
        for q in (0.0, 10.0 ** random.uniform(-2, 2)):
            _check_step(drawn, i, z, b, q)
            _check_step(drawn, i, z, other, q)
        drawn.check_optional(i, z, b)


def _check_value(drawn: Drawn, i: int, z: np.ndarray, other: np.ndarray) -> None:
    found, at = drawn.value(i, z), f"at score {text(z)}"
    drawn.finite("value", i, at, found)
    twice = drawn.value(i, z, drawn.doubled)
    if abs(twice - 2.0 * found) > ROUNDING * (abs(twice) + abs(found)):
        why = f"{at} it is {found:.6g}, and {twice:.6g} for twice the cap: it must be proportional to the cap"
        drawn.wrong("value", i, why)
    between, ends = drawn.value(i, 0.5 * (z + other)), 0.5 * (found + drawn.value(i, other))
    if between > ends + ROUNDING * (abs(between) + abs(ends)):
        why = f"it is not convex: {between:.6g} half-way between the scores {text(z)} and {text(other)}, whose mean is {ends:.6g}"
        drawn.wrong("value", i, why)
    if drawn.truth.size:
        right, wrong = (drawn.value(i, side * drawn.truth[i]) for side in (5.0, -5.0))
        if right > wrong + ROUNDING * (abs(right) + abs(wrong)):
            scores = text(5.0 * drawn.truth[i])
            drawn.wrong("value", i, f"it is {right:.6g} at score {scores}, which is right, and {wrong:.6g} at the opposite score")


def _check_needed(drawn: Drawn, i: int, z: np.ndarray) -> np.ndarray:
    """The dual that the value has at z must be feasible, and its reward value(z) + b z. Returns it."""
    b = -drawn.gradient(i, z)
    found, gain = drawn.feasible(i, b)
    apart = np.abs(found - b).max()
    if apart > NUMERIC * (drawn.cap[i] + np.abs(b).max()):
        why = f"it makes {text(found)} of the dual {text(b)}, which is feasible: it is minus the slope at score {text(z)}"
        drawn.wrong("clip", i, why)
    left, size = drawn.share(i, z, found, gain)
    if abs(left) > NUMERIC * size:
        why = f"it is {gain:.6g} for the dual {text(found)}; min_z value(z) + b z is {left + gain:.6g}, at z={text(z)}"
        drawn.wrong("reward", i, why)
    return found


def _check_dual(drawn: Drawn, i: int, b: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """What `clip` makes of any dual is feasible, and its reward not too large. Returns it."""
    found, gain = drawn.feasible(i, b)
    _check_feasible(drawn, "clip", i, f"for the dual {text(b)}", found)
    ways = [*np.eye(drawn.size), np.ones(drawn.size), random.normal(size=drawn.size), found / max(np.abs(found).max(), 1e-300)]
    for way in (sign * way for way in ways for sign in (-1.0, 1.0)):
        for z in (far * way for far in FAR):
            share, rounded = drawn.share(i, z, found, gain)
            if share >= -ROUNDING * rounded:
                continue
            if drawn.share(i, 100.0 * z, found, gain)[0] < 10.0 * share:
                why = f"it makes {text(found)} of the dual {text(b)}, and that is not feasible: value(z) + b z falls without end"
                drawn.wrong("clip", i, f"{why} from {share + gain:.6g} at z={text(z)} on")
            why = f"it is {gain:.6g} for the dual {text(found)}; min_z value(z) + b z is at most {share + gain:.6g}"
            drawn.wrong("reward", i, f"{why}, at z={text(z)}")
    return found


def _check_feasible(drawn: Drawn, function: str, i: int, where: str, b: np.ndarray) -> None:
    again = drawn.feasible(i, b)[0]
    if np.abs(again - b).max() > NUMERIC * (drawn.cap[i] + np.abs(b).max()):
        why = f"{where} it returns {text(b)}, which is not feasible: {drawn.called('clip')} makes {text(again)} of it"
        drawn.wrong(function, i, why)


def _check_nearest(drawn: Drawn, i: int, b: np.ndarray, known: list[np.ndarray]) -> None:
    found = drawn.feasible(i, b)[0]
    nearest = min(known, key=lambda other: abs(other[0] - b[0]))
    if abs(found[0] - b[0]) > abs(nearest[0] - b[0]) + NUMERIC * (drawn.cap[i] + abs(found[0])):
        drawn.wrong("clip", i, f"it makes {text(found)} of the dual {text(b)}; {text(nearest)} is feasible and nearer")


def _check_step(drawn: Drawn, i: int, z: np.ndarray, b: np.ndarray, q: float) -> None:
    new = drawn.stepped(i, z, b, q)
    where = f"at score {text(z)}, dual {text(b)} and curvature {q:.6g} (the squared norm of the sample)"
    _check_feasible(drawn, "step", i, where, new)
    new, gain = drawn.feasible(i, new)
    moved = z + q * (new - b)
    left, size = drawn.share(i, moved, new, gain)
    if left > NUMERIC * (size + float(np.abs(new) @ (np.abs(z) + q * (np.abs(new) + np.abs(b))))):
        if isinstance(drawn, OneScore):
            drawn.wrong("step", i, f"{where} it returns {text(new)}, where the best dual is {drawn.best(i, z, b, q):.6g}")
        drawn.wrong("step", i, f"{where} it returns {text(new)}, after which the share of the gap is {left:.6g} and must be 0")


def _check_slope(drawn: Drawn, function: str, i: int, z: np.ndarray, b: np.ndarray) -> None:
    _check_feasible(drawn, function, i, f"at score {text(z)}", b)
    b, gain = drawn.feasible(i, b)
    left, size = drawn.share(i, z, b, gain)
    if left > ROUNDING * size:
        expected = text(-drawn.gradient(i, z))
        drawn.wrong(function, i, f"at score {text(z)} it is {text(b)}, where minus the slope of the value is {expected}")
