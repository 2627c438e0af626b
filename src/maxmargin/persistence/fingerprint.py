"""Whether two fits are the same: a hash of everything that a problem, the parameters of an estimator, or data are made of.

Of arrays this is shape, dtype and all bytes, wherever they lie: in memory, mapped from a file, in whatever order.
"""

import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import singledispatch
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..data.gram import Gram
from ..data.sources.base import Source
from ..data.table import Table
from ..structures.encoded.python import Custom
from .container import DIGEST, ModelFileError, as_bytes

OWN_MODULES = __name__.split(".")[0] + "."
SPAN = 1 << 24  # bytes of an array that are copied at a time, where its rows do not lie one after another


def fingerprint(value: Any) -> str:
    found = blake2b(digest_size=DIGEST)
    put_in(value, found.update)
    return found.hexdigest()


def put_in(value: Any, to: Callable[[Any], None]) -> None:
    """The name of its class, then what it is made of."""
    to(f"{class_of(value)}(".encode())
    feed(value, to)
    to(b")")


def class_of(value: Any) -> str:
    """By one name what other versions, or other ways to read a file, give another class."""
    if isinstance(value, np.ndarray):
        return "array"
    if isinstance(value, np.generic | np.dtype):
        return "number"
    return "sparse" if sp.issparse(value) else f"{type(value).__module__}.{type(value).__qualname__}"


@singledispatch
def feed(value: Any, to: Callable[[Any], None]) -> None:
    if isinstance(value, np.generic):
        to(f"{value.dtype.str}:".encode() + value.tobytes())
    elif value is None or isinstance(value, bool | int | float | complex | str | bytes | range | np.dtype | type):
        to(repr(value).encode("utf-8", "surrogatepass"))
    elif hasattr(value, "columns") and hasattr(value, "to_numpy"):  # a data frame
        put_in(([str(name) for name in value.columns], value.to_numpy()), to)
    elif hasattr(value, "detach") and hasattr(value, "numpy"):  # a tensor, on whatever device
        put_in(value.detach().cpu().numpy(), to)
    elif sp.issparse(value):
        held = value if value.format in ("csr", "csc") else value.tocsr()
        put_in((held.format, held.shape, held.data, held.indices, held.indptr), to)
    elif is_dataclass(value):
        put_in({field.name: getattr(value, field.name) for field in fields(value)}, to)
    elif type(value).__module__.startswith(OWN_MODULES) and hasattr(value, "__dict__"):
        put_in({name: held for name, held in vars(value).items() if not name.startswith("_")}, to)
    elif callable(value):
        to(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}".encode())
    else:
        try:
            to(pickle.dumps(value, protocol=5))  # hashed, never read
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise ModelFileError(f"A file cannot tell whether a {type(value).__name__} is the same: {error}.") from None


@feed.register
def _(value: np.ndarray, to):
    put_in((value.shape, value.dtype), to)
    if value.dtype.hasobject:
        put_in(value.ravel().tolist(), to)
    elif value.flags.c_contiguous:
        to(as_bytes(value))
    else:
        step = max(1, SPAN // max(1, value.nbytes // max(1, len(value))))
        for first in range(0, len(value), step):
            to(np.ascontiguousarray(value[first : first + step]).tobytes())


@feed.register
def _(value: tuple | list, to):
    to(f"{len(value)}:".encode())
    for item in value:
        put_in(item, to)


@feed.register
def _(value: set | frozenset, to):
    put_in(sorted(fingerprint(item) for item in value), to)


@feed.register
def _(value: Mapping, to):
    put_in([list(value.keys()), list(value.values())], to)


@feed.register
def _(value: BaseEstimator, to):
    put_in(value.get_params(deep=False), to)


@feed.register
def _(value: Table, to):
    put_in((value.matrix, getattr(value, "bias", None), getattr(value, "sparse_below", None)), to)


@feed.register
def _(value: Gram, to):
    put_in([getattr(value, name, None) for name in ("function", "X", "matrix")], to)


@feed.register
def _(value: Custom, to):
    put_in((value.structure, value.X, value.y), to)


@feed.register
def _(value: Source, to):
    """Files by name, size and time; what is in memory by itself."""
    stamps = [(os.path.basename(path), found) for path, found in vars(value).get("_stamps", ())]
    put_in(stamps or {name: held for name, held in vars(value).items() if not name.startswith("_")}, to)
