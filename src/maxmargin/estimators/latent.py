"""`LatentSVMClassifier`: classes of bags of candidates, one of which matters."""

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..callbacks import with_callbacks
from ..data import bags
from ..data.matrices import checked_matrix, numbers, row_products
from ..data.mistakes import check_table, check_target, quoted, uneven
from ..data.rows import SPARSE_BELOW, rows
from ..jit import vectors
from ..problems.latent import BagProblem
from ..solvers.convex_concave import LatentResult
from ..structures.encoded.bags import Bags, coefficients
from ..structures.encoded.binary_bags import BinaryBags
from ..structures.encoded.contract import new_scratch
from ..utils.threads import thread_count
from .base import checked_dtype, checked_weight, same_count, sample_count
from .classifier import class_factors, cost_matrix
from .frames import validate_data
from .latent_base import LatentModel
from .linear import FLOATS

INITS = ("mean", "random", "first")
SIGNED = ([0, 1], [-1, 1])  # labels of which the second is meant; False and True equal 0 and 1


class LatentSVMClassifier(ClassifierMixin, LatentModel):
    """Latent support vector machine: a sample is a bag of candidate feature rows, and its score that of its best one.

    Two classes, as in Ramanan (2013), A.4: 1/2 ||w||^2 + C sum_i s_i max(0, 1 - y_i max_z w . x_iz), with y_i = +-1. They are not
    alike: a bag is positive if one of its candidates is, negative if none is. Three and more, as in the gesture experiment of
    Mohapatra et al. (2016): the loss is max_{y, z} [ cost(y_i, y) + w_y . x_iz ] - max_z w_{y_i} . x_iz.

    The objective is not convex. It is lowered by the convex-concave procedure: the best candidate of each sample is fixed, the
    convex problem with them is solved to a certified gap, and so on (`docs/latent.md`). The objective never rises.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the regulariser.
    max_cccp_iter : int, default=50
        Convex problems at the most, for each start.
    init : {"mean", "random", "first"} or array of shape (n_samples,), default="mean"
        The candidates fixed first: the best for a classifier of the bags' means, or of random averages of their candidates; the
        first of each bag; or given ones.
    n_restarts : int, default=0
        How many random starts follow; the model is the one with the lowest objective.
    positive_class : label, optional
        Of two classes, the one that the best candidate speaks for: y_i = +1. Labels 0 and 1, -1 and 1, False and True need none,
        for 1 and True are meant; for others it must be given. There is none among three classes and more.
    cost : array of shape (n_classes, n_classes) or dict of dicts, optional
        As in `SVMClassifier`.
    class_weight : dict or "balanced", optional
        Factors on the weights of the samples of a class.
    tol : float, default=1e-3
        The relative duality gap to certify for the last convex problem; and the procedure ends when a step lowers the objective
        by less than this part.
    max_iter : int, default=10_000
        Passes over the data at the most, in all convex problems together.
    max_time : float, optional
        Seconds at the most. The model is then the best so far, with its true certificate and a ConvergenceWarning.
    fit_intercept : bool, default=True
        Whether a constant feature `intercept_scaling` is appended to every candidate; its weight is regularised.
    intercept_scaling : float, default=1.0
        The larger, the less the intercept is regularised.
    solver : str or solver object, default="auto"
        How the convex problems are solved: "auto" is "dual_coordinate"; "frank_wolfe", "partial_linearization" and
        "exponentiated_gradient" are the others.
    warm_start : bool, default=False
        Start the next `fit` from the weights of the last one, where the numbers of classes and features are the same; and from
        its duals, where the bags have the same sizes and labels.
    keep_duals : bool, default=False
        Keep `dual_coef_`, and return exactly the weights that belong to it.
    random_state : int, RandomState or None, default=None
        Seed of the order of visits and of random starts; an int makes runs repeatable.
    n_jobs : int, optional
        Threads: for the passes that evaluate the objective and choose candidates, for steps where bags are many or large enough,
        and for predictions of sparse candidates.
    verbose : int, default=0
        1 shows a line of progress on stderr.
    dtype : {None, float32, float64}, default=None
        What candidates are stored as; None keeps float32 and float64.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) for two classes, else (n_classes, n_features)
        For two classes the weights of `positive_class_`, wherever it stands in `classes_`.
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of shape (n_classes,)
    positive_class_ : label
        Of two classes, the one that the best candidate speaks for; None for more.
    latent_ : array of shape (n_samples,)
        The best candidate of each training sample for its class.
    outer_history_ : array
        The objective after each convex problem; never rises.
    n_cccp_iter_ : int
        Convex problems solved, from the start that the model comes from.
    restart_objectives_ : array of shape (1 + n_restarts,)
        The objective that each start led to.
    certificate_ : Certificate
        Of the last convex problem: the objective with the candidates fixed that it was solved with. Its primal value is
        `outer_history_[-1]` or, where the best candidates changed once more, above it.
    history_ : History
        The exact evaluations of all convex problems, one after another.
    dual_coef_ : array of shape (n_candidates,) or (n_candidates, n_classes), with keep_duals=True
        For the candidates of all bags, bag after bag: coef_ = sum_r dual_coef_[r] x_r.
    n_iter_ : int
        Passes made, in all convex problems.
    n_oracle_calls_ : int
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,), from a data frame with `groups`

    Examples
    --------
    >>> import maxmargin as mm
    >>> X, y, frames = mm.datasets.make_gestures(60, n_classes=3, n_features=20, strength=2.0, random_state=0)
    >>> model = mm.LatentSVMClassifier(random_state=0).fit(X, y)
    >>> model.certificate_.converged
    True
    >>> model.score(X, y) > 0.9
    True
    """

    _parameter_constraints: dict[str, Any] = {
        **LatentModel._parameter_constraints,
        "positive_class": "no_validation",  # checked against the labels
        "cost": ["array-like", dict, None],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0.0, None, closed="neither")],
    }

    def __init__(
        self,
        C=1.0,
        *,
        max_cccp_iter=50,
        init="mean",
        n_restarts=0,
        positive_class=None,
        cost=None,
        class_weight=None,
        tol=1e-3,
        max_iter=10_000,
        max_time=None,
        fit_intercept=True,
        intercept_scaling=1.0,
        solver="auto",
        warm_start=False,
        keep_duals=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        dtype=None,
    ):
        self.C = C
        self.max_cccp_iter = max_cccp_iter
        self.init = init
        self.n_restarts = n_restarts
        self.positive_class = positive_class
        self.cost = cost
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.solver = solver
        self.warm_start = warm_start
        self.keep_duals = keep_duals
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.dtype = dtype

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None, groups=None):
        """Lower the objective from convex problem to convex problem; certify the last one to the relative duality gap `tol`.

        Parameters
        ----------
        X : sequence of bags, or one table with `groups`
            Bags are arrays or CSR matrices (candidates, features), or all one array (bags, candidates, features). With `groups`
            X is an array, data frame or CSR matrix (rows, features), and each row a candidate.
        y : sequence of classes
            One for each bag. With `groups` also one for each row, the same for all rows of a group.
        sample_weight : array of shape (n_samples,), optional
            Weights s_i >= 0 of bags; an integer weight equals that many repetitions of the bag. With `groups` as y.
        groups : array of shape (rows,), optional
            The bag of each row of X, any labels. The rows of a bag may lie anywhere; where they do not lie together, X is copied
            once. Bags are numbered in the order in which they first come, candidates within their bag.

        Returns
        -------
        self
        """
        return self._fitted_to(X, y, sample_weight, groups)

    def regularization_path(self, X, y, Cs, sample_weight=None, groups=None) -> list:
        """Fitted copies of this estimator for each C in `Cs`, each started from the one before it and certified.

        Go from small to large C.
        """
        return self._rising(Cs, X, y, sample_weight, groups)

    def decision_function(self, X, groups=None) -> np.ndarray:
        """Scores of best candidates, (n_samples, n_classes); for two classes (n_samples,), and positive for `classes_[1]`.

        That is scikit-learn's convention: where `positive_class_` is `classes_[0]`, these are minus the best candidates' scores.
        With `groups`, here and below, X is one table as in `fit`, and a result has an entry for each bag, in the order in which
        they first come.
        """
        found = self._best_scores(*self._candidate_scores(X, groups))
        if found.shape[1] > 1:
            return found
        return found[:, 0] if self.positive_class_ == self.classes_[1] else -found[:, 0]

    def predict(self, X, groups=None) -> np.ndarray:
        """The class with the highest score; of two classes `classes_[1]` where `decision_function` is above zero."""
        found = self.decision_function(X, groups)
        return self.classes_[(found > 0).astype(np.intp) if found.ndim == 1 else found.argmax(axis=1)]

    def score(self, X, y, sample_weight=None, groups=None) -> float:
        """The share of bags whose class is predicted rightly. With `groups`, y and the weights are those of bags or of rows."""
        found = self.predict(X, groups)
        if groups is not None:
            y, sample_weight = of_bags(bags.grouped_rows(groups, sample_count("X", X)), column_or_1d(y), sample_weight)
        return float(accuracy_score(y, found, sample_weight=sample_weight))

    def predict_latent(self, X, y=None, groups=None) -> np.ndarray:
        """The number of the best candidate of each bag: for the class predicted, or for the classes `y`.

        With two classes there is one score: the best candidate is the one most like `positive_class_`, whatever the class.
        """
        scores, start = self._candidate_scores(X, groups)
        samples = start.size - 1
        column = np.zeros(samples, np.int64)
        if y is not None:
            given = y if groups is None else bags.grouped_rows(groups, int(start[-1])).one_each("y", column_or_1d(y))
            column[:] = self._numbers_of(given, samples)
        elif scores.shape[1] > 1:
            column[:] = self._best_scores(scores, start).argmax(axis=1)
        if scores.shape[1] == 1:
            column[:] = 0
        result = np.empty(samples, np.int64)
        bags.best_in_bags(np.ascontiguousarray(scores), start, column, result)
        return result

    # ---- how ----------------------------------------------------------------------------------------------

    def _candidate_scores(self, X, groups) -> tuple[np.ndarray, np.ndarray]:
        """The scores of all candidates, bag after bag, and where each bag starts."""
        check_is_fitted(self)
        if groups is None:
            matrix, start = bags.stacked_bags(X, None, self.n_features_in_)
            return self._row_scores(matrix), start
        table = self._read_table(X, FLOATS, reset=False)
        grouped = bags.grouped_rows(groups, table.shape[0])
        return grouped.below_each_other(self._row_scores(table)), grouped.start

    def _row_scores(self, matrix) -> np.ndarray:
        weights = self.coef_.T.astype(matrix.dtype)
        return row_products(matrix, weights, thread_count(self.n_jobs)) + np.asarray(self.intercept_, matrix.dtype)

    def _read_table(self, X, dtype, reset: bool):
        """The one table that `groups` goes with, checked."""
        if getattr(X, "ndim", 2) == 3 or (isinstance(X, list | tuple) and X and getattr(X[0], "ndim", 1) > 1):
            raise ValueError("With groups X is one table (rows, features), each row a candidate; got bags, which need no groups.")
        check_table(X)
        options = {"accept_sparse": "csr", "accept_large_sparse": True, "dtype": dtype, "order": "C", "reset": reset}
        return checked_matrix(validate_data(self, X, **options))

    def _best_scores(self, scores: np.ndarray, start: np.ndarray) -> np.ndarray:
        return np.maximum.reduceat(scores, start[:-1], axis=0)

    def _numbers_of(self, y, samples: int) -> np.ndarray:
        y = column_or_1d(y)
        if y.size != samples:
            raise ValueError(f"X has {samples} bags, y has {y.size} labels.")
        found = np.searchsorted(self.classes_, y).clip(0, len(self.classes_) - 1)
        wrong = np.flatnonzero(self.classes_[found] != y)
        if wrong.size:
            raise ValueError(f"Label {quoted(y[wrong[0]])} of y, of sample {wrong[0]}, was not seen in fit.")
        return found

    def _prepared(self, X, y, sample_weight, groups=None):
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        matrix, start, y, given = self._read_samples(X, y, sample_weight, groups)
        weight = checked_weight(given, start.size - 1)
        classes, label = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must hold at least 2 classes; it holds only one class: {quoted(classes[0])}.")
        positive = positive_of(self.positive_class, classes.tolist())
        cost = cost_matrix(self.cost, classes)
        factors = class_factors(self.class_weight, classes, y, label, None if given is None else weight)
        bias = float(self.intercept_scaling) if self.fit_intercept else 0.0
        table = rows(matrix, bias, SPARSE_BELOW["scalar" if len(classes) == 2 else "row"])
        bags.check_sizes(table, start)
        first = np.zeros(label.size, np.int64)
        if len(classes) == 2:
            sign = (label == positive).astype(np.int64)
            data: Bags | BinaryBags = BinaryBags(table, start, sign, first, cost[label, 1 - label])
        else:
            data = Bags(table, start, label.astype(np.int64), first, cost)
        meant = None if positive is None else classes[positive]
        learned = {"classes_": classes, "positive_class_": meant, "n_features_in_": matrix.shape[1]}
        if "feature_names_in_" in vars(self):
            learned["feature_names_in_"] = self.feature_names_in_
        return BagProblem(data, weight * factors[label], matrix), learned

    def _read_samples(self, X, y, sample_weight, groups):
        """All candidates bag after bag, where each bag starts, and the labels and weights of bags."""
        dtype = checked_dtype(self.dtype)
        if groups is None:
            self.__dict__.pop("feature_names_in_", None)
            bags.bag_count(X)
            same_count(X, y)
            labels = classes_of(y)
            return *bags.stacked_bags(X, dtype), labels, sample_weight
        labels = classes_of(y)
        table = self._read_table(X, FLOATS if dtype is None else dtype, reset=True)
        grouped = bags.grouped_rows(groups, table.shape[0])
        return grouped.below_each_other(table), grouped.start, *of_bags(grouped, labels, sample_weight)

    def _checked_init(self, problem: BagProblem):
        sizes = np.diff(problem.data.start)
        if isinstance(self.init, str) and self.init in INITS:
            return self.init
        given = np.asarray(self.init) if uneven(self.init) is None else np.zeros(0)
        if given.shape != sizes.shape or given.dtype.kind not in "iu":
            raise ValueError(f"init must be one of {', '.join(INITS)}, or an integer for each of the {sizes.size} bags.")
        wrong = np.flatnonzero((given < 0) | (given >= sizes))
        if wrong.size:
            i = int(wrong[0])
            raise ValueError(f"init names candidate {given[i]} of bag {i}, which has {sizes[i]} candidates.")
        return given.astype(np.int64)

    def _keep(self, result: LatentResult) -> None:
        two = len(self.classes_) == 2
        weights = result.w[None, :] if two else vectors.to_classes(result.w, len(self.classes_))
        scaling = float(self.intercept_scaling) if self.fit_intercept else 0.0
        self.coef_, self.intercept_ = np.ascontiguousarray(weights[:, :-1]), weights[:, -1] * scaling
        self.n_oracle_calls_ = result.oracle_calls
        if self.keep_duals:
            assert result.problem is not None
            data = result.problem.data
            table = np.zeros((int(data.start[-1]), weights.shape[0]))
            coefficients(result.duals, data, result.problem.cap, new_scratch(data), table)
            self.dual_coef_ = table.ravel() if two else table

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        return tags


def classes_of(y) -> np.ndarray:
    check_target(y, classes=True)
    check_classification_targets(y)
    return column_or_1d(y)


def of_bags(grouped: bags.Grouped, y: np.ndarray, sample_weight) -> tuple[np.ndarray, np.ndarray | None]:
    """The labels and the weights of bags, which may be given for rows."""
    weight = None if sample_weight is None else grouped.one_each("sample_weight", numbers("sample_weight", sample_weight))
    return grouped.one_each("y", y), weight


def positive_of(given, classes: list) -> int | None:
    """Which of two classes the best candidate speaks for, by its number; None for three classes and more."""
    if len(classes) > 2:
        if given is not None:
            raise ValueError(
                f"positive_class={quoted(given)} is for two classes; y has {len(classes)}, each with candidates that speak for "
                "it. Leave positive_class out."
            )
        return None
    if given is None and classes in SIGNED:
        return 1
    labels = " and ".join(map(repr, classes))
    if given is None:
        raise ValueError(
            f"y has the labels {labels}, and a bag belongs to one of them as soon as one candidate shows it: say which, with "
            f"positive_class={classes[0]!r} or positive_class={classes[1]!r}. (0 and 1, -1 and 1, False and True need no word.)"
        )
    if np.ndim(given) > 0 or given not in classes:
        raise ValueError(f"positive_class={quoted(given)} is not among the labels of y, {labels}.")
    return classes.index(given)
