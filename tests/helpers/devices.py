"""Where tensors of tests lie: in host memory, or on a GPU (`make test-gpu`); and the optimum that fits to them are held against.

In host memory that is the one of the independent convex solver. Machines with a GPU seldom have it: there it is a model of ours,
fitted on the processor and certified far beyond what the fit on the device is asked for.
"""

import os

import numpy as np
import pytest
import torch
from sklearn.base import clone

from maxmargin.data import tensors

from .certificates import shaped
from .reference import Point, Reference

DEVICE = os.environ.get("MAXMARGIN_TEST_DEVICE", "cpu")
torch.set_num_threads(1)
FINE = 1e-10  # relative gap of the model that stands for the optimum


@pytest.fixture(autouse=True)
def methods_of_devices(monkeypatch):
    """For the tests of a file that imports it: tensors in host memory are fitted as those on a GPU are, not as arrays."""
    monkeypatch.setattr(tensors, "in_host_memory", lambda X: False)


def tensor(array, dtype=None) -> torch.Tensor:
    return torch.as_tensor(np.asarray(array), device=DEVICE, dtype=dtype)


def on_processor(model, X, y, weight=None):
    """The same model fitted to arrays, to a fine gap."""
    fitted = clone(model).set_params(tol=FINE, device=None, keep_duals=False, warm_start=False, solver="auto", max_iter=100_000)
    fitted.fit(np.asarray(X, np.float64), y, sample_weight=weight)
    assert fitted.certificate_.converged
    return fitted


def best_point(model, problem: Reference, X, y, weight=None) -> Point:
    """The optimum of the problem of this model."""
    if DEVICE == "cpu":
        return problem.optimum()
    W, b = shaped(on_processor(model, X, y, weight))
    return Point(problem.primal(W, b), W, b)
