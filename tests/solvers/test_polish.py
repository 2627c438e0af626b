"""Newton steps on the free duals: coordinate ascent to tight tolerances in few passes, and never a lower dual value."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear
from sklearn.base import clone

import maxmargin as mm
from maxmargin import losses, structures
from maxmargin.data.gram import gram_of
from maxmargin.data.indicators import checked_labels
from maxmargin.data.kernel_functions import function_of
from maxmargin.data.table import table_of
from maxmargin.problems.kernel import KernelRowProblem, KernelScalarProblem
from maxmargin.problems.linear import BlockProblem, ScalarProblem
from maxmargin.problems.multilabel import MultilabelProblem
from maxmargin.problems.structured import StructuredProblem
from maxmargin.result import History, relative
from maxmargin.solvers.base import NOWHERE, Setting
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.loop import Budget, drive
from maxmargin.solvers.newton import Newton
from maxmargin.solvers.polish.curvature import DenseBetween, ThinBetween
from maxmargin.solvers.polish.face import Face, Ties, basis_of, highest
from maxmargin.solvers.polish.finish import Finishing
from maxmargin.solvers.polish.tuning import POLISH

NEVER = POLISH._replace(first=10**9, later=10**9, rounds=10**9)
# As soon as there is a rate, whatever it costs.
EAGER = POLISH._replace(first=3, look=0.0, product=0.0, held=0.0, hit=0.0)
N, D, K = 80, 5, 4
R = 0.6 * np.eye(K) + 0.4


def data(seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * np.logspace(-1, 0.7, D)
    return X, X @ rng.normal(size=(D, K)) + 0.5 * rng.normal(size=(n, K))


def problem_of(name, X, scores, C=3.0):
    n, table = len(X), table_of(X, 1.0)
    sign, label, ones = np.where(scores[:, 0] > 0, 1.0, -1.0), scores.argmax(axis=1), np.ones(len(X))
    cost = 1.0 - np.eye(K) + np.triu(np.ones((K, K)), 1)
    several = np.where(scores.T > 0, 1.0, -1.0).ravel()
    gram, binary, real = gram_of(function_of("poly", 0.1, 2, 1.0), X), (sign, ones), (scores[:, 0],)
    columns, pairs = checked_labels((scores > 0).astype(int)).columns, (np.ones((K, 2)), np.ones((K, 2)))
    chains = range(0, n - 3, 4)
    made = {
        "hinge": lambda: ScalarProblem(table, losses.HingeLoss(), binary, ones),
        "squared hinge": lambda: ScalarProblem(table, losses.SquaredHingeLoss(), binary, ones),
        "epsilon": lambda: ScalarProblem(table, losses.EpsilonInsensitiveLoss(0.1), real, ones),
        "squared epsilon": lambda: ScalarProblem(table, losses.SquaredEpsilonInsensitiveLoss(0.1), real, ones),
        "classes": lambda: BlockProblem(table, label, ones, cost),
        "top-k alpha": lambda: BlockProblem(table, label, ones, 1.0 - np.eye(K), losses.TopKAlphaLoss(2)),
        "top-k beta": lambda: BlockProblem(table, label, ones, 1.0 - np.eye(K), losses.TopKBetaLoss(2)),
        "smoothed alpha": lambda: BlockProblem(table, label, ones, 1.0 - np.eye(K), losses.TopKAlphaLoss(2, 0.5)),
        "smoothed beta": lambda: BlockProblem(table, label, ones, 1.0 - np.eye(K), losses.TopKBetaLoss(2, 0.5)),
        "labels": lambda: MultilabelProblem(table, columns, ones, *pairs, losses.MultilabelHingeLoss()).whole(),
        "coupled labels": lambda: MultilabelProblem(table, columns, ones, *pairs, losses.MultilabelHingeLoss(), R).whole(),
        "constraints": lambda: mm.ExplicitProblem(X * sign[:, None], ones, np.arange(n) // 3).posed,
        "kernel": lambda: KernelScalarProblem(gram, losses.HingeLoss(), binary, ones, None, 1.0),
        "kernel, real": lambda: KernelScalarProblem(gram, losses.EpsilonInsensitiveLoss(0.1), real, ones, None, 1.0),
        "kernel, coupled": lambda: KernelScalarProblem(
            gram, losses.HingeLoss(), (several, np.ones(K * n)), np.ones(K * n), R, 1.0
        ),
        "kernel classes": lambda: KernelRowProblem(gram, losses.CrammerSingerLoss(), label, ones, cost, 1.0),
        "chains": lambda: encoded([X[k : k + 4] for k in chains], [label[k : k + 4] for k in chains]),
    }
    return made[name]().at(C)


def encoded(samples, outputs):
    structure = structures.Chain()
    structure.size(samples, outputs)
    return StructuredProblem(structure.encode(samples, outputs), np.ones(len(samples)))


LINEAR = ["hinge", "squared hinge", "epsilon", "squared epsilon", "classes", "top-k alpha", "top-k beta", "smoothed alpha"]
LINEAR += ["smoothed beta", "labels", "coupled labels", "constraints"]
KERNELS = ["kernel", "kernel, real", "kernel, coupled", "kernel classes"]


def run_on(problem, tuning, tol, **parameters):
    run = DualCoordinate(double=True, **parameters).begin(problem, NOWHERE, Setting(tol))
    run.polish_tuning = tuning
    return run


def solved(problem, tuning, tol, most=20_000):
    run = run_on(problem, tuning, tol)
    return run, drive(run, Budget(tol=tol, max_iter=most), History())


@pytest.mark.compiled
@pytest.mark.parametrize("name", [*LINEAR, "chains"])
def test_few_passes_to_a_tight_tolerance(name):
    problem = problem_of(name, *data())
    run, found = solved(problem, EAGER, 1e-10)
    plain, wanted = solved(problem, NEVER, 1e-10)
    assert found.certificate.converged and run.polishes > 0 and plain.polishes == 0
    assert found.n_iter <= 0.5 * wanted.n_iter
    assert found.certificate.primal <= wanted.certificate.primal * (1.0 + 1e-10)
    assert found.certificate.dual >= wanted.certificate.dual * (1.0 - 1e-10)
    assert relative(problem.primal(found.w), found.certificate.dual) <= 1e-10


@pytest.mark.compiled
@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name):
    """Rounds propose in float32: what is left below that is found at once."""
    problem = problem_of(name, *data(), C=30.0)
    run, found = solved(problem, EAGER, 1e-12)
    assert found.certificate.converged and run.polishes > 0
    wanted = solved(problem, NEVER, 1e-6)[1]
    assert found.certificate.dual >= wanted.certificate.dual * (1.0 - 1e-13)
    assert found.certificate.primal <= wanted.certificate.primal * (1.0 + 1e-12)


@pytest.mark.compiled
def test_kernels_where_rounds_crawl():
    """Rounds of many steps are dear: the free duals are solved for, though the gap that is asked for is not small."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.2 * rng.normal(size=600)
    gram = gram_of(function_of("rbf", 0.25, 3, 0.0), X)
    problem = KernelScalarProblem(gram, losses.SquaredErrorLoss(), (y,), np.ones(600), None, 1.0).at(1e4)
    run, found = solved(problem, POLISH, 1e-3)
    plain, wanted = solved(problem, NEVER, 1e-3)
    assert run.polishes > 0 and plain.polishes == 0 and found.n_iter <= 0.75 * wanted.n_iter and run.steps < 0.75 * plain.steps
    assert found.certificate.converged and wanted.certificate.converged
    assert found.certificate.dual == pytest.approx(wanted.certificate.dual, rel=1e-3)


@pytest.mark.compiled
def test_classes_with_a_kernel_reach_what_pairs_do_not():
    """Blocks of samples took 200 rounds and more here."""
    problem = problem_of("kernel classes", *data(n=150), C=10.0)
    _, found = solved(problem, POLISH, 1e-11)
    assert found.certificate.converged and found.n_iter < 50


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["hinge", "squared hinge", "epsilon", "squared epsilon", "classes"])
@pytest.mark.parametrize("how", ["rows twice", "columns twice", "columns of zeros", "sparse"])
def test_degenerate_data(name, how):
    X, scores = data(3, 40)
    if how == "rows twice":
        X, scores = np.tile(X, (3, 1)), np.tile(scores, (3, 1))
    elif how == "columns twice":
        X = np.hstack([X, X])
    elif how == "columns of zeros":
        X = np.hstack([X, np.zeros((len(X), 2))]) * (np.arange(len(X)) % 7 > 0)[:, None]  # and rows of them
    else:
        X = sp.csr_array(np.where(np.abs(X) > 0.3, X, 0.0))
    problem = problem_of(name, X, scores) if how != "sparse" else sparse_problem(name, X, scores)
    run, found = solved(problem, EAGER, 1e-9)
    newton = Newton().begin(problem, NOWHERE, Setting(1e-9))
    wanted = drive(newton, Budget(tol=1e-9), History())
    assert found.certificate.converged and run.polishes > 0
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=1e-7)


def sparse_problem(name, X, scores):
    dense = problem_of(name, np.zeros(X.shape), scores)
    return type(dense)(table_of(X, 1.0), *(getattr(dense, field) for field in list(dense.__dataclass_fields__)[1:]))


@pytest.mark.compiled
@settings(deadline=None, max_examples=40)
@given(st.sampled_from([*LINEAR, "kernel", "kernel classes", "chains"]), st.integers(0, 10**6), st.floats(-2.0, 3.0))
@example("top-k beta", 361487, 0.0)
def test_the_dual_value_never_falls_and_duals_are_feasible(name, seed, size):
    problem = problem_of(name, *data(seed, 24), C=10.0**size)
    run, before = run_on(problem, EAGER, 1e-9), -np.inf
    for _ in range(12):
        run.advance(lambda: False)
        reached = run.synchronise()
        run.accelerate()
        polished = run.polishes
        now = run.synchronise()
        if polished:  # an extrapolation may cost what its pass has gained, and no more
            assert now >= min(before, reached) - 1e-12 * abs(reached)
        before = now
    if name != "chains":
        duals = np.asarray(run.left())
        np.testing.assert_allclose(problem.clipped(duals), duals, rtol=0, atol=1e-9 * problem.cap.max())
    else:
        assert run.points.slots.min() >= 0.0


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["epsilon", "classes", "coupled labels", "kernel classes", "chains"])
def test_a_snapshot_in_the_middle(name):
    """What a resumed run does is the same to the last digit, when it looks and what it finds among it."""
    problem = problem_of(name, *data(1), C=30.0)
    first, second = (run_on(problem, EAGER, 1e-12) for _ in range(2))
    for _ in range(5):
        first.advance(lambda: False)
        first.accelerate()
    second.resume(first.snapshot())
    assert second.polishes == first.polishes
    for _ in range(8):
        for run in (first, second):
            run.advance(lambda: False)
            run.accelerate()
    assert first.polishes == second.polishes > 0 and first.next_polish == second.next_polish
    assert first.synchronise() == pytest.approx(second.synchronise(), rel=1e-14)  # kernel rows lie in another order
    if name != "chains":
        np.testing.assert_array_equal(first.left(), second.left())


@pytest.mark.compiled
def test_fits_of_few_passes_stay_as_they_are(monkeypatch):
    X, scores = data(2)
    X /= X.std(axis=0)
    models = [mm.SVMClassifier(random_state=0, solver=solver) for solver in ("auto", "dual_coordinate")]
    for model in [*models, mm.SVMRegressor(random_state=0), mm.TopKSVMClassifier(k=2, random_state=0)]:
        y = scores[:, 0] if isinstance(model, mm.SVMRegressor) else scores.argmax(axis=1)
        found = clone(model).fit(X, y)
        with monkeypatch.context() as patch:
            patch.setattr(Finishing, "polish_tuning", NEVER)
            wanted = clone(model).fit(X, y)
        assert found.n_iter_ == wanted.n_iter_ < POLISH.later
        np.testing.assert_array_equal(found.coef_, wanted.coef_)


@pytest.mark.compiled
def test_priors_and_what_is_not_served():
    X, scores = data(4)
    label = scores.argmax(axis=1)
    scale = {"prior_scale": np.linspace(0.5, 2.0, D), "prior_mean": np.full(D, 0.2)}
    for y, most in ((label > 1, 60), (label, 200)):
        model = mm.SVMClassifier(solver="dual_coordinate", tol=1e-9, C=10.0, random_state=0, **scale).fit(X, y)
        wanted = clone(model).set_params(solver="newton").fit(X, y)
        assert model.certificate_.primal == pytest.approx(wanted.certificate_.primal, rel=1e-8)
        assert model.n_iter_ <= most * 10
    signs = mm.SVMClassifier(solver="dual_coordinate", tol=1e-7, positive=True, random_state=0).fit(X, label > 1)
    assert signs.certificate_.converged
    logistic = run_on(
        ScalarProblem(table_of(X, 1.0), losses.LogisticLoss(), (np.sign(scores[:, 0]), np.ones(N)), np.ones(N)), EAGER, 1e-9
    )
    for _ in range(6):
        logistic.advance(lambda: False)
        logistic.accelerate()
    assert logistic.polishes == 0 and logistic.next_polish > 0.0


# ---- the way to the top of a face ----------------------------------------------------------------------------


def boxes(rng, size, soft):
    value = rng.uniform(0.1, 0.9, size)
    flat, alone = np.zeros(size), np.full(size, -1)
    return Face(
        *(np.arange(size), np.zeros(size, int), flat, flat + 1.0, value, flat, flat + 1.0), rng.normal(size=size), soft, alone
    )


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 12), st.booleans())
@settings(deadline=None, max_examples=60)
def test_boxes_against_least_squares(seed, size, wide, thin):
    rng = np.random.default_rng(seed)
    Z, soft = rng.normal(size=(size, wide)), rng.uniform(0.1, 1.0, size)
    face, H = boxes(rng, size, soft), Z @ Z.T + np.diag(soft)
    between = ThinBetween(Z, soft) if thin else DenseBetween(Z @ Z.T, soft)
    value, gained = highest(face, between, POLISH._replace(factors=100))
    root = np.linalg.cholesky(H)
    wanted = lsq_linear(root.T, np.linalg.solve(root, face.slope + H @ face.value), (0.0, 1.0), tol=1e-14).x
    np.testing.assert_allclose(value, wanted, atol=1e-6)
    change = value - face.value
    assert gained == pytest.approx(float(change @ face.slope - 0.5 * change @ H @ change), rel=1e-6, abs=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 10), st.integers(1, 8))
@settings(deadline=None, max_examples=60)
def test_more_duals_than_features(seed, groups, wide):
    """A singular matrix: the value rises by what is said, sums stay, and as many duals as features are left free."""
    rng = np.random.default_rng(seed)
    size = 4 * groups
    Z, owner, flat = rng.normal(size=(size, wide)), np.repeat(np.arange(groups), 4), np.zeros(size)
    value = rng.dirichlet(np.ones(4), groups).ravel()
    face = Face(np.arange(size), owner, flat, flat + 1.0, value, flat, flat + 1e30, rng.normal(size=size), flat, owner)
    found, gained = highest(face, DenseBetween(Z @ Z.T, flat), POLISH._replace(factors=100))
    change = found - value
    assert found.min() >= 0.0
    np.testing.assert_allclose(np.bincount(owner, found), 1.0, rtol=1e-9)
    assert gained >= 0.0
    assert gained == pytest.approx(float(change @ face.slope - 0.5 * np.square(change @ Z).sum()), rel=1e-5, abs=1e-9)
    assert np.count_nonzero(found > 0.0) <= groups + wide


def test_ties():
    """Steps along the equations of a top-k row, and none where all that they bind is at a bound."""
    zeros, ties = np.zeros(5), Ties(np.array([0, 5]), 2)
    value = np.array([0.2, 0.3, 0.5, 0.05, -0.05])  # the second is above s / k: values do not matter here
    fields = np.zeros(5, int), np.arange(5), zeros, zeros, value, zeros - 1.0, zeros + 1.0, zeros, zeros, np.full(5, -2), ties
    face = Face(*fields)
    basis = basis_of(face, face.value).toarray()
    assert basis.shape == (5, 2)
    np.testing.assert_allclose(ties.matrix(0) @ basis, 0.0, atol=1e-12)
    held = basis_of(face, np.array([0.2, 0.3, 1.0, 0.05, -0.05])).toarray()
    assert held.shape == (5, 1) and held[2] == 0.0
    assert basis_of(face, zeros + 1.0).shape[1] == 0


def test_a_way_that_is_stopped():
    """`stop` is asked after each step; what was reached until then is feasible, and no lower."""
    rng = np.random.default_rng(5)
    n, Z = 40, rng.normal(size=(40, 60))
    value, zeros = np.full(n, 0.5), np.zeros(n)
    slope = 300.0 * rng.normal(size=n)
    places = np.arange(n), np.zeros(n, np.int64)
    face = Face(*places, zeros, zeros + 1.0, value, zeros, zeros + 1.0, slope, zeros, np.full(n, -1))
    rises = []
    for most in (0, 1, 2, 3, 10**6):
        asked = []

        def stop(asked=asked, most=most):
            asked.append(1)
            return len(asked) > most

        found, gained = highest(face, DenseBetween(Z @ Z.T, zeros), stop=stop)
        assert len(asked) <= most + 2 and np.all((found >= 0.0) & (found <= 1.0))
        change = found - value
        assert np.isclose(slope @ change - 0.5 * np.sum((Z.T @ change) ** 2), gained, rtol=1e-9, atol=1e-12)
        rises.append(gained)
    assert rises[0] == rises[1] == 0.0 < rises[2] < rises[3] < rises[4]


def test_polishing_ends_with_the_time():
    """No way is gone on with once a run has to end."""
    run = DualCoordinate().begin(problem_of("hinge", *data()), NOWHERE, Setting(tol=1e-9, stop=lambda: True))
    assert run.halted()


def test_no_rate_is_no_overflow():
    """Passes that leave the gap as it is never end, and say so without a warning."""
    X, scores = data()
    run = DualCoordinate().begin(problem_of("hinge", X, scores), NOWHERE, Setting(tol=1e-9))
    run.dual, run.marks = 1.0, np.array([[1.0, 5.0], [60.0, 5.0], [100.0, 5.0]])
    assert run.to_come() == np.inf
