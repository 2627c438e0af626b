"""How many threads BLAS may use while a computation of ours runs.

The number belongs to the whole process. Two fits at once therefore must not restore it under each other: the first to come sets
it, the last to go restores it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController


@cache
def controller() -> Any:
    """Of the libraries that are loaded when it is first asked for: looking for them takes a while."""
    return ThreadpoolController()


def let_go() -> None:
    """Since its version 3.8 threadpoolctl lets only that thread change the number that did so first. The last of us may be
    another one."""
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


class Inside:
    """Who computes with one thread at this time."""

    lock = threading.Lock()
    count = 0
    limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Matrix products on the thread that asks for them."""
    with Inside.lock:
        if Inside.count == 0:
            Inside.limit = controller().limit(limits=1, user_api="blas")
        Inside.count += 1
    try:
        yield
    finally:
        with Inside.lock:
            Inside.count -= 1
            if Inside.count == 0:
                let_go()
                Inside.limit.restore_original_limits()
                let_go()
