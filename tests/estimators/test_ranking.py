"""Rankings: pairs counted by sorting against all pairs written out, and `RankingSVM` against a convex solver."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from helpers import convex as cp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.preprocessing import StandardScaler

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.problems.ranking import RankingProblem, pair_weights, ranked
from maxmargin.problems.risk import risk_of
from maxmargin.solvers.base import NOWHERE, Setting
from maxmargin.solvers.pace import never
from maxmargin.solvers.second_order.ranking import PairSums, RankingNewton
from maxmargin.solvers.second_order.tuning import RANKING


def drawn(seed: int, n: int = 60, targets: int = 4, groups: int = 6):
    """Ties in targets and scores, groups of any size and in no order, weights with zeros."""
    rng = np.random.default_rng(seed)
    X = np.round(2.0 * rng.normal(size=(n, 3))) / 2.0
    y = np.round(X[:, 0] + rng.normal(size=n)) if targets == 0 else rng.integers(0, targets, n).astype(float)
    return X, y, rng.integers(0, groups, n), rng.integers(0, 4, n).astype(float)


def all_pairs(y, group, weight):
    """(i, j) with y_i > y_j within a group, and their weights."""
    pairs = [(i, j) for i in range(len(y)) for j in range(len(y)) if group[i] == group[j] and y[i] > y[j]]
    i, j = np.array(pairs).T
    return i, j, weight[i] * weight[j]


@pytest.mark.parametrize("targets", [2, 4, 50])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_counts_of_pairs(targets, form):
    X, y, group, weight = drawn(targets, 90, targets)
    layout = ranked(y, group, weight)
    problem = RankingProblem(table_of(form(X)), layout, np.ones(len(layout.first) - 1))
    w = np.array([1.0, -0.5, 0.25, 0.0])
    i, j, s = all_pairs(y, group, weight)
    margin = 1.0 - (X[i] - X[j]) @ w[:3]
    value, slope = risk_of(problem)(w)
    assert value == pytest.approx(s @ np.maximum(margin, 0.0))
    np.testing.assert_allclose(slope[:3], -((s * (margin > 0)) @ (X[i] - X[j])), atol=1e-9)
    assert problem.primal(w) - 0.5 * w @ w == pytest.approx(value)
    assert pair_weights(layout)[1].sum() == pytest.approx(s.sum())


@pytest.mark.parametrize("width", [1.0, 0.3, 1e-3])
def test_softened_pairs(width):
    X, y, group, weight = drawn(7, 90, 5)
    layout = ranked(y, group, weight)
    problem = RankingProblem(table_of(X), layout, np.ones(len(layout.first) - 1))
    f = X @ [1.1, -0.47, 0.23]
    found = PairSums(problem, 1).softened(f[layout.rows], width)
    i, j, s = all_pairs(y, group, weight)
    z = 1.0 - f[i] + f[j]
    a = np.clip(z / width, 0.0, 1.0)
    assert found.mass == pytest.approx(s @ a)
    assert found.hinge == pytest.approx(s @ np.maximum(z, 0.0))
    assert found.loss == pytest.approx(s @ (a * z - 0.5 * width * a * a))
    net = np.zeros(len(y))
    np.add.at(net, i, s * a)
    np.add.at(net, j, -s * a)
    np.testing.assert_allclose(found.net, net[layout.rows], atol=1e-9)


def optimum(X, y, group, weight, C, normalize):
    w, total = cp.Variable(X.shape[1]), 0.0
    for g in np.unique(group):
        here = group == g
        if len(np.unique(y[here & (weight > 0)])) < 2:
            continue
        i, j, s = all_pairs(y[here], group[here], weight[here])
        factor = weight[here].sum() / s.sum() if normalize else 1.0
        total = total + C * factor * cp.sum(cp.multiply(s, cp.pos(1.0 - (X[here][i] - X[here][j]) @ w)))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + total))
    return cp.solved(problem), w.value


@pytest.mark.parametrize("solver", ["auto", "bundle"])
@pytest.mark.parametrize("normalize", [True, False])
def test_the_optimum_of_a_convex_solver(solver, normalize):
    X, y, group, weight = drawn(3)
    value, w = optimum(X, y, group, weight, 0.1, normalize)
    model = mm.RankingSVM(C=0.1, normalize=normalize, tol=1e-6, solver=solver).fit(X, y, weight, group)
    found = model.certificate_
    assert found.converged and found.dual <= value * (1 + 1e-7) and value <= found.primal * (1 + 1e-7)
    np.testing.assert_allclose(model.coef_, w, atol=2e-3)


def test_the_same_as_a_classifier_of_differences():
    X, y, group, _ = drawn(4)
    i, j, _ = all_pairs(y, group, np.ones(len(y)))
    differences, sign = X[i] - X[j], np.where(np.arange(i.size) % 2, 1.0, -1.0)
    pairs = mm.SVMClassifier(C=0.05, tol=1e-6, fit_intercept=False, random_state=0).fit(differences * sign[:, None], sign)
    model = mm.RankingSVM(C=0.05, normalize=False, tol=1e-6).fit(X, y, groups=group)
    assert model.certificate_.primal == pytest.approx(pairs.certificate_.primal, rel=3e-6)
    np.testing.assert_allclose(model.coef_, pairs.coef_[0], atol=2e-3)


def test_weights_are_repetitions_of_samples_and_of_groups():
    X, y, group, weight = drawn(5)
    times = weight.astype(int)
    options = {"C": 0.1, "tol": 1e-7}
    weighted = mm.RankingSVM(**options).fit(X, y, weight, group)
    repeated = mm.RankingSVM(**options).fit(np.repeat(X, times, axis=0), np.repeat(y, times), groups=np.repeat(group, times))
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=3e-7)
    twice = np.where(group == 0, 2.0, 1.0)
    again = group == 0
    one = mm.RankingSVM(**options).fit(X, y, twice, group)
    two = mm.RankingSVM(**options).fit(
        np.vstack([X, X[again]]), np.r_[y, y[again]], groups=np.r_[group, np.full(again.sum(), 99)]
    )
    assert one.certificate_.primal == pytest.approx(two.certificate_.primal, rel=3e-7)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1e-3, 0.1, 10.0]), st.sampled_from([0, 2, 9]))
def test_no_dual_value_is_above_a_primal_one(seed, C, targets):
    X, y, group, weight = drawn(seed, 40, targets)
    layout = ranked(y, group, weight)
    if len(layout.first) < 2:
        return
    problem = RankingProblem(table_of(X), layout, np.ones(len(layout.first) - 1))
    found = [mm.solve(problem, C, solver, 1e-2, max_iter=6) for solver in ("newton", "bundle")]
    rng = np.random.default_rng(seed)
    primal = min(*(one.certificate.primal for one in found), problem.at(C).primal(np.r_[rng.normal(size=3), 0.0]))
    assert max(one.certificate.dual for one in found) <= primal * (1 + 1e-12)


def test_duals_make_the_weights_and_threads_change_nothing():
    X, y, group, weight = drawn(8)
    model = mm.RankingSVM(C=0.1, tol=1e-5, keep_duals=True).fit(X, y, weight, group)
    np.testing.assert_allclose(model.dual_coef_ @ X, model.coef_, atol=1e-12)
    assert model.dual_coef_.shape == y.shape and np.all(model.dual_coef_[weight == 0] == 0.0)
    other = mm.RankingSVM(C=0.1, tol=1e-5, keep_duals=True, n_jobs=3).fit(X, y, weight, group)
    np.testing.assert_array_equal(model.coef_, other.coef_)


def test_a_run_goes_on_from_its_state():
    X, y, group, weight = drawn(13)
    layout = ranked(y, group, weight)
    problem = RankingProblem(table_of(X), layout, np.ones(len(layout.first) - 1)).at(0.1)
    one, two = (RankingNewton(problem, NOWHERE, Setting(1e-6)) for _ in range(2))
    for _ in range(3):
        one.advance(never)
    two.resume(one.snapshot())
    for _ in range(3):
        assert one.advance(never) == two.advance(never)
    np.testing.assert_array_equal(one.w, two.w)
    assert one.synchronise() == two.synchronise() and one.width == two.width


@pytest.mark.parametrize("factored", [2, 500])
def test_columns_of_any_size(factored):
    X, y, group, _ = drawn(14)
    layout = ranked(y, group, np.ones(len(y)))
    for form in (np.asarray, sp.csr_matrix):
        problem = RankingProblem(table_of(form(X * [1e-3, 1.0, 1e3])), layout, np.ones(len(layout.first) - 1)).at(0.1)
        run = RankingNewton(problem, NOWHERE, Setting(1e-3), RANKING._replace(factored=factored))
        gaps = [run.advance(never) for _ in range(60)]
        best = mm.solve(problem, 0.1, "newton", 1e-5).certificate
        assert run.dual <= best.primal and gaps[-1] <= 1e-2 * best.primal


def test_scores_of_rankings():
    X, y, group, weight = drawn(9, targets=2)
    model = mm.RankingSVM(tol=1e-4).fit(X, y, groups=group)
    scores = model.decision_function(X)
    np.testing.assert_array_equal(scores, model.predict(X))
    assert model.score(X, y, groups=None) == pytest.approx(roc_auc_score(y, scores))
    means = [roc_auc_score(y[group == g], scores[group == g], sample_weight=weight[group == g]) for g in np.unique(group)]
    assert model.score(X, y, weight, group) == pytest.approx(np.mean(means))


def test_scores_counted_by_hand():
    X, y = np.array([[0.0], [1.0], [1.0], [2.0], [5.0], [4.0], [9.0]]), np.array([0, 1, 2, 2, 0, 1, 3])
    model = mm.RankingSVM().fit(X, y, groups=np.zeros(7))
    assert model.coef_[0] > 0
    groups = np.array(["a", "a", "a", "a", "b", "b", "alone"])  # a: 4 of 5 pairs in order and one tie; b: its pair is not
    assert model.score(X, y, groups=groups) == pytest.approx(np.mean([4.5 / 5.0, 0.0]))
    mixed = np.array([4, 0, 6, 1, 5, 2, 3])
    assert model.score(X[mixed], y[mixed], groups=groups[mixed]) == model.score(X, y, groups=groups)
    weight = np.array([1.0, 2.0, 3.0, 0.0, 1.0, 1.0, 1.0])  # pairs of a: 1 * 2 and 1 * 3 in order, 2 * 3 tied
    assert model.score(X, y, weight, groups) == pytest.approx(np.mean([8.0 / 11.0, 0.0]))


def test_standardized_columns_count_weights():
    X, y, group, weight = drawn(15)
    X = X * [1.0, 10.0, 0.1] + [0.0, 5.0, 1.0]
    scaler = StandardScaler(with_mean=False).fit(X, sample_weight=weight)
    plain = mm.RankingSVM(C=0.1, tol=1e-6).fit(scaler.transform(X), y, weight, group)
    found = mm.RankingSVM(C=0.1, tol=1e-6, standardize=True).fit(X, y, weight, group)
    np.testing.assert_allclose(found.coef_ * scaler.scale_, plain.coef_, rtol=1e-9)


def test_paths_scales_and_texts():
    X, y, group, _ = drawn(10)
    names = np.array([f"query {g}" for g in group])
    path = mm.RankingSVM(tol=1e-4).regularization_path(X, y, [0.01, 0.1], groups=names)
    alone = mm.RankingSVM(C=0.1, tol=1e-4).fit(X, y, groups=group)
    assert path[1].certificate_.primal == pytest.approx(alone.certificate_.primal, rel=2e-4)
    large = mm.RankingSVM(C=0.1, tol=1e-6, standardize=True).fit(X * [1.0, 10.0, 100.0], y, groups=group)
    plain = mm.RankingSVM(C=0.1, tol=1e-6).fit(X / X.std(axis=0), y, groups=group)
    np.testing.assert_allclose(large.coef_ * [1.0, 10.0, 100.0] * X.std(axis=0), plain.coef_, atol=2e-3)
    again = mm.RankingSVM(C=0.1, tol=1e-4, warm_start=True).fit(X, y, groups=group)
    assert again.fit(X, y, groups=group).certificate_.converged


def bad_inputs():
    _, y, group, weight = drawn(11)
    n = len(y)
    yield {"y": np.ones(n)}, "y has one value, 1, for all 60 samples"
    yield {"groups": np.arange(n)}, "no group has two samples"
    yield {"groups": group[:-1]}, "groups has shape"
    yield {"groups": np.where(group == 0, np.nan, 1.0)}, r"sample \d+ has NaN or infinity"
    yield {"groups": np.array([None, *group[1:]], dtype=object)}, "None or NaN"
    yield {"y": y[:-1]}, "inconsistent numbers of samples"
    yield {"y": np.where(y == 0, np.nan, y)}, "NaN"
    yield {"sample_weight": -weight - 1.0}, "[Nn]egative"
    yield {"sample_weight": np.where(y == 0, 1.0, 0.0)}, "nothing to rank"


@pytest.mark.parametrize(("wrong", "message"), list(bad_inputs()))
def test_what_is_wrong_is_told(wrong, message):
    X, y, group, _ = drawn(11)
    with pytest.raises(ValueError, match=message):
        mm.RankingSVM().fit(**{"X": X, "y": y, "groups": group} | wrong)


def test_nothing_to_score():
    X, y, group, _ = drawn(12)
    model = mm.RankingSVM().fit(X, y, groups=group)
    with pytest.raises(ValueError, match="no pair to score"):
        model.score(X, y, groups=np.arange(len(y)))
    with pytest.raises(TypeError, match="DualCoordinate has no step for a RankingProblem"):
        mm.RankingSVM(solver="dual_coordinate").fit(X, y, groups=None)


def test_groups_must_be_said():
    X, y, *_ = drawn(13)
    for unsaid in (lambda: mm.RankingSVM().fit(X, y), lambda: mm.RankingSVM().regularization_path(X, y, [1.0])):
        with pytest.raises(ValueError, match=r"groups=None if all .* set_fit_request\(groups=True\)"):
            unsaid()
    model = mm.RankingSVM().fit(X, y, groups=None)
    np.testing.assert_array_equal(model.coef_, mm.RankingSVM().fit(X, y, groups=np.zeros(len(y))).coef_)
    assert model.score(X, y, groups=None) == model.score(X, y, groups=np.zeros(len(y)))
    with pytest.raises(ValueError, match=r"RankingSVM.score needs groups=.* set_score_request\(groups=True\)"):
        model.score(X, y)
    source = mm.open_source([(X, y)])
    with pytest.raises(ValueError, match=r"source has no groups.*groups=None"):
        mm.RankingSVM().fit(source)
    assert mm.RankingSVM().fit(source, groups=None).score(source, groups=None) == model.score(X, y, groups=None)


def test_groups_through_cross_validation():
    X, y, group, _ = drawn(14)
    with pytest.raises(ValueError, match=r"set_fit_request\(groups=True\)"):  # handed to the splitter only
        cross_val_score(mm.RankingSVM(), X, y, groups=group, cv=GroupKFold(2), error_score="raise")
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(mm.RankingSVM().set_fit_request(groups=True).set_score_request(groups=True))
        found = cross_val_score(model, X, y, params={"groups": group}, cv=GroupKFold(2))
        for k, (train, test) in enumerate(GroupKFold(2).split(X, y, group)):
            alone = mm.RankingSVM().fit(X[train], y[train], groups=group[train])
            assert found[k] == alone.score(X[test], y[test], groups=group[test])
