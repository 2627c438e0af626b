"""`OrdinalSVM` against a convex solver, and what its thresholds promise."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from helpers import convex as cp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import DataConversionWarning
from sklearn.preprocessing import StandardScaler

import maxmargin as mm


def drawn(seed: int, n: int = 80, classes: int = 4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.clip(np.round(1.5 + X[:, 0] + 0.5 * rng.normal(size=n)), 0, classes - 1).astype(int)
    return X, y, rng.integers(0, 4, n).astype(float)


def optimum(X, code, weight, C, scaling):
    count = code.max()
    w, u = cp.Variable(X.shape[1]), cp.Variable(count)
    value = 0.5 * cp.sum_squares(w) + 0.5 * cp.sum_squares(u)
    for k in range(count):
        sign = np.where(code > k, 1.0, -1.0)
        value = value + C * cp.sum(cp.multiply(weight, cp.pos(1.0 - cp.multiply(sign, X @ w - scaling * u[k]))))
    problem = cp.Problem(cp.Minimize(value))
    return cp.solved(problem), w.value, scaling * u.value


@pytest.mark.parametrize("solver", ["dual_coordinate", "newton", "bundle"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_the_optimum_of_a_convex_solver(solver, form):
    X, y, weight = drawn(0)
    value, w, thresholds = optimum(X, y, weight, 0.3, 2.0)
    model = mm.OrdinalSVM(C=0.3, intercept_scaling=2.0, tol=1e-7, solver=solver, random_state=0).fit(form(X), y, weight)
    found = model.certificate_
    assert found.converged and found.dual <= value * (1 + 1e-7) and value <= found.primal * (1 + 1e-7)
    np.testing.assert_allclose(model.coef_, w, atol=1e-3)
    np.testing.assert_allclose(model.thresholds_, thresholds, atol=1e-3)


def test_rows_that_are_mostly_zeros_and_float32():
    X, y, weight = drawn(1)
    wide = np.hstack([X * (np.abs(X) > 1.0), np.zeros((len(y), 20))])
    dense = mm.OrdinalSVM(C=0.3, tol=1e-6, random_state=0).fit(sp.csr_matrix(wide), y, weight)
    for form in (wide, wide.astype(np.float32)):
        other = mm.OrdinalSVM(C=0.3, tol=1e-6, random_state=0).fit(form, y, weight)
        assert other.certificate_.primal == pytest.approx(dense.certificate_.primal, rel=3e-6)


def test_two_classes_are_a_classifier():
    X, y, weight = drawn(2)
    two = mm.OrdinalSVM(tol=1e-7, random_state=0).fit(X, y > 1, weight)
    plain = mm.SVMClassifier(tol=1e-7, random_state=0).fit(X, y > 1, weight)
    assert two.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=3e-7)
    np.testing.assert_allclose(two.decision_function(X), plain.decision_function(X), atol=2e-3)


def test_weights_are_repetitions():
    X, y, weight = drawn(3)
    times = weight.astype(int)
    weighted = mm.OrdinalSVM(tol=1e-7, random_state=0).fit(X, y, weight)
    repeated = mm.OrdinalSVM(tol=1e-7, random_state=0).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=3e-7)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1e-3, 1.0, 100.0]), st.integers(3, 6))
def test_certificates_and_thresholds_of_random_problems(seed, C, classes):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, 3)), rng.permutation(np.arange(40) % classes)
    model = mm.OrdinalSVM(C=C, tol=1e-2, random_state=0).fit(X, y)
    assert model.certificate_.dual <= model.certificate_.primal * (1 + 1e-12)
    sign = np.where(y[:, None] > np.arange(classes - 1), 1.0, -1.0)
    losses = np.maximum(0.0, 1.0 - sign * (X @ model.coef_[:, None] - model.thresholds_))
    value = 0.5 * model.coef_ @ model.coef_ + 0.5 * model.thresholds_ @ model.thresholds_ + C * losses.sum()
    assert model.certificate_.dual * (1 - 1e-9) <= value <= model.certificate_.primal * (1 + 1e-9)  # sorting never costs
    assert np.all(np.diff(model.thresholds_) >= 0)
    order = np.argsort(model.score_samples(X))
    assert np.all(np.diff(model.predict(X)[order]) >= 0)
    np.testing.assert_array_equal(model.predict(X), model.classes_[model.decision_function(X).argmax(axis=1)])


def test_predictions_by_hand():
    names = ["low", "middle", "high"]
    model = mm.OrdinalSVM(order=names).fit(np.arange(3.0)[:, None], names)
    model.coef_, model.thresholds_ = np.array([1.0]), np.array([1.0, 2.0])
    X = np.array([[0.0], [1.0], [1.5], [2.0], [2.5]])
    assert model.predict(X).tolist() == ["low", "low", "middle", "middle", "high"]  # on a threshold: not above it
    expected = [[3.0, 1.0, -3.0], [1.0, 1.0, -1.0], [0.0, 1.0, 0.0], [-1.0, 1.0, 1.0], [-2.0, 1.0, 2.0]]
    np.testing.assert_allclose(model.decision_function(X), expected)
    y, weight = ["low", "middle", "low", "high", "low"], [1.0, 1.0, 2.0, 0.0, 4.0]
    assert model.mean_absolute_error(X, y) == pytest.approx((0 + 1 + 1 + 1 + 2) / 5)
    assert model.mean_absolute_error(X, y, weight) == pytest.approx((0 + 1 + 2 + 0 + 8) / 8)


def test_a_class_of_one_sample_between_two_others():
    X, y, _ = drawn(8)
    y = np.where(y <= 1, 0, 2)
    y[5] = 1
    value, w, thresholds = optimum(X, y, np.ones(len(y)), 0.3, 1.0)
    model = mm.OrdinalSVM(C=0.3, tol=1e-7, random_state=0).fit(X, y)
    assert model.certificate_.dual <= value * (1 + 1e-7) and value <= model.certificate_.primal * (1 + 1e-7)
    np.testing.assert_allclose(model.coef_, w, atol=1e-3)
    np.testing.assert_allclose(model.thresholds_, thresholds, atol=1e-3)
    assert model.classes_.tolist() == [0, 1, 2] and model.thresholds_[0] <= model.thresholds_[1]


def test_class_weights_go_by_class_and_balance_the_weights_of_samples():
    X, y, weight = drawn(9)
    names = np.array(["low", "middle", "high", "top"])
    mass = np.bincount(y, weight)
    options = {"tol": 1e-7, "random_state": 0, "order": names.tolist()}
    balanced = mm.OrdinalSVM(class_weight="balanced", **options).fit(X, names[y], weight)
    by_sample = mm.OrdinalSVM(**options).fit(X, names[y], weight * (weight.sum() / (4 * mass))[y])
    assert balanced.certificate_.primal == pytest.approx(by_sample.certificate_.primal, rel=3e-7)
    factors = {"low": 3.0, "middle": 1.0, "high": 0.5, "top": 0.1}
    by_class = mm.OrdinalSVM(class_weight=factors, **options).fit(X, names[y])
    by_sample = mm.OrdinalSVM(**options).fit(X, names[y], np.array([3.0, 1.0, 0.5, 0.1])[y])
    assert by_class.certificate_.primal == pytest.approx(by_sample.certificate_.primal, rel=3e-7)


def test_standardized_columns_count_weights_and_keep_the_scale_of_intercepts():
    X, y, weight = drawn(10)
    X = 7.0 + X * [1.0, 10.0, 0.1]
    scaler = StandardScaler().fit(X, sample_weight=weight)
    options = {"intercept_scaling": 3.0, "tol": 1e-5, "random_state": 0}
    plain = mm.OrdinalSVM(**options).fit(scaler.transform(X), y, weight)
    found = mm.OrdinalSVM(standardize=True, **options).fit(X, y, weight)
    np.testing.assert_allclose(found.coef_ * scaler.scale_, plain.coef_, rtol=1e-9)
    np.testing.assert_allclose(found.thresholds_, plain.thresholds_ + found.coef_ @ scaler.mean_, rtol=1e-9)


def test_classes_of_any_kind_in_any_order():
    X, y, _ = drawn(4)
    names = np.array(["low", "middle", "high", "top"])
    by_name = mm.OrdinalSVM(tol=1e-6, order=names.tolist(), random_state=0).fit(X, names[y])
    by_number = mm.OrdinalSVM(tol=1e-6, random_state=0).fit(X, y)
    np.testing.assert_array_equal(by_name.coef_, by_number.coef_)
    np.testing.assert_array_equal(by_name.predict(X), names[by_number.predict(X)])
    assert by_name.classes_.tolist() == names.tolist()
    off = np.abs(by_number.predict(X) - y)
    assert by_name.mean_absolute_error(X, names[y]) == pytest.approx(off.mean())
    assert by_name.score(X, names[y]) == pytest.approx(np.mean(off == 0))


def test_scaled_columns_duals_and_weights_of_classes():
    X, y, _ = drawn(5)
    scaled = mm.OrdinalSVM(tol=1e-7, standardize=True, random_state=0).fit(7.0 + X * [1.0, 10.0, 100.0], y)
    plain = mm.OrdinalSVM(tol=1e-7, random_state=0).fit((X - X.mean(axis=0)) / X.std(axis=0), y)
    np.testing.assert_array_equal(
        scaled.predict(7.0 + X * [1.0, 10.0, 100.0]), plain.predict((X - X.mean(axis=0)) / X.std(axis=0))
    )
    assert scaled.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=3e-7)
    kept = mm.OrdinalSVM(tol=1e-5, keep_duals=True, random_state=0).fit(X, y)
    assert kept.dual_coef_.shape == (len(y), 3)
    np.testing.assert_allclose(kept.dual_coef_.sum(axis=1) @ X, kept.coef_, atol=1e-9)
    by_class = mm.OrdinalSVM(tol=1e-7, class_weight={0: 2.0, 1: 1.0, 2: 1.0, 3: 0.5}, random_state=0).fit(X, y)
    by_sample = mm.OrdinalSVM(tol=1e-7, random_state=0).fit(X, y, np.array([2.0, 1.0, 1.0, 0.5])[y])
    assert by_class.certificate_.primal == pytest.approx(by_sample.certificate_.primal, rel=3e-7)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 1, 2], r"no place for class .*3"),
        ([0, 1, 2, 3, 4], r"names class .*4.*no threshold"),
        ([0, 1, 1, 2, 3], "each once"),
    ],
)
def test_wrong_orders_are_told(order, message):
    X, y, _ = drawn(6)
    with pytest.raises(ValueError, match=message):
        mm.OrdinalSVM(order=order).fit(X, y)


def test_unknown_classes_are_told():
    X, y, _ = drawn(7)
    model = mm.OrdinalSVM(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"9.*not one of the classes"):
        model.mean_absolute_error(X[:2], [0, 9])
    with pytest.raises(ValueError, match="only one class"):
        mm.OrdinalSVM().fit(X, np.ones(len(y), int))


def test_the_order_that_a_column_states():
    X = drawn(5)[0]
    y = np.array(["none", "mild", "severe"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    stated = ["none", "mild", "moderate", "severe"]  # of which y has no "moderate"
    known = mm.OrdinalSVM(order=["none", "mild", "severe"], random_state=0).fit(X, y)
    ordered = pd.Categorical(y, categories=stated, ordered=True)
    enum = pl.Series("y", y.tolist(), dtype=pl.Enum(stated))
    for column in (ordered, pd.Series(ordered), enum):
        model = mm.OrdinalSVM(random_state=0).fit(X, column)
        assert model.classes_.tolist() == ["none", "mild", "severe"]
        np.testing.assert_array_equal(model.coef_, known.coef_)
        assert model.mean_absolute_error(X, column) == known.mean_absolute_error(X, y)
    for frame in (pd.DataFrame({"y": ordered}), pl.DataFrame(enum)):
        with pytest.warns(DataConversionWarning):
            assert mm.OrdinalSVM().fit(X, frame).classes_.tolist() == ["none", "mild", "severe"]
    numbers = pd.Series(np.digitize(X[:, 0], [-0.5, 0.5])).astype(pd.CategoricalDtype([2, 1, 0], ordered=True))
    assert mm.OrdinalSVM().fit(X, numbers).classes_.tolist() == [2, 1, 0]
    assert mm.OrdinalSVM(order=["severe", "none", "mild"]).fit(X, ordered).classes_.tolist() == ["severe", "none", "mild"]
    unordered = pd.Series(pd.Categorical(y, categories=stated))
    assert mm.OrdinalSVM().fit(X, unordered).classes_.tolist() == ["mild", "none", "severe"]
