"""The arguments of `open_source`, checked."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from ...utils.threads import thread_count
from .blocks import WIDEST
from .encoding import Encoding

MEGABYTE = 1 << 20
HOW = ("onehot", "hash")  # categories become features
READING = ("cache", "block_bytes", "n_jobs")  # options that do not change what is read


@dataclass(frozen=True)
class SourceOptions:
    """The arguments of `open_source`; None is "not given"."""

    label: Any = None
    weight: Any = None
    features: Any = None
    n_features: int | None = None
    n_labels: int | None = None
    zero_based: bool = False
    multilabel: bool | None = None
    dtype: np.dtype | None = None
    cache: Any = None
    block_bytes: int = 16 * MEGABYTE
    n_jobs: int = 1
    group: Any = None
    categorical: Any = None  # also the Encoding of another source
    handle_unknown: str = "error"
    delimiter: str | None = None
    quote: str | None = None
    header: Any = None
    partitions: tuple[tuple[str, str | int], ...] = ()  # columns that stand in the names of folders, and their values

    def identity(self) -> dict[str, Any]:
        """What the options say of the data. A path has its last part: a folder may be moved."""
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in READING}
        files = {name: Path(value).name for name, value in given.items() if is_path(value) and str(value).endswith(".npy")}
        return given | files

    def refuse(self, path: Path, **reasons: str) -> None:
        """Arguments that mean nothing for this format must not be given."""
        for name, reason in reasons.items():
            if getattr(self, name) is not None and getattr(self, name) is not False:
                raise ValueError(f"{name} cannot be given for {path}: {reason}.")


def checked_options(given: dict[str, Any]) -> SourceOptions:
    """The arguments of `open_source` by name. What `label`, `weight`, `group`, `features` and `cache` may be depends on the
    format."""
    return SourceOptions(
        **{name: given[name] for name in ("label", "weight", "group", "features", "cache")},
        n_features=positive_integer("n_features", given["n_features"]),
        n_labels=positive_integer("n_labels", given["n_labels"]),
        zero_based=boolean("zero_based", given["zero_based"]),
        multilabel=None if given["multilabel"] is None else boolean("multilabel", given["multilabel"]),
        dtype=real_dtype(given["dtype"]),
        block_bytes=block_bytes(given["block_size"]),
        n_jobs=thread_count(given["n_jobs"]),
        categorical=categorical_columns(given["categorical"]),
        handle_unknown=one_of("handle_unknown", given["handle_unknown"], ("error", "ignore")),
        delimiter=one_byte("delimiter", given["delimiter"]),
        quote=given["quote"] if given["quote"] == "" else one_byte("quote", given["quote"]),
        header=header_line(given["header"]),
    )


def is_path(given) -> bool:
    return isinstance(given, (str, os.PathLike))


def positive_integer(name: str, given) -> int | None:
    if given is None:
        return None
    if not isinstance(given, Integral) or isinstance(given, bool) or not 0 < int(given) <= WIDEST:
        raise ValueError(f"{name} must be an integer from 1 to {WIDEST}, got {given!r}.")
    return int(given)


def boolean(name: str, given) -> bool:
    if not isinstance(given, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {given!r}.")
    return bool(given)


def real_dtype(given) -> np.dtype | None:
    if given is None:
        return None
    try:
        found = np.dtype(given)
    except TypeError:
        raise ValueError(f"dtype must be float32 or float64, got {given!r}.") from None
    if found not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {found}.")
    return found


def block_bytes(megabytes) -> int:
    if not isinstance(megabytes, Real) or isinstance(megabytes, bool) or not 0 < float(megabytes) <= 1024:
        raise ValueError(f"block_size is in megabytes, a number > 0 and at most 1024, got {megabytes!r}.")
    return max(1, int(float(megabytes) * MEGABYTE))


def one_of(name: str, given: Any, among: tuple[str, ...]) -> str:
    if not isinstance(given, str) or given not in among:
        raise ValueError(f"{name} must be {' or '.join(map(repr, among))}, got {given!r}.")
    return given


def categorical_columns(given: Any) -> Any:
    if given is None or isinstance(given, Encoding):
        return given
    if isinstance(given, Mapping):
        for name, how in given.items():
            number = isinstance(how, Integral) and not isinstance(how, bool) and 0 < int(how) <= WIDEST
            if not number and not (isinstance(how, str) and how in HOW):
                raise ValueError(f"categorical[{name!r}] must be 'onehot', 'hash' or a number of hashed features, got {how!r}.")
        return {name: how if isinstance(how, str) else int(how) for name, how in given.items()}
    if not isinstance(given, str) or given not in HOW:
        raise ValueError(
            f"categorical must be 'onehot', 'hash', a dictionary with one of them for each column, or the encoding of another "
            f"source, got {given!r}."
        )
    return given


def one_byte(name: str, given: Any) -> str | None:
    if given is not None and (not isinstance(given, str) or len(given.encode()) != 1 or given in "\r\n"):
        raise ValueError(f"{name} must be one ASCII character, got {given!r}.")
    return given


def header_line(given: Any) -> Any:
    if given is None or isinstance(given, bool):
        return given
    if not isinstance(given, (list, tuple)) or not given or not all(isinstance(name, str) for name in given):
        raise ValueError(f"header must be True, False, or a list of the names of the columns, got {given!r}.")
    if len({*given}) < len(given):
        raise ValueError(f"header names a column twice: {next(name for name in given if list(given).count(name) > 1)!r}.")
    return list(given)
