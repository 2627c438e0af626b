"""`minimize`: risks of a user's own against a convex solver, with and without bounds; the examples of the docs; bad oracles."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import convex as cp
from helpers import multilabel
from helpers.drawn import features, labels, targets
from helpers.structured import Brackets, bits, words
from hypothesis import given
from hypothesis import strategies as st

import maxmargin as mm
from maxmargin.structures import Chain

ROOT = Path(__file__).parents[2]
ROUNDING = 1e-9


def pinball(X, y, level):
    """Quantile regression, one part for every quarter of the samples."""

    def risk(w):
        residual = y - X @ w
        weight = np.where(residual > 0.0, level, level - 1.0)
        parts = np.arange(len(y)) % 4
        values, slopes = np.bincount(parts, weight * residual), np.zeros((4, len(w)))
        np.add.at(slopes, parts, -weight[:, None] * X)
        return values, slopes

    return risk


def filled(bounds):
    """Arrays of lower and upper bounds, infinite where there are none."""
    pair = (None, None) if bounds is None else bounds
    return [np.broadcast_to(none if given is None else given, 4) for given, none in zip(pair, (-np.inf, np.inf))]


def optimum(X, y, level, C, bounds=None):
    w = cp.Variable(X.shape[1])
    residual = y - X @ w
    risk = cp.sum(cp.maximum(level * residual, (level - 1.0) * residual))
    lower, upper = filled(bounds)
    limits = [w[at] >= lower[at] for at in np.flatnonzero(np.isfinite(lower))]
    limits += [w[at] <= upper[at] for at in np.flatnonzero(np.isfinite(upper))]
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + C * risk), limits)
    return cp.solved(problem, 1e-9)


BOUNDS = {
    "free": None,
    "positive": (0.0, None),
    "negative": (None, 0.0),
    "box": (-0.2, np.array([0.1, np.inf, 0.0, 0.5])),
    "away from zero": (0.3, 0.6),
    "equal": (np.array([0.25, -np.inf, -np.inf, 0.0]), np.array([0.25, np.inf, 1.0, 0.0])),
}


@pytest.mark.parametrize("solver", [mm.Bundle(), mm.Bundle(prox=False), mm.Bundle(prox=False, n_models=1)])
@pytest.mark.parametrize("case", BOUNDS)
def test_quantiles_in_boxes(case, solver):
    rng = np.random.default_rng(len(case))
    X = features(rng, 40, 4)
    y, bounds = targets(rng, X), BOUNDS[case]
    result = mm.minimize(pinball(X, y, 0.8), 4, C=0.7, solver=solver, bounds=bounds, tol=1e-6)
    best, (lower, upper) = optimum(X, y, 0.8, 0.7, bounds), filled(bounds)
    assert result.certificate.converged and result.n_iter == result.history[-1].iteration
    assert result.certificate.dual <= best * (1.0 + ROUNDING) and result.certificate.primal >= best * (1.0 - 1e-7)
    assert np.all(result.w >= lower) and np.all(result.w <= upper)
    assert result.certificate.primal == pytest.approx(0.5 * result.w @ result.w + 0.7 * pinball(X, y, 0.8)(result.w)[0].sum())


@given(seed=st.integers(0, 10_000), C=st.floats(1e-2, 1e2), case=st.sampled_from(sorted(BOUNDS)), steps=st.integers(1, 8))
def test_bounds_are_never_overstated(seed, C, case, steps):
    rng = np.random.default_rng(seed)
    X = features(rng, 12, 4)
    y, bounds = targets(rng, X), BOUNDS[case]
    result = mm.minimize(pinball(X, y, 0.3), 4, C=C, bounds=bounds, tol=1e-9, max_iter=steps)
    best = optimum(X, y, 0.3, C, bounds)
    for record in result.history:
        assert record.dual <= best * (1.0 + ROUNDING) + 1e-9 and record.primal >= best * (1.0 - 1e-7) - 1e-9


def test_negative_risks():
    """A risk may be negative, and so may the objective."""
    result = mm.minimize(lambda w: (float(w[0] - 3.0), np.array([1.0, 0.0])), 2, C=2.0, tol=1e-6)
    assert result.certificate.converged and result.certificate.primal == pytest.approx(-8.0)
    assert np.allclose(result.w, [-2.0, 0.0], atol=np.sqrt(2.0 * result.certificate.gap) + 1e-12) and result.n_iter < 20


@pytest.mark.parametrize("n_groups", [1, 3])
def test_every_estimator_is_a_risk(n_groups):
    """The losses of an estimator, minimised as a user's own risk, have the estimator's optimum."""
    rng = np.random.default_rng(0)
    X = features(rng)
    y, real = labels(rng, X, 3), targets(rng, X)
    cases = [
        (mm.SVMClassifier(0.5, tol=1e-5), X, y > 0),
        (mm.SVMClassifier(0.5, tol=1e-5), X, y),
        (mm.SVMRegressor(0.5, tol=1e-5), X, real),
        (mm.TopKSVMClassifier(0.5, k=2, tol=1e-5), X, y),
        (mm.MultilabelSVMClassifier(0.5, tol=1e-5), *multilabel.data()),
        (mm.StructuredSVM(Chain(), 0.5, tol=1e-5), *words()),
        (mm.StructuredSVM(Brackets(), 0.5, tol=1e-5), *bits()),
    ]
    for model, data, target in cases:
        risk = model.risk(data, target, n_groups=n_groups)
        result = mm.minimize(risk, risk.dim, C=model.C, tol=1e-5)
        fitted = model.fit(data, target).certificate_
        assert result.certificate.converged and result.statistics["models"] == n_groups
        assert result.certificate.dual <= fitted.primal * (1.0 + ROUNDING)
        assert fitted.dual <= result.certificate.primal * (1.0 + ROUNDING)
        with pytest.raises(ValueError, match="n_groups must be an integer between"):
            model.risk(data, target, n_groups=1000)
    with pytest.raises(ValueError, match="this risk has"):
        mm.minimize(risk, risk.dim + 1)


# ---- the docs and the examples -------------------------------------------------------------------------------------------------


def test_the_docs_run():
    text = (ROOT / "docs" / "bundle.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        scope: dict = {}
        exec(compile(block, "docs/bundle.md", "exec"), scope)
        assert scope["result"].certificate.converged


def test_the_examples_run(capsys):
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import own_risks
    finally:
        sys.path.pop(0)
    found = own_risks.main()
    assert set(found) == {"ordinal", "auc", "quantile", "precision at k"}
    for name, (result, before, after) in found.items():
        assert result.certificate.converged, name
        assert after > before, name
    assert "gap" in capsys.readouterr().out


# ---- bad oracles ---------------------------------------------------------------------------------------------------------------


def good(w):
    return np.abs(w - 1.0).sum(), np.sign(w - 1.0)


@pytest.mark.parametrize(
    ("risk", "message"),
    [
        (lambda w: (np.nan, w), "NaN or infinity in its value at call 1"),
        (lambda w: (1.0, np.full(3, np.inf)), "NaN or infinity in its subgradient at call 1"),
        (lambda w: (1.0, np.zeros(2)), r"subgradient of shape \(2,\) at call 1"),
        (lambda w: (np.zeros(2), np.zeros((3, 3))), r"subgradient of shape \(3, 3\) at call 1"),
        (lambda w: (np.zeros(0), np.zeros((0, 3))), "at call 1"),
        (lambda w: 1.0, "must return .value, subgradient.; at call 1 it returned float"),
        (lambda w: ("much", w), "must return numbers"),
        (lambda w: (good(w)[0], -good(w)[1]), "not convex, or its subgradient is wrong: its value at call"),
        (
            lambda w: (-float(w @ w) - w[0], -2.0 * w - [1.0, 0.0, 0.0]),
            "not convex, or its subgradient is wrong: its value at call",
        ),
    ],
)
def test_bad_oracles(risk, message):
    with pytest.raises(ValueError, match=message):
        mm.minimize(risk, 3, tol=1e-6)


def test_the_number_of_parts_may_not_change():
    calls = []

    def risk(w):
        calls.append(1)
        values = np.abs(w - 1.0)
        return (values, np.diag(np.sign(w - 1.0))) if len(calls) == 1 else (values.sum(), np.sign(w - 1.0))

    with pytest.raises(ValueError, match="returned 1 values at call 2; 3 are expected"):
        mm.minimize(risk, 3)
    with pytest.raises(ValueError, match="returned 1 values at call 1; 2 are expected"):
        mm.minimize(good, 3, solver=mm.Bundle(n_models=2))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"C": 0.0}, r"'C' parameter of minimize must be a float in the range \(0.0, inf\)"),
        ({"C": -1.0}, r"'C' parameter of minimize must be a float in the range \(0.0, inf\)"),
        ({"C": np.nan}, r"'C' parameter of minimize must be a float in the range \(0.0, inf\)"),
        ({"tol": 0.0}, "'tol' parameter of minimize must be"),
        ({"max_iter": 0}, "'max_iter' parameter of minimize must be an int"),
        ({"max_time": -1.0}, "'max_time' parameter of minimize must be a float .* or None"),
        ({"bounds": 3.0}, "bounds must be a pair"),
        ({"bounds": (0.0, np.zeros(2))}, r"upper bounds have shape \(2,\)"),
        ({"bounds": (1.0, 0.0)}, "bounds of weight 0 cross"),
        ({"bounds": (np.nan, 0.0)}, "lower bounds hold NaN"),
        ({"bounds": (np.inf, None)}, "lower bounds hold inf"),
        ({"bounds": ("low", 0.0)}, "lower bounds must be numbers"),
        ({"dim": 0}, r"'dim' parameter of minimize must be an int in the range \[1, inf\)"),
        ({"dim": 2.0}, r"'dim' parameter of minimize must be an int in the range \[1, inf\)"),
        ({"solver": mm.Bundle(init="sgd")}, "init='sgd' serves neither"),
    ],
)
def test_bad_arguments(kwargs, message):
    with pytest.raises(ValueError, match=message):
        mm.minimize(good, **({"dim": 3} | kwargs))


def test_wrong_kinds():
    with pytest.raises(TypeError, match="risk must be a function"):
        mm.minimize(3.0, 2)
    with pytest.raises(TypeError, match=r"DualCoordinate cannot minimise a risk.*Bundle"):
        mm.minimize(good, 3, solver="dual_coordinate")
