"""Kernel functions, in float64: the built-in ones, and those that a user gives.

    linear  <x, z>                          rbf      exp(-gamma ||x - z||^2)
    poly    (gamma <x, z> + coef0)^degree   sigmoid  tanh(gamma <x, z> + coef0)

The built-in kernels are functions of an inner product and two squared norms.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..jit import generic, kernel, vectors

LARGEST_KERNEL = 1e140  # the squares of sums of such values, over 10^14 samples, are numbers


class Linear(NamedTuple):
    """<x, z>"""

    definite: bool = True


class RBF(NamedTuple):
    """exp(-gamma ||x - z||^2)"""

    gamma: float
    definite: bool = True


class Poly(NamedTuple):
    """(gamma <x, z> + coef0)^degree; `definite`: whether every matrix of it is positive semidefinite"""

    gamma: float
    degree: int
    coef0: float
    definite: bool


class Sigmoid(NamedTuple):
    """tanh(gamma <x, z> + coef0)"""

    gamma: float
    coef0: float
    definite: bool = False


@generic
def apply(function, products, left, right):
    """Turn inner products, a lane array, into values of the kernel; `left` and `right` hold the squared norms."""


@apply.register(Linear)
def _(function, products, left, right):
    pass


@apply.register(RBF)
def _(function, products, left, right):
    zero = vectors.zeros_like(products)
    for i in range(products.shape[0]):
        for b in range(products.shape[1]):
            distance = vectors.shift(vectors.fma(vectors.load(right, 0, b), -2.0, vectors.load(products, i, b)), left[i])
            exponent = vectors.fma(zero, -function.gamma, vectors.maximum(distance, zero))
            vectors.store(products, i, b, vectors.exp(exponent))


@apply.register(Poly)
def _(function, products, left, right):
    for i in range(products.shape[0]):
        for b in range(products.shape[1]):
            for k in range(products.shape[2]):
                base = function.gamma * products[i, b, k] + function.coef0
                power = 1.0
                for _ in range(function.degree):
                    power *= base
                products[i, b, k] = power


@apply.register(Sigmoid)
def _(function, products, left, right):
    for i in range(products.shape[0]):
        for b in range(products.shape[1]):
            for k in range(products.shape[2]):
                products[i, b, k] = np.tanh(function.gamma * products[i, b, k] + function.coef0)


@kernel
def finish(function, products, left, right):
    apply(function, products, left, right)


def squared_lengths(X) -> np.ndarray:
    """In float64, without a copy of X."""
    if sp.issparse(X):
        squares = X.data.astype(np.float64) ** 2
        return np.bincount(np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), squares, minlength=X.shape[0])
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


def called(function: Callable, left, right) -> np.ndarray:
    """What a user's kernel function returns for two sets of samples, checked."""
    shape = left.shape[0], right.shape[0]
    found = function(left, right)
    found = found.toarray() if sp.issparse(found) else np.asarray(found)
    if found.shape != shape:
        raise ValueError(f"The kernel function returned shape {found.shape} for {shape[0]} and {shape[1]} samples, not {shape}.")
    if found.dtype.kind not in "fiub" or not np.all(np.isfinite(found)):
        raise ValueError("The kernel function returned values that are not finite numbers.")
    return check_kernel_size("the kernel function", found.astype(np.float64, copy=False))


def check_kernel_size(where: str, values: np.ndarray) -> np.ndarray:
    """Refuse kernel values whose squares, summed over samples, overflow."""
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if largest > LARGEST_KERNEL:
        raise ValueError(
            f"A value of {where} is {largest:.3g} in size, where float64 can sum squares up to {LARGEST_KERNEL:g}: divide the "
            "kernel by that size, and multiply C by it."
        )
    return values


def function_of(kernel, gamma: float, degree: int, coef0: float):
    """The built-in kernel of this name with these parameters; a user's function and "precomputed" as they are."""
    if callable(kernel) or kernel == "precomputed":
        return kernel
    powers = float(degree).is_integer() and coef0 >= 0.0
    made = {
        "linear": Linear(),
        "rbf": RBF(float(gamma)),
        "poly": Poly(float(gamma), int(degree), float(coef0), powers),
        "sigmoid": Sigmoid(float(gamma), float(coef0)),
    }
    if kernel not in made:
        raise ValueError(f"kernel must be 'precomputed', a function or one of {', '.join(map(repr, made))}; got {kernel!r}.")
    return made[kernel]


def gamma_of(gamma, X) -> float:
    """gamma as in SVC: "scale" is 1 / (features * variance of X), "auto" is 1 / features."""
    if isinstance(gamma, str) and gamma in ("scale", "auto"):
        variance = 1.0
        if gamma == "scale":
            mean = X.mean(dtype=np.float64)
            square = (X.multiply(X) if sp.issparse(X) else np.square(X)).mean(dtype=np.float64)
            variance = square - mean**2 if sp.issparse(X) else X.var(dtype=np.float64)
        return 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0
    if isinstance(gamma, str) or not np.isfinite(gamma) or gamma <= 0.0:
        raise ValueError(f"gamma must be 'scale', 'auto' or a finite number > 0; got {gamma!r}.")
    return float(gamma)


def cross(function, X, support, norms: np.ndarray) -> np.ndarray:
    """Kernel values between new samples and support samples with these squared norms; a built-in or a user's function."""
    if not isinstance(function, tuple):
        return called(function, X, support)
    width = vectors.width(np.float64)
    values = vectors.aligned((X.shape[0], -(-support.shape[0] // width) * width), np.float64)
    products = X.astype(np.float64) @ support.astype(np.float64, copy=False).T
    values[:, : support.shape[0]] = products.toarray() if sp.issparse(products) else products
    right = vectors.pack(norms[None], np.float64)
    finish(function, values.reshape(X.shape[0], -1, width), squared_lengths(X), right)
    return values[:, : support.shape[0]]
