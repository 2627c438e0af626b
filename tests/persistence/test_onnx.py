"""ONNX graphs, by onnxruntime, against `predict`, `decision_function` and `predict_proba`."""

from copy import deepcopy

import numpy as np
import onnxruntime as ort
import pytest
import skl2onnx
from helpers.models import LABELS, TWO, X, fitted
from helpers.structured import words
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin as mm
from maxmargin.estimators.probability import Columns, Interpolated
from maxmargin.structures import Chain

CONVERTED = [
    "two classes",
    "three classes",
    "booleans",
    "mixed objects",
    "top-2",
    "labels",
    "label prior",
    "named labels",
    "search",
    "search, labels",
    "search, top-2",
    "one against the rest",
]
REGRESSIONS = ["regression", "search, regression"]
NEW = np.random.default_rng(5).normal(size=(50, 5))


def linear(name):
    if name != "one against the rest":
        return fitted(name)
    return mm.SVMClassifier(multi_class="ovr", tol=1e-2, random_state=0).fit(X, TWO + LABELS[:, 1])


def answers(graph, samples):
    session = ort.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {session.get_inputs()[0].name: samples}), strict=True))


def close(found, expected, dtype):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CONVERTED)
def test_classes_and_labels(name, dtype):
    model, samples = linear(name), NEW.astype(dtype)
    found = answers(mm.to_onnx(model, dtype=dtype), samples)
    assert found.keys() == {"label", "scores"}
    assert found["scores"].dtype == dtype and found["scores"].shape == model.decision_function(samples).shape
    close(found["scores"], model.decision_function(samples), dtype)
    np.testing.assert_array_equal(found["label"], model.predict(samples))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thresholds_of_labels_at_the_scores_themselves(dtype):
    model, samples = deepcopy(fitted("labels")), NEW.astype(dtype)
    graph = mm.to_onnx(model, dtype=dtype)
    scores = answers(graph, samples)["scores"].astype(np.float64)
    for beside in (0.0, 1e-12, -1e-12):  # a threshold that single precision rounds to a score, from either side
        model.thresholds_ = scores[3] + beside
        found = answers(mm.to_onnx(model, dtype=dtype), samples)["label"]
        np.testing.assert_array_equal(found, scores > model.thresholds_)


def likely(name, loss):
    """With probabilities; those of a logistic model are its scores, whatever it was fitted with."""
    model = deepcopy(linear(name))
    return model.set_params(loss=loss) if loss else model


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("sigmoid", None),
        ("isotonic", None),
        ("temperature", None),
        *((name, "log_loss") for name in ("two classes", "three classes", "one against the rest", "labels")),
    ],
)
def test_probabilities(name, loss, dtype):
    model, samples = likely(name, loss), NEW.astype(dtype)
    found = answers(mm.to_onnx(model, dtype=dtype), samples)["probabilities"]
    assert found.dtype == dtype
    single = 1e-3 if name == "isotonic" else 1e-5  # lines between places next to each other are steep
    atol = single if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found, model.predict_proba(samples), rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lines_between_places(dtype):
    """At the places, between them and beyond; all columns without a chance share evenly."""
    model = deepcopy(fitted("isotonic"))
    curves = [Interpolated(np.array([-1.0, 0.0, 0.5]), np.array(values)) for values in ([0.0, 0.5, 1.0], [0.0, 0.0, 0.25])]
    curves.append(Interpolated(np.array([0.25]), np.array([0.0])))
    model._calibration, scores = Columns(curves, shared=True), [-2.0, -1.0, -0.25, 0.0, 0.3, 0.5, 7.0]
    model.coef_, model.intercept_ = np.eye(3, 5), np.zeros(3)
    samples = np.array([[a, b, c, 0.0, 0.0] for a in scores for b in scores for c in scores], dtype)
    close(answers(mm.to_onnx(model, dtype=dtype), samples)["probabilities"], model.predict_proba(samples), dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", REGRESSIONS)
def test_regression(name, dtype):
    model, samples = fitted(name), NEW.astype(dtype)
    found = answers(mm.to_onnx(model, dtype=dtype), samples)["variable"]
    assert found.dtype == dtype and found.shape == (50, 1)
    close(found.ravel(), model.predict(samples), dtype)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_each_against_the_rest_in_a_pipeline(loss):
    """skl2onnx's own function takes pipelines, once it was told."""
    mm.register_onnx()
    model = mm.SVMClassifier(loss=loss, multi_class="ovr", random_state=0).fit(
        StandardScaler().fit_transform(X), TWO + LABELS[:, 1]
    )
    both = make_pipeline(StandardScaler().fit(X), model)
    samples = NEW.astype(np.float32)
    found = answers(skl2onnx.to_onnx(both, samples[:1], target_opset=18), samples)
    np.testing.assert_array_equal(found["label"], both.predict(samples))
    close(found["scores"], both.decision_function(samples), np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ends", [True, False])
def test_chains(ends, dtype):
    """Sequences of any length, one at a time; texts and numbers as labels."""
    samples, outputs = words()
    outputs = outputs if ends else [["abc"[k] for k in output] for output in outputs]
    model = mm.StructuredSVM(Chain(first_last_bias=ends, bias=ends), tol=1e-2, random_state=0).fit(samples, outputs)
    graph, rng = mm.to_onnx(model, dtype=dtype), np.random.default_rng(1)
    for length in (1, 2, 7):
        sample = rng.normal(size=(length, 3)).astype(dtype)
        (best,), (worth,) = model.predict([sample], return_score=True)
        found = answers(graph, sample)
        assert found["label"].tolist() == list(best)
        close(found["score"], worth, dtype)


def test_chains_under_rules():
    samples, outputs = words()
    structure = Chain(forbidden=[(1, 0), (2, 0), (2, 1)], required={2: [2, None]})
    model = mm.StructuredSVM(structure, tol=1e-2, random_state=0).fit(samples, [sorted(output) for output in outputs])
    graph, rng = mm.to_onnx(model, dtype=np.float32), np.random.default_rng(1)
    for length in (1, 2, 7):
        sample = 5.0 * rng.normal(size=(length, 3)).astype(np.float32)
        (best,), (worth,) = model.predict([sample], return_score=True)
        found = answers(graph, sample)
        assert found["label"].tolist() == best == sorted(best)
        close(found["score"], worth, np.float32)


def test_what_has_no_graph():
    with pytest.raises(ValueError, match="kernel='rbf' has no weights of features"):
        mm.to_onnx(fitted("rbf"))
    with pytest.raises(TypeError, match="to_onnx takes linear models"):
        mm.to_onnx(fitted("multiclass"))
    with pytest.raises(ValueError, match="ONNX knows labels that are integers, booleans or texts; these are"):
        mm.to_onnx(fitted("chains"))
    with pytest.raises(ValueError, match="is not fitted"):
        mm.to_onnx(mm.SVMClassifier())
    with pytest.raises(ValueError, match="probability was set after the last fit of this model"):
        mm.to_onnx(deepcopy(fitted("two classes")).set_params(probability="sigmoid"))
    with pytest.raises(ValueError, match="dtype must be float32 or float64"):
        mm.to_onnx(fitted("two classes"), dtype=np.int64)
