"""`LatentStructuredSVM`: max-margin learning of structures with a hidden part."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..problems.latent import LatentStructuredProblem
from ..solvers.convex_concave import LatentResult
from ..solvers.polytope.points import dual_coefficients
from ..structures.base import fresh
from ..structures.latent import LatentStructure
from ..utils.threads import thread_count
from .base import checked_dtype, checked_weight, same_count, sample_count
from .latent_base import LatentModel

HIDDEN_INITS = ("zero", "random")


class LatentStructuredSVM(LatentModel):
    """Structured support vector machine with hidden parts (Yu and Joachims 2009), by the convex-concave procedure.

    Lowers 1/2 ||w||^2 + C sum_i s_i ( max_{y, z} [ Delta(y_i, y) + w . phi(x_i, y, z) ] - max_z w . phi(x_i, y_i, z) ), which is
    not convex: the hidden parts z_i of the true outputs are fixed, the convex problem with them is solved to a certified gap, and
    so on. The objective never rises.

    Parameters
    ----------
    structure : LatentStructure
        What outputs and hidden parts are. It is copied, and carries its own biases.
    C : float, default=1.0
        Weight of the losses against the regulariser.
    max_cccp_iter : int, default=50
        Convex problems at the most, for each start.
    init : {"zero", "random"} or list of hidden parts, default="zero"
        The hidden parts fixed first: what the structure imputes at weights of zero, or at random weights, or given ones.
    n_restarts : int, default=0
        How many starts from random weights follow; the model is the one with the lowest objective.
    tol : float, default=1e-3
        The relative duality gap to certify for the last convex problem; and the procedure ends when a step lowers the objective
        by less than this part.
    max_iter : int, default=10_000
        Passes over the samples at the most, in all convex problems together.
    max_time : float, optional
        Seconds at the most. The model is then the best so far, with its true certificate and a ConvergenceWarning.
    solver : str or solver object, default="auto"
        How the convex problems are solved, as in `StructuredSVM`.
    warm_start : bool, default=False
        Start the next `fit` from the weights of the last one.
    keep_duals : bool, default=False
        Keep `dual_coef_`, and return exactly the weights that belong to it.
    random_state : int, RandomState or None, default=None
        Seed of the order of visits and of random starts; an int makes runs repeatable.
    n_jobs : int, optional
        For the sake of a common interface; structures in plain Python use one thread.
    verbose : int, default=0
        1 shows a line of progress on stderr.
    dtype : {None, float32, float64}, default=None
        Handed on to the structure as `dtype_`.

    Attributes
    ----------
    w_ : array
        The weights, in the order of the structure's joint features.
    structure_ : LatentStructure
        The structure as fitted.
    latent_ : list
        The best hidden part of each true output of the training samples.
    outer_history_ : array
        The objective after each convex problem; never rises.
    n_cccp_iter_, restart_objectives_, certificate_, history_, n_iter_, n_oracle_calls_
        As in `LatentSVMClassifier`.
    dual_coef_ : list, with keep_duals=True
        For each sample pairs (output, coefficient) of outputs (y, z), as in `StructuredSVM`.
    """

    _parameter_constraints: dict[str, Any] = {**LatentModel._parameter_constraints, "structure": [LatentStructure]}

    def __init__(
        self,
        structure,
        C=1.0,
        *,
        max_cccp_iter=50,
        init="zero",
        n_restarts=0,
        tol=1e-3,
        max_iter=10_000,
        max_time=None,
        solver="auto",
        warm_start=False,
        keep_duals=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        dtype=None,
    ):
        self.structure = structure
        self.C = C
        self.max_cccp_iter = max_cccp_iter
        self.init = init
        self.n_restarts = n_restarts
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.solver = solver
        self.warm_start = warm_start
        self.keep_duals = keep_duals
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.dtype = dtype

    def predict(self, X):
        """The best output of each sample."""
        check_is_fitted(self)
        sample_count("X", X)
        return self.structure_.as_predictions(self.structure_.decode_all(self.w_, X, thread_count(self.n_jobs)))

    def predict_latent(self, X, y=None) -> list:
        """The best hidden part of each sample: for the output predicted, or for the outputs `y`."""
        outputs = self.predict(X) if y is None else y
        check_is_fitted(self)
        same_count(X, outputs)
        return [self.structure_.impute(self.w_, x, output) for x, output in zip(X, outputs, strict=True)]

    def score(self, X, y, sample_weight=None) -> float:
        """How good predictions are: minus the mean loss, where the structure does not say otherwise."""
        check_is_fitted(self)
        same_count(X, y)
        return self.structure_.score_outputs(y, self.predict(X), sample_weight)

    def _prepared(self, X, y, sample_weight):
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        dtype = checked_dtype(self.dtype)
        weight = checked_weight(sample_weight, same_count(X, y))
        structure: LatentStructure = fresh(self.structure)
        structure.dtype_ = dtype
        size = structure.size(X, y)
        name = type(structure).__name__
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"{name}.size must return a positive integer, the number of weights; got {size!r}.")
        found = np.asarray(structure.joint_feature(X[0], y[0], structure.impute(np.zeros(size), X[0], y[0]))).size
        if size != found:
            raise ValueError(f"{name}.size says {size} weights, joint_feature has {found} numbers.")
        return LatentStructuredProblem(structure, list(X), list(y), weight, int(size)), {"structure_": structure}

    def _checked_init(self, problem: LatentStructuredProblem):
        if isinstance(self.init, str) and self.init in HIDDEN_INITS:
            return self.init
        if isinstance(self.init, str) or not hasattr(self.init, "__len__") or len(self.init) != len(problem.X):
            raise ValueError(f"init must be one of {', '.join(HIDDEN_INITS)}, or a list of {len(problem.X)} hidden parts.")
        return list(self.init)

    def _keep(self, result: LatentResult) -> None:
        self.w_ = self.structure_.flatten(result.w)
        self.n_oracle_calls_ = result.oracle_calls
        if self.keep_duals:
            assert result.problem is not None
            self.dual_coef_ = dual_coefficients(result.duals, result.problem, self.structure_)
