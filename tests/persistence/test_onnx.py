"""ONNX graphs, by onnxruntime, against `predict` and `decision_function`."""

import numpy as np
import onnxruntime as ort
import pytest
import skl2onnx
from helpers.models import LABELS, TWO, X, fitted
from helpers.structured import words
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin as mm
from maxmargin.structures import Chain

CONVERTED = [
    "two classes",
    "three classes",
    "booleans",
    "mixed objects",
    "top-2",
    "labels",
    "label prior",
    "search",
    "search, labels",
]
REGRESSIONS = ["regression", "search, regression"]
NEW = np.random.default_rng(5).normal(size=(50, 5))


def answers(graph, samples):
    session = ort.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {session.get_inputs()[0].name: samples}), strict=True))


def close(found, expected, dtype):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CONVERTED)
def test_classes_and_labels(name, dtype):
    model, samples = fitted(name), NEW.astype(dtype)
    found = answers(mm.to_onnx(model, dtype=dtype), samples)
    assert found["scores"].dtype == dtype and found["scores"].shape == model.decision_function(samples).shape
    close(found["scores"], model.decision_function(samples), dtype)
    np.testing.assert_array_equal(found["label"], model.predict(samples))


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
    with pytest.raises(ValueError, match="dtype must be float32 or float64"):
        mm.to_onnx(fitted("two classes"), dtype=np.int64)
