"""Which C wins, with no more work than that takes.

All models are fitted to a coarse gap first, or as far as `FIRST_PASSES` allows; beyond a C that is clearly behind a smaller one,
as far as `PAST_PASSES` does. Then those whose score may still be the best are fitted to finer and finer gaps, until one is left,
the finest gap is reached or the passes allowed are spent; the others stay coarse. Where a fold has few samples and columns, an
interior point takes every model to the finest gap at once (`whole`), and nothing is left to refine. A C is out

- for sure, where the largest mean score that its optimum may have (`bounds`) is below the least that another one's must have;
- else by a rule: where it is behind the best by more than `CLEAR` standard errors of that difference over the folds, which coarse
  fits enlarge, or by more than `WIDER` times what refinement has moved any mean score that was as coarse. Where scores turn out
  to move further than that, those that were left behind come back.

A model that starts from its neighbour and stops at a gap is as far from its optimum as that allows, on the neighbour's side,
while one that starts from nothing is mostly nearer: the finest gap is therefore below the `tol` of a grid of single fits.
"""

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import NamedTuple

import numpy as np

from ..result import History, relative
from ..solvers import Newton
from ..solvers.base import WarmStart
from ..solvers.second_order.whole import WholePath, whole_path
from ..utils.threads import in_threads
from .advice import by_hand
from .base import Fitter, Step

EQUAL = 1e-12  # mean scores that differ by less are ties: rounding may tell them apart
# On 2,000 rows of the sets that `benchmarks search` calls seen; the passes also on iris, wine and 500 rows of a9a and cadata,
# after its unseen sets had shown that there were too many. 2026-11-16.
CLEAR = 3.0
WIDER = 2.0
FINER = 0.3  # of one gap to that before it
FINEST = 0.1  # of `tol`
TELLING = 1e-2  # the largest gap at which bounds of scores are worth their time
TOLD_NOTHING = 0.1  # of one at which they have told nothing: the next, when they are a third as wide. By guess, 2026-11-17.
FIRST_PASSES = 40  # passes of a first fit at the most
# The same where the best C is smaller, it seems. Five draws of rows each, of iris, wine, digits (hinge and log loss), a9a, letter
# and cadata: the winners are those of 40 passes but for two of 35, whose optima have the better scores. 2026-11-18.
PAST_PASSES = 5
LEAST_PASSES = 10  # that the first fits count as, for each C, at the least
# Passes of refinement for each of the first fits. Half of it takes up to half of the time on 500 rows of the same sets, and loses
# the winners of a9a and cadata on 2,000. 2026-11-17.
EFFORT = 3.0
HEAT = 3  # that are refined before the others, at the first gap. On a9a and cadata, 2,000 rows, 2026-11-17.
# As many times the gap of a fit itself is that of a start from the next smaller C, from which on the first is the better start:
# on a9a and digits, 2,000 rows, that one takes fewer passes at 3 and more at 6. 2026-11-17.
NEARER = 4.0


class Gaps(NamedTuple):
    """How far fits go: `coarse` the first ones, `tol` the finest of them, `finest` those that are refined; and the passes that a
    fit may take."""

    coarse: float
    tol: float
    finest: float
    max_iter: int

    @classmethod
    def of(cls, search_tol: float, tol: float, max_iter: int) -> "Gaps":
        coarse = max(search_tol, tol)
        return cls(coarse, tol, min(FINEST * tol, coarse), max_iter)

    def rungs(self) -> list[float]:
        """The gaps of the refinement, one after the other."""
        found = [self.coarse]
        while found[-1] > self.finest:
            finer = FINER * found[-1]
            found.append(self.finest if finer < self.finest / np.sqrt(FINER) else finer)
        return found[1:]


class Kept(NamedTuple):
    """What is known of a fit: what it has left, its target and whether that was met, its gap, what it gains over w = 0, whether
    larger C have the same optimum, whether Newton's method has ended it, for which the finest gap is a few steps more, the
    passes that a run which goes on with it has made already, and how much larger than the gap of the next smaller C that of a
    start from there is."""

    left: WarmStart
    target: float
    converged: bool
    gap: float
    gain: float
    outgrown: bool
    by_newton: bool
    passes: int
    leap: float


class Fold:
    """The models of one fold, from small to large C, each as fine as it was asked for so far.

    The gap is relative to the objective, and at a small C nearly every w has that of w = 0: a hundredth of it says nothing there.
    So what counts is a part of the objective or, where that is less, of what the model gains over w = 0. Where little is gained
    fits are short, so that this costs hardly any time.
    """

    def __init__(
        self,
        values: np.ndarray,
        gaps: Gaps,
        fitter: Fitter,
        score: Callable[[Step], float],
        proved: Callable[[Step], tuple[float, float]],
    ):
        self.values, self.gaps, self.fitter, self.score, self.proved = values, gaps, fitter, score, proved
        self.scores, self.bounds = np.full(values.size, np.nan), np.full((values.size, 2), np.nan)
        self.kept: dict[int, Kept] = {}
        self.whose = np.arange(values.size)  # the fit whose score a C has: where no dual is near its bound, a smaller C's
        self.loss_at_zero = np.inf  # the objective over C at the smallest C, which is that of w = 0 or a little less
        self.telling = TELLING if gaps.coarse <= TELLING else 0.0  # the gap up to which bounds are asked for
        self.proved_at = np.full(values.size, np.inf)  # the gap of the fit whose bounds these are
        self.whole: WholePath | None = None  # what finds starts at the finest gap at once, where a fold is that small
        self.passes = 0  # made so far
        self.spare = 0  # left for refinement
        self.longest = 0  # passes that a refinement to the present gap took, of the largest C that had one

    def begin(self, k: int, past: bool) -> None:
        """A first model at a C, started from that of the next smaller one; to `tol`, if asked for that, however long it takes.
        Fits of small folds are begun so near that they end at once. `past`: the best C is smaller, it seems."""
        most = self.gaps.max_iter
        if self.gaps.coarse > self.gaps.tol:
            most = min(PAST_PASSES if past and self.whole is None else FIRST_PASSES, most)
        before = self.kept[int(self.whose[k - 1])] if k else None
        if before is not None and before.outgrown:
            self.share(k, int(self.whose[k - 1]))
        elif before is not None and self.whole is not None:
            left = self.whole.start(float(self.values[k]), self.gaps.finest, before.left.weights)
            self.fit(k, self.gaps.finest, left, most)
        else:
            gain = 0.0 if before is None else min(before.gain * self.values[k] / self.values[k - 1], 1.0)  # small ones grow so
            self.fit(k, max(self.gaps.tol, self.gaps.coarse * gain), None if before is None else before.left, most)
        self.spare = int(EFFORT * max(self.passes, LEAST_PASSES * self.values.size))

    def refine(self, which: Sequence[int], target: float) -> None:
        """Fit some C as finely as this, and all between."""
        before, self.telling, self.longest = None, TELLING if target <= TELLING else 0.0, 0
        for k in range(which[0], which[-1] + 1):
            own, smaller = self.kept.get(k), int(self.whose[max(k - 1, 0)])
            if own is None and self.kept[smaller].outgrown:
                self.share(k, smaller)
                continue
            known = self.kept[int(self.whose[k])]
            aim = self.gaps.finest if known.by_newton else max(self.gaps.finest, target * known.gain)
            if self.spare > 0 and (own is None or (aim < own.gap and aim < own.target and own.converged and not self.decided(k))):
                self.whose[k] = k
                start = self.nearest(own, before) or known
                made = start.passes if start is own else 0
                self.longest = max(self.fit(k, aim, start.left, min(self.spare, self.gaps.max_iter), made), 1)
                self.spare -= self.longest
            before = self.kept.get(k)

    def nearest(self, own: Kept | None, smaller: Kept | None) -> Kept | None:
        """What a finer fit starts from: what a coarser one at the same C has left, or a fine one at the next smaller C. The whole
        state of second-order steps, where that was kept, is the best start. Duals of a smaller C are a better one than coarse
        ones, where that C is near."""
        if own is None or smaller is None:
            return own or smaller
        return own if own.left.state is not None or NEARER * own.gap < own.leap + smaller.gap else smaller

    def fit(self, k: int, target: float, start: WarmStart | None, max_iter: int, made: int = 0) -> int:
        """Fit the model at a C, and keep it where it is the finest so far; returns how many passes it took. `made`: those of the
        run that goes on, where `start` is the whole state of one."""
        setting = {"C": float(self.values[k]), "tol": target, "max_iter": min(max_iter + made, self.gaps.max_iter)}
        step = self.fitter(setting, start)
        found = step.model.certificate_
        if by_hand(found.message):
            raise KeyboardInterrupt
        passes = step.model.n_iter_ - made
        self.passes += passes
        if k in self.kept and not found.relative_gap < self.kept[k].gap:
            return passes
        loss = found.primal / step.model.C
        self.loss_at_zero = self.loss_at_zero if self.kept else loss
        gain = min(max(self.loss_at_zero / loss - 1.0, 0.0), 1.0) if loss > 0.0 else 1.0
        ours = max_iter < self.gaps.max_iter or k in self.kept  # a limit of ours, or a refinement: these miss nothing
        done = found.converged or ours
        if not self.kept and self.gaps.coarse > self.gaps.tol and not step.left.planes:
            self.whole = whole_path(step.problem)
            self.telling = self.telling if self.whole is None else TELLING
        asked = k + 1 < self.values.size and k + 1 not in self.kept  # else nobody has this score besides
        outgrown = found.converged and asked and (self.stays_outgrown(k) or step.outgrown)
        by_newton = step.model.history_.methods[-1:] != [] and step.model.history_.methods[-1][1] == Newton.__name__
        made = step.model.n_iter_ if step.left.state is not None else 0
        gap, leap = found.relative_gap, self.leap(k, step.model.history_)
        self.kept[k] = Kept(step.left, max(target, gap), done, gap, gain, outgrown, by_newton, made, leap)
        self.scores[k] = self.score(step)
        if self.tells(k, gap):
            self.bounds[k], self.proved_at[k] = self.proved(step), gap
        for other in np.flatnonzero(self.whose == k):
            self.share(int(other), k)
        return passes

    def stays_outgrown(self, k: int) -> bool:
        """Whether a refined fit has said so as well: then it is not looked at again, which takes as long as two evaluations."""
        own = self.kept.get(k)
        return own is not None and own.outgrown and own.target <= FINER * self.gaps.coarse

    def leap(self, k: int, history: History) -> float:
        """How much larger the gap of a start from the next smaller C is than that one's own: found by the first fit, which begins
        there. Zero where it was not looked at."""
        if k in self.kept:
            return self.kept[k].leap
        smaller = self.kept.get(k - 1)
        if smaller is None or not len(history) or history[0].iteration > 0:
            return 0.0
        return relative(history[0].primal, history[0].dual) - smaller.gap

    def tells(self, k: int, gap: float) -> bool:
        """Whether bounds at this gap are worth their time. Those of a coarser fit hold for the optimum as well; where no score of
        the fold is outside of them, it takes a much smaller gap."""
        low, high = self.bounds[k]
        vague = not np.any((self.scores < low) | (self.scores > high))
        return bool(gap <= min(self.telling, TOLD_NOTHING * self.proved_at[k] if vague else np.inf))

    def share(self, k: int, own: int) -> None:
        """Let a C have the score of a smaller one."""
        self.whose[k], self.scores[k], self.bounds[k] = own, self.scores[own], self.bounds[own]

    def decided(self, k: int) -> bool:
        """Whether the score of a model is that of the optimum for sure."""
        return bool(self.bounds[k, 0] == self.bounds[k, 1])


class Contest:
    """All folds. `scores` and `bounds` are theirs, in the order of rising C."""

    def __init__(self, folds: list[Fold], n_jobs: int):
        self.folds, self.n_jobs = folds, n_jobs
        self.level = np.zeros(folds[0].values.size, int)  # how often each C was refined
        self.means: list[dict[int, float]] = []  # by level: the mean scores of those that were that coarse

    @property
    def scores(self) -> np.ndarray:
        return np.array([fold.scores for fold in self.folds])

    @property
    def bounds(self) -> np.ndarray:
        return np.array([fold.bounds for fold in self.folds])

    def run(self, rungs: Sequence[float]) -> None:
        """Fit a first model at every C, then refine whoever may win, from gap to gap."""
        for k in range(self.level.size):
            in_threads(methodcaller("begin", k, self.past(k)), self.folds, self.n_jobs)
        self.note(range(self.level.size), 0)
        for level, target in enumerate(rungs, 1):
            heat = self.heat()
            while which := [k for k in self.contenders() if self.level[k] < level]:
                if min(fold.spare for fold in self.folds) <= 0:
                    return
                which = [k for k in which if k in heat] or self.affordable(which, level)
                if not which:
                    return
                in_threads(methodcaller("refine", which, target), self.folds, self.n_jobs)
                self.note(which, level)
                if level < len(rungs) and not heat:  # whoever comes back now is refined with the others, at the next gap
                    break
                heat = []
            if len(self.contenders()) <= 1:
                return

    def affordable(self, which: Sequence[int], level: int) -> list[int]:
        """Those that the passes left may bring to the gap of this level. A larger C takes more of them than a smaller one: beyond
        the largest that is there already each fold must have as many as that has taken."""
        reached = np.flatnonzero(self.level >= level)
        if reached.size == 0 or all(fold.spare >= fold.longest for fold in self.folds):
            return list(which)
        return [k for k in which if k < reached[-1]]

    def past(self, k: int) -> bool:
        """Whether the next smaller C is clearly behind one that is smaller still: then this one most likely is, too."""
        mean = self.scores.mean(axis=0)
        if np.all(np.isnan(mean)):
            return False
        leader = leader_of(mean)
        behind, error = self.behind(leader)
        return leader < k - 1 and bool(behind[k - 1] > CLEAR * error[k - 1])

    def behind(self, leader: int) -> tuple[np.ndarray, np.ndarray]:
        """By how much each C is behind this one, and the standard error of that over the folds; infinite of one fold."""
        found = self.scores[:, [leader]] - self.scores
        count, mean = len(found), found.mean(axis=0)
        return mean, found.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.full(mean.size, np.inf)

    def heat(self) -> list[int]:
        """Those that are refined before the others at a gap: the best so far, by whose moves others may be out, which are mostly
        those of large C, and dear."""
        mean = self.scores.mean(axis=0)
        return sorted(self.contenders(), key=lambda k: -mean[k])[:HEAT]

    def note(self, which: Sequence[int], level: int) -> None:
        """Keep the mean scores of those that have come to a level."""
        mean = self.scores.mean(axis=0)
        self.level[list(which)] = level
        self.means += [{} for _ in range(level + 1 - len(self.means))]
        self.means[level] |= {k: float(mean[k]) for k in which}

    def moved(self) -> np.ndarray:
        """By how much the mean score of each C may still move: as far as those moved that were as coarse and were refined; of
        the finest so far, as far as the ones before. Infinite where nothing was refined."""
        mean, found = self.scores.mean(axis=0), [np.inf]
        for level, means in enumerate(self.means):
            moves = [abs(mean[k] - was) for k, was in means.items() if self.level[k] > level and not np.isnan(mean[k])]
            found.append(max(moves, default=found[-1]))
        return np.array(found[1:])[self.level]

    def contenders(self) -> list[int]:
        """Those that may win, in the order of C."""
        mean, bounds = self.scores.mean(axis=0), self.bounds.mean(axis=0)
        if np.all(np.isnan(mean)):
            return []
        leader = leader_of(mean)
        behind, error = self.behind(leader)
        may = behind <= np.minimum(CLEAR * error, WIDER * self.moved())  # False of NaN
        if not np.all(np.isnan(bounds)):
            may &= ~(bounds[:, 1] < np.nanmax(bounds[:, 0]))
        whose = np.array([fold.whose for fold in self.folds])
        may &= np.any(whose != whose[:, [leader]], axis=0)  # the same models are one
        may[leader] = True
        return [int(k) for k in np.flatnonzero(may)]


def leader_of(mean: np.ndarray) -> int:
    """The smallest C with the best mean score."""
    return int(np.flatnonzero(where_best(mean))[0])


def where_best(mean: np.ndarray) -> np.ndarray:
    """Where the best of some mean scores are, NaN left out."""
    best = np.nanmax(mean)
    return np.asarray(mean >= best - EQUAL * abs(best))
