"""Tensors in the place of X: what is refused, and in which words; and that torch is not imported without need."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from helpers.devices import DEVICE, methods_of_devices, tensor  # noqa: F401 - a fixture of all tests

import maxmargin as mm
from maxmargin.data.tensors import TensorTable, checked_tensor, device_of, host_values, is_tensor, tensor_of
from maxmargin.losses.base import MulticlassLoss

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
Y = np.arange(12) % 3


class Lent:
    """What another library hands over: DLPack and nothing else."""

    def __init__(self, lent):
        self.lent = lent

    def __dlpack__(self, **options):
        return self.lent.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.lent.__dlpack_device__()


class OwnLoss(MulticlassLoss):
    """Somebody's own loss of all classes, which nobody has written for tensors."""

    def of(self, *given):
        raise AssertionError("no kernel sees it")


def with_entry(value):
    found = tensor(X).clone()
    found[7, 1] = value
    return found


@pytest.mark.parametrize(
    "given, match",
    [
        (lambda: tensor(X).requires_grad_(), r"requires grad.*X\.detach\(\)"),
        (lambda: tensor(X).long(), r"torch\.int64.*X\.float\(\)"),
        (lambda: tensor(X) > 0, r"torch\.bool"),
        (lambda: tensor(X).to(torch.complex64), "complex"),
        (lambda: tensor(X)[:, 0], r"shape \(12,\)"),
        (lambda: tensor(X)[:0], "empty"),
        (lambda: tensor(X).to_sparse(), "sparse"),
        (lambda: with_entry(float("nan")), "NaN or infinity, first in row 7"),
        (lambda: with_entry(float("-inf")), "NaN or infinity, first in row 7"),
        (lambda: tensor(X).to(torch.float8_e4m3fn), "float8"),
        (lambda: torch.empty(3, 3, device="meta"), "meta"),
    ],
)
def test_what_is_refused(given, match):
    model = mm.SVMClassifier()
    with pytest.raises(ValueError, match=match):
        model.fit(given(), Y)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    "params, match",
    [
        ({"kernel": "rbf"}, "kernel='rbf' needs X in host memory"),
        ({"standardize": True}, "standardize=True needs X in host memory"),
        ({"probability": "sigmoid"}, "probability='sigmoid' needs X in host memory"),
        ({"prior_covariance": np.eye(3), "positive": True}, "prior_covariance needs X in host memory"),
        ({"solver": "frank_wolfe"}, "dual_coordinate"),
        ({"device": "cuda:99"}, "GPU"),
        ({"device": "nowhere"}, "torch.device"),
        ({"loss": OwnLoss()}, "OwnLoss has no form for tensors"),
    ],
)
def test_parameters_that_do_not_go_with_tensors(params, match):
    with pytest.raises((ValueError, TypeError), match=match):
        mm.SVMClassifier(**params).fit(tensor(X), Y)


def test_labels_and_weights_are_checked():
    with pytest.raises(ValueError, match="12 samples, y has 11"):
        mm.SVMClassifier().fit(tensor(X), tensor(Y)[:-1])
    with pytest.raises(ValueError, match="requires grad"):
        mm.SVMRegressor().fit(tensor(X), tensor(Y).float().requires_grad_())
    with pytest.raises(ValueError, match="X has 2 features"):
        mm.SVMClassifier().fit(tensor(X), Y).predict(tensor(X)[:, :2])
    with pytest.raises(ValueError, match="partial_fit"):
        mm.SVMClassifier().partial_fit(tensor(X), Y, classes=[0, 1, 2])


def test_dlpack_is_taken_without_a_copy():
    lent = Lent(tensor(X))
    assert is_tensor(lent) and tensor_of(lent).data_ptr() == lent.lent.data_ptr()
    model = mm.SVMClassifier(random_state=0)
    np.testing.assert_array_equal(model.fit(lent, Y).coef_, model.fit(tensor(X), Y).coef_)


def test_arrays_are_no_tensors():
    assert not is_tensor(X) and not is_tensor([[1.0]]) and not is_tensor(np.float32(1))
    assert host_values(Y) is Y


def test_the_table_is_the_tensor_itself():
    given = tensor(X)
    table = TensorTable(checked_tensor(given), 2.0)
    assert table.tensor is given and table.shape == (12, 3) and table.dtype == np.float32
    np.testing.assert_allclose(table.norms(), (X.astype(float) ** 2).sum(axis=1) + 4.0, rtol=1e-12)
    with pytest.raises(TypeError, match="host memory"):
        _ = table.rows
    rows, part = next(table.visits(tensor(np.array([5, 2, 9])), 2, torch.float64))
    np.testing.assert_array_equal(part.cpu(), X[[5, 2]])
    np.testing.assert_array_equal(rows.cpu(), [5, 2])


def test_a_gpu_that_is_not_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="asks for a GPU, but"):
        device_of("cuda")
    with pytest.raises(ValueError, match="Leave device out"):
        mm.SVMClassifier(device="cuda").fit(X, Y)


def test_a_tensor_elsewhere_than_asked_for():
    other = "meta" if DEVICE == "cpu" else "cpu"
    with pytest.raises(ValueError, match=r"moves it|meta"):
        mm.SVMClassifier(device=other).fit(tensor(X), Y)


def test_torch_is_not_imported_without_need():
    code = "import sys, numpy as np, maxmargin as mm; mm.SVMClassifier(max_iter=1); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_search_over_folds_works_on_the_processor():
    with pytest.raises(ValueError, match="can be fitted by SVMClassifier at one C"):
        mm.SVMClassifierCV().fit(tensor(X), Y)
    with pytest.raises(ValueError, match="leave device out"):
        mm.SVMClassifierCV(device="cpu").fit(X, Y)
