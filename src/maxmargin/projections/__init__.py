"""Euclidean projections onto the simplex, the capped simplex and the sets of the top-k losses.

    simplex(a, radius)                    sum z = radius, z >= 0
    capped_simplex(a, cap, radius)        sum z = radius, 0 <= z <= cap                   (continuous knapsack)
    topk_cone(a, k, bias)                 0 <= z_j <= s / k                               with s = sum z throughout
    topk_simplex(a, k, radius, bias)      0 <= z_j <= s / k,  s <= radius                 (the alpha form)
    topk_box(a, k, radius, bias)          0 <= z_j <= radius / k,  s <= radius            (the beta form)

each the z that minimises 1/2 ||z - a||^2 + bias/2 s^2 (Chu et al. 2018; Lapin et al. 2015; the papers' biased form has bias = 1).
The answers are exact to rounding, computed in float64 by the Newton steps of `newton`. Long vectors are read once: the level of a
small sample tells which entries matter, those are put aside, and whether enough were is checked afterwards.
"""

from numbers import Integral, Real
from typing import Any

import numpy as np

from ..jit import kernel, vectors
from .newton import UNKNOWN, Box, Cone, Knapsack, Level, TopK, least, level, projected

GROUP = 16  # entries looked at together
# Chosen for speed, sets not recorded, 2026-11-15 (LONG with `python -m benchmarks topk`):
SAMPLE = 1024  # lines in a sample at the most
PART = 8  # and one line in so many at the most
LONG = 1 << 13  # from here on a sample is taken
MANY = 0.25  # part of the sample above the level from which on nothing is put aside
FEW = 16  # a set whose projection has more than one entry in so many of the sample needs the whole vector
AT_FIRST = 512  # entries put aside before their level is taken
# And not:
TRIES = 3
NAN_MESSAGE = "a must be finite; it holds NaN or infinity."

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
def find(shape, values, count, last):
    return level(shape, values, count, last)


@kernel
def write(values, found, out):
    """out = clip(values - shift - t, 0, cap), entry by entry"""
    for j in range(out.size):
        out[j] = projected(values[j], found)


@kernel
def write_some(values, index, count, found, out):
    for j in range(count):
        out[index[j]] = projected(values[j], found)


@kernel
def set_aside(a, lines, bound, aside, visit):
    """Put the entries >= bound aside, from line `start` on, behind `count` others, until there are more than `most`.

    `lines` is `a` as a lane array, up to a remainder shorter than a line. Returns the line reached and the new count, which is
    negative if some number is not finite.
    """
    values, index = aside
    start, count, most = visit
    i, end, broken, rest = start, lines.shape[0], vectors.zeros_like(lines), 0.0
    while i < end and count <= most:
        top = vectors.load(lines, i, 0)
        broken = vectors.fma(broken, 0.0, top)
        for b in range(1, lines.shape[1]):
            vector = vectors.load(lines, i, b)
            broken = vectors.fma(broken, 0.0, vector)
            top = vectors.maximum(top, vector)
        if vectors.any_reaches(top, bound):
            for j in range(i * GROUP, (i + 1) * GROUP):
                if a[j] >= bound:
                    values[count], index[count] = a[j], j
                    count += 1
        i += 1
    if i == end:
        for j in range(end * GROUP, a.size):
            rest += 0.0 * np.float64(a[j])
            if a[j] >= bound:
                values[count], index[count] = a[j], j
                count += 1
    return i, count if np.float64(vectors.total(broken)) + rest == 0.0 else -1


@kernel
def drop(aside, count, bound):
    """Of what was put aside keep what is not below the bound; returns how many are left."""
    values, index = aside
    kept = 0
    for j in range(count):
        values[kept], index[kept] = values[j], index[j]
        kept += values[j] >= bound
    return kept


def put_aside(shape, a: np.ndarray):
    """(values, index), how many, and their level: all entries of a long vector that matter. None where those are too many."""
    lines = a[: a.size - a.size % GROUP].reshape(-1, GROUP // vectors.width(a.dtype), vectors.width(a.dtype))
    sample = lines[:: max(PART, len(lines) // SAMPLE)].astype(np.float64).ravel()
    if least(shape) * FEW > sample.size:
        return None
    found = UNKNOWN
    for size in (sample.size // 16, sample.size):
        found = Level(*find(shape, sample, size, found))
    bound = found.shift + found.t
    if not np.isfinite(bound) or np.count_nonzero(sample >= bound) > MANY * sample.size:
        return None
    aside = np.empty(a.size), np.empty(a.size, np.int64)  # what is never written never takes up memory
    for _ in range(TRIES):
        line, count, most = 0, 0, max(AT_FIRST, 2 * least(shape))
        while line < len(lines):
            line, count = set_aside(a, lines, bound, aside, (line, count, most))
            if count < least(shape):
                if count < 0:
                    raise ValueError(NAN_MESSAGE)
                break
            found = Level(*find(shape, aside[0], count, found))
            if line < len(lines):  # what was put aside so far has a level too, a better one
                bound = max(bound, found.shift + found.t)
                count = drop(aside, count, bound)
                most = 2 * count + AT_FIRST
        if count < least(shape):
            return None
        t = found.shift + found.t
        if t >= bound:  # nothing that was left out can be in the support
            return aside, count, found
        bound = 2.0 * t - bound
    return None


def _projected(shape, a, out) -> np.ndarray:
    return solved(shape, _vector(a), out)[0]


def solved(shape, a: np.ndarray, out: np.ndarray | None = None) -> tuple[np.ndarray, int]:
    """The projection of a vector and the Newton steps it took."""
    long = put_aside(shape, a) if a.size >= LONG else None
    if out is not None:
        if not isinstance(out, np.ndarray) or out.shape != a.shape or out.dtype != a.dtype:
            found = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
            raise ValueError(f"out must be an array of {a.dtype} of shape {a.shape}; got {found}.")
        if not out.flags.writeable:
            raise ValueError("out must be writeable.")
    if long is not None:
        aside, count, level_found = long
        if out is None:
            out = np.zeros(a.size, a.dtype)
        else:
            out[...] = 0
        write_some(*aside, count, level_found, out)
        return out, level_found.steps
    values = a.astype(np.float64, copy=False)
    if not np.all(np.isfinite(values)):
        raise ValueError(NAN_MESSAGE)
    level_found = Level(*find(shape, values, a.size, UNKNOWN))
    out = np.empty(a.size, a.dtype) if out is None else out
    write(values, level_found, out)
    return out, level_found.steps


def _vector(a) -> np.ndarray:
    """`a` as a contiguous vector of float32 or float64."""
    try:
        array = np.asarray(a)
    except ValueError:
        raise ValueError("a must be one-dimensional; its entries have several lengths.") from None
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


def _positive(name: str, value: Any) -> float:
    if not isinstance(value, Real) or not 0.0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}.")
    return float(value)


def _not_negative(name: str, value: Any) -> float:
    if not isinstance(value, Real) or not 0.0 <= float(value) < np.inf:
        raise ValueError(f"{name} must be a finite number >= 0, got {value!r}.")
    return float(value)


def _count(k: Any, a: np.ndarray) -> int:
    if not isinstance(k, Integral) or isinstance(k, bool):
        raise ValueError(f"k must be an integer, got {k!r}.")
    if not 1 <= int(k) <= a.size:
        raise ValueError(f"k must be between 1 and the length {a.size} of a, got {k}.")
    return int(k)
