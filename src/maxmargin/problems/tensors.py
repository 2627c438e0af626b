"""Linear problems whose samples lie on a device: values from scratch, in float64, by blocks of rows.

    P(W) = 1/2 ||W||^2 + sum_i loss_i(x_i W)           the quadratic term in general: see regularizers
    D(A) = sum_i reward_i(A_i) - 1/2 ||V||^2,          V = sum_i A_i x_i

Weights are (scores, features + 1) arrays, (features + 1,) where an example has one score. Both values are made safe against
rounding (Higham 2002, section 3): with m terms of a sum and gamma_m = m eps / (1 - m eps)

    scores    float64: nothing is added. In float32, by `COLUMNS_A_SUM` columns that are added up in float64, each is off by at
              most gamma_m ||x_i|| max_k ||w_k||, and P is taken at the worst of them
    rewards   sums over n examples in float64: gamma_n times the sum of their absolute values is taken off D
    V         from the duals, in float64: off by e = gamma_n sum_i ||A_i|| ||x_i||, which takes ||W|| e + e^2 / 2 off D
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data.tensors import TensorDuals, TensorTable, brought, duals_from, library
from ..losses.tensor_rows import TensorLoss
from ..regularizers.base import Regularizer
from .base import PLAIN_TERM, Evaluated, Problem

COLUMNS_A_SUM = 64  # columns of a float32 sum. By the bound, 4e-6 of ||x|| ||w||, 2026-11-17.
TOGETHER_BYTES = 1 << 29  # of the float64 tables of a block. Nothing was measured, 2026-11-17.
WHOLE_DOUBLE = ((6, 0), (7, 0), (8, 0), (9, 0), (10, 0))  # GPUs whose float64 is half as fast as float32, or faster
EVEN = 32  # numbers: 128 bytes in float32
EPS64, EPS32 = 2.0**-53, 2.0**-24


def gamma(terms: int, eps: float) -> float:
    """What rounding does to a sum of so many terms, relatively to the sum of their absolute values."""
    return terms * eps / (1.0 - terms * eps)


@dataclass(frozen=True)
class TensorProblem(Problem):
    """A table on a device with a loss of blocks. `make_loss(cap)` gives the loss at caps on the device; it is a bound method of a
    dataclass, which pickles. `term`: of weights (scores, features + 1); R couples labels. `flat`: one score, weights are a
    vector and duals too."""

    table: TensorTable
    make_loss: Callable[[Any], TensorLoss]
    scores: int
    weight: Any  # on the device, in float64
    term: Regularizer = PLAIN_TERM
    R: np.ndarray | None = None
    flat: bool = False
    sparse: bool = False  # whether users get duals as a sparse matrix
    C: float = 1.0
    double: bool | None = None  # whether scores of certificates are float64; None: where the device is good at that

    @property
    def regularizer(self) -> Regularizer:
        return self.term

    @property
    def device(self) -> Any:
        return self.table.device

    @property
    def n_examples(self) -> int:
        return self.table.shape[0]

    @property
    def weight_shape(self) -> tuple[int, ...]:
        features = self.table.shape[1] + 1
        if self.R is not None:
            return 2, self.scores, features
        return (features,) if self.flat else (self.scores, features)

    @property
    def dual_shape(self) -> tuple[int, ...]:
        return (self.n_examples,) if self.flat else (self.n_examples, self.scores)

    @cached_property
    def loss(self) -> TensorLoss:
        return self.make_loss(self.cap)

    def put(self, array: Any, dtype: Any = None) -> Any:
        """An array on the device of the samples."""
        return brought(array, self.table.device, dtype)

    @cached_property
    def curvature(self) -> Any:
        """||x_i||^2 in the metric of the prior, on the device; where classes have priors of their own, the largest."""
        if self.term.variance is None:
            return self.table.squared_lengths()
        tables = np.unique(np.atleast_2d(self.term.variance), axis=0)
        return library().stack([self.table.squared_lengths(table) for table in tables]).amax(0)

    @cached_property
    def lengths(self) -> Any:
        """||x_i||, on the device."""
        return self.table.squared_lengths().sqrt()

    @property
    def block_rows(self) -> int:
        """How many rows values are computed of at a time."""
        fits = (TOGETHER_BYTES >> self.table.halved) // (8 * (self.table.shape[1] + 4 * self.scores))
        return max(min(fits, self.n_examples), 1)

    # ---- primal -------------------------------------------------------------------------------------------

    def primal(self, w: np.ndarray, n_jobs: int = 1) -> float:
        W = self.coefficients(w).reshape(self.scores, -1)
        if self.R is None:
            quadratic = self.term.penalty(w)
        else:
            quadratic = 0.5 * float(np.vdot(w[0], w[1]))
        return quadratic + self.risk(W)

    @property
    def by_double(self) -> bool:
        """Whether scores of certificates are float64."""
        if self.double is not None:
            return self.double
        if self.table.device.type != "cuda":
            return True
        return library().cuda.get_device_capability(self.table.device) in WHOLE_DOUBLE

    def risk(self, W: np.ndarray) -> float:
        """The sum of the losses at weights (scores, features + 1), safe against rounding."""
        total = 0.0
        for rows, _, S, error in self.scored(W):
            total = total + self.loss.value(rows, S, error)
        return float(total)

    def scored(self, W: np.ndarray) -> Iterator[tuple[Any, Any, Any, Any]]:
        """By blocks, in their order: the numbers of rows, what they hold, their scores in float64, and by how much these may be
        off (None: by the rounding of float64)."""
        torch, bias, weights = library(), self.table.bias, self.put(W, library().float64)
        turned = even_rows(weights[:, :-1].T)  # columns of scores side by side: GPUs are twice as fast then
        longest = float(np.sqrt(np.square(W).sum(axis=1).max()))
        for rows, X in self.table.visits(None, self.block_rows, torch.float64 if self.by_double else torch.float32):
            with full_float32():
                S = X @ turned if self.by_double else by_chunks(X, weights[:, :-1])
            error = None if self.by_double else (gamma(COLUMNS_A_SUM + 2, EPS32) * longest) * self.lengths[rows]
            if bias:  # by itself: with it a product takes twice as long
                S += bias * weights[:, -1]
            yield rows, X, S, error

    # ---- dual ---------------------------------------------------------------------------------------------

    def combined(self, duals: Any) -> tuple[Any, float, float, float]:
        """r = sum_i A_i x_i from duals made feasible, (scores, features + 1) in float64 on the device; their reward, the absolute
        values of its terms and sum_i ||A_i|| ||x_i||."""
        torch = library()
        r = even_rows(self.put(np.zeros((self.scores, self.table.shape[1] + 1))))
        sums = self.put(np.zeros(3))
        lengths, done = self.lengths, 0
        for rows, X in self.table.visits(None, self.block_rows, torch.float64):
            A, reward, terms = self.loss.repaired(rows, duals[done : done + len(rows)].to(self.device))
            done += len(rows)
            r[:, :-1].addmm_(A.T, X)
            r[:, -1] += self.table.bias * A.sum(0)
            sums += torch.stack([reward, terms, (A.norm(dim=1) * lengths[rows]).sum()])
        return (r, *sums.tolist())

    def evaluate(self, duals: Any) -> Evaluated:
        """The dual value of duals on the device or in host memory, a lower bound whatever rounding does, and the weights."""
        r, reward, terms, lengths = self.combined(duals)
        spread = gamma(self.n_examples, EPS64)
        array = r.cpu().numpy()
        if self.R is not None:
            Z = self.R @ array
            value, w, steep = -0.5 * float(np.vdot(array, Z)), np.stack([array, Z]), float(np.linalg.norm(self.R, 2))
            size = float(np.linalg.norm(Z))
        else:
            w = self.term.unclipped(array if not self.flat else array[0])
            value = self.term.dual(array if not self.flat else array[0], w)
            size = float(np.linalg.norm(self.term.weights(w)))
            steep = 1.0 if self.term.variance is None else float(np.max(self.term.variance))
        off = spread * lengths
        return Evaluated(reward + value - spread * terms - (size * off + 0.5 * steep * off * off), w)

    def repaired_blocks(self, duals: Any) -> Iterator[Any]:
        for start in range(0, self.n_examples, self.block_rows):
            rows = library().arange(start, min(start + self.block_rows, self.n_examples), device=self.table.device)
            yield self.loss.repaired(rows, duals[start : start + len(rows)].to(self.device))[0]

    def told(self, duals: Any) -> Any:
        if not isinstance(duals, TensorDuals):
            return duals
        parts = [block.cpu().numpy() for block in self.repaired_blocks(duals.tensor)]
        if self.sparse:
            return sp.csc_array(sp.vstack([sp.csr_array(part) for part in parts], format="csc"))
        found = np.concatenate(parts)
        return found[:, 0] if self.flat else found

    def feasible(self, w: np.ndarray) -> np.ndarray:
        return w if self.R is not None else self.term.weights(w)

    # ---- between runs ---------------------------------------------------------------------------------------

    def coefficients(self, w: np.ndarray) -> np.ndarray:
        return w if self.R is None else w[1]

    def resumed(self, duals, weights, data, kind):
        weights = self.fitting(weights)
        if weights is None or duals is None:
            return None, None
        if not isinstance(duals, TensorDuals):
            array = duals.toarray() if sp.issparse(duals) else np.asarray(duals)
            duals = duals_from(array.reshape(len(array), -1).copy())
        if duals.shape != (self.n_examples, self.scores):
            return None, None
        return duals, weights

    def outgrown(self, duals):
        return False

    def column_sizes(self):
        sizes = [block.X.abs().amax(0).double() for block in self.table.blocks(self.block_rows)]
        return library().stack(sizes).amax(0).cpu().numpy()

    def rounding(self, w, duals):
        return None


def even_rows(table: Any) -> Any:
    """A table whose rows begin on even places in memory, which matrix products on GPUs need to be fast."""
    rows, columns = table.shape
    found = table.new_zeros((rows, -(-columns // EVEN) * EVEN))[:, :columns]
    return found.copy_(table)


def by_chunks(X: Any, W: Any) -> Any:
    """X W' in float64 from float32 products of `COLUMNS_A_SUM` columns each. Rounding W to float32 is a rounding of each term."""
    total, narrow = 0.0, W.to(X.dtype)
    for start in range(0, X.shape[1], COLUMNS_A_SUM):
        part = slice(start, start + COLUMNS_A_SUM)
        total = total + (X[:, part] @ narrow[:, part].T).double()
    return total


class full_float32:  # noqa: N801 - used as a statement
    """While it lasts, float32 products on GPUs are float32, whatever the user has set."""

    precision = "highest"

    def __enter__(self) -> None:
        torch = library()
        self.before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(self.precision)

    def __exit__(self, *error: Any) -> None:
        library().set_float32_matmul_precision(self.before)


class coarse_float32(full_float32):  # noqa: N801
    """The same for products whose factors are rounded to eleven bits (tf32), where the GPU has units for that."""

    precision = "high"
