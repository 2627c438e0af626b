"""Visits to blocks of dense rows: the rows of a block, their scores and inner products, the steps in order, the weights.

What threads share out (`together`) and what one does alone (`visit_block`) is made of the same parts. Weights are turned,
(classes, features + 1), and a thread adds to those of a run of classes. See `blocked`.
"""

from typing import Any, NamedTuple

import numpy as np

from ...data.gathered import Entries, add_listed, list_few, most_entries, some_rows, take_rows
from ...data.rows import prefetch_row
from ...jit import jitable_call, kernel, vectors
from ...jit.products import add_products, outer_products
from ...losses.base import row_prefetch, row_step
from ...losses.blocks import RowMoves, follow_moves, keep_move, row_moves
from .momentum import Lacking, reach_some
from .schedule import prefetch_plan, reschedule

ROWS_OF_STRIP = (
    32  # examples of a block whose inner products are computed at a time: those above the diagonal are not needed. 2026-11-16
)


class BlockRoom(NamedTuple):
    """Room for one block, and for the rows of as many as are under way, one behind another."""

    rows: vectors.VectorTable  # the bias behind each
    scaled: vectors.VectorTable  # those times the variance of each feature: the same table where that is one
    products: np.ndarray  # (rows, size): inner products of the rows of a block with those up to them
    cross: np.ndarray  # (size, size): those of the rows of a block with those of the next one
    scores: vectors.VectorTable  # of a block, and of the next one
    moved: RowMoves
    wide: vectors.VectorTable  # changes of all rows of the block, zero for those that have not moved
    wide_follows: vectors.VectorTable  # what scores follow, likewise: the same table unless labels are coupled
    places: np.ndarray  # 0 ... size - 1
    row: vectors.VectorTable
    stepped: np.ndarray  # (1,): how many rows of the block have moved


class Hand(NamedTuple):
    """Scratch of one thread."""

    change: vectors.VectorTable
    entries: Entries  # of the changes of a run of classes


def block_room(blocks: int, size: int, shape: tuple[int, int, int], bias: float, variance: np.ndarray, dtype: Any) -> BlockRoom:
    """Room for the rows of so many blocks of up to `size` examples; `shape`: how many features and classes, and the moves of a
    class."""
    features, classes, moves = shape
    rows = vectors.zeros_table(blocks * size, features, dtype)
    rows.flat[:, features - 1] = bias
    scaled = vectors.zeros_table(blocks * size, features, dtype) if variance.size else rows
    scores = vectors.zeros_table(min(blocks, 2) * size, classes, dtype)
    wide = vectors.zeros_table(size, classes, dtype)
    wide_follows = wide if moves == 1 else vectors.zeros_table(size, classes, dtype)
    products, cross = np.zeros((blocks * size, size), dtype), np.zeros((size if blocks > 1 else 0, size), dtype)
    moved, row = row_moves(size, classes, moves, dtype), vectors.zeros_table(1, classes, dtype)
    wides, places = (wide, wide_follows), np.arange(size)
    return BlockRoom(rows, scaled, products, cross, scores, moved, *wides, places, row, np.zeros(1, np.int64))


def hand(size: int, classes: tuple[int, int], moves: int, dtype: Any) -> Hand:
    """Scratch for blocks of this size and for runs of up to so many classes, of so many in all."""
    mine, all_classes = classes
    which = np.zeros(most_entries(size, mine), np.uint32)
    entries = Entries(which, which.copy(), np.zeros(mine + 1, np.int64), which.copy(), which.astype(dtype))
    return Hand(vectors.zeros_table(moves, all_classes, dtype), entries)


# ---- parts of a visit ------------------------------------------------------------------------------------


@jitable_call
def of_run(entries, span):
    """Room for the entries of these classes."""
    starts = entries.starts[: span[1] - span[0] + 1]
    return Entries(entries.row, entries.column, starts, entries.which, entries.value)


@jitable_call
def take_block(values, examples, variance, room, first):
    """Copy the rows of these examples to `first` and behind."""
    last = first + examples.size
    take_rows(values, examples, room.rows.flat[first:last])
    if variance.size > 0:
        for k in range(first, last):
            for j in range(variance.size):
                room.scaled.flat[k, j] = room.rows.flat[k, j] * variance[j]


@jitable_call
def multiply_strip(room, begin, first, last):
    """Inner products of the rows first ... last - 1 of the block whose rows begin there, with those up to them."""
    mine, others = room.rows.flat[begin + first : begin + last], room.scaled.flat[begin : begin + last]
    outer_products(mine, others, room.products[begin + first : begin + last])


@jitable_call
def walk_block(loss, duals, curvature, plan, room, hand, visit, so_far):
    """The exact steps of the examples first ... last - 1 of a block, one after another, from its products and scores. Returns
    `so_far` with theirs: the sum of the shares of the gap, the change of the reward, and how many have moved."""
    (now, level), (examples, first, last), (products, scores) = visit
    gap, gain, count = so_far
    for j in range(first, last):
        i = examples[j]
        if j + 1 < last:
            prefetch_row(duals.vectors, examples[j + 1])
            prefetch_row(scores.vectors, j + 1)  # other threads have them in their caches
        if j + 2 < last:
            ahead = examples[j + 2]
            vectors.prefetch(curvature, ahead)
            row_prefetch(loss, ahead)
            prefetch_plan(plan, ahead)
        follow_moves(scores, products[j], room.moved, j, count, room.row)
        share, stepped, reward_change = row_step(loss, i, curvature[i], room.row, duals, hand.change, level)
        gap += share
        if stepped:
            gain += reward_change
            keep_move(room.moved, j, count, hand.change)
            count += 1
        reschedule(plan, i, now, share <= level)
    return gap, gain, count


@jitable_call
def widen(changes, which, wide, rows, span):
    """The changes of the rows `which` as those of all rows, for these classes."""
    (first, last), width, k = span, wide.vectors.shape[2], 0
    zero = vectors.zeros_like(wide.vectors)
    for j in range(rows):
        moved = k < which.size and which[k] == j
        for b in range(first // width, last // width):
            vectors.store(wide.vectors, j, b, vectors.load(changes.vectors, k, b) if moved else zero)
        k += moved


@jitable_call
def add_all(rows, changes, which, wide, W, span):
    """W[c] += sum_k changes[k, c] x_k over the rows `which`, for these classes, as a product of all rows."""
    size = rows.flat.shape[0]
    widen(changes, which, wide, size, span)
    add_products(wide.flat[:size, span[0] : span[1]], rows.flat, W.flat[span[0] : span[1]])


@jitable_call
def add_changes(rows, changes, which, wide, entries, W, span):
    """The same, class by class where few changes are not zero."""
    mine = of_run(entries, span)
    if list_few(changes, which, span[0], mine):
        add_listed(rows.vectors, mine, W.vectors, span[0])
    elif which.size > 0 and span[0] < span[1]:
        add_all(rows, changes, which, wide, W, span)


@jitable_call
def add_moves(room, hand, begin, size, count, weights, span):
    """Add what the block whose rows begin there has moved to the weights of these classes: those that duals move, then those that
    scores use."""
    rows, which = some_rows(room.scaled, begin, begin + size), room.moved.stepped[:count]
    add_changes(rows, room.moved.changes, which, room.wide, hand.entries, weights[0], span)
    if len(weights) > 1 and count > 0 and span[0] < span[1]:  # what coupled labels' scores follow has few zeros
        add_all(rows, room.moved.follows, which, room.wide, weights[1], span)


# ---- one thread ------------------------------------------------------------------------------------------


@kernel
def visit_block(values, loss, weights, duals, curvature, plan, room, hand, visit):
    """Visit plan.order[start:stop]: the exact steps, one after another. Returns the sum of the shares of the gap and the change
    of the reward."""
    (now, start, stop), level, variance = visit
    examples, so_far = plan.order[start:stop], (0.0, 0.0, np.int64(0))
    take_block(values, examples, variance, room, 0)
    outer_products(room.rows.flat[: examples.size], weights[-1].flat, room.scores.flat)
    for first in range(0, examples.size, ROWS_OF_STRIP):
        last = min(first + ROWS_OF_STRIP, examples.size)
        multiply_strip(room, 0, first, last)
        part = (now, level), (examples, first, last), (room.products, room.scores)
        so_far = walk_block(loss, duals, curvature, plan, room, hand, part, so_far)
    add_moves(room, hand, 0, examples.size, so_far[2], weights, (0, weights[0].flat.shape[0]))
    return so_far[0], so_far[1]


@kernel
def reach_block(values, loss, w, duals, before, plan, room, hand, visit):
    """As `row_reach`, until there is no room for what rows lack, and add that to the weights; returns where to go on, and the
    change of the reward."""
    reach, t, variance = visit
    lacking = Lacking(room.moved.stepped, room.moved.changes)
    first, count, gain = reach_some(loss, duals, before, plan, reach, lacking, (hand.change, t))
    take_block(values, lacking.which[:count], variance, room, 0)
    for k in range(count):
        lacking.which[k] = k
    rows, span = some_rows(room.scaled, 0, count), (0, w.flat.shape[0])
    add_changes(rows, lacking.rows, lacking.which[:count], room.wide, hand.entries, w, span)
    return first, gain
