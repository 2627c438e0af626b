"""Visits to blocks of dense rows: the rows of a block, their scores and inner products, the steps in order, the weights.

Weights are turned, (classes, features + 1). See `blocked`.
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

ROWS_OF_STRIP = 32  # examples whose inner products are computed at a time: those above the diagonal are not needed. 2026-11-16


class BlockRoom(NamedTuple):
    """Room for a block."""

    rows: vectors.VectorTable  # the bias behind each
    scaled: vectors.VectorTable  # those times the variance of each feature: the same table where that is one
    products: np.ndarray  # (size, size): inner products of the rows with those up to them
    scores: vectors.VectorTable
    moved: RowMoves
    wide: vectors.VectorTable  # changes of all rows of the block, zero for those that have not moved
    row: vectors.VectorTable
    change: vectors.VectorTable
    entries: Entries  # of the changes


def block_room(size: int, shape: tuple[int, int, int], bias: float, variance: np.ndarray, dtype: Any) -> BlockRoom:
    """Room for blocks of up to `size` examples; `shape`: how many features and classes, and the moves of a class."""
    features, classes, moves = shape
    rows = vectors.zeros_table(size, features, dtype)
    rows.flat[:, features - 1] = bias
    scaled = vectors.zeros_table(size, features, dtype) if variance.size else rows
    scores, wide = (vectors.zeros_table(size, classes, dtype) for _ in range(2))
    row, change = (vectors.zeros_table(count, classes, dtype) for count in (1, moves))
    lanes = row.flat.shape[1]
    which = np.zeros(most_entries(size, lanes), np.uint32)
    entries = Entries(which, which.copy(), np.zeros(lanes + 1, np.int64), which.copy(), which.astype(dtype))
    moved = row_moves(size, classes, moves, dtype)
    return BlockRoom(rows, scaled, np.zeros((size, size), dtype), scores, moved, wide, row, change, entries)


# ---- parts of a visit ------------------------------------------------------------------------------------


@jitable_call
def take_block(values, examples, variance, room):
    """Copy the rows of these examples."""
    take_rows(values, examples, room.rows.flat[: examples.size])
    if variance.size > 0:
        for k in range(examples.size):
            for j in range(variance.size):
                room.scaled.flat[k, j] = room.rows.flat[k, j] * variance[j]


@jitable_call
def multiply_strip(room, first, last):
    """Inner products of the rows first ... last - 1 of the block with those up to them."""
    outer_products(room.rows.flat[first:last], room.scaled.flat[:last], room.products[first:last])


@jitable_call
def walk_block(loss, duals, curvature, plan, room, visit, so_far):
    """The exact steps of the examples first ... last - 1 of a block, one after another, from its products and scores. Every
    change moves scores `spread` times, and is kept so: see `shared_blocks`. Returns `so_far` with theirs: the sum of the shares
    of the gap, the change of the reward, and how many have moved."""
    (now, level, spread), (examples, first, last) = visit
    (gap, gain, count), scores = so_far, room.scores
    for j in range(first, last):
        i = examples[j]
        if j + 1 < last:
            prefetch_row(duals.vectors, examples[j + 1])
        if j + 2 < last:
            ahead = examples[j + 2]
            vectors.prefetch(curvature, ahead)
            row_prefetch(loss, ahead)
            prefetch_plan(plan, ahead)
        follow_moves(scores, room.products[j], room.moved, j, count, room.row)
        share, stepped, reward_change = row_step(loss, i, spread * curvature[i], room.row, duals, room.change, level)
        gap += share
        if stepped:
            if spread != 1.0:
                vectors.scale(room.change.vectors, spread)
            gain += reward_change
            keep_move(room.moved, j, count, room.change)
            count += 1
        reschedule(plan, i, now, share <= level)
    return gap, gain, count


@jitable_call
def widen(changes, which, wide, rows):
    """The changes of the rows `which` as those of all rows."""
    k, zero = 0, vectors.zeros_like(wide.vectors)
    for j in range(rows):
        moved = k < which.size and which[k] == j
        for b in range(wide.vectors.shape[1]):
            vectors.store(wide.vectors, j, b, vectors.load(changes.vectors, k, b) if moved else zero)
        k += moved


@jitable_call
def add_all(rows, changes, which, wide, W):
    """W[c] += sum_k changes[k, c] x_k over the rows `which`, as a product of all rows."""
    size = rows.flat.shape[0]
    widen(changes, which, wide, size)
    add_products(wide.flat[:size], rows.flat, W.flat)


@jitable_call
def add_changes(rows, changes, which, room, W):
    """The same, class by class where few changes are not zero."""
    if list_few(changes, which, room.entries):
        add_listed(rows.vectors, room.entries, W.vectors)
    elif which.size > 0:
        add_all(rows, changes, which, room.wide, W)


@jitable_call
def add_moves(room, size, count, weights):
    """Add what a block has moved to the weights: those that duals move, then those that scores use."""
    rows, which = some_rows(room.scaled, 0, size), room.moved.stepped[:count]
    add_changes(rows, room.moved.changes, which, room, weights[0])
    if len(weights) > 1 and count > 0:  # what coupled labels' scores follow has few zeros
        add_all(rows, room.moved.follows, which, room.wide, weights[1])


# ---- visits ----------------------------------------------------------------------------------------------


@jitable_call
def step_block(values, loss, weights, duals, curvature, plan, room, visit):
    """The exact steps of plan.order[start:stop], no more than a block has, one after another; weights stay as they are. Returns
    the sum of the shares of the gap, the change of the reward, and how many have moved."""
    (now, start, stop, spread), level, variance = visit
    examples, so_far = plan.order[start:stop], (0.0, 0.0, np.int64(0))
    take_block(values, examples, variance, room)
    outer_products(room.rows.flat[: examples.size], weights[-1].flat, room.scores.flat)
    for first in range(0, examples.size, ROWS_OF_STRIP):
        last = min(first + ROWS_OF_STRIP, examples.size)
        multiply_strip(room, first, last)
        so_far = walk_block(loss, duals, curvature, plan, room, ((now, level, spread), (examples, first, last)), so_far)
    return so_far


@kernel
def visit_blocks(values, loss, weights, duals, curvature, plan, room, visit):
    """Visit plan.order[start:stop], in as few blocks of about the same size as there is room for. Returns the sum of the shares
    of the gap and the change of the reward."""
    (now, start, stop, spread), level, variance = visit
    gap, gain, blocks = 0.0, 0.0, -(-(stop - start) // room.moved.stepped.size)
    for t in range(blocks):
        first, last = start + (stop - start) * t // blocks, start + (stop - start) * (t + 1) // blocks
        block = (now, first, last, spread), level, variance
        share, more, count = step_block(values, loss, weights, duals, curvature, plan, room, block)
        add_moves(room, last - first, count, weights)
        gap, gain = gap + share, gain + more
    return gap, gain


@kernel
def reach_blocks(values, loss, w, duals, before, plan, room, visit):
    """Extrapolate the rows of a range of examples, and add what they lack to the weights, as many at a time as a block has;
    returns the change of the reward."""
    (now, first, last), t, variance = visit
    lacking, gain = Lacking(room.moved.stepped, room.moved.changes), 0.0
    while first < last:
        first, count, more = reach_some(loss, duals, before, plan, (now, first, last), lacking, (room.change, t))
        gain += more
        take_block(values, lacking.which[:count], variance, room)
        for k in range(count):
            lacking.which[k] = k
        add_changes(some_rows(room.scaled, 0, count), lacking.rows, lacking.which[:count], room, w)
    return gain
