"""Files: what it costs to write and open a model of 100 MB, and what checkpoints cost a fit.

Opening is measured in processes that have imported the package: read and checked, and memory-mapped, the first time in a process
and later.

At the default interval a fit of ten minutes writes ten checkpoints at the most. Here a shorter fit writes as many, a tenth of it
apart, and the rule that they stay a hundredth of the fit is put aside: each costs what it would cost there, with the reading of
the data for the first. So all of them together, over 600 seconds, is their part of a fit of ten minutes. A fit shorter than the
interval is timed in turns, with a checkpoint and without.
"""

import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin.persistence import checkpoint
from maxmargin.persistence.checkpoint import FitKeeper

from .report import Report, figure, table

FEATURES = 10_000
SIZES = (1, 100)  # MB
MEGABYTE = 10**6


def model_of(megabytes: int) -> Any:
    """A linear model of so many bytes of weights."""
    rng = np.random.default_rng(0)
    classes = megabytes * MEGABYTE // (8 * FEATURES)
    model = mm.SVMClassifier(random_state=0).fit(rng.standard_normal((30, 4)), np.arange(30) % 3)
    model.coef_, model.intercept_ = rng.standard_normal((classes, FEATURES)), np.zeros(classes)
    model.classes_, model.n_features_in_ = np.arange(classes), FEATURES
    return model


def seconds(what: Callable[[], Any], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        what()
        times.append(time.perf_counter() - begin)
    return median(times)


FIRST = """
import sys, time
import maxmargin as mm
begin = time.perf_counter()
mm.load(sys.argv[1], mmap=True)
print(time.perf_counter() - begin)
"""


def first_in_a_process(path: Path, repeat: int) -> float:
    """Seconds to open a file, memory-mapped, after the import."""
    command = [sys.executable, "-c", FIRST, str(path)]
    return median(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(repeat))


def opening(report: Report, quick: bool, repeat: int) -> None:
    rows = []
    for size in SIZES[: 1 if quick else None]:
        model, one = model_of(size), np.zeros((1, FEATURES))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            save = seconds(lambda model=model, path=path: mm.save(model, path), repeat)
            read = seconds(lambda path=path: mm.load(path), repeat)
            first = first_in_a_process(path, repeat)
            mapped = seconds(lambda path=path: mm.load(path, mmap=True), repeat)
            answered = seconds(lambda path=path, one=one: mm.load(path, mmap=True).predict(one), repeat)
        rows.append([f"{size} MB", *(figure(1000 * found) for found in (save, read, first, mapped, answered))])
    head = ["weights", "save ms", "load ms", "mapped, first ms", "mapped ms", "mapped and one prediction ms"]
    report.section("files", f"Medians of {repeat}; the file is in the cache of the machine.\n\n{table(head, rows)}")


# ---- checkpoints -------------------------------------------------------------------------------------------------------


def two_classes(quick: bool) -> tuple[str, Any, Any, Any]:
    n, d = (2_000, 20) if quick else (1_000_000, 50)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d))
    y = (X @ rng.standard_normal(d) + 3.0 * rng.standard_normal(n) > 0.0).astype(int)
    return f"two classes, {n} x {d}", mm.SVMClassifier(C=10.0, solver="dual_coordinate"), X, y


def many_classes(quick: bool) -> tuple[str, Any, Any, Any]:
    n, d, classes = (500, 20, 5) if quick else (50_000, 100, 50)
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n, d))
    y = np.argmax(X @ rng.standard_normal((d, classes)) + 6.0 * rng.standard_normal((n, classes)), axis=1)
    return f"{classes} classes, {n} x {d}", mm.SVMClassifier(C=10.0, solver="dual_coordinate"), X, y


def curved(quick: bool) -> tuple[str, Any, Any, Any]:
    n, d = (300, 5) if quick else (20_000, 20)
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, d))
    y = (np.square(X).sum(axis=1) + 4.0 * rng.standard_normal(n) > d).astype(int)
    return f"rbf, {n} x {d}", mm.SVMClassifier(C=100.0, kernel="rbf"), X, y


FAMILIES: tuple[Callable[[bool], tuple[str, Any, Any, Any]], ...] = (two_classes, many_classes, curved)
A_MINUTE, TEN_MINUTES = 60.0, 600.0


def checkpoints(report: Report, quick: bool, limit: float) -> None:
    rows = []
    for family in FAMILIES:
        name, model, X, y = family(quick)
        model.fit(X[:500], y[:500])  # compiles
        model.set_params(tol=1e-12, max_iter=10**6, max_time=limit, random_state=0)
        whole, spent, size = with_files(model, X, y, 0.0 if quick else limit * A_MINUTE / TEN_MINUTES)
        times = (spent[0], median(spent), sum(spent)) if spent else (None, None, 0.0)  # a fit may end before the first is due
        cells = [figure(found) for found in (size / MEGABYTE, *times)]
        rows.append([name, figure(whole), str(len(spent)), *cells, f"{100 * sum(spent) / TEN_MINUTES:.3f} %"])
    head = ["problem", "fit s", "files", "MB", "first s", "median s", "all s", "of ten minutes"]
    report.section("checkpoints", f"A file a tenth of the fit apart.\n\n{table(head, rows)}\n\n{short_fits(quick)}")


def with_files(model: Any, X: Any, y: Any, every: float) -> tuple[float, list[float], int]:
    """Seconds of a fit, those of each checkpoint, and the bytes of the largest."""
    spent, sizes = [], [0]
    wait, seldom = FitKeeper.wait, checkpoint.SELDOM

    def noted(keeper: FitKeeper, begin: float, end: float) -> None:
        spent.append(end - begin)
        sizes.append(keeper.place.stat().st_size)
        wait(keeper, begin, end)

    FitKeeper.wait, checkpoint.SELDOM = noted, 0.0
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            begin = time.perf_counter()
            model.set_callbacks(mm.Checkpoint(Path(folder) / "state", every=every)).fit(X, y)
            return time.perf_counter() - begin, spent, max(sizes)
    finally:
        FitKeeper.wait, checkpoint.SELDOM = wait, seldom


def short_fits(quick: bool) -> str:
    """Fits that end before the first file is due."""
    rng = np.random.default_rng(4)
    n = 2_000 if quick else 20_000
    X = rng.standard_normal((n, 50))
    y = (X @ rng.standard_normal(50) + 3.0 * rng.standard_normal(n) > 0.0).astype(int)
    times: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        for k in range(4 if quick else 40):
            kept = k % 2 == 1
            model = mm.SVMClassifier(solver="dual_coordinate", random_state=0)
            model.set_callbacks(*[mm.Checkpoint(Path(folder) / "state")] * kept)
            begin = time.process_time()
            model.fit(X, y)
            times[kept].append(time.process_time() - begin)
    without, with_one = (median(times[kept][1:]) for kept in (False, True))
    return (
        f"Fits of {n} x 50, shorter than the interval, in turns (seconds of the processor, medians of {len(times[True]) - 1}): "
        f"{figure(1000 * without)} ms without a checkpoint, {figure(1000 * with_one)} ms with one, "
        f"{with_one / without:.3f} times as long."
    )


def run(report: Report, quick: bool, repeat: int, limit: float) -> None:
    opening(report, quick, repeat)
    checkpoints(report, quick, 2.0 if quick else limit)
