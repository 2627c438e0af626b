"""C by cross-validation beside scikit-learn's GridSearchCV around the same estimator: time, and who wins.

Both search the same values on the same five folds with one thread; ours along paths, the grid by fits from nothing to `tol`.
Times are processor seconds of later calls: a search before them compiles. Where winners differ, the scores of the grid say what
that costs, with the standard error of its mean over the folds; and so do those of optima, found along paths to a gap of 1e-5,
since fits to `tol` have scores that are off by more than neighbours differ.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

import maxmargin as mm

from .multilabel_sets import real
from .report import Report, figure, table
from .workloads import Arrays, MissingDataError, Workload

FOLDS = 5
TOL = 1e-3
GOAL = 1 / 3
CONVERGED = 1e-5  # the gap of what stands for optima
LONGEST = 20.0  # seconds for one of these


class Task(NamedTuple):
    """A set, the two estimators, and their setting"""

    load: Callable[[int], Arrays]
    search: Any
    estimator: Any
    setting: dict[str, Any]


def digits(rows: int) -> Arrays:
    """1,797 digits of 8 x 8 pixels, divided by 16"""
    X, y = load_digits(return_X_y=True)
    return X[:rows] / 16.0, y[:rows]


def labels(name: str) -> Callable[[int], Arrays]:
    """The first rows of a multi-label set"""

    def load(rows: int) -> Arrays:
        split = real(name)
        return split.X[:rows], split.Y[:rows]

    return load


def rows_of(name: str) -> Callable[[int], Arrays]:
    return lambda rows: Workload(name, rows).load()


def standardised(load: Callable[..., Arrays]) -> Callable[[int], Arrays]:
    """A set of scikit-learn's, columns and a target that is a number with mean 0 and variance 1"""

    def loaded(rows: int) -> Arrays:
        X, y = load(return_X_y=True)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        return X[:rows], (y if y.dtype.kind == "i" else (y - y.mean()) / y.std())[:rows]

    return loaded


CLASSES = mm.SVMClassifierCV, mm.SVMClassifier
REST = {"loss": "squared_hinge", "multi_class": "ovr"}
REAL = mm.SVMRegressorCV, mm.SVMRegressor
LABELS = mm.MultilabelSVMClassifierCV, mm.MultilabelSVMClassifier
SEEN: dict[str, Task] = {  # the constants of the search were chosen on these
    "letter": Task(rows_of("letter"), *CLASSES, {}),
    "news20": Task(rows_of("news20"), *CLASSES, {}),
    "digits": Task(digits, *CLASSES, {}),
    "digits, LinearSVC's defaults": Task(digits, *CLASSES, REST),
    "a9a": Task(rows_of("a9a"), *CLASSES, {}),
    "cadata": Task(rows_of("cadata"), *REAL, {}),
    "yeast": Task(labels("yeast"), *LABELS, {"scoring": "f1_micro"}),
}
UNSEEN: dict[str, Task] = {  # and nothing on these
    "mnist, 16 x 16": Task(rows_of("mnist16"), *CLASSES, {}),
    "mnist, 16 x 16, LinearSVC's defaults": Task(rows_of("mnist16"), *CLASSES, REST),
    "mnist, 16 x 16, log loss": Task(rows_of("mnist16"), *CLASSES, {"loss": "log_loss"}),
    "synthetic, sparse": Task(rows_of("synthetic_sparse"), *CLASSES, {}),
    "breast_cancer": Task(standardised(load_breast_cancer), *CLASSES, {}),
    "diabetes": Task(standardised(load_diabetes), *REAL, {}),
    "synthetic, regression": Task(rows_of("synthetic_regression"), *REAL, {}),
    "scene": Task(labels("scene"), *LABELS, {"scoring": "f1_micro"}),
    "bibtex": Task(labels("bibtex"), *LABELS, {"scoring": "f1_micro"}),
}
SETS = SEEN | UNSEEN


def seconds(fit: Callable[[], Any]) -> float:
    """Processor seconds of a call"""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        began = time.process_time()
        fit()
        return time.process_time() - began


def both(task: Task, Cs: np.ndarray) -> tuple[Any, GridSearchCV]:
    """Our search and the grid"""
    scoring = task.setting.get("scoring")
    plain = {name: value for name, value in task.setting.items() if name != "scoring"}
    mine = task.search(Cs, cv=FOLDS, scoring=scoring, tol=TOL, random_state=0, **plain)
    grid = GridSearchCV(task.estimator(tol=TOL, random_state=0, **plain), {"C": Cs}, cv=FOLDS, scoring=scoring)
    return mine, grid


def truly_lost(task: Task, X: Any, y: np.ndarray, Cs: np.ndarray, places: tuple[int, int]) -> float:
    """By how much the score of the second is above that of the first, by their optima"""
    exact = both(task, Cs)[0].set_params(tol=CONVERGED, search_tol=CONVERGED, max_time=LONGEST, refit=False)
    seconds(lambda: exact.fit(X, y))
    first, second = exact.scores_.mean(axis=0)[list(places)]
    return float(second - first)


def line(name: str, rows: int, Cs: np.ndarray) -> list[str]:
    task = SETS[name]
    X, y = task.load(rows)
    seconds(lambda: both(task, Cs)[0].fit(X, y))  # compiles
    mine, grid = both(task, Cs)
    ours, theirs = seconds(lambda: mine.fit(X, y)), seconds(lambda: grid.fit(X, y))
    place = int(np.flatnonzero(Cs == mine.C_)[0])
    folds = np.array([grid.cv_results_[f"split{k}_test_score"] for k in range(FOLDS)])
    lost = folds[:, grid.best_index_].mean() - folds[:, place].mean()
    truly = lost if place == grid.best_index_ else truly_lost(task, X, y, Cs, (place, grid.best_index_))
    error = folds[:, grid.best_index_].std(ddof=1) / np.sqrt(FOLDS)
    winners = f"{mine.C_:g}", f"{grid.best_params_['C']:g}"
    return [
        name,
        "chosen on" if name in SEEN else "",
        str(X.shape[0]),
        figure(ours),
        figure(theirs),
        figure(ours / theirs, 2),
        *winners,
        f"{lost:.4f}",
        f"{truly:.4f}",
        f"{error:.4f}",
    ]


def run(report: Report, names: list[str], rows: int, count: int) -> None:
    Cs = np.logspace(-4, 4, count)
    lines = []
    for name in names:
        try:
            lines.append(line(name, rows, Cs))
        except MissingDataError as missing:
            print(f"\nskipped {name}: {missing}", flush=True)
            continue
        print(*lines[-1], sep="  ", flush=True)
    head = [
        "",
        "constants",
        "rows",
        "search s",
        "grid s",
        "ratio",
        "our C",
        "grid's C",
        "score lost",
        "by optima",
        "standard error",
    ]
    text = (
        f"{count} values of C between 1e-4 and 1e4, {FOLDS} folds, tol {TOL:g}, one thread, processor seconds. The goal is a "
        f"ratio of {GOAL:.2f} and the same winner; *score lost* is what the grid's winner has more than ours by the scores of "
        f"the grid, *by optima* the same by fits to {CONVERGED:g}; below zero ours is better. *Chosen on*: the "
        "constants of the search were."
    )
    report.section("search: C by cross-validation beside GridSearchCV", f"{text}\n\n{table(head, lines)}")
