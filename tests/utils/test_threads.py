"""Parts of work on threads, and scratch that pieces of work share: never two of them at a time, and not one for every piece."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_all_start_methods, get_context

import numpy as np
import pytest
from helpers.every_problem import STRUCTURES, problem_of
from joblib import parallel_config

import maxmargin as mm
from maxmargin.problems.structured import SPANS, StructuredProblem
from maxmargin.structures.encoded.contract import new_scratch
from maxmargin.structures.encoded.sweeps import risk
from maxmargin.utils.threads import in_threads, spans, thread_count, with_scratch


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_as_many_as_work_at_a_time(n_jobs):
    made: list[list[int]] = []

    def make() -> list[int]:
        made.append([])
        return made[-1]

    def work(part: int, scratch: list[int]) -> int:
        assert scratch == []
        scratch.append(part)
        time.sleep(0.001)
        assert scratch == [part]
        scratch.clear()
        return part

    assert in_threads(with_scratch(make, work), range(30), n_jobs) == list(range(30))
    assert 1 <= len(made) <= n_jobs


@pytest.mark.parametrize("name", STRUCTURES)
def test_what_a_piece_leaves_does_not_show_in_the_next(name):
    problem = problem_of(name)
    assert isinstance(problem, StructuredProblem)
    W = problem.feasible(np.random.default_rng(0).normal(size=problem.weight_shape))
    parts = spans(problem.n_examples, SPANS)
    fresh = sum(risk(problem.data, problem.cap, W, new_scratch(problem.data), *part) for part in parts)
    assert len(parts) > 1
    assert problem.primal(W) == problem.primal(W, 2) == 0.5 * float(np.vdot(W, W)) + float(fresh)


def test_teams_are_lent_again_and_to_one_at_a_time():
    found = in_threads(lambda k: in_threads(lambda j: (threading.get_ident(), j), range(3), 2), range(4), 2)
    assert [[j for _, j in part] for part in found] == [[0, 1, 2]] * 4
    before = threading.active_count()
    for _ in range(5):
        assert in_threads(lambda k: k, range(7), 2) == list(range(7))
    assert threading.active_count() == before


def test_a_forked_process_starts_threads_of_its_own():
    in_threads(lambda k: k, range(3), 2)
    with ProcessPoolExecutor(1, get_context("fork") if "fork" in get_all_start_methods() else None) as pool:
        assert pool.submit(in_threads, abs, [-1, -2, -3], 2).result(60) == [1, 2, 3]


def test_what_goes_wrong_in_a_part_is_raised():
    with pytest.raises(ValueError, match="part 2"):
        in_threads(fails_at_two, range(5), 3)
    assert in_threads(abs, [-1, -2], 3) == [1, 2]


def fails_at_two(part):
    if part == 2:
        raise ValueError("part 2")
    return part


INTERRUPTED = """
import os, signal, threading, time
from maxmargin.utils.threads import TEAMS, Round, in_threads

signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts processes in the background has it ignored
waits, wait = threading.Semaphore(0), Round.wait

def told(self, sent):
    waits.release()
    wait(self, sent)

def press(times, enough):
    for _ in range(times):
        waits.acquire()
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)
    if times == 1:
        waits.acquire()  # whoever was interrupted waits again, and gets what it waits for
        enough.set()

def slow(k):
    time.sleep(0.1 * k)
    return k

for times in (1, 2):
    begun, enough = threading.Event(), threading.Event()
    main = threading.get_ident()
    Round.wait = told
    presses = threading.Thread(target=press, args=(times, enough))
    presses.start()
    try:
        in_threads(lambda k: begun.wait() if threading.get_ident() == main else (begun.set(), enough.wait()), [0, 1], 2)
        print("not interrupted")
    except KeyboardInterrupt:
        print(len(TEAMS.free[2]), end=" ")
    presses.join()
    Round.wait = wait
    results = []
    for _ in range(3):
        results.append(in_threads(slow, [0, 1, 2], 2))
        enough.set()  # also who was left at work is heard only now
    print(results == [[0, 1, 2]] * 3, end=" ")
"""


def test_an_interrupted_wait_leaves_nothing_for_the_next_round():
    """Whoever is interrupted waits for the others, once; after the second time these threads are not lent again."""
    found = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60)
    assert found.stdout.split() == ["1", "True", "0", "True"], found.stderr


def test_a_failed_part_stops_the_others():
    done = []

    def work(k):
        if k == 0:
            raise ValueError("the first part")
        time.sleep(0.02)
        done.append(k)

    with pytest.raises(ValueError, match="the first part"):
        in_threads(work, range(200), 2)
    assert len(done) < 100


@pytest.mark.parametrize("n_jobs", [0, 2.5, "a", True, np.float64(2.0)])
def test_numbers_of_jobs_that_are_none(n_jobs):
    with pytest.raises(ValueError, match="n_jobs must be None or an integer other than 0, got"):
        thread_count(n_jobs)


def test_integers_of_numpy_are_numbers_of_jobs():
    assert thread_count(np.int64(3)) == 3 and type(thread_count(np.int64(3))) is int
    X = np.random.default_rng(0).normal(size=(60, 5))
    assert mm.SVMClassifier(n_jobs=np.int64(2)).fit(X, X[:, 0] > 0).certificate_.converged


@pytest.mark.parametrize("inside", [None, 1, 3])
def test_no_number_of_jobs_is_that_of_the_context(inside):
    with parallel_config(n_jobs=inside):
        assert thread_count(None) == (inside or 1) and thread_count(2) == 2 and thread_count(1) == 1
    assert thread_count(None) == 1
