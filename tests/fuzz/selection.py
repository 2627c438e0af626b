"""Searches of C, and probabilities: the models are those of the estimators, whatever was made beside them."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

import maxmargin as mm
from maxmargin.estimators.bounds import HeldOut

from . import checks, linear
from .checks import Report
from .draws import Draw, form, formed
from .linear import Task

SEARCHES = {
    mm.SVMClassifier: mm.SVMClassifierCV,
    mm.SVMRegressor: mm.SVMRegressorCV,
    mm.TopKSVMClassifier: mm.TopKSVMClassifierCV,
    mm.MultilabelSVMClassifier: mm.MultilabelSVMClassifierCV,
}
MAKERS = linear.binary, linear.multiclass, linear.topk, linear.regression, linear.multilabel
LEAST = 12  # samples, so that folds can be cut


def drawn(draw: Draw, classes_only: bool = False) -> Task | None:
    """A task of some size, all of whose labels are known; None where none came."""
    for _ in range(20):
        make = draw.one(*(maker for maker in MAKERS if not (classes_only and maker is linear.regression)))
        draw.dense = make not in (linear.binary, linear.regression)
        task = make(draw)
        known = not (task.many and np.any(np.isnan(task.y)))
        weighed = task.weight is None or np.all(task.weight > 0)
        if LEAST <= len(task.X) <= 200 and known and weighed:
            draw.note(estimator=task.estimator, X=task.X, y=task.y, sample_weight=task.weight)
            return task
    return None


def folds(draw: Draw, task: Task) -> list[tuple[np.ndarray, np.ndarray]]:
    """Some samples to judge, fitted to the others, or to all where the others have not all classes."""
    rows, found = np.arange(len(task.X)), []
    for _ in range(int(draw.one(1, 2, 3))):
        test = np.sort(draw.rng.permutation(rows)[: max(3, len(rows) // 4)])
        train = np.setdiff1d(rows, test)
        whole = task.y.ndim == 1 and len(np.unique(task.codes[train])) < len(np.unique(task.codes))
        found.append((rows if whole and not np.issubdtype(task.codes.dtype, np.floating) else train, test))
    return found


def search(draw: Draw, report: Report) -> None:
    """The winner is one of the values, its model that of the estimator, and bounds of scores hold."""
    task = drawn(draw)
    if task is None:
        return
    params = {**task.estimator.get_params(deep=False), "max_time": 30.0 if draw.quick else 0.3}
    C = params.pop("C")
    Cs = C * 10.0 ** draw.rng.uniform(-2, 2, int(draw.one(1, 2, 4)))
    cv, name = folds(draw, task), form(draw, task.X)
    search_tol = draw.one(0.1, 1e-2, 1e-5)
    draw.note(Cs=Cs, cv=cv, form=name, search_tol=search_tol)
    model = SEARCHES[type(task.estimator)](Cs, **params).set_params(cv=cv, search_tol=search_tol)
    with checks.strict():
        model.fit(formed(draw, task.X, name), task.y, sample_weight=task.weight)
    shape = len(cv), len(Cs)
    report.expect(model.C_ in Cs, f"C_={model.C_!r} is not among Cs")
    report.expect(model.scores_.shape == shape and model.score_bounds_.shape == (*shape, 2), "scores have another shape")
    mean = model.scores_.mean(axis=0)
    best = Cs[mean >= mean.max() - 1e-9 * abs(mean.max())].min()
    report.expect(best == model.C_, f"C_={model.C_!r} is not the smallest with the best score, {best!r}")
    low, high = model.score_bounds_[..., 0], model.score_bounds_[..., 1]
    slack = 1e-9 * (1.0 + np.abs(model.scores_)) if "float32" not in name else 1e-3 * (1.0 + np.abs(model.scores_))
    if np.all(np.isfinite(low)):
        inside = (low - slack <= model.scores_) & (model.scores_ <= high + slack)
        report.expect(inside.all(), f"a score is outside of its bounds: {model.scores_[~inside][:1]}")
        fold, place = int(draw.rng.integers(shape[0])), int(draw.rng.integers(shape[1]))
        overlap(report, task, model, Cs[place], cv[fold], model.score_bounds_[fold, place])
    linear.check(draw, report, replace(task, objective=task.objective.scaled(model.C_ / C)), model, "winner: ")


def overlap(report: Report, task: Task, model, C: float, fold, bounds) -> None:
    """A finer fit of the same fold proves bounds of the same score: the optimum's, which is in both."""
    train, test = fold
    plain = clone(task.estimator).set_params(max_time=model.max_time, keep_duals=False)
    weight = None if task.weight is None else task.weight[train]
    with checks.strict():
        step = plain._fitter((task.X[train], task.y[train], weight))({"C": float(C), "tol": 1e-6, "max_iter": 1000}, None)
    held = HeldOut(task.X[test], task.y[test], None if task.weight is None else task.weight[test])
    low, high = model._default_score.bounds(held, step)
    if np.isfinite(low) and np.isfinite(high):
        apart = max(bounds[0] - high, low - bounds[1])
        near = 1e-6 * (1.0 + abs(high) + abs(low))
        report.expect(apart <= near, f"bounds {tuple(bounds)} and {(low, high)} of one score at C={C!r} do not meet")


def probability(draw: Draw, report: Report) -> None:
    """Probabilities are probabilities, and leave the model what it is."""
    task = drawn(draw, classes_only=True)
    if task is None or (not task.many and np.bincount(task.codes).max() < 5):
        return
    method, name = draw.one("sigmoid", "isotonic", "temperature"), form(draw, task.X)
    draw.note(probability=method, form=name)
    X = formed(draw, task.X, name)
    model = clone(task.estimator).set_params(probability=method, max_time=30.0 if draw.quick else 0.5)
    with checks.strict():
        model.fit(X, task.y, sample_weight=task.weight)
        found, logs = model.predict_proba(X), model.predict_log_proba(X)
    linear.check(draw, report, task, model, "calibrated: ")
    count = task.y.shape[1] if task.many else len(model.classes_)
    report.expect(found.shape == (len(task.X), count), f"probabilities have shape {found.shape}")
    report.expect(np.all((found >= 0.0) & (found <= 1.0)), "a probability is not between 0 and 1")
    if not task.many:
        off = np.abs(found.sum(axis=1) - 1.0).max()
        report.expect(off <= 1e-9, f"probabilities of a sample sum to 1 but for {off:.3g}")
    some = found > 0.0
    report.expect(np.allclose(logs[some], np.log(found[some])), "predict_log_proba is not the logarithm of predict_proba")
    given = model.predict(X)
    plain = clone(model).set_params(probability=None)
    with checks.strict():
        other = plain.fit(X, task.y, sample_weight=task.weight).predict(X)
    same = (given != other).nnz == 0 if sp.issparse(given) else np.array_equal(given, other)
    timed_out = any("max_time" in each.certificate_.message for each in (model, plain))
    report.expect(same or timed_out, "predictions are others without probabilities")
