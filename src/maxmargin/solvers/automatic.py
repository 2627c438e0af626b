"""What `solver="auto"` is."""

from functools import singledispatch

from ..problems.base import Problem
from ..problems.linear import ScalarProblem
from .base import Solver
from .dual_coordinate import DualCoordinate
from .newton import Newton

FEW_FEATURES = 500  # features up to which one Newton step of a quadratic loss is tried. Set not recorded, 2026-11-16.


class Automatic(Solver):
    """`DualCoordinate`, but for quadratic losses of few features: there one step of `Newton` is the solution."""

    def serves(self, problem):
        return choice(problem).serves(problem)

    def begin(self, problem, start, setting):
        return choice(problem).begin(problem, start, setting)


@singledispatch
def choice(problem: Problem) -> Solver:
    """The solver of this problem."""
    return DualCoordinate()


@choice.register
def _(problem: ScalarProblem) -> Solver:
    newton = Newton(max_features=FEW_FEATURES)
    few = problem.loss.parabolic and problem.table.shape[1] <= problem.n_examples
    return newton if few and newton.serves(problem) is None else DualCoordinate()
