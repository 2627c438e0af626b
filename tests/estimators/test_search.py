"""C by cross-validation: the winner and the scores are those of a grid search, the model is that of the estimator at that C."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import accuracy_score, f1_score, make_scorer, max_error
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin as mm
from maxmargin.estimators import frames
from maxmargin.estimators.contest import PAST_PASSES, Contest, Fold, Gaps, Kept
from maxmargin.solvers.base import WarmStart
from maxmargin.structures import Chain

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
CSR = sp.csr_array(X)  # not fitted at once, as small folds in dense rows are
SCORE = X @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.7 * rng.normal(size=60)
TWO, FIVE = np.where(SCORE > 0, "yes", "no"), np.digitize(SCORE, [-2, -1, 0, 1])
MANY = (X @ rng.normal(size=(4, 3)) + 0.5 * rng.normal(size=(60, 3)) > 0).astype(int)
WEIGHT = np.arange(60) % 4 + 0.0
SENTENCES = [rng.normal(size=(4, 3)) for _ in range(20)]
TAGS = [(x + 0.8 * rng.normal(size=x.shape)).argmax(axis=1) for x in SENTENCES]
CS = [0.001, 0.1, 10.0]
TIGHT = {"tol": 1e-7, "random_state": 0}
FOLDS = KFold(3, shuffle=True, random_state=0)


def topk(model, X, y):
    return model.score_topk(X, y)


# the search, the estimator, X, y, what is best
CASES = {
    "binary": (mm.SVMClassifierCV, mm.SVMClassifier(**TIGHT), X, TWO, None),
    "binary, log loss": (mm.SVMClassifierCV, mm.SVMClassifier(loss="log_loss", **TIGHT), X, TWO, "roc_auc"),
    "multiclass": (mm.SVMClassifierCV, mm.SVMClassifier(**TIGHT), X, FIVE, "f1_macro"),
    "regression": (mm.SVMRegressorCV, mm.SVMRegressor(**TIGHT), X, SCORE, "neg_mean_absolute_error"),
    "top-k": (mm.TopKSVMClassifierCV, mm.TopKSVMClassifier(k=2, **TIGHT), X, FIVE, topk),
    "multi-label": (mm.MultilabelSVMClassifierCV, mm.MultilabelSVMClassifier(**TIGHT), X, MANY, None),
    "sparse labels": (mm.MultilabelSVMClassifierCV, mm.MultilabelSVMClassifier(**TIGHT), X, sp.csr_array(MANY), "f1_micro"),
    "rbf": (mm.MultilabelSVMClassifierCV, mm.MultilabelSVMClassifier(kernel="rbf", gamma=0.3, **TIGHT), X, MANY, "f1_micro"),
    "structured": (mm.StructuredSVMCV, mm.StructuredSVM(Chain(n_labels=3), tol=1e-5, random_state=0), SENTENCES, TAGS, None),
}
EACH = {"binary", "regression", "top-k", "multi-label", "structured"}  # one of each class


def search_of(case, **options):
    """The search with the estimator's parameters, as tight as that is; and the samples."""
    kind, estimator, data, y, scoring = CASES[case]
    own = {name: value for name, value in estimator.get_params(deep=False).items() if name != "C"}
    return kind(**{**own, "Cs": CS, "cv": FOLDS, "scoring": scoring, "search_tol": estimator.tol, **options}), data, y


@pytest.mark.parametrize("case", CASES)
def test_winner_and_scores_are_those_of_a_grid_search(case):
    _, estimator, data, y, scoring = CASES[case]
    model, *_ = search_of(case)
    model.fit(data, y)
    grid = GridSearchCV(estimator, {"C": CS}, cv=FOLDS, scoring=scoring, error_score="raise", refit=False).fit(data, y)
    expected = np.array([grid.cv_results_[f"split{k}_test_score"] for k in range(3)])
    np.testing.assert_allclose(model.scores_, expected, rtol=1e-3 if case == "regression" else 1e-9)
    assert np.ptp(expected.mean(axis=0)) > 0.01  # there is something to choose
    assert grid.best_params_["C"] == model.C_
    np.testing.assert_array_equal(model.Cs_, CS)


@pytest.mark.parametrize("case", sorted(EACH))
def test_the_model_is_that_of_the_estimator_at_the_winner(case):
    _, estimator, data, y, _ = CASES[case]
    model, *_ = search_of(case, tol=1e-4, search_tol=0.05)
    model.fit(data, y)
    alone = clone(estimator).set_params(C=model.C_, tol=1e-4).fit(data, y)
    assert isinstance(model, type(estimator)) and isinstance(model.C_, float)
    assert model.certificate_ == alone.certificate_ and model.certificate_.relative_gap <= 1e-4
    np.testing.assert_array_equal(model.predict(data), alone.predict(data))
    assert model.score(data, y) == alone.score(data, y)


@pytest.mark.parametrize("case", sorted(EACH))
def test_threads_change_nothing(case):
    one, data, y = search_of(case, search_tol=1e-2, n_jobs=1)
    two, *_ = search_of(case, search_tol=1e-2, n_jobs=2)
    np.testing.assert_array_equal(one.fit(data, y).scores_, two.fit(data, y).scores_)
    assert one.C_ == two.C_


@pytest.mark.parametrize("case", sorted(EACH))
def test_clone_and_pickle(case):
    model, data, y = search_of(case, search_tol=1e-2)
    copy = clone(model.fit(data, y))
    assert copy.get_params(deep=False).keys() == model.get_params(deep=False).keys() and "C" not in copy.get_params()
    assert not hasattr(copy, "C_") and not hasattr(copy, "scores_")
    again = pickle.loads(pickle.dumps(model))
    assert again.C_ == model.C_ and again.certificate_ == model.certificate_
    np.testing.assert_array_equal(again.predict(data), model.predict(data))


@pytest.mark.parametrize("case", ["binary", "regression", "multi-label"])
def test_weights_equal_repetitions_in_fits_and_scores(case):
    model, data, y = search_of(case, cv=None)
    times = np.repeat(np.arange(60), WEIGHT.astype(int))
    group = np.arange(60) % 3
    folds = list(GroupKFold(3).split(data, groups=group))
    repeated = [tuple(np.flatnonzero(np.isin(times, part)) for part in fold) for fold in folds]
    weighted = clone(model).set_params(cv=folds).fit(data, y, sample_weight=WEIGHT)
    other = clone(model).set_params(cv=repeated).fit(data[times], y[times])
    plain = clone(model).set_params(cv=folds).fit(data, y)
    np.testing.assert_allclose(weighted.scores_, other.scores_, rtol=1e-3)
    assert weighted.C_ == other.C_
    assert np.max(np.abs(weighted.scores_ - plain.scores_)) > 1e-3
    assert weighted.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-6)


def test_weights_stay_with_their_sentences():
    model, data, y = search_of("structured")
    weight = np.arange(20) % 3
    model.fit(data, y, sample_weight=weight)
    alone = mm.StructuredSVM(Chain(n_labels=3), C=model.C_, tol=1e-5, random_state=0).fit(data, y, sample_weight=weight)
    assert model.certificate_ == alone.certificate_


def unweighted(model, X, y):
    return accuracy_score(y, model.predict(X))


@pytest.mark.parametrize(("case", "scoring"), [("regression", make_scorer(max_error)), ("binary", unweighted)])
def test_a_scorer_without_weights_is_given_none(case, scoring):
    model, data, y = search_of(case, scoring=scoring)
    assert model.fit(data, y, sample_weight=WEIGHT).scores_.shape == (3, 3)


def test_several_with_the_best_score_leave_it_to_the_smallest():
    model = mm.SVMClassifierCV([10.0, 0.1, 1.0], cv=3, scoring=lambda model, X, y: 0.5, random_state=0).fit(X, TWO)
    assert model.C_ == 0.1
    np.testing.assert_array_equal(model.Cs_, [10.0, 0.1, 1.0])


def test_columns_of_the_scores_are_in_the_order_of_the_values():
    model = mm.SVMClassifierCV([10.0, 0.1, 1.0], cv=3, scoring=lambda model, X, y: model.C, random_state=0).fit(X, TWO)
    np.testing.assert_array_equal(model.scores_, [[10.0, 0.1, 1.0]] * 3)
    assert model.C_ == 10.0


def test_a_score_that_is_no_number_never_wins():
    def only_small(model, X, y):
        return np.nan if model.C > 0.5 else model.C

    assert mm.SVMClassifierCV([0.1, 0.2, 1.0], cv=3, scoring=only_small, random_state=0).fit(X, TWO).C_ == 0.2
    with pytest.raises(ValueError, match="NaN for every C"):
        mm.SVMClassifierCV([1.0, 2.0], cv=3, scoring=only_small, random_state=0).fit(X, TWO)


def test_a_number_of_values_is_spread_as_in_scikit_learn():
    model = mm.SVMRegressorCV(3, cv=2, tol=0.1, random_state=0).fit(X, SCORE)
    np.testing.assert_allclose(model.Cs_, [1e-4, 1.0, 1e4])
    assert model.scores_.shape == (2, 3) and model.C_ in model.Cs_


def test_folds_are_five_and_stratified():
    seen = []

    def remembered(model, X, y):
        seen.append(np.mean(y == "yes"))
        return 0.0

    model = mm.SVMClassifierCV([1.0], scoring=remembered, random_state=0).fit(X, TWO)
    assert model.scores_.shape == (5, 1)
    assert np.ptp(seen) < 0.1


def test_search_is_coarse_and_the_model_is_not():
    gaps = []

    def remembered(model, X, y):
        gaps.append((model.tol, model.certificate_.relative_gap))
        return model.C  # the largest wins by far, and nothing else is refined

    model = mm.SVMClassifierCV([*CS, 100.0], cv=2, scoring=remembered, search_tol=0.1, tol=1e-5, random_state=0).fit(CSR, TWO)
    assert all(gap <= tol <= 0.1 for tol, gap in gaps) and max(gap for _, gap in gaps) > 1e-3
    assert [tol for tol, _ in gaps[:2]] == [1e-5, 1e-5] and gaps[7][0] > 0.05  # at a small C nothing is gained over w = 0
    assert model.certificate_.relative_gap <= 1e-5


def test_beyond_a_clear_winner_first_fits_are_short():
    Cs, passes = [0.001, 0.1, 100.0, 1000.0], {}

    def told(sign):
        def remembered(model, X, y):
            passes.setdefault((sign, model.C), model.n_iter_)
            return sign * model.C

        return remembered

    for sign in (-1.0, 1.0):
        search = mm.SVMClassifierCV(Cs, cv=2, scoring=told(sign), search_tol=1e-2, random_state=0)
        assert (Cs[0] if sign < 0 else Cs[-1]) == search.fit(CSR, TWO).C_
    assert [passes[-1.0, C] for C in Cs[:2]] == [passes[1.0, C] for C in Cs[:2]]
    assert max(passes[-1.0, C] for C in Cs[2:]) <= PAST_PASSES < passes[1.0, 100.0]


def test_a_finer_fit_starts_where_the_gap_is_smaller():
    fold = Fold(np.ones(2), Gaps.of(0.1, 1e-3, 100), lambda *_: None, lambda _: 0.0, lambda _: (0.0, 1.0))
    start = WarmStart(None, None, False, None)
    smaller, own = Kept(start, 0.1, True, 0.03, 1.0, False, False, 0, 0.0), Kept(start, 0.1, True, 0.1, 1.0, False, False, 0, 0.0)
    near, far = own._replace(leap=0.1), own._replace(leap=0.7)
    assert fold.nearest(near, smaller) is smaller and fold.nearest(far, smaller) is far
    state = near._replace(left=replace(start, state={"passes": 1}))
    assert fold.nearest(state, smaller) is state  # second-order steps go on
    assert fold.nearest(None, smaller) is smaller and fold.nearest(far, None) is far and fold.nearest(None, None) is None


def test_bounds_that_told_nothing_wait_for_a_much_smaller_gap():
    fold = Fold(np.ones(2), Gaps.of(1e-2, 1e-3, 100), lambda *_: None, lambda _: 0.0, lambda _: (0.0, 1.0))
    fold.scores[:] = 0.5, 0.6
    assert fold.tells(0, 1e-2) and not fold.tells(0, 2e-2)
    fold.bounds[0], fold.proved_at[0] = (0.0, 1.0), 1e-2
    assert not fold.tells(0, 3e-3) and fold.tells(0, 1e-3)
    fold.bounds[0] = 0.0, 0.55  # these tell one from the other
    assert fold.tells(0, 3e-3)


def test_who_may_win_is_refined_and_nobody_else():
    """Two are equally good as far as coarse fits can tell; the others are clearly worse."""
    tried = []

    def close(model, X, y):
        tried.append((model.C, model.tol))
        return {0.1: 0.900, 1.0: 0.9 if model.tol > 1e-3 else 0.91}.get(model.C, 0.5) + 0.001 * (y[0] == "yes")

    Cs = [0.001, 0.1, 1.0, 100.0]
    model = mm.SVMClassifierCV(Cs, cv=4, scoring=close, search_tol=0.1, tol=1e-3, random_state=0).fit(CSR, TWO)
    assert model.C_ == 1.0
    finest = {C: min(tol for other, tol in tried if other == C) for C in Cs}
    assert finest[1.0] < 1e-3 and finest[100.0] > 1e-2


def test_who_was_left_behind_comes_back():
    """Refinement moves the leader below one that was clearly worse before."""

    def falls(model, X, y):
        return {0.1: 0.9 if model.tol > 0.02 else 0.6, 1.0: 0.8}.get(model.C, 0.1)

    model = mm.SVMClassifierCV([0.001, 0.1, 1.0], cv=4, scoring=falls, search_tol=0.1, random_state=0).fit(X, TWO)
    assert model.C_ == 1.0


def test_refinement_ends_with_its_passes():
    """Scores that change at every look never settle."""
    rng = np.random.default_rng(0)
    model = mm.SVMClassifierCV(8, cv=3, scoring=lambda model, X, y: rng.random(), tol=1e-9, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)  # what ends early has missed nothing
        warnings.filterwarnings("ignore", "The relative|Stopped")
        model.set_params(refit=False).fit(X, TWO)
    assert model.C_ in model.Cs_


def test_larger_values_are_refined_only_where_passes_suffice():
    folds = [Fold(np.ones(5), Gaps.of(0.1, 1e-3, 100), lambda *_: None, lambda _: 0.0, lambda _: (0.0, 1.0)) for _ in range(2)]
    contest = Contest(folds, 1)
    for fold in folds:
        fold.spare, fold.longest = 30, 30
    assert contest.affordable([1, 3, 4], 1) == [1, 3, 4]  # none was refined yet
    contest.level[2] = 1
    assert contest.affordable([1, 3, 4], 1) == [1, 3, 4]
    folds[1].spare = 29  # the next larger one takes more than the last has
    assert contest.affordable([1, 3, 4], 1) == [1] and contest.affordable([3, 4], 1) == []


def test_bounds_of_scores():
    model, data, y = search_of("multi-label", search_tol=1e-2, tol=1e-3)
    model.fit(data, y)
    assert model.score_bounds_.shape == (3, 3, 2)
    assert np.all(model.score_bounds_[..., 0] <= model.scores_) and np.all(model.scores_ <= model.score_bounds_[..., 1])
    for case, options in (("structured", {}), ("rbf", {}), ("binary", {"scoring": "roc_auc"})):
        other, data, y = search_of(case, search_tol=1e-2, **options)
        assert np.all(np.isnan(other.fit(data, y).score_bounds_))
    named, data, y = search_of("binary", search_tol=1e-2, tol=1e-3, scoring="accuracy")
    plain = clone(named).set_params(scoring=None)
    np.testing.assert_array_equal(named.fit(data, y).score_bounds_, plain.fit(data, y).score_bounds_)


@pytest.mark.parametrize(("scoring", "calibrated"), [(None, 0), ("accuracy", 0), ("roc_auc", 0), ("neg_log_loss", 6)])
def test_probabilities_are_made_where_the_score_needs_them(scoring, calibrated, monkeypatch):
    made, own = [], mm.SVMClassifier._held_out_scores
    monkeypatch.setattr(mm.SVMClassifier, "_held_out_scores", lambda *given: made.append(1) or own(*given))
    model = mm.SVMClassifierCV([0.1, 1.0], cv=3, probability="sigmoid", scoring=scoring, tol=0.1, random_state=0).fit(X, TWO)
    assert len(made) >= calibrated + 1 and (calibrated or len(made) == 1)
    assert model.predict_proba(X).shape == (60, 2)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_fold_ends_where_no_dual_is_near_its_bound(classes):
    """Clusters that can be told apart: beyond some C nothing changes, and nothing is fitted."""
    y = np.arange(60) % classes
    clusters = 8.0 * np.eye(4)[y] + X
    Cs, tried = [1e-3, 10.0, 100.0, 1e3, 1e4], []

    def counted(model, X, y):
        tried.append(model.C)
        return model.score(X, y)

    model = mm.SVMClassifierCV(Cs, scoring=counted, cv=2, random_state=0).fit(clusters, y)
    assert 1e-3 in tried and 1e4 not in tried
    fits = mm.SVMClassifier(tol=1e-6, random_state=0).regularization_path(clusters, y, [max(tried), 1e4])
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, atol=1e-2)
    np.testing.assert_array_equal(model.scores_[:, -1], model.scores_[:, Cs.index(max(tried))])


def test_an_outlier_keeps_a_fold_going():
    y = np.arange(60) % 2
    clusters = 8.0 * np.eye(4)[y] + X
    clusters[[0, 1, 40, 41]] = clusters[[1, 0, 41, 40]]  # in both halves
    tried = []
    mm.SVMClassifierCV(CS, scoring=lambda model, X, y: tried.append(model.C) or 0.0, cv=2, random_state=0).fit(clusters, y)
    assert tried[:6] == [C for C in CS for _ in range(2)]  # in both folds, before any is refined


def test_no_model_without_refit():
    model = mm.SVMClassifierCV(CS, random_state=0).fit(X, TWO)
    model.set_params(refit=False).fit(X, TWO)
    assert model.C_ in CS and model.scores_.shape == (5, 3) and not hasattr(model, "coef_")
    with pytest.raises(NotFittedError, match=r"There is no model: .* with refit=False.*SVMClassifier\(C=model\.C_\)\.$"):
        model.predict(X)
    assert "SVMClassifierCV" in model._repr_html_()


def test_names_of_columns():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = mm.SVMClassifierCV(CS, random_state=0).fit(frame, TWO)
    assert list(model.feature_names_in_) == list("abcd")
    np.testing.assert_array_equal(model.scores_, mm.SVMClassifierCV(CS, random_state=0).fit(X, TWO).scores_)
    assert model.score(frame, TWO) > 0.7


def test_frames_are_read_once_for_all_folds(monkeypatch):
    """Folds take rows of the array that was made of it."""
    read, own = [], frames.validation.validate_data
    monkeypatch.setattr(frames.validation, "validate_data", lambda *a, **k: read.append(type(a[1])) or own(*a, **k))
    mm.SVMClassifierCV(CS, refit=False, random_state=0).fit(pd.DataFrame(X, columns=list("abcd")), TWO)
    assert read.count(pd.DataFrame) == 1 and read.count(np.ndarray) >= 5


def test_a_kernel_matrix_is_cut_both_ways():
    options = {"fit_intercept": False, "cv": 3, **TIGHT, "search_tol": 1e-7}
    direct = mm.MultilabelSVMClassifierCV(CS, **options).fit(X, MANY)
    matrix = mm.MultilabelSVMClassifierCV(CS, kernel="precomputed", **options).fit(X @ X.T, MANY)
    np.testing.assert_array_equal(matrix.scores_, direct.scores_)
    np.testing.assert_array_equal(matrix.predict(X @ X.T), direct.predict(X))


def test_labels_that_are_not_known():
    holes = MANY.astype(float)
    holes[::7, 1] = np.nan

    def of_known(model, X, y):
        known = ~np.isnan(y)
        return f1_score(y[known], model.predict(X)[known])

    model = mm.MultilabelSVMClassifierCV(CS, scoring=of_known, cv=3, random_state=0).fit(X, holes)
    assert model.scores_.mean() > 0.5 and model.certificate_.converged
    with pytest.raises(ValueError, match="labels that are not known"):
        mm.MultilabelSVMClassifierCV(CS).fit(X, holes)
    with pytest.raises(ValueError, match="mask cannot be told to a scorer"):
        mm.MultilabelSVMClassifierCV(CS).fit(X, MANY, mask=np.isnan(holes))


def test_in_a_pipeline_and_a_grid():
    piped = make_pipeline(StandardScaler(), mm.SVMClassifierCV(CS, cv=3, random_state=0))
    piped.fit(X, TWO, svmclassifiercv__sample_weight=WEIGHT)
    assert piped[-1].C_ in CS and piped.score(X, TWO) > 0.7
    grid = GridSearchCV(piped, {"svmclassifiercv__loss": ["hinge", "squared_hinge"]}, cv=2, error_score="raise").fit(X, TWO)
    assert grid.best_estimator_[-1].certificate_.converged


def test_random_states_are_drawn_from():
    """A generator is not shared by threads, and an int repeats."""
    states = [mm.SVMClassifierCV(CS, random_state=np.random.RandomState(3), n_jobs=2).fit(X, TWO) for _ in range(2)]
    np.testing.assert_array_equal(states[0].coef_, states[1].coef_)


def test_one_warning_for_the_search_and_one_for_the_model():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mm.SVMClassifierCV(CS, cv=3, tol=1e-9, search_tol=1e-9, max_iter=1, random_state=0, n_jobs=2).fit(X, TWO)
    told = [w for w in caught if w.category is ConvergenceWarning]
    assert len(told) == 2 and all(w.filename == __file__ for w in told)
    assert "of the 9 fits of the search missed their relative gap of 1e-09" in str(told[0].message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"Cs": []}, "Cs is empty"),
        ({"Cs": [1.0, -1.0]}, "finite numbers > 0; number 1 of it is -1"),
        ({"Cs": [0.0]}, "finite numbers > 0"),
        ({"Cs": [1.0, np.nan]}, "finite numbers > 0"),
        ({"Cs": [[1.0]]}, "Cs must be a list"),
        ({"Cs": ["small"]}, "Cs must be a list"),
        ({"Cs": 0}, "'Cs' parameter"),
        ({"Cs": True}, "'Cs' parameter"),
        ({"cv": 1}, "'cv' parameter"),
        ({"cv": []}, "cv has no folds"),
        ({"cv": 50}, "n_splits=50"),
        ({"scoring": "beauty"}, "'scoring' parameter"),
        ({"scoring": "neg_log_loss"}, "judges probabilities.* set probability="),
        ({"search_tol": 0.0}, "'search_tol' parameter"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        mm.SVMClassifierCV(**options).fit(X, TWO)


def test_one_c_is_refused_by_name():
    with pytest.raises(TypeError, match=r"SVMClassifierCV\(\) got an unexpected keyword argument 'C'; .* are Cs\."):
        mm.SVMClassifierCV(C=1.0)


def test_bad_samples():
    with pytest.raises(ValueError, match="at least 2 classes"):
        mm.SVMClassifierCV(CS).fit(X, np.ones(60))
    with pytest.raises(ValueError, match=r"in memory or in mm\.Samples"):
        mm.StructuredSVMCV(Chain(), CS).fit(mm.open_source([(X, FIVE)]))
    with pytest.raises(ValueError, match="requires y"):
        mm.StructuredSVMCV(Chain(), CS).fit(SENTENCES)
    with pytest.raises(ValueError, match="X has 20 samples, y has 19"):
        mm.StructuredSVMCV(Chain(), CS).fit(SENTENCES, TAGS[1:])
    with pytest.raises(ValueError, match="k=5 guesses among the 5 classes"):
        mm.TopKSVMClassifierCV(CS, k=5).fit(X, FIVE)


def test_what_needs_one_value_is_not_there():
    model = mm.TopKSVMClassifierCV(CS, k=2)
    for name in ("partial_fit", "regularization_path", "topk_path"):
        assert not hasattr(model, name)
    with pytest.raises(AttributeError, match=r"has no partial_fit.*TopKSVMClassifier\(C=model.C_\)"):
        model.partial_fit(X, FIVE)
    with pytest.raises(NotFittedError, match="chooses C in fit"):
        model.C  # noqa: B018 - it is the access that fails


def test_probabilities_of_the_winner():
    """Calibrated at the C that was chosen; folds of the search do without, unless the scoring asks for them."""
    y = TWO
    found = mm.SVMClassifierCV(Cs=[0.1, 1.0], cv=3, probability="sigmoid", random_state=0).fit(X, y)
    alone = mm.SVMClassifier(C=found.C_, probability="sigmoid", random_state=0).fit(X, y)
    np.testing.assert_allclose(found.predict_proba(X), alone.predict_proba(X), atol=1e-6)
    scored = mm.SVMClassifierCV(Cs=[0.1, 1.0], cv=3, probability="sigmoid", scoring="neg_log_loss", random_state=0).fit(X, y)
    assert np.all(np.isfinite(scored.scores_)) and np.all(scored.scores_ < 0.0)
