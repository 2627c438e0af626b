"""Sequential minimal optimisation (SMO) of one label's duals, on a copy of what the kernel matrix has between some samples.

The loss is quadratic in pieces (`losses.base.piece`), and a step of a dual ends where its piece does:

    i, j = the samples whose own steps gain most, by second order and within their boxes, one of those that should go up and one
           of those that should go down
    both go to the best point of their plane within their boxes

(The intercept, and any other direction that most samples share, is stiff: two that go up together would be stopped by it.)
Every so many steps duals that have come to the end of a piece turn to the next one where it is better: so those of regression
change their signs. And all go on in the direction in which they have come, as far as it is worth while and their boxes allow.

The copy is scaled to a unit diagonal, and filled row by row as samples first move. It and the gradient in it are float32.
"""

from typing import Any, NamedTuple

import numpy as np

from ...jit import generic, jitable, jitable_call, kernel, vectors
from ...losses.base import BOUNDLESS, piece, reward, value

AWAY, SOON, NEAR = 0, 1, 2  # what View.near says of a sample
LEAST_CURVATURE = 1e-3  # the smallest curvature of a pair
NO_GAIN = 1e-12  # part of the first gain in a copy that float32 cannot tell from nothing
MOVED_THEN, SLOPE_THEN, FALLEN_SINCE = 0, 1, 2  # rows of Part.marks
FARTHEST_ALONG = 20.0  # times as far as the duals have come
ABREAST = 4  # vectors of samples that are looked at as one: the best of them is looked for only once all have moved


class State(NamedTuple):
    """Where the duals stand; all (labels, samples). curvature: of each dual alone; change: what a round has added to them."""

    duals: np.ndarray
    scores: np.ndarray
    curvature: np.ndarray
    change: np.ndarray


class View(NamedTuple):
    """What a look at the duals finds; (labels, samples), and gaps by label.

    gains: of a step of each dual alone; near: NEAR where it can gain or go along inside its box, SOON where it may before long
    """

    near: np.ndarray
    gains: np.ndarray
    gaps: np.ndarray


@kernel
def look_at(loss, labels, state, view, slack):
    for label in labels:
        view.gaps[label] = look_at_label(loss, label, state, view, slack)


@jitable_call
def look_at_label(loss, label, state, view, slack):
    """Returns the gap of the label."""
    n = state.duals.shape[1]
    near, gains = view.near[label], view.gains[label]
    gap = 0.0
    for i in range(n):
        k = label * n + i
        b, s = state.duals[label, i], state.scores[label, i]
        low, high, linear, soft = piece(loss, k, s, b)
        slope = linear - s - soft * b
        h = state.curvature[label, i] + soft
        if h > 0.0:
            d = min(max(slope / h, low - b), high - b)
        else:
            d = high - b if slope > 0.0 else low - b if slope < 0.0 else 0.0
        gains[i] = d * (slope - 0.5 * d * h)
        gap += value(loss, k, s) - reward(loss, k, b) + b * s
        near[i] = AWAY
        if h > 0.0 and (gains[i] > 0.0 or low < b < high):
            near[i] = NEAR
        elif h > 0.0 and low < high and abs(slope) < slack:
            near[i] = SOON
    return gap


@kernel
def put_at_bounds(loss, label, state):
    """Duals that move no score of their own sit at the bound that their slope points to."""
    n = state.duals.shape[1]
    for i in range(n):
        k = label * n + i
        s, old = state.scores[label, i], state.duals[label, i]
        low, high, linear, soft = piece(loss, k, s, old)
        if state.curvature[label, i] + soft <= 0.0:
            slope = linear - s
            new = high if slope > 0.0 else low if slope < 0.0 else old
            state.change[label, i], state.duals[label, i] = new - old, new


class Part(NamedTuple):
    """A label's problem on some samples in float32, scaled so that every curvature is one. Lane arrays but for the last three.

    slope: of the dual value; low, high: how far each dual may go yet; weight: of slope^2 in the gap of a squared loss;
    scale: of each dual; gathered: a row on its way into the matrix; marks: by how much each dual had moved when all last went on,
    its slope then, and by how much that has fallen; moved: by how much each dual has moved; ready: whether its row of the matrix
    is there
    """

    matrix: np.ndarray
    slope: np.ndarray
    low: np.ndarray
    high: np.ndarray
    weight: np.ndarray
    scale: np.ndarray
    gathered: np.ndarray
    marks: np.ndarray
    moved: np.ndarray
    ready: np.ndarray


class Pieces(NamedTuple):
    """The pieces of the loss that the duals of a part lie on.

    first: where the duals of the label begin; lowest, highest, linear, soft: of each sample what `piece` says; goes_on: whether
    another piece begins at one of its ends
    """

    loss: Any
    first: int
    lowest: np.ndarray
    highest: np.ndarray
    linear: np.ndarray
    soft: np.ndarray
    goes_on: np.ndarray


@jitable_call
def copy_part(loss, label, state, near, part, pieces):
    """Fill all of the part but its matrix, for the samples `near`, and their pieces."""
    n = state.duals.shape[1]
    slope, low, high, weight, scale, gathered = (
        part.slope[0].reshape(-1),
        part.low[0].reshape(-1),
        part.high[0].reshape(-1),
        part.weight[0].reshape(-1),
        part.scale[0].reshape(-1),
        part.gathered[0].reshape(-1),
    )
    for p in range(slope.size):
        slope[p], low[p], high[p], weight[p], scale[p], gathered[p] = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for p in range(near.size):
        i = np.int64(near[p])
        k = label * n + i
        b, s = state.duals[label, i], state.scores[label, i]
        lowest, highest, linear, soft = piece(loss, k, s, b)
        pieces.lowest[p], pieces.highest[p], pieces.linear[p], pieces.soft[p] = lowest, highest, linear, soft
        below, above = piece(loss, k, BOUNDLESS, lowest), piece(loss, k, -BOUNDLESS, highest)
        pieces.goes_on[p] = below[0] < lowest or above[1] > highest
        root = np.sqrt(state.curvature[label, i] + soft)
        scale[p] = 1.0 / root
        slope[p] = min(max((linear - s - soft * b) / root, -BOUNDLESS), BOUNDLESS)
        low[p] = max((lowest - b) * root, -BOUNDLESS)
        high[p] = min((highest - b) * root, BOUNDLESS)
        weight[p] = min(0.5 / soft * root * root, BOUNDLESS) if soft > 0.0 else BOUNDLESS


class RowsSource(NamedTuple):
    """Where the matrix of a part comes from: factor (table[places] + constant) between `near`, scaled on both sides."""

    table: np.ndarray
    places: np.ndarray
    near: np.ndarray
    pieces: Pieces
    factor: float
    constant: float


class ScaledSource(NamedTuple):
    """table[places] between `near`, scaled as it should be."""

    table: np.ndarray
    places: np.ndarray
    near: np.ndarray
    pieces: Pieces


@generic
def copy_row(source, p, part):
    """Row p of the matrix of a part: copied when the sample first moves, as many never do."""


@copy_row.register(ScaledSource)
def _(source, p, part):
    row, out = np.uint64(source.places[p]), part.matrix.reshape(part.matrix.shape[0], -1)[p]
    for q in range(source.near.size):
        out[q] = source.table[row, source.near[q]]
    out[p] = 1.0


@copy_row.register(RowsSource)
def _(source, p, part):
    # First what is wanted of a row, then its scale: only the second step is one for vectors.
    row, out = np.uint64(source.places[p]), np.uint64(p)
    gathered = part.gathered.reshape(-1)
    for q in range(source.near.size):
        gathered[q] = source.table[row, source.near[q]]
    zero, left = vectors.zeros_like(part.scale), source.factor * part.scale.reshape(-1)[p]
    for b in range(np.uint64(part.scale.shape[1])):
        value = vectors.fma(zero, left, vectors.shift(vectors.load(part.gathered, 0, b), source.constant))
        vectors.store(part.matrix, out, b, vectors.multiply(value, vectors.load(part.scale, 0, b)))
    part.matrix.reshape(part.matrix.shape[0], -1)[p, p] = 1.0


@generic
def turn_round(source, part):
    """Duals at the end of a piece turn to the next one, if their slope points there; returns whether there were any."""


@turn_round.register(object)
def _(source, part):
    return False


@turn_round.register(ScaledSource)
def _(source, part):
    return turn_to_next(source.pieces, source.near, part)


@turn_round.register(RowsSource)
def _(source, part):
    return turn_to_next(source.pieces, source.near, part)


@jitable_call
def turn_to_next(pieces, near, part):
    slope, low, high = part.slope[0].reshape(-1), part.low[0].reshape(-1), part.high[0].reshape(-1)
    turned = False
    for p in range(near.size):
        if not pieces.goes_on[p] or (low[p] != 0.0 and high[p] != 0.0):
            continue
        b, root = pieces.lowest[p] if low[p] == 0.0 else pieces.highest[p], 1.0 / part.scale[0].reshape(-1)[p]
        score = pieces.linear[p] - pieces.soft[p] * b - slope[p] * root
        lowest, highest, linear, soft = piece(pieces.loss, pieces.first + np.int64(near[p]), score, b)
        if lowest == pieces.lowest[p] or soft != pieces.soft[p]:  # the same, or of another scale
            continue
        turned, pieces.lowest[p], pieces.highest[p], pieces.linear[p] = True, lowest, highest, linear
        before, slope[p] = slope[p], (linear - score - soft * b) / root
        part.marks[SLOPE_THEN, p] += slope[p] - before  # duals that move change slopes, which is what this is for; pieces do not
        low[p], high[p] = max((lowest - b) * root, -BOUNDLESS), min((highest - b) * root, BOUNDLESS)
    return turned


@jitable
def part_gap(slope, low, high, weight):
    total = 0.0
    for p in range(slope.size):
        g = slope[p]
        total += min(max(g * low[p], g * high[p]), weight[p] * g * g)
    return total


@jitable
def update_vector(part, i, s, j, t, b):
    """slope -= s K_i + t K_j in one vector; returns the gains that steps alone would bring, with the signs of these steps."""
    g = vectors.fma(vectors.load(part.slope, 0, b), -t, vectors.load(part.matrix, j, b))
    g = vectors.fma(g, -s, vectors.load(part.matrix, i, b))
    vectors.store(part.slope, 0, b, g)
    d = vectors.clamp(g, vectors.load(part.low, 0, b), vectors.load(part.high, 0, b))
    return vectors.multiply(d, vectors.absolute(vectors.fma(g, -0.5, d)))


@jitable
def update_slopes(part, i, s, j, t):
    """slope -= s K_i + t K_j; returns the best gain of a step up and of one down, and the first of the vectors, `ABREAST`, that
    it was found in."""
    i, j, size = np.uint64(i), np.uint64(j), np.uint64(ABREAST)
    s, t = part.slope.dtype.type(s), part.slope.dtype.type(t)
    zero = vectors.zeros_like(part.slope)
    up = down = part.slope.dtype.type(0)
    above = below = np.uint64(0)
    for at in range(np.uint64(part.slope.shape[1]) // size):
        highest = lowest = zero
        for b in range(at * size, at * size + size):
            gains = update_vector(part, i, s, j, t, b)
            highest, lowest = vectors.maximum(highest, gains), vectors.minimum(lowest, gains)
        gain = vectors.largest(highest)
        if gain > up:
            up, above = gain, at * size
        gain = vectors.largest(vectors.subtract(zero, lowest))
        if gain > down:
            down, below = gain, at * size
    return up, above, down, below


@jitable
def best_of(slope, low, high, sign, start, stop):
    """Of these entries the one whose step in the direction of the sign, alone, gains most; the first if there is none."""
    top, best = 0.0, start
    for p in range(start, stop):
        d = min(max(slope[p], low[p]), high[p])
        gain = sign * d * abs(slope[p] - 0.5 * d)
        if gain > top:
            top, best = gain, p
    return best


@kernel
def climb(loss, label, state, part, source, rest, tuning):
    """SMO for one label on some samples until their gap is this part of what it was; returns the number of steps. `tuning` says
    how many there may be, and how often the gap is looked at."""
    copy_part(loss, label, state, source.near, part, source.pieces)
    steps = optimise(part, source, rest, tuning)
    put_back(label, state, source.near, part, source.pieces)
    return steps


@jitable_call
def optimise(part, source, rest, tuning):
    """Moves of the duals of a part."""
    count = source.near.size
    steps = tuning.patience * count
    for p in range(count):
        part.moved[p], part.ready[p] = 0.0, False
    copy_row(source, 0, part)
    part.ready[0] = True
    slope, low, high, weight = (
        part.slope[0].reshape(-1),
        part.low[0].reshape(-1),
        part.high[0].reshape(-1),
        part.weight[0].reshape(-1),
    )
    matrix = part.matrix.reshape(part.matrix.shape[0], -1)
    width, reach = part.slope.shape[2], ABREAST * part.slope.shape[2]
    i, j, s, t = 0, 0, 0.0, 0.0
    most, target = -1.0, rest * part_gap(slope, low, high, weight)
    pause = max(1, int(tuning.along * count))
    for p in range(count):
        part.marks[MOVED_THEN, p], part.marks[SLOPE_THEN, p] = 0.0, slope[p]
    for step in range(steps):
        up, above, down, below = update_slopes(part, i, s, j, t)
        if step % tuning.look == tuning.look - 1:
            turn_round(source, part)
            if part_gap(slope, low, high, weight) <= target:
                return step
        if step % pause == pause - 1 and go_along(part, count):
            s = t = 0.0
            continue
        if most < 0.0:
            most = max(up, down)
        if max(up, down) <= NO_GAIN * most:
            if not turn_round(source, part):
                return step
            s = t = 0.0
            continue
        start, other = np.int64(above) * width, np.int64(below) * width
        i = best_of(slope, low, high, 1.0, start, min(start + reach, count))
        j = best_of(slope, low, high, -1.0, other, min(other + reach, count))
        if up > down:  # j is the one that gains more
            i, j = j, i
        for p in (i, j):
            if not part.ready[p]:
                copy_row(source, p, part)
                part.ready[p] = True
        s, t = pair(slope[i], slope[j], matrix[i, j], (low[i], high[i]), (low[j], high[j]), i != j)
        part.moved[i] += s
        part.moved[j] += t
        low[i], high[i] = low[i] - s, high[i] - s
        low[j], high[j] = low[j] - t, high[j] - t
    return steps


@jitable_call
def go_along(part, count):
    """Go on in the direction in which the duals have come since the last time, as far as the dual value rises. Those that would
    leave their boxes stay at the bound; should that lead to a lower value, all goes back. Returns whether it did not."""
    slope, low, high, marks = part.slope[0].reshape(-1), part.low[0].reshape(-1), part.high[0].reshape(-1), part.marks
    rise, bend, gain = 0.0, 0.0, 0.0
    for p in range(count):
        marks[MOVED_THEN, p], marks[FALLEN_SINCE, p] = part.moved[p] - marks[MOVED_THEN, p], marks[SLOPE_THEN, p] - slope[p]
        rise += marks[MOVED_THEN, p] * slope[p]
        bend += marks[MOVED_THEN, p] * marks[FALLEN_SINCE, p]
    far = min(rise / bend, FARTHEST_ALONG) if rise > 0.0 and bend > 0.0 else 0.0
    for p in range(count):
        marks[SLOPE_THEN, p] = slope[p]
        slope[p] -= far * marks[FALLEN_SINCE, p]
    for p in range(count):
        wanted = far * marks[MOVED_THEN, p]
        marks[MOVED_THEN, p] = min(max(wanted, low[p]), high[p])
        if marks[MOVED_THEN, p] != wanted:
            add_row(part, p, wanted - marks[MOVED_THEN, p])
    for p in range(count):
        gain += marks[MOVED_THEN, p] * (slope[p] + marks[SLOPE_THEN, p])
    for p in range(count):
        change, marks[MOVED_THEN, p] = marks[MOVED_THEN, p], part.moved[p]
        if not gain > 0.0:
            slope[p] = marks[SLOPE_THEN, p]
        elif change != 0.0:
            part.moved[p] += change
            low[p], high[p] = low[p] - change, high[p] - change
    return gain > 0.0


@jitable
def add_row(part, p, x):
    """slope += x K_p"""
    p, x = np.uint64(p), part.slope.dtype.type(x)
    for b in range(np.uint64(part.slope.shape[1])):
        vectors.store(part.slope, 0, b, vectors.fma(vectors.load(part.slope, 0, b), x, vectors.load(part.matrix, p, b)))


@jitable
def pair(gi, gj, k, box_i, box_j, both):
    """The best moves of two duals with unit curvatures and the off-diagonal k; of the second alone unless `both`."""
    alone = min(max(gj, box_j[0]), box_j[1])
    if both:
        t = min(max((gj - k * gi) / max(1.0 - k * k, LEAST_CURVATURE), box_j[0]), box_j[1])
        s = min(max(gi - k * t, box_i[0]), box_i[1])
        t = min(max(gj - k * s, box_j[0]), box_j[1])
        if s * gi + t * gj - 0.5 * (s * s + t * t) - k * s * t >= alone * (gj - 0.5 * alone):
            return s, t
    return 0.0, alone


@jitable_call
def put_back(label, state, near, part, pieces):
    """Move the duals, exactly onto their bounds where the copy is there."""
    low, high, scale = part.low[0].reshape(-1), part.high[0].reshape(-1), part.scale[0].reshape(-1)
    for p in range(near.size):
        i = np.int64(near[p])
        b = state.duals[label, i]
        lowest, highest = pieces.lowest[p], pieces.highest[p]
        if part.moved[p] == 0.0:
            continue
        if low[p] == 0.0:
            new = lowest
        elif high[p] == 0.0:
            new = highest
        else:
            new = min(max(b + part.moved[p] * scale[p], lowest), highest)
        state.change[label, i], state.duals[label, i] = new - b, new


class Workspace:
    """Where the copy of one label lies; used again and again."""

    def __init__(self, most: int):
        self.width = ABREAST * vectors.width(np.float32)
        padded = -(-most // self.width) * self.width
        self.matrix = vectors.aligned((most * padded,), np.float32)
        self.vectors = vectors.aligned((6, padded), np.float32)
        self.marks = np.zeros((3, most))
        self.moved, self.ready = np.zeros(most), np.zeros(most, bool)
        self.ends, self.goes_on = np.zeros((4, most)), np.zeros(most, bool)

    def part(self, size: int) -> Part:
        """Room for this many samples."""
        padded = -(-size // self.width) * self.width
        shape = -1, padded // vectors.width(np.float32), vectors.width(np.float32)
        views = [row[:padded].reshape(shape) for row in self.vectors]
        matrix = self.matrix[: size * padded].reshape(shape)
        slope, low, high, weight, scale, gathered = views
        return Part(matrix, slope, low, high, weight, scale, gathered, self.marks, self.moved[:size], self.ready[:size])

    def pieces(self, size: int, loss: Any, first: int) -> Pieces:
        """The same for their pieces."""
        lowest, highest, linear, soft = self.ends[:, :size]
        return Pieces(loss, first, lowest, highest, linear, soft, self.goes_on[:size])
