"""Threads that meet within kernels: nobody goes on before all are there, and nobody waits for one that has given up."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from maxmargin.jit import kernel
from maxmargin.jit.meeting import PIECES, fetch_add, give_up, meet_all, new_board
from maxmargin.utils.threads import Team


@kernel
def rounds(board, size, count, seen):
    """Count in every round, meet, look at the sum, meet again; returns how many rounds there were."""
    for k in range(count):
        fetch_add(board, PIECES, k + 1)
        if not meet_all(board, size):
            return k
        seen[k] = board[PIECES]
        if not meet_all(board, size):
            return k
    return count


@pytest.mark.parametrize("call", [rounds, rounds.plain], ids=["compiled", "plain"])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_nobody_goes_on_alone(call, size):
    """With more threads than a small machine has processors too."""
    count = 200 if call is rounds else 20
    board, seen = new_board(), np.zeros((size, count), np.int64)
    with ThreadPoolExecutor(size) as pool:
        done = list(pool.map(lambda p: call(board, size, count, seen[p]), range(size)))
    assert done == [count] * size
    np.testing.assert_array_equal(seen, np.tile(size * np.cumsum(np.arange(1, count + 1)), (size, 1)))


@pytest.mark.parametrize("call", [rounds, rounds.plain], ids=["compiled", "plain"])
def test_nobody_waits_for_one_that_has_given_up(call):
    board, seen = new_board(), np.zeros((3, 5), np.int64)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(call, board, 3, 5, seen[p]) for p in range(2)]
        give_up(board)
        assert [each.result(timeout=60) for each in waiting] == [0, 0]


def test_a_team_is_told_when_its_first_member_fails():
    """Also where that one never came to its part."""
    team, board, seen = Team(3), new_board(), np.zeros((3, 5), np.int64)

    def work(p):
        if p == 0:
            raise KeyboardInterrupt
        return rounds(board, 3, 5, seen[p])

    with pytest.raises(KeyboardInterrupt):
        team.work(work, range(3), lambda: give_up(board))
    assert team.work(lambda p: p, range(3)) == [0, 1, 2]
    team.close()
