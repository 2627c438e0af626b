"""Multi-label models: optimum, certificate, priors on labels, forms of Y, scikit-learn's conventions, zero-shot."""

import itertools
import pickle
import threading
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.multilabel import Formula, correlated, data, some_missing
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import maxmargin as mm
from maxmargin.data.indicators import checked_labels
from maxmargin.data.rows import rows
from maxmargin.losses.multilabel_hinge import MultilabelHinge
from maxmargin.problems import multilabel as multilabel_problem
from maxmargin.problems.multilabel import MultilabelProblem


def kinds():
    X, Y = data()
    n, L = Y.shape
    singular = np.array([[1.0, -1.0, 0.5], [-1.0, 1.0, -0.5], [0.5, -0.5, 0.25]])
    weight = np.random.default_rng(1).uniform(0, 2, n)
    uneven = np.array([0.5, 2.0, 1.0])
    pairs = np.array([[1.0, 3.0], [0.5, 1.0], [1.0, 1.0]])
    yield "identity", X, Y, {}, {}
    yield "dense R", X, Y, {"label_prior": correlated(L)}, {"R": correlated(L)}
    yield "negative", X, Y, {"label_prior": np.eye(L) * 1.5 - 0.5}, {"R": np.eye(L) * 1.5 - 0.5}
    yield "singular", X, Y, {"label_prior": singular}, {"R": singular}
    yield "zero row", X, Y, {"label_prior": np.diag([1.0, 0.0, 2.0])}, {"R": np.diag([1.0, 0.0, 2.0])}
    yield "missing", X, some_missing(Y), {"label_prior": correlated(L)}, {"R": correlated(L)}
    yield "missing, identity", X, some_missing(Y), {}, {}
    yield "weights", X, Y, {"sample_weight": weight, "label_weight": uneven}, {"weight": weight, "label_weight": uneven}
    pair = np.where(Y == 1, pairs[:, 1], pairs[:, 0])
    yield "pairs of weights", X, Y, {"label_weight": pairs}, {"label_weight": pair}
    yield "costs", X, Y, {"cost": pairs, "label_prior": correlated(L)}, {"margin": pair, "R": correlated(L)}
    yield "no intercept", X, Y, {"fit_intercept": False, "label_prior": correlated(L)}, {"scaling": 0.0, "R": correlated(L)}
    yield "scaled intercept", X, Y, {"intercept_scaling": 3.0}, {"scaling": 3.0}
    yield "all absent, all present", X, np.column_stack([Y[:, 0], np.zeros(n), np.ones(n)]), {}, {}
    yield "zero rows", np.where(np.arange(n)[:, None] % 5 == 0, 0.0, X), Y, {"fit_intercept": False}, {"scaling": 0.0}
    X, Y = data(20, 3, 19, seed=2)
    yield "two groups", X, Y, {}, {}
    R = sp.block_diag([correlated(9, 1), np.eye(1), correlated(9, 2)]).toarray()
    yield "components", X, Y, {"label_prior": R}, {"R": R}


KINDS = {name: rest for name, *rest in kinds()}


@pytest.mark.parametrize("squared", [False, True], ids=["hinge", "squared"])
@pytest.mark.parametrize("name", KINDS)
def test_optimum_and_certificate(name, squared):
    X, Y, given, formula = KINDS[name]
    given = dict(given)
    weight = given.pop("sample_weight", None)
    reference = Formula(X, Y, C=0.7, squared=squared, **formula)
    loss = "squared_hinge" if squared else "hinge"
    model = mm.MultilabelSVMClassifier(0.7, loss=loss, tol=1e-6, keep_duals=True, random_state=0, **given)
    model.fit(X, Y, sample_weight=weight)
    found, best = model.certificate_, reference.optimum()
    assert found.converged and found.dual <= found.primal * (1 + 1e-14)  # equal, but for rounding
    assert found.dual <= best * (1 + 1e-7) and best * (1 - 1e-7) <= found.primal
    assert found.primal == pytest.approx(best, rel=2e-6)
    assert reference.dual(model) == pytest.approx(found.dual, rel=1e-9)
    assert reference.primal(model) == pytest.approx(found.primal, rel=1e-9)
    averaged = clone(model).set_params(keep_duals=False, tol=1e-4).fit(X, Y, sample_weight=weight)
    assert averaged.certificate_.converged and not hasattr(averaged, "dual_coef_")
    assert reference.primal(averaged) == pytest.approx(averaged.certificate_.primal, rel=1e-7)


@pytest.mark.parametrize("R", [None, correlated(3)], ids=["identity", "dense"])
@pytest.mark.parametrize("form", ["dense", "csr", "float32", "csr float32", "fortran"])
def test_forms_of_features_give_the_same_optimum(form, R):
    X, Y = data(sparse=True)
    best = Formula(X.astype(np.float32) if "float32" in form else X, Y, R=R).optimum()
    given = np.asfortranarray(X) if form == "fortran" else sp.csr_array(X) if "csr" in form else X
    given = given.astype(np.float32) if "float32" in form else given
    model = mm.MultilabelSVMClassifier(loss="hinge", label_prior=R, tol=1e-5, random_state=0).fit(given, Y)
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(best, rel=2e-5)
    assert model.decision_function(given).dtype == given.dtype


@pytest.mark.parametrize("R", [None, correlated(3)], ids=["identity", "dense"])
def test_forms_of_labels_give_the_same_model(R):
    X, Y = data()
    model = mm.MultilabelSVMClassifier(label_prior=R, random_state=0)
    expected = model.fit(X, Y)
    for form in (Y.astype(bool), Y.astype(float), sp.csr_array(Y), sp.csc_matrix(Y), sp.coo_array(Y), Y.tolist()):
        other = clone(model).fit(X, form)
        np.testing.assert_array_equal(other.coef_, expected.coef_)
        predicted = other.predict(X)
        assert sp.issparse(predicted) == sp.issparse(form)
        if sp.issparse(form):
            assert predicted.format == "csr"
            predicted = predicted.toarray()
        assert predicted.dtype == (form.dtype if sp.issparse(form) else np.asarray(form).dtype)
        np.testing.assert_array_equal(predicted, expected.predict(X))
    np.testing.assert_array_equal(expected.predict(X), expected.decision_function(X) > 0)


def test_ways_to_say_that_labels_are_missing():
    X, Y = data()
    given = some_missing(Y)
    hidden = np.isnan(given)
    model = mm.MultilabelSVMClassifier(label_prior=correlated(3), random_state=0)
    expected = clone(model).fit(X, given).coef_
    wrong = np.where(hidden, 7, Y)  # what is not known is not looked at
    for label, mask in (
        (wrong, hidden),
        (sp.csr_array(wrong), hidden),
        (sp.csr_array(Y), sp.csr_array(hidden)),
        (np.ma.masked_array(wrong, hidden), None),
        (np.ma.masked_array(wrong, hidden & (np.arange(3) == 0)), hidden),
    ):
        np.testing.assert_array_equal(clone(model).fit(X, label, mask=mask).coef_, expected)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(1, 3), st.integers(1, 10), st.integers(0, 10**6), st.booleans(), st.booleans())
def test_dual_never_exceeds_primal(n, d, labels, seed, coupled, squared):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-2, 3), (rng.random((n, labels)) < 0.4).astype(float)
    Y[rng.random(Y.shape) < 0.1] = np.nan
    A = rng.standard_normal((labels, max(1, labels // 2)))
    model = mm.MultilabelSVMClassifier(
        float(10.0 ** rng.uniform(-2, 2)),
        label_prior=A @ A.T if coupled else None,
        loss="squared_hinge" if squared else "hinge",
        max_iter=3,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, Y)
    assert all(record.primal >= record.dual - 1e-9 * abs(record.primal) for record in model.history_)
    assert model.certificate_.gap >= -1e-9 * abs(model.certificate_.primal)


@pytest.mark.parametrize("R", [None, correlated(3)], ids=["identity", "dense"])
def test_integer_weights_are_repetitions(R):
    X, Y = data()
    times = np.random.default_rng(0).integers(0, 4, len(X))
    model = mm.MultilabelSVMClassifier(loss="hinge", label_prior=R, tol=1e-9, random_state=0)
    weighted = clone(model).fit(X, Y, sample_weight=times)
    repeated = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(Y, times, axis=0))
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-3)


def test_balanced_labels_have_the_same_mass():
    X, Y = data()
    share = Y.mean(axis=0)
    pairs = np.column_stack([0.5 / (1.0 - share), 0.5 / share])
    balanced = mm.MultilabelSVMClassifier(label_weight="balanced", random_state=0).fit(X, Y)
    np.testing.assert_allclose(balanced.coef_, mm.MultilabelSVMClassifier(label_weight=pairs, random_state=0).fit(X, Y).coef_)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_identity_is_one_linear_svc_a_label(loss):
    X, Y = make_multilabel_classification(300, 12, n_classes=18, random_state=0)
    X = StandardScaler().fit_transform(X)
    model = mm.MultilabelSVMClassifier(0.1, loss=loss, tol=1e-7, random_state=0).fit(X, Y)
    identity = mm.MultilabelSVMClassifier(0.1, loss=loss, tol=1e-7, label_prior=np.eye(18), random_state=0).fit(X, Y)
    np.testing.assert_array_equal(identity.coef_, model.coef_)
    for label in range(Y.shape[1]):
        peer = LinearSVC(C=0.1, loss=loss, dual=True, tol=1e-8, max_iter=100_000, random_state=0).fit(X, Y[:, label])
        np.testing.assert_allclose(model.coef_[label], peer.coef_[0], atol=1e-3)
        np.testing.assert_allclose(model.intercept_[label], peer.intercept_[0], atol=5e-3)


def test_labels_that_no_prior_connects_are_learned_in_groups():
    X, Y = data(40, 5, 50, seed=5)
    R = sp.block_diag([correlated(20, 1), *[np.eye(1)] * 27, correlated(3, 2)]).toarray()
    factors = np.ones((2, 50, 2))
    problem = MultilabelProblem(rows(X, 1.0), checked_labels(Y).columns, np.ones(len(X)), *factors, MultilabelHinge, R)
    groups = problem.groups
    assert sorted(np.concatenate(groups).tolist()) == list(range(50))
    assert max(len(group) for group in groups) == 20
    for group in groups:
        outside = np.setdiff1d(np.arange(50), group)
        assert not np.any(R[np.ix_(group, outside)])
    alone = [problem.group(group).R is None for group in groups]
    assert any(alone) and not all(alone)


def test_threads_change_nothing():
    X, Y = data(60, 5, 50, seed=5)
    one, two = (mm.MultilabelSVMClassifier(n_jobs=jobs, random_state=0).fit(X, Y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.certificate_.primal == two.certificate_.primal


@pytest.mark.parametrize("R", [None, correlated(3)], ids=["identity", "dense"])
def test_warm_start_goes_on_from_the_old_duals(R):
    X, Y = data()
    model = mm.MultilabelSVMClassifier(loss="hinge", label_prior=R, tol=1e-6, warm_start=True, random_state=0).fit(X, Y)
    passes = model.n_iter_
    model.fit(X, Y)
    assert model.n_iter_ == 0 < passes and model.certificate_.converged
    model.set_params(C=0.5).fit(X, Y)
    assert model.certificate_.primal == pytest.approx(Formula(X, Y, 0.5, R).optimum(), rel=3e-6)
    model.fit(X[:20], Y[:20])  # another number of samples: from zero
    assert model.certificate_.converged


@pytest.mark.parametrize("solver", ["auto", "newton", "dual_coordinate"])
def test_warm_start_with_another_label_prior(solver):
    """Weights of an earlier fit that have another shape are left out; where R couples labels they are V R for the new R."""
    X, Y = data()
    block = np.eye(3) + 0.5 * np.eye(3)[[1, 0, 2]] * [[1.0], [1.0], [0.0]]
    priors = None, correlated(3), 10.0 * correlated(3), block
    for before, R in itertools.permutations(priors, 2):
        model = mm.MultilabelSVMClassifier(label_prior=before, warm_start=True, random_state=0, solver=solver)
        found = model.fit(X, Y).set_params(label_prior=R).fit(X, Y).certificate_
        optimum = Formula(X, Y, 1.0, R, squared=True).optimum()
        assert found.dual <= optimum * (1 + 1e-6) and optimum <= found.primal * (1 + 1e-6) and found.converged


@pytest.mark.parametrize("R", [None, correlated(3)], ids=["identity", "dense"])
def test_path_is_certified_at_each_point(R):
    X, Y = data()
    Y = some_missing(Y)
    Cs = [0.1, 1.0, 3.0]
    mask, filled = np.isnan(Y), np.nan_to_num(Y)
    for model, C in zip(
        mm.MultilabelSVMClassifier(loss="hinge", label_prior=R, tol=1e-5).regularization_path(X, filled, Cs, mask=mask), Cs
    ):
        assert model.C == C and model.certificate_.converged
        assert model.certificate_.primal == pytest.approx(Formula(X, Y, C, R).optimum(), rel=2e-5)
    with pytest.raises(ValueError, match="Cs must be"):
        mm.MultilabelSVMClassifier().regularization_path(X, filled, [0.0])


def test_stopped_runs_have_a_model_and_a_true_certificate_for_every_label():
    X, Y = data(80, 6, 40, seed=7)

    class Stop:
        def __init__(self, after):
            self.after, self.count = after, 0

        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...
        def on_fit_task_end(self, estimator, context, **ignored):
            self.count += 1
            return self.count >= self.after

    model = mm.MultilabelSVMClassifier(10.0, loss="hinge", tol=1e-9, random_state=0).set_callbacks(Stop(2))
    with pytest.warns(ConvergenceWarning, match="Of 40 labels 16 were begun"):
        model.fit(X, Y)
    assert not model.certificate_.converged and model.coef_.shape == (40, 6)
    assert Formula(X, Y, 10.0).primal(model) == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert np.count_nonzero(np.any(model.coef_ != 0, axis=1)) == 16
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        few = mm.MultilabelSVMClassifier(10.0, loss="hinge", tol=1e-9, max_iter=2, random_state=0).fit(X, Y)
    assert Formula(X, Y, 10.0).primal(few) == pytest.approx(few.certificate_.primal, rel=1e-9)
    with pytest.warns(ConvergenceWarning, match="max_time=1e-09"):
        none = mm.MultilabelSVMClassifier(10.0, loss="hinge", max_time=1e-9).fit(X, Y)
    assert none.certificate_.primal == pytest.approx(10.0 * Y.size) and none.certificate_.dual == 0.0


def test_history_adds_the_groups_up():
    X, Y = data(80, 6, 40, seed=7)
    model = mm.MultilabelSVMClassifier(tol=1e-4, random_state=0).fit(X, Y)
    history, certificate = model.history_, model.certificate_
    assert len(history) >= 3 and history[-1].primal == certificate.primal and history[-1].dual == certificate.dual
    assert all(record.gap >= 0.0 for record in history)
    assert history[-1].iteration == model.n_iter_


def test_sparse_labels_are_never_made_dense(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 4))
    Y = sp.random_array((100, 50), density=0.05, format="csr", rng=rng)
    Y.data[:] = 1.0
    expected = mm.MultilabelSVMClassifier(random_state=0).fit(X, Y.toarray()).coef_

    def refuse(*ignored, **more):
        raise AssertionError("a sparse matrix was made dense")

    for kind in (sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, sp.csc_matrix):
        for name in ("toarray", "todense"):
            monkeypatch.setattr(kind, name, refuse, raising=False)
    model = mm.MultilabelSVMClassifier(keep_duals=True, random_state=0).fit(X, Y)
    assert sp.issparse(model.predict(X)) and sp.issparse(model.dual_coef_)
    assert 0 < model.dual_coef_.nnz < Y.shape[0] * Y.shape[1]
    averaged = mm.MultilabelSVMClassifier(random_state=0).fit(X, Y, mask=sp.csr_array(Y.shape, dtype=bool))
    np.testing.assert_array_equal(averaged.coef_, expected)


# ---- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_prior": np.eye(2)}, r"label_prior has shape \(2, 2\); for the 3 labels"),
        ({"label_prior": np.triu(np.ones((3, 3)))}, r"must be symmetric; entry \(0, 1\) is 1 and entry \(1, 0\) is 0"),
        ({"label_prior": np.full((3, 3), np.nan)}, "label_prior must be finite"),
        ({"label_prior": -np.eye(3)}, "positive semidefinite"),
        ({"label_weight": [1.0, 2.0]}, r"label_weight has shape \(2,\)"),
        ({"label_weight": [1.0, -2.0, 1.0]}, "numbers >= 0; its smallest is -2"),
        ({"label_weight": [0.0, 0.0, 0.0]}, "zero for every label"),
        ({"cost": [1.0]}, "cost has shape"),
        ({"cost": [1.0, -1.0, 1.0]}, "cost must hold numbers >= 0"),
        ({"gamma": 0.0}, "gamma"),
        ({"gamma": -1.0}, "gamma"),
        ({"kernel": "unknown"}, "kernel"),
        ({"loss": "logistic"}, "loss"),
        ({"C": 0.0}, "'C' parameter"),
        ({"dtype": np.int64}, "dtype must be"),
        ({"solver": "frank_wolfe"}, "use solver='dual_coordinate'"),
    ],
)
def test_bad_parameters(options, message):
    X, Y = data()
    with pytest.raises((ValueError, TypeError), match=message):
        mm.MultilabelSVMClassifier(**options).fit(X, Y)


def _with(Y, value):
    Y = Y.astype(float)
    Y[2, 1] = value
    return Y


@pytest.mark.parametrize(
    ("label", "mask", "message"),
    [
        (lambda Y: _with(Y, 2.0), None, "Y holds 2.0 in row 2, column 1; labels are 0 or 1"),
        (lambda Y: sp.csr_array(_with(Y, -1.0)), None, "Y holds -1.0 in row 2, column 1"),
        (lambda Y: sp.csr_array(_with(Y, np.nan)), None, "Y holds nan in row 2, column 1"),
        (lambda Y: _with(Y, np.inf), None, "Y holds inf"),
        (lambda Y: Y[:, 0], None, "Y must be a matrix"),
        (lambda Y: Y[:, :0], None, "Y is empty"),
        (lambda Y: Y[:-1], None, "inconsistent numbers of samples"),
        (lambda Y: Y.astype(str).astype(object).tolist()[:0] or np.full(Y.shape, "a"), None, "indicators 0 and 1; its dtype"),
        (lambda Y: Y, np.zeros((2, 2), bool), "mask must have the shape of Y"),
        (lambda Y: None, None, "requires y to be passed"),
    ],
)
def test_bad_labels(label, mask, message):
    X, Y = data()
    with pytest.raises(ValueError, match=message):
        mm.MultilabelSVMClassifier().fit(X, label(Y), mask=mask)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_features(value):
    X, Y = data()
    X[3, 2] = value
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        mm.MultilabelSVMClassifier().fit(X, Y)


def test_labels_of_which_nothing_is_known_stay_at_zero():
    X, Y = data()
    Y = Y.astype(float)
    Y[:, 1] = np.nan
    model = mm.MultilabelSVMClassifier(random_state=0).fit(X, Y)
    assert not np.any(model.coef_[1]) and np.any(model.coef_[0])
    nothing = mm.MultilabelSVMClassifier().fit(X, np.full(Y.shape, np.nan))
    assert nothing.certificate_.converged and nothing.certificate_.primal == 0.0


# ---- pieces ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("squared", [False, True], ids=["hinge", "squared"])
@pytest.mark.parametrize("R", [None, correlated(3)], ids=["identity", "dense"])
def test_the_certificate_of_pieces_is_that_of_the_samples_kept_and_new(R, squared):
    """And of all data ever given: whoever was forgotten has duals of zero."""
    X, Y = data(60)
    Y, weight = some_missing(Y), np.random.default_rng(5).integers(0, 4, 60) * 0.5
    uneven, pairs = np.array([0.5, 2.0, 1.0]), np.array([[1.0, 3.0], [0.5, 1.0], [1.0, 1.0]])
    loss = "squared_hinge" if squared else "hinge"
    given = {"label_prior": R, "label_weight": uneven, "cost": pairs, "loss": loss, "intercept_scaling": 2.0}
    model = mm.MultilabelSVMClassifier(0.3, tol=1e-6, keep_duals=True, random_state=0, **given)

    def formula(which):
        margin = np.where(Y[which] == 1, pairs[:, 1], pairs[:, 0])
        parts = {"label_weight": uneven, "margin": margin, "squared": squared, "scaling": 2.0}
        return Formula(X[which], Y[which], 0.3, R, weight[which], **parts)

    active = np.zeros(0, int)
    for part in np.array_split(np.arange(60), 3):
        model.partial_fit(X[part], Y[part], sample_weight=weight[part])
        active = np.concatenate([active, part])
        assert len(model.dual_coef_) == active.size
        found, reference = model.certificate_, formula(active)
        assert found.converged and found.verified == (active.size == part[-1] + 1)
        assert reference.dual(model) == pytest.approx(found.dual, rel=1e-9)
        assert reference.primal(model) == pytest.approx(found.primal, rel=1e-9)
        active = active[model.dual_coef_.any(axis=1)]
    assert active.size < 60 and not found.verified
    assert 0.9 * (best := formula(np.arange(60)).optimum()) <= found.dual <= best * (1 + 1e-8)


@pytest.mark.parametrize("squared", [False, True], ids=["hinge", "squared"])
@pytest.mark.parametrize("R", [None, correlated(3), np.ones((3, 3))], ids=["identity", "dense", "singular"])
def test_the_certificate_after_fit_counts_its_duals(R, squared):
    """They are frozen: new samples are added to them, whose problem is solved to its own optimum."""
    X, Y = data(60)
    loss = "squared_hinge" if squared else "hinge"
    model = mm.MultilabelSVMClassifier(0.3, loss=loss, label_prior=R, tol=1e-6, keep_duals=True, random_state=0)

    def formula(which):
        return Formula(X[which], Y[which], 0.3, R, squared=squared)

    model.fit(X[:30], Y[:30])
    owed, V = formula(slice(30)).sums(model)
    assert formula(slice(30)).dual(model) == pytest.approx(model.certificate_.dual, rel=1e-9)
    active, before = np.zeros(0, int), model.certificate_.dual
    for part in (np.arange(30, 45), np.arange(45, 60)):
        model.partial_fit(X[part], Y[part])
        active = np.concatenate([active, part])
        found, own = model.certificate_, formula(active)
        assert found.converged and not found.verified and found.dual >= before * (1 - 1e-9)
        assert own.dual(model, V, owed) == pytest.approx(found.dual, rel=1e-8)
        assert own.primal(model) + owed - np.sum(V * own.weights(model)) == pytest.approx(found.primal, rel=1e-8)
        active, before = active[model.dual_coef_.any(axis=1)], found.dual
    assert 0.9 * (best := formula(slice(60)).optimum()) <= found.dual <= best * (1 + 1e-8)


@pytest.mark.parametrize("solver", ["auto", "newton", "online"])
@pytest.mark.parametrize("R", [None, correlated(3)], ids=["identity", "dense"])
def test_after_any_fit_the_bound_is_that_of_all_samples(R, solver, tmp_path):
    X, Y = data(60)
    model = mm.MultilabelSVMClassifier(0.3, label_prior=R, tol=1e-2, solver=solver, n_jobs=2, random_state=0).fit(X[:40], Y[:40])
    before, best = model.certificate_.dual, Formula(X, Y, 0.3, R, squared=True).optimum()
    model.set_params(tol=1e-6, solver="auto")
    mm.save(model, tmp_path / "model")
    found = mm.load(tmp_path / "model").partial_fit(X[40:], Y[40:])
    assert before * (1 - 1e-9) <= found.certificate_.dual <= best * (1 + 1e-8)
    assert found.certificate_.converged and found.certificate_.dual <= found.certificate_.primal
    np.testing.assert_array_equal(model.partial_fit(X[40:], Y[40:]).coef_, found.coef_)


def test_labels_without_time_stay_as_the_fit_has_left_them():
    X, Y = data(60, labels=20)
    model = mm.MultilabelSVMClassifier(0.3, random_state=0).fit(X[:40], Y[:40])
    before = model.coef_.copy()
    with pytest.warns(ConvergenceWarning, match="Of 20 labels 0 were begun; the weights of the others are as before"):
        model.set_params(max_time=1e-9, keep_duals=True).partial_fit(X[40:], Y[40:])
    found = model.certificate_
    assert found.dual <= found.primal < np.inf and np.corrcoef(before.ravel(), model.coef_.ravel())[0, 1] > 0.99


def test_a_fit_is_gone_on_from_with_its_own_parameters_only():
    X, Y = data(60)
    model = mm.MultilabelSVMClassifier(0.3, random_state=0).fit(X, Y)
    for name, value in (("C", 1.0), ("label_prior", correlated(3)), ("loss", "hinge"), ("label_weight", [1.0, 2.0, 1.0])):
        with pytest.raises(ValueError, match="This model has frozen duals, which belong to"):
            pickle.loads(pickle.dumps(model)).set_params(**{name: value}).partial_fit(X, Y)
    with pytest.raises(ValueError, match="keeps nothing that partial_fit could go on from"):
        model.set_params(standardize=True).fit(X, Y).set_params(standardize=False).partial_fit(X, Y)


def test_pieces_whose_samples_all_support_end_at_the_optimum_of_all():
    """C is so small that all margins are violated: nothing is forgotten, and a weight is so many repetitions."""
    X, Y = data(60)
    weight = np.random.default_rng(5).integers(1, 4, 60)
    model = mm.MultilabelSVMClassifier(1e-3, label_prior=correlated(3), tol=1e-6, keep_duals=True, random_state=0)
    whole = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0)).certificate_

    def told(weight):
        found = clone(model)
        for part in np.array_split(np.arange(60), 3):
            found.partial_fit(X[part], Y[part], sample_weight=weight[part])
        return found.certificate_, np.count_nonzero(found.dual_coef_.any(axis=1))

    found, kept = told(weight)
    assert found.verified and kept == 60 and found.primal == pytest.approx(whole.primal, rel=2e-6)
    found, kept = told(np.where(np.arange(60) == 3, 0, weight))  # one is forgotten at once, and stays so
    assert kept == 59 and not found.verified


# ---- scikit-learn ------------------------------------------------------------------------------------------


def test_pipeline_grid_and_cross_validation():
    X, Y = make_multilabel_classification(80, 6, n_classes=3, random_state=0)
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), mm.MultilabelSVMClassifier(random_state=0)), {"multilabelsvmclassifier__C": [0.1, 1]}
    )
    assert grid.fit(X, Y).score(X, Y) > 0.2
    scores = cross_val_predict(mm.MultilabelSVMClassifier(random_state=0), X, Y, method="decision_function")
    assert scores.shape == Y.shape


def test_pickle_and_threads_of_the_user():
    X, Y = data()
    model = mm.MultilabelSVMClassifier(label_prior=correlated(3), warm_start=True, keep_duals=True, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    found = []
    thread = threading.Thread(target=lambda: found.append(clone(model).fit(X, Y)))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(found[0].coef_, model.coef_)


# ---- zero-shot ---------------------------------------------------------------------------------------------


def animals(seed=0, n=400, attributes=12):
    rng = np.random.default_rng(seed)
    signatures = rng.integers(0, 2, (10, attributes))
    classes = rng.integers(0, 10, n)
    X = (2.0 * signatures[classes] - 1.0) @ rng.standard_normal((attributes, 20)) + rng.standard_normal((n, 20))
    return X, signatures, classes


def test_zero_shot_recognises_classes_never_seen():
    X, signatures, classes = animals()
    seen, names = classes < 6, np.array(["a", "b", "c", "d"])
    model = mm.ZeroShotClassifier(mm.MultilabelSVMClassifier(0.1, random_state=0), signatures[6:], classes=names)
    model.fit(X[seen], signatures[classes[seen]])
    assert model.estimator.label_prior is None  # the user's own object stays as it is
    np.testing.assert_allclose(model.estimator_.label_prior, mm.prior_from_signatures(signatures[6:]))
    assert model.score(X[~seen], names[classes[~seen] - 6]) > 0.6
    never = mm.ZeroShotClassifier(model.estimator, signatures[6:], [1.0, 0.0, 1.0, 1.0]).fit(X[seen], signatures[classes[seen]])
    assert 1 not in never.predict(X)
    own = mm.MultilabelSVMClassifier(label_prior=np.eye(12))
    kept = mm.ZeroShotClassifier(own, signatures[6:]).fit(X[seen], signatures[classes[seen]])
    np.testing.assert_array_equal(kept.estimator_.label_prior, np.eye(12))


def test_zero_shot_scores_are_minus_the_hinge_losses_of_signatures():
    X, Y = data(30, 4, 3, seed=2)
    signatures, names = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 0]]), np.array(["c", "a", "b"])
    estimator = mm.MultilabelSVMClassifier(random_state=0)
    model = mm.ZeroShotClassifier(estimator, signatures, [0.5, 0.5, 0.0], classes=names).fit(X, Y)
    z = model.estimator_.decision_function(X)
    signs = 2.0 * signatures - 1.0
    expected = np.array([[-sum(max(0.0, 1.0 - y * a) for y, a in zip(signs[c], row)) for c in range(2)] for row in z])
    found = model.decision_function(X)
    np.testing.assert_allclose(found[:, :2], expected, rtol=1e-12)
    assert np.all(found[:, 2] == -np.inf)
    np.testing.assert_array_equal(model.predict(X), names[expected.argmax(axis=1)])
    np.testing.assert_allclose(model.estimator_.label_prior, mm.prior_from_signatures(signatures, [0.5, 0.5, 0.0], 0.1))
    graded = mm.ZeroShotClassifier(estimator, [[0.5, -1.0, 0.0], [-0.5, 1.0, 1.0]]).fit(X, Y)
    z = graded.estimator_.decision_function(X)
    np.testing.assert_allclose(graded.decision_function(X)[:, 0], -np.maximum(0.0, 1.0 - z * [0.5, -1.0, 0.0]).sum(axis=1))


def test_zero_shot_bad_input():
    X, signatures, classes = animals()
    Y = signatures[classes]
    base = mm.MultilabelSVMClassifier()
    for arguments, options, message in (
        ((base, signatures[:, :5]), {}, "the attributes of the signatures"),
        ((base, signatures), {"classes": ["a"]}, "different names"),
        ((base, signatures * 3), {}, "between -1 and 1"),
        ((base, signatures, [1.0]), {}, "class_probabilities has shape"),
        ((object(), signatures), {}, "estimator"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            mm.ZeroShotClassifier(*arguments, **options).fit(X, Y)


def test_groups_of_any_size_give_the_same_optimum(monkeypatch):
    X, Y = data(40, 5, 21, seed=9)
    best = Formula(X, Y).optimum()
    for size in (1, 8, 64):
        monkeypatch.setattr(multilabel_problem, "TOGETHER", size)
        assert mm.MultilabelSVMClassifier(loss="hinge", tol=1e-6, random_state=0).fit(X, Y).certificate_.primal == pytest.approx(
            best, rel=2e-6
        )
