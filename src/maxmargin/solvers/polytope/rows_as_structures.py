"""A multiclass problem as a structured one: every sample a single node. Weights have the same layout in both."""

from dataclasses import replace

import numpy as np

from ...jit import vectors
from ...problems.linear import BlockProblem
from ...problems.structured import StructuredProblem
from ...result import Result
from ...structures.encoded import contract
from ...structures.encoded.forest import TreeMarginals
from ...structures.encoded.graphs import FLOOR, LABEL, Graphs
from ...structures.encoded.points import Mixtures
from ...structures.encoded.rooted import alone
from ...structures.encoded.statistics import within
from .sets import CODES, MASS, SIZE, SLOT, Sets, empty, refresh


def structured(problem: BlockProblem) -> StructuredProblem:
    n, K = problem.n_examples, problem.n_classes
    cost = vectors.table(vectors.pack(np.vstack([problem.cost, np.zeros((1, K))]), np.float64, fill=vectors.NEVER))
    sample = np.stack([np.arange(n + 1), np.zeros(n + 1, np.int64), np.arange(n + 1)], axis=1)
    node = np.zeros((n, 3), np.int32)
    node[:, LABEL] = problem.label
    shape = K, 0, problem.weight_shape[0]
    graphs = Graphs(problem.X, sample, np.zeros((0, 3), np.int32), node, cost, np.ones(n), problem.curvature, *shape)
    return StructuredProblem(alone(graphs), problem.weight, problem.C)


def distributions(problem: BlockProblem, duals: np.ndarray) -> np.ndarray:
    """The distribution over classes that rows of duals stand for."""
    cap = np.where(problem.cap > 0, problem.cap, 1.0)
    p = -duals / cap[:, None]
    p[np.arange(len(p)), problem.label] += 1.0
    p = np.maximum(p, 0.0)
    return p / p.sum(axis=1, keepdims=True)


def points(problem: BlockProblem, duals: np.ndarray, kind: str):
    """Points of a kind for a hot start."""
    p, data = distributions(problem, duals), structured(problem).data
    if kind == "sets":
        used = p > 0
        sets = empty(np.ones(len(p), np.int64), np.maximum(2 * used.sum(axis=1), 4))
        sample, label = np.nonzero(used)
        place = np.arange(sample.size) - np.concatenate([[0], np.cumsum(used.sum(axis=1))])[sample]
        sets.sample[:, SIZE] = used.sum(axis=1)
        sets.slots[sets.sample[sample, SLOT] + place, MASS] = p[sample, label]
        sets.codes[sets.sample[sample, CODES] + place] = label
        return refresh(sets, data)
    found = contract.vertices(data) if kind == "mixtures" else contract.interior(data, 1.0)
    class_masses(found, problem)[...] = p if kind == "mixtures" else np.maximum(p, FLOOR)
    return found


def class_masses(points: Mixtures | TreeMarginals, problem: BlockProblem) -> np.ndarray:
    """Where points keep the distributions over classes: samples without edges have no other statistics."""
    table = points.rows.reshape(problem.n_examples, -1) if isinstance(points, Mixtures) else points.node.flat
    return table[:, : problem.n_classes]


def with_rows(result: Result, problem: BlockProblem) -> Result:
    """The result with the duals of the multiclass problem: rows that sum to zero, up to the rounding of the masses.

    The entry of the label is what its own mass leaves, or of sets the sum of the others, as where points `depart` from the true
    output: so the rows give the weights of the result.
    """
    found, n, K = result.duals, problem.n_examples, problem.n_classes
    p, own = np.zeros((n, K)), (np.arange(n), problem.label)
    if isinstance(found, Sets):
        size = found.sample[:, SIZE]
        codes = found.codes[within(found.sample[:, CODES], size)]
        np.add.at(p, (np.repeat(np.arange(n), size), codes), found.slots[within(found.sample[:, SLOT], size), MASS])
        p[own] = 0.0
        p[own] = -p.sum(axis=1)
    else:
        assert isinstance(found, Mixtures | TreeMarginals)
        p[:] = class_masses(found, problem)
        p[own] -= 1.0
    return replace(result, duals=-p * problem.cap[:, None])
