"""Places where a small slip of the code would leave every other test content."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin.data.indicators import checked_labels
from maxmargin.data.sources.memory import Arrays
from maxmargin.problems.linear import CHUNK, piecewise
from maxmargin.solvers.tuning import PREDICTION


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


def test_guesses_at_equal_scores_begin_with_the_first_class():
    X, y = np.eye(3), np.array(["a", "b", "c"])
    model = mm.TopKSVMClassifier(k=2, fit_intercept=False, random_state=0).fit(X, y)
    assert model.predict_topk([[0.0, 0.0, 0.0]], k=3).tolist() == [["a", "b", "c"]] and model.predict(np.zeros((1, 3))) == ["a"]


class Backwards(Arrays):
    """The last block comes first."""

    def blocks(self, seed=None, **options):
        return iter(list(super().blocks(seed, **options))[::-1])


def test_answers_about_a_source_are_in_the_order_of_its_rows():
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(40, 3)), np.repeat([0, 1], 20), rng.uniform(0.0, 2.0, 40)
    X[:, 0] += y
    model = mm.SVMClassifier(random_state=0).fit(X, y)
    source = Backwards(X, y, weight, block=7)
    expected = model.predict(X)
    assert np.array_equal(model.predict(source), expected) and not np.array_equal(expected, expected[::-1])
    assert model.score(source) == pytest.approx(model.score(X, y, weight), rel=1e-12)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("n", [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 1])
def test_pieces_of_a_sum_cover_every_example_once(n, jobs):
    counted = np.zeros(n, int)

    def piece(start, stop):
        counted[start:stop] += 1
        return stop - start

    assert piecewise(piece, n, jobs) == n and np.all(counted == 1)


def test_a_kernel_model_answers_for_many_samples_as_for_few():
    """Scores are computed piece by piece."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(20, 2)), rng.normal(size=(2 * PREDICTION.kernel + 3, 2))
    model = mm.MultilabelSVMClassifier(kernel="rbf", gamma=1.0, random_state=0).fit(X, (X > 0).astype(int))
    parts = np.vstack([model.decision_function(Z[k : k + 500]) for k in range(0, len(Z), 500)])
    np.testing.assert_allclose(model.decision_function(Z), parts, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(model.predict(Z), parts > 0)


def test_masses_of_labels_are_sums_and_not_what_is_left_of_the_total():
    """A label that all heavy samples have: what the others weigh is far below the rounding of the total."""
    weight, have = np.array([1e12, 1e12 / 3.0, 1e-4, 1e-5]), np.array([[1, 0], [1, 1], [0, 1], [0, 1]])
    found = checked_labels(have).columns.masses(weight)
    assert np.allclose(found[0], [1.1e-4, weight[:2].sum()], rtol=1e-15)
    assert np.allclose(found[1], [1e12, weight[1:].sum()], rtol=1e-15)
    unknown = checked_labels(np.where(have == 1, np.nan, 0.0)).columns.masses(weight)
    assert np.allclose(unknown, [[1.1e-4, 0.0], [1e12, 0.0]], rtol=1e-15)
    assert np.array_equal(checked_labels(np.ones((3, 1))).columns.masses(np.array([0.1, 0.2, 0.3])), [[0.0, 0.1 + 0.2 + 0.3]])


def test_weights_and_margins_of_labels_are_taken_as_given():
    """They differ by 1e12 between samples with and without the label: neither may be rounded to the other's size."""
    given = {"label_weight": np.array([[3e6, 0.7]]), "cost": np.array([[1e6, 0.3]])}
    model = mm.MultilabelSVMClassifier(loss="hinge", fit_intercept=False, **given).fit([[0.5]], [[1]])
    w = model.coef_.item()
    assert model.certificate_.primal == pytest.approx(0.5 * w**2 + 0.7 * max(0.0, 0.3 - 0.5 * w), rel=1e-15)


@pytest.mark.parametrize("steps", ["plain", "pairwise", "away"])
def test_weights_are_those_of_the_duals_where_little_of_a_large_cap_is_used(steps):
    """The masses of a sample are known to a rounding of 1, and C is 1e9: rows of duals must not be summed in another way."""
    rng = np.random.default_rng(0)
    X, y = 1e3 * rng.normal(size=(20, 4)), rng.integers(0, 3, 20)
    solver = mm.FrankWolfe(steps=steps, sampling="uniform")
    model = mm.SVMClassifier(C=1e9, fit_intercept=False, solver=solver, keep_duals=True, max_iter=30, random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    size = np.abs(model.dual_coef_).T @ np.abs(X)
    assert np.all(np.abs(model.dual_coef_.T @ X - model.coef_) <= 1e-14 * size)


@pytest.mark.parametrize("cls", [mm.SVMRegressor, mm.MultilabelSVMClassifier])
def test_a_descent_of_one_sample_gets_away_from_zero(cls):
    X, y = np.array([[1.0, 2.0]]), np.array([3.0])
    model = cls(solver=mm.Bundle(init="sgd"), random_state=0).fit(X, y if cls is mm.SVMRegressor else [[1, 0]])
    at_zero = 2.9 if cls is mm.SVMRegressor else 2.0
    assert model.certificate_.converged and model.history_[0].primal < 0.9 * at_zero


@pytest.mark.parametrize("solver", ["exponentiated_gradient", "partial_linearization"])
def test_samples_without_features_are_settled_at_once(solver):
    model = mm.SVMClassifier(solver=solver, fit_intercept=False).fit(np.zeros((6, 2)), [0, 1, 2] * 2)
    assert model.certificate_.primal == model.certificate_.dual == 6.0 and model.n_iter_ <= 3


def test_a_dual_value_that_little_of_a_large_cap_makes_up_is_a_lower_bound():
    """Masses of 1e-12 beside one of 1: what many passes leave beyond their sum of one must not be counted as loss."""
    image = np.array([194880.03867523733, -282685.61853216612, -1.572950747756012, 2.8502491262712085e-05]).reshape(4, 1, 1)
    structure = mm.structures.Parts([], window=(1, 3), unit=2.0)
    model = mm.StructuredSVM(structure, C=6.545374059586762, random_state=50, max_iter=2000).fit([image], [[[1, 0]]])
    w = 2.0 / (image[3, 0, 0] - image[1, 0, 0])  # the loss of the last place is 2: it must win by that
    found = model.certificate_
    assert found.converged and found.dual <= 0.5 * w**2 * (1 + 1e-4) and found.primal == pytest.approx(0.5 * w**2, rel=1e-3)
