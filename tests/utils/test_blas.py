"""Threads of matrix products: the least that anyone asks for, as before when all have gone, whoever leaves first."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

import maxmargin as mm
from maxmargin.solvers.loop import Budget, product_threads
from maxmargin.utils.blas import BLAS_USERS, SHORT_PRODUCT, blas_libraries, blas_threads, inner_product


def numbers() -> list[int]:
    return [library["num_threads"] for library in blas_libraries().info()]


def limited(threads: int) -> list[int]:
    """What the libraries make of it: one may be built for a single thread."""
    with blas_libraries().limit(limits=threads):
        return numbers()


def test_the_least_that_is_asked_for():
    before, one, two = numbers(), limited(1), limited(2)
    with blas_threads(2):
        assert numbers() == two
        with blas_threads(1):
            assert numbers() == one
            with blas_threads(3):
                assert numbers() == one
        assert numbers() == two
    assert numbers() == before and BLAS_USERS.asked == []


def test_the_last_to_go_restores():
    """Another thread than the one that came first."""
    before, inside, leave = numbers(), threading.Event(), threading.Event()

    def other():
        with blas_threads(1):
            inside.set()
            leave.wait(10.0)

    thread = threading.Thread(target=other)
    with blas_threads(2):
        thread.start()
        assert inside.wait(10.0)
        assert numbers() == [1] * len(before)
    assert numbers() == [1] * len(before)  # the other one is still at it
    leave.set()
    thread.join()
    assert numbers() == before


def test_restored_after_an_error():
    before = numbers()
    with pytest.raises(ZeroDivisionError), blas_threads(1):
        assert numbers() == [1] * len(before)
        raise ZeroDivisionError
    assert numbers() == before


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_fits_have_the_threads_they_ask_for_if_their_products_are_large(n_jobs, large, monkeypatch):
    seen: list[int] = []
    if large:
        monkeypatch.setattr("maxmargin.solvers.loop.product_threads", lambda problem, budget: budget.n_jobs)

    class Look(mm.Newton):
        def begin(self, problem, start, setting):
            seen.extend(numbers())
            return super().begin(problem, start, setting)

    X = np.arange(12.0).reshape(6, 2)
    mm.SVMRegressor(loss="squared_error", solver=Look(), n_jobs=n_jobs).fit(X, X[:, 0])
    assert seen == limited((n_jobs if large else None) or 1)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_products_are_large_by_rows_times_weights(n_jobs):
    budget, shape = Budget(n_jobs=n_jobs), (2, 4)
    enough = -(-budget.tuning.products // 8)
    assert product_threads(SimpleNamespace(n_examples=enough, weight_shape=shape), budget) == n_jobs
    assert product_threads(SimpleNamespace(n_examples=enough - 1, weight_shape=shape), budget) == 1


@pytest.mark.parametrize("shape", [(0,), (7,), (SHORT_PRODUCT,), (SHORT_PRODUCT + 1,), (30, 1_000), (20, 100, 8)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inner_products_long_and_short(shape, dtype):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(dtype) for _ in range(2))  # exact in float32
    assert inner_product(a, b) == np.sum(a.astype(np.int64) * b.astype(np.int64))
    assert inner_product(a.T, a.T) == np.sum(a.astype(np.int64) ** 2)
    if a.size:
        a.flat[-1] = np.nan
        assert np.isnan(inner_product(a, b))
