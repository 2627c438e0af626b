"""What threads bring: seconds to a certified gap of 1e-3 with 1, 2, 4, 8 and 16 of them, as many as the machine has cores.

Beside the clock stands the processor time of all threads: where it grows with their number, threads do more work or wait for
memory; where it does not and the clock shows no gain, the machine had other work. The floor is what the same passes cannot do
without: two matrix products with all rows where these are dense (BLAS, as many threads), else the bytes of X at the rate at which
as many threads copy memory. Rows that rest are counted there, so a run may come out below it.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

import maxmargin as mm
from maxmargin.utils.threads import in_threads

from .report import Report, cores, figure, table
from .workloads import synthetic_dense, synthetic_regression, synthetic_sparse

TOL = 1e-3
THREADS = (1, 2, 4, 8, 16)
COPIED = 1 << 23  # numbers of an array that is copied to measure memory
LABEL_SCALE = 0.8  # of standard deviations: one label in five is present


@dataclass(frozen=True)
class Family:
    """A kind of problem, `load(part)` makes that part of its rows; what it must reach with 2 and 16 threads."""

    name: str
    load: Callable[[float], tuple[Any, Any]]
    model: Callable[[int], Any]
    must: tuple[float, float]
    classes: int = 1
    peers: bool = False


def binary(part: float) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    n = int(200_000 * part)
    X = rng.standard_normal((n, 50))
    return X, np.where(X @ rng.standard_normal(50) + 3.0 * rng.standard_normal(n) > 0.0, 1, -1)


def clusters(rows: int, columns: int, classes: int) -> Callable[[float], tuple[Any, Any]]:
    def load(part: float) -> tuple[Any, Any]:
        X, y = synthetic_dense(int(rows * part), columns, classes)
        return X.astype(np.float32), y

    return load


def topics(classes: int) -> Callable[[float], tuple[Any, Any]]:
    """CSR rows, whose classes are the largest of as many random scores."""

    def load(part: float) -> tuple[Any, Any]:
        X, _ = synthetic_sparse(int(20_000 * part))
        rng = np.random.default_rng(0)
        return X, np.asarray(X @ rng.standard_normal((X.shape[1], classes))).argmax(axis=1)

    return load


def labelled(rows: int, labels: int, density: float = 1.0) -> Callable[[float], tuple[Any, Any]]:
    def load(part: float) -> tuple[Any, Any]:
        n, rng = int(rows * part), np.random.default_rng(0)
        X = synthetic_sparse(n)[0] if density < 1.0 else rng.standard_normal((n, 128))
        scores = np.asarray(X @ rng.standard_normal((X.shape[1], labels)))
        return X, (scores > LABEL_SCALE * scores.std()).astype(int)

    return load


def words(part: float) -> tuple[Any, Any]:
    """Chains as long as words, 26 labels, 128 features of a node."""
    rng = np.random.default_rng(0)
    centres, follows = rng.standard_normal((26, 128)), rng.random((26, 26))
    X, Y = [], []
    for _ in range(int(2_000 * part)):
        y = [int(rng.integers(26))]
        for _ in range(int(rng.integers(3, 13))):
            y.append(int(np.argmax(follows[y[-1]] + rng.random(26))))
        Y.append(np.array(y))
        X.append(centres[y] + 4.0 * rng.standard_normal((len(y), 128)))
    return X, Y


FAMILIES = (
    Family("binary, dense", binary, lambda n: mm.SVMClassifier(C=1e4 / n), (1.3, 3.0), peers=True),
    Family("binary, CSR", lambda part: synthetic_sparse(int(200_000 * part)), lambda n: mm.SVMClassifier(C=1e4 / n), (1.3, 3.0)),
    Family(
        "regression", lambda part: synthetic_regression(int(200_000 * part), 50), lambda n: mm.SVMRegressor(C=1e3 / n), (1.3, 3.0)
    ),
    Family("10 classes", clusters(100_000, 50, 10), lambda n: mm.SVMClassifier(C=1e4 / n), (1.3, 3.0), 10),
    Family("100 classes", clusters(20_000, 256, 100), lambda n: mm.SVMClassifier(C=1e4 / n), (1.6, 6.0), 100, peers=True),
    Family("1,000 classes", clusters(6_000, 256, 1_000), lambda n: mm.SVMClassifier(C=1e4 / n), (1.6, 6.0), 1_000),
    Family("100 classes, CSR", topics(100), lambda n: mm.SVMClassifier(C=1e4 / n), (1.6, 6.0), 100),
    Family("top-5, 100 classes, CSR", topics(100), lambda n: mm.TopKSVMClassifier(k=5, C=1e4 / n), (1.6, 6.0), 100),
    Family("20 labels", labelled(20_000, 20), lambda n: mm.MultilabelSVMClassifier(C=1e4 / n), (1.6, 6.0), 20),
    Family("1,000 labels, CSR", labelled(4_000, 1_000, 0.1), lambda n: mm.MultilabelSVMClassifier(C=1e4 / n), (1.6, 6.0), 1_000),
    Family("chains", words, lambda n: mm.StructuredSVM(mm.structures.Chain(), C=100.0 / n), (1.6, 6.0)),
    Family("kernel", clusters(4_000, 50, 10), lambda n: mm.SVMClassifier(C=1.0, kernel="rbf"), (1.6, 6.0), 10),
)


@dataclass(frozen=True)
class Timed:
    seconds: float
    processor: float  # seconds of all threads
    passes: int = 0
    gap: float = 0.0


def timed(call: Callable[[], Any], repeat: int) -> tuple[Timed, Any]:
    """The medians, and what the last call returned."""
    times, found = [], None
    for _ in range(repeat):
        begin, used = time.perf_counter(), time.process_time()
        found = call()
        times.append((time.perf_counter() - begin, time.process_time() - used))
    return Timed(*(median(column) for column in zip(*times, strict=True))), found


def fitted(family: Family, X: Any, y: Any, threads: int, repeat: int, limit: float) -> Timed:
    model = family.model(len(y)).set_params(n_jobs=threads, tol=TOL, max_time=limit, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)  # compiles
        found, model = timed(lambda: model.fit(X, y), repeat)
    return Timed(found.seconds, found.processor, int(np.max(model.n_iter_)), float(model.certificate_.relative_gap))


def bandwidth(threads: int) -> float:
    """Bytes a second that as many threads read together while they copy."""
    arrays = [(np.zeros(COPIED), np.ones(COPIED)) for _ in range(threads)]
    found, _ = timed(lambda: in_threads(lambda pair: np.copyto(*pair), arrays, threads), 3)
    return threads * COPIED * 8 / found.seconds


def floor(family: Family, X: Any, passes: int, threads: int) -> float | None:
    """Seconds that as many passes over all rows take at least; None where nothing is known."""
    if sp.issparse(X):
        return passes * (X.data.nbytes + X.indices.nbytes) / bandwidth(threads)
    if not isinstance(X, np.ndarray) or family.name == "kernel":
        return None
    W, S = np.ones((X.shape[1], family.classes), X.dtype), np.ones((X.shape[0], family.classes), X.dtype)
    with threadpool_limits(threads, "blas"):
        found, _ = timed(lambda: (X @ W, X.T @ S), 3)
    return passes * found.seconds


def measured(family: Family, quick: bool, repeat: int, limit: float) -> list[list[str]]:
    X, y = family.load(0.02 if quick else 1.0)
    counts = [threads for threads in THREADS if threads <= cores()]
    found = {threads: fitted(family, X, y, threads, repeat, limit) for threads in counts}
    alone, lines = found[1], []
    for threads, one in found.items():
        least = floor(family, X, one.passes, threads)
        faster = alone.seconds / one.seconds
        must = dict(zip((2, 16), family.must, strict=True)).get(threads)
        verdict = "-" if must is None else f"{must:g}: {'holds' if faster >= must else 'FAILS'}"
        share = None if least is None else least / one.seconds
        gap = "" if one.gap <= TOL else f" (gap {one.gap:.1e})"
        cells = [family.name, str(threads), figure(one.seconds), figure(faster, 2), verdict, figure(one.processor)]
        lines.append([*cells, f"{one.passes}{gap}", figure(share, 2)])
    return lines


def peers(family: Family, quick: bool, repeat: int) -> list[list[str]]:
    """scikit-learn with threads: another objective (lbfgs) or other classes (one against the rest), each to its own stop."""
    X, y = family.load(0.02 if quick else 1.0)
    half, lines = len(y) // 2, []
    C, threads = 1e4 / half, min(cores(), THREADS[-1])
    models = {
        f"maxmargin, {threads} threads": family.model(half).set_params(n_jobs=threads, tol=TOL),
        "LogisticRegression (lbfgs)": LogisticRegression(C=C, max_iter=1000),
        f"OneVsRestClassifier(LinearSVC), {threads} jobs": OneVsRestClassifier(LinearSVC(C=C, loss="hinge"), n_jobs=threads),
    }
    for name, model in models.items():
        with warnings.catch_warnings(), threadpool_limits(threads, "blas"):
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X[:half:10], y[:half:10])  # compiles, starts processes
            found, _ = timed(lambda model=model: model.fit(X[:half], y[:half]), repeat)
        lines.append([family.name, name, figure(found.seconds), f"{100 * model.score(X[half:], y[half:]):.1f} %"])
    return lines


def without() -> str:
    try:
        return f"LIBLINEAR's multicore package {version('liblinear-multicore')} is installed; it is not compared here."
    except PackageNotFoundError:
        return "LIBLINEAR's multicore package (liblinear-multicore) is not installed, and not compared."


def run(report: Report, names: Sequence[str], quick: bool, repeat: int, limit: float) -> None:
    families = [family for family in FAMILIES if family.name in names]
    head = ["problem", "threads", "seconds", "faster", "must", "processor seconds", "passes", "floor / seconds"]
    lines = [line for family in families for line in measured(family, quick, repeat, limit)]
    report.section("cores", f"{__doc__}\n{table(head, lines)}")
    lines = [line for family in families if family.peers for line in peers(family, quick, repeat)]
    if lines:
        text = "Half of the rows, accuracy on the other half; peers to their own default stop."
        report.section("cores: peers", f"{text} {without()}\n\n{table(['problem', 'who', 'seconds', 'accuracy'], lines)}")
