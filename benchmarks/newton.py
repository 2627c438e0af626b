"""`Newton` on data as they come, and beside LIBLINEAR's primal Newton method; Newton steps that finish coordinate ascent.

Seconds and passes to certified gaps of 1e-3 and 1e-8, at three values of C. `raw`: the sets that scikit-learn ships, with
the default solver and with `Newton` alone; `wide`: the same with columns of very different sizes; `large`: letter, pixels and
cadata. `peers`: squared losses, LinearSVC and LinearSVR with dual=False at the largest of their `tol` that does it; how good they
are is computed here, against our dual.
`polish`: made problems of each family, by `DualCoordinate` with and without Newton steps on the free duals.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_linnerud, load_wine
from sklearn.svm import LinearSVC, LinearSVR

import maxmargin as mm
from maxmargin.solvers.polish.finish import Finishing
from maxmargin.solvers.polish.tuning import POLISH

from .objectives import EPSILON, primal
from .report import Report, figure, table
from .workloads import Arrays, MissingDataError, cadata, path

CS = (0.01, 1.0, 100.0)
TOLS = (1e-3, 1e-8)
TARGETS = (1e-4, 1e-6)
PEER_TOLS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8)
MOST_STEPS = 100
WARM_UP = 400  # rows
PARTS = ("raw", "wide", "large", "peers", "polish")
POLISHED = (1e-6, 1e-9)
NO_POLISH = POLISH._replace(first=2**62, later=2**62, rounds=2**62)


def raw_cadata() -> Arrays:
    """20,640 rows of 8 features, and the target in units of 100,000"""
    with np.load(path("cadata", "cadata.npz")) as data:
        y = data["y"].astype(np.float64)
        return np.ascontiguousarray(data["X"], np.float64), y / (1e5 if y.max() > 1e3 else 1.0)


def raw_letter() -> Arrays:
    """15,000 letters, 16 features of 0..15"""
    with np.load(path("letter", "letter.npz")) as data:
        return data["X_train"].astype(np.float64), data["y_train"].astype(np.int64)


def raw_pixels() -> Arrays:
    """As many digits as usps has, 14 x 14 pixels of 0..255: means of four"""
    with np.load(path("mnist", "mnist.npz")) as data:
        X, y = data["X_train"][:7291].reshape(-1, 14, 2, 14, 2), data["y_train"][:7291].astype(np.int64)
    return np.ascontiguousarray(X.mean(axis=(2, 4)).reshape(len(y), -1), np.float64), y


def linnerud(column: int) -> Callable[[], Arrays]:
    return lambda: (load_linnerud().data, load_linnerud().target[:, column])


def of_sklearn(load: Callable[..., Any], **how) -> Callable[[], Arrays]:
    return lambda: load(return_X_y=True, **how)


SMALL_CLASSES = {
    "iris": of_sklearn(load_iris),
    "wine": of_sklearn(load_wine),
    "breast_cancer": of_sklearn(load_breast_cancer),
    "digits": of_sklearn(load_digits),
}
SMALL_NUMBERS = {
    "diabetes": of_sklearn(load_diabetes, scaled=False),
    **{f"linnerud, {name}": linnerud(k) for k, name in enumerate(("weight", "waist", "pulse"))},
}
LARGE = {"letter": raw_letter, "pixels": raw_pixels, "cadata": raw_cadata}
NUMBERS = (*SMALL_NUMBERS, "cadata")


def models(name: str) -> dict[str, Any]:
    if name in NUMBERS:
        losses = ("epsilon_insensitive", "squared_epsilon_insensitive", "squared_error")
        return {loss: mm.SVMRegressor(loss=loss) for loss in losses}
    if name == "breast_cancer":
        return {loss: mm.SVMClassifier(loss=loss) for loss in ("hinge", "squared_hinge", "log_loss")}
    found = {loss: mm.SVMClassifier(loss=loss) for loss in ("hinge", "log_loss")}
    return found | {f"{loss}, ovr": mm.SVMClassifier(loss=loss, multi_class="ovr") for loss in ("hinge", "squared_hinge")}


def timed(fit: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """The least seconds of a fit, and the last model"""
    least, model = np.inf, None
    for _ in range(repeat):
        begin = time.perf_counter()
        model = fit()
        least = min(least, time.perf_counter() - begin)
    return least, model


def fitted(name: str, X: np.ndarray, y: np.ndarray, solvers, repeat: int, limit: float) -> Iterator[list[str]]:
    """A line for each loss, solver and C"""
    for loss, model in models(name).items():
        for solver in solvers:
            most = {} if solver == "auto" else {"max_iter": MOST_STEPS}
            model.set_params(solver=solver, random_state=0, max_time=limit, **most)
            for C in CS:
                cells = [name, loss, solver, f"{C:g}"]
                for tol in TOLS:
                    model.set_params(C=C, tol=tol).fit(X[:WARM_UP], y[:WARM_UP])  # compiles what it may need
                    seconds, found = timed(lambda model=model, X=X, y=y: model.fit(X, y), repeat)
                    who = "".join(method[0] for _, method in found.history_.methods) or solver[0].upper()
                    cells += [figure(seconds), f"{found.n_iter_} {who}", f"{found.certificate_.relative_gap:.0e}"]
                yield cells


class Shown(NamedTuple):
    """A table of sets"""

    title: str
    text: str
    sets: dict[str, Callable[[], Arrays]]
    solvers: tuple[str, ...]
    factor: float = 0.0  # columns are multiplied by ten to powers up to this


SMALL = SMALL_CLASSES | SMALL_NUMBERS
TABLES = {
    "raw": Shown("raw sets", "Sets that scikit-learn ships, no scaling.", SMALL, ("auto", "newton")),
    "wide": Shown(
        "wide sets", "The same, columns multiplied by random powers of ten between 1e-4 and 1e4.", SMALL, ("auto",), 4.0
    ),
    "large": Shown("larger raw sets", "Larger sets, no scaling.", LARGE, ("auto",)),
}


def show(report: Report, chosen: Shown, quick: bool, repeat: int, limit: float) -> None:
    """Lines are printed and kept as they come: a run that is stopped has left what it had."""
    head = ["set", "loss", "solver", "C", "s to 1e-3", "passes", "gap", "s to 1e-8", "passes", "gap"]
    how = f"Seconds (least of {repeat}, each at most {limit:g}), passes and steps, and the gap certified."
    who = "D: all by DualCoordinate, DN: Newton went on, DND: DualCoordinate again, N: all by Newton."
    lines: list[list[str]] = []

    def body() -> str:
        return "\n\n".join([f"{chosen.text} {how} {who}", table(head, lines)])

    for name, load in list(chosen.sets.items())[: 1 if quick else None]:
        try:
            X, y = load()
        except MissingDataError as missing:
            print(f"\nskipped {name}: {missing}", flush=True)
            continue
        if quick and len(X) > 1000:
            X, y = X[::20], y[::20]
        X = X * 10.0 ** np.random.default_rng(0).uniform(-chosen.factor, chosen.factor, X.shape[1])
        for line in fitted(name, X, y, chosen.solvers, repeat, limit):
            print(" | ".join(line), flush=True)
            lines.append(line)
            report.keep(f"newton: {chosen.title}", body())
    report.section(f"newton: {chosen.title}", body())


def tasks(quick: bool) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """Name, loss, X and y"""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2_000 if quick else 50_000, 100))
    z = X @ rng.standard_normal(100) + 3.0 * rng.standard_normal(len(X))
    yield "50,000 x 100", "squared_epsilon_insensitive", X, z
    yield "50,000 x 100", "squared_hinge", X, np.where(z > 0, 1.0, -1.0)
    try:
        scaled, given = cadata(), raw_cadata()
    except MissingDataError as missing:
        print(f"\nskipped cadata: {missing}", flush=True)
        return
    yield "cadata, standardised", "squared_epsilon_insensitive", *scaled
    yield "cadata, raw", "squared_epsilon_insensitive", *given
    yield "cadata, standardised", "squared_hinge", scaled[0], np.where(scaled[1] > 0, 1.0, -1.0)


def peers(report: Report, quick: bool, repeat: int, limit: float) -> None:
    lines = []
    for name, loss, X, y in islice(tasks(quick), 1 if quick else None):
        number = loss == "squared_epsilon_insensitive"
        own = mm.SVMRegressor(loss=loss, epsilon=EPSILON) if number else mm.SVMClassifier(loss=loss)
        peer = LinearSVR(loss=loss, epsilon=EPSILON, dual=False) if number else LinearSVC(loss=loss, dual=False)
        full = np.column_stack([X, np.ones(len(X))])
        for C in (0.01, 1.0):
            own.set_params(C=C, solver="newton", max_iter=MOST_STEPS, max_time=limit)
            best = own.set_params(tol=1e-12).fit(X, y).certificate_.dual
            for target in TARGETS:
                ours, found = timed(lambda own=own, target=target, X=X, y=y: own.set_params(tol=target).fit(X, y), repeat)
                theirs, wanted = np.nan, np.nan
                for tol in PEER_TOLS:
                    peer.set_params(C=C, tol=tol, max_iter=10_000)
                    seconds, model = timed(lambda peer=peer, X=X, y=y: peer.fit(X, y), repeat)
                    w = np.append(np.ravel(model.coef_), np.ravel(model.intercept_))
                    if primal(loss, full, y, w[None], C) <= best * (1.0 + target):
                        theirs, wanted = seconds, tol
                        break
                cells = [figure(ours), str(found.n_iter_), figure(theirs), f"{wanted:g}", figure(ours / theirs, 2)]
                lines.append([name, loss, f"{C:g}", f"{target:g}", *cells])
    text = (
        f"Seconds (least of {repeat}) to a relative suboptimality; ours certified. LIBLINEAR's primal Newton method at the "
        "largest of its `tol` that does it, nan where none does. It regularises the intercept as we do."
    )
    head = ["set", "loss", "C", "target", "s", "steps", "LIBLINEAR s", "its tol", "ratio"]
    report.section("newton: peers", "\n\n".join([text, table(head, lines)]))


def families(n: int) -> Iterator[tuple[str, Any, Any, Any]]:
    """Name, model, X and y of made problems: 30 columns of sizes that differ by a factor of ten, four classes."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, 30)) * np.logspace(-0.5, 0.5, 30)
    scores = X @ rng.standard_normal((30, 4)) + rng.standard_normal((n, 4))
    label, coupled = scores.argmax(axis=1), {"label_prior": 0.6 * np.eye(4) + 0.4}
    common: dict[str, Any] = {"solver": "dual_coordinate", "random_state": 0, "max_iter": 1_000_000}
    for loss in ("hinge", "squared_hinge"):
        yield loss, mm.SVMClassifier(loss=loss, **common), X, scores[:, 0] > 0
    for loss in ("epsilon_insensitive", "squared_epsilon_insensitive"):
        yield loss, mm.SVMRegressor(loss=loss, epsilon=0.3, **common), X, scores[:, 0]
    yield "Crammer-Singer", mm.SVMClassifier(**common), X, label
    for loss in ("topk_alpha", "topk_beta"):
        yield loss, mm.TopKSVMClassifier(k=2, loss=loss, **common), X, label
    yield "labels", mm.MultilabelSVMClassifier(**common), X, (scores > 0.3).astype(int)
    yield "coupled labels", mm.MultilabelSVMClassifier(**coupled, **common), X, (scores > 0.3).astype(int)
    rbf: dict[str, Any] = {"kernel": "rbf", "gamma": 0.01, "C": 10.0}
    yield "rbf, hinge", mm.SVMClassifier(**rbf, **common), X, scores[:, 0] > 0
    yield "rbf, Crammer-Singer", mm.SVMClassifier(**rbf, **common), X, label
    chains = range(0, n - 4, 5)
    parts = [X[k : k + 5] for k in chains], [label[k : k + 5] for k in chains]
    yield "chains", mm.StructuredSVM(mm.structures.Chain(), **common), *parts


def polish(report: Report, quick: bool, repeat: int, limit: float) -> None:
    lines = []
    for name, model, X, y in islice(families(200 if quick else 2_000), 1 if quick else None):
        model.set_params(max_time=limit).fit(X, y)  # compiles
        for tol in POLISHED:
            cells = [name, f"{tol:g}"]
            for tuning in (NO_POLISH, POLISH):
                Finishing.polish_tuning = tuning
                seconds, found = timed(lambda model=model, tol=tol, X=X, y=y: model.set_params(tol=tol).fit(X, y), repeat)
                cells += [figure(seconds), str(found.n_iter_), f"{found.certificate_.relative_gap:.0e}"]
            lines.append(cells)
    text = (
        "Made problems (2,000 rows, 30 columns, 4 classes; C = 1, with kernels 10), `DualCoordinate`: "
        f"seconds (least of {repeat}), passes and the gap certified, without Newton steps on the free duals and with them."
    )
    head = ["family", "tol", "s without", "passes", "gap", "s with", "passes", "gap"]
    report.section("newton: polish", "\n\n".join([text, table(head, lines)]))


def run(report: Report, parts, quick: bool, repeat: int, limit: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits that do not converge: the tables say so
        for part in parts:
            if part in TABLES:
                show(report, TABLES[part], quick, repeat, limit)
            else:
                {"peers": peers, "polish": polish}[part](report, quick, repeat, limit)
