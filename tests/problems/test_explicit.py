"""`ExplicitProblem` and `solve`: constraints listed one by one, those of an example sharing a slack."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.certificates import SLACK
from helpers.drawn import features, labels, prior, seed_of, signs
from helpers.reference import Reference, grouped

import maxmargin as mm

TOL = 1e-7


def constraints(rng: np.random.Generator, n: int = 40, d: int = 4, examples: int = 12):
    """Rows with a zero row and equal rows, margins of both signs, and groups of sizes from one up, in no order."""
    X, margins = features(rng, n, d), rng.uniform(-0.5, 1.5, n)
    groups = np.concatenate([np.arange(examples), rng.integers(0, examples // 2, n - examples)])
    rng.shuffle(groups)
    return X, margins, groups


def check(result: mm.Result, problem: Reference, tol: float = TOL) -> None:
    """The certificate is true, recomputed and tight, and the weights are the optimum's."""
    certificate, w, best = result.certificate, result.w[None], problem.optimum()
    assert certificate.converged and certificate.verified and certificate.relative_gap <= tol
    assert certificate.gap == certificate.primal - certificate.dual
    assert problem.primal(w, np.zeros(1)) == pytest.approx(certificate.primal, rel=1e-9)
    assert problem.infeasibility(result.duals) <= 0.0
    slack = SLACK * max(best.value, problem.first())
    assert certificate.dual <= best.value * (1.0 + 1e-12) and best.value <= certificate.primal + slack
    distance = problem.quadratic.half_square(w - best.W, np.zeros(1))
    assert np.sqrt(distance) <= np.sqrt(max(certificate.gap, 0.0)) + np.sqrt(slack)
    for record in result.history:
        assert record.gap == record.primal - record.dual >= -1e-12 * abs(record.primal)
        assert record.dual <= best.value * (1.0 + 1e-12)
    assert (result.history[-1].primal, result.history[-1].dual) == (certificate.primal, certificate.dual)
    assert result.message == certificate.message and result.history[-1].iteration == result.n_iter


@pytest.mark.parametrize("seed", range(6))
def test_shared_slacks(seed):
    rng = np.random.default_rng(seed)
    X, margins, groups = constraints(rng)
    C = [0.1, 1.0, 10.0][seed % 3]
    result = mm.solve(mm.ExplicitProblem(X, margins, groups), C, tol=TOL)
    problem = grouped(X, margins, groups, C=C)
    check(result, problem)
    found = problem.dual(result.duals)
    assert found.value == pytest.approx(result.certificate.dual, rel=1e-9)


@pytest.mark.parametrize("sign", ["free", "mask", "positive"])
@pytest.mark.parametrize("kind", ["none", "mean", "scale", "mean+scale", "covariance", "mean+covariance"])
def test_priors_and_signs(kind, sign):
    rng = np.random.default_rng(seed_of("explicit", kind, sign))
    fenced = "covariance" in kind and sign != "free"
    X, margins, groups = constraints(rng, 20, 3, 8) if fenced else constraints(rng)
    params = prior(rng, kind, X.shape[1]) | signs(sign, X.shape[1])
    weights = rng.uniform(0.2, 2.0, len(np.unique(groups)))
    result = mm.solve(mm.ExplicitProblem(X, margins, groups, weights=weights, **params), 0.7, tol=TOL, max_iter=100_000)
    check(result, grouped(X, margins, groups, weights, 0.7, **params))


def test_sparse_rows_and_names_of_groups():
    """CSR rows; groups by name, with weights in the sorted order of the names."""
    rng = np.random.default_rng(seed_of("sparse"))
    X, margins, groups = constraints(rng)
    X[rng.random(X.shape) < 0.5] = 0.0
    names = np.array([f"example {g:02d}" for g in groups])
    weights = np.arange(1.0, 13.0) / 6.0
    dense = mm.solve(mm.ExplicitProblem(X, margins, groups, weights=weights), tol=TOL)
    sparse = mm.solve(mm.ExplicitProblem(sp.csr_array(X), margins, names, weights=weights), tol=TOL)
    check(sparse, grouped(X, margins, groups, weights))
    assert np.allclose(sparse.w, dense.w, rtol=1e-9, atol=1e-12)


def test_weight_zero_is_removal_and_two_is_repetition():
    rng = np.random.default_rng(seed_of("weights"))
    X, margins, groups = constraints(rng)
    weights = np.arange(12) % 3.0
    weighted = mm.solve(mm.ExplicitProblem(X, margins, groups, weights=weights), tol=1e-8)
    double = weights[groups] == 2.0
    kept = np.concatenate([np.flatnonzero(weights[groups] > 0.0), np.flatnonzero(double)])
    names = np.concatenate([groups[weights[groups] > 0.0], groups[double] + 100])
    repeated = mm.solve(mm.ExplicitProblem(X[kept], margins[kept], names), tol=1e-8)
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, rel=2e-8)
    apart = sum(np.sqrt(2.0 * max(result.certificate.gap, 0.0)) for result in (weighted, repeated))
    assert np.linalg.norm(weighted.w - repeated.w) <= apart
    check(weighted, grouped(X, margins, groups, weights))


def test_rows_without_groups_are_the_binary_machine():
    """One constraint y x an example with margin 1 is the binary hinge."""
    rng = np.random.default_rng(seed_of("binary"))
    X = features(rng)
    y = 2 * labels(rng, X, 2) - 1
    listed = mm.solve(mm.ExplicitProblem(y[:, None] * X, np.ones(len(y))), 0.5, tol=TOL)
    binary = mm.SVMClassifier(C=0.5, fit_intercept=False, tol=TOL, random_state=0).fit(X, y)
    assert listed.certificate.primal == pytest.approx(binary.certificate_.primal, rel=2 * TOL)
    apart = np.sqrt(2.0 * listed.certificate.gap) + np.sqrt(2.0 * binary.certificate_.gap)
    assert np.linalg.norm(listed.w - binary.coef_[0]) <= apart


def joint(X: np.ndarray, y: np.ndarray, cost: np.ndarray):
    """Rows phi(x, y) - phi(x, j) for every other class j, their margins, and the example of each."""
    n, d = X.shape
    K, rows, margins, groups = len(cost), [], [], []
    for i in range(n):
        for j in range(K):
            if j != y[i]:
                row = np.zeros((K, d))
                row[y[i]], row[j] = X[i], -X[i]
                rows.append(row.ravel())
                margins.append(cost[y[i], j])
                groups.append(i)
    return np.array(rows), np.array(margins), np.array(groups)


@pytest.mark.parametrize("K", [3, 6])
def test_multiclass_written_out(K):
    rng = np.random.default_rng(seed_of("multiclass", K))
    X = features(rng, 30, 3)
    y, cost = labels(rng, X, K), rng.uniform(0.5, 2.0, (K, K)) * (1.0 - np.eye(K))
    rows, margins, groups = joint(X, y, cost)
    listed = mm.solve(mm.ExplicitProblem(sp.csr_array(rows), margins, groups), 0.2, tol=1e-6, max_iter=100_000)
    model = mm.SVMClassifier(C=0.2, cost=cost, fit_intercept=False, tol=1e-6, random_state=0).fit(X, y)
    assert listed.certificate.converged
    assert listed.certificate.primal == pytest.approx(model.certificate_.primal, rel=2e-6)
    gaps = np.maximum([listed.certificate.gap, model.certificate_.gap], 0.0)  # by rounding one may be below zero
    apart = np.sqrt(2.0 * gaps).sum()
    assert np.linalg.norm(listed.w.reshape(K, -1) - model.coef_) <= apart


# ---- hot starts ----------------------------------------------------------------------------------------------------------------


def test_hot_start_goes_on():
    """From its own duals a solved problem is certified without a pass; from those of a rough solution the run goes on upwards."""
    rng = np.random.default_rng(seed_of("hot"))
    X, margins, groups = constraints(rng, 60)
    problem = mm.ExplicitProblem(X, margins, groups)
    cold = mm.solve(problem, 5.0, tol=1e-8, max_iter=100_000)
    again = mm.solve(problem, 5.0, tol=1e-7, duals=cold.duals)
    assert again.n_iter == 0 and len(again.history) == 1 and again.certificate.converged
    assert again.certificate.dual == pytest.approx(cold.certificate.dual, rel=1e-12)
    rough = mm.solve(problem, 5.0, tol=1e-2)
    resumed = mm.solve(problem, 5.0, tol=1e-8, duals=rough.duals, max_iter=100_000)
    assert resumed.history[0].dual == pytest.approx(rough.certificate.dual, rel=1e-9)
    assert rough.certificate.dual > 0.9 * cold.certificate.dual
    assert all(record.dual >= rough.certificate.dual * (1.0 - 1e-12) for record in resumed.history)
    check(resumed, grouped(X, margins, groups, C=5.0), 1e-8)


@pytest.mark.parametrize("C", [0.5, 50.0])
def test_hot_start_at_another_c(C):
    """Duals of another C are made feasible first."""
    rng = np.random.default_rng(seed_of("hot C"))
    X, margins, groups = constraints(rng)
    problem = mm.ExplicitProblem(X, margins, groups)
    duals = mm.solve(problem, 5.0).duals
    check(mm.solve(problem, C, tol=TOL, duals=duals, max_iter=100_000), grouped(X, margins, groups, C=C))


@pytest.mark.parametrize("kind", ["too large", "negative", "both signs"])
def test_hot_start_from_infeasible_duals(kind):
    """Whatever duals come in, feasible ones are used: no dual value is above the optimum, and the optimum is reached."""
    rng = np.random.default_rng(seed_of("infeasible", kind))
    X, margins, groups = constraints(rng)
    low, high = {"too large": (0.0, 9.0), "negative": (-9.0, 0.0), "both signs": (-9.0, 9.0)}[kind]
    duals, problem = rng.uniform(low, high, len(X)), mm.ExplicitProblem(X, margins, groups)
    expected = grouped(X, margins, groups)
    start = problem.posed.repaired(duals)
    assert expected.infeasibility(start) <= 0.0
    check(mm.solve(problem, tol=TOL, duals=duals), expected)


# ---- edges ---------------------------------------------------------------------------------------------------------------------


def test_equal_rows_share_the_mass():
    """The same constraint twice in an example is the constraint once; with another margin the larger one holds."""
    X, margins = np.array([[1.0, 0.5], [-0.3, 1.0]]), np.array([1.0, 0.7])
    once = mm.solve(mm.ExplicitProblem(X, margins, [0, 1]), tol=1e-10)
    twice = mm.solve(mm.ExplicitProblem(X[[0, 0, 1, 1, 0]], [1.0, 1.0, 0.7, 0.2, -1.0], [0, 0, 1, 1, 0]), tol=1e-10)
    assert twice.certificate.primal == pytest.approx(once.certificate.primal, rel=1e-9)
    assert np.allclose(once.w, twice.w, atol=1e-5)


def test_rows_of_zeros_pay_their_margin():
    """A zero row cannot be satisfied: its example pays the largest of its margins, and the gap closes."""
    result = mm.solve(mm.ExplicitProblem(np.zeros((4, 2)), [1.0, 2.5, -1.0, -2.0], ["a", "a", "b", "b"]), 3.0, tol=1e-12)
    assert result.certificate.primal == pytest.approx(7.5, rel=1e-12)
    assert result.certificate.dual == pytest.approx(7.5, rel=1e-12)
    assert np.array_equal(result.duals, [0.0, 3.0, 0.0, 0.0]) and not np.any(result.w)


def test_history_and_budget():
    """Stopped early, the result says so and its certificate is true; the same seed gives the same bits."""
    rng = np.random.default_rng(seed_of("history"))
    X, margins, groups = constraints(rng)
    problem, expected = mm.ExplicitProblem(X, margins, groups), grouped(X, margins, groups, C=10.0)
    best = expected.optimum().value
    for passes in (1, 2, 3, 5, 8):
        result = mm.solve(problem, 10.0, tol=1e-13, max_iter=passes)
        assert result.n_iter == passes and not result.certificate.converged and f"max_iter={passes}" in result.message
        assert result.certificate.dual <= best * (1.0 + 1e-12) and best <= result.certificate.primal * (1.0 + SLACK)
        assert expected.dual(result.duals).value == pytest.approx(result.certificate.dual, rel=1e-9)
        assert expected.primal(result.w[None], np.zeros(1)) == pytest.approx(result.certificate.primal, rel=1e-9)
    one, two = (mm.solve(problem, 10.0, tol=1e-6, random_state=3) for _ in range(2))
    assert np.array_equal(one.w, two.w) and np.array_equal(one.duals, two.duals)


@pytest.mark.compiled
def test_threads_change_nothing():
    """Enough examples for several pieces of the evaluation."""
    rng = np.random.default_rng(0)
    problem = mm.ExplicitProblem(rng.normal(size=(20_000, 3)), rng.uniform(0.0, 1.0, 20_000), np.arange(20_000) // 2)
    one, two = (mm.solve(problem, 0.01, n_jobs=jobs) for jobs in (1, 2))
    assert np.array_equal(one.w, two.w) and one.certificate == two.certificate
