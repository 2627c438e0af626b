"""Sets: for each sample the outputs that its distribution gives mass to, with their masses, losses and inner products.

Outputs are stored as their codes: memory grows with the outputs that matter, never with the number of weights.
"""

from typing import NamedTuple

import numpy as np

from ...jit import jitable, jitable_call, kernel, vectors
from ...structures.encoded import contract
from ...structures.encoded.statistics import starts, within

SIZE, CAPACITY, SLOT, CODES, PRODUCTS, CROWDED = range(6)  # the columns of Sets.sample
MASS, BEFORE, LOSS, USED = range(4)  # the columns of Sets.slots
DUST = 1e-15  # mass below this is rounding


class Sets(NamedTuple):
    """The sets of all samples, one after another until they grow. Few arrays with several columns: the time to compile a kernel
    grows with the number of arrays that its functions hand on."""

    # For each sample: outputs in use, and at the most; where its slots start, its codes, and its inner products (as a square
    # of its capacity); 1 where there was no place for an output.
    sample: np.ndarray
    # For each slot: the mass of the output, which sums to one over a sample; the same after the pass before; the loss; the
    # last pass in which the output had mass or was found.
    slots: np.ndarray
    codes: np.ndarray
    gram: np.ndarray  # NaN where it was not needed yet


@jitable
def code_at(data, sets, i, j):
    """Where the code of output j starts (compiled code that counts no references cannot return the slice itself)."""
    return sets.sample[i, CODES] + j * contract.length(data, i)


@jitable
def same_code(a, b):
    """Whether code a is the beginning of b, which may be longer."""
    for p in range(a.size):  # noqa: SIM110 - kernels have no all()
        if a[p] != b[p]:
            return False
    return True


@contract.withdraw.register(Sets)
def _(points, data, i, scratch):
    for j in range(points.sample[i, SIZE]):
        mass = points.slots[points.sample[i, SLOT] + j, MASS]
        if mass > 0.0:
            contract.tally(data, i, -mass, points.codes[code_at(data, points, i, j) : code_at(data, points, i, j + 1)], scratch)


@contract.depart.register(Sets)
def _(points, data, i, scratch):
    """Where C is large, masses of wrong outputs may be tiny beside the one that is left for the true one: nothing is subtracted
    from it."""
    contract.clear(data, i, scratch)
    for j in range(points.sample[i, SIZE]):
        mass, code = points.slots[points.sample[i, SLOT] + j, MASS], code_at(data, points, i, j)
        if mass > 0.0 and not same_code(points.codes[code : code_at(data, points, i, j + 1)], scratch.code):
            contract.tally(data, i, mass, scratch.code, scratch)
            contract.tally(data, i, -mass, points.codes[code : code_at(data, points, i, j + 1)], scratch)


@contract.expected_loss.register(Sets)
def _(points, data, i):
    total = 0.0
    for s in range(points.sample[i, SLOT], points.sample[i, SLOT] + points.sample[i, SIZE]):
        total += points.slots[s, MASS] * points.slots[s, LOSS]
    return total


@jitable_call
def insert(data, sets, i, scratch, now):
    """Put scratch.code into the set of sample i; returns its place, or -1 if every output there has mass and the set is full."""
    slot, size = sets.sample[i, SLOT], sets.sample[i, SIZE]
    place = -1
    for j in range(size):
        if same_code(sets.codes[code_at(data, sets, i, j) : code_at(data, sets, i, j + 1)], scratch.code):
            sets.slots[slot + j, USED] = now
            return j
    if size < sets.sample[i, CAPACITY]:
        place = size
        sets.sample[i, SIZE] = size + 1
    else:
        for j in range(size):
            idle = sets.slots[slot + j, MASS] <= 0.0 and sets.slots[slot + j, BEFORE] <= 0.0
            if idle and (place < 0 or sets.slots[slot + j, USED] < sets.slots[slot + place, USED]):
                place = j
        if place < 0:
            sets.sample[i, CROWDED] = 1
            return -1
        contract.forget(data, i, sets.codes[code_at(data, sets, i, place) : code_at(data, sets, i, place + 1)])
    code = sets.codes[code_at(data, sets, i, place) : code_at(data, sets, i, place + 1)]
    for p in range(code.size):
        code[p] = scratch.code[p]
    sets.slots[slot + place, MASS], sets.slots[slot + place, BEFORE], sets.slots[slot + place, USED] = 0.0, 0.0, now
    sets.slots[slot + place, LOSS] = contract.loss_of(data, i, code)
    at, wide = sets.sample[i, PRODUCTS], sets.sample[i, CAPACITY]
    if np.isnan(sets.gram[at]):  # the true output, which was put there without
        first = sets.codes[code_at(data, sets, i, 0) : code_at(data, sets, i, 1)]
        contract.against(data, i, scratch, first)
        sets.gram[at] = contract.inner(data, i, scratch, first)
    contract.against(data, i, scratch, code)
    for j in range(sets.sample[i, SIZE]):
        product = contract.inner(data, i, scratch, sets.codes[code_at(data, sets, i, j) : code_at(data, sets, i, j + 1)])
        sets.gram[at + place * wide + j] = product
        sets.gram[at + j * wide + place] = product
    return place


@contract.kind_of.register(Sets)
def _(points):
    return "sets"


@contract.numbers_of.register(Sets)
def _(points, data, samples):
    return [(points.slots, (within(points.sample[samples, SLOT], points.sample[samples, CAPACITY]), MASS))]


@contract.with_new_truths.register(Sets)
def _(points, before, after):
    old, sizes = contract.truths(before)
    new = contract.truths(after)[0]
    if np.any(sizes != 1):  # slots and codes are then not the same places
        return None
    result = contract.copied(points)
    capacity = points.sample[:, CAPACITY]
    owner, places = np.repeat(np.arange(sizes.size), capacity), within(points.sample[:, CODES], capacity)
    codes, was, now = points.codes[places], old[owner], new[owner]
    result.codes[places] = np.where(codes == was, now, np.where(codes == now, was, codes))
    return result


# ---- making and growing sets -----------------------------------------------------------------------------


@kernel
def refresh_sets(sets, data, scratch):
    """Losses and inner products anew, for codes that come from elsewhere."""
    for i in range(sets.sample.shape[0]):
        at, wide = sets.sample[i, PRODUCTS], sets.sample[i, CAPACITY]
        for j in range(sets.sample[i, SIZE]):
            code = sets.codes[code_at(data, sets, i, j) : code_at(data, sets, i, j + 1)]
            sets.slots[sets.sample[i, SLOT] + j, LOSS] = contract.loss_of(data, i, code)
            sets.slots[sets.sample[i, SLOT] + j, BEFORE] = sets.slots[sets.sample[i, SLOT] + j, MASS]
            contract.against(data, i, scratch, code)
            for k in range(j + 1):
                product = contract.inner(data, i, scratch, sets.codes[code_at(data, sets, i, k) : code_at(data, sets, i, k + 1)])
                sets.gram[at + j * wide + k] = product
                sets.gram[at + k * wide + j] = product


def refresh(sets: Sets, data) -> Sets:
    refresh_sets(sets, data, contract.new_scratch(data))
    return sets


def laid_out(size_of: np.ndarray, capacity: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Where samples with places for so many outputs lie, one after another, as `Sets.sample`; where slots, codes and inner
    products end."""
    sample = np.zeros((capacity.size, 6), np.int64)
    sample[:, CAPACITY] = capacity
    ends = []
    for column, sizes in ((SLOT, capacity), (CODES, capacity * size_of), (PRODUCTS, capacity * capacity)):
        first = starts(sizes)
        sample[:, column] = first[:-1]
        ends.append(int(first[-1]))
    return sample, ends


def empty(size_of: np.ndarray, capacity: np.ndarray, spare: float = 0.0) -> Sets:
    """Sets without outputs, with places for so many of each sample; codes of `size_of` numbers. `spare`: the part of the memory
    that is there besides, for sets that grow."""
    sample, ends = laid_out(size_of, capacity)
    slots, codes, products = (int((1.0 + spare) * end) for end in ends)
    gram = vectors.aligned((products,), np.float64)
    gram[: ends[2]] = np.nan
    return Sets(sample, vectors.aligned((slots, 4), np.float64), vectors.aligned((codes,), np.int32), gram)


def at_truth(data, capacity: int) -> Sets:
    """Sets that hold the true output only."""
    codes, size_of = contract.truths(data)
    sets = empty(size_of, np.full(size_of.size, capacity, np.int64))
    sets.sample[:, SIZE] = 1
    sets.slots[sets.sample[:, SLOT], MASS] = sets.slots[sets.sample[:, SLOT], BEFORE] = 1.0
    sets.codes[within(sets.sample[:, CODES], size_of)] = codes
    return sets


def normalise(sets: Sets) -> None:
    """Masses that sum to one again: rounding, and dust that was dropped, add up over many passes, and the weights of what is
    missing or too much would be those of no point."""
    size = sets.sample[:, SIZE]
    slots, owner = within(sets.sample[:, SLOT], size), np.repeat(np.arange(size.size), size)
    sets.slots[slots, MASS] /= np.bincount(owner, sets.slots[slots, MASS], size.size)[owner]


def grown(old: Sets, size_of: np.ndarray, spare: float = 0.0) -> Sets:
    """The same sets with twice the places where there was none left: in the same arrays, behind all others, as long as these have
    room; else in new ones, of which a part is `spare`."""
    capacity, crowded = old.sample[:, CAPACITY], np.flatnonzero(old.sample[:, CROWDED])
    moved, more = laid_out(size_of[crowded], 2 * capacity[crowded])
    arrays, columns = (old.slots, old.codes, old.gram), (SLOT, CODES, PRODUCTS)
    sizes = capacity, capacity * size_of, capacity * capacity
    ends = [int(np.max(old.sample[:, c] + n, initial=0)) for c, n in zip(columns, sizes, strict=True)]
    if any(end + n > len(array) for end, n, array in zip(ends, more, arrays, strict=True)):
        new = empty(size_of, np.where(old.sample[:, CROWDED] == 1, 2 * capacity, capacity), spare)
        move_sets(old, new, size_of)
        return new
    moved[:, columns] += ends
    old.gram[ends[2] : ends[2] + more[2]] = np.nan
    move_sets(old._replace(sample=old.sample[crowded]), old._replace(sample=moved), size_of[crowded])
    old.sample[crowded] = moved
    return old


@kernel
def move_sets(old, new, size_of):
    """All outputs of `old` with their inner products, into sets of at least as many places."""
    for i in range(size_of.size):
        size, wide, wider = old.sample[i, SIZE], old.sample[i, CAPACITY], new.sample[i, CAPACITY]
        new.sample[i, SIZE] = size
        for j in range(size):
            for column in range(old.slots.shape[1]):
                new.slots[new.sample[i, SLOT] + j, column] = old.slots[old.sample[i, SLOT] + j, column]
        for k in range(size * size_of[i]):
            new.codes[new.sample[i, CODES] + k] = old.codes[old.sample[i, CODES] + k]
        for j in range(wide):
            here, there = old.sample[i, PRODUCTS] + j * wide, new.sample[i, PRODUCTS] + j * wider
            for k in range(wide):
                new.gram[there + k] = old.gram[here + k]


# ---- sets of some samples, and of more ----------------------------------------------------------------------


def put_into(new: Sets, at: np.ndarray, old: Sets, of: np.ndarray, size_of: np.ndarray) -> None:
    """The outputs of the samples `of`, whose codes have `size_of` numbers, as those of the samples `at`; without products."""
    size = old.sample[of, SIZE]
    new.sample[at, SIZE] = size
    new.slots[within(new.sample[at, SLOT], size)] = old.slots[within(old.sample[of, SLOT], size)]
    new.codes[within(new.sample[at, CODES], size * size_of)] = old.codes[within(old.sample[of, CODES], size * size_of)]


def of_samples(old: Sets, size_of: np.ndarray, which: np.ndarray) -> Sets:
    """The sets of some samples; the next run computes their products anew."""
    new = empty(size_of[which], old.sample[which, CAPACITY])
    put_into(new, np.arange(which.size), old, which, size_of[which])
    return new


def continued(old: Sets, data, capacity: int) -> Sets:
    """The sets of these samples, of which the first are those of `old`; the others have their true outputs."""
    rest, count = at_truth(data, capacity), len(old.sample)
    size_of = contract.truths(data)[1]
    new = empty(size_of, np.concatenate([old.sample[:, CAPACITY], rest.sample[count:, CAPACITY]]))
    for sets, which in ((old, np.arange(count)), (rest, np.arange(count, size_of.size))):
        put_into(new, which, sets, which, size_of[which])
    return new


def with_other_outputs(sets: Sets, data) -> np.ndarray:
    """Which samples have mass on any output but the true one."""
    codes, size_of = contract.truths(data)
    size, first = sets.sample[:, SIZE], starts(size_of)
    slots, owner = within(sets.sample[:, SLOT], size), np.repeat(np.arange(size.size), size)
    held = sets.slots[slots, MASS] > 0.0
    owner, place = owner[held], (slots - sets.sample[owner, SLOT])[held]
    theirs = within(sets.sample[owner, CODES] + place * size_of[owner], size_of[owner])
    differs = sets.codes[theirs] != codes[within(first[owner], size_of[owner])]
    result = np.zeros(size.size, bool)
    result[np.repeat(owner, size_of[owner])[differs]] = True
    return result


def bytes_of_sets(sets: Sets, size_of: np.ndarray) -> np.ndarray:
    """The memory that each sample takes."""
    capacity = sets.sample[:, CAPACITY]
    each = sets.slots.shape[1] * sets.slots.itemsize + size_of * sets.codes.itemsize + capacity * sets.gram.itemsize
    return capacity * each + sets.sample.shape[1] * sets.sample.itemsize
