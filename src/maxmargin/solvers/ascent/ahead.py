"""As `together`, for many threads: also the weights and scores are seen to while one thread walks through a block.

The scores of the next block are then those of weights that lack the changes of this one, and follow these by inner products, as
scores do within a block. That is more work, all of it shared, and leaves little but the walk to wait for:

    alone and beside            walk through block t
                                W += Sigma X_(t-1)' changes of block t - 1;    S = X W of block t + 1, by runs of classes
                                G of block t + 1;    H = X_t Sigma X_(t+1)';    rows of block t + 2
    all, by runs of classes     S += H' changes of block t
"""

import numpy as np

from ...data.gathered import add_listed, list_few, some_rows
from ...jit import jitable_call, kernel
from ...jit.meeting import PIECES, fetch_add, meet_all
from ...jit.products import add_products, outer_products
from .block_visits import ROWS_OF_STRIP, of_run, walk_block, widen
from .together import UNDER_WAY, prepare_piece, rows_in_block


@jitable_call
def add_wide(room, entries, begin, rows, weights, span):
    """As `add_moves`, of changes that were spread out."""
    (first, last), X = span, some_rows(room.scaled, begin, begin + rows)
    mine = of_run(entries, span)
    if list_few(room.wide, room.places[:rows], first, mine):
        add_listed(X.vectors, mine, weights[0].vectors, first)
    else:
        add_products(room.wide.flat[:rows, first:last], X.flat, weights[0].flat[first:last])
    if len(weights) > 1:
        add_products(room.wide_follows.flat[:rows, first:last], X.flat, weights[1].flat[first:last])


@jitable_call
def ahead_piece(room, hand, weights, runs, visit, t, piece):
    """Do one piece of what is done ahead of block t: the weights and scores of a run of classes, products of rows of blocks t and
    t + 1. Returns how many such pieces there are."""
    size, before, rows, following = visit[2], rows_in_block(visit, t - 1), rows_in_block(visit, t), rows_in_block(visit, t + 1)
    count = runs.size - 1 if before > 0 or following > 0 else 0
    begin, strips = (t + 1) % UNDER_WAY * size, -(-rows // ROWS_OF_STRIP) if following > 0 else 0
    if piece < count:
        first, last = runs[piece], runs[piece + 1]
        if before > 0:
            add_wide(room, hand.entries, (t - 1) % UNDER_WAY * size, before, weights, (first, last))
        if following > 0:
            half = (t + 1) % 2 * size
            scores = room.scores.flat[half : half + following, first:last]
            outer_products(room.rows.flat[begin : begin + following], weights[-1].flat[first:last], scores)
    elif piece < count + strips:
        first, mine = (piece - count) * ROWS_OF_STRIP, t % UNDER_WAY * size
        last = min(first + ROWS_OF_STRIP, rows)
        others = room.scaled.flat[begin : begin + following]
        outer_products(room.rows.flat[mine + first : mine + last], others, room.cross[first:last])
    return count + strips


@jitable_call
def follow_block(room, visit, t, span, kinds):
    """Spread out the changes of block t, of these classes, and let the scores of the next block follow them."""
    size, rows, following, (first, last) = visit[2], rows_in_block(visit, t), rows_in_block(visit, t + 1), span
    which, moved = room.moved.stepped[: room.stepped[0]], room.moved
    widen(moved.changes, which, room.wide, rows, span)
    if kinds > 1:
        widen(moved.follows, which, room.wide_follows, rows, span)
    if following > 0 and first < last:
        half = (t + 1) % 2 * size
        scores = room.scores.flat[half : half + following, first:last]
        add_products(room.cross[:rows, :following], room.wide_follows.flat[:rows, first:last], scores)


@kernel
def visit_ahead(values, loss, weights, duals, curvature, plan, room, hand, visit, place):
    """As `visit_together`; `place` has also the bounds of the runs of classes that are pieces of work."""
    (now, start, stop), level, variance = visit
    (p, team, span, board), runs = place
    size, gap, gain = room.moved.stepped.size, 0.0, 0.0
    blocks, these = -(-(stop - start) // size), (start, stop, size)
    for t in range(-2, blocks + 1):
        begin, half, rows = t % UNDER_WAY * size, t % 2 * size, rows_in_block(these, t)
        if p == 0 and rows > 0:
            examples = plan.order[start + t * size : start + t * size + rows]
            mine = room.products[begin : begin + rows], some_rows(room.scores, half, half + rows)
            part = (now, level), (examples, 0, rows), mine
            gap, gain, room.stepped[0] = walk_block(loss, duals, curvature, plan, room, hand, part, (gap, gain, np.int64(0)))
        for _ in range(runs.size + 2 * size):  # pieces at the most
            piece = fetch_add(board, PIECES, 1)
            count = ahead_piece(room, hand, weights, runs, these, t, piece)
            if piece >= count and not prepare_piece(values, plan, variance, room, these, t, piece - count):
                break
        if not meet_all(board, team):
            return gap, gain
        if p == 0:
            board[PIECES] = 0
        if rows > 0:
            follow_block(room, these, t, span, len(weights))
        if not meet_all(board, team):
            return gap, gain
    return gap, gain
