"""A run that resumes the snapshot of another goes on in the same way."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.every_problem import COST, LABEL, WEIGHT, K, N, X, problem_of
from helpers.structured import Brackets, bits, words

import maxmargin as mm
from maxmargin import losses
from maxmargin.data.sources.memory import Arrays
from maxmargin.data.table import table_of
from maxmargin.problems.blocked import streamed
from maxmargin.problems.linear import BlockProblem
from maxmargin.problems.structured import SampleStream, StructuredProblem
from maxmargin.regularizers.prior import Prior
from maxmargin.solvers.base import NOWHERE, Setting
from maxmargin.structures import Chain

SOLVERS = {
    "dual coordinate": mm.DualCoordinate(),
    "pairwise": mm.FrankWolfe(),
    "plain": mm.FrankWolfe(steps="plain"),
    "linearization": mm.PartialLinearization(),
    "bundle": mm.Bundle(),
    "newton": mm.Newton(),
    "online": mm.OnlineDual(),
    "a small cache": mm.OnlineDual(cache_size=0.001, prune="zero"),
}
CASES = [
    *((name, "dual coordinate") for name in ("HingeLoss", "CrammerSingerLoss", "TopKAlphaLoss", "explicit", "Chain")),
    *((name, "dual coordinate") for name in ("kernel", "kernel blocks", "kernel rows")),
    *(("Chain", solver) for solver in ("pairwise", "plain", "linearization", "bundle", "online")),
    ("CrammerSingerLoss", "bundle"),
    *((name, solver) for name in ("stream", "rows in blocks", "half-spaces in blocks") for solver in ("online", "a small cache")),
    *(("python", solver) for solver in ("dual coordinate", "pairwise", "plain", "linearization", "bundle", "online")),
    *((name, "online") for name in ("words in blocks", "python in blocks")),
    ("LogisticLoss", "dual coordinate"),
    ("MultinomialLoss", "dual coordinate"),
    *(
        (name, "newton")
        for name in ("HingeLoss", "EpsilonInsensitiveLoss", "SquaredHingeLoss", "LogisticLoss", "CrammerSingerLoss")
    ),
    *((name, "newton") for name in ("one label", "coupled labels", "TopKAlphaLoss")),
]


class Bits(Brackets):
    """With marginals: the probabilities of the four outputs."""

    every = ((0, 0), (0, 1), (1, 0), (1, 1))

    def marginals(self, w, x, y_true, temperature, base=None):
        worth = np.array([w @ self.joint_feature(x, y) + self.loss(y_true, y) for y in self.every])
        logs = worth / temperature + (0.0 if base is None else np.log(np.maximum(base, 1e-300)))
        found = np.exp(logs - logs.max())
        return found / found.sum()

    def expect(self, x, y_true, m):
        feature = sum(p * self.joint_feature(x, y) for p, y in zip(m, self.every, strict=True))
        return feature, float(sum(p * self.loss(y_true, y) for p, y in zip(m, self.every, strict=True)))


def encoded(structure, samples, outputs):
    structure.size(samples, outputs)
    return StructuredProblem(structure.encode(samples, outputs), np.ones(len(samples)))


def sample_stream(structure, samples, outputs):
    """Blocks of five samples."""
    blocks = [(samples[k : k + 5], outputs[k : k + 5]) for k in range(0, len(samples), 5)]
    whole = encoded(structure, samples, outputs)
    return SampleStream(mm.Samples(blocks), structure, len(samples), whole.weight_shape, whole.bound)


def row_stream(prior):
    """Blocks of seven rows, three classes."""
    data, regularizer, half_spaces = prior.checked(X.shape[1], K).applied(X, K)
    problem = BlockProblem(table_of(data, 1.0), LABEL, WEIGHT, COST, losses.CrammerSingerLoss(), regularizer, half_spaces)
    source = Arrays(problem.table.matrix, np.arange(N), WEIGHT, block=7)
    return replace(streamed(problem), source=source)


OTHERS = {
    "one label": lambda: problem_of("MultilabelHingeLoss").whole(),
    "coupled labels": lambda: replace(problem_of("MultilabelHingeLoss"), R=np.eye(K) + 0.5).whole(),
    "python": lambda: encoded(Bits(), *bits()),
    "words in blocks": lambda: sample_stream(Chain(n_labels=3), *words()),
    "python in blocks": lambda: sample_stream(Bits(), *bits()),
    "rows in blocks": lambda: row_stream(Prior(False, None, None, None)),
    "half-spaces in blocks": lambda: row_stream(Prior(True, None, None, np.eye(4) + 0.5)),
}


def posed(name):
    """A problem of its own for each run: samples of a structure in Python remember what outputs they met."""
    return OTHERS[name]().at(0.3) if name in OTHERS else problem_of(name)


def go(run, passes):
    for _ in range(passes):
        run.advance(lambda: False)
        run.accelerate()


@pytest.mark.parametrize(("name", "solver"), CASES)
def test_a_resumed_run_goes_on(name, solver):
    """To the last digit, whatever was resumed: seven passes, then five more by the same run and by another."""
    solver = SOLVERS[solver]
    solver.check()
    first, second = (solver.begin(posed(name), NOWHERE, Setting(1e-9, seed)) for seed in (1, 2))
    go(first, 7)
    state = first.snapshot()
    assert all(isinstance(value, np.ndarray | np.generic | float | int | str) for value in state.values())
    kept = {key: np.array(value) for key, value in state.items()}
    second.resume(state)
    go(first, 5)
    go(second, 5)
    assert first.passes == second.passes == 12 and first.visits == second.visits
    assert first.synchronise() == second.synchronise()
    for one, two in zip(first.candidates(), second.candidates(), strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, two)
    for key, value in kept.items():
        np.testing.assert_array_equal(state[key], value, err_msg=f"{key} was changed by the run")
    first.close(), second.close()


def test_outputs_that_are_no_numbers():
    """A user's outputs may be anything; a snapshot is made of arrays, numbers and texts."""

    class Wrapped(Brackets):
        """An output is the set of the bits that are one."""

        def joint_feature(self, x, y):
            return super().joint_feature(x, pair(y))

        def loss(self, y_true, y):
            return super().loss(pair(y_true), pair(y))

        def loss_augmented_decode(self, w, x, y_true):
            return frozenset(np.flatnonzero(super().loss_augmented_decode(w, x, y_true)).tolist())

    def pair(y):
        return (int(0 in y), int(1 in y)) if isinstance(y, frozenset) else y

    samples, outputs = bits()
    problem = encoded(Wrapped(), samples, [frozenset(np.flatnonzero(output).tolist()) for output in outputs])
    run = mm.FrankWolfe().begin(problem, NOWHERE, Setting())
    go(run, 1)
    with pytest.raises(TypeError, match=r"met.\d+.1 is a frozenset, which is not made of arrays and numbers"):
        run.snapshot()
