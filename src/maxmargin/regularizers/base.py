"""The Regularizer seam: the quadratic term of the objective and its conjugate.

    P(w) = penalty(w) + losses        D(b) = rewards + dual(r, v),    r = sum_i b_i x_i,  v = unclipped(r)

Weights have a shape of the regulariser's own (`shape`); scores use `scoring(w)`, (features + 1, ...) as kernels have it.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np


class Regularizer(ABC):
    """A quadratic term with its prior and signs. Immutable; arrays have the shape of the weights of one problem."""

    mean: np.ndarray | None = None
    variance: np.ndarray | None = None
    lower: np.ndarray | None = None
    moves = 1  # rows that `move_row` needs: the change of the duals
    belongs_to: float | None = None  # the only C at which this term is right; None: every C

    @property
    def plain(self) -> bool:
        """Whether it is 1/2 ||w||^2, over all w, in coordinates of the examples."""
        return self.moves == 1 and self.mean is self.variance is self.lower is None

    @property
    def coupling(self) -> np.ndarray | None:
        """R, where the duals of a label move the scores of others."""
        return None

    @abstractmethod
    def start(self, shape: tuple[int, ...]) -> np.ndarray:
        """v with all duals at zero."""

    @abstractmethod
    def unclipped(self, r: np.ndarray) -> np.ndarray:
        """v for r = sum_i b_i x_i."""

    @abstractmethod
    def summed(self, v: np.ndarray) -> np.ndarray:
        """r, of which this is `unclipped`."""

    @abstractmethod
    def weights(self, v: np.ndarray) -> np.ndarray:
        """The minimiser w of the Lagrangian at v."""

    @abstractmethod
    def penalty(self, w: np.ndarray) -> float:
        """The quadratic term at w, which must satisfy the signs."""

    @abstractmethod
    def dual(self, r: np.ndarray, v: np.ndarray) -> float:
        """What it contributes to the dual value: with any rewards of feasible duals, a lower bound on P."""

    @abstractmethod
    def space(self, v: np.ndarray, dtype: Any) -> Any:
        """The weights as a solver moves them, in the dtype of the iterations: see `spaces`."""

    @abstractmethod
    def put(self, v: np.ndarray, space: Any) -> None:
        """Let the weights of a solver be those at v."""

    def mended(self, w: np.ndarray) -> np.ndarray:
        """Weights from an average of what `spaces.averaged` gives."""
        return w

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the weights of a problem, from that of the weights that scores use."""
        return shape

    def scoring(self, w: np.ndarray) -> np.ndarray:
        """The weights that scores use."""
        return w

    def moved(self, w: np.ndarray) -> np.ndarray:
        """What the duals of examples add up to, in an array of the shape of the weights."""
        return w

    def loose(self, space: Any) -> Any:
        """The weights to move when scores are asked for only after `tie`."""
        return space

    def tie(self, space: Any) -> None:  # noqa: B027 - most have nothing to tie
        """Make the weights agree after moves of what `loose` gave."""
