"""Methods of a user's structure for many samples at once, on threads or in other processes, as the structure allows."""

import pickle
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from joblib import Parallel, delayed

from ...utils.threads import in_threads, spans

WAYS = None, "threads", "processes"  # what Structure.parallel may be
SHARES_OF_EACH = 4  # of the samples, for each thread or process: who is done early takes another. By guess, 2026-11-18


def checked_way(structure: Any) -> str | None:
    """How methods of this structure may run at the same time."""
    found: str | None = structure.parallel
    if found not in WAYS:
        raise ValueError(f"{type(structure).__name__}.parallel must be None, 'threads' or 'processes', got {found!r}.")
    return found


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Ctrl-C is for the one who asks, in the first process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def answers(structure: Any, method: str, w: Any, samples: list[tuple]) -> list:
    """method(w, *sample) for some samples, one after another."""
    return [getattr(structure, method)(w, *sample) for sample in samples]


def answers_elsewhere(*asked) -> list:
    with deaf_to_interrupts():
        return answers(*asked)


def for_all_samples(structure: Any, method: str, w: Any, samples: list[tuple], n_jobs: int) -> list:
    """The same for all of them, as the structure allows."""
    way = checked_way(structure)
    if way is None or n_jobs < 2 or len(samples) < 2:
        return answers(structure, method, w, samples)
    parts = [samples[slice(*part)] for part in spans(len(samples), SHARES_OF_EACH * n_jobs)]
    if way == "threads":
        found = in_threads(lambda part: answers(structure, method, w, part), parts, n_jobs)
    else:
        found = in_processes(structure, method, w, parts, n_jobs)
    return [one for part in found for one in part]


def in_processes(structure: Any, method: str, w: Any, parts: list[list[tuple]], n_jobs: int) -> list[list]:
    """Of each part, in processes that stay for later calls."""
    try:
        return Parallel(n_jobs=n_jobs, backend="loky")(delayed(answers_elsewhere)(structure, method, w, part) for part in parts)
    except pickle.PicklingError as error:
        needed = "needs a structure, samples and outputs that can be pickled"
        raise ValueError(f"{type(structure).__name__}.parallel='processes' {needed}: {error}.") from error
