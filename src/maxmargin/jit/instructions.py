"""Operations on vectors: what each of them means, in plain Python, and the instructions that it becomes in compiled code.

`vectors` says what a vector is, and hands these operations on: kernels write `vectors.load`.
"""

import math
import operator
import platform
from functools import partial

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, models, register_model, type_callable
from numpy.polynomial import Chebyshev, Polynomial

BYTES = 32
ARM = platform.machine().lower() in ("aarch64", "arm64")
FARTHEST_EXPONENT = 708.0  # e to this power is still a normal number, and so is its inverse


class Vector(types.Type):
    """numba's type of a vector value."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.count = BYTES * 8 // dtype.bitwidth
        super().__init__(name=f"Vector({dtype})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector):
        element = ir.FloatType() if vector.dtype.bitwidth == 32 else ir.DoubleType()
        super().__init__(manager, vector, ir.VectorType(element, vector.count))


# ---- plain Python: what each function means --------------------------------------------------------------


def zeros_like(array):
    """A vector of zeros of the array's dtype."""
    return np.zeros(array.shape[2], array.dtype)


def load(array, i, j):
    """The vector array[i, j, :]."""
    return array[i, j].copy()


def store(array, i, j, vector):
    """array[i, j, :] = vector"""
    array[i, j] = vector


def fma(vector, x, other):
    """vector + x * other, with a scalar x"""
    return vector + vector.dtype.type(x) * other


def add(vector, other):
    """vector + other"""
    return vector + other


def subtract(vector, other):
    """vector - other"""
    return vector - other


def multiply(vector, other):
    """vector * other, lane by lane"""
    return vector * other


def divide(vector, other):
    """vector / other, lane by lane"""
    return vector / other


def shift(vector, x):
    """vector + x, with a scalar x"""
    return vector + vector.dtype.type(x)


def maximum(vector, other):
    """the larger of the two, lane by lane"""
    return np.maximum(vector, other)


def clamp(vector, low, high):
    """the nearest to the vector between low and high, lane by lane"""
    return np.minimum(np.maximum(vector, low), high)


def minimum(vector, other):
    """the smaller of the two, lane by lane"""
    return np.minimum(vector, other)


def where_negative(vector, chosen):
    """`chosen` in the lanes where the vector is negative, zero elsewhere"""
    return np.where(vector < 0, chosen, vector.dtype.type(0))


def total(vector):
    """the sum over the lanes"""
    return vector.sum()


def largest(vector):
    """the largest lane"""
    return vector.max()


def absolute(vector):
    """the absolute value of each lane"""
    return np.abs(vector)


def any_filled(vector):
    """whether any lane is not zero; NaN counts as zero"""
    return bool(np.any(np.abs(vector) > 0))


def any_reaches(vector, x):
    """whether any lane is x or more; x is taken in the vector's dtype"""
    return bool(np.any(vector >= vector.dtype.type(x)))


def exp(vector):
    """e to the power of each lane; float64. Arguments are cut off at +-708, so that the result is never zero or infinite."""
    return np.exp(np.clip(vector, -FARTHEST_EXPONENT, FARTHEST_EXPONENT))


def log(vector):
    """the natural logarithm of each lane; float64, of normal numbers > 0"""
    return np.log(vector)


def larger(a, b):
    """max(a, b), of two numbers"""
    return max(a, b)


def smaller(a, b):
    """min(a, b), of two numbers"""
    return min(a, b)


def prefetch(array, k):
    """Ask for the k-th number in the array's memory ahead of its use. Uncompiled there is nothing to ask."""


# ---- compiled: the same as instructions ------------------------------------------------------------------

CONTRACT, REORDER = ("contract",), ("contract", "reassoc", "nsz")


def instruction(plain):
    """Let `plain` mean, in compiled code, the instructions that the decorated function emits.

    They are emitted where `plain` is called: as numba's `overload` each would be a function, compiled for every combination of
    types, and that was an eighth of the time of a first fit.
    """

    def register(typer):
        def emitted(context, builder, signature, args):
            return typer(context.typing_context, *signature.args)[1](context, builder, signature, args)

        count = plain.__code__.co_argcount
        type_callable(plain)(lambda typing: ANSWERS[count](partial(_answer, typer, typing)))
        lower_builtin(plain, *[types.Any] * count)(emitted)
        return typer

    return register


def _answer(typer, typing, *args):
    """The type that the instructions leave; None where there are none for these."""
    found = typer(typing, *args)
    return None if found is None else found[0].return_type


ANSWERS = {  # numba counts the arguments of what says the type
    0: lambda answer: lambda: answer(),
    1: lambda answer: lambda a: answer(a),
    2: lambda answer: lambda a, b: answer(a, b),
    3: lambda answer: lambda a, b, c: answer(a, b, c),
    4: lambda answer: lambda a, b, c, d: answer(a, b, c, d),
}


def _address(context, builder, array_type, index_types, array, i, j):
    """A pointer to array[i, j, 0], read as a vector; indices are taken as non-negative. The array is C-ordered, or has some of
    the vectors of such a one in each row."""
    structure = context.make_array(array_type)(context, builder, array)
    vector = Vector(array_type.dtype)
    word = ir.IntType(64)

    def widened(value, kind):
        if value.type.width == 64:
            return value
        return builder.sext(value, word) if kind.signed else builder.zext(value, word)

    count = ir.Constant(word, vector.count)
    if array_type.layout == "C":
        row = builder.mul(widened(i, index_types[0]), builder.extract_value(structure.shape, 1))
        offset = builder.mul(builder.add(row, widened(j, index_types[1])), count)
    else:
        step = builder.sdiv(builder.extract_value(structure.strides, 0), ir.Constant(word, array_type.dtype.bitwidth // 8))
        row = builder.mul(widened(i, index_types[0]), step)
        offset = builder.add(row, builder.mul(widened(j, index_types[1]), count))
    return builder.bitcast(builder.gep(structure.data, [offset]), context.get_value_type(vector).as_pointer())


def _splat(context, builder, scalar, kind, vector):
    """A scalar of numba type `kind`, converted and repeated in every lane."""
    value = context.cast(builder, scalar, kind, vector.dtype)
    undefined = ir.Constant(ir.VectorType(value.type, vector.count), ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count))


def _call(builder, name, vector, kind, arguments, fastmath=()):
    """LLVM's intrinsic `name` on vectors of this type."""
    function_type = ir.FunctionType(kind, [argument.type for argument in arguments])
    function = builder.module.declare_intrinsic(f"{name}.v{vector.count}f{vector.dtype.bitwidth}", (), function_type)
    return builder.call(function, arguments, fastmath=fastmath)


@instruction(zeros_like)
def _(typing, array):
    vector = Vector(array.dtype)

    def emit(context, builder, signature, args):
        return ir.Constant(context.get_value_type(vector), [0.0] * vector.count)

    return vector(array), emit


@instruction(load)
def _(typing, array, i, j):
    def emit(context, builder, signature, args):
        value = builder.load(_address(context, builder, signature.args[0], signature.args[1:], *args))
        value.align = array.dtype.bitwidth // 8
        return value

    return Vector(array.dtype)(array, i, j), emit


@instruction(store)
def _(typing, array, i, j, vector):
    def emit(context, builder, signature, args):
        pointer = _address(context, builder, signature.args[0], signature.args[1:3], *args[:3])
        builder.store(args[3], pointer).align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(array, i, j, vector), emit


@instruction(fma)
def _(typing, vector, x, other):
    def emit(context, builder, signature, args):
        repeated = _splat(context, builder, args[1], signature.args[1], vector)
        return builder.fadd(args[0], builder.fmul(repeated, args[2], flags=CONTRACT), flags=CONTRACT)

    return vector(vector, x, other), emit


@instruction(shift)
def _(typing, vector, x):
    def emit(context, builder, signature, args):
        return builder.fadd(args[0], _splat(context, builder, args[1], signature.args[1], vector), flags=CONTRACT)

    return vector(vector, x), emit


def _lanewise(name):
    def typer(typing, vector, other):
        def emit(context, builder, signature, args):
            return getattr(builder, name)(args[0], args[1], flags=CONTRACT)

        return vector(vector, other), emit

    return typer


instruction(add)(_lanewise("fadd"))
instruction(subtract)(_lanewise("fsub"))
instruction(multiply)(_lanewise("fmul"))
instruction(divide)(_lanewise("fdiv"))


def _chosen(comparison):
    def typer(typing, vector, other):
        def emit(context, builder, signature, args):
            return builder.select(builder.fcmp_ordered(comparison, args[0], args[1]), args[0], args[1])

        return vector(vector, other), emit

    return typer


instruction(maximum)(_chosen(">"))
instruction(minimum)(_chosen("<"))


def _of_two_numbers(compare):
    """As numba has `max` and `min`: the first, unless the second goes beyond it."""

    def typer(typing, a, b):
        if not all(isinstance(kind, (types.Number, types.Boolean)) for kind in map(types.unliteral, (a, b))):
            return None
        kind = typing.unify_types(types.unliteral(a), types.unliteral(b))

        def emit(context, builder, signature, args):
            first, second = [context.cast(builder, x, of, kind) for x, of in zip(args, signature.args, strict=True)]
            beyond = context.get_function(compare, types.boolean(kind, kind))(builder, (second, first))
            return builder.select(beyond, second, first)

        return kind(a, b), emit

    return typer


instruction(larger)(_of_two_numbers(operator.gt))
instruction(smaller)(_of_two_numbers(operator.lt))


@instruction(clamp)
def _(typing, vector, low, high):
    def emit(context, builder, signature, args):
        kind, (x, least, most) = args[0].type, args
        if ARM:  # one instruction each there, where a comparison and a selection are two; elsewhere it is the other way round
            x = _call(builder, "llvm.maxnum", vector, kind, [x, least])
            return _call(builder, "llvm.minnum", vector, kind, [x, most])
        x = builder.select(builder.fcmp_ordered(">", x, least), x, least)
        return builder.select(builder.fcmp_ordered("<", x, most), x, most)

    return vector(vector, low, high), emit


@instruction(where_negative)
def _(typing, vector, chosen):
    def emit(context, builder, signature, args):
        zero = ir.Constant(args[0].type, [0.0] * vector.count)
        return builder.select(builder.fcmp_ordered("<", args[0], zero), args[1], zero)

    return vector(vector, chosen), emit


@instruction(total)
def _(typing, vector):
    def emit(context, builder, signature, args):
        element = args[0].type.element
        return _call(builder, "llvm.vector.reduce.fadd", vector, element, [ir.Constant(element, -0.0), args[0]], REORDER)

    return vector.dtype(vector), emit


@instruction(largest)
def _(typing, vector):
    def emit(context, builder, signature, args):
        return _call(builder, "llvm.vector.reduce.fmax", vector, args[0].type.element, [args[0]])

    return vector.dtype(vector), emit


@instruction(absolute)
def _(typing, vector):
    def emit(context, builder, signature, args):
        return _call(builder, "llvm.fabs", vector, args[0].type, [args[0]])

    return vector(vector), emit


def _any(builder, lanes, vector):
    """Whether any of these truth values of a vector is true: a few instructions, where the largest number takes many."""
    kind = ir.FunctionType(ir.IntType(1), [lanes.type])
    return builder.call(builder.module.declare_intrinsic(f"llvm.vector.reduce.or.v{vector.count}i1", (), kind), [lanes])


@instruction(any_filled)
def _(typing, vector):
    def emit(context, builder, signature, args):
        return _any(builder, builder.fcmp_ordered("!=", args[0], _constant(args[0].type, 0.0)), vector)

    return types.boolean(vector), emit


@instruction(any_reaches)
def _(typing, vector, x):
    def emit(context, builder, signature, args):
        bound = _splat(context, builder, args[1], signature.args[1], vector)
        return _any(builder, builder.fcmp_ordered(">=", args[0], bound), vector)

    return types.boolean(vector, x), emit


@instruction(prefetch)
def _(typing, array, k):
    def emit(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        pointer = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        flag = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [pointer.type, flag, flag, flag])
        function = builder.module.declare_intrinsic("llvm.prefetch.p0", (), function_type)
        builder.call(function, [pointer, flag(0), flag(3), flag(1)])  # for reading, into every level, data
        return context.get_dummy_value()

    return types.void(array, k), emit


# ---- exponential and logarithm, float64 ------------------------------------------------------------------
# The libraries that numba can call on every platform take one number at a time; these take a vector. The relative error is
# about 1e-15 for either. Every instruction names its liberties: numba would give one without any leave to reorder, and the
# rounding trick would be optimised away.

EXP_TERMS = [1.0 / math.factorial(k) for k in range(13)]
LOG_RANGE = [math.sqrt(0.5) - 1.0, math.sqrt(2.0) - 1.0]
LOG_TERMS = Chebyshev.interpolate(lambda f: np.log1p(f) / f, 18, LOG_RANGE).convert(domain=[-1, 1], kind=Polynomial).coef
TO_INTEGER = 1.5 * 2.0**52  # added and taken away again, it leaves the nearest integer, and that integer in the last bits
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # their sum is ln 2 to 80 bits
HALF_ROOT = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
MANTISSA = 52


def _constant(kind, number):
    return ir.Constant(kind, [number] * kind.count)


def _polynomial(builder, terms, x):
    """By Estrin's scheme: pairs, pairs of pairs, ... A chain from the last term to the first would wait for each result."""
    values = [_constant(x.type, term) for term in terms]
    while len(values) > 1:
        pairs = [
            builder.fadd(builder.fmul(x, high, flags=CONTRACT), low, flags=CONTRACT)
            for low, high in zip(values[::2], values[1::2], strict=False)
        ]
        values = pairs + values[2 * len(pairs) :]
        x = builder.fmul(x, x, flags=CONTRACT)
    return values[0]


@instruction(exp)
def _(typing, vector):
    def emit(context, builder, signature, args):
        kind = args[0].type
        integers = ir.VectorType(ir.IntType(64), vector.count)
        far, near = _constant(kind, FARTHEST_EXPONENT), _constant(kind, -FARTHEST_EXPONENT)
        x = builder.select(builder.fcmp_ordered("<", args[0], far), args[0], far)
        x = builder.select(builder.fcmp_ordered(">", x, near), x, near)
        scaled = builder.fmul(x, _constant(kind, 1.0 / math.log(2.0)), flags=CONTRACT)
        rounded = builder.fadd(scaled, _constant(kind, TO_INTEGER), flags=CONTRACT)
        power = builder.fsub(rounded, _constant(kind, TO_INTEGER), flags=CONTRACT)
        rest = builder.fsub(x, builder.fmul(power, _constant(kind, LN2_HIGH), flags=CONTRACT), flags=CONTRACT)
        rest = builder.fsub(rest, builder.fmul(power, _constant(kind, LN2_LOW), flags=CONTRACT), flags=CONTRACT)
        value = _polynomial(builder, EXP_TERMS, rest)
        exponent = builder.shl(builder.bitcast(rounded, integers), _constant(integers, MANTISSA))
        return builder.bitcast(builder.add(builder.bitcast(value, integers), exponent), kind)

    return (vector(vector), emit) if vector.dtype.bitwidth == 64 else None


@instruction(log)
def _(typing, vector):
    def emit(context, builder, signature, args):
        kind = args[0].type
        integers = ir.VectorType(ir.IntType(64), vector.count)
        bits = builder.bitcast(args[0], integers)
        power = builder.ashr(builder.sub(bits, _constant(integers, HALF_ROOT)), _constant(integers, MANTISSA))
        m = builder.bitcast(builder.sub(bits, builder.shl(power, _constant(integers, MANTISSA))), kind)
        f = builder.fsub(m, _constant(kind, 1.0), flags=CONTRACT)
        value = builder.fmul(f, _polynomial(builder, LOG_TERMS, f), flags=CONTRACT)
        e = builder.sitofp(power, kind)
        value = builder.fadd(value, builder.fmul(e, _constant(kind, LN2_LOW), flags=CONTRACT), flags=CONTRACT)
        return builder.fadd(value, builder.fmul(e, _constant(kind, LN2_HIGH), flags=CONTRACT), flags=CONTRACT)

    return (vector(vector), emit) if vector.dtype.bitwidth == 64 else None
