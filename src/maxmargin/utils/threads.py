"""Independent pieces of work on several threads, and reading ahead in one; kernels let go of the interpreter lock."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any

import numpy as np
from joblib import effective_n_jobs, parallel_config


def thread_count(n_jobs: int | None) -> int:
    """How many threads `n_jobs` asks for, as joblib counts; also where no process could be started, as in a worker of a pool."""
    with parallel_config(backend="threading"):
        return effective_n_jobs(n_jobs)


def pieces(n: int, count: int) -> list[tuple[int, int]]:
    """range(n) cut into at most `count` runs of nearly the same length."""
    bounds = np.linspace(0, n, min(n, count) + 1).astype(int).tolist()
    return list(pairwise(bounds))


def in_threads(work: Callable[[Any], Any], parts: Sequence, n_jobs: int) -> list:
    """work(part) for each part, in order."""
    if n_jobs <= 1 or len(parts) <= 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(n_jobs) as pool:
        return list(pool.map(work, parts))


def read_ahead(items: Generator) -> Generator:
    """The items of a generator, which runs in a thread of its own, one item ahead."""
    queue: Queue = Queue(maxsize=1)
    stop = Event()

    def work() -> None:
        last = None
        try:
            with closing(items):
                for item in items:
                    queue.put((item, True))
                    del item  # a block is let go of before the next one is made
                    if stop.is_set():
                        return
        except BaseException as error:  # whatever it is, it is raised again where the items are wanted
            last = error
        if not stop.is_set():
            queue.put((last, False))

    thread = Thread(target=work, name="maxmargin-read-ahead", daemon=True)
    thread.start()
    try:
        more = True
        while more:
            item, more = queue.get()
            if more:
                yield item
            elif item is not None:
                raise item
            del item
    finally:
        stop.set()
        while thread.is_alive():  # it may wait for a free place
            try:
                queue.get_nowait()
            except Empty:
                thread.join(0.01)
