"""Structured models of samples that arrive in pieces: `partial_fit`."""

import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import _safe_indexing

from ..callbacks import with_callbacks
from ..data.mistakes import check_opened, quoted
from ..problems.base import PLAIN_TERM
from ..problems.structured import SampleStream, StructuredProblem
from ..regularizers.frozen import frozen
from ..result import Result
from ..solvers.base import Start
from ..solvers.polytope.sets import Sets, bytes_of_sets, continued, of_samples, with_other_outputs
from ..solvers.polytope.signed import space_of, weights_of
from ..solvers.polytope.tuning import POLYTOPE
from ..solvers.streams.run import MEGABYTE
from ..structures.base import Structure
from ..structures.encoded.contract import truths
from .base import READ, Certified, checked_weight, same_count
from .by_block import partial_solver
from .frozen_duals import check_same_objective, found_at_duals, kept_by, objective_of


class KeptOutputs(NamedTuple):
    """What `partial_fit` goes on from: the samples that have mass on other outputs than the true one, and what it could not keep.

    `points` are their distributions; None where codes of outputs mean nothing to another fit. `frozen` are the weights, before
    any clip, that come from the samples of a `fit` and those that memory had no room for, `reward` their expected losses,
    `objective` and C what they belong to; `dropped` says whether any sample is not among these any more. A `fit` leaves no
    samples.
    """

    X: Any
    y: list
    weight: np.ndarray
    points: Sets | None
    frozen: np.ndarray
    reward: float
    C: float
    dropped: bool
    objective: dict[str, Any] | None = None


class StructuredPartialFit(Certified):
    """What `StructuredSVM` knows about pieces of data."""

    class_weight: Any
    structure_: Structure
    _encoded: Callable[..., tuple[Any, np.ndarray]]
    _keep: Callable[..., None]
    structure: Any

    def _freeze(self, problem: StructuredProblem | SampleStream, result: Result) -> None:
        """Keep what `partial_fit` goes on from: the distributions of this fit, as the weights that come from them."""
        self.__dict__.pop("_kept", None)
        found = found_at_duals(result)
        if found is None:
            return
        w = weights_of(space_of(found.v.copy(), problem.bound))
        reward = min(found.dual, result.certificate.dual) + 0.5 * float(np.vdot(w, w))
        self._kept = KeptOutputs(None, [], np.zeros(0), None, found.v, reward, float(self.C), True, objective_of(self))

    @with_callbacks
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn from another piece of the samples, and keep those that matter for the calls to come.

        The model becomes the optimum, to the relative gap `tol`, over the samples kept so far and the new piece. Samples whose
        distribution has all mass on the true output are then forgotten. After a `fit` the distributions of its samples stay as
        they are, and their part of the weights with them. `certificate_.dual` is a lower bound on the optimum of all samples
        ever given, those of `fit` among them; `certificate_.primal` covers kept and new ones only, and `verified` says so by
        being False once any was forgotten.

        Parameters
        ----------
        X : sequence of samples
        y : sequence of outputs
        classes : sequence, optional
            All labels that will ever come, for Multiclass, Chain, Tree and Graph: in the first call, where that may not have all
            of them. The number of features is that of the first call. After a `fit` labels and features are those of its samples.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._validate_params()
        if isinstance(self.class_weight, str):
            raise ValueError("class_weight='balanced' needs all data at once; give the factors as a dict for partial_fit.")
        solver, cache_size = partial_solver(self.solver)
        if solver.kind_of_points() != "sets":
            raise ValueError(f"partial_fit keeps outputs with their masses; {type(solver).__name__} does not: use solver='auto'.")
        kept: KeptOutputs | None = kept_by(self)
        if kept is not None:
            self._check_same_structure()
            if kept.frozen.size:
                check_same_objective(self, kept.objective)
        problem, X, y = self._posed_pieces(X, y, classes, sample_weight, kept)
        points = None
        if kept is not None and kept.points is not None:
            points = continued(kept.points, problem.data, POLYTOPE.outputs)
        dropped = kept is not None and kept.dropped

        def told(result: Result) -> None:
            self._keep(problem, result)
            self.certificate_ = replace(result.certificate, verified=result.certificate.verified and not dropped)

        result = self._drive(solver, problem, told, resumable=False, start=Start(points, fresh=True))
        self._kept = self._remembered(problem, X, y, result.duals, kept, cache_size)
        return self

    def _posed_pieces(self, X, y, classes, sample_weight, kept: KeptOutputs | None) -> tuple[StructuredProblem, Any, list]:
        """The problem of kept and new samples, which come after them, and these samples."""
        check_opened(X, READ)
        X = np.asarray(X) if hasattr(X, "columns") else X
        if kept is None:
            data, weight = self._encoded(X, y, sample_weight, classes)
            return StructuredProblem(data, weight).at(self.C), X, list(y)
        if classes is not None and not same_labels(classes, self.structure_):
            raise ValueError(f"classes must be those of the first call of partial_fit, or of fit; got {quoted(classes)}.")
        weight = np.concatenate([kept.weight, checked_weight(sample_weight, same_count(X, y))])
        X, y = X if kept.X is None else joined_samples(kept.X, X), [*kept.y, *y]
        data = self.structure_.encode(X, y)
        held = frozen(PLAIN_TERM, kept.frozen, kept.reward, kept.C) if kept.frozen.size else None
        return StructuredProblem(data, weight, frozen=held).at(self.C), X, y

    def _check_same_structure(self) -> None:
        """Refuse a structure that is another one than what the model has learned with."""
        given, known = self.structure, type(self.structure_)
        if given != known.__name__.lower() if isinstance(given, str) else type(given) is not known:
            raise ValueError(f"structure={given!r} is not what this model has learned with, a {known.__name__}: set it back.")

    def _remembered(
        self, problem: StructuredProblem, X: Any, y: list, points: Any, before: KeptOutputs | None, cache_size: float
    ) -> KeptOutputs:
        """The samples that matter; the oldest of them leave their part of the weights only, where memory has no room for all."""
        support = np.flatnonzero(with_other_outputs(points, problem.data) & (problem.cap > 0.0))
        old = 0 if before is None else len(before.y)
        dropped = (before is not None and before.dropped) or support.size < problem.n_examples
        held, reward = (np.zeros(0), 0.0) if before is None else (before.frozen, before.reward)
        size_of = truths(problem.data)[1]
        sizes = (bytes_of_samples(X, support) + bytes_of_samples(y, support)) + bytes_of_sets(points, size_of)[support]
        too_many = np.count_nonzero(np.cumsum(sizes[::-1]) > cache_size * MEGABYTE)
        if too_many:
            gone, support, dropped = support[:too_many], support[too_many:], True
            r, more = frozen_part(problem, points, gone)
            held, reward = held + r if held.size else r, reward + more
        copies = [deepcopy(y[i]) if i >= old else y[i] for i in support]  # users fill their arrays anew
        chosen = of_samples(points, size_of, support) if problem.keeps_points else None
        samples = kept_samples(X, support, old)
        told = held, reward, float(self.C), dropped, objective_of(self)
        return KeptOutputs(samples, copies, problem.weight[support], chosen, *told)


def same_labels(classes: Any, structure: Any) -> bool:
    known = getattr(structure, "labels_", None)
    return known is not None and set(classes) == set(known.tolist())


def joined_samples(kept: Any, new: Any) -> Any:
    """The samples of both, in one container: a matrix where both are, else a list."""
    if sp.issparse(kept) and sp.issparse(new):
        return sp.vstack([kept, new], format="csr")
    if isinstance(kept, np.ndarray) and isinstance(new, np.ndarray) and kept.shape[1:] == new.shape[1:]:
        return np.concatenate([kept, new])
    return [*kept, *new]


def kept_samples(X: Any, which: np.ndarray, old: int) -> Any:
    """These samples, of which those from number `old` on are copied: users fill their arrays anew."""
    if sp.issparse(X) or isinstance(X, np.ndarray):
        return X[which]  # which is a copy
    chosen = _safe_indexing(X, which)
    return [deepcopy(x) if i >= old else x for i, x in zip(which.tolist(), chosen, strict=True)]


def frozen_part(problem: StructuredProblem, points: Any, gone: np.ndarray) -> tuple[np.ndarray, float]:
    """The weights that come from these samples alone, before any clip, and their expected losses."""
    weight = np.zeros_like(problem.weight)
    weight[gone] = problem.weight[gone]
    alone = replace(problem, weight=weight, frozen=None)
    value, r = alone.evaluate(points)
    w = alone.feasible(r)
    return r, value + 0.5 * float(np.vdot(w, w))


def bytes_of_samples(X: Any, which: np.ndarray) -> np.ndarray:
    """The same for each of these samples."""
    if sp.issparse(X):
        return np.diff(X.indptr)[which] * (X.data.itemsize + X.indices.itemsize)
    return np.array([bytes_of(X[i]) for i in which.tolist()], np.int64)


def bytes_of(given: Any) -> int:
    """About how much memory a sample or an output takes."""
    if sp.issparse(given):
        return int(given.data.nbytes + given.indices.nbytes + given.indptr.nbytes)
    if isinstance(given, np.ndarray):
        return given.nbytes
    if isinstance(given, list | tuple):
        return sys.getsizeof(given) + sum(map(bytes_of, given))
    if isinstance(given, dict):
        return sys.getsizeof(given) + sum(map(bytes_of, given.values()))
    return sys.getsizeof(given)
