"""Visits to examples: what one thread does with the part of the data that is given to it, alone or beside others."""

import numpy as np

from ...data import rows
from ...data.rows import dot
from ...jit import jitable_call, vectors
from ...losses.base import clip, reward, row_prefetch, row_step, step, value
from ...regularizers.spaces import move, move_row
from .schedule import prefetch_plan, reschedule, resting, visited


@jitable_call
def visit_scalars(X, loss, space, duals, curvature, plan, visit, level):
    """Visit plan.order[start:stop]; returns the sum of the shares of the gap and the change of the reward. Every change moves the
    weights `spread` times: see `parted`."""
    now, start, stop, spread = visit
    gap, gain = 0.0, 0.0
    for k in range(start, stop):
        i = plan.order[k]
        if k + 2 * plan.ahead < stop:
            rows.prefetch_index(X, plan.order[k + 2 * plan.ahead])
        if k + plan.ahead < stop:
            ahead = plan.order[k + plan.ahead]
            rows.prefetch(X, ahead)
            vectors.prefetch(duals, ahead)
            vectors.prefetch(curvature, ahead)
            prefetch_plan(plan, ahead)
        score = np.float64(dot(X, i, space.w))
        old = duals[i]
        held = reward(loss, i, old)
        share = value(loss, i, score) - held + old * score
        if share > level:
            new = step(loss, i, score, old, spread * curvature[i])
            move(space, X, i, spread * (new - old))
            gain += reward(loss, i, new) - held
            duals[i] = new
        gap += share
        reschedule(plan, i, now, share <= level)
    return gap, gain


@jitable_call
def reach_scalars(X, loss, space, duals, before, plan, visit, t):
    """Extrapolate each visited dual of a range as far as it can go and correct the pushed weights; returns the change of the
    reward."""
    now, start, stop = visit
    gain = 0.0
    for i in range(start, stop):
        if visited(plan, i, now):
            dual = duals[i]
            change = dual - before[i]
            target = dual if resting(plan, i) else clip(loss, i, dual + t * change)
            short = target - dual - t * change
            if short != 0.0:
                move(space, X, i, short)
            gain += reward(loss, i, target) - reward(loss, i, dual)
            duals[i], before[i] = target, dual
    return gain


@jitable_call
def visit_rows(X, loss, space, duals, curvature, plan, visit, scratch):
    """As `visit_scalars`, for rows; scratch holds scores, change and the level of calm."""
    now, start, stop, spread = visit
    scores, change, level = scratch
    gap, gain = 0.0, 0.0
    for k in range(start, stop):
        i = plan.order[k]
        if k + 2 * plan.ahead < stop:
            rows.prefetch_index(X, plan.order[k + 2 * plan.ahead])
        if k + plan.ahead < stop:
            ahead = plan.order[k + plan.ahead]
            rows.prefetch(X, ahead)
            rows.prefetch_row(duals.vectors, ahead)
            vectors.prefetch(curvature, ahead)
            row_prefetch(loss, ahead)
            prefetch_plan(plan, ahead)
            if space.w.size > plan.cached:
                rows.prefetch_weights(X, plan.order[k + 1], space.w)
        rows.scores(X, i, space.w, scores.vectors)
        share, stepped, reward_change = row_step(loss, i, spread * curvature[i], scores, duals, change, level)
        if stepped:
            if spread != 1.0:
                vectors.scale(change.vectors, spread)
            move_row(space, X, i, change.vectors)
            gain += reward_change
        gap += share
        reschedule(plan, i, now, share <= level)
    return gap, gain
