"""Dense rows of classes or labels, stepped in blocks by matrix products, beside one row after another; then on several threads.

Both are this package: a run that is given a block of no rows, on a problem that is evaluated row by row, is how things were
done before. A pass in blocks is timed without the sweeps that follow it, a run to the target with them. Processor seconds of one
thread, in turns; of several threads seconds by the clock. Kernels are compiled before.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from maxmargin.data.indicators import checked_labels
from maxmargin.data.table import table_of
from maxmargin.losses import CrammerSingerLoss, MultilabelHingeLoss, TopKAlphaLoss, TopKBetaLoss
from maxmargin.problems.linear import BlockProblem, RowProblem
from maxmargin.problems.multilabel import LabelGroup, MultilabelProblem
from maxmargin.result import History
from maxmargin.solvers.ascent.blocked import block_size
from maxmargin.solvers.ascent.linear import AscentOptions, BlockAscent
from maxmargin.solvers.ascent.parted_blocks import PartedBlocks
from maxmargin.solvers.ascent.tuning import ASCENT, AscentTuning
from maxmargin.solvers.loop import Budget, drive

from .report import Report, figure, table

TOL = 1e-3
LAM = 1e-4
PASSES = 4
SEED = 0
THREADS = 1, 2, 4, 8, 16
ONCE = ASCENT._replace(blocks=ASCENT.blocks._replace(again=0))


class OneByOne(BlockProblem):
    """Evaluated row by row."""

    by_products = False


class LabelsOneByOne(LabelGroup):
    """The same for labels."""

    by_products = False


@dataclass(frozen=True)
class Case:
    """A made set, and how many times faster blocks must be: a pass, and to the target."""

    rows: int
    features: int
    classes: int
    loss: str = "crammer_singer"
    part: float = 1.0  # of non-zeros
    must: tuple[float, float] | None = None

    def __str__(self) -> str:
        kind = "" if self.part == 1.0 else f", CSR with {100 * self.part:g} % non-zeros"
        return f"{self.loss}, {self.rows:,} x {self.features:,}, {self.classes:,} classes{kind}"


CASES = (
    Case(3_000, 512, 1_000, must=(12.0, 8.0)),
    Case(6_000, 768, 100, must=(2.0, 2.0)),
    Case(10_000, 256, 100, must=(2.0, 2.0)),
    Case(20_000, 256, 20, must=(0.97, 0.97)),
    Case(4_000, 10_000, 100, part=0.01, must=(0.97, 0.97)),
    Case(3_000, 512, 256, "labels", must=(2.0, 2.0)),
    Case(6_000, 256, 100, "coupled labels", must=(2.0, 2.0)),
    Case(1_500, 512, 1_000, "topk_alpha", must=(12.0, 8.0)),
    Case(1_500, 512, 1_000, "topk_beta", must=(12.0, 8.0)),
    Case(5_000, 128, 5_000, "topk_alpha", must=(12.0, 8.0)),
)
SHARED = (  # by threads
    Case(20_000, 768, 100),
    Case(5_000, 1_024, 1_000),
    Case(20_000, 768, 100, "topk_alpha"),
    Case(3_000, 1_024, 1_000, "topk_alpha"),
    Case(10_000, 768, 256, "labels"),
    Case(10_000, 256, 100, "coupled labels"),
)
QUICK = (Case(300, 96, 300), Case(300, 64, 100, "coupled labels"))
LOSSES = {"crammer_singer": CrammerSingerLoss(), "topk_alpha": TopKAlphaLoss(5), "topk_beta": TopKBetaLoss(5)}


def data(case: Case):
    """Clusters that overlap, rows of length one; labels are the signs of scores, a tenth of them flipped."""
    rng = np.random.default_rng(0)
    n, d, classes = case.rows, case.features, case.classes
    y = rng.integers(classes, size=n)
    if case.part < 1.0:
        X = sp.random_array((n, d), density=case.part, format="csr", rng=rng, dtype=np.float32)
        return X, y
    X = rng.standard_normal((n, d)).astype(np.float32)
    if "labels" in case.loss:
        Y = (X @ rng.standard_normal((d, classes)).astype(np.float32) > 0.8 * np.sqrt(d)) ^ (rng.random((n, classes)) < 0.02)
        return X / np.linalg.norm(X, axis=1, keepdims=True), Y.astype(int)
    X += 0.25 * rng.standard_normal((classes, d)).astype(np.float32)[y]
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def problems(case: Case) -> tuple[RowProblem, RowProblem]:
    """The problem row by row, and as it is."""
    X, y = data(case)
    n, classes, rows = case.rows, case.classes, table_of(X, 1.0)
    C = 1.0 / (LAM * n)
    if "labels" not in case.loss:
        parts = rows, y, np.ones(n), 1.0 - np.eye(classes), LOSSES[case.loss]
        return OneByOne(*parts).at(C), BlockProblem(*parts).at(C)
    ones, rng = np.ones((classes, 2)), np.random.default_rng(1)
    basis = rng.standard_normal((classes, 5)) / 5.0
    R = None if case.loss == "labels" else basis @ basis.T + 0.5 * np.eye(classes)
    whole = MultilabelProblem(rows, checked_labels(y).columns, np.ones(n), ones, ones, MultilabelHingeLoss(), R).at(C).whole()
    return LabelsOneByOne(**{name: getattr(whole, name) for name in whole.__dataclass_fields__}), whole


def begun(problem: RowProblem, block: int, threads: int = 1, tuning: AscentTuning = ASCENT):
    options = AscentOptions(TOL, SEED, np.float32, block=block, threads=threads, tuning=tuning)
    return (PartedBlocks if block else BlockAscent)(problem, None, options)


def passes(problem: RowProblem, block: int) -> float:
    """Processor seconds of a pass, the mean of the first ones."""
    run = begun(problem, block, tuning=ONCE)
    begin = time.process_time()
    for _ in range(PASSES):
        run.advance(lambda: False)
    return (time.process_time() - begin) / PASSES


def solved(problem: RowProblem, block: int, limit: float):
    run = begun(problem, block)
    begin = time.process_time()
    result = drive(run, Budget(tol=TOL, max_time=limit), History())
    return time.process_time() - begin, result.certificate, run.passes


def in_turns(calls: list[Callable[[], float]], repeat: int) -> list[float]:
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(repeat):
        for times, call in zip(found, calls):
            times.append(call())
    return [median(times) for times in found]


def line(case: Case, repeat: int, limit: float) -> list[str]:
    before, now = problems(case)
    block = block_size(now, np.float32, ASCENT.blocks)
    for problem, size in ((before, 0), (now, block)):  # compiles
        run = begun(problem, size)
        drive(run, Budget(tol=1e-9, max_iter=7, max_time=5.0), History())
    walk, blocked = in_turns([lambda: passes(before, 0), lambda: passes(now, block)], repeat)
    ends = [solved(before, 0, limit), solved(now, block, limit)]
    (long, first, _), (short, second, count) = ends
    ratios = walk / blocked, long / short
    good = case.must is None or (ratios[0] >= case.must[0] and ratios[1] >= case.must[1])
    must = "-" if case.must is None else f"{' and '.join(figure(m, 2) for m in case.must)}: {'holds' if good else 'FAILS'}"
    if not block and not now.by_products:
        must = "the same code twice"
    certified = "both" if first.converged and second.converged else f"{first.relative_gap:.1e}, {second.relative_gap:.1e}"
    cells = [str(case), str(block or "none"), figure(walk), figure(blocked), figure(ratios[0], 2), figure(long), figure(short)]
    return [*cells, str(count), figure(ratios[1], 2), certified, must]


def on_threads(case: Case, limit: float) -> list[str]:
    """Seconds to the target and passes, for each number of threads that the machine has."""
    _, now = problems(case)
    block = block_size(now, np.float32, ASCENT.blocks)
    if not block:
        return [str(case), *["-"] * len(THREADS)]
    cells, alone = [str(case)], 0.0
    for threads in THREADS:
        if threads > (os.cpu_count() or 1):
            cells.append("-")
            continue
        drive(begun(now, block, threads), Budget(tol=1e-9, max_iter=9, max_time=5.0, n_jobs=threads), History())  # compiles
        run = begun(now, block, threads)
        begin = time.perf_counter()
        result = drive(run, Budget(tol=TOL, max_time=limit, n_jobs=threads), History())
        seconds = time.perf_counter() - begin
        alone = alone or seconds
        met = "" if result.certificate.converged else ", not reached"
        cells.append(f"{figure(seconds)} s, {run.passes} passes, {figure(alone / seconds, 2)} times ({run.size}){met}")
    return cells


def run(report: Report, quick: bool, repeat: int, limit: float) -> None:
    """Lines are printed and kept as they come: a run that is stopped has left what it had."""
    head = ["set", "block", "row by row, s a pass", "blocks, s a pass", "times", "row by row, s to 1e-3", "blocks, s to 1e-3"]
    head += ["passes", "times", "certified", "must"]
    heads = ["set", *(f"{threads} thread{'s' * (threads > 1)}" for threads in THREADS)]
    text = f"Processor seconds of one thread, float32, lam = {LAM:g}; of a pass, without sweeps, the mean of the first {PASSES}."
    by_clock = "By the clock, to 1e-3, for each number of threads; in brackets how many were used."
    lines: list[list[str]] = []
    several: list[list[str]] = []

    def body() -> str:
        return "\n\n".join([text, table(head, lines), *([by_clock, table(heads, several)] if several else [])])

    def found(where: list[list[str]], cells: list[str]) -> None:
        print(" | ".join(cells), flush=True)
        where.append(cells)
        report.keep("blocks", body())

    with threadpool_limits(1):
        for case in QUICK if quick else CASES:
            found(lines, line(case, repeat, limit))
        for case in QUICK if quick else SHARED:
            found(several, on_threads(case, limit))
    report.section("blocks", body())
