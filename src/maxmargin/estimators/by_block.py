"""Linear estimators on data that come in blocks: sources in `fit`, `predict` and `score`, and `partial_fit`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from ..callbacks import with_callbacks
from ..data.mistakes import quoted, shown
from ..data.sources.blocks import NO_GROUP
from ..data.sources.column_names import check_same_names
from ..data.sources.memory import Block, is_source
from ..data.table import table_of
from ..data.tensors import DeviceMatrix, as_array, as_tensor_again, host_values, is_tensor, place_of, read_as_array
from ..problems.base import PLAIN_TERM, Problem, split_off_constant, suspect_loss
from ..problems.blocked import Examples, Reader, StreamProblem, joined, stacked
from ..regularizers.base import Regularizer
from ..regularizers.frozen import frozen, sums_of
from ..regularizers.half_spaces import HalfSpaces
from ..regularizers.prior import Prior
from ..result import Result
from ..solvers import DualCoordinate, OnlineDual, resolve
from ..solvers.base import Solver, Start
from ..solvers.streams.run import MEGABYTE
from .base import Certified, only_if
from .frames import without_names
from .frozen_duals import check_same_objective, found_at_duals, kept_by, objective_of
from .posing import Posing
from .scaling import Scaling, scaling_of_source


def blockwise(method: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Let a method that answers for each row of X take a source: block by block, answers in the order of its rows. To a tensor in
    host memory, which is read as an array, answers are tensors."""

    @wraps(method)
    def by_block(self, X, *args, **kwargs):
        check_is_fitted(self)
        if not is_source(X):
            if read_as_array(X, self.device):
                return as_tensor_again(method(self, as_array(X), *args, **kwargs), X)
            return method(self, X, *args, **kwargs)
        self, X = matched(self, X)
        rows, found = [], []
        for block in X.blocks():
            rows.append(block.rows)
            found.append(method(self, block.X, *args, **kwargs))
        return stacked(found)[np.argsort(np.concatenate(rows), kind="stable")]

    return by_block


def matched(model, source):
    """The source with its categories as the model knows them; and the model for its blocks, which are arrays: without the names
    of the columns, where the source has the same."""
    if (encoding := getattr(model, "encoding_", None)) is not None and hasattr(source, "encoded"):
        source = source.encoded(encoding)
    known, found = (getattr(each, name, None) for each, name in ((model, "feature_names_in_"), (source, "feature_names")))
    if known is None or found is None:
        return model, source
    check_same_names(source, found, "the model was fitted with", list(known))
    return without_names(model), source


def keep_names(model, source) -> None:
    """Names of columns that a source has are those of the model, as with data frames; and so is the way its categories became
    features, for predictions."""
    for name in ("feature_names_in_", "encoding_"):
        model.__dict__.pop(name, None)
    if (encoding := getattr(source, "encoding", None)) is not None:
        model.encoding_ = encoding
    if (names := getattr(source, "feature_names", None)) is not None:
        model.feature_names_in_ = np.array(names, dtype=object)


def labels_of(source) -> tuple[np.ndarray, np.ndarray | None]:
    """All labels of a source, and its weights if it has any."""
    rows, labels, weights = [], [], []
    for block in source.blocks():
        rows.append(block.rows)
        labels.append(labels_of_block(block))
        weights.append(np.ones(block.rows.size) if block.weight is None else block.weight)
    order = np.argsort(np.concatenate(rows), kind="stable")
    return stacked(labels)[order], np.concatenate(weights)[order]


def in_memory(source) -> Block:
    """All rows of a source in their order: for models that need them at once."""
    blocks = list(source.blocks())
    order = np.argsort(np.concatenate([block.rows for block in blocks]), kind="stable")
    y = stacked([labels_of_block(block) for block in blocks])[order]
    weight, group = None, None
    if any(block.weight is not None for block in blocks):
        weight = np.concatenate([np.ones(block.rows.size) if block.weight is None else block.weight for block in blocks])[order]
    if any(block.group is not None for block in blocks):
        group = np.concatenate([no_groups(block.rows) if block.group is None else block.group for block in blocks])[order]
        if group.dtype.kind == "i" and np.any(group == NO_GROUP):
            raise ValueError(f"Row {int(np.argmax(group == NO_GROUP))} of {source} has no qid, but others have.")
    return Block(np.arange(order.size), stacked([block.X for block in blocks])[order], y, weight, group)


def no_groups(rows: np.ndarray) -> np.ndarray:
    return np.full(rows.size, NO_GROUP)


def labels_of_block(block: Block) -> np.ndarray:
    if block.y is None:
        raise ValueError("The source has no labels; open it with label=..., or give it a column of them.")
    return block.y


def check_finite_rows(X, rows: np.ndarray) -> None:
    """Refuse NaN and infinity in a block, naming the row."""
    values = X.data if sp.issparse(X) else X
    if np.isfinite(np.sum(values, dtype=np.float64)) or np.all(np.isfinite(values)):  # the sum says it for nearly all blocks
        return
    bad = ~np.isfinite(values)
    row = np.searchsorted(X.indptr, np.flatnonzero(bad)[0], side="right") - 1 if sp.issparse(X) else np.argwhere(bad)[0, 0]
    raise ValueError(f"Row {rows[row]} of the source holds NaN or infinity.")


def class_codes(classes: np.ndarray, y, rows: np.ndarray) -> np.ndarray:
    """The number of each sample's class; `rows` are the numbers of the samples."""
    place = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = np.flatnonzero(classes[place] != y)
    if unknown.size:
        row = unknown[0]
        raise ValueError(f"Sample {rows[row]} has the label {quoted(y[row])}, which is not among the classes {shown(classes)}.")
    return place.astype(np.int64)


def other_classes(given, known) -> str:
    """The sentence of a `partial_fit` with other classes than the first."""
    return f"classes must be those of the first call of partial_fit, or of fit, {shown(known)}; got {quoted(given)}."


def real_codes(y, rows: np.ndarray) -> np.ndarray:
    """Real targets, all of them finite."""
    target = np.asarray(y, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(target))
    if bad.size:
        raise ValueError(f"The target of sample {rows[bad[0]]} is NaN or infinite.")
    return target


@dataclass(frozen=True)
class SourceReader(Reader):
    """Blocks of a user's source. `classes` are those of a classifier; `setting`: the bias and the share of non-zeros below which
    rows get an index."""

    posing: Posing
    classes: np.ndarray | None
    prior: Prior
    regularizer: Regularizer
    half_spaces: HalfSpaces | None
    setting: tuple[float, float]
    dtype: Any = None

    @property
    def suspect(self):
        return suspect_loss(getattr(self.posing, "loss", None))

    def read(self, block: Block) -> Examples:
        y, rows = labels_of_block(block), block.rows
        code = real_codes(y, rows) if self.classes is None else class_codes(self.classes, y, rows)
        X = block.X if self.dtype is None else block.X.astype(self.dtype, copy=False)
        check_finite_rows(X, rows)
        weight = np.ones(rows.size) if block.weight is None else np.asarray(block.weight, np.float64)
        return Examples(rows, self.prior.turned(X), code, weight)

    def build(self, X, target, weight):
        return self.posing.problem(table_of(X, *self.setting), target, weight, self.regularizer, self.half_spaces)


class SupportSamples(NamedTuple):
    """What `partial_fit` goes on from: the support vectors so far with their duals, and what it could not keep.

    `frozen` is the sum of b_i x_i over the samples of a `fit` and support vectors that memory had no room for, `reward` theirs,
    `objective` and C what they belong to; `dropped` says whether any example is not among the samples any more. A `fit` leaves
    no samples.
    """

    samples: Examples | None
    duals: np.ndarray | None
    factors: np.ndarray | None
    frozen: np.ndarray
    reward: float
    C: float
    dropped: bool
    objective: dict[str, Any] | None = None


def check_source(estimator, source, y, sample_weight, multilabel: bool = False) -> None:
    """Refuse what does not go with a source."""
    for name, given in (("y", y), ("sample_weight", sample_weight)):
        if given is not None:
            raise ValueError(f"A source brings its own labels and weights; leave {name} out.")
    if bool(getattr(source, "multilabel", False)) != multilabel:
        wanted, found = ("an indicator matrix", "one label") if multilabel else ("one label", "several")
        raise ValueError(f"{type(estimator).__name__} takes {wanted} for each sample; this source has {found}.")


def check_in_memory(probability: str | None) -> None:
    """Refuse to calibrate on data that come in blocks."""
    if probability is not None:
        raise ValueError(
            f"probability={probability!r} needs the samples in memory, for folds of them; leave it out for a source, and "
            "calibrate the fitted model on other samples with scikit-learn's CalibratedClassifierCV."
        )


def check_whole(probability: str | None) -> None:
    """Refuse to calibrate pieces."""
    if probability is not None:
        raise ValueError(f"probability={probability!r} needs all samples at once, for folds of them; use fit, or leave it out.")


def reading_solver(given) -> Solver:
    """The solver for a source, from the parameter of an estimator."""
    found = OnlineDual() if isinstance(given, str) and given == "auto" else resolve(given)
    if not found.reads:
        raise ValueError(f"A source is read by OnlineDual; {type(found).__name__} needs the data in memory.")
    return found


NYSTROEM = "call fit with all samples at once, or put features of scikit-learn's Nystroem before a linear model"


def has_weights(name: str, way: str) -> Callable[[Any], None]:
    """What says that a method is for models with weights of features only, and the way out."""

    def check(estimator: Any) -> None:
        if estimator.kernel != "linear":
            raise AttributeError(f"{name} is for kernel='linear', and this model has kernel={estimator.kernel!r}: {way}.")

    return check


def check_unscaled(estimator) -> None:
    """Refuse `standardize` where data arrive in pieces."""
    if estimator.standardize:
        raise ValueError(
            "standardize=True needs all data at once; for partial_fit scale the columns yourself (StandardScaler.partial_fit)."
        )


def check_in_host_memory(X: Any) -> None:
    """Refuse pieces on a device."""
    if isinstance(X, DeviceMatrix):
        raise ValueError("partial_fit keeps samples in host memory: give X.cpu().numpy(), and device=None.")


def partial_solver(given) -> tuple[Solver, float]:
    """The solver for `partial_fit`, from the parameter of an estimator, and how many megabytes of examples may be kept."""
    found = resolve(given)
    if isinstance(found, OnlineDual):
        return DualCoordinate(), found.cache_size
    if not found.keeps_duals:
        raise ValueError(f"partial_fit needs a solver with duals of samples; {type(found).__name__} has none.")
    return found, OnlineDual().cache_size


class Scored:
    """`score` on sources; stands before the mixin of scikit-learn that has it for arrays."""

    predict: Callable[..., np.ndarray]

    def score(self, X, y=None, sample_weight=None) -> float:
        """The accuracy of `predict` (regression: R squared), as in scikit-learn. A source brings its own labels and weights."""
        if is_tensor(X):
            y, sample_weight = host_values(y, place_of(X)), host_values(sample_weight, place_of(X), "sample_weight")
            return float(self._measure()(y, host_values(self.predict(X)), sample_weight=sample_weight))
        if not is_source(X):
            return super().score(X, y, sample_weight)  # type: ignore[misc]  # scikit-learn's mixin, which comes next
        check_source(self, X, y, sample_weight, multilabel=getattr(X, "multilabel", False))
        y, sample_weight = labels_of(X)
        return float(self._measure()(y, self.predict(X), sample_weight=sample_weight))

    def _measure(self) -> Callable[..., float]:
        return accuracy_score if isinstance(self, ClassifierMixin) else r2_score


class Streaming(Certified):
    """What `LinearSVM` knows about sources and pieces of data."""

    @property
    def _classifies(self) -> bool:
        return isinstance(self, ClassifierMixin)

    # ---- fit ----------------------------------------------------------------------------------------------

    def _scanned(self, source) -> tuple[int, np.ndarray | None]:
        """The number of rows, and the factors of the classes."""
        labels, n_rows = None, source.n_rows
        if self._classifies or n_rows is None or source.n_features is None:
            n_rows, _, labels = source.scan()
        if not n_rows:
            raise ValueError("The source has no rows.")
        if not self._classifies:
            return n_rows, None
        if labels is None:
            raise ValueError(
                "The source has no labels (open it with label=...), or too many different ones to be classes (SVMRegressor?)."
            )
        mass = self._mass(source, labels) if getattr(self, "class_weight", None) == "balanced" else None
        return n_rows, self._checked_target(labels, mass)[1]

    def _mass(self, source, labels: np.ndarray) -> np.ndarray:
        """The weight of each class, by a pass of its own."""
        mass = np.zeros(labels.size)
        for block in source.blocks():
            mass += np.bincount(np.searchsorted(labels, labels_of_block(block)), block.weight, minlength=labels.size)
        return mass

    def _source_problem(self, source) -> tuple[StreamProblem, Prior, Scaling | None]:
        """The problem of a source of the user's, and the prior and the scaling that its weights have to be turned back by."""
        n_rows, factors = self._scanned(source)
        self.n_features_in_ = features = int(source.n_features)
        keep_names(self, source)
        scaling = None
        if self.standardize:
            scaling, source = scaling_of_source(source, self._bias())
        posing = self._posing(factors)
        prior = self._prior(features, posing.classes)
        empty, regularizer, half_spaces = prior.applied(np.zeros((0, features)), posing.classes)
        like = self._rows(empty, posing.classes)
        classes = self.classes_ if self._classifies else None
        reader = SourceReader(posing, classes, prior, regularizer, half_spaces, (like.bias, like.sparse_below), self.dtype)
        return StreamProblem(source, reader, n_rows, features, posing.classes, regularizer, half_spaces), prior, scaling

    # ---- partial_fit --------------------------------------------------------------------------------------

    def _freeze(self, posed: Any, problem: Problem, result: Result) -> None:
        """Keep what `partial_fit` goes on from: the duals of this fit, as what they sum up to."""
        self.__dict__.pop("_kept", None)
        found = found_at_duals(result)
        if found is None or posed.scaling is not None or problem.device is not None:
            return
        r, reward = sums_of(problem.regularizer, min(found.dual, result.certificate.dual), found.v)
        self._kept = SupportSamples(None, None, None, r, reward, float(self.C), True, objective_of(self))

    @only_if(has_weights("partial_fit", NYSTROEM))
    @with_callbacks
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn from another piece of the data, and keep its support vectors for the calls to come.

        The model becomes the optimum, to the relative gap `tol`, over the support vectors kept so far and the new piece. What is
        not a support vector then is forgotten. After a `fit` the duals of its samples stay as they are, and those of new samples
        are added to them. `certificate_.dual` is a lower bound on the optimum of all data ever given, those of `fit` among them;
        `certificate_.primal` covers kept and new examples only, and `verified` says so by being False once any was forgotten.

        Parameters
        ----------
        X : array, data frame or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        classes : array, optional
            All classes that will ever come; needed in the first call of a classifier that was not fitted before. After a `fit`
            they are those of its samples.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._validate_params()
        check_unscaled(self)
        check_whole(getattr(self, "probability", None))
        solver, cache_size = partial_solver(self.solver)
        kept: SupportSamples | None = kept_by(self)
        if kept is not None and kept.frozen.size:
            check_same_objective(self, kept.objective)
        factors = self._declared(classes, kept)
        samples = self._new_samples(X, y, sample_weight, first=kept is None)
        posing = self._posing(factors)
        prior = self._prior(self.n_features_in_, posing.classes)
        duals = np.zeros((samples.rows.size, *(() if posing.classes is None else (posing.classes,))))
        if kept is not None and kept.samples is not None:
            samples = joined([kept.samples, samples])
            duals = np.concatenate([kept.duals, duals])
        data, regularizer, half_spaces = prior.applied(samples.X, posing.classes)
        if kept is not None and kept.frozen.size:
            regularizer = frozen(regularizer, kept.frozen, kept.reward, kept.C)
        table = self._rows(data, posing.classes)
        problem = posing.problem(table, samples.target, samples.weight, regularizer, half_spaces).at(self.C)
        dropped = kept is not None and kept.dropped

        def keep(result: Result) -> None:
            self._keep(result, *split_off_constant(prior.back(problem.coefficients(result.w))))
            self.certificate_ = replace(result.certificate, verified=result.certificate.verified and not dropped)

        self.__dict__.pop("_calibration", None)
        result = self._drive(solver, problem, keep, resumable=False, start=Start(problem.clipped(duals), fresh=True))
        self._kept = self._remember(samples, result.duals, factors, kept, cache_size)
        return self

    def _declared(self, classes, kept: SupportSamples | None) -> np.ndarray | None:
        """The factors of the classes, which are those of the first call, or of a fit before."""
        if not self._classifies:
            if classes is not None:
                raise ValueError("classes is for classifiers.")
            return None
        if kept is not None:
            if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                raise ValueError(other_classes(classes, self.classes_))
            if kept.factors is not None:
                return kept.factors
            classes = self.classes_
        if classes is None:
            raise ValueError("classes must be given in the first call of partial_fit: all classes that will ever come.")
        if isinstance(getattr(self, "class_weight", None), str):
            raise ValueError("class_weight='balanced' needs all data at once; give the factors as a dict for partial_fit.")
        # Twice: scikit-learn takes labels of which more than half are different for targets of a regression, and warns.
        return self._checked_target(np.repeat(np.unique(classes), 2), None)[1]

    def _new_samples(self, X, y, sample_weight, first: bool) -> Examples:
        X, y = self._checked_data(X, y, reset=first)
        check_in_host_memory(X)
        weight = np.ones(X.shape[0]) if sample_weight is None else self._checked_weight(sample_weight, X)
        rows = np.arange(X.shape[0])
        return Examples(rows, X, self._codes(y, rows), weight)

    def _remember(
        self, samples: Examples, duals: np.ndarray, factors, before: SupportSamples | None, cache_size: float
    ) -> SupportSamples:
        """The support vectors; the oldest of them leave their part of the weights only, where memory has no room for all."""
        support = np.asarray(duals != 0.0 if duals.ndim == 1 else duals.any(axis=1))
        dropped = (before is not None and before.dropped) or not support.all()
        samples, duals = samples.chosen(support), duals[support]
        held, reward = (np.zeros(0), 0.0) if before is None else (before.frozen, before.reward)
        size, count = samples.nbytes + duals.nbytes, samples.rows.size
        if size > cache_size * MEGABYTE:
            old = np.arange(count) < count * (1.0 - cache_size * MEGABYTE / size)
            r, more = self._frozen_part(samples.chosen(old), duals[old], factors)
            held, reward = held + r if held.size else r, reward + more
            samples, duals, dropped = samples.chosen(~old), duals[~old], True
        return SupportSamples(samples, duals, factors, held, reward, float(self.C), dropped, objective_of(self))

    def _frozen_part(self, samples: Examples, duals: np.ndarray, factors) -> tuple[np.ndarray, float]:
        """sum_i b_i x_i of these samples, and their reward."""
        posing = self._posing(factors)
        data = Prior(covariance=self.prior_covariance).checked(self.n_features_in_, posing.classes).turned(samples.X)
        table = self._rows(data, posing.classes)
        value, r = posing.problem(table, samples.target, samples.weight, PLAIN_TERM, None).at(self.C).reevaluated(duals)
        return r, value + 0.5 * float(np.vdot(r, r))
