"""What threads need that work together within kernels: numbers that all of them count on, and a place to meet.

A board is an array of numbers for one team, all zero before the team begins. Kernels do not hold the interpreter's lock, so that
a meeting takes about a microsecond; a round of tasks from Python takes a hundred.
"""

import ctypes
import platform
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types

from . import jitable_call
from .instructions import ARM, instruction

ARRIVED, GIVEN_UP, PIECES = 0, 16, 32  # places on a board, cache lines apart
PLACES = 48
# Looks at the board before a thread gives way to others: some hundred microseconds, what threads with processors of their own
# wait for each other at the most. By guess, 2026-11-17.
SPINS = 5_000
X86 = platform.machine().lower() in ("x86_64", "amd64")
ONE_AT_A_TIME = threading.Lock()
GIVE_WAY = "maxmargin_give_way"


def yield_address() -> int:
    """Of the system's function that lets another thread have the processor: no arguments, returns a number."""
    if sys.platform == "win32":
        function = ctypes.WinDLL("kernel32").SwitchToThread
    else:
        function = ctypes.CDLL(None).sched_yield
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


binding.add_symbol(GIVE_WAY, yield_address())


def new_board() -> np.ndarray:
    return np.zeros(PLACES, np.int64)


# ---- plain Python: what each function means --------------------------------------------------------------


def fetch_add(board, k, n):
    """board[k] += n, by one thread at a time; returns what it was."""
    with ONE_AT_A_TIME:
        found = int(board[k])
        board[k] = found + n
    return found


def look(board, k):
    """board[k]; what other threads wrote before they wrote that is seen from here on."""
    return int(board[k])


def breathe():
    """Rest for some cycles: who shares a core with a thread that waits has it to itself meanwhile."""


def give_way():
    """Let another thread have the processor."""
    time.sleep(0)


# ---- compiled: the same as instructions ------------------------------------------------------------------


def _place(context, builder, signature, args):
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    return builder.gep(data, [context.cast(builder, args[1], signature.args[1], types.int64)])


@instruction(fetch_add)
def _(typing, board, k, n):
    def emit(context, builder, signature, args):
        more = context.cast(builder, args[2], signature.args[2], types.int64)
        return builder.atomic_rmw("add", _place(context, builder, signature, args), more, "acq_rel")

    return types.int64(board, k, n), emit


@instruction(look)
def _(typing, board, k):
    def emit(context, builder, signature, args):
        return builder.load_atomic(_place(context, builder, signature, args), "acquire", 8)

    return types.int64(board, k), emit


@instruction(breathe)
def _(typing):
    def emit(context, builder, signature, args):
        word = ir.IntType(32)
        if X86:
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), ir.FunctionType(ir.VoidType(), [])), [])
        elif ARM:
            hint = ir.FunctionType(ir.VoidType(), [word])
            builder.call(builder.module.declare_intrinsic("llvm.aarch64.hint", (), hint), [word(1)])
        return context.get_dummy_value()

    return types.void(), emit


@instruction(give_way)
def _(typing):
    def emit(context, builder, signature, args):
        function_type = ir.FunctionType(ir.IntType(32), [])
        function = builder.module.globals.get(GIVE_WAY) or ir.Function(builder.module, function_type, GIVE_WAY)
        builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), emit


# ---- for kernels -----------------------------------------------------------------------------------------


@jitable_call
def rest(looks):
    """What a thread that waits does after so many looks."""
    breathe()
    if looks > SPINS:
        give_way()


@jitable_call
def wait_for_work(counts, place, wanted):
    """Wait until another thread has counted counts[place] up to `wanted`: one that is at work on it, and does not give up."""
    looks = 0
    while look(counts, place) < wanted:
        looks += 1
        rest(looks)


@jitable_call
def wait_until_counted(counts, place, wanted, board):
    """Wait until others have counted counts[place] up to `wanted`. Returns False where one of the team has given up."""
    looks = 0
    while look(counts, place) < wanted:
        if look(board, GIVEN_UP) != 0:
            return False
        looks += 1
        rest(looks)
    return True


@jitable_call
def meet_all(board, size):
    """Wait until all `size` threads of a team are here. Returns False where one of them has given up: nobody comes any more."""
    wanted = (fetch_add(board, ARRIVED, 1) // size + 1) * size
    return wait_until_counted(board, ARRIVED, wanted, board)


def give_up(board: np.ndarray) -> None:
    """Tell a team that one of it will not come."""
    board[GIVEN_UP] = 1


def at_one_board(team: Any, count: int, work: Callable[[int, np.ndarray], Any]) -> list:
    """work(p, board) on `count` threads of a team: all of them meet at the board, and none waits for one that has failed."""
    board = new_board()

    def try_to(p: int) -> Any:
        try:
            return work(p, board)
        except BaseException:
            give_up(board)
            raise

    return team.work(try_to, range(count), lambda: give_up(board))
