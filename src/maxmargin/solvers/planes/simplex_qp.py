"""Quadratic programs over a product of simplices, on a Gram matrix.

    maximise  <linear, beta> - 1/2 beta' G beta       beta >= 0,  sum of beta over each block = 1

Blocks are visited in turn. Within one, mass moves from one entry to another, to the steepest entry from the one that promises
most (second-order pairs, as SMO solvers choose them); the rest of the gradient is brought up to date once a visit. What is left
to gain is known, sum over blocks of (largest slope - mean slope), and is the test for stopping. Where pairs make slow progress,
a Newton step goes to the optimum of the face that the support spans, entries below zero left out. It factorises matrices of that
size, so it is tried after sweeps that took as long, and twice as many each time that it gained less than they did.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from ...jit import jitable_call, kernel
from ..pace import never
from .tuning import BUNDLE, SimplexTuning

MOST_SWEEPS = 4_000
SWEEPS = 60  # of sweeps and a Newton step, at the most
PIVOTS = 12  # faces that a Newton step looks at
FLAT = 1e-14  # part of the diagonal below which a curvature is rounding
RIDGE = 1e-13  # part of the diagonal added for Newton's step: planes are often parallel


class Blocks(NamedTuple):
    """Entries sorted by block, and where each block begins."""

    order: np.ndarray
    starts: np.ndarray


class SimplexFace(NamedTuple):
    """The entries that a Newton step looks at, as many as `kept` has: those of a block that are not its head, with their heads,
    are `rest` and `head`. Of all entries: masses on the face, and scratch for slopes there."""

    kept: np.ndarray
    rest: np.ndarray
    head: np.ndarray
    base: np.ndarray
    pull: np.ndarray


def blocks_of(block: np.ndarray, count: int) -> Blocks:
    order = np.argsort(block, kind="stable")
    return Blocks(order, np.searchsorted(block[order], np.arange(count + 1)))


# ---- pairs -------------------------------------------------------------------------------------------------------------------


@jitable_call
def move_pairs(G, members, beta, local, change, precision, pairs):
    """Move mass between the entries of one block, up to so many times; returns how often. `local`: the slopes of its entries,
    `change`: what was added to their masses"""
    for moves in range(pairs):
        i, mean = members[0], 0.0
        for t in members:
            mean += beta[t] * local[t]
            i = t if local[t] > local[i] else i
        if local[i] - mean <= precision:
            return moves
        best, move, j = 0.0, 0.0, i
        for t in members:
            rise = local[i] - local[t]
            if beta[t] > 0.0 and rise > 0.0:
                curvature = G[i, i] + G[t, t] - 2.0 * G[i, t]
                step = beta[t]
                if curvature * step > rise and curvature > FLAT * (G[i, i] + G[t, t]):
                    step = rise / curvature
                gain = step * (rise - 0.5 * max(curvature, 0.0) * step)
                if gain > best:
                    best, move, j = gain, step, t
        if best <= 0.0:
            return moves
        beta[i] += move
        beta[j] = 0.0 if move == beta[j] else beta[j] - move
        change[i] += move
        change[j] -= move
        for t in members:
            local[t] -= move * (G[i, t] - G[j, t])
    return pairs


@jitable_call
def to_gain(parts, beta, slope):
    """How far the value at beta is from the optimum, at the most."""
    total = 0.0
    for p in range(parts.starts.size - 1):
        highest = slope[parts.order[parts.starts[p]]]
        for k in range(parts.starts[p], parts.starts[p + 1]):
            t = parts.order[k]
            highest = max(highest, slope[t])
            total -= beta[t] * slope[t]
        total += highest
    return total


@jitable_call
def normalise_blocks(parts, beta):
    """Masses that sum to one in each block, up to the last bit."""
    for p in range(parts.starts.size - 1):
        total = 0.0
        for k in range(parts.starts[p], parts.starts[p + 1]):
            total += beta[parts.order[k]]
        for k in range(parts.starts[p], parts.starts[p + 1]):
            beta[parts.order[k]] /= total


@jitable_call
def value_from_scratch(G, linear, beta, slope):
    """The objective at beta; `slope` becomes its gradient."""
    for r in range(slope.size):
        slope[r] = linear[r]
    for t in range(beta.size):
        if beta[t] != 0.0:
            for r in range(slope.size):
                slope[r] -= beta[t] * G[t, r]
    value = 0.0
    for r in range(slope.size):
        value += 0.5 * beta[r] * (linear[r] + slope[r])
    return value


@kernel
def improve_by_pairs(G, linear, parts, beta, slope, scratch, aims):
    """Up to `sweeps` visits of every block, fewer where no more than `precision` can be gained. Masses, slopes and the value are
    then computed from scratch; returns the value, what is left to gain, and whether there is more for pairs to do. `scratch`:
    (2, entries), the first row zeros"""
    (change, local), (precision, sweeps, pairs) = scratch, aims
    going, each = True, 0.5 * precision / (parts.starts.size - 1)
    for _ in range(sweeps):
        moves = 0
        for p in range(parts.starts.size - 1):
            members = parts.order[parts.starts[p] : parts.starts[p + 1]]
            for t in members:
                local[t] = slope[t]
            moves += move_pairs(G, members, beta, local, change, each, pairs)
            for t in members:
                if change[t] != 0.0:
                    for r in range(slope.size):
                        slope[r] -= change[t] * G[t, r]
                    change[t] = 0.0
        going = moves > 0 and to_gain(parts, beta, slope) > precision
        if not going:
            break
    normalise_blocks(parts, beta)
    value = value_from_scratch(G, linear, beta, slope)
    return value, to_gain(parts, beta, slope), going


@kernel
def gain_left(parts, beta, slope):
    """`to_gain`, to be called from outside of kernels"""
    return to_gain(parts, beta, slope)


@kernel
def program_value(G, linear, beta, slope):
    """`value_from_scratch`, to be called from outside of kernels"""
    return value_from_scratch(G, linear, beta, slope)


# ---- Newton steps ------------------------------------------------------------------------------------------------------------


@kernel
def restricted(G, kept, x, out):
    """out_i = sum over j in `kept` of G_ij x_j, for i in `kept`"""
    for i in kept:
        total = 0.0
        for j in kept:
            total += G[i, j] * x[j]
        out[i] = total


@kernel
def write_face_system(G, linear, parts, beta, face, H, side):
    """What the optimum over the entries `kept`, of any sign, is the solution of: the lower triangle of the curvature in the
    directions e_t - e_head(t), with a ridge on its diagonal, and the slopes in these directions. The largest entry of each block
    is its head, which takes what the others give."""
    kept, rest, head, base, pull = face
    for t in range(base.size):
        base[t] = 0.0
    for t in kept:
        base[t] = beta[t]
    normalise_blocks(parts, base)
    for i in kept:
        total = 0.0
        for j in kept:
            total += G[i, j] * base[j]
        pull[i] = linear[i] - total
    count = 0
    for p in range(parts.starts.size - 1):
        largest = parts.order[parts.starts[p]]
        for k in range(parts.starts[p], parts.starts[p + 1]):
            largest = parts.order[k] if base[parts.order[k]] > base[largest] else largest
        for k in range(parts.starts[p], parts.starts[p + 1]):
            t = parts.order[k]
            if base[t] > 0.0 and t != largest:
                rest[count], head[count], side[count] = t, largest, pull[t] - pull[largest]
                count += 1
    for i in range(count):
        r, h = rest[i], head[i]
        for j in range(i + 1):
            H[i, j] = G[r, rest[j]] - G[r, head[j]] - G[h, rest[j]] + G[h, head[j]]
        H[i, i] += RIDGE * (G[r, r] + G[h, h])


@kernel
def add_face_move(face, move):
    """Go there; returns the lowest entry of the face, NaN where one is."""
    for k in range(move.size):
        face.base[face.rest[k]] += move[k]
        face.base[face.head[k]] -= move[k]
    lowest = 0.0
    for t in face.kept:
        lowest = lowest if lowest <= face.base[t] else face.base[t]
    return lowest


@kernel
def go_towards(G, parts, beta, target, ahead, slope):
    """beta moved to the best point on the way to `target`; returns whether that is any better. `slope`: that at beta"""
    for t in range(target.size):
        target[t] = max(target[t], 0.0)
    normalise_blocks(parts, target)
    rise, curvature = 0.0, 0.0
    for i in range(beta.size):
        ahead[i] = target[i] - beta[i]
        rise += slope[i] * ahead[i]
    for i in range(beta.size):
        if ahead[i] != 0.0:
            total = 0.0
            for j in range(beta.size):
                total += G[i, j] * ahead[j]
            curvature += ahead[i] * total
    if rise <= 0.0:
        return False
    step = min(1.0, rise / curvature) if curvature > 0.0 else 1.0
    for i in range(beta.size):
        beta[i] = max(beta[i] + step * ahead[i], 0.0)
    normalise_blocks(parts, beta)
    return True


def newton(
    G: np.ndarray, linear: np.ndarray, parts: Blocks, beta: np.ndarray, slope: np.ndarray, stop: Callable[[], bool]
) -> np.ndarray | None:
    """beta moved towards the optimum of its face, which may lose entries on the way; None where that cannot be found.

    Entries that the optimum over the support has below zero are left out, all at once, until none is; the way there from beta
    lies in the simplices, and the best point on it is taken.
    """
    n, blocks = beta.size, parts.starts.size - 1
    kept, base, pull = np.flatnonzero(beta > 0.0), beta.copy(), np.empty(n)
    for _ in range(PIVOTS):
        size = kept.size - blocks
        if size == 0:
            break
        face = SimplexFace(kept, np.empty(size, np.int64), np.empty(size, np.int64), base, pull)
        H, side = np.empty((size, size)), np.empty(size)
        write_face_system(G, linear, parts, beta, face, H, side)
        factor, failed = dpotrf(H.T, lower=0, clean=0, overwrite_a=1)  # to LAPACK the lower triangle is the upper one
        if failed or stop():
            return None
        lowest = add_face_move(face, dpotrs(factor, side, lower=0)[0])
        if not np.isfinite(lowest):
            return None
        if lowest >= 0.0:
            break
        kept = np.flatnonzero(base > 0.0)
    moved = beta.copy()
    return moved if go_towards(G, parts, moved, base, pull, slope) else None


# ---- both --------------------------------------------------------------------------------------------------------------------


def normalised(beta: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Sums of one exactly, up to the last bit."""
    return beta / np.bincount(block, beta)[block]


def value_of(G: np.ndarray, linear: np.ndarray, beta: np.ndarray) -> tuple[float, np.ndarray]:
    """The objective at beta and its gradient."""
    slope = np.empty_like(linear)
    return program_value(G, linear, beta, slope), slope


def solve_program(
    G: np.ndarray,
    linear: np.ndarray,
    block: np.ndarray,
    beta: np.ndarray,
    precision: float,
    stop: Callable[[], bool] = never,
    tuning: SimplexTuning = BUNDLE.simplex,
) -> np.ndarray:
    """A feasible beta within `precision` of the optimum (or as near as rounding and `stop` allow), from a feasible one.

    `block` names the block of each entry, 0, 1, ...; none may be empty. G is C-ordered and may have more rows and columns, which
    are not read.
    """
    parts = blocks_of(block, int(block.max()) + 1)
    beta, scratch = normalised(beta, block), np.zeros((2, beta.size))
    value, slope = value_of(G, linear, beta)
    pause, left = max(tuning.sweeps, int(np.count_nonzero(beta)) ** 2 // tuning.as_long), MOST_SWEEPS
    at_once = max(1, tuning.work // (beta.size * (parts.starts.size - 1)))
    for _ in range(SWEEPS):
        for done in range(0, pause, at_once):
            aims = precision, min(at_once, pause - done), tuning.pairs
            reached, gain, going = improve_by_pairs(G, linear, parts, beta, slope, scratch, aims)
            if not going or stop():
                break
        left -= pause
        if gain <= precision or left <= 0 or stop():
            break
        moved, by_pairs, after = newton(G, linear, parts, beta, slope, stop), reached - value, reached
        if moved is not None:
            after, there = value_of(G, linear, moved)
            if after > reached:
                beta, slope = moved, there
        if after - reached < by_pairs:
            pause *= 2
        value, before = max(reached, after), value
        if value <= before + 1e-15 * (abs(linear) @ beta + abs(value)):  # no more than rounding
            break
    return beta
