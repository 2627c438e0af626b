"""What partial linearization and its two ends, Frank-Wolfe and exponentiated gradient, share: the problems they serve and how
they are driven."""

from abc import abstractmethod
from functools import partial, singledispatch
from numbers import Real
from typing import Any

from sklearn.utils._param_validation import StrOptions

from ...losses.crammer_singer import CrammerSingerLoss
from ...problems.linear import BlockProblem
from ...problems.structured import StructuredProblem
from ...structures.encoded.contract import lacks_marginals
from ...utils.parameters import Number
from ..base import Solver, Start
from . import rows_as_structures
from .linearization import OPTIMAL
from .run import SAMPLING, StructuredOptions, StructuredRun


class StructuredSolver(Solver):
    """Solvers that move points in products of polytopes."""

    _parameter_constraints: dict[str, Any] = {
        "block": ["boolean"],
        "step": [StrOptions({"optimal"}), Number(Real, 0.0, 1.0, closed="right")],
        "sampling": [StrOptions(set(SAMPLING))],
        "average": ["boolean"],
    }

    def serves(self, problem):
        if serving.dispatch(type(problem)) is serving.dispatch(object):
            return f"{type(self).__name__} serves multiclass and structured problems; for this one use solver='dual_coordinate'."
        return serving(problem, self)

    def begin(self, problem, start, setting):
        options = StructuredOptions(setting.tol, setting.seed, self.sampling, self.average and setting.average, setting.n_jobs)
        return begun(problem, self, start, options)

    def _step(self) -> float:
        return OPTIMAL if self.step == "optimal" else float(self.step)

    def kind_of_points(self):
        return "marginals"

    @abstractmethod
    def run_on(self, problem: StructuredProblem, points, options: StructuredOptions):
        """A run on this problem from these points; None: from the solver's own start."""


@singledispatch
def serving(problem, solver: StructuredSolver) -> str | None:
    """None, or the reason why this kind of solver cannot serve the problem."""


@singledispatch
def begun(problem, solver: StructuredSolver, start: Start, options: StructuredOptions) -> StructuredRun:
    """A run on this kind of problem."""
    raise TypeError(f"{type(solver).__name__} has no run on a {type(problem).__name__}.")


@serving.register
def _(problem: StructuredProblem, solver):
    return lacks_marginals(problem.data) if solver.kind_of_points() == "marginals" else None


@begun.register
def _(problem: StructuredProblem, solver, start, options):
    run = solver.run_on(problem, start.duals, options)
    run.hint = problem.fitting(start.weights)
    return run


@serving.register
def _(problem: BlockProblem, solver):
    name, loss = type(solver).__name__, problem.loss
    if not isinstance(loss, CrammerSingerLoss):
        return f"{name} serves no {type(loss).__name__}; use solver='dual_coordinate'."
    if not problem.regularizer.plain or problem.half_spaces is not None:
        return f"{name} serves neither priors nor sign constraints; use solver='dual_coordinate'."
    return None


@begun.register
def _(problem: BlockProblem, solver, start, options):
    """Every sample a single node."""
    points = None if start.duals is None else rows_as_structures.points(problem, start.duals, solver.kind_of_points())
    run = solver.run_on(rows_as_structures.structured(problem), points, options)
    run.hint = run.problem.fitting(start.weights)
    run.translate = partial(rows_as_structures.with_rows, problem=problem)
    return run
