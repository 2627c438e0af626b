"""`TopKSVMClassifier`: linear multiclass classification, judged by whether the truth is among k guesses."""

from collections.abc import Iterable
from numbers import Integral, Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from ..data.tensors import host_values
from ..losses.crammer_singer import CrammerSingerLoss
from ..losses.topk_alpha import TopKAlphaLoss
from ..losses.topk_beta import TopKBetaLoss
from ..losses.topk_steps import TopKLoss
from .base import along
from .by_block import blockwise
from .classifier import SVMClassifier
from .linear import LinearSVM
from .on_device import best_first, taken_classes
from .posing import SeveralClasses

LOSSES: dict[str, type[TopKLoss]] = {"topk_alpha": TopKAlphaLoss, "topk_beta": TopKBetaLoss}


class TopKSVMClassifier(SVMClassifier):
    """Linear top-k support vector machine with a certificate: for many classes, where the truth must be among k guesses.

    Minimises 1/2 ||w||^2 + C sum_i s_i loss_i(w). With h_j = 1 + <w_j, x> - <w_y, x> for the classes j other than the true y,

        "topk_alpha":  max(0, mean of the k largest h_j)
        "topk_beta":   mean of the k largest max(0, h_j)

    (Lapin et al. 2015; Chu et al. 2018). With k = 1 and no smoothing both are Crammer and Singer's loss, and the model is that of
    `SVMClassifier`. What is returned carries `certificate_`, as there.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the regulariser. A mean form with parameter lam has C = 1 / (lam * n_samples).
    k : int, default=5
        How many guesses are allowed; at least 1 and below the number of classes.
    loss : {"topk_alpha", "topk_beta"}, default="topk_alpha"
        See above. beta is the larger of the two.
    smoothing : float, default=0.0
        The loss is max_p <p, h> over a set of p; this subtracts smoothing/2 ||p||^2 there. The smoothed loss is below the plain
        one by at most smoothing / (2 k), has a Lipschitz continuous gradient, and is solved in fewer passes.
    class_weight, positive, prior_mean, prior_scale, prior_covariance, probability, tol, max_iter, max_time, fit_intercept,
    intercept_scaling, standardize, warm_start, keep_duals, random_state, n_jobs, verbose, dtype,
    device
        As for `SVMClassifier`.
    solver : {"auto", "dual_coordinate", "newton", "bundle", "online"} or solver object, default="auto"
        How the optimum is found; "auto" is "dual_coordinate", then "newton" where that crawls, and "online" where X is a source.
        Other solvers serve k = 1 only.

    Attributes
    ----------
    coef_ : array of shape (n_classes, n_features)
    intercept_ : array of shape (n_classes,)
    classes_, certificate_, history_, n_iter_, n_features_in_, feature_names_in_
        As for `SVMClassifier`.
    dual_coef_ : array of shape (n_samples, n_classes), with keep_duals=True
        coef_ = sum_i dual_coef_[i] x_i (without prior and signs).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import maxmargin as mm
    >>> X, y = load_digits(return_X_y=True)
    >>> model = mm.TopKSVMClassifier(C=0.1, k=3, random_state=0).fit(X / 16, y)
    >>> model.certificate_.converged
    True
    >>> model.predict_topk(X / 16).shape
    (1797, 3)
    >>> model.score_topk(X / 16, y) > 0.95
    True
    """

    _parameter_constraints = {
        **LinearSVM._parameter_constraints,
        "k": "no_validation",  # checked against the number of classes, in one sentence
        "loss": [StrOptions(set(LOSSES))],
        "smoothing": [Interval(Real, 0.0, None, closed="left")],
        "class_weight": SVMClassifier._parameter_constraints["class_weight"],
        "probability": SVMClassifier._parameter_constraints["probability"],
        "device": "no_validation",
    }

    def __init__(
        self,
        C=1.0,
        *,
        k=5,
        loss="topk_alpha",
        smoothing=0.0,
        class_weight=None,
        positive=False,
        prior_mean=None,
        prior_scale=None,
        prior_covariance=None,
        probability=None,
        tol=1e-3,
        max_iter=10_000,
        max_time=None,
        fit_intercept=True,
        intercept_scaling=1.0,
        standardize=False,
        solver="auto",
        warm_start=False,
        keep_duals=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        dtype=None,
        device=None,
    ):
        self.C = C
        self.k = k
        self.loss = loss
        self.smoothing = smoothing
        self.class_weight = class_weight
        self.positive = positive
        self.prior_mean = prior_mean
        self.prior_scale = prior_scale
        self.prior_covariance = prior_covariance
        self.probability = probability
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.standardize = standardize
        self.solver = solver
        self.warm_start = warm_start
        self.keep_duals = keep_duals
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.dtype = dtype
        self.device = device

    @blockwise
    def decision_function(self, X) -> np.ndarray:
        """Scores, (n_samples, n_classes); for two classes (n_samples,), positive for `classes_[1]`."""
        return self._decided(self._scores(X))

    @blockwise
    def predict_topk(self, X, k=None) -> np.ndarray:
        """The k classes with the highest scores, the best first: (n_samples, k). By default k is that of the model."""
        scores = self._scores(X)
        k = self.k if k is None else k
        count = len(self.classes_)
        if not isinstance(k, Integral) or isinstance(k, bool):
            raise ValueError(f"k must be an integer, got {k!r}.")
        if not 1 <= int(k) <= count:
            raise ValueError(f"k must be between 1 and the {count} classes of the model, got {k}.")
        return taken_classes(self.classes_, best_first(scores, int(k)))

    def score_topk(self, X, y, k=None, sample_weight=None) -> float:
        """The part of the samples whose class is among the k best; `score` is that of k = 1, as in scikit-learn.

        For a grid search write `scoring=lambda model, X, y: model.score_topk(X, y)`.
        """
        found = host_values(self.predict_topk(X, k))
        y = column_or_1d(host_values(y))
        if len(y) != len(found):
            raise ValueError(f"X has {len(found)} samples, y has {len(y)}.")
        hit = np.any(found == y[:, None], axis=1)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, hit, dtype=np.float64)
        return float(np.average(hit, weights=weight))

    def topk_path(self, X, y, ks, sample_weight=None) -> list:
        """Fitted copies of this estimator for each k in `ks`, each started from the one before it and certified."""
        if not isinstance(ks, Iterable):
            raise ValueError(f"ks must be a list of integers >= 1, got {ks!r}.")
        ks = list(ks)
        for k in ks:
            _check_k(k)
        fitter = self._fitter((X, y, sample_weight), same_losses=False)
        return [step.model for step in along(fitter, [{"k": k} for k in ks])]

    def _checked_target(self, y, sample_weight):
        _check_k(self.k)
        return self._checked_labels(y, sample_weight)

    def _posing(self, factors):
        count = len(self.classes_)
        if self.k >= count:  # here, not with the target: a path over k has one target
            raise ValueError(
                f"k={self.k} guesses among the {count} classes in y leave nothing to learn: k must be below the number of "
                "classes (a fold of a cross-validation may have fewer classes than the whole)."
            )
        if self.k == 1 and self.smoothing == 0.0:
            return SeveralClasses(CrammerSingerLoss(), 1.0 - np.eye(count), factors)
        return SeveralClasses(LOSSES[self.loss](int(self.k), float(self.smoothing)), 1.0 - np.eye(count), factors)


def _check_k(k) -> None:
    if not isinstance(k, Integral) or isinstance(k, bool):
        raise ValueError(f"k must be an integer >= 1, got {k!r}.")
    if k < 1:
        raise ValueError(f"k must be an integer >= 1, got {k}.")
