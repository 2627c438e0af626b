"""Steps of a row loss on pairs of classes, on a copy of what the kernel matrix has between some samples.

The duals of Crammer and Singer's loss are *masses*: sample i deals out its cap over the classes, a_ij >= 0, sum_j a_ij = cap_i,
its own class y included, and b_ij = cap_i [j = y] - a_ij. Each class has a worth for it, h_ij = score + cost[y, j], and

    gap_i = sum_d a_id (h_iu - h_id),      u the class of the greatest worth

so that the gap is a sum over pairs of classes (u, d): mass goes from d to u. With all else fixed the masses m_i that a pair of
classes exchanges are those of a support vector machine of two classes, with a box for each sample:

    slope_i = h_iu - h_id,     curvature 2 K,      -a_iu <= m_i <= a_id

whose samples are only those that hold mass in u or d: few. That is what `smo` solves. Then S_u -= K m and S_d += K m, for the
samples of the copy; no other score moves.

The copy is scaled to a unit diagonal, and filled row by row as samples first move. Worths are float64, and what is float32
is by how much they have moved in the round.
"""

from typing import NamedTuple

import numpy as np

from ...jit import jitable_call, kernel, vectors
from ...jit.meeting import GIVEN_UP, PIECES, fetch_add, look, wait_for_work, wait_until_counted
from ...losses.base import BOUNDLESS
from .smo import ABREAST, Part, copy_row, optimise
from .turns import APART

ROOT = np.sqrt(2.0)  # of the curvature of a pair
THERE = 1 << 32  # what Copy.ready has of a row that is; less where threads have only asked for it
TOO_MUCH = 1e-12  # part of a cap by which a sum of masses may be too large


class Copy(NamedTuple):
    """What a round has of its samples.

    table: rows of the kernel matrix, of which `places` are theirs, and `samples` who they are; scale: 1 / sqrt(K_ii + constant);
    matrix: (samples, samples) lanes, scaled; ready: which of its rows are THERE; worth: (classes, samples), times the scale, at
    the start; drift: by how much it has moved, lanes; masses: (classes, samples); holders: of each class those with mass in it,
    `holding` of them, and maybe some that had; listed: who is among them
    """

    table: np.ndarray
    places: np.ndarray
    samples: np.ndarray
    scale: np.ndarray
    constant: float
    matrix: np.ndarray
    ready: np.ndarray
    worth: np.ndarray
    masses: np.ndarray
    drift: np.ndarray
    holders: np.ndarray
    holding: np.ndarray
    listed: np.ndarray


class Exchange(NamedTuple):
    """Room for one pair of classes: who holds mass in it, and what `smo.Part` has, for as many samples as the copy has."""

    members: np.ndarray
    matrix: np.ndarray
    vectors: np.ndarray  # (6, padded)
    marks: np.ndarray
    moved: np.ndarray
    ready: np.ndarray
    total: np.ndarray  # a row of lanes: by how much the scores of the pair move


@kernel
def row_gaps(scores, masses, row, shares, held, lead):
    """Of each sample its share of the gap, how many classes hold its mass, and by how much the best of them leads the others.

    Scores and masses are (classes, samples); `row`: the label and the cap of each sample, and the cost."""
    label, cap, cost = row
    for i in range(shares.size):
        shares[i], held[i], lead[i] = -np.inf, 0, -np.inf
    for j in range(scores.shape[0]):
        for i in range(shares.size):
            worth = scores[j, i] + cost[label[i], j]
            if masses[j, i] > 0.0:
                shares[i], held[i] = max(shares[i], worth), held[i] + 1
            else:
                lead[i] = max(lead[i], worth)
    for i in range(shares.size):
        best = max(shares[i], lead[i])
        lead[i], shares[i] = shares[i] - lead[i], cap[i] * best
    for j in range(scores.shape[0]):
        for i in range(shares.size):
            if masses[j, i] > 0.0:
                shares[i] -= masses[j, i] * (scores[j, i] + cost[label[i], j])


@kernel
def pair_gaps(copy, top, best, gaps):
    """Deal out the gap of the copy to pairs of classes: gaps[u, d]; and list the holders of each class. `top` and `best` are
    scratch for each sample: the greatest worth and its class."""
    worth, masses, samples = copy.worth, copy.masses, copy.worth.shape[1]
    drift = copy.drift.reshape(worth.shape[0], -1)
    for u in range(gaps.shape[0]):
        for d in range(gaps.shape[0]):
            gaps[u, d] = 0.0
    for p in range(samples):
        top[p], best[p] = -np.inf, 0
    for j in range(worth.shape[0]):
        for p in range(samples):
            h = worth[j, p] + drift[j, p]
            if h > top[p]:
                top[p], best[p] = h, j
    for j in range(worth.shape[0]):
        copy.holding[j] = 0
        for p in range(samples):
            copy.listed[j, p] = masses[j, p] > 0.0
            if masses[j, p] > 0.0:
                copy.holders[j, copy.holding[j]] = p
                copy.holding[j] += 1
                gaps[best[p], j] += masses[j, p] / copy.scale[p] * (top[p] - worth[j, p] - drift[j, p])


@kernel
def climb_pairs(copy, pairs, exchange, least, rest, tuning):
    """Exchange masses within each pair of classes (u, d), in turn, until its gap is the part `rest` of what it was; leaves out
    those whose gap is at most `least`. Returns the number of steps."""
    steps = 0
    for k in range(pairs.shape[0]):
        u, d = pairs[k, 0], pairs[k, 1]
        count, gap = find_members(copy, u, d, exchange.members)
        if gap > least:
            steps += climb_pair(copy, u, d, count, exchange, (rest, tuning))
    return steps


class Turns(NamedTuple):
    """When pairs of classes have their turn. before: of each pair, how many that have its classes come earlier; ended: of each
    class, how many have ended; done: which pairs have; board: where threads take pairs."""

    before: np.ndarray
    ended: np.ndarray
    done: np.ndarray
    board: np.ndarray


@kernel
def climb_in_turn(copy, pairs, turns, exchange, least, rest, tuning):
    """What one of several threads does of `climb_pairs`: it takes the next pair, waits until those before that have a class in
    common with it have ended, and climbs. Pairs without a class in common touch nothing of each other, so that all results are
    those of one thread. At a pair whose matrix has no room all end: it is for one thread alone. Returns the number of steps."""
    steps, board, width = 0, turns.board, ABREAST * copy.drift.shape[2]
    k = fetch_add(board, PIECES, 1)
    while k < pairs.shape[0] and look(board, GIVEN_UP) == 0:
        u, d = pairs[k, 0], pairs[k, 1]
        for side in range(2):
            if not wait_until_counted(turns.ended, APART * pairs[k, side], turns.before[k, side], board):
                return steps
        count, gap = find_members(copy, u, d, exchange.members)
        if count * (-(-count // width) * width) > exchange.matrix.size:
            fetch_add(board, GIVEN_UP, 1)
            return steps
        if gap > least:
            steps += climb_pair(copy, u, d, count, exchange, (rest, tuning))
        turns.done[k] = True
        fetch_add(turns.ended, APART * u, 1)
        fetch_add(turns.ended, APART * d, 1)
        k = fetch_add(board, PIECES, 1)
    return steps


@jitable_call
def find_members(copy, u, d, members):
    """Who can exchange mass; returns their number, and their gap."""
    worth, masses = copy.worth, copy.masses
    drift = copy.drift.reshape(worth.shape[0], -1)
    count, gap = 0, 0.0
    for first, second in ((u, d), (d, u)):
        for h in range(copy.holding[first]):
            p = copy.holders[first, h]
            if masses[first, p] <= 0.0 or (first == d and masses[second, p] > 0.0):  # gone, or met among the others
                continue
            own, other = masses[u, p], masses[d, p]
            slope = worth[u, p] - worth[d, p] + (drift[u, p] - drift[d, p])
            share = max(slope * other, -slope * own) / copy.scale[p]
            if share > 0.0 or (own > 0.0 and other > 0.0):
                members[count] = p
                count, gap = count + 1, gap + share
    return count, gap


class PairSource(NamedTuple):
    """Where the matrix of a pair comes from: the copy, at its members."""

    copy: Copy
    near: np.ndarray


@copy_row.register(PairSource)
def _(source, p, part):
    copy, k = source.copy, source.near[p]
    fill_row(copy, k)
    row, out = copy.matrix.reshape(copy.matrix.shape[0], -1)[k], part.matrix.reshape(part.matrix.shape[0], -1)[p]
    for q in range(source.near.size):
        out[q] = row[source.near[q]]


@jitable_call
def fill_row(copy, k):
    """Row k of the copy, once: who comes second waits for the first."""
    if look(copy.ready, k) >= THERE:
        return
    if fetch_add(copy.ready, k, 1) == 0:
        place, left = np.uint64(copy.places[k]), copy.scale[k]
        out = copy.matrix.reshape(copy.matrix.shape[0], -1)[k]
        for q in range(copy.samples.size):
            out[q] = (copy.table[place, copy.samples[q]] + copy.constant) * left * copy.scale[q]
        out[k] = 1.0
        fetch_add(copy.ready, k, THERE)
    wait_for_work(copy.ready, k, THERE)


@jitable_call
def climb_pair(copy, u, d, count, exchange, how):
    """One pair of classes; returns the number of steps."""
    worth, masses, rows = copy.worth, copy.masses, exchange.vectors
    drift, width = copy.drift.reshape(worth.shape[0], -1), copy.drift.shape[2]
    blocks = -(-count // (ABREAST * width)) * ABREAST
    padded = blocks * width
    for row in range(rows.shape[0]):
        for p in range(padded):
            rows[row, p] = 0.0
    slope, low, high, weight, scale = rows[0], rows[1], rows[2], rows[3], rows[4]
    for p in range(count):
        k = exchange.members[p]
        slope[p] = (worth[u, k] - worth[d, k] + (drift[u, k] - drift[d, k])) / ROOT
        root = ROOT / copy.scale[k]
        low[p], high[p], weight[p], scale[p] = -root * masses[u, k], root * masses[d, k], BOUNDLESS, 1.0
    part = Part(
        exchange.matrix[: count * padded].reshape(count, blocks, width),
        rows[0, :padded].reshape(1, blocks, width),
        rows[1, :padded].reshape(1, blocks, width),
        rows[2, :padded].reshape(1, blocks, width),
        rows[3, :padded].reshape(1, blocks, width),
        rows[4, :padded].reshape(1, blocks, width),
        rows[5, :padded].reshape(1, blocks, width),
        exchange.marks,
        exchange.moved[:count],
        exchange.ready[:count],
    )
    rest, tuning = how
    steps = optimise(part, PairSource(copy, exchange.members[:count]), rest, tuning)
    exchange_masses(copy, u, d, count, exchange)
    return steps


@jitable_call
def exchange_masses(copy, u, d, count, exchange):
    """Masses after steps, exactly zero where the steps ended at a bound, and the worth of both classes."""
    masses, low, high, moves = copy.masses, exchange.vectors[1], exchange.vectors[2], 0
    for p in range(count):
        if exchange.moved[p] == 0.0:
            continue
        k = exchange.members[p]
        own, other = masses[u, k], masses[d, k]
        both, change = own + other, exchange.moved[p] * copy.scale[k] / ROOT
        if low[p] == 0.0 or own + change <= 0.0:
            masses[u, k], masses[d, k] = 0.0, both
        elif high[p] == 0.0 or other - change <= 0.0:
            masses[u, k], masses[d, k] = both, 0.0
        else:
            masses[u, k], masses[d, k] = own + change, other - change
        for j in (u, d):
            if masses[j, k] > 0.0 and not copy.listed[j, k]:
                copy.holders[j, copy.holding[j]], copy.listed[j, k] = k, True
                copy.holding[j] += 1
        exchange.members[moves], exchange.moved[moves] = k, (masses[u, k] - own) / copy.scale[k]
        moves += 1
    add_rows(copy, moves, exchange)
    for b in range(copy.drift.shape[1]):
        moved = vectors.load(exchange.total, 0, b)
        vectors.store(copy.drift, u, b, vectors.subtract(vectors.load(copy.drift, u, b), moved))
        vectors.store(copy.drift, d, b, vectors.add(vectors.load(copy.drift, d, b), moved))


@jitable_call
def add_rows(copy, moves, exchange):
    """The sum of the rows of the copy that the first members name, times how far they have moved; two rows at a time, so that
    memory has something to do while sums are formed."""
    total, members, moved, kind = exchange.total, exchange.members, exchange.moved, exchange.total.dtype.type
    zero = vectors.zeros_like(total)
    for b in range(copy.drift.shape[1]):
        vectors.store(total, 0, b, zero)
    for p in range(0, moves - 1, 2):
        k, other, x, y = members[p], members[p + 1], kind(moved[p]), kind(moved[p + 1])
        for b in range(copy.drift.shape[1]):
            found = vectors.fma(vectors.load(total, 0, b), x, vectors.load(copy.matrix, k, b))
            vectors.store(total, 0, b, vectors.fma(found, y, vectors.load(copy.matrix, other, b)))
    if moves % 2:
        k, x = members[moves - 1], kind(moved[moves - 1])
        for b in range(copy.drift.shape[1]):
            vectors.store(total, 0, b, vectors.fma(vectors.load(total, 0, b), x, vectors.load(copy.matrix, k, b)))


class Mark(NamedTuple):
    """Masses and drift of a copy at an earlier time."""

    masses: np.ndarray
    drift: np.ndarray


@kernel
def go_on(copy, before, now):
    """Write the copy to the mark `now`, and go on in the direction from the mark `before`, as far as the dual value rises. Masses
    that would be negative are zero and the others of their sample are less; should that lead to a lower value, all goes back."""
    classes, samples = copy.worth.shape
    drift, then = copy.drift.reshape(classes, -1), before.drift.reshape(classes, -1)
    rise, bend = 0.0, 0.0
    for j in range(classes):
        for p in range(samples):
            d = (copy.masses[j, p] - before.masses[j, p]) / copy.scale[p]
            rise += d * (copy.worth[j, p] + drift[j, p])
            bend -= d * (drift[j, p] - then[j, p])
    t = rise / bend if rise > 0.0 and bend > 0.0 else 0.0
    for j in range(classes):
        for b in range(copy.drift.shape[1]):
            at = vectors.load(copy.drift, j, b)
            vectors.store(now.drift, j, b, at)
            moved = vectors.subtract(at, vectors.load(before.drift, j, b))
            vectors.store(copy.drift, j, b, vectors.fma(at, copy.drift.dtype.type(t), moved))
    for p in range(samples):
        go_on_sample(copy, before, now, p, t)
    if not risen(copy, now):
        for j in range(classes):
            for p in range(samples):
                copy.masses[j, p] = now.masses[j, p]
            for b in range(copy.drift.shape[1]):
                vectors.store(copy.drift, j, b, vectors.load(now.drift, j, b))


@jitable_call
def go_on_sample(copy, before, now, p, t):
    """The masses of one sample, and what drift they lack."""
    cap, total = 0.0, 0.0
    for j in range(copy.worth.shape[0]):
        now.masses[j, p] = old = copy.masses[j, p]
        cap, total = cap + old, total + max(old + t * (old - before.masses[j, p]), 0.0)
    short = total > cap * (1.0 + TOO_MUCH)
    for j in range(copy.worth.shape[0]):
        old = now.masses[j, p]
        wanted = old + t * (old - before.masses[j, p])
        copy.masses[j, p] = new = max(wanted, 0.0) * (cap / total if short else 1.0)
        if short and wanted != new:
            fill_row(copy, p)
            lack = copy.drift.dtype.type((wanted - new) / copy.scale[p])
            for b in range(copy.drift.shape[1]):
                vectors.store(
                    copy.drift, j, b, vectors.fma(vectors.load(copy.drift, j, b), lack, vectors.load(copy.matrix, p, b))
                )


@jitable_call
def risen(copy, now):
    """Whether the dual value has risen since `now`."""
    drift, then = copy.drift.reshape(copy.worth.shape[0], -1), now.drift.reshape(copy.worth.shape[0], -1)
    gain = 0.0
    for j in range(copy.worth.shape[0]):
        for p in range(copy.worth.shape[1]):
            d = (copy.masses[j, p] - now.masses[j, p]) / copy.scale[p]
            gain += d * (copy.worth[j, p] + 0.5 * (drift[j, p] + then[j, p]))
    return gain > 0.0
