"""Blocks of rows: the iterates are those of one row after another, whatever the loss, the prior and the order."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import maxmargin as mm
from maxmargin import losses
from maxmargin.data.gathered import by_class
from maxmargin.data.indicators import checked_labels
from maxmargin.data.table import table_of
from maxmargin.jit import vectors
from maxmargin.jit.meeting import new_board
from maxmargin.problems.linear import BlockProblem
from maxmargin.problems.multilabel import MultilabelProblem
from maxmargin.regularizers.prior import Prior
from maxmargin.result import History
from maxmargin.solvers.ascent.blocked import BlockedAscent, BlockPrices, block_size, exact_in_blocks
from maxmargin.solvers.ascent.linear import AscentOptions, BlockAscent
from maxmargin.solvers.ascent.sweeps import sweep_held, sweep_room
from maxmargin.solvers.ascent.tuning import ASCENT, BlockTuning
from maxmargin.solvers.ascent.turns import WAVE_BITS, WAVE_WORDS, first_wave, lowest_bit, new_queues, sweep_in_turn
from maxmargin.solvers.base import Setting, Start
from maxmargin.solvers.loop import BY_HAND, Budget, drive
from maxmargin.solvers.polish.tuning import POLISH
from maxmargin.solvers.tuning import PACE
from maxmargin.utils.threads import Team

N, D, K = 50, 6, 5
rng = np.random.default_rng(3)
X = rng.normal(size=(N, D))
SCORES = X @ rng.normal(size=(D, K)) + 0.5 * rng.normal(size=(N, K))
LABEL = SCORES.argmax(axis=1)
COST = rng.uniform(0.5, 2.0, size=(K, K)) * (1.0 - np.eye(K))
WEIGHT = rng.integers(0, 4, N).astype(float)
R = 0.6 * np.eye(K) + 0.1 * (SCORES.T @ SCORES) / N
PRIORS = {
    "none": Prior(),
    "mean": Prior(mean=rng.normal(size=(K, D))),
    "scale": Prior(mean=0.5, scale=np.linspace(0.5, 2.0, D)),
    "covariance": Prior(covariance=np.eye(D) + 0.3),
}
LOSSES = {
    "crammer_singer": losses.CrammerSingerLoss(),
    "alpha": losses.TopKAlphaLoss(2),
    "beta": losses.TopKBetaLoss(2),
    "smoothed": losses.TopKAlphaLoss(2, smoothing=0.5),
    "multinomial": losses.MultinomialLoss(),
}
LABELS = {
    "labels": (losses.MultilabelHingeLoss(), None),
    "squared labels": (losses.MultilabelSquaredHingeLoss(), None),
    "coupled": (losses.MultilabelHingeLoss(), R),
}


def problem_of(name, prior="none", data=X, bias=0.7, C=0.4):
    """A small problem with weights, costs and a class that nobody has."""
    if name in LABELS:
        loss, coupling = LABELS[name]
        columns, ones = checked_labels((SCORES > 0).astype(int)).columns, np.ones((K, 2))
        return MultilabelProblem(table_of(data, bias), columns, WEIGHT, ones, ones, loss, coupling).at(C).whole()
    turned, regularizer, half_spaces = PRIORS[prior].checked(D, K).applied(data, K)
    label = np.where(LABEL == 2, 3, LABEL)
    cost = COST if name == "crammer_singer" else 1.0 - np.eye(K)
    return BlockProblem(table_of(turned, bias), label, WEIGHT, cost, LOSSES[name], regularizer, half_spaces).at(C)


FREE = BlockTuning(cheaper=np.inf)  # sweeps are always worth it
ONCE = ASCENT._replace(blocks=FREE._replace(again=0))  # passes as of row by row


def run_of(problem, block, dtype=np.float64, tol=1e-6, duals=None, tuning=ONCE, **options):
    kind = BlockedAscent if block else BlockAscent
    run = kind(problem, duals, AscentOptions(tol, 1, dtype, block=block, tuning=tuning, **options))
    run.polish_tuning = POLISH._replace(first=10**9, later=10**9)  # passes alone
    return run


def after(run, passes):
    """The run, so many passes and extrapolations later."""
    gaps = []
    for _ in range(passes):
        gaps.append(run.advance(lambda: False))
        run.accelerate()
    return gaps


def compare(problem, block, dtype=np.float64, passes=12, **options):
    one, many = (run_of(problem, size, dtype, **options) for size in (0, block))
    close = {"rtol": 1e-9, "atol": 1e-9} if dtype == np.float64 else {"rtol": 2e-3, "atol": 2e-3}
    np.testing.assert_allclose(after(many, passes), after(one, passes), **close)
    assert many.visits == one.visits or dtype == np.float32
    np.testing.assert_allclose(many.duals.flat, one.duals.flat, **close)
    for mine, theirs in zip(many.space, one.space, strict=True):
        np.testing.assert_allclose(mine, theirs, **close)
    np.testing.assert_allclose(many.mean_sum, one.mean_sum, rtol=close["rtol"], atol=10 * close["atol"])
    assert many.dual == pytest.approx(one.dual, rel=close["rtol"]) and many.dual == pytest.approx(many.synchronise(), rel=1e-4)
    assert np.any(many.duals.flat != 0.0)
    return many


@pytest.mark.parametrize("name", [*LOSSES, *LABELS])
def test_every_loss(name):
    """More rows than a block, which they do not fill; some rest, and momentum is at work."""
    run = compare(problem_of(name), 16)
    assert run.memory > 0 or name == "multinomial"


@pytest.mark.parametrize("name", ["crammer_singer", "alpha", "coupled"])
def test_single_precision(name):
    compare(problem_of(name, data=X.astype(np.float32)), 16, np.float32, passes=4)


@pytest.mark.parametrize("prior", ["mean", "scale", "covariance"])
def test_priors(prior):
    compare(problem_of("crammer_singer", prior), 16)


@pytest.mark.parametrize("block", [1, 7, 50, 1000])
def test_blocks_of_any_size(block):
    compare(problem_of("crammer_singer"), block)


@pytest.mark.parametrize("options", [{"momentum": False}, {"average": False}, {"tol": 1e-1}])
def test_options(options):
    """With a loose target most rows rest, and leave the block."""
    run = compare(problem_of("alpha"), 16, **options)
    assert run.visits < 12 * N or "tol" not in options


def test_mostly_zeros_and_no_bias():
    """Dense rows that are read by an index of their non-zeros."""
    data = np.where(np.random.default_rng(0).random((N, D)) < 0.3, X, 0.0)
    indexed = replace(problem_of("crammer_singer"), table=table_of(data, 0.0, sparse_below=0.6))
    assert type(indexed.X).__name__ == "Indexed"
    compare(indexed, 16)


def test_rows_of_zeros_and_weights_of_zero():
    data = X.copy()
    data[::3] = 0.0
    for name in ("crammer_singer", "alpha", "labels"):
        compare(problem_of(name, data=data, bias=0.0), 16)


@pytest.mark.parametrize("name", ["crammer_singer", "coupled"])
def test_snapshots(name):
    problem = problem_of(name)
    run, other = run_of(problem, 16), run_of(problem, 16)
    after(run, 8)
    state = run.snapshot()
    after(run, 4)
    other.resume({key: np.copy(value) if isinstance(value, np.ndarray) else value for key, value in state.items()})
    after(other, 4)
    np.testing.assert_array_equal(other.duals.flat, run.duals.flat)
    np.testing.assert_array_equal(other.space.w, run.space.w)
    assert other.visits == run.visits


def test_single_precision_goes_on_in_double():
    run = run_of(problem_of("crammer_singer", data=X.astype(np.float32)), 16, np.float32, tol=1e-10)
    result = drive(run, Budget(tol=1e-10, max_iter=3000), History())
    assert run.dtype == np.float64 and result.certificate.converged


def test_hot_start():
    problem = problem_of("crammer_singer")
    result = drive(run_of(problem, 16), Budget(tol=1e-6), History())
    run = run_of(problem, 16, duals=result.duals)
    assert run.warm and drive(run, Budget(tol=1e-6), History()).n_iter == 0


def stop_after(count):
    left = iter(range(count))
    return lambda: next(left, None) is None


def test_a_run_stops_between_blocks():
    tuning = ONCE._replace(pace=PACE._replace(work=1))
    run = run_of(problem_of("crammer_singer"), 7, tuning=tuning)
    run.advance(stop_after(3))
    assert run.visits == 21
    assert run.synchronise() == pytest.approx(run.dual, rel=1e-9)  # what was done counts


def test_a_run_that_is_stopped_ends_with_a_certificate():
    tuning = ONCE._replace(pace=PACE._replace(work=1))
    run = run_of(problem_of("crammer_singer"), 7, tuning=tuning)
    asked = stop_after(4)
    result = drive(run, Budget(tol=1e-9, halt=asked), History())
    assert result.message == BY_HAND and 0 < run.visits < N
    assert result.certificate.dual <= result.certificate.primal < np.inf


# ---- sweeps over classes that have duals ---------------------------------------------------------------------


def climbed(problem, passes=10, **options):
    """A run, each pass of which ends with the dual value that it says, and not below where it began."""
    run = run_of(problem, 8, **options)
    close, dual = 1e-9 if run.dtype == np.float64 else 1e-4, run.dual
    for _ in range(passes):
        run.advance(lambda: False)
        assert run.dual >= dual - close * abs(dual)
        said = run.dual
        assert run.synchronise() == pytest.approx(said, rel=close)
        run.accelerate()
        assert run.dual >= dual - close * abs(dual)
        dual = run.dual
    return run


def optimum(problem):
    run = run_of(problem, 0)
    return drive(run, Budget(tol=1e-8, max_iter=3000), History()).certificate.dual


SWEPT = ASCENT._replace(blocks=FREE)
RUNS = [("crammer_singer", "none"), ("crammer_singer", "scale"), ("alpha", "none"), ("labels", "none"), ("coupled", "none")]


@pytest.mark.parametrize("name,prior", RUNS)
def test_sweeps(name, prior):
    """The dual is that of the duals, never falls and ends at the same optimum."""
    problem = problem_of(name, prior)
    run = climbed(problem, tuning=SWEPT)
    result = drive(run, Budget(tol=1e-5, max_iter=3000), History())
    assert result.certificate.converged
    assert result.certificate.dual == pytest.approx(optimum(problem), rel=3e-5)


@pytest.mark.parametrize("name", ["crammer_singer", "coupled"])
def test_sweeps_in_single_precision(name):
    climbed(problem_of(name, data=X.astype(np.float32)), 6, tuning=SWEPT, dtype=np.float32)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 70), st.integers(1, 12), st.integers(2, 30), st.integers(1, 20))
def test_random_problems(seed, n, features, classes, block):
    """Iterates to rounding, and a primal value that is not below the dual one."""
    generator = np.random.default_rng(seed)
    data, label = generator.normal(size=(n, features)), generator.integers(classes, size=n)
    problem = BlockProblem(table_of(data, 1.0), label, generator.uniform(0, 2, n), 1.0 - np.eye(classes)).at(0.3)
    one, many = run_of(problem, 0), run_of(problem, block)
    np.testing.assert_allclose(after(many, 4), after(one, 4), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(many.duals.flat, one.duals.flat, rtol=1e-9, atol=1e-9)
    dual = many.synchronise()
    assert all(many.primal(w, 1) >= dual - 1e-9 * abs(dual) for w in many.candidates())


def test_sweeps_save_passes():
    problem, passes = problem_of("crammer_singer", C=5.0), []
    for tuning in (ONCE, SWEPT):
        run = run_of(problem, 16, tuning=tuning)
        assert drive(run, Budget(tol=1e-3, max_iter=3000), History()).certificate.converged
        passes.append(run.passes)
    assert 3 * passes[1] <= 2 * passes[0]


@pytest.fixture(scope="module")
def many_classes():
    """A run on 40 classes, after some passes, and an order of visits."""
    generator = np.random.default_rng(5)
    data, label = generator.normal(size=(200, 12)), generator.integers(40, size=200)
    scale = Prior(scale=np.linspace(0.5, 2.0, 12)).checked(12, 40)
    turned, regularizer, _ = scale.applied(data, 40)
    problem = BlockProblem(table_of(turned, 0.7), label, np.ones(200), 1.0 - np.eye(40), regularizer=regularizer).at(0.05)
    run = run_of(problem, 16)
    after(run, 3)
    run.plan.order[:] = generator.permutation(200)
    return run


def swept(run, team, queues, order=None):
    """Duals and turned weights after a sweep in turn, or one after another in this order."""
    problem, n, classes = run.problem, run.problem.n_examples, run.problem.n_classes
    duals, w = vectors.zeros_table(n, classes, run.dtype), by_class(run.space.w)
    duals.vectors[...] = run.duals.vectors
    board, state = new_board(), (w, duals, run.curvature, run.plan)

    def work(p):
        visit, loss = (done, n, 0.0, run.variance), problem.loss_in(run.dtype)
        room = sweep_room(loss, classes, run.dtype)
        sweep_in_turn(problem.X, loss, *state, room, queues, visit, (p, team, board))

    if order is not None:
        plan = run.plan._replace(order=order)
        visit, loss = (0, n, (0.0, run.variance, 1.0)), problem.loss_in(run.dtype)
        sweep_held(problem.X, loss, *state[:3], plan, sweep_room(loss, classes, run.dtype), visit)
        return duals.flat, w.flat
    done = 0
    while done < n:
        board[:] = 0
        Team(team).work(work, range(team))
        done += int(queues.fitting[0])
    return duals.flat, w.flat


@pytest.mark.parametrize("team", [1, 2, 3, 8])
def test_sweeps_in_turn_make_the_steps_of_one_thread(many_classes, team):
    """To the last bit, whatever the threads."""
    run = many_classes
    queues = new_queues(200, run.duals.flat.shape[1])
    duals, w = swept(run, team, queues)
    one, other = swept(run, 1, queues, run.plan.order[queues.order])
    np.testing.assert_array_equal(duals, one)
    np.testing.assert_array_equal(w, other)
    assert np.any(duals != run.duals.flat)


def test_visits_of_a_wave_have_no_class_in_common(many_classes):
    queues = new_queues(200, many_classes.duals.flat.shape[1])
    swept(many_classes, 2, queues)
    assert sorted(queues.order) == list(range(200)) and np.all(np.diff(queues.wave[queues.order]) >= 0)
    held = [set(queues.held[a:b].tolist()) for a, b in pairwise(queues.starts)]
    for wave in range(queues.wave.max() + 1):
        together = [held[k] for k in np.flatnonzero(queues.wave == wave)]
        assert sum(map(len, together)) == len(set().union(*together)) and together
    assert queues.wave.max() < 150


def test_visits_that_no_wave_has_room_for():
    busy = np.full((8, WAVE_WORDS), (1 << WAVE_BITS) - 1)
    assert first_wave(busy, np.arange(3)) == WAVE_BITS * WAVE_WORDS
    busy[:2, 1] ^= 1 << 7
    assert first_wave(busy, np.arange(2)) == WAVE_BITS + 7 and np.all(busy == (1 << WAVE_BITS) - 1)
    for place in (0, 1, 31, 32, 61):
        assert lowest_bit((1 << place) | (1 << 61)) == place


def test_a_sweep_for_which_there_is_little_room(many_classes):
    """Fewer visits at a time, and all of them in the end."""
    small = new_queues(200, many_classes.duals.flat.shape[1])
    small = small._replace(held=small.held[:60], before=small.before[:60])
    before = many_classes.duals.flat.copy()
    duals, _ = swept(many_classes, 3, small)
    assert 0 < small.fitting[0] < 100 and np.count_nonzero(np.any(duals != before, axis=1)) > 50
    np.testing.assert_array_equal(many_classes.duals.flat, before)


@pytest.mark.parametrize("name", ["alpha", "coupled", "crammer_singer", "labels", "multinomial"])
def test_losses_have_scratch_of_their_own(name):
    """What steps write to is not shared, and what they read is not copied."""
    loss = problem_of(name).loss_in(np.float64)
    other = losses.base.own_scratch(loss)
    for mine, theirs in zip(loss, other, strict=True):
        shared = mine is theirs or np.shares_memory(mine[0], theirs[0])
        assert shared != (name in ("alpha", "coupled") and mine is (loss.aside if name == "alpha" else loss.step))


# ---- who is stepped in blocks --------------------------------------------------------------------------------


def test_where_a_block_is_not_exact():
    assert exact_in_blocks(problem_of("crammer_singer", "scale")) and exact_in_blocks(problem_of("coupled"))
    for prior in (Prior(positive=True), Prior(scale=np.linspace(0.5, 2.0, K * D).reshape(K, D))):
        turned, regularizer, half_spaces = prior.checked(D, K).applied(X, K)
        assert not exact_in_blocks(BlockProblem(table_of(turned, 1.0), LABEL, WEIGHT, COST, regularizer=regularizer))
    turned, regularizer, half_spaces = Prior(positive=True, covariance=np.eye(D)).checked(D, K).applied(X, K)
    signed = BlockProblem(table_of(turned), LABEL, WEIGHT, COST, regularizer=regularizer, half_spaces=half_spaces)
    assert not exact_in_blocks(signed)
    assert not exact_in_blocks(replace(problem_of("crammer_singer"), table=table_of(sp.csr_array(X))))


def sized(classes, features, n=4):
    generator = np.random.default_rng(0)
    table = table_of(generator.normal(size=(n, features)).astype(np.float32))
    return BlockProblem(table, np.arange(n), np.ones(n), 1.0 - np.eye(classes))


def test_the_cost_model():
    tuning = BlockTuning()
    assert block_size(sized(20, 256), np.float32, tuning) == 0
    assert block_size(sized(1000, 512), np.float32, tuning) >= 64
    assert block_size(sized(100, 256), np.float32, tuning) > 0
    huge = tuning._replace(most=1.0)
    assert block_size(sized(1000, 512), np.float32, huge) in (0, tuning.sizes[0])
    slow = tuning._replace(product=1.0)
    assert block_size(sized(1000, 512), np.float32, slow) == 0


def test_dense_labels_go_in_larger_groups():
    """A quarter of them at the most, for threads, and no more than makes duals as large as X."""
    labels = np.random.default_rng(0).integers(2, size=(8, 100))
    ones = np.ones((100, 2))
    for table, size in (
        (table_of(np.ones((8, 200))), 25),
        (table_of(np.ones((8, 40))), 20),
        (table_of(sp.csr_array(np.ones((8, 200)))), 16),
        (table_of(np.eye(8, 200), sparse_below=0.6), 16),
    ):
        problem = MultilabelProblem(table, checked_labels(labels).columns, np.ones(8), ones, ones, LABELS["labels"][0])
        assert max(map(len, problem.groups)) == size
        assert sorted(np.concatenate(problem.groups)) == list(range(100))


def test_the_solver_chooses():
    setting = Setting(1e-3, 0)
    assert isinstance(mm.DualCoordinate().begin(sized(1000, 512), Start(), setting), BlockedAscent)
    assert not isinstance(mm.DualCoordinate().begin(sized(20, 64), Start(), setting), BlockedAscent)


def test_what_blocks_and_sweeps_cost():
    """Weights beyond the cache are read once a block, which is larger then; a sweep over few classes is a small part of a visit
    to all, and in turn the cheaper the fewer visits have a class in common."""
    tuning = BlockTuning()
    prices = BlockPrices(sized(1000, 512), np.float32, tuning)
    assert prices.in_block(128) < prices.in_block(64) and prices.in_block(128) < prices.in_block(256)
    assert BlockPrices(sized(100, 256), np.float32, tuning).packed < prices.packed
    assert prices.in_sweep(5.0) < 0.1 * prices.in_block(64) and prices.in_sweep(500.0) > 10.0 * prices.in_sweep(5.0)
    assert 0.5 < prices.in_turn(5.0, 2) / prices.in_sweep(5.0) < 0.9 and prices.in_turn(700.0, 2) > prices.in_sweep(700.0)
    assert prices.in_turn(5.0, 16) < 0.5 * prices.in_turn(5.0, 2)
    run = run_of(problem_of("crammer_singer"), 8, tuning=ASCENT._replace(blocks=FREE._replace(cheaper=0.0)))
    after(run, 2)
    other = run_of(problem_of("crammer_singer"), 8, tuning=ONCE)
    after(other, 2)
    np.testing.assert_array_equal(run.duals.flat, other.duals.flat)


# ---- sums over rows and exact values -------------------------------------------------------------------------


class OneByOne(BlockProblem):
    by_products = False


class AtOnce(BlockProblem):
    by_products = True


@pytest.mark.parametrize("name", ["crammer_singer", "alpha", "multinomial"])
def test_values_by_products(name):
    """Primal and dual values are those of one row after another, on one thread and on two."""
    n = 600
    generator = np.random.default_rng(1)
    data, label = generator.normal(size=(n, D)), generator.integers(K, size=n)
    parts = table_of(data.astype(np.float32), 0.7), label, generator.uniform(0, 2, n), 1.0 - np.eye(K), LOSSES[name]
    one, many = OneByOne(*parts).at(0.1), AtOnce(*parts).at(0.1)
    run = run_of(one, 0)
    after(run, 2)
    duals = run.left()
    first, second = one.reevaluated(duals), many.reevaluated(duals)
    assert second.dual == pytest.approx(first.dual, rel=1e-12)
    np.testing.assert_allclose(second.v, first.v, rtol=1e-10, atol=1e-12)
    assert many.primal(first.v) == pytest.approx(one.primal(first.v), rel=1e-12)
    assert many.primal(first.v, 2) == many.primal(first.v, 1)
    table = vectors.table(vectors.pack(duals, np.float64))
    for threads in (2, 3, 16):
        third = many.evaluate(table, None, threads)
        assert third.dual == second.dual
        np.testing.assert_array_equal(third.v, second.v)
        np.testing.assert_array_equal(many.repaired(table, threads), many.repaired(table))


def test_many_classes_through_an_estimator():
    generator = np.random.default_rng(0)
    label = np.concatenate([np.arange(300), generator.integers(300, size=400)])
    data = (generator.normal(size=(300, 96))[label] + generator.normal(size=(700, 96))).astype(np.float32)
    problem = BlockProblem(table_of(data, 1.0), label, np.ones(700), 1.0 - np.eye(300))
    assert block_size(problem, np.float32, BlockTuning()) > 0
    model = mm.SVMClassifier(C=0.01, tol=1e-3, random_state=0).fit(data, label)
    W = np.hstack([model.coef_, model.intercept_[:, None]])
    scores = data @ W[:, :-1].T + W[:, -1]
    truth = scores[np.arange(700), label].copy()
    scores += 1.0
    scores[np.arange(700), label] -= 1.0
    primal = 0.5 * np.sum(W**2) + 0.01 * np.sum(scores.max(axis=1) - truth)
    assert model.certificate_.converged and model.certificate_.primal == pytest.approx(primal, rel=1e-6)
