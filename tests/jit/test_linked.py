"""Functions without machine code of their own: what kernels make of them."""

import gc

import numpy as np
import pytest
from numba import njit
from numba.core.compiler import CompilerBase

from maxmargin.jit import jitable, jitable_call, kernel
from maxmargin.jit.linked import LinkedLibrary

pytestmark = pytest.mark.compiled


@jitable
def checked(x):
    if x[0] > 1.0:
        raise ValueError("more than one")
    if x[0] < -1.0:
        print("less than", -1)
    return x[0]


@jitable_call
def twice(x):
    return 2.0 * checked(x)


@kernel
def four_times(x):
    return twice(x) + 2.0 * checked(x)


def test_what_is_linked_in_prints_and_raises(capsys):
    assert four_times(np.ones(1)) == 4.0
    assert four_times(np.full(1, -2.0)) == -8.0
    assert capsys.readouterr().out == "less than -1\n" * 2
    with pytest.raises(ValueError, match="more than one"):
        four_times(np.full(1, 2.0))


@kernel
def thrice(x):
    return 3.0 * checked(x)


def test_only_the_kernel_gets_machine_code(monkeypatch):
    libraries = []
    compile_core = CompilerBase._compile_core

    def seen(compiler):
        result = compile_core(compiler)
        libraries.append(compiler.state["library"])
        return result

    monkeypatch.setattr(CompilerBase, "_compile_core", seen)
    assert thrice.fresh(np.ones(1, np.float32)) == 3.0  # not one from the cache
    *inner, outer = libraries
    assert inner and all(type(one) is LinkedLibrary for one in inner)
    assert type(outer) is not LinkedLibrary
    assert gc.isenabled()


@njit
def elsewhere(x):
    return twice(x)


def test_functions_compiled_by_numba_itself_may_call_them():
    assert elsewhere(np.ones(1)) == 2.0


@jitable
def halved(x):
    def half(a):
        return 0.5 * a

    return half(x[0])


@kernel
def quarter(x):
    return 0.5 * halved(x)


def test_a_function_within_a_function():
    assert quarter(np.ones(1)) == 0.25


@jitable_call
def inner_sum(x):
    return x[0] + checked(x)


@jitable_call
def outer_sum(x):
    return inner_sum(x) + checked(x)


@kernel
def sums(x):
    return checked(x) + outer_sum(x) + inner_sum(x)


def test_what_is_called_on_several_ways_is_linked_once():
    assert sums(np.ones(1)) == 6.0


@kernel
def extremes(a, b):
    return max(a, b), min(a, b), max(a, b, 3), min((a, b))


@pytest.mark.parametrize("a", [1.0, -2.5, np.nan, np.inf, 7, -3, np.float32(0.1), True])
@pytest.mark.parametrize("b", [0.5, np.nan, 2])
def test_the_larger_and_the_smaller_of_two_are_as_in_python(a, b):
    np.testing.assert_array_equal(extremes.fresh(a, b), extremes.plain(a, b))
