"""Threads of BLAS: one inside, as before outside, whoever leaves first."""

import threading

import pytest
from threadpoolctl import ThreadpoolController

from maxmargin.utils.blas import Inside, one_blas_thread


def counts():
    return [library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()]


def test_one_thread_inside():
    before = counts()
    with one_blas_thread():
        assert set(counts()) <= {1}
        with one_blas_thread():
            assert set(counts()) <= {1}
        assert set(counts()) <= {1}
    assert counts() == before and Inside.count == 0


def test_the_last_to_go_restores():
    before, inside, leave = counts(), threading.Event(), threading.Event()

    def other():
        with one_blas_thread():
            inside.set()
            leave.wait(10.0)

    thread = threading.Thread(target=other)
    with one_blas_thread():
        thread.start()
        assert inside.wait(10.0)
    assert set(counts()) <= {1}  # the other one is still at it
    leave.set()
    thread.join()
    assert counts() == before


def test_restored_after_an_error():
    before = counts()
    with pytest.raises(ValueError, match="oops"), one_blas_thread():
        raise ValueError("oops")
    assert counts() == before
