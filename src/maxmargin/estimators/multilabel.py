"""`MultilabelSVMClassifier`: a model for each label, linear or with a kernel, coupled by what is known of the labels."""

from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_consistent_length

from ..callbacks import with_callbacks
from ..data.indicators import Checked, checked_labels
from ..data.label_lists import names_of_count
from ..data.matrices import numbers
from ..data.rows import SPARSE_BELOW
from ..data.sources.memory import is_source
from ..data.table import table_of
from ..data.tensor_targets import labels_beside
from ..data.tensors import DeviceMatrix, TensorTable, host_values, place_of
from ..losses import MULTILABEL
from ..losses.base import MultilabelLoss
from ..problems.kernel import KernelScalarProblem
from ..problems.multilabel import MultilabelProblem
from ..problems.risk import Risk, risk_of
from ..problems.tensors import TensorProblem
from ..regularizers.label_prior import checked_prior
from ..solvers import resolve
from ..utils.threads import thread_count
from .base import only_if, settings_of
from .by_block import blockwise, check_in_memory, check_source, has_weights, keep_names, reading_solver
from .frames import validate_data
from .kernel import Kernelised, labels_problem
from .label_thresholds import TUNED, check_untuned, fixed_thresholds
from .linear import Posed, Prepared
from .multilabel_answers import OUTPUTS, LabelAnswers
from .multilabel_partial_fit import PartialFit
from .multilabel_stream import LabelReader, masses, stream
from .on_device import labels_on_device
from .posing import AllLabels
from .probability import CALIBRATIONS
from .scaling import scaling_of_source
from .source_on_device import samples_on_device


class MultilabelSVMClassifier(LabelAnswers, PartialFit):
    """Multi-label support vector machine with a prior on labels that go together (M3L), with a certificate.

    Minimises 1/2 tr(Z R^+ Z') + C sum_il s_i u_l loss(y_il z_l.x_i) over the weights z_l of the labels, y_il = +-1
    (Hariharan et al. 2012). Without `label_prior` R is the identity, and each label is a LinearSVC at the same C.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the regulariser.
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable, default="linear"
        The inner product of samples. "precomputed": X is the kernel matrix in `fit`, and its rows against the training samples in
        `predict`. A function takes two sets of samples and returns the matrix between them.
    gamma : {"scale", "auto"} or float > 0, default="scale"
        Of rbf, poly and sigmoid, as in SVC: "scale" is 1 / (n_features * X.var()), "auto" is 1 / n_features.
    degree : int, default=3
        Of poly.
    coef0 : float, default=0.0
        Of poly and sigmoid.
    cache_size : float, default=500
        Memory in MB for rows of the kernel matrix and what is copied from it, all labels together.
    label_prior : array of shape (n_labels, n_labels), optional
        R, symmetric and positive semidefinite: which labels go together, and which exclude each other. See
        `label_correlation` and `prior_from_signatures`.
    label_weight : "balanced" or array of shape (n_labels,) or (n_labels, 2), optional
        Factors u_l on the losses of a label; two columns are for samples without and with it. "balanced" gives both the same
        mass.
    cost : array of shape (n_labels,) or (n_labels, 2), optional
        The margin a label must keep, 1 by default: what a wrong answer costs. Two columns: of a false alarm and of a miss. The
        default is the Hamming loss.
    loss : {"squared_hinge", "hinge", "log_loss", "squared_error"}, default="squared_hinge"
        Of one label. "log_loss" has no margins, so no `cost`.
    probability : {None, "sigmoid", "isotonic", "temperature"}, default=None
        As for `SVMClassifier`, each label by itself. Folds are dealt so that every label is spread over them; a label that no
        sample has, or all, gets one probability for every sample.
    thresholds : float, array of shape (n_labels,), "f1" or None, default=0.0
        A label is predicted where its score is above its threshold. "f1": the ones of the best F1 of each label, and so of the
        best macro F1, on the scores of samples that were held out: five folds, as for `probability`, each started from the model
        of all samples. A label that no sample has keeps 0.
    output : {None, "dense", "sparse", "pandas", "polars"}, default=None
        What `predict` gives. None: CSR where the Y of `fit` was sparse, an array otherwise. Frames have the names of the labels.
    tol, max_iter, max_time, fit_intercept, intercept_scaling, standardize, warm_start, random_state, verbose, \
dtype, device
        As for `SVMClassifier`. The intercept is a feature like others, coupled by R; with a kernel it is the constant
        intercept_scaling^2 added to it, regularised, where SVC has a free one. `max_iter` counts for each group of labels.
    solver : {"auto", "dual_coordinate", "newton", "bundle", "online"} or solver object, default="auto"
        "auto" is "dual_coordinate", then "newton" where that crawls and the kernel is linear, and "online" where X is a source.
        "newton", "bundle" and "online" serve the linear kernel.
    keep_duals : bool, default=False
        Keep `dual_coef_`, and return exactly the weights that belong to it.
    n_jobs : int, optional
        Threads. Labels that R does not connect are learned side by side; where there are more threads than groups of labels, the
        examples of a pass are too.

    Attributes
    ----------
    coef_ : array of shape (n_labels, n_features)
        Of the linear kernel only.
    intercept_ : array of shape (n_labels,)
    classes_ : array of shape (n_labels,)
        The labels: the columns of a data frame, the labels in lists, what `fit` was given as `classes`, else numbers from 0 on.
    thresholds_ : array of shape (n_labels,)
        What scores of `decision_function` have to exceed. It may be replaced by another one.
    dual_coef_ : array of shape (n_samples, n_labels), CSR where Y was sparse, with keep_duals=True or a kernel
        a_il y_il, so that coef_ = R dual_coef_' X.
    support_ : array, with a kernel
        The samples with a dual that is not zero for some label: all that predictions need.
    certificate_, history_, n_iter_, n_features_in_, feature_names_in_
        As for `SVMClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> import maxmargin as mm
    >>> X, Y = make_multilabel_classification(200, random_state=0)
    >>> model = mm.MultilabelSVMClassifier(C=0.01, label_prior=mm.label_correlation(Y, ridge=0.1), random_state=0).fit(X, Y)
    >>> model.certificate_.converged
    True
    >>> model.predict(X).shape
    (200, 5)
    """

    _parameter_constraints = {
        **Kernelised._parameter_constraints,
        "device": "no_validation",
        "label_prior": ["array-like", None],
        "label_weight": [StrOptions({"balanced"}), "array-like", None],
        "cost": ["array-like", None],
        "loss": [StrOptions(set(MULTILABEL)), MultilabelLoss],
        "probability": [StrOptions(CALIBRATIONS), None],
        "thresholds": [Real, "array-like", StrOptions({TUNED}), None],
        "output": [StrOptions(OUTPUTS), None],
    }

    def __init__(
        self,
        C=1.0,
        *,
        kernel="linear",
        gamma="scale",
        degree=3,
        coef0=0.0,
        label_prior=None,
        label_weight=None,
        cost=None,
        loss="squared_hinge",
        cache_size=500.0,
        probability=None,
        thresholds=0.0,
        output=None,
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
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.label_prior = label_prior
        self.label_weight = label_weight
        self.cost = cost
        self.loss = loss
        self.cache_size = cache_size
        self.probability = probability
        self.thresholds = thresholds
        self.output = output
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

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None, mask=None, classes=None):
        """Find the optimum to the relative duality gap `tol`.

        Parameters
        ----------
        X : array, data frame, CSR matrix or tensor of shape (n_samples, n_features), or a multi-label source (linear models)
        y : array, data frame or sparse matrix of shape (n_samples, n_labels), or a list of lists, tuples or sets of labels
            Indicators 0 and 1. NaN in a dense one: the label is not known and takes no part. A sparse one is not made dense.
            Lists of labels are what scikit-learn's MultiLabelBinarizer takes; lists of numbers that all have one length are a
            matrix of indicators, sets never are.
        sample_weight : array of shape (n_samples,), optional
        mask : boolean array or sparse matrix of the shape of y, optional
            True where a label is not known, as in numpy.ma (whose arrays can be given for y, too).
        classes : array of shape (n_labels,) or fitted MultiLabelBinarizer, optional
            The names of the columns of y; with lists, all labels that there are. By default those that y has itself.

        Returns
        -------
        self
        """
        self._validate_params()
        return self._fitted(self._prepared(X, y, sample_weight, mask, classes))

    def regularization_path(self, X, y, Cs, sample_weight=None, mask=None, classes=None) -> list:
        """Fitted copies of this estimator for each C in `Cs`, each started from the one before it and certified.

        The samples are checked once.
        """
        return [step.model for step in self._rising((X, y, sample_weight, mask, classes), settings_of(Cs))]

    @only_if(has_weights("risk", "use kernel='linear'"))
    def risk(self, X, y, sample_weight=None, mask=None, n_groups: int = 1) -> Risk:
        """The losses alone, sum_il s_i u_l loss_il(w), as a convex function for `maxmargin.minimize` or a solver of your own.

        risk(w) -> (value, subgradient), or values (P,) and subgradients (P, dim) for P = `n_groups` groups of samples. Its
        `risk.dim` weights are a row for each label, one a feature and last the intercept's (unused without one), flattened. C and
        `label_prior` are not part of it; kernels have no such vector.
        """
        self._validate_params()
        model = clone(self)
        X, labels = model._checked_pair(X, y, mask)
        weight = np.ones(X.shape[0]) if sample_weight is None else model._checked_weight(sample_weight, X)
        if not isinstance(n_groups, Integral) or not 1 <= n_groups <= X.shape[0]:
            raise ValueError(f"n_groups must be an integer between 1 and the {X.shape[0]} samples; got {n_groups!r}.")
        model.label_prior = None
        found = risk_of(model._problem(model._data(X), labels, weight), int(n_groups), thread_count(self.n_jobs))
        assert found is not None
        return found

    @blockwise
    def decision_function(self, X) -> np.ndarray:
        """Scores, (n_samples, n_labels); above `thresholds_` where the label is predicted."""
        return self._scores(X)

    def _prepared(self, X, y, sample_weight, mask=None, classes=None) -> Prepared:
        if is_source(X):
            check_source(self, X, y, sample_weight, multilabel=True)
            check_in_memory(self.probability)
            check_untuned(self.thresholds, "for a source")
            if mask is not None:
                raise ValueError("A source has no mask of labels; leave mask out.")
            if self.device is None:
                return Prepared(lambda model: model._source_problem(X, classes), {}, reading_solver(self.solver))
        solver = resolve(self.solver)
        source = X if is_source(X) else None
        if source is not None:
            X, y, sample_weight = samples_on_device(source, self.device, self._named_dtype())
        X, labels = self._checked_pair(X, y, mask, classes=classes)
        if source is not None:
            keep_names(self, source)
        weight = np.ones(X.shape[0]) if sample_weight is None else self._checked_weight(sample_weight, X)
        samples = X  # in the user's coordinates, as predictions read them
        self.classes_, self._form = labels.classes, (labels.dtype, labels.sparse)
        fixed_thresholds(self.thresholds, len(self.classes_))  # says what is wrong with them before anything is learned
        X, scaling = self._scaled(X, weight)
        data = self._data(X)

        def pose(model, share=1.0) -> Posed:
            return Posed(model._problem(data, labels, weight * share), None, scaling, X)

        return Prepared(pose, self._learned(), solver, samples, labels.columns, weight, self._folds(labels.columns))

    def _fit(self, posed, solver, last):
        """Duals of all labels at once are not kept."""
        if self.keep_duals and not (posed.problem.in_memory and solver.by_groups):
            raise ValueError("keep_duals=True needs solver='dual_coordinate' here, and the samples in memory.")
        return super()._fit(posed, solver, last)

    def _source_problem(self, source, classes=None) -> Posed:
        """The problem of samples that come in blocks."""
        if self.kernel != "linear":
            raise ValueError("A kernel needs all samples in memory; sources are for kernel='linear'.")
        n_rows, features, _ = source.scan()
        count = int(source.n_labels)
        found = masses(source) if isinstance(self.label_weight, str) else np.ones((count, 2))
        self.n_features_in_ = int(features)
        keep_names(self, source)
        self.classes_, self._form = names_of_count(classes, count), (np.dtype(int), True)
        fixed_thresholds(self.thresholds, count)
        self._dtypes()
        scaling = None
        if self.standardize:
            scaling, source = scaling_of_source(source, self._bias())
        reader = LabelReader(self._posing(found), (self._bias(), SPARSE_BELOW["row"]), self.dtype)
        return Posed(stream(source, reader, n_rows, features), None, scaling)

    def _posing(self, masses: np.ndarray) -> AllLabels:
        """What is common to all samples; `masses` are those of the labels."""
        count = len(masses)
        R = None if self.label_prior is None else checked_prior(self.label_prior, count)
        factors = self._label_factors(masses)
        loss = self.loss if isinstance(self.loss, MultilabelLoss) else MULTILABEL[self.loss]()
        if self.cost is not None and not loss.margins:
            raise ValueError(f"loss={self.loss!r} has no margins, which cost is about; leave cost out.")
        return AllLabels(loss, factors, _pairs("cost", self.cost, count), R)

    def _checked_pair(self, X, y, mask, reset: bool = True, classes=None) -> tuple[np.ndarray, Checked]:
        X = self._read(X, reset=reset, dtype=self._dtypes(), order="C")
        if y is None:
            validate_data(self, X, y)  # says so in scikit-learn's own words
        labels = labels_beside(X, y, classes) if mask is None and isinstance(X, DeviceMatrix) else None
        if labels is None:
            labels = checked_labels(host_values(y, place_of(X)), host_values(mask, place_of(X), "mask"), classes)
        check_consistent_length(X, labels.columns.present)
        return X, labels

    def _data(self, X):
        """X as the problem takes it: a table, or the kernel matrix."""
        if self.kernel != "linear":
            return self._kernel_data(X)
        return table_of(X, self._bias(), SPARSE_BELOW["row"])

    def _problem(self, data, labels: Checked, weight: np.ndarray) -> MultilabelProblem | KernelScalarProblem | TensorProblem:
        """What is minimised, at C = 1."""
        columns = labels.columns
        posing = self._posing(columns.masses(weight))
        if self.kernel != "linear":
            return labels_problem(data, columns, weight, posing)
        if isinstance(data, TensorTable):
            return labels_on_device(data, columns, weight, posing)
        return MultilabelProblem(data, columns, weight, posing.label_weight, posing.margin, posing.loss, posing.R)

    def _most_passes(self, problem):
        return self.max_iter * problem.n_groups

    def _label_factors(self, masses: np.ndarray) -> np.ndarray:
        """(labels, 2): the factors of samples without and with each label, whose masses are given."""
        if isinstance(self.label_weight, str):
            half = 0.5 * masses.sum(axis=1, keepdims=True)
            return np.divide(half, masses, out=np.zeros_like(masses), where=masses > 0)
        factors = _pairs("label_weight", self.label_weight, len(masses))
        if not np.any(factors > 0):
            raise ValueError("label_weight is zero for every label; at least one must be positive.")
        return factors

    def _keep(self, result, weights, constant):
        if self.keep_duals:
            result = replace(result, duals=result.duals.tocsr() if self._form[1] else result.duals.toarray())
        super()._keep(result, weights, constant)

    def _shaped(self, coef, intercept):
        return coef, np.atleast_1d(intercept)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags


def _pairs(name: str, given, count: int) -> np.ndarray:
    """A parameter of shape (labels,) or (labels, 2) as the latter; None stands for ones."""
    if given is None:
        return np.ones((count, 2))
    array = numbers(name, given)
    if array.shape not in ((count,), (count, 2)):
        raise ValueError(f"{name} has shape {array.shape}; for {count} labels it must be ({count},) or ({count}, 2).")
    if np.any(array < 0):
        raise ValueError(f"{name} must hold numbers >= 0; its smallest is {array.min():g}.")
    return np.broadcast_to(array.reshape(count, -1), (count, 2)).copy()
