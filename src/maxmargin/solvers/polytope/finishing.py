"""The free masses of collected outputs, as `polish` wants them.

The masses of a sample sum up to one. Those above zero are entries of a face, whose vectors are the joint features of their
outputs: these are written out for all of them at once.
"""

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from ...jit import kernel, vectors
from ...losses.base import BOUNDLESS
from ...problems.structured import StructuredProblem
from ...structures.encoded import contract
from ...structures.encoded.statistics import within
from ..polish.curvature import DenseBetween
from ..polish.face import Face
from ..polish.finish import EMPTY, Finishing
from .resting import ZEROS, Resting
from .sets import LOSS, MASS, SIZE, SLOT, Sets, code_at
from .signed import weights_of


@kernel
def write_features(sets, data, sample, place, scratch, out):
    """out[e] = phi(x_i, the output at a place of the set of sample i)"""
    for e in range(sample.size):
        i, j = sample[e], place[e]
        contract.clear(data, i, scratch)
        contract.tally(data, i, 1.0, sets.codes[code_at(data, sets, i, j) : code_at(data, sets, i, j + 1)], scratch)
        contract.push(data, i, 1.0, scratch, out[e])


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

    @abstractmethod
    def begin_again(self) -> None:
        """Masses have moved, not by a pass."""

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
        slope = problem.cap[example] * (sets.slots[slot, LOSS] + self.features @ weights_of(self.space).reshape(-1))
        bounds = zeros, zeros + BOUNDLESS
        return [Face(example, place, zeros, zeros + 1.0, mass[some], *bounds, slope, zeros, example)]

    def written(self, sample: np.ndarray, place: np.ndarray) -> np.ndarray:
        """(entries, weights)"""
        out = vectors.aligned((sample.size, *self.problem.weight_shape), np.float64)
        write_features(self.points, self.problem.data, sample, place, self.scratch, out)
        return out.reshape(sample.size, -1)

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
