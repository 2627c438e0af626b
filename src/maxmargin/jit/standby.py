"""Threads that stay within compiled code between two orders: an order reaches them in microseconds, where a task from Python
waits for the interpreter's lock, for as many times as there are threads.

A desk is an array of numbers: how many orders were given, how many threads have carried out the last one, and what it says. A
thread that waits for an order spins for a while, and then naps: a dozen threads that nap take a hundredth of a core.
"""

import ctypes
import sys
import time

import numpy as np
from llvmlite import binding, ir
from numba import types

from . import jitable_call, kernel
from .instructions import instruction
from .meeting import GIVEN_UP, breathe, fetch_add, look, rest

ORDERS, CARRIED_OUT, SAYS = 0, 16, 32  # places on a desk, cache lines apart
DESK = 48
ORDER_KIND = SAYS  # the first number of an order: what to do
LEAVE = 0  # a kind of order
# Looks before a thread naps: some hundred microseconds, about as long as a run is in Python between two orders. Threads that
# gave way in the place of a nap took cores from those of exact values: 400,000 rows, 16 cores, 2026-11-17.
AWAKE = 2_000
NAP = 50  # microseconds: an order may come so much later. By guess, 2026-11-17
REST = "maxmargin_nap"


def rest_address() -> int:
    """Of the system's function that lets a thread sleep; takes a number, and what it returns does not matter."""
    if sys.platform == "win32":
        function = ctypes.WinDLL("kernel32").Sleep
    else:
        function = ctypes.CDLL(None).usleep
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


binding.add_symbol(REST, rest_address())


def new_desk() -> np.ndarray:
    return np.zeros(DESK, np.int64)


def nap():
    """Sleep for a moment."""
    time.sleep(1e-6 * NAP)


@instruction(nap)
def _(typing):
    def emit(context, builder, signature, args):
        word = ir.IntType(32)
        function_type = ir.FunctionType(word, [word])
        function = builder.module.globals.get(REST) or ir.Function(builder.module, function_type, REST)
        builder.call(function, [word(1 if sys.platform == "win32" else NAP)])
        return context.get_dummy_value()

    return types.void(), emit


@jitable_call
def next_order(desk, seen):
    """Wait until there is another order than the last one `seen`; returns its number."""
    looks = 0
    while look(desk, ORDERS) == seen:
        looks += 1
        breathe()
        if looks > AWAKE:
            nap()
    return look(desk, ORDERS)


@jitable_call
def all_done(desk, board, others):
    """Wait until so many others have carried out the order, or one has given up."""
    looks = 0
    while look(desk, CARRIED_OUT) < others and look(board, GIVEN_UP) == 0:
        looks += 1
        rest(looks)
    desk[CARRIED_OUT] = 0


@kernel
def send(desk):
    """The order on the desk counts from now on."""
    fetch_add(desk, ORDERS, 1)
