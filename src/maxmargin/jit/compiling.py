"""How long this process has been compiling, and what it says of that."""

import gc
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numba

TESTED = "0.61", "0.68"  # the oldest and the newest numba that the suite runs with: `make oldest`, `make newest`
PATIENCE = 2.0  # seconds of compiling until a line says so
LINE = "maxmargin compiles for this machine, once (python -m maxmargin.warm does it ahead; MAXMARGIN_QUIET=1 hides this)"


def is_watched() -> bool:
    """Whether a person sees stderr: a terminal or a notebook."""
    stream = sys.stderr
    if stream is None or os.environ.get("MAXMARGIN_QUIET"):
        return False
    return stream.isatty() or type(stream).__module__.startswith("ipykernel")


class Compiling:
    """The time that this process has spent on compiling kernels, on loading compiled ones and on waiting for another process
    that compiles. One thread at a time does either."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.depth, self.since, self.total = 0, 0.0, 0.0
        self.patience, self.said, self.fits_aloud = PATIENCE, False, 0
        self.timer: threading.Timer | None = None
        self.began = 0.0

    def __enter__(self) -> None:
        self.lock.acquire()
        self.start()

    def __exit__(self, *error: object) -> None:
        self.end()
        self.lock.release()

    def start(self) -> None:
        if self.depth == 0:
            self.since = time.perf_counter()
        self.depth += 1

    def end(self) -> None:
        self.depth -= 1
        if self.depth:
            return
        self.total += time.perf_counter() - self.since
        if self.timer is not None:
            self.timer.cancel()
            self.timer, self.patience = None, max(self.patience - (time.perf_counter() - self.began), 0.0)

    def tell(self, name: str) -> None:
        """This kernel is compiled now: it was not there to be loaded."""
        if self.fits_aloud:
            print(f"\rmaxmargin compiles {name:<72}", file=sys.stderr, flush=True)
        if not self.said and self.timer is None and is_watched():
            self.began, self.timer = time.perf_counter(), threading.Timer(self.patience, self.say)
            self.timer.daemon = True
            self.timer.start()

    def say(self) -> None:
        self.said = True  # once a process
        print(f"\r{LINE}", file=sys.stderr, flush=True)

    @contextmanager
    def aloud(self, verbose: int) -> Iterator[None]:
        """Say what is compiled meanwhile."""
        self.fits_aloud += bool(verbose)
        try:
            yield
        finally:
            self.fits_aloud -= bool(verbose)


COMPILING = Compiling()


def clock() -> float:
    """Seconds, by a clock that stands still while kernels are compiled or loaded: a limit of time is one on work."""
    now = COMPILING.since if COMPILING.depth else time.perf_counter()
    return now - COMPILING.total


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the search for cycles of garbage: compiling makes many objects, and the search is a tenth of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@cache
def warn_untuned(reason: str) -> None:
    warnings.warn(
        f"numba {numba.__version__} lacks what maxmargin uses to compile fast and to keep compiled code ({reason}): kernels are "
        f"compiled by plain numba, in each process anew. maxmargin is tested with numba {TESTED[0]} to {TESTED[1]}; install one "
        "of these.",
        RuntimeWarning,
        stacklevel=2,
    )
