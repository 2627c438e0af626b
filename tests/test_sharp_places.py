"""Places where a small slip of the code would leave every other test content."""

import numpy as np
import pytest

import maxmargin as mm


@pytest.mark.parametrize("cls", [mm.SVMClassifier, mm.MultilabelSVMClassifier])
def test_a_score_of_zero_is_the_first_class(cls):
    """As in LinearSVC, whose classes are told apart by score > 0."""
    X, y = np.array([[1.0], [-1.0]]), np.array([0, 1])
    model = cls(fit_intercept=False, random_state=0).fit(X, y if cls is mm.SVMClassifier else y[:, None])
    assert model.decision_function([[0.0]]).ravel() == [0.0] and model.predict([[0.0]]).ravel() == [0]


@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_balanced_weights_are_those_of_the_masses_whatever_their_scale(scale):
    """With sample_weight / scale at C * scale the problem is the same; all classes weigh less than one sample here."""
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(30, 3)), np.repeat([0, 1, 2], [20, 7, 3]), rng.uniform(0.5, 1.0, 30)
    model = mm.SVMClassifier(C=0.1 / scale, class_weight="balanced", tol=1e-8, random_state=0).fit(X, y, scale * weight)
    mass = np.bincount(y, weight)
    by_hand = mm.SVMClassifier(C=0.1, tol=1e-8, random_state=0).fit(X, y, weight * (weight.sum() / (3 * mass))[y])
    assert model.certificate_.primal == pytest.approx(by_hand.certificate_.primal, rel=2e-8)
