"""Which problems are iterated in float32."""

import numpy as np
import pytest

from maxmargin.data.table import table_of
from maxmargin.losses import CrammerSingerLoss
from maxmargin.problems.linear import BlockProblem
from maxmargin.solvers.dual_coordinate import COARSE, MOVING, SAFE, _working_dtype, is_safe


def problem_of(size, C):
    """Rows of one number; the last is zero."""
    X = np.append(np.full(9, size), 0.0)[:, None]
    return BlockProblem(table_of(X, 0.0), np.arange(10) % 3, np.ones(10), 1.0 - np.eye(3), CrammerSingerLoss()).at(C)


@pytest.mark.parametrize(
    ("size", "C", "tol", "single"),
    [
        (1.0, 1.0, 1e-3, True),
        (1.0, 1.0, 0.5 * COARSE, False),
        (1.0, 0.5 * MOVING, 1e-3, False),  # scores hardly move
        (1e-4, 1e7, 1e-3, True),
        (1e-6, 1e12, 1e-3, False),  # too small, and caps too large
        (1e6, 1.0, 1e-3, False),
        (1.0, 1e11, 1e-3, False),
    ],
)
def test_numbers_that_float32_can_tell_apart(size, C, tol, single):
    assert (_working_dtype(problem_of(size, C), tol, np.float32) is np.float32) == single


def test_few_rows_that_hardly_move_do_not_count():
    """What most of them do decides."""
    for few, single in ((4, True), (6, False)):
        X = np.append(np.full(10 - few, 1.0), np.full(few, 1e-2))[:, None]
        problem = BlockProblem(table_of(X, 0.0), np.arange(10) % 3, np.ones(10), 1.0 - np.eye(3), CrammerSingerLoss()).at(1.0)
        assert (_working_dtype(problem, 1e-3, np.float32) is np.float32) == single


def test_zeros_are_neither_small_nor_large():
    assert is_safe(np.zeros(3)) and is_safe(np.empty(0)) and is_safe(np.array([0.0, 1.0]))
    for wrong in (0.5 * SAFE[0], 2.0 * SAFE[1]):
        assert not is_safe(np.array([0.0, 1.0, wrong])) and not is_safe(np.array([wrong]))
