"""Dual ascent over collected outputs: each sample keeps the outputs that its distribution gives mass to.

A visit asks the max-oracle for the worst offender, adds it to the sample's set, and improves the distribution over the
set with all other samples fixed (Ramanan 2013, Algorithm 1, on the constraints collected so far). With h_j = Delta_j + w .
phi_j, moving mass d from output k to output j raises the dual by cap (d (h_j - h_k) - d^2 cap ||phi_j - phi_k||^2 / 2).
How far a visit goes is the *method*: one pair (pairwise Frank-Wolfe), a step to the offender or away from the least
deserving output (away-step Frank-Wolfe), or pairs until the set's own gap is a small part of what the oracle found.

A sample's outputs are stored as their codes (a number for each node), with their mass, loss and inner products: memory
grows with the outputs that matter, never with the number of weights.
"""

from typing import NamedTuple

import numpy as np

from ..jit import generic_call, jitable, jitable_call, kernel
from ..structured import StructuredProblem
from ..structures.base import (
    against,
    clear,
    copied,
    expected_loss,
    forget,
    inner,
    length,
    loss_of,
    new_room,
    prepare,
    push,
    score_of,
    tally,
    truth,
    withdraw,
    worst,
)
from .dual_coordinate import begin as begin_run
from .schedule import settle
from .structured_run import Options, StructuredRun

START = 4  # outputs a sample has room for at first
CALM_START = 5  # passes before the first extrapolation: an easy problem is solved by then
FARTHEST = 0.9  # the longest extrapolation, in units of the last change
SLACK = 0.1  # by what part of the gap seen in a pass an extrapolation may lower the dual value
PATIENCE = 10  # passes for which the outputs met so far may do instead of the oracle
TRUST = 0.5  # part of the last oracle's promise that an output met before must hold to be used instead
DUST = 1e-15  # mass below this is rounding


class Sets(NamedTuple):
    """The sets of all samples one after another; slot 0 of a sample begins as its true output, with all mass."""

    size: np.ndarray  # (samples,) outputs in use
    room: np.ndarray  # (samples,) and at the most
    slot: np.ndarray  # (samples,) where they start
    code_at: np.ndarray  # (samples,) where their codes start
    gram_at: np.ndarray  # (samples,) where their inner products start, room x room
    mass: np.ndarray  # (slots,) sums to one over a sample
    before: np.ndarray  # (slots,) the mass after the pass before
    loss: np.ndarray  # (slots,)
    used: np.ndarray  # (slots,) the last pass in which the output had mass or was found
    codes: np.ndarray
    gram: np.ndarray
    crowded: np.ndarray  # (samples,) 1 where there was no room for an output


class Pairwise(NamedTuple):
    """Mass moves from the least deserving output straight to the offender."""

    marker: int = 0


class Away(NamedTuple):
    """A step towards the offender or away from the least deserving output, whichever promises more."""

    marker: int = 0


class Corrective(NamedTuple):
    """Pairs until the gap over the set is `part` of the gap before, or `most` steps for each output."""

    part: float = 0.1
    most: int = 10


@jitable
def begin(data, sets, i, j):
    """Where the code of output j starts (compiled code that counts no references cannot return the slice itself)."""
    return sets.code_at[i] + j * length(data, i)


@jitable
def same(a, b):
    for p in range(a.size):
        if a[p] != b[p]:
            return False
    return True


@withdraw.register(Sets)
def _(points, data, i, room):
    for j in range(points.size[i]):
        mass = points.mass[points.slot[i] + j]
        if mass > 0.0:
            tally(data, i, -mass, points.codes[begin(data, points, i, j) : begin(data, points, i, j + 1)], room)


@expected_loss.register(Sets)
def _(points, data, i):
    total = 0.0
    for s in range(points.slot[i], points.slot[i] + points.size[i]):
        total += points.mass[s] * points.loss[s]
    return total


@jitable_call
def insert(data, sets, i, room, now):
    """Put room.code into the set of sample i; returns its place, or -1 if every output there has mass and the set is full."""
    slot, size = sets.slot[i], sets.size[i]
    place = -1
    for j in range(size):
        if same(sets.codes[begin(data, sets, i, j) : begin(data, sets, i, j + 1)], room.code):
            sets.used[slot + j] = now
            return j
    if size < sets.room[i]:
        place = size
        sets.size[i] = size + 1
    else:
        for j in range(size):
            if sets.mass[slot + j] <= 0.0 and sets.before[slot + j] <= 0.0 and (place < 0 or sets.used[slot + j] < sets.used[slot + place]):
                place = j
        if place < 0:
            sets.crowded[i] = 1
            return -1
        forget(data, i, sets.codes[begin(data, sets, i, place) : begin(data, sets, i, place + 1)])
    code = sets.codes[begin(data, sets, i, place) : begin(data, sets, i, place + 1)]
    for p in range(code.size):
        code[p] = room.code[p]
    sets.mass[slot + place], sets.before[slot + place], sets.used[slot + place] = 0.0, 0.0, now
    sets.loss[slot + place] = loss_of(data, i, code)
    against(data, i, room, code)
    at, wide = sets.gram_at[i], sets.room[i]
    for j in range(sets.size[i]):
        product = inner(data, i, room, sets.codes[begin(data, sets, i, j) : begin(data, sets, i, j + 1)])
        sets.gram[at + place * wide + j] = product
        sets.gram[at + j * wide + place] = product
    return place


@jitable
def distance(gram, at, wide, j, k):
    """||phi_j - phi_k||^2"""
    return gram[at + j * wide + j] + gram[at + k * wide + k] - 2.0 * gram[at + j * wide + k]


@jitable_call
def move(sets, i, h, cap, j, k):
    """The best move of mass from output k to output j; returns the rise of the dual."""
    slot, at, wide = sets.slot[i], sets.gram_at[i], sets.room[i]
    slope, bend = h[j] - h[k], cap * distance(sets.gram, at, wide, j, k)
    most = sets.mass[slot + k]
    step = most if slope >= bend * most else slope / bend
    sets.mass[slot + j] += step
    sets.mass[slot + k] = 0.0 if step >= most else most - step
    for t in range(sets.size[i]):
        h[t] -= cap * step * (sets.gram[at + t * wide + j] - sets.gram[at + t * wide + k])
    return cap * step * (slope - 0.5 * step * bend)


@jitable
def least(sets, i, h):
    """The output with mass whose h is smallest."""
    slot, k = sets.slot[i], -1
    for j in range(sets.size[i]):
        if sets.mass[slot + j] > 0.0 and (k < 0 or h[j] < h[k]):
            k = j
    return k


@generic_call
def improve(method, sets, i, h, cap, found):
    """Raise the dual by moving mass within the set of sample i; `found` is the place of the worst offender. Returns the
    rise; h is kept in step."""


@improve.register(Pairwise)
def _(method, sets, i, h, cap, found):
    k = least(sets, i, h)
    return move(sets, i, h, cap, found, k) if h[k] < h[found] else 0.0


@improve.register(Away)
def _(method, sets, i, h, cap, found):
    slot, at, wide, size = sets.slot[i], sets.gram_at[i], sets.room[i], sets.size[i]
    k, mean = least(sets, i, h), 0.0
    for j in range(size):
        mean += sets.mass[slot + j] * h[j]
    forward, backward = h[found] - mean, mean - h[k]
    if sets.mass[slot + k] >= 1.0 or forward >= backward:
        to, slope, most, sign = found, forward, 1.0, 1.0
    else:
        to, slope, most, sign = k, backward, sets.mass[slot + k] / (1.0 - sets.mass[slot + k]), -1.0
    bend = 0.0  # ||phi_to - mean phi||^2
    for j in range(size):
        left = sets.mass[slot + j] - (1.0 if j == to else 0.0)
        for t in range(size):
            bend += left * (sets.mass[slot + t] - (1.0 if t == to else 0.0)) * sets.gram[at + j * wide + t]
    bend *= cap
    step = most if slope >= bend * most else max(slope, 0.0) / bend
    for t in range(size):
        change = 0.0
        for j in range(size):
            change += ((1.0 if j == to else 0.0) - sets.mass[slot + j]) * sets.gram[at + t * wide + j]
        h[t] -= cap * sign * step * change
    for j in range(size):
        sets.mass[slot + j] += sign * step * ((1.0 if j == to else 0.0) - sets.mass[slot + j])
    if sign < 0.0 and step >= most:
        sets.mass[slot + k] = 0.0
    return cap * step * (slope - 0.5 * step * bend)


@improve.register(Corrective)
def _(method, sets, i, h, cap, found):
    slot, at, wide, size = sets.slot[i], sets.gram_at[i], sets.room[i], sets.size[i]
    rise, first = 0.0, -1.0
    for _ in range(method.most * size):
        top, mean = 0, 0.0
        for j in range(size):
            mean += sets.mass[slot + j] * h[j]
            if h[j] > h[top]:
                top = j
        gap = h[top] - mean
        if first < 0.0:
            first = gap
        if gap <= method.part * first:
            break
        k, best = -1, 0.0  # from where the move raises the dual most, were there no bounds
        for j in range(size):
            if sets.mass[slot + j] > 0.0 and h[j] < h[top]:
                slope, bend = h[top] - h[j], cap * distance(sets.gram, at, wide, top, j)
                most = sets.mass[slot + j]
                step = most if slope >= bend * most else slope / bend
                gain = step * (slope - 0.5 * step * bend)
                if gain > best:
                    k, best = j, gain
        if k < 0:
            break
        rise += move(sets, i, h, cap, top, k)
    return rise


@kernel
def set_pass(sets, data, W, cap, plan, visit, scratch, method):
    """Visit plan.order[start:stop]; returns by how much the dual value rose, the part of the gap that was seen on the way,
    and how often the oracle was asked."""
    now, start, stop = visit
    room, shares, asked, h, before, level, trust = scratch
    rise, seen, calls = 0.0, 0.0, 0
    for k in range(start, stop):
        i = plan.order[k]
        if cap[i] > 0.0:
            prepare(data, i, W, room)
            top, mean = survey(sets, data, i, room, h)
            share, place = cap[i] * (h[top] - mean), top
            if share <= trust * shares[i] or now >= asked[i] + patience(trust):  # the outputs met so far do not promise enough
                asked[i] = now
                value = worst(data, i, room, room.code)
                calls += 1
                share, place = cap[i] * (value - mean), -1
                shares[i] = share
            if share > level:
                if place < 0:
                    place = insert(data, sets, i, room, now)
                if place >= 0:
                    rise += work_on(sets, data, i, W, cap[i], (room, h, before, place, now), method)
            seen += share
            settle(plan, i, now, share <= level)
        else:
            shares[i] = 0.0
            settle(plan, i, now, True)
    return rise, seen, calls


@jitable
def patience(trust):
    """Passes after which the oracle is asked in any case."""
    return PATIENCE if trust > 0.0 else 0


@jitable
def survey(sets, data, i, room, h):
    """h of each output in the set; returns the place of the largest and their mean."""
    slot, top, mean = sets.slot[i], 0, 0.0
    for j in range(sets.size[i]):
        code = sets.codes[begin(data, sets, i, j) : begin(data, sets, i, j + 1)]
        h[j] = sets.loss[slot + j] + score_of(data, i, room, code)
        mean += sets.mass[slot + j] * h[j]
        if h[j] > h[top]:
            top = j
    return top, mean


@jitable_call
def work_on(sets, data, i, W, cap, scratch, method):
    """Improve the distribution of sample i, given the place of its worst offender; the weights follow."""
    room, h, before, place, now = scratch
    slot, size = sets.slot[i], sets.size[i]
    h[place] = sets.loss[slot + place] + score_of(
        data, i, room, sets.codes[begin(data, sets, i, place) : begin(data, sets, i, place + 1)]
    )
    for j in range(size):
        before[j] = sets.mass[slot + j]
    rise = improve(method, sets, i, h, cap, place)
    clear(data, i, room)
    for j in range(size):
        change = sets.mass[slot + j] - before[j]
        if change != 0.0:
            tally(data, i, -change, sets.codes[begin(data, sets, i, j) : begin(data, sets, i, j + 1)], room)
        if sets.mass[slot + j] > 0.0:
            sets.used[slot + j] = now
    push(data, i, cap, room, W)
    return rise


# ---- extrapolation ---------------------------------------------------------------------------------------


@kernel
def reach(sets, data, W, cap, room, reached, t):
    """How far each sample's masses can go on as they went in the last pass: into `reached`, t at the most. `W` has gone t
    for all and is corrected for those that cannot. Returns the change of the expected losses."""
    gain = 0.0
    for i in range(cap.size):
        far, slope, moved = t, 0.0, False
        slot, size = sets.slot[i], sets.size[i]
        for s in range(slot, slot + size):
            change = sets.mass[s] - sets.before[s]
            slope += change * sets.loss[s]
            moved = moved or change != 0.0
            if sets.mass[s] + far * change < 0.0:
                far = -sets.mass[s] / change
        if moved and far != t:
            clear(data, i, room)
            for j in range(size):
                change = sets.mass[slot + j] - sets.before[slot + j]
                if change != 0.0:
                    code = sets.codes[begin(data, sets, i, j) : begin(data, sets, i, j + 1)]
                    tally(data, i, (t - far) * change, code, room)
            push(data, i, cap[i], room, W)
        reached[i] = far
        gain += cap[i] * far * slope
    return gain


@kernel
def commit(sets, reached, accept):
    """Take the extrapolated masses, or not, and remember those of this pass."""
    for i in range(reached.size):
        for s in range(sets.slot[i], sets.slot[i] + sets.size[i]):
            mass = sets.mass[s]
            if accept:
                new = mass + reached[i] * (mass - sets.before[s])
                sets.mass[s] = new if new > DUST else 0.0
            sets.before[s] = mass


# ---- making and growing sets -----------------------------------------------------------------------------


@kernel
def lengths(data, result):
    for i in range(result.size):
        result[i] = length(data, i)


@kernel
def fill_truth(sets, data, room):
    for i in range(sets.size.size):
        truth(data, i, room.code)
        insert(data, sets, i, room, 0)
        sets.mass[sets.slot[i]] = 1.0


@kernel
def copy_sets(old, new, data):
    for i in range(old.size.size):
        new.size[i] = old.size[i]
        for j in range(old.size[i]):
            a, b = old.slot[i] + j, new.slot[i] + j
            new.mass[b], new.before[b], new.loss[b], new.used[b] = old.mass[a], old.before[a], old.loss[a], old.used[a]
            for p in range(length(data, i)):
                new.codes[begin(data, new, i, j) + p] = old.codes[begin(data, old, i, j) + p]
            for k in range(old.size[i]):
                new.gram[new.gram_at[i] + j * new.room[i] + k] = old.gram[old.gram_at[i] + j * old.room[i] + k]


@kernel
def refresh_sets(sets, data, room):
    """Losses and inner products anew, for codes that come from elsewhere."""
    for i in range(sets.size.size):
        at, wide = sets.gram_at[i], sets.room[i]
        for j in range(sets.size[i]):
            code = sets.codes[begin(data, sets, i, j) : begin(data, sets, i, j + 1)]
            sets.loss[sets.slot[i] + j] = loss_of(data, i, code)
            sets.before[sets.slot[i] + j] = sets.mass[sets.slot[i] + j]
            against(data, i, room, code)
            for k in range(j + 1):
                product = inner(data, i, room, sets.codes[begin(data, sets, i, k) : begin(data, sets, i, k + 1)])
                sets.gram[at + j * wide + k] = product
                sets.gram[at + k * wide + j] = product


def refresh(sets: Sets, data) -> Sets:
    refresh_sets(sets, data, new_room(data))
    return sets


@copied.register(Sets)
def _(points):
    return Sets(*(array.copy() for array in points))


def empty(size_of: np.ndarray, room: np.ndarray) -> Sets:
    """Sets without outputs, with this much room for each sample's."""

    def starts(counts):
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    slot, code_at, gram_at = starts(room), starts(room * size_of), starts(room * room)
    slots = int(slot[-1])
    whole = np.zeros(room.size, np.int64), room, slot[:-1], code_at[:-1], gram_at[:-1]
    parts = np.zeros(slots), np.zeros(slots), np.zeros(slots), np.zeros(slots, np.int64)
    return Sets(*whole, *parts, np.zeros(int(code_at[-1]), np.int32), np.zeros(int(gram_at[-1])), np.zeros(room.size, np.int8))


class WorkingSets(StructuredRun):
    """Ascent over collected outputs by one of the methods above."""

    def __init__(self, problem, points, options: Options, method, *, trust: float = 0.0, momentum: bool = False):
        self.method, self.trust, self.momentum = method, trust, momentum
        self.memory, self.seen = 0, 0.0
        self.reached, self.asked = np.empty(problem.n_examples), np.zeros(problem.n_examples, np.int64)
        self.sizes = np.empty(problem.n_examples, np.int64)
        lengths(problem.data, self.sizes)
        super().__init__(problem, None if points is None else refresh(copied(points), problem.data), options)
        self.make_scratch()

    def start(self):
        sets = empty(self.sizes, np.full(self.problem.n_examples, START, np.int64))
        fill_truth(sets, self.problem.data, new_room(self.problem.data))
        return sets

    def make_scratch(self) -> None:
        most = int(self.points.room.max(initial=1))
        self.h, self.before = np.empty(most), np.empty(most)

    def visit(self, visit, level):
        scratch = self.room, self.shares, self.asked, self.h, self.before, level, self.trust
        rise, seen, calls = set_pass(self.points, self.problem.data, self.W, self.problem.cap, self.plan, visit, scratch, self.method)
        self.seen += seen
        self.calls += calls
        return rise

    def advance(self, stop):
        self.seen = 0.0
        estimate = super().advance(stop)
        if self.points.crowded.any():
            self.grow()
        return estimate

    def accelerate(self) -> None:
        """Let all masses go on as they went in the last pass (Nesterov's momentum, restarted when the dual would fall)."""
        if not self.momentum or self.passes < CALM_START:
            return
        if self.passes == CALM_START:
            self.W_before = self.W.copy()
            self.points.before[:] = self.points.mass
            return
        self.memory += 1
        t = min(self.memory / (self.memory + 3.0), FARTHEST)
        ahead = self.W + t * (self.W - self.W_before)
        reward = self.dual + 0.5 * float(np.vdot(self.W, self.W))
        reward += reach(self.points, self.problem.data, ahead, self.problem.cap, self.room, self.reached, t)
        dual = reward - 0.5 * float(np.vdot(ahead, ahead))
        accept = bool(dual >= self.dual - SLACK * self.seen)
        commit(self.points, self.reached, accept)
        self.W_before = self.W
        if accept:
            self.W, self.dual = ahead, dual
        else:
            self.W, self.memory = self.W.copy(), 0

    def grow(self) -> None:
        """Double the room of samples whose outputs all have mass."""
        old = self.points
        new = empty(self.sizes, np.where(old.crowded == 1, 2 * old.room, old.room))
        copy_sets(old, new, self.problem.data)
        self.points = new
        self.make_scratch()


@begin_run.register
def _(problem: StructuredProblem, duals, tol, seed, dtype, momentum, average):
    return WorkingSets(problem, duals, Options(tol, seed, "rest", average), Corrective(), trust=TRUST, momentum=momentum)
