"""`Newton` on the top-k losses: an interior point with bounds from above, which grow with the sum of the duals for alpha."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.certificates import check, consistent, recomputed
from helpers.drawn import features, labels, prior, seed_of, signs, weights
from helpers.reference import reference
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.losses import TopKAlphaLoss, TopKBetaLoss
from maxmargin.problems.linear import BlockProblem
from maxmargin.solvers.base import NOWHERE, Setting
from maxmargin.solvers.newton import work
from maxmargin.solvers.second_order.interior_topk import GrowingRows

TOL, K = 1e-8, 5
FORMS = [(loss, smoothing) for loss in ("topk_alpha", "topk_beta") for smoothing in (0.0, 0.5)]
OPTIONS = [("none", "free"), ("mean+scale", "mask"), ("covariance", "positive"), ("mean+covariance", "free")]


@pytest.mark.parametrize(("kind", "sign"), OPTIONS)
@pytest.mark.parametrize("k", [1, 2, 4])  # 4: all the other classes
@pytest.mark.parametrize(("loss", "smoothing"), FORMS)
def test_an_independent_optimum(loss, smoothing, k, kind, sign):
    rng = np.random.default_rng(seed_of("newton topk", loss, smoothing, k, kind, sign))
    X = features(rng, 30, 4)
    y, weight = labels(rng, X, K), weights(rng, 30)
    weight[:K] = 1.0  # every class counts
    params = prior(rng, kind, 4, None if "covariance" in kind else K) | signs(sign, 4)
    model = mm.TopKSVMClassifier(0.5, k=k, loss=loss, smoothing=smoothing, tol=TOL, solver="newton", max_iter=60, **params)
    check(model.fit(X, y, sample_weight=weight), reference(model, X, y, weight))
    consistent(model)


@pytest.mark.parametrize(("loss", "smoothing"), FORMS)
def test_forms_of_data_and_other_solvers(loss, smoothing):
    rng = np.random.default_rng(3)
    X = np.where(rng.random((60, 6)) < 0.5, rng.normal(size=(60, 6)), 0.0)
    y = labels(rng, X, K)
    model = mm.TopKSVMClassifier(k=2, loss=loss, smoothing=smoothing, solver="newton", tol=TOL, max_iter=60, keep_duals=True)
    first = clone(model).fit(X, y)
    recomputed(first, reference(model, X, y))
    wanted = first.certificate_
    for data in (sp.csr_array(X), X.astype(np.float32), sp.csr_array(X.astype(np.float32))):
        found = clone(model).fit(data, y).certificate_
        rel = 1e-4 if data.dtype == np.float32 else 3 * TOL
        assert found.converged and found.primal == pytest.approx(wanted.primal, rel=rel)
    other = clone(model).set_params(solver="dual_coordinate", max_iter=100_000, random_state=0).fit(X, y).certificate_
    assert other.dual <= wanted.primal * (1 + 1e-12) and wanted.dual <= other.primal * (1 + 1e-12)


@pytest.mark.parametrize("C", [0.01, 100.0])
@pytest.mark.parametrize(("loss", "smoothing"), FORMS)
def test_columns_of_any_size(loss, smoothing, C):
    rng = np.random.default_rng(1)
    wine, digits = load_wine(return_X_y=True), load_digits(return_X_y=True)
    for k, (X, y) in ((2, wine), (3, (digits[0][:150, 20:30], digits[1][:150]))):
        for data in (X, X * 10.0 ** rng.uniform(-4, 4, X.shape[1])):
            model = mm.TopKSVMClassifier(C, k=k, loss=loss, smoothing=smoothing, tol=1e-7, solver="newton", max_iter=60)
            found = model.fit(data, y).certificate_
            assert found.converged and found.dual <= found.primal * (1 + 1e-12)


@pytest.mark.parametrize("loss", ["topk_alpha", "topk_beta"])
def test_sharp_places(loss):
    """Separable data at any C, zeros, repeated rows, one sample a class, caps that differ by 1e8."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 4))
    y = np.arange(30) % K
    cases = [
        (np.hstack([X, X, np.zeros((30, 2))]), y, None, 1.0),
        (np.vstack([X, X, 0 * X]), np.tile(y, 3), None, 1e4),
        (np.eye(K)[y] + 0.01 * rng.normal(size=(30, K)), y, None, 1e8),
        (X[:K], np.arange(K), None, 1.0),
        (X, y, 10.0 ** np.linspace(-8, 0, 30), 100.0),
        (np.ones((10, 1)), np.arange(10) % K, None, 1.0),
    ]
    for data, target, weight, C in cases:
        for k in (2, 4):
            model = mm.TopKSVMClassifier(C, k=k, loss=loss, solver="newton", tol=1e-6, max_iter=80)
            assert model.fit(data, target, sample_weight=weight).certificate_.converged, (k, C)


@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from([TopKAlphaLoss, TopKBetaLoss]),
    C=st.sampled_from([1e-3, 1.0, 1e3]),
    smoothing=st.sampled_from([0.0, 0.1, 5.0]),
)
def test_every_pass_is_certified(seed, kind, C, smoothing):
    """P >= D after each step, with feasible duals."""
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(2, 25)), int(rng.integers(1, 6)), int(rng.integers(1, K))
    table = table_of(rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 3, d), float(rng.integers(0, 2)))
    weight = rng.integers(0, 3, n) * 10.0 ** rng.uniform(-3, 0, n)
    problem = BlockProblem(table, rng.integers(0, K, n), weight, 1.0 - np.eye(K), kind(k, smoothing)).at(C)
    run = mm.Newton().begin(problem, NOWHERE, Setting(1e-6))
    for _ in range(6):
        run.advance(lambda: False)
        dual = run.synchronise()
        np.testing.assert_allclose(problem.clipped(run.left()), run.left(), rtol=1e-14, atol=0.0)
        assert problem.reevaluated(run.left()).dual == pytest.approx(dual, rel=1e-14)
        for w in run.candidates():
            assert problem.primal(w) >= dual - 1e-12 * abs(dual)


@pytest.mark.parametrize(("loss", "smoothing"), FORMS)
def test_duals_of_others_are_taken_up(loss, smoothing):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(80, 4)) * [1.0, 30.0, 1.0, 0.1]
    y = labels(rng, X, K)
    model = mm.TopKSVMClassifier(10.0, k=2, loss=loss, smoothing=smoothing, tol=1e-8, max_iter=20, warm_start=True)
    with pytest.warns(match="Raise max_iter"):
        model.set_params(solver="dual_coordinate").fit(X, y)
    before = model.certificate_
    model.set_params(solver="newton", max_iter=60).fit(X, y)
    assert model.certificate_.converged and model.history_[0].primal <= before.primal * (1 + 1e-12)
    assert model.fit(X, y).n_iter_ == 0


@pytest.mark.parametrize("loss", ["topk_alpha", "topk_beta"])
def test_the_choice(loss):
    """Coordinate passes hand over where they crawl."""
    X, y = load_digits(return_X_y=True)
    X = X[:200, 20:28] * 10.0 ** np.arange(-4.0, 4.0)
    model = mm.TopKSVMClassifier(k=3, loss=loss, tol=1e-7, random_state=0).fit(X, y[:200])
    assert model.certificate_.converged
    assert [name for _, name in model.history_.methods] == ["DualCoordinate", "Newton"]


def test_repeated_samples_are_weights():
    rng = np.random.default_rng(6)
    X, count = rng.normal(size=(25, 3)), rng.integers(1, 4, 25)
    y = np.arange(25) % K
    model = mm.TopKSVMClassifier(k=2, solver="newton", tol=1e-9, max_iter=60)
    weighed = clone(model).fit(X, y, sample_weight=count.astype(float))
    repeated = clone(model).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    assert weighed.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=3e-9)
    np.testing.assert_allclose(weighed.coef_, repeated.coef_, atol=1e-3)


@pytest.mark.parametrize("spread", [0.0, 6.0])
@pytest.mark.parametrize("k", [1, 3, 4])
def test_the_matrix_of_a_row(k, spread):
    """N is the inverse of what the multipliers say on rows that sum to zero, also where these differ by any factor."""
    rng = np.random.default_rng(k)
    n, C = 12, 0.7
    y = rng.integers(0, K, n)
    problem = BlockProblem(table_of(rng.normal(size=(n, 2)), 1.0), y, np.ones(n), 1.0 - np.eye(K), TopKAlphaLoss(k, 0.3)).at(C)
    run = mm.Newton().begin(problem, NOWHERE, Setting())
    run.against = tuple(10.0 ** rng.uniform(-spread, spread, s.shape) for s in run.against)
    run.system.prepare(run.theta(), run.shape.B)
    assert isinstance(run.system, GrowingRows)
    u, rows = rng.normal(size=(n, K)), np.arange(n)
    found = run.system.applied(u)
    np.testing.assert_allclose(found.sum(axis=1), 0.0, atol=1e-12 * np.abs(found).max())
    for i in rows:
        others = np.arange(K) != y[i]
        E = np.diag(run.against[0][i] / run.inside[0][i] + 0.3 / C * others)
        if k < K - 1:
            A = np.eye(K)[others]
            A[:, y[i]] = 1.0 / k
            E += A.T @ np.diag(run.against[1][i] / run.inside[1][i]) @ A
        basis = np.linalg.svd(np.ones((1, K)))[2][1:].T
        if k == K - 1:  # the others are tied to each other
            basis = np.where(others, 1.0 / k, -1.0)[:, None]
        wanted = basis @ np.linalg.solve(basis.T @ E @ basis, basis.T @ u[i])
        np.testing.assert_allclose(found[i], wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


def test_systems_are_solved():
    """B dW - X' db = g and db = h - N X dW."""
    rng = np.random.default_rng(10)
    X = rng.normal(size=(12, 6))
    full = np.column_stack([X, np.full(12, 2.0)])
    theta, B = rng.random((12, 3)) + 0.01, rng.random((3, 7)) + 0.1
    g, h = rng.normal(size=(3, 7)), rng.normal(size=(12, 3))
    for data in (X, sp.csr_array(X)):
        system = GrowingRows(table_of(data, 2.0))
        system.growth, system.way = rng.random((12, 1)), rng.normal(size=(12, 3))
        assert system.prepare(theta, B)
        dW, db = system.solve(g, h)
        np.testing.assert_allclose(B * dW - db.T @ full, g, atol=1e-8)
        N = [np.diag(t) - np.outer(t, t) / t.sum() + r * np.outer(w, w) for t, r, w in zip(theta, system.growth, system.way)]
        wanted = h - np.array([n @ z for n, z in zip(N, full @ dW.T, strict=True)])
        np.testing.assert_allclose(db, wanted, atol=1e-8)
        assert system.bent(theta, h) == pytest.approx(sum(a @ n @ a for n, a in zip(N, h, strict=True)))


def test_work_and_what_float64_can_do():
    rng = np.random.default_rng(12)
    table, weight = table_of(rng.normal(size=(20, 3)), 1.0), np.ones(20)
    alpha, beta = (
        BlockProblem(table, np.arange(20) % K, weight, 1.0 - np.eye(K), kind(2)) for kind in (TopKAlphaLoss, TopKBetaLoss)
    )
    assert 20 * (3 * K) ** 2 < work(beta) < work(alpha)
    for problem in (alpha, beta):
        run = mm.Newton().begin(problem, NOWHERE, Setting(tol=0.0))
        for _ in range(100):
            run.advance(lambda: False)
            run.synchronise()
        primal = min(problem.primal(w) for w in run.candidates())
        assert run.stuck and -1e-12 * primal <= primal - run.dual <= 1e-9 * primal


def test_a_mean_far_beyond_the_signs():
    """The walls push with what the prior asks for, which is any number of times what the losses weigh."""
    rng = np.random.default_rng(31)
    X, y = rng.normal(size=(6, 3)), np.arange(6) % 3
    mean, scale = rng.normal(size=(3, 3)) - 1.0, 10.0 ** rng.uniform(-1, 1, (3, 3))
    model = mm.TopKSVMClassifier(
        k=2, loss="topk_beta", smoothing=0.1, C=2e-4, tol=1e-6, solver="newton", max_iter=100, positive=True, prior_mean=mean
    )
    assert model.set_params(prior_scale=scale).fit(X, y).certificate_.converged
