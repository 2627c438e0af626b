"""`SVMRegressorCV`: `SVMRegressor` with a C chosen by cross-validation."""

from .bounds import DefaultScore, r2, r2_bounds
from .regressor import SVMRegressor
from .search import LinearSearch, constraints_of_search, init_of_search


class SVMRegressorCV(LinearSearch, SVMRegressor):
    """`SVMRegressor` that chooses its C by cross-validation. How, and what `Cs`, `cv`, `refit`, `search_tol` and the attributes
    of the search mean, is told at `SVMClassifierCV`; folds are runs of samples, in their order. The loss whose
    small folds are fitted at once is "epsilon_insensitive".

    Parameters
    ----------
    Cs, cv, refit, search_tol
        As for `SVMClassifierCV`.
    scoring : str or callable, optional
        What is best, as in scikit-learn. None is `score`, the coefficient of determination.
    epsilon and all others
        As for `SVMRegressor`; `max_iter`, `max_time` and `n_jobs` as for `SVMClassifierCV`.

    Attributes
    ----------
    C_, Cs_, scores_, score_bounds_
        As for `SVMClassifierCV`.
    coef_, intercept_, certificate_ and all others
        As for `SVMRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import maxmargin as mm
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = mm.SVMRegressorCV([1.0, 10.0, 100.0], scoring="neg_mean_absolute_error", random_state=0).fit(X, y)
    >>> model.C_
    100.0
    """

    _estimator = SVMRegressor
    _parameter_constraints = constraints_of_search(SVMRegressor)
    __init__ = init_of_search(SVMRegressor)
    _default_score = DefaultScore("r2", r2_bounds, r2)
