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

from ...jit import generic_call, jitable, jitable_call, kernel
from ...problems.structured import StructuredProblem
from ...structures.encoded.contract import (
    against,
    clear,
    copied,
    expected_loss,
    forget,
    inner,
    length,
    loss_of,
    new_room,
    push,
    score_of,
    tally,
    truths,
    withdraw,
    worst,
)
from ..ascent.schedule import settle
from ..dual_coordinate import begin as begin_run
from .run import StructuredOptions, StructuredRun
from .signed import prepare_with, shift, space_of, unclipped

DUST = 1e-15  # mass below this is rounding


SIZE, ROOM, SLOT, CODES, GRAM, CROWDED = range(6)  # the columns of Sets.sample
MASS, BEFORE, LOSS, USED = range(4)  # the columns of Sets.slots


class Sets(NamedTuple):
    """The sets of all samples one after another. Few arrays with several columns: the time to compile a kernel grows with the
    number of arrays that its functions hand on."""

    # For each sample: outputs in use, and at the most; where its slots start, its codes, and its inner products (room x
    # room); 1 where there was no room for an output.
    sample: np.ndarray
    # For each slot: the mass of the output, which sums to one over a sample; the same after the pass before; the loss; the
    # last pass in which the output had mass or was found.
    slots: np.ndarray
    codes: np.ndarray
    gram: np.ndarray  # NaN where it was not needed yet


class Pairwise(NamedTuple):
    """Mass moves from the least deserving output straight to the offender."""

    marker: int = 0


class Away(NamedTuple):
    """A step towards the offender or away from the least deserving output, whichever promises more."""

    marker: int = 0


class Corrective(NamedTuple):
    """Pairs until the gap over the set is `part` of the gap before, or `most` steps for each output."""

    part: float
    most: int


@jitable
def begin(data, sets, i, j):
    """Where the code of output j starts (compiled code that counts no references cannot return the slice itself)."""
    return sets.sample[i, CODES] + j * length(data, i)


@jitable
def same(a, b):
    """Whether code a is the beginning of b, which may be longer."""
    for p in range(a.size):  # noqa: SIM110 - kernels have no all()
        if a[p] != b[p]:
            return False
    return True


@withdraw.register(Sets)
def _(points, data, i, room):
    for j in range(points.sample[i, SIZE]):
        mass = points.slots[points.sample[i, SLOT] + j, MASS]
        if mass > 0.0:
            tally(data, i, -mass, points.codes[begin(data, points, i, j) : begin(data, points, i, j + 1)], room)


@expected_loss.register(Sets)
def _(points, data, i):
    total = 0.0
    for s in range(points.sample[i, SLOT], points.sample[i, SLOT] + points.sample[i, SIZE]):
        total += points.slots[s, MASS] * points.slots[s, LOSS]
    return total


@jitable_call
def insert(data, sets, i, room, now):
    """Put room.code into the set of sample i; returns its place, or -1 if every output there has mass and the set is full."""
    slot, size = sets.sample[i, SLOT], sets.sample[i, SIZE]
    place = -1
    for j in range(size):
        if same(sets.codes[begin(data, sets, i, j) : begin(data, sets, i, j + 1)], room.code):
            sets.slots[slot + j, USED] = now
            return j
    if size < sets.sample[i, ROOM]:
        place = size
        sets.sample[i, SIZE] = size + 1
    else:
        for j in range(size):
            idle = sets.slots[slot + j, MASS] <= 0.0 and sets.slots[slot + j, BEFORE] <= 0.0
            if idle and (place < 0 or sets.slots[slot + j, USED] < sets.slots[slot + place, USED]):
                place = j
        if place < 0:
            sets.sample[i, CROWDED] = 1
            return -1
        forget(data, i, sets.codes[begin(data, sets, i, place) : begin(data, sets, i, place + 1)])
    code = sets.codes[begin(data, sets, i, place) : begin(data, sets, i, place + 1)]
    for p in range(code.size):
        code[p] = room.code[p]
    sets.slots[slot + place, MASS], sets.slots[slot + place, BEFORE], sets.slots[slot + place, USED] = 0.0, 0.0, now
    sets.slots[slot + place, LOSS] = loss_of(data, i, code)
    at, wide = sets.sample[i, GRAM], sets.sample[i, ROOM]
    if np.isnan(sets.gram[at]):  # the true output, which was put there without
        first = sets.codes[begin(data, sets, i, 0) : begin(data, sets, i, 1)]
        against(data, i, room, first)
        sets.gram[at] = inner(data, i, room, first)
    against(data, i, room, code)
    for j in range(sets.sample[i, SIZE]):
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
    slot, at, wide = sets.sample[i, SLOT], sets.sample[i, GRAM], sets.sample[i, ROOM]
    slope, bend = h[j] - h[k], cap * distance(sets.gram, at, wide, j, k)
    most = sets.slots[slot + k, MASS]
    step = most if slope >= bend * most else slope / bend
    sets.slots[slot + j, MASS] += step
    sets.slots[slot + k, MASS] = 0.0 if step >= most else most - step
    for t in range(sets.sample[i, SIZE]):
        h[t] -= cap * step * (sets.gram[at + t * wide + j] - sets.gram[at + t * wide + k])
    return cap * step * (slope - 0.5 * step * bend)


@jitable
def least(sets, i, h):
    """The output with mass whose h is smallest."""
    slot, k = sets.sample[i, SLOT], -1
    for j in range(sets.sample[i, SIZE]):
        if sets.slots[slot + j, MASS] > 0.0 and (k < 0 or h[j] < h[k]):
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
    slot, at, wide, size = sets.sample[i, SLOT], sets.sample[i, GRAM], sets.sample[i, ROOM], sets.sample[i, SIZE]
    k, mean = least(sets, i, h), 0.0
    for j in range(size):
        mean += sets.slots[slot + j, MASS] * h[j]
    forward, backward = h[found] - mean, mean - h[k]
    if sets.slots[slot + k, MASS] >= 1.0 - DUST or forward >= backward:
        to, slope, most, sign = found, forward, 1.0, 1.0
    else:
        to, slope, most, sign = k, backward, sets.slots[slot + k, MASS] / (1.0 - sets.slots[slot + k, MASS]), -1.0
    if slope <= 0.0:
        return 0.0
    bend = 0.0  # ||phi_to - mean phi||^2
    for j in range(size):
        left = sets.slots[slot + j, MASS] - (1.0 if j == to else 0.0)
        for t in range(size):
            bend += left * (sets.slots[slot + t, MASS] - (1.0 if t == to else 0.0)) * sets.gram[at + j * wide + t]
    bend *= cap
    step = most if slope >= bend * most else slope / bend
    for t in range(size):
        change = 0.0
        for j in range(size):
            change += ((1.0 if j == to else 0.0) - sets.slots[slot + j, MASS]) * sets.gram[at + t * wide + j]
        h[t] -= cap * sign * step * change
    for j in range(size):
        sets.slots[slot + j, MASS] += sign * step * ((1.0 if j == to else 0.0) - sets.slots[slot + j, MASS])
    if sign < 0.0 and step >= most:
        sets.slots[slot + k, MASS] = 0.0
    return cap * step * (slope - 0.5 * step * bend)


@improve.register(Corrective)
def _(method, sets, i, h, cap, found):
    slot, at, wide, size = sets.sample[i, SLOT], sets.sample[i, GRAM], sets.sample[i, ROOM], sets.sample[i, SIZE]
    rise, first = 0.0, -1.0
    for _ in range(method.most * size):
        top, mean = 0, 0.0
        for j in range(size):
            mean += sets.slots[slot + j, MASS] * h[j]
            if h[j] > h[top]:
                top = j
        gap = h[top] - mean
        if first < 0.0:
            first = gap
        if gap <= method.part * first:
            break
        k, best = -1, 0.0  # from where the move raises the dual most, were there no bounds
        for j in range(size):
            if sets.slots[slot + j, MASS] > 0.0 and h[j] < h[top]:
                slope, bend = h[top] - h[j], cap * distance(sets.gram, at, wide, top, j)
                most = sets.slots[slot + j, MASS]
                step = most if slope >= bend * most else slope / bend
                gain = step * (slope - 0.5 * step * bend)
                if gain > best:
                    k, best = j, gain
        if k < 0:
            break
        rise += move(sets, i, h, cap, top, k)
    return rise


@kernel
def set_pass(sets, data, space, cap, plan, visit, scratch, method):
    """Visit plan.order[start:stop]; returns the last of `scratch` and by how much the dual value rose, in one sum, and how
    often the oracle was asked."""
    now, start, stop = visit
    room, shares, asked, h, before, level, trust, patience, rise = scratch
    calls = 0
    for k in range(start, stop):
        i = np.int64(plan.order[k])
        if cap[i] > 0.0:
            prepare_with(space, data, i, room)
            top, mean = survey(sets, data, i, room, h)
            share, place = cap[i] * (h[top] - mean), top
            if share <= trust * shares[i] or now >= asked[i] + patience:  # the outputs met so far do not promise enough
                asked[i] = now
                value = worst(data, i, room, room.code)
                calls += 1
                share, place = cap[i] * (value - mean), -1
                shares[i] = share
            if share > level:
                if place < 0:
                    place = insert(data, sets, i, room, now)
                if place >= 0:
                    rise += work_on(sets, data, i, space, cap[i], (room, h, before, place, now), method)
            settle(plan, i, now, share <= level)
        else:
            shares[i] = 0.0
            settle(plan, i, now, True)
    return rise, calls


@jitable
def survey(sets, data, i, room, h):
    """h of each output in the set; returns the place of the largest and their mean."""
    slot, top, mean = sets.sample[i, SLOT], 0, 0.0
    for j in range(sets.sample[i, SIZE]):
        code = sets.codes[begin(data, sets, i, j) : begin(data, sets, i, j + 1)]
        h[j] = sets.slots[slot + j, LOSS] + score_of(data, i, room, code)
        mean += sets.slots[slot + j, MASS] * h[j]
        if h[j] > h[top]:
            top = j
    return top, mean


@jitable_call
def work_on(sets, data, i, space, cap, scratch, method):
    """Improve the distribution of sample i, given the place of its worst offender; the weights follow."""
    room, h, before, place, now = scratch
    slot, size = sets.sample[i, SLOT], sets.sample[i, SIZE]
    if size < 2:  # nothing but the true output
        return 0.0
    h[place] = sets.slots[slot + place, LOSS] + score_of(
        data, i, room, sets.codes[begin(data, sets, i, place) : begin(data, sets, i, place + 1)]
    )
    for j in range(size):
        before[j] = sets.slots[slot + j, MASS]
    rise = improve(method, sets, i, h, cap, place)
    clear(data, i, room)
    for j in range(size):
        change = sets.slots[slot + j, MASS] - before[j]
        if change != 0.0:
            tally(data, i, -change, sets.codes[begin(data, sets, i, j) : begin(data, sets, i, j + 1)], room)
        if sets.slots[slot + j, MASS] > 0.0:
            sets.slots[slot + j, USED] = now
    shift(space, data, i, cap, room)
    return rise


# ---- extrapolation ---------------------------------------------------------------------------------------


@kernel
def reach(sets, data, W, cap, room, reached, t):
    """How far each sample's masses can go on as they went in the last pass: into `reached`, t at the most. `W` has gone t
    for all and is corrected for those that cannot. Returns the change of the expected losses."""
    gain = 0.0
    for i in range(cap.size):
        far, slope, moved = t, 0.0, False
        slot, size = sets.sample[i, SLOT], sets.sample[i, SIZE]
        for s in range(slot, slot + size):
            change = sets.slots[s, MASS] - sets.slots[s, BEFORE]
            slope += change * sets.slots[s, LOSS]
            moved = moved or change != 0.0
            if sets.slots[s, MASS] + far * change < 0.0:
                far = -sets.slots[s, MASS] / change
        if moved and far != t:
            clear(data, i, room)
            for j in range(size):
                change = sets.slots[slot + j, MASS] - sets.slots[slot + j, BEFORE]
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
        for s in range(sets.sample[i, SLOT], sets.sample[i, SLOT] + sets.sample[i, SIZE]):
            mass = sets.slots[s, MASS]
            if accept:
                new = mass + reached[i] * (mass - sets.slots[s, BEFORE])
                sets.slots[s, MASS] = new if new > DUST else 0.0
            sets.slots[s, BEFORE] = mass


# ---- making and growing sets -----------------------------------------------------------------------------


@kernel
def refresh_sets(sets, data, room):
    """Losses and inner products anew, for codes that come from elsewhere."""
    for i in range(sets.sample.shape[0]):
        at, wide = sets.sample[i, GRAM], sets.sample[i, ROOM]
        for j in range(sets.sample[i, SIZE]):
            code = sets.codes[begin(data, sets, i, j) : begin(data, sets, i, j + 1)]
            sets.slots[sets.sample[i, SLOT] + j, LOSS] = loss_of(data, i, code)
            sets.slots[sets.sample[i, SLOT] + j, BEFORE] = sets.slots[sets.sample[i, SLOT] + j, MASS]
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


def starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def empty(size_of: np.ndarray, room: np.ndarray) -> Sets:
    """Sets without outputs, with this much room for each sample's; codes of `size_of` numbers."""
    sample = np.zeros((room.size, 6), np.int64)
    slot, code, gram = starts(room), starts(room * size_of), starts(room * room)
    for column, values in ((ROOM, room), (SLOT, slot[:-1]), (CODES, code[:-1]), (GRAM, gram[:-1])):
        sample[:, column] = values
    return Sets(sample, np.zeros((int(slot[-1]), 4)), np.zeros(int(code[-1]), np.int32), np.full(int(gram[-1]), np.nan))


def at_truth(data, room: int) -> Sets:
    """Sets that hold the true output only."""
    codes, size_of = truths(data)
    sets = empty(size_of, np.full(size_of.size, room, np.int64))
    sets.sample[:, SIZE] = 1
    sets.slots[sets.sample[:, SLOT], MASS] = sets.slots[sets.sample[:, SLOT], BEFORE] = 1.0
    sets.codes[within(sets.sample[:, CODES], size_of)] = codes
    return sets


def within(start: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The numbers start_i, ..., start_i + count_i - 1 for all i, one after another."""
    return np.arange(int(count.sum())) + np.repeat(start - starts(count)[:-1], count)


def normalise(sets: Sets) -> None:
    """Masses that sum to one again: rounding, and dust that was dropped, add up over many passes, and the weights of what is
    missing or too much would be those of no point."""
    size = sets.sample[:, SIZE]
    slots, owner = within(sets.sample[:, SLOT], size), np.repeat(np.arange(size.size), size)
    sets.slots[slots, MASS] /= np.bincount(owner, sets.slots[slots, MASS], size.size)[owner]


def grown(old: Sets, size_of: np.ndarray) -> Sets:
    """The same sets with twice the room where there was none left."""
    size, room = old.sample[:, SIZE], old.sample[:, ROOM]
    new = empty(size_of, np.where(old.sample[:, CROWDED] == 1, 2 * room, room))
    new.sample[:, SIZE] = size
    new.slots[within(new.sample[:, SLOT], size)] = old.slots[within(old.sample[:, SLOT], size)]
    new.codes[within(new.sample[:, CODES], size * size_of)] = old.codes[within(old.sample[:, CODES], size * size_of)]
    sample, row = np.repeat(np.arange(size.size), room), within(np.zeros_like(room), room)  # the rows of all tables
    new.gram[within(new.sample[sample, GRAM] + row * new.sample[sample, ROOM], room[sample])] = old.gram
    return new


class WorkingSets(StructuredRun):
    """Ascent over collected outputs by one of the methods above."""

    def __init__(self, problem, points, options: StructuredOptions, method, *, trust: float = 0.0, momentum: bool = False):
        self.method, self.trust, self.momentum = method, trust, momentum
        self.memory, self.floor = 0, 0.0
        self.reached, self.asked = np.empty(problem.n_examples), np.zeros(problem.n_examples, np.int64)
        self.sizes = truths(problem.data)[1]
        super().__init__(problem, None if points is None else refresh(copied(points), problem.data), options)
        self.make_scratch()

    def start(self):
        return at_truth(self.problem.data, self.options.tuning.room)

    def synchronise(self) -> float:
        normalise(self.points)
        return super().synchronise()

    def make_scratch(self) -> None:
        most = int(self.points.sample[:, ROOM].max(initial=1))
        self.h, self.before = np.empty(most), np.empty(most)

    def visit(self, visit, level, rise):
        patience = self.options.tuning.patience if self.trust > 0.0 else 0  # passes after which the oracle is asked in any case
        scratch = self.room, self.shares, self.asked, self.h, self.before, level, self.trust, patience, rise
        problem = self.problem
        rise, calls = set_pass(self.points, problem.data, self.space, problem.cap, self.plan, visit, scratch, self.method)
        self.calls += calls
        return rise

    def advance(self, stop):
        self.floor = self.dual
        estimate = super().advance(stop)
        if self.points.sample[:, CROWDED].any():
            self.points = grown(self.points, self.sizes)
            self.make_scratch()
        return estimate

    def accelerate(self) -> None:
        """Let all masses go on as they went in the last pass (Nesterov's momentum, restarted when the dual would fall)."""
        tuning = self.options.tuning
        if not self.momentum or self.passes < tuning.visits.start:
            return
        if self.passes == tuning.visits.start:
            self.before_pass = unclipped(self.space)
            self.points.slots[:, BEFORE] = self.points.slots[:, MASS]
            return
        self.memory += 1
        t = min(self.memory / (self.memory + 3.0), tuning.farthest)
        now = unclipped(self.space)
        ahead = now + t * (now - self.before_pass)
        reward = self.dual + 0.5 * float(np.vdot(self.W, self.W))
        reward += reach(self.points, self.problem.data, ahead, self.problem.cap, self.room, self.reached, t)
        clipped = self.problem.feasible(ahead)
        dual = reward - 0.5 * float(np.vdot(clipped, clipped))
        accept = bool(dual >= self.floor)  # as in `ascent`
        commit(self.points, self.reached, accept)
        self.before_pass = now
        if accept:
            self.space, self.dual = space_of(ahead, self.problem.bound), dual
        else:
            self.memory = 0


@begin_run.register
def _(problem: StructuredProblem, duals, tol, seed, dtype, momentum, average):
    options = StructuredOptions(tol, seed, "rest", average)
    method = Corrective(options.tuning.part, options.tuning.steps)
    return WorkingSets(problem, duals, options, method, trust=options.tuning.trust, momentum=momentum)
