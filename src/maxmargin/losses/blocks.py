"""Exact steps of a block of examples: what blocked solvers do in the place of one row after another.

    S = X_b W,    G = X_b X_b'            matrix products, by `data.table.RowBlock`
    for j in the block, in order:         change_j, the exact step of example j from S_j;   S_k += G_kj change_j, k after j
    W += X_b' changes                     a matrix product again

The duals are those of row by row, to rounding. A prior's variance of each feature goes into G. Where weights are clipped (signs),
scores do not move by G, and where a variance differs from class to class there is a G for each: there a block is not exact.
"""

import numpy as np

from ..jit import jitable, kernel, vectors
from .base import reward, row_step, row_value, step, value


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


@kernel
def row_block_step(loss, examples, products, scores, duals, changes, scratch):
    """As `block_step`, for rows of classes. `scratch`: a row of scores, the change of one example as the regulariser wants it,
    and `calm`. Where labels are coupled that change is two rows, the duals' and the scores', and `changes` has two for each."""
    row, change, calm = scratch
    moves, zero = change.vectors.shape[0], vectors.zeros_like(scores.vectors)
    gap, gain = 0.0, 0.0
    for j in range(examples.size):
        take_row(scores, j, row)
        share, stepped, reward_change = row_step(loss, examples[j], products[j, j], row, duals, change, calm)
        for m in range(moves):
            for b in range(change.vectors.shape[1]):
                vectors.store(changes.vectors, moves * j + m, b, vectors.load(change.vectors, m, b) if stepped else zero)
        if stepped:
            gain += reward_change
            for k in range(j + 1, examples.size):
                for b in range(scores.vectors.shape[1]):
                    moved = vectors.fma(
                        vectors.load(scores.vectors, k, b), products[k, j], vectors.load(change.vectors, moves - 1, b)
                    )
                    vectors.store(scores.vectors, k, b, moved)
        gap += share
    return gap, gain
