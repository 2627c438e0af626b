"""Dual coordinate ascent as users name it."""

from dataclasses import replace
from functools import singledispatch

import numpy as np

from ..problems.explicit import GroupedProblem
from ..problems.linear import RowProblem, ScalarProblem
from .ascent.blocked import block_size
from .ascent.explicit import ExplicitAscent
from .ascent.linear import AscentOptions
from .ascent.parted import PartedRows, PartedScalars
from .ascent.parted_blocks import PartedBlocks
from .base import Solver

SAFE = 1e-10, 1e10  # curvatures and caps for which float32 iterations are tried
COARSE = 1e-4  # and the smallest tol
MOVING = 1e-2  # and the least that most scores must move by their own duals
WAY_OUT = "Coordinate steps crawl here: solver='auto' turns to Newton's method where it serves the problem."


class DualCoordinate(Solver):
    """Exact block-coordinate ascent on the dual, with settled examples left alone and extrapolation between passes.

    Where `tol` is tight, Newton steps on the duals that are free finish it. Where passes over structured samples crawl, all
    outputs met so far are one problem, which an interior point solves in turns with them.

    Serves binary, regression, multiclass, top-k, multi-label, explicit and structured problems; of the last, each sample keeps
    the outputs met so far that matter.

    Parameters
    ----------
    momentum : bool, default=True
        Extrapolate the duals after each pass: fewer passes on ill-conditioned problems, little cost elsewhere.
    average : bool, default=True
        Offer an average of the weights for the certificate, which is often better than the last ones. Without it (and with
        `keep_duals=True`) the model returned is exactly that of the duals.
    double : bool, default=False
        Iterate in float64 from the start. By default multiclass problems, and those whose X is float32, are iterated in
        float32 if `tol` is 1e-4 or larger, and go on in float64 should that make no progress. Certificates are float64
        always.
    """

    _parameter_constraints = {"momentum": ["boolean"], "average": ["boolean"], "double": ["boolean"]}

    def __init__(self, momentum: bool = True, average: bool = True, double: bool = False):
        self.momentum = momentum
        self.average = average
        self.double = double

    def serves(self, problem):
        kind = problem.made_of or type(problem)
        if begin.dispatch(kind) is begin.dispatch(object):
            if not problem.in_memory:
                return "DualCoordinate needs the data in memory; a source is read by OnlineDual."
            return f"DualCoordinate has no step for a {type(problem).__name__}."
        return None

    def begin(self, problem, start, setting):
        problem.measure(setting.n_jobs)
        dtype = np.float64 if self.double else None
        average = self.average and setting.average
        run = begin(problem, start.duals, setting.tol, setting.seed, dtype, self.momentum, average, setting.n_jobs)
        if run.warm:
            run.rise(start.rise)
        if start.gap > setting.tol:
            run.warm = False  # it is known not to be good enough
        else:
            run.hint = problem.fitting(start.weights)
        run.way_out = WAY_OUT
        run.n_jobs = setting.n_jobs  # for runs that work on several examples or labels at once
        run.halt = setting.stop  # for runs that finish with Newton steps, which may take longer than a pass
        return run


@singledispatch
def begin(problem, duals, tol, seed, dtype, momentum, average, n_jobs):
    """A run on this kind of problem, from these duals (None: zero)."""


@begin.register
def _(problem: ScalarProblem, duals, tol, seed, dtype, momentum, average, n_jobs):
    dtype = dtype or _working_dtype(problem, tol, problem.table.dtype)
    return PartedScalars(problem, duals, AscentOptions(tol, seed, dtype, momentum, average, threads=n_jobs))


@begin.register
def _(problem: RowProblem, duals, tol, seed, dtype, momentum, average, n_jobs):
    dtype = dtype or _working_dtype(problem, tol, np.float32)
    options = AscentOptions(tol, seed, dtype, momentum, average, threads=n_jobs)
    block = block_size(problem, dtype, options.tuning.blocks)
    return PartedBlocks(problem, duals, replace(options, block=block)) if block else PartedRows(problem, duals, options)


@begin.register
def _(problem: GroupedProblem, duals, tol, seed, dtype, momentum, average, n_jobs):
    return ExplicitAscent(problem, duals, AscentOptions(tol, seed, np.float64, False, average))


def _working_dtype(problem: ScalarProblem | RowProblem, tol: float, wanted):
    """`wanted`, or float64 where the numbers, the target or duals of this loss are beyond what float32 can tell apart, or where
    there are half-spaces."""
    if problem.loss.precise or wanted == np.float64:
        return np.float64
    if tol < COARSE or problem.half_spaces is not None or not (is_safe(problem.curvature) and is_safe(problem.cap)):
        return np.float64
    # How far a score can move by its own dual, of most examples: what rounding must be well below.
    moving = np.count_nonzero(problem.curvature * problem.cap >= MOVING)
    return wanted if 2 * moving > problem.n_examples else np.float64


def is_safe(sizes: np.ndarray) -> bool:
    """Whether all of these that are not zero are neither too small nor too large."""
    least = sizes.min(initial=np.inf)
    if least < SAFE[0]:
        least = sizes[sizes > 0.0].min(initial=np.inf)
    return bool(least >= SAFE[0] and sizes.max(initial=0.0) <= SAFE[1])
