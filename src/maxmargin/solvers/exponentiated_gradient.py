"""Exponentiated gradient as users name it (Collins et al. 2008)."""

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ..jit import kernel
from ..structures.encoded.contract import diameter
from ..utils.parameters import POSITIVE
from .polytope.linearization import Batch, Linearization
from .polytope.solver import StructuredSolver

COLDEST = 1e-100  # of samples whose features are all zero: a loss divided by it is still a number


@kernel
def diameters(data, result):
    for i in range(result.size):
        result[i] = diameter(data, i)


class ExponentiatedGradient(StructuredSolver):
    """Partial linearization with step 1 (Collins et al. 2008).

    Serves multiclass problems and structures with marginals.

    Parameters
    ----------
    temperature : "auto" or float, default="auto"
        "auto" takes C s_i D_i / 8 for sample i, with D_i a bound on the squared distance between joint features of its outputs:
        large enough for every block step to raise the dual. Smaller ones are often faster and may fail to converge.
    block : bool, default=True
        One sample after another, or one common step for all samples (then "auto" is n times as large).
    sampling, average
        See PartialLinearization.
    """

    _parameter_constraints = {**StructuredSolver._parameter_constraints, "temperature": [StrOptions({"auto"}), POSITIVE]}

    step = 1.0

    def __init__(self, temperature="auto", block=True, *, sampling="permutation", average=True):
        self.temperature = temperature
        self.block = block
        self.sampling = sampling
        self.average = average

    def run_on(self, problem, points, options):
        if self.temperature == "auto":
            temperature = np.empty(problem.n_examples)
            diameters(problem.data, temperature)
            temperature *= problem.cap / 8.0
            temperature = np.maximum(temperature, COLDEST)
            if not self.block:  # all samples move at once
                temperature *= problem.n_examples
        else:
            temperature = np.full(problem.n_examples, float(self.temperature))
        kind = Linearization if self.block else Batch
        return kind(problem, points, options, temperature=temperature, step=1.0, longest=1.0, cooling=1.0, smooth=True)
