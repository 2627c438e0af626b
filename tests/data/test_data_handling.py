"""What X may be, that it is neither copied nor changed without need, and that its form does not change the answer."""

import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import maxmargin as mm
from maxmargin.data.rows import CSR, Dense, Indexed, rows

rng = np.random.default_rng(0)
X = rng.standard_normal((48, 5))
CENTRES = np.array([[1.5, 0.0, 0.0, 0.0, 0.0], [0.0, 1.5, 0.0, 0.0, 0.0], [0.0, 0.0, 1.5, 0.0, 0.0]])
Y3 = np.arange(48) % 3
X += CENTRES[Y3]
Y2 = (Y3 == 1).astype(int)
YR = X @ [1.0, 2.0, -1.0, 0.0, 0.5] + 0.1 * rng.standard_normal(48)
SPARSE = np.where(rng.random(X.shape) < 0.15, X, 0.0)
SPARSE[:, 0] = 0.0  # a feature nobody has
KINDS = {"binary": (mm.SVMClassifier, Y2), "multiclass": (mm.SVMClassifier, Y3), "regression": (mm.SVMRegressor, YR)}
kinds = pytest.mark.parametrize("kind", KINDS)
# float32 once only: each combination of types is compiled for seconds
kinds_and_dtypes = pytest.mark.parametrize(("kind", "dtype"), [("binary", np.float32), *((kind, np.float64) for kind in KINDS)])


class Spy(mm.DualCoordinate):
    """Keeps the rows that the solver is given."""

    def begin(self, problem, start, setting):
        Spy.rows = problem.X
        return super().begin(problem, start, setting)


def fitted(kind, data, **parameters):
    cls, y = KINDS[kind]
    return cls(**{"C": 0.3, "tol": 1e-6, "random_state": 0, **parameters}).fit(data, y)


def assert_same_optimum(a, b, digits=0.0):
    """The two certificates allow one optimum (up to `digits`), and the weights are as near as the gaps prove."""
    first, second = a.certificate_, b.certificate_
    assert first.converged and second.converged
    assert max(first.dual, second.dual) <= min(first.primal, second.primal) * (1 + 1e-12 + digits)
    apart = np.sqrt(np.sum((a.coef_ - b.coef_) ** 2) + np.sum((a.intercept_ - b.intercept_) ** 2))
    assert apart <= np.sqrt(2 * first.gap) + np.sqrt(2 * second.gap) + 10 * np.sqrt(digits) + 1e-9


def arrays(data):
    return [data.data, data.indices, data.indptr] if sp.issparse(data) else [data]


def held_still(data, held):
    """Whether a matrix has the memory that it had before."""
    return all(np.shares_memory(a, b) and a.shape == b.shape and a.dtype == b.dtype for a, b in zip(arrays(data), held))


def frozen(data):
    """The same with read-only arrays."""
    for array in arrays(data):
        array.flags.writeable = False
    return data


# ---- no hidden copy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_views_of_dense_data(dtype):
    data = X.astype(dtype)
    table = rows(data, 1.0)
    assert isinstance(table, Dense) and np.shares_memory(table.values, data) and table.values.dtype == dtype
    assert table.bias == 1.0 and table.bias.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
def test_rows_are_views_of_csr_data(container, index, dtype):
    data = container(SPARSE.astype(dtype))
    data.indices, data.indptr = data.indices.astype(index), data.indptr.astype(index)
    table = rows(data, 1.0)
    assert isinstance(table, CSR) and table.columns == 5
    for view, array in zip((table.values, table.indices, table.indptr), arrays(data)):
        assert np.shares_memory(view, array) and view.dtype.itemsize == array.dtype.itemsize
    assert table.indices.dtype.kind == "u" and table.values.dtype == dtype


@kinds_and_dtypes
@pytest.mark.parametrize("form", [np.array, sp.csr_matrix])
def test_solver_reads_the_memory_of_the_user(kind, form, dtype):
    data = form(SPARSE.astype(dtype) if form is sp.csr_matrix else X.astype(dtype))
    held, before = arrays(data), [array.copy() for array in arrays(data)]
    fitted(kind, data, solver=Spy(), tol=1e-3)
    assert held_still(data, held)
    assert np.shares_memory(Spy.rows.values, held[0])
    if form is sp.csr_matrix:
        assert np.shares_memory(Spy.rows.indices, held[1]) and np.shares_memory(Spy.rows.indptr, held[2])
    for array, old in zip(held, before):
        np.testing.assert_array_equal(array, old)


def test_unsorted_indices_are_read_where_they_are():
    clean = sp.csr_matrix(SPARSE)
    order = np.concatenate([np.arange(b - 1, a - 1, -1) for a, b in zip(clean.indptr[:-1], clean.indptr[1:])])
    data = sp.csr_matrix((clean.data[order], clean.indices[order], clean.indptr), shape=clean.shape)
    held = arrays(data)
    model = fitted("binary", data, solver=Spy())
    assert held_still(data, held) and np.shares_memory(Spy.rows.values, data.data)
    assert_same_optimum(model, fitted("binary", clean))


def test_a_csr_matrix_with_room_to_spare_keeps_it():
    """SciPy may hold longer arrays than there are entries; validation must not cut the user's arrays."""
    data = sp.csr_matrix(SPARSE)
    data.data, data.indices = np.r_[data.data, 0.0, 0.0], np.r_[data.indices, 0, 0].astype(np.int32)
    held = arrays(data)
    model = fitted("binary", data)
    assert held_still(data, held)
    assert_same_optimum(model, fitted("binary", SPARSE))


@kinds
def test_targets_and_weights_are_not_changed(kind):
    cls, y = KINDS[kind]
    y, weight = y.copy(), np.linspace(0.5, 2.0, 48)
    kept = y.copy(), weight.copy()
    cls(C=0.3, random_state=0).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(y, kept[0])
    np.testing.assert_array_equal(weight, kept[1])


@kinds
@pytest.mark.parametrize("form", [np.array, sp.csr_matrix])
def test_read_only_data(kind, form):
    cls, y = KINDS[kind]
    y, weight = frozen(y.copy()), frozen(np.ones(48))
    data = frozen(form(SPARSE))
    model = cls(C=0.3, tol=1e-6, random_state=0).fit(data, y, sample_weight=weight)
    assert_same_optimum(model, fitted(kind, SPARSE))
    np.testing.assert_allclose(model.predict(data), model.predict(SPARSE))


@kinds_and_dtypes
def test_memory_mapped_data(kind, dtype, tmp_path):
    np.save(tmp_path / "X.npy", X.astype(dtype))
    data = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = fitted(kind, data, solver=Spy(), tol=1e-4)
    assert np.shares_memory(Spy.rows.values, data) and isinstance(data, np.memmap)
    assert_same_optimum(model, fitted(kind, X.astype(dtype), tol=1e-4))
    assert model.predict(data).shape == (48,)


@pytest.mark.parametrize("form", [np.array, sp.csr_matrix])
def test_explicit_problem_holds_the_users_memory(form):
    data = form(SPARSE * (2 * Y2 - 1)[:, None])
    problem = mm.ExplicitProblem(data, np.ones(48))
    assert np.shares_memory(arrays(problem.X)[0], arrays(data)[0])
    before = [array.copy() for array in arrays(data)]
    mm.solve(problem)
    for array, old in zip(arrays(data), before):
        np.testing.assert_array_equal(array, old)


# ---- the form of X does not change the answer ------------------------------------------------------------------


@kinds
def test_order_and_integers(kind):
    whole = np.round(3 * X)
    reference = fitted(kind, whole, tol=1e-2)
    for data in (np.asfortranarray(whole), whole.astype(np.int64), whole.astype(np.int8), np.repeat(whole, 2, axis=0)[::2]):
        same = fitted(kind, data, tol=1e-2)
        assert same.certificate_ == reference.certificate_
        np.testing.assert_array_equal(same.coef_, reference.coef_)


def test_order_is_restored_by_one_copy_and_dtype_kept():
    for dtype in (np.float32, np.float64):
        data = np.asfortranarray(X.astype(dtype))
        fitted("binary", data, solver=Spy(), tol=1e-3)
        assert Spy.rows.values.flags.c_contiguous and Spy.rows.values.dtype == dtype
        assert not np.shares_memory(Spy.rows.values, data) and data.flags.f_contiguous


@kinds
@pytest.mark.parametrize("form", [np.array, sp.csr_matrix])
def test_float32(kind, form):
    data = SPARSE if form is sp.csr_matrix else X
    small = form(data.astype(np.float32))
    for tol in (1e-3, 1e-6):  # iterated in float32, and beyond what float32 can reach
        model = fitted(kind, small, tol=tol)
        reference = fitted(kind, form(data))
        assert model.certificate_.converged and model.certificate_.relative_gap <= tol
        assert model.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=1e-3)
        assert model.coef_.dtype == np.float64
    scores = model.predict(small) if kind == "regression" else model.decision_function(small)
    expected = reference.predict(data) if kind == "regression" else reference.decision_function(data)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, atol=1e-2)


@kinds
def test_certificate_of_a_float32_run_is_that_of_float64(kind):
    """The primal value stated is that of the weights returned, in double precision."""
    y, data = KINDS[kind][1], X.astype(np.float32)
    model = fitted(kind, data, tol=1e-3)
    scores = data.astype(np.float64) @ np.atleast_2d(model.coef_).T + model.intercept_
    if kind == "regression":
        losses = np.maximum(np.abs(scores[:, 0] - y) - model.epsilon, 0.0)
    elif kind == "binary":
        losses = np.maximum(1.0 - (2 * y - 1) * scores[:, 0], 0.0)
    else:
        losses = (scores + 1.0 - np.eye(3)[y]).max(axis=1) - scores[np.arange(48), y]
    primal = 0.5 * (np.sum(model.coef_**2) + np.sum(model.intercept_**2)) + model.C * losses.sum()
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-12)


@kinds
@pytest.mark.parametrize("dtype", [np.float32, np.float64, "f8"])
def test_dtype_parameter(kind, dtype):
    for data in (X, X.astype(np.float32), np.round(X).astype(int), sp.csr_matrix(SPARSE)):
        model = fitted(kind, data, dtype=dtype, solver=Spy(), tol=1e-3)
        assert Spy.rows.values.dtype == np.dtype(dtype)
        assert model.certificate_.primal == pytest.approx(fitted(kind, data, tol=1e-3).certificate_.primal, rel=2e-3)


@kinds
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames(kind, frame):
    names = [f"feature {j}" for j in range(5)]
    data = frame({name: X[:, j] for j, name in enumerate(names)})
    model = fitted(kind, data)
    reference = fitted(kind, X)
    assert model.feature_names_in_.tolist() == names and model.n_features_in_ == 5
    assert not hasattr(reference, "feature_names_in_")
    assert model.certificate_ == reference.certificate_
    np.testing.assert_array_equal(model.coef_, reference.coef_)
    np.testing.assert_allclose(model.predict(data), reference.predict(X), rtol=1e-12)  # columns in another order of memory


@pytest.mark.parametrize("series", [pd.Series, pl.Series])
def test_series_as_targets_and_weights(series):
    weight = np.linspace(0.5, 2.0, 48)
    for kind, (cls, y) in KINDS.items():
        model = cls(C=0.3, random_state=0).fit(X, series(y), sample_weight=series(weight))
        assert model.certificate_ == cls(C=0.3, random_state=0).fit(X, y, sample_weight=weight).certificate_, kind


@kinds
def test_sparse_containers_and_formats(kind):
    reference = fitted(kind, sp.csr_matrix(SPARSE))
    wide = sp.csr_array(SPARSE)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    for data in (sp.csr_array(SPARSE), wide, sp.csc_matrix(SPARSE), sp.coo_array(SPARSE), sp.lil_matrix(SPARSE)):
        model = fitted(kind, data)
        assert model.certificate_ == reference.certificate_
        np.testing.assert_array_equal(model.coef_, reference.coef_)
        np.testing.assert_allclose(model.predict(data), reference.predict(SPARSE))


@kinds_and_dtypes
def test_dense_data_that_are_mostly_zeros(kind, dtype):
    """They are read by an index of their non-zeros, and stay where they are."""
    data = SPARSE.astype(dtype)
    tol = 1e-6 if dtype is np.float64 else 1e-3
    model = fitted(kind, data, solver=Spy(), tol=tol)
    assert isinstance(Spy.rows, Indexed) and np.shares_memory(Spy.rows.values, data)
    assert Spy.rows.columns.size == np.count_nonzero(data)
    assert_same_optimum(model, fitted(kind, sp.csr_matrix(data), tol=tol))
    fitted(kind, X.astype(dtype), solver=Spy(), tol=1e-3)
    assert isinstance(Spy.rows, Dense)


def test_index_of_non_zeros():
    table = rows(SPARSE, 2.0, sparse_below=1.0)
    assert isinstance(table, Indexed) and table.columns.dtype == np.uint16
    for i, row in enumerate(SPARSE):
        start, stop = int(table.indptr[i]), int(table.indptr[i + 1])
        np.testing.assert_array_equal(table.columns[start:stop], np.flatnonzero(row))
    wide = np.zeros((2, 65_537))
    wide[1, 65_536] = 1.0
    assert rows(wide, 0.0, sparse_below=1.0).columns.tolist() == [65_536]
    assert rows(wide[:, 1:].copy(), 0.0, sparse_below=1.0).columns.tolist() == [65_535]


def test_memory_taken_by_predictions():
    """Scores of float32 data are float32, those of float64 data float64: nothing is widened behind the user's back."""
    model = fitted("multiclass", X)
    assert model.decision_function(X.astype(np.float32)).dtype == np.float32
    assert model.decision_function(X).dtype == np.float64
    assert model.decision_function(np.round(X).astype(int)).dtype == np.float64


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_peak_memory(dtype):
    """A fit takes much less than a copy of X. VmHWM is what ru_maxrss should be: the latter starts from the parent's peak."""
    program = """
        import re, resource, sys, warnings
        from pathlib import Path
        import numpy as np
        import maxmargin as mm

        def peak():
            status = Path("/proc/self/status")
            if status.exists():
                return 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1])
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

        warnings.simplefilter("ignore")
        rng = np.random.default_rng(0)
        X = rng.standard_normal((250_000, 100), dtype=sys.argv[1])
        y = (X[:, 0] > 0).astype(int)
        model = mm.SVMClassifier(max_iter=2, tol=1e-4, random_state=0)
        model.fit(X[:1000], y[:1000])
        model.decision_function(X[:1000])
        before = peak()
        model.fit(X, y)
        fit = peak()
        model.decision_function(X)
        print((fit - before) / X.nbytes, (peak() - fit) / X.nbytes, before / X.nbytes)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), dtype]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    fit, predict, before = map(float, out.split())
    assert before > 1.0 and fit < 0.4 and predict < 0.4
