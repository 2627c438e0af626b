"""What `described` has made of values, back.

Nothing here trusts the file: names are looked up in tables, sizes are those of arrays that were read, and whatever does not fit
raises one of `container.DAMAGE`, of which `load` makes a `ModelFileError`.
"""

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from ..result import History, Record
from .container import ModelFileError
from .described import CONTAINERS, GIVEN, NAMED, REQUESTED, SCALAR_TYPES, SPARSE, size_of
from .names import NOT_KEPT, PLAIN_OBJECTS, RECORDS, WITH_PARAMETERS

ATTRIBUTE = re.compile(r"(?!__)[A-Za-z_]\w*")
UNITS = {kind: np.dtype(unit) for kind, unit in (("U", "u4"), ("S", "u1"), ("m", "i8"), ("M", "i8"))}  # of texts and times


class Restorer:
    """Makes values of nodes. `given`: objects of the user's own, by what they are."""

    def __init__(self, arrays: Mapping[str, np.ndarray], given: Mapping[str, Any]):
        self.arrays, self.given = arrays, given
        self.made: dict[str, np.ndarray] = {}  # one object for an array that stands in several places

    def value(self, node: Any) -> Any:
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if not isinstance(node, dict):
            raise ValueError("a value is neither plain nor described")
        return READERS[node["is"]](self, node)

    def mapping(self, nodes: dict[str, Any]) -> dict[str, Any]:
        return {key: self.value(node) for key, node in nodes.items()}

    def items(self, node: Any) -> list[Any]:
        if isinstance(node, list):
            return [self.value(item) for item in node]
        found = self.value(node)
        return found if isinstance(found, list) else found.tolist()

    def stored(self, node: dict[str, Any]) -> np.ndarray:
        """The array of numbers that is kept there."""
        found = self.arrays[node["in"]]
        if "from" in node:
            start, size = node["from"], size_of(node["shape"])
            if type(start) is not int or not 0 <= start <= start + size <= found.size:
                raise ValueError("an array is not where it should be")
            found = found[start : start + size].reshape(node["shape"])
        return found


def number_of(at: Restorer, node: dict[str, Any]) -> float:
    return {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}[node["of"]]


def container_of(at: Restorer, node: dict[str, Any]) -> Any:
    return CONTAINERS[node["is"]](at.items(node["of"]))


def dict_of(at: Restorer, node: dict[str, Any]) -> dict[Any, Any]:
    return dict(zip(at.items(node["keys"]), at.items(node["values"]), strict=True))


def dtype_of(text: str) -> np.dtype:
    if not re.fullmatch(r"[<>|=](b1|[iu][1248]|f[248]|[US]\d{1,6}|[mM]8(\[\w{1,12}\])?)", text):
        raise ValueError(f"{text!r} is no type of numbers")
    return np.dtype(text)


def scalar_of(at: Restorer, node: dict[str, Any]) -> Any:
    dtype, data = dtype_of(node["dtype"]), bytes.fromhex(node["of"])
    if len(data) != dtype.itemsize:
        raise ValueError("a number has too many bytes")
    return np.frombuffer(data, dtype)[0].astype(dtype.newbyteorder("="))


def array_of(at: Restorer, node: dict[str, Any]) -> np.ndarray:
    key = repr(node)
    if key not in at.made:
        at.made[key] = found = array_as_told(at.stored(node), node)
        if node.get("frozen"):
            found.flags.writeable = False
    return at.made[key]


def array_as_told(found: np.ndarray, node: dict[str, Any]) -> np.ndarray:
    dtype = dtype_of(node["dtype"])
    if "laid" in node:  # texts and times, kept as numbers
        if found.dtype != UNITS[dtype.kind] or found.nbytes != size_of(node["laid"]) * dtype.itemsize:
            raise ValueError("an array of texts has not the size of its shape")
        found = found.view(dtype.newbyteorder("=")).reshape(node["laid"])
    if found.dtype != dtype.newbyteorder("="):
        raise ValueError(f"an array of {found.dtype} is said to be one of {dtype}")
    found = found.astype(dtype, copy=False)
    return found.T if node.get("order") == "F" else found


def objects_of(at: Restorer, node: dict[str, Any]) -> np.ndarray:
    items = at.items(node["of"])
    if len(items) != size_of(node["shape"]):
        raise ValueError("an array of objects has not the size of its shape")
    found = np.empty(len(items), object)
    for k, item in enumerate(items):
        found[k] = item
    return found.reshape(node["shape"])


def texts_of(at: Restorer, node: dict[str, Any]) -> list[str]:
    letters, ends = at.stored(node["of"]).tobytes(), np.cumsum(at.stored(node["lengths"])).tolist()
    if (ends[-1] if ends else 0) != len(letters) or any(a > b for a, b in zip([0, *ends], ends, strict=False)):
        raise ValueError("texts have not the lengths that are told")
    return [letters[a:b].decode("utf-8", "surrogatepass") for a, b in zip([0, *ends], ends, strict=False)]


def range_of(at: Restorer, node: dict[str, Any]) -> range:
    start, stop, step = node["of"]
    return range(start, stop, step)


def sparse_of(at: Restorer, node: dict[str, Any]) -> Any:
    parts = tuple(at.value(node[name]) for name in ("data", "indices", "indptr"))
    size_of(node["shape"])
    found = SPARSE[node["of"]](parts, shape=tuple(node["shape"]))
    found.check_format(full_check=True)
    return found


def history_of(at: Restorer, node: dict[str, Any]) -> History:
    columns = [at.items(node["columns"][name]) for name in Record._fields]
    found = History([Record(*row) for row in zip(*columns, strict=True)])
    found.methods = [(int(first), str(name)) for first, name in node["methods"]]
    return found


def random_of(at: Restorer, node: dict[str, Any]) -> np.random.RandomState:
    found, (place, has_gauss, gauss) = np.random.RandomState(), node["rest"]
    found.set_state(("MT19937", at.value(node["keys"]), place, has_gauss, gauss))
    return found


def record_of(at: Restorer, node: dict[str, Any]) -> Any:
    return RECORDS[node["of"]](**at.mapping(node["fields"]))


def plain_of(at: Restorer, node: dict[str, Any]) -> Any:
    return learned_by(object.__new__(PLAIN_OBJECTS[node["of"]]), at.mapping(node["fields"]))


def object_of(at: Restorer, node: dict[str, Any]) -> Any:
    """Made by its parameters, as a user would; then what it has learned."""
    found = WITH_PARAMETERS[node["of"]](**at.mapping(node["parameters"]))
    for method, requested in at.value(node.get("requests")).items() if "requests" in node else ():
        if method not in REQUESTED:
            raise ValueError(f"{method} is not asked for metadata")
        getattr(found, f"set_{method}_request")(**requested)
    return learned_by(found, at.mapping(node["learned"]))


def learned_by(found: Any, learned: dict[str, Any]) -> Any:
    """The attributes set as they are, past all setters."""
    for name, held in learned.items():
        of_class = getattr(type(found), name, None)
        if not ATTRIBUTE.fullmatch(name) or name in NOT_KEPT or callable(of_class) or isinstance(of_class, property):
            raise ValueError(f"{type(found).__name__} learns no {name!r}")
        vars(found)[name] = held
    return found


def given_of(at: Restorer, node: dict[str, Any]) -> Any:
    what, name = node["of"], node[NAMED]
    if what not in (*GIVEN, "kernel"):
        raise ValueError(f"nobody can give a {what!r}")
    found = at.given.get(what)
    if found is None:
        raise ModelFileError(
            f"This model was fitted with a {what} of its user's own, {name}, and files hold no code: "
            f"give it, load(path, {what}=...)."
        )
    if what == "kernel":
        return found
    if type(found).__name__ != name:
        raise ModelFileError(f"This model was fitted with the {what} {name}; load was given a {type(found).__name__}.")
    return learned_by(deepcopy(found), at.mapping(node["learned"])) if node["learned"] else found


READERS: dict[str, Callable[[Restorer, dict[str, Any]], Any]] = {
    "float": number_of,
    "dict": dict_of,
    "bytes": lambda at, node: bytes.fromhex(node["of"]),
    "range": range_of,
    "scalar": scalar_of,
    "dtype": lambda at, node: dtype_of(node["of"]),
    "type": lambda at, node: SCALAR_TYPES[node["of"]],
    "array": array_of,
    "objects": objects_of,
    "texts": texts_of,
    "sparse": sparse_of,
    "history": history_of,
    "random": random_of,
    "record": record_of,
    "plain": plain_of,
    "object": object_of,
    "given": given_of,
    **{name: container_of for name in CONTAINERS},
}
