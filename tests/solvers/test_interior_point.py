"""`Newton` on losses with kinks, rows of classes, signs and labels: an interior point, and what it shares with the others."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.certificates import check, consistent, recomputed
from helpers.drawn import features, labels, prior, seed_of, signs, targets, weights
from helpers.newton import check_steps
from helpers.reference import reference
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_linnerud, load_wine

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.losses import CrammerSingerLoss, HingeLoss, SquaredHingeLoss
from maxmargin.problems.linear import BlockProblem, ScalarProblem
from maxmargin.solvers.base import NOWHERE, Setting, Start
from maxmargin.solvers.newton import work
from maxmargin.solvers.second_order.interior_topk import GrowingRows
from maxmargin.solvers.second_order.sample_systems import RowsFirst, ScalarRows
from maxmargin.solvers.second_order.systems import RowColumns, ScalarColumns, WallRows

TOL = 1e-8
OPTIONS = [
    *((kind, "free") for kind in ("none", "mean+scale", "mean+covariance")),
    *((kind, "mask") for kind in ("none", "mean+scale", "covariance")),
]
CLASSIFIERS = ("hinge", "squared_hinge")
REGRESSORS = ("epsilon_insensitive", "squared_epsilon_insensitive")


# ---- against an independent convex solver -------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", CLASSIFIERS)
@pytest.mark.parametrize(("kind", "sign"), OPTIONS)
def test_binary(loss, kind, sign):
    rng = np.random.default_rng(seed_of("newton", loss, kind, sign))
    X = features(rng, 40, 5)
    y = np.array(["no", "yes"])[labels(rng, X, 2)]
    params = prior(rng, kind, 5) | signs(sign, 5) | {"cost": [[0.0, 0.7], [1.8, 0.0]], "intercept_scaling": 2.0}
    model, weight = mm.SVMClassifier(C=0.3, loss=loss, tol=TOL, solver="newton", max_iter=60, **params), weights(rng, len(X))
    check(model.fit(X, y, sample_weight=weight), reference(model, X, y, weight))
    consistent(model)


@pytest.mark.parametrize("loss", REGRESSORS)
@pytest.mark.parametrize(("kind", "sign"), OPTIONS)
def test_regression(loss, kind, sign):
    rng = np.random.default_rng(seed_of("newton", loss, kind, sign))
    X = features(rng, 40, 5)
    y, weight = targets(rng, X), weights(rng, len(X))
    params = prior(rng, kind, 5) | signs(sign, 5)
    model = mm.SVMRegressor(C=0.3, epsilon=0.4, loss=loss, tol=TOL, solver="newton", max_iter=60, **params)
    check(model.fit(X, y, sample_weight=weight), reference(model, X, y, weight))


@pytest.mark.parametrize(("kind", "sign"), OPTIONS)
def test_classes(kind, sign):
    rng = np.random.default_rng(seed_of("newton classes", kind, sign))
    X, K = features(rng, 40, 5), 4
    y, weight = labels(rng, X, K), weights(rng, 40)
    weight[:K] = 1.0  # every class counts
    cost = rng.uniform(0.2, 2.0, (K, K)) * (1.0 - np.eye(K))
    params = prior(rng, kind, 5, None if "covariance" in kind else K) | signs(sign, 5)
    model = mm.SVMClassifier(C=0.3, cost=cost, tol=TOL, solver="newton", max_iter=60, **params)
    check(model.fit(X, y, sample_weight=weight), reference(model, X, y, weight))
    consistent(model)


@pytest.mark.parametrize("loss", [*CLASSIFIERS, "log_loss"])
@pytest.mark.parametrize("several", [False, True])
def test_forms_of_data_and_other_solvers(loss, several):
    rng = np.random.default_rng(3)
    X = np.where(rng.random((60, 6)) < 0.5, rng.normal(size=(60, 6)), 0.0)
    y = labels(rng, X, 3 if several else 2)
    model = mm.SVMClassifier(loss=loss, solver="newton", tol=TOL, max_iter=60, keep_duals=True)
    wanted = clone(model).fit(X, y).certificate_
    assert wanted.converged
    for data in (sp.csr_array(X), X.astype(np.float32), sp.csr_array(X.astype(np.float32)), np.asfortranarray(X)):
        found = clone(model).fit(data, y).certificate_
        rel = 1e-4 if data.dtype == np.float32 else 3 * TOL
        assert found.converged and found.primal == pytest.approx(wanted.primal, rel=rel)
    other = clone(model).set_params(solver="dual_coordinate", max_iter=100_000).fit(X, y).certificate_
    assert other.dual <= wanted.primal * (1 + 1e-12) and wanted.dual <= other.primal * (1 + 1e-12)


# ---- what it is for ------------------------------------------------------------------------------------------------------------

SETS = {
    "iris": load_iris(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "breast cancer": load_breast_cancer(return_X_y=True),
    "digits": (load_digits().data[:200, 20:40], load_digits().target[:200]),
    "diabetes": load_diabetes(return_X_y=True),
    "linnerud": (load_linnerud().data, load_linnerud().target[:, 0]),
}


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("name", SETS)
def test_raw_sets(name, C):
    X, y = SETS[name]
    if name in ("diabetes", "linnerud"):
        models = [mm.SVMRegressor(loss=loss) for loss in (*REGRESSORS, "squared_error")]
    else:
        models = [mm.SVMClassifier(loss=loss) for loss in ("hinge", "log_loss")]
        models += [mm.SVMClassifier(loss=loss, multi_class="ovr") for loss in CLASSIFIERS]
    for model in models:
        found = model.set_params(C=C, tol=TOL, solver="newton", max_iter=60).fit(X, y).certificate_
        assert found.converged and found.dual <= found.primal * (1 + 1e-12)


@pytest.mark.parametrize("name", ["wine", "diabetes"])
@pytest.mark.parametrize("positive", [False, True])
def test_columns_of_any_size(name, positive):
    X, y = SETS[name]
    X = X * 10.0 ** np.random.default_rng(1).uniform(-4, 4, X.shape[1])
    if name == "wine":
        models = [(mm.SVMClassifier(loss=loss), y > 0) for loss in (*CLASSIFIERS, "log_loss")] + [(mm.SVMClassifier(), y)]
    else:
        models = [(mm.SVMRegressor(loss=loss), y) for loss in REGRESSORS]
    for model, target in models:
        model.set_params(tol=1e-6, solver="newton", max_iter=100, positive=positive)
        assert model.fit(X, target).certificate_.converged


@pytest.mark.parametrize("loss", [*CLASSIFIERS, "log_loss"])
def test_more_columns_than_rows(loss):
    """By a matrix of rows, and by one of columns where those differ too much."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 70)), np.arange(30) % 2
    for data in (X, sp.csr_array(X), X * 10.0 ** rng.uniform(-5, 5, 70)):
        for params in ({}, {"positive": True}, {"prior_scale": rng.uniform(0.1, 3.0, 70)}):
            model = mm.SVMClassifier(loss=loss, tol=1e-6, solver=mm.Newton(max_features=30), max_iter=100, **params)
            assert model.fit(data, y).certificate_.converged
    with pytest.raises(TypeError, match="samples x samples, and there are 30: more than max_features=29"):
        mm.SVMClassifier(solver=mm.Newton(max_features=29)).fit(X, y)


def test_sharp_places():
    """Columns of zeros, repeated columns and rows, separable data at any C, one sample a class, caps that differ by 1e8."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 4))
    y = (X[:, 0] > 0).astype(int)
    apart = X + 3.0 * np.outer(2 * y - 1, [1, 0, 0, 0])
    cases = [
        (np.hstack([X, X, np.zeros((30, 2))]), y, None, 1.0),
        (np.vstack([X, X, 0 * X]), np.tile(y, 3), None, 1e4),
        (apart, y, None, 1e8),
        (X[:2], np.array([0, 1]), None, 1.0),
        (X, y, 10.0 ** np.linspace(-8, 0, 30), 100.0),
        (np.ones((6, 1)), np.arange(6) % 2, None, 1.0),
    ]
    for data, target, weight, C in cases:
        for loss in (*CLASSIFIERS, "log_loss"):
            model = mm.SVMClassifier(C=C, loss=loss, solver="newton", tol=1e-6, max_iter=80)
            assert model.fit(data, target, sample_weight=weight).certificate_.converged, (loss, C)
        several = np.arange(len(target)) % 3 if len(target) > 2 else target
        model = mm.SVMClassifier(C=C, solver="newton", tol=1e-6, max_iter=80).fit(data, several, sample_weight=weight)
        assert model.certificate_.converged, C
    assert mm.SVMRegressor(epsilon=9.0, solver="newton", tol=1e-6).fit(X, X[:, 0]).n_iter_ == 0  # no loss at zero: nothing to do
    for epsilon in (0.0, 0.5):
        model = mm.SVMRegressor(C=1e4, epsilon=epsilon, solver="newton", tol=1e-6, max_iter=80)
        assert model.fit(X, np.zeros(30)).certificate_.converged and model.fit(X, X[:, 0]).certificate_.converged


@pytest.mark.parametrize("loss", [HingeLoss(), SquaredHingeLoss()])
def test_where_float64_can_do_no_more(loss):
    """The run says so, and further passes cost nothing."""
    rng = np.random.default_rng(5)
    for size in (1.0, 1e150):
        table = table_of(size * rng.normal(size=(20, 3)), 1.0)
        problem = ScalarProblem(table, loss, (np.where(np.arange(20) % 2, 1.0, -1.0), np.ones(20)), np.ones(20))
        run = mm.Newton().begin(problem, NOWHERE, Setting(tol=0.0))
        for _ in range(300):
            run.advance(lambda: False)
            run.synchronise()
        assert run.stuck and run.passes == 300 and run.visits < 300 * 20
        primal = min(problem.primal(w) for w in run.candidates())
        assert run.dual <= primal * (1 + 1e-12)
        if size == 1.0:
            assert primal - run.dual <= 1e-9 * primal


# ---- what every solver does ----------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1), C=st.sampled_from([1e-4, 1e-2, 1.0, 1e2, 1e4]), several=st.booleans())
def test_every_pass_is_certified(seed, C, several):
    """P >= D after each step, with feasible duals."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 25)), int(rng.integers(1, 8))
    table = table_of(rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 3, d), float(rng.integers(0, 2)))
    weight = rng.integers(0, 3, n) * 10.0 ** rng.uniform(-3, 0, n)
    if several:
        problem = BlockProblem(table, rng.integers(0, 3, n), weight, rng.uniform(0.1, 2, (3, 3)) * (1 - np.eye(3))).at(C)
    else:
        sign = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        problem = ScalarProblem(table, HingeLoss(), (sign, np.ones(n)), weight).at(C)
    check_steps(problem, 1e-12)


@pytest.mark.parametrize("name", ["hinge", "epsilon", "classes", "labels"])
def test_weights_are_repetitions(name):
    rng = np.random.default_rng(6)
    X, count = rng.normal(size=(25, 3)), rng.integers(0, 4, 25)
    y = {"hinge": X[:, 0] > 0, "epsilon": X[:, 0] + X[:, 1], "classes": np.digitize(X[:, 0], [-0.5, 0.5])}.get(name)
    if name == "labels":
        y = (X[:, :2] + 0.3 > 0).astype(int)
    kinds = {"epsilon": mm.SVMRegressor(epsilon=0.2), "labels": mm.MultilabelSVMClassifier()}
    model = clone(kinds.get(name, mm.SVMClassifier())).set_params(solver="newton", tol=1e-9, max_iter=60)
    weighed = clone(model).fit(X, y, sample_weight=count.astype(float))
    repeated = clone(model).fit(np.repeat(X, count, axis=0), np.repeat(y, count, axis=0))
    assert weighed.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=3e-9)
    np.testing.assert_allclose(weighed.coef_, repeated.coef_, atol=1e-3)


@pytest.mark.parametrize("several", [False, True])
def test_duals_of_others_are_taken_up(several):
    """Coordinate passes, then Newton: as good a start as there is, and at the optimum no step is made."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(80, 4)) * [1.0, 30.0, 1.0, 0.1]
    y = labels(rng, X, 3 if several else 2)
    model = mm.SVMClassifier(C=10.0, tol=1e-8, max_iter=7, warm_start=True, solver="dual_coordinate")
    with pytest.warns(match="Raise max_iter"):
        model.fit(X, y)
    before = model.certificate_
    model.set_params(solver="newton", max_iter=60).fit(X, y)
    assert model.certificate_.converged and model.history_[0].primal <= before.primal * (1 + 1e-12)
    assert model.fit(X, y).n_iter_ == 0


@pytest.mark.parametrize("several", [False, True])
def test_weights_are_those_of_the_duals_where_they_are_kept(several):
    rng = np.random.default_rng(8)
    X = features(rng, 40, 4)
    y = labels(rng, X, 3 if several else 2)
    model = mm.SVMClassifier(tol=1e-7, solver="newton", keep_duals=True, max_iter=60).fit(X, y)
    assert model.certificate_.converged
    recomputed(model, reference(model, X, y))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss", "squared_error"])
def test_labels_one_by_one(loss):
    rng = np.random.default_rng(9)
    X = rng.normal(size=(50, 4))
    Y = (X @ rng.normal(size=(4, 18)) + 0.5 * rng.normal(size=(50, 18)) > 0).astype(float)  # two groups
    Y[rng.random(Y.shape) < 0.1] = np.nan
    model = mm.MultilabelSVMClassifier(loss=loss, tol=1e-7, max_iter=1000)
    found = clone(model).set_params(solver="newton").fit(X, Y)
    wanted = clone(model).set_params(solver="dual_coordinate", random_state=0, max_iter=100_000).fit(X, Y)
    assert found.certificate_.converged
    assert found.certificate_.primal == pytest.approx(wanted.certificate_.primal, rel=3e-7)
    np.testing.assert_allclose(found.coef_, wanted.coef_, atol=3e-3 * np.abs(wanted.coef_).max())


# ---- the systems ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ScalarColumns, ScalarRows, RowsFirst, RowColumns])
def test_systems_are_solved(kind):
    """B dW - X' db = g and db = h - N X dW."""
    rng = np.random.default_rng(10)
    classes = 3 if kind is RowColumns else 1
    X = rng.normal(size=(12, 20)) * 10.0 ** rng.uniform(-2, 2, 20)
    full = np.column_stack([X, np.full(12, 2.0)])
    theta, B = rng.random((12, classes)) + 0.01, rng.random((classes, 21)) + 0.1
    g, h = rng.normal(size=(classes, 21)), rng.normal(size=(12, classes))
    theta[3] = h[3] = 0.0
    for data in (X, sp.csr_array(X)):
        system = kind(table_of(data, 2.0))
        assert system.prepare(theta, B)
        dW, db = system.solve(g, h)
        np.testing.assert_allclose(B * dW - db.T @ full, g, atol=1e-8)
        N = [np.diag(t) - (np.outer(t, t) / t.sum() if classes > 1 and t.any() else 0.0) for t in theta]
        wanted = h - np.array([n @ z for n, z in zip(N, full @ dW.T, strict=True)])
        np.testing.assert_allclose(db, wanted, atol=1e-8)
        np.testing.assert_allclose(system.solve(g, None)[0], system.solve(g, np.zeros_like(h))[0], rtol=1e-9)


@pytest.mark.parametrize("kind", [ScalarColumns, RowColumns, GrowingRows])
def test_rows_beyond_all_others(kind):
    """Two rows with a theta of 1e22: a matrix that is summed up knows nothing else. They keep their scores but for h / theta, and
    their duals are those that make them; X' db is B dW - g as exactly as its terms."""
    rng = np.random.default_rng(14)
    classes = 1 if kind is ScalarColumns else 3
    X = rng.normal(size=(6, 4)) * 10.0 ** rng.uniform(-2, 2, 4)
    full = np.column_stack([X, np.ones(6)])
    theta, B = rng.random((6, classes)) + 0.1, np.ones((classes, 5))
    theta[:2] *= 1e22
    system = kind(table_of(X, 1.0))
    if kind is GrowingRows:
        system.label, theta[:, 0] = np.zeros(6, int), 0.0
        system.growth, system.way = np.ones((6, 1)), np.tile([-1.0, 0.5, 0.5], (6, 1))
    assert system.prepare(theta, B) and system.squares is not None
    g, u = rng.normal(size=(classes, 5)), rng.normal(size=(6, classes))
    dW, db = system.solve(g, system.applied(u))
    np.testing.assert_allclose(B * dW - db.T @ full, g, atol=1e-9 * np.abs(db.T).max() * np.abs(full).max())
    rest = u - full @ dW.T  # db = N rest
    apart = rest[:2] if classes == 1 else rest[:2, -1] - rest[:2, -2]
    np.testing.assert_allclose(apart, 0.0, atol=1e-10)
    np.testing.assert_allclose(db[2:], system.applied(rest)[2:], rtol=1e-7, atol=1e-9)


def test_the_walls_of_rows_beyond_all_others():
    rng = np.random.default_rng(15)
    X, G = rng.normal(size=(6, 3)), rng.normal(size=(2, 4))
    system = ScalarColumns(table_of(X, 1.0))
    assert system.prepare(np.ones((6, 1)), np.ones((1, 4)), WallRows(G, np.array([1e24, 1.0]))) and system.squares is not None
    push = np.array([3e24, 1.0])
    dW, _ = system.solve(np.zeros((1, 4)), None, push)
    np.testing.assert_allclose(system.rise, G @ dW[0], atol=1e-12)
    np.testing.assert_allclose(system.rise[0], 3.0, rtol=1e-12)


@pytest.mark.parametrize("kind", [ScalarColumns, ScalarRows, RowsFirst])
def test_no_row_that_counts(kind):
    """Where all margins are kept only the quadratic term is left."""
    system, g = kind(table_of(np.ones((2, 5)), 1.0)), np.arange(6.0)[None]
    assert system.prepare(np.zeros((2, 1)), np.full((1, 6), 2.0))
    np.testing.assert_allclose(system.solve(g, None)[0], g / 2.0)


def test_matrices_that_are_changed():
    rng = np.random.default_rng(11)
    table, theta, B = table_of(rng.normal(size=(40, 3)), 1.0), rng.integers(0, 2, (40, 1)).astype(float), np.ones((1, 4))
    steady, g = ScalarColumns(table, steady=True), rng.normal(size=(1, 4))
    for _ in range(5):
        theta[rng.integers(0, 40, 3)] = rng.integers(0, 2, (3, 1))
        fresh = ScalarColumns(table)
        assert steady.prepare(theta, B) and fresh.prepare(theta, B)
        np.testing.assert_allclose(steady.solve(g, None)[0], fresh.solve(g, None)[0], rtol=1e-10)


class Unheard(CrammerSingerLoss):
    """A loss of somebody else, about which nothing is known."""


def test_work_of_a_step():
    rng = np.random.default_rng(12)
    tall, wide = table_of(rng.normal(size=(50, 5)), 1.0), table_of(rng.normal(size=(5, 50)), 1.0)
    sign, label, cost = np.ones(50), np.zeros(50, int), 1.0 - np.eye(3)
    scalar = ScalarProblem(tall, HingeLoss(), (sign, sign), sign)
    small = ScalarProblem(wide, HingeLoss(), (sign[:5], sign[:5]), sign[:5])
    several = BlockProblem(tall, label, sign, cost, CrammerSingerLoss())
    assert work(small) > 0 and 50 * 5**2 < work(scalar) < work(several)
    assert work(BlockProblem(tall, label, sign, cost, Unheard())) is None


def test_a_start_of_weights_alone():
    rng = np.random.default_rng(13)
    problem = ScalarProblem(table_of(rng.normal(size=(20, 3)), 1.0), HingeLoss(), (np.ones(20), np.ones(20)), np.ones(20))
    run = mm.Newton().begin(problem, Start(None, np.array([0.1, 0.2, 0.3, 0.4])), Setting())
    np.testing.assert_array_equal(run.candidates()[1], [0.1, 0.2, 0.3, 0.4])
