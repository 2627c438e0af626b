"""Problems with a hidden choice for each sample: not convex, but a convex structured problem for every fixed choice.

    F(w) = 1/2 ||w||^2 + sum_i cap_i ( max_{y, z} [ Delta(y_i, y) + w . phi(x_i, y, z) ] - max_z w . phi(x_i, y_i, z) )

With z_i fixed in the last term the objective is convex, nowhere below F, and equal to F where z_i is the best choice for w
(Yu and Joachims 2009). For two classes F is that of Ramanan (2013), A.4; see structures/bags.py.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data import rows
from ..structures.encoded.bags import Bags, impute_all
from ..structures.encoded.binary_bags import BinaryBags
from ..structures.encoded.contract import new_scratch, weight_shape
from ..structures.encoded.processes import for_all_samples
from ..structures.latent import LatentStructure, Pairs, completed
from ..utils.threads import in_threads, spans, with_scratch
from .base import Problem
from .structured import SPANS, StructuredProblem

Solve = Callable[[StructuredProblem], np.ndarray]  # weights that are good enough to start from


class LatentProblem(Problem):
    """What the convex-concave procedure needs to know. Choices are whatever a problem makes of them."""

    @property
    def n_examples(self) -> int:
        return self.weight.size

    def primal(self, W: np.ndarray, n_jobs: int = 1) -> float:
        """F(W), which is not convex."""
        return self.completed(self.impute(W, n_jobs)).primal(W, n_jobs)

    @abstractmethod
    def initial(self, init: Any, random: np.random.Generator, solve: Solve) -> Any:
        """Choices to begin with."""

    @abstractmethod
    def impute(self, W: np.ndarray, n_jobs: int = 1) -> Any:
        """The best choice of each sample at these weights."""

    @abstractmethod
    def completed(self, choice: Any, before: StructuredProblem | None = None) -> StructuredProblem:
        """The convex problem with these choices fixed; `before` is an earlier one, whose knowledge may be used."""

    @abstractmethod
    def same(self, problem: StructuredProblem, other: StructuredProblem) -> bool:
        """Whether two completed problems have the same choices."""

    def tight(self, W: np.ndarray, before: StructuredProblem, n_jobs: int = 1) -> tuple[Any, StructuredProblem]:
        """The best choices at these weights and the convex problem with them, whose value there is F(W)."""
        choice = self.impute(W, n_jobs)
        return choice, self.completed(choice, before)


@dataclass(frozen=True)
class BagProblem(LatentProblem):
    """Bags of candidates; `matrix` are the candidates of all of them, below each other."""

    data: Bags | BinaryBags
    weight: np.ndarray
    matrix: Any
    C: float = 1.0

    @property
    def weight_shape(self):
        return weight_shape(self.data)

    def initial(self, init, random, solve):
        sizes = np.diff(self.data.start)
        if not isinstance(init, str):
            return np.asarray(init, np.int64)
        if init == "first":
            return np.zeros(sizes.size, np.int64)
        share = np.ones(self.matrix.shape[0]) if init == "mean" else random.exponential(size=self.matrix.shape[0])
        return self.impute(solve(self.averaged(share)))

    def averaged(self, share: np.ndarray) -> StructuredProblem:
        """The convex problem in which each sample has one candidate, an average of its bag. (A random candidate says so little
        that the minimum is often at zero, where the procedure rests.)"""
        count = np.diff(self.data.start)
        share = share / np.repeat(np.add.reduceat(share, self.data.start[:-1]), count)
        means = sp.csr_array((share, np.arange(share.size), self.data.start), shape=(count.size, share.size)) @ self.matrix
        means = sp.csr_array(means) if sp.issparse(means) else np.ascontiguousarray(means)
        table = rows.rows(means.astype(self.matrix.dtype, copy=False), float(self.data.X.bias))
        data = self.data._replace(X=table, start=np.arange(count.size + 1), choice=np.zeros(count.size, np.int64))
        return StructuredProblem(data, self.weight, self.C)

    def impute(self, W, n_jobs=1):
        choice = np.zeros(self.data.label.size, np.int64)

        def work(part: tuple[int, int], scratch: Any) -> None:
            impute_all(self.data, W, scratch, choice, *part)

        in_threads(with_scratch(lambda: new_scratch(self.data), work), spans(choice.size, SPANS), n_jobs)
        return choice

    def completed(self, choice, before=None):
        return StructuredProblem(self.data._replace(choice=choice), self.weight, self.C)

    def same(self, problem, other):
        fixed = self.data.label == 1 if isinstance(self.data, BinaryBags) else slice(None)  # of negatives nothing is fixed
        return bool(np.array_equal(problem.data.choice[fixed], other.data.choice[fixed]))


@dataclass(frozen=True)
class LatentStructuredProblem(LatentProblem):
    """Samples of a user's latent structure."""

    structure: LatentStructure
    X: list
    y: list
    weight: np.ndarray
    dim: int
    C: float = 1.0

    @property
    def weight_shape(self):
        return (self.dim,)

    def initial(self, init, random, solve):
        if not isinstance(init, str):
            return list(init)
        return self.impute(random.normal(size=self.dim) if init == "random" else np.zeros(self.dim))

    def impute(self, W, n_jobs=1):
        return for_all_samples(self.structure, "impute", W, list(zip(self.X, self.y, strict=True)), n_jobs)

    def completed(self, choice, before=None):
        if before is not None:
            return StructuredProblem(before.data.with_hidden(choice), self.weight, self.C)
        pairs = list(zip(self.y, choice, strict=True))
        return StructuredProblem(Pairs(completed(self.structure), self.X, pairs), self.weight, self.C)

    def same(self, problem, other):
        return problem.data.alike(other.data)

    def tight(self, W, before, n_jobs=1):
        choice, problem = super().tight(W, before, n_jobs)
        problem.data.check_imputed(before.data, W)
        return choice, problem
