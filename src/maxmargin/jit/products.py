"""Matrix products within kernels, by the BLAS that numba finds (SciPy's): what each means, and the call that it becomes. A numba
without that name gets loops.

Matrices are C-ordered, or parts of such ones that have whole runs of columns. Threads are those of BLAS: see `utils.blas`.
"""

import numpy as np
from llvmlite import binding, ir
from numba import types

from .instructions import instruction

UNTURNED, TURNED = ord("n"), ord("t")
GEMM = "numba_xxgemm"  # numba's own name of it


def outer_products(A, B, out):
    """out = A B', in the first rows and columns of `out`: inner products of the rows of A with those of B."""
    out[: A.shape[0], : B.shape[0]] = np.dot(A, B.T)


def add_products(A, B, out):
    """out += A' B: the rows of B, summed with the columns of A as weights."""
    out += np.dot(A.T, B)


def outer_loops(A, B, out):
    for i in range(A.shape[0]):
        for j in range(B.shape[0]):
            out[i, j] = 0.0
            for k in range(A.shape[1]):
                out[i, j] += A[i, k] * B[j, k]


def add_loops(A, B, out):
    for k in range(A.shape[0]):
        for i in range(A.shape[1]):
            for j in range(B.shape[1]):
                out[i, j] += A[k, i] * B[k, j]


def _product(context, builder, kinds, arrays, turned, sizes, keep):
    """Call gemm on C-ordered matrices: to BLAS, which has columns first, each is its transpose, and the product the other way
    round. `sizes`: columns and rows of the result, and what is summed over; `keep`: how often the old result counts."""
    element = ir.FloatType() if kinds[2].dtype.bitwidth == 32 else ir.DoubleType()
    byte, word = ir.IntType(8), ir.IntType(64)
    anything = byte.as_pointer()
    sides = [anything, anything, word, anything, word, anything, anything, word]
    function_type = ir.FunctionType(ir.IntType(32), [*[byte] * 3, *[word] * 3, *sides])
    function = builder.module.globals.get(GEMM) or ir.Function(builder.module, function_type, GEMM)

    def number(x):
        with builder.goto_entry_block():
            slot = builder.alloca(element)
        builder.store(ir.Constant(element, x), slot)
        return builder.bitcast(slot, anything)

    def address(array):
        return builder.bitcast(array.data, anything)

    def stride(array):
        return builder.sdiv(builder.extract_value(array.strides, 0), word(kinds[2].dtype.bitwidth // 8))

    A, B, out = arrays
    kind = byte(ord("s" if kinds[2].dtype.bitwidth == 32 else "d"))
    letters = [byte(TURNED if turn else UNTURNED) for turn in turned]
    operands = [number(1.0), address(B), stride(B), address(A), stride(A), number(keep), address(out), stride(out)]
    builder.call(function, [kind, *letters, *sizes, *operands])
    return context.get_dummy_value()


def _arrays(context, builder, signature, args):
    return [context.make_array(kind)(context, builder, value) for kind, value in zip(signature.args, args, strict=True)]


@instruction(outer_products)
def _(typing, A, B, out):
    def emit(context, builder, signature, args):
        if binding.address_of_symbol(GEMM) is None:
            return context.compile_internal(builder, outer_loops, signature, args)
        arrays = a, b, _ = _arrays(context, builder, signature, args)
        sizes = [builder.extract_value(b.shape, 0), builder.extract_value(a.shape, 0), builder.extract_value(a.shape, 1)]
        return _product(context, builder, signature.args, arrays, (True, False), sizes, 0.0)

    return types.void(A, B, out), emit


@instruction(add_products)
def _(typing, A, B, out):
    def emit(context, builder, signature, args):
        if binding.address_of_symbol(GEMM) is None:
            return context.compile_internal(builder, add_loops, signature, args)
        arrays = a, b, _ = _arrays(context, builder, signature, args)
        sizes = [builder.extract_value(b.shape, 1), builder.extract_value(a.shape, 1), builder.extract_value(a.shape, 0)]
        return _product(context, builder, signature.args, arrays, (False, True), sizes, 1.0)

    return types.void(A, B, out), emit
