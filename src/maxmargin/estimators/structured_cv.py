"""`StructuredSVMCV`: `StructuredSVM` with a C chosen by cross-validation."""

from .base import checked_weight, same_count
from .search import ReadSamples, Search, constraints_of_search, init_of_search
from .structured import StructuredSVM


class StructuredSVMCV(Search, StructuredSVM):
    """`StructuredSVM` that chooses its C by cross-validation. How, and what `Cs`, `cv`, `refit`, `search_tol` and the attributes
    of the search mean, is told at `SVMClassifierCV`; folds are runs of samples, in their order, and samples must be in memory.

    Parameters
    ----------
    structure : Structure
        What the outputs are, as for `StructuredSVM`.
    Cs, cv, refit, search_tol
        As for `SVMClassifierCV`.
    scoring : str or callable, optional
        What is best, as in scikit-learn. None is `score`: the share of right labels, and for Parts and
        structures in plain Python minus the mean loss.
    tol and all others
        As for `StructuredSVM`; `max_iter`, `max_time` and `n_jobs` as for `SVMClassifierCV`.

    Attributes
    ----------
    C_, Cs_, scores_
        As for `SVMClassifierCV`; `score_bounds_` is NaN.
    w_, structure_, certificate_ and all others
        As for `StructuredSVM`.

    Examples
    --------
    >>> import numpy as np
    >>> import maxmargin as mm
    >>> rng = np.random.default_rng(0)
    >>> y = [rng.integers(0, 2, size=5) for _ in range(20)]
    >>> X = [np.eye(2)[labels] + 0.1 * rng.normal(size=(5, 2)) for labels in y]
    >>> model = mm.StructuredSVMCV(mm.structures.Chain(), [0.1, 1.0], random_state=0).fit(X, y)
    >>> model.C_, model.certificate_.converged
    (0.1, True)
    """

    _estimator = StructuredSVM
    _parameter_constraints = constraints_of_search(StructuredSVM)
    __init__ = init_of_search(StructuredSVM)

    def _checked(self, X, y, sample_weight):
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        samples = same_count(X, y)
        return ReadSamples(X, y, None if sample_weight is None else checked_weight(sample_weight, samples))
