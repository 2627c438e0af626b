"""Where the interior point begins on the multiclass hinge loss: alternating directions (Gabay and Mercier 1976).

    min  1/2 (W - mean)' B (W - mean) + sum_i cap_i max_k (cost_yk + u_ik - u_iy)      with  u_i = W x_i

The scores u are variables of their own, tied to W x by multipliers cap c and by a square of weight r cap / 2. A round is

    (B + r X' cap X) W = B mean + X' cap (r u + c),      a = W x - c / r
    q = the point of the simplex next to r (cost_y + a) + e_y,      c = e_y - q,      u = a + c / r

with more than all of W x in the place of W x (`relax`). Its matrix has the columns of X only and is the same in all rounds: one
costs two passes over X, a small part of a step of the interior point. Duals cap (e_y - q) are feasible all along, and W comes
close to the solution soon, however columns are scaled. Only X' b stays far from W: that is left to the interior point.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...data.table import Table
from ..pace import never
from .systems import Factor, combination, scores_of
from .tuning import SPLIT, SplitTuning


def next_on_simplex(a: np.ndarray) -> np.ndarray:
    """The point of the simplex nearest to each row."""
    falling = -np.sort(-a, axis=1)
    above = (np.cumsum(falling, axis=1) - 1.0) / np.arange(1.0, a.shape[1] + 1.0)
    count = np.count_nonzero(falling > above, axis=1)
    found: np.ndarray = np.maximum(a - above[np.arange(len(a)), np.maximum(count, 1) - 1][:, None], 0.0)
    return found


def products_with(table: Table, weight: np.ndarray) -> np.ndarray:
    """X' diag(weight) X."""
    found = np.zeros((table.shape[1] + 1,) * 2)
    for block in table.blocks():
        found += block.weighted_products(weight[block.start : block.stop])
    return found


class QuadraticTerm(NamedTuple):
    """1/2 (W - mean)' B (W - mean), B diagonal; both are (classes, features + 1)."""

    mean: np.ndarray
    B: np.ndarray


def alternated(
    table: Table,
    cost: np.ndarray,
    label: np.ndarray,
    cap: np.ndarray,
    term: QuadraticTerm,
    tuning: SplitTuning = SPLIT,
    stop: Callable[[], bool] = never,
) -> tuple[np.ndarray, np.ndarray]:
    """W after some rounds, as many as there is time for, and q (examples, classes). `cost` is (examples, classes)."""
    mean, B = term
    if not len(label):
        return mean.copy(), cost.copy()
    r = tuning.weight / (float(np.mean(cost.max(axis=1))) or 1.0)
    G = r * products_with(table, cap)
    factors = [Factor(G + np.diag(of_class)) for of_class in B]
    own = np.zeros_like(cost)
    own[np.arange(len(label)), label] = 1.0
    q, c, u = own.copy(), np.zeros_like(cost), scores_of(table, mean)
    W, solvable = mean.copy(), all(factor.factor is not None for factor in factors)  # not where products overflow
    for _ in range(tuning.rounds if solvable else 0):
        if stop():
            break
        wanted = B * mean + combination(table, cap[:, None] * (r * u + c))
        W = np.stack([factor.solve(g) for factor, g in zip(factors, wanted, strict=True)])
        a = tuning.relax * scores_of(table, W) + (1.0 - tuning.relax) * u - c / r
        q = next_on_simplex(r * (cost + a) + own)
        c = own - q
        u = a + c / r
    return W, q
