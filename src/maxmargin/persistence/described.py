"""Python values as JSON and arrays, and back.

None, booleans, integers, texts and finite floats are themselves; everything else is a node {"is": kind, ...}. Objects are named
by the tables of `names`, never by modules. Long lists of numbers or texts become arrays, as do small arrays inside of lists,
which share one: the JSON stays short.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields as fields_of
from math import isfinite, prod
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..losses.base import Loss
from ..result import History, Record
from ..solvers.base import Solver
from ..structures.base import Structure
from .container import ModelFileError
from .names import NOT_KEPT, PLAIN_OBJECTS, RECORDS, WITH_PARAMETERS

LONG_LIST = 16  # items from which on a list of numbers or texts is an array
SMALL_ARRAY = 1 << 14  # bytes of an array inside of a list, below which it is put together with others
POOL = "small"
SPARSE: dict[str, type] = {cls.__name__: cls for cls in (sp.csr_array, sp.csc_array, sp.csr_matrix, sp.csc_matrix)}
CONTAINERS: dict[str, type] = {cls.__name__: cls for cls in (list, tuple, set, frozenset)}
SCALAR_TYPES: dict[str, type] = {cls.__name__: cls for cls in (np.float32, np.float64, float, int, bool)}
GIVEN = {"structure": Structure, "loss": Loss, "solver": Solver}  # objects of a user's own, which `load` may be given
REQUESTS = "_metadata_request"
NAMED = "named"


# ---- writing -----------------------------------------------------------------------------------------------------------


class Describer:
    """Makes nodes of values and collects their arrays. `at` says where a value stands, for messages and names of arrays."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.pools: dict[str, list[np.ndarray]] = {}
        self.filled: dict[str, int] = {}
        self.known: dict[int, tuple[Any, dict[str, Any]]] = {}  # arrays met before, kept alive so that their ids stay theirs

    def finished(self) -> dict[str, np.ndarray]:
        """All arrays, by name."""
        return self.arrays | {name: np.concatenate(parts) for name, parts in self.pools.items()}

    def node(self, value: Any, at: str, inside: bool = False) -> Any:
        """`inside`: the value is an item of a list."""
        if value is None or type(value) in (bool, int, str):
            return value
        writer = WRITERS.get(type(value))
        if writer is not None:
            return writer(self, value, at, inside)
        if isinstance(value, np.memmap):
            return array_node(self, np.asarray(value), at, inside)
        if isinstance(value, np.generic):
            return scalar_node(self, value, at)
        if isinstance(value, np.dtype):
            return {"is": "dtype", "of": value.str}
        name = type(value).__name__
        if isinstance(value, type):
            if SCALAR_TYPES.get(value.__name__) is value:
                return {"is": "type", "of": value.__name__}
        elif SPARSE.get(name) is type(value):
            return sparse_node(self, value, at)
        elif RECORDS.get(name) is type(value):
            return {"is": "record", "of": name, "fields": self.mapping(record_fields(value), at)}
        elif PLAIN_OBJECTS.get(name) is type(value):
            return {"is": "plain", "of": name, "fields": self.mapping(vars(value), at)}
        elif WITH_PARAMETERS.get(name) is type(value):
            return object_node(self, value, at)
        return given_node(self, value, at)

    def mapping(self, found: Mapping[str, Any], at: str) -> dict[str, Any]:
        return {key: self.node(value, f"{at}.{key}" if at else key) for key, value in found.items()}

    def items(self, values: list[Any], at: str) -> Any:
        """A list of nodes, or one node of an array."""
        kinds = {type(value) for value in values}
        if len(values) >= LONG_LIST and len(kinds) == 1:
            kind = kinds.pop()
            if kind is str:
                return texts_node(self, values, at)
            if kind is float:
                return array_node(self, np.array(values), at, True)
            if kind is int and all(-(2**63) <= value < 2**63 for value in values):
                return array_node(self, np.array(values, np.int64), at, True)
        return [self.node(value, f"{at}.{k}", True) for k, value in enumerate(values)]

    def store(self, array: np.ndarray, at: str, inside: bool) -> dict[str, Any]:
        """Where an array of numbers is kept."""
        if inside and array.nbytes <= SMALL_ARRAY:
            name = f"{POOL}.{array.dtype.str[1:]}"
            start = self.filled.get(name, 0)
            self.pools.setdefault(name, []).append(array.reshape(-1).astype(array.dtype.newbyteorder("="), copy=False))
            self.filled[name] = start + array.size
            return {"in": name, "from": start, "shape": list(array.shape)}
        name, k = at, 2
        while name in self.arrays or name.startswith((POOL, "__")):
            name, k = f"{at}.{k}", k + 1
        self.arrays[name] = array
        return {"in": name}


def float_node(to: Describer, value: float, at: str, inside: bool) -> Any:
    return value if isfinite(value) else {"is": "float", "of": str(value)}


def container_node(to: Describer, value: Any, at: str, inside: bool) -> Any:
    return {"is": type(value).__name__, "of": to.items(list(value), at)}


def dict_node(to: Describer, value: dict[Any, Any], at: str, inside: bool) -> Any:
    return {"is": "dict", "keys": to.items(list(value), f"{at}.keys"), "values": to.items(list(value.values()), f"{at}.values")}


def bytes_node(to: Describer, value: bytes, at: str, inside: bool) -> Any:
    return {"is": "bytes", "of": value.hex()}


def range_node(to: Describer, value: range, at: str, inside: bool) -> Any:
    return {"is": "range", "of": [value.start, value.stop, value.step]}


def scalar_node(to: Describer, value: np.generic, at: str) -> Any:
    if value.dtype.kind not in "biufUSmM":
        raise ModelFileError(f"{at} is a {value.dtype}, which a file cannot hold.")
    return {"is": "scalar", "dtype": (little := value.dtype.newbyteorder("<")).str, "of": np.array(value, little).tobytes().hex()}


def array_node(to: Describer, value: np.ndarray, at: str, inside: bool) -> Any:
    """With its dtype, order and whether it may be written to."""
    if id(value) in to.known:
        return to.known[id(value)][1]
    kind, order = value.dtype.kind, "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    laid = value.T if order == "F" else value
    if value.dtype.hasobject:
        node = {"is": "objects", "shape": list(value.shape), "of": to.items(value.ravel().tolist(), at)}
    elif kind in "biuf" and value.dtype.itemsize <= 8:
        node = {"is": "array", **to.store(laid, at, inside)}
    elif kind in "USmM" and value.dtype.itemsize:
        unit = np.dtype("<u4" if kind == "U" else "u1" if kind == "S" else "<i8")
        plain = np.ascontiguousarray(laid).reshape(laid.shape).astype(value.dtype.newbyteorder("<"), copy=False)
        node = {"is": "array", **to.store(plain.reshape(-1).view(unit), at, inside), "laid": list(laid.shape)}
    else:
        raise ModelFileError(f"{at} is an array of the type {value.dtype}, which a file cannot hold.")
    if not value.dtype.hasobject:
        node["dtype"] = value.dtype.str
    if order == "F":
        node["order"] = order
    if not value.flags.writeable:
        node["frozen"] = True
    to.known[id(value)] = value, node
    return node


def texts_node(to: Describer, values: list[str], at: str) -> Any:
    """UTF-8, one after another, and how many bytes each has."""
    encoded = [value.encode("utf-8", "surrogatepass") for value in values]
    letters = np.frombuffer(b"".join(encoded), np.uint8)
    lengths = np.array([len(part) for part in encoded], np.int64)
    return {"is": "texts", "of": to.store(letters, at, False), "lengths": to.store(lengths, f"{at}.lengths", False)}


def sparse_node(to: Describer, value: Any, at: str) -> Any:
    parts = {name: array_node(to, getattr(value, name), f"{at}.{name}", False) for name in ("data", "indices", "indptr")}
    return {"is": "sparse", "of": type(value).__name__, "shape": list(value.shape), **parts}


def history_node(to: Describer, value: History, at: str, inside: bool) -> Any:
    columns = [list(column) for column in zip(*value, strict=True)] or [[] for _ in Record._fields]
    told = {name: to.items(column, f"{at}.{name}") for name, column in zip(Record._fields, columns, strict=True)}
    return {"is": "history", "columns": told, "methods": [[int(first), name] for first, name in value.methods]}


def random_node(to: Describer, value: np.random.RandomState, at: str, inside: bool) -> Any:
    state: Any = value.get_state()
    if state[0] != "MT19937":
        raise ModelFileError(f"{at} is a random state with {state[0]}, which a file cannot hold; give a number.")
    return {"is": "random", "keys": array_node(to, state[1], at, inside), "rest": [int(state[2]), int(state[3]), float(state[4])]}


def object_node(to: Describer, value: Any, at: str) -> Any:
    parameters = value.get_params(deep=False)
    learned = {name: held for name, held in vars(value).items() if name not in parameters and name not in NOT_KEPT}
    requests = learned.pop(REQUESTS, None)
    node = {
        "is": "object",
        "of": type(value).__name__,
        "parameters": to.mapping(parameters, f"{at}.parameters" if at else "parameters"),
        "learned": to.mapping(learned, at),
    }
    if requests is not None:
        told = {name: dict(getattr(requests, name).requests) for name in REQUESTED if hasattr(requests, name)}
        node["requests"] = to.node({name: found for name, found in told.items() if found}, f"{at}.requests")
    return node


def given_node(to: Describer, value: Any, at: str) -> Any:
    """A user's own object, which `load` has to be given again: only what it has learned is kept."""
    name = type(value).__name__
    cls: Any
    for given, cls in GIVEN.items():
        if isinstance(value, cls):
            parameters = value.get_params(deep=False)
            learned = {key: held for key, held in vars(value).items() if key not in parameters}
            return {"is": "given", "of": given, NAMED: name, "learned": to.mapping(learned, at)}
    if callable(value) and at.rsplit(".", 1)[-1] in ("kernel", "function"):
        return {"is": "given", "of": "kernel", NAMED: getattr(value, "__name__", name), "learned": {}}
    if isinstance(value, BaseEstimator):
        reason = f"is a {name}, which is not one of this package's; skops.io keeps whole pipelines"
    elif callable(value):
        reason = f"is a function, {getattr(value, '__name__', name)}: files hold no code"
    else:
        reason = f"is a {name}, which a file cannot hold; give numbers, texts, arrays, or lists and dictionaries of these"
    raise ModelFileError(f"{at or 'The model'} {reason}.")


def record_fields(value: Any) -> dict[str, Any]:
    names = getattr(value, "_fields", None) or [field.name for field in fields_of(value)]
    return {name: getattr(value, name) for name in names}


WRITERS: dict[type, Callable[[Describer, Any, str, bool], Any]] = {
    float: float_node,
    dict: dict_node,
    bytes: bytes_node,
    range: range_node,
    np.ndarray: array_node,
    History: history_node,
    np.random.RandomState: random_node,
    **{cls: container_node for cls in CONTAINERS.values()},
}
REQUESTED = ("fit", "partial_fit", "predict", "predict_proba", "predict_log_proba", "decision_function", "score", "transform")


def size_of(shape: list[int]) -> int:
    """How many numbers; shapes come from a file."""
    if not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError(f"{shape} is no shape")
    return prod(shape)
