"""Classes, targets and labels that stay beside X: the same codes, bits and masses as those of arrays."""

import warnings

import numpy as np
import pytest
import torch
from helpers.devices import DEVICE, methods_of_devices, tensor  # noqa: F401 - a fixture of all tests

import maxmargin as mm
from maxmargin.data.indicators import checked_labels, class_bits
from maxmargin.data.tensor_targets import class_bits_beside, labels_beside, numbered, target_beside
from maxmargin.data.tensors import DeviceMatrix

RNG = np.random.default_rng(0)
ROWS = DeviceMatrix(tensor(RNG.normal(size=(50, 3)).astype(np.float32)))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.uint8, bool])
def test_classes_are_numbered_as_by_numpy(dtype):
    y = RNG.integers(0, 2 if dtype is bool else 9, 50).astype(dtype)
    y[y == 4] = 5
    classes, code = np.unique(y, return_inverse=True)
    for given in (y, torch.from_numpy(y), tensor(y)):
        beside = target_beside(ROWS, given)
        assert beside.device.type == DEVICE
        found, numbers = numbered(beside)
        np.testing.assert_array_equal(found, classes)
        np.testing.assert_array_equal(numbers.cpu(), code)
        assert found.dtype == y.dtype and isinstance(found, np.ndarray)


def test_what_stays_with_the_processor():
    for given in (np.array(["a", "b"] * 25), [0, 1] * 25, np.ones((50, 1), int), tensor(np.ones((50, 1))), np.ones(50)):
        assert target_beside(ROWS, given) is None
    assert target_beside(ROWS, tensor(np.ones(50), torch.float16)) is None
    assert numbered(tensor(np.ones(50))) is None


@pytest.mark.parametrize("classes", [3, 8, 19])
def test_bits_of_classes(classes):
    code = RNG.integers(0, classes, 50)
    for one, other in zip(class_bits_beside(tensor(code), classes), class_bits(code, classes)):
        np.testing.assert_array_equal(one.cpu(), other)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("labels", [3, 16, 21])
def test_labels_are_packed_and_weighed_as_those_of_arrays(labels, missing):
    Y = (RNG.random((50, labels)) < 0.3).astype(float)
    if missing:
        Y[RNG.random(Y.shape) < 0.2] = np.nan
    found, same = labels_beside(ROWS, tensor(Y), None), checked_labels(Y)
    assert found.columns.shape == same.columns.shape and found.dtype == same.dtype and not found.sparse
    for one, other in zip(found.columns.packed(np.arange(labels)), same.columns.packed(np.arange(labels))):
        np.testing.assert_array_equal(one.cpu(), other)
    weight = RNG.uniform(0.1, 2.0, 50)
    np.testing.assert_allclose(found.columns.masses(weight), same.columns.masses(weight), rtol=1e-12)


def test_labels_that_are_none():
    with pytest.raises(ValueError, match=r"Y holds 2.* in row 7, column 1; labels are 0 or 1"):
        Y = np.zeros((50, 3))
        Y[7, 1] = 2
        mm.MultilabelSVMClassifier().fit(ROWS.tensor, tensor(Y))
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples"):
        mm.MultilabelSVMClassifier().fit(ROWS.tensor, tensor(np.zeros((49, 3))))
    assert labels_beside(ROWS, tensor(np.zeros(50)), None) is None and labels_beside(ROWS, np.zeros((50, 3)), None) is None
    with pytest.raises(ValueError, match="a matrix of shape"):
        mm.MultilabelSVMClassifier().fit(ROWS.tensor, tensor(np.zeros(50)))


@pytest.mark.parametrize("params", [{}, {"class_weight": "balanced"}, {"class_weight": {3: 2.0}}])
def test_models_are_those_of_labels_in_host_memory(params):
    """Whole numbers stay on the device, real numbers and strings do not: the problem is the same."""
    y = RNG.integers(3, 6, 50)
    weight = RNG.uniform(0.1, 2.0, 50)
    model = mm.SVMClassifier(0.1, random_state=0, **params)
    first = model.fit(ROWS.tensor, tensor(y), weight)
    coef, classes = first.coef_, first.classes_
    for other in (y, y.tolist(), tensor(y.astype(np.float64)), tensor(y)[:, None]):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "A column-vector y was passed")
            again = model.fit(ROWS.tensor, other, tensor(weight))
        np.testing.assert_array_equal(again.coef_, coef)
        np.testing.assert_array_equal(again.classes_, classes)


def test_targets_are_checked():
    with pytest.raises(ValueError, match="Input y contains NaN"):
        mm.SVMRegressor().fit(ROWS.tensor, tensor(np.full(50, np.nan)))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        mm.SVMClassifier().fit(ROWS.tensor, tensor(RNG.normal(size=50)))
    with pytest.raises(ValueError, match="only one class"):
        mm.SVMClassifier().fit(ROWS.tensor, tensor(np.ones(50, int)))
