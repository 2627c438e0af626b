"""Numbers at both ends: squares that overflow, values that are nothing but rounding."""

import math

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin.structures import Multiclass


def test_bundle_methods_where_stochastic_gradients_diverge():
    rng = np.random.default_rng(0)
    X, y = 1e3 * rng.normal(size=(40, 3)), rng.normal(size=40)
    Y = (rng.normal(size=(40, 2)) > 0).astype(int)
    for model, target in (
        (mm.SVMRegressor(1e8, loss="squared_epsilon_insensitive", epsilon=0.0), y),
        (mm.SVMClassifier(1e8, loss="squared_hinge"), Y[:, 0]),
        (mm.MultilabelSVMClassifier(1e8, loss="squared_hinge"), Y),
    ):
        with pytest.warns(ConvergenceWarning):
            model.set_params(solver="bundle", tol=1e-9, max_iter=3, random_state=0).fit(X, target)
        found = model.certificate_
        at_zero = 1e8 * (np.sum(y**2) if target is y else target.size)
        assert found.verified and 0.0 <= found.dual <= found.primal <= at_zero * (1 + 1e-12) and np.all(np.isfinite(model.coef_))


def test_risks_that_overflow_are_told_in_a_sentence():
    rng = np.random.default_rng(0)
    X, y = 1e200 * rng.normal(size=(12, 2)), np.arange(12) % 3
    for solver in ("bundle", "dual_coordinate"):
        with pytest.raises(ValueError, match=r"overflow|too large"):
            mm.StructuredSVM(Multiclass(), solver=solver, max_iter=5).fit(X, y)


def test_a_risk_that_overflows_only_far_away():
    def risk(w):
        with np.errstate(over="ignore"):
            return float(np.exp(np.abs(w - 3.0)).sum()), np.sign(w - 3.0) * np.exp(np.abs(w - 3.0))

    def checked(w):  # `minimize` refuses infinity, which a user can avoid
        value, slope = risk(np.clip(w, -700.0, 700.0))
        return value, slope

    result = mm.minimize(checked, 2, C=1e3, tol=1e-4, solver=mm.Bundle(init=np.full(2, 650.0)), max_iter=3000)
    assert result.certificate.dual <= result.certificate.primal < np.inf


def test_rounding_is_no_accusation():
    """Large terms that cancel: a plane lies above exact values by rounding, and all the numbers beside it are small."""
    rng = np.random.default_rng(0)
    a = 1e13 * rng.normal(size=30)

    def risk(w):
        exact = math.fsum(a * w)
        return np.r_[abs(exact), np.abs(w - 1.0)], np.vstack([np.sign(exact) * a, np.diag(np.sign(w - 1.0))])

    result = mm.minimize(risk, 30, tol=1e-3, max_iter=40)
    assert result.certificate.dual <= result.certificate.primal


def test_planes_keep_keep_duals_out_of_latent_models_too():
    X = np.random.default_rng(0).normal(size=(8, 2, 3))
    with pytest.raises(ValueError, match="keep_duals=True does not go with Bundle"):
        mm.LatentSVMClassifier(solver="bundle", keep_duals=True).fit(X, np.arange(8) % 2)
