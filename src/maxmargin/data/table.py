"""The Table seam: what X is once it was checked.

A table has two faces. *Rows* are a named tuple that compiled kernels take (`rows.py` says how a row is read). *Blocks* of rows
answer with matrix products, in the array library of the data: what blocked steps, other devices and workers need. Weights are
(classes, features + 1) there, the bias last, and duals (examples, classes).

A new kind of X is one file that registers itself with `table_of`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import singledispatch
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.blas import inner_product
from ..utils.threads import in_threads, spans
from . import rows
from .matrices import check_norms
from .row_sums import FEW_NUMBERS, score_rows, sum_rows

DENSE_ABOVE = 1 / 16  # part of non-zeros above which products of CSR rows are taken as of dense ones. Estimated, 2026-11-16.
# Columns up to which products with one vector are loops of ours: BLAS takes 1.2 (8 columns) to 1.4 times as long for sums of
# rows, and 3.5 (4 columns) to 1.0 times for scores; with 64 it is as fast or faster. 20,640 made rows of 4 to 64 columns,
# Neoverse N1, 2026-11-18.
NARROW = 32
BLOCK_SIZE = 4096  # rows of a block, for predictions so far. Nothing was measured, 2026-11-16.


class RowBlock:
    """Some rows of a table, `start` to `stop`, with the constant feature `bias` beside them."""

    def __init__(self, X: Any, bias: float, start: int, stop: int):
        self.X, self.bias, self.start, self.stop = X, float(bias), start, stop

    def is_narrow(self, factors: np.ndarray) -> bool:
        """Whether products with the one column of `factors` are faster by our kernels: many dense rows of few columns."""
        X = self.X
        short = type(X) is np.ndarray and X.shape[1] <= NARROW and X.size > FEW_NUMBERS and X.flags.c_contiguous
        return short and factors.shape[1] == 1 and factors.dtype == np.float64

    def dense(self) -> rows.Dense:
        """As kernels read them."""
        return rows.Dense(rows.unlocked(self.X), self.bias)

    def scores(self, W: np.ndarray) -> np.ndarray:
        """(rows, classes), in the wider of the dtypes of X and W; W is (classes, features + 1)."""
        if self.is_narrow(W.T):
            found = np.empty((self.X.shape[0], 1))
            score_rows(self.dense(), W.reshape(-1), found.reshape(-1))
            return found
        return np.asarray(self.X @ W[:, :-1].T) + self.bias * W[:, -1]

    def products(self) -> np.ndarray:
        """(rows, rows): the inner products of the rows."""
        found = self.X @ self.X.T
        return np.asarray(found.toarray() if sp.issparse(found) else found) + self.bias**2

    def weighted_products(self, weight: np.ndarray) -> np.ndarray:
        """(features + 1, features + 1): sum_i weight_i x_i x_i', in float64, weights >= 0; rows of weight zero cost nothing."""
        X, d, least, most = self.X, self.X.shape[1], weight.min(initial=np.inf), weight.max(initial=0.0)
        if most == 0.0:
            return np.zeros((d + 1, d + 1))
        if least == 0.0:
            some = weight != 0.0
            X, weight = X[some], weight[some]
            least = weight.min()
        if least == most and X.dtype == np.float64 and not sp.issparse(X):
            return self.even_products(X, float(most))
        root = np.sqrt(weight)
        if sp.issparse(X) and X.nnz > DENSE_ABOVE * X.shape[0] * d:
            X = X.toarray()
        result = np.empty((d + 1, d + 1))
        if sp.issparse(X):
            scaled = X.multiply(root[:, None]).tocsr().astype(np.float64)
            result[:d, :d] = (scaled.T @ scaled).toarray()
        else:
            scaled = X * root[:, None]
            result[:d, :d] = scaled.T @ scaled  # a product with itself: NumPy computes half of it
        result[:d, d] = result[d, :d] = self.bias * (scaled.T @ root)
        result[d, d] = self.bias**2 * weight.sum()
        return result

    def even_products(self, X: np.ndarray, weight: float) -> np.ndarray:
        """The same of one weight: no copy of the rows is made."""
        d = X.shape[1]
        result = np.empty((d + 1, d + 1))
        result[:d, :d] = X.T @ X
        result[d] = result[:, d] = self.bias * RowBlock(X, self.bias, 0, X.shape[0]).combined(np.ones((X.shape[0], 1)))
        result *= weight
        return result

    def combined(self, duals: np.ndarray) -> np.ndarray:
        """(classes, features + 1): sum_i b_i x_i; duals are (rows, classes)."""
        if self.is_narrow(duals):
            sums = np.zeros((1, self.X.shape[1] + 1))
            sum_rows(self.dense(), duals.reshape(-1), sums.reshape(-1), 0, self.X.shape[0])
            return sums
        # Few rows times X take half as long as its columns times few. 7,291 x 196, ten classes, 2026-11-17.
        found = (self.X.T @ duals).T if sp.issparse(self.X) else duals.T @ self.X
        return np.concatenate([np.asarray(found), self.bias * duals.sum(axis=0)[:, None]], axis=1)


class Table(ABC):
    """Checked samples, never changed.

    Requires: every number finite, rows in the order of the samples.
    Ensures: `rows` and `blocks` speak of the same numbers.
    """

    def __init__(self) -> None:
        self._norms: list[tuple[np.ndarray | None, np.ndarray]] = []
        self._sum_of_squares: float | None = None

    @property
    @abstractmethod
    def rows(self) -> Any:
        """The named tuple that kernels read; the same object at every call."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(examples, features), without the bias."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype:
        """Of the numbers of X."""

    @property
    @abstractmethod
    def matrix(self) -> Any:
        """X as one array or CSR matrix."""

    @abstractmethod
    def like(self, X: Any) -> "Table":
        """A table of other rows, read in the same way."""

    @abstractmethod
    def blocks(self, size: int = BLOCK_SIZE) -> Iterator[RowBlock]:
        """All rows in order, `size` of them at a time."""

    def norms(self, variance: np.ndarray | None = None, n_jobs: int = 1) -> np.ndarray:
        """sum_j variance_j x_ij^2 of every row, the bias counted in; None stands for ones. Computed once."""
        for known, found in self._norms:
            if known is variance or (known is not None and variance is not None and np.array_equal(known, variance)):
                return found
        result = np.empty(self.shape[0])
        sizes = np.empty(0) if variance is None else variance
        in_threads(lambda span: rows.squared_norms(self.rows, sizes, result, span), spans(result.size, n_jobs), n_jobs)
        self._norms.append((variance, check_norms(result)))
        return result

    def sum_of_squares(self) -> float:
        """What `norms` adds up to, infinite where that overflows. Refuses the rows that it does. Computed once."""
        if self._sum_of_squares is None:
            found = np.inf if self._norms else self.squares_at_once()
            with np.errstate(over="ignore"):
                self._sum_of_squares = found if found < np.inf else float(self.norms().sum())
        return self._sum_of_squares

    def squares_at_once(self) -> float:
        """The same without the norms; infinite where it overflows or there is no such way."""
        return np.inf

    def column_sizes(self) -> np.ndarray | None:
        """The largest absolute value of each feature of the samples; None of rows that have no values of our kinds."""
        return rows.column_sizes(self.rows)

    def samples(self, which: np.ndarray) -> np.ndarray:
        """The samples that these rows are of, as their user numbers them."""
        return which

    def sizes_of_sums(self, sizes: np.ndarray) -> np.ndarray:
        """(classes, features + 1): sum_i |b_i| |x_i|; sizes |b| are (examples, classes)."""
        found = np.zeros((sizes.shape[1], self.shape[1] + 1))
        for block in self.blocks():
            part = RowBlock(abs(block.X), abs(block.bias), block.start, block.stop)
            found += part.combined(sizes[block.start : block.stop])
        return found


class MemoryTable(Table):
    """A C-ordered or CSR matrix in memory, not copied."""

    def __init__(self, X: Any, bias: float = 0.0, sparse_below: float = 0.0):
        super().__init__()
        self.X, self.bias, self.sparse_below = X, float(bias), sparse_below
        self._rows, self._shape = rows.rows(X, bias, sparse_below), (int(X.shape[0]), int(X.shape[1]))

    @property
    def rows(self) -> Any:
        return self._rows

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    @property
    def dtype(self) -> np.dtype:
        found: np.dtype = self.X.dtype
        return found

    def squares_at_once(self) -> float:
        values = getattr(self._rows, "values", None)
        if values is None or values.dtype != np.float64:
            return np.inf
        return float(inner_product(values, values)) + self.shape[0] * self.bias**2

    @property
    def matrix(self) -> Any:
        return self.X

    def like(self, X: Any) -> "MemoryTable":
        return MemoryTable(X, self.bias, self.sparse_below)

    def blocks(self, size: int = BLOCK_SIZE) -> Iterator[RowBlock]:
        for start in range(0, self.shape[0], size):
            stop = min(start + size, self.shape[0])
            yield RowBlock(self.X[start:stop], self.bias, start, stop)


@singledispatch
def table_of(X: Any, bias: float = 0.0, sparse_below: float = 0.0) -> Table:
    """The table of a validated matrix. `bias` is the constant feature that carries the intercept, 0 for none; a dense matrix with
    a smaller part of non-zeros than `sparse_below` is read by an index of them."""
    return MemoryTable(X, bias, sparse_below)


def of_own_kind(X: Any) -> bool:
    """Whether X is of a class that somebody registered with `table_of`: then it is taken as it is."""
    return table_of.dispatch(type(X)) is not table_of.dispatch(object)


def table_scores(X: Any, W: np.ndarray) -> np.ndarray:
    """The scores of such an X, block by block; W is (classes, features + 1), the intercepts last."""
    return np.concatenate([block.scores(W) for block in table_of(X, 1.0).blocks()])
