"""What must be true of every certificate, and of the model that it speaks of."""

import numpy as np
import pytest

from .reference import Point, Reference

SLACK = 1e-8  # of the objective: how far the convex solver's own point may be from the optimum


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
    assert np.sqrt(distance) <= np.sqrt(max(certificate.gap, 0.0)) + np.sqrt(slack)  # strong convexity


def consistent(model) -> None:
    """The fields of the certificate agree with each other, with tol and with the history."""
    certificate, last = model.certificate_, model.history_[-1]
    assert certificate.verified is True
    assert certificate.gap == certificate.primal - certificate.dual
    assert certificate.relative_gap == pytest.approx(certificate.gap / abs(certificate.primal), rel=1e-15)
    assert certificate.converged == (certificate.relative_gap <= model.tol)
    assert (last.primal, last.dual, last.gap) == (certificate.primal, certificate.dual, certificate.gap)
    assert last.iteration == model.n_iter_
    assert all(isinstance(getattr(certificate, name), float) for name in ("primal", "dual", "gap", "relative_gap"))
    for record in model.history_:
        assert record.gap == record.primal - record.dual
        assert record.gap >= -1e-12 * abs(record.primal)
    seconds, primals = ([getattr(record, name) for record in model.history_] for name in ("seconds", "primal"))
    assert seconds == sorted(seconds)
    assert model.keep_duals or primals == sorted(primals, reverse=True)  # the best so far, unless the duals' own


def recomputed(model, problem: Reference, rel: float = 1e-9) -> None:
    """Primal value, dual value, feasibility of the duals and the way back to the weights, all from scratch."""
    W, b = shaped(model)
    certificate = model.certificate_
    assert problem.primal(W, b) == pytest.approx(certificate.primal, rel=rel)
    assert problem.infeasibility(model.dual_coef_) <= 0.0
    assert model.dual_coef_.dtype == np.float64
    found = problem.dual(model.dual_coef_)
    assert found.value == pytest.approx(certificate.dual, rel=rel)
    size = max(np.abs(W).max(), np.abs(b).max())
    assert np.allclose(found.W, W, rtol=0.0, atol=1e-9 * size) and np.allclose(found.b, b, rtol=0.0, atol=1e-9 * size)
