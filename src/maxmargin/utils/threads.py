"""Independent parts of work on several threads, and reading ahead in one; kernels let go of the interpreter lock."""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
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
    """work(part) for each part, in order. The only pool of the package; joblib's own takes 25 times as long to start."""
    if n_jobs <= 1 or len(parts) <= 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(n_jobs) as pool:
        return list(pool.map(work, parts))


@contextmanager
def crew(n_jobs: int) -> Iterator[Callable[[Callable[[Any], Any], Sequence], list]]:
    """`in_threads` for many short rounds of work: the threads stay from one to the next, and the caller is one of them. There are
    at most `n_jobs` parts in a round."""
    with ThreadPoolExecutor(max(n_jobs - 1, 1)) as pool:

        def together(work: Callable[[Any], Any], parts: Sequence) -> list:
            others = [pool.submit(work, part) for part in parts[1:]]
            return [work(parts[0]), *(other.result() for other in others)]

        yield together


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
