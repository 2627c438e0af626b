"""What a structured model is: outputs, their joint features and their loss, and how the best output is found.

Two faces of one thing. `Structure` is what a user writes, in plain Python, one sample at a time. Solvers see *encoded
samples* instead: an output is a short array of integers (its *code*), and the generic functions below say what can be done
with one. The structures of this package register compiled implementations of them; `custom.py` registers one that calls
the methods of any other `Structure`. Kernels written on these functions serve both.
"""

from copy import deepcopy
from functools import singledispatch
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from .. import lanes
from ..jit import generic_call


class Structure(BaseEstimator):
    """Base class of structured models. Subclass it, and define at least the first five methods.

    Constructor parameters are those of scikit-learn estimators: stored as given, so that grids can reach them as
    `structure__name`. `maxmargin.check_structure` holds all methods against brute force.
    """

    def size(self, X, y) -> int:
        """The number of weights. Called once in `fit`, with all training samples, before any other method."""
        raise NotImplementedError(_needed(self, "size(X, y)"))

    def joint_feature(self, x, y) -> np.ndarray:
        """phi(x, y): a vector of `size` numbers."""
        raise NotImplementedError(_needed(self, "joint_feature(x, y)"))

    def loss(self, y_true, y) -> float:
        """Delta(y_true, y) >= 0, zero for y_true itself."""
        raise NotImplementedError(_needed(self, "loss(y_true, y)"))

    def decode(self, w, x) -> Any:
        """The output y with the largest w . phi(x, y)."""
        raise NotImplementedError(_needed(self, "decode(w, x)"))

    def loss_augmented_decode(self, w, x, y_true) -> Any:
        """The output y with the largest w . phi(x, y) + Delta(y_true, y)."""
        raise NotImplementedError(_needed(self, "loss_augmented_decode(w, x, y_true)"))

    # ---- optional: for partial linearization and exponentiated gradient ----------------------------------

    def marginals(self, w, x, y_true, temperature, base=None) -> Any:
        """What `expect` needs of the distribution p(y) ~ base(y) exp((w . phi(x, y) + Delta(y_true, y)) / temperature).

        `base` are earlier marginals (None: the uniform distribution). With temperature=inf and no base: those of the uniform
        distribution.
        """
        raise NotImplementedError(_needed(self, "marginals(w, x, y_true, temperature, base)"))

    def expect(self, x, y_true, m) -> tuple[np.ndarray, float]:
        """(expectation of phi(x, y), expectation of Delta(y_true, y)) under marginals m; linear in m."""
        raise NotImplementedError(_needed(self, "expect(x, y_true, m)"))

    def mix(self, m, other, gamma) -> Any:
        """(1 - gamma) m + gamma other. Arrays, and tuples, lists and dicts of them, need no definition of their own."""
        if isinstance(m, dict):
            return {key: Structure.mix(self, m[key], other[key], gamma) for key in m}
        if isinstance(m, tuple | list):
            return type(m)(Structure.mix(self, a, b, gamma) for a, b in zip(m, other, strict=True))
        return (1.0 - gamma) * m + gamma * other

    # ---- optional: what `check_structure` and the solvers may use ----------------------------------------

    def nonnegative(self) -> np.ndarray:
        """The numbers of the weights that must not be negative, known after `size`; none by default."""
        return np.zeros(0, np.int64)

    def every_output(self, x, y, most: int) -> list | None:
        """All outputs of the sample x whose true output is y; None if there are more than `most`, or nobody can list them."""
        return None

    # ---- what solvers see; a structure in plain Python need not define these ------------------------------

    def flatten(self, W: np.ndarray) -> np.ndarray:
        """`w_`, a vector, from the weights as solvers hold them."""
        return W.copy()

    def unflatten(self, w: np.ndarray) -> np.ndarray:
        """The weights as solvers hold them, from `w_`."""
        return w

    def decode_all(self, w, X, n_jobs: int = 1) -> list:
        """The best output of each sample; plain Python uses one thread. An output that has no joint features is refused."""
        found = []
        for i, x in enumerate(X):
            output = self.decode(w, x)
            check_output(type(self).__name__, "decode", i, output)
            self._check_decoded(w, x, output, i)
            found.append(output)
        return found

    def _check_decoded(self, w, x, output, i: int) -> None:
        try:
            self.joint_feature(x, output)
        except STRAYED as error:
            raise strayed(type(self).__name__, "decode", i, output, "joint_feature", error) from error

    def decode_packed(self, W, X, n_jobs: int = 1) -> list:
        """As `decode_all`, for weights as solvers hold them; in plain Python these are `w_` itself."""
        return self.decode_all(W, X, n_jobs)

    def as_predictions(self, found: list) -> Any:
        """Predictions as a user gets them."""
        return found

    def score_outputs(self, y_true, y_pred, sample_weight=None) -> float:
        """How good predictions are, larger is better: minus the mean loss."""
        losses = [self.loss(true, guess) for true, guess in zip(y_true, y_pred, strict=True)]
        return -float(np.average(losses, weights=sample_weight))

    def encode(self, X, y):
        """The samples as solvers see them."""
        from .custom import Custom

        return Custom(self, list(X), list(y))

    def check(self, X, y) -> None:
        """Refuse samples that this structure cannot read, in a sentence that names the sample."""


def has_marginals(structure: Structure) -> bool:
    return type(structure).marginals is not Structure.marginals and type(structure).expect is not Structure.expect


STRAYED = (AttributeError, LookupError, TypeError, ValueError)  # what methods raise of an output that is none


def check_output(name: str, method: str, i: int, output) -> None:
    """Refuse None for an output."""
    if output is None:
        raise ValueError(f"{name}.{method} returned None for sample {i}; an output is needed. Is a return missing?")


def strayed(name: str, decoder: str, i: int, output, method: str, error: Exception) -> ValueError:
    """What is said where a decoder returned something that another method cannot take."""
    return ValueError(
        f"{name}.{decoder} returned {output!r} for sample {i}, with which {method} fails: {type(error).__name__}: {error}."
    )


def _needed(structure, method: str) -> str:
    return f"{type(structure).__name__} does not define {method}."


def check_object(structure) -> None:
    """Refuse a class in the place of an object."""
    if isinstance(structure, type):
        raise TypeError(f"structure={structure.__name__} is a class: give an object of it, {structure.__name__}().")


S = TypeVar("S", bound=Structure)


def fresh(structure: S) -> S:
    """A copy that may learn labels and sizes: the user's own object stays as it was given."""
    return deepcopy(structure)


# ---- encoded samples -------------------------------------------------------------------------------------
# `data` are all samples, `i` one of them, `W` the weights as the data want them, `room` scratch memory from `new_room`.
# `room` also holds a *difference*: coefficients on outputs, in the statistics that joint features are linear in.


@generic_call
def length(data, i):
    """How many integers the code of an output of sample i has."""


@generic_call
def truth(data, i, code):
    """Write the code of the true output."""


@generic_call
def prepare(data, i, W, room):
    """Compute what the functions below need of the weights."""


@generic_call
def worst(data, i, room, code):
    """Write the code of an output with the largest w . phi + loss; returns that value. Without true outputs: decode."""


@generic_call
def score_of(data, i, room, code):
    """w . phi(x_i, code)"""


@generic_call
def loss_of(data, i, code):
    """Delta(y_i, code)"""


@generic_call
def forget(data, i, code):
    """The output will not be asked for again by this code."""


@generic_call
def diameter(data, i):
    """A bound on ||phi(x_i, y) - phi(x_i, y')||^2 over all pairs of outputs."""


@generic_call
def against(data, i, room, code):
    """Get ready for inner products with phi(x_i, code)."""


@generic_call
def inner(data, i, room, code):
    """phi(x_i, code) . phi(x_i, the output given to `against`)"""


@generic_call
def clear(data, i, room):
    """difference = 0"""


@generic_call
def tally(data, i, t, code, room):
    """difference += t * output"""


@generic_call
def push(data, i, t, room, W):
    """W += t * phi(x_i, difference), which is not defined any more after this"""


@generic_call
def measure(data, i, room):
    """(w . phi + loss) of the difference, and ||phi(x_i, difference)||^2"""


# ---- points of the polytope of outputs -------------------------------------------------------------------
# `points` hold one point for each sample: the statistics of a distribution over its outputs.


@generic_call
def direct(points, data, i, room, temperature):
    """Find the target of sample i and put target - point into the difference."""


@generic_call
def step_towards(points, data, i, gamma, room):
    """point += gamma * (target - point), of the target found last"""


@generic_call
def withdraw(points, data, i, room):
    """difference -= point"""


@generic_call
def expected_loss(points, data, i):
    """The loss of the point."""


# ---- encoded samples as a whole; plain Python ------------------------------------------------------------


@singledispatch
def n_samples(data) -> int:
    """How many samples there are."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def truths(data) -> tuple[np.ndarray, np.ndarray]:
    """The codes of all true outputs, one after another, and the length of each."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def weight_shape(data) -> tuple[int, ...]:
    """The shape of the weights."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def nonnegative(data) -> np.ndarray:
    """Which weights, counted along their array, must not be negative."""
    return np.zeros(0, np.int64)


@singledispatch
def lacks_marginals(data) -> str | None:
    """None, or why there are no marginals of these samples."""
    return None


@singledispatch
def same_shapes(data, other) -> bool:
    """Whether points found on `other`, of the same kind, are points of `data` too."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def output_of(data, structure: Structure, i: int, code: np.ndarray) -> Any:
    """The output of sample i with this code, as a user sees it."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def new_room(data) -> Any:
    """Scratch memory; a thread needs its own."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def vertices(data) -> Any:
    """Points for the max-oracle, each at the true output."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def interior(data, spread: float) -> Any:
    """Points for the sum-oracle: every wrong label of a node has marginal `spread`, at the most 1 / labels."""
    raise TypeError(f"{type(data).__name__} have no marginals.")


@singledispatch
def copied(points) -> Any:
    """Points of their own with the same values."""
    return type(points)(*(lanes.table(lanes.convert(table.lanes, table.lanes.dtype)) for table in points))


@singledispatch
def follow(points, before, after) -> Any:
    """These points of `before` as points of `after`, the same samples with other true outputs: mass on an old true output goes to
    the new one. None where nobody knows how."""
    return None


@singledispatch
def blend(points, others, gamma: float) -> None:
    """points += gamma (others - points), for all samples at once"""
    for table, other in zip(points, others, strict=True):
        table.flat[...] = (1.0 - gamma) * table.flat + gamma * other.flat


@singledispatch
def kind_of(points) -> str:
    """ "sets" of outputs, "mixtures" of outputs by their statistics, or "marginals" """
    return "marginals"


@singledispatch
def statistics_of(points, data, i: int, weight: float) -> Any:
    """The statistics of the point of sample i as a user sees them, times `weight` where they are this package's."""
    raise TypeError(f"{type(points).__name__} are not points.")


@singledispatch
def points_of(data, marginals) -> Any:
    """The points of a single encoded sample, from marginals as `marginals_of` gives them."""
    raise TypeError(f"{type(data).__name__} have no marginals.")


@singledispatch
def marginals_of(data, points) -> Any:
    """The marginals of a single encoded sample, as a user sees them."""
    raise TypeError(f"{type(data).__name__} have no marginals.")
