"""Runs whose exact values come one pass late: each pass proves the state in which it began, while it goes on from there."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base import Run


class LateRun(Run, ABC):
    """A run over data that are read. `proof` has `weights`, their `primals` and the `dual` value, of one state."""

    held = (*Run.held, "reads")  # not the proof: the next pass makes another
    warm = False
    late = True

    def __init__(self, problem, options, verify: bool):
        self.problem, self.options, self.verify, self.average = problem, options, verify, options.average
        self.passes = self.visits = self.reads = 0
        self.proof: Any = None  # of the state at the beginning of the last pass, once that is complete

    @property
    def exact(self) -> bool:  # type: ignore[override]  # it comes and goes
        return self.proof is not None

    def synchronise(self) -> float:
        return self.proof.dual

    def candidates(self) -> list[np.ndarray]:
        """The weights that were verified, those of the duals first; before any were, the weights as they stand."""
        return self.proof.weights if self.exact else self.offers()[:1]

    def primal(self, w: np.ndarray, n_jobs: int) -> float:
        return next(value for value, own in zip(self.proof.primals, self.proof.weights, strict=True) if own is w)

    def advance(self, stop: Callable[[], bool]) -> float:
        """A pass that trains, and from the second on verifies what the pass before has reached."""
        self.read(stop, train=True, verify=self.passes > 0 and self.options.average)
        if not self.options.average and not stop():  # the duals kept must be those that are proved
            self.read(stop, train=False, verify=True)
        self.passes += 1
        return np.inf

    def conclude(self, stop: Callable[[], bool]) -> None:
        """Verify the state as it stands, in a pass that does not train."""
        if self.verify and self.options.average and not stop():
            self.read(stop, train=False, verify=True)

    def statistics(self) -> dict[str, float]:
        return {"reads": float(self.reads), "visits": float(self.visits)}

    def left(self) -> Any:
        return None

    @abstractmethod
    def offers(self) -> list[np.ndarray]:
        """Weights whose primal value might be good: those of the duals, then their average over the last pass."""

    @abstractmethod
    def read(self, stop: Callable[[], bool], *, train: bool, verify: bool) -> None:
        """A pass over the data; sets `proof` if it verified and was not stopped."""
