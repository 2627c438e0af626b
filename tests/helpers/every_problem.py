"""Small problems of every kind, which the contracts walk over."""

from functools import cache

import numpy as np

import maxmargin as mm
from maxmargin import losses, structures
from maxmargin.data.gram import gram_of
from maxmargin.data.indicators import checked_labels
from maxmargin.data.kernel_functions import function_of
from maxmargin.data.table import table_of
from maxmargin.problems.base import Problem
from maxmargin.problems.blocked import streamed
from maxmargin.problems.kernel import KernelRowProblem, KernelScalarProblem
from maxmargin.problems.linear import BlockProblem, ScalarProblem
from maxmargin.problems.multilabel import MultilabelProblem
from maxmargin.problems.structured import StructuredProblem

C = 0.3
rng = np.random.default_rng(5)
N, K = 30, 3
X = rng.normal(size=(N, 4))
SCORES = X @ rng.normal(size=(4, K)) + 0.3 * rng.normal(size=(N, K))
WEIGHT = rng.integers(0, 4, N).astype(float)
LABEL, SIGN = SCORES.argmax(axis=1), np.where(SCORES[:, 0] > 0, 1.0, -1.0)
TABLE, COST = table_of(X, 1.0), 1.0 - np.eye(K)
KERNEL = function_of("rbf", 0.3, 3, 0.0)


def of_loss(kind: type) -> Problem:
    """A small problem with this loss, at C = 1."""
    if issubclass(kind, losses.BinaryLoss):
        return ScalarProblem(TABLE, kind(), (SIGN, np.ones(N)), WEIGHT)
    if issubclass(kind, losses.RegressionLoss):
        return ScalarProblem(TABLE, kind(), (SCORES[:, 0],), WEIGHT)
    if issubclass(kind, losses.MulticlassLoss):
        return BlockProblem(TABLE, LABEL, WEIGHT, COST, kind(2) if "k" in kind().get_params() else kind())
    columns = checked_labels((SCORES > 0).astype(int)).columns
    return MultilabelProblem(TABLE, columns, WEIGHT, np.ones((K, 2)), np.ones((K, 2)), kind())


def samples_of(kind: type) -> tuple[structures.Structure, list, list]:
    """A structure with a few samples."""
    if kind is structures.Multiclass:
        return kind(), list(X), list(LABEL)
    if kind is structures.Chain:
        return kind(), [X[k : k + 3] for k in range(0, N, 3)], [LABEL[k : k + 3] for k in range(0, N, 3)]
    if kind is structures.Tree:
        edges = np.array([[0, 1], [0, 2]])
        return kind(), [(X[k : k + 3], edges) for k in range(0, N, 3)], [LABEL[k : k + 3] for k in range(0, N, 3)]
    if kind is structures.Graph:
        edges = np.array([[0, 1], [1, 2], [2, 0]])
        return kind(), [(X[k : k + 3], edges) for k in range(0, N, 3)], [LABEL[k : k + 3] for k in range(0, N, 3)]
    if kind is structures.Segmentation:
        lines = [X[k : k + 5] for k in range(0, N, 5)]
        return (
            kind({"a": (2, 3), "b": (2, 3)}),
            lines,
            [[("ab"[int(line[0, 0] > 0)], 2), ("ab"[int(line[2, 0] > 0)], 3)] for line in lines],
        )
    pictures = [rng.normal(size=(3, 4, 2)) for _ in range(6)]
    return kind([(0, 1)], 3), pictures, [np.array([[1, 1], [1, 2]])] * 6


@cache
def problem_of(name: str) -> Problem:
    if name in LOSSES:
        return of_loss(LOSSES[name]).at(C)
    if name in STRUCTURES:
        structure, samples, outputs = samples_of(STRUCTURES[name])
        structure.size(samples, outputs)
        return StructuredProblem(structure.encode(samples, outputs), np.ones(len(samples))).at(C)
    if name == "explicit":
        return mm.ExplicitProblem(X, rng.uniform(0, 1, N), np.arange(N) // 3).posed.at(C)
    if name == "kernel":
        sign = np.where(SCORES.T > 0, 1.0, -1.0).ravel()
        gram = gram_of(KERNEL, X)
        return KernelScalarProblem(gram, losses.HingeLoss(), (sign, np.ones(K * N)), np.tile(WEIGHT, K), None, 1.0).at(C)
    if name == "kernel regression":
        return KernelScalarProblem(gram_of(KERNEL, X), losses.EpsilonInsensitiveLoss(), (SCORES[:, 0],), WEIGHT, None, 1.0).at(C)
    if name == "kernel blocks":
        return KernelScalarProblem(gram_of(KERNEL, X), losses.LogisticLoss(), (SIGN, np.ones(N)), WEIGHT, None, 1.0).at(C)
    if name == "kernel rows":
        return KernelRowProblem(gram_of(KERNEL, X), losses.CrammerSingerLoss(), LABEL, WEIGHT, COST, 1.0).at(C)
    return streamed(of_loss(losses.HingeLoss)).at(C)


LOSSES = {kind.__name__: kind for kind in losses.ALL}
STRUCTURES = {kind.__name__: kind for kind in structures.ALL}
NAMES = [*LOSSES, *STRUCTURES, "explicit", "kernel", "kernel regression", "kernel blocks", "kernel rows", "stream"]
