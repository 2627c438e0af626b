"""How the numeric kernels are compiled. This folder is the only one that names numba.

A *generic* function is chosen by the class of its first argument, in plain Python and in compiled code alike. A
*kernel* is a loop over examples written with generic functions: one text serves dense and CSR rows, every loss, float32
and float64. Nothing is compiled on import; a kernel compiles for a combination of types when it is first called with
it, and is kept on disk.

The cache lies where numba puts it: `$NUMBA_CACHE_DIR` if set, else `__pycache__` beside the installed files, else the
user's cache folder. If none of them can be written, kernels are compiled anew in each process and everything else works
as usual.
"""

import gc
import os
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial, singledispatch
from glob import escape
from hashlib import sha256
from importlib import import_module
from inspect import Signature, signature
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import overload, register_jitable

from .linked import KernelCompiler, LinkedCompiler

LOCKS: Any = import_module("fcntl") if os.name == "posix" else None  # without it two processes may compile the same
# Sums may be reordered and fused; NaN and infinity keep their meaning, so that a broken number is never optimised away.
# Kernels allocate nothing, so no references are counted: a visit to one example would otherwise count two dozen, at 5 ns each.
# No C function is made of them either.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}, "nogil": True}
OPTIONS |= {"_nrt": False, "no_cfunc_wrapper": True, "pipeline_class": KernelCompiler}
CALLED = OPTIONS | {"pipeline_class": LinkedCompiler}
INLINED = CALLED | {"forceinline": True}
PACKAGE = Path(__file__).parent.parent
LONGEST_WAIT, LOOK_AGAIN = 60.0, 0.02  # seconds: for another process that compiles, and between two looks
TRUSTED = {__package__.split(".")[0], "numpy", "builtins"}
# Nothing in these files and folders is compiled or imported by what is (a test holds that): an edit there recompiles nothing.
PLAIN = {"__init__.py", "callbacks.py", "demo.py", "solve.py", "warm.py", "datasets", "estimators", "persistence", "plots"}


def source_stamp() -> str:
    """A hash of every file that kernels may be made of: numba itself watches only the one in which a kernel stands."""
    files = [path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] not in PLAIN]
    return sha256(b"".join(path.relative_to(PACKAGE).as_posix().encode() + path.read_bytes() for path in files)).hexdigest()


STAMP = source_stamp()


def register(name: str, plain: Callable, cls: type, implementation: Callable | None = None) -> Callable:
    """`singledispatch`'s own, with a name for what is called `_`.

    Compiled functions are linked by name, types and a number that each process counts by itself. Two functions called `_` in one
    file with the same types may therefore be one to the linker, where a kernel from the cache meets those just compiled.
    """
    if implementation is None:
        return partial(register, name, plain, cls)
    if implementation.__name__ == "_":
        implementation.__name__ = implementation.__qualname__ = f"{name}_of_{cls.__name__}"
    implementation.__annotations__ = {}  # see `unannotated`
    return plain(cls, implementation)


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


def forgiving(load: Callable) -> Callable:
    """An index of another version of the package may name classes that are gone; its stamp would say so, but cannot be read."""

    def load_index():
        try:
            return load()
        except (AttributeError, ImportError, EOFError, pickle.UnpicklingError):
            return {}

    return load_index


def save_apart(file: Any, key: Any, data: Any) -> None:
    """Keep a compiled kernel in a file named by what it is. Numba numbers these files: two processes that compile at once
    may give one number to two kernels, and each then runs the other's code. What the index names is there before it is named.
    Where the disk is full, the kernel serves this process only."""
    stem = file._index_name.removesuffix(".nbi")
    name = f"{stem}.{sha256(STAMP.encode() + file._dump(key)).hexdigest()[:32]}.nbc"
    with suppress(OSError):
        file._save_data(name, data)
        overloads = file._load_index()
        if not overloads:  # those of another version of the package
            for path in Path(file._cache_path).glob(f"{escape(stem)}.*.nbc"):
                if path.name != name:
                    with suppress(OSError):
                        path.unlink()
        overloads[key] = name
        file._save_index(overloads)


@contextmanager
def undisturbed(path: Path) -> Iterator[None]:
    """No other process holds the lock at this path meanwhile. It goes with its process. Whoever cannot have it, in time or at
    all, goes on without."""
    try:
        held = os.open(path, os.O_CREAT | os.O_RDWR)
    except OSError:
        yield
        return
    try:
        wait_for(held)
        yield
    finally:
        os.close(held)


def wait_for(held: int) -> None:
    """Lock an open file."""
    end = time.monotonic() + LONGEST_WAIT
    while LOCKS is not None and time.monotonic() < end:
        try:
            LOCKS.flock(held, LOCKS.LOCK_EX | LOCKS.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(LOOK_AGAIN)
        except OSError:  # a file system without locks
            return


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for circles of garbage meanwhile: compiling makes many objects, and the search is a tenth of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def compile_alone(compile_for: Callable, lock: Path, kinds_of_arguments: Any) -> Any:
    """Compile or load a kernel while no other process does: what two need at once, one compiles and the other then loads.

    To wait for another is to compile: under numba's own lock, it is counted with that (`Compiling`).
    """
    with global_compiler_lock, undisturbed(lock), uncollected():
        return compile_for(kinds_of_arguments)


def load_kernel(cache: Any, kinds_of_arguments: Any, context: Any) -> Any:
    """A kernel from the cache, None where it is not there. Numba would first get ready to compile, which takes 35 MB and most of
    a second; it does so again where it compiles. Machine code that is there needs nothing of it: kernels allocate nothing."""
    with cache._guard_against_spurious_io_errors():
        return cache._load_overload(kinds_of_arguments, context)
    return None


def keeps_kernels() -> bool:
    """Whether there is a folder for compiled kernels."""
    return hasattr(getattr(compiled(source_stamp, cache=True), "_cache", None), "_cache_file")


def compiled(function: Callable, *, cache: bool) -> Callable:
    """`function` compiled by numba; cached on disk when asked for and when a folder for it can be written."""
    if cache:
        try:
            result = njit(cache=True, **OPTIONS)(function)
        except RuntimeError:  # numba found no folder it may write to
            return njit(**OPTIONS)(function)
        if hasattr(result, "_cache"):  # absent when compilation is switched off
            file = result._cache._cache_file
            file._source_stamp = STAMP
            file._load_index = forgiving(file._load_index)
            file.save = partial(save_apart, file)
            result._cache.load_overload = partial(load_kernel, result._cache)
            result.compile = partial(compile_alone, result.compile, Path(file._cache_path, f"{file._index_name}.lock"))
        return result
    return njit(**OPTIONS)(function)


class Compiling(event.Listener):
    """How long this process has spent on compiling kernels and on loading compiled ones. Numba does either under one lock, so
    that the events of its owner are all there are."""

    def __init__(self):
        self.depth, self.since, self.total = 0, 0.0, 0.0

    def on_start(self, event):
        if self.depth == 0:
            self.since = time.perf_counter()
        self.depth += 1

    def on_end(self, event):
        self.depth -= 1
        if self.depth == 0:
            self.total += time.perf_counter() - self.since


COMPILING = Compiling()
event.register("numba:compiler_lock", COMPILING)


def clock() -> float:
    """Seconds, by a clock that stands still while kernels are compiled or loaded: a limit of time is one on work."""
    now = COMPILING.since if COMPILING.depth else time.perf_counter()
    return now - COMPILING.total


class Interpreted:
    """A mark: instances of such a class are handled by plain Python only, and a kernel that gets one runs uncompiled."""


def kinds(args: tuple) -> tuple:
    """The classes of the arguments, those inside plain tuples too."""
    return tuple([kinds(arg) if type(arg) is tuple else type(arg) for arg in args])


def trusted(found: tuple) -> bool:
    return all(trusted(kind) if isinstance(kind, tuple) else kind.__module__.split(".")[0] in TRUSTED for kind in found)


def kernel(function: Callable) -> Callable:
    """Compile `function` on first use; on disk only when every argument is of a class of ours, NumPy's or Python's.

    A user's own loss or row type is compiled too, but never cached: its source is not under our stamp.
    """
    cached, fresh = compiled(function, cache=True), compiled(function, cache=False)
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
