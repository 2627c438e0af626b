"""Blocks of dense rows on several threads, with the steps of one: whatever their number, the iterates are the same, to rounding.

The steps of a block follow each other, so one thread takes them. Meanwhile the others prepare what does not depend on them: the
inner products of the rows of the next block, and copies of the rows of the one after that. Then each thread sees to the weights
of its own classes, which stay in the cache of its processor:

    alone and beside            walk through block t;    G of block t + 1;    rows of block t + 2
    all, by runs of classes     W += Sigma X_t' changes;    S = X W of block t + 1

Between the two all meet, within compiled code (`jit.meeting`). Nothing is stale, nothing is searched for, and no thread has a
copy of the weights. Results depend on the number of threads by the shapes of matrix products alone.
"""

import numpy as np

from ...data.gathered import some_rows
from ...jit import jitable_call, kernel
from ...jit.meeting import PIECES, fetch_add, meet_all
from ...jit.products import outer_products
from .block_visits import ROWS_OF_STRIP, add_changes, add_moves, multiply_strip, take_block, walk_block
from .momentum import Lacking, reach_some

UNDER_WAY = 4  # blocks: of the last one, the one that is walked through and the next two there are rows
COPIED = 8  # rows that a thread copies before it looks for other work. By guess, 2026-11-17


@jitable_call
def rows_in_block(visit, t):
    """How many rows block t has."""
    start, stop, size = visit
    return 0 if t < 0 else min(max(stop - start - t * size, 0), size)


@jitable_call
def prepare_piece(values, plan, variance, room, visit, t, piece):
    """Do one piece of what needs no weights, beside block t: rows of block t + 2, products of block t + 1. Returns whether there
    was such a piece."""
    start, _, size = visit
    first, rows, next_rows = start + (t + 2) * size, rows_in_block(visit, t + 2), rows_in_block(visit, t + 1)
    strips = -(-next_rows // ROWS_OF_STRIP)
    if piece < strips:
        begin = (strips - 1 - piece) * ROWS_OF_STRIP  # the last strip is the longest: it goes first
        multiply_strip(room, (t + 1) % UNDER_WAY * size, begin, min(begin + ROWS_OF_STRIP, next_rows))
        return True
    begin = (piece - strips) * COPIED
    if begin >= rows:
        return False
    end = min(begin + COPIED, rows)
    take_block(values, plan.order[first + begin : first + end], variance, room, (t + 2) % UNDER_WAY * size + begin)
    return True


@kernel
def visit_together(values, loss, weights, duals, curvature, plan, room, hand, visit, place):
    """What thread p of a team does to visit plan.order[start:stop], with the weights of its classes. Returns the sum of the
    shares of the gap and the change of the reward: those of the first thread count."""
    (now, start, stop), level, variance = visit
    p, team, span, board = place
    size, gap, gain = room.moved.stepped.size, 0.0, 0.0
    blocks, these = -(-(stop - start) // size), (start, stop, size)
    for t in range(-2, blocks):
        begin, rows = t % UNDER_WAY * size, rows_in_block(these, t)
        if p == 0 and t >= 0:
            examples = plan.order[start + t * size : start + t * size + rows]
            part = (now, level), (examples, 0, rows), (room.products[begin : begin + rows], room.scores)
            gap, gain, room.stepped[0] = walk_block(loss, duals, curvature, plan, room, hand, part, (gap, gain, np.int64(0)))
        for _ in range(2 * size):  # pieces at the most
            if not prepare_piece(values, plan, variance, room, these, t, fetch_add(board, PIECES, 1)):
                break
        if not meet_all(board, team):
            return gap, gain
        if p == 0:
            board[PIECES] = 0
        if t >= 0:
            add_moves(room, hand, begin, rows, room.stepped[0], weights, span)
        following = rows_in_block(these, t + 1)
        if following > 0 and span[0] < span[1]:
            begin, scores = (t + 1) % UNDER_WAY * size, room.scores.flat[:, span[0] : span[1]]
            outer_products(room.rows.flat[begin : begin + following], weights[-1].flat[span[0] : span[1]], scores)
        if not meet_all(board, team):
            return gap, gain
    return gap, gain


@kernel
def reach_together(values, loss, w, duals, before, plan, room, hand, visit, place):
    """As `reach_block`, for the examples of one thread of a team and the weights of its classes; returns the change of the
    reward."""
    (now, first, last), t, variance = visit
    p, team, span, board, busy = place
    size, gain = room.moved.stepped.size // team, 0.0
    begin, changes = p * size, room.moved.changes
    mine = Lacking(room.moved.stepped[begin : begin + size], some_rows(changes, begin, begin + size))
    rows = some_rows(room.scaled, 0, team * size)
    for _ in range(plan.due.size + 1):  # a round is done with an example of each busy thread, or more
        first, count, more = reach_some(loss, duals, before, plan, (now, first, last), mine, (hand.change, t))
        gain, busy[p] = gain + more, first < last
        take_block(values, mine.which[:count], variance, room, begin)
        for k in range(size):
            mine.which[k] = begin + k
        mine.rows.flat[count:] = 0
        if not meet_all(board, team):
            return gain
        going_on = False
        for q in range(team):
            going_on |= busy[q]
        add_changes(rows, changes, room.moved.stepped[: team * size], room.wide, hand.entries, w, span)
        if not meet_all(board, team) or not going_on:
            return gain
    return gain
