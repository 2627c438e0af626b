"""Kernels for GPUs, in Triton: a program for each row of a block, which reads its scores once and keeps them in registers.

Imported where a GPU is used and nowhere else.
"""

import triton
import triton.language as tl


@triton.jit
def level_of_set(count, total, room):
    """As `crammer_singer.level_of`; that of no class is far on the left."""
    free = total / (count + 1.0)
    tight = (total - room) / tl.maximum(count, 1.0)
    return tl.where(count > 0.0, tl.where(total <= room * (count + 1.0), free, tight), -1e30)


@triton.jit
def crammer_singer_rows(
    S, A, rows, label, cap, q, sigma, cost, change, gain, share, classes, short, HAS_COST: tl.constexpr, BLOCK: tl.constexpr
):
    """The step of `CrammerSingerRows`: change, what it gains (one number a row) and the share of the gap, by example."""
    here = tl.program_id(0)
    i = tl.load(rows + here)
    columns = tl.arange(0, BLOCK)
    inside = columns < classes
    scores = tl.load(S + here.to(tl.int64) * classes + columns, mask=inside, other=-1e30)
    duals = tl.load(A + i * classes + columns, mask=inside, other=0.0)
    y, bound = tl.load(label + i), tl.load(cap + i).to(tl.float32)
    curvature = tl.load(q + i) * tl.load(sigma).to(tl.float32)
    own = columns == y
    if HAS_COST:
        margin = tl.load(cost + y * classes + columns, mask=inside, other=0.0).to(tl.float32)
    else:
        margin = tl.where(own, 0.0, 1.0)
    h = scores + margin
    truth, held = tl.sum(tl.where(own, scores, 0.0), 0), tl.sum(tl.where(own, duals, 0.0), 0)
    tl.store(share + i, (bound * (tl.max(h, 0) - truth) + tl.sum(tl.where(inside, h * duals, 0.0), 0)).to(tl.float64))

    B = tl.where(own | (columns >= classes), -1e30, h - truth + curvature * (held - duals))
    best, room = tl.max(B, 0), curvature * bound
    support = (duals < 0.0) & (columns != y)
    before = level_of_set(tl.sum(tl.where(support, 1.0, 0.0), 0), tl.sum(tl.where(support, B, 0.0), 0), room)
    t = tl.maximum(level_of_set(1.0, best, room), before)
    rises = best > 0.0
    while rises:
        over = t < B
        new = level_of_set(tl.sum(tl.where(over, 1.0, 0.0), 0), tl.sum(tl.where(over, B, 0.0), 0), room)
        rises = new > t
        t = tl.maximum(new, t)
    a = tl.maximum(B - t, 0.0) / tl.maximum(curvature, 1e-37)
    a = tl.where(room <= short * best, tl.where(columns == tl.argmax(B, 0), bound, 0.0), a)
    a = tl.where(best > 0.0, a, 0.0)
    moved = tl.where(own, tl.sum(a, 0), -a) - duals
    tl.store(change + here.to(tl.int64) * classes + columns, moved, mask=inside)
    tl.store(gain + here, -tl.sum(tl.where(inside, moved.to(tl.float64) * margin.to(tl.float64), 0.0), 0))


@triton.jit
def crammer_singer_repair(A, out, rows, label, cap, cost, rewards, classes, HAS_COST: tl.constexpr, BLOCK: tl.constexpr):
    """`CrammerSingerRows.repaired` in float64, from a table A of the block itself."""
    here = tl.program_id(0)
    i = tl.load(rows + here)
    columns = tl.arange(0, BLOCK)
    inside = columns < classes
    y, bound = tl.load(label + i), tl.load(cap + i)
    own = columns == y
    a = tl.maximum(-tl.load(A + here.to(tl.int64) * classes + columns, mask=inside, other=0.0).to(tl.float64), 0.0)
    a = tl.where(own, 0.0, a)
    mass = tl.sum(a, 0)
    a *= tl.where(mass > bound, bound / tl.maximum(mass, 1e-300), 1.0)
    whole = tl.sum(a, 0)
    reward = whole
    if HAS_COST:
        reward = tl.sum(a * tl.load(cost + y * classes + columns, mask=inside, other=0.0), 0)
    tl.store(out + here.to(tl.int64) * classes + columns, tl.where(own, whole, -a), mask=inside)
    tl.store(rewards + here, reward)


@triton.jit
def crammer_singer_value(S, rows, label, cap, cost, losses, classes, HAS_COST: tl.constexpr, BLOCK: tl.constexpr):
    """`CrammerSingerRows.value`, one number for each row."""
    here = tl.program_id(0)
    i = tl.load(rows + here)
    columns = tl.arange(0, BLOCK)
    inside = columns < classes
    y = tl.load(label + i)
    own = columns == y
    scores = tl.load(S + here.to(tl.int64) * classes + columns, mask=inside, other=-1e30)
    if HAS_COST:
        h = scores + tl.load(cost + y * classes + columns, mask=inside, other=0.0)
    else:
        h = scores + tl.where(own, 0.0, 1.0)
    truth = tl.sum(tl.where(own, scores, 0.0), 0)
    tl.store(losses + here, tl.load(cap + i) * (tl.max(h, 0) - truth))
