"""`Bundle`: planes, the quadratic program, the optimum of every kind of problem, bounds that are never overstated, paths."""

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from helpers import enumerated, multilabel
from helpers.certificates import check
from helpers.drawn import features, labels, prior, seed_of, signs, targets, weights
from helpers.every_problem import problem_of
from helpers.reference import grouped, reference
from helpers.structured import SEGMENTATIONS, Brackets, bits, images, lines, words
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import maxmargin as mm
from maxmargin.data.indicators import checked_labels
from maxmargin.data.table import table_of
from maxmargin.jit import kernel, vectors
from maxmargin.losses import (
    HingeLoss,
    MultilabelHingeLoss,
    MultilabelSquaredHingeLoss,
    SquaredEpsilonInsensitiveLoss,
    TopKBetaLoss,
)
from maxmargin.losses.base import reward, row_slope, row_value, slope, value
from maxmargin.losses.crammer_singer import crammer_singer
from maxmargin.losses.epsilon_insensitive import EpsilonInsensitive
from maxmargin.losses.hinge import Hinge
from maxmargin.losses.squared_epsilon_insensitive import SquaredEpsilonInsensitive
from maxmargin.losses.squared_hinge import SquaredHinge
from maxmargin.losses.topk_alpha import topk_alpha
from maxmargin.losses.topk_beta import topk_beta
from maxmargin.problems import multilabel as multilabel_problem
from maxmargin.problems.explicit import ExplicitProblem
from maxmargin.problems.linear import BlockProblem, ScalarProblem
from maxmargin.problems.multilabel import MultilabelProblem
from maxmargin.problems.risk import CUT_ROWS, layout_of, risk_of
from maxmargin.problems.structured import StructuredProblem
from maxmargin.result import History
from maxmargin.solvers import solution_of
from maxmargin.solvers.base import NOWHERE, Setting, Start
from maxmargin.solvers.loop import Budget
from maxmargin.solvers.planes import simplex_qp
from maxmargin.solvers.planes.collected import Planes, most_planes
from maxmargin.solvers.planes.descent import descended
from maxmargin.solvers.planes.tuning import BUNDLE
from maxmargin.structures import Chain, Multiclass

VARIANTS = {
    "BMRM": mm.Bundle(prox=False, n_models=1),
    "P-BMRM": mm.Bundle(prox=False, n_models=5),
    "Prox-BMRM": mm.Bundle(n_models=1),
    "Prox-P-BMRM": mm.Bundle(n_models=5),
}
TOL = 1e-6
ROUNDING = 1e-10  # of the optimum: what a bound may exceed it by


# ---- planes --------------------------------------------------------------------------------------------------------------------


@kernel
def scalar_slopes(loss, scores, answers):
    for i in range(scores.size):
        b = slope(loss, i, scores[i])
        answers[i, 0], answers[i, 1], answers[i, 2] = value(loss, i, scores[i]), b, reward(loss, i, b)


def scalar_losses(rng, n):
    sign, cap = rng.choice([-1.0, 1.0], n), np.where(rng.random(n) < 0.1, 0.0, rng.uniform(0.1, 2.0, n))
    margin, target = rng.uniform(0.2, 2.0, n), rng.normal(size=n)
    yield Hinge(sign, margin, cap)
    yield SquaredHinge(sign, margin, cap)
    yield EpsilonInsensitive(target, 0.3, cap)
    yield SquaredEpsilonInsensitive(target, 0.3, cap)


def test_slopes_of_scalar_losses():
    """The plane touches the loss at the score and is below it elsewhere."""
    rng = np.random.default_rng(0)
    n = 200
    for loss in scalar_losses(rng, n):
        z, other = 2.0 * rng.normal(size=(2, n))
        here, there = np.empty((n, 3)), np.empty((n, 3))
        scalar_slopes.fresh(loss, z, here)
        scalar_slopes.fresh(loss, other, there)
        assert np.allclose(here[:, 2] - here[:, 1] * z, here[:, 0], rtol=0.0, atol=1e-12)
        assert np.all(here[:, 2] - here[:, 1] * other <= there[:, 0] + 1e-12)
        assert np.any(here[:, 1] != 0.0) and np.any(here[:, 1] == 0.0)


@kernel
def row_slopes(loss, given, scores, found, answers, duals):
    for i in range(given.shape[0]):
        for j in range(given.shape[1]):
            scores.flat[0, j] = given[i, j]
        answers[i, 0] = row_value(loss, i, scores)
        for j in range(given.shape[1]):
            scores.flat[0, j] = given[i, j]
        answers[i, 1], answers[i, 2] = row_slope(loss, i, scores, found)
        for j in range(found.flat.shape[1]):
            duals[i, j] = found.flat[0, j]


@pytest.mark.parametrize("K", [3, 10, 21])
def test_slopes_of_rows(K):
    rng = np.random.default_rng(K)
    n, cost = 120, rng.uniform(0.2, 2.0, (K, K)) * (1.0 - np.eye(K))
    label, cap = rng.integers(0, K, n), np.where(rng.random(n) < 0.1, 0.0, rng.uniform(0.1, 2.0, n))
    makers = [crammer_singer(label, cap, cost, np.float64)]
    for form in (topk_alpha, topk_beta):
        makers += [form(label, cap, K, k, smoothing, np.float64) for k in (1, 2, K - 1) for smoothing in (0.0, 0.4)]
    for loss in makers:
        given, other = 2.0 * rng.normal(size=(2, n, K))
        room, answers = vectors.zeros_table(1, K, np.float64), np.empty((n, 3))
        found, duals = vectors.zeros_table(1, K, np.float64), np.empty((n, vectors.zeros_table(1, K, np.float64).flat.shape[1]))
        row_slopes.fresh(loss, given, room, found, answers, duals)
        assert not np.any(duals[:, K:])  # no class is there
        duals, there = duals[:, :K].copy(), np.empty((n, 3))
        row_slopes.fresh(loss, other, room, found, there, np.empty((n, found.flat.shape[1])))
        assert np.allclose(answers[:, 1], answers[:, 0], rtol=0.0, atol=1e-11)
        assert np.allclose(answers[:, 2] - np.sum(duals * given, axis=1), answers[:, 0], rtol=0.0, atol=1e-11)
        assert np.all(answers[:, 2] - np.sum(duals * other, axis=1) <= there[:, 0] + 1e-11)
        assert np.allclose(duals.sum(axis=1), 0.0, atol=1e-12)


def problems():
    """One of each kind; together they take every path to a risk."""
    rng = np.random.default_rng(3)
    X = features(rng, 41, 5)
    sparse = sp.csr_array(np.where(np.abs(X) < 0.5, 0.0, X))
    y, cap = labels(rng, X, 4), weights(rng, 41)
    yield "binary", ScalarProblem(table_of(X, 1.0), HingeLoss(), (rng.choice([-1.0, 1.0], 41), np.ones(41)), cap)
    yield "regression", ScalarProblem(table_of(sparse, 2.0), SquaredEpsilonInsensitiveLoss(0.1), (targets(rng, X),), cap)
    yield "multiclass", BlockProblem(table_of(X, 1.0), y, cap, 1.0 - np.eye(4))
    yield "indexed", BlockProblem(table_of(sparse.toarray(), 1.0, 0.99), y, cap, 1.0 - np.eye(4))
    yield "topk", BlockProblem(table_of(sparse, 1.0), y, cap, 1.0 - np.eye(4), TopKBetaLoss(2, 0.1))
    some = checked_labels(np.where(rng.random((41, 3)) < 0.1, np.nan, rng.integers(0, 2, (41, 3)))).columns
    for name, kind, R in (
        ("labels", MultilabelHingeLoss(), None),
        ("coupled labels", MultilabelSquaredHingeLoss(), np.ones((3, 3))),
    ):
        weight, margin = rng.uniform(0.5, 2.0, (2, 3, 2))
        yield name, MultilabelProblem(table_of(X, 1.0), some, cap, weight, margin, kind, R).group(np.arange(3))
    yield "explicit", ExplicitProblem(X, rng.uniform(-0.5, 1.5, 41), rng.integers(0, 12, 41)).posed.at(0.7)
    X, y = words()
    structure = Chain()
    structure.size(X, y)
    yield "chain", StructuredProblem(structure.encode(X, y), np.linspace(0.0, 2.0, len(X)))
    X, y = bits()
    yield "python", StructuredProblem(Brackets().encode(X, y), np.linspace(0.0, 2.0, len(X)))


@pytest.mark.parametrize(("name", "problem"), list(problems()), ids=[name for name, _ in problems()])
def test_risks(name, problem):
    """The planes touch the risk, are below it, and do not depend on threads; groups add up."""
    rng, layout = np.random.default_rng(1), layout_of(problem)
    one, many = risk_of(problem, 1), risk_of(problem, 5)
    shape = layout.shaped(np.zeros(one.dim)).shape
    assert shape == problem.weight_shape
    for _ in range(4):
        # Through the problem's own layout, so that unused lanes stay zero.
        w, other = (layout.flat(layout.shaped(rng.normal(size=one.dim) * (name != "chain"))) for _ in range(2))
        if name == "chain":
            structure = Chain()
            structure.size(*words())
            count = structure.flatten(np.zeros(shape)).size
            w, other = (layout.flat(structure.unflatten(rng.normal(size=count))) for _ in range(2))
        half = 0.5 * float(w @ w)  # of coupled labels too: w is U there, with 1/2 ||U||^2
        cut, parts, there = one.cut(w), many.cut(w), many.cut(other)
        assert cut.values[0] == pytest.approx(problem.primal(layout.shaped(w)) - half, rel=1e-11, abs=1e-12)
        assert cut.offsets + cut.slopes @ w == pytest.approx(cut.values, rel=1e-11, abs=1e-11)
        assert parts.offsets + parts.slopes @ w == pytest.approx(parts.values, rel=1e-11, abs=1e-11)
        assert np.all(parts.offsets + parts.slopes @ other <= there.values * (1.0 + 1e-11) + 1e-11)
        for whole, pieces in zip(cut, parts):
            assert np.allclose(pieces.sum(axis=0), whole[0], rtol=1e-10, atol=1e-10)
        for mine, threaded in zip(parts, risk_of(problem, 5, n_jobs=2).cut(w)):
            assert np.array_equal(mine, threaded)
    assert isinstance(one(w)[0], float) and one(w)[1].shape == (one.dim,) and many(w)[1].shape == (5, one.dim)
    with pytest.raises(ValueError, match="weights"):
        one(w[:-1])


# ---- the quadratic program -----------------------------------------------------------------------------------------------------


def by_clarabel(G, linear, block):
    n, P = linear.size, block.max() + 1
    E = sp.csc_matrix((np.ones(n), (block, np.arange(n))), shape=(P, n))
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.tol_gap_abs, settings.tol_gap_rel = False, 1e-10, 1e-10
    cones = [clarabel.ZeroConeT(int(P)), clarabel.NonnegativeConeT(n)]
    constraints = sp.vstack([E, -sp.identity(n)]).tocsc()
    bounds = np.concatenate([np.ones(P), np.zeros(n)])
    solution = clarabel.DefaultSolver(sp.csc_matrix(np.triu(G)), -linear, constraints, bounds, cones, settings).solve()
    return -solution.obj_val


@pytest.mark.parametrize(
    ("n", "P", "rank", "spread"), [(1, 1, 1, 1.0), (20, 1, 4, 1.0), (60, 6, 5, 0.1), (150, 4, 80, 0.01), (300, 16, 200, 0.1)]
)
def test_qp_against_a_qp_library(n, P, rank, spread):
    """Feasible to the last bit, as good as an interior-point method, and within the precision that was asked for."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        block = rng.permutation(np.concatenate([np.arange(P), rng.integers(0, P, n - P)]))
        A = rng.normal(size=(P, rank))[block] + spread * rng.normal(size=(n, rank))
        A[n // 2] = A[0]  # parallel planes
        G, linear = A @ A.T, spread * rng.normal(size=n)
        start = rng.random(n) + 1e-3
        best = by_clarabel(G, linear, block)
        for precision in (1e-3, 1e-9):
            beta = simplex_qp.solve_program(G, linear, block, simplex_qp.normalised(start, block), precision)
            assert beta.min() >= 0.0 and np.allclose(np.bincount(block, beta), 1.0, rtol=0.0, atol=1e-14)
            reached = linear @ beta - 0.5 * beta @ G @ beta
            assert best - precision - 1e-8 * (1.0 + abs(best)) <= reached <= best + 1e-8 * (1.0 + abs(best))


def test_planes_are_dropped_and_combined():
    """Gram matrix and columns follow when planes go; a full memory keeps the combinations that carry the bounds."""
    rng = np.random.default_rng(0)
    planes = Planes(6, 2, 20)
    for k in range(8):
        planes.add(rng.normal(size=(2, 6)), rng.normal(size=2), k)
    planes.masses[:16] = simplex_qp.normalised(np.where(np.arange(16) < 12, 1.0, 0.0), planes.model[:16])
    before, offsets = planes.combined(planes.masses)
    planes.idle[:16] = np.arange(16)
    planes.drop(np.array([0 + 12, 3 + 12]))
    assert planes.size == 14 and planes.dropped == 2
    assert np.allclose(planes.gram[:14, :14], planes.slopes[:14] @ planes.slopes[:14].T, rtol=1e-13)
    assert np.allclose(planes.combined(planes.masses)[0], before, rtol=1e-13)
    for k in range(8, 13):
        planes.bound[: planes.size] = planes.masses[: planes.size]
        planes.add(rng.normal(size=(2, 6)), rng.normal(size=2), k)
        planes.masses[: planes.size] = np.maximum(planes.masses[: planes.size], 1e-12)
    assert planes.size <= 20
    assert np.allclose(planes.gram[: planes.size, : planes.size], planes.slopes[: planes.size] @ planes.slopes[: planes.size].T)
    slopes, level = planes.combined(planes.bound)
    assert np.allclose(slopes, before, atol=1e-9) and np.allclose(level, offsets, atol=1e-9)
    n = most_planes(1000, 2**20)
    assert 8 * n * (n + 1000) <= 2**20 < 8 * (n + 1) * (n + 1001)


# ---- the optimum ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_binary(variant, loss):
    rng = np.random.default_rng(seed_of("bundle binary", variant, loss))
    X = features(rng)
    y, weight = labels(rng, X, 2), weights(rng, len(X))
    model = mm.SVMClassifier(0.5, loss=loss, tol=TOL, solver=VARIANTS[variant], random_state=0)
    check(model.fit(X, y, weight), reference(model, X, y, weight))
    assert model.statistics_["models"] == VARIANTS[variant].n_models and model.n_iter_ == model.history_[-1].iteration


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_regression(variant, loss):
    rng = np.random.default_rng(seed_of("bundle regression", variant, loss))
    X = features(rng)
    y = targets(rng, X)
    model = mm.SVMRegressor(0.5, epsilon=0.3, loss=loss, tol=TOL, solver=VARIANTS[variant], random_state=0)
    check(model.fit(X, y), reference(model, X, y))


@pytest.mark.parametrize("variant", VARIANTS)
def test_multiclass(variant):
    rng = np.random.default_rng(seed_of("bundle multiclass", variant))
    X = features(rng)
    y, weight = labels(rng, X, 4), weights(rng, len(X))
    cost = rng.uniform(0.5, 2.0, (4, 4)) * (1.0 - np.eye(4))
    for data in (X, sp.csr_array(X)):
        model = mm.SVMClassifier(0.5, cost=cost, tol=TOL, solver=VARIANTS[variant], random_state=0)
        check(model.fit(data, y, weight), reference(model, X, y, weight))


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("loss", ["topk_alpha", "topk_beta"])
def test_topk(loss, smoothing):
    rng = np.random.default_rng(seed_of("bundle topk", loss, smoothing))
    X = features(rng)
    y = labels(rng, X, 5)
    model = mm.TopKSVMClassifier(0.5, k=2, loss=loss, smoothing=smoothing, tol=TOL, solver="bundle", random_state=0)
    check(model.fit(X, y), reference(model, X, y))


@pytest.mark.parametrize("sign", ["free", "mask", "positive"])
@pytest.mark.parametrize("kind", ["none", "mean", "mean+scale", "mean+covariance"])
def test_priors_and_signs(kind, sign):
    rng = np.random.default_rng(seed_of("bundle prior", kind, sign))
    X = features(rng)
    y = labels(rng, X, 3)
    params = prior(rng, kind, X.shape[1], None if "covariance" in kind else 3) | signs(sign, X.shape[1])
    model = mm.SVMClassifier(0.3, tol=TOL, solver="bundle", random_state=0, **params)
    if "covariance" in kind and sign != "free":
        with pytest.raises(TypeError, match="full prior covariance"):
            model.fit(X, y)
    else:
        check(model.fit(X, y), reference(model, X, y))
    model = mm.SVMClassifier(0.3, tol=TOL, solver=mm.Bundle(prox=False), **prior(rng, kind, 5), **signs(sign, 5))
    if "covariance" not in kind:
        check(model.fit(X, y > 0), reference(model, X, y > 0))


@pytest.mark.parametrize("variant", VARIANTS)
def test_explicit(variant):
    rng = np.random.default_rng(seed_of("bundle explicit", variant))
    X, margins, groups = features(rng), rng.uniform(-0.5, 1.5, 40), rng.integers(0, 12, 40)
    problem = mm.ExplicitProblem(X, margins, groups)
    result = mm.solve(problem, 2.0, VARIANTS[variant], TOL)
    best = grouped(X, margins, groups, C=2.0).optimum().value
    assert result.certificate.converged
    assert result.certificate.dual <= best * (1.0 + ROUNDING) and result.certificate.primal >= best * (1.0 - 1e-8)
    assert mm.solve(problem, 2.0, "dual_coordinate", TOL).certificate.primal == pytest.approx(best, rel=2 * TOL)
    assert result.duals is None and result.statistics["models"] == VARIANTS[variant].n_models


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("case", [*(pytest.param(case, marks=pytest.mark.long) for case in ("chain", "multiclass")), "python"])
def test_structures_beside_the_dual_solvers(case, variant):
    """The same optimum as FrankWolfe and DualCoordinate: the brackets of all three overlap."""
    if case == "multiclass":
        rng = np.random.default_rng(0)
        structure, X = Multiclass(), features(rng, 30, 3)
        y = labels(rng, X, 3)
    else:
        structure, (X, y) = (Chain(), words()) if case == "chain" else (Brackets(), bits())
    found = []
    for solver in (VARIANTS[variant], mm.FrankWolfe(), mm.DualCoordinate()):
        tol = 1e-5 if isinstance(solver, mm.Bundle) else 1e-4
        model = mm.StructuredSVM(structure, 0.7, tol=tol, solver=solver, random_state=0).fit(X, y)
        assert model.certificate_.converged
        found.append(model.certificate_)
    slack = ROUNDING * found[0].primal
    assert max(c.dual for c in found) <= min(c.primal for c in found) + slack
    assert len(model.predict(X)) == len(y)


@pytest.mark.parametrize("variant", ["BMRM", "Prox-P-BMRM"])
@pytest.mark.parametrize("name", ["a chain, its edges turned", "a star, by the eyes"])
def test_weights_that_must_not_be_negative(name, variant):
    """Parts binds its stiffness: the optimum is that of the bound problem, as the dual solvers and a convex solver have it."""
    structure, X, y = images(name)
    solvers = (
        clone(VARIANTS[variant]).set_params(n_models=min(len(X), VARIANTS[variant].n_models)),
        mm.FrankWolfe(),
        mm.DualCoordinate(),
    )
    for C in (0.3, 30.0):
        models = [mm.StructuredSVM(structure, C, tol=1e-5, solver=solver, random_state=0).fit(X, y) for solver in solvers]
        bound = models[0].structure_.nonnegative()
        found, cap = enumerated.tables(structure, X, y), np.full(len(X), C)
        best, loose = enumerated.optimum(found, cap, bound), enumerated.optimum(found, cap)
        assert loose < best * (1.0 - 1e-3)  # the bounds matter
        for model in models:
            assert model.certificate_.converged and np.all(model.w_[bound] >= 0.0)
            assert model.certificate_.dual <= best * (1.0 + 1e-7) and model.certificate_.primal >= best * (1.0 - 1e-7)
        assert enumerated.primal(found, models[0].w_, cap) == pytest.approx(models[0].certificate_.primal, rel=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("name", ["ranges and transitions", "costs"])
def test_segmentation(name):
    X, y = lines(SEGMENTATIONS[name])
    best = enumerated.optimum(enumerated.tables(SEGMENTATIONS[name], X, y), np.full(len(X), 0.7))
    for solver in (mm.Bundle(n_models=3), mm.FrankWolfe(), mm.DualCoordinate()):
        found = mm.StructuredSVM(SEGMENTATIONS[name], 0.7, tol=1e-4, solver=solver, random_state=0).fit(X, y).certificate_
        assert found.converged and found.dual <= best * (1.0 + 1e-7) and found.primal >= best * (1.0 - 1e-7)


# ---- multi-label ---------------------------------------------------------------------------------------------------------------

PRIORS = {
    "none": None,
    "full": multilabel.correlated(3),
    "singular": np.ones((3, 3)),
    "in two": np.array([[1.0, -0.5, 0.0], [-0.5, 2.0, 0.0], [0.0, 0.0, 3.0]]),
}


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_multilabel(loss, prior):
    """The optimum of M3L: a convex solver's, and that of dual coordinate ascent; labels that are missing, weights, margins."""
    X, Y = multilabel.data()
    Y = np.where(np.random.default_rng(1).random(Y.shape) < 0.1, np.nan, Y)
    R, weight = PRIORS[prior], np.random.default_rng(2).integers(0, 3, len(X))
    model = mm.MultilabelSVMClassifier(0.7, label_prior=R, loss=loss, tol=1e-5, solver=mm.Bundle(n_models=4), random_state=0)
    model.set_params(cost=[1.0, 0.5, 2.0]).fit(X, Y, weight)
    formula = multilabel.Formula(X, Y, 0.7, R, weight, margin=[1.0, 0.5, 2.0], squared=loss == "squared_hinge")
    best, certificate = formula.optimum(), model.certificate_
    assert certificate.converged and formula.primal(model) == pytest.approx(certificate.primal, rel=1e-9)
    assert certificate.dual <= best * (1.0 + 1e-8) and certificate.primal >= best * (1.0 - 1e-8)
    dual = clone(model).set_params(solver="dual_coordinate").fit(X, Y, weight).certificate_
    assert certificate.dual <= dual.primal * (1.0 + ROUNDING) and dual.dual <= certificate.primal * (1.0 + ROUNDING)


@pytest.mark.parametrize("prior", ["none", "full"])
def test_multilabel_paths_and_groups(prior, monkeypatch):
    """Groups of labels are solved one by one and their planes reused; the sums are certified."""
    monkeypatch.setattr(multilabel_problem, "TOGETHER", 2)
    X, Y = multilabel.data()
    R = PRIORS[prior]
    model = mm.MultilabelSVMClassifier(loss="hinge", label_prior=R, tol=1e-4, solver="bundle", random_state=0)
    path = model.regularization_path(X, Y, [0.1, 1.0, 1.0])
    for fitted in path[:2]:
        best = multilabel.Formula(X, Y, fitted.C, R).optimum()
        assert fitted.certificate_.converged
        assert fitted.certificate_.dual <= best * (1.0 + 1e-8) and fitted.certificate_.primal >= best * (1.0 - 1e-8)
    assert path[2].n_iter_ == 0 and path[2].certificate_.primal == pytest.approx(path[1].certificate_.primal)
    assert path[1].statistics_["models"] == (32 if R is None else 16)
    warm = clone(model).set_params(warm_start=True).fit(X, Y)
    assert warm._last.duals is None  # planes are of no use to other data
    first = warm.certificate_
    for solver in ("dual_coordinate", "bundle"):
        found = warm.set_params(solver=solver).fit(X, Y).certificate_
        assert found.converged and found.dual <= first.primal * (1.0 + ROUNDING) and first.dual <= found.primal * (1.0 + ROUNDING)


def test_what_multilabel_models_refuse():
    X, Y = multilabel.data()
    with pytest.raises(TypeError, match="Bundle serves no kernels"):
        mm.MultilabelSVMClassifier(kernel="rbf", solver="bundle").fit(X, Y)
    with pytest.raises(ValueError, match="keep_duals=True does not go with Bundle"):
        mm.MultilabelSVMClassifier(solver="bundle", keep_duals=True).fit(X, Y)
    with pytest.raises(ValueError, match="init must be 'auto', 'sgd' or 'zero' for multi-label"):
        mm.MultilabelSVMClassifier(solver=mm.Bundle(init=np.zeros(15))).fit(X, Y)
    with pytest.raises(ValueError, match="init='sgd' serves neither priors"):
        mm.MultilabelSVMClassifier(solver=mm.Bundle(init="sgd"), label_prior=PRIORS["full"]).fit(X, Y)
    with pytest.raises(AttributeError, match="risk is for kernel='linear'"):
        mm.MultilabelSVMClassifier(kernel="rbf").risk(X, Y)


def test_integer_weights_are_repetitions():
    rng = np.random.default_rng(4)
    X, often = features(rng), rng.integers(0, 3, 40)
    y = labels(rng, X, 3)
    once = mm.SVMClassifier(0.4, tol=1e-7, solver="bundle", random_state=0).fit(X, y, often)
    many = mm.SVMClassifier(0.4, tol=1e-7, solver="bundle", random_state=0).fit(np.repeat(X, often, axis=0), np.repeat(y, often))
    assert np.allclose(once.coef_, many.coef_, atol=1e-3) and once.certificate_.primal == pytest.approx(many.certificate_.primal)


@given(
    seed=st.integers(0, 10_000),
    C=st.floats(1e-3, 1e3),
    variant=st.sampled_from(sorted(VARIANTS)),
    steps=st.integers(1, 12),
    kind=st.sampled_from(["none", "mean+scale"]),
    sign=st.sampled_from(["free", "positive"]),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_bounds_are_never_overstated(seed, C, variant, steps, kind, sign):
    """Whatever the quadratic program leaves undone, at any iteration."""
    rng = np.random.default_rng(seed)
    X = features(rng, 15, 3)
    y = labels(rng, X, 3)
    params = prior(rng, kind, 3) | signs(sign, 3)
    model = mm.SVMClassifier(C, tol=1e-7, max_iter=steps, solver=VARIANTS[variant], random_state=0, **params).fit(X, y)
    best = reference(model, X, y).optimum().value
    for record in model.history_:
        assert record.dual <= best * (1.0 + ROUNDING) + 1e-12
        assert record.primal >= best * (1.0 - 1e-7)


def test_coarse_programs_do_not_overstate(monkeypatch):
    """The same with a quadratic program that is stopped after a single sweep."""
    monkeypatch.setattr(simplex_qp, "SWEEPS", 1)
    program, once = simplex_qp.solve_program, BUNDLE.simplex._replace(sweeps=1)
    monkeypatch.setattr(simplex_qp, "solve_program", lambda *args: program(*args[:-1], once))
    monkeypatch.setattr(simplex_qp, "newton", lambda *args: None)
    rng = np.random.default_rng(0)
    X = features(rng)
    y = labels(rng, X, 4)
    model = mm.SVMClassifier(10.0, tol=0.01, solver=mm.Bundle(n_models=4), random_state=0).fit(X, y)
    best = reference(model, X, y).optimum().value
    assert model.certificate_.converged and all(record.dual <= best * (1.0 + ROUNDING) for record in model.history_)


# ---- memory, starts, paths -----------------------------------------------------------------------------------------------------


def test_memory_is_capped():
    """With room for a few planes only, combinations take their place, and the optimum is still certified."""
    rng = np.random.default_rng(1)
    X = features(rng, 60, 30)
    y = labels(rng, X, 2)
    megabytes = 8 * 14 * (14 + 31) / 2**20
    free = mm.SVMClassifier(1.0, tol=1e-3, solver=mm.Bundle(n_models=2), random_state=0).fit(X, y)
    tight = clone(free).set_params(solver=mm.Bundle(n_models=2, memory=megabytes, idle=2)).fit(X, y)
    assert tight.certificate_.converged and tight.statistics_["most_planes"] <= 14 < free.statistics_["most_planes"]
    assert tight.statistics_["plane_megabytes"] <= megabytes and tight.statistics_["dropped_planes"] > 0
    with pytest.raises(ValueError, match=r"memory=.* is too little"):
        clone(free).set_params(solver=mm.Bundle(n_models=2, memory=1e-3)).fit(X, y)


def test_starts():
    rng = np.random.default_rng(2)
    X = features(rng, 200, 4) / 3.0
    y = np.argmax(X @ rng.normal(size=(4, 3)), axis=1)
    problem = BlockProblem(table_of(X, 1.0), y, np.full(200, 0.5), 1.0 - np.eye(3))
    W = descended(problem, 10, 0)
    optimum = solution_of(mm.DualCoordinate(), problem, Budget(tol=1e-6), History()).certificate.primal
    assert problem.primal(W) <= 1.1 * optimum < problem.primal(np.zeros_like(W))
    eager = BUNDLE._replace(least=50)
    parted = descended(problem, 10, 0, tuning=eager)
    assert problem.primal(parted) <= 1.2 * optimum and not np.array_equal(parted, W)
    for jobs in (2, 3, 3, 16):
        np.testing.assert_array_equal(descended(problem, 10, 0, n_jobs=jobs, tuning=eager), parted)
        np.testing.assert_array_equal(descended(problem, 10, 0, n_jobs=jobs), W)  # too few rows for parts
    given = layout_of(problem).flat(W)
    runs = [
        solution_of(mm.Bundle(init=init), problem, Budget(tol=1e-4), History())
        for init in ("sgd", "zero", given, given.reshape(3, 5))
    ]
    for run in runs:
        assert run.certificate.converged and run.certificate.primal == pytest.approx(optimum, rel=2e-4)
    assert runs[2].history[0].primal == pytest.approx(problem.primal(W), rel=1e-12)
    assert runs[1].history[0].primal == pytest.approx(problem.primal(np.zeros_like(W)), rel=1e-12)


@pytest.mark.parametrize("n_models", [1, 4])
def test_paths_reuse_planes(n_models):
    """Along a path planes survive a change of C: the same optima, certified anew, in fewer iterations (of three sets: rounding
    moves single counts by a few)."""
    Cs, in_a_row, one_by_one = [0.01, 0.1, 1.0], 0, 0
    model = mm.SVMClassifier(tol=1e-5, solver=mm.Bundle(n_models=n_models, init="zero"), random_state=0)
    for seed in (5, 6, 7):
        rng = np.random.default_rng(seed)
        X = features(rng, 80, 6)
        y = labels(rng, X, 3)
        path = model.regularization_path(X, y, Cs)
        alone = [clone(model).set_params(C=C).fit(X, y) for C in Cs]
        assert path[0].n_iter_ == alone[0].n_iter_
        in_a_row += sum(fitted.n_iter_ for fitted in path[1:])
        one_by_one += sum(fitted.n_iter_ for fitted in alone[1:])
    assert in_a_row < one_by_one
    for fitted in path:
        check(fitted, reference(fitted, X, y))
    both = clone(model).set_params(solver=mm.Bundle(n_models=n_models)).regularization_path(X, y, Cs)  # planes, and descent
    for fitted in both:
        check(fitted, reference(fitted, X, y))
    again = model.regularization_path(X, y, [1.0, 1.0])
    assert again[1].n_iter_ == 0 and again[1].certificate_.converged  # everything was known


def test_planes_of_one_start_serve_several_runs():
    """What a run leaves is at C = 1 and stays as it is: any number of runs, at any C, begin with it."""
    problem, solver = problem_of("HingeLoss"), mm.Bundle(init="zero")
    first = solver.begin(problem.at(3.0), NOWHERE, Setting(1e-6))
    while first.advance(lambda: False) > 1e-6 * first.best:
        pass
    left = first.left()
    before = {name: np.array(array) for name, array in left.planes.items()}
    found = [solver.begin(problem.at(C), Start(left), Setting(1e-6)) for C in (3.0, 0.7, 3.0)]
    for run in found:
        for _ in range(3):
            run.advance(lambda: False)
    assert found[0].dual == found[2].dual != found[1].dual
    assert found[0].best - found[0].dual <= 1e-6 * found[0].best  # no iteration is lost
    for name, array in before.items():
        np.testing.assert_array_equal(left.planes[name], array)
    small = mm.Bundle(init="zero", memory=1e-3)  # room for fewer planes than were left: it begins without them
    assert len(left.planes["planes.slopes"]) > 8 and small.begin(problem, Start(left), Setting(1e-6)).planes is None


def test_structured_paths_and_warm_starts():
    X, y = words()
    model = mm.StructuredSVM(Chain(), tol=1e-4, solver="bundle", random_state=0)
    path = model.regularization_path(X, y, [0.1, 1.0])
    begun = clone(model).set_params(C=1.0, solver=mm.Bundle(init=path[1].w_)).fit(X, y)  # in the order of w_
    assert begun.history_[0].primal == pytest.approx(path[1].certificate_.primal, rel=1e-12)
    with pytest.raises(ValueError, match="finite weights in the order of w_"):
        clone(begun).set_params(solver=mm.Bundle(init=path[1].w_[1:])).fit(X, y)
    fresh = clone(model).set_params(C=1.0, solver="dual_coordinate").fit(X, y)
    assert path[1].certificate_.dual <= fresh.certificate_.primal and fresh.certificate_.dual <= path[1].certificate_.primal
    assert path[0].n_oracle_calls_ == path[0].n_iter_ * len(X)
    warm = clone(model).set_params(warm_start=True, C=1.0).fit(X, y)
    first = warm.n_iter_
    other = words(7)
    warm.fit(X, y)
    assert warm.n_iter_ <= first and warm.certificate_.converged
    warm.fit(*other)  # other samples: weights start it, planes do not
    assert warm.certificate_.dual <= clone(model).set_params(C=1.0).fit(*other).certificate_.primal


def test_warm_starts_between_solvers_and_data():
    rng = np.random.default_rng(6)
    X = features(rng)
    y = labels(rng, X, 3)
    model = mm.SVMClassifier(tol=1e-5, solver="bundle", warm_start=True, random_state=0).fit(X, y)
    check(model.fit(2.0 * X, y), reference(model, 2.0 * X, y))
    check(model.set_params(solver="dual_coordinate").fit(X, y), reference(model, X, y))
    check(model.set_params(solver="bundle").fit(X, y), reference(model, X, y))


def test_early_stops_have_true_certificates():
    rng = np.random.default_rng(8)
    X = features(rng)
    y = labels(rng, X, 3)
    for options in ({"max_iter": 1}, {"max_time": 1e-9}):
        with pytest.warns(match="The duality gap is"):
            model = mm.SVMClassifier(tol=1e-9, solver="bundle", **options).fit(X, y)
        best = reference(model, X, y).optimum().value
        assert np.isfinite(model.certificate_.dual) and model.certificate_.dual <= best <= model.certificate_.primal * (1 + 1e-9)
        assert not model.certificate_.converged and model.n_iter_ == 1


def test_threads_change_nothing():
    rng = np.random.default_rng(9)
    X = features(rng, 100, 4)
    y = labels(rng, X, 3)
    fits = [mm.SVMClassifier(tol=1e-4, solver="bundle", random_state=0, n_jobs=jobs).fit(X, y) for jobs in (1, 2)]
    assert np.array_equal(fits[0].coef_, fits[1].coef_) and fits[0].n_iter_ == fits[1].n_iter_


@pytest.mark.parametrize("n_models", [1, 16])
def test_many_rows_in_parts_and_runs_are_the_same_for_all_threads(n_models):
    """Enough of them that the descent has parts and that cuts have runs: bit by bit, with any threads, and again."""
    rng = np.random.default_rng(10)
    X = rng.normal(size=(3 * BUNDLE.least + 1, 3))
    y = np.where(X @ [1.0, -2.0, 0.5] + rng.normal(size=len(X)) > 0.0, 1, -1)
    model = mm.SVMClassifier(C=1e-3, tol=1e-3, solver=mm.Bundle(n_models=n_models), random_state=0)
    fits = [clone(model).set_params(n_jobs=jobs).fit(X, y) for jobs in (1, 3, 3, 5)]
    assert fits[0].certificate_.converged
    for other in fits[1:]:
        assert np.array_equal(fits[0].coef_, other.coef_) and fits[0].n_iter_ == other.n_iter_
        assert fits[0].certificate_.dual == other.certificate_.dual


def test_cuts_in_runs_are_those_of_one_group_after_the_other():
    """Planes of all groups from runs of neighbours, beside those of each group by itself."""
    rng = np.random.default_rng(11)
    X, w = rng.normal(size=(2 * CUT_ROWS + 7, 4)), rng.normal(size=5)
    y = rng.choice([-1, 1], len(X))
    problem = ScalarProblem(table_of(X, 1.0), HingeLoss(), (y.astype(float), np.ones(len(y))), np.ones(len(y))).at(0.5)
    for n_groups in (1, 3, 16):
        values, slopes, offsets = risk_of(problem, n_groups, 3).cut(w)
        for p in range(n_groups):
            scores = y[p::n_groups] * (X[p::n_groups] @ w[:4] + w[4])
            lost = scores < 1.0
            assert values[p] == pytest.approx(0.5 * np.maximum(1.0 - scores, 0.0).sum(), rel=1e-12)
            assert offsets[p] == pytest.approx(0.5 * lost.sum(), rel=1e-12)
            pushed = 0.5 * (y[p::n_groups] * lost) @ np.c_[X[p::n_groups], np.ones(len(scores))]
            np.testing.assert_allclose(slopes[p], -pushed, rtol=1e-10, atol=1e-10)


# ---- bad input -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_models": 41}, "n_models=41 exceeds the 40 examples"),
        ({"n_models": 0}, "'n_models' parameter of Bundle must be"),
        ({"n_models": True}, "'n_models' parameter of Bundle must be"),
        ({"n_models": 2.5}, "'n_models' parameter of Bundle must be"),
        ({"patience": 0}, "'patience' parameter of Bundle must be"),
        ({"idle": 0}, "'idle' parameter of Bundle must be"),
        ({"passes": -1}, "'passes' parameter of Bundle must be"),
        ({"max_step": 0.0}, "'max_step' parameter of Bundle must be"),
        ({"max_step": np.nan}, "'max_step' parameter of Bundle must be"),
        ({"max_step": True}, "'max_step' parameter of Bundle must be"),
        ({"memory": np.inf}, "'memory' parameter of Bundle must be"),
        ({"memory": -1.0}, "'memory' parameter of Bundle must be"),
        ({"prox": "yes"}, "'prox' parameter of Bundle must be"),
        ({"init": "best"}, "'init' parameter of Bundle must be a str among .* or an array-like"),
        ({"init": None}, "'init' parameter of Bundle must be"),
        ({"init": {}}, "init must be"),
        ({"init": np.zeros(3)}, "init must hold 6 finite weights"),
        ({"init": np.full(6, np.nan)}, "init must hold 6 finite weights"),
        ({"init": [[1.0], [1.0, 2.0]]}, "init must be"),
    ],
)
def test_bad_parameters(params, message):
    rng = np.random.default_rng(0)
    X = features(rng)
    with pytest.raises(ValueError, match=message):
        mm.SVMClassifier(solver=mm.Bundle(**params)).fit(X, labels(rng, X, 2))


def test_what_it_does_not_serve():
    rng = np.random.default_rng(0)
    X = features(rng)
    y = labels(rng, X, 3)
    with pytest.raises(ValueError, match="keep_duals=True does not go with Bundle"):
        mm.SVMClassifier(solver="bundle", keep_duals=True).fit(X, y)
    with pytest.raises(ValueError, match="keep_duals=True does not go with Bundle"):
        mm.StructuredSVM(Multiclass(), solver="bundle", keep_duals=True).fit(X, y)
    with pytest.raises(ValueError, match="init='sgd' serves neither priors"):
        mm.SVMClassifier(solver=mm.Bundle(init="sgd"), positive=True).fit(X, y)
    with pytest.raises(TypeError, match="must be an ExplicitProblem or another Problem, got dict"):
        mm.solve({}, solver="bundle")


def test_a_wrong_oracle_of_a_structure_is_found():
    """A decoder that misses the maximum understates the risk: planes met before say so."""

    class Lazy(Brackets):
        def loss_augmented_decode(self, w, x, y_true):
            return super().loss_augmented_decode(w, x, y_true) if not np.any(w) else (1 - y_true[0], 1 - y_true[1])

    X, y = bits()
    with pytest.raises(ValueError, match=r"not convex, or its subgradient is wrong|loss_augmented_decode is wrong"):
        mm.StructuredSVM(Lazy(), 10.0, tol=1e-6, solver=mm.Bundle(init="zero")).fit(X, y)
