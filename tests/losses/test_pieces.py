"""Losses that are quadratic in pieces say what a piece is."""

import numpy as np
import pytest

from maxmargin import losses
from maxmargin.losses.base import BOUNDLESS, clip, piece, reward, step

KINDS = [kind for kind in (*losses.BINARY.values(), *losses.REGRESSION.values()) if kind().quadratic]
CAPS = np.array([0.0, 0.4, 3.0])


def made(kind, rng):
    loss = kind()
    if issubclass(kind, losses.RegressionLoss):
        return loss.of(rng.normal(size=3), CAPS)
    return loss.of(np.where(rng.random(3) < 0.5, -1.0, 1.0), rng.uniform(0.2, 2.0, 3), CAPS)


def test_all_but_the_logistic_loss_are():
    assert {kind.__name__ for kind in losses.BINARY.values()} - {kind.__name__ for kind in KINDS} == {"LogisticLoss"}
    assert set(losses.REGRESSION.values()) <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_reward_is_that_of_the_piece_and_the_best_dual_lies_on_it(kind):
    rng = np.random.default_rng(0)
    for _ in range(200):
        loss, i = made(kind, rng), int(rng.integers(3))
        dual, score = clip(loss, i, rng.choice([0.0, rng.normal(), 5.0 * rng.normal()])), 2.0 * rng.normal()
        low, high, linear, soft = piece(loss, i, score, dual)
        assert low <= dual <= high and (abs(low) < BOUNDLESS or abs(high) == BOUNDLESS or high == 0.0)
        for b in rng.uniform(max(low, -4.0), min(high, 4.0), 3):
            assert reward(loss, i, b) == pytest.approx(linear * b - 0.5 * soft * b * b, abs=1e-12)
        best = step(loss, i, score, dual, 0.7)
        if dual == 0.0 or (low < 0.0 < high):  # else the best dual may be beyond the kink
            assert low <= best <= high
        inside = min(max(dual + (linear - score - soft * dual) / (0.7 + soft), low), high)
        assert min(max(best, low), high) == pytest.approx(inside, abs=1e-12)
