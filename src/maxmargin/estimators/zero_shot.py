"""`ZeroShotClassifier`: classes that no sample was seen of, known by their attributes."""

from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from ..data.label_lists import given_labels
from ..data.mistakes import uneven
from ..regularizers.label_prior import checked_probabilities, checked_signatures, prior_from_signatures


class ZeroShotClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Learns attributes from samples of some classes, and recognises other classes by their attributes.

    A class is as good an answer as its signature y_c agrees with the scores z of the attributes: the one with the smallest
    hinge loss sum_l max(0, 1 - y_cl z_l) is predicted, the loss that the attributes were learned with.

    Parameters
    ----------
    estimator : multi-label classifier with a `decision_function` of shape (n_samples, n_attributes)
        If it has a parameter `label_prior` and that is None, it is set to `prior_from_signatures(signatures,
        class_probabilities, ridge)` for the fit: the attributes then go together as they do in the classes to come
        (Hariharan et al. 2012).
    signatures : array of shape (n_classes, n_attributes)
        Attributes of the classes to tell apart: 0 and 1, or numbers between -1 and 1.
    class_probabilities : array of shape (n_classes,), optional
        How often each is met. One with probability zero is never predicted. By default all the same.
    classes : array of shape (n_classes,), optional
        Their names; by default their numbers.
    ridge : float, default=0.1
        See `prior_from_signatures`.

    Attributes
    ----------
    estimator_ : the fitted estimator of attributes
    classes_ : array of shape (n_classes,)
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", "decision_function"])],
        "signatures": ["array-like"],
        "class_probabilities": ["array-like", None],
        "classes": ["array-like", None],
        "ridge": [Interval(Real, 0.0, None, closed="left")],
    }

    def __init__(self, estimator, signatures, class_probabilities=None, *, classes=None, ridge=0.1):
        self.estimator = estimator
        self.signatures = signatures
        self.class_probabilities = class_probabilities
        self.classes = classes
        self.ridge = ridge

    def fit(self, X, y, **fit_params):
        """Learn the attributes: `y` is their indicator matrix (n_samples, n_attributes), for samples of any classes."""
        self._validate_params()
        found = checked_signatures(self.signatures)
        probabilities = checked_probabilities(self.class_probabilities, len(found))
        names = np.arange(len(found)) if self.classes is None else np.asarray(self.classes)
        if names.shape != (len(found),) or len(np.unique(names)) != len(found):
            raise ValueError(f"classes must be {len(found)} different names, one for each signature.")
        if (reason := uneven(y)) is not None:
            raise ValueError(f"y must be the indicator matrix of the attributes: {reason}.")
        if given_labels(y).listed:
            raise ValueError("y must be the indicator matrix of the attributes, in the order of the signatures: lists have none.")
        shape = np.shape(y)
        if len(shape) != 2 or shape[1] != found.shape[1]:
            raise ValueError(f"y has shape {shape}; it must be (n_samples, {found.shape[1]}), the attributes of the signatures.")
        estimator = clone(self.estimator)
        if estimator.get_params(deep=False).get("label_prior", self) is None:
            estimator.set_params(label_prior=prior_from_signatures(self.signatures, self.class_probabilities, self.ridge))
        self.estimator_ = estimator.fit(X, y, **fit_params)
        self.classes_, self._signatures, self._possible = names, found, probabilities > 0
        return self

    def decision_function(self, X) -> np.ndarray:
        """Minus the loss of each class, (n_samples, n_classes); -inf for classes of probability zero."""
        check_is_fitted(self)
        attributes = np.asarray(self.estimator_.decision_function(X), dtype=np.float64)
        scores = np.full((len(attributes), len(self.classes_)), -np.inf)
        for c in np.flatnonzero(self._possible):
            scores[:, c] = -np.maximum(0.0, 1.0 - attributes * self._signatures[c]).sum(axis=1)
        return scores

    def predict(self, X) -> np.ndarray:
        """The class whose attributes agree best."""
        return self.classes_[self.decision_function(X).argmax(axis=1)]
