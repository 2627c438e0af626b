"""The structured problem: a max-oracle over outputs for each sample.

    P(w) = 1/2 ||w||^2 + sum_i cap_i max_y [ Delta(y_i, y) + w . phi(x_i, y) - w . phi(x_i, y_i) ],     cap_i = C s_i
    D(p) = sum_i cap_i E_p[Delta(y_i, y)] - 1/2 ||w(p)||^2,     w(p) = sum_i cap_i (phi(x_i, y_i) - E_p[phi(x_i, y)])

with p_i a distribution over the outputs of sample i; both depend on it through its statistics only. Where the structure binds
weights to be non-negative, w(p) is that sum clipped at zero there, and D has the same form (regularizer.py, without a prior).

Samples that are gone but for their points, which stay as they are, add their part of the weights, r, and their expected losses:

    P(w) = 1/2 ||w||^2 - w . r + frozen losses + ...,     w(p) = r + ...,     D(p) = frozen losses + ...

which is a prior mean of r, and a constant (regularizers/frozen.py).
"""

import math
from collections.abc import Generator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..data.rows import column_sizes
from ..jit import vectors
from ..regularizers.base import Regularizer
from ..regularizers.frozen import Frozen
from ..structures.encoded.contract import kind_of, n_samples, new_scratch, nonnegative, same_shapes, weight_shape
from ..structures.encoded.python import Custom, CustomMarginals
from ..structures.encoded.sweeps import combine, risk
from ..utils.threads import in_threads, spans, with_scratch
from .base import PLAIN_TERM, Evaluated, Problem
from .sizes import overlarge_columns

# Samples are evaluated in this many spans, so that sums do not depend on the number of threads. Set not recorded, 2026-11-15.
SPANS = 64
# Sums of weights are made of at most this many parts, each of this many samples at least, all together of so many numbers: the
# memory of a thread, and what it costs to add them up, must stay small beside the samples. By their sizes, 2026-11-17.
SUM_SPANS, SPAN_SAMPLES, SPAN_NUMBERS = 16, 32, 1 << 22


@dataclass(frozen=True)
class StructuredProblem(Problem):
    """Encoded samples and the weight s_i of each."""

    data: Any
    weight: np.ndarray
    C: float = 1.0
    frozen: Frozen | None = None

    @property
    def regularizer(self) -> Regularizer:
        return PLAIN_TERM if self.frozen is None else self.frozen

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

        def work(part: tuple[int, int], scratch: Any) -> float:
            return risk(self.data, self.cap, W, scratch, *part)

        lent = with_scratch(lambda: new_scratch(self.data), work)
        with self.foreseeing(W, n_jobs):
            losses = in_threads(lent, spans(self.n_examples, SPANS), self.jobs(n_jobs))
        return self.regularizer.penalty(W) + float(sum(losses))

    def foreseeing(self, W: np.ndarray, n_jobs: int, points: Any = None, temperature: Any = ()) -> AbstractContextManager:
        """Within it the oracle's answers at these weights are there for all samples, where processes can find them. `points`: of
        marginals, the oracle is that of a temperature, which each sample has."""
        if not isinstance(self.data, Custom):
            return nullcontext()
        if not isinstance(points, CustomMarginals):
            return self.data.ahead("loss_augmented_decode", W, n_jobs)
        return self.data.ahead("marginals", W, n_jobs, list(zip(temperature, points.marginals, strict=True)))

    def jobs(self, n_jobs: int) -> int:
        """How many threads can work on these samples at once, in a pass over all of them: plain Python as many as it says."""
        return self.data.threads(n_jobs) if isinstance(self.data, Custom) else n_jobs

    def visitors(self, n_jobs: int) -> int:
        """How many can step, each in its part of the samples: in plain Python one."""
        return 1 if isinstance(self.data, Custom) else n_jobs

    @property
    def suspect(self):
        if not isinstance(self.data, Custom):
            return ""
        methods = f"loss_augmented_decode, joint_feature or loss of {self.data.name}"
        return f"{methods} may be wrong; maxmargin.check_structure(structure, X, y) tells which"

    @property
    def keeps_points(self) -> bool:  # codes of a user's outputs mean nothing to another fit
        return not isinstance(self.data, Custom)

    @property
    def remembered(self) -> Any:
        return self.data

    def resumed(self, duals, weights, data, kind):
        """Points found on other samples: of the kind that is asked for, and on samples of the same shapes."""
        if duals is None or self.fitting(weights) is None or kind_of(duals) != kind:
            return None, None
        fits = type(data) is type(self.data) and weight_shape(data) == self.weight_shape and same_shapes(self.data, data)
        return (duals, weights) if fits else (None, None)

    def column_sizes(self):
        return column_sizes(getattr(getattr(self.data, "graphs", self.data), "X", None))  # of structures without rows: None

    def overlarge(self, primal):
        total = float(self.cap.sum())
        return overlarge_columns(self.column_sizes(), float(np.median(self.cap)), primal / total if total > 0.0 else 0.0)

    def feasible(self, W: np.ndarray) -> np.ndarray:
        """The nearest weights that are not negative where they must not be."""
        if self.bound.size == 0:
            return W
        result = W.copy()
        result.reshape(-1)[self.bound] = np.maximum(result.reshape(-1)[self.bound], 0.0)
        return result

    @cached_property
    def sums(self) -> list[tuple[int, int]]:
        """The spans of samples whose features are added up one by one, whatever the number of threads."""
        most = min(SUM_SPANS, self.n_examples // SPAN_SAMPLES, SPAN_NUMBERS // math.prod(self.weight_shape))
        return spans(self.n_examples, max(most, 1))

    def evaluate(self, points, n_jobs: int = 1) -> Evaluated:
        """The exact dual value of these points, and their weights before any clip."""
        spare: list[np.ndarray] = []

        def work(part: tuple[int, int], scratch: Any) -> tuple[float, np.ndarray]:
            try:
                v = spare.pop()
            except IndexError:
                v = vectors.aligned(self.weight_shape, np.float64)
            return combine(points, self.data, self.cap, scratch, v, *part), v

        lent, jobs = with_scratch(lambda: new_scratch(self.data), work), max(self.jobs(n_jobs), 1)
        losses, W = 0.0, None
        for first in range(0, len(self.sums), jobs):  # no more sums at a time than threads: each takes as much memory as W
            for total, v in in_threads(lent, self.sums[first : first + jobs], jobs):
                losses += total
                if W is None:
                    W = v
                    continue
                W += v
                v[...] = 0.0
                spare.append(v)
        assert W is not None
        if self.frozen is not None and self.frozen.mean is not None:
            losses += self.frozen.constant + 0.5 * float(np.vdot(self.frozen.mean, self.frozen.mean))
            W += self.frozen.mean
        w = self.feasible(W)
        return Evaluated(losses - 0.5 * float(np.vdot(w, w)), W)


@dataclass(frozen=True)
class SampleStream(Problem):
    """A structured problem whose samples come in blocks, always in the same order; `structure` encodes a block for solvers."""

    source: Any
    structure: Any
    count: int
    shape: tuple[int, ...]
    bound: np.ndarray  # as that of a StructuredProblem
    C: float = 1.0

    in_memory = False

    @property
    def n_examples(self) -> int:
        return self.count

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return self.shape

    def primal(self, W: np.ndarray, n_jobs: int = 1) -> float:
        """P(W) by a pass over the source."""
        term = 0.5 * float(np.vdot(W, W))
        return term + sum(part.primal(W, n_jobs) - term for _, part in self.parts())

    def overlarge(self, primal):
        """By the samples of the first block, and their part of the value."""
        with closing(self.parts()) as parts:
            first = next(parts, None)
        return "" if first is None else first[1].overlarge(primal * first[1].n_examples / self.count)

    def parts(self) -> Generator[tuple[int, StructuredProblem]]:
        """The number of the first sample of each block, and the block's problem."""
        with closing(self.source.blocks()) as blocks:
            for block in blocks:
                weight = np.ones(block.rows.size) if block.weight is None else block.weight
                yield int(block.rows[0]), StructuredProblem(self.structure.encode(block.X, block.y), weight, self.C)
