"""Blocks of dense rows of several threads on one set of weights.

    each thread       the exact steps of its own block, from the weights as they are; it writes down what the block has moved
    all meet
    each thread       adds what every block has moved to its own features of the weights, or those of its own classes
    all meet          and know how far they have gone together

Steps of one block do not know those of the others, so they count `spread` times within it, as in `parted`. What blocks have moved
together is u, from where all began; each knows its part of <w, u> by the scores it began with, and by how much the quadratic term
of its own weights has changed: <w, u> + 1/2 |u|^2. So nobody needs u itself, nor a copy of the weights. Where all have gone too
far, they take a part of it back; where a little, they let it be, for the dual value has risen.

Copies (`copies`) cost as much as a pass of blocks where there are many weights: sixteen threads that meet read and write 64 MB
with 1,000 classes and 1,024 columns.
"""

from typing import Any, NamedTuple

import numpy as np

from ...data.gathered import Entries, add_listed, list_few
from ...jit import jitable, jitable_call, kernel, vectors
from ...jit.meeting import meet_all
from ...jit.products import add_products
from ...jit.standby import LEAVE, ORDER_KIND
from .block_visits import BlockRoom, step_block, take_block, widen
from .copies import dot_of_ways
from .crew import (
    AGAIN,
    FOUND_GAIN,
    FOUND_GAP,
    FOUND_SPREAD,
    GATHER,
    ORDER_CREW,
    ORDER_EACH,
    ORDER_LEVEL,
    ORDER_PASS,
    ORDER_PUSH,
    ORDER_SPREAD,
    ORDER_START,
    ORDER_STOP,
    VISIT,
    gather_list,
    hears,
    part_of_list,
    portion,
    reports,
    takes_part,
)
from .joint import followed
from .momentum import Lacking, reach_some
from .parted import row_rounds
from .parts import go_back

IN_BLOCK, HOW_MOVED = range(2)  # what the counts of a block say: its rows, and how what they have moved is written down
NOT_AT_ALL, BY_LIST, IN_FULL = range(3)
SAYS_GAIN, SAYS_SLOPE, SAYS_ROSE, SAYS_TERM, SAYS_LEFT = range(5)  # what a thread says on the sheet
# Part of the best way that all have come too far by before they go back. A thread that goes back adds its moves once more; at
# 1 / FAR_ENOUGH times the best way a step gains 8 parts in 9 of what it could. By guess, 2026-11-19.
FAR_ENOUGH = 0.75
LOST_IN_DOUBLE, LOST_IN_SINGLE = float(np.finfo(np.float64).eps), float(np.finfo(np.float32).eps)


class Stacks(NamedTuple):
    """What the blocks of all threads have moved: first index the thread."""

    rows: np.ndarray  # (threads, size, vectors of features, width): of a block, times variances
    flat: np.ndarray  # the same, (threads, size, features)
    counts: np.ndarray  # (threads, 8)
    starts: np.ndarray  # as `Entries`
    which: np.ndarray
    value: np.ndarray
    wide: np.ndarray  # (threads, size, classes): changes of all rows
    follows: np.ndarray  # and, of coupled labels, what scores follow
    sheet: np.ndarray  # (2, threads, 8): in turn, so that nobody writes where others still read
    inverse: np.ndarray  # of the variance of each feature; empty for ones
    by_class: bool  # whether a thread adds to the weights of classes of its own, or of features


class SharedHand(NamedTuple):
    """What a thread works with."""

    room: BlockRoom
    follows: vectors.VectorTable  # its part of the stack
    variance: np.ndarray
    stacks: Stacks
    space: Any  # its copy of the weights, for sweeps
    sweep: Any


def new_stacks(threads: int, room: BlockRoom, moves: int, variance: np.ndarray, few: int) -> Stacks:
    """Room for so many blocks like that of `room`. Threads go through all that is listed where they add to features of their own,
    and so to classes where each would have less than so few vectors of features."""

    def one_each(array: np.ndarray) -> np.ndarray:
        return vectors.aligned((threads, *array.shape), array.dtype)

    rows, entries = one_each(room.scaled.vectors), room.entries
    inverse = np.ones(room.scaled.flat.shape[1] if variance.size else 0)
    inverse[: variance.size] /= np.where(variance > 0.0, variance, 1.0)
    starts, which, value = one_each(entries.starts), one_each(entries.which), one_each(entries.value)
    wide = one_each(room.wide.flat)
    follows = wide if moves == 1 else one_each(room.wide.flat)
    flat, counts = rows.reshape(threads, *room.scaled.flat.shape), np.zeros((threads, 8), np.int64)
    by_class = rows.shape[2] < min(few * threads, wide.shape[2])
    return Stacks(rows, flat, counts, starts, which, value, wide, follows, np.zeros((2, threads, 8)), inverse, by_class)


def room_in_stacks(stacks: Stacks, p: int, room: BlockRoom) -> BlockRoom:
    """A room that writes down what it has moved on the stacks, as thread p."""
    stacks.rows[p] = room.scaled.vectors
    scaled = vectors.VectorTable(stacks.rows[p], stacks.flat[p])
    rows = scaled if room.rows is room.scaled else room.rows
    entries = room.entries._replace(starts=stacks.starts[p], which=stacks.which[p], value=stacks.value[p])
    return room._replace(rows=rows, scaled=scaled, entries=entries, wide=as_table(stacks.wide[p], room.wide))


def as_table(flat: np.ndarray, like: vectors.VectorTable) -> vectors.VectorTable:
    """This memory as a table of the same shape as another."""
    return vectors.VectorTable(flat.reshape(like.vectors.shape), flat.reshape(like.flat.shape))


# ---- parts of a round ------------------------------------------------------------------------------------


@jitable_call
def slope_of_block(room, count):
    """<w, u> of what the block has moved: the changes of its rows at the scores that they began with."""
    scores, changes, slope = room.scores.vectors, room.moved.changes.vectors, 0.0
    for k in range(count):
        j, product = room.moved.stepped[k], vectors.zeros_like(scores)
        for b in range(changes.shape[1]):
            change = vectors.load(changes, k, b)
            if vectors.any_filled(change):  # mostly few are
                product = vectors.add(product, vectors.multiply(change, vectors.load(scores, j, b)))
        slope += np.float64(vectors.total(product))
    return slope


@jitable_call
def write_down(hand, me, size, count, coupled):
    """What the first `size` rows of the block have moved, `count` of which did, for all to read."""
    room, which, counts = hand.room, hand.room.moved.stepped[:count], hand.stacks.counts[me]
    counts[IN_BLOCK], counts[HOW_MOVED] = size, NOT_AT_ALL
    if count == 0:
        return
    if list_few(room.moved.changes, which, room.entries):
        counts[HOW_MOVED] = BY_LIST
    else:
        widen(room.moved.changes, which, room.wide, size)
        counts[HOW_MOVED] = IN_FULL
    if coupled:
        widen(room.moved.follows, which, hand.follows, size)


@jitable
def rounding_of(numbers):
    return LOST_IN_DOUBLE if numbers.itemsize == 8 else LOST_IN_SINGLE


@jitable_call
def undo_changes(duals, changes, spread, old):
    """Duals as they were before changes, which have been multiplied by `spread`: zero again where they differ by rounding."""
    part, least = changes.dtype.type(1.0 / spread), changes.dtype.type(4.0 * rounding_of(changes))
    for c in range(changes.size):
        change = part * changes[c]
        past = duals[c] - change
        old[c] = past if abs(past) > least * abs(change) else 0.0


@jitable_call
def retreat_block(loss, duals, old, examples, room, way):
    """Take the duals that a block has moved to old + t (dual - old); returns the change of the reward."""
    (count, spread, t), gain = way, 0.0
    for k in range(count):
        i = examples[room.moved.stepped[k]]
        undo_changes(duals.flat[i], room.moved.changes.flat[k], spread, old.flat[i])
        gain += go_back(loss, i, duals, old, t, room.change)
    return gain


@jitable_call
def scale_numbers(numbers, factor):
    for j in range(numbers.size):
        numbers[j] *= factor


@jitable_call
def scale_rows(table, rows, factor):
    for k in range(rows):
        scale_numbers(table[k], factor)


@jitable_call
def take_part_of_it(stacks, me, factor, coupled):
    """What is written down of a thread's block, times a factor."""
    size, factor = stacks.counts[me, IN_BLOCK], stacks.wide.dtype.type(factor)
    if coupled:
        scale_rows(stacks.follows[me], size, factor)
    if stacks.counts[me, HOW_MOVED] == BY_LIST:
        scale_numbers(stacks.value[me, : stacks.starts[me, stacks.starts.shape[1] - 1]], factor)
    elif stacks.counts[me, HOW_MOVED] == IN_FULL:
        scale_rows(stacks.wide[me], size, factor)


@jitable_call
def own_weights(stacks, post):
    """The weights that a thread adds to: classes from and to, and vectors of features from and to."""
    features, classes, crew = stacks.rows.shape[2], stacks.wide.shape[2], post.desk[ORDER_CREW]
    if stacks.by_class:
        return portion(0, classes, post.me, crew), (np.int64(0), np.int64(features))
    return (np.int64(0), np.int64(classes)), portion(0, features, post.me, crew)


@jitable_call
def add_all_blocks(stacks, weights, own, crew):
    """Add what the blocks of all threads have moved, to these weights."""
    ((begin, end), (first, last)), width = own, stacks.rows.shape[3]
    for q in range(crew):
        size, how = stacks.counts[q, IN_BLOCK], stacks.counts[q, HOW_MOVED]
        some = stacks.flat[q, :size, first * width : last * width]
        if how == BY_LIST:
            which = stacks.which[q]
            entries = Entries(which, which, stacks.starts[q, begin : end + 1], which, stacks.value[q])
            add_listed(stacks.rows[q, :, first:last], entries, weights[0].vectors[begin:end, first:last])
        elif how == IN_FULL:
            add_products(stacks.wide[q, :size, begin:end], some, weights[0].flat[begin:end, first * width : last * width])
        if len(weights) > 1 and how != NOT_AT_ALL:
            add_products(stacks.follows[q, :size, begin:end], some, weights[1].flat[begin:end, first * width : last * width])


@jitable_call
def product_of_runs(v, w, inverse):
    if inverse.size > 0:
        total = 0.0
        for j in range(v.size):
            total += np.float64(v[j]) * np.float64(w[j]) * inverse[j]
        return total
    return dot_of_ways(v, w)


@jitable_call
def quadratic_of(weights, inverse, own):
    """1/2 <v, w> of these weights in the metric of the prior."""
    ((begin, end), (first, last)), width, total = own, weights[0].vectors.shape[2], 0.0
    run = inverse[min(first * width, inverse.size) : min(last * width, inverse.size)]
    for c in range(begin, end):
        v, w = weights[0].flat[c, first * width : last * width], weights[-1].flat[c, first * width : last * width]
        total += product_of_runs(v, w, run)
    return 0.5 * total


@jitable_call
def best_way(sheet, crew, rounding):
    """The best step along what all have moved, without bounds: one is as far as they went. So it is too where the term that
    weights have, rounded, does not tell how far that is."""
    gain, slope, rose, term = 0.0, 0.0, 0.0, 0.0
    for p in range(crew):
        gain += sheet[p, SAYS_GAIN]
        slope += sheet[p, SAYS_SLOPE]
        rose += sheet[p, SAYS_ROSE]
        term += sheet[p, SAYS_TERM]
    bend = 2.0 * (rose - slope)
    return (gain - slope) / bend if bend > 2.0 * rounding * abs(term) else 1.0


# ---- what a thread does ----------------------------------------------------------------------------------


@jitable_call
def block_rounds(X, loss, weights, tables, plan, hand, post):
    """Visit its part of the examples in rounds of a block; returns nothing, as `row_rounds`."""
    (duals, old, curvature), (room, stacks), crew = tables, (hand.room, hand.stacks), post.desk[ORDER_CREW]
    now, start, stop, each = post.desk[ORDER_PASS], post.desk[ORDER_START], post.desk[ORDER_STOP], post.desk[ORDER_EACH]
    board, level, spread, gap, gain = post.meeting.board, post.numbers[ORDER_LEVEL], post.numbers[ORDER_SPREAD], 0.0, 0.0
    own, turn, coupled = own_weights(stacks, post), 0, len(weights) > 1
    quadratic, together = quadratic_of(weights, stacks.inverse, own), True
    while together and start < stop:
        end, sheet = min(start + each, stop), stacks.sheet[turn]
        first, last = part_of_list(post, start, end)
        visit = (now, first, last, spread), level, hand.variance
        share, more, count = step_block(X.values, loss, weights, duals, curvature, plan, room, visit)
        gap, start, turn = gap + share, end, 1 - turn
        write_down(hand, post.me, last - first, count, coupled)
        sheet[post.me, SAYS_GAIN], sheet[post.me, SAYS_SLOPE] = more, slope_of_block(room, count) / spread
        if spread != 1.0:
            take_part_of_it(stacks, post.me, 1.0 / spread, coupled)
        if not meet_all(board, crew):
            return
        add_all_blocks(stacks, weights, own, crew)
        term = quadratic_of(weights, stacks.inverse, own)
        sheet[post.me, SAYS_ROSE], sheet[post.me, SAYS_TERM], quadratic = term - quadratic, term, term
        if not meet_all(board, crew):
            return
        best = best_way(sheet, crew, rounding_of(weights[0].flat))
        if best < FAR_ENOUGH:
            t = max(best, 0.0)
            take_part_of_it(stacks, post.me, t - 1.0, coupled)
            together = meet_all(board, crew)
            if together:
                more += retreat_block(loss, duals, old, plan.order[first:last], room, (count, spread, t))
                add_all_blocks(stacks, weights, own, crew)
                quadratic = quadratic_of(weights, stacks.inverse, own)
                together = meet_all(board, crew)
        gain += more
        spread = followed(spread, best, np.float64(crew))
    found = post.found[post.me]
    found[FOUND_GAP], found[FOUND_GAIN], found[FOUND_SPREAD] = gap, gain, spread


@jitable_call
def block_reach_part(X, loss, w, tables, plan, hand, post):
    """Extrapolate its part of the examples, and take what they lack back from the weights, of as many rows of each thread at a
    time as a block has."""
    (duals, before), (room, stacks), board, crew = tables, (hand.room, hand.stacks), post.meeting.board, post.desk[ORDER_CREW]
    now, t, lacking = post.desk[ORDER_PASS], post.numbers[ORDER_PUSH], Lacking(room.moved.stepped, room.moved.changes)
    first, last = portion(0, plan.due.size, post.me, crew)
    own, gain, turn, left = own_weights(stacks, post), 0.0, 0, 1.0
    while left > 0.0:
        first, count, more = reach_some(loss, duals, before, plan, (now, first, last), lacking, (room.change, t))
        gain, sheet, turn, left = gain + more, stacks.sheet[turn], 1 - turn, 0.0
        take_block(X.values, lacking.which[:count], hand.variance, room)
        for k in range(count):
            lacking.which[k] = k
        write_down(hand, post.me, count, count, False)
        sheet[post.me, SAYS_LEFT] = last - first
        if not meet_all(board, crew):
            return
        add_all_blocks(stacks, (w,), own, crew)
        if not meet_all(board, crew):
            return
        for p in range(crew):
            left += sheet[p, SAYS_LEFT]
    post.found[post.me, FOUND_GAIN] = gain


@kernel
def serve_blocks(X, loss, weights, tables, plan, hand, post):
    """Carry out orders, as `parted.serve_rows`; sweeps go on copies."""
    (duals, before, old, curvature), seen, staying = tables, 0, True
    while staying:
        seen = hears(post, seen)
        kind = post.desk[ORDER_KIND]
        if kind == LEAVE:
            return
        if kind == GATHER:
            gather_list(plan, post)
        elif takes_part(post):
            if kind == VISIT:
                block_rounds(X, loss, weights, (duals, old, curvature), plan, hand, post)
            elif kind == AGAIN:
                row_rounds(X, loss, hand.space, (duals, old, curvature), plan, post, hand.sweep)
            else:
                block_reach_part(X, loss, weights[0], (duals, before), plan, hand, post)
        staying = reports(post)
