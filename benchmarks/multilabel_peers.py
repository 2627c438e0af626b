"""Multi-label, no prior: seconds to a certified gap, beside one-vs-rest LIBLINEAR and LinearSVC at equal suboptimality.

Both peers are called label by label with the same C; objectives are computed in plain NumPy.
"""

import ctypes
import time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.svm import LinearSVC

import maxmargin as mm

from .multilabel_sets import Split, found, made
from .report import Report, figure, table

TOL = 1e-3
LAMS = (1e-3, 1e-4)
SETTINGS = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4)  # how exactly a peer solves each label
START = 2  # the first of them that is tried
PASSES = 10_000  # of LinearSVC at the most; LIBLINEAR allows itself 300
THIRD = 1.0 / 3.0


def objective(X, Y: np.ndarray, C: float, W: np.ndarray, b: np.ndarray) -> float:
    """One-vs-rest: the sum over the labels, in pieces of samples"""
    total = 0.5 * (float(np.sum(W**2)) + float(np.sum(b**2)))
    for k in range(0, X.shape[0], 4096):
        sign = np.where(Y[k : k + 4096] > 0, 1.0, -1.0)
        total += C * float(np.maximum(0.0, 1.0 - sign * (X[k : k + 4096] @ W.T + b)).sum())
    return total


class Liblinear:
    """LIBLINEAR's own library, on one problem object that is made before the clock starts."""

    name = "LIBLINEAR"

    def __init__(self, X) -> None:
        from liblinear.liblinearutil import problem

        self.problem, self.shape = problem(np.ones(X.shape[0]), sp.csr_matrix(X), bias=1), X.shape

    def fit(self, present: np.ndarray, C: float, setting: float) -> tuple[float, np.ndarray]:
        """Seconds, and weights with the intercept last"""
        from liblinear.liblinear import PRINT_STRING_FUN, liblinear
        from liblinear.liblinearutil import parameter

        quiet = PRINT_STRING_FUN(lambda text: None)
        np.ctypeslib.as_array(self.problem.y, (self.shape[0],))[:] = np.where(present, 1.0, -1.0)
        option = parameter(f"-s 3 -c {C!r} -e {setting!r} -q")
        liblinear.set_print_string_function(quiet)
        ctypes.CDLL(None).srand(1)
        begin = time.process_time()
        model = liblinear.train(self.problem, option)
        seconds = time.process_time() - begin
        flat = np.ctypeslib.as_array(model.contents.w, (self.shape[1] + 1,)).copy()
        sign = 1.0 if model.contents.label[0] == 1 else -1.0
        liblinear.free_and_destroy_model(ctypes.byref(model))
        return seconds, sign * flat


class Sklearn:
    """scikit-learn's LinearSVC, which reads X anew for each label."""

    name = "LinearSVC"

    def __init__(self, X) -> None:
        self.X = X

    def fit(self, present: np.ndarray, C: float, setting: float) -> tuple[float, np.ndarray]:
        model = LinearSVC(loss="hinge", C=C, tol=setting, max_iter=PASSES, random_state=0)
        begin = time.process_time()
        model.fit(self.X, present)
        return time.process_time() - begin, np.append(model.coef_[0], model.intercept_)


class Arrival(NamedTuple):
    """How a peer got on with a setting. below: how far above the optimum it ended, relative to that; nan: it was stopped"""

    peer: str
    setting: float
    seconds: float
    below: float

    @property
    def there(self) -> bool:
        return self.below <= TOL


def attempt(peer, split: Split, C: float, setting: float, bound: float, limit: float) -> Arrival:
    """All labels one after the other, until so many seconds have passed"""
    seconds, W = 0.0, np.zeros((split.Y.shape[1], split.X.shape[1] + 1))
    for label, row in enumerate(W):
        spent, row[:] = peer.fit(split.Y[:, label] > 0, C, setting)
        seconds += spent
        if seconds > limit:
            return Arrival(peer.name, setting, seconds, np.nan)
    return Arrival(peer.name, setting, seconds, objective(split.X, split.Y, C, W[:, :-1], W[:, -1]) / bound - 1.0)


def arrival(peer, split: Split, C: float, bound: float, limit: float) -> Arrival:
    """The loosest setting that arrives, or the last one tried: from `START` on to either side"""
    at = START
    best = attempt(peer, split, C, SETTINGS[at], bound, limit)
    if best.there:
        while at > 0 and (looser := attempt(peer, split, C, SETTINGS[at - 1], bound, limit)).there:
            best, at = looser, at - 1
        return best
    spent = best.seconds
    while not best.there and at + 1 < len(SETTINGS) and spent <= limit:
        at += 1
        best = attempt(peer, split, C, SETTINGS[at], bound, limit)
        spent += best.seconds
    return best


def certified(X, Y, C: float, limit: float, repeat: int, R=None) -> tuple[float, mm.MultilabelSVMClassifier]:
    """Processor seconds of a whole fit, the median of some seeds; a fit before them compiles what there is to compile"""
    times = []
    for seed in (0, *range(repeat)):
        model = mm.MultilabelSVMClassifier(C, loss="hinge", label_prior=R, tol=TOL, max_time=limit, random_state=seed)
        begin = time.process_time()
        model.fit(X, Y)
        times.append(time.process_time() - begin)
    return float(np.median(times[1:])), model


def workload(name: str, quick: bool) -> Split | None:
    if name != "synthetic":
        return found(name)
    return made(*((2_000, 20, 24) if quick else (100_000, 120, 101)))


def varying(split: Split) -> Split:
    """The labels that some training samples have and others lack"""
    counts = split.Y.sum(axis=0, dtype=np.int64)
    keep = (counts > 0) & (counts < len(split.Y))
    return Split(split.X, split.Y[:, keep], split.X_test, split.Y_test[:, keep])


def opponents(X) -> tuple[list[Any], str]:
    """The peers that are here, and a sentence about one that is not"""
    try:
        return [Liblinear(X), Sklearn(X)], ""
    except ImportError:
        return [Sklearn(X)], " The package liblinear-official is not installed here: LinearSVC, the same algorithm, stands alone."


def run(report: Report, names, cs, quick: bool, limit: float, repeat: int) -> None:
    """R = I to a certified gap, beside the peers' times to the same suboptimality; a section for each set.

    `cs`: the C to compare at; None for two lambdas and C = 1. Sections of chosen C name them."""
    for name in names:
        split = workload(name, quick)
        if split is not None:
            usual = (*(1.0 / (lam * len(split.Y)) for lam in LAMS[: 1 if quick else None]), 1.0)
            title = name if cs is None else f"{name}, C = {', '.join(f'{C:g}' for C in cs)}"
            compare(report, title, varying(split), cs or usual, (limit, repeat))


def compare(report: Report, title: str, split: Split, cs, options: tuple[float, int]) -> None:
    limit, repeat = options
    n, d = split.X.shape
    peers, absent = opponents(split.X)
    lines, verdicts = [], []
    columns = [column for peer in peers for column in (f"{peer.name} s", "its tol", "its suboptimality")]
    head = ["C", "ours s", "passes", "gap", *columns, "ours / the faster"]
    text = f"{n:,} samples, {d:,} features, {split.Y.shape[1]} labels that vary. No prior, hinge loss, processor seconds of one "
    text += (
        f"thread: of ours to a certified relative gap of {TOL:g}, of the peers, called for each label, at the loosest tol that "
    )
    text += f"comes within {TOL:g} of the best dual value known. '>': it did not arrive, within its passes (LIBLINEAR has 300, "
    text += f"LinearSVC was given {PASSES:,}) or {limit:g} seconds; '<': so the true ratio is smaller.{absent}"
    for C in cs:
        own, model = certified(split.X, split.Y, C, limit, repeat)
        finer = mm.MultilabelSVMClassifier(C, loss="hinge", tol=1e-4, max_time=limit, random_state=0).fit(split.X, split.Y)
        bound = max(model.certificate_.dual, finer.certificate_.dual)
        trials = [arrival(peer, split, C, bound, limit) for peer in peers]
        arrived = [trial.seconds for trial in trials if trial.there]
        ratio, less = own / min(arrived or (trial.seconds for trial in trials)), "" if arrived else "< "
        cells = [figure(C), figure(own), str(model.n_iter_), f"{model.certificate_.relative_gap:.1e}"]
        for trial in trials:
            seconds = figure(trial.seconds) if trial.there else f"> {figure(trial.seconds)}"
            cells += [seconds, f"{trial.setting:g}", "stopped" if np.isnan(trial.below) else f"{trial.below:.1e}"]
        lines.append([*cells, f"{less}{figure(ratio, 2)}"])
        asked = "the third aimed for" if ratio <= THIRD else "no slower"
        holds = f"holds ({asked})" if ratio <= 1.0 and model.certificate_.converged else "FAILS" if arrived else "not decided"
        verdicts.append(f"- C = {figure(C)}: {less}{figure(ratio, 2)} of the faster peer's time: {holds}.")
        # After each C, as the last ones are long.
        report.section(f"multilabel: peers, {title}", "\n\n".join([text, table(head, lines), "\n".join(verdicts)]))
