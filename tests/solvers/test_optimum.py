"""The optimum is the one that an independent convex solver finds, for every option and combination of options.

Each case is a small random problem with a row of zeros, a repeated row and uneven scales. `check` asserts all that follows from
strong duality: the certificate encloses the optimum, the model's objective, recomputed, is the certified one, and the weights are
as near to the optimal ones as the gap allows.
"""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.certificates import SLACK, check, shaped
from helpers.drawn import features, labels, prior, seed_of, signs, targets, weights
from helpers.reference import Multiclass, quadratic, reference
from sklearn.base import clone

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.losses import HingeLoss
from maxmargin.problems.linear import BlockProblem, RowProblem, ScalarProblem
from maxmargin.result import History
from maxmargin.solvers import solution_of
from maxmargin.solvers.loop import Budget

TOL = 1e-7

PRIORS = ["none", "mean", "scale", "mean+scale", "covariance", "mean+covariance"]
SIGNS = ["free", "positive", "mask"]
INTERCEPTS = {"no": {"fit_intercept": False}, "unit": {}, "scaled": {"intercept_scaling": 4.0}}


# ---- every prior with every kind of signs and of intercept ---------------------------------------------------------------------


def fenced(kind: str, sign: str) -> bool:
    """Signs under a full covariance are half-spaces, where dual ascent is slow: there are fewer and smaller cases of them."""
    return "covariance" in kind and sign != "free"


def size(kind: str, sign: str) -> tuple[int, int]:
    """Rows and features of a case."""
    return (24, 3) if fenced(kind, sign) else (40, 5)


OPTIONS = [option for option in product(PRIORS, SIGNS, INTERCEPTS) if option[2] == "unit" or not fenced(*option[:2])]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(("kind", "sign", "intercept"), OPTIONS)
def test_binary(loss, kind, sign, intercept):
    rng = np.random.default_rng(seed_of("binary", loss, kind, sign, intercept))
    X = features(rng, *size(kind, sign))
    y = np.array(["no", "yes"])[labels(rng, X, 2)]
    params = prior(rng, kind, X.shape[1]) | signs(sign, X.shape[1]) | INTERCEPTS[intercept]
    params |= {"loss": loss, "cost": [[0.0, 0.7], [1.8, 0.0]], "class_weight": {"no": 0.6, "yes": 1.5}}
    model, weight = mm.SVMClassifier(C=0.3, tol=TOL, max_iter=100_000, random_state=0, **params), weights(rng, len(X))
    check(model.fit(X, y, sample_weight=weight), reference(model, X, y, weight))


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize(("kind", "sign", "intercept"), OPTIONS)
def test_regression(loss, kind, sign, intercept):
    rng = np.random.default_rng(seed_of("regression", loss, kind, sign, intercept))
    X = features(rng, *size(kind, sign))
    y, weight = targets(rng, X), weights(rng, len(X))
    params = prior(rng, kind, X.shape[1]) | signs(sign, X.shape[1]) | INTERCEPTS[intercept]
    model = mm.SVMRegressor(C=0.3, epsilon=0.4, loss=loss, tol=TOL, max_iter=100_000, random_state=0, **params)
    check(model.fit(X, y, sample_weight=weight), reference(model, X, y, weight))


@pytest.mark.parametrize(("kind", "sign", "intercept"), OPTIONS)
def test_multiclass(kind, sign, intercept):
    rng = np.random.default_rng(seed_of("multiclass", kind, sign, intercept))
    X, K = features(rng, *size(kind, sign)), int(rng.integers(3, 7))
    y, weight = labels(rng, X, K), weights(rng, len(X))
    weight[:K] = 1.0  # every class counts
    cost = rng.uniform(0.2, 2.0, (K, K)) * (1.0 - np.eye(K))
    tables = prior(rng, kind, X.shape[1], K if intercept == "unit" else None)
    params = tables | signs(sign, X.shape[1]) | INTERCEPTS[intercept]
    model = mm.SVMClassifier(C=0.3, cost=cost, class_weight="balanced", tol=TOL, max_iter=100_000, random_state=0, **params)
    check(model.fit(X, y, sample_weight=weight), reference(model, X, y, weight))


# ---- classes, formats, dtypes, C -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-7, 1e-3])
@pytest.mark.parametrize("K", [3, 4, 5, 8, 9, 16, 17, 30])
def test_number_of_classes(K, tol):
    """One vector of classes or several, full or not, iterated in float64 and (at the looser tol) in float32."""
    rng = np.random.default_rng(seed_of("classes", K))
    X = features(rng, 60, 6)
    y = labels(rng, X, K)
    cost = rng.integers(1, 4, (K, K)) * (1.0 - np.eye(K))
    model = mm.SVMClassifier(C=0.5, cost=cost, tol=tol, random_state=0).fit(X, y)
    check(model, reference(model, X, y))


def sparse_features(rng: np.random.Generator, n: int = 50, d: int = 20) -> np.ndarray:
    """Mostly zeros: dense rows like these are read by an index of their non-zeros."""
    X = features(rng, n, d)
    return np.where(rng.random((n, d)) < 0.12, X, 0.0)


FORMATS = {
    "csr float64": lambda X: sp.csr_matrix(X),
    "csr float32": lambda X: sp.csr_array(X.astype(np.float32)),
    "indexed float64": lambda X: X,
    "dense float32": lambda X: (X + 0.1).astype(np.float32),
}


@pytest.mark.parametrize(
    ("task", "layout", "tol"),
    [
        ("hinge", "csr float64", 1e-7),
        ("hinge", "indexed float64", 1e-7),
        ("hinge", "dense float32", 1e-3),  # iterated in float32
        ("hinge", "dense float32", 1e-7),  # read in float32, iterated in float64
        ("crammer_singer", "csr float32", 1e-3),
        ("crammer_singer", "indexed float64", 1e-3),
        ("crammer_singer", "dense float32", 1e-3),
    ],
)
def test_formats(task, layout, tol):
    rng = np.random.default_rng(seed_of("formats", task, layout))
    X = sparse_features(rng)
    y, data = labels(rng, X, 2 if task == "hinge" else 4), FORMATS[layout](X)
    model = mm.SVMClassifier(C=0.7, tol=tol, random_state=0).fit(data, y)
    check(model, reference(model, data, y))


@pytest.mark.parametrize("layout", ["csr float64", "dense float32"])
def test_formats_with_prior(layout):
    """Storage other than dense float64 meets priors and signs, and the squared loss of a regression."""
    rng = np.random.default_rng(seed_of("formats with prior", layout))
    X = sparse_features(rng)
    y, data = targets(rng, X), FORMATS[layout](X)
    params = prior(rng, "mean+scale", X.shape[1]) | signs("mask", X.shape[1])
    model = mm.SVMRegressor(C=0.7, loss="squared_epsilon_insensitive", tol=1e-6, random_state=0, **params).fit(data, y)
    check(model, reference(model, data, y))


def test_sparse_input_under_a_covariance():
    rng = np.random.default_rng(seed_of("sparse covariance"))
    X = sparse_features(rng, 40, 8)
    y, data = targets(rng, X), sp.csr_array(X)
    model = mm.SVMRegressor(C=0.7, tol=TOL, random_state=0, **prior(rng, "mean+covariance", 8)).fit(data, y)
    check(model, reference(model, data, y))


@pytest.mark.parametrize("C", [1e-4, 1e-2, 1.0, 30.0])
@pytest.mark.parametrize("task", ["hinge", "squared_hinge", "crammer_singer"])
def test_range_of_c(task, C):
    rng = np.random.default_rng(seed_of("C", task, C))
    X = features(rng)
    y = labels(rng, X, 3 if task == "crammer_singer" else 2)
    model = mm.SVMClassifier(C=C, loss="hinge" if task == "crammer_singer" else task, tol=1e-6, max_iter=100_000, random_state=0)
    check(model.fit(X, y), reference(model, X, y))


@pytest.mark.parametrize("C", [1e-6, 1e-4, 1e-3])
def test_small_c_in_float32(C):
    """Rows so short that a step moves their own scores by little more than float32 can tell apart."""
    rng = np.random.default_rng(seed_of("small C", C))
    X = features(rng)
    y = labels(rng, X, 5)
    model = mm.SVMClassifier(C=C, tol=1e-4, random_state=0).fit(X, y)
    check(model, reference(model, X, y))


def test_cost_by_name_and_zero_costs():
    """A cost of zero between two classes asks for no margin between them, only for the order."""
    rng = np.random.default_rng(0)
    X = features(rng)
    y = np.array(["a", "b", "c"])[labels(rng, X, 3)]
    cost = {"a": {"b": 0.0, "c": 2.0}, "b": {"a": 1.0, "c": 0.5}, "c": {"a": 3.0, "b": 0.0}}
    model = mm.SVMClassifier(cost=cost, tol=TOL, random_state=0).fit(X, y)
    check(model, reference(model, X, y))


def test_only_zero_rows():
    """Nothing can be learned from zeros without an intercept, and the gap closes all the same."""
    for y in ([0, 1, 0, 1, 1, 0], [0, 1, 2, 0, 1, 2]):
        model = mm.SVMClassifier(fit_intercept=False, random_state=0).fit(np.zeros((6, 2)), y)
        assert model.certificate_.primal == pytest.approx(6.0, rel=1e-12)
        assert model.certificate_.dual == pytest.approx(6.0, rel=1e-12)
        assert not np.any(model.coef_)


@pytest.mark.parametrize("solver", [mm.DualCoordinate(**{name: name == "double"}) for name in ("momentum", "average", "double")])
@pytest.mark.parametrize("K", [2, 3])
def test_options_of_the_solver(solver, K):
    """Without extrapolation, averages or float32 the optimum is the same."""
    rng = np.random.default_rng(seed_of("options", K))
    X = features(rng)
    y = labels(rng, X, K)
    model = mm.SVMClassifier(solver=solver, tol=1e-6, random_state=0, max_iter=100_000).fit(X, y)
    check(model, reference(model, X, y))


# ---- weights -------------------------------------------------------------------------------------------------------------------

PASSES = {"C": 0.4, "solver": "dual_coordinate"}  # by default Newton's method would begin
ESTIMATORS = {
    "hinge": (mm.SVMClassifier(C=0.4), 2),
    "squared_hinge": (mm.SVMClassifier(loss="squared_hinge", **PASSES), 2),
    "balanced": (mm.SVMClassifier(C=0.4, class_weight="balanced"), 2),
    "crammer_singer": (mm.SVMClassifier(C=0.4, class_weight="balanced"), 4),
    "epsilon_insensitive": (mm.SVMRegressor(C=0.4), 0),
    "squared_epsilon_insensitive": (mm.SVMRegressor(loss="squared_epsilon_insensitive", **PASSES), 0),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_integer_weights_are_repetitions(name):
    """A weight of m is the sample m times, a weight of zero is its absence: same objective, same model."""
    estimator, K = ESTIMATORS[name]
    rng = np.random.default_rng(seed_of("repetitions", name))
    X = features(rng)
    y = labels(rng, X, K) if K else targets(rng, X)
    count = rng.integers(0, 4, len(X))
    count[: max(K, 1)] = 2
    estimator.set_params(tol=1e-9, random_state=0, max_iter=100_000)
    weighted = clone(estimator).fit(X, y, sample_weight=count)
    repeated = clone(estimator).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    kept = clone(estimator).fit(X[count > 0], y[count > 0], sample_weight=count[count > 0])
    problem = reference(estimator, X, y, count)
    for other in (repeated, kept):
        assert other.certificate_.primal == pytest.approx(weighted.certificate_.primal, rel=2e-9)
        difference = [a - b for a, b in zip(shaped(weighted), shaped(other))]
        apart = sum(np.sqrt(max(model.certificate_.gap, 0.0)) for model in (weighted, other))  # both are this near to the optimum
        assert np.sqrt(problem.quadratic.half_square(*difference)) <= apart + 1e-14  # gaps may be zero
    assert np.any(count == 0) and np.any(count > 1)


def test_class_weight_is_a_sample_weight():
    rng = np.random.default_rng(1)
    X = features(rng)
    y = labels(rng, X, 3)
    factors = {0: 0.5, 1: 2.0, 2: 3.0}
    one = mm.SVMClassifier(class_weight=factors, tol=TOL, random_state=0).fit(X, y)
    two = mm.SVMClassifier(tol=TOL, random_state=0).fit(X, y, sample_weight=np.array([factors[label] for label in y]))
    assert np.array_equal(one.coef_, two.coef_)


# ---- two classes ---------------------------------------------------------------------------------------------------------------


def test_crammer_singer_with_two_classes_is_binary_at_twice_c():
    rng = np.random.default_rng(2)
    X, C = features(rng), 0.3
    y, weight = labels(rng, X, 2), rng.uniform(0.5, 2.0, len(X))
    table, budget = table_of(X, 1.0), Budget(tol=1e-8, max_iter=100_000)
    block = BlockProblem(table, y.astype(np.int64), C * weight, 1.0 - np.eye(2))
    pair = solution_of(mm.DualCoordinate(), block, budget, History())
    scalar = ScalarProblem(table, HingeLoss(), (2.0 * y - 1.0, np.ones(len(y))), 2.0 * C * weight)
    single = solution_of(mm.DualCoordinate(), scalar, budget, History())
    W = block.coefficients(pair.w)
    assert pair.certificate.converged and single.certificate.converged
    assert 2.0 * pair.certificate.primal == pytest.approx(single.certificate.primal, rel=2e-8)
    assert np.allclose(W[0], -W[1], atol=1e-12)
    assert np.linalg.norm(W[1] - W[0] - single.w) <= 4.0 * np.sqrt(pair.certificate.gap) + 2.0 * np.sqrt(single.certificate.gap)
    problem = Multiclass(X, y, C * weight, quadratic(2, X.shape[1]), 1.0 - np.eye(2))
    best = problem.optimum()
    assert pair.certificate.dual <= best.value * (1.0 + 1e-12) and best.value <= pair.certificate.primal * (1.0 + SLACK)


# ---- the same numbers again ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ESTIMATORS)
def test_same_seed_same_bits(name):
    estimator, K = ESTIMATORS[name]
    rng = np.random.default_rng(seed_of("bits", name))
    X = features(rng)
    y = labels(rng, X, K) if K else targets(rng, X)
    one, two = (clone(estimator).set_params(tol=TOL, random_state=7).fit(X, y) for _ in range(2))
    assert np.array_equal(one.coef_, two.coef_) and np.array_equal(one.intercept_, two.intercept_)
    assert [record._replace(seconds=0.0) for record in one.history_] == [record._replace(seconds=0.0) for record in two.history_]
    other = clone(estimator).set_params(tol=TOL, random_state=8).fit(X, y)
    assert not np.array_equal(one.coef_, other.coef_)  # the order of visits does depend on the seed


@pytest.mark.compiled
@pytest.mark.parametrize("K", [0, 2, 4])
def test_threads_change_no_value(K, monkeypatch):
    """Primal and dual values, to the last bit; enough samples for several pieces."""
    compared = []

    def flat(values):
        return np.hstack(values if isinstance(values, tuple) else [values])

    def on_any_number(cls, name):
        plain = getattr(cls, name)

        def same(self, *args):
            given = args[:1] if name == "risk" else (args[0], args[1] if len(args) > 1 else None)
            one, *others = (plain(self, *given, n_jobs) for n_jobs in (1, 2, 3))
            for other in others:
                assert np.array_equal(flat(one), flat(other))
            compared.append(name)
            return one

        monkeypatch.setattr(cls, name, same)

    rng = np.random.default_rng(3)
    X = features(rng, 9000, 3)
    y = labels(rng, X, K) if K else targets(rng, X)
    on_any_number(RowProblem if K > 2 else ScalarProblem, "risk")
    if K <= 2:
        on_any_number(ScalarProblem, "evaluate")
    (mm.SVMClassifier if K else mm.SVMRegressor)(C=0.01, random_state=0, tol=1e-4, solver=mm.DualCoordinate()).fit(X, y)
    assert set(compared) == ({"risk"} if K > 2 else {"risk", "evaluate"})
