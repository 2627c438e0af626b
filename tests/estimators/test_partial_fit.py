"""`partial_fit` beside plain NumPy: the certificate from the duals of all data ever given, whatever was frozen or forgotten."""

import pickle
from contextlib import nullcontext

import numpy as np
import pytest
from helpers.reference import reference
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin.solvers.streams.run import MEGABYTE

SMALL = 0.001  # megabytes: room for a dozen of the rows below, so that many support vectors are frozen
D, TOL = 4, 1e-6
COVARIANCE = np.diag([1.0, 2.0, 0.5, 1.0]) + 0.3
MEAN = np.array([0.3, -0.4, 0.2, 0.5])
MEANS = np.array([MEAN, -MEAN, 0.5 * MEAN])

ESTIMATORS = {
    "binary": (mm.SVMClassifier(C=0.3), 2),
    "costs": (mm.SVMClassifier(C=0.3, cost=[[0, 2], [0.5, 0]], prior_mean=MEAN, fit_intercept=False), 2),
    "squared hinge, mean and scale": (mm.SVMClassifier(C=0.3, loss="squared_hinge", prior_mean=MEAN, prior_scale=0.7), 2),
    "signs": (mm.SVMClassifier(C=0.3, prior_mean=MEAN, prior_scale=[1.5, 0.5, 1, 2], positive=[True, True, False, True]), 2),
    "covariance": (mm.SVMClassifier(C=0.3, prior_mean=MEAN, prior_covariance=COVARIANCE, class_weight={0: 2.0}), 2),
    "signs under a covariance": (mm.SVMClassifier(C=0.3, prior_mean=MEAN, prior_covariance=COVARIANCE, positive=True), 2),
    "classes": (mm.SVMClassifier(C=0.3, prior_mean=MEANS, prior_scale=0.7, class_weight={1: 3.0}), 3),
    "signs of classes": (mm.SVMClassifier(C=0.3, prior_mean=MEANS, positive=True, cost=[[0, 2, 1], [1, 0, 1], [3, 1, 0]]), 3),
    "covariance of classes": (mm.SVMClassifier(C=0.3, prior_mean=MEANS, prior_covariance=COVARIANCE), 3),
    "top-k": (mm.TopKSVMClassifier(C=0.3, k=2, prior_mean=MEAN, smoothing=0.3), 4),
    "regression": (mm.SVMRegressor(C=0.3, prior_mean=MEAN, prior_scale=0.7, intercept_scaling=2.0), 0),
    "squared regression": (mm.SVMRegressor(C=0.3, loss="squared_epsilon_insensitive", prior_mean=MEAN), 0),
}


def data(classes, n=60):
    """Samples, labels (0: targets) and weights, some of them zero."""
    rng = np.random.default_rng(classes)
    X = rng.normal(size=(n, D))
    scores = X @ rng.normal(size=(D, max(classes, 1))) + rng.normal(size=(n, max(classes, 1)))
    y = scores[:, 0] if classes == 0 else (scores[:, 0] > 0).astype(int) if classes == 2 else scores.argmax(axis=1)
    return X, y, rng.integers(0, 4, n) * 0.5


class Account:
    """All data of a model that is told them in pieces, and the duals of each sample as last reported, in arrays of our own."""

    def __init__(self, model, X, y, weight):
        self.model, self.given, self.reference = model, (X, y, weight), reference(model, X, y, weight)
        self.labels = {} if isinstance(model, mm.SVMRegressor) else {"classes": np.unique(y)}
        K = len(self.reference.quadratic.mean)
        self.duals = np.zeros(len(y) if K == 1 else (len(y), K))
        self.active = np.zeros(0, int)  # the samples of the last problem: those kept, and the last piece
        self.fenced = model.prior_covariance is not None and model.positive

    def fit(self, part):
        """Duals of these samples stay as they are from now on."""
        X, y, weight = self.given
        self.model.fit(X[part], y[part], sample_weight=weight[part])
        self.duals[part] = self.model.dual_coef_

    def tell(self, part):
        self.active = np.concatenate([self.active, part])
        X, y, weight = self.given
        self.model.partial_fit(X[part], y[part], sample_weight=weight[part], **self.labels)
        self.duals[self.active] = self.model.dual_coef_

    def check(self):
        """The certificate is what the formulas say of these duals and of the model."""
        found, problem = self.model.certificate_, self.reference
        W, b = np.atleast_2d(self.model.coef_), self.model.intercept_
        assert found.converged and found.gap <= TOL * found.primal
        assert (self.model.history_[-1].primal, self.model.history_[-1].dual) == (found.primal, found.dual)
        assert problem.infeasibility(self.duals) <= 1e-12
        if self.fenced:  # the conjugate has no closed form; the duals of the signs may fall short of its best
            dual = problem.reward(self.duals) - problem.quadratic.conjugate_by_solver(*problem.images(self.duals))
            assert found.dual <= dual + 1e-7 and found.dual == pytest.approx(dual, rel=TOL)
        else:
            dual = problem.dual(self.duals)
            assert found.dual == pytest.approx(dual.value, rel=1e-9)
            np.testing.assert_allclose(W, dual.W, atol=1e-9)
        assert found.primal == pytest.approx(self.primal(W, b), rel=1e-9)

    def primal(self, W, b) -> float:
        """The losses of kept and new samples; frozen ones count with the affine function below their loss that their dual is."""
        now = np.isin(np.arange(len(self.duals)), self.active)
        losses = self.reference.losses(self.reference.scores(W, b))
        frozen = np.where(now if self.duals.ndim == 1 else now[:, None], 0.0, self.duals)
        G, g = self.reference.images(frozen)
        affine = self.reference.reward(frozen) - np.sum(G * W) - np.sum(g * b)
        return self.reference.quadratic.value(W, b) + float((self.reference.cap * losses)[now].sum()) + affine

    def forget(self) -> int:
        """Those kept are the last support vectors, as many as memory has room for; how many were frozen."""
        kept, room = self.model._kept, self.model.solver.cache_size * MEGABYTE
        support = self.active[self.duals[self.active].reshape(self.active.size, -1).any(axis=1)]
        count = kept.samples.rows.size
        self.active = support[support.size - count :]
        X, _, weight = self.given
        np.testing.assert_array_equal(kept.samples.X, X[self.active])
        np.testing.assert_array_equal(kept.samples.weight, weight[self.active])
        size = kept.samples.nbytes + kept.duals.nbytes
        assert size <= room and (count == support.size or size / count * (count + 1) > room)
        return support.size - count


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_certificate_counts_samples_kept_frozen_and_forgotten(name):
    estimator, classes = ESTIMATORS[name]
    model = clone(estimator).set_params(tol=TOL, keep_duals=True, random_state=0, solver=mm.OnlineDual(cache_size=SMALL))
    account = Account(model, *data(classes))
    frozen, last = 0, -np.inf
    for part in np.array_split(np.arange(60), 4):
        account.tell(part)
        account.check()
        found = model.certificate_
        first = found if account.fenced else model.history_[0]  # it starts where it was, but for the duals of the signs
        assert last * (1 - 1e-12) <= first.dual <= found.dual * (1 + 1e-12)
        frozen, last = frozen + account.forget(), found.dual
    assert frozen >= 5 and not found.verified
    assert 0.7 * (best := account.reference.optimum().value) <= last <= best


@pytest.mark.parametrize("solver", ["dual_coordinate", "online"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_certificate_after_fit_counts_its_duals(name, solver):
    """They are frozen: new samples are added to them, whose problem is solved to its own optimum."""
    estimator, classes = ESTIMATORS[name]
    model = clone(estimator).set_params(tol=TOL, keep_duals=True, random_state=0, solver=solver)
    account = Account(model, *data(classes))
    first, *others = np.array_split(np.arange(60), 3)
    account.fit(first)
    last = model.certificate_.dual
    model.set_params(solver=mm.OnlineDual(cache_size=SMALL))
    for part in others:
        account.tell(part)
        account.check()
        found = model.certificate_
        assert account.fenced or last * (1 - 1e-12) <= model.history_[0].dual
        assert not found.verified and last * (1 - 1e-9) <= found.dual
        account.forget()
        last = found.dual
    assert 0.7 * (best := account.reference.optimum().value) <= last <= best


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"solver": "newton"},
        {"loss": "squared_hinge"},
        {"loss": "log_loss"},
        {"multi_class": "ovr", "prior_mean": MEANS},
        {"multi_class": "ovr", "solver": "newton"},
        {"dtype": np.float32},
        {"max_iter": 1},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_after_any_fit_the_bound_is_that_of_all_samples(given):
    """Whatever weights a fit returns, averages or points of Newton's method: its duals are what is gone on from."""
    X, y, _ = data(3)
    model = mm.SVMClassifier(**{"C": 0.3, "random_state": 0, "tol": 1e-2} | given).fit(X[:40], y[:40])
    last, best = model.certificate_.dual, clone(model).set_params(tol=1e-7, max_iter=10_000).fit(X, y).certificate_.primal
    model.set_params(tol=1e-6, max_iter=10_000, solver="auto")
    for part in (slice(40, 50), slice(50, 60)):
        found = model.partial_fit(X[part], y[part]).certificate_
        assert found.converged and not found.verified and found.dual <= found.primal
        assert last * (1 - 1e-12) <= found.dual <= best
        last = found.dual
    assert last >= 0.6 * best  # after one pass duals are as poor


def test_a_fit_on_a_source_is_gone_on_from():
    X, y, _ = data(3)
    model = mm.SVMClassifier(C=0.3, tol=1e-3, prior_mean=MEANS, positive=[True, False, False, True], random_state=0)
    best = clone(model).fit(X, y).certificate_.primal
    for solver in (mm.OnlineDual(), mm.OnlineDual(verify=False)):
        found = clone(model).set_params(solver=solver, max_iter=10_000 if solver.verify else 1)
        with pytest.warns(ConvergenceWarning) if not solver.verify else nullcontext():
            found.fit(mm.open_source([(X[:20], y[:20]), (X[20:40], y[20:40])]))
        before = found.certificate_.dual
        after = found.set_params(solver="auto", max_iter=10_000).partial_fit(X[40:], y[40:]).certificate_
        assert before * (1 - 1e-9) <= after.dual <= min(best, after.primal) and after.converged


def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order] / 16, y[order]


def many_classes(count=500):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(count), 8))
    return rng.normal(size=(count, 40))[y] + 0.7 * rng.normal(size=(y.size, 40)), y


@pytest.mark.parametrize("samples", [digits, many_classes])
def test_what_was_fitted_is_not_forgotten(samples, tmp_path):
    """After 50 more rows digits fell from 0.99 to 0.75, and 500 classes from 0.98 to 0.17. The same through files."""
    X, y = samples()
    count = len(y) - 250
    model = mm.SVMClassifier(tol=1e-2, random_state=0).fit(X[:count], y[:count])
    before, bound = model.score(X[-200:], y[-200:]), model.certificate_.dual
    mm.save(model, tmp_path / "model")
    for found in (model, mm.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        found.partial_fit(X[count : count + 50], y[count : count + 50])
        assert found.score(X[-200:], y[-200:]) >= before - 0.03
        assert bound <= found.certificate_.dual and found.certificate_ == model.certificate_
        np.testing.assert_array_equal(found.coef_, model.coef_)


def test_new_rows_are_visited_however_small_their_part_of_the_objective():
    X, y = digits()
    model = mm.SVMClassifier(tol=1e-1, random_state=0).fit(X[:-1], y[:-1])
    other = (y[-1] + 1) % 10
    before = model.decision_function(X[-1:])[0, other]
    model.partial_fit(X[-1:], [other])
    assert model.n_iter_ >= 1 and model.decision_function(X[-1:])[0, other] > before


def test_what_a_fit_leaves_is_small_and_new_after_each_fit():
    X, y, _ = data(3)
    model = mm.SVMClassifier(C=0.3, random_state=0)
    first = model.fit(X, y).coef_
    small = len(pickle.dumps(model))
    assert len(pickle.dumps(clone(model).fit(np.tile(X, (50, 1)), np.tile(y, 50)))) < 1.2 * small
    np.testing.assert_array_equal(model.partial_fit(-X, y).fit(X, y).coef_, first)  # as if nothing had been before
    np.testing.assert_array_equal(clone(model).partial_fit(X, y, classes=[0, 1, 2]).coef_, told_alone(X, y).coef_)
    warm = mm.SVMClassifier(C=0.3, warm_start=True, random_state=0).fit(X, y).partial_fit(X[:5], y[:5])
    assert warm.fit(X, y).n_iter_ <= 1 and warm.certificate_.verified


def told_alone(X, y):
    return mm.SVMClassifier(C=0.3, random_state=0).partial_fit(X, y, classes=[0, 1, 2])


def test_a_row_given_again_is_another_sample():
    X, y, _ = data(2)
    model = mm.SVMClassifier(C=1e-3, tol=TOL, random_state=0).fit(X, y)  # all samples are at their bounds
    twice = clone(model).fit(np.vstack([X, X]), np.concatenate([y, y]))
    found = model.partial_fit(X, y).certificate_
    assert found.dual == pytest.approx(twice.certificate_.dual, rel=2 * TOL)
    np.testing.assert_allclose(model.coef_, twice.coef_, atol=1e-3)


@pytest.mark.parametrize(
    ("fitted", "then", "message"),
    [
        ({}, {"C": 2.0}, "frozen duals, which belong to C=1.0, not to C=2.0: set it back"),
        ({}, {"loss": "squared_hinge"}, "belong to loss='hinge', not to loss='squared_hinge'"),
        ({}, {"cost": 2.0 - 2.0 * np.eye(3)}, "belong to another cost: set it back, or fit all samples together"),
        ({}, {"class_weight": {0: 2.0}}, "belong to another class_weight"),
        ({}, {"fit_intercept": False}, "belong to fit_intercept=True"),
        ({}, {"prior_scale": 2.0}, "belong to prior_scale=None"),
        ({"class_weight": "balanced"}, {}, "class_weight='balanced' needs all data at once"),
        ({"standardize": True}, {"standardize": False}, "keeps nothing that partial_fit could go on from.*standardize=True"),
        ({"solver": "bundle"}, {"solver": "auto"}, "keeps nothing that partial_fit could go on from.*Bundle"),
        ({"kernel": "rbf"}, {"kernel": "linear"}, "keeps nothing that partial_fit could go on from"),
        ({"probability": "sigmoid"}, {}, "needs all samples at once"),
    ],
    ids=str,
)
def test_what_a_fit_cannot_be_gone_on_from(fitted, then, message):
    X, y, _ = data(3)
    model = mm.SVMClassifier(random_state=0, tol=1e-2, **fitted).fit(X, y)
    weights = vars(model).get("coef_")
    with pytest.raises(ValueError, match=message):
        model.set_params(**then).partial_fit(X, y)
    assert vars(model).get("coef_") is weights


def test_later_rows_are_of_the_classes_and_columns_of_the_fit():
    X, y, _ = data(3)
    model = mm.SVMClassifier(random_state=0).fit(X, np.array(["a", "b", "c"])[y])
    with pytest.raises(ValueError, match=r"Sample 1 has the label .*'d'"):
        model.partial_fit(X[:2], ["a", "d"])
    with pytest.raises(ValueError, match="classes must be those of the first call of partial_fit, or of fit, 'a', 'b', 'c'"):
        model.partial_fit(X[:2], ["a", "b"], classes=["a", "b", "c", "d"])
    with pytest.raises(ValueError, match="X has 3 features"):
        model.partial_fit(X[:2, :3], ["a", "b"])
    assert model.partial_fit(X[:2], ["a", "b"], classes=["c", "b", "a"]).classes_.tolist() == ["a", "b", "c"]


def test_names_of_many_classes_are_no_targets_of_a_regression():
    """No warning, which is an error here."""
    X, y = many_classes()
    names = np.array([f"class {k}" for k in range(500)])
    model = mm.SVMClassifier(tol=1e-1, random_state=0).partial_fit(X[:50], names[y[:50]], classes=names)
    assert len(model.partial_fit(X[50:75], names[y[50:75]]).classes_) == 500


@pytest.mark.parametrize("estimator", [mm.SVMClassifier, mm.SVMRegressor, mm.MultilabelSVMClassifier])
def test_models_with_a_kernel_have_no_partial_fit(estimator):
    for name in ("partial_fit", "risk"):
        assert hasattr(estimator(), name) and not hasattr(estimator(kernel="rbf"), name)
        with pytest.raises(AttributeError, match=f"{name} is for kernel='linear', and this model has kernel='rbf': "):
            getattr(estimator(kernel="rbf"), name)


def supporting(model) -> int:
    """How many samples of the last call have duals: those that the next one will begin with."""
    return np.count_nonzero(model.dual_coef_.reshape(len(model.dual_coef_), -1).any(axis=1))


@pytest.mark.parametrize("name", ["binary", "covariance of classes", "regression"])
def test_where_every_sample_supports_pieces_end_at_the_optimum_of_all(name):
    """C is so small that all margins are violated: nothing is forgotten, and a weight is so many repetitions."""
    estimator, classes = ESTIMATORS[name]
    X, y, weight = data(classes)
    weight = (2 * weight + 1).astype(int)
    near = {} if estimator.prior_mean is None else {"prior_mean": 0.1 * estimator.prior_mean}
    exact = {} if classes else {"epsilon": 0.0}
    model = clone(estimator).set_params(C=1e-3, tol=TOL, keep_duals=True, random_state=0, **near, **exact)
    labels = {"classes": np.unique(y)} if classes else {}

    def told(weight, **options):
        found = clone(model).set_params(**options)
        for part in np.array_split(np.arange(60), 3):
            found.partial_fit(X[part], y[part], sample_weight=weight[part], **labels)
        return found

    model = told(weight)
    whole = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert model.certificate_.verified and supporting(model) == 60
    assert model.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=2 * TOL)
    assert model.certificate_.primal == pytest.approx(reference(model, X, y, weight).optimum().value, rel=2 * TOL)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-3)
    without = told(np.where(np.arange(60) == 3, 0, weight))  # one is forgotten at once, and stays so
    assert not without.certificate_.verified and supporting(without) == 59
    assert not told(weight, solver=mm.OnlineDual(cache_size=SMALL)).certificate_.verified


def test_frozen_duals_belong_to_their_c():
    """Samples that memory had no room for count by duals that are feasible at one C."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5))
    y = (X[:, 0] + rng.normal(size=120) > 0).astype(int)
    model = mm.SVMClassifier(C=1.0, solver=mm.OnlineDual(cache_size=SMALL), random_state=0).partial_fit(X[:60], y[:60], [0, 1])
    model.partial_fit(X[60:], y[60:])
    with pytest.raises(ValueError, match=r"frozen duals, which belong to C=1\.0, not to C=0\.1: set it back"):
        model.set_params(C=0.1).partial_fit(X[60:], y[60:])
    free = mm.SVMClassifier(C=1.0, random_state=0).partial_fit(X[:60], y[:60], [0, 1])
    assert free.set_params(C=0.1).partial_fit(X[60:], y[60:]).certificate_.converged  # all of them are at hand, and made feasible
