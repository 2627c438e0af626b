"""Points of structured solvers after a run: as a user reads them, and as the start of another run."""

from typing import Any

import numpy as np

from ...problems.structured import StructuredProblem
from ...structures.encoded.contract import copied, follow, kind_of, output_of, statistics_of, truths
from .working_set import CODES, MASS, ROOM, SIZE, SLOT, Sets


@kind_of.register(Sets)
def _(points):
    return "sets"


@follow.register(Sets)
def _(points, before, after):
    old, sizes = truths(before)
    new = truths(after)[0]
    if np.any(sizes != 1):  # slots and codes are then not the same places
        return None
    result = copied(points)
    owner = np.repeat(np.arange(sizes.size), points.sample[:, ROOM])
    result.codes[points.codes == old[owner]] = new[owner][points.codes == old[owner]]
    result.codes[points.codes == new[owner]] = old[owner][points.codes == new[owner]]
    return result


def dual_coefficients(points: Any, problem: StructuredProblem, structure) -> list:
    """For each sample its distribution over outputs, times its weight C s_i; see StructuredSVM."""
    if isinstance(points, Sets):
        return [_outputs(points, problem, structure, i) for i in range(problem.n_examples)]
    return [statistics_of(points, problem.data, i, float(problem.cap[i])) for i in range(problem.n_examples)]


def _outputs(sets: Sets, problem: StructuredProblem, structure, i: int) -> list:
    length, found = truths(problem.data)[1][i], []
    for j in range(sets.sample[i, SIZE]):
        mass = sets.slots[sets.sample[i, SLOT] + j, MASS]
        if mass > 0.0:
            code = sets.codes[sets.sample[i, CODES] + j * length :][:length]
            found.append((output_of(problem.data, structure, i, code), float(problem.cap[i] * mass)))
    return found
