"""Outputs that a user's own structure has met, their joint features, and what is said of methods that return something else."""

import numpy as np

# Joint features with a smaller part of non-zeros than this are kept without their zeros. Set not recorded, 2026-11-15.
KEPT_BELOW = 0.25

STRAYED = (AttributeError, LookupError, TypeError, ValueError)  # what methods raise of an output that is none


def check_output(name: str, method: str, i: int, output) -> None:
    """Refuse None for an output."""
    if output is None:
        raise ValueError(f"{name}.{method} returned None for sample {i}; an output is needed. Is a return missing?")


def strayed(name: str, decoder: str, i: int, output, method: str, error: Exception) -> ValueError:
    """What is said where a decoder returned something that another method cannot take."""
    return ValueError(
        f"{name}.{decoder} returned {output!r} for sample {i}, with which {method} fails: {type(error).__name__}: {error}."
    )


class Known:
    """An output that was met: itself, its joint features and its loss."""

    def __init__(self, output, feature: np.ndarray, loss: float):
        self.output, self.feature, self.loss = output, compact(feature), loss


def compact(vector: np.ndarray):
    """The vector, or only its non-zeros where they are few."""
    places = np.flatnonzero(vector)
    return (places, vector[places], vector.size) if places.size < KEPT_BELOW * vector.size else vector.copy()


def expand(vector) -> np.ndarray:
    if isinstance(vector, tuple):
        places, values, size = vector
        result = np.zeros(size)
        result[places] = values
        return result
    return vector


def dot_compact(vector, w: np.ndarray) -> float:
    if isinstance(vector, tuple):
        return float(vector[1] @ w[vector[0]])
    return float(vector @ w)


def numbers_in(found) -> np.ndarray:
    """An array of float64; one of objects where what a method returned is no array of numbers."""
    try:
        array = np.asarray(found)
        return array.astype(np.float64) if array.dtype.kind in "fiub" else np.array(None)
    except (TypeError, ValueError):  # rows of several lengths
        return np.array(None)
