"""What threads do with blocks of dense rows: each visits one, then all move the weights together.

A thread leaves in its room what the rows of its block have changed, and these rows, one after another. The weights are moved by
slices of classes, a slice a thread, so that no thread has a copy of them. See `blocked`.
"""

from typing import Any, NamedTuple

import numpy as np

from ...data.gathered import Entries, add_listed, list_few, most_entries, take_rows
from ...data.rows import prefetch_row
from ...jit import jitable, jitable_call, kernel, vectors
from ...jit.products import add_products, outer_products
from ...losses.base import row_repair, row_step
from ...losses.blocks import RowMoves, follow_moves, keep_move
from .momentum import Lacking, reach_some
from .schedule import reschedule

ROWS_OF_STRIP = (
    32  # examples of a block whose inner products are computed at a time: those above the diagonal are not needed. 2026-11-16
)


class BlockRoom(NamedTuple):
    """Room of one thread for a block; of all threads, one behind another, as `BlockRooms.all`."""

    rows: vectors.VectorTable  # of the block, the bias behind each
    scaled: vectors.VectorTable  # those times the variance of each feature: the same table where that is one
    scores: vectors.VectorTable
    products: np.ndarray  # (ROWS_OF_STRIP, size)
    moved: RowMoves
    row: vectors.VectorTable
    change: vectors.VectorTable
    push: np.ndarray  # (1, size): how far each row goes along the mean
    common: vectors.VectorTable  # (1, classes): by how much all rows have moved along the mean
    entries: Entries  # of the changes


def part_of(tables: Any, p: int, parts: int) -> Any:
    """The p-th of so many equal runs of rows, of every array in a tuple of tuples of arrays."""
    if isinstance(tables, np.ndarray):
        size = len(tables) // parts
        return tables[p * size : (p + 1) * size]
    return type(tables)(*(part_of(table, p, parts) for table in tables))


class BlockRooms:
    """Room for `threads` blocks of up to `size` examples; `shape`: how many features and classes, and the moves of a class."""

    def __init__(self, threads: int, size: int, shape: tuple[int, int, int], bias: float, variance: np.ndarray, dtype: Any):
        features, classes, moves = shape
        blocks = vectors.blocks(classes, dtype)
        lanes = blocks * vectors.width(dtype)

        def table(rows: int, columns: int) -> vectors.VectorTable:
            return vectors.zeros_table(threads * rows, columns, dtype)

        rows, changes = table(size, features), table(size, classes)
        rows.flat[:, features - 1] = bias
        scaled = table(size, features) if variance.size else rows
        follows = changes if moves == 1 else table(size, classes)
        number, filled = np.zeros(threads * size, np.int64), np.zeros((threads * size, blocks), np.uint32)
        moved = RowMoves(number, changes, follows, filled, number.copy(), np.zeros(0))
        which = np.zeros(threads * most_entries(size, lanes), np.uint32)
        starts = np.zeros(threads * (lanes + 1), np.int64)
        entries = Entries(which, which.copy(), starts, which.copy(), which.astype(dtype))
        products, push = np.zeros((threads * ROWS_OF_STRIP, size), dtype), np.zeros((threads, size), dtype)
        scores, scratch, along = table(size, classes), (table(1, classes), table(moves, classes)), (push, table(1, classes))
        self.all = BlockRoom(rows, scaled, scores, products, moved, *scratch, *along, entries)
        self.each = [part_of(self.all, p, threads) for p in range(threads)]
        self.counts, self.few = np.zeros(threads, np.int64), np.zeros(threads, np.bool_)  # rows that moved; few of their entries
        self.out = [vectors.zeros_table(1, classes, np.float64) for _ in range(threads)]


# ---- a block ---------------------------------------------------------------------------------------------


@jitable_call
def take_block(values, examples, variance, room):
    """Copy the rows of a block."""
    take_rows(values, examples, room.rows.flat)
    if variance.size > 0:
        for k in range(examples.size):
            for j in range(variance.size):
                room.scaled.flat[k, j] = room.rows.flat[k, j] * variance[j]


@jitable_call
def keep_rows(table, which, count):
    """Only these rows of a table, in order, at its beginning."""
    for m in range(count):
        if which[m] != m:
            for b in range(table.vectors.shape[1]):
                vectors.store(table.vectors, m, b, vectors.load(table.vectors, which[m], b))


@jitable
def slope_of(scores, j, changes, m):
    """How the quadratic term grows with the change of example j, the m-th to move."""
    total = vectors.zeros_like(scores.vectors)
    for b in range(scores.vectors.shape[1]):
        total = vectors.add(total, vectors.multiply(vectors.load(scores.vectors, j, b), vectors.load(changes.vectors, m, b)))
    return np.float64(vectors.total(total))


@jitable_call
def multiply_strip(room, along, first, last, orders):
    """Inner products of the rows first ... last - 1 with those up to them, in the metric of steps that others make too."""
    spread, extra, _ = orders
    outer_products(room.rows.flat[first:last], room.scaled.flat[:last], room.products)
    if spread != 1.0 or extra > 0.0:
        for k in range(last - first):
            push = extra * room.push[0, first + k]
            for m in range(last):
                room.products[k, m] = spread * room.products[k, m] + push * room.push[0, m]


@kernel
def visit_block(values, loss, w, duals, curvature, plan, room, visit):
    """Visit plan.order[start:stop], with scores by these weights; the exact steps, one after another, are for examples that weigh
    `spread` times as much, and `extra` times more along the mean. Returns the sum of the shares of the gap, the change of the
    reward and its slope, how many moved, and whether few of their classes did."""
    (now, start, stop), (spread, extra, level), (variance, along) = visit
    examples, moved = plan.order[start:stop], room.moved
    gap, gain, slope, count = 0.0, 0.0, 0.0, 0
    take_block(values, examples, variance, room)
    outer_products(room.rows.flat[: examples.size], w.flat, room.scores.flat)
    if along.size > 0:
        outer_products(along, room.rows.flat[: examples.size], room.push)
        for c in range(room.common.flat.shape[1]):
            room.common.flat[0, c] = 0
    for j in range(examples.size):
        i, place = examples[j], j % ROWS_OF_STRIP
        if place == 0:
            multiply_strip(room, along, j, min(j + ROWS_OF_STRIP, examples.size), (spread, extra, level))
        if j + 1 < examples.size:
            prefetch_row(duals.vectors, examples[j + 1])
        follow_moves(room.scores, room.products[place], moved, j, count, room.row)
        curve = spread * curvature[i] + extra * room.push[0, j] * room.push[0, j]
        share, stepped, reward_change = row_step(loss, i, curve, room.row, duals, room.change, level)
        gap += share
        if stepped:
            gain += reward_change
            keep_move(moved, j, count, room.change)
            slope += slope_of(room.scores, j, moved.changes, count)
            if along.size > 0:
                for b in range(room.common.vectors.shape[1]):
                    change = vectors.load(moved.changes.vectors, count, b)
                    vectors.store(
                        room.common.vectors, 0, b, vectors.fma(vectors.load(room.common.vectors, 0, b), room.push[0, j], change)
                    )
            count += 1
        reschedule(plan, i, now, share <= level)
    keep_rows(room.scaled, moved.stepped, count)
    return gap, gain, slope, count, list_few(moved.changes, count, room.entries)


@kernel
def reach_block(values, loss, duals, before, plan, room, visit):
    """As `row_reach`; the rows that lack something are in the room after it, and what they lack in the place of changes. Returns
    also whether that is little."""
    reach, t, variance = visit
    lacking = Lacking(room.moved.stepped, room.moved.changes)
    first, count, gain = reach_some(loss, duals, before, plan, reach, lacking, (room.change, t))
    take_block(values, lacking.which[:count], variance, room)
    return first, gain, count, list_few(room.moved.changes, count, room.entries)


@kernel
def draw_back(loss, duals, plan, room, out, visit, count, t):
    """Let the examples that moved in a block go only a part t of their way; returns the change of the reward. `out`: scratch."""
    gain, moved = 0.0, room.moved
    for m in range(count):
        i = plan.order[visit[0] + moved.stepped[m]]
        gain -= row_repair(loss, i, duals, out)
        for b in range(duals.vectors.shape[1]):
            change = vectors.load(moved.changes.vectors, m, b)
            vectors.store(duals.vectors, i, b, vectors.fma(vectors.load(duals.vectors, i, b), t - 1.0, change))
        gain += row_repair(loss, i, duals, out)
    return gain


# ---- weights ---------------------------------------------------------------------------------------------


@kernel
def add_blocks(room, table, counts, few, W, span, fresh):
    """W[first:last] += sum_k table[k] x_k over what all blocks have left, or = where `fresh`: class by class where few entries
    are not zero, else by products. Weights are turned."""
    first, last = span
    size = room.scaled.flat.shape[0] // counts.size
    stride = room.entries.starts.size // counts.size
    for c in range(first, last):
        some = fresh
        for p in range(counts.size):
            starts = p * stride + c
            some |= few[p] and room.entries.starts[starts + 1] > room.entries.starts[starts]
        if some:
            add_listed(room.scaled.vectors, room.entries, few, W.vectors, c, fresh)
    for p in range(counts.size):
        if not few[p] and counts[p] > 0:
            begin, end = p * size, p * size + counts[p]
            add_products(table.flat[begin:end, first:last], room.scaled.flat[begin:end], W.flat[first:last])


@kernel
def bend_of(U, other, variance, span):
    """<u, u> in the metric of the prior, of these classes, where U = Sigma u; or <U, other> where labels are coupled."""
    total = 0.0
    for c in range(span[0], span[1]):
        for j in range(U.flat.shape[1]):
            product = np.float64(U.flat[c, j]) * other.flat[c, j]
            if variance.size > 0:
                product = product / variance[j] if variance[j] > 0 else 0.0
            total += product
    return total
