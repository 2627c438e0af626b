"""The losses and forms that people have now: one optimum with LinearSVC, LogisticRegression and Ridge, and everything else that
the linear estimators do, with these losses and with each class against the rest."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import convex as cp
from helpers.multilabel import correlated, root
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

import maxmargin as mm
from maxmargin import losses
from maxmargin.data.sources.memory import Arrays

rng = np.random.default_rng(0)
N, D, K = 120, 5, 4
X = rng.normal(size=(N, D)) * [1.0, 2.0, 0.5, 1.0, 1.0] * rng.integers(0, 2, (N, D))
X[7] = 0.0
SCORES = X @ rng.normal(size=(D, K)) + rng.normal(size=(N, K))
WEIGHT = rng.integers(0, 4, N).astype(float)
TWO, MANY, REAL = np.array(["b", "a"])[(SCORES[:, 0] > 0).astype(int)], SCORES.argmax(axis=1), SCORES[:, 0]
CLASS_WEIGHT = {0: 3.0, 2: 0.25}
TIGHT = {"tol": 1e-10, "max_iter": 100_000}
LOSSES = ["hinge", "squared_hinge", "log_loss", "squared_error"]

FORMS = {
    "dense": X,
    "CSR": sp.csr_array(X),
    "float32": X.astype(np.float32),
    "CSR float32": sp.csr_array(X.astype(np.float32)),
}


def formula(name, m):
    """The loss of margins m = y z."""
    violation = np.maximum(1.0 - m, 0.0)
    return {
        "hinge": violation,
        "squared_hinge": violation**2,
        "log_loss": np.logaddexp(0.0, -m),
        "squared_error": (1.0 - m) ** 2,
    }[name]


def signs(y):
    return 2.0 * (y[:, None] == np.unique(y)) - 1.0


def objective(model, y, weight=None, factors=None, X=X):
    """P of one against the rest, or of two classes, in NumPy; weights of the intercept are those of a feature."""
    Y = signs(y)
    if len(model.classes_) == 2:
        Y = Y[:, 1:]
    weight = np.ones(len(y)) if weight is None else weight
    caps = model.C * weight[:, None] * (1.0 if factors is None else np.where(Y > 0, factors, 1.0))
    penalty = 0.5 * np.sum(model.coef_**2) + 0.5 * np.sum((model.intercept_ / model.intercept_scaling) ** 2)
    scores = X @ model.coef_.T + model.intercept_
    return penalty + np.sum(caps * formula(model.loss, Y * scores))


def close(model, peer, to=1e-5):
    """The weights of the optimum are within sqrt(2 gap) of the model's; `to` is for the peer, and for X in float32."""
    ours, theirs = (
        np.append(np.ravel(each.coef_), np.ravel(each.intercept_) / model.intercept_scaling) for each in (model, peer)
    )
    assert np.linalg.norm(ours - theirs) <= np.sqrt(2.0 * max(model.certificate_.gap, 0.0)) + to * np.linalg.norm(theirs)


# ---- one optimum with scikit-learn's -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize(
    ("weight", "class_weight"), [(None, None), (WEIGHT, None), (None, CLASS_WEIGHT), (WEIGHT, "balanced")], ids=str
)
def test_one_against_the_rest_is_linear_svc(form, loss, weight, class_weight):
    """Its defaults, sample weights and class weights, and another scaling of the intercept."""
    given = {"C": 0.5, "loss": loss, "class_weight": class_weight, "intercept_scaling": 2.0}
    peer = LinearSVC(tol=1e-10, max_iter=10_000_000, **given).fit(X, MANY, weight)
    model = mm.SVMClassifier(multi_class="ovr", **given, **TIGHT, random_state=0).fit(FORMS[form], MANY, weight)
    assert model.certificate_.converged and model.coef_.shape == (K, D)
    close(model, peer)


def test_the_defaults_of_linear_svc():
    peer = LinearSVC(tol=1e-10, max_iter=1_000_000).fit(X, MANY)
    model = mm.SVMClassifier(loss="squared_hinge", multi_class="ovr", **TIGHT).fit(X, MANY)
    close(model, peer)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-3)
    assert np.mean(model.predict(X) == peer.predict(X)) > 0.99
    one_by_one = OneVsRestClassifier(mm.SVMClassifier(loss="squared_hinge", **TIGHT)).fit(X, MANY)
    np.testing.assert_allclose(model.coef_, np.vstack([each.coef_ for each in one_by_one.estimators_]), atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("C", "weight"), [(0.01, None), (1.0, WEIGHT), (50.0, None)])
def test_two_classes_are_logistic_regression(form, C, weight):
    given = {"C": C, "class_weight": {"b": 2.0}, "intercept_scaling": 3.0}
    peer = LogisticRegression(solver="liblinear", tol=1e-12, max_iter=100_000, **given).fit(X, TWO, weight)
    model = mm.SVMClassifier(loss="log_loss", **given, **TIGHT, random_state=0).fit(FORMS[form], TWO, weight)
    assert model.certificate_.converged and np.array_equal(model.predict(X), peer.predict(X))
    close(model, peer)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("C", "weight"), [(0.01, None), (1.0, WEIGHT), (50.0, None)])
def test_many_classes_are_multinomial_logistic_regression(form, C, weight):
    """At the same C. scikit-learn leaves the intercept free, so that the models agree without one."""
    given = {"C": C, "class_weight": CLASS_WEIGHT, "fit_intercept": False}
    peer = LogisticRegression(tol=1e-10, max_iter=100_000, **given).fit(X, MANY, weight)
    model = mm.SVMClassifier(loss="log_loss", **given, **TIGHT, random_state=0).fit(FORMS[form], MANY, weight)
    assert model.certificate_.converged and np.array_equal(model.predict(X), peer.predict(X))
    close(model, peer)


def test_each_class_is_logistic_regression():
    model = mm.SVMClassifier(0.7, loss="log_loss", multi_class="ovr", **TIGHT, random_state=0).fit(X, MANY, WEIGHT)
    peer = LogisticRegression(C=0.7, solver="liblinear", tol=1e-12, max_iter=100_000)
    for k in range(K):
        one = clone(peer).fit(X, k == MANY, WEIGHT)
        np.testing.assert_allclose(model.coef_[k], one.coef_[0], rtol=0.0, atol=1e-4 * np.abs(one.coef_).max())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("C", [0.02, 3.0])
def test_squared_error_is_ridge(form, C):
    setting = {"loss": "squared_error", "fit_intercept": False, "tol": 1e-10, "max_iter": 100_000, "random_state": 0}
    ridge = Ridge(1.0 / (2.0 * C), fit_intercept=False).fit(X, REAL, WEIGHT)
    model = mm.SVMRegressor(C, **setting, epsilon=0.7).fit(FORMS[form], REAL, WEIGHT)
    close(model, ridge)
    classes = mm.SVMClassifier(C, **setting).fit(FORMS[form], MANY, WEIGHT)
    ridge.fit(X, signs(MANY), WEIGHT)
    np.testing.assert_allclose(classes.coef_, ridge.coef_, rtol=0.0, atol=1e-4 * np.abs(ridge.coef_).max())
    cost = np.array([[0.0, 2.0], [0.5, 0.0]])
    two = mm.SVMClassifier(C, cost=cost, **setting).fit(FORMS[form], TWO, WEIGHT)
    ridge.fit(X, np.where(TWO == "b", 0.5, -2.0), WEIGHT)
    close(two, ridge)


# ---- certificates --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["dual_coordinate", "bundle", "online"])
@pytest.mark.parametrize("loss", LOSSES)
def test_certificates_of_one_against_the_rest(loss, solver):
    """P is what NumPy says, and D is below the P of every other solver."""
    setting = {"loss": loss, "multi_class": "ovr", "class_weight": CLASS_WEIGHT, "random_state": 0}
    best = mm.SVMClassifier(0.3, tol=1e-8, **setting, max_iter=100_000).fit(X, MANY, WEIGHT).certificate_
    model = mm.SVMClassifier(0.3, tol=1e-3, solver=solver, **setting).fit(X, MANY, WEIGHT)
    factors = np.array([CLASS_WEIGHT.get(k, 1.0) for k in range(K)])
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(objective(model, MANY, WEIGHT, factors), rel=1e-11)
    assert model.certificate_.dual <= best.primal * (1 + 1e-12) and best.dual <= model.certificate_.primal * (1 + 1e-12)


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("multi_class", ["crammer_singer", "ovr"])
@pytest.mark.parametrize("y", [TWO, MANY], ids=["two", "many"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_certificates_of_the_logistic_loss(C, multi_class, y, dtype):
    """From scratch, at caps from tiny to huge, with a row of zeros among the samples and no intercept."""
    setting = {"loss": "log_loss", "multi_class": multi_class, "fit_intercept": False, "random_state": 0, "keep_duals": True}
    model = mm.SVMClassifier(C, tol=1e-6, max_iter=100_000, **setting).fit(X.astype(dtype), y)
    certificate, duals, data = model.certificate_, model.dual_coef_, X.astype(dtype).astype(float)
    assert certificate.converged and -1e-12 <= certificate.relative_gap <= 1e-6  # but for rounding
    scores = data @ model.coef_.T
    if y is MANY and multi_class == "crammer_singer":
        top = scores.max(axis=1)
        losses = top + np.log(np.exp(scores - top[:, None]).sum(axis=1)) - scores[np.arange(N), y]
        np.testing.assert_allclose(duals.sum(axis=1), 0.0, atol=1e-12 * C)
        assert duals[7, y[7]] == pytest.approx(C * (1.0 - 1.0 / K))
    else:
        Y = signs(y)[:, 1:] if y is TWO else signs(y)
        losses = np.logaddexp(0.0, -Y * scores)
        a = duals.reshape(Y.shape) * Y
        assert np.all((a >= 0.0) & (a <= C))
        np.testing.assert_allclose(a[7], 0.5 * C)
    assert certificate.primal == pytest.approx(0.5 * np.sum(model.coef_**2) + C * losses.sum(), rel=1e-12)
    np.testing.assert_allclose(duals.reshape(N, -1).T @ data, model.coef_, rtol=0.0, atol=1e-10 * np.abs(model.coef_).max())


# ---- what the linear estimators do ---------------------------------------------------------------------------------------------

CASES = {
    "two, logistic": (mm.SVMClassifier(0.3, loss="log_loss"), TWO),
    "two, squares": (mm.SVMClassifier(0.3, loss="squared_error"), TWO),
    "multinomial": (mm.SVMClassifier(0.3, loss="log_loss"), MANY),
    **{f"rest, {loss}": (mm.SVMClassifier(0.3, loss=loss, multi_class="ovr"), MANY) for loss in LOSSES},
    "regression": (mm.SVMRegressor(0.3, loss="squared_error"), REAL),
}
each = pytest.mark.parametrize(("model", "y"), CASES.values(), ids=CASES)


@each
def test_duals_paths_and_warm_starts(model, y):
    model = clone(model).set_params(tol=1e-7, max_iter=100_000, random_state=0, keep_duals=True)
    path = model.regularization_path(X, y, [0.1, 0.3], WEIGHT)
    alone = clone(model).fit(X, y, WEIGHT)
    assert all(step.certificate_.converged for step in path)
    assert path[1].certificate_.primal == pytest.approx(alone.certificate_.primal, rel=2e-7)
    assert alone.dual_coef_.shape == ((N, K) if y is MANY else (N,))
    np.testing.assert_allclose(
        alone.dual_coef_.T @ X, alone.coef_.reshape(-1, D) if y is MANY else alone.coef_.ravel(), atol=1e-9
    )
    again = clone(model).set_params(warm_start=True).fit(X, y, WEIGHT)
    assert again.fit(X, y, WEIGHT).n_iter_ <= 1
    assert again.set_params(C=0.4).fit(X, y, WEIGHT).certificate_.converged


@each
def test_pieces_and_sources(model, y):
    model = clone(model).set_params(tol=1e-5, max_iter=100_000, random_state=0)
    whole = clone(model).fit(X, y, WEIGHT)
    source = clone(model).fit(Arrays(X, y, WEIGHT))
    assert source.certificate_.converged and source.certificate_.verified
    assert source.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=3e-5)
    pieces = clone(model)
    for k, part in enumerate((slice(0, 50), slice(50, N))):
        known = {"classes": np.unique(y)} if k == 0 and y is not REAL else {}
        pieces.partial_fit(X[part], y[part], sample_weight=WEIGHT[part], **known)
    assert pieces.certificate_.dual <= whole.certificate_.primal * (1 + 1e-9)
    if model.loss in ("log_loss", "squared_error"):  # whoever has weight has a dual, and nobody is forgotten
        assert pieces.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=3e-5)


@each
def test_risk_is_the_losses(model, y):
    model = clone(model).set_params(tol=1e-6, max_iter=100_000, random_state=0).fit(X, y, WEIGHT)
    risk = model.risk(X, y, WEIGHT)
    w = np.column_stack([np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)]).ravel()
    value, slope = risk(w)
    assert 0.5 * w @ w + model.C * value == pytest.approx(model.certificate_.primal, rel=1e-10)
    step = 1e-6 * rng.normal(size=w.size)
    assert risk(w + step)[0] >= value + slope @ step - 1e-12 * value and risk(w - step)[0] >= value - slope @ step - 1e-12 * value
    if model.loss != "hinge":  # which has kinks
        assert (risk(w + step)[0] - risk(w - step)[0]) / 2 == pytest.approx(slope @ step, rel=1e-4, abs=1e-10)


PRIORS = {
    "signs": {"positive": [True, False, True, False, True]},
    "mean and scale": {"prior_mean": np.linspace(-1, 1, D), "prior_scale": np.linspace(0.5, 2.0, D)},
    "all, with signs": {"prior_mean": np.linspace(-1, 1, D), "prior_scale": np.linspace(0.5, 2.0, D), "positive": True},
    "covariance": {"prior_covariance": np.eye(D) + 0.3},
    "covariance with signs": {"prior_covariance": np.eye(D) + 0.3, "positive": [True, False, True, False, False]},
}


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("loss", LOSSES)
def test_priors_and_signs_with_one_against_the_rest(loss, prior):
    """The same as those of every class by itself."""
    setting = {"C": 0.2, "loss": loss, "tol": 1e-6, "max_iter": 100_000, "random_state": 0, **PRIORS[prior]}
    model = mm.SVMClassifier(multi_class="ovr", **setting).fit(X, MANY, WEIGHT)
    alone = [mm.SVMClassifier(**setting).fit(X, k == MANY, WEIGHT) for k in range(K)]
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(sum(one.certificate_.primal for one in alone), rel=3e-6)
    np.testing.assert_allclose(model.coef_, np.vstack([one.coef_ for one in alone]), atol=0.02)


@pytest.mark.parametrize("prior", PRIORS)
def test_priors_and_signs_with_the_multinomial_loss(prior):
    """Dual ascent and bundles of planes come to the same."""
    setting = {"C": 0.2, "loss": "log_loss", "random_state": 0, **PRIORS[prior]}
    found = mm.SVMClassifier(tol=1e-7, max_iter=100_000, **setting).fit(X, MANY, WEIGHT)
    assert found.certificate_.converged
    if prior != "covariance with signs":  # which planes do not serve
        planes = mm.SVMClassifier(tol=1e-3, solver="bundle", **setting).fit(X, MANY, WEIGHT)
        assert planes.certificate_.dual <= found.certificate_.primal * (1 + 1e-9)
        assert found.certificate_.dual <= planes.certificate_.primal * (1 + 1e-9)


def test_a_class_has_a_prior_of_its_own():
    mean = rng.normal(size=(K, D))
    model = mm.SVMClassifier(0.2, loss="log_loss", multi_class="ovr", prior_mean=mean, prior_scale=np.exp(0.3 * mean), tol=1e-6)
    model.fit(X, MANY)
    for k in range(K):
        one = mm.SVMClassifier(0.2, loss="log_loss", prior_mean=mean[k], prior_scale=np.exp(0.3 * mean[k]), tol=1e-6)
        np.testing.assert_allclose(model.coef_[k], one.fit(X, k == MANY).coef_[0], atol=0.01)


# ---- which form is meant, and what is refused ----------------------------------------------------------------------------------


def test_which_form_is_meant():
    """Two classes are two classes; squared losses of more are of each against the rest, and a cost of one everywhere is none."""
    for loss in LOSSES:
        one, other = (
            mm.SVMClassifier(loss=loss, multi_class=form, random_state=0).fit(X, TWO) for form in ("ovr", "crammer_singer")
        )
        assert one.coef_.shape == (1, D) and np.array_equal(one.coef_, other.coef_)
    for loss in ("squared_hinge", "squared_error"):
        one = mm.SVMClassifier(loss=loss, multi_class="ovr", cost=1.0 - np.eye(K), random_state=0).fit(X, MANY)
        assert np.array_equal(one.coef_, mm.SVMClassifier(loss=loss, random_state=0).fit(X, MANY).coef_)
    joint, apart = (mm.SVMClassifier(multi_class=form, tol=1e-5).fit(X, MANY) for form in ("crammer_singer", "ovr"))
    assert not np.allclose(joint.coef_, apart.coef_, atol=0.01)


COST = 2.0 - 2.0 * np.eye(K)


@pytest.mark.parametrize(
    ("setting", "y", "message"),
    [
        ({"multi_class": "ovr", "cost": COST}, MANY, "cost is for one loss of all classes; .* leave it out"),
        ({"loss": "squared_hinge", "cost": COST}, MANY, "cost is for one loss of all classes; .* leave it out"),
        ({"loss": "log_loss", "cost": COST}, MANY, "'log_loss' has no margins.* leave cost out"),
        ({"loss": "log_loss", "cost": [[0, 2], [1, 0]]}, TWO, "'log_loss' has no margins.* leave cost out"),
        ({"multi_class": "each"}, MANY, "The 'multi_class' parameter of SVMClassifier must be"),
        ({"loss": losses.BINARY["squared_hinge"]()}, MANY, "SquaredHingeLoss is for two classes; y has 4"),
        (
            {"loss": losses.MULTICLASS["hinge"](), "multi_class": "ovr"},
            MANY,
            "'ovr' does not go with CrammerSingerLoss.* by its name",
        ),
        ({"loss": "log_loss", "solver": "frank_wolfe"}, MANY, "FrankWolfe serves no MultinomialLoss"),
    ],
)
def test_refused(setting, y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        mm.SVMClassifier(**setting).fit(X, y)


def test_solvers_of_structures_refuse_one_against_the_rest():
    with pytest.raises(TypeError, match=r"PartialLinearization .*\.$"):
        mm.SVMClassifier(multi_class="ovr", solver="partial_linearization").fit(X, MANY)


# ---- labels --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_labels_with_smooth_losses(loss, coupled):
    """Against the convex solver: missing labels, label weights, and a prior that couples labels."""
    Y = np.where(rng.random((N, K)) < 0.1, np.nan, SCORES > 0.5)
    R = correlated(K) if coupled else np.eye(K)
    weight = rng.uniform(0.5, 2.0, (K, 2))
    cost = None if loss == "log_loss" else [1.0, 0.5, 2.0, 1.0]
    model = mm.MultilabelSVMClassifier(
        0.3, loss=loss, label_prior=R if coupled else None, label_weight=weight, cost=cost, tol=1e-7, max_iter=100_000
    ).fit(X, Y, WEIGHT)
    F, sign = root(R), np.where(Y == 1, 1.0, -1.0)
    caps = 0.3 * WEIGHT[:, None] * np.where(Y == 1, weight[:, 1], weight[:, 0]) * ~np.isnan(Y)
    U = cp.Variable((D + 1, F.shape[1]))
    m = cp.multiply(sign, np.column_stack([X, np.ones(N)]) @ U @ F.T)
    losses = cp.logistic(-m) if cost is None else cp.square(np.broadcast_to(cost, Y.shape) - m)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(U) + cp.sum(cp.multiply(caps, losses))))
    best = cp.solved(problem)
    assert model.certificate_.converged
    assert model.certificate_.dual <= best * (1 + 1e-6) and best <= model.certificate_.primal * (1 + 1e-6)
    planes = mm.MultilabelSVMClassifier(
        0.3, loss=loss, label_prior=model.label_prior, label_weight=weight, cost=cost, solver="bundle"
    )
    assert planes.fit(X, Y, WEIGHT).certificate_.dual <= best * (1 + 1e-6)
    assert model.predict(X).shape == Y.shape


def test_labels_refuse():
    Y = (SCORES > 0).astype(int)
    with pytest.raises(ValueError, match="loss='log_loss' has no margins, which cost is about; leave cost out"):
        mm.MultilabelSVMClassifier(loss="log_loss", cost=[1, 2, 1, 1]).fit(X, Y)
    assert mm.MultilabelSVMClassifier().loss == "squared_hinge"
