"""Structures in plain Python whose methods run several times at once: on threads, and in processes."""

import os
import pickle
import threading
import time

import numpy as np
import pytest
from helpers.structured import ThreeClasses

import maxmargin as mm
from maxmargin.structures.encoded.processes import for_all_samples


class Third(ThreeClasses):
    """One of three classes; what its methods were called by is told by a folder."""

    def __init__(self, parallel=None, folder=None, wait=0.0):
        self.parallel, self.folder, self.wait = parallel, folder, wait

    def scores(self, w, x):
        if self.folder is not None:
            time.sleep(self.wait)
            (self.folder / f"{os.getpid()}-{threading.get_ident()}").touch()
        return super().scores(w, x)

    def marginals(self, w, x, y_true, temperature, base=None):
        logs = (w.reshape(3, -1) @ x + (np.arange(3) != y_true)) / temperature
        p = np.exp(logs - logs.max()) * (1.0 if base is None else base)
        return p / p.sum()

    def expect(self, x, y_true, m):
        return np.kron(m, x), float(m @ (np.arange(3) != y_true))


def samples(n=24):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return list(X), (X @ rng.normal(size=(4, 3))).argmax(axis=1).tolist()


SOLVERS = ["auto", "bundle", mm.FrankWolfe(block=False), mm.PartialLinearization(block=False, temperature=0.1)]


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
@pytest.mark.parametrize("parallel", ["threads", "processes"])
def test_the_model_is_that_of_one_thread(parallel, solver):
    X, y = samples()
    how = {"C": 0.1, "tol": 0.02, "solver": solver, "n_jobs": 2, "random_state": 0}
    one, many = (mm.StructuredSVM(Third(way), **how).fit(X, y) for way in (None, parallel))
    assert one.certificate_.converged and np.array_equal(one.w_, many.w_) and one.certificate_.dual == many.certificate_.dual
    assert one.predict(X) == many.predict(X)
    assert pickle.loads(pickle.dumps(many)).predict(X) == one.predict(X)


def callers(folder):
    return {tuple(name.split("-")) for name in os.listdir(folder)}


def test_threads_are_those_of_this_process(tmp_path):
    X, y = samples()
    structure = Third("threads", tmp_path, 0.01)
    model = mm.StructuredSVM(structure, C=0.1, max_iter=2, tol=0.5, solver="bundle", n_jobs=2).fit(X, y)
    found = callers(tmp_path)
    assert {process for process, _ in found} == {str(os.getpid())} and len(found) > 1
    assert model.predict(X) == model.set_params(n_jobs=1).predict(X)


def test_processes_are_others(tmp_path):
    X, y = samples()
    model = mm.StructuredSVM(Third("processes", tmp_path), C=0.1, max_iter=2, tol=0.5, solver="bundle", n_jobs=2).fit(X, y)
    assert {process for process, _ in callers(tmp_path)} - {str(os.getpid())}
    for name in os.listdir(tmp_path):
        (tmp_path / name).unlink()
    model.predict(X)
    assert str(os.getpid()) not in {process for process, _ in callers(tmp_path)}


def test_by_default_one_after_another(tmp_path):
    X, y = samples()
    mm.StructuredSVM(Third(None, tmp_path), C=0.1, max_iter=2, tol=0.5, solver="bundle", n_jobs=2).fit(X, y).predict(X)
    assert len(callers(tmp_path)) == 1


class Hidden(mm.LatentStructure):
    """A sign, and which of two columns tells it."""

    def __init__(self, parallel=None):
        self.parallel = parallel

    def size(self, X, y):
        return 2

    def joint_feature(self, x, y, z):
        return y * x[z] * np.eye(2)[z]

    def loss(self, y_true, y):
        return float(y_true != y)

    def pairs(self, w, x, add=lambda y: 0.0):
        return max(((y, z) for y in (-1, 1) for z in (0, 1)), key=lambda pair: w @ self.joint_feature(x, *pair) + add(pair[0]))

    def decode(self, w, x):
        return self.pairs(w, x)[0]

    def impute(self, w, x, y):
        return max((0, 1), key=lambda z: w @ self.joint_feature(x, y, z))

    def loss_augmented_decode(self, w, x, y_true, z):
        return self.pairs(w, x, lambda y: self.loss(y_true, y))


@pytest.mark.parametrize("parallel", ["threads", "processes"])
def test_hidden_parts_too(parallel):
    X = list(np.random.default_rng(0).normal(size=(20, 2)))
    y = [int(np.sign(x[np.abs(x).argmax()])) for x in X]
    one, many = (mm.LatentStructuredSVM(Hidden(way), C=1.0, n_jobs=2, random_state=0).fit(X, y) for way in (None, parallel))
    assert np.array_equal(one.w_, many.w_) and one.predict(X) == many.predict(X)


def test_what_a_method_raises_is_raised():
    X, _ = samples()
    for parallel in ("threads", "processes"):
        with pytest.raises(ZeroDivisionError):
            for_all_samples(Failing(parallel), "decode", np.zeros(12), [(x,) for x in X], 2)


class Failing(Third):
    def decode(self, w, x):
        return 1 // 0


class Unsendable(Third):
    def __reduce__(self):
        raise pickle.PicklingError("this structure stays here")

    def __deepcopy__(self, memo):
        return self


def test_what_cannot_be_sent_is_one_sentence():
    X, y = samples()
    wanted = r"Unsendable.parallel='processes' needs a structure, samples and outputs that can be pickled: "
    with pytest.raises(ValueError, match=wanted):
        mm.StructuredSVM(Unsendable("processes"), solver="bundle", n_jobs=2).fit(X, y)


def test_other_ways_are_refused():
    X, y = samples()
    with pytest.raises(ValueError, match=r"Third.parallel must be None, 'threads' or 'processes', got 'fibres'"):
        mm.StructuredSVM(Third("fibres")).fit(X, y)
