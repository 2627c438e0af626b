"""Steps of a row loss on pairs of classes, on a copy of what the kernel matrix has between some samples.

The duals of Crammer and Singer's loss are *masses*: sample i deals out its cap over the classes, a_ij >= 0, sum_j a_ij = cap_i,
its own class y included, and b_ij = cap_i [j = y] - a_ij. Each class has a worth for it, h_ij = score + cost[y, j], and

    gap_i = sum_d a_id (h_iu - h_id),      u the class of the greatest worth

so that the gap is a sum over pairs of classes (u, d): mass goes from d to u. With all else fixed the masses m_i that a pair of
classes exchanges are those of a support vector machine of two classes, with a box for each sample:

    slope_i = h_iu - h_id,     curvature 2 K,      -a_iu <= m_i <= a_id

whose samples are only those that hold mass in u or d: few. That is what `smo` solves. Then S_u -= K m and S_d += K m, for those
samples of the copy that may have mass in u, and in d; no other score moves.

The copy is scaled to a unit diagonal, and filled row by row as samples first move; each class has its own, or all have one.
Worths are float64, and what is float32 is by how much they have moved in the round.
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
    """What a round has of its samples: for each class those that may have mass in it, its *entries*, class after class.

    first: of each class its first entry, a whole number of vectors, and the end; sizes: how many it has; who: the sample of an
    entry; at: (classes, samples) which entry that is, or -1.

    table: rows of the kernel matrix. Of the entries: place: of the sample in the table, and column; scale: 1 /
    sqrt(K_ii + constant); worth: times the scale, at the start; drift: by how much it has moved, lanes; masses; listed: whether
    they are among the `holders` of their class, `holding` of them: those with mass in it, and maybe some that had.

    matrix: what the table has between the entries of a class, scaled; row: of an entry the vector at which its row begins, and
    flag: where `ready` says whether it is THERE. All classes share one matrix where they have the same samples.

    sums: scratch for each sample
    """

    first: np.ndarray
    sizes: np.ndarray
    who: np.ndarray
    at: np.ndarray
    table: np.ndarray
    place: np.ndarray
    column: np.ndarray
    constant: float
    scale: np.ndarray
    worth: np.ndarray
    drift: np.ndarray
    masses: np.ndarray
    holders: np.ndarray
    holding: np.ndarray
    listed: np.ndarray
    matrix: np.ndarray
    row: np.ndarray
    flag: np.ndarray
    ready: np.ndarray
    sums: np.ndarray


class Exchange(NamedTuple):
    """Room for one pair of classes: who holds mass in it, by their entries in both, and what `smo.Part` has, for as many samples
    as the copy has."""

    members: np.ndarray  # (2, samples)
    matrix: np.ndarray
    vectors: np.ndarray  # (6, padded)
    marks: np.ndarray
    moved: np.ndarray
    ready: np.ndarray


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
def find_nearest(worth, masses, best, inside):
    """Of each sample the classes that hold its mass or are among the `best` of the greatest worth: inside. `best` is scratch, a
    row for each of them; worth and masses are (classes, samples)."""
    last = best.shape[0] - 1
    for k in range(last + 1):
        for p in range(best.shape[1]):
            best[k, p] = -np.inf
    for j in range(worth.shape[0]):
        for p in range(best.shape[1]):
            h = worth[j, p]
            if h > best[last, p]:
                k = last
                while k > 0 and h > best[k - 1, p]:
                    best[k, p] = best[k - 1, p]
                    k -= 1
                best[k, p] = h
    for j in range(worth.shape[0]):
        for p in range(best.shape[1]):
            inside[j, p] = masses[j, p] > 0.0 or worth[j, p] >= best[last, p]


@kernel
def enter(copy, inside, values, samples, one):
    """The entries of a copy; values: the worth and the mass of each class and sample; samples: which they are, their places in
    the table and their scales; one: whether the classes share one matrix."""
    (worth, masses), (columns, places, scale) = values, samples
    width, corner, flag = copy.drift.shape[2], 0, 0
    for j in range(copy.sizes.size):
        e, long, row = copy.first[j], (copy.first[j + 1] - copy.first[j]) // width, corner
        for p in range(columns.size):
            copy.at[j, p] = -1
            if inside[j, p]:
                copy.at[j, p], copy.who[e], copy.column[e], copy.place[e] = e, p, columns[p], places[p]
                copy.scale[e], copy.worth[e], copy.masses[e] = scale[p], worth[j, p] * scale[p], masses[j, p]
                copy.row[e], copy.flag[e] = row, p if one else flag
                e, row, flag = e + 1, row + long, flag + 1
        if not one:
            corner = row
        for k in range(e, copy.first[j + 1]):
            copy.scale[k] = 1.0


@kernel
def leave(copy, columns, masses):
    """Masses (classes, all samples) as the copy has them."""
    for j in range(copy.sizes.size):
        for e in range(copy.first[j], copy.first[j] + copy.sizes[j]):
            masses[j, columns[copy.who[e]]] = copy.masses[e]


@kernel
def pair_gaps(copy, best, gaps):
    """Deal out the gap of the copy to pairs of classes: gaps[u, d]; and list the holders of each class: those of the samples that
    have a share of it or whose mass is spread. `best` is scratch for each sample: the class of the greatest worth."""
    worth, masses, drift, top, share = copy.worth, copy.masses, copy.drift.reshape(-1), copy.sums[0], copy.sums[1]
    for u in range(gaps.shape[0]):
        for d in range(gaps.shape[0]):
            gaps[u, d] = 0.0
    for p in range(top.size):
        top[p], best[p], share[p] = -np.inf, 0, -1.0
    for j in range(copy.sizes.size):
        for e in range(copy.first[j], copy.first[j] + copy.sizes[j]):
            h, p = worth[e] + drift[e], copy.who[e]
            if h > top[p]:
                top[p], best[p] = h, j
    for j in range(copy.sizes.size):
        for e in range(copy.first[j], copy.first[j] + copy.sizes[j]):
            if masses[e] > 0.0:
                p = copy.who[e]
                part = masses[e] / copy.scale[e] * (top[p] - worth[e] - drift[e])
                gaps[best[p], j] += part
                share[p] = part if share[p] < 0.0 else np.inf  # of the first, and more of several
    for j in range(copy.sizes.size):
        start, found = copy.first[j], 0
        for e in range(start, start + copy.sizes[j]):
            copy.listed[e] = masses[e] > 0.0 and share[copy.who[e]] > 0.0
            if copy.listed[e]:
                copy.holders[start + found], found = e, found + 1
        copy.holding[j] = found


@kernel
def deal_out(pairs, taken, turns):
    """The turn of each pair: the first one in which neither of its classes is. taken: (classes, turns), False."""
    for k in range(pairs.shape[0]):
        at = 0
        while taken[pairs[k, 0], at] or taken[pairs[k, 1], at]:
            at += 1
        taken[pairs[k, 0], at] = taken[pairs[k, 1], at] = True
        turns[k] = at


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
    worth, masses, drift = copy.worth, copy.masses, copy.drift.reshape(-1)
    count, gap = 0, 0.0
    for side in range(2):
        own, at = (u, copy.at[d]) if side == 0 else (d, copy.at[u])
        start = copy.first[own]
        for h in range(start, start + copy.holding[own]):
            k = copy.holders[h]
            found = at[copy.who[k]]
            if found < 0 or masses[k] <= 0.0 or (side == 1 and masses[found] > 0.0):  # none, gone, or met among the others
                continue
            up, down = (k, np.uint64(found)) if side == 0 else (np.uint64(found), k)
            slope = worth[up] - worth[down] + (drift[up] - drift[down])
            share = max(slope * masses[down], -slope * masses[up]) / copy.scale[k]
            if share > 0.0 or (side == 0 and masses[down] > 0.0):
                members[0, count], members[1, count] = up, down
                count, gap = count + 1, gap + share
    return count, gap


class PairSource(NamedTuple):
    """Where the matrix of a pair comes from: that of one of its classes, at its members."""

    copy: Copy
    label: int
    near: np.ndarray


@copy_row.register(PairSource)
def _(source, p, part):
    copy, first = source.copy, np.uint64(source.copy.first[source.label])
    fill_row(copy, source.label, source.near[p])
    start, out = copy.row[source.near[p]] * np.uint64(copy.matrix.shape[2]), part.matrix.reshape(part.matrix.shape[0], -1)[p]
    row = copy.matrix.reshape(-1)[start : start + np.uint64(copy.sizes[source.label])]
    for q in range(source.near.size):
        out[q] = row[source.near[q] - first]


@jitable_call
def fill_row(copy, j, k):
    """The row of entry k, of class j, once: who comes second waits for the first."""
    flag = copy.flag[k]
    if look(copy.ready, flag) >= THERE:
        return
    if fetch_add(copy.ready, flag, 1) == 0:
        first, size, left = copy.first[j], copy.sizes[j], copy.scale[k]
        start, row = copy.row[k] * np.uint64(copy.matrix.shape[2]), copy.table[copy.place[k]]
        out, columns = copy.matrix.reshape(-1)[start : start + np.uint64(size)], copy.column[first : first + size]
        scale = copy.scale[first : first + size]
        for q in range(size):
            out[q] = (row[columns[q]] + copy.constant) * left * scale[q]
        out[k - np.uint64(first)] = 1.0
        fetch_add(copy.ready, flag, THERE)
    wait_for_work(copy.ready, flag, THERE)


@jitable_call
def climb_pair(copy, u, d, count, exchange, how):
    """One pair of classes; returns the number of steps."""
    worth, masses, rows = copy.worth, copy.masses, exchange.vectors
    drift, width = copy.drift.reshape(-1), copy.drift.shape[2]
    blocks = -(-count // (ABREAST * width)) * ABREAST
    padded = blocks * width
    for row in range(rows.shape[0]):
        for p in range(padded):
            rows[row, p] = 0.0
    slope, low, high, weight, scale = rows[0], rows[1], rows[2], rows[3], rows[4]
    for p in range(count):
        up, down = exchange.members[0, p], exchange.members[1, p]
        slope[p] = (worth[up] - worth[down] + (drift[up] - drift[down])) / ROOT
        root = ROOT / copy.scale[up]
        low[p], high[p], weight[p], scale[p] = -root * masses[up], root * masses[down], BOUNDLESS, 1.0
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
    steps = optimise(part, PairSource(copy, u, exchange.members[0, :count]), rest, tuning)
    exchange_masses(copy, u, d, count, exchange)
    return steps


@jitable_call
def exchange_masses(copy, u, d, count, exchange):
    """Masses after steps, exactly zero where the steps ended at a bound, and the worth of both classes."""
    masses, members, low, high, moves = copy.masses, exchange.members, exchange.vectors[1], exchange.vectors[2], 0
    for p in range(count):
        if exchange.moved[p] == 0.0:
            continue
        up, down = members[0, p], members[1, p]
        own, other = masses[up], masses[down]
        both, change = own + other, exchange.moved[p] * copy.scale[up] / ROOT
        if low[p] == 0.0 or own + change <= 0.0:
            masses[up], masses[down] = 0.0, both
        elif high[p] == 0.0 or other - change <= 0.0:
            masses[up], masses[down] = both, 0.0
        else:
            masses[up], masses[down] = own + change, other - change
        for j, k in ((u, up), (d, down)):
            if masses[k] > 0.0 and not copy.listed[k]:
                copy.holders[copy.first[j] + copy.holding[j]], copy.listed[k] = k, True
                copy.holding[j] += 1
        members[0, moves], members[1, moves], exchange.moved[moves] = up, down, (masses[up] - own) / copy.scale[up]
        moves += 1
    add_rows(copy, u, members[0, :moves], exchange.moved, -1.0)
    add_rows(copy, d, members[1, :moves], exchange.moved, 1.0)


@jitable_call
def add_rows(copy, j, members, moved, sign):
    """Drift of a class after these of its entries have moved, by their rows; two at a time, so that memory has something to do
    while sums are formed."""
    kind, width, zero = copy.drift.dtype.type, copy.drift.shape[2], np.uint64(0)
    to, blocks = np.uint64(copy.first[j] // width), np.uint64((copy.first[j + 1] - copy.first[j]) // width)
    for p in range(0, members.size - 1, 2):
        fill_row(copy, j, members[p])
        fill_row(copy, j, members[p + 1])
        one, two, x, y = copy.row[members[p]], copy.row[members[p + 1]], kind(sign * moved[p]), kind(sign * moved[p + 1])
        for b in range(blocks):
            found = vectors.fma(vectors.load(copy.drift, zero, to + b), x, vectors.load(copy.matrix, zero, one + b))
            vectors.store(copy.drift, zero, to + b, vectors.fma(found, y, vectors.load(copy.matrix, zero, two + b)))
    if members.size % 2:
        add_entry(copy, j, members[members.size - 1], sign * moved[members.size - 1])


@jitable_call
def add_entry(copy, j, k, x):
    """The same of one entry."""
    fill_row(copy, j, k)
    row, x, width, zero = copy.row[k], copy.drift.dtype.type(x), copy.drift.shape[2], np.uint64(0)
    to = np.uint64(copy.first[j] // width)
    for b in range(np.uint64((copy.first[j + 1] - copy.first[j]) // width)):
        found = vectors.fma(vectors.load(copy.drift, zero, to + b), x, vectors.load(copy.matrix, zero, row + b))
        vectors.store(copy.drift, zero, to + b, found)


class Mark(NamedTuple):
    """Masses and drift of a copy at an earlier time."""

    masses: np.ndarray
    drift: np.ndarray


@kernel
def go_on(copy, before, now):
    """Write the copy to the mark `now`, and go on in the direction from the mark `before`, as far as the dual value rises. Masses
    that would be negative are zero and the others of their sample are less; should that lead to a lower value, all goes back."""
    drift, then, blocks = copy.drift.reshape(-1), before.drift.reshape(-1), copy.drift.shape[1]
    rise, bend = 0.0, 0.0
    for e in range(copy.masses.size):
        d = (copy.masses[e] - before.masses[e]) / copy.scale[e]
        rise += d * (copy.worth[e] + drift[e])
        bend -= d * (drift[e] - then[e])
    t = rise / bend if rise > 0.0 and bend > 0.0 else 0.0
    for b in range(blocks):
        at = vectors.load(copy.drift, 0, b)
        vectors.store(now.drift, 0, b, at)
        moved = vectors.subtract(at, vectors.load(before.drift, 0, b))
        vectors.store(copy.drift, 0, b, vectors.fma(at, copy.drift.dtype.type(t), moved))
    go_on_within(copy, before, now, t)
    if not risen(copy, now):
        for e in range(copy.masses.size):
            copy.masses[e] = now.masses[e]
        for b in range(blocks):
            vectors.store(copy.drift, 0, b, vectors.load(now.drift, 0, b))


@jitable_call
def go_on_within(copy, before, now, t):
    """The masses of samples, and what drift they lack."""
    caps, totals = copy.sums[0], copy.sums[1]
    for p in range(caps.size):
        caps[p] = totals[p] = 0.0
    for j in range(copy.sizes.size):
        for e in range(copy.first[j], copy.first[j] + copy.sizes[j]):
            now.masses[e] = old = copy.masses[e]
            p = copy.who[e]
            caps[p], totals[p] = caps[p] + old, totals[p] + max(old + t * (old - before.masses[e]), 0.0)
    for j in range(copy.sizes.size):
        for e in range(copy.first[j], copy.first[j] + copy.sizes[j]):
            p, old = copy.who[e], now.masses[e]
            short, wanted = totals[p] > caps[p] * (1.0 + TOO_MUCH), old + t * (old - before.masses[e])
            copy.masses[e] = new = max(wanted, 0.0) * (caps[p] / totals[p] if short else 1.0)
            if short and wanted != new:
                add_entry(copy, j, np.uint64(e), (wanted - new) / copy.scale[e])


@jitable_call
def risen(copy, now):
    """Whether the dual value has risen since `now`."""
    drift, then, gain = copy.drift.reshape(-1), now.drift.reshape(-1), 0.0
    for e in range(copy.masses.size):
        d = (copy.masses[e] - now.masses[e]) / copy.scale[e]
        gain += d * (copy.worth[e] + 0.5 * (drift[e] + then[e]))
    return gain > 0.0
