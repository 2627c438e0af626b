"""Bundle methods for any convex risk (Teo et al. 2010; Uřičář and Franc 2012, Algorithms 1 and 2).

    F(w) = 1/2 ||w||^2 + R(w),     R = sum_p R_p convex, each part under-estimated by the planes met so far

Each iteration asks the risk once, at the minimiser of the model 1/2 ||w||^2 + sum_p max_t (b_t + <a_t, w>) + alpha ||w - w_t||^2.
Without the prox-term (alpha = 0) that is BMRM, with one plane an iteration or with P of them. With it, alpha stays as long as F
falls by at least gamma, such that T steps like it would reach the target; otherwise alpha becomes the smallest number of a grid
0, a, 2 a, 4 a, ... for which the point moves by K at the most.
"""

from functools import singledispatch

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ..problems.base import Problem
from ..problems.blocked import StreamProblem
from ..problems.kernel import KernelProblem
from ..problems.multilabel import MultilabelProblem
from ..problems.risk import Layout, layout_of, risk_of
from ..problems.structured import SampleStream
from ..utils.parameters import POSITIVE, at_least
from .base import Setting, Solver
from .planes.collected import most_planes
from .planes.descent import descended, serves
from .planes.run import BundleOptions, BundleRun, PlaneStart
from .planes.tuning import BUNDLE


class Bundle(Solver):
    """Bundle methods: BMRM, Prox-BMRM, P-BMRM and Prox-P-BMRM (Uřičář and Franc 2012), for every problem with a risk.

    An iteration is one pass over the data for the risk and its subgradient, on `n_jobs` threads, and a small quadratic program.
    Serves all estimators, explicit problems and `maxmargin.minimize`; priors and signs, but neither kernels nor signs under a
    full covariance.

    Parameters
    ----------
    prox : bool, default=True
        Keep consecutive points near each other by a prox-term. Without it iterations zigzag where C is large.
    n_models : int or "auto", default="auto"
        The examples are split into so many groups, each with planes of its own. "auto" is 16 (fewer where there are fewer
        examples, or where `memory` is short).
    init : {"auto", "sgd", "zero"} or array, default="auto"
        Where to begin: after `passes` passes of stochastic gradient descent, at zero, or at these weights (one a feature and the
        intercept's last; a row of them for each class; of a `StructuredSVM` in the order of `w_`; not for multi-label models).
        "auto" is the previous point with `warm_start`, else "sgd" with a prox-term and "zero" without, with priors or their
        signs, on tensors, and for a risk of your own. On a path the planes are kept; it goes on from the previous point where
        "sgd" is not asked for or not possible.
    max_step : float, default=0.01
        K, as a part of the length of the first point: how far consecutive points may be apart when alpha is adjusted.
    patience : int, default=100
        T: alpha is adjusted again unless that many steps like the last one would reach the target.
    idle : int, default=10
        Planes without mass for more iterations than this are dropped.
    memory : float, default=1024
        Megabytes for planes and their inner products. When they are full, idle planes go first; if all have mass, they are
        replaced by two combinations of them for each model, so that no bound is lost.
    passes : int, default=10
        Passes of stochastic gradient descent.
    """

    _parameter_constraints = {
        "prox": ["boolean"],
        "n_models": [StrOptions({"auto"}), at_least(1)],
        "init": [StrOptions({"auto", "sgd", "zero"}), "array-like"],
        "max_step": [POSITIVE],
        "patience": [at_least(1)],
        "idle": [at_least(1)],
        "memory": [POSITIVE],
        "passes": [at_least(0)],
    }

    keeps_duals = False

    def __init__(
        self,
        prox=True,
        n_models="auto",
        init="auto",
        *,
        max_step=0.01,
        patience=100,
        idle=10,
        memory=1024.0,
        passes=10,
    ):
        self.prox = prox
        self.n_models = n_models
        self.init = init
        self.max_step = max_step
        self.patience = patience
        self.idle = idle
        self.memory = memory
        self.passes = passes

    def serves(self, problem):
        if problem.half_spaces is not None:
            return "Bundle does not serve sign constraints under a full prior covariance; use solver='dual_coordinate'."
        if problem.made_of is not None and not isinstance(self.init, str):
            raise ValueError("init must be 'auto', 'sgd' or 'zero' for multi-label problems; use warm_start for weights.")
        return knows(problem)

    def begin(self, problem, start, setting):
        layout = layout_of(problem)
        dim = layout.flat(np.zeros(problem.weight_shape)).size
        groups = self._groups(problem, dim)
        risk = risk_of(problem, groups, setting.n_jobs)
        assert risk is not None  # or it would not have been served
        memory = float(self.memory) * 2**20
        left = start.duals if isinstance(start.duals, PlaneStart) and start.duals.fits(groups, most_planes(dim, memory)) else None
        options = BundleOptions(setting.tol, bool(self.prox), float(self.max_step), int(self.patience), int(self.idle), memory)
        if left is None:
            point = self._start(problem, layout, dim, start.weights, setting)
            return BundleRun(problem, risk, layout, point, None, options, setting.stop)
        warm = self._descended(problem, layout, setting)
        return BundleRun(problem, risk, layout, warm, left, options, setting.stop)

    def _groups(self, problem: Problem, dim: int) -> int:
        """How many models there are; 0 where the risk itself decides."""
        count = problem.n_parts
        if count is None:
            return 0 if self.n_models == "auto" else int(self.n_models)
        if self.n_models == "auto":
            fitting = most_planes(dim, float(self.memory) * 2**20) // 64
            return max(1, min(BUNDLE.models, count, fitting))
        if self.n_models > count:
            raise ValueError(f"n_models={self.n_models} exceeds the {count} examples: a model needs one at least.")
        return int(self.n_models)

    def _start(self, problem: Problem, layout: Layout, dim: int, weights, setting: Setting) -> np.ndarray:
        if not isinstance(self.init, str):
            try:
                start = np.array(self.init, dtype=np.float64).ravel()
            except (TypeError, ValueError):
                raise ValueError(f"init must be 'auto', 'sgd', 'zero' or an array of weights; got {self.init!r}.") from None
            if start.size != dim or not np.all(np.isfinite(start)):
                raise ValueError(f"init must hold {dim} finite weights for this problem; it has {start.size}.")
            return start
        if self.init == "auto" and problem.fitting(weights) is not None:
            return layout.flat(weights)
        found = self._descended(problem, layout, setting)
        if found is None and self.init == "sgd" and not serves(problem):
            raise ValueError("init='sgd' serves neither priors, signs, tensors nor your own risk; use 'zero' or give weights.")
        return np.zeros(dim) if found is None else found

    def _descended(self, problem: Problem, layout: Layout, setting: Setting) -> np.ndarray | None:
        """Where stochastic gradient descent leads, if it is asked for and possible."""
        if not isinstance(self.init, str) or not (self.init == "sgd" or (self.init == "auto" and self.prox)):
            return None
        found = descended(problem, int(self.passes), setting.seed, setting.stop, setting.n_jobs)
        return None if found is None else layout.flat(found)


@singledispatch
def knows(problem: Problem) -> str | None:
    """None, or the reason why there are no planes of this problem."""
    return None if risk_of(problem) is not None else f"Bundle knows no subgradient of a {type(problem).__name__}."


@knows.register
def _(problem: MultilabelProblem) -> str | None:
    return None  # its groups have planes


@knows.register
def _(problem: KernelProblem) -> str | None:
    return "Bundle serves no kernels: its planes are vectors of weights. Use solver='dual_coordinate'."


@knows.register
def _(problem: StreamProblem | SampleStream) -> str | None:
    return "Bundle needs the data in memory; a source is read by OnlineDual."
