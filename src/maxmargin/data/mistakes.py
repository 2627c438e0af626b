"""What is handed over by mistake for X, y or a cost, and what to hand over instead: said before any library stumbles over it."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data.sources.memory import is_source
from ..data.sources.options import is_path

SHOWN, LONGEST = 10, 200  # names, and characters of one thing or of another library's words, in a message
DATE_TYPES = ("date", "time", "period", "duration")  # beginnings of the types of pandas, polars and Arrow
NUMBERS_OF_DATES = "make numbers of it first, such as the days since a date, the hour or the weekday"
UNKNOWN = {"NaTType", "NAType"}  # what pandas has for None


def check_opened(X, way: str | None = None) -> None:
    """Refuse a path, and a frame that has not been computed yet; `way` says what to do with a path where no source is taken."""
    if is_path(X):
        path = repr(str(X))
        raise TypeError(f"X is a path, {path}: {way or f'open the file first, maxmargin.open_source({path})'}.")
    if is_source(X):
        raise TypeError("X is a source, which is not taken here: read it block by block, for block in source: block.X, block.y.")
    if type(X).__name__ == "LazyFrame":
        raise TypeError("X is a LazyFrame, of which nothing has been computed yet: give X.collect().")


def check_table(X) -> None:
    """Refuse what is no matrix of numbers."""
    if type(X) is np.ndarray and X.dtype.kind not in "OmM":
        return
    check_opened(X)
    if X is None or isinstance(X, Iterator):
        raise TypeError(f"X is {'None' if X is None else 'an iterator'}: give a matrix, a data frame or a list of rows.")
    if (found := trouble(X)) is not None:
        raise ValueError(f"X is not a matrix of numbers: {found}.")


def check_target(y, classes: bool) -> None:
    """Refuse a y that has not one class, or one number, for each sample."""
    what = "class" if classes else "number"
    if isinstance(y, str | bytes | Mapping) and not sp.issparse(y):  # SciPy's DOK matrices are dictionaries
        found = "a dictionary" if isinstance(y, Mapping) else quoted(y)
        raise ValueError(f"y is {found}: give a list or array, one {what} for each sample.")
    shape: tuple[int, ...] = getattr(y, "shape", ())
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(f"y must hold one {what} for each sample; its shape is {shape}: {_several(y, classes)}.")
    if getattr(getattr(y, "dtype", None), "kind", "") in ("m", "M") and np.any(unknown := np.isnat(np.asarray(y))):
        raise ValueError(f"y holds NaT, for sample {int(np.argmax(unknown))}: leave out the samples of which it is not known.")
    entries = _entries(y)
    if entries is None:
        return
    unknown = next((i for i, entry in enumerate(entries) if entry is None or type(entry).__name__ in UNKNOWN), None)
    if unknown is not None:
        raise ValueError(f"y holds {entries[unknown]}, for sample {unknown}: leave out the samples of which it is not known.")
    if classes and 0 < sum(isinstance(entry, str) for entry in entries) < len(entries):
        raise ValueError("y holds strings and other objects: its classes must be of one kind, all strings or all numbers.")
    for i, entry in enumerate(entries):
        if (size := _length(entry)) is not None and size != 1:
            raise ValueError(f"y must hold one {what} for each sample; sample {i} has {size}: {_several(y, classes)}.")


def _several(y, classes: bool) -> str:
    """What to do with a y of several entries a sample."""
    if not classes:
        return "a model for each column of y takes several"
    try:
        rows = y.toarray() if sp.issparse(y) else np.asarray(y)
        one_hot = rows.ndim == 2 and bool(np.all(((rows == 0) | (rows == 1)).all(axis=1) & (rows.sum(axis=1) == 1)))
    except (TypeError, ValueError):  # no numbers, or rows of several lengths
        one_hot = False
    if one_hot:
        return "each row has a single 1, so give the number of its column, np.asarray(y).argmax(axis=1)"
    return (
        "for samples with several labels use MultilabelSVMClassifier and the indicators that "
        "sklearn.preprocessing.MultiLabelBinarizer().fit_transform(y) makes"
    )


def trouble(given, sequence: bool = False) -> str | None:
    """What keeps a frame, an array or a list of rows from being a matrix of numbers, with the way out; None where a glance finds
    nothing. The rows of a `sequence` are its positions."""
    for name, kind in _column_types(given):
        if str(kind).lower().startswith(DATE_TYPES):
            where = "it holds" if name is None else f"its column {name!r} holds"
            return f"{where} {kind}; {NUMBERS_OF_DATES}, or leave it out"
    rows = _entries(given) or []
    if any(_holds(row, np.datetime64 | np.timedelta64) for row in rows):
        return f"it holds dates or times; {NUMBERS_OF_DATES}, or leave it out"
    dictionaries = any(isinstance(row, Mapping) for row in rows)
    texts = sequence and any(isinstance(row, str) or _holds(row, str) for row in rows)
    if any(_holds(row, Mapping) for row in rows) or (sequence and dictionaries) or texts:
        what = "texts" if texts else "dictionaries" if sequence else "lists of dictionaries"
        return f"it holds {what}, which maxmargin.SequenceVectorizer turns into matrices for StructuredSVM"
    if dictionaries:
        return "it holds dictionaries, which sklearn.feature_extraction.DictVectorizer turns into numbers"
    if rows and all(isinstance(row, str) for row in rows):
        return "it holds texts, which sklearn.feature_extraction.text.TfidfVectorizer turns into numbers"
    return uneven(given)


def uneven(given) -> str | None:
    """What keeps a list from being an array: rows of several lengths, or that it is no list."""
    if isinstance(given, Mapping) and not sp.issparse(given):  # SciPy's DOK matrices are dictionaries
        return "it is a dictionary; a data frame, or a list in a known order, tells which entry is which"
    sizes = [_length(row) for row in _entries(given) or []]
    other = next((i for i, size in enumerate(sizes) if size != sizes[0]), None)
    if other is None:
        return None
    first, second = ("is a single entry" if size is None else f"has {size}" for size in (sizes[0], sizes[other]))
    return f"its rows must have one length, but row 0 {first} and row {other} {second}"


def _column_types(given) -> list[tuple[Any, Any]]:
    """The names and types of the columns of a frame of pandas, polars or Arrow, of categories the type of these; of an array its
    type, without a name."""
    names, kinds = getattr(given, "column_names", None), getattr(getattr(given, "schema", None), "types", None)  # Arrow
    if names is None or kinds is None:
        names, kinds = getattr(given, "columns", None), getattr(given, "dtypes", None)
    if names is None or kinds is None:
        return [(None, given.dtype.name)] if isinstance(given, np.ndarray) else []
    kinds = [getattr(getattr(kind, "categories", None), "dtype", kind) for kind in kinds]
    return list(zip(names, kinds))


def _entries(given) -> list | None:
    """The entries of a list, or of an array or a column of Python objects; None of anything else."""
    if isinstance(given, list | tuple):
        return list(given)
    objects = getattr(given, "dtype", None) == np.dtype(object) and len(getattr(given, "shape", ())) == 1
    return list(given) if objects else None


def _holds(row, kind) -> bool:
    return isinstance(row, list | tuple) and any(isinstance(entry, kind) for entry in row)


def _length(entry) -> int | None:
    """How many things this is; None of a single one."""
    if isinstance(entry, str | bytes) or sp.issparse(entry) or not hasattr(entry, "__len__"):
        return None
    return None if getattr(entry, "shape", None) == () else len(entry)


# ---- costs by name -------------------------------------------------------------------------------------------


def cost_rows(cost: Mapping, names: list, what: str) -> list[list[Any]]:
    """cost[true][guess] by name as rows in the order of `names`; a pair that is left out costs 1, a right answer nothing."""
    for name, row in cost.items():
        if not isinstance(row, Mapping):
            found = f"cost[{quoted(name)}] is {quoted(row)}"
            raise ValueError(f"cost must be a dict of dicts, cost[true][guess], or a matrix; {found}.")
    if any(b not in cost.get(a, {}) for a in names for b in names if a != b):  # else a fold may lack some of the names
        unknown = [name for name in chain(cost, *cost.values()) if name not in names]
        if unknown:
            raise ValueError(f"cost names {quoted(unknown[0])}, which is not among the {what} {shown(names)}.")
    return [[cost.get(a, {}).get(b, float(a != b)) for b in names] for a in names]


def nearest(name: Any, names: Iterable) -> str:
    """" (nearest: 'age')" for a message about a name that is none of these; empty where none is like it."""
    texts = [other for other in names if isinstance(other, str)]
    same = [other for other in texts if other.lower() == str(name).lower()]
    found = same or get_close_matches(str(name), texts, 1)
    return f" (nearest: {found[0]!r})" if found else ""


def first_line(error: BaseException) -> str:
    """What another library says, shortened to be part of a sentence."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:LONGEST].rstrip(".")


def plain(name: Any) -> Any:
    """A number or text of NumPy as Python has it."""
    return name.item() if isinstance(name, np.generic) else name


def quoted(thing: Any) -> str:
    """One thing as a message shows it: NumPy's numbers and texts as Python's, long ones cut."""
    said = repr(plain(thing))
    return said if len(said) <= LONGEST else f"{said[:LONGEST]}..."


def shown(names: Iterable) -> str:
    """A list of names as a message shows it: the first ones, and how many there are."""
    names = list(names)
    said = ", ".join(map(quoted, names[:SHOWN]))
    return said if len(names) <= SHOWN else f"{said}, ... ({len(names)} in all)"
