"""Kernels of `SVMClassifier` and `SVMRegressor`: the optimum is that of linear models on a factor of the kernel matrix."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel, sigmoid_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC, LinearSVR

import maxmargin as mm
from maxmargin.data.kernel_functions import gamma_of
from maxmargin.data.sources.memory import Arrays

N, D, GAMMA, BIAS = 70, 4, 0.4, 0.7
rng = np.random.default_rng(2)
X = np.where(rng.random((N, D)) < 0.4, 0.0, rng.standard_normal((N, D))).astype(np.float32).astype(np.float64)
NEW = rng.standard_normal((9, D))
SCORES = np.sin(1.5 * X @ rng.standard_normal((D, 3))) + 0.2 * rng.standard_normal((N, 3))
TWO, THREE, REAL = np.where(SCORES[:, 0] > 0, "b", "a"), SCORES.argmax(axis=1), SCORES[:, 1]
WEIGHT = rng.uniform(0.3, 2.0, N)
K = rbf_kernel(X, gamma=GAMMA) + BIAS**2
RBF = {"kernel": "rbf", "gamma": GAMMA, "intercept_scaling": BIAS, "tol": 1e-7, "random_state": 0, "max_iter": 100_000}
EXACT = {"fit_intercept": False, "tol": 1e-10, "max_iter": 1_000_000}
SEED = {"random_state": 0}
FORMS = {"dense": np.asarray, "sparse": sp.csr_matrix, "float32": lambda X: X.astype(np.float32)}
VALUES = {
    "hinge": lambda m: np.maximum(1.0 - m, 0.0),
    "squared_hinge": lambda m: np.maximum(1.0 - m, 0.0) ** 2,
    "log_loss": lambda m: np.logaddexp(0.0, -m),
    "squared_error": lambda m: (1.0 - m) ** 2,
}
REWARDS = {  # of a = y b at the cap c
    "hinge": lambda a, c: a,
    "squared_hinge": lambda a, c: a - a * a / (4.0 * c),
    "squared_error": lambda a, c: a - a * a / (4.0 * c),
    "log_loss": lambda a, c: -a * np.log(a / c) - (c - a) * np.log1p(-a / c),
}


def factor() -> np.ndarray:
    """F F' = K + bias^2"""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0.0))


F = factor()


def between(model, optimum, rel=1e-6):
    """Whether the certificate holds, and the optimum lies within it."""
    found = model.certificate_
    assert found.converged and found.verified
    assert found.dual <= optimum * (1 + rel) and optimum <= found.primal * (1 + rel)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_two_classes_are_linear_svc_on_a_factor(loss, form):
    factors = {"a": 0.5, "b": 3.0}
    model = mm.SVMClassifier(2.0, loss=loss, class_weight=factors, **RBF).fit(FORMS[form](X), TWO, WEIGHT)
    peer = LinearSVC(C=2.0, loss=loss, class_weight=factors, **EXACT, **SEED).fit(F, TWO, WEIGHT)
    z, w = F @ peer.coef_.ravel(), peer.coef_.ravel()
    caps = 2.0 * WEIGHT * np.where(TWO == "b", 3.0, 0.5)
    between(model, 0.5 * w @ w + caps @ VALUES[loss](np.where(TWO == "b", z, -z)))
    assert np.allclose(model.decision_function(FORMS[form](X)), z, atol=2e-3)
    assert model.dual_coef_.shape == (N,) and model.intercept_.shape == (1,) and not hasattr(model, "coef_")
    assert np.array_equal(model.support_, np.flatnonzero(model.dual_coef_))


@pytest.mark.parametrize("loss", VALUES)
def test_certificates_of_two_classes_are_those_of_plain_numpy(loss):
    """P and D from `dual_coef_` and the kernel matrix alone, margins of `cost` among them."""
    cost = None if loss == "log_loss" else [[0.0, 0.5], [2.0, 0.0]]
    model = mm.SVMClassifier(0.7, loss=loss, cost=cost, **RBF).fit(X, TWO, WEIGHT)
    sign, b, caps = np.where(TWO == "b", 1.0, -1.0), model.dual_coef_, 0.7 * WEIGHT
    margin = np.ones(N) if cost is None else np.where(TWO == "b", 2.0, 0.5)
    s, a = K @ b, sign * b
    term = 0.5 * b @ s
    primal = term + caps @ VALUES[loss](sign * s + (1.0 - margin))
    dual = np.sum(REWARDS[loss](a, caps)) + (margin - 1.0) @ a * (cost is not None) - term
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-9) and model.certificate_.dual == pytest.approx(
        dual, rel=1e-9
    )
    assert np.all(a >= 0.0) or loss == "squared_error"
    assert np.all(a <= caps * (1 + 1e-12)) or loss.startswith("squared")


def test_two_classes_with_the_logistic_loss_are_logistic_regression_on_a_factor():
    model = mm.SVMClassifier(2.0, loss="log_loss", **RBF).fit(X, TWO, WEIGHT)
    peer = LogisticRegression(C=2.0, **EXACT).fit(F, TWO, WEIGHT)
    assert np.allclose(model.decision_function(X), F @ peer.coef_.ravel(), atol=2e-3)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_regression_is_linear_svr_on_a_factor(loss, form):
    for C in (0.5, 20.0):
        model = mm.SVMRegressor(C, loss=loss, epsilon=0.05, **RBF).fit(FORMS[form](X), REAL, WEIGHT)
        peer = LinearSVR(C=C, loss=loss, epsilon=0.05, **EXACT, **SEED).fit(F, REAL, WEIGHT)
        excess = np.maximum(np.abs(REAL - F @ peer.coef_) - 0.05, 0.0)
        losses = excess if loss == "epsilon_insensitive" else excess**2
        between(model, 0.5 * peer.coef_ @ peer.coef_ + C * WEIGHT @ losses)
        assert np.allclose(model.predict(FORMS[form](X)), F @ peer.coef_, atol=3e-3)
    assert model.predict(FORMS[form](NEW)).shape == (9,) and model.dual_coef_.shape == (N,)
    b = model.dual_coef_
    primal = 0.5 * b @ K @ b + C * WEIGHT @ VALUES_OF_REAL[loss](REAL - K @ b)
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-6 if form == "float32" else 1e-9)


VALUES_OF_REAL = {
    "epsilon_insensitive": lambda r: np.maximum(np.abs(r) - 0.05, 0.0),
    "squared_epsilon_insensitive": lambda r: np.maximum(np.abs(r) - 0.05, 0.0) ** 2,
}


def test_squared_loss_is_ridge_regression_on_a_factor():
    model = mm.SVMRegressor(2.0, loss="squared_error", **RBF | {"tol": 1e-9}).fit(X, REAL, WEIGHT)
    peer = Ridge(alpha=0.25, fit_intercept=False).fit(F, REAL, WEIGHT)
    assert np.allclose(model.predict(X), F @ peer.coef_, atol=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_classes_against_the_rest_are_linear_svc_on_a_factor(loss):
    """With its class weights: only on what a sample costs its own class."""
    factors = {0: 2.0, 1: 1.0, 2: 0.3}
    model = mm.SVMClassifier(1.5, loss=loss, multi_class="ovr", class_weight=factors, **RBF).fit(X, THREE, WEIGHT)
    peer = LinearSVC(C=1.5, loss=loss, class_weight=factors, **EXACT, **SEED).fit(F, THREE, WEIGHT)
    own = THREE[:, None] == np.arange(3)
    z = F @ peer.coef_.T
    caps = 1.5 * WEIGHT[:, None] * np.where(own, [2.0, 1.0, 0.3], 1.0)
    between(model, 0.5 * np.sum(peer.coef_**2) + np.sum(caps * VALUES[loss](np.where(own, z, -z))))
    assert np.allclose(model.decision_function(X), z, atol=2e-3) and model.dual_coef_.shape == (N, 3)
    assert np.array_equal(model.predict(X), z.argmax(axis=1))


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_classes_against_the_rest_are_models_of_two_classes(loss):
    model = mm.SVMClassifier(1.5, loss=loss, multi_class="ovr", **RBF).fit(X, THREE, WEIGHT)
    each = [mm.SVMClassifier(1.5, loss=loss, **RBF).fit(X, k == THREE, WEIGHT) for k in range(3)]
    assert model.certificate_.primal == pytest.approx(sum(one.certificate_.primal for one in each), rel=1e-6)
    assert np.allclose(model.decision_function(NEW), np.column_stack([one.decision_function(NEW) for one in each]), atol=3e-3)


@pytest.mark.parametrize("form", FORMS)
def test_crammer_and_singers_loss_is_linear_svc_on_a_factor(form):
    for C in (0.2, 5.0):
        model = mm.SVMClassifier(C, **RBF | {"tol": 1e-6}).fit(FORMS[form](X), THREE, WEIGHT)
        peer = LinearSVC(C=C, multi_class="crammer_singer", **EXACT, **SEED).fit(F, THREE, WEIGHT)
        z = F @ peer.coef_.T
        slack = np.max(z + (THREE[:, None] != np.arange(3)), axis=1) - z[np.arange(N), THREE]
        between(model, 0.5 * np.sum(peer.coef_**2) + C * WEIGHT @ slack, 2e-6)
        assert np.allclose(model.decision_function(FORMS[form](X)), z, atol=1e-2)


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_certificates_of_all_classes_are_those_of_plain_numpy(loss):
    """With costs and class weights, from scratch: the duals are feasible, and P and D are theirs."""
    cost = None if loss == "log_loss" else np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [3.0, 0.2, 0.0]])
    model = mm.SVMClassifier(0.6, loss=loss, cost=cost, class_weight="balanced", **RBF | {"tol": 1e-5}).fit(X, THREE, WEIGHT)
    mass = np.bincount(THREE, WEIGHT)
    caps = 0.6 * WEIGHT * (mass.sum() / (3 * mass))[THREE]
    B, rows = model.dual_coef_, np.arange(N)
    S = K @ B
    term, own = 0.5 * np.vdot(B, S), S[rows, THREE]
    wrong = -B.copy()
    wrong[rows, THREE] = 0.0
    assert np.allclose(B.sum(axis=1), 0.0, atol=1e-12) and wrong.min() >= 0.0 and np.all(wrong.sum(axis=1) <= caps * (1 + 1e-12))
    if cost is None:
        p = np.column_stack([wrong, caps - wrong.sum(axis=1)])
        primal = term + caps @ (np.log(np.exp(S - own[:, None]).sum(axis=1)))
        dual = -np.sum(p * np.log(np.maximum(p, 1e-300) / caps[:, None])) - term
    else:
        primal = term + caps @ (np.max(S + cost[THREE], axis=1) - own)
        dual = np.sum(wrong * cost[THREE]) - term
    assert model.certificate_.converged and dual <= primal
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-9) and model.certificate_.dual == pytest.approx(
        dual, rel=1e-9
    )


MODELS = {
    "two classes": (mm.SVMClassifier(**RBF), TWO),
    "regression": (mm.SVMRegressor(**RBF), REAL),
    "ovr": (mm.SVMClassifier(multi_class="ovr", **RBF), THREE),
    "all classes": (mm.SVMClassifier(**RBF | {"tol": 1e-6}), THREE),
    "log_loss": (mm.SVMClassifier(loss="log_loss", **RBF), TWO),
}


def answers(model, X):
    return model.predict(X) if isinstance(model, mm.SVMRegressor) else model.decision_function(X)


def named(A, B):
    """A kernel function that pickles."""
    return rbf_kernel(A, B, gamma=GAMMA)


@pytest.mark.parametrize("name", MODELS)
def test_precomputed_functions_copies_and_pickles(name):
    given, y = MODELS[name]
    model = clone(given).fit(X, y)
    expected = answers(model, NEW)
    shape = (9, 3) if y is THREE else (9,)
    assert expected.shape == shape and expected.dtype == np.float64
    near = {"rtol": 0.0, "atol": 5e-3 * np.abs(expected).max()}
    assert np.array_equal(answers(pickle.loads(pickle.dumps(model)), NEW), expected)
    assert not hasattr(clone(model), "dual_coef_")
    function = clone(given).set_params(kernel=named).fit(X, y)
    assert np.allclose(answers(function, NEW), expected, **near)
    whole = clone(given).set_params(kernel="precomputed").fit(named(X, X), y)
    assert np.allclose(answers(whole, named(NEW, X)), expected, **near)
    assert whole.__sklearn_tags__().input_tags.pairwise and not model.__sklearn_tags__().input_tags.pairwise
    small = clone(given).set_params(cache_size=0.02).fit(X, y)  # a tenth of the rows or so
    assert np.allclose(answers(small, NEW), expected, **near)
    assert small.certificate_.primal == pytest.approx(model.certificate_.primal, rel=3e-6)


@pytest.mark.parametrize("name", MODELS)
def test_warm_starts_paths_and_the_way_back_to_linear(name):
    given, y = MODELS[name]
    model = clone(given).set_params(warm_start=True).fit(X, y)
    assert model.fit(X, y).n_iter_ <= 1
    path = given.regularization_path(X, y, [0.1, 1.0])
    assert path[1].certificate_.primal == pytest.approx(model.certificate_.primal, rel=2e-6)
    model.set_params(kernel="linear").fit(X, y)
    assert hasattr(model, "coef_") and not hasattr(model, "support_") and not hasattr(model, "dual_coef_")
    flat = answers(model, NEW)
    assert np.allclose(flat, np.squeeze(NEW @ model.coef_.T + model.intercept_))
    assert model.set_params(kernel="poly", degree=1, gamma=1.0).fit(X, y).certificate_.converged
    assert not hasattr(model, "coef_") and np.allclose(answers(model, NEW), flat, atol=0.02 * np.abs(flat).max())
    pieces = clone(model).set_params(kernel="linear")
    with pytest.raises(AttributeError, match="partial_fit is for kernel='linear', and this model has kernel='poly': call fit"):
        model.partial_fit(X, y)
    assert hasattr(pieces.partial_fit(X, y, **({} if y is REAL else {"classes": np.unique(y)})), "coef_")


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_gamma_is_that_of_svc(form):
    y = REAL > 0
    for word, gamma in (("scale", 1.0 / (D * (2.0 * X + 1.0).var())), ("auto", 1.0 / D)):
        model, given = (mm.SVMClassifier(kernel="rbf", gamma=each, random_state=0) for each in (word, gamma))
        found, expected = (each.fit(form(2.0 * X + 1.0), y).decision_function(form(NEW)) for each in (model, given))
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    default = mm.SVMClassifier(kernel="rbf", random_state=0).fit(form(X), y).decision_function(NEW)
    scale = mm.SVMClassifier(kernel="rbf", gamma=1.0 / (D * X.var()), random_state=0).fit(form(X), y).decision_function(NEW)
    np.testing.assert_allclose(default, scale, rtol=1e-9)
    assert gamma_of("scale", form(np.full((4, 2), 3.0))) == 1.0  # no variance


PEERS = {
    "poly": lambda A, B: polynomial_kernel(A, B, degree=2, gamma=0.3, coef0=0.5),
    "sigmoid": lambda A, B: sigmoid_kernel(A, B, gamma=0.3, coef0=0.5),
    "rbf": lambda A, B: rbf_kernel(A, B, gamma=0.3),
}


@pytest.mark.parametrize("fitted_to", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("kernel", ["poly", "sigmoid", "rbf"])
def test_predictions_are_sums_of_kernel_values(kernel, fitted_to):
    """Of scikit-learn's kernel functions, over the support; X to predict may be of another form, and of any number of rows."""
    model = mm.SVMRegressor(kernel=kernel, gamma=0.3, degree=2, coef0=0.5, intercept_scaling=BIAS, tol=1e-2, max_iter=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a sigmoid is not positive semidefinite
        model.fit(fitted_to(X), REAL)
    b = model.dual_coef_
    assert model.intercept_ == pytest.approx(BIAS**2 * b.sum())
    many = np.random.default_rng(0).standard_normal((1100, D))
    expected = PEERS[kernel](many, X[model.support_]) @ b[model.support_] + model.intercept_
    for form in (np.asarray, sp.csr_matrix):
        np.testing.assert_allclose(model.predict(form(many)), expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(model.predict(form(many[:1])), expected[:1], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(model.set_params(n_jobs=2).predict(many), model.set_params(n_jobs=None).predict(many))


def test_which_polynomials_are_positive_semidefinite():
    y = REAL > 0
    assert mm.SVMClassifier(kernel="poly", coef0=0.0, degree=3, random_state=0).fit(X, y).certificate_.verified
    with pytest.warns(ConvergenceWarning, match="not positive semidefinite"):
        model = mm.SVMClassifier(kernel="poly", coef0=-1.0, degree=2, max_iter=20, random_state=0).fit(X, y)
    assert not model.certificate_.verified


def test_a_model_without_support():
    for kernel in ("rbf", named):  # scikit-learn's functions refuse to be asked about no samples
        model = mm.SVMRegressor(kernel=kernel, epsilon=100.0).fit(X, REAL)
        assert model.support_.size == 0 and model.predict(NEW).tolist() == [0.0] * len(NEW)


def test_kernel_functions_are_checked():
    for wrong, sentence in (
        (lambda A, B: np.full((len(A), len(B)), np.nan), "not finite"),
        (lambda A, B: np.ones((len(B), len(A) + 1)), "returned shape"),
        (lambda A, B: np.full((len(A), len(B)), 1e200), "1e\\+200 in size"),
    ):
        with pytest.raises(ValueError, match=sentence):
            mm.SVMClassifier(kernel=wrong).fit(X, TWO)
        found = mm.SVMClassifier(kernel=lambda A, B, wrong=wrong: (wrong if len(A) == 2 else named)(A, B)).fit(X, TWO)
        with pytest.raises(ValueError, match=sentence):
            found.predict(NEW[:2])


def test_a_search_over_kernels():
    search = GridSearchCV(mm.SVMClassifier(tol=1e-2), {"kernel": ["rbf", "poly"], "C": [0.1, 10.0]}, cv=2).fit(X, TWO)
    assert search.best_score_ > 0.5
    search = GridSearchCV(mm.SVMClassifier(kernel="precomputed", tol=1e-2), {"C": [0.1, 10.0]}, cv=2).fit(named(X, X), TWO)
    assert search.best_score_ > 0.5


def test_indefinite_kernels_are_told():
    for model, y in (
        (mm.SVMClassifier(), TWO), (mm.SVMClassifier(), THREE), (mm.SVMRegressor(loss="epsilon_insensitive"), REAL),
    ):  # fmt: skip
        model.set_params(kernel="sigmoid", gamma=2.0, max_iter=20)
        with pytest.warns(ConvergenceWarning, match="not positive semidefinite"):
            model.fit(X, y)
        assert not model.certificate_.verified and np.all(np.isfinite(model.dual_coef_))


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_labels_have_all_losses(loss):
    """The same optimum as the linear model, where labels are coupled too."""
    Y, R = (SCORES > 0).astype(int), np.full((3, 3), 0.3) + 0.7 * np.eye(3)
    for prior in (None, R):
        linear = mm.MultilabelSVMClassifier(0.5, loss=loss, label_prior=prior, tol=1e-6).fit(X, Y, WEIGHT)
        kernel = clone(linear).set_params(kernel="poly", degree=1, gamma=1.0, max_iter=100_000).fit(X, Y, WEIGHT)
        assert kernel.certificate_.primal == pytest.approx(linear.certificate_.primal, rel=3e-6)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"positive": True}, r"positive is for kernel='linear', .*; with kernel='rbf' leave it out"),
        ({"prior_mean": np.ones(D)}, "prior_mean is for kernel='linear'"),
        ({"prior_scale": np.ones(D)}, "prior_scale is for kernel='linear'"),
        ({"prior_covariance": np.eye(D)}, "prior_covariance is for kernel='linear'"),
        ({"cache_size": 1e-6}, "cache_size is too small"),
        ({"gamma": 0.0}, "gamma"),
        ({"kernel": "laplace"}, "kernel"),
        ({"kernel": "precomputed"}, "must be square"),
    ],
)
def test_refused(settings, sentence):
    for model, y in ((mm.SVMClassifier(**RBF), THREE), (mm.SVMRegressor(**RBF), REAL)):
        with pytest.raises(ValueError, match=sentence):
            model.set_params(**settings).fit(X, y)


def test_what_needs_weights_is_refused():
    model = mm.SVMClassifier(**RBF)
    with pytest.raises(ValueError, match="A kernel needs all samples in memory; sources are for kernel='linear'"):
        model.fit(Arrays(X, THREE))
    with pytest.raises(AttributeError, match="risk is for kernel='linear'"):
        model.risk(X, THREE)
    with pytest.raises(TypeError, match="Bundle serves no kernels"):
        clone(model).set_params(solver="bundle").fit(X, THREE)
    with pytest.raises(TypeError, match="use solver='dual_coordinate'"):
        clone(model).set_params(solver="frank_wolfe").fit(X, THREE)
