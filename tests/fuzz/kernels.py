"""Models with a kernel: of labels, of two classes and more, of real targets."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

import maxmargin as mm

from . import checks, forms, linear
from .checks import Report
from .draws import DENSE, Draw, form, formed, labels, matrix, size, weights
from .objectives import EPS, Binary, CrammerSinger, Regression, Value


@dataclass(frozen=True)
class Kernelised:
    """A model in terms of its duals A: scores G A R, and 1/2 tr(A' G A R). A point is A."""

    gram: np.ndarray
    blur: float  # relative rounding of the entries of the gram matrix
    loss: Any
    cap: np.ndarray
    R: np.ndarray

    def at(self, A) -> Value:
        scores, sizes = self.gram @ A @ self.R, np.abs(self.gram) @ np.abs(A) @ np.abs(self.R)
        losses, errors = self.loss.at(scores, sizes)
        half, size = 0.5 * float(np.sum(A * scores)), float(np.sum(np.abs(A) * sizes))
        return Value(half + float(self.cap @ losses), (EPS * (len(A) + 8) + self.blur) * (size + float(self.cap @ errors)))

    def dual(self, A) -> Value:
        reward, size = self.loss.reward(A, self.cap)
        square = float(np.sum(A * (self.gram @ A @ self.R)))
        terms = float(np.sum(np.abs(A) * (np.abs(self.gram) @ np.abs(A) @ np.abs(self.R))))
        return Value(reward - 0.5 * square, (EPS * (len(A) + 8) + self.blur) * (size + terms))

    def slack(self, A) -> float:
        return self.dual(A).rounding

    def others(self, A, rng):
        yield np.zeros_like(A)
        for factor in (0.5, 0.9, 0.999, 1.001):
            yield factor * A
        for part in (1e-1, 1e-2, 1e-3):
            yield A + part * rng.normal(size=A.shape) * (np.abs(A).max() + 1e-3)


def gram(X, Y, kind: str, gamma: float, degree: int, coef0: float) -> np.ndarray:
    if kind == "rbf":
        return np.exp(-gamma * np.sum((X[:, None] - Y[None]) ** 2, axis=2))
    product = X @ Y.T
    return (gamma * product + coef0) ** degree if kind == "poly" else product


class Setting(NamedTuple):
    """A kernel: its parameters, in words and as numbers; X and its form; the matrix, and how exact that is."""

    params: dict
    X: np.ndarray
    form: str
    numbers: tuple[str, float, int, float]
    matrix: np.ndarray
    blur: float
    bias: float

    @property
    def given(self) -> np.ndarray:
        return self.matrix if self.params["kernel"] == "precomputed" else self.X

    @property
    def forms(self) -> tuple:
        return DENSE if self.params["kernel"] == "precomputed" else ()


def setting(draw: Draw, X: np.ndarray, own: dict) -> Setting:
    d, kind = X.shape[1], draw.one("rbf", "poly", "precomputed")
    name = form(draw, X, DENSE if kind == "precomputed" else ())
    exact = kind != "precomputed" and X.var() > 1e-3 and "float32" not in name  # there the variance is that of float32
    gamma = draw.one("scale", "auto", 0.5) if exact else 0.5
    degree, coef0 = int(draw.one(1, 2, 3)), draw.one(0.0, 1.0)
    params = linear.common(draw, d, None, own, priors=False)
    params |= {"kernel": kind, "gamma": gamma, "degree": degree, "coef0": coef0, "cache_size": draw.one(500.0, 0.002)}
    params["C"] = draw.power(-3, 3)
    width = {"scale": 1.0 / (d * X.var()) if X.var() > 0 else 1.0, "auto": 1.0 / d}.get(gamma, gamma)
    numbers = kind, width, degree, coef0
    blur = 16 * EPS * (1.0 + width * float(np.max(np.sum(X * X, axis=1), initial=0.0))) * (degree if kind == "poly" else 1)
    bias = params["intercept_scaling"] ** 2 * params["fit_intercept"]
    return Setting(params, X, name, numbers, gram(X, X, *numbers), blur, bias)


def duals_of(model) -> np.ndarray:
    """(samples, labels), also where there is one score."""
    found = np.asarray(model.dual_coef_)
    return found.reshape(len(found), -1)


def several(draw: Draw, report: Report) -> None:
    """Several labels a sample."""
    n, d, L = min(size(draw), 60), int(draw.rng.integers(1, 8)), int(draw.one(1, 2, 3, 6))
    X, weight = matrix(draw, n, d, tame=True), weights(draw, n)
    own, Y, loss, root = linear.label_parts(draw, n, L, weight)
    at = setting(draw, X, own)
    cap = at.params["C"] * (np.ones(n) if weight is None else weight)
    objective = Kernelised(at.matrix + at.bias, at.blur, loss, cap, root @ root.T)
    fit(draw, report, at, mm.MultilabelSVMClassifier(**at.params), (Y, weight), objective)


def single(draw: Draw, report: Report) -> None:
    """One target a sample. A quick draw leaves out losses whose steps those of labels share, as each compiles for long."""
    kind = draw.typed(("Crammer-Singer", "Crammer-Singer", "multinomial", "logistic"), ("two", "rest", "real", "real"))
    if kind == "real":
        return real(draw, report)
    rng, K = draw.rng, 2 if kind in ("two", "logistic") else int(draw.rng.integers(3, 9))
    n, d = max(K, min(size(draw), 60)), int(rng.integers(1, 8))
    X, label, weight = matrix(draw, n, d, tame=True), labels(draw, n, K), weights(draw, n)
    names = draw.one(np.arange(K), np.array([f"c{k}" for k in range(K)]))
    name = {"logistic": "log_loss", "multinomial": "log_loss", "rest": draw.one(*forms.LOSSES)}.get(kind, "hinge")
    own = {"loss": name, "multi_class": "ovr" if kind == "rest" else "crammer_singer"}
    cost = 1.0 - np.eye(K)
    if kind in ("Crammer-Singer", "two") and draw.chance(0.3):
        own["cost"] = cost = rng.random((K, K)) * draw.one(1.0, 10.0) * (1.0 - np.eye(K))
    factors, own = linear.class_weight(draw, own, names, label, weight)
    at = setting(draw, X, own)
    signs = 2.0 * (label[:, None] == np.arange(K)) - 1.0
    cap = at.params["C"] * (np.ones(n) if weight is None else weight) * (1.0 if kind == "rest" else factors[label])
    loss = {
        "Crammer-Singer": CrammerSinger(label, cost),
        "multinomial": forms.Multinomial(label),
        "logistic": forms.AgainstRest(signs[:, 1:], np.ones((n, 1)), np.ones((n, 1)), name),
        "two": Binary(signs[:, 1], cost[label, 1 - label] if K == 2 else np.ones(n), False),
        "rest": forms.AgainstRest(signs, np.where(signs > 0.0, factors, 1.0), np.ones((n, 1)), name),
    }[kind]
    objective = Kernelised(at.matrix + at.bias, at.blur, loss, cap, np.eye(1 if K == 2 else K))
    fit(draw, report, at, mm.SVMClassifier(**at.params), (names[label], weight), objective)


def real(draw: Draw, report: Report) -> None:
    n, d = min(size(draw), 60), int(draw.rng.integers(1, 8))
    X, weight = matrix(draw, n, d, tame=True), weights(draw, n)
    y = draw.one(draw.rng.normal(size=n), draw.rng.integers(-2, 3, n).astype(float), np.zeros(n))
    name, epsilon = draw.one("epsilon_insensitive", "squared_epsilon_insensitive", "squared_error"), draw.one(0.0, 0.1, 1.0)
    at = setting(draw, X, {"loss": name, "epsilon": epsilon})
    cap = at.params["C"] * (np.ones(n) if weight is None else weight)
    loss = Regression(y, 0.0 if name == "squared_error" else epsilon, name.startswith("squared"))
    fit(
        draw,
        report,
        at,
        mm.SVMRegressor(**at.params),
        (y, weight),
        Kernelised(at.matrix + at.bias, at.blur, loss, cap, np.eye(1)),
    )


def fit(draw: Draw, report: Report, at: Setting, model, target: tuple, objective: Kernelised) -> None:
    """Fit, and once more from another seed with all of the memory: both are right, and right about each other."""
    y, weight = target
    draw.note(estimator=model, X=at.given, y=y, sample_weight=weight, form=at.form)
    with checks.timed(report, model.max_time):
        model.fit(formed(draw, at.given, at.form), y, sample_weight=weight)
    check(draw, report, model, objective)
    other = clone(model).set_params(C=model.C, random_state=3, cache_size=500.0)
    with checks.timed(report, other.max_time):
        other.fit(at.given, y, sample_weight=weight)
    check(draw, report, other, objective, "twin: ")
    slack = max(objective.slack(duals_of(model)), objective.slack(duals_of(other)))
    checks.below(report, model.certificate_.dual, objective.at(duals_of(other)), slack, "elsewhere: ")
    checks.below(report, other.certificate_.dual, objective.at(duals_of(model)), slack, "twin elsewhere: ")
    scores(draw, report, at, model, objective)


def scores(draw: Draw, report: Report, at: Setting, model, objective: Kernelised) -> None:
    """Of new samples, in several forms."""
    new = at.X[draw.rng.integers(0, len(at.X), 5)] + draw.one(0.0, 0.5)
    cross = gram(new, at.X, *at.numbers)
    given = cross if at.params["kernel"] == "precomputed" else new
    wanted = (cross + at.bias) @ duals_of(model) @ objective.R
    sizes = (np.abs(cross) + at.bias) @ np.abs(duals_of(model)) @ np.abs(objective.R)
    for name in (form(draw, given, at.forms) for _ in range(2)):
        found = model.predict if isinstance(model, mm.SVMRegressor) else model.decision_function
        off = np.abs(np.asarray(found(formed(draw, given, name))).reshape(wanted.shape) - wanted)
        precision = 1e-4 if "float32" in name else 1e-9
        report.expect(np.all(off <= precision * sizes + 1e-300), f"scores on {name} are off by {off.max():.3g}")


def check(draw: Draw, report: Report, model, objective: Kernelised, what: str = "") -> None:
    found, A = model.certificate_, duals_of(model)
    if not checks.certificate(report, found, model.tol, what) or not report.expect(found.verified, f"{what}not verified"):
        return
    checks.bounds(report, found, objective, A, draw.rng, what=what)
    value = objective.dual(A)
    off, most = found.dual - value.value, checks.RELATIVE * abs(value.value) + 4 * value.rounding
    report.expect(abs(off) <= most, f"{what}dual {found.dual!r} is not that of dual_coef_, {value.value!r}: off by {off:.3g}")
    outside = objective.loss.outside(A, objective.cap)
    report.expect(outside <= 1e-12 * max(objective.cap.max(), np.abs(A).max()), f"{what}duals leave their set by {outside:.3g}")
