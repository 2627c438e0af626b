"""What a loss, structure, solver or table of one's own imports. docs/extending.md shows one of each, in a file.

A loss is a `BinaryLoss`, `RegressionLoss` or `MulticlassLoss` whose `of` makes a named tuple, and functions registered for the
class of that tuple: `value`, `reward`, `step`, `clip` and `slope` of one score, or `row_value`, `row_step`, `row_extrapolate`,
`row_repair` and `row_slope` of a row of them; `piece` where the reward of one dual is quadratic in pieces. A structure subclasses
`Structure`, a solver `Solver` with its `Run`, and a kind of X registers with `table_of`.
"""

from .data import rows
from .data.table import MemoryTable, RowBlock, Table, table_of
from .jit import jitable, kernel
from .losses.base import (
    BinaryLoss,
    Loss,
    MulticlassLoss,
    RegressionLoss,
    clip,
    piece,
    reward,
    row_extrapolate,
    row_repair,
    row_slope,
    row_step,
    row_value,
    slope,
    step,
    value,
)
from .problems.base import Problem
from .problems.linear import BlockProblem, ScalarProblem
from .problems.risk import Risk, layout_of, risk_of
from .problems.structured import StructuredProblem
from .regularizers.base import Regularizer
from .solvers.base import Run, Setting, Solver, Start
from .structures import Structure

__all__ = [
    "BinaryLoss",
    "BlockProblem",
    "Loss",
    "MemoryTable",
    "MulticlassLoss",
    "Problem",
    "RegressionLoss",
    "Regularizer",
    "Risk",
    "RowBlock",
    "Run",
    "ScalarProblem",
    "Setting",
    "Solver",
    "Start",
    "Structure",
    "StructuredProblem",
    "Table",
    "clip",
    "jitable",
    "kernel",
    "layout_of",
    "piece",
    "reward",
    "risk_of",
    "row_extrapolate",
    "row_repair",
    "row_slope",
    "row_step",
    "row_value",
    "rows",
    "slope",
    "step",
    "table_of",
    "value",
]
