"""Thresholds of labels: F1 on held-out samples with zero and with tuned ones, and what the tuning costs."""

import time

import numpy as np
from sklearn.metrics import f1_score

import maxmargin as mm

from .multilabel_sets import Split, found, made
from .report import Report, figure, table

SETS = {"yeast": 0.1, "scene": 0.1}  # with their C
HEAD = ["", "macro F1", "micro F1", "labels a sample", "s", "ratio"]


def lines_of(split: Split, C: float) -> list[list[str]]:
    rows, plain = [], 0.0
    for name, given in (("thresholds=0", 0.0), ("thresholds='f1'", "f1")):
        model = mm.MultilabelSVMClassifier(C, thresholds=given, random_state=0)
        model.fit(split.X[:200], split.Y[:200])  # compiles
        began = time.process_time()
        model.fit(split.X, split.Y)
        seconds = time.process_time() - began
        plain = plain or seconds
        guess = np.asarray(model.predict(split.X_test))
        f1 = (f"{f1_score(split.Y_test, guess, average=kind, zero_division=0.0):.3f}" for kind in ("macro", "micro"))
        rows.append([name, *f1, f"{guess.sum(axis=1).mean():.2f}", figure(seconds), figure(seconds / plain)])
    return rows


def thresholds(report: Report, quick: bool) -> None:
    parts = [
        "F1 of the test part; labels that a sample is given on average; processor seconds of a fit, and their ratio to that "
        "without tuning."
    ]
    for name, C in {"synthetic": 1.0}.items() if quick else SETS.items():
        split = made(600, 20, 8) if quick else found(name)
        if split is not None:
            true = f"{split.Y_test.sum(axis=1).mean():.2f} labels a sample"
            parts.append(f"{name}, C={C:g}, {true}:\n\n{table(HEAD, lines_of(split, C))}")
    report.section("multilabel: thresholds", "\n\n".join(parts))
