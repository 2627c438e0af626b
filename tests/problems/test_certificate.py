"""The certificate is true: both its values, recomputed in plain NumPy from the model and the duals, are as stated."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.certificates import consistent, recomputed, shaped
from helpers.drawn import features, labels, prior, seed_of, signs, targets, weights
from helpers.reference import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm

TASKS = ["hinge", "squared_hinge", "crammer_singer", "epsilon_insensitive", "squared_epsilon_insensitive"]


def estimator_for(task: str, **params):
    """The estimator that has this loss, with its duals kept."""
    params = {"keep_duals": True, "random_state": 0, **params}
    if "epsilon" in task:
        return mm.SVMRegressor(loss=task, **params)
    return mm.SVMClassifier(loss="hinge" if task == "crammer_singer" else task, **params)


def target_for(task: str, rng: np.random.Generator, X: np.ndarray, K: int = 5) -> np.ndarray:
    """Labels or targets that suit the task; K classes for Crammer-Singer."""
    return targets(rng, X) if "epsilon" in task else labels(rng, X, K if task == "crammer_singer" else 2)


# ---- recomputed ----------------------------------------------------------------------------------------------------------------

OPTIONS = {
    "plain": lambda rng, d, K: {"fit_intercept": False},
    "intercept": lambda rng, d, K: {"intercept_scaling": 3.0},
    "prior": lambda rng, d, K: prior(rng, "mean+scale", d, K),
    "signs": lambda rng, d, K: signs("mask", d),
    "prior and signs": lambda rng, d, K: prior(rng, "mean+scale", d, K) | signs("positive", d),
    "covariance": lambda rng, d, K: prior(rng, "mean+covariance", d),
}


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("task", TASKS)
def test_certificate_from_scratch(task, option, tol):
    rng = np.random.default_rng(seed_of("scratch", task, option))
    X = features(rng)
    y, weight = target_for(task, rng, X), weights(rng, len(X))
    weight[:5] = 1.0
    params = OPTIONS[option](rng, X.shape[1], 5 if task == "crammer_singer" else None)
    if task == "crammer_singer":
        params["cost"] = rng.uniform(0.2, 2.0, (5, 5)) * (1.0 - np.eye(5))
    model = estimator_for(task, C=0.5, tol=tol, **params).fit(X, y, sample_weight=weight)
    assert model.certificate_.converged
    consistent(model)
    recomputed(model, reference(model, X, y, weight))


@pytest.mark.parametrize(("task", "layout"), [("hinge", "dense"), ("crammer_singer", "dense"), ("crammer_singer", "csr")])
def test_certificate_of_float32(task, layout):
    """Iterated in float32, certified in float64: on the float32 data, at the float64 weights that are returned."""
    rng = np.random.default_rng(seed_of("float32", task, layout))
    X = features(rng).astype(np.float32)
    y, data = target_for(task, rng, X, 9), sp.csr_array(X) if layout == "csr" else X
    model = estimator_for(task, tol=1e-3).fit(data, y)
    assert model.coef_.dtype == np.float64
    consistent(model)
    recomputed(model, reference(model, data, y))


@pytest.mark.parametrize("task", ["squared_hinge", "crammer_singer"])
def test_certificate_under_covariance_and_signs(task):
    """The duals of the half-spaces are not kept, so the dual value is bounded here by that of the best ones."""
    rng = np.random.default_rng(seed_of("half_spaces", task))
    X = features(rng, 24, 3)
    y = target_for(task, rng, X, 3)
    model = estimator_for(task, tol=1e-4, **prior(rng, "mean+covariance", 3), **signs("positive", 3)).fit(X, y)
    problem = reference(model, X, y)
    W, b = shaped(model)
    consistent(model)
    assert np.all(W >= 0.0)
    assert problem.primal(W, b) == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert problem.infeasibility(model.dual_coef_) <= 0.0
    bound = problem.reward(model.dual_coef_) - problem.quadratic.conjugate_by_solver(*problem.images(model.dual_coef_))
    assert model.certificate_.dual <= bound + 1e-7 * abs(bound)
    assert bound <= model.certificate_.primal


@pytest.mark.parametrize("scale", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("task", ["hinge", "crammer_singer"])
def test_certificate_under_a_narrow_prior(task, scale):
    """Weights that hardly leave a mean far from zero: the dual value must not be lost in the rounding of their difference."""
    rng = np.random.default_rng(seed_of("narrow", task))
    X = features(rng)
    y = target_for(task, rng, X)
    params = {"prior_mean": rng.normal(size=5) + 2.0, "prior_scale": np.full(5, scale), "fit_intercept": False}
    model = estimator_for(task, tol=1e-6, **params).fit(X, y)
    consistent(model)
    recomputed(model, reference(model, X, y))


def test_average_of_weights_is_certified():
    """Without duals the model may be an average of weights: still the one whose objective the certificate states."""
    rng = np.random.default_rng(seed_of("average"))
    X = features(rng, 60)
    y = labels(rng, X, 2)
    averaged = 0
    for C in (1.0, 10.0, 100.0):
        model = mm.SVMClassifier(C=C, tol=1e-3, random_state=0).fit(X, y)
        consistent(model)
        assert reference(model, X, y).primal(*shaped(model)) == pytest.approx(model.certificate_.primal, rel=1e-9)
        kept = mm.SVMClassifier(C=C, tol=1e-3, random_state=0, keep_duals=True).fit(X, y)
        averaged += not np.array_equal(kept.coef_, model.coef_)
    assert averaged > 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("task", TASKS)
def test_certificate_of_an_unfinished_run(task):
    """Stopped after a few passes, in the middle of everything: the certificate is as true as at the end."""
    rng = np.random.default_rng(seed_of("unfinished", task))
    X = features(rng)
    y = target_for(task, rng, X)
    for passes in range(1, 10):
        model = estimator_for(task, C=3.0, tol=1e-12, max_iter=passes, solver="dual_coordinate").fit(X, y)
        assert model.n_iter_ == passes and not model.certificate_.converged
        consistent(model)
        recomputed(model, reference(model, X, y))


# ---- properties ----------------------------------------------------------------------------------------------------------------

ENTRIES = st.sampled_from([-2.0, -1.0, 0.5, 1.0, 2.0])  # few values: ties, equal rows and parallel columns are common


@st.composite
def fits(draw, task: str):
    """Parameters and data of a small fit, of every kind of prior and sign."""
    n, d, K = draw(st.integers(3, 10)), draw(st.integers(1, 4)), draw(st.integers(3, 9))
    if "epsilon" in task:
        y = draw(arrays(np.float64, n, elements=ENTRIES))
    else:
        K = K if task == "crammer_singer" else 2
        y = np.concatenate([np.arange(K), draw(arrays(np.int64, n, elements=st.integers(0, K - 1)))])  # every class occurs
    X = draw(arrays(np.float64, (len(y), d), elements=ENTRIES)) * draw(st.sampled_from([0.1, 1.0, 10.0]))
    if draw(st.booleans()):
        X[draw(st.integers(0, len(y) - 1))] = 0.0
    params = {
        "C": draw(st.sampled_from([0.01, 0.3, 1.0, 20.0])),
        "tol": draw(st.sampled_from([1e-1, 1e-3, 1e-6])),
        "max_iter": draw(st.sampled_from([1, 3, 10, 3000])),
        "fit_intercept": draw(st.booleans()),
        "random_state": draw(st.integers(0, 3)),
        "positive": draw(st.sampled_from([False, True])),
        "prior_mean": draw(st.none() | arrays(np.float64, d, elements=ENTRIES)),
        "prior_scale": draw(st.none() | arrays(np.float64, d, elements=st.sampled_from([0.1, 1.0, 3.0]))),
    }
    weight = draw(st.none() | arrays(np.float64, len(y), elements=st.sampled_from([0.0, 0.5, 1.0, 2.0])))
    if weight is not None:
        weight[0] = 1.0
    return estimator_for(task, **params), X, y, weight


@pytest.mark.parametrize("task", TASKS)
@settings(max_examples=60)
@given(data=st.data())
def test_dual_never_exceeds_the_optimum_nor_the_primal(task, data):
    """P >= D at every record of the history, and no dual value is above what the convex solver reached."""
    model, X, y, weight = data.draw(fits(task))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y, sample_weight=weight)
    problem = reference(model, X, y, weight)
    best = problem.optimum()
    consistent(model)
    recomputed(model, problem)
    rounding = 1e-12 * max(abs(best.value), problem.reward(model.dual_coef_))
    assert all(record.dual <= best.value + rounding for record in model.history_)
    assert all(record.primal >= best.value - 1e-7 * abs(best.value) for record in model.history_)
