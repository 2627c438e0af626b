"""Multi-label models of data that arrive in pieces: `partial_fit`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..callbacks import with_callbacks
from ..data.indicators import Checked, LabelColumns
from ..data.label_lists import given_labels, names_of
from ..problems.blocked import stacked
from ..result import Result
from ..solvers.base import Start
from ..utils.threads import thread_count
from .by_block import check_unscaled, check_whole, partial_solver
from .kernel import Kernelised, check_partial
from .label_thresholds import check_untuned, fixed_thresholds


class LabelledSupport(NamedTuple):
    """The samples that have a dual other than zero for any label, with all their labels and duals."""

    X: Any
    labels: LabelColumns
    weight: np.ndarray
    duals: sp.csr_array
    dropped: bool  # whether any sample is not among them any more


def joined_support(kept: LabelledSupport, new: LabelledSupport) -> LabelledSupport:
    both = kept.labels, new.labels
    missing = None
    if any(labels.missing is not None for labels in both):
        none = [sp.csc_array(labels.shape, dtype=bool) for labels in both]
        parts = [empty if labels.missing is None else labels.missing for labels, empty in zip(both, none)]
        missing = sp.vstack(parts, format="csc")
    labels = LabelColumns(sp.vstack([labels.present for labels in both], format="csc"), missing)
    duals = sp.vstack([kept.duals, new.duals], format="csr")
    return LabelledSupport(stacked([kept.X, new.X]), labels, np.concatenate([kept.weight, new.weight]), duals, kept.dropped)


def supported(all_of_them: LabelledSupport, duals: sp.csc_array) -> LabelledSupport:
    """Those of the samples that are support vectors under these duals."""
    duals = sp.csr_array(duals)
    duals.eliminate_zeros()
    support = np.diff(duals.indptr) > 0
    present, missing = all_of_them.labels.present, all_of_them.labels.missing
    labels = LabelColumns(*(None if part is None else sp.csc_array(sp.csr_array(part)[support]) for part in (present, missing)))
    dropped = all_of_them.dropped or not bool(support.all())
    return LabelledSupport(all_of_them.X[support], labels, all_of_them.weight[support], duals[support], dropped)


class PartialFit(Kernelised):
    """What `MultilabelSVMClassifier` knows about pieces of data."""

    label_weight: Any
    thresholds: Any
    _checked_pair: Callable[..., tuple[Any, Checked]]
    _data: Callable[..., Any]
    _problem: Callable[..., Any]

    @with_callbacks
    def partial_fit(self, X, y, classes=None, sample_weight=None, mask=None):
        """Learn from another piece of the data, and keep its support vectors for the calls to come (linear models).

        The model becomes the optimum, to the relative gap `tol`, over the samples kept so far and the new piece. Samples whose
        duals are zero for every label are then forgotten; the others are kept, however many there are. `certificate_.dual` is a
        lower bound on the optimum of all data ever given; `certificate_.primal` covers kept and new samples only, and `verified`
        says so by being False once any was forgotten.

        Parameters
        ----------
        X : array, data frame or CSR matrix of shape (n_samples, n_features)
        y : array, data frame or sparse matrix of shape (n_samples, n_labels), or lists of labels
        classes : array of shape (n_labels,) or fitted MultiLabelBinarizer, optional
            The names of the labels, in the order of the columns of y. Lists of labels need them in the first call: all labels
            that will ever come (by default, of a model fitted before, its own). A matrix has all labels, so that there is no need
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
        check_partial(self.kernel)
        if isinstance(self.label_weight, str):
            raise ValueError("label_weight='balanced' needs all data at once; give the factors for partial_fit.")
        kept: LabelledSupport | None = self.__dict__.get("_kept")
        X, labels = self._checked_piece(X, y, mask, classes, kept)
        count = labels.columns.shape[1]
        thresholds = fixed_thresholds(self.thresholds, count)
        weight = np.ones(X.shape[0]) if sample_weight is None else self._checked_weight(sample_weight, X)
        samples = LabelledSupport(X, labels.columns, weight, sp.csr_array((X.shape[0], count)), False)
        if kept is not None:
            samples = joined_support(kept, samples)
        posed = self._problem(self._data(samples.X), labels._replace(columns=samples.labels), samples.weight)
        problem = posed.at(self.C)
        self.classes_, self._form, self.thresholds_ = labels.classes, (labels.dtype, labels.sparse), thresholds

        def keep(result: Result) -> None:
            self._keep(result, *problem.split_coefficients(result.w, thread_count(self.n_jobs)))
            self.certificate_ = replace(result.certificate, verified=result.certificate.verified and not samples.dropped)

        start = None if kept is None else sp.csc_array(samples.duals)
        result = self._drive(solver, problem, keep, resumable=False, start=Start(start))
        self._kept = supported(samples, result.duals)
        return self

    def _checked_piece(self, X, y, mask, classes, kept: LabelledSupport | None) -> tuple[Any, Checked]:
        """Samples and labels, which are those of the first call."""
        shape: tuple[int, ...] = getattr(y, "shape", ())
        columns = int(shape[1]) if len(shape) == 2 else None
        unsaid = classes is None or (np.array_equal(classes, (0, 1)) and columns != len(classes))  # or what y holds
        if kept is None:
            names = None if unsaid else classes
            if classes is None and columns is None and given_labels(y).listed:
                names = vars(self).get("classes_")
                if names is None:
                    raise ValueError(
                        "classes must be given in the first call of partial_fit with lists: all labels that will come."
                    )
            return self._checked_pair(X, y, mask, classes=names)
        if columns not in (None, len(self.classes_)):
            raise ValueError(f"y has {columns} labels; those of the first call of partial_fit were {len(self.classes_)}.")
        if not unsaid and names_of(classes).tolist() != self.classes_.tolist():
            raise ValueError(f"classes={classes!r} is not the same as in the first call of partial_fit: {self.classes_!r}.")
        return self._checked_pair(X, y, mask, reset=False, classes=self.classes_)
