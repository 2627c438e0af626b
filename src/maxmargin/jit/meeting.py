"""Where threads that run the same kernel wait for each other, without leaving compiled code.

`cells` are words that all of them see: how many have arrived so far, and whether somebody has given up. Whoever waits spins for a
while, then lets the system run others: on a machine with fewer free cores than threads nobody spins a core away that the one
who is late would need. What was written before a meeting is seen by all after it.
"""

import ctypes
import os
import platform
import threading
import time
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types

from . import jitable_call
from .instructions import ARM, instruction

ARRIVED, GIVEN_UP = 0, 8  # each on a cache line of its own
SPINS = 2000  # before others may run: some 50 microseconds. By what waking a thread costs, 2026-11-17
X86 = platform.machine().lower() in ("x86_64", "amd64")
YIELD = "maxmargin_yield"  # the system's function, under a name that compiled code finds whatever the system calls it
ONE_AT_A_TIME = threading.Lock()


def yielding() -> Any:
    if os.name == "nt":
        library: Any = vars(ctypes)["windll"].kernel32
        return library.SwitchToThread
    return ctypes.CDLL(None).sched_yield


binding.add_symbol(YIELD, ctypes.cast(yielding(), ctypes.c_void_p).value)


def meeting_cells() -> np.ndarray:
    """Nobody has arrived."""
    return np.zeros(16, np.int64)


# ---- plain Python: what each function means --------------------------------------------------------------


def fetch_add(cells, k, amount):
    """Add to cells[k], in one step that no other thread can come between; returns what it was."""
    with ONE_AT_A_TIME:
        found = int(cells[k])
        cells[k] = found + amount
    return found


def fetch(cells, k):
    """cells[k] as others have left it."""
    return int(cells[k])


def let_others_run(spins):
    """Rest for a moment; let the system run another thread where this is not the first time."""
    time.sleep(0)


# ---- compiled --------------------------------------------------------------------------------------------


def _place(context, builder, kind, array, k):
    return builder.gep(context.make_array(kind)(context, builder, array).data, [k])


@instruction(fetch_add)
def _(typing, cells, k, amount):
    def emit(context, builder, signature, args):
        place = _place(context, builder, signature.args[0], *args[:2])
        return builder.atomic_rmw("add", place, context.cast(builder, args[2], amount, types.int64), "acq_rel")

    return types.int64(cells, k, amount), emit


@instruction(fetch)
def _(typing, cells, k):
    def emit(context, builder, signature, args):
        return builder.load_atomic(_place(context, builder, signature.args[0], *args), "acquire", 8)

    return types.int64(cells, k), emit


@instruction(let_others_run)
def _(typing, spins):
    def emit(context, builder, signature, args):
        none = ir.FunctionType(ir.VoidType(), [])
        if X86:
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), none), [])
        elif ARM:
            hint = ir.FunctionType(ir.VoidType(), [ir.IntType(32)])
            builder.call(builder.module.declare_intrinsic("llvm.aarch64.hint", (), hint), [ir.IntType(32)(1)])
        with builder.if_then(builder.icmp_signed(">", args[0], args[0].type(SPINS))):
            function_type = ir.FunctionType(ir.IntType(32), [])
            builder.call(builder.module.globals.get(YIELD) or ir.Function(builder.module, function_type, YIELD), [])
        return context.get_dummy_value()

    return types.void(spins), emit


@jitable_call
def all_here(cells, threads):
    """Wait until so many threads are here; returns False where somebody has given up, and all must go."""
    arrived = fetch_add(cells, ARRIVED, 1)
    target, spins = (arrived // threads + 1) * threads, 0
    while fetch(cells, ARRIVED) < target:
        if fetch(cells, GIVEN_UP) != 0:
            return False
        spins += 1
        let_others_run(spins)
    return True


def give_up(cells: np.ndarray) -> None:
    """Let nobody wait any longer."""
    cells[GIVEN_UP] = 1
