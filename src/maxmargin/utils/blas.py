"""How many threads matrix products use while a computation of ours runs.

The number belongs to the whole process. Two fits at once therefore must not restore it under each other: as long as anyone
computes it is the least that any of them asks for, then what it was before the first one came.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import OpenBLASController, ThreadpoolController

SHORT_PRODUCT = 8192  # numbers of an inner product up to which OpenBLAS takes one thread: it does below 10,000


@cache
def blas_libraries() -> Any:
    """Those of this process, found once: looking for them takes milliseconds, setting their threads microseconds."""
    return ThreadpoolController().select(user_api="blas")


def let_go() -> None:
    """Since its version 3.8 threadpoolctl lets only that thread change the number that did so first. The next of us may be
    another one."""
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


def inner_product(a: np.ndarray, b: np.ndarray) -> Any:
    """The inner product of two arrays of one shape. A long one is not left to BLAS: its threads go on looking for work for a
    tenth of a second, on the cores that ours are about to need."""
    if a.size <= SHORT_PRODUCT:
        return np.vdot(a, b)
    return np.einsum("i,i->", a.reshape(-1), b.reshape(-1))


def products_of_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(rows, 1): the inner product of each row of one with that of the other. A third of the time of `np.sum`, where rows are
    short."""
    return np.einsum("ij,ij->i", a, b)[:, None]


class BlasUsers:
    """Who is computing at this moment, by the number of threads that each has asked for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked: list[int] = []
        self.before: list[int] = []

    def enter(self, threads: int) -> None:
        with self.lock:
            self.asked.append(threads)
            if len(self.asked) == 1:
                self.before = [library.num_threads for library in blas_libraries().lib_controllers]
            if threads == min(self.asked):
                self.set([threads] * len(self.before))

    def leave(self, threads: int) -> None:
        with self.lock:
            self.asked.remove(threads)
            if not self.asked:
                self.set(self.before)
            elif threads < min(self.asked):
                self.set([min(self.asked)] * len(self.before))

    def set(self, numbers: list[int]) -> None:
        """Of the libraries, where they have another one."""
        for library, number in zip(blas_libraries().lib_controllers, numbers, strict=True):
            if library.num_threads != number:
                library.set_num_threads(number)
                let_go()


BLAS_USERS = BlasUsers()


@contextmanager
def blas_threads(n_jobs: int) -> Iterator[None]:
    """Matrix products on `n_jobs` threads, or fewer if others say so."""
    BLAS_USERS.enter(n_jobs)
    try:
        yield
    finally:
        BLAS_USERS.leave(n_jobs)
