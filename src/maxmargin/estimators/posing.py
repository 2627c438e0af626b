"""How the targets of samples become a problem. A posing holds no samples and pickles: sources are read with it as well."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ..data.indicators import class_bits
from ..data.table import Table
from ..losses.base import BinaryLoss, MulticlassLoss, MultilabelLoss, RegressionLoss
from ..problems.linear import BlockProblem, LinearProblem, ScalarProblem
from ..problems.multilabel import LabelGroup
from ..regularizers.base import Regularizer
from ..regularizers.half_spaces import HalfSpaces


class Posing(ABC):
    """What is common to all samples. `classes`: how many scores an example has; None where it has one that is no row."""

    @property
    @abstractmethod
    def classes(self) -> int | None: ...

    @abstractmethod
    def problem(
        self,
        table: Table,
        code: np.ndarray,
        weight: np.ndarray,
        regularizer: Regularizer,
        half_spaces: HalfSpaces | None,
    ) -> LinearProblem:
        """The problem of these samples at C = 1; `code` is what the estimator makes of y."""


def weighted(weight: np.ndarray, factors: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Weights of samples, times the factors of their classes."""
    return weight if np.all(factors == 1.0) else weight * factors.take(code)


@dataclass(frozen=True)
class TwoClasses(Posing):
    """Codes 0 and 1; `factors` are those of the classes on the weights."""

    loss: BinaryLoss
    cost: np.ndarray
    factors: np.ndarray

    classes = None

    def problem(self, table, code, weight, regularizer, half_spaces):
        target = np.array([-1.0, 1.0]).take(code), self.cost[[0, 1], [1, 0]].take(code)
        return ScalarProblem(table, self.loss, target, weighted(weight, self.factors, code), regularizer, half_spaces)


@dataclass(frozen=True)
class SeveralClasses(Posing):
    """Codes are the numbers of classes, each with a score of its own."""

    loss: MulticlassLoss
    cost: np.ndarray
    factors: np.ndarray

    @property
    def classes(self) -> int:
        return len(self.cost)

    def problem(self, table, code, weight, regularizer, half_spaces):
        return BlockProblem(table, code, weighted(weight, self.factors, code), self.cost, self.loss, regularizer, half_spaces)


@dataclass(frozen=True)
class EachAgainstRest(Posing):
    """Codes are the numbers of classes, each a label that a sample has or has not. The factor of a class is on the losses of that
    label in its own samples, as in LinearSVC."""

    loss: MultilabelLoss
    factors: np.ndarray

    @property
    def classes(self) -> int:
        return len(self.factors)

    def problem(self, table, code, weight, regularizer, half_spaces):
        ones = np.ones(self.classes)
        weights, margins = np.column_stack([ones, self.factors]), np.column_stack([ones, ones])
        labels = np.arange(self.classes)
        packed = class_bits(code, self.classes)
        return LabelGroup(table, weight, labels, packed, weights, margins, self.loss, prior=regularizer, half_spaces=half_spaces)


@dataclass(frozen=True)
class RealTargets(Posing):
    """Codes are the targets themselves."""

    loss: RegressionLoss

    classes = None

    def problem(self, table, code, weight, regularizer, half_spaces):
        return ScalarProblem(table, self.loss, (code,), weight, regularizer, half_spaces)


@dataclass(frozen=True)
class AllLabels(Posing):
    """Codes are labels as bytes: those that are present, and beside them those that are known."""

    loss: MultilabelLoss
    label_weight: np.ndarray
    margin: np.ndarray
    R: np.ndarray | None

    @property
    def classes(self) -> int:
        return len(self.margin)

    def problem(self, table, code, weight, regularizer, half_spaces):
        half = code.shape[1] // 2
        packed = np.ascontiguousarray(code[:, :half]), np.ascontiguousarray(code[:, half:])
        return LabelGroup(table, weight, np.arange(self.classes), packed, self.label_weight, self.margin, self.loss, self.R)
