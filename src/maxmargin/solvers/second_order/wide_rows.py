"""The multiclass hinge loss with many columns, where the matrix of all weights takes longest; and an interior point for it.

    N = sum over pairs of classes k < l of  theta_k theta_l / sum theta  (e_k - e_l)(e_k - e_l)'

Near the solution an example has two or three classes that matter, most have one, and their pairs weigh next to nothing. So the
heaviest pairs of examples and classes are added up as they are, each into four blocks of the matrix. The others are many and
alike: their weights are added up for each label and pair of classes, and stand before the mean of x x' over the examples of that
label. That is what is factored; conjugate gradients with products of X itself do the rest, also what float32 takes from dense
products: half of their time for a third more gradients.

Large columns make the gradient of all duals but a few enormous, and steps from weights of zero are short for long. So the weights
at first are those that alternating directions find soon (`alternating`). Their duals lie on the border, those of the central path
for these weights leave far more of the gradient: the beginning is between both.
"""

import numpy as np
import scipy.sparse as sp

from ...data.table import RowBlock, Table
from ...problems.linear import BlockProblem
from .alternating import QuadraticTerm, alternated
from .blends import BlendedInterior
from .interior_rows import RowInterior
from .systems import FEW_PAIRS, LEAST_THETA, MANY_CLASSES, RowColumns
from .tuning import SPLIT

# Pairs that are added up as they are, for each weight; the part of a right side that conjugate gradients may leave, and how many
# of their steps. Digits in 14 x 14 pixels of 0..255, others than those that are reported, C = 1, seconds of one core: 50 and 20
# pairs take 26 and 47, as gradients take longer; 1e-4 and 1e-7 take 33 and 35, with an earlier matrix. 2026-11-17.
KEPT, LEFT_OVER, MOST_GRADIENTS = 50, 1e-4, 40
MOST_PAIRS = 1 << 25  # of examples and classes whose weights are kept in memory
PATH_ROUNDS = 100  # of the search for the level of a row, which has few
EXACT_LEVEL = 1e-14


class SingleRows:
    """Dense rows in float32, the bias beside them, each column divided by its largest number."""

    def __init__(self, X: np.ndarray, bias: float):
        sizes = np.append(np.maximum(X.max(axis=0, initial=0.0), -X.min(axis=0, initial=0.0)), abs(bias)).astype(np.float64)
        sizes[sizes == 0.0] = 1.0
        self.sizes = sizes
        self.rows = np.empty((len(X), sizes.size), np.float32)
        np.divide(X, sizes[:-1], out=self.rows[:, :-1], casting="same_kind")
        self.rows[:, -1] = bias / sizes[-1]
        self.scaled = np.empty_like(self.rows)  # the same memory for all products

    def weighted_products(self, rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """sum of weight x x' over these rows, weights > 0; exact to float32."""
        most = float(weight.max(initial=0.0)) or 1.0
        scaled = np.take(self.rows, rows, axis=0, out=self.scaled[: rows.size], mode="clip")  # no copy, as with "raise"
        scaled *= np.sqrt(weight / most).astype(np.float32)[:, None]
        found = (scaled.T @ scaled).astype(np.float64)
        found *= most * self.sizes
        found *= self.sizes[:, None]
        return found


class PairColumns(RowColumns):
    """The matrix of the pairs that count; `label` is that of each row of the table."""

    def __init__(self, table: Table, label: np.ndarray, classes: int):
        super().__init__(table)
        self.bias = next(table.blocks(1)).bias
        self.single = None if sp.issparse(table.matrix) else SingleRows(table.matrix, self.bias)
        self.of_label = np.eye(classes)[label]
        count = np.maximum(self.of_label.sum(axis=0), 1.0)
        self.mean = np.stack([self.products(np.flatnonzero(of), of[of > 0.0]) for of in self.of_label.T]) / count[:, None, None]

    def products(self, rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """sum of weight x x' over these rows."""
        if self.single is not None:
            return self.single.weighted_products(rows, weight)
        return RowBlock(self.table.matrix[rows], self.bias, 0, rows.size).weighted_products(weight)

    def prepare(self, theta, B, walls=None):
        found = super().prepare(theta, B, walls)
        self.factor.sound = False  # it is that of another matrix
        return found

    def limits(self):
        return max(self.rest, LEFT_OVER), MOST_GRADIENTS

    def matrix(self):
        """Its blocks on and above the diagonal, which is all that is factored."""
        classes, d = self.theta.shape[1], self.table.shape[1] + 1
        first, second = np.triu_indices(classes, 1)
        theta = np.ascontiguousarray(self.theta.T)
        weight = theta[first] * theta[second]
        weight /= self.total[:, 0]
        kept = weight > heaviest(weight, KEPT * classes * d)
        others = np.tensordot(np.where(kept, 0.0, weight) @ self.of_label, self.mean, 1)
        H = np.zeros((classes, d, classes, d))
        for pair, (k, other) in enumerate(zip(first, second, strict=True)):
            found, rows = others[pair], np.flatnonzero(kept[pair])
            if rows.size:
                found += self.products(rows, weight[pair, rows])
            H[k, :, k] += found
            H[other, :, other] += found
            H[k, :, other] = -found
        return H.reshape(classes * d, classes * d)


def heaviest(weight: np.ndarray, count: int) -> float:
    """What no more than so many weights are above; none of zero is."""
    if count >= weight.size:
        return 0.0
    return float(np.partition(weight, weight.size - count - 1, axis=None)[weight.size - count - 1])


def on_path(worth: np.ndarray, cap: np.ndarray, mu: float) -> np.ndarray:
    """(examples, classes): multipliers s = level - worth with sum mu / s = cap. The inverse of that sum is concave in the level,
    so that Newton's method from below rises to the root."""
    below = worth.max(axis=1, keepdims=True) - worth
    least = mu / cap
    for _ in range(PATH_ROUNDS):
        p = mu / (least + below)
        total = p.sum(axis=1, keepdims=True)
        step = (total / cap - 1.0) * total * mu / np.sum(p * p, axis=1, keepdims=True)
        least = least + np.maximum(step, 0.0)
        if np.all(step <= EXACT_LEVEL * least):
            break
    found: np.ndarray = least + below
    return found


class WideInterior(BlendedInterior, RowInterior):
    """Begins near the solution. What another run has left is kept as long as it is better, and not begun with. Many steps are
    short here, and to mend after each would form the matrix once more."""

    # Matrices for 64 steps with 1 and 0: 64 and 74, to the same gap, from weights of zero. Digits of 0..255, those reported,
    # C = 1, 2026-11-17.
    may_idle = 1

    def system_for(self, problem):
        return PairColumns(problem.table, problem.exact_loss.label, problem.n_classes)

    def settle(self):
        loss = self.problem.exact_loss
        term, cost = QuadraticTerm(self.mean, self.B), self.margins()[loss.label]
        self.W, q = alternated(self.table, cost, loss.label, loss.cap, term, stop=self.to_end)
        worth = self.worth()
        mu = max(SPLIT.times * self.risk(worth) / max(worth.size, 1), LEAST_THETA)
        s = on_path(worth, self.cap, mu)
        p = (1.0 - SPLIT.pulled) * self.cap * q[self.counted] + SPLIT.pulled * mu / s
        self.begin_at((p,), mu, float(np.mean(self.cost.max(axis=1))) if self.cost.size else 1.0)
        self.against = (s,)

    def most_corrections(self, tuning):
        few, many = tuning.corrections
        return int(np.clip(tuning.share * work_of_matrix(self.problem) / work_of_solution(self.problem), few, many))


def has_many_columns(problem: BlockProblem) -> bool:
    """Whether products of all pairs of columns are too many to be formed for each row; and those of classes are not."""
    classes, d = problem.n_classes, problem.table.shape[1] + 1
    pairs = problem.n_examples * classes * (classes - 1) // 2
    return classes >= MANY_CLASSES and d * (d + 1) // 2 > FEW_PAIRS and pairs <= MOST_PAIRS


def work_of_matrix(problem: BlockProblem) -> float:
    """Floating point operations of one matrix, about: the pairs that are kept, and the factor."""
    size = problem.n_classes * problem.table.shape[1]
    return KEPT * size * problem.table.shape[1] ** 2 / 2.0 + size**3 / 3.0


def work_of_solution(problem: BlockProblem) -> float:
    """Those of a solution with it: three passes over X, and the factor twice."""
    size = problem.n_classes * problem.table.shape[1]
    return size * (6.0 * problem.n_examples + 4.0 * size)


def work_of_pairs(problem: BlockProblem) -> float:
    """Those of one step, with passes over X."""
    classes, size = problem.n_classes, problem.n_classes * problem.table.shape[1]
    return work_of_matrix(problem) + problem.n_examples * (100.0 * size + 10.0 * classes**2)
