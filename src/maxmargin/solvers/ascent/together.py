"""Blocks of dense rows on several threads, with the steps of one: whatever their number, the iterates are the same, to rounding.

The steps of a block follow each other, so one thread takes them. Meanwhile the others prepare what does not depend on them: the
inner products of the rows of the next block, and copies of the rows of the one after that. Then each thread sees to the weights
of its own classes, which stay in the cache of its processor:

    alone and beside            walk through block t;    G of block t + 1;    rows of block t + 2
    all, by runs of classes     W += Sigma X_t' changes;    S = X W of block t + 1

Between the two all meet, within compiled code (`jit.meeting`). Nothing is stale, nothing is searched for, and no thread has a
copy of the weights. Results depend on the number of threads by the shapes of matrix products alone.
"""

from ...jit import jitable_call, kernel
from ...jit.meeting import PIECES, fetch_add, meet_all
from ...jit.products import outer_products
from .block_visits import ROWS_OF_STRIP, add_changes, add_moves, multiply_strip, some_rows, take_block, walk_block
from .momentum import Lacking, reach_some

UNDER_WAY = 3  # blocks: one whose weights are added, one that is walked through, one whose rows are copied
COPIED = 8  # rows that a thread copies before it looks for other work. By guess, 2026-11-17


@jitable_call
def prepare_next(values, plan, variance, room, board, visit):
    """Take pieces of what can be done before block t has ended, until there are none: rows of block t + 2, products of block
    t + 1."""
    start, stop, size, t = visit
    first, next_first = start + (t + 2) * size, start + (t + 1) * size
    rows = min(max(stop - first, 0), size)
    next_rows = min(max(stop - next_first, 0), size) if t + 1 >= 0 else 0
    copies = -(-rows // COPIED)
    pieces = copies - (-next_rows // ROWS_OF_STRIP)
    piece = fetch_add(board, PIECES, 1)
    while piece < pieces:
        if piece < copies:
            begin, end = piece * COPIED, min((piece + 1) * COPIED, rows)
            take_block(values, plan.order[first + begin : first + end], variance, room, (t + 2) % UNDER_WAY * size + begin)
        else:
            begin = (pieces - 1 - piece) * ROWS_OF_STRIP  # the last strip is the longest: it goes first
            multiply_strip(room, (t + 1) % UNDER_WAY * size, begin, min(begin + ROWS_OF_STRIP, next_rows))
        piece = fetch_add(board, PIECES, 1)


@kernel
def visit_together(values, loss, weights, duals, curvature, plan, room, hand, visit, place):
    """What thread p of a team does to visit plan.order[start:stop], with the weights of its classes. Returns the sum of the
    shares of the gap and the change of the reward: those of the first thread count."""
    (now, start, stop), level, variance = visit
    p, team, span, board = place
    size, gap, gain = room.scores.flat.shape[0], 0.0, 0.0
    blocks = -(-(stop - start) // size)
    for t in range(-2, blocks):
        begin, first = t % UNDER_WAY * size, start + t * size
        rows = min(stop - first, size)
        if p == 0 and t >= 0:
            examples, products = plan.order[first : first + rows], room.products[begin : begin + rows]
            visit_now, so_far = ((now, level), (examples, 0, rows), products), (gap, gain, 0)
            gap, gain, room.stepped[0] = walk_block(loss, duals, curvature, plan, room, hand, visit_now, so_far)
        prepare_next(values, plan, variance, room, board, (start, stop, size, t))
        if not meet_all(board, team):
            return gap, gain
        if p == 0:
            board[PIECES] = 0
        if t >= 0:
            add_moves(room, hand, begin, rows, room.stepped[0], weights, span)
        if 0 <= t + 1 < blocks and span[0] < span[1]:
            begin, rows = (t + 1) % UNDER_WAY * size, min(stop - first - size, size)
            scores = room.scores.flat[:, span[0] : span[1]]
            outer_products(room.rows.flat[begin : begin + rows], weights[-1].flat[span[0] : span[1]], scores)
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
    going_on = True
    while going_on:
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
        if not meet_all(board, team):
            return gain
    return gain
