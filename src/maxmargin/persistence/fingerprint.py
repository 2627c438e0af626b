"""Whether two fits are the same: a hash of everything that a problem, the parameters of an estimator, or data are made of.

    arrays    shape, dtype and all bytes, wherever they lie: in memory, mapped from a file, in whatever order
    sources   what they say of themselves (`_identity`): files and options, or checksums of their blocks
    packages  functions, classes and modules of installed packages: their names
    code      functions and classes of the user's: bytecode, constants, defaults, closures, and the globals that it names
    objects   their class, and the state that pickle takes, value by value: pickled bytes differ between processes

Anything else is refused by name. What code reads from files, or finds by a text (`globals()["x"]`), is not seen.
"""

import copyreg
import dis
import os
import pickle
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property, partial, singledispatch
from hashlib import blake2b
from importlib.util import find_spec, resolve_name
from operator import attrgetter
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..data import rows
from ..data.gram import CallableGram, Gram
from ..data.sources.base import Source
from ..data.sources.memory import Samples
from ..data.table import Table
from ..data.thresholds import ThresholdTable
from ..losses import base
from ..structures.base import Structure
from ..structures.encoded.python import Custom
from .container import DIGEST, ModelFileError, as_bytes

SCHEME = 2  # of what is hashed; arrays, sparse matrices, and lists and tuples of them are hashed as in scheme 1
OWN = __name__.split(".")[0]
STANDARD = os.path.dirname(os.__file__) + os.sep
SPAN = 1 << 24  # bytes of an array that are copied at a time, where its rows do not lie one after another
PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes, range})
GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
OF_MODULES = frozenset({"__name__", "__annotations__"})  # what class bodies name
UNPICKLED = (pickle.PicklingError, TypeError, AttributeError, ValueError, RuntimeError)  # what objects without a state raise
# Functions that are registered for classes: those of a user's class are part of it.
REGISTRIES = [found for module in (base, rows) for found in vars(module).values() if hasattr(found, "registry")]


def fingerprint(value: Any) -> str:
    found = Walk()
    try:
        put_in(value, found)
    except RecursionError:
        raise refusal(value, "it is nested too deeply") from None
    return found.hash.hexdigest()


class Walk:
    """The hash, and what it is at: an object within itself is named by its depth, a function or class that was met before by its
    number."""

    def __init__(self) -> None:
        self.hash = blake2b(digest_size=DIGEST)
        self.open: dict[int, int] = {}
        self.met: dict[int, tuple[int, Any]] = {}

    def write(self, data: Any) -> None:
        self.hash.update(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)

    def first(self, value: Any) -> bool:
        """Whether this function or class is met for the first time."""
        before = len(self.met)
        number, _ = self.met.setdefault(id(value), (before, value))
        self.write(f"#{number}")
        return number == before


def refusal(value: Any, reason: str) -> ModelFileError:
    kind, name = type(value).__name__, getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    called = f"the {kind} {name}" if isinstance(name, str) else f"a {kind}"
    said = " ".join(reason.split()).rstrip(".")
    return ModelFileError(
        f"A file cannot tell {called} from another one: {said}. Use numbers, texts, arrays, functions in Python or of an "
        "installed package, and objects of these."
    )


def put_in(value: Any, to: Walk) -> None:
    """The name of its class, then what it is made of."""
    to.write(f"{class_of(value)}(")
    if type(value) in PLAIN:
        to.write(repr(value))
    elif id(value) in to.open:
        to.write(f"within {to.open[id(value)]}")
    else:
        to.open[id(value)] = len(to.open)
        feed(value, to)
        del to.open[id(value)]
    to.write(")")


def class_of(value: Any) -> str:
    """By one name what other versions, or other ways to read a file, give another class."""
    if isinstance(value, np.ndarray):
        return "array"
    if isinstance(value, np.generic | np.dtype):
        return "number"
    return "sparse" if sp.issparse(value) else f"{type(value).__module__}.{type(value).__qualname__}"


@singledispatch
def feed(value: Any, to: Walk) -> None:
    own = type(value).__module__.split(".")[0] == OWN
    if isinstance(value, np.generic):
        to.write(f"{value.dtype.str}:")
        to.write(value.tobytes())
    elif isinstance(value, np.dtype):
        to.write(repr(value))
    elif sp.issparse(value):
        held = value if value.format in ("csr", "csc") else value.tocsr()
        put_in((held.format, held.shape, held.data, held.indices, held.indptr), to)
    elif hasattr(value, "columns") and hasattr(value, "to_numpy"):  # a data frame
        columns = value.get_columns() if hasattr(value, "get_columns") else [column for _, column in value.items()]
        put_in((list(value.columns), columns), to)
    elif hasattr(value, "dtype") and hasattr(value, "to_numpy"):  # a column of one
        known = [getattr(value.dtype, name, None) for name in ("categories", "ordered")]
        put_in((str(value.dtype), [None if each is None else np.asarray(each) for each in known], value.to_numpy()), to)
    elif hasattr(value, "detach") and hasattr(value, "numpy"):  # a tensor, on whatever device
        put_in(host_numbers(value), to)
    elif own and is_dataclass(value):  # a structure is a parameter, and compared as it was given
        held = {field.name: getattr(value, field.name) for field in fields(value)}
        put_in({name: part for name, part in held.items() if not isinstance(part, Structure)}, to)
    elif own and hasattr(value, "__dict__") and not isinstance(value, BaseEstimator):
        put_in({name: held for name, held in vars(value).items() if not name.startswith("_")}, to)
    elif hasattr(value, "py_func") and hasattr(value, "targetoptions"):  # compiled by numba
        put_in((value.py_func, value.targetoptions), to)
    elif (name := name_in_package(value)) is not None:
        to.write(name)
    else:
        feed_state(value, to)


def feed_state(value: Any, to: Walk) -> None:
    """What pickle takes of an object, and its class."""
    try:
        reduce = copyreg.dispatch_table.get(type(value))
        found = value.__reduce_ex__(4) if reduce is None else reduce(value)
    except UNPICKLED as error:
        raise refusal(value, str(error)) from None
    if isinstance(found, str):
        if hasattr(value, "__wrapped__"):  # as of functools.cache
            put_in(value.__wrapped__, to)
        elif any(vars(module).get(found) is value for module in list(sys.modules.values()) if is_installed(module)):
            to.write(found)
        else:
            raise refusal(value, "no package has it under its name")
        return
    function, arguments, state, items, pairs = (*found, None, None, None)[:5]
    put_in((type(value), function, arguments, plain_state(value, state), list(items or ()), list(pairs or ())), to)


def plain_state(value: Any, state: Any) -> Any:
    """Attributes in the order of their names, without those computed from others and the version that scikit-learn adds."""
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):  # of a class with slots
        return [plain_state(value, part) for part in state]
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        return state
    derived = {name for name in state if isinstance(getattr(type(value), name, None), cached_property)}
    return {name: state[name] for name in sorted(state.keys() - derived - {"_sklearn_version"})}


def host_numbers(tensor: Any) -> Any:
    held = tensor.detach().cpu()
    try:
        return held.numpy() if "bfloat16" not in str(held.dtype) else (str(held.dtype), held.float().numpy())
    except (TypeError, RuntimeError) as error:
        raise refusal(tensor, str(error)) from None


@feed.register
def _(value: np.ndarray, to):
    put_in((value.shape, value.dtype), to)
    if value.dtype.names:  # there may be anything between the fields
        put_in([value[name] for name in value.dtype.names], to)
    elif value.dtype.hasobject:
        put_in(value.ravel().tolist(), to)
    elif value.flags.c_contiguous:
        to.write(as_bytes(value))
    else:
        step = max(1, SPAN // max(1, value.nbytes // max(1, len(value))))
        for first in range(0, len(value), step):
            to.write(np.ascontiguousarray(value[first : first + step]).tobytes())


@feed.register
def _(value: tuple | list, to):
    if type(value) not in (tuple, list) and type(value).__module__.split(".")[0] != OWN:
        feed_state(value, to)
        return
    to.write(f"{len(value)}:")
    for item in value:
        put_in(item, to)


@feed.register
def _(value: set | frozenset, to):
    put_in(sorted(fingerprint(item) for item in value), to)


@feed.register
def _(value: Mapping, to):
    if type(value) in (dict, MappingProxyType):
        put_in([list(value.keys()), list(value.values())], to)
    else:
        feed_state(value, to)


@feed.register
def _(value: Table, to):
    put_in((type(value), value.matrix, getattr(value, "bias", None), getattr(value, "sparse_below", None)), to)


@feed.register
def _(value: ThresholdTable, to):
    put_in((value.table, value.count, value.scale), to)


@feed.register
def _(value: Gram, to):
    """A function of the user's is a parameter, and compared as it was given."""
    function = None if isinstance(value, CallableGram) else getattr(value, "function", None)
    put_in([function, getattr(value, "X", None), getattr(value, "matrix", None)], to)


@feed.register
def _(value: Custom, to):
    put_in((value.X, value.y), to)


@feed.register
def _(value: Source, to):
    put_in((type(value), value._identity()), to)


@feed.register
def _(value: Samples, to):
    for block in value.blocks():
        put_in((block.rows.size, block.X, block.y, block.weight), to)


# ---- code ----------------------------------------------------------------------------------------------------


def is_installed(module: Any) -> bool:
    """Whether a module belongs to Python or to an installed package: its code is told by its name."""
    name, file = getattr(module, "__name__", None), getattr(module, "__file__", None)
    return isinstance(name, str) and is_of_package(name.partition(".")[0], file)


def is_of_package(name: str, file: Any) -> bool:
    if name in (OWN, "__main__", "__mp_main__"):
        return name == OWN
    if not isinstance(file, str) or not os.path.isabs(file):
        return name in sys.builtin_module_names or name in sys.stdlib_module_names
    return file.startswith(STANDARD) or not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def name_in_package(value: Any) -> str | None:
    """The name under which an installed package has this very function or class; None of others."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or not is_installed(sys.modules.get(module)):
        return None
    try:
        found = attrgetter(name)(sys.modules[module])
    except AttributeError:  # made by a function of the package, or built into Python without a name
        return f"{module}.{name}" if isinstance(value, type) and module == "builtins" else None
    return f"{module}.{name}" if found is value else None


@feed.register
def _(value: ModuleType, to):
    to.write(value.__name__)


@feed.register
def _(value: MethodType, to):
    put_in((value.__func__, value.__self__), to)


@feed.register
def _(value: partial, to):
    put_in((type(value), value.func, value.args, plain_state(value, value.keywords), plain_state(value, vars(value))), to)


@feed.register
def _(value: staticmethod | classmethod, to):
    put_in(value.__func__, to)


@feed.register
def _(value: property, to):
    put_in((value.fget, value.fset, value.fdel), to)


@feed.register
def _(value: cached_property, to):
    put_in(value.func, to)


@feed.register
def _(value: type, to):
    if (name := name_in_package(value)) is not None:
        to.write(name)
    elif to.first(value):
        members = {name: held for name, held in sorted(vars(value).items()) if is_member(name, held)}
        put_in((value.__bases__, members, [each.registry.get(value) for each in REGISTRIES]), to)


def is_member(name: str, held: Any) -> bool:
    """Whether an entry of a class says what its objects do: methods, and data but those that Python adds."""
    if name.startswith("__") and name.endswith("__"):
        return isinstance(held, FunctionType | staticmethod | classmethod | property) and not name.startswith("__annotat")
    return name != "_abc_impl"


@feed.register
def _(value: FunctionType, to):
    """What it does, whatever its name is."""
    if (name := name_in_package(value)) is not None:
        to.write(name)
    elif to.first(value):
        keywords, attributes = (plain_state(value, found) for found in (value.__kwdefaults__, vars(value)))
        put_in((code_of(value.__code__), value.__defaults__, keywords, attributes), to)
        codes = list(codes_of(value.__code__))
        for named in (cells_of(value), globals_of(value, codes), imports_of(value, codes)):
            for name, held in sorted(named.items()):
                to.write(f"{name}=")
                if isinstance(held, ModuleType) and not is_installed(held):
                    put_module(held, {name for code in codes for name in code.co_names}, to)
                else:
                    put_in(held, to)


def put_module(module: ModuleType, names: set[str], to: Walk) -> None:
    """A module of the user's: what code that has these names may take from it."""
    if id(module) in to.open:
        return
    to.open[id(module)] = len(to.open)
    for name, held in sorted(vars(module).items()):
        if name in names:
            to.write(f"{name}=")
            if isinstance(held, ModuleType) and not is_installed(held):
                put_module(held, names, to)
            else:
                put_in(held, to)
    del to.open[id(module)]


def code_of(code: CodeType) -> tuple[Any, ...]:
    constants = [code_of(each) if isinstance(each, CodeType) else each for each in code.co_consts]
    arguments = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, code.co_exceptiontable, constants, arguments, names


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """With those of functions and classes inside."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from codes_of(each)


def cells_of(function: FunctionType) -> dict[str, Any]:
    """The variables of a closure; those not yet set are left out."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def globals_of(function: FunctionType, codes: list[CodeType]) -> dict[str, Any]:
    """Those that the code names, where the user may set them."""
    held = function.__globals__
    if is_installed(sys.modules.get(held.get("__name__", ""))):
        return {}
    names = {each.argval for code in codes for each in dis.get_instructions(code) if each.opname in GLOBALS}
    return {name: held[name] for name in names - OF_MODULES if name in held}


def imports_of(function: FunctionType, codes: list[CodeType]) -> dict[str, ModuleType]:
    """Modules of the user's that the code imports when it runs."""
    found = {}
    for code in codes:
        steps = [each for each in dis.get_instructions(code) if each.opname not in ("EXTENDED_ARG", "CACHE")]
        for level, _, step in zip(steps, steps[1:], steps[2:], strict=False):
            if step.opname != "IMPORT_NAME":
                continue
            name = step.argval
            if level.argval:
                name = resolve_name("." * level.argval + name, function.__globals__.get("__package__") or "")
            if name in sys.modules:
                found[name] = sys.modules[name]
            elif (top := find_spec(name.partition(".")[0])) is not None and not is_of_package(top.name, top.origin):
                raise refusal(function, f"it imports {name} when it runs, which should be imported before")
    return {name: module for name, module in found.items() if not is_installed(module)}
