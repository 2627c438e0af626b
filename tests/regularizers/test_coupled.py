"""The term that couples labels: its values also where R is singular and V is large."""

from fractions import Fraction

import numpy as np
import pytest

from maxmargin.jit import vectors
from maxmargin.regularizers.coupled import Coupling, independent

ROOT = np.array([[1, 0], [0, 1], [1, 1], [2, -1]])
SINGULAR = (ROOT @ ROOT.T).astype(float)


def test_nothing_cancels():
    """V of a size of 1e9 with Z of the order of 1, against exact arithmetic; 1/2 V R V' in float64 is negative."""
    V = 1.1e9 * np.array([[1.0, 1.0, -1.0, 0.0]]) + 7e9 / 3.0 * np.array([[2.0, -1.0, 0.0, -1.0]]) + [0.3, 0.0, 0.0, 0.7]
    exact = [sum(Fraction(v) * int(f) for v, f in zip(V[0].tolist(), column, strict=True)) for column in ROOT.T]
    term = Coupling(SINGULAR)
    packed = vectors.from_classes(V.T, np.float64)
    both = term.unclipped(packed)
    wanted = float(sum(u * u for u in exact)) / 2.0
    assert term.penalty(both) == pytest.approx(wanted, rel=1e-6) and term.dual(packed, both) == -term.penalty(both)
    Z = [float(sum(u * int(f) for u, f in zip(exact, row, strict=True))) for row in ROOT]
    np.testing.assert_allclose(vectors.to_classes(term.scoring(both), 4)[:, 0], Z, rtol=1e-6)


@pytest.mark.parametrize("scale", [np.ones(4), np.array([1e-3, 1.0, 0.0, 1e3])])
def test_the_factor(scale):
    """R = F F' and (inverse) F = I, whatever the rank and the sizes of labels."""
    for R in (SINGULAR, SINGULAR + np.eye(4), np.zeros((4, 4))):
        R = scale[:, None] * R * scale
        own, F = independent(R)
        assert len(own) == F.shape[1] == np.linalg.matrix_rank(R / np.maximum(scale[:, None] * scale, 1e-9))
        np.testing.assert_allclose(F @ F.T, R, atol=1e-14 * np.abs(R).max(initial=1.0))
        np.testing.assert_array_equal(np.triu(F[own], 1), 0.0)
        factor, inverse = Coupling(R).factor
        np.testing.assert_allclose(inverse @ factor, np.eye(len(own)), atol=1e-9)
