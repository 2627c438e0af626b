"""Certificates speak of the model that is returned: the objective at `coef_` and `intercept_`, by NumPy and in float64."""

import numpy as np
import pytest
import scipy.sparse as sp

import maxmargin as mm

SCALING = 37.3  # not a float32 number


def data(dtype=np.float32, n=60, d=4, labels=3):
    rng = np.random.default_rng(0)
    X = (3.0 * rng.normal(size=(n, d))).astype(dtype)
    Y = (X @ rng.normal(size=(d, labels)) + rng.normal(size=(n, labels)) > 0.5).astype(int)
    return X, Y


def penalty(model, prior_mean=0.0, prior_scale=1.0):
    return 0.5 * np.sum(((model.coef_ - prior_mean) / prior_scale) ** 2) + 0.5 * np.sum((model.intercept_ / SCALING) ** 2)


def hinges(model, X, Y):
    scores = np.asarray(X, np.float64) @ np.atleast_2d(model.coef_).T + model.intercept_
    return np.maximum(0.0, 1.0 - (2 * Y.reshape(len(Y), -1) - 1) * scores).sum()


@pytest.mark.parametrize("solver", ["dual_coordinate", "bundle", "online"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_float32_data_with_any_intercept_scaling(solver):
    X, Y = data()
    settings = {"C": 10.0, "tol": 1e-5, "intercept_scaling": SCALING, "solver": solver, "random_state": 0, "max_iter": 100}
    models = [(mm.SVMClassifier(**settings), X, Y[:, 0]), (mm.SVMClassifier(**settings), sp.csr_array(X), Y[:, 0])]
    if solver == "online":
        models.append((mm.MultilabelSVMClassifier(loss="hinge", **settings), X, Y))
    for model, rows, y in models:
        found = model.fit(rows, y).certificate_
        value = penalty(model) + 10.0 * hinges(model, X, y)
        assert found.primal == pytest.approx(value, rel=1e-12) and found.dual <= value * (1 + 1e-14)


@pytest.mark.parametrize("solver", ["dual_coordinate", "bundle", "online"])
def test_signs_hold_exactly(solver):
    X, Y = data(np.float64)
    mean, scale = np.array([-0.9, -1.5, 1.1, -1.9]), np.array([0.3, 0.7, 0.1, 0.2])  # mean - scale (mean / scale) < 0 of three
    prior = {"positive": True, "prior_mean": mean, "prior_scale": scale, "intercept_scaling": SCALING}
    model = mm.SVMClassifier(C=0.01, tol=1e-5, solver=solver, random_state=0, **prior).fit(X, Y[:, 0])
    assert np.all(model.coef_ >= 0.0) and np.any(model.coef_ == 0.0)
    value = penalty(model, mean, scale) + 0.01 * hinges(model, X, Y[:, 0])
    assert model.certificate_.primal == pytest.approx(value, rel=1e-12)


def test_signs_under_a_full_covariance_hold_exactly():
    X, Y = data(np.float64)
    A = np.random.default_rng(1).normal(size=(4, 4))
    covariance, mean = A @ A.T + 0.1 * np.eye(4), np.array([-0.3, 0.7, 1.1, -1.7])
    for solver in ("dual_coordinate", "online"):
        prior = {"positive": True, "prior_mean": mean, "prior_covariance": covariance, "intercept_scaling": SCALING}
        model = mm.SVMClassifier(C=0.01, solver=solver, random_state=0, **prior).fit(X, Y[:, 0])
        assert np.all(model.coef_ >= 0.0) and np.any(model.coef_ < 1e-12)
        off = model.coef_[0] - mean
        value = 0.5 * off @ np.linalg.solve(covariance, off) + 0.5 * (model.intercept_[0] / SCALING) ** 2
        assert model.certificate_.primal == pytest.approx(value + 0.01 * hinges(model, X, Y[:, 0]), rel=1e-12)


def test_a_latent_certificate_is_nowhere_below_the_objective():
    rng = np.random.default_rng(0)
    for seed in range(6):
        X = rng.normal(size=(14, 2, 3))
        X[::3, 1] = X[::3, 0]  # the best candidates are not unique
        model = mm.LatentSVMClassifier(C=10.0 ** rng.integers(-2, 2), tol=1e-3, intercept_scaling=SCALING, random_state=seed).fit(
            X, np.arange(14) % 2
        )
        scores = np.asarray(X, np.float64) @ model.coef_[0] + model.intercept_[0]
        losses = np.maximum(0.0, 1.0 - (2 * (np.arange(14) % 2) - 1) * scores.max(axis=1))
        assert model.outer_history_[-1] == pytest.approx(penalty(model) + model.C * losses.sum(), rel=1e-12)
        assert model.certificate_.primal >= model.outer_history_[-1]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "float64", "bool"])
def test_classes_are_those_of_unique(dtype):
    """However they are found; those of eight bits lie further apart than the largest of them."""
    known = np.iinfo(dtype) if dtype.endswith(("int8", "int64")) else None
    y = np.arange(40) % 2 if known is None else np.array([known.min, known.max] * 20, dtype)
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = mm.SVMClassifier(tol=0.5, random_state=0).fit(X, y.astype(dtype))
    assert np.array_equal(model.classes_, np.unique(y.astype(dtype))) and model.classes_.dtype == np.dtype(dtype)
