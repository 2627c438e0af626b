"""Scratch that pieces of work share: never two of them at a time, and not one for every piece. Threads of matrix products."""

import time

import numpy as np
import pytest
from helpers.every_problem import STRUCTURES, problem_of

import maxmargin as mm
from maxmargin.problems.structured import SPANS, StructuredProblem
from maxmargin.structures.encoded.contract import new_scratch
from maxmargin.structures.encoded.sweeps import risk
from maxmargin.utils.threads import BLAS_USERS, blas_libraries, blas_threads, in_threads, spans, with_scratch


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


def numbers() -> list[int]:
    return [library["num_threads"] for library in blas_libraries().info()]


def test_the_last_fit_restores_the_threads_of_matrix_products():
    """Two fits at a time that end in the order in which they began."""
    before = numbers()
    first, second = blas_threads(1), blas_threads(2)
    first.__enter__()
    assert numbers() == [1] * len(before)
    second.__enter__()
    first.__exit__(None, None, None)
    assert numbers() == [1] * len(before) and BLAS_USERS.count == 1
    second.__exit__(None, None, None)
    assert numbers() == before and BLAS_USERS.count == 0


def test_threads_of_matrix_products_are_restored_after_an_error():
    before = numbers()
    with pytest.raises(ZeroDivisionError), blas_threads(1):
        assert numbers() == [1] * len(before)
        raise ZeroDivisionError
    assert numbers() == before


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_fits_have_the_threads_they_ask_for(n_jobs):
    seen: list[int] = []

    class Look(mm.Newton):
        def begin(self, problem, start, setting):
            seen.extend(numbers())
            return super().begin(problem, start, setting)

    X = np.arange(12.0).reshape(6, 2)
    mm.SVMRegressor(loss="squared_error", solver=Look(), n_jobs=n_jobs).fit(X, X[:, 0])
    assert seen == [n_jobs or 1] * len(numbers())


@pytest.mark.parametrize("name", STRUCTURES)
def test_what_a_piece_leaves_does_not_show_in_the_next(name):
    problem = problem_of(name)
    assert isinstance(problem, StructuredProblem)
    W = problem.feasible(np.random.default_rng(0).normal(size=problem.weight_shape))
    parts = spans(problem.n_examples, SPANS)
    fresh = sum(risk(problem.data, problem.cap, W, new_scratch(problem.data), *part) for part in parts)
    assert len(parts) > 1
    assert problem.primal(W) == problem.primal(W, 2) == 0.5 * float(np.vdot(W, W)) + float(fresh)
