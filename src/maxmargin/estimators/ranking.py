"""`RankingSVM`: scores that put the samples of a group into the order of their targets."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length

from ..callbacks import with_callbacks
from ..data.groups import named_groups
from ..data.matrices import numbers
from ..data.mistakes import check_target
from ..data.rows import SPARSE_BELOW
from ..data.sources.memory import is_source
from ..data.table import of_own_kind, table_of
from ..problems.ranking import RankingProblem, group_scores, pair_weights, ranked
from ..solvers import resolve
from .base import settings_of
from .by_block import blockwise, check_source, in_memory, keep_names
from .linear import LinearModel, Posed, Prepared


class NotGiven:
    """Stands for groups that were not said: None says that all samples are one group."""

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN = NotGiven()


def check_said(groups, method: str) -> None:
    """Refuse to rank all samples as one group because nothing was said: `cross_val_score(..., groups=...)` gives groups to its
    splitter only."""
    if groups is NOT_GIVEN:
        raise ValueError(
            f"RankingSVM.{method} needs groups=, the group of each sample, or groups=None if all samples are one group; "
            "cross-validation and searches hand groups on only with sklearn.set_config(enable_metadata_routing=True), "
            f"set_{method}_request(groups=True) on the model and params={{'groups': ...}}."
        )


def checked_groups(groups, samples: int) -> np.ndarray:
    """The number of the group of each sample; one group where none are given. Samples of a group may lie anywhere."""
    if groups is None:
        return np.zeros(samples, np.int64)
    return named_groups(groups, samples)[2]


class RankingSVM(LinearModel):
    """A linear ranking with a certificate: within each group, samples with a larger target get a larger score.

    Minimises 1/2 ||w||^2 + C sum_g t_g sum s_i s_j max(0, 1 - <w, x_i - x_j>) over all pairs of a group with y_i > y_j, as
    SVMrank does (Joachims 2002). Samples with the same target, and of different groups, are not compared. Pairs are never
    written out: a pass takes n log n steps (Joachims 2006; Lee and Lin 2014).

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the regulariser.
    normalize : bool, default=True
        t_g is the number of samples of a group over that of its pairs (both by weight): a sample weighs C, as in the other
        estimators, however large its group is. False: t_g = 1, each pair weighs C, as in SVMrank with `-c` C times the number of
        groups, and as in `SVMClassifier(fit_intercept=False)` on the differences of all pairs.
    tol, max_iter, max_time, standardize, warm_start, keep_duals, random_state, n_jobs, verbose, dtype
        As in `SVMClassifier`.
    solver : {"auto", "newton", "bundle"} or solver object, default="auto"
        "auto" is "newton".

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        There is no intercept: it would not change any order.
    dual_coef_ : array of shape (n_samples,), with keep_duals=True
        coef_ = sum_i dual_coef_[i] x_i: the duals of the pairs that i should win less those of the pairs it should lose.
    certificate_, history_, n_iter_, n_features_in_, feature_names_in_
        As in `SVMClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> import maxmargin as mm
    >>> X = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> model = mm.RankingSVM().fit(X, [0, 1, 2, 0, 1], groups=["a", "a", "a", "b", "b"])
    >>> model.score(X, [0, 1, 2, 0, 1], groups=["a", "a", "a", "b", "b"])
    1.0
    """

    _parameter_constraints = {
        **{name: rule for name, rule in LinearModel._parameter_constraints.items() if "intercept" not in name},
        "normalize": ["boolean"],
    }

    fit_intercept = False
    intercept_scaling = 1.0

    def __init__(
        self,
        C=1.0,
        *,
        normalize=True,
        tol=1e-3,
        max_iter=10_000,
        max_time=None,
        standardize=False,
        solver="auto",
        warm_start=False,
        keep_duals=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        dtype=None,
    ):
        self.C = C
        self.normalize = normalize
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.standardize = standardize
        self.solver = solver
        self.warm_start = warm_start
        self.keep_duals = keep_duals
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.dtype = dtype

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None, groups=NOT_GIVEN):
        """Find the optimum to the relative duality gap `tol`.

        Parameters
        ----------
        X : array, data frame or CSR matrix of shape (n_samples, n_features), or a source
            A source is read into memory whole, for all samples of a group are compared. It brings its labels, weights and
            groups: `qid` of svmlight text, or the column that `open_source(..., group=)` names.
        y : array of shape (n_samples,)
            Numbers, such as degrees of relevance: larger ones should get larger scores.
        sample_weight : array of shape (n_samples,), optional
            Weights s_i >= 0. A pair weighs s_i s_j, so that an integer weight equals that many repetitions of the sample. With
            `normalize`, one weight for all samples of a group equals that many repetitions of the group.
        groups : array of shape (n_samples,), or None
            The group (query, `qid`) of each sample, any labels in any order. None: all samples are one group. It must be said,
            but for sources: cross-validation and searches hand groups on only where metadata routing and
            `set_fit_request(groups=True)` ask for it.

        Returns
        -------
        self
        """
        self._validate_params()
        return self._fitted(self._prepared(X, y, sample_weight, groups))

    def regularization_path(self, X, y, Cs, sample_weight=None, groups=NOT_GIVEN) -> list:
        """Fitted copies of this estimator for each C in `Cs`, each started from the one before it and certified."""
        return [step.model for step in self._rising((X, y, sample_weight, groups), settings_of(Cs))]

    @blockwise
    def decision_function(self, X) -> np.ndarray:
        """Scores, (n_samples,): of two samples of a group the one with the larger score is put first. X may be a source."""
        return self._scores(X)

    def predict(self, X) -> np.ndarray:
        """The scores, as `decision_function` gives them."""
        return self.decision_function(X)

    def score(self, X, y=None, sample_weight=None, groups=NOT_GIVEN) -> float:
        """The part of the pairs of a group that are in order, in the mean over groups that have any; a tie counts half.

        With one group (groups=None) and two targets this is the area under the ROC curve. A source brings its own targets,
        weights and groups.
        """
        if is_source(X):
            y, sample_weight, groups = self._brought(X, y, sample_weight, groups)[1:]
        check_said(groups, "score")
        scores = np.asarray(self.decision_function(X), dtype=np.float64)
        y = numbers("y", y)
        check_consistent_length(scores, y)
        weight = np.ones(scores.size) if sample_weight is None else self._checked_weight(sample_weight, scores[:, None])
        layout = ranked(y, checked_groups(groups, scores.size), weight)
        if len(layout.first) < 2:
            raise ValueError("No group has two samples with different targets: there is no pair to score.")
        return group_scores(layout, scores)

    def _prepared(self, X, y, sample_weight, groups=NOT_GIVEN) -> Prepared:
        source = X if is_source(X) else None
        if source is not None:
            X, y, sample_weight, groups = self._brought(source, y, sample_weight, groups)
        check_said(groups, "fit")
        solver = resolve(self.solver)
        check_target(y, False)
        X, y = self._read(X, y, reset=True, dtype=self._dtypes(), order="C", y_numeric=True)
        if source is not None:
            keep_names(self, source)
        if of_own_kind(X):
            raise ValueError(f"RankingSVM takes arrays, data frames and CSR matrices, not {type(X).__name__}.")
        y = numbers("y", y)
        weight = np.ones(X.shape[0]) if sample_weight is None else self._checked_weight(sample_weight, X)
        layout = ranked(y, checked_groups(groups, X.shape[0]), weight)
        samples, pairs = pair_weights(layout)
        if not samples.size:
            raise ValueError(nothing_to_rank(y, groups))
        scaled, scaling = self._scaled(X, weight)
        table = table_of(scaled, 0.0, SPARSE_BELOW["scalar"])

        def pose(model, share=1.0) -> Posed:
            factor = samples / pairs if model.normalize else np.ones_like(pairs)
            return Posed(RankingProblem(table, layout, factor * share), None, scaling)

        return Prepared(pose, self._learned(), solver, X, y, weight)

    def _brought(self, source, y, sample_weight, groups) -> tuple[Any, Any, Any, Any]:
        """Samples, targets, weights and groups of a source."""
        if groups is not NOT_GIVEN and groups is not None:
            raise ValueError("A source brings its own groups, qid of text or open_source(..., group=column); leave groups out.")
        check_source(self, source, y, sample_weight)
        found = in_memory(source)
        if found.group is None and groups is NOT_GIVEN:
            raise ValueError(
                "The source has no groups: name them, qid of text or open_source(..., group=column), or say groups=None if all "
                "its samples are one group."
            )
        return found.X, found.y, found.weight, found.group

    def _shaped(self, coef, intercept) -> tuple[np.ndarray, Any]:
        return coef, 0.0


def nothing_to_rank(y: np.ndarray, groups) -> str:
    """Why there is no pair."""
    if groups is None or np.all(y == y[0]):
        same = f"all {y.size} samples" if y.size > 1 else "1 sample"
        return f"There is nothing to rank: y has one value, {y[0]:g}, for {same}, and pairs need two."
    return "There is nothing to rank: no group has two samples (of weight > 0) with different targets."
