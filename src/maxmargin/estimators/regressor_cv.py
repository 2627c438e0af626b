"""`SVMRegressorCV`: `SVMRegressor` with a C chosen by cross-validation."""

from .bounds import DefaultScore, r2_bounds
from .regressor import SVMRegressor
from .search import LinearSearch, constraints_of_search, init_of_search


class SVMRegressorCV(LinearSearch, SVMRegressor):
    """`SVMRegressor` that chooses its C by cross-validation, in the manner of LogisticRegressionCV.

    For each fold the models of all `Cs` follow each other from small to large, each started from the one before it and certified
    to the relative gap `search_tol`. The best is fitted to all samples, to `tol`: it is a `SVMRegressor` with C = `C_`.
    Samples must be in memory.

    Parameters
    ----------
    Cs, cv, refit, search_tol
        As for `SVMClassifierCV`. Folds are runs of samples, in their order.
    scoring : str or callable, optional
        What is best, as in scikit-learn. None is `score`, the coefficient of determination.
    epsilon, loss, positive, prior_mean, prior_scale, prior_covariance, tol, max_iter, max_time, \
fit_intercept, intercept_scaling, solver, warm_start, keep_duals, random_state, n_jobs, verbose, dtype
        As for `SVMRegressor`; `max_iter`, `max_time` and `n_jobs` as for `SVMClassifierCV`.

    Attributes
    ----------
    C_ : float
        The C of the best mean score; of several with the same score the smallest.
    Cs_ : array of shape (n_Cs,)
    scores_ : array of shape (n_folds, n_Cs)
        The scores on the samples that a fold has left out.
    coef_, intercept_, certificate_, history_, n_iter_, n_features_in_, feature_names_in_, dual_coef_
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
    _default_score = DefaultScore("r2", r2_bounds)
