"""Partial linearization as users name it (Mohapatra et al. 2016)."""

import sys

import numpy as np

from .polytope.linearization import Batch, Linearization
from .polytope.solver import StructuredSolver, number_in

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

    def __init__(self, temperature=0.01, block=True, step="optimal", *, cooling=1.0, sampling="rest", average=True):
        self.temperature = temperature
        self.block = block
        self.step = step
        self.cooling = cooling
        self.sampling = sampling
        self.average = average

    def check(self):
        super().check()
        if not number_in(self.temperature, 0.0, sys.float_info.max):
            raise ValueError(f"temperature must be a finite number > 0 (FrankWolfe is the limit at 0); got {self.temperature!r}.")
        if not number_in(self.cooling, 0.0, 1.0):
            raise ValueError(f"cooling must be a number in (0, 1]; got {self.cooling!r}.")

    def run_on(self, problem, points, options):
        kind = Linearization if self.block else Batch
        temperature = np.full(problem.n_examples, float(self.temperature))
        longest = 1.0 if self.step == 1 else INTERIOR
        setting = {"step": self._step(), "longest": longest, "cooling": float(self.cooling)}
        return kind(problem, points, options, temperature=temperature, smooth=True, **setting)
