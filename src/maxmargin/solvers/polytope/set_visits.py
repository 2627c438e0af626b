"""Visits to samples that keep sets of outputs, and what masses do between passes: see `working_set`."""

import numpy as np

from ...jit import jitable, jitable_call, kernel
from ...structures.encoded import contract
from ..ascent.schedule import reschedule
from .sets import BEFORE, DUST, LOSS, MASS, SIZE, SLOT, USED, code_at, insert
from .signed import move_weights, prepare_with
from .steps import improve


@kernel
def set_pass(sets, data, space, cap, plan, visit, workspace, method):
    """As `visit_sets`."""
    return visit_sets(sets, data, space, cap, plan, visit, workspace, method)


@jitable_call
def visit_sets(sets, data, space, cap, plan, visit, workspace, method):
    """Visit plan.order[start:stop]; returns the last of `workspace` and by how much the dual value rose, in one sum, and how
    often the oracle was asked."""
    now, start, stop = visit
    scratch, shares, asked, h, before, level, trust, patience, rise = workspace
    calls = 0
    for k in range(start, stop):
        i = np.int64(plan.order[k])
        if cap[i] > 0.0:
            prepare_with(space, data, i, scratch)
            top, mean = survey_set(sets, data, i, scratch, h)
            share, place = cap[i] * (h[top] - mean), top
            if share <= trust * shares[i] or now >= asked[i] + patience:  # the outputs met so far do not promise enough
                asked[i] = now
                value = contract.worst(data, i, scratch, scratch.code)
                calls += 1
                share, place = cap[i] * (value - mean), -1
                shares[i] = share
            if share > level:
                if place < 0:
                    place = insert(data, sets, i, scratch, now)
                if place >= 0:
                    rise += work_on(sets, data, i, space, cap[i], (scratch, h, before, place, now), method)
            reschedule(plan, i, now, share <= level)
        else:
            shares[i] = 0.0
            reschedule(plan, i, now, True)
    return rise, calls


@jitable
def survey_set(sets, data, i, scratch, h):
    """h of each output in the set; returns the place of the largest and their mean."""
    slot, top, mean = sets.sample[i, SLOT], 0, 0.0
    for j in range(sets.sample[i, SIZE]):
        code = sets.codes[code_at(data, sets, i, j) : code_at(data, sets, i, j + 1)]
        h[j] = sets.slots[slot + j, LOSS] + contract.score_of(data, i, scratch, code)
        mean += sets.slots[slot + j, MASS] * h[j]
        if h[j] > h[top]:
            top = j
    return top, mean


@jitable_call
def work_on(sets, data, i, space, cap, workspace, method):
    """Improve the distribution of sample i, given the place of its worst offender; the weights follow."""
    scratch, h, before, place, now = workspace
    slot, size = sets.sample[i, SLOT], sets.sample[i, SIZE]
    if size < 2:  # nothing but the true output
        return 0.0
    h[place] = sets.slots[slot + place, LOSS] + contract.score_of(
        data, i, scratch, sets.codes[code_at(data, sets, i, place) : code_at(data, sets, i, place + 1)]
    )
    for j in range(size):
        before[j] = sets.slots[slot + j, MASS]
    rise = improve(method, sets, i, h, cap, place)
    contract.clear(data, i, scratch)
    for j in range(size):
        change = sets.slots[slot + j, MASS] - before[j]
        if change != 0.0:
            contract.tally(data, i, -change, sets.codes[code_at(data, sets, i, j) : code_at(data, sets, i, j + 1)], scratch)
        if sets.slots[slot + j, MASS] > 0.0:
            sets.slots[slot + j, USED] = now
    move_weights(space, data, i, cap, scratch)
    return rise


# ---- extrapolation ---------------------------------------------------------------------------------------


@kernel
def reach(sets, data, W, cap, scratch, reached, t):
    """As `reach_sets`, of all samples."""
    return reach_sets(sets, data, W, cap, scratch, reached, t, (0, cap.size))


@jitable_call
def reach_sets(sets, data, W, cap, scratch, reached, t, span):
    """How far the masses of these samples can go on as they went in the last pass: into `reached`, t at the most. `W` has gone t
    for all and is corrected for those that cannot. Returns the change of the expected losses."""
    gain = 0.0
    for i in range(span[0], span[1]):
        far, slope, moved = t, 0.0, False
        slot, size = sets.sample[i, SLOT], sets.sample[i, SIZE]
        for s in range(slot, slot + size):
            change = sets.slots[s, MASS] - sets.slots[s, BEFORE]
            slope += change * sets.slots[s, LOSS]
            moved = moved or change != 0.0
            if sets.slots[s, MASS] + far * change < 0.0:
                far = -sets.slots[s, MASS] / change
        if moved and far != t:
            contract.clear(data, i, scratch)
            for j in range(size):
                change = sets.slots[slot + j, MASS] - sets.slots[slot + j, BEFORE]
                if change != 0.0:
                    code = sets.codes[code_at(data, sets, i, j) : code_at(data, sets, i, j + 1)]
                    contract.tally(data, i, (t - far) * change, code, scratch)
            contract.push(data, i, cap[i], scratch, W)
        reached[i] = far
        gain += cap[i] * far * slope
    return gain


@kernel
def commit(sets, reached, accept):
    """As `commit_sets`, of all samples."""
    commit_sets(sets, reached, accept, (0, reached.size))


@jitable_call
def commit_sets(sets, reached, accept, span):
    """Take the extrapolated masses of these samples, or not, and remember those of this pass."""
    for i in range(span[0], span[1]):
        for s in range(sets.sample[i, SLOT], sets.sample[i, SLOT] + sets.sample[i, SIZE]):
            mass = sets.slots[s, MASS]
            if accept:
                new = mass + reached[i] * (mass - sets.slots[s, BEFORE])
                sets.slots[s, MASS] = new if new > DUST else 0.0
            sets.slots[s, BEFORE] = mass
