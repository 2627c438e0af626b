"""Coordinate steps of several threads side by side (CoCoA+: Ma et al. 2015), over rows of one score or of many.

A pass goes in rounds. In a round the next examples are cut into as many parts as there are threads, and each thread walks through
its part as if it were alone, on a copy of the weights; its own changes count `spread` times, for the others will move the same
way. Then all go together, part p a share t_p of its way, which `copies` and `joint` find from what the copies say; a part that
goes less than all its way takes its duals back to that point. The dual value is that of the duals kept, whatever was found, and
never falls but for rounding. Results depend on the number of threads, not on how fast each of them was.

All of that happens in compiled code, in which the threads stay (`crew`): a meeting takes microseconds, an order a few more. As
many of them take part in a pass as it is worth: where examples are few or short, and late in a run when most rest, half of them,
a quarter and so on, at last one. One works alone too where the gap is so small that rounding says how far to go.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ...data.rows import mean_length
from ...jit import jitable_call, kernel, vectors
from ...jit.standby import LEAVE, ORDER_KIND
from ...losses.base import clip, own_scratch, reward
from ...problems.linear import RowProblem
from ...regularizers.spaces import Free, unclipped
from ...utils.threads import in_threads, spans
from .copies import Copies, begin_together, go_all_the_way, go_together
from .crew import (
    FOUND_GAIN,
    FOUND_GAP,
    FOUND_SPREAD,
    GATHER,
    ORDER_EACH,
    ORDER_LEVEL,
    ORDER_PASS,
    ORDER_PUSH,
    ORDER_SPREAD,
    ORDER_START,
    ORDER_STOP,
    REACH,
    VISIT,
    Homes,
    Post,
    StandingCrew,
    at_home,
    gather_list,
    hears,
    part_of_list,
    portion,
    reports,
    takes_part,
)
from .linear import ALONE, Accelerated, BlockAscent, ScalarAscent
from .momentum import move_run, room_to_lack
from .parts import RowHand, reach_share, retreat_share, visit_share
from .schedule import draw
from .tuning import PartTuning
from .visits import reach_scalars, visit_scalars


@jitable_call
def retreat_scalars(loss, duals, old, plan, span, t):
    """Take the duals of plan.order[start:stop] to old + t (dual - old); returns the change of the reward."""
    gain = 0.0
    for k in range(span[0], span[1]):
        i = plan.order[k]
        dual, past = duals[i], old[i]
        if dual != past:
            duals[i] = clip(loss, i, past + t * (dual - past))
            gain += reward(loss, i, duals[i]) - reward(loss, i, dual)
    return gain


@jitable_call
def scalar_rounds(X, loss, space, tables, plan, post):
    """What one thread does in rounds; `space` is its copy of the weights."""
    duals, old, curvature = tables
    now, start, stop, each = post.desk[ORDER_PASS], post.desk[ORDER_START], post.desk[ORDER_STOP], post.desk[ORDER_EACH]
    meeting, level, spread, gap, gain = at_home(post), post.numbers[ORDER_LEVEL], post.numbers[ORDER_SPREAD], 0.0, 0.0
    together = begin_together(space, meeting)
    while together and start < stop:
        end = min(start + each, stop)
        first, last = part_of_list(post, start, end)
        for k in range(first, last):
            old[plan.order[k]] = duals[plan.order[k]]
        share, more = visit_scalars(X, loss, space, duals, curvature, plan, (now, first, last, spread), level)
        gap, gain, start = gap + share, gain + more, end
        t, spread = go_together(space, meeting, more, spread)
        together = t >= 0.0
        if 0.0 <= t < 1.0:
            gain += retreat_scalars(loss, duals, old, plan, (first, last), t)
    found = post.found[post.me]
    found[FOUND_GAP], found[FOUND_GAIN], found[FOUND_SPREAD] = gap, gain, spread


@jitable_call
def row_rounds(X, loss, space, tables, plan, post, hand):
    """As `scalar_rounds`, for rows; `hand` is what the thread works with (`parts`)."""
    now, start, stop, each = post.desk[ORDER_PASS], post.desk[ORDER_START], post.desk[ORDER_STOP], post.desk[ORDER_EACH]
    meeting, level, spread, gap, gain = at_home(post), post.numbers[ORDER_LEVEL], post.numbers[ORDER_SPREAD], 0.0, 0.0
    together = begin_together(space, meeting)
    while together and start < stop:
        end = min(start + each, stop)
        first, last = part_of_list(post, start, end)
        share, more = visit_share(hand, X, loss, space, tables, plan, (now, first, last, spread), level)
        gap, gain, start = gap + share, gain + more, end
        t, spread = go_together(space, meeting, more, spread)
        together = t >= 0.0
        if 0.0 <= t < 1.0:
            gain += retreat_share(hand, loss, tables, plan, (first, last), t)
    found = post.found[post.me]
    found[FOUND_GAP], found[FOUND_GAIN], found[FOUND_SPREAD] = gap, gain, spread


@jitable_call
def scalar_reach_part(X, loss, space, tables, plan, post):
    """What one thread extrapolates: its part of the examples, what they lack taken back from its copy of the weights."""
    (duals, before), gain, meeting = tables, 0.0, at_home(post)
    if begin_together(space, meeting):
        first, last = portion(0, plan.due.size, post.me, post.crew)
        gain = reach_scalars(X, loss, space, duals, before, plan, (post.desk[ORDER_PASS], first, last), post.numbers[ORDER_PUSH])
        go_all_the_way(space, meeting)
    post.found[post.me, FOUND_GAIN] = gain


@jitable_call
def row_reach_part(X, loss, space, tables, plan, post, hand):
    """The same for rows."""
    gain, meeting = 0.0, at_home(post)
    if begin_together(space, meeting):
        first, last = portion(0, plan.due.size, post.me, post.crew)
        visit = post.desk[ORDER_PASS], first, last
        gain = reach_share(hand, X, loss, space, tables, plan, visit, post.numbers[ORDER_PUSH])
        go_all_the_way(space, meeting)
    post.found[post.me, FOUND_GAIN] = gain


@kernel
def serve_scalars(X, loss, spaces, tables, plan, post):
    """Carry out orders; the first of the crew, one. `spaces`: this thread's copy of the weights, and as it is extrapolated."""
    (space, loose), (duals, before, old, curvature), seen, staying = spaces, tables, 0, True
    while staying:
        seen = hears(post, seen)
        kind = post.desk[ORDER_KIND]
        if kind == LEAVE:
            return
        if kind == GATHER:
            gather_list(plan, post)
        elif kind == VISIT:
            if takes_part(post):
                scalar_rounds(X, loss, space, (duals, old, curvature), plan, post)
        else:
            scalar_reach_part(X, loss, loose, (duals, before), plan, post)
        staying = reports(post)


@kernel
def serve_rows(X, loss, spaces, tables, plan, hand, post):
    """As `serve_scalars`, for rows."""
    (space, loose), (duals, before, old, curvature), seen, staying = spaces, tables, 0, True
    while staying:
        seen = hears(post, seen)
        kind = post.desk[ORDER_KIND]
        if kind == LEAVE:
            return
        if kind == GATHER:
            gather_list(plan, post)
        elif kind == VISIT:
            if takes_part(post):
                row_rounds(X, loss, space, (duals, old, curvature), plan, post, hand)
        else:
            row_reach_part(X, loss, loose, (duals, before), plan, post, hand)
        staying = reports(post)


def crew_sizes(n_jobs: int) -> list[int]:
    """Numbers of threads to choose from: all, half of them and so on, down to two."""
    return [n_jobs >> k for k in range(n_jobs.bit_length() - 1)]


def crews(n_jobs: int, weights: int, tuning: PartTuning) -> list[int]:
    """Those of `crew_sizes` while there is room for their copies."""
    return [threads for threads in crew_sizes(n_jobs) if threads <= tuning.copies // weights]


def meeting_seconds(weights: int, threads: int, tuning: PartTuning) -> float:
    """Seconds that threads take to meet. Each of them compares its share of the weights."""
    return tuning.thread * threads + weights * (tuning.weight + tuning.pair * threads)


def rounds(work: float, weights: int, threads: int, tuning: PartTuning) -> int:
    """How often threads may meet in a pass that takes one of them `work` seconds, so that meetings and the visits lost between
    them cost least together."""
    paid = tuning.lost * work / meeting_seconds(weights, threads, tuning)
    return int(min(tuning.most, np.sqrt(paid)))


def pass_seconds(work: float, weights: int, threads: int, times: int, tuning: PartTuning) -> float:
    """Seconds that such a pass takes threads that meet so often, and what it loses beside a pass of one."""
    took = work / threads + times * meeting_seconds(weights, threads, tuning) + tuning.order
    return took * (1.0 + tuning.lost * threads / times)


def worth_an_order(work: float, threads: int, tuning: PartTuning) -> bool:
    """Whether so many seconds of work are worth an order."""
    return threads > 1 and work - work / threads >= tuning.gain * tuning.order


def crew_size(work: float, weights: int, n_jobs: int, tuning: PartTuning) -> int:
    """How many threads are best for a pass that takes one of them so many seconds: those of a run, by its first pass."""
    best, found = work, 1
    for threads in crews(n_jobs, weights, tuning):
        times = rounds(work, weights, threads, tuning)
        if times >= tuning.fewest:
            took = pass_seconds(work, weights, threads, times, tuning)
            if took < best and work - took >= tuning.gain * tuning.order:
                best, found = took, threads
    return found


class Parted(Accelerated):
    """A run on `n_jobs` threads."""

    held = (*Accelerated.held, "spread", "spread_of", "last_gap", "last_count")
    spread = ALONE
    spread_of = 1  # threads that it was found with
    last_gap = np.inf  # as the last pass estimated it
    last_count: float = np.inf  # of its visits
    each = 1  # examples of a round
    at_work = 1  # threads, in this pass
    crew: StandingCrew | None = None
    before: Any
    known: tuple = ()  # what the crew works on

    def __init__(self, problem, duals, options):
        self.n_jobs = options.threads  # the first exact values use them
        super().__init__(problem, duals, options)

    def advance(self, stop):
        self.last_gap = super().advance(stop)
        return self.last_gap

    @property
    def size(self) -> int:
        """Threads that the run has."""
        if self.n_jobs < 2 or self.problem.half_spaces is not None:
            return 1
        return self.threads_for(self.problem.n_examples, self.n_jobs)

    def threads_for(self, count: int, most: int) -> int:
        """How many threads are best to visit so many examples."""
        return crew_size(count * self.visit_seconds, self.space.w.size, most, self.options.tuning.parts)

    @property
    def works_on(self) -> tuple:
        """What the crew knows of the run."""
        return self.duals, self.before, self.plan, *sorted((self.space, self.other), key=id)

    def copies(self) -> tuple[Copies, list[Homes], list[tuple[Any, Any]]]:
        """Copies of the weights, those that they may start from, and what each thread moves: its copy, and what of it is moved
        where scores are asked for later."""
        term, copies, pair = self.problem.regularizer, Copies(self.space, self.size), self.known[-2:]
        homes = [(unclipped(space), space.w) for space in (*pair, *(term.loose(space) for space in pair))]
        return copies, homes, [(copy, term.loose(copy)) for copy in copies.spaces]

    def call_together(self) -> StandingCrew:
        """The crew, for the duals and weights as they are now."""
        known = self.works_on
        if self.crew is None or len(known) != len(self.known) or any(a is not b for a, b in zip(known, self.known, strict=True)):
            self.close()
            self.known = known
            copies, homes, spaces = self.copies()
            self.crew = StandingCrew(self.size, copies, homes, self.plan, lambda posts: self.seats(posts, spaces))
        return self.crew

    def gathered(self):
        tuning, n = self.options.tuning.parts, self.problem.n_examples
        size, self.at_work = self.size, 1
        if size == 1:
            return super().gathered()
        work = tuning.scan * n + tuning.drawn * min(self.last_count, n)
        if not worth_an_order(work, size, tuning):
            self.last_count = count = super().gathered()
            self.divide(count, size, gathered=False)
            return count
        words = np.array([draw(self.plan.random, 2.0**52) for _ in range(size)], np.uint64)
        self.last_count = count = self.call_together().gather(self.passes, 2 * words + 1)
        self.divide(count, size, gathered=True)
        return count

    def divide(self, count: int, size: int, gathered: bool) -> None:
        """Decide how many of the crew go through the list, and give each of them a part. What all have gathered is put together
        for fewer, and where some have gathered so much more than others that these would wait for longer than that takes."""
        tuning = self.options.tuning.parts
        threads = self.threads_for(count, size) if self.last_gap > tuning.fine * abs(self.dual) else 1
        if gathered:
            lists = self.call_together().lists()
            waiting = max(length for _, length in lists) - count / size
            gathered = threads == size and waiting * self.visit_seconds <= tuning.drawn * count
            if not gathered:
                order = self.plan.order
                order[:count] = np.concatenate([order[first : first + length] for first, length in lists])
        if threads > 1:
            if not gathered:
                self.call_together().hand_out(count, threads)
            self.at_work, self.each = threads, self.round_of(count, threads)
            self.spread = 1.0 + (self.spread - 1.0) * (threads - 1) / max(self.spread_of - 1, 1)
            self.spread_of = threads

    def round_of(self, count: int, threads: int) -> int:
        """Examples of a round, where so many threads visit `count`."""
        tuning = self.options.tuning.parts
        times = rounds(count * self.visit_seconds, self.space.w.size, threads, tuning)
        return max(1, min(-(-count // times), int(tuning.longest * threads * self.between)))

    def together(self, count):
        if self.at_work == 1:
            return super().together(count)
        return max(1, self.at_work * self.between // self.each) * self.each  # whole rounds

    def home(self, space: Any, loose: bool) -> int:
        """The number of these weights among the homes of the crew."""
        return (0 if space is self.known[-2] else 1) + (2 if loose else 0)

    def visit(self, visit, level):
        if self.at_work == 1:
            return self.visit_alone(visit, level)
        crew = self.call_together()
        says, numbers = (*visit, self.each), (level, self.spread)
        found = crew.carry_out(VISIT, self.home(self.space, False), says, numbers, self.at_work)
        self.spread = float(found[0, FOUND_SPREAD])
        return float(found[:, FOUND_GAP].sum()), float(found[:, FOUND_GAIN].sum())

    def reach(self, t):
        tuning, size = self.options.tuning.parts, self.size
        if size == 1 or not worth_an_order(tuning.reach * self.problem.n_examples * self.visit_seconds, size, tuning):
            return self.reach_alone(t)
        gain = self.reach_with(self.call_together(), t)
        self.problem.regularizer.tie(self.other)
        return gain

    def reach_with(self, crew: StandingCrew, t: float) -> float:
        """Extrapolate the duals and move the weights, but for those that are tied to them; returns the change of the reward."""
        found = crew.carry_out(REACH, self.home(self.other, True), (self.passes - 1,), (0.0, 0.0, t))
        return float(found[:, FOUND_GAIN].sum())

    def close(self):
        if self.crew is not None:
            self.crew.close()
        self.crew, self.known = None, ()

    @property
    @abstractmethod
    def visit_seconds(self) -> float:
        """Of one core, about."""

    @abstractmethod
    def visit_alone(self, visit, level) -> tuple[float, float]:
        """As `visit`, of one thread."""

    @abstractmethod
    def reach_alone(self, t: float) -> float:
        """As `reach`, of one thread: what duals lack is taken back from the weights. A crew takes it from its copies, which then
        add up."""

    @abstractmethod
    def seats(self, posts: list[Post], spaces: list[tuple[Any, Any]]) -> tuple[Callable, list[tuple]]:
        """What carries out orders, and its arguments for each thread."""


class PartedScalars(Parted, ScalarAscent):
    visit_alone, reach_alone = ScalarAscent.visit, ScalarAscent.reach

    def in_a_row(self):
        return super().in_a_row() and self.size == 1

    @property
    def visit_seconds(self):
        tuning = self.options.tuning.parts
        return tuning.visit + tuning.entry * mean_length(self.problem.X)

    def evaluated(self):
        return self.problem.evaluate(self.duals, self.side_duals, self.n_jobs)

    def seats(self, posts, spaces):
        tables = self.duals, self.before, np.empty_like(self.duals), self.curvature
        rest = self.problem.X, self.problem.exact_loss
        return serve_scalars, [(*rest, pair, tables, self.plan, post) for pair, post in zip(spaces, posts, strict=True)]


class PartedRows(Parted, BlockAscent):
    problem: RowProblem
    visit_alone, reach_alone = BlockAscent.visit, BlockAscent.reach

    @property
    def visit_seconds(self):
        tuning, single = self.options.tuning.parts, self.dtype.itemsize / 4.0
        near = self.space.w.nbytes * self.problem.regularizer.moves <= tuning.cached
        return tuning.visit + 0.5 * (tuning.near if near else tuning.far) * single * self.visit_work()

    def give_back(self, space, count):
        tuning, most = self.options.tuning.parts, self.n_jobs if isinstance(space, Free) else 1
        threads = min(most, space.w.shape[1] // tuning.vectors)
        if not worth_an_order(0.5 * count * self.visit_seconds, threads, tuning):
            super().give_back(space, count)
            return
        X, lacking = self.problem.X, self.lacking
        in_threads(lambda run: move_run(space.w, X, lacking, count, run), spans(space.w.shape[1], threads), threads)

    def seats(self, posts, spaces):
        X, n, classes = self.problem.X, self.problem.n_examples, self.problem.n_classes
        tables = self.duals, self.before, vectors.zeros_table(n, classes, self.dtype), self.curvature
        own = [self.loss, *(own_scratch(self.loss) for _ in posts[1:])]
        several = zip(spaces, own, posts, strict=True)
        return serve_rows, [(X, loss, pair, tables, self.plan, self.hand_of_one(pair), post) for pair, loss, post in several]

    def hand_of_one(self, pair: tuple[Any, Any]) -> Any:
        """What one thread works with, beside these weights."""
        classes, moves = self.problem.n_classes, self.problem.regularizer.moves
        scores, change = (vectors.zeros_table(count, classes, self.dtype) for count in (1, moves))
        lacking = room_to_lack(min(self.problem.n_examples, self.options.tuning.lacking), classes, self.dtype)
        return RowHand(scores, change, lacking)
