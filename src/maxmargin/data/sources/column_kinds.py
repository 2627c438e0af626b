"""What a column of an Arrow table is: numbers, lists of them, texts and categories; anything else is refused with the way out."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..mistakes import NUMBERS_OF_DATES, shown
from .encoding import HASHED_WIDTH


def arrow():
    """pyarrow, or one sentence that says how to get it."""
    try:
        import pyarrow
    except ModuleNotFoundError:  # an installed one that cannot be loaded says why itself
        raise ImportError(
            "Parquet, Arrow and CSV need pyarrow, which is not installed: pip install 'maxmargin[parquet]'."
        ) from None
    return pyarrow


def is_list(kind) -> bool:
    types = arrow().types
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def is_number(kind) -> bool:
    """Whether a type is that of numbers, or of lists of them."""
    kind = kind.value_type if is_list(kind) else kind
    types = arrow().types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def is_text(kind) -> bool:
    """Whether a type is that of texts, or of categories that are texts or whole numbers."""
    types = arrow().types
    if types.is_dictionary(kind):
        return is_text(kind.value_type) or types.is_integer(kind.value_type) or types.is_boolean(kind.value_type)
    return types.is_string(kind) or types.is_large_string(kind)


def narrow_number(kind) -> bool:
    """Whether float32 holds all numbers of a type, or of its lists."""
    pa = arrow()
    return (kind.value_type if is_list(kind) else kind) in (pa.float16(), pa.float32())


def kind_of_feature(source: str, name: str, types: Mapping[str, Any], asked: Any, strictly: bool, features: list[str]) -> str:
    """What a column of X is: "number", "list", "onehot" or "hash". `asked` is what `categorical` says of it, `strictly` if by its
    name; `types` are those of all columns, `features` the names of those of X."""
    kind = types[name]
    plain = arrow().types
    codes = asked not in (None, "number", "list")
    if codes and (is_text(kind) or (strictly and (plain.is_integer(kind) or plain.is_boolean(kind)))):
        return "onehot" if asked == "onehot" else "hash"
    if is_number(kind) and not (strictly and codes):
        found = "list" if is_list(kind) else "number"
        if strictly and asked in ("number", "list") and asked != found:
            raise ValueError(f"{source}: column {name!r} holds {kind}; the known encoding has a {asked} there.")
        return found
    if strictly and codes:
        raise ValueError(f"{source}: column {name!r} holds {kind}; categories are texts or whole numbers.")
    if asked in ("number", "list"):
        raise ValueError(f"{source}: column {name!r} holds {kind}; the known encoding has a {asked} there.")
    fit = [other for other in features if is_number(types[other])]
    raise ValueError(
        f"{source}: column {name!r} must hold numbers or lists of numbers to be a feature, not {kind}: {way_out(kind)}. Else "
        f"name the columns of X, features=[{shown(fit)}], or label={name!r} if it is that."
    )


def way_out(kind: Any) -> str:
    """What to do with a column that is no feature as it is."""
    types = arrow().types
    if is_text(kind):
        return "categorical='onehot' (or 'hash') makes features of texts and categories"
    if types.is_temporal(kind):
        return NUMBERS_OF_DATES
    if types.is_decimal(kind):
        return "write it as float64"
    if types.is_nested(kind):
        return "make a column of each of its parts first, as pyarrow.Table.flatten does of records"
    return "write it as numbers or texts"


def category_width(categorical: Any, name: str) -> int:
    """Features of a hashed column, by what the user gave."""
    given = categorical.get(name) if isinstance(categorical, Mapping) else None
    return given if isinstance(given, int) else HASHED_WIDTH


def check_label(source: str, name: str, kind: Any) -> None:
    """Refuse a column that can be no label."""
    if not is_number(kind) and not is_text(kind):
        raise ValueError(f"{source}: column {name!r} must hold numbers, texts or lists of numbers to be a label, not {kind}.")


def column_numbers(source: str, name: str, column: Any) -> np.ndarray:
    """A column of numbers, as an array of ours: Arrow's own memory may go away with the file."""
    if is_list(column.type) or not is_number(column.type):
        raise ValueError(f"{source}: column {name!r} must hold numbers, not {column.type}.")
    return np.array(column.to_numpy(zero_copy_only=False))


def lists(source: str, name: str, column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Where the lists of a column end, from 0 on, and their numbers one after the other."""
    if not is_list(column.type):
        raise ValueError(f"{source}: column {name!r} must hold lists, not {column.type}.")
    values = column.flatten()
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return indptr, np.array(values.to_numpy(zero_copy_only=False))


def column_width(source: str, name: str, column: Any) -> int:
    """How many features a column holds: one, or the length of its lists, if they have one length."""
    if not is_list(column.type):
        return 1
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    if lengths.size and np.any(lengths != lengths[0]):
        raise ValueError(
            f"{source}: the lists of column {name!r} must have one length; they have {lengths.min()} to {lengths.max()}."
        )
    return int(lengths[0]) if lengths.size else 0
