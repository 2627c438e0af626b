"""What partial linearization and its two ends, Frank-Wolfe and exponentiated gradient, share: the problems they serve and how
they are driven."""

from abc import abstractmethod
from numbers import Real

from sklearn.base import BaseEstimator

from ...data.sources.options import truth
from ...problems.linear import BlockProblem
from ...problems.structured import StructuredProblem
from ...result import History, Result
from ...structures.encoded.contract import lacks_marginals
from .. import loop
from . import rows_as_structures
from .linearization import OPTIMAL
from .run import SAMPLING, StructuredOptions


def number_in(value, above: float, most: float) -> bool:
    """Whether value is a number with above < value <= most."""
    return isinstance(value, Real) and not isinstance(value, bool) and above < float(value) <= most


class StructuredSolver(BaseEstimator):
    """Solvers that move points in products of polytopes."""

    def accepts(self, problem) -> str | None:
        """None, or the reason why this solver cannot serve the problem."""
        name = type(self).__name__
        if isinstance(problem, BlockProblem):
            plain = problem.regularizer.mean is problem.regularizer.variance is problem.regularizer.lower is None
            if not plain or problem.half_spaces is not None:
                return f"{name} serves neither priors nor sign constraints; use solver='dual_coordinate'."
            return None
        if not isinstance(problem, StructuredProblem):
            return f"{name} serves multiclass and structured problems; for this one use solver='dual_coordinate'."
        return lacks_marginals(problem.data) if self.kind_of_points() == "marginals" else None

    def solve(self, problem, budget: loop.Budget, history: History, *, seed=0, duals=None, weights=None, average=True) -> Result:
        """Maximise the dual of `problem` until the budget's relative gap is certified."""
        self._check()
        if (reason := self.accepts(problem)) is not None:
            raise TypeError(reason)
        options = StructuredOptions(budget.tol, seed, self.sampling, self.average and average, budget.n_jobs)
        if isinstance(problem, BlockProblem):
            structured = rows_as_structures.structured(problem)
            points = None if duals is None else rows_as_structures.points(problem, duals, self.kind_of_points())
            result = loop.solve(self._run(structured, points, options), budget, history)
            return rows_as_structures.with_rows(result, problem)
        run = self._run(problem, duals, options)
        run.hint = weights
        return loop.solve(run, budget, history)

    def _check(self) -> None:
        truth("block", self.block)
        truth("average", self.average)
        if self.sampling not in SAMPLING:
            raise ValueError(f"sampling must be one of {', '.join(SAMPLING)}; got {self.sampling!r}.")
        if self.step != "optimal" and not number_in(self.step, 0.0, 1.0):
            raise ValueError(f"step must be 'optimal' or a number in (0, 1]; got {self.step!r}.")

    def _step(self) -> float:
        return OPTIMAL if self.step == "optimal" else float(self.step)

    def kind_of_points(self) -> str:
        """What a run of this solver ends with and can start from: "marginals", "mixtures" or "sets"."""
        return "marginals"

    @abstractmethod
    def _run(self, problem: StructuredProblem, points, options: StructuredOptions):
        """A run on this problem from these points; None: from the solver's own start."""
