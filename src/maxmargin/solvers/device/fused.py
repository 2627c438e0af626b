"""How the rows of a block step: by operations on whole tables, or by one kernel that reads a row of scores once.

The kernels are Triton's, which comes with PyTorch for GPUs; where there are none, plain operations do the same.
"""

from dataclasses import dataclass
from typing import Any

from ...losses.tensor_rows import BlockStep, TensorLoss


@dataclass(eq=False)
class Rows:
    """The rows of all examples: their loss, and their duals A, which `add` moves."""

    loss: TensorLoss
    A: Any

    def step(self, rows: Any, S: Any, q: Any) -> BlockStep:
        """What these rows would do alone."""
        return self.loss.step(rows, S, self.A[rows], q)

    def add(self, rows: Any, change: Any, t: Any) -> None:
        """A += t change in these rows; t is a number, or one for each score."""
        self.A.index_add_(0, rows, change * t)


def rows_of(loss: TensorLoss, A: Any) -> Rows:
    """The fastest way that this loss and this device have."""
    return Rows(loss, A)
