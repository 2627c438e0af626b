"""Fits of every family of solvers, that are killed and go on."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import dump_svmlight_file
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin.persistence import checkpoint
from maxmargin.structures import Chain

from .models import BAGS, LABELS, REAL, THREE, TWO, Halves, X
from .structured import Brackets, bits, words

FINE = {"tol": 1e-6, "random_state": 7, "max_iter": 40}


def model_of(kind: type, samples: tuple, *given: Any, **parameters: Any) -> Callable[[], tuple[Any, tuple]]:
    return lambda: (kind(*given, **FINE | parameters), samples)


def stream() -> tuple[Any, tuple]:
    """From a file, the same for all processes: a file that was written anew is another one to a checkpoint."""
    path = Path(tempfile.gettempdir()) / "maxmargin-killed.svm"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as folder, suppress(FileExistsError):
            dump_svmlight_file(X, TWO, f"{folder}/whole.svm", zero_based=False)
            os.link(f"{folder}/whole.svm", path)  # the first of several processes
    return mm.SVMClassifier(solver="online", **FINE), (mm.open_source(path, n_features=5),)


SVM, STRUCTURED = mm.SVMClassifier, mm.StructuredSVM
TWO_CLASSES, THREE_CLASSES, LABELLED, SIGNS = (X, TWO), (X, THREE), (X, LABELS), (BAGS, [-1, 1] * 6)
FITS: dict[str, Callable[[], tuple[Any, tuple]]] = {
    "dual coordinate": model_of(SVM, TWO_CLASSES, solver="dual_coordinate"),
    "auto": model_of(SVM, TWO_CLASSES, tol=1e-9),
    "three classes": model_of(SVM, THREE_CLASSES),
    "newton": model_of(SVM, TWO_CLASSES, solver="newton", tol=1e-9),
    "newton, three classes": model_of(SVM, THREE_CLASSES, solver="newton", tol=1e-9),
    "bundle": model_of(SVM, TWO_CLASSES, solver="bundle"),
    "bundle, three classes": model_of(SVM, THREE_CLASSES, solver="bundle", tol=1e-3),
    "online": model_of(SVM, TWO_CLASSES, solver="online"),
    "a source": stream,
    "rbf": model_of(SVM, TWO_CLASSES, kernel="rbf", tol=1e-8),
    "rbf, three classes": model_of(SVM, THREE_CLASSES, kernel="rbf", tol=1e-8),
    "regression": model_of(mm.SVMRegressor, (X, REAL)),
    "top-2": model_of(mm.TopKSVMClassifier, THREE_CLASSES, k=2),
    "labels": model_of(mm.MultilabelSVMClassifier, LABELLED, keep_duals=True),
    "labels by bundle": model_of(mm.MultilabelSVMClassifier, LABELLED, solver="bundle", tol=1e-4),
    "coupled labels": model_of(mm.MultilabelSVMClassifier, LABELLED, label_prior=mm.label_correlation(LABELS, 0.1)),
    "probabilities": model_of(SVM, TWO_CLASSES, probability="sigmoid"),
    "chains": model_of(STRUCTURED, words(), Chain(n_labels=3), max_iter=400),
    "chains, frank_wolfe": model_of(STRUCTURED, words(), Chain(n_labels=3), solver="frank_wolfe", tol=1e-4),
    "chains, partial_linearization": model_of(STRUCTURED, words(), Chain(n_labels=3), solver="partial_linearization", tol=1e-3),
    "chains, exponentiated_gradient": model_of(STRUCTURED, words(), Chain(n_labels=3), solver="exponentiated_gradient", tol=3e-2),
    "chains, bundle": model_of(STRUCTURED, words(), Chain(n_labels=3), solver="bundle", tol=1e-3),
    "chains, online": model_of(STRUCTURED, words(), Chain(n_labels=3), solver="online", tol=1e-4),
    "a structure in Python": model_of(STRUCTURED, bits(), Brackets()),
    "bags": model_of(mm.LatentSVMClassifier, SIGNS, n_restarts=1),
    "hidden parts": model_of(mm.LatentStructuredSVM, SIGNS, Halves(), n_restarts=1),
}


def fit(name: str, *callbacks: Any) -> Any:
    """The fitted model, whether it has converged or not."""
    model, samples = FITS[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.set_callbacks(*callbacks).fit(*samples)


def comparable(model: Any) -> dict[str, Any]:
    """All that a model holds, without seconds and callbacks."""
    found = {name: value for name, value in vars(model).items() if name not in ("_skl_callbacks", "history_", "statistics_")}
    found["statistics"] = {key: value for key, value in getattr(model, "statistics_", {}).items() if "seconds" not in key}
    records = np.array([record._replace(seconds=0.0) for record in model.history_], np.float64)
    return found | {"records": records, "methods": model.history_.methods}


def fit_and_save(name: str, folder: Path) -> None:
    """A fit with a checkpoint after every pass, then its model as a file."""
    mm.save(fit(name, mm.Checkpoint(folder / "state", every=0.0)), folder / "model")


def child(name: str, folder: str) -> None:
    """What a process does that is killed or goes on."""
    checkpoint.SELDOM = 0.0
    fit_and_save(name, Path(folder))


def nursery() -> None:
    """For each line, a name and a folder, another process that does the fit there. This one has done it before, elsewhere: a kill
    meets the fit, and no compiler. It tells how long that took, the number of the process, and how it ended."""
    warm: dict[str, float] = {}
    for line in sys.stdin:
        name, folder = line.rstrip("\n").split("\t")
        for _ in range(0 if name in warm else 2):
            with tempfile.TemporaryDirectory() as elsewhere:
                begin = time.perf_counter()
                child(name, elsewhere)
                warm[name] = time.perf_counter() - begin
        if (number := os.fork()) == 0:
            child(name, folder)
            os._exit(0)
        print(warm[name], number, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]), flush=True)


class DiskFull:
    """After so many passes files grow no more; after some more of them the process is killed."""

    def __init__(self, after: int, killed: int):
        self.after, self.killed, self.passes = after, killed, 0

    def setup(self, estimator, context):
        pass

    teardown = on_fit_task_begin = setup

    def on_fit_task_end(self, estimator, context):
        self.passes += context.parent is not None
        if self.passes == self.after:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        if self.passes == self.killed:
            os.kill(os.getpid(), signal.SIGKILL)


def without_room(name: str, folder: str) -> None:
    """A fit whose checkpoints find the disk full half-way, then is killed."""
    checkpoint.SELDOM = 0.0
    fit(name)  # no kernel is left to compile
    warnings.simplefilter("always")
    warnings.showwarning = lambda message, *_: print(message, flush=True)
    fit(name, mm.Checkpoint(Path(folder) / "state", every=0.0), DiskFull(4, 9))


def begun(what: Callable[..., None], *given: str) -> subprocess.Popen:
    """A process of its own that does one of these."""
    tests, call = str(Path(__file__).parents[1]), f"killed.{what.__name__}{given}"
    code = f"import sys; sys.path.insert(0, {tests!r}); from helpers import killed; {call}"
    return subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ, bufsize=1
    )
