"""How long this process has been compiling, or waiting for another that does: the time of a fit does not count it."""

import time

from numba import config

from maxmargin.jit import COMPILING


class _Stopwatch:
    """Tells listeners when compiling begins and ends."""

    def __init__(self) -> None:
        self.start, self.end = COMPILING.start, COMPILING.end
        self.tell = lambda total, since: None
        COMPILING.start, COMPILING.end = self.begins, self.ends

    def begins(self) -> None:
        self.start()
        if COMPILING.depth == 1:
            self.tell(COMPILING.total, time.time())

    def ends(self) -> None:
        self.end()
        if COMPILING.depth == 0:
            self.tell(COMPILING.total, 0.0)


_watch = _Stopwatch()


def compiling() -> float:
    return COMPILING.total


def compiles() -> bool:
    """Whether kernels are compiled at all."""
    return not config.DISABLE_JIT


def tell(function) -> None:
    """Call function(total, since) whenever compilation begins (since is when) or ends (since is 0)."""
    _watch.tell = function
