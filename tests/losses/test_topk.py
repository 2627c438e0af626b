"""Top-k losses and `TopKSVMClassifier`: each step, the optimum, the certificate, and what users see."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import sorting
from helpers.certificates import check, consistent, recomputed, shaped
from helpers.drawn import features, labels, prior, seed_of, signs, weights
from helpers.loss_rows import extrapolate_rows, masses, random_rows, repair_rows, visit_rows
from helpers.reference import TopK, quadratic, reference
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, ShuffleSplit

import maxmargin as mm
from maxmargin.jit import vectors
from maxmargin.losses.topk_alpha import topk_alpha
from maxmargin.losses.topk_beta import topk_beta

FORMS = {"topk_alpha": topk_alpha, "topk_beta": topk_beta}
LOSSES = list(FORMS)
TOL = 1e-7

# ---- one example ---------------------------------------------------------------------------------------------------------------


def rows_for(name: str, rng, K: int, k: int, dtype):
    """Random rows whose duals are feasible for this loss."""
    label, _, cap, q, z, duals = random_rows(rng, K, dtype, 160)
    a = masses(duals, label)
    if name == "topk_beta":
        a = np.minimum(a, cap[:, None] / k)
    else:  # the k largest made equal, so that none exceeds its part of the sum
        level = np.sort(a, axis=1)[:, ::-1][:, k - 1]
        a = np.minimum(a, level[:, None])
    duals = -a.astype(dtype).astype(float)
    duals[np.arange(len(label)), label] = -duals.sum(axis=1)
    return label, cap, q, z, duals


def unit_loss(name: str, k: int, smoothing: float, h: np.ndarray) -> float:
    problem = TopK(np.zeros((1, 1)), np.array([0]), np.ones(1), quadratic(len(h) + 1, 1), k, name == "topk_beta", smoothing)
    return float(problem.losses(np.concatenate([[0.0], h - 1.0])[None])[0])


def best_block(name: str, k: int, soft: float, h, q: float, cap: float, old):
    """The best masses by sorting; `soft` is smoothing / cap."""
    Q = q + soft
    entry = (h + q * (old + old.sum())) / Q
    return (sorting.box if name == "topk_beta" else sorting.topk)(entry, k, cap, q / Q)


def block_dual(h, q: float, soft: float, old, a) -> float:
    d = a - old
    return float(h @ d - 0.5 * q * (d @ d + d.sum() ** 2) - 0.5 * soft * (a @ a - old @ old))


@pytest.mark.parametrize(("name", "dtype"), [("topk_alpha", np.float32), ("topk_alpha", np.float64), ("topk_beta", np.float64)])
def test_row_step_is_the_best_row(name, dtype):
    """Against sorting, for several numbers of classes, k and smoothing: dual value, masses, value, share of the gap, reward."""
    eps = float(np.finfo(dtype).eps)
    for K, k, smoothing in [(3, 2, 0.0), (5, 1, 0.7), (9, 3, 0.0), (9, 8, 0.0), (17, 5, 0.3), (40, 5, 0.0), (40, 20, 0.0)]:
        label, cap, q, z, old = rows_for(name, np.random.default_rng(K + k), K, k, dtype)
        n = len(label)
        loss, table = FORMS[name](label, cap, K, k, smoothing, dtype), vectors.table(vectors.pack(old, dtype))
        scratch = vectors.zeros_table(1, K, dtype), vectors.zeros_table(1, K, dtype), -np.inf
        answers, changes = np.empty((n, 4)), np.empty((n, K))
        visit_rows.fresh(loss, q, z.astype(dtype), table, scratch, answers, changes)
        new = masses(table.flat[:, :K].astype(float), label)
        assert not np.any(table.flat[:, K:])  # no class is there
        for i in np.flatnonzero(cap > 0.0):
            others = np.arange(K) != label[i]
            h, a, start = (1.0 + z[i] - z[i, label[i]])[others], new[i][others], masses(old, label)[i][others]
            soft, size = smoothing / cap[i], np.abs(h).max() + np.abs(z[i]).max() + q[i] * start.sum()
            mass = max(a.sum(), start.sum(), cap[i] * 1e-3)
            bound = (cap[i] if name == "topk_beta" else a.sum()) / k
            near = 1e-14 * k * (size + smoothing) / max(q[i] + soft, 1e-300)  # masses are differences of numbers of this size
            assert np.all(a >= 0.0) and a.sum() <= cap[i] * (1.0 + 40.0 * eps) + near
            assert a.max() <= bound * (1.0 + 40.0 * eps) + near
            assert table.flat[i, label[i]] == pytest.approx(a.sum(), rel=40.0 * eps)
            value = cap[i] * unit_loss(name, k, smoothing, h)
            assert answers[i, 0] == pytest.approx(value, abs=30.0 * eps * size * cap[i])
            share = value - h @ start + 0.5 * soft * start @ start
            assert answers[i, 1] == pytest.approx(share, abs=100.0 * eps * size * (cap[i] + mass))
            assert answers[i, 2] == 1.0
            assert np.allclose(-changes[i][others], a - start, rtol=0.0, atol=4.0 * eps * mass)
            gain = (a - start).sum() - 0.5 * soft * (a @ a - start @ start)
            assert answers[i, 3] == pytest.approx(gain, abs=100.0 * eps * mass * (1.0 + smoothing))
            if q[i] + soft > 0.0:
                best = best_block(name, k, soft, h, q[i], cap[i], start)
                lost = block_dual(h, q[i], soft, start, best) - block_dual(h, q[i], soft, start, a)
                assert abs(lost) <= 200.0 * eps * (size + smoothing) * max(mass, best.sum()) + 4.0 * near * size
            else:  # nothing but the loss counts: its worst corner
                assert h @ a == pytest.approx(value, abs=100.0 * eps * size * cap[i])


@pytest.mark.parametrize("name", LOSSES)
def test_calm_rows_extrapolated_rows_and_repaired_rows(name):
    """Calm rows stay; extrapolated and repaired rows are feasible, those that already were are where they were meant to be."""
    K, k, dtype = 11, 3, np.float64
    rng = np.random.default_rng(7)
    label, cap, q, z, now = rows_for(name, rng, K, k, dtype)
    n = len(label)
    loss, table = FORMS[name](label, cap, K, k, 0.2, dtype), vectors.table(vectors.pack(now, dtype))
    scratch = vectors.zeros_table(1, K, dtype), vectors.zeros_table(1, K, dtype), np.inf
    answers, changes = np.empty((n, 4)), np.empty((n, K))
    visit_rows.fresh(loss, q, z, table, scratch, answers, changes)
    assert np.array_equal(table.flat[:, :K], now) and not np.any(answers[:, 2:])
    assert np.all(answers[:, 1] >= -1e-12 * (1.0 + np.abs(answers[:, 0])))

    problem = TopK(np.zeros((n, 1)), label, cap, quadratic(K, 1), k, name == "topk_beta", 0.2)
    before = now * rng.choice([0.0, 0.5, 1.0, 1.5], (n, 1)) + np.roll(now, 7, axis=0) * (np.roll(label, 7) == label)[:, None]
    duals, old, t = vectors.table(vectors.pack(now, dtype)), vectors.table(vectors.pack(before, dtype)), 0.9
    moved, lacking = np.empty((n, 2)), np.empty((n, K))
    extrapolate_rows.fresh(loss, duals, old, t, vectors.zeros_table(1, K, dtype), lacking, moved)
    new, short = duals.flat[:, :K].copy(), moved[:, 0] == 1.0
    target = now + t * (now - before)
    assert np.array_equal(old.flat[:, :K], now) and 10 < short.sum() < n - 10
    size = 1e-13 * (np.abs(now) + np.abs(before)).max(axis=1, keepdims=True)
    assert np.all(np.abs(new - target - lacking) <= size)
    assert problem.infeasibility(new * (1.0 - 1e-12)) <= 1e-11 * cap.max()
    for i in range(n):
        one = TopK(np.zeros((1, 1)), label[i : i + 1], cap[i : i + 1], quadratic(K, 1), k, name == "topk_beta", 0.2)
        gain = one.reward(new[i : i + 1]) - one.reward(now[i : i + 1])
        assert moved[i, 1] == pytest.approx(gain, abs=1e-12 * (1.0 + cap[i]))
        if one.infeasibility(target[i : i + 1]) <= 0.0:
            assert not short[i]

    for given in (now, now * (1.0 + 1e-6), rng.normal(size=(n, K)) * cap[:, None]):
        table, result, rewards = vectors.table(vectors.pack(given, dtype)), np.empty((n, K)), np.empty(n)
        repair_rows.fresh(loss, table, vectors.zeros_table(1, K, dtype), result, rewards)
        assert problem.infeasibility(result) <= 0.0
        assert rewards.sum() == pytest.approx(problem.reward(result), rel=1e-12)
    assert np.allclose(result[cap == 0.0], 0.0)


# ---- the optimum ---------------------------------------------------------------------------------------------------------------

CASES = {
    "plain": ({"fit_intercept": False}, 0.0),
    "intercept and class weights": ({"intercept_scaling": 3.0, "class_weight": "balanced"}, 0.0),
    "smoothed": ({}, 0.5),
    "prior and signs": (None, 0.0),
    "smoothed, prior and signs": (None, 0.3),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("loss", LOSSES)
def test_optimum_and_certificate(loss, k, case):
    """That of the convex solver; and both values again from the duals, in plain NumPy."""
    rng = np.random.default_rng(seed_of(loss, k, case))
    X, K = features(rng), 7
    y, weight = labels(rng, X, K), weights(rng, len(X))
    weight[:K] = 1.0
    params, smoothing = CASES[case]
    if params is None:
        params = prior(rng, "mean+scale", X.shape[1], K) | signs("mask", X.shape[1])
    model = mm.TopKSVMClassifier(
        C=0.3, k=k, loss=loss, smoothing=smoothing, tol=TOL, max_iter=100_000, random_state=0, keep_duals=True, **params
    )
    model.fit(X, y, sample_weight=weight)
    problem = reference(model, X, y, weight)
    consistent(model)
    recomputed(model, problem)
    check(model, problem)


@pytest.mark.parametrize("layout", ["csr float32", "dense float32"])
def test_formats_in_float32(layout):
    """Iterated in float32, certified in float64."""
    rng = np.random.default_rng(seed_of(layout))
    X = features(rng, 60, 6).astype(np.float32)
    y = labels(rng, X, 9)
    data = sp.csr_array(X) if layout.startswith("csr") else X
    model = mm.TopKSVMClassifier(k=3, random_state=0, keep_duals=True).fit(data, y)
    consistent(model)
    recomputed(model, reference(model, data, y))
    check(model, reference(model, data, y))


@pytest.mark.parametrize("loss", LOSSES)
def test_one_guess_is_the_multiclass_classifier(loss):
    """The same numbers, to the last bit; smoothing makes it another loss, whose limit it is."""
    rng = np.random.default_rng(0)
    X = features(rng)
    y = labels(rng, X, 5)
    one = mm.SVMClassifier(C=0.5, random_state=0).fit(X, y)
    two = mm.TopKSVMClassifier(C=0.5, k=1, loss=loss, random_state=0).fit(X, y)
    assert np.array_equal(one.coef_, two.coef_) and one.certificate_ == two.certificate_
    three = mm.TopKSVMClassifier(C=0.5, k=1, loss=loss, smoothing=1e-6, tol=1e-6, random_state=0).fit(X, y)
    assert three.certificate_.primal == pytest.approx(one.certificate_.primal, rel=2e-3)


def test_integer_weights_are_repetitions():
    rng = np.random.default_rng(1)
    X = features(rng)
    y, count = labels(rng, X, 5), rng.integers(0, 4, len(X))
    count[:5] = 2
    estimator = mm.TopKSVMClassifier(C=0.4, k=2, class_weight="balanced", tol=1e-9, random_state=0, max_iter=100_000)
    weighted = clone(estimator).fit(X, y, sample_weight=count)
    repeated = clone(estimator).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    assert repeated.certificate_.primal == pytest.approx(weighted.certificate_.primal, rel=2e-9)
    apart = np.sqrt(max(weighted.certificate_.gap, 0.0)) + np.sqrt(max(repeated.certificate_.gap, 0.0))
    assert np.linalg.norm(weighted.coef_ - repeated.coef_) <= 2.0 * apart


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_of_zeros(loss):
    """Nothing can be learned from them, and the gap closes all the same."""
    model = mm.TopKSVMClassifier(k=2, loss=loss, fit_intercept=False, random_state=0).fit(np.zeros((6, 2)), [0, 1, 2, 3, 4, 0])
    assert model.certificate_.primal == pytest.approx(6.0, rel=1e-12)
    assert model.certificate_.dual == pytest.approx(6.0, rel=1e-12)


# ---- what users see ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(2)
    X = features(rng, 80, 5)
    y = np.array(["ant", "bee", "cat", "dog", "eel"])[labels(rng, X, 5)]
    return mm.TopKSVMClassifier(k=2, random_state=0).fit(X, y), X, y


def test_guesses_are_ordered_by_score(fitted):
    model, X, y = fitted
    scores, found = model.decision_function(X), model.predict_topk(X)
    assert found.shape == (80, 2) and scores.shape == (80, 5) and model.coef_.shape == (5, 5)
    np.testing.assert_array_equal(found[:, 0], model.predict(X))
    np.testing.assert_array_equal(model.predict_topk(X, 5), model.classes_[np.argsort(-scores, axis=1)])
    assert model.score(X, y) == np.mean(model.predict(X) == y)
    assert model.score_topk(X, y) == np.mean(np.any(found == y[:, None], axis=1)) > model.score(X, y)
    assert model.score_topk(X, y, 1) == model.score(X, y) and model.score_topk(X, y, 5) == 1.0
    weight = np.arange(80.0)
    assert model.score_topk(X, y, sample_weight=weight) == pytest.approx(
        np.average(np.any(found == y[:, None], axis=1), weights=weight)
    )
    for k, words in ((0, "between 1 and the 5 classes of the model, got 0"), (6, "got 6"), (1.5, "integer, got 1.5")):
        with pytest.raises(ValueError, match=words):
            model.predict_topk(X, k)
    with pytest.raises(ValueError, match="X has 80 samples, y has 3"):
        model.score_topk(X, y[:3])


def test_paths_and_warm_starts(fitted):
    model, X, y = fitted
    over_C = model.regularization_path(X, y, [0.01, 0.1, 1.0])
    over_k = model.topk_path(X, y, [1, 2, 4])
    assert [m.C for m in over_C] == [0.01, 0.1, 1.0] and [m.k for m in over_k] == [1, 2, 4]
    assert all(m.certificate_.converged for m in over_C + over_k)
    for m in over_C + over_k:
        alone = clone(m).fit(X, y)
        assert m.certificate_.primal == pytest.approx(alone.certificate_.primal, rel=2e-3)
    values = [m.certificate_.dual for m in over_k]
    assert values == sorted(values, reverse=True)  # the mean of more classes is smaller
    warm = clone(model).set_params(warm_start=True).fit(X, y)
    assert warm.fit(X, y).n_iter_ == 0
    assert np.linalg.norm(shaped(warm)[0]) > 0.0


def test_beta_is_the_larger_loss_and_smoothing_lowers_it(fitted):
    _, X, y = fitted
    value = {
        name: mm.TopKSVMClassifier(C=0.1, k=3, tol=1e-5, random_state=0, **params).fit(X, y).certificate_.primal
        for name, params in {"alpha": {}, "beta": {"loss": "topk_beta"}, "smooth": {"smoothing": 0.6}}.items()
    }
    assert value["smooth"] < value["alpha"] < value["beta"]
    assert value["alpha"] - value["smooth"] <= 0.1 * 80 * 0.6 / (2.0 * 3.0) * (1.0 + 1e-3)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"k": 5}, "k=5 guesses among the 5 classes in y leave nothing to learn: k must be below the number of classes"),
        ({"k": 9}, "k=9 guesses among the 5 classes"),
        ({"k": 0}, "k must be an integer >= 1, got 0"),
        ({"k": -2}, "got -2"),
        ({"k": 2.0}, "k must be an integer >= 1, got 2.0"),
        ({"k": True}, "got True"),
        ({"k": "2"}, "got '2'"),
        ({"k": 2, "smoothing": -1.0}, "smoothing"),
        ({"k": 2, "loss": "hinge"}, "loss"),
    ],
)
def test_bad_parameters(fitted, params, words):
    _, X, y = fitted
    with pytest.raises(ValueError, match=words):
        mm.TopKSVMClassifier(**params).fit(X, y)


def test_too_few_classes(fitted):
    model, X, y = fitted
    two = y <= "bee"
    with pytest.raises(ValueError, match="k=2 guesses among the 2 classes"):
        clone(model).fit(X[two], y[two])
    with pytest.raises(ValueError, match="only one class"):
        clone(model).fit(X, np.full(80, "ant"))
    with pytest.raises(ValueError, match="got 0"):
        model.topk_path(X, y, [2, 0])
    search = GridSearchCV(clone(model), {"C": [1.0]}, cv=[(np.flatnonzero(two), np.flatnonzero(~two))], error_score="raise")
    with pytest.raises(ValueError, match="among the 2 classes"):
        search.fit(X, y)


def test_solvers_that_do_not_serve_top_k_say_so(fitted):
    model, X, y = fitted
    with pytest.raises(TypeError, match="use solver='dual_coordinate'"):
        clone(model).set_params(solver="frank_wolfe").fit(X, y)


def test_grid_search_by_the_top_k_score(fitted):
    model, X, y = fitted
    search = GridSearchCV(
        clone(model), {"C": [1e-4, 1.0]}, cv=ShuffleSplit(2, random_state=0), scoring=lambda m, X, y: m.score_topk(X, y)
    ).fit(X, y)
    assert search.best_score_ >= 0.5


def test_unfinished_runs_warn(fitted):
    model, X, y = fitted
    with pytest.warns(ConvergenceWarning, match="The duality gap is"):
        early = clone(model).set_params(max_iter=1, tol=1e-9, keep_duals=True).fit(X, y)
    recomputed(early, reference(early, X, y))
