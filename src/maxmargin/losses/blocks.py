"""Exact steps of a block of examples: what blocked solvers do in the place of one row after another.

    S = X_b W,    G = X_b X_b'            matrix products, by `data.gathered` or `data.table.RowBlock`
    for j in the block, in order:         S_j += sum_k G_jk change_k over k before j;   change_j, the exact step of example j
    W += X_b' changes                     a matrix product again

The duals are those of row by row, to rounding. A prior's variance of each feature goes into G. Where weights are clipped (signs),
scores do not move by G, and where a variance differs from class to class there is a G for each: there a block is not exact.
"""

from typing import Any, NamedTuple

import numpy as np

from ..data.rows import prefetch_row
from ..jit import jitable, jitable_call, kernel, vectors
from .base import reward, row_step, row_value, step, value

# A vector of changes that is looked up takes as long as so many in a run. Made rows, 100 and 1,000 classes, Xeon, 2026-11-17.
FILLED_COST = 6


@kernel
def block_value(loss, examples, scores):
    """The losses of these examples at these scores, summed."""
    total = 0.0
    for k in range(examples.size):
        total += value(loss, examples[k], scores[k])
    return total


@kernel
def block_step(loss, examples, products, scores, duals, changes, calm):
    """Step each example in turn, but those whose share of the gap is at most `calm`. Scores, duals and changes are moved on;
    returns the sum of the shares and the change of the reward."""
    gap, gain = 0.0, 0.0
    for j in range(examples.size):
        i, score = examples[j], np.float64(scores[j])
        old = duals[i]
        held = reward(loss, i, old)
        share = value(loss, i, score) - held + old * score
        changes[j] = 0.0
        if share > calm:
            duals[i] = new = step(loss, i, score, old, products[j, j])
            changes[j] = new - old
            gain += reward(loss, i, new) - held
            for k in range(j + 1, examples.size):
                scores[k] += products[k, j] * (new - old)
        gap += share
    return gap, gain


@jitable
def take_row(table, k, row):
    for b in range(row.vectors.shape[1]):
        vectors.store(row.vectors, 0, b, vectors.load(table.vectors, k, b))


@kernel
def row_block_value(loss, examples, scores, row):
    """As `block_value`, for rows of classes; `row` is scratch for one of them."""
    total = 0.0
    for k in range(examples.size):
        take_row(scores, k, row)
        total += row_value(loss, examples[k], row)
    return total


class RowMoves(NamedTuple):
    """By how much the examples of a block have moved so far: those that did, in order.

    stepped: where in the block they are; changes: of their duals; follows: what scores follow, the same table unless labels are
    coupled; filled: the vectors of it that are not zero, `many` of each; shares: of the gap, of every example of the block
    """

    stepped: np.ndarray
    changes: vectors.VectorTable
    follows: vectors.VectorTable
    filled: np.ndarray
    many: np.ndarray
    shares: np.ndarray


def row_moves(size: int, classes: int, moves: int, dtype: Any) -> RowMoves:
    """Room for a block of this size; `moves` is that of the regulariser."""
    changes = vectors.zeros_table(size, classes, dtype)
    follows = changes if moves == 1 else vectors.zeros_table(size, classes, dtype)
    filled = np.empty((size, vectors.blocks(classes, dtype)), np.uint32)
    return RowMoves(np.empty(size, np.int64), changes, follows, filled, np.empty(size, np.int64), np.empty(size))


@jitable_call
def follow_all(scores, products, moved, j, count, row):
    """Scores after all moves, zero or not, four vectors at a time: each stays in a register meanwhile."""
    follows, blocks, b = moved.follows.vectors, row.vectors.shape[1], 0
    while blocks - b >= 4:
        one, two = vectors.load(scores.vectors, j, b), vectors.load(scores.vectors, j, b + 1)
        three, four = vectors.load(scores.vectors, j, b + 2), vectors.load(scores.vectors, j, b + 3)
        for m in range(count):
            product = products[moved.stepped[m]]
            one = vectors.fma(one, product, vectors.load(follows, m, b))
            two = vectors.fma(two, product, vectors.load(follows, m, b + 1))
            three = vectors.fma(three, product, vectors.load(follows, m, b + 2))
            four = vectors.fma(four, product, vectors.load(follows, m, b + 3))
        vectors.store(row.vectors, 0, b, one)
        vectors.store(row.vectors, 0, b + 1, two)
        vectors.store(row.vectors, 0, b + 2, three)
        vectors.store(row.vectors, 0, b + 3, four)
        b += 4
    while b < blocks:
        one = vectors.load(scores.vectors, j, b)
        for m in range(count):
            one = vectors.fma(one, products[moved.stepped[m]], vectors.load(follows, m, b))
        vectors.store(row.vectors, 0, b, one)
        b += 1


@jitable_call
def follow_moves(scores, products, moved, j, count, row):
    """The scores of example j of a block, after the moves of those before it; products are its own, with those."""
    filled = 0
    for m in range(count):
        filled += moved.many[m]
    if FILLED_COST * filled > count * row.vectors.shape[1]:
        follow_all(scores, products, moved, j, count, row)
        return
    take_row(scores, j, row)
    for m in range(count):
        product = products[moved.stepped[m]]
        for q in range(moved.many[m]):
            b = moved.filled[m, q]
            step = vectors.load(moved.follows.vectors, m, b)
            vectors.store(row.vectors, 0, b, vectors.fma(vectors.load(row.vectors, 0, b), product, step))


@jitable_call
def keep_move(moved, j, count, change):
    """Write down that example j of a block has moved, the `count`-th to do so."""
    last = change.vectors.shape[0] - 1
    many = 0
    for b in range(change.vectors.shape[1]):
        vectors.store(moved.changes.vectors, count, b, vectors.load(change.vectors, 0, b))
        step = vectors.load(change.vectors, last, b)
        if vectors.any_filled(step):
            moved.filled[count, many] = b
            many += 1
        if last > 0:
            vectors.store(moved.follows.vectors, count, b, step)
    moved.stepped[count], moved.many[count] = j, many


@kernel
def row_block_step(loss, examples, curvature, products, scores, duals, moved, scratch):
    """As `block_step`, for rows of classes; curvatures are those of the examples of the block. Scores stay as they are, and
    `moved` tells what was done. `scratch`: a row of scores, the change of one example as the regulariser wants it (where labels
    are coupled two rows, the duals' and the scores'), and `calm`. Returns also how many examples were stepped."""
    row, change, calm = scratch
    gap, gain, count = 0.0, 0.0, 0
    for j in range(examples.size):
        if j + 1 < examples.size:
            prefetch_row(duals.vectors, examples[j + 1])
        follow_moves(scores, products[j], moved, j, count, row)
        share, stepped, reward_change = row_step(loss, examples[j], curvature[j], row, duals, change, calm)
        moved.shares[j] = share
        gap += share
        if stepped:
            gain += reward_change
            keep_move(moved, j, count, change)
            count += 1
    return gap, gain, count
