"""Frank-Wolfe as users name it (Lacoste-Julien et al. 2013)."""

from numbers import Real

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ..utils.parameters import Number
from .polytope.linearization import Batch, Linearization
from .polytope.solver import StructuredSolver
from .polytope.steps import Away, Pairwise
from .polytope.working_set import WorkingSets

METHODS = {"pairwise": Pairwise(), "away": Away()}


class FrankWolfe(StructuredSolver):
    """Steps towards the answers of the max-oracle, sample by sample (Lacoste-Julien et al. 2013) or all at once.

    Serves multiclass and structured problems; needs no marginals.

    Parameters
    ----------
    block : bool, default=True
        One sample after another; False takes one common step for all samples, with oracle calls on `n_jobs` threads.
    steps : {"pairwise", "away", "plain"}, default="pairwise"
        Move mass from the least deserving output met so far to the oracle's answer; step towards the answer or away from the
        least deserving one; or only towards the answer, which keeps no outputs but needs several times the calls. A batch
        takes plain steps.
    step : "optimal" or float in (0, 1], default="optimal"
        The best step on the line, or a fixed one (plain steps only).
    cache : float in [0, 1], default=0.5
        An output met before is used instead of a call of the oracle if it promises this part of what the last call did; 0
        always calls. Not for plain steps.
    sampling : {"rest", "permutation", "uniform", "gap"}, default="gap"
        See PartialLinearization.
    average : bool, default=True
        Offer an average of the weights for the certificate.
    """

    _parameter_constraints = {
        **StructuredSolver._parameter_constraints,
        "steps": [StrOptions({"plain", *METHODS})],
        "cache": [Number(Real, 0.0, 1.0, closed="both")],
    }

    def __init__(self, block=True, steps="pairwise", step="optimal", *, cache=0.5, sampling="gap", average=True):
        self.block = block
        self.steps = steps
        self.step = step
        self.cache = cache
        self.sampling = sampling
        self.average = average

    def check(self):
        super().check()
        if self.step != "optimal" and self.block and self.steps != "plain":
            raise ValueError("A fixed step goes with steps='plain'; pairwise and away steps are always the best on their line.")

    def kind_of_points(self):
        return "sets" if self.block and self.steps != "plain" else "mixtures"

    def run_on(self, problem, points, options):
        if self.block and self.steps != "plain":
            return WorkingSets(problem, points, options, METHODS[self.steps], trust=float(self.cache))
        kind = Linearization if self.block else Batch
        none = np.zeros(problem.n_examples)
        setting = {"step": self._step(), "longest": 1.0, "cooling": 1.0}
        return kind(problem, points, options, temperature=none, smooth=False, **setting)
