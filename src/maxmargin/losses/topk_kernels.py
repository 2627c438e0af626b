"""Kernels for GPUs, in Triton: the step of the top-k losses without smoothing, a program for each row, as `TopKRows` has it.

The projections are those of `tensor_levels` with a bias of one: one equation in one unknown each. Imported where a GPU is used
and nowhere else.
"""

import triton
import triton.language as tl

FAR_BELOW = tl.constexpr(-1e30)  # of classes that take no part
TAKES_PART = tl.constexpr(-1e29)
CONE, BOX, KNAPSACK = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
SEARCHED, HALVED_EVERY = tl.constexpr(200), tl.constexpr(4)  # as in `tensor_levels`
CLOSE = tl.constexpr(2.0**-21)


@triton.jit
def mass_above(a, t):
    """sum (a - t)_+ and how many are above t."""
    rest = a - t
    return tl.sum(tl.maximum(rest, 0.0), 0), tl.sum(tl.where(rest > 0.0, 1.0, 0.0), 0)


@triton.jit
def cone_level(a, u, k):
    """t(u) of the cone, the mass above u and how many are there."""
    above, many = mass_above(a, u)
    return (k * u - above / k) / (1.0 + k), above, many


@triton.jit
def falling(a, u, radius, k, KIND: tl.constexpr):
    """The value and slope at u of the function whose root is looked for."""
    if KIND == CONE:
        t, above, many = cone_level(a, u, k)
        larger, count = mass_above(a, t)
        value = larger - above - k * (u - t)
        slope = many - k - (k + many / k) / (1.0 + k) * (count - k)
    else:
        above, count = mass_above(a, u)
        beyond, full = mass_above(a, u + radius / k)
        if KIND == BOX:
            value, slope = above - beyond - u, full - count - 1.0
        else:
            value, slope = above - beyond - radius, full - count
    return value, slope


@triton.jit
def falling_root(a, low, high, size, radius, k, KIND: tl.constexpr):
    """As `tensor_levels.root`, for one row."""
    u = 0.5 * (low + high)
    searched, rounds = high > low, tl.zeros((), tl.int32)
    while searched:
        value, slope = falling(a, u, radius, k, KIND)
        low, high = tl.where(value >= 0.0, u, low), tl.where(value <= 0.0, u, high)
        middle = 0.5 * (low + high)
        aim = tl.where(slope < 0.0, u - value / tl.minimum(slope, -1e-30), middle)
        aim = tl.where((aim >= low) & (aim <= high) & (rounds % HALVED_EVERY != HALVED_EVERY - 1), aim, middle)
        done = (tl.abs(aim - u) <= CLOSE * tl.abs(u)) | (tl.abs(value) <= CLOSE * size)
        u = tl.where(done, u, aim)
        rounds += 1
        searched = (rounds < SEARCHED) & (done == 0)
    return u


@triton.jit
def largest_of(a, columns, k):
    """The sum of the k largest, that of those above zero, the last of them, the next one, and which they are."""
    total, above, last = 0.0 * tl.max(a, 0), 0.0 * tl.max(a, 0), tl.max(a, 0)
    left, chosen = a, columns < 0
    for _ in range(0, k):
        last = tl.max(left, 0)
        total += last
        above += tl.maximum(last, 0.0)
        here = columns == tl.argmax(left, 0)
        chosen = chosen | here
        left = tl.where(here, FAR_BELOW, left)
    return total, above, last, tl.max(left, 0), chosen


@triton.jit
def topk_projection(a, columns, radius, many, JOINT: tl.constexpr):
    """The projection of a row onto the set of the loss."""
    k = many.to(tl.float32)
    top = tl.max(a, 0)
    if JOINT:
        total, _, last, after, _ = largest_of(a, columns, many)
        worth = total > 0.0
        low = tl.where(worth, tl.where(after > TAKES_PART, after, last), 0.0)
        whole, _ = mass_above(a, 0.0)
        high = tl.where(worth, tl.maximum(top, whole * (1.0 + k) / k), low)
        u = falling_root(a, low, high, tl.abs(high), radius, k, CONE)
        t, _, _ = cone_level(a, u, k)
        mass = tl.where(worth, tl.maximum(k * (u - t), 0.0), 0.0)
        free = tl.minimum(tl.maximum(a - t, 0.0), mass / k)
    else:
        value, _ = falling(a, radius, radius, k, BOX)
        mass = falling_root(a, tl.where(value >= 0.0, radius, 0.0), radius, radius, radius, k, BOX)
        free = tl.minimum(tl.maximum(a - mass, 0.0), radius / k)
    tight = mass >= radius
    least = tl.min(tl.where(a > TAKES_PART, a, top), 0) - radius / k
    t = falling_root(a, tl.where(tight, least, top), top, tl.abs(top) + radius, radius, k, KNAPSACK)
    return tl.where(tight, tl.minimum(tl.maximum(a - t, 0.0), radius / k), free)


@triton.jit
def topk_rows(
    S, A, rows, label, cap, q, sigma, cost, change, gain, share, classes, many, short,
    HAS_COST: tl.constexpr, JOINT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The step of `TopKRows`: change, what it gains (one number a row) and the share of the gap, by example."""
    here = tl.program_id(0)
    i = tl.load(rows + here)
    columns = tl.arange(0, BLOCK)
    inside = columns < classes
    scores = tl.load(S + here.to(tl.int64) * classes + columns, mask=inside, other=0.0)
    duals = tl.load(A + i * classes + columns, mask=inside, other=0.0)
    y, bound = tl.load(label + i), tl.load(cap + i).to(tl.float32)
    curvature = tl.maximum(tl.load(q + i) * tl.load(sigma).to(tl.float32), 1e-37)
    own = columns == y
    if HAS_COST:
        margin = tl.load(cost + y * classes + columns, mask=inside, other=0.0).to(tl.float32)
    else:
        margin = tl.where(own, 0.0, 1.0)
    truth, held = tl.sum(tl.where(own, scores, 0.0), 0), tl.sum(tl.where(own, duals, 0.0), 0)
    others = inside & (columns != y)
    h = tl.where(others, scores + margin - truth, FAR_BELOW)
    k = many.to(tl.float32)
    total, above, _, _, chosen = largest_of(h, columns, many)
    mean = tl.maximum(total, 0.0) if JOINT else above
    tl.store(share + i, (bound * mean / k + tl.sum(tl.where(inside, (scores + margin) * duals, 0.0), 0)).to(tl.float64))

    B = tl.where(others, h + curvature * (held - duals), FAR_BELOW)
    a = topk_projection(tl.where(others, B / curvature, FAR_BELOW), columns, bound, many, JOINT)
    if JOINT:
        worth = tl.where(total > 0.0, bound / k, 0.0) + 0.0 * B
    else:
        worth = tl.where(h > 0.0, bound / k, 0.0)
    vertex = tl.where(chosen, worth, 0.0)
    a = tl.where(curvature * bound <= short * tl.max(B, 0), vertex, a)
    a = tl.where(others, a, 0.0)
    moved = tl.where(own, tl.sum(a, 0), -a) - duals
    tl.store(change + here.to(tl.int64) * classes + columns, moved, mask=inside)
    tl.store(gain + here, -tl.sum(tl.where(inside, moved.to(tl.float64) * margin.to(tl.float64), 0.0), 0))
