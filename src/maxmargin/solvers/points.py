"""Points of structured solvers after a run: as a user reads them, and as the start of another run."""

from typing import Any

import numpy as np

from ..structured import StructuredProblem
from ..structures.base import truths, weight_shape
from ..structures.custom import Custom, CustomMarginals, CustomMixtures
from ..structures.graphs import Mixtures
from .working_set import CODES, MASS, SIZE, SLOT, Sets


def fits(points: Any, data: Any, problem: StructuredProblem, solver) -> bool:
    """Whether these points, found on `data`, can start `solver` on this problem: of its kind, samples of the same shapes."""
    wanted = getattr(solver, "kind_of_points", None)
    if wanted is None or points is None or kind_of(points) != wanted():
        return False
    if isinstance(data, Custom):
        return data is problem.data  # outputs in plain Python are known to their own samples only
    if type(data) is not type(problem.data) or weight_shape(data) != problem.weight_shape:
        return False
    old, new = data.graphs, problem.data.graphs
    same = ("start", "edges", "source", "target", "kind")
    return old.labels == new.labels and all(np.array_equal(getattr(old, name), getattr(new, name)) for name in same)


def kind_of(points: Any) -> str:
    if isinstance(points, Sets):
        return "sets"
    return "mixtures" if type(points) in (Mixtures, CustomMixtures) else "marginals"


def dual_coefficients(points: Any, problem: StructuredProblem, structure) -> list:
    """For each sample its distribution over outputs, times its weight C s_i; see StructuredSVM."""
    if isinstance(points, Sets):
        return [_outputs(points, problem, structure, i) for i in range(problem.n_examples)]
    if isinstance(points, CustomMarginals):
        return [structure.mix(m, m, 0.0) for m in points.marginals]
    if isinstance(points, CustomMixtures):
        return [{"feature": feature, "loss": loss} for feature, loss in zip(points.feature, points.loss, strict=True)]
    g, K = problem.data.graphs, problem.data.graphs.labels
    found = []
    for i in range(problem.n_examples):
        nodes = slice(g.start[i], g.start[i + 1])
        marginals = np.empty((nodes.stop - nodes.start, K))
        marginals[g.order[nodes]] = points.node.flat[nodes, :K]
        entry = {"node": problem.cap[i] * marginals}
        if isinstance(points, Mixtures):
            size = max(g.kinds * K, 1)
            pair = points.pair.flat[i * size : i * size + g.kinds * K, :K].reshape(g.kinds, K, K)
            entry["pair"] = problem.cap[i] * pair
        found.append(entry)
    return found


def _outputs(sets: Sets, problem: StructuredProblem, structure, i: int) -> list:
    length, found = truths(problem.data)[1][i], []
    for j in range(sets.sample[i, SIZE]):
        mass = sets.slots[sets.sample[i, SLOT] + j, MASS]
        if mass > 0.0:
            code = sets.codes[sets.sample[i, CODES] + j * length :][:length]
            found.append((_output(problem.data, structure, i, code), float(problem.cap[i] * mass)))
    return found


def _output(data, structure, i: int, code: np.ndarray):
    if isinstance(data, Custom):
        return data.known[i][int(code[0])].output
    labels = np.empty(code.size, np.int64)
    labels[data.graphs.order[data.graphs.start[i] : data.graphs.start[i + 1]]] = code
    return structure._outputs(structure.labels_[labels], np.array([0, code.size]))[0]
