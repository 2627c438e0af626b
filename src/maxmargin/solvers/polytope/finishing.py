"""The masses of collected outputs: the free ones as `polish` wants them, and all of them at once.

The masses of a sample sum up to one. Those above zero are entries of a face, whose vectors are the differences between the joint
features of the true output and theirs: these are written out for all of them at once.

Where columns differ in size, or C is large, passes crawl before they have found the face. Then all outputs collected so far make
a problem of their own (`problems/collected`), which an interior point solves in some ten steps however the columns are scaled.
Passes from there find the outputs that were missing, and so on in turns: what a cutting-plane method does, but that every sample
has its outputs, and passes go on moving masses.
"""

import math
from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from ...jit import kernel, vectors
from ...losses.base import BOUNDLESS
from ...problems.structured import StructuredProblem
from ...result import TINY
from ...structures.encoded import contract
from ...structures.encoded.statistics import within
from ..base import Setting
from ..polish.curvature import DenseBetween
from ..polish.face import Face
from ..polish.finish import EMPTY, ROUNDED_DUAL, Finishing
from .collected import SolvedOutputs, collected, solved_together
from .resting import ZEROS, Resting
from .sets import LOSS, MASS, SIZE, SLOT, USED, Sets, code_at, insert
from .signed import weights_of
from .tuning import IN_TURNS, TogetherTuning

UNSOUND = 1e-9  # part of the dual value by which a primal value below it is nothing but rounding


@kernel
def write_differences(sets, data, sample, place, scratch, out):
    """out[e] = phi(x_i, y_i) - phi(x_i, the output at a place of the set of sample i)"""
    for e in range(sample.size):
        i, j = sample[e], place[e]
        contract.truth(data, i, scratch.code)
        contract.clear(data, i, scratch)
        contract.tally(data, i, 1.0, scratch.code, scratch)
        contract.tally(data, i, -1.0, sets.codes[code_at(data, sets, i, j) : code_at(data, sets, i, j + 1)], scratch)
        contract.push(data, i, 1.0, scratch, out[e])


@kernel
def gather_outputs(sets, data, cap, W, scratch, now):
    """Put the worst output of each sample at these weights into its set."""
    for i in range(cap.size):
        if cap[i] > 0.0:
            contract.prepare(data, i, W, scratch)
            contract.worst(data, i, scratch, scratch.code)
            insert(data, sets, i, scratch, now)


class SetFinishing(Finishing):
    """A run over sets. The label of an entry is the place of its output in the set of the sample."""

    problem: StructuredProblem
    options: Any
    points: Any
    scratch: Any
    space: Any
    sizes: np.ndarray  # of the codes of samples
    mean: Resting
    mean_count: int
    n_jobs: int
    # When all outputs are next thought of, whether that is done in turns with passes, the least gap in these turns, and how many
    # of them since; and how often it was done.
    looked = (*Finishing.looked, "next_turn", "in_turns", "least_gap", "idle_turns", "turns", "lowest", "best")
    next_turn, in_turns, least_gap, idle_turns, turns = 0.0, False, math.inf, 0, 0
    lowest, best = math.inf, np.zeros(0)  # the least primal value of all turns, and its weights
    together_tuning: TogetherTuning = IN_TURNS

    @abstractmethod
    def begin_again(self) -> None:
        """Masses have moved, not by a pass."""

    @abstractmethod
    def make_place(self) -> None:
        """For another output of each sample."""

    @property
    def polish_tol(self):
        return self.options.tol

    @property
    def spent(self):
        tuning = self.polish_tuning
        return self.visits * (float(np.mean(self.sizes)) * self.width * tuning.entry + tuning.sample) + self.passes * tuning.sweep

    @cached_property
    def width(self):
        return float(np.prod(self.problem.weight_shape))

    def rank(self, face):
        return self.width

    def small_enough(self, face):
        return super().small_enough(face) and face.size * self.width <= self.polish_tuning.entries

    def faces(self):
        problem, sets = self.problem, self.points
        if problem.bound.size:
            return []
        self.synchronise()
        size = sets.sample[:, SIZE]
        slots, owner = within(sets.sample[:, SLOT], size), np.repeat(np.arange(size.size), size)
        mass = sets.slots[slots, MASS]
        count = np.bincount(owner, mass > 0.0, size.size)
        some = np.flatnonzero((mass > 0.0) & (count[owner] > 1) & (problem.cap[owner] > 0.0))
        if some.size * self.width > self.polish_tuning.entries:
            return []
        example, slot = owner[some], slots[some]
        place, zeros = slot - sets.sample[example, SLOT], np.zeros(some.size)
        self.features = self.written(example, place)
        slope = problem.cap[example] * (sets.slots[slot, LOSS] - self.features @ weights_of(self.space).reshape(-1))
        bounds = zeros, zeros + BOUNDLESS
        return [Face(example, place, zeros, zeros + 1.0, mass[some], *bounds, slope, zeros, example)]

    def written(self, sample: np.ndarray, place: np.ndarray) -> np.ndarray:
        """(entries, weights)"""
        out = vectors.aligned((sample.size, *self.problem.weight_shape), np.float64)
        write_differences(self.points, self.problem.data, sample, place, self.scratch, out)
        return out.reshape(sample.size, int(self.width))

    def curved(self, face):
        Z = self.features * self.problem.cap[face.example, None]
        return DenseBetween(Z @ Z.T, face.soft)

    def put(self, faces, values):
        before = self.points
        slots = before.slots.copy()
        for face, value in zip(faces, values, strict=True):
            slots[before.sample[face.example, SLOT] + face.label, MASS] = value
        self.settle(before._replace(slots=slots))
        return before

    def put_back(self, before):
        self.settle(before)

    def settle(self, sets: Sets) -> None:
        self.points = sets
        self.mean, self.mean_count = ZEROS, 0
        self.synchronise()
        self.begin_again()

    def ids(self, faces):
        """Outputs may change their places, so that those of a sample are counted: the first, the second, ..."""
        found = []
        for face in faces:
            samples, count = np.unique(face.example, return_counts=True)
            number = np.arange(face.size) - np.repeat(np.cumsum(count) - count, count)
            found.append(np.repeat(samples, count) + len(self.points.sample) * number)
        return np.concatenate([EMPTY, *found])

    # ---- all of them -------------------------------------------------------------------------------------

    def price_together(self) -> float:
        """Of the interior point on all outputs; infinity where they are too many."""
        tuning, outputs = self.polish_tuning, float(self.points.sample[:, SIZE].sum())
        small = min(outputs, self.width)
        if outputs * self.width > tuning.entries or small > tuning.most:
            return math.inf
        steps, turned = self.together_tuning.steps, outputs**2 * self.width if small < self.width else 0.0
        formed = steps * (outputs * small**2 + small**3 / 3.0) + turned
        return tuning.product * formed + steps * self.together_tuning.step

    def went_together(self) -> bool:
        """Solve the problem of all outputs met so far where passes crawl, and then in turns with them; whether masses have
        moved."""
        tuning, spent, self.exact = self.together_tuning, self.spent, False
        if self.passes < self.soon or spent < self.next_turn:
            return False
        if not self.in_turns:
            if len(self.marks) < self.polish_tuning.marks:
                return False
            if self.price_together() * tuning.turns >= self.ahead():
                self.next_turn = max(spent, TINY) * self.polish_tuning.seldom
                return False
        self.next_turn = spent + tuning.passes * spent / self.passes
        with np.errstate(all="ignore"):  # what overflows is not taken
            moved = self.take_turn()
            self.judge_turns()
        return moved

    def judge_turns(self) -> None:
        """Whether there are further turns: while the gap becomes smaller."""
        gap = self.lowest - self.dual
        self.idle_turns = 0 if gap < self.together_tuning.progress * self.least_gap else self.idle_turns + 1
        self.least_gap = min(self.least_gap, gap)
        self.in_turns = self.idle_turns < self.together_tuning.idle
        if not self.in_turns:
            self.next_turn = self.polish_tuning.seldom * self.spent
            self.least_gap, self.idle_turns, self.marks, self.since = math.inf, 0, np.zeros((0, 2)), (0.0, 0.0)

    def take_turn(self) -> bool:
        """The masses that are best for all outputs that have mass, or were met in the last turns; further outputs, met at the
        weights of these masses and on the way there from the best weights of all turns."""
        dual, before = self.synchronise(), self.points
        slots, found = self.solved_together(dual)
        moved = bool(np.all(np.isfinite(found.mass)))
        if moved:
            changed = before.slots.copy()
            changed[slots, MASS] = found.mass
            self.settle(before._replace(slots=changed))
            moved = bool(self.dual >= dual - ROUNDED_DUAL * abs(dual))
            if not moved:
                self.settle(before)
        self.turns += 1
        W = weights_of(self.space)
        way = [W.copy()]
        if np.all(np.isfinite(found.weights)):
            way.append(self.problem.feasible(vectors.convert(found.weights.reshape(W.shape), np.float64)))
        if self.lowest < math.inf:
            way += [(1.0 - t) * self.best + t * way[-1] for t in self.together_tuning.way]
        values = [self.problem.primal(w, self.n_jobs) for w in way]
        values = [value if value >= (1.0 - UNSOUND) * self.dual else math.inf for value in values]
        if min(values) < self.lowest:
            self.lowest, self.best = min(values), way[int(np.argmin(values))]
        if self.average and self.lowest < math.inf:
            self.hint, self.exact = self.best, self.lowest - self.dual <= self.polish_tol * abs(self.lowest)
        for w in (way[0], self.best if self.lowest < math.inf else way[-1]):
            self.make_place()
            gather_outputs(self.points, self.problem.data, self.problem.cap, w, self.scratch, self.passes)
        self.wake()
        return moved

    def solved_together(self, dual: float) -> tuple[np.ndarray, SolvedOutputs]:
        """The slots of outputs that count, and their masses."""
        problem, sets, tuning = self.problem, self.points, self.together_tuning
        size = np.where(problem.cap > 0.0, sets.sample[:, SIZE], 0)
        slots, owner = within(sets.sample[:, SLOT], size), np.repeat(np.arange(size.size), size)
        some = (sets.slots[slots, MASS] > 0.0) | (sets.slots[slots, USED] >= self.passes - tuning.remembered)
        slots, owner = slots[some], owner[some]
        posed = collected(problem, self.written(owner, slots - sets.sample[owner, SLOT]), sets.slots[slots, LOSS], owner)
        part = (min(self.lowest, 2.0 * abs(dual)) - dual) / max(abs(dual), TINY)
        tol = tuning.part * min(max(self.polish_tol, tuning.coarse * part), 1.0)
        return slots, solved_together(posed, Setting(tol, average=self.average), tuning, self.halted)
