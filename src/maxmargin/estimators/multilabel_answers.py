"""What a multi-label model answers: indicators in several forms, names of labels, the best labels, and how good they are."""

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted

from ..data.indicators import checked_labels
from ..data.label_lists import lists_of
from ..data.sources.memory import is_source
from ..data.tensors import DeviceMatrix, host_values, place_of
from ..solvers.tuning import PREDICTION
from .by_block import Scored, blockwise, check_source, labels_of
from .label_thresholds import above_thresholds, fixed_thresholds, is_tuned, tuned_thresholds
from .on_device import best_first, cast_as, taken_classes
from .probability import EachLabel, folds_of_labels

OUTPUTS = {"dense", "sparse", "pandas", "polars"}


class LabelAnswers(Scored, ClassifierMixin, EachLabel):
    """Predictions of `MultilabelSVMClassifier`."""

    thresholds: Any
    output: str | None
    _form: tuple[np.dtype, bool]  # the dtype of Y, and whether it was sparse

    # ---- answers ------------------------------------------------------------------------------------------

    def predict(self, X):
        """Indicators 0 and 1 of shape (n_samples, n_labels), in the dtype of the Y of `fit` and the form that `output` says: 1
        where the score is above the label's threshold."""
        check_is_fitted(self)
        wanted = self.output or ("sparse" if self._form[1] else "dense")
        found = self._indicators(X, wanted == "sparse")
        return found if wanted in ("dense", "sparse") else framed(host_values(found), self.classes_, wanted, X)

    def predict_labels(self, X) -> list[tuple]:
        """The names of the labels that `predict` gives, a tuple for each sample, in the order of `classes_`."""
        return lists_of(self._indicators(X, True), self.classes_)

    def predict_topk(self, X, k: int = 1) -> np.ndarray:
        """The names of the k labels with the highest scores, the best first: (n_samples, k). Thresholds do not matter here; of
        equal scores the first label is the better one."""
        check_is_fitted(self)
        return taken_classes(self.classes_, self._best(X, checked_k(k, len(self.classes_))))

    def score(self, X, y=None, sample_weight=None) -> float:
        """The share of samples with all labels right, as in scikit-learn. y in any form that `fit` takes, with the same labels;
        a source brings its own labels and weights."""
        y, sample_weight = self._truth(X, y, sample_weight)
        wrong = sp.csr_array(y != self._indicators(X, True).astype(np.int64))
        return float(np.average(np.diff(wrong.indptr) == 0, weights=sample_weight))

    def score_topk(self, X, y=None, k: int = 1, sample_weight=None) -> float:
        """Precision at k: the mean over samples of (how many of its k best labels the sample has) / k.

        A sample with fewer than k labels cannot reach 1, one without labels is 0. For a grid search write
        `scoring=lambda model, X, y: model.score_topk(X, y, k=3)`.
        """
        check_is_fitted(self)
        count = len(self.classes_)
        k = checked_k(k, count)
        y, sample_weight = self._truth(X, y, sample_weight)
        best = host_values(self._best(X, k))
        rows = np.repeat(np.arange(y.shape[0]), np.diff(y.indptr))
        hits = np.isin(np.arange(y.shape[0])[:, None] * count + best, rows * count + y.indices)
        return float(np.average(hits.mean(axis=1), weights=sample_weight))

    def _truth(self, X, y, sample_weight) -> tuple[sp.csr_array, np.ndarray | None]:
        """True labels as a matrix, and weights of the samples."""
        check_is_fitted(self)
        if is_source(X):
            check_source(self, X, y, sample_weight, multilabel=True)
            y, sample_weight = labels_of(X)
        place = place_of(X)
        read = checked_labels(host_values(y, place), names=self.classes_)
        if read.columns.missing is not None:
            raise ValueError("y has labels that are not known, of which no score can tell whether they are right.")
        if not is_source(X):
            check_consistent_length(X, read.columns.present)
        truth = sp.csr_array(read.columns.present).astype(np.int64)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(host_values(sample_weight, place, "sample_weight"), truth, dtype=np.float64)
        return truth, sample_weight

    # ---- how ----------------------------------------------------------------------------------------------

    @blockwise
    def _indicators(self, X, sparse: bool):
        """What is predicted, dense (on the device of X) or CSR, which is never made dense as a whole."""
        dtype = self._form[0]
        if not sparse:
            return cast_as(dtype, above_thresholds(self._scores(X), self._cuts()))
        X = self._read(X)
        if isinstance(X, DeviceMatrix):
            return sp.csr_array(host_values(above_thresholds(self._scored(X), self._cuts()))).astype(dtype)
        parts = [sp.csr_array(above_thresholds(part, self._cuts())) for part in self._score_parts(X)]
        return sp.vstack(parts, format="csr").astype(dtype)

    @blockwise
    def _best(self, X, k: int):
        """The numbers of the k best labels."""
        X = self._read(X)
        if isinstance(X, DeviceMatrix):
            return best_first(self._scored(X), k)
        return np.vstack([best_first(part, k) for part in self._score_parts(X)])

    def _score_parts(self, X) -> Iterator[np.ndarray]:
        """The scores of some rows at a time."""
        for start in range(0, X.shape[0], PREDICTION.labels):
            yield self._scored(X[start : start + PREDICTION.labels])

    def _cuts(self) -> np.ndarray:
        """The thresholds; models of earlier versions have none."""
        return vars(self).get("thresholds_", np.zeros(len(self.classes_)))

    # ---- what is learned on folds ---------------------------------------------------------------------------

    @property
    def _learns_on_folds(self) -> bool:
        return super()._learns_on_folds or is_tuned(self.thresholds)

    def _folds(self, target):
        if self.probability is None and is_tuned(self.thresholds):
            return folds_of_labels("thresholds", self.thresholds, target)
        return super()._folds(target)

    def _calibrate(self, prepared, found):
        self.thresholds_ = fixed_thresholds(self.thresholds, len(self.classes_))
        super()._calibrate(prepared, found)

    def _learn_from(self, scores, target, weight):
        super()._learn_from(scores, target, weight)
        if is_tuned(self.thresholds):
            self.thresholds_ = tuned_thresholds(scores, target, weight)


def checked_k(k: Any, count: int) -> int:
    """How many labels are asked for."""
    if not isinstance(k, Integral) or isinstance(k, bool):
        raise ValueError(f"k must be an integer, got {k!r}.")
    if not 1 <= int(k) <= count:
        raise ValueError(f"k must be between 1 and the {count} labels of the model, got {k}.")
    return int(k)


def framed(found: np.ndarray, names: np.ndarray, library: str, X: Any) -> Any:
    """Answers as a data frame; in pandas with the index of X."""
    try:
        if library == "pandas":
            import pandas

            return pandas.DataFrame(found, columns=list(names), index=X.index if isinstance(X, pandas.DataFrame) else None)
        import polars

        return polars.DataFrame(found, schema=[str(name) for name in names], orient="row")
    except ImportError:
        raise ImportError(f"output={library!r} needs {library}: pip install {library}.") from None
