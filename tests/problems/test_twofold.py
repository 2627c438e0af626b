"""Losses from scores in twice the precision, against exact fractions; and certificates that need them."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.problems import twofold
from maxmargin.problems.twofold import scores_of_block, two_product, two_sum

NUMBERS = st.floats(-1e100, 1e100).filter(lambda a: a == 0.0 or abs(a) > 1e-100)


@given(NUMBERS, NUMBERS)
def test_nothing_is_lost_by_a_sum_or_a_product(a, b):
    for exact, found in (
        (Fraction(a) + Fraction(b), two_sum(np.array(a), np.array(b))),
        (Fraction(a) * Fraction(b), two_product(np.array(a), np.array(b))),
    ):
        assert sum(Fraction(float(part)) for part in found) == exact


def exact_scores(X, W, bias):
    """(rows, classes) of fractions."""
    rows = [[*map(Fraction, row), Fraction(bias)] for row in X.tolist()]
    return [[sum(a * Fraction(b) for a, b in zip(row, w, strict=True)) for w in W.tolist()] for row in rows]


@pytest.mark.parametrize("sparse", [False, True])
def test_scores_have_twice_the_digits(sparse):
    """Where float64 has none of them: columns of 1e10 with weights that cancel."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 7)) * 10.0 ** rng.integers(-10, 11, 7)
    X[rng.random(X.shape) < 0.4] = 0.0
    W = rng.normal(size=(3, 8)) / np.append(np.abs(X).max(axis=0) + 1e-300, 1.0)
    W[:, 0] *= 1e16
    (block,) = table_of(sp.csr_array(X) if sparse else X, 0.5).blocks(100)
    hi, lo = scores_of_block(block, W)
    for i, row in enumerate(exact_scores(X, W, 0.5)):
        for k, exact in enumerate(row):
            assert abs(Fraction(hi[i, k]) + Fraction(lo[i, k]) - exact) <= Fraction(1e-28) * abs(Fraction(1e16))


def exact_primal(model, X, loss):
    """Of the weights of a model in float64; `loss` takes a row of exact scores and the number of the sample."""
    W = np.column_stack([np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)])
    risk = sum(loss(row, i) for i, row in enumerate(exact_scores(np.asarray(X), W, 1.0)))
    return sum(Fraction(w) ** 2 for w in W.ravel().tolist()) / 2 + Fraction(model.C) * risk


def holds(model, exact):
    """Whether the value is not below the exact one, and about that where the model has converged."""
    found = model.certificate_
    assert Fraction(found.primal) >= exact * (1 - Fraction(1e-12))
    if found.converged:
        assert found.dual <= found.primal * (1 + 1e-12) and float(exact) - found.dual <= (2 * model.tol + 1e-12) * float(exact)


@pytest.mark.parametrize("solver", ["auto", "newton", "dual_coordinate"])
@pytest.mark.parametrize(("n", "d", "size", "C"), [(50, 5, 1e3, 1e8), (200, 20, 1e8, 1.0), (50, 5, 1e10, 1.0)])
def test_losses_that_float64_does_not_see_are_counted(n, d, size, C, solver):
    """Separable classes, margins exact to 1e-17: float64 says that nothing is lost, and it is up to all of the value."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * size
    y = (X @ rng.normal(size=d) > 0).astype(int)
    y[:2] = 0, 1
    X += (y * 2 - 1)[:, None] * size * rng.normal(size=d)
    model = mm.SVMClassifier(C=C, tol=1e-8, random_state=0, solver=solver).fit(X, y)
    assert model.certificate_.converged
    holds(model, exact_primal(model, X, lambda row, i: max(Fraction(0), 1 - (2 * int(y[i]) - 1) * row[0])))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [3, 22])
def test_so_are_they_at_the_default_tolerance(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=50)
    X = 1e5 * (rng.normal(size=(50, 5)) + 6 * rng.normal(size=(2, 5))[y])
    model = mm.SVMClassifier(C=1e10, random_state=0).fit(X, y)
    holds(model, exact_primal(model, X, lambda row, i: max(Fraction(0), 1 - (2 * int(y[i]) - 1) * row[0])))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_so_are_those_of_regression():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(50, 5)) * 1e3
    y = X @ rng.normal(size=5) / 1e3
    model = mm.SVMRegressor(C=1e8, random_state=0).fit(X, y)
    epsilon = Fraction(model.epsilon)
    holds(model, exact_primal(model, X, lambda row, i: max(Fraction(0), abs(Fraction(y[i]) - row[0]) - epsilon)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["newton", "auto", "dual_coordinate"])
@pytest.mark.parametrize("power", [8, 15, 18, 150])
@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
@pytest.mark.parametrize("sparse", [False, True])
def test_scores_that_classes_have_in_common_may_be_huge(power, solver, sparse, loss):
    """A column of 1e18 has about the same weight in all classes: what they differ by is beyond the digits of a score."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 6)), rng.integers(4, size=40)
    y[:4] = range(4)
    X[:, 2] *= 10.0**power
    model = mm.SVMClassifier(loss=loss, solver=solver, random_state=0, max_iter=300).fit(sp.csr_array(X) if sparse else X, y)

    def of_row(row, i):
        if loss == "hinge":
            return max(z - row[y[i]] + (k != y[i]) for k, z in enumerate(row))
        return Fraction(float(logsumexp([float(z - row[y[i]]) for z in row])))

    holds(model, exact_primal(model, X, of_row))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("stops", [{"max_iter": 1}, {"max_time": 1e-9}, {"max_iter": 1, "C": 1e-8}])
def test_so_are_those_of_a_fit_that_ends_early_without_twice_the_digits(classes, stops, monkeypatch):
    """Where there is no time for these, or so much of the gap left that they do not matter: they may take minutes."""
    blocks = []
    monkeypatch.setattr(twofold, "scores_of_block", lambda *args: blocks.append(args) or scores_of_block(*args))
    rng = np.random.default_rng(0)
    y = np.arange(50) % classes
    X = 1e8 * (rng.normal(size=(50, 5)) + 6 * rng.normal(size=(classes, 5))[y])
    model = mm.SVMClassifier(**{"C": 1.0, "tol": 1e-15, "random_state": 0, "solver": "dual_coordinate", **stops}).fit(X, y)
    assert not model.certificate_.converged and not blocks

    def loss(row, i):
        if classes == 2:
            return max(Fraction(0), 1 - (2 * int(y[i]) - 1) * row[0])
        return max(z - row[y[i]] + (k != y[i]) for k, z in enumerate(row))

    assert Fraction(model.certificate_.primal) >= exact_primal(model, X, loss)
