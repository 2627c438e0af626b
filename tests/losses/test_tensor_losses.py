"""Losses of blocks of rows on tensors: steps are best, shares are those of Fenchel and Young, fused kernels say the same."""

import numpy as np
import pytest
import torch
from helpers.devices import DEVICE, methods_of_devices, tensor  # noqa: F401 - a fixture of all tests

from maxmargin import projections
from maxmargin.losses import fused_rows
from maxmargin.losses.tensor_forms import (
    EpsilonForm,
    HingeForm,
    LogisticForm,
    SquaredEpsilonForm,
    SquaredErrorForm,
    SquaredHingeForm,
)
from maxmargin.losses.tensor_levels import Levels
from maxmargin.losses.tensor_multinomial import MultinomialRows, best_probabilities
from maxmargin.losses.tensor_rows import CrammerSingerRows, EntryRows, HeldRows, OneTarget, TopKRows

N, K = 30, 5
FORMS = [HingeForm(), SquaredHingeForm(), SquaredErrorForm(), EpsilonForm(0.3), SquaredEpsilonForm(0.3), LogisticForm()]


def losses(seed=0):
    """A loss of each kind, and how many scores it has."""
    rng = np.random.default_rng(seed)
    label, cap = tensor(rng.integers(0, K, N)), tensor(rng.uniform(0.1, 2.0, N))
    cost = tensor(rng.uniform(0.2, 2.0, (K, K)) * (1 - np.eye(K)))
    sign = tensor(np.where(rng.random(N) < 0.5, -1.0, 1.0))
    offset = tensor(rng.normal(size=N))
    found = {type(form).__name__: (EntryRows(form, OneTarget(sign, offset), cap), 1) for form in FORMS}
    found["crammer singer"] = CrammerSingerRows(label, cap, cost), K
    found["multinomial"] = MultinomialRows(label, cap, None), K
    for joint in (True, False):
        for smoothing in (0.0, 0.4):
            found[f"top-2 {joint} {smoothing}"] = TopKRows(label, cap, None, 2, smoothing, joint), K
    return found


def gains(loss, rows, S, old, new, q):
    """What each row gains by new duals: rewards, less the scores, less the curvature."""
    found = []
    for i in range(len(rows)):
        one, d = rows[i : i + 1], (new - old)[i : i + 1]
        rise = loss.repaired(one, new[i : i + 1])[1] - loss.repaired(one, old[i : i + 1])[1]
        found.append(float(rise - (d * S[i : i + 1]).sum() - 0.5 * q[i] * (d * d).sum()))
    return np.array(found)


@pytest.mark.parametrize("name", losses())
def test_a_step_is_the_best_of_all_feasible_ones(name):
    loss, width = losses()[name]
    rng = np.random.default_rng(1)
    rows, S = tensor(np.arange(N)), tensor(rng.normal(size=(N, width)))
    old = loss.repaired(rows, tensor(rng.normal(size=(N, width))))[0]
    q = tensor(rng.uniform(0.1, 3.0, N))
    found = loss.stepped(rows, S, old, q[:, None])
    best = old + found.change
    again, reward, _ = loss.repaired(rows, best)
    torch.testing.assert_close(again, best, rtol=1e-7, atol=1e-9)  # feasible
    assert float(found.gain.sum()) == pytest.approx(float(reward - loss.repaired(rows, old)[1]), rel=1e-8, abs=1e-8)
    reached = gains(loss, rows, S, old, best, q)
    for size in (1e-3, 1e-1, 2.0):
        other = loss.repaired(rows, best + size * tensor(rng.normal(size=(N, width))))[0]
        assert np.all(gains(loss, rows, S, old, other, q) <= reached + 1e-9)


@pytest.mark.parametrize("name", losses())
def test_shares_are_not_negative_and_sum_to_the_gap(name):
    loss, width = losses()[name]
    rng = np.random.default_rng(2)
    rows, S = tensor(np.arange(N)), tensor(rng.normal(size=(N, width)))
    A, reward, _ = loss.repaired(rows, tensor(rng.normal(size=(N, width))))
    share = loss.stepped(rows, S, A, tensor(np.ones((N, 1)))).share
    assert float(share.min()) >= -1e-12
    gap = float(loss.value(rows, S) - reward + (A * S).sum())
    if name.endswith("0.4"):  # a bound, where the loss is smoothed
        assert float(share.sum()) >= gap - 1e-9
    else:
        assert float(share.sum()) == pytest.approx(gap, rel=1e-9)


@pytest.mark.parametrize("name", losses())
def test_planes_touch_the_losses_and_lie_below_them(name):
    loss, width = losses()[name]
    rng = np.random.default_rng(4)
    rows, S = tensor(np.arange(N)), tensor(2.0 * rng.normal(size=(N, width)))
    A, reward, _ = loss.repaired(rows, loss.attained(rows, S))
    assert float(reward - (A * S).sum()) == pytest.approx(float(loss.value(rows, S)), rel=1e-9)
    for size in (0.1, 3.0):
        other = S + size * tensor(rng.normal(size=(N, width)))
        assert float(reward - (A * other).sum()) <= float(loss.value(rows, other)) * (1 + 1e-12)


def test_probabilities_of_a_step_solve_their_equations():
    rng = np.random.default_rng(5)
    for scale in (1e-6, 1.0, 1e4):
        c, rho = tensor(rng.normal(size=(40, 6)) * min(1.0 + scale, 50.0)), tensor(scale * rng.uniform(0.1, 2.0, (40, 1)))
        p = best_probabilities(c, rho)
        level = p.log() + rho * p - c
        torch.testing.assert_close(p.sum(1), torch.ones_like(p[:, 0]), rtol=1e-13, atol=1e-13)
        spread = (level.amax(1) - level.amin(1)) / (1.0 + c.abs().amax(1))
        assert float(spread.max()) <= 1e-9


@pytest.mark.parametrize("size", [0.0, 1.0, 1e9])
def test_the_loss_of_a_class_that_is_far_ahead_is_exact(size):
    """log(1 + sum exp(-ahead)) of one class and four others, whatever size their scores have."""
    ahead = np.array([-700.0, -30.0, -1.0, 0.0, 1.0, 20.0, 40.0, 200.0])
    S = np.full((len(ahead), K), size)
    S[:, 2] += ahead
    loss = MultinomialRows(tensor(np.full(len(ahead), 2)), tensor(np.ones(len(ahead))), None)
    found = [float(loss.value(tensor(np.array([i])), tensor(S[i : i + 1]))) for i in range(len(ahead))]
    np.testing.assert_allclose(found, np.logaddexp(0.0, np.log(K - 1.0) - ahead), rtol=1e-12)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("k", [1, 3, 6])
def test_levels_are_those_of_the_projections(joint, k):
    rng = np.random.default_rng(k)
    for bias in (0.0, 0.3, 1.0):
        a, radius = rng.normal(size=(20, 7)) * 3.0, rng.uniform(0.1, 9.0, 20)
        found = Levels(k, joint).projected(tensor(a), tensor(radius[:, None]), bias)
        one = projections.topk_simplex if joint else projections.topk_box
        expected = [one(row, k, r, bias) for row, r in zip(a, radius)]
        np.testing.assert_allclose(found.cpu(), expected, rtol=0, atol=1e-10)


def test_fused_rows_say_the_same():
    """On a GPU; elsewhere the plain form is what is asked for."""
    loss, _ = losses()["crammer singer"]
    for cost in (None, loss.cost):
        plain = CrammerSingerRows(loss.label, loss.cap, cost)
        fast = fused_rows.fused(plain, K)
        assert (type(fast) is fused_rows.FusedCrammerSinger) == (DEVICE == "cuda")
        rng = np.random.default_rng(3)
        rows, sigma = tensor(rng.permutation(N)[:20]), tensor(np.array(1.7))
        S, A = tensor(rng.normal(size=(20, K)), torch.float32), tensor(np.zeros((N, K)), torch.float32)
        q = tensor(np.where(np.arange(N) < 4, 0.0, rng.uniform(0.1, 3.0, N)), torch.float32)
        found = []
        for each in (plain, fast):
            held = HeldRows(A, q, None, tensor(np.zeros(N)))
            step = each.step(rows, S, held, sigma)
            found.append(
                (step.change, step.gain.sum(), held.share, each.value(rows, S.double()), *each.repaired(rows, step.change))
            )
        for one, other in zip(*found):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
