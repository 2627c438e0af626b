"""Labels in groups on threads: how they are shared out, and that models, duals and states do not depend on it."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import maxmargin as mm
from maxmargin.data.indicators import checked_labels
from maxmargin.data.table import table_of
from maxmargin.losses.multilabel_hinge import MultilabelHinge, MultilabelHingeLoss
from maxmargin.problems.multilabel import MultilabelProblem, group_starts
from maxmargin.regularizers.spaces import Free, Paired, extrapolate, quadratic, quadratic_adding, room_for, unclipped
from maxmargin.result import History
from maxmargin.solvers.label_groups import Groups as LabelGroups
from maxmargin.solvers.label_groups import joined_lanes, longest_load, single_load, vector_sizes, without_zeros
from maxmargin.solvers.loop import Budget, Interrupt
from maxmargin.solvers.tuning import GroupTuning

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 6))
Y = (X @ RNG.standard_normal((6, 20)) + RNG.standard_normal((120, 20)) > 0.7).astype(int)


def problem_of(labels: int) -> MultilabelProblem:
    columns = checked_labels(np.resize(Y, (120, labels))).columns
    factors = np.ones((2, labels, 2))
    return MultilabelProblem(table_of(X, 1.0, 0.0), columns, np.ones(120), *factors, MultilabelHinge)


def model(jobs: int, **rest) -> mm.MultilabelSVMClassifier:
    return mm.MultilabelSVMClassifier(0.5, **({"tol": 1e-6, "random_state": 0} | rest), n_jobs=jobs)


@pytest.mark.parametrize(
    ("labels", "threads", "expected"),
    [(20, 1, 16), (20, 2, 16), (20, 3, 8), (20, 16, 8), (1_000, 16, 16), (100, 16, 8), (7, 4, 8), (17, 2, 16)],
)
def test_threads_are_done_soonest(labels, threads, expected):
    problem = problem_of(labels)
    sizes = vector_sizes(problem)
    assert min(sizes, key=lambda size: longest_load(problem, size, threads)) == expected
    for size in sizes:
        parts = [columns for group in problem.divided(size) for columns in group]
        np.testing.assert_array_equal(np.concatenate(parts), np.concatenate(problem.groups))
        assert max(map(len, parts)) <= size and len(parts) <= problem.n_groups


@pytest.mark.parametrize("jobs", [3, 4, 16])
def test_any_number_of_threads_finds_the_same_optimum(jobs):
    one, some, again = (model(k, keep_duals=True).fit(X, Y) for k in (1, jobs, jobs))
    np.testing.assert_array_equal(some.coef_, again.coef_)
    assert some.certificate_.converged and some.certificate_.dual <= one.certificate_.primal * (1.0 + 1e-12)
    assert one.certificate_.dual <= some.certificate_.primal * (1.0 + 1e-12)
    np.testing.assert_allclose(some.coef_, one.coef_, atol=2e-3)
    weights = np.column_stack([some.coef_, some.intercept_])
    by_duals = some.dual_coef_.T @ np.column_stack([X, np.ones(len(X))])
    np.testing.assert_allclose(by_duals, weights, atol=1e-10)


@pytest.mark.parametrize(("before", "after", "most"), [(1, 3, 5), (3, 1, 0), (16, 2, 0)])
def test_a_start_may_come_from_other_threads(before, after, most):
    """What meets the target in small groups does so in large ones; the other way about some may have a pass to make."""
    found = model(before, warm_start=True).fit(X, Y)
    assert found.n_iter_ > 20
    found.set_params(n_jobs=after).fit(X, Y)
    assert found.n_iter_ <= most and found.certificate_.converged


@pytest.mark.parametrize("jobs", [(3, 1, 3), (1, 3, 16)])
def test_a_checkpoint_goes_on_in_the_groups_it_has(jobs, tmp_path):
    """Also in a third process, which knows the threads of the second one only."""
    place, passes = tmp_path / "state", []
    for k, most in zip(jobs, (6, 12, 10_000)):
        checkpointed = model(k, max_iter=most, tol=1e-9)
        checkpointed.set_callbacks(mm.Checkpoint(place, every=0.0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            checkpointed.fit(X, Y)
        passes.append(checkpointed.n_iter_)
    whole = model(1, tol=1e-9).fit(X, Y)
    assert passes[:2] == [6, 12] and checkpointed.certificate_.converged
    np.testing.assert_allclose(checkpointed.coef_, whole.coef_, atol=1e-4)


def test_labels_that_were_not_begun_have_weights_of_zero():
    class Stop:
        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...
        def on_fit_task_end(self, estimator, context, **ignored):
            return True

    rare = Y.copy()
    rare[:, 8:] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model(3, max_iter=1).set_callbacks(Stop()).fit(X, rare)
    certificate = found.certificate_
    scores = X @ found.coef_.T + found.intercept_
    losses = np.maximum(0.0, 1.0 - np.where(rare, 1.0, -1.0) * scores) ** 2
    penalty = 0.5 * (np.sum(found.coef_**2) + np.sum(found.intercept_**2))
    assert certificate.primal == pytest.approx(penalty + 0.5 * losses.sum(), rel=1e-9)


def test_duals_without_zeros():
    duals = np.where(RNG.random((9, 5)) < 0.4, RNG.standard_normal((9, 5)), 0.0)
    duals[:, 2] = 0.0
    found, known = without_zeros(duals), sp.csc_array(duals)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(found, name), getattr(known, name))
    assert found.shape == known.shape


def test_weights_side_by_side():
    labels = [np.arange(8), np.arange(8, 13)]
    first, second = RNG.standard_normal((4, 2, 4)), RNG.standard_normal((4, 2, 4))
    np.testing.assert_array_equal(joined_lanes([first, second], labels, 4), np.concatenate([first, second], axis=1))
    np.testing.assert_array_equal(joined_lanes([None, second], labels, 4)[:, :2], 0.0)
    assert joined_lanes([None, None], labels, 4) is None


def test_weights_in_two_parts():
    problem = problem_of(20)
    w = [RNG.standard_normal(problem.group(columns).weight_shape) for columns in problem.groups]
    for jobs in (1, 3):
        weights, constant = problem.split_coefficients([w[0], None], jobs)
        table = problem.coefficients([w[0], None])
        np.testing.assert_array_equal(np.column_stack([weights, constant]), table)
        assert weights.flags.c_contiguous


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_walk_over_the_weights(dtype):
    v, w, sums, before = (RNG.standard_normal((50, 2, 4)).astype(dtype) for _ in range(4))
    for space in (Free(v.copy()), Paired(v.copy(), w.copy())):
        other, rising, past = room_for(space), sums.copy(), before.copy()
        product = float(np.sum(unclipped(space).astype(np.float64) * space.w.astype(np.float64)))
        assert quadratic(space) == pytest.approx(-0.5 * product, rel=1e-13)
        assert quadratic_adding(space, rising) == pytest.approx(-0.5 * product, rel=1e-13)
        np.testing.assert_array_equal(rising, sums + v)
        extrapolate(space, past, 0.3, other)
        np.testing.assert_array_equal(past, v)
        np.testing.assert_allclose(unclipped(other), v + 0.3 * (v - before), rtol=1e-5 if dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("count", [*range(70), 600, 601, 1_000])
def test_groups_take_no_more_vectors_than_full_ones_and_a_rest(count, width):
    for size in (16, 48):
        sizes = np.diff([*group_starts(count, size, width), count])
        plain = np.diff([*range(0, count, size), count])
        assert sizes.sum() == count and len(sizes) == len(plain) and np.all(sizes[:-2] == size)
        assert np.all(sizes <= size) and np.all(sizes > 0)
        assert np.sum(-(-sizes // width)) <= np.sum(-(-plain // width))
        assert sizes.max(initial=0) <= plain.max(initial=0) and sizes[-1:].sum() >= plain[-1:].sum()


def test_two_groups_are_about_as_large():
    assert [np.diff([*group_starts(20, 16, width), 20]).tolist() for width in (8, 16)] == [[12, 8], [10, 10]]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss"])
def test_labels_alone_on_many_threads(loss, monkeypatch):
    """Each one a problem of one score: the optimum is that of groups, and the certificate adds up from scratch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hidden = np.where(RNG.random(Y.shape) < 0.1, np.nan, Y)
    monkeypatch.setattr(LabelGroups, "tuning", GroupTuning(entries=0))
    names, taken = [], LabelGroups.work

    def work(self, k, *rest):
        names.append((self.size, len(self.columns)))
        taken(self, k, *rest)

    monkeypatch.setattr(LabelGroups, "work", work)
    one, many = (model(jobs, loss=loss, tol=1e-8, keep_duals=True).fit(X, hidden) for jobs in (1, 16))
    assert set(names) == {(None, 2), (1, 20)}
    assert many.certificate_.converged
    assert many.certificate_.primal == pytest.approx(one.certificate_.primal, rel=1e-7)
    apart = np.sqrt(2.0 * 1e-8 * one.certificate_.primal)  # of either from the optimum, as the objective is strongly convex
    np.testing.assert_allclose(many.coef_, one.coef_, atol=2.0 * apart)
    weights = np.column_stack([many.coef_, many.intercept_])
    np.testing.assert_allclose(many.dual_coef_.T @ np.column_stack([X, np.ones(len(X))]), weights, atol=1e-8)
    slope = 1.0 - np.where(np.nan_to_num(hidden) > 0, 1.0, -1.0) * (X @ many.coef_.T + many.intercept_)
    losses = {
        "hinge": np.maximum(slope, 0.0),
        "squared_hinge": np.maximum(slope, 0.0) ** 2,
        "log_loss": np.logaddexp(0.0, slope - 1.0),
    }[loss]
    primal = 0.5 * np.sum(weights**2) + 0.5 * losses[~np.isnan(hidden)].sum()
    assert many.certificate_.primal == pytest.approx(primal, rel=1e-9)
    again = model(16, loss=loss, tol=1e-8, warm_start=True).fit(X, hidden)
    assert again.fit(X, hidden).n_iter_ == 0


def test_labels_of_sparse_rows_stay_in_groups():
    assert single_load(replace(problem_of(20), loss=MultilabelHingeLoss()), 16, GroupTuning(own=8.0, alone=4.0, entries=0)) == 8.0
    sparse = replace(problem_of(20), table=table_of(sp.csr_matrix(X * (np.abs(X) > 1.5)), 1.0, 0.0), loss=MultilabelHingeLoss())
    assert single_load(sparse, 16, GroupTuning(entries=0)) == np.inf
    coupled = replace(problem_of(20), R=np.eye(20) + 0.1)
    assert single_load(coupled, 16, GroupTuning(entries=0)) == np.inf


def test_a_start_of_labels_alone_is_that_of_their_groups(monkeypatch):
    monkeypatch.setattr(LabelGroups, "tuning", GroupTuning(entries=0))
    problem = replace(problem_of(20), loss=MultilabelHingeLoss())
    groups = LabelGroups(mm.DualCoordinate(), problem, Budget(n_jobs=16), History(), Interrupt())
    whole = [RNG.standard_normal(problem.group(columns).weight_shape) for columns in problem.groups]
    table = problem.coefficients(whole)
    for k, columns in enumerate(groups.columns):
        np.testing.assert_array_equal(groups.part_of(whole, k), table[columns[0]])
