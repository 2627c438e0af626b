"""Time and memory of single fits, each in a process of its own that can be killed.

A worker loads the data once and then answers requests one at a time, so several solvers can be kept ready and measured in turns:
A B A B rather than A A B B, as a machine's speed drifts. Before the first timed fit of a loss it fits a few rows untimed. A
solver that compiles is given the same fit as the one to be timed, since which parts get compiled depends on the path it takes
(a fit with `max_time` is not for timing, and a coarse one does).
"""

import ctypes
import gc
import os
import resource
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from .solvers import Answer, Solver
from .workloads import Workload

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
WARM_ROWS = 200
WARM_SECONDS = 20.0  # more than compilation takes; what a longer fit compiles after that counts against it
COMPILATION = 300.0  # seconds granted to the warm-up beyond the limit of a fit


@dataclass(frozen=True)
class Request:
    """One fit. `trim` hands freed memory back first, so that the fit cannot hide in it: for measuring memory, not time."""

    loss: str
    C: float
    setting: float
    trim: bool = False
    max_time: float | None = None


@dataclass(frozen=True)
class Run:
    """One fit measured: wall and processor seconds, and how far the process grew beyond its size just before the fit."""

    seconds: float
    cpu_seconds: float
    extra_bytes: int
    answer: Answer


class WorkerError(Exception):
    """The solver raised an error, or its process died."""


@contextmanager
def environment(changes: dict[str, str]) -> Iterator[None]:
    """os.environ with `changes` for as long as the block runs: a process started there inherits them."""
    before = {key: os.environ.get(key) for key in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def status(field: str) -> int:
    """Bytes of a field of /proc/self/status"""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


class PeakMemory:
    """How far the process grows above its size at the start; native memory counts.

    On Linux the high-water mark is reset first, and read from /proc: ru_maxrss cannot be reset and begins, in a child,
    at the size its parent had. Elsewhere ru_maxrss has to do; it can then overstate the growth, never understate it.
    """

    def __init__(self) -> None:
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self.before, self.reset = status("VmRSS"), True
        except OSError:
            self.before, self.reset = maxrss(), False

    def growth(self) -> int:
        return max(0, (status("VmHWM") if self.reset else maxrss()) - self.before)


def maxrss() -> int:
    """The largest size of this process so far, in bytes"""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def release_memory() -> None:
    """Hand freed heap memory back to the system, where the C library can."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def serve(connection: Connection, workload: Workload, solver: Solver) -> None:
    """A worker's life: load, say so; then, for each Request, warm up, say so, and answer with a Run. An error's text ends it."""
    warnings.simplefilter("ignore")
    try:
        X, y = workload.load()
        data = solver.prepare(X, y)
        step = 1 if solver.compiled else max(1, y.size // WARM_ROWS)
        small = data if step == 1 else solver.prepare(X[::step], y[::step])
        del X, y
        connection.send(None)
        warm: set[tuple[float | str, ...]] = set()
        while True:
            request: Request = connection.recv()
            key = (request.loss, request.C, request.setting) if solver.compiled else (request.loss,)
            if key not in warm:
                solver.fit(small, request.loss, request.C, request.setting if solver.compiled else solver.grid[0], WARM_SECONDS)
                warm.add(key)
            connection.send(None)
            connection.send(measured(solver, data, request))
    except EOFError:  # the other end is gone
        return
    except Exception as error:  # told to the process that asked, which goes on
        connection.send(f"{type(error).__name__}: {error}")


def measured(solver: Solver, data: object, request: Request) -> Run:
    release_memory() if request.trim else gc.collect()
    memory = PeakMemory()
    cpu, wall = time.process_time(), time.perf_counter()
    model = solver.fit(data, request.loss, request.C, request.setting, request.max_time)
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    return Run(seconds, cpu_seconds, memory.growth(), solver.read(model))


class Process:
    """A started worker process, its data loaded"""

    def __init__(self, workload: Workload, solver: Solver) -> None:
        context = get_context("spawn")
        self.name = solver.name
        self.connection, far = context.Pipe()
        self.process = context.Process(target=serve, args=(far, workload, solver), daemon=True)
        with environment(ONE_THREAD if solver.threads == 1 else {}):
            self.process.start()
        far.close()
        self.receive()

    def receive(self, limit: float | None = None) -> Any:
        """The next message; TimeoutError if it takes longer than `limit`, WorkerError if the process died or reports an error"""
        try:
            if not self.connection.poll(limit):
                raise TimeoutError
            reply = self.connection.recv()
        except EOFError:
            reply = "the process died"
        if isinstance(reply, str):
            raise WorkerError(f"{self.name}: {reply}")
        return reply

    def fit(self, request: Request, limit: float) -> Run:
        self.connection.send(request)
        self.receive(limit + COMPILATION)
        return self.receive(limit)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


class Worker:
    """A worker process, started when needed. A fit beyond its limit, or one that fails, ends it; the next starts another."""

    def __init__(self, workload: Workload, solver: Solver) -> None:
        self.workload, self.solver = workload, solver
        self.process: Process | None = None

    def fit(self, request: Request, limit: float) -> Run | None:
        """The measured fit, or None if it took longer than `limit` seconds. Loading and warming up are not counted."""
        try:
            if self.process is None:
                self.process = Process(self.workload, self.solver)
            return self.process.fit(request, limit)
        except TimeoutError:
            self.close()
            return None
        except WorkerError:
            self.close()
            raise

    def close(self) -> None:
        if self.process is not None:
            self.process.end()
            self.process = None
