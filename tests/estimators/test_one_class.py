"""`OneClassSVM` against a convex solver and against scikit-learn's free offset."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import convex as cp
from helpers.certificates import consistent
from sklearn import svm
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

import maxmargin as mm


def drawn(seed: int = 0, n: int = 120, shift: float = 2.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 4)) + shift, rng.integers(0, 4, n).astype(float)


def optimum(X, weight, nu, a):
    w, rho = cp.Variable(X.shape[1]), cp.Variable()
    losses = cp.sum(cp.multiply(weight, cp.pos(rho - X @ w))) / (nu * weight.sum())
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) - rho + cp.square(rho) / (2.0 * a**2) + losses))
    return cp.solved(problem) + a**2 / 2.0, w.value, float(rho.value)


@pytest.mark.parametrize("solver", ["dual_coordinate", "newton", "bundle"])
@pytest.mark.parametrize(("nu", "shift"), [(0.05, 2.0), (0.4, 0.5), (1.0, 2.0)])
def test_the_optimum_of_a_convex_solver(solver, nu, shift):
    X, weight = drawn(shift=shift)
    model = mm.OneClassSVM(nu, tol=1e-7, solver=solver, random_state=0).fit(X, sample_weight=weight)
    assert model.offset_scale_ == pytest.approx(3.0 * np.sqrt(weight @ np.sum(X**2, axis=1) / weight.sum()))
    value, w, rho = optimum(X, weight, nu, model.offset_scale_)
    consistent(model)
    found = model.certificate_
    assert found.converged and found.dual <= value * (1 + 1e-8) and value <= found.primal * (1 + 1e-8)
    np.testing.assert_allclose(model.coef_, w, atol=1e-2)
    assert model.offset_ == pytest.approx(rho, abs=1e-2)
    losses = weight @ np.maximum(0.0, -model.decision_function(X)) / (nu * weight.sum())
    a = model.offset_scale_
    objective = 0.5 * model.coef_ @ model.coef_ + (model.offset_ - a**2) ** 2 / (2 * a**2) + losses
    assert objective == pytest.approx(found.primal, rel=1e-9)


@pytest.mark.parametrize("nu", [0.05, 0.4])
def test_the_model_is_that_of_a_free_offset_at_another_nu(nu):
    X, weight = drawn(1)
    model = mm.OneClassSVM(nu, tol=1e-9, random_state=0).fit(X, sample_weight=weight)
    free = svm.OneClassSVM(kernel="linear", nu=model.nu_, tol=1e-5).fit(X, sample_weight=weight)
    assert nu / (1 + 1 / (9 * (1 - nu))) <= model.nu_ <= nu
    mine, theirs = model.decision_function(X) * nu / model.nu_, free.decision_function(X) / (model.nu_ * weight.sum())
    np.testing.assert_allclose(mine, theirs, atol=1e-4 * np.abs(theirs).max())
    near = 1e-4 * np.abs(mine).max()
    assert weight[mine < -near].sum() <= model.nu_ * weight.sum() <= weight[mine < near].sum()
    looser = mm.OneClassSVM(nu, intercept_scaling=30.0, tol=1e-6, random_state=0).fit(X, sample_weight=weight)
    assert 0.998 * nu <= looser.nu_ <= nu


def test_answers_and_shapes():
    X, _ = drawn(2)
    model = mm.OneClassSVM(0.2, tol=1e-6, keep_duals=True, random_state=0)
    found = model.fit_predict(X)
    assert set(found.tolist()) == {-1, 1} and model.coef_.shape == (4,) and isinstance(model.offset_, float)
    scores = X @ model.coef_
    np.testing.assert_allclose(model.score_samples(X), scores, rtol=1e-12)
    np.testing.assert_allclose(model.decision_function(X), scores - model.offset_, atol=1e-9)
    np.testing.assert_array_equal(found, np.where(model.decision_function(X) >= 0, 1, -1))
    np.testing.assert_array_equal(found, model.predict(X))
    assert model.intercept_ == -model.offset_ and not hasattr(model, "C_") and "C" not in model.get_params()
    assert model.nu_ == pytest.approx(model.nu * (1 - model.offset_ / model.offset_scale_**2))
    np.testing.assert_allclose(model.dual_coef_ @ X, model.coef_, atol=1e-9)
    assert model.dual_coef_.sum() == pytest.approx(model.nu_ / model.nu)
    assert np.all(model.dual_coef_ <= 1.0 / (model.nu * len(X)) * (1 + 1e-12)) and np.all(model.dual_coef_ >= 0)


def test_weights_forms_and_scales():
    X, weight = drawn(3)
    params = {"nu": 0.3, "tol": 1e-8, "random_state": 0}
    model = mm.OneClassSVM(**params).fit(X, sample_weight=weight)
    repeated = mm.OneClassSVM(**params).fit(np.repeat(X, weight.astype(int), axis=0))
    np.testing.assert_allclose(repeated.coef_, model.coef_, atol=1e-3)
    sparse = mm.OneClassSVM(**params).fit(sp.csr_array(X), sample_weight=weight)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_array(X)), model.decision_function(X), atol=1e-2)
    large = mm.OneClassSVM(**params).fit(1e3 * X, sample_weight=5.0 * weight)  # as good as X itself: scores are squares
    np.testing.assert_allclose(1e-6 * large.decision_function(1e3 * X), model.decision_function(X), atol=1e-2)
    assert large.nu_ == pytest.approx(model.nu_, rel=1e-3)


def test_a_path_and_a_warm_start():
    X, _ = drawn(4)
    path = mm.OneClassSVM(tol=1e-6, random_state=0).regularization_path(X, None, [1.0, 2.0, 10.0])
    for model, nu in zip(path, (1.0, 0.5, 0.1), strict=True):
        alone = mm.OneClassSVM(nu, tol=1e-6, random_state=0).fit(X)
        assert model.nu == nu and model.certificate_.converged and model.offset_scale_ == alone.offset_scale_
        assert model.certificate_.primal == pytest.approx(alone.certificate_.primal, rel=1e-6)
    warm = mm.OneClassSVM(0.1, tol=1e-6, warm_start=True, random_state=0).fit(X)
    first = warm.n_iter_
    assert warm.fit(X).n_iter_ <= first and warm.certificate_.converged


def test_novelties_behind_a_kernel_map():
    X, _ = drawn(5, 200, 0.0)
    model = make_pipeline(Nystroem(gamma=0.1, n_components=40, random_state=0), mm.OneClassSVM(0.1, tol=1e-4, random_state=0))
    assert (model.fit(X).predict(X) == 1).mean() >= 0.89
    assert model.predict([[6.0, 6.0, 6.0, 6.0], [0.0, 0.0, 0.0, 0.0]]).tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("params", "X", "words"),
    [
        ({"nu": 0.0}, np.ones((3, 2)), r"'nu' parameter of OneClassSVM must be a float in the range \(0.0, 1.0\]"),
        ({"nu": 1.5}, np.ones((3, 2)), "'nu' parameter of OneClassSVM"),
        ({"intercept_scaling": 0.0}, np.ones((3, 2)), "'intercept_scaling' parameter of OneClassSVM"),
        ({}, np.zeros((3, 2)), "Every sample of positive weight is a row of zeros"),
        ({}, [[1.0, np.nan]], "NaN"),
        ({}, np.full((2, 2), 1e200), "Row 0 of X is too large: its squared norm overflows"),
    ],
)
def test_bad_input(params, X, words):
    with pytest.raises(ValueError, match=words):
        mm.OneClassSVM(**params).fit(X)


def test_more_bad_input():
    X, _ = drawn()
    with pytest.raises(ValueError, match="OneClassSVM needs its samples in memory"):
        mm.OneClassSVM().fit(mm.open_source([(X, X[:, 0])]))
    with pytest.raises(ValueError, match=r"1 / nu and at least 1, since nu <= 1; got 0.5"):
        mm.OneClassSVM().regularization_path(X, None, [0.5, 2.0])
    with pytest.raises(ValueError, match=r"zero for every sample|at least one non-zero"):
        mm.OneClassSVM().fit(X, sample_weight=np.zeros(len(X)))
