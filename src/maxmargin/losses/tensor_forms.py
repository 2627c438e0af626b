"""Losses of one score each, as blocks of rows on a device see them: one text for binary, regression and multi-label problems.

With `slope` = offset - sign z (offset: margin or target; sign: +-1, or 1 in regression) and the dual a = sign b an entry has the
loss value(slope), the reward offset a - cost(a) and, by Fenchel and Young, the share value(slope) - a slope + cost(a) of the gap.
Entries are those of tensors, of any library whose arrays have the methods of torch's; none is imported here.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from .base import Loss
from .epsilon_insensitive import EpsilonInsensitiveLoss
from .hinge import HingeLoss
from .logistic import FARTHEST_SCORE, NEWTON_ROUNDS, LogisticLoss
from .multilabel_hinge import MultilabelHingeLoss
from .multilabel_logistic import MultilabelLogisticLoss
from .multilabel_squared_error import MultilabelSquaredErrorLoss
from .multilabel_squared_hinge import MultilabelSquaredHingeLoss
from .multilabel_steps import NO_CURVATURE
from .squared_epsilon_insensitive import SquaredEpsilonInsensitiveLoss
from .squared_error import BinarySquaredErrorLoss, SquaredErrorLoss
from .squared_hinge import SquaredHingeLoss


class EntryForm(ABC):
    """The five functions of entries. Caps may be zero: then so is the dual."""

    precise = False  # whether duals need float64
    # How kernels compute it: by the absolute value of the slope, and by a square. None: they do not.
    shape: tuple[bool, bool] | None = None
    epsilon = 0.0

    @abstractmethod
    def value(self, slope: Any, cap: Any, error: Any = 0.0) -> Any:
        """The loss; at the worst of all slopes within `error`."""

    @abstractmethod
    def cost(self, a: Any, cap: Any) -> Any:
        """What is taken off offset * a in the reward."""

    @abstractmethod
    def best(self, a: Any, slope: Any, q: Any, cap: Any) -> Any:
        """The best dual, all others fixed, for the curvature q."""

    def attained(self, slope: Any, cap: Any) -> Any:
        """The dual at which the loss is attained: the best for no curvature."""
        return self.best(0.0 * slope, slope, 0.0 * slope, cap)

    @abstractmethod
    def clip(self, a: Any, cap: Any) -> Any:
        """The nearest feasible dual."""

    def bend(self, d: Any, cap: Any) -> Any:
        """d^2 times the curvature of the quadratic part of the cost; zero where there is none."""
        return d * 0.0


def halved(d: Any, cap: Any) -> Any:
    """d^2 / (2 cap), zero where the cap and so d is zero."""
    return d * (d / (2.0 * cap).where(cap > 0.0, 0.0 * cap + 1.0))


@dataclass(frozen=True)
class HingeForm(EntryForm):
    shape = (False, False)

    def value(self, slope, cap, error=0.0):
        return cap * (slope + error).clamp(min=0.0)

    def cost(self, a, cap):
        return 0.0 * a

    def best(self, a, slope, q, cap):
        return (a + slope / q.clamp(min=NO_CURVATURE)).clamp(min=0.0).minimum(cap)

    def clip(self, a, cap):
        return a.clamp(min=0.0).minimum(cap)


@dataclass(frozen=True)
class SquaredHingeForm(EntryForm):
    shape = (False, True)

    def value(self, slope, cap, error=0.0):
        return cap * (slope + error).clamp(min=0.0).square()

    def cost(self, a, cap):
        return 0.5 * halved(a, cap)

    def best(self, a, slope, q, cap):
        return (2.0 * cap * (slope + q * a) / (2.0 * cap * q + 1.0)).clamp(min=0.0)

    def clip(self, a, cap):
        return a.clamp(min=0.0).where(cap > 0.0, 0.0 * a)

    def bend(self, d, cap):
        return halved(d, cap)


@dataclass(frozen=True)
class SquaredErrorForm(EntryForm):
    shape = (True, True)

    def value(self, slope, cap, error=0.0):
        return cap * (slope.abs() + error).square()

    def cost(self, a, cap):
        return 0.5 * halved(a, cap)

    def best(self, a, slope, q, cap):
        return 2.0 * cap * (slope + q * a) / (2.0 * cap * q + 1.0)

    def clip(self, a, cap):
        return a.where(cap > 0.0, 0.0 * a)

    def bend(self, d, cap):
        return halved(d, cap)


def shrunk(u: Any, epsilon: float) -> Any:
    """The soft threshold."""
    return (u - epsilon).clamp(min=0.0) + (u + epsilon).clamp(max=0.0)


@dataclass(frozen=True)
class EpsilonForm(EntryForm):
    epsilon: float
    shape = (True, False)

    def value(self, slope, cap, error=0.0):
        return cap * (slope.abs() + error - self.epsilon).clamp(min=0.0)

    def cost(self, a, cap):
        return self.epsilon * a.abs()

    def best(self, a, slope, q, cap):
        q = q.clamp(min=NO_CURVATURE)
        return self.clip(shrunk(slope + q * a, self.epsilon) / q, cap)

    def clip(self, a, cap):
        return a.minimum(cap).maximum(-cap)


@dataclass(frozen=True)
class SquaredEpsilonForm(EntryForm):
    epsilon: float
    shape = (True, True)

    def value(self, slope, cap, error=0.0):
        return cap * (slope.abs() + error - self.epsilon).clamp(min=0.0).square()

    def cost(self, a, cap):
        return self.epsilon * a.abs() + 0.5 * halved(a, cap)

    def best(self, a, slope, q, cap):
        return 2.0 * cap * shrunk(slope + q * a, self.epsilon) / (2.0 * cap * q + 1.0)

    def clip(self, a, cap):
        return a.where(cap > 0.0, 0.0 * a)

    def bend(self, d, cap):
        return halved(d, cap)


@dataclass(frozen=True)
class LogisticForm(EntryForm):
    """Steps as in `logistic`: Newton from the left, on the smaller of p and 1 - p."""

    precise = True

    def value(self, slope, cap, error=0.0):
        m = slope + error
        return cap * (m.clamp(min=0.0) + (-m.abs()).exp().log1p())

    def cost(self, a, cap):
        small = a.minimum(cap - a).clamp(min=0.0)
        part = small / cap.clamp(min=NO_CURVATURE)
        inside = (part > 0.0) & (cap > 0.0)
        part = part.where(inside, 0.0 * part + 0.5)
        return (small * part.log() + (cap - small) * (-part).log1p()).where(inside, 0.0 * a)

    def best(self, a, slope, q, cap):
        rho = (q * cap).clamp(min=NO_CURVATURE)
        c = q * a + slope
        swapped = c > 0.5 * rho
        c = (rho - c).where(swapped, c)
        x = (c + (0.5 * rho).log()).clamp(min=-FARTHEST_SCORE)
        bound = (x - x.clamp(min=1.0).log()).where(x > 1.0, x.sigmoid()) / rho
        p = (c - 0.5 * rho).clamp(min=-FARTHEST_SCORE).sigmoid().maximum(bound).clamp(max=0.5)
        for _ in range(NEWTON_ROUNDS // 2):
            new = p + (c - p.log() + (-p).log1p() - rho * p) / (1.0 / p + 1.0 / (1.0 - p) + rho)
            p = new.maximum(p).clamp(max=0.5)
        return cap * (1.0 - p).where(swapped, p)

    def attained(self, slope, cap):
        return cap * slope.sigmoid()

    def clip(self, a, cap):
        return a.clamp(min=0.0).minimum(cap)


@singledispatch
def entry_form(loss: Loss) -> EntryForm | None:
    """How entries of this loss are computed on a device; None where nobody has written that down."""
    return None


@entry_form.register(HingeLoss)
@entry_form.register(MultilabelHingeLoss)
def _(loss: Loss) -> EntryForm:
    return HingeForm()


@entry_form.register(SquaredHingeLoss)
@entry_form.register(MultilabelSquaredHingeLoss)
def _(loss: Loss) -> EntryForm:
    return SquaredHingeForm()


@entry_form.register(SquaredErrorLoss)
@entry_form.register(BinarySquaredErrorLoss)
@entry_form.register(MultilabelSquaredErrorLoss)
def _(loss: Loss) -> EntryForm:
    return SquaredErrorForm()


@entry_form.register(LogisticLoss)
@entry_form.register(MultilabelLogisticLoss)
def _(loss: Loss) -> EntryForm:
    return LogisticForm()


@entry_form.register
def _(loss: EpsilonInsensitiveLoss) -> EntryForm:
    return EpsilonForm(float(loss.epsilon))


@entry_form.register
def _(loss: SquaredEpsilonInsensitiveLoss) -> EntryForm:
    return SquaredEpsilonForm(float(loss.epsilon))
