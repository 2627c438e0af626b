"""What holds after every step of a second-order run."""

import numpy as np

import maxmargin as mm
from maxmargin.solvers.base import NOWHERE, Setting


def check_steps(problem, rounding: float, steps: int = 6) -> None:
    """Duals are feasible and their value is that of a computation from scratch; no primal value is below it."""
    run = mm.Newton().begin(problem, NOWHERE, Setting(1e-6))
    for _ in range(steps):
        run.advance(lambda: False)
        dual = run.synchronise()
        np.testing.assert_array_equal(problem.clipped(run.left()), run.left())
        assert problem.reevaluated(run.left()).dual == dual
        for w in run.candidates():
            assert problem.primal(w) >= dual - rounding * abs(dual)
