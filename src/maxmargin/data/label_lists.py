"""Labels by name: lists of labels as a matrix of indicators, and the names of the columns of a data frame."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .mistakes import plain, quoted, shown

LISTS = "Lists of labels are taken too, one for each sample: [['red', 'round'], [], ['red']]."
ONES_AND_ZEROS = {0, 1, "0", "1"}


class ReadLabels(NamedTuple):
    """Labels as a matrix, dense or sparse, that is yet to be checked; `names` of its columns where they have any."""

    matrix: Any
    names: np.ndarray | None
    listed: bool = False  # whether lists were given


def given_labels(Y: Any, known: Any = None) -> ReadLabels:
    """The labels that a user gives, in any form. `known` are the names of all labels, if somebody has said so: an array in the
    order of columns, or a fitted `MultiLabelBinarizer`."""
    names = None if known is None else names_of(known)
    if _is_frame(Y):
        own = _names_of_frame(Y)
        if have_names(names) and own is not None and names is not None and own.tolist() != names.tolist():
            raise ValueError(f"The columns of Y are {shown(own)}; they must be {shown(names)}, in this order.")
        return ReadLabels(_values_of_frame(Y), own if names is None else names)
    rows = _rows_of(Y)
    if rows is None or _is_matrix(rows, None if names is None else len(names)):
        return ReadLabels(Y, names)
    names = _names_in(rows) if names is None else names
    if ONES_AND_ZEROS.issuperset(names.tolist()) and not any(isinstance(row, set | frozenset) for row in rows):
        raise ValueError(
            "Y holds lists of 0 and 1 only, which are no matrix of numbers: give rows of one length, or sets where these are the "
            "names of labels."
        )
    return ReadLabels(_indicators(rows, names), names, True)


def checked_names(given: Any, what: str) -> np.ndarray:
    """Names of labels as an array: of integers where all are, else of objects. Each stands there once."""
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__len__"):
        raise ValueError(f"{what} must be a list of the names of the labels; got {quoted(given)}.")
    names = [plain(name) for name in given]
    found: dict[Any, int] = {}
    for k, name in enumerate(names):
        if (first := found.setdefault(name, k)) != k:
            raise ValueError(f"{what} has the label {quoted(name)} twice, for columns {first} and {k}: labels must differ.")
    if all(isinstance(name, Integral) and not isinstance(name, bool) for name in names):
        return np.array(names, dtype=np.int64)
    result = np.empty(len(names), dtype=object)
    for k, name in enumerate(names):  # one by one: a name may be a tuple
        result[k] = name
    return result


def names_of(given: Any) -> np.ndarray:
    """Names that a user gives: a list of them, or a fitted `MultiLabelBinarizer`."""
    return checked_names(getattr(given, "classes_", given), "classes")


def names_of_count(given: Any, count: int) -> np.ndarray:
    """Names for so many labels, or their numbers where none are given."""
    if given is None:
        return np.arange(count)
    names = names_of(given)
    if len(names) != count:
        raise ValueError(f"classes has {len(names)} names; there are {count} labels.")
    return names


def have_names(names: np.ndarray | None) -> bool:
    """Whether labels have names: numbers from zero on are none."""
    return names is not None and (names.dtype == object or not np.array_equal(names, np.arange(len(names))))


def lists_of(indicators: sp.csr_array, names: np.ndarray) -> list[tuple]:
    """The names of the labels of each sample, as `MultiLabelBinarizer.inverse_transform` gives them."""
    told, ends = names[indicators.indices].tolist(), indicators.indptr.tolist()
    return [tuple(told[begin:end]) for begin, end in pairwise(ends)]


# ---- frames -------------------------------------------------------------------------------------------------


def _is_frame(Y: Any) -> bool:
    return all(hasattr(Y, name) for name in ("columns", "dtypes", "shape")) and len(Y.shape) == 2


def _names_of_frame(frame: Any) -> np.ndarray | None:
    """The names of its columns; numbers from zero on are none."""
    names = checked_names(list(frame.columns), "Y")
    return names if have_names(names) else None


def _values_of_frame(frame: Any) -> Any:
    """Its values; sparse columns of pandas are not made dense, and what it has no value of is NaN."""
    if all(hasattr(kind, "fill_value") for kind in frame.dtypes) and len(frame.dtypes):
        return sp.csc_array(frame.sparse.to_coo())
    values = np.asarray(frame)
    if values.dtype != object or not hasattr(frame, "isna"):
        return values
    try:
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        return values  # whose dtype is told to the user


# ---- lists --------------------------------------------------------------------------------------------------


def _rows_of(Y: Any) -> list | None:
    """The entries of a list or column of lists, sets or tuples; None of anything else."""
    if isinstance(Y, list | tuple):
        entries = list(Y)
    elif sp.issparse(Y) or len(getattr(Y, "shape", ())) != 1:
        return None
    else:  # a column of NumPy, pandas or polars
        entries = (Y.to_list if hasattr(Y, "to_list") else Y.tolist)()
    if not any(_is_list(entry) for entry in entries):
        return None
    for i, entry in enumerate(entries):
        if not _is_list(entry):
            raise ValueError(f"Y has {quoted(entry)} for sample {i}, which is no list of labels; one without labels has [].")
    return entries


def _is_list(entry: Any) -> bool:
    return hasattr(entry, "__len__") and not isinstance(entry, str | bytes | Mapping) and getattr(entry, "shape", (0,)) != ()


def _is_matrix(rows: list, count: int | None) -> bool:
    """Whether lists are the rows of a matrix of numbers, as NumPy would have it; `count` is the number of labels, if known."""
    sizes = {len(row) for row in rows}
    if any(isinstance(row, set | frozenset) for row in rows) or len(sizes) > 1 or sizes == {0}:
        return False
    try:
        values = np.asarray(rows)
    except ValueError:
        return False
    if values.dtype.kind not in "buif":
        return values.ndim == 2 and all(entry is None or isinstance(entry, float | int) for row in rows for entry in row)
    if count is not None and values.ndim == 2 and values.shape[1] != count:
        return False
    if values.ndim == 2 and values.dtype.kind in "iu" and np.any(wrong := (values != 0) & (values != 1)):
        row, column = np.argwhere(wrong)[0]
        raise ValueError(
            f"Y is a list of rows of one length, a matrix, and holds {values[row, column]} in row {row}, column {column}; "
            "labels are 0 or 1. If these are the numbers of labels, give sets: [{3, 5}, {3, 8}]."
        )
    return True


def _names_in(rows: list) -> np.ndarray:
    """All labels that are named, in their order."""
    found: set = set()
    for i, row in enumerate(rows):
        found.update(_plain_labels(row, i))
    if not found:
        raise ValueError("Y names no label: all of its lists are empty.")
    try:
        names = sorted(found)
    except TypeError:
        kinds = sorted({type(name).__name__ for name in found})
        raise ValueError(f"Y names labels of several kinds, {' and '.join(kinds)}: give all of them as one.") from None
    return checked_names(names, "Y")


def _plain_labels(row: Sequence, sample: int) -> set:
    labels = [plain(name) for name in row]
    try:
        found = set(labels)
    except TypeError:
        raise ValueError(f"Y has a list within the list of sample {sample}: labels are strings or numbers.") from None
    if None in found or any(name != name for name in found):
        raise ValueError(f"Y names a label None or NaN, for sample {sample}; one without labels has an empty list.")
    return found


def _indicators(rows: list, names: np.ndarray) -> sp.csr_array:
    """(samples, labels): a row of ones and zeros for each list."""
    place = {name: k for k, name in enumerate(names.tolist())}
    columns, ends = [], [0]
    for i, row in enumerate(rows):
        labels = _plain_labels(row, i)
        unknown = next((name for name in labels if name not in place), None)
        if unknown is not None:
            raise ValueError(f"Sample {i} has the label {quoted(unknown)}, which is not among the labels {shown(names)}.")
        columns.extend(sorted(place[name] for name in labels))
        ends.append(len(columns))
    parts = np.ones(len(columns), np.int64), np.array(columns, np.int32), np.array(ends, np.int32)
    return sp.csr_array(parts, shape=(len(rows), len(names)))
