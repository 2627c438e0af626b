"""How long this process has been compiling, or waiting for another that does: the time of a fit does not count it."""

import time

from numba import config
from numba.core import event


class _Stopwatch(event.Listener):
    """Seconds between the first of nested beginnings and the last of their ends, told as they pass to whoever asks."""

    def __init__(self) -> None:
        self.depth, self.since, self.total = 0, 0.0, 0.0
        self.tell = lambda total, since: None

    def on_start(self, event):
        if self.depth == 0:
            self.since = time.time()
            self.tell(self.total, self.since)
        self.depth += 1

    def on_end(self, event):
        self.depth -= 1
        if self.depth == 0:
            self.total += time.time() - self.since
            self.tell(self.total, 0.0)


_watch = _Stopwatch()
event.register("numba:compiler_lock", _watch)  # under which kernels are loaded and waited for, too


def compiling() -> float:
    return _watch.total


def compiles() -> bool:
    """Whether kernels are compiled at all."""
    return not config.DISABLE_JIT


def tell(function) -> None:
    """Call function(total, since) whenever compilation begins (since is when) or ends (since is 0)."""
    _watch.tell = function
