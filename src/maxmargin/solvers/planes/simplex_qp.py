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
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ...jit import kernel
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


def blocks_of(block: np.ndarray, count: int) -> Blocks:
    return Blocks(np.argsort(block, kind="stable"), np.searchsorted(np.sort(block), np.arange(count + 1)))


@kernel
def sweep(G, parts, beta, slope, scratch, precision, pairs):
    """Visit every block; returns the number of pairs that moved. `scratch`: (2, entries), the first row zeros; `pairs`: steps in
    one visit at the most"""
    moves, (change, local) = 0, scratch
    for p in range(parts.starts.size - 1):
        begin, end = parts.starts[p], parts.starts[p + 1]
        for k in range(begin, end):
            local[parts.order[k]] = slope[parts.order[k]]
        for _ in range(pairs):
            i, mean = parts.order[begin], 0.0
            for k in range(begin, end):
                t = parts.order[k]
                mean += beta[t] * local[t]
                i = t if local[t] > local[i] else i
            if local[i] - mean <= precision:
                break
            best, move, j = 0.0, 0.0, i
            for k in range(begin, end):
                t = parts.order[k]
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
                break
            moves += 1
            beta[i] += move
            beta[j] = 0.0 if move == beta[j] else beta[j] - move
            change[i] += move
            change[j] -= move
            for k in range(begin, end):
                t = parts.order[k]
                local[t] -= move * (G[i, t] - G[j, t])
        for k in range(begin, end):
            t = parts.order[k]
            if change[t] != 0.0:
                for r in range(slope.size):
                    slope[r] -= change[t] * G[t, r]
                change[t] = 0.0
    return moves


def to_gain(parts: Blocks, beta: np.ndarray, slope: np.ndarray) -> float:
    """How far the value at beta is from the optimum, at the most."""
    highest = np.maximum.reduceat(slope[parts.order], parts.starts[:-1])
    return float(highest.sum() - beta @ slope)


@kernel
def restricted(G, kept, x, out):
    """out_i = sum over j in `kept` of G_ij x_j, for i in `kept`"""
    for i in kept:
        total = 0.0
        for j in kept:
            total += G[i, j] * x[j]
        out[i] = total


@kernel
def reduced_curvature(G, rest, head, ridge, H):
    """The lower triangle of the curvature in the directions e_t - e_head(t), with a ridge on its diagonal"""
    for i in range(rest.size):
        r, h = rest[i], head[i]
        for j in range(i + 1):
            H[i, j] = G[r, rest[j]] - G[r, head[j]] - G[h, rest[j]] + G[h, head[j]]
        H[i, i] += ridge * (G[r, r] + G[h, h])


def newton(G: np.ndarray, linear: np.ndarray, block: np.ndarray, beta: np.ndarray, stop: Callable[[], bool]) -> np.ndarray | None:
    """beta moved towards the optimum of its face, which may lose entries on the way; None where that cannot be found.

    Entries that the optimum over the support has below zero are left out, all at once, until none is; the way there from beta
    lies in the simplices, and the best point on it is taken.
    """
    support = kept = np.flatnonzero(beta > 0.0)
    target = beta
    for _ in range(PIVOTS):
        base = np.zeros_like(beta)
        base[kept] = normalised(beta[kept], block[kept])
        found = face_optimum(G, linear, block, base, kept)
        if found is None or stop():
            return None
        target = found
        if target.min() >= 0.0:
            break
        kept = np.flatnonzero(target > 0.0)
    else:
        target = normalised(np.maximum(target, 0.0), block)
    ahead, pull = target - beta, np.zeros((2, beta.size))
    restricted(G, support, beta, pull[0])
    restricted(G, support, ahead, pull[1])
    rise, curvature = float((linear - pull[0])[support] @ ahead[support]), float(ahead @ pull[1])
    if rise <= 0.0:
        return None
    step = min(1.0, rise / curvature) if curvature > 0.0 else 1.0
    return normalised(np.maximum(beta + step * ahead, 0.0), block)


def face_optimum(G: np.ndarray, linear: np.ndarray, block: np.ndarray, base: np.ndarray, kept: np.ndarray) -> np.ndarray | None:
    """The optimum over the entries `kept`, of any sign, with each block's sum as in `base`, which is zero elsewhere."""
    order = kept[np.lexsort((-base[kept], block[kept]))]
    first = np.r_[True, np.diff(block[order]) > 0]
    heads, rest = order[first], order[~first]  # the largest entry of each block takes what the others give
    if rest.size == 0:
        return base
    head, pull, H = heads[np.cumsum(first)[~first] - 1], np.zeros_like(base), np.empty((rest.size, rest.size))
    restricted(G, kept, base, pull)
    reduced_curvature(G, rest, head, RIDGE, H)
    slope = linear - pull
    try:
        factor = cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    move = cho_solve(factor, slope[rest] - slope[head], check_finite=False)
    if not np.all(np.isfinite(move)):
        return None
    result = base.copy()
    result[rest] += move
    np.subtract.at(result, head, move)
    return result


def normalised(beta: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Sums of one exactly, up to the last bit."""
    return beta / np.bincount(block, beta)[block]


def value_of(G: np.ndarray, linear: np.ndarray, beta: np.ndarray) -> tuple[float, np.ndarray]:
    """The objective at beta and its gradient."""
    support = np.flatnonzero(beta)
    pull = beta[support] @ G[support]
    return float(linear @ beta - 0.5 * beta @ pull), linear - pull


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

    `block` names the block of each entry, 0, 1, ...; none may be empty.
    """
    parts = blocks_of(block, int(block.max()) + 1)
    count = parts.starts.size - 1
    beta, scratch = normalised(beta, block), np.zeros((2, beta.size))
    value, slope = value_of(G, linear, beta)
    pause, left = max(tuning.sweeps, int(np.count_nonzero(beta)) ** 2 // tuning.as_long), MOST_SWEEPS
    for _ in range(SWEEPS):
        for _ in range(pause):
            moves = sweep(G, parts, beta, slope, scratch, 0.5 * precision / count, tuning.pairs)
            if moves == 0 or to_gain(parts, beta, slope) <= precision or stop():
                break
        left -= pause
        beta = normalised(beta, block)
        reached, slope = value_of(G, linear, beta)
        if to_gain(parts, beta, slope) <= precision or left <= 0 or stop():
            break
        moved, by_pairs, after = newton(G, linear, block, beta, stop), reached - value, reached
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
