"""Parts on image grids: encoded samples, and the best placement of a tree of parts by distance transforms.

    w . phi(x, y) = sum_parts p  <template_p, window of x at y_p>
                  + sum_edges  l . (dr, dc) / unit - q . (dr^2, dc^2) / unit^2,     (dr, dc) = y_child - y_parent

A child's message to its parent is max_z [ belief(z) + l (z - p) - q (z - p)^2 ], over rows and columns one after the other.
Along a line this is a maximum of c_z + 2 q p z with c_z = belief(z) + l z - q z^2: the point of the upper hull of (z, c_z) that
lies farthest in a direction that turns steadily as p moves. One pass builds the hull, another follows it: time linear in the
number of cells (the lower envelope of Felzenszwalb and Huttenlocher 2012, without its divisions), and exact for every q:
positive, zero, where all p share one z, and negative, where the direction turns the other way.

The weights are one lane array, parts along its lanes: a row for each feature of each cell of a window, then l and q (rows, then
columns) of the edge to the parent. A code is the cell of each part.
"""

from typing import NamedTuple

import numpy as np

from ...data import rows
from ...jit import jitable, jitable_call, kernel, vectors
from .contract import (
    against,
    blend,
    clear,
    copied,
    direct,
    expected_loss,
    forget,
    inner,
    kind_of,
    lacks_marginals,
    length,
    loss_of,
    measure,
    n_samples,
    new_room,
    nonnegative,
    output_of,
    prepare,
    push,
    same_shapes,
    score_of,
    statistics_of,
    step_towards,
    tally,
    truth,
    truths,
    vertices,
    weight_shape,
    withdraw,
    worst,
)

START, ROWS, COLUMNS = range(3)  # the columns of Grids.sample
ORDER, PARENT = range(2)  # the columns of Grids.tree
F, C, SLOPE, INVERSE = range(4)  # the rows of Room.line
BENDS = 4  # weights of an edge: linear in rows and columns, quadratic in rows and columns


class Grids(NamedTuple):
    """All samples, their cells one after another, row by row."""

    X: rows.Dense | rows.Indexed | rows.CSR  # a row of features for each cell
    sample: np.ndarray  # (samples + 1, 3) the first cell, rows and columns of the grid
    place: np.ndarray  # (samples, parts) the cells of the true placement; -1 where it is not known
    tree: np.ndarray  # (parts, 2) parts in an order with parents first; the parent of each part, -1 at the root
    window: np.ndarray  # (2,) rows and columns of a template; its middle lies on the part
    distance: np.ndarray  # (rows, columns) how far apart cells are
    scale: np.ndarray  # (samples,) factor on the sum of the parts' deviations
    unit: float  # displacements are measured in this many cells


class Room(NamedTuple):
    """Scratch for one sample at a time."""

    cells: np.ndarray  # (3 parts, cells) scores, beliefs, the difference
    arrow: np.ndarray  # (2 parts, cells) where a child's best row lies, and its best column
    bend: np.ndarray  # (3 parts, BENDS) weights of edges, the difference, the output of `against`
    line: np.ndarray  # (4, longest side + 1) values along a line, its points c_z, slopes of the hull, 1 / n
    hull: np.ndarray  # (longest side,)
    row: np.ndarray  # a lane array of one row
    dense: np.ndarray  # twice the weights: features of a difference, zero between calls; those of the output of `against`
    code: np.ndarray
    other: np.ndarray  # (parts + 1,) the code given to `against`; the last number is its sample, -1 for none


@n_samples.register(Grids)
def _(data):
    return data.scale.size


@truths.register(Grids)
def _(data):
    return data.place.ravel(), np.full(data.scale.size, data.place.shape[1])


@weight_shape.register(Grids)
def _(data):
    return tail(data) + BENDS, vectors.blocks(n_parts(data), np.float64), vectors.width(np.float64)


@nonnegative.register(Grids)
def _(data):
    wide = int(np.prod(weight_shape(data)[1:]))
    children = np.flatnonzero(data.tree[:, PARENT] >= 0)
    return np.concatenate([(tail(data) + row) * wide + children for row in (2, 3)]).astype(np.int64)


@lacks_marginals.register(Grids)
def _(data):
    return (
        "Parts has no marginals, which partial linearization and exponentiated gradient need: its placements are too many to sum "
        "over; FrankWolfe and DualCoordinate need only the best one."
    )


@new_room.register(Grids)
def _(data) -> Room:
    P, shape, sides = n_parts(data), weight_shape(data), data.sample[:-1, ROWS:]
    cells, side = int(sides.prod(axis=1).max(initial=1)), int(sides.max(initial=1))
    arrays = np.zeros((3 * P, cells)), np.zeros((2 * P, cells), np.int32), np.zeros((3 * P, BENDS)), new_line(side)
    row, dense = (vectors.aligned((count, *shape[1:]), np.float64) for count in (1, 2 * shape[0]))
    return Room(*arrays, np.zeros(side, np.int32), row, dense, np.zeros(P, np.int32), np.full(P + 1, -1, np.int32))


def new_line(side: int) -> np.ndarray:
    line = np.zeros((4, side + 1))
    line[3, 1:] = 1.0 / np.arange(1, side + 1)
    return line


@jitable
def n_parts(data):
    return data.tree.shape[0]


@jitable
def tail(data):
    """The first row of the weights of edges."""
    return data.window[0] * data.window[1] * rows.last_column(data.X)


@jitable
def spread_of(data, i):
    """The first cell of sample i, rows and columns."""
    return data.sample[i, START], data.sample[i, ROWS], data.sample[i, COLUMNS]


# ---- scores ----------------------------------------------------------------------------------------------


@length.register(Grids)
def _(data, i):
    return n_parts(data)


@truth.register(Grids)
def _(data, i, code):
    for p in range(n_parts(data)):
        code[p] = data.place[i, p]


@prepare.register(Grids)
def _(data, i, W, room):
    start, high, wide = spread_of(data, i)
    P, width = n_parts(data), W.shape[2]
    for cell in range(high * wide):
        b = 0
        while b < W.shape[1]:  # two blocks of parts at a time: sums of one would wait for each other
            correlate(data, start, cell, high, wide, W, b, room.row)
            b += 2
        for p in range(P):
            room.cells[p, cell] = room.row[0, p // width, p % width]
    for p in range(P):
        for k in range(BENDS):
            per = 1.0 / (data.unit if k < 2 else data.unit * data.unit)
            room.bend[p, k] = W[tail(data) + k, p // width, p % width] * per


@jitable
def correlate(data, start, cell, high, wide, W, b, out):
    """out[0, b:b + 2] = the window around a cell against the templates of two blocks of parts"""
    d, c = rows.last_column(data.X), min(b + 1, W.shape[1] - 1)  # the same block twice where only one is left
    top, left = cell // wide - data.window[0] // 2, cell % wide - data.window[1] // 2
    first, last = max(-left, 0), min(wide - left, data.window[1])
    one, two = vectors.zeros_like(W), vectors.zeros_like(W)
    for r in range(max(-top, 0), min(high - top, data.window[0])):
        at = start + (top + r) * wide + left
        for s in range(first, last):
            base = (r * data.window[1] + s) * d
            for k in range(rows.first(data.X, at + s), rows.last(data.X, at + s)):
                x, j = rows.value(data.X, at + s, k), base + np.int64(rows.column(data.X, at + s, k))
                one = vectors.fma(one, x, vectors.load(W, j, b))
                two = vectors.fma(two, x, vectors.load(W, j, c))
    vectors.store(out, 0, b, one)
    vectors.store(out, 0, c, two)


@jitable
def deviation(data, i, p, cell):
    """How far a cell lies from the part's true one, times the factor of the loss; 0 where that is not known."""
    true, wide = data.place[i, p], data.sample[i, COLUMNS]
    if true < 0:
        return 0.0
    return data.scale[i] * data.distance[abs(cell // wide - true // wide), abs(cell % wide - true % wide)]


@worst.register(Grids)
def _(data, i, room, code):
    _, high, wide = spread_of(data, i)
    P = n_parts(data)
    for p in range(P):
        for cell in range(high * wide):
            room.cells[P + p, cell] = room.cells[p, cell]
        if data.place[i, p] >= 0:
            add_loss(data, i, p, room.cells[P + p])
    for k in range(P - 1, 0, -1):
        child = data.tree[k, ORDER]
        parent = data.tree[child, PARENT]
        transform(room, P, child, high, wide)
        for cell in range(high * wide):
            room.cells[P + parent, cell] += room.cells[P + child, cell]
    root = data.tree[0, ORDER]
    best = 0
    for cell in range(high * wide):
        if room.cells[P + root, cell] > room.cells[P + root, best]:
            best = cell
    code[root] = best
    for k in range(1, P):
        child = data.tree[k, ORDER]
        at = code[data.tree[child, PARENT]]
        row = room.arrow[child, at]
        code[child] = row * wide + room.arrow[P + child, row * wide + at % wide]
    return room.cells[P + root, best]


@jitable
def add_loss(data, i, p, belief):
    _, high, wide = spread_of(data, i)
    r, c = data.place[i, p] // wide, data.place[i, p] % wide
    for row in range(high):
        for column in range(wide):
            belief[row * wide + column] += data.scale[i] * data.distance[abs(row - r), abs(column - c)]


@jitable_call
def transform(room, P, child, high, wide):
    """The beliefs of a child become its message; where they came from is kept."""
    belief = room.cells[P + child]
    for row in range(high):
        follow(room, belief, row * wide, 1, wide, room.bend[child, 1], room.bend[child, 3], room.arrow[P + child])
    for column in range(wide):
        follow(room, belief, column, wide, high, room.bend[child, 0], room.bend[child, 2], room.arrow[child])


@jitable
def follow(room, values, at, stride, size, linear, quadratic, arrow):
    """values[p] becomes max_z [ values[z] + linear (z - p) - quadratic (z - p)^2 ] along a line, arrow[p] that z."""
    line, hull, count = room.line, room.hull, 0
    for z in range(size):
        line[F, z] = values[at + z * stride]
        line[C, z] = line[F, z] + (linear - quadratic * z) * z
        slope = np.inf
        while count > 0:
            slope = (line[C, z] - line[C, hull[count - 1]]) * line[INVERSE, z - hull[count - 1]]
            if slope < line[SLOPE, count - 1]:
                break
            count -= 1  # the last point lies below the line from the one before it to this one
        hull[count], line[SLOPE, count] = z, slope if count > 0 else np.inf
        count += 1
    k = 0
    for step in range(size):
        p = step if quadratic >= 0.0 else size - 1 - step
        while k + 1 < count and line[SLOPE, k + 1] > -2.0 * quadratic * p:
            k += 1
        z = hull[k]
        values[at + p * stride] = line[F, z] + (linear - quadratic * (z - p)) * (z - p)
        arrow[at + p * stride] = z


@jitable
def displacement(data, i, p, code):
    """Rows and columns from the parent of a part to the part."""
    wide, parent = data.sample[i, COLUMNS], data.tree[p, PARENT]
    return code[p] // wide - code[parent] // wide, code[p] % wide - code[parent] % wide


@score_of.register(Grids)
def _(data, i, room, code):
    total = 0.0
    for p in range(n_parts(data)):
        total += room.cells[p, code[p]]
        if data.tree[p, PARENT] >= 0:
            dr, dc = displacement(data, i, p, code)
            total += (room.bend[p, 0] - room.bend[p, 2] * dr) * dr + (room.bend[p, 1] - room.bend[p, 3] * dc) * dc
    return total


@loss_of.register(Grids)
def _(data, i, code):
    total = 0.0
    for p in range(n_parts(data)):
        total += deviation(data, i, p, code[p])
    return total


@forget.register(Grids)
def _(data, i, code):
    return None


# ---- features --------------------------------------------------------------------------------------------


@jitable_call
def put_window(data, i, p, cell, t, W, at):
    """Add t times the window at a cell to the template of part p in the rows from `at` on; t = 0 wipes it. Returns the squared
    norm of what was there."""
    start, high, wide = spread_of(data, i)
    d, b, lane, total = rows.last_column(data.X), p // W.shape[2], p % W.shape[2], 0.0
    top, left = cell // wide - data.window[0] // 2, cell % wide - data.window[1] // 2
    for r in range(max(-top, 0), min(high - top, data.window[0])):
        for s in range(max(-left, 0), min(wide - left, data.window[1])):
            row, base = start + (top + r) * wide + left + s, at + (r * data.window[1] + s) * d
            for k in range(rows.first(data.X, row), rows.last(data.X, row)):
                j = base + np.int64(rows.column(data.X, row, k))
                total += W[j, b, lane] ** 2
                W[j, b, lane] = 0.0 if t == 0.0 else W[j, b, lane] + t * rows.value(data.X, row, k)
    return total


@jitable
def add_bends(data, i, p, code, t, bend, at):
    """Add t times the features of the edge from a part to its parent to row `at`."""
    dr, dc = displacement(data, i, p, code)
    dr, dc = dr / data.unit, dc / data.unit
    bend[at, 0] += t * dr
    bend[at, 1] += t * dc
    bend[at, 2] -= t * dr * dr
    bend[at, 3] -= t * dc * dc


@against.register(Grids)
def _(data, i, room, code):
    P, half = n_parts(data), room.dense.shape[0] // 2
    for p in range(P):
        if room.other[P] >= 0:
            put_window(data, room.other[P], p, room.other[p], 0.0, room.dense, half)
    for p in range(P):
        put_window(data, i, p, code[p], 1.0, room.dense, half)
        for k in range(BENDS):
            room.bend[2 * P + p, k] = 0.0
        if data.tree[p, PARENT] >= 0:
            add_bends(data, i, p, code, 1.0, room.bend, 2 * P + p)
        room.other[p] = code[p]
    room.other[P] = i


@inner.register(Grids)
def _(data, i, room, code):
    start, high, wide = spread_of(data, i)
    P, half, d, width, total = n_parts(data), room.dense.shape[0] // 2, rows.last_column(data.X), room.dense.shape[2], 0.0
    for p in range(P):
        top, left = code[p] // wide - data.window[0] // 2, code[p] % wide - data.window[1] // 2
        for r in range(max(-top, 0), min(high - top, data.window[0])):
            for s in range(max(-left, 0), min(wide - left, data.window[1])):
                row, base = start + (top + r) * wide + left + s, half + (r * data.window[1] + s) * d
                for k in range(rows.first(data.X, row), rows.last(data.X, row)):
                    j = base + np.int64(rows.column(data.X, row, k))
                    total += rows.value(data.X, row, k) * room.dense[j, p // width, p % width]
        if data.tree[p, PARENT] >= 0:
            dr, dc = displacement(data, i, p, code)
            dr, dc, at = dr / data.unit, dc / data.unit, 2 * P + p
            total += dr * (room.bend[at, 0] - dr * room.bend[at, 2]) + dc * (room.bend[at, 1] - dc * room.bend[at, 3])
    return total


@clear.register(Grids)
def _(data, i, room):
    _, high, wide = spread_of(data, i)
    P = n_parts(data)
    for p in range(P):
        for cell in range(high * wide):
            room.cells[2 * P + p, cell] = 0.0
        for k in range(BENDS):
            room.bend[P + p, k] = 0.0


@tally.register(Grids)
def _(data, i, t, code, room):
    P = n_parts(data)
    for p in range(P):
        room.cells[2 * P + p, code[p]] += t
        if data.tree[p, PARENT] >= 0:
            add_bends(data, i, p, code, t, room.bend, P + p)


@jitable
def put_all(data, i, t, room, W):
    """Windows of the difference, times t."""
    _, high, wide = spread_of(data, i)
    P = n_parts(data)
    for p in range(P):
        for cell in range(high * wide):
            if room.cells[2 * P + p, cell] != 0.0:
                put_window(data, i, p, cell, t * room.cells[2 * P + p, cell], W, 0)


@push.register(Grids)
def _(data, i, t, room, W):
    P, width = n_parts(data), W.shape[2]
    put_all(data, i, t, room, W)
    for p in range(P):
        for k in range(BENDS):
            W[tail(data) + k, p // width, p % width] += t * room.bend[P + p, k]


@measure.register(Grids)
def _(data, i, room):
    _, high, wide = spread_of(data, i)
    P, gain, square = n_parts(data), 0.0, 0.0
    put_all(data, i, 1.0, room, room.dense)
    for p in range(P):
        for cell in range(high * wide):
            change = room.cells[2 * P + p, cell]
            if change != 0.0:
                gain += change * (room.cells[p, cell] + deviation(data, i, p, cell))
                square += put_window(data, i, p, cell, 0.0, room.dense, 0)  # zero when it is met again
        for k in range(BENDS):
            per = data.unit if k < 2 else data.unit * data.unit
            gain += room.bend[P + p, k] * room.bend[p, k] * per
            square += room.bend[P + p, k] ** 2
    return gain, square


# ---- mixtures of placements: the points of Frank-Wolfe ---------------------------------------------------


class PartMixtures(NamedTuple):
    """A mixture of placements for each sample: the mass of each part on each cell, and the mean features of edges."""

    cells: np.ndarray  # those of a sample from its first cell times parts on, part by part
    bend: np.ndarray  # (samples, parts * BENDS)


@direct.register(PartMixtures)
def _(points, data, i, room, temperature):
    worst(data, i, room, room.code)
    clear(data, i, room)
    tally(data, i, 1.0, room.code, room)
    withdraw(points, data, i, room)


@withdraw.register(PartMixtures)
def _(points, data, i, room):
    start, high, wide = spread_of(data, i)
    P = n_parts(data)
    for p in range(P):
        at = start * P + p * high * wide
        for cell in range(high * wide):
            room.cells[2 * P + p, cell] -= points.cells[at + cell]
        for k in range(BENDS):
            room.bend[P + p, k] -= points.bend[i, p * BENDS + k]


@step_towards.register(PartMixtures)
def _(points, data, i, gamma, room):
    start, high, wide = spread_of(data, i)
    P = n_parts(data)
    for p in range(P):
        at = start * P + p * high * wide
        for cell in range(high * wide):
            points.cells[at + cell] += gamma * room.cells[2 * P + p, cell]
        for k in range(BENDS):
            points.bend[i, p * BENDS + k] += gamma * room.bend[P + p, k]


@expected_loss.register(PartMixtures)
def _(points, data, i):
    start, high, wide = spread_of(data, i)
    total, P = 0.0, n_parts(data)
    for p in range(P):
        at = start * P + p * high * wide
        for cell in range(high * wide):
            if points.cells[at + cell] != 0.0:
                total += points.cells[at + cell] * deviation(data, i, p, cell)
    return total


@kind_of.register(PartMixtures)
def _(points):
    return "mixtures"


@statistics_of.register(PartMixtures)
def _(points, data, i, weight):
    start, high, wide = spread_of(data, i)
    P = n_parts(data)
    cells = points.cells[start * P : (start + high * wide) * P].reshape(P, high, wide)
    return {"cell": weight * cells, "edge": weight * points.bend[i].reshape(P, BENDS)}


@vertices.register(Grids)
def _(data) -> PartMixtures:
    P = n_parts(data)
    points = PartMixtures(np.zeros(int(data.sample[-1, START]) * P), np.zeros((data.scale.size, P * BENDS)))
    at_truths(points, data, new_room(data))
    return points


@kernel
def at_truths(points, data, room):
    for i in range(data.scale.size):
        clear(data, i, room)
        truth(data, i, room.code)
        tally(data, i, 1.0, room.code, room)
        step_towards(points, data, i, 1.0, room)


@copied.register(PartMixtures)
def _(points):
    return PartMixtures(*(table.copy() for table in points))


@blend.register(PartMixtures)
def _(points, others, gamma):
    for table, other in zip(points, others, strict=True):
        table[...] = (1.0 - gamma) * table + gamma * other


@same_shapes.register(Grids)
def _(data, other):
    same = all(np.array_equal(getattr(data, name), getattr(other, name)) for name in ("sample", "tree", "window"))
    return same and data.unit == other.unit


@output_of.register(Grids)
def _(data, structure, i, code):
    return np.stack(np.divmod(code.astype(np.int64), data.sample[i, COLUMNS]), axis=1)
