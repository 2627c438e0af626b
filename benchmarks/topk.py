"""Top-k: projections against sorting, training with Newton's projection against one that sorts, accuracy among k guesses.

The projections are the paper's (Chu et al. 2018): the biased top-k cone, with the cap s <= 1 left out. The sorting ones are plain
NumPy: a sort (or a partition of the largest entries, more of them until they suffice), running sums, and a root found by
bisection over sorted entries, which takes no time beside the sort.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.svm import LinearSVC

import maxmargin as mm
from maxmargin import projections
from maxmargin.data.table import table_of
from maxmargin.losses import TopKAlphaLoss
from maxmargin.problems.linear import BlockProblem
from maxmargin.projections.newton import Cone
from maxmargin.result import History
from maxmargin.solvers import solution_of
from maxmargin.solvers.loop import Budget

from . import curves, topk_sorted
from .report import Report, figure, table
from .workloads import Arrays, MissingDataError, path, sparse_set, unit_rows

SIZES = (50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000)
KS = (1, 5, 10)
DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "U(15, 25)": lambda rng, d: rng.uniform(15.0, 25.0, d),
    "N(0, 1)": lambda rng, d: rng.standard_normal(d),
    "U(-1, 1)": lambda rng, d: rng.uniform(-1.0, 1.0, d),
}
MUST, AIM = 5.0, 10.0  # times faster than NumPy's sort at the largest size
TENTH = 0.1
SAMPLED = 8  # passes that the part of projections is measured on,
MEASURED = 20_000  # on sets of at most so many rows
FEW = 2_000  # rows to compile on
TOL = 1e-3
GUESSES = (1, 3, 5, 10)
LAM = 1e-3


# ---- projections -------------------------------------------------------------------------------------------


def cone_level(b: np.ndarray, k: int) -> tuple[float, float]:
    """(t, u) on the cone with bias 1 for falling entries b, by bisection on u over counts and running sums."""
    sums, rising = np.concatenate([[0.0], np.cumsum(b)]), -b
    if sums[k] <= 0.0:
        return float(b[0]), float(b[0])

    def at(u: float) -> tuple[float, float]:
        beyond = int(np.searchsorted(rising, -u, side="left"))
        t = (k * u - (sums[beyond] - beyond * u) / k) / (1.0 + k)
        many = int(np.searchsorted(rising, -t, side="left"))
        return t, sums[many] - many * t - (sums[beyond] - beyond * u) - k * (u - t)

    low, high = float(b[-1]), float(b[0]) * (1.0 + k) / k
    for _ in range(200):
        u = 0.5 * (low + high)
        if not low < u < high:
            break
        low, high = (u, high) if at(u)[1] > 0.0 else (low, u)
    return at(high)[0], high


def by_sort(a: np.ndarray, k: int) -> np.ndarray:
    t, u = cone_level(np.sort(a)[::-1], k)
    return np.clip(a - t, 0.0, u - t)


def by_partition(a: np.ndarray, k: int) -> np.ndarray:
    count = 4096
    while True:
        count = min(count, a.size)
        largest = np.sort(np.partition(a, a.size - count)[a.size - count :])[::-1]
        t, u = cone_level(largest, k)
        if t >= largest[-1] or count == a.size:  # no other entry is in the support
            return np.clip(a - t, 0.0, u - t)
        count *= 4


def seconds(call: Callable[[], Any], repeat: int) -> float:
    """Median of some runs, after one for warming up"""
    call()
    found = []
    for _ in range(repeat):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return median(found)


def scaling(report: Report, quick: bool, repeat: int) -> None:
    """The paper's figure: time against length."""
    sizes = SIZES[:2] if quick else SIZES
    rng = np.random.default_rng(0)
    lines, worst, lasting, most = [], np.inf, np.inf, 0.0
    series: dict[str, dict[str, list[float]]] = {}
    for name, draw in DISTRIBUTIONS.items():
        for d in sizes:
            a = draw(rng, d)
            for k in KS:
                z, steps = projections.solved(Cone(k, 1.0), a)
                most = max(most, float(np.abs(z - by_sort(a, k)).max()))
                times = [seconds(lambda a=a, k=k, f=f: f(a, k), repeat) for f in (by_sort, by_partition)]
                own = seconds(lambda a=a, k=k: projections.topk_cone(a, k, 1.0), repeat)
                ratios = [t / own for t in times]
                if d == sizes[-1]:
                    worst, lasting = min(worst, ratios[0]), min(lasting, ratios[1])
                cells = [figure(1e3 * t) for t in (*times, own)] + [figure(r, 2) for r in ratios]
                lines.append([f"{name}, k = {k}", str(d), *cells, str(steps), str(np.count_nonzero(z))])
                if k == 5:
                    for kind, t in zip(("sort", "partition", "Newton"), (*times, own)):
                        series.setdefault(name, {}).setdefault(kind, []).append(1e3 * t)
    head = ["vector", "d", "sort ms", "partition ms", "Newton ms", "sort / Newton", "partition / Newton", "steps", "non-zeros"]
    verdict = "holds, and the aim of 10" if worst >= AIM else "holds" if worst >= MUST else "FAILS"
    text = (
        f"At d = {sizes[-1]} Newton's projection is at least {worst:.1f} times faster than the one on NumPy's sort (5 asked for: "
    )
    text += (
        f"{verdict}) and {lasting:.1f} times faster than the one on its partition. Steps are those on the entries that one pass "
    )
    text += f"puts aside. Largest difference between the answers: {most:.1e}."
    parts = ["The biased top-k cone, float64, one thread.", table(head, lines), text]
    if (picture := draw_scaling(sizes, series)) is not None:
        parts.append(f"![time against length, k = 5](figures/{picture})")
    report.section("topk: projections", "\n\n".join(parts))


def draw_scaling(sizes, series: dict[str, dict[str, list[float]]]) -> str | None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        print("\nskipped figure: matplotlib is not installed", flush=True)
        return None
    picture = Figure(figsize=(10, 3.4), layout="constrained")
    FigureCanvasAgg(picture)
    axes = picture.subplots(1, len(series), sharey=True)
    for axis, (name, kinds) in zip(axes, series.items()):
        for kind, times in kinds.items():
            axis.loglog(sizes, times, marker="o", ms=3, label=kind)
        axis.set_title(name)
        axis.set_xlabel("d")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("ms, k = 5")
    axes[0].legend()
    curves.FOLDER.mkdir(exist_ok=True)
    picture.savefig(curves.FOLDER / "topk_projections.png", dpi=75)
    return "topk_projections.png"


def short_vectors(report: Report, quick: bool, repeat: int) -> None:
    """The sizes inside training: many short vectors in one compiled loop, against a compiled sort of the same."""
    rng, lines, slowest, medians = np.random.default_rng(1), [], np.inf, []
    for d in (10, 30, 100, 300, 1000):
        many = max(20, (200_000 if quick else 2_000_000) // (d * 10))
        table_of = rng.standard_normal((many, d))
        k = min(5, d // 2)
        steps = np.empty(many)
        own = seconds(lambda t=table_of, k=k, s=steps: topk_sorted.all_newton(t, Cone(k, 1.0), s), repeat) / many
        room = topk_sorted.sorted_cone(k, 1.0, d)
        insertion = seconds(lambda t=table_of, room=room: topk_sorted.all_sorted(t, room), repeat) / many
        slowest = min(slowest, insertion / own)
        medians.append(float(np.median(steps)))
        lines.append(
            [str(d), str(k), figure(1e6 * own), figure(1e6 * insertion), figure(insertion / own, 2), figure(medians[-1])]
        )
    head = ["d", "k", "Newton us", "sort us", "sort / Newton", "median steps"]
    text = f"At least as fast as a sort: {'holds' if slowest >= 1.0 else 'FAILS'} (at worst {slowest:.2f} times). "
    text += f"Median Newton steps: {min(medians):.0f} to {max(medians):.0f}."
    report.section(
        "topk: short projections", "\n\n".join(["N(0, 1), the biased cone, compiled loops.", table(head, lines), text])
    )


# ---- data --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


def arrays(name: str) -> Split:
    """A real set with its test part"""
    if name == "news20":
        X, y = sparse_set("news20")
        test = sp.csr_matrix(sp.load_npz(path("news20", "X_test.npz")), dtype=np.float64)
        with np.load(path("news20", "y.npz")) as data:
            return Split(unit_rows(X), y, unit_rows(test), data["y_test"].astype(np.int64))
    with np.load(path(name, f"{name}.npz")) as data:
        if name == "caltech101_silhouettes":
            test = data["is_test"]
            X, y = np.unpackbits(data["X_packed"], axis=1)[:, :784].astype(np.float64), data["y"].astype(np.int64)
            return Split(X[~test], y[~test], X[test], y[test])
        scale = 15.0 if name == "letter" else 255.0
        parts = [data[part] for part in ("X_train", "y_train", "X_test", "y_test")]
    return Split(parts[0] / scale, parts[1].astype(np.int64), parts[2] / scale, parts[3].astype(np.int64))


def clusters(n: int, d: int, classes: int) -> Split:
    """Gaussian clusters that overlap; as many again for the test"""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((classes, d)).astype(np.float32)

    def part(n: int) -> Arrays:
        y = np.concatenate([np.arange(classes), rng.integers(classes, size=n - classes)])
        X = 2.0 * rng.standard_normal((n, d), np.float32) + centres[y]
        return X / np.float32(np.sqrt(d)), y

    return Split(*part(n), *part(max(n // 5, classes)))


REAL = ("letter", "news20", "caltech101_silhouettes", "caltech101_hog")
MADE = {
    "synthetic 10,000 x 128, 1,000 classes": (10_000, 128, 1_000),
    "synthetic 100,000 x 64, 5,000 classes": (100_000, 64, 5_000),
}
SMALL = {"synthetic 2,000 x 32, 200 classes": (2_000, 32, 200)}


def sets(quick: bool):
    """Names and loaders, one at a time: the largest would not all fit into memory together"""
    for name in REAL[:1] if quick else REAL:
        try:
            yield name, arrays(name)
        except MissingDataError as missing:
            print(f"\nskipped {name}: {missing}", flush=True)
    for name, shape in (SMALL if quick else MADE).items():
        yield name, clusters(*shape)


# ---- training ----------------------------------------------------------------------------------------------


def problem_of(split: Split, k: int, kind) -> BlockProblem:
    n, classes = split.y.size, int(split.y.max()) + 1
    return BlockProblem(table_of(split.X, 1.0), split.y, np.ones(n), 1.0 - np.eye(classes), kind(k)).at(1.0 / (LAM * n))


def training(report: Report, quick: bool, limit: float) -> None:
    """Newton's projection against one that sorts all classes, in the same solver, to a certified gap."""
    lines, verdicts = [], []
    head = ["set", "k", "Newton s", "passes", "sort s", "passes", "sort / Newton", "projections", "certified"]
    text = f"alpha form, lam = {LAM:g}, processor seconds of one thread to a certified gap of {TOL:g}, at most {limit:g} s. "
    text += (
        f"*Projections*: what Newton's method takes of the first {SAMPLED} passes, by the time that they take longer with each "
    )
    text += "projection computed twice."
    for name, split in sets(quick):
        classes, n = int(split.y.max()) + 1, split.y.size
        for k in (5,):
            runs = []
            for form in (TopKAlphaLoss, topk_sorted.TopKBySort):
                few = Split(split.X[:FEW], split.y[:FEW], split.X_test, split.y_test)
                soon = Budget(tol=1e-4, max_iter=9)
                for part in (few, split) if n <= MEASURED else (few,):  # compiles all of it: how steps are made depends on sizes
                    solution_of(mm.DualCoordinate(), problem_of(part, k, form), soon, History())
                problem = problem_of(split, k, form)
                begin = time.process_time()
                result = solution_of(mm.DualCoordinate(), problem, Budget(tol=TOL, max_time=limit), History())
                runs.append((time.process_time() - begin, result))
            share = None
            if n <= MEASURED:
                share = topk_sorted.projection_part(partial(problem_of, split, k), SAMPLED)
            (own, found), (other, sorted_found) = runs
            done = found.certificate.converged
            cells = [figure(own) if done else f"> {own:.0f}", str(found.n_iter)]
            cells += [figure(other) if sorted_found.certificate.converged else f"> {other:.0f}", str(sorted_found.n_iter)]
            certified = "yes" if done else f"{found.certificate.relative_gap:.1e}"
            percent = "" if share is None else f"{100.0 * share:.0f} %"
            lines.append([name, str(k), *cells, figure(other / own, 2), percent, certified])
            if classes == 1_000 and share is not None:
                verdict = "holds" if share < TENTH else "FAILS"
                verdicts.append(
                    f"1,000 classes, k = {k}: projections take {100 * share:.1f} % of the time, a tenth asked for: {verdict}."
                )
        # After each set, as the last ones are long.
        report.section("topk: training", "\n\n".join([text, table(head, lines), *verdicts]))


# ---- accuracy ----------------------------------------------------------------------------------------------


def among(scores: np.ndarray, y: np.ndarray, classes: np.ndarray) -> list[float]:
    best = np.argsort(-scores, axis=1, kind="stable")[:, : max(GUESSES)]
    hit = classes[best] == y[:, None]
    return [float(hit[:, :k].any(axis=1).mean()) for k in GUESSES]


def accuracy(report: Report, quick: bool, limit: float) -> None:
    lines, verdicts = [], []
    for name, split in sets(quick):
        n, many, found = split.y.size, int(split.y.max()) + 1, {}
        if n > 50_000:
            print(f"\nskipped accuracy on {name}: it is for time", flush=True)
            continue
        C = 1.0 / (LAM * n)
        for k in GUESSES:
            model = mm.TopKSVMClassifier(C=C, k=k, max_time=limit, random_state=0).fit(split.X, split.y)
            found[k] = among(model.decision_function(split.X_test), split.y_test, model.classes_)
            lines.append([f"{name}, k = {k}", *(f"{100 * a:.1f}" for a in found[k])])
        if many <= 200:
            peer = LinearSVC(C=C, max_iter=200, random_state=0).fit(split.X, split.y)
            lines.append(
                [
                    f"{name}, LinearSVC",
                    *(f"{100 * a:.1f}" for a in among(peer.decision_function(split.X_test), split.y_test, peer.classes_)),
                ]
            )
        at = GUESSES.index(5)
        if many >= 100:
            verdict = "holds" if found[5][at] >= found[1][at] else "FAILS"
            verdicts.append(
                f"{name}: top-5 accuracy with k = 5 {100 * found[5][at]:.1f}, with k = 1 {100 * found[1][at]:.1f}: {verdict}."
            )
    head = ["set and model", *(f"top-{k} %" for k in GUESSES)]
    text = f"Test accuracy, alpha form, lam = {LAM:g} for all (LinearSVC: one against the rest, squared hinge, the same C)."
    report.section("topk: accuracy", "\n\n".join([text, table(head, lines), *verdicts]))


PARTS = ("projections", "training", "accuracy")


def run(report: Report, parts, quick: bool, repeat: int, limit: float) -> None:
    warnings.simplefilter("ignore")
    if "projections" in parts:
        scaling(report, quick, repeat)
        short_vectors(report, quick, repeat)
    if "training" in parts:
        training(report, quick, limit)
    if "accuracy" in parts:
        accuracy(report, quick, limit)
