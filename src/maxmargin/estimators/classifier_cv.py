"""`SVMClassifierCV`: `SVMClassifier` with a C chosen by cross-validation."""

from .bounds import DefaultScore, accuracy, accuracy_bounds
from .classifier import SVMClassifier
from .search import LinearSearch, constraints_of_search, init_of_search


class SVMClassifierCV(LinearSearch, SVMClassifier):
    """`SVMClassifier` that chooses its C by cross-validation, in the manner of LogisticRegressionCV.

    For each fold the models of all `Cs` follow each other from small to large, each started from the one before it. They are
    certified to a coarse gap first; those that may win are refined until one is left, down to a tenth of `tol`. The best is
    fitted to all samples, to `tol`: it is a `SVMClassifier` with C = `C_`. Where a fold has few samples and columns (two classes,
    "hinge", no prior or signs, 2,000 samples of 30 columns) all fits go to a tenth of `tol` at once. The duals of all fits are
    in memory until then, and up to 4 MB more of each that Newton's method has ended.

    Parameters
    ----------
    Cs : int or list of floats, default=10
        The values that are tried; a number of them is spread on a logarithmic scale between 1e-4 and 1e4.
    cv : int, splitter or iterable of pairs (training, test), optional
        The folds, as in scikit-learn; None is five, stratified where there are classes. Of a source a number of folds, five by
        default, to which its rows are dealt by a hash of their numbers and, where that is an int, `random_state`.
    scoring : str or callable, optional
        What is best, as in scikit-learn; None is `score`, the accuracy.
    refit : bool, default=True
        Whether the estimator is fitted at `C_` to all samples. Without it there are `C_` and `scores_`, and no model.
    search_tol : float, default=0.1
        The relative duality gap of the first fits, or what forty passes come to, five beyond a C that is clearly behind a smaller
        one; at small C, where little is gained over w = 0, it is relative to that gain. With `tol` or less all are that fine.
    loss, multi_class, kernel, gamma, degree, coef0, cost, class_weight, positive, prior_mean, prior_scale, prior_covariance, \
cache_size, probability, tol, max_iter, max_time, fit_intercept, intercept_scaling, standardize, solver, warm_start, keep_duals, \
random_state, n_jobs, verbose, dtype, device
        As for `SVMClassifier`. `max_iter` and `max_time` are for each fit. `n_jobs` is how many folds are worked on at a time.
        Callbacks and `verbose` follow the last fit, that of the model. Folds are calibrated only where `scoring` asks for
        `predict_proba`, or is a function.

    Attributes
    ----------
    C_ : float
        The C of the best mean score; of several with the same score the smallest.
    Cs_ : array of shape (n_Cs,)
    scores_ : array of shape (n_folds, n_Cs)
        The scores on the samples that a fold has left out: fine where C might have won, coarse elsewhere. Where no dual of a fit
        is near its bound, as from some C on if the samples can be separated, its score is that of all larger C, whose optimum is
        nearly the same.
    score_bounds_ : array of shape (n_folds, n_Cs, 2)
        Between which the score of the optimum is for sure, where `scoring` is the default and the kernel linear. NaN of fits
        that were not refined to a gap of 1e-2 (with a `search_tol` of 1e-2 or less there are bounds of all), and of sources.
    coef_, intercept_, classes_, certificate_, history_, n_iter_, n_features_in_, feature_names_in_, dual_coef_
        As for `SVMClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import maxmargin as mm
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mm.SVMClassifierCV([0.01, 0.1, 1.0], random_state=0).fit(X, y)
    >>> model.scores_.shape, model.C_ in model.Cs_, model.certificate_.converged
    ((5, 3), True, True)
    """

    _estimator = SVMClassifier
    _parameter_constraints = constraints_of_search(SVMClassifier)
    __init__ = init_of_search(SVMClassifier)
    _default_score = DefaultScore("accuracy", accuracy_bounds, accuracy)
