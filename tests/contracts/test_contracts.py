"""Every solver on every kind of problem: one optimum, and each certificate holds against each other one."""

import pickle
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

import maxmargin as mm
from maxmargin import losses, solvers, structures
from maxmargin.data.gram import function_of, gram_of
from maxmargin.data.indicators import checked_labels
from maxmargin.data.table import table_of
from maxmargin.problems.base import Problem
from maxmargin.problems.blocked import streamed
from maxmargin.problems.kernel import KernelMultilabelProblem
from maxmargin.problems.linear import BlockProblem, ScalarProblem
from maxmargin.problems.multilabel import MultilabelProblem
from maxmargin.problems.structured import StructuredProblem
from maxmargin.result import History
from maxmargin.solvers.base import WarmStart
from maxmargin.solvers.loop import Budget

TOL, C = 1e-3, 0.3
rng = np.random.default_rng(5)
N, K = 30, 3
X = rng.normal(size=(N, 4))
SCORES = X @ rng.normal(size=(4, K)) + 0.3 * rng.normal(size=(N, K))
WEIGHT = rng.integers(0, 4, N).astype(float)
LABEL, SIGN = SCORES.argmax(axis=1), np.where(SCORES[:, 0] > 0, 1.0, -1.0)
TABLE, COST = table_of(X, 1.0), 1.0 - np.eye(K)


def of_loss(kind: type) -> Problem:
    """A small problem with this loss, at C = 1."""
    if issubclass(kind, losses.BinaryLoss):
        return ScalarProblem(TABLE, kind(), (SIGN, np.ones(N)), WEIGHT)
    if issubclass(kind, losses.RegressionLoss):
        return ScalarProblem(TABLE, kind(0.1), (SCORES[:, 0],), WEIGHT)
    if issubclass(kind, losses.MulticlassLoss):
        return BlockProblem(TABLE, LABEL, WEIGHT, COST, kind(2) if "k" in kind().get_params() else kind())
    columns = checked_labels((SCORES > 0).astype(int)).columns
    return MultilabelProblem(TABLE, columns, WEIGHT, np.ones((K, 2)), np.ones((K, 2)), kind())


def samples_of(kind: type) -> tuple[structures.Structure, list, list]:
    """A structure with a few samples."""
    if kind is structures.Multiclass:
        return kind(), list(X), list(LABEL)
    if kind is structures.Chain:
        return kind(), [X[k : k + 3] for k in range(0, N, 3)], [LABEL[k : k + 3] for k in range(0, N, 3)]
    if kind is structures.Tree:
        edges = np.array([[0, 1], [0, 2]])
        return kind(), [(X[k : k + 3], edges) for k in range(0, N, 3)], [LABEL[k : k + 3] for k in range(0, N, 3)]
    if kind is structures.Graph:
        edges = np.array([[0, 1], [1, 2], [2, 0]])
        return kind(), [(X[k : k + 3], edges) for k in range(0, N, 3)], [LABEL[k : k + 3] for k in range(0, N, 3)]
    if kind is structures.Segmentation:
        lines = [X[k : k + 5] for k in range(0, N, 5)]
        return kind(), lines, [[(0, 2, int(line[0, 0] > 0)), (2, 5, int(line[2, 0] > 0))] for line in lines]
    pictures = [rng.normal(size=(3, 4, 2)) for _ in range(6)]
    return kind(2), pictures, [[(1, 1), (1, 2)]] * 6


@cache
def problem_of(name: str) -> Problem:
    if name in LOSSES:
        return of_loss(LOSSES[name]).at(C)
    if name in STRUCTURES:
        structure, samples, outputs = samples_of(STRUCTURES[name])
        structure.size(samples, outputs)
        return StructuredProblem(structure.encode(samples, outputs), np.ones(len(samples))).at(C)
    if name == "explicit":
        return mm.ExplicitProblem(X, rng.uniform(0, 1, N), np.arange(N) // 3).posed.at(C)
    if name == "kernel":
        sign = np.where(SCORES.T > 0, 1.0, -1.0).ravel()
        gram = gram_of(function_of("rbf", 0.3, 3, 0.0), X)
        return KernelMultilabelProblem(gram, losses.HingeLoss(), sign, np.ones(K * N), np.tile(WEIGHT, K), np.eye(K), 1.0).at(C)
    return streamed(of_loss(losses.HingeLoss)).at(C)


LOSSES = {kind.__name__: kind for kind in losses.ALL}
STRUCTURES = {kind.__name__: kind for kind in structures.ALL}
NAMES = [*LOSSES, *STRUCTURES, "explicit", "kernel", "stream"]


@cache
def solution(name: str, kind: type) -> mm.Result:
    return solvers.solution_of(kind(), problem_of(name), Budget(tol=TOL), History(), seed=1)


@pytest.mark.compiled
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


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["HingeLoss", "CrammerSingerLoss", "Chain", "kernel", "explicit"])
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
    assert clone(kind()).get_params() == kind().get_params() and isinstance(kind().steep, bool)


def test_blocks_of_a_table_say_what_its_rows_say():
    W, B = rng.normal(size=(K, 5)), rng.normal(size=(N, K))
    table = table_of(X, 2.0)
    full = np.column_stack([X, np.full(N, 2.0)])
    blocks = list(table.blocks(7))
    assert [block.stop - block.start for block in blocks] == [7, 7, 7, 7, 2]
    np.testing.assert_allclose(np.concatenate([block.scores(W) for block in blocks]), full @ W.T)
    np.testing.assert_allclose(sum(block.combined(B[block.start : block.stop]) for block in blocks), B.T @ full)
    np.testing.assert_allclose(np.concatenate([np.diag(block.products()) for block in blocks]), table.norms())
