"""What the generators check of their arguments."""

from numbers import Integral, Real

import numpy as np


def whole(name: str, value, least: int = 1) -> int:
    """An integer of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}.")
    return int(value)


def amount(name: str, value) -> float:
    """A finite number of at least 0."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0.0 <= float(value) < np.inf:
        raise ValueError(f"{name} must be a finite number of at least 0; got {value!r}.")
    return float(value)
