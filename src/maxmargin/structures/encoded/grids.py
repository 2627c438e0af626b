"""Parts on image grids: encoded samples, and the best placement of a tree of parts by distance transforms.

    w . phi(x, y) = sum_parts p  <template_p, window of x at y_p>
                  + sum_edges  l . (dr, dc) / unit - q . (dr^2, dc^2) / unit^2,     (dr, dc) = y_child - y_parent

A child's message to its parent is max_z [ belief(z) + l (z - p) - q (z - p)^2 ], over rows and columns one after the other.
Along a line this is a maximum of c_z + 2 q p z with c_z = belief(z) + l z - q z^2: the point of the upper hull of (z, c_z) that
lies farthest in a direction that turns steadily as p moves. One pass builds the hull, another follows it: time linear in the
number of cells (the lower envelope of Felzenszwalb and Huttenlocher 2012, without its divisions), and exact for every q:
positive, zero, where all p share one z, and negative, where the direction turns the other way.

The weights are one lane array, parts along its lanes: a row for each feature of each cell of a window, then l and q (rows, then
columns) of the edge to the parent. A code is the cell of each part; the statistics of an output are the features of its edges,
and then on which cell each part lies. Verbs that would follow from these are written here for speed: most statistics are zero.
"""

from typing import NamedTuple

import numpy as np

from ...data import rows
from ...jit import jitable, jitable_call, vectors
from . import contract
from .statistics import WIDTH, vectors_for

CELLS, ROWS, COLUMNS = range(3)  # the columns of Grids.sample
NEXT_PART, ABOVE = range(2)  # the columns of Grids.tree
F, C, SLOPE, INVERSE = range(4)  # the rows of GridScratch.line
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


class GridScratch(NamedTuple):
    """Scratch for one sample at a time."""

    difference: np.ndarray  # (vectors, 1, width) bends, then cells:
    bend_change: np.ndarray  # (parts, BENDS) its memory
    change: np.ndarray  # its memory, cells part by part
    cells: np.ndarray  # (2 parts, cells) scores, beliefs
    arrow: np.ndarray  # (2 parts, cells) where a child's best row lies, and its best column
    bend: np.ndarray  # (2 parts, BENDS) weights of edges, the output of `against`
    line: np.ndarray  # (4, longest side + 1) values along a line, its points c_z, slopes of the hull, 1 / n
    hull: np.ndarray  # (longest side,)
    row: np.ndarray  # a lane array of one row
    dense: np.ndarray  # twice the weights: features of a difference, zero between calls; those of the output of `against`
    code: np.ndarray
    other: np.ndarray  # (parts + 1,) the code given to `against`; the last number is its sample, -1 for none


@contract.n_samples.register(Grids)
def _(data):
    return data.scale.size


@contract.truths.register(Grids)
def _(data):
    return data.place.ravel(), np.full(data.scale.size, data.place.shape[1])


@contract.visit_work.register(Grids)
def _(data):
    cells = rows.shape(data.X)[0] / max(data.scale.size, 1)
    return cells * int(np.prod(data.window)) * rows.mean_length(data.X) * n_parts(data)


@contract.weight_shape.register(Grids)
def _(data):
    return tail(data) + BENDS, vectors.blocks(n_parts(data), np.float64), vectors.width(np.float64)


@contract.nonnegative.register(Grids)
def _(data):
    wide = int(np.prod(contract.weight_shape(data)[1:]))
    children = np.flatnonzero(data.tree[:, ABOVE] >= 0)
    return np.concatenate([(tail(data) + row) * wide + children for row in (2, 3)]).astype(np.int64)


@contract.lacks_marginals.register(Grids)
def _(data):
    return (
        "Parts has no marginals, which partial linearization and exponentiated gradient need: its placements are too many to sum "
        "over; FrankWolfe and DualCoordinate need only the best one."
    )


@contract.new_scratch.register(Grids)
def _(data) -> GridScratch:
    P, shape, sides = n_parts(data), contract.weight_shape(data), data.sample[:-1, ROWS:]
    cells, side = int(sides.prod(axis=1).max(initial=1)), int(sides.max(initial=1))
    difference = vectors.zeros_vectors(vectors_for(P * (BENDS + cells)), 1, np.float64)
    change = difference.reshape(-1)
    views = change[: P * BENDS].reshape(P, BENDS), change[P * BENDS :]
    arrays = np.zeros((2 * P, cells)), np.zeros((2 * P, cells), np.int32), np.zeros((2 * P, BENDS)), new_line(side)
    row, dense = (vectors.aligned((count, *shape[1:]), np.float64) for count in (1, 2 * shape[0]))
    codes = np.zeros(P, np.int32), np.full(P + 1, -1, np.int32)
    return GridScratch(difference, *views, *arrays, np.zeros(side, np.int32), row, dense, *codes)


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
def grid_of(data, i):
    """The first cell of sample i, rows and columns."""
    return data.sample[i, CELLS], data.sample[i, ROWS], data.sample[i, COLUMNS]


# ---- scores ----------------------------------------------------------------------------------------------


@contract.length.register(Grids)
def _(data, i):
    return n_parts(data)


@contract.truth.register(Grids)
def _(data, i, code):
    for p in range(n_parts(data)):
        code[p] = data.place[i, p]


@contract.prepare.register(Grids)
def _(data, i, W, scratch):
    start, high, wide = grid_of(data, i)
    P, width = n_parts(data), W.shape[2]
    for cell in range(high * wide):
        b = 0
        while b < W.shape[1]:  # two blocks of parts at a time: sums of one would wait for each other
            correlate(data, start, cell, high, wide, W, b, scratch.row)
            b += 2
        for p in range(P):
            scratch.cells[p, cell] = scratch.row[0, p // width, p % width]
    for p in range(P):
        for k in range(BENDS):
            per = 1.0 / (data.unit if k < 2 else data.unit * data.unit)
            scratch.bend[p, k] = W[tail(data) + k, p // width, p % width] * per


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


@contract.worst.register(Grids)
def _(data, i, scratch, code):
    _, high, wide = grid_of(data, i)
    P = n_parts(data)
    for p in range(P):
        for cell in range(high * wide):
            scratch.cells[P + p, cell] = scratch.cells[p, cell]
        if data.place[i, p] >= 0:
            add_loss(data, i, p, scratch.cells[P + p])
    for k in range(P - 1, 0, -1):
        child = data.tree[k, NEXT_PART]
        parent = data.tree[child, ABOVE]
        transform(scratch, P, child, high, wide)
        for cell in range(high * wide):
            scratch.cells[P + parent, cell] += scratch.cells[P + child, cell]
    root = data.tree[0, NEXT_PART]
    best = 0
    for cell in range(high * wide):
        if scratch.cells[P + root, cell] > scratch.cells[P + root, best]:
            best = cell
    code[root] = best
    for k in range(1, P):
        child = data.tree[k, NEXT_PART]
        at = code[data.tree[child, ABOVE]]
        row = scratch.arrow[child, at]
        code[child] = row * wide + scratch.arrow[P + child, row * wide + at % wide]
    return scratch.cells[P + root, best]


@jitable
def add_loss(data, i, p, belief):
    _, high, wide = grid_of(data, i)
    r, c = data.place[i, p] // wide, data.place[i, p] % wide
    for row in range(high):
        for column in range(wide):
            belief[row * wide + column] += data.scale[i] * data.distance[abs(row - r), abs(column - c)]


@jitable_call
def transform(scratch, P, child, high, wide):
    """The beliefs of a child become its message; where they came from is kept."""
    belief = scratch.cells[P + child]
    for row in range(high):
        maximise_line(
            scratch, belief, row * wide, 1, wide, scratch.bend[child, 1], scratch.bend[child, 3], scratch.arrow[P + child]
        )
    for column in range(wide):
        maximise_line(scratch, belief, column, wide, high, scratch.bend[child, 0], scratch.bend[child, 2], scratch.arrow[child])


@jitable
def maximise_line(scratch, values, at, stride, size, linear, quadratic, arrow):
    """values[p] becomes max_z [ values[z] + linear (z - p) - quadratic (z - p)^2 ] along a line, arrow[p] that z."""
    line, hull, count = scratch.line, scratch.hull, 0
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
    wide, parent = data.sample[i, COLUMNS], data.tree[p, ABOVE]
    return code[p] // wide - code[parent] // wide, code[p] % wide - code[parent] % wide


@contract.score_of.register(Grids)
def _(data, i, scratch, code):
    total = 0.0
    for p in range(n_parts(data)):
        total += scratch.cells[p, code[p]]
        if data.tree[p, ABOVE] >= 0:
            dr, dc = displacement(data, i, p, code)
            total += (scratch.bend[p, 0] - scratch.bend[p, 2] * dr) * dr + (scratch.bend[p, 1] - scratch.bend[p, 3] * dc) * dc
    return total


@contract.loss_of.register(Grids)
def _(data, i, code):
    total = 0.0
    for p in range(n_parts(data)):
        total += deviation(data, i, p, code[p])
    return total


# ---- features --------------------------------------------------------------------------------------------


@jitable_call
def put_window(data, i, p, cell, t, W, at):
    """Add t times the window at a cell to the template of part p in the rows from `at` on; t = 0 wipes it. Returns the squared
    norm of what was there."""
    start, high, wide = grid_of(data, i)
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


@contract.against.register(Grids)
def _(data, i, scratch, code):
    P, half = n_parts(data), scratch.dense.shape[0] // 2
    for p in range(P):
        if scratch.other[P] >= 0:
            put_window(data, scratch.other[P], p, scratch.other[p], 0.0, scratch.dense, half)
    for p in range(P):
        put_window(data, i, p, code[p], 1.0, scratch.dense, half)
        for k in range(BENDS):
            scratch.bend[P + p, k] = 0.0
        if data.tree[p, ABOVE] >= 0:
            add_bends(data, i, p, code, 1.0, scratch.bend, P + p)
        scratch.other[p] = code[p]
    scratch.other[P] = i


@contract.inner.register(Grids)
def _(data, i, scratch, code):
    start, high, wide = grid_of(data, i)
    P, half, d, width, total = n_parts(data), scratch.dense.shape[0] // 2, rows.last_column(data.X), scratch.dense.shape[2], 0.0
    for p in range(P):
        top, left = code[p] // wide - data.window[0] // 2, code[p] % wide - data.window[1] // 2
        for r in range(max(-top, 0), min(high - top, data.window[0])):
            for s in range(max(-left, 0), min(wide - left, data.window[1])):
                row, base = start + (top + r) * wide + left + s, half + (r * data.window[1] + s) * d
                for k in range(rows.first(data.X, row), rows.last(data.X, row)):
                    j = base + np.int64(rows.column(data.X, row, k))
                    total += rows.value(data.X, row, k) * scratch.dense[j, p // width, p % width]
        if data.tree[p, ABOVE] >= 0:
            dr, dc = displacement(data, i, p, code)
            dr, dc, at = dr / data.unit, dc / data.unit, P + p
            total += dr * (scratch.bend[at, 0] - dr * scratch.bend[at, 2]) + dc * (scratch.bend[at, 1] - dc * scratch.bend[at, 3])
    return total


@contract.tally.register(Grids)
def _(data, i, t, code, scratch):
    _, high, wide = grid_of(data, i)
    for p in range(n_parts(data)):
        scratch.change[p * high * wide + code[p]] += t
        if data.tree[p, ABOVE] >= 0:
            add_bends(data, i, p, code, t, scratch.bend_change, p)


@jitable
def put_all(data, i, t, scratch, W):
    """Windows of the difference, times t."""
    _, high, wide = grid_of(data, i)
    for p in range(n_parts(data)):
        for cell in range(high * wide):
            change = scratch.change[p * high * wide + cell]
            if change != 0.0:
                put_window(data, i, p, cell, t * change, W, 0)


@contract.push.register(Grids)
def _(data, i, t, scratch, W):
    P, width = n_parts(data), W.shape[2]
    put_all(data, i, t, scratch, W)
    for p in range(P):
        for k in range(BENDS):
            W[tail(data) + k, p // width, p % width] += t * scratch.bend_change[p, k]


@contract.measure.register(Grids)
def _(data, i, scratch):
    _, high, wide = grid_of(data, i)
    P, gain, square = n_parts(data), 0.0, 0.0
    put_all(data, i, 1.0, scratch, scratch.dense)
    for p in range(P):
        for cell in range(high * wide):
            change = scratch.change[p * high * wide + cell]
            if change != 0.0:
                gain += change * (scratch.cells[p, cell] + deviation(data, i, p, cell))
                square += put_window(data, i, p, cell, 0.0, scratch.dense, 0)  # zero when it is met again
        for k in range(BENDS):
            per = data.unit if k < 2 else data.unit * data.unit
            gain += scratch.bend_change[p, k] * scratch.bend[p, k] * per
            square += scratch.bend_change[p, k] ** 2
    return gain, square


# ---- statistics: bends of the edges, then the mass of each part on each cell ------------------------------


@contract.n_vectors.register(Grids)
def _(data, i):
    _, high, wide = grid_of(data, i)
    return (n_parts(data) * (BENDS + high * wide) + WIDTH - 1) // WIDTH


@contract.loss_of_statistics.register(Grids)
def _(data, i, row, at):
    _, high, wide = grid_of(data, i)
    total, P = 0.0, n_parts(data)
    for p in range(P):
        first = at + P * BENDS + p * high * wide
        for cell in range(high * wide):
            if row[first + cell] != 0.0:
                total += row[first + cell] * deviation(data, i, p, cell)
    return total


@contract.shown_statistics.register(Grids)
def _(data, i, row):
    _, high, wide = grid_of(data, i)
    P = n_parts(data)
    cells = row[P * BENDS : P * (BENDS + high * wide)]
    return {"cell": cells.reshape(P, high, wide), "edge": row[: P * BENDS].reshape(P, BENDS)}


@contract.same_shapes.register(Grids)
def _(data, other):
    same = all(np.array_equal(getattr(data, name), getattr(other, name)) for name in ("sample", "tree", "window"))
    return same and data.unit == other.unit


@contract.output_of.register(Grids)
def _(data, structure, i, code):
    return np.stack(np.divmod(code.astype(np.int64), data.sample[i, COLUMNS]), axis=1)
