"""Ranking within groups: a hinge on every pair of a group whose targets differ (Joachims 2002).

    P(w) = 1/2 ||w||^2 + C sum_g t_g sum_{i, j in g: y_i > y_j} s_i s_j max(0, 1 - <w, x_i - x_j>)

Pairs are never written out. With scores f a pair is *violated* where f_i - 1 < f_j, and with n_i the weight of the violated pairs
that i should win less that of those it should lose,

    loss_g = sum of violated s_i s_j - sum_i n_i f_i,          minus its subgradient: sum_i n_i x_i

n comes from sorting (Joachims 2006; Lee and Lin 2014): the samples of one target are sorted by their scores, then runs of
neighbouring targets are merged two by two, and each merge counts what it brings together by two pointers. That is m log m for a
group of m samples, whatever the number of targets.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..data.rows import add, dot
from ..data.table import Table
from ..jit import jitable, jitable_call, kernel
from ..regularizers.base import Regularizer
from ..utils.threads import in_threads, spans, with_scratch
from .base import PLAIN_TERM, Problem
from .sizes import overlarge

PAIR_MARGIN = 1.0  # by which scores of a pair should differ
INSERTED = 16  # so many neighbours are sorted by insertion before runs are merged. By habit, 2026-11-17.
PARTS = 16  # of the groups: sums are formed part by part, so they do not depend on the number of threads


class Ranked(NamedTuple):
    """Samples by group, and by target within it. Run r, of samples with one target, has the places from starts[r] to
    starts[r + 1] - 1; group g has the runs first[g] ... first[g + 1] - 1, two at least. `rows` and `weight` are those of the
    places."""

    rows: np.ndarray
    weight: np.ndarray
    starts: np.ndarray
    first: np.ndarray


class RankScratch(NamedTuple):
    """Memory for one group: scores and signed weights of violated pairs by place; keys and places while sorting, twice."""

    score: np.ndarray
    net: np.ndarray
    key: np.ndarray
    place: np.ndarray
    other_key: np.ndarray
    other_place: np.ndarray


def ranked(target: np.ndarray, group: np.ndarray, weight: np.ndarray) -> Ranked:
    """The layout of these samples, those left out that no pair has: of weight zero, or in a group of one target."""
    order = np.lexsort((target, group))
    order = order[weight[order] > 0.0]
    target, group = target[order], group[order]
    new_group = np.r_[True, group[1:] != group[:-1]] if order.size else np.zeros(0, bool)
    new_run = new_group | np.r_[True, target[1:] != target[:-1]] if order.size else new_group
    number = np.cumsum(new_group) - 1
    runs = np.bincount(number[new_run], minlength=1)
    kept = runs[number] > 1 if order.size else new_group
    order, new_run, runs = order[kept], new_run[kept], runs[runs > 1]
    starts = np.r_[np.flatnonzero(new_run), order.size].astype(np.int64)
    return Ranked(order, np.ascontiguousarray(weight[order]), starts, np.r_[0, np.cumsum(runs)].astype(np.int64))


def pair_weights(layout: Ranked) -> tuple[np.ndarray, np.ndarray]:
    """Of each group the weight of its samples, and of its pairs: sums of s_i and of s_i s_j."""
    if len(layout.first) < 2:
        return np.zeros(0), np.zeros(0)
    run = np.add.reduceat(layout.weight, layout.starts[:-1])
    samples, squares = np.add.reduceat(run, layout.first[:-1]), np.add.reduceat(run * run, layout.first[:-1])
    return samples, 0.5 * (samples * samples - squares)


def rank_scratch(layout: Ranked) -> RankScratch:
    ends = layout.starts[layout.first]
    most = int(np.max(np.diff(ends), initial=0))
    floats, places = (np.empty(most) for _ in range(4)), (np.empty(most, np.int64) for _ in range(2))
    score, net, key, other = floats
    return RankScratch(score, net, key, next(places), other, next(places))


# ---- counting by sorting ---------------------------------------------------------------------------------


@jitable
def insert_sorted(key, place, start, stop):
    for k in range(start + 1, stop):
        x, at, j = key[k], place[k], k
        while j > start and key[j - 1] > x:
            key[j], place[j] = key[j - 1], place[j - 1]
            j -= 1
        key[j], place[j] = x, at


@jitable
def merge(scratch, start, middle, stop):
    """Two sorted runs that are neighbours become one."""
    key, place, other_key, other_place = scratch.key, scratch.place, scratch.other_key, scratch.other_place
    if key[middle - 1] <= key[middle]:
        return
    for k in range(start, middle):
        other_key[k], other_place[k] = key[k], place[k]
    a, b, k = start, middle, start
    while a < middle:
        if b < stop and key[b] < other_key[a]:
            key[k], place[k] = key[b], place[b]
            b += 1
        else:
            key[k], place[k] = other_key[a], other_place[a]
            a += 1
        k += 1


@jitable
def sort_run(scratch, start, stop):
    """The keys start ... stop - 1 in rising order, with their places."""
    for k in range(start, stop, INSERTED):
        insert_sorted(scratch.key, scratch.place, k, min(k + INSERTED, stop))
    size = INSERTED
    while size < stop - start:
        for k in range(start, stop - size, 2 * size):
            merge(scratch, k, k + size, min(k + 2 * size, stop))
        size *= 2


@jitable
def count_between(scratch, weight, margin, begin, start, middle, stop):
    """The violated pairs of two sorted runs, the lower targets first: added to `net`; returns their weight. `begin`: the place of
    the group in `weight`."""
    key, place, net = scratch.key, scratch.place, scratch.net
    total, rest, a = 0.0, 0.0, start
    for k in range(start, middle):
        rest += weight[begin + place[k]]
    for b in range(middle, stop):  # what it should beat, and does not by the margin
        while a < middle and not key[b] - margin < key[a]:
            rest -= weight[begin + place[a]]
            a += 1
        if a == middle:
            break
        share = weight[begin + place[b]] * rest
        net[place[b]] += share
        total += share
    some, b = 0.0, middle
    for a in range(start, middle):
        while b < stop and key[b] - margin < key[a]:
            some += weight[begin + place[b]]
            b += 1
        net[place[a]] -= weight[begin + place[a]] * some
    return total


@jitable_call
def count_violated(layout, g, margin, scratch):
    """`net` of group g from its scores; returns the loss and the weight of the violated pairs"""
    starts, low, high = layout.starts, layout.first[g], layout.first[g + 1]
    begin = starts[low]
    size = starts[high] - begin
    for k in range(size):
        scratch.key[k], scratch.place[k], scratch.net[k] = scratch.score[k], k, 0.0
    for r in range(low, high):
        sort_run(scratch, starts[r] - begin, starts[r + 1] - begin)
    offset, runs = 0.0, 1
    while runs < high - low:
        for r in range(low, high - runs, 2 * runs):
            start, middle = starts[r] - begin, starts[r + runs] - begin
            stop = starts[min(r + 2 * runs, high)] - begin
            offset += count_between(scratch, layout.weight, margin, begin, start, middle, stop)
            merge(scratch, start, middle, stop)
        runs *= 2
    total = margin * offset
    for k in range(size):
        total -= scratch.net[k] * scratch.score[k]
    return max(total, 0.0), offset


@jitable
def score_group(X, layout, g, w, scratch):
    """The scores of the samples of group g; returns where they begin and how many there are"""
    begin, end = layout.starts[layout.first[g]], layout.starts[layout.first[g + 1]]
    for k in range(begin, end):
        scratch.score[k - begin] = dot(X, layout.rows[k], w)
    return begin, end - begin


@kernel
def ranking_risk(X, layout, cap, w, scratch, start, stop):
    total = 0.0
    for g in range(start, stop):
        score_group(X, layout, g, w, scratch)
        total += cap[g] * count_violated(layout, g, PAIR_MARGIN, scratch)[0]
    return total


@kernel
def ranking_cut(X, layout, cap, w, out, scratch, span):
    """Adds minus the subgradient of some groups; returns their value and offset"""
    start, stop, step = span
    total, offset = 0.0, 0.0
    for g in range(start, stop, step):
        begin, size = score_group(X, layout, g, w, scratch)
        value, violated = count_violated(layout, g, PAIR_MARGIN, scratch)
        total += cap[g] * value
        offset += cap[g] * violated
        for k in range(size):
            if scratch.net[k] != 0.0:
                add(X, layout.rows[begin + k], cap[g] * scratch.net[k], out)
    return total, offset


@kernel
def discordant_pairs(layout, scores, scratch, result):
    """The weight of the pairs of each group that these scores of places put into the wrong order; ties are not among them"""
    for g in range(result.size):
        begin, end = layout.starts[layout.first[g]], layout.starts[layout.first[g + 1]]
        for k in range(begin, end):
            scratch.score[k - begin] = scores[k]
        result[g] = count_violated(layout, g, 0.0, scratch)[1]


def group_scores(layout: Ranked, scores: np.ndarray) -> float:
    """The part of the pairs of a group that these scores of samples put in order, a tie counted half, in the mean over groups."""
    placed, scratch, pairs = scores[layout.rows], rank_scratch(layout), pair_weights(layout)[1]
    wrong, right = np.empty(pairs.size), np.empty(pairs.size)
    discordant_pairs(layout, placed, scratch, wrong)
    discordant_pairs(layout, -placed, scratch, right)
    return float(np.mean(0.5 * (1.0 + (right - wrong) / pairs)))


@dataclass(frozen=True)
class RankingProblem(Problem):
    """The examples are the groups; `weight` is t_g."""

    table: Table
    layout: Ranked
    weight: np.ndarray
    regularizer: Regularizer = PLAIN_TERM
    C: float = 1.0

    @property
    def X(self):  # noqa: N802 - a matrix, as everywhere
        """The rows as kernels take them."""
        return self.table.rows

    @property
    def n_examples(self) -> int:
        return self.weight.size

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (self.table.shape[1] + 1,)

    def primal(self, w: np.ndarray, n_jobs: int = 1) -> float:
        def part(span: tuple[int, int], scratch: RankScratch) -> float:
            return ranking_risk(self.X, self.layout, self.cap, w, scratch, *span)

        parts = spans(self.n_examples, PARTS)
        found = in_threads(with_scratch(lambda: rank_scratch(self.layout), part), parts, n_jobs)
        return self.regularizer.penalty(w) + float(sum(found))

    @property
    def dual_shape(self) -> tuple[int, ...]:
        """The duals of its pairs, added up for each sample."""
        return (self.table.shape[0],)

    def resumed(self, duals, weights, data, kind):
        """Sums over pairs do not tell how far pairs are from their bounds; weights are as good a start."""
        return None, self.fitting(weights)

    def overlarge(self, primal):
        """A sample's dual is a sum over the pairs of its group."""
        layout, caps = self.layout, np.zeros(self.table.shape[0])
        starts = layout.starts[layout.first]
        caps[layout.rows] = layout.weight * np.repeat(self.cap * pair_weights(layout)[0], np.diff(starts))
        return overlarge(self.table, caps, self.table.norms(), primal / float(caps.sum()))

    def column_sizes(self):
        return self.table.column_sizes()
