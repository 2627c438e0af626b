"""Partial linearization as users name it (Mohapatra et al. 2016)."""

from numbers import Real

import numpy as np

from ..utils.parameters import POSITIVE, Number
from .polytope.linearization import Batch, Linearization
from .polytope.solver import StructuredSolver

INTERIOR = 1.0 - 1e-10  # the longest step of partial linearization: no marginal becomes zero


class PartialLinearization(StructuredSolver):
    """Steps towards Gibbs distributions around the current point (Mohapatra et al. 2016).

    Serves multiclass problems and structures with marginals.

    Parameters
    ----------
    temperature : float, default=0.01
        Weight of the entropy. Towards 0 the directions become those of Frank-Wolfe; larger ones are more cautious.
    block : bool, default=True
        One sample after another; False takes one common step for all samples, with oracle calls on `n_jobs` threads.
    step : "optimal" or float in (0, 1], default="optimal"
        The best step on the line, or a fixed one; 1 is exponentiated gradient.
    cooling : float in (0, 1], default=1.0
        Factor on the temperature after each pass, down to a thousandth of where it began. 1 keeps it.
    sampling : {"rest", "permutation", "uniform", "gap"}, default="rest"
        Which samples a block pass visits: those whose share of the gap was small rest for 1, 2, 4, ... passes; all in random
        order; n drawn with replacement; n drawn in proportion to their share of the gap.
    average : bool, default=True
        Offer an average of the weights for the certificate.
    """

    _parameter_constraints = {
        **StructuredSolver._parameter_constraints,
        "temperature": [POSITIVE],
        "cooling": [Number(Real, 0.0, 1.0, closed="right")],
    }

    def __init__(self, temperature=0.01, block=True, step="optimal", *, cooling=1.0, sampling="rest", average=True):
        self.temperature = temperature
        self.block = block
        self.step = step
        self.cooling = cooling
        self.sampling = sampling
        self.average = average

    def run_on(self, problem, points, options):
        kind = Linearization if self.block else Batch
        temperature = np.full(problem.n_examples, float(self.temperature))
        longest = 1.0 if self.step == 1 else INTERIOR
        setting = {"step": self._step(), "longest": longest, "cooling": float(self.cooling)}
        return kind(problem, points, options, temperature=temperature, smooth=True, **setting)
