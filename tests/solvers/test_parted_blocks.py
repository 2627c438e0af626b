"""Threads that walk through blocks side by side: as in `test_parted`, with sweeps of every kind after a pass."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.side_by_side import EAGER, ROWS, after, check_optimum, check_passes, check_resumes, problem_of, run_of
from hypothesis import given, settings
from hypothesis import strategies as st

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.problems.linear import BlockProblem
from maxmargin.result import History
from maxmargin.solvers.ascent import parted_blocks
from maxmargin.solvers.ascent.crew import IN_ALL_LISTS, part_of_list
from maxmargin.solvers.ascent.parted_blocks import PartedBlocks
from maxmargin.solvers.ascent.tuning import ASCENT, BlockTuning
from maxmargin.solvers.base import Setting, Start
from maxmargin.solvers.loop import Budget, drive
from maxmargin.solvers.tuning import PACE

NAMES = ["crammer_singer", "alpha", "labels", "labels coupled"]
# Sweeps that cost next to nothing, so that there are as many as may be; of threads side by side, in turn, and of one.
SWEPT = BlockTuning(cheaper=np.inf)
TURNS, SIDE_BY_SIDE = SWEPT._replace(ordered=-1.0), SWEPT._replace(ordered=1.0)
KINDS = {
    "none": {"tuning": ASCENT._replace(blocks=SWEPT._replace(again=0))},
    "in turn": {"tuning": ASCENT._replace(blocks=TURNS), "parts": EAGER._replace(features=0)},
    "side by side": {"tuning": ASCENT._replace(blocks=SIDE_BY_SIDE), "parts": EAGER._replace(sweeps=3)},
    "alone": {"tuning": ASCENT._replace(blocks=SIDE_BY_SIDE), "parts": EAGER._replace(sweepers=1)},
}
WAYS = {"in turn": "sweep_by_turns", "side by side": "sweep_side_by_side", "alone": "sweep_alone"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=5)
@given(
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.sampled_from([7, 40, 61]),
    st.sampled_from([0.01, 0.5, 20.0]),
    st.sampled_from([1, 4, 100]),
)
def test_passes(name, kind, seed, n_jobs, n, C, block):
    check_passes(problem_of(name, seed, "none", n, C), n_jobs, block=block, **KINDS[kind])


@pytest.mark.parametrize("kind", WAYS)
def test_priors_of_features(kind):
    """A variance of each feature, which all classes share; one of them zero."""
    for seed in range(3):
        check_passes(problem_of("crammer_singer", seed, "prior"), 3, block=4, **KINDS[kind])
    check_optimum(problem_of("crammer_singer", 3, "prior"), 3, block=4, **KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_the_optimum_is_that_of_one_thread(name, kind):
    for seed, n_jobs in enumerate((2, 3, 4)):
        check_optimum(problem_of(name, seed), n_jobs, block=5, **KINDS[kind])


@pytest.mark.parametrize("name", ["crammer_singer", "labels coupled"])
def test_more_threads_than_rows(name):
    problem = problem_of(name, 1, n=7)
    check_passes(problem, 16, block=4)
    check_optimum(problem, 16, block=4)


@pytest.mark.parametrize("kind", WAYS)
def test_sweeps_go_the_way_they_should(kind, monkeypatch):
    went = []
    for way in WAYS.values():
        found = getattr(PartedBlocks, way)

        def noted(run, start, stop, level, way=way, found=found):
            went.append(way)
            return found(run, start, stop, level)

        monkeypatch.setattr(PartedBlocks, way, noted)
    after(run_of(problem_of("crammer_singer", 2, n=61), 3, block=4, **KINDS[kind]), 4)
    assert set(went) == {WAYS[kind]}


@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.parametrize("name", ["crammer_singer", "labels coupled"])
def test_the_same_result_again_and_after_a_stop(name, kind):
    first, resumed = check_resumes(problem_of(name, 2), 3, block=4, **KINDS[kind])
    assert resumed.spread_again == first.spread_again


@pytest.mark.parametrize("kind", WAYS)
def test_a_pass_stops_between_rounds(kind):
    """What was done counts, also where the stop comes between two sweeps."""
    tuning = KINDS[kind]["tuning"]._replace(pace=PACE._replace(work=1))
    for count in (1, 3, 12, 20, 40):
        run = run_of(problem_of("crammer_singer", 2), 2, block=2, **(KINDS[kind] | {"tuning": tuning}))
        left = iter(range(count))
        run.advance(lambda left=left: next(left, None) is None)
        assert run.dual == pytest.approx(run.problem.reevaluated(run.left()).dual, rel=1e-12)
        assert (run.visits < run.problem.n_examples) == (count < 10)


@pytest.mark.parametrize("name", ["crammer_singer", "labels coupled"])
def test_weights_that_a_thread_adds_to(name, monkeypatch):
    """Of its own features or of its own classes: that is the same to rounding."""
    ways, found = [], []
    stacks = parted_blocks.new_stacks
    monkeypatch.setattr(parted_blocks, "new_stacks", lambda *args: ways.append(stacks(*args)) or ways[-1])
    for few in (0, 16):
        run = after(run_of(problem_of(name, 4, n=61), 3, block=4, parts=EAGER._replace(features=few)), 3)
        found.append((run.left(), run.dual))
    assert [way.by_class for way in ways] == [False, True]
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-8, atol=1e-8)
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-10)


def test_single_precision_goes_on_in_double():
    run = run_of(problem_of("crammer_singer", 3), 3, 1e-8, np.float32, block=4)
    assert drive(run, Budget(tol=1e-8, max_iter=20_000), History()).certificate.converged
    assert run.dtype == np.float64


def solved(name):
    run = run_of(problem_of(name, 7), 3, 1e-4, block=4, **KINDS["in turn"])
    assert drive(run, Budget(tol=1e-4), History()).certificate.converged and run.crew.size == 3
    run.close()
    return run.left()


def test_fits_at_the_same_time():
    """Threads of two runs do not meet, neither in a crew nor in a team."""
    found = solved("crammer_singer")
    with ThreadPoolExecutor(2) as pool:
        for other in pool.map(solved, ["crammer_singer"] * 4):
            np.testing.assert_array_equal(other, found)


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_nobody_waits_for_a_thread_that_fails(failing, monkeypatch):
    run = after(run_of(problem_of("crammer_singer", 2), 3, block=4, **KINDS["in turn"]), 1)
    works = parted_blocks.sweep_in_turn

    def fail(*args):
        if args[-1][0] == failing:
            raise RuntimeError("Out of order.")
        return works(*args)

    monkeypatch.setattr(parted_blocks, "sweep_in_turn", fail)
    with pytest.raises(RuntimeError, match="Out of order"):
        run.advance(lambda: False)
    monkeypatch.setattr(parted_blocks, "sweep_in_turn", works)
    after(run, 1)  # the team is still there


def test_rounds_have_a_block_of_each_thread():
    """However many of its examples each thread has listed: none has more in a round than a block has room for."""
    run = run_of(problem_of("crammer_singer", 2, n=61), 3, block=8)
    crew = run.call_together()
    for lengths in ((20, 20, 21), (3, 40, 18), (0, 1, 60), (1, 1, 1)):
        count = sum(lengths)
        crew.desk[IN_ALL_LISTS] = count
        for post, length in zip(crew.posts, lengths, strict=True):
            post.list[:2] = 0, length
        each, most = run.round_of(count, 3), 0
        for start in range(0, count, each):
            parts = [part_of_list(post, start, min(start + each, count)) for post in crew.posts]
            most = max(most, *(last - first for first, last in parts))
        assert 1 <= most <= 8
        assert [crew.up_to(count, 3)[p][1] for p in range(3)] == list(lengths)
    run.close()


def test_blocks_that_went_too_far_go_back():
    """Rows that are all alike: each thread makes the step that only one of them should."""
    n, left = 64, iter(range(1))
    problem = BlockProblem(table_of(np.ones((n, 5)), 0.0), np.zeros(n, int), np.ones(n), 1.0 - np.eye(3), ROWS["crammer_singer"])
    run = run_of(problem.at(10.0), 4, block=1, tuning=ASCENT._replace(pace=PACE._replace(work=1)))
    run.advance(lambda: next(left, None) is None)
    assert run.visits == 4 and run.spread > 1.0
    assert run.dual == pytest.approx(run.problem.reevaluated(run.left()).dual, rel=1e-12)
    assert run.dual == pytest.approx(1.0 / 15.0)  # the optimum: three classes, five features


def test_the_solver_takes_as_many_threads_as_are_worth_it():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 256)).astype(np.float32)
    label = (X @ rng.normal(size=(256, 200))).argmax(axis=1)
    problem = BlockProblem(table_of(X), label, np.ones(3_000), 1.0 - np.eye(label.max() + 1)).at(0.01)
    run = mm.DualCoordinate().begin(problem, Start(), Setting(n_jobs=2))
    assert isinstance(run, PartedBlocks) and run.size == run.n_jobs == 2
    run.advance(lambda: False)
    assert run.at_work == 2
    few = mm.DualCoordinate().begin(problem.taken(table_of(X[:40]), np.arange(40), np.ones(40)), Start(), Setting(n_jobs=2))
    assert isinstance(few, PartedBlocks) and few.size == 1
