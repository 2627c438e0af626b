"""Five plug-ins of one file each, through the public estimators, each with a certificate: the seams hold."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from plugins.chunks import Chunks
from plugins.dual_averaging import DualAveraging
from plugins.each_against_the_rest import EachAgainstTheRest
from plugins.matching import Matching
from plugins.smoothed_hinge import SmoothedHinge
from sklearn.base import clone
from sklearn.svm import LinearSVC

import maxmargin as mm

rng = np.random.default_rng(0)
X = rng.normal(size=(90, 4)) + 0.3
SCORES = X @ rng.normal(size=(4, 3)) + 0.5 * rng.normal(size=(90, 3))
TWO, THREE = (SCORES[:, 0] > 0).astype(int), SCORES.argmax(axis=1)
HERE = Path(__file__).parent
STRAIGHT = {"kernel": "poly", "degree": 1, "gamma": 1.0}  # the linear kernel, by the solvers of kernels


def smoothed(model, width):
    """The objective of the smoothed hinge, in NumPy."""
    t = np.maximum(1.0 - np.where(TWO, 1.0, -1.0) * model.decision_function(X), 0.0)
    losses = np.where(t < width, t * t / (2.0 * width), t - 0.5 * width)
    return 0.5 * np.sum(model.coef_**2) + 0.5 * np.sum(model.intercept_**2) + model.C * losses.sum()


@pytest.mark.compiled
def test_a_loss_of_one_score():
    found = {}
    for solver in ("dual_coordinate", "bundle", "online"):
        model = mm.SVMClassifier(C=0.7, loss=SmoothedHinge(0.8), solver=solver, tol=1e-6, random_state=0).fit(X, TWO)
        assert model.certificate_.converged and model.certificate_.primal == pytest.approx(smoothed(model, 0.8), rel=1e-12)
        found[solver] = model.certificate_.primal
    assert max(found.values()) <= min(found.values()) * (1 + 2e-6)
    sharp = mm.SVMClassifier(C=0.7, loss=SmoothedHinge(1e-6), tol=1e-6, random_state=0).fit(X, TWO)
    plain = mm.SVMClassifier(C=0.7, tol=1e-6, random_state=0).fit(X, TWO)
    assert sharp.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-5)
    kernel = clone(plain).set_params(loss=SmoothedHinge(0.8), max_iter=100_000, **STRAIGHT).fit(X, TWO)
    assert kernel.certificate_.primal == pytest.approx(found["dual_coordinate"], rel=2e-6)
    path = model.set_params(solver="auto").regularization_path(X, TWO, [0.1, 0.7])
    assert path[1].certificate_.primal == pytest.approx(found["dual_coordinate"], rel=2e-6)
    assert clone(model).loss.width == 0.8 and "SmoothedHinge" in repr(model)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


@pytest.mark.compiled
def test_a_multiclass_loss():
    model = mm.SVMClassifier(C=0.5, loss=EachAgainstTheRest(), tol=1e-7, random_state=0, max_iter=100_000).fit(X, THREE)
    assert model.certificate_.converged and model.coef_.shape == (3, 4)
    peer = LinearSVC(C=0.5, loss="squared_hinge", multi_class="ovr", dual=False, tol=1e-10, max_iter=100_000).fit(X, THREE)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=2e-3)
    planes = clone(model).set_params(solver="bundle", tol=1e-5).fit(X, THREE)
    assert planes.certificate_.primal == pytest.approx(model.certificate_.primal, rel=2e-5)
    kernel = clone(model).set_params(tol=1e-6, **STRAIGHT).fit(X, THREE)
    assert kernel.certificate_.primal == pytest.approx(model.certificate_.primal, rel=2e-6)
    two = mm.SVMClassifier(C=0.5, loss=EachAgainstTheRest(), random_state=0).fit(X, TWO)
    assert two.decision_function(X).shape == (90,) and two.score(X, TWO) > 0.9


def test_a_structure_in_python():
    sizes = rng.integers(2, 5, 25)
    pairs = [rng.normal(size=(n, n, 3)) for n in sizes]
    truth = [Matching().decode(np.array([1.0, -0.5, 2.0]), x) for x in pairs]
    found = {}
    for solver in ("dual_coordinate", "frank_wolfe", "bundle"):
        model = mm.StructuredSVM(Matching(), C=1.0, solver=solver, tol=1e-3, random_state=0).fit(pairs, truth)
        assert model.certificate_.converged
        found[solver] = model.certificate_
    assert max(c.dual for c in found.values()) <= min(c.primal for c in found.values()) * (1 + 1e-9)
    assert np.mean([np.array_equal(a, b) for a, b in zip(model.predict(pairs), truth)]) > 0.9


def test_a_solver():
    for y in (TWO, THREE):
        model = mm.SVMClassifier(C=0.1, solver=DualAveraging(), tol=1e-2, random_state=0).fit(X, y)
        plain = mm.SVMClassifier(C=0.1, tol=1e-4, random_state=0).fit(X, y)
        assert model.certificate_.converged and "Reached" in model.certificate_.message
        assert plain.certificate_.dual <= model.certificate_.primal <= plain.certificate_.primal * 1.011
        assert model.certificate_.dual <= plain.certificate_.primal
    with pytest.raises(TypeError, match="neither priors nor signs"):
        mm.SVMClassifier(solver=DualAveraging(), positive=True).fit(X, TWO)
    chain = mm.StructuredSVM(mm.structures.Chain(), C=0.01, solver=DualAveraging(), tol=1e-2)
    y = [np.array([0, 1, 1]), np.array([1, 0, 0])] * 5
    assert chain.fit([np.eye(2)[labels] for labels in y], y).certificate_.converged


@pytest.mark.compiled
def test_a_table():
    chunks = Chunks(X.reshape(3, 30, 4))
    for model, y in ((mm.SVMClassifier, TWO), (mm.SVMClassifier, THREE), (mm.SVMRegressor, SCORES[:, 0])):
        whole = model(C=0.5, tol=1e-12, random_state=0).fit(X, y)
        parts = model(C=0.5, tol=1e-12, random_state=0).fit(chunks, y)
        assert parts.certificate_.converged
        assert parts.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=1e-12)
        np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-9, atol=1e-9)
        if model is mm.SVMRegressor:
            np.testing.assert_allclose(parts.predict(chunks), whole.predict(X), rtol=1e-9)
        else:  # at the optimum two classes may have one score: those are compared, and the class is that of its own scores
            scores = parts.decision_function(chunks)
            np.testing.assert_allclose(scores, whole.decision_function(X), rtol=1e-9, atol=1e-9)
            highest = scores.argmax(axis=1) if scores.ndim > 1 else (scores > 0).astype(int)
            np.testing.assert_array_equal(parts.predict(chunks), parts.classes_[highest])
    with pytest.raises(ValueError, match="X has 3 features, but SVMRegressor is expecting 4"):
        parts.predict(Chunks(X[:, :3].reshape(3, 30, 3)))
    with pytest.raises(ValueError, match="X has 90 samples, y has 89"):
        parts.fit(chunks, SCORES[1:, 0])


@pytest.mark.parametrize("name", ["smoothed_hinge", "each_against_the_rest", "matching", "dual_averaging", "chunks"])
def test_the_docs_show_them_as_they_are(name):
    text = (HERE.parent.parent / "docs" / "extending.md").read_text()
    assert (HERE / "plugins" / f"{name}.py").read_text().strip() in text
