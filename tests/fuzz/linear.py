"""Linear models: binary, multiclass, top-k, regression and multi-label, fitted in every way there is."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

import maxmargin as mm

from . import checks
from .checks import Report
from .draws import Draw, form, formed, labels, matrix, size, source, weights
from .objectives import Binary, Coupled, CrammerSinger, Labels, Linear, Prior, Regression, TopK

SOLVERS = ("auto", "dual_coordinate", mm.DualCoordinate(momentum=False), mm.DualCoordinate(average=False), "bundle", "online")
MORE = (
    mm.DualCoordinate(double=True),
    mm.Bundle(prox=False),
    mm.Bundle(n_models=1),
    mm.Bundle(idle=1, init="zero"),
    mm.OnlineDual(effort=0.0),
    mm.OnlineDual(prune="zero"),
    mm.OnlineDual(prune="never", cache_size=0.001),
)
OF_ROWS = (  # serve three classes and more, without priors and signs
    "frank_wolfe",
    "partial_linearization",
    "exponentiated_gradient",
    mm.FrankWolfe(steps="away"),
    mm.FrankWolfe(steps="plain", sampling="uniform"),
    mm.FrankWolfe(block=False),
    mm.PartialLinearization(temperature=1.0, block=False),
    mm.PartialLinearization(cooling=0.9, sampling="gap"),
    mm.ExponentiatedGradient(block=False),
)


# Part of the objective. The duals that a run ends with are feasible in float64; the next one begins with them in float32 where it
# iterates in that (several scores a sample, or data in float32), and at once converged it returns them so.
SINGLE = 1e-7


@dataclass(frozen=True)
class Task:
    """A problem: an estimator with its parameters, samples, and the objective that they stand for."""

    estimator: Any
    X: np.ndarray
    y: Any
    weight: np.ndarray | None
    objective: Linear
    codes: np.ndarray  # labels as numbers: what a source on disk holds
    recoded: Callable[[Any], Any]  # the estimator for these
    solvers: tuple

    @property
    def many(self) -> bool:
        return isinstance(self.objective.loss, Labels)


def run(draw: Draw, report: Report, make: Callable[[Draw], Task]) -> None:
    """Draw a task and how to go about it, and check what comes of it."""
    draw.dense = make not in (binary, regression)
    task = make(draw)
    draw.note(estimator=task.estimator, X=task.X, y=task.y, sample_weight=task.weight)
    way = draw.one("fit", "fit", "fit", "path", "warm", "pieces", "source")
    draw.note(way=way)
    WAYS[way](draw, report, task)


# ---- tasks ----------------------------------------------------------------------------------------------------------------


def binary(draw: Draw) -> Task:
    n, d = max(2, size(draw)), int(draw.rng.integers(1, 13))
    squared = draw.chance(0.4)
    return classes(draw, n, d, 2, {"loss": "squared_hinge"} if squared else {})


def multiclass(draw: Draw) -> Task:
    K = int(draw.rng.integers(3, 9))
    return classes(draw, max(K, size(draw)), int(draw.rng.integers(1, 13)), K, {})


def classes(draw: Draw, n: int, d: int, K: int, own: dict) -> Task:
    X, label, weight = matrix(draw, n, d), labels(draw, n, K), weights(draw, n)
    names = draw.one(np.arange(K), np.arange(K) - 1, np.array([f"c{k}" for k in range(K)]), np.arange(K) + 0.0)
    cost = 1.0 - np.eye(K)
    if draw.chance(0.3):
        cost = draw.rng.random((K, K)) * draw.one(1.0, 10.0) * (1.0 - np.eye(K))
        own = own | {"cost": cost}
    factors, own = class_weight(draw, own, names, label, weight)
    params = common(draw, d, None if K == 2 else K, own)
    cap = params["C"] * (np.ones(n) if weight is None else weight) * factors[label]
    squared = own.get("loss") == "squared_hinge"
    loss = Binary(2.0 * label - 1.0, cost[label, 1 - label], squared) if K == 2 else CrammerSinger(label, cost)
    objective = Linear(X, cap, loss, prior_of(params, 1 if K == 2 else K, d))
    solvers = solvers_for(params, OF_ROWS if K > 2 else ())
    return classifier(draw, mm.SVMClassifier, X, names, label, weight, params, objective, solvers)


def topk(draw: Draw) -> Task:
    K = int(draw.rng.integers(2, 9))
    n, d, k = max(K, size(draw)), int(draw.rng.integers(1, 13)), int(draw.rng.integers(1, K))
    X, label, weight = matrix(draw, n, d), labels(draw, n, K), weights(draw, n)
    smoothing = draw.one(0.0, 0.0, 0.0, 0.1, 1.0, 5.0)
    own = {"k": k, "loss": draw.one("topk_alpha", "topk_beta"), "smoothing": smoothing}
    names = np.arange(K)
    factors, own = class_weight(draw, own, names, label, weight)
    params = common(draw, d, K, own)
    if draw.quick and own["loss"] == "topk_beta":
        params["tol"] = 1e-6  # iterations in float64 only: float32 is compiled for the other form
    cap = params["C"] * (np.ones(n) if weight is None else weight) * factors[label]
    plain = k == 1 and smoothing == 0.0
    loss = CrammerSinger(label, 1.0 - np.eye(K)) if plain else TopK(label, k, own["loss"] == "topk_beta", smoothing)
    objective = Linear(X, cap, loss, prior_of(params, K, d))
    solvers = solvers_for(params, OF_ROWS if plain else ())
    return classifier(draw, mm.TopKSVMClassifier, X, names, label, weight, params, objective, solvers)


def classifier(draw, kind, X, names, label, weight, params, objective, solvers) -> Task:
    given = params.get("class_weight")
    numbered = {i: given[name] for i, name in enumerate(names.tolist()) if name in given} if isinstance(given, dict) else given

    def recoded(estimator):
        return clone(estimator).set_params(class_weight=numbered)

    return Task(kind(**params), X, names[label], weight, objective, label, recoded, solvers)


def regression(draw: Draw) -> Task:
    n, d = size(draw), int(draw.rng.integers(1, 13))
    X, weight = matrix(draw, n, d), weights(draw, n)
    y = draw.one(draw.rng.normal(size=n), draw.rng.integers(-2, 3, n).astype(float), 1e3 * draw.rng.normal(size=n), np.zeros(n))
    squared, epsilon = draw.chance(0.4), draw.one(0.0, 0.1, 1.0, 10.0)
    own = {"epsilon": epsilon, "loss": "squared_epsilon_insensitive" if squared else "epsilon_insensitive"}
    params = common(draw, d, None, own)
    cap = params["C"] * (np.ones(n) if weight is None else weight)
    objective = Linear(X, cap, Regression(y, epsilon, squared), prior_of(params, 1, d))
    return Task(mm.SVMRegressor(**params), X, y, weight, objective, y, clone, solvers_for(params))


def multilabel(draw: Draw) -> Task:
    n, d, L = size(draw), int(draw.rng.integers(1, 13)), int(draw.one(1, 2, 3, 5, 8, 20))
    X, weight = matrix(draw, n, d), weights(draw, n)
    own, Y, loss, root = label_parts(draw, n, L, weight)
    params = common(draw, d, None, own, priors=False)
    cap = params["C"] * (np.ones(n) if weight is None else weight)
    scaling = params["intercept_scaling"] if params["fit_intercept"] else 0.0
    objective = Linear(X, cap, loss, Coupled(root, d, scaling))
    solvers = tuple(s for s in solvers_for(params) if not (params["keep_duals"] and is_online(s)))
    return Task(mm.MultilabelSVMClassifier(**params), X, Y, weight, objective, np.nan_to_num(Y).astype(int), clone, solvers)


def label_parts(draw: Draw, n: int, L: int, weight):
    """Parameters, Y (NaN where not known), the loss, and a root of R."""
    rng, own, root = draw.rng, {}, np.eye(L)
    Y = (rng.random((n, L)) < rng.choice([0.1, 0.5, 0.9])).astype(float)
    if draw.chance(0.3):
        Y[rng.random((n, L)) < 0.2] = np.nan
    kind = draw.one("none", "none", "full", "singular", "blocks")
    if kind != "none":
        root = rng.normal(size=(L, L)) + np.eye(L)
        if kind == "singular":
            root = root[:, : max(1, L // 2)]
        if kind == "blocks":
            root *= np.arange(L)[:, None] // 3 == np.arange(L) // 3
        own["label_prior"] = root @ root.T
    squared = draw.chance(0.4)
    own["loss"] = "squared_hinge" if squared else "hinge"
    with_label, known = (Y == 1.0).astype(int), ~np.isnan(Y)
    s = np.ones(n) if weight is None else weight
    masses = np.stack([s @ (known & (with_label == j)) for j in (0, 1)], axis=1)
    factors, margins = np.ones((L, 2)), np.ones((L, 2))
    chosen = draw.one("none", "none", "balanced", "one", "two")
    if chosen == "balanced" and masses.sum() > 0.0:
        half = 0.5 * masses.sum(axis=1, keepdims=True)
        factors, own["label_weight"] = np.divide(half, masses, out=np.zeros_like(masses), where=masses > 0), "balanced"
    elif chosen in ("one", "two"):
        own["label_weight"] = rng.random(L if chosen == "one" else (L, 2)) + 0.1
        factors = np.broadcast_to(own["label_weight"].reshape(L, -1), (L, 2))
    if draw.chance(0.2):
        own["cost"] = rng.random((L, 2)) * 3.0
        margins = own["cost"]
    each = np.take_along_axis(factors, with_label.T, axis=1).T * known
    loss = Labels(2.0 * with_label - 1.0, each, np.take_along_axis(margins, with_label.T, axis=1).T, squared)
    return own, Y, loss, root


def class_weight(draw: Draw, own: dict, names, label, weight):
    """The factors of the classes, and the parameters with them."""
    K = len(names)
    chosen = draw.one("none", "none", "none", "balanced", "dict")
    if chosen == "balanced":
        mass = np.bincount(label, weight, minlength=K).astype(float)
        factors = np.divide(mass.sum(), K * mass, out=np.zeros(K), where=mass > 0)
        return factors, own | {"class_weight": "balanced"}
    if chosen == "dict":
        factors = draw.rng.random(K) * 3.0 + 0.01
        return factors, own | {"class_weight": dict(zip(names.tolist(), factors.tolist()))}
    return np.ones(K), own


def common(draw: Draw, d: int, K: int | None, own: dict, priors: bool = True) -> dict:
    """The parameters that all linear models share."""
    rng = draw.rng
    passes = draw.one(1, 3, 30) if draw.quick else draw.one(1, 3, 30, 300, 10_000, 10_000)
    params = {
        "C": draw.one(1.0, draw.power(-2, 2), draw.power(-6, 6)),
        "tol": draw.one(1e-2, 1e-3, 1e-3, 1e-4, 1e-6),
        "max_iter": passes,
        "max_time": 30.0 if draw.quick else 1.0,
        "fit_intercept": draw.chance(0.7),
        "intercept_scaling": draw.one(1.0, 1.0, 0.1, 10.0, 100.0),
        "keep_duals": draw.chance(0.3),
        "random_state": int(rng.integers(100)),
        "n_jobs": draw.one(None, None, 2),
    }
    if priors and draw.chance(0.3) and not (draw.quick and draw.dense):
        shape = draw.one((d,), (K, d)) if K else (d,)
        kind = draw.one("positive", "mask", "mean", "scale", "both", "covariance", "all")
        if kind in ("positive", "mask", "all"):
            params["positive"] = True if kind == "positive" else rng.random(d) < 0.5
        if kind in ("mean", "both", "all"):
            params["prior_mean"] = rng.normal(size=shape)
        if kind in ("scale", "both", "all"):
            params["prior_scale"] = 10.0 ** rng.uniform(-1, 1, shape)
        if kind == "covariance":
            root = rng.normal(size=(d, d)) + 2.0 * np.eye(d)
            params["prior_covariance"] = root @ root.T + 0.1 * np.eye(d)
            if draw.chance(0.3):
                params["positive"] = rng.random(d) < 0.5
    return params | own


def prior_of(params: dict, K: int, d: int) -> Prior:
    mean, scale = (
        np.broadcast_to(fill if params.get(name) is None else params[name], (K, d)).astype(float)
        for name, fill in (("prior_mean", 0.0), ("prior_scale", 1.0))
    )
    positive = np.broadcast_to(np.asarray(params.get("positive", False)), (d,))
    scaling = float(params["intercept_scaling"]) if params["fit_intercept"] else 0.0
    return Prior(mean, scale, params.get("prior_covariance"), positive, scaling)


def solvers_for(params: dict, more: tuple = ()) -> tuple:
    """The solvers that serve these parameters, by the guide."""
    plain = not any(name in params for name in ("positive", "prior_mean", "prior_scale", "prior_covariance"))
    sides = "prior_covariance" in params and np.any(params.get("positive", False))
    found = (*SOLVERS, *MORE, *(more if plain else ()))
    return tuple(s for s in found if not (is_bundle(s) and (params["keep_duals"] or sides)) and not (sides and is_online(s)))


def is_bundle(solver) -> bool:
    return solver == "bundle" or isinstance(solver, mm.Bundle)


def is_online(solver) -> bool:
    return solver == "online" or isinstance(solver, mm.OnlineDual)


# ---- ways -----------------------------------------------------------------------------------------------------------------


def chosen(draw: Draw, task: Task):
    """A solver; a quick draw leaves out those that compile for long."""
    few = tuple(s for s in task.solvers if s in SOLVERS or isinstance(s, str))
    return draw.one(*(few if draw.quick else task.solvers))


def fit(draw: Draw, report: Report, task: Task) -> None:
    """Fit, and fit something that has the same optimum: their intervals overlap."""
    solver, name = chosen(draw, task), form(draw, task.X)
    draw.note(solver=solver, form=name)
    model = clone(task.estimator).set_params(solver=solver)
    given = formed(draw, task.X, name)
    with checks.timed(report, model.max_time):
        model.fit(given, labels_form(draw, task), sample_weight=task.weight)
    other, point = twin(draw, report, task, model)
    check(draw, report, task, model, more=(point,))
    checks.below(report, other.certificate_.dual, task.objective.at(point_of(model)), task.objective.slack(point), "twin's ")
    predictions(draw, report, task, model)


def labels_form(draw: Draw, task: Task):
    """y as users give it; for multi-label models also sparse, and with a mask."""
    if not task.many:
        return draw.one(task.y, task.y.tolist())
    if np.any(np.isnan(task.y)):
        return draw.one(task.y, np.ma.masked_invalid(task.y))
    return draw.one(task.y, task.y.astype(int), sp.csr_array(task.y.astype(int)), task.y.tolist())


def twin(draw: Draw, report: Report, task: Task, model):
    """Another model of the same problem, and its weights; its certificate is checked as well."""
    kind = draw.one("solver", "form", "order", "repeated")
    whole = task.weight is not None and np.all(task.weight == np.round(task.weight)) and task.weight.sum() < 500
    if kind == "repeated" and not (whole and all_classes(task)):
        kind = "solver"
    X, y, weight, rng = task.X, np.asarray(task.y), task.weight, draw.rng
    solver, name = model.solver, "C"
    if kind == "solver":
        solver = chosen(draw, task)
    elif kind == "form":
        name = form(draw, X)
    elif kind == "order":
        order = rng.permutation(len(X))
        X, y, weight = X[order], y[order], None if weight is None else weight[order]
    else:
        order = np.repeat(np.arange(len(X)), weight.astype(int))
        X, y, weight = X[order], y[order], None
    draw.note(twin=kind, twin_solver=solver, twin_form=name)
    other = clone(model).set_params(solver=solver, random_state=int(rng.integers(100)), keep_duals=False)
    with checks.timed(report, other.max_time):
        other.fit(formed(draw, X, name), y, sample_weight=weight)
    check(draw, report, task, other, "twin: ", rows=False)
    return other, point_of(other)


def all_classes(task: Task) -> bool:
    """Whether every class has a sample of positive weight: else it is gone when samples are repeated by their weights."""
    if task.many or isinstance(task.objective.loss, Regression):
        return True
    return len(np.unique(task.codes[task.weight > 0])) == len(np.unique(task.codes))


def path(draw: Draw, report: Report, task: Task) -> None:
    solver = chosen(draw, task)
    factors = np.sort(10.0 ** draw.rng.uniform(-2, 2, 3))
    draw.note(solver=solver, factors=factors)
    model = clone(task.estimator).set_params(solver=solver)
    X = formed(draw, task.X, form(draw, task.X))
    with checks.timed(report, model.max_time, len(factors)):
        models = model.regularization_path(X, task.y, model.C * factors, sample_weight=task.weight)
    for factor, each in zip(factors, models):
        check(draw, report, replace(task, objective=task.objective.scaled(factor)), each, f"C x {factor:g}: ")


def warm(draw: Draw, report: Report, task: Task) -> None:
    solver, factor = chosen(draw, task), draw.one(1.0, 0.1, 10.0)
    draw.note(solver=solver, factor=factor)
    model = clone(task.estimator).set_params(solver=solver, warm_start=True)
    X = formed(draw, task.X, form(draw, task.X))
    with checks.timed(report, model.max_time, 2):
        model.fit(X, task.y, sample_weight=task.weight)
        model.set_params(C=factor * model.C).fit(X, task.y, sample_weight=task.weight)
    check(draw, report, replace(task, objective=task.objective.scaled(factor)), model, "warm: ")


def pieces(draw: Draw, report: Report, task: Task) -> None:
    """partial_fit: its dual value is a lower bound for all samples given so far, and never falls."""
    solver = draw.typed(("auto", "dual_coordinate"), (mm.OnlineDual(cache_size=0.001), mm.DualCoordinate(momentum=False)))
    model = clone(task.estimator).set_params(solver=solver, keep_duals=False)
    params = model.get_params()
    if any(params.get(name) == "balanced" for name in ("class_weight", "label_weight") if isinstance(params.get(name), str)):
        return fit(draw, report, task)
    cuts = np.unique(draw.rng.integers(0, len(task.X) + 1, 2))
    parts = [part for part in np.split(np.arange(len(task.X)), cuts) if part.size]
    began = draw.one("partial_fit", "fit")
    draw.note(solver=solver, pieces=[part.size for part in parts], began=began)
    named = {} if task.many or isinstance(task.objective.loss, Regression) else {"classes": np.unique(task.y)}
    single = not isinstance(task.objective.loss, Binary | Regression)
    before, seen, weight = -np.inf, np.zeros(len(task.X), bool), np.ones(len(task.X)) if task.weight is None else task.weight
    for number, part in enumerate(parts):
        if not weight[part].any():
            continue  # refused: nothing to learn from
        seen[part] = True
        every = not named or np.array_equal(np.unique(task.y[part]), named["classes"])
        first = began == "fit" and every and not seen[: part[0]].any()
        with checks.timed(report, model.max_time):
            name, learn = form(draw, task.X[part]), model.fit if first else partial(model.partial_fit, **named)
            learn(formed(draw, task.X[part], name), task.y[part], sample_weight=weight[part])
        single |= "float32" in name
        objective, what = restricted(task.objective, seen), f"piece {number}: "
        if not checks.certificate(report, model.certificate_, model.tol, what):
            return None
        here, slack = objective.at(point_of(model)), objective.slack(point_of(model))
        for point in (point_of(model), *objective.others(point_of(model), draw.rng)):
            checks.below(report, model.certificate_.dual, objective.at(point), slack, what)
        if model.certificate_.verified:
            checks.bounds(report, model.certificate_, objective, point_of(model), draw.rng, what=what)
        checks.below(report, before, objective.at(point_of(model)), slack, f"{what}dual of the piece before: ")
        if params.get("prior_covariance") is not None and np.any(params.get("positive")):
            before = -np.inf  # the duals of such signs are not kept between pieces, and begin anew
        fell, rounding = before - model.certificate_.dual, SINGLE if single else checks.RELATIVE
        report.expect(fell <= rounding * abs(here.value) + 4 * slack, f"{what}dual fell by {fell:.3g}")
        before = model.certificate_.dual
    return None


def restricted(objective: Linear, seen) -> Linear:
    """The problem of some samples: the others have no weight."""
    return replace(objective, cap=np.where(seen, objective.cap, 0.0))


def from_source(draw: Draw, report: Report, task: Task) -> None:
    solver = draw.typed(("auto", "online"), tuple(s for s in MORE if is_online(s)))
    half_spaces = not any(is_online(s) for s in task.solvers) and not task.many
    if half_spaces or (task.many and np.any(np.isnan(task.y))):  # neither of these has a source
        return fit(draw, report, task)
    model = task.recoded(task.estimator).set_params(solver=solver)
    if task.many:
        model.set_params(keep_duals=False)
    draw.note(solver=solver)
    with tempfile.TemporaryDirectory() as folder:
        opened = source(draw, task.X, task.codes, task.weight, Path(folder), mm.open_source)
        with checks.timed(report, model.max_time):
            model.fit(opened)
        check(draw, report, task, model)
        found, wanted = model.predict(opened), model.predict(task.X)
        if sp.issparse(found):
            found, wanted = found.toarray(), wanted.toarray()
        if isinstance(task.objective.loss, Regression):
            sizes = task.objective.size(*point_of(model))[:, 0]
            report.expect(np.all(np.abs(found - wanted) <= 1e-9 * sizes), "predict differs on the source")
        else:
            report.expect(np.mean(found != wanted) <= 0.2, f"predict differs on the source for {np.sum(found != wanted)} samples")
    return None


WAYS = {"fit": fit, "path": path, "warm": warm, "pieces": pieces, "source": from_source}


# ---- what must hold -------------------------------------------------------------------------------------------------------


def point_of(model) -> tuple[np.ndarray, np.ndarray]:
    return np.atleast_2d(np.asarray(model.coef_, float)), np.atleast_1d(np.asarray(model.intercept_, float))


def check(draw: Draw, report: Report, task: Task, model, what: str = "", more=(), rows: bool = True) -> None:
    found, point = model.certificate_, point_of(model)
    if not found.verified:  # ended by max_time before any weights were
        report.expect(not found.converged, f"{what}converged and not verified")
        checks.below(report, found.dual, task.objective.at(point), task.objective.slack(point), f"{what}not verified: ")
        return
    if not checks.certificate(report, found, model.tol, what):
        return
    here = checks.bounds(report, found, task.objective, point, draw.rng, more, what)
    if here is None:
        return
    slack = task.objective.slack(point)
    if not task.many:  # the groups of labels have each their own
        checks.history(report, model.history_, here, slack, what)
    if rows and model.keep_duals:
        given = model.dual_coef_
        checks.duals(report, given.toarray() if sp.issparse(given) else given, task.objective, point, found, what)


def predictions(draw: Draw, report: Report, task: Task, model) -> None:
    """Scores and predictions, whatever form X comes in."""
    W, b = point_of(model)
    for name in (form(draw, task.X), form(draw, task.X)):
        X, what = formed(draw, task.X, name), f"predict on {name}: "
        if isinstance(task.objective.loss, Regression):
            checks.scores(report, model.predict(X), task.X, W, b, True, what)
            continue
        given = model.decision_function(X)
        found = model.predict(X)
        if task.many:
            checks.scores(report, given, task.X, W, b, False, what)
            found = found.toarray() if sp.issparse(found) else found
            report.expect(np.array_equal(np.asarray(found) == 1, given > 0), f"{what}predict is not decision_function > 0")
        elif len(model.classes_) == 2:
            if len(W) == 1:  # top-k models have two rows of weights, and the difference of their scores
                checks.scores(report, given, task.X, W, b, True, what)
            best = model.classes_[(given > 0).astype(int)]
            report.expect(np.array_equal(found, best), f"{what}predict is not decision_function > 0")
        else:
            checks.scores(report, given, task.X, W, b, False, what)
            best = model.classes_[given.argmax(axis=1)]
            report.expect(np.array_equal(found, best), f"{what}predict is not the argmax of decision_function")
