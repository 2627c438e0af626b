"""Newton's method as users name it: second-order steps, of which few suffice however the columns are scaled."""

from functools import singledispatch
from typing import Any

from ..data.table import Table
from ..losses.crammer_singer import CrammerSingerLoss
from ..losses.multinomial import MultinomialLoss
from ..losses.topk_alpha import TopKAlphaLoss
from ..losses.topk_beta import TopKBetaLoss
from ..problems.base import Problem
from ..problems.linear import BlockProblem, ScalarProblem
from ..problems.multilabel import LabelGroup, MultilabelProblem
from ..problems.ranking import RankingProblem
from ..utils.parameters import at_least
from .base import Run, Setting, Solver, Start
from .second_order.coupled import CoupledShape
from .second_order.interior_point import has_sides
from .second_order.interior_topk import TogetherInterior, TopKInterior
from .second_order.labels import LabelRuns
from .second_order.ranking_pairs import RankingRun
from .second_order.run import ScalarShape
from .second_order.scalar import scalar_run
from .second_order.smooth import MultinomialNewton
from .second_order.softened import row_run
from .second_order.systems import rows_drawn
from .second_order.wide_rows import has_many_columns, work_of_pairs

OF_ROWS: dict[type, Any] = {
    CrammerSingerLoss: row_run,
    TopKAlphaLoss: TogetherInterior,
    TopKBetaLoss: TopKInterior,
    MultinomialLoss: MultinomialNewton,
}


class Newton(Solver):
    """Second-order steps, certified: ten to thirty of them, however the columns of X are scaled.

    Serves all losses of one score, "hinge" with costs and "log_loss" of several classes, both top-k losses, smoothed or not, and
    labels: those that nothing couples (classes against the rest) one by one, those of a `label_prior` together; Gaussian priors
    and signs; dense and CSR data. Differentiable losses are minimised by Newton's method on the primal, the others by a
    primal-dual interior point. Each step forms and factors a matrix of features x features (of samples x samples where these are
    fewer; of classes x features where an example has several scores, labels x features where they are coupled). Rankings are
    served by quasi-Newton steps on softened hinges, which form no matrix; where these crawl and pairs are few, by the interior
    point on all pairs.

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


def work_of_one_score(problem: Problem, table: Table, smooth: bool = False) -> float:
    rows, columns = table.shape
    if rows < columns and problem.half_spaces is None:
        return rows**3 / 3.0 + 40.0 * rows * columns
    formed = rows_drawn(rows, columns) if smooth else rows
    return formed * columns**2 + columns**3 / 3.0 + 40.0 * rows * columns


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
    return scalar_run(ScalarShape(problem), start, setting)


@work_served.register
def _(problem: ScalarProblem) -> float:
    smooth = problem.loss.smooth and problem.regularizer.lower is None and problem.half_spaces is None
    return work_of_one_score(problem, problem.table, smooth)


# ---- a row of classes ----------------------------------------------------------------------------------------


@refusal.register
def _(problem: BlockProblem, solver: Newton) -> str | None:
    if type(problem.loss) not in OF_ROWS:
        name = type(problem.loss).__name__
        return f"Newton serves the hinge, log and top-k losses of several classes, not {name}; use solver='dual_coordinate'."
    return too_large(problem.n_classes * problem.table.shape[1], "classes x features", solver)


@newton_run.register
def _(problem: BlockProblem, start: Start, setting: Setting) -> Run:
    run: Run = OF_ROWS[type(problem.loss)](problem, start, setting)
    return run


@work_served.register
def _(problem: BlockProblem) -> float:
    classes, columns, size = problem.n_classes, problem.table.shape[1], problem.n_classes * problem.table.shape[1]
    if type(problem.loss) is CrammerSingerLoss and has_many_columns(problem):
        return work_of_pairs(problem)
    pairs = classes * (classes + 1) * columns * (columns + 1) / 4.0
    together = 1.0 * size**2 if type(problem.loss) is TopKAlphaLoss else 0.0
    return problem.n_examples * (pairs + together + 100.0 * size) + size**3 / 3.0


# ---- labels, one by one or coupled ---------------------------------------------------------------------------


def refusal_of_labels(problem: MultilabelProblem | LabelGroup, coupled: int, solver: Newton) -> str | None:
    """Where so many labels are coupled at the most."""
    if problem.loss.single is None:
        name = type(problem.loss).__name__
        return f"{name} does not say what it is of one label (`single`), as Newton needs; use solver='dual_coordinate'."
    if coupled:
        return too_large(coupled * problem.table.shape[1], "labels x features", solver)
    return too_large(min(problem.table.shape), "features x features", solver)


def work_of_labels(problem: MultilabelProblem | LabelGroup, count: int, coupled: bool) -> float:
    """Of so many labels, which are coupled or are not."""
    if not coupled:
        return count * work_of_one_score(problem, problem.table)
    rows, columns = problem.table.shape
    return count * rows * columns**2 + (count * columns) ** 3 / 3.0 + 40.0 * count * rows * columns


@refusal.register
def _(problem: LabelGroup, solver: Newton) -> str | None:
    return refusal_of_labels(problem, 0 if problem.R is None else problem.n_classes, solver)


@refusal.register
def _(problem: MultilabelProblem, solver: Newton) -> str | None:
    return refusal_of_labels(
        problem, max((len(columns) for columns in problem.groups if problem.couples(columns)), default=0), solver
    )


@newton_run.register
def _(problem: LabelGroup, start: Start, setting: Setting) -> Run:
    return LabelRuns(problem, start, setting) if problem.R is None else scalar_run(CoupledShape(problem), start, setting)


@work_served.register
def _(problem: LabelGroup) -> float:
    return work_of_labels(problem, problem.n_classes, problem.R is not None)


@work_served.register
def _(problem: MultilabelProblem) -> float:
    return sum(work_of_labels(problem, len(columns), problem.couples(columns)) for columns in problem.groups)


# ---- rankings --------------------------------------------------------------------------------------------


@refusal.register
def _(problem: RankingProblem, solver: Newton) -> str | None:
    return None if problem.regularizer.plain else "Newton serves rankings without priors and signs; use solver='bundle'."


@newton_run.register
def _(problem: RankingProblem, start: Start, setting: Setting) -> Run:
    return RankingRun(problem, start, setting)
