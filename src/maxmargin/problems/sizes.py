"""Whether the numbers of X are too large for a certificate in float64, and which of them are.

A dual is rounded to about eps of itself, and so X' b to eps |X|' |b|, however well chosen b is. Duals b_i = t of n examples whose
rows have the squared norm M then gain about r n t (r is what a dual is worth, P / sum_i cap_i), and lose eps^2 t^2 n M / 2: their
value is at most n r^2 / (2 eps^2 M), which is less than P where 2 eps^2 cap M > r. With squared losses P is r^2 sum_i cap_i, and
with smooth ones about that: there r drops out. None of this holds of numbers whose sums happen to be exact, so that it is asked
only about a run that makes no progress.
"""

import numpy as np

from ..data.table import Table

EPSILON = float(np.finfo(np.float64).eps)
TOLD_OF = 3  # columns or rows that are named
MULTIPLIED = "rounding is multiplied by the numbers in"


def worth_of_duals(primal: float, caps: np.ndarray, smooth: bool) -> float:
    """r, or 1 where it drops out."""
    total = float(caps.sum())
    return 1.0 if smooth or not total > 0.0 else primal / total


def overlarge(table: Table, caps: np.ndarray, squares: np.ndarray, worth: float) -> str:
    """A clause on what is too large, and the way out; empty where nothing is. `squares` are those of the norms of rows, `worth`
    is r, or 1 where it drops out."""
    sizes = table.column_sizes()
    if sizes is None or not caps.size or not sizes.size:
        return ""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        lost = 2.0 * EPSILON**2 * caps * squares / worth
        columns = np.flatnonzero(2.0 * EPSILON**2 * np.median(caps) * np.square(sizes, dtype=np.float64) / worth > 1.0)
    if np.median(lost) > 1.0:
        found = multiplied_by("column", columns if columns.size else np.array([int(sizes.argmax())]))
        return f"{found}, up to {sizes.max():.0e}; scale the columns (standardize=True or MaxAbsScaler), or lower C."
    rows = np.flatnonzero(lost > 1.0)
    if not rows.size:
        return ""
    found, size = multiplied_by("row", table.samples(rows)), float(np.sqrt(squares[rows].max()))
    return f"{found}, up to {size:.0e}; correct or leave out what is so large, or lower C."


def overlarge_columns(sizes: np.ndarray | None, cap: float, worth: float) -> str:
    """The same of samples that are no rows of a table, by the largest numbers of the columns."""
    if sizes is None or not sizes.size or not worth > 0.0:
        return ""
    with np.errstate(over="ignore"):
        columns = np.flatnonzero(2.0 * EPSILON**2 * cap * np.square(sizes, dtype=np.float64) / worth > 1.0)
    if not columns.size:
        return ""
    return f"{multiplied_by('column', columns)}, up to {sizes.max():.0e}; scale the features, or lower C."


def overlarge_kernel(diagonal: np.ndarray, caps: np.ndarray, worth: float) -> str:
    """The same of a kernel, by its values between samples and themselves. There are no weights between duals and scores whose
    sums could be exact: b' K b itself is rounded to eps of its terms, and duals lose eps t^2 M / 2, not eps^2 of it."""
    if not diagonal.size or not worth > 0.0:
        return ""
    with np.errstate(over="ignore"):
        large = float(np.median(2.0 * EPSILON * caps * diagonal / worth)) > 1.0
    if not large:
        return ""
    return f"{MULTIPLIED} the kernel matrix, up to {diagonal.max():.0e}; scale the features (or divide the matrix), or lower C."


def multiplied_by(what: str, numbers: np.ndarray) -> str:
    """rounding is multiplied by the numbers in columns 1, 2, 5 and 4 more of X"""
    names = [str(number) for number in numbers[:TOLD_OF].tolist()]
    more = f"{numbers.size - TOLD_OF} more" if numbers.size > TOLD_OF else names.pop()
    which = f"{what}s {', '.join(names)} and {more}" if names else f"{what} {more}"
    return f"{MULTIPLIED} {which} of X"
