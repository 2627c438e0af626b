"""Structures whose outputs have a hidden part: what a user writes, and how it looks once the hidden parts are fixed."""

from copy import copy
from typing import Any

import numpy as np

from .base import Structure, _needed
from .encoded import contract
from .encoded.met import Known, dot_compact
from .encoded.python import Custom, CustomMarginals, CustomMixtures

SLACK = 1e-6  # by how much, relatively, rounding may make a choice look worse than it is


class LatentStructure(Structure):
    """Base class of structures with a hidden part z, of which the training data do not tell. In plain Python, as `Structure`.

    Define `size(X, y)`, `loss(y_true, y)` and `decode(w, x) -> y` as in `Structure` (decode takes the best over y and z), and
    the three methods below. With marginals and expect (over pairs of y and z) partial linearization serves it too.
    """

    def joint_feature(self, x, y, z) -> np.ndarray:  # type: ignore[override]  # the hidden part is what this class is about
        """phi(x, y, z): a vector of `size` numbers."""
        raise NotImplementedError(_needed(self, "joint_feature(x, y, z)"))

    def impute(self, w, x, y) -> Any:
        """The hidden part z with the largest w . phi(x, y, z)."""
        raise NotImplementedError(_needed(self, "impute(w, x, y)"))

    def loss_augmented_decode(self, w, x, y_true, z) -> tuple[Any, Any]:  # type: ignore[override]  # as above
        """The pair (y, z) with the largest w . phi(x, y, z) + loss(y_true, y). The argument z is what was imputed for y_true;
        most structures have no use for it."""
        raise NotImplementedError(_needed(self, "loss_augmented_decode(w, x, y_true, z)"))

    def _check_decoded(self, w, x, output, i):
        """Whether it has joint features only a hidden part could tell."""

    def every_hidden(self, x, y, most: int) -> list | None:
        """All hidden parts that the output y of x may have; None if there are more than `most`, or nobody can list them. For
        `check_structure`."""
        return None


class Completed(Structure):
    """A latent structure with outputs that are pairs (y, z): the structure of the convex problems."""

    def __init__(self, latent: LatentStructure):
        self.latent, self.parallel = latent, latent.parallel

    def size(self, X, y):
        return self.latent.size(X, [output for output, _ in y])

    def joint_feature(self, x, y):
        return self.latent.joint_feature(x, *y)

    def loss(self, y_true, y):
        return self.latent.loss(y_true[0], y[0])

    def decode(self, w, x):
        found = self.latent.decode(w, x)
        return found, self.latent.impute(w, x, found)

    def loss_augmented_decode(self, w, x, y_true):
        return self.latent.loss_augmented_decode(w, x, *y_true)

    def nonnegative(self):
        return self.latent.nonnegative()

    def every_output(self, x, y, most):
        listed = self.latent.every_output(x, y[0], most)
        if listed is None:
            return None
        found: list[tuple] = []
        for output in listed:
            hidden = self.latent.every_hidden(x, output, most)
            if hidden is None or len(found) + len(hidden) > most:
                return None
            found += [(output, z) for z in hidden]
        return found


class CompletedWithMarginals(Completed):
    """The same, of a structure that has marginals over pairs. They do not depend on the hidden part of the true output."""

    def marginals(self, w, x, y_true, temperature, base=None):
        return self.latent.marginals(w, x, y_true[0], temperature, base)

    def expect(self, x, y_true, m):
        return self.latent.expect(x, y_true[0], m)

    def mix(self, m, other, gamma):
        return self.latent.mix(m, other, gamma)


def completed(structure: LatentStructure) -> Completed:
    return (CompletedWithMarginals if structure._has_marginals() else Completed)(structure)


class Pairs(Custom):
    """Samples of a latent structure with the hidden parts of the true outputs fixed."""

    @property
    def name(self) -> str:
        return type(self.structure.latent).__name__

    def check_decoded(self, i: int, output) -> None:
        if not isinstance(output, tuple) or len(output) != 2:
            raise ValueError(
                f"{self.name}.loss_augmented_decode must return a pair (y, z); for sample {i} it returned {output!r}."
            )
        super().check_decoded(i, output[0])

    @property
    def hidden(self) -> list:
        """The hidden parts of the true outputs."""
        return [z for _, z in self.y]

    def with_hidden(self, hidden: list) -> "Pairs":
        """The same samples with other hidden parts; what was learned of other outputs stays."""
        result = copy(self)
        result.y = [(y, z) for (y, _), z in zip(self.y, hidden, strict=True)]
        result.known = [dict(outputs) for outputs in self.known]
        result.next = list(self.next)
        for i, (x, pair) in enumerate(zip(result.X, result.y, strict=True)):
            result.known[i][0] = Known(pair, result.feature(i, x, pair), 0.0)
        return result

    def alike(self, other: "Pairs") -> bool:
        """Whether the true outputs have the same features."""
        return all(same(mine[0], its[0]) for mine, its in zip(self.known, other.known, strict=True))

    def check_imputed(self, before: "Pairs", w: np.ndarray) -> None:
        """Refuse hidden parts that are worse at these weights than others that are known."""
        for i, (mine, its) in enumerate(zip(self.known, before.known, strict=True)):
            score, other = dot_compact(mine[0].feature, w), dot_compact(its[0].feature, w)
            if score < other - SLACK * (1.0 + abs(other)):
                raise ValueError(
                    f"{self.name}.impute is wrong for sample {i}: {mine[0].output[1]!r} has w . phi = {score:g}, but "
                    f"{its[0].output[1]!r} has {other:g}. maxmargin.check_structure shows more."
                )


def same(one: Known, other: Known) -> bool:
    """Whether two outputs have the same features."""
    return one is other or all(np.array_equal(a, b) for a, b in zip(stored(one), stored(other), strict=True))


def stored(known: Known) -> tuple:
    return known.feature[:2] if isinstance(known.feature, tuple) else (known.feature, known.feature)


@contract.with_new_truths.register(CustomMixtures)
def _(points, before, after):
    result = CustomMixtures(list(points.feature), list(points.loss))
    for i, (old, new) in enumerate(zip(before.known, after.known, strict=True)):
        if not same(old[0], new[0]):  # what part of the mixture was the old true output is not known
            result.feature[i], result.loss[i] = new[0].feature, 0.0
    return result


@contract.with_new_truths.register(CustomMarginals)
def _(points, before, after):
    return points
