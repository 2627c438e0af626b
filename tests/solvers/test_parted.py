"""Threads side by side: whatever they do, the dual value is that of the duals kept, and the optimum is that of one thread."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import drawn
from helpers.side_by_side import (
    EAGER,
    PASSES_ALONE,
    ROWS,
    SCALARS,
    D,
    after,
    check_optimum,
    check_passes,
    check_resumes,
    duals_of,
    problem_of,
    run_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib import Parallel, delayed
from scipy.optimize import minimize

import maxmargin as mm
from maxmargin import losses
from maxmargin.data.table import table_of
from maxmargin.jit.standby import all_done
from maxmargin.problems.linear import BlockProblem, ScalarProblem
from maxmargin.regularizers.spaces import Free
from maxmargin.result import History, relative
from maxmargin.solvers.ascent import joint
from maxmargin.solvers.ascent.copies import Copies
from maxmargin.solvers.ascent.crew import GATHER, STANDING, StandingCrew
from maxmargin.solvers.ascent.linear import AscentOptions, BlockAscent, ScalarAscent
from maxmargin.solvers.ascent.parted import Parted, crew_size, pass_seconds, portion, rounds, worth_an_order
from maxmargin.solvers.ascent.schedule import gather_strips, schedule, strip_starts
from maxmargin.solvers.ascent.tuning import ASCENT, PartTuning
from maxmargin.solvers.base import Setting, Start
from maxmargin.solvers.loop import Budget, drive
from maxmargin.solvers.tuning import PACE
from maxmargin.utils.threads import Team

CASES = st.integers(0, 10**6), st.integers(2, 4), st.sampled_from([1, 3, 7, 40, 61]), st.sampled_from([0.01, 0.5, 20.0])


@pytest.mark.parametrize(("name", "prior"), [*((name, "none") for name in SCALARS), ("hinge", "prior"), ("hinge", "signs")])
@settings(max_examples=8)
@given(*CASES)
def test_rows_of_one_score(name, prior, seed, n_jobs, n, C):
    check_passes(problem_of(name, seed, prior, max(n, 7), C), n_jobs)


@pytest.mark.parametrize("name", [*ROWS, "labels", "labels coupled"])
@settings(max_examples=8)
@given(*CASES)
def test_rows_of_many_scores(name, seed, n_jobs, n, C):
    check_passes(problem_of(name, seed, "none", max(n, 7), C), n_jobs)


@pytest.mark.parametrize("prior", ["prior", "signs"])
def test_priors_of_classes(prior):
    for seed in range(3):
        check_passes(problem_of("crammer_singer", seed, prior), 3)


@pytest.mark.parametrize("name", [*SCALARS, *ROWS, "labels", "labels coupled"])
def test_the_optimum_is_that_of_one_thread(name):
    for seed, n_jobs in enumerate((2, 3, 4)):
        check_optimum(problem_of(name, seed), n_jobs)


@pytest.mark.parametrize("name", ["hinge", "crammer_singer"])
def test_more_threads_than_rows(name):
    problem = problem_of(name, 1, n=7)
    check_passes(problem, 16)
    check_optimum(problem, 16)
    single = problem.taken(table_of(np.ones((1, D)), 0.7), np.array([1]), np.ones(1))
    check_passes(single, 4, passes=3)


@pytest.mark.parametrize("name", ["hinge", "labels coupled"])
def test_one_thread_goes_row_by_row(name):
    problem = problem_of(name, 5)
    options = AscentOptions(1e-6, 3, np.float64)
    plain = (ScalarAscent if name == "hinge" else BlockAscent)(problem, None, options)
    plain.polish_tuning = PASSES_ALONE
    np.testing.assert_array_equal(duals_of(after(run_of(problem, 1), 9)), duals_of(after(plain, 9)))


@pytest.mark.parametrize("name", ["hinge", "alpha", "labels coupled"])
def test_the_same_result_again_and_after_a_stop(name):
    check_resumes(problem_of(name, 2), 3)


def test_a_pass_stops_between_rounds():
    problem = problem_of("hinge", 2)
    run = run_of(problem, 2, tuning=ASCENT._replace(pace=PACE._replace(work=1)))
    left = iter(range(3))
    run.advance(lambda: next(left, None) is None)
    assert run.visits == 6  # a row of each thread in each of three rounds
    assert run.dual == pytest.approx(problem.reevaluated(run.left()).dual, rel=1e-12)


def test_single_precision_goes_on_in_double():
    run = run_of(problem_of("crammer_singer", 3), 3, 1e-8, np.float32)
    assert drive(run, Budget(tol=1e-8, max_iter=20_000), History()).certificate.converged
    assert run.dtype == np.float64


def test_parts_that_went_too_far_go_back():
    """Rows that are all alike: each thread makes the step that only one of them should."""
    n = 64
    X, ones = np.ones((n, D)), np.ones(n)
    problem = ScalarProblem(table_of(X, 0.0), SCALARS["hinge"], (ones, ones), ones).at(10.0)
    run = run_of(problem, 4)
    run.advance(lambda: False)
    assert run.spread > 1.0
    assert run.dual == pytest.approx(problem.reevaluated(run.left()).dual, rel=1e-12)
    assert 0.0 < run.dual <= 0.5 / D * (1.0 + 1e-12)  # the optimum: w = 1/D


def test_how_often_threads_meet():
    tuning = PartTuning()
    assert rounds(10.0, 50, 2, tuning) == tuning.most
    assert rounds(1e-5, 50, 2, tuning) < tuning.fewest  # too little work
    assert rounds(1e-2, 10**7, 4, tuning) == 0  # too many weights
    counts = [rounds(0.02, 50, threads, tuning) for threads in (2, 4, 8, 16)]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1]
    best = rounds(0.02, 5_000, 4, tuning)  # meetings and what is lost between them are in balance
    others = [pass_seconds(0.02, 5_000, 4, times, tuning) for times in (best // 2, 2 * best)]
    assert tuning.fewest < best < tuning.most and pass_seconds(0.02, 5_000, 4, best, tuning) < min(others)
    assert [portion(3, 5, k, 3) for k in range(3)] == [(3, 3), (3, 4), (4, 5)] and portion(3, 5, 0, 1) == (3, 5)


def test_how_many_threads():
    tuning = PartTuning()
    assert crew_size(10.0, 50, 16, tuning) == 16 and crew_size(10.0, 50, 1, tuning) == 1
    assert crew_size(1e-4, 50, 16, tuning) == 1  # an order takes longer
    assert crew_size(1e-2, 10**7, 4, tuning) == 1  # too many weights
    assert 1 < crew_size(1e-3, 50, 16, tuning) < 16  # not all are worth their meetings
    assert worth_an_order(1.0, 16, tuning) and not worth_an_order(1e-5, 16, tuning) and not worth_an_order(1.0, 1, tuning)


# So much does a meeting cost that fewer threads go through shorter lists.
VARYING = EAGER._replace(thread=1e-8, order=1e-12)


@pytest.mark.parametrize("name", ["hinge", "epsilon", "crammer_singer"])
@pytest.mark.parametrize("n_jobs", [6, 8])
def test_as_many_threads_as_a_pass_is_worth(name, n_jobs, monkeypatch):
    """Whoever stays away: the dual value is that of the duals, the optimum that of one thread, the same again after a stop."""
    problem, seen = problem_of(name, 3, n=120), set()
    advance = Parted.advance

    def noted(run, stop):
        found = advance(run, stop)
        seen.add(run.at_work)
        return found

    monkeypatch.setattr(Parted, "advance", noted)
    check_passes(problem, n_jobs, passes=40, parts=VARYING)
    check_optimum(problem, n_jobs, parts=VARYING)
    assert len(seen) > 2 and max(seen) <= n_jobs
    first, resumed = (run_of(problem, n_jobs, parts=VARYING) for _ in range(2))
    after(first, 9)
    resumed.resume(first.snapshot())
    np.testing.assert_array_equal(duals_of(after(resumed, 6)), duals_of(after(first, 6)))


@pytest.mark.parametrize("name", ["hinge", "crammer_singer"])
def test_duals_are_kept_and_taken_back_by_runs_of_examples(name):
    """Copies that threads share out, bit by bit those of one, where every third extrapolation is taken back."""
    problem, parts = problem_of(name, 6, n=90, C=5.0), EAGER._replace(fewest=10**9, copied=8)
    runs, restarts = [run_of(problem, jobs, parts=parts) for jobs in (1, 4)], 0
    for _ in range(25):
        for run in runs:
            run.advance(lambda: False)
            before = run.memory
            if run.passes % 3 == 0:
                run.floor = np.inf  # whatever it gains is too little
            run.accelerate()
            restarts += before > 0 and run.memory == 0
            if run.passes % 7 == 0:
                run.wake()
        np.testing.assert_array_equal(duals_of(runs[1]), duals_of(runs[0]))
        np.testing.assert_array_equal(runs[1].plan.due, runs[0].plan.due)
        np.testing.assert_array_equal(runs[1].plan.wait, runs[0].plan.wait)
    assert runs[1].size == 1 and restarts > 0


def test_what_is_left_is_asked_for_once_and_again_after_a_pass():
    run = after(run_of(problem_of("crammer_singer", 2), 2), 3)
    run.synchronise()
    first = run.left()
    assert run.left() is first
    np.testing.assert_array_equal(first, run.problem.repaired(run.duals))
    after(run, 1)
    np.testing.assert_array_equal(run.left(), run.problem.repaired(run.duals))
    run.synchronise()
    np.testing.assert_array_equal(run.left(), run.problem.repaired(run.duals))
    assert not np.array_equal(run.left(), first)


def solved(name, n_jobs=3):
    """Duals of a run in which threads have met many times."""
    run = run_of(problem_of(name, 7), n_jobs, 1e-4)
    assert drive(run, Budget(tol=1e-4), History()).certificate.converged and run.crew.size == n_jobs
    run.close()
    return run.left()


@pytest.mark.parametrize("name", ["hinge", "labels coupled"])
def test_fits_at_the_same_time(name):
    """Threads of two runs that a caller has started side by side do not meet."""
    found = solved(name)
    with ThreadPoolExecutor(2) as pool:
        for other in pool.map(solved, [name] * 4):
            np.testing.assert_array_equal(other, found)


def test_fits_in_workers():
    found = solved("hinge")
    for other in Parallel(n_jobs=2)(delayed(solved)("hinge") for _ in range(2)):
        np.testing.assert_array_equal(other, found)


def test_an_estimator_hands_its_threads_on():
    """So many rows that threads are worth it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 8))
    y = X @ rng.normal(size=8) + 3.0 * rng.normal(size=60_000) > 0.0
    problem = ScalarProblem(table_of(X, 1.0), SCALARS["hinge"], (2.0 * y - 1.0, np.ones(y.size)), np.ones(y.size)).at(0.01)
    run = mm.DualCoordinate().begin(problem, Start(), Setting(n_jobs=2))
    run.advance(lambda: False)
    assert run.n_jobs == run.at_work == 2
    alone, many = (mm.SVMClassifier(C=0.01, n_jobs=jobs, random_state=0).fit(X, y) for jobs in (None, 2))
    assert many.certificate_.converged and not np.array_equal(many.coef_, alone.coef_)
    assert relative(alone.certificate_.primal, many.certificate_.dual) <= 2e-3


def test_what_goes_wrong_in_a_thread_is_raised_where_it_was_asked_for():
    team, begun = Team(3), []

    def work(part):
        begun.append(part)
        if part == 2:
            raise ValueError("part 2")
        return part

    with pytest.raises(ValueError, match="part 2"):
        team.work(work, range(4))
    assert sorted(begun) == [0, 1, 2, 3]
    assert team.work(lambda part: part * part, range(7)) == [0, 1, 4, 9, 16, 25, 36]  # more than there are threads
    team.close()


def test_threads_leave_with_their_run():
    before = set(STANDING)
    run = after(run_of(problem_of("hinge", 2), 3), 2)
    own = STANDING - before
    assert len(own) == 2
    run.close()
    end = time.monotonic() + 20.0
    while own & STANDING and time.monotonic() < end:
        time.sleep(0.001)
    assert not own & STANDING


def test_what_goes_wrong_in_a_crew_is_raised_and_nobody_waits():
    def serve(post):
        if post.me == 1:
            raise ValueError("the second of the crew")
        all_done(post.desk, post.meeting.board, post.crew - 1)

    copies = Copies(Free(np.zeros(8)), 2)
    space = [(np.zeros(8), np.zeros(8))]
    crew = StandingCrew(copies.count, copies, space, schedule(10, 0), lambda posts: (serve, [(post,) for post in posts]))
    with pytest.raises(ValueError, match="the second"):
        crew.carry_out(GATHER, 0, (0,), ())


@settings(max_examples=15)
@given(st.integers(0, 2500), st.integers(1, 5))
def test_strips_of_threads_are_all_examples(n, crew):
    plan, starts, found = schedule(n, 0), strip_starts(n, crew), []
    for me in range(crew):
        count = gather_strips(plan, 0, me, crew, starts[me], np.array([2 * me + 1], np.uint64))
        found += plan.order[starts[me] : starts[me] + count].tolist()
    assert sorted(found) == list(range(n)) and sorted(plan.order.tolist()) == list(range(n))


# ---- how far to go along all ways ------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(1, 8))
def test_shares_are_those_of_a_bounded_quadratic(seed, count):
    rng = np.random.default_rng(seed)
    U = rng.normal(size=(count, 6)) + rng.normal(size=6)
    bends, ascent = U @ U.T, rng.normal(size=count) + 1.0
    slopes = rng.normal(size=count)

    def value(t):
        return t @ ascent - 0.5 * t @ bends @ t

    t, _ = joint.settled(ascent + slopes, slopes, bends)
    assert np.all((t >= 0.0) & (t <= 1.0)) and value(t) >= -1e-12
    best = minimize(lambda t: -value(t), np.zeros(count), jac=lambda t: bends @ t - ascent, bounds=[(0.0, 1.0)] * count)
    reachable = np.where(ascent > 0.0, 1.0, 0.0)  # a part that gains nothing alone stays
    held = minimize(lambda t: -value(t), np.zeros(count), jac=lambda t: bends @ t - ascent, bounds=[(0.0, b) for b in reachable])
    assert value(t) <= -best.fun + 1e-6
    assert value(t) >= -held.fun - 0.02 * (1.0 + abs(held.fun))


def test_a_part_that_gains_nothing_stays():
    t, _ = joint.settled(np.array([1.0, 1.0, 0.0]), np.array([0.0, 1.0, 0.0]), np.diag([1.0, 1.0, 0.0]))
    np.testing.assert_array_equal(t, [1.0, 0.0, 0.0])
    t, best = joint.settled(np.ones(1), np.zeros(1), np.full((1, 1), 4.0))
    assert (t[0], best) == (0.25, 0.25)


def test_the_spread_follows():
    same = np.ones((2, 2))
    found = joint.settled(np.ones(2), np.zeros(2), same)[1]
    assert found == 0.5 and joint.followed(1.0, found, 2.0) > 1.0
    assert joint.followed(2.0, 0.1, 2.0) == 2.0 and joint.followed(1.0, 3.0, 2.0) == 1.0 and joint.followed(1.5, 3.0, 2.0) < 1.5


@pytest.mark.parametrize("name", ["hinge", "crammer_singer"])
def test_sparse_rows(name):
    problem = problem_of(name, 4, form=sp.csr_matrix)
    check_passes(problem, 3)
    check_optimum(problem, 3)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_rows_lack_is_taken_back_by_runs_of_classes_as_by_one_thread(form, dtype):
    """One thread walks; the classes of what an extrapolation lacks are shared out, bit by bit the same."""
    rng, classes = np.random.default_rng(4), 40
    X, label = drawn.features(rng, 90, D), rng.integers(0, classes, 90)
    table = table_of(form(X), 0.7)
    problem = BlockProblem(table, label, np.ones(90), 1.0 - np.eye(classes), losses.CrammerSingerLoss()).at(5.0)
    parts = EAGER._replace(fewest=10**9, vectors=1)
    one, *others = (after(run_of(problem, jobs, dtype=dtype, parts=parts), 14) for jobs in (1, 2, 3, 16))
    assert one.memory > 0
    for other in others:
        assert other.size == 1
        np.testing.assert_array_equal(other.space.w, one.space.w)
        np.testing.assert_array_equal(duals_of(other), duals_of(one))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, lambda X: X.astype(np.float32)], ids=["dense", "csr", "single"])
def test_sums_of_rows_are_those_of_a_product(form):
    problem = problem_of("hinge", 7, form=form)
    X = sp.csr_matrix(form(drawn.features(np.random.default_rng(7), 40, D))).toarray().astype(float)
    b = np.random.default_rng(1).normal(size=40) * (np.arange(40) % 3 > 0)
    for jobs in (1, 2, 16):
        v = problem.evaluate(b, n_jobs=jobs).v
        np.testing.assert_allclose(v, np.append(b @ X, 0.7 * b.sum()), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(v, problem.reevaluated(b).v)
