"""Models with an rbf kernel beside SVC and SVR: processor time and accuracy, each to its own default stop.

Peers are given the same C and gamma, and as much memory. Their optima are others (a free intercept, several classes by pairs), so
accuracy on held-out samples stands beside the times. Ours is timed to a certified relative gap of 1e-3, compilation apart.
"""

import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from sklearn.svm import SVC, SVR

import maxmargin as mm
from maxmargin.data.kernel_functions import gamma_of

from .report import Report, figure, table
from .workloads import Arrays, MissingDataError, cadata, letter

CACHE = 1_000.0  # MB
HELD_OUT = 5_000
FEW = 200  # samples of the fit that compiles
CS = (1.0, 10.0)


class Task(NamedTuple):
    """A set, the peer, and ours: what is said of each, and its parameters."""

    load: Callable[[], Arrays]
    peer: type
    model: type
    settings: dict[str, dict[str, Any]]


def halves() -> Arrays:
    """letter as two classes: A to M, and N to Z"""
    X, y = letter()
    return X, (y < 13).astype(np.int64)


TWO = {"hinge": {}, "squared hinge": {"loss": "squared_hinge"}, "logistic": {"loss": "log_loss"}}
MANY = {
    "against the rest, hinge": {"multi_class": "ovr"},
    "against the rest, squared hinge": {"multi_class": "ovr", "loss": "squared_hinge"},
    "Crammer-Singer": {},
    "multinomial": {"loss": "log_loss"},
}
REAL = {
    "epsilon-insensitive": {},
    "squared epsilon-insensitive": {"loss": "squared_epsilon_insensitive"},
    "squared error": {"loss": "squared_error"},
}
TASKS = {
    "letter": Task(letter, SVC, mm.SVMClassifier, MANY),
    "halves": Task(halves, SVC, mm.SVMClassifier, TWO),
    "cadata": Task(cadata, SVR, mm.SVMRegressor, REAL),
}
SIZES = (2_000, 5_000)


def timed(make: Callable[[], Any], X, y, repeat: int) -> tuple[float, Any]:
    """Median processor seconds of a fit, and the last model"""
    spent, model = [], make()
    for _ in range(repeat):
        model, begin = make(), time.process_time()
        model.fit(X, y)
        spent.append(time.process_time() - begin)
    return median(spent), model


def measure(report: Report, name: str, size: int, options: tuple[bool, float, int]) -> None:
    """One set with so many samples, in a section of its own"""
    quick, limit, repeat = options
    task = TASKS[name]
    try:
        X, y = task.load()
    except MissingDataError as missing:
        print(f"\nskipped {name}: {missing}", flush=True)
        return
    order = np.random.default_rng(0).permutation(len(y))
    learn, test = order[: 300 if quick else size], order[-HELD_OUT:]
    gamma, lines = gamma_of("scale", X[learn]), []
    for C in CS[:1] if quick else CS:
        given = {"C": C, "kernel": "rbf", "gamma": gamma, "cache_size": CACHE}
        peer_s, peer = timed(lambda given=given: task.peer(**given), X[learn], y[learn], repeat)
        peer_score = peer.score(X[test], y[test])
        lines.append([f"{C:g}", task.peer.__name__, figure(peer_s), "1", figure(peer_score), "-", "-"])
        for said, own in list(task.settings.items())[: 1 if quick else None]:

            def make(own=own, given=given):
                return task.model(**given, **own, max_time=limit, random_state=0)

            make().fit(X[learn[:FEW]], y[learn[:FEW]])  # compiles
            seconds, model = timed(make, X[learn], y[learn], repeat)
            gap = f"{model.certificate_.relative_gap:.1e}"
            score = figure(model.score(X[test], y[test]))
            lines.append([f"{C:g}", said, figure(seconds), figure(seconds / peer_s, 2), score, gap, str(model.n_iter_)])
    text = (
        f"{len(learn):,} samples, {X.shape[1]} features; gamma='scale', processor seconds of one thread (median of {repeat}), "
        f"ours to a certified relative gap of 1e-3 or for {limit:g} seconds, {task.peer.__name__} to its default stop. Ratio: to "
        f"it. Score: accuracy, or R squared, on {len(test):,} other samples. cache_size={CACHE:g}."
    )
    head = ["C", "model", "s", "ratio", "score", "gap", "passes"]
    report.section(f"kernels: {name} {len(learn):,}", "\n\n".join([text, table(head, lines)]))


def run(report: Report, workloads, samples, options: tuple[bool, float, int]) -> None:
    """`samples` of `SIZES` (None: all)"""
    warnings.simplefilter("ignore")
    for name in workloads:
        for size in SIZES[:1] if options[0] else samples or SIZES:
            measure(report, name, size, options)
