"""How much of each correction of a direction is taken: as much as leads furthest (Colombo and Gondzio 2008).

Directions of one system to two sets of products may be combined, and lead to the products between them. Where pairs are tens of
thousands, one of them stops a step early, and a whole correction often makes that worse: it is right for a step that cannot be
gone. A part of it makes the step longer, and the next correction is computed from there. Each costs a solution with the factor at
hand; what it saves is the next matrix and its factor.
"""

from abc import abstractmethod
from collections.abc import Iterable

import numpy as np

from .interior_point import LONG_PART, SPREAD, TO_THE_BORDER, Direction, InteriorPoint, moved_product, recentred
from .tuning import BLENDS, BlendTuning


def mixed(first: list[np.ndarray], second: list[np.ndarray], part: float) -> list[np.ndarray]:
    """first + part (second - first)."""
    return [a + part * (b - a) for a, b in zip(first, second, strict=True)]


def furthest(
    positive: Iterable[np.ndarray], first: Direction, second: Direction, parts: tuple[float, ...]
) -> tuple[float, Direction]:
    """The part with which the combination of two leads furthest, what is positive staying so; and that combination."""
    pairs = zip(positive, (*first[1], *first[2]), (*second[1], *second[2]), strict=True)
    rates = [(a / x, (b - a) / x) for x, a, b in pairs]
    falls = [max(-float(np.min(a + part * more, initial=0.0)) for a, more in rates) for part in parts]
    best = int(np.argmin(np.maximum(falls, 1.0)))
    part, far = parts[best], TO_THE_BORDER / max(falls[best], 1.0)
    return part, (
        first[0] + part * (second[0] - first[0]),
        mixed(first[1], second[1], part),
        mixed(first[2], second[2], part),
        far,
    )


class BlendedInterior(InteriorPoint):
    """Where the factor costs far more than a solution with it. What a part of the first correction leaves out is also the way
    back to the centre, so that products fall fast; after a short step all of it is taken."""

    held = (*InteriorPoint.held, "gone")
    gone = 1.0  # part of the last direction

    def lengthened(self, predicted, mu, goal, tuning: BlendTuning = BLENDS):
        inside, against, beyond = self.inside, self.against, tuning.beyond
        changes = zip(*predicted[1:3], strict=True)
        wanted = [goal - np.clip(dx * ds, -SPREAD * mu, SPREAD * mu) for dx, ds in changes]
        targets = [np.full_like(x, goal if self.gone < tuning.short else 0.0) for x in inside]
        best = self.corrected(targets) if self.gone < tuning.short else predicted
        part, best = furthest((*inside, *against), best, self.corrected(wanted), tuning.parts)
        targets = mixed(targets, wanted, part)
        for _ in range(self.most_corrections(tuning)):
            if best[-1] >= LONG_PART or self.to_end():
                break
            pairs = zip(targets, inside, against, *best[1:3], strict=True)
            wanted = [t + recentred(moved_product(x, s, dx, ds, best[-1], beyond), goal) for t, x, s, dx, ds in pairs]
            part, found = furthest((*inside, *against), best, self.corrected(wanted), tuning.parts)
            if found[-1] > best[-1] * tuning.longer:
                targets, best = mixed(targets, wanted, part), found
            elif beyond < tuning.beyond:
                break
            else:
                beyond *= tuning.nearer
        self.gone = best[-1]
        return best

    @abstractmethod
    def most_corrections(self, tuning: BlendTuning) -> int:
        """In a step."""
