"""The line search of a block and what follows it by few kernels: a GPU does them faster than it is told to.

For joint steps of rows with linear rewards and one t for all scores, without signs and coupled labels. Triton's, as in
`losses.fused_rows`; everything else takes the plain way.
"""

from functools import cache
from typing import Any

from ...data.tensors import library
from ...losses.fused_rows import has_kernels, launch
from .tuning import DeviceTuning

A_PROGRAM = 1024  # numbers that a program moves, or adds up, at a time


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

    def line(self, gains: Any, weights: Any, U: Any, sigma: Any, value: Any) -> None:
        """Find t, and move sigma, the value and the weights by it."""
        V, tuning = weights.V, self.tuning
        weighed, variance = weights.variance is not None, V if weights.variance is None else weights.variance
        scores, width = V.shape
        line_kernels().slopes_of_rows[(scores,)](V, U, variance, self.slope, self.square, width, WEIGHED=weighed, BLOCK=A_PROGRAM)
        line_kernels().line_search[(1,)](
            gains, gains.numel(), self.slope, self.square, scores, sigma, value, self.t,
            tuning.noise, tuning.follow, tuning.most, BLOCK=A_PROGRAM,
        )  # fmt: skip
        programs = (-(-V.numel() // A_PROGRAM),)
        line_kernels().move_by[programs](V, U, variance, self.t, V.numel(), WEIGHED=weighed, BLOCK=A_PROGRAM)

    def add(self, rows: Any, change: Any) -> None:
        """A[rows] += t change"""
        scores = self.A.shape[1]
        line_kernels().add_by[(rows.numel(),)](self.A, rows, change, self.t, scores, **launch(scores))


def fused_line(weights: Any, A: Any, tuning: DeviceTuning) -> FusedLine | None:
    """Where there is one for this run."""
    plain = weights.lower is None and weights.R is None and A.dtype.itemsize == 4
    return FusedLine(A, A.shape[1], tuning) if plain and has_kernels(A, A.shape[1]) else None
