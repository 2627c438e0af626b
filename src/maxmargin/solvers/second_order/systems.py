"""The linear systems of second-order steps. With W (classes, features + 1), one class where an example has one score,

    B dW - X' db = g,      db_i = h_i - N_i (X dW)_i          so that      (B + sum_i N_i (x) x_i x_i') dW = g + X' h

B is diagonal and positive, plus a small matrix of walls where there is one. N_i is a number theta_i >= 0, or the matrix
diag(theta_i) - theta_i theta_i' / sum theta_i of a row of classes. Where there are more columns than rows the same dW comes from
(1/theta + X B^-1 X') db = h/theta - X B^-1 g, a matrix of rows x rows.

Where rows are many more than columns and no exact solution is asked for (`rest`), the matrix is that of some rows, and conjugate
gradients on all of them do the rest: each costs two passes over X, a matrix as many as it has columns.

Columns may differ by any factor: matrices are brought to a unit diagonal before they are factored, and each solution is refined
with products of X itself, which knows more than a matrix that was summed up.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dpotrf, dpotrs

from ...data.table import BLOCK_SIZE, RowBlock, Table
from ...utils.blas import products_of_rows
from .roots import LeastSquares

RIDGES = (0.0, 1e-14, 1e-12, 1e-10, 1e-8)  # added to a unit diagonal where rounding has made the matrix indefinite
REFINEMENTS = 6  # of a solution at the most
FEW_CHANGES = 0.2  # part of the rows up to which a matrix is changed and not formed anew
SOUND = 1e-2  # a factor of a unit diagonal whose own diagonal is above this loses four digits at the most
LOST = 1e-5  # one with less loses ten digits and more. By guess, 2026-11-17.
# Rows times squared weights up to which least squares take little time: 0.1 s a step, of which few are needed. By guess; 1e7
# before, 2026-11-18: 16,000 rows of 39 weights (fuzz 404:3711).
FEW_SQUARES = 1e8
EXACT_PART = 1e-14  # part of a right side that is nothing but rounding
LEAST_THETA = 1e-290  # a smaller theta is none: its inverse would overflow
ROWS_AT_ONCE = 1 << 21  # numbers of a block of rows times classes: it should not leave the cache of a core by much
NUMBERS_AT_ONCE = 1 << 18  # of a block of short rows. cadata, 2026-11-16
FEW_COLUMNS = 32  # with fewer a matrix of all rows takes no more than a few passes over them. cadata, 2026-11-16
# Numbers of a block of products of pairs, the rows that such a block has at least, classes from which on and products of pairs of
# columns up to which these are formed. By letter and digits, 2026-11-16.
PAIRS_AT_ONCE, FEWEST_ROWS, MANY_CLASSES, FEW_PAIRS = 1 << 19, 64, 4, 1 << 13
# Rows that stand for all others, for each column; how many times as many there must be; the part of them that must count; and
# steps of conjugate gradients after which they do not stand for the others. 50,000 x 100, normal columns, 2026-11-16.
SAMPLED, MANY_MORE, COUNTING, LONG_SEARCH = 80, 4, 0.5, 12


def blocks_at_once(table: Table) -> Iterator[RowBlock]:
    """All rows: more of them at a time where they are short."""
    return table.blocks(max(BLOCK_SIZE, NUMBERS_AT_ONCE // (table.shape[1] + 1)))


def scores_of(table: Table, W: np.ndarray) -> np.ndarray:
    """(rows, classes): X W'."""
    found = [np.asarray(block.scores(W), np.float64) for block in blocks_at_once(table)]
    return found[0] if len(found) == 1 else np.concatenate(found)


def combination(table: Table, duals: np.ndarray) -> np.ndarray:
    """(classes, features + 1): sum_i b_i x_i; duals are (rows, classes)."""
    result = np.zeros((duals.shape[1], table.shape[1] + 1))
    for block in blocks_at_once(table):
        result += block.combined(duals[block.start : block.stop])
    return result


def products_with(table: Table, weight: np.ndarray) -> np.ndarray:
    """(features + 1, features + 1): X' diag(weight) X."""
    found = np.zeros((table.shape[1] + 1,) * 2)
    for block in blocks_at_once(table):
        found += block.weighted_products(weight[block.start : block.stop])
    return found


Product = Callable[[np.ndarray, bool], tuple[np.ndarray, np.ndarray]]


def unit_scale(diagonal: np.ndarray) -> np.ndarray:
    """What brings a diagonal to one; zero where it is not positive."""
    return np.divide(1.0, np.sqrt(np.maximum(diagonal, 0.0)), out=np.zeros_like(diagonal), where=diagonal > 0.0)


class Factor:
    """A positive semidefinite matrix, of which only what is on and above the diagonal counts, at unit diagonal, which takes its
    place, factored with the first of the ridges that does. Where none does there is no `factor`. What has a diagonal of zero
    stays at zero in solutions."""

    lost = True  # whether it says little about the matrix
    sound = False  # whether one solution with it is exact enough
    factor: np.ndarray | None = None

    def __init__(self, H: np.ndarray, ridges: tuple[float, ...] = RIDGES):
        diagonal = H.diagonal().copy()
        if not np.all(np.isfinite(diagonal)):
            return
        self.scale = unit_scale(diagonal)
        H *= self.scale
        H *= self.scale[:, None]
        self.take(H, ridges)

    def take(self, H: np.ndarray, ridges: tuple[float, ...]) -> None:
        """A matrix that has been brought to a unit diagonal."""
        for ridge in ridges:
            H.flat[:: len(H) + 1] = 1.0 + ridge
            found, failed = dpotrf(H.T, lower=1, clean=0)  # the order that LAPACK takes as it is
            if not failed:
                self.factor, self.ridge = found, ridge
                least = float(np.min(np.diagonal(found), initial=1.0))
                self.sound, self.lost = ridge == 0.0 and least > SOUND, ridge > 0.0 or not least > LOST
                return

    def solve(self, g: np.ndarray) -> np.ndarray:
        """The solution for a right side, or for each of its columns."""
        if not g.size:  # no row counts, and LAPACK takes no empty matrix
            return g.copy()
        scale = self.scale if g.ndim == 1 else self.scale[:, None]
        found: np.ndarray = scale * dpotrs(self.factor, scale * g, lower=1)[0]
        return found

    def length(self, g: np.ndarray) -> float:
        """Of a right side, in the scale of the matrix."""
        return float(np.linalg.norm(self.scale * g))

    def refined(
        self, product: Product, g: np.ndarray, rest: float = EXACT_PART, most: int = REFINEMENTS
    ) -> tuple[np.ndarray, np.ndarray]:
        """The solution by conjugate gradients on the true matrix, with the factor before it: mostly there at once. With it comes
        what `product` says beside the product, which is linear too. `missed` is the part of the right side that is left."""
        x, self.missed = self.solve(g), 0.0
        if self.sound:
            return x, product(x, False)[1]
        found, beside = product(x, True)
        left, whole = g - found, self.length(g)
        best, least = (x, beside), self.length(left)
        ahead, before = np.zeros_like(g), 1.0
        for k in range(most):
            if not self.length(left) > rest * whole:
                break
            near = self.solve(left)
            now = float(left @ near)
            ahead = near + (now / before if k else 0.0) * ahead
            found, pushed = product(ahead, True)
            bent = float(ahead @ found)
            if not (now > 0.0 and bent > 0.0):
                break
            x, beside, left, before = x + now / bent * ahead, beside + now / bent * pushed, left - now / bent * found, now
            if self.length(left) < least:
                best, least = (x, beside), self.length(left)
        self.missed = least / whole if whole else 0.0
        return best


class WallRows(NamedTuple):
    """Half-spaces that weigh on weights: G' diag(weight) G beside B."""

    G: np.ndarray
    weight: np.ndarray


class System(ABC):
    """One such system after the other, on the same samples."""

    factor: Factor
    along: np.ndarray | None = None  # X dW' of the last solution, where it is known
    memory: tuple[np.ndarray, ...] = ()  # of the last system, where that makes the next one cheaper
    rest: float = 0.0  # part of the right side that a solution may leave
    rise: np.ndarray  # how far the last solution leads away from walls

    def __init__(self, table: Table):
        self.table = table

    @abstractmethod
    def prepare(self, theta: np.ndarray, B: np.ndarray, walls: WallRows | None = None) -> bool:
        """Take up theta (rows, classes), the diagonal B (classes, features + 1) and walls; whether it can be solved."""

    @abstractmethod
    def applied(self, u: np.ndarray) -> np.ndarray:
        """N u, for (rows, classes)."""

    @abstractmethod
    def bent(self, theta: np.ndarray, u: np.ndarray) -> float:
        """sum_i u_i' N_i u_i, with N of any theta."""

    @abstractmethod
    def solve(self, g: np.ndarray, h: np.ndarray | None, push: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """dW and db; None stands for an h of zeros. `push` is what walls add to g, G' push; `rise` then G dW."""


class ColumnSystem(System):
    """By a matrix of all weights; by least squares where that has lost too much, and they are few enough."""

    squares: LeastSquares | None = None  # where they are what is solved with

    def prepare(self, theta, B, walls=None):
        self.theta, self.B, self.walls, self.squares = theta, B, walls, None
        with np.errstate(over="ignore", invalid="ignore"):
            self.factor = self.factored()
            if self.factor.lost and (A := self.roots()) is not None:
                sizes = np.abs(all_rows(self.table)).max(axis=0, initial=0.0)
                self.squares = LeastSquares(A, np.tile(sizes, len(self.B)))
                if self.squares.found:
                    return True
                self.squares = None
        return self.factor.factor is not None

    def factored(self) -> Factor:
        H = self.matrix()
        H.flat[:: len(H) + 1] += self.B.ravel()
        if self.walls is not None:
            H += self.walls.G.T @ (self.walls.weight[:, None] * self.walls.G)
        return Factor(H)

    @abstractmethod
    def matrix(self) -> np.ndarray:
        """sum_i N_i (x) x_i x_i', class by class; what is below the diagonal does not count."""

    @abstractmethod
    def roots_of_losses(self) -> np.ndarray | None:
        """Rows F_i (x) x_i of all examples, one after another; None where they are too many."""

    @abstractmethod
    def beside(self, change: np.ndarray) -> np.ndarray:
        """(rows, those of F): c with F' c = change, which is (rows, classes)."""

    @abstractmethod
    def together(self, left: np.ndarray) -> np.ndarray:
        """F' left, (rows, classes)."""

    def roots(self) -> np.ndarray | None:
        """A, as above; None where it is not known, or has too many rows."""
        found = self.roots_of_losses()
        if found is None:
            return None
        parts = [np.diag(np.sqrt(self.B.ravel())), found]
        if self.walls is not None:
            parts.append(np.sqrt(self.walls.weight)[:, None] * self.walls.G)
        return np.concatenate(parts)

    def solve(self, g, h, push=None):
        if self.squares is not None:
            return self.solve_by_squares(self.squares, g, h, push)
        wanted = (g if h is None else g + combination(self.table, h)).ravel()
        if self.walls is not None and push is not None:
            wanted = wanted + self.walls.G.T @ push
        dW, self.along = self.factor.refined(self.product, wanted, *self.limits())
        if self.walls is not None:
            self.rise = self.walls.G @ dW
        pushed = self.applied(self.along)
        return dW.reshape(g.shape), -pushed if h is None else h - pushed

    def solve_by_squares(
        self, squares: LeastSquares, g: np.ndarray, h: np.ndarray | None, push: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `solve`."""
        b = np.zeros(squares.rows)
        root = np.sqrt(self.B.ravel())
        b[: root.size] = g.ravel() / root
        walls = 0 if self.walls is None else self.walls.weight.size
        examples = slice(root.size, squares.rows - walls)
        if h is not None:
            b[examples] = self.beside(h).ravel()
        if self.walls is not None and push is not None:
            b[examples.stop :] = push / np.sqrt(self.walls.weight)
        dW, left = squares.solve(b)
        if self.walls is not None:
            self.rise = (b[examples.stop :] - left[examples.stop :]) / np.sqrt(self.walls.weight)
        self.along = scores_of(self.table, dW.reshape(g.shape))
        return dW.reshape(g.shape), self.together(left[examples].reshape(len(self.theta), -1))

    def limits(self) -> tuple[float, int]:
        """The part of a right side that a solution may leave, and the refinements of it at the most."""
        return (self.rest, LONG_SEARCH) if self.rest > 0.0 else (EXACT_PART, REFINEMENTS)

    def product(self, flat: np.ndarray, wanted: bool) -> tuple[np.ndarray, np.ndarray]:
        """The matrix times weights, where it is wanted, and X W'."""
        W = flat.reshape(self.B.shape)
        along = scores_of(self.table, W)
        if not wanted:
            return flat, along
        found = (combination(self.table, self.applied(along)) + self.B * W).ravel()
        if self.walls is not None:
            found += self.walls.G.T @ (self.walls.weight * (self.walls.G @ flat))
        return found, along


def rows_drawn(rows: int, columns: int) -> int:
    """How many rows stand for all of them; all, where fewer would save little."""
    size = SAMPLED * (columns + 1)
    return rows if columns < FEW_COLUMNS or rows < MANY_MORE * size else size


class ScalarColumns(ColumnSystem):
    """One score an example, features x features. `steady`: theta mostly stays as it is from one system to the next, so that only
    the rows where it does not are multiplied, or some rows stand for all."""

    def __init__(self, table: Table, steady: bool = False):
        super().__init__(table)
        self.steady, self.sampled = steady, False
        self.of_some: np.ndarray | None = None  # theta of the matrix of some rows, where that is the one at hand

    def prepare(self, theta, B, walls=None):
        self.sampled = self.steady and walls is None and self.rest > 0.0 and self.draw(theta[:, 0])
        if self.sampled and self.like_before(theta[:, 0], B):
            self.theta = theta
            return True
        found = super().prepare(theta, B, walls)
        self.of_some = theta[:, 0].copy() if self.sampled and found else None
        if self.sampled and found:
            self.factor.sound = False
        return found

    def like_before(self, theta: np.ndarray, B: np.ndarray) -> bool:
        """Whether the matrix of some rows at hand will do."""
        if self.of_some is None or not np.array_equal(self.B, B):
            return False
        return bool(np.count_nonzero(theta != self.of_some) <= FEW_CHANGES * len(theta))

    def draw(self, theta: np.ndarray) -> bool:
        """Choose the rows that stand for all, the same ones each time; whether enough of them count."""
        n, size = self.table.shape[0], rows_drawn(*self.table.shape)
        if size == n:
            return False
        self.some = np.sort(np.random.default_rng(n).choice(n, size, replace=False))
        return bool(np.count_nonzero(theta[self.some]) >= COUNTING * size)

    def solve(self, g, h, push=None):
        found = super().solve(g, h, push)
        if self.sampled and self.factor.missed > self.rest:
            self.rest = 0.0
            if self.prepare(self.theta, self.B, self.walls):
                return super().solve(g, h, push)
        return found

    def roots_of_losses(self):
        n, d = self.table.shape
        if self.sampled or (n + d + 1) * (d + 1) ** 2 > FEW_SQUARES:
            return None
        return np.sqrt(self.theta) * all_rows(self.table)

    def beside(self, change):
        return divided(change, np.sqrt(self.theta))

    def together(self, left):
        return np.sqrt(self.theta) * left

    def matrix(self):
        if self.sampled:
            weight = np.zeros(len(self.theta))
            weight[self.some] = self.theta[self.some, 0] * (len(weight) / len(self.some))
            return products_with(self.table, weight)
        if not self.steady:
            return products_with(self.table, self.theta[:, 0])
        if self.memory:
            change = self.theta[:, 0] - self.memory[0]
            if np.count_nonzero(change) <= FEW_CHANGES * len(change):
                more, less = (products_with(self.table, np.maximum(sign * change, 0.0)) for sign in (1.0, -1.0))
                H = self.memory[1] + more - less
                self.memory = self.theta[:, 0].copy(), H.copy()
                return H
        H = products_with(self.table, self.theta[:, 0])
        self.memory = self.theta[:, 0].copy(), H.copy()
        return H

    def applied(self, u):
        return self.theta * u

    def bent(self, theta, u):
        return float(np.vdot(theta, u * u))


class RowColumns(ColumnSystem):
    """A row of scores an example, (classes x features)^2. N = diag(theta) - theta theta' / sum theta, from products only: no two
    large numbers are subtracted. Where columns are few, each product of two of them and each of two classes is formed once, and
    the matrix is the product of both tables: half of the work."""

    def prepare(self, theta, B, walls=None):
        self.total = np.maximum(theta.sum(axis=1, keepdims=True), LEAST_THETA)
        self.highest = theta.argmax(axis=1)
        return super().prepare(theta, B, walls)

    def matrix(self):
        classes, d = self.theta.shape[1], self.table.shape[1] + 1
        own = self.theta * self.others() / self.total
        if classes >= MANY_CLASSES and d * (d + 1) // 2 <= FEW_PAIRS:
            return self.of_pairs(own)
        H = np.zeros((classes * d, classes * d))
        for products in self.spread_products(self.theta / np.sqrt(self.total)):
            H -= products
        for k in range(classes):
            part = slice(k * d, (k + 1) * d)
            H[part, part] = sum(block.weighted_products(own[block.start : block.stop, k]) for block in self.table.blocks())
        return H

    def others(self) -> np.ndarray:
        """What each theta leaves of the total: of the largest a sum, not a difference."""
        rest, largest = self.theta.copy(), (np.arange(len(self.theta)), self.highest)
        rest[largest] = 0.0
        found = np.maximum(self.total - self.theta, 0.0)
        found[largest] = rest.sum(axis=1)
        return found

    def spread_products(self, weight: np.ndarray) -> Iterator[np.ndarray]:
        """sum_i (weight_i (x) x_i) (weight_i (x) x_i)', class by class, block by block; weight is (rows, classes)."""
        size = max(1, ROWS_AT_ONCE // (weight.shape[1] * (self.table.shape[1] + 1)))
        for block in self.table.blocks(size):
            X = dense_rows(block)
            spread = (weight[block.start : block.stop, :, None] * X[:, None, :]).reshape(len(X), -1)
            yield spread.T @ spread

    def of_pairs(self, own: np.ndarray) -> np.ndarray:
        """The same, from the products of pairs."""
        classes, d = self.theta.shape[1], self.table.shape[1] + 1
        pairs, root = classes * (classes + 1) // 2, self.theta / np.sqrt(self.total)
        found = np.zeros((pairs, d * (d + 1) // 2))
        diagonal = np.cumsum([0, *range(classes, 1, -1)])
        for block in self.table.blocks(max(FEWEST_ROWS, PAIRS_AT_ONCE // (pairs + found.shape[1]))):
            rows = slice(block.start, block.stop)
            of_classes = products_of_pairs(np.ascontiguousarray(root[rows].T))
            np.negative(of_classes, out=of_classes)
            of_classes[diagonal] = own[rows].T
            found += of_classes @ products_of_pairs(np.ascontiguousarray(dense_rows(block).T)).T
        return found[place_of_pairs(classes)][:, :, place_of_pairs(d)].transpose(0, 2, 1, 3).reshape(classes * d, -1)

    def applied(self, u):
        return self.balanced(self.theta * (u - products_of_rows(self.theta, u) / self.total))

    def balanced(self, found: np.ndarray) -> np.ndarray:
        """With each row summing to zero."""
        highest = np.arange(len(found)), self.highest
        found[highest] = 0.0
        found[highest] = -np.einsum("ij->i", found)
        return found

    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Without the highest theta, N of the differences to that class is D (1 - q q') D with D^2 = theta, q^2 = theta / total.
        The square root of the matrix between is 1 - beta q q': D, q and the root of 1 - q'q, of which beta is made."""
        rows, classes = self.theta.shape
        D = np.sqrt(self.theta)
        highest = D[np.arange(rows), self.highest][:, None]
        D[np.arange(rows), self.highest] = 0.0
        total = np.sqrt(self.total)
        return D, D / total, np.maximum(highest / total, 1.0 / np.sqrt(classes))

    def roots_of_losses(self):
        (n, classes), d = self.theta.shape, self.table.shape[1] + 1
        if (n + d) * classes * (classes * d) ** 2 > FEW_SQUARES:
            return None
        D, q, rest = self.parts()
        F = -(q / (1.0 + rest))[:, :, None] * (q * D)[:, None, :]
        F[:, range(classes), range(classes)] += D
        F[np.arange(n), :, self.highest] = -F.sum(axis=2)
        return (F[:, :, :, None] * all_rows(self.table)[:, None, None, :]).reshape(n * classes, classes * d)

    def beside(self, change):
        D, q, rest = self.parts()
        found = divided(change, D)
        return found + q * products_of_rows(q, found) / (rest * (1.0 + rest))

    def together(self, left):
        D, q, rest = self.parts()
        return self.balanced(D * (left - q * products_of_rows(q, left) / (1.0 + rest)))

    def bent(self, theta, u):
        apart = u - products_of_rows(theta, u) / np.maximum(theta.sum(axis=1, keepdims=True), LEAST_THETA)
        return float(np.vdot(theta, apart * apart))


def products_of_pairs(table: np.ndarray) -> np.ndarray:
    """(pairs, rows): the products of all pairs of (numbers, rows), those of the first number first."""
    count = len(table)
    result, at = np.empty((count * (count + 1) // 2, table.shape[1])), 0
    for k in range(count):
        np.multiply(table[k], table[k:], out=result[at : at + count - k])
        at += count - k
    return result


def place_of_pairs(count: int) -> np.ndarray:
    """(count, count): where the product of two numbers stands there."""
    place = np.empty((count, count), np.intp)
    upper = np.triu_indices(count)
    place[upper] = place.T[upper] = np.arange(len(upper[0]))
    return place


def dense_rows(block: RowBlock) -> np.ndarray:
    """The rows of a block as a dense float64 array, the bias as last column."""
    X = block.X.toarray() if sp.issparse(block.X) else block.X
    return np.column_stack([X.astype(np.float64, copy=False), np.full(X.shape[0], block.bias)])


def all_rows(table: Table) -> np.ndarray:
    """Those of all blocks."""
    return np.concatenate([dense_rows(block) for block in table.blocks()])


def divided(change: np.ndarray, root: np.ndarray) -> np.ndarray:
    """change / root; zero where there is none."""
    return np.divide(change, root, out=np.zeros_like(change), where=np.abs(root) > np.sqrt(LEAST_THETA))
