"""Every solver on every kind of problem: one optimum, and each certificate holds against each other one."""

import pickle
from functools import cache

import numpy as np
import pytest
from helpers.every_problem import LOSSES, NAMES, C, K, N, X, problem_of, rng
from sklearn.base import clone

import maxmargin as mm
from maxmargin import solvers
from maxmargin.data.table import table_of
from maxmargin.result import History
from maxmargin.solvers.base import WarmStart
from maxmargin.solvers.loop import Budget

TOL = 1e-3


@cache
def solution(name: str, kind: type) -> mm.Result:
    return solvers.solution_of(kind(), problem_of(name), Budget(tol=TOL), History(), seed=1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", solvers.ALL, ids=lambda kind: kind.__name__)
def test_every_certificate_holds_against_every_other(name, kind):
    problem = problem_of(name)
    if (reason := kind().serves(problem)) is not None:
        assert reason.endswith(".")
        pytest.skip(reason)
    found = solution(name, kind)
    assert found.certificate.converged and found.certificate.verified
    others = [other for other in solvers.ALL if other().serves(problem) is None]
    for other in others[: others.index(kind)]:
        bounds = solution(name, other).certificate
        slack = 1e-9 * abs(bounds.primal)
        assert bounds.dual <= found.certificate.primal + slack and found.certificate.dual <= bounds.primal + slack


@pytest.mark.parametrize("name", NAMES)
def test_somebody_serves(name):
    assert any(kind().serves(problem_of(name)) is None for kind in solvers.ALL)


@pytest.mark.parametrize("name", NAMES)
def test_problems_pickle_and_share_what_is_known_at_another_c(name):
    problem = problem_of(name)
    again = pickle.loads(pickle.dumps(problem))
    other = problem.at(2.0 * C)
    assert type(again) is type(problem) and again.C == problem.C == C and other.C == 2.0 * C
    assert other.origin is problem.origin and problem.at(C).origin is problem.origin
    if name != "stream":
        np.testing.assert_array_equal(other.cap, 2.0 * problem.cap)
        np.testing.assert_array_equal(again.weight, problem.weight)
    if name in LOSSES:
        assert other.table is problem.table and other.table.norms() is problem.table.norms()


@pytest.mark.parametrize(
    "name", ["HingeLoss", "CrammerSingerLoss", "Chain", "kernel", "kernel blocks", "kernel rows", "explicit"]
)
def test_a_start_from_the_optimum_ends_at_once(name):
    problem = problem_of(name)
    for kind in solvers.ALL:
        if kind().serves(problem) is None and kind.__name__ not in ("OnlineDual",):
            found = solution(name, kind)
            start = WarmStart.of(problem, kind(), found).fits(problem.at(C), kind())
            again = solvers.solution_of(kind(), problem.at(C), Budget(tol=TOL), History(), start=start, seed=1)
            assert again.certificate.converged and again.n_iter <= 2, kind
            assert again.certificate.primal == pytest.approx(found.certificate.primal, rel=2 * TOL)


@pytest.mark.parametrize("kind", solvers.ALL, ids=lambda kind: kind.__name__)
def test_solvers_are_their_parameters(kind):
    assert clone(kind()).get_params() == kind().get_params()
    kind().check()


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_descriptions(name):
    kind = LOSSES[name]
    assert clone(kind()).get_params() == kind().get_params()
    assert all(isinstance(flag, bool) for flag in (kind().steep, kind().precise, kind().margins, kind().quadratic))


def test_blocks_of_a_table_say_what_its_rows_say():
    W, B = rng.normal(size=(K, 5)), rng.normal(size=(N, K))
    table = table_of(X, 2.0)
    full = np.column_stack([X, np.full(N, 2.0)])
    blocks = list(table.blocks(7))
    assert [block.stop - block.start for block in blocks] == [7, 7, 7, 7, 2]
    np.testing.assert_allclose(np.concatenate([block.scores(W) for block in blocks]), full @ W.T)
    np.testing.assert_allclose(sum(block.combined(B[block.start : block.stop]) for block in blocks), B.T @ full)
    np.testing.assert_allclose(np.concatenate([np.diag(block.products()) for block in blocks]), table.norms())
