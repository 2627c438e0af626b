"""`StructuredSVMCV`: `StructuredSVM` with a C chosen by cross-validation."""

from ..data.sources.memory import Samples
from .base import checked_weight, same_count
from .by_block import check_source
from .search import ReadSamples, Search, constraints_of_search, init_of_search
from .source_folds import folds_of_samples
from .structured import StructuredSVM


class StructuredSVMCV(Search, StructuredSVM):
    """`StructuredSVM` that chooses its C by cross-validation. How, and what `Cs`, `cv`, `refit`, `search_tol` and the attributes
    of the search mean, is told at `SVMClassifierCV`; folds are runs of samples, in their order; those
    of a source (`maxmargin.Samples`) are dealt by a hash of their numbers.

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

    def _folds_of_source(self, source, y, sample_weight, values, gaps):
        if not isinstance(source, Samples):
            raise ValueError(
                f"{type(self).__name__} deals samples to folds, which have to be in memory or in mm.Samples; "
                f"{type(source).__name__} can be fitted by {self._estimator.__name__} at one C."
            )
        check_source(self, source, y, sample_weight)
        model, scorer = self._plain()
        return folds_of_samples(model, source, values, gaps, self._dealing(), None if self.scoring is None else scorer)
