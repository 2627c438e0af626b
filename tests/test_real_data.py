"""On real data the optimum is LinearSVC's: the objectives are computed here, in NumPy and SciPy, from the weights of both."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

import maxmargin as mm

pytestmark = pytest.mark.compiled
TOL = 1e-4


def objective(model, X, y: np.ndarray) -> float:
    """1/2 ||w||^2 + C sum_i loss_i at a model's weights, intercepts included, in float64; y = 0..K-1."""
    W, b, X = np.atleast_2d(model.coef_).astype(np.float64), np.asarray(model.intercept_, np.float64), X.astype(np.float64)
    scores, every = X @ W.T + b, np.arange(len(y))
    if len(W) == 1:
        loss = np.maximum(1.0 - (2 * y - 1) * scores[:, 0], 0.0) ** (2 if model.loss == "squared_hinge" else 1)
    else:
        margins = 1.0 + scores - scores[every, y][:, None]
        margins[every, y] = 0.0
        loss = margins.max(axis=1)
    return float(0.5 * np.sum(W**2) + 0.5 * np.sum(b**2) + model.C * loss.sum())


def same_optimum(model, other, X, y: np.ndarray) -> None:
    """Both objectives lie between the certified bounds, up to what tol leaves open."""
    model.fit(X, y)
    certificate, ours, theirs = model.certificate_, objective(model, X, y), objective(other.fit(X, y), X, y)
    assert certificate.converged and certificate.relative_gap <= TOL
    assert ours == pytest.approx(certificate.primal, rel=1e-9)
    assert certificate.dual <= theirs  # a lower bound on every model's objective
    assert ours == pytest.approx(theirs, rel=TOL)


@pytest.mark.parametrize("C", [0.1, 1.0])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a9a(data_dir, loss, C):
    folder = data_dir("a9a")
    X = sp.load_npz(folder / "X_train.npz").astype(np.float64)
    y = (np.load(folder / "y.npz")["y_train"] > 0).astype(np.int64)
    model = mm.SVMClassifier(C=C, loss=loss, tol=TOL, random_state=0)
    same_optimum(model, LinearSVC(C=C, loss=loss, dual=loss == "hinge", tol=1e-4, max_iter=20_000, random_state=0), X, y)


@pytest.mark.parametrize("C", [0.1, 1.0])
def test_news20(data_dir, C):
    """Rows of unit length in float32."""
    folder = data_dir("news20")
    X = normalize(sp.load_npz(folder / "X_train.npz")[:3000].astype(np.float32))
    y = np.load(folder / "y.npz")["y_train"][:3000].astype(np.int64)
    model = mm.SVMClassifier(C=C, tol=TOL, random_state=0)
    same_optimum(model, LinearSVC(C=C, multi_class="crammer_singer", tol=1e-4, max_iter=20_000, random_state=0), X, y)


@pytest.mark.parametrize("C", [0.01, 0.1])
def test_mnist(data_dir, C):
    """Dense digits that are mostly zeros."""
    digits = np.load(data_dir("mnist") / "mnist.npz")
    X, y = digits["X_train"][:3000].reshape(3000, -1) / 255.0, digits["y_train"][:3000].astype(np.int64)
    model = mm.SVMClassifier(C=C, tol=TOL, random_state=0)
    same_optimum(model, LinearSVC(C=C, multi_class="crammer_singer", tol=1e-4, max_iter=20_000, random_state=0), X, y)


@pytest.mark.parametrize("name", ["yeast", "scene"])
def test_labels_without_a_prior_are_those_of_one_vs_rest(data_dir, name):
    """Every label is a LinearSVC at the same C."""
    data = np.load(data_dir(name) / f"{name}.npz")
    X, Y, C = data["X_train"].astype(np.float64), data["Y_train"].astype(np.int64), 0.1
    model = mm.MultilabelSVMClassifier(C, tol=TOL, random_state=0).fit(X, Y)
    theirs = 0.0
    for label in Y.T:
        other = LinearSVC(C=C, loss="hinge", tol=1e-4, max_iter=20_000, random_state=0).fit(X, label)
        theirs += objective(other, X, label)
    S = 2.0 * Y - 1.0
    ours = 0.5 * np.sum(model.coef_**2) + 0.5 * np.sum(model.intercept_**2)
    ours += C * np.maximum(1.0 - S * (X @ model.coef_.T + model.intercept_), 0.0).sum()
    certificate = model.certificate_
    assert certificate.converged and ours == pytest.approx(certificate.primal, rel=1e-9)
    assert certificate.dual <= theirs
    assert ours == pytest.approx(theirs, rel=2 * TOL)
