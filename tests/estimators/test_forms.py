"""The same numbers in another form are the same samples: to `fit` and to every prediction."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import maxmargin as mm
from maxmargin.structures import Chain, Multiclass

pytestmark = pytest.mark.filterwarnings("ignore:X has feature names")  # of polars, whose columns always have names


def twice(X):
    """A CSR matrix that holds every entry twice, once too large, with the columns of a row in a random order."""
    rng = np.random.default_rng(0)
    row, column = np.nonzero(X)
    row, column, value = np.r_[row, row], np.r_[column, column], np.r_[3.0 * X[row, column], -2.0 * X[row, column]]
    order = np.lexsort([rng.random(row.size), row])
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(X)))])
    return sp.csr_matrix((value[order], column[order], starts), X.shape)


def wide(X):
    """CSR with indices of 64 bits."""
    found = sp.csr_array(X)
    found.indices, found.indptr = found.indices.astype(np.int64), found.indptr.astype(np.int64)
    return found


def unsorted(X):
    found = sp.csr_matrix(X)
    for i in range(len(X)):
        row = slice(found.indptr[i], found.indptr[i + 1])
        found.indices[row], found.data[row] = found.indices[row][::-1].copy(), found.data[row][::-1].copy()
    found.has_sorted_indices = False
    return found


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


FORMS = {
    "f_order": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "read_only": read_only,
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.astype(np.float16),
    "int64": lambda X: X.astype(np.int64),
    "uint8": lambda X: X.astype(np.uint8),
    "bool": lambda X: X.astype(bool),
    "objects": lambda X: X.astype(object),
    "lists": lambda X: X.tolist(),
    "pandas": pd.DataFrame,
    "polars": lambda X: pl.DataFrame(X, schema=[f"f{j}" for j in range(X.shape[1])]),
    "csr": sp.csr_matrix,
    "csr_twice": twice,
    "csr_unsorted": unsorted,
    "csr_wide": wide,
    "csr_int": lambda X: sp.csr_array(X.astype(np.int64)),
    "csr_float32": lambda X: sp.csr_matrix(X.astype(np.float32)),
    "csr_float32_twice": lambda X: twice(X).astype(np.float32),
    "csc": sp.csc_array,
    "coo": sp.coo_matrix,
    "coo_twice": lambda X: twice(X).tocoo(),
}
DEAR = {"csr_wide", "csr_float32", "csr_float32_twice"}  # decoders compile anew for them; test_structures.py has some of these
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}  # scores of float32 data are float32


def numbers(n=24, d=6, seed=0):
    """Zeros and ones, which every form can hold."""
    return (np.random.default_rng(seed).random((n, d)) < 0.7).astype(float)


X = numbers()
LABEL = X @ np.array([2.0, -1.0, 1.0, 0.0, -2.0, 1.0])
TWO, THREE = (LABEL > 1).astype(int), np.digitize(LABEL, [0.5, 2.5])
MANY = np.stack([X[:, 0] > X[:, 1], X[:, 2] == X[:, 3], X[:, 4] > 0], axis=1).astype(int)
KERNEL = X @ X.T
SETTING = {"tol": 1e-2, "random_state": 0}
SENTENCES = [numbers(5, 6, seed) for seed in range(4)]
BAGS = [np.unpackbits(np.uint8([[k] for k in bag]), axis=1)[:, 2:].astype(float) for bag in np.arange(20).reshape(4, 5)]
TAGS = [np.cumsum(x[:, 0]).astype(int) % 3 for x in SENTENCES]


def several(form):
    """The form of each sample of a list of them."""
    return lambda samples: [form(x) for x in samples]


def decisions(model, given):
    return model.decision_function(given)


def predictions(model, given):
    return np.concatenate([np.atleast_1d(output) for output in model.predict(given)])


def guesses(model, given):
    return np.column_stack([model.decision_function(given), model.predict_topk(given, 2)])


def hidden(model, given):
    return np.column_stack([model.decision_function(given), model.predict_latent(given)])


def kernel(**parameters):
    return mm.MultilabelSVMClassifier(kernel="rbf", gamma=0.5, **SETTING, **parameters)


CASES = {
    "binary": (mm.SVMClassifier(**SETTING), X, TWO, decisions),
    "multiclass": (mm.SVMClassifier(**SETTING), X, THREE, decisions),
    "regression": (mm.SVMRegressor(**SETTING), X, LABEL, predictions),
    "topk": (mm.TopKSVMClassifier(k=2, **SETTING), X, THREE, guesses),
    "multilabel": (mm.MultilabelSVMClassifier(**SETTING), X, MANY, decisions),
    "rbf": (kernel(), X, MANY, decisions),
    "two classes, rbf": (mm.SVMClassifier(kernel="rbf", gamma=0.5, **SETTING), X, TWO, decisions),
    "regression, rbf": (mm.SVMRegressor(kernel="rbf", gamma=0.5, **SETTING), X, LABEL, predictions),
    "precomputed": (mm.MultilabelSVMClassifier(kernel="precomputed", **SETTING), KERNEL, MANY, decisions),
    "zero_shot": (mm.ZeroShotClassifier(kernel(), [[0, 1, 1], [1, 0, 1]]), X, MANY, decisions),
    "multiclass_structure": (mm.StructuredSVM(Multiclass(), **SETTING), X, THREE, predictions),
    "chain": (mm.StructuredSVM(Chain(), **SETTING), SENTENCES, TAGS, predictions),
    "bags": (mm.LatentSVMClassifier(**SETTING), BAGS, [0, 1, 0, 1], hidden),
}


@pytest.mark.parametrize("case", CASES)
def test_predictions_read_every_form_of_the_same_numbers(case, tmp_path):
    model, given, y, answer = CASES[case]
    expected = answer(model.fit(given, y), given)
    for name, form in FORMS.items():
        if (case == "precomputed" and name == "bool") or (isinstance(model, mm.StructuredSVM) and name in DEAR):
            continue  # a bool cannot hold numbers of a kernel
        make = several(form) if isinstance(given, list) else form
        np.testing.assert_allclose(answer(model, make(given)), expected, err_msg=name, **TOLERANCE)
    if isinstance(given, np.ndarray):
        np.save(tmp_path / "x.npy", given)
        np.testing.assert_allclose(answer(model, np.load(tmp_path / "x.npy", mmap_mode="r")), expected, **TOLERANCE)


@pytest.mark.parametrize("form", FORMS)
def test_fit_reads_every_form_of_the_same_numbers(form):
    expected = mm.SVMClassifier(tol=1e-8, random_state=0, dtype=np.float64).fit(X, TWO)
    found = mm.SVMClassifier(tol=1e-8, random_state=0, dtype=np.float64).fit(FORMS[form](X), TWO)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-4)
    assert found.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=1e-7)


def test_kernel_models_fit_and_predict_entries_that_come_twice():
    dense, sparse = kernel().fit(X, MANY), kernel().fit(twice(X), MANY)
    for given in (X, twice(X)):
        np.testing.assert_allclose(sparse.decision_function(given), dense.decision_function(X), atol=1e-10)
    seen = []

    def product(A, B):
        seen.append(A.nnz)
        return (A @ B.T).toarray()

    called = mm.MultilabelSVMClassifier(kernel=product, **SETTING).fit(twice(X), MANY)
    seen.clear()
    called.decision_function(twice(X))
    assert seen == [np.count_nonzero(X)]  # a user's function gets no entry twice


@pytest.mark.parametrize("case", ["binary", "rbf", "multiclass_structure"])
def test_predictions_refuse_what_fit_refuses(case):
    model, given, y, answer = CASES[case]
    model.fit(given, y)
    bad = sp.csr_matrix(X)
    bad.indices[3] = X.shape[1]
    for call in (lambda: answer(model, bad), lambda: model.fit(bad, y)):
        with pytest.raises(ValueError, match="not a valid CSR matrix"):
            call()


def test_sparse_predictions_know_the_names_of_columns():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = mm.MultilabelSVMClassifier(**SETTING).fit(frame, sp.csr_array(MANY))
    np.testing.assert_array_equal(model.predict(frame).toarray(), model.decision_function(frame) > 0)
