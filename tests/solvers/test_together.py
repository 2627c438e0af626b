"""Groups of rows by an interior point, and structured samples whose collected outputs are solved together."""

import numpy as np
import pytest
from helpers import convex as cp
from helpers.convex import solved
from helpers.every_problem import problem_of

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.problems.collected import CollectedProblem
from maxmargin.regularizers.gaussian import Gaussian
from maxmargin.result import History
from maxmargin.solvers.base import NOWHERE, Setting
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.loop import Budget, drive
from maxmargin.solvers.polytope.collected import collected, solved_together
from maxmargin.solvers.polytope.tuning import IN_TURNS
from maxmargin.solvers.second_order.interior_groups import GroupInterior
from maxmargin.structures import Chain, Multiclass

rng = np.random.default_rng(3)
SIZES = rng.integers(1, 6, 30)
FIRST = np.cumsum(SIZES) - SIZES
X = rng.normal(size=(SIZES.sum(), 8))
MARGIN, CAP = rng.uniform(0.0, 2.0, SIZES.sum()), rng.uniform(0.1, 2.0, 30)
X[FIRST], MARGIN[FIRST] = 0.0, 0.0


def groups(scale, signs, factor):
    lower = np.where(np.arange(9) < 3, 0.0, -np.inf) if signs else None
    return CollectedProblem(table_of(X * scale), MARGIN, FIRST, factor * CAP, Gaussian(lower=lower))


def optimum(scale, signs, factor):
    """In weights of columns that are even: the quadratic term has the scales."""
    u = cp.Variable(8)
    excess = MARGIN - X @ u
    risk = sum(factor * CAP[i] * cp.max(excess[f : f + n]) for i, (f, n) in enumerate(zip(FIRST, SIZES, strict=True)))
    return solved(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(u / scale) + risk), [u[:3] >= 0] if signs else []))


@pytest.mark.parametrize("factor", [0.01, 100.0])
@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("scale", [np.ones(8), np.logspace(-2, 2, 8)], ids=["even", "uneven"])
def test_groups_of_rows(scale, signs, factor):
    problem = groups(scale, signs, factor)
    run = GroupInterior(problem, NOWHERE, Setting(1e-11))
    found = drive(run, Budget(tol=1e-11, max_iter=60), History())
    assert found.certificate.converged
    assert found.certificate.primal == pytest.approx(optimum(scale, signs, factor), rel=1e-6)
    duals = run.left()
    assert np.all(duals >= 0.0) and problem.sums(duals) == pytest.approx(problem.cap, rel=1e-14)
    assert problem.evaluate(duals).dual <= problem.primal(found.w) * (1.0 + 1e-14)


@pytest.mark.parametrize("columns", [8, 400])
def test_masses_of_collected_outputs(columns):
    """The same in as many coordinates as there are outputs, where these are fewer; few masses are above zero."""
    problem = problem_of("Multiclass")
    rows = np.random.default_rng(0).normal(size=(30, columns))
    loss, owner = np.tile([0.0, 1.0, 2.0], 10), np.repeat(np.arange(10), 3)
    rows[::3] = 0.0
    found = collected(problem, rows, loss, owner)
    mass, weights = solved_together(found, Setting(1e-11), IN_TURNS, lambda: False)
    assert np.bincount(owner, mass) == pytest.approx(np.ones(10)) and np.all(mass >= 0.0)
    cap = problem.cap[:10]
    excess = (loss - rows @ weights).reshape(10, 3).max(axis=1)
    w = (mass * cap[owner]) @ rows
    primal, dual = 0.5 * weights @ weights + cap @ excess, (mass * cap[owner]) @ loss - 0.5 * w @ w
    assert 0.0 <= primal - dual <= 1e-9 * primal


def far_apart(seed=7, scale=1.0):
    """Samples of classes that columns of very different sizes tell."""
    random = np.random.default_rng(seed)
    rows, ways = random.normal(size=(80, 8)), random.normal(size=(8, 4))
    label = (rows @ ways + 1.5 * random.normal(size=(80, 4))).argmax(axis=1)
    return rows * np.logspace(-2, 2, 8) * scale, label


@pytest.mark.compiled
@pytest.mark.parametrize("keep_duals", [False, True])
@pytest.mark.parametrize("structure", [Multiclass(), Chain()], ids=["classes", "chains"])
def test_uneven_columns_take_few_passes(structure, keep_duals):
    rows, label = far_apart()
    samples = (rows, label) if isinstance(structure, Multiclass) else (list(rows.reshape(-1, 4, 8)), list(label.reshape(-1, 4)))
    model = mm.StructuredSVM(structure, C=10.0, tol=1e-9, random_state=0, keep_duals=keep_duals, max_iter=2000).fit(*samples)
    assert model.certificate_.converged and model.n_iter_ <= 1000


@pytest.mark.compiled
def test_structured_classes_are_classes():
    """The optimum of Newton's method on the same loss."""
    rows, label = far_apart()
    one = mm.StructuredSVM(Multiclass(), C=10.0, tol=1e-9, random_state=0).fit(rows, label).certificate_
    two = mm.SVMClassifier(C=10.0, tol=1e-9, solver="newton", fit_intercept=False).fit(rows, label).certificate_
    three = mm.SVMClassifier(C=10.0, tol=1e-9, solver="newton").fit(rows, label).certificate_
    assert min(abs(one.primal - other.primal) / other.primal for other in (two, three)) <= 1e-8


@pytest.mark.compiled
def test_a_resumed_run_goes_on():
    """Turns are part of the state."""
    rows, label = far_apart()
    structure = Multiclass()
    structure.size(rows, label)
    problem = type(problem_of("Multiclass"))(structure.encode(rows, label), np.ones(80)).at(10.0)
    one, two = (DualCoordinate().begin(problem, NOWHERE, Setting(1e-12)) for _ in range(2))
    while one.turns == 0 and one.passes < 2000:
        one.advance(lambda: False)
        one.accelerate()
    assert one.turns == 1
    two.resume(one.snapshot())
    for _ in range(5):
        assert one.advance(lambda: False) == two.advance(lambda: False)
        one.accelerate()
        two.accelerate()
    assert one.turns == two.turns and one.synchronise() == two.synchronise()


def test_no_sample_with_two_outputs():
    """Where no sample has mass on two outputs there is nothing to write out, and no way to polish."""
    rows, label = far_apart()
    structure = Multiclass()
    structure.size(rows, label)
    problem = type(problem_of("Multiclass"))(structure.encode(rows, label), np.ones(80)).at(10.0)
    run = DualCoordinate().begin(problem, NOWHERE, Setting(1e-12))
    (face,) = run.faces()
    assert face.size == 0 and run.features.shape == (0, np.prod(problem.weight_shape))
    assert not run.pays(0.0, np.inf)
