"""Products of one vector with all rows, several rows at a time, against NumPy; and what is known of rows without their norms."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.data import row_sums
from maxmargin.data import table as table_module
from maxmargin.data.row_sums import FEW_NUMBERS, sum_rows
from maxmargin.data.table import NARROW, RowBlock, table_of
from maxmargin.losses import SquaredErrorLoss
from maxmargin.problems.linear import ScalarProblem
from maxmargin.regularizers.gaussian import Gaussian

FORMS = {
    "dense": (lambda X: X, 0.0),
    "float32": (lambda X: X.astype(np.float32), 0.0),
    "csr": (sp.csr_matrix, 0.0),
    "indexed": (lambda X: X, 2.0),
}


def drawn(rows: int, columns: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.integers(-8, 9, size=(rows, columns)) / 4.0, rng  # exact in float32


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("part", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("span", [(0, 43), (5, 5), (7, 40), (41, 43)])
def test_sums_of_rows(form, part, span):
    """Whatever part of the weights is not zero, wherever a run begins and ends, and on top of what is there."""
    X, rng = drawn(43, 5)
    factors = rng.normal(size=43) * (rng.random(43) < part)
    convert, sparse_below = FORMS[form]
    found, run = np.arange(6.0), slice(*span)
    sum_rows(table_of(convert(X), 0.5, sparse_below).rows, factors, found, *span)
    full = np.column_stack([X, np.full(43, 0.5)])
    np.testing.assert_allclose(found, np.arange(6.0) + factors[run] @ full[run], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("few", [0, FEW_NUMBERS])
def test_few_rows_are_summed_without_a_kernel(form, few, monkeypatch):
    monkeypatch.setattr(row_sums, "FEW_NUMBERS", few)
    called = []
    monkeypatch.setattr(row_sums, "sum_rows", lambda *args: (called.append(1), sum_rows(*args)))
    X, rng = drawn(43, 5)
    factors, full = rng.normal(size=43), np.column_stack([X, np.full(43, 0.5)])
    convert, sparse_below = FORMS[form]
    for first, last in ((0, 43), (7, 40), (5, 5)):
        found = np.arange(6.0)
        row_sums.add_some_rows(table_of(convert(X), 0.5, sparse_below).rows, factors, found, first, last)
        np.testing.assert_allclose(found, np.arange(6.0) + factors[first:last] @ full[first:last], rtol=1e-13, atol=1e-13)
    assert bool(called) == (form in ("csr", "indexed") or few == 0)


@pytest.mark.parametrize("columns", [1, 8, NARROW, NARROW + 1])
@pytest.mark.parametrize("rows", [1, 6, 40])
@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("few", [0, FEW_NUMBERS])
def test_blocks_of_short_and_long_rows(columns, rows, classes, dtype, few, monkeypatch):
    """By our kernels as by products, which rows so few are left to."""
    monkeypatch.setattr(table_module, "FEW_NUMBERS", few)
    X, rng = drawn(rows, columns)
    W, duals, full = (
        rng.normal(size=(classes, columns + 1)),
        rng.normal(size=(rows, classes)),
        np.column_stack([X, np.full(rows, 2.0)]),
    )
    locked = X.astype(dtype)
    locked.flags.writeable = False
    for data in (locked, np.asfortranarray(X.astype(dtype)), sp.csr_matrix(X.astype(dtype))):
        block = RowBlock(data, 2.0, 0, rows)
        np.testing.assert_allclose(block.scores(W), full @ W.T, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(block.combined(duals), duals.T @ full, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("first", ["norms", "sum"])
def test_sum_of_squares(form, first):
    X, _ = drawn(30, 4)
    convert, sparse_below = FORMS[form]
    table = table_of(convert(X), 3.0, sparse_below)
    if first == "norms":
        table.norms()
    assert table.sum_of_squares() == pytest.approx(np.sum(X * X) + 30 * 9.0, rel=1e-14)
    assert table.sum_of_squares() == pytest.approx(table.norms().sum(), rel=1e-14)


def test_rows_are_refused_by_their_own_squares_only():
    """The sum of all may overflow where that of no row does."""
    large = table_of(np.full((3, 1), 1e154))
    assert large.sum_of_squares() == np.inf and np.all(np.isfinite(large.norms()))
    with pytest.raises(ValueError, match="Row 1 of X is too large"):
        table_of(np.array([[1.0], [1e155]])).sum_of_squares()


@pytest.mark.parametrize("variance", [None, np.array([0.5, 2.0, 1e-3, 4.0])])
@pytest.mark.parametrize("size", [1.0, 1e150])
def test_what_sums_lose_is_never_said_to_be_less(variance, size):
    X, rng = drawn(30, 3)
    table = table_of(X, 1.0)
    problem = ScalarProblem(table, SquaredErrorLoss(), (rng.normal(size=30),), np.ones(30), Gaussian(variance=variance))
    duals = size * rng.normal(size=30)
    exact = problem.lost_in_sums(lambda: duals, 0.0)
    weights = np.ones(4) if variance is None else variance
    norms = np.sqrt(np.column_stack([X, np.ones(30)]) ** 2 @ weights)
    with np.errstate(over="ignore"):
        assert exact == pytest.approx(0.5 * (np.finfo(float).eps * np.abs(duals) @ norms) ** 2, rel=1e-12)
    coarse = problem.lost_in_sums(lambda: duals, 1e3 * exact)
    assert exact <= coarse <= 1e3 * exact or not np.isfinite(exact)
    assert problem.lost_in_sums(lambda: duals, 0.99 * exact) == exact
