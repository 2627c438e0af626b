"""Kernels for GPUs, in Triton: the step of losses of one score each, as `tensor_forms` has it.

Imported where a GPU is used and nowhere else.
"""

import triton
import triton.language as tl

NO_CURVE = tl.constexpr(1e-37)


@triton.jit
def halved_square(d, cap):
    """d^2 / (2 cap), zero where the cap is."""
    return tl.where(cap > 0.0, d * (d / (2.0 * tl.maximum(cap, NO_CURVE))), 0.0)


@triton.jit
def soft_threshold(u, epsilon):
    return tl.maximum(u - epsilon, 0.0) + tl.minimum(u + epsilon, 0.0)


@triton.jit
def entry_loss(slope, cap, epsilon, ABSOLUTE: tl.constexpr, SQUARED: tl.constexpr):
    """The losses: of the excess of the slope, or of its absolute value, over epsilon; or of its square."""
    size = tl.abs(slope) if ABSOLUTE else slope
    over = tl.maximum(size - epsilon, 0.0)
    return cap * over * over if SQUARED else cap * over


@triton.jit
def entry_cost(a, cap, epsilon, ABSOLUTE: tl.constexpr, SQUARED: tl.constexpr):
    """What is taken off offset * a in the reward."""
    found = epsilon * tl.abs(a) if ABSOLUTE else 0.0 * a
    return found + 0.5 * halved_square(a, cap) if SQUARED else found


@triton.jit
def entry_best(a, slope, q, cap, epsilon, ABSOLUTE: tl.constexpr, SQUARED: tl.constexpr):
    """The best dual, all others fixed, for the curvature q."""
    aim = slope + q * a
    aim = soft_threshold(aim, epsilon) if ABSOLUTE else aim
    if SQUARED:
        best = 2.0 * cap * aim / (2.0 * cap * q + 1.0)
        return best if ABSOLUTE else tl.maximum(best, 0.0)
    best = tl.minimum(aim / tl.maximum(q, NO_CURVE), cap)
    return tl.maximum(best, -cap) if ABSOLUTE else tl.maximum(best, 0.0)


@triton.jit
def entry_rows(
    S, A, rows, first, second, known, weight, margin, cap, q, sigma, change, gain, bend, share, many, scores, width, epsilon,
    BITS: tl.constexpr, ABSOLUTE: tl.constexpr, SQUARED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The step of `EntryRows`: change, what it gains and bends for each score (one row of sums a program), shares by example.

    With BITS `first` are the bytes of labels that are present; else `first` and `second` are signs and offsets of examples."""
    here = tl.program_id(0)
    r = here * ROWS + tl.arange(0, ROWS)
    there = r < many
    i = tl.load(rows + r, mask=there, other=0)
    bound, curvature = tl.load(cap + i, mask=there, other=0.0).to(tl.float32), tl.load(q + i, mask=there, other=0.0)
    shares = tl.zeros((ROWS,), tl.float32)
    for start in range(0, scores, BLOCK):
        k = start + tl.arange(0, BLOCK)
        inside = there[:, None] & (k < scores)[None, :]
        place = r.to(tl.int64)[:, None] * scores + k[None, :]
        s = tl.load(S + place, mask=inside, other=0.0)
        held = tl.load(A + i[:, None] * scores + k[None, :], mask=inside, other=0.0)
        if BITS:
            byte, bit = i[:, None] * width + (k // 8)[None, :], (k % 8)[None, :]
            has = ((tl.load(first + byte, mask=inside, other=0).to(tl.int32) >> bit) & 1) == 1
            seen = ((tl.load(known + byte, mask=inside, other=0).to(tl.int32) >> bit) & 1) == 1
            sign = tl.where(has, 1.0, -1.0)
            pair = (2 * k)[None, :] + has.to(tl.int32)
            offset = tl.load(margin + pair, mask=inside, other=0.0).to(tl.float32)
            limit = bound[:, None] * tl.where(seen, tl.load(weight + pair, mask=inside, other=0.0).to(tl.float32), 0.0)
        else:
            sign = tl.load(first + i, mask=there, other=1.0).to(tl.float32)[:, None] + 0.0 * s
            offset = tl.load(second + i, mask=there, other=0.0).to(tl.float32)[:, None] + 0.0 * s
            limit = bound[:, None] + 0.0 * s
        limit = tl.where(inside, limit, 0.0)
        slope, a = offset - sign * s, sign * held
        steep = curvature[:, None] * tl.load(sigma + k, mask=k < scores, other=1.0).to(tl.float32)[None, :]
        price = entry_cost(a, limit, epsilon, ABSOLUTE, SQUARED)
        shares += tl.sum(tl.where(inside, entry_loss(slope, limit, epsilon, ABSOLUTE, SQUARED) + price - a * slope, 0.0), 1)
        new = entry_best(a, slope, steep, limit, epsilon, ABSOLUTE, SQUARED)
        moved = tl.where(inside, new - a, 0.0)
        gained = offset * moved - (entry_cost(new, limit, epsilon, ABSOLUTE, SQUARED) - price)
        tl.store(change + place, sign * moved, mask=inside)
        sums = here.to(tl.int64) * scores + k
        tl.store(gain + sums, tl.sum(tl.where(inside, gained, 0.0).to(tl.float64), 0), mask=k < scores)
        if SQUARED:
            bent = tl.where(inside, halved_square(moved, limit), 0.0)
            tl.store(bend + sums, tl.sum(bent.to(tl.float64), 0), mask=k < scores)
    tl.store(share + i, shares.to(tl.float64), mask=there)
