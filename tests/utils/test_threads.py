"""Scratch that pieces of work share: never two of them at a time, and not one for every piece."""

import time

import numpy as np
import pytest
from helpers.every_problem import STRUCTURES, problem_of

from maxmargin.problems.structured import SPANS, StructuredProblem
from maxmargin.structures.encoded.contract import new_scratch
from maxmargin.structures.encoded.sweeps import risk
from maxmargin.utils.threads import in_threads, spans, with_scratch


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
