"""What is known beforehand of labels that go together: the matrix R of multi-label models, after Hariharan et al. (2012).

"Correlation" is theirs: of labels +-1, not centred. R = sum_c p(c) y_c y_c' over the classes that a model will meet makes
labels of classes never seen in training go together as they should.
"""

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..data.indicators import checked_labels
from ..data.matrices import SYMMETRIC, numbers

ZERO_EIGENVALUE = 1e-10  # part of the largest eigenvalue that counts as zero


def label_correlation(Y, ridge: float = 0.0) -> np.ndarray:
    """The correlation of labels +-1, not centred, for use as `label_prior`.

    Parameters
    ----------
    Y : array, data frame or sparse matrix of shape (n_samples, n_labels), or lists of labels
        Indicators 0 and 1; NaN where a label is not known. A sparse Y is not made dense. Labels in lists are in their order, as
        `MultilabelSVMClassifier` has them.
    ridge : float, default=0.0
        Added to the diagonal. Without it R may be singular, which is allowed; a small one lets labels deviate from it.

    Returns
    -------
    R : array of shape (n_labels, n_labels)
        Mean of y_l y_k over the samples, with ones on the diagonal before the ridge is added; a label that is not known counts as
        zero, and R_lk is divided by the root of the number of samples that know l and that know k.
    """
    ridge = _checked_ridge(ridge)
    found = checked_labels(Y).columns
    n, count = found.shape
    present = _ones(found.present)
    missing = sp.csc_array((n, count)) if found.missing is None else _ones(found.missing)
    have, known = found.counts.astype(np.float64), n - np.diff(missing.indptr).astype(np.float64)
    # y = 2 present + missing - 1, so that nothing dense of the size of Y is formed
    twice = 2.0 * present + missing
    sums = 2.0 * have + (n - known)
    products = (twice.T @ twice).toarray() - sums[:, None] - sums + n
    scale = 1.0 / np.sqrt(np.maximum(known, 1.0))
    return products * scale * scale[:, None] + ridge * np.eye(count)


def prior_from_signatures(signatures, class_probabilities=None, ridge: float = 0.1) -> np.ndarray:
    """R for classes that are known by their attributes only: sum_c p(c) y_c y_c' + ridge I.

    Parameters
    ----------
    signatures : array of shape (n_classes, n_attributes)
        Attributes of each class: 0 and 1, or numbers between -1 (absent) and 1 (present).
    class_probabilities : array of shape (n_classes,), optional
        How often each class will be met; they are scaled to sum to one. By default all the same.
    ridge : float, default=0.1
        Added to the diagonal: how much an attribute may deviate from what the signatures say. With 0 it may not at all.

    Returns
    -------
    R : array of shape (n_attributes, n_attributes)
    """
    ridge = _checked_ridge(ridge)
    y = checked_signatures(signatures)
    p = checked_probabilities(class_probabilities, len(y))
    return (y * p[:, None]).T @ y + ridge * np.eye(y.shape[1])


def checked_prior(R, count: int) -> np.ndarray:
    """R for `count` labels: symmetric and positive semidefinite, or a sentence that says how to mend it."""
    R = numbers("label_prior", R)
    if R.shape != (count, count):
        raise ValueError(f"label_prior has shape {R.shape}; for the {count} labels of Y it must be ({count}, {count}).")
    size = np.abs(R).max()
    off = np.abs(R - R.T)
    if off.max() > SYMMETRIC * size:
        i, j = np.unravel_index(off.argmax(), off.shape)
        raise ValueError(f"label_prior must be symmetric; entry ({i}, {j}) is {R[i, j]:g} and entry ({j}, {i}) is {R[j, i]:g}.")
    R = 0.5 * (R + R.T)
    lowest, highest = extremes(R)
    if lowest < -ZERO_EIGENVALUE * max(highest, -lowest):
        raise ValueError(
            f"label_prior must be positive semidefinite; its smallest eigenvalue is {lowest:.3g}. "
            f"Adding a ridge of {-1.01 * lowest:.3g} to its diagonal would mend it."
        )
    return R - 2.0 * lowest * np.eye(count) if lowest < 0.0 else R  # what rounding took below zero


def extremes(R: np.ndarray) -> tuple[float, float]:
    """The smallest and the largest eigenvalue, component by component."""
    _, component = connected_components(sp.csr_array(R), directed=False)
    order = np.argsort(component, kind="stable")
    found = []
    for which in np.split(order, np.flatnonzero(np.diff(component[order])) + 1):
        values = R[which, which] if len(which) == 1 else np.linalg.eigvalsh(R[np.ix_(which, which)])
        found.append((values[0], values[-1]))
    lowest, highest = zip(*found, strict=True)
    return float(min(lowest)), float(max(highest))


def checked_signatures(signatures) -> np.ndarray:
    """Signatures between -1 and 1."""
    y = numbers("signatures", signatures)
    if y.ndim != 2 or 0 in y.shape:
        raise ValueError(f"signatures must have the shape (n_classes, n_attributes); got {y.shape}.")
    if np.all((y == 0.0) | (y == 1.0)):
        return 2.0 * y - 1.0
    if np.abs(y).max() > 1.0:
        raise ValueError(f"signatures must be 0 and 1, or lie between -1 and 1; the largest is {np.abs(y).max():g}.")
    return y


def checked_probabilities(given, count: int) -> np.ndarray:
    """Probabilities of the classes, summing to one."""
    if given is None:
        return np.full(count, 1.0 / count)
    p = numbers("class_probabilities", given)
    if p.shape != (count,):
        raise ValueError(f"class_probabilities has shape {p.shape}; for {count} signatures it must be ({count},).")
    if np.any(p < 0) or not p.sum() > 0:
        raise ValueError("class_probabilities must be >= 0, at least one of them positive.")
    return p / p.sum()


def _ones(pattern: sp.csc_array) -> sp.csc_array:
    return sp.csc_array((np.ones(pattern.indices.size), pattern.indices, pattern.indptr), shape=pattern.shape)


def _checked_ridge(ridge) -> float:
    given = numbers("ridge", ridge)
    if given.shape != () or given < 0.0:
        raise ValueError(f"ridge must be a number >= 0, got {ridge!r}.")
    return float(given)
