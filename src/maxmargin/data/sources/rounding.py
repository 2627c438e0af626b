"""Decimal numbers of up to 19 digits, rounded to the nearest double (after Lemire 2021)."""

from functools import cache
from typing import NamedTuple

import numpy as np

from ...jit import jitable, jitable_call

FINE, HARD = range(2)
ONE, LOW, HALF = np.uint64(1), np.uint64(0xFFFFFFFF), np.uint64(32)
ALL_ONES, ALMOST = np.uint64(2**64 - 1), np.uint64(2**64 - 2)  # from `ALMOST` on two units more are a carry
LARGE = 280  # decimal exponents up to which no double is subnormal or infinite


class Tables(NamedTuple):
    """`powers[e + LARGE]` are the first 64 bits of 10^e, `following` the 64 behind them, cut off; `twos[e + 1022]` is 2^e and
    `tens[e]` is 10^e."""

    powers: np.ndarray
    following: np.ndarray
    twos: np.ndarray
    tens: np.ndarray


@cache
def tables() -> Tables:
    powers = []
    for e in range(-LARGE, LARGE + 1):
        power = 10 ** abs(e)
        if e < 0:
            power = (1 << (power.bit_length() + 127)) // power
        bits = power.bit_length()
        first = power >> (bits - 128) if bits > 128 else power << (128 - bits)
        powers.append((first >> 64, first & (2**64 - 1)))
    firsts, following = np.array(powers, np.uint64).T.copy()
    twos, tens = np.ldexp(1.0, np.arange(-1022, 1023)), np.array([float(f"1e{e}") for e in range(23)])
    return Tables(firsts, following, twos, tens)


@jitable
def product(x, y):
    """Of two 64-bit integers: its upper and its lower 64 bits."""
    a, b, c, d = x >> HALF, x & LOW, y >> HALF, y & LOW
    ad, bc = a * d, b * c
    bd = b * d
    middle = (bd >> HALF) + (ad & LOW) + (bc & LOW)
    return a * c + (ad >> HALF) + (bc >> HALF) + (middle >> HALF), ((middle & LOW) << HALF) | (bd & LOW)


@jitable_call
def nearest(mantissa, exponent, tables):
    """mantissa * 10^exponent rounded to the nearest double, and FINE; or HARD if 128 bits of the power do not tell which it is.

    With the mantissa shifted to 64 bits, `high` and `low` are the upper 128 bits of its product with the power's first 64 bits,
    which is at most so much too small that `high` lacks one. It rounds as the true product does unless the bits to be dropped
    are all ones, or say exactly "half". Then 64 bits more of the power leave at most two units of `low` open.
    """
    if not -LARGE <= exponent <= LARGE:
        return 0.0, HARD
    shift, step = 0, 32
    while step > 0:
        if mantissa >> np.uint64(64 - step) == 0:
            mantissa <<= np.uint64(step)
            shift += step
        step >>= 1
    at = np.uint64(exponent + LARGE)
    high, low = product(mantissa, tables.powers[at])
    drop = 11 if high >> np.uint64(63) else 10
    half = ONE << np.uint64(drop - 1)
    rest = high & (half - ONE)
    if rest == half - ONE or (rest == 0 and high & half):
        more, _ = product(mantissa, tables.following[at])
        left = ALL_ONES - low
        if more > left:
            high, low = high + ONE, more - left - ONE
        else:
            low += more
        rest = high & (half - ONE)
        if (rest == half - ONE and low >= ALMOST) or (rest == 0 and high & half and low == 0):
            return 0.0, HARD
        drop = 11 if high >> np.uint64(63) else 10
        half = ONE << np.uint64(drop - 1)
    kept = np.int64(high >> np.uint64(drop)) + (1 if high & half else 0)
    binary = ((217706 * exponent) >> 16) + 1 - shift + drop  # floor(log2(10^exponent)) = 217706 exponent / 2^16 in this range
    return np.float64(kept) * tables.twos[np.uint64(binary + 1022)], FINE
