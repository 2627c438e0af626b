"""The optimum is the one that an independent convex solver finds, for every option and combination of options.

Each case is a small random problem with a row of zeros, a repeated row and uneven scales. `check` asserts all that follows from
strong duality: the certificate encloses the optimum, the model's objective, recomputed, is the certified one, and the weights are as near
to the optimal ones as the gap allows.
"""

import zlib
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from reference import Multiclass, Point, Reference, quadratic, reference

import maxmargin as mm
from maxmargin.data.rows import rows
from maxmargin.losses.hinge import Hinge
from maxmargin.problem import BlockProblem, ScalarProblem
from maxmargin.result import History
from maxmargin.solvers.loop import Budget

TOL = 1e-7
SLACK = 1e-8  # of the objective: how far the convex solver's own point may be from the optimum

PRIORS = ["none", "mean", "scale", "mean+scale", "covariance", "mean+covariance"]
SIGNS = ["free", "positive", "mask"]
INTERCEPTS = {"no": {"fit_intercept": False}, "unit": {}, "scaled": {"intercept_scaling": 4.0}}


def seed_of(*parts) -> int:
    """A seed that depends on the case only."""
    return zlib.crc32(repr(parts).encode())


def features(rng: np.random.Generator, n: int = 40, d: int = 5) -> np.ndarray:
    """Rows of uneven columns, one row of zeros, two equal rows."""
    X = rng.normal(size=(n, d)) * np.exp(rng.uniform(-1.0, 1.0, d)) + rng.normal(size=d)
    X[3] = 0.0
    X[5] = X[4]
    return X


def labels(rng: np.random.Generator, X: np.ndarray, K: int) -> np.ndarray:
    """Noisy linear classes, every class present."""
    y = np.argmax(X @ rng.normal(size=(X.shape[1], K)) + rng.normal(size=(len(X), K)) * 2.0, axis=1)
    y[:K] = np.arange(K)
    return y


def targets(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Noisy linear real targets."""
    return X @ rng.normal(size=X.shape[1]) + 0.5 * rng.normal(size=len(X)) + 1.0


def weights(rng: np.random.Generator, n: int) -> np.ndarray:
    """Sample weights between 0 and 3, some of them zero."""
    return np.where(rng.random(n) < 0.1, 0.0, rng.uniform(0.1, 3.0, n))


def prior(rng: np.random.Generator, kind: str, d: int, K: int | None = None) -> dict:
    """Parameters of a prior of this kind; with K classes, tables of their own for mean and scale."""
    shape, params = (d,) if K is None else (K, d), {}
    if "mean" in kind:
        params["prior_mean"] = rng.normal(size=shape)
    if "scale" in kind:
        params["prior_scale"] = np.exp(rng.uniform(-1.0, 1.0, shape))
    if "covariance" in kind:
        root = rng.normal(size=(d, d))
        params["prior_covariance"] = root @ root.T / d + 0.5 * np.eye(d)
    return params


def signs(kind: str, d: int) -> dict:
    """No signs, all of them, or those of every other feature."""
    return {"positive": {"free": False, "positive": True, "mask": np.arange(d) % 2 == 0}[kind]}


def shaped(model) -> tuple[np.ndarray, np.ndarray]:
    """(K, d) weights and (K,) intercepts of a fitted estimator."""
    coef = np.atleast_2d(model.coef_)
    return coef, np.broadcast_to(model.intercept_, len(coef))


def check(model, problem: Reference, best: Point | None = None) -> None:
    """The certificate is true and tight, and the model is the optimum of `problem`."""
    best = problem.optimum() if best is None else best
    W, b = shaped(model)
    tol, certificate, value = model.tol, model.certificate_, problem.primal(W, b)
    slack = SLACK * max(abs(best.value), abs(value))
    assert certificate.converged and certificate.verified
    assert certificate.relative_gap <= tol
    assert value == pytest.approx(certificate.primal, rel=1e-9)
    assert certificate.dual <= best.value * (1.0 + 1e-12)  # best is a feasible point: no slack for the other solver's errors
    assert best.value <= certificate.primal + slack
    assert value - best.value <= tol * abs(value) + slack
    distance = problem.quadratic.half_square(W - best.W, b - best.b)
    assert np.sqrt(distance) <= np.sqrt(certificate.gap) + np.sqrt(slack)  # strong convexity


# ---- every prior with every kind of signs and of intercept ----------------------------------------------------------------------


def tol_of(kind: str, sign: str) -> float:
    """Signs under a full covariance are half-spaces, where dual ascent is slow: these cases stop a little earlier."""
    return 1e-6 if "covariance" in kind and sign != "free" else TOL


OPTIONS = [*product(PRIORS, SIGNS, INTERCEPTS)]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(("kind", "sign", "intercept"), OPTIONS)
def test_binary(loss, kind, sign, intercept):
    rng = np.random.default_rng(seed_of("binary", loss, kind, sign, intercept))
    X = features(rng)
    y = np.array(["no", "yes"])[labels(rng, X, 2)]
    tol, params = tol_of(kind, sign), prior(rng, kind, X.shape[1]) | signs(sign, X.shape[1]) | INTERCEPTS[intercept]
    params |= {"loss": loss, "cost": [[0.0, 0.7], [1.8, 0.0]], "class_weight": {"no": 0.6, "yes": 1.5}}
    model, weight = mm.SVMClassifier(C=0.3, tol=tol, max_iter=100_000, random_state=0, **params), weights(rng, len(X))
    check(model.fit(X, y, sample_weight=weight), reference(model, X, y, weight))


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize(("kind", "sign", "intercept"), OPTIONS)
def test_regression(loss, kind, sign, intercept):
    rng = np.random.default_rng(seed_of("regression", loss, kind, sign, intercept))
    X = features(rng)
    y, weight = targets(rng, X), weights(rng, len(X))
    tol, params = tol_of(kind, sign), prior(rng, kind, X.shape[1]) | signs(sign, X.shape[1]) | INTERCEPTS[intercept]
    model = mm.SVMRegressor(C=0.3, epsilon=0.4, loss=loss, tol=tol, max_iter=100_000, random_state=0, **params)
    check(model.fit(X, y, sample_weight=weight), reference(model, X, y, weight))


@pytest.mark.parametrize(("kind", "sign", "intercept"), OPTIONS)
def test_multiclass(kind, sign, intercept):
    rng = np.random.default_rng(seed_of("multiclass", kind, sign, intercept))
    X, K = features(rng), int(rng.integers(3, 7))
    y, weight = labels(rng, X, K), weights(rng, len(X))
    weight[:K] = 1.0  # every class counts
    cost = rng.uniform(0.2, 2.0, (K, K)) * (1.0 - np.eye(K))
    tables = prior(rng, kind, X.shape[1], K if intercept == "unit" else None)
    tol, params = tol_of(kind, sign), tables | signs(sign, X.shape[1]) | INTERCEPTS[intercept]
    model = mm.SVMClassifier(C=0.3, cost=cost, class_weight="balanced", tol=tol, max_iter=100_000, random_state=0, **params)
    check(model.fit(X, y, sample_weight=weight), reference(model, X, y, weight))
