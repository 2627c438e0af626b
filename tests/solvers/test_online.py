"""OnlineDual, estimators on sources and `partial_fit`: the optimum of data in memory, whatever the blocks, caps and pieces."""

import os
import subprocess
import sys
import tempfile
import textwrap
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin.data.sources.blocks import Block
from maxmargin.data.sources.memory import Arrays
from maxmargin.solvers.streams.dual_store import PAGE, DualStore

TINY = mm.OnlineDual(cache_size=0.02)  # megabytes: duals go to a file, and most support vectors leave the cache


class Shuffled(Arrays):
    """Blocks of uneven size, their rows in another order in each pass."""

    def blocks(self, seed=None, **options):
        for block in super().blocks(seed, **options):
            order = np.arange(block.rows.size) if seed is None else np.random.default_rng(seed).permutation(block.rows.size)
            y, weight = (None if part is None else part[order] for part in (block.y, block.weight))
            yield Block(block.rows[order], block.X[order], y, weight)


def data(n=600, d=8, classes=2, seed=0, kind="dense", dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    if kind == "sparse":
        X[rng.random(X.shape) < 0.6] = 0.0
    scores = X @ rng.normal(size=(d, max(classes, 2))) + rng.normal(size=(n, max(classes, 2)))
    y = scores.argmax(axis=1) if classes else scores[:, 0]
    return (sp.csr_matrix(X) if kind == "sparse" else X), y


ESTIMATORS = {
    "binary": (mm.SVMClassifier(C=0.05), 2),
    "squared hinge": (mm.SVMClassifier(C=0.05, loss="squared_hinge"), 2),
    "costs": (mm.SVMClassifier(C=0.05, cost=[[0, 2, 1], [1, 0, 1], [3, 1, 0]], class_weight="balanced"), 3),
    "multiclass": (mm.SVMClassifier(C=0.05), 5),
    "signs": (mm.SVMClassifier(C=0.05, positive=True, prior_mean=0.1, prior_scale=0.5), 3),
    "half_spaces": (mm.SVMClassifier(C=0.05, positive=True, prior_covariance=np.eye(8) + 0.3), 2),
    "half_spaces of classes": (mm.SVMClassifier(C=0.05, positive=True, prior_covariance=np.eye(8) + 0.3), 3),
    "regression": (mm.SVMRegressor(C=0.05), 0),
    "squared regression": (mm.SVMRegressor(C=0.05, loss="squared_epsilon_insensitive", epsilon=0.0), 0),
    "top-k": (mm.TopKSVMClassifier(C=0.05, k=2), 5),
    "top-k, beta, smoothed": (mm.TopKSVMClassifier(C=0.05, k=2, loss="topk_beta", smoothing=0.5), 5),
}


@pytest.mark.parametrize("solver", [mm.OnlineDual(), TINY], ids=["default", "tiny cache"])
@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "dense") for name in ESTIMATORS), *((name, "sparse") for name in ("binary", "costs", "top-k"))]
)
def test_a_source_and_memory_have_the_same_optimum(name, kind, solver):
    estimator, classes = ESTIMATORS[name]
    X, y = data(classes=classes, kind=kind)
    tol = 1e-5
    inside = clone(estimator).set_params(tol=tol, random_state=0).fit(X, y)
    outside = clone(estimator).set_params(tol=tol, random_state=0, solver=solver).fit(Shuffled(X, y, block=97))
    assert inside.certificate_.converged and outside.certificate_.converged and outside.certificate_.verified
    assert outside.certificate_.primal == pytest.approx(inside.certificate_.primal, rel=2 * tol)
    assert outside.certificate_.dual <= inside.certificate_.primal * (1 + 1e-12)
    assert outside.certificate_.primal >= inside.certificate_.dual * (1 - 1e-12)
    np.testing.assert_allclose(outside.coef_, inside.coef_, atol=0.05 * np.abs(inside.coef_).max())


def test_the_certificate_is_that_of_the_model_and_its_duals():
    X, y = data(n=400, classes=4)
    model = mm.SVMClassifier(C=0.1, solver=TINY, keep_duals=True, random_state=0, tol=1e-4).fit(Arrays(X, y, block=64))
    rows = np.hstack([X, np.ones((400, 1))])
    w = model.dual_coef_.T @ rows
    np.testing.assert_allclose(w[:, :-1], model.coef_, atol=1e-8)
    scores = rows @ w.T
    losses = (scores + 1.0 - np.eye(4)[y]).max(axis=1) - scores[np.arange(400), y]
    assert model.certificate_.primal == pytest.approx(0.5 * np.sum(w * w) + 0.1 * losses.sum(), rel=1e-10)
    assert model.certificate_.dual == pytest.approx(np.abs(model.dual_coef_).sum() / 2 - 0.5 * np.sum(w * w), rel=1e-10)


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(2, 60),
    classes=st.sampled_from([0, 2, 3]),
    block=st.integers(1, 40),
    C=st.floats(1e-3, 1e3),
    passes=st.integers(1, 4),
    cache=st.sampled_from([0.002, 1.0]),
    seed=st.integers(0, 1000),
)
def test_bounds_hold_after_any_number_of_passes(n, classes, block, C, passes, cache, seed):
    X, y = data(n=n, d=3, classes=classes, seed=seed)
    if classes:
        y = np.concatenate([np.arange(classes), y])[:n] if n >= classes else y
        if len(np.unique(y)) < 2:
            return
    kind = mm.SVMClassifier if classes else mm.SVMRegressor
    solver = mm.OnlineDual(cache_size=cache)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = kind(C=C, tol=1e-8, max_iter=2000, random_state=0).fit(X, y).certificate_
        model = kind(C=C, tol=1e-9, max_iter=passes, random_state=seed, solver=solver).fit(Arrays(X, y, block=block))
    found, slack = model.certificate_, 1e-9 * max(abs(best.primal), 1e-300)
    assert found.verified and found.primal >= found.dual - slack
    assert found.dual <= best.primal + slack and found.primal >= best.dual - slack


def test_a_weight_is_so_many_repetitions():
    X, y = data(n=200, classes=3)
    weight = np.random.default_rng(1).integers(0, 4, 200)
    fit = mm.SVMClassifier(C=0.1, tol=1e-6, random_state=0).fit
    weighted = fit(Arrays(X, y, weight.astype(float), block=50)).certificate_
    repeated = fit(Arrays(np.repeat(X, weight, axis=0), np.repeat(y, weight), block=50)).certificate_
    assert weighted.primal == pytest.approx(repeated.primal, rel=2e-6)


@pytest.mark.parametrize("prune", ["calm", "zero", "never"])
@pytest.mark.parametrize("effort", [0, 1, 20])
def test_schedules_and_pruning_change_the_way_not_the_optimum(prune, effort):
    X, y = data(n=500, classes=3)
    best = mm.SVMClassifier(C=0.05, tol=1e-6).fit(X, y).certificate_
    solver = mm.OnlineDual(prune=prune, effort=effort)
    found = mm.SVMClassifier(C=0.05, tol=1e-4, solver=solver, random_state=0).fit(Arrays(X, y, block=100)).certificate_
    assert found.converged and found.primal == pytest.approx(best.primal, rel=2e-4)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_online_serves_arrays_too(name):
    estimator, classes = ESTIMATORS[name]
    single = name in ("binary", "costs", "multiclass")  # the same kernels in float32; the other losses would each compile theirs
    X, y = data(classes=classes, dtype=np.float32 if single else np.float64)
    weight = np.random.default_rng(0).uniform(0, 2, len(y))
    inside = clone(estimator).set_params(tol=1e-4).fit(X, y, weight)
    online = clone(estimator).set_params(tol=1e-4, solver="online", random_state=0).fit(X, y, weight)
    assert online.certificate_.converged
    assert online.certificate_.primal == pytest.approx(inside.certificate_.primal, rel=2e-4)


def test_one_pass_and_few_passes_suffice():
    """lam = 1e-4; the issue's figures, on a smaller stream."""
    for classes in (2, 10):
        X, y = data(n=20_000, d=30, classes=classes, dtype=np.float32)
        X /= np.sqrt(30)
        C = 1.0 / (1e-4 * len(X))
        best = mm.SVMClassifier(C=C, tol=1e-3).fit(X, y).certificate_
        source = Arrays(X, y, block=1000)
        with pytest.warns(ConvergenceWarning):
            once = mm.SVMClassifier(C=C, max_iter=1, random_state=0).fit(source)
        assert once.certificate_.verified and once.n_iter_ == 1
        assert once.certificate_.primal <= 1.05 * best.dual
        few = mm.SVMClassifier(C=C, tol=1e-2, random_state=0).fit(source)
        assert few.certificate_.converged and few.statistics_["reads"] <= 5


def test_without_verification_the_primal_value_is_not_known():
    X, y = data(n=500)
    with pytest.warns(ConvergenceWarning, match="was not computed"):
        model = mm.SVMClassifier(C=0.05, max_iter=1, solver=mm.OnlineDual(verify=False)).fit(Arrays(X, y, block=100))
    found = model.certificate_
    assert not found.verified and not found.converged
    assert found.primal == found.gap == found.relative_gap == np.inf
    assert 0 < found.dual <= mm.SVMClassifier(C=0.05, tol=1e-6).fit(X, y).certificate_.primal
    assert model.statistics_["reads"] == 1 and model.score(X, y) > 0.8
    str(found)


def test_max_time_and_callbacks_end_a_run():
    X, y = data(n=2000, classes=3)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = mm.SVMClassifier(C=100.0, tol=1e-12, max_time=0.05, random_state=0).fit(Arrays(X, y, block=100))
    assert model.coef_.shape == (3, 8)

    class Stop(mm.Progress):
        def on_fit_task_end(self, estimator, context):
            return context.parent is not None and context.task_id == 1

    with pytest.warns(ConvergenceWarning, match="callback"):
        stopped = mm.SVMClassifier(C=100.0, tol=1e-12).set_callbacks(Stop()).fit(Arrays(X, y, block=100))
    assert stopped.n_iter_ == 2 and stopped.certificate_.verified


def test_predict_and_score_take_sources():
    X, y = data(n=300, classes=4)
    weight = np.random.default_rng(0).uniform(0, 2, 300)
    source = Arrays(X, y, weight, block=70)
    model = mm.TopKSVMClassifier(C=0.1, k=2).fit(source)
    np.testing.assert_array_equal(model.predict(source), model.predict(X))
    np.testing.assert_array_equal(model.predict_topk(source, k=3), model.predict_topk(X, k=3))
    np.testing.assert_allclose(model.decision_function(source), model.decision_function(X))
    assert model.score(source) == pytest.approx(model.score(X, y, weight))
    X, y = data(n=300, classes=0)
    regressor = mm.SVMRegressor(C=0.1).fit(Arrays(X, y, block=70))
    assert regressor.score(Arrays(X, y, block=33)) == pytest.approx(regressor.score(X, y))


# ---- where duals live ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [0, 1e9])
def test_a_store_remembers_rows_in_any_order(memory):
    store = DualStore(3 * PAGE + 5, 2, memory)
    assert store.on_disk == (memory == 0)
    rng = np.random.default_rng(0)
    rows = rng.permutation(store.n_rows)[:1000]
    values = rng.normal(size=(1000, 2))
    store.write(rows, values)
    np.testing.assert_array_equal(store.read(rows[::-1]), values[::-1])
    others = np.setdiff1d(np.arange(store.n_rows), rows)
    assert not store.read(others).any()
    store.close()


def test_a_run_leaves_no_files(tmp_path, monkeypatch):
    """Nor would a killed one: the file never has a name."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    X, y = data(n=5000, classes=3)
    listed = []

    class Look(Arrays):
        def blocks(self, seed=None, **options):
            listed.append(os.listdir(tmp_path))
            return super().blocks(seed, **options)

    mm.SVMClassifier(C=0.01, solver=TINY).fit(Look(X, y, block=500))
    assert len(listed) > 1 and not any(listed) and not os.listdir(tmp_path)


@pytest.mark.compiled
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is the address space's, as Linux counts it")
def test_memory_does_not_grow_with_the_data():
    """1x, 4x and 16x the data under one hard limit; the last alone are several times as large."""
    script = """
        import resource
        import numpy as np
        import maxmargin as mm
        from maxmargin.data.sources.blocks import Block

        D, BLOCK = 40, 1000

        class Made:
            multilabel, n_features, dtype = False, D, np.dtype(np.float64)
            def __init__(self, blocks):
                self.count, self.n_rows = blocks, blocks * BLOCK
            def scan(self):
                return self.n_rows, D, np.arange(3)
            def check_unchanged(self):
                pass
            def blocks(self, seed=None, **options):
                order = range(self.count) if seed is None else np.random.default_rng(seed).permutation(self.count).tolist()
                W = np.random.default_rng(0).normal(size=(D, 3))
                for k in order:
                    rng = np.random.default_rng(k + 1)
                    X = rng.normal(size=(BLOCK, D))
                    y = (X @ W + rng.normal(size=(BLOCK, 3))).argmax(axis=1)
                    yield Block(np.arange(k * BLOCK, (k + 1) * BLOCK), X, y)

        def fit(blocks):
            C = 1.0 / (1e-3 * blocks * BLOCK)
            return mm.SVMClassifier(C=C, tol=1e-2, solver=mm.OnlineDual(cache_size=1.0), random_state=0).fit(Made(blocks))

        fit(5)
        pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (pages + (16 << 20), resource.RLIM_INFINITY))
        try:
            np.ones(16 << 18)
        except MemoryError:
            print("limited")
        for blocks in (10, 40, 160):
            model = fit(blocks)
            assert model.certificate_.converged and model.statistics_["evicted"] > 0
            print(blocks * BLOCK * D * 8 >> 20, "MB of data")
    """
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, env=env, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "limited" and "48 MB of data" in done.stdout


# ---- bad input -------------------------------------------------------------------------------------------------


class Claims(Arrays):
    """Says that there are other labels than there are."""

    def scan(self):
        return self.n_rows, self.n_features, np.array([0, 1])


def test_bad_sources_are_refused_in_a_sentence():
    X, y = data(n=50)
    model = mm.SVMClassifier()
    with pytest.raises(ValueError, match="leave y out"):
        model.fit(Arrays(X, y), y)
    with pytest.raises(ValueError, match="leave sample_weight out"):
        model.fit(Arrays(X, y), sample_weight=np.ones(50))
    with pytest.raises(ValueError, match="has no labels"):
        model.fit(Arrays(X))
    with pytest.raises(ValueError, match="only one class"):
        model.fit(Arrays(X, np.zeros(50, int)))
    late = y.copy()
    late[40] = 7
    with pytest.raises(ValueError, match=r"Sample 40 has the label .*7.*, which is not among the classes 0, 1\."):
        model.fit(Claims(X, late, block=20))
    with pytest.raises(ValueError, match="Row 12 of the source holds NaN"):
        broken = X.copy()
        broken[12, 3] = np.nan
        model.fit(Arrays(broken, y, block=20))
    with pytest.raises(ValueError, match="target of sample 5"):
        mm.SVMRegressor().fit(Arrays(X, np.where(np.arange(50) == 5, np.inf, 1.0)))
    several = Arrays(X, y)
    several.multilabel = True
    with pytest.raises(ValueError, match="several"):
        model.fit(several)
    with pytest.raises(ValueError, match="features"):
        mm.SVMClassifier().fit(Arrays(X, y)).predict(Arrays(X[:, :3]))
    with pytest.raises(ValueError, match="FrankWolfe needs the data in memory"):
        mm.SVMClassifier(solver="frank_wolfe").fit(Arrays(X, y))


def test_a_source_that_changes_says_so():
    class Changing(Arrays):
        passes = 0

        def check_unchanged(self):
            self.passes += 1
            if self.passes > 1:
                raise ValueError("the file has changed")

    X, y = data(n=500)
    with pytest.raises(ValueError, match="the file has changed"):
        mm.SVMClassifier(tol=1e-6).fit(Changing(X, y, block=100))


@pytest.mark.parametrize(
    ("settings_", "sentence"),
    [
        ({"cache_size": 0}, r"'cache_size' parameter of OnlineDual must be a float in the range \(0.0, inf\). Got 0"),
        ({"cache_size": np.inf}, "'cache_size' parameter of OnlineDual must be"),
        ({"cache_size": True}, "'cache_size' parameter of OnlineDual must be"),
        ({"effort": -1}, r"'effort' parameter of OnlineDual must be a float in the range \[0.0, inf\). Got -1"),
        ({"effort": np.nan}, "'effort' parameter of OnlineDual must be"),
        ({"prune": "all"}, "'prune' parameter of OnlineDual must be a str among .*. Got 'all'"),
    ],
)
def test_bad_parameters(settings_, sentence):
    X, y = data(n=50)
    with pytest.raises(ValueError, match=sentence):
        mm.SVMClassifier(solver=mm.OnlineDual(**settings_)).fit(X, y)


# ---- partial_fit -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "dense") for name in ESTIMATORS), *((name, "sparse") for name in ("binary", "costs", "top-k"))]
)
def test_pieces_come_near_the_optimum_of_all_data(name, kind):
    estimator, classes = ESTIMATORS[name]
    X, y = data(n=900, classes=classes, kind=kind)
    given = {"class_weight": None} if "class_weight" in estimator.get_params() else {}
    best = clone(estimator).set_params(tol=1e-5, **given).fit(X, y).certificate_
    model = clone(estimator).set_params(tol=1e-5, **given)
    labels = {"classes": np.unique(y)} if classes else {}
    for part in np.array_split(np.arange(900), 3):
        model.partial_fit(X[part], y[part], **labels)
        assert model.certificate_.converged
        assert model.certificate_.dual <= best.primal * (1 + 1e-10)
    assert model.certificate_.dual >= 0.95 * best.primal


def test_one_piece_is_a_fit():
    X, y = data(n=300, classes=3)
    whole = mm.SVMClassifier(C=0.1, tol=1e-6).fit(X, y)
    piece = mm.SVMClassifier(C=0.1, tol=1e-6).partial_fit(X, y, classes=[0, 1, 2])
    assert piece.certificate_.verified and piece.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=2e-6)


def test_what_memory_cannot_keep_stays_in_the_weights():
    """The dual value still counts every support vector, and never falls."""
    X, y = data(n=900, classes=3)
    best = mm.SVMClassifier(C=0.05, tol=1e-6).fit(X, y).certificate_.primal
    model = mm.SVMClassifier(C=0.05, tol=1e-6, solver=mm.OnlineDual(cache_size=0.01))
    last = 0.0
    for part in np.array_split(np.arange(900), 9):
        model.partial_fit(X[part], y[part], classes=[0, 1, 2])
        found = model.certificate_
        assert last - 1e-9 <= found.dual <= best * (1 + 1e-10) and found.dual <= found.primal + 1e-9
        last = found.dual
    assert model._kept.frozen.size and not found.verified
    assert last >= 0.8 * best and model.score(X, y) > 0.6


def labelled(n: int):
    X, y = data(n=n, classes=3)
    Y = np.column_stack([y == k for k in range(3)] + [X[:, 0] + X[:, 1] > 0]).astype(float)
    Y[::17, 1] = np.nan
    return X, Y


@pytest.mark.parametrize("prior", [None, 0.5 * np.eye(4) + 0.5], ids=["independent", "correlated"])
def test_pieces_with_several_labels(prior):
    X, Y = labelled(600)
    model = mm.MultilabelSVMClassifier(C=0.1, label_prior=prior, tol=1e-5, random_state=0)
    best = clone(model).fit(X, Y).certificate_
    duals = [0.0]
    for part in np.array_split(np.arange(600), 3):
        model.partial_fit(X[part], Y[part], sample_weight=np.ones(part.size))
        found = model.certificate_
        duals.append(found.dual)
        assert found.converged and duals[-2] - 1e-9 <= found.dual <= best.primal * (1 + 1e-10)
    assert found.dual >= 0.95 * best.primal and not found.verified
    assert model.predict(X).shape == (600, 4)


def test_one_piece_with_several_labels_is_a_fit_and_fit_starts_anew():
    X, Y = labelled(200)
    whole, piece = (mm.MultilabelSVMClassifier(C=0.1, tol=1e-6) for _ in range(2))
    piece.partial_fit(sp.csr_matrix(X), sp.csr_matrix(np.nan_to_num(Y)), classes=np.arange(4), mask=sp.csr_matrix(np.isnan(Y)))
    assert piece.certificate_.verified
    assert piece.certificate_.primal == pytest.approx(whole.fit(X, Y).certificate_.primal, rel=2e-6)
    anew, whole = (model.set_params(random_state=0).fit(X, Y) for model in (piece, whole))
    np.testing.assert_array_equal(anew.coef_, whole.coef_)
    assert piece._kept.X is None


def test_pieces_with_several_labels_refuse_what_does_not_fit():
    X, Y = labelled(60)
    for setting, words in (
        ({"label_weight": "balanced"}, "balanced"),
        ({"solver": "bundle"}, "Bundle"),
    ):
        with pytest.raises(ValueError, match=words):
            mm.MultilabelSVMClassifier(**setting).partial_fit(X, Y)
    model = mm.MultilabelSVMClassifier()
    with pytest.raises(ValueError, match="4 labels"):
        model.partial_fit(X, Y, classes=[0, 1, 2])
    model.partial_fit(X, Y)
    with pytest.raises(ValueError, match="those of the first call of partial_fit, or of fit, were 4"):
        model.partial_fit(X, Y[:, :3])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :4], Y)


def test_partial_fit_refuses_what_does_not_fit():
    X, y = data(n=60, classes=3)
    with pytest.raises(ValueError, match="classes must be given"):
        mm.SVMClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="classes is for classifiers"):
        mm.SVMRegressor().partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="balanced"):
        mm.SVMClassifier(class_weight="balanced").partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="Bundle"):
        mm.SVMClassifier(solver="bundle").partial_fit(X, y, classes=[0, 1, 2])
    model = mm.SVMClassifier().partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :4], y)
    with pytest.raises(ValueError, match=r"label .*9.* not among the classes"):
        model.partial_fit(X, np.where(np.arange(60) == 3, 9, y))
    model.partial_fit(X, y, sample_weight=np.full(60, 0.5))
    assert model.fit(X, y)._kept.samples is None


# ---- structures ------------------------------------------------------------------------------------------------


def chains(n=30, seed=0):
    rng = np.random.default_rng(seed)
    y = [rng.integers(0, 3, size=rng.integers(2, 6)) for _ in range(n)]
    return [np.eye(3)[labels] + 0.8 * rng.normal(size=(labels.size, 3)) for labels in y], y


class Readings:
    """Blocks of samples, anew at each iter."""

    def __init__(self, X, y, weight=None, block=7):
        self.given = X, y, weight
        self.block = block

    def __iter__(self):
        X, y, weight = self.given
        for start in range(0, len(X), self.block):
            part = slice(start, start + self.block)
            yield (X[part], y[part]) if weight is None else (X[part], y[part], weight[part])


class Sequences(mm.Structure):
    """Labels of a sequence, in plain Python: each position for itself."""

    def size(self, X, y):
        return 9

    def joint_feature(self, x, y):
        total = np.zeros((3, 3))
        for row, label in zip(x, y, strict=True):
            total[label] += row
        return total.ravel()

    def loss(self, y_true, y):
        return float(np.sum(np.asarray(y_true) != np.asarray(y)))

    def decode(self, w, x):
        return (x @ w.reshape(3, 3).T).argmax(axis=1)

    def loss_augmented_decode(self, w, x, y_true):
        return (x @ w.reshape(3, 3).T + 1.0 - np.eye(3)[y_true]).argmax(axis=1)


@pytest.mark.parametrize("structure", [mm.structures.Chain(n_labels=3), Sequences()], ids=["chain", "plain Python"])
def test_structures_online_and_from_a_source(structure):
    X, y = chains()
    weight = np.random.default_rng(1).integers(1, 3, len(X)).astype(float)
    best = mm.StructuredSVM(structure, C=0.5, tol=1e-5, random_state=0).fit(X, y, weight)
    inside = mm.StructuredSVM(structure, C=0.5, tol=1e-3, solver="online", random_state=0).fit(X, y, weight)
    source = mm.Samples(Readings(X, y, weight))
    outside = mm.StructuredSVM(structure, C=0.5, tol=1e-3, random_state=0).fit(source)
    for model in (inside, outside):
        found = model.certificate_
        assert found.converged and found.verified
        assert found.dual <= best.certificate_.primal * (1 + 1e-9) and found.primal >= best.certificate_.dual * (1 - 1e-9)
    assert [list(one) for one in outside.predict(source)] == [list(one) for one in outside.predict(X)]
    assert outside.score(source) == pytest.approx(outside.score(X, y, weight))


def test_bad_sources_of_samples():
    X, y = chains(10)
    model = mm.StructuredSVM(mm.structures.Chain(n_labels=3))
    with pytest.raises(ValueError, match="start anew"):
        mm.Samples((X, y) for _ in range(2))
    with pytest.raises(ValueError, match="Block 0 must be a tuple"):
        model.fit(mm.Samples([[X, y]]))
    with pytest.raises(ValueError, match="Block 0 has 10 samples in X and 9 in y"):
        model.fit(mm.Samples([(X, y[:9])]))
    with pytest.raises(ValueError, match="weights of block 0"):
        model.fit(mm.Samples([(X, y, np.full(10, -1.0))]))
    with pytest.raises(ValueError, match="no samples"):
        model.fit(mm.Samples([]))
    with pytest.raises(ValueError, match="needs the data in memory"):
        mm.StructuredSVM(mm.structures.Chain(), solver="frank_wolfe").fit(mm.Samples([(X, y)]))
    late = [*y[:9], np.full(y[9].size, 7)]
    with pytest.raises(ValueError, match="7"):
        model.fit(mm.Samples(Readings(X, late)))

    class Shrinking(Readings):
        def __iter__(self):
            self.passes = getattr(self, "passes", 0) + 1
            return iter(list(super().__iter__())[: 4 - self.passes])

    with pytest.raises(ValueError, match="samples in its first pass"):
        model.fit(mm.Samples(Shrinking(X, y, block=3)))


# ---- files, and several labels ---------------------------------------------------------------------------------


def test_a_file_and_memory_have_the_same_optimum(tmp_path):
    X, y = data(n=500, classes=3, kind="sparse")
    path = tmp_path / "rows.svm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    source = mm.open_source(path, n_features=8, block_size=0.01)
    assert len(list(source.blocks())) > 3
    inside = mm.SVMClassifier(C=0.05, tol=1e-5).fit(X, y)
    outside = mm.SVMClassifier(C=0.05, tol=1e-5, random_state=0, solver=TINY).fit(source)
    assert outside.certificate_.converged and outside.certificate_.verified
    assert outside.certificate_.primal == pytest.approx(inside.certificate_.primal, rel=2e-5)
    assert outside.score(source) == pytest.approx(outside.score(X, y))
    with path.open("a") as file:
        file.write("1 1:0.5\n")
    with pytest.raises(mm.SourceChangedError, match="has changed"):
        mm.SVMClassifier().fit(source)


def test_a_file_that_changes_between_passes_is_an_error(tmp_path):
    X, y = data(n=500, classes=2, kind="sparse")
    path = tmp_path / "rows.svm"
    dump_svmlight_file(X, y, str(path), zero_based=False)

    class Meddle(mm.Progress):
        def on_fit_task_end(self, estimator, context):
            if context.parent is not None and context.task_id == 0:
                path.write_text(path.read_text().replace("1:0.", "1:1.", 1))
            return False

    with pytest.raises(mm.SourceChangedError):
        mm.SVMClassifier(tol=1e-9).set_callbacks(Meddle()).fit(mm.open_source(path, n_features=8, block_size=0.01))


class Indicators(Shuffled):
    """A multi-label source."""

    multilabel = True

    @property
    def n_labels(self):
        return self.y.shape[1]


@pytest.mark.parametrize("prior", [None, "correlated"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_several_labels_from_a_source(prior, loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    Y = (X @ rng.normal(size=(6, 5)) + rng.normal(size=(400, 5)) > 0.5).astype(int)
    R = None if prior is None else mm.label_correlation(Y, ridge=0.1)
    weight = rng.uniform(0, 2, 400)
    settings_ = {"C": 0.05, "label_prior": R, "loss": loss, "label_weight": "balanced", "random_state": 0}
    inside = mm.MultilabelSVMClassifier(tol=1e-6, **settings_).fit(X, Y, weight)
    source = Indicators(X, sp.csr_matrix(Y.astype(float)), weight, block=70)
    outside = mm.MultilabelSVMClassifier(tol=1e-4, solver=TINY, **settings_).fit(source)
    online = mm.MultilabelSVMClassifier(tol=1e-4, solver="online", **settings_).fit(X, Y, weight)
    for model in (outside, online):
        assert model.certificate_.converged
        assert model.certificate_.primal == pytest.approx(inside.certificate_.primal, rel=2e-4)
        assert model.certificate_.dual <= inside.certificate_.primal * (1 + 1e-9)
    np.testing.assert_array_equal(outside.predict(source).toarray(), outside.predict(X).toarray())
    assert outside.score(source) == pytest.approx(outside.score(X, Y, weight))


def test_bad_sources_of_several_labels():
    X, Y = np.eye(4), sp.csr_matrix(np.eye(4))
    source = Indicators(X, Y)
    with pytest.raises(ValueError, match="indicator matrix"):
        mm.MultilabelSVMClassifier().fit(Arrays(X, np.arange(4)))
    with pytest.raises(ValueError, match="kernel needs all samples"):
        mm.MultilabelSVMClassifier(kernel="rbf").fit(source)
    with pytest.raises(ValueError, match="leave mask out"):
        mm.MultilabelSVMClassifier().fit(source, mask=np.zeros((4, 4), bool))
    with pytest.raises(ValueError, match="keep_duals"):
        mm.MultilabelSVMClassifier(keep_duals=True).fit(source)


# ---- found by random problems ----------------------------------------------------------------------------------


class Later:
    """A clock that strikes after so many looks at it."""

    def __init__(self, looks: int):
        self.looks = looks

    def __call__(self) -> float:
        self.looks -= 1
        return 0.0 if self.looks > 0 else 1e9


@pytest.mark.parametrize("looks", [40, 90, 150, 260])
def test_duals_kept_are_those_of_the_certificate_wherever_time_ends(monkeypatch, looks):
    """Each pass that learns is followed by one that proves; a run that ends between them keeps what was proved."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4)) * [1.0, 100.0, 0.01, 1.0]
    y = X @ [1.0, 0.02, 0.0, 1.0] + rng.normal(size=30)
    monkeypatch.setattr("maxmargin.solvers.loop.clock", Later(looks))
    model = mm.SVMRegressor(1e4, tol=1e-12, keep_duals=True, fit_intercept=False, solver="online", max_time=1e6, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.fit(X, y)
    monkeypatch.undo()
    assert model.coef_ == pytest.approx(model.dual_coef_ @ X, rel=1e-9, abs=1e-12)
    duals, weights = model.dual_coef_, model.dual_coef_ @ X
    value = duals @ y - 0.1 * np.abs(duals).sum() - 0.5 * weights @ weights
    assert model.certificate_.dual == pytest.approx(value, rel=1e-9)


def test_warm_start_of_a_stream_starts_anew():
    X = np.random.default_rng(0).normal(size=(30, 4))
    model = mm.SVMRegressor(solver="online", warm_start=True, keep_duals=True, random_state=0).fit(X, X[:, 0])
    first = model.coef_.copy()
    assert np.array_equal(model.fit(X, X[:, 0]).coef_, first)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("cls", [mm.SVMClassifier, mm.MultilabelSVMClassifier])
def test_pieces_may_be_dense_and_sparse(cls, order):
    """What is forgotten depends on the last rounding of the duals, so the model is held against one of its kind."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), rng.integers(2, size=30)
    given = y if cls is mm.SVMClassifier else np.column_stack([y, 1 - y])
    dense, mixed = (cls(tol=1e-6, random_state=0) for _ in range(2))
    for part, form in zip((slice(0, 15), slice(15, 30)), [np.asarray, sp.csr_array][::order], strict=True):
        dense.partial_fit(X[part], given[part], classes=[0, 1])
        mixed.partial_fit(form(X[part]), given[part], classes=[0, 1])
    assert mixed.certificate_.converged and mixed.coef_ == pytest.approx(dense.coef_, abs=1e-4)
