"""Latent models: their objective written anew in NumPy, convex steps against a convex solver, all choices of small problems."""

import pickle
import signal
import warnings
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import convex as cp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV

import maxmargin as mm
from maxmargin.datasets import make_gestures

SOLVERS = {
    "dual coordinate": mm.DualCoordinate(),
    "pairwise": mm.FrankWolfe(),
    "plain": mm.FrankWolfe(steps="plain"),
    "batch": mm.FrankWolfe(block=False),
    "partial linearization": mm.PartialLinearization(temperature=0.1),
    "exponentiated gradient": mm.ExponentiatedGradient(),
}
SLOW = {"plain", "batch", "exponentiated gradient"}


def bags(seed=0, n=9, classes=3, d=3, most=4):
    """Small bags, of one candidate to `most`, one of which is moved by its class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    centre = 2.0 * rng.normal(size=(classes, d))
    X = [rng.normal(size=(rng.integers(1, most + 1), d)) for _ in range(n)]
    for bag, label in zip(X, y):
        bag[rng.integers(len(bag))] += centre[label]
    return X, y


def objective(model, X, y, s=None):
    """The latent objective at the model's weights: no code of the package."""
    s = np.ones(len(y)) if s is None else s
    W, b = model.coef_, model.intercept_
    total = 0.5 * np.sum(W**2) + 0.5 * np.sum(b**2)
    for bag, label, weight in zip(X, y, s):
        scores = bag @ W.T + b
        if len(W) == 1:
            loss = max(0.0, 1.0 - (1.0 if label == model.classes_[1] else -1.0) * scores.max())
        else:
            k = int(np.flatnonzero(model.classes_ == label)[0])
            loss = np.max(scores + (np.arange(len(W)) != k)) - scores[:, k].max()
        total += model.C * weight * loss
    return float(total)


def convex_optimum(X, y, choice, C=1.0, s=None):
    """The convex problem with these candidates fixed, by an interior-point solver; intercepts are features of one."""
    s = np.ones(len(y)) if s is None else s
    X = [np.hstack([bag, np.ones((len(bag), 1))]) for bag in X]
    K = len(set(y.tolist()))
    W = cp.Variable((1 if K == 2 else K, X[0].shape[1]))
    risk = 0
    for bag, label, z, weight in zip(X, y, choice, s):
        if K == 2:
            risk += weight * (cp.pos(1 - bag[z] @ W[0]) if label == 1 else cp.pos(1 + cp.max(bag @ W[0])))
        else:
            wrong = [cp.max(1 + bag @ W[k]) for k in range(K) if k != label]
            risk += weight * cp.pos(cp.maximum(*wrong) - bag[z] @ W[label])
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W) + C * risk))
    return cp.solved(problem)


def one_step(X, y, choice, **parameters):
    """The model after one convex problem."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the procedure did not end by itself
        return mm.LatentSVMClassifier(init=choice, max_cccp_iter=1, random_state=0, **parameters).fit(X, y)


# ---- the convex step -------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("solver", SOLVERS)
def test_convex_step_is_that_of_a_convex_solver(classes, solver):
    X, y = bags(1, classes=classes)
    choice = [len(bag) - 1 for bag in X]
    best = convex_optimum(X, y, choice, C=0.5)
    tol = 2e-2 if solver in SLOW else 1e-4
    certificate = one_step(X, y, choice, C=0.5, tol=tol, solver=SOLVERS[solver]).certificate_
    assert certificate.converged and certificate.verified and certificate.relative_gap <= tol
    assert certificate.dual <= best * (1 + 1e-6) and certificate.primal >= best * (1 - 1e-6)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("solver", ["dual coordinate", "partial linearization", "plain"])
def test_weights_are_those_of_the_duals(classes, solver):
    X, y = bags(2, classes=classes)
    model = mm.LatentSVMClassifier(C=0.3, keep_duals=True, tol=1e-2, solver=SOLVERS[solver], random_state=0).fit(X, y)
    stacked = np.concatenate(X)
    np.testing.assert_allclose(np.atleast_2d(model.dual_coef_.T) @ stacked, model.coef_, atol=1e-9)
    np.testing.assert_allclose(np.atleast_2d(model.dual_coef_.T).sum(axis=1), model.intercept_, atol=1e-9)
    assert objective(model, X, y) == pytest.approx(model.outer_history_[-1], rel=1e-9)
    if classes == 2:  # the dual value, from the duals alone: every unit of mass is worth its margin
        v = np.append(model.coef_, model.intercept_)
        assert np.abs(model.dual_coef_).sum() - 0.5 * v @ v == pytest.approx(model.certificate_.dual, rel=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_one_candidate_is_the_plain_classifier(classes):
    X, y = bags(3, n=24, classes=classes, most=1)
    latent = mm.LatentSVMClassifier(tol=1e-5, random_state=0).fit(X, y)
    plain = mm.SVMClassifier(tol=1e-5, random_state=0).fit(np.concatenate(X), y)
    for one, other in ((latent, plain), (plain, latent)):
        assert one.certificate_.dual <= other.certificate_.primal
    assert latent.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=3e-5)
    assert np.all(latent.latent_ == 0) and np.array_equal(latent.predict(X), plain.predict(np.concatenate(X)))
    np.testing.assert_allclose(latent.decision_function(X), plain.decision_function(np.concatenate(X)), atol=0.05)


# ---- the outer loop --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The weights are zero")  # small C on labels by chance
@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([2, 3]), st.sampled_from([0.01, 0.3, 10.0]), st.booleans())
def test_objective_never_rises(seed, classes, C, duals):
    X, y = bags(seed, classes=classes)
    model = mm.LatentSVMClassifier(C=C, init="random", keep_duals=duals, tol=1e-2, random_state=seed).fit(X, y)
    outer = model.outer_history_
    assert np.all(np.diff(outer) <= 0.0) and len(outer) == model.n_cccp_iter_
    assert objective(model, X, y) == pytest.approx(outer[-1], rel=1e-9)
    certificate = model.certificate_
    assert certificate.converged and certificate.verified
    assert certificate.gap >= -1e-12 * certificate.primal and certificate.primal >= outer[-1] * (1 - 1e-12)
    scores = [bag @ model.coef_.T + model.intercept_ for bag in X]
    for z, score, label in zip(model.latent_, scores, y):
        column = 0 if classes == 2 else label
        assert score[z, column] >= score[:, column].max() - 1e-9


@pytest.mark.parametrize("classes", [2, 3])
def test_end_is_a_fixed_point(classes):
    """The weights minimise, to tol, the convex problem of their own best candidates."""
    X, y = bags(4, classes=classes)
    model = mm.LatentSVMClassifier(tol=1e-5, random_state=0).fit(X, y)
    best = convex_optimum(X, y, model.latent_)
    assert objective(model, X, y) == pytest.approx(best, rel=2e-5)


@pytest.mark.parametrize("classes", [2, 3])
def test_restarts_find_the_best_of_all_choices(classes):
    X, y = bags(5, n=6, classes=classes, most=3)
    free = [range(len(bag)) if classes == 3 or label == 1 else [0] for bag, label in zip(X, y)]
    least = min(convex_optimum(X, y, choice) for choice in product(*free))
    model = mm.LatentSVMClassifier(n_restarts=10, tol=1e-5, random_state=0).fit(X, y)
    assert model.restart_objectives_.shape == (11,) and model.outer_history_[-1] == model.restart_objectives_.min()
    assert np.all(model.restart_objectives_ >= least * (1 - 1e-6))
    assert model.outer_history_[-1] == pytest.approx(least, rel=2e-5)


def test_gestures_are_found():
    X, y, frames = make_gestures(random_state=0)
    assert len(X) == 594 and X[0].shape[1] == 130 and len(set(y.tolist())) == 12
    model = mm.LatentSVMClassifier(C=0.1, random_state=0).fit(X, y)
    assert model.certificate_.converged and np.all(np.diff(model.outer_history_) <= 0)
    assert np.mean(model.latent_ == frames) >= 0.95
    assert np.mean(model.predict_latent(X) == frames) >= 0.95 and model.score(X, y) >= 0.95
    np.testing.assert_array_equal(model.predict_latent(X, y), model.latent_)


@pytest.mark.parametrize("classes", [2, 3])
def test_weights_are_repetitions(classes):
    X, y = bags(6, classes=classes)
    times = np.arange(len(y)) % 3 + (np.arange(len(y)) < classes)  # every class is there, some samples are not
    setting = {"tol": 1e-6, "init": "first", "random_state": 0}
    weighted = mm.LatentSVMClassifier(**setting).fit(X, y, sample_weight=times)
    repeated = mm.LatentSVMClassifier(**setting).fit([bag for bag, t in zip(X, times) for _ in range(t)], np.repeat(y, times))
    assert weighted.outer_history_[-1] == pytest.approx(repeated.outer_history_[-1], rel=1e-5)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=5e-3)
    assert objective(weighted, X, y, times) == pytest.approx(weighted.outer_history_[-1], rel=1e-9)


def test_class_weights_and_costs():
    X, y = bags(7)
    one = mm.LatentSVMClassifier(class_weight={0: 2, 1: 1, 2: 1}, tol=1e-5, random_state=0).fit(X, y)
    other = mm.LatentSVMClassifier(tol=1e-5, random_state=0).fit(X, y, sample_weight=1.0 + (y == 0))
    np.testing.assert_allclose(one.coef_, other.coef_)
    dear = mm.LatentSVMClassifier(cost=5.0 * (1 - np.eye(3)), tol=1e-5, random_state=0).fit(X, y)
    assert dear.outer_history_[0] > one.outer_history_[0]


# ---- input -----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_kinds_of_input_are_one():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 4, 5)), np.arange(12) % 3
    X[np.arange(12), np.arange(12) % 4] += 3.0 * np.eye(5)[y]
    setting = {"tol": 1e-6, "random_state": 0}
    dense = mm.LatentSVMClassifier(**setting).fit(X, y)
    sparse = mm.LatentSVMClassifier(**setting).fit([sp.csr_matrix(bag) for bag in X], y)
    mixed = mm.LatentSVMClassifier(**setting).fit([X[0].tolist(), *(sp.csr_array(bag) for bag in X[1:])], y)
    single = mm.LatentSVMClassifier(dtype=np.float32, **setting).fit(list(X), y)
    for other in (sparse, mixed, single):
        np.testing.assert_allclose(other.coef_, dense.coef_, atol=1e-3)
        np.testing.assert_array_equal(other.latent_, dense.latent_)
    np.testing.assert_allclose(
        sparse.decision_function([sp.csr_array(bag) for bag in X]), sparse.decision_function(X), atol=1e-12
    )
    assert dense.decision_function(X).shape == (12, 3)


X0, Y0 = bags(8)


def changed(i, bag):
    return [bag if j == i else given for j, given in enumerate(X0)]


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (changed(3, np.zeros((0, 3))), Y0, "Bag 3 of X is empty"),
        (changed(3, []), Y0, "Bag 3 of X is empty"),
        (changed(4, np.zeros((2, 5))), Y0, "Bag 4 of X has 5 features; 3 are expected"),
        (changed(5, [[0.0, np.nan, 1.0]]), Y0, "Bag 5 of X holds NaN or infinity, in candidate 0"),
        (changed(5, sp.csr_array([[1.0, 0, 0], [0.0, np.inf, 1.0]])), Y0, "Bag 5 of X holds NaN or infinity, in candidate 1"),
        (changed(2, np.zeros(3)), Y0, r"Bag 2 of X must be a matrix \(candidates, features\); its shape is \(3,\)"),
        (changed(2, [["a", "b", "c"]]), Y0, "Bag 2 of X must hold real numbers"),
        (changed(2, [[1.0, 2.0, 3.0], [1.0]]), Y0, "Bag 2 of X is not a matrix of numbers"),
        (changed(2, [[1e200, 0.0, 0.0]]), Y0, "Bag 2 of X is too large"),
        (X0, Y0[:-1], "X has 9 samples, y has 8"),
        (X0, np.zeros(9), "at least 2 classes"),
        (X0, None, "requires y"),
        ([], [], "X is empty"),
        (np.zeros((9, 3)), Y0, "one matrix of shape"),
        (sp.csr_array(np.zeros((9, 3))), Y0, "one matrix of shape"),
        (7, Y0, "sequence of bags"),
        (np.zeros((9, 0, 3)), Y0, "Bag 0 of X is empty"),
    ],
)
def test_bad_bags_are_named(X, y, words):
    with pytest.raises(ValueError, match=words):
        mm.LatentSVMClassifier().fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"C": -1.0}, "C"),
        ({"max_cccp_iter": 0}, "max_cccp_iter"),
        ({"n_restarts": -1}, "n_restarts"),
        ({"init": "best"}, "init must be one of"),
        ({"init": [0, 1]}, "an integer for each of the 9 bags"),
        ({"init": [0] * 8 + [9]}, "init names candidate 9 of bag 8"),
        ({"dtype": np.int32}, "dtype"),
        ({"solver": "none"}, "solver"),
    ],
)
def test_bad_parameters_are_named(parameters, words):
    with pytest.raises(ValueError, match=words):
        mm.LatentSVMClassifier(**parameters).fit(X0, Y0)


def test_bad_weights_and_bags_to_predict():
    model = mm.LatentSVMClassifier(random_state=0)
    with pytest.raises(NotFittedError):
        model.predict(X0)
    for weight, words in (([1.0], "shape"), (np.full(9, -1.0), "not negative"), (np.zeros(9), "not all zero")):
        with pytest.raises(ValueError, match=words):
            model.fit(X0, Y0, sample_weight=weight)
    model.fit(X0, Y0)
    with pytest.raises(ValueError, match="Bag 0 of X has 2 features; 3 are expected"):
        model.predict([np.zeros((1, 2))])
    with pytest.raises(ValueError, match="was not seen in fit"):
        model.predict_latent(X0, np.full(9, 7))
    with pytest.raises(ValueError, match="X has 9 bags, y has 2 labels"):
        model.predict_latent(X0, [0, 1])


# ---- scikit-learn ----------------------------------------------------------------------------------------


def test_clone_pickle_and_grid_search():
    X, y = bags(9, n=18)
    names = np.array(["wave", "kick", "bow"])[y]
    model = mm.LatentSVMClassifier(tol=1e-2, random_state=0)
    search = GridSearchCV(model, {"C": [0.1, 1.0]}, cv=3).fit(X, names)
    assert set(search.predict(X)) <= set(names) and 0.0 <= search.best_score_ <= 1.0
    fitted = clone(model).fit(X, names)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.decision_function(X), fitted.decision_function(X))
    np.testing.assert_array_equal(clone(model).fit(X, names).coef_, fitted.coef_)
    assert fitted.score(X, names) == np.mean(fitted.predict(X) == names)


@pytest.mark.parametrize("classes", [2, 3])
def test_warm_starts_and_paths(classes):
    X, y = bags(10, n=18, classes=classes)
    model = mm.LatentSVMClassifier(C=0.1, tol=1e-4, warm_start=True, random_state=0).fit(X, y)
    before = model.outer_history_[-1]
    model.fit(X, y)
    assert model.n_iter_ <= 3 and model.outer_history_[-1] <= before
    model.set_params(C=1.0).fit(X, y)
    assert model.certificate_.converged and objective(model, X, y) == pytest.approx(model.outer_history_[-1], rel=1e-9)
    model.fit([bag[:, :2] for bag in X[:-1]], y[:-1])  # other shapes: from the beginning
    assert model.certificate_.converged and model.coef_.shape[1] == 2
    for C, step in zip((0.01, 0.1, 1.0), clone(model).regularization_path(X, y, [0.01, 0.1, 1.0]), strict=True):
        assert step.C == C and step.certificate_.converged and step.predict(X).shape == y.shape


def test_budgets_leave_a_true_certificate():
    X, y = bags(11, n=60, classes=3, d=10)
    for limit in ({"max_iter": 1}, {"max_iter": 4}, {"max_time": 1e-6}, {"max_cccp_iter": 1, "init": "first"}):
        model = mm.LatentSVMClassifier(C=10.0, tol=1e-6, random_state=0).set_params(**limit)
        name, value = next(iter(limit.items()))
        with pytest.warns(ConvergenceWarning, match=f"{name}={value}"):
            model.fit(X, y)
        certificate = model.certificate_
        assert certificate.dual <= certificate.primal and certificate.primal >= model.outer_history_[-1] * (1 - 1e-12)
        assert certificate.converged == (certificate.relative_gap <= 1e-6)
        assert objective(model, X, y) == pytest.approx(model.outer_history_[-1], rel=1e-9)


def test_callbacks_stop_the_whole_procedure():
    class Stop:
        """Wants to stop after so many passes."""

        def __init__(self, after):
            self.after = after

        def setup(self, estimator, context):
            self.passes = 0

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            self.passes += context.parent is not None
            return self.passes >= self.after

        def teardown(self, estimator, context):
            pass

    X, y = bags(11, n=60, classes=3, d=10)
    for after in (1, 8):
        callback = Stop(after)
        model = mm.LatentSVMClassifier(C=10.0, tol=1e-6, n_restarts=3, random_state=0).set_callbacks(callback)
        with pytest.warns(ConvergenceWarning, match="Stopped by a callback"):
            model.fit(X, y)
        assert model.n_iter_ <= after + 1 and objective(model, X, y) == pytest.approx(model.outer_history_[-1], rel=1e-9)


def test_ctrl_c_leaves_a_model(default_handler):
    class Press:
        def setup(self, estimator, context):
            self.passes = 0

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            self.passes += context.parent is not None
            if self.passes == 5:
                signal.raise_signal(signal.SIGINT)

        def teardown(self, estimator, context):
            pass

    X, y = bags(11, n=60, classes=3, d=10)
    model = mm.LatentSVMClassifier(C=10.0, tol=1e-6, n_restarts=3, random_state=0).set_callbacks(Press())
    with pytest.warns(ConvergenceWarning, match="Ctrl-C"):
        model.fit(X, y)
    assert model.n_iter_ <= 7 and objective(model, X, y) == pytest.approx(model.outer_history_[-1], rel=1e-9)
    assert signal.getsignal(signal.SIGINT) is default_handler


def test_history_counts_through():
    X, y = bags(12, n=30)
    model = mm.LatentSVMClassifier(tol=1e-4, n_restarts=2, random_state=0).fit(X, y)
    passes = [record.iteration for record in model.history_]
    assert passes == sorted(passes) and passes[-1] <= model.n_iter_
    assert all(record.gap >= -1e-12 * abs(record.primal) for record in model.history_)


# ---- latent structures -----------------------------------------------------------------------------------


class Candidates(mm.LatentStructure):
    """Multiclass bags in plain Python, with Gibbs distributions over all pairs."""

    def size(self, X, y):
        self.classes_, self.width_ = sorted(set(y)), X[0].shape[1]
        return len(self.classes_) * self.width_

    def joint_feature(self, x, y, z):
        result = np.zeros((len(self.classes_), self.width_))
        result[self.classes_.index(y)] = x[z]
        return result.ravel()

    def loss(self, y_true, y):
        return float(y_true != y)

    def scores(self, w, x):
        return x @ w.reshape(len(self.classes_), -1).T

    def decode(self, w, x):
        return self.classes_[int(self.scores(w, x).max(axis=0).argmax())]

    def impute(self, w, x, y):
        return int(self.scores(w, x)[:, self.classes_.index(y)].argmax())

    def loss_augmented_decode(self, w, x, y_true, z):
        value = self.scores(w, x) + (np.array(self.classes_) != y_true)
        best, k = np.unravel_index(value.argmax(), value.shape)
        return self.classes_[k], int(best)

    def every_output(self, x, y, most):
        return self.classes_

    def every_hidden(self, x, y, most):
        return list(range(len(x)))


class Smooth(Candidates):
    def marginals(self, w, x, y_true, temperature, base=None):
        logs = (self.scores(w, x) + (np.array(self.classes_) != y_true)) / temperature
        logs = logs + (0.0 if base is None else np.log(base))
        p = np.exp(logs - logs.max())
        return np.maximum(p / p.sum(), 1e-300)

    def expect(self, x, y_true, m):
        return (m.T @ x).ravel(), float(m.sum(axis=0) @ (np.array(self.classes_) != y_true))


def latent_objective(structure, w, X, y, C):
    total = 0.5 * w @ w
    for x, label in zip(X, y):
        scores, k = structure.scores(w, x), structure.classes_.index(label)
        total += C * (np.max(scores + (np.arange(scores.shape[1]) != k)) - scores[:, k].max())
    return total


@pytest.mark.parametrize(
    ("structure", "solver"),
    [(Candidates(), "dual coordinate"), (Candidates(), "plain"), (Smooth(), "partial linearization")],
)
def test_latent_structure_is_monotone_and_certified(structure, solver):
    X, y = bags(13)
    y = y.tolist()
    model = mm.LatentStructuredSVM(structure, C=0.5, tol=1e-2, solver=SOLVERS[solver], random_state=0).fit(X, y)
    assert np.all(np.diff(model.outer_history_) <= 0) and model.certificate_.converged and model.certificate_.verified
    assert latent_objective(model.structure_, model.w_, X, y, 0.5) == pytest.approx(model.outer_history_[-1], rel=1e-9)
    assert model.latent_ == model.predict_latent(X, y)
    assert [model.structure_.impute(model.w_, x, label) for x, label in zip(X, model.predict(X))] == model.predict_latent(X)
    assert model.score(X, y) <= 0.0 and not hasattr(structure, "classes_")


def test_latent_structure_against_all_choices():
    """Every convex problem, with the true class's other candidates as outputs too, by a convex solver."""
    X, y = bags(14, n=5, most=3)
    y = y.tolist()
    model = mm.LatentStructuredSVM(Candidates(), n_restarts=4, tol=1e-5, random_state=0).fit(X, y)
    structure, least, best = model.structure_, np.inf, None
    for choice in product(*(range(len(x)) for x in X)):
        w = cp.Variable(9)
        risk = 0
        for x, label, z in zip(X, y, choice):
            pairs = [(k, c) for k in structure.classes_ for c in range(len(x))]
            features = np.array([structure.joint_feature(x, k, c) for k, c in pairs])
            loss = np.array([float(k != label) for k, _ in pairs])
            risk += cp.max(loss + features @ w) - structure.joint_feature(x, label, z) @ w
        problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + risk))
        cp.solved(problem)
        if problem.value < least:
            least, best = problem.value, choice
    assert np.all(model.restart_objectives_ >= least * (1 - 1e-6))
    model.set_params(init=best).fit(X, y)
    assert model.outer_history_[-1] == pytest.approx(least, rel=2e-5)
    compiled = mm.LatentSVMClassifier(fit_intercept=False, init=best, tol=1e-5, random_state=0).fit(X, y)
    assert compiled.outer_history_[-1] == pytest.approx(least, rel=2e-5)


def test_latent_structure_with_one_choice_is_a_structure():
    X, y = bags(15, most=1)
    y = y.tolist()
    latent = mm.LatentStructuredSVM(Candidates(), tol=1e-5, keep_duals=True, random_state=0).fit(X, y)
    plain = mm.StructuredSVM(mm.structures.Multiclass(bias=False), tol=1e-5, random_state=0).fit(np.concatenate(X), y)
    assert latent.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=3e-5)
    w = np.zeros_like(latent.w_)
    for x, label, outputs in zip(X, y, latent.dual_coef_):
        for (other, z), coefficient in outputs:
            here = latent.structure_.joint_feature(x, label, 0)
            w += coefficient * (here - latent.structure_.joint_feature(x, other, z))
    np.testing.assert_allclose(w, latent.w_, atol=1e-10)


@pytest.mark.parametrize("kind", ["bags", "structure"])
def test_weights_of_zero_are_told(kind):
    """Hidden choices that say nothing leave w = 0, certified and useless."""
    X, y = bags(15)
    model = mm.LatentSVMClassifier(fit_intercept=False) if kind == "bags" else mm.LatentStructuredSVM(Candidates())
    with pytest.warns(ConvergenceWarning, match=r"The weights are zero.*n_restarts, init='random'"):
        model.fit([np.zeros_like(bag) for bag in X], y.tolist())
    assert model.certificate_.converged
    assert not np.any(model.coef_ if kind == "bags" else model.w_)


def test_check_structure_of_latent_ones():
    class WrongImpute(Candidates):
        def impute(self, w, x, y):
            return 0

    class WrongDecode(Candidates):
        def loss_augmented_decode(self, w, x, y_true, z):
            return y_true, z

    class Listless(Candidates):
        def every_hidden(self, x, y, most):
            return None

    X, y = bags(16)
    y = y.tolist()
    for fine in (Candidates(), Smooth(), Listless()):
        mm.check_structure(fine, X, y)
    with pytest.raises(mm.StructureError, match=r"impute.* of WrongImpute is wrong|decode.* of WrongImpute is wrong"):
        mm.check_structure(WrongImpute(), X, y)
    with pytest.raises(mm.StructureError, match=r"loss_augmented_decode.* of WrongDecode is wrong"):
        mm.check_structure(WrongDecode(), X, y)


def test_wrong_latent_structures_are_told():
    class Late(Candidates):
        """Imputes well at zero weights only."""

        def impute(self, w, x, y):
            found = self.scores(w, x)[:, self.classes_.index(y)]
            return int(found.argmax() if not w.any() else found.argmin())

    class Single(Candidates):
        def loss_augmented_decode(self, w, x, y_true, z):
            return super().loss_augmented_decode(w, x, y_true, z)[0]

    class Small(Candidates):
        def size(self, X, y):
            return super().size(X, y) - 1

        def impute(self, w, x, y):
            return 0

    X, y = bags(17)
    y = y.tolist()
    for structure, words in (
        (Late(), "Late.impute is wrong for sample"),
        (Single(), r"must return a pair \(y, z\)"),
        (Small(), "size says 8 weights, joint_feature has 9"),
    ):
        with pytest.raises(ValueError, match=words):
            mm.LatentStructuredSVM(structure, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="use LatentStructuredSVM"):
        mm.StructuredSVM(Candidates()).fit(X, y)
    with pytest.raises(ValueError, match="init must be one of"):
        mm.LatentStructuredSVM(Candidates(), init=[0]).fit(X, y)
    with pytest.raises(TypeError, match="Candidates defines no marginals"):
        mm.LatentStructuredSVM(Candidates(), solver="partial_linearization").fit(X, y)


def test_latent_structures_in_scikit_learn():
    X, y = bags(18, n=12)
    y = y.tolist()
    model = mm.LatentStructuredSVM(Candidates(), tol=1e-2, random_state=0)
    search = GridSearchCV(model, {"C": [0.1, 1.0]}, cv=2).fit(X, y)
    assert len(search.predict(X)) == 12
    path = model.regularization_path(X, y, [0.1, 1.0])
    assert [step.C for step in path] == [0.1, 1.0] and all(step.certificate_.converged for step in path)
    warm = clone(model).set_params(warm_start=True).fit(X, y)
    before = warm.outer_history_[-1]
    assert warm.fit(X, y).outer_history_[-1] <= before


# ---- gestures --------------------------------------------------------------------------------------------


def test_make_gestures_is_repeatable_and_checked():
    one, other = make_gestures(20, length=(3, 6), random_state=1), make_gestures(20, length=(3, 6), random_state=1)
    for a, b in zip(one[0], other[0]):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one[2], other[2])
    assert {len(x) for x in one[0]} <= {3, 4, 5, 6} and all(0 <= t < len(x) for t, x in zip(one[2], one[0]))
    for wrong in ({"n_samples": 0}, {"n_classes": 1}, {"length": 3}, {"length": (5, 4)}, {"noise": -1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            make_gestures(**{"n_samples": 5, **wrong})
