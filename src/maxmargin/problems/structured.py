"""The structured problem: a max-oracle over outputs for each sample.

    P(w) = 1/2 ||w||^2 + sum_i cap_i max_y [ Delta(y_i, y) + w . phi(x_i, y) - w . phi(x_i, y_i) ],     cap_i = C s_i
    D(p) = sum_i cap_i E_p[Delta(y_i, y)] - 1/2 ||w(p)||^2,     w(p) = sum_i cap_i (phi(x_i, y_i) - E_p[phi(x_i, y)])

with p_i a distribution over the outputs of sample i; both depend on it through its statistics only. Where the structure binds
weights to be non-negative, w(p) is that sum clipped at zero there, and D has the same form (regularizer.py, without a prior).
"""

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..jit import Interpreted, vectors
from ..structures.encoded.contract import n_samples, new_scratch, nonnegative, weight_shape
from ..structures.encoded.sweeps import combine, risk
from ..utils.threads import in_threads, pieces
from .linear import Evaluated

PIECES = 64  # the samples are evaluated in this many pieces, so that sums do not depend on the number of threads


@dataclass(frozen=True)
class StructuredProblem:
    """Encoded samples and the weight C s_i of each."""

    data: Any
    cap: np.ndarray

    @property
    def n_examples(self) -> int:
        return n_samples(self.data)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return weight_shape(self.data)

    @cached_property
    def bound(self) -> np.ndarray:
        """Which weights, counted along the array of all, must not be negative."""
        return nonnegative(self.data)

    def primal(self, W: np.ndarray, n_jobs: int = 1) -> float:
        """P(W) by a full pass with the exact oracle."""
        jobs = 1 if isinstance(self.data, Interpreted) else n_jobs

        def work(part: tuple[int, int]) -> float:
            return risk(self.data, self.cap, W, new_scratch(self.data), *part)

        return 0.5 * float(np.vdot(W, W)) + float(sum(in_threads(work, pieces(self.n_examples, PIECES), jobs)))

    def feasible(self, W: np.ndarray) -> np.ndarray:
        """The nearest weights that are not negative where they must not be."""
        if self.bound.size == 0:
            return W
        result = W.copy()
        result.reshape(-1)[self.bound] = np.maximum(result.reshape(-1)[self.bound], 0.0)
        return result

    def evaluate(self, points) -> Evaluated:
        """The exact dual value of these points, and their weights before any clip."""
        W = vectors.aligned(self.weight_shape, np.float64)
        total = combine(points, self.data, self.cap, new_scratch(self.data), W)
        w = self.feasible(W)
        return Evaluated(float(total) - 0.5 * float(np.vdot(w, w)), W)


@dataclass(frozen=True)
class SampleStream:
    """A structured problem whose samples come in blocks, always in the same order; `encode` makes what solvers see of a block."""

    source: Any
    encode: Callable[[Any, Any], Any]
    C: float
    n_examples: int
    weight_shape: tuple[int, ...]
    bound: np.ndarray  # as that of a StructuredProblem

    def parts(self) -> Generator[tuple[int, StructuredProblem]]:
        """The number of the first sample of each block, and the block's problem."""
        with closing(self.source.blocks()) as blocks:
            for block in blocks:
                weight = np.ones(block.rows.size) if block.weight is None else block.weight
                yield int(block.rows[0]), StructuredProblem(self.encode(block.X, block.y), self.C * weight)
