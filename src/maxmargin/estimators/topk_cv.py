"""`TopKSVMClassifierCV`: `TopKSVMClassifier` with a C chosen by cross-validation."""

from .bounds import DefaultScore, accuracy_bounds
from .search import LinearSearch, constraints_of_search, init_of_search, without
from .topk import TopKSVMClassifier


class TopKSVMClassifierCV(LinearSearch, TopKSVMClassifier):
    """`TopKSVMClassifier` that chooses its C by cross-validation, in the manner of LogisticRegressionCV.

    For each fold the models of all `Cs` follow each other from small to large, each started from the one before it and certified
    to the relative gap `search_tol`. The best is fitted to all samples, to `tol`: it is a `TopKSVMClassifier` with C = `C_`.
    Samples must be in memory.

    Parameters
    ----------
    Cs, cv, refit, search_tol
        As for `SVMClassifierCV`.
    scoring : str or callable, optional
        What is best, as in scikit-learn. None is `score`, the accuracy of the first guess;
        `lambda model, X, y: model.score_topk(X, y)` counts all k.
    k, loss, smoothing, class_weight, positive, prior_mean, prior_scale, prior_covariance, tol, max_iter, max_time, \
fit_intercept, intercept_scaling, solver, warm_start, keep_duals, random_state, n_jobs, verbose, dtype
        As for `TopKSVMClassifier`; `max_iter`, `max_time` and `n_jobs` as for `SVMClassifierCV`.

    Attributes
    ----------
    C_ : float
        The C of the best mean score; of several with the same score the smallest.
    Cs_ : array of shape (n_Cs,)
    scores_ : array of shape (n_folds, n_Cs)
        The scores on the samples that a fold has left out.
    coef_, intercept_, classes_, certificate_, history_, n_iter_, n_features_in_, feature_names_in_, dual_coef_
        As for `TopKSVMClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import maxmargin as mm
    >>> X, y = load_digits(return_X_y=True)
    >>> model = mm.TopKSVMClassifierCV([0.01, 0.1], k=3, cv=3, random_state=0).fit(X / 16, y)
    >>> model.predict_topk(X / 16).shape
    (1797, 3)
    """

    _estimator = TopKSVMClassifier
    _parameter_constraints = constraints_of_search(TopKSVMClassifier)
    __init__ = init_of_search(TopKSVMClassifier)
    _default_score = DefaultScore("accuracy", accuracy_bounds)

    topk_path = without("topk_path")
