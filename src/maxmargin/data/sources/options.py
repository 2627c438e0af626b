"""The arguments of `open_source`, checked."""

import os
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from ...utils.threads import thread_count
from .blocks import WIDEST

MEGABYTE = 1 << 20


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

    def refuse(self, path: Path, **reasons: str) -> None:
        """Arguments that mean nothing for this format must not be given."""
        for name, reason in reasons.items():
            if getattr(self, name) is not None and getattr(self, name) is not False:
                raise ValueError(f"{name} cannot be given for {path}: {reason}.")


def checked_options(
    label, weight, features, n_features, zero_based, multilabel, n_labels, dtype, cache, block_size, n_jobs=None
) -> SourceOptions:
    """In the order of `open_source`. What `label`, `weight`, `features` and `cache` may be depends on the format."""
    return SourceOptions(
        label=label,
        weight=weight,
        features=features,
        n_features=positive_integer("n_features", n_features),
        n_labels=positive_integer("n_labels", n_labels),
        zero_based=boolean("zero_based", zero_based),
        multilabel=None if multilabel is None else boolean("multilabel", multilabel),
        dtype=real_dtype(dtype),
        cache=cache,
        block_bytes=block_bytes(block_size),
        n_jobs=threads(n_jobs),
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


def threads(given) -> int:
    if given is not None and (not isinstance(given, Integral) or isinstance(given, bool) or int(given) == 0):
        raise ValueError(f"n_jobs must be None or an integer other than 0, got {given!r}.")
    return thread_count(None if given is None else int(given))


def block_bytes(megabytes) -> int:
    if not isinstance(megabytes, Real) or isinstance(megabytes, bool) or not 0 < float(megabytes) <= 1024:
        raise ValueError(f"block_size is in megabytes, a number > 0 and at most 1024, got {megabytes!r}.")
    return max(1, int(float(megabytes) * MEGABYTE))
