"""Fits on tensors: the optimum that the convex solver finds, certificates that hold, and the behaviour of every other fit."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import certificates, drawn, multilabel
from helpers.devices import DEVICE, best_point, methods_of_devices, on_processor, tensor  # noqa: F401 - a fixture of all tests
from helpers.reference import reference
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin.data.tensors import DeviceMatrix, TensorTable
from maxmargin.estimators.on_device import posed_on_device
from maxmargin.estimators.posing import SeveralClasses
from maxmargin.losses.crammer_singer import CrammerSingerLoss
from maxmargin.problems.base import PLAIN_TERM
from maxmargin.solvers import DualCoordinate
from maxmargin.solvers.base import NOWHERE, Setting
from maxmargin.solvers.device import ascent as device_ascent
from maxmargin.solvers.pace import never

COST = np.array([[0.0, 1.0, 2.0, 0.5], [0.5, 0.0, 1.0, 1.0], [3.0, 1.0, 0.0, 1.0], [1.0, 0.2, 1.0, 0.0]])
CASES = {
    "two classes": (mm.SVMClassifier, 2, {"cost": [[0, 2.0], [0.5, 0]]}),
    "two classes, squared": (mm.SVMClassifier, 2, {"loss": "squared_hinge", "class_weight": "balanced"}),
    "classes": (mm.SVMClassifier, 4, {"cost": COST, "class_weight": {0: 2.0}}),
    "classes without intercept": (mm.SVMClassifier, 4, {"fit_intercept": False}),
    "top-2": (mm.TopKSVMClassifier, 4, {"k": 2}),
    "top-2, beta": (mm.TopKSVMClassifier, 4, {"k": 2, "loss": "topk_beta"}),
    "top-2, smoothed": (mm.TopKSVMClassifier, 4, {"k": 2, "smoothing": 0.5}),
    "top-3 of 4": (mm.TopKSVMClassifier, 4, {"k": 3}),
    "regression": (mm.SVMRegressor, None, {"epsilon": 0.2}),
    "regression, squared": (mm.SVMRegressor, None, {"loss": "squared_epsilon_insensitive", "intercept_scaling": 2.0}),
}


def drawn_case(name, n=40):
    """The estimator with its parameters, X, y and weights."""
    kind, K, params = CASES[name]
    rng = np.random.default_rng(drawn.seed_of(name))
    X = drawn.features(rng, n).astype(np.float32)
    y = drawn.targets(rng, X) if K is None else drawn.labels(rng, X, K)
    return kind(random_state=0, **params), X, y, drawn.weights(rng, n)


def check(model, X, y, weight):
    problem = reference(model, X, y, weight)
    certificates.check(model, problem, best_point(model, problem, X, y, weight))


@pytest.mark.parametrize("name", CASES)
def test_the_optimum_is_that_of_the_convex_solver(name):
    model, X, y, weight = drawn_case(name)
    model.set_params(C=0.3, keep_duals=True)
    model.fit(tensor(X), tensor(y), tensor(weight))
    problem = reference(model, X, y, weight)
    certificates.check(model, problem, best_point(model, problem, X, y, weight))
    certificates.consistent(model)
    certificates.recomputed(model, problem, rel=1e-8)


@pytest.mark.parametrize("prior, sign", [("mean scale", "mask"), ("scale", "positive")])
@pytest.mark.parametrize("name", ["two classes", "classes", "regression"])
def test_priors_and_signs(name, prior, sign):
    model, X, y, weight = drawn_case(name)
    rng, K = np.random.default_rng(1), CASES[name][1]
    model.set_params(
        C=0.3, tol=1e-3, **drawn.prior(rng, prior, X.shape[1], K if K == 4 else None), **drawn.signs(sign, X.shape[1])
    )
    model.fit(tensor(X), tensor(y), weight)
    check(model, X, y, weight)


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_labels(loss, coupled):
    X, Y = multilabel.data(n=40)
    Y = multilabel.some_missing(Y)
    R = multilabel.correlated(3) if coupled else None
    weight = np.linspace(0.0, 2.0, 40)
    model = mm.MultilabelSVMClassifier(
        0.4, loss=loss, label_prior=R, label_weight=[1.0, 2.0, 0.5], tol=1e-4, keep_duals=True, random_state=0
    )
    model.fit(tensor(X), tensor(Y), sample_weight=tensor(weight))
    formula = multilabel.Formula(X, Y, 0.4, R, weight, np.array([1.0, 2.0, 0.5]), squared=loss == "squared_hinge")
    found = model.certificate_
    best = formula.optimum() if DEVICE == "cpu" else on_processor(model, X, Y, weight).certificate_.primal
    assert found.converged
    assert found.dual <= best * (1 + 1e-8) and best <= found.primal * (1 + 1e-8)
    assert formula.primal(model) == pytest.approx(found.primal, rel=1e-8)
    assert formula.dual(model) == pytest.approx(found.dual, rel=1e-8)
    answer = model.predict(tensor(X))
    assert isinstance(answer, torch.Tensor) and answer.shape == (40, 3)


@pytest.mark.parametrize("params", [{"loss": "log_loss"}, {"loss": "squared_error"}, {"loss": "squared_hinge"}])
def test_each_class_against_the_rest_is_as_many_binary_problems(params):
    _, X, y, _ = drawn_case("classes without intercept")
    several = mm.SVMClassifier(0.3, tol=1e-4, multi_class="ovr", random_state=0, **params).fit(tensor(X), tensor(y))
    each = [mm.SVMClassifier(0.3, tol=1e-4, random_state=0, **params).fit(tensor(X), tensor(y) == k) for k in range(4)]
    assert several.certificate_.converged
    assert sum(one.certificate_.dual for one in each) <= several.certificate_.primal
    assert several.certificate_.dual <= sum(one.certificate_.primal for one in each)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_a_certificate_is_never_wrong(name, seed):
    """However few passes there were: between the primal values at other weights and the dual value, checked in plain NumPy."""
    exponent, scale = np.random.default_rng([seed, drawn.seed_of(name)]).uniform([-3.0, -2.0], [1.0, 2.0])
    model, X, y, weight = drawn_case(name, n=24)
    X = X * np.float32(10.0**scale)
    model.set_params(C=10.0**exponent, max_iter=2, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(tensor(X), tensor(y), weight)
    problem, found = reference(model, X, y, weight), model.certificate_
    W, b = certificates.shaped(model)
    assert problem.primal(W, b) == pytest.approx(found.primal, rel=1e-8)
    assert found.dual <= found.primal
    for factor in (0.0, 0.5, 1.1):
        assert found.dual <= problem.primal(factor * W, factor * b) * (1 + 1e-12)


def test_an_integer_weight_is_as_many_repetitions():
    model, X, y, _ = drawn_case("classes")
    weight = np.arange(40) % 3
    model.set_params(C=0.2, tol=1e-4)
    once = model.fit(tensor(X), tensor(y), tensor(weight)).certificate_
    again = model.fit(tensor(np.repeat(X, weight, axis=0)), tensor(np.repeat(y, weight))).certificate_
    assert once.dual <= again.primal and again.dual <= once.primal


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_floats_are_taken_as_they_are(dtype):
    model, X, y, weight = drawn_case("classes")
    X = tensor(X, dtype=dtype)
    model.set_params(C=0.2).fit(X, tensor(y), weight)
    check(model, X.double().cpu().numpy(), y, weight)
    assert model.decision_function(X).dtype == dtype


@pytest.mark.parametrize("double", [True, False])
def test_rounding_of_scores_is_part_of_the_primal_value(double):
    """Rows and columns of very different sizes, where float32 sums are far off: the value is never below the true one."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(60, 200)) * 10.0 ** rng.uniform(-4, 4, (60, 1)) * 10.0 ** rng.uniform(-3, 3, 200)).astype(np.float32)
    y, W = rng.integers(0, 3, 60), rng.normal(size=(3, 201))
    posing = SeveralClasses(CrammerSingerLoss(), 1.0 - np.eye(3), np.ones(3))
    table = TensorTable(DeviceMatrix(tensor(X)), 1.0)
    problem = replace(posed_on_device(posing, table, tensor(y), tensor(np.ones(60)), PLAIN_TERM), double=double)
    wide = np.longdouble
    S = X.astype(wide) @ W[:, :-1].T.astype(wide) + W[:, -1]
    truth = S[np.arange(60), y]
    exact = float(((S + 1 - np.eye(3)[y]).max(axis=1) - truth).sum() + 0.5 * (W.astype(wide) ** 2).sum())
    found = problem.primal(W)
    assert exact * (1 - 1e-12) <= found
    assert found == pytest.approx(exact, rel=1e-11 if double else 1e-2)


def test_predictions_are_tensors_beside_x():
    model, X, y, _ = drawn_case("top-2")
    model.set_params(C=0.05, tol=1e-2).fit(tensor(X), tensor(y))
    scores = model.decision_function(tensor(X))
    assert isinstance(scores, torch.Tensor) and scores.device.type == DEVICE and scores.dtype == torch.float32
    np.testing.assert_allclose(scores.cpu(), model.decision_function(X), rtol=1e-4, atol=1e-4)
    assert torch.equal(model.predict(tensor(X)).cpu(), torch.from_numpy(model.predict(X)))
    assert torch.equal(model.predict_topk(tensor(X), 3).cpu(), torch.from_numpy(model.predict_topk(X, 3)))
    assert model.score(tensor(X), tensor(y)) == model.score(X, y)
    assert model.score_topk(tensor(X), tensor(y)) == model.score_topk(X, y)
    names = np.array(["a", "b", "c", "d"])[y]
    assert isinstance(model.fit(tensor(X), names).predict(tensor(X)), np.ndarray)
    for value in (model.coef_, model.intercept_, model.classes_):
        assert isinstance(value, np.ndarray)


def test_a_model_pickles_and_goes_on_from_its_duals():
    model, X, y, _ = drawn_case("classes")
    model.set_params(C=0.3, tol=1e-4, warm_start=True).fit(tensor(X), tensor(y))
    first = model.n_iter_
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.fit(tensor(X), tensor(y)).n_iter_ < first
    assert again.certificate_.converged


def test_a_path_is_certified_at_each_step():
    model, X, y, weight = drawn_case("classes")
    for fitted in model.set_params(tol=1e-3).regularization_path(tensor(X), tensor(y), [0.01, 0.1, 1.0], weight):
        check(fitted, X, y, weight)


def test_a_run_goes_on_from_its_snapshot_in_the_same_way():
    posing = SeveralClasses(CrammerSingerLoss(), COST, np.ones(4))
    _, X, y, weight = drawn_case("classes")
    problem = posed_on_device(posing, TensorTable(DeviceMatrix(tensor(X)), 1.0), tensor(y), tensor(weight), PLAIN_TERM).at(0.3)
    first, second = (DualCoordinate().begin(problem, NOWHERE, Setting(1e-6, seed)) for seed in (0, 1))
    for _ in range(12):
        first.advance(never)
        first.accelerate()
    state = first.snapshot()
    second.resume(state)
    for run in (first, second):
        run.advance(never)
        run.accelerate()
        run.advance(never)
    torch.testing.assert_close(first.A, second.A, rtol=1e-12, atol=1e-14)
    assert first.passes == second.passes == 14 and first.synchronise() == pytest.approx(second.synchronise(), rel=1e-12)


@pytest.mark.parametrize("solver", ["newton", "online", "frank_wolfe"])
def test_other_solvers_say_that_they_take_no_tensors(solver):
    model, X, y, _ = drawn_case("classes")
    with pytest.raises(TypeError, match=r"dual_coordinate|TensorProblem"):
        model.set_params(solver=solver).fit(tensor(X), tensor(y))


@pytest.mark.parametrize("name", ["two classes, squared", "classes", "top-2, smoothed"])
def test_duals_that_the_device_has_no_room_for_lie_in_host_memory(name, monkeypatch):
    """Fetched and brought back block by block, with extrapolation: the same optimum, and duals that prove it."""
    asked = []
    monkeypatch.setattr(device_ascent, "duals_fit", lambda *given: asked.append(given) or False)
    model, X, y, weight = drawn_case(name)
    model.set_params(C=0.3, tol=1e-5, keep_duals=True, warm_start=True).fit(tensor(X), tensor(y), weight)
    assert asked and model._last.duals.tensor.device.type == "cpu"
    check(model, X, y, weight)
    certificates.recomputed(model, reference(model, X, y, weight), rel=1e-8)
    assert model.n_iter_ > 10  # extrapolated, too
    assert model.fit(tensor(X), tensor(y), weight).n_iter_ <= 10


def test_duals_take_a_part_of_the_room(monkeypatch):
    monkeypatch.setattr(device_ascent, "room_of", lambda device: 1000)
    gpu = torch.device("cuda:0")
    assert device_ascent.duals_fit(700, gpu, 0.7) and not device_ascent.duals_fit(701, gpu, 0.7)
    assert device_ascent.duals_fit(10**12, torch.device("cpu"), 0.7)


def test_time_and_callbacks_end_a_run_with_its_true_certificate():
    model, X, y, weight = drawn_case("classes")
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.set_params(C=10.0, tol=1e-12, max_time=0.05).fit(tensor(X), tensor(y), weight)
    W, b = certificates.shaped(model)
    assert reference(model, X, y, weight).primal(W, b) == pytest.approx(model.certificate_.primal, rel=1e-9)


def test_the_device_that_is_asked_for_takes_arrays():
    model, X, y, weight = drawn_case("classes")
    model.set_params(C=0.3, device=DEVICE).fit(X, y, weight)
    check(model, X, y, weight)
    assert isinstance(model.predict(X), np.ndarray)


def test_a_risk_on_the_device_is_minimised():
    """The hinge loss in plain PyTorch, against the same problem posed by an estimator."""
    _, X, y, _ = drawn_case("two classes")
    rows, sign = tensor(X, dtype=torch.float64), tensor(np.where(y == 1, 1.0, -1.0))

    def hinge(w):
        active = 1.0 - sign * (rows @ torch.as_tensor(w, device=rows.device)) > 0.0
        slope = -(sign[:, None] * rows)[active].sum(0)
        return (1.0 - sign * (rows @ torch.as_tensor(w, device=rows.device)))[active].sum(), slope

    found = mm.minimize(hinge, X.shape[1], C=0.3, tol=1e-4).certificate
    same = mm.SVMClassifier(0.3, tol=1e-4, fit_intercept=False, random_state=0).fit(tensor(X), tensor(y)).certificate_
    assert found.converged and found.dual <= same.primal and same.dual <= found.primal
    with pytest.raises(ValueError, match="what the risk returns requires grad"):
        mm.minimize(lambda w: (rows.sum().requires_grad_(), rows[0]), X.shape[1])


def test_thresholds_and_the_best_labels_of_tensors():
    X, Y = multilabel.data()
    names, cuts = ["x", "y", "z"], [0.3, -0.2, 0.1]
    model = mm.MultilabelSVMClassifier(thresholds=cuts, random_state=0).fit(tensor(X), tensor(Y), classes=names)
    scores = model.decision_function(tensor(X)).cpu().numpy()
    found = model.predict(tensor(X))
    assert isinstance(found, torch.Tensor) and model.classes_.tolist() == names
    np.testing.assert_array_equal(found.cpu().numpy(), scores > np.array(cuts))
    assert model.predict_topk(tensor(X), 2).tolist() == model.predict_topk(X, 2).tolist()
    assert model.predict_labels(tensor(X)) == model.predict_labels(X)
    assert model.score(tensor(X), tensor(Y)) == pytest.approx(model.score(X, Y))
    assert model.score_topk(tensor(X), tensor(Y), 2) == pytest.approx(model.score_topk(X, Y, 2))
    by_number = mm.MultilabelSVMClassifier(random_state=0, output="pandas").fit(tensor(X), tensor(Y))
    assert isinstance(by_number.predict_topk(tensor(X), 1), torch.Tensor) and by_number.predict(tensor(X)).shape == Y.shape
    with pytest.raises(
        ValueError, match=r"thresholds='f1' needs all samples at once.*for a device give X\.cpu\(\)\.numpy\(\), or give"
    ):
        mm.MultilabelSVMClassifier(thresholds="f1").fit(tensor(X), tensor(Y))
