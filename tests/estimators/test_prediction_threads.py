"""Predictions on several threads are those of one."""

import numpy as np
import pytest
import scipy.sparse as sp

import maxmargin as mm
from maxmargin.estimators import kernel

rng = np.random.default_rng(0)
X = np.where(rng.random((60, 5)) < 0.5, 0.0, rng.normal(size=(60, 5)))
Y = X @ rng.normal(size=(5, 3)) > 0


@pytest.mark.parametrize("rows", [1, 2, 60])
def test_rows_of_a_sparse_matrix(rows):
    model = mm.SVMClassifier(random_state=0, tol=1e-2).fit(sp.csr_matrix(X), Y[:, 0])
    one = model.decision_function(sp.csr_matrix(X[:rows]))
    for n_jobs in (2, 3, 100):
        assert np.array_equal(model.set_params(n_jobs=n_jobs).decision_function(sp.csr_array(X[:rows])), one)


def test_kernel_values(monkeypatch):
    model = mm.SVMClassifier(kernel="rbf", random_state=0, tol=1e-2).fit(X, Y[:, 0])
    one = model.decision_function(X)
    monkeypatch.setattr(kernel, "PREDICTION", kernel.PREDICTION._replace(kernel=7))
    for n_jobs in (2, 3, 100):
        assert model.set_params(n_jobs=n_jobs).decision_function(X) == pytest.approx(one, rel=1e-12, abs=1e-12)
