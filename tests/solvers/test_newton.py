"""`Newton` on differentiable losses: the optimum, whatever the columns look like, in few steps."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import lsq_linear, nnls
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.losses import BINARY, REGRESSION
from maxmargin.losses.base import bend, slope
from maxmargin.solvers import resolve
from maxmargin.solvers.second_order.walls import Walls

rng = np.random.default_rng(7)
N, D = 90, 5
X = rng.normal(size=(N, D)) + 0.5
Z = X @ rng.normal(size=D) + rng.normal(size=N)
WEIGHT = rng.integers(0, 3, N).astype(float)
MODELS = {
    "squared hinge": (mm.SVMClassifier(loss="squared_hinge"), Z > 0),
    "log loss": (mm.SVMClassifier(loss="log_loss"), Z > 0),
    "squared error, two classes": (mm.SVMClassifier(loss="squared_error"), Z > 0),
    "squared error": (mm.SVMRegressor(loss="squared_error"), Z),
    "squared epsilon-insensitive": (mm.SVMRegressor(loss="squared_epsilon_insensitive", epsilon=0.3), Z),
}
PRIORS = {
    "plain": {},
    "prior": {"prior_mean": np.linspace(-1, 1, D), "prior_scale": np.linspace(0.5, 2, D)},
    "covariance": {"prior_covariance": np.eye(D) + 0.5},
}


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_same_optimum_as_coordinate_ascent(name, prior, C):
    model, y = MODELS[name]
    model = clone(model).set_params(C=C, tol=1e-9, random_state=0, **PRIORS[prior])
    found = clone(model).set_params(solver="newton").fit(X, y, sample_weight=WEIGHT)
    wanted = clone(model).set_params(solver="dual_coordinate").fit(X, y, sample_weight=WEIGHT)
    assert found.certificate_.converged and found.n_iter_ <= 30
    assert found.certificate_.primal == pytest.approx(wanted.certificate_.primal, rel=3e-9)
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-3, atol=1e-4 * np.abs(wanted.coef_).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows(dtype):
    sparse = sp.csr_array(np.where(rng.random(X.shape) < 0.4, X, 0.0).astype(dtype))
    model = mm.SVMClassifier(loss="log_loss", solver="newton", tol=1e-8)
    found, wanted = clone(model).fit(sparse, Z > 0), clone(model).fit(sparse.toarray(), Z > 0)
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_columns_of_any_size(name):
    """Where coordinate ascent needs tens of thousands of passes."""
    model, y = MODELS[name]
    model = clone(model).set_params(solver="newton", tol=1e-6)
    uneven = X * np.array([1e-4, 1e4, 1.0, 1e2, 1e-2])
    assert clone(model).fit(uneven, y).certificate_.converged
    twice = np.hstack([X, X, np.zeros((N, 1))])
    assert clone(model).set_params(C=1e8).fit(twice, y).n_iter_ < 60


def test_raw_data():
    X, y = load_breast_cancer(return_X_y=True)
    for loss in ("squared_hinge", "log_loss"):
        model = mm.SVMClassifier(loss=loss, solver="newton", tol=1e-8).fit(X, y)
        assert model.certificate_.converged and model.n_iter_ <= 60
    peer = LogisticRegression(solver="liblinear", tol=1e-10, max_iter=100_000).fit(X, y)
    own = mm.SVMClassifier(loss="log_loss", solver="newton", tol=1e-10).fit(X, y)
    np.testing.assert_allclose(own.decision_function(X), peer.decision_function(X), atol=0.02)


def test_ridge_in_one_step():
    X, y = load_diabetes(return_X_y=True)
    model = mm.SVMRegressor(loss="squared_error", C=3.0, fit_intercept=False, tol=1e-12).fit(X, y)
    assert model.n_iter_ == 1 and model.certificate_.converged
    np.testing.assert_allclose(model.coef_, Ridge(alpha=1 / 6.0, fit_intercept=False).fit(X, y).coef_, rtol=1e-9)


def test_duals_rebuild_the_weights_and_start_others():
    model = mm.SVMClassifier(loss="log_loss", solver="newton", tol=1e-10, keep_duals=True, warm_start=True, fit_intercept=False)
    model.fit(X, Z > 0)
    np.testing.assert_allclose(model.dual_coef_ @ X, model.coef_[0], rtol=1e-9)
    assert model.fit(X, Z > 0).n_iter_ == 0
    path = mm.SVMRegressor(loss="squared_epsilon_insensitive", solver="newton", tol=1e-8).regularization_path(
        X, Z, [0.1, 1.0, 10.0]
    )
    assert all(fitted.certificate_.converged for fitted in path)


@pytest.mark.parametrize("seed", [6, 8, 9, 11, 19, 23, 34, 51, 55])
def test_weights_of_the_duals_on_half_spaces(seed):
    """Where columns are large, slopes at weights that are rounded are duals of others: they are mended at their own weights."""
    rng, n, d, C = np.random.default_rng(seed), 7, 10, 5e3
    rows, root = rng.integers(-2, 3, (n, d)) * 10.0 ** rng.uniform(-3, 3.2, d), 2.0 * rng.normal(size=(d, d))
    y, sigma, positive = rng.normal(size=n), root @ root.T + 0.1 * np.eye(d), rng.random(d) < 0.7
    given = {"C": C, "positive": positive, "prior_covariance": sigma, "keep_duals": True, "tol": 1e-6, "solver": "newton"}
    found = mm.SVMRegressor(loss="squared_error", **given).fit(rows, y).certificate_
    stacked = np.zeros((d + 1 + n, d + 1))  # the quadratic term and the losses as one sum of squares
    stacked[:d, :d], stacked[d, d] = np.linalg.inv(np.linalg.cholesky(sigma)), 1.0
    stacked[d + 1 :] = np.sqrt(2.0 * C) * np.column_stack([rows, np.ones(n)])
    bounds = np.where(np.append(positive, False), 0.0, -np.inf), np.inf
    wanted = lsq_linear(stacked, np.append(np.zeros(d + 1), np.sqrt(2.0 * C) * y), bounds, method="bvls", tol=1e-14).cost
    assert found.converged, found.message
    assert found.dual <= wanted * (1.0 + 1e-7) and found.primal == pytest.approx(wanted, rel=2e-6)


def test_duals_of_walls_that_a_point_stands_on():
    rng = np.random.default_rng(0)
    for _ in range(20):
        G, w = rng.normal(size=(4, 7)), 100.0 * rng.normal(size=7)
        wanted, _ = nnls(G.T, -w)  # the nearest point with G w >= 0
        found = Walls(np.zeros(4), np.arange(0), G).supporting(w, wanted > 0.0)
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
        assert np.all(np.abs(G @ (w + G.T @ found))[wanted > 0.0] <= 1e-11)


def test_the_choice():
    assert type(resolve("auto")).__name__ == "Automatic"
    wide = mm.SVMRegressor(loss="squared_error").fit(rng.normal(size=(4, 9)), [1.0, 2.0, 3.0, 5.0])  # fewer rows than columns
    assert wide.certificate_.converged
    signed = mm.SVMRegressor(loss="squared_error", positive=True).fit(X, Z)
    assert signed.certificate_.converged and np.all(signed.coef_ >= 0.0)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (mm.SVMRegressor(loss="squared_error", solver=mm.Newton(max_features=4)), "there are 5: more than max_features=4"),
        (mm.SVMClassifier(solver=mm.Newton(max_features=9)), "classes x features, and there are 15: more than max_features=9"),
        (mm.TopKSVMClassifier(k=2, solver=mm.Newton(max_features=9)), "classes x features, and there are 15"),
        (mm.StructuredSVM(mm.structures.Multiclass(), solver="newton"), "in memory, which a StructuredProblem has not"),
        (
            mm.MultilabelSVMClassifier(label_prior=np.full((2, 2), 0.5) + np.eye(2), solver=mm.Newton(max_features=9)),
            "labels x features, and there are 10: more than max_features=9",
        ),
    ],
)
def test_what_it_does_not_serve(model, said):
    y = Z if isinstance(model, mm.SVMRegressor) else np.digitize(Z, [-1.0, 1.0])
    if isinstance(model, mm.MultilabelSVMClassifier):
        y = np.column_stack([Z > 0, Z > 1]).astype(int)
    with pytest.raises(TypeError, match=said):
        model.fit(X, y)
    with pytest.raises(ValueError, match="max_features"):
        mm.SVMRegressor(loss="squared_error", solver=mm.Newton(max_features=0)).fit(X, Z)


@pytest.mark.parametrize("kind", [*BINARY.values(), *REGRESSION.values()], ids=lambda kind: kind.__name__)
def test_second_derivatives(kind):
    """Against differences of slopes, away from where they jump."""
    if not kind.smooth:
        return
    target = (np.array([1.0, -1.0]), np.ones(2)) if kind in BINARY.values() else (np.array([0.7, -2.0]),)
    loss, h = kind().of(*target, np.array([1.5, 0.3])), 1e-5
    for i in range(2):
        for score in (-3.01, -0.4, 0.33, 2.5):
            wanted = (slope(loss, i, score - h) - slope(loss, i, score + h)) / (2 * h)
            assert bend(loss, i, score) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_weighted_products_of_blocks(bias):
    weight = rng.random(N) * (rng.random(N) < 0.7)
    full = np.column_stack([X, np.full(N, bias)])
    for data in (X, sp.csr_matrix(X), X.astype(np.float32)):
        found = sum(block.weighted_products(weight[block.start : block.stop]) for block in table_of(data, bias).blocks(17))
        np.testing.assert_allclose(found, full.T @ (weight[:, None] * full), rtol=1e-5 if data.dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("even", [True, False])
def test_squared_error_of_many_rows_takes_one_step(even, dtype):
    rng = np.random.default_rng(4)
    many = rng.normal(size=(9_000, 3)).astype(dtype)  # more than one block
    y, weight = many @ np.array([1.0, -2.0, 0.5]) + rng.normal(size=9_000), None if even else rng.integers(0, 3, 9_000)
    model = mm.SVMRegressor(loss="squared_error", C=2.0, tol=1e-9).fit(many, y, weight)
    A, s = np.column_stack([many.astype(float), np.ones(9_000)]), np.ones(9_000) if even else weight
    best = np.linalg.solve(A.T @ (4.0 * s[:, None] * A) + np.eye(4), A.T @ (4.0 * s * y))
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), best, rtol=1e-7)
    assert model.n_iter_ == 1 and model.certificate_.converged
