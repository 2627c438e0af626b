"""The multinomial logistic loss of blocks of rows on a device: cap_i (log sum_j exp z_j - z_y), as in `multinomial`.

Duals are b = cap (e_y - p) with probabilities p, rewards cap times the entropy of p. The best p of a row for the curvature q has

    log p_j + rho p_j = z_j + rho p'_j + t,      sum p = 1,      rho = q cap,  p' the probabilities so far.

The left side has an inverse that grows and is convex, and so is the sum of these in t: Newton's steps from the right, inside and
outside, fall to the solution and never beyond it.
"""

from dataclasses import dataclass
from math import inf
from typing import Any

from .multilabel_steps import NO_CURVATURE
from .tensor_rows import BlockStep, ClassRows, eps_of, tiny_of, wide

INNER, OUTER = 8, 100  # rounds of Newton's method; outer ones mostly end after ten


@dataclass(frozen=True, eq=False)
class MultinomialRows(ClassRows):
    """One class for each example; there are no margins, so no costs."""

    @property
    def precise(self):
        return True

    def value(self, rows, S, error=None):
        found = above_truth(S, self.label[rows][:, None])[:, 0].double()
        return (self.cap[rows] * (found if error is None else found + 2.0 * error)).sum()

    def stepped(self, rows, S, A, q):
        y, cap = self.label[rows][:, None], self.cap[rows].to(S.dtype)[:, None]
        old = self.probabilities(y, -A.scatter(1, y, 0.0), cap)
        rho = (q * cap).clamp(min=NO_CURVATURE)
        new = best_probabilities(S + rho * old, rho).where(cap > 0.0, old)
        before, after = cap * entropies(old), cap * entropies(new)
        share = (cap * above_truth(S, y) - before + ((S - S.gather(1, y)) * A).sum(1, keepdim=True))[:, 0]
        change = self.closed(y, (cap * new).scatter(1, y, 0.0)) - A
        return BlockStep(change, wide(after - before), 0.0 * share.double().sum(), share)

    def attained(self, rows, S):
        y, cap = self.label[rows][:, None], self.cap[rows].to(S.dtype)[:, None]
        return self.closed(y, (cap * S.softmax(1)).scatter(1, y, 0.0))

    def probabilities(self, y: Any, a: Any, cap: Any) -> Any:
        """p of the duals a of all classes but the truth."""
        others = a / cap.clamp(min=tiny_of(a))
        return others.scatter(1, y, (1.0 - others.sum(1, keepdim=True)).clamp(min=0.0))

    def repaired(self, rows, A):
        y, a = self.opened(rows, A)
        cap = self.cap[rows][:, None]
        a = a * (cap / a.sum(1, keepdim=True).clamp(min=tiny_of(a))).clamp(max=1.0)
        reward = wide(cap * entropies(self.probabilities(y, a, cap)))
        return self.closed(y, a), reward, reward


def above_truth(S: Any, y: Any) -> Any:
    """(rows, 1): the logarithm of sum_j exp(z_j - z_y), which may be far less than the rounding of either z: those of the other
    classes are summed up alone."""
    others = (S - S.gather(1, y)).scatter(1, y, -inf).logsumexp(1, keepdim=True)
    return others.clamp(min=0.0) + (-others.abs()).exp().log1p()


def entropies(p: Any) -> Any:
    """- sum_j p_j log p_j, row by row; of no probability nothing."""
    return -(p * p.clamp(min=tiny_of(p)).log()).sum(1, keepdim=True)


def inverse(x: Any, rho: Any) -> Any:
    """u with u + rho exp(u) = x, by steps from above."""
    shift = rho.log()
    y = x + shift
    v = y.clamp(min=1.0).log().where(y > 1.0, y)
    for _ in range(INNER):
        grown = v.exp()
        v = v - (v + grown - y) / (1.0 + grown)
    return v - shift


def best_probabilities(c: Any, rho: Any) -> Any:
    """p with log p + rho p = c + t and sum p = 1; rho is (rows, 1)."""
    t = rho - c.logsumexp(1, keepdim=True)
    for _ in range(OUTER):
        p = inverse(c + t, rho).exp()
        over = p.sum(1, keepdim=True) - 1.0
        step = over / (p / (1.0 + rho * p)).sum(1, keepdim=True).clamp(min=tiny_of(p))
        t = t - step.clamp(min=0.0)
        if not bool((over > 8.0 * eps_of(p) * p.shape[1]).any()):
            break
    p = inverse(c + t, rho).exp()
    return p / p.sum(1, keepdim=True)
