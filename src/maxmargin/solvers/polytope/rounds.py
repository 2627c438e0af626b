"""Rounds: several threads visit samples side by side, each with weights of its own, and then go as far together as is best.

A part of the samples of a round is visited as if nobody else were at work: with a copy of the weights, by the same kernels as on
one thread. Its points have moved by d_p then, which changes expected losses by gain_p and the weights by u_p; `joint` says how
far to go along each of them: the dual value never falls, whatever the parts have in common. Masses and marginals are linear in
that, so that a part that goes t of its way mixes what it had with what it found.

Where the parts have much in common, each of them takes steps for a curvature that is `spread` times as large: that is as if its
weights moved so much farther, and all caps were so much larger.

A round costs the same however short it is, and what the parts cannot know of each other grows with it. So a pass has several
rounds at least, and no more parts than have enough to do in one of them. That is counted, not timed: the same data, seed and
number of threads give the same model.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...jit import kernel
from ...structures.encoded import contract
from ...structures.encoded.contract import numbers_of
from ...structures.encoded.statistics import starts
from ..ascent.joint import followed, settled
from .signed import Signed, weights_of
from .tuning import RoundTuning

Together = Callable[[Callable[[Any], Any], Sequence], list]  # work and its parts


class Seat(NamedTuple):
    """What one thread works with: weights and memory of its own, and caps as it is to see them."""

    space: np.ndarray | Signed
    workspace: Any
    cap: np.ndarray


class Found(NamedTuple):
    """What a part has come to: by how much the dual value would rise along its change, were there no curvature; what its points
    were before (arrays, where in them, values); how often the oracle was asked."""

    ascent: float
    before: list[tuple[np.ndarray, Any, np.ndarray]]
    calls: int


class Joined(NamedTuple):
    """How far each part goes, what that changes the weights by, by how much the dual value rises at least, and the spread for the
    next round."""

    far: np.ndarray
    change: np.ndarray
    rise: float
    spread: float


@kernel
def expected_losses(points, data, cap, samples):
    total = 0.0
    for k in range(samples.size):
        i = samples[k]
        total += cap[i] * contract.expected_loss(points, data, i)
    return total


def shape_of_rounds(count: int, n_jobs: int, work: float, width: int, tuning: RoundTuning) -> tuple[int, int]:
    """How many parts a round of a pass over `count` samples has, and how many samples a part; `work`: that of a visit."""
    for parts in range(n_jobs, 1, -1):  # what is not compiled, one thread does after the other: it grows with their number
        least = max(1.0, (parts * tuning.part + tuning.weight * width) / max(work, 1.0))
        if count >= tuning.rounds * parts * least:
            return parts, max(1, min(count // (tuning.rounds * parts), int(tuning.longest * least)))
    return 1, count


def in_layers(order: np.ndarray) -> list[tuple[int, int]]:
    """Order these samples, some of which may come several times, by how often they came before; where they came k times before.

    No sample comes twice in a round: between two visits the place of one output in a set may go to another.
    """
    by_sample = np.argsort(order, kind="stable")
    first = np.flatnonzero(np.diff(order[by_sample], prepend=-1))
    before = np.empty(order.size, np.int64)
    before[by_sample] = np.arange(order.size) - np.repeat(first, np.diff(first, append=order.size))
    order[:] = order[np.argsort(before, kind="stable")]
    return list(pairwise(starts(np.bincount(before)).tolist()))


def taken_space(space: np.ndarray | Signed, out: np.ndarray) -> np.ndarray | Signed:
    """A copy of the weights in the memory of `out`."""
    np.copyto(out, weights_of(space))
    return Signed(out, out.reshape(-1), space.bound, space.v.copy()) if isinstance(space, Signed) else out


def change_of(space: np.ndarray | Signed, start: np.ndarray, spread: float) -> np.ndarray:
    """The weights of a seat become what they have moved by from `start`, both without a clip."""
    if isinstance(space, Signed):
        space.flat[space.bound] = space.v
    change = weights_of(space)
    change -= start
    if spread != 1.0:
        change /= spread
    return change.reshape(-1)


def kept_points(points: Any, data: Any, samples: np.ndarray) -> list[tuple[np.ndarray, Any, np.ndarray]]:
    """The points of these samples as they are: arrays, where in them, values."""
    there = numbers_of(points, data, samples)
    assert there is not None
    return [(array, at, array[at]) for array, at in there]


def gone_together(found: list[Found], changes: np.ndarray, spread: float) -> Joined:
    """All parts as far as is best, along their changes (parts, weights)."""
    ascents, none, bends = np.array([one.ascent for one in found]), np.zeros(len(found)), changes @ changes.T
    t, best = settled(ascents, none, bends)
    rise = float(t @ ascents - 0.5 * t @ bends @ t)
    return Joined(t, t @ changes, rise, followed(spread, best, len(found)))


def drawn_back(part: tuple[Found, float]) -> None:
    """Points that went only t of their way."""
    found, t = part
    for array, at, before in found.before:
        array[at] = (1.0 - t) * before + t * array[at]
