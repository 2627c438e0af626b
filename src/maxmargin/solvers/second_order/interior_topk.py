"""The interior point for the top-k losses: as for Crammer and Singer's, with bounds from above on the p of the other classes.

    beta    u_j = cap/k - p_j >= 0               alpha   u_j = s/k - p_j >= 0,   s = cap - p_y the sum of the others

Each has a multiplier v > 0, u v = mu. Smoothing takes soft/2 p_j^2 off the reward, soft = smoothing/cap. Where p is not bounded
by s, theta = 1 / (pi/p + v/u + soft), pi the multiplier of p, is all that changes. For alpha the matrix N of a row is, with
q = pi/p + soft, d = v/u, theta = 1/(q + d), w = d/(q + d) of the other classes and tau = pi_y/p_y,

    N = diag(theta) - theta theta' / T + growth way way',    T = sum theta,  growth = 1 / (tau + sum q w / k^2 + c^2 / T)
    c = 1 - sum w / k,    way = w/k + c theta/T for the others, -1 for class y

Others exchange p at a fixed s by the first part; by the second s grows and takes them along. c is summed up without cancellation:
the k largest w are near to one where p is at its bound. Where k classes are all the others they are tied to s/k each.
"""

from typing import Any

import numpy as np

from ...utils.blas import products_of_rows
from .interior_rows import RowInterior
from .systems import LEAST_THETA, RowColumns, all_rows, divided

# Part of the room below a bound that it may differ by from the difference of both, to be replaced by that. By guess, on fuzz
# 302:1694, 2026-11-18.
ROOM_OFF = 1e-3


class TopKInterior(RowInterior):
    """The beta loss. `inside` are p and, of the other classes, u, (examples that count, classes - 1)."""

    @property
    def ties(self) -> bool:
        """Whether the p of the other classes cannot differ."""
        return False

    def margins(self):
        return 1.0 - np.eye(self.shape.classes)

    def settle(self):
        loss = self.problem.exact_loss
        self.k, self.soft = loss.k, loss.smoothing / self.cap
        others = np.ones_like(self.cost, dtype=bool)
        others[self.own] = False
        self.others = np.flatnonzero(others)
        self.duals = self.shape.repaired(self.duals)
        super().settle()

    def of_others(self, values: np.ndarray) -> np.ndarray:
        """(examples, classes - 1)."""
        return values.ravel().take(self.others).reshape(len(values), self.shape.classes - 1)

    def placed(self, values: np.ndarray, own: Any = 0.0) -> np.ndarray:
        """Back to (examples, classes)."""
        result = np.empty(self.cost.shape)
        result.ravel()[self.others] = values.ravel()
        result[self.own] = own
        return result

    def bounded(self, p):
        return p, self.cap / self.k - self.of_others(p)

    def risk(self, worth):
        return self.problem.risk(self.shape.packed(self.W))

    def share_of_gap(self, worth, p):
        reward = np.sum(p * worth) - float(self.cap[:, 0] @ worth[self.own]) - 0.5 * np.sum(self.soft * self.of_others(p) ** 2)
        return max(self.risk(worth) - float(reward), 0.0)

    def pulls(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """tau, and of the other classes q and d."""
        q = self.against[0] / self.inside[0]
        d = np.zeros_like(self.cost[:, 1:]) if self.ties else self.against[1] / self.inside[1]
        return q[self.own], self.of_others(q) + self.soft, d

    def theta(self):
        tau, q, d = self.pulls()
        return self.spread(self.placed(1.0 / (q + d), 1.0 / tau))

    def rewards(self, targets):
        found, less, less_of_own = super().rewards(targets), self.soft * self.of_others(self.inside[0]), 0.0
        if not self.ties:
            pushed = targets[1] / self.inside[1]
            less += pushed
            less_of_own = self.part_of_own * pushed.sum(axis=1)
        return found - self.placed(less, less_of_own)

    @property
    def part_of_own(self) -> float:
        """How much less is left to a bound where p_y grows by one."""
        return 0.0

    def moves(self, wanted, change):
        (step,) = super().moves(wanted, change)
        return step, -self.of_others(step)


class GrowingRows(RowColumns):
    """With a way on which the duals of a row grow together."""

    growth: np.ndarray  # (rows, 1)
    way: np.ndarray  # (rows, classes)
    label: np.ndarray  # the class of each row, which takes part in the growth only
    moved: tuple[np.ndarray, np.ndarray]  # how far rows have gone on their ways, and what was exchanged, by least squares

    def matrix(self):
        H = super().matrix()
        for part in self.spread_products(np.sqrt(self.growth) * self.way):
            H += part
        return H

    def grown(self, u: np.ndarray) -> np.ndarray:
        """How far rows go on their ways, (rows, 1)."""
        return self.growth * products_of_rows(self.way, u)

    def exchanged(self, u: np.ndarray) -> np.ndarray:
        """The other part of N u."""
        return super().applied(u)

    def applied(self, u):
        return self.exchanged(u) + self.grown(u) * self.way

    def roots_of_losses(self):
        found = super().roots_of_losses()
        if found is None:
            return None
        n, classes = self.theta.shape
        grown = (np.sqrt(self.growth) * self.way)[:, :, None] * all_rows(self.table)[:, None, :]
        parts = found.reshape(n, classes, -1), grown.reshape(n, 1, -1)
        return np.concatenate(parts, axis=1).reshape(n * (classes + 1), -1)

    def beside(self, change):
        own = np.arange(len(change)), self.label
        grown = divided(change[own], self.way[own])[:, None]
        rest = change - grown * self.way
        rest[own] = 0.0
        return np.column_stack([super().beside(rest), divided(grown, np.sqrt(self.growth))])

    def together(self, left):
        grown, exchanged = np.sqrt(self.growth) * left[:, -1:], super().together(left[:, :-1])
        self.moved = -grown, -exchanged
        return exchanged + grown * self.way

    def bent(self, theta, u):
        return super().bent(theta, u) + float(np.vdot(self.grown(u), products_of_rows(self.way, u)))


class TogetherInterior(TopKInterior):
    """The alpha loss: the bounds of the others grow with their sum."""

    kind_of_system = GrowingRows
    system: GrowingRows

    def settle(self):
        self.system.label = self.problem.exact_loss.label
        super().settle()

    @property
    def ties(self):
        return self.k == self.shape.classes - 1

    @property
    def part_of_own(self):
        return 1.0 / self.k

    def bounded(self, p):
        if self.ties:
            return (p,)
        others = self.of_others(p)
        return p, np.maximum(others.sum(axis=1, keepdims=True) / self.k - others, LEAST_THETA)

    def return_to(self, place):
        """With the room that p leaves as it is now: what rounding brings between the two while both are large would be much
        where they are small. Of little room the difference tells nothing."""
        super().return_to(place)
        if not self.ties:
            (p, room, *more), others = self.inside, self.of_others(self.inside[0])
            now = others.sum(axis=1, keepdims=True) / self.k - others
            self.inside = (p, np.where(np.abs(now - room) <= ROOM_OFF * room, now, room), *more)

    def theta(self):
        (tau, q, d), k = self.pulls(), self.k
        if self.ties:
            theta, w, rest, c = np.zeros_like(q), np.ones_like(q), np.zeros_like(q), np.zeros((len(q), 1))
        else:
            theta = 1.0 / (q + d)
            w, rest = d * theta, q * theta
            highest = np.argpartition(-w, k - 1, axis=1)[:, :k]
            parts = -w
            np.put_along_axis(parts, highest, np.take_along_axis(rest, highest, axis=1), axis=1)
            c = parts.sum(axis=1, keepdims=True) / k
        T = np.maximum(theta.sum(axis=1, keepdims=True), LEAST_THETA)
        way = w / k + c * theta / T
        self.back = rest / k - c * theta / T
        growth = 1.0 / (tau[:, None] + products_of_rows(q, w) / k**2 + c * c / T)
        self.system.way = self.spread(self.placed(way, -way.sum(axis=1)))
        self.system.growth = np.zeros((len(self.system.way), 1))
        self.system.growth[self.counted] = growth
        return self.spread(self.placed(theta))

    def moves(self, wanted, change):
        """From their parts: the difference of s/k and p would cancel."""
        u = wanted + self.system.along
        grown, exchanged = self.system.grown(u), self.system.exchanged(u)
        if self.system.squares is not None:
            grown, exchanged = self.system.moved
        step = (exchanged + grown * self.system.way)[self.counted]
        if self.ties:
            return (step,)
        return step, grown[self.counted] * self.back - self.of_others(exchanged[self.counted])
