"""Pictures of a run. matplotlib is an extra and is imported only when a picture is drawn."""

from collections.abc import Sequence
from typing import Any

from ..result import Record

AXES = {"seconds": "seconds", "iteration": "passes over the data"}


def pyplot():
    """matplotlib.pyplot, or one sentence that says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        raise ImportError("Plots need matplotlib, which is not installed: pip install 'maxmargin[plot]'.") from None
    return plt


def plot_certificate(history: Sequence[Record], ax: Any = None, against: str = "seconds") -> Any:
    """Primal and dual values against "seconds" or "iteration", closing in on the optimum from both sides; returns the axes."""
    if not history:
        raise ValueError("The history is empty: there is nothing to plot.")
    if against not in AXES:
        raise ValueError(f"against must be 'seconds' or 'iteration', not {against!r}.")
    ax = pyplot().gca() if ax is None else ax
    at = [getattr(record, against) for record in history]
    ax.fill_between(at, [r.dual for r in history], [r.primal for r in history], alpha=0.15, label="the optimum is here")
    ax.plot(at, [r.primal for r in history], marker="o", label="primal (upper bound)")
    ax.plot(at, [r.dual for r in history], marker="o", label="dual (lower bound)")
    ax.set_xlabel(AXES[against])
    ax.set_ylabel("objective")
    ax.legend()
    return ax
