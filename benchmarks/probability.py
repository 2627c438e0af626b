"""Probabilities beside CalibratedClassifierCV: log loss, calibration error, and time. It has the same folds; of labels, where it
is put around a model of each, folds of its own as well."""

import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import PredefinedSplit
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

import maxmargin as mm
from maxmargin.data.indicators import checked_labels
from maxmargin.estimators.probability import folds_of_labels

from .multilabel_sets import Split, found
from .report import Report, figure, table
from .workloads import MissingDataError, Workload

CLASSES = {"letter": 9_000, "news20": 6_000}  # rows, of which two thirds are learned from
LABELS = {"yeast": 1_500, "bibtex": 1_000}  # rows to learn from
METHODS = ("sigmoid", "isotonic", "temperature")
BINS = 10
LEAST = 1e-15  # a probability of zero, as scikit-learn's log_loss counts it
HEAD = ["", "log loss", "calibration error", "s", "ratio"]


def log_loss(truth: np.ndarray, said: np.ndarray) -> float:
    """Of classes: truth are their numbers; of labels, the mean over all of them: truth are indicators"""
    said = np.clip(said, LEAST, 1.0 - LEAST)
    if truth.ndim == 1:
        return float(-np.log(said[np.arange(truth.size), truth]).mean())
    return float(-np.where(truth > 0, np.log(said), np.log1p(-said)).mean())


def calibration_error(truth: np.ndarray, said: np.ndarray) -> float:
    """The mean distance of what was said from what came, in groups by what was said: of the likeliest class, or of each label"""
    if truth.ndim == 1:
        came, said = said.argmax(axis=1) == truth, said.max(axis=1)
    else:
        came, said = truth.ravel() > 0, said.ravel()
    group = np.minimum((said * BINS).astype(int), BINS - 1)
    return float(np.abs(np.bincount(group, said, BINS) - np.bincount(group, came, BINS)).sum() / said.size)


def measured(make: Callable[[], BaseEstimator], split: Split, repeat: int) -> tuple[Any, float]:
    """The probabilities of the samples to test on, and the processor seconds of a fit"""
    seconds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(repeat):
            model, began = make(), time.process_time()
            model.fit(split.X, split.Y)
            seconds.append(time.process_time() - began)
    return model.predict_proba(split.X_test), median(seconds)


def compared(split: Split, makers: dict[str, Callable[[], BaseEstimator]], repeat: int) -> list[list[str]]:
    """A line for each; the ratio is of the first, ours, to the others"""
    rows, ours = [], 0.0
    for name, make in makers.items():
        said, seconds = measured(make, split, repeat)
        ours = ours or seconds
        quality = figure(log_loss(split.Y_test, said), 4), f"{calibration_error(split.Y_test, said):.4f}"
        rows.append([name, *quality, figure(seconds), figure(ours / seconds)])
    return rows


def of_classes(method: str, split: Split) -> dict[str, Callable[[], BaseEstimator]]:
    def around(model) -> BaseEstimator:
        return CalibratedClassifierCV(model, method=method, cv=5, ensemble=False)

    return {
        f"SVMClassifier(probability={method!r})": lambda: mm.SVMClassifier(probability=method, random_state=0),
        f"{method} around SVMClassifier": lambda: around(mm.SVMClassifier(random_state=0)),
        f"{method} around LinearSVC": lambda: around(LinearSVC(random_state=0)),
    }


def of_labels(method: str, split: Split) -> dict[str, Callable[[], BaseEstimator]]:
    def each(model, cv: Any = 5) -> BaseEstimator:
        return OneVsRestClassifier(CalibratedClassifierCV(model, method=method, cv=cv, ensemble=False))

    def one() -> BaseEstimator:
        return mm.SVMClassifier(loss="squared_hinge", random_state=0)

    same = PredefinedSplit(folds_of_labels("probability", method, checked_labels(split.Y).columns))
    return {
        f"MultilabelSVMClassifier(probability={method!r})": lambda: mm.MultilabelSVMClassifier(
            probability=method, random_state=0
        ),
        f"{method} around SVMClassifier, label by label, our folds": lambda: each(one(), same),
        f"{method} around SVMClassifier, label by label, its own folds": lambda: each(one()),
        f"{method} around LinearSVC, label by label, its own folds": lambda: each(LinearSVC(random_state=0)),
    }


def split_of(name: str, rows: int) -> Split:
    X, y = Workload(name, rows).load()
    order = np.random.default_rng(0).permutation(y.size)
    fit, seen = order[: 2 * y.size // 3], order[2 * y.size // 3 :]
    return Split(X[fit], y[fit], X[seen], y[seen])


def run(report: Report, quick: bool, repeat: int) -> None:
    for name, rows in CLASSES.items():
        try:
            split = split_of(name, 1_500 if quick else rows)
        except MissingDataError as missing:
            print(f"\nskipped {name}: {missing}", flush=True)
            continue
        body = f"{split.Y.size} samples to learn from, {split.Y_test.size} to test on; tol=1e-3, LinearSVC's own, processor s."
        report.section(f"probability: {name}", lines_of(split, of_classes, body, repeat))
    for name, rows in LABELS.items():
        if (labels := found(name)) is not None:
            report.section(f"probability: {name}", lines_of(*taken(labels, 500 if quick else rows), repeat))


def taken(split: Split, rows: int) -> tuple[Split, Callable, str]:
    """The labels that CalibratedClassifierCV can be asked for: five samples with each and five without"""
    counts = split.Y[:rows].sum(axis=0, dtype=np.int64)
    some = np.flatnonzero((counts >= 5) & (counts <= rows - 5))
    result = Split(split.X[:rows], split.Y[:rows][:, some], split.X_test, split.Y_test[:, some])
    rarest = counts[some].min()
    return result, of_labels, f"{rows} samples, {some.size} labels, the rarest of {rarest} samples; processor s."


def lines_of(split: Split, makers: Callable, body: str, repeat: int) -> str:
    for make in list(makers(METHODS[0], split).values())[:2]:
        measured(make, split, 1)  # compiles
    rows = [row for method in METHODS for row in compared(split, makers(method, split), repeat)]
    return f"{body}\n\n{table(HEAD, rows)}"
