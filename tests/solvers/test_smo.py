"""Sequential minimal optimisation on a copy of the kernel matrix: who moves, and how duals turn to another piece of a loss."""

import numpy as np
import pytest
from helpers import convex as cp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin.losses import EpsilonInsensitiveLoss, HingeLoss, SquaredEpsilonInsensitiveLoss
from maxmargin.losses.base import piece
from maxmargin.solvers.ascent.smo import ABREAST, ScaledSource, State, Workspace, climb, update_slopes
from maxmargin.solvers.ascent.tuning import KERNEL

LOSSES = {
    "absolute": EpsilonInsensitiveLoss(0.0),
    "epsilon": EpsilonInsensitiveLoss(0.2),
    "squared epsilon": SquaredEpsilonInsensitiveLoss(0.2),
}
N, C = 60, 3.0


def problem(loss, seed=0):
    """A kernel matrix with an intercept in it, targets, and the loss as kernels see it"""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 2))
    K = rbf_kernel(X, gamma=1.0) + 1.0
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=N)
    return K, y, loss.of(y, np.full(N, C))


def climbed(K, loss, duals, soft=0.0, rest=1e-4):
    """Duals after one climb over all samples, what the part has in the end, and its pieces; the diagonal of K + soft is the same
    everywhere."""
    size = K[0, 0] + soft
    state = State(duals[None].copy(), (K @ duals)[None], np.full((1, N), K[0, 0]), np.zeros((1, N)))
    everyone, workspace = np.arange(N), Workspace(N)
    part, pieces = workspace.part(N), workspace.pieces(N, loss, 0)
    source = ScaledSource((K / size).astype(np.float32), everyone, everyone.view(np.uint64), pieces)
    climb(loss, 0, state, part, source, rest, KERNEL)
    assert np.allclose(state.change[0], state.duals[0] - duals, atol=1e-12)
    return state.duals[0], part, pieces


def dual_value(kind, K, y, b):
    epsilon, bend = LOSSES[kind].epsilon, 0.25 / C if kind.startswith("squared") else 0.0
    return y @ b - epsilon * np.abs(b).sum() - bend * b @ b - 0.5 * b @ K @ b


def best_value(kind, K, y):
    epsilon, b = LOSSES[kind].epsilon, cp.Variable(N)
    factor = np.linalg.cholesky(K + 1e-12 * np.eye(N))
    value = y @ b - epsilon * cp.norm1(b) - 0.5 * cp.sum_squares(factor.T @ b)
    if kind.startswith("squared"):
        return -cp.solved(cp.Problem(cp.Minimize(-(value - 0.25 / C * cp.sum_squares(b)))))
    return -cp.solved(cp.Problem(cp.Minimize(-value), [cp.abs(b) <= C]))


@pytest.mark.parametrize("start", ["zero", "wrong", "mixed"])
@pytest.mark.parametrize("kind", LOSSES)
def test_duals_change_their_signs_within_a_climb(kind, start):
    """One climb is enough for the optimum, wherever it begins: also where every dual has the sign of the other side."""
    K, y, loss = problem(LOSSES[kind])
    soft = 0.5 / C if kind.startswith("squared") else 0.0
    begin = {"zero": np.zeros(N), "wrong": np.where(y > 0, -1.0, 1.0), "mixed": np.random.default_rng(1).uniform(-C, C, N)}[start]
    found, part, pieces = climbed(K, loss, begin, soft)
    best = best_value(kind, K, y)
    assert dual_value(kind, K, y, found) == pytest.approx(best, rel=1e-3)
    assert start == "zero" or np.any(begin * found < 0.0)
    assert np.all((found >= pieces.lowest) & (found <= pieces.highest))
    slopes = part.slope.reshape(-1)[:N] * np.sqrt(K[0, 0] + soft)
    assert np.allclose(slopes, pieces.linear - pieces.soft * found - K @ found, atol=2e-4)  # they belong to duals and pieces


def test_losses_of_one_piece_have_nothing_to_turn_to():
    K, y, _ = problem(LOSSES["epsilon"])
    loss = HingeLoss().of(np.sign(y), np.ones(N), np.full(N, C))
    found, _, pieces = climbed(K, loss, np.zeros(N))
    assert not pieces.goes_on.any() and np.all(found * np.sign(y) >= 0.0) and np.any(found != 0.0)


def test_a_piece_goes_on_where_another_begins():
    K, _, loss = problem(LOSSES["epsilon"])
    _, _, pieces = climbed(K, loss, np.zeros(N))
    assert pieces.goes_on.all()
    assert {piece(loss, 0, score, 0.0)[0] for score in (-9.0, 9.0)} == {-C, 0.0}


@given(st.integers(0, 10_000))
def test_who_moves(seed):
    """The best of the steps up and the best of those down lie in the vectors that are named, and slopes follow the moves."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 150))
    part = Workspace(n).part(n)
    slope, low, high = (lanes.reshape(-1)[:n] for lanes in (part.slope, part.low, part.high))
    K = rng.normal(size=(n, n)).astype(np.float32)
    part.matrix.reshape(n, -1)[:, :n] = K
    slope[:], low[:], high[:] = rng.normal(size=n), -rng.choice([0.0, 0.3, 9.0], n), rng.choice([0.0, 0.3, 9.0], n)
    i, j, s, t = int(rng.integers(n)), int(rng.integers(n)), 0.3, -0.2
    expected = slope - np.float32(s) * K[i] - np.float32(t) * K[j]
    up, above, down, below = update_slopes(part, i, s, j, t)
    assert np.allclose(slope, expected, atol=1e-5)
    d = np.clip(slope, low, high)
    gains, reach = d * np.abs(slope - 0.5 * d), ABREAST * part.slope.shape[2]
    assert up == pytest.approx(max(gains.max(), 0.0), rel=1e-5) and down == pytest.approx(max(-gains.min(), 0.0), rel=1e-5)
    if up > 0.0:
        assert gains[above * 8 : above * 8 + reach].max() == pytest.approx(up, rel=1e-5)
    if down > 0.0:
        assert gains[below * 8 : below * 8 + reach].min() == pytest.approx(-down, rel=1e-5)
