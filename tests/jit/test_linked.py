"""Functions without machine code of their own: what kernels make of them."""

import gc

import numpy as np
import pytest
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
        libraries.append(result.library)
        return result

    monkeypatch.setattr(CompilerBase, "_compile_core", seen)
    assert thrice.fresh(np.ones(1, np.float32)) == 3.0  # not one from the cache
    *inner, outer = libraries
    assert inner and all(type(one) is LinkedLibrary for one in inner)
    assert type(outer) is not LinkedLibrary
    assert gc.isenabled()
