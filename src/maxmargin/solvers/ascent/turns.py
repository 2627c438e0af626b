"""Sweeps on several threads, with the steps that one would make in the same order, bit by bit.

A visit of a sweep reads and moves the weights of the classes that its example has duals of, and no others. Visits that have no
class in common may be made at the same time. Those that have keep their order: they stand in a queue at each class, and a visit
is made once it is the first at all of its classes:

    all, by parts of the visits     list the classes that each example has duals of
    alone                           order the visits in waves, which have no class in common (first fit); count those that stand
                                    before each visit at each of its classes
    all                             take the next visit, wait until so many have been made there, make it

Visits are taken in order. The first one that is not made waits for nobody, so nobody waits for ever. Without waves a thread
would soon wait: of 1,000 classes with duals of eighteen each a third of all pairs of visits have one in common.
"""

from typing import NamedTuple

import numpy as np

from ...data import rows
from ...jit import jitable_call, kernel, vectors
from ...jit.meeting import PIECES, fetch_add, meet_all, wait_until_counted
from .sweeps import list_held, own_place, visit_held

APART = vectors.LINE // 8  # numbers between those that threads count on: a cache line each
EACH = 16  # classes of a visit that there is room for, on average: of more, fewer visits are made at a time. By guess, 2026-11-17
LISTED_AHEAD = 4  # examples by which duals are asked for before they are listed. By guess, 2026-11-17
MOST = 8192  # visits that are ordered at a time
WAVE_BITS, WAVE_WORDS = 62, 16  # waves are bits of so many words; visits that fit into none come last


class Queues(NamedTuple):
    """Visits at their classes."""

    starts: np.ndarray  # (visits + 1,): where the classes of each begin
    held: np.ndarray  # those classes
    before: np.ndarray  # visits that stand before it, at each of them
    made: np.ndarray  # visits that have been made, at each class
    waves: np.ndarray  # (classes, WAVE_WORDS): which ones have a visit to the class
    wave: np.ndarray  # (visits,): of each visit
    sizes: np.ndarray  # (waves + 2,): visits of each
    order: np.ndarray  # (visits,): visits, by waves
    found: np.ndarray  # (visits, 2): the share of the gap and the change of the reward of each
    fitting: np.ndarray  # (1,): visits that there was room for


def new_queues(visits: int, classes: int) -> Queues:
    """Room for so many visits, of one at least with all classes."""
    held, starts = np.zeros(EACH * visits + classes, np.int32), np.zeros(visits + 1, np.int64)
    made, wave, sizes = (np.zeros(size, np.int64) for size in (APART * classes, visits, WAVE_BITS * WAVE_WORDS + 2))
    waves, found, count = np.zeros((classes, WAVE_WORDS), np.int64), np.zeros((visits, 2)), np.zeros(1, np.int64)
    return Queues(starts, held, held.copy(), made, waves, wave, sizes, wave.copy(), found, count)


@jitable_call
def count_held(duals, i):
    """How many classes example i has duals of."""
    width, many = duals.vectors.shape[2], 0
    for b in range(duals.vectors.shape[1]):
        if vectors.any_filled(vectors.load(duals.vectors, i, b)):
            for c in range(b * width, (b + 1) * width):
                many += duals.flat[i, c] != 0
    return many


@jitable_call
def make_room(queues, visits):
    """Of numbers of classes make places of the lists; returns how many visits there is room for."""
    starts = queues.starts
    starts[0] = 0
    for k in range(visits):
        starts[k + 1] += starts[k]
        if starts[k + 1] > queues.held.size:
            return k
    return visits


@jitable_call
def lowest_bit(word):
    """The place of the lowest bit that is set; one is."""
    place, step = 0, 32
    while step > 0:
        if word & ((1 << step) - 1) == 0:
            word >>= step
            place += step
        step >>= 1
    return place


@jitable_call
def first_wave(waves, held):
    """The first wave that visits none of these classes, which it then does; the one after all waves where there is none."""
    for q in range(WAVE_WORDS):
        taken = 0
        for a in range(held.size):
            taken |= waves[held[a], q]
        free = ~taken & ((1 << WAVE_BITS) - 1)
        if free != 0:
            place = lowest_bit(free)
            for a in range(held.size):
                waves[held[a], q] |= 1 << place
            return q * WAVE_BITS + place
    return WAVE_BITS * WAVE_WORDS


@jitable_call
def order_by_waves(queues, visits):
    """Order visits by waves; those of a wave stay in order."""
    starts, sizes = queues.starts, queues.sizes
    queues.waves[...] = 0
    sizes[...] = 0
    for k in range(visits):
        queues.wave[k] = first_wave(queues.waves, queues.held[starts[k] : starts[k + 1]])
        sizes[queues.wave[k] + 1] += 1
    for q in range(1, sizes.size):
        sizes[q] += sizes[q - 1]
    for k in range(visits):
        queues.order[sizes[queues.wave[k]]] = k
        sizes[queues.wave[k]] += 1


@jitable_call
def line_up(queues, visits):
    """Count the visits that stand before each, at each of its classes."""
    made, starts = queues.made, queues.starts
    made[...] = 0
    for q in range(visits):
        k = queues.order[q]
        for e in range(starts[k], starts[k + 1]):
            c = queues.held[e] * APART
            queues.before[e] = made[c]
            made[c] += 1
    made[...] = 0


@jitable_call
def wait_in_line(queues, board, k):
    """Wait until visit k is the first at each of its classes. Returns False where somebody has given up."""
    for e in range(queues.starts[k], queues.starts[k + 1]):
        if not wait_until_counted(queues.made, queues.held[e] * APART, queues.before[e], board):
            return False
    return True


@jitable_call
def make_visit(X, loss, w, duals, curvature, plan, room, queues, visit, k):
    """Visit k: the scores of its classes, the step, and their weights. Whoever stands behind it is next."""
    start, _, level, variance = visit
    i, which, found = plan.order[start + k], queues.held[queues.starts[k] : queues.starts[k + 1]], (0.0, 0.0)
    own = own_place(loss, i, which)
    if own >= 0:
        found = visit_held(X, loss, i, w, duals, curvature, room, (which, own), (level, variance, 1.0))
    queues.found[k, 0], queues.found[k, 1] = found
    for a in range(which.size):
        fetch_add(queues.made, which[a] * APART, 1)


@kernel
def sweep_in_turn(X, loss, w, duals, curvature, plan, room, queues, visit, place):
    """What thread p of a team does to visit plan.order[start:stop], or as many of these as there is room for."""
    (start, stop, _, _), (p, team, board) = visit, place
    first, last = p * (stop - start) // team, (p + 1) * (stop - start) // team
    for k in range(first, last):
        rows.prefetch_row(duals.vectors, plan.order[start + min(k + LISTED_AHEAD, last - 1)])
        queues.starts[k + 1] = count_held(duals, plan.order[start + k])
    if not meet_all(board, team):
        return
    if p == 0:
        queues.fitting[0] = make_room(queues, stop - start)
    if not meet_all(board, team):
        return
    count = queues.fitting[0]
    for k in range(first, min(last, count)):
        rows.prefetch_row(duals.vectors, plan.order[start + min(k + LISTED_AHEAD, last - 1)])
        list_held(duals, plan.order[start + k], queues.held, queues.starts[k])
    if not meet_all(board, team):
        return
    if p == 0:
        order_by_waves(queues, count)
        line_up(queues, count)
    if not meet_all(board, team):
        return
    q = fetch_add(board, PIECES, 1)
    for _ in range(count):  # others take some of them
        if q >= count:
            return
        following = fetch_add(board, PIECES, 1)  # its row is asked for meanwhile
        if following < count:
            i = plan.order[start + queues.order[following]]
            rows.prefetch(X, i)
            rows.prefetch_row(duals.vectors, i)
        k, q = queues.order[q], following
        if not wait_in_line(queues, board, k):
            return
        make_visit(X, loss, w, duals, curvature, plan, room, queues, visit, k)


def sums_of(queues: Queues) -> np.ndarray:
    """Of the visits that were made: shares of the gap and changes of the reward."""
    return np.add.reduce(queues.found[: int(queues.fitting[0])], axis=0)
