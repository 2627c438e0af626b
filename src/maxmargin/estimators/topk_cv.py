"""`TopKSVMClassifierCV`: `TopKSVMClassifier` with a C chosen by cross-validation."""

from .bounds import DefaultScore, accuracy, accuracy_bounds
from .search import LinearSearch, constraints_of_search, init_of_search, without
from .topk import TopKSVMClassifier


class TopKSVMClassifierCV(LinearSearch, TopKSVMClassifier):
    """`TopKSVMClassifier` that chooses its C by cross-validation. How, and what `Cs`, `cv`, `refit`, `search_tol` and the
    attributes of the search mean, is told at `SVMClassifierCV`.

    Parameters
    ----------
    Cs, cv, refit, search_tol
        As for `SVMClassifierCV`.
    scoring : str or callable, optional
        What is best, as in scikit-learn. None is `score`, the accuracy of the first guess;
        `lambda model, X, y: model.score_topk(X, y)` counts all k.
    k, loss, smoothing and all others
        As for `TopKSVMClassifier`; `max_iter`, `max_time` and `n_jobs` as for `SVMClassifierCV`.

    Attributes
    ----------
    C_, Cs_, scores_, score_bounds_
        As for `SVMClassifierCV`.
    coef_, intercept_, classes_, certificate_ and all others
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
    _default_score = DefaultScore("accuracy", accuracy_bounds, accuracy)

    topk_path = without("topk_path")
