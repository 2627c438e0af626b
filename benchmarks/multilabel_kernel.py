"""Multi-label learning with an rbf kernel, beside one-vs-rest SVC: on the samples, and on a matrix computed before.

SVC is given the same C and gamma, its default tol, and as much memory for its cache. Its optimum is another one (its intercept is
free), so nothing but time is compared. Ours is timed to a certified relative gap of 1e-3, the rows of the kernel matrix included;
the matrix that SVC gets precomputed is counted to it.
"""

import resource
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from multiprocessing import get_context
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

import maxmargin as mm
from maxmargin.data.kernel_functions import gamma_of

from .report import Report, figure, table
from .workloads import MissingDataError, path

TOL = 1e-3
MANY = 20  # labels from which on the verdicts count
PLAIN, PRECOMPUTED = 1 / 20, 1 / 3  # parts of the peers' times that are asked for
CACHE = 1_000.0  # MB


def tmc2007(rows: int) -> tuple[Any, np.ndarray]:
    with np.load(path("tmc2007_500", "Y.npz")) as data:
        Y = data["Y_train"].astype(np.int64)
    return some(sp.load_npz(path("tmc2007_500", "X_train.npz")).astype(np.float64).toarray(), Y, rows)


def yeast(rows: int) -> tuple[Any, np.ndarray]:
    with np.load(path("yeast", "yeast.npz")) as data:
        return some(data["X_train"].astype(np.float64), data["Y_train"].astype(np.int64), rows)


def synthetic(rows: int) -> tuple[Any, np.ndarray]:
    """30 labels, each beyond a level of a quadratic function of 40 features"""
    rng = np.random.default_rng(0)
    X, straight, curved = rng.standard_normal((rows, 40)), rng.standard_normal((40, 30)), rng.standard_normal((40, 30))
    scores = (X @ straight + 0.3 * (X**2 - 1.0) @ curved) / 6.0 + 0.3 * rng.standard_normal((rows, 30))
    return X, (scores > 1.0).astype(np.int64)


def some(X, Y, rows: int) -> tuple[Any, np.ndarray]:
    chosen = np.random.default_rng(0).permutation(X.shape[0])[:rows]
    return X[chosen], Y[chosen]


SETS: dict[str, tuple[Callable[[int], tuple[Any, np.ndarray]], tuple[int, ...]]] = {
    "tmc2007_500": (tmc2007, (1_000, 2_000, 5_000, 10_000)),
    "yeast": (yeast, (1_500,)),
    "synthetic": (synthetic, (2_000, 5_000, 10_000)),
}
CS = (1.0, 10.0)


def processor(call: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    found = call()
    return time.process_time() - begin, found


def one_vs_rest(X, Y: np.ndarray, limit: float, **settings) -> tuple[float, bool]:
    """Processor seconds, and whether all labels were learned before so many had passed"""
    spent = 0.0
    for label in range(Y.shape[1]):
        if 0 < Y[:, label].sum() < len(Y):
            spent += processor(lambda label=label: SVC(cache_size=CACHE, **settings).fit(X, Y[:, label]))[0]
            if spent > limit:
                return spent, label == Y.shape[1] - 1
    return spent, True


def precomputed(X, Y: np.ndarray, C: float, gamma: float, limit: float) -> tuple[float, bool]:
    """The matrix is counted"""
    spent, K = processor(lambda: rbf_kernel(X, gamma=gamma))
    more, done = one_vs_rest(K, Y, limit, C=C, kernel="precomputed")
    return spent + more, done


def compared(own: float, peer: tuple[float, bool], asked: float | None) -> list[str]:
    """Two cells: the peer's seconds and the ratio, with a verdict where a part of its time is asked for"""
    seconds, done = peer
    ratio, sign = own / seconds, "" if done else "< "
    judged = "" if asked is None else " (holds)" if ratio <= asked else " (FAILS)" if done else " (not decided)"
    return [figure(seconds) if done else f"> {figure(seconds)}", f"{sign}{ratio:.3f}{judged}"]


def times(report: Report, name: str, size: int, plain: bool, options: tuple[bool, float, int]) -> None:
    """One set with so many samples, in a section of its own"""
    quick, limit, repeat = options
    try:
        X, Y = SETS[name][0](300 if quick else size)
    except MissingDataError as missing:
        print(f"\nskipped {name}: {missing}", flush=True)
        return
    text = (
        f"{len(Y):,} samples, {X.shape[1]} features, {Y.shape[1]} labels; rbf kernel, gamma='scale', processor seconds of one "
        f"thread, ours to a certified relative gap of {TOL:g} (median of {repeat}); at most a third of SVC's time on a "
        f"precomputed matrix and a twentieth of its time without are asked for, with {MANY} labels or more and 2,000 to 5,000 "
        f"samples. cache_size={CACHE:g} for all. '>': stopped after a label, when {limit:g} seconds had passed; '-': not run."
    )
    head = ["C", "ours s", "rounds", "gap", "SVC precomputed s", "ratio", "SVC s", "ratio"]
    gamma, lines = gamma_of("scale", X), []
    counts = Y.shape[1] >= MANY and len(Y) in range(2_000, 5_001)
    for C in CS[:1] if quick else CS:
        model = mm.MultilabelSVMClassifier(
            C=C, loss="hinge", kernel="rbf", gamma=gamma, tol=TOL, cache_size=CACHE, fit_intercept=False
        )
        model.fit(X[:200], Y[:200])  # compiles
        own = median(processor(lambda model=model: model.fit(X, Y))[0] for _ in range(repeat))
        cells = [figure(own), str(model.n_iter_), f"{model.certificate_.relative_gap:.1e}"]
        cells += compared(own, precomputed(X, Y, C, gamma, limit), PRECOMPUTED if counts else None)
        if plain and CS[0] == C:
            cells += compared(own, one_vs_rest(X, Y, limit, C=C, gamma=gamma), PLAIN if counts else None)
        else:
            cells += ["-", "-"]
        lines.append([f"{C:g}", *cells])
        report.section(f"multilabel: kernels, {name} {len(Y):,}", "\n\n".join([text, table(head, lines)]))


def fit_within(part: float, n: int) -> tuple[float, float, float, Any]:
    """Growth of this process and most that arrays took, in MB, processor seconds, and the model."""
    warnings.simplefilter("ignore")
    X, Y = synthetic(n)
    mm.MultilabelSVMClassifier(loss="hinge", kernel="rbf", tol=TOL, fit_intercept=False).fit(X[:200], Y[:200])  # compiles
    model = mm.MultilabelSVMClassifier(
        loss="hinge", kernel="rbf", tol=TOL, cache_size=part * megabytes(n * n), fit_intercept=False
    )
    before = peak()
    seconds, _ = processor(lambda: model.fit(X, Y))
    grown = peak() - before
    tracemalloc.start()
    model.fit(X, Y)
    return grown, tracemalloc.get_traced_memory()[1] / (1 << 20), seconds, model


def megabytes(numbers: int) -> float:
    return 8 * numbers / (1 << 20)


def memory(report: Report, quick: bool) -> None:
    """What a fit adds to the size of a process, each in a fresh one"""
    n = 500 if quick else 3_000
    lines = []
    for part in (0.25,) if quick else (0.1, 0.25, 1.5):
        with get_context("spawn").Pool(1) as pool:
            grown, taken, seconds, model = pool.apply(fit_within, (part, n))
        cells = [f"{part:g}", figure(part * megabytes(n * n)), figure(taken), figure(grown), figure(seconds), str(model.n_iter_)]
        lines.append([*cells, f"{model.certificate_.dual:.2f}", f"{model.certificate_.primal:.2f}"])
    head = ["cache / matrix", "cache MB", "arrays MB", "growth MB", "s", "rounds", "dual", "primal"]
    text = (
        f"Synthetic, {n} samples, 30 labels, rbf; the kernel matrix takes {megabytes(n * n):.3g} MB, a table of a number for "
        f"each sample and label {megabytes(30 * n):.2g} MB. Arrays: the most that a fit held at a time (tracemalloc). Growth of "
        "the process: by its largest resident size, what the allocator and BLAS keep included."
    )
    report.section("multilabel: kernel memory", "\n\n".join([text, table(head, lines)]))


def peak() -> float:
    """The largest size of this process so far, in MB"""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / (1 << 20) if sys.platform == "darwin" else size / 1024


PARTS = ("memory", "times", "plain")


def run(report: Report, parts, workloads, samples, options: tuple[bool, float, int]) -> None:
    """`plain` adds SVC on the samples themselves, which takes minutes; `samples` of those that a set has (None: all)"""
    warnings.simplefilter("ignore")
    quick = options[0]
    if "memory" in parts:
        memory(report, quick)
    if "times" in parts or "plain" in parts:
        for name in workloads:
            sizes = SETS[name][1]
            for size in sizes[:1] if quick else [one for one in sizes if samples is None or one in samples]:
                times(report, name, size, "plain" in parts, options)
