"""Priors on labels: from a table of labels, from signatures, and the ridge that mends one."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.multilabel import data, some_missing

import maxmargin as mm


def test_label_correlation_is_that_of_signs():
    _, Y = data()
    S = 2.0 * Y - 1.0
    expected = S.T @ S / len(S)
    for form in (Y, sp.csr_array(Y), Y.astype(bool)):
        np.testing.assert_allclose(mm.label_correlation(form), expected, atol=1e-12)
    np.testing.assert_allclose(mm.label_correlation(Y, ridge=0.3), expected + 0.3 * np.eye(3), atol=1e-12)
    missing = some_missing(Y)
    S = np.nan_to_num(2.0 * missing - 1.0)
    known = np.sqrt(np.sum(S**2, axis=0))
    R = mm.label_correlation(missing)
    np.testing.assert_allclose(R, S.T @ S / known / known[:, None], atol=1e-12)
    np.testing.assert_allclose(np.diag(R), 1.0)
    assert np.linalg.eigvalsh(R).min() >= -1e-12
    with pytest.raises(ValueError, match="ridge must be a number >= 0"):
        mm.label_correlation(Y, ridge=-1.0)


def test_prior_from_signatures():
    signatures, p = np.array([[1, 0, 1], [0, 0, 1]]), [3.0, 1.0]
    S = 2.0 * signatures - 1.0
    expected = 0.75 * np.outer(S[0], S[0]) + 0.25 * np.outer(S[1], S[1])
    np.testing.assert_allclose(mm.prior_from_signatures(signatures, p, ridge=0.0), expected)
    np.testing.assert_allclose(mm.prior_from_signatures(S, p), expected + 0.1 * np.eye(3))
    np.testing.assert_allclose(mm.prior_from_signatures(S / 2, ridge=0.0), S.T @ S / 8)
    for wrong, message in (
        (([[2.0, 0.0]],), "between -1 and 1; the largest is 2"),
        (([1.0, 0.0],), "must have the shape"),
        ((signatures, [1.0]), "class_probabilities has shape"),
        ((signatures, [-1.0, 2.0]), "must be >= 0"),
        ((signatures, [0.0, 0.0]), "at least one of them positive"),
        (([[np.nan, 0.0]],), "must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            mm.prior_from_signatures(*wrong)


def test_the_ridge_that_the_message_names_mends_the_prior():
    X, Y = data()
    R = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(ValueError, match=r"positive semidefinite; its smallest eigenvalue is -1\. Adding a ridge of 1\.01"):
        mm.MultilabelSVMClassifier(label_prior=R).fit(X, Y)
    assert mm.MultilabelSVMClassifier(label_prior=R + 1.01 * np.eye(3)).fit(X, Y).certificate_.converged
