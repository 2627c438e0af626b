"""`partial_fit` beside plain NumPy: the certificate from the duals of all data ever given, whatever was frozen or forgotten."""

import numpy as np
import pytest
from helpers.reference import reference
from sklearn.base import clone

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
    with pytest.raises(ValueError, match=r"frozen duals, which belong to C=1; it cannot be posed at C=0\.1"):
        model.set_params(C=0.1).partial_fit(X[60:], y[60:])
    free = mm.SVMClassifier(C=1.0, random_state=0).partial_fit(X[:60], y[:60], [0, 1])
    assert free.set_params(C=0.1).partial_fit(X[60:], y[60:]).certificate_.converged  # all of them are at hand, and made feasible
