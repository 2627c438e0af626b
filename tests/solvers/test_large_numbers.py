"""Numbers of X far too large or small: a certified answer where float64 has one, else one sentence that names columns or rows."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.data.thresholds import ThresholdTable
from maxmargin.losses import HingeLoss
from maxmargin.problems.linear import ScalarProblem
from maxmargin.problems.sizes import overlarge, overlarge_kernel
from maxmargin.solvers.loop import Budget

N, D, ROW, COLUMN = 30, 5, 4, 2
rng = np.random.default_rng(0)
X0 = rng.normal(size=(N, D))
BINARY = (X0[:, 0] + 0.5 * rng.normal(size=N) > 0).astype(int)
REAL = X0[:, 0] + 0.3 * rng.normal(size=N)
THREE = np.digitize(X0[:, 0] + rng.normal(size=N), [-0.5, 0.5])
SOLVERS = "auto", "newton", "dual_coordinate"
MODELS = {
    "hinge": (mm.SVMClassifier(), BINARY),
    "log": (mm.SVMClassifier(loss="log_loss"), BINARY),
    "squared error": (mm.SVMRegressor(loss="squared_error"), REAL),
    "epsilon-insensitive": (mm.SVMRegressor(), REAL),
    "ordinal": (mm.OrdinalSVM(), THREE),
}
VALUES = 1e20, 1e30, 1e60, 1e100, 1e150, 1e-150


def enlarged(where, value):
    X = X0.copy()
    X[{"column": np.s_[:, COLUMN], "all": np.s_[:], "row": np.s_[ROW]}[where]] *= value
    return X


def outcome(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y).certificate_


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", MODELS)
def test_an_answer_or_a_sentence(name, solver):
    model, y = MODELS[name]
    model.set_params(solver=solver, random_state=0)
    named = {"column": f"column {COLUMN} of X", "all": "columns 0, 1, 2 and 2 more of X", "row": f"row {ROW} of X"}
    for value in VALUES:
        for where in named:
            for dtype in (np.float64, np.float32) if 1e-30 < value < 1e38 / np.abs(X0).max() else (np.float64,):
                found = outcome(model, enlarged(where, value).astype(dtype), y)
                if value < 1.0 or (where == "row" and name in ("hinge", "log") and solver != "newton"):
                    assert found.converged, (value, where, dtype, found.message)
                else:
                    assert found.converged or named[where] in found.message, (value, where, dtype, found.message)
                    assert "max_iter" not in found.message
                assert found.dual <= found.primal * (1 + 1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_the_way_out_is_one(name):
    model, y = MODELS[name]
    with pytest.warns(ConvergenceWarning, match=r"column 2 of X, up to 2e\+30; scale the columns \(standardize=True") as told:
        model.set_params(solver="auto").fit(enlarged("column", 1e30), y)
    assert "Raise max_iter" not in str(told[0].message)
    scaled = model.set_params(standardize=True)
    for value in (1e20, 1e100):
        for where in ("column", "all"):
            assert outcome(scaled, enlarged(where, value), y).converged
    model.set_params(standardize=False)


@pytest.mark.parametrize("solver", SOLVERS)
def test_large_numbers_that_float64_can_certify(solver):
    """A column that separates the classes needs tiny duals, and a small C allows no others."""
    X = X0.copy()
    X[:, COLUMN] = 1e20 * np.where(BINARY, 1.0, -1.0) * (1.0 + np.abs(X0[:, COLUMN]))
    assert outcome(mm.SVMClassifier(solver=solver), X, BINARY).converged
    assert outcome(mm.SVMClassifier(C=1e-40, solver=solver), 1e20 * X0, BINARY).converged
    half = X0.copy()
    half[::2] *= 1e20
    found = outcome(mm.SVMClassifier(solver=solver, random_state=0), half, BINARY)
    assert found.converged or solver == "newton", found.message


def test_squares_of_small_duals_are_not_lost():
    """The rewards of squared losses hold b^2 / cap: with b about 1e-200 the square is zero, and the quotient is not."""
    X = 1e100 * X0
    for loss in ("squared_error", "squared_epsilon_insensitive"):
        for solver in SOLVERS:
            found = outcome(mm.SVMRegressor(C=1e-200, loss=loss, solver=solver, tol=1e-3), X, REAL)
            assert found.converged and found.dual <= found.primal * (1 + 1e-9)


LABELS = np.column_stack([BINARY, THREE == 1, THREE == 2]).astype(int)


@pytest.mark.parametrize("C", [1e-31, 1e-40, 1e-160, 1e-240])
def test_dual_value_at_tiny_c(C):
    """b^2 / cap again, for losses that are computed a vector of labels at a time, and smoothed top-k losses."""
    models = [(mm.MultilabelSVMClassifier(C, loss=loss), LABELS) for loss in ("squared_hinge", "squared_error")]
    models += [(mm.MultilabelSVMClassifier(C, label_prior=np.eye(3) + 0.2), LABELS)]
    models += [(mm.SVMClassifier(C, loss="squared_hinge", multi_class="ovr"), THREE)]
    models += [(mm.TopKSVMClassifier(C, k=2, loss=loss, smoothing=0.5), THREE) for loss in ("topk_alpha", "topk_beta")]
    for model, y in models:
        found = outcome(model, X0, y)
        assert found.converged and found.verified and found.dual <= found.primal * (1 + 1e-9), model


@pytest.mark.parametrize("C", [1e-320, 1e-251, 1e151, 1e308])
def test_c_outside_float64_is_refused(C):
    for model, y in [*MODELS.values(), (mm.MultilabelSVMClassifier(), LABELS), (mm.SVMClassifier(kernel="rbf"), BINARY)]:
        with pytest.raises(ValueError, match=r"C=.* times the largest sample weight, 1, is not between 1e-250 and 1e\+150"):
            clone(model).set_params(C=C).fit(X0, y)
    with pytest.raises(ValueError, match=r"the largest sample weight, 1e\+200, is not between"):
        mm.SVMClassifier().fit(X0, BINARY, sample_weight=np.where(BINARY, 1e200, 1.0))
    source = mm.open_source([(X0, BINARY)])
    with pytest.raises(ValueError, match="is not between"):
        mm.SVMClassifier(C).fit(source)
    with pytest.raises(ValueError, match="is not between"):
        mm.minimize(lambda w: (0.0, np.zeros(2)), 2, C=C)


def test_an_infinite_dual_value_is_no_bound():
    for loss in ("epsilon_insensitive", "squared_epsilon_insensitive"):
        with pytest.raises(ValueError, match=r"dual value overflows.*targets"):
            mm.SVMRegressor(C=1e3, loss=loss).fit(X0, np.where(BINARY, 4e306, -4e306))
    problem = ScalarProblem(table_of(X0), HingeLoss(), (np.ones(len(X0)),) * 2, np.ones(len(X0)))
    for dual in (np.inf, np.nan):
        with pytest.raises(ValueError, match="dual value overflows"):
            Budget(tol=1e-3).certificate(problem, 1.0, dual, 3, "")


def test_a_dual_value_above_the_primal_one_proves_nothing():
    budget, ones = Budget(tol=1e-3), np.ones(len(X0))
    problem = ScalarProblem(table_of(X0), HingeLoss(), (ones, ones), ones)
    found = budget.certificate(problem, 1.0, 1.5, 3, "")
    assert not found.converged and not found.verified and "above the primal one by 50 %" in found.message
    rounded = budget.certificate(problem, 1.0, 1.0 + 1e-15, 3, "")
    assert rounded.converged and rounded.verified


def test_targets_that_overflow():
    for solver in ("auto", "newton"):
        found = outcome(mm.SVMRegressor(loss="squared_error", solver=solver), X0, 1e200 * REAL)
        assert not found.converged and "overflows" in found.message and "targets" in found.message
    with pytest.raises(ValueError, match=r"overflows.*targets"):
        mm.SVMRegressor(loss="squared_error", solver="dual_coordinate").fit(X0, 1e200 * REAL)


def test_who_is_too_large():
    caps = np.ones(N)

    def said(X, worth=1.0, C=1.0):
        table = table_of(X)
        return overlarge(table, C * caps, table.norms(), worth)

    assert said(X0) == "" and said(1e15 * X0, C=1e-10) == "" and said(1e20 * X0, worth=1e20) == ""
    assert "column 2 of X, up to 2e+20;" in said(enlarged("column", 1e20)) and "row" not in said(enlarged("column", 1e20))
    assert "row 4 of X" in said(enlarged("row", 1e20)) and "column" not in said(enlarged("row", 1e20))
    two = X0.copy()
    two[[3, 7]] *= 1e20
    assert "rows 3 and 7 of X" in said(two)
    table = ThresholdTable(table_of(two), 3, 1.0)
    assert "rows 3 and 7 of X" in overlarge(table, np.ones(3 * N), table.norms(), 1.0)
    assert overlarge(table_of(X0[:0]), np.empty(0), np.empty(0), 1.0) == ""


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_weights_of_duals_under_signs(loss):
    """mu has to fall until the weights of the duals, and not only the point beside them, are good."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(20, 6)) * 10.0 ** rng.uniform(-4, 4, 6), np.arange(20) % 2
        for positive in (True, False):
            model = mm.SVMClassifier(100.0, loss=loss, positive=positive, keep_duals=True, solver="newton", tol=1e-6)
            found = outcome(model, X, y)
            assert found.converged, (seed, positive, found.message)
            duals = model.dual_coef_.ravel()
            weights, rounding = duals @ X, 20 * np.finfo(float).eps * np.abs(duals) @ np.abs(X)
            wanted = np.maximum(weights, 0.0) if positive else weights
            assert np.all(np.abs(model.coef_.ravel() - wanted) <= rounding)


def test_no_certificate_by_sums_that_rounding_makes_zero(monkeypatch):
    """Terms of 1e30 may sum up to zero in float64, and to 1e14 in truth: a dual value is never so much above its own."""
    X, model, seen = enlarged("column", 1e30), MODELS["hinge"][0], []
    evaluate = ScalarProblem.evaluate

    def noted(self, duals, *rest):
        seen.append(duals.copy())
        return evaluate(self, duals, *rest)

    monkeypatch.setattr(ScalarProblem, "evaluate", noted)
    for seed in range(8):
        found = outcome(clone(model).set_params(solver="auto", random_state=seed), X, BINARY)
        duals, columns = [Fraction(float(b)) for b in seen[-1]], [*X.T, np.ones(len(X))]
        sums = [sum(b * Fraction(float(x)) for b, x in zip(duals, column, strict=True)) for column in columns]
        exact = sum(abs(b) for b in duals) - sum(v * v for v in sums) / 2
        assert found.dual <= max(float(exact), 0.0) * (1 + 1e-9) + 1e-9, (seed, found.dual, float(exact))
        assert not found.converged and "column 2 of X" in found.message


@pytest.mark.parametrize("value", [1e10, 1e20, 1e30])
def test_bundle_methods_begin_no_higher_than_at_zero(value):
    """Stochastic gradients of huge rows lead to weights whose objective is far above that of none."""
    X = enlarged("column", value)
    structured = mm.StructuredSVM(mm.structures.Multiclass(), solver="bundle", max_iter=20)
    for model in (mm.SVMClassifier(solver="bundle", max_iter=20), structured):
        found = outcome(model, X, THREE)
        assert 0.0 <= found.dual <= found.primal <= N
        assert found.converged or value < 1e20 or "column 2 of X" in found.message


@pytest.mark.parametrize("value", [1e8, 1e12, 1e20, 1e30])
def test_kernels_of_large_numbers(value):
    """A sentence, and no dual value above what zero weights cost that is not doubted."""
    X = enlarged("column", value)
    classes = [(mm.SVMClassifier(), THREE)] if value == 1e30 else []  # their passes take long
    for model, y in (MODELS["hinge"], MODELS["squared error"], MODELS["log"], *classes):
        found = outcome(clone(model).set_params(solver="auto", kernel="precomputed"), X @ X.T + 1.0, y)
        assert found.converged or "the kernel matrix" in found.message or "no lower bound" in found.message, found.message
        assert "max_iter" not in found.message
        assert not found.verified or found.dual <= found.primal * (1 + 1e-9)
        at_zero = float(REAL @ REAL) if y is REAL else N
        assert not found.verified or found.dual <= at_zero * (1 + 1e-9), (found.dual, at_zero)


def test_kernel_values_of_every_day_are_not_too_large():
    for C in (1e-4, 1.0, 1e4):
        assert overlarge_kernel(np.ones(N), C * np.ones(N), 1.0) == ""
    assert overlarge_kernel(np.full(N, 1e10), np.ones(N), 1.0) == ""
    assert "up to 1e+20" in overlarge_kernel(np.full(N, 1e20), np.ones(N), 1.0)
    assert overlarge_kernel(np.empty(0), np.empty(0), 1.0) == "" == overlarge_kernel(np.ones(N), np.ones(N), 0.0)
