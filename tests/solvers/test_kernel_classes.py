"""Several classes and a kernel: masses that pairs of classes exchange, and Newton's method."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

import maxmargin as mm
from maxmargin import losses
from maxmargin.data.gram import gram_of
from maxmargin.jit import vectors
from maxmargin.problems.kernel import KernelRowProblem, KernelScalarProblem, Point
from maxmargin.result import History
from maxmargin.solvers.ascent import kernel_newton
from maxmargin.solvers.ascent.class_pairs import find_nearest, go_on, leave, pair_gaps
from maxmargin.solvers.ascent.kernel_newton import KernelNewtonOptions, KernelRowNewton, KernelScalarNewton
from maxmargin.solvers.ascent.kernel_pairs import KernelPairOptions, KernelPairs, earlier, side_by_side
from maxmargin.solvers.ascent.tuning import KERNEL_NEWTON, KERNEL_PAIRS
from maxmargin.solvers.loop import Budget, drive

rng = np.random.default_rng(5)
N, K = 90, 5
X = rng.normal(size=(N, 3))
LABEL = np.argmax(np.sin(2.0 * X @ rng.normal(size=(3, K))) + 0.4 * rng.normal(size=(N, K)), axis=1)
WEIGHT = rng.uniform(0.3, 2.0, N)
COST = rng.uniform(0.5, 2.0, (K, K)) * (1.0 - np.eye(K))
GRAM, BIAS = rbf_kernel(X, gamma=0.5), 0.7
FEW = KERNEL_NEWTON._replace(part=0.1, least=8, fewest=1)  # the kernel matrix is approximated


def posed(C=2.0, loss=None, gram=GRAM, memory=1 << 30, weight=WEIGHT, label=LABEL, bias=BIAS):
    loss = losses.CrammerSingerLoss() if loss is None else loss
    cost = COST if loss.margins else 1.0 - np.eye(K)
    return KernelRowProblem(gram_of("precomputed", gram), loss, label, weight, cost, bias, memory).at(C)


def pairs(problem, tol=1e-3, duals=None, **numbers):
    return KernelPairs(problem, duals, KernelPairOptions(tol, 0, KERNEL_PAIRS._replace(**numbers)))


def of_few_classes(problem, tol=1e-3, **numbers):
    """With room for a matrix of each class, however many samples it has."""
    run = pairs(problem, tol, **numbers)
    run.matrix = vectors.aligned((K * run.matrix.size,), np.float32)
    return run


def solved(run, tol, passes=1000):
    return drive(run, Budget(tol, passes), History())


def linear(problem, loss, tol=1e-7):
    """The same by the linear solver, on a factor of the kernel matrix."""
    values, directions = np.linalg.eigh(GRAM + BIAS**2)
    name = {"CrammerSingerLoss": "hinge", "MultinomialLoss": "log_loss"}[type(loss).__name__]
    cost = COST if loss.margins else None
    model = mm.SVMClassifier(problem.C, loss=name, cost=cost, fit_intercept=False, tol=tol, max_iter=100_000)
    return model.fit(directions * np.sqrt(np.maximum(values, 0.0)), LABEL, WEIGHT).certificate_


def exact(problem, duals):
    """P and D from scratch."""
    point = Point(duals, problem.scores(duals))
    return problem.primal(point), problem.dual(point)


@pytest.mark.parametrize("loss", [losses.CrammerSingerLoss(), losses.MultinomialLoss()])
@pytest.mark.parametrize("C", [0.1, 30.0])
def test_the_optimum_is_that_on_a_factor_of_the_matrix(loss, C):
    problem = posed(C, loss)
    runs = (
        [pairs(problem, 1e-6)]
        if loss.margins
        else [KernelRowNewton(problem, None, KernelNewtonOptions(0, t)) for t in (FEW, KERNEL_NEWTON)]
    )
    wanted = linear(problem, loss)
    for run in runs:
        found = solved(run, 1e-6).certificate
        assert found.converged and run.passes < 100
        assert found.dual <= wanted.primal * (1 + 1e-9) and wanted.dual <= found.primal * (1 + 1e-9)
        assert (found.primal, found.dual) == pytest.approx(exact(problem, run.left().T), rel=1e-10)


@pytest.mark.parametrize("tuning", [FEW, KERNEL_NEWTON])
def test_labels_that_a_prior_couples(tuning):
    """Newton's method solves them at once."""
    R = 0.6 * np.eye(3) + 0.4
    sign = np.where(np.sin(X @ rng.normal(size=(3, 3))).T > 0, 1.0, -1.0)
    gram = gram_of("precomputed", GRAM)
    problem = KernelScalarProblem(gram, losses.LogisticLoss(), (sign.ravel(), np.ones(3 * N)), np.tile(WEIGHT, 3), R, BIAS).at(
        5.0
    )
    run = KernelScalarNewton(problem, None, KernelNewtonOptions(0, tuning))
    found = solved(run, 1e-8).certificate
    assert found.converged and run.passes < 60
    duals = run.left().T
    S = R @ duals @ (GRAM + BIAS**2)
    stationary = 5.0 * WEIGHT * sign / (1.0 + np.exp(sign * S))  # at the optimum duals are the slopes
    assert np.allclose(duals, stationary, atol=2e-3)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), C=st.sampled_from([0.01, 1.0, 100.0]), memory=st.sampled_from([1 << 30, 9000]))
def test_dual_values_rise_and_stay_below_the_primal_ones(seed, C, memory):
    drawn = np.random.default_rng(seed)
    n = 30
    points, label = drawn.integers(-2, 3, (n, 2)).astype(float), np.r_[np.arange(K), drawn.integers(0, K, n - K)]
    gram = rbf_kernel(points, gamma=0.3) * np.outer(*[drawn.choice([0.0, 0.5, 1.0], n)] * 2)  # twins, and rows of zeros
    problem = posed(C, None, gram, memory, drawn.choice([0.0, 0.5, 2.0], n), label, drawn.choice([0.0, 1.0]))
    run, last = pairs(problem, 1e-6), -1e-12
    for _ in range(4):
        run.advance(lambda: False)
        primal, dual = exact(problem, run.left().T)
        scale = 1e-9 * (abs(primal) + 1.0)
        assert primal >= dual - scale and dual >= last - scale
        assert run.shares.sum() == pytest.approx(primal - dual, abs=scale) and run.shares.min() >= -scale
        last = dual


def test_weights_are_repetitions():
    times = rng.integers(0, 3, N)
    many = np.repeat(np.arange(N), times)
    for loss, begin in ((losses.CrammerSingerLoss(), pairs), (losses.MultinomialLoss(), newton)):
        weighted, repeated = (
            posed(1.0, loss, weight=times.astype(float)),
            posed(1.0, loss, GRAM[np.ix_(many, many)], weight=np.ones(many.size), label=LABEL[many]),
        )
        one, other = solved(begin(weighted), 1e-6).certificate, solved(begin(repeated), 1e-6).certificate
        assert one.converged and other.converged and one.primal == pytest.approx(other.primal, rel=2e-6)


def newton(problem):
    return KernelRowNewton(problem, None, KernelNewtonOptions(0))


@pytest.mark.parametrize("nearest", [2, K])
def test_gaps_of_pairs_add_up_and_going_on_never_loses(nearest):
    """Also where samples have but a few classes, each with a matrix of its own."""
    problem = posed(5.0)
    run = of_few_classes(
        problem, pair_rest=0.95, look=1, wide=1, nearest=nearest
    )  # steps end early, so that there is something left
    run.advance(lambda: False)
    copy, before, now = run.copied(np.arange(N))
    assert (copy.sizes.sum() == K * N) == (nearest == K) and np.all(copy.at[run.masses > 0.0] >= 0)
    label, sample = np.nonzero(copy.at >= 0)
    entry = copy.at[label, sample]
    assert np.array_equal(copy.who[entry], sample) and np.all(np.diff(entry) > 0)
    gaps = np.zeros((K, K))
    pair_gaps(copy, np.zeros(N, np.int64), gaps)
    assert gaps.sum() == pytest.approx(run.shares.sum(), rel=1e-9) and np.all(gaps >= 0.0)

    def masses():
        found = np.zeros((K, N))
        leave(copy, np.arange(N), found)
        return found

    def value():
        return exact(problem, run.own - masses())[1]

    values = [value()]
    for _ in range(4):
        run.sweep(copy, np.triu(gaps + gaps.T), gaps.sum(), lambda: False)
        values.append(value())
        go_on(copy, before, now)
        values.append(value())
        before, now = now, before
        drift = (run.masses - masses()) @ (GRAM + BIAS**2) * run.scale
        assert np.allclose(copy.drift.reshape(-1)[entry], drift[label, sample], atol=1e-4)
        assert np.allclose(masses().sum(axis=0), problem.cap) and masses().min() >= 0.0
        pair_gaps(copy, np.zeros(N, np.int64), gaps)
    assert np.all(np.diff(values) >= -1e-5 * abs(values[-1])) and max(np.diff(values)[1::2]) > 0.0  # float32


@pytest.mark.parametrize("nearest", [1, 2])
@pytest.mark.parametrize("C", [0.1, 30.0])
def test_rounds_of_few_classes_lead_to_the_optimum_too(nearest, C):
    """Classes that are left out in one round are there in another."""
    problem, wanted = posed(C), linear(posed(C), losses.CrammerSingerLoss())
    run = of_few_classes(problem, 1e-6, wide=0, nearest=nearest)
    assert run.copied(np.arange(N))[0].sizes.sum() < K * N
    found = solved(run, 1e-6).certificate
    assert found.converged and run.passes < 100
    assert found.dual <= wanted.primal * (1 + 1e-9) and wanted.dual <= found.primal * (1 + 1e-9)
    assert (found.primal, found.dual) == pytest.approx(exact(problem, run.left().T), rel=1e-10)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 7), st.integers(1, 6), st.integers(0, 1000))
def test_the_nearest_classes_are_those_worth_most_and_those_with_mass(classes, many, seed):
    drawn = np.random.default_rng(seed)
    worth, masses = drawn.integers(0, 4, (classes, 20)).astype(float), drawn.choice([0.0, 1.0], (classes, 20), p=[0.8, 0.2])
    inside = np.zeros((classes, 20), bool)
    find_nearest(worth, masses, np.empty((many, 20)), inside)
    better = (worth[:, None] < worth[None]).sum(axis=1)  # of each class those that are worth more
    assert np.array_equal(inside, (masses > 0.0) | (better < many))


def test_all_classes_stay_where_there_is_no_room_for_a_matrix_of_each():
    run = of_few_classes(posed(), wide=0, nearest=3)
    worth, masses = run.scores + COST[LABEL].T, run.masses
    few = run.within_reach(worth, masses)
    assert np.count_nonzero(few) < few.size
    taken = sum(int(k) * run.padded(int(k)) for k in few.sum(axis=1))
    run.matrix = run.matrix[:taken]
    assert np.array_equal(run.within_reach(worth, masses), few)
    run.matrix = run.matrix[: taken - 1]
    assert run.within_reach(worth, masses).all()


@pytest.mark.parametrize("begin", [pairs, newton])
def test_a_stop_within_a_round_leaves_what_belongs_together(begin):
    problem = posed(5.0, losses.CrammerSingerLoss() if begin is pairs else losses.MultinomialLoss())
    for allowed in (0, 1, 2, 3, 5, 8):
        run, asked = begin(problem), iter(range(1000))
        run.advance(lambda asked=asked, allowed=allowed: next(asked) >= allowed)
        dual = run.synchronise()
        primal = run.primal(run.candidates()[0], 1)
        assert (primal, dual) == pytest.approx(exact(problem, run.left().T), rel=1e-10, abs=1e-12)


def test_samples_that_move_nothing_sit_where_they_are_worth_most():
    gram = GRAM.copy()
    gram[:7], gram[:, :7] = 0.0, 0.0
    problem = posed(1.0, None, gram, bias=0.0)
    run = pairs(problem, 1e-6)
    assert solved(run, 1e-6).certificate.converged
    assert np.array_equal(run.masses[:, :7].argmax(axis=0), COST[LABEL[:7]].argmax(axis=1))
    assert np.allclose(run.masses[:, :7].max(axis=0), problem.cap[:7])


@pytest.mark.parametrize("kernel", [GRAM, -0.5 + 2.0 * GRAM - 3.0 * rbf_kernel(X, gamma=4.0)])
def test_few_rows_do_and_a_matrix_that_is_not_definite_does_no_harm(kernel):
    """Rows computed again and again; directions without an approximation."""
    kernel = kernel + np.diag(np.maximum(0.5 - kernel.diagonal(), 0.0))
    for loss, begin in ((losses.CrammerSingerLoss(), pairs), (losses.MultinomialLoss(), newton)):
        gram = gram_of(lambda A, B: kernel[np.ix_(A[:, 0].astype(int), B[:, 0].astype(int))], np.arange(N)[:, None])
        cost = COST if loss.margins else 1.0 - np.eye(K)
        problem = KernelRowProblem(gram, loss, LABEL, WEIGHT, cost, BIAS, 8 * N * 30).at(1.0)
        run = begin(problem)
        assert run.rows.capacity < N
        definite = kernel[0, 0] == GRAM[0, 0]
        found = solved(run, 1e-3, 2000 if definite else 10)
        assert np.all(np.isfinite(run.left())) and found.certificate.converged == definite


def test_what_is_on_offer_is_feasible():
    problem = posed(3.0, losses.MultinomialLoss())
    run = newton(problem)
    run.factors = 10.0 * rng.normal(size=run.factors.shape)
    duals = run.within(run.factors.copy())
    p = np.eye(K)[LABEL].T - duals / problem.cap
    slopes = np.eye(K)[LABEL].T - run.slopes / problem.cap
    assert np.allclose(p.sum(axis=0), 1.0) and np.all(p > 0.0)
    unscaled = np.maximum(np.eye(K)[LABEL].T - run.factors / problem.cap, 0.5 * slopes)
    assert np.allclose(p, unscaled / unscaled.sum(axis=0))
    sign = np.where(LABEL > 2, 1.0, -1.0)
    two = KernelScalarProblem(gram_of("precomputed", GRAM), losses.LogisticLoss(), (sign, np.ones(N)), WEIGHT, None, BIAS).at(3.0)
    run = KernelScalarNewton(two, None, KernelNewtonOptions(0))
    part = sign * run.within(10.0 * rng.normal(size=(1, N)))[0] / two.cap
    assert part.min() == pytest.approx(0.25) and part.max() == pytest.approx(
        0.75
    )  # slopes are half of the caps at scores of zero


def test_the_approximation_is_below_the_matrix_and_near():
    run = KernelRowNewton(posed(1.0, losses.MultinomialLoss()), None, KernelNewtonOptions(0, FEW))
    factor, lack = run.approximation
    whole = GRAM + BIAS**2
    assert factor.shape == (9, N) and factor.dtype == np.float32
    assert np.linalg.eigvalsh(whole - factor.T.astype(float) @ factor).min() > -1e-5
    assert lack == pytest.approx(np.mean(whole.diagonal() - np.sum(factor.astype(float) ** 2, axis=0)), rel=1e-4)
    assert kernel_newton.KernelNewtonOptions(0).tuning.few(10**6) == KERNEL_NEWTON.most
    assert newton(posed(1.0, losses.MultinomialLoss())).approximation[0] is None  # so few samples that all are taken


@pytest.mark.parametrize("wide", [0, 2])
@pytest.mark.parametrize("threads", [2, 3, 9])
def test_threads_change_no_bit(threads, wide):
    problem = posed()
    alone, together = (of_few_classes(problem, wide=wide, nearest=2) for _ in range(2))
    together.n_jobs = threads
    for run in (alone, together):
        for _ in range(3):
            run.advance(lambda: False)
    np.testing.assert_array_equal(alone.masses, together.masses)
    np.testing.assert_array_equal(alone.scores, together.scores)
    assert alone.steps == together.steps > 0


def test_pairs_that_have_no_room_of_a_thread_have_all_of_it():
    alone, together = pairs(posed()), pairs(posed())
    together.n_jobs, width = 2, together.padded(1)
    together.seats = [seat._replace(matrix=seat.matrix[: 4 * width]) for seat in together.seats * 2]
    for run in (alone, together):
        run.advance(lambda: False)
    np.testing.assert_array_equal(alone.masses, together.masses)
    assert alone.steps == together.steps > 0


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 9), st.integers(0, 1000))
def test_pairs_are_dealt_out_to_rounds_without_a_class_twice(classes, seed):
    every = np.random.default_rng(seed).permutation(np.column_stack(np.triu_indices(classes, 1)))
    dealt, used = side_by_side(every), [set()]
    assert sorted(dealt.tolist()) == sorted(every.tolist()) and dealt[0].tolist() == every[0].tolist()
    for pair in dealt.tolist():  # a round ends where none of those that follow fits into it
        if used[-1].intersection(pair):
            used.append(set())
        used[-1].update(pair)
    assert len(used) < 2 * classes
    before = earlier(every)
    for k, pair in enumerate(every):
        assert before[k].tolist() == [np.count_nonzero(every[:k] == j) for j in pair]


@pytest.mark.parametrize("tuning", [FEW, KERNEL_NEWTON])
def test_a_singular_matrix(tuning):
    """Duals come to be slopes also where they move no scores."""
    problem = posed(2.0, losses.MultinomialLoss(), X @ X.T)
    run = KernelRowNewton(problem, None, KernelNewtonOptions(0, tuning))
    assert solved(run, 1e-8, 60).certificate.converged


def test_padding_is_of_whole_vectors():
    run = pairs(posed())
    width = vectors.width(np.float32)
    assert [run.padded(k) % (2 * width) for k in (1, 16, 17)] == [0, 0, 0] and run.padded(17) >= 17
