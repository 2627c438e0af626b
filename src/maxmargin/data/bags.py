"""Bags of candidates as a user gives them, checked and put below each other."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..jit import kernel
from . import rows
from .groups import named_groups
from .matrices import checked_matrix
from .mistakes import check_opened, quoted, trouble


def bag_count(X) -> int:
    """How many bags there are."""
    check_opened(X, "read the bags first, and give them as a list of matrices")
    if sp.issparse(X) or (hasattr(X, "shape") and not isinstance(X, np.ndarray)) or (getattr(X, "ndim", 3) == 2 and _plain(X)):
        raise ValueError(
            "X must be a sequence of bags, each a matrix (candidates, features), or an array (bags, candidates, features); got "
            f"one matrix of shape {X.shape}. Where its rows are the candidates, groups= names the bag of each; bags of one "
            "candidate each are X[:, None, :]."
        )
    if isinstance(X, str | bytes | dict) or not hasattr(X, "__len__") or getattr(X, "shape", None) == ():
        raise ValueError(f"X must be a sequence of bags, each a matrix (candidates, features); got {type(X).__name__}.")
    if len(X) == 0:
        raise ValueError("There are no samples: X is empty.")
    return len(X)


def _plain(X: Any) -> bool:
    return X.dtype != object


def stacked_bags(X, dtype=None, width: int | None = None) -> tuple[Any, np.ndarray]:
    """The candidates of all bags below each other, as a C-ordered or CSR matrix, and where each bag starts. `width`: how many
    features are expected; by default that of the first bag. A C-ordered array of three dimensions is not copied."""
    total = bag_count(X)
    if isinstance(X, np.ndarray) and X.ndim == 3 and _plain(X):
        _checked(X[0], 0, X.shape[2] if width is None else width)
        start = np.arange(total + 1) * X.shape[1]
        matrix = np.ascontiguousarray(X, dtype=dtype or _floating(X.dtype)).reshape(-1, X.shape[2])
    else:
        bags: list[Any] = []
        for i in range(total):
            bags.append(_checked(X[i], i, bags[0].shape[1] if i and width is None else width))
        start = np.concatenate([[0], np.cumsum([bag.shape[0] for bag in bags])])
        kind = dtype or _floating(np.result_type(*{bag.dtype for bag in bags}))
        if any(sp.issparse(bag) for bag in bags):
            matrix = sp.vstack([bag if sp.issparse(bag) else sp.csr_array(bag) for bag in bags], format="csr", dtype=kind)
        else:
            matrix = np.concatenate(bags, dtype=kind)
    _check_finite(matrix, start)
    return checked_matrix(matrix), start


class Grouped(NamedTuple):
    """Which rows of one table are the candidates of which bag. Bags count in the order in which they first come, and so do the
    candidates of a bag."""

    names: np.ndarray  # (bags,)
    number: np.ndarray  # (rows,) the bag of each row
    order: np.ndarray | None  # the rows, bag after bag; None where they lie so
    start: np.ndarray  # (bags + 1,) where each bag starts in that order

    def below_each_other(self, table):
        """The rows of a matrix, bag after bag; itself where they lie so."""
        return table if self.order is None else table[self.order]

    def one_each(self, name: str, values: np.ndarray) -> np.ndarray:
        """What `values` says of each bag: it has an entry for each, or one for each row that all rows of a bag share."""
        bags, size = self.names.size, self.number.size
        if values.shape == (bags,):
            return values
        if values.shape != (size,):
            raise ValueError(
                f"{name} has shape {values.shape}; a table of {size} rows in {bags} groups takes one entry for each row, or one "
                "for each group, in the order in which groups first come."
            )
        first = self.start[:-1] if self.order is None else self.order[self.start[:-1]]
        wrong = np.flatnonzero(values != values[first[self.number]])
        if wrong.size:
            row = int(wrong[0])
            other = int(first[self.number[row]])
            group, one, two = (quoted(part) for part in (self.names[self.number[row]], values[other], values[row]))
            raise ValueError(
                f"{name} must have one entry for all rows of a group; group {group} has {one} in row {other} and {two} in "
                f"row {row}."
            )
        return values[first]


def grouped_rows(groups, size: int) -> Grouped:
    """The bags that `groups` names, for a table of so many rows; the rows of a bag may lie anywhere."""
    names, first, number = named_groups(groups, size)
    came = np.argsort(first)
    place = np.empty_like(came)
    place[came] = np.arange(came.size)
    number = place[number]
    order = None if np.all(number[1:] >= number[:-1]) else np.argsort(number, kind="stable")
    return Grouped(names[came], number, order, np.concatenate([[0], np.cumsum(np.bincount(number))]))


def _floating(dtype) -> np.dtype:
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def _checked(bag: Any, i: int, width: int | None):
    """One bag as a matrix of numbers."""
    if sp.issparse(bag):
        matrix = bag.tocsr() if bag.ndim == 2 else bag
    else:
        try:
            matrix = np.asarray(bag)
            if matrix.dtype == object:
                matrix = matrix.astype(np.float64)
        except (TypeError, ValueError):
            reason = trouble(bag) or "an entry is something else"
            raise ValueError(f"Bag {i} of X is not a matrix of numbers with rows of one length: {reason}.") from None
    if matrix.dtype.kind not in "fiub":
        raise ValueError(f"Bag {i} of X must hold real numbers; its dtype is {matrix.dtype}.")
    if matrix.ndim > 0 and matrix.shape[0] == 0:
        raise ValueError(f"Bag {i} of X is empty; every bag needs at least one candidate.")
    if matrix.ndim != 2:
        raise ValueError(f"Bag {i} of X must be a matrix (candidates, features); its shape is {matrix.shape}.")
    if matrix.shape[1] == 0:
        raise ValueError(f"Bag {i} of X has no features.")
    if width is not None and matrix.shape[1] != width:
        raise ValueError(f"Bag {i} of X has {matrix.shape[1]} features; {width} are expected.")
    return matrix


def _check_finite(matrix, start: np.ndarray) -> None:
    values = matrix.data if sp.issparse(matrix) else matrix
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):  # says it for nearly all matrices, without an array of flags
            return
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    if sp.issparse(matrix):
        row = int(np.searchsorted(matrix.indptr, np.flatnonzero(bad)[0], side="right") - 1)
    else:
        row = int(np.flatnonzero(bad.any(axis=1))[0])
    i = bag_of(start, row)
    raise ValueError(f"Bag {i} of X holds NaN or infinity, in candidate {row - int(start[i])}.")


def bag_of(start: np.ndarray, row: int) -> int:
    return int(np.searchsorted(start, row, side="right") - 1)


def check_sizes(table, start: np.ndarray) -> None:
    """Refuse candidates so large that their squared norm is not a number any more."""
    norms = np.empty(int(start[-1]))
    rows.squared_norms(table, np.empty(0), norms)
    bad = np.flatnonzero(~np.isfinite(norms))
    if bad.size:
        raise ValueError(
            f"Bag {bag_of(start, int(bad[0]))} of X is too large: the squared norm of a candidate overflows float64. "
            "Scale the features down."
        )


@kernel
def best_in_bags(scores, start, column, result):
    """The candidate of each bag with the highest score in the bag's column."""
    for i in range(result.size):
        best = start[i]
        for r in range(start[i] + 1, start[i + 1]):
            if scores[r, column[i]] > scores[best, column[i]]:
                best = r
        result[i] = best - start[i]
