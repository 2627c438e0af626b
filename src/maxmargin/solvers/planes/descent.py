"""A few passes of stochastic gradient descent: a start for methods that profit from one.

The objective is strongly convex, so that steps of 1/t do (Shalev-Shwartz et al. 2007). With n examples and b_i the dual at which
the loss of example i is attained,

    w <- (1 - 1/t) w + (n/t) b_i x_i,          t = n, n + 1, ...

Many rows are m parts, each descended by itself; after each pass all go on from the average of where they have come (Zinkevich
et al. 2010), which is less noisy than any of them. The parts are those of the rows, not of the threads: any number of threads
finds the same. In a part t grows by d from step to step, t = d n/m, d n/m + d, ... With d = 1 a part takes the steps of a problem
of its own, m times as long as those over all rows; with d = m they are as short as those, but fewer, and the start is forgotten
more slowly. Long steps make noise, little of it where a step changes the score of its own row by little: d is `shorter` m times
that change at t = n, the mean of cap_i ||x_i||^2, but sqrt(m) at the least and m at the most.
"""

import math
from collections.abc import Callable
from functools import singledispatch

import numpy as np

from ...data import rows
from ...data.row_updates import update
from ...data.rows import add, dot, first, last, value
from ...jit import kernel, vectors
from ...losses.base import own_scratch, row_slope, slope
from ...problems.base import Problem
from ...problems.linear import LinearProblem, RowProblem, ScalarProblem
from ...problems.ranking import PAIR_MARGIN, RankingProblem, count_violated, rank_scratch, score_group
from ...problems.structured import StructuredProblem
from ...structures.encoded.contract import clear, forget, new_scratch, prepare, push, tally, truth, worst
from ...utils.threads import in_threads
from ..pace import Pace, examples_between, never
from .tuning import BUNDLE, BundleTuning

SMALL = 1e-6  # the factor of the weights is multiplied out below this
SAMPLED_ROWS = 4_096  # rows whose lengths stand for those of all
LED_AWAY = 100.0  # times what examples weigh together, in half the square of weights, that few optima have. By guess, 2026-11-18.
NUMBERS_OF_PARTS = 1 << 23  # weights of all parts together at the most: 64 MB


@kernel
def scalar_descent(X, loss, w, order, when):
    """w is kept as a factor times a vector, so that a step costs only the example's own entries. `when`: t at the first step, by
    how much it grows from step to step, and how many examples the problem has."""
    factor, (begin, stride, n) = 1.0, when
    for k in range(order.size):
        i, t = order[k], begin + stride * k
        b = slope(loss, i, factor * dot(X, i, w))
        factor *= 1.0 - 1.0 / t
        if factor == 0.0:  # the first step of one example forgets where it began
            w[:] = 0.0
            factor = 1.0
        if b != 0.0:
            add(X, i, n * b / (t * factor), w)
        if factor < SMALL or k == order.size - 1:
            for j in range(w.size):
                w[j] *= factor
            factor = 1.0


@kernel
def row_descent(X, loss, W, order, when, scores, duals):
    factor, (begin, stride, n), flat = 1.0, when, W.reshape(-1)
    for k in range(order.size):
        i, t = order[k], begin + stride * k
        rows.scores(X, i, W, scores.vectors)
        for j in range(scores.flat.shape[1]):
            scores.flat[0, j] *= factor
        row_slope(loss, i, scores, duals)
        factor *= 1.0 - 1.0 / t
        if factor == 0.0:
            flat[:] = 0.0
            factor = 1.0
        for j in range(duals.flat.shape[1]):
            duals.flat[0, j] *= n / (t * factor)
        update(X, i, duals.vectors, 0, W)
        if factor < SMALL or k == order.size - 1:
            for j in range(flat.size):
                flat[j] *= factor
            factor = 1.0


@kernel
def structured_descent(data, weight, W, order, when, scratch, bound):
    (begin, stride, n), flat = when, W.reshape(-1)
    for k in range(order.size):
        i, t = order[k], begin + stride * k
        prepare(data, i, W, scratch)
        worst(data, i, scratch, scratch.code)
        clear(data, i, scratch)
        tally(data, i, -1.0, scratch.code, scratch)
        forget(data, i, scratch.code)
        truth(data, i, scratch.code)
        tally(data, i, 1.0, scratch.code, scratch)
        W *= 1.0 - 1.0 / t
        push(data, i, n * weight[i] / t, scratch, W)
        for j in bound:
            flat[j] = max(flat[j], 0.0)


@kernel
def ranking_descent(X, layout, weight, W, order, when, scratch):
    """As `scalar_descent`, a group at a time"""
    factor, (earliest, stride, n) = 1.0, when
    for k in range(order.size):
        g, t = order[k], earliest + stride * k
        begin, size = score_group(X, layout, g, W, scratch)
        for j in range(size):
            scratch.score[j] *= factor
        count_violated(layout, g, PAIR_MARGIN, scratch)
        factor *= 1.0 - 1.0 / t
        if factor == 0.0:
            W[:] = 0.0
            factor = 1.0
        for j in range(size):
            if scratch.net[j] != 0.0:
                add(X, layout.rows[begin + j], n * weight[g] * scratch.net[j] / (t * factor), W)
        if factor < SMALL or k == order.size - 1:
            for j in range(W.size):
                W[j] *= factor
            factor = 1.0


@kernel
def mean_change(X, cap, step):
    """The mean of cap_i ||x_i||^2 over every `step`th row: how much its own largest dual changes the score of a row"""
    total, count = 0.0, 0
    for i in range(0, cap.size, step):
        square = np.float64(X.bias) * np.float64(X.bias)
        for k in range(first(X, i), last(X, i)):
            square += np.float64(value(X, i, k)) * np.float64(value(X, i, k))
        total += cap[i] * square
        count += 1
    return total / count


@singledispatch
def walk(problem, W: np.ndarray, order: np.ndarray, when: tuple[float, float, float]) -> None:
    """Visit these examples in this order; `when`: t at the first step, what is added to it from step to step, and how many
    examples there are in all."""
    raise TypeError(f"There is no stochastic gradient of a {type(problem).__name__}.")


@walk.register
def _(problem: ScalarProblem, W, order, when):
    scalar_descent(problem.X, problem.exact_loss, W, order, when)


@walk.register
def _(problem: RowProblem, W, order, when):
    scratch = vectors.zeros_table(1, problem.n_classes, np.float64), vectors.zeros_table(1, problem.n_classes, np.float64)
    row_descent(problem.X, own_scratch(problem.exact_loss), W, order, when, *scratch)


@walk.register
def _(problem: StructuredProblem, W, order, when):
    structured_descent(problem.data, problem.cap, W, order, when, new_scratch(problem.data), problem.bound)


@walk.register
def _(problem: RankingProblem, W, order, when):
    ranking_descent(problem.X, problem.layout, problem.cap, W, order, when, rank_scratch(problem.layout))


@singledispatch
def may_have_led_away(problem, W: np.ndarray) -> bool:
    """Whether W may be worse than zero, as steps of 1/t are too long where rows or the slopes of squared losses are large."""
    return True


@may_have_led_away.register
def _(problem: StructuredProblem, W: np.ndarray) -> bool:
    """Oracles may be dear: only weights say something."""
    return bool(problem.regularizer.penalty(W) > LED_AWAY * problem.cap.sum())


@singledispatch
def pace_of(problem) -> Pace:
    """How many examples to visit between two looks at the clock."""
    return Pace()


@pace_of.register
def _(problem: ScalarProblem) -> Pace:
    """Where a stretch ends, the factor of the weights is multiplied out: it must not depend on the clock."""
    return Pace(examples_between(2.0 * rows.mean_length(problem.X), problem.n_examples))


@pace_of.register
def _(problem: RowProblem) -> Pace:
    return Pace(examples_between(2.0 * rows.mean_length(problem.X) * problem.n_classes, problem.n_examples))


@pace_of.register
def _(problem: RankingProblem) -> Pace:
    group = problem.layout.rows.size / max(problem.n_examples, 1)
    return Pace(examples_between(2.0 * group * rows.mean_length(problem.X), problem.n_examples))


@singledispatch
def parts_of(problem, most: int, least: int) -> int:
    """How many parts descend by themselves, so many at the most and of so many examples at least: more than one where these are
    rows, and nothing of a user's own is called."""
    return 1


@parts_of.register
def _(problem: LinearProblem, most: int, least: int) -> int:
    return max(1, min(most, problem.n_examples // least, NUMBERS_OF_PARTS // math.prod(problem.weight_shape)))


@singledispatch
def growth_of_time(problem, parts: int, shorter: float) -> float:
    """d, by which t grows from step to step in each of so many parts."""
    return 1.0


@growth_of_time.register
def _(problem: LinearProblem, parts: int, shorter: float) -> float:
    change = mean_change(problem.X, problem.cap, max(1, problem.n_examples // SAMPLED_ROWS))
    return float(np.clip(shorter * parts * change, np.sqrt(parts), parts))


def serves(problem: Problem) -> bool:
    """Whether there is such a method for this problem."""
    return problem.regularizer.plain and walk.dispatch(type(problem)) is not walk.dispatch(object)


def descended(
    problem: Problem,
    passes: int,
    seed: int,
    stop: Callable[[], bool] = never,
    n_jobs: int = 1,
    tuning: BundleTuning = BUNDLE,
) -> np.ndarray | None:
    """Weights after so many passes, or as many as there was time for; None where there is no such method (for priors, their
    signs, and other kinds of problems) and where it has led to nothing better than zero."""
    if not serves(problem):
        return None
    n, pace = problem.n_examples, pace_of(problem)
    parts = parts_of(problem, tuning.parts, tuning.least)
    generators = [np.random.default_rng(seed if parts == 1 else (seed, p)) for p in range(parts)]
    growth = 1.0 if parts == 1 else growth_of_time(problem, parts, tuning.shorter)
    Ws = [vectors.aligned(problem.weight_shape, np.float64) for _ in range(parts)]
    W = Ws[0]

    def order_of(p: int) -> np.ndarray:
        return p + parts * generators[p].permutation(len(range(p, n, parts)))

    for k in range(passes):
        orders = in_threads(order_of, range(parts), n_jobs)

        def visit(start: int, end: int, total: float, orders=orders, k=k) -> float:
            def walk_part(p: int) -> None:
                walk(problem, Ws[p], orders[p][start:end], (growth * ((k + 1) * orders[p].size + start), growth, float(n)))

            in_threads(walk_part, range(parts), n_jobs)
            return total

        with np.errstate(over="ignore", invalid="ignore"):
            done = pace.visit(0, orders[0].size, visit, stop)[1]
            if parts > 1:
                W[...] = np.mean(Ws, axis=0)
                for other in Ws[1:]:
                    other[...] = W
        if done < orders[0].size:
            break
    with np.errstate(over="ignore", invalid="ignore"):
        worse = may_have_led_away(problem, W) and not problem.primal(W, n_jobs) <= problem.primal(np.zeros_like(W), n_jobs)
    return None if worse or not np.all(np.isfinite(W)) else W
