"""Kernels for GPUs, in Triton: the line search along a joint step, and what follows it.

Imported where a GPU is used and nowhere else.
"""

import triton
import triton.language as tl


@triton.jit
def add_by(A, rows, change, t, classes, BLOCK: tl.constexpr):
    """A[rows] += t change"""
    here = tl.program_id(0)
    i = tl.load(rows + here)
    columns = tl.arange(0, BLOCK)
    inside = columns < classes
    moved = tl.load(change + here.to(tl.int64) * classes + columns, mask=inside, other=0.0)
    step = tl.load(t).to(moved.dtype)
    held = tl.load(A + i * classes + columns, mask=inside, other=0.0)
    tl.store(A + i * classes + columns, held + step * moved, mask=inside)


@triton.jit
def slopes_of_rows(W, U, variance, slope, square, width, WEIGHED: tl.constexpr, BLOCK: tl.constexpr):
    """<W, U> and ||U||^2 in the metric of the prior, of each score."""
    here = tl.program_id(0)
    along, bent = tl.zeros((BLOCK,), tl.float64), tl.zeros((BLOCK,), tl.float64)
    for start in range(0, width, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        place = here.to(tl.int64) * width + columns
        u = tl.load(U + place, mask=columns < width, other=0.0).to(tl.float64)
        w = tl.load(W + place, mask=columns < width, other=0.0).to(tl.float64)
        along += w * u
        moved = u * tl.load(variance + place, mask=columns < width, other=0.0).to(tl.float64) if WEIGHED else u
        bent += moved * u
    tl.store(slope + here, tl.sum(along, 0))
    tl.store(square + here, tl.sum(bent, 0))


@triton.jit
def total_of(values, many, BLOCK: tl.constexpr):
    """The sum of so many numbers."""
    found = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, many, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        found += tl.load(values + columns, mask=columns < many, other=0.0)
    return tl.sum(found, 0)


@triton.jit
def line_search(gains, rows, slope, square, scores, sigma, value, t, noise, follow, most, BLOCK: tl.constexpr):
    """How far to go along a joint step whose rewards are linear, for all scores together: writes t, moves sigma and the value."""
    gain = total_of(gains, rows, BLOCK)
    along, bent = total_of(slope, scores, BLOCK), total_of(square, scores, BLOCK)
    ascent = gain - along
    worth = ascent > noise * (tl.abs(gain) + tl.abs(along))
    ratio = tl.where(worth, ascent / tl.maximum(bent, 1e-300), 0.0)
    far = tl.minimum(ratio, 1.0)
    tl.store(t, far)
    tl.store(value, tl.load(value) + far * ascent - 0.5 * far * far * bent)
    kept = tl.where(worth, tl.minimum(tl.maximum(ratio, 0.2), 5.0), 1.0)
    followed = tl.load(sigma) * tl.exp(-follow * tl.log(kept))
    tl.store(sigma, tl.minimum(tl.maximum(followed, 1.0), most))


@triton.jit
def move_by(V, U, variance, t, many, WEIGHED: tl.constexpr, BLOCK: tl.constexpr):
    """V += t variance U"""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    u = tl.load(U + place, mask=place < many, other=0.0)
    if WEIGHED:
        u *= tl.load(variance + place, mask=place < many, other=0.0)
    tl.store(V + place, tl.load(V + place, mask=place < many, other=0.0) + tl.load(t).to(u.dtype) * u, mask=place < many)


@triton.jit
def sums_of_parts(parts, many, scores, k, BLOCK: tl.constexpr):
    """The sum of column k of a table (many, scores)."""
    found = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, many, BLOCK):
        row = start + tl.arange(0, BLOCK)
        found += tl.load(parts + row.to(tl.int64) * scores + k, mask=row < many, other=0.0)
    return tl.sum(found, 0)


@triton.jit
def line_of_scores(
    gains, bends, many, V, U, variance, sigma, rise, t, scores, width, noise, follow, most,
    WEIGHED: tl.constexpr, BENT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """How far to go along the joint step of each score by itself, a program for each: writes t, moves sigma, rise and V."""
    k = tl.program_id(0)
    gain = sums_of_parts(gains, many, scores, k, BLOCK)
    bend = sums_of_parts(bends, many, scores, k, BLOCK) if BENT else 0.0 * gain
    along, square = tl.zeros((BLOCK,), tl.float64), tl.zeros((BLOCK,), tl.float64)
    for start in range(0, width, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        place = k.to(tl.int64) * width + columns
        u = tl.load(U + place, mask=columns < width, other=0.0).to(tl.float64)
        along += tl.load(V + place, mask=columns < width, other=0.0).to(tl.float64) * u
        moved = u * tl.load(variance + place, mask=columns < width, other=0.0).to(tl.float64) if WEIGHED else u
        square += moved * u
    slope = tl.sum(along, 0)
    ascent, total = gain + 0.5 * bend - slope, tl.sum(square, 0) + bend
    worth = ascent > noise * (tl.abs(gain) + tl.abs(slope))
    ratio = tl.where(worth, ascent / tl.maximum(total, 1e-300), 0.0)
    far = tl.minimum(ratio, 1.0)
    tl.store(t + k, far)
    tl.store(rise + k, tl.load(rise + k) + far * ascent - 0.5 * far * far * total)
    kept = tl.where(worth, tl.minimum(tl.maximum(ratio, 0.2), 5.0), 1.0)
    tl.store(sigma + k, tl.minimum(tl.maximum(tl.load(sigma + k) * tl.exp(-follow * tl.log(kept)), 1.0), most))
    for start in range(0, width, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        place = k.to(tl.int64) * width + columns
        u = tl.load(U + place, mask=columns < width, other=0.0)
        v = tl.load(V + place, mask=columns < width, other=0.0)
        if WEIGHED:
            u *= tl.load(variance + place, mask=columns < width, other=0.0)
        tl.store(V + place, v + far.to(u.dtype) * u, mask=columns < width)


@triton.jit
def add_by_scores(A, rows, change, t, many, scores, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """A[rows] += t change, t of each score"""
    r, k = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (r < many)[:, None] & (k < scores)[None, :]
    i = tl.load(rows + r, mask=r < many, other=0)
    step = tl.load(t + k, mask=k < scores, other=0.0).to(tl.float32)[None, :]
    moved = tl.load(change + r.to(tl.int64)[:, None] * scores + k[None, :], mask=inside, other=0.0)
    place = i[:, None] * scores + k[None, :]
    tl.store(A + place, tl.load(A + place, mask=inside, other=0.0) + step * moved, mask=inside)
