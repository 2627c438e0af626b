"""`python -m maxmargin.warm [what ...]`: compile ahead, for images, servers and test runners.

Each task is a small fit and a prediction, in a process of its own; what they compile is kept where later fits look for it. Two
processes that want the same kernel do not both compile it: one waits for the other.
"""

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import structures
from .estimators.classifier import SVMClassifier
from .estimators.latent import LatentSVMClassifier
from .estimators.multilabel import MultilabelSVMClassifier
from .estimators.regressor import SVMRegressor
from .estimators.structured import StructuredSVM
from .estimators.topk import TopKSVMClassifier
from .jit import folder, keeps_kernels

SAMPLES, FEATURES, LENGTH = 60, 6, 4
LAYOUTS: dict[str, Callable[[np.ndarray], Any]] = {
    "dense": np.asarray,
    "dense float32": lambda X: X.astype(np.float32),
    "sparse": sp.csr_array,
}
LAYOUTS_USED = "dense", "sparse"  # where nothing else is said


def data() -> tuple[np.ndarray, np.ndarray]:
    """Three classes that overlap."""
    rng = np.random.default_rng(0)
    y = np.arange(SAMPLES) % 3
    return rng.normal(size=(SAMPLES, FEATURES)) + y[:, None], y


def fitted(model: Any, X: Any, y: Any) -> None:
    model.fit(X, y).predict(X)


def matrices(make: Callable[[], Any], target: Callable[[np.ndarray], Any]) -> Callable[[Callable], None]:
    """A model whose samples are the rows of a matrix."""

    def run(layout: Callable) -> None:
        X, y = data()
        fitted(make(), layout(X), target(y))

    return run


def sequences(make: Callable[[], Any]) -> Callable[[Callable], None]:
    def run(layout: Callable) -> None:
        X, y = data()
        cuts = range(0, SAMPLES, LENGTH)
        fitted(make(), [layout(X[k : k + LENGTH]) for k in cuts], [y[k : k + LENGTH] for k in cuts])

    return run


def bags(layout: Callable) -> None:
    X, _ = data()
    cuts = range(0, SAMPLES, LENGTH)
    fitted(LatentSVMClassifier(random_state=0), [layout(X[k : k + LENGTH]) for k in cuts], [k // LENGTH % 2 for k in cuts])


def two(y: np.ndarray) -> np.ndarray:
    return (y > 0).astype(int)


def itself(y: np.ndarray) -> np.ndarray:
    return y


TASKS: dict[str, Callable[[Callable], None]] = {
    "binary": matrices(lambda: SVMClassifier(random_state=0), two),
    "regression": matrices(lambda: SVMRegressor(random_state=0), lambda y: y.astype(float)),
    "multiclass": matrices(lambda: SVMClassifier(random_state=0), itself),
    "one-vs-rest": matrices(lambda: SVMClassifier(multi_class="ovr", loss="squared_hinge", random_state=0), itself),
    "logistic": matrices(lambda: SVMClassifier(loss="log_loss", random_state=0), itself),
    "top-k": matrices(lambda: TopKSVMClassifier(k=2, random_state=0), itself),
    "multilabel": matrices(lambda: MultilabelSVMClassifier(random_state=0), lambda y: np.eye(3, dtype=int)[y]),
    "kernel": matrices(lambda: SVMClassifier(kernel="rbf", random_state=0), itself),
    "chain": sequences(lambda: StructuredSVM(structures.Chain(), random_state=0)),
    "latent": bags,
}


def compile_task(name: str, layout: str) -> float:
    """Seconds that it took; with nothing left to compile, hardly any."""
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a fit of data without meaning says
        TASKS[name](LAYOUTS[layout])
    return time.perf_counter() - begin


def warm(what: Sequence[str] = (), layouts: Sequence[str] = LAYOUTS_USED, jobs: int | None = None) -> None:
    """Compile what fits of these kinds need, and print what took how long.

    Parameters
    ----------
    what : names of `TASKS`, default all
    layouts : names of `LAYOUTS`
    jobs : processes; default: as many as there are cores
    """
    if not keeps_kernels():
        raise RuntimeError("There is no folder in which compiled kernels could be kept; set NUMBA_CACHE_DIR to one.")
    pairs = [(name, layout) for name in what or TASKS for layout in layouts]
    with ProcessPoolExecutor(jobs or os.cpu_count(), get_context("spawn")) as pool:
        futures = [pool.submit(compile_task, name, layout) for name, layout in pairs]
        for (name, layout), future in zip(pairs, futures, strict=True):
            print(f"{name}, {layout}: {future.result():.1f} s", flush=True)
    kept = len(list(folder().glob("*.nbc"))) if folder().is_dir() else 0
    print(f"{kept} compiled kernels are kept for later processes, in {folder()}.")


def command(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m maxmargin.warm", description="Compile ahead what fits of these kinds need.")
    parser.add_argument("what", nargs="*", help=f"{', '.join(TASKS)} (default: all)")
    names = ", ".join(f"{name!r}" for name in LAYOUTS)
    parser.add_argument("--layout", nargs="+", choices=LAYOUTS, default=LAYOUTS_USED, metavar="L", help=f"of the data: {names}")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: the number of cores)")
    options = parser.parse_args(arguments)
    for name in options.what:
        if name not in TASKS:
            parser.error(f"there is nothing called {name!r} to compile; there is {', '.join(TASKS)}.")
    if options.jobs is not None and options.jobs < 1:
        parser.error(f"argument --jobs: {options.jobs} processes are too few.")
    try:
        warm(options.what, options.layout, options.jobs)
    except RuntimeError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    command()
