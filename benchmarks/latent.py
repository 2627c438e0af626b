"""Latent models: gestures whose frame nobody has told, found while the model learns (`maxmargin.datasets.make_gestures`)."""

import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm

from .report import Report, figure, table

CS = (0.01, 0.1, 1.0)
TRAINING = 400
TOL, COARSE = 1e-3, 1e-2
SEEDS = 4
SOLVERS = {
    "DualCoordinate": mm.DualCoordinate(),
    "FrankWolfe": mm.FrankWolfe(),
    "PartialLinearization": mm.PartialLinearization(),
}


def share(found: np.ndarray, wanted: np.ndarray) -> str:
    return f"{100.0 * np.mean(found == wanted):.1f} %"


def timed(model: mm.LatentSVMClassifier, X, y) -> float:
    """Processor seconds of a fit, which may end on its limit"""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return time.process_time() - began


def row(name: str, model: mm.LatentSVMClassifier, seconds: float) -> list[str]:
    return [name, str(len(model.outer_history_)), str(model.n_iter_), figure(seconds), f"{model.certificate_.relative_gap:.1e}"]


def run(report: Report, quick: bool, limit: float) -> None:
    samples, training, seeds = (60, 40, 1) if quick else (594, TRAINING, SEEDS)
    X, y, frames = mm.datasets.make_gestures(samples, random_state=0)
    head = ["", "convex problems", "passes", "s", "gap"]
    timed(mm.LatentSVMClassifier(1.0, tol=0.1, random_state=0), X[:30], y[:30])  # compiles
    lines = []
    for C in CS[1:2] if quick else CS:
        model = mm.LatentSVMClassifier(C, tol=TOL, max_time=limit, random_state=0)
        seconds = timed(model, X[:training], y[:training])
        frame, guess, unseen = model.latent_, model.predict(X[training:]), model.predict_latent(X[training:])
        found = share(frame, frames[:training]), share(guess, y[training:]), share(unseen, frames[training:])
        lines.append([*row(f"C = {C:g}", model, seconds), *found])
    means = np.array([np.asarray(x).mean(axis=0) for x in X])
    flat = mm.SVMClassifier(CS[1], random_state=0).fit(means[:training], y[:training])
    lines.append(["mean frames, SVMClassifier", "", "", "", "", "", share(flat.predict(means[training:]), y[training:]), ""])
    full = [*head, "frames found, training", "gestures right, test", "frames found, test"]
    whole = []
    for C in CS[1:2] if quick else CS[1:]:
        draws = [mm.datasets.make_gestures(samples, random_state=seed) for seed in range(seeds)]
        models = [mm.LatentSVMClassifier(C, tol=TOL, max_time=limit, random_state=0) for _ in draws]
        for model, (bags, labels, _) in zip(models, draws, strict=True):
            timed(model, bags, labels)
        whole.append(f"C = {C:g}: {', '.join(share(m.latent_, truth) for m, (_, _, truth) in zip(models, draws, strict=True))}")
    beside = []
    for name, solver in SOLVERS.items():
        model = mm.LatentSVMClassifier(CS[1], tol=COARSE, solver=solver, max_time=limit, random_state=0)
        beside.append(row(name, model, timed(model, X[:training], y[:training])))
    text = f"{training} sequences to learn from, {samples - training} to test on; gap {TOL:g}, at most {limit:g} s; processor s."
    body = [text, table(full, lines), f"Frames found in all {samples} sequences, {seeds} draws: {'; '.join(whole)}."]
    body += [f"Solvers beside each other at C = {CS[1]:g}, to a gap of {COARSE:g}:", table(head, beside)]
    report.section("latent: gestures", "\n\n".join(body))
