"""How the numeric kernels are compiled. This folder is the only one that names numba.

A *generic* function is chosen by the class of its first argument, in plain Python and in compiled code alike. A
*kernel* is a loop over examples written with generic functions: one text serves dense and CSR rows, every loss, float32
and float64. Nothing is compiled on import; a kernel compiles for a combination of types when it is first called with
it, and is kept on disk.

Compiled kernels are kept in a folder of their own (`cache`). All that is named of numba's private parts stands in `compiler`;
without it, everything works but compiles longer.
"""

from collections.abc import Callable
from functools import partial, singledispatch
from importlib import import_module
from inspect import Signature, signature
from pathlib import Path
from types import FunctionType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numba import njit, types
from numba.extending import overload, register_jitable

from .cache import PLAIN, STAMP, folder, keeps_kernels, undisturbed  # noqa: F401 - handed on
from .compiling import COMPILING, clock, uncollected, warn_untuned  # noqa: F401

compiler: Any = None
LACKS = ""
try:
    compiler = import_module(".compiler", __package__)
except (ImportError, AttributeError, TypeError) as error:  # a version of numba without the private parts that it names
    LACKS = str(error)

# Sums may be reordered and fused; NaN and infinity keep their meaning, so that a broken number is never optimised away.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}, "nogil": True}
CALLED, INLINED, KERNEL = OPTIONS, OPTIONS, OPTIONS
if compiler is not None:
    CALLED = OPTIONS | {"pipeline_class": compiler.LinkedCompiler}
    INLINED = OPTIONS | {"pipeline_class": compiler.InlinedCompiler}
    KERNEL = OPTIONS | {"pipeline_class": compiler.KernelCompiler}
REGISTERED: WeakValueDictionary[str, type] = WeakValueDictionary()  # classes with functions of their own, by name
OURS = __package__.split(".")[0]
TRUSTED = {OURS, "numpy", "builtins"}


def register(name: str, plain: Callable, cls: type, implementation: Callable | None = None) -> Callable:
    """`singledispatch`'s own, with a name for what is called `_`.

    Compiled functions are linked by name, types and a number that each process counts by itself. Two functions called `_` in one
    file with the same types may therefore be one to the linker, where a kernel from the cache meets those just compiled.
    """
    if implementation is None:
        return partial(register, name, plain, cls)
    tell_apart(cls)
    if implementation.__name__ == "_":
        implementation.__name__ = implementation.__qualname__ = f"{name}_of_{cls.__name__}"
    implementation.__annotations__ = {}  # see `unannotated`
    return plain(cls, implementation)


def tell_apart(cls: type) -> None:
    """Give a user's class another `__name__` where one of that name was registered before: numba takes named tuples of one name
    with the same types of fields for one, and would go on with the functions of the first. So a cell of a notebook that is run
    again, with its loss corrected, has its effect."""
    count = 2
    while REGISTERED.setdefault(cls.__name__, cls) is not cls and cls.__module__.split(".")[0] not in TRUSTED:
        cls.__name__, count = f"{cls.__name__.split('#')[0]}#{count}", count + 1


def unannotated(function: Callable) -> Signature:
    """Its parameters without types: numba compares these as well, and those of a stub are wider."""
    found = signature(function)
    plain = [parameter.replace(annotation=parameter.empty) for parameter in found.parameters.values()]
    return found.replace(parameters=plain, return_annotation=found.empty)


def generic(stub: Callable, options: dict[str, Any] = INLINED) -> Any:
    """Make `stub` a function whose implementation is registered per class of the first argument."""
    function: Any = singledispatch(stub)
    function.register = partial(register, stub.__name__, function.register)

    def choose(*args):
        first = args[0]
        cls = np.ndarray if isinstance(first, types.Array) else getattr(first, "instance_class", object)
        found = function.dispatch(cls)
        return None if found is stub else found  # None lets numba name the missing implementation

    choose.__signature__ = unannotated(stub)  # type: ignore[attr-defined]  # numba reads it from there
    overload(function, jit_options=options)(choose)
    return function


def generic_call(stub: Callable) -> Any:
    """As `generic`, for functions that do so much work that a call costs nothing beside it: they compile once, where an
    inlined one is compiled again at every place that names it."""
    return generic(stub, CALLED)


def jitable_call(function: Callable) -> Callable:
    """As `jitable`, for larger helpers."""
    return register_jitable(**CALLED)(function)


def jitable(function: Callable) -> Callable:
    """A small helper that kernels may call: plain Python outside of them, compiled into them."""
    return register_jitable(**INLINED)(function)


def compile_alone(compile_for: Callable, lock: Callable[[], Path], kinds_of_arguments: Any) -> Any:
    """Compile or load a kernel while no other process does: what two need at once, one compiles and the other then loads."""
    with COMPILING, undisturbed(lock()), uncollected():
        return compile_for(kinds_of_arguments)


def compile_fresh(compile_for: Callable, name: str, kinds_of_arguments: Any) -> Any:
    """Compile a kernel for this process only."""
    with COMPILING, uncollected():
        COMPILING.tell(name)
        if compiler is None:
            warn_untuned(LACKS)
        return compile_for(kinds_of_arguments)


def compiled(function: Callable, *, cache: bool) -> Callable:
    """`function` compiled by numba; looked for and kept on disk when asked for."""
    result = njit(**KERNEL)(function)
    if isinstance(result, FunctionType):  # compilation is switched off
        return result
    if cache and compiler is not None:
        result._cache = compiler.KernelCache(function)
        result.compile = partial(compile_alone, result.compile, result._cache.shelf.lock)
    else:
        result.compile = partial(compile_fresh, result.compile, function.__name__)
    return result


class Interpreted:
    """A mark: instances of such a class are handled by plain Python only, and a kernel that gets one runs uncompiled."""


def kinds(args: tuple) -> tuple:
    """The classes of the arguments, those inside plain tuples too."""
    return tuple([kinds(arg) if type(arg) is tuple else type(arg) for arg in args])


def trusted(found: tuple) -> bool:
    return all(trusted(kind) if isinstance(kind, tuple) else kind.__module__.split(".")[0] in TRUSTED for kind in found)


def kernel(function: Callable) -> Callable:
    """Compile `function` on first use; it is kept on disk only when it and the class of every argument are ours, NumPy's or
    Python's.

    A user's own kernel, loss or row type is compiled too, but never kept: its source is not under our stamp.
    """
    cached, fresh = compiled(function, cache=function.__module__.split(".")[0] == OURS), compiled(function, cache=False)
    chosen: dict[tuple, Callable] = {}

    def call(*args):
        found = kinds(args)
        choice = chosen.get(found)
        if choice is None:
            interpreted = any(issubclass(kind, Interpreted) for kind in found if isinstance(kind, type))
            choice = chosen[found] = function if interpreted else cached if trusted(found) else fresh
        return choice(*args)

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    call.cached, call.fresh, call.plain = cached, fresh, function  # type: ignore[attr-defined]  # for the tests
    return call
