"""Probabilities beside CalibratedClassifierCV: log loss, calibration error, and time. It has the same folds; of labels, where it
is put around a model of each, folds of its own as well. How far ours is from each of the others is told with its standard error,
of both models on the same samples drawn again and again."""

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
SETS = (*CLASSES, *LABELS)
METHODS = ("sigmoid", "isotonic", "temperature")
BINS = 10
LEAST = 1e-15  # a probability of zero, as scikit-learn's log_loss counts it
DRAWS = 1_000  # of the samples to test on, with replacement
HEAD = ["", "log loss", "calibration error", "s", "ratio", "log loss, ours less its", "calibration error, ours less its"]


def losses(truth: np.ndarray, said: np.ndarray) -> np.ndarray:
    """The log loss of each sample. Of classes truth are their numbers; of labels, whose mean it is, indicators"""
    said = np.clip(said, LEAST, 1.0 - LEAST)
    if truth.ndim == 1:
        return np.asarray(-np.log(said[np.arange(truth.size), truth]))
    return np.asarray(-np.where(truth > 0, np.log(said), np.log1p(-said)).mean(axis=1))


def excesses(truth: np.ndarray, said: np.ndarray) -> np.ndarray:
    """By how much more was said than came, of each sample and group by what was said (samples, groups): of the likeliest class,
    or of each label, in the mean"""
    if truth.ndim == 1:
        came, said = (said.argmax(axis=1) == truth)[:, None], said.max(axis=1, keepdims=True)
    else:
        came = truth > 0
    group = np.minimum((said * BINS).astype(int), BINS - 1)
    found = np.zeros((len(said), BINS))
    np.add.at(found, (np.arange(len(said))[:, None], group), (said - came) / said.shape[1])
    return found


def log_loss(truth: np.ndarray, said: np.ndarray) -> float:
    return float(losses(truth, said).mean())


def calibration_error(truth: np.ndarray, said: np.ndarray) -> float:
    """The mean distance of what was said from what came, in groups by what was said"""
    return float(np.abs(excesses(truth, said).mean(axis=0)).sum())


def standard_errors(truth: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Of the difference of two models in log loss and in calibration error: its deviation over draws of the samples"""
    count = len(truth)
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1.0 / count), DRAWS) / count
    loss = drawn @ (losses(truth, first) - losses(truth, second))
    error = [np.abs(drawn @ excesses(truth, said)).sum(axis=1) for said in (first, second)]
    return float(loss.std(ddof=1)), float((error[0] - error[1]).std(ddof=1))


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
    rows: list[list[str]] = []
    ours, first, truth = 0.0, np.empty(0), split.Y_test
    for name, make in makers.items():
        said, seconds = measured(make, split, repeat)
        quality = log_loss(truth, said), calibration_error(truth, said)
        beyond = ["", ""]
        if rows:
            apart = (judge(truth, first) - own for judge, own in zip((log_loss, calibration_error), quality, strict=True))
            beyond = [f"{d:+.4f} ({e:.4f})" for d, e in zip(apart, standard_errors(truth, first, said), strict=True)]
        else:
            ours, first = seconds, said
        rows.append([name, figure(quality[0], 4), f"{quality[1]:.4f}", figure(seconds), figure(ours / seconds), *beyond])
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


def run(report: Report, names: list[str], quick: bool, repeat: int) -> None:
    for name, rows in CLASSES.items():
        if name not in names:
            continue
        try:
            split = split_of(name, 520 if quick else rows)
        except MissingDataError as missing:
            print(f"\nskipped {name}: {missing}", flush=True)
            continue
        body = f"{split.Y.size} samples to learn from, {split.Y_test.size} to test on; tol=1e-3, LinearSVC's own, processor s."
        report.section(f"probability: {name}", lines_of(split, of_classes, body, repeat, quick))
    for name, rows in LABELS.items():
        if name in names and (labels := found(name)) is not None:
            report.section(f"probability: {name}", lines_of(*taken(labels, 200 if quick else rows), repeat, quick))


def taken(split: Split, rows: int) -> tuple[Split, Callable, str]:
    """The labels that CalibratedClassifierCV can be asked for: five samples with each and five without"""
    counts = split.Y[:rows].sum(axis=0, dtype=np.int64)
    some = np.flatnonzero((counts >= 5) & (counts <= rows - 5))
    result = Split(split.X[:rows], split.Y[:rows][:, some], split.X_test, split.Y_test[:, some])
    rarest = counts[some].min()
    return result, of_labels, f"{rows} samples, {some.size} labels, the rarest of {rarest} samples; processor s."


def lines_of(split: Split, makers: Callable, body: str, repeat: int, quick: bool) -> str:
    for make in list(makers(METHODS[0], split).values())[:2]:
        measured(make, split, 1)  # compiles
    rows = [row for method in METHODS[: 1 if quick else None] for row in compared(split, makers(method, split), repeat)]
    text = f"In brackets standard errors of the differences, by {DRAWS:,} draws of the samples to test on."
    return f"{body} {text}\n\n{table(HEAD, rows)}"
