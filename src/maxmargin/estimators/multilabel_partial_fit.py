"""Multi-label models of data that arrive in pieces: `partial_fit`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..callbacks import with_callbacks
from ..data.indicators import Checked, LabelColumns
from ..data.label_lists import given_labels, names_of
from ..jit import vectors
from ..problems.blocked import stacked
from ..problems.multilabel import FrozenLabels
from ..result import Result
from ..solvers.base import Start
from ..utils.threads import thread_count
from .base import only_if
from .by_block import NYSTROEM, check_in_host_memory, check_unscaled, check_whole, has_weights, other_classes, partial_solver
from .frozen_duals import check_same_objective, found_at_duals, kept_by, objective_of
from .kernel import Kernelised
from .label_thresholds import check_untuned, fixed_thresholds


class LabelledSupport(NamedTuple):
    """The samples that have a dual other than zero for any label, with all their labels and duals; after a `fit` none.

    `frozen` is what the duals of a `fit` sum up to, (labels, features + 1), `value` their dual value and `objective` what they
    belong to.
    """

    X: Any
    labels: LabelColumns | None
    weight: np.ndarray | None
    duals: sp.csr_array | None
    dropped: bool  # whether any sample is not among them any more
    frozen: np.ndarray | None = None
    value: float = 0.0
    objective: dict[str, Any] | None = None


def joined_support(kept: LabelledSupport, new: LabelledSupport) -> LabelledSupport:
    assert kept.labels is not None and new.labels is not None and kept.weight is not None and new.weight is not None
    both = kept.labels, new.labels
    missing = None
    if any(labels.missing is not None for labels in both):
        none = [sp.csc_array(labels.shape, dtype=bool) for labels in both]
        parts = [empty if labels.missing is None else labels.missing for labels, empty in zip(both, none)]
        missing = sp.vstack(parts, format="csc")
    labels = LabelColumns(sp.vstack([labels.present for labels in both], format="csc"), missing)
    duals = sp.vstack([kept.duals, new.duals], format="csr")
    return new._replace(X=stacked([kept.X, new.X]), labels=labels, weight=np.concatenate([kept.weight, new.weight]), duals=duals)


def supported(all_of_them: LabelledSupport, duals: sp.csc_array) -> LabelledSupport:
    """Those of the samples that are support vectors under these duals."""
    duals = sp.csr_array(duals)
    duals.eliminate_zeros()
    support = np.diff(duals.indptr) > 0
    assert all_of_them.labels is not None and all_of_them.weight is not None
    present, missing = all_of_them.labels.present, all_of_them.labels.missing
    labels = LabelColumns(*(None if part is None else sp.csc_array(sp.csr_array(part)[support]) for part in (present, missing)))
    dropped, weight = all_of_them.dropped or not bool(support.all()), all_of_them.weight[support]
    return all_of_them._replace(X=all_of_them.X[support], labels=labels, weight=weight, duals=duals[support], dropped=dropped)


def frozen_labels(found: Any, shape: tuple[int, int]) -> FrozenLabels:
    """What the duals of a fit sum up to and their value; `found` is for all labels, or a list of some labels and theirs."""
    parts = found if isinstance(found, list) else [(np.arange(shape[0]), found)]
    sums = np.zeros(shape)
    for columns, (_, v) in parts:
        vectors.put_classes(v[0] if v.ndim == 4 else v, sums, columns)  # of coupled labels V and V R
    return FrozenLabels(sums, float(sum(dual for _, (dual, _) in parts)))


class PartialFit(Kernelised):
    """What `MultilabelSVMClassifier` knows about pieces of data."""

    label_weight: Any
    thresholds: Any
    _checked_pair: Callable[..., tuple[Any, Checked]]
    _data: Callable[..., Any]
    _problem: Callable[..., Any]

    def _freeze(self, posed, problem, result):
        self.__dict__.pop("_kept", None)
        found = found_at_duals(result)
        if found is None or posed.scaling is not None or problem.device is not None:
            return
        held = frozen_labels(found, (len(self.classes_), self.n_features_in_ + 1))
        value = min(held.value, result.certificate.dual)
        self._kept = LabelledSupport(None, None, None, None, True, held.sums, value, objective_of(self))

    @only_if(has_weights("partial_fit", NYSTROEM))
    @with_callbacks
    def partial_fit(self, X, y, classes=None, sample_weight=None, mask=None):
        """Learn from another piece of the data, and keep its support vectors for the calls to come (linear models).

        The model becomes the optimum, to the relative gap `tol`, over the samples kept so far and the new piece. Samples whose
        duals are zero for every label are then forgotten; the others are kept, however many there are. After a `fit` the duals of
        its samples stay as they are, and those of new samples are added to them. `certificate_.dual` is a lower bound on the
        optimum of all data ever given, those of `fit` among them; `certificate_.primal` covers kept and new samples only, and
        `verified` says so by being False once any was forgotten.

        Parameters
        ----------
        X : array, data frame or CSR matrix of shape (n_samples, n_features)
        y : array, data frame or sparse matrix of shape (n_samples, n_labels), or lists of labels
        classes : array of shape (n_labels,) or fitted MultiLabelBinarizer, optional
            The names of the labels, in the order of the columns of y. Lists of labels need them in the first call: all labels
            that will ever come; after a `fit` they are those of its samples. A matrix has all labels, so that there is no need
            to name them; then what y holds, 0 and 1, is taken as well.
        sample_weight : array of shape (n_samples,), optional
        mask : boolean array or sparse matrix of the shape of y, optional

        Returns
        -------
        self
        """
        self._validate_params()
        check_unscaled(self)
        check_whole(self.probability)
        check_untuned(self.thresholds, "for partial_fit")
        solver, _ = partial_solver(self.solver)
        if isinstance(self.label_weight, str):
            raise ValueError("label_weight='balanced' needs all data at once; give the factors for partial_fit.")
        kept: LabelledSupport | None = kept_by(self)
        frozen = None
        if kept is not None and kept.frozen is not None:
            check_same_objective(self, kept.objective)
            frozen = FrozenLabels(kept.frozen, kept.value)
        X, labels = self._checked_piece(X, y, mask, classes, kept)
        check_in_host_memory(X)
        count = labels.columns.shape[1]
        thresholds = fixed_thresholds(self.thresholds, count)
        weight = np.ones(X.shape[0]) if sample_weight is None else self._checked_weight(sample_weight, X)
        samples = LabelledSupport(X, labels.columns, weight, sp.csr_array((X.shape[0], count)), False)
        if kept is not None:
            samples = samples._replace(dropped=kept.dropped, frozen=kept.frozen, value=kept.value, objective=kept.objective)
            if kept.X is not None:
                samples = joined_support(kept, samples)
        posed = self._problem(self._data(samples.X), labels._replace(columns=samples.labels), samples.weight)
        problem = replace(posed, frozen=frozen).at(self.C)
        self.classes_, self._form, self.thresholds_ = labels.classes, (labels.dtype, labels.sparse), thresholds

        def keep(result: Result) -> None:
            self._keep(result, *problem.split_coefficients(result.w, thread_count(self.n_jobs)))
            self.certificate_ = replace(result.certificate, verified=result.certificate.verified and not samples.dropped)

        self.__dict__.pop("_calibration", None)
        start = None if kept is None else sp.csc_array(samples.duals)
        result = self._drive(solver, problem, keep, resumable=False, start=Start(start, fresh=True))
        self._kept = supported(samples, result.duals)
        return self

    def _checked_piece(self, X, y, mask, classes, kept: LabelledSupport | None) -> tuple[Any, Checked]:
        """Samples and labels, which are those of the first call."""
        shape: tuple[int, ...] = getattr(y, "shape", ())
        columns = int(shape[1]) if len(shape) == 2 else None
        unsaid = classes is None or (np.array_equal(classes, (0, 1)) and columns != len(classes))  # or what y holds
        if kept is None:
            if classes is None and columns is None and given_labels(y).listed:
                raise ValueError("classes must be given in the first call of partial_fit with lists: all labels that will come.")
            return self._checked_pair(X, y, mask, classes=None if unsaid else classes)
        if columns not in (None, len(self.classes_)):
            known = len(self.classes_)
            raise ValueError(f"y has {columns} labels; those of the first call of partial_fit, or of fit, were {known}.")
        if not unsaid and names_of(classes).tolist() != self.classes_.tolist():
            raise ValueError(other_classes(classes, self.classes_))
        return self._checked_pair(X, y, mask, reset=False, classes=self.classes_)
