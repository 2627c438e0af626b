"""Peers with threads, beside ours: each in a process of its own, which is killed after `limit` seconds of one fit.

Another objective (lbfgs) or other classes (one against the rest), each to its own stop. A process says when its data are there,
when it has fitted a tenth of them (which compiles, and starts processes), how long each fit took, and how good the last one is.
Usage of one process: python -m benchmarks.core_peers FAMILY PEER THREADS PART REPEAT
"""

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from threading import Timer
from typing import Any

import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from .report import figure
from .workloads import ROOT

OURS, LBFGS, REST, LIBLINEAR = "maxmargin", "LogisticRegression (lbfgs)", "OneVsRestClassifier(LinearSVC)", "liblinear-multicore"
PEERS = (OURS, LBFGS, REST, LIBLINEAR)
HEAD = ["problem", "who", "seconds", "accuracy"]
LOADING = 300.0  # seconds that data may take to be made, whatever the limit of a fit
EVERY = 10  # one row of so many is fitted first


class Multicore:
    """LIBLINEAR's multicore package as a model."""

    def __init__(self, C: float, threads: int):
        self.options = f"-s 3 -c {C} -B 1 -e 0.1 -m {threads} -q"

    def fit(self, X: Any, y: Any) -> None:
        from liblinear import liblinearutil

        self.model = liblinearutil.train(y, sp.csr_matrix(X), self.options)

    def score(self, X: Any, y: Any) -> float:
        from liblinear import liblinearutil

        return float(liblinearutil.predict(y, sp.csr_matrix(X), self.model, "-q")[1][0]) / 100.0


def multicore_version() -> str | None:
    try:
        return version(LIBLINEAR)
    except PackageNotFoundError:
        return None


def without() -> str:
    found = multicore_version()
    if found is None:
        return f"LIBLINEAR's multicore package ({LIBLINEAR}) is not installed, and not compared."
    return f"LIBLINEAR's multicore package is {found}; of two classes, in its own sparse format."


def present(classes: int) -> list[str]:
    """Who is compared where there are so many classes; one stands for two."""
    return [peer for peer in PEERS if peer != LIBLINEAR or (classes == 1 and multicore_version() is not None)]


def peer_model(peer: str, ours: Any, C: float, threads: int) -> Any:
    if peer == OURS:
        return ours.set_params(n_jobs=threads)
    if peer == LBFGS:
        return LogisticRegression(C=C, max_iter=1000)
    if peer == REST:
        return OneVsRestClassifier(LinearSVC(C=C, loss="hinge"), n_jobs=threads)
    return Multicore(C, threads)


def main() -> None:
    from .cores import FAMILIES, TOL

    name, peer, threads, part, repeat = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
    family = next(family for family in FAMILIES if family.name == name)
    X, y = family.load(part)
    half = len(y) // 2
    model = peer_model(peer, family.model(half).set_params(tol=TOL), 1e4 / half, threads)
    print("loaded", flush=True)
    with threadpool_limits(threads, "blas"):
        model.fit(X[:half:EVERY], y[:half:EVERY])
        print("warm", flush=True)
        for _ in range(repeat):
            begin = time.perf_counter()
            model.fit(X[:half], y[:half])
            print(time.perf_counter() - begin, flush=True)
    print(model.score(X[half:], y[half:]), flush=True)


def end(process: subprocess.Popen) -> None:
    """Kill a process, and those that it has started."""
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def said(process: subprocess.Popen, limit: float) -> str:
    """The next line of a process; none where it takes longer, or has ended. It is killed then."""
    assert process.stdout is not None
    timer = Timer(limit, end, [process])
    timer.start()
    line = process.stdout.readline().strip()
    timer.cancel()
    return line


def outcome(words: list[str], repeat: int, limit: float) -> tuple[str, str]:
    """What a process of these words says of itself: seconds and accuracy, as cells. The words: those of `main`."""
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        lines = [said(process, LOADING)]
        while lines[-1] and len(lines) < repeat + 3:
            lines.append(said(process, limit))
        killed = process.wait() < 0
    if lines[-1]:
        return figure(median(map(float, lines[2:-1]))), f"{100 * float(lines[-1]):.1f} %"
    if not killed:
        return "failed", "-"
    return ("-" if len(lines) == 1 else f"> {limit:g}"), "-"


def lines_of(name: str, classes: int, threads: int, part: float, repeat: int, limit: float) -> Iterator[list[str]]:
    """A line for each peer, as it ends."""
    for peer in present(classes):
        words = [sys.executable, "-W", "ignore", "-m", "benchmarks.core_peers", name, peer, str(threads), str(part), str(repeat)]
        who = peer if peer == LBFGS else f"{peer}, {threads} {'jobs' if peer == REST else 'threads'}"
        yield [name, who, *outcome(words, repeat, limit)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
