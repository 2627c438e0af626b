"""Input that is awkward in one way: every estimator certifies an answer soon, or says in a sentence why float64 has none."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.problems.ranking import RankingProblem, ranked
from maxmargin.solvers.base import NOWHERE, Setting
from maxmargin.solvers.second_order.ranking_pairs import WRITTEN_OUT, RankingRun, affordable, count_of_pairs, places_of_pairs
from maxmargin.structures import Multiclass

N, D = 40, 5
MANY = 1000  # passes: what takes more takes seconds, or never ends
R = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 1.0]])
rng = np.random.default_rng(0)
X0, NOISE, WIDE = rng.normal(size=(N, D)), rng.normal(size=N), rng.normal(size=(N, 200))
EXACT = X0[:, 0] - X0[:, 1]
NOISY = EXACT + 0.5 * NOISE


def two(target):
    return (target > np.median(target)).astype(int)


def three(target):
    return np.digitize(target, np.quantile(target, [1 / 3, 2 / 3]))


def labels(target):
    return np.column_stack([two(target), target > np.quantile(target, 0.3), np.roll(target, 1) > 0.0]).astype(int)


def multiplied(where, value):
    X = X0.copy()
    X[where] *= value
    return X


def with_zeros():
    X = X0.copy()
    X[:, [1, 3]] = 0.0
    return X


SETS = {  # X, what y is made of, C, what the sentence names where float64 has no answer
    "columns of zeros": (with_zeros(), NOISY, 1.0, ""),
    "zeros": (np.zeros_like(X0), NOISY, 1.0, ""),
    "duplicated columns": (np.hstack([X0, X0, X0]), NOISY, 1.0, ""),
    "duplicated rows": (np.vstack([X0, X0, X0]), np.r_[NOISY, NOISY + 1.0, NOISY], 1.0, ""),
    "separable": (X0, EXACT, 1e8, ""),
    "separable by a margin": (X0 + 2.0 * np.sign(EXACT)[:, None] * [1, -1, 0, 0, 0], EXACT, 1e8, ""),
    "not separable": (X0, NOISY, 1e8, ""),
    "wide": (WIDE, WIDE[:, 0] + NOISE, 1.0, ""),
    "wide, large C": (WIDE, WIDE[:, 0] + NOISE, 1e8, ""),
    "wide, small C": (WIDE, WIDE[:, 0] + NOISE, 1e-8, ""),
    "large": (1e150 * X0, NOISY, 1.0, "columns 0, 1, 2 and 2 more of X"),
    "a large column": (multiplied(np.s_[:, 2], 1e150), NOISY, 1.0, "column 2 of X"),
    "a large row": (multiplied(np.s_[4], 1e150), NOISY, 1.0, "row 4 of X"),
    "small": (1e-150 * X0, NOISY, 1.0, ""),
}
MODELS = {
    "hinge": (mm.SVMClassifier(), two),
    "squared hinge": (mm.SVMClassifier(loss="squared_hinge"), two),
    "log": (mm.SVMClassifier(loss="log_loss"), two),
    "against the rest": (mm.SVMClassifier(multi_class="ovr"), three),
    "classes": (mm.SVMClassifier(), three),
    "epsilon-insensitive": (mm.SVMRegressor(), np.asarray),
    "squared epsilon-insensitive": (mm.SVMRegressor(loss="squared_epsilon_insensitive"), np.asarray),
    "squared error": (mm.SVMRegressor(loss="squared_error"), np.asarray),
    "ranking": (mm.RankingSVM(), np.asarray),
    "ordinal": (mm.OrdinalSVM(), three),
    "labels": (mm.MultilabelSVMClassifier(), labels),
    "coupled labels": (mm.MultilabelSVMClassifier(label_prior=R, loss="hinge"), labels),
    "multinomial": (mm.SVMClassifier(loss="log_loss"), three),
    "top-2": (mm.TopKSVMClassifier(k=2), three),
    "top-2 beta": (mm.TopKSVMClassifier(k=2, loss="topk_beta"), three),
    "rbf": (mm.SVMClassifier(kernel="rbf"), two),
    "rbf regression": (mm.SVMRegressor(kernel="rbf"), np.asarray),
}


def fitted(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one_group = {"groups": None} if isinstance(model, mm.RankingSVM) else {}
        return model.fit(X, y, **one_group).certificate_


@pytest.mark.compiled
@pytest.mark.parametrize("kind", MODELS)
def test_a_certified_answer_or_a_sentence(kind):
    for name, (X, target, C, said) in SETS.items():
        model = clone(MODELS[kind][0]).set_params(C=C, random_state=0, max_iter=MANY)
        found = fitted(model, X, MODELS[kind][1](target))
        assert found.converged or (said and said in found.message and "max_iter" not in found.message), (name, found.message)
        assert found.dual <= found.primal * (1 + 1e-9)


@pytest.mark.compiled
@pytest.mark.parametrize("kind", MODELS)
def test_one_sample_a_class(kind):
    model, y = MODELS[kind]
    made = {labels: np.eye(4, 3, dtype=int), two: np.arange(2)}.get(y, np.arange(4))
    assert fitted(clone(model).set_params(random_state=0), X0[: len(made)], made).converged


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["bags", "classes", "chain"])
def test_large_numbers_of_structures(kind):
    """These have no rows that are told apart: a sentence names columns."""
    y = two(NOISY)
    for X, said in ((1e150 * X0, "columns 0, 1, 2 and 2 more of X, up to 2e+150"), (SETS["a large column"][0], "column 2 of X")):
        model, samples, targets = {
            "bags": (mm.LatentSVMClassifier(random_state=0), X.reshape(N // 2, 2, D), y[::2]),
            "classes": (mm.StructuredSVM(Multiclass(), random_state=0), X, three(NOISY)),
            "chain": (mm.StructuredSVM("chain", random_state=0), list(X.reshape(-1, 4, D)), list(y.reshape(-1, 4))),
        }[kind]
        found = fitted(model, samples, targets)
        assert not found.converged and f"rounding is multiplied by the numbers in {said}" in found.message
        assert found.dual <= found.primal and model.n_iter_ < MANY


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["hinge", "log", "squared error", "classes", "labels", "structured"])
def test_large_numbers_of_sources(kind):
    """They are read a block at a time: a sentence names columns, and soon."""
    model, target = (mm.StructuredSVM(Multiclass()), three) if kind == "structured" else MODELS[kind]
    y = target(NOISY)
    for X, said in ((1e150 * X0, "columns 0, 1, 2 and 2 more of X, up to 2e+150"), (SETS["a large column"][0], "column 2 of X")):
        source = mm.open_source([(X[: N // 2], y[: N // 2]), (X[N // 2 :], y[N // 2 :])])
        model = clone(model).set_params(random_state=0)
        found = fitted(model, source, None)
        assert not found.converged and f"rounding is multiplied by the numbers in {said}" in found.message, found.message
        assert found.dual <= found.primal * (1 + 1e-9) and model.n_iter_ < MANY


@pytest.mark.compiled
def test_large_kernels_of_classes_are_given_up_soon():
    """A pass of theirs is a hundred sweeps."""
    model = mm.SVMClassifier(kernel="precomputed", random_state=0)
    found = fitted(model, 1e60 * X0 @ (1e60 * X0).T, three(NOISY))
    assert not found.converged and "rounding is multiplied by the numbers in the kernel matrix" in found.message
    assert model.n_iter_ <= 50


@pytest.mark.compiled
def test_structured_classes_at_a_large_c():
    """Passes crawl, and masses are tiny beside that of the true output."""
    for name in ("separable", "separable by a margin", "not separable", "wide, large C"):
        X, target, C, _ = SETS[name]
        model = mm.StructuredSVM(Multiclass(), C=C, random_state=0, max_iter=MANY)
        assert fitted(model, X, three(target)).converged, name


@pytest.mark.compiled
def test_coordinates_that_crawl_say_what_helps():
    X, target = SETS["duplicated rows"][:2]
    model = mm.SVMClassifier(loss="log_loss", solver="dual_coordinate", C=1e8, random_state=0, max_iter=MANY)
    found = fitted(model, X, two(target))
    assert not found.converged and found.message.startswith(f"Stopped after max_iter={MANY} passes. Coordinate steps crawl here")
    assert fitted(model.set_params(solver="auto"), X, two(target)).converged


def test_a_latent_model_says_what_came_first():
    """Not the one pass that is made after it."""
    X = (1e150 * X0).reshape(N // 2, 2, D)
    assert fitted(mm.LatentSVMClassifier(random_state=0), X, two(NOISY)[::2]).message.startswith("Reached the limit of float64")


def test_targets_that_float32_cannot_hold():
    """Kernel models iterate in copies of single precision; at these targets every dual is at its bound."""
    for size in (1e30, 1e50, 1e150):
        model = mm.SVMRegressor(kernel="rbf", keep_duals=True)
        assert fitted(model, X0, size * NOISY).converged
        assert np.array_equal(model.dual_coef_.ravel(), np.sign(NOISY))


# ---- rankings, pair by pair ------------------------------------------------------------------------------


def ranking(X, target, group, C):
    layout = ranked(target, group, np.ones(len(X)))
    return RankingProblem(table_of(X), layout, np.ones(len(layout.first) - 1)).at(C)


@pytest.mark.parametrize("size", [N, 4])
def test_pairs_are_those_of_the_targets(size):
    target, group = np.round(NOISY), np.arange(N) // size
    layout = ranking(X0, target, group, 1.0).layout
    wins, loses, of_group = places_of_pairs(layout)
    found = {(int(i), int(j)) for i, j in zip(layout.rows[wins], layout.rows[loses], strict=True)}
    assert found == {(i, j) for i in range(N) for j in range(N) if group[i] == group[j] and target[i] > target[j]}
    assert len(found) == len(wins) == count_of_pairs(layout) and np.all(np.diff(of_group) >= 0)


@pytest.mark.compiled
@pytest.mark.parametrize("size", [N, 4])
def test_rankings_where_steps_crawl(size):
    """L-BFGS makes no way there, and the interior point on pairs certifies; in fractions, from the duals of the samples."""
    problem = ranking(WIDE, NOISY, np.arange(N) // size, 1e8)
    run = RankingRun(problem, NOWHERE, Setting(1e-6))
    assert affordable(problem) and not affordable(problem, WRITTEN_OUT._replace(numbers=10))
    while not run.stuck and run.passes < 300:
        run.advance(lambda: False)
        dual = run.synchronise()
        primal = min(problem.primal(w) for w in run.candidates())
        if primal - dual <= 1e-6 * primal:
            break
    assert run.on_pairs and 0.0 <= primal - dual <= 1e-6 * primal
    duals = run.run.inner.left()
    wins, loses, _ = places_of_pairs(problem.layout)
    assert np.all(duals >= 0.0) and np.all(duals <= problem.C)
    net = [Fraction(0)] * N
    for b, i, j in zip(duals, problem.layout.rows[wins], problem.layout.rows[loses], strict=True):
        net[i], net[j] = net[i] + Fraction(float(b)), net[j] - Fraction(float(b))
    v = [sum(n * Fraction(float(x)) for n, x in zip(net, column, strict=True)) for column in WIDE.T]
    exact = sum(Fraction(float(b)) for b in duals) - sum(x * x for x in v) / 2
    assert dual <= float(exact) * (1 + 1e-9) <= primal * (1 + 1e-9)


@pytest.mark.compiled
def test_a_resumed_ranking_goes_on():
    problem = ranking(WIDE, NOISY, np.zeros(N, int), 1e8)
    for steps in (3, WRITTEN_OUT.first + 4):  # before and after pairs are written out
        one, two = (RankingRun(problem, NOWHERE, Setting(1e-9)) for _ in range(2))
        for _ in range(steps):
            one.advance(lambda: False)
        two.resume(one.snapshot())
        for _ in range(3):
            assert one.advance(lambda: False) == two.advance(lambda: False)
        assert one.on_pairs == two.on_pairs == (steps > WRITTEN_OUT.first)
        assert one.synchronise() == two.synchronise() and np.array_equal(one.left(), two.left())
