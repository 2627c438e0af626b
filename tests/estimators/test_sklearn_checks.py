"""scikit-learn's own checks of the models whose data are not a matrix with a column of classes; no check is expected to fail.

Where a check gives data that a model does not take, it sees the model through an adapter; what is left out does not apply, and
says why. The checks of `SVMClassifier` and `SVMRegressor` stand in `test_sklearn.py`.
"""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

import maxmargin as mm

pytestmark = [pytest.mark.compiled, pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")]


def distinct(y) -> int:
    """How many labels there are, whatever they are: what is no list of labels the model itself refuses."""
    return np.unique(np.asarray(y).ravel().astype(str)).size


class WithRoom:
    """k = 2 wherever there are three classes: many checks have two, which leave room for one guess only."""

    def fit(self, X, y=None, sample_weight=None):
        return self._with_room(y, super().fit, X, y, sample_weight)

    def _with_room(self, labels, method, *given):
        k = self.k
        self.k = min(k, max(distinct(labels) - 1, 1))
        try:
            return method(*given)
        finally:
            self.k = k


class TwoGuesses(WithRoom, mm.TopKSVMClassifier):
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        known = getattr(self, "classes_", y) if classes is None else classes
        return self._with_room(known, super().partial_fit, X, y, classes, sample_weight)


class TwoGuessesCV(WithRoom, mm.TopKSVMClassifierCV):
    """Its folds have all classes, or the check is of data without any."""


class AllAtOnce(mm.SVMClassifier):
    """Probabilities are calibrated on folds of all samples, so that `partial_fit` refuses: checks that call it see none."""

    @property
    def partial_fit(self):
        raise AttributeError


class OfClasses(ClassifierMixin, BaseEstimator):
    """A classifier with a column of classes around a model that is told something else; X is the model's own affair."""

    def __init__(self, kernel="linear", tol=1e-3, max_iter=50):
        self.kernel = kernel
        self.tol = tol
        self.max_iter = max_iter

    def _coded(self, y) -> np.ndarray:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        y = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"), warn=True)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        return codes

    def _labels_model(self):
        return mm.MultilabelSVMClassifier(kernel=self.kernel, tol=self.tol, max_iter=self.max_iter, random_state=0)

    def fit(self, X, y, sample_weight=None):
        codes = self._coded(y)
        self.model_ = self._labels_model().fit(X, np.eye(len(self.classes_))[codes], sample_weight=sample_weight)
        return self._described()

    def _described(self):
        inner = getattr(self.model_, "estimator_", self.model_)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
        self.n_iter_ = inner.n_iter_
        return self

    def predict(self, X):
        check_is_fitted(self)
        return self.classes_[self.model_.decision_function(X).argmax(axis=1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class BySignature(OfClasses):
    """Zero-shot with every class seen: its only attribute is that it is that class."""

    def fit(self, X, y, sample_weight=None):
        codes = self._coded(y)
        own = np.eye(len(self.classes_))
        self.model_ = mm.ZeroShotClassifier(self._labels_model(), own, classes=self.classes_)
        self.model_.fit(X, own[codes], sample_weight=sample_weight)
        return self._described()

    def predict(self, X):
        check_is_fitted(self)
        return self.model_.predict(X)


class OfRows(OfClasses):
    """Latent: each row is a bag of one candidate. What is a matrix at all is judged here, for the model is given bags."""

    def fit(self, X, y, sample_weight=None):
        codes = self._coded(y)
        X = validate_data(self, X, dtype=np.float64)
        self.model_ = mm.LatentSVMClassifier(tol=self.tol, max_iter=self.max_iter, random_state=0)
        self.model_.fit(bags(X), codes, sample_weight)
        self.n_iter_ = self.model_.n_iter_
        return self

    def predict(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self.classes_[self.model_.predict(bags(X))]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False  # the adapter's; `test_latent.py` has sparse bags
        return tags


class OneGroup(mm.RankingSVM):
    """`RankingSVM` itself fails every check that fits: none of them says groups, and one group of all has to be asked for."""

    def fit(self, X, y=None, sample_weight=None, groups=None):
        return super().fit(X, y, sample_weight, groups)

    def score(self, X, y=None, sample_weight=None, groups=None):
        return super().score(X, y, sample_weight, groups)


class OfStructures(OfClasses):
    """A search over structures: each row is a sample, its class the output."""

    def fit(self, X, y, sample_weight=None):
        codes = self._coded(y)
        X = validate_data(self, X, dtype=np.float64)
        structure = mm.structures.Multiclass(len(self.classes_))
        self.model_ = mm.StructuredSVMCV(structure, [0.1, 1.0], cv=2, tol=self.tol, max_iter=self.max_iter, random_state=0)
        self.model_.fit(X, codes, sample_weight)
        self.n_iter_ = self.model_.n_iter_
        return self

    def predict(self, X):
        check_is_fitted(self)
        return self.classes_[self.model_.predict(validate_data(self, X, dtype=np.float64, reset=False))]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False  # the adapter's
        return tags


def bags(X) -> list:
    return [X[i : i + 1] for i in range(X.shape[0])]


# Left out of the checks that a multi-label model sees as it is. y there is a column of classes, such as 1 and 2 or strings, where
# the model wants indicators 0 and 1: it sees these checks through `OfClasses`, but for the three below, which do not apply.
ONE_COLUMN = {
    "check_estimators_dtypes", "check_sample_weights_pandas_series", "check_sample_weights_not_an_array",
    "check_sample_weights_shape", "check_sample_weights_not_overwritten", "check_classifier_data_not_an_array",
    "check_classifiers_one_label", "check_classifiers_one_label_sample_weights", "check_classifiers_classes",
    "check_classifiers_train", "check_fit2d_1feature",
}  # fmt: skip
NOT_OF_INDICATORS = {
    "check_classifiers_regression_target",  # targets are refused as indicators other than 0 and 1, in words of our own
    "check_supervised_y_no_nan",  # NaN is a label that is not known
    "check_classifier_not_supporting_multiclass",  # three classes in a column are refused as indicators other than 0 and 1
}


# Folds are of samples, whatever they weigh: a sample that is given twice may be in two of them.
OF_FOLDS = {"check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"}
# Compares the sides of samples that lie on the boundary of one class, which rounding decides. test_one_class.py compares weights.
ON_THE_BOUNDARY = {"check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"}
# Asks that scores and probabilities name the same class, which only a temperature promises with three of them.
ONE_ORDER = {"check_classifiers_train"}


# scikit-learn itself would skip these.
OF_OTHER_MODELS = {
    "check_array_api_input",  # for models that compute on arrays of other libraries
    "check_classifiers_multilabel_output_format_predict_proba",  # for models of probabilities
}


# The adapter has no folds of its own to tell the check of, which then repeats samples across them.
WEIGHTS_AND_FOLDS = {"check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"}


def checks(estimator, only=(), without=frozenset()):
    """(estimator, check) for pytest: all of them, or some."""
    for made, check in estimator_checks_generator(estimator):
        name = check.func.__name__
        if name not in without | OF_OTHER_MODELS and (not only or name in only):
            options = ",".join(f"{key}={value}" for key, value in check.keywords.items())
            kind = type(estimator).__name__ + (f"[{estimator.kernel}]" if hasattr(estimator, "kernel") else "")
            yield pytest.param(made, check, id=f"{kind}-{name}({options})")


def all_checks():
    yield from checks(AllAtOnce(probability="sigmoid", max_iter=50, random_state=0), without=OF_FOLDS | ONE_ORDER)
    yield from checks(AllAtOnce(probability="temperature", max_iter=50, random_state=0), only=ONE_ORDER)
    yield from checks(TwoGuesses(k=2, max_iter=50, random_state=0))
    # gamma is given: of repeated samples "scale" is another
    for kernel in ("linear", "rbf"):
        model = mm.MultilabelSVMClassifier(kernel=kernel, gamma=0.5, max_iter=50, random_state=0)
        yield from checks(model, without=ONE_COLUMN | NOT_OF_INDICATORS)
        yield from checks(OfClasses(kernel), only=ONE_COLUMN)
    for model in (mm.SVMClassifier(), mm.SVMRegressor()):
        yield from checks(model.set_params(kernel="rbf", gamma=0.5, max_iter=50, random_state=0))
    yield from checks(BySignature())
    yield from checks(OfRows())
    yield from checks(TwoGuessesCV([0.01, 1.0], k=2, cv=3, max_iter=50, random_state=0))
    # the hinge loss: of squared losses a gap is a square of distances, and rounding ends it above what a check asks for
    model = mm.MultilabelSVMClassifierCV([0.01, 1.0], cv=2, loss="hinge", max_iter=50, random_state=0)
    yield from checks(model, without=ONE_COLUMN | NOT_OF_INDICATORS)
    yield from checks(OfStructures(), without=WEIGHTS_AND_FOLDS)
    yield from checks(OneGroup(max_iter=50, random_state=0))
    yield from checks(mm.OrdinalSVM(max_iter=50, random_state=0))
    yield from checks(mm.OneClassSVM(max_iter=50, random_state=0), without=ON_THE_BOUNDARY)


@pytest.mark.parametrize(("estimator", "check"), list(all_checks()))
def test_scikit_learns_checks(estimator, check):
    if "check_sample_weight_equivalence" in check.func.__name__:  # compares scores, where there are any, to 1e-7, whatever tol is
        finer = 1.0 if estimator.get_params().get("kernel", "linear") == "linear" else 0.1  # no last step is exact there
        estimator.set_params(max_iter=10_000, tol=finer * (1e-13 if hasattr(estimator, "decision_function") else 1e-6))
        if isinstance(estimator, mm.RankingSVM):  # softened hinges crawl below gaps of 1e-6, planes end at the optimum
            estimator.set_params(solver="bundle")
    check(estimator)
