"""Rankings: how the time grows with the rows, and beside `SVMClassifier` on the same rows.

Made rows: columns with common factors and heavy tails, a shift for each group, and targets 0 to 3 that fewer and fewer samples of
a group have. "growth" doubles the rows four times: one group of all rows, whose pairs grow with the square, each row with a
target of its own; what is timed is one pass, risk and subgradient. "compared" fits both models to the same relative gap at the
same C; the classifier tells target 0 from the others, without an intercept. Seconds are of processor time, in turns, the median
of the repeats, with kernels compiled.
"""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.problems.ranking import RankingProblem, pair_weights, ranked
from maxmargin.problems.risk import risk_of

from .report import Report, table

CS = (1e-3, 1e-2, 1.0)
DOUBLED = 5
PARTS = ("growth", "compared")
ROWS, GROUPS, FEATURES, TOL = 1_000_000, 10_000, 50, 1e-2
QUICK_ROWS, QUICK_GROUPS = 2_000, 50


def made(rows: int, groups: int, features: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    group = np.arange(rows) * groups // rows
    factors = rng.standard_t(4, size=(rows, 5)).astype(np.float32)
    X = rng.standard_t(4, size=(rows, features)).astype(np.float32)
    X += factors @ rng.normal(size=(5, features)).astype(np.float32)
    X /= X.std(axis=0)
    score = X @ (rng.normal(size=features) / features**0.5) + rng.normal(size=rows) + 2.0 * rng.normal(size=groups)[group]
    place = np.empty(rows)
    place[np.lexsort((score, group))] = np.arange(rows)
    first = np.searchsorted(group, np.arange(groups))
    part = (place - first[group]) / np.bincount(group)[group]
    return X, np.digitize(part, [0.6, 0.85, 0.95]).astype(float), group


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    found = work()
    return time.process_time() - begin, found


def growth(rows: int, features: int, repeat: int) -> str:
    last, lines = None, []
    for n in (rows // 2 ** (DOUBLED - 1 - k) for k in range(DOUBLED)):
        X, _, _ = made(n, 1, features)
        layout = ranked(np.random.default_rng(0).permutation(n).astype(float), np.zeros(n, int), np.ones(n))
        pairs = pair_weights(layout)[1]
        risk, w = risk_of(RankingProblem(table_of(X), layout, n / pairs)), np.full(features + 1, 0.1)
        assert risk is not None
        risk(w)
        took = median(seconds(lambda risk=risk, w=w: risk(w))[0] for _ in range(repeat))
        grown = "" if last is None else f"{took / last[1]:.2f}"
        wanted = "" if last is None else f"{n * np.log(n) / (last[0] * np.log(last[0])):.2f}"
        lines.append([f"{n:,}", f"{pairs[0]:.3g}", f"{took:.3f}", grown, wanted])
        print(*lines[-1], sep="  ", flush=True)
        last = n, took
    return table(["rows", "pairs", "pass, s", "times", "n log n would be"], lines)


def compared(rows: int, groups: int, features: int, tol: float, repeat: int) -> str:
    X, y, group = made(rows, groups, features)
    top = y > 0
    few = slice(0, rows // groups * 4)
    for model, args in ((mm.RankingSVM(), (X[few], y[few], None, group[few])), (mm.SVMClassifier(), (X[few], top[few]))):
        model.fit(*args)
    lines = []
    for C in CS:
        ours, others = [], []
        for _ in range(repeat):
            ours.append(seconds(lambda C=C: mm.RankingSVM(C, tol=tol, n_jobs=1).fit(X, y, groups=group)))
            plain = mm.SVMClassifier(C, tol=tol, fit_intercept=False, n_jobs=1, random_state=0)
            others.append(seconds(lambda plain=plain: plain.fit(X, top)))
        (mine, model), (its, other) = ((median(took for took, _ in found), found[-1][1]) for found in (ours, others))
        own, gap = model.certificate_.relative_gap, other.certificate_.relative_gap
        cells = [f"{C:g}", f"{mine:.2f}", str(model.n_iter_), f"{own:.1e}", f"{its:.2f}", str(other.n_iter_), f"{gap:.1e}"]
        lines.append([*cells, f"{mine / its:.2f}"])
        print(*lines[-1], sep="  ", flush=True)
    head = ["C", "RankingSVM, s", "steps", "gap", "SVMClassifier, s", "passes", "gap", "times"]
    return f"{rows:,} x {features} in {groups:,} groups to {tol:g}\n\n{table(head, lines)}"


def run(report: Report, parts: Sequence[str], quick: bool, repeat: int) -> None:
    rows, groups = (QUICK_ROWS, QUICK_GROUPS) if quick else (ROWS, GROUPS)
    if "growth" in parts:
        report.section("ranking: growth", f"{__doc__}\n{growth(rows, FEATURES, repeat)}")
    if "compared" in parts:
        report.section("ranking: beside a classifier", compared(rows, groups, FEATURES, TOL, repeat))
