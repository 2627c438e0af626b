"""How many threads BLAS may use while a computation of ours runs.

The number belongs to the whole process. Two fits at once therefore must not restore it under each other: the first to come sets
it, the last to go restores it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def controller() -> Any:
    """Of the libraries that are loaded when it is first asked for: looking for them takes a while."""
    return ThreadpoolController()


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
                Inside.limit.restore_original_limits()
