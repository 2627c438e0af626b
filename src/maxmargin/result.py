"""What a solver returns: weights, a certificate, and how it got there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

import numpy as np

TINY = float(np.finfo(np.float64).tiny)
ALL_SMALLER = "Scale the features and targets, or lower C."
DUAL_OVERFLOWS = f"The dual value overflows: the numbers are too large for float64. {ALL_SMALLER}"


@dataclass(frozen=True)
class Certificate:
    """A proof of how good a model is: dual <= optimum <= primal, both computed in float64 and not estimated.

    primal : the objective at the returned weights, by a full pass over the data
    dual : the dual objective at the stored dual variables, a lower bound on the optimum
    gap, relative_gap : primal - dual, and that divided by |primal|
    converged : relative_gap <= tol was reached
    verified : the primal value covers every example (always so for data in memory, but not in `partial_fit` once examples were
        forgotten or their duals frozen, as those of a `fit` are; where no value was computed, it is infinite), and
        the problem is convex (a kernel may be found not to be positive semidefinite: then the values are those of a stationary
        point and prove nothing)
    message : how the run ended, in a sentence

    Sums of float64 numbers are rounded: at an optimum that is met exactly the dual value may lie above the primal one in the last
    digit, and is reported as it is. A dual value that overflows bounds nothing: ValueError.
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    converged: bool
    verified: bool
    message: str

    def __post_init__(self) -> None:
        if not (self.dual < np.inf and self.primal > -np.inf):  # NaN too
            raise ValueError(DUAL_OVERFLOWS)

    def __str__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return (
            f"{state}: primal {self.primal:.9g}, dual {self.dual:.9g}, "
            f"gap {self.gap:.3g} ({100 * self.relative_gap:.3g} % of the primal). {self.message}"
        )


def relative(primal: float, dual: float) -> float:
    """The gap as a part of |primal|; zero where both are zero, infinite where the primal value is not known."""
    if primal == np.inf:
        return np.inf
    return (primal - dual) / max(abs(primal), TINY)


class Record(NamedTuple):
    """One exact evaluation during a run."""

    iteration: int
    seconds: float
    primal: float
    dual: float
    gap: float


class History(Sequence[Record]):
    """The exact evaluations of a run, in order. `seconds` counts from the start of the solver, as `max_time` does: without
    the time in which kernels are compiled. `methods` says who was at work: (first iteration, name), in order;
    where labels are solved in groups, from the first iteration of any of them on."""

    def __init__(self, records: Sequence[Record] = ()):
        self._records = list(records)
        self.methods: list[tuple[int, str]] = []

    def taken_up(self, iteration: int, method: str) -> None:
        """Note that this method goes on from here."""
        if method and (not self.methods or self.methods[-1][1] != method):
            self.methods.append((iteration, method))

    def append(self, record: Record) -> None:
        self._records.append(record)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index):
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"History({len(self)} records" + (f", last {self._records[-1]})" if self._records else ")")


@dataclass(frozen=True)
class Result:
    """The outcome of a solver. `w` has the layout of the problem; `duals` are those whose value the certificate states.

    `oracle_calls` counts the calls of the max- or sum-oracle during the iterations of structured solvers; None elsewhere.
    `statistics` are further numbers of the solver, by name: see its documentation. `state` is what the same run can go on from
    towards a finer gap, where somebody has asked for that. `at_duals`: the dual value of the duals and the unclipped weights they
    stand for, as `evaluate` of the problem gives them (of labels in groups a list, with the labels of each group); None where the
    solver has no duals.
    """

    w: Any
    certificate: Certificate
    history: History
    message: str
    n_iter: int
    duals: Any
    oracle_calls: int | None = None
    statistics: dict[str, float] = field(default_factory=dict)
    state: dict[str, Any] | None = None
    at_duals: Any = None
