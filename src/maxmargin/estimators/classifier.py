"""`SVMClassifier`: binary and multiclass support vector machines, linear or with a kernel, and logistic regression."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ..data.matrices import numbers
from ..data.mistakes import cost_rows, quoted
from ..data.tensor_targets import numbered
from ..data.tensors import host_values, is_tensor
from ..losses import BINARY, MULTICLASS, MULTILABEL
from ..losses.base import BinaryLoss, Loss, MulticlassLoss
from .by_block import Scored, blockwise, class_codes
from .kernel import KernelSVM
from .on_device import cast_as, taken_classes
from .posing import EachAgainstRest, SeveralClasses, TwoClasses
from .probability import CALIBRATIONS, OneOfClasses


class SVMClassifier(OneOfClasses, Scored, ClassifierMixin, KernelSVM):
    """Support vector machine with a certificate: binary hinge, or Crammer-Singer for three classes and more; squared hinge,
    logistic and squared losses, each class against the rest, and kernels on request.

    Minimises 1/2 ||w||^2 + C sum_i s_i loss_i(w); with a kernel the same in its feature space. With loss="squared_hinge" and
    multi_class="ovr" this is the objective of LinearSVC at the same C, whose other defaults differ. What is returned carries
    `certificate_`: the value reached, a lower bound on the optimum, and the gap between them.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the regulariser. A mean form with parameter lam has C = 1 / (lam * n_samples).
    loss : {"hinge", "squared_hinge", "log_loss", "squared_error"} or loss object, default="hinge"
        "squared_hinge" is what LinearSVC has by default. "log_loss" is logistic regression, and with three classes and more its
        multinomial form, both with a regularised intercept. "squared_error" is least squares on the targets -1 and 1. An object
        is a `BinaryLoss` or a `MulticlassLoss` of your own (`maxmargin.extend`).
    multi_class : {"crammer_singer", "ovr"}, default="crammer_singer"
        With three classes and more: one loss of all classes ("hinge" of Crammer and Singer, "log_loss" multinomial), or of each
        class against the rest, as in LinearSVC, all in one pass. Squared losses are always of each class against the rest.
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable, default="linear"
        The inner product of samples. "precomputed": X is the kernel matrix in `fit`, and its rows against the training samples in
        `predict`. A function takes two sets of samples and returns the matrix between them. Signs, priors, sources and
        `partial_fit` are for the linear kernel.
    gamma : {"scale", "auto"} or float > 0, default="scale"
        Of rbf, poly and sigmoid, as in SVC: "scale" is 1 / (n_features * X.var()), "auto" is 1 / n_features.
    degree : int, default=3
        Of poly.
    coef0 : float, default=0.0
        Of poly and sigmoid.
    cost : array of shape (n_classes, n_classes) or dict of dicts, optional
        cost[y, j], the margin that class y must keep from class j, in the order of `classes_`; or by name, cost[y][j], where
        pairs that are left out cost 1. The diagonal is zero; by default all other entries are 1. Not for "log_loss", which has
        no margins, nor for classes against the rest.
    class_weight : dict or "balanced", optional
        Factors on the weights of the samples of a class; with classes against the rest only on what they cost their own class,
        as in LinearSVC.
    positive : bool or mask of shape (n_features,), default=False
        Weights that must not be negative. The intercept is never constrained.
    prior_mean : array of shape (n_features,) or (n_classes, n_features), optional
        Mean of a Gaussian prior on the weights.
    prior_scale : array of shape (n_features,) or (n_classes, n_features), optional
        Its standard deviations.
    prior_covariance : array of shape (n_features, n_features), optional
        Its full covariance, shared by the classes. X is then replaced once by a dense float64 matrix of the same shape.
    cache_size : float, default=500
        Memory in MB for rows of the kernel matrix, where a kernel other than the linear one is used.
    probability : {None, "sigmoid", "isotonic", "temperature"}, default=None
        How `predict_proba` makes probabilities of scores: by Platt's sigmoid or isotonic regression, of each class against the
        rest, or by one temperature for all classes. `fit` learns this from held-out scores, with a model for each of five folds;
        the model itself stays what it is. With None there is `predict_proba` only for "log_loss", whose scores need nothing else.
    tol : float, default=1e-3
        The relative duality gap to certify: (primal - dual) / |primal| <= tol.
    max_iter : int, default=10_000
        Passes over the data at the most.
    max_time : float, optional
        Seconds at the most. The model is then the best so far, with its true certificate and a ConvergenceWarning.
    fit_intercept : bool, default=True
        Whether a constant feature `intercept_scaling` is appended; its weight is regularised, as in LinearSVC. With
        a kernel it is the constant intercept_scaling^2 added to it, where SVC has a free intercept.
    intercept_scaling : float, default=1.0
        The larger, the less the intercept is regularised.
    standardize : bool, default=False
        Fit to columns of mean zero and unit variance, and give weights for the columns as they are. The objective, priors, signs
        and `dual_coef_` are those of the scaled data, which are a copy; sparse columns, and all without an intercept, are scaled
        and not centred.
    solver : {"auto", "dual_coordinate", "newton", "bundle", "online"} or solver object, default="auto"
        How the optimum is found; "auto" is "dual_coordinate", then "newton" where that crawls, or from the start for smooth
        losses of few features, and "online" where X is a source. With three classes and more and the hinge loss of Crammer and
        Singer also "frank_wolfe", "partial_linearization" and "exponentiated_gradient". A kernel other than the linear one is
        served by "dual_coordinate".
    warm_start : bool, default=False
        Start the next `fit` from the duals of the last one, where the number of samples (and classes) is the same.
    keep_duals : bool, default=False
        Keep `dual_coef_`, and return exactly the weights that belong to it.
    random_state : int, RandomState or None, default=None
        Seed of the order of visits; an int makes runs repeatable.
    n_jobs : int, optional
        Threads for coordinate steps, where a pass is long enough to be shared out, and for exact evaluations. None is one, -1 one
        for each core. The model depends on the number, within `tol`.
    verbose : int, default=0
        1 shows a line of progress on stderr.
    dtype : {None, float32, float64}, default=None
        What X is converted to; None leaves float32 and float64 as they are.
    device : {None, "cuda", "cuda:1", ...}, default=None
        Where to fit an X in host memory, or a source of dense rows: None is the processor. Rows that the device has no room for
        are sent there by pieces. A tensor is fitted where it lies, and `predict` then answers with tensors (linear kernel; needs
        PyTorch).

    Attributes
    ----------
    coef_ : array of shape (1, n_features) for two classes, else (n_classes, n_features)
        Of the linear kernel only.
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of shape (n_classes,)
    certificate_ : Certificate
        `primal`, `dual`, `gap`, `relative_gap`, `converged`, `verified`, `message`.
    history_ : History
        The exact evaluations during the run: iteration, seconds, primal, dual, gap.
    dual_coef_ : array of shape (n_samples,) or (n_samples, n_classes), with keep_duals=True or a kernel
        coef_ = sum_i dual_coef_[i] x_i (without prior and signs); with a kernel scores are sum_i dual_coef_[i] (k(x, x_i) +
        intercept_scaling^2).
    support_ : array, with a kernel
        The samples with a dual that is not zero: all that predictions need.
    n_iter_ : int
        Passes made.
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import maxmargin as mm
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mm.SVMClassifier(random_state=0).fit(X, y)
    >>> model.certificate_.converged
    True
    >>> model.score(X, y) > 0.9
    True
    """

    _parameter_constraints = {
        **KernelSVM._parameter_constraints,
        "loss": [StrOptions(set(BINARY)), BinaryLoss, MulticlassLoss],
        "multi_class": [StrOptions({"crammer_singer", "ovr"})],
        "cost": ["array-like", dict, None],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "probability": [StrOptions(CALIBRATIONS), None],
        "device": "no_validation",  # checked by the library that has devices
    }

    def __init__(
        self,
        C=1.0,
        *,
        loss="hinge",
        multi_class="crammer_singer",
        kernel="linear",
        gamma="scale",
        degree=3,
        coef0=0.0,
        cost=None,
        class_weight=None,
        positive=False,
        prior_mean=None,
        prior_scale=None,
        prior_covariance=None,
        cache_size=500.0,
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
        self.loss = loss
        self.multi_class = multi_class
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.cost = cost
        self.class_weight = class_weight
        self.positive = positive
        self.prior_mean = prior_mean
        self.prior_scale = prior_scale
        self.prior_covariance = prior_covariance
        self.cache_size = cache_size
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
        self.n_jobs, self.verbose = n_jobs, verbose
        self.dtype, self.device = dtype, device

    @blockwise
    def decision_function(self, X) -> np.ndarray:
        """Scores: (n_samples,) for two classes, positive for `classes_[1]`; else (n_samples, n_classes)."""
        return self._decided(self._scores(X))

    @blockwise
    def predict(self, X) -> np.ndarray:
        """The class with the highest score."""
        return self._predicted(self._scores(X))

    def _predicted(self, scores: np.ndarray) -> np.ndarray:
        """The classes of these scores."""
        best = cast_as(np.dtype(np.int64), scores[:, 0] > 0) if scores.shape[1] == 1 else scores.argmax(1)
        return taken_classes(self.classes_, best)

    def _target_checks(self):
        return {}

    def _checked_target(self, y, sample_weight):
        return self._checked_labels(y, sample_weight)

    def _codes(self, y, rows):
        return class_codes(self.classes_, y, rows)

    def _checked_labels(self, y, sample_weight) -> tuple[Any, np.ndarray]:
        """The number of each sample's class, and the factors of the classes."""
        found = numbered(y) if is_tensor(y) else None
        if found is None:
            y = column_or_1d(host_values(y), warn=True)
            found = counted(y)
        if found is None:
            check_classification_targets(y)
            found = np.unique(y, return_inverse=True)
        self.classes_, label = found
        if len(self.classes_) < 2:
            raise ValueError(
                "This solver needs samples of at least 2 classes in the data, but the data contains only one class: "
                f"{quoted(self.classes_[0])}"
            )
        if is_tensor(label):
            return label, self._class_factors(self.classes_, label, sample_weight)
        return label.astype(np.int64, copy=False), self._class_factors(y, label, sample_weight)

    def _class_factors(self, y, label, sample_weight) -> np.ndarray:
        """The factor of `class_weight` on each class."""
        return class_factors(self.class_weight, self.classes_, y, label, sample_weight)

    def _posing(self, factors):
        count, cost = len(self.classes_), cost_matrix(self.cost, self.classes_)
        own, several = isinstance(self.loss, Loss), count > 2
        if own and several and isinstance(self.loss, BinaryLoss):
            raise ValueError(f"{type(self.loss).__name__} is for two classes; y has {count}. A MulticlassLoss serves any number.")
        if own and several and self.multi_class == "ovr":
            raise ValueError(
                f"multi_class='ovr' does not go with {type(self.loss).__name__}, which is a loss of all classes: "
                "leave multi_class out, or give a loss by its name."
            )
        if not own and several and (self.multi_class == "ovr" or self.loss not in MULTICLASS):
            if np.any(cost != 1.0 - np.eye(count)):
                raise ValueError("cost is for one loss of all classes; with each against the rest there is none, leave it out.")
            return EachAgainstRest(MULTILABEL[self.loss](), factors)
        loss = self.loss if own else (MULTICLASS if several else BINARY)[self.loss]()
        if not loss.margins and np.any(cost != 1.0 - np.eye(count)):
            raise ValueError(f"loss={self.loss!r} has no margins, which cost is about; leave cost out.")
        return (SeveralClasses if isinstance(loss, MulticlassLoss) else TwoClasses)(loss, cost, factors)

    def _shaped(self, coef, intercept):
        return np.atleast_2d(coef), np.atleast_1d(intercept)


def counted(y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """As `np.unique` with the inverse, without a sort: of integers that lie close together. None where they do not."""
    if y.dtype.kind not in "iu" or y.dtype == np.uint64 or y.size == 0:
        return None
    low, high = int(y.min()), int(y.max())
    if high - low > 4 * y.size:
        return None
    place = np.subtract(y, low, dtype=np.int64)
    present = np.bincount(place, minlength=high - low + 1) > 0
    label = place if present.all() else (np.cumsum(present) - 1).take(place)
    return (np.flatnonzero(present) + low).astype(y.dtype), label


def class_factors(class_weight, classes: np.ndarray, y, label: np.ndarray, sample_weight) -> np.ndarray:
    """The factor of `class_weight` on each class."""
    if isinstance(class_weight, str):
        mass = np.bincount(host_values(label), sample_weight, minlength=len(classes))
        return np.divide(mass.sum(), len(classes) * mass, out=np.zeros_like(mass, dtype=float), where=mass > 0)
    if class_weight is None:
        return np.ones(len(classes))
    factors = compute_class_weight(class_weight, classes=classes, y=y)
    if not np.all(np.isfinite(factors)) or np.any(factors < 0) or not np.any(factors > 0):
        raise ValueError("class_weight must hold finite numbers >= 0, at least one of them positive.")
    return factors


def cost_matrix(cost, classes: np.ndarray) -> np.ndarray:
    """The cost matrix in the order of `classes`, checked."""
    count = len(classes)
    if cost is None:
        return 1.0 - np.eye(count)
    if isinstance(cost, dict):
        cost = cost_rows(cost, classes.tolist(), "classes")
    matrix = numbers("cost", cost)
    if matrix.shape != (count, count):
        raise ValueError(f"cost has shape {matrix.shape}; for the {count} classes in y it must be ({count}, {count}).")
    if np.any(matrix < 0):
        raise ValueError("cost must hold finite numbers >= 0.")
    if np.any(np.diag(matrix) != 0):
        raise ValueError("cost must be zero on its diagonal: the right answer costs nothing.")
    return matrix
