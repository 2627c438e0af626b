"""`Newton` on labels that a prior couples: one system of labels x features, whatever the rank of R."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.multilabel import Formula, correlated, data, some_missing
from helpers.newton import check_steps
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin.data.indicators import checked_labels
from maxmargin.data.table import table_of
from maxmargin.losses import MultilabelHingeLoss, MultilabelLogisticLoss, MultilabelSquaredHingeLoss
from maxmargin.problems.multilabel import MultilabelProblem
from maxmargin.solvers.base import Setting, Start
from maxmargin.solvers.newton import work
from maxmargin.solvers.second_order.coupled import CoupledColumns, basis_of_labels

TOL, L = 1e-8, 5
ROOT = np.random.default_rng(1).normal(size=(L, 2))
PRIORS = {
    "definite": correlated(L),
    "of rank two": ROOT @ ROOT.T,
    "nearly of rank two": ROOT @ ROOT.T + 1e-8 * np.eye(L),
    "all the same": np.ones((L, L)),
    "two parts": np.kron(np.eye(3), [[1.0, -0.7], [-0.7, 2.0]])[:L, :L],
    "a label that has none": np.diag([1.0, 2.0, 0.0, 1.0, 3.0]),
}
LOSSES = ("hinge", "squared_hinge", "log_loss", "squared_error")


def group_of(X, Y, loss, R, C=1.0):
    pairs = np.ones((Y.shape[1], 2))
    return MultilabelProblem(table_of(X, 1.0), checked_labels(Y).columns, np.ones(len(X)), pairs, pairs, loss, R).at(C).whole()


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("name", PRIORS)
def test_an_independent_optimum(name, squared):
    X, Y = data(40, 4, L, seed=5)
    Y, rng = some_missing(Y), np.random.default_rng(2)
    weight, by_label = rng.uniform(0.0, 3.0, 40), rng.uniform(0.5, 2.0, L)
    model = mm.MultilabelSVMClassifier(C=0.3, loss="squared_hinge" if squared else "hinge", label_prior=PRIORS[name])
    model.set_params(tol=TOL, solver="newton", max_iter=60, keep_duals=True, label_weight=by_label, intercept_scaling=2.0)
    model.fit(X, Y, sample_weight=weight)
    formula = Formula(X, Y, 0.3, PRIORS[name], weight, by_label, squared=squared, scaling=2.0)
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(formula.optimum(), rel=3e-8)
    assert model.certificate_.primal == pytest.approx(formula.primal(model), rel=1e-7)
    assert model.certificate_.dual == pytest.approx(formula.dual(model), rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["definite", "of rank two"])
def test_forms_of_data_and_other_solvers(loss, name):
    X, Y = data(40, 4, L, seed=6, sparse=True)
    model = mm.MultilabelSVMClassifier(loss=loss, label_prior=PRIORS[name], solver="newton", tol=TOL, max_iter=60)
    wanted = clone(model).fit(X, Y)
    for same in (sp.csr_array(X), X.astype(np.float32)):
        found = clone(model).fit(same, Y).certificate_
        assert found.converged and found.primal == pytest.approx(wanted.certificate_.primal, rel=1e-5)
    other = clone(model).set_params(solver="dual_coordinate", max_iter=100_000, random_state=0).fit(X, Y)
    assert other.certificate_.dual <= wanted.certificate_.primal * (1 + 1e-12)
    assert wanted.certificate_.dual <= other.certificate_.primal * (1 + 1e-12)
    np.testing.assert_allclose(wanted.coef_, other.coef_, atol=1e-3 * np.abs(other.coef_).max())


@pytest.mark.parametrize("C", [0.01, 100.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_columns_of_any_size(loss, C):
    X, Y = data(60, 6, L, seed=7)
    X = X * 10.0 ** np.random.default_rng(3).uniform(-4, 4, 6)
    for name in ("definite", "of rank two"):
        model = mm.MultilabelSVMClassifier(C=C, loss=loss, label_prior=PRIORS[name], solver="newton", tol=1e-6, max_iter=60)
        found = model.fit(X, Y).certificate_
        assert found.converged and found.dual <= found.primal * (1 + 1e-10)


@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from([MultilabelHingeLoss, MultilabelSquaredHingeLoss, MultilabelLogisticLoss]),
    C=st.sampled_from([1e-2, 1.0, 1e2]),
)
def test_every_pass_is_certified(seed, kind, C):
    """P >= D after each step, with feasible duals."""
    rng = np.random.default_rng(seed)
    n, d, count = int(rng.integers(2, 25)), int(rng.integers(1, 6)), int(rng.integers(2, 5))
    root = rng.normal(size=(count, int(rng.integers(1, count + 1))))
    Y = (rng.random((n, count)) < 0.5).astype(float)
    Y[rng.random(Y.shape) < 0.1] = np.nan
    problem = group_of(rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 2, d), Y, kind(), root @ root.T, C)
    check_steps(problem, 1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_duals_of_others_are_taken_up_and_the_choice(loss):
    X, Y = data(80, 4, L, seed=8)
    X = X * [1.0, 100.0, 1.0, 0.01]
    model = mm.MultilabelSVMClassifier(C=10.0, loss=loss, label_prior=PRIORS["definite"], tol=1e-8, random_state=0)
    late = clone(model).set_params(max_iter=5, warm_start=True, solver="dual_coordinate")
    with pytest.warns(match="Stopped after max_iter=5 passes"):
        late.fit(X, Y)
    before = late.certificate_
    late.set_params(solver="newton", max_iter=60).fit(X, Y)
    assert late.certificate_.converged and late.history_[0].primal <= before.primal * (1 + 1e-12)
    assert late.fit(X, Y).n_iter_ == 0
    model.fit(X, Y)  # by itself
    assert model.certificate_.converged and model.history_.methods[-1][1] == "Newton"


def test_repeated_samples_are_weights():
    X, Y = data(25, 3, L, seed=9)
    count = np.random.default_rng(6).integers(0, 4, 25)
    model = mm.MultilabelSVMClassifier(label_prior=PRIORS["definite"], solver="newton", tol=1e-9, max_iter=60)
    weighed = clone(model).fit(X, Y, sample_weight=count.astype(float))
    repeated = clone(model).fit(np.repeat(X, count, axis=0), np.repeat(Y, count, axis=0))
    assert weighed.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=3e-9)
    np.testing.assert_allclose(weighed.coef_, repeated.coef_, atol=1e-3)


def test_coupled_and_other_labels_together():
    """Groups that R couples, and such that it leaves alone."""
    X, Y = data(40, 3, 40, seed=10)
    R = np.eye(40)
    R[:20, :20] += 0.3
    model = mm.MultilabelSVMClassifier(C=0.5, label_prior=R, tol=1e-7, max_iter=100)
    found = clone(model).set_params(solver="newton").fit(X, Y)
    parts = [
        clone(model).set_params(solver="newton", label_prior=own).fit(X, y)
        for own, y in ((R[:20, :20], Y[:, :20]), (None, Y[:, 20:]))
    ]
    assert found.certificate_.converged
    assert found.certificate_.primal == pytest.approx(sum(part.certificate_.primal for part in parts), rel=3e-7)
    with pytest.raises(TypeError, match="labels x features, and there are 60: more than max_features=59"):
        clone(model).set_params(solver=mm.Newton(max_features=59)).fit(X, Y)


@pytest.mark.parametrize("name", PRIORS)
def test_labels_with_weights_of_their_own(name):
    R = PRIORS[name]
    basis = basis_of_labels(R)
    own = R[np.ix_(basis.labels, basis.labels)]
    assert len(basis.labels) == np.linalg.matrix_rank(R, tol=1e-10)
    np.testing.assert_allclose(basis.C @ own @ basis.C.T, R, atol=1e-12)
    np.testing.assert_allclose(own @ basis.pulled(np.eye(len(own))), np.eye(len(own)), atol=1e-6)


@pytest.mark.parametrize("name", ["definite", "of rank two"])
def test_systems_are_solved(name):
    """dZ = R dV, dV = g + X' db, db = h - theta X dZ."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(12, 4)) * 10.0 ** rng.uniform(-2, 2, 4)
    full, theta = np.column_stack([X, np.full(12, 2.0)]), 10.0 ** rng.uniform(-4, 2, (12, L))
    g, h = rng.normal(size=(L, 5)), rng.normal(size=(12, L))
    for given_as in (X, sp.csr_array(X)):
        system = CoupledColumns(table_of(given_as, 2.0), basis_of_labels(PRIORS[name]))
        assert system.prepare(theta, np.ones((L, 5)))
        dZ, db = system.solve(g, h)
        np.testing.assert_allclose(db, h - theta * (full @ dZ.T), atol=1e-7)
        np.testing.assert_allclose(dZ, PRIORS[name] @ (g + db.T @ full), atol=1e-7 * np.abs(dZ).max())
        np.testing.assert_allclose(system.solve(g, None)[0], system.solve(g, np.zeros_like(h))[0], rtol=1e-9)


def test_work_of_a_step():
    X, Y = data(30, 4, L)
    alone, coupled = (group_of(X, Y, MultilabelHingeLoss(), R) for R in (None, PRIORS["definite"]))
    assert 0.0 < work(alone) < work(coupled)
    whole = MultilabelProblem(alone.table, checked_labels(Y).columns, np.ones(30), *(np.ones((L, 2)),) * 2, MultilabelHingeLoss())
    assert work(whole) == work(alone)


def test_a_bad_start_is_not_begun_from():
    """Saturated losses are flat: from such weights no step would lead back, and zero is better."""
    rng = np.random.default_rng(0)
    group = group_of(rng.normal(size=(20, 4)), rng.integers(0, 2, size=(20, L)), MultilabelLogisticLoss(), PRIORS["definite"])
    zero = group.regularizer.start(group.weight_shape)
    run = mm.Newton().begin(group, Start(None, zero + 1e6 * rng.normal(size=zero.shape)), Setting(tol=TOL))
    run.advance(lambda: False)
    assert run.lowest <= group.primal(zero)


class Tired(mm.Newton):
    """Cannot go on from the beginning."""

    def begin(self, problem, start, setting):
        run = super().begin(problem, start, setting)
        run.stuck = True
        return run


def test_why_labels_ended_short_is_said_as_it_is():
    """Time was not short."""
    X, Y = data(40, 4, L, seed=5)
    model = mm.MultilabelSVMClassifier(label_prior=PRIORS["definite"], solver=Tired(), tol=1e-9, max_time=60.0)
    with pytest.warns(ConvergenceWarning, match="No step makes progress"):
        model.fit(X, Y)
    assert "No step makes progress any more" in model.certificate_.message and "max_time" not in model.certificate_.message
