"""Solvers. A new solver is one new file and one line in `NAMES`; `loop` is the one outer loop."""

from .ascent import kernel  # noqa: F401 - lets DualCoordinate serve kernels
from .bundle import Bundle
from .dual_coordinate import DualCoordinate
from .exponentiated_gradient import ExponentiatedGradient
from .frank_wolfe import FrankWolfe
from .online import OnlineDual
from .partial_linearization import PartialLinearization
from .polytope import working_set  # noqa: F401 - lets it serve structures

NAMES = {
    "auto": DualCoordinate,
    "dual_coordinate": DualCoordinate,
    "partial_linearization": PartialLinearization,
    "frank_wolfe": FrankWolfe,
    "exponentiated_gradient": ExponentiatedGradient,
    "bundle": Bundle,
    "online": OnlineDual,
}


def resolve(solver):
    """A solver object from a short name, or the object itself."""
    if isinstance(solver, str):
        if solver not in NAMES:
            raise ValueError(f"Unknown solver {solver!r}; known names are {', '.join(sorted(NAMES))}.")
        return NAMES[solver]()
    if not hasattr(solver, "solve") or not hasattr(solver, "accepts"):
        raise TypeError(f"solver must be one of {', '.join(sorted(NAMES))} or a solver object, got {solver!r}.")
    return solver
