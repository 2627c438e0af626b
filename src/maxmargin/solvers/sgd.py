"""A few passes of stochastic gradient descent: a start for methods that profit from one.

The objective is strongly convex, so that steps of 1/t do (Shalev-Shwartz et al. 2007). With n examples and b_i the dual at which
the loss of example i is attained,

    w <- (1 - 1/t) w + (n/t) b_i x_i,          t = n, n + 1, ...
"""

from functools import singledispatch

import numpy as np

from .. import lanes
from ..data import rows
from ..data.rows import add, dot, update
from ..jit import kernel
from ..losses.base import row_slope, slope
from ..problem import RowProblem, ScalarProblem
from ..regularizer import Coupling
from ..structured import StructuredProblem
from ..structures.base import clear, forget, new_room, prepare, push, tally, truth, worst

SMALL = 1e-6  # the factor of the weights is multiplied out below this


@kernel
def scalar_descent(X, loss, w, order, first):
    """w is kept as a factor times a vector, so that a step costs only the example's own entries."""
    factor, n = 1.0, order.size
    for k in range(n):
        i, t = order[k], first + k
        b = slope(loss, i, factor * dot(X, i, w))
        factor *= 1.0 - 1.0 / t
        if b != 0.0:
            add(X, i, n * b / (t * factor), w)
        if factor < SMALL or k == n - 1:
            for j in range(w.size):
                w[j] *= factor
            factor = 1.0


@kernel
def row_descent(X, loss, W, order, first, scores, duals):
    factor, n, flat = 1.0, order.size, W.reshape(-1)
    for k in range(n):
        i, t = order[k], first + k
        rows.scores(X, i, W, scores.lanes)
        for j in range(scores.flat.shape[1]):
            scores.flat[0, j] *= factor
        row_slope(loss, i, scores, duals)
        factor *= 1.0 - 1.0 / t
        for j in range(duals.flat.shape[1]):
            duals.flat[0, j] *= n / (t * factor)
        update(X, i, duals.lanes, 0, W)
        if factor < SMALL or k == n - 1:
            for j in range(flat.size):
                flat[j] *= factor
            factor = 1.0


@kernel
def structured_descent(data, weight, W, order, first, room, bound):
    n, flat = order.size, W.reshape(-1)
    for k in range(n):
        i, t = order[k], first + k
        prepare(data, i, W, room)
        worst(data, i, room, room.code)
        clear(data, i, room)
        tally(data, i, -1.0, room.code, room)
        forget(data, i, room.code)
        truth(data, i, room.code)
        tally(data, i, 1.0, room.code, room)
        W *= 1.0 - 1.0 / t
        push(data, i, n * weight[i] / t, room, W)
        for j in bound:
            flat[j] = max(flat[j], 0.0)


@singledispatch
def one_pass(problem, W: np.ndarray, order: np.ndarray, first: int) -> None:
    """Visit the examples in this order, steps counted from `first`."""
    raise TypeError(f"There is no stochastic gradient of a {type(problem).__name__}.")


@one_pass.register
def _(problem: ScalarProblem, W, order, first):
    scalar_descent(problem.X, problem.loss, W, order, first)


@one_pass.register
def _(problem: RowProblem, W, order, first):
    room = lanes.zeros_table(1, problem.n_classes, np.float64), lanes.zeros_table(1, problem.n_classes, np.float64)
    row_descent(problem.X, problem.exact_loss, W, order, first, *room)


@one_pass.register
def _(problem: StructuredProblem, W, order, first):
    structured_descent(problem.data, problem.cap, W, order, first, new_room(problem.data), problem.bound)


def descended(problem, passes: int, seed: int) -> np.ndarray | None:
    """Weights after so many passes; None where there is no such method: for priors, their signs, and other kinds of problems."""
    prior = getattr(problem, "regularizer", None)
    if isinstance(prior, Coupling) or (prior is not None and not prior.mean is prior.variance is prior.lower is None):
        return None
    if one_pass.dispatch(type(problem)) is one_pass.dispatch(object):
        return None
    W, n = lanes.aligned(problem.weight_shape, np.float64), problem.n_examples
    random = np.random.default_rng(seed)
    for k in range(passes):
        one_pass(problem, W, random.permutation(n), (k + 1) * n)
    return W
