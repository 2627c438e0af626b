"""Estimators on tensors: how X and y are read, what problem is posed, and answers on the device of X."""

import warnings
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data.indicators import LabelColumns
from ..data.streamed import HostMatrix, from_a_file, outgrows
from ..data.tensor_targets import DeviceLabels, class_bits_beside
from ..data.tensors import DeviceMatrix, TensorTable, brought, checked_tensor, device_of, host_values, is_tensor, library, no_room
from ..jit import vectors
from ..losses.base import Loss
from ..losses.crammer_singer import CrammerSingerLoss
from ..losses.fused_rows import fused, fused_entries, fused_topk
from ..losses.multinomial import MultinomialLoss
from ..losses.tensor_forms import EntryForm, entry_form
from ..losses.tensor_multinomial import MultinomialRows
from ..losses.tensor_rows import CrammerSingerRows, EntryRows, EntryTargets, LabelTargets, OneTarget, TensorLoss, TopKRows
from ..losses.topk_alpha import TopKAlphaLoss
from ..losses.topk_steps import TopKLoss
from ..problems.tensors import TensorProblem
from ..regularizers.base import Regularizer
from ..regularizers.gaussian import Gaussian
from ..regularizers.half_spaces import HalfSpaces
from .label_thresholds import check_untuned
from .posing import AllLabels, EachAgainstRest, Posing, RealTargets, SeveralClasses, TwoClasses

IN_MEMORY = "give X.cpu().numpy()"


# ---- what is read -------------------------------------------------------------------------------------------


def read_tensor(X: Any, device: Any, dtype: Any) -> DeviceMatrix:
    """A tensor that a user gives, checked; `dtype` is the parameter of that name."""
    found = checked_tensor(X, None if device is None else device_of(device))
    if dtype is None:
        return found
    return DeviceMatrix(found.tensor.to(getattr(library(), np.dtype(dtype).name)))


def moved_to(device: Any, X: np.ndarray) -> DeviceMatrix:
    """Checked samples in host memory, on a device."""
    if sp.issparse(X):
        raise ValueError(f"device={device!r} is for dense X; a sparse matrix is fitted on the processor: leave device out.")
    wanted, torch = device_of(device), library()
    if outgrows(X.nbytes, wanted):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nobody writes to it
            return HostMatrix(torch.from_numpy(X), wanted, from_a_file(X))
    try:
        return DeviceMatrix(brought(X, wanted))
    except torch.cuda.OutOfMemoryError:
        raise no_room(f"X, which takes {X.nbytes / 2**30:.1f} GiB", wanted) from None


def ones_beside(X: Any) -> Any:
    """The weights of samples that have none, where they are needed."""
    if not isinstance(X, DeviceMatrix):
        return np.ones(X.shape[0])
    return library().ones(X.shape[0], dtype=library().float64, device=X.device)


def check_linear(model: Any) -> None:
    """Refuse what is not done on a device."""
    if model.kernel != "linear":
        raise ValueError(f"kernel={model.kernel!r} needs X in host memory: {IN_MEMORY}.")
    if model.standardize:
        raise ValueError(
            f"standardize=True needs X in host memory: {IN_MEMORY}, or scale the tensor, (X - X.mean(0)) / X.std(0)."
        )
    if getattr(model, "prior_covariance", None) is not None:
        raise ValueError(f"prior_covariance needs X in host memory: {IN_MEMORY}. prior_scale goes with tensors.")
    if model.probability is not None:
        raise ValueError(f"probability={model.probability!r} needs X in host memory, for folds of it: {IN_MEMORY}.")
    check_untuned(getattr(model, "thresholds", None), f"for a device {IN_MEMORY}, or")


# ---- what is posed ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OneScore:
    """Two classes, or real targets: signs and offsets of the examples."""

    form: EntryForm
    sign: Any
    offset: Any

    def of(self, cap: Any) -> TensorLoss:
        return fused_entries(EntryRows(self.form, OneTarget(on(cap, self.sign), on(cap, self.offset)), cap))


@dataclass(frozen=True, eq=False)
class ScoreOfLabels:
    """A score for each label."""

    form: EntryForm
    packed: tuple[Any, Any]
    weight: np.ndarray
    margin: np.ndarray
    coupled: bool = False

    def of(self, cap: Any) -> TensorLoss:
        targets: EntryTargets = LabelTargets(*(on(cap, each) for each in (*self.packed, self.weight, self.margin)))
        return fused_entries(EntryRows(self.form, targets, cap, self.coupled))


@dataclass(frozen=True, eq=False)
class ScoreOfClasses:
    """One class for each example."""

    loss: Loss
    label: Any
    cost: np.ndarray

    def of(self, cap: Any) -> TensorLoss:
        if isinstance(self.loss, MultinomialLoss):
            return MultinomialRows(on(cap, self.label), cap, None)
        classes = len(self.cost)  # one look at the table: of ten thousand classes it takes 800 MB
        plain = not np.diagonal(self.cost).any() and np.count_nonzero(self.cost == 1.0) == classes * (classes - 1)
        fields = on(cap, self.label), cap, None if plain else on(cap, self.cost)
        if isinstance(self.loss, TopKLoss):
            made = TopKRows(*fields, int(self.loss.k), float(self.loss.smoothing), isinstance(self.loss, TopKAlphaLoss))
            return fused_topk(made, len(self.cost))
        return fused(CrammerSingerRows(*fields), len(self.cost))


def on(beside: Any, array: Any) -> Any:
    """An array where this tensor is."""
    return brought(array, beside.device)


def form_of(loss: Loss) -> EntryForm:
    found = entry_form(loss)
    if found is None:
        raise not_served(loss)
    return found


def not_served(loss: Loss) -> TypeError:
    return TypeError(f"{type(loss).__name__} has no form for tensors: {IN_MEMORY}.")


def posed_anywhere(posing: Posing, table: Any, code: Any, weight: Any, term: Regularizer, half_spaces: HalfSpaces | None) -> Any:
    """The problem of these samples at C = 1, wherever they are."""
    if not isinstance(table, TensorTable):
        return posing.problem(table, code, weight, term, half_spaces)
    if posing.classes is not None:
        classes = posing.classes
        shaped = (each if each is None else vectors.to_classes(each, classes) for each in (term.mean, term.variance, term.lower))
        term = Gaussian(*shaped)
    return posed_on_device(posing, table, brought(code, table.device), brought(weight, table.device), term)


@singledispatch
def posed_on_device(posing: Posing, table: TensorTable, code: Any, weight: Any, term: Regularizer) -> TensorProblem:
    """As `Posing.problem`, of codes and weights on the device."""
    raise TypeError(f"{type(posing).__name__} is not posed on tensors: {IN_MEMORY}.")


@posed_on_device.register
def _(posing: TwoClasses, table, code, weight, term):
    margins = np.array([posing.cost[0, 1], posing.cost[1, 0]]) * float(posing.loss.margins)
    made = OneScore(form_of(posing.loss), 2.0 * code.double() - 1.0, on(code, margins)[code])
    return TensorProblem(table, made.of, 1, weight * on(code, posing.factors)[code], term, flat=True)


@posed_on_device.register
def _(posing: RealTargets, table, code, weight, term):
    code = code.double()
    return TensorProblem(table, OneScore(form_of(posing.loss), code.new_ones(len(code)), code).of, 1, weight, term, flat=True)


@posed_on_device.register
def _(posing: SeveralClasses, table, code, weight, term):
    if not isinstance(posing.loss, CrammerSingerLoss | TopKLoss | MultinomialLoss):
        raise not_served(posing.loss)
    made = ScoreOfClasses(posing.loss, code, posing.cost)
    return TensorProblem(table, made.of, posing.classes, weight * on(code, posing.factors)[code], term)


@posed_on_device.register
def _(posing: EachAgainstRest, table, code, weight, term):
    ones = np.ones(posing.classes)
    margin = np.column_stack([ones, ones]) * float(posing.loss.margins)
    made = ScoreOfLabels(
        form_of(posing.loss), class_bits_beside(code, posing.classes), np.column_stack([ones, posing.factors]), margin
    )
    return TensorProblem(table, made.of, posing.classes, weight, term)


def labels_on_device(
    table: TensorTable, columns: LabelColumns | DeviceLabels, weight: np.ndarray, posing: AllLabels
) -> TensorProblem:
    """What is minimised with several labels a sample, at C = 1: all of them at once."""
    packed = columns.packed(np.arange(columns.shape[1]))
    R = None if posing.R is None or np.array_equal(posing.R, np.eye(posing.classes)) else posing.R
    margin = posing.margin * float(posing.loss.margins)
    made = ScoreOfLabels(form_of(posing.loss), packed, posing.label_weight, margin, R is not None)
    return TensorProblem(table, made.of, posing.classes, brought(weight, table.device), R=R, sparse=True)


# ---- what is answered -----------------------------------------------------------------------------------------


def taken_classes(classes: np.ndarray, chosen: Any) -> Any:
    """The classes of these numbers: on the device of the numbers, but for those that are no numbers themselves."""
    if not is_tensor(chosen):
        return classes[chosen]
    if classes.dtype.kind not in "biuf":
        return classes[host_values(chosen)]
    return library().as_tensor(classes, device=chosen.device)[chosen]


def cast_as(dtype: np.dtype, answer: Any) -> Any:
    """Yes and no in a dtype of NumPy's, where they are."""
    return answer.to(getattr(library(), dtype.name)) if is_tensor(answer) else answer.astype(dtype)


def best_first(scores: Any, k: int) -> Any:
    """The numbers of the k best classes; ties go to the first, as in `predict`."""
    if is_tensor(scores):
        return scores.sort(dim=1, descending=True, stable=True).indices[:, :k]
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]
