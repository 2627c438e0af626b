"""Bags, explicit problems, risks of one's own, zero-shot."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

import maxmargin as mm

from . import checks, linear, structured
from .checks import Report
from .draws import Draw, form, formed, labels, matrix, size, weights
from .objectives import EPS, Coupled, Grouped, Labels, Linear, MaxAffine, Value

# ---- bags -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bags:
    """A latent problem with its candidates fixed at the best for one point; a point is (W, b)."""

    bags: list
    label: np.ndarray
    cost: np.ndarray
    cap: np.ndarray
    scaling: float
    choice: np.ndarray

    def loss(self, i: int, W, b) -> float:
        scores = self.bags[i] @ W.T + b
        y, z = self.label[i], self.choice[i]
        if len(W) == 1:
            return max(0.0, self.cost[y, 1 - y] - (scores[z, 0] if y == 1 else -scores[:, 0].max()))
        worst = (self.cost[y] + scores.max(axis=0))[np.arange(len(W)) != y].max()
        return max(scores[z, y], worst) - scores[z, y]

    def at(self, point) -> Value:
        W, b = point
        if self.scaling == 0.0 and np.any(b):
            return Value(np.inf, 0.0)
        half = 0.5 * float(np.sum(W**2) + (np.sum((b / self.scaling) ** 2) if self.scaling else 0.0))
        losses = np.array([self.loss(i, W, b) for i in range(len(self.bags))])
        return Value(half + float(self.cap @ losses), EPS * (W.size + 8) * (half + float(self.cap @ self.sizes(W, b))))

    def sizes(self, W, b):
        return np.array([2.0 * np.max(np.abs(bag) @ np.abs(W).T + np.abs(b)) + self.cost.max() for bag in self.bags])

    def slack(self, point) -> float:
        W, b = point
        return EPS * (sum(map(len, self.bags)) + W.size + 8) * float(self.cap @ self.sizes(W, b) + np.sum(W**2))


def latent(draw: Draw, report: Report) -> None:
    rng, K, d = draw.rng, int(draw.rng.integers(2, 5)), int(draw.rng.integers(1, 6))
    n = int(rng.integers(K, 15))
    counts = rng.integers(1, draw.one(2, 5), n)
    stacked = matrix(draw, int(counts.sum()), d, tame=draw.chance(0.7))
    bags = np.split(stacked, np.cumsum(counts)[:-1])
    label, weight = labels(draw, n, K), weights(draw, n)
    names = draw.one(np.arange(K), np.array(list("abcd")[:K]))
    if K == 2:
        names = draw.one(np.arange(2), np.array([-1, 1]), np.array([False, True]))
    cost, own = 1.0 - np.eye(K), {}
    if draw.chance(0.3):
        cost = own["cost"] = rng.random((K, K)) * 3.0 * (1.0 - np.eye(K))
    factors, own = linear.class_weight(draw, own, names, label, weight)
    C = draw.one(1.0, draw.power(-3, 3))
    solver = draw.typed(("auto", "frank_wolfe"), ("partial_linearization", "bundle", "exponentiated_gradient"))
    params = structured.settings(draw, C) | own | {
        "max_cccp_iter": draw.one(1, 3, 50),
        "init": draw.one("mean", "random", "first"),
        "n_restarts": draw.one(0, 0, 1, 2),
        "fit_intercept": draw.chance(0.7),
        "intercept_scaling": draw.one(1.0, 0.1, 10.0),
        "keep_duals": draw.chance(0.3) and solver != "bundle",
        "solver": solver,
    }  # fmt: skip
    model = mm.LatentSVMClassifier(**params)
    kind = "dense" if draw.quick else draw.one("dense", "dense", "csr")
    given = [sp.csr_array(bag) for bag in bags] if kind == "csr" else bags
    draw.note(estimator=model, X=bags, y=names[label], sample_weight=weight, form=kind)
    with checks.timed(report, model.max_time):
        model.fit(given, names[label], sample_weight=weight)
    W, b = linear.point_of(model)
    cap = C * (np.ones(n) if weight is None else weight) * factors[label]
    own_column = np.zeros(n, int) if K == 2 else label
    choice = np.array([np.argmax((bag @ W.T + b)[:, k]) for bag, k in zip(bags, own_column)])
    scaling = model.intercept_scaling if model.fit_intercept else 0.0
    objective = Bags(bags, label, cost, cap, scaling, choice)
    structured.settled(report, model, objective, (W, b), objective.at((0.0 * W, 0.0 * b)))
    wanted = np.array([(bag @ W.T + b).max(axis=0) for bag in bags])
    sizes = np.array([(np.abs(bag) @ np.abs(W).T + np.abs(b)).max(axis=0) for bag in bags])
    found = model.decision_function(given).reshape(n, -1)
    report.expect(np.all(np.abs(found - wanted) <= 1e-12 * sizes), f"scores are off by {np.max(np.abs(found - wanted)):.3g}")
    if model.keep_duals:
        table, most = np.asarray(model.dual_coef_).reshape(len(stacked), -1), 1e-9 * np.abs(stacked).max()
        off = np.max(np.abs(table.T @ stacked - W))
        report.expect(off <= most * np.abs(table).sum() + 1e-300, f"coef_ is not rebuilt from dual_coef_: off by {off:.3g}")


# ---- without an estimator ---------------------------------------------------------------------------------------------------


def explicit(draw: Draw, report: Report) -> None:
    rng, n, d = draw.rng, size(draw), int(draw.rng.integers(1, 13))
    draw.dense = False
    X = matrix(draw, n, d)
    margins = draw.one(np.ones(n), rng.normal(size=n), rng.integers(-1, 3, n).astype(float))
    groups = draw.one(None, rng.integers(0, max(1, n // 3), n))
    names, group = np.unique(np.arange(n) if groups is None else groups, return_inverse=True)
    weight = weights(draw, len(names))
    shared = linear.common(draw, d, None, {})
    prior = {name: shared[name] for name in ("positive", "prior_mean", "prior_scale", "prior_covariance") if name in shared}
    cap = shared["C"] * (np.ones(len(names)) if weight is None else weight)
    quadratic = linear.prior_of(shared | {"fit_intercept": False}, 1, d)
    objective = Linear(X, cap, Grouped(group, margins, len(names)), quadratic)
    half_spaces = "prior_covariance" in prior and np.any(prior.get("positive", False))
    solver = "auto" if half_spaces else draw.one("auto", "dual_coordinate", mm.DualCoordinate(average=False), "bundle")
    name = form(draw, X)
    draw.note(X=X, margins=margins, groups=groups, weights=weight, prior=prior, solver=solver, form=name, shared=shared)
    options = {name: shared[name] for name in ("C", "tol", "max_iter", "max_time")} | {"solver": solver}
    with checks.timed(report, shared["max_time"]):
        problem = mm.ExplicitProblem(formed(draw, X, name), margins, groups, weights=weight, **prior)
        result = mm.solve(problem, random_state=shared["random_state"], **options)
    checked(draw, report, result, objective, shared["tol"])
    with checks.timed(report, shared["max_time"]):
        again = mm.solve(problem, random_state=5, **(options | {"solver": "auto"}), duals=result.duals)
    checked(draw, report, again, objective, shared["tol"], "hot: ", ((result.w[None], np.zeros(1)),))
    point = again.w[None], np.zeros(1)
    checks.below(report, result.certificate.dual, objective.at(point), objective.slack(point), "elsewhere: ")


def checked(draw: Draw, report: Report, result, objective: Linear, tol: float, what: str = "", more=()) -> None:
    point = result.w[None], np.zeros(1)
    if not checks.certificate(report, result.certificate, tol, what):
        return
    here = checks.bounds(report, result.certificate, objective, point, draw.rng, more, what)
    if here is not None:
        checks.history(report, result.history, here, objective.slack(point), what)


def own_risk(draw: Draw, report: Report) -> None:
    """A sum of maxima of affine functions, told part by part or as one."""
    rng, d, P, planes = draw.rng, int(draw.rng.integers(1, 8)), int(draw.rng.integers(1, 6)), int(draw.rng.integers(1, 7))
    slopes = matrix(draw, P * planes, d, tame=draw.chance(0.7)).reshape(P, planes, d)
    offsets = draw.one(rng.normal(size=(P, planes)), np.zeros((P, planes)), rng.integers(-1, 2, (P, planes)).astype(float))
    lower, upper = np.full(d, -np.inf), np.full(d, np.inf)
    bounds = None
    if draw.chance(0.4):
        lower = np.where(rng.random(d) < 0.5, rng.normal(size=d), -np.inf)
        upper = np.where(rng.random(d) < 0.5, np.maximum(lower, rng.normal(size=d)), np.inf)
        bounds = lower, upper
    C, tol = draw.one(1.0, draw.power(-4, 4)), draw.one(1e-2, 1e-3, 1e-6)
    objective = MaxAffine(slopes, offsets, C, lower, upper)
    summed = draw.chance(0.4)

    def risk(w):
        values, found = objective.parts(w)
        return (float(values.sum()), found.sum(axis=0)) if summed else (values, found)

    solver = draw.one(mm.Bundle(), mm.Bundle(prox=False), mm.Bundle(n_models=1), mm.Bundle(idle=1))
    passes = draw.one(1, 5, 100, 10_000)
    limit = 30.0 if draw.quick else 1.0
    draw.note(slopes=slopes, offsets=offsets, bounds=bounds, C=C, tol=tol, solver=solver, summed=summed, max_iter=passes)
    with checks.timed(report, limit):
        result = mm.minimize(risk, d, C=C, solver=solver, bounds=bounds, tol=tol, max_iter=passes, max_time=limit)
    if checks.certificate(report, result.certificate, tol):
        checks.bounds(report, result.certificate, objective, result.w, rng)


# ---- classes that nobody has seen -------------------------------------------------------------------------------------------


def zero_shot(draw: Draw, report: Report) -> None:
    rng, n = draw.rng, max(2, min(size(draw), 60))
    d, L, K = (int(draw.rng.integers(low, high)) for low, high in ((1, 8), (1, 7), (2, 6)))
    X, Y = matrix(draw, n, d, tame=True), rng.integers(0, 2, (n, L))
    signatures = draw.one(rng.integers(0, 2, (K, L)), rng.uniform(-1, 1, (K, L)))
    probabilities = draw.one(None, rng.dirichlet(np.ones(K)))
    params = linear.common(draw, d, None, {"loss": "hinge"}, priors=False)
    inner, ridge = mm.MultilabelSVMClassifier(**params), draw.one(0.1, 1.0)
    model = mm.ZeroShotClassifier(inner, signatures, probabilities, ridge=ridge)
    name = form(draw, X)
    draw.note(estimator=model, X=X, y=Y, form=name)
    with checks.timed(report, inner.max_time):
        model.fit(formed(draw, X, name), Y)
    signs = signatures * 1.0 if np.any((signatures != 0) & (signatures != 1)) else 2.0 * signatures - 1.0
    p = np.full(K, 1.0 / K) if probabilities is None else probabilities
    prior = (signs * p[:, None]).T @ signs + ridge * np.eye(L)
    scaling = params["intercept_scaling"] if params["fit_intercept"] else 0.0
    loss = Labels(2.0 * Y - 1.0, np.ones((n, L)), np.ones((n, L)), False)
    objective = Linear(X, np.full(n, params["C"]), loss, Coupled(np.linalg.cholesky(prior), d, scaling))
    attributes, point = model.estimator_, linear.point_of(model.estimator_)
    if checks.certificate(report, attributes.certificate_, inner.tol):
        checks.bounds(report, attributes.certificate_, objective, point, rng)
    scores = X @ point[0].T + point[1]
    wanted = -np.maximum(0.0, 1.0 - scores[:, None, :] * signs[None]).sum(axis=2)
    found = model.decision_function(formed(draw, X, name))
    near = (1e-4 if "float32" in name else 1e-9) * (1.0 + objective.size(*point).sum(axis=1, keepdims=True))
    report.expect(np.all(np.abs(found - wanted) <= near), f"scores of classes are off by {np.max(np.abs(found - wanted)):.3g}")
    best = model.classes_[found.argmax(axis=1)]
    report.expect(np.array_equal(model.predict(formed(draw, X, name)), best), "predict is not the argmax")
