"""Independent parts of work on several threads, and reading ahead in one; kernels let go of the interpreter lock."""

import os
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import pairwise
from numbers import Integral
from queue import SimpleQueue
from typing import Any

import numpy as np
from joblib import effective_n_jobs, parallel_config
from joblib.parallel import get_active_backend

END = object()  # what a generator that is at its end gives


def thread_count(n_jobs: int | None) -> int:
    """How many threads `n_jobs` asks for, as joblib counts; also where no process could be started, as in a worker of a pool."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral | None) or n_jobs == 0:
        raise ValueError(f"n_jobs must be None or an integer other than 0, got {n_jobs!r}.")
    if n_jobs is None:
        n_jobs = get_active_backend()[1]  # what a context of joblib's says; mostly there is none, and to make one takes longer
    if n_jobs is None or n_jobs == 1:
        return 1
    with parallel_config(backend="threading"):
        return effective_n_jobs(int(n_jobs))


def spans(n: int, count: int) -> list[tuple[int, int]]:
    """range(n) cut into at most `count` runs of nearly the same length."""
    if count == 1 and n > 0:
        return [(0, n)]
    bounds = np.linspace(0, n, min(n, count) + 1).astype(int).tolist()
    return list(pairwise(bounds))


def in_threads(work: Callable[[Any], Any], parts: Sequence, n_jobs: int) -> list:
    """work(part) for each part, in order; whoever is free takes the next one. Threads are those of a team that stands by: to
    start sixteen takes milliseconds. Of several that fail the first in order is heard: those before it were taken already."""
    if n_jobs <= 1 or len(parts) <= 1:
        return [work(part) for part in parts]
    results: list = [None] * len(parts)
    left, failed = iter(range(len(parts))), dict[int, BaseException]()

    def take_parts(_: int) -> None:
        for k in left:
            if failed:
                return
            try:
                results[k] = work(parts[k])
            except BaseException as error:
                failed[k] = error

    with TEAMS.at_work(min(n_jobs, len(parts))) as team:
        team.work(take_parts, range(team.size))
    if failed:
        raise failed[min(failed)]
    return results


def nothing() -> None:
    """For whoever need not be told."""


class Round:
    """What the other threads of a team are asked for at a time, and their answers: (result, error) of each. Whoever waits may be
    interrupted at any place, also with an answer in its hands, so that these are counted where they lie."""

    def __init__(self, work: Callable[[Any], Any], count: int):
        self.work = work
        self.answers: list[Any] = [None] * count
        self.news: SimpleQueue = SimpleQueue()  # a word for every answer

    def answer(self, place: int, part: Any) -> None:
        """What goes wrong is handed over: the one who asked raises it."""
        try:
            self.answers[place] = (self.work(part), None)
        except BaseException as error:
            self.answers[place] = (None, error)
        self.news.put(place)

    def wait(self, sent: int) -> None:
        """Until the first so many have answered."""
        while None in self.answers[:sent]:
            self.news.get()


def stand_by(tasks: SimpleQueue) -> None:
    """What a thread of a team does until it is told None."""
    while (task := tasks.get()) is not None:
        asked, part, place = task
        asked.answer(place, part)
        del task, asked, part  # nothing is kept alive while waiting


class Team:
    """Threads that stay, for many short rounds of work: whoever asks for a round takes part in it. A round takes a tenth of what
    it takes with a pool of futures."""

    broken = False  # whether somebody may still be at work though nobody waits

    def __init__(self, n_jobs: int):
        self.size = n_jobs
        self.tasks: list[SimpleQueue] = [SimpleQueue() for _ in range(n_jobs - 1)]
        for k, tasks in enumerate(self.tasks):
            threading.Thread(target=stand_by, args=(tasks,), name=f"maxmargin-team-{k}", daemon=True).start()

    def work(self, work: Callable[[Any], Any], parts: Sequence, give_up: Callable[[], Any] = nothing) -> list:
        """work(part) for each part, in order. Nobody is at work any more when this ends, unless it is interrupted a second time
        while it waits for that: then the team is `broken`. `give_up` is called where the first part cannot be done, for others
        that wait for it."""
        if not self.tasks or len(parts) <= 1:
            return [work(part) for part in parts]
        asked, begun, sent = Round(work, len(parts) - 1), 0, 0
        self.broken = True
        try:
            for place, part in enumerate(parts[1:]):
                begun += 1
                self.tasks[place % len(self.tasks)].put((asked, part, place))
                sent += 1
            first = work(parts[0])
            asked.wait(sent)
        except BaseException:
            give_up()
            asked.wait(sent)
            self.broken = begun != sent
            raise
        self.broken = False
        for _, error in asked.answers:
            if error is not None:
                raise error
        return [first, *(result for result, _ in asked.answers)]

    def close(self) -> None:
        for tasks in self.tasks:
            tasks.put(None)
        self.tasks = []

    def __del__(self) -> None:
        self.close()


class Teams:
    """Teams that nobody needs at the moment, by their size. Two who work at the same time have two teams."""

    def __init__(self) -> None:
        self.free: dict[int, list[Team]] = {}

    @contextmanager
    def at_work(self, size: int) -> Iterator[Team]:
        """A team of this size, for a while."""
        free = self.free.setdefault(size, [])
        try:
            team = free.pop()
        except IndexError:
            team = Team(size)
        try:
            yield team
        finally:
            if not team.broken:
                free.append(team)

    def forget(self) -> None:
        """A process that was forked has none of the threads."""
        for team in [team for teams in self.free.values() for team in teams]:
            team.tasks = []
        self.free = {}


TEAMS = Teams()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=TEAMS.forget)


def with_scratch(make: Callable[[], Any], work: Callable[[Any, Any], Any], kept: list[Any] | None = None) -> Callable[[Any], Any]:
    """work(part, scratch) as a function of the part: scratch is made for as many as work at a time, not for every part; what is
    `kept` from earlier comes first."""
    free: list[Any] = [] if kept is None else kept

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
