"""The Problem seam: what is minimised.

    P(w) = quadratic term(w) + C sum_i s_i loss_i(w)      D(b) <= min P <= P(w) for every feasible b and every w

A problem is immutable, knows no solver, holds no closures, and computes its values from scratch, in float64. It keeps the weights
s_i; C enters by `at(C)` and nowhere else.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import Field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..losses.base import Loss, MulticlassLoss, MultilabelLoss
from ..regularizers.base import Regularizer
from ..regularizers.gaussian import Gaussian
from ..regularizers.half_spaces import HalfSpaces

PLAIN_TERM = Gaussian()
# C times the largest weight: between these float64 holds the sums of losses, which go with C, and dual values, which go with C^2.
LEAST_CAP, MOST_CAP = 1e-250, 1e150


def of_this_package(thing: Any) -> bool:
    """Whether its class is ours, not a user's."""
    return type(thing).__module__.split(".")[0] == __name__.split(".")[0]


def suspect_loss(loss: Any) -> str:
    """As `Problem.suspect`."""
    if not isinstance(loss, Loss) or of_this_package(loss):
        return ""
    rows = isinstance(loss, MulticlassLoss | MultilabelLoss)
    names = "row_value, row_step or row_repair" if rows else "value, reward, step or clip"
    return f"{names} of {type(loss).__name__} may be wrong; maxmargin.check_loss(loss) tells which"


class Evaluated(NamedTuple):
    """The dual side of a certificate: the value at the stored duals and the unclipped weights they stand for."""

    dual: float
    v: np.ndarray


def split_off_constant(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (..., features + 1) as those of features, in C order, and those of the constant feature."""
    return np.ascontiguousarray(weights[..., :-1]), weights[..., -1]


class Problem(ABC):
    """A dataclass with the fields `weight` (s_i >= 0, one an example) and `C`, and what the kinds of problems add.

    Weights have the layout of the problem, `weight_shape`; `coefficients` gives them as (classes, features + 1).
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # for `replace`: every kind of problem is a dataclass
    weight: np.ndarray
    C: float
    half_spaces: HalfSpaces | None = None  # signs under a full covariance, where they are no bounds of coordinates
    made_of: type | None = None  # the kind of problems that this one is a sum of, where they have nothing in common
    in_memory = True  # whether every example can be asked for at any time

    @property
    def regularizer(self) -> Regularizer:
        """The quadratic term."""
        return PLAIN_TERM

    @property
    def keeps_points(self) -> bool:
        """Whether duals found on these examples may start a run on others of the same shape."""
        return True

    @property
    @abstractmethod
    def n_examples(self) -> int:
        """What a pass visits."""

    @property
    @abstractmethod
    def weight_shape(self) -> tuple[int, ...]: ...

    @property
    def device(self) -> Any:
        """Where the samples are worked on, as their library names it; None is the processor."""
        return None

    @property
    def dual_shape(self) -> tuple[int, ...]:
        """Of the duals that a user may start from: (examples,) or (examples, classes). Empty where there are no such arrays."""
        return ()

    @property
    def n_parts(self) -> int | None:
        """Into how many parts the losses can be split; None where the risk itself says so."""
        return self.n_examples

    @property
    def n_groups(self) -> int:
        """How many problems with nothing in common a solver makes of this one, at the most."""
        return 1

    @cached_property
    def cap(self) -> np.ndarray:
        """C s_i: the weight of each loss, and mostly the bound of its duals."""
        return self.C * self.weight

    @cached_property
    def origin(self) -> object:
        """Problems with the same origin have the same losses but for C: what planes may be carried over."""
        return object()

    def at(self, C: float) -> Self:
        """The same problem at another C. Tables with what is known of them are shared."""
        own = self.regularizer.belongs_to
        if own is not None and own != C:
            raise ValueError(f"This problem has frozen duals, which belong to C={own:g}; it cannot be posed at C={C:g}.")
        most = 1.0 if not self.in_memory else float(self.weight.max()) if len(self.weight) else 0.0  # of a stream: block by block
        if most > 0.0 and not LEAST_CAP <= float(C) * most <= MOST_CAP:
            raise ValueError(
                f"C={C:g} times the largest sample weight, {most:g}, is not between {LEAST_CAP:g} and {MOST_CAP:g}, as float64 "
                "needs for a certificate; take another C, or scale the features so that one in this range serves."
            )
        if C == self.C:
            return self
        result = replace(self, C=float(C))
        vars(result)["origin"] = self.origin
        return result

    def feasible(self, w: np.ndarray) -> np.ndarray:
        """The nearest weights that satisfy the signs."""
        return w

    @abstractmethod
    def primal(self, w: Any, n_jobs: int = 1) -> float:
        """P(w) by a full pass over the data; w must satisfy the signs."""

    def values(self, w: Any, duals: Any) -> tuple[float, float] | None:
        """P(w) and D(duals) from scratch, both as they are kept between runs; None where duals are not arrays."""
        return None

    def coefficients(self, w: Any) -> np.ndarray:
        """The weights as (classes, features + 1), or (features + 1,) where an example has one score."""
        return np.asarray(w)

    def split_coefficients(self, w: Any, n_jobs: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The same in two: (classes, features) or (features,), and what the constant feature has."""
        return split_off_constant(self.coefficients(w))

    def resumed(self, duals: Any, weights: Any, data: Any, kind: str) -> tuple[Any, Any]:
        """Duals and weights of an earlier run that this problem can start from, made feasible; None for what does not fit.

        `data`: what the earlier problem had as `remembered`; `kind`: what points the solver can start from.
        """
        return None, None

    def told(self, duals: Any) -> Any:
        """The duals that a run has left, as users get them."""
        return duals

    def outgrown(self, duals: Any) -> bool:
        """Whether these duals, of a run on this problem, are as good at half the C. Then no bound holds them: were they the
        optimum, they would be that of every larger C. False where that is not known."""
        return False

    def fitting(self, weights: Any) -> Any:
        """Weights of an earlier run, where they have the shape of this problem's; else None."""
        return weights if weights is not None and weights.shape == self.weight_shape else None

    @property
    def remembered(self) -> Any:
        """What `resumed` has to compare: nothing, where shapes say everything."""
        return None

    def rounding(self, w: Any, duals: Any) -> float | None:
        """About how far off the values of a certificate are by the rounding of float64: scores are sums of x_ij w_j, and weights
        of b_i x_ij, whose terms may be far larger than the sums. None where that is not known."""
        sizes = self.column_sizes()
        if sizes is None or not isinstance(duals, np.ndarray):
            return None
        weights = np.atleast_2d(self.coefficients(w))[:, : sizes.size]
        total = np.abs(duals).sum(axis=0)
        return float(np.finfo(np.float64).eps * (np.atleast_1d(total) @ (np.abs(weights) @ sizes)))

    def swayed(self, duals: Any) -> float:
        """About how far the losses move where weights have to be those of duals, by the rounding of these: an example's dual is
        multiplied by its numbers once for its weights and once more for the scores. Zero where that is not known."""
        return 0.0

    def unsettled(self, w: Any) -> float:
        """About how far the losses move by the rounding of weights and scores beyond what their slopes say: an example that is
        at a kink is beside it. Zero where that is not known."""
        return 0.0

    def lost_in_sums(self, left: Callable[[], Any], most: float) -> float:
        """By how much the dual value of the duals that a run has `left` may be too high, as weights are rounded sums of b_i x_ij:
        where terms are huge, a sum may be zero by rounding alone. Zero where that is not known. What is at most `most` may be
        said coarsely, but never as less than it is."""
        return 0.0

    def lost_in_scores(self, w: Any, primal: float) -> float:
        """About how much the rounding of scores may have taken at the most from the primal value of w, as it was computed. Zero
        where that is not known, or not a number."""
        return 0.0

    def primal_in_twofold(self, w: Any, stop: Callable[[], bool]) -> float | None:
        """The primal value of w, or a little more, from scores of twice the precision; no number where there is no such way. None
        where it was told to stop before that was known."""
        return np.nan

    def measure(self, n_jobs: int) -> None:
        """Compute on threads what runs will ask for, where there is something."""
        return

    def overlarge(self, primal: float) -> str:
        """What in X is too large for a certificate in float64 near this value, and the way out, as a clause; empty where nothing
        is, or that is not known. It is asked about a run that makes no progress."""
        return ""

    @property
    def suspect(self) -> str:
        """What of the user's own code may be wrong where values contradict each other, and what tests it: a clause. Empty where
        there is no such code."""
        return suspect_loss(getattr(self, "loss", None))

    def column_sizes(self) -> np.ndarray | None:
        """The largest absolute value of each feature; None where there are no columns of numbers in memory."""
        return None

    def sizes_seen(self) -> tuple[np.ndarray | None, str]:
        """`column_sizes` as advice takes them, and in which rows they were looked for: "" stands for all. Of samples that are not
        in memory the first ones say it."""
        return self.column_sizes(), ""
