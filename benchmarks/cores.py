"""What threads bring: seconds to a certified gap of 1e-3 with 1, 2, 4, 8 and 16 of them, as many as the machine has cores.

Beside the clock stands the processor time of all threads: where it grows with their number, threads do more work or wait for
memory; where it does not and the clock shows no gain, the machine had other work. The floor is what the same passes cannot do
without: two matrix products with all rows where these are dense (BLAS, as many threads), else the bytes of X at the rate at
which as many threads read memory. Fits are repeated with other seeds, as a pass more or less is luck. Rows that rest are
counted there, so a run may come out below it. GB/s is what visits and exact values read of X, by the number of visits of the
run, and its part of what as many threads read at best: near one, memory is the limit. The first lines are the machine's own:
how much faster as many threads multiply matrices and read memory. Cores that are halves of one, as virtual ones often are, do
not double that.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import maxmargin as mm
from maxmargin.datasets import make_plates
from maxmargin.solvers import loop
from maxmargin.utils.threads import in_threads

from . import core_peers
from .report import Report, cores, figure, table
from .workloads import synthetic_dense, synthetic_regression, synthetic_sparse

TOL = 1e-3
THREADS = (1, 2, 4, 8, 16)
READ = 1 << 24  # numbers of an array that a thread reads to measure memory
SQUARE = 2_000  # rows of a matrix that is multiplied to measure BLAS
LABEL_SCALE = 0.8  # of standard deviations: one label in five is present
QUICK = 0.005  # part of the rows


@dataclass(frozen=True)
class Family:
    """A kind of problem, `load(part)` makes that part of its rows; what it must reach with 2 and 16 threads."""

    name: str
    load: Callable[[float], tuple[Any, Any]]
    model: Callable[[int], Any]
    must: tuple[float, float]
    classes: int = 1
    peers: bool = False


def two_classes(rows: int, columns: int, dtype: Any) -> Callable[[float], tuple[Any, Any]]:
    """Gaussian rows on either side of a plane, with noise: about one in eight is on the wrong side."""

    def load(part: float) -> tuple[Any, Any]:
        rng, n = np.random.default_rng(0), int(rows * part)
        X = rng.standard_normal((n, columns), dtype=dtype)
        scores = X @ rng.standard_normal(columns).astype(dtype) + 0.4 * np.sqrt(columns) * rng.standard_normal(n)
        return X, np.where(scores > 0.0, 1, -1)

    return load


def clusters(rows: int, columns: int, classes: int) -> Callable[[float], tuple[Any, Any]]:
    def load(part: float) -> tuple[Any, Any]:
        X, y = synthetic_dense(int(rows * part), columns, classes)
        return X.astype(np.float32), y

    return load


def topics(rows: int, classes: int) -> Callable[[float], tuple[Any, Any]]:
    """CSR rows, whose classes are the largest of as many random scores."""

    def load(part: float) -> tuple[Any, Any]:
        X, _ = synthetic_sparse(int(rows * part))
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
    """Chains as long as words, 26 labels, 128 features of a node: about as hard as handwriting."""
    rng = np.random.default_rng(0)
    centres, follows = rng.standard_normal((26, 128)), rng.random((26, 26))
    X, Y = [], []
    for _ in range(int(4_000 * part)):
        y = [int(rng.integers(26))]
        for _ in range(int(rng.integers(3, 13))):
            y.append(int(np.argmax(follows[y[-1]] + rng.random(26))))
        Y.append(np.array(y))
        X.append(centres[y] + 3.0 * rng.standard_normal((len(y), 128)))
    return X, Y


def plates(part: float) -> tuple[Any, Any]:
    """Number plates to cut into characters."""
    X, y, _ = make_plates(int(2_000 * part), random_state=0)
    return X, y


def cutter(n: int) -> Any:
    _, _, widths = make_plates(1, random_state=0)
    return mm.StructuredSVM(mm.structures.Segmentation(widths), C=30.0 / n)


def svm(n: int) -> Any:
    return mm.SVMClassifier(C=1e4 / n)


FIRST, SECOND = (1.6, 6.0), (1.3, 3.0)
FAMILIES = (
    Family("binary, 50 columns", two_classes(1_000_000, 50, np.float64), svm, SECOND),
    Family("binary, 768 columns", two_classes(200_000, 768, np.float32), svm, SECOND, peers=True),
    Family("binary, CSR", lambda part: synthetic_sparse(int(1_000_000 * part)), svm, SECOND, peers=True),
    Family(
        "regression", lambda part: synthetic_regression(int(500_000 * part), 200), lambda n: mm.SVMRegressor(C=1e3 / n), SECOND
    ),
    Family("10 classes", clusters(1_000_000, 50, 10), svm, SECOND, 10),
    Family("100 classes", clusters(200_000, 768, 100), svm, FIRST, 100, peers=True),
    Family("1,000 classes", clusters(50_000, 1_024, 1_000), svm, FIRST, 1_000),
    Family("5,000 classes", clusters(20_000, 64, 5_000), svm, FIRST, 5_000),
    Family("100 classes, CSR", topics(20_000, 100), svm, FIRST, 100),
    Family("top-5, 100 classes, CSR", topics(20_000, 100), lambda n: mm.TopKSVMClassifier(k=5, C=1e4 / n), FIRST, 100),
    Family("20 labels", labelled(20_000, 20), lambda n: mm.MultilabelSVMClassifier(C=1e4 / n), FIRST, 20),
    Family("1,000 labels, CSR", labelled(4_000, 1_000, 0.1), lambda n: mm.MultilabelSVMClassifier(C=1e4 / n), FIRST, 1_000),
    Family("chains", words, lambda n: mm.StructuredSVM(mm.structures.Chain(), C=30.0 / n), FIRST),
    Family("segmentation", plates, cutter, FIRST),
    Family("bundle", two_classes(500_000, 50, np.float64), lambda n: svm(n).set_params(solver=mm.Bundle()), FIRST),
    Family("kernel", clusters(12_000, 50, 10), lambda n: mm.SVMClassifier(C=1.0, kernel="rbf"), FIRST, 10),
)
TEXT = "text parsing"


@dataclass(frozen=True)
class Timed:
    seconds: float
    processor: float  # seconds of all threads
    passes: float = 0
    gap: float = 0.0
    visits: int = 0
    looks: int = 0  # exact values


def timed(call: Callable[[], Any], repeat: int) -> tuple[Timed, Any]:
    """The medians, and what the last call returned."""
    times, found = [], None
    for _ in range(repeat):
        begin, used = time.perf_counter(), time.process_time()
        found = call()
        times.append((time.perf_counter() - begin, time.process_time() - used))
    return Timed(*(median(column) for column in zip(*times, strict=True))), found


@contextmanager
def noted() -> Iterator[list[Any]]:
    """The runs that fits make meanwhile."""
    runs: list[Any] = []
    drive = loop.drive

    def driven(run: Any, *rest: Any) -> Any:
        runs.append(run)
        return drive(run, *rest)

    vars(loop)["drive"] = driven
    try:
        yield runs
    finally:
        vars(loop)["drive"] = drive


def fitted(family: Family, X: Any, y: Any, threads: int, repeat: int, limit: float) -> Timed:
    model = family.model(len(y)).set_params(n_jobs=threads, tol=TOL, max_time=limit, random_state=0)
    with warnings.catch_warnings(), noted() as runs:
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)  # compiles, to the end: what the last passes need is not met before
        fits = []
        for seed in range(repeat):
            model.set_params(random_state=seed)
            found, _ = timed(lambda: model.fit(X, y), 1)
            fits.append((found.seconds, found.processor, int(np.max(model.n_iter_))))
        visits = runs[-1].visits if runs else 0
    seconds, processor, passes = (median(column) for column in zip(*fits, strict=True))
    return Timed(seconds, processor, passes, float(model.certificate_.relative_gap), visits, len(model.history_))


@cache
def bandwidth(threads: int) -> float:
    """Bytes a second that as many threads read together."""
    arrays = [np.ones(READ) for _ in range(threads)]
    found, _ = timed(lambda: in_threads(np.max, arrays, threads), 3)
    return threads * READ * 8 / found.seconds


@cache
def peak(threads: int, dtype: Any) -> float:
    """Multiplications and additions a second of a large matrix product."""
    A = np.ones((SQUARE, SQUARE), dtype)
    with threadpool_limits(threads, "blas"):
        found, _ = timed(lambda: A @ A, 3)
    return 2.0 * SQUARE**3 / found.seconds


def machine(counts: Sequence[int]) -> list[list[str]]:
    """What threads bring where nothing is shared but the machine."""
    kinds = ("float32 products", lambda k: peak(k, np.float32)), ("reading memory", bandwidth)
    lines = []
    for name, rate in kinds:
        lines += [[f"{name} alone", str(k), "-", figure(rate(k) / rate(counts[0]), 2), *["-"] * 5] for k in counts]
    return lines


def floor(family: Family, X: Any, passes: float, threads: int) -> float | None:
    """Seconds that as many passes over all rows take at least; None where nothing is known."""
    if sp.issparse(X):
        return passes * (X.data.nbytes + X.indices.nbytes) / bandwidth(threads)
    if not isinstance(X, np.ndarray) or family.name == "kernel":
        return None
    W, S = np.ones((X.shape[1], family.classes), X.dtype), np.ones((X.shape[0], family.classes), X.dtype)
    with threadpool_limits(threads, "blas"):
        found, _ = timed(lambda: (X @ W, X.T @ S), 3)
    return passes * found.seconds


@dataclass(frozen=True)
class Point:
    """What a fit has achieved: multiplications and additions of scores, and bytes of X, a second."""

    name: str
    threads: int
    operations: float
    read: float


def point(family: Family, X: Any, one: Timed, threads: int) -> Point | None:
    """None where visits are not visits to rows of X."""
    if family.name == "kernel" or not (sp.issparse(X) or isinstance(X, np.ndarray)) or not one.visits:
        return None
    entries = X.nnz if sp.issparse(X) else X.size
    size = X.data.nbytes + X.indices.nbytes if sp.issparse(X) else X.nbytes
    times = one.visits / X.shape[0] + 2 * one.looks  # an exact value takes two passes
    return Point(family.name, threads, 2.0 * family.classes * times * entries / one.seconds, times * size / one.seconds)


Measured = tuple[list[list[str]], list[Point]]


def measured(family: Family, counts: Sequence[int], quick: bool, repeat: int, limit: float) -> Measured:
    X, y = family.load(QUICK if quick else 1.0)
    found = {threads: fitted(family, X, y, threads, repeat, limit) for threads in counts}
    alone, lines, points = found[counts[0]], [], []
    for threads, one in found.items():
        least, at = floor(family, X, one.passes, threads), point(family, X, one, threads)
        share = None if least is None else least / one.seconds
        gap = "" if one.gap <= TOL else f" (gap {one.gap:.1e})"
        read = "-" if at is None else f"{at.read / 1e9:.1f} ({at.read / bandwidth(threads):.2f})"
        cells = [*speed(family.name, threads, alone.seconds / one.seconds, family.must, one)]
        lines.append([*cells, f"{one.passes:g}{gap}", figure(share, 2), read])
        points += [] if at is None else [at]
    return lines, points


def speed(name: str, threads: int, faster: float, musts: tuple[float, float], one: Timed) -> list[str]:
    must = dict(zip((2, 16), musts, strict=True)).get(threads)
    verdict = "-" if must is None else f"{must:g}: {'holds' if faster >= must else 'FAILS'}"
    return [name, str(threads), figure(one.seconds), figure(faster, 2), verdict, figure(one.processor)]


def parsed(counts: Sequence[int], quick: bool, repeat: int) -> list[list[str]]:
    """A text file of sparse rows, read to its end."""
    X, y = synthetic_sparse(int(100_000 * (QUICK if quick else 1.0)))
    with TemporaryDirectory() as folder:
        path = Path(folder, "rows.svm")
        dump_svmlight_file(X, y, str(path), zero_based=False)

        def read(threads: int) -> int:
            return sum(block.X.shape[0] for block in mm.open_source(path, n_features=X.shape[1], n_jobs=threads).blocks())

        read(max(counts))  # compiles
        found = {threads: timed(lambda threads=threads: read(threads), repeat)[0] for threads in counts}
    lines = [speed(TEXT, k, found[counts[0]].seconds / one.seconds, FIRST, one) for k, one in found.items()]
    return [[*cells, "-", "-", "-"] for cells in lines]


def roofline(points: Sequence[Point], counts: Sequence[int], path: Path) -> None:
    """A picture of what was achieved under what memory and matrix products allow."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    picture = Figure(figsize=(8, 5))
    axes = picture.subplots()
    span = np.geomspace(0.05, 1e3, 100)
    for threads in (counts[0], counts[-1]):
        most, name = np.minimum(span * bandwidth(threads), peak(threads, np.float32)), f"threads: {threads}"
        axes.plot(span, most / 1e9, label=f"memory and float32 products, {name}")
    for one in points:
        if one.threads in (counts[0], counts[-1]):
            x, y = one.operations / one.read, one.operations / 1e9
            axes.plot(x, y, "o" if one.threads == counts[0] else "s", color="black")
            axes.annotate(f"{one.name} ({one.threads})", (x, y), (6, -2), textcoords="offset points", fontsize=6)
    axes.set(
        xscale="log", yscale="log", xlabel="multiplications and additions for a byte of X", ylabel="billions of them a second"
    )
    axes.legend(fontsize=7)
    FigureCanvasAgg(picture)
    picture.savefig(path, dpi=120)


@dataclass(frozen=True)
class Options:
    quick: bool
    repeat: int
    limit: float
    threads: Sequence[int] = THREADS
    peers: bool = True
    plot: Path | None = None


def run(report: Report, names: Sequence[str], options: Options) -> None:
    """Lines are printed and kept as families end: a run that is stopped has left what it had."""
    quick, repeat, counts = options.quick, options.repeat, [k for k in options.threads if k <= cores()]
    head = ["problem", "threads", "seconds", "faster", "must", "processor seconds", "passes", "floor / seconds", "GB/s (of best)"]
    lines, points = machine(counts), []
    print(table(head, lines), flush=True)
    for family in [family for family in FAMILIES if family.name in names]:
        more, some = measured(family, counts, quick, repeat, options.limit)
        print(table(head, more), flush=True)
        lines, points = lines + more, points + some
        report.keep("cores", f"{__doc__}\n{table(head, lines)}")
    if TEXT in names:
        lines += parsed(counts, quick, repeat)
    report.section("cores", f"{__doc__}\n{table(head, lines)}")
    if options.plot is not None:
        roofline(points, counts, options.plot)
    compared = [family for family in FAMILIES if family.peers and family.name in names and options.peers]
    part, beside = QUICK if quick else 1.0, list[list[str]]()
    for family in compared:
        for line in core_peers.lines_of(family.name, family.classes, counts[-1], part, repeat, options.limit):
            print(" | ".join(line), flush=True)
            beside.append(line)
    if beside:
        text = "Half of the rows, accuracy on the other half; peers to their own default stop, each in a process of its own "
        text += f"that is killed after {options.limit:g} s of one fit. {core_peers.without()}"
        report.section("cores: peers", f"{text}\n\n{table(core_peers.HEAD, beside)}")
