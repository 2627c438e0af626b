"""Newton's method as users name it: second-order steps, of which few suffice however the columns are scaled."""

from functools import singledispatch
from typing import Any

import numpy as np

from ..data.table import Table
from ..losses.crammer_singer import CrammerSingerLoss
from ..losses.multinomial import MultinomialLoss
from ..problems.base import Problem
from ..problems.linear import BlockProblem, ScalarProblem
from ..problems.multilabel import LabelGroup, MultilabelProblem
from ..utils.parameters import at_least
from .base import Run, Setting, Solver, Start
from .second_order.interior_point import has_sides
from .second_order.interior_rows import RowInterior
from .second_order.labels import LabelRuns
from .second_order.scalar import scalar_run
from .second_order.smooth import MultinomialNewton

OF_ROWS: dict[type, Any] = {CrammerSingerLoss: RowInterior, MultinomialLoss: MultinomialNewton}


class Newton(Solver):
    """Second-order steps, certified: ten to thirty of them, however the columns of X are scaled.

    Serves all losses of one score, "hinge" with costs and "log_loss" of several classes, and labels (classes against the rest)
    that nothing couples, one by one; Gaussian priors and signs; dense and CSR data. Differentiable losses are minimised by
    Newton's method on the primal, the others by a primal-dual interior point. Each step forms and factors a matrix of features x
    features (of samples x samples where these are fewer; of classes x features where an example has several scores).

    Parameters
    ----------
    max_features : int, default=3000
        A problem whose matrix would have more rows than this is refused: it takes 8 max_features^2 bytes.
    """

    _parameter_constraints = {"max_features": [at_least(1)]}

    def __init__(self, max_features: int = 3000):
        self.max_features = max_features

    def serves(self, problem):
        return refusal(problem, self)

    def begin(self, problem, start, setting):
        return newton_run(problem, start, setting)


ANY_SIZE = Newton(2**62)


@singledispatch
def refusal(problem: Problem, solver: Newton) -> str | None:
    """None, or why Newton's method does not serve the problem."""
    return (
        f"Newton serves losses of one score and of a row of classes in memory, which a {type(problem).__name__} has not; "
        "use solver='dual_coordinate' ('online' for a source)."
    )


@singledispatch
def newton_run(problem: Problem, start: Start, setting: Setting) -> Run:
    """A run on this kind of problem."""
    raise TypeError(f"Newton does not serve a {type(problem).__name__}.")


def work(problem: Problem) -> float | None:
    """Floating point operations of one step, about; None where the problem is not served, whatever its size."""
    return None if refusal(problem, ANY_SIZE) is not None else work_served(problem)


@singledispatch
def work_served(problem: Problem) -> float:
    """The same, where it is."""
    raise TypeError(f"Newton does not serve a {type(problem).__name__}.")


def too_large(size: int, what: str, solver: Newton) -> str | None:
    if size <= solver.max_features:
        return None
    return (
        f"Newton factors a matrix of {what}, and there are {size}: more than max_features={solver.max_features}. "
        "Use solver='dual_coordinate'."
    )


# ---- one score an example ------------------------------------------------------------------------------------


def work_of_one_score(problem: Problem, table: Table) -> float:
    rows, columns = table.shape
    if rows < columns and problem.half_spaces is None:
        return rows**3 / 3.0 + 40.0 * rows * columns
    return rows * columns**2 + columns**3 / 3.0 + 40.0 * rows * columns


@refusal.register
def _(problem: ScalarProblem, solver: Newton) -> str | None:
    if not (problem.loss.smooth or has_sides(problem.exact_loss)):
        name = type(problem.loss).__name__
        return f"Newton needs a differentiable loss or one that it knows, which {name} is not; use solver='dual_coordinate'."
    rows, columns = problem.table.shape
    if rows < columns and problem.half_spaces is None:
        return too_large(rows, "samples x samples", solver)
    return too_large(columns, "features x features", solver)


@newton_run.register
def _(problem: ScalarProblem, start: Start, setting: Setting) -> Run:
    return scalar_run(problem, start, setting)


@work_served.register
def _(problem: ScalarProblem) -> float:
    return work_of_one_score(problem, problem.table)


# ---- a row of classes ----------------------------------------------------------------------------------------


@refusal.register
def _(problem: BlockProblem, solver: Newton) -> str | None:
    if type(problem.loss) not in OF_ROWS:
        name = type(problem.loss).__name__
        return f"Newton serves the hinge and the log loss of several classes, not {name}; use solver='dual_coordinate'."
    return too_large(problem.n_classes * problem.table.shape[1], "classes x features", solver)


@newton_run.register
def _(problem: BlockProblem, start: Start, setting: Setting) -> Run:
    run: Run = OF_ROWS[type(problem.loss)](problem, start, setting)
    return run


@work_served.register
def _(problem: BlockProblem) -> float:
    classes, columns, size = problem.n_classes, problem.table.shape[1], problem.n_classes * problem.table.shape[1]
    pairs = classes * (classes + 1) * columns * (columns + 1) / 4.0
    return problem.n_examples * (pairs + 100.0 * size) + size**3 / 3.0


# ---- labels, one by one --------------------------------------------------------------------------------------


@refusal.register
def _(problem: MultilabelProblem | LabelGroup, solver: Newton) -> str | None:
    if problem.R is not None and not np.array_equal(problem.R, np.eye(len(problem.R))):
        return "Newton serves labels one by one, not those that R couples; use solver='dual_coordinate'."
    if problem.loss.single is None:
        name = type(problem.loss).__name__
        return f"{name} does not say what it is of one label (`single`), as Newton needs; use solver='dual_coordinate'."
    return too_large(min(problem.table.shape), "features x features", solver)


@newton_run.register
def _(problem: LabelGroup, start: Start, setting: Setting) -> Run:
    return LabelRuns(problem, start, setting)


@work_served.register
def _(problem: LabelGroup) -> float:
    return problem.n_classes * work_of_one_score(problem, problem.table)


@work_served.register
def _(problem: MultilabelProblem) -> float:
    return problem.labels.shape[1] * work_of_one_score(problem, problem.table)
