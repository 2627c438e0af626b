"""Multi-label learning with an rbf kernel, beside one-vs-rest SVC: on the samples, and on a matrix computed before.

SVC is given the same C and gamma, its default tol, and as much memory for its cache. Its optimum is another one (its intercept is
free), so nothing but time is compared. Ours is timed to a certified relative gap of 1e-3, the rows of the kernel matrix included;
the matrix that SVC gets precomputed is counted to it.
"""

import resource
import sys
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

import maxmargin as mm
from maxmargin.kernels import gamma_of

from .report import Report, figure, table
from .workloads import MissingDataError, path

TOL = 1e-3
MANY = 20  # labels from which on the verdicts count
PLAIN, PRECOMPUTED = 1 / 20, 1 / 3  # parts of the peers' times that are asked for
MOST = 5_000  # samples up to which SVC is run on the samples themselves: beyond, it takes an hour
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


def one_vs_rest(X, Y: np.ndarray, **settings) -> None:
    for label in range(Y.shape[1]):
        if 0 < Y[:, label].sum() < len(Y):
            SVC(cache_size=CACHE, **settings).fit(X, Y[:, label])


def precomputed(X, Y: np.ndarray, C: float, gamma: float) -> None:
    one_vs_rest(rbf_kernel(X, gamma=gamma), Y, C=C, kernel="precomputed")


def verdict(ratio: float, asked: float) -> str:
    return f"{ratio:.3f} ({'holds' if ratio <= asked else 'FAILS'})"


def times(report: Report, quick: bool, repeat: int, plain: bool) -> None:
    head = ["set", "samples", "labels", "C", "ours s", "rounds", "gap", "SVC precomputed s", "ratio", "SVC s", "ratio"]
    lines = []
    text = (
        f"rbf kernel, gamma='scale', processor seconds of one thread, ours to a certified relative gap of {TOL:g} (median of "
        f"{repeat}); at most a third of SVC's time on a precomputed matrix and a twentieth of its time without are asked for, "
        f"with {MANY} labels or more and 2,000 to 5,000 samples. cache_size={CACHE:g} for all."
    )
    for name, (load, sizes) in SETS.items():
        for size in sizes[:1] if quick else sizes:
            try:
                X, Y = load(300 if quick else size)
            except MissingDataError as missing:
                print(f"\nskipped {name}: {missing}", flush=True)
                break
            gamma = gamma_of("scale", X)
            for C in CS[:1] if quick else CS:
                model = mm.MultilabelSVMClassifier(C=C, kernel="rbf", gamma=gamma, tol=TOL, cache_size=CACHE, fit_intercept=False)
                model.fit(X[:200], Y[:200])  # compiles
                runs = [processor(lambda model=model, X=X, Y=Y: model.fit(X, Y)) for _ in range(repeat)]
                own = median(seconds for seconds, _ in runs)
                given, _ = processor(lambda X=X, Y=Y, C=C, gamma=gamma: precomputed(X, Y, C, gamma))
                counts = Y.shape[1] >= MANY and len(Y) in range(2_000, 5_001)
                cells = [figure(own), str(model.n_iter_), f"{model.certificate_.relative_gap:.1e}", figure(given)]
                cells.append(verdict(own / given, PRECOMPUTED) if counts else figure(own / given))
                if plain and len(Y) <= MOST and CS[0] == C:
                    alone, _ = processor(lambda X=X, Y=Y, C=C, gamma=gamma: one_vs_rest(X, Y, C=C, gamma=gamma))
                    cells += [figure(alone), verdict(own / alone, PLAIN) if counts else figure(own / alone)]
                else:
                    cells += ["-", "-"]
                lines.append([name, str(len(Y)), str(Y.shape[1]), f"{C:g}", *cells])
                report.section("multilabel: kernels", "\n\n".join([text, table(head, lines)]))


def memory(report: Report, quick: bool) -> None:
    """Growth of this process while the matrix does not fit; run first, as a process only grows."""
    n = 1_000 if quick else 5_000
    X, Y = synthetic(n)
    whole = 8 * n * n / (1 << 20)
    mm.MultilabelSVMClassifier(kernel="rbf", tol=TOL).fit(X[:200], Y[:200])
    lines = []
    for part in (0.1, 0.25):
        before = peak()
        model = mm.MultilabelSVMClassifier(kernel="rbf", tol=TOL, cache_size=part * whole, fit_intercept=False)
        seconds, _ = processor(lambda model=model: model.fit(X, Y))
        grown, tables = peak() - before, 8 * Y.size / (1 << 20)
        gap = f"{model.certificate_.relative_gap:.1e}"
        lines.append([f"{part:g}", figure(part * whole), figure(grown), figure(grown / tables), figure(seconds), gap])
    head = ["part of the matrix", "cache MB", "growth MB", "in tables of N x L", "s", "gap"]
    text = (
        f"Synthetic, {n} samples, {Y.shape[1]} labels; a table of 8 bytes a sample and label is {8 * Y.size / (1 << 20):.2g} MB."
    )
    report.section("multilabel: kernel memory", "\n\n".join([text, table(head, lines)]))


def peak() -> float:
    """The largest size of this process so far, in MB"""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / (1 << 20) if sys.platform == "darwin" else size / 1024


PARTS = ("memory", "times", "plain")


def run(report: Report, parts, quick: bool, repeat: int) -> None:
    """`plain` adds SVC on the samples themselves, which takes minutes"""
    warnings.simplefilter("ignore")
    if "memory" in parts:
        memory(report, quick)
    if "times" in parts or "plain" in parts:
        times(report, quick, repeat, "plain" in parts)
