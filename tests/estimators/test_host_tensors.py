"""Tensors in host memory: fitted as the arrays that share them, and answered with tensors."""

import numpy as np
import pytest
import torch
from sklearn.base import clone

import maxmargin as mm
from maxmargin.data.tensors import TensorTable, as_array, read_as_array

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 5)).astype(np.float32)
CLASSES = np.digitize(X[:, 0] + 0.3 * rng.normal(size=60), [-0.5, 0.5])
REAL = X[:, 0] + 0.3 * rng.normal(size=60)
LABELS = (X[:, :3] > 0.2).astype(np.int64)
WEIGHT = rng.uniform(0.5, 2.0, 60)
MODELS = {
    "two classes": (mm.SVMClassifier(), (CLASSES > 1).astype(int)),
    "classes": (mm.SVMClassifier(loss="hinge"), CLASSES),
    "names": (mm.SVMClassifier(loss="log_loss"), np.array(["a", "b", "c"])[CLASSES]),
    "probabilities": (mm.SVMClassifier(probability="temperature"), CLASSES),
    "scaled columns": (mm.SVMClassifier(standardize=True), CLASSES),
    "rbf": (mm.SVMClassifier(kernel="rbf"), CLASSES),
    "newton": (mm.SVMRegressor(solver="newton"), REAL),
    "top-2": (mm.TopKSVMClassifier(k=2), CLASSES),
    "labels": (mm.MultilabelSVMClassifier(), LABELS),
    "a search": (mm.SVMClassifierCV([0.1, 1.0], cv=2), CLASSES),
}


def beside(y):
    return torch.from_numpy(y) if y.dtype.kind in "if" else y


@pytest.mark.parametrize("name", MODELS)
def test_the_same_as_arrays(name):
    model, y = MODELS[name]
    known = clone(model).set_params(random_state=0).fit(X, y, sample_weight=WEIGHT)
    given = torch.from_numpy(X)
    found = clone(model).set_params(random_state=0).fit(given, beside(y), sample_weight=torch.from_numpy(WEIGHT))
    assert found.certificate_ == known.certificate_ and found.n_iter_ == known.n_iter_
    assert found.score(given, beside(y)) == known.score(X, y)
    for method in ("predict", "decision_function", "predict_proba", "predict_topk"):
        if hasattr(known, method):
            answer, same = getattr(found, method)(given), getattr(known, method)(X)
            assert isinstance(answer, torch.Tensor) == (same.dtype.kind in "biuf")
            np.testing.assert_array_equal(np.asarray(answer), same)


def test_nothing_is_copied_but_halves():
    given = torch.from_numpy(X)
    assert np.shares_memory(as_array(given), X)
    assert read_as_array(given, None) and not read_as_array(given, "cpu") and not read_as_array(X, None)
    model = mm.SVMRegressor(random_state=0).fit(given.bfloat16(), REAL)
    assert model.predict(given.bfloat16()).dtype == torch.bfloat16
    rounded = given.bfloat16().float().numpy()
    np.testing.assert_array_equal(model.coef_, mm.SVMRegressor(random_state=0).fit(rounded, REAL).coef_)


def test_pieces():
    model, known = (mm.SVMClassifier(random_state=0) for _ in range(2))
    for part in (slice(0, 30), slice(30, 60)):
        model.partial_fit(torch.from_numpy(X[part]), torch.from_numpy(CLASSES[part]), classes=[0, 1, 2])
        known.partial_fit(X[part], CLASSES[part], classes=[0, 1, 2])
    np.testing.assert_array_equal(model.coef_, known.coef_)


def test_a_device_that_is_asked_for_is_used(monkeypatch):
    tables = []
    init = TensorTable.__init__
    monkeypatch.setattr(TensorTable, "__init__", lambda self, *given: tables.append(given) or init(self, *given))
    mm.SVMClassifier(random_state=0).fit(torch.from_numpy(X), CLASSES)
    assert not tables
    mm.SVMClassifier(random_state=0, device="cpu").fit(torch.from_numpy(X), CLASSES)
    assert tables


def test_what_is_refused_as_on_a_device():
    for wrong, said in ((torch.from_numpy(X).requires_grad_(), "requires grad"), (torch.from_numpy(X).long(), "int64")):
        with pytest.raises(ValueError, match=said):
            mm.SVMClassifier().fit(wrong, CLASSES)
    with pytest.raises(ValueError, match="X has 4 features"):
        mm.SVMClassifier().fit(torch.from_numpy(X), CLASSES).predict(torch.from_numpy(X[:, :4]))
