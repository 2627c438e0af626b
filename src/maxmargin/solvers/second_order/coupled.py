"""Labels that R couples (Hariharan et al. 2012), where labels x features is moderate: one system of all of them.

    P(Z) = 1/2 tr(Z' R^+ Z) + losses of each label,  Z (labels, features + 1) in the range of R,     Z = R V,  V = X' b

Some labels P, all of them where R is positive definite, have weights of their own: R = C R_PP C', and Z = C W. A step solves

    (R_PP^-1 (x) I + sum_l c_l c_l' (x) X' Theta_l X) dW = C' (slack + X' h)

W is not multiplied by R^-1 as a matrix, which rounding would spoil where labels nearly repeat each other, but by solving.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from ...data.table import Table
from ...problems.multilabel import LabelGroup, label_target
from ...regularizers.coupled import independent
from .run import EntryShape, RowShape
from .systems import ScalarColumns, combination, products_with, scores_of


class Basis(NamedTuple):
    """Labels with weights of their own, C (labels, of these), and the factor of R among them."""

    labels: np.ndarray
    C: np.ndarray
    factor: tuple[np.ndarray, bool]

    def pulled(self, W: np.ndarray) -> np.ndarray:
        """R_PP^-1 W."""
        found: np.ndarray = cho_solve(self.factor, W)
        return found


def basis_of_labels(R: np.ndarray) -> Basis:
    own, F = independent(R)
    C = solve_triangular(F[own], F.T, lower=True, trans="T").T
    C[own] = np.eye(len(own))  # exactly
    return Basis(own, C, (F[own], True))


class CoupledShape(RowShape, EntryShape):
    """Weights are Z, and the losses those of each label of each example."""

    problem: LabelGroup

    def __init__(self, problem: LabelGroup):
        super().__init__(problem)
        targets = [label_target(problem, k) for k in range(problem.n_classes)]
        sign, margin = (np.column_stack([target[side] for target, _ in targets]).ravel() for side in (0, 1))
        loss = problem.loss.single
        assert loss is not None
        self.loss, self.losses = loss, loss.of(sign, margin, problem.C * np.column_stack([w for _, w in targets]).ravel())

    @cached_property
    def basis(self) -> Basis:
        return basis_of_labels(self.problem.coupling.R)

    def system(self, steady):
        return CoupledColumns(self.problem.table, self.basis)

    def opened(self, w):
        Z = super().opened(self.problem.regularizer.scoring(w))
        return self.basis.C @ Z[self.basis.labels]

    def packed(self, W):
        return self.problem.regularizer.mended(super().packed(self.pulled(W)))

    def pulled(self, W):
        """A V with R V = Z: that of the labels with weights of their own."""
        V = np.zeros_like(W)
        V[self.basis.labels] = self.basis.pulled(W[self.basis.labels])
        return V

    def tied(self, W):
        return self.basis.C @ W[self.basis.labels]

    def square(self, slack):
        """As a square, of which nothing cancels: where R is not definite, slack may be many times what R leaves of it."""
        U = self.problem.coupling.factor[0].T @ slack
        return float(np.vdot(U, U))


class CoupledColumns(ScalarColumns):
    """The system above. Right sides and solutions are those of all labels, and theta (rows, labels)."""

    def __init__(self, table: Table, basis: Basis):
        super().__init__(table)
        self.basis = basis

    def prepare(self, theta, B, walls=None):
        return super().prepare(theta, np.zeros((len(self.basis.labels), B.shape[1])), walls)

    def matrix(self):
        (count, d), C = self.B.shape, self.basis.C
        H = np.kron(self.basis.pulled(np.eye(count)), np.eye(d))
        blocks = H.reshape(count, d, count, d)
        for k in range(self.theta.shape[1]):
            G = products_with(self.table, self.theta[:, k])
            used = np.flatnonzero(C[k])
            for i in used:
                for j in used:
                    blocks[i, :, j] += C[k, i] * C[k, j] * G
        return H

    def roots_of_losses(self):
        return None  # what labels have in common is no diagonal

    def solve(self, g, h, push=None):
        wanted = self.basis.C.T @ (g if h is None else g + combination(self.table, h))
        dW, self.along = self.factor.refined(self.product, wanted.ravel())
        pushed = self.applied(self.along)
        return self.basis.C @ dW.reshape(self.B.shape), -pushed if h is None else h - pushed

    def product(self, flat, wanted):
        W = flat.reshape(self.B.shape)
        along = scores_of(self.table, self.basis.C @ W)
        if not wanted:
            return flat, along
        return (self.basis.C.T @ combination(self.table, self.applied(along)) + self.basis.pulled(W)).ravel(), along
