"""Files: what it costs to write and open a model of 100 MB, and what checkpoints cost a fit.

Opening is measured in a process that has imported the package: read and checked, and memory-mapped. A fit with checkpoints at the
default interval writes one a minute; here they are written as often as the rule of a hundredth allows, and the time spent in them
is set against the time of the fit.
"""

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


def opening(report: Report, quick: bool, repeat: int) -> None:
    rows = []
    for size in SIZES[: 1 if quick else None]:
        model, one = model_of(size), np.zeros((1, FEATURES))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            save = seconds(lambda model=model, path=path: mm.save(model, path), repeat)
            read = seconds(lambda path=path: mm.load(path), repeat)
            mapped = seconds(lambda path=path: mm.load(path, mmap=True), repeat)
            first = seconds(lambda path=path, one=one: mm.load(path, mmap=True).predict(one), repeat)
        rows.append([f"{size} MB", *(figure(1000 * found) for found in (save, read, mapped, first))])
    head = ["weights", "save ms", "load ms", "load mapped ms", "mapped and one prediction ms"]
    report.section("files", f"Medians of {repeat}; the file is in the cache of the machine.\n\n{table(head, rows)}")


def checkpoints(report: Report, quick: bool, limit: float) -> None:
    rng = np.random.default_rng(1)
    n, d = (2_000, 20) if quick else (200_000, 50)
    X = rng.standard_normal((n, d))
    y = (X @ rng.standard_normal(d) + 3.0 * rng.standard_normal(n) > 0.0).astype(int)
    spent, write = [], FitKeeper.write

    def timed(keeper: FitKeeper) -> None:
        begin = time.perf_counter()
        write(keeper)
        spent.append(time.perf_counter() - begin)

    FitKeeper.write = timed
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = mm.SVMClassifier(solver="dual_coordinate", tol=1e-12, max_iter=10**6, max_time=limit, random_state=0)
            begin = time.perf_counter()
            model.set_callbacks(mm.Checkpoint(Path(folder) / "state", every=0.0)).fit(X, y)
            whole = time.perf_counter() - begin
    finally:
        FitKeeper.write = write
    cells = [f"{n} x {d}", figure(whole), str(len(spent)), figure(median(spent)), f"{100 * sum(spent) / whole:.2f} %"]
    head = ["rows x columns", "fit s", "checkpoints", "each s", "of the fit"]
    report.section("checkpoints", "As often as the rule allows, `every=0`.\n\n" + table(head, [cells]))


def run(report: Report, quick: bool, repeat: int, limit: float) -> None:
    opening(report, quick, repeat)
    checkpoints(report, quick, 2.0 if quick else limit)
