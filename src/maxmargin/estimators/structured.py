"""`StructuredSVM`: max-margin learning of any structure."""

from collections.abc import Iterable, Iterator
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ..callbacks import with_callbacks
from ..data.matrices import numbers
from ..data.mistakes import check_opened
from ..data.sources.memory import is_source
from ..problems.risk import Layout, Risk, risk_of
from ..problems.structured import SampleStream, StructuredProblem
from ..result import Result
from ..solvers import Bundle, resolve
from ..solvers.base import NOWHERE, Solver, WarmStart
from ..solvers.polytope.points import dual_coefficients
from ..structures.base import Structure, fresh
from ..structures.chain import Chain
from ..structures.encoded.python import Custom
from ..structures.graph import Graph
from ..structures.latent import LatentStructure
from ..structures.multiclass import Multiclass
from ..structures.tree import Tree
from ..utils.threads import thread_count
from .base import (
    READ,
    Certified,
    Fitter,
    Step,
    along,
    checked_dtype,
    checked_weight,
    same_count,
    sample_count,
    settings_of,
)
from .by_block import check_source, reading_solver
from .structured_partial_fit import StructuredPartialFit

# Structures that need no parameters.
NAMED_STRUCTURES: dict[str, type[Structure]] = {"chain": Chain, "tree": Tree, "graph": Graph, "multiclass": Multiclass}


class Packed(NamedTuple):
    """Weights as a structure reads them, and what they were made of."""

    structure: Structure
    w: np.ndarray
    W: np.ndarray

    def made_of(self, structure: Structure, w: np.ndarray) -> bool:
        same_array = w is self.w and not w.flags.writeable
        return structure is self.structure and (same_array or np.array_equal(w, self.w))


class StructuredSVM(StructuredPartialFit):
    """Structured support vector machine with a certificate: margin rescaling, one slack for each sample.

    Minimises 1/2 ||w||^2 + C sum_i s_i max_y [ Delta(y_i, y) + w . phi(x_i, y) - w . phi(x_i, y_i) ].

    Parameters
    ----------
    structure : Structure, or "chain", "tree", "graph" or "multiclass"
        What the outputs are: `maxmargin.structures.Chain()`, `Tree`, `Graph`, `Multiclass`, `Segmentation`, `Parts`, or a
        subclass of `Structure` of your own. It is copied, and carries its own biases. A name stands for the structure of that
        name as it is without parameters.
    C : float, default=1.0
        Weight of the losses against the regulariser. A mean form with parameter lam has C = 1 / (lam * n_samples).
    tol : float, default=1e-3
        The relative duality gap to certify: (primal - dual) / |primal| <= tol.
    max_iter : int, default=10_000
        Passes over the samples at the most.
    max_time : float, optional
        Seconds at the most. The model is then the best so far, with its true certificate and a ConvergenceWarning.
    class_weight : dict or "balanced", optional
        Factors on the losses where a label is true; labels that a dict leaves out have 1. "balanced" gives all labels the same
        weight: inversely to how often they are true, counting `sample_weight`. For Multiclass, Chain, Tree and Graph.
    solver : str or solver object, default="auto"
        "auto" is "dual_coordinate", and "online" where X is a source; "frank_wolfe", "partial_linearization",
        "exponentiated_gradient" and "bundle" are the others.
    warm_start : bool, default=False
        Start the next `fit` from the distributions over outputs of the last one, where the samples have the same shapes.
    keep_duals : bool, default=False
        Keep `dual_coef_`, and return exactly the weights that belong to it.
    random_state : int, RandomState or None, default=None
        Seed of the order of visits; an int makes runs repeatable.
    n_jobs : int, optional
        Threads for oracle calls: in the passes that evaluate the objective, in batch solvers, in `predict`, and for block steps
        where samples are many or dear enough. Structures in plain Python use one.
    verbose : int, default=0
        1 shows a line of progress on stderr.
    dtype : {None, float32, float64}, default=None
        What features are stored as; None keeps float32 and float64 and makes everything else float64.

    Attributes
    ----------
    w_ : array
        The weights, in the order of the structure's joint features. Read-only: to change them, put another array in their place.
    structure_ : Structure
        The structure as fitted, with its labels.
    coef_, intercept_, transitions_, first_, last_ : arrays
        Parts of `w_` by name, as views. For Multiclass, Chain, Tree and Graph, in the order of `structure_.labels_`: weights of
        features (K, features), the biases (K,), the tables of pairs of labels, [label, next label], (K, K) of a Chain,
        (types, K, K) of others and of edges with types, (edge features, K, K) of edges with features, and for a Chain the
        biases of the ends (K,). Those that a structure does not have are not there.
    certificate_ : Certificate
    history_ : History
    n_iter_ : int
        Passes made.
    n_oracle_calls_ : int
        Calls of the oracle during the iterations; evaluations of the objective come on top.
    dual_coef_ : list, with keep_duals=True
        For each sample, what its distribution over outputs is, times C s_i: pairs (output, coefficient) where the solver keeps
        outputs, so that w_ = sum_i sum_j coefficient_ij (phi(x_i, y_i) - phi(x_i, y_ij)), cut off at zero where the structure
        binds weights; else its marginals.

    Examples
    --------
    >>> import numpy as np
    >>> import maxmargin as mm
    >>> rng = np.random.default_rng(0)
    >>> y = [rng.integers(0, 2, size=5) for _ in range(20)]
    >>> X = [np.eye(2)[labels] + 0.1 * rng.normal(size=(5, 2)) for labels in y]
    >>> model = mm.StructuredSVM(mm.structures.Chain(), random_state=0).fit(X, y)
    >>> model.certificate_.converged
    True
    >>> model.score(X, y) > 0.9
    True
    """

    _parameter_constraints: dict[str, Any] = {
        **Certified._parameter_constraints,
        "structure": [Structure, StrOptions(set(NAMED_STRUCTURES))],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        structure,
        C=1.0,
        *,
        tol=1e-3,
        max_iter=10_000,
        max_time=None,
        class_weight=None,
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
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.class_weight = class_weight
        self.solver = solver
        self.warm_start = warm_start
        self.keep_duals = keep_duals
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.dtype = dtype

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Find the optimum to the relative duality gap `tol`.

        Parameters
        ----------
        X : sequence of samples, or a source of them (`maxmargin.Samples`)
            Each as the structure wants it: for a Chain an array or CSR matrix (length, features). A source brings its own outputs
            and weights; labels and sizes are learned from its first block, so give `n_labels` where that may not have all.
        y : sequence of outputs
        sample_weight : array of shape (n_samples,), optional
            Weights s_i >= 0; an integer weight equals that many repetitions of the sample.

        Returns
        -------
        self
        """
        self._validate_params()
        self.__dict__.pop("_kept", None)
        if is_source(X):
            check_source(self, X, y, sample_weight)
            self._fit(self._streamed(X), None)
            return self
        problem = StructuredProblem(*self._encoded(X, y, sample_weight))
        self._fit(problem, self.__dict__.get("_last") if self.warm_start else None)
        return self

    def risk(self, X, y, sample_weight=None, n_groups: int = 1) -> Risk:
        """The losses alone, sum_i s_i loss_i(w), as a convex function for `maxmargin.minimize` or for a solver of your own.

        risk(w) -> (value, subgradient), or values (P,) and subgradients (P, dim) for P = `n_groups` groups of samples; w is in
        the order of `w_`. Neither C nor bounds that the structure has on weights (`Parts`) are part of it: give them to
        `minimize`.
        """
        self._validate_params()
        model = clone(self)
        data, weight = model._encoded(X, y, sample_weight)
        if not isinstance(n_groups, Integral) or not 1 <= n_groups <= weight.size:
            raise ValueError(f"n_groups must be an integer between 1 and the {weight.size} samples; got {n_groups!r}.")
        layout = Layout(model.structure_.flatten, model.structure_.unflatten)
        found = risk_of(StructuredProblem(data, weight), int(n_groups), thread_count(self.n_jobs), layout)
        assert found is not None
        return found

    def regularization_path(self, X, y, Cs, sample_weight=None) -> list:
        """Fitted copies of this estimator for each C in `Cs`, each started from the one before it and certified.

        Go from small to large C. The samples are encoded once.
        """
        return [step.model for step in self._rising((X, y, sample_weight), settings_of(Cs))]

    def _rising(self, samples: tuple, settings: Iterable[dict[str, Any]]) -> Iterator[Step]:
        """The path over settings of C (and `tol`), one model at a time."""
        return along(self._fitter(samples), settings)

    def _fitter(self, samples: tuple) -> Fitter:
        """What fits copies with another C (and `tol`) to these samples, which are encoded once."""
        self._validate_params()
        model = clone(self)
        return self._fitter_of(model, StructuredProblem(*model._encoded(*samples)))

    def _fitter_of_source(self, source: Any, whole: Any) -> Fitter:
        """The same for samples that come in blocks; labels and sizes are those of the first block of `whole`."""
        model = clone(self)
        return self._fitter_of(model, model._streamed(source, whole))

    def _fitter_of(self, model: "StructuredSVM", problem: StructuredProblem | SampleStream) -> Fitter:
        """What fits copies to this problem, which `model` has read."""

        def fitted(setting: dict[str, Any], last: WarmStart | None) -> Step:
            estimator = self._copied(**setting)
            estimator.structure_ = model.structure_
            left = with_callbacks(type(estimator)._fit)(estimator, problem, last)
            return Step(estimator, problem.at(estimator.C), left)

        return fitted

    def predict(self, X, return_score: bool = False):
        """The best output of each sample: a list, or an array where outputs are single labels. With `return_score` a pair: the
        outputs, and an array of their scores w . phi(x, y)."""
        outputs, scores = self._decoded(X)
        return (outputs, scores) if return_score else outputs

    def decision_function(self, X) -> np.ndarray:
        """The score w . phi(x, y) of the output that `predict` gives, (n_samples,)."""
        return self._decoded(X)[1]

    def predict_marginals(self, X):
        """The probability of each label of each node, under p(y) ~ exp(w . phi(x, y)): a list of arrays (nodes, labels), in the
        order of `structure_.labels_`; one array (n_samples, n_classes) for Multiclass.

        For Multiclass, Chain, Tree and Graph. They are sums over all outputs, exact as decoding is, at temperature 1: nobody has
        calibrated them. K^2 numbers for each edge are held at a time (cliques of a Graph: their tables).
        """
        check_is_fitted(self)
        if is_source(X):
            return [found for block in X.blocks() for found in self.predict_marginals(block.X)]
        sample_count("X", X)
        return self.structure_.node_marginals(self._weights(), X, thread_count(self.n_jobs))

    def predict_n_best(self, X, n: int) -> list:
        """For each sample a list of its n best outputs as pairs (output, score), the best first; fewer where there are no more.

        Exact, for Chain, Tree, Graph and Multiclass. Outputs with the same score come in a fixed order. Time and memory are about
        those of decoding times n.
        """
        check_is_fitted(self)
        if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
            raise ValueError(f"n must be an integer >= 1; got {n!r}.")
        if is_source(X):
            return [found for block in X.blocks() for found in self.predict_n_best(block.X, n)]
        sample_count("X", X)
        return self.structure_.n_best(self._weights(), X, int(n))

    def _decoded(self, X) -> tuple[Any, np.ndarray]:
        """The best output of each sample, and their scores."""
        if "w_" not in vars(self):  # to ask at greater length takes a tenth of the time of a short sample
            check_is_fitted(self)
        if is_source(X):
            parts = [self._decoded(block.X) for block in X.blocks()]
            return [output for outputs, _ in parts for output in outputs], np.concatenate([scores for _, scores in parts])
        n_jobs = thread_count(self.n_jobs) if sample_count("X", X) > 1 else 1  # to ask takes as long as a short sample
        found, scores = self.structure_.decode_scored(self._weights(), X, n_jobs)
        return self.structure_.as_predictions(found), scores

    def score(self, X, y=None, sample_weight=None) -> float:
        """How good predictions are: the share of right labels; for Parts and structures in plain Python, minus the mean loss."""
        check_is_fitted(self)
        if is_source(X):
            check_source(self, X, y, sample_weight)
            return self._score_source(X)
        same_count(X, y)
        return self.structure_.score_outputs(y, self.predict(X), sample_weight)

    @property
    def coef_(self) -> np.ndarray:
        return self._named("coef_")

    @property
    def intercept_(self) -> np.ndarray:
        return self._named("intercept_")

    @property
    def transitions_(self) -> np.ndarray:
        return self._named("transitions_")

    @property
    def first_(self) -> np.ndarray:
        return self._named("first_")

    @property
    def last_(self) -> np.ndarray:
        return self._named("last_")

    def _named(self, name: str) -> np.ndarray:
        """A part of `w_`; an AttributeError says what is missing."""
        if "w_" not in vars(self):
            raise AttributeError(f"{name} is there after fit: this {type(self).__name__} is not fitted yet.")
        found = self.structure_.named_weights(self.w_)
        if name not in found:
            raise AttributeError(f"This {type(self.structure_).__name__} has no {name}; it has {', '.join(found)}.")
        return found[name]

    def top_features(self, names=None, n: int = 10) -> dict[Any, list[tuple[Any, float]]]:
        """For each label the n features with the largest weights in size, as pairs (name, weight), the largest first; features
        with no weight are left out.

        Parameters
        ----------
        names : sequence of n_features names, optional
            For example `vectorizer.get_feature_names_out()`. By default features are numbers.
        n : int, default=10
        """
        check_is_fitted(self)
        if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
            raise ValueError(f"n must be an integer >= 1; got {n!r}.")
        coef = self.coef_
        told = list(range(coef.shape[1])) if names is None else list(names)
        if len(told) != coef.shape[1]:
            raise ValueError(f"names has {len(told)} names; the model has {coef.shape[1]} features.")
        found = {}
        for label, row in zip(self.structure_.labels_.tolist(), coef, strict=True):
            order = np.argsort(-np.abs(row), kind="stable")[: int(n)]
            found[label] = [(told[k], float(row[k])) for k in order.tolist() if row[k] != 0.0]
        return found

    def _weights(self) -> np.ndarray:
        """`w_` as the structure reads it, kept from call to call with what it was made of. Weights that `fit` left are read-only:
        the same array is the same weights. Those of a user's own are compared number by number."""
        kept: Packed | None = self.__dict__.get("_packed")
        if kept is None or not kept.made_of(self.structure_, self.w_):
            w = np.array(self.w_) if self.w_.flags.writeable else self.w_
            kept = self._packed = Packed(self.structure_, w, self.structure_.unflatten(w))
        return kept.W

    def __getstate__(self):
        return {name: value for name, value in super().__getstate__().items() if name != "_packed"}

    def __setstate__(self, state):
        super().__setstate__(state)
        if "w_" in state:
            self.w_.flags.writeable = False  # pickle does not keep that

    def _score_source(self, source) -> float:
        y, found, weight = [], [], []
        for block in source.blocks():
            y.extend(block.y)
            found.extend(self.predict(block.X))
            weight.append(np.ones(block.rows.size) if block.weight is None else block.weight)
        return self.structure_.score_outputs(y, found, np.concatenate(weight))

    # ---- how ----------------------------------------------------------------------------------------------

    def _encoded(self, X, y, sample_weight, classes=None):
        """Samples as solvers see them, and their weights; `classes`: all labels, where y may not have them all."""
        check_opened(X, READ)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if isinstance(self.structure, LatentStructure):
            raise ValueError(f"{type(self.structure).__name__} is a LatentStructure: use LatentStructuredSVM.")
        dtype = checked_dtype(self.dtype)
        weight = checked_weight(sample_weight, same_count(X, y))
        structure = NAMED_STRUCTURES[self.structure]() if isinstance(self.structure, str) else fresh(self.structure)
        structure.dtype_ = dtype
        if classes is not None:
            structure.declare_labels(classes)
        with structure._reading_once():
            size = structure.size(X, y)
            if self.class_weight is not None:
                structure.weigh_labels(self.class_weight, y, weight)
            data = structure.encode(X, y)
        if size != (found := data.dim if isinstance(data, Custom) else structure._feature_count(X, y)):
            raise ValueError(f"{type(structure).__name__}.size says {size} weights, joint_feature has {found} numbers.")
        self.structure_ = structure
        return data, weight

    def _streamed(self, source: Any, whole: Any = None) -> SampleStream:
        """The problem of samples that come in blocks, at C = 1; labels and sizes are those of the first block, of `whole` where
        this is a part of it."""
        reading_solver(self.solver)  # refuses others before any work
        if self.class_weight == "balanced":
            raise ValueError("class_weight='balanced' needs all samples at once; give the factors as a dict for a source.")
        if self.keep_duals:
            raise ValueError("keep_duals=True needs the samples in memory; a source keeps no duals.")
        n_rows, _, _ = source.scan()
        first = next((block for block in (source if whole is None else whole).blocks()), None)
        if first is None:
            raise ValueError("The source has no samples.")
        data, _ = self._encoded(first.X, first.y, None)
        part = StructuredProblem(data, np.zeros(first.rows.size))
        return SampleStream(source, self.structure_, n_rows, part.weight_shape, part.bound)

    def _fit(self, posed: StructuredProblem | SampleStream, last: WarmStart | None) -> WarmStart:
        """Solve the problem at this C, from what an earlier run has left; returns what this one leaves."""
        problem = posed.at(self.C)
        solver = self._told(resolve(self.solver), problem) if problem.in_memory else reading_solver(self.solver)
        start = NOWHERE if last is None else last.fits(problem, solver)
        result = self._drive(solver, problem, partial(self._keep, problem), start=start)
        found = WarmStart.of(problem, solver, result)
        self.__dict__.pop("_last", None)
        if self.warm_start and problem.in_memory:
            self._last = found.for_other_data()
        self._freeze(problem, result)
        return found

    def _told(self, given: Solver, problem: StructuredProblem | SampleStream) -> Solver:
        """The solver, with weights to begin at in the order of `w_` brought into that of the problem."""
        if not isinstance(given, Bundle) or isinstance(given.init, str):
            return given
        size = self.structure_.flatten(np.zeros(problem.weight_shape)).size
        init = numbers("init", given.init).ravel()
        if init.size != size:
            raise ValueError(f"init must hold {size} finite weights in the order of w_; it has {init.size}.")
        return clone(given).set_params(init=self.structure_.unflatten(init).ravel())

    def _keep(self, problem: Any, result: Result) -> None:
        self.w_ = self.structure_.flatten(result.w)
        self.w_.flags.writeable = False
        self.n_oracle_calls_ = result.oracle_calls
        self.__dict__.pop("dual_coef_", None)
        if self.keep_duals:  # sources are refused before
            self.dual_coef_ = dual_coefficients(result.duals, problem, self.structure_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags
