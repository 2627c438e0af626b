"""Points of structured solvers after a run: as a user reads them, and as the start of another run."""

from typing import Any

from ...problems.structured import StructuredProblem
from ...structures.encoded import contract
from .sets import CODES, MASS, SIZE, SLOT, Sets


def dual_coefficients(points: Any, problem: StructuredProblem, structure) -> list:
    """For each sample its distribution over outputs, times its weight C s_i; see StructuredSVM."""
    if isinstance(points, Sets):
        return [_outputs(points, problem, structure, i) for i in range(problem.n_examples)]
    return [contract.statistics_of(points, problem.data, i, float(problem.cap[i])) for i in range(problem.n_examples)]


def _outputs(sets: Sets, problem: StructuredProblem, structure, i: int) -> list:
    length, found = contract.truths(problem.data)[1][i], []
    for j in range(sets.sample[i, SIZE]):
        mass = sets.slots[sets.sample[i, SLOT] + j, MASS]
        if mass > 0.0:
            code = sets.codes[sets.sample[i, CODES] + j * length :][:length]
            found.append((contract.output_of(problem.data, structure, i, code), float(problem.cap[i] * mass)))
    return found
