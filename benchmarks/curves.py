"""A picture of each setting: dual suboptimality and gap against seconds and against passes' worth of oracle calls."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .structured import Setting

FOLDER = Path(__file__).with_name("figures")
MOST_POINTS = 150  # of a curve
COLORS = 64  # of the saved picture
LEAST = 1e-6  # suboptimality below which a curve is cut off


def thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most so many points, evenly spread on a logarithmic axis"""
    keep = np.unique(np.geomspace(1, x.size, min(x.size, MOST_POINTS)).astype(int) - 1)
    return x[keep], y[keep]


def draw(setting: "Setting") -> str | None:
    """Save the picture of this setting; returns its file name, None where there is no matplotlib."""
    try:
        from matplotlib import colormaps
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from PIL import Image  # matplotlib needs it too
    except ImportError:
        print("\nskipped figures: matplotlib is not installed", flush=True)
        return None
    figure = Figure(figsize=(10, 7.5), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2, sharey="row", sharex="col")
    colors = colormaps["tab20"]
    for k, one in enumerate(setting.traces.values()):
        seconds = np.array([point.seconds for point in one.points])
        passes = np.array([point.calls for point in one.points]) / setting.n
        dual = np.array([point.dual for point in one.points])
        primal = np.array([point.primal for point in one.points])
        below = np.maximum((setting.dual - dual) / abs(setting.dual), LEAST)
        gap = np.maximum((primal - dual) / np.abs(primal), LEAST)
        for column, x in enumerate((seconds, passes)):
            for row, y in enumerate((below, gap)):
                axes[row, column].loglog(*thinned(x, y), color=colors(k % 20), lw=1.1, label=one.name)
    for row, text in enumerate(("dual suboptimality", "relative gap")):
        axes[row, 0].set_ylabel(text)
        for column in range(2):
            axes[row, column].grid(alpha=0.3)
            axes[row, column].set_ylim(1e-4, 1.0)
    axes[1, 0].set_xlabel("processor seconds")
    axes[1, 1].set_xlabel("oracle calls / samples")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    figure.suptitle(f"{setting.workload}, lam = {setting.lam:g}")
    figure.set_dpi(75)
    canvas.draw()
    FOLDER.mkdir(exist_ok=True)
    name = f"{setting.workload}_{setting.lam:g}.png"
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    picture.quantize(COLORS).save(FOLDER / name, optimize=True)
    return name


def pictured(name: str, columns: int, draw: Callable[[Any], None]) -> str | None:
    """Save a picture of so many axes; None where there is no matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        print("\nskipped figure: matplotlib is not installed", flush=True)
        return None
    picture = Figure(figsize=(5 * columns, 3.4), layout="constrained")
    FigureCanvasAgg(picture)
    axes = np.atleast_1d(picture.subplots(1, columns))
    draw(axes)
    for axis in axes:
        axis.grid(alpha=0.3)
    FOLDER.mkdir(exist_ok=True)
    picture.savefig(FOLDER / name, dpi=75)
    return name
