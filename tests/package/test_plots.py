"""Pictures, and the demonstration that draws one."""

import runpy
import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

import maxmargin as mm
from maxmargin import plots


@pytest.fixture(autouse=True)
def unseen():
    """Nothing opens a window, and no figure is left."""
    before = matplotlib.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(before)


HISTORY = mm.History([mm.Record(1, 0.5, 4.0, 1.0, 3.0), mm.Record(2, 0.75, 3.0, 2.0, 1.0), mm.Record(4, 2.0, 2.5, 2.5, 0.0)])


@pytest.mark.parametrize(
    ("against", "at", "label"), [("seconds", [0.5, 0.75, 2.0], "seconds"), ("iteration", [1, 2, 4], "passes over the data")]
)
def test_plot_certificate(against, at, label):
    """Both bounds as lines, the room between them filled, and words for each."""
    _, ax = plt.subplots()
    assert plots.plot_certificate(HISTORY, ax, against=against) is ax
    primal, dual = ax.lines
    np.testing.assert_array_equal(primal.get_xydata(), np.column_stack([at, [4.0, 3.0, 2.5]]))
    np.testing.assert_array_equal(dual.get_xydata(), np.column_stack([at, [1.0, 2.0, 2.5]]))
    [between] = ax.collections
    corners = between.get_paths()[0].vertices
    assert {(at[0], 1.0), (at[0], 4.0), (at[1], 2.0), (at[1], 3.0)} <= set(map(tuple, corners.tolist()))
    assert (ax.get_xlabel(), ax.get_ylabel()) == (label, "objective")
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert sorted(words) == ["dual (lower bound)", "primal (upper bound)", "the optimum is here"]
    assert (primal.get_label(), dual.get_label(), between.get_label()) == (
        "primal (upper bound)",
        "dual (lower bound)",
        "the optimum is here",
    )


def test_plot_certificate_without_axes_draws_on_the_present_ones():
    ax = plt.gca()
    assert plots.plot_certificate(HISTORY) is ax and ax.get_xlabel() == "seconds"


def test_plot_certificate_refuses():
    with pytest.raises(ValueError, match="The history is empty"):
        plots.plot_certificate(mm.History())
    with pytest.raises(ValueError, match="against must be 'seconds' or 'iteration', not 'hours'"):
        plots.plot_certificate(HISTORY, against="hours")


def test_every_plot_is_tested_here():
    public = {name for name, thing in vars(plots).items() if getattr(thing, "__module__", "") == plots.__name__}
    assert public == {"plot_certificate", "pyplot"}


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"Plots need matplotlib, .* pip install 'maxmargin\[plot\]'"):
        plots.plot_certificate(HISTORY)


def test_a_matplotlib_that_cannot_be_loaded_says_why(monkeypatch):
    class Broken:
        def find_spec(self, name, path=None, target=None):
            if name == "matplotlib.pyplot":
                raise ImportError("a library it was built against is too old")

    monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
    monkeypatch.delattr(matplotlib, "pyplot")
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(ImportError, match="too old"):
        plots.pyplot()


@pytest.mark.compiled
def test_demo_without_matplotlib(tmp_path, monkeypatch, capsys):
    """One line on stderr in the place of the picture; all else is as with it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setattr(sys, "argv", ["maxmargin.demo"])
    runpy.run_module("maxmargin.demo", run_name="__main__")
    told = capsys.readouterr()
    assert "accuracy on the test images" in told.out and "Picture" not in told.out and not list(tmp_path.iterdir())
    assert told.err == "No picture: Plots need matplotlib, which is not installed: pip install 'maxmargin[plot]'.\n"


@pytest.mark.compiled
def test_demo(tmp_path, monkeypatch, capsys):
    """As `python -m maxmargin.demo`: it prints a certificate that closes and draws both bounds and ten images of weights."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["maxmargin.demo"])
    drawn = []
    monkeypatch.setattr(plt, "close", drawn.append)
    names = runpy.run_module("maxmargin.demo", run_name="__main__")
    monkeypatch.undo()

    lines = capsys.readouterr().out.splitlines()
    figures = {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith(("  primal", "  dual", "  gap"))}
    assert figures["gap"] == pytest.approx(figures["primal"] - figures["dual"], abs=2e-6)
    assert 0.0 < figures["gap"] <= 1e-4 * figures["primal"] and any("<= tol=0.0001" in line for line in lines)
    [accuracy] = [float(line.split()[-1]) for line in lines if "accuracy" in line]
    assert accuracy > 0.9 and lines[-1] == "Picture: demo.png" and names["__name__"] == "__main__"

    picture = plt.imread(tmp_path / "demo.png")
    assert picture.shape[0] > 300 and picture.shape[1] > 800
    assert len(np.unique(picture.reshape(-1, picture.shape[2]), axis=0)) > 200  # axes, lines and shades, not an empty sheet
    [figure] = [closed for closed in drawn if isinstance(closed, Figure)]  # matplotlib 3.8 closes "all" when it starts
    assert len(figure.get_axes()) == 1 + 10
    primal, dual = (line.get_ydata() for line in figure.get_axes()[0].lines)
    assert len(primal) > 3 and primal[-1] - dual[-1] <= 1e-4 * primal[-1] and np.all(dual <= primal)
    images = [ax.images[0].get_array() for ax in figure.get_axes()[1:]]
    assert all(image.shape == (8, 8) and np.ptp(image) > 0.0 for image in images)
