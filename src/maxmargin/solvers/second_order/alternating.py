"""Where the interior point begins on the multiclass hinge loss: alternating directions (Gabay and Mercier 1976).

    min  1/2 (W - mean)' B (W - mean) + sum_i cap_i max_k (cost_yk + u_ik - u_iy)      with  u_i = W x_i

The scores u are variables of their own, tied to W x by multipliers cap c and by a square of weight r cap / 2. A round is

    (B + r X' cap X) W = B mean + X' cap (r u + c),      a = W x - c / r
    q = the point of the simplex next to r (cost_y + a) + e_y,      c = e_y - q,      u = a + c / r

with more than all of W x in the place of W x (`relax`). Its matrix has the columns of X only and is the same in all rounds: one
costs two passes over X, in float32 where rows are dense, a small part of a step of the interior point. Duals cap (e_y - q) are
feasible all along, and W comes close to the solution soon, however columns are scaled. Only X' b stays far from W: that is left
to the interior point.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ...data.table import Table
from ...jit import kernel
from ...projections.newton import UNKNOWN, Knapsack, level, projected
from ..pace import never
from .single_rows import SingleRows
from .systems import Factor, combination, products_with, scores_of
from .tuning import SPLIT, SplitTuning


class Splits(NamedTuple):
    """What a round changes, of all examples: (examples, classes)."""

    u: np.ndarray
    c: np.ndarray
    pull: np.ndarray  # cap (r u + c)


@kernel
def next_splits(scores, cost, label, cap, splits, room, r, relax):
    """u, c and their pull for these scores W x; `room` holds one row."""
    u, c, pull = splits.u, splits.c, splits.pull
    classes = u.shape[1]
    for i in range(u.shape[0]):
        for k in range(classes):
            u[i, k] = relax * scores[i, k] + (1.0 - relax) * u[i, k] - c[i, k] / r
            room[k] = r * (cost[i, k] + u[i, k]) + (k == label[i])
        found = level(Knapsack(1.0, 1.0), room, classes, UNKNOWN)
        for k in range(classes):
            c[i, k] = (k == label[i]) - projected(room[k], found)
            u[i, k] += c[i, k] / r
            pull[i, k] = cap[i] * (r * u[i, k] + c[i, k])


class QuadraticTerm(NamedTuple):
    """1/2 (W - mean)' B (W - mean), B diagonal; both are (classes, features + 1)."""

    mean: np.ndarray
    B: np.ndarray


class SplitPoint(NamedTuple):
    """Weights, and q (examples, classes)."""

    W: np.ndarray
    q: np.ndarray


class InFloat64(NamedTuple):
    """The products of a table as they are."""

    table: Table

    def scores(self, W: np.ndarray) -> np.ndarray:
        return scores_of(self.table, W)

    def combined(self, duals: np.ndarray) -> np.ndarray:
        return combination(self.table, duals)


def products_of(table: Table) -> tuple[InFloat64 | SingleRows, type]:
    """What a round multiplies with, and the kind of numbers it takes: those of dense rows take half of the time in float32."""
    if sp.issparse(table.matrix):
        return InFloat64(table), np.float64
    return SingleRows(table.matrix, next(table.blocks(1)).bias), np.float32


def solutions(B: np.ndarray, G: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """(G + diag B_k)^-1 g_k of each class; None where that cannot be had, as products overflow."""
    kinds, of_class = np.unique(B, axis=0, return_inverse=True)
    factors = [Factor(G + np.diag(of_kind)) for of_kind in kinds]
    if any(factor.factor is None for factor in factors):
        return None

    def solve(wanted: np.ndarray) -> np.ndarray:
        W = np.empty_like(wanted)
        for k, factor in enumerate(factors):
            some = of_class.ravel() == k
            W[some] = factor.solve(wanted[some].T).T
        return W

    return solve


def alternated(
    table: Table,
    cost: np.ndarray,
    label: np.ndarray,
    cap: np.ndarray,
    term: QuadraticTerm,
    tuning: SplitTuning = SPLIT,
    stop: Callable[[], bool] = never,
    start: SplitPoint | None = None,
) -> SplitPoint:
    """W after some rounds, as many as there is time for, and q. `cost` is (examples, classes)."""
    mean, B = term
    if not len(label):
        return SplitPoint(mean.copy(), cost.copy())
    r = tuning.weight / (float(np.mean(cost.max(axis=1))) or 1.0)
    solve = solutions(B, r * products_with(table, cap))
    own = np.zeros_like(cost)
    own[np.arange(len(label)), label] = 1.0
    W, q = start or (mean.copy(), own.copy())
    if solve is None:
        return SplitPoint(W, q)
    products, dtype = products_of(table)
    u, c, room = scores_of(table, W), own - q, np.empty(cost.shape[1])
    splits = Splits(u, c, (cap[:, None] * (r * u + c)).astype(dtype))
    for _ in range(tuning.rounds):
        if stop():
            break
        W = solve(B * mean + products.combined(splits.pull))
        next_splits(products.scores(W), cost, label, cap, splits, room, r, tuning.relax)
    return SplitPoint(W, own - splits.c)
