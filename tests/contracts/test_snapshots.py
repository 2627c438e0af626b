"""A run that resumes the snapshot of another goes on in the same way."""

import numpy as np
import pytest
from helpers.every_problem import problem_of

import maxmargin as mm
from maxmargin.solvers.base import NOWHERE, Setting

SOLVERS = {
    "dual coordinate": mm.DualCoordinate(),
    "pairwise": mm.FrankWolfe(),
    "plain": mm.FrankWolfe(steps="plain"),
    "linearization": mm.PartialLinearization(),
    "bundle": mm.Bundle(),
}
CASES = [
    *((name, "dual coordinate") for name in ("HingeLoss", "CrammerSingerLoss", "TopKAlphaLoss", "explicit", "kernel", "Chain")),
    *(("Chain", solver) for solver in ("pairwise", "plain", "linearization", "bundle")),
    ("CrammerSingerLoss", "bundle"),
    ("LogisticLoss", "dual coordinate"),
    ("MultinomialLoss", "dual coordinate"),
]


def go(run, passes):
    for _ in range(passes):
        run.advance(lambda: False)
        run.accelerate()


@pytest.mark.parametrize(("name", "solver"), CASES)
def test_a_resumed_run_goes_on(name, solver):
    """To the last digit, whatever was resumed: seven passes, then five more by the same run and by another."""
    problem, solver = problem_of(name), SOLVERS[solver]
    solver.check()
    first, second = (solver.begin(problem, NOWHERE, Setting(1e-9, seed)) for seed in (1, 2))
    go(first, 7)
    state = first.snapshot()
    assert all(isinstance(value, np.ndarray | np.generic | float | int | str) for value in state.values())
    kept = {key: np.array(value) for key, value in state.items()}
    second.resume(state)
    go(first, 5)
    go(second, 5)
    assert first.passes == second.passes == 12 and first.visits == second.visits
    assert first.synchronise() == second.synchronise()
    for one, two in zip(first.candidates(), second.candidates(), strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, two)
    for key, value in kept.items():
        np.testing.assert_array_equal(state[key], value, err_msg=f"{key} was changed by the run")


def test_what_has_no_snapshot_says_so():
    run = mm.OnlineDual().begin(problem_of("stream"), NOWHERE, Setting())
    with pytest.raises(TypeError, match="no snapshot yet"):
        run.snapshot()
    run.close()
