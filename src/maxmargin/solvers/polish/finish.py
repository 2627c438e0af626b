"""When coordinate ascent is finished by Newton steps on its free duals, and by whom.

Passes find out which duals are at their bounds, and are slow to say where exactly the others lie. A run that is `Finishing`
looks for free duals once `tol` is tight, or passes are many. Where a way to the top of their face (`face`) costs less than the
passes that their rate predicts, it takes it; the more of them the last pass freed or brought to a bound, the more it costs. The
dual value, from scratch, must have risen, but for rounding, or everything goes back. Then passes go on: they free the duals that
the new weights want to be free.

Costs are counted, not timed: the same data and seed give the same model.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ...result import TINY
from ..base import Run
from .curvature import Between, DenseBetween, ThinBetween
from .face import Face, highest
from .tuning import POLISH, PolishTuning

EMPTY, MOST_LABELS = np.zeros(0, np.int64), 1 << 24
LARGEST_ESTIMATE = 1.0 / TINY
ROUNDED_DUAL = 1e-13  # part of a dual value by which rounding may hide that it has risen: the weights are better all the same


class Finishing(Run):
    """A run that may take such steps. It calls `note` after each pass and `polished` between passes."""

    looked: tuple[str, ...] = ("marks", "since", "next_polish", "were_free", "polishes")  # of the fields that make up the state
    held = (*Run.held, *looked)
    marks = np.zeros((0, 2))  # what was spent, and the mean logarithm of the gap as passes estimated it since the mark before
    since: tuple[float, ...] = (0.0, 0.0)  # the sum of logarithms since the last mark, and their number
    next_polish = 0.0
    were_free = EMPTY
    polishes = 0  # ways that were taken
    polish_tuning: PolishTuning = POLISH
    halt: Callable[[], bool] | None = None  # says whether to end within a way, which then leads to where it has come

    def halted(self) -> bool:
        return self.halt is not None and self.halt()

    @property
    @abstractmethod
    def polish_tol(self) -> float:
        """The relative gap that is asked for."""

    @property
    @abstractmethod
    def spent(self) -> float:
        """What the passes so far have cost, in seconds of one core."""

    @property
    @abstractmethod
    def width(self) -> float:
        """Numbers of a vector whose inner products the dual bends by; infinity where they are not asked for."""

    @abstractmethod
    def faces(self) -> list[Face]:
        """Where the free duals stand, of the weights from scratch; none where the loss or the regulariser is not of the kind."""

    @abstractmethod
    def curved(self, face: Face) -> Between:
        """What the duals of a face do to each other."""

    @abstractmethod
    def put(self, faces: list[Face], values: list[np.ndarray]) -> Any:
        """Put these values in place, and weights to match; returns what `put_back` needs."""

    @abstractmethod
    def put_back(self, before: Any) -> None:
        """As it was."""

    def ids(self, faces: list[Face]) -> np.ndarray:
        """A number of each free dual, in rising order."""
        return np.sort(np.concatenate([EMPTY, *((face.example * MOST_LABELS + face.label)[face.sign != 0.0] for face in faces)]))

    def note(self, gap: float) -> None:
        """A pass has ended with this estimate of the gap."""
        total, count = self.since
        total, count = total + math.log(min(max(gap, TINY), LARGEST_ESTIMATE)), count + 1.0
        spent = self.spent
        if len(self.marks) == 0 or spent >= self.polish_tuning.mark * self.marks[-1, 0]:
            self.marks = np.concatenate([self.marks, [[spent, total / count]]])
            total, count = 0.0, 0.0
        self.since = total, count

    def to_come(self) -> float:
        """What passes will cost from here to the target, by the rate of the later half of them."""
        marks, target = self.marks, math.log(max(self.polish_tol * abs(self.dual), TINY))
        spent, gap = marks[-1].tolist()  # numbers of Python: a rate of zero makes this infinite, without a remark
        before, above = marks[np.searchsorted(marks[:, 0], 0.5 * (spent + marks[0, 0]))].tolist()
        ahead, fallen = gap - target, max(above - gap, TINY)
        return (spent - before) * ahead / fallen if spent > before and ahead > 0.0 else 0.0

    def rank(self, face: Face) -> float:
        """Free duals beyond this number, of losses that are linear in pieces, must meet bounds."""
        return float(np.unique(face.label).size) * self.width

    def price(self, face: Face, changed: float) -> float:
        """Of the way to the top of a face, of whose duals this part was not free before the last pass, or is not any more."""
        tuning, steps = self.polish_tuning, float(np.count_nonzero(face.sign) - np.unique(face.group[face.group >= 0]).size)
        hits = tuning.few_hits + tuning.again * changed * steps
        if not np.any(face.soft):
            hits = max(hits, steps - self.rank(face))
        thin = self.thin(face)
        wide = min(self.width, steps) if self.width < math.inf else 0.0
        factors, across = 1.0 + hits / tuning.walls, self.width if thin else steps
        products = across * across * (steps if thin else wide) + factors * across**3 / 3.0
        rest = tuning.hit * (hits + factors * (face.ties.starts.size - 1))
        return tuning.product * products + tuning.held * hits * steps * across + rest

    def thin(self, face: Face) -> bool:
        """Whether a matrix of columns x columns does."""
        return face.alone and face.size > self.width and bool(np.all(face.label == face.label[0]))

    def small_enough(self, face: Face) -> bool:
        tuning = self.polish_tuning
        return face.size * self.width <= tuning.entries if self.thin(face) else face.size <= tuning.most

    @property
    def soon(self) -> int:
        """Passes before steps are thought of."""
        return self.polish_tuning.first if self.polish_tol < self.polish_tuning.tight else self.polish_tuning.later

    def ahead(self) -> float:
        """What passes to come cost, as far as those so far tell: the first ones say little."""
        return min(self.to_come(), self.polish_tuning.horizon * self.spent)

    def polished(self) -> bool:
        """Look for a way from time to time, and take it where it pays; whether duals have moved."""
        tuning, spent = self.polish_tuning, self.spent
        if self.passes < self.soon or spent < self.next_polish or len(self.marks) < tuning.marks:
            return False
        ahead = self.ahead()
        if ahead < tuning.look:
            return False
        with np.errstate(all="ignore"):  # what overflows is not taken
            return self.pays(spent, ahead)

    def pays(self, spent: float, ahead: float) -> bool:
        """Take the way where it costs less than what is ahead."""
        tuning = self.polish_tuning
        faces, were = self.faces(), self.were_free
        free, self.were_free = self.ids(faces), EMPTY
        changed = np.setxor1d(free, were, assume_unique=True).size / max(free.size, 1) if were.size else 0.0
        price = tuning.look + sum(self.price(face, changed) for face in faces)
        self.next_polish = max(spent + tuning.look, tuning.seldom * spent)
        if free.size == 0 or price >= ahead or not all(self.small_enough(face) for face in faces):
            return False
        if were.size == 0:  # whether they stay the same, the next pass will show
            self.were_free, self.next_polish = free, spent
            return False
        self.next_polish = spent + price
        return self.take_the_way(faces, spent + tuning.patience * price)

    def take_the_way(self, faces: list[Face], later: float) -> bool:
        dual, found = self.dual, [highest(face, self.curved(face), self.polish_tuning, self.halted) for face in faces]
        if not sum(gained for _, gained in found) > 0.0:
            self.next_polish = later
            return False
        before = self.put(faces, [value for value, _ in found])
        if not self.dual >= dual - ROUNDED_DUAL * abs(dual):
            self.put_back(before)
            self.next_polish = later
            return False
        self.polishes += 1
        self.marks, self.since = np.zeros((0, 2)), (0.0, 0.0)
        self.wake()
        return True


class TableFinishing(Finishing):
    """A run with a table of duals, (examples, labels)."""

    @abstractmethod
    def row_products(self, examples: np.ndarray) -> np.ndarray:
        """Inner products of examples, in the metric of the prior."""

    def row_vectors(self, examples: np.ndarray) -> np.ndarray:
        """What these are inner products of, where they may be asked for."""
        raise AssertionError("vectors without a width")

    @property
    def coupling(self) -> np.ndarray | None:
        """R, where labels move each other's scores."""
        return None

    @abstractmethod
    def table(self) -> np.ndarray:
        """A copy of the duals."""

    @abstractmethod
    def put_table(self, duals: np.ndarray) -> None:
        """Put these in place, and weights and the exact dual value to match."""

    def curved(self, face):
        if self.thin(face):
            scale = 1.0 if self.coupling is None else math.sqrt(self.coupling[face.label[0], face.label[0]])
            return ThinBetween(scale * self.row_vectors(face.example), face.soft)
        examples, at = np.unique(face.example, return_inverse=True)
        G = self.row_products(examples)[np.ix_(at, at)]
        if self.coupling is not None:
            G *= self.coupling[np.ix_(face.label, face.label)]
        elif not np.all(face.label == face.label[0]):
            G *= face.label == face.label[:, None]
        G *= face.sign
        G *= face.sign[:, None]
        return DenseBetween(G, face.soft)

    def put(self, faces, values):
        before = self.table()
        duals = before.copy()
        for face, value in zip(faces, values, strict=True):
            some = face.sign != 0.0
            duals[face.example[some], face.label[some]] = (face.base + face.sign * value)[some]
        self.put_table(duals)
        return before

    def put_back(self, before):
        self.put_table(before)
