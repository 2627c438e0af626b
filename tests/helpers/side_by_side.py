"""Runs of several threads side by side on small problems, and what must hold of them."""

import numpy as np
import pytest

from maxmargin import losses
from maxmargin.data.indicators import checked_labels
from maxmargin.data.table import table_of
from maxmargin.problems.linear import BlockProblem, ScalarProblem
from maxmargin.problems.multilabel import MultilabelProblem
from maxmargin.regularizers.prior import Prior
from maxmargin.result import History, relative
from maxmargin.solvers.ascent.linear import AscentOptions, ScalarAscent
from maxmargin.solvers.ascent.parted import PartedRows, PartedScalars
from maxmargin.solvers.ascent.parted_blocks import PartedBlocks
from maxmargin.solvers.ascent.tuning import ASCENT, PartTuning
from maxmargin.solvers.loop import Budget, drive
from maxmargin.solvers.polish.tuning import POLISH

from . import drawn

D, K = 5, 4
# Threads everywhere.
EAGER = PartTuning(order=0.0, thread=0.0, weight=0.0, pair=1e-30, most=4, fewest=1, longest=1.0, gain=0.0)
PASSES_ALONE = POLISH._replace(first=10**9, later=10**9)
SCALARS = {
    "hinge": losses.HingeLoss(),
    "squared_hinge": losses.SquaredHingeLoss(),
    "epsilon": losses.EpsilonInsensitiveLoss(),
    "log": losses.LogisticLoss(),
}
ROWS = {"crammer_singer": losses.CrammerSingerLoss(), "alpha": losses.TopKAlphaLoss(2, smoothing=0.5)}
PRIORS = {
    "none": lambda rng: Prior(),
    "prior": lambda rng: Prior(mean=rng.normal(size=D), scale=np.exp(rng.uniform(-1.0, 1.0, D))),
    "signs": lambda rng: Prior(positive=np.arange(D) % 2 == 0, mean=rng.normal(size=D)),
}


def problem_of(name, seed, prior="none", n=40, C=0.5, form=np.asarray):
    """A random problem of uneven columns, equal rows, a row of zeros and weights of zero."""
    rng = np.random.default_rng(seed)
    X, weight = drawn.features(rng, n, D), drawn.weights(rng, n)
    if name.startswith("labels"):
        Y, ones = (X @ rng.normal(size=(D, K)) + rng.normal(size=(n, K)) > 0.0).astype(int), np.ones((K, 2))
        Y[:2] = np.array([[0], [1]])
        root = rng.normal(size=(K, K))
        R = root @ root.T / K + 0.2 * np.eye(K) if name == "labels coupled" else None
        table, loss = table_of(form(X), 0.7), losses.MultilabelHingeLoss()
        return MultilabelProblem(table, checked_labels(Y).columns, weight, ones, ones, loss, R).at(C).whole()
    classes = None if name in SCALARS else K
    turned, regularizer, half_spaces = PRIORS[prior](rng).checked(D, classes).applied(X, classes)
    rest = weight, regularizer, half_spaces
    if classes is not None:
        label = drawn.labels(rng, X, K)
        return BlockProblem(table_of(form(turned), 0.7), label, weight, 1.0 - np.eye(K), ROWS[name], *rest[1:]).at(C)
    signs = np.where(drawn.labels(rng, X, 2) == 1, 1.0, -1.0)
    target = (drawn.targets(rng, X),) if name == "epsilon" else (signs, np.ones(n))
    return ScalarProblem(table_of(form(turned), 0.7), SCALARS[name], target, *rest).at(C)


def run_of(problem, n_jobs, tol=1e-6, dtype=np.float64, parts=EAGER, block=0, **options):
    """One row after another, or so many in a block."""
    several = PartedBlocks if block else PartedRows
    kind = PartedScalars if isinstance(problem, ScalarProblem) else several
    tuning = options.pop("tuning", ASCENT)._replace(parts=parts)
    run = kind(problem, None, AscentOptions(tol, 3, dtype, tuning=tuning, block=block, threads=n_jobs, **options))
    run.n_jobs = n_jobs
    run.polish_tuning = PASSES_ALONE
    return run


def after(run, passes):
    for _ in range(passes):
        run.advance(lambda: False)
        run.accelerate()
    return run


def duals_of(run):
    return np.asarray(run.duals if isinstance(run, ScalarAscent) else run.duals.flat)


def check_passes(problem, n_jobs, passes=12, **options):
    """The dual value of a run is that of its duals and never falls; its weights are those of its duals, which are feasible."""
    run, last = run_of(problem, n_jobs, **options), -np.inf
    for _ in range(passes):
        run.advance(lambda: False)
        tracked, v = run.dual, np.array(run.space.w)
        duals = run.left()
        found = problem.reevaluated(duals)
        near = 1e-9 * (1.0 + abs(found.dual))
        assert tracked == pytest.approx(found.dual, abs=near)
        assert tracked >= last - near
        weights = problem.regularizer.scoring(problem.regularizer.weights(found.v))
        np.testing.assert_allclose(v, weights, rtol=1e-7, atol=1e-7 * (1.0 + np.abs(weights).max()))
        np.testing.assert_allclose(problem.clipped(duals), duals, rtol=1e-12, atol=1e-12)
        assert problem.primal(problem.regularizer.weights(found.v)) >= found.dual - near
        last = tracked
        run.accelerate()  # may cost what the pass has gained, and no more
        last = min(last, run.dual)
        assert run.dual >= run.floor - near
    return run


def check_optimum(problem, n_jobs, tol=1e-5, **options):
    runs = [run_of(problem, jobs, tol, **options) for jobs in (1, n_jobs)]
    alone, many = (drive(run, Budget(tol=tol, max_iter=20_000), History()) for run in runs)
    assert many.certificate.converged
    assert relative(alone.certificate.primal, many.certificate.dual) <= 2.0 * tol
    assert many.certificate.dual <= alone.certificate.primal * (1.0 + 1e-12)


def check_resumes(problem, n_jobs, **options):
    """A run does the same again, and after a stop what it does without; returns it and the one that was resumed."""
    first, again, resumed = (run_of(problem, n_jobs, **options) for _ in range(3))
    after(first, 6)
    state = first.snapshot()
    after(first, 5)
    np.testing.assert_array_equal(duals_of(after(again, 11)), duals_of(first))
    resumed.resume(state)
    np.testing.assert_array_equal(duals_of(after(resumed, 5)), duals_of(first))
    assert resumed.spread == first.spread and first.at_work > 1
    return first, resumed
