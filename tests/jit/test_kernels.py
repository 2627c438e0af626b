"""Kernels: one text for dense, indexed and CSR rows, compiled and plain. All must agree with each other and with NumPy.

Kernels written here are compiled with `.fresh`, without the cache on disk: its stamp does not cover this file.
"""

import gc
import json
import os
import pickle
import subprocess
import sys
import warnings
import weakref
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin.data import rows
from maxmargin.data.row_updates import update, update_clipped
from maxmargin.jit import generic_call, kernel, vectors
from maxmargin.solvers.ascent.schedule import gather, schedule
from maxmargin.solvers.tuning import VISITS

DTYPES = [np.float32, np.float64]
WAYS = [pytest.param("fresh", marks=pytest.mark.compiled), "plain"]


def near(dtype) -> dict:
    """Tolerances of a few roundings of this dtype."""
    return dict.fromkeys(("rtol", "atol"), 16 * float(np.finfo(dtype).eps))


# ---- vectors -------------------------------------------------------------------------------------------------------------------


@kernel
def every_lane_function(a, b, x, out, scalars):
    """Each operation of `instructions` on the vectors a[0, j] and b[0, j]."""
    for j in range(a.shape[1]):
        u, v = vectors.load(a, 0, j), vectors.load(b, 0, j)
        vectors.store(out, 0, j, vectors.zeros_like(a))
        vectors.store(out, 1, j, u)
        vectors.store(out, 2, j, vectors.fma(u, x, v))
        vectors.store(out, 3, j, vectors.add(u, v))
        vectors.store(out, 4, j, vectors.subtract(u, v))
        vectors.store(out, 5, j, vectors.multiply(u, v))
        vectors.store(out, 6, j, vectors.shift(u, x))
        vectors.store(out, 7, j, vectors.maximum(u, v))
        vectors.store(out, 8, j, vectors.where_negative(u, v))
        vectors.store(out, 9, j, vectors.absolute(u))
        scalars[j, 0], scalars[j, 1], scalars[j, 2] = vectors.total(u), vectors.largest(u), vectors.any_filled(u)
        scalars[j, 3] = vectors.any_reaches(u, x)
        vectors.prefetch(a, j)
    scalars[0, 4] = vectors.row_filled(a, 0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors(dtype, way):
    rng = np.random.default_rng(0)
    a, b = (vectors.pack(rng.integers(-9, 9, (1, 40)) / 4.0 + 1e-3 * rng.normal(size=(1, 40)), dtype) for _ in range(2))
    a[0, 0, :3], b[0, 0, 2], x = (0.0, -0.0, 2.0), 2.0, 0.3
    a[0, 1], a[0, 2], a[0, 3] = 0.0, -0.0, np.minimum(a[0, 3], 0.0)
    a[0, 2, -1], a[0, 3, -1] = np.finfo(dtype).smallest_subnormal, x
    out, scalars = np.full((10, *a.shape[1:]), np.nan, dtype), np.full((a.shape[1], 5), np.nan)
    getattr(every_lane_function, way)(a, b, x, out, scalars)
    u, v, x = a[0].astype(float), b[0].astype(float), float(dtype(x))
    expected = [0 * u, u, u + x * v, u + v, u - v, u * v, u + x, np.maximum(u, v), np.where(u < 0, v, 0.0), np.abs(u)]
    assert out.dtype == dtype
    for found, wanted in zip(out, expected):
        assert np.allclose(found, wanted, **near(dtype))
    for exact in (0, 1, 7, 8, 9):  # no arithmetic in these
        assert np.array_equal(out[exact], expected[exact].astype(dtype))
    assert np.allclose(scalars[:, 0], u.sum(axis=1), **near(dtype))
    assert np.array_equal(scalars[:, 1], u.max(axis=1)) and np.array_equal(scalars[:, 2], np.any(u != 0, axis=1))
    assert np.array_equal(scalars[:, 3], np.any(u >= x, axis=1))
    assert not scalars[1, 2] and scalars[2, 2] and scalars[3, 3] and scalars[0, 4]


@kernel
def every_question(a, x, out):
    for j in range(a.shape[1]):
        u = vectors.load(a, 0, j)
        out[j, 0], out[j, 1] = vectors.any_filled(u), vectors.any_reaches(u, x)
    out[a.shape[1], 0] = vectors.row_filled(a, 0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_no_number_is_not_there(dtype, way):
    a, out = vectors.pack(np.full((1, 3 * vectors.width(dtype)), np.nan), dtype), np.full((9, 2), -1)
    blocks = a.shape[1]
    getattr(every_question, way)(a, 1.0, out)
    assert np.all(out[:blocks] == 0) and out[blocks, 0] == 0
    a[0, 1, -1] = 1.0
    getattr(every_question, way)(a, 1.0, out)
    assert np.all(out[:blocks, 0] == out[:blocks, 1]) and np.flatnonzero(out[:blocks, 0]).tolist() == [1] and out[blocks, 0] == 1


@kernel
def pick_rows(array, index, out):
    for k in range(index.size):
        vectors.store(out, k, 1, vectors.load(array, index[k], 0))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [np.uint16, np.uint32, np.uint64, np.int32, np.int64])
def test_vectors_are_found_by_every_kind_of_index(kind, way):
    """Also by 16-bit indices above the range of signed ones."""
    rows, index = (40_000 if kind == np.uint16 else 70_000), np.array([0, 1, 39_999, 33_000], kind)
    array, out = np.zeros((rows, 2, 4)), np.zeros((4, 3, 4))
    array[:, 0] = np.arange(4 * rows).reshape(rows, 4)
    getattr(pick_rows, way)(array, index, out)
    assert np.array_equal(out[:, 1], array[index.astype(int), 0]) and not np.any(out[:, [0, 2]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("classes", [1, 3, 4, 5, 8, 9, 16, 17, 31])
def test_lane_arrays(classes, dtype):
    """Packing and unpacking, conversion to the other dtype, alignment."""
    rng = np.random.default_rng(classes)
    table = rng.integers(-99, 99, (6, classes)).astype(float)
    packed = vectors.pack(table, dtype, fill=-7.0)
    assert packed.shape == (6, vectors.blocks(classes, dtype), vectors.width(dtype)) and packed.dtype == dtype
    assert np.array_equal(vectors.unpack(packed, classes), table)
    assert np.all(packed.reshape(6, -1)[:, classes:] == -7.0)
    assert packed.ctypes.data % 64 == 0
    other = vectors.convert(packed, np.float64 if dtype == np.float32 else np.float32)
    assert other.dtype != dtype and other.ctypes.data % 64 == 0 and not np.shares_memory(other, packed)
    assert np.array_equal(vectors.unpack(other, classes), table)
    assert np.array_equal(vectors.to_classes(vectors.from_classes(table.T, dtype), classes), table.T)
    both = vectors.zeros_table(6, classes, dtype)
    both.vectors[2, 0, 1] = 5.0
    assert both.flat[2, 1] == 5.0 and np.count_nonzero(both.flat) == 1


# ---- rows ----------------------------------------------------------------------------------------------------------------------


@kernel
def every_row_function(X, t, w, prior, out):
    """dot and add, plain, scaled and clipped: adds t_i x_i for all i."""
    variance, lower = prior
    dots, added, scaled, v, clipped = out
    for i in range(t.size):
        rows.prefetch(X, i)
        dots[i] = rows.dot(X, i, w)
        rows.add(X, i, t[i], added)
        rows.add_scaled(X, i, t[i], variance, scaled)
        rows.add_clipped(X, i, t[i], variance, lower, v, clipped)


@kernel
def every_block_function(X, changes, W, prior, tables):
    """scores, update and update_clipped: adds x_i changes_i for all i."""
    variance, lower = prior
    scores, one, change, added, V, clipped = tables
    for i in range(changes.flat.shape[0]):
        rows.prefetch_weights(X, i, W)
        rows.scores(X, i, W, one.vectors)
        for j in range(change.flat.shape[1]):
            scores[i, j] = one.flat[0, j]
            change.flat[0, j] = changes.flat[i, j]
        update(X, i, change.vectors, 0, added)
        update_clipped(X, i, change.vectors, variance, lower, V, clipped)


def matrix(dtype) -> np.ndarray:
    """Mostly zeros, an empty row, a row of one entry at the end."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((9, 7)) < 0.4, rng.normal(size=(9, 7)), 0.0)
    X[4], X[8] = 0.0, 0.0
    X[8, 6] = 2.0
    return X.astype(dtype)


def frozen(array: np.ndarray) -> np.ndarray:
    """The same array, read-only."""
    array.setflags(write=False)
    return array


def csr(X: np.ndarray, kind) -> sp.csr_array:
    """X as CSR with indices of this kind."""
    found = sp.csr_array(X)
    found.indices, found.indptr = found.indices.astype(kind), found.indptr.astype(kind)
    return found


def frozen_csr(X: np.ndarray) -> sp.csr_array:
    """CSR whose three arrays are read-only."""
    found = csr(X, np.int32)
    for array in (found.data, found.indices, found.indptr):
        frozen(array)
    return found


STORAGE = {
    "dense float64": lambda: rows.rows(matrix(np.float64), 1.5),
    "dense float32 read-only": lambda: rows.rows(frozen(matrix(np.float32)), 1.5),
    "indexed float64": lambda: rows.rows(matrix(np.float64), 1.5, sparse_below=0.6),
    "indexed float32 read-only": lambda: rows.rows(frozen(matrix(np.float32)), 1.5, sparse_below=0.6),
    "csr float32 int64": lambda: rows.rows(csr(matrix(np.float32), np.int64), 1.5),
    "csr float64 int32 read-only": lambda: rows.rows(frozen_csr(matrix(np.float64)), 1.5),
}


@pytest.mark.parametrize("size", [0, 1, vectors.OWN_PAGES, vectors.LARGE_PAGES])
def test_pages_of_their_own(size):
    found = vectors.zeros_apart(size, np.float32)
    assert found.shape == (size,) and found.dtype == np.float32 and not found.any()
    found += 1.0
    other = vectors.zeros_apart(size, np.float32)
    assert not other.any() and not np.shares_memory(found, other)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)), np.ones(size))


def test_every_storage_is_what_it_says():
    for name, make in STORAGE.items():
        X = make()
        assert type(X).__name__.lower() == name.split()[0] and rows.dtype(X) == name.split()[1] and rows.shape(X) == (9, 7)
        assert X.values.flags.writeable  # to numba read-only arrays have another type, for which all would be compiled again
        assert type(X.bias) is np.float64  # the intercept is the bias times a weight, exactly


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", STORAGE)
def test_one_score_per_example(name, way):
    X, dtype = STORAGE[name](), np.dtype(name.split()[1])
    full = np.hstack([matrix(dtype), np.full((9, 1), 1.5, dtype)]).astype(float)
    rng = np.random.default_rng(1)
    t, w, variance = rng.normal(size=9).astype(dtype), rng.normal(size=8).astype(dtype), rng.uniform(0.5, 2.0, 8).astype(dtype)
    lower = np.where(np.arange(8) % 2, 0.4, -np.inf).astype(dtype)
    dots, added, scaled, v, clipped = np.zeros(9, dtype), w.copy(), w.copy(), w.copy(), np.maximum(w, lower)
    getattr(every_row_function, way)(X, t, w, (variance, lower), (dots, added, scaled, v, clipped))
    assert np.allclose(dots, full @ w, **near(dtype))
    assert np.allclose(added, w + t @ full, **near(dtype))
    assert np.allclose(scaled, w + variance * (t @ full), **near(dtype))
    assert np.array_equal(v, scaled) or np.allclose(v, scaled, **near(dtype))
    assert np.array_equal(clipped, np.maximum(v, lower)) and np.any(clipped > v)
    for given in (np.empty(0), rng.uniform(0.5, 2.0, 8)):
        norms = np.empty(9)
        rows.squared_norms(X, given, norms)
        listed = np.empty(9)
        (rows.listed_norms if way == "fresh" else rows.listed_norms.plain)(X, given, listed, 0)
        assert np.allclose(norms, listed, rtol=1e-14)
        assert np.allclose(norms, full**2 @ (given if given.size else np.ones(8)), rtol=1e-14)  # in float64 always


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", STORAGE)
@pytest.mark.parametrize("K", [3, 11, 21])
def test_a_row_of_scores_per_example(K, name, way):
    """One, two and three vectors of classes (in float32)."""
    X, dtype = STORAGE[name](), np.dtype(name.split()[1])
    full = np.hstack([matrix(dtype), np.full((9, 1), 1.5, dtype)]).astype(float)
    rng = np.random.default_rng(K)
    W, variance, changes = rng.normal(size=(8, K)), rng.uniform(0.5, 2.0, (8, K)), rng.normal(size=(9, K))
    changes[2] = 0.0
    lower = np.where(np.arange(8)[:, None] % 2, 0.0, -np.inf) + np.zeros(K)
    packed = {key: vectors.pack(table, dtype) for key, table in {"W": W, "variance": variance, "lower": lower}.items()}
    added, V = (vectors.convert(packed["W"], dtype) for _ in range(2))
    clipped, change = np.maximum(V, packed["lower"]), vectors.table(vectors.pack(changes, dtype))
    scores = np.zeros((9, change.flat.shape[1]), dtype)
    tables = scores, vectors.zeros_table(1, K, dtype), vectors.zeros_table(1, K, dtype), added, V, clipped
    getattr(every_block_function, way)(X, change, packed["W"], (packed["variance"], packed["lower"]), tables)
    W, variance, lower = (vectors.unpack(packed[key], K).astype(float) for key in ("W", "variance", "lower"))
    move = full.T @ vectors.unpack(change.vectors, K)
    assert np.allclose(scores[:, :K], full @ W, **near(dtype)) and not np.any(scores[:, K:])
    assert np.allclose(vectors.unpack(added, K), W + move, **near(dtype))
    assert np.allclose(vectors.unpack(V, K), W + variance * move, **near(dtype))
    assert np.array_equal(vectors.unpack(clipped, K), np.maximum(vectors.unpack(V, K), lower))


def test_rows_are_views_of_the_users_memory():
    for dtype in DTYPES:
        X = matrix(dtype)
        assert np.shares_memory(rows.rows(X).values, X) and np.shares_memory(rows.rows(X, sparse_below=0.6).values, X)
        for kind in (np.int32, np.int64):
            S = csr(X, kind)
            found = rows.rows(S)
            assert all(np.shares_memory(a, b) for a, b in zip(found[:3], (S.data, S.indices, S.indptr)))
            assert found.indices.dtype.kind == "u" and found.indices.dtype.itemsize == np.dtype(kind).itemsize
        assert np.shares_memory(rows.rows(frozen(X)).values, X)


def test_rows_keep_read_only_memory_alive():
    X = frozen(matrix(np.float64))
    expected, found = X.copy(), rows.rows(X)
    kept = weakref.ref(X)
    del X
    gc.collect()
    assert kept() is not None and np.array_equal(found.values, expected)


def test_index_of_non_zeros():
    """Made below the density asked for only; two bytes a column, four where two do not reach."""
    X = matrix(np.float64)
    density = np.count_nonzero(X) / X.size
    assert isinstance(rows.rows(X, sparse_below=density), rows.Dense) and isinstance(rows.rows(X), rows.Dense)
    found = rows.rows(X, sparse_below=density + 1e-9)
    assert isinstance(found, rows.Indexed) and found.columns.dtype == np.uint16
    assert np.array_equal(found.columns, np.nonzero(X)[1])
    assert np.array_equal(found.indptr, np.concatenate([[0], np.cumsum(np.count_nonzero(X, axis=1))]))


@pytest.mark.compiled
def test_index_of_many_columns():
    X = np.zeros((2, 65_537))
    X[0, 65_536], X[1, 65_535] = 3.0, 4.0
    assert rows.rows(X[:, :65_536].copy(), sparse_below=0.5).columns.dtype == np.uint16
    found = rows.rows(X, sparse_below=0.5)
    assert found.columns.dtype == np.uint32 and found.columns.tolist() == [65_536, 65_535]


# ---- compiled and plain --------------------------------------------------------------------------------------------------------


def tiny_fits(max_iter: int) -> dict[str, list[float]]:
    """Weights, then the primal and the dual value, of one tiny fit of each kind, in float64."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(18, 3))
    y, real, many = (X[:, 0] + rng.normal(size=18) > 0).astype(int), X @ [1.0, 2.0, 0.5] + rng.normal(size=18), np.arange(18) % 5
    common = {"tol": 1e-6, "random_state": 3, "C": 0.5, "max_iter": max_iter}
    shaped = {"prior_mean": [0.5, -0.5, 0.0], "prior_scale": [1.0, 0.5, 2.0], "positive": np.array([True, False, True])}
    squared = mm.SVMClassifier(loss="squared_hinge", **common)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        models = {
            "hinge": mm.SVMClassifier(**common).fit(X, y),
            "hinge with prior": mm.SVMClassifier(**common, **shaped).fit(X, y),
            "squared hinge, CSR": squared.fit(sp.csr_array(X * (X > 0)), y),
            "crammer-singer": mm.SVMClassifier(**common).fit(X, many),
            "crammer-singer with prior": mm.SVMClassifier(**common, **shaped).fit(X, many),
            "regression": mm.SVMRegressor(**common).fit(X, real),
            "squared regression": mm.SVMRegressor(loss="squared_epsilon_insensitive", **common).fit(X, real),
        }
    found = {name: [*model.coef_.ravel(), *model.intercept_, *model.history_[-1][2:4]] for name, model in models.items()}
    explicit = mm.solve(mm.ExplicitProblem(X, np.ones(18), np.arange(18) // 3), 0.5, tol=1e-6, max_iter=max_iter)
    found["explicit"] = [*explicit.w, *explicit.history[-1][2:4]]
    return {name: [float(number) for number in numbers] for name, numbers in found.items()}


@pytest.mark.compiled
def test_the_same_text_runs_uncompiled():
    """In a process without compilation every estimator takes the same steps, and ends at the same optimum.

    The steps are compared over a few passes: later ones may differ, since rounding decides which of two equal choices is taken.
    """
    here = str(Path(__file__).parent)
    env = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    script = "import json, test_kernels as t; print(json.dumps([t.tiny_fits(5), t.tiny_fits(10_000)]))"
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    plain, compiled = json.loads(done.stdout), [tiny_fits(5), tiny_fits(10_000)]
    assert plain[0].keys() == compiled[0].keys()
    for name, numbers in plain[0].items():
        assert np.allclose(numbers, compiled[0][name], rtol=1e-9, atol=1e-12), name
    for name, numbers in plain[1].items():
        assert np.allclose(numbers[-2:], compiled[1][name][-2:], rtol=2e-6), name
        assert numbers[-2] - numbers[-1] <= 1e-6 * numbers[-2], name


class Stranger(NamedTuple):
    """A class from outside of the package."""

    factor: float


@kernel
def scaled(what, x):
    return x * what[0]


@pytest.mark.compiled
def test_strangers_are_compiled_but_not_cached():
    """What is not ours is not under the stamp of our sources, so it never goes to disk."""
    assert scaled(Stranger(3.0), 2.0) == 6.0
    assert len(scaled.fresh.signatures) == 1 and not scaled.cached.signatures
    assert scaled.plain(Stranger(3.0), 2.0) == 6.0


# ---- the order of visits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "run"), [(50, 1), (VISITS.many + 13, VISITS.run)])
def test_a_pass_visits_all_that_are_due_once_in_another_order_each_time(n, run):
    plan = schedule(n, 0, row_bytes=100)
    assert plan.run == run
    orders = [plan.order[: gather(plan, 0)].copy() for _ in range(2)]
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(n))
    moved = [np.mean(one != other) for one, other in (orders, (orders[0], np.arange(n)))]
    assert min(moved) > 0.9
    plan.due[::2] = 1  # they rest
    np.testing.assert_array_equal(np.sort(plan.order[: gather(plan, 0)]), np.arange(1, n, 2))


def test_implementations_have_names_of_their_own():
    """Compiled functions are linked by file, name and types: no two of a file may have all of them in common."""
    seen: dict[tuple[str, str], object] = {}
    for module in [found for name, found in list(sys.modules.items()) if name.startswith("maxmargin.") and found is not None]:
        for function in list(vars(module).values()):
            if isinstance(getattr(function, "register", None), partial):
                for implementation in function.registry.values():
                    where = implementation.__module__, implementation.__qualname__
                    assert where[1] != "_" and seen.setdefault(where, implementation) is implementation
    assert len(seen) > 100


@pytest.mark.compiled
def test_implementations_are_named_after_their_function_and_class():
    @generic_call
    def once(thing, i): ...

    @generic_call
    def twice(thing, i): ...

    @once.register(Stranger)
    def _(thing, i):
        return thing.factor * i

    @twice.register(Stranger)
    def _(thing, i):
        return 2.0 * thing.factor * i

    @kernel
    def both(thing):
        return once(thing, 1) + twice(thing, 1)

    assert both.fresh(Stranger(5.0)) == 15.0
    assert [f.registry[Stranger].__qualname__ for f in (once, twice)] == ["once_of_Stranger", "twice_of_Stranger"]


@kernel
def move_vectors(array, out):
    for i in range(array.shape[0]):
        for j in range(array.shape[1]):
            vectors.store(out, i, j, vectors.load(array, i, j))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_some_vectors_of_each_row(dtype, way):
    """As threads have them that share out classes: the rest of a row is not touched."""
    width = vectors.width(dtype)
    array = np.arange(5 * 7 * width, dtype=dtype).reshape(5, 7, width)
    out = np.full((5, 9, width), -1, dtype)
    getattr(move_vectors, way)(array[:, 2:5], out[:, 4:7])
    assert np.array_equal(out[:, 4:7], array[:, 2:5]) and np.all(out[:, :4] == -1) and np.all(out[:, 7:] == -1)


def test_pages_that_are_kept_are_used_again_and_blank():
    """Those of an array that is gone, of any shape; never those of one that a view is left of."""
    kept, shape = vectors.KeptPages(), (vectors.OWN_PAGES // 4, 1)
    with kept.in_use():
        first = vectors.aligned(shape, np.float32)
        first[...] = 7.0
        place, view = first.ctypes.data, first[5:9].reshape(2, 2)
        del first
        second = vectors.aligned(shape, np.float32)
        assert second.ctypes.data != place and view.tolist() == [[7.0, 7.0], [7.0, 7.0]]
        del view
        third = vectors.aligned(shape[::-1], np.float32)
        assert third.ctypes.data == place and not third.any()
        third[...] = 3.0
        del third
        fourth = vectors.convert(np.full(shape, 2.0), np.float32)
        assert fourth.ctypes.data == place and np.all(fourth == 2.0)
    outside = vectors.aligned(shape, np.float32)
    assert outside.ctypes.data not in (place, second.ctypes.data)
    place = fourth.ctypes.data
    del kept
    assert np.all(fourth == 2.0) and fourth.ctypes.data == place
