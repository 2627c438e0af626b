"""How time and memory grow with the number of rows and of non-zeros, each fit to a certified gap."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

from .measure import Request, Run, Worker, WorkerError
from .report import Report, figure, megabytes, table
from .solvers import CERTIFIED, maxmargin
from .workloads import Workload

LAM = 1e-3
LINEAR = 1.15  # the largest exponent that still passes for linear; the excess over 1 allows for caches that no longer suffice
LAST = 3  # sizes at the upper end that must pass too: at the lower end fixed costs can hide a steeper growth


@dataclass
class Point:
    """One size: the data's shape in bytes and counts, and the runs on it"""

    workload: Workload
    rows: int
    nnz: int
    data_bytes: int
    model_bytes: int
    runs: list[Run] = field(default_factory=list)
    extra_bytes: int = 0

    @property
    def seconds(self) -> float:
        return median(run.seconds for run in self.runs)


def point(workload: Workload) -> Point:
    """Sizes of the data, and of one float64 dual for each example and class together with the weights"""
    X, y = workload.load()
    classes = 1 if workload.losses[0] == "hinge" else np.unique(y).size
    model = 8 * classes * (X.shape[0] + X.shape[1])
    return Point(workload, X.shape[0], X.nnz if sp.issparse(X) else X.size, size(X), model)


def size(X: Any) -> int:
    return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sp.issparse(X) else X.nbytes


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """Slope of a straight line through the logarithms"""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def sweep(report: Report, name: str, workloads: Sequence[Workload], repeat: int, limit: float) -> None:
    """Measure all sizes in turns, memory first: in a process that has done nothing but warm up."""
    points = [point(workload) for workload in workloads]
    loss = workloads[0].losses[0]
    with ExitStack() as stack:
        workers = [Worker(workload, maxmargin()) for workload in workloads]
        for worker in workers:
            stack.callback(worker.close)
        for turn in range(repeat + 1):
            for at, worker in zip(points, workers, strict=True):
                try:
                    run = worker.fit(Request(loss, 1.0 / (LAM * at.rows), CERTIFIED, trim=turn == 0), limit)
                except WorkerError as failure:
                    print(f"\nskipped scaling: {name}: {failure}", flush=True)
                    return
                if run is None or not run.answer.finished:
                    print(f"\nskipped scaling: {name}: no certificate for {at.rows} rows within {limit:g} s", flush=True)
                    return
                if turn == 0:
                    at.extra_bytes = run.extra_bytes
                else:
                    at.runs.append(run)
    report.section(f"scaling: {name}", described(points, loss))


def described(points: Sequence[Point], loss: str) -> str:
    head = ["rows", "non-zeros", "growth", "seconds", "ratio to the first", "ep", "extra MB", "duals + weights MB", "X MB"]
    head += ["extra / (duals + weights)", "extra / X"]
    first = points[0]
    rows = []
    for at in points:
        row = [str(at.rows), str(at.nnz), figure(at.nnz / first.nnz), figure(at.seconds), figure(at.seconds / first.seconds)]
        row += [str(at.runs[0].answer.epochs), megabytes(at.extra_bytes), megabytes(at.model_bytes), megabytes(at.data_bytes)]
        row += [figure(at.extra_bytes / at.model_bytes, 2), figure(at.extra_bytes / at.data_bytes, 2)]
        rows.append(row)
    nnz, seconds = [at.nnz for at in points], [at.seconds for at in points]
    total, tail = exponent(nnz, seconds), exponent(nnz[-LAST:], seconds[-LAST:])
    epoch = exponent(nnz, [at.seconds / max(at.runs[0].answer.epochs, 1) for at in points])
    verdict = "holds" if max(total, tail) <= LINEAR else "FAILS"
    text = f"{loss}, lam = {LAM:g}, to a certified relative gap of {CERTIFIED:g}, one thread, float64, "
    text += f"median of {len(first.runs)} runs in turns."
    law = f"Time grows with non-zeros to the power {total:.2f}, over the last {LAST} sizes {tail:.2f} (a pass: {epoch:.2f}); "
    law += f"linear (both at most {LINEAR:g}): {verdict}."
    return "\n\n".join([text, table(head, rows), law])


def run(report: Report, quick: bool, repeat: int, limit: float) -> None:
    if not maxmargin().installed:
        print("\nskipped scaling: maxmargin is not installed", flush=True)
        return
    doubled = range(2 if quick else 5)
    sizes = [Workload("synthetic_sparse", (1_000 if quick else 12_500) << k) for k in doubled]
    sweep(report, "rows, sparse binary", sizes, repeat, limit)
    sizes = [Workload("synthetic_sparse", 2_000 if quick else 50_000, 13 << k) for k in doubled]
    sweep(report, "non-zeros a row, sparse binary", sizes, repeat, limit)
    sizes = [Workload("synthetic_dense", (500 if quick else 5_000) << k) for k in doubled]
    sweep(report, "rows, dense multiclass", sizes, repeat, limit)
