"""A relative gap of 1e-10 with every loss and estimator, however the columns are scaled: certified in few passes, or said to be
beyond float64."""

import warnings

import numpy as np
import pytest
from helpers import convex as cp
from helpers.convex import solved
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

import maxmargin as mm
from maxmargin.structures import Chain, Multiclass

TOL, MANY = 1e-10, 2500
LIMITS = "limit of float64", "for rounding"
N, D, K = 60, 5, 3
rng = np.random.default_rng(7)
ROWS, NOISE, WAYS = rng.normal(size=(N, D)), rng.normal(size=(N, K)), rng.normal(size=(D, K))
SCORES = ROWS @ WAYS + 0.7 * NOISE
R = 0.6 * np.eye(K) + 0.4
COST = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
SETS = {"even": ROWS, "uneven columns": ROWS * np.logspace(-3, 3, D), "uneven rows": ROWS * np.logspace(-2, 1, N)[:, None]}
CS, GAMMA = (0.01, 1.0, 100.0), 0.2
TWO, THREE, LABELS, REAL = (SCORES[:, 0] > 0).astype(int), SCORES.argmax(axis=1), (SCORES > 0).astype(int), SCORES[:, 0]


def families():
    for loss in ("hinge", "squared_hinge", "log_loss", "squared_error"):
        yield f"two classes, {loss}", mm.SVMClassifier(loss=loss), TWO
        yield f"against the rest, {loss}", mm.SVMClassifier(loss=loss, multi_class="ovr"), THREE
        yield f"labels, {loss}", mm.MultilabelSVMClassifier(loss=loss), LABELS
        yield f"coupled labels, {loss}", mm.MultilabelSVMClassifier(loss=loss, label_prior=R), LABELS
    yield "classes", mm.SVMClassifier(), THREE
    yield "costs", mm.SVMClassifier(cost=COST), THREE
    yield "multinomial", mm.SVMClassifier(loss="log_loss"), THREE
    for loss in ("topk_alpha", "topk_beta"):
        for smoothing in (0.0, 0.5):
            yield f"{loss}, {smoothing}", mm.TopKSVMClassifier(k=2, loss=loss, smoothing=smoothing), THREE
    for loss in ("epsilon_insensitive", "squared_epsilon_insensitive", "squared_error"):
        yield loss, mm.SVMRegressor(loss=loss), REAL
        yield f"rbf, {loss}", mm.SVMRegressor(loss=loss, kernel="rbf"), REAL
    for loss in ("hinge", "squared_hinge", "log_loss"):
        yield f"rbf, {loss}", mm.SVMClassifier(loss=loss, kernel="rbf"), TWO
    yield "rbf, classes", mm.SVMClassifier(kernel="rbf"), THREE
    yield "rbf, against the rest", mm.SVMClassifier(kernel="rbf", multi_class="ovr"), THREE
    yield "rbf, coupled labels", mm.MultilabelSVMClassifier(kernel="rbf", label_prior=R), LABELS
    yield "ranking", mm.RankingSVM(), REAL
    yield "ordinal", mm.OrdinalSVM(), np.digitize(REAL, [-1.0, 1.0])
    yield "one class", mm.OneClassSVM(nu=0.2), None
    yield "structured classes", mm.StructuredSVM(Multiclass()), THREE
    yield "chains", mm.StructuredSVM(Chain()), THREE
    yield "bags", mm.LatentSVMClassifier(), TWO


FAMILIES = {name: (model, y) for name, model, y in families()}


def samples(model, X, y):
    if isinstance(model, mm.OneClassSVM):
        return (X + 2.0,)
    if isinstance(model, mm.LatentSVMClassifier):
        return list(X.reshape(-1, 3, X.shape[1])), y[::3]
    if isinstance(model, mm.StructuredSVM) and isinstance(model.structure, Chain):
        return list(X.reshape(-1, 4, X.shape[1])), list(y.reshape(-1, 4))
    if isinstance(model, mm.RankingSVM):
        return X, y, None, None  # one group
    return X, y


def fitted(model, X, y, **parameters):
    own = model.get_params()
    given = {"tol": TOL, "random_state": 0} | {name: value for name, value in parameters.items() if name in own}
    model = clone(model).set_params(**given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*samples(model, X, y))


@pytest.mark.compiled
@pytest.mark.parametrize("name", FAMILIES)
def test_a_gap_that_float64_can_tell(name):
    for kind, X in SETS.items():
        for C in CS:
            model = fitted(FAMILIES[name][0], X, FAMILIES[name][1], C=C)
            found, passes = model.certificate_, int(np.max(model.n_iter_))
            assert found.converged or any(limit in found.message for limit in LIMITS), (kind, C, found.message)
            assert passes <= MANY and found.dual <= found.primal * (1.0 + 1e-9), (kind, C, passes)


def optimum(name, X, C):
    """By a convex solver; a constant column stands for the intercept, and kernels are factored."""
    Z = np.column_stack([X, np.ones(len(X))])
    if name.startswith("rbf"):
        Z = np.linalg.cholesky(rbf_kernel(X, gamma=GAMMA) + 1.0)
    sign = 2.0 * TWO - 1.0
    if name in ("classes", "costs"):
        W = cp.Variable((K, Z.shape[1]))
        cost = COST if name == "costs" else 1.0 - np.eye(K)
        S = Z @ W.T
        risk = cp.sum(cp.max(S + cost[THREE], axis=1) - cp.sum(cp.multiply(S, np.eye(K)[THREE]), axis=1))
        return solved(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W) + C * risk)), 1e-9)
    w = cp.Variable(Z.shape[1])
    z = Z @ w
    losses = {
        "two classes, hinge": lambda: cp.pos(1.0 - cp.multiply(sign, z)),
        "rbf, hinge": lambda: cp.pos(1.0 - cp.multiply(sign, z)),
        "two classes, squared_hinge": lambda: cp.square(cp.pos(1.0 - cp.multiply(sign, z))),
        "epsilon_insensitive": lambda: cp.pos(cp.abs(REAL - z) - mm.SVMRegressor().epsilon),
    }
    return solved(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + C * cp.sum(losses[name]()))), 1e-9)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "name", ["two classes, hinge", "two classes, squared_hinge", "epsilon_insensitive", "classes", "costs", "rbf, hinge"]
)
def test_the_optimum_of_a_convex_solver(name):
    for C in (0.01, 1.0):
        kernel = {"gamma": GAMMA} if name.startswith("rbf") else {}
        found, value = fitted(FAMILIES[name][0], ROWS, FAMILIES[name][1], C=C, **kernel).certificate_, optimum(name, ROWS, C)
        assert found.primal == pytest.approx(value, rel=1e-6) and found.dual == pytest.approx(value, rel=1e-6)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "name", ["two classes, hinge", "two classes, log_loss", "classes", "multinomial", "topk_beta, 0.0", "ordinal"]
)
def test_paths_of_newton(name):
    """Each C is begun from the one before, and ends where a fit of its own does."""
    model, y = FAMILIES[name]
    Cs = np.logspace(-2, 3, 6)
    given = clone(model).set_params(solver="newton", tol=1e-8, random_state=0)
    path = given.regularization_path(SETS["uneven columns"], y, Cs)
    for C, result in zip(Cs, path, strict=True):
        alone = clone(given).set_params(C=C).fit(SETS["uneven columns"], y)
        found, wanted = result.certificate_, alone.certificate_
        assert found.converged and abs(found.primal - wanted.primal) <= 2e-8 * wanted.primal
        assert result.n_iter_ <= 100


@pytest.mark.compiled
def test_few_samples_and_many_columns_of_all_sizes():
    """Newton's method has a point that is near where the weights of its duals are far; passes that stall give way to it."""
    rng = np.random.default_rng(7)
    X, ways = rng.normal(size=(40, 100)), rng.normal(size=(100, 4))
    y = (X @ ways + rng.normal(size=(40, 4))).argmax(axis=1)
    X = X * np.logspace(-3, 3, 100)
    for model in (mm.SVMClassifier(), mm.SVMClassifier(cost=COST_OF_FOUR), mm.TopKSVMClassifier(k=2, loss="topk_beta")):
        for C in (1.0, 100.0):
            assert fitted(model, X, y, C=C).certificate_.converged


COST_OF_FOUR = np.random.default_rng(1).integers(1, 4, (4, 4)) * (1.0 - np.eye(4))


@pytest.mark.compiled
def test_kernel_classes_that_are_far_apart():
    """Rounds propose in float32: what they spoil is taken back."""
    y = (ROWS @ WAYS).argmax(axis=1)
    model = fitted(mm.SVMClassifier(kernel="rbf"), ROWS, y, C=1e4)
    assert model.certificate_.converged and model.n_iter_ <= 200
