"""What people use today, beside what would take its place: the same objective, the time to come within 1e-3 of its optimum.

Every solver is run over a grid of its stopping parameter, one thread, processor time, the median of `repeat` fits; the fastest
setting whose objective, computed here in plain NumPy, is at most 1.001 times the lowest that anyone has reached counts. Peers
that leave the intercept free get a column of ones instead, so that all objectives are the same. A grid goes from coarse to fine
and ends well below that value: finer settings only take longer. What minimises something else (SGD) runs once, to its own
default stop, and its accuracy on the test rows stands beside.

Nobody gets more than `limit` seconds a task. A peer whose last fit was not short runs in a process of its own, which is killed
when they are over, and the table says so; ours ends its grid there.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits  # it ships no types

import maxmargin as mm

from .multilabel_sets import real
from .report import Report, figure, table
from .workloads import MissingDataError, Workload

WITHIN = 1e-3
PROBE_C = 5.0  # of embeddings; 1 elsewhere
LIMIT = 60.0  # seconds that a solver may take on a task, all settings of its stop together
SHORT = 1.0  # seconds of a fit after which the next one is not expected to take long, and fits are worth repeating
TOLS = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)
ROWS = 10_000  # of sets that have more
SOLVERS = {"lbfgs": TOLS, "newton-cg": TOLS, "newton-cholesky": TOLS, "sag": TOLS[:5], "saga": TOLS[:5]}
WIDEST = 100  # features for which newton-cholesky, whose matrix is (classes x features) wide, is asked
Fit = Callable[[float], Any]  # stopping parameter -> fitted model


@dataclass(frozen=True)
class Task:
    """Training and test rows, C, and the objective of weights (outputs, features + 1), intercepts last."""

    name: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    C: float
    loss: str

    def objective(self, W: np.ndarray) -> float:
        Z = np.asarray(self.X @ W[:, :-1].T) + W[:, -1]
        return 0.5 * float(np.sum(W * W)) + self.C * float(LOSSES[self.loss](Z, self.y))


def signs(y: np.ndarray, count: int) -> np.ndarray:
    """(rows, outputs) of +-1: one column for two classes, a class or label each otherwise"""
    if y.ndim == 2:
        return np.where(y > 0, 1.0, -1.0)
    return np.where(y == y.max(), 1.0, -1.0)[:, None] if count == 1 else np.where(y[:, None] == np.arange(count), 1.0, -1.0)


LOSSES = {
    "squared_hinge": lambda Z, y: np.sum(np.square(np.maximum(0.0, 1.0 - signs(y, Z.shape[1]) * Z))),
    "log_loss": lambda Z, y: np.sum(np.logaddexp(0.0, -signs(y, Z.shape[1]) * Z)),
    "multinomial": lambda Z, y: np.sum(logsumexp(Z, axis=1) - Z[np.arange(len(y)), y]),
    "squared_error": lambda Z, y: np.sum(np.square(Z.ravel() - y)),
}


def with_ones(X: Any) -> Any:
    ones = np.ones((X.shape[0], 1))
    return sp.hstack([X, sp.csr_matrix(ones)], format="csr") if sp.issparse(X) else np.hstack([X, ones])


def weights(model: Any) -> np.ndarray:
    """(outputs, features + 1)"""
    if isinstance(model, OneVsRestClassifier):
        return np.vstack([weights(one) for one in model.estimators_])
    coef = np.atleast_2d(model.coef_)
    return (
        coef
        if not np.any(model.intercept_) and not getattr(model, "fit_intercept", True)
        else np.column_stack([coef, np.ravel(model.intercept_)])
    )


@dataclass(frozen=True)
class Rival:
    """A model by its stopping parameter; `ones`: it is given a column of ones in the place of an intercept; `own`: it minimises
    something else, and runs to its own default stop."""

    name: str
    make: Fit
    ones: bool = False
    own: bool = False
    tols: Sequence[float] = TOLS


def seconds(rival: Rival, task: Task, tol: float, repeat: int) -> tuple[float, Any]:
    X = with_ones(task.X) if rival.ones else task.X
    spent, model = [], None
    for _ in range(repeat):
        model = rival.make(tol)
        begin = time.process_time()
        model.fit(X, task.y)
        spent.append(time.process_time() - begin)
    return median(spent), model


def within(limit: float, work: Callable[[], Any]) -> Any:
    """What `work` returns, in a process of its own; None where that takes longer than `limit` seconds"""
    context = get_context("fork")  # the data are there already
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(work()), daemon=True)
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(limit) else None
    finally:
        process.kill()
        process.join()


def tried(rival: Rival, task: Task, ours: bool, repeat: int, limit: float) -> Iterator[tuple[float, Any] | None]:
    """Seconds and model at each setting of its stop; at the end None where it was cut off"""
    used, last = 0.0, 0.0 if ours else np.inf
    if ours:
        seconds(rival, task, rival.tols[0], 1)  # compiles
    for tol in (TOLS[2],) if rival.own else rival.tols:
        often = repeat if last < SHORT and not rival.own else 1
        begin = time.perf_counter()
        if ours or last < SHORT:
            found = seconds(rival, task, tol, often)
        else:
            found = within(limit - used, partial(seconds, rival, task, tol, 1))
            if found is not None and found[0] < SHORT and not rival.own:
                seconds(rival, task, tol, 1)  # the first one here
                found = seconds(rival, task, tol, repeat)
        used += time.perf_counter() - begin
        yield found
        if found is None:
            return
        last = found[0]
        if used >= limit:
            if not ours and not rival.own:
                yield None
            return


def accuracy(rival: Rival, model: Any, task: Task) -> float:
    X = with_ones(task.X_test) if rival.ones else task.X_test
    return float(model.score(X, task.y_test))


def measured(task: Task, rivals: Sequence[Rival], repeat: int, limit: float) -> list[list[str]]:
    """A row for each rival: seconds to 1.001 P*, ratio of ours to it, accuracy there"""
    runs: dict[str, list[tuple[float, float, float]]] = {}
    lowest, cut = np.inf, set()
    for rival in rivals:
        runs[rival.name] = []
        for found in tried(rival, task, rival is rivals[0], repeat, limit):
            if found is None:
                cut.add(rival.name)
                break
            spent, model = found
            value = np.inf if rival.own else task.objective(weights(model))
            runs[rival.name].append((spent, value, accuracy(rival, model, task)))
            if rival is not rivals[0] and value <= (1.0 + 0.5 * WITHIN) * lowest:
                break  # ours went through its whole grid, so that `lowest` is known well
            lowest = min(lowest, value)
    best = min(value for found in runs.values() for _, value, _ in found)
    own = next((spent for spent, value, _ in sorted(runs[rivals[0].name]) if value <= (1.0 + WITHIN) * best), None)
    lines = []
    for rival in rivals:
        there = [run for run in sorted(runs[rival.name]) if rival.own or run[1] <= (1.0 + WITHIN) * best]
        if not there:
            stopped, scored = rival.name in cut, [score for _, _, score in runs[rival.name]]
            text = f"cut off after {limit:g}" if stopped else "never"
            lines.append([task.name, rival.name, text, "-", figure(scored[-1], 4) if scored else "-"])
            continue
        spent, _, score = there[0]
        ratio = "-" if own is None or rival is rivals[0] else figure(own / spent, 2)
        lines.append([task.name, rival.name + (" (own stop)" if rival.own else ""), figure(spent), ratio, figure(score, 4)])
    return lines


# ---- tasks ---------------------------------------------------------------------------------------------------


def split(X: Any, y: np.ndarray, seed: int = 0) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.sort(order[len(y) // 5 :]), np.sort(order[: len(y) // 5])
    return X[train], y[train], X[test], y[test]


def embeddings(quick: bool) -> list[tuple[Task, list[Rival]]]:
    """A linear probe: 20,000 x 768 made numbers of unit variance, 10 classes drawn by their scores; the multinomial loss"""
    rng, (n, d, k) = np.random.default_rng(0), (1_000, 64, 10) if quick else (20_000, 768, 10)
    X = rng.normal(size=(n, d))
    y = np.argmax(X @ rng.normal(size=(d, k)) * (4.0 / np.sqrt(d)) + rng.gumbel(size=(n, k)), axis=1)
    return classes("embeddings", split(X, y), PROBE_C)[2:]


def classes_of(name: str, quick: bool) -> list[tuple[Task, list[Rival]]]:
    rows = 1_000 if quick else (ROWS if name.startswith("mnist") else None)
    return classes(name, split(*Workload(name, rows).load()))


def classes(name: str, data: tuple[Any, np.ndarray, Any, np.ndarray], C: float = 1.0) -> list[tuple[Task, list[Rival]]]:
    """Three losses of several classes"""

    def ours(tol: float, **own: Any) -> Any:
        return mm.SVMClassifier(C=C, tol=tol, random_state=0, **own)

    def logistic(tol: float, solver: str, **own: Any) -> Any:
        return LogisticRegression(C=C, tol=tol, solver=solver, max_iter=10_000, **own)

    rest = [
        Rival("maxmargin", lambda tol: ours(tol, loss="squared_hinge", multi_class="ovr")),
        Rival("LinearSVC", lambda tol: LinearSVC(C=C, tol=tol, max_iter=100_000, random_state=0)),
        Rival("SGDClassifier, squared hinge", lambda tol: SGDClassifier("squared_hinge", alpha=1e-4, random_state=0), own=True),
    ]
    each = [
        Rival("maxmargin", lambda tol: ours(tol, loss="log_loss", multi_class="ovr")),
        Rival("liblinear, OneVsRest", lambda tol: OneVsRestClassifier(logistic(tol, "liblinear", random_state=0))),
        Rival("SGDClassifier, log loss", lambda tol: SGDClassifier("log_loss", alpha=1e-4, random_state=0), own=True),
    ]
    free = [
        Rival("maxmargin", lambda tol: ours(tol, loss="log_loss")),
        *(
            Rival(solver, lambda tol, solver=solver: logistic(tol, solver, fit_intercept=False), ones=True, tols=tols)
            for solver, tols in SOLVERS.items()
            if solver != "newton-cholesky" or data[0].shape[1] <= WIDEST
        ),
    ]
    kinds = (
        ("squared_hinge", "against the rest, squared hinge", rest),
        ("log_loss", "against the rest, log loss", each),
        ("multinomial", "multinomial", free),
    )
    return [(Task(f"{name}: {text}", *data, C, loss), rivals) for loss, text, rivals in kinds]


def houses(quick: bool) -> tuple[Task, list[Rival]]:
    data, C = split(*Workload("cadata", 1_000 if quick else None).load()), 1.0
    return Task("cadata: squared error", *data, C, "squared_error"), [
        Rival("maxmargin", lambda tol: mm.SVMRegressor(C=C, loss="squared_error", tol=tol, random_state=0)),
        Rival("Ridge", lambda tol: Ridge(alpha=0.5 / C, fit_intercept=False, tol=tol), ones=True, tols=TOLS[:1]),
    ]


def rare(name: str, quick: bool) -> tuple[Task, list[Rival]]:
    """Labels that few rows have"""
    found = real(name)
    rows, labels = (500, 10) if quick else (len(found.Y), found.Y.shape[1])
    positive = found.Y[:rows].sum(axis=0)
    kept = np.flatnonzero((positive > 0) & (positive < rows))[:labels]
    data = found.X[:rows], found.Y[:rows][:, kept].astype(int), found.X_test, found.Y_test[:, kept].astype(int)
    return Task(f"{name}: {kept.size} labels, squared hinge", *data, 1.0, "squared_hinge"), [
        Rival("maxmargin", lambda tol: mm.MultilabelSVMClassifier(tol=tol, random_state=0)),
        Rival("OneVsRest(LinearSVC)", lambda tol: OneVsRestClassifier(LinearSVC(tol=tol, max_iter=100_000, random_state=0))),
    ]


SETS: dict[str, Callable[[bool], list[tuple[Task, list[Rival]]]]] = {
    **{name: lambda quick, name=name: classes_of(name, quick) for name in ("news20", "letter", "mnist16", "mnist")},
    "embeddings": embeddings,
    "cadata": lambda quick: [houses(quick)],
    **{name: lambda quick, name=name: [rare(name, quick)] for name in ("bibtex", "rcv1_subset1")},
}


def run(report: Report, names: Sequence[str], quick: bool, repeat: int, limit: float = LIMIT) -> None:
    """A section for each set"""
    head = ["task", "solver", f"s to {WITHIN:g}", "maxmargin's / its", "score"]
    text = "Processor seconds of one thread to within 1e-3 of the lowest objective; C = 1 (embeddings: 5). `never`: nowhere."
    text += f" A solver has {limit:g} seconds a task; one that was cut off had not come there before."
    for name in names:
        lines = []
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of peers that stop early: the grid finds what suffices
            try:
                pairs = SETS[name](quick)
            except MissingDataError as missing:
                print(f"\nskipped {name}: {missing}", flush=True)
                continue
            for task, rivals in pairs:
                lines += measured(task, rivals, repeat, limit)
        report.section(f"everyday: {name}", f"{text}\n\n{table(head, lines)}")
