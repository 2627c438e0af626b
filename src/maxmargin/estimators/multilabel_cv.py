"""`MultilabelSVMClassifierCV`: `MultilabelSVMClassifier` with a C chosen by cross-validation."""

import numpy as np
import scipy.sparse as sp

from ..data.label_lists import given_labels, names_of_count
from .bounds import DefaultScore, label_bounds
from .multilabel import MultilabelSVMClassifier
from .search import ReadSamples, Search, constraints_of_search, init_of_search


class MultilabelSVMClassifierCV(Search, MultilabelSVMClassifier):
    """`MultilabelSVMClassifier` that chooses its C by cross-validation, one for all labels. How, and what `Cs`, `cv`, `refit`,
    `search_tol` and the attributes of the search mean, is told at `SVMClassifierCV`; folds are runs of samples, in their order.

    Parameters
    ----------
    Cs, cv, refit, search_tol
        As for `SVMClassifierCV`.
    scoring : str or callable, optional
        What is best, as in scikit-learn. None is `score`, the share of samples with all labels right;
        "f1_micro" and the like judge labels one by one.
    kernel, label_prior, label_weight, cost, loss and all others
        As for `MultilabelSVMClassifier`; `max_iter`, `max_time` and `n_jobs` as for `SVMClassifierCV`.

    Attributes
    ----------
    C_, Cs_, scores_, score_bounds_
        As for `SVMClassifierCV`.
    coef_, intercept_, classes_, certificate_, dual_coef_, support_ and all others
        As for `MultilabelSVMClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> import maxmargin as mm
    >>> X, Y = make_multilabel_classification(200, random_state=0)
    >>> model = mm.MultilabelSVMClassifierCV([1e-4, 1e-3, 1e-2], scoring="f1_micro", random_state=0).fit(X, Y)
    >>> model.scores_.shape, model.certificate_.converged
    ((5, 3), True)
    """

    _estimator = MultilabelSVMClassifier
    _parameter_constraints = constraints_of_search(MultilabelSVMClassifier)
    __init__ = init_of_search(MultilabelSVMClassifier)
    _default_score = DefaultScore("accuracy", label_bounds)
    _multilabel = True

    def fit(self, X, y=None, sample_weight=None, mask=None, classes=None):
        """Choose C by cross-validation, and find its optimum over all samples to the relative duality gap `tol`.

        Parameters
        ----------
        X : array, data frame or CSR matrix of shape (n_samples, n_features), or a multi-label source
        y : array, data frame or sparse matrix of shape (n_samples, n_labels), or a list of lists, tuples or sets of labels
            Indicators 0 and 1. NaN, for a label that is not known, needs a `scoring` of your own that knows what to do with it.
            A `scoring` gets a matrix in every case.
        sample_weight : array of shape (n_samples,), optional
            Weights s_i >= 0; they go with their samples into folds and, where the scorer takes weights, into the scores.
        mask : None
            Not served: a score cannot know what was masked. Put NaN into y instead.
        classes : array of shape (n_labels,) or fitted MultiLabelBinarizer, optional
            As for `MultilabelSVMClassifier`.

        Returns
        -------
        self
        """
        if mask is not None:
            raise ValueError(
                "mask cannot be told to a scorer: put NaN where y is not known, and give a scoring that leaves it out."
            )
        if y is None:
            super().fit(X, y, sample_weight)
            names = None if classes is None else names_of_count(classes, len(self.classes_))
        else:
            matrix, names, listed = given_labels(y, classes)
            super().fit(X, matrix.toarray() if listed else matrix, sample_weight)
        if names is not None and self.refit:
            self.classes_ = names_of_count(names, len(self.classes_))
        return self

    def _checked(self, X, y, sample_weight):
        X, labels = self._checked_pair(X, y, None)
        weight = None if sample_weight is None else self._checked_weight(sample_weight, X)
        if labels.columns.missing is not None and not callable(self.scoring):
            raise ValueError("y has labels that are not known, which no score of scikit-learn takes: give a function as scoring.")
        return ReadSamples(X, sp.csr_array(y) if labels.sparse else np.asanyarray(y).astype(labels.dtype), weight)
