"""A compiled structure that writes no more than it has to: who does which task. Everything else follows from its statistics."""

from itertools import permutations
from typing import NamedTuple

import numpy as np
import pytest
from helpers.enumerated import optimum, tables

import maxmargin as mm
from maxmargin.structures import check_structure
from maxmargin.structures.compiled import Compiled
from maxmargin.structures.encoded import contract
from maxmargin.structures.encoded.statistics import starts


class Assignments(NamedTuple):
    """The code of an output is the task of each worker; its statistics are one for each pair of a worker and a task."""

    X: np.ndarray  # the features of all pairs of all samples
    codes: np.ndarray
    code_start: np.ndarray
    row_start: np.ndarray


@contract.worst.register(Assignments)
def _(data, i, scratch, code):
    size, best, highest = contract.length(data, i), 0, -np.inf
    for number in range(size**size):
        value, left, used = 0.0, number, 0
        for a in range(size):
            task = left % size
            wrong = data.codes[data.code_start[i] + a] >= 0 and data.codes[data.code_start[i] + a] != task
            value += scratch.scores[a * size + task] + (1.0 if wrong else 0.0)
            left, used = left // size, used | (1 << task)
        if used == (1 << size) - 1 and value > highest:
            best, highest = number, value
    for a in range(size):
        code[a], best = best % size, best // size
    return highest


@contract.add_statistics.register(Assignments)
def _(data, i, t, code, row):
    for a in range(contract.length(data, i)):
        row[a * contract.length(data, i) + code[a]] += t


@contract.scores_of_statistics.register(Assignments)
def _(data, i, W, row):
    for k in range(data.row_start[i + 1] - data.row_start[i]):
        row[k] = 0.0
        for j in range(W.size):
            row[k] += data.X[data.row_start[i] + k, j] * W[j]


@contract.add_features.register(Assignments)
def _(data, i, t, row, W):
    for k in range(data.row_start[i + 1] - data.row_start[i]):
        for j in range(W.size):
            W[j] += t * row[k] * data.X[data.row_start[i] + k, j]


@contract.loss_of.register(Assignments)
def _(data, i, code):
    total = 0.0
    for a in range(contract.length(data, i)):
        total += 1.0 if code[a] != data.codes[data.code_start[i] + a] else 0.0
    return total


@contract.loss_of_statistics.register(Assignments)
def _(data, i, row, at):
    size, total = contract.length(data, i), 0.0
    for a in range(size):
        for task in range(size):
            total += row[at + a * size + task] if task != data.codes[data.code_start[i] + a] else 0.0
    return total


@contract.weight_shape.register(Assignments)
def _(data):
    return (data.X.shape[1],)


@contract.output_of.register(Assignments)
def _(data, structure, i, code):
    return code.tolist()


class Matching(Compiled):
    """x has a row of features for each pair of a worker and a task, (size, size, features); y is the task of each worker."""

    def size(self, X, y):
        return X[0].shape[2]

    def encode(self, X, y):
        sizes = np.array([x.shape[0] for x in X])
        codes = np.full(sizes.sum(), -1) if y is None else np.concatenate(y)
        rows = np.concatenate([x.reshape(-1, x.shape[2]) for x in X]).astype(np.float64)
        return Assignments(rows, codes.astype(np.int32), starts(sizes), starts(sizes**2))

    def joint_feature(self, x, y):
        return x[np.arange(len(y)), np.asarray(y)].sum(axis=0)

    def loss(self, y_true, y):
        return float(np.sum(np.asarray(y_true) != np.asarray(y)))

    def every_output(self, x, y, most):
        return [list(tasks) for tasks in permutations(range(len(y)))]


def drawn(seed=0):
    rng = np.random.default_rng(seed)
    y = [rng.permutation(size).tolist() for size in (3, 2, 4, 3, 1)]
    X = [rng.normal(size=(len(tasks), len(tasks), 5)) for tasks in y]
    for x, tasks in zip(X, y, strict=True):
        x[np.arange(len(tasks)), tasks, 0] += 1.0
    return X, y


def test_the_structure_is_what_it_says():
    check_structure(Matching(), *drawn())


def test_what_follows_from_the_statistics():
    X, y = drawn()
    s, rng = Matching(), np.random.default_rng(1)
    data, w = s.encode(X, y), rng.normal(size=5)
    scratch = contract.new_scratch(data)
    assert contract.n_samples(data) == len(X) and contract.same_shapes(data, s.encode(X, y))
    for i in (2, 0, 4, 1):
        two = [rng.permutation(len(y[i])) for _ in range(2)]
        f, g = (s.joint_feature(X[i], tasks) for tasks in two)
        loss = [s.loss(y[i], tasks) for tasks in two]
        contract.prepare(data, i, w, scratch)
        assert contract.score_of(data, i, scratch, two[0]) == pytest.approx(w @ f)
        contract.against(data, i, scratch, two[1])
        assert contract.inner(data, i, scratch, two[0]) == pytest.approx(f @ g)
        contract.clear(data, i, scratch)
        contract.tally(data, i, 0.5, two[0], scratch)
        contract.tally(data, i, -0.75, two[1], scratch)
        change = 0.5 * f - 0.75 * g
        gain, square = contract.measure(data, i, scratch)
        assert gain == pytest.approx(w @ change + 0.5 * loss[0] - 0.75 * loss[1])
        assert square == pytest.approx(change @ change)
        moved = w.copy()
        contract.push(data, i, 2.0, scratch, moved)
        np.testing.assert_allclose(moved, w + 2.0 * change, atol=1e-12)


SOLVERS = {
    "outputs": "dual_coordinate",
    "mixtures": mm.FrankWolfe(steps="plain"),
    "mixtures, all samples at once": mm.FrankWolfe(block=False),
}


@pytest.mark.parametrize("solver", SOLVERS)
def test_optimum_is_that_of_a_convex_solver(solver):
    X, y = drawn()
    best, tol = optimum(tables(Matching(), X, y), np.full(len(X), 0.5)), 1e-3 if solver == "outputs" else 3e-2
    model = mm.StructuredSVM(Matching(), C=0.5, tol=tol, solver=SOLVERS[solver], keep_duals=True, random_state=0).fit(X, y)
    certificate = model.certificate_
    assert certificate.converged and certificate.dual <= best * (1 + 1e-7) and best * (1 - 1e-7) <= certificate.primal
    assert model.predict(X) == [model.structure_.decode(model.w_, x) for x in X]
    assert len(model.dual_coef_) == len(X)
    if solver != "outputs":  # tasks of each worker, and workers of each task
        shares = model.dual_coef_[2].reshape(4, 4)
        np.testing.assert_allclose([shares.sum(axis=0), shares.sum(axis=1)], 0.5)


def test_solvers_that_need_marginals_say_so():
    for solver in ("partial_linearization", "exponentiated_gradient"):
        with pytest.raises(TypeError, match="Assignments have no marginals"):
            mm.StructuredSVM(Matching(), solver=solver).fit(*drawn())
