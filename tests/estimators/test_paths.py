"""Paths read their samples once and hand weights on; risks count them."""

import numpy as np
import pytest
from sklearn.base import clone

import maxmargin as mm
from maxmargin.data import rows
from maxmargin.estimators import kernel, multilabel
from maxmargin.estimators import linear as base
from maxmargin.structures import Chain

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 4))
LABEL = X @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.5 * rng.normal(size=30)
TWO, FIVE = (LABEL > 0).astype(int), np.digitize(LABEL, [-2, -1, 0, 1])
MANY = (X @ rng.normal(size=(4, 3)) > 0).astype(int)
WEIGHT = np.arange(30) % 4
SENTENCES = [rng.normal(size=(4, 3)) for _ in range(12)]
TAGS = [x.argmax(axis=1) for x in SENTENCES]
CS = [0.1, 1.0, 10.0]
SETTING = {"tol": 1e-4, "random_state": 0}


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)


def counted(monkeypatch, module, name):
    monkeypatch.setattr(module, name, Counted(getattr(module, name)))
    return getattr(module, name)


LINEAR = {
    "binary": (mm.SVMClassifier(**SETTING), TWO, "C", (base, "table_of"), (rows, "squared_norms")),
    "regression": (mm.SVMRegressor(**SETTING), LABEL, "C", (base, "table_of"), (rows, "squared_norms")),
    "topk": (mm.TopKSVMClassifier(k=2, **SETTING), FIVE, "C", (base, "table_of"), (rows, "squared_norms")),
    "topk over k": (mm.TopKSVMClassifier(**SETTING), FIVE, "k", (base, "table_of"), (rows, "squared_norms")),
    "multilabel": (mm.MultilabelSVMClassifier(**SETTING), MANY, "C", (multilabel, "table_of"), (rows, "squared_norms")),
    "rbf": (mm.MultilabelSVMClassifier(kernel="rbf", **SETTING), MANY, "C", (kernel, "gram_of")),
    "binary rbf": (mm.SVMClassifier(kernel="rbf", **SETTING), TWO, "C", (kernel, "gram_of")),
    "rows rbf": (mm.SVMClassifier(kernel="rbf", **SETTING), FIVE, "C", (kernel, "gram_of")),
}


@pytest.mark.parametrize("case", LINEAR)
def test_samples_are_checked_once_and_the_models_are_those_of_warm_starts(case, monkeypatch):
    model, y, name, *once = LINEAR[case]
    calls = [counted(monkeypatch, *place) for place in ((base, "validate_data"), (base, "checked_matrix"), *once)]
    values = CS if name == "C" else [1, 2, 3]
    path = model.regularization_path(X, y, CS) if name == "C" else model.topk_path(X, y, values)
    assert [found.calls for found in calls] == [1] * len(calls)
    warm = clone(model).set_params(warm_start=True)
    for step, value in zip(path, values, strict=True):
        warm.set_params(**{name: value}).fit(X, y)
        assert (step.certificate_.primal, step.certificate_.dual) == (warm.certificate_.primal, warm.certificate_.dual)
        assert step.n_features_in_ == 4 and step.get_params()[name] == value
        np.testing.assert_array_equal(step.intercept_, warm.intercept_)
        np.testing.assert_array_equal(step.predict(X), warm.predict(X))


def test_a_path_over_k_refuses_one_that_is_too_large():
    with pytest.raises(ValueError, match="k=5 guesses among the 5 classes"):
        mm.TopKSVMClassifier(**SETTING).topk_path(X, FIVE, [2, 5])


def multilabel_objective(model):
    margins = 1.0 - (2 * MANY - 1) * model.decision_function(X)
    losses = np.maximum(margins, 0.0).sum(axis=1)
    return 0.5 * np.sum(model.coef_**2) + 0.5 * np.sum(model.intercept_**2) + model.C * WEIGHT @ losses


def structured_objective(model):
    s, w, total = model.structure_, model.w_, 0.0
    for x, y, weight in zip(SENTENCES, TAGS, WEIGHT):
        worst = s.loss_augmented_decode(w, x, y)
        total += weight * (s.loss(y, worst) + w @ (s.joint_feature(x, worst) - s.joint_feature(x, y)))
    return 0.5 * w @ w + model.C * total


def latent_objective(model):
    sign = np.where(np.array([t[0] for t in TAGS]) == 1, 1.0, -1.0)
    losses = np.maximum(0.0, 1.0 - sign * model.decision_function(SENTENCES))
    return 0.5 * np.sum(model.coef_**2) + 0.5 * np.sum(model.intercept_**2) + model.C * WEIGHT[:12] @ losses


PATHS = {
    "multilabel": (mm.MultilabelSVMClassifier(loss="hinge", **SETTING), X, MANY, WEIGHT, multilabel_objective),
    "structured": (mm.StructuredSVM(Chain(), **SETTING), SENTENCES, TAGS, WEIGHT[:12], structured_objective),
    "latent": (mm.LatentSVMClassifier(**SETTING), SENTENCES, [int(t[0] == 1) for t in TAGS], WEIGHT[:12], latent_objective),
}


@pytest.mark.parametrize("case", PATHS)
def test_paths_count_the_weights_of_samples(case):
    model, given, y, weight, objective = PATHS[case]
    for step in model.regularization_path(given, y, CS[:2], sample_weight=weight):
        reached = step.outer_history_[-1] if case == "latent" else step.certificate_.primal
        assert objective(step) == pytest.approx(reached, rel=1e-9)


RISKS = {
    "binary": (mm.SVMClassifier(), X, TWO, WEIGHT),
    "regression": (mm.SVMRegressor(), X, LABEL, WEIGHT),
    "multilabel": (mm.MultilabelSVMClassifier(), X, MANY, WEIGHT),
    "structured": (mm.StructuredSVM(Chain()), SENTENCES, TAGS, WEIGHT[:12]),
}


@pytest.mark.parametrize("case", RISKS)
def test_risks_count_the_weights_of_samples(case):
    model, given, y, weight = RISKS[case]
    times = np.repeat(np.arange(len(weight)), weight)
    weighted = model.risk(given, y, sample_weight=weight)
    repeated = model.risk([given[i] for i in times], [y[i] for i in times])
    for w in (np.zeros(weighted.dim), np.random.default_rng(1).normal(size=weighted.dim)):
        (value, slope), (other, other_slope) = weighted(w), repeated(w)
        assert value == pytest.approx(other, rel=1e-12) and value > 0.0
        np.testing.assert_allclose(slope, other_slope, atol=1e-10)
    assert model.risk(given, y)(w)[0] != pytest.approx(value, rel=1e-3)


RISING = {
    "hinge": (mm.SVMClassifier(**SETTING), TWO),
    "squared hinge": (mm.SVMClassifier(loss="squared_hinge", **SETTING), TWO),
    "logistic": (mm.SVMClassifier(loss="log_loss", **SETTING), TWO),
    "prior": (mm.SVMClassifier(prior_mean=0.3, prior_scale=0.5, **SETTING), TWO),
    "signs": (mm.SVMClassifier(positive=True, **SETTING), TWO),
    "Crammer-Singer": (mm.SVMClassifier(**SETTING), FIVE),
    "multi-label": (mm.MultilabelSVMClassifier(loss="hinge", **SETTING), MANY),
    "regression": (mm.SVMRegressor(**SETTING), LABEL),
}


@pytest.mark.parametrize("case", RISING)
def test_a_start_from_smaller_c_is_never_worse_than_its_duals(case):
    model, y = RISING[case]
    for before, after in zip(path := model.regularization_path(X, y, [1e-4, 1e-3, 1e2, 1e3]), path[1:], strict=False):
        first = after.history_[0]
        assert first.iteration == 0 or case == "multi-label"  # whose labels follow each other
        assert first.dual >= before.certificate_.dual - 1e-9 * abs(before.certificate_.dual) or case == "multi-label"
        assert after.certificate_.converged


@pytest.mark.parametrize("case", ["hinge", "Crammer-Singer", "regression"])
def test_duals_at_their_bounds_rise_with_c(case):
    """At a small C all are there: ten times as large they are nearly the optimum at ten times the C."""
    model, y = RISING[case]
    small, large = model.regularization_path(X, y, [1e-5, 1e-4])
    assert large.history_[0].iteration == 0
    assert large.history_[0].dual > 9.5 * small.certificate_.dual
