"""The line search of a block and what follows it by few kernels: a GPU does them faster than it is told to.

For joint steps of rows with linear rewards and one t for all scores, and for scores with a t of their own; without signs and
coupled labels. Triton's, as in `losses.fused_rows`; everything else takes the plain way.
"""

from functools import cache
from typing import Any

from ...data.tensors import library
from ...losses.fused_rows import entry_tile, has_kernels, launch
from ...losses.tensor_rows import BlockStep
from .tuning import DeviceTuning

A_PROGRAM = 1024  # numbers that a program moves, or adds up, at a time
SHORT_PROGRAM = 256  # the same of one score


@cache
def line_kernels() -> Any:
    """The kernels, imported when they are first asked for."""
    from . import kernels as found

    return found


class FusedLine:
    """Room for the numbers of a line search."""

    def __init__(self, A: Any, scores: int, tuning: DeviceTuning):
        self.A, self.tuning = A, tuning
        double = library().float64
        self.slope, self.square = (A.new_empty(scores, dtype=double) for _ in range(2))
        self.t = A.new_empty((), dtype=double)

    def go(self, rows: Any, found: BlockStep, weights: Any, U: Any, sigma: Any, value: Any) -> None:
        """Find t, and move sigma, the value, the weights and the duals by it."""
        V, tuning, gains = weights.V, self.tuning, found.gain
        weighed, variance = weights.variance is not None, V if weights.variance is None else weights.variance
        scores, width = V.shape
        line_kernels().slopes_of_rows[(scores,)](V, U, variance, self.slope, self.square, width, WEIGHED=weighed, BLOCK=A_PROGRAM)
        line_kernels().line_search[(1,)](
            gains, gains.numel(), self.slope, self.square, scores, sigma, value, self.t,
            tuning.noise, tuning.follow, tuning.most, BLOCK=A_PROGRAM,
        )  # fmt: skip
        programs = (-(-V.numel() // A_PROGRAM),)
        line_kernels().move_by[programs](V, U, variance, self.t, V.numel(), WEIGHED=weighed, BLOCK=A_PROGRAM)
        line_kernels().add_by[(rows.numel(),)](self.A, rows, found.change, self.t, scores, **launch(scores))

    def settle(self, value: Any) -> None:
        """After a pass: the value knows all of it already."""


class FusedScores:
    """The same for scores that have each their own t."""

    def __init__(self, A: Any, scores: int, tuning: DeviceTuning):
        self.A, self.tuning = A, tuning
        double = library().float64
        self.t, self.rise = (A.new_zeros(scores, dtype=double) for _ in range(2))

    def go(self, rows: Any, found: BlockStep, weights: Any, U: Any, sigma: Any, value: Any) -> None:
        V, tuning = weights.V, self.tuning
        weighed, bent = weights.variance is not None, found.bend is not None
        (scores, width), many = V.shape, rows.numel()
        line_kernels().line_of_scores[(scores,)](
            found.gain, found.bend if bent else found.gain, found.gain.shape[0], V, U, weights.variance if weighed else V, sigma,
            self.rise, self.t, scores, width, tuning.noise, tuning.follow, tuning.most,
            WEIGHED=weighed, BENT=bent, BLOCK=SHORT_PROGRAM,
        )  # fmt: skip
        tile = entry_tile(scores)
        programs = -(-many // tile["ROWS"]), -(-scores // tile["BLOCK"])
        line_kernels().add_by_scores[programs](self.A, rows, found.change, self.t, many, scores, **tile)

    def settle(self, value: Any) -> None:
        """After a pass: what all scores have risen by."""
        value += self.rise.sum()
        self.rise.zero_()


def fused_line(weights: Any, A: Any, tuning: DeviceTuning, apart: bool) -> FusedLine | FusedScores | None:
    """Where there is one for this run."""
    if weights.lower is not None or weights.R is not None or A.dtype.itemsize != 4 or not has_kernels(A, 1):
        return None
    if apart:
        return FusedScores(A, A.shape[1], tuning)
    return FusedLine(A, A.shape[1], tuning) if has_kernels(A, A.shape[1]) else None
