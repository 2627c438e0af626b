"""The losses from scores in twice the precision of float64, where rounding would decide about them.

An example at its margin has a loss that float64 does not tell from zero: 1 - z is a multiple of 1e-16 there, and C multiplies
what is left out. On separable data with a large C, or with large columns, that may be most of the primal value. Here a score is
a sum of two numbers, hi + lo (products and sums after Dekker 1971, Ogita, Rump and Oishi 2005), and for a convex loss f and any
0 < t <= 1

    f(hi + lo) <= (1 - t) f(hi) + t f(hi + lo / t)

which is an equation where f is linear between the two, and never too little. One score goes to the next number of float64. Of
several that cannot be said: smaller t lose less to rounding, and reach further.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data.table import RowBlock
from ..jit import kernel, vectors
from ..losses.base import value
from ..losses.blocks import row_block_value
from ..utils.blas import inner_product
from .sizes import EPSILON

SPLITTER = 2.0**27 + 1.0
REACHES = 2.0**-10, 2.0**-20  # t for rows of scores, of which the better is taken
SCORE_ROUNDINGS = 8.0  # times the rounding of the sum of |x_j w_j| that a score may be off. By guess, 2026-11-18
ROWS_IN_TWOFOLD, WORK_IN_TWOFOLD = 2048, 2.0**26  # rows, and products of numbers, at a time: a second. By guess, 2026-11-18

Pair = tuple[np.ndarray, np.ndarray]


def two_sum(a: np.ndarray, b: np.ndarray) -> Pair:
    """a + b, and what rounding has taken from it."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def halves(a: np.ndarray) -> Pair:
    """Two numbers of half as many digits that add up to a."""
    large = SPLITTER * a
    high = large - (large - a)
    return high, a - high


def two_product(a: np.ndarray, b: np.ndarray) -> Pair:
    """a b, and what rounding has taken from it."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = halves(a), halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def terms(block: RowBlock, W: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Of each of the first so many rows an entry, (rows, 1), and its weights, (rows or 1, classes): rows are those of a block,
    the longest first; W is (classes, features + 1)."""
    X = block.X
    yield X.shape[0], np.full((1, 1), block.bias), W[None, :, -1]
    if not sp.issparse(X):
        for j in range(X.shape[1]):
            yield X.shape[0], X[:, j, None].astype(np.float64), W[None, :, j]
        return
    lengths = np.diff(X.indptr)
    order = np.argsort(-lengths, kind="stable")
    begins, sorted_lengths = X.indptr[:-1][order], -lengths[order]
    for k in range(lengths.max(initial=0)):
        at = begins[: np.searchsorted(sorted_lengths, -k)] + k
        yield at.size, X.data[at, None].astype(np.float64), W[:, X.indices[at]].T


def scores_of_block(block: RowBlock, W: np.ndarray) -> Pair:
    """hi and lo, (rows, classes)."""
    hi, lo = np.zeros((2, block.X.shape[0], W.shape[0]))
    for count, x, w in terms(block, W):
        product, rest = two_product(x, w)
        hi[:count], more = two_sum(hi[:count], product)
        lo[:count] += rest + more
    hi, lo = two_sum(hi, lo)
    if sp.issparse(block.X):
        place = np.empty(hi.shape[0], np.intp)
        place[np.argsort(-np.diff(block.X.indptr), kind="stable")] = np.arange(hi.shape[0])
        hi, lo = hi[place], lo[place]
    return hi, lo


@kernel
def value_between(loss, examples, scores, others, part):
    """The losses of these examples, this part of the way between two scores of each by a straight line, summed."""
    total = 0.0
    for k in range(examples.size):
        here = value(loss, examples[k], scores[k])
        total += here + part[k] * (value(loss, examples[k], others[k]) - here)
    return total


def risk_of_scores(loss: Any, examples: np.ndarray, hi: np.ndarray, lo: np.ndarray) -> float:
    """Of one score an example."""
    following = np.nextafter(hi, np.where(lo > 0.0, np.inf, -np.inf))
    return float(value_between(loss, examples, hi, following, lo / (following - hi)))


def risk_of_rows(loss: Any, examples: np.ndarray, hi: np.ndarray, lo: np.ndarray) -> np.ndarray:
    """Of a row of scores an example, for each reach."""
    row = vectors.zeros_table(1, hi.shape[1], np.float64)
    points = [hi, *(hi + lo / t for t in REACHES)]
    here, *found = (row_block_value(loss, examples, vectors.table(vectors.pack(z, np.float64)), row) for z in points)
    return np.array([(1.0 - t) * here + t * far for t, far in zip(REACHES, found, strict=True)])


def most_lost(problem: Any, w: np.ndarray, primal: float) -> float:
    """About what the primal value of a linear problem at w may be off at the most, by the rounding of scores. By Cauchy and
    Schwarz; slopes are those of losses that are linear, and of squared ones."""
    W, cap = problem.regularizer.scoring(w), problem.cap
    classes = problem.dual_shape[1] if len(problem.dual_shape) > 1 else 1
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.sqrt(classes * float(inner_product(W, W)) * problem.table.sum_of_squares())
        slopes = np.sqrt(float(inner_product(cap, cap)))
        if problem.loss.smooth:
            slopes += 2.0 * np.sqrt(max(primal, 0.0) * cap.max(initial=0.0))
        return float(SCORE_ROUNDINGS * EPSILON * size * slopes)


def risk_in_twofold(problem: Any, w: np.ndarray, stop: Callable[[], bool]) -> float | None:
    """The sum of the losses of a linear problem at w, or a little more, never less; no number where scores overflow, or rows are
    of a kind of somebody's own. None where it was told to stop before that was known."""
    W, loss, total = np.atleast_2d(problem.coefficients(w)), problem.exact_loss, np.zeros(len(REACHES))
    some = min(ROWS_IN_TWOFOLD, max(1, int(WORK_IN_TWOFOLD / W.size)))
    with np.errstate(over="ignore", invalid="ignore"):
        for block in problem.table.blocks(some):
            if stop():
                return None
            if not (type(block.X) is np.ndarray or sp.issparse(block.X)):
                return np.nan
            examples, (hi, lo) = np.arange(block.start, block.stop), scores_of_block(block, W)
            if len(problem.dual_shape) == 1:
                total += risk_of_scores(loss, examples, hi[:, 0].copy(), lo[:, 0])
            else:
                total += risk_of_rows(loss, examples, hi, lo)
    return float(total.min())
