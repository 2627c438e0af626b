"""Exact values of dense rows with many classes: their scores and sums as matrix products, a block of rows at a time.

Threads walk through all blocks within one call. Sums are formed block by block, and weights by runs of classes whose bounds are
those of the problem, so that values are the same on any number of threads. Weights are turned (`data.gathered`).
"""

from typing import Any, NamedTuple

import numpy as np

from ..data.gathered import Entries, add_class, by_class, by_feature, list_few, most_entries, some_rows, take_rows
from ..jit import jitable_call, kernel, vectors
from ..jit.meeting import at_one_board, meet_all
from ..jit.products import add_products, outer_products
from ..losses.base import own_scratch, row_repair, row_value
from ..losses.blocks import take_row
from ..utils.blas import blas_threads
from ..utils.threads import TEAMS, in_threads, spans

TAKEN = 256  # rows of a matrix product. By what fits into a core's own cache, 2026-11-16.
CLASSES_OF_RUN = 32  # whose weights a thread adds to at a time. By guess, 2026-11-17.


class ProductRoom(NamedTuple):
    """Room for a block of rows of each thread, one behind another."""

    rows: vectors.VectorTable  # the bias behind each
    table: vectors.VectorTable  # their scores, or their duals
    row: vectors.VectorTable  # scratch, of each thread
    entries: Entries  # those of each thread in a row
    few: np.ndarray  # whether a thread's duals are listed there
    places: np.ndarray  # 0 ... size - 1: the rows of a block


def product_room(problem: Any, team: int, entries: bool) -> ProductRoom:
    size, classes, features = max(1, min(TAKEN, problem.n_examples)), problem.n_classes, problem.table.shape[1] + 1
    rows = vectors.zeros_table(team * size, features, np.float64)
    rows.flat[:, features - 1] = problem.X.bias
    table, row = (vectors.zeros_table(count, classes, np.float64) for count in (team * size, team))
    lanes = table.flat.shape[1]
    which = np.zeros((team, most_entries(size, lanes) if entries else 0), np.uint32)
    listed = Entries(which, which.copy(), np.zeros((team, lanes + 1), np.int64), which.copy(), which.astype(np.float64))
    return ProductRoom(rows, table, row, listed, np.zeros(team, np.bool_), np.arange(size))


@jitable_call
def entries_of(entries, p):
    """Those of one thread."""
    return Entries(entries.row[p], entries.column[p], entries.starts[p], entries.which[p], entries.value[p])


@kernel
def risk_of_blocks(values, loss, Z, room, span, sums):
    """The losses of a range of examples, block by block into `sums`."""
    (p, start, stop), size = span, room.places.size
    rows, table = some_rows(room.rows, p * size, (p + 1) * size), some_rows(room.table, p * size, (p + 1) * size)
    row = some_rows(room.row, p, p + 1)
    for first in range(start, stop, size):
        count, total = min(stop - first, size), 0.0
        take_rows(values[first : first + count], room.places[:count], rows.flat)
        outer_products(rows.flat[:count], Z.flat, table.flat)
        for k in range(count):
            take_row(table, k, row)
            total += row_value(loss, first + k, row)
        sums[first // size] = total


@jitable_call
def read_block(values, loss, duals, room, p, first):
    """The rows of a thread's block that begins with example `first`, and their duals made exactly feasible; returns their
    reward."""
    size, total, out = room.places.size, 0.0, some_rows(room.row, p, p + 1)
    count = max(min(duals.flat.shape[0] - first, size), 0)
    rows, table = some_rows(room.rows, p * size, p * size + count), some_rows(room.table, p * size, p * size + count)
    for k in range(count):
        total += row_repair(loss, first + k, duals, out)
        for b in range(out.vectors.shape[1]):
            vectors.store(table.vectors, k, b, vectors.load(out.vectors, 0, b))
    take_rows(values[first : first + count], room.places[:count], rows.flat)
    room.few[p] = list_few(table, room.places[:count], entries_of(room.entries, p))
    return total


@jitable_call
def add_run(room, W, span, q, count):
    """Add the `count` rows that thread q has read to the weights of a run of classes."""
    (first, last), size = span, room.places.size
    rows = some_rows(room.rows, q * size, q * size + count)
    if room.few[q]:
        entries = entries_of(room.entries, q)
        for c in range(first, last):
            if entries.starts[c] < entries.starts[c + 1]:
                add_class(rows.vectors, entries, W.vectors, c)
    else:
        add_products(room.table.flat[q * size : q * size + count, first:last], rows.flat, W.flat[first:last])


@kernel
def combine_blocks(values, loss, duals, W, room, place, rewards):
    """What thread p of a team does to add all rows, times their duals, to the weights: it reads a block, then all add those just
    read in their order, each to other classes. The reward of each block goes into its place."""
    (p, board), team, n = place, room.few.size, duals.flat.shape[0]
    size, lanes = room.places.size, W.flat.shape[0]
    for first in range(0, n, size * team):
        mine = first + p * size
        found = read_block(values, loss, duals, room, p, mine)
        if mine < n:
            rewards[mine // size] = found
        if not meet_all(board, team):
            return
        for run in range(p * CLASSES_OF_RUN, lanes, team * CLASSES_OF_RUN):
            for q in range(team):
                count = min(n - first - q * size, size)
                if count > 0:
                    add_run(room, W, (run, min(run + CLASSES_OF_RUN, lanes)), q, count)
        if not meet_all(board, team):
            return


def risk_by_products(problem: Any, Z: np.ndarray, n_jobs: int) -> float:
    """The sum of the losses of a problem of dense rows; Z are the weights of scores, not turned."""
    turned, n = by_class(Z), problem.n_examples
    size = max(1, min(TAKEN, n))
    sums = np.zeros(-(-n // size))
    parts = [(p, a * size, min(b * size, n)) for p, (a, b) in enumerate(spans(sums.size, n_jobs))]
    room = product_room(problem, max(len(parts), 1), False)
    with blas_threads(1):
        in_threads(lambda part: risk_of_blocks(problem.X.values, problem.exact_loss, turned, room, part, sums), parts, n_jobs)
    return float(sum(sums.tolist()))


def combined_by_products(problem: Any, duals: vectors.VectorTable, W: np.ndarray, n_jobs: int) -> float:
    """W += sum_i x_i duals_i with the duals made exactly feasible; returns their reward."""
    n = problem.n_examples
    rewards = np.zeros(-(-n // TAKEN) if n > TAKEN else 1)
    team, turned = max(1, min(n_jobs, rewards.size)), by_class(W)
    room = product_room(problem, team, True)
    losses = [problem.exact_loss, *(own_scratch(problem.exact_loss) for _ in range(team - 1))]

    def add_all(p: int, board: np.ndarray) -> None:
        combine_blocks(problem.X.values, losses[p], duals, turned, room, (p, board), rewards)

    with blas_threads(1), TEAMS.at_work(team) as threads:
        at_one_board(threads, team, add_all)
    by_feature(turned, W)
    return float(sum(rewards.tolist()))
