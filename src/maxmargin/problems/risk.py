"""The losses of a problem as one convex function with planes that touch it: all that a bundle method needs to see.

    R(w) = sum_p R_p(w),      R_p(w') >= offset_p + <slope_p, w'>  for every w',  with equality at w

The examples are split into `n_groups` groups p, each with a plane of its own. For losses that are maxima of affine functions
the offset is summed from the margins of the maximising pieces, not taken as a difference of large numbers; smooth losses have it
from their conjugates (`reward`). A new kind of problem is one more registration of `risk_of`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from ..data import rows
from ..data.row_updates import update
from ..data.rows import add, dot
from ..jit import Interpreted, kernel, vectors
from ..losses.base import reward, row_slope, slope, value
from ..structures.encoded.contract import clear, forget, loss_of, new_scratch, prepare, push, score_of, tally, truth, worst
from ..utils.threads import in_threads, spans, with_scratch
from .explicit import GroupedProblem
from .linear import RowProblem, ScalarProblem
from .multilabel import LabelGroup, MultilabelProblem
from .ranking import RankingProblem, rank_scratch, ranking_cut
from .structured import StructuredProblem

# Groups are evaluated in spans, this many in all at least, so that sums do not depend on the number of threads. Set not
# recorded, 2026-11-15.
CUT_SPANS = 16
# Of rows with one score each, runs of neighbours are evaluated instead, as memory likes it: this many, fewer where one would have
# fewer rows than CUT_ROWS. Each has planes of its own for all groups, so that is for planes of CUT_NUMBERS numbers at the most.
# By what they cost beside the rows, nothing was measured, 2026-11-17.
CUT_RUNS = 32
CUT_ROWS = 1_024
CUT_NUMBERS = 1 << 14


class Cut(NamedTuple):
    """What a risk says at one point: of each group its value, and the plane that touches it there."""

    values: np.ndarray
    slopes: np.ndarray
    offsets: np.ndarray


class Risk(ABC):
    """A convex function of a vector of `dim` weights, a sum of `n_groups` parts.

    Calling it returns what `maxmargin.minimize` asks of a risk: (value, subgradient), or with several groups values (P,) and
    subgradients (P, dim).
    """

    dim: int
    n_groups: int
    nonnegative = False  # whether every part is known never to be negative
    ours = False  # whether its planes are right but for rounding, as no code of a user's is asked for them

    @abstractmethod
    def cut(self, w: np.ndarray) -> Cut: ...

    def __call__(self, w) -> tuple[Any, np.ndarray]:
        w = np.asarray(w, dtype=np.float64).ravel()
        if w.size != self.dim:
            raise ValueError(f"w has {w.size} entries; this risk has {self.dim} weights.")
        values, slopes, _ = self.cut(w)
        return (float(values[0]), slopes[0]) if self.n_groups == 1 else (values, slopes)


class Layout(NamedTuple):
    """The weights of a problem as one vector, and back."""

    flat: Callable[[np.ndarray], np.ndarray]
    shaped: Callable[[np.ndarray], np.ndarray]


# ---- kernels: a part of the examples; each adds sum_i b_i x_i, minus its subgradient, and returns value and offset -------


@kernel
def scalar_cut(X, loss, w, out, start, stop, step):
    total, offset = 0.0, 0.0
    for i in range(start, stop, step):
        score = dot(X, i, w)
        b = slope(loss, i, score)
        total += value(loss, i, score)
        if b != 0.0:
            add(X, i, b, out)
            offset += reward(loss, i, b)
    return total, offset


@kernel
def scalar_cuts(X, loss, w, out, sums, bounds, some):
    """All groups at once: example i is one of group i mod P. Of each run k of examples in range(*some), which are those from
    bounds[k] to bounds[k + 1], `out` (runs, P, weights) and `sums` (runs, P, 2), values and offsets, are written."""
    first, last = some
    for k in range(first, last):
        planes, known = out[k], sums[k]
        count = known.shape[0]
        for p in range(count):
            known[p, 0] = known[p, 1] = 0.0
            for j in range(planes.shape[1]):
                planes[p, j] = 0.0
        p = bounds[k] % count
        for i in range(bounds[k], bounds[k + 1]):
            score = dot(X, i, w)
            b = slope(loss, i, score)
            known[p, 0] += value(loss, i, score)
            if b != 0.0:
                add(X, i, b, planes[p])
                known[p, 1] += reward(loss, i, b)
            p = p + 1 if p + 1 < count else 0


@kernel
def row_cut(X, loss, W, out, span, scores, duals):
    start, stop, step = span
    total, offset = 0.0, 0.0
    for i in range(start, stop, step):
        rows.scores(X, i, W, scores.vectors)
        share, gain = row_slope(loss, i, scores, duals)
        if share != 0.0:
            update(X, i, duals.vectors, 0, out)
            total += share
            offset += gain
    return total, offset


@kernel
def grouped_cut(X, margin, layout, cap, w, out, span):
    (members, starts), (start, stop, step) = layout, span
    total, offset = 0.0, 0.0
    for i in range(start, stop, step):
        best, found = 0.0, -1
        for k in range(starts[i], starts[i + 1]):
            r = members[k]
            excess = margin[r] - dot(X, r, w)
            if excess > best:
                best, found = excess, r
        if found >= 0:
            add(X, found, cap[i], out)
            total += cap[i] * best
            offset += cap[i] * margin[found]
    return total, offset


@kernel
def structured_cut(data, weight, W, out, scratch, span):
    start, stop, step = span
    total, offset = 0.0, 0.0
    for i in range(start, stop, step):
        if weight[i] > 0.0:
            prepare(data, i, W, scratch)
            best = worst(data, i, scratch, scratch.code)
            offset += weight[i] * loss_of(data, i, scratch.code)
            clear(data, i, scratch)
            tally(data, i, -1.0, scratch.code, scratch)
            forget(data, i, scratch.code)
            truth(data, i, scratch.code)
            total += weight[i] * (best - score_of(data, i, scratch, scratch.code))
            tally(data, i, 1.0, scratch.code, scratch)
            push(data, i, weight[i], scratch, out)
    return total, offset


# ---- problems --------------------------------------------------------------------------------------------


class ProblemRisk(Risk):
    """The losses of a problem, weighted as they are there; group p has the examples p, p + P, p + 2 P, ..."""

    nonnegative = ours = True

    def __init__(self, problem, count: int, n_groups: int, n_jobs: int, layout: Layout):
        self.problem, self.count, self.n_groups, self.n_jobs, self.layout = problem, count, n_groups, n_jobs, layout
        self.dim = layout.flat(np.zeros(problem.weight_shape)).size
        each = -(-CUT_SPANS // n_groups)
        self.spans = [(p + n_groups * k, count, n_groups * each) for p in range(n_groups) for k in range(each)]
        self.each = each

    def cut(self, w):
        W = self.layout.shaped(w)

        def work(span: tuple[int, int, int], scratch: Any) -> tuple[float, float, np.ndarray]:
            out = vectors.aligned(self.problem.weight_shape, np.float64)
            total, offset = self.part(W, out, span, scratch)
            return total, offset, self.layout.flat(out)

        found = in_threads(with_scratch(self.scratch, work), self.spans, self.n_jobs)
        values, offsets = np.zeros(self.n_groups), np.zeros(self.n_groups)
        slopes = np.zeros((self.n_groups, self.dim))
        for k, (total, offset, out) in enumerate(found):
            p = k // self.each
            values[p] += total
            offsets[p] += offset
            slopes[p] -= out
        return Cut(values, slopes, offsets)

    def scratch(self) -> Any:
        """Memory for `part`; a thread needs its own."""
        return None

    @abstractmethod
    def part(self, W: np.ndarray, out: np.ndarray, span: tuple[int, int, int], scratch: Any) -> tuple[float, float]:
        """Value and offset of the examples range(*span), minus their subgradient added to `out`."""


class ScalarRisk(ProblemRisk):
    def __init__(self, problem, count: int, n_groups: int, n_jobs: int, layout: Layout):
        super().__init__(problem, count, n_groups, n_jobs, layout)
        small = n_groups * problem.weight_shape[0] <= CUT_NUMBERS
        runs = max(1, min(CUT_RUNS, count // CUT_ROWS)) if small else 0
        self.bounds = np.linspace(0, count, runs + 1).astype(np.int64)
        self.found, self.sums = np.empty((runs, n_groups, problem.weight_shape[0])), np.empty((runs, n_groups, 2))

    def cut(self, w):
        runs = len(self.sums)
        if runs == 0:
            return super().cut(w)
        X, loss, W = self.problem.X, self.problem.exact_loss, self.layout.shaped(w)

        def work(some: tuple[int, int]) -> None:
            scalar_cuts(X, loss, W, self.found, self.sums, self.bounds, some)

        in_threads(work, spans(runs, 1 if self.n_jobs == 1 else 2 * self.n_jobs), self.n_jobs)
        sums, slopes = self.sums.sum(axis=0), np.negative(self.found.sum(axis=0))
        return Cut(sums[:, 0].copy(), slopes, sums[:, 1].copy())

    def part(self, W, out, span, scratch):
        return scalar_cut(self.problem.X, self.problem.exact_loss, W, out, *span)


class RowRisk(ProblemRisk):
    def scratch(self):
        return tuple(vectors.zeros_table(1, self.problem.n_classes, np.float64) for _ in range(2))

    def part(self, W, out, span, scratch):
        prior = self.problem.regularizer
        return row_cut(self.problem.X, self.problem.exact_loss, prior.scoring(W), prior.moved(out), span, *scratch)


class GroupedRisk(ProblemRisk):
    def part(self, W, out, span, scratch):
        p = self.problem
        return grouped_cut(p.X, p.margin, p.layout, p.cap, W, out, span)


class StructuredRisk(ProblemRisk):
    def __init__(self, problem, count: int, n_groups: int, n_jobs: int, layout: Layout):
        super().__init__(problem, count, n_groups, problem.jobs(n_jobs), layout)
        self.helpers = n_jobs  # threads or processes that an oracle may have

    def cut(self, w):
        with self.problem.foreseeing(self.layout.shaped(w), self.helpers):
            return super().cut(w)

    @property
    def ours(self) -> bool:  # type: ignore[override]  # a structure of a user's has a decoder of its own
        return not isinstance(self.problem.data, Interpreted)

    def scratch(self):
        return new_scratch(self.problem.data)

    def part(self, W, out, span, scratch):
        return structured_cut(self.problem.data, self.problem.cap, W, out, scratch, span)


class RankingRisk(ProblemRisk):
    def scratch(self):
        return rank_scratch(self.problem.layout)

    def part(self, W, out, span, scratch):
        p = self.problem
        return ranking_cut(p.X, p.layout, p.cap, W, out, scratch, span)


class MultilabelRisk(Risk):
    """The losses of all labels over one table of weights (labels, features + 1), flattened; R has no part in them."""

    nonnegative = ours = True

    def __init__(self, problem: MultilabelProblem, n_groups: int, n_jobs: int):
        self.n_groups, self.shape = n_groups, problem.weight_shape
        self.dim = self.shape[0] * self.shape[1]
        free = replace(problem, R=None)
        self.parts = [
            (columns, RowRisk(group, group.n_examples, n_groups, n_jobs, layout_of(group)))
            for columns, group in ((columns, free.group(columns)) for columns in free.groups)
        ]

    def cut(self, w):
        W = w.reshape(self.shape)
        values, offsets, slopes = np.zeros(self.n_groups), np.zeros(self.n_groups), np.zeros((self.n_groups, *self.shape))
        for columns, risk in self.parts:
            found = risk.cut(W[columns].ravel())
            values += found.values
            offsets += found.offsets
            slopes[:, columns] = found.slopes.reshape(self.n_groups, len(columns), -1)
        return Cut(values, slopes.reshape(self.n_groups, -1), offsets)


def plain(problem) -> Layout:
    return Layout(np.ravel, lambda w: w.reshape(problem.weight_shape))


@singledispatch
def layout_of(problem) -> Layout:
    """Weights in the order that the problem has them."""
    return plain(problem)


@layout_of.register
def _(problem: RowProblem) -> Layout:
    """(classes, features + 1), without unused lanes"""
    K = problem.n_classes
    return Layout(
        lambda W: vectors.to_classes(W, K).ravel(),
        lambda w: vectors.from_classes(w.reshape(K, problem.weight_shape[0]), np.float64),
    )


@layout_of.register
def _(problem: LabelGroup) -> Layout:
    """(labels, features + 1); of coupled ones U' in its place, in which the quadratic term is 1/2 ||U||^2 (`Coupling.factor`)"""
    if problem.R is None:
        return layout_of.dispatch(RowProblem)(problem)
    (F, inverse), K = problem.coupling.factor, problem.n_classes

    def shaped(u: np.ndarray) -> np.ndarray:
        U, both = u.reshape(F.shape[1], -1), vectors.aligned(problem.weight_shape, np.float64)
        both[0], both[1] = vectors.from_classes(inverse.T @ U, np.float64), vectors.from_classes(F @ U, np.float64)
        return both

    return Layout(lambda both: (F.T @ vectors.to_classes(both[0], K)).ravel(), shaped)


@singledispatch
def risk_of(problem, n_groups: int = 1, n_jobs: int = 1, layout: Layout | None = None) -> Risk | None:
    """The losses of this problem, split into groups; None where there is no such thing."""
    return None


@risk_of.register
def _(problem: ScalarProblem, n_groups=1, n_jobs=1, layout=None):
    if slope.dispatch(type(problem.exact_loss)) is slope.dispatch(object):
        return None
    return ScalarRisk(problem, problem.n_examples, n_groups, n_jobs, layout or layout_of(problem))


@risk_of.register
def _(problem: RowProblem, n_groups=1, n_jobs=1, layout=None):
    if row_slope.dispatch(type(problem.exact_loss)) is row_slope.dispatch(object):
        return None
    return RowRisk(problem, problem.n_examples, n_groups, n_jobs, layout or layout_of(problem))


@risk_of.register
def _(problem: MultilabelProblem, n_groups=1, n_jobs=1, layout=None):
    return MultilabelRisk(problem, n_groups, n_jobs)


@risk_of.register
def _(problem: GroupedProblem, n_groups=1, n_jobs=1, layout=None):
    return GroupedRisk(problem, problem.n_parts, n_groups, n_jobs, layout or layout_of(problem))


@risk_of.register
def _(problem: StructuredProblem, n_groups=1, n_jobs=1, layout=None):
    return StructuredRisk(problem, problem.n_examples, n_groups, n_jobs, layout or layout_of(problem))


@risk_of.register
def _(problem: RankingProblem, n_groups=1, n_jobs=1, layout=None):
    return RankingRisk(problem, problem.n_examples, n_groups, n_jobs, layout or layout_of(problem))
