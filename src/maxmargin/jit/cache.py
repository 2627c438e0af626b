"""Where compiled kernels are kept on disk: a folder for each version of what is compiled, of numba and of the processor.

    $NUMBA_CACHE_DIR/maxmargin/, else the user's cache folder, e.g. ~/.cache/maxmargin/
        1b2c...-numba0.68.1-znver3-9f8e.../
            maxmargin.solvers.ascent.linear.scalar_pass-41.cpython-311.<types>.nbc

Files are written once and never changed. Numba's own cache numbers its files in an index: two processes that compile at once may
give one number to two kernels, and each then runs the other's code.
"""

import os
import pickle
import re
import shutil
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding

LOCKS: Any = import_module("fcntl") if os.name == "posix" else None  # without it two processes may compile the same
LONGEST_WAIT, LOOK_AGAIN = 60.0, 0.02  # seconds: for another process that compiles, and between two looks
PACKAGE = Path(__file__).parent.parent
# Nothing in these files and folders is compiled or imported by what is (a test holds that): an edit there recompiles nothing.
PLAIN = {"__init__.py", "callbacks.py", "demo.py", "solve.py", "warm.py", "datasets", "estimators", "persistence", "plots"}
# A folder that was not used for 30 days is removed when a new one is made; so is one that was not used for a day, where eight
# others were used later (each edit of the source makes one).
DAY, LONG, MOST = 86_400.0, 30, 8
FOLDER = re.compile(r"[0-9a-f]{16}-numba")


def source_stamp() -> str:
    """A hash of every file that kernels may be made of: numba itself watches only the one in which a kernel stands."""
    files = [path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] not in PLAIN]
    return sha256(b"".join(path.relative_to(PACKAGE).as_posix().encode() + path.read_bytes() for path in files)).hexdigest()


STAMP = source_stamp()


def user_folder() -> Path:
    """Where this system keeps what programs can make anew."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser(r"~\AppData\Local")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base)


def processor() -> str:
    """Its name, and a hash of what it can do."""
    with suppress(RuntimeError):  # a system that does not tell
        features = binding.get_host_cpu_features().flatten()
        return f"{binding.get_host_cpu_name()}-{sha256(features.encode()).hexdigest()[:8]}"
    return binding.get_host_cpu_name()


@cache
def folder() -> Path:
    """That of this version, marked as used; it is made when the first kernel is kept."""
    root = (Path(numba.config.CACHE_DIR).absolute() if numba.config.CACHE_DIR else user_folder()) / "maxmargin"
    found = root / f"{STAMP[:16]}-numba{numba.__version__}-{processor()}"
    with suppress(OSError):
        os.utime(found)
    return found


def sweep(root: Path, now: float) -> None:
    """Remove the folders of versions that are not in use any more."""
    used = {}
    for path in root.iterdir():
        if FOLDER.match(path.name):
            with suppress(OSError):  # another process removes it
                used[path] = path.stat().st_mtime
    for place, path in enumerate(sorted(used, key=used.__getitem__, reverse=True)):
        if now - used[path] > (DAY if place >= MOST else LONG * DAY):
            shutil.rmtree(path, ignore_errors=True)


def made_folder() -> Path:
    """Raises OSError where it cannot be made or written to."""
    found = folder()
    if not found.is_absolute():
        raise OSError("there is no home folder")
    if not found.is_dir():
        found.mkdir(parents=True, exist_ok=True)
        sweep(found.parent, time.time())
    return found


def keeps_kernels() -> bool:
    """Whether there is a folder for compiled kernels that can be written to."""
    try:
        path = made_folder() / f"{uuid.uuid4().hex}.tmp"
        path.touch()
        path.unlink()
    except OSError:
        return False
    return True


class Shelf:
    """The compiled forms of one function: a file for each, named by a hash of the key. The key stands in the file as well, so
    that one form is never taken for another."""

    def __init__(self, function: Callable, dumps: Callable[[Any], bytes]) -> None:
        code = function.__code__
        self.stem = f"{function.__module__}.{code.co_name}-{code.co_firstlineno}.{sys.implementation.cache_tag}"
        self.dumps = dumps

    def lock(self) -> Path:
        """The file that a process locks while it loads or compiles this function."""
        with suppress(OSError):
            made_folder()
        return folder() / f"{self.stem}.lock"

    def path(self, key: Any) -> Path:
        return folder() / f"{self.stem}.{sha256(repr(key).encode()).hexdigest()[:32]}.nbc"

    def load(self, key: Any) -> Any:
        """None where there is none, or one that is damaged."""
        with suppress(OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError), self.path(key).open("rb") as file:
            return pickle.load(file) if pickle.load(file) == key else None
        return None

    def save(self, key: Any, data: Any) -> None:
        """Where that is impossible, the kernel serves this process only, and a warning says so once."""
        path = self.path(key)
        part = path.with_name(f"{uuid.uuid4().hex}.tmp")
        try:
            made_folder()
            try:
                part.write_bytes(self.dumps(key) + self.dumps(data))
                os.replace(part, path)
            except OSError:
                part.unlink(missing_ok=True)
                raise
        except OSError as error:
            if not path.is_file():  # Windows replaces no file that another process reads
                warn_not_kept(error.strerror or str(error))  # without a file name: once for all kernels


@cache
def warn_not_kept(reason: str) -> None:
    warnings.warn(
        f"Compiled kernels cannot be kept in {folder()} ({reason}): each process compiles them anew. "
        "Set NUMBA_CACHE_DIR to a folder that can be written to.",
        RuntimeWarning,
        stacklevel=2,
    )


@contextmanager
def undisturbed(path: Path) -> Iterator[None]:
    """Hold an advisory lock on this file, so that no other process does. It goes with the process. Where it cannot be had, in
    time or at all, go on without."""
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
