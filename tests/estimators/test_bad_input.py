"""Bad input is refused in a clear sentence before any work; unusual input gets the right answer, certified."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import maxmargin as mm

rng = np.random.default_rng(0)
X2 = rng.standard_normal((24, 3))
Y2 = (X2 @ [1.0, -1.0, 0.5] + 0.3 * rng.standard_normal(24) > 0).astype(int)
Y3 = np.arange(24) % 3
YR = X2 @ [1.0, 2.0, -1.0] + 0.1 * rng.standard_normal(24)
X3 = X2 + 2.0 * np.eye(3)[Y3]
NAN, INF = float("nan"), float("inf")


class Idle(mm.DualCoordinate):
    """A solver that must not be reached."""

    def begin(self, problem, start, setting):
        raise AssertionError("work began on bad input")


def refuse(call, error, *words):
    """`call` raises `error`, and the first line of its message holds the words."""
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is not AssertionError
    sentence = str(caught.value).splitlines()[0]
    for word in words:
        assert word in sentence, f"{word!r} is not in {sentence!r}"


def refuse_fit(cls, parameters, X, y, error, *words, sample_weight=None):
    """`fit` refuses before the solver starts and leaves no fitted weights behind."""
    model = cls(**{"solver": Idle(), **parameters})
    refuse(lambda: model.fit(X, y, sample_weight=sample_weight), error, *words)
    assert not hasattr(model, "coef_") and not hasattr(model, "certificate_")


def put(array, index, value, dtype=None):
    """A copy with one entry replaced."""
    array = np.array(array, dtype=dtype)
    array[index] = value
    return array


# ---- data that are refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("cls", "y"), [(mm.SVMClassifier, Y2), (mm.SVMClassifier, Y3), (mm.SVMRegressor, YR)])
@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        (put(X2, (5, 1), NAN), ValueError, ["X", "NaN"]),
        (put(X2, (5, 1), INF), ValueError, ["X", "infinity"]),
        (put(X2, (0, 0), -INF, np.float32), ValueError, ["X", "infinity"]),
        (sp.csr_matrix(put(X2, (5, 1), NAN)), ValueError, ["X", "NaN"]),
        (sp.csr_array(put(X2, (5, 1), INF)), ValueError, ["X", "infinity"]),
        (np.empty((0, 3)), ValueError, ["0 sample(s)", "(0, 3)"]),
        (np.empty((24, 0)), ValueError, ["0 feature(s)", "(24, 0)"]),
        (X2[:, 0], ValueError, ["Expected 2D array", "got 1D array"]),
        (X2[:, :, None], ValueError, ["dim 3"]),
        (X2[:10], ValueError, ["inconsistent", "[10, 24]"]),
        (X2 + 1j, ValueError, ["Complex data not supported"]),
        (X2.astype(str).astype(object) + "m", ValueError, ["could not convert string to float"]),
        (np.full((24, 3), "one"), ValueError, ["could not convert string to float", "one"]),
        (put(X2, (0, 0), {}, object), TypeError, ["dict"]),
    ],
)
def test_refused_matrix(cls, y, X, error, words):
    refuse_fit(cls, {}, X, y[:0] if len(X.shape) == 2 and X.shape[0] == 0 else y, error, *words)


@pytest.mark.parametrize(
    ("cls", "y", "error", "words"),
    [
        (mm.SVMRegressor, put(YR, 3, NAN), ValueError, ["y", "NaN"]),
        (mm.SVMRegressor, put(YR, 3, INF), ValueError, ["y", "infinity"]),
        (mm.SVMRegressor, np.full(24, "one"), ValueError, ["could not convert string to float"]),
        (mm.SVMRegressor, YR[:20], ValueError, ["inconsistent", "[24, 20]"]),
        (mm.SVMRegressor, np.c_[YR, YR], ValueError, ["one number for each sample", "(24, 2)"]),
        (mm.SVMRegressor, None, ValueError, ["requires y", "None"]),
        (mm.SVMClassifier, put(Y2, 3, NAN, float), ValueError, ["y", "NaN"]),
        (mm.SVMClassifier, Y2[:20], ValueError, ["inconsistent", "[24, 20]"]),
        (mm.SVMClassifier, np.c_[Y2, Y2], ValueError, ["one class for each sample", "(24, 2)"]),
        (mm.SVMClassifier, YR, ValueError, ["continuous"]),
        (mm.SVMClassifier, None, ValueError, ["requires y", "None"]),
        (mm.SVMClassifier, np.full(24, 7), ValueError, ["at least 2 classes", "only one class", "7"]),
        (mm.SVMClassifier, np.full(24, "cat"), ValueError, ["at least 2 classes", "only one class", "cat"]),
    ],
)
def test_refused_y(cls, y, error, words):
    refuse_fit(cls, {}, X2, y, error, *words)


@pytest.mark.parametrize(("cls", "y"), [(mm.SVMClassifier, Y2), (mm.SVMClassifier, Y3), (mm.SVMRegressor, YR)])
@pytest.mark.parametrize(
    ("weight", "error", "words"),
    [
        (put(np.ones(24), 2, NAN), ValueError, ["sample_weight", "NaN"]),
        (put(np.ones(24), 2, INF), ValueError, ["sample_weight", "infinity"]),
        (put(np.ones(24), 2, -0.5), ValueError, ["egative", "sample_weight"]),
        (np.zeros(24), ValueError, ["ample", "weight", "zero"]),
        (np.ones(23), ValueError, ["sample_weight", "(23,)", "(24,)"]),
        (np.ones((24, 2)), ValueError, ["ample", "weight", "1D"]),
        (np.full(24, "heavy"), ValueError, ["could not convert string to float"]),
    ],
)
def test_refused_sample_weight(cls, y, weight, error, words):
    refuse_fit(cls, {}, X2, y, error, *words, sample_weight=weight)


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda X: X.indices.__setitem__(4, 3), ["CSR", "ind", "3"]),
        (lambda X: X.indices.__setitem__(4, 1_000_000), ["CSR", "ind", "3"]),
        (lambda X: X.indices.__setitem__(4, -1), ["CSR", "ind", "0"]),
        (lambda X: X.indptr.__setitem__(2, X.indptr[3] + 1), ["CSR", "ind"]),
        (lambda X: X.indptr.__setitem__(0, 1), ["CSR", "start with 0"]),
        (lambda X: X.indptr.__setitem__(-1, 1_000_000), ["CSR"]),
        (lambda X: setattr(X, "indptr", X.indptr[:-1]), ["CSR", "24", "25"]),
        (lambda X: setattr(X, "data", X.data[:-2]), ["CSR"]),
    ],
)
def test_malformed_csr(container, spoil, words):
    X = container(X2)
    spoil(X)
    refuse_fit(mm.SVMClassifier, {}, X, Y2, ValueError, *words)
    refuse(lambda: mm.ExplicitProblem(X, np.ones(24)), ValueError, *words)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # uncompiled kernels: NumPy remarks on it before we do
@pytest.mark.parametrize("size", [1e155, 1e200, 1e308])
@pytest.mark.parametrize(("cls", "y"), [(mm.SVMClassifier, Y2), (mm.SVMClassifier, Y3), (mm.SVMRegressor, YR)])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
def test_rows_whose_squared_norm_overflows(container, cls, y, size):
    model = cls()
    refuse(lambda: model.fit(container(put(X2, (7, 0), size)), y), ValueError, "Row 7", "too large", "overflows", "Scale")
    assert not hasattr(model, "coef_")


def test_prior_that_makes_a_squared_norm_overflow():
    model = mm.SVMClassifier(prior_scale=[1.0, 1e160, 1.0])
    refuse(lambda: model.fit(X2, Y2), ValueError, "too large", "overflows")
    assert not hasattr(model, "coef_")


# ---- parameters that are refused ---------------------------------------------------------------------------

NUMBERS = [
    ("C", 0.0), ("C", -1.0), ("C", NAN), ("C", "big"), ("C", None),
    ("tol", 0.0), ("tol", -1e-3), ("tol", NAN), ("tol", None),
    ("max_iter", 0), ("max_iter", -5), ("max_iter", 10.5), ("max_iter", None),
    ("max_time", 0.0), ("max_time", -1.0), ("max_time", NAN), ("max_time", "long"),
    ("intercept_scaling", 0.0), ("intercept_scaling", -1.0), ("intercept_scaling", NAN),
    ("fit_intercept", "yes"), ("warm_start", "yes"), ("keep_duals", 2.5), ("verbose", -1), ("random_state", "seed"),
    ("n_jobs", 1.5), ("positive", "all"), ("loss", "logistic"), ("loss", None), ("solver", "gradient"), ("solver", None),
]  # fmt: skip


@pytest.mark.parametrize(("cls", "y"), [(mm.SVMClassifier, Y2), (mm.SVMRegressor, YR)])
@pytest.mark.parametrize(("name", "value"), NUMBERS)
def test_refused_parameter(cls, y, name, value):
    shown = repr(value) if isinstance(value, str) else str(value)
    refuse_fit(cls, {name: value}, X2, y, ValueError, f"'{name}'", cls.__name__, shown)


@pytest.mark.parametrize(("name", "value"), [("C", INF), ("intercept_scaling", INF)])
@pytest.mark.parametrize(("cls", "y"), [(mm.SVMClassifier, Y2), (mm.SVMClassifier, Y3), (mm.SVMRegressor, YR)])
def test_refused_infinite_parameter(cls, y, name, value):
    refuse_fit(cls, {name: value}, X2, y, ValueError, name, "inf")


@pytest.mark.parametrize("epsilon", [-0.1, NAN, INF, "small", None])
def test_refused_epsilon(epsilon):
    refuse_fit(mm.SVMRegressor, {"epsilon": epsilon}, X2, YR, ValueError, "epsilon", str(epsilon))


@pytest.mark.parametrize("dtype", ["float16", "int", "complex128", "tall"])
def test_refused_dtype(dtype):
    refuse_fit(mm.SVMClassifier, {"dtype": dtype}, X2, Y2, (TypeError, ValueError), "type", dtype)


def test_refused_solver_objects():
    model = mm.SVMClassifier(solver=mm.SVMRegressor())
    refuse(lambda: model.fit(X2, Y2), TypeError, "solver", "dual_coordinate", "SVMRegressor")
    refuse(lambda: mm.SVMClassifier(solver=object()).fit(X2, Y2), ValueError, "solver", "dual_coordinate")
    refuse(lambda: mm.SVMClassifier(solver=mm.DualCoordinate).fit(X2, Y2), (TypeError, ValueError), "solver", "dual_coordinate")
    assert not hasattr(model, "coef_")


def test_refused_costs_of_one_against_the_rest():
    for setting in ({"loss": "squared_hinge"}, {"multi_class": "ovr"}):
        refuse_fit(mm.SVMClassifier, {"cost": 2.0 * COST, **setting}, X2, Y3, ValueError, "cost", "each against the rest")


COST = 1.0 - np.eye(3)


@pytest.mark.parametrize(
    ("cost", "y", "words"),
    [
        (np.ones((3, 3)), Y3, ["cost", "zero", "diagonal"]),
        (put(COST, (0, 1), -1.0), Y3, ["cost", ">= 0"]),
        (put(COST, (0, 1), NAN), Y3, ["cost", "finite"]),
        (put(COST, (0, 1), INF), Y3, ["cost", "finite"]),
        (COST, Y2, ["cost", "(3, 3)", "2 classes", "(2, 2)"]),
        (COST[:2], Y3, ["cost", "(2, 3)", "3 classes", "(3, 3)"]),
        (np.ones(3), Y3, ["cost", "(3,)", "(3, 3)"]),
        ([[0.0, 1.0, 1.0], [1.0, 0.0], [1.0, 1.0, 0.0]], Y3, ["cost"]),
        ([["a", "b"], ["c", "d"]], Y2, ["cost"]),
        ({0: {1: 1.0, 2: 1.0}, 7: {0: 1.0, 2: 1.0}}, Y3, ["cost", "7", "classes 0, 1, 2"]),
        ({0: {1: -2.0}, 1: {0: 1.0}}, Y2, ["cost", ">= 0"]),
        ({0: {1: "much"}, 1: {0: 1.0}}, Y2, ["cost"]),
        ({0: 1.0, 1: 2.0}, Y2, ["cost", "dict of dicts"]),
    ],
)
def test_refused_cost(cost, y, words):
    refuse_fit(mm.SVMClassifier, {"cost": cost}, X2, y, ValueError, *words)


@pytest.mark.parametrize(
    ("weights", "y", "words"),
    [
        ({0: -1.0, 1: 1.0}, Y2, ["class_weight", ">= 0"]),
        ({0: NAN, 1: 1.0}, Y2, ["class_weight", "finite"]),
        ({0: INF, 1: 1.0}, Y2, ["class_weight", "finite"]),
        ({0: 0.0, 1: 0.0}, Y2, ["class_weight", "positive"]),
        ({0: 1.0, 7: 1.0}, Y2, ["class_weight", "1"]),
        ({"cat": 1.0, "cow": 2.0}, np.where(Y2, "cat", "dog"), ["class_weight", "dog"]),
        ({0: -1.0}, Y3, ["class_weight", ">= 0"]),
        ("heavy", Y2, ["'class_weight'", "balanced", "heavy"]),
        ([1.0, 2.0], Y2, ["'class_weight'", "balanced"]),
    ],
)
def test_refused_class_weight(weights, y, words):
    refuse_fit(mm.SVMClassifier, {"class_weight": weights}, X2, y, ValueError, *words)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"prior_scale": [1.0, 0.0, 1.0]}, ["prior_scale", "positive", "0"]),
        ({"prior_scale": [1.0, -2.0, 1.0]}, ["prior_scale", "positive", "-2"]),
        ({"prior_scale": -1.0}, ["prior_scale", "positive", "-1"]),
        ({"prior_scale": [1.0, NAN, 1.0]}, ["prior_scale", "finite"]),
        ({"prior_scale": [1.0, INF, 1.0]}, ["prior_scale", "finite"]),
        ({"prior_scale": [1.0, 1.0]}, ["prior_scale", "(2,)", "(3,)"]),
        ({"prior_scale": np.ones((2, 3))}, ["prior_scale", "(2, 3)", "(3,)"]),
        ({"prior_mean": [1.0, NAN, 1.0]}, ["prior_mean", "finite"]),
        ({"prior_mean": np.ones(4)}, ["prior_mean", "(4,)", "(3,)"]),
        ({"prior_mean": ["a", "b", "c"]}, ["prior_mean"]),
        ({"prior_covariance": np.ones((3, 3))}, ["prior_covariance", "positive definite", "eigenvalue"]),
        ({"prior_covariance": np.zeros((3, 3))}, ["prior_covariance", "positive definite", "eigenvalue is 0"]),
        ({"prior_covariance": np.diag([1.0, -1.0, 1.0])}, ["prior_covariance", "positive definite", "eigenvalue is -1"]),
        ({"prior_covariance": np.eye(3) + np.eye(3, k=1)}, ["prior_covariance", "symmetric"]),
        ({"prior_covariance": put(np.eye(3), (1, 1), NAN)}, ["prior_covariance", "finite"]),
        ({"prior_covariance": put(np.eye(3), (1, 1), INF)}, ["prior_covariance", "finite"]),
        ({"prior_covariance": np.eye(4)}, ["prior_covariance", "(4, 4)", "(3, 3)"]),
        ({"prior_covariance": np.ones(3)}, ["prior_covariance", "(3,)", "(3, 3)"]),
        ({"prior_scale": np.ones(3), "prior_covariance": np.eye(3)}, ["prior_scale", "prior_covariance", "exclude"]),
        ({"positive": [True, False]}, ["positive", "(3,)", "(2,)"]),
        ({"positive": [1, 0, 1]}, ["positive", "boolean", "int"]),
        ({"positive": [1.0, 0.0, 1.0]}, ["positive", "boolean", "float"]),
        ({"positive": np.ones((1, 3), bool)}, ["positive", "(3,)", "(1, 3)"]),
    ],
)
@pytest.mark.parametrize(("cls", "y"), [(mm.SVMClassifier, Y2), (mm.SVMRegressor, YR)])
def test_refused_prior(cls, y, parameters, words):
    refuse_fit(cls, parameters, X2, y, ValueError, *words)


@pytest.mark.parametrize("name", ["prior_mean", "prior_scale"])
def test_refused_prior_of_other_number_of_classes(name):
    refuse_fit(mm.SVMClassifier, {name: np.ones((2, 3))}, X2, Y3, ValueError, name, "(2, 3)", "(3,)", "(3, 3)")


# ---- before and after fit ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "method"), [(mm.SVMClassifier, "predict"), (mm.SVMClassifier, "decision_function"), (mm.SVMRegressor, "predict")]
)
def test_predict_before_fit_and_on_other_features(cls, method):
    model = cls(random_state=0)
    refuse(lambda: getattr(model, method)(X2), NotFittedError, cls.__name__, "not fitted")
    model.fit(X2, Y2)
    predict = getattr(model, method)
    refuse(lambda: predict(X2[:, :2]), ValueError, "2 features", cls.__name__, "3 features")
    refuse(lambda: predict(sp.csr_matrix(X2[:, :2])), ValueError, "2 features", "3 features")
    refuse(lambda: predict(X2[0]), ValueError, "2D array")
    refuse(lambda: predict(put(X2, (0, 0), NAN)), ValueError, "NaN")
    refuse(lambda: predict(X2[:0]), ValueError, "0 sample(s)")


@pytest.mark.parametrize(("cls", "y"), [(mm.SVMClassifier, Y2), (mm.SVMRegressor, YR)])
def test_feature_names(cls, y):
    frame = pd.DataFrame(X2, columns=["a", "b", "c"])
    model = cls(random_state=0).fit(frame, y)
    refuse(lambda: model.predict(frame[["b", "a", "c"]]), ValueError, "feature names", "match")
    refuse(lambda: model.predict(frame.rename(columns={"a": "z"})), ValueError, "feature names", "match")
    with pytest.warns(UserWarning, match="valid feature names"):
        model.predict(X2)


def test_failed_fit_of_a_fitted_model_is_not_silent():
    model = mm.SVMClassifier(random_state=0).fit(X2, Y2)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(put(X2, (0, 0), NAN), Y2)


def test_path_refuses_bad_values_of_c():
    for Cs in ([1.0, 0.0], [-1.0], [NAN], [INF], [[1.0, 2.0]], 1.0):
        refuse(lambda Cs=Cs: mm.SVMClassifier(solver=Idle()).regularization_path(X2, Y2, Cs), ValueError, "Cs", "finite", "> 0")
    refuse(lambda: mm.SVMClassifier(solver=Idle()).regularization_path(X2, Y2, ["much"]), ValueError, "Cs", "finite")
    assert mm.SVMClassifier(solver=Idle()).regularization_path(X2, Y2, []) == []


# ---- the low-level problem ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"margins": np.ones(23)}, ["margins", "23", "24"]),
        ({"margins": put(np.ones(24), 2, NAN)}, ["margins", "NaN"]),
        ({"margins": put(np.ones(24), 2, INF)}, ["margins", "infinity"]),
        ({"margins": np.ones((24, 2))}, ["margins", "48", "24"]),
        ({"margins": 1.0}, ["margins"]),
        ({"margins": ["one"] * 24}, ["could not convert string to float"]),
        ({"groups": np.arange(23)}, ["groups", "(23,)", "24"]),
        ({"groups": np.zeros((24, 1), int)}, ["groups", "(24, 1)", "24"]),
        ({"groups": 3}, ["groups", "()", "24"]),
        ({"groups": put(np.zeros(24), 3, NAN)}, ["groups", "NaN"]),
        ({"weights": put(np.ones(24), 2, -1.0)}, ["weights", "24", ">= 0"]),
        ({"weights": put(np.ones(24), 2, NAN)}, ["weights", "24", "finite"]),
        ({"weights": put(np.ones(24), 2, INF)}, ["weights", "24", "finite"]),
        ({"weights": np.ones(23)}, ["weights", "24"]),
        ({"weights": np.ones(24), "groups": np.arange(24) // 2}, ["weights", "12"]),
        ({"X": put(X2, (0, 0), NAN)}, ["X", "NaN"]),
        ({"X": X2[:, 0]}, ["2D array"]),
        ({"X": X2[:0], "margins": np.ones(0)}, ["0 sample(s)"]),
        ({"X": X2 + 1j}, ["Complex data not supported"]),
        ({"prior_scale": [1.0, 0.0, 1.0]}, ["prior_scale", "positive"]),
        ({"prior_mean": np.ones(2)}, ["prior_mean", "(2,)", "(3,)"]),
        ({"prior_covariance": np.ones((3, 3))}, ["prior_covariance", "positive definite"]),
        ({"positive": [True]}, ["positive", "(3,)"]),
    ],
)
def test_refused_explicit_problem(arguments, words):
    error = (TypeError, ValueError)
    refuse(lambda: mm.ExplicitProblem(**{"X": X2, "margins": np.ones(24), **arguments}), error, *words)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"problem": X2}, TypeError, ["ExplicitProblem", "ndarray"]),
        ({"problem": None}, TypeError, ["ExplicitProblem", "NoneType"]),
        ({"C": 0.0}, ValueError, ["C", "range (0.0, inf)", "0.0"]),
        ({"C": -1.0}, ValueError, ["C", "range (0.0, inf)", "-1.0"]),
        ({"C": NAN}, ValueError, ["C", "range (0.0, inf)", "nan"]),
        ({"C": INF}, ValueError, ["C", "range (0.0, inf)", "inf"]),
        ({"C": "big"}, (TypeError, ValueError), ["C", "big"]),
        ({"tol": 0.0}, ValueError, ["tol", "range (0.0, inf)", "0.0"]),
        ({"tol": NAN}, ValueError, ["tol", "range (0.0, inf)", "nan"]),
        ({"tol": "fine"}, (TypeError, ValueError), ["tol", "fine"]),
        ({"max_iter": 0}, ValueError, ["max_iter", "0"]),
        ({"max_iter": -1}, ValueError, ["max_iter", "-1"]),
        ({"max_time": 0.0}, ValueError, ["max_time", "0"]),
        ({"max_time": -1.0}, ValueError, ["max_time", "-1"]),
        ({"max_time": NAN}, ValueError, ["max_time", "nan"]),
        ({"solver": "gradient"}, ValueError, ["solver", "gradient", "dual_coordinate"]),
        ({"solver": object()}, TypeError, ["solver", "dual_coordinate", "object"]),
        ({"duals": np.ones(23)}, ValueError, ["duals", "24", "finite"]),
        ({"duals": put(np.ones(24), 2, NAN)}, ValueError, ["duals", "24", "finite"]),
        ({"duals": np.ones((24, 1))}, ValueError, ["duals", "24"]),
    ],
)
def test_refused_solve(arguments, error, words):
    refuse(lambda: mm.solve(**{"problem": mm.ExplicitProblem(X2, np.ones(24)), "solver": Idle(), **arguments}), error, *words)


@pytest.mark.parametrize("seed", [-1, "seed", 0.5])
def test_refused_seed(seed):
    refuse(lambda: mm.solve(mm.ExplicitProblem(X2, np.ones(24)), random_state=seed), (TypeError, ValueError))


def test_solve_makes_any_finite_duals_feasible():
    """Negative duals in a hot start must not lend their budget to the others: the dual value would exceed the optimum."""
    signed, groups = np.repeat(X2 * (2 * Y2 - 1)[:, None], 2, axis=0), np.repeat(np.arange(24), 2)
    problem = mm.ExplicitProblem(signed, np.tile([1.0, 0.8], 24), groups)
    cold = mm.solve(problem, tol=1e-8)
    start = np.tile([50.0, -50.0], 24)
    warm = mm.solve(problem, tol=1e-8, duals=start)
    assert warm.certificate.dual <= cold.certificate.primal * (1 + 1e-12)
    assert warm.certificate.converged and warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-8)
    assert np.bincount(groups, warm.duals).max() <= 1.0 + 1e-12 and warm.duals.min() >= 0.0
    np.testing.assert_array_equal(start, np.tile([50.0, -50.0], 24))


# ---- unusual input that gets the right answer --------------------------------------------------------------


def objective(model, X, y, weight=1.0) -> tuple[float, float]:
    """P at the fitted weights, by the formulas and in float64, and what rounding of the scores can do to it."""
    X = (X.toarray() if sp.issparse(X) else np.asarray(X)).astype(np.float64)
    scores = X @ np.atleast_2d(model.coef_).T.astype(np.float64) + model.intercept_
    if isinstance(model, mm.SVMRegressor):
        losses = np.maximum(np.abs(scores[:, 0] - y) - model.epsilon, 0.0)
    elif len(model.classes_) == 2:
        losses = np.maximum(1.0 - np.where(y == model.classes_[1], 1.0, -1.0) * scores[:, 0], 0.0)
    else:
        truth = np.searchsorted(model.classes_, y)
        margins = scores + 1.0 - np.eye(len(model.classes_))[truth]
        losses = margins.max(axis=1) - scores[np.arange(len(y)), truth]
    quadratic = np.sum(model.coef_**2) + np.sum((model.intercept_ / model.intercept_scaling) ** 2)
    rounding = 8 * np.finfo(np.float64).eps * model.C * np.sum(weight * (1.0 + np.abs(scores).max(axis=1)))
    return 0.5 * quadratic + model.C * np.sum(weight * losses), rounding


def certified(model, X, y, weight=None, may_warn=False):
    """Fit; all is finite and the certificate is true. `may_warn`: the target may be missed, with a warning."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, y, sample_weight=weight)
    certificate = model.certificate_
    assert all(np.all(np.isfinite(a)) for a in (model.coef_, model.intercept_))
    numbers = certificate.primal, certificate.dual, certificate.gap, certificate.relative_gap
    assert all(np.isfinite(number) for number in numbers)
    primal, rounding = objective(model, X, y, 1.0 if weight is None else weight)
    assert certificate.primal == pytest.approx(primal, rel=1e-9, abs=rounding + 1e-300)
    assert certificate.dual <= certificate.primal * (1 + 1e-12)
    assert certificate.gap == certificate.primal - certificate.dual
    assert certificate.converged == (certificate.relative_gap <= model.tol)
    assert [w.category for w in seen] == ([] if certificate.converged else [ConvergenceWarning])
    assert certificate.converged or may_warn
    return model


def assert_same_optimum(a, b):
    """The two certificates allow one optimum, and the weights are as near as the gaps prove (P is 1-strongly convex)."""
    first, second = a.certificate_, b.certificate_
    slack = 1e-12 * max(abs(first.primal), abs(second.primal))
    assert max(first.dual, second.dual) <= min(first.primal, second.primal) + slack
    apart = np.sqrt(np.sum((a.coef_ - b.coef_) ** 2) + np.sum((a.intercept_ - b.intercept_) ** 2))
    assert apart <= np.sqrt(2 * max(first.gap, 0.0)) + np.sqrt(2 * max(second.gap, 0.0)) + 1e-7


KINDS = {"binary": (mm.SVMClassifier, X2, Y2), "multiclass": (mm.SVMClassifier, X3, Y3), "regression": (mm.SVMRegressor, X2, YR)}
kinds = pytest.mark.parametrize("kind", KINDS)


def make(kind, **parameters):
    cls, X, y = KINDS[kind]
    return cls(**{"tol": 1e-6, "random_state": 0, **parameters}), X, y


def sparse(X):
    """X with half of its entries set to zero, and as CSR."""
    X = np.where(np.arange(X.size).reshape(X.shape) % 2 == 0, X, 0.0)
    return X, sp.csr_matrix(X)


def duplicated(C):
    """Each entry of a CSR matrix in eight parts: taken as eight entries, norms would be far too small, steps too long."""
    return sp.csr_matrix((np.repeat(C.data / 8, 8), np.repeat(C.indices, 8), 8 * C.indptr), shape=C.shape)


def reversed_rows(C):
    """The entries of every row in falling order of their columns."""
    order = np.concatenate([np.arange(b - 1, a - 1, -1) for a, b in zip(C.indptr[:-1], C.indptr[1:])])
    return sp.csr_matrix((C.data[order], C.indices[order], C.indptr), shape=C.shape)


def explicit_zeros(C):
    """A CSR matrix that stores every entry, zeros too."""
    n, d = C.shape
    return sp.csr_matrix((C.toarray().ravel(), np.tile(np.arange(d), n), d * np.arange(n + 1)), shape=C.shape)


@kinds
@pytest.mark.parametrize("odd", [duplicated, reversed_rows, explicit_zeros])
def test_odd_csr(kind, odd):
    model, X, y = make(kind)
    dense, clean = sparse(X)
    strange = odd(clean)
    before = [array.copy() for array in (strange.data, strange.indices, strange.indptr)]
    reference = certified(model, clean, y)
    fitted = certified(make(kind)[0], strange, y)
    assert_same_optimum(fitted, reference)
    assert_same_optimum(fitted, certified(make(kind)[0], dense, y))
    for array, old in zip((strange.data, strange.indices, strange.indptr), before):
        np.testing.assert_array_equal(array, old)
    np.testing.assert_allclose(fitted.predict(strange), fitted.predict(dense))


def test_duplicates_that_scipy_was_told_do_not_exist():
    """SciPy remembers that a matrix was in canonical form; arrays changed since then are looked at."""
    dense, clean = sparse(X2)
    strange = duplicated(clean)
    strange.has_canonical_format = True
    assert_same_optimum(certified(make("binary")[0], strange, Y2), certified(make("binary")[0], dense, Y2))


@kinds
@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
def test_zero_rows_and_a_zero_column(kind, container):
    model, X, y = make(kind)
    gaps = X.copy()
    gaps[::5], gaps[:, 1] = 0.0, 0.0
    fitted = certified(model, container(gaps), y)
    without = certified(make(kind)[0], np.ascontiguousarray(gaps[:, [0, 2]]), y)
    np.testing.assert_array_equal(np.atleast_2d(fitted.coef_)[:, 1], 0.0)
    fitted.coef_ = np.delete(fitted.coef_, 1, axis=-1)
    assert_same_optimum(fitted, without)


@pytest.mark.parametrize("container", [np.zeros, sp.csr_matrix])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_all_zero_data(container, fit_intercept):
    """The optimum is known: only the intercept can move."""
    X = container((10, 3))
    binary = certified(mm.SVMClassifier(C=0.05, tol=1e-9, fit_intercept=fit_intercept), X, np.repeat([0, 1], [3, 7]))
    # min over b of b^2/2 + C (7 max(0, 1 - b) + 3 max(0, 1 + b)):  b = C (7 - 3)
    b = 0.2 if fit_intercept else 0.0
    assert binary.certificate_.primal == pytest.approx(b * b / 2 + 0.05 * (10 - 4 * b), rel=1e-8)
    assert binary.intercept_ == pytest.approx([b], abs=1e-4)
    np.testing.assert_array_equal(binary.coef_, 0.0)

    regression = certified(mm.SVMRegressor(C=0.05, epsilon=0.5, tol=1e-9, fit_intercept=fit_intercept), X, np.full(10, 3.0))
    # min over b of b^2/2 + 10 C max(0, |3 - b| - 0.5):  b = 10 C
    b = 0.5 if fit_intercept else 0.0
    assert regression.certificate_.primal == pytest.approx(b * b / 2 + 0.5 * (2.5 - b), rel=1e-8)
    assert regression.intercept_ == pytest.approx([b], abs=1e-4)

    multiclass = certified(mm.SVMClassifier(C=0.01, tol=1e-9, fit_intercept=fit_intercept), X, np.arange(10) % 3)
    without = 0.01 * 10.0
    assert multiclass.certificate_.primal == pytest.approx(without, rel=1e-8) or (
        fit_intercept and multiclass.certificate_.primal < without
    )


@pytest.mark.parametrize("value", [0.0, 5.0, -1e6])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_constant_y(value, loss):
    model = mm.SVMRegressor(C=10.0, tol=1e-6, loss=loss, random_state=0).fit(X2, np.full(24, value))
    assert model.certificate_.converged and np.all(np.isfinite(model.coef_))
    if value == 0.0:
        assert model.certificate_.primal == model.certificate_.dual == 0.0
        assert not model.coef_.any() and not model.intercept_.any()
    elif value == 5.0:
        np.testing.assert_allclose(model.predict(X2), 5.0, atol=0.35)


@kinds
@pytest.mark.parametrize(("size", "dtype"), [(1e120, np.float64), (1e30, np.float32), (1e-30, np.float32), (1e-70, np.float64)])
def test_scaled_data(kind, size, dtype):
    """X times s at C / s^2 is the same problem: its weights are 1 / s times, its optimum 1 / s^2 times the clean one's."""
    model, X, y = make(kind, fit_intercept=False, C=0.5)
    X = X.astype(np.float32).astype(np.float64)
    clean = certified(model, X, y)
    scaled = (X * size).astype(dtype)
    size = float(np.float64(scaled[0, 0]) / X[0, 0]) if dtype is np.float64 else size
    huge = certified(make(kind, fit_intercept=False, C=0.5 / size**2)[0], scaled, y)
    rel = 2e-6 if dtype is np.float64 else 1e-5  # rounding to float32 moves X by 6e-8
    assert huge.certificate_.primal * size**2 == pytest.approx(clean.certificate_.primal, rel=rel)
    np.testing.assert_allclose(huge.coef_ * size, clean.coef_, atol=5e-3)


@kinds
@pytest.mark.parametrize(("size", "dtype"), [(1e150, np.float64), (1e30, np.float32)])
def test_huge_values_at_the_usual_c(kind, size, dtype):
    model, X, y = make(kind, tol=1e-3, max_iter=200)
    certified(model, (X * size).astype(dtype), y, may_warn=True)


@kinds
@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-200, 1e-160])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
def test_denormals(kind, size, container):
    """Data this small move nothing: the optimum is that of X = 0."""
    model, X, y = make(kind, tol=1e-9, C=0.01)
    tiny = np.where(X > 0, size, -size)
    fitted = certified(model, container(tiny), y)
    assert_same_optimum(fitted, certified(make(kind, tol=1e-9, C=0.01)[0], np.zeros_like(X), y))


@kinds
@pytest.mark.parametrize("factor", [1e12, 1e-12])
def test_weights_of_any_size_act_like_c(kind, factor):
    model, X, y = make(kind)
    plain = certified(model, X, y)
    weighted = certified(make(kind, C=1.0 / factor)[0], X, y, np.full(24, factor))
    assert_same_optimum(weighted, plain)


@kinds
def test_tiny_weight_is_no_weight(kind):
    model, X, y = make(kind)
    weight = np.where(np.arange(24) % 4 == 3, 1e-12, 1.0)
    light = certified(model, X, y, weight)
    none = certified(make(kind)[0], X, y, np.where(weight < 1, 0.0, 1.0))
    removed = certified(make(kind)[0], X[weight == 1], y[weight == 1])
    assert_same_optimum(none, removed)
    assert light.certificate_.primal == pytest.approx(none.certificate_.primal, rel=3e-6)


@kinds
def test_one_weight_of_a_trillion(kind):
    """The heavy sample is fitted; whether the target is reached or not, the certificate is true."""
    model, X, y = make(kind, tol=1e-3, max_iter=2000)
    weight = np.where(np.arange(24) == 5, 1e12, 1.0)
    model = certified(model, X, y, weight, may_warn=True)
    if kind == "regression":
        assert abs(model.predict(X[5:6])[0] - y[5]) <= model.epsilon + 1e-3
    else:
        assert model.predict(X[5:6])[0] == y[5]


@kinds
def test_integer_weight_is_repetition(kind):
    model, X, y = make(kind)
    weight = np.arange(24) // 3 % 3
    weighted = certified(model, X, y, weight)
    assert_same_optimum(weighted, certified(make(kind)[0], np.repeat(X, weight, axis=0), np.repeat(y, weight)))


def test_class_with_no_weight_left():
    """Samples of weight zero keep their class known; it is still predicted about, never NaN."""
    weight = np.where(Y3 == 2, 0.0, 1.0)
    model = certified(make("multiclass")[0], X3, Y3, weight)
    assert model.classes_.tolist() == [0, 1, 2] and model.coef_.shape == (3, 3)
    balanced = make("multiclass", class_weight="balanced")[0].fit(X3, Y3, sample_weight=weight)
    assert balanced.certificate_.converged and np.all(np.isfinite(balanced.coef_))


def test_two_samples_one_feature():
    """x = -1, 1: the margins are met at w = 1, b = 0."""
    X = np.array([[-1.0], [1.0]])
    binary = certified(mm.SVMClassifier(C=10.0, tol=1e-9), X, np.array([0, 1]))
    assert binary.coef_ == pytest.approx(np.array([[1.0]]), abs=1e-4) and binary.intercept_ == pytest.approx([0.0], abs=1e-4)
    assert binary.certificate_.primal == pytest.approx(0.5, rel=1e-8)
    regression = certified(mm.SVMRegressor(C=10.0, epsilon=0.5, tol=1e-9), X, np.array([-2.0, 2.0]))
    assert regression.coef_ == pytest.approx([1.5], abs=1e-4) and regression.certificate_.primal == pytest.approx(1.125, rel=1e-8)


def test_one_sample():
    refuse_fit(mm.SVMClassifier, {}, X2[:1], Y2[:1], ValueError, "at least 2 classes")
    model = certified(mm.SVMRegressor(C=10.0, epsilon=0.5, tol=1e-9), np.array([[2.0]]), np.array([3.0]))
    # the nearest weights with 2 w + b = 2.5
    assert model.coef_ == pytest.approx([1.0], abs=1e-4) and model.intercept_ == pytest.approx([0.5], abs=1e-4)


def test_one_sample_a_class():
    X, y = X2[:8] * 3.0, np.arange(8)
    model = certified(mm.SVMClassifier(C=100.0, tol=1e-6, random_state=0), np.c_[X, 5.0 * np.eye(8)], y)
    assert model.coef_.shape == (8, 11)
    np.testing.assert_array_equal(model.predict(np.c_[X, 5.0 * np.eye(8)]), y)


@pytest.mark.parametrize(
    "names",
    [["ape", "bee"], [False, True], [-7, -3], [2.0, 5.0], [-1, 1], np.array(["ape", "bee"], object), [0, 2**62]],
    ids=str,
)
def test_two_labels_of_any_kind(names):
    names = np.asarray(names)
    reference, X, y = make("binary")
    certified(reference, X, y)
    model = make("binary")[0].fit(X, names[y])
    np.testing.assert_array_equal(model.coef_, reference.coef_)
    assert model.classes_.tolist() == names.tolist() and model.classes_.dtype == names.dtype
    np.testing.assert_array_equal(model.predict(X), names[reference.predict(X)])
    assert model.certificate_ == reference.certificate_


@pytest.mark.parametrize("names", [["ape", "bee", "cat"], [-7, -3, 11], [1.0, 2.0, 40.0]], ids=str)
def test_three_labels_of_any_kind(names):
    names = np.asarray(names)
    reference, X, y = make("multiclass")
    certified(reference, X, y)
    model = make("multiclass")[0].fit(X, names[y])
    np.testing.assert_array_equal(model.coef_, reference.coef_)
    np.testing.assert_array_equal(model.predict(X), names[reference.predict(X)])


def test_lists_are_data_too():
    assert_same_optimum(certified(make("binary")[0], X2.tolist(), Y2.tolist(), [1.0] * 24), certified(make("binary")[0], X2, Y2))


def test_cost_by_name_and_by_position():
    names = np.array(["ape", "bee", "cat"])
    matrix = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.5], [1.0, 0.0, 0.0]])
    by_name = {a: {b: matrix[i, j] for j, b in enumerate(names) if i != j} for i, a in enumerate(names)}
    fits = [make("multiclass", cost=cost)[0].fit(X3, names[Y3]) for cost in (matrix, by_name, matrix.tolist())]
    assert fits[0].certificate_ == fits[1].certificate_ == fits[2].certificate_
    assert fits[0].certificate_.primal != pytest.approx(make("multiclass")[0].fit(X3, Y3).certificate_.primal, rel=1e-2)


def test_cost_of_zero_costs_nothing():
    model = mm.SVMClassifier(cost=np.zeros((3, 3))).fit(X3, Y3)
    assert model.certificate_.primal == model.certificate_.dual == 0.0 and model.certificate_.converged
    assert not model.coef_.any()


def test_explicit_problem_on_odd_input():
    """The binary problem, listed: clean, and with duplicates, with zero rows, with repeated rows, with names for groups."""
    signed = X2 * (2 * Y2 - 1)[:, None]
    reference = certified(mm.SVMClassifier(tol=1e-8, fit_intercept=False), X2, Y2).certificate_.primal
    twice = np.repeat(signed, 2, axis=0), np.repeat([f"s{i}" for i in range(24)], 2)
    problems = {
        "clean": mm.ExplicitProblem(signed, np.ones(24)),
        "float32": mm.ExplicitProblem(signed.astype(np.float32), np.ones(24)),
        "duplicates": mm.ExplicitProblem(duplicated(sp.csr_matrix(signed)), np.ones(24)),
        "repeated": mm.ExplicitProblem(twice[0], np.ones(48), twice[1]),
        "zero rows": mm.ExplicitProblem(np.r_[signed, np.zeros((2, 3))], np.r_[np.ones(24), -np.ones(2)]),
        "weightless": mm.ExplicitProblem(np.r_[signed, signed], np.ones(48), weights=np.repeat([1.0, 0.0], 24)),
    }
    for name, problem in problems.items():
        result = mm.solve(problem, tol=1e-8)
        assert result.certificate.converged and result.w.shape == (3,) and np.all(np.isfinite(result.w)), name
        assert result.certificate.primal == pytest.approx(reference, rel=1e-6 if name == "float32" else 3e-8), name


def test_explicit_problem_of_zero_rows_only():
    result = mm.solve(mm.ExplicitProblem(np.zeros((4, 2)), [1.0, 2.0, -1.0, 3.0], [0, 0, 1, 2]), C=2.0, tol=1e-9)
    assert result.certificate.primal == pytest.approx(2.0 * (2.0 + 0.0 + 3.0), rel=1e-9) and result.certificate.converged
    np.testing.assert_array_equal(result.w, 0.0)


def test_explicit_problem_without_weight():
    result = mm.solve(mm.ExplicitProblem(X2, np.ones(24), weights=np.zeros(24)), tol=1e-9)
    assert result.certificate.primal == result.certificate.dual == 0.0 and result.certificate.converged
    np.testing.assert_array_equal(result.w, 0.0)
