"""Kernel multi-label problems: the optimum against a convex solver, the rows in memory, and what a certificate says."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import convex as cp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel, sigmoid_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

import maxmargin as mm
from maxmargin import DualCoordinate, solvers
from maxmargin.data.gram import FunctionGram, checked_square, gram_of
from maxmargin.data.kernel_functions import cross, function_of, gamma_of, squared_lengths
from maxmargin.data.kernel_rows import KernelRows, indefinite
from maxmargin.losses import HingeLoss, SquaredHingeLoss
from maxmargin.problems.kernel import KernelScalarProblem, Point
from maxmargin.result import History
from maxmargin.solvers.ascent.kernel import KernelAscent, KernelOptions, batches
from maxmargin.solvers.ascent.smo import Workspace, go_along
from maxmargin.solvers.base import Start
from maxmargin.solvers.loop import Budget

LOSSES = {"hinge": HingeLoss, "squared_hinge": SquaredHingeLoss}
GAMMA = 0.3


def data(n=40, d=4, labels=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    Y = np.where(X @ rng.standard_normal((d, labels)) + 0.5 * rng.standard_normal((n, labels)) > 0.3, 1.0, -1.0)
    return X, Y


def problem_of(gram, Y, *, C=1.0, R=None, loss="hinge", weight=None, margin=None, bias=0.0, room=1 << 26):
    n, labels = Y.shape
    weight = np.ones((n, labels)) if weight is None else weight
    margin = np.ones((n, labels)) if margin is None else margin
    Y, margin, weight = (np.ascontiguousarray(table.T).ravel() for table in (Y, margin, weight))
    return KernelScalarProblem(gram, LOSSES[loss](), (Y, margin), weight, R, bias, room).at(C)


def rbf(X, gamma=GAMMA):
    return gram_of(function_of("rbf", gamma, 3, 0.0), X)


def solved(problem, tol=1e-6, duals=None, **options):
    start = Start(duals)
    return solvers.solution_of(DualCoordinate(), problem, Budget(tol=tol, max_time=60.0), History(), start=start, **options)


def optimum(K, Y, C, R, loss, weight, margin, bias):
    """By Clarabel, over weights in coordinates of K + bias^2 = F F' and R = A A'."""
    values, vectors = np.linalg.eigh(K + bias**2)
    F = vectors * np.sqrt(np.maximum(values, 0.0))
    values, vectors = np.linalg.eigh(R)
    A = vectors * np.sqrt(np.maximum(values, 0.0))
    U = cp.Variable((F.shape[1], A.shape[1]))
    slack = cp.pos(margin - cp.multiply(Y, F @ U @ A.T))
    losses = slack if loss == "hinge" else cp.square(slack)
    found = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(U) + C * cp.sum(cp.multiply(weight, losses))))
    return cp.solved(found)


CORRELATIONS = {
    "identity": np.eye(3),
    "dense": np.array([[1.0, 0.6, 0.3], [0.6, 1.2, 0.5], [0.3, 0.5, 0.9]]),
    "negative": np.array([[1.0, -0.4, -0.4], [-0.4, 1.0, -0.3], [-0.4, -0.3, 1.0]]),
    "semidefinite": np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", CORRELATIONS)
def test_optimum_is_that_of_a_convex_solver(name, loss):
    """With weights, missing labels, margins of their own, and the constant feature of an intercept."""
    X, Y = data(seed=3)
    rng = np.random.default_rng(1)
    weight = rng.uniform(0.2, 2.0, Y.shape) * (rng.random(Y.shape) > 0.15)
    margin = rng.uniform(0.5, 1.5, Y.shape)
    R = CORRELATIONS[name]
    for C, bias in ((0.5, 0.0), (5.0, 0.7)):
        problem = problem_of(rbf(X), Y, C=C, R=R, loss=loss, weight=weight, margin=margin, bias=bias)
        result = solved(problem)
        expected = optimum(rbf_kernel(X, gamma=GAMMA), Y, C, R, loss, weight, margin, bias)
        certificate = result.certificate
        assert certificate.converged and certificate.verified
        assert certificate.dual <= expected * (1 + 1e-7) and expected <= certificate.primal * (1 + 1e-7)
        B = np.ascontiguousarray(result.duals.T)
        fresh = Point(B, problem.scores(B))  # nothing is taken from the run
        assert problem.primal(fresh) == pytest.approx(certificate.primal, rel=1e-12)
        assert problem.dual(fresh) == pytest.approx(certificate.dual, rel=1e-12)
        assert np.all(B * Y.T >= 0.0) and (loss != "hinge" or np.all(B * Y.T <= C * weight.T))


@pytest.mark.parametrize("loss", LOSSES)
def test_identity_is_linear_svc_on_a_factor_of_the_matrix(loss):
    X, Y = data(60, 3, 2)
    values, vectors = np.linalg.eigh(rbf_kernel(X, gamma=GAMMA))
    F = vectors * np.sqrt(np.maximum(values, 0.0))
    result = solved(problem_of(rbf(X), Y), 1e-7) if loss == "hinge" else solved(problem_of(rbf(X), Y, loss=loss), 1e-7)
    total = 0.0
    for label in range(2):
        peer = LinearSVC(loss=loss, fit_intercept=False, tol=1e-10, max_iter=200_000, random_state=0).fit(F, Y[:, label])
        w = peer.coef_.ravel()
        slack = np.maximum(1.0 - Y[:, label] * (F @ w), 0.0)
        total += 0.5 * w @ w + np.sum(slack if loss == "hinge" else slack**2)
    assert result.certificate.primal == pytest.approx(total, rel=1e-5)


def test_kernels_are_scikit_learns():
    X, _ = data(30, 5)
    Z = np.random.default_rng(5).standard_normal((7, 5))
    functions = {
        "linear": (lambda A, B: A @ B.T),
        "rbf": (lambda A, B: rbf_kernel(A, B, gamma=0.4)),
        "poly": (lambda A, B: polynomial_kernel(A, B, degree=2, gamma=0.4, coef0=0.5)),
        "sigmoid": (lambda A, B: sigmoid_kernel(A, B, gamma=0.4, coef0=0.5)),
    }
    for name, peer in functions.items():
        function = function_of(name, 0.4, 2, 0.5)
        for given_X in (X, X.astype(np.float32), sp.csr_matrix(X)):
            expected = peer(
                given_X.toarray() if sp.issparse(given_X) else given_X.astype(float), X.astype(given_X.dtype).astype(float)
            )
            gram = FunctionGram(function, given_X)
            assert np.allclose(gram.rows(np.arange(30)), expected, rtol=1e-12, atol=1e-12)
            assert np.allclose(gram.block(np.array([3, 9]), np.array([1, 3, 20])), expected[np.ix_([3, 9], [1, 3, 20])])
            assert np.allclose(gram.diagonal(), np.diag(expected))
            new = sp.csr_matrix(Z) if sp.issparse(given_X) else Z
            support = given_X[:11]
            values = cross(function, new, support, squared_lengths(support))
            assert np.allclose(values, peer(Z, X[:11].astype(given_X.dtype).astype(float)))


def test_same_model_from_every_kind_of_matrix():
    """rbf, sparse, mostly zeros, precomputed, a function."""
    X, Y = data(80, 6, 4)
    X[np.random.default_rng(2).random(X.shape) < 0.9] = 0.0
    K = rbf_kernel(X, gamma=GAMMA)
    grams = {
        "dense": rbf(X),
        "sparse": rbf(sp.csr_matrix(X)),
        "precomputed": gram_of("precomputed", K),
        "float32": gram_of("precomputed", K.astype(np.float32)),
        "function": gram_of(lambda A, B: rbf_kernel(A, B, gamma=GAMMA), X),
    }
    found = {name: solved(problem_of(gram, Y, C=3.0)).certificate for name, gram in grams.items()}
    for certificate in found.values():
        assert certificate.converged and certificate.verified
        assert certificate.primal == pytest.approx(found["dense"].primal, rel=3e-6)


def test_memory_for_a_tenth_of_the_matrix():
    """The same optimum; rows are computed again and again, never more of them in memory than allowed."""
    X, Y = data(400, 5, 3)
    K = rbf_kernel(X, gamma=GAMMA)
    room = 400 * 400 * 8 // 10
    R = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])
    run = KernelAscent(problem_of(rbf(X), Y, R=R, room=room), None, KernelOptions(1e-4, 0))
    while run.advance(lambda: False) > 1e-4 * abs(run.dual):
        assert run.passes < 500
    assert run.rows.table.nbytes + 2 * run.rows.step * 8 * 400 + run.most**2 * 4 <= room
    assert np.count_nonzero(run.rows.held()) <= run.rows.capacity < 40
    assert run.rows.computed > 400 * 400
    whole = solved(problem_of(rbf(X), Y, R=R), 1e-4).certificate
    assert run.dual == pytest.approx(whole.dual, rel=1e-4)
    assert np.allclose(run.scores, R @ run.duals @ K, atol=1e-10)


def test_rows_are_kept_and_the_oldest_go_first():
    X, _ = data(50)
    K = rbf_kernel(X, gamma=GAMMA)
    rows = KernelRows(rbf(X), 8 * 50 * 8)
    assert rows.capacity == 6

    def check(wanted):
        before = rows.computed
        places = rows.need(np.array(wanted))
        assert np.allclose(rows.table[places], K[wanted], rtol=1e-13)
        return rows.computed - before

    assert check([3, 9, 20]) > 0
    assert check([9, 3]) == 0
    check([30, 31, 32])
    assert check([9, 3]) == 0
    check([40])  # 20 has not been asked for since the beginning
    assert not rows.held()[20] and rows.held()[[3, 9, 30, 31, 32, 40]].all()
    assert np.allclose(rows.product(np.ones((2, 50)), np.arange(50)), K.sum(axis=0))


def test_rows_are_kept_twice_where_they_fit():
    """Once and a half the room: a second table in float32, with a unit diagonal; never with less."""
    X, _ = data(50)
    step = 5  # rows are computed so many at a time: a sixteenth of what fits
    room = 12 * 50 * (50 + 2 * step)
    assert KernelRows(rbf(X), room - 1).scaled_rows is None
    rows = KernelRows(rbf(X), room, shift=0.5)
    assert rows.table.nbytes + rows.scaled_rows.table.nbytes + 2 * rows.step * 8 * 50 <= room
    rows.need(np.arange(50)[::-1])
    wanted = (rbf_kernel(X, gamma=GAMMA) + 0.5) / 1.5
    assert rows.scaled_rows.table.dtype == np.float32
    assert np.allclose(rows.scaled_rows.table[rows.slot], wanted, rtol=1e-6)


@pytest.mark.parametrize("labels, part", [(1, 1.0), (1, 0.02), (9, 0.05), (9, 0.0), (9, 0.9)])
def test_products_of_few_and_of_many_factors(labels, part, monkeypatch):
    """Rows in any order, more of them than one block has, some of them not here; the same on any number of threads."""
    monkeypatch.setattr("maxmargin.data.kernel_rows.WORTH", 1)
    X, rng = data(700)[0], np.random.default_rng(0)
    K, here = rbf_kernel(X, gamma=GAMMA), rng.permutation(700)[:650]
    for samples in (np.sort(here), np.arange(700)):
        factors, found = np.zeros((labels, 700)), []
        factors[:, samples] = rng.normal(size=(labels, samples.size)) * (rng.random((labels, samples.size)) < part)
        for n_jobs in (1, 3):
            rows = KernelRows(rbf(X), 1 << 24)
            rows.n_jobs = n_jobs
            rows.need(here)
            found.append(rows.product(factors, samples))
        assert np.allclose(found[0], factors @ K, rtol=1e-12, atol=1e-12)
        assert np.array_equal(*found)


def test_settled_samples_never_have_a_row():
    """Far clusters of equal labels: most rows are never computed."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((1000, 2)) * 0.05 + 1.0, rng.standard_normal((1000, 2)) * 0.05 - 1.0])
    Y = np.repeat([[1.0], [-1.0]], 1000, axis=0)
    run = KernelAscent(problem_of(rbf(X, 1.0), Y), None, KernelOptions(1e-3, 0))
    while run.advance(lambda: False) > 1e-3 * run.dual:
        pass
    assert np.count_nonzero(run.rows.held()) < 1000


def test_warm_start_after_another_c():
    X, Y = data(150, 4, 5)
    first = solved(problem_of(rbf(X), Y, C=1.0), 1e-4)
    for C in (2.0, 0.5):
        problem = problem_of(rbf(X), Y, C=C)
        start = problem.clipped(first.duals)
        warm, cold = solved(problem, 1e-4, duals=start), solved(problem, 1e-4)
        assert warm.certificate.converged
        assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-4)
        assert warm.history[0].gap < 0.5 * cold.history[0].primal
    again = solved(problem_of(rbf(X), Y, C=1.0), 1e-4, duals=first.duals)
    assert again.n_iter == 0 and again.certificate.primal == pytest.approx(first.certificate.primal, rel=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix], ids=["array", "CSR"])
def test_rows_are_the_same_on_any_number_of_threads(make, monkeypatch):
    monkeypatch.setattr("maxmargin.data.kernel_rows.WORTH", 1)
    X = make(np.random.default_rng(0).normal(size=(60, 4)) * (np.arange(4) > 1))
    tables = []
    for n_jobs in (1, 2, 3, 100):
        rows = KernelRows(gram_of(function_of("rbf", 0.3, 3, 0.0), X), 1 << 22)
        rows.n_jobs = n_jobs
        for wanted in (np.arange(0, 50, 3), np.arange(60)):
            rows.need(wanted)
        assert rows.scaled_rows is not None
        tables.append((rows.table[rows.slot], rows.scaled_rows.table[rows.slot]))
    for found in tables[1:]:
        assert all(np.array_equal(mine, theirs) for mine, theirs in zip(found, tables[0], strict=True))


@pytest.mark.parametrize("memory", [1 << 24, 8 * 700 * 300], ids=["all at once", "in blocks"])
def test_rows_of_several_strips_are_those_of_the_kernel(memory, monkeypatch):
    """What two strips have in common is computed once and written twice; asked for in any order, at a few columns or at all."""
    monkeypatch.setattr("maxmargin.data.kernel_rows.WORTH", 1)
    X, order = data(700)[0], np.random.default_rng(0).permutation(700)
    for name in ("rbf", "poly"):
        gram, tables = gram_of(function_of(name, 0.3, 2, 1.0), X), []
        K = gram.rows(np.arange(700))
        for n_jobs in (1, 3):
            rows = KernelRows(gram, memory)
            rows.n_jobs = n_jobs
            wanted = order[: rows.capacity]
            for part in (wanted[:90], wanted):
                rows.need(part)
            # A polynomial near zero is a difference of numbers about 1, which processors round differently.
            assert np.allclose(rows.table[rows.slot[wanted]], K[wanted], rtol=1e-13, atol=1e-16)
            tables.append(rows.table[rows.slot[wanted]])
        assert np.array_equal(*tables)


@pytest.mark.parametrize("box", [1e6, 1.5, 0.2])
def test_duals_go_along_within_their_boxes(box):
    """Moves and slopes belong together, the dual value never falls, and without bounds it is the best one on the line."""
    n, rng = 23, np.random.default_rng(int(box))
    K = rbf_kernel(rng.normal(size=(n, 2)), gamma=1.0)
    workspace = Workspace(n)
    part = workspace.part(n)
    slope, low, high = (lanes.reshape(-1)[:n] for lanes in (part.slope, part.low, part.high))
    part.matrix.reshape(n, -1)[:, :n] = K
    first = rng.normal(size=n)
    moved = np.clip(0.3 * np.linalg.solve(K + np.eye(n), first), -box, box) * (rng.random(n) < 0.7)
    part.moved[:], slope[:], low[:], high[:] = moved, first - K @ moved, -box - moved, box - moved
    part.marks[0, :n], part.marks[1, :n] = 0.0, first

    def value(m):
        return first @ m - 0.5 * m @ K @ m

    gone = go_along(part, n)
    assert gone == (value(part.moved) > value(moved)) and (gone or np.array_equal(part.moved, moved))
    assert np.allclose(slope, first - K @ part.moved, atol=1e-4)
    assert np.allclose(low, -box - part.moved, rtol=1e-6, atol=1e-5) and low.max() <= 0.0 <= high.min()
    if box == 1e6:
        assert gone and np.allclose(part.moved, moved * (first @ moved) / (moved @ K @ moved), rtol=1e-4)
    if box == 0.2:
        assert np.any((low == 0.0) | (high == 0.0))


def test_threads_change_nothing():
    X, Y = data(200, 4, 6)
    one = solved(problem_of(rbf(X), Y), 1e-5)
    two = solvers.solution_of(DualCoordinate(), problem_of(rbf(X), Y), Budget(tol=1e-5, n_jobs=3), History())
    assert np.array_equal(one.duals, two.duals)


def test_weights_equal_repetition():
    X, Y = data(50, 4, 2)
    times = np.random.default_rng(0).integers(1, 4, 50)
    weighted = solved(problem_of(rbf(X), Y, weight=np.repeat(times[:, None], 2, axis=1).astype(float)), 1e-7)
    repeated = solved(problem_of(rbf(np.repeat(X, times, axis=0)), np.repeat(Y, times, axis=0)), 1e-7)
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, rel=1e-6)


def test_samples_without_features_and_labels_without_prior():
    """A zero row of the kernel matrix or of R: the dual sits at its bound, and the gap closes."""
    X, Y = data(40, 3, 3)
    X[:5] = 0.0
    problem = problem_of(gram_of(function_of("linear", 1.0, 3, 0.0), X), Y, R=CORRELATIONS["semidefinite"])
    result = solved(problem)
    assert result.certificate.converged
    assert np.all(result.duals[:5] == Y[:5]) and np.all(result.duals[:, 2] == Y[:, 2])


@given(st.integers(0, 10_000))
def test_primal_is_above_dual_at_any_point(seed):
    rng = np.random.default_rng(seed)
    X, Y = data(int(rng.integers(2, 12)), 2, 2, seed)
    A = rng.standard_normal((2, int(rng.integers(1, 3))))
    loss = ("hinge", "squared_hinge")[seed % 2]
    problem = problem_of(rbf(X, rng.uniform(0.01, 5.0)), Y, C=rng.uniform(0.1, 10.0), R=A @ A.T, loss=loss, bias=seed % 3)
    points = []
    for _ in range(2):
        B = np.ascontiguousarray(problem.clipped(5.0 * rng.standard_normal(Y.shape)).T)
        points.append(Point(B, problem.scores(B)))
    scale = 1.0 + sum(abs(problem.primal(point)) for point in points)
    for one in points:
        for other in points:
            assert problem.primal(one) >= problem.dual(other) - 1e-10 * scale


def test_batches_hold_no_coupled_labels():
    R = np.eye(6)
    R[0, 1] = R[1, 0] = R[2, 5] = R[5, 2] = 0.5
    found = batches(R)
    assert sorted(np.concatenate(found)) == list(range(6)) and len(found) == 2
    for group in found:
        assert np.array_equal(R[np.ix_(group, group)], np.eye(len(group)))


def test_indefinite_kernels_are_told():
    """The values are those of a stationary point and prove nothing: the certificate says so."""
    X, Y = data(60, 5, 2)
    result = solved(problem_of(gram_of(function_of("sigmoid", 2.0, 3, 0.0), X), Y), 1e-3)
    assert not result.certificate.verified and not result.certificate.converged
    assert "not positive semidefinite" in result.certificate.message
    definite = solved(problem_of(gram_of("precomputed", rbf_kernel(X, gamma=GAMMA)), Y), 1e-3)
    assert definite.certificate.verified


@pytest.mark.parametrize("n", [1, 2, 20, 60])
def test_negative_eigenvalues_are_found_among_the_rows_in_memory(n):
    X = np.random.default_rng(n).standard_normal((n, 3))

    def found(K):
        return indefinite(KernelRows(gram_of("precomputed", K), 1 << 20))

    assert not found(np.zeros((n, n))) and not found(X @ X.T) and not found(1e-9 * rbf_kernel(X))
    if n > 1:
        sigmoid = sigmoid_kernel(X, gamma=2.0)
        assert found(1.0 - np.eye(n)) and found(sigmoid) == bool(np.linalg.eigvalsh(sigmoid)[0] < 0.0)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: gamma_of(0.0, np.ones((2, 2))), "gamma must be"),
        (lambda: gamma_of(-1.0, np.ones((2, 2))), "gamma must be"),
        (lambda: gamma_of("big", np.ones((2, 2))), "gamma must be"),
        (lambda: function_of("laplace", 1.0, 3, 0.0), "kernel must be"),
        (lambda: checked_square(np.ones((2, 3))), "must be square"),
        (lambda: checked_square(np.array([[1.0, 0.5], [0.4, 1.0]])), r"symmetric; entry \(0, 1\)"),
        (lambda: checked_square(sp.csr_matrix(np.eye(2))), "must be dense"),
        (lambda: gram_of("precomputed", np.diag([1.0, -1.0])), "sample 1 with itself is -1"),
        (lambda: gram_of(lambda A, B: np.ones((1, 1)), np.ones((5, 2))), r"returned shape \(1, 1\)"),
        (lambda: gram_of(lambda A, B: np.full((len(A), len(B)), np.nan), np.ones((5, 2))), "not finite"),
        (lambda: gram_of(function_of("rbf", 1.0, 3, 0.0), np.full((2, 2), 1e200)), "too large"),
        (lambda: KernelRows(rbf(data()[0]), 8 * 40 - 1), "cache_size is too small"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_gamma_is_that_of_svc():
    X = data()[0]
    assert gamma_of("scale", X) == pytest.approx(1.0 / (X.shape[1] * X.var()))
    assert gamma_of("scale", sp.csr_matrix(X)) == pytest.approx(gamma_of("scale", X))
    assert gamma_of("auto", X) == 1.0 / X.shape[1]
    assert gamma_of("scale", np.ones((3, 2))) == 1.0
    assert gamma_of(2, X) == 2.0


# ---- the estimator -----------------------------------------------------------------------------------------------------


def table(n=120, labels=4, seed=0):
    X, Y = data(n, 5, labels, seed)
    return X, (Y > 0).astype(int)


def test_estimator_predicts_from_the_support():
    """Scores of the training samples are R B (K + scaling^2); new samples, sparse ones and pieces alike."""
    X, Y = table()
    R = np.full((4, 4), 0.3) + 0.7 * np.eye(4)
    model = mm.MultilabelSVMClassifier(C=2.0, kernel="rbf", gamma=GAMMA, label_prior=R, intercept_scaling=0.5, tol=1e-5).fit(X, Y)
    assert model.certificate_.converged and not hasattr(model, "coef_")
    expected = (rbf_kernel(X, gamma=GAMMA) + 0.25) @ model.dual_coef_ @ R
    assert np.allclose(model.decision_function(X), expected, atol=1e-9)
    assert np.array_equal(model.predict(X), (expected > 0).astype(int))
    assert np.array_equal(model.support_, np.flatnonzero(model.dual_coef_.any(axis=1)))
    new = np.random.default_rng(3).standard_normal((9, 5))
    assert np.allclose(model.decision_function(new), (rbf_kernel(new, X, gamma=GAMMA) + 0.25) @ model.dual_coef_ @ R, atol=1e-9)
    sparse = clone(model).fit(sp.csr_matrix(X), sp.csr_matrix(Y))
    assert np.allclose(sparse.decision_function(sp.csr_matrix(new)), model.decision_function(new), atol=1e-3)
    K, cross_K = rbf_kernel(X, gamma=GAMMA), rbf_kernel(new, X, gamma=GAMMA)
    given_K = clone(model).set_params(kernel="precomputed").fit(K, Y)
    assert np.allclose(given_K.decision_function(cross_K), model.decision_function(new), atol=1e-3)
    function = clone(model).set_params(kernel=lambda A, B: rbf_kernel(A, B, gamma=GAMMA)).fit(X, Y)
    assert np.allclose(function.decision_function(new), model.decision_function(new), atol=1e-3)


def test_estimator_equals_the_linear_one_on_a_linear_kernel():
    X, Y = table()
    Z = Y.astype(float)
    Z[::7, 1] = np.nan
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    for loss in LOSSES:
        settings = dict(C=0.3, loss=loss, label_weight="balanced", cost=[1.0, 2.0, 0.5, 1.0], tol=1e-6, random_state=0)
        linear = mm.MultilabelSVMClassifier(**settings).fit(X, Z, sample_weight=weight)
        kernel = mm.MultilabelSVMClassifier(kernel="poly", degree=1, gamma=1.0, **settings).fit(X, Z, sample_weight=weight)
        assert kernel.certificate_.primal == pytest.approx(linear.certificate_.primal, rel=2e-6)
        assert np.allclose(kernel.intercept_, linear.intercept_, atol=1e-2)


def test_estimator_warm_start_path_and_other_kernels():
    X, Y = table()
    model = mm.MultilabelSVMClassifier(kernel="rbf", warm_start=True, tol=1e-4).fit(X, Y)
    assert model.fit(X, Y).n_iter_ == 0
    model.set_params(kernel="linear").fit(X, Y)
    assert hasattr(model, "coef_") and not hasattr(model, "support_")
    assert model.set_params(kernel="rbf").fit(X, Y).certificate_.converged
    path = mm.MultilabelSVMClassifier(kernel="rbf").regularization_path(X, Y, [0.1, 1.0, 10.0])
    assert [fitted.C for fitted in path] == [0.1, 1.0, 10.0] and all(fitted.certificate_.converged for fitted in path)
    search = GridSearchCV(mm.MultilabelSVMClassifier(kernel="precomputed", tol=1e-2), {"C": [0.1, 1.0]}, cv=2)
    assert search.fit(rbf_kernel(X, gamma=GAMMA), Y).best_score_ > 0.2


@pytest.mark.parametrize(
    ("settings", "X", "sentence"),
    [
        ({"kernel": "rbf", "gamma": 0.0}, None, "gamma"),
        ({"kernel": "rbf", "cache_size": 1e-6}, None, "cache_size is too small"),
        ({"kernel": "precomputed"}, np.ones((120, 3)), "must be square"),
        ({"kernel": lambda A, B: np.ones((2, 2))}, None, "returned shape"),
    ],
)
def test_estimator_refuses(settings, X, sentence):
    own, Y = table()
    with pytest.raises(ValueError, match=sentence):
        mm.MultilabelSVMClassifier(**settings).fit(own if X is None else X, Y)


def test_estimator_warns_where_the_kernel_is_no_kernel():
    X, Y = table()
    with pytest.warns(ConvergenceWarning, match="not positive semidefinite"):
        model = mm.MultilabelSVMClassifier(kernel="sigmoid", gamma=2.0).fit(X, Y)
    assert not model.certificate_.verified and model.predict(X).shape == Y.shape
