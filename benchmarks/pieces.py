"""`partial_fit` in pieces of several sizes: what calls cost as more samples are kept, beside one fit to everything."""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm

from .report import Report, figure, table
from .sequences import Samples, ocr_words
from .workloads import MissingDataError, Workload

SIZES = (25, 100, 400)  # samples of a piece
FOLDS, TEST = (0,), (9,)
ROWS = 2_000  # of a9a to learn from; half as many to test on
TOL = 1e-2
HEAD = ["", "calls", "first s", "last s", "all s", "ratio", "kept", "test error", "dual"]


class Task(NamedTuple):
    name: str
    make: Callable[[], Any]
    train: Samples
    test: Samples
    classes: list


def tasks(quick: bool) -> list[Task]:
    """Two kinds of models: a lambda of 1e-4 for rows, 1e-2 for words"""
    found = []
    try:
        X, y = Workload("a9a", 1_500 if quick else ROWS * 3 // 2).load()
        cut = len(y) * 2 // 3
        train, test = Samples(X[:cut], y[:cut]), Samples(X[cut:], y[cut:])
        C = 1.0 / (1e-4 * cut)
        found.append(
            Task("SVMClassifier, a9a", lambda: mm.SVMClassifier(C, tol=TOL, random_state=0), train, test, np.unique(y).tolist())
        )
    except MissingDataError as missing:
        print(f"\nskipped a9a: {missing}", flush=True)
    try:
        words, held = ocr_words(FOLDS, quick), ocr_words(TEST, quick)
        C = 1.0 / (1e-2 * len(words))
        chain = mm.structures.Chain(n_labels=26)
        found.append(
            Task(
                "StructuredSVM, words", lambda: mm.StructuredSVM(chain, C, tol=TOL, random_state=0), words, held, list(range(26))
            )
        )
    except MissingDataError as missing:
        print(f"\nskipped words: {missing}", flush=True)
    return found


def sliced(samples: Samples, start: int, stop: int) -> Samples:
    return Samples(samples.X[start:stop], samples.y[start:stop])


def told(task: Task, size: int) -> tuple[Any, list[float]]:
    """The model, and the processor seconds of each call"""
    model, seconds = task.make(), []
    for start in range(0, len(task.train), size):
        piece = sliced(task.train, start, start + size)
        began = time.process_time()
        model.partial_fit(piece.X, piece.y, classes=task.classes)
        seconds.append(time.process_time() - began)
    return model, seconds


def lines_of(task: Task, sizes: Sequence[int]) -> list[list[str]]:
    first = sliced(task.train, 0, 50)
    task.make().fit(first.X, first.y)  # compiles
    told(Task(*task[:2], first, first, task.classes), 25)
    began = time.process_time()
    whole = task.make().fit(task.train.X, task.train.y)
    alone = time.process_time() - began
    error = 1.0 - whole.score(task.test.X, task.test.y)
    rows = [["fit", "1", "", "", figure(alone), "1", "", f"{error:.4f}", figure(whole.certificate_.dual, 4)]]
    for size in sizes:
        model, seconds = told(task, size)
        kept = len(model._kept.y) if hasattr(model._kept, "y") else model._kept.samples.rows.size
        total = float(np.sum(seconds))
        rows.append(
            [
                f"pieces of {size}",
                str(len(seconds)),
                figure(seconds[0]),
                figure(float(np.median(seconds[-3:]))),
                figure(total),
                figure(total / alone),
                f"{kept / len(task.train):.0%}",
                f"{1.0 - model.score(task.test.X, task.test.y):.4f}",
                figure(model.certificate_.dual, 4),
            ]
        )
    return rows


def run(report: Report, quick: bool) -> None:
    sizes = (50, 200) if quick else SIZES
    parts = [
        f"Processor seconds to tol={TOL:g}: of the first call, of the last (the median of three), of all; their ratio to one fit "
        "to everything; samples kept in the end; the lower bound on the optimum of everything."
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for task in tasks(quick):
            parts.append(f"{task.name}, {len(task.train)} samples:\n\n{table(HEAD, lines_of(task, sizes))}")
    report.section("pieces", "\n\n".join(parts))
