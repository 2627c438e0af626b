"""Independent parts of work on several threads, and reading ahead in one; kernels let go of the interpreter lock."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from itertools import pairwise
from typing import Any

import numpy as np
from joblib import effective_n_jobs, parallel_config

END = object()  # what a generator that is at its end gives


def thread_count(n_jobs: int | None) -> int:
    """How many threads `n_jobs` asks for, as joblib counts; also where no process could be started, as in a worker of a pool."""
    with parallel_config(backend="threading"):
        return effective_n_jobs(n_jobs)


def spans(n: int, count: int) -> list[tuple[int, int]]:
    """range(n) cut into at most `count` runs of nearly the same length."""
    bounds = np.linspace(0, n, min(n, count) + 1).astype(int).tolist()
    return list(pairwise(bounds))


def in_threads(work: Callable[[Any], Any], parts: Sequence, n_jobs: int) -> list:
    """work(part) for each part, in order. joblib's own pool takes 25 times as long to start."""
    if n_jobs <= 1 or len(parts) <= 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(n_jobs) as pool:
        return list(pool.map(work, parts))


class Team:
    """Threads that stay, for many short rounds of work: whoever asks for a round takes part in it."""

    def __init__(self, n_jobs: int):
        self.size = n_jobs
        self.pool = ThreadPoolExecutor(n_jobs - 1, "maxmargin-team") if n_jobs > 1 else None

    def work(self, work: Callable[[Any], Any], parts: Sequence) -> list:
        """work(part) for each part, in order. Nobody is at work any more when this ends, however it does."""
        if self.pool is None or len(parts) <= 1:
            return [work(part) for part in parts]
        others = [self.pool.submit(work, part) for part in parts[1:]]
        try:
            first = work(parts[0])
        finally:
            wait(others)
        return [first, *(other.result() for other in others)]

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown()


def with_scratch(make: Callable[[], Any], work: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """work(part, scratch) as a function of the part: scratch is made for as many as work at a time, not for every part."""
    free: list[Any] = []

    def lent(part: Any) -> Any:
        try:
            scratch = free.pop()
        except IndexError:
            scratch = make()
        result = work(part, scratch)
        free.append(scratch)
        return result

    return lent


def read_ahead(items: Generator) -> Generator:
    """The items of a generator, which runs in a thread of its own, one item ahead."""
    with closing(items), ThreadPoolExecutor(1, "maxmargin-read-ahead") as reader:
        coming = reader.submit(next, items, END)
        while (item := coming.result()) is not END:
            coming = reader.submit(next, items, END)
            yield item
            del item  # a block is let go of before another one is waited for
