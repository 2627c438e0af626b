"""Multi-label: growth of time with labels and samples, progress, and the two schedules; its other parts have files beside it.

Times are processor seconds of one thread; of ours, of whole certified fits.
"""

import time
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import maxmargin as mm
from maxmargin.data import rows
from maxmargin.data.rows import add, dot
from maxmargin.jit import kernel

from . import multilabel_peers, multilabel_priors
from .curves import pictured
from .multilabel_peers import LAMS, TOL, certified
from .multilabel_sets import FREQUENT, found, frequent, made
from .multilabel_thresholds import thresholds
from .report import Report, figure, table

SCHEDULES = ("yeast", "tmc2007_500", "rcv1_subset1")
EXPONENT = 1.2
NAMES = {"I": "R = I", "dense": "dense R"}
RIDGE = 0.1


# ---- growth ------------------------------------------------------------------------------------------------


def exponent(x, y) -> float:
    """The slope of log y against log x"""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def growth(report: Report, quick: bool, limit: float, repeat: int) -> None:
    """Time against labels and samples, R = I and R = correlation of the labels + 0.1 I."""
    counts = (10, 20, 40) if quick else (10, 20, 40, 80, 160)
    sizes = (500, 1_000, 2_000) if quick else (5_000, 10_000, 20_000, 40_000)
    d, many, C = 50, 1_000 if quick else 10_000, 1.0
    whole = made(max(*sizes, many), d, counts[-1])
    lines, verdicts, series = [], [], {}
    for kind in ("I", "dense"):
        for axis, values in (("labels", counts), ("samples", sizes)):
            times = []
            for value in values:
                n, labels = (many, value) if axis == "labels" else (value, 20)
                X, Y = whole.X[:n], whole.Y[:n, :: counts[-1] // labels][:, :labels]
                R = None if kind == "I" else mm.label_correlation(Y, RIDGE)
                spent, model = certified(X, Y, C, limit, repeat, R)
                times.append(spent)
                done = model.certificate_.converged
                cells = [figure(spent) if done else f"> {figure(spent)}", str(model.n_iter_)]
                lines.append([NAMES[kind], str(n), str(labels), *cells])
            series[kind, axis] = values, times
            keep = [k for k, value in enumerate(values) if axis == "samples" or value >= 20]
            slope = exponent(np.array(values)[keep], np.array(times)[keep])
            asked = f", at most {EXPONENT} asked for: {'holds' if slope <= EXPONENT else 'FAILS'}" if axis == "labels" else ""
            verdicts.append(f"- {NAMES[kind]}, time against {axis}: exponent {slope:.2f}{asked}.")
    head = ["prior", "n", "labels", "s", "passes"]
    text = f"Synthetic, {d} dense features, C = {C:g}, to a certified gap of {TOL:g}. "
    text += f"Dense R: correlation of the labels + {RIDGE} I."
    parts = [text, table(head, lines), "\n".join(verdicts)]

    def draw(axes) -> None:
        for axis, name in zip(axes, ("labels", "samples"), strict=True):
            for kind in ("I", "dense"):
                axis.loglog(*series[kind, name], marker="o", ms=3, label=f"R: {kind}")
            axis.set_xlabel(name)
            axis.set_ylabel("processor seconds")
            axis.legend()

    if (picture := pictured("multilabel_growth.png", 2, draw)) is not None:
        parts.append(f"![time against labels and samples](figures/{picture})")
    report.section("multilabel: growth", "\n\n".join(parts))


# ---- the other schedule --------------------------------------------------------------------------------------


@kernel
def along_a_label(X, sign, cap, duals, order, norms, scale, v, z):
    """Exact steps of one label's duals, in this order; z follows by this label's own part of R alone."""
    for k in range(order.size):
        i = order[k]
        a = duals[i]
        slope = 1.0 - sign[i] * dot(X, i, z)
        new = min(max(a + slope / (scale * norms[i]), 0.0), cap)
        if new != a:
            t = sign[i] * (new - a)
            add(X, i, t, v)
            add(X, i, scale * t, z)
            duals[i] = new


class Stand(NamedTuple):
    """Where a run is: processor seconds, passes and dual value"""

    seconds: float
    passes: int
    dual: float


def label_wise(X, Y: np.ndarray, C: float, R: np.ndarray) -> Iterator[Stand]:
    """Runs along one label after the other, in random order; a pass at a time"""
    data, rng = rows.rows(X, 1.0, 0.2), np.random.default_rng(0)
    norms = np.empty(len(Y))
    rows.squared_norms(data, np.empty(0), norms)
    signs, duals = np.where(Y.T > 0, 1.0, -1.0), np.zeros(Y.T.shape)
    V, Z = np.zeros((Y.shape[1], X.shape[1] + 1)), np.zeros((Y.shape[1], X.shape[1] + 1))
    along_a_label(data, signs[0], C, duals[0], np.arange(0), norms, 1.0, V[0], Z[0])  # compiles it
    seconds, passes = 0.0, 0
    while True:
        begin = time.process_time()
        for label in rng.permutation(Y.shape[1]):
            old = V[label].copy()
            order = rng.permutation(len(Y))
            along_a_label(data, signs[label], C, duals[label], order, norms, R[label, label], V[label], Z[label])
            others = np.where(np.arange(len(R)) == label, 0.0, R[label])
            Z += np.outer(others, V[label] - old)
        seconds, passes = seconds + time.process_time() - begin, passes + 1
        yield Stand(seconds, passes, float(duals.sum()) - 0.5 * float(np.vdot(V, R @ V)))


def until(stands: Iterator[Stand], goal: float, limit: float) -> list[Stand]:
    """As far as the first that has this dual value, or that took this long"""
    found = [next(stands)]
    while found[-1].dual < goal and found[-1].seconds < limit:
        found.append(next(stands))
    return found


def schedules(report: Report, quick: bool, limit: float, repeat: int) -> None:
    """Labels of a sample together, as here, beside the paper's runs along one label."""
    lines = []
    for name in SCHEDULES[:1] if quick else SCHEDULES:
        if (whole := found(name)) is None:
            continue
        split = frequent(whole)
        C = 1.0 / (LAMS[0] * len(split.Y))
        own, _ = certified(split.X, split.Y, C, limit, repeat)
        mm.SVMClassifier(C, tol=1e-6, max_iter=20).fit(split.X, split.Y[:, 0])  # compiles what there is to compile
        other = 0.0
        for label in split.Y.T:
            model = mm.SVMClassifier(C, tol=TOL, random_state=0)
            begin = time.process_time()
            model.fit(split.X, label)
            other += time.process_time() - begin
        lines.append([name, NAMES["I"], figure(own), figure(other), figure(own / other, 2)])
        R = mm.label_correlation(split.Y, RIDGE)
        own, model = certified(split.X, split.Y, C, limit, repeat, R)
        goal = model.certificate_.dual
        other, passes, reached = until(label_wise(split.X, split.Y, C, R), goal, min(limit, 10.0 * own + 5.0))[-1]
        done = "" if reached >= goal else "> "
        cells = [figure(own), f"{done}{figure(other)}", f"{'< ' if done else ''}{figure(own / other, 2)}"]
        lines.append([name, f"{NAMES['dense']}; {model.n_iter_} and {passes} passes", *cells])
    text = (
        f"lambda = {LAMS[0]:g}, processor seconds; rcv1_subset1 with its {FREQUENT} most frequent labels. R = I: to a certified "
    )
    text += f"gap of {TOL:g}; label-wise is SVMClassifier, label after label, each with samples that rest and extrapolation of "
    text += "its own. Dense R (correlation of the labels + 0.1 I): label-wise is exact steps along one label, then Z refreshed, "
    text += (
        "until the dual value that sample-wise ended with; it knows neither rest nor extrapolation, and is float64 throughout."
    )
    head = ["set", "prior", "sample-wise s", "label-wise s", "ratio"]
    report.section("multilabel: schedules", "\n\n".join([text, table(head, lines)]))


# ---- progress ------------------------------------------------------------------------------------------------


def sample_wise(X, Y: np.ndarray, C: float, R: np.ndarray, momentum: bool, counts: tuple[int, ...]) -> list[Stand]:
    """Whole fits that are ended after so many passes"""
    solver, found = mm.DualCoordinate(momentum=momentum), []
    for count in counts:
        model = mm.MultilabelSVMClassifier(
            C, loss="hinge", label_prior=R, tol=1e-9, max_iter=count, solver=solver, random_state=0
        )
        begin = time.process_time()
        model.fit(X, Y)
        found.append(Stand(time.process_time() - begin, count, model.certificate_.dual))
    return found


def progress(report: Report, quick: bool, limit: float) -> None:
    """The paper's Figures 2 and 3: dual suboptimality against passes and seconds, R = I and dense."""
    split = made(500, 20, 8) if quick else found("yeast")
    if split is None:
        return
    X, Y, C, goals = split.X, split.Y, 1.0, (1e-1, 1e-2, 1e-3, 1e-4)
    counts = tuple(np.unique(np.geomspace(1, 20 if quick else 300, 5 if quick else 25).astype(int)).tolist())
    lines, series = [], {}
    for kind, R in (("I", np.eye(Y.shape[1])), ("dense", mm.label_correlation(Y, RIDGE))):
        best = mm.MultilabelSVMClassifier(C, loss="hinge", label_prior=R, tol=1e-6, max_time=limit).fit(X, Y).certificate_.dual
        sample_wise(X, Y, C, R, True, counts[:1])  # compiles what there is to compile
        runs = {
            "sample-wise": sample_wise(X, Y, C, R, True, counts),
            "sample-wise, not extrapolated": sample_wise(X, Y, C, R, False, counts),
            "label-wise": until(label_wise(X, Y, C, R), best - 1e-5 * abs(best), min(limit, 20.0)),
        }
        for name, run in runs.items():
            below = [max((best - stand.dual) / abs(best), 1e-7) for stand in run]
            series[f"{NAMES[kind]}, {name}"] = run, below
            first = [next((stand for stand, value in zip(run, below, strict=True) if value <= goal), None) for goal in goals]
            cells = ["-" if stand is None else f"{stand.passes} / {figure(stand.seconds)}" for stand in first]
            lines.append([f"{NAMES[kind]}, {name}", *cells])
    text = (
        f"{'Synthetic' if quick else 'yeast'}, C = {C:g}: passes / processor seconds until the dual value was within this part "
    )
    text += "of the best one. Sample-wise: whole fits, certificate included, each ended after so many passes (1, 2, 3, ... 300: "
    text += "those between are not seen). Label-wise: the paper's schedule as in the section on schedules, its values not timed."

    def draw(axes) -> None:
        for name, (run, below) in series.items():
            for axis, x in zip(axes, ([stand.passes for stand in run], [stand.seconds for stand in run]), strict=True):
                axis.loglog(x, below, lw=1.1, label=name)
        axes[0].set_xlabel("passes")
        axes[1].set_xlabel("processor seconds")
        axes[0].set_ylabel("dual suboptimality")
        axes[0].legend(fontsize=6)

    parts = [text, table(["run", *(f"{goal:g}" for goal in goals)], lines)]
    if (picture := pictured("multilabel_progress.png", 2, draw)) is not None:
        parts.append(f"![dual progress](figures/{picture})")
    report.section("multilabel: progress", "\n\n".join(parts))


PARTS = ("peers", "growth", "schedules", "progress", "correlations", "two_labels", "zero_shot", "thresholds")


def run(report: Report, parts, workloads, cs, quick: bool, limit: float, repeat: int) -> None:
    """`workloads` and `cs` are those of the peers; the other parts have their own"""
    warnings.simplefilter("ignore")
    if "peers" in parts:
        multilabel_peers.run(report, workloads, cs, quick, limit, repeat)
    if "growth" in parts:
        growth(report, quick, limit, repeat)
    if "schedules" in parts:
        schedules(report, quick, limit, repeat)
    if "progress" in parts:
        progress(report, quick, limit)
    if "correlations" in parts:
        multilabel_priors.correlations(report, quick, limit)
    if "two_labels" in parts:
        multilabel_priors.two_labels(report, quick, limit)
    if "zero_shot" in parts:
        multilabel_priors.zero_shot(report, quick)
    if "thresholds" in parts:
        thresholds(report, quick)
