"""Euclidean projections onto the simplex, the capped simplex and the sets of the top-k losses.

    simplex(a, radius)                    sum z = radius, z >= 0
    capped_simplex(a, cap, radius)        sum z = radius, 0 <= z <= cap                   (continuous knapsack)
    topk_cone(a, k, bias)                 0 <= z_j <= s / k                               with s = sum z throughout
    topk_simplex(a, k, radius, bias)      0 <= z_j <= s / k,  s <= radius                 (the alpha form)
    topk_box(a, k, radius, bias)          0 <= z_j <= radius / k,  s <= radius            (the beta form)

each the z that minimises 1/2 ||z - a||^2 + bias/2 s^2 (Chu et al. 2018; Lapin et al. 2015; `bias` is 1 in the papers' biased form).
The answers are exact to rounding, computed in float64 by the Newton steps of `levels`. Long vectors are read once: the level of a
small sample tells which entries matter, those are put aside, and whether enough were is checked afterwards.
"""

from numbers import Integral, Real

import numpy as np

from . import lanes
from .jit import jitable, kernel
from .levels import UNKNOWN, Box, Cone, Knapsack, TopK, level, reach

LINE = 16  # entries looked at together
SAMPLE = 1024  # lines in a sample
LONG = 4 * LINE * SAMPLE  # from here on a sample is taken
MANY = 0.25  # part of the sample above the level from which on nothing is put aside
FEW = 16  # a set whose projection has more than one entry in so many of the sample needs the whole vector
TRIES = 3
ROOM = 512  # entries put aside before their level is taken
WHOLE, BROKEN = -1, -2

__all__ = ["capped_simplex", "simplex", "topk_box", "topk_cone", "topk_simplex"]


def simplex(a, radius=1.0, *, out=None) -> np.ndarray:
    """Project onto the simplex: z >= 0, sum z = radius.

    Parameters
    ----------
    a : array of shape (d,)
        float32 and float64 are used as they are; other input is converted to float64.
    radius : float, default=1.0
        The sum of the result.
    out : array of shape (d,), optional
        Where to put the result; of the dtype of the result. May be `a` itself.

    Returns
    -------
    array of shape (d,), float32 for float32 input, else float64
    """
    radius = _positive("radius", radius)
    return _projected(Knapsack(radius, radius), a, out)


def capped_simplex(a, cap, radius=1.0, *, out=None) -> np.ndarray:
    """Project onto the capped simplex: 0 <= z <= cap, sum z = radius. See `simplex` for `a` and `out`."""
    cap, radius, a = _positive("cap", cap), _positive("radius", radius), _vector(a)
    if cap * a.size < radius * (1.0 - 1e-12):
        raise ValueError(f"The set is empty: {a.size} entries of at most cap={cap:g} cannot sum to radius={radius:g}.")
    return _projected(Knapsack(max(min(cap, radius), radius / a.size), radius), a, out)


def topk_cone(a, k, bias=0.0, *, out=None) -> np.ndarray:
    """Project onto the top-k cone: 0 <= z_j <= sum(z) / k, with bias/2 sum(z)^2 added. See `simplex` for `a` and `out`."""
    a = _vector(a)
    return _projected(Cone(_count(k, a), _not_negative("bias", bias)), a, out)


def topk_simplex(a, k, radius=1.0, bias=0.0, *, out=None) -> np.ndarray:
    """Project onto the top-k simplex: 0 <= z_j <= sum(z) / k, sum(z) <= radius. See `topk_cone`."""
    a = _vector(a)
    return _projected(TopK(_count(k, a), _positive("radius", radius), _not_negative("bias", bias)), a, out)


def topk_box(a, k, radius=1.0, bias=0.0, *, out=None) -> np.ndarray:
    """Project onto the top-k box: 0 <= z_j <= radius / k, sum(z) <= radius. See `topk_cone`."""
    a = _vector(a)
    return _projected(Box(_count(k, a), _positive("radius", radius), _not_negative("bias", bias)), a, out)


# ---- how -------------------------------------------------------------------------------------------------


@kernel
def project(shape, a, lines, scratch, out):
    """Write the projection of `a` to `out`, which holds zeros where there is scratch; returns the steps, -1 for NaN.

    `lines` is `a` as a lane array, up to a remainder shorter than one line.
    """
    values, index = scratch
    if values.size > 0:
        found, count = gathered(shape, a, lines, values, index)
        if count == BROKEN:
            return -1
        if count != WHOLE:
            for j in range(count):
                out[index[j]] = max(0.0, min(values[j] - found.shift - found.t, found.cap))
            return found.steps
    broken = 0.0
    for j in range(a.size):
        broken += 0.0 * np.float64(a[j])
    if broken != 0.0:
        return -1
    found = level(shape, a, a.size, UNKNOWN)
    for j in range(a.size):
        out[j] = max(0.0, min(np.float64(a[j]) - found.shift - found.t, found.cap))
    return found.steps


@jitable
def gathered(shape, a, lines, values, index):
    """The level, and how many entries were put aside: all that matter. Or WHOLE, or BROKEN if some number is not finite."""
    found, bound = guess(shape, lines, values)
    for _ in range(TRIES):
        if not np.isfinite(bound):
            break
        count, room, broken = 0, ROOM, lanes.zeros_like(lines)
        for i in range(lines.shape[0]):
            top = lanes.load(lines, i, 0)
            broken = lanes.fma(broken, 0.0, top)
            for b in range(1, lines.shape[1]):
                vector = lanes.load(lines, i, b)
                broken = lanes.fma(broken, 0.0, vector)
                top = lanes.maximum(top, vector)
            if lanes.largest(top) >= bound:
                for j in range(i * LINE, (i + 1) * LINE):
                    if a[j] >= bound:
                        values[count], index[count] = a[j], j
                        count += 1
                if count > room:  # what is left aside so far has a level too, a better one
                    found = level(shape, values, count, found)
                    bound = max(bound, found.shift + found.t)
                    count = dropped(values, index, count, bound)
                    room = 2 * count + ROOM
        rest = 0.0
        for j in range(lines.shape[0] * LINE, a.size):
            rest += 0.0 * np.float64(a[j])
            if a[j] >= bound:
                values[count], index[count] = a[j], j
                count += 1
        if np.float64(lanes.total(broken)) + rest != 0.0:
            return found, BROKEN
        if count < reach(shape):
            break
        found = level(shape, values, count, found)
        t = found.shift + found.t
        if t >= bound:  # nothing that was left out can be in the support
            return found, count
        bound = 2.0 * t - bound
    return found, WHOLE


@jitable
def dropped(values, index, count, bound):
    """Drop what is below the bound."""
    kept = 0
    for j in range(count):
        values[kept], index[kept] = values[j], index[j]
        kept += values[j] >= bound
    return kept


@jitable
def guess(shape, lines, values):
    """The level of lines spread over the vector; its bound is NaN where too many entries would exceed it."""
    if reach(shape) * FEW > LINE * SAMPLE:
        return UNKNOWN, np.nan
    count, step, found, bound = 0, lines.shape[0] // SAMPLE, UNKNOWN, np.nan
    for part in (SAMPLE // 16, SAMPLE):
        for i in range(count // LINE, part):
            for b in range(lines.shape[1]):
                for j in range(lines.shape[2]):
                    values[count] = lines[i * step, b, j]
                    count += 1
        found = level(shape, values, count, found)
    bound, many = found.shift + found.t, 0
    for j in range(count):
        many += values[j] >= bound
    return found, bound if many <= MANY * count else np.nan


def _projected(shape, a, out) -> np.ndarray:
    return solved(shape, _vector(a), out)[0]


def solved(shape, a: np.ndarray, out: np.ndarray | None = None) -> tuple[np.ndarray, int]:
    """The projection of a vector and the Newton steps it took."""
    long = a.size >= LONG
    if out is None:
        result = np.zeros(a.size, a.dtype) if long else np.empty(a.size, a.dtype)
    else:
        if not isinstance(out, np.ndarray) or out.shape != a.shape or out.dtype != a.dtype:
            found = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
            raise ValueError(f"out must be an array of {a.dtype} of shape {a.shape}; got {found}.")
        if not out.flags.writeable:
            raise ValueError("out must be writeable.")
        result = out
        if long:
            a = a.copy() if np.may_share_memory(a, out) else a
            result[...] = 0
    room = a.size if long else 0
    lines = a[: a.size - a.size % LINE].reshape(-1, LINE // lanes.width(a.dtype), lanes.width(a.dtype))
    steps = project(shape, a, lines, (np.empty(room), np.empty(room, np.int64)), result)
    if steps < 0:
        raise ValueError("a must be finite; it holds NaN or infinity.")
    return result, steps


def _vector(a) -> np.ndarray:
    """`a` as a contiguous vector of float32 or float64."""
    array = np.asarray(a)
    if array.dtype not in (np.float32, np.float64):
        if array.dtype.kind not in "iuf" and not (array.dtype == object or array.dtype == bool):
            raise ValueError(f"a must be an array of real numbers; got dtype {array.dtype}.")
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"a must be an array of real numbers: {error}.") from None
    if array.ndim != 1:
        raise ValueError(f"a must be one-dimensional; got shape {array.shape}.")
    if array.size == 0:
        raise ValueError("a is empty; there is nothing to project.")
    return np.ascontiguousarray(array)


def _positive(name: str, value) -> float:
    if not isinstance(value, Real) or not np.isfinite(value) or value <= 0:
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}.")
    return float(value)


def _not_negative(name: str, value) -> float:
    if not isinstance(value, Real) or not np.isfinite(value) or value < 0:
        raise ValueError(f"{name} must be a finite number >= 0, got {value!r}.")
    return float(value)


def _count(k, a: np.ndarray) -> int:
    if not isinstance(k, Integral) or isinstance(k, bool):
        raise ValueError(f"k must be an integer, got {k!r}.")
    if not 1 <= k <= a.size:
        raise ValueError(f"k must be between 1 and the length {a.size} of a, got {k}.")
    return int(k)
