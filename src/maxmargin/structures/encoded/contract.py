"""Samples as solvers see them: an output is a short array of integers (its *code*), and the generic functions below, the *verbs*,
say what can be done with one. Kernels written on them serve every structure.

An output has *statistics*: a row of numbers that its joint features and its loss are linear in (which labels nodes have, how
often each pair of labels occurs, on which cells parts lie). Three kinds of points of the polytope of outputs are made of that:

    sets         outputs with their masses                        solvers/polytope/sets.py
    mixtures     a row of mean statistics for each sample         points.py, once for all compiled structures
    marginals    a distribution that the structure can sum over   a structure's own, if it has any

A compiled structure is a NamedTuple of arrays with three fields that `statistics.py` names, and writes of the verbs

    worst, add_statistics, scores_of_statistics, add_features, loss_of, loss_of_statistics           weight_shape, output_of

The others have defaults there, for every NamedTuple. What this package's own structures write of them is for speed (tables with
labels along vector registers, inner products computed once) where no comment gives another reason. `python.py` serves structures
in plain Python.
"""

from collections.abc import Mapping
from functools import singledispatch
from typing import Any

import numpy as np

from ...jit import generic, generic_call

# `data` are all samples, `i` one of them, `W` the weights as the data want them, `scratch` memory from `new_scratch`.
# `scratch` also holds a *difference*: coefficients on outputs, as a row of statistics.


class Family:
    """Kinds of encoded samples, or of points, that do some verbs in the same way."""

    def __init__(self):
        self.ways: list[tuple[Any, Any]] = []

    def does(self, verb) -> Any:
        """All kinds do `verb` as the function below says."""

        def keep(implementation):
            self.ways.append((verb, implementation))
            return implementation

        return keep

    def admit(self, kind: type) -> None:
        """From here on `kind` belongs to it; after all that its members do is said."""
        for verb, implementation in self.ways:
            verb.register(kind)(implementation)


# ---- what every compiled structure writes ----------------------------------------------------------------


@generic_call
def worst(data, i, scratch, code):
    """Write the code of an output with the largest w . phi + loss; returns that value. Without true outputs: decode."""


@generic_call
def add_statistics(data, i, t, code, row):
    """row += t * the statistics of an output"""


@generic_call
def scores_of_statistics(data, i, W, row):
    """row = what one of each statistic adds to w . phi"""


@generic_call
def add_features(data, i, t, row, W):
    """W += t * the joint features of a row of statistics"""


@generic_call
def loss_of(data, i, code):
    """Delta(y_i, code)"""


@generic_call
def loss_of_statistics(data, i, row, at):
    """The loss of the statistics that start at place `at` of a row."""


# ---- what has defaults -----------------------------------------------------------------------------------


@generic_call
def length(data, i):
    """How many integers the code of an output of sample i has."""


@generic_call
def truth(data, i, code):
    """Write the code of the true output."""


@generic
def n_vectors(data, i):
    """How many vectors the statistics of sample i fill."""


@generic_call
def prepare(data, i, W, scratch):
    """Compute what the functions below need of the weights."""


@generic_call
def score_of(data, i, scratch, code):
    """w . phi(x_i, code)"""


@generic_call
def forget(data, i, code):
    """The output will not be asked for again by this code."""


@generic_call
def diameter(data, i):
    """A bound on ||phi(x_i, y) - phi(x_i, y')||^2 over all pairs of outputs."""


@generic_call
def against(data, i, scratch, code):
    """Get ready for inner products with phi(x_i, code)."""


@generic_call
def inner(data, i, scratch, code):
    """phi(x_i, code) . phi(x_i, the output given to `against`)"""


@generic_call
def clear(data, i, scratch):
    """difference = 0"""


@generic_call
def tally(data, i, t, code, scratch):
    """difference += t * output"""


@generic_call
def push(data, i, t, scratch, W):
    """W += t * phi(x_i, difference), which is not defined any more after this"""


@generic_call
def measure(data, i, scratch):
    """(w . phi + loss) of the difference, and ||phi(x_i, difference)||^2"""


# ---- points of the polytope of outputs -------------------------------------------------------------------
# `points` hold one point for each sample.


@generic_call
def direct(points, data, i, scratch, temperature):
    """Find the target of sample i and put target - point into the difference."""


@generic_call
def step_towards(points, data, i, gamma, scratch):
    """point += gamma * (target - point), of the target found last"""


@generic_call
def withdraw(points, data, i, scratch):
    """difference -= point"""


@generic_call
def depart(points, data, i, scratch):
    """difference = true output - point; the code of the true output is in scratch.code"""


@generic_call
def expected_loss(points, data, i):
    """The loss of the point."""


# ---- points as a whole; plain Python ---------------------------------------------------------------------


@singledispatch
def copied(points) -> Any:
    """Points of their own with the same values."""
    raise TypeError(f"{type(points).__name__} are not points.")


@singledispatch
def blend(points, others, gamma: float) -> None:
    """points += gamma (others - points), for all samples at once"""
    raise TypeError(f"{type(points).__name__} are not points.")


@singledispatch
def numbers_of(points, data, samples: np.ndarray) -> list[tuple[np.ndarray, Any]] | None:
    """The arrays in which the points of these samples lie, and where in each; convex combinations of them are points too. None
    where nobody knows."""
    return None


@singledispatch
def kind_of(points) -> str:
    """ "sets" of outputs, "mixtures" of outputs by their statistics, or "marginals" """
    raise TypeError(f"{type(points).__name__} are not points.")


@singledispatch
def with_new_truths(points, before, after) -> Any:
    """These points of `before` as points of `after`, the same samples with other true outputs: mass on an old true output goes to
    the new one. None where nobody knows how."""
    return None


@singledispatch
def statistics_of(points, data, i: int, weight: float) -> Any:
    """The statistics of the point of sample i as a user sees them, times `weight` where they are this package's."""
    raise TypeError(f"{type(points).__name__} are not points.")


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
def output_of(data, structure: Any, i: int, code: np.ndarray) -> Any:
    """The output of sample i with this code, as a user sees it."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def new_scratch(data) -> Any:
    """Scratch memory; a thread needs its own."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def visit_work(data) -> float:
    """About how many multiplications a visit to a sample takes, in the mean."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def nonnegative(data) -> np.ndarray:
    """Which weights, counted along their array, must not be negative."""
    return np.zeros(0, np.int64)


@singledispatch
def same_shapes(data, other) -> bool:
    """Whether points found on `other`, of the same kind, are points of `data` too."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def met(data) -> dict[str, Any]:
    """The outputs that codes stand for, as named arrays and numbers, where a code does not say that itself."""
    return {}


@singledispatch
def meet(data, state: Mapping[str, Any]) -> None:
    """Take up what `met` gave."""


@singledispatch
def shown_statistics(data, i: int, row: np.ndarray) -> Any:
    """A row of statistics of sample i as a user sees it."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


@singledispatch
def places_of_truths(data) -> np.ndarray | None:
    """Where in the rows of all samples the mass of the true outputs lies; None where outputs have no statistic of their own."""
    return None


@singledispatch
def vertices(data) -> Any:
    """Points for the max-oracle, each at the true output."""
    raise TypeError(f"{type(data).__name__} are not encoded samples.")


# ---- marginals; plain Python -----------------------------------------------------------------------------


@singledispatch
def lacks_marginals(data) -> str | None:
    """None, or why there are no marginals of these samples."""
    return None


@singledispatch
def interior(data, spread: float) -> Any:
    """Points for the sum-oracle: every wrong label of a node has marginal `spread`, at the most 1 / labels."""
    raise TypeError(f"{type(data).__name__} have no marginals.")


@singledispatch
def points_of(data, marginals) -> Any:
    """The points of a single encoded sample, from marginals as `marginals_of` gives them."""
    raise TypeError(f"{type(data).__name__} have no marginals.")


@singledispatch
def marginals_of(data, points) -> Any:
    """The marginals of a single encoded sample, as a user sees them."""
    raise TypeError(f"{type(data).__name__} have no marginals.")
