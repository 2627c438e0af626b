"""Labels that have nothing in common but the samples: one run a label, in step, and one certificate of their sum.

A label that has reached its part of the target rests; should the sum not have, all go on to a tenth of it. The exact values of a
label are asked for when its own estimate says that it may rest, those of the sum when all do.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...jit import vectors
from ...problems.base import Evaluated
from ...problems.multilabel import LabelGroup, label_problem
from ...utils.state import RunState, beneath
from ..base import Run, Setting, Start
from .run import ScalarShape, SecondOrderRun
from .sample_systems import system_of
from .scalar import scalar_run

CLOSER = 0.5  # part of the target that a label is brought to, since weights and duals of all are weighed together
FURTHER = 0.1  # of its target, where all labels have reached theirs and the sum has not


class LabelRuns(Run):
    """All labels of a group."""

    problem: LabelGroup
    continues = True

    def __init__(self, problem: LabelGroup, start: Start, setting: Setting):
        self.problem, self.tol, self.average = problem, setting.tol, setting.average
        self.passes = self.visits = 0
        self.warm = start.duals is not None or start.weights is not None
        classes = problem.n_classes
        duals = [None] * classes if start.duals is None else list(np.asarray(start.duals, np.float64).T.copy())
        weights = [None] * classes if start.weights is None else list(vectors.to_classes(start.weights, classes))
        near = Setting(CLOSER * setting.tol, setting.seed, setting.n_jobs, setting.average, setting.stop)
        self.runs: list[SecondOrderRun] = []
        single = problem.loss.single
        same = single is not None and single.parabolic  # of all labels, where they have the same weights
        self.system = system_of(problem.table, problem.half_spaces is None, same)
        for k in range(classes):
            shape = ScalarShape(label_problem(problem, k))
            self.runs.append(scalar_run(shape, Start(duals[k], weights[k]), near))
            self.runs[k].share(self.system)  # one matrix at a time
        self.points = np.concatenate([run.W for run in self.runs])
        self.primals, self.resting = np.full(classes, np.inf), np.zeros(classes, bool)
        self.gaps = np.full(classes, np.inf)
        self.evaluate()

    held = (*Run.held, "points", "primals", "resting", "gaps", "stuck")

    def advance(self, stop: Callable[[], bool]) -> float:
        self.passes += 1
        if self.resting.all():
            self.resting[:] = False
            for run in self.runs:
                run.tol *= FURTHER
        for k in np.flatnonzero(~self.resting).tolist():
            if stop():
                break
            run = self.runs[k]
            self.gaps[k] = run.advance(stop)
            if run.exact or self.gaps[k] <= run.tol * abs(run.dual):
                self.look(k)
        self.visits = sum(run.visits for run in self.runs) // max(len(self.runs), 1)
        self.stuck, self.hidden = all(run.stuck for run in self.runs), any(run.hidden for run in self.runs)
        self.exact = bool(self.resting.all())
        self.dual = sum(run.dual for run in self.runs)
        return float(self.gaps.sum())

    def look(self, k: int) -> None:
        """The exact values of a label: keep its best weights, and see whether it may rest."""
        run = self.runs[k]
        run.synchronise()
        for w in run.candidates():
            found = run.problem.primal(w)
            if found < self.primals[k]:
                self.primals[k], self.points[k] = found, w
        self.gaps[k] = self.primals[k] - run.dual
        self.resting[k] = run.stuck or self.gaps[k] <= run.tol * abs(self.primals[k])

    def evaluate(self) -> None:
        """The exact values of all labels together."""
        duals = vectors.table(vectors.pack(self.left(), np.float64))
        sides = [run.side_duals for run in self.runs]
        walls = None
        if self.problem.half_spaces is not None:
            rows = [np.zeros(self.problem.half_spaces.count) if side is None else side for side in sides]
            walls = vectors.table(vectors.pack(np.column_stack(rows), np.float64))
        self.dual, self.v = self.problem.evaluate(duals, walls)

    def synchronise(self) -> float:
        for k in np.flatnonzero(~self.resting).tolist():
            self.look(k)
        self.evaluate()
        return self.dual

    def candidates(self) -> list[np.ndarray]:
        found = [self.v, vectors.from_classes(self.points, np.float64)] if self.average else [self.v]
        return [self.problem.feasible(self.problem.regularizer.weights(w)) for w in found]

    def at_duals(self) -> Evaluated:
        return Evaluated(self.dual, self.v) if self.problem.half_spaces is None else self.problem.reevaluated(self.left())

    def left(self) -> np.ndarray:
        return np.column_stack([run.left() for run in self.runs])

    def snapshot(self) -> RunState:
        found = super().snapshot()
        for k, run in enumerate(self.runs):
            found |= {f"label{k}.{name}": value for name, value in (run.snapshot() | {"tol": run.tol}).items()}
        return found

    def resume(self, state: Mapping[str, Any]) -> None:
        super().resume(state)
        for k, run in enumerate(self.runs):
            own = beneath(state, f"label{k}")
            run.tol = own.pop("tol")
            run.resume(own)
