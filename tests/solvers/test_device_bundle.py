"""Bundle methods and risks on tensors: the optimum of dual ascent, and planes that lie below the losses and touch them."""

import numpy as np
import pytest
import torch
from helpers import drawn, multilabel
from helpers.devices import methods_of_devices, tensor  # noqa: F401 - a fixture of all tests

import maxmargin as mm

COST = np.array([[0.0, 1.0, 2.0, 0.5], [0.5, 0.0, 1.0, 1.0], [3.0, 1.0, 0.0, 1.0], [1.0, 0.2, 1.0, 0.0]])
CASES = {
    "two classes": (mm.SVMClassifier, 2, {"cost": [[0, 2.0], [0.5, 0]]}),
    "logistic": (mm.SVMClassifier, 2, {"loss": "log_loss"}),
    "classes": (mm.SVMClassifier, 4, {"cost": COST, "class_weight": "balanced"}),
    "multinomial": (mm.SVMClassifier, 4, {"loss": "log_loss"}),
    "each against the rest": (mm.SVMClassifier, 4, {"loss": "squared_hinge", "fit_intercept": False}),
    "top-2": (mm.TopKSVMClassifier, 4, {"k": 2}),
    "top-2, smoothed": (mm.TopKSVMClassifier, 4, {"k": 2, "smoothing": 0.5, "loss": "topk_beta"}),
    "regression": (mm.SVMRegressor, None, {"epsilon": 0.2}),
    "regression, squared": (mm.SVMRegressor, None, {"loss": "squared_epsilon_insensitive", "epsilon": 0.2}),
}


def drawn_case(name, n=37):
    kind, K, params = CASES[name]
    rng = np.random.default_rng(drawn.seed_of(name))
    X = drawn.features(rng, n).astype(np.float32)
    y = drawn.targets(rng, X) if K is None else drawn.labels(rng, X, K)
    return kind(C=0.1, tol=1e-3, random_state=0, **params), X, y, drawn.weights(rng, n)


def agree(one, other):
    one, other = one.certificate_, other.certificate_
    assert one.converged and other.converged and one.dual <= other.primal and other.dual <= one.primal


@pytest.mark.parametrize("name", CASES)
def test_a_bundle_finds_the_optimum_of_dual_ascent(name):
    model, X, y, weight = drawn_case(name)
    found = model.set_params(solver="bundle").fit(tensor(X), tensor(y), weight)
    agree(found, drawn_case(name)[0].fit(tensor(X), tensor(y), weight))


@pytest.mark.parametrize("solver", [mm.Bundle(prox=False), mm.Bundle(n_models=1, init="zero")])
def test_priors_signs_and_other_bundles(solver):
    model, X, y, weight = drawn_case("classes")
    rng = np.random.default_rng(1)
    prior = {**drawn.prior(rng, "mean scale", X.shape[1], 4), **drawn.signs("mask", X.shape[1])}
    found = model.set_params(solver=solver, **prior).fit(tensor(X), tensor(y), weight)
    agree(found, drawn_case("classes")[0].set_params(**prior).fit(tensor(X), tensor(y), weight))


@pytest.mark.parametrize("coupled", [False, True])
def test_labels(coupled):
    X, Y = multilabel.data(n=40)
    Y = multilabel.some_missing(Y)
    R = multilabel.correlated(3) if coupled else None
    pair = [
        mm.MultilabelSVMClassifier(0.2, loss="hinge", label_prior=R, solver=solver, random_state=0).fit(tensor(X), tensor(Y))
        for solver in ("bundle", "auto")
    ]
    agree(*pair)
    np.testing.assert_allclose(pair[0].decision_function(X), pair[1].decision_function(X), atol=0.2)


@pytest.mark.parametrize("groups", [1, 5])
@pytest.mark.parametrize("name", CASES)
def test_a_risk_is_that_of_arrays(name, groups):
    """Values and subgradients at random weights; and the plane there is below the risk elsewhere."""
    model, X, y, weight = drawn_case(name)
    risk, same = (model.risk(*given, weight, n_groups=groups) for given in ((tensor(X), tensor(y)), (X.astype(float), y)))
    rng = np.random.default_rng(3)
    assert risk.dim == same.dim and risk.n_groups == groups
    for _ in range(3):
        w = rng.normal(size=risk.dim)
        for one, other in zip(risk(w), same(w)):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
        cut, elsewhere = risk.cut(w), rng.normal(size=risk.dim)
        np.testing.assert_allclose(cut.offsets + cut.slopes @ w, cut.values, rtol=1e-9)
        assert np.all(cut.offsets + cut.slopes @ elsewhere <= risk.cut(elsewhere).values * (1 + 1e-9) + 1e-9)


def test_a_risk_of_labels_and_minimize():
    X, Y = multilabel.data(n=30)
    model = mm.MultilabelSVMClassifier(label_prior=multilabel.correlated(3), fit_intercept=False)
    risk, same = model.risk(tensor(X), tensor(Y)), model.risk(X, Y)
    w = np.random.default_rng(0).normal(size=risk.dim)
    for one, other in zip(risk(w), same(w)):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    found = mm.minimize(risk, risk.dim, C=0.1, tol=1e-3).certificate
    whole = mm.MultilabelSVMClassifier(0.1, fit_intercept=False, random_state=0).fit(tensor(X), tensor(Y)).certificate_
    assert found.converged and found.dual <= whole.primal and whole.dual <= found.primal


def test_a_path_keeps_its_planes_and_duals_are_not_there():
    model, X, y, weight = drawn_case("classes")
    path = model.set_params(solver="bundle").regularization_path(tensor(X), tensor(y), [0.05, 0.1], weight)
    assert all(each.certificate_.converged for each in path)
    alone = model.set_params(C=0.1).fit(tensor(X), tensor(y), weight)
    assert path[1].n_iter_ < alone.n_iter_
    with pytest.raises(ValueError, match="init='sgd' serves neither priors, signs, tensors"):
        model.set_params(solver=mm.Bundle(init="sgd")).fit(tensor(X), tensor(y))
    assert isinstance(alone.predict(tensor(X)), torch.Tensor)
