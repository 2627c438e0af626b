"""Weights that nobody computes with, in as little memory as they need: each is as large as all features times all labels, mostly
zeros, and a run keeps several of them from pass to pass. Nothing is lost.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...jit import kernel, vectors

NUMBERS_OF_A_PART = 1 << 16  # computed with at a time; arrays that have no more rest as they are. By guess, 2026-11-17


class Resting(NamedTuple):
    """The numbers of an array: all of them, or those that are not zero."""

    places: np.ndarray  # as many as `values`; none where these are all
    values: np.ndarray


ZEROS = Resting(np.zeros(0, np.uint32), np.zeros(0))  # zeros


def is_whole(resting: Resting) -> bool:
    return resting.places.size < resting.values.size


@kernel
def list_sums(flat, places, values, some_places, some_values):
    """The sums of an array and of the numbers that it has at some places, where they are not zero; returns how many there are."""
    count = k = 0
    for i in range(flat.size):
        x = flat[i]
        if k < some_places.size and some_places[k] == i:
            x += some_values[k]
            k += 1
        places[count] = i  # a zero is overwritten by the next: cheaper than a branch
        values[count] = x
        count += x != 0.0
    return count


def at_rest(array: np.ndarray) -> Resting:
    """The numbers of an array of float64."""
    return with_added(ZEROS, array)


def with_added(resting: Resting, array: np.ndarray) -> Resting:
    """The sums of the numbers of both."""
    flat = array.reshape(-1)
    if is_whole(resting):
        return Resting(ZEROS.places, resting.values + flat)
    most = int(np.count_nonzero(flat.view(np.int64))) + resting.places.size + 1
    if flat.size <= NUMBERS_OF_A_PART or 2 * most > flat.size or flat.size > np.iinfo(np.uint32).max:
        found = flat.copy()
        found[resting.places] += resting.values
        return Resting(ZEROS.places, found)
    places, values = vectors.zeros_apart(most, np.uint32), vectors.zeros_apart(most, np.float64)
    count = list_sums(flat, places, values, *resting)
    return Resting(places[:count], values[:count])  # pages that were not written to take no memory


def share_at_rest(resting: Resting, number: float) -> Resting:
    return resting._replace(values=resting.values / number)


def roused(resting: Resting, out: np.ndarray) -> np.ndarray:
    """All numbers, written to `out`."""
    flat = out.reshape(-1)
    if is_whole(resting):
        flat[...] = resting.values
    else:
        flat[...] = 0.0
        flat[resting.places] = resting.values
    return out


def in_parts(resting: Resting, size: int) -> Iterator[tuple[slice, np.ndarray]]:
    """`size` numbers in parts, each in memory of its own."""
    starts = range(0, size, NUMBERS_OF_A_PART)
    ends = np.searchsorted(resting.places, [min(first + NUMBERS_OF_A_PART, size) for first in starts]).tolist()
    at = 0
    for first, end in zip(starts, ends, strict=True):
        part = slice(first, min(first + NUMBERS_OF_A_PART, size))
        if is_whole(resting):
            yield part, resting.values[part].copy()
            continue
        found = np.zeros(part.stop - first)
        found[resting.places[at:end] - np.uint32(first)] = resting.values[at:end]
        at = end
        yield part, found


def go_beyond(array: np.ndarray, before: Resting, t: float) -> None:
    """array += t (array - before)"""
    flat = array.reshape(-1)
    for part, change in in_parts(before, flat.size):
        np.subtract(flat[part], change, out=change)
        change *= t
        flat[part] += change
