"""Sums over more rows than one piece holds, against NumPy; and iterations that go on in float64 when float32 stalls."""

import numpy as np
import pytest

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.losses import EpsilonInsensitiveLoss, HingeLoss
from maxmargin.problems.linear import CHUNK, BlockProblem, ScalarProblem
from maxmargin.result import History
from maxmargin.solvers.ascent.linear import AscentOptions, BlockAscent, ScalarAscent
from maxmargin.solvers.loop import Budget, drive

C = 0.01


def losses_of(kind: str, Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The loss of each row, from its scores."""
    if kind == "regression":
        return np.maximum(0.0, np.abs(y - Z) - 0.1)
    if kind == "binary":
        return np.maximum(0.0, 1.0 - y * Z)
    rest = Z + 1.0
    rest[np.arange(len(y)), y] -= 1.0
    return rest.max(axis=1) - Z[np.arange(len(y)), y]


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_more_rows_than_a_piece(kind):
    """P at the returned weights, in NumPy, on one thread and on two: every row once."""
    rng, n = np.random.default_rng(0), 2 * CHUNK + 1234
    X = rng.normal(size=(n, 4)) * np.linspace(0.5, 3.0, n)[:, None]  # no two pieces weigh the same
    Z = X @ rng.normal(size=(4, 3)) + rng.normal(size=(n, 3))
    y = {"binary": np.sign(Z[:, 0]), "multiclass": Z.argmax(axis=1), "regression": Z[:, 0]}[kind]
    make = mm.SVMRegressor if kind == "regression" else mm.SVMClassifier
    extra = {"loss": "epsilon_insensitive", "epsilon": 0.1} if kind == "regression" else {}
    one, two = (make(C=C, tol=1e-3, random_state=0, n_jobs=n_jobs, **extra).fit(X, y) for n_jobs in (1, 2))
    for model in (one, two):
        W, b = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
        scores = X @ W.T + b if kind == "multiclass" else X @ W[0] + b[0]
        primal = 0.5 * np.sum(W**2) + 0.5 * np.sum(b**2) + C * losses_of(kind, scores, y).sum()
        assert model.certificate_.primal == pytest.approx(primal, rel=1e-12) and model.certificate_.converged


def stalling_run(kind: str):
    """A run in float32, though the target is far below what float32 can tell apart."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 4)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] + rng.normal(size=120) > 0).astype(np.int64)
    options = AscentOptions(1e-10, 0, np.float32)
    if kind == "rows":
        return BlockAscent(
            BlockProblem(table_of(X.astype(np.float64), 1.0), y, np.full(120, 0.5), 1.0 - np.eye(2)), None, options
        )
    target = 2.0 * y - 1.0, np.ones(120)
    return ScalarAscent(ScalarProblem(table_of(X, 1.0), HingeLoss(), target, np.full(120, 0.5)), None, options)


@pytest.mark.parametrize("kind", ["rows", "scalar"])
def test_stalled_float32_goes_on_in_float64(kind):
    run = stalling_run(kind)
    for _ in range(5):
        run.advance(lambda: False)
    before, passes = run.synchronise(), run.passes
    run.refine()
    assert run.dtype == run.space.w.dtype == np.float64 and run.passes == passes
    assert run.dual == pytest.approx(before, rel=1e-12)  # nothing learned is lost
    run = stalling_run(kind)
    assert run.dtype == run.space.w.dtype == np.float32
    result = drive(run, Budget(tol=1e-10, max_iter=3000), History())
    assert run.dtype == np.float64 and result.certificate.converged


# ---- what rounding does where losses have kinks ----------------------------------------------------------------


def test_examples_at_a_kink_are_unsettled_by_rounding():
    """One with a residual of zero has a loss of cap times the rounding of its score; one beside has what its slope says."""
    X, w, cap = np.array([[3.0, -5.0, 0.5], [2.0, 1.0, -1.0]]), np.array([0.75, 0.25, -1.125]), np.array([1e4, 1e3])  # exact
    term = np.finfo(float).eps * np.linalg.norm(X * w, axis=1)
    for off, wanted in ((np.zeros(2), cap @ term), (np.array([0.0, 1.0]), cap[0] * term[0]), (np.ones(2), 0.0)):
        problem = ScalarProblem(table_of(X, 0.0), EpsilonInsensitiveLoss(0.0), (X @ w + off,), cap)
        found = problem.unsettled(np.append(w, 0.0))
        assert 0.5 * wanted <= found <= 8.0 * wanted + 1e-11
