"""On real data the optimum is LinearSVC's: the objectives are computed here, in NumPy and SciPy, from the weights of both.

The data are the small sets that scikit-learn brings along.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.preprocessing import OneHotEncoder, StandardScaler, normalize
from sklearn.svm import LinearSVC, LinearSVR

import maxmargin as mm

pytestmark = pytest.mark.compiled
TOL = 1e-4
MANY = {"max_iter": 100_000, "random_state": 0}


def objective(model, X, y: np.ndarray) -> float:
    """1/2 ||w||^2 + C sum_i loss_i at a model's weights, intercepts included, in float64; y = 0..K-1, or targets."""
    W, b, X = np.atleast_2d(model.coef_).astype(np.float64), np.asarray(model.intercept_, np.float64), X.astype(np.float64)
    scores, every = X @ W.T + b, np.arange(len(y))
    if hasattr(model, "epsilon"):
        loss = np.maximum(np.abs(y - scores[:, 0]) - model.epsilon, 0.0) ** (2 if model.loss.startswith("squared") else 1)
    elif len(W) == 1:
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
def test_binary_features(loss, C):
    """Tumours: each measurement as five columns of zeros and ones, in CSR."""
    X, y = load_breast_cancer(return_X_y=True)
    fifth = np.column_stack([np.searchsorted(np.quantile(column, [0.2, 0.4, 0.6, 0.8]), column) for column in X.T])
    X = OneHotEncoder().fit_transform(fifth)
    assert sp.issparse(X) and X.shape == (569, 150) and set(X.data) == {1.0}
    model = mm.SVMClassifier(C=C, loss=loss, tol=TOL, random_state=0)
    same_optimum(model, LinearSVC(C=C, loss=loss, dual=loss == "hinge", tol=1e-5, **MANY), X, y)


@pytest.mark.parametrize("C", [0.1, 1.0])
def test_unit_rows(C):
    """Digits as CSR rows of unit length, in float32."""
    X, y = load_digits(return_X_y=True)
    X = normalize(sp.csr_matrix(X, dtype=np.float32))
    model = mm.SVMClassifier(C=C, tol=TOL, random_state=0)
    same_optimum(model, LinearSVC(C=C, multi_class="crammer_singer", tol=1e-4, **MANY), X, y)


@pytest.mark.parametrize("C", [0.01, 0.1])
def test_digits(C):
    """Dense rows, half of them zeros."""
    X, y = load_digits(return_X_y=True)
    model = mm.SVMClassifier(C=C, tol=TOL, random_state=0)
    same_optimum(model, LinearSVC(C=C, multi_class="crammer_singer", tol=1e-4, **MANY), X / 16.0, y)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_diabetes(loss):
    X, y = load_diabetes(return_X_y=True)
    X, y = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
    model = mm.SVMRegressor(C=0.1, epsilon=0.1, loss=loss, tol=TOL, random_state=0)
    same_optimum(model, LinearSVR(C=0.1, epsilon=0.1, loss=loss, tol=1e-5, **MANY), X, y)


def digits_and_what_they_are():
    X, y = load_digits(return_X_y=True)
    return X / 16.0, np.column_stack([y == k for k in range(10)] + [y % 2 == 0, y >= 5, np.isin(y, (0, 6, 8, 9))])


def wines_and_what_they_are():
    """From nine measurements: the three kinds, and whether each of the other four is above the usual."""
    X, y = load_wine(return_X_y=True)
    high = X[:, 9:] > np.median(X[:, 9:], axis=0)
    return StandardScaler().fit_transform(X[:, :9]), np.column_stack([y == k for k in range(3)] + [*high.T])


@pytest.mark.parametrize("labelled", [digits_and_what_they_are, wines_and_what_they_are])
def test_labels_without_a_prior_are_those_of_one_vs_rest(labelled):
    """Every label is a LinearSVC at the same C."""
    (X, Y), C = labelled(), 0.1
    Y = Y.astype(np.int64)
    model = mm.MultilabelSVMClassifier(C, loss="hinge", tol=TOL, random_state=0).fit(X, Y)
    theirs = 0.0
    for label in Y.T:
        theirs += objective(LinearSVC(C=C, loss="hinge", tol=1e-4, **MANY).fit(X, label), X, label)
    S = 2.0 * Y - 1.0
    ours = 0.5 * np.sum(model.coef_**2) + 0.5 * np.sum(model.intercept_**2)
    ours += C * np.maximum(1.0 - S * (X @ model.coef_.T + model.intercept_), 0.0).sum()
    certificate = model.certificate_
    assert certificate.converged and ours == pytest.approx(certificate.primal, rel=1e-9)
    assert certificate.dual <= theirs
    assert ours == pytest.approx(theirs, rel=2 * TOL)
