"""Streams on disk under a hard memory limit: one pass, certified passes, and the peers that learn from text.

Each measurement is a process of its own. It warms up on a small file, then limits its address space to its size at that moment
plus a budget that is smaller than the data, then opens the file anew. Objectives and test errors are computed outside of it, in
plain NumPy, from the same rows.
"""

import importlib.util
import resource
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import SGDClassifier

import maxmargin as mm

from .measure import ONE_THREAD, PeakMemory, environment, status
from .report import Report, figure, table

LAM = 1e-4
BLOCK = 5_000  # rows that are made together
LEVELS = 64  # values are of so many kinds, so that text is written quickly
CACHE = 32.0  # megabytes
CHUNK = 8 << 20  # bytes of text that scikit-learn parses together
RATES = (("optimal", 0.0), ("constant", 0.001), ("constant", 0.01), ("constant", 0.1), ("invscaling", 0.1), ("invscaling", 1.0))
PASSES = 5  # of scikit-learn and Vowpal Wabbit at the most
WITHIN = 1e-3  # test errors that differ by less are equal


@dataclass(frozen=True)
class Stream:
    """Rows made block by block from a seed: a noisy linear model, features dense or a skewed choice of `nonzeros` of them."""

    name: str
    rows: int
    features: int
    classes: int
    nonzeros: int | None = None
    budget: float = 256.0  # megabytes

    @property
    def C(self) -> float:  # noqa: N802 - as everywhere
        return 1.0 / (LAM * self.rows)

    def truth(self) -> np.ndarray:
        return np.random.default_rng(0).normal(size=(self.features, self.classes if self.classes > 2 else 1))

    def block(self, k: int) -> tuple[Any, np.ndarray]:
        """Block k; -1 is the test set."""
        rng = np.random.default_rng([1, k + 1])
        n, width = min(BLOCK, self.rows - max(k, 0) * BLOCK), self.nonzeros or self.features
        values = (rng.integers(1, LEVELS, size=(n, width)) - LEVELS // 2) / (LEVELS / 4) / np.sqrt(width)
        if self.nonzeros is None:
            X = values
        else:
            columns = np.sort((self.features * rng.random((n, width)) ** 3).astype(np.int32), axis=1)
            X = sp.csr_matrix((values.ravel(), columns.ravel(), np.arange(0, n * width + 1, width)), (n, self.features))
            X.sum_duplicates()
        scores = X @ self.truth()
        scores = scores + 0.5 * rng.normal(size=scores.shape)
        return X, scores.argmax(axis=1) if self.classes > 2 else (scores[:, 0] > 0).astype(int)

    def blocks(self) -> Iterator[tuple[Any, np.ndarray]]:
        return (self.block(k) for k in range(-(-self.rows // BLOCK)))


def write(stream: Stream, path: Path) -> int:
    """The stream as svmlight text; returns its size"""
    with path.open("w") as file:
        for X, y in stream.blocks():
            X = sp.csr_matrix(X)
            words = [f"{value:.4f}" for value in np.unique(X.data)]
            which = np.searchsorted(np.unique(X.data), X.data).tolist()
            columns, indptr = (X.indices + 1).tolist(), X.indptr.tolist()
            for i, label in enumerate(y.tolist()):
                places = range(indptr[i], indptr[i + 1])
                file.write(f"{label} " + " ".join([f"{columns[p]}:{words[which[p]]}" for p in places]) + "\n")
    return path.stat().st_size


def objective(stream: Stream, coef: np.ndarray, intercept: np.ndarray) -> float:
    """P at these weights, from rows made anew; `words` of the text have four digits, and so have these"""
    total = 0.5 * float(np.sum(coef**2) + np.sum(intercept**2))
    for X, y in stream.blocks():
        total += stream.C * float(losses(rounded(X) @ coef.T + intercept, y).sum())
    return total


def rounded(X):
    """The values as the text has them"""
    if sp.issparse(X):
        return sp.csr_matrix((np.round(X.data, 4), X.indices, X.indptr), X.shape)
    return np.round(X, 4)


def losses(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    if scores.shape[1] == 1:
        return np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * scores[:, 0])
    here = np.arange(y.size)
    margins = scores + 1.0
    margins[here, y] -= 1.0
    return margins.max(axis=1) - scores[here, y]


def test_error(stream: Stream, coef: np.ndarray, intercept: np.ndarray) -> float:
    X, y = stream.block(-1)
    scores = rounded(X) @ coef.T + intercept
    guess = scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(int)
    return float(np.mean(guess != y))


# ---- what is measured, each in its own process -----------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    seconds: float
    megabytes: float
    coef: np.ndarray
    intercept: np.ndarray
    reads: int = 0
    gap: float | None = None
    error: float | None = None  # where there are no weights to compute it from


def learn_online(path: Path, stream: Stream, setting: dict[str, Any]) -> Found:
    memory, begin = PeakMemory(), time.perf_counter()
    source = mm.open_source(path, n_features=stream.features)
    solver = mm.OnlineDual(cache_size=CACHE, verify=setting.pop("verify", True))
    model = mm.SVMClassifier(C=stream.C, solver=solver, random_state=0, **setting).fit(source)
    seconds = time.perf_counter() - begin
    reads = int(model.statistics_["reads"]) + 1  # and the scan
    return Found(seconds, memory.growth() / 1e6, model.coef_, model.intercept_, reads, model.certificate_.relative_gap)


def chunks(path: Path, stream: Stream) -> Iterator[tuple[Any, np.ndarray]]:
    """The file as scikit-learn parses it, by offsets"""
    size = path.stat().st_size
    for offset in range(0, size, CHUNK):
        X, y = load_svmlight_file(str(path), n_features=stream.features, offset=offset, length=CHUNK, zero_based=False)
        if y.size:
            X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # SGDClassifier takes no others
            yield X, y.astype(int)


def learn_sgd(path: Path, stream: Stream, setting: dict[str, Any]) -> Found:
    schedule, rate = setting["rate"]
    memory, begin = PeakMemory(), time.perf_counter()
    model = SGDClassifier(alpha=LAM, learning_rate=schedule, eta0=rate or 0.01, average=setting["average"], random_state=0)
    passes = 0
    for _ in range(setting["passes"]):
        for X, y in chunks(path, stream):
            model.partial_fit(X, y, classes=np.arange(stream.classes))
        passes += 1
    return Found(time.perf_counter() - begin, memory.growth() / 1e6, model.coef_, model.intercept_, passes)


def learn_vw(path: Path, stream: Stream, setting: dict[str, Any]) -> Found:
    """Vowpal Wabbit reads its own text and keeps a cache for later passes; weights stay inside of it, so only errors are known"""
    from vowpalwabbit import Workspace

    several = stream.classes > 2
    for cache in path.parent.glob("vw.cache*"):
        cache.unlink()
    memory, begin = PeakMemory(), time.perf_counter()
    bits = int(np.ceil(np.log2((stream.features + 1) * stream.classes))) + 1
    model = Workspace(
        f"--quiet --loss_function hinge --l2 {LAM} -l {setting['rate']} -b {bits} {f'--oaa {stream.classes}' if several else ''} "
        f"-d {path.with_suffix('.vw')} --passes {setting['passes']} --cache_file {path.parent / 'vw.cache'} -k --holdout_off"
    )
    seconds, megabytes = time.perf_counter() - begin, memory.growth() / 1e6
    X, y = stream.block(-1)
    X = sp.csr_matrix(rounded(X))
    wrong = 0
    for i, label in enumerate(y.tolist()):
        part = slice(X.indptr[i], X.indptr[i + 1])
        guess = model.predict("| " + " ".join(f"{j + 1}:{x:.4f}" for j, x in zip(X.indices[part], X.data[part], strict=True)))
        wrong += (int(guess) - 1 if several else int(guess > 0)) != label
    nothing = np.zeros(0)
    return Found(seconds, megabytes, nothing, nothing, setting["passes"], error=wrong / y.size)


def write_for_vw(path: Path, several: bool) -> None:
    """The same rows as Vowpal Wabbit wants them; not counted"""
    with path.open() as file, path.with_suffix(".vw").open("w") as out:
        for line in file:
            label, rest = line.split(" ", 1)
            out.write(f"{int(label) + 1 if several else 2 * int(label) - 1} | {rest}")


def learn_in_memory(path: Path, stream: Stream, setting: dict[str, Any]) -> Found:
    memory, begin = PeakMemory(), time.perf_counter()
    X, y = load_svmlight_file(str(path), n_features=stream.features, zero_based=False)
    model = mm.SVMClassifier(C=stream.C, random_state=0, **setting).fit(X if stream.nonzeros else X.toarray(), y.astype(int))
    gap = model.certificate_.relative_gap
    return Found(time.perf_counter() - begin, memory.growth() / 1e6, model.coef_, model.intercept_, 1, gap)


def read_only(path: Path, stream: Stream, setting: dict[str, Any]) -> Found:
    """A pass without learning: the parsers against each other"""
    memory, begin = PeakMemory(), time.perf_counter()
    if setting["parser"] == "ours":
        mm.open_source(path, n_features=stream.features).scan()
    else:
        for _ in chunks(path, stream):
            pass
    nothing = np.zeros(0)
    return Found(time.perf_counter() - begin, memory.growth() / 1e6, nothing, nothing)


Task = Callable[[Path, Stream, dict[str, Any]], Found]


def work(connection, task: Task, small: Path, path: Path, stream: Stream, setting: dict[str, Any], limit: bool) -> None:
    warnings.simplefilter("ignore")
    try:
        task(small, replace(stream, rows=2 * BLOCK), dict(setting))
        if limit:
            most = status("VmSize") + int(stream.budget * 2**20)
            resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        connection.send(task(path, stream, dict(setting)))
    except Exception as error:  # whatever it is, the table says so
        connection.send(f"{type(error).__name__}: {error}")


@dataclass(frozen=True)
class Bench:
    """A stream on disk, and measurements on it."""

    stream: Stream
    small: Path
    path: Path

    def run(self, task: Task, limit: bool = True, **setting) -> Found | str:
        context = get_context("spawn")
        near, far = context.Pipe()
        args = (far, task, self.small, self.path, self.stream, setting, limit)
        process = context.Process(target=work, args=args)
        with environment({**ONE_THREAD, "MALLOC_ARENA_MAX": "1"}):
            process.start()
        far.close()
        try:
            found = near.recv()
        except EOFError:
            found = "the process died"
        process.join()
        return found

    def error(self, found: Found) -> float:
        return test_error(self.stream, found.coef, found.intercept) if found.error is None else found.error

    def line(self, name: str, found: Found | str, best: float) -> list[str]:
        if isinstance(found, str):
            return [name, found, "-", "-", "-", "-", "-"]
        error = self.error(found)
        gap = "-" if found.gap is None else f"{found.gap:.1e}" if np.isfinite(found.gap) else "not computed"
        over = "-"
        if found.coef.size:
            over = f"{100 * (objective(self.stream, found.coef, found.intercept) / best - 1):.2f} %"
        return [name, figure(found.seconds), str(found.reads), over, f"{100 * error:.2f} %", gap, figure(found.megabytes)]


def tuned(bench: Bench, task: Task, settings: list[dict[str, Any]]) -> tuple[dict[str, Any], Found] | str:
    """The setting with the lowest test error after one pass: a choice that favours the peer"""
    best: tuple[float, dict[str, Any], Found] | None = None
    for setting in settings:
        found = bench.run(task, passes=1, **setting)
        if isinstance(found, str):
            return found
        error = bench.error(found)
        if best is None or error < best[0]:
            best = error, setting, found
    assert best is not None
    return best[1], best[2]


def peer(bench: Bench, name: str, task: Task, settings: list[dict[str, Any]], target: float, best: float) -> list[list[str]]:
    """One pass of a peer at its best setting, then more of them until its test error is ours"""
    choice = tuned(bench, task, settings)
    if isinstance(choice, str):
        return [bench.line(name, choice, best)]
    setting, found = choice
    label = ", ".join(str(value) for value in setting.values())
    lines = [bench.line(f"{name}, one pass ({label})", found, best)]
    passes = 1
    while passes < PASSES and bench.error(found) > target + WITHIN:
        passes += 1
        again = bench.run(task, passes=passes, **setting)
        if isinstance(again, str):
            break
        found = again
    reached = bench.error(found) <= target + WITHIN
    lines.append(bench.line(f"{name}, {'to our test error' if reached else 'never at our test error'}", found, best))
    return lines


def compare(report: Report, bench: Bench, size: int, quick: bool) -> None:
    stream = bench.stream
    tight = bench.run(learn_online, tol=1e-4)
    if isinstance(tight, str):
        raise RuntimeError(tight)
    best = objective(stream, tight.coef, tight.intercept)
    once = bench.run(learn_online, max_iter=1, verify=False)
    target = 1.0 if isinstance(once, str) else test_error(stream, once.coef, once.intercept)
    lines = [
        bench.line("OnlineDual, one pass", once, best),
        bench.line("OnlineDual, certified 1e-2", bench.run(learn_online, tol=1e-2), best),
        bench.line("OnlineDual, certified 1e-3", bench.run(learn_online, tol=1e-3), best),
    ]
    rates: list[dict[str, Any]] = [{"rate": rate, "average": average} for rate in RATES for average in (False, True)]
    rates = rates[1:2] if quick else rates
    lines += peer(bench, "SGDClassifier.partial_fit", learn_sgd, rates, target, best)
    if importlib.util.find_spec("vowpalwabbit") is None:
        lines.append(["Vowpal Wabbit", "not installed", "-", "-", "-", "-", "-"])
    else:
        for path in (bench.small, bench.path):
            write_for_vw(path, stream.classes > 2)
        rates = [{"rate": rate} for rate in ((0.5,) if quick else (0.05, 0.5, 5.0))]
        lines += peer(bench, "Vowpal Wabbit", learn_vw, rates, target, best)
    lines.append(bench.line("in memory, tol=1e-3", bench.run(learn_in_memory, limit=False, tol=1e-3), best))
    head = ["", "seconds", "reads", "objective above best", "test error", "certified gap", "extra MB"]
    parsers = {name: bench.run(read_only, parser=name) for name in ("ours", "scikit-learn's")}
    speed = "; ".join(
        f"{name} {figure(size / 1e6 / found.seconds)} MB/s" for name, found in parsers.items() if isinstance(found, Found)
    )
    body = (
        f"{stream.rows} x {stream.features}, {stream.classes} classes, {figure(size / 1e6)} MB of text, lam = {LAM:g}; each "
        f"process may grow by {stream.budget:g} MB beyond its size after warming up, all but the one in memory; "
        f"cache_size={CACHE:g}. "
        "Seconds count reading the text, its scan included. The peers' objective for several classes is one against the rest, so "
        f"only their test errors compare.\n\n{table(head, lines)}\n\nParsers, a pass without learning: {speed}."
    )
    report.section(f"online, {stream.name}", body)


def growth(report: Report, folder: Path, stream: Stream) -> None:
    """The same memory for 1x, 4x and 16x the data"""
    lines = []
    for times in (1, 4, 16):
        here = replace(stream, rows=stream.rows * times)
        bench, size = made(here, folder)
        found = bench.run(learn_online, tol=1e-2)
        bench.path.unlink()
        cells = (
            [found, "-", "-"] if isinstance(found, str) else [figure(found.megabytes), figure(found.seconds), str(found.reads)]
        )
        lines.append([str(here.rows), figure(size / 1e6), *cells])
    head = ["rows", "MB of text", "extra MB", "seconds", "reads"]
    report.section("online, memory", f"tol=1e-2, cache_size={CACHE:g}, limit {stream.budget:g} MB.\n\n{table(head, lines)}")


def made(stream: Stream, folder: Path) -> tuple[Bench, int]:
    small, path = folder / "small.svm", folder / "stream.svm"
    write(replace(stream, rows=2 * BLOCK), small)
    return Bench(stream, small, path), write(stream, path)


def run(report: Report, quick: bool) -> None:
    part = 50 if quick else 1
    budget = 128.0 if quick else 256.0
    for classes in (2, 10):
        for stream in (
            Stream(f"dense, {classes} classes", 1_000_000 // part, 100, classes, None, budget),
            Stream(f"sparse, {classes} classes", 500_000 // part, 50_000 // part, classes, 80, budget),
        ):
            folder = Path(tempfile.mkdtemp(prefix="maxmargin-bench-"))
            try:
                bench, size = made(stream, folder)
                compare(report, bench, size, quick)
            finally:
                shutil.rmtree(folder)
    folder = Path(tempfile.mkdtemp(prefix="maxmargin-bench-"))
    try:
        growth(report, folder, Stream("growth", 100_000 // part, 100, 2, None, budget))
    finally:
        shutil.rmtree(folder)
